"""Where a factor L (n, r) comes from: rows in memory or on disk, sparse rows, or rows that a transformer makes of X.

A source is asked for rows and for nothing else, so that a factor never has to be in memory as a whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from mklref._typing import FloatArray
from mklref._validate import as_float_array
from mklref.exceptions import InvalidInput, InvalidType

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
        self.array, self.label = array, label
        self.shape: tuple[int, int] = (int(array.shape[0]), int(array.shape[1]))
        self.dtype = as_float_array(np.asarray(array[:1]), label, InvalidInput).dtype

    def read(self, start: int, stop: int) -> FloatArray:
        """Rows start to stop; a view where they are floats in memory."""
        return as_float_array(np.asarray(self.array[start:stop]), self.label, InvalidInput)

    def part(self, samples: Any) -> Held:
        """A copy of some of the rows."""
        return Held(np.asarray(self.array[samples]), self.label)


class Sparse:
    """Rows of a sparse matrix."""

    sparse = True

    def __init__(self, matrix: Any, label: str) -> None:
        if matrix.dtype.kind not in "iufb":
            raise InvalidType(f"{label} holds {matrix.dtype} data; give real numbers (float64 or float32).")
        self.dtype = np.dtype(matrix.dtype if matrix.dtype in (np.float32, np.float64) else np.float64)
        self.matrix, self.label = matrix.tocsr().astype(self.dtype, copy=False), label
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
