"""Floats as the rational numbers they are: exact sums and products, and roundings in a known direction.

A float64 array is k 2^e with Python integers k and one exponent e, so sums and inner products of floats are exact in
integers. Powers with rational exponents come from `decimal`, whose ln and exp are correctly rounded by specification.
"""

from __future__ import annotations

import math
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal, localcontext
from fractions import Fraction

import numpy as np

from mklref._typing import Array

_DIGITS = 50
_SAFETY = Decimal(10) ** (4 - _DIGITS)
"""A thousand times the relative error of one operation in 50 digits and more."""
_SMALLEST = -1000
"""Logarithm below which a power is only bounded: its digits would not matter and its exponent may be enormous."""


class Unbounded(ArithmeticError):
    """No finite bound: a value overflowed, or is infinite by definition."""


def integers(x: Array) -> tuple[list[int], int]:
    """Integers k and an exponent e with x_i = k_i 2^e, exactly.

    Raises
    ------
    Unbounded
        If an entry is infinite or NaN.
    """
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
    flat, e = integers(matrix.ravel())
    k, f = integers(v)
    column = np.array(k, dtype=object)
    image = np.array(flat, dtype=object).reshape(matrix.shape).dot(column)
    return [dyadic(int(value), e + f) for value in image], dyadic(int(column.dot(image)), e + 2 * f)


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
    (exponent + |ln(x) exponent|) 1e-49.

    Raises
    ------
    Unbounded
        Beyond e^1000.
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
