r"""Primal over functions and weights, with a bound on the weights.

Statement, over v_m (r_m,), theta (M,), t (n,) and b:

    minimise    sum_i c_i V(t_i, y_i) + 1/2 sum_m ||v_m||^2 / theta_m + c_b b
    subject to  t = sum_m L_m v_m + b,    theta >= 0,    { sum_m theta_m^p <= 1                 Tomioka (3), Kloft (P)
                                                         { sum_m (theta_m/scale_m)^p <= 1
                                                         { theta'E^{-1} theta <= 1              Kloft 3.6

where p = inf reads theta <= 1. Unless every function is 0 the bound is attained, by Kloft (5) and (6).
Kloft 2.2 calls (P) Tikhonov and (4) Ivanov; it is the reverse (erratum L1).

Dual: `dual`. Minimising over theta gives `mixed_norm`. Every solution is one of `tikhonov` at another cost C
(Kloft Theorem 1).

Recovery: beta is the multiplier of the scores; theta and b are variables.

Source: Kloft (P), which for lp norms is (27), and 3.6; SimpleMKL (2) at p = 1; Tomioka (3).
"""

from __future__ import annotations

import numpy as np

from mklref._conic.cones import cp, power
from mklref._conic.model import Model, PrimalForm, nonnegative, ratios
from mklref._conic.scaling import Factors
from mklref.formulations.base import Formulation
from mklref.problem import Problem
from mklref.regularizers import Lp, Mahalanobis, WeightedLp


class IvanovForm(Formulation):
    """A bounded set of explicit kernel weights."""

    name = "ivanov"
    covers = (Lp, WeightedLp, Mahalanobis)
    instead = "'mixed_norm', which takes every regulariser, or 'weighted_primal' where it applies"

    def build(self, problem: Problem, L: Factors) -> Model:
        f = PrimalForm(problem, L)
        theta = cp.Variable(problem.n_kernels, nonneg=True, name="theta")
        match problem.regularizer:
            case Lp(p=np.inf):
                bound = theta <= 1
            case Lp(p=p):
                bound = cp.sum(power(theta, p)) <= 1
            case WeightedLp(p=np.inf, scale=scale):
                bound = theta <= scale
            case WeightedLp(p=p, scale=scale):
                bound = cp.sum(power(cp.multiply(1 / scale, theta), p)) <= 1
            case Mahalanobis(E=E):
                bound = cp.sum_squares(np.linalg.inv(np.linalg.cholesky(E)) @ theta) <= 1
        return f.model(f.losses + 0.5 * ratios(f.v, theta), [bound], theta=lambda: nonnegative(theta))
