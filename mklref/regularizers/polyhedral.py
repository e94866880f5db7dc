"""A psi that is linear or quadratic on a polyhedron: that of lp with p = 1 and of its kin; and that of shares."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from mklref._typing import Array


@dataclass(frozen=True)
class Polyhedral:
    """psi(theta) = cost'theta + mu (1'theta)^2 on theta >= 0 [and normal'theta = 1].

    Where psi is of this form R* has kinks, and a convex quadratic model of an objective in the weights is a quadratic
    program.

    Parameters
    ----------
    cost : array (M,)
    mu : float
        At least 0.
    normal : array (M,) or None
        Positive; None if there is no constraint.
    """

    cost: Array
    mu: float = 0.0
    normal: Array | None = None

    @classmethod
    def simplex(cls, kernels: int) -> Polyhedral:
        """0 on theta >= 0 with 1'theta = 1."""
        return cls(np.zeros(kernels), normal=np.ones(kernels))

    def of(self, kernels: Any) -> Polyhedral:
        """The same for some of the kernels, all others having weight 0."""
        return Polyhedral(self.cost[kernels], self.mu, None if self.normal is None else self.normal[kernels])

    def penalty(self, theta: Array) -> float:
        """cost'theta + mu (1'theta)^2."""
        return float(self.cost @ theta) + self.mu * float(theta.sum()) ** 2

    def gradient(self, theta: Array) -> Array:
        """Its gradient."""
        return self.cost + 2.0 * self.mu * float(theta.sum())


class Parts(NamedTuple):
    """R* = max_l N_l(q)/2 of smooth N_l, whose maximiser are shares s of the l, 1's = 1:  theta = sum_l s_l dN_l/dq."""

    norms: Array
    """N (L,)."""
    gradients: Array
    """dN_l/dq_m, (L, M); >= 0."""
    hessians: Array
    """Its Jacobian, (L, M, M)."""
