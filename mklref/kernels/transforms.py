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

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, cast

import numpy as np

from mklref._typing import Array, FloatArray
from mklref.exceptions import InvalidKernel, InvalidParameter

Normalization: TypeAlias = Literal["trace", "multiplicative", "spherical"]
"""The names of the normalisations."""


class ConstantKernel(InvalidKernel):
    """A kernel that has no variance on the training samples, and so cannot be brought to variance 1."""


@dataclass(frozen=True)
class Centering:
    """Inner products around the mean of the training samples in feature space."""

    means: Array
    """mean_j k(x_i, x_j), (n,)."""
    total: float
    """mean_ij k(x_i, x_j)."""
    shares: Array | None = None
    """c_i / sum_i c_i, (n,); None if all samples count alike."""

    @classmethod
    def fit(cls, gram: FloatArray, weight: Array | None = None) -> Centering:
        """Means of a training matrix."""
        shares = None if weight is None else weight / weight.sum()
        means = _means(gram, shares)
        return cls(means, float(means.mean() if shares is None else shares @ means), shares)

    def train(self, gram: FloatArray) -> FloatArray:
        """H K H with H = I - 11'/n, exactly symmetric."""
        shift = self.means[:, None] + self.means - self.total
        return (gram - shift).astype(gram.dtype, copy=False)

    def new(self, rows: FloatArray, diagonal: Array) -> tuple[FloatArray, Array]:
        """(K_new - 1 means') H, and the squared distances from the mean, for rows (k, n) and their k(x, x), (k,)."""
        own = _means(rows, self.shares)
        shift = own[:, None] + self.means - self.total
        return (rows - shift).astype(rows.dtype, copy=False), diagonal - 2.0 * own + self.total


@dataclass(frozen=True)
class Scaling:
    """One positive factor for the whole kernel."""

    factor: float

    @classmethod
    def to_unit_trace(cls, gram: FloatArray, label: str, weight: Array | None = None) -> Scaling:
        """Trace 1; a zero kernel stays zero."""
        trace = float(np.trace(gram, dtype=np.float64) if weight is None else weight @ np.diagonal(gram))
        return cls.of_trace(trace, gram.dtype, label)

    @classmethod
    def of_trace(cls, trace: float, dtype: Any, label: str) -> Scaling:
        """The same for a matrix of this trace and type."""
        if trace < 0.0:
            raise InvalidKernel(f"{label} has trace {trace:.3g}; a kernel has a nonnegative diagonal.")
        return cls(_inverse(trace, dtype, f"{label} has trace") if trace > 0.0 else 1.0)

    @classmethod
    def to_unit_variance(cls, gram: FloatArray, label: str, weight: Array | None = None) -> Scaling:
        """Mean squared distance 1 from the mean in feature space, Kloft (25)."""
        return cls.of_variance(*_variance(gram, weight), gram.dtype, label)

    @classmethod
    def of_variance(cls, variance: float, rounding: float, dtype: Any, label: str) -> Scaling:
        """The same for a matrix of this variance, of which rounding may make so much of 0, and type."""
        if variance <= rounding:
            raise ConstantKernel(
                f"{label} is constant on the training samples (variance {variance:.3g}), so it cannot be scaled to "
                "variance 1. Drop it, standardise its variables, or use the normalisation 'trace'."
            )
        return cls(_inverse(variance, dtype, f"{label} has variance"))

    def train(self, gram: FloatArray) -> FloatArray:
        """factor K."""
        return gram * gram.dtype.type(self.factor)

    def new(self, rows: FloatArray, diagonal: Array) -> FloatArray:
        """The same factor."""
        return rows * rows.dtype.type(self.factor)

    def own(self, diagonal: Array) -> Array:
        """The same factor, for k(x, x) of new samples."""
        return diagonal * self.factor


@dataclass(frozen=True)
class Projection:
    """Every sample on the unit sphere in feature space; one at the origin stays there."""

    norms: Array
    """sqrt(k(x_i, x_i)), (n,), with inf for a sample at the origin."""

    @classmethod
    def fit(cls, gram: FloatArray, label: str, weight: Array | None = None) -> Projection:
        """Norms of the training samples, whatever their weights."""
        return cls(_norms(np.diagonal(gram).astype(np.float64), label))

    def train(self, gram: FloatArray) -> FloatArray:
        """K_ij / sqrt(K_ii K_jj), with exactly unit diagonal."""
        sphere = (gram / (self.norms[:, None] * self.norms)).astype(gram.dtype, copy=False)
        np.fill_diagonal(sphere, np.isfinite(self.norms))
        return sphere

    def new(self, rows: FloatArray, diagonal: Array) -> FloatArray:
        """Rows divided by the norms of both samples."""
        own = _norms(diagonal, "the diagonal of the new samples")
        return (rows / (own[:, None] * self.norms)).astype(rows.dtype, copy=False)

    def own(self, diagonal: Array) -> Array:
        """1, or 0 for a sample at the origin."""
        return (diagonal > 0.0).astype(float)


@dataclass(frozen=True)
class Transform:
    """Centring and normalisation of one kernel, each optional, with the statistics of its training matrix."""

    centering: Centering | None = None
    normalization: Scaling | Projection | None = None

    @classmethod
    def fit(
        cls, gram: FloatArray, label: str, method: Normalization | None, center: bool, weight: Array | None = None
    ) -> Transform:
        """The statistics of a training matrix (n, n) whose samples count `weight` (n,) times; `label` names it."""
        centering = Centering.fit(gram, weight) if center else None
        if method is None:
            return cls(centering)
        centred = centering.train(gram) if centering else gram
        return cls(centering, _FITS[checked_method(method)](centred, label, weight))

    def at(self, samples: Any) -> Transform:
        """The statistics that rows against these training samples alone need, a slice or numbers.

        With centring they have to be all: it takes the mean of a row over the training samples.
        """
        if isinstance(self.normalization, Projection):
            return Transform(self.centering, Projection(self.normalization.norms[samples]))
        return self

    @classmethod
    def of_statistics(
        cls,
        diagonal: Array,
        means: Array | float | None,
        dtype: Any,
        label: str,
        method: Normalization | None,
        center: bool,
        weight: Array | None = None,
    ) -> Transform:
        """What `fit` finds, from the diagonal of a training matrix and the means of its rows, each (n,).

        The means are read by centring and by "multiplicative" alone, which takes their mean in their place.
        """
        centering, shares = None, None if weight is None else weight / weight.sum()
        if center:
            assert isinstance(means, np.ndarray)
            total = float(means.mean() if shares is None else shares @ means)
            centering = Centering(means, total, shares)
            diagonal, means = diagonal - 2.0 * means + centering.total, np.zeros_like(means)
        if method is None:
            return cls(centering)
        if checked_method(method) == "spherical":
            return cls(centering, Projection(_norms(diagonal, label)))
        if method == "trace":
            trace = float(diagonal.sum() if weight is None else weight @ diagonal)
            return cls(centering, Scaling.of_trace(trace, dtype, label))
        assert means is not None
        spread = _mean(diagonal, shares)
        mean = _mean(means, shares) if isinstance(means, np.ndarray) else float(means)
        unseen = _unseen(len(diagonal), dtype, spread)
        return cls(centering, Scaling.of_variance(spread - mean, unseen, dtype, label))

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
            means = self.centering.means
            values = (values - (means[rows][:, None] + means[columns] - self.centering.total)).astype(values.dtype)
        if isinstance(self.normalization, Scaling):
            return values * values.dtype.type(self.normalization.factor)
        if self.normalization is None:
            return values
        norms = self.normalization.norms
        return np.asarray((values / (norms[rows][:, None] * norms[columns])).astype(values.dtype, copy=False))

    def between(self, samples: Any) -> Transform:
        """The statistics that `block` needs for some of the training samples, index array or slice."""
        centering, normalization = self.centering, self.normalization
        if centering is not None:
            centering = Centering(centering.means[samples], centering.total)
        if isinstance(normalization, Projection):
            normalization = Projection(normalization.norms[samples])
        return Transform(centering, normalization)

    def train_in_place(self, gram: FloatArray) -> None:
        """Transform a training matrix where it lies."""
        if self.factor is None:
            gram[:] = self.train(gram)
        elif self.factor != 1.0:
            gram *= gram.dtype.type(self.factor)

    def train(self, gram: FloatArray) -> FloatArray:
        """The transformed training matrix (n, n)."""
        if self.centering:
            gram = self.centering.train(gram)
        return self.normalization.train(gram) if self.normalization else gram

    def new(self, rows: FloatArray, diagonal: Array) -> FloatArray:
        """The transformed rows (k, n) of new samples, whose k(x, x) are `diagonal` (k,)."""
        if self.centering:
            rows, diagonal = self.centering.new(rows, diagonal)
        return self.normalization.new(rows, diagonal) if self.normalization else rows

    def own(self, rows: FloatArray, diagonal: Array) -> Array:
        """The transformed k(x, x) of the same samples, (k,)."""
        if self.centering:
            rows, diagonal = self.centering.new(rows, diagonal)
        return self.normalization.own(diagonal) if self.normalization else diagonal


VANISHING = Transform(None, Scaling(0.0))
"""What makes nothing of a constant kernel, which says nothing that an intercept does not say."""

_FITS: dict[str, Callable[[FloatArray, str, Array | None], Scaling | Projection]] = {
    "trace": Scaling.to_unit_trace,
    "multiplicative": Scaling.to_unit_variance,
    "spherical": Projection.fit,
}


def fitted_or_vanishing(
    gram: FloatArray, label: str, method: Normalization | None, center: bool, weight: Array | None = None
) -> Transform:
    """`Transform.fit`, but a constant kernel becomes 0 where it would be divided by its variance of 0."""
    if method == "multiplicative" and not center:  # one read of the matrix says both
        try:
            return Transform.fit(gram, label, method, center, weight)
        except ConstantKernel:
            return VANISHING
    if method is not None and center and is_constant(gram, weight):
        return VANISHING
    return Transform.fit(gram, label, method, center, weight)


def is_constant(gram: FloatArray, weight: Array | None = None) -> bool:
    """Whether a kernel has no variance on the training samples, but for rounding."""
    variance, rounding = _variance(gram, weight)
    return variance <= rounding


def checked_method(method: Any) -> Normalization:
    """Return the name of a normalisation, or raise `InvalidParameter` with the known ones."""
    if not isinstance(method, str) or method not in _FITS:
        raise InvalidParameter(f"normalization = {method!r} is unknown; known are {', '.join(map(repr, _FITS))}.")
    return cast(Normalization, method)


def _means(rows: FloatArray, shares: Array | None) -> Array:
    """mean_j k(x, x_j), (k,), in float64."""
    return rows.mean(axis=1, dtype=np.float64) if shares is None else np.asarray(rows @ shares)


def _mean(values: Array, shares: Array | None) -> float:
    """Over the training samples."""
    return float(values.mean() if shares is None else shares @ values)


def _variance(gram: FloatArray, weight: Array | None) -> tuple[float, float]:
    """mean_i k(x_i, x_i) - mean_ij k(x_i, x_j), and what rounding alone may make of 0."""
    shares = None if weight is None else weight / weight.sum()
    diagonal, means = np.diagonal(gram), _means(gram, shares)
    if shares is None:
        spread, total = float(diagonal.mean(dtype=np.float64)), float(means.mean())
    else:
        spread, total = float(shares @ diagonal), float(shares @ means)
    return spread - total, _unseen(len(gram), gram.dtype, spread)


def _unseen(n: int, dtype: Any, spread: float) -> float:
    """What rounding may make of a variance of 0."""
    return 8.0 * n * float(np.finfo(dtype).eps) * abs(spread)


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
