"""The step where psi is curved: Newton's method on the dual of the model.

Where weights are far too small J is like 1/theta, and a step of a quadratic model at most doubles them. So the model
has a curvature that falls where weights grow. Of K_m it knows the part u u'/q_m, u = K_m beta, q_m = beta'K_m beta, and
K_m - u u'/q_m is semidefinite. With Q at the centre, and these parts for its change, the dual point of the free samples
is solved for anew,

    J(theta) ~ cuts + C(theta),   C = max_s  -1/2 ||s||^2 - (theta - theta_c)'(v + 1/2 bend v^2),   v = W's,
             = 1/2 b'H^{-1} b,    b = W (theta - theta_c),   H = I + W diag(bend (theta - theta_c)) W',   bend = 1/q,

convex in theta >= 0, because Q >= sum_m theta_cm u u'/q_m is H >= 0, with W'W the curvature at the centre. With
z = W theta_c - s and the multipliers lambda of the cuts its dual is, because the supremum over the weights is R*,

    minimise over z, lambda   F = 1/2 ||z||^2 - 1/2 theta_c'(bend v^2) + R*(sqrt(qhat)) - D'lambda,   1'lambda = 1,
    qhat(z, lambda)     max(0, Q'lambda + 2 v + bend v^2),   v = W'(W theta_c - z),   lambda >= 0,
    gradient            (z - W (theta_c + r (theta - theta_c)), 1/2 Q theta - D),   r = 1 + bend v,
    Hessian             [A, -B; -B', 1/2 Q T Q'],   A = I + W (2 r T r + diag(bend (theta - theta_c))) W',
    B = W r T Q',       theta = weights_from_dual(sqrt(qhat)),   T = weights_jacobian.

A Newton step minimises the quadratic model of F on the simplex: with dz = A^{-1} (B dlambda - F_z) put in, the Schur
complement S = 1/2 Q T Q' - B'A^{-1} B is the Hessian of a quadratic program in the few multipliers. With one cut there
is none: z alone is left, the usual case. Where R* has kinks, Newton's method follows its smooth relatives, members of
the same family whose R* is differentiable. With p = 1 + epsilon in place of p = 1 the value of R* changes by a relative
epsilon log M at most, so the last relative is as good as the limit. Each begins where the block norms of the one before
lead to.

Relatives of a ball that is smooth itself are shrunk to t_k R_k*(g) = R*(g) at the centre. As they are, they are larger
by a power of M, and the model may have its minimum inside even at an optimum theta_c, where q'theta_c = 2 R*(g): it has
where q'theta is q'theta_c + 2 |W (theta - theta_c)|^2 at least, which in a shrunk one is nowhere but at theta_c itself.
"""

from __future__ import annotations

import time

import numpy as np

from mklref._typing import Array
from mklref.machines.cholesky import factorised, substituted
from mklref.machines.loops import QuadraticProgram
from mklref.regularizers import Regularizer
from mklref.regularizers.base import law_in_unit
from mklref.regularizers.norms import LowRank, quotient
from mklref.regularizers.rescaled import Rescaled

_FIRST, _FACTOR, _LAST = 1.0 / 3.0, 0.25, 5e-8
"""epsilon of the relatives. At a factor of 0.1 groups take 0.86 of the time, but penalties that are all but sparse 5 %
more points, and at 1/16 0.8 and 16 %: the last relatives are too steep."""
_NEWTON_STEPS = 100
_ARMIJO, _SMALLEST_STEP = 1e-4, 1e-10
_ACCURACY, _ROUGHLY = 1e-13, 1e-3
"""Relative accuracy of the value, and that on the way there as a share of epsilon."""
_COLLAPSED = 1e-6
"""Share of q below which qhat counts as 0."""
_CRAWLING, _SHORTER = 0.1, 0.1
_BISECTIONS = 30
_TINY = float(np.finfo(float).tiny)
_RIDGE = 1e-13
_KNOWN = 1e-12
"""Squared residual of s, relative to that of b, up to which s is known."""
_WHOLE = 1.0 - 1e-6
"""bend as a share of 1/q: with 1/q H is singular at weights of 0, where Newton's method may begin and would stay."""
_WELL_INSIDE = 0.98
"""If the domain of R* ends, Newton's method starts below this share of its end."""


def curved_step(
    regularizer: Regularizer, Q: Array, D: Array, W: Array, centre: Array, deadline: float
) -> tuple[Array, float, Array]:
    """The minimiser of the model plus psi for cuts D - 1/2 Q theta, its value, and the multipliers of the cuts.

    The first cut is that of the centre. Past the deadline, or where thresholds of R* let Newton's method use up its
    steps, they are weights on the way; the value is theirs, so that no decrease is promised that they do not make.
    """
    W, g = compressed(W), np.sqrt(Q[0])
    norm = float((centre * g).max())
    known = norm > 0.0 and regularizer.degree is None  # at a degree relatives are the same in every unit
    s, other = (law_in_unit(regularizer, norm) if known else None) or (1.0, regularizer)
    smooth = all(one.smoothed(_FIRST) is one for one in (regularizer, other))
    alone = other is regularizer or smooth or not 0.0 < s < np.inf
    alike = regularizer if alone else Rescaled.of(other, norm, s)
    members = relatives(alike)
    bend = bends(Q[0], W, centre)
    if len(Q) > 1 or members[0].dual_scale(g) < 1.0:
        # Several cuts are kept where this model has promised too much; and where R* has to become finite first,
        # `_weights_inside` takes q as linear in theta.
        bend = np.zeros_like(bend)
    units = [_unit(member, members[-1], g) if members[-1] is alike else 1.0 for member in members]
    offset = float((D - 0.5 * (Q @ centre)).max())
    while (end := _followed(members, units, Q, D - offset, W, centre, bend, deadline)) is None:
        # J falls along every ray of weights, a model of too much curvature has its minimum inside the ball: qhat is 0.
        W = 0.5 * W
    z, g, share = end
    weights = members[-1].weights_from_dual(g)
    if members[-1] is not alike:
        weights = regularizer.weights_from_norms(weights * g)
    value = float((D - 0.5 * (Q @ weights)).max()) + _curvature(W, bend, weights - centre, W @ centre - z)
    return weights, value + regularizer.weight_penalty(weights), share


def bends(q: Array, W: Array, centre: Array) -> Array:
    """1/q but for a millionth, or 0 where rounding is all of it, (M,)."""
    inside = (q > _TINY) & (_WHOLE * centre * np.sum(W**2, axis=0) <= q)
    return np.asarray(np.divide(_WHOLE, q, out=np.zeros_like(q), where=inside))


def root_of_H(W: Array, change: Array) -> Array:
    """L with LL' = H = I + W diag(change) W', (f, f)."""
    H = LowRank.diagonally(change).product(W)
    H.flat[:: len(H) + 1] += 1.0
    return factorised(H)


def _curvature(W: Array, bend: Array, moved: Array, s: Array) -> float:
    """C, whose s is known unless Newton's method was cut off or its last relative has other weights."""
    b, change = -W @ moved, bend * moved
    residual = b - s - W @ (change * (s @ W))
    if not residual @ residual <= _KNOWN * (b @ b):
        s, residual = substituted(root_of_H(W, change), b).ravel(), np.zeros_like(b)
    return 0.5 * float(s @ (b + residual))


def _followed(
    members: list[Regularizer], units: list[float], Q: Array, D: Array, W: Array, centre: Array, bend: Array,
    deadline: float,
) -> tuple[Array, Array, Array] | None:  # fmt: skip
    """z, root of qhat and lambda at the minimum for the last member, by way of the others; None if qhat collapses."""
    scale = members[0].dual_scale(np.sqrt(Q[0]))
    limit = _WELL_INSIDE * scale**2 * float(Q[0].max())
    share, norms = np.eye(len(D))[0], None
    z = W @ (_weights_inside(limit, Q[0], W, centre) if scale < 1.0 else centre)
    for k, (member, unit) in enumerate(zip(members, units, strict=True), start=1 - len(members)):
        dual = _Dual(member, unit, Q, D, W, centre, bend)
        if norms is not None:
            z, share = dual.predicted(z, share, norms)
        accuracy = _ACCURACY if k == 0 else max(_ACCURACY, _ROUGHLY * _LAST * _FACTOR**k)
        z, share = dual.minimised(z, share, accuracy, k == 0, deadline)
        qhat = dual.qhat(z, share)
        norms = dual.weights(np.sqrt(qhat)) * np.sqrt(qhat)
        if k < 0 and member.degree == 2.0 and qhat.max() < _COLLAPSED * (share @ Q).max():
            return None
    return z, np.sqrt(qhat), share


def relatives(regularizer: Regularizer) -> list[Regularizer]:
    """From the smoothest to the regulariser itself, or to its last smooth relative if it has kinks."""
    members: list[Regularizer] = []
    epsilon = _FIRST
    while epsilon > _LAST:
        members.append(regularizer.smoothed(epsilon))
        if members[-1] is regularizer:
            return members
        epsilon *= _FACTOR
    return [*members, regularizer.smoothed(_LAST)]


def _unit(member: Regularizer, last: Regularizer, g: Array) -> float:
    """t with t R_k*(g) = R*(g), for a ball; else 1."""
    if member is last or member.degree != 2.0 or not g.any():
        return 1.0
    return last.conjugate(g) / member.conjugate(g)


def _weights_inside(limit: float, q: Array, W: Array, theta: Array) -> Array:
    """Weights with qhat <= limit, to start where R* is finite: they minimise the model with psi = limit/2 1'theta."""
    lengths = np.sum(W**2, axis=0)
    alone = np.divide(q - limit, 2.0 * lengths, out=np.zeros_like(q), where=lengths > 0.0)
    unit = max(float(theta.max()), float(alone.max()))
    if unit == 0.0:  # no weights, and no curvature for kernels with q > limit
        return theta
    scale = float(q.max())
    P = (unit / scale) * W.T @ W
    P.flat[:: len(q) + 1] += _RIDGE * max(1.0, float(np.trace(P)))
    c = (0.5 * (limit - q) - W.T @ (W @ theta)) / scale
    return unit * QuadraticProgram(P, c, len(q), np.empty((0, len(q))), np.empty(0), None).solve(theta / unit)[0]


class _Dual:
    """F for one smooth relative, R* and its weights times `unit`."""

    def __init__(
        self, regularizer: Regularizer, unit: float, Q: Array, D: Array, W: Array, centre: Array, bend: Array
    ) -> None:
        self.regularizer, self.unit, self.Q, self.D, self.W = regularizer, unit, Q, D, W
        self.rows = np.vstack([W, Q]) if len(Q) > 1 else W
        self.centre, self.bend, self.image = centre, bend, W @ centre
        self._at: tuple[Array, Array] | None = None

    def change(self, z: Array) -> Array:
        """v, half of what q changes by to first order."""
        if self._at is None or self._at[0] is not z:
            self._at = z, (self.image - z) @ self.W
        return self._at[1]

    def gradient(self, z: Array, weights: Array) -> Array:
        """The gradient of F in z, for the weights there."""
        return z - self.W @ (weights + self.bend * self.change(z) * (weights - self.centre))

    def weights(self, g: Array) -> Array:
        """The weights that attain R*; 0 where qhat is 0, as R* does not change with it there."""
        return self.unit * self.regularizer.weights_from_dual(g) if g.any() else np.zeros_like(g)

    def qhat(self, z: Array, share: Array) -> Array:
        """max(0, Q'lambda + 2 v + bend v^2)."""
        v = self.change(z)
        return np.maximum(share @ self.Q + (2.0 + self.bend * v) * v, 0.0)

    def value(self, z: Array, share: Array) -> tuple[float, Array]:
        """F and the root of qhat."""
        g, v = np.sqrt(self.qhat(z, share)), self.change(z)
        own = 0.5 * (float(z @ z) - float(self.centre @ (self.bend * v**2)))
        return own + self.unit * self.regularizer.conjugate(g) - float(self.D @ share), g

    def predicted(self, z: Array, share: Array, norms: Array) -> tuple[Array, Array]:
        """A step from the minimum of the relative before, whose block norms are given, where F falls by it; else that.

        From one relative to the next, g moves by its distance to a threshold, where weights that are functions of g
        tell nothing; norms hardly move. So it is the Newton step of theta = weights(g) linearised where it is theirs.
        """
        weights, qhat = self.unit * self.regularizer.weights_from_norms(norms / self.unit), self.qhat(z, share)
        g = np.where(weights > 0.0, quotient(norms, weights), np.sqrt(qhat))
        jacobian = self.regularizer.low_rank_jacobian(g) or self.regularizer.weights_jacobian(g)
        weights = weights + self.unit * (jacobian @ (qhat - g**2))
        if (step := self._direction(z, share, g, weights)) is None:
            return z, share
        there = z + step[0], share + step[1]
        return there if self.value(*there)[0] <= self.value(z, share)[0] else (z, share)

    def minimised(
        self, z: Array, share: Array, accuracy: float, to_the_end: bool, deadline: float
    ) -> tuple[Array, Array]:
        """Newton's method with a line search, from any point, until the deadline.

        Steep relatives overflow far from their minimum; such a step is never taken. With several cuts the weights
        have to be those of an error that F, quadratic in it, does not show: `to_the_end` are whole steps while they
        become shorter.
        """
        value, g = self.value(z, share)
        last, whole = np.inf, -_TINY
        for _ in range(_NEWTON_STEPS):
            weights = self.weights(g)
            step = self._direction(z, share, g, weights)
            if step is None:
                break
            dz, dshare, slope = step
            size = max(abs(value), float(g**2 @ weights))
            if not slope < -accuracy * size:
                if len(self.D) == 1 or not to_the_end or not abs(slope) < _SHORTER * last:
                    break
                z, share, last = z + dz, np.maximum(share + dshare, 0.0), abs(slope)
                value, g = self.value(z, share)
                continue
            t = 1.0
            while t > _SMALLEST_STEP:
                new_value, new_g = self.value(z + t * dz, share + t * dshare)
                if new_value <= value + _ARMIJO * t * slope:
                    break
                t *= 0.5
            else:
                break
            if t < _CRAWLING:  # a threshold of the weights is near, which no halving may ever pass
                beyond = self._beyond_the_threshold(z, share, dz, dshare, 2.0 * t, 0.5 * slope)
                value_there, g_there = self.value(z + beyond * dz, share + beyond * dshare)
                if value_there <= new_value:  # slopes that overflow tell nothing
                    t, new_value, new_g = beyond, value_there, g_there
            z, share, value, g = z + t * dz, share + t * dshare, new_value, new_g
            if len(self.D) == 1 and t == 1.0 and -slope * min(1.0, slope / whole) ** 2 < accuracy * size:
                break  # slopes are squared in each step: the next one is below the accuracy
            whole = slope if t == 1.0 else -_TINY
            if time.perf_counter() > deadline:
                break
        return z, share

    def _beyond_the_threshold(
        self, z: Array, share: Array, dz: Array, dshare: Array, end: float, steep: float
    ) -> float:
        """The t before `end`, by bisection, where the slope of F along a step has risen to `steep` but not to 0."""
        low = 0.0
        for _ in range(_BISECTIONS):
            t = 0.5 * (low + end)
            at, mixed = z + t * dz, share + t * dshare
            weights = self.weights(np.sqrt(self.qhat(at, mixed)))
            slope = float(self.gradient(at, weights) @ dz + (0.5 * (self.Q @ weights) - self.D) @ dshare)
            low, end = (t, end) if slope < 0.0 else (low, t)
            if steep <= slope < 0.0:
                break
        return low

    def _direction(self, z: Array, share: Array, g: Array, weights: Array) -> tuple[Array, Array, float] | None:
        """The Newton step in (z, lambda) and its slope, or None where the curvature is beyond double precision."""
        Q, f = self.Q, len(self.W)
        r, own = 1.0 + self.bend * self.change(z), 0.5 * self.bend * (weights - self.centre) / self.unit
        product = self.unit * self.regularizer.jacobian_product(g, self.rows, r, own)
        A, B = 2.0 * product[:f, :f], product[:f, f:]
        A.flat[:: f + 1] += 1.0
        if not np.isfinite(A.sum()):
            return None
        root, gradient = factorised(A), self.gradient(z, weights)
        free = substituted(root, gradient).ravel()
        if len(Q) == 1:
            return -free, np.zeros(1), -float(gradient @ free)
        slopes = 0.5 * (Q @ weights) - self.D
        S = 0.5 * product[f:, f:] - B.T @ substituted(root, B)
        dshare = _on_the_simplex(S, slopes + free @ B, share) - share
        dz = substituted(root, B @ dshare).ravel() - free
        return dz, dshare, float(gradient @ dz + slopes @ dshare)


def _on_the_simplex(S: Array, slopes: Array, share: Array) -> Array:
    """The minimiser over the simplex of slopes'd + 1/2 d'S d, d = x - share, in units where no curvature is large."""
    slopes, curvatures = slopes - slopes @ share, S.diagonal()
    unit = max(float(np.abs(slopes).max()), float(curvatures.min()), np.finfo(float).tiny)
    size = np.sqrt(np.maximum(curvatures / unit, 1.0))
    P, c = S / np.multiply.outer(size, size) / unit, (slopes - S @ share) / size / unit
    none = np.empty((0, len(share)))
    found = QuadraticProgram(P, c, len(share), none, np.empty(0), 1.0 / size).solve(size * share)[0] / size
    return np.asarray(found / found.sum())


def compressed(W: Array) -> Array:
    """A root of W'W with at most M rows, and one at least."""
    f, M = W.shape
    if f == 0:
        return np.zeros((1, M))
    return W if f <= M else np.asarray(np.linalg.qr(W, mode="r"))
