r"""Where the weights are no function of the dual point: conditions on the positive ones.

With q_m = beta'K_m beta, R* is a function of the largest of several pieces N_l(q), each of degree 1 and smooth.
Then theta = sum_l lambda_l grad N_l with multipliers lambda >= 0, and at an optimum

    N_l(q) = level    for every active piece, lambda_l > 0,    and one condition on level and sum lambda:

    Lp(1)            N_m = q_m                            sum lambda = 1
    WeightedLp(1)    N_m = scale_m q_m                    sum lambda = 1
    Groups, p+q=1    N_l = d_l^{-p} ||q_l||_{1/(1-q)}     sum lambda = 1
    Tikhonov(1)      N_m = q_m                            level = 4 mu sum lambda
    Power(1)         N_m = q_m                            level = 1
    HalfPower(1)     N_m = 4 q_m                          level = 1
    WeightedL1       N_m = q_m / omega_m^2                level = 1
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mklref._typing import Array
from mklref.regularizers import (
    BlockNorm,
    ConcaveBlock,
    Groups,
    HalfPower,
    Lp,
    Power,
    PowerRoot,
    Regularizer,
    Tikhonov,
    WeightedL1,
    WeightedLp,
)


class Kink(NamedTuple):
    """The gradients grad N_l at q, (L, M), and the coefficients of the condition on level and lambda."""

    gradients: Array
    level_coefficient: float
    total_coefficient: float
    value: float

    def level(self, pieces: Array, multipliers: Array) -> float:
        """What lambda implies, or else the mean of the given N_l."""
        if self.level_coefficient == 0.0:
            return float(pieces.mean())
        return (self.value - self.total_coefficient * float(multipliers.sum())) / self.level_coefficient

    def residual(self, level: float, multipliers: Array) -> float:
        """value - level_coefficient level - total_coefficient sum lambda."""
        return self.value - self.level_coefficient * level - self.total_coefficient * float(multipliers.sum())


def kink(regularizer: Regularizer, q: Array) -> Kink | None:
    """The conditions for this regulariser at q (M,), None if its weights are a function of the dual point."""
    single = np.eye(len(q))
    match regularizer:
        case Lp(p=1.0) | BlockNorm(q=1.0) | Groups(q=1.0):
            return Kink(single, 0.0, 1.0, 1.0)
        case WeightedLp(p=1.0, scale=scale):
            return Kink(np.diag(scale), 0.0, 1.0, 1.0)
        case Groups(p=across, q=within) if across + within == 1.0:
            return Kink(_group_gradients(regularizer, q), 0.0, 1.0, 1.0)
        case Tikhonov(p=1.0, mu=mu):
            return Kink(single, 1.0, -4.0 * mu, 0.0)
        case Power(p=1.0) | ConcaveBlock(g=PowerRoot(p=1.0)):
            return Kink(single, 1.0, 0.0, 1.0)
        case HalfPower(q=1.0):
            return Kink(4.0 * single, 1.0, 0.0, 1.0)
        case WeightedL1(omega=omega):
            return Kink(np.diag(omega**-2.0), 1.0, 0.0, 1.0)
    return None


def _group_gradients(groups: Groups, q: Array) -> Array:
    """Row l holds d_l^{-p} times the gradient of ||q_l||_{1/(1-q)}: the weights that Lp(1/q) gives the group."""
    ball = Lp(np.inf if groups.q == 0.0 else 1.0 / groups.q)
    rows = np.zeros((len(groups.groups), len(q)))
    for row, group in zip(rows, groups.groups, strict=True):
        members = list(group)
        row[members] = len(members) ** -groups.p * ball.weights_from_dual(np.sqrt(q[members]))
    return rows
