"""Regularisers that are another one on rescaled kernels: weighted balls, weighted l1, and the half power."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from mklref._names import namings
from mklref._typing import Array
from mklref._validate import check_field, check_length, positive_vector
from mklref.exceptions import InvalidParameter
from mklref.regularizers.base import Regularizer
from mklref.regularizers.lp import Lp
from mklref.regularizers.norms import LowRank, Polyhedral, ball_exponent
from mklref.regularizers.tikhonov import Power

_LEAST = 1e-150
"""The smallest omega: its square and the reciprocal of that are in the range of double precision."""


@dataclass(frozen=True, eq=False)
class Rescaled(Regularizer):
    """A regulariser S on rescaled kernels, with root (M,) or 1, factor > 0, and theta_S the weights of S.

    R(rho)     = factor S(rho/root)
    R*(g)      = factor S*(root g / factor)
    psi(theta) = factor psi_S(factor theta / root^2)
    theta      = root^2/factor theta_S(rho/root)               from the norms
    theta      = root^2/factor theta_S(root g / factor)        from the dual
    """

    base: Regularizer = field(init=False, repr=False)
    root: Any = field(init=False, repr=False)
    factor: float = field(init=False, repr=False)

    @staticmethod
    def of(base: Regularizer, root: Any, factor: float = 1.0) -> Rescaled:
        """The factor times the base on the kernels root_m^2 K_m."""
        made = Rescaled()
        made._rescale(base, root, factor)
        return made

    def _rescale(self, base: Regularizer, root: Any, factor: float) -> None:
        object.__setattr__(self, "base", base)
        object.__setattr__(self, "root", root)
        object.__setattr__(self, "factor", factor)

    def smoothed(self, epsilon: float) -> Rescaled:
        base = self.base.smoothed(epsilon)
        return self if base is self.base else self._of(base)

    def sharpened(self) -> Rescaled | None:
        base = self.base.sharpened()
        return None if base is None else self._of(base)

    def _of(self, base: Regularizer) -> Rescaled:
        other = copy.copy(self)
        object.__setattr__(other, "base", base)
        return other

    def polyhedral(self, kernels: int) -> Polyhedral | None:
        """Factor psi_S(factor theta / root^2), where it is linear, or all of one root."""
        base, root = self.base.polyhedral(kernels), np.broadcast_to(self.root, kernels)
        if base is None or (base.mu and np.ptp(root)):
            return None
        unit = self.factor / root / root
        normal = None if base.normal is None else unit * base.normal
        mu = self.factor * base.mu * float(unit[0]) * float(unit[0])  # not a power, which raises OverflowError
        return Polyhedral(self.factor * unit * base.cost, mu, normal)

    @property
    def degree(self) -> float | None:
        return self.base.degree

    @property
    def supercoercive(self) -> bool:
        return self.base.supercoercive

    def value(self, rho: Array) -> float:
        return self.factor * self.base.value(rho / self.root)

    def conjugate(self, g: Array) -> float:
        return self.factor * self.base.conjugate(self._inner(g))

    def weight_penalty(self, theta: Array) -> float:
        return self.factor * self.base.weight_penalty(self.factor * theta / self.root / self.root)

    def weights_from_norms(self, rho: Array) -> Array:
        return self._outer(self.base.weights_from_norms(rho / self.root))

    def weights_from_dual(self, g: Array) -> Array:
        return self._outer(self.base.weights_from_dual(self._inner(g)))

    def low_rank_jacobian(self, g: Array) -> LowRank | None:
        """root_m^2 T_S root_l^2 / factor^3."""
        inner = self.base.low_rank_jacobian(self._inner(g))
        if inner is None:
            return None
        diagonal, rows, scale = inner
        return LowRank(self._outer(self._outer(diagonal)) / self.factor, self._outer(rows), scale / self.factor)

    def weights_jacobian(self, g: Array) -> Array:
        return self._outer(self._outer(self.base.weights_jacobian(self._inner(g))).T) / self.factor

    def dual_scale(self, g: Array) -> float:
        return self.base.dual_scale(self._inner(g))

    def _inner(self, g: Array) -> Array:
        return np.asarray(self.root * g / self.factor)

    def _outer(self, theta: Array) -> Array:
        return np.asarray(self.root * self.root * theta / self.factor)


@dataclass(frozen=True)
class HalfPower(Rescaled):
    """Half the sum of powers of the block norms, q in [1, 2] (Kloft (28), and (14) for q = 1).

    R(rho)     = 1/2 sum rho^q = q/2 times `Power(p)`,   p = q/(2-q), q* = q/(q-1)
    R*(g)      = 1/q* (q/2)^{1-q*} sum g^{q*}            q = 1: 0 if g <= 1/2, else +inf
    psi(theta) = (q/2)^{p+1}/(2p) sum theta^p
    theta      = (2/q) rho^{2-q}                         from the norms
    theta      = (2/q) (2 g/q)^{2/(p-1)}                 from the dual, q > 1

    It has the solutions of `Lp(p)` at the cost (q/2) (sum rho^q)^{-1/p} C (Kloft Prop. 5): the proof misses the
    factor q/2 (erratum L10). For q = 1 and the squared loss this is the group lasso (14), which is its form with
    weights, 1/2 (sum rho)^2, at 2 C sum rho, not at the same C (erratum L4).

    Parameters
    ----------
    q : float
        In [1, 2].
    """

    q: float

    def __post_init__(self) -> None:
        check_field(self, "q", "[1, 2]", "1 is the group lasso, 2 the plain sum; for larger q use BlockNorm(q).")
        self._rescale(Power(ball_exponent(self.q)), 1.0, 0.5 * self.q)


@dataclass(frozen=True, eq=False)
class WeightedLp(Rescaled):
    """The weighted lp ball, theta >= 0 and ||theta/scale||_p <= 1: `Lp(p)` on the kernels scale_m K_m.

    With q = 2p/(p+1) and p* = p/(p-1):

    R(rho)     = 1/2 || rho/sqrt(scale) ||_q^2
    R*(g)      = 1/2 || (scale_m g_m^2)_m ||_{p*}
    psi(theta) = 0 if ||theta/scale||_p <= 1, else +inf
    theta      = scale times the weights of Lp at rho/sqrt(scale), or at sqrt(scale) g

    Parameters
    ----------
    p : float
        In [1, inf].
    scale : array_like (M,)
        Positive and finite: the largest weight that each kernel may have.
    """

    p: float
    scale: Array

    def __post_init__(self) -> None:
        ball = Lp(self.p)
        remedy = "leave out a kernel that should have no weight."
        object.__setattr__(self, "p", ball.p)
        object.__setattr__(self, "kernel_names", namings(self.scale))
        object.__setattr__(self, "scale", positive_vector("scale", self.scale, remedy))
        self._rescale(ball, np.sqrt(self.scale), 1.0)

    def check(self, kernels: int) -> None:
        check_length(self.name, "scales", len(self.scale), kernels)


@dataclass(frozen=True, eq=False)
class WeightedL1(Rescaled):
    """A weighted sum of the block norms (Tomioka section 4, with omega_m = sqrt(z_m)).

    R(rho)     = sum omega_m rho_m
    R*(g)      = 0 if g <= omega, else +inf
    psi(theta) = 1/2 sum omega_m^2 theta_m
    theta      = rho / omega                                         from the norms
    theta      = 1/omega^2 where g = omega, 0 below                  from the dual: one point of many

    It is the convex step of the first empirical Bayes iteration, whose weights d_m = ||f_m||/sqrt(z_m) the paper
    leaves unwritten (erratum T8).

    Parameters
    ----------
    omega : array_like (M,)
        Positive, within 1e-150 and 1e150.
    """

    omega: Array

    def __post_init__(self) -> None:
        remedy = "a kernel without a penalty has no largest weight; give it a small omega."
        object.__setattr__(self, "kernel_names", namings(self.omega))
        object.__setattr__(self, "omega", positive_vector("omega", self.omega, remedy))
        if not (self.omega.min() >= _LEAST and self.omega.max() <= 1.0 / _LEAST):
            raise InvalidParameter(
                f"omega = {self.omega} must be within {_LEAST:g} and {1.0 / _LEAST:g}, or weights of the order "
                "1/omega^2 leave the range of double precision; give the kernels another unit (kernels.normalize)."
            )
        self._rescale(Power(1), 1.0 / self.omega, 1.0)

    def check(self, kernels: int) -> None:
        check_length(self.name, "omega", len(self.omega), kernels)
