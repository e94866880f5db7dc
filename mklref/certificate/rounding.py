"""Arithmetic that errs on the known side: outward rounding, a-priori error bounds, intervals of arrays.

Every elementwise operation + - * / sqrt of IEEE 754 returns a neighbour of the exact result, in every rounding mode.
So the next float beyond the computed result lies beyond the exact one; 2^-1022 more covers a result that underflowed,
also where the processor flushes small numbers to zero. For sums of products in any order, with or without fused
operations, the classical constant is gamma_k = k u/(1 - k u) with k roundings on each path and u = 2^-52, again valid
in every rounding mode (Higham, Accuracy and Stability of Numerical Algorithms, 3.1).

An overflow gives an infinite bound or NaN, never a wrong finite one; `mklref.certificate.exact` turns both into
`Unbounded` when the bounds are summed.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, TypeAlias

import numpy as np

from mklref._typing import Array

EPS = 2.0**-52
"""Relative error of one operation in every rounding mode; rounding to nearest errs by half of it (`allowance.UNIT`)."""
TINY = 2.0**-1022

Operand: TypeAlias = "Interval | Array | float"


def above(x: Any) -> Any:
    """An upper bound of the exact result of the one operation that computed x."""
    return np.nextafter(x + TINY, np.inf)


def below(x: Any) -> Any:
    """A lower bound of the exact result of the one operation that computed x."""
    return np.nextafter(x - TINY, -np.inf)


def gamma(k: int) -> float:
    """gamma_k = k u/(1 - k u), rounded up."""
    exact = Fraction(k, 2**52) / (1 - Fraction(k, 2**52))
    nearest = float(exact)
    return nearest if Fraction(nearest) >= exact else float(np.nextafter(nearest, np.inf))


def inflate(x: Any, k: int) -> Any:
    """An upper bound of a sum of products of nonnegative numbers that was computed as x with paths of k roundings.

    x >= (1 - gamma_k) exact - 2 k 2^-1022, and 1/(1 - gamma_k) <= 1 + 2 gamma_k.
    """
    return above(above(x + 4 * k * TINY) * (1.0 + 4.0 * gamma(k)))


@dataclass(frozen=True)
class Interval:
    """Arrays lower <= upper, elementwise, between which the exact values lie; operations round outwards."""

    lower: Array
    upper: Array

    __array_ufunc__: ClassVar[None] = None  # an array on the left leaves the operation to the interval

    @classmethod
    def point(cls, x: Any) -> Interval:
        """The interval that holds x alone."""
        array = np.asarray(x, dtype=float)
        return cls(array, array)

    @property
    def magnitude(self) -> Array:
        """An upper bound of the absolute values."""
        return np.maximum(np.abs(self.lower), np.abs(self.upper))

    def __add__(self, other: Operand) -> Interval:
        other = _interval(other)
        return Interval(below(self.lower + other.lower), above(self.upper + other.upper))

    def __neg__(self) -> Interval:
        return Interval(-self.upper, -self.lower)

    def __sub__(self, other: Operand) -> Interval:
        return self + -_interval(other)

    def __mul__(self, other: Operand) -> Interval:
        return _extremes(self, _interval(other), np.multiply)

    def __truediv__(self, other: Operand) -> Interval:
        """Quotients; the divisor must not contain 0."""
        return _extremes(self, _interval(other), np.divide)

    def __radd__(self, other: Operand) -> Interval:
        return self + other

    def __rsub__(self, other: Operand) -> Interval:
        return -self + other

    def __rmul__(self, other: Operand) -> Interval:
        return self * other

    def __abs__(self) -> Interval:
        return Interval(np.maximum(0.0, np.maximum(self.lower, -self.upper)), self.magnitude)

    def square(self) -> Interval:
        """The squares."""
        size = abs(self)
        return Interval(np.maximum(0.0, below(size.lower * size.lower)), above(size.upper * size.upper))

    def widen(self, radius: Any) -> Interval:
        """All values within `radius` >= 0 of these."""
        return Interval(below(self.lower - radius), above(self.upper + radius))


def _interval(x: Operand) -> Interval:
    return x if isinstance(x, Interval) else Interval.point(x)


def _extremes(x: Interval, y: Interval, operation: Any) -> Interval:
    ends = [operation(a, b) for a in (x.lower, x.upper) for b in (y.lower, y.upper)]
    return Interval(below(np.minimum.reduce(ends)), above(np.maximum.reduce(ends)))


def weighted_sum(weights: Array, x: Interval) -> Interval:
    """sum_m weights_m x_m for weights >= 0 (M,) and intervals (M, n), by one product for each end."""
    count = len(weights)
    noise = gamma(count)
    lower, upper = weights @ x.lower, weights @ x.upper
    sizes = inflate(weights @ x.magnitude, count)
    error = above(above(noise * sizes) + 4 * count * TINY)
    return Interval(below(lower - error), above(upper + error))
