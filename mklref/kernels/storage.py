"""Where the matrices of a family are: in memory, or nowhere; and how much memory rows may take.

Gram matrices that lie on disk, in `np.memmap`, HDF5 or zarr arrays, and are read by rows when they are asked for.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from mklref._progress import say
from mklref._threads import cached_property
from mklref._typing import Array, FloatArray
from mklref._untrusted import free_memory
from mklref._validate import checked_names, checked_number, require_unmasked, shown
from mklref.exceptions import InvalidInput, InvalidKernel, InvalidParameter, InvalidType
from mklref.kernels.factor_sources import Files, is_array, rows_that_are_there
from mklref.kernels.protocol import KernelStack, indices
from mklref.kernels.validation import symmetry_tolerance

STORAGES = ("memory", "lazy", "auto")
PRECISIONS = ("float64", "float32")
_UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
_DEFAULT, _SHARE = 2 * 10**9, 0.25
"""The default cache: 2 GB, or what all samples take, within this share of the free memory; 2 GB if nobody tells it."""
_EACH = 16
"""Bytes for each pair of samples: where all of them are support vectors a solver has one matrix of theirs twice."""
_MEMORY = 0.5
"""Share of the free memory that matrices may take under storage="auto"."""
_BESIDE = 5
"""Matrices of order n beside the stack while it is evaluated."""


def bytes_in_memory(kernels: float, n: int) -> float:
    """Bytes of so many matrices of order n, with what is beside them while they are evaluated."""
    return 8.0 * n * n * (kernels + _BESIDE)


def chosen(kernels: int, n: int, *, shown: bool) -> tuple[str, str]:
    """Where M matrices of order n go by the memory that is free, "memory" or "lazy", and why, which may be shown."""
    size, free = bytes_in_memory(kernels, n), free_memory()
    kept = "memory" if size <= _MEMORY * free else "lazy"
    why = (
        f"storage='auto' chose {kept!r}: {kernels} matrices of order {n} take {_shown(size)} with what is beside them, "
        f"and {_shown(free)} are free."
    )
    say(shown, why)
    return kept, why


def checked_cache(cache: Any, n: int) -> int:
    """Bytes from a number or a text such as "500MB"; by default what n samples take, within a quarter of what is free.

    `InvalidParameter` for another text, less than 0 or more than there is memory, `InvalidType` for something else.
    """
    free = free_memory()
    if cache is None:
        return int(min(max(_DEFAULT, _EACH * n * n), _SHARE * free)) if np.isfinite(free) else _DEFAULT
    size = cache
    if isinstance(cache, str):
        found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([KMGT]?)B?\s*", cache.upper())
        if found is None:
            raise InvalidParameter(
                f"cache = {cache!r} is not understood; give bytes, or a text such as '500MB' or '2GB'."
            )
        size = float(found[1]) * _UNITS[found[2]]
    remedy = f"the memory that is free: cache='{_shown(_SHARE * free)}' would fit; less means more evaluations."
    inside = lambda x: 0.0 <= x <= min(free, sys.float_info.max)  # noqa: E731
    return int(checked_number("cache", size, f"[0, {_shown(free)}]", remedy, inside))


def _shown(size: float) -> str:
    unit = next(unit for unit in ("G", "M", "K", "") if size >= _UNITS[unit] or not unit)
    return f"{size / _UNITS[unit]:.0f}{unit}B"


_SEEN = 8
"""Samples whose entries are compared with those across the diagonal."""


class DiskStack(KernelStack):
    """Matrices of which rows are read when they are needed; the cache of rows is that of the operating system.

    What a solver keeps beside them is bounded by the default cache of `KernelFamily.fit`.

    Parameters
    ----------
    matrices : array-like (M, n, n), or sequence of array-likes (n, n)
        Anything with `shape`, `dtype` (float32 or float64) and slices of rows: `np.memmap`, `h5py.Dataset`,
        `zarr.Array`. They are taken to be symmetric and positive semidefinite, which certificates say they assume; of a
        few samples it is seen that they are symmetric.
    names : sequence of str, optional
        One name for each kernel.

    Raises
    ------
    InvalidType
        No arrays, sparse or masked ones, or entries that are no float32 or float64.
    InvalidKernel
        Not square, of different orders, or not symmetric.
    """

    costly = losable = True
    _entire = True
    """Whether it has all samples of the arrays, in their order."""

    def __init__(self, matrices: Any, names: Sequence[str] | None = None) -> None:
        several = isinstance(matrices, list | tuple)
        parts = list(matrices) if several else [matrices]
        require_unmasked(matrices=matrices)
        for part in parts:
            if not is_array(part) or hasattr(part, "tocsr"):
                raise InvalidType(
                    f"matrices holds {shown(part)}; give np.memmap, h5py.Dataset or zarr.Array, with their files open."
                )
        self._matrices: list[tuple[Any, tuple[int, ...]]] = [(part, ()) for part in parts]
        """An array for each kernel, and the index of its matrix there."""
        if not several:
            self._matrices = [(matrices, (m,)) for m in range(max(matrices.shape[:1], default=0))]
        shapes = {part.shape if several else part.shape[1:] for part in parts}
        M, n = len(self._matrices), max(max(shapes, default=()), default=0)
        if not M or not n or shapes != {(n, n)}:
            found = sorted({part.shape for part in parts})
            raise InvalidKernel(f"matrices have the shapes {found}; expected M of (n, n), or one (M, n, n).")
        self._samples = np.arange(n)
        self._dtype = np.result_type(*(part.dtype for part in parts))
        if self._dtype not in (np.float32, np.float64):
            raise InvalidType(f"matrices are {self._dtype}; give float32 or float64.")
        self.names = checked_names(names, M)
        self._files = Files(*parts)
        self._require_symmetry()

    def _require_symmetry(self) -> None:
        """Raise `InvalidKernel` if K_ij is not K_ji for a few samples, which to read all of it would cost."""
        n = self.shape[1]
        some = np.unique(np.linspace(0, n - 1, _SEEN).astype(int))
        for m, name in enumerate(self.names):
            K = self.block(some, some, [m])[0]
            apart = np.abs(K - K.T)
            if apart.max() > symmetry_tolerance(K) * np.sqrt(n / len(some)):
                i, j = (int(some[k]) for k in np.unravel_index(apart.argmax(), K.shape))
                raise InvalidKernel(
                    f"kernel {name!r} is not symmetric: [{i}, {j}] and [{j}, {i}] differ by {apart.max():.3g}. Give "
                    "Gram matrices of the same samples in the same order."
                )

    @property
    def shape(self) -> tuple[int, int, int]:
        return len(self._matrices), len(self._samples), len(self._samples)

    @property
    def dtype(self) -> np.dtype[Any]:
        return self._dtype

    def block(self, rows: Any, columns: Any = None, kernels: Any = None) -> FloatArray:
        """Entries as of every stack; `KernelsLost` if a file was closed, changed or vanished meanwhile."""
        self._files.require_unchanged()
        index, chosen = (self._samples[indices(which, self.shape[1])] for which in (rows, columns))
        some = indices(kernels, len(self), "kernels")
        ordered, inverse = np.unique(index, return_inverse=True)  # HDF5 takes rising indices alone
        back: Any = slice(None) if np.array_equal(ordered, index) else inverse  # a slice makes no copy
        where: Any = ordered
        if len(ordered) and ordered[-1] - ordered[0] + 1 == len(ordered):
            where = slice(int(ordered[0]), int(ordered[-1]) + 1)
        out = np.empty((len(some), len(index), len(chosen)), self.dtype)
        for k, m in enumerate(some):
            array, own = self._matrices[m]
            read = rows_that_are_there(array, (*own, where), f"kernel {self.names[m]!r}")
            out[k] = read[back] if self._entire and columns is None else read[back][:, chosen]
            with np.errstate(over="ignore", under="ignore", invalid="ignore"):
                finite = np.isfinite(out[k].sum())
            if not finite and not np.isfinite(out[k]).all():
                i, j = np.argwhere(~np.isfinite(out[k]))[0]
                raise InvalidInput(f"kernel {self.names[m]!r} is {out[k, i, j]} at [{index[i]}, {chosen[j]}].")
        return out

    @cached_property
    def own_diagonals(self) -> Array:
        """The diagonal of each matrix, (M, n); many rows at a time, as each read has whole chunks of a file."""
        batches = self._batches(self.shape[1], len(self))
        parts = [self.block(rows, rows).diagonal(axis1=1, axis2=2).astype(np.float64) for rows in batches]
        return np.concatenate(parts, axis=1)

    def matrix(self, m: int, out: FloatArray | None = None) -> FloatArray:
        """One matrix, (n, n), written to `out` if that is given, which is all that is in memory of it."""
        n = self.shape[1]
        out = np.empty((n, n), self.dtype) if out is None else out
        for rows in self._batches(n, _BESIDE):
            out[rows] = self.block(rows, None, [m])[0]
        return out

    def part(self, samples: Any) -> KernelStack:
        """The stack of some of the samples, which stays on disk."""
        made = DiskStack.__new__(DiskStack)
        made.names, made._matrices, made._files, made._dtype = self.names, self._matrices, self._files, self._dtype
        made.sample_names = self._names_at(indices(samples, self.shape[1]))
        made._samples, made._entire = self._samples[indices(samples, self.shape[1])], False
        return made
