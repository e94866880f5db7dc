"""A stack of M Gram matrices of order n, and what a solver or a certificate may ask of it.

    block(i, j, kernels)   = (K_m[i, j])_m                        (k, len(i), len(j))    the one evaluation
    combine_rows(theta, i) = sum_m theta_m K_m[i, :]              (len(i), n)
    apply(v, kernels)      = (K_m v)_m, read where v is not 0     (k, n)
    quadratic(v)           = (v'K_m v)_m                          (M,)
    own_diagonals          = (diag K_m)_m                         (M, n)

Nothing here assumes that the matrices exist in memory: a stack that evaluates kernels when they are read defines
`shape`, `dtype` and `block`, and overrides what it knows a faster way to. It says why its kernels are positive
semidefinite (`definiteness`), and how accurately it evaluates them (`entry_errors`). Nobody calls `dense()` but who
needs all matrices at a time. Matrices in memory are an `ArrayStack` (stack.py).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any, TypeVar

import numpy as np

from mklref._names import Naming, kernel_names, last_names, require_named
from mklref._threads import cached_property
from mklref._typing import Array, FloatArray
from mklref._validate import as_float_array, shown
from mklref.exceptions import InvalidInput, InvalidParameter, InvalidType

_HELD = 1 << 23
"""Entries of all kernels together that a stack which is not in memory evaluates at a time."""

T = TypeVar("T", bound=Any)


class KernelStack(ABC):
    """M positive semidefinite Gram matrices on the same n samples; `block` or `rows` is what a class has to define."""

    names: tuple[str, ...] = ()
    """One name for each kernel, where they have any."""
    sample_names: tuple[Naming, ...] = ()
    """Each way in which data frames named the n samples that the kernels are of; none where nothing did."""
    costly = True
    """Whether an entry costs more than its place in memory, so that few of them should be asked for."""

    @property
    def definiteness(self) -> str:
        """How it is known that they are semidefinite: "proved", "by theorem" or "assumed"."""
        return "assumed"

    @property
    def entry_errors(self) -> Array | None:
        """eta (M,), by which evaluated kernels are wrong; None if the matrices that are read are the kernels.

        |x_ij - K_ij| <= eta_m d_i d_j, d_i = K_ii^{1/2}, for each entry x_ij that is evaluated, and, but for the
        rounding of the sum over the support of v, |x_i - (K_m v)_i| <= eta_m d_i d'|v| for each product.
        """
        return None

    @property
    def recipe(self) -> bytes | None:
        """What the matrices follow from, where that is known to be less than the matrices: who has it has them."""
        return None

    @property
    def slack(self) -> Array:
        """s (M, n): K_m + diag(s_m) is semidefinite where the rounding of its entries left K_m indefinite."""
        return np.zeros(self.shape[:2])

    @property
    def lost(self) -> Array:
        """Slack that is more than evaluation in float64 explains, as that of entries in float32 is; else 0."""
        return np.zeros((len(self), 1))

    @property
    @abstractmethod
    def shape(self) -> tuple[int, int, int]:
        """(M, n, n)."""

    @property
    @abstractmethod
    def dtype(self) -> np.dtype[Any]:
        """float32 or float64: the type in which the matrices are stored, or evaluated for a certificate."""

    losable = False
    """Whether what it is read from can change or vanish while it is in use."""

    def block(self, rows: Any, columns: Any = None, kernels: Any = None) -> FloatArray:
        """Entries K_m[rows, columns] of some kernels, (k, len(rows), len(columns)), for index arrays or slices.

        None stands for all.
        """
        whole = self.rows(indices(rows, self.shape[1]))
        some = whole if kernels is None else whole[indices(kernels, len(self), "kernels")]
        return some if columns is None else some[:, :, indices(columns, self.shape[1])]

    def rows(self, index: Any) -> FloatArray:
        """Rows K_m[index, :] of every kernel, (M, k, n), for an integer index array (k,)."""
        own = type(self)
        if own.block is KernelStack.block:  # which asks for rows
            raise InvalidType(f"{own.__name__} is a KernelStack without entries; define its method block, or rows.")
        return self.block(indices(index, self.shape[1]))

    def combine_rows(self, weights: Array, rows: Any) -> Array:
        """sum_m weights_m K_m[rows, :], float64 (k, n); kernels of weight 0 are not read."""
        weights, index = numbers("weights", weights, self), indices(rows, self.shape[1])
        active = np.flatnonzero(weights)
        total = np.zeros((len(index), self.shape[1]))
        for part in self._batches(len(index), len(active)):
            total[part] = np.tensordot(weights[active], self.block(index[part], None, active), 1)
        return total

    def combine(self, weights: Array) -> Array:
        """sum_m weights_m K_m, float64 (n, n); kernels of weight 0 are not read."""
        return self.combine_rows(weights, None)

    def apply(self, v: Array, kernels: Any = None) -> Array:
        """Products K_m v of all kernels, or of some, float64 (M, n) or (k, n): sums of the rows where v is not 0."""
        v, some = numbers("v", v, self), indices(kernels, len(self), "kernels")
        support = np.flatnonzero(v)
        images = np.zeros((len(some), self.shape[1]))
        for part in self._batches(len(support), len(some)):
            rows = self.block(support[part], None, some).astype(np.float64, copy=False)
            images += in_pairs(sums_of_rows(rows, v[None, support[part]], math.isqrt(len(v))))[0]
        return images

    def apply_each(self, vectors: Array, kernels: Any = None) -> Array:
        """Products K_m v of several vectors (k, n), float64 (k, M, n)."""
        some = numbers("vectors", vectors, self)
        return np.stack([self.apply(v) if kernels is None else self.apply(v, kernels) for v in some])

    def images(self, v: Array) -> Any:
        """K_m v for what a certificate asks: `weights @ images` (n,), `images @ u` (M,), and both of `abs(images)`.

        An array (M, n) here; a stack for which that is too much returns an object with these three operations. Sums are
        taken isqrt(n) rows at a time, since libraries may add up all n one after the other.
        """
        return self.apply(v)

    def images_each(self, vectors: Array) -> Any:
        """`images` of each of several vectors (k, n)."""
        return self.apply_each(vectors)

    def roundings(self, k: int) -> float:
        """The most that a product of k entries of v goes through in `images`; k where `apply` is a class's own."""
        if type(self).apply is not KernelStack.apply:
            return float(k)
        M, n, _ = self.shape
        h, held = math.isqrt(n), max(1, _HELD // (n * M))
        return float(min(k, min(h, held) + math.ceil(math.log2(-(-min(n, held) // h))) + -(-n // held) - 1))

    def part(self, samples: Any) -> KernelStack:
        """The stack of some of the samples, for an integer index array (k,): principal submatrices."""
        from mklref.kernels.stack import ArrayStack

        index = indices(samples, self.shape[1])
        made = ArrayStack([np.ascontiguousarray(rows[:, index]) for rows in self.rows(index)], *kernel_names(self))
        made.sample_names = self._names_at(index)
        return made

    def _names_at(self, samples: Any) -> tuple[Naming, ...]:
        """`sample_names` of a part."""
        return tuple(tuple(names[int(i)] for i in samples) for names in self.sample_names)

    def quadratic(self, v: Array) -> Array:
        """All values v'K_m v, float64 (M,)."""
        v = numbers("v", v, self)
        return self.apply(v) @ v

    def norms(self, v: Array) -> Array:
        """g_m = sqrt(v'K_m v), float64 (M,); 0 where rounding leaves a square below it."""
        return np.sqrt(np.maximum(self.quadratic(v), 0.0))

    @cached_property
    def own_diagonals(self) -> Array:
        """The diagonal of each matrix, float64 (M, n)."""
        return np.stack([self.block([i], [i])[:, 0, 0] for i in range(self.shape[1])], axis=1).astype(np.float64)

    def diagonals_now(self) -> Array:
        """`own_diagonals`, read again where arrays are the user's, who may have written to them: for proofs."""
        return self.own_diagonals

    def require_unchanged(self) -> None:
        """Raise `KernelsLost` where arrays are seen to have been written to since they were found semidefinite."""

    def traces(self) -> Array:
        """The trace of each matrix, (M,)."""
        return np.asarray(self.own_diagonals.sum(axis=1))

    @cached_property
    def own_lengths(self) -> Array:
        """d (M, n), the roots of the diagonals: d_m (d_m'|v|) bounds |K_m||v|."""
        return np.asarray(np.sqrt(np.maximum(self.own_diagonals, 0.0)))

    def lengths(self, weights: Array) -> Array:
        """weights'd, (n,)."""
        return np.asarray(weights @ self.own_lengths)

    def lengths_against(self, u: Array) -> Array:
        """d u, (M,)."""
        return np.asarray(self.own_lengths @ u)

    def matrix(self, m: int, out: FloatArray | None = None) -> FloatArray:
        """One matrix, (n, n), written to `out` if that is given; else a view where it lies in memory."""
        found = np.asarray(self.block(None, None, indices([m], len(self), "kernels"))[0])
        if out is None:
            return found
        out[:] = found
        return out

    def dense(self) -> FloatArray:
        """All matrices, (M, n, n); a view where they lie in one array, else a copy."""
        return self.block(None)

    def _batches(self, rows: int, kernels: int) -> list[slice]:
        """Slices of so many rows of so many kernels as are held at a time."""
        step = max(1, _HELD // max(1, self.shape[1] * kernels))
        return [slice(first, min(first + step, rows)) for first in range(0, rows, step)]

    def __len__(self) -> int:
        return self.shape[0]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        """The matrices for `np.asarray`, as `dense` gives them."""
        return np.array(self.dense(), dtype=dtype, copy=copy)


def rows_at_once(k: int, width: int) -> int:
    """isqrt(k) of k rows, or fewer where so many of that width are not held."""
    return max(1, min(math.isqrt(k), _HELD // max(1, width)))


def sums_of_rows(rows: Array, v: Array, h: int) -> Array:
    """v'rows, h rows at a time: (k, b, j, n) for rows (k, r, n), vectors (j, r) and the b parts of r.

    Their sum differs from v'rows by the rounding of what a library may add up one after the other: h products.
    """
    (k, r, n), whole = rows.shape, rows.shape[1] - rows.shape[1] % h
    parts = rows[:, :whole].reshape(k, whole // h, h, n)
    sums = v[:, :whole].reshape(len(v), -1, h).swapaxes(0, 1) @ parts
    return sums if whole == r else np.concatenate([sums, (v[:, whole:] @ rows[:, whole:])[:, None]], axis=1)


def in_pairs(terms: Array) -> Array:
    """The sum over the second axis of terms (k, b, j, n), which are overwritten, in log2(b) rounds: (j, k, n)."""
    while (b := terms.shape[1]) > 1:
        half = (b + 1) // 2
        terms[:, : b - half] += terms[:, half:]
        terms = terms[:, :half]
    return np.asarray(terms[:, 0].swapaxes(0, 1))


def sum_in_pairs(parts: Iterable[T], none: Any = None) -> T:
    """(p0 + p1) + (p2 + p3) + ...: an order that several machines can keep; log2 of them are held. `none` if empty."""
    held: list[T] = []
    for count, part in enumerate(parts, 1):
        held.append(part)
        for _ in range((count & -count).bit_length() - 1):
            held[-2:] = [held[-2] + held[-1]]
    while len(held) > 1:
        held[-2:] = [held[-2] + held[-1]]
    total: T = held[0] if held else none
    return total


def indices(index: Any, n: int, label: str = "samples") -> Any:
    """An index array (k,) for an index array, a mask, a slice, or None for all; else `InvalidParameter`."""
    try:
        found: Any = np.arange(n)[slice(None) if index is None else list(index) if isinstance(index, tuple) else index]
    except (IndexError, TypeError, ValueError, RuntimeError):
        found = None
    if np.ndim(found) != 1:
        known = f"whole numbers from {-n} to {n - 1}, a mask of {n} truth values, a slice, or None for all"
        raise InvalidParameter(f"{label} = {shown(index)} are none of the {n} {label} of the stack; give {known}.")
    return found


_SHAPES = {
    "weights": "({},), one for each kernel",
    "v": "({},), one entry for each sample",
    "vectors": "(k, {}), a row for each vector and a column for each sample",
}


def numbers(label: str, given: Any, stack: KernelStack) -> Array:
    """The `weights` or the vector `v` for a stack, or `vectors` (k, n), in float64; a mask is one of 0 and 1.

    `InvalidInput` for another shape, or names in another order, `InvalidType` for what is no real numbers.
    """
    of_kernels = label == "weights"
    length, known = (len(stack), (stack.names,)) if of_kernels else (stack.shape[1], stack.sample_names)
    mask = isinstance(given, np.ndarray) and given.dtype.kind == "b"
    if not isinstance(given, np.ndarray):
        require_named(label, last_names(given), known, "kernels" if of_kernels else "samples")
    array = as_float_array(given.astype(np.float64) if mask else given, label, InvalidInput)
    if array.ndim != 1 + (label == "vectors") or array.shape[-1] != length:
        raise InvalidInput(f"{label} has shape {array.shape}; expected {_SHAPES[label].format(length)} of the stack.")
    return array.astype(np.float64, copy=False)
