"""Which model problem belongs to which regulariser."""

from __future__ import annotations

import numpy as np

from mklref._typing import Array
from mklref.native.model import minimise_quadratic, minimise_smooth
from mklref.regularizers import Lp, Regularizer

_NEGLIGIBLE = 1e-10
"""Weights below this share of the largest are set to 0 before they are used: such a kernel costs nothing."""


def next_weights(regularizer: Regularizer, q: Array, W: Array, theta: Array) -> Array:
    """Minimise the quadratic model of J at theta plus psi; the weights satisfy every constraint of psi."""
    if isinstance(regularizer, Lp) and regularizer.p == 1.0:
        return _on_simplex(q, W, theta)
    return minimise_smooth(regularizer, q, W, theta)


def _on_simplex(q: Array, W: Array, theta: Array) -> Array:
    """The model over the simplex, first on the kernels that may be active, then with all that turn out to be."""
    candidates = theta > 0.0
    candidates[np.argsort(q)[-20:]] = True
    while True:
        index = np.flatnonzero(candidates)
        V = W[:, index]
        H = V.T @ V
        H.flat[:: len(index) + 1] += 1e-13 * max(np.trace(H), 1e-300)
        linear = -0.5 * q[index] - V.T @ (W @ theta)
        part = minimise_quadratic(H, linear, np.ones(len(index)))
        weights = np.zeros_like(theta)
        weights[index] = np.where(part > _NEGLIGIBLE * part.max(), part, 0.0)
        weights /= weights.sum()
        slope = -0.5 * q + W.T @ (W @ (weights - theta))
        violators = slope < slope[index].min() - 1e-9 * np.abs(slope).max()
        if not np.any(violators & ~candidates):
            return weights
        candidates |= violators
