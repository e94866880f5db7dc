"""Linear kernels of single variables, which have rank one and need no matrix."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from mklref._conic.scaling import Factors
from mklref._typing import Array
from mklref.kernels import FactorStack, KernelStack
from mklref.kernels.reader import Reader


class SingleVariables(KernelStack):
    """k_m(x, z) = x_m z_m: kernels of rank one, of which only the columns z_m (n,) are held."""

    costly = True
    """Solvers form sums of kernels on samples, and no kernel by itself."""

    def __init__(self, Z: Array) -> None:
        self.Z = np.ascontiguousarray(Z)

    @property
    def shape(self) -> tuple[int, int, int]:
        """(M, n, n)."""
        return self.Z.shape[1], len(self.Z), len(self.Z)

    @property
    def dtype(self) -> np.dtype[Any]:
        """float64."""
        return self.Z.dtype

    def combine(self, weights: Array) -> Array:
        """Z diag(weights) Z'."""
        return np.asarray((self.Z * weights) @ self.Z.T)

    def combine_rows(self, weights: Array, rows: Any) -> Array:
        """Z[rows] diag(weights) Z'."""
        return np.asarray((self.Z[rows] * weights) @ self.Z.T)

    def apply(self, v: Array, kernels: Any = None) -> Array:
        """z_m z_m'v."""
        Z = self.Z if kernels is None else self.Z[:, kernels]
        return np.asarray(Z.T * (v @ Z)[:, None])

    def block(self, rows: Any, columns: Any = None, kernels: Any = None) -> Array:
        """z_m[rows] z_m[columns]'."""
        Z = self.Z if kernels is None else self.Z[:, kernels]
        left, right = (Z if index is None else Z[index] for index in (rows, columns))
        return np.asarray(left.T[:, :, None] * right.T[:, None, :])

    def dense(self) -> Array:
        """All z_m z_m'."""
        return np.ascontiguousarray(self.block(None))

    @property
    def own_diagonals(self) -> Array:
        """z_m^2."""
        return np.ascontiguousarray(self.Z.T**2)

    def traces(self) -> Array:
        """||z_m||^2."""
        return np.asarray(np.einsum("im,im->m", self.Z, self.Z))

    @cached_property
    def reader(self) -> Reader:
        """Sums of kernels by one product."""
        return _Products(self)

    def factors(self) -> Factors:
        """The columns themselves."""
        return Factors(tuple(self.Z[:, [m]] for m in range(self.Z.shape[1])))

    def factor_stack(self) -> FactorStack:
        """The columns for the solver that works with factors."""
        return FactorStack([self.Z[:, m : m + 1] for m in range(self.Z.shape[1])])


class _Products(Reader):
    """Reads sums of kernels of rank one without reading any of them."""

    stack: SingleVariables

    def square(self, weights: Array, index: Any) -> Array:
        """Z[index] diag(weights) Z[index]'."""
        root = self.stack.Z[index] * np.sqrt(weights)
        return np.asarray(root @ root.T)
