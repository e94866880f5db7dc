"""The marginal likelihood (14) at one point, with its derivatives, and its first-order conditions.

With Kbar = s I + sum_m theta_m K_m = L L', alpha = Kbar^{-1} y, and the identity as a kernel K_0 of weight s,

    phi                    = sum_i log L_ii + 1/2 |L^{-1} y|^2
    z_m                    = tr(Kbar^{-1} K_m)
    a_m                    = alpha'K_m alpha                      = ||f_m||^2 / theta_m^2
    dphi/dtheta_m          = 1/2 (z_m - a_m)
    d2phi/dtheta_m dtheta_l = alpha'K_m Kbar^{-1} K_l alpha - 1/2 tr(Kbar^{-1} K_m Kbar^{-1} K_l)

a_m is one pass over the kernels, z_m one with n^3 operations before it, the Hessian 2 n^3 operations for each kernel.

The first-order conditions stand in the place of a duality gap, which a non-convex problem lacks.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg
from scipy.linalg.lapack import dpotri, dsygst

from mklref._threads import as_in_solvers, blas_threads, cached_property
from mklref._typing import Array
from mklref._validate import checked_number
from mklref.evidence.newton import residual, residuals
from mklref.evidence.problem import EvidenceProblem, checked_problem, checked_variance, cholesky
from mklref.evidence.whitened import OutOfTime, Whitened, definite, whitened
from mklref.exceptions import InvalidParameter
from mklref.kernels.validation import mirrored

_UNIT = 0.5 * float(np.finfo(float).eps)
_WEAK = 1e-6
"""A derivative up to this share of z_m does not hold a weight at zero."""
_DETERMINED = 1.0
"""Sensitivity up to which the kernels, and not their last bits, determine the weights."""
_FIRST_ORDER = 0.1
"""Relative error of Kbar^{-1} up to which errors of the derivatives are estimated to first order."""
_ROUGH = 1e-9
"""Rounding of residuals that is accepted; more is avoided by other coordinates, unless it is a small share of them."""


class MarginalLikelihood:
    """phi of (14) at weights theta and noise variance s, by one Cholesky factorisation.

    Where float64 has none of Kbar as it is given, in coordinates in which the kernels determine one, if there are any.

    Parameters
    ----------
    problem : EvidenceProblem
    weights : array (M,)
        theta >= 0.
    noise_variance : float, optional
        s; by default that of the problem.

    Attributes
    ----------
    value : float
        phi, the negative log marginal likelihood without n/2 log(2 pi).
    problem : EvidenceProblem
        The given one, or the same model in other coordinates.

    Raises
    ------
    InvalidType, InvalidParameter
        Not an `EvidenceProblem`; weights that are negative, not finite or of the wrong shape; a noise variance
        outside (0, inf), or so far below the weights that the entries of the kernels leave Kbar no Cholesky factor.

    Notes
    -----
    The derivatives are in the variables of the problem: the weights, then the noise variance if it is learned.
    """

    def __init__(self, problem: EvidenceProblem, weights: Any, noise_variance: float | None = None) -> None:
        checked_problem(problem)
        theta = problem.checked_weights(weights)
        given = noise_variance is not None
        noise = checked_variance("noise_variance", noise_variance) if given else problem.noise_variance
        if not (self._evaluate(problem, theta, noise) or self._evaluate_elsewhere()):
            raise InvalidParameter(
                f"noise_variance = {noise:g} is lost in float64 beside weights up to {theta.max():g}, or too small for "
                f"targets up to {np.abs(problem.y).max():g}: the covariance is singular, or (14) overflows. Give "
                "smaller weights or a larger noise variance, or scale kernels and targets to values around 1."
            )

    @classmethod
    def at(cls, problem: EvidenceProblem, x: Array) -> MarginalLikelihood | None:
        """phi at variables x that need no check, or None where Kbar is singular or not finite in float64."""
        return cls._at(problem, *problem.split(x))

    @classmethod
    def _at(cls, problem: EvidenceProblem, weights: Array, noise_variance: float) -> MarginalLikelihood | None:
        point = cls.__new__(cls)
        return point if point._evaluate(problem, weights, noise_variance) else None

    def _evaluate(self, problem: EvidenceProblem, weights: Array, noise_variance: float) -> bool:
        """Whether phi and its gradient are finite in float64."""
        self.problem, self.weights, self.noise_variance = problem, weights, noise_variance
        self.lower = problem.lower
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"), blas_threads(problem.n_samples):
            factor = cholesky(problem.covariance(weights, noise_variance))
            if factor is None:
                return False
            self._factor = factor
            half = self._half_solved(problem.y)
            self._alpha: Array = scipy.linalg.solve_triangular(factor, half, lower=True, trans="T", check_finite=False)
            self.log_determinant = 2.0 * float(np.sum(np.log(np.diagonal(factor)) + problem.log_volume))
            self.fit = 0.5 * float(half @ half)
            self.value = 0.5 * self.log_determinant + self.fit
            return bool(np.isfinite(self.value) and np.isfinite(self.gradient).all())

    @np.errstate(all="ignore")
    @as_in_solvers
    def _evaluate_elsewhere(self) -> bool:
        """The same in coordinates in which Kbar has a Cholesky factor."""
        here = self.weights, self.noise_variance
        coordinates = definite(self.problem, *here)
        return coordinates is not None and self._evaluate(coordinates, *here)

    @property
    def given(self) -> EvidenceProblem:
        """The problem in the coordinates of its kernels."""
        return self.problem.given if isinstance(self.problem, Whitened) else self.problem

    @cached_property
    def alpha(self) -> Array:
        """Kbar^{-1} y, (n,): the posterior mean is sum_m theta_m k_m(x, X) alpha."""
        return self.problem.Z.T @ self._alpha if isinstance(self.problem, Whitened) else self._alpha

    @cached_property
    def factor(self) -> Array:
        """L, (n, n), lower triangular."""
        if isinstance(self.problem, Whitened):
            return np.asarray(scipy.linalg.solve_triangular(self.problem.Z, self._factor, lower=True))
        return self._factor

    @np.errstate(all="ignore")  # what is not finite is no point
    @as_in_solvers
    def whitened(self, late: Callable[[], bool] = lambda: False) -> MarginalLikelihood | None:
        """The same point where rounding moves its derivatives by next to nothing.

        None if Kbar is singular there, or as soon as `late` says that no time is left.
        """
        here = self.weights, self.noise_variance
        try:
            return self._at(whitened(self.problem, self._factor, *here, late), *here)
        except OutOfTime:
            return None

    @cached_property
    @as_in_solvers
    def condition(self) -> float:
        """d'|Kbar^{-1}|d / n with d_i = Kbar_ii^{1/2}, which is 1 for a diagonal Kbar."""
        return float(self._lengths @ np.abs(self._inverse) @ self._lengths) / self.problem.n_samples

    @cached_property
    def _lengths(self) -> Array:
        """d."""
        return self.problem.lengths(self.weights, self.noise_variance)

    @cached_property
    def rounding(self) -> float:
        """A bound of the rounding error of phi, to first order; inf if it may have made Kbar singular.

        The computed L is that of Kbar + E, and h = L^{-1} y has an error of the same kind (Higham, Theorems 8.5, 10.3):

            |E_ij| <= e d_i d_j,   d_i = Kbar_ii^{1/2},   e = (n + M + 3) u
            |dphi| <= 1/2 <|Kbar^{-1}|, |E|> + 1/2 |alpha|'|E||alpha| + e |h| d'|alpha|     and e of each sum
        """
        e = (self.problem.n_samples + self.problem.n_kernels + 3) * _UNIT
        moved = self.problem.n_samples * self.condition
        if not e * moved < 1.0:
            return np.inf
        reach, length = float(self._lengths @ np.abs(self._alpha)), float(np.sqrt(2.0 * self.fit))
        logarithms = np.abs(np.log(np.diagonal(self._factor))) + np.abs(self.problem.log_volume)
        sums = float(logarithms.sum()) + self.fit
        return e * (0.5 * moved + 0.5 * reach**2 + length * reach + sums)

    @cached_property
    @np.errstate(over="ignore", under="ignore", invalid="ignore")
    @as_in_solvers
    def residual_rounding(self) -> float:
        """How far rounding may have moved a residual of `Stationarity`: an estimate, about four standard deviations.

        To first order; inf where Kbar^{-1} has no digits left. With X = Kbar^{-1}, D = diag(d) and independent errors
        of u d_i d_j in Kbar_ij, and of u in each term of a sum,

            |dz_m|^2 = u^2 (|D X K_m X D|_F^2 + |X * K_m|_F^2),                |D X K_m X D|_F <= <K_m, X D^2 X>
            |da_m|^2 = 4 u^2 (|D X K_m alpha|^2 |D alpha|^2 + |alpha alpha' * K_m|_F^2)
            d(a_m/z_m) = da_m/z_m - a_m/z_m dz_m/z_m
        """
        X, d, units = self._inverse, self._lengths, self.units
        spread, alpha = (X * d**2) @ X, self._alpha / np.sqrt(units)[:, None]
        errors = np.zeros((4, len(units)))
        for m, unit in enumerate(units):
            K = self._matrix(m)
            errors[:2, m] = float(np.vdot(spread, K)) / unit, np.linalg.norm(X * K / unit)
            errors[2, m] = np.linalg.norm(d * (X @ (K @ alpha[m]))) * np.linalg.norm(d * alpha[m])
            errors[3, m] = np.linalg.norm(alpha[m][:, None] * K * alpha[m])
        if not 2.0 * _UNIT * float(np.linalg.norm(d[:, None] * X * d)) < _FIRST_ORDER:
            return np.inf
        slopes, room = self.gradient / units, units * (self.x - self.lower)
        errors[2:] *= 2.0
        stretched = 4.0 * _UNIT * np.linalg.norm(errors[:2], axis=0)
        errors[:2] *= np.abs(self.squares) / units
        moved = 2.0 * _UNIT * np.linalg.norm(errors, axis=0)
        both = [np.minimum(room * (1.0 + sign * stretched), slopes + sign * moved) for sign in (-1.0, 1.0)]
        ends = np.abs(both).max(axis=0)
        return float(np.nan_to_num(ends - np.abs(np.minimum(room, slopes)), nan=np.inf).max())

    @property
    def sensitivity(self) -> float:
        """`Stationarity.sensitivity`: the same where Kbar is evaluated as it is given; inf if it is singular there."""
        same = self.given is self.problem
        given = self if same else self._at(self.given, self.weights, self.noise_variance)
        return np.inf if given is None else given.residual_rounding

    @property
    def x(self) -> Array:
        """The variables of the problem at this point."""
        return self.problem.join(self.weights, self.noise_variance)

    def moved(self, x: Array) -> MarginalLikelihood | None:
        """The same at other variables, or None where Kbar is singular or not finite."""
        return self.at(self.problem, x)

    @property
    def units(self) -> Array:
        """z, or 1 for a zero kernel: in these units the weights are effective numbers of parameters.

        Eigenvalues below 0, which rounding made, may let z be negative: then its modulus, so that units have no scale.
        """
        return np.where(self.traces != 0.0, np.abs(self.traces), 1.0)

    @cached_property
    def traces(self) -> Array:
        """z, one entry for each variable. theta_m z_m is the effective number of parameters of kernel m."""
        return np.array([float(np.vdot(self._inverse, self._matrix(m))) for m in range(len(self.lower))])

    @cached_property
    def inverse(self) -> Array:
        """Kbar^{-1}, (n, n)."""
        X = self._inverse
        return self.problem.Z.T @ X @ self.problem.Z if isinstance(self.problem, Whitened) else X

    @cached_property
    def _inverse(self) -> Array:
        """The same in the coordinates of `problem`."""
        lower_triangle = dpotri(self._factor, lower=1)[0]
        return np.asarray(np.tril(lower_triangle) + np.tril(lower_triangle, -1).T)

    @cached_property
    def squares(self) -> Array:
        """a, one entry for each variable."""
        return np.asarray(self._images @ self._alpha)

    @cached_property
    def _images(self) -> Array:
        """K_m alpha as rows, with the kernel of a learned noise."""
        images, of = np.asarray(self.problem.kernels.apply(self._alpha)), self.problem
        return np.vstack([images, of.noise_kernel @ self._alpha]) if of.learn_noise else images

    @property
    def gradient(self) -> Array:
        """1/2 (z - a)."""
        return 0.5 * (self.traces - self.squares)

    def hessian(self, index: Any = None, units: Any = 1.0) -> Array:
        """The second derivatives in units x, of the variables `index` (k,) only if that is given."""
        index = np.arange(len(self.squares)) if index is None else index
        return np.asarray(self.fit_hessian(index, units) - 0.5 * self.trace_products(index, units))

    @as_in_solvers
    def fit_hessian(self, index: Any, units: Any = 1.0) -> Array:
        """alpha'K_m Kbar^{-1} K_l alpha: the Hessian of 1/2 y'Kbar^{-1} y in units x, variables `index`, (k, k)."""
        whitened = self._half_solved(self._images[index].T) / units
        return np.asarray(whitened.T @ whitened)

    @as_in_solvers
    def trace_products(self, index: Any, units: Any = 1.0) -> Array:
        """tr(Kbar^{-1} K_m Kbar^{-1} K_l): minus the Hessian of log det Kbar in units x, variables `index`, (k, k)."""
        n, factor = self.problem.n_samples, np.asfortranarray(self._factor)
        whitened = np.empty((len(index), n, n))
        for out, m, unit in zip(whitened, index, np.broadcast_to(units, len(index)), strict=True):
            np.divide(dsygst(self._matrix(m).T, factor, lower=1)[0].T, unit, out=out)  # above its diagonal
            mirrored(out)
        flat = whitened.reshape(len(index), n * n)
        return np.asarray(flat @ flat.T)

    @cached_property
    @as_in_solvers
    def lowest_curvature(self) -> tuple[float, Array]:
        """`Stationarity.curvature` and its eigenvector (zeros if there is none), one entry for each variable."""
        slopes = self.gradient / self.units
        held = (slopes > _WEAK) & (slopes >= self.units * (self.x - self.lower))
        inside = np.flatnonzero(~held & (self.traces != 0.0))
        lowest, direction = np.inf, np.zeros(len(held))
        if len(inside):
            values, vectors = np.linalg.eigh(self.hessian(inside, self.units[inside]))
            lowest, direction[inside] = float(values[0]), vectors[:, 0]
        return lowest, direction

    def _matrix(self, m: int) -> Array:
        """The kernel of variable m, of which the noise is the last."""
        of = self.problem
        return np.asarray(of.kernels.matrices[m] if m < of.n_kernels else of.noise_kernel)

    def _half_solved(self, columns: Array) -> Array:
        """L^{-1} times columns."""
        return np.asarray(scipy.linalg.solve_triangular(self._factor, columns, lower=True, check_finite=False))


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
    rounding: float
    """An estimate of how far rounding may have moved a residual."""
    sensitivity: float
    """An estimate of how far errors of half an ulp of float64 in the entries of Kbar, as kernels have, move a residual.

    A tenth of it is usual. Beyond about 1 kernels that differ by the rounding of their entries have other weights.
    """

    @property
    def residual(self) -> float:
        """The largest of the residuals."""
        return float(self.residuals.max())

    def is_stationary(self, tol: float = 1e-6) -> bool:
        """Whether every residual is at most `tol`, and rounding moves none by more than that.

        Raises
        ------
        InvalidParameter
            If tol is negative or not a number.
        """
        allowed = checked_number("tol", tol, "[0, inf]", "a residual of stationarity.")
        return self.residual <= allowed and self.rounding <= allowed

    def __str__(self) -> str:
        decided = "" if self.sensitivity <= _DETERMINED else ", decided by the last bits of the kernels"
        return f"residual {self.residual:.1e}, smallest curvature {self.curvature:.2g}{decided}"


def stationarity(problem: EvidenceProblem, weights: Any, noise_variance: float | None = None) -> Stationarity:
    """Judge anybody's weights by the first-order conditions of (14).

    Beside little noise it takes about a dozen of Newton's steps: to coordinates in which float64 holds derivatives.

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
    close = point.residual_rounding <= max(_ROUGH, 1e-3 * residual(point))
    return judge(point if close else point.whitened() or point)


def judge(point: MarginalLikelihood) -> Stationarity:
    """The same at an evaluated point."""
    curvature = point.lowest_curvature[0]
    return Stationarity(point.gradient, residuals(point), curvature, point.residual_rounding, point.sensitivity)
