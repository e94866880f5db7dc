"""The weights that minimise a quadratic model of J plus the regulariser: small problems, no pass over the kernels.

    minimise over theta >= 0   m(theta) = -1/2 q'(theta - theta_k) + 1/2 ||W (theta - theta_k)||^2 + psi(theta)

q (M,) holds the squares beta'K_m beta and W (f, M) the root of the Hessian of J at theta_k. With z = W theta its
dual is, up to a constant, an unconstrained convex problem in z alone, because the supremum over theta is R*:

    minimise over z   1/2 ||z||^2 + R*(sqrt(qhat(z))),    qhat(z) = max(0, q + 2 W'(W theta_k - z)),
    gradient          z - W theta(z),                     theta(z) = weights_from_dual(sqrt(qhat(z))),
    Hessian           I + 2 W T W',                       T = weights_jacobian.

The minimiser is followed along smooth relatives, members of the same family whose R* is differentiable, on the way to
one that has kinks, as an interior point method follows its central path. With p = 1 + epsilon in place of p = 1 the
value of R* changes by a relative epsilon log M at most, so the last relative is as good as the limit.

Where psi is polyhedral (lp with p = 1 and its kin) the problem is a quadratic program, solved by an interior point
method.
"""

from __future__ import annotations

import time

import numpy as np

from mklref._typing import Array
from mklref.machines.cholesky import factorised, substituted
from mklref.machines.qp import QuadraticProgram
from mklref.regularizers import Regularizer

_FIRST, _FACTOR, _LAST = 1.0 / 3.0, 0.25, 5e-8
"""epsilon of the relatives."""
_NEWTON_STEPS = 100
_ARMIJO = 1e-4
_SMALLEST_STEP = 1e-10
_ACCURACY = 1e-13
_CENTRED = 1e-3
_TO_THE_BOUNDARY = 0.9
_COLLAPSED, _CONE = 1e-6, 1e-9
_CRAWLING = 0.1
_MOST_HALVINGS = 60
"""After so many the curvature that is left is nothing."""
_RIDGE = 1e-13
WELL_INSIDE = 0.98
"""Share of the bound of R*'s domain, where it has one, below which Newton's method starts."""


def minimise(regularizer: Regularizer, q: Array, W: Array, theta: Array, deadline: float = np.inf) -> Array:
    """Weights (M,) that minimise the model; feasible for psi, from smooth relatives where R* has kinks.

    Past the deadline they are some weights.

    J falls along every ray of weights, its model need not: where psi is the indicator of a set, R* a cone in q, and the
    model has its minimum inside the set, every qhat is 0 and says nothing about the weights. The curvature is halved
    until that is no longer so; with no curvature at all the step goes to weights_from_dual, a direction of descent
    (Frank and Wolfe).
    """
    W, members, g = compressed(W), relatives(regularizer), np.sqrt(q)
    scale, size = regularizer.dual_scale(g), regularizer.conjugate(2.0 * g)
    cone = abs(size - 4.0 * regularizer.conjugate(g)) <= _CONE * size < np.inf
    collapsed = _COLLAPSED * float(q.max()) if cone else -1.0
    for _ in range(_MOST_HALVINGS):
        z = W @ theta
        centre = q + 2.0 * W.T @ z
        if scale < 1.0:
            z = W @ _weights_inside(WELL_INSIDE * scale**2 * float(q.max()), q, W, theta)
        for member in members if len(z) else ():
            z = newton(member, centre, W, z, np.empty(0), 0.0, _ACCURACY, collapsed, deadline)
        qhat = np.maximum(centre - 2.0 * W.T @ z, 0.0)
        if qhat.max() > collapsed or not q.any() or time.perf_counter() > deadline:
            break
        W = W / np.sqrt(2.0)
    else:
        qhat = q
    g = np.sqrt(qhat)
    weights = members[-1].weights_from_dual(g)
    return weights if members[-1] is regularizer else regularizer.weights_from_norms(weights * g)


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


def _weights_inside(limit: float, q: Array, W: Array, theta: Array) -> Array:
    """Weights with qhat <= limit, to start where R* is finite: they minimise the model with psi = limit/2 1'theta."""
    lengths = np.sum(W**2, axis=0)
    alone = np.divide(q - limit, 2.0 * lengths, out=np.zeros_like(q), where=lengths > 0.0)
    unit = max(float(theta.max()), float(alone.max()))
    if unit == 0.0:  # neither weights nor a curvature, of what lies outside
        return theta
    scale = float(q.max())
    P = (unit / scale) * W.T @ W
    P.flat[:: len(q) + 1] += _RIDGE * max(1.0, float(np.trace(P)))
    c = (0.5 * (limit - q) - W.T @ (W @ theta)) / scale
    return unit * QuadraticProgram(P, c, len(q), np.empty((0, len(q))), np.empty(0), None).solve(theta / unit)[0]


@np.errstate(over="ignore", invalid="ignore")
def newton(
    regularizer: Regularizer,
    centre: Array,
    V: Array,
    w: Array,
    D: Array,
    tau: float,
    tol: float,
    collapsed: float = -1.0,
    deadline: float = np.inf,
) -> Array:
    """Minimise 1/2 ||z||^2 + R*(sqrt(qhat)) - D'share - tau sum log share, qhat = centre - 2 V'w, over w = (z, share).

    Newton's method with a line search, on 1'share = 1 if there are shares. Steep relatives overflow far from their
    minimum; such a step is never taken. It ends as soon as it crawls where all of qhat is below `collapsed`, at the
    apex of the cone R*, and at the deadline.
    """
    f = len(w) - len(D)
    ones = np.append(np.zeros(f), np.ones_like(D))

    def state(w: Array) -> tuple[float, Array]:
        g, share = np.sqrt(np.maximum(centre - 2.0 * V.T @ w, 0.0)), w[f:]
        barrier = tau * float(np.log(share).sum())
        return 0.5 * float(w[:f] @ w[:f]) + regularizer.conjugate(g) - float(D @ share) - barrier, g

    value, g = state(w)
    for _ in range(_NEWTON_STEPS):
        weights, share = regularizer.weights_from_dual(g), w[f:]
        gradient = np.append(w[:f], -D - tau / share) - V @ weights
        hessian = 2.0 * V @ regularizer.weights_jacobian(g) @ V.T
        hessian.flat[:: len(w) + 1] += np.append(np.ones(f), tau / share**2)
        if not (np.isfinite(hessian.sum()) and hessian.diagonal().min() > 0.0):
            break
        root = factorised(hessian)
        step = -substituted(root, gradient)
        if len(D):
            along = substituted(root, ones)
            step -= (ones @ step) / (ones @ along) * along
        slope = float(gradient @ step)
        if not slope < -max(tol * max(abs(value), float(g**2 @ weights)), _CENTRED * tau):
            break
        t = min(1.0, _TO_THE_BOUNDARY / max(_TO_THE_BOUNDARY, float(np.max(-step[f:] / share, initial=0.0))))
        while t > _SMALLEST_STEP:
            new_value, new_g = state(w + t * step)
            if new_value <= value + _ARMIJO * t * slope:
                break
            t *= 0.5
        else:
            break
        w, value, g = w + t * step, new_value, new_g
        if (t < _CRAWLING and float(g.max()) ** 2 <= collapsed) or time.perf_counter() > deadline:
            break
    return w


def compressed(W: Array) -> Array:
    """A root of W'W with at most M rows."""
    f, M = W.shape
    if f <= M:
        return W
    values, vectors = np.linalg.eigh(W.T @ W)
    keep = values > 1e-15 * max(values[-1], 0.0)
    return np.asarray(np.sqrt(values[keep])[:, None] * vectors[:, keep].T)
