"""What the experiments of SimpleMKL share: its data sets, splits and kernels, and what they decide by.

Ratios of two algorithms on the same splits, and certified gaps.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

from mklref._typing import Array
from mklref.datasets import Dataset, encode, load
from mklref.kernels import simplemkl_recipe
from validation.reproduce.base import LEVEL, Evidence, holm, sign_test
from validation.reproduce.expected import read

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
WIDTHS = {"0.1 to 10": (0.1, 10.0), "0.3 to 30": (0.3, 30.0), "1 to 10": (1.0, 10.0)}
"""Other intervals of ten widths, evenly spaced on a logarithmic scale, which the causes of Table 1 are about."""
SELECTED = 1e-8
"""Weight above which a kernel is selected."""
FIRST = 3
"""Splits that these causes look at."""
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


def positive_against_rest(data: Dataset) -> Array:
    """The last class is 1, all others are -1; of yeast CYT is."""
    return np.where(data.y == ("CYT" if data.name == "yeast" else np.unique(data.y)[-1]), 1.0, -1.0)


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
    found = next(t for t in read(module)["table"] if t["id"] == table)
    return {
        row: {column: entry for column, entry in zip(found["rules"], entries, strict=True) if entry}
        for row, entries in found["rows"].items()
    }


def kernels(parts: Parts) -> tuple[Array, Array]:
    """The 13 (d + 1) kernels of 5.1, computed beforehand: (M, n, n) and (M, k, n)."""
    train, new = simplemkl_recipe(parts.X, parts.X_new)
    return train.dense(), new


def accuracy(solution: Any, new: Any, y_new: Array) -> float:
    """In %, on new samples."""
    return 100.0 * float(np.mean(np.sign(solution.decision_function(new)) == y_new))


def work_of(solution: Any) -> dict[str, Any]:
    """Kernels with a weight, what was evaluated, and the gap."""
    counters = solution.history.counters
    return {
        "kernels": int(np.count_nonzero(solution.weights > SELECTED)),
        "SVM": counters.get("svm", counters.get("machines")),
        "gradients": counters.get("gradient"),
        "gap": solution.certificate.relative_gap,
    }


# --- what they decide by ---------------------------------------------------------------------------------------------


FEWEST = 5
"""Pairs that a sign test needs before it can find anything at this level; sets with fewer are only shown."""

Ratios = Mapping[str, Mapping[int, float]]
"""By data set and split."""


class Reached(NamedTuple):
    """A run, the gap that it ended with, and the one that the protocol states."""

    name: str
    gap: float
    stated: float


def median(ratios: Mapping[int, float]) -> float:
    """Over the splits: one run on a busy machine, or one unlucky split, does not decide it."""
    return float(np.median(list(ratios.values())))


def sets_above_one(ratios: Ratios) -> str:
    """On how many sets the median ratio is above 1."""
    return f"{sum(median(found) > 1.0 for found in ratios.values())} of {len(ratios)}"


def medians(ratios: Ratios) -> str:
    """Set by set."""
    return ", ".join(f"{name} {median(found):.2g}" for name, found in ratios.items())


def above_one(label: str, ratios: Ratios) -> Evidence:
    """Whether the ratio is above 1 on every data set: sign tests over the splits, adjusted by Holm.

    It is decided that it is not, where such a test finds a ratio below 1.
    """
    tested = {name: found for name, found in ratios.items() if len(found) >= FEWEST}
    adjusted = dict(zip(tested, holm([sign_test(found.values()) for found in tested.values()]), strict=True))
    parts = [
        f"{name} {median(found):.2g} "
        + (f"(p = {adjusted[name]:.1g})" if name in adjusted else f"({_splits(len(found))})")
        for name, found in ratios.items()
    ]
    few = [median(found) for name, found in ratios.items() if name not in adjusted]
    holds = max(adjusted.values(), default=0.0) < LEVEL and min(few, default=np.inf) > 1.0
    how = "median of the splits, with p of a sign test adjusted by Holm" if tested else "median of the splits"
    below = holm([sign_test(1.0 / ratio for ratio in found.values()) for found in tested.values()])
    decided = bool(holds) or bool(np.min(below, initial=1.0) < LEVEL)
    return Evidence(bool(holds), f"{label}: {', '.join(parts)} ({how})", decided)


def average(label: str, ratios: Ratios, low: float, high: float, whose: str = "bounds are ours") -> Evidence:
    """Whether the mean over the data sets of the median ratios is between two bounds."""
    mean = float(np.mean([median(found) for found in ratios.values()]))
    text = f"{label}: {mean:.3g} on average, {low:g} to {high:g} allowed ({whose}); {medians(ratios)}"
    return Evidence(low <= mean <= high, text)


def rank_correlation(a: Sequence[float], b: Sequence[float]) -> float:
    """Spearman's, with mean ranks for ties; 0 where one of both does not vary."""
    ranks = [rankdata(side) for side in (a, b)]
    return float(np.corrcoef(ranks)[0, 1]) if all(np.ptp(side) > 0.0 for side in ranks) else 0.0


def grows(label: str, ratios: Ratios, sizes: Mapping[str, int]) -> Evidence:
    """Whether the ratio grows with the size of the data set: its rank correlation on each split, and a sign test."""
    splits = sorted({split for found in ratios.values() for split in found})
    found = []
    for split in splits:
        sets = [name for name in ratios if split in ratios[name]]
        if len({sizes[name] for name in sets}) > 2:
            found.append(rank_correlation([sizes[name] for name in sets], [ratios[name][split] for name in sets]))
    if not found:
        return Evidence(False, f"{label}: too few sets")
    p = sign_test(1.0 + value for value in found)
    text = f"{label}: rank correlation {np.median(found):.2f} (median), positive on {sum(v > 0.0 for v in found)} "
    decided = p < LEVEL or sign_test(1.0 - value for value in found) < LEVEL
    return Evidence(p < LEVEL, f"{text}of {_splits(len(found))} (p = {p:.1g}); {medians(ratios)}", decided)


def reached(runs: Sequence[Reached]) -> Evidence:
    """Whether every run has the gap that the protocol states; names those that have not."""
    missed = sorted((run for run in runs if not run.gap <= run.stated), key=lambda run: -run.gap)
    worst = max(runs, key=lambda run: run.gap / run.stated)
    bounds = " or ".join(f"{stated:g}" for stated in sorted({run.stated for run in runs}, reverse=True))
    text = f"{len(runs) - len(missed)} of {len(runs)} runs reached the gap of {bounds}"
    if missed:
        return Evidence(False, f"{text}; not {', '.join(f'{run.name} ({run.gap:.3g})' for run in missed)}")
    return Evidence(True, f"{text}; the worst is {worst.gap:.3g} ({worst.name})")


def _splits(count: int) -> str:
    return "1 split" if count == 1 else f"{count} splits"
