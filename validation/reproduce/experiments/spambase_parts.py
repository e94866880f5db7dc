"""The samples and kernels of Szafranski's spambase, and what becomes of a group at the optimum."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from mklref._typing import Array
from mklref.datasets import Dataset, encode, load
from mklref.kernels import gaussian
from validation.reproduce.experiments.simplemkl_data import standardized

SPAM = "spambase"
QUICK = "breast_cancer"
GROUPS = ("words", "numbers", "characters", "capitals")
NUMBERS = ("000", "85", "415", "650", "857", "1999")
SELECTED = 1e-8
"""Of the largest weight: kernels above it are counted."""
TESTED = 1381
METHODS = ("SVM", "MKL", "GKL")
SIMPLEMKL, WRAPPER = "MKL, SimpleMKL", "GKL, wrapper"
"""The paper's algorithms; the methods by themselves are certified solutions of the native solver."""
GAP = 1e-3
GRADIENTS = 100
"""Gradients after which SimpleMKL ends, whatever its gap: a limit that means the same on every machine."""


class Parts(NamedTuple):
    """One training set with its kernels, and the kernels of the test set with it."""

    train: Array
    y: Array
    new: Array
    y_new: Array
    groups: list[list[int]]


def drawn(config: dict[str, Any]) -> tuple[Dataset, Array, Array]:
    """The data, the samples that test, and the others in the order of the training sets."""
    data = load(config["data"])
    order = np.random.default_rng(config["seed"]).permutation(len(data.y))
    tested = order[: TESTED if data.name == SPAM else 200]
    return data, tested, order[len(tested) :]


def groups_of(data: Dataset) -> list[list[int]]:
    """The variables of each group."""
    if data.name == QUICK:  # mean, error and worst value of ten quantities
        return [list(range(start, start + 10)) for start in (0, 10, 20)]
    numbers = [f"word_freq_{number}" for number in NUMBERS]
    kinds = [
        1 if name in numbers else ("word", "", "char", "capital").index(name.partition("_")[0])
        for name in data.features
    ]
    return [[j for j, kind in enumerate(kinds) if kind == group] for group in range(4)]


def views(group: list[int]) -> list[list[int]]:
    """All variables of a group, then each one."""
    return [group, *([j] for j in group)]


def parts(data: Dataset, rows: Array, tested: Array, widths: list[float]) -> Parts:
    """The kernels of one training set."""
    X, X_new = standardized(data.X[rows], data.X[tested])
    y, _ = encode(data.y)
    blocks = [[gaussian(widths).fit(X[:, view]) for view in views(group)] for group in groups_of(data)]
    stacks = [
        (stack, view)
        for group, fits in zip(groups_of(data), blocks, strict=True)
        for stack, view in zip(fits, views(group), strict=True)
    ]
    train = np.concatenate([stack.dense() for stack, _ in stacks]) / len(rows)
    new = np.concatenate([stack.new(X_new[:, view]) for stack, view in stacks]) / len(rows)
    sizes = np.cumsum([0, *(len(widths) * len(fits) for fits in blocks)])
    groups = [list(range(a, b)) for a, b in pairwise(sizes)]
    return Parts(train, y[rows], new, y[tested], groups)


def constants(data: Dataset, rows: Array) -> list[int]:
    """How many variables of each group do not vary in a training set; their kernels are useless beside an intercept."""
    return [int(np.sum(np.ptp(data.X[np.ix_(rows, group)], axis=0) == 0.0)) for group in groups_of(data)]


def counts(weights: Array, groups: list[list[int]]) -> list[int]:
    """Kernels of each group above `SELECTED`."""
    return [int(np.count_nonzero(weights[group] > SELECTED * weights.max())) for group in groups]


def pulls(dual_coef: Array, train: Array, groups: list[list[int]]) -> list[float]:
    """How near each group is to a weight with p = q = 1/2, of the nearest one; groups below 1 have weight 0.

    With D_m = beta'K_m beta, sum_l sigma1_l^(1/2) sum_m sigma2_m^(1/2) D_m is at most the largest ||D_l||/sqrt(d_l),
    by Cauchy's inequality within each group and then among them; only groups that attain it get a share.
    """
    D = np.array([dual_coef @ K @ dual_coef for K in train])
    pull = np.array([np.linalg.norm(D[group]) / np.sqrt(len(group)) for group in groups])
    return [round(float(value), 6) for value in pull / pull.max()]
