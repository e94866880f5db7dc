"""Enclosures of K_m v and v'K_m v: the only part of a rigorous certificate that reads the kernels.

    fast     one product in float64 with an a-priori bound of its error
    sliced   K and v cut into slices so short that all products and sums of slices are exact in float64, and a float64
             product of the remainders
    exact    Python integers

All three promise the same; they differ in cost and width. The a-priori bound is that of a dot product of length k in
any order, gamma_k |K||v| (`rounding`). K = K' is multiplied by 16 rows at a time, which lie one after the other in
memory, and these products are summed in pairs, so that k = 16 + log2(n/16) and not n. With K + s I proven positive
semidefinite, |K_ij| <= d_i d_j for d_i = sqrt(max(|K_ii|, K_ii + s)), and no second product is needed for
|K||v| <= d (d'|v|).

Kernels that are evaluated when they are read are known up to their `entry_errors` eta_m: the error of a product is at
most (eta_m + gamma_k) d_i d'|v| for the exact d_i = K_ii^{1/2}, d_i^2 <= x_ii / (1 - eta_m), and k the support of v.
Of factors the numbers are given, and slices of them make L_m (L_m'v) as sharp as its own digits: where functions pass
through the targets |L_m'v| may be a tiny share of |L_m|'|v|.

The slices are those of Ozaki, Ogita, Oishi and Rump (2012): x = x_1 + x_2 + x_3 + r, each x_j a multiple of a power of
two with at most b bits, where n 2^{2b} <= 2^53. r holds what is small beside the largest entry.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from mklref._typing import Array
from mklref.certificate.allowance import Enclosed, may_be_sliced
from mklref.certificate.definite import missing
from mklref.certificate.exact import Unbounded, dot, exact_product, leading, round_down, round_up, slice_bits, total
from mklref.certificate.rounding import TINY, Interval, above, below, gamma, inflate
from mklref.kernels.factor_sources import FactorImages
from mklref.kernels.factor_stack import FactorStack
from mklref.kernels.stack import ArrayStack, KernelStack
from mklref.kernels.validation import FULL_CHECK_FLOPS
from mklref.regularizers.norms import quotient

_ROWS = 16
_SLICES = 3
_SLICED, _AT_ONCE = 256, 1 << 15
"""Rows that are cut at a time, and their entries, which stay in the cache; 16 rows in any case."""
_CANCELS = 1e-5
"""A product below this share of its bound has lost digits that the Newton steps of a polish need."""
_CUBES = 2e9
"""M n^2 r up to which factors with r columns are multiplied in twice the digits, in a few seconds."""
_SLACK: WeakKeyDictionary[ArrayStack, Array] = WeakKeyDictionary()
"""`sharp_slack` of each stack, which takes a while."""


def fast(matrix: Array, v: Array, shift: float) -> tuple[Interval, Interval]:
    """K v (n,) and v'K v (scalar), by one product in float64."""
    n = len(v)
    parts = _parts(matrix, v)
    roundings = _ROWS + _depth(len(parts))
    image = _sum(parts)
    lengths = _lengths(np.diagonal(matrix), shift)
    reach = inflate(lengths @ np.abs(v), n)
    radius = above(above(gamma(roundings) * above(lengths * reach)) + 4 * n * TINY)
    return Interval.point(image).widen(radius), _inner(v, image, radius)


def _parts(matrix: Array, v: Array) -> Array:
    """Products of 16 entries of v with as many rows of a symmetric matrix, (n/16, n); their sum is K v."""
    n = len(v)
    whole = n - n % _ROWS
    blocks = np.matmul(v[:whole].reshape(-1, 1, _ROWS), matrix[:whole].reshape(-1, _ROWS, n))[:, 0, :]
    return np.vstack([blocks, v[whole:] @ matrix[whole:]]) if whole < n else blocks


def _sum(parts: Array) -> Array:
    """The sum over the first axis, in pairs; overwrites its argument."""
    while len(parts) > 1:
        half = (len(parts) + 1) // 2
        parts[: len(parts) - half] += parts[half:]
        parts = parts[:half]
    return np.asarray(parts[0])


def _depth(count: int) -> int:
    """Additions on the longest path of `_sum`."""
    return (count - 1).bit_length()


def _lengths(diagonal: Array, shift: float) -> Array:
    """d with |K_ij| <= d_i d_j if K + shift I is positive semidefinite."""
    return np.asarray(above(np.sqrt(np.maximum(np.abs(diagonal), above(diagonal + shift)))))


def _inner(v: Array, image: Array, radius: Array) -> Interval:
    """v'x for every x within `radius` of the image, by a float64 sum in pairs with its own error."""
    n = len(v)
    terms = v * image
    own = above(gamma(1 + _depth(n)) * inflate(np.abs(terms).sum(), n))
    spread = above(inflate(np.abs(v) @ radius, n) + above(own + 4 * n * TINY))
    return Interval.point(_sum(terms)).widen(spread)


def sliced(matrix: Array, v: Array, shift: float) -> tuple[Interval, Interval]:
    """K v (n,) and v'K v (scalar), by exact products of slices; assumes rounding to nearest."""
    image = _enclosed([_sliced_parts(matrix, v)])
    low, high = np.where(v > 0.0, image.lower, image.upper), np.where(v > 0.0, image.upper, image.lower)
    return image, Interval(np.array(round_down(dot(v, low))), np.array(round_up(dot(v, high))))


def _enclosed(found: Sequence[tuple[Array, Array]]) -> Interval:
    """The sum of what `_sliced_parts` gave."""
    try:
        rounded = np.array([math.fsum(row) for row in np.hstack([parts for parts, _ in found]).tolist()])
    except (OverflowError, ValueError) as beyond:
        raise Unbounded from beyond
    return Interval(below(rounded), above(rounded)).widen(inflate(sum(rest for _, rest in found), len(found)))


def _sliced_parts(A: Any, v: Array) -> tuple[Array, Array]:
    """Numbers (k, 11) whose sums are A v up to what is returned besides, (k,); A (k, n) is an array or sparse.

    With A = sum_j A_j + E and v = sum_k v_k + e, v and every row of A scaled to entries of at most 1,

        A v = sum_jk A_j v_k + E (v - e) + A e,

    where products of slices are exact, and those of remainders, which hold what is small beside the largest entries,
    err by gamma_n (2 |E||v| + |A||e|) at most, |v - e| <= 2 |v|. To scale the numbers back may cost 2^-1075 for each.
    """
    n, dense = len(v), isinstance(A, np.ndarray)
    A = A if dense else A.tocsr()
    units, unit_v = _units(A), _units(v[None])[0]
    w = np.ldexp(v, -unit_v)
    v_slices, e = _slices(w, slice_bits(n))
    columns, size = np.stack(v_slices, axis=1), inflate(np.abs(w).sum(), n)
    parts, rest = np.empty((A.shape[0], _SLICES**2 + 2)), np.empty(A.shape[0])
    step = max(_ROWS, min(_SLICED, _AT_ONCE // n))
    for some in (slice(first, first + step) for first in range(0, len(rest), step)):
        piece = A[some]
        shift = units[some, None] if dense else np.repeat(units[some], np.diff(piece.indptr))
        x = np.ldexp(piece if dense else piece.data, -shift)
        slices, E = _slices(x, slice_bits(n))
        if not dense:
            *slices, E, x = (type(A)((one, piece.indices, piece.indptr), shape=piece.shape) for one in (*slices, E, x))
        parts[some] = np.column_stack([*(one @ columns for one in slices), E @ (w - e), x @ e])
        left = inflate(abs(E) @ (2.0 * np.abs(w)) + abs(x) @ np.abs(e), n + 1)
        rest[some] = above(above(gamma(n) * left) + TINY * (size + 4 * n))
    return np.ldexp(parts, units[:, None] + unit_v), above(np.ldexp(rest, units + unit_v))


def _units(A: Any) -> Array:
    """e_i, such that row i of A times 2^-e_i has entries of at most 1."""
    ends = (x if isinstance(x, np.ndarray) else x.toarray().ravel() for x in (A.max(axis=1), -A.min(axis=1)))
    return np.asarray(np.frexp(np.maximum(*ends))[1])


def _slices(x: Array, bits: int) -> tuple[list[Array], Array]:
    """Slices of x, |x_i| <= 1, the j-th a multiple of 2^(-j bits), and what is left of it."""
    slices = []
    for j in range(1, _SLICES + 1):
        slices.append(leading(x, j * bits))
        x = x - slices[-1]
    return slices, x


def exact(matrix: Array, v: Array, shift: float) -> tuple[Interval, Interval]:
    """K v (n,) and v'K v (scalar) in Python integers, rounded once at the end."""
    image, square = exact_product(matrix, v)
    ends = Interval(np.array([round_down(x) for x in image]), np.array([round_up(x) for x in image]))
    return ends, Interval(np.array(round_down(square)), np.array(round_up(square)))


BACKENDS: dict[str, Callable[[Array, Array, float], tuple[Interval, Interval]]] = {
    "fast": fast,
    "sliced": sliced,
    "exact": exact,
}


def evaluated(stack: KernelStack, v: Array, errors: Array) -> tuple[Interval, Interval]:
    """K_m v (M, n) and v'K_m v (M,) of all kernels, which are evaluated with these errors and semidefinite."""
    n, eta = len(v), errors[:, None]
    with np.errstate(divide="ignore"):
        lengths = above(np.sqrt(above(above(stack.diagonals_now()) / np.where(eta < 1.0, below(1.0 - eta), 0.0))))
    reach = inflate(lengths @ np.abs(v), n)[:, None]
    images = stack.apply(v)
    radii = above(above(above(eta + gamma(int(np.count_nonzero(v)) + 1)) * above(lengths * reach)) + 4 * n * TINY)
    squares = [_inner(v, image, radius) for image, radius in zip(images, radii, strict=True)]
    return Interval.point(images).widen(radii), _stacked(squares)


def _stacked(parts: Sequence[Interval]) -> Interval:
    return Interval(np.stack([part.lower for part in parts]), np.stack([part.upper for part in parts]))


def sliced_factors(stack: FactorStack, v: Array) -> tuple[Interval, Interval]:
    """K_m v = L_m w_m (M, n) and v'K_m v = ||w_m||^2 (M,), w_m = L_m'v, by exact products of slices."""
    w = _sliced_transposed(stack, v)
    (middle, radius), squares = _ball(w), w.square()
    images = Interval(*np.empty((2, len(stack), len(v))))
    own = [slice(last - rank, last) for rank, last in zip(stack.ranks, np.cumsum(stack.ranks), strict=True)]
    for start, stop in stack.blocks():
        L = stack.double(stack.read(start, stop))
        for m, columns in enumerate(own):
            reach = inflate(abs(L[:, columns]) @ radius[columns], int(stack.ranks[m]))
            image = _enclosed([_sliced_parts(L[:, columns], middle[columns])]).widen(reach)
            images.lower[m, start:stop], images.upper[m, start:stop] = image.lower, image.upper
    lower = np.array([round_down(total(squares.lower[columns])) for columns in own])
    return images, Interval(lower, np.array([round_up(total(squares.upper[columns])) for columns in own]))


def _sliced_transposed(stack: FactorStack, v: Array) -> Interval:
    """L'v, (r,)."""
    blocks = stack.blocks()
    return _enclosed([_sliced_parts(stack.double(stack.read(a, b)).T, v[a:b]) for a, b in blocks])


def _ball(x: Interval) -> tuple[Array, Array]:
    """The middle of an interval, and how far its ends are from there."""
    middle = 0.5 * x.lower + 0.5 * x.upper
    return middle, np.maximum(above(x.upper - middle), above(middle - x.lower))


def sharp_images(stack: KernelStack, v: Array) -> FactorImages | Enclosed | None:
    """`KernelStack.images`, with what is left of their rounding; None for kernels that are neither factors here."""
    if isinstance(stack, ArrayStack):
        if not may_be_sliced(stack):
            return None
        balls = [_sharp_image(stack, m, v) for m in range(len(stack))]
        eps = [quotient(radius, d).max() for (_, radius), d in zip(balls, stack.own_lengths, strict=True)]
        return Enclosed(np.array([image for image, _ in balls]), np.array(eps), sharp_slack(stack))
    if not isinstance(stack, FactorStack) or not stack.sources:
        return None
    middle, radius = _ball(_sliced_transposed(stack, v))
    return FactorImages(stack, v, middle, np.sqrt(stack.of_each(radius**2)))


def sharp_slack(stack: ArrayStack) -> Array:
    """`KernelStack.slack`, or a multiple, up to powers of 2, that is found in twice the digits where that is cheap."""
    if stack not in _SLACK:
        slack = stack.slack.copy()
        M, n = slack.shape
        affordable = M * n**3 / 3.0 <= FULL_CHECK_FLOPS
        for m in np.flatnonzero(slack.any(axis=1)).tolist() if affordable else []:
            units = np.rint(0.5 * np.log2(slack[m])).astype(int)
            found = missing(np.ldexp(_matrix(stack, m), -(units + units[:, None])), int(_CUBES / (M * n**2)))
            if np.isfinite(found):
                slack[m] = np.ldexp(found, 2 * units)
        _SLACK[stack] = slack
    return _SLACK[stack]


def images_that_cancel(stack: KernelStack, v: Array) -> Array:
    """K_m v (M, n) in float64, to the last digit of the largest where these are a tiny share of |K_m||v|."""
    images = stack.apply(v)
    if may_be_sliced(stack, often=True):
        sizes, lengths = np.abs(images).max(axis=1), stack.own_lengths
        with suppress(Unbounded):
            for m in np.flatnonzero(sizes < _CANCELS * lengths.max(axis=1) * (lengths @ np.abs(v))).tolist():
                images[m], _ = _sharp_image(stack, m, v)
    return images


def _sharp_image(stack: KernelStack, m: int, v: Array) -> tuple[Array, Array]:
    """K_m v by slices, and how far it may be off."""
    return _ball(_enclosed([_sliced_parts(_matrix(stack, m), v)]))


def _matrix(stack: KernelStack, m: int) -> Array:
    """One matrix in float64, as it lies in memory if it does."""
    out: Any = None if stack.dtype == np.float64 else np.empty(stack.shape[1:])
    return np.asarray(stack.matrix(m, out), dtype=np.float64)


def products(stack: KernelStack, v: Array, shifts: Array, backend: str) -> tuple[Interval, Interval]:
    """All K_m v (M, n) and v'K_m v (M,), for proofs that K_m + shifts_m I is semidefinite; `Unbounded` on overflow."""
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        if backend == "sliced" and isinstance(stack, FactorStack):
            images, squares = sliced_factors(stack, v)
        elif stack.entry_errors is not None:
            images, squares = evaluated(stack, v, stack.entry_errors)
        else:
            found = [BACKENDS[backend](_matrix(stack, m), v, shift) for m, shift in enumerate(shifts.tolist())]
            images, squares = map(_stacked, zip(*found, strict=True))
    if not all(np.all(np.isfinite(ends)) for ends in (images.lower, images.upper, squares.lower, squares.upper)):
        raise Unbounded
    return images, squares
