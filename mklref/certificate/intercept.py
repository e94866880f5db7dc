"""The best intercept for given scores: a one-dimensional convex problem, solved to rounding.

    minimise over b   h(b) = sum_i c_i V(s_i + b, y_i) + c_b b

h' is non-decreasing. Between consecutive kinks of h it is linear (piecewise linear-quadratic losses) or at
least continuous, so a binary search over the kinks followed by bisection finds a zero of h'.
"""

from __future__ import annotations

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

    low, high, kink = _bracket(problem, scores, slope)
    if kink is not None and np.isinf(problem.loss.smoothness):
        return kink if slope(high) > 0.0 else high
    return _bisect(slope, low, high)


def _bracket(problem: Problem, scores: Array, slope: object) -> tuple[float, float, float | None]:
    """An interval with slope(low) < 0 <= slope(high), and the only kink in it, if the loss has kinks."""
    assert callable(slope)
    kinks = np.unique(problem.loss.kinks(problem.y) - scores)
    if not len(kinks):
        centre = float(np.median(problem.y - scores))
        width = 1.0 + abs(centre)
        while slope(centre - width) >= 0.0:
            width *= 2.0
        low = centre - width
        width = 1.0 + abs(centre)
        while slope(centre + width) < 0.0:
            width *= 2.0
        return low, centre + width, None
    margin = 1.0 + float(kinks[-1] - kinks[0])
    middles = np.concatenate([[kinks[0] - margin], 0.5 * (kinks[1:] + kinks[:-1]), [kinks[-1] + margin]])
    first, last = (
        0,
        len(middles) - 1,
    )  # invariant: slope(middles[last]) >= 0, and all before `first` are negative
    while first < last:
        probe = (first + last) // 2
        if slope(float(middles[probe])) >= 0.0:
            last = probe
        else:
            first = probe + 1
    if last == 0:
        return float(middles[0]) - margin, float(middles[0]), float(kinks[0])
    return float(middles[last - 1]), float(middles[last]), float(kinks[last - 1])


def _bisect(slope: object, low: float, high: float) -> float:
    """A zero of a non-decreasing function, to the last bit."""
    assert callable(slope)
    for _ in range(_BISECTIONS):
        middle = 0.5 * (low + high)
        if not low < middle < high:
            break
        if slope(middle) >= 0.0:
            high = middle
        else:
            low = middle
    return high
