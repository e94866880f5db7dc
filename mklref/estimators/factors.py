"""Kernels of an estimator as factors: K_m = L_m L_m', approximated by features that new samples have as well.

    Nystroem(n_components=r, random_state=s)    r samples z drawn at random    L_m = k_m(x, z) k_m(z, z)^{-1/2}
    r                                           pivoted Cholesky factorisation with r columns at most

Both approximate from below. The features are centred and scaled as `normalize` and `center` would centre and scale
their kernel, by statistics of the training samples in which k(x, x) is that of the kernel itself. A fitted model keeps
w_mp = L_m'beta_p, of r_m numbers, and of the samples those that the features need:

    f_mp(x) = theta_pm L_m(x) w_mp
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import wraps
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.kernel_approximation import Nystroem
from sklearn.utils import check_random_state
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from mklref._typing import Array
from mklref._validate import checked_count, shown
from mklref.estimators.blocks import different, joined
from mklref.exceptions import InvalidParameter, InvalidType
from mklref.kernels import FactorStack
from mklref.kernels.approximations import CholeskyFactor
from mklref.kernels.base import Kernel
from mklref.kernels.fitted import require_kernels
from mklref.kernels.transforms import VANISHING, Normalizer, Transform

BLOCK = 1 << 20
"""Entries of a matrix with a row for each of some samples: 8 MB."""
_FEWEST = 64
"""Rows of such a matrix, however many columns there are."""
_LEAST = 1e-12
"""Rounding of eigenvalues of k(z, z) beside the largest."""
_NO_FEATURES = (
    "transform gives the features of approximated kernels with common weights: fit with "
    "approximation=Nystroem(n_components=300) and multiclass='joint'."
)


class NystroemFactor:
    """Rows k(x, z) U S^{-1/2} of samples x, where U S U' = k(z, z) of some training samples z."""

    def __init__(self, kernel: Kernel, points: Array) -> None:
        self.kernel, self.points = kernel, points
        among = kernel.checked_cross(points, points)
        values, vectors = np.linalg.eigh(0.5 * (among + among.T))
        seen = values > max(_LEAST * values[-1], 0.0)
        self.root = vectors[:, seen] / np.sqrt(values[seen]) if seen.any() else np.zeros((len(points), 1))

    @np.errstate(under="ignore")
    def transform(self, X: Array) -> Array:
        """Rows of L, (k, rank)."""
        return np.asarray(self.kernel.checked_cross(X, self.points) @ self.root)


@dataclass(frozen=True)
class Features:
    """The normalised features of one kernel: factor (phi(x) - mean), of length 1 where they are spherical."""

    maker: Any
    mean: Any = 0.0
    factor: float = 1.0
    spherical: bool = False

    def __call__(self, X: Array) -> Array:
        """The rows of samples X."""
        return self.normalized(self.maker.transform(X), self.maker.kernel.diagonal(X))

    @np.errstate(under="ignore")
    def normalized(self, raw: Array, diagonal: Array) -> Array:
        """The rows of features that are there already, with k(x, x) of their samples."""
        rows = np.asarray(self.factor * (raw - self.mean))
        if not self.spherical:
            return rows
        centred = np.any(self.mean)
        own = diagonal - 2.0 * raw @ self.mean + self.mean @ self.mean if centred else diagonal
        lengths = np.sqrt(np.maximum(own, 0.0))[:, None]
        return np.asarray(np.divide(rows, lengths, out=np.zeros_like(rows), where=lengths > 0.0))


@dataclass(frozen=True)
class FactorFamily:
    """What a fitted estimator keeps of kernels as factors."""

    features: tuple[Features, ...]
    transforms: tuple[Transform, ...]
    """Which of them are constant."""
    images: tuple[Array, ...] = ()
    """w_m (r_m, P) of each kernel."""

    centred = False
    """No mean over training samples is left to take."""

    @np.errstate(under="ignore")
    def of(self, stack: FactorStack, dual: Array, columns: Any) -> FactorFamily:
        """With the images of beta (P, s) of the samples in these columns of the stack."""
        beta = np.zeros((stack.shape[1], len(dual)))
        beta[columns] = dual.T
        return replace(self, images=tuple(np.split(stack.transposed(beta), np.cumsum(stack.ranks)[:-1])))

    def reduced(self, samples: Any, kernels: Any) -> FactorFamily:
        """With these kernels alone; samples are not kept."""
        own: dict[str, Any] = {
            name: tuple(getattr(self, name)[m] for m in kernels) for name in ("features", "transforms", "images")
        }
        return replace(self, **own)


def checked_approximation(approximation: Any) -> None:
    """Refuse what is neither None, nor a number of columns, nor Nystroem."""
    if approximation is None:
        return
    if isinstance(approximation, int | np.integer) and not isinstance(approximation, bool):
        checked_count("approximation", approximation, 1, "columns of each factor.")
        return
    if not isinstance(approximation, Nystroem):
        raise InvalidType(
            f"approximation is {shown(approximation)}; give sklearn.kernel_approximation.Nystroem(n_components=300), "
            "whose kernels are those of `kernels`, a number of columns for pivoted Cholesky factorisation, or None. "
            "Other features make a mklref.kernels.factors(...), for mklref.solve."
        )
    checked_count("n_components of approximation", approximation.n_components, 1, "columns of each factor.")


@np.errstate(under="ignore")
def approximated(
    kernels: Sequence[Kernel], names: Sequence[str], X: Array, approximation: Any, how: Normalizer
) -> tuple[FactorStack, FactorFamily]:
    """The normalised features of training samples X (n, d), in memory, and those of new ones."""
    require_kernels(kernels, names, X)
    if isinstance(approximation, Nystroem):
        random, count = check_random_state(approximation.random_state), min(approximation.n_components, len(X))
        points = X[np.sort(random.permutation(len(X))[:count])]
        makers: list[Any] = [NystroemFactor(kernel, points) for kernel in kernels]
    else:
        makers = [CholeskyFactor(kernel, int(approximation), _LEAST).fit(X) for kernel in kernels]
    features, transforms = [], []
    ranks = [maker.transform(X[:1]).shape[1] for maker in makers]
    joined = np.empty((len(X), sum(ranks)))  # of which blocks of rows are read at once
    rows = np.split(joined, np.cumsum(ranks)[:-1], axis=1)
    for maker, name, part in zip(makers, names, rows, strict=True):
        raw = np.concatenate([maker.transform(X[some]) for some in row_blocks(*part.shape)])
        diagonal = maker.kernel.diagonal(X)
        own, constant = _normalized(maker, raw, diagonal, how, f"kernel {name!r}")
        features.append(own)
        transforms.append(VANISHING if constant else Transform())
        part[:] = own.normalized(raw, diagonal)
    return FactorStack(rows, names), FactorFamily(tuple(features), tuple(transforms))


def row_blocks(n: int, columns: int) -> list[slice]:
    """Some of n rows at a time, in order, so that a matrix of so many columns with these rows is small."""
    step = max(_FEWEST, BLOCK // max(1, columns))
    return [slice(start, start + step) for start in range(0, n, step)]


def _normalized(maker: Any, raw: Array, diagonal: Array, how: Normalizer, label: str) -> tuple[Features, bool]:
    """The features by the statistics that `Normalizer` takes of the matrix; whether the kernel is constant."""
    spherical = how.method == "spherical"  # of which the features themselves take the lengths
    mean = np.average(raw, axis=0, weights=how.weight)
    statistics = replace(how, method="trace") if spherical else how
    found = statistics.of_statistics(diagonal, raw @ mean, np.float64, label)
    if found is VANISHING:
        return Features(maker, factor=0.0), True
    factor = 1.0 if spherical or found.scale is None else found.scale**0.5
    return Features(maker, mean if how.center else 0.0, factor, spherical), False


def _has_features(model: Any) -> bool:
    """Whether there is a `transform`."""
    if model.approximation is None or getattr(model, "multiclass", "joint") == "independent":
        raise AttributeError(_NO_FEATURES)
    return True


class WithFeatures(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """The learned features of new samples, for an estimator whose kernels may be approximated."""

    def transform(self, X: Any) -> Any:
        """The weighted features sqrt(theta_m) L_m of new samples, side by side, for kernels that are approximated.

        Inner products of these rows are those of the learned kernel, so that a pipeline can go on with them.

        Returns
        -------
        array (k, sum of the r_m of the kernels with a weight), or the data frame that `set_output` asks for

        Raises
        ------
        AttributeError
            There is no `approximation`, or machines have weights of their own.
        InvalidParameter
            It was so when the model was fitted.
        """
        check_is_fitted(self)
        if not isinstance(self._new_kernels, FactorFamily) or self.weights_.ndim > 1:
            raise InvalidParameter(_NO_FEATURES)
        X, own = self._checked_new(X), self._new_kernels.features
        weights = np.sqrt(self.weights_[self._active])
        found = np.empty((len(X), sum(len(image) for image in self._new_kernels.images)))
        for rows in row_blocks(len(X), found.shape[1]):
            found[rows] = np.hstack([w * one(X[rows]) for w, one in zip(weights, own, strict=True)] or [found[rows]])
        return found

    @available_if(_has_features)  # type: ignore[untyped-decorator]
    def get_feature_names_out(self, input_features: Any = None) -> Any:
        """KERNEL_j for column j of the features of a kernel."""
        OneToOneFeatureMixin.get_feature_names_out(self, input_features)  # which checks the input
        names, parts = different(self.kernel_names_), zip(self._active, self._new_kernels.images, strict=True)
        return np.array([f"{names[m]}_{j}" for m, w in parts for j in range(len(w))], dtype=object)

    def fit_transform(self, X: Any, y: Any = None, sample_weight: Any = None) -> Any:
        """`fit`, and the features of the training samples."""
        return self.fit(X, y, sample_weight=sample_weight).transform(X)

    def __sklearn_tags__(self) -> Any:
        """Those of an estimator: no transformer before all else."""
        return super(TransformerMixin, self).__sklearn_tags__()


def _with_rows(wrapped: Any) -> Any:
    """A method whose frames have the index of samples in blocks, where there are features at all.

    Afterwards, for scikit-learn wraps what a class defines, and would hide whether it is available.
    """

    @wraps(wrapped)
    def method(self: Any, X: Any, *args: Any, **kwargs: Any) -> Any:
        made, index = wrapped(self, X, *args, **kwargs), getattr(joined(X), "index", None)
        return made.set_axis(index) if hasattr(made, "set_axis") and hasattr(index, "equals") else made

    return available_if(_has_features)(method)


for _name in ("transform", "fit_transform"):
    setattr(WithFeatures, _name, _with_rows(getattr(WithFeatures, _name)))
