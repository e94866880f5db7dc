"""What the experiments of SimpleMKL share: its data sets, splits and kernels."""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mklref._typing import Array
from mklref.datasets import Dataset, encode, load
from mklref.kernels import simplemkl_recipe
from validation.reproduce.expected import FOLDER, read

QUICK = "iris"
"""Two of its three classes overlap."""
SIZES = {
    "liver": (241, 91),
    "pima": (538, 117),
    "ionosphere": (246, 442),
    "wpbc": (136, 442),
    "sonar": (146, 793),
    QUICK: (70, 65),
}
"""Training samples (70 %) and kernels by data set, as Table 1 prints them."""
PUBLISHED = ("liver", "pima", "ionosphere", "wpbc", "sonar")
"""The sets of Table 1."""


class Parts(NamedTuple):
    """A training set and its test set, standardised by the training set."""

    X: Array
    y: Array
    X_new: Array
    y_new: Array


@cache
def data_set(name: str) -> Dataset:
    """A data set, read once for all cells of a run."""
    return load(name)


def two_classes(name: str) -> Dataset:
    """A set of Table 1 as the paper takes it: without the samples and the variable that it has not."""
    data = data_set(name)
    if name == "ionosphere":  # a02 is 0 everywhere; 442 kernels are those of 33 variables
        kept = [j for j, feature in enumerate(data.features) if feature != "a02"]
        return Dataset(data.name, data.X[:, kept], data.y, tuple(data.features[j] for j in kept), data.source)
    if name == "wpbc":
        return data.complete()
    return data.take(np.flatnonzero(data.y != "setosa")) if name == QUICK else data


def standardized(X: Array, X_new: Array) -> tuple[Array, Array]:
    """Both by the mean and the deviation of the first; a variable that is constant there becomes 0."""
    mean, spread = X.mean(axis=0), X.std(axis=0)
    spread = np.where(spread > 1e-12 * np.abs(X).max(axis=0), spread, np.inf)
    return (X - mean) / spread, (X_new - mean) / spread


def split(data: Dataset, seed: int, train: int) -> Parts:
    """A random split: `train` samples to learn from, and the others to test on."""
    order = np.random.default_rng(seed).permutation(len(data.y))
    return parts_of(data, order[:train], order[train:])


def parts_of(data: Dataset, first: NDArray[np.intp], last: NDArray[np.intp]) -> Parts:
    """The samples to learn from and those to test on, standardised by the former."""
    y, _ = encode(data.y)
    X, X_new = standardized(data.X[first], data.X[last])
    return Parts(X, y[first], X_new, y[last])


def printed(module: str, table: str) -> dict[str, dict[str, list[float]]]:
    """What the paper prints, by row and column: [mean] or [mean, deviation]; empty entries are left out."""
    found = next(t for t in read(FOLDER / f"{module}.toml")["table"] if t["id"] == table)
    return {
        row: {column: entry for column, entry in zip(found["rules"], entries, strict=True) if entry}
        for row, entries in found["rows"].items()
    }


def kernels(parts: Parts) -> tuple[Array, Array]:
    """The 13 (d + 1) kernels of 5.1, computed beforehand: (M, n, n) and (M, k, n)."""
    train, new = simplemkl_recipe(parts.X, parts.X_new)
    return train.dense(), new
