"""What a data set is: samples, targets, and where they come from.

Beside it the sets that come with scikit-learn, and two classes as the labels -1 and +1.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mklref._typing import Array
from mklref._validate import as_one_kind, checked_count, shown
from mklref.exceptions import InvalidInput, InvalidTarget


class Split(NamedTuple):
    """Row numbers of one training set and of its test set."""

    train: NDArray[np.intp]
    test: NDArray[np.intp]


@dataclass(frozen=True)
class Dataset:
    """Samples, their targets, and where they come from.

    Like a data frame it converts to its matrix and knows its columns, so kernel families can name them.
    """

    name: str
    X: Array
    """Variables, float64 (n, d); a missing cell is NaN."""
    y: Any
    """Targets (n,): float64 where they are numbers, else strings."""
    features: tuple[str, ...]
    source: str
    splits: tuple[Split, ...] = ()
    """The realisations that come with a benchmark, such as those of the IDA repository."""
    target: str = "target"
    """The name of the column of y."""

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the variables."""
        return self.features

    @property
    def shape(self) -> tuple[int, int]:
        """(n, d)."""
        return self.X.shape[0], self.X.shape[1]

    def __len__(self) -> int:
        return len(self.X)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        return np.array(self.X, dtype=dtype, copy=copy)

    def standardized(self) -> Dataset:
        """(x - mean) / standard deviation for each variable; a constant variable becomes 0.

        Raises
        ------
        InvalidInput
            A cell is missing.
        """
        missing = int(np.isnan(self.X).any(axis=1).sum())
        if missing:
            raise InvalidInput(
                f"{missing} of {len(self.y)} samples of {self.name} have a missing cell; drop them by .complete()."
            )
        mean, deviation = mean_and_deviation(self.X)
        return replace(self, X=(self.X - mean) / deviation)

    def complete(self) -> Dataset:
        """The samples without a missing cell."""
        whole = ~np.isnan(self.X).any(axis=1)
        return self if whole.all() else self.take(np.flatnonzero(whole))

    def take(self, rows: Any) -> Dataset:
        """These samples, in this order; their numbers change, so the splits are left behind."""
        return replace(self, X=self.X[rows], y=self.y[rows], splits=())

    def subset(self, samples: int, seed: int) -> Dataset:
        """`samples` rows drawn without replacement by a seeded generator, in their original order."""
        if checked_count("samples", samples, 1, "how many rows to draw.") >= len(self.y):
            return self
        return self.take(np.sort(np.random.default_rng(seed).permutation(len(self.y))[:samples]))


def mean_and_deviation(values: Array, weight: Array | None = None) -> tuple[Array, Array]:
    """Mean and standard deviation of each column, or of one vector; a constant one has deviation 1.

    Computed in units of a power of two near the largest entry, in which no square leaves the range of float64.
    """
    exponent = np.frexp(np.abs(values).max(axis=0))[1]
    unit = np.ldexp(values, -exponent)
    varies = np.ptp(unit, axis=0) > 0.0
    mean = np.where(varies, np.average(unit, axis=0, weights=weight), unit[0])
    deviation = np.ldexp(np.sqrt(np.average((unit - mean) ** 2, axis=0, weights=weight)), exponent)
    return np.ldexp(mean, exponent), np.where(deviation > 0.0, deviation, 1.0)


@dataclass(frozen=True)
class Generated(Dataset):
    """Data from a generator, which knows what the answer is made of."""

    truth: Array | None = None
    """How much each variable contributes, (d,); a kernel on that variable alone deserves a weight like it."""
    groups: NDArray[np.intp] | None = None
    """The group of each variable, (d,), counted from 0."""


@dataclass(frozen=True)
class Cells(Generated):
    """Cells of which several modalities were measured, side by side in X, with sets of their features."""

    sets: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """The features of each set, by its name, as `kernels.column_groups` takes them; sets overlap."""
    relevant: tuple[str, ...] = ()
    """The sets that y is made of."""


BUNDLED = ("breast_cancer", "diabetes", "digits", "iris", "wine")
"""Sets that come with scikit-learn, by the name of its loader."""


def load_bundled(name: str) -> Dataset:
    """One of `BUNDLED`, with class names as targets where it has classes."""
    import sklearn
    from sklearn import datasets

    bunch = getattr(datasets, f"load_{name}")()
    classes = getattr(bunch, "target_names", None)
    y = bunch.target.astype(float) if classes is None else np.asarray(classes).astype(str)[bunch.target]
    features = tuple(str(feature) for feature in bunch.feature_names)
    return Dataset(name, np.asarray(bunch.data, dtype=float), y, features, f"scikit-learn {sklearn.__version__}")


def class_names(values: Any) -> list[str]:
    """Classes as texts, numbers with all their digits: 20230101 and 2.5."""
    if values.dtype.kind in "iuf":
        return [str(value).removesuffix(".0") for value in values]
    return [shown(value) if isinstance(value, int) else str(value) for value in values]


def encode(y: Any, positive: str | None = None) -> tuple[Array, tuple[str, str]]:
    """Two classes as labels -1 and +1.

    Parameters
    ----------
    y : array (n,)
        Numbers or strings with two different values; any number of values >= 2 if `positive` is given.
    positive : str, optional
        The class that becomes +1, all others being -1. By default the second one in sorted order.

    Returns
    -------
    labels : array (n,)
        -1.0 and +1.0.
    classes : (str, str)
        What -1 and +1 stand for.

    Raises
    ------
    InvalidTarget
        Not two classes, an entry that is not finite, or `positive` is none of them; the message lists what was found.
    InvalidType
        A masked array.
    """
    y = as_one_kind(y)
    if y.ndim != 1:
        raise InvalidTarget(f"y has shape {y.shape}; give one class for each sample, (n,).")
    if y.dtype.kind == "f" and not np.isfinite(y).all():
        first = int(np.argmin(np.isfinite(y)))
        raise InvalidTarget(f"target {first} is {y[first]}; every entry must be finite. Drop the sample.")
    values, index = np.unique(y, return_inverse=True)
    names = class_names(values)
    found = ", ".join(names[:8]) + (", ..." if len(names) > 8 else "")
    if len(names) < 2:
        raise InvalidTarget(f"the target holds only the class {found}; a classifier needs two. Take more samples.")
    if positive is None:
        if len(names) > 2:
            raise InvalidTarget(
                f"the target has {len(names)} classes ({found}); name the one to tell from the others "
                "(the positive class, --positive CLASS), or use a loss for real targets such as 'squared'."
            )
        positive = names[1]
    if not isinstance(positive, str) or positive not in names:
        raise InvalidTarget(f"positive = {shown(positive)} is no class of the target; found {found}.")
    others = [name for name in names if name != positive]
    labels = np.where(index.ravel() == names.index(positive), 1.0, -1.0)
    return labels, (others[0] if len(others) == 1 else f"not {positive}", positive)
