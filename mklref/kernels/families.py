"""Families of kernels on feature vectors, and the stack of Gram matrices that a family gives on data.

    linear()                  x'z
    polynomial(d)             (x'z + 1)^d                              several degrees are several kernels
    gaussian(sigma)           exp(-||x - z||^2 / (2 sigma^2))          several widths are several kernels
    function(kernel)          anybody's k(X, Z)
    per_variable(family)      the family on each single variable
    family + family           one after the other

A family is a frozen value without data. `family.fit(X)` is a stack for `Problem`, which remembers X and the
statistics of its normalisation: `stack.new(X_new)` are the matching kernels of new samples. The width sigma is
SimpleMKL's; scikit-learn's gamma is 1/(2 sigma^2).
"""

from __future__ import annotations

import operator
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mklref._typing import Array
from mklref.exceptions import InvalidParameter
from mklref.kernels.fitted import FamilyStack
from mklref.kernels.functions import Function, Gaussian, Kernel, Linear, OnVariable, Polynomial
from mklref.kernels.transforms import Normalization


@dataclass(frozen=True)
class KernelFamily(ABC):
    """An ordered family of kernels; how many depends on the variables."""

    @abstractmethod
    def expand(self, variables: Sequence[str]) -> tuple[Kernel, ...]:
        """The kernels of the family on samples with variables of these names, in order."""

    def fit(self, X: Any, *, normalize: Normalization | None = None, center: bool = False) -> FamilyStack:
        """Gram matrices of training samples.

        Parameters
        ----------
        X : array (n, d)
            One sample a row. A data frame's column names go into the names of kernels on single variables.
        normalize : {"trace", "multiplicative", "spherical"}, optional
            See `mklref.kernels.normalize`.
        center : bool
            Whether to centre in feature space first; see `mklref.kernels.center`.

        Returns
        -------
        FamilyStack
            M float64 matrices in one array, with names, and with `new(X_new)` for new samples.

        Raises
        ------
        InvalidInput
            X is not a finite matrix with two rows and one column at least, or a kernel overflows on it.
        InvalidKernel
            A kernel that cannot be normalised; the message names it.
        InvalidParameter
            An unknown normalisation.
        """
        return FamilyStack(self, X, normalize, center)

    def __add__(self, other: KernelFamily) -> KernelFamily:
        return Union((*_parts(self), *_parts(other)))


@dataclass(frozen=True)
class OnAllVariables(KernelFamily):
    """The given kernels, each on all variables."""

    kernels: tuple[Kernel, ...]

    def expand(self, variables: Sequence[str]) -> tuple[Kernel, ...]:
        """The kernels themselves."""
        return self.kernels


@dataclass(frozen=True)
class PerVariable(KernelFamily):
    """A family on each single variable: all its kernels on the first, then all on the second, and so on."""

    family: KernelFamily

    def expand(self, variables: Sequence[str]) -> tuple[Kernel, ...]:
        """d times the kernels of the family."""
        columns = enumerate(variables)
        return tuple(OnVariable(kernel, j) for j, name in columns for kernel in self.family.expand([name]))


@dataclass(frozen=True)
class Union(KernelFamily):
    """Families one after the other."""

    parts: tuple[KernelFamily, ...]

    def expand(self, variables: Sequence[str]) -> tuple[Kernel, ...]:
        """The kernels of all parts in order."""
        return tuple(kernel for part in self.parts for kernel in part.expand(variables))


def _parts(family: KernelFamily) -> tuple[KernelFamily, ...]:
    return family.parts if isinstance(family, Union) else (family,)


def linear() -> KernelFamily:
    """The linear kernel x'z."""
    return OnAllVariables((Linear(),))


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
    try:
        given = np.atleast_1d(np.asarray(widths, dtype=float))
    except (TypeError, ValueError):
        raise InvalidParameter(f"widths = {widths!r} must be numbers in (0, inf).") from None
    return on_all_variables([Gaussian(float(width)) for width in given], "widths")


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
    return OnAllVariables((Function(kernel),))


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
    return OnAllVariables(tuple(kernels))


def _integer(degree: Any) -> int:
    try:
        return operator.index(degree)
    except TypeError:
        raise InvalidParameter(f"degree = {degree!r} must be a positive integer.") from None
