"""From the limit of the solver to that of double precision: Newton's method (`_polish`) where the machines end."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from mklref._polish import fitted, improved, newton
from mklref._threads import blas_threads
from mklref._typing import Array
from mklref.certificate import Certificate, certify
from mklref.certificate.allowance import score_bounds
from mklref.certificate.loss_terms import Scores, stretch, stretched
from mklref.certificate.rounding import Interval
from mklref.exceptions import NotApplicable
from mklref.losses import EpsilonInsensitive, Pinball
from mklref.machines.joint import JointMachine
from mklref.machines.machine import Machine
from mklref.native.point import known_squares
from mklref.problem import Point, Problem
from mklref.regularizers import Fixed
from mklref.regularizers.norms import quotient
from mklref.regularizers.rescaled import Rescaled
from mklref.solution import Solution, Status, in_domain

_ROUNDS = 4
_ENOUGH = 1e-14
"""Relative gap at which there is nothing left to improve."""
_FEW = 10
"""Kernels of noise that are left out in turn, each of which takes a certificate."""
_HALF = 0.6
"""Half the width of an interval, and what rounding adds where its middle is solved for."""
_INSIDE = 1e-6
"""Share by which dual norms may be outside of it, and weights too small, as those at a gap of its square may be."""


def polished(machine: Machine | JointMachine, solution: Solution, tol: float, deadline: float = np.inf) -> Solution:
    """The solution, or a better one from Newton's method on its active set, by certified gap.

    No step begins after the deadline. `status` is OPTIMAL if the certificate of the better one confirms `tol`, and
    unchanged otherwise.
    """
    problem = machine.problem
    best, certificate = Point(solution.dual_coef, solution.weights, solution.intercept), solution.certificate
    machine.forms.watched[:] = True

    def refined() -> Iterator[Point]:
        return _refinements(machine, best, _ENOUGH * abs(certificate.upper))

    def compare(candidates: Iterator[Point], enough: Callable[[Certificate], bool] = _at_the_limit) -> None:
        nonlocal best, certificate
        best, certificate = improved(problem, best, _until(deadline, candidates), enough, certificate)

    with blas_threads(problem.n_samples), np.errstate(all="ignore"):
        for _ in range(_ROUNDS):
            before = certificate
            compare(refined())
            if certificate is before:
                break
        if not certificate.is_optimal(tol) and problem.regularizer.polyhedral(problem.n_kernels) is None:
            with suppress(NotApplicable):  # weights that are no smooth function of q for another reason
                compare(fitted(problem, point) for point in refined())
        if not certificate.is_optimal(tol):
            compare(_below_the_kinks(problem, best), _is_exact)
        if not certificate.is_optimal(tol) and problem.regularizer.weight_form == "max":
            for m in _of_noise(problem, best):
                compare(iter([best._replace(weights=np.where(np.arange(problem.n_kernels) == m, 0.0, best.weights))]))
        if not certificate.is_optimal(tol):
            # The allowance for rounding hides which of these points is the best, until they are off the kinks.
            points = chain([best], refined())
            compare(chain.from_iterable(_off_the_kinks(problem, point) for point in points), _is_exact)
    if certificate is solution.certificate:
        return solution
    return replace(
        solution,
        **best._asdict(),
        objective=certificate.objective,
        certificate=certificate,
        status=Status.OPTIMAL if certificate.is_optimal(tol) else solution.status,
    )


def _until(deadline: float, points: Iterator[Point]) -> Iterator[Point]:
    """The points of which the search begins before the deadline."""
    while time.perf_counter() < deadline and (point := next(points, None)) is not None:
        yield point


def _at_the_limit(certificate: Certificate) -> bool:
    """Whether rounding is all of the gap."""
    return bool(certificate.gap - certificate.rounding <= _ENOUGH * abs(certificate.upper))


def _is_exact(certificate: Certificate) -> bool:
    """Whether there is no gap, not even one of rounding."""
    return certificate.is_optimal(_ENOUGH)


def _of_noise(problem: Problem, point: Point) -> NDArray[np.int_]:
    """The kernels of large weights whose q is rounding: with q > 2 they cost nothing but what they round."""
    squares, noise = known_squares(problem, problem.split(point.dual_coef))
    order = np.argsort(-point.weights * noise)
    return np.asarray(order[(squares <= noise)[order] & (point.weights[order] > 0.0)][:_FEW])


def _below_the_kinks(problem: Problem, point: Point) -> Iterator[Point]:
    """Points from Newton's method whose q are below the kinks of R*, each by its own rounding dq.

    A smaller q_m costs theta_m dq_m; to scale beta would cost the largest dq/q, which may be that of a kernel with a
    small weight.
    """
    squares, noise = known_squares(problem, problem.split(point.dual_coef))
    inside = Rescaled.of(problem.regularizer, np.sqrt(1.0 + quotient(noise, squares)))
    if inside.polyhedral(problem.n_kernels) is not None:
        yield from _finite(newton(problem, inside, point))


def _off_the_kinks(problem: Problem, point: Point) -> Iterator[Point]:
    """Functions beside that of the point on which no kink of a loss is within rounding of the scores.

    For max(0, m - y t) it is the stretched one. For a tube it is that of targets which lie farther off by the errors of
    the scores, at these weights: theta(q) knows less of large kernels, whose q may be rounding. For the pinball loss
    targets move to the cheaper side: up by e costs (c (1 - tau) + beta_i) e, and c (1 - tau) e for rounding; down costs
    (c tau - beta_i) e and c tau e. An intercept moves all scores by one e.
    """
    loss = problem.loss
    bounded, squares = [], np.zeros(problem.n_kernels)
    intercepts = np.atleast_1d(point.intercept).tolist()
    for (own, *_), beta, b in zip(problem.machines, problem.split(point.dual_coef), intercepts, strict=True):
        images = own.kernels.images(beta)
        squares += np.maximum(images @ beta, 0.0)
        scores = Interval(*score_bounds(own, beta, point.weights, images, b))
        bounded.append(Scores(own, scores, intercept=0.0, moved=0.0))
    if isinstance(loss, EpsilonInsensitive | Pinball):
        error = _HALF * np.concatenate([s.upper - s.lower for _, s, *_ in bounded])
        if isinstance(loss, Pinball):
            width, side = np.inf, (2.0 * loss.tau - 1.0) * problem.costs - point.dual_coef
            error = np.full_like(error, error.max()) if problem.intercept else error
        else:
            width, side = loss.epsilon, point.dual_coef
        if error.max() < width and point.weights.any():
            farther = problem.replace(y=problem.y + np.sign(side) * error)
            yield from _finite(newton(farther, Fixed(point.weights), point))
    elif eta := stretch(problem, bounded, point.weights, np.sqrt(squares)):
        weights, moved = stretched(problem, point.weights, intercepts, eta)
        yield Point(point.dual_coef, weights, problem.intercepts(moved))


def _finite(points: Iterator[Point]) -> Iterator[Point]:
    """The points up to where a factorisation breaks down, as it may at extreme scales."""
    with suppress(FloatingPointError, np.linalg.LinAlgError):
        yield from (point for point in points if all(np.all(np.isfinite(part)) for part in point))


def _refinements(machine: Machine | JointMachine, point: Point, gap: float) -> Iterator[Point]:
    """The solution of the machines at these weights, and feasible points after each Newton step from there.

    They find the samples at their bounds.
    """
    problem = machine.problem
    parts = problem.split(point.dual_coef)
    with suppress(FloatingPointError, np.linalg.LinAlgError):
        machine.set_dual(np.concatenate(parts))
        machine.move(point.weights)
        machine.solve(gap)
        dual_coef = problem.join(machine.split(machine.beta))
        found = Point(dual_coef, point.weights, machine.scores()[1])
        yield found
        yield from _finite(newton(problem, problem.regularizer, found))


def certified_in_domain(problem: Problem, solution: Solution, tol: float) -> Solution:
    """The solution moved into the domain of R* by `in_domain`, if it is outside and as good by its certificate there.

    A machine whose losses have kinks may have dual variables of any length; weights are optimal with those in dom R*.
    """
    regularizer, bounds = problem.regularizer, solution.certificate
    if problem.intercept_cost or regularizer.dual_scale(_longest(problem, solution.dual_coef)) == 1.0:
        return solution
    moved = in_domain(problem, solution, _INSIDE)
    if moved is solution:
        return solution
    found = certify(problem, moved)
    if found.gap > max(bounds.gap, tol * bounds.size):
        return solution
    status = solution.status.confirmed(found.is_optimal(tol))
    b = problem.intercepts(found.intercept)
    return replace(moved, intercept=b, objective=found.objective, certificate=found, status=status)


def _longest(problem: Problem, dual_coef: Array) -> Array:
    """Upper bounds of g (M,) by the diagonals of the kernels: sum_i |beta_i| sqrt(K_m,ii) for each machine."""
    parts = zip(problem.machines, problem.split(dual_coef), strict=True)
    return np.asarray(
        np.linalg.norm([own.problem.kernels.lengths_against(np.abs(beta)) for own, beta in parts], axis=0)
    )
