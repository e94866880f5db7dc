"""Kernels by blocks: what several of them are functions of is computed once, and exponentials of it in one pass.

Linear and polynomial kernels are functions of the products P = X Z', Gaussians of the squared distances, which follow
from the products, and Laplacians of the sums of absolute differences; each on some of the columns. Products are BLAS's,
around the mean of the columns, where ||x||^2 + ||z||^2 - 2 x'z cancels least; a single column takes differences.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mklref._threads import threads
from mklref._typing import Array, FloatArray
from mklref.kernels.base import Composite, Kernel
from mklref.kernels.exponential import compiled

Columns = tuple[int, ...] | None
"""The columns that a kernel reads; None for all."""


@dataclass(frozen=True)
class Run:
    """Kernels f_m exp(r_m D) of one shared quantity D on the same columns."""

    shares: str
    columns: Columns
    members: tuple[int, ...]
    """Their numbers, ascending."""
    rates: Array
    factors: Array

    def of(self, kernels: Any) -> Run:
        """Those among the kernels with these numbers."""
        kept = np.isin(self.members, kernels)
        return Run(self.shares, self.columns, tuple(np.array(self.members)[kept]), self.rates[kept], self.factors[kept])


def runs_of(kernels: Sequence[Kernel], factors: Sequence[float | None]) -> list[Run]:
    """The kernels that are exponentials, by what they share; a factor of None says that more is done to the values."""
    groups: dict[tuple[str, Columns], list[tuple[int, float, float]]] = {}
    for m, (kernel, factor) in enumerate(zip(kernels, factors, strict=True)):
        whole, columns = kernel.on_columns()
        if whole.rate is not None and factor is not None:
            groups.setdefault((whole.shares, columns), []).append((m, whole.rate, factor))
    made = []
    for (shares, columns), found in groups.items():
        members, rates, own = zip(*found, strict=True)
        made.append(Run(shares, columns, members, np.array(rates), np.array(own)))
    return made


class Samples:
    """Samples (n, d), and what is known of their columns: centred, and the squared norms then."""

    def __init__(self, X: Array, dtype: Any = np.float64, origin: Samples | None = None) -> None:
        self.X, self.dtype, self.origin = X, np.dtype(dtype), origin or self
        self._columns: dict[Columns, FloatArray] = {}
        self._centred: dict[Columns, tuple[FloatArray, FloatArray]] = {}

    def __len__(self) -> int:
        return len(self.X)

    def columns(self, columns: Columns) -> FloatArray:
        """The chosen columns as they are."""
        if columns not in self._columns:
            chosen = self.X if columns is None else self.X[:, columns]
            self._columns[columns] = np.ascontiguousarray(chosen, dtype=self.dtype)
        return self._columns[columns]

    def centred(self, columns: Columns) -> tuple[FloatArray, FloatArray]:
        """The chosen columns around the mean of those of the origin, and their squared norms."""
        if columns not in self._centred:
            mine, all_of_them = (part.X if columns is None else part.X[:, columns] for part in (self, self.origin))
            around = mine - all_of_them.mean(axis=0)
            norms = np.einsum("ij,ij->i", around, around)
            self._centred[columns] = around.astype(self.dtype), norms.astype(self.dtype)
        return self._centred[columns]

    def part(self, index: Any) -> Samples:
        """Some of the samples, around the same means."""
        return Samples(self.X[index], self.dtype, self.origin)


class Block:
    """The kernels between samples X[rows] and Z[columns]; within one set, equal samples are known to be equal.

    The last shared quantity of each kind is kept, or the last one of whole matrices.
    """

    def __init__(self, X: Samples, Z: Samples | None = None, rows: Any = None, columns: Any = None) -> None:
        self._X, self._Z, self._rows, self._columns = X, X if Z is None else Z, rows, columns
        self._whole = Z is None and rows is None and columns is None
        self._equal = None if Z is not None or self._whole else _equal(rows, columns, len(X))
        self._shared: dict[str, tuple[Columns, FloatArray]] = {}

    @property
    def dtype(self) -> Any:
        """That of the samples."""
        return self._X.dtype

    @property
    def shape(self) -> tuple[int, int]:
        """(k, n)."""
        return tuple(  # type: ignore[return-value]
            len(samples) if index is None else len(np.arange(len(samples))[index])
            for samples, index in ((self._X, self._rows), (self._Z, self._columns))
        )

    def values(self, kernel: Kernel) -> FloatArray:
        """k(x, z), (k, n), which belongs to the caller; exactly symmetric within one set."""
        if isinstance(kernel, Composite):
            parts: list[Any] = [self.values(part) for part in kernel.kernels]
            return np.asarray(kernel.compose(parts))
        whole, columns = kernel.on_columns()
        if whole.rate is not None:
            out = np.empty((1, *self.shape), self._X.dtype)
            self.exponentials(Run(whole.shares, columns, (0,), np.array([whole.rate]), np.ones(1)), out)
            return np.asarray(out[0])
        if whole.shares:
            return whole.of_shared(self.shared(whole.shares, columns))
        if self._whole:
            values = kernel.gram(self._X.X)
        else:
            values = kernel.cross(self._X.X[_at(self._rows)], self._Z.X[_at(self._columns)])
        return values.astype(self._X.dtype, copy=False)

    def exponentials(self, run: Run, out: FloatArray) -> None:
        """out[m] = f_m exp(r_m D), (M, k, n), of the dtype of the samples and contiguous."""
        compiled.exponentials(self.shared(run.shares, run.columns), run.rates, run.factors, out, threads())

    def means(self, run: Run, shares: Array) -> Array:
        """sum_ij s_i s_j exp(r_m D_ij) of whole matrices in float64, (M,), for shares s (n,) that sum to 1.

        From the upper triangle. Matrices that are written are evaluated whole: to write the other half of an entry
        once more, across the rows, takes longer than its exponential.
        """
        terms = np.empty((len(shares), len(run.members)))
        compiled.exponential_forms(self.shared(run.shares, run.columns), run.rates, shares, terms, threads())
        return np.asarray(terms.sum(axis=0))

    def add(self, run: Run, weights: Array, out: Array) -> None:
        """out += sum_m weights_m f_m exp(r_m D), float64 (k, n)."""
        shared = self.shared(run.shares, run.columns)
        compiled.exponential_sum(shared, run.rates, weights * run.factors, out, threads())

    def dots(self, run: Run, v: Array, images: Array) -> None:
        """images[m] += sum_i v_i f_m exp(r_m D_i), float64 (M, n)."""
        compiled.exponential_dots(self.shared(run.shares, run.columns), run.rates, run.factors, v, images, threads())

    def shared(self, kind: str, columns: Columns) -> FloatArray:
        """Products, squared distances, or sums of absolute differences, (k, n); not to be written to."""
        known = self._shared.get(kind)
        if known is None or known[0] != columns:
            if self._whole:
                self._shared.clear()  # of whole matrices there is room for one
            self._shared.pop(kind, None)  # before the next one is made
            known = self._shared[kind] = columns, getattr(self, f"_{kind}")(columns)
        return np.asarray(known[1])

    def know(self, kind: str, columns: Columns, values: FloatArray) -> None:
        """Take a shared quantity that somebody kept."""
        self._shared[kind] = columns, values

    def _products(self, columns: Columns) -> FloatArray:
        x, z = (part.columns(columns)[_at(i)] for part, i in self._sides())
        return np.asarray(x @ x.T if self._whole else x @ z.T)

    def _squares(self, columns: Columns) -> FloatArray:
        if self._X.columns(columns).shape[1] == 1:
            x, z = (part.columns(columns)[_at(i)] for part, i in self._sides())
            differences = x - z.T
            return np.asarray(np.square(differences, out=differences))
        (x, a), (z, b) = ([half[_at(i)] for half in part.centred(columns)] for part, i in self._sides())
        with np.errstate(over="ignore", invalid="ignore"):
            squares = np.asarray(x @ x.T if self._whole else x @ z.T)
        compiled.squares(squares, np.ascontiguousarray(a), np.ascontiguousarray(b), threads())
        if self._whole:
            squares.flat[:: len(squares) + 1] = 0.0
        elif self._equal is not None:
            squares[self._equal] = 0.0
        return squares

    def _distances(self, columns: Columns) -> FloatArray:
        from scipy.spatial.distance import cdist

        x, z = (part.columns(columns)[_at(i)] for part, i in self._sides())
        return np.asarray(cdist(x, z, "cityblock")).astype(self._X.dtype, copy=False)  # it sums in float64

    def _sides(self) -> Iterator[tuple[Samples, Any]]:
        yield self._X, self._rows
        yield self._Z, self._columns


def _at(index: Any) -> Any:
    return slice(None) if index is None else index


def _equal(rows: Any, columns: Any, n: int) -> tuple[Any, Any]:
    """Where a row and a column of a block are the same sample."""
    every = np.arange(n)
    i, j = (every if index is None else every[index] for index in (rows, columns))
    at = np.full(n, -1)
    at[j] = np.arange(len(j))
    found = np.flatnonzero(at[i] >= 0)
    return found, at[i[found]]
