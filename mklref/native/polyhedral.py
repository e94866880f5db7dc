"""Regularisers whose psi is linear or quadratic on a simplex or an orthant: lp with p = 1 and its relatives.

    psi(theta) = cost'theta + mu (1'theta)^2   on theta >= 0   [and normal'theta = 1]

For these the model of the outer loop is a quadratic program, and R* has kinks.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from mklref._typing import Array
from mklref.regularizers import BlockNorm, ConcaveBlock, Groups, Lp, Power, Regularizer, Tikhonov
from mklref.regularizers.concave_functions import PowerRoot
from mklref.regularizers.rescaled import Rescaled

_AS_GOOD_AS_ONE = 1.0 + 1e-7
"""Up to this p the lp ball is taken for the simplex: the values differ by a relative (p - 1) log M."""


@dataclass(frozen=True)
class Polyhedral:
    """psi on the orthant; `normal` is None if there is no constraint."""

    cost: Array
    mu: float = 0.0
    normal: Array | None = None

    def of(self, kernels: Any) -> Polyhedral:
        """The same for some of the kernels, all others having weight 0."""
        return Polyhedral(self.cost[kernels], self.mu, None if self.normal is None else self.normal[kernels])

    def penalty(self, theta: Array) -> float:
        """cost'theta + mu (1'theta)^2."""
        return float(self.cost @ theta) + self.mu * float(theta.sum()) ** 2

    def gradient(self, theta: Array) -> Array:
        """Its gradient."""
        return self.cost + 2.0 * self.mu * float(theta.sum())


def polyhedral(regularizer: Regularizer, kernels: int) -> Polyhedral | None:
    """psi in this form, or None if it is curved."""
    none, one = np.zeros(kernels), np.ones(kernels)
    if isinstance(regularizer, BlockNorm) and regularizer.q == 1.0:
        return Polyhedral(none, normal=one)
    if isinstance(regularizer, Groups) and regularizer.q == 1.0:
        return Polyhedral(none, normal=one)
    if isinstance(regularizer, Lp) and regularizer.p <= _AS_GOOD_AS_ONE:
        return Polyhedral(none, normal=one)
    if isinstance(regularizer, Power) and regularizer.p == 1.0:
        return Polyhedral(0.5 * one)
    if isinstance(regularizer, ConcaveBlock) and isinstance(regularizer.g, PowerRoot) and regularizer.g.p == 1.0:
        return Polyhedral(0.5 * one)
    if isinstance(regularizer, Tikhonov) and regularizer.p == 1.0:
        return Polyhedral(none, mu=regularizer.mu)
    if isinstance(regularizer, Rescaled):
        base = polyhedral(regularizer.base, kernels)
        if base is None or base.mu:
            return None
        factor = regularizer.factor
        unit = factor / np.broadcast_to(regularizer.root, kernels) ** 2
        return Polyhedral(factor * unit * base.cost, normal=None if base.normal is None else unit * base.normal)
    return None
