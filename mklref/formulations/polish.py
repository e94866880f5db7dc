r"""The last digits of a conic solver's point.

A dual error of eps costs the hinge loss a primal gap of about sqrt(eps): interior-point multipliers satisfy the
box only approximately, and every margin with them. Given theta, and the samples whose beta_i lies strictly inside
its interval (the free ones, F), stationarity is a linear system in beta_F and b: with K = sum_m theta_m K_m,

    (K beta)_i + b + curvature beta_i / c_i = linear_i - absolute sign(beta_i)   for i in F,       1'beta = c_b

for a loss whose dual term is piecewise linear-quadratic (`QuadraticDual`). Which samples are free is a guess from
the solver's point at several tolerances; the certificate, which is valid at every point, picks the best outcome.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from mklref._typing import Array
from mklref.certificate import Certificate, certify
from mklref.formulations.base import Point
from mklref.problem import Problem

SNAP = (1e-8, 1e-6, 1e-5, 1e-4)
"""Distances from a bound, relative to the cost of the sample, within which beta_i is taken to lie on it."""

_ENOUGH = 1e-12
"""Relative gap at which there is nothing left to improve."""


def assess(problem: Problem, point: Point) -> tuple[Point, Certificate]:
    """The point with its certificate, at the solver's intercept or at the best one, whichever is better."""
    certificate = certify(problem, point.dual_coef, weights=point.weights, intercept=point.intercept)
    if certificate.better_upper >= certificate.upper:
        return point, certificate
    better = point._replace(intercept=certificate.better_intercept)
    return better, certify(problem, better.dual_coef, weights=better.weights, intercept=better.intercept)


def polish(problem: Problem, point: Point) -> tuple[Point, Certificate]:
    """The best of the solver's point and its refinements, by certified gap."""
    best = assess(problem, point)
    for candidate in _candidates(problem, point):
        if best[1].relative_gap <= _ENOUGH:
            break
        best = min(best, assess(problem, candidate), key=lambda pair: _rank(pair[1]))
    return best


def _rank(certificate: Certificate) -> float:
    """Smaller is better; a gap that is not a number loses."""
    return certificate.gap if np.isfinite(certificate.gap) else np.inf


def _candidates(problem: Problem, point: Point) -> Iterator[Point]:
    """Stationary points for each guess of the free samples, then the closed form of the weights."""
    seen: set[bytes] = set()
    for tolerance in SNAP:
        snapped = _snap(problem, point.dual_coef, tolerance)
        if snapped is None or snapped.tobytes() in seen:
            continue
        seen.add(snapped.tobytes())
        yield _stationary(problem, point, snapped)
    g = np.sqrt(np.maximum(problem.kernels.quadratic(point.dual_coef), 0.0))
    yield point._replace(weights=problem.regularizer.weights_from_dual(g))


def _snap(problem: Problem, beta: Array, tolerance: float) -> Array | None:
    """Beta with its near-bound entries on their bounds, and with its other entries left alone."""
    terms = problem.loss.quadratic_dual(problem.y)
    if terms is None:
        return None
    snapped = beta.copy()
    margin = tolerance * problem.costs
    for bound in (problem.costs * terms.lower, problem.costs * terms.upper, 0.0 * beta if terms.absolute else None):
        if bound is not None:
            snapped = np.where(np.abs(snapped - bound) <= margin, bound, snapped)
    return np.asarray(np.clip(snapped, problem.costs * terms.lower, problem.costs * terms.upper))


def _stationary(problem: Problem, point: Point, beta: Array) -> Point:
    """Solve the stationarity conditions of the free samples for beta_F and b, in the least-squares sense."""
    terms = problem.loss.quadratic_dual(problem.y)
    assert terms is not None
    free = (beta > problem.costs * terms.lower) & (beta < problem.costs * terms.upper)
    if terms.absolute:
        free &= beta != 0.0
    k = int(free.sum())
    if k == 0:
        return point._replace(dual_coef=beta)
    K = problem.kernels.combine(point.weights)
    size = k + int(problem.intercept)
    system, target = np.zeros((size, size)), np.zeros(size)
    system[:k, :k] = K[np.ix_(free, free)] + np.diag(terms.curvature / problem.costs[free])
    target[:k] = terms.linear[free] - terms.absolute * np.sign(beta[free]) - K[np.ix_(free, ~free)] @ beta[~free]
    if problem.intercept:
        system[:k, k] = system[k, :k] = 1.0
        target[k] = problem.intercept_cost - beta[~free].sum()
    # A step from the solver's point, not a fresh solution: of many (K may be singular) the nearest one is wanted.
    start = np.append(beta[free], point.intercept)[:size]
    step = np.linalg.lstsq(system, target - system @ start, rcond=1e-13)[0]
    solved = beta.copy()
    solved[free] = start[:k] + step[:k]
    return point._replace(dual_coef=solved, intercept=float(start[k] + step[k]) if problem.intercept else 0.0)
