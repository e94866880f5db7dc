"""Cholesky factors of small matrices that are positive semidefinite but for rounding."""

from __future__ import annotations

import numpy as np
import scipy.linalg

from mklref._typing import Array


def factorised(system: Array) -> Array:
    """Lower factor, with the smallest jitter on the diagonal that lets it exist."""
    jitter = 1e-15 * float(np.abs(system.diagonal()).mean())
    while True:
        factor, failed = scipy.linalg.lapack.dpotrf(system, lower=True, overwrite_a=False, clean=False)
        if not failed and np.isfinite(factor.diagonal().sum()):
            return np.asarray(factor)
        system.flat[:: len(system) + 1] += jitter
        jitter *= 10.0
        if not 0.0 < jitter < np.inf:
            raise FloatingPointError("a matrix to be factorised is not finite")


def substituted(factor: Array, right: Array) -> Array:
    """Solve with such a factor."""
    return np.asarray(scipy.linalg.lapack.dpotrs(factor, right, lower=True)[0])
