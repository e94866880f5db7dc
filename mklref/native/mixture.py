"""The bundle step where psi is curved but J has kinks: groups that exclude each other, lp with p barely above 1.

The model is that of steps.py, the largest cut plus the curvature of the centre plus psi,

    minimise over theta   max_k (D_k - 1/2 q_k'theta) + 1/2 ||W (theta - theta_c)||^2 + psi(theta),

and its dual that of model.py with the multipliers lambda of the cuts besides z = W theta:

    minimise over z, lambda   1/2 ||z||^2 + R*(sqrt(qhat)) - D'lambda,   1'lambda = 1,   lambda >= 0,
    qhat(z, lambda)     max(0, Q'lambda + 2 W'(W theta_c - z)),
    gradient            (z - W theta, 1/2 Q theta - D),                   theta = weights_from_dual(sqrt(qhat)),
    Hessian             [I + 2 W T W', -W T Q';  -Q T W', 1/2 Q T Q'],    T = weights_jacobian.

Newton's method follows the central path of -tau sum log lambda_k, along the smooth relatives of R* where there are any.
"""

from __future__ import annotations

import numpy as np

from mklref._typing import Array
from mklref.native.cholesky import factorised, substituted
from mklref.native.model import compressed, relatives
from mklref.native.steps import Cut
from mklref.regularizers import Regularizer

_NEWTON_STEPS = 50
_ARMIJO = 1e-4
_SMALLEST_STEP = 1e-10
_FIRST, _FACTOR, _LAST = 0.1, 0.1, 1e-15
"""tau, as a share of the value of the model."""
_TO_THE_BOUNDARY = 0.9


def mixed_step(regularizer: Regularizer, cuts: list[Cut], W: Array, centre: Array) -> tuple[Array, float, Array]:
    """Minimise the model plus psi.

    Returns
    -------
    weights : array (M,)
    value : float
        Model plus psi there: a prediction of J + psi.
    mixture : array (k,)
        The multipliers lambda of the cuts.
    """
    W = compressed(W)
    Q = np.stack([cut.squares for cut in cuts])
    offset = max(cut.at(centre) for cut in cuts)
    D = np.array([cut.dual_term for cut in cuts]) - offset
    z, mixture = W @ centre, np.full(len(cuts), 1.0 / len(cuts))
    known = 2.0 * W.T @ z
    members = relatives(regularizer)
    unit = regularizer.conjugate(np.sqrt(Q.max(axis=0)))
    tau = _FIRST * unit
    while tau > _LAST * unit:
        member = members.pop(0) if len(members) > 1 else members[0]
        z, mixture = _newton(member, Q, D, W, known, tau, z, mixture)
        tau *= _FACTOR
    for member in members:
        z, mixture = _newton(member, Q, D, W, known, tau, z, mixture)
    g = np.sqrt(np.maximum(Q.T @ mixture + known - 2.0 * W.T @ z, 0.0))
    weights = members[-1].weights_from_dual(g)
    if members[-1] is not regularizer:
        weights = regularizer.weights_from_norms(weights * g)
    value = max(cut.at(weights) for cut in cuts) + 0.5 * float(np.sum((W @ (weights - centre)) ** 2))
    return weights, value + regularizer.weight_penalty(weights), mixture / mixture.sum()


@np.errstate(over="ignore", invalid="ignore")
def _newton(
    regularizer: Regularizer, Q: Array, D: Array, W: Array, known: Array, tau: float, z: Array, mixture: Array
) -> tuple[Array, Array]:
    """Minimise for one tau: Newton's method with a line search on 1'lambda = 1."""

    def state(z: Array, mixture: Array) -> tuple[float, Array]:
        g = np.sqrt(np.maximum(Q.T @ mixture + known - 2.0 * W.T @ z, 0.0))
        barrier = -tau * float(np.log(mixture).sum())
        return 0.5 * float(z @ z) + regularizer.conjugate(g) - float(D @ mixture) + barrier, g

    f, k = len(z), len(mixture)
    ones = np.append(np.zeros(f), np.ones(k))
    V = np.vstack([W, -0.5 * Q])
    value, g = state(z, mixture)
    for _ in range(_NEWTON_STEPS):
        weights = regularizer.weights_from_dual(g)
        gradient = np.append(z - W @ weights, 0.5 * Q @ weights - D - tau / mixture)
        hessian = 2.0 * V @ regularizer.weights_jacobian(g) @ V.T
        hessian.flat[:: f + k + 1] += np.append(np.ones(f), tau / mixture**2)
        if not (np.isfinite(hessian.sum()) and hessian.diagonal().min() > 0.0):
            break
        root = factorised(hessian)
        free, along = -substituted(root, gradient), substituted(root, ones)
        step = free - (ones @ free) / (ones @ along) * along
        slope = float(gradient @ step)
        if not -slope > 1e-3 * tau:
            break
        t = min(1.0, _TO_THE_BOUNDARY / max(_TO_THE_BOUNDARY, float(np.max(-step[f:] / mixture))))
        while t > _SMALLEST_STEP:
            new_value, new_g = state(z + t * step[:f], mixture + t * step[f:])
            if new_value <= value + _ARMIJO * t * slope:
                break
            t *= 0.5
        else:
            break
        z, mixture, value, g = z + t * step[:f], mixture + t * step[f:], new_value, new_g
    return z, mixture
