r"""Primal of the elastic net over functions and weights, by a substitution that keeps it conic.

Tomioka's Table 1 has h(theta) = (1-lam) theta / (1 - lam theta), which grows without bound as theta nears 1/lam. With
u_m = h(theta_m), that is theta_m = u_m / ((1-lam) + lam u_m),

    1/2 sum_m ||v_m||^2 / theta_m = 1/2 sum_m (1-lam) ||v_m||^2 / u_m + lam ||v_m||^2

Statement, over v_m (r_m,), u (M,), t (n,) and b:

    minimise    sum_i c_i V(t_i, y_i) + 1/2 sum_m [ (1-lam) ||v_m||^2 / u_m + lam ||v_m||^2 ] + c_b b
                + (1-lam)/2 sum_m u_m     in Tikhonov form
    subject to  t = sum_m L_m v_m + b,    u >= 0,    sum_m u_m <= 1     in Ivanov form

Minimising over u gives (1-lam) sum rho + lam/2 sum rho^2, and 1/2 ((1-lam) (sum rho)^2 + lam sum rho^2).

Dual: `dual`, with R*(g) = min over tau of 1/(2 lam) sum (g_m - tau)_+^2, plus tau^2/(2(1-lam)) in Ivanov form; in
Tikhonov form tau is 1-lam.

Recovery: beta is the multiplier of the scores; theta_m = u_m / ((1-lam) + lam u_m); b is a variable.

Source: Tomioka (12), (13), (3), (6) and Table 1. Its remark that the weights of Longworth and Gales (a simplex and
a squared penalty) give the elastic net does not hold as stated (erratum T9).
"""

from __future__ import annotations

from mklref._conic.cones import cp
from mklref._conic.model import Model, PrimalForm, nonnegative, ratios
from mklref._conic.scaling import Factors
from mklref.formulations.base import Formulation
from mklref.problem import Problem
from mklref.regularizers import ElasticNet


class ElasticNetForm(Formulation):
    """Weights through u = h(theta), in both forms of the elastic net."""

    name = "elastic_net"
    covers = (ElasticNet,)
    instead = "'weighted_primal' or 'mixed_norm'"

    def build(self, problem: Problem, L: Factors) -> Model:
        net = problem.regularizer
        assert isinstance(net, ElasticNet)
        lam = net.lam
        f = PrimalForm(problem, L)
        u = cp.Variable(problem.n_kernels, nonneg=True, name="u")
        objective = f.losses + 0.5 * (1 - lam) * ratios(f.v, u) + 0.5 * lam * cp.sum_squares(f.stacked)
        if net.form == "tikhonov":
            objective, bound = objective + 0.5 * (1 - lam) * cp.sum(u), []
        else:
            bound = [cp.sum(u) <= 1]
        return f.model(objective, bound, theta=lambda: nonnegative(u) / ((1 - lam) + lam * nonnegative(u)))
