"""Why spambase comes out otherwise than in the paper: training samples, readings of the kernels, groups, iterations."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.spatial.distance import cdist

import mklref
from mklref._typing import Array
from mklref.algorithms import lp_wrapper, simplemkl
from mklref.datasets import Dataset, encode
from mklref.kernels import ArrayStack
from validation.reproduce.base import CAUSE, Cell
from validation.reproduce.experiments.simplemkl_data import accuracy, standardized
from validation.reproduce.experiments.spambase_parts import constants, counts, drawn, groups_of, parts, pulls, views

FEW, MANY = 1e3, 1e4
"""Where the cross-validation puts C for GKL."""
STEPS = (5, 20, 50, 200)
FURTHER = 20
"""Gradients of SimpleMKL from the first of them."""
JOINED = (1, 9)
"""Splits whose training set is doubled: the first two where a run at C = 1000 had no kernel of the numbers."""
RATES = {
    "exp(-d/width)": lambda width, size: 1.0 / width,
    "exp(-width d)": lambda width, size: width,
    "width times the root of the dimension": lambda width, size: 0.5 / (width**2 * size),
}
"""The factor of the squared distance d, by width and number of variables; ours is 1/(2 width^2)."""
LOGARITHMS = "logarithms of the variables"
"""Another reading, with our factor."""


def cells(config: dict[str, Any]) -> list[Cell]:
    """A few minutes in all; `config` is that of the training sets."""
    shared = {**config, "group": CAUSE}
    return [
        Cell("cause-readings", {**shared, "look": "readings", "parts": [0, 1, 2, 3]}, 60.0),
        Cell("cause-closed-form", {**shared, "look": "closed form", "parts": [0], "C": FEW}, 60.0),
        *(
            Cell(
                f"cause-joined-{k:02d}",
                {**shared, "seed": k, "look": "groups", "parts": [0, 1], "costs": [FEW, MANY]},
                60.0,
            )
            for k in JOINED
        ),
    ]


def cell(config: dict[str, Any]) -> dict[str, Any]:
    """One of the looks."""
    looks = {"readings": _readings, "closed form": _closed_form, "groups": _groups}
    data, tested, rest = drawn(config)
    n = config["train"]
    return looks[config["look"]](data, [rest[k * n : (k + 1) * n] for k in config["parts"]], tested, config)


def _readings(data: Dataset, sets: list[Array], tested: Array, config: dict[str, Any]) -> dict[str, Any]:
    """Best accuracy over C of the mean kernel, by reading of the kernels and training set."""
    return {
        name: [mean_kernel_accuracy(data, rows, tested, config, name) for rows in sets] for name in (*RATES, LOGARITHMS)
    }


def mean_kernel_accuracy(data: Dataset, rows: Array, tested: Array, config: dict[str, Any], reading: str = "") -> float:
    """In %, over C, of the machine on the mean kernel, summed up without holding the kernels; ours by default."""
    values = np.log(data.X + 0.1) if reading == LOGARITHMS else data.X
    X, X_new = standardized(values[rows], values[tested])
    K, K_new = np.zeros((len(X), len(X))), np.zeros((len(X_new), len(X)))
    for view in (view for group in groups_of(data) for view in views(group)):
        squares, squares_new = (cdist(Z[:, view], X[:, view], "sqeuclidean") for Z in (X, X_new))
        for width in config["widths"]:
            rate = RATES.get(reading, _ours)(width, len(view))
            K += np.exp(-rate * squares)
            K_new += np.exp(-rate * squares_new)
    y, _ = encode(data.y)
    problem = mklref.Problem([K / np.trace(K)], y[rows], regularizer=mklref.Fixed(np.ones(1)))
    path = mklref.solve_path(problem, C=config["costs"], tol=1e-3)
    return max(accuracy(s, [K_new / np.trace(K)], y[tested]) for s in path)


def _ours(width: float, size: int) -> float:
    return 0.5 / width**2


def _closed_form(data: Dataset, sets: list[Array], tested: Array, config: dict[str, Any]) -> dict[str, Any]:
    """Steps of MKL's closed form, what they leave, and how far SimpleMKL gets from the first of them."""
    part = parts(data, sets[0], tested, config["widths"])
    problem = mklref.Problem(ArrayStack.trusted(list(part.train)), part.y, C=config["C"], regularizer=mklref.Lp(1))
    found: dict[str, Any] = {}
    for steps in STEPS:
        solution = lp_wrapper(problem, tol=1e-9, max_iter=steps)
        weights = solution.weights
        found[str(steps)] = {
            "kernels": sum(counts(weights, part.groups)),
            "smallest": float(weights[weights > 0.0].min() / weights.max()),
            "gap": solution.certificate.relative_gap,
            "accuracy": accuracy(solution, part.new, part.y_new),
        }
        if steps == STEPS[0]:
            went = simplemkl(problem, tol=1e-3, max_iter=FURTHER, start=solution)
            found["simplemkl from there"] = {
                "gap": went.certificate.relative_gap,
                "kernels": sum(counts(went.weights, part.groups)),
                "largest change": float(np.abs(went.weights - weights).max() / weights.max()),
                "status": went.status.name,
            }
    return found


def _groups(data: Dataset, sets: list[Array], tested: Array, config: dict[str, Any]) -> dict[str, Any]:
    """Which groups GKL keeps on joined training sets, with the C that single ones choose."""
    rows = np.concatenate(sets)
    part = parts(data, rows, tested[:1], config["widths"])
    regularizer = mklref.Groups(part.groups, 0.5, 0.5)
    problem = mklref.Problem(ArrayStack.trusted(list(part.train)), part.y, regularizer=regularizer)
    found: dict[str, Any] = {"n": len(rows), "constants": constants(data, rows)}
    path = mklref.solve_path(problem, C=config["costs"], tol=1e-6)
    found["solutions"] = [
        {
            "C": C,
            "by group": counts(solution.weights, part.groups),
            "pulls": pulls(solution.dual_coef, part.train, part.groups),
            "gap": solution.certificate.relative_gap,
        }
        for C, solution in zip(config["costs"], path, strict=True)
    ]
    return found
