"""The extended level method: cutting planes with short steps (Xu, Jin, King and Lyu 2009)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from mklref._typing import Array
from mklref._validate import checked_number
from mklref.algorithms.base import Callback, Run, require
from mklref.algorithms.cuts import linear_master, mixture, remaining
from mklref.algorithms.point import Point
from mklref.algorithms.simplex import simplex_program
from mklref.algorithms.start import AnyProblem, AnySolution, on_the_simplex


def level(
    problem: AnyProblem,
    *,
    tol: float = 1e-4,
    max_iter: int = 1000,
    max_time: float | None = None,
    callback: Callback | None = None,
    progress: bool = False,
    start: AnySolution | None = None,
    position: float = 0.9,
) -> AnySolution:
    """l1-MKL by cutting planes, with the next weights as near as possible to the last ones.

    lower = min over the simplex of the cuts,   upper = the smallest J so far,
    level = position * upper + (1 - position) * lower

    `silp` jumps to the minimiser of the cuts, far from everything that is known. The level method only projects the
    weights onto the set where all cuts lie below the level, which tames the oscillations. The number of iterations to a
    gap of eps is of the order 1/eps^2 at worst, and in practice far smaller.

    Parameters
    ----------
    problem : Problem or MulticlassProblem
        With regularizer Lp(1), any loss.
    tol, max_iter, max_time, callback, progress, start
        As for every algorithm: `mklref.algorithms.base.Run`. `start` gives the first weights.
    position : float
        Where the level lies between the bounds, in (0, 1): near 1 steps are short, at 0 they would be those of `silp`.

    Returns
    -------
    Solution or MulticlassSolution

    Raises
    ------
    NotApplicable
        For other regularisers.
    InvalidParameter
        A position outside (0, 1).
    """
    remedy = "For Lp(p) with p > 1: sip or lp_wrapper."
    require(on_the_simplex(problem), "level", problem, "weights on the simplex, Lp(1)", remedy)
    checked = _checked(position)
    run = Run("level", problem, tol, max_iter, max_time, callback, progress, start)
    return run.follow(_steps(run, checked))


def _steps(run: Run, position: float) -> Iterator[Point]:
    theta = run.start
    cuts: list[Point] = []
    master = None
    while True:
        # 1. The machine at theta: a value of J and a cut.
        point = run.svm(theta)
        run.gradient(point)
        cuts.append(point)
        yield point
        # 2. The bounds: the cuts from below by a linear program, the best J from above.
        master = linear_master(cuts, master)
        if master is None:
            return
        best = min(cuts, key=lambda cut: cut.value)
        if best.value - master.value <= run.tol * abs(best.value):
            proof = mixture(run, cuts, master)
            if run.reached(proof):
                yield proof
        # 3. The projection of theta onto the level set of the cuts.
        height = position * best.value + (1.0 - position) * master.value
        nearest = projection(theta, cuts, height, remaining(best.value, master.value))
        if nearest is None:
            return
        theta = nearest


def projection(theta: Array, cuts: Sequence[Point], height: float, unit: float) -> Array | None:
    """The nearest weights z of the simplex with S_k - 1/2 q_k'z <= height for every cut, in units of the gap.

    As 1'z = 1, a row reads -1/2 (q_k - (q_k'theta) 1)'z <= height - (S_k - 1/2 q_k'theta), free of cancellation.
    """
    slopes = [-0.5 * (cut.squares - float(cut.squares @ theta)) / unit for cut in cuts]
    bounds = [(height - cut.cut(theta)) / unit for cut in cuts]
    return simplex_program(np.eye(len(theta)), -theta, theta, np.array(slopes), np.array(bounds))


def _checked(position: Any) -> float:
    between = "that of the level between the bounds."
    return checked_number("position", position, "(0, 1)", lambda x: 0.0 < x < 1.0, between)
