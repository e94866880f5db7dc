r"""Primal with a block norm of the functions, squared or not.

Statement, over v_m (r_m,), t (n,) and b, with rho = (||v_1||, ..., ||v_M||):

    minimise    sum_i c_i V(t_i, y_i) + c_b b + { 1/2 ||rho||_q^2       Kloft (27), (30); Tomioka (5)
                                                { 1/q sum_m rho_m^q     Tomioka (7)
                                                { 1/2 sum_m rho_m^q     Kloft (28)
    subject to  t = sum_m L_m v_m + b

for q in [1, 2], and for the squared norm up to q = inf. For one q the three have the same solutions, at costs C that
depend on the solution; Kloft's Prop. 5 prints the cost of the third without its factor q/2 (erratum L10).

Dual: `dual`, with R*(g) = 1/2 ||g||_{q*}^2, 1/q* sum g^{q*}, and the latter rescaled.

Recovery: beta is the multiplier of the scores, theta_m = rho_m / (dR/drho_m), which is proportional to
rho_m^{2-q}, or for q > 2 theta_m = (dR*/dg_m) / g_m, proportional to g_m^{(2-q)/(q-1)}. b is a variable.

Source: Kloft (27)-(30); Tomioka (5), (7).
"""

from __future__ import annotations

from mklref._conic.cones import cp, norm, norms, power
from mklref._conic.model import Model, PrimalForm
from mklref._conic.scaling import Factors
from mklref.formulations.base import Formulation
from mklref.problem import Problem
from mklref.regularizers import BlockNorm, HalfPower, Lp, Power


class BlockNormForm(Formulation):
    """Compositions of Euclidean norms and q-norms, without auxiliary variables."""

    name = "block_norm"
    covers = (Lp, BlockNorm, Power, HalfPower)

    def build(self, problem: Problem, L: Factors) -> Model:
        f = PrimalForm(problem, L)
        rho = norms(f.v)
        match problem.regularizer:
            case BlockNorm(q=q) | Lp(block_exponent=q):
                penalty = 0.5 * cp.square(norm(rho, q))
            case Power(block_exponent=q):
                penalty = cp.sum(power(rho, q)) / q
            case HalfPower(q=q):
                penalty = 0.5 * cp.sum(power(rho, q))
        return f.model(f.losses + penalty, [], theta=lambda: f.weights)
