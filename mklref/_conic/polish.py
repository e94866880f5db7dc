r"""The last digits of a conic solver's point.

A dual error of eps costs the hinge loss a primal gap of about sqrt(eps): interior-point multipliers satisfy the
box only approximately, and every margin with them. What such a point does tell reliably is its active set: which
beta_i lie strictly inside their intervals, and which weights are positive. Given both, optimality is a system of
equations (`stationary`). The active sets are guesses at several tolerances; the certificate, which is valid at
every point, picks the best outcome, and the solver's own point if nothing is better.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from mklref._conic.kinks import kink
from mklref._conic.point import Point
from mklref._conic.stationary import Mask, with_fixed_weights, with_free_weights
from mklref._typing import Array
from mklref.certificate import Certificate, certify
from mklref.certificate.allowance import squares_error
from mklref.certificate.unit import relative
from mklref.losses.base import QuadraticDual
from mklref.problem import Problem

SNAP = (1e-4, 1e-5, 1e-6, 1e-8)
"""Distances from a bound, relative to the cost of the sample, within which beta_i is taken to lie on it; those that
leave the smallest systems come first."""

NEGLIGIBLE = (1e-4, 1e-6)
"""Weights, relative to the largest one, below which a kernel is taken to be inactive."""

_ENOUGH = 1e-12
"""Relative gap at which there is nothing left to improve."""
_ROUNDED = 1e-10
"""The same where half of the gap is an allowance for rounding."""


def polish(problem: Problem, point: Point) -> tuple[Point, Certificate]:
    """The best of the solver's point and its refinements, by certified gap."""
    best = assess(problem, point)
    for candidate in _candidates(problem, point):
        rounding = 2.0 * relative(best[1].rounding, best[1].size)
        if best[1].relative_gap <= max(_ENOUGH, min(rounding, _ROUNDED)):
            break
        if all(np.all(np.isfinite(part)) for part in candidate):
            best = min(best, assess(problem, candidate), key=lambda pair: _rank(pair[1]))
    return best


def assess(problem: Problem, point: Point) -> tuple[Point, Certificate]:
    """The point with its certificate, at its own intercept or at the best one, whichever is better."""
    certificate = certify(problem, point.dual_coef, weights=point.weights, intercept=point.intercept)
    if certificate.better_upper >= certificate.objective:
        return point, certificate
    better = point._replace(intercept=certificate.better_intercept)
    return better, certify(problem, better.dual_coef, weights=better.weights, intercept=better.intercept)


def _rank(certificate: Certificate) -> float:
    """Smaller is better; a gap that is not a number loses."""
    return certificate.gap if np.isfinite(certificate.gap) else np.inf


def _candidates(problem: Problem, point: Point) -> Iterator[Point]:
    """Stationary points for the given weights, then for those that the regulariser gives the norms and the dual point.

    At an optimum all three are the same weights; off it, the closed forms at least satisfy all constraints. A norm that
    is nothing but rounding counts as 0: weights rho/g are enormous there, and so is the rounding in their scores.
    """
    images = problem.kernels.apply(point.dual_coef)
    squares = images @ point.dual_coef
    g = np.sqrt(np.where(squares > squares_error(problem, point.dual_coef, images), squares, 0.0))
    yield from _stationary_points(problem, point)
    from_norms = point._replace(weights=problem.regularizer.weights_from_norms(np.maximum(point.weights, 0.0) * g))
    yield from_norms
    yield from _stationary_points(problem, from_norms)
    yield point._replace(weights=problem.regularizer.weights_from_dual(g))


def _stationary_points(problem: Problem, point: Point) -> Iterator[Point]:
    """One for each guess of the active sets."""
    terms = problem.loss.quadratic_dual(problem.y)
    if terms is None:
        return
    squares = np.maximum(problem.kernels.quadratic(point.dual_coef), 0.0)
    has_kinks = kink(problem.regularizer, squares) is not None
    seen: set[bytes] = set()
    for tolerance in SNAP:
        beta, free = _snap(problem, terms, point.dual_coef, tolerance)
        if free.tobytes() in seen:
            continue
        seen.add(free.tobytes())
        start = point._replace(dual_coef=beta)
        yield with_fixed_weights(problem, terms, start, free)
        for threshold in NEGLIGIBLE if has_kinks else ():
            yield with_free_weights(problem, terms, start, free, threshold)


def _snap(problem: Problem, terms: QuadraticDual, beta: Array, tolerance: float) -> tuple[Array, Mask]:
    """Beta with its near-bound entries on their bounds, and which entries are strictly inside."""
    lower, upper = problem.costs * terms.lower, problem.costs * terms.upper
    margin = tolerance * problem.costs
    snapped = np.clip(beta, lower, upper)
    snapped = np.where(snapped - lower <= margin, lower, snapped)
    snapped = np.where(upper - snapped <= margin, upper, snapped)
    free = (snapped > lower) & (snapped < upper)
    if terms.absolute:  # the kink of |beta_i| at 0 holds an entry as a bound does
        snapped = np.where(np.abs(snapped) <= margin, 0.0, snapped)
        free &= snapped != 0.0
    return snapped, free
