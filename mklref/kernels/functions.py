"""Kernel functions on feature vectors, one frozen class each. The Gram functions are scikit-learn's."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mklref._typing import Array
from mklref._validate import as_float_array
from mklref.exceptions import InvalidInput, InvalidParameter
from mklref.kernels.base import Kernel
from mklref.kernels.validation import checked_gram


@dataclass(frozen=True)
class Linear(Kernel):
    """k(x, z) = x'z."""

    definite = True

    def cross(self, X: Array, Z: Array) -> Array:
        """x'z."""
        from sklearn.metrics.pairwise import linear_kernel

        return np.asarray(linear_kernel(X, Z))

    def diagonal(self, X: Array) -> Array:
        """||x||^2."""
        return _squared_norms(X)

    def name(self, variables: Sequence[str]) -> str:
        """linear."""
        return "linear"


@dataclass(frozen=True)
class Polynomial(Kernel):
    """k(x, z) = (x'z + offset)^degree."""

    definite = True

    degree: int
    offset: float = 1.0

    def __post_init__(self) -> None:
        if isinstance(self.degree, bool) or not isinstance(self.degree, int) or self.degree < 1:
            raise InvalidParameter(f"degree = {self.degree!r} must be a positive integer.")
        if not 0.0 <= self.offset < np.inf:
            raise InvalidParameter(
                f"offset = {self.offset!r} must lie in [0, inf): with a negative one the kernel is indefinite."
            )

    def cross(self, X: Array, Z: Array) -> Array:
        """(x'z + offset)^degree."""
        from sklearn.metrics.pairwise import polynomial_kernel

        return np.asarray(polynomial_kernel(X, Z, degree=self.degree, gamma=1.0, coef0=self.offset))

    def diagonal(self, X: Array) -> Array:
        """(||x||^2 + offset)^degree."""
        return (_squared_norms(X) + self.offset) ** self.degree

    def name(self, variables: Sequence[str]) -> str:
        """poly:degree."""
        return f"poly:{self.degree}" + ("" if self.offset == 1.0 else f"(offset {self.offset:g})")


@dataclass(frozen=True)
class Gaussian(Kernel):
    """k(x, z) = exp(-||x - z||^2 / (2 width^2))."""

    definite = True

    width: float

    def __post_init__(self) -> None:
        if not 0.0 < self.width < np.inf:
            raise InvalidParameter(f"width = {self.width!r} must lie in (0, inf): exp(-||x - z||^2 / (2 width^2)).")
        if not 1e-150 <= self.width <= 1e150:
            raise InvalidParameter(
                f"width = {self.width!r} must lie in [1e-150, 1e150], so that its square fits float64."
            )

    def cross(self, X: Array, Z: Array) -> Array:
        """exp(-||x - z||^2 / (2 width^2))."""
        return self.of_squares(squared_distances(X, Z))

    def gram(self, X: Array) -> Array:
        """exp(-||x - z||^2 / (2 width^2)), with exactly unit diagonal."""
        return self.of_squares(squared_distances(X))

    def of_squares(self, squares: Array) -> Array:
        """exp(-squares / (2 width^2)): one matrix of squares does for all widths."""
        K = squares * (-0.5 / self.width**2)
        return np.asarray(np.exp(K, out=K))

    def diagonal(self, X: Array) -> Array:
        """1."""
        return np.ones(len(X))

    def name(self, variables: Sequence[str]) -> str:
        """rbf:width."""
        return f"rbf:{self.width:.6g}"


@dataclass(frozen=True)
class OnVariable(Kernel):
    """A kernel on the j-th variable alone."""

    kernel: Kernel
    variable: int

    @property
    def takes_text(self) -> bool:
        """As the kernel."""
        return self.kernel.takes_text

    @property
    def definite(self) -> bool:
        """As the kernel."""
        return self.kernel.definite

    def cross(self, X: Array, Z: Array) -> Array:
        """k(x_j, z_j)."""
        return self.kernel.cross(self._column(X), self._column(Z))

    def diagonal(self, X: Array) -> Array:
        """k(x_j, x_j)."""
        return self.kernel.diagonal(self._column(X))

    def name(self, variables: Sequence[str]) -> str:
        """The name of the kernel, then that of the variable in brackets."""
        return f"{self.kernel.name(variables)}[{variables[self.variable]}]"

    def group(self, variables: Sequence[str]) -> str:
        """The name of the variable."""
        return variables[self.variable]

    def on_columns(self) -> tuple[Kernel, tuple[int, ...]]:
        """The kernel, and the variable: a kernel within is one of the same variable."""
        return self.kernel.on_columns()[0], (self.variable,)

    def gram(self, X: Array) -> Array:
        """k(x_j, z_j) of all pairs."""
        return self.kernel.gram(self._column(X))

    def _column(self, X: Array) -> Array:
        return X[:, [self.variable]]


@dataclass(frozen=True)
class Function(Kernel):
    """Anybody's k(X, Z) -> (k, n), for instance one of scikit-learn's; with its method `diag(X)` if it has one."""

    function: Callable[[Array, Array], Any]

    def cross(self, X: Array, Z: Array) -> Array:
        """What the function returns, checked."""
        values = as_float_array(self.function(X, Z), self.name(()), InvalidInput)
        if values.shape != (len(X), len(Z)):
            raise InvalidInput(
                f"kernel {self.name(())!r} returned shape {values.shape} for {len(X)} and {len(Z)} samples; it takes "
                f"two matrices, one sample a row, and returns one row for each sample of the first: {len(X), len(Z)}."
            )
        return values.astype(float, copy=False)

    def diagonal(self, X: Array) -> Array:
        """k(x, x), one sample at a time unless the function has a `diag`."""
        if hasattr(self.function, "diag"):
            return np.asarray(self.function.diag(X), dtype=float)
        return super().diagonal(X)

    def gram(self, X: Array) -> Array:
        """k(x, z), refused if it is not symmetric."""
        return np.asarray(checked_gram(self.cross(X, X), f"kernel {self.name(())!r}"))

    def name(self, variables: Sequence[str]) -> str:
        """The name of the function, or how the object prints."""
        return getattr(self.function, "__name__", None) or str(self.function)


def grouped(kernels: Sequence[Kernel], variables: Sequence[str]) -> dict[str, tuple[int, ...]]:
    """The numbers of the kernels of each group, in order of appearance."""
    groups: dict[str, list[int]] = {}
    for m, kernel in enumerate(kernels):
        groups.setdefault(kernel.group(variables), []).append(m)
    return {name: tuple(members) for name, members in groups.items()}


def squared_distances(X: Array, Z: Array | None = None) -> Array:
    """||x - z||^2 for the rows x of X (k, d) and z of Z (n, d), by default X; then exactly symmetric, zero diagonal."""
    from sklearn.metrics.pairwise import euclidean_distances

    if X.shape[1] == 1:
        differences = X - (X if Z is None else Z).T
        return np.square(differences, out=differences)
    origin = (X if Z is None else Z).mean(axis=0)  # ||x||^2 + ||z||^2 - 2 x'z cancels least around the mean
    squares = np.asarray(euclidean_distances(X - origin, None if Z is None else Z - origin, squared=True))
    if Z is None:
        squares += squares.T
        squares *= 0.5
    return squares


def _squared_norms(X: Array) -> Array:
    return np.asarray(np.einsum("ij,ij->i", X, X))
