"""The last digits: Newton's method on the optimality conditions of the active set.

With F the samples strictly between their bounds (and off the kink of |beta_i| at 0), d_i(beta_i) the derivative of
c_i V*(-beta_i/c_i, y_i) in beta_i, and q_m = beta'K_m beta, an optimum satisfies

    sum_m theta_m (K_m beta)_i + b + d_i(beta_i) = 0   for i in F,        1'beta = c_b with an intercept

where theta is the function theta(q) of the regulariser; its Jacobian joins the Newton matrix. Where R* has kinks
(Lp(1) and its relatives, `polyhedral`), theta on the active kernels S and a multiplier nu are unknowns of their own:

    q_m/2 = cost_m + 2 mu 1'theta + nu normal_m   for m in S,             normal'theta = 1

Where R* is a maximum of smooth N_l(q)/2 (`parts`: groups that exclude each other) the same holds for their shares s in
place of the weights, N_l in place of q_m and sum_m dN_l/dq_m K_m beta in place of K_m beta; theta = sum_l s_l dN_l/dq.

Each round first solves the machine at the weights of the best point so far, which finds the samples at their bounds,
and then takes Newton steps; a sample that a step takes out of its interval stays at the end of it. Every point on the
way is certified, and the best one is kept, which may be the one that was given.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import scipy.linalg
import scipy.optimize
from numpy.typing import NDArray

from mklref._typing import Array
from mklref.certificate import Certificate, certify, repair
from mklref.exceptions import NotApplicable
from mklref.machines.blas import blas_threads
from mklref.machines.machine import Machine
from mklref.problem import Problem
from mklref.regularizers.polyhedral import Polyhedral
from mklref.solution import Solution, Status

_ROUNDS = 4
_STEPS = 4
_ACTIVE = 1e-6
"""Share of theta'q from which a kernel counts as active where R* has kinks."""
_RANK = 1e-14
_ENOUGH = 1e-14
"""Relative gap at which there is nothing left to improve."""


class Point(NamedTuple):
    """beta (n,), theta (M,) and b."""

    beta: Array
    weights: Array
    intercept: float


def polished(machine: Machine, solution: Solution, tol: float) -> Solution:
    """The solution, or a better one from Newton's method on its active set, by certified gap.

    `status` is OPTIMAL if the certificate of the better one confirms `tol`, and unchanged otherwise.
    """
    problem = machine.problem
    best, certificate = Point(solution.dual_coef, solution.weights, solution.intercept), solution.certificate
    machine.forms.watched[:] = True
    with blas_threads(problem.n_samples), np.errstate(all="ignore"):
        for _ in range(_ROUNDS):
            before = certificate
            with suppress(FloatingPointError, np.linalg.LinAlgError):  # factorisations at extreme scales
                for point in _refinements(machine, best, _ENOUGH * abs(before.upper)):
                    if not all(np.all(np.isfinite(part)) for part in point):
                        break
                    found = certify(problem, point.beta, weights=point.weights, intercept=point.intercept)
                    if _gap(found) < _gap(certificate) and found.infeasibility <= certificate.infeasibility:
                        best, certificate = point, found
            if certificate is before or certificate.gap - certificate.rounding <= _ENOUGH * abs(certificate.upper):
                break
    if certificate is solution.certificate:
        return solution
    return replace(
        solution,
        dual_coef=best.beta,
        weights=best.weights,
        intercept=best.intercept,
        objective=certificate.objective,
        certificate=certificate,
        status=Status.OPTIMAL if certificate.is_optimal(tol) else solution.status,
    )


def _gap(certificate: Certificate) -> float:
    """Smaller is better, of either sign: a negative gap is rounding. What is not finite loses."""
    return abs(certificate.gap) if np.isfinite(certificate.gap) else np.inf


def _refinements(machine: Machine, point: Point, gap: float) -> Iterator[Point]:
    """The solution of the machine at these weights, and feasible points after each Newton step from there."""
    problem = machine.problem
    machine.set_dual(point.beta.copy())
    machine.move(point.weights)
    machine.solve(gap)
    beta, theta, b = machine.beta.copy(), point.weights, machine.scores()[1]
    yield Point(beta, theta, b)
    lower, upper = problem.loss.box(problem.y, problem.costs)
    tube = _absolute(problem) > 0.0
    side = np.sign(beta)
    low, high = np.where(tube & (side > 0.0), 0.0, lower), np.where(tube & (side < 0.0), 0.0, upper)
    free = (beta > lower) & (beta < upper) & ~(tube & (beta == 0.0))
    kinks, squares, regularizer = _kinks(problem), machine.forms.squares, problem.regularizer
    parts = regularizer.parts(np.sqrt(squares))
    # The unknown weights: theta, or the shares of the parts, those that fit theta best.
    unknown = theta if parts is None else scipy.optimize.nnls(parts.gradients.T, theta)[0]
    share_of_squares = unknown * (squares if parts is None else parts.norms)
    active = share_of_squares > _ACTIVE * share_of_squares.max(initial=0.0)
    if kinks is None:
        unknown = regularizer.weights_from_dual(np.sqrt(squares))
    for _ in range(_STEPS):
        step = _step(problem, Point(beta, unknown, b), side, free, kinks, active)
        if step is None or not all(np.all(np.isfinite(part)) for part in step):
            return
        beta, b = np.where(free, np.clip(beta + step.beta, low, high), beta), b + step.intercept
        free &= (beta > low) & (beta < high)
        feasible = repair(problem, beta)[0]
        g = np.sqrt(np.maximum(problem.kernels.quadratic(feasible), 0.0))
        unknown = regularizer.weights_from_dual(g) if kinks is None else np.maximum(unknown + step.weights, 0.0)
        parts = regularizer.parts(g)
        yield Point(feasible, unknown if parts is None else unknown / unknown.sum() @ parts.gradients, b)


def _kinks(problem: Problem) -> Polyhedral | None:
    """psi of the unknown weights where R* has kinks: of theta, or the simplex of the shares of its parts."""
    parts = problem.regularizer.parts(np.ones(problem.n_kernels))
    if parts is not None:
        return Polyhedral.simplex(len(parts.norms))
    return problem.regularizer.polyhedral(problem.n_kernels)


def _absolute(problem: Problem) -> float:
    terms = problem.loss.quadratic_dual(problem.y)
    return 0.0 if terms is None else terms.absolute


def _derivatives(problem: Problem, beta: Array, side: Array) -> tuple[Array, Array]:
    """d_i and its derivative: -linear + absolute side + curvature beta/c, or those of the logistic loss."""
    terms = problem.loss.quadratic_dual(problem.y)
    if terms is None:
        a = problem.y * beta
        return problem.y * np.log(a / (problem.costs - a)), problem.costs / (a * (problem.costs - a))
    second = np.broadcast_to(terms.curvature / problem.costs, beta.shape)
    return terms.absolute * side - terms.linear + second * beta, second


def _step(
    problem: Problem,
    point: Point,
    side: Array,
    free: NDArray[np.bool_],
    kinks: Polyhedral | None,
    active: NDArray[np.bool_],
) -> Point | None:
    """The Newton step in beta, the unknown weights and b; None where the equations are not finite."""
    beta, unknown, b = point
    theta, jacobian, images = unknown, None, problem.kernels.apply(beta)
    squares = np.maximum(images @ beta, 0.0)
    parts = problem.regularizer.parts(np.sqrt(squares))
    if parts is not None:
        theta, jacobian = unknown @ parts.gradients, np.tensordot(unknown, parts.hessians, 1)
    elif kinks is None:
        jacobian = _weights_jacobian(problem, squares)
    F, S = np.flatnonzero(free), np.flatnonzero(active)
    first, second = _derivatives(problem, beta, side)
    matrix = problem.kernels.combine(theta)[np.ix_(F, F)] + np.diag(second[F])
    residual = -(theta @ images + b + first)[F]
    if jacobian is not None:
        matrix += 2.0 * images[:, F].T @ (jacobian @ images[:, F])
    if parts is not None:
        squares, images = parts.norms, parts.gradients @ images
    if problem.intercept:
        matrix = _bordered(matrix, np.ones((1, len(F))), 0.0)
        residual = np.append(residual, problem.intercept_cost - beta.sum())
    if kinks is not None and len(S):
        part = kinks.of(S)
        excess = part.gradient(unknown[S]) - 0.5 * squares[S]
        matrix = _bordered(matrix, images[np.ix_(S, F)], -2.0 * part.mu)
        if part.normal is None:
            residual = np.append(residual, excess)
        else:
            nu = -float(part.normal @ excess) / float(part.normal @ part.normal)  # what fits best
            last = np.zeros((1, len(matrix)))
            last[0, len(matrix) - len(S) :] = -part.normal
            matrix = _bordered(matrix, last, 0.0)
            residual = np.concatenate([residual, excess + nu * part.normal, [part.normal @ unknown[S] - 1.0]])
    if not (len(matrix) and np.all(np.isfinite(matrix)) and np.all(np.isfinite(residual))):
        return None
    # Singular where kernels have low rank: of all solutions the shortest.
    solved: Any = scipy.linalg.lstsq(matrix, residual, cond=_RANK, lapack_driver="gelsy", check_finite=False)[0]
    kernels = len(F) + int(problem.intercept)
    step = Point(np.zeros_like(beta), np.zeros_like(unknown), float(solved[len(F)]) if problem.intercept else 0.0)
    step.beta[F] = solved[: len(F)]
    if kinks is not None:
        step.weights[S] = solved[kernels : kernels + len(S)]
    return step


def _weights_jacobian(problem: Problem, squares: Array) -> Array:
    """d theta / d q; 0 where the regulariser has none, so that the weights stay as they are within a step."""
    try:
        return problem.regularizer.weights_jacobian(np.sqrt(squares))
    except NotApplicable:
        return np.zeros((len(squares), len(squares)))


def _bordered(matrix: Array, rows: Array, corner: float) -> Array:
    """[[matrix, rows'], [rows, corner]] with the rows filled up with zeros on the right."""
    wide = np.zeros((len(rows), len(matrix)))
    wide[:, : rows.shape[1]] = rows
    return np.block([[matrix, wide.T], [wide, np.full((len(rows), len(rows)), corner)]])
