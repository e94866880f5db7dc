"""Cells beside Table 1 of SimpleMKL: what its causes are about, on some splits."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

import mklref
from mklref.algorithms import gradient_descent, silp, simplemkl
from mklref.datasets import Dataset
from mklref.kernels import gaussian, per_variable, polynomial
from mklref.kernels.families import SIMPLEMKL_DEGREES
from validation.reproduce.base import Cell
from validation.reproduce.experiments.simplemkl_data import SIZES, Parts, kernels, parts_of, split, two_classes

SELECTED = 1e-8
WIDTHS = {"0.1 to 10": (0.1, 10.0), "0.3 to 30": (0.3, 30.0), "1 to 10": (1.0, 10.0)}
"""Other intervals of ten widths, evenly spaced on a logarithmic scale."""
SPLITS, STRATA = 3, 20
OTHERS: dict[str, Callable[[mklref.Problem], Any]] = {
    "SILP": partial(silp, tol=0.01),
    "SimpleMKL": partial(simplemkl, tol=0.01),
    "solve, 1e-6": partial(mklref.solve, tol=1e-6),
}


def cause_cells() -> list[Cell]:
    """Other widths and half the gap on pima, and stratified splits of wpbc."""
    pima = {"data": "pima", "train": SIZES["pima"][0], "group": "cause"}
    wpbc = {"data": "wpbc", "train": SIZES["wpbc"][0], "group": "cause"}
    widths = [
        Cell(
            f"cause-pima-widths-{name.replace(' ', '-')}-{seed:02d}",
            {**pima, "seed": seed, "about": "widths", "between": list(ends)},
            6.0,
        )
        for name, ends in WIDTHS.items()
        for seed in range(SPLITS)
    ]
    half = [Cell(f"cause-pima-half-{seed:02d}", {**pima, "seed": seed, "about": "half"}, 8.0) for seed in range(SPLITS)]
    strata = [
        Cell(f"cause-wpbc-strata-{seed:02d}", {**wpbc, "seed": seed, "about": "strata"}, 1.0) for seed in range(STRATA)
    ]
    return widths + half + strata


def cause_cell(config: dict[str, Any]) -> dict[str, Any]:
    """One of them."""
    return {"widths": _widths, "half": _half, "strata": _strata}[config["about"]](config)


def _widths(config: dict[str, Any]) -> dict[str, Any]:
    """The numbers of kernels with other Gaussian widths."""
    parts = split(two_classes(config["data"]), config["seed"], config["train"])
    low, high = config["between"]
    family = gaussian(np.geomspace(low, high, 10).tolist()) + polynomial(SIMPLEMKL_DEGREES)
    train = (family + per_variable(family)).fit(parts.X, normalize="trace").dense()
    problem = mklref.Problem(train, parts.y, C=100.0)
    return {name: _facts(algorithm(problem)) for name, algorithm in OTHERS.items()}


def _half(config: dict[str, Any]) -> dict[str, Any]:
    """Plain gradient descent at half the gap."""
    parts = split(two_classes(config["data"]), config["seed"], config["train"])
    problem = mklref.Problem(kernels(parts)[0], parts.y, C=100.0)
    return {"Grad. Desc., 0.005": _facts(gradient_descent(problem, tol=0.005, max_iter=2000))}


def _strata(config: dict[str, Any]) -> dict[str, Any]:
    """The accuracy with a split at random and with one that keeps the shares of the classes."""
    data = two_classes(config["data"])
    random, kept = (
        split(data, config["seed"], config["train"]),
        stratified(data, config["seed"], config["train"]),
    )
    return {name: _accuracy(parts) for name, parts in (("random", random), ("stratified", kept))}


def stratified(data: Dataset, seed: int, train: int) -> Parts:
    """As `split`, with the classes in both parts as they are in the whole, as far as whole samples go."""
    rng = np.random.default_rng(seed)
    classes, counts = np.unique(data.y, return_counts=True)
    first = round(train * counts[0] / counts.sum())
    takes = (first, train - first)
    rows = [rng.permutation(np.flatnonzero(data.y == label)) for label in classes]
    chosen = [
        np.concatenate(side) for side in zip(*(np.split(r, [k]) for r, k in zip(rows, takes, strict=True)), strict=True)
    ]
    return parts_of(data, chosen[0], chosen[1])


def _accuracy(parts: Parts) -> dict[str, float]:
    """Of the optimum, and of the answer that everything is of the larger class."""
    train, new = kernels(parts)
    solution = mklref.solve(mklref.Problem(train, parts.y, C=100.0), tol=0.01)
    larger = 1.0 if np.mean(parts.y) > 0.0 else -1.0
    return {
        "accuracy": 100.0 * float(np.mean(np.sign(solution.decision_function(new)) == parts.y_new)),
        "larger class": 100.0 * float(np.mean(parts.y_new == larger)),
        "gap": solution.certificate.relative_gap,
    }


def _facts(solution: Any) -> dict[str, Any]:
    counters = solution.history.counters
    return {
        "kernels": int(np.count_nonzero(solution.weights > SELECTED)),
        "SVM": counters.get("svm", counters.get("machines")),
        "gradients": counters.get("gradient"),
        "gap": solution.certificate.relative_gap,
    }
