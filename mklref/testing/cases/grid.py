"""Structures times capabilities: what can be special about data, for every kind of narrow solver.

A solver with the hinge loss, p > 1 and an intercept, and nothing else, meets each structure as well as one that solves
everything. The problems are small: 16 samples, and three kernels where there is more than one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from mklref._typing import Array
from mklref.losses import EpsilonInsensitive, Loss, as_loss
from mklref.problem import Problem
from mklref.regularizers import Lp
from mklref.testing.case import enter
from mklref.testing.cases.data import kernels, problem, samples, told

N = 16


class Capability(NamedTuple):
    """What a solver is meant for."""

    loss: str | Loss
    p: float
    intercept: bool = True
    M: int = 3


CAPABILITIES: dict[str, Capability] = {
    "hinge-l1": Capability("hinge", 1.0),
    "hinge-p-4-over-3": Capability("hinge", 4 / 3),
    "hinge-l2": Capability("hinge", 2.0),
    "hinge-p-4": Capability("hinge", 4.0),
    "hinge-l1-no-intercept": Capability("hinge", 1.0, intercept=False),
    "hinge-l2-no-intercept": Capability("hinge", 2.0, intercept=False),
    "squared-l1": Capability("squared", 1.0),
    "squared-l2": Capability("squared", 2.0),
    "squared-l1-no-intercept": Capability("squared", 1.0, intercept=False),
    "squared-l2-no-intercept": Capability("squared", 2.0, intercept=False),
    "svr-l1": Capability(EpsilonInsensitive(0.15), 1.0),
    "svr-l2": Capability(EpsilonInsensitive(0.15), 2.0),
    "svm": Capability("hinge", 1.0, M=1),
    "svm-no-intercept": Capability("hinge", 1.0, intercept=False, M=1),
    "svr": Capability(EpsilonInsensitive(0.15), 1.0, M=1),
    "ridge-regression": Capability("squared", 1.0, M=1),
}

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


def _enter(name: str, structure: str, capability: Capability) -> None:
    statement, flags, change = STRUCTURES[structure]
    loss = as_loss(capability.loss)

    def build(rng: np.random.Generator) -> Problem:
        K = kernels(rng, samples(rng, N), capability.M)
        special = {"K": K, "regularizer": Lp(capability.p), "intercept": capability.intercept, **change(rng, K)}
        return problem(rng, loss=loss, n=N, **special)

    own = told(loss=loss, regularizer=Lp(capability.p), intercept=capability.intercept, M=capability.M)
    enter(name, (0, 1), {"grid", *flags.split(), *own}, f"{statement} {name[len(structure) + 1 :]}.", build)


for _structure in STRUCTURES:
    for _name, _capability in CAPABILITIES.items():
        _real = as_loss(_capability.loss).targets == "real"
        _needs_kernels = _structure in ("zero-kernel", "duplicated-kernel", "constant-kernel", "many-kernels")
        _misfit = {"unbalanced": _real, "outlier": not _real}.get(_structure, _capability.M == 1 and _needs_kernels)
        if not _misfit:
            _enter(f"{_structure}-{_name}", _structure, _capability)
