r"""Hierarchical penalisation of a linear model: groups of variables, with shrinkage by group and by variable.

Statement, over the coefficients w (M,) of M variables, sigma1 (L,), sigma2 (M,), t (n,) and b, with X (n, M):

    minimise    sum_i c_i V(t_i, y_i) + 1/2 sum_m w_m^2 / sqrt(sigma1_l sigma2_m) + c_b b
    subject to  t = X w + b
                sum_l d_l sigma1_l <= 1,    sum_m sigma2_m <= 1,    sigma1, sigma2 >= 0

It is `groups` at p = q = 1/2 with the kernel x_m x_m' for each variable, divided by 2 lambda of the paper: J = 2 lambda
sum_i c_i V. (6) lists sigma2 >= 0 only; sigma1 >= 0 is needed as well (erratum S1).

Dual: `dual`. Minimising over sigma1 and sigma2 gives 1/2 (sum_l d_l^{1/4} (sum_{m in l} |w_m|^{4/3})^{3/4})^2, the
penalty of `cap`.

Recovery: beta is the multiplier of the scores; theta_m = sqrt(sigma1_l sigma2_m); b is a variable.

Source: Szafranski (6).
"""

from __future__ import annotations

import numpy as np

from mklref._conic.cones import cp
from mklref._conic.model import Model, PrimalForm, nonnegative, ratios
from mklref._conic.scaling import Factors
from mklref.formulations.base import Formulation
from mklref.kernels.stack import KernelStack
from mklref.problem import Problem
from mklref.regularizers import Groups

_RANK_ONE = 1e-11
"""Relative excess of the squared trace over the squared Frobenius norm up to which a matrix counts as of rank one."""


class Hierarchical(Formulation):
    """One coefficient for each variable."""

    name = "hierarchical"

    def applies(self, problem: Problem) -> str | None:
        regularizer = problem.regularizer
        if not (isinstance(regularizer, Groups) and regularizer.p == 0.5 and regularizer.q == 0.5):
            return f"hierarchical is for Groups(groups, 0.5, 0.5), not for {regularizer}; use 'groups' or 'mixed_norm'."
        m = _first_of_higher_rank(problem.kernels)
        if m is not None:
            return (
                "hierarchical is a linear model with one variable for each kernel, and "
                f"kernel {m} has a rank above 1; use 'groups'."
            )
        return None

    def build(self, problem: Problem, X: Factors) -> Model:
        groups = problem.regularizer
        assert isinstance(groups, Groups)
        f = PrimalForm(problem, X)  # v_m = w_m, a number: t = X w + b
        sigma1 = cp.Variable(len(groups.groups), nonneg=True, name="sigma1")
        sigma2 = cp.Variable(problem.n_kernels, nonneg=True, name="sigma2")
        group_of = groups.group_of
        roots = [cp.geo_mean(cp.hstack([sigma1[group_of[m]], sigma2[m]])) for m in range(problem.n_kernels)]
        return f.model(
            f.losses + 0.5 * ratios(f.v, roots),
            [groups.sizes @ sigma1 <= 1, cp.sum(sigma2) <= 1],
            theta=lambda: np.sqrt(nonnegative(sigma1)[group_of] * nonnegative(sigma2)),
        )


def _first_of_higher_rank(kernels: KernelStack) -> int | None:
    """The first kernel with (trace K)^2 > ||K||_F^2, which holds with equality for rank one; None if there is none."""
    for m, K in enumerate(kernels.dense()):
        trace, square = float(np.trace(K, dtype=np.float64)), float(np.linalg.norm(K.astype(np.float64)) ** 2)
        if trace * trace > square * (1.0 + _RANK_ONE):
            return m
    return None
