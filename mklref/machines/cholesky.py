"""Cholesky factors of matrices that are positive semidefinite but for rounding."""

from __future__ import annotations

import numpy as np
import scipy.linalg

from mklref._typing import Array


def factorised(system: Array, jitter: float = 1e-15) -> Array:
    """Lower factor, with the smallest shift of the diagonal that lets it exist, from `jitter` times its mean."""
    shift = 0.0
    while True:  # a symmetric matrix in rows is one in columns: its upper factor there is the lower one here
        factor, failed = scipy.linalg.lapack.dpotrf(system.T, lower=False, overwrite_a=False, clean=False)
        if not failed and np.isfinite(factor.diagonal().sum()):
            return np.asarray(factor).T
        shift = 10.0 * shift or jitter * max(float(np.abs(system.diagonal()).mean()), np.finfo(float).tiny)
        system.flat[:: len(system) + 1] += shift
        if not shift < np.inf:
            raise FloatingPointError("a matrix to be factorised is not finite")


def halfway(factor: Array, right: Array) -> Array:
    """L^{-1} right, for such a factor L, in the memory of `right` if that is ordered by columns."""
    return np.asarray(scipy.linalg.lapack.dtrtrs(factor.T, right, lower=False, trans=True, overwrite_b=True)[0])


def substituted(factor: Array, right: Array) -> Array:
    """Solve with such a factor."""
    return np.asarray(scipy.linalg.lapack.dpotrs(factor.T, right, lower=False)[0])
