"""The elastic net over kernels, as a penalty on the weights and as a constraint on them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mklref._typing import Array
from mklref._validate import check_field, checked_choice
from mklref.regularizers.base import Regularizer
from mklref.regularizers.norms import FEASIBILITY, LowRank, Polyhedral, net_in_unit, quotient


@dataclass(frozen=True)
class ElasticNet(Regularizer):
    """A mixture of sparse and uniform kernel weights, lam in (0, 1) (Tomioka (12), (13), Table 1 and 3.3).

    With S = sum rho and (.)_+ = max(., 0), form "tikhonov":

    R(rho)     = (1-lam) S + lam/2 sum rho^2
    R*(g)      = 1/(2 lam) sum (g - tau)_+^2,     tau = 1-lam
    psi(theta) = 1/2 sum (1-lam)^2 theta/(1 - lam theta)   for theta < 1/lam, else +inf
    theta      = rho / ((1-lam) + lam rho)                 from the norms

    form "ivanov":

    R(rho)     = 1/2 ((1-lam) S^2 + lam sum rho^2)
    R*(g)      = min_{tau >= 0} tau^2/(2(1-lam)) + 1/(2 lam) sum (g - tau)_+^2
    psi(theta) = 0 if sum (1-lam) theta/(1 - lam theta) <= 1 and theta < 1/lam, else +inf
    theta      = rho / ((1-lam) S + lam rho)               from the norms

    In both, theta = (g - tau)_+ / (lam g) from the dual: kernels with g below the threshold tau are out. The best
    threshold of the Ivanov form is tau = (1-lam) S = (1-lam) G_k / (lam + (1-lam) k), where G_k is the sum of the
    k largest g, and k is the number of kernels above it.

    The two forms have the same solutions, at costs and mixtures that depend on them (`mklref.equivalences`).
    lam -> 0 is `Power(1)` (tikhonov) or `Lp(1)` (ivanov), lam -> 1 is `Lp(inf)`. The h of Table 1 is negative beyond
    theta = 1/lam, where it has to be +inf (erratum T10). The simplex with a ridge on the weights, which Tomioka 3.2
    calls equivalent, is another regulariser: its dR/drho is not affine (erratum T9).

    Parameters
    ----------
    lam : float
        In (0, 1).
    form : str
        "tikhonov" or "ivanov".
    """

    lam: float
    form: str = "tikhonov"

    def __post_init__(self) -> None:
        check_field(self, "lam", "(0, 1)", "for 0 use Power(1) (tikhonov) or Lp(1) (ivanov), for 1 use Lp(inf).")
        object.__setattr__(self, "form", checked_choice("form", self.form, ("tikhonov", "ivanov")))

    @property
    def degree(self) -> float | None:
        return 2.0 if self.form == "ivanov" else None

    def threshold(self, g: Array) -> float:
        """Tau: 1-lam in Tikhonov form, the minimiser in the definition of R* in Ivanov form."""
        if self.form == "tikhonov":
            return 1.0 - self.lam
        largest_first = np.sort(g)[::-1]
        count = np.arange(1, len(g) + 1)
        tau = (1.0 - self.lam) * np.cumsum(largest_first) / (self.lam + (1.0 - self.lam) * count)
        above = np.flatnonzero(largest_first > tau)
        return float(tau[above[-1] if len(above) else 0])  # by rounding none is above where lam is below 1e-16

    def value(self, rho: Array) -> float:
        total = float(np.sum(rho))
        sparse = (1.0 - self.lam) * (total if self.form == "tikhonov" else 0.5 * total * total)
        return sparse + 0.5 * self.lam * float(rho @ rho)

    def conjugate(self, g: Array) -> float:
        tau = self.threshold(g)
        excess = np.maximum(g - tau, 0.0)
        above = float(excess @ excess) / (2.0 * self.lam)
        return above if self.form == "tikhonov" else above + tau * tau / (2.0 * (1.0 - self.lam))

    def weight_penalty(self, theta: Array) -> float:
        """1/2 sum (1-lam) h, or the indicator of sum h <= 1, with h = (1-lam) theta/(1 - lam theta)."""
        if self.form == "ivanov":
            theta = theta / (1.0 + FEASIBILITY)  # in theta, as in all balls: near lam = 1, h magnifies rounding
        rest = 1.0 - self.lam * theta
        if np.any(theta < 0.0) or np.any(rest <= 0.0):
            return np.inf
        total = float(np.sum((1.0 - self.lam) * theta / rest))
        if self.form == "tikhonov":
            return 0.5 * (1.0 - self.lam) * total
        return 0.0 if total <= 1.0 else np.inf

    def weights_from_norms(self, rho: Array) -> Array:
        if self.form == "tikhonov":
            return np.asarray(rho / ((1.0 - self.lam) + self.lam * rho))
        top = float(rho.max())
        ratio = rho / top if top > 0.0 else np.ones(len(rho))
        return np.asarray(ratio / ((1.0 - self.lam) * np.sum(ratio) + self.lam * ratio))

    def weights_from_dual(self, g: Array) -> Array:
        """(g - tau)_+ / (lam g); in Ivanov form uniform if g = 0.

        In Ivanov form, with e_m = max_l g_l - g_m and sums over the k kernels above tau, that is

            theta_m = (1 + (1-lam)/lam sum_l (e_l - e_m)/g_m) / (lam + (1-lam) k),

        of which less than g - tau, which is as small as lam, is lost to rounding.
        """
        if self.form == "tikhonov":
            return quotient(np.maximum(g - self.threshold(g), 0.0), g) / self.lam
        if not g.any():
            return self.weights_from_norms(g)
        below = g.max() - g
        above = g >= self.threshold(g)
        k = np.count_nonzero(above)
        apart = quotient(np.where(above, float(below[above].sum()) - k * below, 0.0), g)
        shares = np.maximum(1.0 + (1.0 - self.lam) * (apart / self.lam), 0.0)
        return np.asarray(np.where(above, shares, 0.0) / (self.lam + (1.0 - self.lam) * k))

    def low_rank_jacobian(self, g: Array) -> LowRank:
        """Over the kernels above tau: tau/(2 lam) diag(g^-3), in Ivanov form less kappa/(2 lam) (1/g)(1/g)'.

        kappa = dtau/dg_m = (1-lam)/(lam + (1-lam) k).
        """
        tau = self.threshold(g)
        above = g > tau
        inverse = np.divide(1.0, g, out=np.zeros_like(g), where=above)
        own = (tau * inverse) * inverse * inverse / (2.0 * self.lam)
        if self.form == "tikhonov":
            return LowRank.diagonally(own)
        kappa = (1.0 - self.lam) / (self.lam + (1.0 - self.lam) * np.count_nonzero(above))
        return LowRank(own, inverse[None], np.full(1, -0.5 * kappa / self.lam))

    def in_shares(self, kernels: int) -> Polyhedral:
        """psi is polyhedral in s = h(theta), as R(rho) = min_s 1/2 sum rho^2 ((1-lam)/s + lam) + psi."""
        if self.form == "tikhonov":
            return Polyhedral(np.full(kernels, 0.5 * (1.0 - self.lam)), lam=self.lam)
        return Polyhedral(np.zeros(kernels), normal=np.ones(kernels), lam=self.lam)

    def smoothed(self, epsilon: float) -> ElasticNet:
        """`ElasticNet(epsilon)` where lam is less: R* is as steep as 1/lam."""
        return self if self.lam >= epsilon else ElasticNet(epsilon, self.form)

    def in_unit(self, norm: float) -> tuple[float, Regularizer] | None:
        """In Tikhonov form R(norm rho) = (1-lam) norm S + lam norm^2/2 sum rho^2, a multiple of another elastic net."""
        if self.form == "ivanov" or not isinstance(self, ElasticNet):  # false of subclasses that differ (`Stated`)
            return super().in_unit(norm)
        s, lam = net_in_unit(self.lam, norm)
        return s, ElasticNet(lam)
