"""The images K_m beta and the squares beta'K_m beta, kept up to date for the kernels that are watched.

An image is updated over the samples whose beta changed since it was last computed. For a kernel that is not
watched, the triangle inequality in its norm bounds what its square can be by now,

    g_m(beta) <= g_m(beta_0) + g_m(d),   g_m(d) <= min(||d|| sqrt(tr K_m), sum_i |d_i| sqrt(K_ii)),   d = beta - beta_0,

so that bounds of the optimum stay valid without reading it, and it is read again only if it could matter.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from mklref._threads import threads
from mklref._typing import Array
from mklref.kernels import KernelStack
from mklref.machines.loops import loops, say_if_slow

_ROUNDING = 4 * float(np.finfo(float).eps)
_SHRUNK = 1e-3
"""An image this much smaller than it once was has kept the rounding errors of then, and is computed anew."""


class QuadraticForms:
    """K_m beta for every kernel, each for the beta at which it was last updated."""

    def __init__(self, stack: KernelStack) -> None:
        M, n, _ = stack.shape
        say_if_slow()
        self.threads = threads()
        self.stack = self._hold(stack)
        self.diagonals = stack.own_diagonals
        self.images = np.zeros((M, n))
        self.squares = np.zeros(M)
        self.watched = np.ones(M, dtype=bool)
        self.rows_read = 0.0
        self.product: Callable[[Array], Array] | None = None
        """A product that computes K_m beta of all kernels at the next update, in place of the loops."""
        self.products: Array | None = None
        """K_m beta (M, n) as `product` computed it for the present beta, read-only: a certificate may use it."""
        self._lengths = stack.own_lengths
        self._traces = np.sqrt(np.maximum(stack.traces(), 0.0))
        self._age = np.zeros(M, dtype=int)
        self._points = [np.zeros(n)]
        self._peaks = np.zeros(M)
        self._norms = np.zeros(M)
        """sqrt(q_m) at the beta of the image."""

    def _hold(self, stack: Any) -> Any:
        """The matrices for the compiled loops."""
        return loops.Stack(list(stack.matrices))

    def begin(self, beta: Array) -> None:
        """Go to the first beta of a machine; images are scaled if it is a multiple of where the last machine ended."""
        self.watched, self.rows_read = np.ones(len(self.squares), dtype=bool), 0.0
        last = self._points[-1]
        k = np.abs(last).argmax()
        factor = beta[k] / last[k] if last[k] else 0.0
        if np.abs(beta - factor * last).max() <= _ROUNDING * np.abs(beta).max():
            self.images *= factor
            self._peaks *= abs(factor)
            self._points = [factor * point for point in self._points[:-1]] + [beta]
        self.update(beta)

    def adopt(self, images: Array, beta: Array) -> None:
        """Take images (M, n) at beta that somebody else computed."""
        self.images, self._points = np.ascontiguousarray(images), [beta.copy()]
        self._age[:] = 0
        self._peaks = _largest(images)

    def update(self, beta: Array) -> None:
        """Bring the watched kernels to beta; squares of the others become upper bounds."""
        point, watched = beta.copy(), np.flatnonzero(self.watched)
        self.products = None
        if self.product is not None:
            self.products, self.product = self.product(point), None
            self.products.flags.writeable = False
            self.rows_read += min(map(self._reads, (point, point - self._points[-1]))) * len(self.squares)
            self.adopt(self.products.copy(), point)
        ages = self._age[watched]
        for age in set(ages.tolist()):
            kernels, step = watched[ages == age], point - self._points[age]
            if self._reads(point) <= self._reads(step):
                self._anew(kernels, point)
            else:
                self._apply(kernels, step)
        every = len(watched) == len(self.squares)
        some: Any = slice(None) if every else watched
        sizes = _largest(self.images[some])
        self._peaks[some] = np.maximum(self._peaks[some], sizes)
        if len(shrunk := watched[sizes < _SHRUNK * self._peaks[some]]):
            self._anew(shrunk, point)
            self._peaks[shrunk] = _largest(self.images[shrunk])
        self.squares[some] = np.maximum(self.images[some] @ point, 0.0)
        self._norms[some] = np.sqrt(self.squares[some])
        if every:
            self._points, self._age[:] = [point], 0
            return
        self._points.append(point)
        self._age[watched] = len(self._points) - 1
        self._forget()
        for age in set(self._age[~self.watched].tolist()):
            stale = np.flatnonzero(~self.watched & (self._age == age))
            step = np.abs(point - self._points[age])
            reach = np.minimum(_length(step) * self._traces, self._lengths @ step)  # of all: some rows would be copied
            self.squares[stale] = (self._norms + reach)[stale] ** 2

    def _anew(self, kernels: Any, point: Array) -> None:
        self.images[kernels] = self._peaks[kernels] = 0.0
        self._apply(kernels, point)

    def _apply(self, kernels: Any, step: Array) -> None:
        changed = np.flatnonzero(step)
        self._add(kernels, changed, step[changed])
        self.rows_read += self._reads(step) * len(kernels)

    def _add(self, kernels: Any, changed: Any, step: Array) -> None:
        """Images += sum_i step_i K_m[i] over the samples that changed."""
        loops.apply_rows(self.stack, kernels, changed, step, self.images, self.threads)

    def _reads(self, step: Array) -> float:
        """Rows of a kernel that are read to apply it: lower triangles, where it is more than half of them."""
        return min(float(np.count_nonzero(step)), 0.5 * len(step))

    def _forget(self) -> None:
        """Drop the points that no image refers to."""
        used = sorted(set(self._age.tolist()))
        self._age = np.searchsorted(used, self._age)
        self._points = [self._points[age] for age in used]


def _largest(images: Array) -> Array:
    """The largest magnitude in each row."""
    return np.asarray(np.maximum(images.max(axis=1), -images.min(axis=1)))


def _length(x: Array) -> float:
    """||x||, without overflow of the squares."""
    top = float(np.abs(x).max(initial=0.0))
    return top * float(np.linalg.norm(x / top)) if top > 0.0 else 0.0
