"""The error of a whole procedure on samples that had no part in it, beside that of the best constant."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import is_classifier, is_outlier_detector
from sklearn.metrics import confusion_matrix
from sklearn.model_selection import KFold, ShuffleSplit, StratifiedKFold, StratifiedShuffleSplit

from mklref._typing import Array
from mklref._validate import NO_NUMBERS, checked_verbosity, shown
from mklref.estimators.factors import row_blocks
from mklref.estimators.folds import splits_of, warn_of_classes
from mklref.estimators.workers import Unfinished, gathered
from mklref.exceptions import InvalidInput, InvalidParameter, InvalidType
from mklref.model_selection.resampling import (
    checked_params,
    fitted_to,
    part_of,
    require_some,
    samples_of,
    was_interrupted,
)

Z = 1.959963984540054
"""Of an interval that holds the truth in 95 of 100 cases."""
_DRAWS = 2000


class Measure(NamedTuple):
    """A number with its 95 % interval."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.value:.3f} [{self.low:.3f}, {self.high:.3f}]"


def _interval(value: float, variance: Callable[[float], float]) -> Measure:
    """All A in [0, 1] with (value - A)^2 <= z^2 variance(A), for variances of which they are an interval: its ends."""
    ends = []
    for outside in (0.0, 1.0):
        inside = value
        for _ in range(50):
            middle = 0.5 * (inside + outside)
            agrees = (value - middle) ** 2 <= Z * Z * variance(middle)
            inside, outside = (middle, outside) if agrees else (inside, middle)
        ends.append(inside)
    return Measure(value, *ends)


@dataclass(frozen=True)
class Evaluation:
    """Predictions for samples that the model had not seen, and the truth.

    A splitter may have a sample predicted several times, which tells no more of it than once. With r_i predictions of
    sample i, n predictions count in all intervals as (sum_i r_i)^2 / sum_i r_i^2 independent ones (Kish 1965).
    """

    truth: Any
    """(n,)."""
    predicted: Any
    """(n,)."""
    baseline: Any
    """The best constant of the training samples: the most frequent class, or the median; (n,)."""
    scores: Array | None
    """Decision values (n,) or (n, classes); None of a regression, of a model without them, or where a part was fitted
    without one of the classes."""
    classes: Any = None
    """Sorted; None of a regression."""
    rows: Any = None
    """The numbers of the samples, (n,)."""
    interrupted: bool = False
    """Whether Ctrl-C came first: some parts are missing, or were predicted by a search that was not finished."""

    @property
    def _samples(self) -> Any:
        """The number (n,) of the sample of each prediction."""
        return np.arange(len(self.truth)) if self.rows is None else self.rows

    def _independent(self, among: Any = slice(None)) -> float:
        """As how many independent predictions those of this class, or all, count."""
        _, r = np.unique(self._samples[among], return_counts=True)
        return float(r.sum() ** 2 / (r @ r))

    @property
    def accuracy(self) -> Measure:
        """The share of right classes p, with Wilson's interval (1927): all q with |p - q| <= z sqrt(q (1 - q)/n)."""
        n = self._independent()
        return _interval(float(np.mean(self.truth == self.predicted)), lambda q: q * (1.0 - q) / n)

    @property
    def baseline_accuracy(self) -> float:
        """The share that the most frequent class has."""
        return float(np.mean(self.truth == self.baseline))

    @property
    def confusion(self) -> Any:
        """How many predictions for each class (row) are of each class (column)."""
        return confusion_matrix(self.truth, self.predicted, labels=self.classes)

    @property
    def balanced_accuracy(self) -> Measure:
        """The mean A of the shares q_k of the K classes that are found; a constant has 1/K.

        The interval is Wilson's, with the largest variance sum_k q_k (1 - q_k)/(n_k K^2) of all shares with the mean A:
        that of q_k = (1 + l n_k)/2 within [0, 1], whose mean is piecewise linear in l.
        """
        table = self.confusion
        counts = table.sum(axis=1)
        there = counts > 0
        found = np.diagonal(table)[there] / counts[there]
        n = np.array([self._independent(self.truth == kind) for kind in self.classes[there]])
        knots = np.unique([-1.0 / n, 1.0 / n])
        means = np.clip(0.5 + 0.5 * np.outer(knots, n), 0.0, 1.0).mean(axis=1)

        def variance(A: float) -> float:
            q = np.clip(0.5 + 0.5 * np.interp(A, means, knots) * n, 0.0, 1.0)
            return float(np.sum(q * (1.0 - q) / n)) / len(n) ** 2

        return _interval(float(np.mean(found)), variance)

    @property
    def auc(self) -> Measure | None:
        """The area a under the ROC curve of two classes: the share of the pairs that are in order.

        Its interval is that of all A with |a - A| <= z sd(A), the deviation by Hanley and McNeil (1982), as Wilson's is
        of a share: where all pairs are in order, sd(a) = 0 says nothing.
        """
        if self.scores is None or self.scores.ndim > 1 or len(self.classes) != 2:
            return None
        positive = self.truth == self.classes[1]
        zeros, ones = np.sort(self.scores[~positive]), self.scores[positive]
        if not (len(zeros) and len(ones)):
            return None
        pairs = sum(int(np.searchsorted(zeros, ones, side).sum()) for side in ("left", "right"))  # a tie is half of one
        a = pairs / (2 * len(ones) * len(zeros))
        n1, n0 = self._independent(positive), self._independent(~positive)

        def variance(A: float) -> float:
            q1, q2 = A / (2.0 - A), 2.0 * A * A / (1.0 + A)
            return (A * (1.0 - A) + (n1 - 1) * (q1 - A * A) + (n0 - 1) * (q2 - A * A)) / (n1 * n0)

        return _interval(a, variance)

    @property
    def r2(self) -> Measure:
        """1 - the share of the variance that is left, with percentiles of a seeded bootstrap; nan if there was none."""
        size = float(max(np.abs(self.truth).max(), np.abs(self.predicted).max())) or 1.0  # R^2 has no unit, squares do
        truth, predicted = self.truth / size, self.predicted / size
        _, first, sample = np.unique(self._samples, return_index=True, return_inverse=True)
        sample = first.argsort().argsort()[sample]  # in the order of their first prediction
        r, errors, targets = np.bincount(sample), np.bincount(sample, (truth - predicted) ** 2), truth[np.sort(first)]
        rng, n, values = np.random.default_rng(0), len(first), []
        for rows in row_blocks(_DRAWS, n):  # all draws at once take 16 kB a sample, five times
            drawn = rng.integers(n, size=(len(range(_DRAWS)[rows]), n))
            y, w = targets[drawn], r[drawn]
            middle = np.sum(w * y, axis=1, keepdims=True) / np.sum(w, axis=1, keepdims=True)
            spread = np.sum(w * (y - middle) ** 2, axis=1)
            values += (1.0 - np.sum(errors[drawn], axis=1)[spread > 0.0] / spread[spread > 0.0]).tolist()
        if not values:
            return Measure(np.nan, np.nan, np.nan)
        whole = 1.0 - float(np.sum((truth - predicted) ** 2) / np.sum((truth - truth.mean()) ** 2))
        return Measure(whole, *map(float, np.quantile(values, [0.025, 0.975])))

    @property
    def absolute_error(self) -> Measure:
        """The mean distance of prediction and truth, with its normal interval."""
        values = np.abs(self.truth - self.predicted)
        mean, size, n = float(values.mean()), float(values.max()) or 1.0, self._independent()
        half = Z * size * float((values / size).std(ddof=1)) / np.sqrt(n) if n > 1.0 else np.inf
        return Measure(mean, float(max(0.0, mean - half)), float(mean + half))

    @property
    def baseline_absolute_error(self) -> float:
        """That of the median."""
        return float(np.mean(np.abs(self.truth - self.baseline)))

    @property
    def beats_baseline(self) -> bool:
        """Whether the whole interval is on the better side of a constant.

        Of classes the balanced accuracy, for which a constant is right in one class and wrong in all others, or the
        accuracy; of numbers the absolute error.
        """
        if self.classes is None:
            return self.absolute_error.high < self.baseline_absolute_error
        by_chance = 1.0 / len(np.unique(self.truth))
        return self.balanced_accuracy.low > by_chance or self.accuracy.low > self.baseline_accuracy

    def __str__(self) -> str:
        n = len(np.unique(self._samples))
        if self.classes is None:
            return (
                f"on {n} samples not seen: R^2 {self.r2}, mean absolute error {_short(self.absolute_error)}; always "
                f"the median: {self.baseline_absolute_error:.4g}"
            )
        auc = self.auc
        return (
            f"on {n} samples not seen: accuracy {self.accuracy}, always the most frequent class: "
            f"{self.baseline_accuracy:.3f}; balanced accuracy {self.balanced_accuracy}"
            + ("" if auc is None else f"; AUC {auc}")
        )


def evaluate(
    model: Any,
    X: Any,
    y: Any,
    *,
    test: Any = 0.25,
    groups: Any = None,
    params: Mapping[str, Any] | None = None,
    n_jobs: int | None = None,
    random_state: int = 0,
    verbose: bool = False,
) -> Evaluation:
    """Fit a model to a part of the samples, with all that it chooses on the way, and predict the others.

    Parameters
    ----------
    model : estimator
        Any of scikit-learn's interface; it is cloned. What it chooses by itself, as `MKLClassifierCV` does C and the
        norm, is chosen anew on each training part: with several parts that is nested cross-validation.
    X, y
        Samples, a data frame for a pipeline of tables, and targets.
    test : float, int, splitter or iterable
        The share of the samples that is held out, stratified by class; or the number of folds of a nested
        cross-validation; or what scikit-learn takes as `cv`.
    groups : array (n,), optional
        For a splitter that keeps groups together.
    params : mapping of str, optional
        What `fit` takes beside X and y, such as sample_weight, or groups for the splitter of a search; of a step of a
        pipeline with its name, model__sample_weight. Arrays with an entry for each sample are cut as these are.
    n_jobs : int, optional
        Parts at a time, in threads, by joblib; the result is the same for any.
    random_state : int
    verbose : bool
        Show a progress line.

    Returns
    -------
    Evaluation
        After Ctrl-C of the parts that were finished, and marked as interrupted.

    Raises
    ------
    InvalidType
        A model that predicts no target, or params that are no mapping.
    InvalidInput, InvalidParameter
        Targets, weights or groups of another number or shape than the samples; a share outside of (0, 1), or classes
        that are too small to be held out; folds that are tested on samples that they are trained on; predictions or
        scores that are not one for each sample, or not finite.
    Interrupted
        Ctrl-C came before the first part was finished.

    Warns
    -----
    InterruptedWarning
        Ctrl-C came before the last one was.
    """
    _require_predictions(model)
    checked_params(params)
    told = checked_verbosity(verbose)
    X, y, groups = samples_of(model, X, y, params, groups)
    classifies = is_classifier(model)
    splits = splits_of(_cv(test, classifies, random_state), y, groups, f"test = {shown(test)}", classifies=classifies)
    for f, (train, rows) in enumerate(splits):
        if len(seen := np.intersect1d(train, rows)):
            trained = f"tests fold {f} on sample {seen[0]}, which it is trained on; leave it out of one of the two"
            raise InvalidParameter(f"test = {shown(test)} {trained}.")
    if classifies:
        warn_of_classes((y[train], y[rows]) for train, rows in splits)
    tasks = [(model, X, y, train, rows, params) for train, rows in splits]
    found, interrupted = gathered(_part, tasks, n_jobs=n_jobs, label="evaluate", shown=told)
    require_some("evaluate", len(found), len(splits), interrupted)
    truth, predicted, baseline, scores, rows = (
        None if any(part is None for part in column) else np.concatenate(column)
        for column in zip(*found.values(), strict=True)
    )
    classes = np.unique(y) if classifies else None
    return Evaluation(truth, predicted, baseline, scores, classes, rows, interrupted)


def _require_predictions(model: Any) -> None:
    """Raise `InvalidType` unless a model is one that predicts targets."""
    if isinstance(model, type) or not (hasattr(model, "fit") and hasattr(model, "predict")):
        kind = f"the class {model.__name__}" if isinstance(model, type) else type(model).__name__
        raise InvalidType(f"model is {kind}; give an estimator that predicts, such as mklref.MKLClassifier().")
    if is_outlier_detector(model):
        raise InvalidType(
            f"model is {type(model).__name__}, which tells inliers from outliers and learns from no target; compare "
            "its predictions, 1 and -1, with what is known by a measure of scikit-learn."
        )


def _part(model: Any, X: Any, y: Any, train: Any, rows: Any, params: Any) -> tuple[Any, ...] | Unfinished:
    """Truth, prediction, the best constant, scores and numbers of some rows, by a fit to others."""
    fitted = fitted_to(model, X, y, train, params)
    classifies = is_classifier(fitted)
    outer, truth = part_of(fitted, X, rows, train), y[rows]
    values, counts = np.unique(y[train], return_counts=True)
    scores = None
    if classifies and hasattr(fitted, "decision_function") and len(values) == len(np.unique(y)):
        scores = _of_each(fitted, "decision_function", outer, len(rows))
    constant = values[counts.argmax()] if classifies else np.median(y[train])
    part = truth, _of_each(fitted, "predict", outer, len(rows)), np.full(len(rows), constant), scores, rows
    return Unfinished(part) if was_interrupted(fitted) else part


def _of_each(model: Any, name: str, samples: Any, n: int) -> Any:
    """What a method gives, `InvalidInput` unless it is a finite value for each of n samples; scores may be several."""
    found = np.asarray(getattr(model, name)(samples))
    fits = found.shape[:1] == (n,) and (found.ndim == 1 or name != "predict")
    if not fits or (found.dtype.kind == "f" and not np.isfinite(found).all()):
        raise InvalidInput(
            f"{type(model).__name__}.{name} gave {shown(found.ravel())} of shape {found.shape} for {n} samples; it has "
            "to give a finite value for each."
        )
    return found


def _cv(test: Any, classifies: bool, seed: int) -> Any:
    """What `test` means as `cv` of scikit-learn."""
    if isinstance(test, int | np.integer) and not isinstance(test, NO_NUMBERS) and test >= 2:
        folds: Any = StratifiedKFold if classifies else KFold
        return folds(int(test), shuffle=True, random_state=seed)
    if isinstance(test, int | float | np.number):
        if isinstance(test, NO_NUMBERS | np.complexfloating) or not 0.0 < test < 1.0:
            raise InvalidParameter(f"test = {shown(test)} must be a share in (0, 1), a number of folds, or a splitter.")
        cut: Any = StratifiedShuffleSplit if classifies else ShuffleSplit
        return cut(1, test_size=float(test), random_state=seed)
    return test


def _short(measure: Measure) -> str:
    return f"{measure.value:.4g} [{measure.low:.4g}, {measure.high:.4g}]"
