"""Cholesky factorisations in float64 of K + diag(s): with how little on its diagonal a matrix has one."""

from __future__ import annotations

import numpy as np

from mklref._typing import Array, FloatArray

_STEPS = (0.25, 1.0, 4.0, 16.0, 64.0)
"""Times `rounding_of` K, with which on its diagonal K is factorised: a quarter does where entries are rounded once."""
_LEFT = 4.0
"""Times what rounding leaves of a diagonal up to which a factor has all of the matrix."""
_WORTH_AN_IMPORT = 128
"""Order of a matrix from which SciPy's factorisation, which makes no copy and half the time, is worth its import."""


def explained(matrix: FloatArray, own: Array, most: float) -> float | None:
    """The least of the steps with which K is factorised; 0 if it is definite but for samples at the origin."""
    somewhere = matrix.diagonal() != 0.0
    if not somewhere.all() and not matrix[~somewhere].any():
        matrix, own = matrix[np.ix_(somewhere, somewhere)], own[somewhere]
    work = _shifted(matrix, -np.minimum(own, most))
    rank = _factored(work)
    if rank == len(matrix):
        return 0.0
    for step in _STEPS:
        if _factorises_in_two(work, matrix, np.minimum(step * own, most), rank):
            return step
        work[:] = matrix
    return None


def factorises(matrix: FloatArray, shift: float | Array) -> bool:
    """Whether K + diag(shift) has a Cholesky factor in float64."""
    return factor_in_place(_shifted(matrix, shift))


def leading_columns(matrix: Array, rounding: float, most: int) -> tuple[Array, float] | None:
    """L (n, r) of a pivoted Cholesky factorisation that ends where rounding begins, and what it leaves of the trace.

    What is left of the diagonal is then a few times `rounding`, or minus the least that is left, at most. None beyond
    `most` columns.
    """
    n, left = len(matrix), matrix.diagonal().copy()
    columns = np.empty((min(n, most), n))
    for k in range(n + 1):
        j = int(left.argmax())
        if left[j] <= _LEFT * max(rounding, -float(left.min())):
            return columns[:k].T, max(rounding, float(np.abs(left).sum()))
        if k == len(columns):
            return None
        columns[k] = (matrix[j] - columns[:k, j] @ columns[:k]) / np.sqrt(left[j])
        left -= columns[k] ** 2
        left[j] = 0.0
    return None


def _factorises_in_two(work: Array, matrix: FloatArray, shift: Array, rank: int) -> bool:
    """The same by the first rows, and then by what these leave of the others, if K is hardly more.

    Its rounding is a share of what is left, and not of K as where sums over all rows begin with those of the first.
    `work`, whose upper triangle is that of K, is written to.
    """
    if not rank:
        return factorises(matrix, shift)
    from scipy.linalg.blas import dsyrk, dtrsm

    first = _shifted(matrix[:rank, :rank], shift[:rank])
    if not factor_in_place(first):
        return False
    L = np.zeros((rank, len(matrix)), order="F")
    L[:, rank:] = dtrsm(1.0, first.T, matrix[:rank, rank:], trans_a=True)
    work[:rank] = 0.0
    np.fill_diagonal(work, np.where(np.arange(len(matrix)) < rank, 1.0, matrix.diagonal() + shift))
    dsyrk(-1.0, L, beta=1.0, c=work.T, trans=True, lower=True, overwrite_c=True)
    return _factored(work, upper=True) == len(matrix)


def _shifted(matrix: FloatArray, shift: float | Array) -> Array:
    """K + diag(shift), a copy in float64."""
    shifted = matrix.astype(np.float64, order="C")
    shifted.flat[:: len(shifted) + 1] += shift
    return shifted


def factor_in_place(matrix: Array) -> bool:
    """Put L of K = L L' into the lower triangle of a C-contiguous K, if there is one; what is above it stays."""
    return _factored(matrix) == len(matrix)


def _factored(matrix: Array, upper: bool = False) -> int:
    """The same, or L' in the upper triangle; says how many rows have a factor, of a small matrix all or none."""
    n = len(matrix)
    if n >= _WORTH_AN_IMPORT:
        from scipy.linalg.lapack import dpotrf  # rows are columns of the transpose: no copy is made

        failed = dpotrf(matrix.T, lower=upper, overwrite_a=True, clean=False)[1]
        return int(failed) - 1 if failed else n
    try:
        matrix[:] = np.linalg.cholesky(matrix) + np.triu(matrix, 1)
    except np.linalg.LinAlgError:
        return 0
    return n
