"""What predictions are made of, measures and intervals, how often a kernel is chosen, and targets."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pandas as pd
import pytest
import sklearn
from scipy.stats import norm
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.metrics import balanced_accuracy_score, r2_score, roc_auc_score
from sklearn.model_selection import GroupKFold, KFold, cross_validate
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from mklref import MKLClassifier, MKLClassifierCV, MKLOneClass, MKLRegressor
from mklref.datasets import load
from mklref.estimators import blocks, factors
from mklref.exceptions import InvalidInput, InvalidParameter, InvalidTarget, InvalidType, MKLWarning
from mklref.kernels import parse
from mklref.model_selection import Evaluation, evaluate, stability


@pytest.mark.parametrize("options", [{}, {"center": True}, {"multiclass": "independent"}, {"strategy": "one_vs_one"}])
def test_contributions_add_up_to_the_score(three_classes, options):
    X, y, X_new = three_classes
    model = MKLClassifier("per_variable(linear, rbf(1))", norm=2.0, **options).fit(X, y)
    parts = model.contributions(X_new)
    assert parts.shape == (9, 6, 3)
    np.testing.assert_allclose(parts.sum(axis=1) + model.intercept_, model._scores(X_new), rtol=1e-12, atol=1e-12)
    groups = model.contributions(X_new, by="group")
    np.testing.assert_allclose(groups[:, 0], parts[:, 0] + parts[:, 1], rtol=1e-12, atol=1e-12)
    shares = model.contribution_shares(X_new, by="group")
    assert list(shares) == ["x0", "x1", "x2"]
    assert sum(shares.values()) == pytest.approx(1.0)
    t = model._scores(X_new)
    assert shares["x0"] == pytest.approx(
        sum(np.cov(groups[:, 0, p], t[:, p])[0, 1] for p in range(3)) / sum(np.var(t[:, p], ddof=1) for p in range(3))
    )
    same = clone(model).set_params(kernels=[lambda A, B: A @ B.T, lambda A, B: (A @ B.T) ** 2]).fit(X, y)
    shares = same.contribution_shares(X_new)  # of kernels that share a name none is lost
    assert list(shares) == ["<lambda>", "<lambda> (2)"]
    assert sum(shares.values()) == pytest.approx(1.0)
    assert blocks.different(["f", "f (2)", "f", "f"]) == ["f", "f (2)", "f (3)", "f (4)"]
    number = MKLRegressor("linear, rbf(1)").fit(X, X[:, 0])
    np.testing.assert_allclose(number.contributions(X_new).sum(axis=1) + number.intercept_, number.predict(X_new))
    with pytest.raises(InvalidParameter, match="by = 'variable' is unknown; known names: kernel, group"):
        model.contributions(X_new, by="variable")


@pytest.mark.parametrize("options", [{}, {"multiclass": "independent", "center": True}, {"normalize": "spherical"}])
def test_scores_in_blocks_are_those_of_the_definition(three_classes, monkeypatch, options):
    """f_p(x) = sum_m theta_pm sum_i beta_pi k_m(x_i, x) + b_p by all training samples and kernels at once."""
    X, y, X_new = three_classes
    model = MKLClassifier("linear, per_variable(rbf(1))", strategy="one_vs_rest", **options).fit(X, y)
    method, center = options.get("normalize", "multiplicative"), options.get("center", False)
    rows = parse("linear, per_variable(rbf(1))").fit(X, normalize=method, center=center).new(X_new)
    beta = np.zeros((3, 36))
    beta[:, model.support_] = model.dual_coef_
    weights = np.broadcast_to(model.weights_, (3, 4))
    expected = np.einsum("pm,mki,pi->kp", weights, rows, beta) + model.intercept_
    monkeypatch.setattr(factors, "_FEWEST", 1)
    for entries in (1, 40, 2**20):
        monkeypatch.setattr(factors, "BLOCK", entries)
        np.testing.assert_allclose(model.decision_function(X_new), expected, rtol=1e-12, atol=1e-12)


def test_contributions_are_those_of_their_kernels(three_classes):
    """Also where kernels before them have no weight."""
    X, y, X_new = three_classes
    model = MKLClassifier("rbf(1e4), linear, rbf(1)", normalize=None).fit(X, y == "top")
    assert model.weights_[0] == 0.0 < model.weights_[1]
    parts = model.contributions(X_new)
    assert not parts[:, 0].any()
    linear = model.weights_[1] * (X_new @ X[model.support_].T) @ model.dual_coef_[0]
    np.testing.assert_allclose(parts[:, 1], linear, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(parts.sum(axis=1) + model.intercept_, model.decision_function(X_new), atol=1e-12)


class _Echo(ClassifierMixin, BaseEstimator):
    """Predicts its first variable, which is the score as well."""

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        return self

    def decision_function(self, X):
        return np.asarray(X)[:, 0]

    def predict(self, X):
        return (self.decision_function(X) > 0).astype(int)


def test_measures_and_their_intervals(rng):
    y = np.repeat([0, 1], [150, 50])
    X = (y + rng.normal(size=200) - 0.5)[:, None]
    found = evaluate(_Echo(), X, y, test=4, random_state=2)
    assert sorted(found.rows) == list(range(200))
    assert set(y[found.rows].reshape(4, 50).sum(axis=1)) <= {12, 13}  # stratified
    order = np.argsort(found.rows)
    np.testing.assert_array_equal(found.predicted[order], (X[:, 0] > 0).astype(int))
    assert found.accuracy.value == pytest.approx(np.mean((X[:, 0] > 0) == y))
    assert found.baseline_accuracy == 0.75
    assert found.balanced_accuracy.value == pytest.approx(balanced_accuracy_score(y, X[:, 0] > 0))
    assert found.confusion.sum() == 200
    positive, negative = X[y == 1, 0], X[y == 0, 0]
    assert found.auc.value == pytest.approx(np.mean(positive[:, None] > negative))
    for measure in (found.accuracy, found.balanced_accuracy, found.auc):
        assert 0.0 <= measure.low < measure.value < measure.high <= 1.0
    assert found.beats_baseline
    assert "always the most frequent class: 0.750" in str(found)
    p, low, high = Evaluation(np.ones(10), np.ones(10), np.ones(10), None, np.arange(2)).accuracy
    assert (p, high) == (1.0, 1.0)
    assert low == pytest.approx(0.7225, abs=1e-4)  # Wilson's, 1/(1 + z^2/n)
    constant = Evaluation(y, np.zeros(200, dtype=int), np.zeros(200, dtype=int), None, np.arange(2))
    assert not constant.beats_baseline
    t = X[:, 0]
    number = Evaluation(t, t + 0.1 * rng.normal(size=200), np.full(200, np.median(t)), None)
    assert number.r2.value == pytest.approx(r2_score(t, number.predicted))
    assert number.r2.low < number.r2.value < number.r2.high < 1.0
    assert number.beats_baseline
    for scale in (2.0**600, 2.0**-600):  # whose squares leave float64
        scaled = Evaluation(scale * t, scale * number.predicted, scale * number.baseline, None)
        assert scaled.r2 == pytest.approx(number.r2, rel=1e-12)
        assert scaled.absolute_error == pytest.approx([scale * x for x in number.absolute_error], rel=1e-12, abs=0.0)
    assert "always the median" in str(number)
    assert np.isnan(Evaluation(np.ones(5), t[:5], np.zeros(5), None).r2).all()  # nothing varies
    refused = {1.5: "1.5 must be", 1e-9: "1e-09 cannot cut", "a": "'a' cannot cut .* fewer folds"}
    for test, says in {**refused, np.timedelta64(3, "s"): ".* must be", np.complex64(0.5): ".* must be"}.items():
        with pytest.raises(InvalidParameter, match=f"test = {says}"):
            evaluate(_Echo(), X, y, test=test)
    with pytest.raises(InvalidParameter, match="fold 1 on sample 7, which it is trained on; leave it out"):
        evaluate(_Echo(), X, y, test=[(range(9), range(9, 19)), (range(9), range(7, 17))])
    wrong = {r"inconsistent numbers of samples: \[200, 199\]": y[1:], "should be a 1d array": np.c_[y, y]}
    for says, targets in wrong.items():
        with pytest.raises(InvalidInput, match=says):
            evaluate(_Echo(), X, targets)


def test_each_interval_is_that_of_its_definition(rng, monkeypatch):
    z = norm.ppf(0.975)
    y, taken = np.append(rng.integers(2, size=39), 2), rng.integers(3, size=40)
    found = Evaluation(y, np.where(rng.random(40) < 0.5, y, taken), y, None, np.arange(4))  # of one class none is there
    p, *ends = found.accuracy
    assert [abs(p - q) for q in ends] == pytest.approx([z * np.sqrt(q * (1.0 - q) / 40) for q in ends])
    n, r = np.bincount(y), np.bincount(y[y == found.predicted], minlength=3)
    mean, *ends = found.balanced_accuracy
    assert mean == pytest.approx(np.mean(r / n))
    some = np.linspace(0.0, 1.0, 401)
    q1, q2 = some[:, None], some  # of the first two classes; the mean fixes that of the third
    for A in ends:
        shares = np.array([q1 + 0.0 * q2, q2 + 0.0 * q1, 3.0 * A - q1 - q2])
        variances = np.sum(shares * (1.0 - shares) / n[:, None, None], axis=0) / 9.0
        largest = variances[(shares >= 0.0).all(axis=0) & (shares <= 1.0).all(axis=0)].max()
        assert abs(mean - A) == pytest.approx(z * np.sqrt(largest), rel=1e-4)
    two = y > 0
    n1, n0 = np.count_nonzero(two), np.count_nonzero(~two)
    a, *ends = Evaluation(two, two, two, two + rng.normal(size=40), np.array([False, True])).auc
    for A in ends:
        q1, q2 = A / (2.0 - A), 2.0 * A**2 / (1.0 + A)
        variance = (A * (1.0 - A) + (n1 - 1) * (q1 - A**2) + (n0 - 1) * (q2 - A**2)) / (n1 * n0)
        assert abs(a - A) == pytest.approx(z * np.sqrt(variance))
    t = 100.0 + rng.normal(size=40)
    number = Evaluation(t, t + 0.5 * rng.normal(size=40), np.full(40, np.median(t)), None)
    assert Evaluation(t[:1], t[:1] - 2.0, t[:1], None).absolute_error == pytest.approx((2.0, 0.0, np.inf))
    assert Evaluation(t[:2], t[:2] - 2.0, t[:2], None).absolute_error == pytest.approx((2.0, 2.0, 2.0))
    apart = np.abs(t - number.predicted)
    half = z * apart.std(ddof=1) / np.sqrt(40)
    assert number.absolute_error == pytest.approx((apart.mean(), apart.mean() - half, apart.mean() + half))
    assert number.baseline_absolute_error == pytest.approx(np.abs(t - np.median(t)).mean())
    drawn = np.random.default_rng(0).integers(40, size=(2000, 40))
    values = [1.0 - np.sum((t[i] - number.predicted[i]) ** 2) / np.sum((t[i] - t[i].mean()) ** 2) for i in drawn]
    monkeypatch.setattr(factors, "BLOCK", 1)  # 64 draws at a time
    assert number.r2[1:] == pytest.approx(np.percentile(values, [2.5, 97.5]))
    tracemalloc.start()  # all draws of 8000 samples are 128 MB, and were there five times
    assert Evaluation(t.repeat(200), t.repeat(200), t.repeat(200), None).r2.low == 1.0
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1e8


def test_a_sample_that_is_predicted_several_times_counts_once(rng):
    """As by `RepeatedKFold`; of 9 predictions of 5 samples, 5, 1, 1, 1 and 1 of each, 81/29 count."""
    t, rows = rng.normal(size=40), rng.permutation(40)
    fields = t > 0.0, t + rng.normal(size=40) > 0.0, t > 9.0, t + rng.normal(size=40), np.array([False, True]), rows
    numbers = t, t + rng.normal(size=40), np.zeros(40), None, None, rows
    for each, names in [(fields, ("accuracy", "balanced_accuracy", "auc")), (numbers, ("r2", "absolute_error"))]:
        once = Evaluation(*each)
        more = Evaluation(*(x if x is None or len(x) == 2 else np.tile(x, 9) for x in each))
        for name in names:
            # The deviation of absolute errors has one less than 40 in its denominator, and one less than 360.
            assert getattr(more, name) == pytest.approx(getattr(once, name), rel=2e-2), name
        assert str(more).startswith("on 40 samples not seen")
    right = Evaluation(*np.ones((3, 9)), None, np.arange(2), np.array([0, 0, 0, 0, 0, 1, 2, 3, 4]))
    assert right.accuracy.low == pytest.approx(1.0 / (1.0 + norm.ppf(0.975) ** 2 * 29 / 81))


@pytest.mark.parametrize(("area", "sizes"), [(0.5, (8, 8)), (0.7, (30, 15)), (0.9, (12, 30)), (0.97, (8, 8))])
def test_nineteen_of_twenty_intervals_hold_the_area_under_the_curve(area, sizes, rng):
    """Of exponential scores, for which the deviation of Hanley and McNeil is exact; 250 draws, four deviations off."""
    y, found = np.repeat([0, 1], sizes), []
    for _ in range(250):
        t = np.concatenate([rng.exponential(size=sizes[0]), rng.exponential(area / (1.0 - area), size=sizes[1])])
        auc = Evaluation(y, t > 1.0, t > 9.0, t, np.arange(2)).auc
        found.append(auc.low <= area <= auc.high)
    assert np.mean(found) > 0.95 - 4.0 * np.sqrt(0.05 * 0.95 / 250)


@pytest.mark.parametrize(("sizes", "share"), [([6] * 10, 0.1), ([1, 2] * 9, 0.98)])
def test_nineteen_of_twenty_intervals_hold_the_mean_of_the_shares(sizes, share, rng):
    """Also of classes with one or two samples: 250 draws, four deviations off."""
    y, found = np.repeat(np.arange(len(sizes)), sizes), []
    for _ in range(250):
        predicted = np.where(rng.random(len(y)) < share, y, (y + 1) % len(sizes))
        mean = Evaluation(y, predicted, y, None, np.arange(len(sizes))).balanced_accuracy
        found.append(mean.low <= share <= mean.high)
    assert np.mean(found) > 0.95 - 4.0 * np.sqrt(0.05 * 0.95 / 250)


def test_a_tie_is_half_a_pair(rng):
    for few in (1, 2, 5, 1000):
        y, scores = np.arange(90) % 3 == 1, rng.integers(few, size=90) - 0.0
        found = Evaluation(y, y, y, scores, np.array([False, True])).auc.value
        assert found == pytest.approx(roc_auc_score(y, scores), rel=1e-14)


def test_a_perfect_order_of_few_samples_proves_no_perfect_area():
    y = np.repeat([0, 1], [7, 8])
    for sign, ends in ((1.0, (0.745, 1.0)), (-1.0, (0.0, 0.264))):
        auc = Evaluation(y, y, y, sign * np.arange(15.0), np.arange(2)).auc
        assert auc == pytest.approx((max(sign, 0.0), *ends), abs=1e-3)
        assert Evaluation(y > sign, y, y, np.arange(15.0), np.arange(2)).auc is None  # one class alone
    assert Evaluation(y, y, y, np.ones((15, 2)), np.arange(2)).auc is None


def test_a_part_that_lacks_a_class_has_no_scores_beside_those_of_others(three_classes):
    X, y, _ = three_classes
    order = np.argsort(y, kind="stable")
    with pytest.warns(MKLWarning, match="fold . is not trained on the class '(low|mid|top)' of some of its test"):
        found = evaluate(MKLClassifier("linear", tol=1e-2), X[order], y[order], test=KFold(3))
    assert found.scores is None
    assert found.confusion.sum() == 36


@pytest.mark.parametrize(
    ("model", "params", "words"),
    [
        (3, None, "model is int; give an estimator that predicts"),
        (MKLClassifier, None, "model is the class MKLClassifier; give an estimator that predicts"),
        (StandardScaler(), None, "model is StandardScaler; give an estimator that predicts"),
        (MKLOneClass("linear"), None, "model is MKLOneClass, which tells inliers from outliers"),
        (MKLClassifier("linear"), [1], "params is list; give a mapping"),
    ],
    ids=["number", "class", "transformer", "outliers", "params"],
)
def test_what_predicts_no_target_is_not_evaluated(three_classes, model, params, words):
    """Predictions 1 and -1 of inliers and outliers were compared with targets as numbers, by R^2."""
    X, y, _ = three_classes
    with pytest.raises(InvalidType, match=words):
        evaluate(model, X, y == "top", params=params)
    if params:
        with pytest.raises(InvalidType, match=words):
            stability(model, X, y, params=params)
    with pytest.raises(InvalidType, match="X is None"):
        stability(MKLClassifier("linear"), None, y)


@pytest.mark.parametrize("n", [27, 35])
def test_weights_of_another_number_of_samples_are_refused_also_where_it_is_that_of_a_training_part(three_classes, n):
    X, y, _ = three_classes
    pipeline = make_pipeline(StandardScaler(), MKLClassifier("linear"))
    for use, name in (
        (lambda params: evaluate(pipeline, X, y, params=params), "standardscaler__sample_weight"),
        (lambda params: evaluate(pipeline, X, y, params=params), "groups"),
        (lambda params: stability(pipeline, X, y, params=params), "sample_weight"),
    ):
        with pytest.raises(InvalidInput, match=rf"params\['{name}'\] has {n} entries for 36 samples; give one for eac"):
            use({name: [1.0] * n})
    with pytest.raises(InvalidParameter, match="params names 'model__sample_weight', which fit of MKLClassifier does"):
        stability(pipeline, X, y, params={"model__sample_weight": np.ones(36)})
    with pytest.raises(InvalidType, match="model is Pipeline, which learns no kernel weights"):
        stability(Pipeline([]), X, y)


@pytest.mark.parametrize("name", ["nope", "X", "standardscaler", "mklclassifier__nope", "svc__sample_weight", 3])
def test_parameters_that_no_fit_takes_are_named(three_classes, name):
    X, y, _ = three_classes
    pipeline = make_pipeline(StandardScaler(), MKLClassifier("linear"))
    for model in (pipeline, pipeline[-1]):
        with pytest.raises(InvalidParameter, match=f"params names {name!r}, which fit of {type(model).__name__} does"):
            evaluate(model, X, y, params={name: 1})
    taken = {"mklclassifier__sample_weight": np.ones(36), "standardscaler__sample_weight": None}
    assert evaluate(pipeline, X, y, params=taken).accuracy.value > 0.5


def test_a_class_that_few_rows_of_a_fit_lack_is_no_fold_that_is_tested(three_classes):
    X, y, _ = three_classes
    assert stability(MKLClassifier("linear", tol=1e-2), X, np.where(np.arange(36) < 2, "rare", y), fits=2, share=0.2)


def test_a_search_is_evaluated_by_nested_cross_validation(three_classes):
    X, y, _ = three_classes
    search = MKLClassifierCV("linear, rbf(1)", Cs=[1.0], norms=[1.0], cv=2, tol=1e-2)
    found = evaluate(make_pipeline(StandardScaler(), search), X, y, test=GroupKFold(3), groups=np.arange(36) % 6)
    assert found.scores.shape == (36, 3)
    assert found.auc is None
    assert found.accuracy.value > 0.5


def test_a_data_set_keeps_the_names_of_its_columns_where_its_rows_are_chosen():
    data = load("iris").standardized().subset(40, seed=0)
    model = MKLClassifier("on(petal, [petal*], linear)", tol=1e-2)
    assert evaluate(model, data, data.y == "setosa").accuracy.value > 0.8
    assert stability(model, data, data.y == "setosa", fits=2).names == model.fit(data, data.y == "setosa").kernel_names_


def test_metadata_are_routed(three_classes):
    """scikit-learn hands weights and groups on to a search that asks for them."""
    X, y, _ = three_classes
    groups = np.arange(36) % 6
    with sklearn.config_context(enable_metadata_routing=True):
        search = MKLClassifierCV("linear", Cs=[1.0], norms=[1.0], cv=GroupKFold(2), tol=1e-2)
        search.set_fit_request(groups=True, sample_weight=True).set_score_request(sample_weight=False)
        params = {"groups": groups, "sample_weight": np.ones(36)}
        scores = cross_validate(search, X, y, cv=3, params=params, error_score="raise")["test_score"]
    assert np.isfinite(scores).all()


def test_targets_that_are_no_numbers_are_refused(three_classes):
    X, y, _ = three_classes
    for targets in (y, y.astype(object), np.full(36, "2001-01-01", dtype="datetime64[D]")):
        with pytest.raises(InvalidTarget, match=r"y holds no numbers \((could not|datetime).*\); encode"):
            MKLRegressor("linear").fit(X, targets)
    numbers = np.arange(36.0) % 7
    found = evaluate(MKLRegressor("linear"), X, numbers.astype(str))  # texts of numbers are taken, and compared as such
    assert found.r2 == evaluate(MKLRegressor("linear"), X, numbers).r2
    with pytest.raises(InvalidTarget, match="which an array of <U21 does not keep apart"):
        evaluate(MKLClassifier("linear"), X, [1, "1"] * 18)


@pytest.mark.parametrize("dtype", ["Int64", "boolean"])
def test_classes_of_the_types_of_pandas_stay_what_they_are(three_classes, dtype):
    X = three_classes[0]
    y = pd.Series(np.arange(36) % 2, dtype=dtype)
    if dtype == "Int64":
        y += 2**53  # beyond which floats leave out odd numbers
    for given in (y, y.array):
        model = MKLClassifier("linear").fit(X, given)
        assert model.classes_.dtype == y.dtype.numpy_dtype
        assert model.classes_.tolist() == [y[0], y[1]]


@pytest.mark.parametrize("method", ["predict", "decision_function"])
@pytest.mark.parametrize("wrong", [lambda t: np.append(t[1:], np.nan), lambda t: t[1:], lambda t: t[:, None]])
def test_a_model_without_a_finite_value_for_each_sample_is_named(wrong, method):
    X = np.random.default_rng(0).normal(size=(20, 2))
    y = X[:, 0] > 0.0
    made = lambda model, X: wrong(np.ones(len(X)))  # noqa: E731
    Wrong = type("Wrong", (MKLClassifier,), {method: made})
    if method == "decision_function" and wrong(np.ones(2)).ndim == 2:  # as of several classes
        assert evaluate(Wrong(), X, y).scores.shape == (5, 1)
        return
    with pytest.raises(InvalidInput, match=rf"Wrong\.{method} gave .* for 5 samples; it has to give a finite value"):
        evaluate(Wrong(), X, y)


def test_gram_matrices_are_evaluated_in_every_shape_that_fit_takes(three_classes):
    X, y, _ = three_classes
    ids, K = [f"s{i}" for i in range(36)], np.stack([X @ X.T, (X @ X.T + 1.0) ** 2])
    model, frames = MKLClassifier("precomputed"), [pd.DataFrame(gram, ids, ids) for gram in K]
    for use in (
        lambda X: evaluate(model, X, y, test=2).predicted,
        lambda X: stability(model, X, y, fits=2, params={"sample_weight": list(range(1, 37))}).weights,
    ):
        expected = use(np.moveaxis(K, 0, -1))
        for matrices in (K, list(K), frames):
            np.testing.assert_array_equal(use(matrices), expected)
    with pytest.raises(InvalidTarget, match=r"X\[0\] and y have their samples in different orders"):
        evaluate(model, frames, pd.Series(y, ids[::-1]))
    for own in (X, list(K)):
        with pytest.raises(InvalidInput, match=r"X has shape .*; a precomputed kernel has a row and a column for each"):
            evaluate(SVC(kernel="precomputed"), own, y)
    for gram in (K[0], frames[0]):
        assert evaluate(SVC(kernel="precomputed"), gram, y, test=0.6).accuracy.value > 0.3
