"""psi of a regulariser for an interior point method: what is smooth in it, and its one constraint.

    psi(theta) = smooth(theta)  on  theta >= 0, theta < top, phi(theta) <= 1

    Lp(p)                   phi = ||theta||_p
    Groups(p, q)            phi = ||(d_l^p ||theta_l||_{1/q})_l||_{1/(p+q)}
    ElasticNet, ivanov      phi = sum (1-lam) theta/(1 - lam theta)                 top = 1/lam
    ElasticNet, tikhonov    smooth = 1/2 (1-lam) times that sum, and no constraint
    Fixed, p = inf          theta does not move

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


@dataclass(frozen=True)
class Psi:
    """psi as above; `member` (M,) is the variable of each kernel."""

    member: Any
    fixed: Array | None = None
    """The weights, where they do not move."""
    top: float = np.inf
    constrained: bool = False
    """Whether there is a phi."""

    @property
    def count(self) -> int:
        """Variables."""
        return int(self.member.max()) + 1

    def smooth(self, theta: Array) -> tuple[Array, Array]:
        """Gradient (M,) and Hessian (M, M) of the smooth part."""
        return np.zeros_like(theta), np.zeros((len(theta), len(theta)))

    def bound(self, theta: Array) -> tuple[float, Array, Array]:
        """phi, its gradient and its Hessian."""
        raise NotImplementedError

    def inside(self, theta: Array) -> Array:
        """The weights, brought onto phi = 1."""
        return theta


@dataclass(frozen=True)
class Ball(Psi):
    """A norm of norms: exponent `within` groups, `across` them, factors `scale` of the groups."""

    constrained: bool = True
    group: Any = None
    scale: Any = None
    within: float = 1.0
    across: float = 1.0

    def bound(self, theta: Array) -> tuple[float, Array, Array]:
        """N = (sum_l scale_l^a N_l^a)^{1/a}, N_l = ||theta_l||_b; with its gradient g the Hessian is.

        (b-1) diag(g/theta) + (a-b) (g_l g_l'/theta_l'g_l within groups) - (a-1) g g'/N.
        """
        a, b, group = self.across, self.within, self.group
        lengths = self._lengths(theta)
        total = p_norm(self.scale * lengths, a)
        outer = (self.scale * lengths / total) ** (a - 1.0) * self.scale
        gradient = outer[group] * (theta / lengths[group]) ** (b - 1.0)
        hessian = np.diag((b - 1.0) * gradient / theta) - (a - 1.0) / total * np.outer(gradient, gradient)
        if a != b:
            own = np.bincount(group, theta * gradient)
            hessian += (a - b) * (group[:, None] == group) * np.outer(gradient / own[group], gradient)
        return total, gradient, hessian

    def inside(self, theta: Array) -> Array:
        """theta/N."""
        return np.asarray(theta / p_norm(self.scale * self._lengths(theta), self.across))

    def _lengths(self, theta: Array) -> Array:
        """N_l of each group."""
        return np.array([p_norm(theta[self.group == k], self.within) for k in range(len(self.scale))])


@dataclass(frozen=True)
class Net(Psi):
    """The elastic net, with a constraint in Ivanov form."""

    lam: float = 0.5

    def bound(self, theta: Array) -> tuple[float, Array, Array]:
        """sum (1-lam) theta/(1 - lam theta)."""
        rest = 1.0 - self.lam * theta
        share = (1.0 - self.lam) / rest
        hessian = np.diag(2.0 * self.lam * share / rest**2)
        return float(share @ theta), share / rest, hessian

    def smooth(self, theta: Array) -> tuple[Array, Array]:
        """Of 1/2 (1-lam) times the sum, in Tikhonov form."""
        if self.constrained:
            return super().smooth(theta)
        _, gradient, hessian = self.bound(theta)
        return 0.5 * (1.0 - self.lam) * gradient, 0.5 * (1.0 - self.lam) * hessian

    def inside(self, theta: Array) -> Array:
        """Below the top; in Ivanov form with phi <= 1, where phi is convex and 0 at 0."""
        theta = np.minimum(theta, 0.99 * self.top)
        return theta / max(1.0, self.bound(theta)[0]) if self.constrained else theta


def psi_of(regularizer: Regularizer, kernels: int) -> Psi:
    """psi of a regulariser.

    Raises
    ------
    NotApplicable
        One that is not in the list above.
    """
    each = np.arange(kernels)
    match regularizer:
        case Fixed(weights=weights):
            return Psi(each, fixed=weights)
        case Lp(p=p):
            if np.isinf(p):
                return Psi(each, fixed=np.ones(kernels))
            return Ball(each, group=np.zeros(kernels, dtype=np.intp), scale=np.ones(1), within=p, across=p)
        case ElasticNet(lam=lam, form=form):
            return Net(each, top=1.0 / lam, constrained=form == "ivanov", lam=lam)
        case Groups():
            return _of_groups(regularizer, each)
    raise NotApplicable(
        f"the solver for kernels as factors takes Lp, Fixed, ElasticNet and Groups, not {regularizer}. For small n "
        "solve the matrices: problem.replace(kernels=problem.kernels.dense_stack())."
    )


def _of_groups(regularizer: Groups, each: Any) -> Psi:
    owner, sizes, total = group_owners(regularizer.groups), group_sizes(regularizer.groups), regularizer.total
    if total == 0.0:
        return Psi(each, fixed=np.ones(len(each)))
    scale = sizes**regularizer.p
    if regularizer.q == 0.0:
        alone = np.arange(len(sizes))
        return Ball(owner, group=alone, scale=scale, within=1.0, across=1.0 / total)
    return Ball(each, group=owner, scale=scale, within=1.0 / regularizer.q, across=1.0 / total)
