"""Generic data: every loss with p = 1 and p = 2, the hinge loss with every kind of lp ball, and other regularisers.

Every regulariser that is no lp ball comes with the hinge loss and with the squared loss.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mklref.losses import (
    DensityLevelSet,
    EpsilonInsensitive,
    Hinge,
    Huber,
    Logistic,
    Loss,
    OneClass,
    Pinball,
    Squared,
    SquaredEpsilonInsensitive,
    SquaredHinge,
)
from mklref.problem import Problem
from mklref.regularizers import (
    BlockNorm,
    ConcaveBlock,
    ElasticNet,
    Fixed,
    Groups,
    HalfPower,
    Lp,
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

LOSSES: tuple[Loss, ...] = (
    Hinge(),
    SquaredHinge(),
    Logistic(),
    Squared(),
    EpsilonInsensitive(0.15),
    SquaredEpsilonInsensitive(0.15),
    Huber(0.7),
    Pinball(0.3),
    OneClass(),
    DensityLevelSet(),
)
KIND = {"labels": (), "real": ("regression",), "ones": ("one-class",)}


def _enter(name: str, statement: str, *flags: str, **arguments: Any) -> None:
    def build(rng: np.random.Generator) -> Problem:
        return problem(rng, **arguments)

    build.__doc__ = statement
    case((0, 1), "ordinary", *flags, name=name)(build)


for _loss in LOSSES:
    _kind = KIND[_loss.targets]
    _name = _loss.name.replace("_", "-")
    _enter(f"{_name}-l1", f"Sparse MKL with the loss {_loss}.", "sparse", *_kind, loss=_loss, regularizer=Lp(1))
    _enter(f"{_name}-l2", f"p = 2 with the loss {_loss}.", "smooth", *_kind, loss=_loss, regularizer=Lp(2))

_enter("hinge-p-4-over-3", "p = 4/3.", "smooth", regularizer=Lp(4 / 3))
_enter("hinge-p-4", "p = 4.", "smooth", regularizer=Lp(4))
_enter("hinge-uniform", "p = inf: the plain sum of the kernels.", "smooth", regularizer="uniform")
_enter("squared-hinge-p-4-over-3", "p = 4/3.", "smooth", loss="squared_hinge", regularizer=Lp(4 / 3))

for _loss in (Hinge(), Logistic(), Squared()):
    for _p, _flag in ((1, "sparse"), (2, "smooth")):
        _enter(
            f"{_loss.name}-l{_p}-no-intercept",
            "No intercept, and so no constraint on the sum.",
            *("no-intercept", _flag, *KIND[_loss.targets]),
            loss=_loss,
            regularizer=Lp(_p),
            intercept=False,
        )


@case((0, 1), "ordinary", "sample-weight", "sparse")
def hinge_l1_sample_weight(rng: np.random.Generator) -> Problem:
    """Weights of samples between 0.2 and 3: a box of its own for each dual variable."""
    return problem(rng, regularizer="l1", sample_weight=rng.uniform(0.2, 3.0, size=24))


@case((0, 1), "ordinary", "sample-weight", "regression", "smooth")
def epsilon_insensitive_l2_sample_weight(rng: np.random.Generator) -> Problem:
    """The same in regression."""
    weight = rng.uniform(0.2, 3.0, size=24)
    return problem(rng, loss=EpsilonInsensitive(0.2), regularizer=Lp(2), sample_weight=weight)


SCALE = (0.5, 2.0, 1.0, 0.7)
PAIRS = ((0, 2), (1, 3))
OPPOSED = ((2.0, -0.9, 0.0, 0.0), (-0.9, 1.0, 0.3, 0.0), (0.0, 0.3, 1.5, 0.2), (0.0, 0.0, 0.2, 1.0))
"""A positive definite matrix with entries of both signs."""

OTHERS: dict[str, Regularizer] = {
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


def _enter_regularizer(name: str, regularizer: Regularizer, loss: str, *flags: str) -> None:
    def build(rng: np.random.Generator) -> Problem:
        return problem(rng, loss=loss, regularizer=regularizer)

    build.__doc__ = f"{regularizer} with the loss {loss}."
    case((0, 1), "other-regularizer", *flags, name=f"{loss}-{name}")(build)


for _name, _regularizer in OTHERS.items():
    _enter_regularizer(_name, _regularizer, "hinge")
    _enter_regularizer(_name, _regularizer, "squared", "regression")
