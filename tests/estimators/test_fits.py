"""What a fit is: the problem it states, its certificate, kernels of new samples, several classes, saved models."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.gaussian_process.kernels import RBF
from sklearn.model_selection import cross_val_score

from mklref import (
    BlockNorm,
    EpsilonInsensitive,
    Fixed,
    Groups,
    Lp,
    Mahalanobis,
    MKLClassifier,
    MKLOneClass,
    MKLRegressor,
    MulticlassProblem,
    Problem,
    certify,
    reference,
)
from mklref._files import read_arrays, write_arrays
from mklref.exceptions import InvalidInput, InvalidKernel, InvalidParameter, InvalidTarget, InvalidType, UnsafeFile
from mklref.kernels import gaussian, linear, normalize, parse, per_variable

SPECIFICATION = "linear,rbf:0.5..2:2"


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(7)
    X = rng.normal(size=(36, 3)) + np.array([0.0, 1.0, 0.0])
    y = np.digitize(X[:, 0] + 0.3 * X[:, 1] ** 2 + 0.2 * rng.normal(size=36), [0.0, 0.8])
    return X, np.array(["low", "mid", "top"])[y], rng.normal(size=(9, 3)) + np.array([0.0, 1.0, 0.0])


def matrices(X, X_new=None):
    """Stacked along the last axis."""
    Z = X if X_new is None else X_new
    squares = np.square(Z[:, None] - X).sum(axis=-1)
    return np.stack([Z @ X.T, np.exp(-squares / (2 * 0.5**2)), np.exp(-squares / (2 * 2.0**2))], axis=-1)


@pytest.mark.parametrize("norm", [1.0, 4 / 3])
@pytest.mark.parametrize("strategy", ["one_vs_rest", "one_vs_one"])
def test_joint_weights_are_those_of_the_reference(data, strategy, norm):
    X, y, X_new = data
    model = MKLClassifier(SPECIFICATION, norm=norm, C=2.0, strategy=strategy, tol=1e-8).fit(X, y)
    grams = parse(SPECIFICATION).fit(X, normalize="multiplicative")
    problem = MulticlassProblem(grams, y, C=2.0, regularizer=Lp(norm), strategy=strategy)
    conic = reference.solve(problem, "multiclass")
    assert model.certificate_.lower <= conic.certificate.upper
    assert conic.certificate.lower <= model.certificate_.upper
    np.testing.assert_allclose(model.weights_, conic.weights, atol=1e-3)
    scores = conic.decision_function(grams.new(X_new))
    np.testing.assert_array_equal(model.predict(X_new), problem.assign(scores))
    if strategy == "one_vs_rest":
        np.testing.assert_allclose(model.decision_function(X_new), scores, atol=5e-3)
    assert model.decision_function(X_new).shape == (9, 3)


@pytest.mark.parametrize("strategy", ["one_vs_rest", "one_vs_one"])
def test_independent_machines_are_binary_classifiers(data, strategy):
    X, y, X_new = data
    common = {"C": 2.0, "norm": 2.0, "tol": 1e-9, "normalize": None}
    model = MKLClassifier(SPECIFICATION, multiclass="independent", strategy=strategy, **common).fit(X, y)
    assert model.weights_.shape == (3, 3)
    assert len(model.certificate_) == 3
    for p, pair in enumerate([("low", "mid"), ("low", "top"), ("mid", "top")]):
        chosen = np.isin(y, pair) if strategy == "one_vs_one" else np.full(36, True)
        positive = pair[0] if strategy == "one_vs_one" else ("low", "mid", "top")[p]
        binary = MKLClassifier(SPECIFICATION, **common).fit(X[chosen], y[chosen] == positive)
        np.testing.assert_allclose(model.weights_[p], binary.weights_, atol=1e-4)
        np.testing.assert_allclose(model._scores(X_new)[:, p], binary.decision_function(X_new), atol=1e-3)


def test_the_certificate_is_that_of_the_stated_problem(data):
    X, y, _ = data
    groups = Groups([[0], [1, 2]], 0.5, 0.5)
    model = MKLClassifier(SPECIFICATION, norm=groups, C=3.0, loss="squared_hinge", normalize="trace").fit(X, y == "top")
    problem = Problem(
        parse(SPECIFICATION).fit(X, normalize="trace"),
        np.where(y == "top", 1, -1),
        C=3.0,
        loss="squared_hinge",
        regularizer=groups,
    )
    beta = np.zeros(36)
    beta[model.support_] = model.dual_coef_[0]
    assert certify(problem, beta, weights=model.weights_, intercept=model.intercept_[0]) == model.certificate_
    assert model.certificate_.is_optimal(1e-4)
    assert model.n_iter_ >= 1


@pytest.mark.parametrize("center", [False, True])
@pytest.mark.parametrize("method", [None, "trace", "multiplicative"])
def test_precomputed_kernels_in_both_layouts(data, method, center):
    X, y, X_new = data
    weight = np.where(np.arange(36) % 5, 1.0, 0.0)
    common = {"normalize": method, "center": center, "C": 2.0, "tol": 1e-9, "norm": 2.0}
    expected = MKLClassifier(SPECIFICATION, **common).fit(X, y, weight).decision_function(X_new)
    K, K_new = matrices(X), matrices(X, X_new)
    for train in (K, np.moveaxis(K, -1, 0)):
        model = MKLClassifier("precomputed", **common).fit(train, y, weight)
        for new in (K_new, np.moveaxis(K_new, -1, 0)):
            np.testing.assert_allclose(model.decision_function(new), expected, atol=1e-4)


def test_as_many_kernels_as_samples(data):
    """(n, n, n): symmetry tells the layouts apart."""
    X, y, X_new = data
    family = gaussian(np.geomspace(0.3, 5.0, 36))
    K, K_new = family.fit(X).dense(), family.fit(X).new(X_new)
    expected = MKLClassifier(family, normalize=None, norm=2.0).fit(X, y).decision_function(X_new)
    for axis in (0, -1):
        model = MKLClassifier("precomputed", normalize=None, norm=2.0).fit(np.moveaxis(K, 0, axis), y)
        np.testing.assert_allclose(model.decision_function(np.moveaxis(K_new, 0, axis)), expected, atol=1e-10)


def test_kernels_of_every_kind_are_normalised_with_the_training_statistics(data):
    X, y, X_new = data

    def square(A, B):
        return (A @ B.T + 1.0) ** 2

    model = MKLClassifier([square, "linear", per_variable(gaussian(1.0))], normalize="spherical").fit(X, y == "low")
    assert model.kernel_names_ == ("square", "linear", "rbf:1[x0]", "rbf:1[x1]", "rbf:1[x2]")
    raw = [square(X, X), X @ X.T]
    raw_new = [square(X_new, X), X_new @ X.T]
    own = [square(X_new, X_new).diagonal(), (X_new**2).sum(axis=1)]
    for m in range(2):
        _, expected = normalize(raw[m], "spherical", raw_new[m], own[m])
        (rows,) = model._new_kernels.rows(X_new, [m])
        np.testing.assert_allclose(rows, expected, atol=1e-12)
    # One new sample at a time: nothing depends on the company it comes in.
    alone = np.concatenate([model.decision_function(x[None]) for x in X_new])
    np.testing.assert_allclose(alone, model.decision_function(X_new), atol=1e-10)


def test_names_of_columns(data):
    X, y, X_new = data
    frame = pd.DataFrame(X, columns=["age", "height", "mass"])
    model = MKLClassifier("linear,per-variable").fit(frame, y)
    assert list(model.feature_names_in_) == ["age", "height", "mass"]
    assert model.kernel_names_ == ("linear", "linear[age]", "linear[height]", "linear[mass]")
    assert model.score(frame, y) > 0.5
    with pytest.raises(ValueError, match="The feature names should match those that were passed during fit"):
        model.predict(pd.DataFrame(X_new, columns=["age", "mass", "height"]))


def test_every_loss_and_norm(data):
    X, y, _ = data
    for norm in ("uniform", np.inf, np.float64(2.0), BlockNorm(4.0)):
        for loss in ("hinge", "logistic"):
            assert MKLClassifier("linear,rbf:1", norm=norm, loss=loss).fit(X, y).score(X, y) > 0.6
    for loss in ("squared", "huber", EpsilonInsensitive(0.3)):
        assert MKLRegressor("linear,rbf:1", loss=loss, C=10.0).fit(X, X[:, 0] ** 2).score(X, X[:, 0] ** 2) > 0.6


def test_classes_and_samples_can_weigh_more(data):
    X, y, _ = data
    target = y == "top"
    plain = MKLClassifier("rbf:1", C=0.1).fit(X, target)
    balanced = MKLClassifier("rbf:1", C=0.1, class_weight="balanced").fit(X, target)
    assert balanced.predict(X).sum() > plain.predict(X).sum()


def test_no_kernel_is_worth_its_weight(data):
    """With all weights 0 the score is the intercept, for any number of new samples."""
    X, _, X_new = data
    model = MKLRegressor("linear", norm=BlockNorm(1.0), C=1.0).fit(X, np.zeros(36))
    np.testing.assert_allclose(model.predict(X_new), np.zeros(9), atol=0.1 + 1e-9)
    assert model.predict(X_new).shape == (9,)


def test_iteration_limit_is_said():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 5))
    model = MKLClassifier("rbf:0.5..4:6,per-variable", norm=1.0, C=50.0, tol=1e-9, max_iter=1)
    with pytest.warns(ConvergenceWarning, match="did not reach tol = 1e-09: The iteration limit came first"):
        model.fit(X, X[:, 0] * X[:, 1] > 0)
    assert not model.certificate_.is_optimal(1e-9)


MODELS = {
    "classifier": MKLClassifier("linear,rbf:0.5..2:2", norm=Lp(4 / 3), class_weight={"low": 2.0}),
    "spherical": MKLClassifier(SPECIFICATION, normalize="spherical", center=True, multiclass="independent"),
    "pairs": MKLClassifier(SPECIFICATION, strategy="one_vs_one", norm=Groups([[0], [1, 2]], 0.5, 0.5)),
    "regressor": MKLRegressor("rbf:1", loss=EpsilonInsensitive(0.2), normalize=None, norm=np.inf),
    "several texts": MKLClassifier(["linear", "rbf:0.5..2:2"], norm=Fixed([0.5, 0.0, 0.25]), loss="logistic"),
    "an array": MKLRegressor(SPECIFICATION, norm=Mahalanobis(np.eye(3) + 0.5), loss="squared"),
    "one class": MKLOneClass(SPECIFICATION, nu=0.4, normalize="trace"),
    "precomputed": MKLClassifier("precomputed", center=True),
}


@pytest.mark.parametrize("name", MODELS)
def test_saved_and_loaded(data, name, tmp_path):
    X, y, X_new = data
    if name == "precomputed":
        X, X_new = matrices(X), matrices(X, X_new)
    model = MODELS[name].fit(X, data[0][:, 0] if isinstance(MODELS[name], MKLRegressor) else y.astype(object))
    path = tmp_path / "model.npz"
    model.save(path)
    loaded = type(model).load(path)
    np.testing.assert_array_equal(loaded.predict(X_new), model.predict(X_new))
    scores = "predict" if isinstance(model, MKLRegressor) else "decision_function"
    np.testing.assert_array_equal(getattr(loaded, scores)(X_new), getattr(model, scores)(X_new))
    texts = [str(one.get_params()).translate(str.maketrans("()", "[]")) for one in (loaded, model)]
    assert texts[0] == texts[1]
    assert loaded.certificate_ == model.certificate_
    assert loaded.kernel_names_ == model.kernel_names_
    assert loaded.n_iter_ == model.n_iter_
    assert getattr(loaded, "kernel_groups_", None) == getattr(model, "kernel_groups_", None)
    np.testing.assert_array_equal(loaded.support_, model.support_)
    np.testing.assert_array_equal(loaded.weights_, model.weights_)
    assert getattr(loaded, "offset_", None) == getattr(model, "offset_", None)


def test_files_that_are_refused(data, tmp_path):
    X, y, _ = data
    path = tmp_path / "model.npz"
    model = MKLClassifier(SPECIFICATION).fit(X, y)
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
        {"dual_coef": arrays["dual_coef"] * 1j},
        {"classes": np.array(["low", "top"])},
        {"classes": np.array(["low"])},
        {"weights": -arrays["weights"]},
    ):
        write_arrays(path, {**arrays, **change}, facts)
        with pytest.raises(UnsafeFile, match="is not a saved MKLClassifier"):
            MKLClassifier.load(path)
    write_arrays(path, arrays, {**facts, "parameters": {"norm": {"class": "Path", "fields": {}}}})
    with pytest.raises(UnsafeFile, match="is not a saved MKLClassifier: KeyError"):
        MKLClassifier.load(path)
    write_arrays(path, arrays, {**facts, "feature_names_in": ["age"]})
    with pytest.raises(UnsafeFile, match="do not fit together"):
        MKLClassifier.load(path)
    write_arrays(path, arrays, {**facts, "format": "other"})
    with pytest.raises(UnsafeFile, match="has format 'other'; this version reads 'mklref-estimator-1'"):
        MKLClassifier.load(path)
    with pytest.raises(NotFittedError):
        MKLClassifier().save(path)
    with pytest.raises(InvalidParameter, match=r"write them as a specification .* or save with joblib\.dump"):
        MKLClassifier([np.dot, "linear"]).set_params(kernels=linear()).fit(X, y).save(path)


@pytest.mark.parametrize(
    ("parameters", "error", "message"),
    [
        ({"kernels": "rfb:1"}, InvalidParameter, "'rfb:1' is not understood: known are linear"),
        ({"kernels": 3}, InvalidType, "kernels is int; give a specification such as"),
        ({"kernels": []}, InvalidParameter, "kernels is empty; give at least one kernel"),
        ({"kernels": lambda A, B: A}, InvalidInput, r"returned shape \(36, 3\) for 36 and 36 samples; it takes two"),
        ({"kernels": lambda A, B: -A @ B.T, "normalize": None}, InvalidKernel, r"not positive semidefinite"),
        ({"kernels": lambda A, B: A @ np.roll(B, 1, axis=1).T}, InvalidKernel, "symmetric"),
        ({"norm": 0.5}, InvalidParameter, r"p = 0.5 must be a number in \[1, inf\]: 1 is sparse"),
        (
            {"norm": "2"},
            InvalidParameter,
            r"norm = '2' is unknown; give p as a number in \[1, inf\], one of the names l1",
        ),
        ({"kernels": RBF}, InvalidType, r"kernels is the class RBF; give an object of it, RBF\(\.\.\.\)"),
        (
            {"class_weight": {"low": 1.0, "mid": 0.0, "top": 1.0}},
            InvalidParameter,
            "class_weight gives the class 'mid' the weight 0; it must be positive",
        ),
        ({"norm": True}, InvalidType, r"norm is True \(bool\); give p in \[1, inf\]"),
        ({"C": 0.0}, InvalidParameter, r"C = 0.0 must lie in the open interval \(0, inf\)"),
        ({"loss": "squared"}, InvalidParameter, "takes no labels"),
        ({"normalize": "l2"}, InvalidParameter, "'l2' is unknown; known are 'trace'"),
        ({"center": 1}, InvalidType, "center is 1; give True or False"),
        ({"multiclass": "ovr"}, InvalidParameter, "'ovr' is unknown; known are joint, independent"),
        ({"strategy": "ovr"}, InvalidParameter, "'ovr' is unknown; known are one_vs_rest, one_vs_one"),
        ({"tol": 0.0}, InvalidParameter, r"tol = 0.0 must be a number in \(0, inf\)"),
        ({"max_iter": 0}, InvalidParameter, "max_iter = 0 must be an integer of at least 1"),
    ],
)
def test_bad_parameters(data, parameters, error, message):
    X, y, _ = data
    with pytest.raises(error, match=message):
        MKLClassifier(**parameters).fit(X, y)


def test_bad_data(data):
    X, y, X_new = data
    K, K_new = matrices(X), matrices(X, X_new)
    precomputed = MKLClassifier("precomputed")
    with pytest.raises(InvalidKernel, match=r"X has shape \(9, 36, 3\); with kernels='precomputed' it holds M Gram"):
        precomputed.fit(K_new, y)
    with pytest.raises(InvalidKernel, match=r"X has shape \(36,\); with kernels='precomputed'"):
        precomputed.fit(K[0, :, 0], y)
    with pytest.raises(InvalidInput, match=r"y has 9 entries, X of shape \(36, 36, 3\) holds kernels of 36 samples"):
        precomputed.fit(K, y[:9])
    with pytest.raises(InvalidParameter, match=r"'spherical' needs k\(x, x\) of new samples"):
        MKLClassifier("precomputed", normalize="spherical").fit(K, y)
    with pytest.raises(
        InvalidInput, match=r"X has shape \(9, 35, 3\); .* 36 training samples, \(k, 36, 3\) or \(3, k, 36\)"
    ):
        precomputed.fit(K, y).predict(K_new[:, 1:])
    with pytest.raises(InvalidTarget, match="y holds one class, 'low'; give samples of at least two classes"):
        MKLClassifier().fit(X, np.full(36, "low"))
    with pytest.raises(InvalidTarget, match="y holds one class, 'low'"):
        MKLClassifier().fit(X, y, sample_weight=y == "low")
    with pytest.raises(InvalidParameter, match=r"sample_weight\[3\] = -1 is negative; give 0 to leave a sample out"):
        MKLRegressor().fit(X, X[:, 0], sample_weight=np.where(np.arange(36) == 3, -1.0, 1.0))
    with pytest.raises(InvalidParameter, match="1 of 36 sample weights are positive; at least two"):
        MKLOneClass().fit(X, sample_weight=np.arange(36) == 3)
    with pytest.raises(InvalidParameter, match=r"nu = 0.0 must lie in \(0, 1\]"):
        MKLOneClass(nu=0.0).fit(X)
    with pytest.raises(InvalidParameter, match="loss hinge takes no real targets; known are "):
        MKLRegressor(loss="hinge").fit(X, X[:, 0])
    with pytest.raises(NotFittedError):
        MKLClassifier().predict(X)
    with pytest.raises(ValueError, match="X has 2 features, but MKLClassifier is expecting 3"):
        MKLClassifier("linear").fit(X, y).predict(X[:, 1:])


def test_groups_of_the_kernels(data):
    X, y, _ = data
    frame = pd.DataFrame(X, columns=["a_1", "b", "a_2"])
    model = MKLClassifier("per_group(_, linear, rbf(1))", norm="groups").fit(frame, y == "top")
    assert model.kernel_groups_ == {"a": (0, 1), "b": (2, 3)}
    expected = clone(model).set_params(norm=Groups([[0, 1], [2, 3]], 0.5, 0.5)).fit(frame, y == "top")
    np.testing.assert_array_equal(model.weights_, expected.weights_)
    with pytest.raises(InvalidParameter, match=r"which precomputed ones do not tell: give mklref\.Groups"):
        MKLClassifier("precomputed", norm="groups").fit(matrices(X), y)


def test_columns_of_text():
    frame = pd.DataFrame({"dna": ["AACC", "CAAC", "GGTT", "TTGG"], "rna": ["AU", "GC", "GC", "AU"]})
    model = MKLClassifier("on(first, dna, spectrum(1..2)), on(second, rna, spectrum(1))", C=10.0, norm=2.0)
    model.fit(frame, [0, 0, 1, 1])
    assert list(model.feature_names_in_) == ["dna", "rna"]
    assert model.kernel_groups_ == {"first": (0, 1), "second": (2,)}
    np.testing.assert_array_equal(model.predict(frame), [0, 0, 1, 1])
    with pytest.raises(ValueError, match="The feature names should match"):
        model.predict(frame[["rna", "dna"]])


def test_texts_among_numbers(data):
    X, y, _ = data
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
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        model.fit(texts, y[1:])
    with pytest.raises(InvalidInput, match="X_new has 2 variables, the training samples have 1"):
        model.predict([["a", "b"]])
    with pytest.raises(InvalidInput, match="both numbers or both texts"):
        model.predict([[1.0]])
    with pytest.raises(InvalidInput, match="X is the text 'AACC'; give a list of texts"):
        model.predict("AACC")


def test_classes_without_an_order(data):
    X, y, _ = data
    numbers = MKLClassifier("linear").fit(X, np.array([*map(len, y[:-1]), 7], dtype=object))
    assert numbers.classes_.tolist() == [3, 7]
    for absent, kinds in ((None, "NoneType, str"), (3, "int, str")):
        mixed = np.where(y == "mid", absent, y.astype(object))
        with pytest.raises(InvalidTarget, match=rf"several types, {kinds}, which have no order: .* y\.astype\(str\)"):
            MKLClassifier("linear").fit(X, mixed)


def test_precomputed_kernels_in_single_precision_and_in_a_stack(data):
    """A kernel of low rank has eigenvalues of -1e-7 after rounding to float32, which is no fault of it."""
    X, y, X_new = data
    K = np.stack([X @ X.T, (X @ X.T + 1.0) ** 2])
    model = MKLClassifier("precomputed", tol=1e-6).fit(K, y == "low")
    single = MKLClassifier("precomputed", tol=1e-6).fit(K.astype(np.float32), y == "low")
    assert np.linalg.eigvalsh(K[0].astype(np.float32).astype(float)).min() < -1e-8
    assert single.certificate_.is_optimal(1e-6)
    np.testing.assert_allclose(single.decision_function(K), model.decision_function(K), atol=1e-3)
    family = parse("linear, poly(2)").fit(X)
    stacked = MKLClassifier("precomputed", tol=1e-6).fit(family, y == "low")
    np.testing.assert_allclose(
        stacked.decision_function(family.new(X_new)), MKLClassifier("linear, poly(2)", tol=1e-6).fit(X, y == "low")
        .decision_function(X_new), atol=1e-6,
    )  # fmt: skip


def test_nothing_is_left_of_an_earlier_fit(data):
    X, y, _ = data
    model = MKLClassifier("linear").fit(pd.DataFrame(X, columns=["a", "b", "c"]), y)
    model.set_params(kernels="precomputed").fit(X @ X.T, y)
    assert not hasattr(model, "kernel_groups_")
