r"""The group lasso: squared loss, no intercept, groups of variables or of features.

Primal (14), over w_m (r_m,), where kernel m is K_m = X_m X_m' for the variables X_m of group m (any factor will do):

    minimise    1/2 sum_i c_i (y_i - sum_m (X_m w_m)_i)^2 + 1/2 sum_m ||w_m||              `HalfPower(1)`

Dual (15) of the form with weights in the simplex, the QCQP (16), and its smooth variant, over beta (n,):

    maximise    y'beta - 1/2 sum_i beta_i^2/c_i - 1/2 || (beta'K_m beta)_m ||_{p*}          `Lp(p)`

The paper writes beta'Y K_m Y beta with Y = diag(y), which is wrong for real targets and signed beta (erratum L5). It
calls (14) equivalent to its form with weights theta: that has the same solutions at the cost 2 C sum_m rho_m
(erratum L4).

Recovery: from (14), beta is c times the residual and theta_m = 2 rho_m; from (15), beta is the variable, and theta_m is
the multiplier of 1/2 beta'K_m beta <= xi at p = 1 and the closed form of the weights for p > 1.

Source: Kloft (14)-(16) and the display after them, after Yuan and Lin.
"""

from __future__ import annotations

import numpy as np

from mklref._conic.cones import cp, norm, norms
from mklref._conic.model import Model, cost_parameters, multiplier
from mklref._conic.scaling import Factors
from mklref.formulations.base import Formulation
from mklref.losses import Squared
from mklref.problem import Point, Problem
from mklref.regularizers import HalfPower, Lp
from mklref.regularizers.norms import conjugate_exponent


class GroupLasso(Formulation):
    """Kloft's section 3.4, primal or dual."""

    name = "group_lasso"

    def applies(self, problem: Problem) -> str | None:
        if not isinstance(problem.loss, Squared):
            return f"group_lasso has the squared loss, not {problem.loss}; use 'mixed_norm'."
        if problem.intercept:
            return "group_lasso has no intercept; give intercept=False, or use 'mixed_norm'."
        regularizer = problem.regularizer
        if isinstance(regularizer, Lp) or (isinstance(regularizer, HalfPower) and regularizer.q == 1.0):
            return None
        return f"group_lasso is for HalfPower(1) and Lp, not for {regularizer}; use 'mixed_norm'."

    def build(self, problem: Problem, L: Factors) -> Model:
        """(14) for HalfPower(1), (16) for Lp(1), its smooth variant for Lp(p)."""
        return _primal(problem, L) if isinstance(problem.regularizer, HalfPower) else _dual(problem, L)


def _primal(problem: Problem, X: Factors) -> Model:
    c = cost_parameters(problem.n_samples)
    w = cp.Variable(X.stacked.shape[1], name="w")
    residual = problem.y - X.stacked @ w
    loss = 0.5 * cp.sum(cp.multiply(c.value, cp.square(residual)))
    penalty = 0.5 * cp.sum(norms(X.split(w)))

    def recover() -> Point:
        beta = np.asarray(c.value.value) * np.asarray(residual.value)
        return Point(beta, 2.0 * X.norms(w.value), 0.0)

    return Model(cp.Problem(cp.Minimize(loss + penalty)), c, recover)


def _dual(problem: Problem, L: Factors) -> Model:
    ball = problem.regularizer
    assert isinstance(ball, Lp)
    c = cost_parameters(problem.n_samples)
    beta = cp.Variable(problem.n_samples, name="beta")
    xi = cp.Variable(name="xi")
    q = [cp.sum_squares(L_m.T @ beta) for L_m in L.matrices]  # beta'K_m beta
    objective = problem.y @ beta - 0.5 * cp.sum(cp.multiply(c.inverse, cp.square(beta))) - xi
    if ball.p == 1.0:
        bounds = [0.5 * q_m <= xi for q_m in q]
    else:
        bounds = [0.5 * norm(cp.hstack(q), conjugate_exponent(ball.p)) <= xi]

    def recover() -> Point:
        if ball.p == 1.0:
            theta = np.maximum(np.concatenate([multiplier(bound) for bound in bounds]), 0.0)
        else:
            theta = ball.weights_from_dual(np.sqrt(L.squares(beta.value)))
        return Point(beta.value, theta, 0.0)

    return Model(cp.Problem(cp.Maximize(objective), bounds), c, recover)
