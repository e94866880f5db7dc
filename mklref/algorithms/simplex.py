"""Quadratic programs over the simplex of weights, for `hessian_mkl` and `level`."""

from __future__ import annotations

import numpy as np

from mklref._typing import Array
from mklref.native.model import QuadraticProgram

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
    M = len(c)
    G, h = np.vstack([-np.eye(M), rows]), np.append(np.zeros(M), bounds)
    if not (np.isfinite(G).all() and np.isfinite(h).all()):
        return None
    try:
        weights, _ = QuadraticProgram(P, c, G, h, np.ones(M)).solve(start)
    except FloatingPointError:
        return None
    weights = np.where(weights > _NEGLIGIBLE, weights, 0.0)
    total = float(weights.sum())
    return weights / total if 0.0 < total < np.inf else None
