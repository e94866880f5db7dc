"""`MKLRegressor`: real targets."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import RegressorMixin

from mklref._typing import Array
from mklref.estimators.base import BaseMKL, Part
from mklref.exceptions import InvalidParameter
from mklref.kernels import KernelStack
from mklref.losses import LOSSES, as_loss
from mklref.problem import Problem


class MKLRegressor(RegressorMixin, BaseMKL):  # type: ignore[misc]
    """Regression with learned kernel weights, solved to a certified duality gap.

    minimise  C sum_i c_i V(t_i, y_i) + R(||f_1||, ..., ||f_M||),     t_i = sum_m f_m(x_i) + b

    Parameters
    ----------
    loss : str or Loss
        "epsilon_insensitive", "squared", "huber", "pinball", ...; mklref.EpsilonInsensitive(0.2) sets its parameter.
        Its scale is that of y.
    kernels, norm, C, normalize, center, tol, max_iter, random_state, verbose
        As for `MKLClassifier`.

    Attributes
    ----------
    weights_ : array (M,)
        Kernel weights.
    support_ : array (s,)
        Indices of the training samples with a nonzero dual variable.
    dual_coef_ : array (1, s)
    intercept_ : array (1,)
    certificate_ : Certificate
    n_iter_ : int
    kernel_names_ : tuple of str
    n_features_in_ : int
    feature_names_in_ : array of str
        Only if X is a data frame.
    """

    def __init__(
        self,
        kernels: Any = "simplemkl",
        *,
        norm: Any = 1.0,
        C: float = 1.0,
        loss: Any = "epsilon_insensitive",
        normalize: str | None = "multiplicative",
        center: bool = False,
        tol: float = 1e-4,
        max_iter: int = 500,
        random_state: Any = None,
        verbose: bool = False,
    ) -> None:
        self.kernels = kernels
        self.norm = norm
        self.C = C
        self.loss = loss
        self.normalize = normalize
        self.center = center
        self.tol = tol
        self.max_iter = max_iter
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> MKLRegressor:
        """Learn kernel weights and the function.

        Parameters
        ----------
        X : array or data frame (n, d); Gram matrices (M, n, n) or (n, n, M) if precomputed
        y : array (n,)
            Real targets.
        sample_weight : array (n,), optional
            Nonnegative factors of C.

        Raises
        ------
        InvalidInput, InvalidType, ValueError
            Whatever is wrong with data and parameters, and what to do.

        Warns
        -----
        ConvergenceWarning
            tol was not reached; says why.
        """
        with self._fitting():
            X, y, kept, weight = self._checked_data(X, y, sample_weight)
            self._fit_parts(self._parts(self._normalized(self._raw_kernels(X, kept)), y[kept], weight), kept)
        return self

    def _checked_data(self, X: Any, y: Any, sample_weight: Any) -> tuple[Any, Any, Any, Array | None]:
        """X and y, the samples with a positive weight, and their weights."""
        loss = as_loss(self.loss)
        if loss.targets != "real":
            real = ", ".join(name for name, kind in LOSSES.items() if kind.targets == "real")
            raise InvalidParameter(f"loss {loss} takes no real targets; known are {real}.")
        X, y = self._checked(X, y, y_numeric=True)
        return X, y, *self._used(sample_weight, X)

    def _parts(self, grams: KernelStack, y: Any, weight: Array | None) -> list[Part]:
        """One problem."""
        common: dict[str, Any] = {"C": self.C, "loss": self.loss, "regularizer": self._regularizer()}
        return [Part(Problem(grams, y, sample_weight=weight, **common), np.arange(len(y)))]

    def predict(self, X: Any) -> Array:
        """The value at each sample, (k,)."""
        return self._scores(X)[:, 0]
