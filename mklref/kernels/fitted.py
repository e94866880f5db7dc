"""The stack of Gram matrices that a family of kernels gives on data, and what it keeps for new samples."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from mklref._typing import Array, FloatArray
from mklref._validate import as_float_array, require_finite
from mklref.exceptions import InvalidInput
from mklref.kernels.base import Composite, Kernel, KernelFamily
from mklref.kernels.functions import Gaussian, grouped, squared_distances
from mklref.kernels.stack import ArrayStack
from mklref.kernels.transforms import Normalization, Transform, checked_method


class FamilyStack(ArrayStack):
    """The Gram matrices of a family on training samples, able to give those of new samples; see `KernelFamily.fit`.

    While they are evaluated, up to five matrices of order n are held beside the stack: the squared distances, the
    kernel, and what its normalisation takes.
    """

    def __init__(self, family: KernelFamily, X: Any, normalize: Normalization | None, center: bool) -> None:
        samples = _checked_samples(X, "X")
        n, d = samples.shape
        if n < 2:
            raise InvalidInput(f"X has shape {samples.shape}; give at least two samples, one a row.")
        if normalize is not None:
            checked_method(normalize)
        columns = _columns_of(X)
        variables = columns or [f"x{j}" for j in range(d)]
        kernels = family.expand(variables)
        names = [kernel.name(variables) for kernel in kernels]
        grams = np.empty((len(names), n, n))
        transforms: list[Transform] = []
        evaluation = _Evaluation(samples)
        for name, kernel, out in zip(names, kernels, grams, strict=True):
            _require_type(kernel, name, samples)
            gram = evaluation.of(kernel)
            _require_no_overflow(gram, name)
            transforms.append(Transform.fit(gram, f"kernel {name!r}", normalize, center))
            out[:] = transforms[-1].train(gram)
        self.fitted = FittedFamily(samples, kernels, tuple(transforms), tuple(names), tuple(columns))
        self.groups = grouped(kernels, variables)
        """The numbers of the kernels of each group: of a variable, of `on`, of a scale of wavelets."""
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
            X_new is not a finite matrix with d columns, those of a data frame in another order, or a kernel overflows.
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
    columns: tuple[str, ...] = ()
    """The names of the d variables, if the training samples had any."""

    def rows(self, X_new: Any, which: Iterable[int]) -> Iterator[FloatArray]:
        """The chosen kernels of new samples with the training samples, (k, n) each; see `FamilyStack.new`."""
        samples = self._checked_new(X_new)
        evaluation = _Evaluation(samples, self.samples)
        for m in which:
            yield self.transforms[m].new(self._cross(evaluation, m), self.kernels[m].diagonal(samples))

    @property
    def n_samples(self) -> int:
        """The number of training samples."""
        return len(self.samples)

    @property
    def centred(self) -> bool:
        """Whether kernels of new samples depend on all training samples, by their mean."""
        return any(transform.centering is not None for transform in self.transforms)

    def reduced(self, samples: Any, kernels: Any) -> FittedFamily:
        """The same with these training samples, numbers or a slice, and these kernels alone; see `Transform.at`."""
        return replace(
            self,
            samples=self.samples[samples],
            kernels=tuple(self.kernels[m] for m in kernels),
            transforms=tuple(self.transforms[m].at(samples) for m in kernels),
            names=tuple(self.names[m] for m in kernels),
        )

    def diagonals(self, X_new: Any) -> Iterator[Array]:
        """Each k_m(x, x) of new samples, (k,); see `FamilyStack.diagonals`."""
        samples = self._checked_new(X_new)
        evaluation = _Evaluation(samples, self.samples)
        for m, (kernel, transform) in enumerate(zip(self.kernels, self.transforms, strict=True)):
            yield transform.own(self._cross(evaluation, m), kernel.diagonal(samples))

    def _cross(self, evaluation: _Evaluation, m: int) -> Array:
        """k_m between new and training samples, (k, n), as it was before normalisation."""
        cross = evaluation.of(self.kernels[m])
        _require_no_overflow(cross, self.names[m])
        return cross

    def _checked_new(self, X_new: Any) -> Array:
        samples = _checked_samples(X_new, "X_new")
        d = self.samples.shape[1]
        if (samples.dtype.kind == "U") != (self.samples.dtype.kind == "U"):
            raise InvalidInput("X_new and the training samples have to be both numbers or both texts.")
        if samples.shape[1] != d:
            raise InvalidInput(f"X_new has {samples.shape[1]} variables, the training samples have {d}.")
        columns = tuple(_columns_of(X_new))
        if columns and self.columns and columns != self.columns:
            raise InvalidInput(
                f"X_new has the columns {', '.join(columns[:8])}, the training samples have "
                f"{', '.join(self.columns[:8])}: give the same ones in the same order."
            )
        return samples


class _Evaluation:
    """Kernels between two sets of samples, or within one, one kernel after the other.

    Gaussians that follow one another on the same columns share their squared distances, of which one matrix is kept.
    """

    def __init__(self, X: Array, Z: Array | None = None) -> None:
        self._X, self._Z = X, Z
        self._columns: tuple[int, ...] | None = None
        self._squares: Array | None = None

    def of(self, kernel: Kernel) -> Array:
        """k(x, z), (k, n); exactly symmetric within one set."""
        if isinstance(kernel, Composite):
            with np.errstate(over="ignore"):
                return kernel.compose([self.of(part) for part in kernel.kernels])
        whole, columns = kernel.on_columns()
        with np.errstate(over="ignore"):
            if isinstance(whole, Gaussian):
                return whole.of_squares(self._squares_on(columns))
            return kernel.gram(self._X) if self._Z is None else kernel.cross(self._X, self._Z)

    def _squares_on(self, columns: tuple[int, ...] | None) -> Array:
        if self._squares is None or columns != self._columns:
            self._squares = None  # before the next one is made
            chosen = slice(None) if columns is None else columns
            Z = None if self._Z is None else self._Z[:, chosen]
            self._columns, self._squares = columns, squared_distances(self._X[:, chosen], Z)
        return self._squares


def _checked_samples(X: Any, label: str) -> Array:
    texts = as_texts(X)
    samples: Any = as_float_array(X, label, InvalidInput) if texts is None else texts
    if samples.ndim != 2 or not samples.size:
        raise InvalidInput(f"{label} has shape {samples.shape}; expected a matrix, one sample a row: (n, d).")
    if texts is None:
        require_finite(samples, label, InvalidInput)
        samples = samples.astype(np.float64, copy=False)
    return np.asarray(samples)


def _columns_of(X: Any) -> list[str]:
    """The names of the columns of a data frame; none of an array."""
    return [str(column) for column in getattr(X, "columns", ())]


def as_texts(X: Any) -> Any:
    """X as an array (n, d) of texts, a list as one column; None if it does not consist of texts."""
    if isinstance(X, list | tuple):
        rows = [[row] if isinstance(row, str) else row for row in X]
        if not rows or not all(isinstance(row, list | tuple) and len(row) == len(rows[0]) for row in rows):
            return None
        X = rows
    array = np.asarray(X)
    if array.dtype.kind == "U" and not array.ndim:
        raise InvalidInput(f"X is the text {str(X)[:20]!r}; give a list of texts, one for each sample.")
    if array.dtype.kind != "U" and not (
        array.dtype.kind == "O" and array.size and all(isinstance(text, str) for text in array.flat)
    ):
        return None
    return (array[:, None] if array.ndim == 1 else array).astype(np.str_)


def _require_type(kernel: Kernel, name: str, samples: Any) -> None:
    """Texts for kernels of texts, numbers for the others."""
    if kernel.takes_text and samples.dtype.kind != "U":
        raise InvalidInput(f"kernel {name!r} takes texts, X holds numbers: give a list of strings.")
    if not kernel.takes_text and samples.dtype.kind == "U":
        raise InvalidInput(f"kernel {name!r} takes numbers, X holds texts: encode them, or use spectrum kernels.")


def _require_no_overflow(gram: Array, name: str) -> None:
    if not np.isfinite(gram).all():
        raise InvalidInput(f"kernel {name!r} overflows float64 on these samples; standardise the variables first.")
