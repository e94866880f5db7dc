"""Generalised block norms: a concave function of every squared block norm.

    R(rho) = sum_m g(rho_m^2)      g concave and non-decreasing, rho -> g(rho^2) convex      (Tomioka (9))

All that follows comes from g itself. With the concave conjugate g*(y) = inf_{x >= 0} x y - g(x)   (10),

    g(x) = min_{theta > 0} x/(2 theta) - g*(1/(2 theta)),      attained at theta = 1/(2 g'(x)),
    psi(theta) = -sum g*(1/(2 theta_m))                                                       (11)

and the block norm of a dual norm s solves s = d/drho g(rho^2) = 2 rho g'(rho^2).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from mklref._typing import Array
from mklref.exceptions import InvalidType, NotApplicable
from mklref.regularizers.base import Regularizer
from mklref.regularizers.norms import TIE, LowRank, Polyhedral, quotient

_LARGEST_NORM = 1e150
"""Block norms are sought between the reciprocal of this and this, so that their squares are floating-point numbers."""

_BISECTIONS = 64
"""They halve the logarithm of the interval until it is exhausted."""


class Slopes(NamedTuple):
    """The limits of d/drho g(rho^2) at rho = 0 and at rho = inf, between which dual norms have a block norm."""

    low: float
    high: float


@dataclass(frozen=True)
class ConcaveFunction(ABC):
    """A concave g with g(0) = 0 on [0, inf), for which g(rho^2) is convex in rho. Arrays are elementwise.

    Raises
    ------
    InvalidType, InvalidParameter
        A parameter that is no number, or outside of the interval that its class says.
    """

    @property
    @abstractmethod
    def slopes(self) -> Slopes:
        """The range of d/drho g(rho^2) = 2 rho g'(rho^2)."""

    @property
    def degree(self) -> float | None:
        """d with g(t^2 x) = t^d g(x), or None."""
        return None

    def smoothed(self, epsilon: float) -> ConcaveFunction:
        """The member of the family nearest to this one that is as smooth as p = 1 + epsilon; itself if it is."""
        return self

    def sharpened(self) -> ConcaveFunction | None:
        """The g whose kink at 0 this one smooths, or None."""
        return None

    @abstractmethod
    def value(self, x: Array) -> Array:
        """g(x), x >= 0."""

    @abstractmethod
    def derivative(self, x: Array) -> Array:
        """g'(x), x > 0."""

    @abstractmethod
    def elasticity(self, x: Array) -> Array:
        """-x g''(x)/g'(x), in [0, 1/2], x > 0."""

    @abstractmethod
    def conjugate(self, y: Array) -> Array:
        """g*(y) = inf_{x >= 0} x y - g(x) for y > 0: at most 0, and -inf outside the domain."""

    @abstractmethod
    def block_conjugate(self, s: Array) -> Array:
        """g~*(s) = sup_{rho >= 0} s rho - g(rho^2) for s in [0, slopes.high]."""

    def norms_from_dual(self, s: Array) -> Array:
        """The rho with 2 rho g'(rho^2) = s, s between the slopes: by bisection where no class knows better."""
        low = np.full(len(s), -np.log(_LARGEST_NORM))
        high = -low
        for _ in range(_BISECTIONS):
            middle = 0.5 * (low + high)
            rho = np.exp(middle)
            below = 2.0 * rho * self.derivative(rho**2) < s
            low, high = np.where(below, middle, low), np.where(below, high, middle)
        return np.asarray(np.exp(high))

    def block_atom(self, rho: Any) -> Any:
        """g(rho^2) as a convex, non-decreasing, elementwise cvxpy expression of rho >= 0, for a g of your own.

        Raises
        ------
        NotApplicable
            A class that does not define it.
        """
        raise NotApplicable(f"{self} has no cvxpy expression; give its class the method block_atom(rho).")


@dataclass(frozen=True, eq=False)
class ConcaveBlock(Regularizer):
    """A generalised block norm from a concave function (Tomioka (9)-(11)).

    R(rho)     = sum g(rho^2)
    R*(s)      = sum g~*(s),   g~*(s) = sup_{rho >= 0} s rho - g(rho^2)
    psi(theta) = -sum g*(1/(2 theta))
    theta      = 1/(2 g'(rho^2))     from the norms
    theta      = rho/s               from the dual, with rho the solution of 2 rho g'(rho^2) = s

    With `PowerRoot(p)` it is `Power(p)`, with `RootPlusLinear(lam)` it is `ElasticNet(lam)`, by a route that knows
    nothing of their closed forms. The square root is not smooth at 0, as the paper asks; `SmoothedRoot` is.

    Parameters
    ----------
    g : ConcaveFunction
        `PowerRoot(p)`, `RootPlusLinear(lam)`, `SmoothedRoot(epsilon)`, or one of your own.
    """

    g: ConcaveFunction

    def __post_init__(self) -> None:
        if not isinstance(self.g, ConcaveFunction):
            raise InvalidType(f"g is {type(self.g).__name__}; give a ConcaveFunction such as PowerRoot(2).")

    @property
    def degree(self) -> float | None:
        return self.g.degree

    def value(self, rho: Array) -> float:
        return float(np.sum(self.g.value(rho**2)))

    def conjugate(self, g: Array) -> float:
        return float(np.sum(self.g.block_conjugate(g))) if np.all(g <= self.g.slopes.high) else np.inf

    def weight_penalty(self, theta: Array) -> float:
        """-sum g*(1/(2 theta)), where theta = 0 costs nothing."""
        if np.any(theta < 0.0):
            return np.inf
        with np.errstate(divide="ignore", over="ignore"):
            y = 0.5 / theta
        return 0.0 - float(np.sum(self.g.conjugate(y[y < np.inf])))

    def weights_from_norms(self, rho: Array) -> Array:
        """1/(2 g'(rho^2)), 0 where g' is infinite."""
        with np.errstate(divide="ignore", over="ignore"):
            return np.asarray(0.5 / self.g.derivative(rho**2))

    def weights_from_dual(self, g: Array) -> Array:
        """rho/s; where g is the square root, 1 at s = 1. Outside the domain of R*, that of dual_scale * s."""
        inside = self.dual_scale(g) * g
        low, high = self.g.slopes
        if low == high:
            return (inside >= (1.0 - TIE) * high).astype(float)
        return quotient(self.norms_from_dual(inside), inside)

    def low_rank_jacobian(self, g: Array) -> LowRank | None:
        """diag(e/(1 - 2e) theta/s^2) with the elasticity e = -x g''(x)/g'(x) at x = rho^2; 0 where rho is 0."""
        if self.g.slopes.low == self.g.slopes.high:
            return None
        inside = self.dual_scale(g) * g
        rho = self.norms_from_dual(inside)
        elasticity = np.where(rho > 0.0, self.g.elasticity(rho**2), 0.0)
        theta = quotient(rho, inside)
        return LowRank.diagonally(quotient(elasticity / (1.0 - 2.0 * elasticity) * theta, inside**2))

    def norms_from_dual(self, s: Array) -> Array:
        """The block norms rho with 2 rho g'(rho^2) = s; 0 up to the slope at 0."""
        with np.errstate(over="ignore", divide="ignore"):
            rho = np.minimum(self.g.norms_from_dual(s), _LARGEST_NORM)
        return np.where(s > self.g.slopes.low, rho, 0.0)

    def dual_scale(self, g: Array) -> float:
        """What takes the largest s just below the slope at infinity or, if R*(s) overflows, to that of a norm of 1."""
        top, limit = float(g.max()), self.g.slopes.high
        if top >= limit:
            return (1.0 - 4.0 * float(np.finfo(float).eps)) * limit / top
        if np.isinf(self.conjugate(g)):
            return min(1.0, 2.0 * float(self.g.derivative(np.ones(1))[0]) / top)
        return 1.0

    def smoothed(self, epsilon: float) -> ConcaveBlock:
        g = self.g.smoothed(epsilon)
        return self if g is self.g else ConcaveBlock(g)

    def sharpened(self) -> ConcaveBlock | None:
        g = self.g.sharpened()
        return None if g is None else ConcaveBlock(g)

    def polyhedral(self, kernels: int) -> Polyhedral | None:
        """s^2/2 1'theta where g(rho^2) = s rho is linear."""
        low, high = self.g.slopes
        return Polyhedral(np.full(kernels, 0.5 * low**2)) if low == high else None
