"""Weights and contributions of kernels as bars."""

from __future__ import annotations

import numpy as np
import pytest
from plotting.drawn import NAMES, THETA, bars, legend

import mklref
from mklref import plotting
from mklref.datasets import load


def test_weights_are_grouped_by_family():
    ax = plotting.weights(THETA, NAMES)
    assert bars(ax) == dict(zip([NAMES[m] for m in (0, 2, 1, 3, 4)], [0.1, 0.4, 0.0, 0.2, 0.3], strict=True))
    colours = [bar.get_facecolor() for bar in ax.patches]
    assert colours[0] == colours[1] != colours[2] == colours[3] != colours[4]
    assert legend(ax) == ["rbf", "poly", "linear"]


@pytest.mark.parametrize(
    ("by", "expected"),
    [
        ("family", {"rbf": 0.5, "poly": 0.2, "linear": 0.3}),
        ("variable", {"all variables": 0.1, "age": 0.6, "od280/od315 (x)": 0.3}),
        ({"first": [0, 1], "two": (3,)}, {"first": 0.1, "two": 0.2, "other": 0.7}),
    ],
)
def test_weights_summed_over_groups(by, expected):
    assert bars(plotting.weights(THETA, NAMES, by=by, total=True)) == pytest.approx(expected)


def test_the_largest_weights_are_shown_in_order_and_the_axis_says_so():
    ax = plotting.weights(THETA, NAMES, by=None, most=2)
    assert bars(ax) == {NAMES[2]: 0.4, NAMES[4]: 0.3}
    assert ax.get_xlabel() == "weight (the 2 largest of 5)"
    assert ax.get_legend() is None


def test_weights_of_either_sign_are_seen():
    ax = plotting.weights([-3.0, 1.0, 2.0], by=None, most=2)
    assert bars(ax) == {"K0": -3.0, "K2": 2.0}
    assert ax.get_xlim()[0] < -3.0
    assert plotting.weights(THETA).get_xlim()[0] == 0.0
    theta = [[-3.0, 1.0], [-3.0, 0.0]]
    assert plotting.path([1.0, 2.0], theta).lines[0].get_ydata().tolist() == [2, 1]
    paths = plotting.weight_paths(theta, [1.0, 2.0], most=1)
    assert legend(paths) == ["K0"]
    assert paths.get_ylim()[0] < -3.0


def test_weights_of_whatever_has_weights(problem, solution):
    expected = solution.weights.tolist()
    assert list(bars(plotting.weights(solution, by=None)).values()) == expected
    assert list(bars(plotting.weights(solution, by=None))) == [f"K{m}" for m in range(7)]
    found = mklref.weight_ranges(problem, solution, slack=1e-2)
    ax = plotting.weights(found, by=None)
    assert list(bars(ax)) == list(problem.kernels.names)
    (lines,) = ax.collections
    np.testing.assert_allclose([s[:, 0] for s in lines.get_segments()], np.stack([found.low, found.high], axis=1))
    model = mklref.MKLClassifier("linear,rbf:1").fit(load("iris").X[:100], load("iris").y[:100])
    assert list(bars(plotting.weights(model))) == ["linear", "rbf:1"]


def test_long_names_are_shortened_within(solution):
    ax = plotting.weights(solution, ["x" * 300, *(f"K{m}" for m in range(1, len(solution.weights)))])
    assert "x" * 16 + "…" + "x" * 15 in [text.get_text() for text in ax.get_yticklabels()]
