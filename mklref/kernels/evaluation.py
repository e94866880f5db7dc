"""Kernels by blocks: what several of them are functions of is computed once, and exponentials of it in one pass.

Linear and polynomial kernels are functions of the products P = X Z', Gaussians of the squared distances, which follow
from the products, and Laplacians of the sums of absolute differences; each on some of the columns. Products are BLAS's,
around the mean of the columns, where ||x||^2 + ||z||^2 - 2 x'z cancels least; a single column takes differences.

Exponentials of shared squared distances D are compiled if they were built, else their NumPy `Twin`s, to the same bits,
for D of float64 or float32 and rates r <= 0. The relative error of exp itself is at most `EXP_ERROR` units of the type,
u = 2^-53 or 2^-24: k ln 2 is taken off in two parts, e^r on |r| <= 0.35 is its Taylor polynomial of degree 13 or 7, and
2^k is made of bits. Below e^-708 or e^-87 the result is 0.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np

from mklref._threads import blas_threads, threads
from mklref._typing import Array, FloatArray
from mklref.kernels.base import Composite, Kernel
from mklref.kernels.columns import OnVariables

EXP_ERROR = 4.0
"""Relative error of exp(x) for the x that it is given, in units u of the type, where it is not 0."""
_LOG2E, _SHIFT, _ONE = 1.4426950408889634, {8: 1.5 * 2.0**52, 4: 1.5 * 2.0**23}, {8: 1023 << 52, 4: 127 << 23}
_LOWEST, _DEGREE, _MANTISSA = {8: -708.0, 4: -87.0}, {8: 13, 4: 7}, {8: 52, 4: 23}
_LN2 = {8: (6.93147180369123816490e-01, 1.90821492927058770002e-10), 4: (0.693145751953125, 1.42860677e-06)}


@np.errstate(over="ignore", under="ignore", invalid="ignore")
def exponential(x: FloatArray) -> FloatArray:
    """exp(x) for x <= 0, with the bits of the compiled loops."""
    real: Any = x.dtype.type
    size = x.dtype.itemsize
    inside = np.where(x < real(_LOWEST[size]), real(_LOWEST[size]), x)
    shifted = inside * real(_LOG2E) + real(_SHIFT[size])
    k = shifted - real(_SHIFT[size])
    r = (inside - k * real(_LN2[size][0])) - k * real(_LN2[size][1])
    value = np.full_like(r, real(1) / real(math.factorial(_DEGREE[size])))
    for degree in range(_DEGREE[size] - 1, -1, -1):
        value = value * r + real(1) / real(math.factorial(degree))
    words: Any = np.uint64 if size == 8 else np.uint32
    power = ((shifted.view(words) << words(_MANTISSA[size])) + words(_ONE[size])).view(x.dtype)
    return np.asarray(np.where(x < real(_LOWEST[size]), real(0), value * power))


class Twin:
    """The functions of the compiled module, from their definitions."""

    @staticmethod
    @np.errstate(over="ignore", under="ignore", invalid="ignore")
    def squares(products: FloatArray, rows: FloatArray, columns: FloatArray, threads: int) -> None:
        """products[i, j] becomes max(0, rows[i] + columns[j] - 2 products[i, j])."""
        found = (rows[:, None] + columns) - (products + products)
        products[:] = np.where(found < 0.0, products.dtype.type(0), found)

    @staticmethod
    @np.errstate(under="ignore")
    def exponentials(squares: FloatArray, rates: Array, factors: Array, out: FloatArray, threads: int) -> None:
        """out[m, i, j] = factors[m] exp(rates[m] squares[i, j])."""
        for rate, factor, part in zip(rates.astype(squares.dtype), factors.astype(squares.dtype), out, strict=True):
            part[:] = factor * exponential(rate * squares)

    @staticmethod
    @np.errstate(under="ignore")
    def exponential_forms(squares: Array, rates: Array, v: Array, out: Array, threads: int) -> None:
        """out[i, m] = v_i (v_i E_ii + 2 sum_{j > i} v_j E_ij), E = exp(rates[m] squares), to the last bits but few."""
        for rate, terms in zip(rates, out.T, strict=True):
            E = exponential(rate * squares)
            terms[:] = v * (E.diagonal() * v + 2.0 * (np.triu(E, 1) @ v))

    @staticmethod
    @np.errstate(under="ignore")
    def exponential_sum(squares: FloatArray, rates: Array, weights: Array, out: Array, threads: int) -> None:
        """out[i, j] += sum_m weights[m] exp(rates[m] squares[i, j])."""
        for rate, weight in zip(rates.astype(squares.dtype), weights, strict=True):
            out += weight * exponential(rate * squares).astype(np.float64, copy=False)

    @staticmethod
    @np.errstate(under="ignore")
    def exponential_dots(
        squares: FloatArray, rates: Array, factors: Array, v: Array, images: Array, threads: int
    ) -> None:
        """images[m, j] += sum_i v[i] factors[m] exp(rates[m] squares[i, j])."""
        for rate, factor, image in zip(rates.astype(squares.dtype), factors, images, strict=True):
            for weight, row in zip(factor * v, exponential(rate * squares), strict=True):
                image += weight * row.astype(np.float64, copy=False)


compiled: Any = Twin
with suppress(ImportError):  # `mklref.machines.loops` says so, and why
    compiled = importlib.import_module("mklref.kernels._evaluation")


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

    def given(self, columns: Columns) -> Array:
        """The chosen columns as they are, numbers or texts."""
        return self.X if columns is None else self.X[:, columns]

    def columns(self, columns: Columns) -> FloatArray:
        """The chosen columns in that precision."""
        if columns not in self._columns:
            self._columns[columns] = np.ascontiguousarray(self.given(columns), dtype=self.dtype)
        return self._columns[columns]

    def centred(self, columns: Columns) -> tuple[FloatArray, FloatArray]:
        """The chosen columns around the mean of those of the origin, and their squared norms."""
        if columns not in self._centred:
            around = self.given(columns) - self.origin.given(columns).mean(axis=0)
            norms = np.einsum("ij,ij->i", around, around)
            self._centred[columns] = around.astype(self.dtype, copy=False), norms.astype(self.dtype, copy=False)
        return self._centred[columns]

    def part(self, index: Any) -> Samples:
        """Some of the samples, around the same means."""
        return Samples(self.X[index], self.dtype, self.origin)


class Block:
    """The kernels between samples X[rows] and Z[columns]; within one set, equal samples are known to be equal.

    The last shared quantity of each kind is kept, or the last one of whole matrices.
    """

    def __init__(self, X: Samples, Z: Samples | None = None, rows: Any = None, columns: Any = None) -> None:
        self.rows, self.columns = (slice(None) if index is None else index for index in (rows, columns))
        """The numbers of the samples on both sides."""
        self._sides = (X, self.rows), (X if Z is None else Z, self.columns)
        self._whole = Z is None and rows is None and columns is None
        self._equal = None if Z is not None or self._whole else _equal(rows, columns, len(X))
        self._shared: dict[str, tuple[Columns, FloatArray]] = {}

    @classmethod
    def between(cls, X: Array, Z: Array) -> Block:
        """The block of all samples X (k, d) and Z (n, d), around the mean of Z."""
        training = Samples(Z)
        return cls(Samples(X, origin=training), training)

    @property
    def dtype(self) -> Any:
        """That of the samples."""
        return self._sides[0][0].dtype

    @property
    def shape(self) -> tuple[int, int]:
        """(k, n)."""
        k, n = (len(np.arange(len(samples))[index]) for samples, index in self._sides)
        return k, n

    def values(self, kernel: Kernel) -> FloatArray:
        """k(x, z), (k, n), which belongs to the caller; exactly symmetric within one set."""
        whole, columns = kernel.on_columns()
        if isinstance(whole, Composite):
            parts = whole.kernels if columns is None else [OnVariables(part, columns, "") for part in whole.kernels]
            composed: list[Any] = [self.values(part) for part in parts]
            return np.asarray(whole.compose(composed))
        if whole.rate is not None:
            out = np.empty((1, *self.shape), self.dtype)
            self.exponentials(Run(whole.shares, columns, (0,), np.array([whole.rate]), np.ones(1)), out)
            return np.asarray(out[0])
        if whole.shares:
            return whole.of_shared(self.shared(whole.shares, columns))
        x, z = (part.given(columns)[i] for part, i in self._sides)
        values = whole.gram(x) if self._whole else whole.checked_cross(x, z)
        return values.astype(self.dtype, copy=False)

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
        x, z = (part.columns(columns)[i] for part, i in self._sides)
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):  # -inf + inf, in another order of a library
            return self._product(x, z)

    def _product(self, x: FloatArray, z: FloatArray) -> FloatArray:
        """x z', in several threads if it takes as long as a large factorisation; idle ones spin beside ours."""
        with blas_threads(round((6.0 * x.size * len(z)) ** (1.0 / 3.0))):
            return np.asarray(x @ x.T if self._whole else x @ z.T)

    def _squares(self, columns: Columns) -> FloatArray:
        if self._sides[0][0].columns(columns).shape[1] == 1:
            x, z = (part.columns(columns)[i] for part, i in self._sides)
            differences = x - z.T
            return np.asarray(np.square(differences, out=differences))
        (x, a), (z, b) = ([half[i] for half in part.centred(columns)] for part, i in self._sides)
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            squares = self._product(x, z)
        compiled.squares(squares, np.ascontiguousarray(a), np.ascontiguousarray(b), threads())
        if self._whole:
            squares.flat[:: len(squares) + 1] = 0.0
        elif self._equal is not None:
            squares[self._equal] = 0.0
        return squares

    def _distances(self, columns: Columns) -> FloatArray:
        from scipy.spatial.distance import cdist

        x, z = (part.columns(columns)[i] for part, i in self._sides)
        return np.asarray(cdist(x, z, "cityblock")).astype(self.dtype, copy=False)  # it sums in float64


def _equal(rows: Any, columns: Any, n: int) -> tuple[Any, Any]:
    """Where a row and a column of a block are the same sample."""
    every = np.arange(n)
    i, j = (every if index is None else every[index] for index in (rows, columns))
    at = np.full(n, -1)
    at[j] = np.arange(len(j))
    found = np.flatnonzero(at[i] >= 0)
    return found, at[i[found]]
