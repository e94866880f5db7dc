r"""Primal over functions and kernel weights.

Statement, over v_m (r_m,), theta (M,), t (n,) and b:

    minimise    sum_i c_i V(t_i, y_i) + 1/2 sum_m ||v_m||^2 / theta_m + psi(theta) + c_b b
    subject to  t = sum_m L_m v_m + b,    theta >= 0

with 0/0 = 0 and x/0 = inf: jointly convex, because ||v||^2/theta is the perspective of a square.

Dual: `dual`. Minimising over theta in closed form gives `mixed_norm`.

Recovery: beta is the multiplier of the scores, t = sum_m L_m v_m + b; theta and b are variables.

Source: SimpleMKL (2) with psi the indicator of the simplex; Kloft (P) with that of an lp ball, and (4) and
Tomioka (6) with a finite psi; Szafranski (7).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mklref import regularizers as reg
from mklref._conic.cones import cp, norm, power
from mklref._conic.model import Model, PrimalForm, nonnegative, ratios
from mklref._conic.scaling import Factors
from mklref.formulations.base import Formulation
from mklref.problem import Problem
from mklref.regularizers.norms import ball_exponent, reciprocal
from mklref.regularizers.rescaled import Rescaled


class WeightedPrimal(Formulation):
    """Explicit kernel weights; any loss, every regulariser with a penalty psi on the weights."""

    name = "weighted_primal"

    def applies(self, problem: Problem) -> str | None:
        if problem.regularizer.weight_form == "min":
            return None
        return (
            f"{problem.regularizer} is no minimum over kernel weights (weight_form = "
            f"{problem.regularizer.weight_form!r}), so that a joint minimisation would be another problem; "
            "use 'mixed_norm' or 'dual'."
        )

    def build(self, problem: Problem, L: Factors) -> Model:
        f = PrimalForm(problem, L)
        theta = cp.Variable(problem.n_kernels, nonneg=True, name="theta")
        penalty, domain = psi(problem.regularizer, theta)
        objective = f.losses + 0.5 * ratios(f.v, theta) + penalty
        return f.model(objective, domain, theta=lambda: nonnegative(theta))


def psi(regularizer: reg.Regularizer, theta: Any) -> tuple[Any, list[Any]]:
    """psi(theta) as a convex cvxpy scalar of a nonnegative expression theta (M,), and constraints.

    Raises
    ------
    NotApplicable
        If the regulariser is no minimum over weights (`weight_form` is not "min").
    """
    match regularizer:
        case reg.Lp(p=p):  # ||theta||_p <= 1
            return 0.0, [norm(theta, p) <= 1]
        case reg.BlockNorm(q=q) if q <= 2.0:  # ||theta||_{q/(2-q)} <= 1
            return 0.0, [norm(theta, ball_exponent(q)) <= 1]
        case reg.WeightedLp(p=p, scale=scale):  # ||theta/scale||_p <= 1
            return 0.0, [norm(cp.multiply(1.0 / scale, theta), p) <= 1]
        case reg.Fixed(weights=weights):
            return 0.0, [theta <= weights]
        case reg.Mahalanobis(E=E):  # theta'E^{-1}theta <= 1
            return 0.0, [cp.norm(np.linalg.inv(np.linalg.cholesky(E)) @ theta) <= 1]
        case reg.Groups(groups=groups, p=p, q=q, total=total):  # ||(d_l^p ||theta_l||_{1/q})_l||_{1/(p+q)} <= 1
            within = [len(group) ** p * norm(theta[list(group)], reciprocal(q)) for group in groups]
            return 0.0, [norm(cp.hstack(within), reciprocal(total)) <= 1]
        case reg.Power(p=np.inf) | reg.ConcaveBlock(g=reg.PowerRoot(p=np.inf)) | reg.HalfPower(q=2.0):
            return 0.0, [theta <= 1]
        case reg.Power(p=p) | reg.ConcaveBlock(g=reg.PowerRoot(p=p)):  # 1/(2p) sum theta_m^p
            return cp.sum(power(theta, p)) / (2.0 * p), []
        case reg.HalfPower(q=q):  # q/(4p) sum (q theta_m/2)^p, p = q/(2-q)
            p = ball_exponent(q)
            return 0.5 * q * cp.sum(power(0.5 * q * theta, p)) / (2.0 * p), []
        case reg.WeightedL1(omega=omega):  # 1/2 sum omega_m^2 theta_m
            return 0.5 * omega**2 @ theta, []
        case reg.Tikhonov(p=p, mu=mu):  # mu ||theta||_p^2
            return mu * cp.square(norm(theta, p)), []
        case reg.ElasticNet(lam=lam, form="tikhonov") | reg.ConcaveBlock(g=reg.RootPlusLinear(lam=lam)):
            return 0.5 * (1.0 - lam) * _h(theta, lam), []
        case reg.ElasticNet(lam=lam, form="ivanov"):  # sum h(theta) <= 1
            return 0.0, [_h(theta, lam) <= 1]
        case reg.ConcaveBlock(g=reg.SmoothedRoot(epsilon=epsilon)):
            # min { 1/2 sum (x_m - epsilon)^2 / x_m : x >= theta, x >= epsilon }, x = epsilon + t y
            y, t = cp.Variable(theta.shape, nonneg=True), min(1.0, 1.0 / epsilon)
            x = epsilon * t + t * t * y
            return 0.5 * t**3 * ratios(list(y), x), [t * theta <= x]
        case Rescaled(base=base, root=root, factor=factor):  # factor psi_base(factor theta / root^2)
            penalty, domain = psi(base, cp.multiply(factor / root**2, theta))
            return factor * penalty, domain
    return regularizer.weight_atom(theta)


def _h(theta: Any, lam: float) -> Any:
    """sum_m h(theta_m), h(theta) = (1-lam) theta / (1 - lam theta), the last row of Tomioka's Table 1.

    It is (1-lam) theta + lam theta^2/x with x = (1 - lam theta)/(1-lam), where nothing cancels for lam near 0 or 1.
    """
    return (1.0 - lam) * cp.sum(theta) + lam * ratios(list(theta), (1.0 - lam * theta) / (1.0 - lam))
