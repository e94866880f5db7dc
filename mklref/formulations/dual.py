r"""The dual of any loss and any regulariser.

Statement, over beta (n,) and z_m (r_m,), where K_m = L_m L_m' and so ||z_m|| = g_m = sqrt(beta'K_m beta):

    minimise    sum_i c_i V*(-beta_i/c_i, y_i) + R*(||z_1||, ..., ||z_M||)
    subject to  z_m = L_m'beta     for every m
                1'beta = c_b       if there is an intercept

Dual: `mixed_norm`; the optimal values are opposite.

Recovery: the multiplier of z_m = L_m'beta is -v_m, where f_m = L_m v_m on the training samples. So the norms
rho_m = ||v_m|| are at hand even where the weights are no function of beta (p = 1), and theta follows from them
in closed form. b is the multiplier of 1'beta = c_b.

Source: Kloft (D), where R*(g) = 1/2 ||(g_m^2)_m||_{p*} for an lp ball; its (10) holds for norms that are
monotone on the orthant, which R* as defined here repairs for all others (erratum L3). In the display before it C
belongs to V alone (L2), and the dual of the group lasso, (15), goes without labels (L5).
"""

from __future__ import annotations

from mklref.formulations.base import (
    Factors,
    Formulation,
    Model,
    Point,
    balance,
    balance_multiplier,
    cost_parameters,
    multiplier,
)
from mklref.problem import Problem


class Dual(Formulation):
    """Conjugates of the losses and of the regulariser; applies to every problem."""

    name = "dual"

    def build(self, problem: Problem, factors: Factors) -> Model:
        """The model over beta and z."""
        import cvxpy as cp

        costs = cost_parameters(problem.n_samples)
        beta = cp.Variable(problem.n_samples, name="beta")
        z = cp.Variable(factors.stacked.shape[1], name="z")
        conjugates, box = problem.loss.dual_atom(beta, problem.y, costs)
        penalty, domain = problem.regularizer.conjugate_atom(factors.split(z))
        images = z == factors.stacked.T @ beta
        balanced = balance(problem, beta)

        def recover() -> Point:
            rho = factors.norms(multiplier(images))
            return Point(beta.value, problem.regularizer.weights_from_norms(rho), balance_multiplier(balanced))

        program = cp.Problem(cp.Minimize(conjugates + penalty), [images, *balanced, *box, *domain])
        return Model(program, costs, recover)
