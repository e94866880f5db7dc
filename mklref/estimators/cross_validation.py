"""C and the norm of the weights by cross-validation: what `MKLClassifierCV` and `MKLRegressorCV` have in common.

What a search by refitting does again and again is done once here:

    kernels     evaluated once; the matrices of a fold are slices of them, K[train, train] and K[test, train],
                normalised and centred with the statistics of the training samples of the fold alone
    solutions   along descending C each one starts from the one before (SimpleMKL 4.4), and the first one of a norm
                from the first one of the norm before; where no dual variable has met its bound C c_i, the solution
                is the same

The choice is the best mean score, or the simplest model within one standard error. Where Ctrl-C came first, the folds
that are finished decide; where none is, the candidates that most folds have scored.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from sklearn.base import is_classifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from mklref._files import well_formed
from mklref._names import require_one_order
from mklref._typing import Array
from mklref._validate import as_float_array, checked_choice, checked_integer, checked_verbosity, shown
from mklref.certificate.verdict import saved
from mklref.estimators.base import BaseMKL
from mklref.estimators.folds import Point, folds_of, memberships, points_of_fold, require_classes, splits_of
from mklref.estimators.gram import unexplained
from mklref.estimators.persistence import from_plain, to_plain
from mklref.estimators.samples import warn_of_constant
from mklref.estimators.workers import gathered, workers_of
from mklref.exceptions import Interrupted, InterruptedWarning, InvalidParameter, UnsafeFile, warn
from mklref.solution import require_names

_MOST = 10**6
"""Values of C."""
RULES = ("best", "one_standard_error")

Row = list[Point | None]
"""The points of one C and one norm, one for each fold."""


class Searching(BaseMKL):
    """The grid, the folds, the last fit, and the file of a search."""

    rule: str
    C_: float
    best_index_: int
    best_score_: float
    n_splits_: int
    interrupted_: bool
    cv_results_: dict[str, Any]

    @classmethod
    def _plain(cls) -> Any:
        """The estimator that the search is for: the class behind this one."""
        return cls.__mro__[cls.__mro__.index(Searching) + 1]

    def fit(self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None) -> Self:
        """Search, then fit the chosen model to all samples, whose fitted attributes become those of the search.

        Parameters
        ----------
        X, y, sample_weight
            As for `MKLClassifier.fit`.
        groups : array (n,), optional
            What a splitter such as GroupKFold keeps together.
        """
        checked_choice("rule", self.rule, RULES)
        if isinstance(self.scoring, list | tuple | set | dict):
            raise InvalidParameter(
                f"scoring = {shown(self.scoring)} holds several measures; give the one to choose by."
            )
        Cs, norms = _values_of_C(self.Cs), _norms(self.norms)
        self._deadline()
        given, names = self.get_params(deep=False), self._plain()._get_param_names()
        own = {"C": float(Cs[0]), "norm": norms[0], "verbose": False, "storage": "memory"}
        model = self._plain()(**({name: given[name] for name in names if name in given} | own))
        labelled = {"X": X, "y": y, "sample_weight": sample_weight, "groups": groups}
        X, y = model._checked_data(X, y)
        require_one_order(labelled, known=model._sample_names)
        splits = splits_of(self.cv, y, groups, f"cv = {shown(self.cv)}", classifies=is_classifier(self))
        kept = model._kept(X, sample_weight, y, memberships(splits, len(y)))
        weight = None if sample_weight is None else np.broadcast_to(np.asarray(sample_weight, dtype=float), y.shape)
        folds = folds_of(splits, kept, y, weight)
        y, weight = y[kept.indices], kept.weight
        model._require_targets(y)
        if is_classifier(self):
            require_classes(folds, y)
        model._folds_at_a_time = (len(folds), workers_of(self.n_jobs, len(folds)))
        raw = model._raw_kernels(X, kept)
        regularizers = [model.set_params(norm=norm)._regularizer() for norm in norms]
        grid = [(float(C), norm) for C in Cs for norm in norms]
        matrices, told = raw.dense(), checked_verbosity(self.verbose)
        before = unexplained(raw)
        tasks = [(model, matrices, before, y, weight, fold, regularizers, Cs, self.scoring) for fold in folds]
        found, _ = gathered(points_of_fold, tasks, n_jobs=self.n_jobs, label=type(self).__name__, shown=told)
        del matrices, tasks  # of precomputed kernels it is a copy
        none: list[Point | None] = [None] * len(grid)
        rows = [list(row) for row in zip(*(found.get(f, none) for f in range(len(folds))), strict=True)]
        if not any(map(any, rows)):
            raise Interrupted
        choice = chosen(grid, rows, self.rule, self.scoring)
        self._take_choice(choice, len(folds))
        self.interrupted_ = choice.scored < len(rows) * len(folds)
        self._warn(choice, len(rows) * len(folds))
        model.set_params(C=self.C_, norm=self.norm_, verbose=self.verbose)
        try:
            self.interrupted_ |= _fitted(model, raw, y, kept)
        except KeyboardInterrupt:  # before there was a point: the search is worth another fit, of the kernels anew
            self.interrupted_ = True
            _fitted(model, model._raw_kernels(X, kept), y, kept)
        _warn_of_folds([point.constant for point in rows[0] if point is not None], model.kernel_names_)
        self._take(model)
        self._warn_if_useless()
        return self

    def _take_choice(self, choice: Choice, n_splits: int) -> None:
        self.cv_results_, self.n_splits_ = choice.results, n_splits
        self.best_index_ = choice.best
        self.best_score_ = float(choice.results["mean_test_score"][choice.best])
        self.C_, self.norm_ = choice.results["params"][choice.best].values()

    def _warn(self, choice: Choice, size: int) -> None:
        """Of fits that are missing, and of those that are not certified."""
        if self.interrupted_:
            warn(
                f"{type(self).__name__} was interrupted after {choice.scored} of {size} fits in the folds. C = "
                f"{self.C_:.4g} and norm = {self.norm_} are the best of what {choice.folds} of {self.n_splits_} folds "
                "compare. That model is now fitted to all samples; Ctrl-C again takes it as it is by then.",
                InterruptedWarning,
            )
        if choice.missed:
            largest = np.nanmax(self.cv_results_["relative_gap"])
            limits = "max_iter" if self.max_time is None else "max_iter or max_time"
            warn(
                f"{choice.missed} of {choice.scored} fits in the folds did not reach tol = {self.tol:g}; "
                f"the largest relative gap is {largest:.1e}. Raise {limits}, or leave out large values of C.",
                ConvergenceWarning,
            )

    def content(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """That of `best_estimator_`, whose class loads it too, and what the search has found.

        Parameters that are no plain values, such as splitters, are not written, and have their defaults when loaded.
        """
        check_is_fitted(self)
        arrays, facts = self.best_estimator_.content()
        plain, table = {}, self.cv_results_
        for name, value in self.get_params(deep=False).items():
            with suppress(InvalidParameter):  # of what JSON cannot hold
                plain[name] = to_plain(value, name)
        facts["search"] = {
            "parameters": plain,
            "results": {
                name: [float(value) if np.isfinite(value) else None for value in column]
                for name, column in table.items()
                if name not in ("params", "param_norm")
            },
            "norms": to_plain(list(table["param_norm"]), "norms"),
            "best_index": self.best_index_,
            "n_splits": self.n_splits_,
            "interrupted": self.interrupted_,
        }
        return arrays, facts

    @classmethod
    def _loaded(cls, arrays: dict[str, Any], facts: dict[str, Any], path: Any) -> Self:
        kind = cls._plain()
        model = kind._loaded(arrays, facts, path)
        if "search" not in facts:
            raise UnsafeFile(f"{path} holds a {kind.__name__} and no search; load it with {kind.__name__}.load.")
        with well_formed(path, f"a saved {cls.__name__}"):
            found = saved(facts, "search", dict)
            names = ("parameters", "results", "norms", "best_index", "n_splits", "interrupted")
            require_names(found, names, "facts of a search")
            own = cls(**{name: from_plain(value) for name, value in found["parameters"].items()})
            results: dict[str, Any] = {
                name: np.array([np.nan if value is None else float(value) for value in column])
                for name, column in found["results"].items()
            }
            results["param_norm"] = list(from_plain(found["norms"]))
            pairs = zip(results["param_C"].tolist(), results["param_norm"], strict=True)
            results["params"] = [{"C": C, "norm": norm} for C, norm in pairs]
            own._take_choice(Choice(results, saved(found, "best_index", int)), saved(found, "n_splits", int))
            own.interrupted_ = saved(found, "interrupted", bool)
        own._take(model)
        return own

    def _take(self, model: Any) -> None:
        for name in ("feature_names_in_", "kernel_groups_"):  # not every fit sets them
            self.__dict__.pop(name, None)
        for name, value in vars(model).items():
            if name.endswith("_") or name in ("_columns", "_fitted_with", "_labels", "_new_kernels"):
                setattr(self, name, value)
        self.best_estimator_ = model


def _fitted(model: Any, raw: Any, y: Any, kept: Any) -> bool:
    """Fit the chosen model to all samples, whose kernels are used up by it; whether Ctrl-C came first."""
    deadline = model._deadline()
    parts = model._parts(model._normalized(raw, kept.weight), y, kept.weight)
    return bool(model._fit_parts(parts, kept, deadline, unfinished=True))


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
        says = f"Cs = {shown(Cs)} must be a positive number of values, or the values."
        count = checked_integer(Cs, 1, _MOST, says)
        return np.geomspace(1e-2, 1e2, count) if count > 1 else np.ones(1)
    values = np.unique(as_float_array(Cs, "Cs", InvalidParameter).astype(float))
    if not values.size or not (np.isfinite(values).all() and values[0] > 0.0):
        raise InvalidParameter(f"Cs = {shown(Cs)} must hold values in (0, inf), or be their number.")
    return values


def _norms(norms: Any) -> list[Any]:
    norms = norms.tolist() if isinstance(norms, np.ndarray) else norms
    given = list(norms) if isinstance(norms, Sequence) and not isinstance(norms, str | bytes) else [norms]
    if not given:
        raise InvalidParameter("norms is empty; give at least one, for instance [1, 4/3, 2].")
    return given


@dataclass(frozen=True)
class Choice:
    """What a search has found."""

    results: dict[str, Any]
    """`cv_results_`."""
    best: int
    """The row that is chosen."""
    scored: int = 0
    """Points that there are."""
    missed: int = 0
    """Those of them that did not reach the tolerance."""
    folds: int = 0
    """How many of them have decided."""


def chosen(grid: list[tuple[float, Any]], rows: list[Row], rule: str, scoring: Any) -> Choice:
    """The table of these rows, each of a pair of C and norm, and the choice by a rule among those that have a score."""
    there = np.array([[point is not None for point in row] for row in rows])
    used = there & there.all(axis=0) if there.all(axis=0).any() else there
    compared = used.sum(axis=1) == used.sum(axis=1).max()
    used &= compared[:, None]
    numbers = [[(own.score, own.n_kernels, own.relative_gap) if own else [np.nan] * 3 for own in row] for row in rows]
    scores, kernels, gaps = np.moveaxis(np.array(numbers), -1, 0)
    means, deviations = (_over_folds(statistic, scores, used) for statistic in (np.mean, np.std))
    folds = int(used[compared][0].sum())
    errors = deviations / np.sqrt(folds - 1) if folds > 1 else np.where(compared, 0.0, np.nan)
    if np.isnan(means).all():
        f = int((np.isnan(scores) & used).any(axis=0).argmax())
        raise InvalidParameter(
            f"scoring = {scoring!r} gives nan in fold {f}: give stratified or fewer folds, so that the test "
            "samples of each one have what it measures, or another scoring."
        )
    n_kernels, gap = _over_folds(np.mean, kernels, there), _over_folds(np.max, gaps, there, initial=-np.inf)
    results: dict[str, Any] = {
        "params": [{"C": C, "norm": norm} for C, norm in grid],
        "param_C": np.array([C for C, _ in grid]),
        "param_norm": [norm for _, norm in grid],
        "mean_test_score": means,
        "std_test_score": deviations,
        "standard_error": errors,
        "rank_test_score": np.array([1 + int(np.sum(means > mean)) for mean in np.nan_to_num(means, nan=-np.inf)]),
        "n_kernels": n_kernels,
        "relative_gap": gap,
        **{f"split{f}_test_score": column for f, column in enumerate(scores.T)},
    }
    best = int(np.nanargmax(means))
    if rule == "one_standard_error":
        near = np.flatnonzero(means >= means[best] - errors[best])
        best = int(min(near, key=lambda index: (grid[index][0], n_kernels[index], index)))
    missed = sum(not point.optimal for row in rows for point in row if point is not None)
    return Choice(results, best, int(there.sum()), missed, folds)


def _over_folds(statistic: Any, values: Array, where: Any, **options: Any) -> Array:
    """A statistic of each row over these folds; nan where there is none."""
    found, some = np.full(len(values), np.nan), where.any(axis=1)
    found[some] = statistic(values[some], axis=1, where=where[some], **options)
    return found
