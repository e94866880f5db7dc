"""Quadratic programs over the simplex of weights, for `hessian_mkl` and `level`."""

from __future__ import annotations

import numpy as np

from mklref._typing import Array
from mklref.machines.qp import QuadraticProgram

_NEGLIGIBLE = 1e-10
"""The interior point leaves weights of this size where there should be none."""


@np.errstate(over="ignore", invalid="ignore", divide="ignore")  # no solution is an answer
def simplex_program(P: Array, c: Array, start: Array, rows: Array, bounds: Array) -> Array | None:
    """Minimise 1/2 z'Pz + c'z over z >= 0, 1'z = 1, rows z <= bounds; None if rounding errors leave no solution.

    Parameters
    ----------
    P : array (M, M)
        Positive semidefinite.
    c : array (M,)
    start : array (M,)
    rows : array (k, M)
    bounds : array (k,)
    """
    if not (np.isfinite(rows).all() and np.isfinite(bounds).all()):
        return None
    try:
        weights, _ = QuadraticProgram(P, c, len(c), rows, bounds, np.ones_like(c)).solve(start)
    except FloatingPointError:
        return None
    weights = np.where(weights > _NEGLIGIBLE, weights, 0.0)
    total = float(weights.sum())
    return weights / total if 0.0 < total < np.inf else None
