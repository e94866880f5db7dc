"""What a solver reads a stack with that is not in memory: sums of rows, and squares of a combination.

A `CachedReader` keeps what is expensive and shared: of Gaussians the squared distances of a sample from all samples,
one row for all widths, in its precision. The rows that were used longest ago make room.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from mklref._typing import Array, FloatArray
from mklref.kernels.evaluation import Block
from mklref.kernels.stack import KernelStack
from mklref.kernels.validation import mirrored

if TYPE_CHECKING:
    from mklref.kernels.lazy import LazyStack

_AT_ONCE = 1 << 22
"""Entries of shared rows that are evaluated at a time."""
_CHEAP = 8
"""Columns up to which distances are sooner computed than read."""


class Reader:
    """Reads any stack, and keeps nothing."""

    def __init__(self, stack: KernelStack) -> None:
        self.stack = stack
        self.itemsize = stack.dtype.itemsize
        """Bytes of an entry of `dense`."""

    def add(self, kernels: Any, index: Any, delta: Array, images: Array) -> None:
        """images[m] += sum_k delta_k K_m[index_k, :] for m in kernels."""
        v = np.zeros(self.stack.shape[1])
        v[index] = delta
        images[kernels] += self.stack.apply(v, kernels)

    def dense(self, index: Any) -> FloatArray:
        """All K_m[index, index], (M, k, k)."""
        return np.ascontiguousarray(self.stack.block(index, index))

    def square(self, weights: Array, index: Any) -> Array:
        """sum_m weights_m K_m[index, index], float64 and exactly symmetric."""
        active, out = np.flatnonzero(weights), np.zeros((len(index), len(index)))
        for first in range(0, len(index), step := max(1, _AT_ONCE // max(1, len(index) * len(active)))):
            rows = self.stack.block(index[first : first + step], index, active)
            out[first : first + step] = np.tensordot(weights[active], rows, 1)
        return mirrored(out)


class CachedReader(Reader):
    """Reads a `LazyStack` in its precision, with shared rows in a cache of bounded size.

    One thread reads at a time: solvers that run at once on the same kernels share the cache, and a row that goes while
    another thread is about to copy it would be the row of another sample.
    """

    stack: LazyStack

    def __init__(self, stack: LazyStack) -> None:
        super().__init__(weakref.proxy(stack))  # which has this reader
        self._samples = stack.samples(stack.precision)
        self.itemsize = self._samples.dtype.itemsize
        dear = [run for run in stack.runs if self._samples.columns(run.columns).shape[1] > _CHEAP]
        kinds = {(run.shares, run.columns) for run in dear}
        n = stack.shape[1]
        self._room = min(n, stack.cache // (n * self.itemsize * len(kinds))) if kinds else 0
        self._kinds = kinds if self._room else set()
        self.begin()
        _READERS.add(self)

    def begin(self) -> None:
        """With nothing in the cache, and nobody who reads."""
        self.turn, n, dtype = threading.RLock(), self.stack.shape[1], self._samples.dtype
        self._caches = {kind: _Rows(self._room, n, dtype) for kind in self._kinds}

    def add(self, kernels: Any, index: Any, delta: Array, images: Array) -> None:
        sums = np.zeros((len(kernels), self.stack.shape[1]))
        with self.turn:
            for cache in self._caches.values():
                known = cache.known(index)
                order = np.concatenate([np.flatnonzero(known), np.flatnonzero(~known)])
                index, delta = index[order], delta[order]  # what is here is read before it could have to go
            for first in range(0, len(index), step := max(1, _AT_ONCE // self.stack.shape[1])):
                part = index[first : first + step]
                self.stack.add_rows(self._block(part, None), kernels, delta[first : first + step], sums)
        images[kernels] += sums

    def dense(self, index: Any) -> FloatArray:
        """All K_m[index, index], (M, k, k) in the precision of the stack, exactly symmetric."""
        every = np.arange(len(self.stack))
        out = np.empty((len(every), len(index), len(index)), self._samples.dtype)
        with self.turn:
            for part, block in self._triangle(index, len(every)):
                out[:, part, part.start :] = self.stack.entries(block, every)
        for matrix in out:
            mirrored(matrix)
        return out

    def square(self, weights: Array, index: Any) -> Array:
        out = np.empty((len(index), len(index)))
        with self.turn:
            if len(index) == self.stack.shape[1]:
                self._fill()
            for part, block in self._triangle(index, 1):
                out[part, part.start :] = self.stack.combined(block, weights)
        return mirrored(out)

    def _fill(self) -> None:
        """Keep all rows of what is shared, if there is room for them."""
        every = np.arange(self.stack.shape[1])
        for key, cache in self._caches.items():
            if cache.capacity < len(every) or cache.known(every).all():
                continue
            square = np.empty((len(every), len(every)), self._samples.dtype)
            for part, block in self._triangle(every, 1):
                square[part, part.start :] = block.shared(*key)
            cache.become(mirrored(square))

    def _triangle(self, index: Any, kernels: int) -> Iterator[tuple[slice, Block]]:
        """Blocks that cover the upper triangle of [index, index], and which rows they are."""
        first = 0
        while first < len(index):
            last = min(len(index), first + max(1, _AT_ONCE // ((len(index) - first) * kernels)))
            yield slice(first, last), self._block(index[first:last], index[first:])
            first = last

    def _block(self, rows: Any, columns: Any) -> Block:
        """The block of these rows, with what the caches know of it; whole rows are kept."""
        block = Block(self._samples, None, rows, columns)
        for (kind, on), cache in self._caches.items():
            known = cache.known(rows)
            if known.all():
                block.know(kind, on, cache.rows(rows, columns))
            elif columns is None:
                part = np.empty((len(rows), self.stack.shape[1]), self._samples.dtype)
                part[known] = cache.rows(rows[known])
                part[~known] = Block(self._samples, None, rows[~known]).shared(kind, on)
                cache.keep(rows[~known], part[~known])
                block.know(kind, on, part)
        return block


_READERS: weakref.WeakSet[CachedReader] = weakref.WeakSet()


def _without_other_threads() -> None:
    """In a forked process: a thread that was reading is gone, and may have left a row half written."""
    for reader in _READERS:
        if reader.turn.acquire(blocking=False):
            reader.turn.release()
        else:
            reader.begin()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_without_other_threads)


class _Rows:
    """Rows of n numbers for some of the samples, at most so many; the one that was used longest ago goes first."""

    def __init__(self, capacity: int, n: int, dtype: Any) -> None:
        self.capacity = capacity
        self._data = np.empty((capacity, n), dtype)  # only what is touched is backed by memory
        self._place = np.full(n, -1)
        self._owner = np.full(capacity, -1)
        self._used = np.zeros(capacity, dtype=np.int64)
        self._clock = 0

    def known(self, index: Any) -> Any:
        return self._place[index] >= 0

    def become(self, rows: FloatArray) -> None:
        """Take all rows, where there is room for them."""
        self._data, self._place, self._used = rows, np.arange(len(rows)), np.zeros(len(rows), dtype=np.int64)

    def keep(self, index: Any, rows: FloatArray) -> None:
        """Take rows that are not here, or as many of them as there is room for."""
        places = np.argsort(self._used, kind="stable")[: len(index)]
        count, owners = len(places), self._owner[places]
        self._place[owners[owners >= 0]] = -1
        self._data[places] = rows[:count]  # first: whatever ends this here, nobody finds the row of another sample
        self._owner[places], self._place[index[:count]] = index[:count], places
        self._touch(places)

    def rows(self, index: Any, columns: Any = None) -> FloatArray:
        """The rows, or some of their entries, contiguous."""
        places = self._place[index]
        self._touch(places)
        if columns is None:
            return np.asarray(self._data[places])
        out = np.empty((len(places), len(columns)), self._data.dtype)
        for row, place in zip(out, places, strict=True):
            self._data[place].take(columns, out=row, mode="clip")  # other modes copy first
        return out

    def _touch(self, places: Any) -> None:
        self._clock += 1
        self._used[places] = self._clock
