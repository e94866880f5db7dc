"""Checks of raw arrays: types that convert faithfully, shape, finiteness, symmetry, definiteness.

Matrices that are too large to be factorised are searched for negative eigenvalues by Lanczos' method (Golub and Van
Loan, Matrix Computations, 10.1) with full reorthogonalisation: after k products K q its smallest Ritz value is the
minimum of x'K x / x'x over the Krylov space of a random vector. A Ritz vector with x'K x < 0 disproves that K is
semidefinite; that none is found proves nothing.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from mklref._names import Naming, require_trained
from mklref._typing import Array, FloatArray
from mklref._validate import as_float_array, checked_number, require_finite
from mklref.exceptions import AsymmetryWarning, InvalidInput, InvalidKernel, warn
from mklref.kernels.factorisation import explained, factorises
from mklref.kernels.protocol import KernelStack

FULL_CHECK_FLOPS = 2e10
"""Floating point operations up to which `Problem` factorises every kernel to prove it semidefinite."""

_EXAMINATION_FLOPS = 4e9
"""The same for the search for a negative eigenvalue where that is too much."""
_FEWEST, _MOST = 8, 60
"""Products with each kernel in that search."""

INDEFINITE_REMEDY = (
    "Drop the kernel, clip its negative eigenvalues (w, U = np.linalg.eigh(K); K = (U * w.clip(0)) @ U.T, and for new "
    "samples K_new @ (U * (w > 0)) @ U.T), or use mixed-norm synthesis, which allows indefinite kernels."
)
"""The projection of new rows is the one that takes the rows of K to those of the clipped matrix."""
SINGLE_REMEDY = (
    "Its entries are {} numbers, which explains it: evaluate the kernel in float64, or give the matrix in float32."
)

_ROUNDINGS = 64.0
"""Asymmetry, in sqrt(n) rounding units of the largest entry, beyond which a matrix is not symmetric; 1 is nothing."""
_SMALL = 500
"""Order of a matrix whose eigenvalues cost nothing."""
_TILE = 256
"""Order of the tiles in which a matrix is compared with its transpose, or mirrored."""


def checked_gram(matrix: FloatArray, label: str) -> FloatArray:
    """Return a C-contiguous, square, finite, exactly symmetric matrix with the entries of `matrix`.

    A Fortran-ordered symmetric matrix is its own transpose, so no copy is made of it. Of one that is asymmetric within
    rounding the mean with its transpose is used, which has the same quadratic forms. Up to sqrt(n) rounding units of
    the largest entry, about what certificates allow for in products with it, nothing is said; up to 64 times as much
    there is an `AsymmetryWarning`, and beyond an `InvalidKernel`.
    """
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
        raise InvalidKernel(f"{label} has shape {matrix.shape}; a Gram matrix is square, (n, n).")
    if not matrix.size:
        raise InvalidKernel(f"{label} is empty; give at least two samples.")
    require_finite(matrix, label)
    require_room(matrix, label)
    largest, index = _asymmetry(matrix)
    if largest > 0.0:
        tolerance = symmetry_tolerance(matrix)
        i, j = index
        if largest > tolerance:
            raise InvalidKernel(
                f"{label} is not symmetric: |{label}[{i}, {j}] - {label}[{j}, {i}]| = {largest:.3g}, "
                f"allowed {tolerance:.3g}. If the difference is noise, pass (K + K.T) / 2."
            )
        if largest > tolerance / _ROUNDINGS:
            says = f"{label} is symmetric only up to {largest:.3g} (at [{i}, {j}]); (K + K.T) / 2 is used."
            warn(says, AsymmetryWarning)
        return np.ascontiguousarray(0.5 * matrix + 0.5 * matrix.T, dtype=matrix.dtype)
    if matrix.flags.c_contiguous:
        return matrix
    return matrix.T if matrix.flags.f_contiguous else np.ascontiguousarray(matrix)


def require_room(matrix: FloatArray, label: str) -> None:
    """Raise `InvalidKernel` if a sum of all entries of a semidefinite matrix may leave float64."""
    largest, most = float(np.abs(np.diagonal(matrix)).max()), sys.float_info.max / len(matrix) ** 2
    if largest > most:
        raise InvalidKernel(
            f"{label} has entries up to {largest:.3g}, allowed {most:.3g}, or their sums leave float64; divide it by a "
            "power of two, such as 2.0**64."
        )


def require_gram(matrices: Sequence[FloatArray]) -> None:
    """Raise `InvalidKernel` unless the matrices are what `checked_gram` returns, all of one order and type."""
    remedy = "give the matrices to mklref.kernels.stack, which checks and converts them."
    if not matrices:
        raise InvalidKernel("kernels is empty; give at least one Gram matrix of shape (n, n).")
    for m, matrix in enumerate(matrices):
        if not isinstance(matrix, np.ndarray) or matrix.dtype not in (np.float64, np.float32) or matrix.size == 0:
            found = f"{matrix.dtype} {matrix.shape}" if isinstance(matrix, np.ndarray) else type(matrix).__name__
            raise InvalidKernel(f"kernels[{m}] is {found}, no float64 or float32 array of shape (n, n); {remedy}")
        n, dtype = len(matrices[0]), matrices[0].dtype
        if matrix.shape != (n, n) or matrix.dtype != dtype or not matrix.flags.c_contiguous:
            raise InvalidKernel(
                f"kernels[{m}] has shape {matrix.shape} and type {matrix.dtype}, kernels[0] has order {n} and type "
                f"{dtype}, or it is not C-contiguous; {remedy}"
            )
        require_finite(matrix, f"kernels[{m}]")
        require_room(matrix, f"kernels[{m}]")
        if _asymmetry(matrix)[0] > 0.0:
            raise InvalidKernel(f"kernels[{m}] is not exactly symmetric; {remedy}")


def checked_blocks(
    kernels_new: Any, n_kernels: int, n_samples: int, known: Iterable[Naming], of_kernels: Iterable[Naming]
) -> Iterator[Array]:
    """The blocks k_m(new sample, training sample) of an array (M, k, n), a sequence or a stack, each float64 (k, n).

    `InvalidInput` for another number of kernels or of training samples, with both numbers, data frames whose columns
    are not the training samples by names that are `known`, a stack with other names of samples or kernels, or entries
    that are not finite; `InvalidType` for complex, sparse, masked, object or bool data.
    """
    matrices = kernels_new
    require_trained("kernels_new", kernels_new, known, of_kernels)
    if not isinstance(kernels_new, list | tuple):
        given = kernels_new.dense() if isinstance(kernels_new, KernelStack) else kernels_new
        matrices = as_float_array(given, "kernels_new", InvalidInput)
        if matrices.ndim != 3:
            raise InvalidInput(f"kernels_new has shape {matrices.shape}; expected (M, k, n).")
    if len(matrices) != n_kernels:
        raise InvalidInput(f"kernels_new holds {len(matrices)} kernels, the solution has {n_kernels} weights.")
    for block in equally_long(matrices, "kernels_new", n_samples):
        yield block.astype(np.float64, copy=False)


def equally_long(matrices: Iterable[Any], label: str, n_samples: int) -> Iterator[FloatArray]:
    """Each `checked_block`, with as many rows as the first."""
    rows = None
    for m, raw in enumerate(matrices):
        block = checked_block(raw, f"{label}[{m}]", n_samples)
        rows = len(block) if rows is None else rows
        if len(block) != rows:
            raise InvalidInput(f"{label}[{m}] has {len(block)} rows, {label}[0] has {rows}; give the same new samples.")
        yield block


def checked_block(rows: Any, label: str, n_samples: int) -> FloatArray:
    """A finite float32 or float64 array (k, n), or the errors of `checked_blocks`."""
    block = as_float_array(rows, label, InvalidInput)
    if block.ndim != 2 or block.shape[1] != n_samples:
        raise InvalidInput(
            f"{label} has shape {block.shape}; expected (k, {n_samples}): "
            "rows are new samples, columns are the training samples."
        )
    require_finite(block, label, InvalidInput)
    return block


def symmetry_tolerance(matrix: FloatArray) -> float:
    """64 sqrt(n) rounding units of the largest entry: what summation in another order may leave."""
    unit = float(np.finfo(matrix.dtype).eps)
    return _ROUNDINGS * float(np.sqrt(len(matrix))) * unit * float(np.abs(matrix).max())


def _asymmetry(matrix: FloatArray) -> tuple[float, tuple[int, int]]:
    """The largest |K_ij - K_ji| and where it is, tile by tile so that both triangles stay in cache."""
    largest, index = 0.0, (0, 0)
    for i in range(0, len(matrix), _TILE):
        for j in range(i, len(matrix), _TILE):
            upper, lower = matrix[i : i + _TILE, j : j + _TILE], matrix[j : j + _TILE, i : i + _TILE]
            if np.array_equal(upper, lower.T):
                continue
            difference = np.abs(upper - lower.T)
            at = np.unravel_index(int(difference.argmax()), difference.shape)
            if difference[at] > largest:
                largest, index = float(difference[at]), (i + int(at[0]), j + int(at[1]))
    return largest, index


def psd_tolerance(matrix: FloatArray, dtype: Any = None) -> float:
    """Most negative eigenvalue that rounding can explain: 8 n eps trace(|K|), eps that of the dtype it is stored in."""
    unit = 8.0 * float(np.finfo(dtype or matrix.dtype).eps)  # before the sum, which alone may leave float64
    return len(matrix) * float((unit * np.abs(np.diagonal(matrix)).astype(np.float64)).sum())


def require_psd(
    matrix: FloatArray, label: str, order_budget: int = 1, product: Callable[[Array], Array] | None = None
) -> float | None:
    """Raise `InvalidKernel` if a symmetric matrix is indefinite beyond rounding; else what it misses on its diagonal.

    In units of `rounding_of`: 0 says that it is definite, up to 64 that rounding in float64 explains what is missing,
    inf that it takes more, up to the tolerance; None that nothing is proved.

    The full check are Cholesky factorisations of K + diag(s), the first of which breaks down at the rank of K, where
    those that follow are cut in two; it is made when `order_budget` of them stay below 2e10 operations (under a
    second). Where it is not made, or all fail, the 2x2 principal minors are checked (one pass). Beyond that size
    Lanczos' method looks for a vector with v'K v < 0, for as many products K v (`product`) as fit into a fifth of that
    time. An indefinite kernel may slip through; certificates say that definiteness is assumed.
    """
    tolerance, own = psd_tolerance(matrix), rounding_of(matrix.diagonal())
    affordable = order_budget * len(matrix) ** 3 / 3.0 <= FULL_CHECK_FLOPS
    if affordable:
        if (step := explained(matrix, own, tolerance)) is not None:
            return step
        if factorises(matrix, tolerance):
            return math.inf
    _require_minors(matrix, label, tolerance)
    if affordable:
        smallest = smallest_eigenvalue(matrix)
    else:
        steps = int(_EXAMINATION_FLOPS / (2.0 * order_budget * len(matrix) ** 2))
        smallest = smallest_ritz(product or matrix.__matmul__, len(matrix), min(max(steps, _FEWEST), _MOST))
    _require_above(smallest, matrix, label, tolerance)
    return math.inf if affordable else None


def rounding_of(diagonal: FloatArray) -> Array:
    """n eps |K_ii| (..., n): what a semidefinite matrix that was evaluated in float64 misses on its diagonal, at most.

    Rounding of K_ij is a share of (K_ii K_jj)^{1/2}, however far the sizes of samples are apart.
    """
    sizes = diagonal.shape[-1] * (float(np.finfo(np.float64).eps) * np.abs(diagonal).astype(np.float64))
    least = np.where(sizes > 0.0, sizes, np.inf).min(axis=-1, keepdims=True)
    return np.asarray(np.where(np.isfinite(least), np.maximum(sizes, least), 0.0))


def rounding_slack(matrix: FloatArray) -> float:
    """s for which K + s I is semidefinite, for a matrix that is it up to `psd_tolerance`, and not up to `rounding_of`.

    It follows from the smallest eigenvalue, or where that takes too long, from factorisations of K + s I: the entries
    of a semidefinite matrix were rounded to its dtype by u |K_ij| at most, and the norm of such an error is u ||K||_F
    at most, mostly nearer to u ||K||_F/sqrt(n).
    """
    own, most = float(rounding_of(matrix.diagonal()).mean()), psd_tolerance(matrix)
    if len(matrix) <= _SMALL:
        return own + max(0.0, -smallest_eigenvalue(matrix))
    error = float(np.finfo(matrix.dtype).eps) * float(np.linalg.norm(matrix.astype(np.float64)))
    s = own + error / float(np.sqrt(len(matrix)))
    while s < most and not factorises(matrix, s):
        s *= 4.0
    return min(s, most)


def check_psd(K: Any, *, tolerance: float | None = None) -> float:
    """Prove by its eigenvalues that one matrix is a Gram matrix.

    Parameters
    ----------
    K : array (n, n)
        Symmetric; never written to.
    tolerance : float, optional
        The most negative eigenvalue that passes is -tolerance. By default 8 n eps trace(|K|), what rounding
        explains, with the eps of the dtype of K.

    Returns
    -------
    float
        The smallest eigenvalue.

    Raises
    ------
    InvalidType, InvalidKernel
        Not a square, finite, symmetric matrix, or its smallest eigenvalue is below -tolerance.
    InvalidType, InvalidParameter
        A tolerance that is not a number, or negative.
    """
    matrix = checked_gram(as_float_array(K, "K"), "K")
    allowed = psd_tolerance(matrix)
    if tolerance is not None:
        allowed = checked_number("tolerance", tolerance, "[0, inf)", "None for what rounding explains.")
    smallest = smallest_eigenvalue(matrix)
    _require_above(smallest, matrix, "K", allowed)
    return smallest


def smallest_eigenvalue(matrix: FloatArray) -> float:
    """In float64."""
    return float(np.linalg.eigvalsh(matrix.astype(np.float64, copy=False))[0])


def _remedy(matrix: FloatArray) -> str:
    """For an indefinite matrix: another one where float64 holds numbers of a shorter type, which alone explains it."""
    with np.errstate(over="ignore", under="ignore"):
        held = [kind for kind in ("float16", "float32") if np.array_equal(matrix.astype(kind), matrix)]
    rounded = held and matrix.dtype == np.float64 and factorises(matrix, psd_tolerance(matrix, np.float32))
    return SINGLE_REMEDY.format(held[0]) if rounded else INDEFINITE_REMEDY


def _require_above(smallest: float, matrix: FloatArray, label: str, allowed: float) -> None:
    if smallest < -allowed:
        raise InvalidKernel(
            f"{label} is not positive semidefinite: smallest eigenvalue {smallest:.3g}, allowed {-allowed:.3g}. "
            f"{_remedy(matrix)}"
        )


def mirrored(square: Array) -> Array:
    """The upper triangle, mirrored in place."""
    for first in range(0, len(square), _TILE):
        last = first + _TILE
        square[last:, first:last] = square[first:last, last:].T
        corner = square[first:last, first:last]
        corner[:] = np.triu(corner) + np.triu(corner, 1).T
    return square


def _require_minors(matrix: FloatArray, label: str, tolerance: float) -> None:
    """Diagonal entries and 2x2 principal minors of K + tolerance I are nonnegative."""
    diagonal = np.diagonal(matrix).astype(np.float64)
    if diagonal.min() < -tolerance:
        i = int(diagonal.argmin())
        raise InvalidKernel(
            f"{label} is not positive semidefinite: {label}[{i}, {i}] = {diagonal[i]:.3g} is negative. "
            "A kernel is a squared norm on its diagonal; check its sign, and drop a kernel of which centring left only "
            "rounding (mklref.kernels.center makes it 0)."
        )
    bound = np.sqrt(np.maximum(diagonal, 0.0) + tolerance) * (1.0 + 1e-12)
    for i in range(0, len(matrix), _TILE):
        excess = np.abs(matrix[i : i + _TILE]) - bound[i : i + _TILE, None] * bound
        if excess.max() > 0.0:
            at = np.unravel_index(int(excess.argmax()), excess.shape)
            row, column = int(at[0]) + i, int(at[1])
            raise InvalidKernel(
                f"{label} is not positive semidefinite: "
                f"|{label}[{row}, {column}]| = {abs(matrix[row, column]):.3g} "
                f"exceeds the geometric mean {bound[row] * bound[column]:.3g} of its diagonal entries "
                f"(a negative 2x2 minor). {_remedy(matrix)}"
            )


_LAST = 1e-12
"""Share of the largest coefficient below which the Krylov space is exhausted."""


def smallest_ritz(product: Callable[[Array], Array], n: int, steps: int) -> float:
    """The smallest value of x'K x / x'x that `steps` products find, an upper bound of the smallest eigenvalue."""
    q = np.random.default_rng(0).normal(size=n)
    basis, images = np.zeros((0, n)), np.zeros((0, n))
    largest = 0.0
    for _ in range(min(steps, n)):
        basis = np.vstack([basis, q / np.linalg.norm(q)])
        images = np.vstack([images, product(basis[-1])])
        q = images[-1].copy()
        largest = max(largest, float(np.linalg.norm(q)))
        for _again in range(2):
            q -= basis.T @ (basis @ q)
        if float(np.linalg.norm(q)) <= _LAST * largest:
            break
    projected = basis @ images.T
    _, vectors = np.linalg.eigh(0.5 * (projected + projected.T))
    x, image = vectors[:, 0] @ basis, vectors[:, 0] @ images
    return float(x @ image) / float(x @ x)
