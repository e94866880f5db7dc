"""The extended level method: cutting planes with short steps (Xu, Jin, King and Lyu 2009)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from mklref._typing import Array
from mklref._validate import checked_number
from mklref.algorithms.base import Run, algorithm
from mklref.algorithms.cuts import linear_master, proof, remaining, simplex_program
from mklref.algorithms.point import Point
from mklref.problem import on_the_simplex


@algorithm(on_the_simplex, "weights on the simplex, Lp(1)", remedy="For Lp(p) with p > 1: sip or lp_wrapper.")
def level(run: Run, *, position: float = 0.9) -> Iterator[Point]:
    """l1-MKL by cutting planes, with the next weights as near as possible to the last ones.

    lower = min over the simplex of the cuts,   upper = the smallest J so far,
    level = position * upper + (1 - position) * lower

    `silp` jumps to the minimiser of the cuts, far from everything that is known. The level method only projects the
    weights onto the set where all cuts lie below the level, which tames the oscillations. The number of iterations to a
    gap of eps is of the order 1/eps^2 at worst, and in practice far smaller.

    Parameters
    ----------
    position : float
        Where the level lies between the bounds, in (0, 1): near 1 steps are short, at 0 they would be those of `silp`.
    """
    position = checked_number("position", position, "(0, 1)", "between the bounds.")
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
        yield from proof(run, cuts, master, master.value, best.value)
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
