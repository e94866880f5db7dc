"""How far rounding may have moved the bounds of a numerical certificate: an estimate in O(M n), and no proof.

A computed sum of k products differs from the exact one by at most k u of the sum of their magnitudes, u = 2^-53, and
with errors of both signs hardly ever by more than a few sqrt(k) u of it (Higham and Mary, A new approach to
probabilistic rounding error analysis, 2019); `growth` is min(k, 4 sqrt(k)) and a few elementwise operations. Of a
semidefinite matrix |K_ij| <= d_i d_j with d_i = sqrt(K_ii), so that for the support of beta, k = #{beta_i != 0},

    |K||beta| <= (d'|beta|) d                  the magnitudes in K beta
    |beta|'|K||beta| <= (d'|beta|)^2 =: S      those in beta'K beta
    e_i  = growth(k + M) u sum_m theta_m d_mi (d_m'|beta|) + 2u (|t_i| + |b| + |y_i|)     error of the score t_i
    dq_m = 2 growth(k) u S_m                                                              error of q_m = beta'K_m beta

Losses are convex, so they are largest at t_i - e_i or t_i + e_i; R and R* rise with q. Sums over samples and kernels
add growth(n), growth(M) u of their terms. Where 1'beta misses c_b by r, moving one sample by r changes the dual by the
intercept times r at most, which is of the size of targets and scores.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from mklref._typing import Array

if TYPE_CHECKING:
    from mklref.problem import Problem

UNIT = 2.0**-53
_ELEMENTWISE = 4.0
"""Roundings of the few operations on each term."""


def growth(k: int) -> float:
    """Rounding errors of a sum of k products, in units of u times the sum of magnitudes."""
    return min(float(k), 4.0 * math.sqrt(k)) + _ELEMENTWISE


def squares_error(problem: Problem, beta: Array) -> Array:
    """dq (M,): how far beta'K_m beta may be from what was computed."""
    return _squares_error(beta, _lengths(problem) @ np.abs(beta))


def primal_from_above(problem: Problem, beta: Array, theta: Array, squares: Array, t: Array, b: float) -> float:
    """The primal objective at (theta, b), for q = squares and scores t that include b, with its rounding errors."""
    lengths = _lengths(problem)
    reach = lengths @ np.abs(beta)
    n, M = problem.n_samples, problem.n_kernels
    noise = growth(int(np.count_nonzero(beta)) + M) * UNIT
    error = noise * ((theta * reach) @ lengths) + 2.0 * UNIT * (np.abs(t) + abs(b) + np.abs(problem.y))
    loss, y = problem.loss, problem.y
    losses = float(problem.costs @ np.maximum(loss.value(t - error, y), loss.value(t + error, y)))
    penalty = problem.regularizer.value(theta * np.sqrt(squares + _squares_error(beta, reach)))
    cost = problem.intercept_cost * b
    return losses + penalty + cost + UNIT * (growth(n) * losses + growth(M) * penalty + abs(cost))


def dual_loss_error(problem: Problem, beta: Array, scores: Array, b: float) -> float:
    """Rounding errors of -sum_i c_i V*(-beta_i/c_i, y_i) for beta in the box, and what 1'beta != c_b costs.

    V* has the slope t_i where beta_i fits the score t_i: the scores at beta, without b, and b say how large that is.
    """
    t = scores + b
    terms = problem.loss.dual_terms(beta, problem.y, problem.costs)
    sizes = float(np.abs(beta) @ (np.abs(problem.y) + np.abs(t)) + np.abs(terms).sum())
    error = growth(problem.n_samples) * UNIT * sizes
    if not problem.intercept:
        return error
    missed = abs(math.fsum([*beta.tolist(), -problem.intercept_cost]))
    return error + missed * (abs(b) + float(np.abs(problem.y).max()) + float(np.abs(t).max()))


def _lengths(problem: Problem) -> Array:
    """d (M, n), whose products with d'|beta| bound |K_m||beta|."""
    return np.asarray(np.sqrt(np.maximum(problem.kernels.own_diagonals, 0.0)))


def _squares_error(beta: Array, reach: Array) -> Array:
    return np.asarray(2.0 * growth(int(np.count_nonzero(beta))) * UNIT * reach * reach)
