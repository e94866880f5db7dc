"""Plain reduced gradient on the simplex of weights: the third algorithm of SimpleMKL's Table 1."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from mklref._validate import checked_choice
from mklref.algorithms.base import Run, algorithm
from mklref.algorithms.point import Point
from mklref.algorithms.simplemkl import (
    STOPS,
    descent_direction,
    line_search,
    longest_step,
    measured,
    moved,
    too_short,
)
from mklref.problem import on_the_simplex


@algorithm(
    on_the_simplex, "weights on the simplex, Lp(1)", remedy="For Lp(p) with p > 1: lp_wrapper or sip.", max_iter=5000
)
def gradient_descent(run: Run, *, stop: str = "gap") -> Iterator[Point]:
    """l1-MKL by reduced gradient steps, each with a gradient of its own.

    minimise J(d)  subject to  d >= 0,  1'd = 1

    It is `simplemkl` without the correction of the direction: after every line search the gradient is computed afresh.
    A step can take only one weight to 0, so that there are at least as many steps as weights that vanish.

    Parameters
    ----------
    stop : {"gap", "kkt", "weights"}
        As for `simplemkl`.
    """
    run.stop = checked_choice("stop", stop, STOPS)
    point = run.svm(run.start)
    before: Point | None = None
    while True:
        gradient = run.gradient(point)
        run.measures = measured(point, gradient, before)
        yield point
        before = point
        D = descent_direction(point.weights, gradient, int(np.argmax(point.weights)))
        if not D.any():
            return
        nu, longest = longest_step(point.weights, D)
        end = run.trial(moved(point.weights, D, longest, nu))
        if not too_short(run, point, end, longest * float(gradient @ D)):
            end = min(end, line_search(run, point, D, longest), key=lambda candidate: candidate.value)
        if end is before:
            return
        point = run.completed(end)
