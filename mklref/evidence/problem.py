"""The model of empirical Bayes: Gaussian processes f_m with variances theta_m, and Gaussian noise."""

from __future__ import annotations

from typing import Any, ClassVar, Self

import numpy as np

from mklref._names import last_names, require_named, require_one_order
from mklref._typing import Array, FloatArray
from mklref._validate import (
    checked_array,
    checked_flag,
    checked_number,
    checked_positive,
    checked_rng,
    checked_targets,
    read_only,
)
from mklref.exceptions import InvalidParameter, InvalidTarget, InvalidType, NotApplicable
from mklref.kernels.factorisation import factor_in_place
from mklref.kernels.stack import ArrayStack, stack
from mklref.problem import Frozen

_FLOOR = 1e-6
"""Smallest noise variance that is tried when it is learned, as a share of the given one."""
_EPS, _SINGLE = float(np.finfo(float).eps), float(np.finfo(np.float32).eps)
_LARGEST = 1e150
"""Of the targets: y'y has to be finite."""


class EvidenceProblem(Frozen):
    """Kernel weights by maximum marginal likelihood (Tomioka and Suzuki, section 4, without a bias).

        f_m ~ GP(0, theta_m k_m),     y_i ~ N(sum_m f_m(x_i), s)
        y   ~ N(0, Kbar),             Kbar(theta, s) = s I + sum_m theta_m K_m

    Minimise over theta >= 0, and over s >= noise_floor if the noise is learned, the negative logarithm of the
    density of y without its constant n/2 log(2 pi):

        phi(theta, s) = 1/2 log det Kbar + 1/2 y'Kbar^{-1} y                                       (14)

    phi is not convex: the logarithm of the determinant is concave in the weights, the quadratic term convex.

    Parameters
    ----------
    kernels : array (M, n, n), sequence of (n, n) arrays, or ArrayStack
        Symmetric positive semidefinite Gram matrices, float64 or float32; not copied if they are contiguous and all
        eigenvalues are beyond rounding of the entries. Else, as with float32 matrices of low rank, those that are not
        become 0: beside a small noise variance -1e-7 is no variance, and weights of 1e6 would make 1e-7 a kernel.
    y : array (n,)
        Real targets. The model has mean zero: subtract a mean, or add a constant kernel as a bias with a learned
        variance.
    noise_variance : float
        s = sigma_y^2, in (0, inf). If the noise is learned, where to start.
    learn_noise : bool
        Whether s is a variable besides the weights.
    noise_floor : float, optional
        The smallest s that is allowed when it is learned, in (0, noise_variance]; 1e-6 noise_variance by default.
        Without a floor phi is unbounded below as soon as sum_m theta_m K_m of less than full rank can fit y.

    Raises
    ------
    InvalidType
        Data without a faithful conversion to float64, or learn_noise that is not a bool.
    InvalidKernel
        Gram matrices that are not square, finite, symmetric and positive semidefinite.
    InvalidTarget
        y of the wrong length or not finite, or a single sample.
    InvalidParameter
        A noise variance outside (0, inf), or a floor outside (0, noise_variance] or without learn_noise.
    NotApplicable
        A kernel stack that is not in memory.
    """

    kernels: ArrayStack
    y: Array
    noise_variance: float
    learn_noise: bool
    noise_floor: float | None
    _given_floor: Any
    _ARGUMENTS = ("kernels", "y", "noise_variance", "learn_noise", "noise_floor")
    elsewhere = "It is not convex, has no certificate, and is solved by mklref.evidence.solve."

    log_volume: ClassVar[float | Array] = 0.0
    """Summed over the samples, half of log det Kbar minus the same in the coordinates of this problem."""

    def __init__(
        self,
        kernels: Any,
        y: Any,
        noise_variance: float,
        learn_noise: bool = False,
        noise_floor: float | None = None,
    ) -> None:
        put = self._put
        put("kernels", _checked_kernels(kernels))
        require_one_order({"kernels": kernels, "y": y}, known=self.kernels.sample_names)
        put("y", _checked_targets(y, self.n_samples))
        put("noise_variance", checked_variance("noise_variance", noise_variance))
        put("learn_noise", checked_flag("learn_noise", learn_noise))
        put("_given_floor", noise_floor)
        put("noise_floor", self._checked_floor(noise_floor))

    def replace(self, **changes: Any) -> Self:
        """A new problem that differs in the named arguments and shares the others, whose samples are the same.

        A floor that was not given is that of the new problem.
        """
        made = super().replace(**changes)
        if "y" not in changes:
            require_named("y", self.kernels.sample_names, made.kernels.sample_names)
        return made

    def _arguments(self) -> dict[str, Any]:
        return {**super()._arguments(), "noise_floor": self._given_floor}

    @property
    def n_kernels(self) -> int:
        """The number M of kernels."""
        return int(self.kernels.shape[0])

    @property
    def n_samples(self) -> int:
        """The number n of samples."""
        return int(self.kernels.shape[1])

    @property
    def noise_kernel(self) -> Array:
        """The kernel of the noise, whose weight is s: the identity, (n, n)."""
        return np.eye(self.n_samples)

    @property
    def lower(self) -> Array:
        """Lower bounds of the variables x: 0 for each weight, then the noise floor if the noise is learned."""
        return np.append(np.zeros(self.n_kernels), [self.noise_floor] if self.learn_noise else [])

    def join(self, weights: Array, noise_variance: float) -> Array:
        """The variables x: the weights, then the noise variance if it is learned."""
        return np.append(weights, [noise_variance] if self.learn_noise else [])

    def split(self, x: Array) -> tuple[Array, float]:
        """Weights and noise variance of the variables x."""
        return x[: self.n_kernels], float(x[-1]) if self.learn_noise else self.noise_variance

    def covariance(self, weights: Array, noise_variance: float) -> Array:
        """Kbar = s I + sum_m theta_m K_m, (n, n)."""
        total: Array = self.kernels.combine(weights)
        total.flat[:: self.n_samples + 1] += noise_variance
        return total

    def lengths(self, weights: Array, noise_variance: float) -> Array:
        """Kbar_ii^{1/2}, with |K_ii| of every kernel: rounding may leave diagonal entries a little below 0."""
        added = sum(w * np.abs(np.diagonal(K)) for w, K in zip(weights, self.kernels.matrices, strict=True))
        return np.asarray(np.sqrt(added + noise_variance * np.diagonal(self.noise_kernel)))

    def default_weights(self) -> Array:
        """Weights that share the mean square of y equally: theta_m tr(K_m)/n = y'y/(n M); 0 for a zero kernel."""
        traces = self.kernels.traces()
        share = float(self.y @ self.y) / self.n_kernels
        weights = np.zeros(self.n_kernels)
        with np.errstate(over="ignore"):
            np.divide(share, traces, out=weights, where=traces > 0.0)
        return np.minimum(weights, np.finfo(float).max)

    def checked_weights(self, weights: Any, label: str = "weights") -> Array:
        """Weights (M,) as float64, or `InvalidInput`: of other names, of another shape, not finite, or negative."""
        require_named(label, last_names(weights), [self.kernels.names], "kernels")
        array = checked_array(weights, label, (self.n_kernels,), ", one for each kernel")
        if array.min() < 0.0:
            m = int(array.argmin())
            raise InvalidParameter(f"{label}[{m}] = {array[m]:g} is negative; a variance is at least 0.")
        return array

    def _checked_floor(self, floor: Any) -> float | None:
        if not self.learn_noise:
            if floor is not None:
                raise InvalidParameter(
                    f"noise_floor = {floor!r} bounds a noise variance that is not learned; "
                    "give learn_noise=True, or leave the floor out."
                )
            return None
        if floor is None:
            return _FLOOR * self.noise_variance or self.noise_variance  # beside the smallest number no share is left
        return checked_number(
            "noise_floor",
            floor,
            f"(0, noise_variance = {self.noise_variance:g}]",
            "a smaller variance than this is not tried, and the given one is where to start.",
            lambda least: 0.0 < least <= self.noise_variance,
        )

    def __repr__(self) -> str:
        learned = f" learned above {self.noise_floor:g}" if self.learn_noise else ""
        return (
            f"EvidenceProblem(M={self.n_kernels}, n={self.n_samples}, noise_variance={self.noise_variance:g}{learned})"
        )


def cholesky(covariance: Array) -> Array | None:
    """L of Kbar = L L', (n, n), or None where Kbar is singular or not finite in float64."""
    try:
        return np.asarray(np.linalg.cholesky(covariance))
    except np.linalg.LinAlgError:
        return None


def checked_problem(problem: Any) -> EvidenceProblem:
    """`problem` if it is one, else `InvalidType`."""
    if not isinstance(problem, EvidenceProblem):
        raise InvalidType(f"problem is {type(problem).__name__}; give an EvidenceProblem(kernels, y, ...).")
    return problem


def checked_variance(label: str, value: Any) -> float:
    """A noise variance as a float, or `InvalidParameter`."""
    remedy = "the variance sigma_y^2 of the noise. Without noise the covariance may be singular; give a small one."
    return checked_positive(label, value, remedy)


def _checked_kernels(kernels: Any) -> ArrayStack:
    checked = stack(kernels)
    if not isinstance(checked, ArrayStack):
        raise NotApplicable(
            f"empirical Bayes reads kernels in memory, not {type(checked).__name__}; "
            "pass kernels.stack(kernels.dense())."
        )
    checked.require_psd()
    changed = [_semidefinite(matrix) for matrix in checked.matrices]
    if all(new is matrix for new, matrix in zip(changed, checked.matrices, strict=True)):
        return checked
    made = ArrayStack.trusted([matrix.astype(np.float64, copy=False) for matrix in changed], checked.names)
    made.sample_names = checked.sample_names
    return made


def _semidefinite(matrix: FloatArray) -> FloatArray:
    """Without the eigenvalues that rounding made, in float64; `matrix` itself if it has none beyond float64.

    Independent errors of up to u |K_ij| have a norm below 2 u max_i |K_i|, and eigenvalues of both signs.
    """
    K = matrix.astype(np.float64, copy=False)
    single = 0.0 if matrix.dtype == np.float64 else _SINGLE * float(np.linalg.norm(K, axis=1).max())
    shifted = K.copy()
    shifted.flat[:: len(K) + 1] += len(K) * _EPS * float(np.trace(K)) - single
    if factor_in_place(shifted):
        return matrix
    values, vectors = np.linalg.eigh(K)
    root = vectors * np.sqrt(np.where(values > max(single, -values[0]), values, 0.0))
    return np.asarray(root @ root.T)


def _checked_targets(y: Any, n: int) -> Array:
    targets = checked_targets(y, n).copy()
    if np.abs(targets).max() > _LARGEST:
        raise InvalidTarget(
            f"y has values up to {np.abs(targets).max():g}; their squares overflow. Scale y to about 1."
        )
    return read_only(targets)


def simulate(kernels: Any, weights: Any, noise_variance: float, rng: np.random.Generator) -> tuple[Array, Array]:
    """Draw from the generative model: f_m ~ N(0, theta_m K_m), y = sum_m f_m + noise.

    Parameters
    ----------
    kernels : array (M, n, n), sequence of (n, n) arrays, or ArrayStack
    weights : array (M,)
        Variances theta_m >= 0.
    noise_variance : float
    rng : numpy.random.Generator

    Returns
    -------
    functions : array (M, n)
        The values f_m(x_i).
    y : array (n,)

    Raises
    ------
    InvalidType, InvalidKernel, InvalidParameter, NotApplicable
        As `EvidenceProblem`; rng that is not a Generator is an InvalidType.
    """
    matrices = _checked_kernels(kernels)
    problem = EvidenceProblem(matrices, np.zeros(matrices.shape[1]), noise_variance)
    theta = problem.checked_weights(weights)
    checked_rng(rng)
    functions = np.empty((problem.n_kernels, problem.n_samples))
    for m, matrix in enumerate(matrices.matrices):
        values, vectors = np.linalg.eigh(matrix.astype(np.float64, copy=False))
        root = vectors * (np.sqrt(theta[m]) * np.sqrt(np.maximum(values, 0.0)))
        functions[m] = root @ rng.standard_normal(problem.n_samples)
    noise = np.sqrt(problem.noise_variance) * rng.standard_normal(problem.n_samples)
    return functions, functions.sum(axis=0) + noise
