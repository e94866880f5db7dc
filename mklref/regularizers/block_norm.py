"""The squared q-norm of the block norms for every q, also above 2, where the kernels are spread evenly."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mklref._typing import Array
from mklref._validate import checked_number
from mklref.exceptions import NotApplicable
from mklref.regularizers.base import Regularizer
from mklref.regularizers.lp import Lp
from mklref.regularizers.norms import LowRank, Polyhedral, ball_exponent, conjugate_exponent, p_norm, quotient


@dataclass(frozen=True, eq=False)
class BlockNorm(Regularizer):
    """The squared block norm, q in [1, inf] (Kloft (30), (31); Tomioka (5) and the remarks on q > 2).

    With q* = q/(q-1):

    R(rho)     = 1/2 ||rho||_q^2
    R*(g)      = 1/2 ||g||_{q*}^2
    psi(theta) = that of Lp(q/(2-q)) for q <= 2
    theta      = rho^{2-q} ||rho||_q^{q-2}                         from the norms
    theta      = g^{(2-q)/(q-1)} (sum g^{q*})^{(q-2)/q}            from the dual

    For q <= 2 this is `Lp(q/(2-q))` under another name. For q > 2 there is no psi: with r = q/(q-2),

    R(rho) = max { 1/2 sum_m vartheta_m rho_m^2 : vartheta >= 0, ||vartheta||_r <= 1 },   theta = 1/vartheta,

    which is Kloft (30); the problem is a saddle point, not a joint minimisation (Tomioka's T3 to T5). Kloft (31)
    is not the reciprocal of the line above it: its last factor belongs into the numerator (erratum L11).

    Weights of kernels with rho = 0 or g = 0 are 0/0 and given as 0, as f_m = theta_m K_m beta = 0. At q = inf the
    weights are sum(g)/g_m from the dual; the norms, equal where g > 0, leave them open. There f_m with g_m = 0 costs
    nothing up to the largest norm: it need not be 0, and then only theta_m -> inf attains the optimum.

    Parameters
    ----------
    q : float
        In [1, inf].
    """

    q: float
    degree = 2.0

    def __post_init__(self) -> None:
        remedy = "1 is sparse, 2 the plain sum, inf equal norms; for q < 1 the penalty is not convex."
        object.__setattr__(self, "q", checked_number("q", self.q, "[1, inf]", lambda q: q >= 1.0, remedy))

    @property
    def weight_form(self) -> str:
        """Either "min", for q <= 2, or "max", above."""
        return "min" if self.q <= 2.0 else "max"

    @property
    def ball(self) -> Lp:
        """The lp ball of weights for q <= 2.

        Raises
        ------
        NotApplicable
            For q > 2.
        """
        if self.q > 2.0:
            raise NotApplicable(self._no_weight_form())
        return Lp(ball_exponent(self.q))

    @property
    def dual_exponent(self) -> float:
        """q* = q/(q-1)."""
        return conjugate_exponent(self.q)

    def value(self, rho: Array) -> float:
        norm = p_norm(rho, self.q)
        return 0.5 * norm * norm

    def conjugate(self, g: Array) -> float:
        norm = p_norm(g, self.dual_exponent)
        return 0.5 * norm * norm

    def weight_penalty(self, theta: Array) -> float:
        """That of the lp ball; for q > 2 there is none."""
        return self.ball.weight_penalty(theta)

    def weights_from_norms(self, rho: Array) -> Array:
        """rho^{2-q} ||rho||_q^{q-2} = (rho/N) / (rho/N)^{q-1} with N = ||rho||_q; at q = inf those of equal g."""
        if self.q <= 2.0:
            return self.ball.weights_from_norms(rho)
        ratio = quotient(rho, np.full(len(rho), p_norm(rho, self.q)))
        if np.isinf(self.q):
            return len(rho) * ratio
        return quotient(ratio, ratio ** (self.q - 1.0))

    def weights_from_dual(self, g: Array) -> Array:
        """g^{(2-q)/(q-1)} (sum g^{q*})^{(q-2)/q} = (g/N)^{q*-1} / (g/N) with N = ||g||_{q*}."""
        if self.q <= 2.0:
            return self.ball.weights_from_dual(g)
        ratio = quotient(g, np.full(len(g), p_norm(g, self.dual_exponent)))
        return quotient(ratio ** (self.dual_exponent - 1.0), ratio)

    def weights_at(self, rho: Array, g: Array) -> Array:
        """For q > 2 from g: d log theta is (2-q) d log rho, all rho being equal at q = inf, and (2-q)/(q-1) d log g."""
        return self.weights_from_dual(g) if self.q > 2.0 else self.weights_from_norms(rho)

    def low_rank_jacobian(self, g: Array) -> LowRank | None:
        """(q*-2)/2 (diag(theta/g^2) - theta theta'/||g||_{q*}^2), negative semidefinite for q > 2; none at q = 1."""
        if self.q <= 2.0:
            return self.ball.low_rank_jacobian(g)
        top, theta = float(g.max()), self.weights_from_dual(g)
        if top == 0.0:
            return LowRank.diagonally(np.zeros_like(g))
        ratio, unit = g / top, 0.5 * (self.dual_exponent - 2.0) / top / top
        with np.errstate(over="ignore"):
            own = quotient(theta, ratio**2)
        own, rows = (np.where(np.isfinite(own), x, 0.0) for x in (own, theta))
        return LowRank(unit * own, rows[None], np.full(1, -unit / p_norm(ratio, self.dual_exponent) ** 2))

    def smoothed(self, epsilon: float) -> BlockNorm:
        """q at least 1 + epsilon/2: that of p = 1 + epsilon, to first order."""
        return self if self.q >= 1.0 + 0.5 * epsilon else BlockNorm(1.0 + 0.5 * epsilon)

    def polyhedral(self, kernels: int) -> Polyhedral | None:
        return Polyhedral.simplex(kernels) if self.q == 1.0 else None
