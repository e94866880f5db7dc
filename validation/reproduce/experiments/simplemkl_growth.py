"""SimpleMKL Figure 5: how the time grows with the number of kernels and of samples."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from matplotlib.ticker import NullLocator
from scipy.spatial.distance import cdist

import mklref
from mklref._typing import Array
from mklref.algorithms import silp, simplemkl
from validation.reproduce.base import (
    LEVEL,
    Cell,
    Evidence,
    Experiment,
    Picture,
    Result,
    Summary,
    holm,
    one_sided,
    timed,
)
from validation.reproduce.expected import bound
from validation.reproduce.experiments.simplemkl_data import (
    Reached,
    data_set,
    positive_against_rest,
    reached,
    standardized,
)
from validation.reproduce.pictures import figure, plain_logarithmic

PROTOCOL = """
Gaussian kernels on random subsets of the variables with random widths, computed beforehand; gap 0.01; the time of
SimpleMKL for a growing number of kernels on a fixed training set, and for a growing training set with 10 kernels;
means of 15 draws, the
paper's of 20.

The text of the paper does not name its sets, sizes or distributions. Here: pima, ionosphere, yeast (CYT against the
rest) and spambase; subsets of half of the variables on average, widths log-uniform between 0.5 and 20, unit trace, C =
100; 250 samples for 10 to 160 kernels, and for 10 kernels nearly all samples, then each time half of them. An exponent
is the slope of log seconds against log size for one draw; every draw has its own data and kernels, smaller problems
are parts of larger.
"""

SOLVERS = {
    "SimpleMKL": partial(simplemkl, tol=0.01),
    "SILP": partial(silp, tol=0.01),
    "solve": partial(mklref.solve, tol=0.01),
}
SETS = ("pima", "ionosphere", "yeast", "spambase")
QUICK = "breast_cancer"
KERNELS = (10, 20, 40, 80, 160)
SAMPLES = {
    "pima": (95, 190, 380, 760),
    "ionosphere": (85, 170, 340),
    "yeast": (185, 370, 740, 1480),
    "spambase": (400, 800, 1600, 3200),
    QUICK: (50, 100, 200),
}
FIXED_SAMPLES, FIXED_KERNELS = 250, 10
DRAWS = 15
NEARLY = bound("simplemkl_growth", "nearly_low"), bound("simplemkl_growth", "nearly_high")
"""Exponents that we take for nearly linear."""


def cells(quick: bool) -> list[Cell]:
    """One for each draw, data set and direction of growth."""
    sets, kernels, samples = ((QUICK,), (10, 20, 40), 60) if quick else (SETS, KERNELS, FIXED_SAMPLES)
    return [
        Cell(
            f"{name}-{growing}-{seed:02d}",
            {"data": name, "growing": growing, "sizes": list(sizes), "fixed": fixed, "seed": seed},
            20.0 if name == "spambase" and growing == "samples" else 3.0,
        )
        for seed in range(1 if quick else DRAWS)
        for name in sets
        for growing, sizes, fixed in (("kernels", kernels, samples), ("samples", SAMPLES[name], FIXED_KERNELS))
    ]


def cell(config: dict[str, Any]) -> dict[str, Any]:
    """One draw: seconds and SVM evaluations of every solver for every size."""
    rng = np.random.default_rng(config["seed"])
    by_kernels, sizes, fixed = config["growing"] == "kernels", config["sizes"], config["fixed"]
    n, M = (fixed, max(sizes)) if by_kernels else (max(sizes), fixed)
    data = data_set(config["data"])
    y = positive_against_rest(data)
    rows = rng.permutation(len(y))[:n]
    (X, _), y = standardized(data.X[rows], data.X[:0]), y[rows]
    stack = random_gaussians(X, M, rng)
    values: dict[str, Any] = {name: {"seconds": [], "SVM": [], "gap": []} for name in SOLVERS}
    for size in sizes:
        part = stack[:size] if by_kernels else stack[:, :size, :size]
        part = part / np.trace(part, axis1=1, axis2=2)[:, None, None]
        problem = mklref.Problem(part, y if by_kernels else y[:size], C=100.0)
        for name, solver in SOLVERS.items():
            seconds, solution = timed(partial(solver, problem))
            values[name]["seconds"].append(round(seconds, 4))
            counters = solution.history.counters
            values[name]["SVM"].append(counters.get("svm", counters.get("machines")))
            values[name]["gap"].append(solution.certificate.relative_gap)
    return values


def random_gaussians(X: Array, M: int, rng: np.random.Generator) -> Array:
    """M Gaussian kernels on random subsets of the variables (one at least), widths log-uniform on [0.5, 20]."""
    stack = np.empty((M, len(X), len(X)))
    for K in stack:
        chosen = rng.random(X.shape[1]) < 0.5
        chosen[rng.integers(X.shape[1])] = True
        width = np.exp(rng.uniform(np.log(0.5), np.log(20.0)))
        np.exp(-cdist(X[:, chosen], X[:, chosen], "sqeuclidean") / (2.0 * width**2), out=K)
    return stack


def summary(results: list[Result]) -> Summary:
    """Exponents, and Figure 5."""
    tables: dict[str, dict[str, dict[str, list[float]]]] = {"kernels": {}, "samples": {}}
    for result in results:
        row = tables[result.config["growing"]].setdefault(result.config["data"], {})
        for name in SOLVERS:
            row.setdefault(name, []).append(_slope(result, name, "seconds"))
            row.setdefault(f"{name}, s", []).append(result.values[name]["seconds"][-1])
    claims = {}
    if results:
        claims["gaps"] = reached(
            [Reached(f"{r.id}, {name}", max(r.values[name]["gap"]), 0.01) for r in results for name in SOLVERS]
        )
    linear, superlinear = (
        {name: np.array(row["SimpleMKL"]) for name, row in tables[growing].items()} for growing in tables
    )
    if linear:
        claims["linear-in-kernels"] = nearly_linear(linear)
    if superlinear:
        claims["superlinear-in-samples"] = above_linear(superlinear)
    pictures = {"growth": growth_picture(results, list(SOLVERS))} if results else {}
    return Summary(tables, claims, pictures, _measured(results))


def nearly_linear(slopes: dict[str, Array]) -> Evidence:
    """Whether the mean exponents are between two bounds with all of two standard errors."""
    means = {name: (float(found.mean()), _error(found)) for name, found in slopes.items()}
    holds = all(NEARLY[0] <= mean - error and mean + error <= NEARLY[1] for mean, error in means.values())
    shown = ", ".join(f"{name} {mean:.2f} ± {error:.2f}" for name, (mean, error) in means.items())
    return Evidence(holds, f"exponents with two standard errors: {shown}; {NEARLY[0]} to {NEARLY[1]} allowed (ours)")


def above_linear(slopes: dict[str, Array]) -> Evidence:
    """Whether the mean exponent is above 1 on every set: one-sided t tests, adjusted by Holm."""
    values = holm([one_sided(1.0 - found) if len(found) > 1 else 1.0 for found in slopes.values()])
    shown = ", ".join(
        f"{name} {found.mean():.2f} (p = {p:.1g})" for (name, found), p in zip(slopes.items(), values, strict=True)
    )
    return Evidence(bool(values.max() < LEVEL), f"exponents: {shown}; one-sided t tests against 1, adjusted by Holm")


def _error(found: Array) -> float:
    return 2.0 * float(found.std(ddof=1)) / len(found) ** 0.5 if len(found) > 1 else 0.0


def _slope(result: Result, solver: str, quantity: str) -> float:
    """The exponent of seconds, of SVM evaluations, or of the seconds of one of them ("price")."""
    values = result.values[solver]
    found = np.divide(values["seconds"], values["SVM"]) if quantity == "price" else values[quantity]
    return float(np.polyfit(np.log(result.config["sizes"]), np.log(found), 1)[0])


def _measured(results: list[Result]) -> dict[str, str]:
    """The figures of the cause: how much of an exponent is the number of machines, and how much their price."""
    grown = [result for result in results if result.config["growing"] == "samples" and result.config["data"] in SETS]
    if not grown:
        return {}

    by_set = {name: [r for r in grown if r.config["data"] == name] for name in SETS}

    def slopes(solver: str, quantity: str) -> dict[str, list[float]]:
        return {name: [_slope(r, solver, quantity) for r in runs] for name, runs in by_set.items()}

    def means(solver: str, quantity: str) -> str:
        return ", ".join(f"{name} {np.mean(found):.2f}" for name, found in slopes(solver, quantity).items())

    def price(solver: str, place: int) -> str:
        """Milliseconds of an SVM evaluation, by set."""
        found = {
            name: [np.divide(*(r.values[solver][q][place] for q in ("seconds", "SVM"))) for r in runs]
            for name, runs in by_set.items()
        }
        return ", ".join(f"{name} {1e3 * np.median(values):.2g}" for name, values in found.items())

    deviations = [np.std(found, ddof=1) for found in slopes("SimpleMKL", "seconds").values()]
    return {
        "machines": means("SimpleMKL", "SVM"),
        "price": means("SimpleMKL", "price"),
        "least": price("SimpleMKL", 0),
        "most": price("SimpleMKL", -1),
        "deviation": f"{min(deviations):.1f} to {max(deviations):.1f}",
        "silp": means("SILP", "seconds"),
        "native": means("solve", "seconds"),
        "native-price": means("solve", "price"),
    }


def growth_picture(results: list[Result], solvers: list[str]) -> Picture:
    """Mean seconds of every solver."""
    sets = list(dict.fromkeys(result.config["data"] for result in results))
    drawing, axes = figure(8.4, 4.6, rows=2, columns=len(sets))
    for i, growing in enumerate(("kernels", "samples")):
        for j, name in enumerate(sets):
            ax = axes[i, j]
            chosen = [r for r in results if r.config["data"] == name and r.config["growing"] == growing]
            ax.set(title=name, xlabel=growing, ylabel="seconds" if j == 0 else "")
            if not chosen:
                continue
            for solver in solvers:
                mean = np.mean([result.values[solver]["seconds"] for result in chosen], axis=0)
                ax.loglog(chosen[0].config["sizes"], mean, "o-", ms=3, label=solver)
            plain_logarithmic(ax.yaxis)
            ax.set_xticks(chosen[0].config["sizes"], chosen[0].config["sizes"], minor=False)
            ax.xaxis.set_minor_locator(NullLocator())
    drawing.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside upper left", ncols=len(solvers))
    caption = (
        "As Figure 5: mean seconds against the number of kernels (above) and of samples (below); both axes logarithmic."
    )
    return Picture(drawing, caption)


EXPERIMENT = Experiment("simplemkl-growth", "SimpleMKL Figure 5", PROTOCOL, cells, cell, summary, data=SETS)
