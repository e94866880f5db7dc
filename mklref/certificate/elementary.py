"""exp, log and log(1 + exp) of intervals, by series with their remainders: no library function is trusted.

exp(x)  = 2^k exp(r),  r = x - k log 2, |r| <= 0.35:   exp(r) = sum_{j < 15} r^j/j! + R,   |R| <= 2 |r|^15/15!
log(x)  = k log 2 + 2 artanh(s),   x = m 2^k,  s = (m - 1)/(m + 1),  |s| <= 1/5
log(1 + e) = 2 artanh(s),   s = e/(2 + e),  0 <= s <= 1/3   for 0 <= e <= 1
artanh(s) = sum_{j < 17} s^{2j+1}/(2j+1) + R,   0 <= R <= s^35/(35 (1 - s^2))   for s >= 0, and it is odd
"""

from __future__ import annotations

from decimal import Decimal
from math import factorial

import numpy as np

from mklref._typing import Array
from mklref.certificate.rounding import Interval, above, below

_TERMS = 15
_ODD_TERMS = 17
_LOG2 = float(Decimal(2).ln())
LOG2 = Interval(below(np.array(_LOG2)), above(np.array(_LOG2)))
_UNDERFLOW = -700.0
_SMALL = 0.75
"""Mantissas of [1/2, 1) below this one are doubled: then 3/4 <= m < 3/2 and -1/7 <= s <= 1/5."""


def exp(x: Interval) -> Interval:
    """exp(x) for x <= 0."""
    return Interval(np.maximum(0.0, _exp(x.lower).lower), np.minimum(1.0, _exp(x.upper).upper))


def _exp(x: Array) -> Interval:
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
    return Interval(np.where(x < _UNDERFLOW, 0.0, value.lower), value.upper)


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
    e = exp(Interval.point(-np.abs(x)))
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
