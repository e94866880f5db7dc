"""Tables and texts: names of columns, groups of kernels, texts and dates among numbers, scales, sparse samples.

Estimators on kernels that are evaluated when they are read.
"""

from __future__ import annotations

import re
from itertools import product
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from makers import stacked_kernels
from scipy.sparse import csr_array, vstack
from sklearn.base import clone
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline

from mklref import Groups, Problem
from mklref.estimators import MKLClassifier, MKLClassifierCV, MKLOneClass, MKLRegressor, TableEncoder
from mklref.estimators.gram import raw_family
from mklref.exceptions import (
    ConstantKernelWarning,
    InvalidInput,
    InvalidParameter,
    InvalidTarget,
    InvalidType,
    ScaleWarning,
)
from mklref.kernels import gaussian, linear, per_variable
from mklref.kernels.transforms import Normalizer

SPECIFICATION = "linear,rbf:0.5..2:2"


def test_names_of_columns(three_classes):
    X, y, X_new = three_classes
    frame = pd.DataFrame(X, columns=["age", "height", "mass"])
    model = MKLClassifier("linear,per-variable").fit(frame, y)
    assert list(model.feature_names_in_) == ["age", "height", "mass"]
    assert model.kernel_names_ == ("linear", "linear[age]", "linear[height]", "linear[mass]")
    assert model.score(frame, y) > 0.5
    with pytest.raises(InvalidInput, match="The feature names should match those that were passed during fit"):
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
    with pytest.raises(InvalidInput, match="The feature names should match"):
        model.predict(frame[["rna", "dna"]])


def test_texts_among_numbers(three_classes):
    X, y, _ = three_classes
    frame = pd.DataFrame(X, columns=["a", "b", "c"]).assign(town=["Rome"] * 36)
    with pytest.raises(InvalidInput, match=r"among its numbers in town .*Rome.*: encode texts, for instance by OneHot"):
        MKLClassifier("linear").fit(frame, y)
    with pytest.raises(InvalidInput, match=r"among its numbers \(could not convert string to float: 'Rome'\): encode"):
        MKLRegressor("linear").fit(frame.to_numpy(), X[:, 0])
    for cells in (["Rome", None] * 18, pd.date_range("2020", periods=36)):
        with pytest.raises(InvalidInput, match=r"texts or dates among its numbers in town.*table_pipeline\(model\)"):
            MKLClassifier("linear").fit(frame.assign(town=cells), y)


def test_a_column_that_never_changes_is_named_and_goes_on(three_classes):
    X, y, X_new = three_classes
    constant = np.c_[X, np.full(36, 0.3)]
    centred = [{"center": True, "normalize": method} for method in (None, "trace", "multiplicative", "spherical")]
    for options, storage in product([{}, *centred, {"norm": np.inf}], ["memory", "lazy"]):
        model = MKLClassifier("per_variable(linear), rbf(1)", storage=storage, **options)
        with pytest.warns(ConstantKernelWarning, match=r"on the training samples, .* weight 0: linear\[x3\]\. Leave"):
            model.fit(constant, y)
        assert model.weights_[3] == 0.0
        assert np.isfinite(model.decision_function(np.c_[X_new, np.full(9, 8.0)])).all()


def test_variables_of_very_different_scales_are_named(three_classes):
    X, y, _ = three_classes
    wide = pd.DataFrame(X * [1.0, 1e3, 1.0], columns=["dose", "income", "age"])
    wide["rare"] = np.arange(36) == 0
    with pytest.warns(ScaleWarning, match=r"'income' has a .* of 895, '(dose|age)' one of .*StandardScaler"):
        MKLClassifier("linear").fit(wide, y)
    for kernels in ("per_variable(rbf(1))", "on(few, [dose, age, rare], linear)", [lambda A, B: A @ B.T]):
        MKLClassifier(kernels).fit(wide, y)


class Polars:
    """A data frame as polars has it: types without a kind, and an array of numbers of whatever the columns hold."""

    def __init__(self, **columns):
        self.columns, self._cells = list(columns), [np.asarray(cells) for cells in columns.values()]
        self.shape = (len(self._cells[0]), len(self._cells))
        self.dtypes = [SimpleNamespace(is_temporal=lambda c=cells: c.dtype.kind in "mM") for cells in self._cells]

    def get_columns(self):
        return self._cells

    def __len__(self):
        return self.shape[0]

    def __array__(self, dtype=None, copy=None):
        if any(cells.dtype.kind == "U" for cells in self._cells):
            raise TypeError("no common DType exists")
        return np.stack([cells.astype(np.int64) for cells in self._cells], axis=1)


@pytest.mark.parametrize("others", [{}, {"town": ["a", "b"] * 3}])
def test_times_of_other_tables_are_no_numbers(others):
    """polars would give the days since 1970, and no word of them."""
    y = [0, 1] * 3
    frame = Polars(age=np.arange(6), day=np.arange(6).astype("M8[D]"), **others)
    with pytest.raises(InvalidInput, match=r"X holds texts or dates among its numbers in day(, town)?: encode"):
        MKLClassifier("linear").fit(frame, y)
    with pytest.raises(InvalidType, match="the block 'b' of X holds dates or times"):
        MKLClassifier("linear").fit({"a": Polars(age=np.arange(6)), "b": frame}, y)
    with pytest.raises(InvalidType, match="X holds dates or times; turn them into numbers"):
        linear().fit(frame)
    model = MKLClassifier("linear").fit(Polars(age=np.arange(6)), y)
    with pytest.raises(InvalidInput, match="X holds texts or dates among its numbers in age: "):
        model.predict(Polars(age=np.arange(6).astype("m8[s]")))


@pytest.mark.parametrize(
    ("name", "remedy"), [("collect", "collect()"), ("column_names", "to_pandas()"), ("to_native", "to_native()")]
)
def test_tables_that_are_not_read_are_refused(name, remedy):
    """Of a table of Arrow the columns were taken for their names, and of narwhals dates for numbers."""
    unread = type("Unread", (), {name: None, "shape": (2, 1)})()
    for label, given in (("X", unread), ("X['a']", {"a": unread}), ("X[1]", [np.ones((2, 1)), unread])):
        says = re.escape(f"{label} is Unread, no table of numbers yet; give {label}.{remedy}.")
        with pytest.raises(InvalidType, match=says):
            MKLClassifier("linear").fit(given, [0, 1])
    with pytest.raises(InvalidType, match="X is Unread, no table of numbers yet"):
        linear().fit(unread)


@pytest.mark.parametrize("given", [iter([[1.0], [2.0]]), {1, 2}, Path("data.csv"), len], ids=lambda x: type(x).__name__)
def test_what_has_no_entries_is_named(given):
    """NumPy says "float() argument must be a string or a real number", and not which."""
    X, y = [[1.0], [2.0]], [0, 1]
    says = f"is {type(given).__name__}, no array or list; give an array, a frame or list"
    model = MKLClassifier("linear").fit(X, y)
    for label, call in {
        "X": lambda: MKLClassifier("linear").fit(given, y),
        "y": lambda: MKLClassifier("linear").fit(X, given),
        "sample_weight": lambda: MKLClassifier("linear").fit(X, y, sample_weight=given),
        "kernels": lambda: Problem(given, y),
    }.items():
        with pytest.raises(InvalidType, match=re.escape(f"{label} {says}({label}).")):
            call()
    with pytest.raises(InvalidType, match=f"X {says}"):
        model.predict(given)


def test_ragged_lists_are_named():
    """NumPy says "inhomogeneous shape", and not of what."""
    X, y, ragged = [[1.0], [2.0]], [0, 1], [[1.0], [2.0, 3.0]]
    fit = MKLClassifier("linear").fit
    for label, call in {
        "X": lambda: fit(ragged, y),
        "X['a']": lambda: fit({"a": ragged}, y),
        "sample_weight": lambda: fit(X, y, sample_weight=ragged),
    }.items():
        with pytest.raises(InvalidInput, match=re.escape(f"{label} is ragged; give rows of one length: ")):
            call()


def test_blocks_of_other_data_frames_may_hold_texts_and_missing_cells():
    """to_numpy of polars has no na_value."""

    class Mixed(Polars):
        to_numpy = staticmethod(lambda: None)

        def __array__(self, dtype=None, copy=None):
            return np.stack([cells.astype(object) for cells in self._cells], axis=1)

    y, age = [0, 1] * 3, Polars(age=np.arange(6))
    for cells, says in (
        (["u", "v"] * 3, "X holds texts or dates among its numbers in b:town"),
        ([True, None] * 3, "NaN"),
    ):
        with pytest.raises(InvalidInput, match=says):
            MKLClassifier("linear").fit({"a": age, "b": Mixed(town=np.array(cells, dtype=object))}, y)


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


@pytest.mark.sampled(8)
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
    weight, some = np.where(X[:, 2] > 0.0, 3.0, 0.1)[:60], (X[:60], y[:60])
    learned = clone(model).fit_transform(*some, sample_weight=weight)
    np.testing.assert_array_equal(learned, model.fit(*some, sample_weight=weight).transform(X[:60]))
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
    """And small: nothing is left of the former alone."""
    X = np.c_[np.random.default_rng(0).normal(size=20), np.zeros(20)]
    y = X[:, 0] > 0.0
    model = MKLClassifier("per_variable(linear)", norm=2, approximation=approximation).fit(X, y)
    assert model.weights_[1] == 0.0
    assert model.score(X, y) > 0.8
    small, scores = 2.0**-30 * X, model.decision_function(X)
    np.testing.assert_allclose(model.fit(small, y).decision_function(small), scores, rtol=1e-9)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("options", [{}, {"center": True}, {"normalize": "spherical"}])
def test_sparse_samples_are_as_dense_ones(three_classes, options):
    X, y, X_new = (np.where(np.abs(a) > 0.5, a, 0.0) if a.dtype.kind == "f" else a for a in three_classes)
    model = MKLClassifier("linear, poly(2), total(linear, poly(3))", norm=2.0, tol=1e-8, **options)
    dense = clone(model).fit(X, y)
    weight = np.random.default_rng(0).integers(0, 3, 36)
    frame, frame_new = (pd.DataFrame(a).astype(pd.SparseDtype("float", 0.0)) for a in (X, X_new))
    for made, new in ((frame, frame_new), (csr_array(X), csr_array(X_new)), (csr_array(X).tocsc(), X_new)):
        sparse = clone(model).fit(made, y)
        np.testing.assert_allclose(sparse.decision_function(new), dense.decision_function(X_new), atol=1e-3)
    assert cross_val_score(model, csr_array(X), y, cv=3).tolist() == cross_val_score(model, X, y, cv=3).tolist()
    weighted, copied = (
        clone(model).fit(csr_array(X), y, weight),
        clone(model).fit(csr_array(X.repeat(weight, 0)), y.repeat(weight)),
    )
    np.testing.assert_allclose(weighted.decision_function(X_new), copied.decision_function(X_new), atol=1e-9)
    turned = vstack([csr_array(X[:18]), csr_array(X[18:, ::-1])[:, ::-1]])  # sums of products in another order
    gram = raw_family("linear", turned, None, "memory", Normalizer())[0].matrix(0)
    np.testing.assert_array_equal(gram, gram.T)
    for refused in (csr_array(X), frame):
        with pytest.raises(InvalidType, match=r"X is sparse, which kernels of products .* sparse_threshold=0"):
            MKLClassifier("rbf(1)").fit(refused, y)
    with pytest.raises(InvalidParameter, match=r"saved with joblib\.dump"):
        sparse.save("model.npz")


@pytest.mark.parametrize(("scale", "kernel"), [(1e110, "poly:3"), (1e154, "linear")])
def test_kernels_of_sparse_samples_that_overflow_are_named_as_those_of_dense_ones(three_classes, scale, kernel):
    X, y, _ = three_classes
    for samples in (X, csr_array(X)):
        with pytest.raises(InvalidInput, match=f"kernel '{kernel}' overflows"):
            MKLClassifier("linear, poly(3)").fit(scale * samples, y)


def test_kernels_that_tiny_variables_make_constant_come_with_a_remedy_that_fits(three_classes):
    X, y, _ = three_classes
    with pytest.warns(ConstantKernelWarning, match="and standardise those that change by too little for float64"):
        MKLClassifier("linear").fit(1e-200 * X, y)
