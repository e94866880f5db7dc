"""Centring and normalisation of Gram matrices, and of test kernels with the statistics of the training samples.

    center            k(x, z) - mean_j k(x, x_j) - mean_i k(x_i, z) + mean_ij k(x_i, x_j)
    "trace"           k / sum_i k(x_i, x_i)                                                      SimpleMKL 5.1
    "multiplicative"  k / (mean_i k(x_i, x_i) - mean_ij k(x_i, x_j))                             Kloft (25)
    "spherical"       k(x, z) / sqrt(k(x, x) k(z, z))                                            Kloft (26)

The means and sums run over the training samples, always; where these have weights c_i, a sample counts c_i times:
mean_i a_i becomes sum_i c_i a_i / sum_i c_i, and the trace sum_i c_i k(x_i, x_i). Centring comes before the
normalisation, and gives it the centred k(x, x) of new samples. A kernel that is spherical and centred is
multiplicatively normalised, as Kloft 4.4.2 says; but centring after (26) takes the unit diagonal away. Printed there is
||x|| = k(x, x) = 1, where ||psi(x)||^2 belongs (erratum L17).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias, cast, get_args

import numpy as np

from mklref._typing import Array, FloatArray
from mklref._validate import checked_flag
from mklref.exceptions import InvalidKernel, InvalidParameter

Normalization: TypeAlias = Literal["trace", "multiplicative", "spherical"]
"""The names of the normalisations."""
METHODS = get_args(Normalization)
_EVERY = slice(None)
_EPS = float(np.finfo(np.float64).eps)


@dataclass(frozen=True)
class Centering:
    """Inner products around the mean of the training samples in feature space."""

    means: Array
    """mean_j k(x_i, x_j), (n,)."""
    total: float
    """mean_ij k(x_i, x_j)."""
    shares: Array | None = None
    """c_i / sum_i c_i, (n,); None if all samples count alike."""

    def around(self, values: FloatArray, own: Array, columns: Any = _EVERY) -> FloatArray:
        """k - own_i - means_j + total, for rows whose means over the training samples are `own`; H K H of all."""
        shift = own[:, None] + self.means[columns] - self.total
        return np.asarray((values - shift).astype(values.dtype, copy=False))

    def diagonal(self, diagonal: Array, own: Array) -> Array:
        """The squared distances from the mean, for the same rows and their k(x, x), (k,); at it 0 but for rounding."""
        squares = diagonal - 2.0 * own + self.total
        rounding = 8.0 * len(self.means) * _EPS * (np.abs(diagonal) + 2.0 * np.abs(own) + abs(self.total))
        return np.where((squares < 0.0) & (squares >= -rounding), 0.0, squares)

    def of_new(self, rows: FloatArray, diagonal: Array) -> tuple[FloatArray, Array]:
        """Both for new samples, whose rows (k, n) tell their means."""
        own = _means(rows, self.shares)
        return self.around(rows, own), self.diagonal(diagonal, own)


@dataclass(frozen=True)
class Scaling:
    """One factor for the whole kernel, positive unless nothing of it is left."""

    factor: float

    def of(self, values: FloatArray) -> FloatArray:
        """factor K."""
        return values * values.dtype.type(self.factor)


@dataclass(frozen=True)
class Projection:
    """Every sample on the unit sphere in feature space; one at the origin stays there."""

    norms: Array
    """sqrt(k(x_i, x_i)), (n,), with inf for a sample at the origin."""

    def of(self, values: FloatArray, own: Array, columns: Any = _EVERY) -> FloatArray:
        """K_ij / (own_i norms_j), for rows whose samples have the norms `own`."""
        return np.asarray((values / (own[:, None] * self.norms[columns])).astype(values.dtype, copy=False))


@dataclass(frozen=True)
class Transform:
    """Centring and normalisation of one kernel, each optional, with the statistics of its training matrix."""

    centering: Centering | None = None
    normalization: Scaling | Projection | None = None

    def at(self, samples: Any) -> Transform:
        """The statistics that entries against these training samples alone need, numbers or a slice.

        With centring those of new samples need all of them: it takes the mean of a row over the training samples.
        """
        made = self
        if self.centering is not None:
            made = replace(made, centering=replace(self.centering, means=self.centering.means[samples]))
        if isinstance(self.normalization, Projection):
            made = replace(made, normalization=Projection(self.normalization.norms[samples]))
        return made

    @property
    def factor(self) -> float | None:
        """The factor that is all that this does to a kernel; None if it does more."""
        if self.centering is not None:
            return None
        if isinstance(self.normalization, Projection):
            return 1.0 if np.all(self.normalization.norms == 1.0) else None
        return 1.0 if self.normalization is None else self.normalization.factor

    def block(self, values: FloatArray, rows: Any, columns: Any) -> FloatArray:
        """The transformed entries of the training matrix between two sets of samples, index arrays or slices."""
        if self.centering:
            values = self.centering.around(values, self.centering.means[rows], columns)
        if isinstance(self.normalization, Projection):
            return self.normalization.of(values, self.normalization.norms[rows], columns)
        return self.normalization.of(values) if self.normalization else values

    def train(self, gram: FloatArray) -> FloatArray:
        """The transformed training matrix (n, n), exactly symmetric, and with unit diagonal where it is spherical."""
        gram = self.block(gram, _EVERY, _EVERY)
        if isinstance(self.normalization, Projection):
            np.fill_diagonal(gram, np.isfinite(self.normalization.norms))
        return gram

    def train_in_place(self, gram: FloatArray) -> None:
        """Transform a training matrix where it lies."""
        if self.factor is None:
            gram[:] = self.train(gram)
        elif self.factor != 1.0:
            gram *= gram.dtype.type(self.factor)

    def new(self, rows: FloatArray, diagonal: Array) -> FloatArray:
        """The transformed rows (k, n) of new samples, whose k(x, x) are `diagonal` (k,)."""
        if self.centering:
            rows, diagonal = self.centering.of_new(rows, diagonal)
        if isinstance(self.normalization, Projection):
            return self.normalization.of(rows, _norms(diagonal, "the diagonal of the new samples"))
        return self.normalization.of(rows) if self.normalization else rows

    def own(self, rows: FloatArray, diagonal: Array) -> Array:
        """The transformed k(x, x) of the same samples, (k,); spherical ones are 1, or 0 at the origin."""
        if self.centering:
            diagonal = self.centering.of_new(rows, diagonal)[1]
        if isinstance(self.normalization, Projection):
            return (diagonal > 0.0).astype(float)
        return diagonal * self.normalization.factor if self.normalization else diagonal


VANISHING = Transform(None, Scaling(0.0))
"""What makes nothing of a constant kernel, which says nothing that an intercept does not say."""


@dataclass(frozen=True)
class Normalizer:
    """How kernels are centred and normalised, by the statistics of training samples."""

    method: Normalization | None = None
    center: bool = False
    weight: Array | None = None
    """How often each training sample counts, (n,)."""
    vanish: bool = False
    """Whether a constant kernel becomes 0 where it would be divided by its variance of 0; else it is refused."""

    def __post_init__(self) -> None:
        checked_flag("center", self.center)
        if self.method is not None:
            checked_method(self.method)

    @property
    def reads_means(self) -> bool:
        """Whether it asks for the means of the rows of training matrices."""
        return self.center or self.method == "multiplicative"

    @property
    def shares(self) -> Array | None:
        """c_i / sum_i c_i, (n,)."""
        return None if self.weight is None else self.weight / self.weight.sum()

    def fit(self, gram: FloatArray, label: str) -> Transform:
        """The statistics of a training matrix (n, n); `label` names it."""
        diagonal = np.diagonal(gram).astype(np.float64, copy=False)
        means: Any = _means(gram, self.shares) if self.reads_means else None
        if not self.center or self.method in (None, "spherical"):
            return self.of_statistics(diagonal, means, gram.dtype, label)
        if self.vanish and self._variance(diagonal, means, gram.dtype)[1]:
            return VANISHING
        centering = self._centering(means)  # of the centred matrix itself the statistics have more digits
        centred = replace(self, center=False, vanish=False).fit(centering.around(gram, means), label)
        return replace(centred, centering=centering)

    def of_statistics(self, diagonal: Array, means: Array | float | None, dtype: Any, label: str) -> Transform:
        """What `fit` finds, from the diagonal of a training matrix and the means of its rows, each (n,).

        The means are read by centring and by "multiplicative" alone, which takes their mean in their place.
        """
        centering = None
        if self.vanish and self.center and self.method and self._variance(diagonal, means, dtype)[1]:
            return VANISHING
        if self.center:
            assert isinstance(means, np.ndarray)
            centering = self._centering(means)
            diagonal, means = centering.diagonal(diagonal, means), np.zeros_like(means)
        if self.method is None:
            return Transform(centering)
        if self.method == "spherical":
            return Transform(centering, Projection(_norms(diagonal, label)))
        if self.method == "trace":
            size = float(diagonal.sum() if self.weight is None else self.weight @ diagonal)
            if size < 0.0:
                raise InvalidKernel(f"{label} has trace {size:.3g}; a kernel has a nonnegative diagonal.")
            return Transform(centering, Scaling(_inverse(size, dtype, f"{label} has trace") if size > 0.0 else 1.0))
        variance, constant = self._variance(diagonal, means, dtype)
        if constant and self.vanish:
            return VANISHING
        if constant:
            raise InvalidKernel(
                f"{label} is constant on the training samples (variance {variance:.3g}), so it cannot be scaled to "
                "variance 1. Drop it, standardise its variables, or use the normalisation 'trace'."
            )
        return Transform(centering, Scaling(_inverse(variance, dtype, f"{label} has variance")))

    def _centering(self, means: Array) -> Centering:
        return Centering(means, self._mean(means), self.shares)

    def _mean(self, values: Any) -> float:
        """Over the training samples; a number is the mean already."""
        if not isinstance(values, np.ndarray):
            return float(values)
        return float(values.mean() if self.shares is None else self.shares @ values)

    def _variance(self, diagonal: Array, means: Any, dtype: Any) -> tuple[float, bool]:
        """mean_i k(x_i, x_i) - mean_ij k(x_i, x_j), and whether rounding alone may make it of 0."""
        spread = self._mean(diagonal)
        variance = spread - self._mean(means)
        return variance, variance <= 8.0 * len(diagonal) * float(np.finfo(dtype).eps) * abs(spread)


def checked_method(method: Any) -> Normalization:
    """Return the name of a normalisation, or raise `InvalidParameter` with the known ones."""
    if not isinstance(method, str) or method not in METHODS:
        raise InvalidParameter(f"normalization = {method!r} is unknown; known are {', '.join(map(repr, METHODS))}.")
    return cast(Normalization, method)


def _means(rows: FloatArray, shares: Array | None) -> Array:
    """mean_j k(x, x_j), (k,), in float64."""
    return rows.mean(axis=1, dtype=np.float64) if shares is None else np.asarray(rows @ shares)


def _inverse(size: float, dtype: Any, label: str) -> float:
    """1 / size, if the entries of a matrix of this type have their digits."""
    limits = np.finfo(dtype)
    if size < limits.tiny / limits.eps:
        raise InvalidKernel(f"{label} {size:.3g}, too small for {np.dtype(dtype)}: standardise the variables.")
    return 1.0 / size


def _norms(diagonal: Array, label: str) -> Array:
    """sqrt(k(x, x)), inf where it is zero, so that a division by it gives zero."""
    if diagonal.min(initial=0.0) < 0.0:
        i = int(diagonal.argmin())
        raise InvalidKernel(f"{label} has k(x, x) = {diagonal[i]:.3g} at sample {i}; a squared norm is nonnegative.")
    return np.where(diagonal > 0.0, np.sqrt(diagonal), np.inf)
