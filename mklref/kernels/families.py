"""Families of kernels on feature vectors, and the stack of Gram matrices that a family gives on data.

    linear()                  x'z
    polynomial(d)             (x'z + 1)^d                              several degrees are several kernels
    gaussian(sigma)           exp(-||x - z||^2 / (2 sigma^2))          several widths are several kernels
    laplacian(w)              exp(-sum_j |x_j - z_j| / w)              the same
    function(kernel)          anybody's k(X, Z)
    per_variable(family)      the family on each single variable
    family + family           one after the other; products, multiples and sums are in `base`

A family is a frozen value without data. `family.fit(X)` is a stack for `Problem`, which remembers X and the
statistics of its normalisation: `stack.new(X_new)` are the matching kernels of new samples. The width sigma is
SimpleMKL's; scikit-learn's gamma is 1/(2 sigma^2).
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mklref._typing import Array
from mklref.exceptions import InvalidParameter
from mklref.kernels.base import Kernel, KernelFamily, Union, require_few
from mklref.kernels.functions import Function, Gaussian, Laplacian, Linear, Matching, OnVariable, Polynomial


@dataclass(frozen=True)
class PerVariable(KernelFamily):
    """A family on each single variable: all its kernels on the first, then all on the second, and so on."""

    family: KernelFamily

    def expand(self, variables: Sequence[str]) -> tuple[Kernel, ...]:
        """d times the kernels of the family."""
        require_few(len(self.family.expand(variables[:1])) * len(variables))
        columns = enumerate(variables)
        return tuple(OnVariable(kernel, j) for j, name in columns for kernel in self.family.expand([name]))


def linear() -> KernelFamily:
    """The linear kernel x'z."""
    return Linear()


def matching() -> KernelFamily:
    """The share of variables in which two samples are equal, for categories that are coded as numbers."""
    return Matching()


def polynomial(degrees: int | Sequence[int], offset: float = 1.0) -> KernelFamily:
    """Polynomial kernels (x'z + offset)^degree, one for each degree.

    Raises
    ------
    InvalidParameter
        A degree that is not a positive integer, or an offset outside [0, inf).
    """
    return on_all_variables(
        [Polynomial(_integer(degree), float(offset)) for degree in np.atleast_1d(degrees)], "degrees"
    )


def gaussian(widths: float | Sequence[float] | Array) -> KernelFamily:
    """Gaussian kernels exp(-||x - z||^2 / (2 sigma^2)), one for each width sigma.

    Raises
    ------
    InvalidParameter
        A width outside (0, inf).
    """
    return on_all_variables([Gaussian(width) for width in _widths(widths)], "widths")


def laplacian(widths: float | Sequence[float] | Array) -> KernelFamily:
    """Laplacian kernels exp(-sum_j |x_j - z_j| / width), one for each width.

    Raises
    ------
    InvalidParameter
        A width outside (0, inf).
    """
    return on_all_variables([Laplacian(width) for width in _widths(widths)], "widths")


def function(kernel: Callable[[Array, Array], Any]) -> KernelFamily:
    """Anybody's kernel: a function of two matrices (k, d) and (n, d) that returns k(x, z), (k, n).

    Objects of `sklearn.gaussian_process.kernels` and the functions of `sklearn.metrics.pairwise` are such functions.

    Raises
    ------
    InvalidParameter
        Something that cannot be called.
    """
    if not callable(kernel):
        raise InvalidParameter(f"{kernel!r} is no kernel; give a function k(X, Z) that returns one row a sample of X.")
    return Function(kernel)


def per_variable(family: KernelFamily) -> KernelFamily:
    """The kernels of a family on each single variable: d times as many.

    Raises
    ------
    InvalidParameter
        Something that is not a family.
    """
    if not isinstance(family, KernelFamily):
        raise InvalidParameter(
            f"per_variable takes a family of kernels, for instance per_variable(gaussian(1.0)), not {family!r}."
        )
    return PerVariable(family)


def on_all_variables(kernels: Sequence[Kernel], argument: str) -> KernelFamily:
    """The kernels as a family; `argument` is what was empty if there are none."""
    if not kernels:
        raise InvalidParameter(f"{argument} is empty; give at least one.")
    return kernels[0] if len(kernels) == 1 else Union(tuple(kernels))


def _widths(widths: Any) -> list[float]:
    try:
        return [float(width) for width in np.atleast_1d(np.asarray(widths, dtype=float))]
    except (TypeError, ValueError):
        raise InvalidParameter(f"widths = {widths!r} must be numbers in (0, inf).") from None


def _integer(degree: Any) -> int:
    try:
        return operator.index(degree)
    except TypeError:
        raise InvalidParameter(f"degree = {degree!r} must be a positive integer.") from None
