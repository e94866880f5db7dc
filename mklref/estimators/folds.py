"""What a search does on one fold: kernels by slices, a path of solutions, and their scores."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.base import clone, is_classifier
from sklearn.metrics import check_scoring

from mklref._typing import Array
from mklref.estimators.gram import PRECOMPUTED, part
from mklref.exceptions import InvalidParameter, InvalidTarget
from mklref.native import solve
from mklref.native.loops import at_most
from mklref.regularizers import Regularizer
from mklref.solution import Status


@dataclass(frozen=True)
class Fold:
    """Indices of the samples of one fold."""

    train: Any
    test: Any


@dataclass(frozen=True)
class Point:
    """One C, one norm, one fold."""

    score: float
    n_kernels: float
    relative_gap: float
    optimal: bool


def _solved(problem: Any, start: Any, **options: Any) -> Any:
    """The solution from a start, or the better one of it and a fresh one where the start has led nowhere."""
    solution: Any = solve(problem, start=start, **options)
    if start is None or solution.status is Status.OPTIMAL:
        return solution
    return min(solution, solve(problem, **options), key=lambda own: own.certificate.relative_gap)


def _still_good(solution: Any, before: Any, now: Any, tol: float) -> bool:
    """Whether a solution is one at a smaller C as well, to the same tolerance, because no dual variable is in its way.

    Where c_i V*(-beta_i/c_i) stays as it was, as it does for the hinge inside the box, so does the lower bound; and
    c_i V(t_i, y_i) >= 0 only falls.
    """
    pairs = zip(getattr(before, "machines", [before]), getattr(now, "machines", [now]), strict=True)
    for row, (old, new) in zip(np.atleast_2d(solution.dual_coef), pairs, strict=True):
        beta = row[old.samples] if hasattr(old, "samples") else row
        old, new = (getattr(one, "problem", one) for one in (old, new))
        terms, smaller = (one.loss.dual_terms(beta, one.y, one.costs) for one in (old, new))
        if not (np.isfinite(smaller).all() and np.allclose(smaller, terms, rtol=1e-12, atol=0.0)):
            return False
    return _gap_of(solution) <= tol


def _gap_of(solution: Any) -> float:
    """The relative gap at this C or a smaller one, where the upper bound may be as low as the lower one."""
    certificate = solution.certificate
    return float(certificate.gap / max(1.0, abs(certificate.lower)))


class _Rows:
    """Kernels of the test samples of a fold, which are handed over in place of the samples."""

    def rows(self, X_new: Any, which: Any) -> Iterator[Array]:
        """The chosen ones, (t, k) each."""
        return (X_new[m] for m in which)


def _accuracy(model: Any, rows: Array, y: Any, sample_weight: Array | None = None) -> float:
    """The share of right predictions; scikit-learn's takes longer than a warm-started fit of 200 samples."""
    return float(np.average(model.predict(rows) == y, weights=sample_weight))


@dataclass(frozen=True)
class _Scorer:
    """scikit-learn's scorer, which says what to do if it asks for probabilities."""

    scorer: Any
    scoring: Any

    def __call__(self, model: Any, rows: Array, y: Any, **weighted: Any) -> float:
        try:
            return float(self.scorer(model, rows, y, **weighted))
        except AttributeError as lacking:
            if "predict_proba" not in str(lacking):
                raise
            raise InvalidParameter(
                f"scoring = {self.scoring!r} needs probabilities, and scores are none: choose by scores or "
                "predictions, such as 'roc_auc' or 'accuracy', and calibrate best_estimator_ afterwards."
            ) from lacking


def points_of_fold(
    model: Any,
    raw: Array,
    y: Any,
    weight: Array | None,
    fold: Fold,
    regularizers: list[Regularizer],
    Cs: Array,
    scoring: Any,
    share: int,
) -> list[list[Point]]:
    """The points [norm][C] of one fold: descending C with warm starts, in the order of `Cs`."""
    grams, rows = part(raw, model.kernel_names_, fold.train, fold.test, model.normalize, bool(model.center))
    own_weight, test_weight = (None, None) if weight is None else (weight[fold.train], weight[fold.test])
    own = clone(model).set_params(kernels=PRECOMPUTED, normalize=None, norm=regularizers[0])
    own._new_kernels = _Rows()
    scorer = _accuracy if scoring is None and is_classifier(own) else _Scorer(check_scoring(own, scoring), scoring)
    weighted = {} if test_weight is None else {"sample_weight": test_weight}
    parts = own._parts(grams, y[fold.train], own_weight)
    points = []
    first: list[Any] = [None] * len(parts)
    for regularizer in regularizers:
        starts = first
        path: list[Point] = []
        here: list[Any] = []
        for C in Cs[::-1]:
            before = here
            here = [one._replace(problem=one.problem.replace(C=float(C), regularizer=regularizer)) for one in parts]
            if before and all(
                _still_good(solution, old.problem, new.problem, own.tol)
                for solution, old, new in zip(starts, before, here, strict=True)
            ):
                path.append(replace(path[-1], relative_gap=max(map(_gap_of, starts))))
                continue
            with at_most(share):
                starts = [
                    _solved(one.problem, start, tol=own.tol, max_iter=own.max_iter)
                    for one, start in zip(here, starts, strict=True)
                ]
            first = first if path else starts
            own._keep(here, starts, fold.train)
            path.append(
                Point(
                    score=scorer(own, rows, y[fold.test], **weighted),
                    n_kernels=float(np.mean([np.count_nonzero(solution.weights) for solution in starts])),
                    relative_gap=max(solution.certificate.relative_gap for solution in starts),
                    optimal=all(solution.status is Status.OPTIMAL for solution in starts),
                )
            )
        points.append(path[::-1])
    return points


def folds_of(splitter: Any, y: Any, kept: Any) -> list[Fold]:
    """The folds, as positions among the samples that are kept."""
    position = np.full(len(y), -1)
    position[kept] = np.arange(len(kept))
    folds = []
    try:
        splits = list(splitter.split(np.empty((len(y), 1)), y))
    except ValueError as refused:
        if "'groups'" not in str(refused):
            raise
        kind = type(splitter).__name__
        raise InvalidParameter(
            f"cv = {splitter} needs groups, which fit does not take: give the folds, cv=list({kind}(...).split(X, y, "
            "groups))."
        ) from refused
    for f, (train, test) in enumerate(splits):
        inside, outside = (chosen[chosen >= 0] for chosen in (position[train], position[test]))
        if len(inside) < 2 or not len(outside):
            raise InvalidParameter(
                f"fold {f} has {len(inside)} training and {len(outside)} test samples of positive weight; at least two "
                "and one are needed: give fewer folds."
            )
        folds.append(Fold(inside, outside))
    return folds


def require_classes(folds: list[Fold], y: Any) -> None:
    """Raise `InvalidTarget` if a fold is trained with one class."""
    for f, fold in enumerate(folds):
        if len(np.unique(y[fold.train])) < 2:
            raise InvalidTarget(
                f"fold {f}: its training samples are all of the class {str(y[fold.train[0]])!r}; give fewer or "
                "stratified folds."
            )
