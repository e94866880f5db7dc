"""Sparse samples, for kernels of the products x'z: linear and polynomial ones, and what is composed of them.

The products are those of sparse matrices; they and the kernels are dense, as the training matrices are.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mklref._typing import Array, FloatArray
from mklref.exceptions import InvalidInput
from mklref.kernels.base import Composite, Kernel
from mklref.kernels.fitted import Training


def is_sparse(X: Any) -> bool:
    """Whether X is a sparse matrix or array of SciPy."""
    return hasattr(X, "tocsr")


def of_products(kernels: Sequence[Kernel]) -> bool:
    """Whether all kernels are functions of the products of whole samples."""
    return all(
        of_products(kernel.kernels) if isinstance(kernel, Composite) else kernel.shares == "products"
        and kernel.on_columns()[1] is None
        for kernel in kernels
    )  # fmt: skip


def rows_as_bytes(X: Any) -> Any:
    """Each row by its entries, for comparing them: equal rows are equal, and the order is one of bytes."""
    csr = X.tocsr(copy=True)
    csr.eliminate_zeros()
    csr.sort_indices()
    bounds = zip(csr.indptr[:-1], csr.indptr[1:], strict=True)
    texts = [csr.indices[a:b].astype(np.int64).tobytes() + csr.data[a:b].tobytes() for a, b in bounds]
    return np.array([*texts, None], dtype=object)[:-1]


@dataclass(frozen=True)
class SparseFamily(Training):
    """What `FittedFamily` is for dense samples; these are in CSR format."""

    def grams(self) -> Iterator[FloatArray]:
        """The training matrices as they are before normalisation, (n, n) each."""
        products = _dense(self.samples @ self.samples.T)
        products = 0.5 * (products + products.T)
        return (_values(kernel, products) for kernel in self.kernels)

    def rows(self, X_new: Any, which: Iterable[int]) -> Iterator[FloatArray]:
        """The chosen kernels of new samples with the training samples, (k, n) each."""
        products = _dense(X_new @ self.samples.T)
        norms = np.asarray(X_new.multiply(X_new).sum(axis=1), dtype=np.float64).reshape(-1, 1)
        for m in which:
            values = _values(self.kernels[m], products)
            yield self.transforms[m].new(values, _values(self.kernels[m], norms)[:, 0])


def _dense(products: Any) -> Array:
    return np.asarray(products.toarray() if is_sparse(products) else products, dtype=np.float64)


def _values(kernel: Kernel, products: Array) -> Any:
    if isinstance(kernel, Composite):
        return np.asarray(kernel.compose([_values(part, products) for part in kernel.kernels]))
    values = np.asarray(kernel.of_shared(products))
    if not np.isfinite(values).all():
        raise InvalidInput(f"kernel {kernel.name(())!r} overflows float64 on these samples; scale the variables first.")
    return values
