r"""Primal over functions alone, with the mixed norm that minimising over the weights leaves.

Statement, over v_m (r_m,), s_m, t (n,) and b:

    minimise    sum_i c_i V(t_i, y_i) + R(s_1, ..., s_M) + c_b b
    subject to  t = sum_m L_m v_m + b,    ||v_m|| <= s_m   for every m

R is non-decreasing, so s_m = ||v_m|| = rho_m is optimal. For the lp ball R(rho) = 1/2 ||rho||_q^2 with
q = 2p/(p+1), which is 1/2 (sum_m rho_m)^2 at p = 1.

Dual: `dual`, and `qcqp` at p = 1.

Recovery: beta is the multiplier of the scores, theta_m = rho_m / (dR/drho_m) in closed form, b a variable.

Source: SimpleMKL (3), with the weights (4); Kloft (28) in the squared form of (27); Szafranski (4);
Tomioka (4) and (5).
"""

from __future__ import annotations

from mklref.formulations.base import (
    Factors,
    Formulation,
    Model,
    Point,
    cost_parameters,
    multiplier,
    recovered_intercept,
    scores_and_losses,
)
from mklref.problem import Problem


class MixedNorm(Formulation):
    """The penalty on the block norms; applies to every problem."""

    name = "mixed_norm"

    def build(self, problem: Problem, factors: Factors) -> Model:
        """The model over v, s, t and b."""
        import cvxpy as cp

        costs = cost_parameters(problem.n_samples)
        v, b, scores, losses = scores_and_losses(problem, factors, costs)
        s = cp.Variable(problem.n_kernels, nonneg=True, name="s")
        norms = [cp.norm(block, 2) <= s[m] for m, block in enumerate(factors.split(v))]
        penalty, domain = problem.regularizer.value_atom(s)

        def recover() -> Point:
            theta = problem.regularizer.weights_from_norms(factors.norms(v.value))
            return Point(multiplier(scores), theta, recovered_intercept(b))

        program = cp.Problem(cp.Minimize(losses + penalty), [scores, *norms, *domain])
        return Model(program, costs, recover)
