"""The table of a search, and the choice by it: the best mean score, or the simplest model within one standard error.

Where Ctrl-C came first, the folds that are finished decide; where none is, the candidates that most folds have scored.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from mklref._typing import Array
from mklref.estimators.folds import Point
from mklref.exceptions import InvalidParameter

RULES = ("best", "one_standard_error")

Row = list[Point | None]
"""The points of one C and one norm, one for each fold."""


@dataclass(frozen=True)
class Choice:
    """What a search has found."""

    results: dict[str, Any]
    """`cv_results_`."""
    best: int
    """The row that is chosen."""
    scored: int = 0
    """Points that there are."""
    missed: int = 0
    """Those of them that did not reach the tolerance."""
    folds: int = 0
    """How many of them have decided."""


def chosen(grid: list[tuple[float, Any]], rows: list[Row], rule: str, scoring: Any) -> Choice:
    """The table of these rows, each of a pair of C and norm, and the choice by a rule among those that have a score."""
    there = np.array([[point is not None for point in row] for row in rows])
    used = there & there.all(axis=0) if there.all(axis=0).any() else there
    compared = used.sum(axis=1) == used.sum(axis=1).max()
    used &= compared[:, None]
    numbers = [[(own.score, own.n_kernels, own.relative_gap) if own else [np.nan] * 3 for own in row] for row in rows]
    scores, kernels, gaps = np.moveaxis(np.array(numbers), -1, 0)
    means, deviations = (_over_folds(statistic, scores, used) for statistic in (np.mean, np.std))
    folds = int(used[compared][0].sum())
    errors = deviations / np.sqrt(folds - 1) if folds > 1 else np.where(compared, 0.0, np.nan)
    if np.isnan(means).all():
        f = int((np.isnan(scores) & used).any(axis=0).argmax())
        raise InvalidParameter(
            f"scoring = {scoring!r} gives nan in fold {f}: give stratified or fewer folds, so that the test "
            "samples of each one have what it measures, or another scoring."
        )
    n_kernels, gap = _over_folds(np.mean, kernels, there), _over_folds(np.max, gaps, there, initial=-np.inf)
    results: dict[str, Any] = {
        "params": [{"C": C, "norm": norm} for C, norm in grid],
        "param_C": np.array([C for C, _ in grid]),
        "param_norm": [norm for _, norm in grid],
        "mean_test_score": means,
        "std_test_score": deviations,
        "standard_error": errors,
        "rank_test_score": np.array([1 + int(np.sum(means > mean)) for mean in np.nan_to_num(means, nan=-np.inf)]),
        "n_kernels": n_kernels,
        "relative_gap": gap,
        **{f"split{f}_test_score": column for f, column in enumerate(scores.T)},
    }
    best = int(np.nanargmax(means))
    if rule == "one_standard_error":
        near = np.flatnonzero(means >= means[best] - errors[best])
        best = int(min(near, key=lambda index: (grid[index][0], n_kernels[index], index)))
    missed = sum(not point.optimal for row in rows for point in row if point is not None)
    return Choice(results, best, int(there.sum()), missed, folds)


def _over_folds(statistic: Any, values: Array, where: Any, **options: Any) -> Array:
    """A statistic of each row over these folds; nan where there is none."""
    found, some = np.full(len(values), np.nan), where.any(axis=1)
    found[some] = statistic(values[some], axis=1, where=where[some], **options)
    return found
