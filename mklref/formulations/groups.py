r"""Primal of group kernel learning, jointly over functions, group weights and kernel weights.

Statement, over v_m (r_m,), sigma1 (L,), sigma2 (M,), t (n,) and b, with l the group of kernel m and d_l its size:

    minimise    sum_i c_i V(t_i, y_i) + 1/2 sum_m sigma1_l^{-p} sigma2_m^{-q} ||v_m||^2 + c_b b
    subject to  t = sum_m L_m v_m + b
                sum_l d_l sigma1_l <= 1,    sum_m sigma2_m <= 1,    sigma1, sigma2 >= 0

For p, q >= 0 with p + q <= 1 the weight sigma1^p sigma2^q 1^{1-p-q} is a geometric mean, concave, so that the ratio
is jointly convex. For p + q > 1 and two groups or more it is not: Szafranski's Props. 2 and 3 read so after errata S3
and S4; (6) lists sigma2 >= 0 only (S1).

Dual: `dual`; minimising over sigma1 and sigma2 in closed form gives `cap`.

Recovery: beta is the multiplier of the scores; theta_m = sigma1_l^p sigma2_m^q; b is a variable.

Source: Szafranski (8), and (7) at (p, q) = (0, 1).
"""

from __future__ import annotations

from mklref._conic.cones import MAX_DENOMINATOR, cp
from mklref._conic.model import Model, PrimalForm, nonnegative, ratios
from mklref._conic.scaling import Factors
from mklref.formulations.base import Formulation
from mklref.problem import Problem
from mklref.regularizers import Groups


class GroupsForm(Formulation):
    """Two layers of weights, multiplied by a geometric mean."""

    name = "groups"
    covers = (Groups,)
    instead = "'weighted_primal' or 'mixed_norm'"

    def build(self, problem: Problem, L: Factors) -> Model:
        groups = problem.regularizer
        assert isinstance(groups, Groups)
        p, q, d, group_of = groups.p, groups.q, groups.sizes, groups.group_of
        f = PrimalForm(problem, L)
        sigma1 = cp.Variable(len(d), nonneg=True, name="sigma1")
        sigma2 = cp.Variable(problem.n_kernels, nonneg=True, name="sigma2")
        exponents = (p, q, max(0.0, 1.0 - p - q))
        theta = [
            cp.geo_mean(cp.hstack([sigma1[group_of[m]], sigma2[m], 1.0]), exponents, max_denom=MAX_DENOMINATOR)
            for m in range(problem.n_kernels)
        ]
        return f.model(
            f.losses + 0.5 * ratios(f.v, theta),
            [d @ sigma1 <= 1, cp.sum(sigma2) <= 1],
            theta=lambda: nonnegative(sigma1)[group_of] ** p * nonnegative(sigma2) ** q,
        )
