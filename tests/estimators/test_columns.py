"""Tables and texts: names of columns, groups of kernels, texts among numbers, names of classes.

Estimators on kernels that are evaluated when they are read.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from makers import stacked_kernels
from sklearn.base import clone
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline

from mklref import Groups
from mklref.estimators import MKLClassifier, MKLClassifierCV, MKLOneClass, MKLRegressor, TableEncoder
from mklref.exceptions import InvalidInput, InvalidParameter, InvalidTarget, InvalidType
from mklref.kernels import gaussian, linear, per_variable

SPECIFICATION = "linear,rbf:0.5..2:2"


def test_names_of_columns(three_classes):
    X, y, X_new = three_classes
    frame = pd.DataFrame(X, columns=["age", "height", "mass"])
    model = MKLClassifier("linear,per-variable").fit(frame, y)
    assert list(model.feature_names_in_) == ["age", "height", "mass"]
    assert model.kernel_names_ == ("linear", "linear[age]", "linear[height]", "linear[mass]")
    assert model.score(frame, y) > 0.5
    with pytest.raises(ValueError, match="The feature names should match those that were passed during fit"):
        model.predict(pd.DataFrame(X_new, columns=["age", "mass", "height"]))


@pytest.mark.parametrize("labels", [[2, 0, 1], pd.to_datetime(["2021", "2020", "2022"])], ids=["numbers", "days"])
def test_columns_whose_names_are_no_texts_are_not_taken_in_another_order(three_classes, tmp_path, labels):
    X, y, _ = three_classes
    frame = pd.DataFrame(X, columns=labels)
    search = MKLClassifierCV("linear,rbf(1)", Cs=[1.0], cv=2).fit(frame, y)
    search.save(tmp_path / "model.npz")
    features = MKLClassifier("linear,rbf(1)", approximation=3).fit(frame, y)
    for model in (search, MKLClassifierCV.load(tmp_path / "model.npz"), MKLClassifier.load(tmp_path / "model.npz")):
        np.testing.assert_array_equal(model.predict(frame), model.predict(X))
        for method in (model.predict, model.decision_function, model.contributions, features.transform):
            for other in (frame[sorted(labels)], frame.iloc[:, :2], frame.assign(new=0.0).rename(columns={"new": 3})):
                with pytest.raises(InvalidInput, match=r"X has the columns .*, the model was fitted to 20?.*same orde"):
                    method(other)
    assert model.fit(X, y).predict(frame[sorted(labels)]).shape == y.shape, "no names, none to compare"
    np.testing.assert_array_equal(
        TableEncoder().fit(frame).transform(frame[sorted(labels)]).columns, list(map(str, labels))
    )


def test_columns_of_new_precomputed_kernels_are_the_training_samples_in_their_order(three_classes, tmp_path):
    X, y, X_new = three_classes
    ids = [f"s{i}" for i in range(len(X))]
    K, K_new = pd.DataFrame(X @ X.T, ids, ids), pd.DataFrame(X_new @ X.T, columns=ids)
    for grams, pick in ((K, lambda K: K), ([K, K + 1.0], lambda K: [K_new, K])):
        model = MKLClassifier("precomputed").fit(grams, y)
        model.save(tmp_path / "model.npz")
        for own in (model, MKLClassifier.load(tmp_path / "model.npz")):
            expected = own.predict(pick(K_new))
            np.testing.assert_array_equal(own.predict(pick(K_new.set_axis(range(len(X)), axis=1))), expected)
            with pytest.raises(InvalidInput, match=r"X has the columns s35, s34.*, the model was fitted to s0, s1"):
                own.predict(pick(K_new[ids[::-1]]))


def test_groups_of_the_kernels(three_classes):
    X, y, _ = three_classes
    frame = pd.DataFrame(X, columns=["a_1", "b", "a_2"])
    model = MKLClassifier("per_group(_, linear, rbf(1))", norm="groups").fit(frame, y == "top")
    assert model.kernel_groups_ == {"a": (0, 1), "b": (2, 3)}
    expected = clone(model).set_params(norm=Groups([[0, 1], [2, 3]], 0.5, 0.5)).fit(frame, y == "top")
    np.testing.assert_array_equal(model.weights_, expected.weights_)
    with pytest.raises(InvalidParameter, match=r"which precomputed ones do not tell: give mklref\.Groups"):
        MKLClassifier("precomputed", norm="groups").fit(stacked_kernels(X), y)


def test_columns_of_text():
    frame = pd.DataFrame({"dna": ["AACC", "CAAC", "GGTT", "TTGG"], "rna": ["AU", "GC", "GC", "AU"]})
    model = MKLClassifier("on(first, dna, spectrum(1..2)), on(second, rna, spectrum(1))", C=10.0, norm=2.0)
    model.fit(frame, [0, 0, 1, 1])
    assert list(model.feature_names_in_) == ["dna", "rna"]
    assert model.kernel_groups_ == {"first": (0, 1), "second": (2,)}
    np.testing.assert_array_equal(model.predict(frame), [0, 0, 1, 1])
    with pytest.raises(ValueError, match="The feature names should match"):
        model.predict(frame[["rna", "dna"]])


def test_texts_among_numbers(three_classes):
    X, y, _ = three_classes
    frame = pd.DataFrame(X, columns=["a", "b", "c"]).assign(town=["Rome"] * 36)
    with pytest.raises(InvalidInput, match=r"among its numbers in town .*Rome.*: encode texts, for instance by OneHot"):
        MKLClassifier("linear").fit(frame, y)
    with pytest.raises(InvalidInput, match=r"among its numbers \(could not convert string to float: 'Rome'\): encode"):
        MKLRegressor("linear").fit(frame.to_numpy(), X[:, 0])
    for cells in (["Rome", None] * 18, pd.date_range("2020", periods=36)):
        with pytest.raises(InvalidInput, match=r"texts or dates among its numbers in town.*turn dates into numbers"):
            MKLClassifier("linear").fit(frame.assign(town=cells), y)


def test_texts(tmp_path):
    texts = ["AACC", "CAAC", "ACAA", "GGTT", "TTGG", "GTTG"]
    y = np.array([0, 0, 0, 1, 1, 1])
    model = MKLClassifier("spectrum(1..2)", normalize="spherical", C=10.0).fit(texts, y)
    np.testing.assert_array_equal(model.predict(["AAAC", "GGGT"]), [0, 1])
    model.save(tmp_path / "model.npz")
    loaded = MKLClassifier.load(tmp_path / "model.npz")
    np.testing.assert_array_equal(loaded.decision_function(texts), model.decision_function(texts))
    assert cross_val_score(model, texts, y, cv=3).mean() == 1.0
    for approximation in (6, Nystroem(n_components=6)):
        near = clone(model).set_params(approximation=approximation).fit(texts, y)
        np.testing.assert_allclose(near.decision_function(texts), model.decision_function(texts), atol=1e-2)
        with pytest.raises(InvalidInput, match="kernel 'linear' takes numbers, X holds texts"):
            clone(near).set_params(kernels="spectrum(1), linear").fit(texts, y)
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        model.fit(texts, y[1:])
    with pytest.raises(InvalidInput, match="X is the text 'AACC'; give a list of texts"):
        model.predict("AACC")


def test_classes_without_an_order(three_classes):
    X, y, _ = three_classes
    numbers = MKLClassifier("linear").fit(X, np.array([*map(len, y[:-1]), 7], dtype=object))
    assert numbers.classes_.tolist() == [3, 7]
    for absent, kinds in ((None, "NoneType, str"), (3, "int, str")):
        mixed = np.where(y == "mid", absent, y.astype(object))
        with pytest.raises(InvalidTarget, match=rf"several types, {kinds}, which have no order: .* y\.astype\(str\)"):
            MKLClassifier("linear").fit(X, mixed)


FAMILY = gaussian([1.0, 3.0]) + linear() + per_variable(gaussian(1.0))


LAZY, NYSTROEM, CHOLESKY = (
    {"storage": "lazy"},
    {"approximation": Nystroem(n_components=90, random_state=0)},
    {"approximation": 90},
)


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("model", "classes", "form"),
    [
        *((MKLClassifier(FAMILY, norm=2), 2, form) for form in (LAZY, NYSTROEM, CHOLESKY)),
        (MKLClassifier(FAMILY, center=True), 3, LAZY),
        (MKLOneClass(FAMILY, normalize="trace"), 0, LAZY),
        (MKLRegressor(FAMILY, norm=2), 0, LAZY),
        *((MKLClassifier(FAMILY, center=True, multiclass="independent"), 3, form) for form in (NYSTROEM, CHOLESKY)),
        *((MKLClassifier(FAMILY, normalize="spherical", loss="logistic"), 2, form) for form in (NYSTROEM, CHOLESKY)),
        *((MKLRegressor(FAMILY, norm=2, normalize="trace", C=100.0), 0, form) for form in (NYSTROEM, CHOLESKY)),
    ],
)
@pytest.mark.parametrize("least", [None, 0, 1], ids=["alike", "some left out", "weighted"])
@pytest.mark.filterwarnings("ignore:constant on the training samples")
def test_kernels_of_any_form_give_the_model_of_those_in_memory(model, classes, form, least):
    """Evaluated when they are read, or as features of full rank."""
    rng = np.random.default_rng(0)
    X = np.hstack([rng.normal(size=(90, 3)), np.ones((90, 1))])  # its last variable is constant
    y = X[:, 0] * (X[:, 1] if "approximation" in form else 1.0) + 0.1 * rng.normal(size=90)
    y = np.digitize(y, np.quantile(y, np.arange(1, classes) / classes)) if classes else y
    X_new, weight = rng.normal(size=(70, 4)), None if least is None else rng.integers(least, 3, 90).astype(float)
    scores = []
    for options in ({"storage": "memory"}, form):
        fitted = clone(model).set_params(tol=1e-8, **options).fit(X, y, sample_weight=weight)
        scores.append(getattr(fitted, "decision_function", fitted.predict)(X_new))
        parts = fitted.contributions(X_new)
        total = parts.sum(axis=1) + (fitted.intercept_ if parts.ndim == 3 else fitted.intercept_[0])
        np.testing.assert_allclose(total.reshape(scores[-1].shape), scores[-1], atol=1e-9)
    np.testing.assert_allclose(scores[1], scores[0], atol=3e-3 * np.abs(scores[0]).max())


def test_features_of_few_columns_go_on_in_a_pipeline(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 3))
    y = np.where(X[:, 0] * X[:, 1] > 0.0, "in", "out")
    model = MKLClassifier("rbf:0.5..2:3", norm=2, approximation=Nystroem(n_components=40, random_state=0))
    assert model.fit(X, y).score(X, y) > 0.9
    features = model.transform(X)
    assert features.shape == (400, 120)
    v = np.concatenate([np.sqrt(w) * image for w, image in zip(model.weights_, model._new_kernels.images, strict=True)])
    np.testing.assert_allclose(features @ v[:, 0] + model.intercept_, model.decision_function(X))
    assert make_pipeline(model, LogisticRegression()).fit(X, y).score(X, y) > 0.9
    with pytest.raises(InvalidParameter, match="joblib"):
        model.save(tmp_path / "model.npz")
    with pytest.raises(AttributeError) as told:
        _ = MKLClassifier("linear").transform
    assert "approximation=Nystroem" in str(told.value.__cause__)
    with pytest.raises(InvalidParameter, match="approximation=Nystroem"):
        MKLClassifier("linear").fit(X, y).set_params(approximation=9).transform(X)
    with pytest.raises(InvalidType, match="Nystroem"):
        clone(model).set_params(approximation="nystroem").fit(X, y)


@pytest.mark.filterwarnings("ignore::mklref.exceptions.ConstantKernelWarning")
@pytest.mark.parametrize("approximation", [3, Nystroem(n_components=5, random_state=0)], ids=["cholesky", "nystroem"])
def test_an_approximated_kernel_may_be_0(approximation):
    X = np.c_[np.random.default_rng(0).normal(size=20), np.zeros(20)]
    model = MKLClassifier("per_variable(linear)", norm=2, approximation=approximation).fit(X, X[:, 0] > 0.0)
    assert model.weights_[1] == 0.0
    assert model.score(X, X[:, 0] > 0.0) > 0.8
