"""Paired comparisons: one-sided tests, and Holm's correction where several make one claim."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from scipy.stats import binomtest, ttest_rel

from mklref._typing import Array

LEVEL = 0.05
"""At which everything is tested."""


def one_sided(differences: Array) -> float:
    """The p-value of a mean below 0; differences that are all the same have no test."""
    if np.ptp(differences) == 0.0:
        return 0.5
    return float(ttest_rel(differences, np.zeros_like(differences), alternative="less").pvalue)


def holm(values: Sequence[float]) -> Array:
    """Holm's adjusted p-values."""
    order = np.argsort(values)
    factors = len(values) - np.arange(len(values))
    adjusted = np.empty(len(values))
    adjusted[order] = np.minimum(1.0, np.maximum.accumulate(np.asarray(values)[order] * factors))
    return adjusted


def sign_test(ratios: Iterable[float]) -> float:
    """The one-sided p-value of a median above 1; ratios of exactly 1 decide nothing."""
    decided = [ratio > 1.0 for ratio in ratios if ratio != 1.0]
    return float(binomtest(sum(decided), len(decided), alternative="greater").pvalue) if decided else 1.0
