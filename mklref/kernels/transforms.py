"""`center` and `normalize`: Gram matrices, and test kernels with the statistics of the training samples.

The means and sums run over the training samples, always; where these have weights c_i, a sample counts c_i times:
mean_i a_i becomes sum_i c_i a_i / sum_i c_i, and the trace sum_i c_i k(x_i, x_i). Centring comes before the
normalisation, and gives it the centred k(x, x) of new samples; what it leaves of a constant kernel, and of a sample at
the mean, is rounding and counts as 0. A kernel that is spherical and centred is multiplicatively normalised, as Kloft
4.4.2 says; but centring after (26) takes the unit diagonal away. Printed there is ||x|| = k(x, x) = 1, where
||psi(x)||^2 belongs (erratum L17).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias, get_args

import numpy as np

from mklref._names import require_same_samples
from mklref._typing import Array, FloatArray
from mklref._validate import checked_array, checked_choice, checked_flag, checked_members
from mklref.exceptions import InvalidInput, InvalidKernel
from mklref.kernels.stack import ArrayStack, KernelStack, stack
from mklref.kernels.validation import equally_long, rounding_of

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


@dataclass(frozen=True)
class Transform:
    """Centring and normalisation of one kernel, each optional, with the statistics of its training matrix."""

    centering: Centering | None = None
    scale: float | None = None
    """One factor for the whole kernel, positive unless nothing of it is left."""
    norms: Array | None = None
    """sqrt(k(x_i, x_i)), (n,), to bring every sample onto the unit sphere; inf for one at the origin, which stays."""

    def at(self, samples: Any) -> Transform:
        """The statistics that entries against these training samples alone need, numbers or a slice.

        With centring those of new samples need all of them: it takes the mean of a row over the training samples.
        """
        made = self
        if self.centering is not None:
            made = replace(made, centering=replace(self.centering, means=self.centering.means[samples]))
        return made if self.norms is None else replace(made, norms=self.norms[samples])

    @property
    def factor(self) -> float | None:
        """The factor that is all that this does to a kernel; None if it does more."""
        if self.centering is not None or (self.norms is not None and np.any(self.norms != 1.0)):
            return None
        return 1.0 if self.scale is None else self.scale

    def block(self, values: FloatArray, rows: Any, columns: Any) -> FloatArray:
        """The transformed entries of the training matrix between two sets of samples, index arrays or slices."""
        if self.centering:
            values = self.centering.around(values, self.centering.means[rows], columns)
        return self._normalized(values, None if self.norms is None else self.norms[rows], columns)

    def _normalized(self, values: FloatArray, own: Any, columns: Any = _EVERY) -> FloatArray:
        """factor K_ij, or K_ij / (own_i norms_j) for rows whose samples have the norms `own`."""
        if self.norms is not None:
            return np.asarray((values / (own[:, None] * self.norms[columns])).astype(values.dtype, copy=False))
        return values if self.scale is None else values * values.dtype.type(self.scale)

    def train(self, gram: FloatArray) -> FloatArray:
        """The transformed training matrix (n, n), exactly symmetric, and with unit diagonal where it is spherical."""
        gram = self.block(gram, _EVERY, _EVERY)
        if self.norms is not None:
            np.fill_diagonal(gram, np.isfinite(self.norms))
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
            means = _means(rows, self.centering.shares)
            rows, diagonal = self.centering.around(rows, means), self.centering.diagonal(diagonal, means)
        own = None if self.norms is None else _norms(diagonal, "the diagonal of the new samples", self._rounding)
        return self._normalized(rows, own)

    def own(self, diagonal: Array, rows: FloatArray | None = None) -> Array:
        """The transformed k(x, x), (k,), of new samples with these rows, or of the training samples.

        Spherical ones are 1, or 0 at the origin.
        """
        if self.centering:
            means = self.centering.means if rows is None else _means(rows, self.centering.shares)
            diagonal = self.centering.diagonal(diagonal, means)
        if self.norms is not None:
            return (np.isfinite(self.norms) if rows is None else diagonal > self._rounding).astype(float)
        return diagonal if self.scale is None else diagonal * self.scale

    def slack(self, diagonal: Array) -> Array:
        """n eps k(x_i, x_i) (n,) before centring, in units of the transformed `diagonal`: what rounding explains.

        By so much a matrix may miss on its diagonal whose kernel is definite.
        """
        sizes = np.abs(diagonal)
        if self.centering is not None:
            unit: Any = 1.0 if self.scale is None else self.scale
            unit = unit if self.norms is None else self.norms**-2.0
            sizes = sizes + unit * (2.0 * np.abs(self.centering.means) + abs(self.centering.total))
        return rounding_of(sizes)

    def carried(self, slack: Array) -> Array:
        """What is missing of the transformed matrix (n,) where `slack` (n,) is missing of the matrix itself.

        Of z = x - c 1'x, which centring makes of x, z_i^2 <= 2 x_i^2 + 2 c_i^2 n sum_j x_j^2.
        """
        if self.centering is not None:
            n, shares = len(slack), self.centering.shares
            slack = 2.0 * (slack + (slack.mean() if shares is None else n * float(slack @ shares**2)))
        if self.norms is not None:
            return np.asarray(slack / self.norms**2)
        return slack if self.scale is None else slack * self.scale

    @property
    def _rounding(self) -> float:
        """Up to which a squared norm is 0: nothing but for the distance from a mean."""
        if self.centering is None or self.norms is None:
            return 0.0
        squares = np.where(np.isfinite(self.norms), self.norms, 0.0) ** 2
        return _rounding(len(squares), float(squares.mean()) + self.centering.total)


def slacks(transforms: Iterable[Transform], matrices: Iterable[FloatArray], before: Any = 0.0) -> Array:
    """The `Transform.slack` (M, n) of each transformed matrix, with what was missing `before` (M, n) besides."""
    pairs = zip(transforms, matrices, strict=True)
    own = np.array([transform.slack(np.diagonal(matrix).astype(np.float64)) for transform, matrix in pairs])
    each = zip(transforms, np.broadcast_to(before, own.shape), strict=True)
    return np.asarray(own + np.array([transform.carried(slack) for transform, slack in each]))


VANISHING = Transform(scale=0.0)
"""What makes nothing of a constant kernel, which says nothing that an intercept does not say."""


@dataclass(frozen=True)
class Normalizer:
    """How kernels are centred and normalised, by the statistics of training samples."""

    method: Normalization | None = None
    center: bool = False
    weight: Array | None = None
    """How often each training sample counts, (n,)."""
    vanish: bool = False
    """Whether "multiplicative" makes 0 of a constant kernel, as centring does; else it refuses it."""

    def __post_init__(self) -> None:
        checked_flag("center", self.center)
        if self.method is not None:
            checked_choice("normalize", self.method, METHODS)

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
        found = self.of_statistics(diagonal, means, gram.dtype, label)
        if found.centering is None or self.method != "multiplicative":
            return found
        # Of the centred matrix itself the variance has more digits.
        centred = replace(self, center=False, vanish=False).fit(found.centering.around(gram, means), label)
        return replace(centred, centering=found.centering)

    def of_statistics(self, diagonal: Array, means: Array | float | None, dtype: Any, label: str) -> Transform:
        """What `fit` finds, from the diagonal of a training matrix and the means of its rows, each (n,).

        The means are read by centring and by "multiplicative" alone, which takes their mean in their place.
        """
        centering, variance, rounding = None, np.inf, 0.0
        if self.reads_means:
            spread = self._mean(diagonal)
            variance, rounding = spread - self._mean(means), _rounding(len(diagonal), spread, dtype)
            if self.method is None:  # entries have the rounding of their type, and sums of them that of float64
                rounding = _rounding(1, spread, dtype) + _rounding(len(diagonal), spread)
        if self.method and variance < -rounding:
            raise InvalidKernel(f"{label} has variance {variance:.3g}; that of a kernel is nonnegative. Drop it.")
        constant = variance <= rounding
        if constant and self.method == "multiplicative" and not self.vanish:
            raise InvalidKernel(
                f"{label} is constant on the training samples (variance {variance:.3g}), so it cannot be scaled to "
                "variance 1. Drop it, standardise its variables, or use the normalisation 'trace'."
            )
        if constant:  # what is left is rounding: indefinite, and a kernel once it is normalised
            return VANISHING
        if self.center:
            assert isinstance(means, np.ndarray)
            centering = Centering(means, self._mean(means), self.shares)
            diagonal = centering.diagonal(diagonal, means)
        if self.method is None:
            return Transform(centering)
        if self.method == "spherical":
            return Transform(centering, norms=_norms(diagonal, label, rounding))
        if self.method == "trace":
            size = float(diagonal.sum() if self.weight is None else self.weight @ diagonal)
            if size < 0.0:
                raise InvalidKernel(f"{label} has trace {size:.3g}; a kernel has a nonnegative diagonal.")
            return Transform(centering, _inverse(size, dtype, f"{label} has trace") if size > 0.0 else 1.0)
        return Transform(centering, _inverse(variance, dtype, f"{label} has variance"))

    def _mean(self, values: Any) -> float:
        """Over the training samples; a number is the mean already."""
        if not isinstance(values, np.ndarray):
            return float(values)
        return float(values.mean() if self.shares is None else self.shares @ values)


def _rounding(n: int, spread: float, dtype: Any = np.float64) -> float:
    """What rounding may make of a squared distance of 0 from the mean of n samples, whose mean k(x, x) is `spread`."""
    return 8.0 * n * float(np.finfo(dtype).eps) * abs(spread)


def _means(rows: FloatArray, shares: Array | None) -> Array:
    """mean_j k(x, x_j), (k,), in float64."""
    return rows.mean(axis=1, dtype=np.float64) if shares is None else np.asarray(rows @ shares)


def _inverse(size: float, dtype: Any, label: str) -> float:
    """1 / size, if the entries of a matrix of this type have their digits."""
    limits = np.finfo(dtype)
    if size < limits.tiny / limits.eps:
        raise InvalidKernel(f"{label} {size:.3g}, too small for {np.dtype(dtype)}: standardise the variables.")
    return 1.0 / size


def _norms(diagonal: Array, label: str, rounding: float) -> Array:
    """sqrt(k(x, x)), inf where it is zero but for rounding, so that a division by it gives zero."""
    if diagonal.min(initial=0.0) < -rounding:
        i = int(diagonal.argmin())
        raise InvalidKernel(f"{label} has k(x, x) = {diagonal[i]:.3g} at sample {i}; a squared norm is nonnegative.")
    return np.sqrt(np.where(diagonal > rounding, diagonal, np.inf))


def normalize(K: Any, method: Normalization, K_new: Any = None, diagonal_new: Any = None) -> Any:
    """Normalise training kernels, and test kernels with the statistics of the training samples.

        "trace"           k / sum_i k(x_i, x_i)                                 SimpleMKL 5.1
        "multiplicative"  k / (mean_i k(x_i, x_i) - mean_ij k(x_i, x_j))        Kloft (25)
        "spherical"       k(x, z) / sqrt(k(x, x) k(z, z))                       Kloft (26)

    Parameters
    ----------
    K : array (n, n) or (M, n, n), sequence of (n, n) arrays, or KernelStack
        Training kernels; never written to.
    method : {"trace", "multiplicative", "spherical"}
    K_new : array (k, n) or (M, k, n), or sequence of (k, n) arrays, optional
        Test kernels k_m(new sample, training sample).
    diagonal_new : array (k,) or (M, k), optional
        k_m(x, x) of the new samples; "spherical" needs it.

    Returns
    -------
    array (n, n), or ArrayStack unless K is one matrix
        The normalised training kernels, in the dtype of K. With K_new the pair of them and an array of the
        shape of K_new.

    Raises
    ------
    InvalidKernel
        K is no Gram matrix, or "multiplicative" meets a kernel that is constant on the samples. What cannot be
        normalised because it is zero stays zero: a zero kernel, and in "spherical" a sample of norm zero.
    InvalidParameter
        An unknown method.
    InvalidInput
        K_new or diagonal_new does not fit K, or data frames name their samples differently.
    """
    if checked_choice("method", method, METHODS) == "spherical" and K_new is not None and diagonal_new is None:
        raise InvalidInput("diagonal_new is missing: 'spherical' divides by k(x, x) of the new samples, (M, k).")
    return _transformed(K, K_new, diagonal_new, Normalizer(method))


def center(K: Any, K_new: Any = None) -> Any:
    """Centre kernels in feature space around the mean of the training samples: H K H with H = I - 11'/n.

        k(x, z) - mean_j k(x, x_j) - mean_i k(x_i, z) + mean_ij k(x_i, x_j)

    With an intercept this leaves the problem as it is, by 1'beta = 0; it matters for normalisation and alignment. Not
    so the nu one-class machine, whose 1'beta is 1: centred samples surround the origin, from which nothing tells them.
    A kernel that is constant on the training samples but for rounding becomes 0.

    Parameters
    ----------
    K, K_new
        As in `normalize`; test kernels are centred around the mean of the training samples.

    Returns
    -------
    array (n, n), or ArrayStack unless K is one matrix
        As of `normalize`, and with K_new a pair.

    Raises
    ------
    InvalidType, InvalidKernel
        K is no Gram matrix.
    InvalidInput
        K_new does not fit K, or data frames name their samples differently.
    """
    return _transformed(K, K_new, None, Normalizer(center=True))


def _transformed(K: Any, K_new: Any, diagonal_new: Any, how: Normalizer) -> Any:
    single = not isinstance(K, KernelStack | list | tuple) and np.ndim(K) == 2
    if single:
        K, K_new, diagonal_new = (None if part is None else [part] for part in (K, K_new, diagonal_new))
    elif K_new is not None:
        K_new = checked_members("K_new", K_new, "give one array (k, n) for each kernel.")
        if diagonal_new is not None:
            diagonal_new = checked_members("diagonal_new", diagonal_new, "give one array (k,) for each kernel.")
    given = stack(K)
    require_same_samples({"K": K}, {"K_new": K_new, "diagonal_new": diagonal_new}, getattr(K, "sample_names", ()))
    grams = given.matrices if isinstance(given, ArrayStack) else tuple(given.dense())
    fitted = [how.fit(gram, f"kernels[{m}]") for m, gram in enumerate(grams)]
    train = ArrayStack([own.train(gram) for own, gram in zip(fitted, grams, strict=True)], given.names or None)
    train.sample_names = given.sample_names
    answer = train.matrices[0] if single else train
    if K_new is None:
        return answer
    if len(K_new) != len(grams):
        raise InvalidInput(f"K_new holds {len(K_new)} kernels, K holds {len(grams)}.")
    if diagonal_new is None:
        diagonal_new = [None] * len(grams)
    elif len(diagonal_new) != len(grams):
        raise InvalidInput(f"diagonal_new holds {len(diagonal_new)} kernels, K holds {len(grams)}.")
    new: list[Any] = []
    blocks = equally_long(K_new, "K_new", given.shape[1])
    for m, (own, block, diagonal) in enumerate(zip(fitted, blocks, diagonal_new, strict=True)):
        squares = np.zeros(len(block))  # unread: only 'spherical' asks for it
        if diagonal is not None:
            squares = checked_array(diagonal, f"diagonal_new[{m}]", squares.shape, error=InvalidInput)
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            new.append(own.new(block, squares))
        if not np.isfinite(new[-1]).all():
            raise InvalidInput(f"K_new[{m}] is beyond float64 with the statistics of K; give entries of the size of K.")
    return answer, new[0] if single else np.stack(new)
