"""The step of the outer loop where R* has kinks: a bundle of cuts with the curvature of J at the centre.

Every dual point beta_k seen so far bounds J from below by a cut that is linear in the weights,

    J(theta) >= D_k - 1/2 q_k'theta,      D_k = -sum_i c_i V*(-beta_ki/c_i, y_i),   q_km = beta_k'K_m beta_k,

and the next weights minimise, over the simplex, the largest cut plus the quadratic term of the centre,

    minimise  s + 1/2 ||W(theta - theta_c)||^2,     s >= D_k - 1/2 q_k'theta for all k,   theta >= 0, 1'theta = 1.

With one cut this is Newton's method on the simplex. More cuts are kept only while trial points fail, which
happens where J has kinks; then the multipliers lambda of the cuts (they sum to 1) mix the dual points to
sum_k lambda_k beta_k, which is feasible and near-optimal where no single beta_k is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from mklref._typing import Array
from mklref.native.model import QuadraticProgram

_NEGLIGIBLE = 1e-10
"""Weights below this share of the largest are set to 0 before they are used: such a kernel costs nothing."""
_CANDIDATES = 20
"""Kernels of largest q that join the active ones before the first solve; all violators join later."""


@dataclass(frozen=True)
class Cut:
    """A dual point and the linear lower bound of J that it gives."""

    beta: Array
    squares: Array
    dual_term: float

    def at(self, weights: Array) -> float:
        """D - 1/2 q'theta."""
        return self.dual_term - 0.5 * float(self.squares @ weights)


def bundle_step(cuts: list[Cut], W: Array, centre: Array) -> tuple[Array, float, Array]:
    """Minimise the model over the simplex.

    Returns
    -------
    weights : array (M,)
    value : float
        The model there, a prediction of J.
    mixture : array (k,)
        The multipliers lambda of the cuts.
    """
    candidates = centre > 0.0
    for cut in cuts:
        candidates[np.argsort(cut.squares)[-_CANDIDATES:]] = True
    while True:
        index = np.flatnonzero(candidates)
        part, mixture = _on_face(cuts, W, centre, index)
        weights = np.zeros_like(centre)
        weights[index] = np.where(part > _NEGLIGIBLE * part.max(), part, 0.0)
        weights /= weights.sum()
        # The reduced gradient of a kernel outside must not be smaller than that of those inside.
        aggregate = sum(share * cut.squares for share, cut in zip(mixture, cuts, strict=True))
        slope = W.T @ (W @ (weights - centre)) - 0.5 * aggregate
        missing = ~candidates & (slope < slope[weights > 0.0].max() - 1e-9 * np.abs(slope).max())
        if not missing.any():
            value = max(cut.at(weights) for cut in cuts) + 0.5 * float(np.sum((W @ (weights - centre)) ** 2))
            return weights, value, mixture
        candidates |= missing


def _on_face(cuts: list[Cut], W: Array, centre: Array, index: Any) -> tuple[Array, Array]:
    """The quadratic program in (theta, s) over some of the kernels, scaled to size 1."""
    k, m = len(cuts), len(index)
    V, Q = W[:, index], np.stack([cut.squares[index] for cut in cuts])
    constant = np.array([cut.dual_term for cut in cuts])
    scale = max(float(np.abs(Q).max()), float(np.ptp(constant)), np.finfo(float).tiny)
    offset = max(cut.at(centre) for cut in cuts)
    P = np.zeros((m + 1, m + 1))
    P[:m, :m] = V.T @ V / scale
    P[range(m), range(m)] += 1e-13 * max(1.0, float(np.trace(P)))
    c = np.append(-V.T @ (W @ centre) / scale, 1.0)
    G = np.block([[-np.eye(m), np.zeros((m, 1))], [-0.5 * Q / scale, -np.ones((k, 1))]])
    h = np.append(np.zeros(m), (offset - constant) / scale)
    start = np.append(np.full(m, 1.0 / m), 0.0)
    x, multipliers = QuadraticProgram(P, c, G, h, np.append(np.ones(m), 0.0)).solve(start)
    mixture = multipliers[m:]
    return x[:m], mixture / mixture.sum()
