"""The weights of a regulariser for an interior point method: concave functions of variables with one constraint.

    theta = theta(s),    s >= 0,    price sum s  is the penalty,  or  phi(s) <= 1

    Lp(p)                   theta = s                           phi = ||s||_p
    Groups(p, q)            theta = s                           phi = ||(d_l^p ||s_l||_{1/q})_l||_{1/(p+q)}
    ElasticNet, ivanov      theta = s/((1-lam) + lam s)         phi = sum s
    ElasticNet, tikhonov    theta = s/((1-lam) + lam s)         price = (1-lam)/2
    Fixed, p = inf          theta does not move

In theta itself the net is a sum of poles, and where lam is near 1 all of it close to its top: no step is long. As theta
is concave in s, sum ||v_m||^2/(2 theta_m) is convex in v and s together.

Where the members of a group share their weight (q = 0) they are one kernel here: `member` says which.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from mklref._typing import Array
from mklref.exceptions import NotApplicable
from mklref.regularizers import ElasticNet, Fixed, Groups, Lp, Regularizer
from mklref.regularizers.groups import group_owners, group_sizes
from mklref.regularizers.norms import p_norm

_LEAST = 1e-3
"""Share of the largest variable, or of its power in phi, that every variable has at a start."""
IN_MEMORY = "For small n take matrices: approximation=None, or problem.replace(kernels=problem.kernels.dense_stack())."
_FLAT = 1e-14
"""An exponent 1/p of shares that is as small leaves every weight at 1, to the accuracy of a certificate."""


@dataclass(frozen=True)
class Psi:
    """As above: phi is a norm of norms, with an exponent `within` groups and one `across` them."""

    member: Any
    """The variable of each kernel, (M,)."""
    fixed: Array | None = None
    """The weights, where they do not move."""
    lam: float = 0.0
    price: float = 0.0
    constrained: bool = True
    """Whether there is a phi."""
    group: Any = None
    """That of each variable; None for one group of all."""
    scale: Any = 1.0
    """A factor for each group."""
    within: float = 1.0
    across: float = 1.0

    @property
    def count(self) -> int:
        """Variables."""
        return int(self.member.max()) + 1

    def weights(self, s: Array) -> Array:
        """theta."""
        return np.asarray(s / (1.0 - self.lam + self.lam * s))

    def variables(self, theta: Array) -> Array:
        """s with these weights: (1-lam) theta/(1 - lam theta), where theta is below its top."""
        rest = np.maximum(1.0 - self.lam * theta, np.finfo(float).eps)
        return np.asarray((1.0 - self.lam) * theta / rest)

    def shares(self, s: Array) -> Array:
        """dlog theta/dlog s = (1-lam)/((1-lam) + lam s) = 1 - lam theta."""
        return np.asarray((1.0 - self.lam) / (1.0 - self.lam + self.lam * s))

    def bend(self, s: Array) -> Array:
        """-s^2 theta''/(2 theta) = share (1 - share)."""
        return np.asarray(self.shares(s) * self.lam * self.weights(s))

    def bound(self, s: Array) -> tuple[float, Array, Array]:
        """phi = N = (sum_l scale_l^a N_l^a)^{1/a}, N_l = ||s_l||_b; with its gradient g the Hessian is.

        (b-1) diag(g/s) + (a-b) (g_l g_l'/s_l'g_l within groups) - (a-1) g g'/N.
        """
        a, b, group = self.across, self.within, self._group(s)
        lengths = self._lengths(s)
        total = p_norm(self.scale * lengths, a)
        outer = (self.scale * lengths / total) ** (a - 1.0) * self.scale
        gradient = outer[group] * (s / lengths[group]) ** (b - 1.0)
        hessian = np.diag((b - 1.0) * gradient / s) - (a - 1.0) / total * np.outer(gradient, gradient)
        if a != b:
            own = np.bincount(group, s * gradient)
            part = np.divide(gradient, own[group], out=np.zeros_like(s), where=own[group] > 0.0)  # or both underflow
            hessian += (a - b) * (group[:, None] == group) * np.outer(part, gradient)
        return total, gradient, hessian

    def inside(self, s: Array) -> Array:
        """s, brought onto phi = 1."""
        return np.asarray(s / p_norm(self.scale * self._lengths(s), self.across)) if self.constrained else s

    def start(self, theta: Array) -> Array:
        """s well inside, near to these weights; all alike where these are 0."""
        if self.fixed is not None:
            return self.fixed
        s = self.variables(theta if theta.any() else np.ones_like(theta))
        return self.inside(np.maximum(s, _LEAST ** (1.0 / max(self.within, self.across)) * s.max()))

    def _group(self, s: Array) -> Any:
        return np.zeros(len(s), dtype=np.intp) if self.group is None else self.group

    def _lengths(self, s: Array) -> Array:
        """N_l of each group."""
        group = self._group(s)
        return np.array([p_norm(s[group == k], self.within) for k in range(group.max() + 1)])


def psi_of(regularizer: Regularizer, kernels: int) -> Psi:
    """psi of a regulariser in the list above, or `NotApplicable`."""
    each = np.arange(kernels)
    match regularizer:
        case Fixed(weights=weights):
            return Psi(each, fixed=weights, constrained=False)
        case Lp(p=p):
            if 1.0 / p < _FLAT:
                return Psi(each, fixed=np.ones(kernels), constrained=False)
            return Psi(each, within=p, across=p)
        case ElasticNet(lam=lam, form=form):
            penalised = form == "tikhonov"
            return Psi(each, lam=lam, price=0.5 * (1.0 - lam) if penalised else 0.0, constrained=not penalised)
        case Groups(groups=groups, p=p, q=q, total=total):
            owner, scale = group_owners(groups), group_sizes(groups) ** p
            if total < _FLAT:
                return Psi(each, fixed=np.ones(kernels), constrained=False)
            if q < _FLAT:
                return Psi(owner, group=np.arange(len(scale)), scale=scale, across=1.0 / total)
            return Psi(each, group=owner, scale=scale, within=1.0 / q, across=1.0 / total)
    raise NotApplicable(
        f"the solver for kernels as factors takes Lp, Fixed, ElasticNet and Groups, not {regularizer}. {IN_MEMORY}"
    )
