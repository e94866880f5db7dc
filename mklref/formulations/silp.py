r"""Semi-infinite linear program of l1-MKL, by column generation.

Statement, over theta (M,) and tau:

    minimise    tau
    subject to  tau >= S(beta) - 1/2 sum_m theta_m beta'K_m beta    for every feasible beta
                theta >= 0,    sum_m theta_m <= 1

where S(beta) = -sum_i c_i V*(-beta_i/c_i, y_i), and feasible means in its domain with 1'beta = c_b. Linear in
(theta, tau), with one constraint for each of infinitely many beta. Both the master, a linear program over the
constraints found so far, and the separation, a kernel machine that finds the most violated one, are cvxpy programs.

Dual: a mixture of the beta found: the multipliers of the constraints sum to 1.

Recovery: theta from the master, beta as the mixture of the separating points by the master's multipliers (no single
one of them is optimal at p = 1), b as the multiplier of 1'beta = c_b in the best separation.

Source: SimpleMKL 3.4 and Kloft 4.4.1, after Sonnenburg et al.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from mklref._conic.cones import cp
from mklref._conic.model import Cuts, Loop, Model, Solve, balance, balance_multiplier, cost_parameters, nonnegative
from mklref._conic.scaling import Factors
from mklref.formulations.base import Formulation
from mklref.formulations.dual import V_star
from mklref.losses.base import Costs
from mklref.problem import Point, Problem
from mklref.regularizers import Lp


class SILP(Formulation):
    """A linear program in the weights that learns its constraints."""

    name = "silp"

    def applies(self, problem: Problem) -> str | None:
        if isinstance(problem.regularizer, Lp) and problem.regularizer.p == 1.0:
            return None
        return f"the master of silp is linear at Lp(1), not at {problem.regularizer}; use 'semi_infinite' or 'dual'."

    def build(self, problem: Problem, L: Factors) -> Model:
        return column_generation(problem, L, lambda theta, c: (0.0, [cp.sum(theta) <= 1]))


def column_generation(problem: Problem, L: Factors, psi: Callable[[Any, Costs], tuple[Any, list[Any]]]) -> Model:
    """The separation program over beta, the master over theta and tau + psi(theta), and the loop."""
    c = cost_parameters(problem.n_samples)
    beta = cp.Variable(problem.n_samples, name="beta")
    root = cp.Parameter(problem.n_kernels, nonneg=True, name="root")  # sqrt(theta): products with it are DPP
    conjugates, box = V_star(problem.loss, beta, problem.y, c)
    quadratic = cp.sum_squares(cp.hstack([root[m] * (L_m.T @ beta) for m, L_m in enumerate(L.matrices)]))
    intercept = balance(problem, beta)
    separation = cp.Problem(cp.Maximize(-conjugates - 0.5 * quadratic), [*intercept, *box])

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
            penalty, domain = psi(weights, c)
            master = cp.Problem(cp.Minimize(cuts.unit * tau + penalty), [found, *domain])
            solve(master)  # the best weights for the constraints found so far
            theta = nonnegative(weights)
            if cuts.closed(master.solution.opt_val):
                return cuts.mixture(theta, found)

    return Loop(separation, c, lambda: Point(beta.value, root.value**2, balance_multiplier(intercept)), loop)
