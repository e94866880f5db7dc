"""Structures times capabilities: what can be special about data, for every kind of narrow solver.

A solver with the hinge loss, p > 1 and an intercept, and nothing else, meets each structure as well as one that solves
everything. The problems are small: 16 samples, and three kernels where there is more than one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from mklref._typing import Array
from mklref.losses import as_loss
from mklref.problem import Problem
from mklref.regularizers import Lp
from mklref.testing.case import enter
from mklref.testing.cases.data import kernels, problem, samples, told

N = 16


HINGE, SQUARED, SVR = ({"loss": as_loss(loss)} for loss in ("hinge", "squared", "epsilon_insensitive:0.15"))
L1, L2 = ({"regularizer": Lp(p)} for p in (1, 2))
FREE: dict[str, Any] = {"intercept": False}
ONE: dict[str, Any] = {"M": 1}

CAPABILITIES: dict[str, dict[str, Any]] = {
    "hinge-l1": {**HINGE, **L1},
    "hinge-p-4-over-3": {**HINGE, "regularizer": Lp(4 / 3)},
    "hinge-l2": {**HINGE, **L2},
    "hinge-p-4": {**HINGE, "regularizer": Lp(4)},
    "hinge-l1-no-intercept": {**HINGE, **L1, **FREE},
    "hinge-l2-no-intercept": {**HINGE, **L2, **FREE},
    "squared-l1": {**SQUARED, **L1},
    "squared-l2": {**SQUARED, **L2},
    "squared-l1-no-intercept": {**SQUARED, **L1, **FREE},
    "squared-l2-no-intercept": {**SQUARED, **L2, **FREE},
    "svr-l1": {**SVR, **L1},
    "svr-l2": {**SVR, **L2},
    "svm": {**HINGE, **L1, **ONE},
    "svm-no-intercept": {**HINGE, **L1, **FREE, **ONE},
    "svr": {**SVR, **L1, **ONE},
    "ridge-regression": {**SQUARED, **L1, **ONE},
}
"""What a solver is meant for, as arguments of a problem."""

Change = Callable[[np.random.Generator, Array], dict[str, Any]]
"""From kernels (M, n, n) to what is special: arguments of a problem."""

STRUCTURES: dict[str, tuple[str, str, Change]] = {
    "generic": ("Generic data.", "ordinary", lambda rng, K: {}),
    "another-C": ("C = 0.3.", "ordinary", lambda rng, K: {"C": 0.3}),
    "sample-weight": (
        "Weights of samples between 0.2 and 3.",
        "sample-weight",
        lambda rng, K: {"sample_weight": rng.uniform(0.2, 3.0, size=N)},
    ),
    "small-C": ("C = 1e-3.", "C-small", lambda rng, K: {"C": 1e-3}),
    "large-C": ("C = 1e4.", "C-large", lambda rng, K: {"C": 1e4}),
    "rank-one": ("Kernels u u'.", "degenerate rank-one", lambda rng, K: {"K": _outer(rng.normal(size=(len(K), N)))}),
    "low-rank": (
        "Kernels of rank 4.",
        "degenerate low-rank",
        lambda rng, K: {"K": (lambda F: F @ F.transpose(0, 2, 1))(rng.normal(size=(len(K), N, 4)))},
    ),
    "zero-kernel": (
        "A kernel of zeros is added.",
        "degenerate zero-kernel non-unique-weights",
        lambda rng, K: {"K": np.concatenate([K, 0.0 * K[:1]])},
    ),
    "duplicated-kernel": (
        "A kernel occurs twice.",
        "degenerate duplicated-kernel ties non-unique-weights",
        lambda rng, K: {"K": np.concatenate([K, K[:1]])},
    ),
    "constant-kernel": (
        "A constant kernel is added.",
        "degenerate constant-kernel",
        lambda rng, K: {"K": np.concatenate([K, 0.0 * K[:1] + 0.8])},
    ),
    "near-duplicates": (
        "Every second sample is nearly the one before.",
        "degenerate low-rank",
        lambda rng, K: {"K": _pairs(K) + 1e-6 * np.eye(N)},
    ),
    "duplicated-samples": (
        "Every second sample is the one before.",
        "degenerate duplicated-samples low-rank",
        lambda rng, K: {"K": _pairs(K)},
    ),
    "mixed-scales": (
        "Kernels of scale 1e-3, 1 and 1e3.",
        "mixed-scales",
        lambda rng, K: {"K": K * np.array([1e-3, 1.0, 1e3])[: len(K), None, None], "C": 1.0},
    ),
    "huge-kernels": ("Kernels times 1e6.", "huge-scale", lambda rng, K: {"K": 1e6 * K, "C": 2e-6}),
    "tiny-kernels": ("Kernels over 1e6.", "tiny-scale", lambda rng, K: {"K": 1e-6 * K, "C": 2e6}),
    "float32": (
        "Kernels in single precision.",
        "float32",
        lambda rng, K: {"K": (K + 0.01 * np.eye(N)).astype(np.float32)},
    ),
    "many-kernels": (
        "More kernels than samples.",
        "many-kernels",
        lambda rng, K: {"K": kernels(rng, samples(rng, N), 20)},
    ),
    "shifted": ("A constant is added to all kernels.", "ordinary", lambda rng, K: {"K": K + 5.0}),
    "diagonal": (
        "Nearly diagonal kernels.",
        "ordinary",
        lambda rng, K: {"K": 0.05 * K + rng.uniform(0.5, 1.5, len(K))[:, None, None] * np.eye(N)},
    ),
    "unbalanced": (
        "Two samples of one class.",
        "unbalanced",
        lambda rng, K: {"y": np.where(np.arange(N) < 2, 1.0, -1.0)},
    ),
    "outlier": ("One target far off.", "", lambda rng, K: {"y": rng.normal(size=N) + 20.0 * (np.arange(N) == 3)}),
}
"""A statement, flags, and the change."""


def _outer(vectors: Array) -> Array:
    return vectors[:, :, None] * vectors[:, None, :]


def _pairs(K: Array) -> Array:
    rows = np.arange(N) // 2 * 2
    return np.asarray(K[:, rows][:, :, rows])


def _enter(structure: str, capability: str) -> None:
    (statement, flags, change), given = STRUCTURES[structure], CAPABILITIES[capability]

    def build(rng: np.random.Generator) -> Problem:
        K = kernels(rng, samples(rng, N), given.get("M", 3))
        return problem(rng, n=N, **{"K": K, **given, **change(rng, K)})

    every_flag = {"grid", *flags.split(), *told(**given)}
    enter(f"{structure}-{capability}", (0, 1), every_flag, f"{statement} {capability}.", build)


for _structure in STRUCTURES:
    for _name, _given in CAPABILITIES.items():
        _real = _given["loss"].targets == "real"
        _needs_kernels = _structure in ("zero-kernel", "duplicated-kernel", "constant-kernel", "many-kernels")
        if not {"unbalanced": _real, "outlier": not _real}.get(_structure, "M" in _given and _needs_kernels):
            _enter(_structure, _name)
