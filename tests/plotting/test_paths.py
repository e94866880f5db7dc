"""Weights, gaps and errors along a path, a search or the iterations."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
import pytest
from plotting.drawn import legend

import mklref
from mklref import plotting
from mklref.datasets import load
from mklref.exceptions import InvalidInput


def test_a_path_is_drawn_from_the_smallest_value():
    values, theta, errors = [10.0, 0.1, 1.0], np.array([[1.0, 1.0], [1.0, 0.0], [0.5, 0.0]]), [-0.2, 0.3, 0.1]
    ax = plotting.path(values, theta, errors=errors)
    counts, mean = ax.lines[0], ax.figure.axes[1].lines[0]
    assert counts.get_xdata().tolist() == mean.get_xdata().tolist() == [0.1, 1.0, 10.0]
    assert counts.get_ydata().tolist() == [1, 1, 2]
    assert mean.get_ydata().tolist() == [0.3, 0.1, -0.2]
    assert ax.figure.axes[1].get_ylim()[0] < -0.2
    assert plotting.weight_paths(theta, values).lines[0].get_ydata().tolist() == [1.0, 0.5, 1.0]
    for places in ([3.0], [3.0, 3.0]):
        assert plotting.weight_paths(theta[: len(places)], places).lines[0].get_marker() == "."


def test_a_path_without_kernels():
    assert plotting.path([0.1, 1.0], np.zeros((2, 3))).get_ylim() == (0.0, 1.08)


def test_weights_and_gap_over_iterations(solution):
    _, (left, right) = plt.subplots(1, 2)
    assert plotting.weight_paths(solution, names=list("abcdefg"), most=2, ax=left) is left
    drawn = {line.get_label(): line.get_ydata() for line in left.lines if not line.get_label().startswith("_")}
    best = np.argsort(-solution.weights)[:2]
    assert list(drawn) == ["abcdefg"[m] for m in best]
    np.testing.assert_array_equal(drawn["abcdefg"[best[0]]], solution.history.column("weights")[:, best[0]])
    assert len(left.lines) == np.count_nonzero(solution.history.column("weights").max(axis=0) > 0.01 * left.dataLim.y1)
    assert plotting.gap(solution, tol=1e-7, ax=right) is right
    np.testing.assert_array_equal(
        right.lines[0].get_ydata(), np.maximum(solution.history.column("relative_gap"), 1e-16)
    )
    assert right.lines[1].get_ydata()[0] == 1e-7
    both = plotting.gap({"one": solution, "two": solution}, seconds=True)
    assert legend(both) == ["one", "two"]
    assert both.get_xlabel() == "seconds"


def test_a_path_counts_kernels_and_shows_errors_of_folds():
    theta = np.array([[1.0, 0.0, 0.0], [0.5, 0.5, 1e-6], [0.4, 0.3, 0.3]])
    errors = np.array([[0.3, 0.5], [0.1, 0.3], [0.2, 0.2]])
    ax = plotting.path([0.1, 1.0, 10.0], theta, errors=errors, chosen=1.0)
    assert ax.lines[0].get_ydata().tolist() == [1, 2, 3]
    assert ax.lines[1].get_xdata()[0] == 1.0
    assert ax.get_ylabel() == "kernels of 3"
    (beside,) = [other for other in ax.figure.axes if other is not ax]
    np.testing.assert_allclose(beside.lines[0].get_ydata(), [0.4, 0.2, 0.2])
    assert beside.get_ylabel() == "validation error, 2 folds"
    band = beside.collections[0].get_paths()[0].vertices[:, 1]
    assert band.max() == pytest.approx(0.4 + 0.1)
    paths = plotting.weight_paths(theta, [0.1, 1.0, 10.0], label="p")
    assert (paths.get_xlabel(), paths.get_xscale()) == ("p", "log")


def test_the_errors_of_a_search():
    data = load("iris").standardized()
    search = mklref.MKLClassifierCV("linear,rbf:1", Cs=[0.1, 1.0], norms=[1, 2], cv=3).fit(data, data.y)
    ax = plotting.validation(search)
    assert legend(ax) == ["p = 1", "p = 2", "chosen"]
    for line, norm in zip(ax.lines, (1, 2), strict=False):
        rows = [row for row, other in enumerate(search.cv_results_["param_norm"]) if other == norm]
        np.testing.assert_allclose(line.get_ydata(), 1.0 - search.cv_results_["mean_test_score"][rows])
        assert line.get_xdata().tolist() == [0.1, 1.0]
    assert ax.lines[2].get_xdata()[0] == search.C_
    assert ax.lines[2].get_ydata()[0] == pytest.approx(1.0 - search.best_score_)
    assert ax.get_ylabel() == "validation error, 3 folds"
    search.set_params(scoring="balanced_accuracy").fit(data, data.y)
    scored = plotting.validation(search)
    assert scored.get_ylabel() == "balanced_accuracy, 3 folds"
    assert scored.lines[2].get_ydata()[0] == pytest.approx(search.best_score_)
    with pytest.raises(InvalidInput, match="Searchless holds no search"):
        plotting.validation(type("Searchless", (), {})())
