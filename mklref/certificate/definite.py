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

What rounding left of a matrix of low rank is found beside its leading columns, in twice the digits (`missing`).

A failure proves nothing. What does disprove is a vector: v'K v < 0 in exact arithmetic.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from mklref._typing import Array
from mklref._validate import as_float_array, require_finite
from mklref.certificate.exact import cut, dot, exact_product, round_up, short_bits, total
from mklref.certificate.rounding import EPS, TINY, above, below, gamma, inflate
from mklref.exceptions import InvalidKernel, InvalidParameter
from mklref.kernels.factorisation import factor_in_place, leading_columns
from mklref.kernels.stack import KernelStack
from mklref.kernels.validation import (
    INDEFINITE_REMEDY,
    mirrored,
    psd_tolerance,
    rounding_of,
    smallest_eigenvalue,
    smallest_ritz,
)

_PIECE, _TILE = 128, 256
_EXAMINED, _PRODUCTS = 500, 60
"""Above this order the smallest eigenvalue is a Ritz value after so many products: a proof needs only a guess."""
_KNOWN, _GUESSED = 2.0**-31, 2.0**-10
"""Relative errors allowed for in a smallest eigenvalue of float64, and in a Ritz value."""
_ROUNDING_SHIFT = 1.1
"""Times the residual reduction: the shift at which a matrix that is semidefinite up to rounding is usually proven."""
_MARGIN, _GROWTH, _FASTEST = 1.5, 1.0 + 2.0**-9, 1.5
"""The first shift lies so many reductions above minus the eigenvalue; after a failed proof it is multiplied by the
growth, which is then squared, up to the fastest."""
_TOLD = 64.0
"""A squared singular value of a factor is signal if it exceeds so many times the trace that the factor leaves. At 16
the shift of kernels whose spectrum decays into rounding is up to 4e-6 of itself too large; at 64, 4e-8."""
_BESIDE, _TERMS = 4.0, 8
"""mu of `missing` in roundings of the largest entry, and the terms of its series."""
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
    """`proven_semidefinite` by the residual of the factorisation, for shifts down to about `residual_reduction`."""
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
    """The least proven shift of each kernel, at most what is allowed; None allows what rounding explains."""
    shifts, K = [], np.empty(stack.shape[1:])
    for m, bound in enumerate(allowed):
        stack.matrix(m, K)
        most = psd_tolerance(K, stack.dtype) if bound is None else bound
        if (shift := least_shift(K, most)) is None:
            raise InvalidKernel(_refusal(K, f"kernels[{m}]", most))
        shifts.append(shift)
    return np.array(shifts)


def least_shift(K: Array, allowed: float, beside: Array | None = None) -> float | None:
    """A shift <= allowed for which K + shift I is proven semidefinite, about the least; None if there is no proof.

    It is 0, or what rounding needs, or a little more than minus the smallest eigenvalue. Of a large matrix that is a
    Ritz value, and is looked for beside orthonormal columns (n, k) of eigenvectors that are known to be none of it.
    """
    if proven_semidefinite(K):
        return 0.0
    shift = _ROUNDING_SHIFT * residual_reduction(K, 0.0)
    if shift <= allowed and proven_by_residual(K, shift):
        return shift
    n = len(K)
    if n <= _EXAMINED:
        smallest = (1.0 + _KNOWN) * smallest_eigenvalue(K)
    else:
        unit = max(float(K.max()), -float(K.min()))  # squares of kernels of 1e160 overflow
        B = np.empty((n, 0)) if beside is None else beside
        smallest = (1.0 + _GUESSED) * unit * smallest_ritz(lambda v: _off(B, K @ _off(B, v) / unit), n, _PRODUCTS)
    shift, growth = max(-smallest, 0.0) + _MARGIN * reduction(K, 0.0), _GROWTH
    while shift < allowed:
        if proven_semidefinite(K, shift):
            return shift
        shift, growth = growth * shift, min(growth * growth, _FASTEST)
    return allowed if 0.0 < allowed < np.inf and proven_semidefinite(K, allowed) else None


def _off(B: Array, v: Array) -> Array:
    return np.asarray(v - B @ (B.T @ v))


def missing(K: Array, most: int | None = None) -> float:
    """A proven s >= 0, about the least with K + s I semidefinite; inf beyond `most` columns of a factor.

    For every matrix L (n, r), and E with ||K - L L' - E|| <= e,

        K + s I = L L' + (E + (s - e) I) + (K - L L' - E + e I)

    is semidefinite if E + (s - e) I is, which a Cholesky factorisation proves (`definite`). E and e are those of
    `_without`. That s is not much more than it has to be takes an L beside which only rounding is left: with columns U
    that span what float64 tells from it, of a pivoted factor, it is that of the Schur complement

        K - K U (U'K U + mu I)^-1 U'K,

    which is at least -s if K is; mu > 0 leaves a little of K in U, where a trace of rounding would count as missing.
    From a first L = U lambda^{1/2} and its E, with X = U lambda^{-1/2} and Y = E X, that is

        (L + Y) (I + G)^{-1/2} = L + D,    G = X'Y + mu lambda^-1,    D = Y + (L + Y) ((I + G)^{-1/2} - I),

    a series in G, since E is much less than lambda. D has the digits that L has not. The proof does not rest on U, D
    and mu.
    """
    found = leading_columns(K, float(rounding_of(K.diagonal()).mean()), len(K) if most is None else most)
    if found is None:
        return math.inf
    columns, left = found
    values, vectors = np.linalg.eigh(columns.T @ columns)
    told = values > _TOLD * left
    L = columns @ vectors[:, told]
    size = float(np.abs(L).max(initial=0.0)) or math.sqrt(float(np.abs(K).max()))
    unit = int(np.frexp(size)[1]) + 1
    L = np.ldexp(L, -unit)
    E, error = _without(K, L, unit)
    if L.size:
        values = np.ldexp(values[told], -2 * unit)
        X = L / values
        Y = E @ X
        G, B = X.T @ Y + np.diag(_BESIDE * EPS / values), np.zeros((L.shape[1], L.shape[1]))
        for k in range(_TERMS, 0, -1):
            B = (0.5 / k - 1.0) * (G + G @ B)
        D = Y + (L + Y) @ B
        E, error = _without(K, L + D, unit, (L - (L + D)) + D)
    if not np.isfinite(error):
        return math.inf
    np.fill_diagonal(E, below(E.diagonal() - error))
    shift = least_shift(E, math.inf, np.linalg.qr(columns @ vectors[:, ~told])[0])
    return math.inf if shift is None else float(above(np.ldexp(shift, 2 * unit))) if shift else 0.0


def _without(K: Array, high: Array, unit: int, low: Any = 0.0) -> tuple[Array, float]:
    """E with K = 4^unit (L L' + E + F) for a matrix L next to high + low, and a bound of the norm of F; tile by tile.

    L is the sum of J slices, j = 0, ..., J-1, multiples of 2^-(j + 1)b and 2^-jb at most. So the terms
    T_o = sum_{j + k = o} L_j L_k' are exact for o < J (`slice_bits`), and the others at most 2 r J 2^-Jb, Jb >= 110.
    What they leave of K is summed with the errors of all differences (Knuth): these are u of the largest partial sum,
    kappa + 2 r at most, with kappa = max |K_ij|, and their own sum errs by J u of J of them. One more rounding, that of
    E, is u |E_ij|:

        ||F|| <= n max |F_ij| <= n (2 u max |E_ij| + (2 J u)^2 (kappa + 2 r)),    u = 2^-53,

    where 2 u and (2 J)^2 in place of u and 2 J^2 have room for the terms left out. Scaling may cost 2^-1075 for each.
    """
    n, r = high.shape
    slices, E = cut(high, low), np.empty_like(K)
    J, size = len(slices), float(np.ldexp(max(K.max(), -K.min()), -2 * unit))
    left, right = np.hstack(slices), np.hstack(slices[::-1])
    for i in range(0, n, _TILE):
        for k in range(i, n, _TILE):
            rows, others = slice(i, i + _TILE), slice(k, k + _TILE)
            total = np.ldexp(K[rows, others], -2 * unit)
            lost = np.zeros_like(total)
            for order in range(J):
                term = left[rows, : (order + 1) * r] @ right[others, (J - 1 - order) * r :].T
                before, total = total, total - term
                back = total - before
                lost += (before - (total - back)) - (term + back)
            E[rows, others] = total + lost
    mirrored(E)
    if any(np.abs(part).max(initial=0.0) > 2.0 ** (-j * short_bits(r)) for j, part in enumerate(slices)):
        return E, math.inf
    largest = max(E.max(), -E.min())
    return E, float(inflate(n * (EPS * largest + (J * EPS) ** 2 * (size + 2.0 * r)), 8))


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
