"""Where a factor L (n, r) comes from: rows in memory or on disk, sparse rows, or rows that a transformer makes of X.

A source is asked for rows and for nothing else, so that a factor never has to be in memory as a whole; and all K_m v of
a stack of factors, `FactorImages`, without an array (M, n).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import numpy as np

from mklref._typing import Array, FloatArray
from mklref._validate import as_float_array
from mklref.exceptions import InvalidInput, InvalidType, KernelsLost

if TYPE_CHECKING:
    from mklref.kernels.factor_stack import FactorStack


Rows = Any
"""Rows of a factor: an array, or a sparse matrix in CSR format."""


class Source(Protocol):
    """Rows of a factor."""

    @property
    def shape(self) -> tuple[int, int]:
        """(n, r)."""

    @property
    def dtype(self) -> np.dtype[Any]:
        """float32 or float64: the type of the rows."""

    @property
    def sparse(self) -> bool:
        """Whether the rows come in CSR format."""

    def read(self, start: int, stop: int) -> Rows:
        """Rows start to stop, (stop - start, r)."""

    def part(self, samples: Any) -> Source:
        """The source of some of the rows."""


def aligned(array: Any) -> Any:
    """The array, or a copy where its numbers lie across words, as they do in what came over a network.

    Each product would make that copy: one with a vector takes seventeen times as long.
    """
    return array if array.flags.aligned else array.copy()


def rows_that_are_there(array: Any, where: Any, label: str) -> Array:
    """Some rows of an array of any library.

    Raises
    ------
    KernelsLost
        It does not give them, as when its file has been closed.
    """
    try:
        return np.asarray(array[where])
    except (OSError, RuntimeError, ValueError, TypeError, LookupError) as failure:
        raise KernelsLost(
            f"{label} cannot be read, {type(failure).__name__}: {failure}; its file has to stay open, and as it is, "
            "for as long as the stack is used."
        ) from failure


class Held:
    """Rows of anything with a shape that gives rows for a slice: an array, a memory map, an array of HDF5 or Dask."""

    sparse = False

    def __init__(self, array: Any, label: str) -> None:
        if not hasattr(array, "shape") or not hasattr(array, "__getitem__"):
            array = as_float_array(array, label, InvalidInput)
        if len(array.shape) != 2:
            raise InvalidInput(f"{label} has shape {tuple(array.shape)}; a factor L of K = L L' is (n, r).")
        if isinstance(array, np.ma.MaskedArray):
            as_float_array(array, label, InvalidInput)
        self.array, self.label = aligned(array) if type(array) is np.ndarray else array, label
        self.shape: tuple[int, int] = (int(array.shape[0]), int(array.shape[1]))
        self.dtype = as_float_array(np.asarray(array[:1]), label, InvalidInput).dtype

    def read(self, start: int, stop: int) -> FloatArray:
        """Rows start to stop; a view where they are floats in memory."""
        rows = rows_that_are_there(self.array, slice(start, stop), self.label)
        if rows.shape != (stop - start, self.shape[1]):
            raise KernelsLost(
                f"{self.label}: rows {start} to {stop} have shape {rows.shape} now, and the array had {self.shape} "
                "when the stack was made; make the stack again."
            )
        return as_float_array(rows, self.label, InvalidInput)

    def part(self, samples: Any) -> Held:
        """A copy of some of the rows."""
        return Held(rows_that_are_there(self.array, samples, self.label), self.label)


class Sparse:
    """Rows of a sparse matrix."""

    sparse = True

    def __init__(self, matrix: Any, label: str) -> None:
        if matrix.dtype.kind not in "iufb":
            raise InvalidType(f"{label} holds {matrix.dtype} data; give real numbers (float64 or float32).")
        self.dtype = np.dtype(matrix.dtype if matrix.dtype in (np.float32, np.float64) else np.float64)
        rows = matrix.tocsr().astype(self.dtype, copy=False)
        parts = rows.data, rows.indices, rows.indptr
        if not all(one.flags.aligned for one in parts):
            rows = type(rows)(tuple(map(aligned, parts)), shape=rows.shape)
        self.matrix, self.label = rows, label
        self.shape: tuple[int, int] = self.matrix.shape

    def read(self, start: int, stop: int) -> Any:
        """Rows start to stop in CSR format."""
        return self.matrix[start:stop]

    def part(self, samples: Any) -> Sparse:
        """A copy of some of the rows."""
        return Sparse(self.matrix[samples], self.label)


class Transformed:
    """Rows that a fitted transformer makes of rows of X whenever they are read."""

    def __init__(self, transformer: Any, X: Any, label: str, columns: Sequence[int] | None = None) -> None:
        self.transformer, self.X, self.label, self.columns = transformer, X, label, columns
        first = self._rows(0, 1)
        self.sparse = not isinstance(first, np.ndarray)
        self.dtype = first.dtype
        self.shape: tuple[int, int] = (int(X.shape[0]), int(first.shape[1]))

    def read(self, start: int, stop: int) -> Rows:
        """Rows start to stop, made anew."""
        rows = self._rows(start, stop)
        if rows.shape != (stop - start, self.shape[1]):
            raise InvalidInput(
                f"{self.label}: the transformer made {rows.shape} of rows {start} to {stop}, and {self.shape[1]} "
                "columns of the first row; one that works row by row is needed."
            )
        return rows

    def part(self, samples: Any) -> Transformed:
        """The same transformer on some of the rows of X."""
        return Transformed(self.transformer, rows_of(self.X, samples), self.label)

    def _rows(self, start: int, stop: int) -> Rows:
        made = self.transformer.transform(rows_of(self.X, slice(start, stop)))
        if hasattr(made, "tocsr"):
            return Sparse(made, self.label).matrix
        return as_float_array(made, self.label, InvalidInput)


class Columns:
    """Some columns of an array or of a sparse matrix, times a factor."""

    def __init__(self, whole: Held | Sparse, columns: Any, factor: float = 1.0) -> None:
        self.whole, self.columns, self.factor = whole, np.asarray(columns, dtype=np.intp), factor
        self.shape: tuple[int, int] = (whole.shape[0], len(self.columns))
        self.dtype, self.sparse = whole.dtype, whole.sparse

    def read(self, start: int, stop: int) -> Rows:
        """Rows start to stop of these columns."""
        rows = self.whole.read(start, stop)[:, self.columns]
        return rows if self.factor == 1.0 else rows * self.dtype.type(self.factor)

    def part(self, samples: Any) -> Columns:
        """A copy of some of the rows."""
        return Columns(self.whole.part(samples), self.columns, self.factor)


def rows_of(X: Any, rows: Any) -> Any:
    """Rows of an array or of a data frame."""
    return X.iloc[rows] if hasattr(X, "iloc") else X[rows]


def source_of(factor: Any, label: str) -> Source:
    """The source behind what a user gave."""
    if hasattr(factor, "read") and hasattr(factor, "part"):
        source: Source = factor
        return source
    if hasattr(factor, "tocsr"):
        return Sparse(factor, label)
    return Held(factor, label)


class FactorImages:
    """All K_m v of a stack of factors, by w = L'v: what a certificate asks without an array (M, n).

    weights @ images      sum_m weights_m K_m v = L (weights w)         (n,)
    images @ u            (v'K_m u)_m                                   (M,)
    abs(images)           the same of |(K_m v)_i| <= ||L_mi|| ||w_m||
    """

    __array_ufunc__: ClassVar[None] = None  # an array on the left leaves the operation to this object

    def __init__(self, stack: FactorStack, v: Array, image: Array | None = None) -> None:
        self.stack, self.v = stack, v
        self.image = stack.transposed(v) if image is None else image
        self._sums: dict[bytes, Array] = {}

    def __rmatmul__(self, weights: Array) -> Array:
        key = np.asarray(weights, dtype=np.float64).tobytes()
        if key not in self._sums:
            self._sums[key] = self.stack.product(weights[self.stack.owner] * self.image)
        return self._sums[key].copy()

    def __matmul__(self, u: Array) -> Array:
        other = self.image if u is self.v or np.array_equal(u, self.v) else self.stack.transposed(u)
        return self.stack.of_each(self.image * other)

    def __abs__(self) -> _Magnitudes:
        return _Magnitudes(self.stack, np.sqrt(self.stack.of_each(self.image**2)))


class _Magnitudes:
    """Upper bounds of |(K_m v)_i| = |L_mi'w_m|, without an array (M, n) beside the diagonals."""

    __array_ufunc__: ClassVar[None] = None

    def __init__(self, stack: FactorStack, own: Array) -> None:
        self.stack, self.own = stack, own

    def __rmatmul__(self, weights: Array) -> Array:
        return self.stack.lengths(weights * self.own)

    def __matmul__(self, u: Array) -> Array:
        return np.asarray(self.own * self.stack.lengths_against(u))
