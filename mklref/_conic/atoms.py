"""lp norms and powers of nonnegative cvxpy expressions, by exact power cones; `cones` replaces them where needed."""

from __future__ import annotations

from typing import Any

import numpy as np


def norm(x: Any, p: float) -> Any:
    """||x||_p for p in [1, inf]."""
    import cvxpy as cp

    if p == 1.0:
        return cp.sum(x)
    if np.isinf(p):
        return cp.max(x)
    if p == 2.0:
        return cp.norm(x, 2)
    return cp.pnorm(x, p, approx=False)


def power(x: Any, exponent: float) -> Any:
    """x^exponent, elementwise, for an exponent of at least 1."""
    import cvxpy as cp

    return x if exponent == 1.0 else cp.power(x, exponent, approx=False)


def norms(blocks: list[Any]) -> Any:
    """The vector (||z_m||)_m of the Euclidean norms of affine vectors."""
    import cvxpy as cp

    return cp.hstack([cp.norm(block, 2) for block in blocks])


def squares(blocks: list[Any]) -> Any:
    """The vector (||z_m||^2)_m of affine vectors."""
    import cvxpy as cp

    return cp.hstack([cp.sum_squares(block) for block in blocks])
