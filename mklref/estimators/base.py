"""What the estimators have in common: kernels, weights of samples, the fit, scores, and the parameters' meaning."""

from __future__ import annotations

import numbers
import warnings
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import (
    _check_feature_names,
    _check_sample_weight,
    check_consistent_length,
    check_is_fitted,
    column_or_1d,
)

from mklref._typing import Array
from mklref.certificate import Bounds
from mklref.estimators.gram import (
    PRECOMPUTED,
    NewKernels,
    n_precomputed,
    normalized,
    raw_family,
    raw_precomputed,
)
from mklref.estimators.persistence import Persistent, variables_of
from mklref.estimators.validated import named, own_errors, require_unmasked, validated
from mklref.exceptions import InvalidInput, InvalidParameter, InvalidType
from mklref.kernels import ArrayStack, FittedFamily
from mklref.kernels.fitted import as_texts
from mklref.kernels.functions import grouped
from mklref.kernels.transforms import checked_method
from mklref.multiclass import MulticlassProblem
from mklref.native import solve
from mklref.problem import Problem
from mklref.regularizers import NAMED, Groups, Lp, Regularizer, as_regularizer
from mklref.solution import Status


class Part(NamedTuple):
    """One of the problems that a fit solves."""

    problem: Problem | MulticlassProblem
    samples: Any
    """Indices of its samples among those that were kept."""


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
        if isinstance(norm, str) and norm not in NAMED:
            raise InvalidParameter(
                f"norm = {norm!r} is unknown; give p as a number in [1, inf], one of the names "
                f"{', '.join(NAMED)} and groups, or a regulariser such as mklref.ElasticNet(0.5)."
            )
        if not isinstance(norm, str | Regularizer):
            raise InvalidType(
                f"norm is {self.norm!r} ({type(self.norm).__name__}); give p in [1, inf], a name such as 'uniform', "
                "or a regulariser such as mklref.ElasticNet(0.5)."
            )
        return as_regularizer(self.norm)

    def _checked(self, X: Any, y: Any, **checks: Any) -> tuple[Any, Any]:
        """X and y as scikit-learn validates them; precomputed kernels, which it does not know, as they are."""
        require_unmasked(X=X, y=y)
        if not self._is_precomputed():
            texts = self._texts(X)
            if texts is None:
                names = named(X)
                X, y = validated(self, X, y, ensure_min_samples=2, **checks)
                if names is not None:
                    self.feature_names_in_ = names
                return X, y
            with own_errors():
                y = column_or_1d(y, warn=True)
                check_consistent_length(texts, y)
            return texts, y
        X = self._checked_samples(X)
        with own_errors():
            y = column_or_1d(y, warn=True)
        if len(y) != self.n_features_in_:
            raise InvalidInput(
                f"y has {len(y)} entries, X of shape {np.shape(X)} holds kernels of {self.n_features_in_} samples; "
                "with kernels='precomputed' it has shape (M, n, n) or (n, n, M)."
            )
        return X, y

    def _checked_samples(self, X: Any) -> Any:
        """X alone, in the same way."""
        require_unmasked(X=X)
        if not self._is_precomputed():
            texts = self._texts(X)
            return validated(self, X, ensure_min_samples=2) if texts is None else texts
        self.n_features_in_ = n_precomputed(X)
        return X

    def _texts(self, X: Any) -> Any:
        """Texts, which scikit-learn does not check, as a matrix; None for anything else."""
        texts = as_texts(X)
        if texts is not None:
            _check_feature_names(self, X, reset=True)
            self.n_features_in_ = texts.shape[1]
        return texts

    def _is_precomputed(self) -> bool:
        return isinstance(self.kernels, str) and self.kernels == PRECOMPUTED

    def _used(self, sample_weight: Any, X: Any) -> tuple[Any, Array | None]:
        """Indices of the samples with a positive weight, and their weights, or None if all are equal to 1."""
        n = int(self.n_features_in_) if self._is_precomputed() else len(X)
        if sample_weight is None:
            return np.arange(n), None
        require_unmasked(sample_weight=sample_weight)
        with own_errors():
            weight = _check_sample_weight(sample_weight, np.empty((n, 0)), dtype=np.float64)
        if weight.min() < 0.0:
            i = int(weight.argmin())
            raise InvalidParameter(f"sample_weight[{i}] = {weight[i]:g} is negative; give 0 to leave a sample out.")
        kept = np.flatnonzero(weight)
        if len(kept) < 2:
            raise InvalidParameter(f"{len(kept)} of {n} sample weights are positive; at least two have to be.")
        return kept, weight[kept]

    def _raw_kernels(self, X: Any, kept: Any) -> ArrayStack:
        """Training matrices of the samples that are kept, not yet normalised; remembers what new samples need."""
        if not isinstance(self.center, bool | np.bool_):
            raise InvalidType(f"center is {self.center!r}; give True or False.")
        method = None if self.normalize is None else checked_method(self.normalize)
        if self._is_precomputed():
            if method == "spherical":
                raise InvalidParameter(
                    "normalize = 'spherical' needs k(x, x) of new samples, which precomputed kernels do not tell: "
                    "apply mklref.kernels.normalize(K, 'spherical', K_new, diagonal_new) first; give normalize=None."
                )
            grams, self._new_kernels = raw_precomputed(X, kept)
            self.__dict__.pop("kernel_groups_", None)  # of an earlier fit
        else:
            grams, fitted = raw_family(self.kernels, X[kept], getattr(self, "feature_names_in_", None))
            self._new_kernels = fitted
            self.kernel_groups_ = grouped(fitted.kernels, variables_of(self))
        self.kernel_names_ = grams.names
        return grams

    def _normalized(self, raw: ArrayStack) -> ArrayStack:
        """The matrices that are learned with; those of `raw` are not needed after it."""
        grams, self._new_kernels = normalized(raw, self._new_kernels, self.normalize, bool(self.center))
        return grams

    def _fit_parts(self, parts: list[Part], kept: Any) -> list[Any]:
        """Solve the problems and keep the machines; returns the solutions."""
        self._remember_parameters()
        solutions = [solve(part.problem, **self._solver_options()) for part in parts]
        self._keep(parts, solutions, kept)
        for solution in solutions:
            if solution.status is not Status.OPTIMAL:
                warnings.warn(
                    f"{type(self).__name__} did not reach tol = {self.tol:g}: {solution.status.value} "
                    f"{solution.certificate}",
                    ConvergenceWarning,
                    stacklevel=3,
                )
        return solutions

    def _keep(self, parts: list[Part], solutions: list[Any], kept: Any) -> None:
        """Fitted attributes from the solutions on the samples that were kept."""
        rows = []
        for part, solution in zip(parts, solutions, strict=True):
            own = np.atleast_2d(solution.dual_coef)
            rows.append(np.zeros((len(own), len(kept))))
            rows[-1][:, part.samples] = own
        dual = np.concatenate(rows)
        self._columns = np.flatnonzero(np.any(dual != 0.0, axis=0))
        self.support_ = kept[self._columns]
        self.dual_coef_ = dual[:, self._columns]
        self.intercept_ = np.concatenate([np.atleast_1d(solution.intercept) for solution in solutions])
        self.n_iter_ = max(len(solution.history) for solution in solutions)
        weights, certificates = zip(*((own.weights, own.certificate) for own in solutions), strict=True)
        self.weights_ = weights[0] if len(parts) == 1 else np.stack(weights)
        self.certificate_ = certificates[0] if len(parts) == 1 else certificates

    def _checked_new(self, X: Any) -> Any:
        """New samples with the columns of the training samples; precomputed kernels as they are."""
        require_unmasked(X=X)
        if not isinstance(self._new_kernels, FittedFamily):
            return X
        if as_texts(X) is not None:
            _check_feature_names(self, X, reset=False)
            return X
        names = named(X)
        if names is not None and not np.array_equal(names, variables_of(self)):
            known = ", ".join(variables_of(self)[:8])
            raise InvalidInput(
                f"X has the columns {', '.join(names[:8])}, the model was fitted to {known}; give the same columns "
                "in the same order."
            )
        with warnings.catch_warnings():
            if names is not None:
                warnings.filterwarnings("ignore", message="X does not have valid feature names")
            return validated(self, X, reset=False)

    def _scores(self, X: Any) -> Array:
        """f_p(x) = sum_m theta_pm sum_i beta_pi k_m(x_i, x) + b_p of each machine p, (k, P)."""
        check_is_fitted(self)
        X = self._checked_new(X)
        weights = np.atleast_2d(self.weights_)
        active = np.flatnonzero(weights.any(axis=0))
        # Of no active kernel the number of new samples is still to be known: the first one is read in any case.
        read = active if len(active) else np.array([0])
        coefficients = None
        scores = np.asarray(self.intercept_, dtype=np.float64)
        for m, rows in zip(read, self._new_kernels.rows(X, read), strict=True):
            if coefficients is None:
                coefficients = np.zeros((rows.shape[1], len(self.dual_coef_)))
                coefficients[self._columns] = self.dual_coef_.T
            scores = scores + weights[:, m] * (rows @ coefficients)
        return scores

    def _solver_options(self) -> dict[str, Any]:
        return {"tol": self.tol, "max_iter": self.max_iter, "progress": bool(self.verbose)}

    def __sklearn_tags__(self) -> Any:
        """Precomputed kernels have an axis of samples twice: cross-validation slices both."""
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = tags.input_tags.three_d_array = self._is_precomputed()
        return tags
