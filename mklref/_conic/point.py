"""What the semidefinite program recovers; all other formulations recover a `mklref.problem.Point`."""

from __future__ import annotations

from typing import Any, NamedTuple

from mklref._typing import Array


class SignedPoint(NamedTuple):
    """beta (n,), mu (M,), b, and what the multiplier of the matrix inequality says of beta beta' + Z, (n, n)."""

    dual_coef: Array
    weights: Array
    intercept: Any
    moments: Array
