"""The ten losses with known errors: the box exactly, the primal loss from above, the dual term from below.

With z = 1 - y t (z = -t for the nu one-class machine) and r = |y - t|:

    loss                 V(t, y)                       |V'|, at most     dual term, unit cost         box
    hinge, level set     max(0, z)                     1 where z > 0     y b                          0 <= y b <= 1
    nu one-class         max(0, z)                     1 where z > 0     0                            0 <= b <= 1
    squared hinge        1/2 max(0, z)^2               max(0, z)         y b - b^2/2                  0 <= y b
    logistic             log(1 + exp(-y t))            min(1, V)         -x log x - (1-x) log(1-x)    0 <= x = y b <= 1
    squared              1/2 r^2                       r                 y b - b^2/2                  -
    tube                 max(0, r - eps)               1 where r > eps   y b - eps |b|                |b| <= 1
    squared tube         1/2 max(0, r - eps)^2         max(0, r - eps)   y b - eps |b| - b^2/2        -
    Huber                r^2/2, delta r - delta^2/2    min(r, delta)     y b - b^2/2                  |b| <= delta
    pinball              max(tau (y-t), (1-tau)(t-y))  max(tau, 1-tau)   y b                          tau-1 <= b <= tau

Parameters are the rational numbers that the floats are. The formulas are written out here and not taken from
`mklref.losses`, whose rounding errors are unknown.

Where scores are known up to rounding, the function is taken off the kink of max(0, m - y t), beside the given one. On
the kink, where the free samples of an optimum are, an error of r in a score costs c_i r, which is much where c_i is
large: the allowance for it may be many times the gap. The function times 1 + eta, eta about r, has no loss there, and
since the point is nearly optimal that costs eta sum |beta_i| over the free samples. Where m = 0 (one class) eta is
added to the intercept.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from mklref._typing import Array
from mklref.certificate.exact import dot, log, softplus, total
from mklref.certificate.rounding import Interval, above, below
from mklref.exceptions import NotApplicable
from mklref.losses import (
    DensityLevelSet,
    EpsilonInsensitive,
    Hinge,
    Huber,
    Logistic,
    Loss,
    OneClass,
    Pinball,
    Squared,
    SquaredEpsilonInsensitive,
    SquaredHinge,
)

if TYPE_CHECKING:
    from mklref.problem import Problem


_NEAR = 8.0
"""Scores within so many times their error of the kink may be on it."""
_SPARE, _LAST_BITS = 1.1, 4 * float(np.finfo(float).eps)
"""Eta is taken larger than needed: weights times 1 + eta are rounded, and crossing a kink costs C times as much."""
_FARTHEST = 1e-6
"""Largest relative change of the function: beyond, it would be another point than the given one."""


class Scores(NamedTuple):
    """What the upper bound of one machine takes: problem, scores without b, b, and how far delta moves the scores."""

    problem: Problem
    scores: Interval
    intercept: float
    moved: float


_HALF_SQUARES = SquaredHinge, Squared, SquaredEpsilonInsensitive
SUPPORTED = (Hinge, Logistic, EpsilonInsensitive, OneClass, DensityLevelSet, Huber, Pinball, *_HALF_SQUARES)
STRETCHED = Hinge, DensityLevelSet, OneClass
"""Losses with one kink, off which `stretch` keeps the scores."""


def stretch(problem: Problem, machines: Sequence[Scores], theta: Array, g: Array) -> float:
    """eta: the function times 1 + eta keeps free samples off the kink by the error of their scores.

    Matrices within delta move the scores further, by `moved` at most. Taken where float64 says that it pays; any point
    has a bound. 0 for losses with other kinks, or none.
    """
    if not isinstance(problem.loss, STRETCHED):
        return 0.0
    margin = 0.0 if isinstance(problem.loss, OneClass) else 1.0
    bands, bits = [], _LAST_BITS if margin else 0.0
    for own, scores, b, moved in machines:
        t = scores + b
        bits = bits if margin else max(bits, _LAST_BITS * float(np.abs(t.upper).max()))
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
        candidates.append(_SPARE * max(nearest) + bits)
    return min((eta for eta in candidates if eta <= _FARTHEST), key=estimate)


def stretched(problem: Problem, theta: Array, b: Sequence[float], eta: float) -> tuple[Array, list[float]]:
    """Weights and intercepts of the function times 1 + eta, or with eta on its intercepts."""
    if isinstance(problem.loss, OneClass):
        return theta, [own + eta for own in b]
    return (1.0 + eta) * theta, [(1.0 + eta) * own for own in b]


def require_supported(loss: Loss) -> None:
    """Raise `NotApplicable` if the formulas above are not those of this loss; a subclass may have others."""
    if type(loss) not in SUPPORTED:
        raise NotApplicable(
            f"loss {loss} ({type(loss).__name__}) has no rigorous certificate; those that have are "
            f"{', '.join(kind.name for kind in SUPPORTED)}. Use certify without rigorous=True."
        )


def exact_box(loss: Loss, y: Array, costs: Array) -> tuple[Array, Array]:
    """Floats lower <= upper that bound beta no wider than the true box does; infinite where there is no bound."""
    require_supported(loss)
    none = np.full(len(y), np.inf)
    match loss:
        case Hinge() | Logistic() | OneClass() | DensityLevelSet():
            return np.where(y > 0, 0.0, -costs), np.where(y > 0, costs, 0.0)
        case SquaredHinge():
            return np.where(y > 0, 0.0, -none), np.where(y > 0, none, 0.0)
        case EpsilonInsensitive():
            return -costs, costs
        case Huber(delta=delta):
            bound = _times(delta, costs)
            return -bound, bound
        case Pinball(tau=tau):
            return -np.maximum(0.0, (costs * (1.0 - Interval.point(tau))).lower), _times(tau, costs)
    return -none, none


def _times(factor: float, costs: Array) -> Array:
    """Factor times costs, rounded down; exact for a factor of 1."""
    return costs if factor == 1.0 else np.maximum(0.0, (costs * Interval.point(factor)).lower)


def primal_losses(loss: Loss, t: Interval, y: Array) -> Array:
    """V(t_i, y_i) at the worst score of each interval, from above."""
    require_supported(loss)
    match loss:
        case Logistic():
            return softplus(-(y * t)).upper
        case Huber(delta=delta):
            r = Interval.point(_distance(loss, t, y))
            near = Interval.point(np.minimum(r.upper, delta))
            return (near * (r - 0.5 * near)).upper
        case Pinball(tau=tau):
            r = y - t
            return np.maximum((tau * r).upper, ((1.0 - Interval.point(tau)) * -r).upper)
    x = _distance(loss, t, y)
    return np.asarray(above(0.5 * above(x * x))) if isinstance(loss, _HALF_SQUARES) else x


def slopes(loss: Loss, t: Interval, y: Array) -> Array:
    """The largest |V'(., y_i)| on each interval, from above; V is convex, so it is found at an end."""
    require_supported(loss)
    match loss:
        case Logistic():
            return np.minimum(1.0, primal_losses(loss, t, y))
        case Huber(delta=delta):
            return np.minimum(_distance(loss, t, y), delta)
        case Pinball(tau=tau):
            return np.full(len(y), max(tau, float(above(1.0 - tau))))
    x = _distance(loss, t, y)
    return x if isinstance(loss, _HALF_SQUARES) else (x > 0.0).astype(float)


def dual_term(loss: Loss, beta: Array, y: Array, costs: Array) -> Fraction:
    """-sum_i c_i V*(-beta_i/c_i, y_i) from below, for beta inside the box; exact but for quadratics and logarithms."""
    require_supported(loss)
    if isinstance(loss, Logistic):
        return total(_entropy(np.abs(beta), costs))
    term = Fraction(0) if isinstance(loss, OneClass) else dot(y, beta)
    if isinstance(loss, EpsilonInsensitive | SquaredEpsilonInsensitive):
        term -= Fraction(loss.epsilon) * total(np.abs(beta))
    return term - _half_squares(beta, costs) if isinstance(loss, (*_HALF_SQUARES, Huber)) else term


def _distance(loss: Loss, t: Interval, y: Array) -> Array:
    """max(0, z), |y - t| or max(0, |y - t| - eps) from above: V of most losses, or what V is half the square of."""
    match loss:
        case Squared() | Huber():
            return (y - t).magnitude
        case EpsilonInsensitive(epsilon=epsilon) | SquaredEpsilonInsensitive(epsilon=epsilon):
            excess = (y - t).magnitude - epsilon
        case _:
            margin = 0.0 if isinstance(loss, OneClass) else 1.0
            excess = margin - np.where(y > 0, t.lower, -t.upper)
    return np.asarray(np.maximum(0.0, above(excess)))


def _half_squares(beta: Array, costs: Array) -> Fraction:
    """sum beta_i^2/(2 c_i) from above."""
    return total(above(above(beta * beta) / costs)) / 2


def _entropy(a: Array, costs: Array) -> Array:
    """-a log(a/c) - (c - a) log((c - a)/c) from below, for 0 <= a <= c."""
    part = Interval.point(a)
    rest = costs - part
    return np.asarray(below(_share(part, rest, costs) + _share(rest, part, costs)))


def _share(part: Interval, rest: Interval, costs: Array) -> Array:
    """-x log(x/c) >= x (c - x)/c from below for 0 <= x <= c; 0, which it is never below, where x may be 0.

    The second bound is the sharper one where c - x is so small that rounding of x/c is more.
    """
    positive = part.lower > 0.0
    x = Interval(np.where(positive, part.lower, costs), np.where(positive, part.upper, costs))
    ratio = x / costs
    bound = -(x * log(Interval(ratio.lower, np.minimum(1.0, ratio.upper))))
    simple = x * (rest / costs)
    return np.where(positive, np.maximum(np.maximum(0.0, simple.lower), bound.lower), 0.0)
