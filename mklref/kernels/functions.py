"""Kernel functions on feature vectors, one frozen class each."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mklref._typing import Array, FloatArray
from mklref._validate import check_field
from mklref.exceptions import InvalidInput
from mklref.kernels.base import BlockKernel, Kernel
from mklref.kernels.evaluation import EXP_ERROR
from mklref.kernels.validation import checked_gram


@dataclass(frozen=True)
class Linear(BlockKernel):
    """k(x, z) = x'z."""

    _label = "linear"
    definite = True
    shares = "products"

    def of_shared(self, values: FloatArray) -> FloatArray:
        return values.copy()

    def entry_error(self, X: Array) -> float:
        """gamma_d, since |x|'|z| <= ||x|| ||z||."""
        return _gamma(X.shape[1])


@dataclass(frozen=True)
class Matching(Kernel):
    """k(x, z) = the share of the variables in which x and z are equal, for categories that are coded as numbers.

    Each term is the inner product of two unit vectors, one for each category.
    """

    _label = "matching"
    definite = True

    def cross(self, X: Array, Z: Array) -> Array:
        """mean_j [x_j = z_j]."""
        equal = np.zeros((len(X), len(Z)))
        for x, z in zip(X.T, Z.T, strict=True):
            equal += x[:, None] == z
        return np.asarray(equal / X.shape[1])

    def diagonal(self, X: Array) -> Array:
        return np.ones(len(X))


@dataclass(frozen=True)
class Polynomial(BlockKernel):
    """k(x, z) = (x'z + offset)^degree."""

    definite = True
    shares = "products"

    degree: int
    offset: float = 1.0

    def __post_init__(self) -> None:
        check_field(self, "offset", "[0, inf)", "with a negative one the kernel is indefinite.")

    def of_shared(self, values: FloatArray) -> FloatArray:
        base = values + values.dtype.type(self.offset)
        return np.asarray(base if self.degree == 1 else base**self.degree)

    def entry_error(self, X: Array) -> float:
        """Of d + 1 roundings in the base, at most (||x||^2 + offset)^{1/2} (||z||^2 + offset)^{1/2}, and the power."""
        return _gamma((X.shape[1] + 3) * self.degree + 4)

    def name(self, variables: Sequence[str]) -> str:
        return f"poly:{self.degree}" + ("" if self.offset == 1.0 else f"(offset {self.offset:g})")


@dataclass(frozen=True)
class Gaussian(BlockKernel):
    """k(x, z) = exp(-||x - z||^2 / (2 width^2))."""

    _label = "rbf:{0.width:.6g}"
    definite = True
    shares = "squares"

    width: float

    def __post_init__(self) -> None:
        check_field(self, "width", "[1e-150, 1e150]", "exp(-||x - z||^2 / (2 width^2)).")

    @property
    def rate(self) -> float:
        return -0.5 / self.width**2

    def entry_error(self, X: Array) -> float:
        """Of exp, of its argument, and of the distances.

        Around the mean a sample has a norm of at most R, up to a relative rounding; a distance of at most 4 R^2 is
        wrong by gamma_{d+6} of that, and e^-t by at most the absolute error of t.
        """
        around = X - X.mean(axis=0)
        largest = 4.0 * float(np.einsum("ij,ij->i", around, around).max(initial=0.0)) * (1.0 + 1e-6)
        wrong = largest * _gamma(X.shape[1] + 6) * -self.rate
        return (math.expm1(wrong) + (EXP_ERROR + 4.0) * 2.0**-52 if wrong < 1.0 else math.inf) * (1.0 + 1e-6)


@dataclass(frozen=True)
class Laplacian(BlockKernel):
    """k(x, z) = exp(-sum_j |x_j - z_j| / width)."""

    _label = "laplacian:{0.width:.6g}"
    definite = True
    shares = "distances"

    width: float

    def __post_init__(self) -> None:
        check_field(self, "width", "[1e-300, 1e300]", "exp(-|x - z| / width).")

    @property
    def rate(self) -> float:
        return -1.0 / self.width

    def entry_error(self, X: Array) -> float:
        """Of exp, of its argument t, which is wrong by gamma_{d+4} t, where t e^-t <= 0.4."""
        return 0.4 * _gamma(X.shape[1] + 4) + (EXP_ERROR + 2.0) * 2.0**-52


@dataclass(frozen=True)
class Function(Kernel):
    """Anybody's k(X, Z) -> (k, n), for instance one of scikit-learn's; with its method `diag(X)` if it has one."""

    function: Callable[[Array, Array], Any]

    def cross(self, X: Array, Z: Array) -> Array:
        """What the function returns, which `checked_cross` converts."""
        try:
            values: Any = self.function(X, Z)
        except (TypeError, ValueError) as error:  # most often a function of two vectors
            raise InvalidInput(
                f"kernel {self.name(())!r} failed on matrices {X.shape} and {Z.shape}, {error}; it takes two "
                "matrices, one sample a row, and returns one row for each sample of the first."
            ) from error
        return values  # type: ignore[no-any-return]

    def diagonal(self, X: Array) -> Array:
        """k(x, x), one sample at a time unless the function has a `diag`."""
        if hasattr(self.function, "diag"):
            return np.asarray(self.function.diag(X), dtype=float)
        return super().diagonal(X)

    def gram(self, X: Array) -> Array:
        """k(x, z), refused if it is not symmetric."""
        return np.asarray(checked_gram(self.checked_cross(X, X), f"kernel {self.name(())!r}"))

    def name(self, variables: Sequence[str]) -> str:
        """The name of the function, or how the object prints."""
        return getattr(self.function, "__name__", None) or str(self.function)


def grouped(kernels: Sequence[Kernel], variables: Sequence[str]) -> dict[str, tuple[int, ...]]:
    """The numbers of the kernels of each group, in order of appearance."""
    groups: dict[str, list[int]] = {}
    for m, kernel in enumerate(kernels):
        groups.setdefault(kernel.group(variables), []).append(m)
    return {name: tuple(members) for name, members in groups.items()}


def _gamma(k: int) -> float:
    """k u/(1 - k u) for u = 2^-52, rounded up: k roundings on each path, in every rounding mode."""
    return k * 2.0**-52 / (1.0 - k * 2.0**-52) * (1.0 + 1e-9)
