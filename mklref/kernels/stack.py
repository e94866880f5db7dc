"""Gram matrices in memory: `stack` checks them, `ArrayStack` holds them and copies nothing that it need not copy."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

import numpy as np

from mklref._names import namings, require_one_order, require_same_samples
from mklref._threads import cached_property, in_parts
from mklref._typing import Array, FloatArray
from mklref._validate import as_float_array, checked_members, checked_names
from mklref.exceptions import InvalidKernel, KernelsLost
from mklref.kernels.protocol import KernelStack as KernelStack, in_pairs, indices, numbers, sums_of_rows
from mklref.kernels.validation import checked_gram, require_gram, require_psd, rounding_of, rounding_slack

_EXPLAINED = 65.0 * float(np.finfo(np.float64).eps)
"""More of the trace of a matrix than the last step of `require_psd`, up to which float64 explains what it misses."""
_LARGE = 200
"""Order of a matrix from which its symmetry saves time in a product; below, one product with all matrices does."""
_LARGER, _UNCACHED = 640, 1 << 22
"""The same order for so many entries that memory is slower than products: by one thread both take as long there, and
of several each reads its part. With ten matrices of order 600, in the cache, half of them takes half the time."""
_TOGETHER = 64
"""Rows at whose multiples such a product may be cut for several threads: BLAS takes a few of them at a time."""
_BLOCK = 1 << 17
"""Entries that are converted from float32, or multiplied, at a time: a megabyte, which stays in the cache."""
_FEW = 1 << 14
"""Entries of matrices that lie apart which are copied into one array for a product."""
_VECTORS = 16
"""Whose sums of rows are held at a time."""


class ArrayStack(KernelStack):
    """Gram matrices in memory, float64 or float32, referred to and never written to.

    Parameters
    ----------
    matrices : sequence of (n, n) arrays
        Checked Gram matrices, exactly symmetric, C-contiguous, all of one dtype. Use `stack` for data that was not
        checked.
    names : sequence of str, optional
        One name for each kernel, for tables and pictures.
    """

    costly = False

    def __init__(self, matrices: Sequence[FloatArray], names: Sequence[str] | None = None) -> None:
        self.matrices: tuple[FloatArray, ...] = tuple(
            checked_members("matrices", matrices, "give a list of arrays (n, n).")
        )
        self.names = checked_names(names, len(self.matrices))

    @classmethod
    def trusted(
        cls, matrices: Sequence[FloatArray], names: Sequence[str] | None = None, slack: Array | None = None
    ) -> ArrayStack:
        """A stack of matrices known to be positive semidefinite, as principal submatrices of checked ones are.

        They are it up to their `slack` (M, n), by default what rounding explains.
        """
        made = cls(matrices, names)
        made._gram_checked = True
        made.__dict__["definiteness"] = "by theorem"
        if slack is not None:
            made.__dict__["slack"] = slack
        return made

    @property
    def shape(self) -> tuple[int, int, int]:
        n = self.matrices[0].shape[0]
        return len(self.matrices), n, n

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.matrices[0].dtype

    def combine(self, weights: Array) -> Array:
        weights, n = numbers("weights", weights, self), self.shape[1]
        total = np.zeros((n, n))
        term = np.empty((n, n))
        for weight, matrix in zip(weights, self.matrices, strict=True):
            if weight != 0.0:
                np.multiply(matrix, weight, out=term)
                total += term
        return total

    def block(self, rows: Any, columns: Any = None, kernels: Any = None) -> FloatArray:
        index, others = (indices(which, self.shape[1]) for which in (rows, columns))
        some, where = indices(kernels, len(self), "kernels"), index if columns is None else np.ix_(index, others)
        made = np.empty((len(some), len(index), len(others)), self.dtype)
        for entries, m in zip(made, some, strict=True):
            entries[:] = self.matrices[m][where]
        return made

    def matrix(self, m: int, out: FloatArray | None = None) -> FloatArray:
        (m,) = indices([m], len(self), "kernels")
        if out is None:
            return self.matrices[m]
        out[:] = self.matrices[m]
        return out

    def apply(self, v: Array, kernels: Any = None) -> Array:
        v, some = numbers("v", v, self), indices(kernels, len(self), "kernels")
        least = _LARGER if len(self) * len(v) ** 2 >= _UNCACHED else _LARGE
        if kernels is None and len(v) < least and (rows := self._rows) is not None:
            products = np.empty(len(rows))

            def multiply(part: slice) -> None:
                np.dot(rows[part], v, out=products[part])

            in_parts(multiply, len(rows), _TOGETHER, rows.size)
            return products.reshape(-1, len(v))
        return np.array([_product(self.matrices[m], v) for m in some]).reshape(-1, len(v))

    def apply_each(self, vectors: Array, kernels: Any = None) -> Array:
        vectors, some = numbers("vectors", vectors, self), indices(kernels, len(self), "kernels")
        if self.dtype != np.float64:
            return np.stack([self.apply(v, some) for v in vectors])
        products = np.array([vectors @ self.matrices[m] for m in some]).reshape(-1, *np.shape(vectors))
        return products.swapaxes(0, 1)

    def images(self, v: Array) -> Array:
        return np.asarray(self.images_each(v[None])[0])

    def images_each(self, vectors: Array) -> Array:
        (M, n, _), h, view = self.shape, math.isqrt(self.shape[1]), self._view
        many = max(1, (_FEW if view is None else _BLOCK) // n**2)
        step = n if self.dtype == np.float64 else h * max(1, _BLOCK // (h * n))
        images = np.empty((len(vectors), M, n))
        for m in range(0, M, many):
            if view is not None:
                some = view[m : m + many]
            else:
                some = np.stack(self.matrices[m : m + many]) if many > 1 else self.matrices[m][None]
            for k in range(0, len(vectors), _VECTORS):
                v = vectors[k : k + _VECTORS]
                parts = [
                    sums_of_rows(some[:, i : i + step].astype(np.float64, copy=False), v[:, i : i + step], h)
                    for i in range(0, n, step)
                ]
                sums = np.concatenate(parts, axis=1) if len(parts) > 1 else parts[0]
                images[k : k + _VECTORS, m : m + many] = in_pairs(sums)
        return images

    def roundings(self, k: int) -> float:
        n, h = self.shape[1], math.isqrt(self.shape[1])
        return min(float(k), h + math.ceil(math.log2(-(-n // h))))

    def part(self, samples: Any) -> ArrayStack:
        """The stack of some of the samples (k,), known to be semidefinite if the whole is."""
        self.require_psd()
        samples = indices(samples, self.shape[1])
        parts = [matrix.take(samples, axis=0).take(samples, axis=1) for matrix in self.matrices]
        made = ArrayStack.trusted(parts, self.names, self.slack[:, samples])
        made.__dict__["lost"] = self.lost[:, samples]  # little of a few samples is more of their trace
        made.sample_names = self._names_at(samples)
        return made

    def dense(self) -> FloatArray:
        view = self._view
        return view if view is not None and view.flags.c_contiguous else np.stack(self.matrices)

    @cached_property
    def _view(self) -> FloatArray | None:
        """All matrices, (M, n, n), where they lie at even distances in memory that the first keeps alive."""
        starts, first = [matrix.ctypes.data for matrix in self.matrices], self.matrices[0]
        distances = set(np.diff(starts).tolist()) or {first.nbytes}
        owners = {id(matrix if matrix.base is None else matrix.base) for matrix in self.matrices}
        if len(owners) > 1 or len(distances) > 1 or min(distances) < first.nbytes:
            return None
        return np.lib.stride_tricks.as_strided(first, self.shape, (*distances, *first.strides), writeable=False)

    @property
    def _rows(self) -> FloatArray | None:
        """The rows of all matrices, (M n, n), where they are one array of float64."""
        view = self._view
        one = view is not None and view.flags.c_contiguous and self.dtype == np.float64
        return view.reshape(-1, view.shape[2]) if view is not None and one else None

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_view"}  # the matrices again

    @cached_property
    def own_diagonals(self) -> Array:
        return np.stack([matrix.diagonal() for matrix in self.matrices]).astype(np.float64)

    @cached_property
    def definiteness(self) -> str:
        """Whether each matrix is "proved" semidefinite, is it "by theorem", or is "assumed" to be."""
        self._seen = self._some_entries()
        return "assumed" if None in self._proved else "proved"

    @cached_property
    def _proved(self) -> list[float | None]:
        """What `require_psd` says of each matrix."""
        return [
            require_psd(matrix, f"kernels[{m}]", len(self.matrices), partial(_product, matrix))
            for m, matrix in enumerate(self.matrices)
        ]

    @cached_property
    def slack(self) -> Array:
        """s (M, n): K_m + diag(s_m) is semidefinite where rounding left K_m indefinite; 0 if K_m is proved definite."""
        each = rounding_of(self.own_diagonals)
        if self.definiteness == "by theorem":
            return each
        proved = np.array([1.0 if step is None else step for step in self._proved])
        slack = np.where(np.isfinite(proved), proved, 1.0)[:, None] * each
        for m in np.flatnonzero(np.isinf(proved)).tolist():
            slack[m] = rounding_slack(self.matrices[m])
        return slack

    @cached_property
    def lost(self) -> Array:
        much = self.slack.mean(axis=1) > _EXPLAINED * self.traces()
        return np.where(much[:, None], self.slack, 0.0)

    _seen: Array | None = None

    def _some_entries(self) -> Array:
        """The row in the middle, with an entry of each column, and up to 64 of the diagonal, far apart in memory."""
        n = self.shape[1]
        some = slice(None, None, -(-n // 64))
        if (view := self._view) is not None:
            return np.hstack([view[:, n // 2], view.diagonal(axis1=1, axis2=2)[:, some]])
        return np.array([np.concatenate([matrix[n // 2], matrix.diagonal()[some]]) for matrix in self.matrices])

    def require_unchanged(self) -> None:
        if self._seen is None or np.array_equal(now := self._some_entries(), self._seen):
            return
        m = int(np.argmax((now != self._seen).any(axis=1)))
        raise KernelsLost(
            f"kernels[{m}] was written to since it was found positive semidefinite, so that this is another problem, "
            "and nothing is known of it: state it again, Problem(kernels, y, ...), or give a copy of your own."
        )

    def require_psd(self) -> None:
        """Raise `InvalidKernel` if some matrix is not positive semidefinite; the answer is remembered."""
        self.require_gram()
        _ = self.definiteness

    _gram_checked = False

    def require_gram(self) -> None:
        """Raise `InvalidKernel` unless the matrices are what the stack was promised; the answer is remembered."""
        if not self._gram_checked:
            require_gram(self.matrices)
        self._gram_checked = True

    def __repr__(self) -> str:
        return f"{type(self).__name__}(shape={self.shape}, dtype={self.dtype})"


def _product(matrix: FloatArray, v: Array) -> Array:
    """K v; of a large matrix half is read."""
    if matrix.dtype == np.float64:
        if len(v) < _LARGE:
            return np.asarray(matrix @ v, dtype=np.float64)
        from scipy.linalg.blas import dsymv  # a certificate of a small problem loads NumPy alone

        return np.asarray(dsymv(1.0, matrix.T, v, lower=True))  # rows are columns of the transpose: no copy is made
    n, product = len(v), np.empty(len(v))
    block = np.empty((min(n, max(1, _BLOCK // n)), n))
    for i in range(0, n, len(block)):
        rows = block[: n - i]
        np.copyto(rows, matrix[i : i + len(rows)])
        np.matmul(rows, v, out=product[i : i + len(rows)])
    return product


def stack(kernels: Any, names: Sequence[str] | None = None) -> KernelStack:
    """Check Gram matrices and put them into a stack, without a copy wherever that is possible.

    Parameters
    ----------
    kernels : array (M, n, n), sequence of (n, n) arrays, or KernelStack
        float64 and float32 are kept, integers become float64; other dtypes are refused. A stack is returned
        as it is. Memory maps, read-only, Fortran-ordered and strided arrays work; only strided ones are copied.
    names : sequence of str, optional
        One name for each kernel.

    Returns
    -------
    KernelStack
        An `ArrayStack` that refers to the given arrays.

    Raises
    ------
    InvalidType
        Complex, sparse, masked, object or bool data, or long doubles that do not fit float64.
    InvalidKernel
        Not square, empty, of different orders, not finite, or not symmetric; names kernel and index.
    InvalidInput
        Data frames of other samples, or in another order, by the names of rows and columns.

    Warns
    -----
    AsymmetryWarning
        A matrix is symmetric only up to more than sqrt(n) rounding units; a symmetrised copy is used, as below that.
    """
    if isinstance(kernels, KernelStack):
        if isinstance(kernels, ArrayStack):
            kernels.require_gram()
        return kernels
    labelled = [(f"kernels[{m}]", matrix) for m, matrix in enumerate(_matrices(kernels))]
    if not labelled:
        raise InvalidKernel("kernels is empty; give at least one Gram matrix of shape (n, n).")
    require_one_order({"kernels": kernels})
    require_same_samples({"kernels": kernels})
    arrays = [as_float_array(matrix, label) for label, matrix in labelled]
    orders = {array.shape for array in arrays}
    if len(orders) > 1:
        found = ", ".join(str(shape) for shape in sorted(orders))
        raise InvalidKernel(f"kernels have different shapes: {found}; all must be (n, n) for the same n samples.")
    dtype = np.result_type(*arrays)
    checked = [checked_gram(array.astype(dtype, copy=False), f"kernels[{m}]") for m, array in enumerate(arrays)]
    made = ArrayStack(checked, names)
    made._gram_checked = True
    made.sample_names = namings(kernels)
    return made


def _matrices(kernels: Any) -> Iterable[Any]:
    """The (n, n) members of an (M, n, n) array or of a sequence."""
    if isinstance(kernels, list | tuple):
        return kernels
    array = as_float_array(kernels, "kernels")
    if array.ndim != 3:
        hint = "; wrap a single Gram matrix as kernels=[K]" if array.ndim == 2 else ""
        raise InvalidKernel(f"kernels has shape {array.shape}; expected (M, n, n){hint}.")
    if array.shape[0] == array.shape[1] != array.shape[2]:
        last = "kernels are counted first: np.moveaxis(kernels, -1, 0)"
        raise InvalidKernel(f"kernels has shape {array.shape}; expected (M, n, n): {last}.")
    return list(array)
