r"""Quadratically constrained dual of l1-MKL.

Statement, over beta (n,) and lambda:

    maximise    -sum_i c_i V*(-beta_i/c_i, y_i) - lambda
    subject to  1/2 beta'K_m beta <= lambda   for every m
                1'beta = c_b                  if there is an intercept

Dual: `mixed_norm` and `weighted_primal` at p = 1, of the same value.

Recovery: theta_m is the multiplier of the m-th quadratic constraint (stationarity in lambda reads
sum_m theta_m = 1), and b the multiplier of 1'beta = c_b.

Source: SimpleMKL (8), with alpha_i = y_i beta_i for the hinge loss; Kloft 3.2 for the norm (13), after Lanckriet.
"""

from __future__ import annotations

import numpy as np

from mklref._conic.cones import cp
from mklref._conic.model import Model, balance, balance_multiplier, cost_parameters, multiplier
from mklref._conic.scaling import Factors
from mklref.formulations.base import Formulation
from mklref.formulations.dual import V_star
from mklref.problem import Point, Problem
from mklref.regularizers import Lp


class QCQP(Formulation):
    """One quadratic constraint for each kernel; any loss, the simplex of weights (p = 1)."""

    name = "qcqp"

    def applies(self, problem: Problem) -> str | None:
        if isinstance(problem.regularizer, Lp) and problem.regularizer.p == 1.0:
            return None
        return f"qcqp is the dual at Lp(1), not at {problem.regularizer}; use 'dual', which takes every regulariser."

    def build(self, problem: Problem, L: Factors) -> Model:
        c = cost_parameters(problem.n_samples)
        beta = cp.Variable(problem.n_samples, name="beta")
        lam = cp.Variable(name="lambda")
        conjugates, box = V_star(problem.loss, beta, problem.y, c)
        quadratic = [0.5 * cp.sum_squares(L_m.T @ beta) <= lam for L_m in L.matrices]
        intercept = balance(problem, beta)

        def recover() -> Point:
            theta = np.concatenate([multiplier(constraint) for constraint in quadratic])
            return Point(beta.value, np.maximum(theta, 0.0), balance_multiplier(intercept))

        return Model(cp.Problem(cp.Maximize(-conjugates - lam), [*quadratic, *intercept, *box]), c, recover)
