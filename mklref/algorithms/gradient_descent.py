"""Plain reduced gradient on the simplex of weights: the third algorithm of SimpleMKL's Table 1."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from mklref.algorithms.base import Callback, Run
from mklref.algorithms.point import Point
from mklref.algorithms.simplemkl import descent_direction, line_search, longest_step, measured, moved, prepared
from mklref.algorithms.start import AnyProblem, AnySolution
from mklref.solution import Status


def gradient_descent(
    problem: AnyProblem,
    *,
    tol: float = 1e-4,
    max_iter: int = 5000,
    max_time: float | None = None,
    callback: Callback | None = None,
    progress: bool = False,
    start: AnySolution | None = None,
    stop: str = "gap",
) -> AnySolution:
    """l1-MKL by reduced gradient steps, each with a gradient of its own.

    minimise J(d)  subject to  d >= 0,  1'd = 1

    It is `simplemkl` without the correction of the direction: after every line search the gradient is computed afresh.
    A step can take only one weight to 0, so that there are at least as many steps as weights that vanish.

    Parameters
    ----------
    problem : Problem or MulticlassProblem
        With regularizer Lp(1), any loss.
    tol, max_iter, max_time, callback, progress, start
        As for every algorithm: `mklref.algorithms.base.Run`. `start` gives the first weights.
    stop : {"gap", "kkt", "weights"}
        As for `simplemkl`.

    Returns
    -------
    Solution or MulticlassSolution

    Raises
    ------
    NotApplicable
        For other regularisers.
    InvalidParameter
        An unknown stop.
    """
    run = prepared("gradient_descent", problem, stop, tol, max_iter, max_time, callback, progress, start)
    return run.follow(_steps(run, stop))


def _steps(run: Run, stop: str) -> Iterator[Point]:
    point = run.svm(run.start)
    before: Point | None = None
    while True:
        gradient = run.gradient(point)
        criteria = run.measures = measured(point, gradient, before)
        yield point
        if stop != "gap" and criteria[stop] <= run.tol:
            run.ending = Status.INACCURATE
            return
        before = point
        D = descent_direction(point.weights, gradient, int(np.argmax(point.weights)))
        if not D.any():
            return
        nu, longest = longest_step(point.weights, D)
        end = run.svm(moved(point.weights, D, longest, nu))
        point = min(end, line_search(run, point, D, longest), key=lambda candidate: candidate.value)
        if point is before:
            return
