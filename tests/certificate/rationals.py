"""Floating-point numbers as the rational numbers that they are, and sums that lose every term."""

from __future__ import annotations

from decimal import Context, Decimal
from fractions import Fraction

import numpy as np

from mklref.certificate.rounding import Interval

PRECISE = Context(prec=120, Emax=10**17, Emin=-(10**17))


def fractions(x):
    return [Fraction(float(value)) for value in np.ravel(x)]


def decimal(x: Fraction) -> Decimal:
    return Decimal(x.numerator) / Decimal(x.denominator)


def inside(interval: Interval, values) -> bool:
    ends = zip(np.ravel(interval.lower), np.ravel(interval.upper), values, strict=True)
    return all(Fraction(float(low)) <= value <= Fraction(float(high)) for low, high, value in ends)


def exact_inner(x, y) -> Fraction:
    return sum((a * b for a, b in zip(fractions(x), fractions(y), strict=True)), Fraction(0))


def awkward(rng, n):
    """Ones that fill every accumulator of a sum, and terms that each of them then rounds away."""
    v = np.full(n, 0.99 * 2.0**-53)
    v[: min(n, 32)] = 1.0
    return v if rng.uniform() < 0.5 else -v
