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

Source: Kloft 4.4.1, which has the SIP for p > 1 from Kloft et al. (2009a); SimpleMKL 3.4 for p = 1.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mklref._conic.model import Model
from mklref._conic.scaling import Factors
from mklref.formulations.base import Formulation
from mklref.formulations.silp import column_generation
from mklref.formulations.weighted_primal import psi
from mklref.losses.base import Costs
from mklref.problem import Problem
from mklref.regularizers import Lp


class SemiInfinite(Formulation):
    """Cutting planes on J(theta), with psi as it is."""

    name = "semi_infinite"

    def applies(self, problem: Problem) -> str | None:
        regularizer = problem.regularizer
        if isinstance(regularizer, Lp) and regularizer.p == 1.0:
            return f"at {regularizer} the semi-infinite program is linear; use 'silp'."
        if regularizer.weight_form == "min":
            return None
        return f"{regularizer} has no penalty on the weights that is minimised; use 'sup_block_norm' or 'dual'."

    def build(self, problem: Problem, L: Factors) -> Model:
        def bounded(theta: Any, c: Costs) -> tuple[Any, list[Any]]:
            """psi; a finite one is at most the objective at f = 0, b = 0: else masters may be unbounded below."""
            penalty, domain = psi(problem.regularizer, theta)
            if isinstance(penalty, float) or penalty.is_constant() or problem.intercept_cost:
                return penalty, domain
            at_zero = c.value.value @ problem.loss.value(np.zeros(problem.n_samples), problem.y)
            return penalty, [*domain, penalty <= at_zero]

        return column_generation(problem, L, bounded)
