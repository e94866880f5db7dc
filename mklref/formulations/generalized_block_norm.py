r"""Primal with a concave function of every squared block norm.

Statement, over v_m (r_m,), t (n,) and b, for g concave and non-decreasing with rho -> g(rho^2) convex:

    minimise    sum_i c_i V(t_i, y_i) + sum_m g(||v_m||^2) + c_b b
    subject to  t = sum_m L_m v_m + b

Rows of Tomioka's Table 1: g(x) = (1+p)/(2p) x^{p/(1+p)} is `Power(p)`, and g(x) = (1-lam) sqrt(x) + lam/2 x is
`ElasticNet(lam)`. Its row for q > 2 prints a convex g, to which (10) and (11) do not apply (erratum T5).

Dual: `dual`, with R*(s) = sum_m sup_{rho >= 0} s_m rho - g(rho^2). The weight form is Tomioka (11).

Recovery: beta is the multiplier of the scores; theta_m = 1/(2 g'(rho_m^2)), where the tangent of g in the
variational form is attained; b is a variable.

Source: Tomioka (9)-(11).
"""

from __future__ import annotations

from typing import Any

from mklref._conic.cones import cp, norms, power, smoothed_root
from mklref._conic.model import Model, PrimalForm
from mklref._conic.scaling import Factors
from mklref.formulations.base import Formulation
from mklref.problem import Problem
from mklref.regularizers import ConcaveBlock, ElasticNet, Power, PowerRoot, Regularizer, RootPlusLinear, SmoothedRoot
from mklref.regularizers.norms import block_exponent
from mklref.regularizers.rescaled import Rescaled


class GeneralizedBlockNorm(Formulation):
    """A sum over kernels of g of the squared norm."""

    name = "generalized_block_norm"

    def applies(self, problem: Problem) -> str | None:
        if concave_form(problem.regularizer) is not None:
            return None
        return (
            f"{problem.regularizer} is no sum of concave functions of the squared norms; "
            "ConcaveBlock, Power and ElasticNet in Tikhonov form are. Use 'mixed_norm', which takes every regulariser."
        )

    def build(self, problem: Problem, L: Factors) -> Model:
        R, factor = problem.regularizer, 1.0
        if isinstance(R, Rescaled):  # in the unit of a program g may have a factor
            factor, R = R.factor, R.base
        block = concave_form(R)
        assert block is not None
        f = PrimalForm(problem, L)
        rho = norms(f.v)
        domain: list[Any] = []
        match block.g:
            case PowerRoot(p=p):  # g(x) = (1+p)/(2p) x^{p/(1+p)}, with (1+p)/(2p) = 1/q and 2p/(1+p) = q
                g = power(rho, block_exponent(p)) / block_exponent(p)
            case RootPlusLinear(lam=lam):  # g(x) = (1-lam) sqrt(x) + lam/2 x
                g = (1.0 - lam) * rho + 0.5 * lam * cp.square(rho)
            case SmoothedRoot(epsilon=epsilon):  # g(x) = sqrt(x + epsilon^2) - epsilon
                g, domain = smoothed_root(rho, epsilon)
            case other:
                g = other.block_atom(rho)
        objective = f.losses + factor * cp.sum(g)
        return f.model(objective, domain, theta=lambda: block.weights_from_norms(f.rho) / factor)


def concave_form(regularizer: Regularizer) -> ConcaveBlock | None:
    """The regulariser as a sum of g(rho_m^2), or None."""
    match regularizer:
        case ConcaveBlock():
            return regularizer
        case Power(p=p):
            return ConcaveBlock(PowerRoot(p))
        case ElasticNet(lam=lam, form="tikhonov"):
            return ConcaveBlock(RootPlusLinear(lam))
    return None
