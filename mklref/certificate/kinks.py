"""Off the kink of max(0, m - y t): where scores are known up to rounding, the function beside the given one.

On the kink, where the free samples of an optimum are, an error of r in a score costs c_i r, which is much where c_i is
large: the allowance for it may be many times the gap. The function times 1 + eta, eta about r, has no loss there, and
since the point is nearly optimal that costs eta sum |beta_i| over the free samples. Where m = 0 (one class) eta is
added to the intercept.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from mklref._typing import Array
from mklref.certificate.rounding import Interval
from mklref.losses import DensityLevelSet, Hinge, OneClass

if TYPE_CHECKING:
    from mklref.problem import Problem

_NEAR = 8.0
"""Scores within so many times their error of the kink may be on it."""
_FARTHEST = 1e-6
"""Relative change of a function beyond which it would be another point, and not the given one without its kinks."""


class Scores(NamedTuple):
    """What one machine has to be bounded from above: its problem, scores without b, b, and how far delta moves them."""

    problem: Problem
    scores: Interval
    intercept: float
    moved: float


def stretch(problem: Problem, machines: Sequence[Scores], theta: Array, g: Array) -> float:
    """eta: the function times 1 + eta keeps free samples off the kink by the error of their scores.

    Matrices within delta move the scores further, by `moved` at most. Taken where float64 says that it pays; any point
    has a bound. 0 for losses with other kinks, or none.
    """
    if not isinstance(problem.loss, Hinge | DensityLevelSet | OneClass):
        return 0.0
    margin = 0.0 if isinstance(problem.loss, OneClass) else 1.0
    bands = []
    for own, scores, b, moved in machines:
        t = scores + b
        bands.append((own, margin - own.y * (0.5 * t.lower + 0.5 * t.upper), 0.5 * (t.upper - t.lower), moved))

    def estimate(eta: float) -> float:
        factor, shift = (1.0 + eta, 0.0) if margin else (1.0, eta)
        value = problem.regularizer.value(factor * theta * g) + problem.intercept_cost * shift
        for own, z, r, moved in bands:
            excess = margin - factor * (margin - z) - shift + factor * r
            pull = moved * float(np.linalg.norm(own.costs[excess + moved > 0.0]))
            value += float(own.costs @ np.maximum(0.0, excess)) + pull
        return value

    candidates = [0.0]
    for share in (0.0, 1.0):
        reaches = [(z, r + share * moved) for _, z, r, moved in bands]
        nearest = (float(np.max(z + reach, initial=0.0, where=abs(z) <= _NEAR * reach)) for z, reach in reaches)
        candidates.append(1.01 * max(nearest))
    return min((eta for eta in candidates if eta <= _FARTHEST), key=estimate)


def stretched(problem: Problem, theta: Array, b: Sequence[float], eta: float) -> tuple[Array, list[float]]:
    """Weights and intercepts of the function times 1 + eta, or with eta on its intercepts."""
    if isinstance(problem.loss, OneClass):
        return theta, [own + eta for own in b]
    return (1.0 + eta) * theta, [(1.0 + eta) * own for own in b]
