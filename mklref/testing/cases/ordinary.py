"""Generic data: every loss with p = 1 and p = 2, the hinge loss with every kind of lp ball, and other regularisers.

Every regulariser that is no lp ball comes with the hinge loss and with the squared loss.
"""

from __future__ import annotations

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
from mklref.testing.cases.data import plain, problem

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


for _loss in LOSSES:
    _flags = ("ordinary", *KIND[_loss.targets])
    _name = _loss.name.replace("_", "-")
    plain(f"{_name}-l1", f"Sparse MKL with the loss {_loss}.", "sparse", *_flags, loss=_loss, regularizer=Lp(1))
    plain(f"{_name}-l2", f"p = 2 with the loss {_loss}.", "smooth", *_flags, loss=_loss, regularizer=Lp(2))

plain("hinge-p-4-over-3", "p = 4/3.", "ordinary", "smooth", regularizer=Lp(4 / 3))
plain("hinge-p-4", "p = 4.", "ordinary", "smooth", regularizer=Lp(4))
plain("hinge-uniform", "p = inf: the plain sum of the kernels.", "ordinary", "smooth", regularizer="uniform")
plain("squared-hinge-p-4-over-3", "p = 4/3.", "ordinary", "smooth", loss="squared_hinge", regularizer=Lp(4 / 3))

for _loss in (Hinge(), Logistic(), Squared()):
    for _p, _flag in ((1, "sparse"), (2, "smooth")):
        plain(
            f"{_loss.name}-l{_p}-no-intercept",
            "No intercept, and so no constraint on the sum.",
            *("ordinary", "no-intercept", _flag, *KIND[_loss.targets]),
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

for _name, _regularizer in OTHERS.items():
    for _loss in (Hinge(), Squared()):
        plain(
            f"{_loss.name}-{_name}",
            f"{_regularizer} with the loss {_loss.name}.",
            *("other-regularizer", *KIND[_loss.targets]),
            loss=_loss,
            regularizer=_regularizer,
        )
