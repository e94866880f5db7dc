"""The model in coordinates in which its covariance is about the identity, so that float64 holds its derivatives.

Beside little noise Kbar^{-1} is so large that float64 leaves nothing of tr(Kbar^{-1} K_m) and alpha'K_m alpha. For any
matrix Z, also one that is only about the inverse of a Cholesky factor of Kbar, the same model is that of

    T_m = Z K_m Z',    T_0 = Z Z',    Z y,        Z Kbar Z' = s T_0 + sum_m theta_m T_m,

with the same variables and derivatives, and the same phi but for log |det Z|. All that cancels does so in the products
T_m. They are made of slices of Z and K_m that multiply without error (`certificate.exact`), and summed with twice
the digits of float64. Samples are in units in which Kbar has about ones in its diagonal: a slice has one unit for a
row.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import numpy as np
from scipy.linalg.blas import dtrmm
from scipy.linalg.lapack import dtrtri

from mklref._typing import Array, FloatArray
from mklref.certificate.exact import in_slices, product_of_slices
from mklref.evidence.problem import EvidenceProblem, cholesky
from mklref.kernels.stack import ArrayStack

_RAISED = 4.0 * float(np.finfo(float).eps)
"""More noise beside a covariance that float64 lost, as a share of its diagonal: for each sample and kernel."""
_SURE = 80
"""A form counts as negative below -2^-80 of the size of its terms: products of slices are more accurate."""
_MOST_RAISES = 3
"""Coordinates after which no digit of the kernels is left."""


class OutOfTime(Exception):
    """The time was over before the coordinates were there."""


class Whitened(EvidenceProblem):
    """A model in coordinates Z, (n, n) lower triangular: T_m are its kernels, and T_0 that of its noise.

    Rounding leaves the T_m semidefinite up to some ulps, which is all that an `EvidenceProblem` asks of kernels.
    """

    given: EvidenceProblem
    Z: Array
    T_0: Array
    __reduce__ = object.__reduce__  # by what it has: its arguments are others

    def __init__(self, given: EvidenceProblem, Z: Array, lengths: Array, late: Callable[[], bool]) -> None:
        units = np.rint(np.log2(lengths)).astype(int)
        rows = in_slices(np.ldexp(Z, units))

        def times(A: Array, B: Array) -> Array:
            if late():
                raise OutOfTime
            return np.asarray(dtrmm(1.0, A.T, B.T, trans_a=1))  # A is lower triangular

        def from_left(*parts: Array) -> tuple[Array, Array]:
            return product_of_slices(rows, in_slices(*parts), times)

        def in_coordinates(K: FloatArray) -> Array:
            T = from_left(*from_left(np.ldexp(K.astype(np.float64), -units[:, None] - units)))[0]
            return 0.5 * (T + T.T)

        kernels = ArrayStack.trusted([in_coordinates(K) for K in given.kernels.matrices])
        self.__dict__.update(given.__dict__)
        self.__dict__.update(
            given=given,
            Z=Z,
            kernels=kernels,
            y=from_left(np.ldexp(given.y, -units)[None])[0][:, 0],
            T_0=from_left(np.ldexp(Z, -units))[0],
            log_volume=-np.log(np.diagonal(Z)),
        )

    @property
    def noise_kernel(self) -> Array:
        """T_0."""
        return self.T_0

    def covariance(self, weights: Array, noise_variance: float) -> Array:
        """Z Kbar Z', (n, n)."""
        return np.asarray(self.kernels.combine(weights) + noise_variance * self.T_0)


def whitened(
    problem: EvidenceProblem,
    factor: Array,
    weights: Array,
    noise_variance: float,
    late: Callable[[], bool] = lambda: False,
) -> Whitened:
    """The model in the coordinates in which the covariance that has this Cholesky factor is the identity.

    `OutOfTime` as soon as `late` says so.
    """
    given, Z = problem, np.tril(dtrtri(factor, lower=1)[0])
    if isinstance(problem, Whitened):
        given, Z = problem.given, Z @ problem.Z
    diagonals = np.array([np.diagonal(K) for K in given.kernels.matrices])
    return Whitened(given, Z, np.sqrt(weights @ diagonals + noise_variance), late)


def definite(problem: EvidenceProblem, weights: Array, noise_variance: float) -> Whitened | None:
    """Coordinates for a covariance without a Cholesky factor as it is given, or None if there are none either.

    With as much more noise in each sample as rounding takes off there is a factor. In its coordinates the eigenvalues
    that float64 had lost are a share of others that it holds.
    """
    raised = _RAISED * (problem.n_samples + problem.n_kernels)
    for _ in range(_MOST_RAISES):
        total = problem.covariance(weights, noise_variance)
        if (factor := cholesky(total)) is None:
            if _is_indefinite(problem, weights, noise_variance, total):
                break
            total.flat[:: len(total) + 1] += raised * problem.lengths(weights, noise_variance) ** 2
            if (factor := cholesky(total)) is None:
                break
        elif isinstance(problem, Whitened):
            return whitened(problem, factor, weights, noise_variance)
        else:  # (14) overflows, as it does in all coordinates
            break
        problem = whitened(problem, factor, weights, noise_variance)
    return None


def _is_indefinite(problem: EvidenceProblem, weights: Array, noise_variance: float, total: Array) -> bool:
    """Whether v'Kbar v < 0 for the matrices as given: a proof that Kbar is in no coordinates definite, from one v.

    v is the eigenvector of the smallest eigenvalue that float64 sees; the form is evaluated in about twice its digits.
    """
    if isinstance(problem, Whitened) or not np.isfinite(total).all():
        return False
    v = np.linalg.eigh(total)[1][:, 0]
    row, exactly = in_slices(v[None]), [Fraction(value) for value in v.tolist()]
    form, size = Fraction(noise_variance) * sum(value * value for value in exactly), noise_variance
    for weight, matrix in zip(weights.tolist(), problem.kernels.matrices, strict=True):
        image = product_of_slices(row, in_slices(matrix.astype(np.float64)))
        if not np.isfinite(image).all():
            return False
        parts = zip(exactly, image[0][0].tolist(), image[1][0].tolist(), strict=True)
        form += Fraction(weight) * sum(value * (Fraction(high) + Fraction(low)) for value, high, low in parts)
        size += weight * float(np.abs(matrix).max())
    return bool(np.isfinite(size)) and form < -Fraction(size) * len(v) / 2**_SURE
