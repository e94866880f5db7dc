"""Families of kernels on feature vectors and on texts; products, multiples and sums are in `base`.

A family is a frozen value without data. `family.fit(X)` is a stack for `Problem`, which remembers X and the
statistics of its normalisation: `stack.new(X_new)` are the matching kernels of new samples. The width sigma is
SimpleMKL's; scikit-learn's gamma is 1/(2 sigma^2). Texts are a list of strings, or an array of them of one column.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, overload

import numpy as np

from mklref._typing import Array
from mklref._validate import as_array, checked_flag, checked_integer, require_unmasked, several, shown
from mklref.exceptions import InvalidInput, InvalidParameter
from mklref.kernels.base import Kernel, KernelFamily, Union
from mklref.kernels.columns import per_variable
from mklref.kernels.fitted import FamilyStack
from mklref.kernels.functions import Function, Gaussian, Laplacian, Linear, Matching, Polynomial


def linear() -> KernelFamily:
    """The linear kernel x'z."""
    return Linear()


def matching() -> KernelFamily:
    """The share of variables in which two samples are equal, for categories that are coded as numbers."""
    return Matching()


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


def gaussian(widths: float | Sequence[float] | Array) -> KernelFamily:
    """Gaussian kernels exp(-||x - z||^2 / (2 sigma^2)), one for each width sigma.

    Raises
    ------
    InvalidType, InvalidParameter
        A width that is no number in [1e-150, 1e150].
    """
    return on_all_variables([Gaussian(width) for width in _listed(widths)], "widths")


def laplacian(widths: float | Sequence[float] | Array) -> KernelFamily:
    """Laplacian kernels exp(-sum_j |x_j - z_j| / width), one for each width.

    Raises
    ------
    InvalidType, InvalidParameter
        A width that is no number in [1e-300, 1e300].
    """
    return on_all_variables([Laplacian(width) for width in _listed(widths)], "widths")


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
