"""The stack of Gram matrices that a family of kernels gives on data, and what it keeps for new samples."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from mklref._threads import cached_property
from mklref._typing import Array, FloatArray
from mklref._validate import as_array, as_float_array, require_finite, require_read, shown
from mklref.exceptions import InvalidInput, InvalidKernel, InvalidType
from mklref.kernels.base import Kernel, KernelFamily
from mklref.kernels.evaluation import Block, Samples, runs_of
from mklref.kernels.stack import ArrayStack
from mklref.kernels.transforms import Normalizer, Transform, slacks

_SEEN, _ASYMMETRY = 8, 1e-6
"""Samples on which a kernel of one's own is looked at, and what rounding may make of its symmetry there."""


class OnSamples:
    """What stacks of a family on training samples have beside their entries: `new`, `diagonals` and groups."""

    fitted: FittedFamily
    choice = ""
    """Why the matrices are in memory or not, if storage="auto" decided it."""

    @property
    def groups(self) -> dict[str, tuple[int, ...]]:
        """The numbers of the kernels of each group: of a variable, of `on`, of a scale of wavelets."""
        return grouped(self.fitted.kernels, self.fitted.variables)

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
        rows = self.fitted.rows(X_new, range(len(self.fitted.kernels)))
        first = next(rows)
        found = np.empty((len(self.fitted.kernels), *first.shape))
        found[0] = first
        for out, values in zip(found[1:], rows, strict=True):  # one after the other, not all of them twice
            out[:] = values
        return found

    def diagonals(self, X_new: Any) -> Array:
        """k_m(x, x) of new samples (k, d), transformed as `new` is: (M, k), what `EvidenceSolution.posterior` takes."""
        return np.stack(list(self.fitted.diagonals(X_new)))


class FamilyStack(OnSamples, ArrayStack):
    """The Gram matrices of a family on training samples, able to give those of new samples; see `KernelFamily.fit`.

    While they are evaluated, up to five matrices of order n are held beside the stack: what several kernels share, the
    kernel, and what its normalisation takes.
    """

    def __init__(self, raw: FittedFamily, how: Normalizer) -> None:
        kernels, names, samples = raw.kernels, raw.names, raw.samples
        n = len(samples)
        grams = np.empty((len(names), n, n))
        labels = [f"kernel {name!r}" for name in names]
        transforms: list[Any] = [None] * len(kernels)
        shares = np.full(n, 1.0 / n) if how.shares is None else how.shares
        block = Block(Samples(samples))
        with np.errstate(over="ignore"):
            for run in [] if how.center else runs_of(kernels, [1.0] * len(kernels)):
                if np.isnan(block.shared(run.shares, run.columns).sum()):
                    raise _overflow(names[run.members[0]])
                means = block.means(run, shares) if how.reads_means else run.factors
                for m, mean in zip(run.members, means, strict=True):
                    transforms[m] = how.of_statistics(kernels[m].diagonal(samples), mean, np.float64, labels[m])
                scaled = replace(run, factors=np.array([transforms[m].factor for m in run.members]))
                consecutive = np.split(np.array(run.members), np.flatnonzero(np.diff(run.members) > 1) + 1)
                for part in consecutive:
                    block.exponentials(scaled.of(part), grams[part[0] : part[-1] + 1])
            for m, (kernel, out) in enumerate(zip(kernels, grams, strict=True)):
                if transforms[m] is None:
                    out[:] = block.values(kernel)
                    require_no_overflow(out, names[m])
                    transforms[m] = how.fit(out, labels[m])
                    transforms[m].train_in_place(out)
        self.fitted = replace(raw, transforms=tuple(transforms))
        super().__init__(list(grams), names)
        self._gram_checked = all(kernel.definite for kernel in kernels)

    @cached_property
    def definiteness(self) -> str:
        """By theorem, if all kernels are; the matrices of those that are not are checked."""
        return self._others.definiteness if self._checked else "by theorem"

    @property
    def _checked(self) -> list[int]:
        return [m for m, kernel in enumerate(self.fitted.kernels) if not kernel.definite]

    @cached_property
    def _others(self) -> ArrayStack:
        return ArrayStack([self.matrices[m] for m in self._checked])

    @cached_property
    def slack(self) -> Array:
        """s (M, n): K_m + diag(s_m) is semidefinite where rounding left K_m indefinite."""
        found = slacks(self.fitted.transforms, self.matrices)
        if self._checked:
            found[self._checked] = self._others.slack
        return found


@dataclass(frozen=True)
class Training:
    """Normalised kernels, and the training samples that new samples are compared with."""

    samples: Any
    """The training samples, (n, d)."""
    kernels: tuple[Any, ...]
    transforms: tuple[Transform, ...]
    names: tuple[str, ...]

    @property
    def n_samples(self) -> int:
        """The number of training samples."""
        return int(self.samples.shape[0])

    @property
    def centred(self) -> bool:
        """Whether kernels of new samples depend on all training samples, by their mean."""
        return any(transform.centering is not None for transform in self.transforms)

    def reduced(self, samples: Any, kernels: Any) -> Self:
        """The same with these training samples, numbers or a slice, and these kernels alone; see `Transform.at`."""
        return replace(
            self,
            samples=self.samples[samples],
            kernels=tuple(self.kernels[m] for m in kernels),
            transforms=tuple(self.transforms[m].at(samples) for m in kernels),
            names=tuple(self.names[m] for m in kernels),
        )


@dataclass(frozen=True)
class FittedFamily(Training):
    """What the kernels of new samples depend on: all of a `FamilyStack` but its matrices."""

    columns: tuple[str, ...] = ()
    """The names of the d variables, if the training samples had any."""

    @classmethod
    def of(cls, family: KernelFamily, X: Any) -> FittedFamily:
        """The kernels of a family on these samples, as they are before normalisation."""
        samples = checked_samples(X, "X")
        if len(samples) < 2:
            raise InvalidInput(f"X has shape {samples.shape}; give at least two samples, one a row.")
        samples = samples if isinstance(X, list | tuple) else samples.copy(order="K")  # who has X may write to it
        empty = cls(samples, (), (), (), tuple(_columns_of(X)))
        kernels = family.expand(empty.variables)
        names = tuple(kernel.name(empty.variables) for kernel in kernels)
        require_kernels(kernels, names, samples)
        return replace(empty, kernels=kernels, transforms=(Transform(),) * len(kernels), names=names)

    @property
    def variables(self) -> list[str]:
        """The names of the d variables, x0, x1, ... where they have none."""
        return list(self.columns) or [f"x{j}" for j in range(self.samples.shape[1])]

    def rows(self, X_new: Any, which: Iterable[int]) -> Iterator[FloatArray]:
        """The chosen kernels of new samples with the training samples, (k, n) each; see `FamilyStack.new`."""
        samples = self._checked_new(X_new)
        block = Block.between(samples, self.samples)
        for m in which:
            yield self.transforms[m].new(self._cross(block, m), self.kernels[m].diagonal(samples))

    def diagonals(self, X_new: Any) -> Iterator[Array]:
        """Each k_m(x, x) of new samples, (k,); see `FamilyStack.diagonals`."""
        samples = self._checked_new(X_new)
        block = Block.between(samples, self.samples)
        for m, (kernel, transform) in enumerate(zip(self.kernels, self.transforms, strict=True)):
            yield transform.own(kernel.diagonal(samples), self._cross(block, m))

    def _cross(self, block: Block, m: int) -> Array:
        """k_m between new and training samples, (k, n), as it was before normalisation."""
        with np.errstate(over="ignore"):
            cross = block.values(self.kernels[m])
        require_no_overflow(cross, self.names[m])
        return np.asarray(cross)

    def _checked_new(self, X_new: Any) -> Array:
        samples = checked_samples(X_new, "X_new")
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


def grouped(kernels: Sequence[Kernel], variables: Sequence[str]) -> dict[str, tuple[int, ...]]:
    """The numbers of the kernels of each group, in order of appearance."""
    groups: dict[str, list[int]] = {}
    for m, kernel in enumerate(kernels):
        groups.setdefault(kernel.group(variables), []).append(m)
    return {name: tuple(members) for name, members in groups.items()}


def checked_samples(X: Any, label: str) -> Array:
    """A finite float64 matrix (n, d), or one of texts; else `InvalidInput` or `InvalidType`."""
    require_read(X, label)
    if hasattr(X, "columns") and holds_times(X):
        raise InvalidType(f"{label} holds dates or times; turn them into numbers, or leave the columns out.")
    texts = as_texts(X)
    samples: Any = as_float_array(X, label, InvalidInput) if texts is None else texts
    if samples.ndim != 2 or not samples.size:
        raise InvalidInput(f"{label} has shape {samples.shape}; expected a matrix, one sample a row: (n, d).")
    if texts is None:
        require_finite(samples, label, InvalidInput)
        samples = samples.astype(np.float64, copy=False)
    return np.asarray(samples)


def holds_times(X: Any, label: str = "X") -> bool:
    """Whether a column of X holds dates, times or spans of time, of which NumPy would make numbers."""
    if hasattr(X, "get_columns"):  # polars, whose types have no kind
        return any(dtype.is_temporal() for dtype in X.dtypes)
    dtypes: Any = X.dtypes if hasattr(X, "dtypes") else as_array(X, label).dtype
    return any(getattr(dtype, "kind", "O") in "mM" for dtype in np.ravel(dtypes))


def _columns_of(X: Any) -> list[str]:
    return [str(column) for column in getattr(X, "columns", ())]


def as_texts(X: Any) -> Any:
    """X as an array (n, d) of texts, a list as one column; None if it does not consist of texts.

    `InvalidInput` for a single text, or one column of texts with something else among them.
    """
    if isinstance(X, list | tuple) or getattr(X, "ndim", None) == 1:
        _require_texts(list(X))
    if isinstance(X, list | tuple):
        rows = [[row] if isinstance(row, str) else row for row in X]
        if not rows or not all(isinstance(row, list | tuple) and len(row) == len(rows[0]) for row in rows):
            return None
        X = rows
    array = as_array(X, "X")
    if array.dtype.kind == "U" and not array.ndim:
        raise InvalidInput(f"X is the text {str(X)[:20]!r}; give a list of texts, one for each sample.")
    if array.dtype.kind != "U" and not (
        array.dtype.kind == "O" and array.size and all(isinstance(text, str) for text in array.flat)
    ):
        return None
    return (array[:, None] if array.ndim == 1 else array).astype(np.str_)


def _require_texts(column: list[Any]) -> None:
    other = next((i for i, text in enumerate(column) if not isinstance(text, str)), None)
    if other is not None and any(isinstance(text, str) for text in column):
        raise InvalidInput(
            f"X[{other}] is {shown(column[other])} among texts; give texts alone; '' is one without words."
        )


def require_kernels(kernels: Iterable[Kernel], names: Iterable[str], samples: Any) -> None:
    """Raise unless all are functions of two such samples, as far as a few samples tell."""
    texts = samples.dtype.kind == "U"
    for kernel, name in zip(kernels, names, strict=True):
        if kernel.takes_text and not texts:
            raise InvalidInput(f"kernel {name!r} takes texts, X holds numbers: give a list of strings.")
        if texts and not kernel.takes_text:
            raise InvalidInput(
                f"kernel {name!r} takes numbers, X holds texts: encode them, or use spectrum kernels, or a "
                "class of your own with takes_text = True."
            )
        if not kernel.definite:
            _require_kernel(kernel, name, samples)


def _require_kernel(kernel: Kernel, name: str, samples: Any) -> None:
    """Whether k(x, z) is k(z, x) and a matter of x and z alone, seen on a few samples.

    Matrices are made symmetric, or never seen whole; and new samples come in blocks, or one by one.
    """
    some = samples[np.unique(np.linspace(0, len(samples) - 1, _SEEN).astype(int))]
    before = some.copy()
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        K, own = kernel.checked_cross(some, some), np.asarray(kernel.diagonal(some))
        apart = np.abs(K - K.T).max()
        beside = kernel.checked_cross(some.copy(), some)[0, -1]  # k(X, X) may add something where X is Z
        alone = kernel.checked_cross(some[:1], some[-1:])[0, 0]
    if not np.array_equal(some, before):
        raise InvalidKernel(f"kernel {name!r} writes to the samples that it is given; let it change a copy of them.")
    allowed, squares = _ASYMMETRY * np.abs(K).max(), np.diagonal(K)
    if np.isfinite([beside, allowed]).all() and not abs(alone - beside) <= allowed:
        raise InvalidKernel(
            f"kernel {name!r} is no function of two samples: k(x, z) is {beside:.3g} beside others and {alone:.3g} "
            "alone. Fix means, scales and widths beforehand, by the training samples."
        )
    if apart > allowed:
        raise InvalidKernel(
            f"kernel {name!r} is not symmetric: k(x, z) and k(z, x) differ by {apart:.3g} on training samples. Give a "
            "function that is, such as (k(x, z) + k(z, x))/2."
        )
    if own.shape != squares.shape or (np.isfinite(allowed) and not np.abs(own - squares).max() <= allowed):
        raise InvalidKernel(f"kernel {name!r} has the diagonal {shown(own)}, but k(x, x) is {shown(squares)}; mend it.")


def require_no_overflow(gram: FloatArray, name: str) -> None:
    """Raise `InvalidInput` where entries are not finite, or so large that their sums may not be."""
    most = sys.float_info.max / len(gram) ** 2
    low, high = float(gram.min(initial=0.0)), float(gram.max(initial=0.0))
    if not -most <= low <= high <= most:  # NaN is in no interval
        raise _overflow(name)


def _overflow(name: str) -> InvalidInput:
    return InvalidInput(f"kernel {name!r} overflows float64 on these samples; standardise the variables first.")
