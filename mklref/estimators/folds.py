"""What a search does on one fold: kernels by slices, a path of solutions, and their scores."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.base import clone, is_classifier
from sklearn.metrics import check_scoring
from sklearn.model_selection import check_cv

from mklref._threads import filtering
from mklref._typing import Array
from mklref._validate import checked_limits, shown
from mklref.certificate import Bounds, certify_each
from mklref.certificate.bounds import relative
from mklref.estimators.base import Part
from mklref.estimators.gram import PRECOMPUTED, part
from mklref.estimators.samples import Kept
from mklref.estimators.workers import Unfinished, poll
from mklref.exceptions import InvalidParameter, InvalidTarget, InvalidType, MKLWarning, warn
from mklref.native.solver import run_from
from mklref.regularizers import Regularizer
from mklref.solution import Solution, Status


@dataclass(frozen=True)
class Fold:
    """The samples of one fold, by their numbers among those that are kept; test samples with their copies."""

    train: Any
    test: Any
    test_y: Any
    test_weight: Array | None


@dataclass(frozen=True)
class Point:
    """One C, one norm, one fold."""

    score: float
    n_kernels: float
    relative_gap: float
    optimal: bool
    constant: tuple[int, ...]
    """Kernels that are constant on the training samples of the fold."""


def _solved(problem: Any, start: Any, forms: Any, options: Sequence[Any]) -> tuple[Any, Any]:
    """The better solution, from a start or where that led nowhere a fresh one; and the forms, for the next problem."""
    run, status = _run(problem, start, forms, options)
    solution = _claimed(run, status)
    if start is not None and solution.status not in (Status.OPTIMAL, Status.TIME_LIMIT):
        fresh = _claimed(*_run(problem, None, None, options))
        solution = min(solution, fresh, key=_gap)
    return solution, run.machine.forms


def _run(problem: Any, start: Any, forms: Any, options: Sequence[Any]) -> tuple[Any, Status]:
    """A run with the options tol, max_iter, max_time from now and callback."""
    tol, max_iter, max_time, callback = options
    deadline = np.inf if max_time is None else time.perf_counter() + max_time
    return run_from(problem, start, forms, tol, max_iter, deadline, callback)


def _claimed(run: Any, status: Status) -> Any:
    """The solution with the solver's own bounds, which are those that `_certified` will find but for rounding.

    The best intercept is its as well: of an interval of them the machine has any.
    """
    best = run.best.point
    if run.problem.several:
        return run.solution(status)
    bounds: Any = Bounds(best.lower, best.upper, 0.0, (), unit=run.zero)
    return Solution(best.beta, best.weights, None, best.upper, bounds, status, run.history())


def _gap(solution: Any) -> float:
    return float(solution.certificate.relative_gap)


def _certified(problems: Sequence[Any], solutions: Sequence[Any], options: Sequence[Any]) -> Sequence[Any]:
    """The solutions with their certificates, from one read of the kernels.

    Where one is not what the solver has claimed, because its forms have drifted, the better one of it and a fresh one.
    """
    if problems[0] is None:
        return solutions
    tol = options[0]
    points = [(p, own.dual_coef, own.weights, own.intercept) for p, own in zip(problems, solutions, strict=True)]
    certified = []
    for problem, own, found in zip(problems, solutions, certify_each(points), strict=True):
        status = own.status.confirmed(found.is_optimal(tol))
        at = {"intercept": problem.intercepts(found.intercept), "objective": found.objective}
        solution = replace(own, **at, certificate=found, status=status)
        if status is not own.status:
            run, ended = _run(problem, None, None, options)
            solution = min(solution, run.solution(ended), key=_gap)
        certified.append(solution)
    return certified


def _still_good(solution: Any, before: Any, now: Any, tol: float) -> bool:
    """Whether a solution is one at a smaller C as well, to the same tolerance, because no dual variable is in its way.

    Where c_i V*(-beta_i/c_i) stays as it was, as it does for the hinge inside the box, so does the lower bound; and
    c_i V(t_i, y_i) >= 0 only falls.
    """
    betas = now.split(solution.dual_coef)
    for beta, (old, *_), (new, *_) in zip(betas, before.machines, now.machines, strict=True):
        terms, smaller = (one.loss.dual_terms(beta, one.y, one.costs) for one in (old, new))
        if not (np.isfinite(smaller).all() and np.allclose(smaller, terms, rtol=1e-12, atol=0.0)):
            return False
    return _gap_of(solution) <= tol


def _gap_of(solution: Any) -> float:
    """The relative gap at this C or a smaller one, where the upper bound may be as low as the lower one."""
    certificate = solution.certificate
    return relative(float(certificate.gap), max(abs(certificate.lower), certificate.unit))


@dataclass(frozen=True)
class _Rows:
    """Kernels of the test samples of a fold, (t, M, k), which are handed over in place of the samples."""

    active: Any
    columns: Any

    centred = False
    """They are so already."""

    def checked(self, X_new: Any) -> Any:
        """As they are."""
        return X_new

    def rows(self, X_new: Any, which: Any) -> Iterator[Array]:
        """The chosen ones of positive weight with the support vectors, (t, s) each."""
        return (X_new[:, self.active[m], self.columns] for m in which)


def _accuracy(model: Any, rows: Array, y: Any, sample_weight: Array | None = None) -> float:
    """The share of right predictions; scikit-learn's takes longer than a warm-started fit of 200 samples."""
    return float(np.average(model.predict(rows) == y, weights=sample_weight))


def scorer_of(model: Any, scoring: Any) -> Any:
    """scikit-learn's scorer of that name, or the function itself; it says what to do if it asks for probabilities."""
    try:
        scorer = check_scoring(model, scoring)
    except ValueError as unknown:
        raise InvalidParameter(
            f"scoring = {shown(scoring)} is unknown; sklearn.metrics.get_scorer_names() lists names, such as "
            "'balanced_accuracy', 'roc_auc' or 'neg_mean_absolute_error'."
        ) from unknown

    def score(model: Any, rows: Array, y: Any, **weighted: Any) -> float:
        try:
            found = scorer(model, rows, y, **weighted)
        except ValueError as refused:
            if callable(scoring):  # a measure of somebody's own knows best what it misses
                raise
            raise InvalidParameter(
                f"scoring = {shown(scoring)} does not measure these predictions: {str(refused).rstrip('.')}. Give "
                "another: 'balanced_accuracy' for classes, 'roc_auc' for two of them, 'r2' for numbers."
            ) from refused
        except TypeError as refused:
            if not weighted or "'sample_weight'" not in str(refused):
                raise
            raise InvalidParameter(
                f"scoring = {shown(scoring)} takes no sample_weight, by which test samples are weighed: "
                "give a measure (model, X, y, sample_weight=None), or another one by name."
            ) from refused
        except AttributeError as lacking:
            if "predict_proba" not in str(lacking):
                raise
            if not is_classifier(model):
                raise InvalidParameter(
                    f"scoring = {shown(scoring)} measures classes, and the predictions are numbers: give 'r2' or "
                    "'neg_mean_absolute_error', for instance."
                ) from lacking
            raise InvalidParameter(
                f"scoring = {shown(scoring)} needs probabilities, and scores are none: choose by scores or "
                "predictions, such as 'roc_auc' or 'accuracy', and calibrate best_estimator_ afterwards."
            ) from lacking
        # Whatever has a real value, as tensors and decimals have.
        if np.ndim(found) or np.iscomplexobj(found) or isinstance(found, str) or not hasattr(found, "__float__"):
            raise InvalidType(f"scoring = {shown(scoring)} returned {shown(found)}; a measure is one real number.")
        if np.isinf(value := float(found)):
            raise InvalidParameter(
                f"scoring = {shown(scoring)} returned {value}; a measure is finite, or nan if it has none."
            )
        return value

    return score


def points_of_fold(
    model: Any,
    raw: Array,
    before: Array,
    y: Any,
    weight: Array | None,
    fold: Fold,
    regularizers: list[Regularizer],
    Cs: Array,
    scoring: Any,
) -> list[Point | None] | Unfinished:
    """The points of one fold, all norms of each C; None where Ctrl-C, or the end of the search, came before."""
    own_weight = None if weight is None else weight[fold.train]
    how = model._normalizer(own_weight)
    grams, by_kernel, constant = part(raw, model.kernel_names_, fold.train, fold.test, how, before)
    rows = np.moveaxis(by_kernel, 0, 1)
    own = clone(model).set_params(kernels=PRECOMPUTED, normalize=None, norm=regularizers[0])
    own._remember_parameters()
    own.kernel_names_ = model.kernel_names_
    scorer = _accuracy if scoring is None and is_classifier(own) else scorer_of(own, scoring)
    weighted = {} if fold.test_weight is None else {"sample_weight": fold.test_weight}
    parts = own._parts(grams, y[fold.train], own_weight)
    tol, most, seconds = checked_limits(own.tol, "a relative duality gap", own.max_iter, own.max_time, False)
    each = None if seconds is None else seconds / len(parts)
    solved, of_point = _path(parts, regularizers, Cs, (tol, most, each, poll))
    found = []
    for solutions in solved:
        own._keep(parts, solutions, fold.train, constant)
        own._new_kernels = _Rows(own._active, own._columns)
        point = Point(
            score=scorer(own, rows, fold.test_y, **weighted),
            n_kernels=float(np.mean([np.count_nonzero(solution.weights) for solution in solutions])),
            relative_gap=max(map(_gap, solutions)),
            optimal=all(solution.status is Status.OPTIMAL for solution in solutions),
            constant=tuple(constant),
        )
        found.append((point, replace(point, relative_gap=max(map(_gap_of, solutions)))))
    path = np.full(len(regularizers) * len(Cs), None)
    path[: len(of_point)] = [found[k][again] for k, again in of_point]
    points: list[Point | None] = path.reshape(-1, len(Cs))[:, ::-1].T.ravel().tolist()
    return points if len(of_point) == len(path) else Unfinished(points)


def _path(
    parts: list[Part], regularizers: list[Regularizer], Cs: Array, options: Sequence[Any]
) -> tuple[list[list[Any]], list[tuple[int, bool]]]:
    """The solutions of all parts, and for each norm and C up to Ctrl-C which of them serve, and whether once more."""
    solved: list[tuple[list[Any], list[Any]]] = []
    """Problems and solutions of all parts."""
    of_point: list[tuple[int, bool]] = []
    with suppress(KeyboardInterrupt):
        for found, again in _steps(parts, regularizers, Cs, options):
            if not again:
                solved.append(found)
            of_point.append((len(solved) - 1, again))
    if not solved:
        return [], []
    problems, solutions = (zip(*column, strict=True) for column in zip(*solved, strict=True))  # part by part
    certified = [_certified(*column, options) for column in zip(problems, solutions, strict=True)]
    return [list(row) for row in zip(*certified, strict=True)], of_point


def _steps(
    parts: list[Part], regularizers: list[Regularizer], Cs: Array, options: Sequence[Any]
) -> Iterator[tuple[tuple[list[Any], list[Any]], bool]]:
    """Problems and solutions for each norm and descending C, and whether they are those of the step before."""
    none: list[Any] = [None] * len(parts)
    first = none
    for regularizer in regularizers:
        before: list[Any] = []
        starts, forms = first, none  # those of a new norm anew: rounding adds up along a path
        for C in Cs[::-1]:
            here: list[Any] = [one.problem.replace(C=float(C), regularizer=regularizer) for one in parts]
            again = bool(before) and all(map(_still_good, starts, before, here, [options[0]] * len(parts)))
            if not again:
                pairs = [_solved(*each, options) for each in zip(here, starts, forms, strict=True)]
                starts, forms = [list(column) for column in zip(*pairs, strict=True)]
                first = first if before else starts
            yield ([None if one.several else one for one in here], starts), again
            before = here


def splits_of(cv: Any, y: Any, groups: Any, label: str, *, classifies: bool) -> list[tuple[Any, Any]]:
    """Numbers of the training and test samples of each fold, as scikit-learn understands `cv`; errors call it `label`.

    `InvalidParameter` if it is none, or refuses the samples: it needs groups, or more samples of a class.
    """
    every = np.arange(len(y))
    try:
        ignored = filtering("error", UserWarning, message="The groups parameter is ignored")
        with nullcontext() if groups is None else ignored:
            splits = check_cv(cv, y, classifier=classifies).split(np.empty((len(y), 1)), y, groups)
            found = [(every[train], every[test]) for train, test in splits]  # masks as well
    except UserWarning as warned:
        if "groups parameter is ignored" not in str(warned):
            raise
        raise InvalidParameter(
            f"{label} does not keep groups together: give a splitter that does, such as GroupKFold(5), or no groups."
        ) from warned
    except (ValueError, TypeError, IndexError) as refused:
        if "'groups'" in str(refused):
            raise InvalidParameter(f"{label} needs groups: give groups=groups beside X and y.") from refused
        raise InvalidParameter(
            f"{label} cannot cut {len(y)} samples: {refused} Give fewer folds, another share, or a splitter of "
            "scikit-learn."
        ) from refused
    if not found:
        raise InvalidParameter(f"{label} has no folds; give a number of them, such as 5.")
    return found


def warn_of_classes(folds: Iterable[tuple[Any, Any]]) -> None:
    """Warn of each fold, targets of its training and its test samples, that does not learn a class it is tested on."""
    for f, (learned, asked) in enumerate(folds):
        if len(unseen := np.setdiff1d(asked, learned)):
            warn(
                f"fold {f} is not trained on the class {unseen.tolist()[0]!r} of some of its test samples, which are "
                "wrong whatever is learned: give stratified or fewer folds.",
                MKLWarning,
            )


def memberships(splits: Sequence[tuple[Any, Any]], n: int) -> Any:
    """For each sample a number that it shares with those that the same folds are trained on, (n,)."""
    trained = np.zeros((n, len(splits)), dtype=bool)
    for f, (train, _) in enumerate(splits):
        trained[train, f] = True
    return np.unique(trained, axis=0, return_inverse=True)[1].ravel()


def folds_of(splits: Sequence[tuple[Any, Any]], kept: Kept, y: Any, weight: Array | None) -> list[Fold]:
    """The folds; y and weights are those of all samples that were given."""
    folds = []
    for f, (train, test) in enumerate(splits):
        inside, outside = np.unique(kept.places[train]), test[kept.places[test] >= 0]
        inside = inside[inside >= 0]
        if len(inside) < 2 or not len(outside):
            raise InvalidParameter(
                f"fold {f} has {len(inside)} training and {len(outside)} test samples of positive weight; at least two "
                "and one are needed: give fewer folds."
            )
        own = None if weight is None else weight[outside]
        folds.append(Fold(inside, kept.places[outside], y[outside], own))
    return folds


def require_classes(folds: list[Fold], y: Any) -> None:
    """Raise `InvalidTarget` if a fold is trained with one class, and warn where it lacks one that it is tested on."""
    for f, fold in enumerate(folds):
        if len(np.unique(y[fold.train])) < 2:
            raise InvalidTarget(
                f"fold {f}: its training samples are all of the class {y[fold.train].tolist()[0]!r}; give fewer or "
                "stratified folds."
            )
    warn_of_classes((y[fold.train], fold.test_y) for fold in folds)
