"""Groups of kernels: one norm within the groups, another across them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from operator import index
from typing import Any

import numpy as np

from mklref._threads import cached_property
from mklref._typing import Array
from mklref._validate import check_field, check_length, shown
from mklref.exceptions import InvalidParameter
from mklref.regularizers.base import Regularizer
from mklref.regularizers.norms import (
    FEASIBILITY,
    TIE,
    LowRank,
    Parts,
    Polyhedral,
    conjugate_exponent,
    norm_gradient,
    p_norm,
    quotient,
    reciprocal,
)


@dataclass(frozen=True)
class Groups(Regularizer):
    """Weights with a part shared by each group, theta_m = sigma1_l^p sigma2_m^q (Szafranski (8)-(11)).

    sigma1 >= 0 and sigma2 >= 0 lie on the simplices sum_l d_l sigma1_l = 1 and sum_m sigma2_m = 1, with d_l the
    size of group l. Convex for p, q >= 0 with p + q <= 1. With gamma = 2/(q+1), gamma0 = 2/(p+q+1), their
    conjugate exponents gamma', gamma0', and rho_l, g_l, theta_l the parts of group l:

    R(rho)     = 1/2 ||v||_{gamma0}^2,     v_l = d_l^{p/2}  ||rho_l||_gamma            the CAP penalty (9)
    R*(g)      = 1/2 ||u||_{gamma0'}^2,    u_l = d_l^{-p/2} ||g_l||_{gamma'}
    psi(theta) = 0 if ||(d_l^p ||theta_l||_{1/q})_l||_{1/(p+q)} <= 1, else +inf
    theta      = (pi_l/d_l)^p (pi_l omega_m)^q   from the norms, with the shares
                 pi_l = v_l^{gamma0} / sum v^{gamma0},   omega_m = rho_m^gamma / ||rho_l||_gamma^gamma
    theta      = twice the gradient of R* in g^2   from the dual

    psi follows from (8) by minimising sum sigma2 at fixed theta: the weights fill a mixed-norm ball.

    Presets: (p, q) = (0, q) is `Lp(1/q)`, so (0, 1) is MKL without groups; (1, 0) is MKL on the sums of the kernels
    of each group, with weights d_l sigma1_l; (1/2, 1/2) is the group kernel learning of the paper. Prop. 1 needs
    p, q >= 0 (erratum S2). Props. 2 and 3 are not sharp: with two groups or more, (8) is jointly convex if and only
    if p, q >= 0 and p + q <= 1 (S3, S4). (6) lists sigma2 >= 0 only, and sigma1 >= 0 is needed as well (S1).

    Parameters
    ----------
    groups : sequence of sequences of int
        A partition of the kernels 0..M-1 into nonempty groups.
    p : float
        Exponent of the group weights, in [0, 1].
    q : float
        Exponent of the weights within groups, in [0, 1 - p].
    """

    groups: Sequence[Sequence[int]]
    p: float
    q: float
    degree = 2.0

    def __post_init__(self) -> None:
        remedy = "with a negative exponent the closed form is no minimum, and above 1 the problem is not convex."
        for label in ("p", "q"):
            check_field(self, label, "[0, 1]", remedy)
        if self.p + self.q > 1.0 + FEASIBILITY:
            raise InvalidParameter(
                f"p + q = {self.p + self.q:.6g} exceeds 1, where the problem with groups is not convex and no gap "
                "certifies it; scale the exponents, for instance "
                f"p = {self.p / (self.p + self.q):.6g}, q = {self.q / (self.p + self.q):.6g}."
            )
        object.__setattr__(self, "groups", _partition(self.groups))

    @cached_property
    def sizes(self) -> Array:
        """d_l, (L,)."""
        return group_sizes(self.groups)

    @cached_property
    def group_of(self) -> Any:
        """The group of each kernel, (M,) integers."""
        return group_owners(self.groups)

    @property
    def gamma(self) -> float:
        """2/(q+1), the exponent within groups."""
        return 2.0 / (self.q + 1.0)

    @property
    def gamma0(self) -> float:
        """2/(p+q+1), the exponent across groups."""
        return 2.0 / (self.total + 1.0)

    def check(self, kernels: int) -> None:
        check_length(self.name, "group members", len(self.group_of), kernels)

    def value(self, rho: Array) -> float:
        norm = p_norm(self._across(rho, self.gamma, 0.5 * self.p), self.gamma0)
        return 0.5 * norm * norm

    def conjugate(self, g: Array) -> float:
        blocks = self._across(g, conjugate_exponent(self.gamma), -0.5 * self.p)
        norm = p_norm(blocks, conjugate_exponent(self.gamma0))
        return 0.5 * norm * norm

    def weight_penalty(self, theta: Array) -> float:
        if np.any(theta < 0.0):
            return np.inf
        within, across = self._ball_exponents
        return 0.0 if p_norm(self._across(theta, within, self.p), across) <= 1.0 + FEASIBILITY else np.inf

    def shares(self, rho: Array) -> tuple[Array, Array]:
        """The optimal sigma1 (L,) and sigma2 (M,) of (10) and (11); uniform where they are 0/0."""
        return optimal_shares(self.groups, self.p, self.q, rho)

    def weights_from_norms(self, rho: Array) -> Array:
        """sigma1^p sigma2^q; uniform if every norm is 0."""
        sigma1, sigma2 = self.shares(rho)
        return np.asarray(sigma1[self.group_of] ** self.p * sigma2**self.q)

    def weights_from_dual(self, g: Array) -> Array:
        """The gradient of || (d_l^{-p} ||q_l||_{1/(1-q)})_l ||_{1/(1-p-q)} in q = g^2; uniform over ties."""
        within, across = (conjugate_exponent(exponent) for exponent in self._ball_exponents)
        top = float(g.max())
        ratio = (g / top) ** 2 if top > 0.0 else np.ones(len(g))
        outer = norm_gradient(self._across(ratio, within, -self.p), across) * self.sizes**-self.p
        return np.asarray(outer[self.group_of] * self._blocks.norm_gradients(ratio, within))

    def low_rank_jacobian(self, g: Array) -> LowRank | None:
        """For p + q < 1 the Hessian of the mixed norm with exponents a = 1/(1-q) in and b = 1/(1-p-q) across groups.

        (a-1) diag(theta/q) + (b-a) (theta_l theta_l'/theta_l'q_l within groups) - (b-1) theta theta'/theta'q.
        """
        within, across = (conjugate_exponent(exponent) for exponent in self._ball_exponents)
        if np.isinf(across):
            return None
        top, theta = float(g.max()), self.weights_from_dual(g)
        if top == 0.0:
            return LowRank.diagonally(np.zeros_like(g))
        ratio = (g / top) ** 2
        totals = self._blocks.sums(theta * ratio)
        rows = np.vstack([self._blocks.apart(theta), theta])
        scale = np.append(quotient(np.full_like(totals, across - within), totals), (1.0 - across) / totals.sum())
        return LowRank((within - 1.0) * quotient(theta, ratio) / top / top, rows, scale / top / top)

    @property
    def _ball_exponents(self) -> tuple[float, float]:
        """1/q within groups and 1/(p+q) across them: the exponents of the ball of weights."""
        return reciprocal(self.q), reciprocal(self.total)

    @property
    def total(self) -> float:
        """p + q, and 1 where only rounding tells it from 1."""
        total = self.p + self.q
        return 1.0 if abs(total - 1.0) <= FEASIBILITY else total

    def _across(self, x: Array, within: float, power: float) -> Array:
        """(d_l^power ||x_l||_within)_l."""
        return np.asarray(self.sizes**power * self._blocks.p_norms(x, within))

    @cached_property
    def _blocks(self) -> _Blocks:
        return _Blocks(self.groups, self.group_of)

    def smoothed(self, epsilon: float) -> Groups:
        """p + q at most 1 - epsilon, both exponents being scaled."""
        total = self.p + self.q
        if total <= 1.0 - epsilon:
            return self
        share = (1.0 - epsilon) / total
        return Groups(self.groups, share * self.p, share * self.q)

    def parts(self, g: Array) -> Parts | None:
        """Where p + q = 1: N_l = d_l^{-p} ||q_l||_a with a = 1/(1-q), the shares being those of the groups, sigma1.

        dN_l/dq = w,   w_m = d_l^{-p} (q_m/||q_l||_a)^{a-1},   d2N_l = (a-1) (diag(w/q) - w w'/N_l).
        """
        if self.total != 1.0 or self.q == 1.0:
            return None
        a, owner = conjugate_exponent(self._ball_exponents[0]), self.group_of
        top = float(g.max()) or 1.0
        ratio = (g / top) ** 2
        norms, w = self._across(ratio, a, -self.p), self._blocks.norm_gradients(ratio, a) * self.sizes[owner] ** -self.p
        gradients = self._blocks.apart(w)

        def curvature(shares: Array) -> Array:
            bent: Array = (
                np.diag(shares[owner] * quotient(w, ratio)) - gradients.T * quotient(shares, norms) @ gradients
            )
            return (a - 1.0) / top / top * bent

        return Parts(norms * top * top, gradients, curvature)

    def polyhedral(self, kernels: int) -> Polyhedral | None:
        return Polyhedral.simplex(kernels) if self.q == 1.0 else None


class _Blocks:
    """`p_norm` and `norm_gradient` of every group of a vector x (M,) at once."""

    def __init__(self, groups: Sequence[Sequence[int]], owner: Any) -> None:
        self.owner = owner
        self.order = np.concatenate([np.array(group) for group in groups])
        self.starts = np.cumsum([0, *map(len, groups[:-1])])

    def sums(self, x: Array) -> Array:
        return np.asarray(np.add.reduceat(x[self.order], self.starts))

    def apart(self, x: Array) -> Array:
        """The x_l as rows, (L, M)."""
        rows = np.zeros((len(self.starts), len(x)))
        rows[self.owner, np.arange(len(x))] = x
        return rows

    @np.errstate(over="ignore")  # where some entry is not finite
    def p_norms(self, x: Array, p: float) -> Array:
        """(||x_l||_p)_l."""
        tops = np.maximum.reduceat(x[self.order], self.starts)
        if p == np.inf:
            return tops
        scale = np.where((tops > 0.0) & np.isfinite(tops), tops, 1.0)
        powers = ((x / scale[self.owner]) ** p)[self.order]
        return np.where(np.isfinite(tops), scale * np.add.reduceat(powers, self.starts) ** (1.0 / p), tops)

    def norm_gradients(self, x: Array, p: float) -> Array:
        """((x_l/||x_l||_p)^{p-1})_l, (M,)."""
        tops, dual = np.maximum.reduceat(x[self.order], self.starts)[self.owner], conjugate_exponent(p)
        ratio = np.divide(x, tops, out=np.ones_like(x), where=tops > 0.0)
        raw = (ratio >= 1.0 - TIE).astype(float) if p == np.inf else ratio ** (p - 1.0)
        return np.asarray(raw / self.p_norms(raw, dual)[self.owner])


def optimal_shares(groups: Sequence[Sequence[int]], p: float, q: float, rho: Array) -> tuple[Array, Array]:
    """sigma1 (L,) and sigma2 (M,) that minimise (8) at these norms, Szafranski (10) and (11), for any p, q >= 0.

    sigma1_l = pi_l/d_l,   sigma2_m = pi_l rho_m^gamma / sum_{k in l} rho_k^gamma,   with the shares of the groups

    pi_l = v_l^{gamma0} / sum v^{gamma0},   v_l = d_l^{p/2} ||rho_l||_gamma,   gamma = 2/(q+1),  gamma0 = 2/(p+q+1)

    Uniform where they are 0/0.
    """
    sizes, owner = group_sizes(groups), group_owners(groups)
    top = float(rho.max())
    powers = (rho / top if top > 0.0 else np.ones(len(rho))) ** (2.0 / (q + 1.0))
    totals = np.bincount(owner, powers)
    blocks = sizes ** (p / (p + q + 1.0)) * totals ** ((q + 1.0) / (p + q + 1.0))
    group_share = blocks / blocks.sum()
    within = np.where(totals[owner] > 0.0, quotient(powers, totals[owner]), 1.0 / sizes[owner])
    return group_share / sizes, group_share[owner] * within


def group_sizes(groups: Sequence[Sequence[int]]) -> Array:
    """d_l, (L,)."""
    return np.array([len(group) for group in groups], dtype=float)


def group_owners(groups: Sequence[Sequence[int]]) -> Any:
    """The group of each kernel, (M,) integers."""
    owner = np.empty(sum(len(group) for group in groups), dtype=int)
    for number, group in enumerate(groups):
        owner[list(group)] = number
    return owner


def _partition(groups: Any) -> tuple[tuple[int, ...], ...]:
    """The groups as tuples of integers, if they are a partition of 0..M-1."""
    try:
        groups = tuple(map(tuple, groups))
        tuples = tuple(tuple(map(index, group)) for group in groups)
        if any(isinstance(kernel, bool) for group in groups for kernel in group):
            raise TypeError("True is no index")
    except TypeError as wrong:
        raise InvalidParameter(
            f"groups = {shown(groups)} must be a sequence of sequences of kernel indices, which are integers."
        ) from wrong
    members = sorted(kernel for group in tuples for kernel in group)
    if not tuples or not all(tuples) or members != list(range(len(members))):
        raise InvalidParameter(
            f"groups = {shown(groups)} must be a partition of the kernels 0..M-1: each in exactly one nonempty group."
        )
    return tuples
