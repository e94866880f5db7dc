"""Families of kernels on feature vectors and on texts; products, multiples and sums are in `base`.

A family is a frozen value without data. `family.fit(X)` is a stack for `Problem`, which remembers X and the
statistics of its normalisation: `stack.new(X_new)` are the matching kernels of new samples. The width sigma is
SimpleMKL's; scikit-learn's gamma is 1/(2 sigma^2). Texts are a list of strings, or an array of them of one column.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, overload

import numpy as np

from mklref._typing import Array, FloatArray
from mklref._validate import as_array, check_field, checked_flag, checked_integer, require_unmasked, several, shown
from mklref.exceptions import InvalidInput, InvalidParameter
from mklref.kernels.base import BlockKernel, Kernel, KernelFamily, Union
from mklref.kernels.columns import per_variable
from mklref.kernels.evaluation import EXP_ERROR
from mklref.kernels.fitted import FamilyStack
from mklref.kernels.validation import checked_gram


def linear() -> KernelFamily:
    """The linear kernel x'z."""
    return Linear()


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


def matching() -> KernelFamily:
    """The share of variables in which two samples are equal, for categories that are coded as numbers."""
    return Matching()


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


_HIGHEST = 10**6
"""Degree."""


def polynomial(degrees: int | Sequence[int], offset: float = 1.0) -> KernelFamily:
    """Polynomial kernels (x'z + offset)^degree, one for each degree.

    Raises
    ------
    InvalidType, InvalidParameter
        A degree that is not a positive integer, or an offset that is no number in [0, inf).
    """
    given = [
        checked_integer(degree, 1, _HIGHEST, f"degree = {shown(degree)} must be a positive integer, up to {_HIGHEST}.")
        for degree in _listed(degrees)
    ]
    return on_all_variables([Polynomial(degree, offset) for degree in given], "degrees")


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


def gaussian(widths: float | Sequence[float] | Array) -> KernelFamily:
    """Gaussian kernels exp(-||x - z||^2 / (2 sigma^2)), one for each width sigma.

    Raises
    ------
    InvalidType, InvalidParameter
        A width that is no number in [1e-150, 1e150].
    """
    return on_all_variables([Gaussian(width) for width in _listed(widths)], "widths")


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


def laplacian(widths: float | Sequence[float] | Array) -> KernelFamily:
    """Laplacian kernels exp(-sum_j |x_j - z_j| / width), one for each width.

    Raises
    ------
    InvalidType, InvalidParameter
        A width that is no number in [1e-300, 1e300].
    """
    return on_all_variables([Laplacian(width) for width in _listed(widths)], "widths")


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


def function(kernel: Callable[[Array, Array], Any]) -> KernelFamily:
    """Anybody's kernel: a function of two matrices (k, d) and (n, d) that returns k(x, z), (k, n).

    Objects of `sklearn.gaussian_process.kernels` and the functions of `sklearn.metrics.pairwise` are such functions.

    Raises
    ------
    InvalidParameter
        Something that cannot be called.
    """
    if not callable(kernel):
        raise InvalidParameter(f"{shown(kernel)} is no kernel; give a function k(X, Z) of one row a sample of X.")
    return Function(kernel)


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


def _gamma(k: int) -> float:
    """k u/(1 - k u) for u = 2^-52, rounded up: k roundings on each path, in every rounding mode."""
    return k * 2.0**-52 / (1.0 - k * 2.0**-52) * (1.0 + 1e-9)


def on_all_variables(kernels: Sequence[Kernel], argument: str) -> KernelFamily:
    """The kernels as a family; `argument` is what was empty if there are none."""
    if not kernels:
        raise InvalidParameter(f"{argument} is empty; give at least one.")
    return kernels[0] if len(kernels) == 1 else Union(tuple(kernels))


def _listed(values: Any) -> list[Any]:
    """The members of a sequence or an array, or one number by itself."""
    require_unmasked(values=values)
    listed = as_array(values, "values").tolist() if hasattr(type(values), "__array__") else values
    given = listed if several(listed) else [listed]
    return [as_array(value, "value").tolist() if getattr(value, "shape", None) == () else value for value in given]


_LONGEST = 12


def spectrum(lengths: int | Iterable[int]) -> KernelFamily:
    """Spectrum kernels (Leslie, Eskin and Noble 2002), without mismatches, one for each length of words.

    Parameters
    ----------
    lengths : int or iterable of int
        From 1 to 12.

    Raises
    ------
    InvalidType, InvalidParameter
        Another length.
    """
    given = _listed(lengths)
    says = f"of words must be an integer in [1, {_LONGEST}]."
    checked = [checked_integer(length, 1, _LONGEST, f"length {shown(length)} {says}") for length in given]
    return on_all_variables([Spectrum(length) for length in checked], "lengths")


@dataclass(frozen=True)
class Spectrum(Kernel):
    """k(x, z) = sum_w count_w(x) count_w(z) over the words w of one length; each position begins a word."""

    length: int

    _label = "spectrum:{0.length}"
    takes_text = definite = True

    def cross(self, X: Array, Z: Array) -> Array:
        """Inner products of the counts of words that both sides have."""
        counts = self._counts([*_texts(X), *_texts(Z)])
        return np.asarray((counts[: len(X)] @ counts[len(X) :].T).toarray(), dtype=float)

    def gram(self, X: Array) -> Array:
        counts = self._counts(_texts(X))
        return np.asarray((counts @ counts.T).toarray(), dtype=float)

    def diagonal(self, X: Array) -> Array:
        counts = self._counts(_texts(X))
        return np.asarray(counts.multiply(counts).sum(axis=1), dtype=float).ravel()

    def _counts(self, texts: list[str]) -> Any:
        """How often each word is in each text, sparse (k, number of words)."""
        from scipy.sparse import csr_array

        columns: dict[str, int] = {}
        rows, found = [], []
        for i, text in enumerate(texts):
            for start in range(len(text) - self.length + 1):
                rows.append(i)
                found.append(columns.setdefault(text[start : start + self.length], len(columns)))
        # Entries of one place are added up.
        return csr_array((np.ones(len(rows)), (rows, found)), shape=(len(texts), max(len(columns), 1)))


def _texts(X: Array) -> list[str]:
    if X.shape[1] != 1:
        raise InvalidInput(
            f"spectrum kernels take one column of text, X has {X.shape[1]}: write on(NAME, COLUMN, ...)."
        )
    return [str(text) for text in X[:, 0]]


SIMPLEMKL_WIDTHS = (0.5, 1.0, 2.0, 5.0, 7.0, 10.0, 12.0, 15.0, 17.0, 20.0)
"""Ten Gaussian widths, SimpleMKL 5.3; 5.1 says ten without printing them."""

SIMPLEMKL_DEGREES = (1, 2, 3)


def simplemkl_family(*, single_variables: bool = False) -> KernelFamily:
    """Gaussians of ten widths and polynomials of degree 1 to 3, on all variables, and on each one if asked for."""
    checked_flag("single_variables", single_variables)
    family = gaussian(SIMPLEMKL_WIDTHS) + polynomial(SIMPLEMKL_DEGREES)
    return family + per_variable(family) if single_variables else family


@overload
def simplemkl_recipe(X: Any, X_new: None = None, *, single_variables: bool = True) -> FamilyStack: ...
@overload
def simplemkl_recipe(X: Any, X_new: Any, *, single_variables: bool = True) -> tuple[FamilyStack, Array]: ...
def simplemkl_recipe(
    X: Any, X_new: Any = None, *, single_variables: bool = True
) -> FamilyStack | tuple[FamilyStack, Array]:
    """The 13 (d + 1) kernels of SimpleMKL 5.1, each of unit trace.

        exp(-||x - z||^2 / (2 sigma^2)),  sigma = 0.5, 1, 2, 5, 7, 10, 12, 15, 17, 20
        (x'z + 1)^degree,                 degree = 1, 2, 3

    on all d variables, then on the first, the second, ... variable alone.

    Parameters
    ----------
    X : array (n, d)
        Training samples. The paper standardises each variable to mean 0 and variance 1; this function does not.
    X_new : array (k, d), optional
        New samples, standardised with the mean and variance of the training samples.
    single_variables : bool
        False leaves the 13 kernels on all variables.

    Returns
    -------
    FamilyStack
        The training kernels (M, n, n), with names and `new(X_new)`. With X_new the pair of them and the array
        (M, k, n) of new samples, scaled with the traces of the training kernels.

    Raises
    ------
    InvalidType, InvalidInput
        X or X_new is not a finite matrix, or they differ in their number of columns.
    """
    train = simplemkl_family(single_variables=single_variables).fit(X, normalize="trace")
    return train if X_new is None else (train, train.new(X_new))
