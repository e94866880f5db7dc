"""Tables and texts: names of columns, groups of kernels, texts among numbers, names of classes."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from makers import stacked_kernels
from sklearn.base import clone
from sklearn.model_selection import cross_val_score

from mklref import (
    Groups,
    MKLClassifier,
    MKLRegressor,
)
from mklref.exceptions import InvalidInput, InvalidParameter, InvalidTarget

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
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        model.fit(texts, y[1:])
    with pytest.raises(InvalidInput, match="X_new has 2 variables, the training samples have 1"):
        model.predict([["a", "b"]])
    with pytest.raises(InvalidInput, match="both numbers or both texts"):
        model.predict([[1.0]])
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
