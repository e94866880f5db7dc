"""The bounds (15) and (16) of the two terms of (14), from which both iterations of the paper come.

    1/2 y'Kbar^{-1} y  <=  1/(2s) |y - sum_m f_m|^2 + 1/2 sum_m ||f_m||^2 / theta_m                           (15)
    log det Kbar       <=  z'theta - psi*(z),    psi(d) = log det Kbar(d),  psi*(z) = inf_{d >= 0} z'd - psi(d)   (16)

(15) is tight at the posterior means f_m = theta_m K_m Kbar^{-1} y, (16) at the slopes z_m = tr(Kbar^{-1} K_m): psi is
concave, and the right-hand side is its tangent. The noise variance s is that of the problem.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mklref._typing import Array
from mklref._validate import checked_array
from mklref.evidence.likelihood import MarginalLikelihood
from mklref.evidence.newton import minimise
from mklref.evidence.problem import EvidenceProblem, checked_problem

_TOLERANCE = 1e-12
_MOST_STEPS = 200


@np.errstate(over="ignore", under="ignore", invalid="ignore")
def quadratic_bound(problem: EvidenceProblem, weights: Any, coefficients: Any) -> float:
    """The right-hand side of (15) for the functions f_m = K_m c_m.

    Parameters
    ----------
    problem : EvidenceProblem
    weights : array (M,)
        theta >= 0.
    coefficients : array (M, n)
        c_m, so that ||f_m||^2 = c_m'K_m c_m. No inverse of K_m is needed, nor need there be one.

    Returns
    -------
    float
        inf if a function of weight zero is not zero, or where squares leave float64.

    Raises
    ------
    InvalidParameter
        Weights or coefficients of the wrong shape, not finite, or weights that are negative.
    InvalidType
        Not an `EvidenceProblem`, or data without a faithful conversion to float64.
    """
    theta = checked_problem(problem).checked_weights(weights)
    shape = problem.n_kernels, problem.n_samples
    c = checked_array(coefficients, "coefficients", shape, ": one row for each kernel")
    functions = np.stack([matrix @ row for matrix, row in zip(problem.kernels.matrices, c, strict=True)])
    norms = np.maximum(np.einsum("mi,mi->m", c, functions), 0.0)
    if np.any(norms[theta == 0.0] > 0.0):
        return float("inf")
    residual = problem.y - functions.sum(axis=0)
    used = theta > 0.0
    fit = 0.5 * float(residual @ residual) / problem.noise_variance
    value = fit + 0.5 * float(np.sum(norms[used] / theta[used]))
    return float("inf") if np.isnan(value) else value


def log_determinant_bound(problem: EvidenceProblem, weights: Any, slopes: Any) -> float:
    """The right-hand side of (16), z'theta - psi*(z): a tangent of log det Kbar, or a line above it.

    Parameters
    ----------
    problem : EvidenceProblem
    weights : array (M,)
        theta >= 0.
    slopes : array (M,)
        z.

    Returns
    -------
    float
        inf where psi*(z) = -inf, or where z'theta leaves float64.

    Raises
    ------
    InvalidParameter, InvalidType
        As `log_determinant_conjugate`.
    """
    theta = checked_problem(problem).checked_weights(weights)
    conjugate, z = log_determinant_conjugate(problem, slopes), np.asarray(slopes, dtype=np.float64)
    with np.errstate(over="ignore"):
        return float(z @ theta) - conjugate


def log_determinant_conjugate(problem: EvidenceProblem, slopes: Any) -> float:
    """psi*(z) = inf over d >= 0 of z'd - log det(s I + sum_m d_m K_m), by Newton's method: a convex problem.

    From below, but for the rounding of log det Kbar, which `MarginalLikelihood.rounding` bounds: the minimum has
    z'd <= n, and what it is minimum of lies above its tangent where the method ends.

    Parameters
    ----------
    problem : EvidenceProblem
    slopes : array (M,)
        z. psi*(z) is -inf if z_m <= 0 for a kernel that is not zero, or z_m < 0 for one that is.

    Returns
    -------
    float

    Raises
    ------
    InvalidParameter
        Slopes of the wrong shape or not finite, or so small beside 1/s that Kbar is singular in float64.
    InvalidType
        Not an `EvidenceProblem`, or data without a faithful conversion to float64.
    """
    checked_problem(problem)
    z = checked_array(slopes, "slopes", (problem.n_kernels,), ", one for each kernel")
    present = problem.kernels.traces() > 0.0
    if np.any(z[present] <= 0.0) or np.any(z < 0.0):
        return -np.inf
    start = np.zeros(problem.n_kernels)
    start[present] = problem.n_samples / problem.n_kernels / z[present]  # at the minimum z'd <= n
    first = MarginalLikelihood(problem, start)
    found = with_slopes(first, z, log_determinant=True, tol=_TOLERANCE)
    steepest = float((found.gradient[present] / z[present]).min(initial=0.0))
    return found.value - float(found.gradient @ found.x) + problem.n_samples * steepest


def with_slopes(point: MarginalLikelihood, slopes: Array, *, log_determinant: bool, tol: float) -> WithSlopes:
    """The minimum over the weights, at the noise of a point, from which Newton's method starts."""
    return minimise(WithSlopes(point, slopes, log_determinant), tol, _MOST_STEPS)


class WithSlopes:
    """z'theta - log det Kbar, or z'theta + y'Kbar^{-1} y, convex in theta, with its derivatives."""

    def __init__(self, point: MarginalLikelihood, slopes: Array, log_determinant: bool) -> None:
        self.point, self.x, self.slopes, self.log_determinant = point, point.weights, slopes, log_determinant
        self.lower = np.zeros(len(slopes))
        term, fall = (-point.log_determinant, point.traces) if log_determinant else (2.0 * point.fit, point.squares)
        self.value = float(slopes @ point.weights) + term
        self.gradient = slopes - fall[: len(slopes)]
        self.units = np.where(slopes > 0.0, slopes, 1.0)

    def moved(self, weights: Array) -> WithSlopes | None:
        """The same at other weights and this noise, or None where Kbar is singular or not finite."""
        point = self.point.moved(self.point.problem.join(weights, self.point.noise_variance))
        return None if point is None else WithSlopes(point, self.slopes, self.log_determinant)

    @property
    def rounding(self) -> float:
        """That of twice (14), which has the same terms."""
        return 2.0 * self.point.rounding

    def hessian(self, index: Any = None, units: Any = 1.0) -> Array:
        """As `Point`."""
        if self.log_determinant:
            return self.point.trace_products(index, units)
        return 2.0 * self.point.fit_hessian(index, units)
