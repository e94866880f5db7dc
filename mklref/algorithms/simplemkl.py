"""SimpleMKL: reduced gradient on the simplex of weights (Rakotomamonjy et al. 2008, Algorithm 1)."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from mklref._typing import Array
from mklref._validate import checked_choice
from mklref.algorithms.base import Run, algorithm
from mklref.algorithms.point import Point
from mklref.problem import on_the_simplex

STOPS = ("gap", "kkt", "weights")

_GOLDEN = 0.5 * (5.0**0.5 - 1.0)
_PRECISION = 0.1
"""Relative precision of the step that the line search finds."""
_ROUNDING = 4.0 * np.finfo(float).eps
"""Share of a weight that a step to 0 may leave."""
_SHORTEST = 1e-12
"""Share of the longest step below which no decrease is expected any more."""


@algorithm(
    on_the_simplex, "weights on the simplex, Lp(1)", remedy="For Lp(p) with p > 1: lp_wrapper or sip.", max_iter=2000
)
def simplemkl(run: Run, *, stop: str = "gap") -> Iterator[Point]:
    """l1-MKL by descent on J(d), the optimal value of the kernel machine with the kernel sum_m d_m K_m.

    minimise J(d)  subject to  d >= 0,  1'd = 1

    Once a direction is computed, weights are followed to the boundary and the direction is corrected there as long as
    J falls; only then comes a line search, and a new gradient. So a gradient serves many SVM evaluations.

    What is printed and what is done here: the direction also lets a zero weight with a good derivative rise, and its
    component mu balances all others (erratum R1); the corrected direction has D_mu + D_nu, so that the weights keep the
    sum 1 (R2); the inner loop starts whatever the sign of J, and ends where mu itself reaches 0 (R4).

    Parameters
    ----------
    stop : {"gap", "kkt", "weights"}
        What has to fall below tol: the certified gap, relative to the objective, which contains (15); the violation of
        the KKT conditions of 3.3, relative to J; or the largest change of a weight. All three are in the `measures` of
        every record. Only the gap promises anything: with the others the status is OPTIMAL if the certificate agrees,
        and else INACCURATE.
    """
    run.stop = checked_choice("stop", stop, STOPS)
    point = run.svm(run.start)
    before: Point | None = None
    # while stopping criterion not met do
    while True:
        #   compute dJ/dd_m and the descent direction D (14)
        gradient = run.gradient(point)
        run.measures = measured(point, gradient, before)
        yield point
        before = point
        mu = int(np.argmax(point.weights))
        D = descent_direction(point.weights, gradient, mu)
        if not D.any():
            return
        #   while J_dagger < J(d) do {descent direction update}
        while True:
            nu, longest = longest_step(point.weights, D)
            trial = run.trial(moved(point.weights, D, longest, nu))
            if trial.value >= point.value and not too_short(run, point, trial, longest * float(gradient @ D)):
                #   line search along D for gamma in [0, gamma_max]
                point = line_search(run, point, D, longest)
                break
            point = trial
            if point.weights[mu] == 0.0:
                break
            D[(point.weights == 0.0) & (D < 0.0)] = 0.0  # nu, and what reached 0 together with it
            D = balanced(D, mu)  # D_mu + D_nu, where D_mu - D_nu is printed
            if not D.any():
                break
        if point is before:
            return
        point = run.completed(point)


def measured(point: Point, gradient: Array, before: Point | None) -> dict[str, float]:
    """The criteria of 3.3, and the largest change of a weight; free of units.

    gap       (15) as printed is twice max_m (-dJ_m) - sum_m d_m (-dJ_m), the gap of an exact SVM (erratum R5)
    kkt       the spread of dJ_m over positive weights, or how far that of a zero weight lies below them
    weights   max_m |d_m - d_m before|
    """
    positive = gradient[point.weights > 0.0]
    unit = abs(point.value) or 1.0
    return {
        "gap": float(point.weights @ gradient - gradient.min()) / unit,
        "kkt": float(positive.max() - gradient.min()) / unit,
        "weights": np.inf if before is None else float(np.abs(point.weights - before.weights).max()),
    }


def descent_direction(d: Array, gradient: Array, mu: int) -> Array:
    """The negative reduced gradient, with zero weights kept from falling (14), erratum R1.

    D_m = 0 where d_m = 0 and dJ_m > dJ_mu, dJ_mu - dJ_m elsewhere, and D_mu = -sum_{m != mu} D_m.
    """
    D: Array = gradient[mu] - gradient
    D[(d == 0.0) & (D < 0.0)] = 0.0
    return balanced(D, mu)


def balanced(D: Array, mu: int) -> Array:
    """D with D_mu = -sum_{m != mu} D_m, so that a step leaves the sum of the weights at 1."""
    others = np.where(np.arange(len(D)) == mu, 0.0, D)
    others[mu] = -others.sum()
    return others


def longest_step(d: Array, D: Array) -> tuple[int, float]:
    """nu = argmin of -d_m/D_m over D_m < 0, and gamma_max = -d_nu/D_nu, the step at which d_nu becomes 0."""
    falling = np.flatnonzero(D < 0.0)
    steps = -d[falling] / D[falling]
    return int(falling[steps.argmin()]), float(steps.min())


def too_short(run: Run, point: Point, end: Point, fall: float) -> bool:
    """Whether the longest step changes J by no more than its accuracy: a weight next to 0 has to be 0, or stays.

    `fall` is what J would fall on the way were it linear, and a convex function falls no further.
    """
    accuracy = run.precision * abs(point.value)
    return bool(-fall <= accuracy and end.value - point.value <= accuracy)


def moved(d: Array, D: Array, gamma: float, nu: int | None = None) -> Array:
    """d + gamma D, with d_nu exactly 0, and so is every weight of which only a rounding error is left.

    Kernels that are alike reach 0 together. What rounding leaves of one of them would end the next step at once.
    """
    weights: Array = d + gamma * D
    weights[weights <= _ROUNDING * d] = 0.0
    if nu is not None:
        weights[nu] = 0.0
    return weights


def line_search(run: Run, point: Point, D: Array, longest: float) -> Point:
    """The best point of a golden section search for the minimum of J(d + gamma D) on [0, gamma_max].

    J is convex along D. The precision is relative to the step itself, which may be a tiny share of gamma_max.
    """

    def trial(gamma: float) -> tuple[float, Point]:
        return gamma, run.trial(moved(point.weights, D, gamma))

    low, high = 0.0, longest
    left, right = trial((1.0 - _GOLDEN) * longest), trial(_GOLDEN * longest)
    best = point
    while True:
        best = min(best, left[1], right[1], key=lambda candidate: candidate.value)
        if high - low <= _PRECISION * high or high <= _SHORTEST * longest:
            return best
        if left[1].value < right[1].value or left[1].value >= point.value:
            high, right = right[0], left
            left = trial(high - _GOLDEN * (high - low))
        else:
            low, left = left[0], right
            right = trial(low + _GOLDEN * (high - low))
