"""The concave functions of Tomioka's Table 1, and a smooth one, for `ConcaveBlock`.

Each comes with its concave conjugate g*(y) = inf_{x >= 0} x y - g(x), Tomioka (10), and with the convex conjugate
g~*(s) = sup_{rho >= 0} s rho - g(rho^2) of its block norm.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mklref._typing import Array
from mklref._validate import checked_number
from mklref.regularizers.concave import ConcaveFunction, Slopes
from mklref.regularizers.norms import FEASIBILITY, block_exponent, conjugate_exponent


@dataclass(frozen=True)
class PowerRoot(ConcaveFunction):
    """g(x) = (1+p)/(2p) x^{p/(1+p)} = x^{q/2}/q, p in [1, inf] (Tomioka Table 1, rows 1 to 3).

    p = 1 is sqrt(x), the block 1-norm; p = inf is x/2, uniform weights. With p* = p/(p-1):

    g*(y)  = -1/(2p) (2y)^{-p}
    g~*(s) = s^{2p*}/(2p*)

    For a block norm with q > 2, row 4 of the table, x^{q/2}/q is convex: there is no such g (erratum T5).
    """

    p: float

    def __post_init__(self) -> None:
        remedy = "for p < 1, g(rho^2) is not convex; for negative p, that is q > 2, g is not concave: use BlockNorm(q)."
        object.__setattr__(self, "p", checked_number("p", self.p, "[1, inf]", lambda p: p >= 1.0, remedy))

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

    def smoothed(self, epsilon: float) -> PowerRoot:
        return self if self.p >= 1.0 + epsilon else PowerRoot(1.0 + epsilon)


@dataclass(frozen=True)
class RootPlusLinear(ConcaveFunction):
    """g(x) = (1-lam) sqrt(x) + lam/2 x, lam in (0, 1): the elastic net (Tomioka (12) and Table 1, last row).

    g*(y)  = -(1-lam)^2 / (2 (2y - lam))    for y > lam/2, else -inf
    g~*(s) = (s - (1-lam))_+^2 / (2 lam)
    """

    lam: float

    def __post_init__(self) -> None:
        remedy = "for 0 use PowerRoot(1), for 1 use PowerRoot(inf)."
        object.__setattr__(self, "lam", checked_number("lam", self.lam, "(0, 1)", lambda lam: 0.0 < lam < 1.0, remedy))

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
        remedy = "for 0 use PowerRoot(1)."
        checked = checked_number("epsilon", self.epsilon, "(0, inf)", lambda epsilon: 0.0 < epsilon < np.inf, remedy)
        object.__setattr__(self, "epsilon", checked)

    @property
    def slopes(self) -> Slopes:
        return Slopes(0.0, 1.0)

    def value(self, x: Array) -> Array:
        """x / (sqrt(x + epsilon^2) + epsilon), which does not cancel."""
        return np.asarray(x / (np.sqrt(x + self.epsilon**2) + self.epsilon))

    def derivative(self, x: Array) -> Array:
        return np.asarray(0.5 / np.sqrt(x + self.epsilon**2))

    def elasticity(self, x: Array) -> Array:
        return np.asarray(0.5 * x / (x + self.epsilon**2))

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
