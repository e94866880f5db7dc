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
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mklref._typing import Array, FloatArray
from mklref.exceptions import InvalidInput, InvalidParameter
from mklref.kernels.functions import Function, Gaussian, Kernel, Linear, OnVariable, Polynomial
from mklref.kernels.stack import ArrayStack
from mklref.kernels.transforms import Normalization, Transform, checked_method
from mklref.kernels.validation import as_float_array, require_finite


@dataclass(frozen=True)
class KernelFamily(ABC):
    """An ordered family of kernels; how many depends on the number d of variables."""

    @abstractmethod
    def expand(self, d: int) -> tuple[Kernel, ...]:
        """The kernels of the family on samples with d variables, in order."""

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

    def expand(self, d: int) -> tuple[Kernel, ...]:
        """The kernels themselves."""
        return self.kernels


@dataclass(frozen=True)
class PerVariable(KernelFamily):
    """A family on each single variable: all its kernels on the first, then all on the second, and so on."""

    family: KernelFamily

    def expand(self, d: int) -> tuple[Kernel, ...]:
        """d times the kernels of the family."""
        return tuple(OnVariable(kernel, j) for j in range(d) for kernel in self.family.expand(1))


@dataclass(frozen=True)
class Union(KernelFamily):
    """Families one after the other."""

    parts: tuple[KernelFamily, ...]

    def expand(self, d: int) -> tuple[Kernel, ...]:
        """The kernels of all parts in order."""
        return tuple(kernel for part in self.parts for kernel in part.expand(d))


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
    return _on_all_variables(
        [Polynomial(_integer(degree), float(offset)) for degree in np.atleast_1d(degrees)], "degrees"
    )


def gaussian(widths: float | Sequence[float] | Array) -> KernelFamily:
    """Gaussian kernels exp(-||x - z||^2 / (2 sigma^2)), one for each width sigma.

    Raises
    ------
    InvalidParameter
        A width outside (0, inf).
    """
    return _on_all_variables([Gaussian(float(width)) for width in np.atleast_1d(widths)], "widths")


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


def _on_all_variables(kernels: Sequence[Kernel], argument: str) -> KernelFamily:
    if not kernels:
        raise InvalidParameter(f"{argument} is empty; give at least one.")
    return OnAllVariables(tuple(kernels))


def _integer(degree: Any) -> int:
    try:
        return operator.index(degree)
    except TypeError:
        raise InvalidParameter(f"degree = {degree!r} must be a positive integer.") from None


class FamilyStack(ArrayStack):
    """The Gram matrices of a family on training samples, able to give those of new samples; see `KernelFamily.fit`."""

    def __init__(self, family: KernelFamily, X: Any, normalize: Normalization | None, center: bool) -> None:
        samples = _checked_samples(X, "X")
        n, d = samples.shape
        if n < 2:
            raise InvalidInput(f"X has shape {samples.shape}; give at least two samples, one a row.")
        if normalize is not None:
            checked_method(normalize)
        variables = [str(column) for column in getattr(X, "columns", (f"x{j}" for j in range(d)))]
        kernels = family.expand(d)
        names = [kernel.name(variables) for kernel in kernels]
        grams = np.empty((len(names), n, n))
        transforms: list[Transform] = []
        for name, kernel, out in zip(names, kernels, grams, strict=True):
            with np.errstate(over="ignore"):
                gram = kernel.gram(samples)
            _require_no_overflow(gram, name)
            transforms.append(Transform.fit(gram, f"kernel {name!r}", normalize, center))
            out[:] = transforms[-1].train(gram)
        self.fitted = FittedFamily(samples, kernels, tuple(transforms), tuple(names))
        super().__init__(list(grams), names)

    def new(self, X_new: Any) -> Array:
        """Kernels of new samples with the training samples, transformed with the training statistics.

        Parameters
        ----------
        X_new : array (k, d)
            One new sample a row, with the variables of the training samples in the same order.

        Returns
        -------
        array (M, k, n)
            What `Solution.decision_function` takes.

        Raises
        ------
        InvalidInput
            X_new is not a finite matrix with d columns, or a kernel overflows on it.
        """
        return np.stack(list(self.fitted.rows(X_new, range(len(self)))))

    def diagonals(self, X_new: Any) -> Array:
        """k_m(x, x) of new samples, transformed as `new` is.

        Parameters
        ----------
        X_new : array (k, d)

        Returns
        -------
        array (M, k)
            What `EvidenceSolution.posterior` takes.

        Raises
        ------
        InvalidInput
            As `new`.
        """
        return np.stack(list(self.fitted.diagonals(X_new)))


@dataclass(frozen=True)
class FittedFamily:
    """What the kernels of new samples depend on: all of a `FamilyStack` but its matrices."""

    samples: Array
    """The training samples, (n, d)."""
    kernels: tuple[Kernel, ...]
    transforms: tuple[Transform, ...]
    names: tuple[str, ...]

    def rows(self, X_new: Any, which: Iterable[int]) -> Iterator[FloatArray]:
        """The chosen kernels of new samples with the training samples, (k, n) each; see `FamilyStack.new`."""
        samples = self._checked_new(X_new)
        for m in which:
            yield self.transforms[m].new(self._cross(samples, m), self.kernels[m].diagonal(samples))

    def diagonals(self, X_new: Any) -> Iterator[Array]:
        """Each k_m(x, x) of new samples, (k,); see `FamilyStack.diagonals`."""
        samples = self._checked_new(X_new)
        for m, (kernel, transform) in enumerate(zip(self.kernels, self.transforms, strict=True)):
            yield transform.own(self._cross(samples, m), kernel.diagonal(samples))

    def _cross(self, samples: Array, m: int) -> Array:
        """k_m between new and training samples, (k, n), as it was before normalisation."""
        with np.errstate(over="ignore"):
            cross = self.kernels[m].cross(samples, self.samples)
        _require_no_overflow(cross, self.names[m])
        return cross

    def _checked_new(self, X_new: Any) -> Array:
        samples = _checked_samples(X_new, "X_new")
        d = self.samples.shape[1]
        if samples.shape[1] != d:
            raise InvalidInput(f"X_new has {samples.shape[1]} variables, the training samples have {d}.")
        return samples


def _checked_samples(X: Any, label: str) -> Array:
    samples = as_float_array(X, label, InvalidInput)
    if samples.ndim != 2 or not samples.size:
        raise InvalidInput(f"{label} has shape {samples.shape}; expected a matrix, one sample a row: (n, d).")
    require_finite(samples, label, InvalidInput)
    return samples.astype(np.float64, copy=False)


def _require_no_overflow(gram: Array, name: str) -> None:
    if not np.isfinite(gram).all():
        raise InvalidInput(f"kernel {name!r} overflows float64 on these samples; standardise the variables first.")
