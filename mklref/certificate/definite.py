"""Proofs that K + s I is positive semidefinite, by a Cholesky factorisation in float64 (Rump 2006).

If the factorisation of A - c I runs to completion, its factor R satisfies |R'R - (A - c I)| <= alpha d d' entrywise,
with d_i^2 = A_ii - c and alpha = gamma_{n+1}/(1 - gamma_{n+1}), whatever the order of the operations. The norm of that
error is at most alpha trace(A), so c >= alpha trace(A) proves A positive semidefinite. Two more roundings are allowed
for libraries that multiply by reciprocals of pivots, and 2^-1022 for each of at most n (3n + 2) results that underflow.

With the factor at hand its residual is a sharper proof, at twice the cost: K + s I = R'R + c I + E is semidefinite if
||E||_F <= c, and R'R, summed in pieces of 128, is known up to gamma_k ||R||_F^2 with k about 128 + n/128.

One matrix is in memory at a time, a copy of a stored one: R' replaces its lower triangle while it is looked at, and
the upper one has all of K but its diagonal.

Kernels that are evaluated when they are read, and semidefinite by a theorem, need no proof: the claim is about their
exact values, and what they are read with is enclosed (`products.evaluated`).

A failure proves nothing. What does disprove is a vector: v'K v < 0 in exact arithmetic.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from mklref._typing import Array
from mklref._validate import as_float_array, require_finite
from mklref.certificate.exact import dot, exact_product, round_up, total
from mklref.certificate.rounding import TINY, above, below, gamma, inflate
from mklref.exceptions import InvalidKernel, InvalidParameter
from mklref.kernels.factorisation import factor_in_place
from mklref.kernels.stack import KernelStack
from mklref.kernels.validation import (
    INDEFINITE_REMEDY,
    mirrored,
    psd_tolerance,
    smallest_eigenvalue,
    smallest_ritz,
)

_PIECE, _TILE = 128, 256
_EXAMINED, _PRODUCTS = 500, 60
"""Order from which a smallest eigenvalue is a Ritz value of so many products: a proof needs a guess, and no more."""
_ROUNDING_SHIFT = 1.1
"""Times the reduction: what a semidefinite matrix needs, whose computed eigenvalues are a little below 0."""
_GROWTH = 1.5
_PROVEN: WeakKeyDictionary[KernelStack, tuple[str, Array]] = WeakKeyDictionary()
"""Shifts that were found without a bound from the user, by stack, and the fingerprint of the matrices that they are of:
a proof costs n^3/3 operations a kernel."""


def fingerprint(stack: KernelStack) -> str:
    """A hash of every entry of the matrices, which tells whether they were written to; one read of them.

    Row by row sum_j w_j r_j mod 2^64, with the entries as integers w_j and odd random r_j: a single change always
    shows, several ones but for about 2^-63. SHA-256 of all entries takes about fifteen times as long; it would stop a
    forger too, but against forgers there is `mklref.verify`, which proves everything anew. Of kernels that
    follow from a recipe the recipe is hashed.
    """
    if stack.recipe is not None:
        return hashlib.sha256(stack.recipe).hexdigest()
    factors = np.random.default_rng(0).integers(0, 2**63, size=stack.shape[1], dtype=np.uint64) * np.uint64(2)
    factors += np.uint64(1)
    words: Any = np.uint64 if stack.dtype == np.float64 else np.uint32
    rows = [np.einsum("ij,j->i", stack.matrix(m).view(words), factors).tobytes() for m in range(len(stack))]
    return hashlib.sha256(b"".join(rows)).hexdigest()


def proven_semidefinite(K: Array, shift: float = 0.0) -> bool:
    """Whether K + shift I is proven positive semidefinite (definite if shift = 0, or K = 0); False is no statement.

    K is written to, and then what it was.
    """
    if not np.array_equal(K, K.T):
        return False
    if not K.any():
        return True
    with _factorised(K, _lowered(K, shift, reduction(K, shift))) as found:
        return found


def proven_by_residual(K: Array, shift: float) -> bool:
    """The same by the residual of the factorisation, for shifts down to about `residual_reduction`."""
    n = len(K)
    if not np.array_equal(K, K.T):
        return False
    c = residual_reduction(K, shift)
    diagonal = _lowered(K, shift, c)
    with _factorised(K, diagonal) as found:
        if not found:
            return False
        squares = sizes = 0.0
        for first in range(0, n, _TILE):
            last = min(first + _TILE, n)
            L = np.tril(K[first:last, :last], first)
            product = np.zeros_like(L)
            for start in range(0, last, _PIECE):
                piece = slice(start, start + _PIECE)
                product[:, start:] += L[:, piece] @ np.tril(K[start:last, piece]).T
            lowered = np.tril(K[:last, first:last].T, first - 1)
            np.fill_diagonal(lowered[:, first:], diagonal[first:last])
            residual = above(np.abs(lowered - np.tril(product, first)))
            squares, sizes = squares + 2.0 * np.sum(residual * residual), sizes + np.sum(L * L)
    unknown = above(gamma(_roundings(n)) * inflate(sizes, n * n))
    return bool(above(above(np.sqrt(inflate(squares, n * n))) + above(unknown + 4 * n * n * TINY)) <= c)


def reduction(K: Array, shift: float) -> float:
    """c >= alpha trace(K + shift I) + underflow, by which the diagonal is lowered before it is factorised."""
    n = len(K)
    constant = Fraction(n + 3, 2**52) / (1 - Fraction(n + 3, 2**52))
    return round_up(constant / (1 - constant) * _trace(K, shift) + n * (3 * n + 2) * Fraction(TINY))


def residual_reduction(K: Array, shift: float) -> float:
    """A c that the residual of a semidefinite matrix is likely to stay below; the proof does not depend on it."""
    n = len(K)
    return round_up(Fraction(_roundings(n) + 4, 2**52) * _trace(K, shift) + 8 * n * n * Fraction(TINY))


def _roundings(n: int) -> int:
    return min(n, _PIECE) + n // _PIECE + 1


def _trace(K: Array, shift: float) -> Fraction:
    return total(np.maximum(np.diagonal(K), 0.0)) + len(K) * Fraction(shift)


def _lowered(K: Array, shift: float, c: float) -> Array:
    """The diagonal of K + (shift - c) I, or a little less."""
    return np.asarray(below(below(np.diagonal(K) + shift) - c))


@contextmanager
def _factorised(K: Array, diagonal: Array) -> Iterator[bool]:
    """Within, K has in its lower triangle the Cholesky factor of K with this diagonal; says whether it is finite."""
    own = K.diagonal().copy()
    try:
        np.fill_diagonal(K, diagonal)
        yield factor_in_place(K) and bool(np.all(np.isfinite(K)))
    finally:
        np.fill_diagonal(mirrored(K), own)


def proven_shifts(stack: KernelStack, delta: Any = None, data: str | None = None) -> tuple[Array, Array]:
    """delta_m of the claim and a shift s_m <= delta_m for which K_m + s_m I is proven positive semidefinite.

    delta is that of `certify`; where it is None, the smallest shift found, if rounding explains it (`psd_tolerance`).
    `data` is the `fingerprint` of the stack. `InvalidKernel` where nothing is proven, with a vector that disproves it,
    if there is one.
    """
    if stack.entry_errors is not None and stack.definiteness == "by theorem":
        exact = np.zeros(len(stack))
        return (exact if delta is None else _checked_delta(delta, len(stack))), exact
    data = data or fingerprint(stack)
    known, proven = _PROVEN.get(stack, ("", np.empty(0)))
    if delta is None:
        if known != data:
            proven = _smallest_shifts(stack, [None] * len(stack))
            _PROVEN[stack] = data, proven
        return proven, proven
    allowed = _checked_delta(delta, len(stack))
    if known == data and np.all(proven <= allowed):
        return allowed, proven
    return allowed, _smallest_shifts(stack, allowed.tolist())


def _smallest_shifts(stack: KernelStack, allowed: list[Any]) -> Array:
    """Of each kernel, at most what is allowed; None is what rounding explains."""
    shifts, K = [], np.empty(stack.shape[1:])
    for m, bound in enumerate(allowed):
        stack.matrix(m, K)
        most = psd_tolerance(K, stack.dtype) if bound is None else bound
        shifts.append(_smallest_shift(K, f"kernels[{m}]", most))
    return np.array(shifts)


def _smallest_shift(K: Array, label: str, allowed: float) -> float:
    """0, or what rounding needs, or a little more than minus the smallest eigenvalue."""
    if proven_semidefinite(K):
        return 0.0
    shift = _ROUNDING_SHIFT * residual_reduction(K, 0.0)
    if shift <= allowed and proven_by_residual(K, shift):
        return shift
    n = len(K)
    if n <= _EXAMINED:
        smallest = smallest_eigenvalue(K)
    else:
        unit = max(float(K.max()), -float(K.min()))  # squares of kernels of 1e160 overflow
        smallest = unit * smallest_ritz(lambda v: K @ v / unit, n, _PRODUCTS)
    shift = max(-1.01 * smallest, 0.0) + _GROWTH * reduction(K, 0.0)
    while shift < allowed:
        if proven_semidefinite(K, shift):
            return shift
        shift *= _GROWTH
    if allowed and proven_semidefinite(K, allowed):
        return allowed
    raise InvalidKernel(_refusal(K, label, allowed))


def _refusal(K: Array, label: str, allowed: float) -> str:
    """What is known about a matrix that could not be proven semidefinite."""
    if not np.array_equal(K, K.T):
        return f"{label} is not exactly symmetric, so nothing can be proven about it; pass (K + K.T) / 2."
    values, vectors = np.linalg.eigh(K)
    v = vectors[:, 0]
    square, size = exact_product(K, v)[1], dot(v, v)
    if square + Fraction(allowed) * size < 0:
        return (
            f"{label} is not positive semidefinite, nor is any matrix within delta = {allowed:.3g} of it: v'K v = "
            f"{round_up(square):.6g} for a v with v'v = {round_up(size):.6g}, proven in exact arithmetic. "
            f"{INDEFINITE_REMEDY}"
        )
    return (
        f"{label} + {allowed:.3g} I is not proven positive semidefinite (smallest eigenvalue about {values[0]:.3g}; a "
        f"proof in float64 needs about {reduction(K, 0.0):.1g} more). Give a larger delta, or leave it out: the claim "
        "then holds for every family of semidefinite matrices within the smallest delta that can be proven."
    )


def _checked_delta(delta: Any, kernels: int) -> Array:
    array = as_float_array(delta, "delta", InvalidParameter).astype(np.float64)
    if array.shape not in ((), (kernels,)):
        raise InvalidParameter(f"delta has shape {array.shape}; give one number, or one for each of {kernels} kernels.")
    require_finite(array, "delta", InvalidParameter)
    if array.min() < 0.0:
        raise InvalidParameter(f"delta = {delta!r} must be nonnegative: a distance in the spectral norm.")
    return np.broadcast_to(array, (kernels,)).copy()
