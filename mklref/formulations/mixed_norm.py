r"""Primal over functions alone, with the mixed norm that minimising over the weights leaves.

Statement, over v_m (r_m,), s_m, t (n,) and b:

    minimise    sum_i c_i V(t_i, y_i) + R(s_1, ..., s_M) + c_b b
    subject to  t = sum_m L_m v_m + b,    ||v_m|| <= s_m   for every m

R is non-decreasing, so s_m = ||v_m|| = rho_m is optimal. For the lp ball R(rho) = 1/2 ||rho||_q^2 with
q = 2p/(p+1), which is 1/2 (sum_m rho_m)^2 at p = 1.

Dual: `dual`, and `qcqp` at p = 1.

Recovery: beta is the multiplier of the scores, theta_m = rho_m / (dR/drho_m) in closed form, or theta_m =
(dR*/dg_m) / g_m for `BlockNorm(q)` with q > 2, whose norms are nearly equal; b is a variable.

Source: SimpleMKL (3), with the weights (4); Kloft (27) with the weights (17) put in, a square where
(28) has the power q; Szafranski (4); Tomioka (4) and (5).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mklref import regularizers as reg
from mklref._conic.cones import cp, norm, power, smoothed_root
from mklref._conic.model import Model, PrimalForm, ratios
from mklref._conic.scaling import Factors
from mklref.formulations.base import Formulation
from mklref.problem import Problem
from mklref.regularizers.norms import block_exponent
from mklref.regularizers.rescaled import Rescaled


class MixedNorm(Formulation):
    """The penalty on the block norms; applies to every problem."""

    name = "mixed_norm"

    def build(self, problem: Problem, L: Factors) -> Model:
        f = PrimalForm(problem, L)
        s = cp.Variable(problem.n_kernels, nonneg=True, name="s")
        penalty, domain = R(problem.regularizer, s)
        objective = f.losses + penalty
        norms = [cp.norm(v_m) <= s_m for v_m, s_m in zip(f.v, s, strict=True)]
        return f.model(objective, [*norms, *domain], theta=lambda: f.weights)


def R(regularizer: reg.Regularizer, s: Any) -> tuple[Any, list[Any]]:
    """R(s) as a convex cvxpy scalar of a nonnegative expression s (M,), and constraints."""
    match regularizer:
        case reg.Lp(block_exponent=q) | reg.BlockNorm(q=q):  # 1/2 ||s||_q^2
            return 0.5 * cp.square(norm(s, q)), []
        case reg.WeightedLp(p=p, scale=scale):  # 1/2 ||s/sqrt(scale)||_q^2
            return 0.5 * cp.square(norm(cp.multiply(scale**-0.5, s), block_exponent(p))), []
        case reg.Fixed(weights=theta):  # 1/2 sum s_m^2 / theta_m, with 0/0 = 0
            present = theta > 0.0
            absent = [s[~present] == 0] if not present.all() else []
            return 0.5 * cp.sum(cp.multiply(1.0 / theta[present], cp.square(s[present]))), absent
        case reg.Mahalanobis(E=E):  # min { 1/2 sum s_m^2 / theta_m : theta'E^{-1}theta <= 1 }
            theta = cp.Variable(len(E), nonneg=True)
            return 0.5 * ratios(list(s), theta), [cp.norm(np.linalg.inv(np.linalg.cholesky(E)) @ theta) <= 1]
        case reg.Groups(groups=groups, p=p, gamma=gamma, gamma0=gamma0):  # 1/2 ||(d_l^{p/2} ||s_l||_gamma)_l||_gamma0^2
            within = [len(group) ** (0.5 * p) * norm(s[list(group)], gamma) for group in groups]
            return 0.5 * cp.square(norm(cp.hstack(within), gamma0)), []
        case reg.Power(degree=q) | reg.ConcaveBlock(g=reg.PowerRoot(degree=q)):  # 1/q sum s_m^q
            return cp.sum(power(s, q)) / q, []
        case reg.HalfPower(q=q):  # 1/2 sum s_m^q
            return 0.5 * cp.sum(power(s, q)), []
        case reg.WeightedL1(omega=omega):  # sum omega_m s_m
            return omega @ s, []
        case reg.Tikhonov(p=p, mu=mu):  # 3/4^{2/3} mu^{1/3} ||s||_q^{4/3}
            return 3.0 * (mu / 16.0) ** (1.0 / 3.0) * power(norm(s, block_exponent(p)), 4.0 / 3.0), []
        case reg.ElasticNet(lam=lam, form="tikhonov") | reg.ConcaveBlock(g=reg.RootPlusLinear(lam=lam)):
            return (1.0 - lam) * cp.sum(s) + 0.5 * lam * cp.sum_squares(s), []
        case reg.ElasticNet(lam=lam, form="ivanov"):
            return 0.5 * ((1.0 - lam) * cp.square(cp.sum(s)) + lam * cp.sum_squares(s)), []
        case reg.ConcaveBlock(g=reg.SmoothedRoot(epsilon=epsilon)):  # sum sqrt(s_m^2 + epsilon^2) - epsilon
            return smoothed_root(s, epsilon)
        case reg.ConcaveBlock(g=g):  # one of your own
            return cp.sum(g.block_atom(s)), []
        case Rescaled(base=base, root=root, factor=factor):  # factor R_base(s/root)
            penalty, domain = R(base, cp.multiply(1.0 / root, s))
            return factor * penalty, domain
    return regularizer.value_atom(s)
