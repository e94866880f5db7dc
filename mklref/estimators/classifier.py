"""`MKLClassifier`: two or more classes."""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets

from mklref._names import require_one_order
from mklref._typing import Array
from mklref._validate import as_one_kind, checked_choice, checked_positive, require_unmasked, shown
from mklref.estimators.base import BaseMKL, Part
from mklref.estimators.samples import own_errors, readable, require_present
from mklref.exceptions import InvalidParameter, InvalidTarget
from mklref.kernels import KernelStack
from mklref.multiclass import STRATEGIES, MulticlassProblem, require_known, votes
from mklref.problem import Problem

WEIGHTS = ("joint", "independent")


class MKLClassifier(ClassifierMixin, BaseMKL):  # type: ignore[misc]
    """Classification with learned kernel weights, solved to a certified duality gap.

    minimise  C sum_i c_i V(t_i, y_i) + R(||f_1||, ..., ||f_M||),     t_i = sum_m f_m(x_i) + b

    With more than two classes there is a machine p for each class against the rest, or for each pair:

    "joint"        minimise sum_p (losses of p) + R(rho),  rho_m^2 = sum_p ||f_mp||^2: common weights (SimpleMKL 4.2)
    "independent"  each machine has its own weights

    Parameters
    ----------
    kernels : str, KernelFamily, callable, list of these, or "precomputed"
        A specification such as "linear, rbf(0.5..20, 8)" (`mklref.kernels.parse`), a family, functions
        k(X, Z) that return one row for each sample of X, such as scikit-learn's kernel objects. With "precomputed" X
        holds Gram matrices, (M, n, n) or (n, n, M); cross-validation needs the latter.
    norm : float, str or Regularizer
        p in [1, inf] of the lp norm of the weights, 1 for few kernels, inf for all alike; "groups" for the group kernel
        learning of Szafranski on the groups in `kernel_groups_`; or any regulariser, such as mklref.ElasticNet(0.5) or
        mklref.Groups(groups, p, q).
    C : float
        Weight of the summed loss, in (0, inf).
    loss : str or Loss
        "hinge", "squared_hinge" or "logistic".
    normalize : {"multiplicative", "trace", "spherical"} or None
        How kernels are brought to one scale, with the statistics of the training samples; see
        `mklref.kernels.normalize`.
    center : bool
        Whether to centre kernels around the mean of the training samples first.
    multiclass : {"joint", "independent"}
    strategy : {"one_vs_rest", "one_vs_one"}
    class_weight : dict, "balanced" or None
        Factors of C for each class, as in scikit-learn.
    storage : {"auto", "memory", "lazy"}
        Whether kernels are held in memory or evaluated when they are read, as in `KernelFamily.fit`; "auto" decides by
        the memory that is free. Lazy kernels take losses with bounds, "hinge" and "squared_hinge" among them.
    approximation : sklearn.kernel_approximation.Nystroem, int or None
        Kernels as factors, for hundreds of thousands of samples: features k(x, z) k(z, z)^{-1/2} of n_components
        samples z for each of `kernels`, of which the other parameters of Nystroem say nothing, or pivoted Cholesky
        factors with so many columns. All losses are taken, predictions cost a product, and `transform` gives features.
    n_jobs : int, optional
        Independent machines that are solved at a time, in threads, by joblib; the result is the same for any.
    tol : float
        Certified relative duality gap.
    max_iter : int
        Largest number of outer iterations.
    max_time : float, optional
        Seconds after which a fit ends with the best machine so far, and a `ConvergenceWarning` with its certificate, as
        after `max_iter`. The kernels are evaluated in any case; independent machines share what is left.
    random_state : int, RandomState or None
        Not used: the solver is deterministic.
    verbose : bool
        Show a progress line, and say what storage="auto" has chosen, and why.

    Attributes
    ----------
    classes_ : array (n_classes,)
    weights_ : array (M,), or (P, M) for independent machines
        Kernel weights.
    support_ : array (s,)
        Indices of the training samples with a nonzero dual variable in some machine.
    dual_coef_ : array (P, s)
        Their dual variables, signed; P = 1 for two classes.
    intercept_ : array (P,)
    certificate_ : Certificate; Bounds for joint machines; a tuple of certificates for independent ones
    n_iter_ : int
        Outer iterations; the most of any machine.
    storage_ : {"memory", "lazy"}
        Where the kernels were during the fit; a model from a file does not know.
    kernel_names_ : tuple of str
    kernel_groups_ : dict of str to tuple of int
        The kernels of each group: of a variable, of `on` or `per_group`, of a scale of wavelets; not if precomputed.
    n_features_in_ : int
    feature_names_in_ : array of str
        Only if X is a data frame.

    Notes
    -----
    Errors say what to do. A sample of weight 2 is the same as two copies of it, also in the statistics of the
    normalisation, and the order of the samples changes nothing: equal ones are learned from once, with their weights
    added up, and `support_` names the first of them. Class weights are factors of C alone.
    """

    C: float
    multiclass: str
    strategy: str

    def __init__(
        self,
        kernels: Any = "simplemkl",
        *,
        norm: Any = 1.0,
        C: float = 1.0,
        loss: Any = "hinge",
        normalize: str | None = "multiplicative",
        center: bool = False,
        multiclass: str = "joint",
        strategy: str = "one_vs_rest",
        class_weight: Any = None,
        storage: str = "auto",
        approximation: Any = None,
        n_jobs: int | None = None,
        tol: float = 1e-4,
        max_iter: int = 500,
        max_time: float | None = None,
        random_state: Any = None,
        verbose: bool = False,
    ) -> None:
        self._take_parameters(locals())

    def _checked_data(self, X: Any, y: Any) -> tuple[Any, Any]:
        checked_choice("multiclass", self.multiclass, WEIGHTS)
        checked_choice("strategy", self.strategy, STRATEGIES)
        own: Any = getattr(y, "dtype", None)
        if hasattr(own, "numpy_dtype"):  # pandas' own integers, of which scikit-learn makes floats
            require_present(y)
            y = y.astype(own.numpy_dtype)
        X, y = self._checked(X, as_one_kind(y) if isinstance(y, list | tuple) else y)
        y = _unboxed(y)
        require_known(y)
        with own_errors():
            check_classification_targets(y)
        return X, y

    def _require_targets(self, y: Any) -> None:
        if len(np.unique(y)) < 2:
            raise InvalidTarget(f"y holds one class, {y.tolist()[0]!r}; give samples of at least two classes.")
        given = self.class_weight  # before a search copies it, which no generator or proxy survives
        if not (given is None or isinstance(given, dict) or (isinstance(given, str) and given == "balanced")):
            raise InvalidParameter(f"class_weight = {shown(given)}; give a dict of classes to weights, or 'balanced'.")

    def _parts(self, grams: KernelStack, y: Any, weight: Array | None) -> list[Part]:
        self.classes_, members = np.unique(y, return_inverse=True)
        if self.class_weight is not None:
            balance = self._class_weights(members, weight)[members]
            weight = balance if weight is None else weight * balance
        common: dict[str, Any] = {
            "C": self.C,
            "loss": self.loss,
            "regularizer": self._regularizer(),
            "sample_weight": weight,
        }
        everybody = np.arange(len(y))
        if len(self.classes_) == 2:
            return [Part(Problem(grams, 2.0 * members - 1.0, **common), everybody)]
        several = MulticlassProblem(grams, members, strategy=self.strategy, **common)
        if self.multiclass == "joint":
            return [Part(several, everybody)]
        return [Part(machine.problem, machine.samples) for machine in several.machines]

    def _class_weights(self, members: Any, weight: Array | None) -> Array:
        """The factor of C of each class; "balanced" gives all classes the same sum of weights.

        Those that a dict does not name have 1. scikit-learn's own look-up takes the class "1" for the number.
        """
        given = self.class_weight
        if isinstance(given, str) and given == "balanced":
            sums = np.bincount(members, weights=weight)
            return np.asarray(sums.sum() / (len(sums) * sums))
        classes = set(self.classes_)
        unknown = [label for label in given if label not in classes]
        if unknown and not classes <= set(given):  # of a part of the samples some classes are not there
            there = ", ".join(shown(label) for label in self.classes_.tolist()[:8])
            raise InvalidParameter(f"class_weight names {shown(unknown[0])}, which is no class; there are {there}.")
        weights = np.ones(len(classes))
        says = "to do without a class leave its samples out."
        for k, (label, plain) in enumerate(zip(self.classes_, self.classes_.tolist(), strict=True)):
            weights[k] = checked_positive(f"class_weight[{shown(plain)}]", given.get(label, 1.0), says)
        return weights

    def decision_function(self, X: Any) -> Array:
        """Scores of samples.

        Returns
        -------
        array (k,) or (k, n_classes)
            Positive for `classes_[1]` of two classes. Of several, the largest one is predicted: the score of the
            machine of each class, or the number of pairs won, with a fraction that decides ties.
        """
        scores = self._scores(X)
        if len(self.classes_) == 2:
            return scores[:, 0]
        return votes(scores, len(self.classes_)) if self._fitted_with["strategy"] == "one_vs_one" else scores

    def predict(self, X: Any) -> Any:
        """The class of each sample, (k,)."""
        scores = self.decision_function(X)
        return self.classes_[(scores > 0.0).astype(int) if scores.ndim == 1 else scores.argmax(axis=1)]

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Share of samples whose class is predicted; classes may be Python objects, as in `fit`."""
        require_unmasked(y=y, sample_weight=sample_weight)
        require_one_order({"X": X, "y": y, "sample_weight": sample_weight}, InvalidTarget)
        with own_errors():
            weight = readable(sample_weight, "sample_weight")
            return float(super().score(X, _unboxed(np.ravel(readable(y, "y"))), weight))

    @property
    def predict_proba(self) -> NoReturn:
        """Not there, so that hasattr says no: sklearn.calibration.CalibratedClassifierCV makes scores probabilities."""
        raise AttributeError(
            "predict_proba: scores are not probabilities; fit CalibratedClassifierCV(model, ensemble=False) of "
            "sklearn.calibration in place of the model, which has it."
        )


def _unboxed(y: Any) -> Any:
    """Classes that are Python objects as an array of numbers, or texts; they have to have an order."""
    if y.dtype.kind != "O":
        return y
    try:
        np.unique(y)
    except TypeError as mixed:
        kinds = ", ".join(sorted({type(label).__name__ for label in y}))
        raise InvalidTarget(
            f"y holds classes of several types, {kinds}, which have no order: drop the samples without a class, and "
            "give all classes as texts, y.astype(str)."
        ) from mixed
    return y if isinstance(y[0], str) else np.array(y.tolist())
