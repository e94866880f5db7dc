"""Every regulariser that is no lp ball, with the hinge loss and with the squared loss."""

from __future__ import annotations

import numpy as np

from mklref.problem import Problem
from mklref.regularizers import (
    BlockNorm,
    ConcaveBlock,
    ElasticNet,
    Fixed,
    Groups,
    HalfPower,
    Mahalanobis,
    Power,
    Regularizer,
    RootPlusLinear,
    SmoothedRoot,
    Tikhonov,
    WeightedL1,
    WeightedLp,
)
from mklref.testing.case import case
from mklref.testing.cases.data import problem

SCALE = (0.5, 2.0, 1.0, 0.7)
PAIRS = ((0, 2), (1, 3))
OPPOSED = ((2.0, -0.9, 0.0, 0.0), (-0.9, 1.0, 0.3, 0.0), (0.0, 0.3, 1.5, 0.2), (0.0, 0.0, 0.2, 1.0))
"""A positive definite matrix with entries of both signs."""

REGULARIZERS: dict[str, Regularizer] = {
    "fixed": Fixed((0.5, 0.0, 1.0, 2.0)),  # type: ignore[arg-type]
    "block-norm-1.4": BlockNorm(1.4),
    "block-norm-3": BlockNorm(3),
    "power-1": Power(1),
    "power-2": Power(2),
    "half-power-1.5": HalfPower(1.5),
    "tikhonov-1": Tikhonov(1, 0.3),
    "tikhonov-2": Tikhonov(2, 0.3),
    "elastic-net-tikhonov": ElasticNet(0.4, "tikhonov"),
    "elastic-net-ivanov": ElasticNet(0.4, "ivanov"),
    "weighted-lp": WeightedLp(1.7, SCALE),  # type: ignore[arg-type]
    "weighted-l1": WeightedL1(SCALE),  # type: ignore[arg-type]
    "groups-sparse": Groups(PAIRS, 1, 0),
    "groups-half": Groups(PAIRS, 0.5, 0.5),
    "mahalanobis": Mahalanobis(OPPOSED),  # type: ignore[arg-type]
    "root-plus-linear": ConcaveBlock(RootPlusLinear(0.35)),
    "smoothed-root": ConcaveBlock(SmoothedRoot(0.4)),
}


def _enter(name: str, regularizer: Regularizer, loss: str, *flags: str) -> None:
    def build(rng: np.random.Generator) -> Problem:
        return problem(rng, loss=loss, regularizer=regularizer)

    build.__doc__ = f"{regularizer} with the loss {loss}."
    case((0, 1), "other-regularizer", *flags, name=f"{loss}-{name}")(build)


for _name, _regularizer in REGULARIZERS.items():
    _enter(_name, _regularizer, "hinge")
    _enter(_name, _regularizer, "squared", "regression")
