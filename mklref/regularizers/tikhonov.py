"""Tikhonov regularisation of the weights by the square of their lp norm."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mklref._typing import Array
from mklref._validate import checked_number, written
from mklref.regularizers.base import Regularizer
from mklref.regularizers.lp import Lp
from mklref.regularizers.norms import p_norm
from mklref.regularizers.polyhedral import Polyhedral


@dataclass(frozen=True, eq=False)
class Tikhonov(Regularizer):
    """The squared lp norm of the weights as a penalty, p in [1, inf] and mu > 0 (Kloft (4), (18)).

    With q = 2p/(p+1), p* = p/(p-1) and the weights theta_Lp of the lp ball:

    R(rho)     = 3/4^{2/3} mu^{1/3} ||rho||_q^{4/3}
    R*(g)      = ||(g_m^2)_m||_{p*}^2 / (16 mu)
    psi(theta) = mu ||theta||_p^2
    theta      = (||rho||_q^2 / (4 mu))^{1/3} theta_Lp(rho)       from the norms
    theta      = ||(g_m^2)_m||_{p*} / (4 mu) theta_Lp(g)          from the dual

    R is the minimum over the radius s of ||rho||_q^2/(2 s) + mu s^2, so every solution is one of `Lp(p)` at the
    cost C s (Kloft Theorem 1, `mklref.equivalences`). Kloft 2.2 calls (4) Ivanov and (P) Tikhonov; it is the
    reverse (erratum L1). (18) has mu/2 in place of mu, and no constraint, contrary to the proof around it (L7).

    Parameters
    ----------
    p : float
        In [1, inf].
    mu : float
        Positive and finite.

    Raises
    ------
    InvalidParameter
        If p < 1, mu <= 0, or either is not a number.
    """

    p: float
    mu: float

    def __post_init__(self) -> None:
        remedy = "0 would leave the weights unbounded; for an infinite mu no kernel is left."
        object.__setattr__(self, "p", Lp(self.p).p)
        object.__setattr__(self, "mu", checked_number("mu", self.mu, "(0, inf)", lambda mu: 0.0 < mu < np.inf, remedy))

    @property
    def name(self) -> str:
        """Tikhonov(p, mu)."""
        return f"Tikhonov({written(self.p)}, mu={written(self.mu)})"

    @property
    def degree(self) -> float:
        """4/3."""
        return 4.0 / 3.0

    @property
    def ball(self) -> Lp:
        """The lp ball of the same p: 1/2 ||rho||_q^2 and 1/2 ||g^2||_{p*} are its value and conjugate."""
        return Lp(self.p)

    def radius(self, rho: Array) -> float:
        """s = (||rho||_q^2 / (4 mu))^{1/3}, the lp norm of the weights that attain R(rho); no square underflows."""
        return float(np.cbrt(p_norm(rho, self.ball.block_exponent)) ** 2 / np.cbrt(4.0 * self.mu))

    def value(self, rho: Array) -> float:
        """3 mu s^2: half of it is the penalty of the norms, mu s^2 that of the weights."""
        s = self.radius(rho)
        return 3.0 * self.mu * s * s

    def conjugate(self, g: Array) -> float:
        """(1/2 ||g^2||_{p*})^2 / (4 mu)."""
        half = self.ball.conjugate(g)
        return half * half / (4.0 * self.mu)

    def weight_penalty(self, theta: Array) -> float:
        """mu ||theta||_p^2."""
        if np.any(theta < 0.0):
            return np.inf
        norm = p_norm(theta, self.p)
        return self.mu * norm * norm

    def weights_from_norms(self, rho: Array) -> Array:
        """s theta_Lp(rho)."""
        return self.radius(rho) * self.ball.weights_from_norms(rho)

    def weights_from_dual(self, g: Array) -> Array:
        """||g^2||_{p*} / (4 mu) theta_Lp(g)."""
        return self.ball.conjugate(g) / (2.0 * self.mu) * self.ball.weights_from_dual(g)

    def weights_jacobian(self, g: Array) -> Array:
        """(theta_Lp theta_Lp' + ||q||_{p*} T_Lp) / (4 mu), the Hessian of ||q||_{p*}^2 / (8 mu), for p > 1.

        Raises
        ------
        NotApplicable
            If p = 1.
        """
        if self.p == 1.0:
            return super().weights_jacobian(g)
        theta = self.ball.weights_from_dual(g)
        return (np.outer(theta, theta) + 2.0 * self.ball.conjugate(g) * self.ball.weights_jacobian(g)) / (4.0 * self.mu)

    def smoothed(self, epsilon: float) -> Tikhonov:
        """p at least 1 + epsilon."""
        return self if self.p >= 1.0 + epsilon else Tikhonov(1.0 + epsilon, self.mu)

    def polyhedral(self, kernels: int) -> Polyhedral | None:
        """mu (1'theta)^2 for p = 1."""
        return Polyhedral(np.zeros(kernels), mu=self.mu) if self.p == 1.0 else None
