"""SimpleMKL Table 2 and Figure 4: approximate regularisation paths."""

from __future__ import annotations

import time
from functools import partial
from typing import Any

import numpy as np

import mklref
from mklref.algorithms import regularization_path, silp, simplemkl
from validation.reproduce.base import Cell, Evidence, Experiment, Picture, Result, Summary
from validation.reproduce.experiments.simplemkl_data import PUBLISHED, QUICK, SIZES, kernels, split, two_classes
from validation.reproduce.pictures import figure

PROTOCOL = """
The data, splits and kernels of Table 1; hinge loss; C evenly spaced on a logarithmic scale from 1000 down to 0.01,
each solution the start of the next; gap 0.01; seconds for the whole path, mean of 10 runs.

The paper does not print how many values of C it takes; section 5.2 takes 20 on the same interval, and so does this.
SILP is given the weights and dual variables of the solution before as well. On sonar the paper ran SILP once, and so
it is listed here. The ratios compare runs on the same splits.
"""

SOLVERS = {"SimpleMKL": simplemkl, "SILP": silp, "solve": mklref.solve}
COSTS = np.geomspace(1000.0, 0.01, 20)
TOL = 0.01
SECONDS = {
    "liver": (15.0, 10.0, 2.0),
    "pima": (20.0, 40.0, 5.0),
    "wpbc": (40.0, 60.0, 10.0),
    "ionosphere": (60.0, 120.0, 20.0),
    "sonar": (150.0, 1500.0, 30.0),
    QUICK: (2.0, 2.0, 0.5),
}
"""Of one path, by solver."""
DRAWN = ("pima", "wpbc", QUICK)
"""Sets of Figure 4."""
SELECTED = 1e-8


def cells(quick: bool) -> list[Cell]:
    """One for each run, data set and solver."""
    sets, runs = ((QUICK,), 1) if quick else (PUBLISHED, 10)
    return [
        Cell(
            f"{name}-{seed:02d}-{solver.lower()}",
            {"data": name, "train": SIZES[name][0], "seed": seed, "solver": solver, "costs": len(COSTS)},
            SECONDS[name][number],
        )
        for seed in range(runs)
        for name in sorted(sets, key=lambda name: SECONDS[name])
        for number, solver in enumerate(SOLVERS)
        if not (name == "sonar" and solver == "SILP" and seed > 0)
    ]


def cell(config: dict[str, Any]) -> dict[str, Any]:
    """One path."""
    parts = split(two_classes(config["data"]), config["seed"], config["train"])
    train, _ = kernels(parts)
    problem = mklref.Problem(train, parts.y)
    began = time.perf_counter()
    path = regularization_path(problem, C=COSTS.tolist(), solver=partial(SOLVERS[config["solver"]]), tol=TOL)
    seconds = time.perf_counter() - began
    counters = [solution.history.counters for solution in path.solutions]
    values: dict[str, Any] = {
        "seconds": round(seconds, 3),
        "kernels": np.count_nonzero(path.weights > SELECTED, axis=1).tolist(),
        "SVM": [counts.get("svm", counts.get("machines")) for counts in counters],
        "gradients": [counts.get("gradient") for counts in counters],
        "gap": path.relative_gap.tolist(),
        "objective": path.objective.tolist(),
    }
    if config["seed"] == 0 and config["data"] in DRAWN and config["solver"] == "SimpleMKL":
        shown = np.argsort(-path.weights.max(axis=0))[:12]
        values["weights"] = np.round(path.weights[:, shown], 4).T.tolist()
    return values


def summary(results: list[Result]) -> Summary:
    """Table 2, its ratios, Figure 4."""
    found = {(r.config["data"], r.config["solver"], r.config["seed"]): r for r in results}
    rows: dict[str, dict[str, list[float]]] = {}
    for (name, solver, seed), result in found.items():
        row = rows.setdefault(name, {})
        row.setdefault(solver, []).append(result.values["seconds"])
        simple = found.get((name, "SimpleMKL", seed))
        if solver == "SILP" and simple:
            row.setdefault("SILP / SimpleMKL", []).append(result.values["seconds"] / simple.values["seconds"])
            gradients = [sum(side.values["gradients"]) for side in (result, simple)]
            row.setdefault("gradients, ratio", []).append(gradients[0] / gradients[1])
        if solver == "solve" and simple:
            row.setdefault("SimpleMKL / solve", []).append(simple.values["seconds"] / result.values["seconds"])
    drawn = [result for result in results if "weights" in result.values]
    pictures = {"path": _picture(drawn)} if drawn else {}
    return Summary({"table2": rows}, _claims(rows, drawn), pictures)


def _claims(rows: dict[str, dict[str, list[float]]], drawn: list[Result]) -> dict[str, Evidence]:
    claims = {}
    for claim, column in (("faster", "SILP / SimpleMKL"), ("fewer-gradients", "gradients, ratio")):
        ratios = {name: float(np.mean(row[column])) for name, row in rows.items() if column in row}
        if ratios:
            shown = ", ".join(f"{name} {ratio:.2g}" for name, ratio in ratios.items())
            claims[claim] = Evidence(min(ratios.values()) > 1.0, f"{column}: {shown}")
    if drawn:
        shapes = {r.config["data"]: r.values["kernels"] for r in drawn}
        holds = all(shape[-1] < max(shape) and min(shape[10:]) < 0.7 * max(shape) for shape in shapes.values())
        text = "; ".join(
            f"{name}: {shape[0]} kernels at C = 1000, at most {max(shape)}, {shape[-1]} at C = 0.01"
            for name, shape in shapes.items()
        )
        claims["shape"] = Evidence(holds, text)
    return claims


def _picture(drawn: list[Result]) -> Picture:
    drawing, axes = figure(8.4, 4.4, rows=2, columns=len(drawn))
    for column, result in enumerate(drawn):
        for weights in result.values["weights"]:
            axes[0, column].semilogx(COSTS, weights)
        axes[0, column].set(title=result.config["data"], xlabel="C", ylabel="weight")
        axes[1, column].semilogx(COSTS, result.values["kernels"], "o-", ms=3)
        axes[1, column].set(xlabel="C", ylabel="selected kernels", ylim=(0, None))
    return Picture(drawing, "As Figure 4: the twelve largest weights and the number of kernels along one path.")


EXPERIMENT = Experiment(
    "simplemkl-path", "SimpleMKL Table 2 and Figure 4", PROTOCOL, cells, cell, summary, data=PUBLISHED
)
