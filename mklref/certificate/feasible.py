"""A dual point that is feasible exactly, in floats.

Every entry is put on the grid of the largest one, beta_i = k_i g with g the spacing of floats at max |beta| and
integers |k_i| <= 2^53, so that each beta_i is a float64. The box becomes bounds on the integers, and 1'beta = c_b an
equation between them, whose imbalance of a few units is spent where there is most room.
"""

from __future__ import annotations

import math

import numpy as np

from mklref._typing import Array

_LARGEST = 2**53


def exactly_feasible(beta: Array, lower: Array, upper: Array, total: float | None) -> Array | None:
    """The feasible point next to beta, or None if there is none.

    Parameters
    ----------
    beta : array (n,)
        Feasible up to rounding.
    lower, upper : array (n,)
        Floats inside the true box, which contains 0; infinite where there is no bound.
    total : float or None
        c_b, which 1'beta has to be: 0, 1, or None without an intercept.

    Returns
    -------
    array (n,) or None
        lower <= beta <= upper and 1'beta = c_b, both without any rounding.
    """
    inside: Array = np.clip(beta, lower, upper)
    largest = float(np.abs(inside).max())
    if total is None or (largest == 0.0 and not total):
        return inside
    exponent = max(math.frexp(largest)[1] - 53, -1074)
    if total:
        exponent = min(exponent, -52)  # no entry exceeds 1, and 1 has to be a multiple of the grid
    low, high = _units(lower, exponent, np.ceil), _units(upper, exponent, np.floor)
    whole = [min(max(k, a), b) for k, a, b in zip(_units(inside, exponent, np.rint), low, high, strict=True)]
    excess = sum(whole) - (int(total) << -exponent if total else 0)
    room = [min(k - a, b - k) for k, a, b in zip(whole, low, high, strict=True)]
    for i in np.argsort(room, kind="stable")[::-1].tolist():
        if excess == 0:
            break
        step = min(excess, whole[i] - low[i]) if excess > 0 else max(excess, whole[i] - high[i])
        whole[i] -= step
        excess -= step
    return None if excess else np.ldexp(np.array(whole, dtype=float), exponent)


def _units(x: Array, exponent: int, rounding: np.ufunc) -> list[int]:
    """x in units of the grid, as integers that float64 can hold."""
    with np.errstate(over="ignore"):
        return [int(k) for k in np.clip(rounding(np.ldexp(x, -exponent)), -_LARGEST, _LARGEST)]
