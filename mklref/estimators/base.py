"""What the estimators have in common: kernels, weights of samples, the fit, scores, and the parameters' meaning."""

from __future__ import annotations

import numbers
import warnings
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import (
    _check_sample_weight,
    check_consistent_length,
    check_is_fitted,
    column_or_1d,
    validate_data,
)

from mklref._typing import Array
from mklref.certificate import Bounds
from mklref.estimators.gram import PRECOMPUTED, NewKernels, fit_family, fit_precomputed, n_precomputed
from mklref.estimators.persistence import Persistent, variables_of
from mklref.exceptions import InvalidInput, InvalidParameter, InvalidType
from mklref.kernels import KernelStack
from mklref.kernels.fitted import as_texts
from mklref.kernels.functions import grouped
from mklref.multiclass import MulticlassSolution
from mklref.regularizers import Groups, Lp, Regularizer, as_regularizer
from mklref.solution import Solution, Status


class BaseMKL(Persistent, BaseEstimator):  # type: ignore[misc]
    """Fit of kernels and of the machine on them; see the classes for users."""

    kernels: Any
    norm: Any
    normalize: Any
    center: bool
    tol: float
    max_iter: int
    verbose: bool

    weights_: Array
    dual_coef_: Array
    intercept_: Array
    support_: Any
    certificate_: Bounds | tuple[Bounds, ...]
    n_iter_: int
    kernel_names_: tuple[str, ...]
    kernel_groups_: dict[str, tuple[int, ...]]
    _new_kernels: NewKernels

    def _regularizer(self) -> Regularizer:
        """The regulariser that `norm` means: p of the norm of the weights, a name, or an instance.

        "groups" are those of the fitted kernels.
        """
        norm: Any = self.norm
        if isinstance(norm, str) and norm == "groups":
            if self._is_precomputed():
                raise InvalidParameter(
                    "norm = 'groups' takes the groups of variables of the kernels, which precomputed ones do not tell: "
                    "give mklref.Groups([[0, 1], [2], ...], 0.5, 0.5)."
                )
            return Groups(list(self.kernel_groups_.values()), 0.5, 0.5)
        if not isinstance(norm, bool) and isinstance(norm, numbers.Real):
            return Lp(float(norm))
        if not isinstance(norm, str | Regularizer):
            raise InvalidType(
                f"norm is {self.norm!r} ({type(self.norm).__name__}); give p in [1, inf], a name such as 'uniform', "
                "or a regulariser such as mklref.ElasticNet(0.5)."
            )
        return as_regularizer(self.norm)

    def _checked(self, X: Any, y: Any, **checks: Any) -> tuple[Any, Any]:
        """X and y as scikit-learn validates them; precomputed kernels, which it does not know, as they are."""
        if not self._is_precomputed():
            texts = self._texts(X)
            if texts is None:
                X, y = validate_data(self, X, y, dtype=np.float64, ensure_min_samples=2, **checks)
                return X, y
            y = column_or_1d(y, warn=True)
            check_consistent_length(texts, y)
            return texts, y
        X, y = self._checked_samples(X), column_or_1d(y, warn=True)
        if len(y) != self.n_features_in_:
            raise InvalidInput(
                f"y has {len(y)} entries, X of shape {np.shape(X)} holds kernels of {self.n_features_in_} samples; "
                "with kernels='precomputed' it has shape (M, n, n) or (n, n, M)."
            )
        return X, y

    def _checked_samples(self, X: Any) -> Any:
        """X alone, in the same way."""
        if not self._is_precomputed():
            texts = self._texts(X)
            return validate_data(self, X, dtype=np.float64, ensure_min_samples=2) if texts is None else texts
        self.n_features_in_ = n_precomputed(X)
        return X

    def _texts(self, X: Any) -> Any:
        """Texts, which scikit-learn does not check, as a matrix; None for anything else."""
        texts = as_texts(X)
        if texts is not None:
            self.n_features_in_ = texts.shape[1]
        return texts

    def _is_precomputed(self) -> bool:
        return isinstance(self.kernels, str) and self.kernels == PRECOMPUTED

    def _used(self, sample_weight: Any, X: Any) -> tuple[Any, Array | None]:
        """Indices of the samples with a positive weight, and their weights, or None if all are equal to 1."""
        n = int(self.n_features_in_) if self._is_precomputed() else len(X)
        if sample_weight is None:
            return np.arange(n), None
        weight = _check_sample_weight(sample_weight, np.empty((n, 0)), dtype=np.float64)
        if weight.min() < 0.0:
            i = int(weight.argmin())
            raise InvalidParameter(f"sample_weight[{i}] = {weight[i]:g} is negative; give 0 to leave a sample out.")
        kept = np.flatnonzero(weight)
        if len(kept) < 2:
            raise InvalidParameter(f"{len(kept)} of {n} sample weights are positive; at least two have to be.")
        return kept, weight[kept]

    def _fit_kernels(self, X: Any, kept: Any) -> KernelStack:
        """Training matrices of the samples that are kept; remembers what new samples need."""
        if not isinstance(self.center, bool | np.bool_):
            raise InvalidType(f"center is {self.center!r}; give True or False.")
        if self._is_precomputed():
            grams, self._new_kernels = fit_precomputed(X, kept, self.normalize, bool(self.center))
        else:
            names = getattr(self, "feature_names_in_", None)
            grams, fitted = fit_family(self.kernels, X[kept], names, self.normalize, bool(self.center))
            self._new_kernels = fitted
            self.kernel_groups_ = grouped(fitted.kernels, variables_of(self))
        self.kernel_names_ = tuple(getattr(grams, "names", ()))
        return grams

    def _keep(
        self, solutions: list[Solution] | list[MulticlassSolution], dual: Array, weights: Array, kept: Any
    ) -> None:
        """Fitted attributes from dual variables (P, n) of the samples that were kept."""
        support = np.flatnonzero(np.any(dual != 0.0, axis=0))
        self._columns = support
        self.support_ = kept[support]
        self.dual_coef_ = dual[:, support]
        self.weights_ = weights
        self.intercept_ = np.concatenate([np.atleast_1d(solution.intercept) for solution in solutions])
        certificates = tuple(solution.certificate for solution in solutions)
        self.certificate_ = certificates if self.weights_.ndim == 2 else certificates[0]
        self.n_iter_ = max(len(solution.history) for solution in solutions)
        for solution in solutions:
            if solution.status is not Status.OPTIMAL:
                warnings.warn(
                    f"{type(self).__name__} did not reach tol = {self.tol:g}: {solution.status.value} "
                    f"{solution.certificate}",
                    ConvergenceWarning,
                    stacklevel=3,
                )

    def _scores(self, X: Any) -> Array:
        """f_p(x) = sum_m theta_pm sum_i beta_pi k_m(x_i, x) + b_p of each machine p, (k, P)."""
        check_is_fitted(self)
        if not self._is_precomputed() and as_texts(X) is None:
            X = validate_data(self, X, dtype=np.float64, reset=False)
        weights = np.atleast_2d(self.weights_)
        active = np.flatnonzero(weights.any(axis=0))
        # Of no active kernel the number of new samples is still to be known: the first one is read in any case.
        read = active if len(active) else np.array([0])
        scores: Any = 0.0
        for m, rows in zip(read, self._new_kernels.rows(X, read), strict=True):
            scores = scores + rows[:, self._columns] @ (weights[:, m, None] * self.dual_coef_).T
        return np.asarray(scores + self.intercept_)

    def _solver_options(self) -> dict[str, Any]:
        return {"tol": self.tol, "max_iter": self.max_iter, "progress": bool(self.verbose)}

    def __sklearn_tags__(self) -> Any:
        """Precomputed kernels have an axis of samples twice: cross-validation slices both."""
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = tags.input_tags.three_d_array = self._is_precomputed()
        return tags
