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
from mklref.native.model import WELL_INSIDE, compressed, newton, relatives
from mklref.native.steps import Cut
from mklref.regularizers import Regularizer

_FIRST, _FACTOR, _LAST = 0.1, 0.1, 1e-15
"""tau, as a share of the value of the model."""


def mixed_step(
    regularizer: Regularizer, cuts: list[Cut], W: Array, centre: Array, deadline: float = np.inf
) -> tuple[Array, float, Array]:
    """Minimise the model plus psi, or stop somewhere on the way at the deadline.

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
    V, members, nothing = np.vstack([W, -0.5 * Q]), relatives(regularizer), ~Q.any(axis=1)
    share, unit = np.full(len(cuts), 1.0 / len(cuts)), regularizer.conjugate(np.sqrt(Q.max(axis=0)))
    if nothing.any():  # where R* has bounds, most of the share is that of beta = 0
        inside = WELL_INSIDE * members[0].dual_scale(np.sqrt(Q.max(axis=0))) ** 2
        share = inside * share + (1.0 - inside) * nothing / np.count_nonzero(nothing)
        unit = float(np.abs(D).max())
    w, known = np.append(W @ centre, share), 2.0 * W.T @ (W @ centre)
    tau = _FIRST * unit
    while tau > _LAST * unit:
        member = members.pop(0) if len(members) > 1 else members[0]
        w = newton(member, known, V, w, D, tau, 0.0, deadline=deadline)
        tau *= _FACTOR
    for member in members:
        w = newton(member, known, V, w, D, tau, 0.0, deadline=deadline)
    g = np.sqrt(np.maximum(known - 2.0 * V.T @ w, 0.0))
    weights = members[-1].weights_from_dual(g)
    if members[-1] is not regularizer:
        weights = regularizer.weights_from_norms(weights * g)
    mixture = w[len(W) :]
    value = max(cut.at(weights) for cut in cuts) + 0.5 * float(np.sum((W @ (weights - centre)) ** 2))
    return weights, value + regularizer.weight_penalty(weights), mixture / mixture.sum()
