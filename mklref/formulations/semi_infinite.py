r"""Semi-infinite program for every regulariser with a penalty psi on the weights, by column generation.

Statement, over theta (M,) and tau:

    minimise    tau + psi(theta)
    subject to  tau >= S(beta) - 1/2 sum_m theta_m beta'K_m beta    for every feasible beta,    theta >= 0

where S(beta) = -sum_i c_i V*(-beta_i/c_i, y_i): `silp` with another psi, for instance the indicator of an lp ball.
The master is conic instead of linear. A psi that grows only linearly would leave the first masters unbounded below;
no loss is negative, so psi(theta) may be bounded by the objective at f = 0.

Dual: a mixture of the beta found: the multipliers of the constraints sum to 1.

Recovery: theta from the master, beta as the mixture of the separating points by the master's multipliers, b as the
multiplier of 1'beta = c_b in the best separation.

Source: Kloft 4.4.1, the SIP of its companion paper for p > 1; SimpleMKL 3.4 for p = 1.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mklref._conic.cutting_planes import Cuts, Loop
from mklref._conic.model import Model, Solve, balance, balance_multiplier, cost_parameters, nonnegative
from mklref._conic.scaling import Factors
from mklref.formulations.base import Formulation
from mklref.formulations.dual import V_star
from mklref.formulations.weighted_primal import psi
from mklref.problem import Point, Problem
from mklref.regularizers import Lp


class SemiInfinite(Formulation):
    """Cutting planes on J(theta), with psi as it is."""

    name = "semi_infinite"

    def applies(self, problem: Problem) -> str | None:
        """Needs psi; at p = 1 the program is linear and has its own name."""
        regularizer = problem.regularizer
        if isinstance(regularizer, Lp) and regularizer.p == 1.0:
            return f"at {regularizer} the semi-infinite program is linear; use 'silp'."
        if regularizer.weight_form == "min":
            return None
        return f"{regularizer} has no penalty on the weights that is minimised; use 'sup_block_norm' or 'dual'."

    def build(self, problem: Problem, L: Factors) -> Model:
        """The separation program over beta, the master over theta and tau, and the loop."""
        import cvxpy as cp

        c = cost_parameters(problem.n_samples)
        beta = cp.Variable(problem.n_samples, name="beta")
        root = cp.Parameter(problem.n_kernels, nonneg=True, name="root")  # sqrt(theta): products with it are DPP
        conjugates, box = V_star(problem.loss, beta, problem.y, c)
        quadratic = cp.sum_squares(cp.hstack([root[m] * (L_m.T @ beta) for m, L_m in enumerate(L.matrices)]))
        intercept = balance(problem, beta)
        separation = cp.Problem(cp.Maximize(-conjugates - 0.5 * quadratic), [*intercept, *box])

        def bounded(penalty: Any) -> bool:
            """A finite psi is at most the objective at f = 0, b = 0: else the first masters may be unbounded below."""
            indicator = isinstance(penalty, float) or penalty.is_constant()
            return not indicator and not problem.intercept_cost

        def loop(solve: Solve) -> Point:
            cuts = Cuts(problem, L, c)
            theta = problem.regularizer.weights_from_norms(np.ones(problem.n_kernels))
            while True:
                root.value = np.sqrt(theta)
                solve(separation)  # the beta whose constraint is violated most at theta
                cuts.add(beta.value, balance_multiplier(intercept), theta)

                weights = cp.Variable(problem.n_kernels, nonneg=True, name="theta")
                tau = cp.Variable(name="tau")  # in units of S
                found = tau >= (cuts.S - 0.5 * cuts.q @ weights) / cuts.unit
                penalty, domain = psi(problem.regularizer, weights)
                if bounded(penalty):
                    at_zero = c.value.value @ problem.loss.value(np.zeros(problem.n_samples), problem.y)
                    domain = [*domain, penalty <= at_zero]
                master = cp.Problem(cp.Minimize(cuts.unit * tau + penalty), [found, *domain])
                solve(master)  # the best weights for the constraints found so far
                theta = nonnegative(weights)
                if cuts.closed(master.solution.opt_val):
                    return cuts.mixture(theta, found)

        return Loop(separation, c, lambda: Point(beta.value, root.value**2, balance_multiplier(intercept)), loop)
