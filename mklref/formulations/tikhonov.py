r"""Primal over functions and weights, with a penalty on the weights.

Statement, over v_m (r_m,), theta (M,), t (n,) and b:

    minimise    sum_i c_i V(t_i, y_i) + 1/2 sum_m ||v_m||^2 / theta_m + c_b b + { mu ||theta||_p^2          Kloft (4)
                                                                              { mu/2 sum_m h(theta_m)      Tomioka (6)
    subject to  t = sum_m L_m v_m + b,    theta >= 0

with Tomioka's Table 1: h(theta) = theta^p and mu = 1/p for `Power(p)`, the indicator of [0, 1] at p = inf; and
h(theta) = omega_m^2 theta, mu = 1 for `WeightedL1`. The row of the elastic net has a form of its own, `elastic_net`.
Kloft 2.2 calls (4) Ivanov and (P) Tikhonov; it is the reverse (erratum L1).

Dual: `dual`, with the R* of the regulariser. Minimising over theta gives `mixed_norm`. Every solution is one of
`ivanov` at another cost C (Kloft Theorem 1).

Recovery: beta is the multiplier of the scores; theta and b are variables.

Source: Kloft (3), (4), and (18), which has mu/2 in place of mu; Tomioka (6) and Table 1.
"""

from __future__ import annotations

import numpy as np

from mklref._conic.cones import cp, norm, power
from mklref._conic.model import Model, PrimalForm, nonnegative, ratios
from mklref._conic.scaling import Factors
from mklref.formulations.base import Formulation
from mklref.problem import Problem
from mklref.regularizers import Power, Tikhonov, WeightedL1


class TikhonovForm(Formulation):
    """A finite penalty on explicit kernel weights."""

    name = "tikhonov"
    covers = (Tikhonov, Power, WeightedL1)
    instead = "'weighted_primal', which takes every penalty on the weights, or 'mixed_norm'"

    def build(self, problem: Problem, L: Factors) -> Model:
        f = PrimalForm(problem, L)
        theta = cp.Variable(problem.n_kernels, nonneg=True, name="theta")
        penalty, domain = 0.0, []
        match problem.regularizer:
            case Tikhonov(p=p, mu=mu):
                penalty = mu * cp.square(norm(theta, p))
            case Power(p=np.inf):
                domain = [theta <= 1]
            case Power(p=p):
                penalty = 0.5 / p * cp.sum(power(theta, p))
            case WeightedL1(omega=omega):
                penalty = 0.5 * omega**2 @ theta
        return f.model(f.losses + 0.5 * ratios(f.v, theta) + penalty, domain, theta=lambda: nonnegative(theta))
