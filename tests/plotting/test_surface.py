"""Scores, regions and samples over two variables."""

from __future__ import annotations

import matplotlib
import numpy as np
import pytest
from plotting.drawn import legend
from sklearn.neighbors import KNeighborsClassifier

import mklref
from mklref import MKLClassifier, plotting
from mklref.datasets import load


def test_support_vectors_are_encircled_among_the_fitted_samples_only(rng):
    X, X_new = rng.normal(size=(20, 2)), rng.normal(size=(30, 2))
    model = MKLClassifier("linear", C=0.1).fit(X, X[:, 0] > 0)
    circles = [len(plotting.surface(model, samples, points=5).collections[-1].get_offsets()) for samples in (X, X_new)]
    assert circles == [len(model.support_), 30]  # the last collection without circles are the samples


class Plane:
    """Scores x0 + 2 x1; classes -1 and 1."""

    classes_ = np.array([-1.0, 1.0])
    support_ = np.array([1])

    def decision_function(self, X):
        return X @ [1.0, 2.0]


def test_surface_of_two_classes(rng):
    X = rng.normal(size=(20, 2))
    ax = plotting.surface(Plane(), X, np.sign(X[:, 0]))
    assert legend(ax) == ["-1", "1"]
    zero = ax.collections[1].get_paths()[1].vertices
    np.testing.assert_allclose(zero @ [1.0, 2.0], 0.0, atol=1e-9)
    np.testing.assert_allclose(ax.collections[-1].get_offsets(), X[[1]])


def test_surface_of_three_classes_and_of_numbers():
    iris = load("iris")
    X = iris.X[:, 2:]
    model = mklref.MKLClassifier("linear,rbf:1").fit(X, iris.y)
    ax = plotting.surface(model, X, iris.y, points=10)
    assert legend(ax) == ["setosa", "versicolor", "virginica"]
    found = set(np.unique(ax.collections[0].get_array()))
    assert found == {0, 1, 2}
    regression = mklref.MKLRegressor("linear").fit(X, X.sum(axis=1))
    assert plotting.surface(regression, X, X.sum(axis=1), points=10).get_xlabel() == "x0"


def test_targets_and_predictions_share_a_scale(rng):
    X = rng.normal(size=(20, 2))
    ax = plotting.surface(mklref.MKLRegressor("linear", C=1e-3).fit(X, X[:, 0]), X, 10.0 * X[:, 0], points=5)
    surface, dots, *_ = ax.collections
    assert surface.get_clim() == dots.get_clim()
    assert surface.get_clim()[1] >= 10.0 * X[:, 0].max()


def test_classes_without_scores_are_regions(rng):
    X = rng.normal(size=(20, 2))
    model = KNeighborsClassifier(1).fit(X, np.where(X[:, 0] > 0, "right", "left"))
    ax = plotting.surface(model, X, model.predict(X), points=5)
    assert set(np.unique(ax.collections[0].get_array())) == {0, 1}
    for k, dots in enumerate(ax.collections[1:]):
        assert dots.get_facecolor()[0].tolist() == list(matplotlib.colors.to_rgba(plotting.COLOURS[k]))


def test_a_variable_that_does_not_vary_has_a_surface(rng):
    X = np.column_stack([rng.normal(size=20), np.full(20, 3.0)])
    ax = plotting.surface(Plane(), X, np.sign(X[:, 0]), points=5)
    assert ax.get_ylim() == pytest.approx((2.92, 3.08))
