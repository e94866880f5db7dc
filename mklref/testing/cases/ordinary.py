"""Generic data: every loss with p = 1 and p = 2, the hinge loss with every kind of lp ball, and other regularisers.

Every regulariser that is no lp ball comes with the hinge loss and with the squared loss.
"""

from __future__ import annotations

import numpy as np

from mklref import regularizers as reg
from mklref.losses import Loss, as_loss
from mklref.testing.cases.data import plain

LOSSES: tuple[Loss, ...] = (
    *map(as_loss, ("hinge", "squared_hinge", "logistic", "squared", "epsilon_insensitive:0.15")),
    *map(as_loss, ("squared_epsilon_insensitive:0.15", "huber:0.7", "pinball:0.3", "one_class", "density_level_set")),
)

for _loss in LOSSES:
    _name = _loss.name.replace("_", "-")
    plain(f"{_name}-l1", f"Sparse MKL with the loss {_loss}.", "ordinary", loss=_loss, p=1)
    plain(f"{_name}-l2", f"p = 2 with the loss {_loss}.", "ordinary", loss=_loss, p=2)

plain("hinge-p-4-over-3", "p = 4/3.", "ordinary", p=4 / 3)
plain("hinge-p-4", "p = 4.", "ordinary", p=4)
plain("hinge-uniform", "p = inf: the plain sum of the kernels.", "ordinary", p=np.inf)
plain("squared-hinge-p-4-over-3", "p = 4/3.", "ordinary", loss="squared_hinge", p=4 / 3)

for _name in ("hinge", "logistic", "squared"):
    for _p in (1, 2):
        _statement = "No intercept, and so no constraint on the sum."
        plain(f"{_name}-l{_p}-no-intercept", _statement, "ordinary", loss=_name, p=_p, intercept=False)


def costs(rng: np.random.Generator) -> np.ndarray:
    """Weights of 24 samples."""
    return rng.uniform(0.2, 3.0, size=24)


plain(
    "hinge-l1-sample-weight",
    "Weights of samples between 0.2 and 3: a box of its own for each dual variable.",
    "ordinary",
    sample_weight=costs,
)
plain(
    "epsilon-insensitive-l2-sample-weight",
    "The same in regression.",
    "ordinary",
    loss=as_loss("epsilon_insensitive:0.2"),
    p=2,
    sample_weight=costs,
)

SCALE = np.array([0.5, 2.0, 1.0, 0.7])
PAIRS = ((0, 2), (1, 3))
OPPOSED = np.array([[2.0, -0.9, 0.0, 0.0], [-0.9, 1.0, 0.3, 0.0], [0.0, 0.3, 1.5, 0.2], [0.0, 0.0, 0.2, 1.0]])
"""A positive definite matrix with entries of both signs."""

OTHERS: dict[str, reg.Regularizer] = {
    "fixed": reg.Fixed(np.array([0.5, 0.0, 1.0, 2.0])),
    "block-norm-1.4": reg.BlockNorm(1.4),
    "block-norm-3": reg.BlockNorm(3),
    "power-1": reg.Power(1),
    "power-2": reg.Power(2),
    "half-power-1.5": reg.HalfPower(1.5),
    "tikhonov-1": reg.Tikhonov(1, 0.3),
    "tikhonov-2": reg.Tikhonov(2, 0.3),
    "elastic-net-tikhonov": reg.ElasticNet(0.4, "tikhonov"),
    "elastic-net-ivanov": reg.ElasticNet(0.4, "ivanov"),
    "weighted-lp": reg.WeightedLp(1.7, SCALE),
    "weighted-l1": reg.WeightedL1(SCALE),
    "groups-sparse": reg.Groups(PAIRS, 1, 0),
    "groups-half": reg.Groups(PAIRS, 0.5, 0.5),
    "mahalanobis": reg.Mahalanobis(OPPOSED),
    "root-plus-linear": reg.ConcaveBlock(reg.RootPlusLinear(0.35)),
    "smoothed-root": reg.ConcaveBlock(reg.SmoothedRoot(0.4)),
}

for _name, _regularizer in OTHERS.items():
    for _kind in ("hinge", "squared"):
        plain(f"{_kind}-{_name}", f"{_regularizer} with the loss {_kind}.", loss=_kind, regularizer=_regularizer)
