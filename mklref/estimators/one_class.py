"""`MKLOneClass`: outlier detection."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import OutlierMixin

from mklref._typing import Array
from mklref._validate import checked_flag, checked_number
from mklref.estimators.base import BaseMKL, Part
from mklref.exceptions import InvalidParameter, UselessModelWarning, warn
from mklref.kernels import KernelStack
from mklref.losses import OneClass
from mklref.problem import Problem

_ROUNDING = 1e-10
"""Support vectors lie on the boundary; on which side of it rounding puts them says nothing."""


class MKLOneClass(OutlierMixin, BaseMKL):  # type: ignore[misc]
    """The nu one-class machine with learned kernel weights (SimpleMKL (17)), solved to a certified duality gap.

    minimise  C sum_i c_i max(0, -t_i) + R(||f_1||, ..., ||f_M||) + b,     C = 1/(nu sum_i c_i)

    Parameters
    ----------
    nu : float
        In (0, 1]: at most this share of the training samples lies outside, at least this share is support vectors.
        It takes the place of C.
    center : bool
        False, unless normalize="spherical": centred samples surround the origin, from which nothing tells them.
    kernels, norm, normalize, storage, tol, max_iter, max_time, random_state, verbose
        As for `MKLClassifier`. The regulariser may not be homogeneous of degree 1.

    Attributes
    ----------
    dual_coef_ : array (1, s)
        They sum to 1; scikit-learn's `OneClassSVM` scales its problem so that they sum to nu n.
    offset_ : float
        -intercept_: decision_function = score_samples - offset_.
    weights_, support_, intercept_, certificate_, n_iter_, storage_, kernel_names_, kernel_groups_, ...
        All others are as for `MKLClassifier`.
    """

    nu: float

    def __init__(
        self,
        kernels: Any = "simplemkl",
        *,
        norm: Any = 1.0,
        nu: float = 0.5,
        normalize: str | None = "multiplicative",
        center: bool = False,
        storage: str = "auto",
        tol: float = 1e-4,
        max_iter: int = 500,
        max_time: float | None = None,
        random_state: Any = None,
        verbose: bool = False,
    ) -> None:
        self._take_parameters(locals())

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Learn kernel weights and the region; y is ignored, the rest as for `MKLClassifier.fit`.

        Warns
        -----
        UselessModelWarning
            The region is everything.
        """
        return super().fit(X, y, sample_weight)

    def _checked_data(self, X: Any, y: Any) -> tuple[Any, Any]:
        """Samples, and 1 for each as its target."""
        checked_number("nu", self.nu, "(0, 1]", "the share of samples that may lie outside.")
        if (
            checked_flag("center", self.center) and self.normalize != "spherical"
        ):  # beta_i = c_i / sum c is feasible, K_m beta = 0
            raise InvalidParameter(
                "center = True leaves a one-class machine nothing to tell: the origin is the mean of the samples, and "
                "f = 0 is optimal for every nu; give center=False."
            )
        X = self._checked(X)
        return X, np.ones(self.n_features_in_ if self._is_precomputed() else X.shape[0])

    def _parts(self, grams: KernelStack, y: Any, weight: Array | None) -> list[Part]:
        total = float(len(y) if weight is None else weight.sum())
        common: dict[str, Any] = {"loss": OneClass(), "regularizer": self._regularizer(), "sample_weight": weight}
        return [Part(Problem(grams, y, C=1.0 / (float(self.nu) * total), **common), np.arange(len(y)))]

    def _warn_if_useless(self) -> None:
        if not self.weights_.any():
            warn(
                "MKLOneClass calls every sample an inlier, because the training samples surround the origin of each "
                "kernel's features, as standardised ones do for linear kernels, or lie there: take one such as rbf.",
                UselessModelWarning,
            )

    @property
    def offset_(self) -> float:
        """-intercept_."""
        return -float(self.intercept_[0])

    def decision_function(self, X: Any) -> Array:
        """How far inside each sample lies, (k,); negative outside, 0 for what cannot be told from it."""
        scores = self._scores(X)[:, 0]
        return np.where(np.abs(scores) > _ROUNDING * abs(float(self.intercept_[0])), scores, 0.0)

    def score_samples(self, X: Any) -> Array:
        """decision_function + offset_, (k,)."""
        return self.decision_function(X) + self.offset_

    def predict(self, X: Any) -> Any:
        """1 inside, -1 outside, (k,)."""
        return np.where(self.decision_function(X) >= 0.0, 1, -1)
