r"""The last digits of a conic solver's point.

A dual error of eps costs the hinge loss a primal gap of about sqrt(eps): interior-point multipliers satisfy the
box only approximately, and every margin with them. What such a point does tell reliably is its active set: which
beta_i lie strictly inside their intervals (the free samples F), and which weights are positive (the kernels A).
Given the two, stationarity is a system of equations. For a loss with a piecewise linear-quadratic dual term
(`QuadraticDual`), and K = sum_m theta_m K_m,

    (K beta)_i + b + curvature beta_i / c_i = linear_i - absolute sign(beta_i)    for i in F,    1'beta = c_b

which is linear for fixed theta. The error of theta enters the gap in second order only, unless the weights have
kinks as at p = 1; there theta joins the unknowns, with the conditions of the simplex,

    beta'K_m beta = lambda    for m in A,    sum_m theta_m = 1

and Newton's method takes a few steps. The active sets are guesses at several tolerances; the certificate, which
is valid at every point, picks the best outcome, and the solver's own point if nothing is better.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from mklref._typing import Array
from mklref.certificate import Certificate, certify
from mklref.formulations.base import Point
from mklref.losses.base import QuadraticDual
from mklref.problem import Problem
from mklref.regularizers import Lp

Mask: TypeAlias = NDArray[np.bool_]

SNAP = (1e-8, 1e-6, 1e-5, 1e-4)
"""Distances from a bound, relative to the cost of the sample, within which beta_i is taken to lie on it."""

NEGLIGIBLE = (1e-4, 1e-6)
"""Weights, relative to the largest one, below which a kernel is taken to be inactive."""

_ENOUGH = 1e-12
"""Relative gap at which there is nothing left to improve."""

_NEWTON_STEPS = 3


def polish(problem: Problem, point: Point) -> tuple[Point, Certificate]:
    """The best of the solver's point and its refinements, by certified gap."""
    best = assess(problem, point)
    for candidate in _candidates(problem, point):
        if best[1].relative_gap <= _ENOUGH:
            break
        best = min(best, assess(problem, candidate), key=lambda pair: _rank(pair[1]))
    return best


def assess(problem: Problem, point: Point) -> tuple[Point, Certificate]:
    """The point with its certificate, at its own intercept or at the best one, whichever is better."""
    certificate = certify(problem, point.dual_coef, weights=point.weights, intercept=point.intercept)
    if certificate.better_upper >= certificate.upper:
        return point, certificate
    better = point._replace(intercept=certificate.better_intercept)
    return better, certify(problem, better.dual_coef, weights=better.weights, intercept=better.intercept)


def _rank(certificate: Certificate) -> float:
    """Smaller is better; a gap that is not a number loses."""
    return certificate.gap if np.isfinite(certificate.gap) else np.inf


def _candidates(problem: Problem, point: Point) -> Iterator[Point]:
    """Stationary points for each guess of the active sets, then the closed form of the weights."""
    terms = problem.loss.quadratic_dual(problem.y)
    seen: set[bytes] = set()
    for tolerance in SNAP if terms is not None else ():
        assert terms is not None
        beta, free = _snap(problem, terms, point.dual_coef, tolerance)
        if free.tobytes() in seen:
            continue
        seen.add(free.tobytes())
        start = point._replace(dual_coef=beta)
        yield _newton_step(problem, terms, start, free, np.zeros(problem.n_kernels, dtype=bool))
        if isinstance(problem.regularizer, Lp) and problem.regularizer.p == 1.0:
            for threshold in NEGLIGIBLE:
                yield _on_the_simplex(problem, terms, start, free, threshold)
    g = np.sqrt(np.maximum(problem.kernels.quadratic(point.dual_coef), 0.0))
    yield point._replace(weights=problem.regularizer.weights_from_dual(g))


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


def _on_the_simplex(problem: Problem, terms: QuadraticDual, point: Point, free: Mask, threshold: float) -> Point:
    """Newton's method in beta_F, b and theta_A for p = 1."""
    active = point.weights > threshold * point.weights.max()
    theta = np.where(active, point.weights, 0.0)
    point = point._replace(weights=theta / theta.sum())
    for _ in range(_NEWTON_STEPS):
        point = _newton_step(problem, terms, point, free, active)
    return point._replace(weights=np.maximum(point.weights, 0.0))


def _newton_step(problem: Problem, terms: QuadraticDual, point: Point, free: Mask, active: Mask) -> Point:
    """One Newton step for the stationarity conditions; theta stays where no kernel is active.

    The unknowns are beta_F, theta_A, lambda (with A) and b (with an intercept). The matrix is symmetric and
    may be singular, and of many solutions the one nearest to the given point is taken.
    """
    beta, theta, b = point
    images = problem.kernels.apply(beta)
    squares = images @ beta
    k, a = int(free.sum()), int(active.sum())
    with_b, with_lambda = int(problem.intercept), int(a > 0)
    size = k + a + with_lambda + with_b
    if not size:
        return point
    matrix, residual = np.zeros((size, size)), np.zeros(size)
    samples, kernels, level, last = slice(0, k), slice(k, k + a), k + a, size - 1

    matrix[samples, samples] = problem.kernels.combine(theta)[np.ix_(free, free)]
    matrix[samples, samples] += np.diag(terms.curvature / problem.costs[free])
    targets = terms.linear - terms.absolute * np.sign(beta) - terms.curvature / problem.costs * beta
    residual[samples] = (targets - theta @ images - b)[free]
    if a:
        matrix[samples, kernels] = images[np.ix_(active, free)].T
        matrix[kernels, samples] = images[np.ix_(active, free)]
        matrix[kernels, level] = matrix[level, kernels] = -0.5
        residual[kernels] = 0.5 * (squares[active].mean() - squares[active])
        residual[level] = -0.5 * (1.0 - theta.sum())
    if with_b:
        matrix[samples, last] = matrix[last, samples] = 1.0
        residual[last] = problem.intercept_cost - beta.sum()

    step = np.linalg.lstsq(matrix, residual, rcond=1e-13)[0]
    moved, weights = beta.copy(), theta.copy()
    moved[free] += step[samples]
    weights[active] += step[kernels]
    return Point(moved, weights, b + float(step[last]) if with_b else 0.0)
