"""`MKLClassifierCV` and `MKLRegressorCV`: C and the norm of the weights chosen by cross-validation.

What a search by refitting does again and again is done once here:

    kernels     evaluated once; the matrices of a fold are slices of them, K[train, train] and K[test, train],
                normalised and centred with the statistics of the training samples of the fold alone
    solutions   along descending C each one starts from the one before (SimpleMKL 4.4), and the first one of a norm
                from the first one of the norm before; where no dual variable has met its bound C c_i, the solution
                is the same
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Self, cast

import numpy as np
from joblib import Parallel, delayed, effective_n_jobs
from sklearn.base import is_classifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import check_cv
from sklearn.utils.validation import check_is_fitted

from mklref._progress import Steps
from mklref._typing import Array
from mklref._validate import check_limits
from mklref.certificate.verdict import saved
from mklref.estimators.base import BaseMKL, warn_of_constant
from mklref.estimators.classifier import MKLClassifier
from mklref.estimators.folds import Fold, Point, folds_of, memberships, points_of_fold, require_classes, splits_of
from mklref.estimators.persistence import from_plain, to_plain
from mklref.estimators.regressor import MKLRegressor
from mklref.estimators.workers import waited_for
from mklref.exceptions import InvalidParameter, SolverFailure, UnsafeFile
from mklref.machines.blas import blas_threads
from mklref.machines.loops import threads
from mklref.solution import require_names

RULES = ("best", "one_standard_error")


class Searching:
    """What the two searches have in common: the grid, the folds, the choice, and the last fit."""

    Cs: Any
    norms: Any
    cv: Any
    scoring: Any
    rule: str
    n_jobs: int | None

    C_: float
    norm_: Any
    best_estimator_: Any
    best_index_: int
    best_score_: float
    n_splits_: int
    cv_results_: dict[str, Any]

    def _fit_best(self, kind: type[BaseMKL], X: Any, y: Any, sample_weight: Any, groups: Any) -> Self:
        """Search, then fit the chosen model to all samples, whose fitted attributes become those of the search."""
        own = cast(Any, self)
        if self.rule not in RULES:
            raise InvalidParameter(f"rule = {self.rule!r} is unknown; known are {', '.join(RULES)}.")
        if isinstance(self.scoring, list | tuple | set | dict):
            raise InvalidParameter(f"scoring = {self.scoring!r} holds several measures; give the one to choose by.")
        Cs, norms = _values_of_C(self.Cs), _norms(self.norms)
        check_limits(own.tol, "a relative duality gap", own.max_iter, None)
        shared = {name: value for name, value in own.get_params(deep=False).items() if name in kind().get_params()}
        model: Any = kind(**{**shared, "verbose": False, "storage": "memory"}).set_params(C=float(Cs[0]), norm=norms[0])
        X, y = model._checked_data(X, y)
        splits = splits_of(check_cv(self.cv, y, classifier=is_classifier(own)), y, groups)
        kept = model._kept(X, sample_weight, y, memberships(splits, len(y)))
        folds = folds_of(splits, kept, y, None if sample_weight is None else np.asarray(sample_weight, dtype=float))
        y, weight = y[kept.indices], kept.weight
        if is_classifier(own):
            model._require_targets(y)
            require_classes(folds, y)
        model._folds_at_a_time = (len(folds), min(effective_n_jobs(self.n_jobs), len(folds)))
        raw = model._raw_kernels(X, kept)
        regularizers = [model.set_params(norm=norm)._regularizer() for norm in norms]
        scores = self._scores_of_grid(model, raw.dense(), y, weight, folds, regularizers, Cs)
        self.n_splits_ = len(folds)
        self._tabulate(scores, Cs, norms)
        model.set_params(C=self.C_, norm=self.norm_, verbose=own.verbose)
        model._fit_parts(model._parts(model._normalized(raw, weight), y, weight), kept)
        _warn_of_folds([point.constant for point in scores[0][0]], model.kernel_names_)
        self._take(model)
        return self

    def content(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """That of `best_estimator_`, whose class loads it too, and what the search has found.

        Parameters that are no plain values, such as splitters, are not written, and have their defaults when loaded.
        """
        check_is_fitted(self)
        arrays, facts = cast(BaseMKL, self.best_estimator_).content()
        table = self.cv_results_
        facts["search"] = {
            "parameters": _plain_ones(cast(Any, self).get_params(deep=False)),
            "results": {
                name: _listed(column) for name, column in table.items() if name not in ("params", "param_norm")
            },
            "norms": to_plain(list(table["param_norm"]), "norms"),
            "best_index": self.best_index_,
            "n_splits": self.n_splits_,
        }
        return arrays, facts

    @classmethod
    def _loaded(cls, arrays: dict[str, Any], facts: dict[str, Any], path: Any) -> Self:
        kind = cast(Any, cls).__mro__[2]
        model = kind._loaded(arrays, facts, path)
        if "search" not in facts:
            raise UnsafeFile(f"{path} holds a {kind.__name__} and no search; load it with {kind.__name__}.load.")
        try:
            found = saved(facts, "search", dict)
            require_names(found, ("parameters", "results", "norms", "best_index", "n_splits"), "facts of a search")
            own = cast(Any, cls(**{name: from_plain(value) for name, value in found["parameters"].items()}))
            results: dict[str, Any] = {
                name: np.array([np.nan if value is None else float(value) for value in column])
                for name, column in found["results"].items()
            }
            results["param_norm"] = list(from_plain(found["norms"]))
            pairs = zip(results["param_C"].tolist(), results["param_norm"], strict=True)
            results["params"] = [{"C": C, "norm": norm} for C, norm in pairs]
            own.cv_results_, own.n_splits_ = results, saved(found, "n_splits", int)
            own.best_index_ = saved(found, "best_index", int)
            own.best_score_ = float(results["mean_test_score"][own.best_index_])
            own.C_, own.norm_ = results["params"][own.best_index_].values()
        except (KeyError, TypeError, ValueError, IndexError, AttributeError) as damaged:
            raise UnsafeFile(f"{path} is not a saved {cls.__name__}: {damaged!r}.") from damaged
        own._take(model)
        return cast(Self, own)

    def _take(self, model: Any) -> None:
        """The fitted attributes of the chosen model as those of the search."""
        for name in ("feature_names_in_", "kernel_groups_"):  # not every fit sets them
            self.__dict__.pop(name, None)
        for name, value in vars(model).items():
            if name.endswith("_") or name in ("_columns", "_fitted_with", "_new_kernels"):
                setattr(self, name, value)
        self.best_estimator_ = model

    def _scores_of_grid(
        self, model: Any, raw: Array, y: Any, weight: Array | None, folds: list[Fold], regularizers: Any, Cs: Array
    ) -> list[list[list[Point]]]:
        """The points [C][norm][fold]."""
        workers = min(effective_n_jobs(self.n_jobs), len(folds))
        share = max(1, threads() // workers)
        progress = Steps(bool(cast(Any, self).verbose), type(self).__name__, len(folds))
        of_folds: list[list[list[Point]]] = []
        try:
            # BLAS is limited out here: its limit is one for all threads, and must outlive the first of them to end.
            with blas_threads(), waited_for() as token:
                parallel = Parallel(n_jobs=workers, return_as="generator", prefer="threads")
                for points in parallel(
                    delayed(points_of_fold)(model, raw, y, weight, fold, regularizers, Cs, self.scoring, share, token)
                    for fold in folds
                ):
                    of_folds.append(points)
                    progress.advance()
        except RuntimeError as lacking:
            if "can't start new thread" not in str(lacking):
                raise
            raise SolverFailure(f"n_jobs = {self.n_jobs}: no memory for {workers} threads; give n_jobs=1.") from lacking
        finally:
            progress.close()
        return [[[of_fold[r][c] for of_fold in of_folds] for r in range(len(regularizers))] for c in range(len(Cs))]

    def _tabulate(self, points: list[list[list[Point]]], Cs: Array, norms: list[Any]) -> None:
        """`cv_results_`, C by C and in each one norm by norm, and the choice."""
        grid = [(float(C), norm) for C in Cs for norm in norms]
        rows = [row for of_C in points for row in of_C]
        scores = np.array([[point.score for point in row] for row in rows])
        means = np.average(scores, axis=1)
        errors = scores.std(axis=1, ddof=1) / np.sqrt(scores.shape[1]) if scores.shape[1] > 1 else np.zeros(len(means))
        if np.isnan(means).all():
            f = int(np.isnan(scores).any(axis=0).argmax())
            raise InvalidParameter(
                f"scoring = {self.scoring!r} gives nan in fold {f}: give stratified or fewer folds, so that the test "
                "samples of each one have what it measures, or another scoring."
            )
        n_kernels = np.array([np.mean([point.n_kernels for point in row]) for row in rows])
        self.cv_results_ = {
            "params": [{"C": C, "norm": norm} for C, norm in grid],
            "param_C": np.array([C for C, _ in grid]),
            "param_norm": [norm for _, norm in grid],
            "mean_test_score": means,
            "std_test_score": scores.std(axis=1),
            "standard_error": errors,
            "rank_test_score": np.array([1 + int(np.sum(means > mean)) for mean in np.nan_to_num(means, nan=-np.inf)]),
            "n_kernels": n_kernels,
            "relative_gap": np.array([max(point.relative_gap for point in row) for row in rows]),
            **{f"split{f}_test_score": column for f, column in enumerate(scores.T)},
        }
        best = int(np.nanargmax(means))
        if self.rule == "one_standard_error":
            near = np.flatnonzero(means >= means[best] - errors[best])
            best = int(min(near, key=lambda index: (grid[index][0], n_kernels[index], index)))
        self.best_index_, self.best_score_ = best, float(means[best])
        self.C_, self.norm_ = grid[best]
        missed = sum(not point.optimal for row in rows for point in row)
        if missed:
            tol = cast(Any, self).tol
            warnings.warn(
                f"{missed} of {scores.size} fits in the folds did not reach tol = {tol:g}; the largest relative gap is "
                f"{self.cv_results_['relative_gap'].max():.1e}. Raise max_iter, or leave out large values of C.",
                ConvergenceWarning,
                stacklevel=4,
            )


def _plain_ones(parameters: dict[str, Any]) -> dict[str, Any]:
    """The parameters that JSON can hold."""
    plain = {}
    for name, value in parameters.items():
        with suppress(InvalidParameter):
            plain[name] = to_plain(value, name)
    return plain


def _listed(column: Any) -> list[float | None]:
    """Numbers as JSON can hold them."""
    return [float(value) if np.isfinite(value) else None for value in column]


def _warn_of_folds(constant: list[tuple[int, ...]], names: Sequence[str]) -> None:
    """Name the kernels that are constant in some folds; those that are so in all of them are named by the last fit."""
    everywhere = set[int]().intersection(*map(set, constant)) if len(constant) > 1 else set[int]()
    once = sorted({m for fold in constant for m in fold} - everywhere)
    folds = [f + 1 for f, fold in enumerate(constant) if set(fold) & set(once)]
    few = ", ".join(map(str, folds[:5])) + (", ..." if len(folds) > 5 else "")
    warn_of_constant([names[m] for m in once], f"the training samples of fold {few}")


def _values_of_C(Cs: Any) -> Array:
    """Ascending values of C, or so many from 0.01 to 100 in equal ratios."""
    if isinstance(Cs, int | np.integer):
        if isinstance(Cs, bool) or Cs < 1:
            raise InvalidParameter(f"Cs = {Cs!r} must be a positive number of values, or the values.")
        return np.geomspace(1e-2, 1e2, int(Cs)) if Cs > 1 else np.ones(1)
    try:
        values = np.unique(np.asarray(Cs, dtype=float))
    except (TypeError, ValueError):
        values = np.empty(0)
    if not values.size or not (np.isfinite(values).all() and values[0] > 0.0):
        raise InvalidParameter(f"Cs = {Cs!r} must hold values in (0, inf), or be their number.")
    return values


def _norms(norms: Any) -> list[Any]:
    """A list of norms; one is a list of one."""
    norms = norms.tolist() if isinstance(norms, np.ndarray) else norms
    given = list(norms) if isinstance(norms, Sequence) and not isinstance(norms, str) else [norms]
    if not given:
        raise InvalidParameter("norms is empty; give at least one, for instance [1, 4/3, 2].")
    return given


class MKLClassifierCV(Searching, MKLClassifier):
    """`MKLClassifier` with C and the norm of the weights chosen by cross-validation.

    The kernels are evaluated once. Those of a fold are slices, normalised with the statistics of its training samples,
    and along C each solution starts from the one before: the result is that of GridSearchCV, but for the tolerance.

    Parameters
    ----------
    kernels
        As for `MKLClassifier`.
    Cs : int or sequence of float
        The values of C, or how many from 0.01 to 100 in equal ratios.
    norms : sequence of float, str or Regularizer
        The norms, each one as `norm` of `MKLClassifier`.
    cv : int, splitter or iterable
        Folds as scikit-learn understands them; GroupKFold(5) and its like take the groups of `fit`.
    scoring : str or callable, optional
        As scikit-learn understands it; accuracy by default. Scores of test samples are weighted by sample_weight.
    rule : {"best", "one_standard_error"}
        The best mean score; or of all within one standard error of it the smallest C, then the fewest kernels.
    n_jobs : int, optional
        Folds at a time, by joblib. Threads unless a `joblib.parallel_config` says otherwise.
    loss, normalize, center, multiclass, strategy, class_weight, tol, max_iter, random_state
        As for `MKLClassifier`.
    verbose : bool
        Show a progress bar.

    Attributes
    ----------
    C_, norm_
        The chosen ones.
    best_score_ : float
        Their mean score.
    best_index_ : int
        Their row in cv_results_.
    cv_results_ : dict
        A table as of scikit-learn's GridSearchCV, for `pandas.DataFrame`: a row for each C and norm, with scores, their
        standard errors, the mean number of kernels with a positive weight, and the largest certified relative gap.
    n_splits_ : int
    best_estimator_ : MKLClassifier
        The model on all samples. Its fitted attributes are also those of the search.
    """

    def __init__(
        self,
        kernels: Any = "simplemkl",
        *,
        Cs: Any = 10,
        norms: Any = (1.0, 4 / 3, 2.0),
        cv: Any = 5,
        scoring: Any = None,
        rule: str = "best",
        n_jobs: int | None = None,
        loss: Any = "hinge",
        normalize: str | None = "multiplicative",
        center: bool = False,
        multiclass: str = "joint",
        strategy: str = "one_vs_rest",
        class_weight: Any = None,
        tol: float = 1e-3,
        max_iter: int = 500,
        random_state: Any = None,
        verbose: bool = False,
    ) -> None:
        self.kernels = kernels
        self.Cs = Cs
        self.norms = norms
        self.cv = cv
        self.scoring = scoring
        self.rule = rule
        self.n_jobs = n_jobs
        self.loss = loss
        self.normalize = normalize
        self.center = center
        self.multiclass = multiclass
        self.strategy = strategy
        self.class_weight = class_weight
        self.tol = tol
        self.max_iter = max_iter
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None) -> MKLClassifierCV:
        """Search, and fit the chosen model to all samples.

        Parameters
        ----------
        X, y, sample_weight
            As for `MKLClassifier.fit`.
        groups : array (n,), optional
            What a splitter such as GroupKFold keeps together.
        """
        return self._fit_best(MKLClassifier, X, y, sample_weight, groups)


class MKLRegressorCV(Searching, MKLRegressor):
    """`MKLRegressor` with C and the norm of the weights chosen by cross-validation; see `MKLClassifierCV`.

    Parameters
    ----------
    Cs, norms, cv, rule, n_jobs, verbose
        As for `MKLClassifierCV`.
    scoring : str or callable, optional
        As scikit-learn understands it; R^2 by default.
    kernels, loss, normalize, center, scale_y, tol, max_iter, random_state
        As for `MKLRegressor`.

    Attributes
    ----------
    C_, norm_, best_score_, best_index_, cv_results_, n_splits_, best_estimator_
        As for `MKLClassifierCV`.
    """

    def __init__(
        self,
        kernels: Any = "simplemkl",
        *,
        Cs: Any = 10,
        norms: Any = (1.0, 4 / 3, 2.0),
        cv: Any = 5,
        scoring: Any = None,
        rule: str = "best",
        n_jobs: int | None = None,
        loss: Any = "epsilon_insensitive",
        normalize: str | None = "multiplicative",
        center: bool = False,
        scale_y: bool = True,
        tol: float = 1e-3,
        max_iter: int = 500,
        random_state: Any = None,
        verbose: bool = False,
    ) -> None:
        self.kernels = kernels
        self.Cs = Cs
        self.norms = norms
        self.cv = cv
        self.scoring = scoring
        self.rule = rule
        self.n_jobs = n_jobs
        self.loss = loss
        self.normalize = normalize
        self.center = center
        self.scale_y = scale_y
        self.tol = tol
        self.max_iter = max_iter
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None) -> MKLRegressorCV:
        """Search, and fit the chosen model to all samples; arguments as for `MKLClassifierCV.fit`."""
        self._fit_best(MKLRegressor, X, y, sample_weight, groups)
        self._warn_if_constant()
        return self
