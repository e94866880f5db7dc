"""Kernels that are evaluated when they are read, and never held: n^2 numbers are too many from some n on.

What is asked of a `LazyStack` is evaluated in float64 by blocks of rows (`evaluation`), 64 MiB of them at a time; a
certificate asks for the entries between support vectors, and for the rows of support vectors of kernels with a weight.
A solver asks its `reader`, which keeps rows in a bounded cache, in float32 if that is enough for it (`reader`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from contextlib import closing
from copy import copy
from dataclasses import replace
from typing import Any

import numpy as np

from mklref._progress import Steps
from mklref._threads import blas_threads, cached_property
from mklref._typing import Array, FloatArray
from mklref.exceptions import InvalidInput
from mklref.kernels.evaluation import Block, Run, Samples, runs_of
from mklref.kernels.fitted import FittedFamily, OnSamples
from mklref.kernels.protocol import KernelStack, indices, numbers, rows_at_once
from mklref.kernels.reader import CachedReader
from mklref.kernels.transforms import Normalizer

_ROUNDINGS = 8.0 * 2.0**-52
"""Of a factor, of two norms, of the product of both, each twice."""


class LazyStack(OnSamples, KernelStack):
    """The Gram matrices of a family on training samples, evaluated when they are read; see `KernelFamily.fit`.

    Parameters
    ----------
    fitted : FittedFamily
        Kernels, training samples, and the statistics of the normalisation.
    cache : int
        Bytes of rows that a solver may keep.
    precision : {"float64", "float32"}
        Of the rows that a solver reads. Certificates are evaluated in float64.
    progress : bool
        Whether products show a progress line.
    """

    costly = True
    dtype = np.dtype(np.float64)

    def __init__(self, fitted: FittedFamily, *, cache: int, precision: str = "float64", progress: bool = False) -> None:
        self.fitted, self.names = fitted, fitted.names
        self.cache, self.precision, self.progress = cache, precision, progress
        self.evaluated = 0.0
        """Entries that were evaluated, of all kernels together."""
        self._samples = {"float64": Samples(fitted.samples)}

    def normalized(self, how: Normalizer) -> LazyStack:
        """The kernels with a normalisation.

        The means of rows, which centring and "multiplicative" take, cost one evaluation of all kernels.
        """
        if how.method is None and not how.center:
            return self
        samples, found = self.fitted.samples, []
        ones = np.ones(len(samples)) if how.weight is None else how.weight
        means: Any = self.apply(ones) / ones.sum() if how.reads_means else [None] * len(self)
        with np.errstate(over="ignore"):
            for kernel, name, own in zip(self.fitted.kernels, self.names, means, strict=True):
                found.append(how.of_statistics(kernel.diagonal(samples), own, np.float64, f"kernel {name!r}"))
        fitted = replace(self.fitted, transforms=tuple(found))
        made = LazyStack(fitted, cache=self.cache, precision=self.precision)
        made.choice, made._samples, made.sample_names = self.choice, self._samples, self.sample_names
        return made

    @property
    def shape(self) -> tuple[int, int, int]:
        n = len(self.fitted.samples)
        return len(self.fitted.kernels), n, n

    @property
    def definiteness(self) -> str:
        return "by theorem" if all(kernel.definite for kernel in self.fitted.kernels) else "assumed"

    @cached_property
    def entry_errors(self) -> Array:
        """eta (M,), by which the entries are wrong in float64; inf for kernels that do not tell."""
        every = self.samples("float64").origin.X  # of a part as well: its entries are evaluated around the mean of all
        errors = np.array([kernel.entry_error(every) for kernel in self.fitted.kernels])
        exact = np.array([transform.centering is None for transform in self.fitted.transforms])
        return np.where(exact, errors + _ROUNDINGS, np.inf)  # the means are known up to rounding

    @cached_property
    def recipe(self) -> bytes:
        """A hash of the samples, the kernels and the statistics of their normalisation."""
        digest = hashlib.sha256(repr(self.fitted.kernels).encode())
        digest.update(np.ascontiguousarray(self.fitted.samples).data)
        for transform in self.fitted.transforms:
            digest.update(repr(transform.scale).encode())
            for part in (transform.norms, None if transform.centering is None else transform.centering.means):
                digest.update(b"" if part is None else part.tobytes())
        return digest.digest()

    @cached_property
    def own_diagonals(self) -> Array:
        pairs, samples = zip(self.fitted.kernels, self.fitted.transforms, strict=True), self.fitted.samples
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            diagonals = np.stack([transform.own(kernel.diagonal(samples)) for kernel, transform in pairs])
        if not np.isfinite(diagonals).all():
            m, i = (int(k) for k in np.argwhere(~np.isfinite(diagonals))[0])
            raise self._overflow(m, diagonals[m, i], i, i)
        return diagonals

    @cached_property
    def runs(self) -> list[Run]:
        """The kernels that are exponentials times a factor."""
        return runs_of(self.fitted.kernels, [transform.factor for transform in self.fitted.transforms])

    def samples(self, precision: str) -> Samples:
        """The samples in a precision."""
        if precision not in self._samples:
            self._samples[precision] = Samples(self.fitted.samples, precision)
        return self._samples[precision]

    def block(self, rows: Any, columns: Any = None, kernels: Any = None) -> FloatArray:
        index = (slice(None) if which is None else indices(which, self.shape[1]) for which in (rows, columns))
        return self.entries(Block(self.samples("float64"), None, *index), indices(kernels, len(self), "kernels"))

    def entries(self, block: Block, kernels: Any) -> FloatArray:
        """These kernels on a block, in its precision."""
        dtype = block.dtype
        out = np.empty((len(kernels), *block.shape), dtype)
        place = {int(m): k for k, m in enumerate(kernels)}
        runs, others = self._by_runs(kernels)
        for run in runs:
            values = np.empty((len(run.members), *block.shape), dtype)
            block.exponentials(run, values)
            out[[place[m] for m in run.members]] = values
        for m in others:
            out[place[m]] = self.values(block, m)
        self.count(out.size)
        self.require_finite(out, block, kernels)
        return out

    def apply(self, v: Array, kernels: Any = None) -> Array:
        v, some = numbers("v", v, self), indices(kernels, len(self), "kernels")
        support = np.flatnonzero(v)
        return self.sums(support, v[support], some)

    def sums(self, rows: Any, v: Array, kernels: Any, columns: Any = None) -> Array:
        """sum_i v_i K_m[rows_i, columns] of these kernels, (k, len(columns)), at most isqrt(len(v)) rows at a time."""
        width = self.shape[1] if columns is None else len(columns)
        images, h = np.zeros((len(kernels), width)), rows_at_once(len(v), width)
        with blas_threads(), closing(Steps(self.progress and len(v) > h, "evaluating", -(-len(v) // h))) as steps:
            for first in range(0, len(v), h):
                block = Block(self.samples("float64"), None, rows[first : first + h], columns)
                self.add_rows(block, kernels, v[first : first + h], images)
                steps.advance()
        return images

    def roundings(self, k: int) -> float:
        """Those of a block of rows, and one for each block, which `sums` adds up one after the other."""
        h = rows_at_once(k, self.shape[1])
        return float(min(k, h + -(-k // h)))

    @np.errstate(over="ignore", under="ignore", invalid="ignore")
    def add_rows(self, block: Block, kernels: Any, v: Array, images: Array) -> None:
        """images[k] += v'K_m of the block for each of the kernels m."""
        place, width = {int(m): k for k, m in enumerate(kernels)}, block.shape[1]
        runs, others = self._by_runs(kernels)
        for run in runs:
            sums = np.zeros((len(run.members), width))
            block.dots(run, v, sums)
            images[[place[m] for m in run.members]] += sums
        for m in others:
            images[place[m]] += v @ self.values(block, m)
        self.count(len(kernels) * len(v) * width)
        if not np.isfinite(images.sum()):
            self.block(block.rows, block.columns, kernels)  # which says where

    @np.errstate(over="ignore", under="ignore", invalid="ignore")
    def combined(self, block: Block, weights: Array) -> Array:
        """sum_m weights_m K_m on a block, float64."""
        active = np.flatnonzero(weights)
        out = np.zeros(block.shape)
        runs, others = self._by_runs(active)
        for run in runs:
            block.add(run, weights[list(run.members)], out)
        for m in others:
            out += weights[m] * self.values(block, m)
        self.count(len(active) * out.size)
        if not np.isfinite(out.sum()):
            self.block(block.rows, block.columns, active)  # which says where
        return out

    def combine_rows(self, weights: Array, rows: Any) -> Array:
        weights, index = numbers("weights", weights, self), indices(rows, self.shape[1])
        total = np.empty((len(index), self.shape[1]))
        for part in self._batches(len(index), 1):
            total[part] = self.combined(Block(self.samples("float64"), None, index[part]), weights)
        return total

    def quadratic(self, v: Array) -> Array:
        """All values v'K_m v, float64 (M,), from the entries between samples where v is not 0."""
        v = numbers("v", v, self)
        support = np.flatnonzero(v)
        return self.part(support).apply(v[support]) @ v[support]

    def images(self, v: Array) -> Images:
        """K_m v for what a certificate asks, of which it evaluates what it is asked for."""
        return Images(self, v)

    def images_each(self, vectors: Array) -> list[Images]:
        return [self.images(v) for v in vectors]

    def part(self, samples: Any) -> LazyStack:
        """The stack of some of the samples, with the statistics of all."""
        old, samples = self.fitted, indices(samples, self.shape[1])
        transforms = tuple(transform.at(samples) for transform in old.transforms)
        fitted = replace(old, samples=old.samples[samples], transforms=transforms)
        made = LazyStack(fitted, cache=self.cache, precision=self.precision)
        for precision in self._samples:  # around the same mean, so that the entries are those of the whole
            made._samples[precision] = self._samples[precision].part(samples)
        made.whole, made.progress, made.sample_names = self, self.progress, self._names_at(samples)
        return made

    whole: LazyStack | None = None
    """The stack of which this is a part."""

    def count(self, entries: float) -> None:
        """Add to the number of entries that were evaluated, also of the stack of which this is a part."""
        self.evaluated += entries
        if self.whole is not None:
            self.whole.count(entries)

    @cached_property
    def reader(self) -> CachedReader:
        """What solvers read this stack with; its cache stays as long as the stack."""
        return CachedReader(self)

    def __getstate__(self) -> dict[str, Any]:
        """All but the reader, which belongs to this object and this process: a copy has its own."""
        return {name: value for name, value in self.__dict__.items() if name != "reader"}

    def _by_runs(self, kernels: Any) -> tuple[list[Run], list[int]]:
        """The runs of these kernels, and those of them that are in none."""
        runs = [some for run in self.runs if (some := run.of(kernels)).members]
        within = {m for run in runs for m in run.members}
        return runs, [int(m) for m in kernels if int(m) not in within]

    @np.errstate(over="ignore", under="ignore", invalid="ignore")
    def values(self, block: Block, m: int) -> FloatArray:
        """One kernel on a block, normalised."""
        return self.fitted.transforms[m].block(block.values(self.fitted.kernels[m]), block.rows, block.columns)

    @np.errstate(over="ignore", under="ignore", invalid="ignore")
    def require_finite(self, values: FloatArray, block: Block, kernels: Any) -> None:
        """Raise `InvalidInput` with kernel, row and column of an entry that is not finite."""
        if np.isfinite(values.sum()) or np.isfinite(values).all():
            return
        m, i, j = (int(k) for k in np.argwhere(~np.isfinite(values))[0])
        every = np.arange(self.shape[1])
        row, column = int(every[block.rows][i]), int(every[block.columns][j])
        raise self._overflow(int(kernels[m]), values[m, i, j], row, column)

    def _overflow(self, m: int, value: float, row: int, column: int) -> InvalidInput:
        return InvalidInput(
            f"kernel {self.names[m]!r} is {value} between the samples {row} and {column}: it overflows "
            "float64, or its function makes no number of them; standardise the variables first."
        )

    def __repr__(self) -> str:
        return f"{type(self).__name__}(shape={self.shape}, cache={self.cache / 1e6:.0f} MB of {self.precision} rows)"


class Images:
    """K_m v: `weights @ images` evaluates the kernels with a weight, `images @ u` what lies between support vectors.

    `abs(images)` has the same two products of the absolute values, and knows what these know.
    """

    __array_ufunc__ = None  # an array on the left leaves the product to the class

    def __init__(self, stack: LazyStack, v: Array) -> None:
        self._stack, self._v, self._support = stack, v, np.flatnonzero(v)
        self._of: Callable[[Array], Array] = np.asarray
        self._near: list[Array] = []
        """What lies between support vectors, once it is known."""
        self._rows: dict[int, Array] = {}

    def __abs__(self) -> Images:
        absolute = copy(self)
        absolute._of = np.abs
        return absolute

    def __rmatmul__(self, weights: Array) -> Array:
        self._evaluate(np.flatnonzero(weights))
        total = np.zeros(len(self._v))
        for m in np.flatnonzero(weights):
            total += weights[m] * self._of(self._rows[int(m)])
        return total

    def __matmul__(self, u: Array) -> Array:
        if np.any(u[self._v == 0.0]):
            self._evaluate(np.arange(len(self._stack)))
        if len(self._rows) == len(self._stack):
            return np.array([self._of(self._rows[m]) @ u for m in range(len(self._stack))])
        if not self._near:
            self._near.append(self._stack.part(self._support).apply(self._v[self._support]))
        return np.asarray(self._of(self._near[0]) @ u[self._support])

    def _evaluate(self, kernels: Any) -> None:
        missing = [int(m) for m in kernels if int(m) not in self._rows]
        if missing:
            self._rows.update(zip(missing, self._stack.apply(self._v, missing), strict=True))
