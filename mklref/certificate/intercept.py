"""The best intercept for given scores: a one-dimensional convex problem, solved to rounding.

    minimise over b   h(b) = sum_i c_i V(s_i + b, y_i) + c_b b

h' is non-decreasing. Between consecutive kinks of h it is linear (piecewise linear-quadratic losses) or at
least continuous, so a binary search over the kinks followed by false position finds a zero of h'.

Where h' vanishes on whole pieces, as it does for balanced classes whose dual variables all are at their bounds, every
intercept there is a minimiser, and the middle one is taken: its ends predict one class for all samples.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from mklref._typing import Array
from mklref._validate import checked_array
from mklref.exceptions import InvalidInput, InvalidType
from mklref.problem import Problem

_NEAR = 1e-3
"""Share of the way from a kink to the middle of a piece: if V is linear there, h' is the same to the bit."""
_LAST_BITS = 4 * float(np.finfo(float).eps)
_AT_ONCE = 4096
"""Scores evaluated at once: several intercepts are tried together where samples are few."""
_FARTHEST = 1e300
"""Intercepts beyond are not looked for: no slope changes its sign there."""
_STEPS = 300
"""A quarter of them halve the interval: what is left of it at worst is 2^-75, and mostly the last bits of the zero."""


def intercept_objective(problem: Problem, scores: Array, intercept: float) -> float:
    """h(b) = sum_i c_i V(s_i + b, y_i) + c_b b."""
    losses = problem.loss.value(scores + intercept, problem.y)
    return float(problem.costs @ losses) + problem.intercept_cost * intercept


@np.errstate(over="ignore", under="ignore", invalid="ignore")
def best_intercept(problem: Problem, scores: Array) -> float:
    """A minimiser of h for scores s (n,), the middle one of an interval; 0 if the problem has no intercept.

    Raises
    ------
    InvalidType, InvalidInput
        No problem of one machine, or scores that are no finite array (n,).
    """
    if not isinstance(problem, Problem) or problem.several:
        raise InvalidType(
            f"problem is {type(problem).__name__}; give a Problem, of several machines that of one of them."
        )
    return middle_intercept(problem, checked_array(scores, "scores", (problem.n_samples,), error=InvalidInput))


def middle_intercept(problem: Problem, scores: Array) -> float:
    """`best_intercept` of scores that a solver has, which may have left float64."""
    if not problem.intercept:
        return 0.0

    def slope(b: float) -> float:
        return float(problem.costs @ problem.loss.subgradient(scores + b, problem.y)) + problem.intercept_cost

    kinks = np.sort(problem.loss.kinks(problem.y) - scores, axis=None)
    if not len(kinks):
        return _zero(slope, *_expand(slope, float(np.median(problem.y - scores))))
    # Some minimiser lies between the first and the last kink, and h' has one formula on each side of a kink.
    probes = np.concatenate([kinks[:1], 0.5 * (kinks[1:] + kinks[:-1]), kinks[-1:]])
    between = probes[1:-1]
    rising = _first_rising(problem, scores, between, 0.0) + 1
    low, kink, high = (float(b) for b in (probes[rising - 1], kinks[rising - 1], probes[rising]))
    ends, next_one = np.array([low, high]), probes[min(rising + 1, len(kinks))]
    *around, beyond = _slopes(problem, scores, np.hstack([kink + _NEAR * (ends - kink), ends, next_one]))
    near, far = around[:2], around[2:]
    # The rounding error of n summands of any sign, where a slope vanishes.
    nothing = _LAST_BITS * len(scores) * (float(problem.costs.sum()) + abs(problem.intercept_cost))
    first = last = kink
    if rising > 1 and near[0] == far[0] >= -nothing:
        first = float(kinks[_first_rising(problem, scores, between, -nothing)])
    if rising < len(kinks) and near[1] == far[1] <= nothing:
        more = np.nextafter(nothing, np.inf)
        rise = 0 if beyond >= more else _first_rising(problem, scores, between[rising:], more)
        last = float(kinks[rising + rise])
    if first < last:
        return first + 0.5 * (last - first)
    # A piece on which h' is not constant may have its zero inside.
    return kink if near == far else _zero(slope, low, high)


def _slopes(problem: Problem, scores: Array, probes: Array) -> Array:
    """h' at each probe, (k,): summed in the same order, so that equal terms have equal sums."""
    t = scores + probes[:, None]
    y = problem.y[None].repeat(len(probes), axis=0).ravel()
    terms = problem.loss.subgradient(t.ravel(), y).reshape(t.shape) * problem.costs
    return np.asarray(terms.sum(axis=1) + problem.intercept_cost)


def _first_rising(problem: Problem, scores: Array, probes: Array, slope: float) -> int:
    """The index of the first probe, in increasing order, where h' is at least a slope: several are tried at a time."""
    low, high, at_once = 0, len(probes), max(1, _AT_ONCE // len(scores))
    while low < high:
        if high - low <= at_once:
            tried = np.arange(low, high)
        else:
            tried = low + (high - low) * np.arange(1, at_once + 1) // (at_once + 1)
        rising = _slopes(problem, scores, probes[tried]) >= slope
        first = int(rising.argmax()) if rising.any() else len(tried)
        low = low if first == 0 else int(tried[first - 1]) + 1
        high = high if first == len(tried) else int(tried[first])
    return low


def _expand(slope: Callable[[float], float], centre: float) -> tuple[float, float]:
    """An interval around a centre with slope(low) < 0 <= slope(high), if there is one among the floats."""
    below = above = 1.0 + abs(centre)
    while slope(centre - below) >= 0.0 and below < _FARTHEST:
        below *= 2.0
    while slope(centre + above) < 0.0 and above < _FARTHEST:
        above *= 2.0
    return centre - below, centre + above


def _zero(slope: Callable[[float], float], low: float, high: float) -> float:
    """A zero of a non-decreasing function, to the last bits, or the end where it is 0 or of the wrong sign.

    False position after Illinois, in which every fourth step halves the interval. Absurd scores, whose slope is no
    number, have an answer as well.
    """
    below, above, side = slope(low), slope(high), 0
    if not below < 0.0:
        return low
    if not above > 0.0:
        return high
    for step in range(_STEPS):
        bits = _LAST_BITS * max(abs(low), abs(high))
        if high - low <= bits:
            break
        b = high - above * ((high - low) / (above - below))
        if step % 4 == 3 or not low < b < high:
            b = 0.5 * (low + high)
        b = min(max(b, low + 0.9 * bits), high - 0.9 * bits)  # past the zero, if an end is next to it
        value = slope(b)
        if value == 0.0:
            return b
        if value > 0.0:
            high, above, below, side = b, value, 0.5 * below if side > 0 else below, 1
        else:
            low, below, above, side = b, value, 0.5 * above if side < 0 else above, -1
    return high
