"""The step of the outer loop where R* has kinks: a bundle of cuts with the curvature of J at the centre.

Every dual point beta_k seen so far bounds J from below by a cut that is linear in the weights,

    J(theta) >= D_k - 1/2 q_k'theta,      D_k = -sum_i c_i V*(-beta_ki/c_i, y_i),   q_km = beta_k'K_m beta_k,

and the next weights minimise the largest cut plus the quadratic term of the centre plus a polyhedral psi,

    minimise  s + 1/2 ||W(theta - theta_c)||^2 + psi(theta),     s >= D_k - 1/2 q_k'theta for all k,   theta >= 0.

With one cut this is Newton's method. More cuts are kept only while trial points fail, which
happens where J has kinks; then the multipliers lambda of the cuts (they sum to 1) mix the dual points to
sum_k lambda_k beta_k, which is feasible and near-optimal where no single beta_k is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from mklref._typing import Array
from mklref.machines.qp import QuadraticProgram
from mklref.regularizers.polyhedral import Polyhedral

_NEGLIGIBLE = 1e-10
"""Weights below this share of the largest are set to 0 before they are used: such a kernel costs nothing."""
_RIDGE = 1e-13
_MOST = 60
"""With more active kernels than this at the centre, they have to earn their place in the program again."""
_CANDIDATES = 20
"""Kernels of largest q that join the active ones before the first solve; all violators join later."""


@dataclass(frozen=True)
class Cut:
    """A dual point and the linear lower bound of J that it gives."""

    beta: Array
    squares: Array
    dual_term: float

    def of(self, kernels: Any) -> Cut:
        """The same for some of the kernels, all others having weight 0."""
        return Cut(self.beta, self.squares[kernels], self.dual_term)

    def at(self, weights: Array) -> float:
        """D - 1/2 q'theta."""
        return self.dual_term - 0.5 * float(self.squares @ weights)


def bundle_step(
    psi: Polyhedral, cuts: list[Cut], W: Array, centre: Array, unit: float = 0.0
) -> tuple[Array, float, Array]:
    """Minimise the model plus psi; `unit` is the order of the weights where those of the centre are much smaller.

    Returns
    -------
    weights : array (M,)
    value : float
        Model plus psi there: a prediction of J + psi.
    mixture : array (k,)
        The multipliers lambda of the cuts.
    """
    candidates = (
        centre > _NEGLIGIBLE * centre.max() if np.count_nonzero(centre) <= _MOST else np.zeros(len(centre), bool)
    )
    for cut in cuts:
        candidates[np.argsort(cut.squares)[-_CANDIDATES:]] = True
    normal = np.ones_like(centre) if psi.normal is None else psi.normal
    while True:
        index = np.flatnonzero(candidates)
        part, mixture = _on_face(psi, cuts, W, centre, index, max(unit, float(centre.max())))
        weights = np.zeros_like(centre)
        weights[index] = np.where(part > _NEGLIGIBLE * part.max(), part, 0.0)
        if psi.normal is not None:
            weights /= psi.normal @ weights
        # The gradient of a kernel outside, per unit of the constraint, must not be below that of those inside.
        aggregate = sum(share * cut.squares for share, cut in zip(mixture, cuts, strict=True))
        slope = (W.T @ (W @ (weights - centre)) - 0.5 * aggregate + psi.gradient(weights)) / normal
        inside = 0.0 if psi.normal is None else float(slope[weights > 0.0].max())
        missing = ~candidates & (slope < inside - 1e-9 * np.abs(slope).max())
        if not missing.any():
            largest = max(cut.at(weights) for cut in cuts)
            value = largest + 0.5 * float(np.sum((W @ (weights - centre)) ** 2)) + psi.penalty(weights)
            return weights, value, mixture
        candidates |= missing


def _on_face(psi: Polyhedral, cuts: list[Cut], W: Array, centre: Array, index: Any, unit: float) -> tuple[Array, Array]:
    """The quadratic program in (theta, s) over some of the kernels, in units of the weights and of J."""
    k, m = len(cuts), len(index)
    V, Q = unit * W[:, index], unit * np.stack([cut.squares[index] for cut in cuts])
    constant = np.array([cut.dual_term for cut in cuts])
    scale = max(float(np.abs(Q).max()), float(np.ptp(constant)), np.finfo(float).tiny)
    offset = max(cut.at(centre) for cut in cuts)
    P = np.zeros((m + 1, m + 1))
    P[:m, :m] = (V.T @ V + 2.0 * psi.mu * unit**2) / scale
    P[range(m), range(m)] += _RIDGE * max(1.0, float(np.trace(P)))
    c = np.append((unit * psi.cost[index] - V.T @ (W @ centre)) / scale, 1.0)
    G, h = np.hstack([-0.5 * Q / scale, -np.ones((k, 1))]), (offset - constant) / scale
    a = None if psi.normal is None else np.append(unit * psi.normal[index], 0.0)
    x, multipliers = QuadraticProgram(P, c, m, G, h, a).solve(np.append(centre[index] / unit, 0.0))
    if not np.isfinite(x).all():
        raise FloatingPointError("the quadratic program of the bundle step is beyond double precision")
    mixture = multipliers[m:]
    return unit * x[:m], mixture / mixture.sum()
