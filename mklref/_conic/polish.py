r"""From a recovered point to the fields of a solution: certified as it is, and polished to the last digits.

A dual error of eps costs the hinge loss a primal gap of about sqrt(eps): interior-point multipliers satisfy the
box only approximately, and every margin with them. What such a point does tell reliably is its active set: which
beta_i lie strictly inside their intervals, and which weights are positive. Given both, optimality is a system of
equations (`mklref._polish`). The active sets are guesses at several tolerances; the certificate, which is valid at
every point, picks the best outcome, and the solver's own point if nothing is better.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np

from mklref._conic.signed import SignedPoint, Span, newton as signed_newton
from mklref._polish import Samples, improved, newton
from mklref._typing import Array
from mklref.certificate import Certificate, certify
from mklref.certificate.bounds import relative
from mklref.certificate.intercept import middle_intercept
from mklref.problem import Point, Problem, dual_norms
from mklref.regularizers import Fixed


def certified(problem: Any, point: Any) -> dict[str, Any]:
    """The point and the certificate at exactly it, by the names of a solution's fields."""
    if problem.signed:
        return {**point._asdict(), "certificate": problem.certify(*point)}
    certificate = certify(problem, point.dual_coef, weights=point.weights, intercept=point.intercept)
    return {**point._asdict(), "certificate": certificate}


def polished(problem: Any, point: Any) -> dict[str, Any]:
    """The best refinement of the point, or the point itself, with its certificate."""
    if problem.signed:
        return _polished_signed(problem, point)
    best, certificate = polish(problem, point)
    return {**best._asdict(), "certificate": certificate}


@np.errstate(all="ignore")
def _polished_signed(problem: Any, point: SignedPoint) -> dict[str, Any]:
    """The point or step of smallest gap, at the intercept that it has or at the best one for its scores."""
    found: list[dict[str, Any]] = []
    for candidate in itertools.chain([point], _steps(problem, point)):
        scores = problem.kernels.combine(candidate.weights) @ candidate.dual_coef
        intercepts = candidate.intercept, *([middle_intercept(problem, scores)] if problem.intercept else [])
        found += [certified(problem, candidate._replace(intercept=b)) for b in intercepts]
        best = min(found, key=lambda facts: abs(facts["certificate"].gap))
        if _enough(best["certificate"]):
            break
    return best


def _steps(problem: Any, point: SignedPoint) -> Iterator[SignedPoint]:
    """Newton's method for each guess of the null space of the kernel and of the active set."""
    span, samples = Span(problem), Samples(problem)
    for null in span.null_spaces(problem, point):
        for tolerance in _active_sets(samples, point.dual_coef):
            yield from signed_newton(problem, span, point, tolerance, null)


SNAP = (1e-4, 1e-5, 1e-6, 1e-8)
"""Distances from a bound, relative to the cost of the sample, within which beta_i is taken to lie on it; those that
leave the smallest systems come first."""

NEGLIGIBLE = (1e-4, 1e-6)
"""Shares of theta'q, relative to the largest one, below which a kernel is taken to be inactive."""

_ENOUGH = 1e-12
"""Relative gap at which there is nothing left to improve."""
_ROUNDED = 1e-10
"""The same where half of the gap is an allowance for rounding."""


def polish(problem: Problem, point: Point) -> tuple[Point, Certificate]:
    """The best of the solver's point and its refinements, by certified gap."""
    with np.errstate(all="ignore"):
        return improved(problem, point, _candidates(problem, point), _enough)


def _enough(certificate: Certificate) -> bool:
    rounding = 2.0 * relative(certificate.rounding, certificate.size)
    return certificate.relative_gap <= max(_ENOUGH, min(rounding, _ROUNDED))


def _candidates(problem: Problem, point: Point) -> Iterator[Point]:
    """Stationary points for the given weights, then for those that the regulariser gives the norms and the dual point.

    At an optimum all three are the same weights; off it, the closed forms at least satisfy all constraints. Last f = 0,
    which is beyond every solver where it is optimal and costs nothing: what is left of its objective has no unit.
    """
    g = dual_norms(problem, point.dual_coef)
    yield from _stationary_points(problem, point)
    from_norms = point._replace(weights=problem.regularizer.weights_from_norms(np.maximum(point.weights, 0.0) * g))
    yield from_norms
    yield from _stationary_points(problem, from_norms)
    yield point._replace(weights=problem.regularizer.weights_from_dual(g))
    if not problem.intercept_cost:
        yield point._replace(dual_coef=np.zeros_like(point.dual_coef))


def _stationary_points(problem: Problem, point: Point) -> Iterator[Point]:
    """For each guess of the active sets: the machines at the weights as they are, then all equations together."""
    samples, regularizer = Samples(problem), problem.regularizer
    beta = np.concatenate(problem.split(point.dual_coef))
    g = dual_norms(problem, point.dual_coef)
    kinked = regularizer.polyhedral(problem.n_kernels) is not None or regularizer.parts(g) is not None
    weights = np.maximum(point.weights, 0.0)
    fixed = Fixed(weights) if weights.any() and np.isfinite(weights).all() else None
    for tolerance in _active_sets(samples, beta):
        if fixed is not None:
            yield from newton(problem, fixed, point, tolerance, steps=1)
        for share in NEGLIGIBLE[: 1 + kinked]:
            yield from newton(problem, regularizer, point, tolerance, share)


def _active_sets(samples: Samples, beta: Array) -> Iterator[float]:
    """Tolerances that leave different samples inside their bounds, also where beta is tiny beside the costs."""
    seen: set[bytes] = set()
    share = min(1.0, float(np.abs(beta).max() / samples.costs.max()))
    for tolerance in (*SNAP, *(share * tolerance for tolerance in SNAP)):
        free = samples.snapped(beta, tolerance)[1].tobytes()
        if free not in seen:
            seen.add(free)
            yield tolerance
