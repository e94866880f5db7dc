r"""Primal with a composite absolute penalty: one norm within groups of kernels, another across them.

Statement, over v_m (r_m,), t (n,) and b, with d_l the size of group l and

    gamma = 2/(q+1),    gamma0 = 2/(p+q+1),    gamma* = p/(p+q+1):

    minimise    sum_i c_i V(t_i, y_i) + 1/2 A^{2/gamma0} + c_b b
    subject to  t = sum_m L_m v_m + b

    A = sum_l d_l^{gamma*} (sum_{m in l} ||v_m||^gamma)^{gamma0/gamma}

A^{1/gamma0} is the gamma0-norm of (d_l^{p/2} || (||v_m||)_{m in l} ||_gamma)_l, which is how it is modelled. Presets:
(p, q) = (0, 1) is l1-MKL, (1, 0) the group lasso over sums of kernels, (1/2, 1/2) the penalty of (6).

Dual: `dual`, with R*(g) the half square of the dual mixed norm. The weight form is `groups`.

Recovery: beta is the multiplier of the scores; sigma1 and sigma2 by (10) and (11), theta = sigma1^p sigma2^q, with 0
where (11) reads 0 times infinity; b is a variable.

Source: Szafranski (5), (9)-(11) and Prop. 1, which needs p, q >= 0 (erratum S2).
"""

from __future__ import annotations

from mklref._conic.cones import cp, norm, norms
from mklref._conic.model import Model, PrimalForm
from mklref._conic.scaling import Factors
from mklref.formulations.base import Formulation
from mklref.problem import Problem
from mklref.regularizers import Groups


class CAP(Formulation):
    """A norm of norms of norms."""

    name = "cap"
    covers = (Groups,)

    def build(self, problem: Problem, L: Factors) -> Model:
        groups = problem.regularizer
        assert isinstance(groups, Groups)
        p, gamma, gamma0 = groups.p, groups.gamma, groups.gamma0
        f = PrimalForm(problem, L)
        within = [len(group) ** (p / 2) * norm(norms([f.v[m] for m in group]), gamma) for group in groups.groups]
        objective = f.losses + 0.5 * cp.square(norm(cp.hstack(within), gamma0))
        return f.model(objective, [], theta=lambda: f.weights)
