"""All K_m v of a stack of factors, without an array (M, n)."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import numpy as np

from mklref._typing import Array

if TYPE_CHECKING:
    from mklref.kernels.factor_stack import FactorStack


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
