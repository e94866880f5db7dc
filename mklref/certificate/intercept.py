"""The best intercept for given scores: a one-dimensional convex problem, solved to rounding.

    minimise over b   h(b) = sum_i c_i V(s_i + b, y_i) + c_b b

h' is non-decreasing. Between consecutive kinks of h it is linear (piecewise linear-quadratic losses) or at
least continuous, so a binary search over the kinks followed by bisection finds a zero of h'.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from mklref._typing import Array

if TYPE_CHECKING:
    from mklref.problem import Problem

_BISECTIONS = 200
"""More than enough: an interval of floats is exhausted after about 64 halvings and some for its exponent."""


def intercept_objective(problem: Problem, scores: Array, intercept: float) -> float:
    """h(b) = sum_i c_i V(s_i + b, y_i) + c_b b."""
    losses = problem.loss.value(scores + intercept, problem.y)
    return float(problem.costs @ losses) + problem.intercept_cost * intercept


def best_intercept(problem: Problem, scores: Array) -> float:
    """A minimiser of h for scores s (n,); 0 if the problem has no intercept."""
    if not problem.intercept:
        return 0.0

    def slope(b: float) -> float:
        return float(problem.costs @ problem.loss.subgradient(scores + b, problem.y)) + problem.intercept_cost

    kinks = np.unique(problem.loss.kinks(problem.y) - scores)
    if not len(kinks):
        return _bisect(slope, *_expand(slope, float(np.median(problem.y - scores))))
    # Some minimiser lies between the first and the last kink, and h' has one formula on each side of a kink.
    probes = np.concatenate([kinks[:1], 0.5 * (kinks[1:] + kinks[:-1]), kinks[-1:]])
    rising = bisect_left(range(1, len(kinks)), True, key=lambda j: slope(float(probes[j])) >= 0.0) + 1
    if np.isinf(problem.loss.smoothness):
        return float(kinks[rising - 1])
    return _bisect(slope, float(probes[rising - 1]), float(probes[rising]))


def _expand(slope: Callable[[float], float], centre: float) -> tuple[float, float]:
    """An interval around a centre with slope(low) < 0 <= slope(high)."""
    below = above = 1.0 + abs(centre)
    while slope(centre - below) >= 0.0:
        below *= 2.0
    while slope(centre + above) < 0.0:
        above *= 2.0
    return centre - below, centre + above


def _bisect(slope: Callable[[float], float], low: float, high: float) -> float:
    """A zero of a non-decreasing function, to the last bit."""
    for _ in range(_BISECTIONS):
        middle = 0.5 * (low + high)
        if not low < middle < high:
            break
        if slope(middle) >= 0.0:
            high = middle
        else:
            low = middle
    return high
