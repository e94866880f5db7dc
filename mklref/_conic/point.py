"""What every formulation recovers."""

from __future__ import annotations

from typing import Any, NamedTuple

from mklref._typing import Array


class Point(NamedTuple):
    """beta (n,), theta (M,) and b, as a formulation recovers them from its variables and multipliers.

    A multiclass machine has beta (P, n) and b (P,), one row for each binary machine.
    """

    dual_coef: Array
    weights: Array
    intercept: Any


class SignedPoint(NamedTuple):
    """beta (n,), mu (M,), b, and what the multiplier of the matrix inequality says of beta beta' + Z, (n, n)."""

    dual_coef: Array
    weights: Array
    intercept: Any
    moments: Array
