r"""Primal over functions and weights, with a bound on the weights.

Statement, over v_m (r_m,), theta (M,), t (n,) and b:

    minimise    sum_i c_i V(t_i, y_i) + 1/2 sum_m ||v_m||^2 / theta_m + c_b b
    subject to  t = sum_m L_m v_m + b,    theta >= 0,    { sum_m theta_m^p <= 1                 Tomioka (3), Kloft (P)
                                                         { sum_m (theta_m/scale_m)^p <= 1
                                                         { theta'E^{-1} theta <= 1              Kloft 3.6

where p = inf reads theta <= 1. Without functions of norm 0 the bound is attained, by Kloft (5) and (6).
Kloft 2.2 calls (P) Tikhonov and (4) Ivanov; it is the reverse (erratum L1).

Dual: `dual`. Minimising over theta gives `mixed_norm`. Every solution is one of `tikhonov` at another cost C
(Kloft Theorem 1).

Recovery: beta is the multiplier of the scores; theta and b are variables.

Source: Kloft (P); SimpleMKL (2) at p = 1; Tomioka (3).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mklref._typing import Array
from mklref.formulations.base import (
    Factors,
    Formulation,
    Model,
    Point,
    cost_parameters,
    half_ratios,
    multiplier,
    recovered_intercept,
    scores_and_losses,
)
from mklref.problem import Problem
from mklref.regularizers import Lp, Mahalanobis, Regularizer, WeightedLp
from mklref.regularizers.norms import power_atom


class IvanovForm(Formulation):
    """A bounded set of explicit kernel weights."""

    name = "ivanov"

    def applies(self, problem: Problem) -> str | None:
        """The sets of the statement."""
        if isinstance(problem.regularizer, Lp | WeightedLp | Mahalanobis):
            return None
        return (
            f"ivanov bounds the weights by Lp, WeightedLp or Mahalanobis, not by {problem.regularizer}; "
            "use 'mixed_norm', which takes every regulariser, or 'weighted_primal' where it applies."
        )

    def build(self, problem: Problem, factors: Factors) -> Model:
        """The model over v, theta, t and b."""
        import cvxpy as cp

        costs = cost_parameters(problem.n_samples)
        v, b, scores, losses = scores_and_losses(problem, factors, costs)
        theta = cp.Variable(problem.n_kernels, nonneg=True, name="theta")

        def recover() -> Point:
            return Point(multiplier(scores), np.maximum(theta.value, 0.0), recovered_intercept(b))

        objective = losses + half_ratios(factors, v, list(theta))
        return Model(cp.Problem(cp.Minimize(objective), [scores, _bound(problem.regularizer, theta)]), costs, recover)


def _bound(regularizer: Regularizer, theta: Any) -> Any:
    """The last constraint of the statement."""
    import cvxpy as cp

    match regularizer:
        case Lp(p=p):
            return _powers(theta, p)
        case WeightedLp(p=p, scale=scale):
            return _powers(cp.multiply(1.0 / scale, theta), p)
        case Mahalanobis(E=E):
            root: Array = np.linalg.inv(np.linalg.cholesky(E))
            return cp.sum_squares(root @ theta) <= 1
    raise AssertionError(regularizer)


def _powers(theta: Any, p: float) -> Any:
    """Sum theta^p <= 1, or theta <= 1."""
    import cvxpy as cp

    return theta <= 1 if np.isinf(p) else cp.sum(power_atom(theta, p)) <= 1
