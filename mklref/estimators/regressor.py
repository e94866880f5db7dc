"""`MKLRegressor`: real targets."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import RegressorMixin

from mklref._names import require_one_order
from mklref._typing import Array
from mklref._validate import checked_flag, require_unmasked
from mklref.datasets.record import mean_and_deviation
from mklref.estimators.base import BaseMKL, Part
from mklref.estimators.samples import own_errors, readable, real_targets
from mklref.exceptions import InvalidParameter, InvalidTarget, UselessModelWarning, warn
from mklref.kernels import KernelStack
from mklref.losses import LOSSES, as_loss
from mklref.problem import Problem

LARGEST = 1e300
"""Of the targets: predictions may be a good deal larger."""


class MKLRegressor(RegressorMixin, BaseMKL):  # type: ignore[misc]
    """Regression with learned kernel weights, solved to a certified duality gap.

    minimise  C sum_i c_i V(t_i, y_i) + R(||f_1||, ..., ||f_M||),     t_i = sum_m f_m(x_i) + b

    Parameters
    ----------
    loss : str or Loss
        "epsilon_insensitive", "squared", "huber", "pinball", ...; mklref.EpsilonInsensitive(0.2) sets its parameter.
        Its scale is that of y, with scale_y that of y / y_scale_.
    scale_y : bool
        Whether the machine learns (y - y_mean_) / y_scale_, the targets in units of their standard deviation, so that
        C and the width of the tube mean the same for targets of any size. Predictions come in the units of y.
    kernels, norm, C, normalize, center, storage, approximation, tol, max_iter, max_time, random_state, verbose
        As for `MKLClassifier`.

    Attributes
    ----------
    dual_coef_, intercept_ : arrays (1, s) and (1,)
        Both in the units of y: predict = sum_m theta_m K_m dual_coef_ + intercept_.
    y_mean_, y_scale_ : float
        Mean and standard deviation of the targets, weighted by sample_weight; 0 and 1 without scale_y.
    certificate_ : Certificate
        Of the problem in the units of the machine.
    weights_, support_, n_iter_, storage_, kernel_names_, kernel_groups_, n_features_in_, feature_names_in_
        As for `MKLClassifier`.
    """

    C: float
    scale_y: bool
    y_mean_: float
    y_scale_: float

    def __init__(
        self,
        kernels: Any = "simplemkl",
        *,
        norm: Any = 1.0,
        C: float = 1.0,
        loss: Any = "epsilon_insensitive",
        normalize: str | None = "multiplicative",
        center: bool = False,
        scale_y: bool = True,
        storage: str = "auto",
        approximation: Any = None,
        tol: float = 1e-4,
        max_iter: int = 500,
        max_time: float | None = None,
        random_state: Any = None,
        verbose: bool = False,
    ) -> None:
        self._take_parameters(locals())

    def _checked_data(self, X: Any, y: Any) -> tuple[Any, Any]:
        checked_flag("scale_y", self.scale_y)
        loss = as_loss(self.loss)
        if loss.targets != "real":
            real = ", ".join(name for name, kind in LOSSES.items() if kind.targets == "real")
            raise InvalidParameter(f"loss {loss} takes no real targets; known are {real}.")
        X, y = self._checked(X, y)
        return X, real_targets(y)

    def _parts(self, grams: KernelStack, y: Any, weight: Array | None) -> list[Part]:
        if (largest := np.abs(y).max()) > LARGEST:
            raise InvalidTarget(
                f"y has values up to {largest:g}, beyond {LARGEST:g}: what is predicted of them may leave float64. "
                "Divide them by a power of ten."
            )
        self.y_mean_, self.y_scale_ = map(float, mean_and_deviation(y, weight) if self.scale_y else (0.0, 1.0))
        common: dict[str, Any] = {"C": self.C, "loss": self.loss, "regularizer": self._regularizer()}
        targets = (y - self.y_mean_) / self.y_scale_
        return [Part(Problem(grams, targets, sample_weight=weight, **common), np.arange(len(y)))]

    def _keep(self, *fitted: Any) -> None:
        super()._keep(*fitted)
        self.dual_coef_ = self.dual_coef_ * self.y_scale_
        self.intercept_ = self.intercept_ * self.y_scale_ + self.y_mean_

    def _warn_if_useless(self) -> None:
        if self.dual_coef_.any() and self.weights_.any():
            return
        why = "all targets are within the tube of the loss" if not self.dual_coef_.any() else "no kernel has a weight"
        scaled = "" if self.scale_y else "scale_y=True, "
        warn(
            f"{type(self).__name__} predicts {self.intercept_[0]:g} for every sample, because {why}: take {scaled}a "
            "narrower tube such as loss=mklref.EpsilonInsensitive(0.01), or a larger C, unless targets or samples are "
            "all the same.",
            UselessModelWarning,
        )

    def predict(self, X: Any) -> Array:
        """The value at each sample, (k,)."""
        return self._scores(X)[:, 0]

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """The coefficient of determination R^2."""
        require_unmasked(y=y, sample_weight=sample_weight)
        require_one_order({"X": X, "y": y, "sample_weight": sample_weight}, InvalidTarget)
        with own_errors():
            return float(super().score(X, readable(y, "y"), readable(sample_weight, "sample_weight")))
