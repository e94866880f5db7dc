"""Generalised block norms: a concave function of every squared block norm.

    R(rho) = sum_m g(rho_m^2)      g concave and non-decreasing, rho -> g(rho^2) convex      (Tomioka (9))

All that follows comes from g itself. With the concave conjugate g*(y) = inf_{x >= 0} x y - g(x)   (10),

    g(x) = min_{theta > 0} x/(2 theta) - g*(1/(2 theta)),      attained at theta = 1/(2 g'(x)),
    psi(theta) = -sum g*(1/(2 theta_m))                                                       (11)

and the block norm of a dual norm s solves s = d/drho g(rho^2) = 2 rho g'(rho^2). At the end are the functions of
Tomioka's Table 1, and a smooth one.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from mklref._own import Stated
from mklref._typing import Array
from mklref._validate import check_field
from mklref.exceptions import InvalidType, NotApplicable
from mklref.regularizers.base import Regularizer
from mklref.regularizers.norms import (
    FEASIBILITY,
    TIE,
    ByExponent,
    LowRank,
    Polyhedral,
    block_exponent,
    conjugate_exponent,
    net_in_unit,
    quotient,
)
from mklref.regularizers.rescaled import Rescaled
from mklref.regularizers.tikhonov import Power

_LARGEST_NORM = 1e150
"""Block norms are sought between the reciprocal of this and this, so that their squares are floating-point numbers."""

_SQUARE = 2.0**60
"""Epsilon from which on a smoothed root times it is rho^2/2, but for rounding, at norms up to 2^34."""

_BISECTIONS = 64
"""Steps that halve the interval of log rho, until only its last bits are left."""


class Slopes(NamedTuple):
    """The limits of d/drho g(rho^2) at rho = 0 and at rho = inf, between which dual norms have a block norm."""

    low: float
    high: float


@dataclass(frozen=True)
class ConcaveFunction(Stated, ABC):
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

        A class that does not define it raises `NotApplicable`.
        """
        raise NotApplicable(f"{self} has no cvxpy expression; give its class the method block_atom(rho).")


@dataclass(frozen=True)
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

    @property
    def supercoercive(self) -> bool:
        return self.g.slopes.high == np.inf

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
        """Takes the largest s just below the slope at infinity or, if R*(s) overflows, to the slope at rho = 1."""
        top, limit = float(g.max()), self.g.slopes.high
        if top >= limit:
            return (1.0 - 4.0 * float(np.finfo(float).eps)) * limit / top
        if np.isinf(self.conjugate(g)):
            return min(1.0, 2.0 * float(self.g.derivative(np.ones(1))[0]) / top)
        return 1.0

    @np.errstate(divide="ignore", over="ignore", under="ignore")
    def in_unit(self, norm: float) -> tuple[float, Regularizer] | None:
        """As of the elastic net; of a smoothed root epsilon/norm, times it where that is above 1: nearly rho^2/2."""
        match self:  # no class of one's own that changes something
            case ConcaveBlock(g=RootPlusLinear(lam=lam)):
                s, lam = net_in_unit(lam, norm)
                return s, ConcaveBlock(RootPlusLinear(lam))
            case ConcaveBlock(g=SmoothedRoot(epsilon=epsilon)):
                e = max(float(np.divide(epsilon, norm)), float(np.finfo(float).tiny))
                if e > _SQUARE:
                    return norm / e, Power(np.inf)
                root = ConcaveBlock(SmoothedRoot(e))
                return (norm, root) if e <= 1.0 else (norm / e, Rescaled.of(root, 1.0, e))
        return super().in_unit(norm)

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

    def in_shares(self, kernels: int) -> Polyhedral | None:
        """As of the elastic net, in h(theta)."""
        match self:
            case ConcaveBlock(g=RootPlusLinear(lam=lam)):
                return Polyhedral(np.full(kernels, 0.5 * (1.0 - lam)), lam=lam)
        return super().in_shares(kernels)


@dataclass(frozen=True)
class PowerRoot(ByExponent, ConcaveFunction):
    """g(x) = (1+p)/(2p) x^{p/(1+p)} = x^{q/2}/q, p in [1, inf] (Tomioka Table 1, rows 1 to 3).

    p = 1 is sqrt(x), the block 1-norm; p = inf is x/2, uniform weights. With p* = p/(p-1):

    g*(y)  = -1/(2p) (2y)^{-p}
    g~*(s) = s^{2p*}/(2p*)

    For a block norm with q > 2, row 4 of the table, x^{q/2}/q is convex: there is no such g (erratum T5).
    """

    p: float

    def __post_init__(self) -> None:
        remedy = "for p < 1, g(rho^2) is not convex; for negative p, that is q > 2, g is not concave: use BlockNorm(q)."
        check_field(self, "p", "[1, inf]", remedy)

    @property
    def slopes(self) -> Slopes:
        return Slopes(1.0, 1.0) if self.p == 1.0 else Slopes(0.0, np.inf)

    @property
    def degree(self) -> float:
        return block_exponent(self.p)

    @property
    def _half(self) -> float:
        """q/2 = p/(1+p)."""
        return 0.5 * block_exponent(self.p)

    def value(self, x: Array) -> Array:
        return np.asarray(x**self._half / (2.0 * self._half))

    def derivative(self, x: Array) -> Array:
        return np.asarray(0.5 * x ** (self._half - 1.0))

    def elasticity(self, x: Array) -> Array:
        return np.full(len(x), 1.0 - self._half)

    def norms_from_dual(self, s: Array) -> Array:
        return np.asarray(s ** (2.0 * conjugate_exponent(self.p) - 1.0))

    def conjugate(self, y: Array) -> Array:
        if np.isinf(self.p):
            return np.where(2.0 * y * (1.0 + FEASIBILITY) >= 1.0, 0.0, -np.inf)
        with np.errstate(over="ignore"):
            return np.asarray(-((2.0 * y) ** -self.p) / (2.0 * self.p))

    def block_conjugate(self, s: Array) -> Array:
        if self.p == 1.0:
            return np.zeros(len(s))
        exponent = 2.0 * conjugate_exponent(self.p)
        with np.errstate(over="ignore"):
            return np.asarray(s**exponent / exponent)


@dataclass(frozen=True)
class RootPlusLinear(ConcaveFunction):
    """g(x) = (1-lam) sqrt(x) + lam/2 x, lam in (0, 1): the elastic net (Tomioka (12) and Table 1, last row).

    g*(y)  = -(1-lam)^2 / (2 (2y - lam))    for y > lam/2, else -inf
    g~*(s) = (s - (1-lam))_+^2 / (2 lam)
    """

    lam: float

    def __post_init__(self) -> None:
        check_field(self, "lam", "(0, 1)", "for 0 use PowerRoot(1), for 1 use PowerRoot(inf).")

    @property
    def slopes(self) -> Slopes:
        return Slopes(1.0 - self.lam, np.inf)

    def value(self, x: Array) -> Array:
        return np.asarray((1.0 - self.lam) * np.sqrt(x) + 0.5 * self.lam * x)

    def derivative(self, x: Array) -> Array:
        return np.asarray(0.5 * ((1.0 - self.lam) / np.sqrt(x) + self.lam))

    def elasticity(self, x: Array) -> Array:
        return np.asarray(0.5 * (1.0 - self.lam) / ((1.0 - self.lam) + self.lam * np.sqrt(x)))

    def norms_from_dual(self, s: Array) -> Array:
        return np.asarray(np.maximum(s - (1.0 - self.lam), 0.0) / self.lam)

    def conjugate(self, y: Array) -> Array:
        rest = 2.0 * y - self.lam
        infinite = np.full(np.shape(y), -np.inf)
        return np.asarray(np.divide(-0.5 * (1.0 - self.lam) ** 2, rest, out=infinite, where=rest > 0.0))

    def block_conjugate(self, s: Array) -> Array:
        with np.errstate(over="ignore"):
            return np.asarray(np.maximum(s - (1.0 - self.lam), 0.0) ** 2 / (2.0 * self.lam))

    def smoothed(self, epsilon: float) -> RootPlusLinear:
        """`RootPlusLinear(epsilon)` where lam is less: g~* is as steep as 1/lam."""
        return self if self.lam >= epsilon else RootPlusLinear(epsilon)


@dataclass(frozen=True)
class SmoothedRoot(ConcaveFunction):
    """g(x) = sqrt(x + epsilon^2) - epsilon, epsilon > 0: the block 1-norm without its kink at 0.

    Tomioka asks for a smooth g, which sqrt(x) is not at 0; this one is.

    g*(y)  = epsilon - epsilon^2 y - 1/(4y)   for y <= 1/(2 epsilon), else 0
    g~*(s) = epsilon (1 - sqrt(1 - s^2))      for s <= 1, else +inf
    """

    epsilon: float

    def __post_init__(self) -> None:
        check_field(self, "epsilon", "(0, inf)", "for 0 use PowerRoot(1).")

    @property
    def slopes(self) -> Slopes:
        return Slopes(0.0, 1.0)

    def value(self, x: Array) -> Array:
        """x / (sqrt(x + epsilon^2) + epsilon), which does not cancel."""
        return np.asarray(x / (self._root(x) + self.epsilon))

    def derivative(self, x: Array) -> Array:
        return np.asarray(0.5 / self._root(x))

    def elasticity(self, x: Array) -> Array:
        return np.asarray(0.5 * (np.sqrt(x) / self._root(x)) ** 2)

    def _root(self, x: Array) -> Any:
        """sqrt(x + epsilon^2), where no square overflows."""
        return np.hypot(np.sqrt(x), self.epsilon)

    def norms_from_dual(self, s: Array) -> Array:
        return np.asarray(self.epsilon * s / np.sqrt((1.0 - s) * (1.0 + s)))

    def conjugate(self, y: Array) -> Array:
        with np.errstate(divide="ignore"):  # -inf at 0
            return np.asarray(-(np.maximum(1.0 - 2.0 * self.epsilon * y, 0.0) ** 2) / (4.0 * y))

    def block_conjugate(self, s: Array) -> Array:
        """Epsilon s^2 / (1 + sqrt(1 - s^2)), which does not cancel."""
        return np.asarray(self.epsilon * s**2 / (1.0 + np.sqrt(1.0 - s**2)))

    def sharpened(self) -> PowerRoot:
        """sqrt(x), from which g differs by epsilon at most."""
        return PowerRoot(1.0)
