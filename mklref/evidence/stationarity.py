"""The first-order conditions of (14): what stands in the place of a duality gap, which a non-convex problem lacks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from mklref._typing import Array
from mklref._validate import checked_number
from mklref.evidence.likelihood import MarginalLikelihood
from mklref.evidence.newton import residuals
from mklref.evidence.problem import EvidenceProblem
from mklref.exceptions import InvalidParameter

_WEAK = 1e-6
"""A derivative up to this share of z_m does not hold a weight at zero."""


@dataclass(frozen=True)
class Stationarity:
    """How well weights satisfy the first-order conditions of (14): no bound on the distance to the minimum.

        theta_m > 0   needs   a_m = z_m,         theta_m = 0   needs   a_m <= z_m
        residual_m = | min( z_m (theta_m - lower_m),  1/2 (1 - a_m/z_m) ) |

    with a_m = alpha'K_m alpha and z_m = tr(Kbar^{-1} K_m). Both terms are free of the scale of the kernels: the first
    is the effective number of parameters of the kernel, the second the gradient as a share of z_m. A learned noise
    variance counts as the weight of the identity.
    """

    gradient: Array
    """1/2 (z - a) in the weights, and in the noise variance if it is learned."""
    residuals: Array
    """One for each of them."""
    curvature: float
    """The smallest eigenvalue of the Hessian in the variables that no derivative holds at a bound, in units of z_m.

    inf if there are none. Below zero the point is a saddle or a maximum, unless the eigenvector leads out at a bound.
    """

    @property
    def residual(self) -> float:
        """The largest of the residuals."""
        return float(self.residuals.max())

    def is_stationary(self, tol: float = 1e-6) -> bool:
        """Whether every residual is at most `tol`.

        Raises
        ------
        InvalidParameter
            If tol is negative or not a number.
        """
        allowed = checked_number("tol", tol, "[0, inf]", lambda t: t >= 0.0, "a residual of stationarity.")
        return self.residual <= allowed

    def __str__(self) -> str:
        return f"residual {self.residual:.1e}, smallest curvature {self.curvature:.2g}"


def stationarity(problem: EvidenceProblem, weights: Any, noise_variance: float | None = None) -> Stationarity:
    """Judge anybody's weights by the first-order conditions of (14).

    Parameters
    ----------
    problem : EvidenceProblem
    weights : array (M,)
    noise_variance : float, optional
        By default that of the problem.

    Returns
    -------
    Stationarity

    Raises
    ------
    InvalidType, InvalidParameter
        As `MarginalLikelihood`; or a noise variance below the floor.
    """
    point = MarginalLikelihood(problem, weights, noise_variance)
    if problem.noise_floor is not None and point.noise_variance < problem.noise_floor:
        raise InvalidParameter(
            f"noise_variance = {point.noise_variance:g} is below noise_floor = {problem.noise_floor:g}."
        )
    return judge(point)


def judge(point: MarginalLikelihood) -> Stationarity:
    """The same at an evaluated point."""
    lower = point.problem.lower
    slopes = point.gradient / point.units
    held = (slopes > _WEAK) & (slopes >= point.units * (point.x - lower))
    inside = np.flatnonzero(~held & (point.traces > 0.0))
    units = point.units[inside]
    curvature = np.inf
    if len(inside):
        curvature = float(np.linalg.eigvalsh(point.hessian(inside, units))[0])
    return Stationarity(point.gradient, residuals(point, lower), curvature)
