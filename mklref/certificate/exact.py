"""Floats as the rational numbers they are: exact sums and products, and roundings in a known direction.

Slices of matrices are so short that products of two, and sums of these, are exact in float64.

A float64 array is k 2^e with Python integers k and one exponent e, so sums and inner products of floats are exact in
integers. Powers with rational exponents come from `decimal`, whose ln and exp are correctly rounded by specification.

exp, log and log(1 + exp) of intervals, by series with their remainders: no library function is trusted.

exp(x)  = 2^k exp(r),  r = x - k log 2, |r| <= 0.35:   exp(r) = sum_{j < 15} r^j/j! + R,   |R| <= 2 |r|^15/15!
log(x)  = k log 2 + 2 artanh(s),   x = m 2^k,  s = (m - 1)/(m + 1),  |s| <= 1/5
log(1 + e) = 2 artanh(s),   s = e/(2 + e),  0 <= s <= 1/3   for 0 <= e <= 1
artanh(s) = sum_{j < 17} s^{2j+1}/(2j+1) + R,   0 <= R <= s^35/(35 (1 - s^2))   for s >= 0, and it is odd
"""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal, localcontext
from fractions import Fraction
from math import factorial
from operator import mul
from typing import Any, NamedTuple

import numpy as np

from mklref._typing import Array
from mklref.certificate.rounding import Interval, above, below

_DIGITS = 50
_SAFETY = Decimal(10) ** (4 - _DIGITS)
"""A thousand times the relative error of one operation in 50 digits and more."""
_SMALLEST = -1000
"""Logarithm below which a power is only bounded: its digits would not matter and its exponent may be enormous."""
_BITS = 110
"""Bits beside the largest entry of its row at which a factor is cut off."""
_MOST = 8
"""Products of slices that can be added up exactly."""


class Unbounded(ArithmeticError):
    """No finite bound: a value overflowed, or is infinite by definition."""


def integers(x: Array) -> tuple[list[int], int]:
    """Integers k and an exponent e with x_i = k_i 2^e, exactly; `Unbounded` if an entry is infinite or NaN."""
    if not np.all(np.isfinite(x)):
        raise Unbounded
    mantissas, exponents = np.frexp(x)
    whole = np.ldexp(mantissas, 53).astype(np.int64)
    present = whole != 0
    if not present.any():
        return [0] * len(x), 0
    least = int(exponents[present].min())
    shifts = np.where(present, exponents - least, 0)
    return [k << s for k, s in zip(whole.tolist(), shifts.tolist(), strict=True)], least - 53


def dyadic(k: int, e: int) -> Fraction:
    """k 2^e."""
    return Fraction(k << e) if e >= 0 else Fraction(k, 1 << -e)


def total(x: Array) -> Fraction:
    """The exact sum of the entries."""
    whole, exponent = integers(x)
    return dyadic(sum(whole), exponent)


def dot(x: Array, y: Array) -> Fraction:
    """The exact inner product."""
    (left, e), (right, f) = integers(x), integers(y)
    return dyadic(sum(a * b for a, b in zip(left, right, strict=True)), e + f)


def exact_product(matrix: Array, v: Array) -> tuple[list[Fraction], Fraction]:
    """The exact K v and v'K v: the audit, in Python integers."""
    k, f = integers(v)
    image = []
    for row in matrix:
        whole, e = integers(row)
        image.append(dyadic(sum(map(mul, whole, k)), e + f))
    return image, sum(map(mul, map(Fraction, v.tolist()), image), Fraction(0))


def round_up(x: Fraction) -> float:
    """The smallest float that is at least x."""
    try:
        nearest = float(x)
    except OverflowError:
        return math.inf if x > 0 else -float(np.finfo(float).max)
    return nearest if Fraction(nearest) >= x else math.nextafter(nearest, math.inf)


def round_down(x: Fraction) -> float:
    """The largest float that is at most x."""
    return -round_up(-x)


def root_up(x: Fraction) -> Fraction:
    """An upper bound of sqrt(x) for x >= 0, 60 bits sharp."""
    if x == 0:
        return Fraction(0)
    scale = 60 + max(0, (x.denominator.bit_length() - x.numerator.bit_length() + 1) // 2)
    return Fraction(math.isqrt((x.numerator << 2 * scale) // x.denominator) + 1, 1 << scale)


def power_up(x: Fraction, exponent: Fraction) -> Fraction:
    """An upper bound of x^exponent for x >= 0 and exponent > 0, sharp to 40 digits above e^-1000.

    With relative errors of 1e-50 in x, the exponent and each operation, ln(x) exponent is wrong by less than
    (exponent + |ln(x) exponent|) 1e-49. `Unbounded` beyond e^1000.
    """
    if x in (0, 1):
        return x
    with localcontext(Context(prec=_DIGITS, Emax=MAX_EMAX, Emin=MIN_EMIN)):
        base = Decimal(x.numerator) / Decimal(x.denominator)
        r = Decimal(exponent.numerator) / Decimal(exponent.denominator)
        logarithm = base.ln() * r
        error = (1 + r + abs(logarithm)) * _SAFETY
        if logarithm + error > -_SMALLEST:
            raise Unbounded
        return Fraction((max(logarithm, Decimal(_SMALLEST)) + error).exp() * (1 + _SAFETY))


_TERMS = 15
_ODD_TERMS = 17
_LOG2 = float(Decimal(2).ln())
LOG2 = Interval(below(np.array(_LOG2)), above(np.array(_LOG2)))
_UNDERFLOW = -700.0
_SMALL = 0.75
"""Mantissas of [1/2, 1) below this one are doubled: then 3/4 <= m < 3/2 and -1/7 <= s <= 1/5."""


def exp(x: Array) -> Interval:
    """exp(x) for x <= 0."""
    k = np.rint(np.maximum(x, _UNDERFLOW) / _LOG2)
    r = Interval.point(np.maximum(x, _UNDERFLOW)) - k * LOG2
    power = Interval.point(np.ones_like(x))
    series = power
    for j in range(1, _TERMS):
        power = power * r
        series = series + power / float(factorial(j))
    remainder = 2.0 * (power * r).magnitude / float(factorial(_TERMS))
    scale = np.ldexp(1.0, k.astype(int))  # a power of two, normal: k >= -1010
    value = series.widen(above(remainder)) * scale
    lower = np.where(x < _UNDERFLOW, 0.0, value.lower)
    return Interval(np.maximum(0.0, lower), np.minimum(1.0, value.upper))


def log(x: Interval) -> Interval:
    """log(x) for x > 0."""
    return Interval(_log(x.lower).lower, _log(x.upper).upper)


def _log(x: Array) -> Interval:
    m, k = np.frexp(x)
    small = m < _SMALL
    m, k = np.where(small, 2.0 * m, m), np.where(small, k - 1, k).astype(float)
    point = Interval.point(m)
    logarithm: Interval = k * LOG2 + 2.0 * _artanh((point - 1.0) / (point + 1.0))
    return logarithm


def softplus(x: Interval) -> Interval:
    """log(1 + exp(x)) = max(0, x) + log(1 + exp(-|x|)), increasing in x."""
    return Interval(_softplus(x.lower).lower, _softplus(x.upper).upper)


def _softplus(x: Array) -> Interval:
    e = exp(-np.abs(x))
    return 2.0 * _artanh(e / (2.0 + e)) + np.maximum(0.0, x)


def _artanh(s: Interval) -> Interval:
    """artanh(s) for |s| <= 1/3 by Horner's rule in s^2."""
    square = s.square()
    series = Interval.point(np.full_like(s.lower, 1.0)) / float(2 * _ODD_TERMS - 1)
    for j in range(_ODD_TERMS - 2, -1, -1):
        series = series * square + Interval.point(1.0) / float(2 * j + 1)
    power = Interval.point(np.ones_like(s.lower))
    for _ in range(_ODD_TERMS):
        power = power * square
    remainder = above((s * power).magnitude / float(2 * _ODD_TERMS + 1))
    return (s * series).widen(above(1.125 * remainder))  # 1/(1 - s^2) <= 9/8


def slice_bits(n: int) -> int:
    """The largest b with n 2^{2b} <= 2^53."""
    return (53 - math.ceil(math.log2(n))) // 2


def leading(x: Array, bits: int) -> Array:
    """The nearest multiples of 2^-bits to x, |x_i| <= 1."""
    shift = math.ldexp(0.75, 53 - bits)  # neighbours of this float are 2^-bits apart
    return (x + shift) - shift


class Slices(NamedTuple):
    """Rows of a matrix, 2^units_i times a sum of slices, the j-th of multiples of 2^(-j bits)."""

    units: Array
    slices: list[Array]


def in_slices(high: Array, low: Any = 0.0) -> Slices:
    """high + low, each slice so short that sums of as many products of two, n terms each, are exact."""
    units = np.frexp(np.abs(high).max(axis=1))[1]
    return Slices(units, cut(*(np.ldexp(part, -units[:, None], order="C") for part in (high, low))))


def cut(high: Array, low: Any) -> list[Array]:
    """The slices of high + low, |high_ij| <= 1."""
    bits, slices = short_bits(high.shape[1]), []
    for j in range(1, -(-_BITS // bits) + 1):
        slices.append(leading(high, j * bits))
        left = high - slices[-1]
        high = left + low
        low = low - (high - left)
    return slices


def short_bits(terms: int) -> int:
    """The bits of such slices, for sums of so many terms."""
    return slice_bits(_MOST * max(terms, 1))


def _times(A: Array, B: Array) -> Array:
    return np.asarray(A @ B.T)


def product_of_slices(
    left: Slices, right: Slices, times: Callable[[Array, Array], Array] = _times
) -> tuple[Array, Array]:
    """The product of `left` and the transpose of `right`, in about twice the digits of float64, and what that leaves.

    `times` makes A B' of two slices.
    """
    high, low = (np.zeros((len(left.units), len(right.units)), order="F") for _ in range(2))
    for order in reversed(range(len(left.slices))):
        term = np.zeros_like(high)
        for j in range(order + 1):
            term += times(left.slices[j], right.slices[order - j])
        total = high + term
        back = total - high
        low += (high - (total - back)) + (term - back)
        high = total
    total, units = high + low, left.units[:, None] + right.units
    return np.ldexp(total, units), np.ldexp(low - (total - high), units)
