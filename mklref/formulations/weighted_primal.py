r"""Primal over functions and kernel weights.

Statement, over v_m (r_m,), theta (M,), t (n,) and b:

    minimise    sum_i c_i V(t_i, y_i) + 1/2 sum_m ||v_m||^2 / theta_m + psi(theta) + c_b b
    subject to  t = sum_m L_m v_m + b,    theta >= 0

with 0/0 = 0 and x/0 = inf: jointly convex, because ||v||^2/theta is the perspective of a square.

Dual: `dual`. Minimising over theta in closed form gives `mixed_norm`.

Recovery: beta is the multiplier of the scores, t = sum_m L_m v_m + b; theta and b are variables.

Source: SimpleMKL (2) with psi the indicator of the simplex; Kloft (P) with that of an lp ball, and (4) and
Tomioka (6) with a finite psi; Szafranski (7).
"""

from __future__ import annotations

import numpy as np

from mklref.formulations.base import (
    Factors,
    Formulation,
    Model,
    Point,
    cost_parameters,
    half_ratios,
    multiplier,
    recovered_intercept,
    scores_and_losses,
)
from mklref.problem import Problem


class WeightedPrimal(Formulation):
    """Explicit kernel weights; any loss, every regulariser with a penalty psi on the weights."""

    name = "weighted_primal"

    def applies(self, problem: Problem) -> str | None:
        """Needs psi, which exists where R(sqrt(.)) is concave."""
        if problem.regularizer.weight_form == "min":
            return None
        return (
            f"{problem.regularizer} is no minimum over kernel weights (weight_form = "
            f"{problem.regularizer.weight_form!r}), so that a joint minimisation would be another problem; "
            "use 'mixed_norm' or 'dual'."
        )

    def build(self, problem: Problem, factors: Factors) -> Model:
        """The model over v, theta, t and b."""
        import cvxpy as cp

        costs = cost_parameters(problem.n_samples)
        v, b, scores, losses = scores_and_losses(problem, factors, costs)
        theta = cp.Variable(problem.n_kernels, nonneg=True, name="theta")
        penalty, domain = problem.regularizer.weight_atom(theta)

        def recover() -> Point:
            return Point(multiplier(scores), np.maximum(theta.value, 0.0), recovered_intercept(b))

        objective = losses + half_ratios(factors, v, list(theta)) + penalty
        return Model(cp.Problem(cp.Minimize(objective), [scores, *domain]), costs, recover)
