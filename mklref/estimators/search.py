"""`MKLClassifierCV` and `MKLRegressorCV`, and what their parameters mean; see `cross_validation`."""

from __future__ import annotations

from typing import Any

from mklref.estimators.classifier import MKLClassifier
from mklref.estimators.cross_validation import Searching
from mklref.estimators.regressor import MKLRegressor


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
        Folds at a time, and independent machines of the last fit, by joblib; the result is the same for any. Threads
        unless a `joblib.parallel_config` says otherwise.
    loss, normalize, center, multiclass, strategy, class_weight, tol, max_iter, random_state
        As for `MKLClassifier`.
    max_time : float, optional
        Seconds of each fit, in the folds and to all samples, as for `MKLClassifier`.
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
    interrupted_ : bool
        Whether Ctrl-C came first. Then an `InterruptedWarning` says what was compared, and cv_results_ has nan for what
        was not; where nothing was, the fit raises `mklref.Interrupted`.
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
        max_time: float | None = None,
        random_state: Any = None,
        verbose: bool = False,
    ) -> None:
        self._take_parameters(locals())


class MKLRegressorCV(Searching, MKLRegressor):
    """`MKLRegressor` with C and the norm of the weights chosen by cross-validation; see `MKLClassifierCV`.

    Parameters
    ----------
    Cs, norms, cv, rule, n_jobs, verbose
        As for `MKLClassifierCV`.
    scoring : str or callable, optional
        As scikit-learn understands it; R^2 by default.
    kernels, loss, normalize, center, scale_y, tol, max_iter, max_time, random_state
        As for `MKLRegressor`.

    Attributes
    ----------
    C_, norm_, best_score_, best_index_, cv_results_, n_splits_, best_estimator_, interrupted_
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
        max_time: float | None = None,
        random_state: Any = None,
        verbose: bool = False,
    ) -> None:
        self._take_parameters(locals())
