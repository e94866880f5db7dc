"""lp norms of nonnegative vectors, their gradients and exponents, without overflow; and what regularisers share.

`Polyhedral` is a psi that is linear or quadratic on a polyhedron, as for p = 1; `Parts` an R* that is a maximum of
smooth functions; `LowRank` a Jacobian of weights that is never formed.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from copy import copy
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np

from mklref._typing import Array

FEASIBILITY = 1e-9
"""Relative violation below which an indicator still counts weights as inside: closed forms round."""

TIE = 1e-9
"""Relative distance from the largest entry within which an entry counts as maximal."""

NEARLY_ONE = 1.1
"""Up to this p a solution for p = 1 may lead on where steps for p stall: g^{2/(p-1)} is so steep that the rounding of g
decides."""

_TINY, _BELOW_ONE = float(np.finfo(float).tiny), float(np.nextafter(1.0, 0.0))
_LEAST_UNIT = 1e-100
"""The smallest unit of a weight: a square divided by it twice is still within double precision."""


def p_norm(x: Array, p: float) -> float:
    """||x||_p for x >= 0 and p in [1, inf], without overflow for any scale or exponent."""
    top = float(np.maximum.reduce(x, initial=0.0))
    if top == 0.0 or p == np.inf or not math.isfinite(top):
        return top
    return float(top * np.add.reduce((x / top) ** p) ** (1.0 / p))


def norm_gradient(x: Array, p: float) -> Array:
    """(x/||x||_p)^{p-1}, a subgradient of ||.||_p at x >= 0, on the sphere of the dual norm.

    Where the subdifferential is a face: uniform over the maximal entries at p = inf, uniform at x = 0.
    """
    top = float(x.max())
    if top == 0.0:
        return np.full(len(x), float(len(x)) ** (-1.0 / conjugate_exponent(p)))
    ratio = x / top
    raw = (ratio >= 1.0 - TIE).astype(float) if p == np.inf else ratio ** (p - 1.0)
    return raw / p_norm(raw, conjugate_exponent(p))


def quotient(x: Array, y: Array) -> Array:
    """x/y for x, y >= 0, and 0 where y is 0 or too small to divide by."""
    divisible = y > _TINY
    return np.divide(x, y, out=np.zeros_like(x), where=divisible)


def net_in_unit(lam: float, norm: float) -> tuple[float, float]:
    """s = (1-lam) a + lam a^2 and lam' = lam a^2/s in (0, 1), for which an elastic net is R(a rho) = s R'(rho)."""
    slope = (1.0 - lam) + lam * norm
    return norm * slope, min(_BELOW_ONE, max(_TINY, lam * norm / slope))


def power_sum(x: Array, exponent: float) -> float:
    """sum x^exponent, inf beyond the range of floating-point numbers."""
    with np.errstate(over="ignore"):
        return float(np.sum(x**exponent))


def conjugate_exponent(p: float) -> float:
    """p* with 1/p + 1/p* = 1, for p in [1, inf]."""
    if p == 1.0:
        return np.inf
    return 1.0 if p == np.inf else p / (p - 1.0)


def reciprocal(x: float) -> float:
    """1/x for x >= 0, infinite at 0."""
    return 1.0 / x if x else np.inf


def block_exponent(p: float) -> float:
    """q = 2p/(p+1): weights in the unit ball of lp penalise the squared q-norm of the block norms (Kloft (27))."""
    return 2.0 if p == np.inf else 2.0 * (p / (p + 1.0))  # 2p alone may overflow


def ball_exponent(q: float) -> float:
    """p = q/(2-q) for q in [1, 2], the inverse of `block_exponent`."""
    return np.inf if q == 2.0 else q / (2.0 - q)


@dataclass(frozen=True)
class ByExponent:
    """The member p of a family over p in [1, inf], of which that of p = 1 alone has kinks."""

    p: float

    def smoothed(self, epsilon: float) -> Self:
        """The nearest member that is as smooth as p = 1 + epsilon."""
        return self if self.p >= 1.0 + epsilon else self._member(1.0 + epsilon)

    def sharpened(self) -> Self | None:
        """The member p = 1, if this one is next to it and has nearly the same optima; else None."""
        return self._member(1.0) if 1.0 < self.p <= NEARLY_ONE else None

    def _member(self, p: float) -> Self:
        """The member of another p: a copy, since a subclass of somebody's own may be made from other arguments."""
        member = copy(self)
        object.__setattr__(member, "p", p)
        return member


@dataclass(frozen=True)
class Polyhedral:
    """psi(theta) = cost's + mu (1's)^2 on s >= 0 [and normal's = 1],    theta = s / ((1-lam) + lam s).

    With lam = 0, s = theta, R* has kinks, and a convex quadratic model of an objective in the weights is a quadratic
    program.

    Parameters
    ----------
    cost : array (M,)
    mu : float
        At least 0.
    normal : array (M,) or None
        Positive; None if there is no constraint.
    lam : float
        In [0, 1).
    """

    cost: Array
    mu: float = 0.0
    normal: Array | None = None
    lam: float = 0.0

    @classmethod
    def simplex(cls, kernels: int) -> Polyhedral:
        """0 on theta >= 0 with 1'theta = 1."""
        return cls(np.zeros(kernels), normal=np.ones(kernels))

    def of(self, kernels: Any) -> Polyhedral:
        """psi for some of the kernels, all others having weight 0."""
        normal = None if self.normal is None else self.normal[kernels]
        return Polyhedral(self.cost[kernels], self.mu, normal, self.lam)

    @property
    def units(self) -> Array:
        """u (M,) in [1e-100, 1]: whatever costs or normal are, theta_m u_m can be compared, and so can q_m/u_m."""
        scale = self.cost if self.normal is None else self.normal
        if self.normal is None and (self.mu > 0.0 or not self.cost.all()):
            return np.ones_like(self.cost)
        return np.asarray(np.maximum(scale / scale.max(), _LEAST_UNIT))

    def penalty(self, theta: Array) -> float:
        """cost'theta + mu (1'theta)^2."""
        total = float(theta.sum())
        return float(self.cost @ theta) + self.mu * total * total  # not total**2, which raises OverflowError

    def gradient(self, theta: Array) -> Array:
        """The gradient of `penalty`, cost + 2 mu 1'theta."""
        return self.cost + 2.0 * self.mu * float(theta.sum())


class LowRank(NamedTuple):
    """diag(diagonal) + sum_k scale_k rows_k rows_k', (M, M)."""

    diagonal: Array
    """(M,)."""
    rows: Array
    """(k, M), few, or one for each group."""
    scale: Array
    """(k,)."""

    @classmethod
    def diagonally(cls, diagonal: Array) -> LowRank:
        """No rows."""
        return cls(diagonal, np.zeros((0, len(diagonal))), np.zeros(0))

    def dense(self) -> Array:
        """The matrix."""
        return np.diag(self.diagonal) + (self.rows.T * self.scale) @ self.rows

    def __matmul__(self, v: Array) -> Array:
        """Its product with a vector (M,)."""
        return self.diagonal * v + self.rows.T @ (self.scale * (self.rows @ v))

    def product(self, V: Array) -> Array:
        """V times it times V', for rows V (r, M): r^2 M operations."""
        diagonal, along = self.diagonal, V @ self.rows.T
        present = np.flatnonzero(diagonal)
        if 2 * len(present) < len(diagonal):
            V, diagonal = V[:, present], diagonal[present]
        if not len(self.rows):  # without roots, which round: where kernels differ by 1e11, the last bits decide
            return np.asarray((V * diagonal) @ V.T)
        U, total = V * np.sqrt(np.abs(diagonal)), (along * self.scale) @ along.T
        for sign, part in ((1.0, diagonal > 0.0), (-1.0, diagonal < 0.0)):
            if part.any():
                one = U if part.all() else U[:, part]
                total += sign * (one @ one.T)  # BLAS computes half of a product A A'
        return np.asarray(total)


class Parts(NamedTuple):
    """R* = max_l N_l(q)/2 with smooth N_l. At a tie theta = sum_l s_l dN_l/dq for any shares s >= 0, 1's = 1."""

    norms: Array
    """N (L,)."""
    gradients: Array
    """dN_l/dq_m, (L, M); >= 0."""
    curvature: Callable[[Array], Array]
    """sum_l s_l d2N_l/dq2, (M, M), of shares (L,)."""
