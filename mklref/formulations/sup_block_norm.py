r"""Primal of block norms with q >= 2, whose weights solve a maximisation.

Statement, over v_m (r_m,), x (M,), t (n,) and b, with r = q/(q-2):

    minimise    sum_i c_i V(t_i, y_i) + sup { 1/2 sum_m vartheta_m x_m : vartheta >= 0, ||vartheta||_r <= 1 } + c_b b
    subject to  t = sum_m L_m v_m + b,    ||v_m||^2 <= x_m    for every m

The supremum is 1/2 ||x||_{q/2}, so that the penalty is 1/2 ||rho||_q^2. It is a saddle point: minimising over
theta = 1/vartheta as for q <= 2 would be unbounded below. Tomioka prints a minimum for q > 2, an unsquared norm and a
concave g (errata T3 to T5).

Dual: `dual`, with R*(g) = 1/2 ||g||_{q*}^2.

Recovery: beta is the multiplier of the scores; vartheta_m is twice the multiplier of ||v_m||^2 <= x_m, and
theta_m = 1/vartheta_m = rho_m^{-2/(r-1)} (sum_l rho_l^{2r/(r-1)})^{1/r}, which Kloft (31) prints with the last factor
inverted and the sign of its inner exponent changed (erratum L11). b is a variable.

Source: Kloft (30), (31); Tomioka (8) and its remarks on q > 2.
"""

from __future__ import annotations

import numpy as np

from mklref._conic.cones import cp, norm
from mklref._conic.model import Model, PrimalForm, multiplier
from mklref._conic.scaling import Factors
from mklref._typing import Array
from mklref.formulations.base import Formulation
from mklref.problem import Problem
from mklref.regularizers import BlockNorm
from mklref.regularizers.lp import NEGLIGIBLE


class SupBlockNorm(Formulation):
    """The supremum over inverse weights as a norm of the squared norms."""

    name = "sup_block_norm"

    def applies(self, problem: Problem) -> str | None:
        if isinstance(problem.regularizer, BlockNorm) and problem.regularizer.q >= 2.0:
            return None
        return (
            f"sup_block_norm is for BlockNorm(q) with q >= 2, not for {problem.regularizer}: below, the weights "
            "solve a minimisation; use 'mixed_norm' or 'weighted_primal'."
        )

    def build(self, problem: Problem, L: Factors) -> Model:
        block = problem.regularizer
        assert isinstance(block, BlockNorm)
        f = PrimalForm(problem, L)
        x = cp.Variable(problem.n_kernels, nonneg=True, name="x")
        objective = f.losses + 0.5 * norm(x, block.q / 2)
        squares = [cp.sum_squares(v_m) <= x_m for v_m, x_m in zip(f.v, x, strict=True)]

        def weights() -> Array:
            vartheta = 2.0 * np.concatenate([multiplier(constraint) for constraint in squares])
            # A function of norm 0 has no say in the supremum: its vartheta may be 0, and its theta is anything.
            present = f.rho > 1e-9 * f.rho.max(initial=1e-300)
            theta = f.weights
            known = present & (vartheta > NEGLIGIBLE * vartheta.max())
            theta[known] = 1.0 / vartheta[known]
            return theta

        return f.model(objective, squares, weights)
