"""Where a factor L (n, r) comes from: rows in memory or on disk, sparse rows, or rows that a transformer makes of X.

A source is asked for rows and for nothing else, so that a factor never has to be in memory as a whole; and all K_m v of
a stack of factors, `FactorImages`, without an array (M, n).
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from mklref._threads import cached_property
from mklref._typing import Array
from mklref._validate import as_float_array
from mklref.exceptions import InvalidInput, InvalidKernel, InvalidType, KernelsLost
from mklref.kernels.protocol import in_pairs, sum_in_pairs, sums_of_rows

if TYPE_CHECKING:
    from mklref.kernels.factor_stack import FactorStack


Rows = Any
"""Rows of a factor: an array, or a sparse matrix in CSR format."""


AT_ONCE = 64
"""Rows whose products a library may add up one after the other."""


def aligned(array: Any) -> Any:
    """The array, or a copy where its numbers lie across words, as they do in what came over a network.

    Each product would make that copy: one with a vector takes seventeen times as long.
    """
    return array if array.flags.aligned else array.copy()


def is_array(given: Any) -> bool:
    """Whether it has a shape, a type and parts; an array whose file was closed has none."""
    try:
        return isinstance(getattr(given, "shape", None), tuple) and all(
            hasattr(given, a) for a in ("dtype", "__getitem__")
        )
    except (OSError, RuntimeError, ValueError):
        return False


class Files:
    """What the files were that arrays are read from; a copy in another process, which has them in memory, has none."""

    def __init__(self, *arrays: Any) -> None:
        self.states = {path: _state(path) for array in arrays for path in _watched(array)}

    def __reduce__(self) -> Any:
        return Files, ()

    def require_unchanged(self) -> None:
        """Raise `KernelsLost` if one changed or vanished: to read a map beyond the end of its file ends the process."""
        for path, state in self.states.items():
            if _state(path) != state:
                raise KernelsLost(
                    f"{path} {'changed' if path.exists() else 'vanished'} while its kernels were in use, so that what "
                    "was computed with them belongs to other kernels: make the stack again."
                )


def _watched(array: Any) -> Iterator[Path]:
    """The file of a memory map or of an HDF5 data set; of a zarr array the folders, which change with its chunks."""
    while isinstance(getattr(array, "base", None), np.ndarray) and not hasattr(array, "filename"):
        array = array.base  # of what np.asarray has made of a memory map
    name, file = getattr(array, "filename", None), getattr(array, "file", None)
    if name is None and getattr(file, "mode", "r") == "r":  # one that is written to changes whenever it is flushed
        name = getattr(file, "filename", None)
    store = getattr(array, "chunk_store", getattr(array, "store", None))  # zarr 2 may have metadata elsewhere
    root = getattr(store, "root", getattr(store, "path", None))  # of folders, or of zarr 2 and zipped ones
    if name is None and getattr(array, "read_only", False) and root is not None and Path(root).is_file():
        name = root
    if name is not None:
        yield Path(name)
    elif root is not None:
        for folder, _, _ in os.walk(Path(root) / array.path):
            yield Path(folder)


def _state(path: Path) -> tuple[int, int] | None:
    """What changes when a file is written to, or a file in a folder is replaced."""
    if not path.exists():
        return None
    found = path.stat()
    return found.st_size, found.st_mtime_ns


def rows_that_are_there(array: Any, where: Any, label: str) -> Array:
    """Some rows of an array of any library; `KernelsLost` if it does not give them, as when its file was closed."""
    try:
        return np.asarray(getattr(array, "oindex", array)[where])  # zarr 2 takes a number and indices there alone
    except (OSError, RuntimeError, ValueError, TypeError, LookupError) as failure:
        raise KernelsLost(
            f"{label} cannot be read, {type(failure).__name__}: {failure}; its file has to stay open, and as it is, "
            "for as long as the stack is used."
        ) from failure


def as_rows(made: Any, label: str) -> Rows:
    """float64 or float32 rows, (k, r): an array, or CSR where they are sparse."""
    if not hasattr(made, "tocsr"):
        return as_float_array(made, label, InvalidInput)
    if made.dtype.kind not in "iufb":
        raise InvalidType(f"{label} holds {made.dtype} data; give real numbers (float64 or float32).")
    return made.tocsr().astype(made.dtype if made.dtype in (np.float32, np.float64) else np.float64, copy=False)


def rows_of(X: Any, rows: Any) -> Any:
    """Rows of an array or of a data frame; those of Dask are computed here."""
    own = X.iloc[rows] if hasattr(X, "iloc") else X[rows]
    return own.compute() if hasattr(own, "__dask_graph__") else own


def one_below_the_other(parts: Sequence[Rows]) -> Rows:
    """Rows of several blocks together, in CSR format where they are sparse."""
    if isinstance(parts[0], np.ndarray):
        return np.concatenate(parts)
    from scipy.sparse import vstack

    return vstack(parts, format="csr")


def apart(rows: Rows, ranks: Any) -> list[Rows]:
    """The factors of these ranks whose columns stand side by side; of an array they are views."""
    rows = aligned(rows) if isinstance(rows, np.ndarray) else rows
    return [rows[:, a:b] for a, b in pairwise([0, *np.cumsum(ranks).tolist()])]


def summed(rows: Rows, v: Array) -> Array:
    """L'v of some rows in float64, `AT_ONCE` of them at a time, and these sums in pairs."""
    if isinstance(rows, np.ndarray):
        sums = in_pairs(sums_of_rows(rows[None], v.reshape(len(v), -1).T, AT_ONCE))[:, 0]
        return np.asarray(sums.T.reshape(-1, *v.shape[1:]))
    from scipy.sparse import csc_array

    (k, r), parts = rows.shape, -(-rows.shape[0] // AT_ONCE)
    if parts == 1:
        return np.asarray(rows.T @ v)
    first = (np.arange(k) // AT_ONCE * r).astype(rows.indices.dtype)  # each part has columns of its own
    apart = rows.indices + np.repeat(first, np.diff(rows.indptr))
    sums = csc_array((rows.data, apart, rows.indptr), shape=(parts * r, k)) @ v
    return sum_in_pairs(sums.reshape(parts, r, *v.shape[1:]))


class Source:
    """Rows of a factor (n, r): those of some data, or what a fitted transformer makes of them whenever they are read.

    Data are anything with a shape that gives rows for a slice: arrays, memory maps, arrays of HDF5 or Dask, sparse
    matrices in CSR format; transformers may take others, and another source.
    """

    def __init__(self, data: Any, label: str, transformer: Any = None) -> None:
        self.data, self.label, self.transformer = data, label, transformer
        self.files = Files(data)
        first = self[:1]
        self.sparse = not isinstance(first, np.ndarray)
        """Whether the rows come in CSR format."""
        self.dtype = first.dtype
        """float32 or float64: the type of the rows."""
        self.shape: tuple[int, int] = (int(data.shape[0]), int(first.shape[1]))
        given = transformer is None and not self.files.states
        self.in_memory = given and (self.sparse or type(data) is np.ndarray)
        self.here = self.in_memory and data.dtype == first.dtype and not self.sparse
        """Whether they are such numbers in memory: what else is asked at each read takes longer than a few columns."""

    def __getitem__(self, where: Any) -> Rows:
        """Some rows; a view where they are floats in memory, and a slice is asked for."""
        rows = self._taken(where)
        return as_rows(rows if self.transformer is None else self.transformer.transform(rows), self.label)

    def _taken(self, where: Any) -> Any:
        self.files.require_unchanged()
        if self.transformer is not None or hasattr(self.data, "tocsr"):
            return rows_of(self.data, where)
        return rows_that_are_there(self.data, where, self.label)

    def read(self, start: int, stop: int) -> Rows:
        """Rows start to stop, (stop - start, r), or an error if the data or the transformer give others."""
        if isinstance(self.data, Source):  # which says so where its columns are no longer those it had
            return as_rows(self.transformer.transform(self.data.read(start, stop)), self.label)
        rows = self.data[start:stop] if self.here else self[start:stop]
        if rows.shape == (stop - start, self.shape[1]):
            return rows
        if self.transformer is None:
            raise KernelsLost(
                f"{self.label}: rows {start} to {stop} have shape {rows.shape} now, and the array had {self.shape} "
                "when the stack was made; make the stack again."
            )
        raise InvalidInput(
            f"{self.label}: the transformer made {rows.shape} of rows {start} to {stop}, and {self.shape[1]} columns "
            "of the first row; one that works row by row is needed."
        )

    def part(self, samples: Any) -> Source:
        """The source of a copy of some of the rows, or of the transformer on some of them."""
        return Source(self._taken(samples), self.label, self.transformer)


class Columns:
    """A transformer that takes some columns, times a factor."""

    def __init__(self, columns: Any, factor: float = 1.0) -> None:
        self.columns, self.factor = np.asarray(columns, dtype=np.intp), factor

    def transform(self, rows: Rows) -> Rows:
        """The columns of these rows."""
        chosen = rows[:, self.columns]
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):  # who reads it looks
            return chosen if self.factor == 1.0 else chosen * rows.dtype.type(self.factor)


def source_of(factor: Any, label: str) -> Source:
    """The source behind what a user gave."""
    if isinstance(factor, Source):
        return factor
    if hasattr(factor, "to_numpy"):  # an index of a data frame chooses columns
        factor = factor.to_numpy()
    if hasattr(factor, "tocsr"):
        rows = as_rows(factor, label)
        parts = rows.data, rows.indices, rows.indptr
        if not all(one.flags.aligned for one in parts):
            rows = type(rows)(tuple(map(aligned, parts)), shape=rows.shape)
        return Source(rows, label)
    if not is_array(factor) or isinstance(factor, np.ma.MaskedArray):
        factor = as_float_array(factor, label, InvalidInput)
    if len(factor.shape) != 2:
        raise InvalidInput(f"{label} has shape {tuple(factor.shape)}; a factor L of K = L L' is (n, r).")
    return Source(aligned(factor) if type(factor) is np.ndarray else factor, label)


class FactorImages:
    """All K_m v of a stack of factors, by w = L'v: what a certificate asks without an array (M, n).

    weights @ images      sum_m weights_m K_m v = L (weights w)         (n,)
    images @ u            (v'K_m u)_m                                   (M,)
    abs(images)           the same of |(K_m v)_i| <= ||L_mi|| ||w_m||

    `errors` bound ||w_m - L_m'v||, (M,), where they are known however much of it cancels.
    """

    __array_ufunc__: ClassVar[None] = None  # an array on the left leaves the operation to this object

    def __init__(self, stack: FactorStack, v: Array, image: Array | None = None, errors: Array | None = None) -> None:
        self.stack, self.v, self.errors = stack, v, errors
        self.image = stack.transposed(v) if image is None else image
        self._sums: dict[bytes, Array] = {}

    def __rmatmul__(self, weights: Array) -> Array:
        key = np.asarray(weights, dtype=np.float64).tobytes()
        if key not in self._sums:
            w = weights[self.stack.owner] * self.image
            self._sums[key] = self.stack.product(w) if self.errors is None else self._in_pairs(w)
        return self._sums[key].copy()

    def _in_pairs(self, w: Array) -> Array:
        """L w, isqrt(r) columns at a time, and these sums in pairs."""
        stack, h = self.stack, math.isqrt(len(w))
        blocks = (stack.double(stack.read(a, b)) for a, b in stack.blocks())
        cuts = [slice(first, first + h) for first in range(0, len(w), h)]
        return np.concatenate([sum_in_pairs(rows[:, cut] @ w[cut] for cut in cuts) for rows in blocks])

    def roundings(self, weights: Array) -> float:
        """The most that a product with an entry of w goes through in `weights @ images`, and one for theta_m w_m."""
        k, r = int(self.stack.ranks[weights != 0.0].sum()), self.stack.rank
        h = r if self.errors is None else math.isqrt(r)
        return min(k, h + math.ceil(math.log2(-(-r // h)))) + 1.0

    def __matmul__(self, u: Array) -> Array:
        other = self.image if u is self.v or np.array_equal(u, self.v) else self.stack.transposed(u)
        return self.stack.of_each(self.image * other)

    def __abs__(self) -> _Magnitudes:
        return _Magnitudes(self.stack, self.norms())

    @cached_property
    def reach(self) -> Array:
        """sum_i ||L_mi|| |v_i|, (M,), at least ||L_m'v||."""
        return self.stack.lengths_against(np.abs(self.v))

    def norms(self) -> Array:
        """||w_m||, (M,)."""
        return np.sqrt(self.stack.of_each(self.image**2))


class _Magnitudes:
    """Upper bounds of |(K_m v)_i| = |L_mi'w_m|, without an array (M, n) beside the diagonals."""

    __array_ufunc__: ClassVar[None] = None

    def __init__(self, stack: FactorStack, own: Array) -> None:
        self.stack, self.own = stack, own

    def __rmatmul__(self, weights: Array) -> Array:
        return self.stack.lengths(weights * self.own)

    def __matmul__(self, u: Array) -> Array:
        return np.asarray(self.own * self.stack.lengths_against(u))


def require_alike(sources: Sequence[Source], labels: Sequence[str], fewest: int) -> None:
    """Raise `InvalidInput` unless all have the same n, `fewest` or more, and at least one column."""
    n = sources[0].shape[0]
    for source, label in zip(sources, labels, strict=True):
        if source.shape[0] != n:
            raise InvalidInput(
                f"{label} has {source.shape[0]} rows, {labels[0]} has {n}; all factors belong to the same n samples."
            )
        if not source.shape[1]:
            raise InvalidInput(f"{label} has shape {source.shape}, no column; drop the kernel, which would be 0.")
    if n < fewest:
        raise InvalidKernel(f"{labels[0]} has n = {n} rows; give at least two samples.")
