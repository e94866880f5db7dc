"""The estimators are scikit-learn's: its own checks, its tools, and its machines where there is one kernel."""

from __future__ import annotations

import io
import warnings
from itertools import product

import joblib
import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_iris
from sklearn.gaussian_process.kernels import RBF
from sklearn.kernel_approximation import Nystroem
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline, make_union
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, SVR, OneClassSVM
from sklearn.utils import get_tags
from sklearn.utils.estimator_checks import check_estimator

from mklref import (
    ElasticNet,
    EpsilonInsensitive,
    MKLClassifier,
    MKLClassifierCV,
    MKLOneClass,
    MKLRegressor,
    MKLRegressorCV,
)
from mklref.exceptions import ConstantKernelWarning, ScaleWarning, UselessModelWarning

SEARCH = {"kernels": "linear, rbf(2)", "Cs": [1.0], "norms": [1.0], "cv": 2}
ESTIMATORS = (
    MKLClassifier(),
    MKLClassifier("linear, rbf(1)", norm=2, tol=1e-2, approximation=Nystroem(n_components=5, random_state=0)),
    MKLRegressor("linear, rbf(4)", norm=2, tol=1e-3, approximation=5),
    MKLRegressor(),
    MKLOneClass(),
    MKLClassifierCV(**SEARCH),
    MKLRegressorCV(**SEARCH),
)

GAMMA = 1 / (2 * 1.5**2)
"""scikit-learn's for rbf:1.5."""


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(5)
    X = rng.normal(size=(80, 4)) * [1.0, 0.5, 2.0, 1.0]
    t = np.sin(X[:, 0]) + 0.5 * X[:, 2] + 0.2 * rng.normal(size=80)
    return X, np.where(t > 0.1, "yes", "no"), t


@pytest.mark.parametrize(
    "estimator",
    [ESTIMATORS[0], *(pytest.param(one, marks=pytest.mark.thorough) for one in ESTIMATORS[1:])],
    ids=lambda estimator: type(estimator).__name__,
)
def test_passes_the_checks(estimator):
    results = check_estimator(estimator, on_skip=None)
    assert len(results) > 45
    assert {result["status"] for result in results} <= {"passed", "skipped"}


def test_one_kernel_is_svc(data):
    X, y, _ = data
    weight = np.random.default_rng(0).integers(0, 4, size=80).astype(float)
    common = {"C": 2.0, "class_weight": {"yes": 1.5, "no": 0.7}}
    ours = MKLClassifier("rbf:1.5", normalize=None, tol=1e-10, **common).fit(X, y, weight)
    theirs = SVC(gamma=GAMMA, tol=1e-9, **common).fit(X, y, weight)
    np.testing.assert_allclose(ours.decision_function(X), theirs.decision_function(X), atol=1e-5)
    order = np.argsort(theirs.support_)  # which counts only the samples with a positive weight
    np.testing.assert_array_equal(ours.support_, np.flatnonzero(weight)[theirs.support_[order]])
    np.testing.assert_allclose(ours.dual_coef_, theirs.dual_coef_[:, order], atol=1e-4)
    np.testing.assert_allclose(ours.intercept_, theirs.intercept_, atol=1e-5)
    np.testing.assert_array_equal(ours.predict(X), theirs.predict(X))
    np.testing.assert_allclose(ours.weights_, [1.0])


def test_one_kernel_is_svr(data):
    X, _, t = data
    common = {"normalize": None, "scale_y": False, "tol": 1e-10}
    ours = MKLRegressor("rbf:1.5", loss=EpsilonInsensitive(0.05), C=3.0, **common).fit(X, t)
    theirs = SVR(gamma=GAMMA, epsilon=0.05, C=3.0, tol=1e-9).fit(X, t)
    np.testing.assert_allclose(ours.predict(X), theirs.predict(X), atol=1e-5)


def test_one_kernel_is_the_one_class_svm(data):
    """Our dual variables sum to 1, scikit-learn's to nu n."""
    X, _, _ = data
    ours = MKLOneClass("rbf:1.5", normalize=None, nu=0.3, tol=1e-10).fit(X)
    theirs = OneClassSVM(gamma=GAMMA, nu=0.3, tol=1e-9).fit(X)
    np.testing.assert_allclose(0.3 * 80 * ours.decision_function(X), theirs.decision_function(X), atol=1e-5)
    assert 0.3 * 80 * ours.offset_ == pytest.approx(theirs.offset_[0], abs=1e-5)
    np.testing.assert_allclose(ours.score_samples(X) - ours.offset_, ours.decision_function(X), rtol=1e-12, atol=1e-14)
    assert 0.1 < np.mean(ours.predict(X) == -1) <= 0.3
    twice = clone(ours).fit(X, sample_weight=np.full(80, 2.0))
    np.testing.assert_allclose(twice.decision_function(X), ours.decision_function(X), atol=1e-7)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("center", [False, True])
@pytest.mark.parametrize("normalize", [None, "trace", "multiplicative", "spherical"])
def test_weights_count_as_copies_to_the_last_digit(data, normalize, center):
    """In every statistic of the normalisation, of the targets and of the classes; in any order."""
    X, y, t = data
    rng = np.random.default_rng(1)
    weight = rng.integers(0, 3, size=80)
    shuffled = rng.permutation(weight.sum())
    common = {"normalize": normalize, "center": center, "norm": 2.0}
    for model, target in (
        (MKLClassifier("linear,rbf:1.5", class_weight="balanced", **common), y),
        (MKLRegressor("linear,rbf:1.5", **common), t),
        *([] if center else [(MKLOneClass("linear,rbf:1.5", **common), y)]),
    ):
        weighted = clone(model).fit(X, target, weight)
        copied = clone(model).fit(X.repeat(weight, axis=0)[shuffled], target.repeat(weight)[shuffled])
        name = "predict" if isinstance(model, MKLRegressor) else "decision_function"
        scores = getattr(weighted, name)(X)
        np.testing.assert_allclose(getattr(copied, name)(X), scores, rtol=1e-9, atol=1e-9)
        assert set(weighted.support_) <= set(np.flatnonzero(weight))
        assert len(copied.support_) == len(weighted.support_)
        if not isinstance(model, MKLOneClass):  # whose region is nearly everything
            assert np.abs(scores - getattr(clone(model).fit(X, target), name)(X)).max() > 1e-2
            moved = np.roll(target, 1)  # which no model predicts: a share of the samples is right
            of_copies = weighted.score(np.repeat(X, weight, axis=0), np.repeat(moved, weight))
            assert weighted.score(X, moved, weight) == pytest.approx(of_copies, rel=1e-12)
        if isinstance(model, MKLRegressor):  # to which copies are weights as well
            copies = t.repeat(weight)
            assert (weighted.y_mean_, weighted.y_scale_) == pytest.approx((copies.mean(), copies.std()), rel=1e-12)


@pytest.mark.parametrize("size", [1e-6, 1e-2, 1.0, 1e7])
def test_targets_of_any_size_are_learned(data, size):
    """By default; without the scale a tube of 0.1 holds small targets whole, which is said."""
    X, _, t = data
    model = MKLRegressor("linear,rbf:1.5").fit(X, t)
    scaled = MKLRegressor("linear,rbf:1.5").fit(X, size * t + 3.0 * size)
    assert scaled.score(X, size * t + 3.0 * size) > 0.9
    np.testing.assert_allclose(scaled.predict(X) / size - 3.0, model.predict(X), atol=1e-2)
    assert scaled.y_scale_ == pytest.approx(size * t.std())
    assert scaled.y_mean_ == pytest.approx(size * (t.mean() + 3.0))
    if size < 1e-1:
        with pytest.warns(UselessModelWarning, match=r"all targets are within the tube of the loss: take scale_y=True"):
            MKLRegressor("linear,rbf:1.5", scale_y=False).fit(X, size * t)
        with pytest.warns(
            UselessModelWarning, match=r"loss: take a narrower tube .* unless targets or samples are all"
        ):
            MKLRegressor("linear,rbf:1.5").fit(X, np.ones(len(t)))


def test_pipeline_and_search(data):
    X, y, _ = data
    pipeline = make_pipeline(StandardScaler(), MKLClassifier("linear,rbf:1..4:3", tol=1e-3))
    grid = {"mklclassifier__C": [0.01, 1.0], "mklclassifier__norm": [1.0, ElasticNet(0.5)]}
    search = GridSearchCV(pipeline, grid, cv=3, error_score="raise").fit(X, y)
    assert search.best_score_ > 0.8
    assert search.best_params_["mklclassifier__C"] == 1.0
    assert search.best_estimator_[-1].certificate_.is_optimal(1e-3)


def test_clone_and_joblib(data):
    X, y, _ = data
    model = MKLClassifier([RBF(2.0), "linear"], norm=4 / 3, C=2.0).fit(X, y)
    twin = clone(model)
    assert twin.get_params()["norm"] == 4 / 3
    assert not hasattr(twin, "weights_")
    file = io.BytesIO()
    joblib.dump(model, file)
    file.seek(0)
    np.testing.assert_array_equal(joblib.load(file).decision_function(X), model.decision_function(X))


@pytest.mark.parametrize(
    "model",
    [MKLRegressor("linear"), MKLRegressor("linear", approximation=3), MKLRegressorCV("linear", Cs=[1.0], cv=2)],
    ids=["regressor", "approximated", "search"],
)
def test_warnings_name_the_line_that_fits(model):
    """Those of the samples, of kernels in a fold, and of the model, from whatever depth."""
    X = np.random.default_rng(0).normal(size=(20, 2)) * [1.0, 1e4]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.set_params(kernels="linear, per_variable(linear)").fit(np.c_[X, np.arange(20) == 3], np.ones(20))
    kinds = {ScaleWarning, UselessModelWarning} | ({ConstantKernelWarning} if hasattr(model, "cv") else set())
    assert {one.category for one in caught} == kinds
    assert {one.filename for one in caught} == {__file__}


def test_warnings_name_the_line_of_the_user_through_scikit_learn_and_in_code_without_a_module():
    X = np.random.default_rng(0).normal(size=(20, 2)) * [1.0, 1e4]
    model = make_pipeline("passthrough", MKLRegressor("linear"))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        cross_val_score(model, X, X[:, 0], cv=2)
        exec("model.fit(X, X[:, 0])", {"model": model, "X": X})
    assert [one.filename for one in caught] == [__file__, __file__, "<string>"]


@pytest.mark.parametrize(
    ("model", "sparse"),
    [
        (MKLClassifier("linear, poly(2)"), True),
        (MKLClassifier("linear, rbf(1)"), False),
        (MKLRegressor("linear", approximation=3), False),
        (MKLClassifier("precomputed"), False),
        (MKLClassifier("on(left, age, linear)"), False),
    ],
)
def test_tags_say_whether_sparse_samples_are_read(model, sparse):
    assert get_tags(model).input_tags.sparse == sparse


def test_features_are_named_and_come_as_data_frames(data):
    X, y, _ = data
    frame = pd.DataFrame(X, columns=list("abcd"))
    model = MKLClassifier("linear, rbf(1)", norm=2, approximation=2).set_output(transform="pandas").fit(frame, y)
    features = model.transform(frame)
    assert list(features.columns) == ["linear_0", "linear_1", "rbf:1_0", "rbf:1_1"]
    twice = clone(model).set_params(kernels=["linear"] * 2, approximation=1).fit(frame, y)
    assert list(twice.get_feature_names_out()) == ["linear_0", "linear (2)_0"]
    np.testing.assert_array_equal(features.to_numpy(), model.set_output(transform="default").transform(frame))
    united = make_union(StandardScaler(), clone(model)).set_output(transform="pandas").fit_transform(frame, y)
    assert list(united.columns)[3:5] == ["standardscaler__d", "mklclassifier__linear_0"]
    blocks = {"left": frame[["a", "b"]].set_axis(range(7, 87)), "right": X[:, 2:]}
    assert list(clone(model).set_output(transform="pandas").fit(blocks, y).transform(blocks).index) == [*range(7, 87)]
    for name, apart in product(("transform", "set_output", "get_feature_names_out"), ({}, {"approximation": 2})):
        assert not hasattr(MKLClassifier(multiclass="independent", **apart), name)


def test_classes_that_are_python_objects_are_scored_as_they_are_fitted(data):
    X, y, _ = data
    model = MKLClassifier("linear").fit(X, y == "yes")
    assert model.score(X, (y == "yes").astype(object)) == model.score(X, list(y == "yes")) > 0.8
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        model.score(X, None)


def test_probabilities_by_calibration(data):
    X, y, _ = data
    model = MKLClassifier("linear,rbf:1..4:3", tol=1e-3)
    probabilities = CalibratedClassifierCV(model, ensemble=False, cv=3).fit(X, y).predict_proba(X)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1.0)
    assert probabilities[y == "yes", 1].mean() > 0.7 > 0.3 > probabilities[y == "no", 1].mean()
    assert not hasattr(model, "predict_proba")
    with pytest.raises(AttributeError, match="fit CalibratedClassifierCV"):
        _ = model.predict_proba


def test_precomputed_kernels_are_cut_by_cross_validation(data):
    """The same folds as on the samples: rows are test samples, columns training samples."""
    X, y, _ = data
    K = np.stack([X @ X.T, (X @ X.T + 1) ** 2], axis=-1)
    from_samples = cross_val_score(MKLClassifier("linear,poly:2"), X, y, cv=4)
    np.testing.assert_array_equal(cross_val_score(MKLClassifier("precomputed"), K, y, cv=4), from_samples)
    assert len(set(from_samples)) > 1
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        cross_val_score(MKLClassifier("precomputed"), np.moveaxis(K, -1, 0), y, cv=4)


def test_several_classes_in_cross_validation():
    X, y = load_iris(return_X_y=True)
    names = np.array(["setosa", "versicolor", "virginica"])[y]
    for multiclass in ("joint", "independent"):
        for strategy in ("one_vs_rest", "one_vs_one"):
            model = MKLClassifier("linear,rbf:0.5..4:3", multiclass=multiclass, strategy=strategy, tol=1e-3)
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                assert cross_val_score(model, X[::2], names[::2], cv=3).mean() > 0.9


@pytest.mark.parametrize(
    "options",
    [{}, {"storage": "lazy"}, {"approximation": 10}, {"approximation": Nystroem(n_components=10, random_state=0)}],
)
@pytest.mark.parametrize("family", ["linear, rbf(0.5..4, 3)", "poly(2), per_variable(rbf(1))"])
def test_what_underflows_is_0_in_every_storage_whatever_the_caller_makes_of_it(family, options):
    """Samples are so far apart that Gaussians of them are at the end of float64."""
    X = 30.0 * np.random.default_rng(0).normal(size=(60, 4))
    model, y = MKLRegressor(family, **options), X[:, 0]
    usual = model.fit(X, y).predict(1.1 * X)
    with np.errstate(under="raise"):
        np.testing.assert_array_equal(model.fit(X, y).predict(1.1 * X), usual)


def test_parameters_that_two_estimators_share_have_one_default():
    classifier, regressor = MKLClassifier().get_params(), MKLRegressor().get_params()
    shared = classifier.keys() & regressor.keys() - {"loss"}
    assert {name: classifier[name] for name in shared} == {name: regressor[name] for name in shared}
