"""Block norms with q > 2: an interior point method on the reciprocals of the weights.

    R(rho) = max { 1/2 sum_m v_m rho_m^2 : v >= 0, ||v||_r <= 1 },   r = q/(q-2),   theta = 1/v       (Kloft (30))

As a minimum over f of functions linear in v, J(1/v) is concave. With s_m = theta_m^2 q_m = ||f_m||^2 and the Hessian
W'W of J in the weights,

    d(-J)/dv = -1/2 s,      d2(-J)/dv2 = N = diag(theta^3 q) - diag(theta^2) W'W diag(theta^2).

At q = inf kernels whose norms stay below the largest have v_m = 0: they are not penalised. There -J bends like
1/(a + v), so that a quadratic model is good only for steps that are bounded relative to v, and a barrier bounds
them so. Each step is one of Newton's method towards

    -1/2 s + t v^{r-1} - z = 0,      sum_m v_m^r = 1,      v_m z_m = mu   for all m,

with the complementarity mu a tenth of the smallest gap per kernel so far: off the path R, a maximum, is far larger than
on it, and a gap from there would lead back to where the path began. In units of v, with d = dv/v, it reads
(V N V + diag(v z + t (r-1) v^r)) d + t v^r = 1/2 v s + mu,   V = diag(v),   and v_m z_m -> mu - v_m z_m d_m.
"""

from __future__ import annotations

import numpy as np

from mklref._typing import Array
from mklref.native.curved import compressed
from mklref.regularizers import BlockNorm
from mklref.regularizers.norms import p_norm, quotient

_CENTRING = 0.1
_KEPT = 0.1
"""Share that a step leaves at least of each v_m and z_m."""
_SMALLEST = 1e-10
"""Share of the largest v_m below which none falls."""
_FLATTEST = 1e-14
_NO_GAP = float(np.finfo(float).eps)
"""Relative gap below which there is none but rounding, of either sign."""


class LargeQ:
    """The multipliers z, and mu, from step to step."""

    def __init__(self, regularizer: BlockNorm) -> None:
        self.regularizer, self.r = regularizer, regularizer.reciprocals
        self.z: Array | None = None
        self.mu = np.inf

    def weights(self, q: Array, errors: Array) -> Array:
        """The weights (M,) for the squares q of a start, none of them so large that rounding costs more than it gains.

        Block norms do not determine them: where g_m is 0, as for a constant kernel beside an intercept, the weight is
        large.
        """
        return self.regularizer.weights_from_dual(np.sqrt(q + 4.0 * errors))

    def step(self, theta: Array, q: Array, W: Array, gap: float, errors: Array | float = 0.0) -> Array:
        """The next weights (M,), from the present ones, their squares q, the root W (f, M) and the duality gap.

        Rounding adds theta_m E_m to the losses, for the errors E (M,): from theta_m = S/(2 sqrt(E_m)), S = sum_l g_l,
        a larger weight costs more than it gains, at most S^2/(4 theta_m) of R*. With q + 4 E in place of q it is the
        largest one, and leaves room for what rounding adds to the block norm.
        """
        q = q + 4.0 * errors
        v = self._inside(quotient(np.full_like(theta, theta.max()), theta))
        s = q / v**2
        t = 0.5 * float(v @ s)
        mu = self.mu = max(min(self.mu, _CENTRING * gap / len(v)), _NO_GAP * t / len(v), np.finfo(float).tiny)
        if self.z is None:
            self.z = np.maximum(t * v ** (self.r - 1.0) - 0.5 * s, mu / v)
        vz, normal = v * self.z, v**self.r
        convex = vz + t * (self.r - 1.0) * normal
        diagonal = np.maximum(v * s + convex, np.finfo(float).tiny)
        solved = _inverse(diagonal, W / v, convex, np.stack([0.5 * v * s + mu, normal]))
        slope = float(normal @ solved[1])
        if not slope > 0.0:  # it is for a definite H
            raise FloatingPointError("the step of a block norm is beyond double precision")
        d = solved[0] - float(normal @ solved[0]) / slope * solved[1]
        change = (mu - vz - vz * d) / vz
        self.z = self.z * (1.0 + _longest(change) * change)
        return np.asarray(1.0 / self._inside(v * (1.0 + min(_longest(d), _longest(-d)) * d)))

    def _inside(self, v: Array) -> Array:
        """On the boundary of the ball, away from 0."""
        inner = np.maximum(v, _SMALLEST * v.max())
        return np.asarray(inner / p_norm(inner, self.r))


def _inverse(diagonal: Array, B: Array, convex: Array, sides: Array) -> Array:
    """Rows (k, M) times the inverse of H = diag(a) - B'B, of which H - diag(convex) is semidefinite, by Woodbury.

    With G = B diag(a)^{-1/2} and G G' = U diag(lambda) U' of the order of the free samples, or of the kernels if these
    are fewer, diag(a)^{1/2} H^{-1} diag(a)^{1/2} = I + G'U diag(1/(1 - lambda)) U'G. Rounding may leave less of
    1 - lambda than the least convex_m/a_m: of q that are 0, say.
    """
    root = np.sqrt(diagonal)
    G = compressed(B / root)
    values, vectors = np.linalg.eigh(G @ G.T)
    G, y = vectors.T @ G, sides / root
    rest = np.maximum(1.0 - values, max(_FLATTEST, float(np.min(convex / diagonal))))
    return np.asarray((y + (y @ G.T / rest) @ G) / root)


def _longest(d: Array) -> float:
    """The longest step in [0, 1] that leaves a share `_KEPT` of everything."""
    return 1.0 / max(1.0, float(np.max(-d)) / (1.0 - _KEPT))
