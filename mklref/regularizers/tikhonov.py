"""Tikhonov regularisation of the weights by the square of their lp norm, and by one power for each kernel.

The powers are block norms that are not squared.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from mklref._own import own_class
from mklref._typing import Array
from mklref._validate import check_field
from mklref.regularizers.base import Regularizer
from mklref.regularizers.lp import Lp
from mklref.regularizers.norms import (
    FEASIBILITY,
    TIE,
    ByExponent,
    LowRank,
    Polyhedral,
    block_exponent,
    conjugate_exponent,
    p_norm,
    power_sum,
    quotient,
)

_AS_GOOD_AS_ONE = 1.0 + 2e-9
"""Up to this p a power is taken for the weight itself: they differ by (p - 1) log theta."""


@dataclass(frozen=True)
class Tikhonov(ByExponent, Regularizer):
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
    """

    p: float
    mu: float
    degree = 4.0 / 3.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "p", Lp(self.p).p)
        remedy = "0 would leave the weights unbounded; for an infinite mu no kernel is left."
        check_field(self, "mu", "(0, inf)", remedy)

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
        half = self.ball.conjugate(g)
        return half * half / (4.0 * self.mu)

    def weight_penalty(self, theta: Array) -> float:
        if np.any(theta < 0.0):
            return np.inf
        norm = p_norm(theta, self.p)
        return self.mu * norm * norm

    def weights_from_norms(self, rho: Array) -> Array:
        return self.radius(rho) * self.ball.weights_from_norms(rho)

    def weights_from_dual(self, g: Array) -> Array:
        return self.ball.conjugate(g) / (2.0 * self.mu) * self.ball.weights_from_dual(g)

    def low_rank_jacobian(self, g: Array) -> LowRank | None:
        """(theta_Lp theta_Lp' + ||q||_{p*} T_Lp) / (4 mu), the Hessian of ||q||_{p*}^2 / (8 mu), for p > 1."""
        inner, norm = self.ball.low_rank_jacobian(g), 2.0 * self.ball.conjugate(g)
        if inner is None:
            return None
        diagonal, theta, scale = inner  # its one row is theta_Lp
        return LowRank(norm * diagonal / (4.0 * self.mu), theta, (1.0 + norm * scale) / (4.0 * self.mu))

    def in_unit(self, norm: float) -> tuple[float, Regularizer] | None:
        """s = (4 mu norm^4)^{1/3}, and mu = 1/4, of which weights are 1 where one norm is."""
        if own_class(self):  # that may change something
            return super().in_unit(norm)
        s = float(np.cbrt(4.0 * self.mu) * np.power(norm, self.degree))
        return s, self if self.mu == 0.25 else Tikhonov(self.p, 0.25)

    def polyhedral(self, kernels: int) -> Polyhedral | None:
        return Polyhedral(np.zeros(kernels), mu=self.mu) if self.p == 1.0 else None


@dataclass(frozen=True)
class Power(ByExponent, Regularizer):
    """A power penalty on every weight, for p in [1, inf] (Tomioka (6), (7) and Table 1).

    With q = 2p/(p+1) in [1, 2] and q* = q/(q-1) = 2p/(p-1):

    R(rho)     = 1/q sum rho^q
    R*(g)      = 1/q* sum g^{q*}          p = 1: 0 if g <= 1, else +inf
    psi(theta) = 1/(2p) sum theta^p       p = inf: 0 if theta <= 1, else +inf
    theta      = rho^{2/(p+1)}            from the norms
    theta      = g^{2/(p-1)}              from the dual, p > 1

    This is `Lp` without the square on the block norm: both have the same solutions, at costs C that depend on
    them (`mklref.equivalences`). p = 1 is the kernelised group lasso, R = sum rho: its R* is an indicator, and
    at g_m = 1 any weight attains it; `weights_from_dual` returns 1 there. p = inf is the unweighted sum.

    As a MAP estimate with weights of density exp(-mu h), as Tomioka reads (6), the problem would have 2 mu in place of
    mu, and another term rank(K_m)/2 log theta_m (erratum T7).

    Parameters
    ----------
    p : float
        In [1, inf].
    """

    p: float

    def __post_init__(self) -> None:
        remedy = "1 is the group lasso, inf the plain sum; for p < 1 the penalty is not convex."
        check_field(self, "p", "[1, inf]", remedy)

    @property
    def degree(self) -> float:
        return self.block_exponent

    @property
    def block_exponent(self) -> float:
        """q = 2p/(p+1)."""
        return block_exponent(self.p)

    def value(self, rho: Array) -> float:
        return power_sum(rho, self.block_exponent) / self.block_exponent

    def conjugate(self, g: Array) -> float:
        if self.p == 1.0:
            return 0.0 if np.all(g <= 1.0) else np.inf
        exponent = 2.0 * conjugate_exponent(self.p)
        return power_sum(g, exponent) / exponent

    def weight_penalty(self, theta: Array) -> float:
        if np.any(theta < 0.0):
            return np.inf
        if np.isinf(self.p):
            return 0.0 if np.all(theta <= 1.0 + FEASIBILITY) else np.inf
        return power_sum(theta, self.p) / (2.0 * self.p)

    def weights_from_norms(self, rho: Array) -> Array:
        return np.asarray(rho ** (2.0 / (self.p + 1.0)))

    def weights_from_dual(self, g: Array) -> Array:
        """g^{2/(p-1)}; at p = 1 the indicator of g = 1. Where R*(g) overflows, that of the nearest dual_scale * g."""
        inside = self.dual_scale(g) * g
        if self.p == 1.0:
            return (inside >= 1.0 - TIE).astype(float)
        return np.asarray(inside ** (2.0 / (self.p - 1.0)))

    def low_rank_jacobian(self, g: Array) -> LowRank | None:
        """diag(theta/q) / (p - 1) for p > 1."""
        if self.p == 1.0:
            return None
        return LowRank.diagonally(quotient(self.weights_from_dual(g), g**2) / (self.p - 1.0))

    def dual_scale(self, g: Array) -> float:
        """At p = 1 what takes the largest g_m to 1; also for p > 1, if R*(g) is beyond floating-point numbers."""
        top = float(g.max())
        if top <= 1.0 or (self.p > 1.0 and np.isfinite(self.conjugate(g))):
            return 1.0
        return (1.0 - 4.0 * float(np.finfo(float).eps)) / top

    def sharpened(self) -> Self | None:
        return super().sharpened() if self.p > _AS_GOOD_AS_ONE else None

    def polyhedral(self, kernels: int) -> Polyhedral | None:
        """psi for p = 1, which is that of p next to it, or None."""
        return Polyhedral(np.full(kernels, 0.5)) if self.p <= _AS_GOOD_AS_ONE else None
