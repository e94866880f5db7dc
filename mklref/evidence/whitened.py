"""The model in coordinates in which its covariance is about the identity, so that float64 holds its derivatives.

Beside little noise Kbar^{-1} is so large that float64 leaves nothing of tr(Kbar^{-1} K_m) and alpha'K_m alpha. For any
matrix Z, also one that is only about the inverse of a Cholesky factor of Kbar, the same model is that of

    T_m = Z K_m Z',    T_0 = Z Z',    Z y,        Z Kbar Z' = s T_0 + sum_m theta_m T_m,

with the same variables and derivatives, and the same phi but for log |det Z|. All that cancels does so in the products
T_m. They are made of slices of Z and K_m that multiply without error (`certificate.products`), and summed with twice
the digits of float64. Samples are in units in which Kbar has about ones in its diagonal: a slice has one unit for a
row.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg.blas import dtrmm
from scipy.linalg.lapack import dtrtri

from mklref._typing import Array, FloatArray
from mklref.certificate.products import leading, slice_bits
from mklref.evidence.problem import EvidenceProblem, cholesky
from mklref.kernels.stack import ArrayStack

_DIGITS = 110
"""Bits beside the largest entry of its row at which a factor is cut off."""
_RAISED = 4.0 * float(np.finfo(float).eps)
"""More noise beside a covariance that float64 lost, as a share of its diagonal: for each sample and kernel."""
_SURE = 80
"""Bits, fewer than a product of two slices leaves right, to which a negative value is one."""
_MOST_RAISES = 3
"""Coordinates after which no digit of the kernels is left."""
_MOST = 8
"""Slices of a row, whose products are added up before they are rounded."""


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
        rows = _sliced(np.ldexp(Z, units))

        def in_coordinates(K: FloatArray) -> Array:
            half = _product(rows, _sliced(np.ldexp(K.astype(np.float64), -units[:, None] - units)), late)
            T = _product(rows, _sliced(*half), late)[0]
            return 0.5 * (T + T.T)

        kernels = ArrayStack.trusted([in_coordinates(K) for K in given.kernels.matrices], given.kernels.names)
        self.__dict__.update(given.__dict__)
        self.__dict__.update(
            given=given,
            Z=Z,
            kernels=kernels,
            y=_product(rows, _sliced(np.ldexp(given.y, -units)[None]), late)[0][:, 0],
            T_0=_product(rows, _sliced(np.ldexp(Z, -units)), late)[0],
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
    row, exactly = _sliced(v[None]), [Fraction(value) for value in v.tolist()]
    form, size = Fraction(noise_variance) * sum(value * value for value in exactly), noise_variance
    for weight, matrix in zip(weights.tolist(), problem.kernels.matrices, strict=True):
        image = _product(row, _sliced(matrix.astype(np.float64)), lambda: False)
        if not np.isfinite(image).all():
            return False
        parts = zip(exactly, image[0][0].tolist(), image[1][0].tolist(), strict=True)
        form += Fraction(weight) * sum(value * (Fraction(high) + Fraction(low)) for value, high, low in parts)
        size += weight * float(np.abs(matrix).max())
    return bool(np.isfinite(size)) and form < -Fraction(size) * len(v) / 2**_SURE


class _Sliced(NamedTuple):
    """Rows of a matrix, 2^units_i times a sum of slices, the j-th of multiples of 2^(-j bits)."""

    units: Array
    slices: list[Array]


def _sliced(high: Array, low: Any = 0.0) -> _Sliced:
    """high + low, each slice so short that sums of as many products of two, n terms each, are exact."""
    bits = slice_bits(_MOST * high.shape[1])
    units = np.frexp(np.abs(high).max(axis=1))[1]
    high, low = (np.ldexp(part, -units[:, None], order="C") for part in (high, low))
    slices = []
    for j in range(1, -(-_DIGITS // bits) + 1):
        slices.append(leading(high, j * bits))
        left = high - slices[-1]
        high = left + low
        low = low - (high - left)
    return _Sliced(units, slices)


def _product(left: _Sliced, right: _Sliced, late: Callable[[], bool]) -> tuple[Array, Array]:
    """The product of `left`, lower triangular or a row, and the transpose of `right`, and what float64 leaves of it."""
    high, low = (np.zeros((len(left.units), len(right.units)), order="F") for _ in range(2))
    for order in reversed(range(len(left.slices))):
        term = np.zeros_like(high)
        for j in range(order + 1):
            if late():
                raise OutOfTime
            A, B = left.slices[j], right.slices[order - j]
            term += A @ B.T if len(A) == 1 else dtrmm(1.0, A.T, B.T, trans_a=1)
        total = high + term
        back = total - high
        low += (high - (total - back)) + (term - back)
        high = total
    total, units = high + low, left.units[:, None] + right.units
    return np.ldexp(total, units), np.ldexp(low - (total - high), units)
