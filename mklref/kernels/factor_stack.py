"""Kernels as factors: K_m = L_m L_m' with L_m of shape (n, r_m), and no matrix of order n anywhere.

    apply(v)_m = L_m (L_m'v)        v'K_m v = ||L_m'v||^2        diag K_m = row sums of L_m^2

With L = [L_1 ... L_M] of shape (n, r) every question costs one or two products with L, which is read in blocks of rows
that fit into the cache. K_m is semidefinite by construction: the kernels *are* these products of the given numbers,
exactly, whatever they approximate.

Sums over samples are taken over shards of rows first, and then over the shards in pairs, so that they have the same
bits wherever the shards are; a stack has one shard unless `sharded` says otherwise. Those of L'v are taken 64 rows at a
time, and all else in pairs: a certificate counts the sums that each product goes through.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Sequence
from copy import copy
from itertools import pairwise
from typing import Any, Self

import numpy as np

from mklref._names import names_in, require_one_order
from mklref._typing import Array, FloatArray
from mklref._validate import checked_count, checked_members, checked_names
from mklref.exceptions import InvalidInput, InvalidParameter, KernelsLost, NotApplicable
from mklref.kernels.factor_sources import AT_ONCE, FactorImages, Rows, Source, apart, require_alike, source_of, summed
from mklref.kernels.protocol import KernelStack, indices, numbers, sum_in_pairs
from mklref.kernels.stack import ArrayStack

_BLOCK = 1 << 19
"""Entries of L that are held at a time."""
_CACHED = 1 << 17
"""Entries of float32 that stay in the cache beside their copies in float64."""
_FEWEST, _MOST = 64, 1 << 13
"""Rows of a block."""
_DENSE, _COPIED = 1 << 31, 1 << 28
"""Bytes of matrices of order n that are made of factors, if somebody asks for them, and of factors that are copied."""


class FactorStack(KernelStack):
    """Kernels K_m = L_m L_m', given by their factors.

    Parameters
    ----------
    factors : sequence of arrays (n, r_m)
        float64 or float32, integers become float64; in memory, memory-mapped, scipy.sparse, or anything that gives rows
        for a slice (HDF5, zarr, Dask). Referred to, never written to; `solve` joins several in memory, up to 256 MiB.
    names : sequence of str, optional
        One name for each kernel.

    Raises
    ------
    InvalidInput
        No factors, factors of different n or without columns, NaN or infinity somewhere, or rows that are others when
        they are read again, as those of a transformer that is not deterministic.
    InvalidType
        Data that are no real numbers.

    Notes
    -----
    It reads all rows once, to see that they are finite and to learn the diagonals.
    """

    definiteness = "by theorem"
    """K_m = L_m L_m'."""
    costly = False
    fewest = 2
    """Rows that there have to be."""

    def __init__(self, factors: Sequence[Any], names: Sequence[str] | None = None) -> None:
        given = checked_members("factors", factors, "give a list of arrays L of shape (n, r), for K = L L'.")
        if not given:
            raise InvalidInput("factors is empty; give at least one array L of shape (n, r), for K = L L'.")
        self.names = checked_names(names, len(given))
        labels = [f"factor {name!r}" for name in self.names]
        self.sample_names = names_in(require_one_order(dict(zip(labels, given, strict=True))))
        self.sources = tuple(source_of(factor, label) for factor, label in zip(given, labels, strict=True))
        self.makers = [source.transformer for source in self.sources]
        """What makes the rows of new samples; None where they are given."""
        require_alike(self.sources, labels, self.fewest)
        self._describe_sources()
        self.own_diagonals = self._squares(first=True)

    def _describe_sources(self) -> None:
        every = self.sources
        dtype, sparse = np.result_type(*(source.dtype for source in every)), all(source.sparse for source in every)
        self._describe([source.shape[1] for source in every], dtype, sparse, (0, every[0].shape[0]))
        self._joined = _joined([source.data if source.transformer is None else None for source in every])

    def _describe(self, ranks: Any, dtype: Any, sparse: bool, edges: tuple[int, ...]) -> None:
        self.ranks, self.sparse, self.edges = np.array(ranks), sparse, edges
        """Where shards of rows begin, and the end of the last one."""
        self._dtype: np.dtype[Any] = np.dtype(dtype)
        self.owner = np.repeat(np.arange(len(self.ranks)), self.ranks)
        """The kernel of each column of L, (r,)."""
        self.block_rows = int(np.clip(_BLOCK // len(self.owner), _FEWEST, _MOST))
        """Rows that are read at a time."""

    def _squares(self, first: bool = False) -> Array:
        """One read of everything: finite numbers, at first the same ones when a block is read twice; the diagonals."""
        found = np.empty(self.shape[:2])
        starts = np.concatenate([[0], np.cumsum(self.ranks)[:-1]])
        for start, stop in self.blocks():
            rows = self.read(start, stop)
            if start == 0 and first:
                _require_repeatable(self, rows)
            rows = self.double(rows)
            with np.errstate(over="ignore", under="ignore", invalid="ignore"):
                squares = rows.multiply(rows).toarray() if self.sparse else rows * rows
                sums = np.add.reduceat(squares, starts, axis=1).T
            if not np.isfinite(sums).all():
                m, i = (int(k) for k in np.argwhere(~np.isfinite(sums))[0])
                raise InvalidInput(
                    f"factor {self.names[m]!r}: row {start + i} holds NaN, infinity or numbers whose squares overflow; "
                    "every entry must be finite. Impute or drop the sample, or rescale the columns."
                )
            found[:, start:stop] = sums
        return found

    def diagonals_now(self) -> Array:
        return self._squares() if self.sources else self.own_diagonals

    def require_finite(self) -> None:
        """Raise `KernelsLost` if rows are no longer finite, as they were when the stack was made."""
        for start, stop in self.blocks():
            rows = self.read(start, stop)
            rows = rows.toarray() if self.sparse else rows
            if not np.isfinite(rows).all():
                i, j = (int(k) for k in np.argwhere(~np.isfinite(rows))[0])
                raise KernelsLost(
                    f"factor {self.names[int(self.owner[j])]!r}: row {start + i} holds {rows[i, j]}, which was not "
                    "there when the stack was made; arrays must stay as they are while they are used."
                )

    @property
    def entry_errors(self) -> Array:
        """eta (M,): |fl(L w) - L w| <= gamma_r |L||w|, and |w| <= |L|'|v|; twice that, which covers underflow too."""
        return 2.0 * (self.ranks + 3.0) * 2.0**-52

    @property
    def recipe(self) -> bytes:
        """SHA-256 of ranks and rows."""
        digest = hashlib.sha256(repr((self.ranks.tolist(), self.shape, str(self._dtype))).encode())
        for start, stop in self.blocks():
            rows = self.read(start, stop)
            digest.update(np.ascontiguousarray(rows.toarray() if self.sparse else rows).data)
        return digest.digest()

    @property
    def shape(self) -> tuple[int, int, int]:
        return len(self.ranks), self.edges[-1], self.edges[-1]

    @property
    def dtype(self) -> np.dtype[Any]:
        return self._dtype

    @property
    def rank(self) -> int:
        """r, the columns of all factors together."""
        return len(self.owner)

    def blocks(self, first: int = 0, last: int | None = None) -> Iterator[tuple[int, int]]:
        """(start, stop) of the blocks of rows, in order."""
        end = self.shape[1] if last is None else last
        for start in range(first, end, self.block_rows):
            yield start, min(end, start + self.block_rows)

    def read(self, start: int, stop: int) -> Rows:
        """Rows of L, (stop - start, r), in the dtype of the stack; CSR if all factors are sparse."""
        if self._joined is not None:
            return self._together(slice(start, stop))
        parts = [source.read(start, stop) for source in self.sources]
        if self.sparse:
            from scipy.sparse import hstack

            return hstack(parts, format="csr", dtype=self._dtype)
        dense = [part.toarray() if source.sparse else part for source, part in zip(self.sources, parts, strict=True)]
        return np.concatenate(dense, axis=1, dtype=self._dtype)

    def _together(self, where: Any) -> Rows:
        """Rows of the one array of which all factors are parts."""
        self.sources[0].files.require_unchanged()
        return self._joined[where] if self.sparse else np.asarray(self._joined[where])

    def side_by_side(self) -> Self:
        """Rows in memory are joined once, up to `_COPIED` bytes: to join many arrays costs more than a product."""
        apart = self.sources and self._joined is None and all(source.in_memory for source in self.sources)
        entries = sum(source.data.size for source in self.sources) if self.sparse else self.shape[1] * self.rank
        if not apart or entries * self._dtype.itemsize > _COPIED:
            return self
        made = copy(self)
        made._joined = self.read(0, self.shape[1])
        return made

    @staticmethod
    def double(rows: Rows) -> Rows:
        """The same rows in float64."""
        return rows.astype(np.float64, copy=False)

    def sharded(self, shards: int) -> Self:
        """The same stack with so many shards of rows, 1 to n, of one size: sums have the bits of as many workers."""
        n = self.shape[1]
        if checked_count("shards", shards, 1, f"at most {n}, one for each sample.") > n:
            raise InvalidParameter(f"shards = {shards}, more than the {n} samples; give at most one for each.")
        made = copy(self)
        made.edges = tuple(int(edge) for edge in np.linspace(0, n, shards + 1))
        return made

    def transposed(self, v: Array) -> Array:
        """L'v, float64 (r,), or (r, k) for v of shape (n, k)."""
        require_rows("v", v, self.shape[1], "sample")
        none = np.zeros((self.rank, *v.shape[1:]))
        shards = [self._doubled(first, last) for first, last in pairwise(self.edges)]
        return sum_in_pairs(sum_in_pairs((summed(rows, v[i]) for i, rows in each), none) for each in shards)

    def gram(self, D: Array) -> Array:
        """L'DL for a diagonal D (n,), float64 (r, r)."""
        require_rows("D", D, self.shape[1], "sample")

        totals = [np.zeros((self.rank, self.rank)) for _ in self.edges[1:]]
        for total, (first, last) in zip(totals, pairwise(self.edges), strict=True):
            for where, rows in self._doubled(first, last):
                made = rows.T @ (rows.multiply(D[where, None]) if self.sparse else rows * D[where, None])
                total += made.toarray() if self.sparse else made
        return sum_in_pairs(totals)

    def product(self, w: Array) -> Array:
        """L w, float64 (n,), or (n, k) for w of shape (r, k)."""
        require_rows("w", w, self.rank, "column of L")
        shards = [self._doubled(first, last) for first, last in pairwise(self.edges)]
        return np.concatenate([np.empty((0, *w.shape[1:])), *(rows @ w for each in shards for _, rows in each)])

    def _doubled(self, first: int, last: int) -> Iterator[tuple[slice, Rows]]:
        """Rows in float64; of those in float32 few enough at a time to stay in the cache."""
        step = self.block_rows
        if self._dtype == np.float32 and not self.sparse:
            step = max(16, _CACHED // self.rank)
            step -= step % AT_ONCE if step > AT_ONCE else 0
        for start, stop in self.blocks(first, last):
            rows = self.read(start, stop)
            for a in range(start, stop, step):
                b = min(stop, a + step)
                yield slice(a, b), self.double(rows[a - start : b - start])

    def of_each(self, w: Array) -> Array:
        """Sums over the columns of each kernel, (M,), of w (r,)."""
        return np.asarray(np.bincount(self.owner, w, minlength=len(self.sources)), dtype=np.float64)

    def block(self, rows: Any, columns: Any = None, kernels: Any = None) -> FloatArray:
        """Entries as of every stack, in float64; `NotApplicable` if they take more than 2 GiB."""
        first = indices(rows, self.shape[1])
        second = first if columns is rows else indices(columns, self.shape[1])
        some = indices(kernels, len(self), "kernels")
        size = 8 * len(some) * len(first) * len(second)
        if size > _DENSE:
            raise NotApplicable(
                f"{len(some)} x {len(first)} x {len(second)} entries of kernels take {size / 2**30:.1f} GiB; factors "
                "are there for products: use apply, quadratic, images or product, or a part of the samples."
            )
        left = self._rows(first)
        right = left if first is second else self._rows(second)
        products = [left[:, own] @ right[:, own].T for own in (self.owner == m for m in some)]
        return np.array(products).reshape(len(some), len(first), len(second))

    def combine_rows(self, weights: Array, rows: Any) -> Array:
        left = self._rows(indices(rows, self.shape[1]))
        return self.product((left * numbers("weights", weights, self)[self.owner]).T).T

    def apply(self, v: Array, kernels: Any = None) -> Array:
        each = np.zeros((self.rank, len(self)))
        each[np.arange(self.rank), self.owner] = self.transposed(numbers("v", v, self))
        some = each if kernels is None else each[:, indices(kernels, len(self), "kernels")]
        return np.ascontiguousarray(self.product(some).T)

    def images(self, v: Array) -> FactorImages:
        return FactorImages(self, v)

    def images_each(self, vectors: Array) -> list[FactorImages]:
        """`images` of several vectors (k, n), by one read of L."""
        products = self.transposed(np.ascontiguousarray(vectors.T))
        return [FactorImages(self, v, image) for v, image in zip(vectors, products.T, strict=True)]

    def roundings(self, k: int) -> float:
        return self.roundings_over_rows(k) + self.rank + 1.0

    def roundings_over_rows(self, k: int) -> float:
        """The most that a product of k entries of v goes through in L'v.

        Those of `AT_ONCE` rows, and the rounds of sums in pairs: over the 2^7 parts of a block, over the blocks of a
        shard, fewer than n/2^3 if n > 2^6 since they have 16 rows or more but for the last, and over the shards.
        """
        rounds = 4 + math.ceil(math.log2(self.shape[1])) + math.ceil(math.log2(len(self.edges) - 1))
        return float(min(k, AT_ONCE + rounds))

    def quadratic(self, v: Array) -> Array:
        """All ||L_m'v||^2, (M,)."""
        return self.of_each(self.transposed(numbers("v", v, self)) ** 2)

    def traces(self) -> Array:
        return sum_in_pairs([self.own_diagonals[:, a:b].sum(axis=1) for a, b in pairwise(self.edges)])

    def largest_diagonals(self) -> Array:
        """The largest entry of each diagonal, (M,)."""
        return np.asarray(self.own_diagonals.max(axis=1))

    def lengths(self, weights: Array) -> Array:
        """sum_m weights_m ||L_mi|| of every sample, (n,)."""
        total = np.zeros(self.shape[1])
        for weight, diagonal in zip(weights, self.own_diagonals, strict=True):
            if weight:
                total += weight * np.sqrt(diagonal)
        return total

    def lengths_against(self, u: Array) -> Array:
        """sum_i ||L_mi|| u_i of every kernel, (M,)."""
        each = [[np.sqrt(own[a:b]) @ u[a:b] for own in self.own_diagonals] for a, b in pairwise(self.edges)]
        return sum_in_pairs([np.array(sums) for sums in each])

    def part(self, samples: Any) -> FactorStack:
        """The stack of some of the samples (k,); their shards, if they are in order."""
        samples = indices(samples, self.shape[1])
        if self._joined is not None:
            made = self.holding(self._together(samples), samples)
        else:
            made = self._made(tuple(source.part(samples) for source in self.sources), samples)
        if np.all(np.diff(samples) > 0):
            made.edges = tuple(int(edge) for edge in np.searchsorted(samples, self.edges))
        return made

    def holding(self, rows: Rows, samples: Any) -> FactorStack:
        """The stack of some of the samples (k,), whose rows of L (k, r) have been read; one shard."""
        return self._made(tuple(map(source_of, apart(rows, self.ranks), self.names)), samples, rows)

    def _made(self, sources: tuple[Source, ...], samples: Any, joined: Rows | None = None) -> FactorStack:
        made = FactorStack.__new__(FactorStack)
        made.names, made.sources, made.sample_names = self.names, sources, self._names_at(samples)
        made._describe_sources()
        made._joined = made._joined if joined is None else joined
        made.own_diagonals = self.own_diagonals[:, samples]
        return made

    def coefficients(self, dual_coef: Array, weights: Array) -> Array:
        """v with f = L v for f = sum_m weights_m K_m dual_coef: theta_m L_m'beta, (r,) or (r, P) for beta (P, n)."""
        image = self.transposed(np.ascontiguousarray(np.asarray(dual_coef, dtype=np.float64).T))
        scale = numbers("weights", weights, self)[self.owner]
        return np.asarray(scale * image if image.ndim == 1 else scale[:, None] * image)

    def dense_stack(self) -> ArrayStack:
        """The same kernels as matrices, up to rounding, for small n and other solvers."""
        made = ArrayStack.trusted([0.5 * (K + K.T) for K in self.dense()], self.names)
        made.sample_names = self.sample_names
        return made

    def _rows(self, index: Any) -> Array:
        """Rows of L in float64, (k, r)."""
        rows = self.part(np.asarray(index)).read(0, len(index))
        return np.asarray(self.double(rows.toarray() if self.sparse else rows))

    def __repr__(self) -> str:
        return f"{type(self).__name__}(M={len(self)}, n={self.shape[1]}, rank={self.rank}, dtype={self._dtype})"


def require_rows(name: str, array: Array, rows: int, each: str) -> None:
    """Raise `InvalidInput` unless the array has so many rows, one for each of something."""
    if np.shape(array)[:1] != (rows,):
        raise InvalidInput(f"{name} has shape {np.shape(array)}; expected {rows} rows, one for each {each}.")


def _joined(arrays: Sequence[Any]) -> Any:
    """The array (n, r) whose columns the factors are, if they lie side by side in one, else None."""
    first = arrays[0]
    if not isinstance(first, np.ndarray) or not first.dtype.isnative or first.dtype not in (np.float32, np.float64):
        return None
    if len(arrays) == 1:
        return first
    place, width = first.ctypes.data, 0
    for array in arrays:
        if not isinstance(array, np.ndarray) or array.dtype != first.dtype or array.strides != first.strides:
            return None
        if array.base is None or array.base is not first.base or array.ctypes.data != place:
            return None
        place += array.shape[1] * array.strides[1]
        width += array.shape[1]
    return np.lib.stride_tricks.as_strided(first, (len(first), width), first.strides, writeable=False)


def _require_repeatable(stack: FactorStack, rows: Rows) -> None:
    """Raise `InvalidInput` if a block is another one when it is read again."""
    first, again = (part.toarray() if stack.sparse else part for part in (rows, stack.read(0, rows.shape[0])))
    different = ~((first == again) | (np.isnan(first) & np.isnan(again))).all(axis=0)
    if different.any():
        m = int(stack.owner[int(np.argmax(different))])
        raise InvalidInput(
            f"factor {stack.names[m]!r} is another one when it is read again, so that no certificate would hold for "
            "it: a fitted transformer has to be deterministic. Give it a random_state, or the array that it makes."
        )
