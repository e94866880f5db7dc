"""Linear kernels of single variables, which have rank one and need no matrix."""

from __future__ import annotations

from typing import Any

import numpy as np

from mklref._conic.factors import Factors
from mklref._typing import Array
from mklref.kernels import KernelStack


class SingleVariables(KernelStack):
    """k_m(x, z) = x_m z_m: kernels of rank one, of which only the columns z_m (n,) are held."""

    def __init__(self, Z: Array) -> None:
        self.Z = Z

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

    def apply(self, v: Array) -> Array:
        """z_m z_m'v."""
        return np.asarray(self.Z.T * (v @ self.Z)[:, None])

    def rows(self, index: Any) -> Array:
        """z_m[index] z_m'."""
        return np.asarray(self.Z.T[:, index, None] * self.Z.T[:, None, :])

    def dense(self) -> Array:
        """All z_m z_m'."""
        return self.rows(np.arange(len(self.Z)))

    def traces(self) -> Array:
        """||z_m||^2."""
        return np.asarray(np.einsum("im,im->m", self.Z, self.Z))

    def factors(self) -> Factors:
        """The columns themselves."""
        return Factors(tuple(self.Z[:, [m]] for m in range(self.Z.shape[1])))
