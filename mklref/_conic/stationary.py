r"""Optimality as a system of equations, once the active samples and kernels are known.

For a loss with a piecewise linear-quadratic dual term (`QuadraticDual`), K = sum_m theta_m K_m, and F the samples
whose beta_i lies strictly inside its interval,

    (K beta)_i + b + curvature beta_i / c_i = linear_i - absolute sign(beta_i)    for i in F,    1'beta = c_b

which is linear in (beta_F, b) for fixed theta. The error of theta enters the duality gap in second order only,
unless R* has kinks as at p = 1. There the multipliers lambda of the active pieces of R* join the unknowns,

    theta = sum_l lambda_l grad N_l,    N_l(q) = level,    and a condition on level and sum lambda (`kinks`),

and Newton's method takes a few steps. Matrices may be singular (kernels of low rank, duplicated samples): of many
solutions the one nearest to the given point is taken.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from mklref._conic.kinks import kink
from mklref._conic.point import Point
from mklref._typing import Array
from mklref.losses.base import QuadraticDual
from mklref.problem import Problem

Mask: TypeAlias = NDArray[np.bool_]

_NEWTON_STEPS = 3


def with_fixed_weights(problem: Problem, terms: QuadraticDual, point: Point, free: Mask) -> Point:
    """The stationary beta_F and b for the weights as they are, in one step."""
    matrix, residual = _sample_equations(problem, terms, point, free, problem.kernels.apply(point.dual_coef))
    return _moved(problem, point, free, _solve(matrix, residual))


def with_free_weights(problem: Problem, terms: QuadraticDual, point: Point, free: Mask, threshold: float) -> Point:
    """Newton's method in beta_F, b, the multipliers of the active pieces, and their level.

    A piece is active if its share of sum_m theta_m q_m exceeds `threshold` times the largest share. The gradients
    of the pieces are taken as constant within a step: exact where a piece is one kernel, and where it is a group,
    an error of second order.
    """
    contributions = point.weights * problem.kernels.quadratic(point.dual_coef)
    multipliers, active = np.empty(0), np.empty(0, dtype=bool)
    for step in range(_NEWTON_STEPS):
        images = problem.kernels.apply(point.dual_coef)
        squares = np.maximum(images @ point.dual_coef, 0.0)
        conditions = kink(problem.regularizer, squares)
        assert conditions is not None
        if step == 0:  # theta'q over the kernels of a piece is lambda_l N_l
            shares = (conditions.gradients > 0.0) @ contributions
            active = shares > threshold * shares.max()
            if not active.any():  # beta = 0, for which every weight is as good
                return point
            multipliers = shares[active] / (conditions.gradients[active] @ squares)
        gradients = conditions.gradients[active]
        point = point._replace(weights=multipliers @ gradients)
        pieces = gradients @ squares
        level = conditions.level(pieces, multipliers)

        inner, inner_residual = _sample_equations(problem, terms, point, free, images)
        k, size, last = int(free.sum()), len(inner), len(inner) + len(gradients)
        block = slice(size, last)
        matrix, residual = np.zeros((last + 1, last + 1)), np.zeros(last + 1)
        matrix[:size, :size], residual[:size] = inner, inner_residual
        matrix[block, :k] = gradients @ images[:, free]
        matrix[:k, block] = matrix[block, :k].T
        matrix[block, last] = -0.5
        residual[block] = 0.5 * (level - pieces)
        matrix[last, block], matrix[last, last] = conditions.total_coefficient, conditions.level_coefficient
        residual[last] = conditions.residual(level, multipliers)

        move = _solve(matrix, residual)
        multipliers = multipliers + move[block]
        weights = np.maximum(multipliers @ gradients, 0.0)
        point = _moved(problem, point, free, move)._replace(weights=weights)
    return point


def _sample_equations(
    problem: Problem, terms: QuadraticDual, point: Point, free: Mask, images: Array
) -> tuple[Array, Array]:
    """Matrix and residual of the linear equations for steps of beta_F and, with an intercept, of b."""
    beta, theta, b = point
    k = int(free.sum())
    size = k + int(problem.intercept)
    matrix, residual = np.zeros((size, size)), np.zeros(size)
    matrix[:k, :k] = problem.kernels.combine(theta)[np.ix_(free, free)]
    matrix[:k, :k] += np.diag(terms.curvature / problem.costs[free])
    targets = terms.linear - terms.absolute * np.sign(beta) - terms.curvature / problem.costs * beta
    residual[:k] = (targets - theta @ images - b)[free]
    if problem.intercept:
        matrix[:k, k] = matrix[k, :k] = 1.0
        residual[k] = problem.intercept_cost - beta.sum()
    return matrix, residual


def _solve(matrix: Array, residual: Array) -> Array:
    """The shortest least-squares solution, by QR with pivoting: two thirds of the time of a singular decomposition."""
    if not len(matrix):
        return residual
    return np.asarray(scipy.linalg.lstsq(matrix, residual, cond=1e-13, lapack_driver="gelsy", check_finite=False)[0])


def _moved(problem: Problem, point: Point, free: Mask, step: Array) -> Point:
    """The point after a step whose first entries are those of beta_F and b."""
    k = int(free.sum())
    beta = point.dual_coef.copy()
    beta[free] += step[:k]
    return point._replace(dual_coef=beta, intercept=point.intercept + float(step[k]) if problem.intercept else 0.0)
