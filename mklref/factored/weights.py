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
_FLAT = 1e-14
"""An exponent 1/p of shares that is as small leaves every weight at 1, to the accuracy of a certificate."""


@dataclass(frozen=True)
class Psi:
    """As above; `member` (M,) is the variable of each kernel."""

    member: Any
    fixed: Array | None = None
    """The weights, where they do not move."""
    price: float = 0.0
    constrained: bool = False
    """Whether there is a phi."""

    @property
    def count(self) -> int:
        """Variables."""
        return int(self.member.max()) + 1

    def weights(self, s: Array) -> Array:
        """theta."""
        return s

    def variables(self, theta: Array) -> Array:
        """s with these weights."""
        return theta

    def shares(self, s: Array) -> Array:
        """dlog theta/dlog s."""
        return np.ones_like(s)

    def bend(self, s: Array) -> Array:
        """-s^2 theta''/(2 theta)."""
        return np.zeros_like(s)

    def bound(self, s: Array) -> tuple[float, Array, Array]:
        """phi, its gradient and its Hessian."""
        return float(s.sum()), np.ones_like(s), np.zeros((len(s), len(s)))

    def inside(self, s: Array) -> Array:
        """s, brought onto phi = 1."""
        return np.asarray(s / s.sum()) if self.constrained else s

    def start(self, theta: Array) -> Array:
        """s well inside, near to these weights; all alike where these are 0."""
        if self.fixed is not None:
            return self.fixed
        s = self.variables(theta if theta.any() else np.ones_like(theta))
        return self.inside(np.maximum(s, _LEAST ** (1.0 / self.steepest) * s.max()))

    @property
    def steepest(self) -> float:
        """The largest exponent in phi."""
        return 1.0


@dataclass(frozen=True)
class Ball(Psi):
    """A norm of norms: exponent `within` groups, `across` them, factors `scale` of the groups."""

    constrained: bool = True
    group: Any = None
    scale: Any = None
    within: float = 1.0
    across: float = 1.0

    def bound(self, s: Array) -> tuple[float, Array, Array]:
        """N = (sum_l scale_l^a N_l^a)^{1/a}, N_l = ||s_l||_b; with its gradient g the Hessian is.

        (b-1) diag(g/s) + (a-b) (g_l g_l'/s_l'g_l within groups) - (a-1) g g'/N.
        """
        a, b, group = self.across, self.within, self.group
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
        """s/N."""
        return np.asarray(s / p_norm(self.scale * self._lengths(s), self.across))

    @property
    def steepest(self) -> float:
        """As `Psi`."""
        return max(self.within, self.across)

    def _lengths(self, s: Array) -> Array:
        """N_l of each group."""
        return np.array([p_norm(s[self.group == k], self.within) for k in range(len(self.scale))])


@dataclass(frozen=True)
class Net(Psi):
    """The elastic net; its share is (1-lam)/((1-lam) + lam s), and 1 - share = lam theta."""

    lam: float = 0.5

    def weights(self, s: Array) -> Array:
        """theta."""
        return np.asarray(s / (1.0 - self.lam + self.lam * s))

    def variables(self, theta: Array) -> Array:
        """(1-lam) theta/(1 - lam theta), where theta is below its top."""
        rest = np.maximum(1.0 - self.lam * theta, np.finfo(float).eps)
        return np.asarray((1.0 - self.lam) * theta / rest)

    def shares(self, s: Array) -> Array:
        """As `Psi`."""
        return np.asarray((1.0 - self.lam) / (1.0 - self.lam + self.lam * s))

    def bend(self, s: Array) -> Array:
        """share (1 - share)."""
        return np.asarray(self.shares(s) * self.lam * self.weights(s))


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
            if 1.0 / p < _FLAT:
                return Psi(each, fixed=np.ones(kernels))
            return Ball(each, group=np.zeros(kernels, dtype=np.intp), scale=np.ones(1), within=p, across=p)
        case ElasticNet(lam=lam, form=form):
            penalised = form == "tikhonov"
            return Net(each, price=0.5 * (1.0 - lam) if penalised else 0.0, constrained=not penalised, lam=lam)
        case Groups():
            return _of_groups(regularizer, each)
    raise NotApplicable(
        f"the solver for kernels as factors takes Lp, Fixed, ElasticNet and Groups, not {regularizer}. For small n "
        "solve the matrices: problem.replace(kernels=problem.kernels.dense_stack())."
    )


def _of_groups(regularizer: Groups, each: Any) -> Psi:
    owner, sizes, total = group_owners(regularizer.groups), group_sizes(regularizer.groups), regularizer.total
    if total < _FLAT:
        return Psi(each, fixed=np.ones(len(each)))
    scale = sizes**regularizer.p
    if regularizer.q < _FLAT:
        alone = np.arange(len(sizes))
        return Ball(owner, group=alone, scale=scale, within=1.0, across=1.0 / total)
    return Ball(each, group=owner, scale=scale, within=1.0 / regularizer.q, across=1.0 / total)
