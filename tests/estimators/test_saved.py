"""Files of fitted estimators: what comes back, and what is refused."""

from __future__ import annotations

from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pandas as pd
import pytest
from makers import rewrite, stacked_kernels
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError

from mklref import (
    EpsilonInsensitive,
    Fixed,
    Groups,
    Lp,
    Mahalanobis,
    MKLClassifier,
    MKLClassifierCV,
    MKLOneClass,
    MKLRegressor,
    MKLRegressorCV,
    Power,
)
from mklref._files import read_arrays, write_arrays
from mklref.exceptions import InvalidInput, InvalidParameter, UnsafeFile
from mklref.kernels import linear

SPECIFICATION = "linear,rbf:0.5..2:2"

MODELS = {
    "classifier": MKLClassifier("linear,rbf:0.5..2:2", norm=Lp(4 / 3), class_weight={"low": 2.0}),
    "spherical": MKLClassifier(SPECIFICATION, normalize="spherical", center=True, multiclass="independent"),
    "pairs": MKLClassifier(SPECIFICATION, strategy="one_vs_one", norm=Groups([[0], [1, 2]], 0.5, 0.5)),
    "regressor": MKLRegressor("rbf:1", loss=EpsilonInsensitive(0.2), normalize=None, norm=np.inf),
    "several texts": MKLClassifier(["rbf:0.5..2:2", "linear"], norm=Fixed([0.5, 0.0, 0.25]), loss="logistic"),
    "an array": MKLRegressor(SPECIFICATION, norm=Mahalanobis(np.eye(3) + 0.5), loss="squared"),
    "one class": MKLOneClass(SPECIFICATION, nu=0.4, normalize="trace"),
    "precomputed": MKLClassifier("precomputed", center=True),
    "no kernel": MKLClassifier(SPECIFICATION, norm=Power(1), C=1e-6),  # of which all weights are 0
}


def plainly(parameters):
    """Lists come back as tuples."""
    return str(parameters).translate(str.maketrans("()", "[]"))


def scores_of(model, X):
    return model.predict(X) if isinstance(model, MKLRegressor) else model.decision_function(X)


SET_AFTERWARDS = {
    "kernels": "rbf:3",
    "norm": 2.0,
    "C": 1e-3,
    "loss": "squared_hinge",
    "normalize": "trace",
    "center": True,
    "multiclass": "independent",
    "strategy": "one_vs_one",
    "nu": 0.9,
    "tol": 0.5,
    "Cs": [1e-3],
    "norms": [4.0],
}
SEARCHES = {
    "classifier, search": MKLClassifierCV(SPECIFICATION, Cs=[1.0], norms=[1.0, 2.0], cv=2),
    "regressor, search": MKLRegressorCV(SPECIFICATION, Cs=[1.0], norms=[1.0], cv=2),
}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", [*MODELS, *SEARCHES])
def test_saved_and_loaded_as_it_was_fitted_whatever_is_set_afterwards(three_classes, name, tmp_path):
    """To the last bit; the samples are stored by columns, as those of a data frame are."""
    X, y, X_new = (np.asfortranarray(array) for array in three_classes)
    targets = X[:, 0].copy()
    if name == "precomputed":
        X, X_new = stacked_kernels(X), stacked_kernels(X, X_new)
    model = clone({**MODELS, **SEARCHES}[name])
    model.fit(X, targets if isinstance(model, MKLRegressor) else y.astype(object))
    fitted = getattr(model, "best_estimator_", model)
    scores, parameters = scores_of(model, X_new), plainly(fitted.get_params())
    for changes in ({}, {key: value for key, value in SET_AFTERWARDS.items() if key in model.get_params()}):
        model.set_params(**changes)
        model.save(tmp_path / "model.npz")
        loaded = type(fitted).load(tmp_path / "model.npz")
        for own in (model, loaded):
            np.testing.assert_array_equal(scores_of(own, X_new), scores)
        np.testing.assert_array_equal(loaded.predict(X_new), model.predict(X_new))
        assert plainly(loaded.get_params()) == parameters
        for one in ("certificate_", "kernel_names_", "n_iter_", "kernel_groups_", "offset_", "y_mean_", "y_scale_"):
            assert getattr(loaded, one, None) == getattr(model, one, None)
        np.testing.assert_array_equal(loaded.support_, model.support_)
        np.testing.assert_array_equal(loaded.weights_, model.weights_)


CHANGES = {
    "absurd": {"n_features_in": 10**29},
    "infinite": {"n_features_in": np.inf},
    "not a number": {"n_iter": np.nan},
    "a truth": {"n_features_in": True},
    "another number": {"n_features_in": 3},
    "a text": {"n_iter": "3"},
    "negative": {"n_iter": -1},
    "unknown": {"optimal": True},
    "of precomputed kernels": {"last": True, "n_training": 36},
    "one name": {"feature_names_in": ["age"]},
    "a name twice": {"feature_names_in": ["age", "age"]},
    "numbers as names": {"feature_names_in": [1, 2]},
    "other kernels": {"kernel_names": ["linear", "rbf:0.5", "rbf:3"]},
    "a text as names": {"kernel_names": "abc"},
    "no certificate": {"certificates": []},
    "a certificate of three": {"certificates": [{"lower": 1.0}]},
    "no list": {"certificates": 1},
    "no parameters": {"parameters": {}},
    "parameters of another type": {"parameters": [1]},
}
PARAMETERS = {
    "of no class of ours": {"norm": {"class": "Path", "fields": {}}},
    "with more": {"norm": {"class": "Lp", "fields": {"p": 2.0}, "module": "os"}},
    "out of range": {"norm": {"class": "Lp", "fields": {"p": 0.5}}},
    "of texts": {"norm": {"array": ["1", "2"]}},
    "a key twice": {"class_weight": {"pairs": [["low", 1.0], ["low", 2.0]]}},
    "other kernels": {"kernels": "linear,rbf:0.5..2:3"},
    "no kernels": {"kernels": 3},
    "hostile kernels": {"kernels": "on(a,[" + "9" * 5000 + "],linear)"},
    "more kernels than fit into memory": {"kernels": " * ".join(["rbf:0.1..10:1001"] * 2)},
    "precomputed": {"kernels": "precomputed"},
    "another normalisation": {"normalize": "spherical"},
    "an unknown normalisation": {"normalize": "unit"},
    "another centring": {"center": True},
    "another strategy": {"strategy": "one_vs_all"},
    "unknown": {"optimal": True},
}


@pytest.fixture(scope="module")
def saved_model(tmp_path_factory):
    """A file, and what it holds."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(36, 2)), np.repeat(["low", "mid", "top"], 12)
    path = tmp_path_factory.mktemp("model") / "model.npz"
    MKLClassifier(SPECIFICATION).fit(X + 2.0 * (y == "mid")[:, None], y).save(path)
    return path, *read_arrays(path)


@pytest.mark.parametrize("change", [*CHANGES, *(("parameters", name) for name in PARAMETERS)], ids=str)
def test_facts_that_are_refused(saved_model, tmp_path, change):
    path, _, facts = saved_model
    parameters = {} if isinstance(change, str) else {"parameters": facts["parameters"] | PARAMETERS[change[1]]}
    rewrite(path, facts=parameters or CHANGES[change], to=tmp_path / "m.npz")
    with pytest.raises(UnsafeFile, match="is not a saved MKLClassifier"):
        MKLClassifier.load(tmp_path / "m.npz")


def test_integers_of_400_digits_are_refused(saved_model, tmp_path):
    rewrite(saved_model[0], facts={"n_features_in": 10**400}, to=tmp_path / "m.npz")
    with pytest.raises(UnsafeFile, match=r"is no JSON: the number 1000.* is beyond float64"):
        MKLClassifier.load(tmp_path / "m.npz")


def test_scores_beyond_float64_are_no_predictions(saved_model, tmp_path):
    """The sign of an infinite score is that of whichever sum overflowed first."""
    path, arrays, _ = saved_model
    rewrite(path, {"dual_coef": np.sign(arrays["dual_coef"]) * 1.7e308}, to=tmp_path / "m.npz")
    model = MKLClassifier.load(tmp_path / "m.npz")
    for scores in (model.decision_function, model.predict, model.contributions):
        with pytest.raises(InvalidInput, match=r"the score of sample 0 is beyond float64.*fit the model again"):
            scores(np.ones((1, 2)))


def test_files_that_are_refused(three_classes, tmp_path):
    X, y, _ = three_classes
    path = tmp_path / "model.npz"
    model = MKLClassifier(SPECIFICATION).fit(X, y)
    with pytest.raises(InvalidParameter, match=r"model\.json', and this writes NPZ; end it in \.npz"):
        model.save(path.with_suffix(".json"))
    model.save(path)
    with pytest.raises(UnsafeFile, match=r"holds a MKLClassifier; load it with MKLClassifier.load"):
        MKLRegressor.load(path)
    arrays, facts = read_arrays(path)
    for change in (
        {"dual_coef": arrays["dual_coef"][:, 1:]},
        {"columns": arrays["columns"] + 36},
        {"weights": arrays["weights"] * np.nan},
        {"samples": arrays["samples"][:, 1:]},
        {"samples": arrays["samples"] * np.nan},
        {"factors": arrays["factors"] * np.nan},
        {"factors": np.ones((3, 2))},
        {"means": np.ones((3, 2)), "totals": np.ones(3)},
        {"dual_coef": arrays["dual_coef"].astype(np.float32)},
        {"columns": arrays["columns"].astype(float)},
        {"columns": arrays["columns"][::-1]},
        {"support": -arrays["support"]},
        {"classes": arrays["classes"][::-1]},
        {"classes": np.array([0.0, 1.0, np.nan])},
        {"factors": -arrays["factors"]},
        {"norms": np.ones((3, 36))},
        {"optimal": np.ones(1)},
        {"samples": arrays["samples"].astype(str)},
        {"classes": np.array(["low", "top"])},
        {"classes": np.array(["low"])},
        {"weights": -arrays["weights"]},
    ):
        write_arrays(path, {**arrays, **change}, facts)
        with pytest.raises(UnsafeFile, match="is not a saved MKLClassifier"):
            MKLClassifier.load(path)
    for lost in arrays:
        write_arrays(path, {name: array for name, array in arrays.items() if name != lost}, facts)
        with pytest.raises(UnsafeFile, match=r"is not a saved MKLClassifier: .*its arrays are"):
            MKLClassifier.load(path)
    for name in facts:
        write_arrays(path, arrays, {key: fact for key, fact in facts.items() if key != name})
        with pytest.raises(UnsafeFile, match=r"is not a saved MKLClassifier|has format None|holds a None"):
            MKLClassifier.load(path)
    write_arrays(path, arrays, {**facts, "format": "other"})
    with pytest.raises(UnsafeFile, match="has format 'other'; this version reads 'mklref-estimator-2'"):
        MKLClassifier.load(path)
    MKLClassifier("precomputed").fit(X @ X.T, y).save(path)
    support = read_arrays(path)[0]["support"]
    rewrite(path, {"support": support + (support == support.max())}, to=path)
    with pytest.raises(UnsafeFile, match=r"is not a saved MKLClassifier: .*support is kept\[columns\]"):
        MKLClassifier.load(path)
    with pytest.raises(NotFittedError):
        MKLClassifier().save(path)
    with pytest.raises(InvalidParameter, match=r"write them as a specification .* or save with joblib\.dump"):
        MKLClassifier([np.dot, "linear"]).set_params(kernels=linear()).fit(X, y).save(path)


def test_a_model_of_matrices_has_no_names_of_an_earlier_table(samples, tmp_path):
    X, y, _ = samples
    model = MKLClassifier("linear").fit(pd.DataFrame(X, columns=list("abcd")), y)
    model.set_params(kernels="precomputed").fit(X @ X.T, y).save(tmp_path / "model.npz")
    loaded = MKLClassifier.load(tmp_path / "model.npz")
    np.testing.assert_array_equal(loaded.decision_function(X @ X.T), model.decision_function(X @ X.T))
    assert not hasattr(model, "feature_names_in_")
    assert not hasattr(model, "kernel_groups_")
    dates = np.array(["2001-01-01", "2002-01-01"], dtype="datetime64[D]")[(y == "yes").astype(int)]
    with pytest.raises(InvalidParameter, match=r"the classes are datetime64\[D\], other than text; give"):
        MKLClassifier("linear").fit(X, dates).save(tmp_path / "model.npz")


def test_lists_that_change_after_the_fit_change_nothing(three_classes, tmp_path):
    X, y, X_new = three_classes
    kernels, weights = ["linear", "rbf:1"], {"low": 2.0}
    model = MKLClassifier(kernels, class_weight=weights).fit(X, y)
    scores = model.decision_function(X_new)
    kernels.append("rbf:2")
    weights["nobody"] = 3.0
    model.save(tmp_path / "model.npz")
    loaded = MKLClassifier.load(tmp_path / "model.npz")
    np.testing.assert_array_equal(loaded.decision_function(X_new), scores)
    assert (loaded.kernels, loaded.class_weight) == (("linear", "rbf:1"), {"low": 2.0})


@pytest.mark.parametrize("name", ["classifier", "regressor", "one class"])
@pytest.mark.parametrize("fault", [KeyboardInterrupt, ValueError])
def test_a_fit_that_does_not_end_leaves_the_model_as_it_was(three_classes, name, fault, tmp_path, monkeypatch):
    X, y, X_new = three_classes
    model = clone(MODELS[name])
    targets = X[:, 0] if isinstance(model, MKLRegressor) else y

    fails = Mock(side_effect=fault)
    with monkeypatch.context() as patched:
        patched.setattr("mklref.estimators.base.solve", fails)
        with pytest.raises(fault):
            model.fit(X, targets)
    with pytest.raises(NotFittedError):
        model.predict(X_new)
    model.fit(X, targets)
    before, scores = vars(model).copy(), scores_of(model, X_new)
    monkeypatch.setattr("mklref.estimators.base.solve", fails)
    with pytest.raises(fault):
        model.fit(X[1:, :2], targets[1:])
    assert vars(model).keys() == before.keys()
    np.testing.assert_array_equal(scores_of(model, X_new), scores)
    model.save(tmp_path / "model.npz")


@pytest.mark.filterwarnings("error::sklearn.exceptions.ConvergenceWarning")
def test_a_warning_that_is_made_an_error_comes_after_the_fit(three_classes):
    X, y, X_new = three_classes
    model = MKLClassifier(SPECIFICATION, max_iter=1, tol=1e-9)
    with pytest.raises(ConvergenceWarning):
        model.fit(X, y)
    assert model.predict(X_new).shape == (9,)


FIRST = np.load(Path(__file__).with_name("first_format.npz"))
"""Models as the first format had them, with their scores: all samples, all kernels, targets as they came."""


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("classifier", MKLClassifier),
        ("spherical", MKLClassifier),
        ("regressor", MKLRegressor),
        ("one class", MKLOneClass),
        ("precomputed", MKLClassifier),
    ],
)
def test_files_of_the_first_format_are_read(name, kind, tmp_path):
    path = tmp_path / "model.npz"
    path.write_bytes(FIRST[name].tobytes())
    assert read_arrays(path)[1]["format"] == "mklref-estimator-1"
    model = kind.load(path)
    X_new = FIRST["K_new" if name == "precomputed" else "X_new"]
    scores = FIRST[f"{name}, scores"]
    np.testing.assert_allclose(scores_of(model, X_new), scores, rtol=1e-10, atol=1e-12)
    model.save(tmp_path / "again.npz")
    np.testing.assert_allclose(scores_of(kind.load(tmp_path / "again.npz"), X_new), scores, rtol=1e-10, atol=1e-12)
    arrays, _ = read_arrays(path)
    columns = arrays["columns"]
    for change in ({"columns": columns + 99}, {"columns": columns.astype(float)}, {"weights": None}):
        rewrite(path, change, to=tmp_path / "damaged.npz")
        with pytest.raises(UnsafeFile, match="is not a saved"):
            kind.load(tmp_path / "damaged.npz")


def test_a_file_from_before_a_parameter_has_what_was_done_then(rng, tmp_path):
    model = MKLRegressor().fit(rng.normal(size=(20, 3)), rng.normal(size=20))
    model.save(tmp_path / "model.npz")
    arrays, facts = read_arrays(tmp_path / "model.npz")
    for later in ("approximation", "storage", "max_time"):
        del facts["parameters"][later]
    write_arrays(tmp_path / "older.npz", arrays, facts)
    assert MKLRegressor.load(tmp_path / "older.npz").get_params() == {**model.get_params(), "storage": "memory"}
    del model.approximation, model.storage, model.max_time  # of a pickle
    assert model.get_params() == MKLRegressor.load(tmp_path / "older.npz").get_params()


def test_models_hold_support_vectors_and_kernels_of_positive_weight(three_classes):
    X, y, _ = three_classes
    model = MKLClassifier("per_variable(linear, rbf(1)), rbf(0.5..8, 5)", C=0.1).fit(X, y == "top")
    active = np.flatnonzero(model.weights_)
    assert len(active) < 11
    assert len(model.support_) < 36
    assert [model.kernel_names_[m] for m in active] == list(model._new_kernels.names)
    np.testing.assert_array_equal(model._new_kernels.samples, X[model.support_])
    assert list(model.support_) == sorted(model.support_)
