"""One instance of every regulariser for each case of its parameters, on four kernels."""

from __future__ import annotations

import numpy as np

from mklref.regularizers import (
    BlockNorm,
    ConcaveBlock,
    ElasticNet,
    Groups,
    HalfPower,
    Mahalanobis,
    Power,
    PowerRoot,
    RootPlusLinear,
    SmoothedRoot,
    Tikhonov,
    WeightedL1,
    WeightedLp,
)

M = 4
SCALE = np.array([0.4, 1.3, 0.9, 2.0])
ALIGNED = np.array([[1.0, 0.3, 0.1, 0.5], [0.3, 1.2, 0.2, 0.4], [0.1, 0.2, 0.7, 0.3], [0.5, 0.4, 0.3, 1.5]])
OPPOSED = np.array([[1.0, 0.2, -0.8, 0.1], [0.2, 1.0, -0.3, -0.4], [-0.8, -0.3, 1.0, 0.2], [0.1, -0.4, 0.2, 1.0]])
PAIRS = ((0, 2), (1, 3))
UNEVEN = ((2,), (3, 0, 1))
ONE = ((0, 1, 2, 3),)
SINGLETONS = ((3,), (1,), (0,), (2,))

FAMILIES = (
    *(Power(p) for p in (1, 1.2, 2, 5, np.inf)),
    *(HalfPower(q) for q in (1, 1.3, 1.8, 2)),
    *(Tikhonov(p, mu) for p, mu in ((1, 0.3), (4 / 3, 2.0), (2, 0.05), (np.inf, 0.7))),
    *(ElasticNet(lam, form) for lam in (0.15, 0.6, 0.95) for form in ("tikhonov", "ivanov")),
    *(BlockNorm(q) for q in (1, 1.4, 2, 2.5, 4, 12)),
    *(WeightedLp(p, SCALE) for p in (1, 1.7, 3, np.inf)),
    WeightedL1(SCALE),
    *(Groups(PAIRS, p, q) for p, q in ((0, 1), (1, 0), (0.5, 0.5), (0.3, 0.3), (0, 0.6), (0.6, 0), (0, 0))),
    *(Groups(UNEVEN, p, q) for p, q in ((0.5, 0.5), (0.2, 0.8), (0.3, 0.5))),
    Groups(ONE, 0.3, 0.4),
    Groups(SINGLETONS, 0.3, 0.4),
    Mahalanobis(ALIGNED),
    Mahalanobis(OPPOSED),
    *(ConcaveBlock(PowerRoot(p)) for p in (1, 1.5, 4, np.inf)),
    ConcaveBlock(RootPlusLinear(0.35)),
    ConcaveBlock(SmoothedRoot(0.4)),
)
