"""Ivanov regularisation of the weights by an lp ball, weights that do not move, and squared block norms for every q.

Above q = 2 block norms spread the kernels evenly, and have no ball of weights.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mklref._names import namings
from mklref._typing import Array
from mklref._validate import as_float_array, check_field, check_length, read_only
from mklref.exceptions import InvalidParameter, NotApplicable
from mklref.regularizers.base import Regularizer
from mklref.regularizers.norms import (
    FEASIBILITY,
    ByExponent,
    LowRank,
    Polyhedral,
    ball_exponent,
    block_exponent,
    conjugate_exponent,
    norm_gradient,
    p_norm,
    quotient,
)

_AS_GOOD_AS_ONE = 1.0 + 1e-7
"""Up to this p the lp ball is taken for the simplex: the values differ by a relative (p - 1) log M."""

NEGLIGIBLE = 1e-6
"""Share of the largest dual norm below which another one counts as 0 where weights are read from a conic solution."""


@dataclass(frozen=True)
class Lp(ByExponent, Regularizer):
    """The lp ball, theta >= 0 and ||theta||_p <= 1, for p in [1, inf] (Kloft (P), (17), (27); SimpleMKL (2)).

    With q = 2p/(p+1) and p* = p/(p-1):

    R(rho)     = 1/2 ||rho||_q^2
    R*(g)      = 1/2 ||(g_m^2)_m||_{p*}
    psi(theta) = 0 if ||theta||_p <= 1, else +inf
    theta      = rho^{2/(p+1)} / (sum rho^q)^{1/p}                      from the norms
    theta      = g^{2/(p-1)} / (sum g^{2p/(p-1)})^{1/p}                 from the dual, p > 1

    p = 1 is sparse MKL: R* is half the largest g_m^2, and every weight vector of the simplex supported on the
    maximal kernels attains it; `weights_from_dual` returns the uniform one. p = inf is the unweighted sum.

    The weights from the norms are Kloft (17); the factor printed in its proof, zeta = (sum rho^q)^{1/p}, has to
    be zeta = (sum rho^q)^{-1/p} (erratum L7). The variational derivations of Tomioka need one sum less in the
    second line for p = 1 (T1) and the exponent (1+p)/p in the first line for p > 1 (T2).

    Parameters
    ----------
    p : float
        In [1, inf].
    """

    p: float
    degree = 2.0

    def __post_init__(self) -> None:
        remedy = (
            "1 is sparse, inf the plain sum; for p < 1 the weights form no convex set, "
            "and p = 1 is the sparsest convex choice."
        )
        check_field(self, "p", "[1, inf]", remedy)

    @property
    def block_exponent(self) -> float:
        """q = 2p/(p+1), the exponent of the block norm."""
        return block_exponent(self.p)

    def value(self, rho: Array) -> float:
        norm = p_norm(rho, self.block_exponent)
        return 0.5 * norm * norm

    def conjugate(self, g: Array) -> float:
        """1/2 ||g^2||_{p*}, taken as 1/2 ||g||_{2p*}^2."""
        norm = p_norm(g, 2.0 * conjugate_exponent(self.p))
        return 0.5 * norm * norm

    def weight_penalty(self, theta: Array) -> float:
        inside = bool((theta >= 0.0).all()) and p_norm(theta, self.p) <= 1.0 + FEASIBILITY
        return 0.0 if inside else np.inf

    def weights_from_norms(self, rho: Array) -> Array:
        """rho^{2/(p+1)} / (sum rho^q)^{1/p}; uniform if every norm is 0."""
        top = float(rho.max())
        raw = np.ones(len(rho)) if top == 0.0 else (rho / top) ** (2.0 / (self.p + 1.0))
        return raw / p_norm(raw, self.p)

    def weights_from_dual(self, g: Array) -> Array:
        """The gradient of ||g^2||_{p*}: g^{2/(p-1)} on the sphere of lp; at p = 1 uniform over the maximal kernels."""
        top = float(g.max())
        return norm_gradient((g / top) ** 2 if top > 0.0 else g, conjugate_exponent(self.p))

    def low_rank_jacobian(self, g: Array) -> LowRank | None:
        """(diag(theta/q) - theta theta'/||q||_{p*}) / (p - 1), the Hessian of ||q||_{p*}, for p > 1; 0 at g = 0."""
        if self.p == 1.0:
            return None
        top, theta = float(g.max()), self.weights_from_dual(g)
        if top == 0.0 or np.isinf(self.p):
            return LowRank(np.zeros_like(g), theta[None], np.zeros(1))
        ratio = (g / top) ** 2
        own, scale = quotient(theta, ratio), np.full(1, -1.0 / float(theta @ ratio))
        return LowRank(own / (self.p - 1.0) / top / top, theta[None], scale / (self.p - 1.0) / top / top)

    def polyhedral(self, kernels: int) -> Polyhedral | None:
        """The simplex, which has the same R as the ball, for p = 1."""
        return Polyhedral.simplex(kernels) if self.p <= _AS_GOOD_AS_ONE else None


@dataclass(frozen=True, eq=False)
class Fixed(Regularizer):
    """Weights that do not move: an ordinary kernel machine on sum_m weights_m K_m (SimpleMKL (10), (11)).

    R(rho)     = 1/2 sum rho_m^2 / weights_m          (0/0 = 0: a kernel of weight 0 is absent)
    R*(g)      = 1/2 sum weights_m g_m^2
    psi(theta) = 0 if 0 <= theta <= weights, else +inf
    theta      = weights, from the norms and from the dual

    Parameters
    ----------
    weights : array_like (M,)
        Nonnegative and finite, at least one of them positive.
    """

    weights: Array
    degree = 2.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "kernel_names", namings(self.weights))
        weights = np.array(as_float_array(self.weights, "weights", InvalidParameter), dtype=float)
        if weights.ndim != 1 or not len(weights):
            raise InvalidParameter(f"weights has shape {weights.shape}; give one weight for each kernel, (M,).")
        if not np.all(np.isfinite(weights)) or weights.min() < 0.0 or weights.max() == 0.0:
            raise InvalidParameter(
                f"weights = {weights} must be finite and nonnegative with at least one positive entry."
            )
        object.__setattr__(self, "weights", read_only(weights))

    def check(self, kernels: int) -> None:
        check_length(self.name, "weights", len(self.weights), kernels)

    def value(self, rho: Array) -> float:
        absent = self.weights == 0.0
        if np.any(rho[absent] > 0.0):
            return np.inf
        return 0.5 * float(np.sum(rho[~absent] ** 2 / self.weights[~absent]))

    def conjugate(self, g: Array) -> float:
        return 0.5 * float(self.weights @ g**2)

    def weight_penalty(self, theta: Array) -> float:
        inside = bool(np.all(theta >= 0.0) and np.all(theta <= self.weights * (1.0 + FEASIBILITY)))
        return 0.0 if inside else np.inf

    def weights_from_norms(self, rho: Array) -> Array:
        return self.weights

    def weights_from_dual(self, g: Array) -> Array:
        return self.weights

    def low_rank_jacobian(self, g: Array) -> LowRank:
        return LowRank.diagonally(np.zeros_like(g))


@dataclass(frozen=True)
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

    which is Kloft (30); the problem is a saddle point, not a joint minimisation (errata T3 to T5). The weights are
    rho^{-2/(r-1)} (sum rho^{2r/(r-1)})^{1/r}, where Kloft (31) prints rho^{-2/(r-1)} / (sum rho^{-2r/(r-1)})^{1/r}
    (erratum L11).

    Weights of kernels with rho = 0 or g = 0 are 0/0 and given as 0, as f_m = theta_m K_m beta = 0. At q = inf the
    weights are sum(g)/g_m from the dual; the norms, equal where g > 0, leave them open. There a function f_m with
    g_m = 0 costs nothing up to the largest norm; if it is not 0, only theta_m -> inf attains the optimum.

    Parameters
    ----------
    q : float
        In [1, inf].
    """

    q: float
    degree = 2.0

    def __post_init__(self) -> None:
        remedy = "1 is sparse, 2 the plain sum, inf equal norms; for q < 1 the penalty is not convex."
        check_field(self, "q", "[1, inf]", remedy)

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

    @property
    def reciprocals(self) -> float:
        """r = q/(q-2), for q > 2: in its norm the reciprocals of the weights are bounded."""
        return 1.0 if np.isinf(self.q) else self.q / (self.q - 2.0)

    def value(self, rho: Array) -> float:
        norm = p_norm(rho, self.q)
        return 0.5 * norm * norm

    def conjugate(self, g: Array) -> float:
        norm = p_norm(g, self.dual_exponent)
        return 0.5 * norm * norm

    def weight_penalty(self, theta: Array) -> float:
        """psi of the lp ball; for q > 2 there is none."""
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
        """For q > 2 from g: d log theta is (2-q) d log rho, all rho being equal at q = inf, and (2-q)/(q-1) d log g.

        What a solver leaves of g_m = 0 is noise, which the norm of f_m divided by a negligible g_m is not.
        """
        if self.q <= 2.0:
            return self.weights_from_norms(rho)
        least = np.full(len(g), NEGLIGIBLE * g.max())
        return np.where(g > least, self.weights_from_dual(g), quotient(rho, least))

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

    def sharpened(self) -> BlockNorm | None:
        return BlockNorm(1.0) if self.q <= 2.0 and self.ball.sharpened() else None

    def polyhedral(self, kernels: int) -> Polyhedral | None:
        return self.ball.polyhedral(kernels) if self.q <= 2.0 else None
