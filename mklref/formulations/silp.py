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

from typing import Any

from mklref.formulations.base import Factors, Formulation, Model
from mklref.formulations.cutting_planes import cutting_planes
from mklref.problem import Problem
from mklref.regularizers import Lp


class SILP(Formulation):
    """A linear program in the weights that learns its constraints."""

    name = "silp"

    def applies(self, problem: Problem) -> str | None:
        """Only Lp(1) makes the master linear."""
        if isinstance(problem.regularizer, Lp) and problem.regularizer.p == 1.0:
            return None
        return f"the master of silp is linear at Lp(1), not at {problem.regularizer}; use 'semi_infinite' or 'dual'."

    def build(self, problem: Problem, factors: Factors) -> Model:
        """The separation program; the master adds the simplex."""
        return cutting_planes(problem, factors, _simplex)


def _simplex(theta: Any, at_zero: float) -> tuple[Any, list[Any]]:
    """No penalty, sum theta <= 1."""
    import cvxpy as cp

    return 0.0, [cp.sum(theta) <= 1]
