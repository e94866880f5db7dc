"""MKL as a first-time user of cvxpy writes it: p = 1 as a QCQP with psd_wrap, the solver's word taken for it.

The quadratic constraints use the matrices as they are, the weights are the normalised multipliers, the intercept is
the multiplier of y'alpha = 0, and nobody looks at `problem.status`.
"""

from __future__ import annotations

import warnings

import cvxpy as cp
import numpy as np

from mklref.problem import Problem
from mklref.testing import Answer, Supports


def solve(problem: Problem) -> Answer:
    """Lanckriet's QCQP in the notation of the dual variables alpha, with default settings."""
    K, y = problem.kernels.dense(), problem.y
    alpha, t = cp.Variable(problem.n_samples), cp.Variable()
    balance = y @ alpha == 0
    bounds = [cp.quad_form(alpha, cp.psd_wrap(np.outer(y, y) * matrix)) <= t for matrix in K]
    constraints = [alpha >= 0, alpha <= problem.C, balance, *bounds]
    program = cp.Problem(cp.Maximize(cp.sum(alpha) - 0.5 * t), constraints)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # as the first-time user does
        program.solve()
    multipliers = np.array([float(np.squeeze(bound.dual_value)) for bound in bounds])
    weights = multipliers / multipliers.sum()
    return Answer(y * alpha.value, weights, float(balance.dual_value), objective=program.value, converged=True)


solve.supports = Supports(  # type: ignore[attr-defined]
    losses={"hinge"}, regularizers={"Lp"}, p=(1.0, 1.0), intercept={True}, sample_weight=False
)
