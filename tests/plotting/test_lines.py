"""Bars of weights and contributions, numbers along paths and iterations; what cannot be drawn is refused."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import matplotlib.pyplot as plt
import numpy as np
import pytest
from makers import legend
from matplotlib.figure import Figure
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline

import mklref
from mklref import MKLClassifier, plotting
from mklref.datasets import load
from mklref.exceptions import InvalidInput, InvalidKernel, InvalidParameter, InvalidType, MissingExtra
from mklref.model_selection import Stability

NAMES = ("rbf:1", "poly:2", "rbf:1[age]", "poly:2[age]", "linear[od280/od315 (x)]")
THETA = np.array([0.1, 0.0, 0.4, 0.2, 0.3])


def bars(ax):
    """Name and length of each bar from the top."""
    assert ax.yaxis_inverted()
    return {label.get_text(): bar.get_width() for label, bar in zip(ax.get_yticklabels(), ax.patches, strict=True)}


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
    wide = replace(found, high=np.where(np.arange(7) == found.high.argmin(), 9.0, found.high))  # by what it may be
    assert list(bars(plotting.weights(wide, by=None, most=1))) == [found.names[found.high.argmin()]]
    model = mklref.MKLClassifier("linear,rbf:1").fit(load("iris").X[:100], load("iris").y[:100])
    assert list(bars(plotting.weights(model))) == ["linear", "rbf:1"]


def test_points_are_the_contributions_of_the_samples(rng):
    X = rng.normal(size=(12, 2))
    y = X[:, 0] > 0
    model = MKLClassifier("linear,rbf:1,poly:2", norm=2).fit(X, y)
    parts = model.contributions(X)
    order = np.argsort(-parts.std(axis=0))
    ax = plotting.contributions(model, X, labels=y, most=2)
    assert ax.yaxis_inverted()
    assert [label.get_text() for label in ax.get_yticklabels()] == [model.kernel_names_[m] for m in order[:2]]
    for (place, own), points in zip([(place, own) for place in (0, 1) for own in (~y, y)], ax.lines, strict=False):
        np.testing.assert_array_equal(points.get_xdata(), parts[own, order[place]])
        assert np.abs(points.get_ydata() - place).max() < 0.3


def test_stability_is_the_share_of_fits_and_the_quantiles_of_the_weights(rng):
    theta = rng.uniform(0.1, 1.0, size=(30, 3)) * (rng.uniform(size=(30, 3)) < [0.5, 1.0, 0.9])
    found = Stability(("a", "b", "c"), theta, {})
    own = found.plot(plt.figure().add_subplot(), most=2)
    assert [label.get_text() for label in own.get_yticklabels()] == ["b", "c"]
    ax = plotting.stability(found)
    assert bars(ax) == {name: np.mean(theta[:, m] > 0.0) for name, m in (("b", 1), ("c", 2), ("a", 0))}
    low, median, high = np.quantile(theta[:, [1, 2, 0]], [0.05, 0.5, 0.95], axis=0)
    np.testing.assert_array_equal([s[:, 0] for s in ax.collections[0].get_segments()], np.stack([low, high], axis=1))
    np.testing.assert_array_equal(ax.lines[0].get_xdata(), median)


def test_long_names_are_shortened_within(solution):
    ax = plotting.weights(solution, ["x" * 300, *(f"K{m}" for m in range(1, len(solution.weights)))])
    assert "x" * 16 + "…" + "x" * 15 in [text.get_text() for text in ax.get_yticklabels()]


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
    assert (both.get_xlabel(), both.get_xscale(), both.get_yscale()) == ("seconds", "log", "log")
    for ax, over in ((right, "iteration"), (both, "seconds")):
        np.testing.assert_array_equal(ax.lines[0].get_xdata(), solution.history.column(over))


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
    for draw in (plotting.weight_paths(theta, [1.0, 4 / 3, 4.0]), plotting.path([1.0, 4 / 3, 4.0], theta)):
        draw.figure.draw_without_rendering()
        assert {text.get_text() for text in draw.get_xticklabels(which="both")} >= {"1", "2", "3", "4"}


def test_the_errors_of_a_search():
    data = load("iris").standardized().subset(60, seed=0)
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


@pytest.mark.parametrize(
    ("call", "message", "error"),
    [
        (lambda: plotting.weights(np.ones((2, 3))), r"shape \(2, 3\).*weights_\[0\]", InvalidInput),
        (lambda: plotting.weights(THETA, NAMES[:2]), "2 names for 5 weights", InvalidInput),
        (lambda: plotting.path([1.0], [[]]), r"weights of the solutions have shape \(1, 0\)", InvalidInput),
        (lambda: plotting.alignment([np.eye(2), np.eye(3)]), "kernels have different shapes", InvalidKernel),
        (lambda: plotting.alignment(np.eye(3), NAMES), "5 names for 3 kernels", InvalidInput),
        (lambda: plotting.sparsity(np.ones(3)), r"coef has shape \(3,\)", InvalidInput),
        (lambda: plotting.sparsity(np.ones((3, 3)), NAMES), "5 names for 3 kernels", InvalidInput),
        (lambda: plotting.path([1.0, 2.0], [THETA]), "2 values for 1 solutions", InvalidInput),
        (lambda: plotting.path([1.0], [THETA], errors=[0.1, 0.2]), "2 errors for 1 values of C", InvalidInput),
        (lambda: plotting.surface(None, np.ones((4, 3))), r"X has shape \(4, 3\).*two variables", InvalidInput),
        (lambda: plotting.surface(None, np.ones((0, 2))), r"X has shape \(0, 2\)", InvalidInput),
        (lambda: plotting.surface(None, [[1.0, np.inf]]), r"X\[0, 1\] is inf", InvalidInput),
        (lambda: plotting.surface(None, np.ones((4, 2)), 3), r"y has shape \(\) for 4 samples", InvalidInput),
        (lambda: plotting.surface(None, np.ones((2, 2)), np.ma.array([0, 1], mask=[0, 1])), "y is a mask", InvalidType),
        (lambda: plotting.weights([0.5, np.nan]), r"weights\[1\] is nan", InvalidInput),
        (lambda: plotting.weights(THETA, "abcde"), r"names is 'abcde' .*; give a list", InvalidType),
        (lambda: plotting.path([1.0, 2.0], [THETA, THETA * np.nan]), r"of the solutions\[1, 0\] is nan", InvalidInput),
        (lambda: plotting.path([1.0, 2.0], [THETA, THETA[1:]]), "weights of the solutions is ragged", InvalidInput),
        (lambda: plotting.path([1.0, np.inf], [THETA, THETA]), "values hold inf, .* leave out p = inf", InvalidInput),
        (lambda: plotting.path([THETA, THETA], [1.0, 2.0]), r"path\(values, solutions\)", InvalidInput),
        (
            lambda: plotting.weight_paths([1.0], [SimpleNamespace(weights=THETA)]),
            r"weight_paths\(solutions, values\)",
            InvalidInput,
        ),
        (lambda: plotting.path([0.0, 2.0], [THETA, THETA]), "values hold 0; on a logarithmic axis", InvalidInput),
        (lambda: plotting.path([1.0, np.nan], [THETA, THETA]), r"values\[1\] is nan", InvalidInput),
        (lambda: plotting.path([1.0], [THETA], errors=np.ones((1, 0))), r"errors has shape \(1, 0\)", InvalidInput),
        (lambda: plotting.path([1.0], [THETA], errors=[np.inf]), "errors hold inf", InvalidInput),
        (lambda: plotting.path([1.0], [THETA], chosen=0.0), "chosen = 0", InvalidParameter),
        (lambda: plotting.gap({}, tol=0.0), "tol = 0", InvalidParameter),
        (lambda: plotting.gap({"a": [THETA]}), r"solutions\['a'\] is a list; give one Solution for", InvalidInput),
        (lambda: plotting.path([1.0], 3), "solutions is one int; give a sequence", InvalidInput),
        (lambda: plotting.weight_paths([THETA], [1.0], names=NAMES[:2]), "2 names for 5 kernels", InvalidInput),
        (lambda: plotting.alignment(np.ones((2, 3))), r"kernels has shape \(2, 3\); give alignments", InvalidInput),
        (lambda: plotting.alignment(-9.0 * np.eye(2)), r"kernels holds -9; .* in \[-1, 1\]", InvalidInput),
        (lambda: plotting.sparsity(np.ones((2, 0))), r"coef has shape \(2, 0\)", InvalidInput),
        (lambda: plotting.weights(MKLClassifier()), r"no kernel weights: give a .* pipeline\[-1\]", InvalidInput),
        (lambda: plotting.weights(make_pipeline(MKLClassifier())), "has no kernel weights", InvalidInput),
        (lambda: plotting.weights(THETA, by="colour"), "by = 'colour'; give 'family', 'variable'", InvalidParameter),
        (lambda: plotting.weights(THETA, by=None, total=True), "total = True sums over groups", InvalidParameter),
        (lambda: plotting.weights(THETA, by={"a": [0.5]}), r"by names the kernel 0\.5; there are 5", InvalidType),
        (lambda: plotting.weights(THETA, by={"a": [0, 5]}), "by names the kernel 5; there are 5", InvalidParameter),
        (lambda: plotting.weights(THETA, most=1.5), r"most is 1\.5 \(float\); give an integer", InvalidType),
        (lambda: plotting.surface(None, np.ones((4, 2)), points=1), "points = 1 must be an integer", InvalidParameter),
        (lambda: plotting.surface(None, np.ones((4, 2)), points=10**7), "an integer from 2 to 5000", InvalidParameter),
        (lambda: plotting.intervals(3), r"check is int; give what mklref\.crosscheck returns", InvalidType),
        (lambda: plotting.contributions(None, np.ones((4, 2))), "model is NoneType; give a fitted", InvalidType),
        (lambda: plotting.surface(None, np.ones((4, 2))), "model is NoneType; give a fitted", InvalidType),
        (lambda: plotting.weights(THETA, ax=Figure()), "ax is Figure; give plane Axes", InvalidType),
        (lambda: plotting.alignment(np.eye(3), ax=np.array([])), "ax is ndarray; give plane Axes", InvalidType),
        (
            lambda: plotting.sparsity(np.eye(3), ax=Figure().add_subplot(projection="3d")),
            "ax is Axes3D; give plane Axes",
            InvalidType,
        ),
        (lambda: plotting.stability(None), r"give what mklref\.model_selection\.stability returns", InvalidType),
    ],
)
def test_what_cannot_be_drawn_is_refused_and_leaves_no_figure(call, message, error):
    with pytest.raises(error, match=message):
        call()
    assert plt.get_fignums() == []


def test_axes_of_other_projections_of_the_plane_are_drawn_on():
    ax = plt.figure().add_subplot(projection="polar")
    assert plotting.weights(THETA, ax=ax) is ax


def test_things_that_are_no_solutions(rng):
    X = rng.normal(size=(12, 2))
    model = MKLClassifier("linear").fit(X, X[:, 0] > 0)
    for draw in (plotting.gap, plotting.weight_paths):
        with pytest.raises(InvalidInput, match=r"the MKLClassifier has no history: .* give what mklref.solve returns"):
            draw(model)
        with pytest.raises(InvalidInput, match=r"solutions is a sequence: give values, .* or a mapping of names"):
            draw([model, model])
    with pytest.raises(InvalidInput, match=r"values\[0\] is nan; every entry must be finite\.$"):  # no sample to drop
        plotting.path([np.nan], [model])
    assert plotting.path([1.0], [model]).lines[0].get_ydata().tolist() == [1]
    with pytest.raises(InvalidInput, match="y has 3 entries for 12 samples"):
        plotting.surface(model, X, X[:3, 0])
    with pytest.raises(InvalidInput, match=r"y holds 'a', which is no class of the model: \[False, True\]"):
        plotting.surface(model, X, ["a"] * 12)
    with pytest.raises(InvalidParameter, match="machine = 1; the model has 1, counted from 0"):
        plotting.contributions(model, X, machine=1)
    with pytest.raises(NotFittedError):
        plotting.surface(MKLClassifier(), X)
    assert len(plt.get_fignums()) == 1  # of what was drawn
    assert legend(plotting.contributions(model, X, labels=[None] * 12)) == ["None"]


def test_a_solution_without_history_is_refused(solution, tmp_path):
    solution.save(tmp_path / "s.npz")
    with pytest.raises(InvalidInput, match="no history: it was loaded"):
        plotting.gap(mklref.Solution.load(tmp_path / "s.npz"))


def test_without_matplotlib_the_remedy_is_named(monkeypatch):
    import mklref.plotting.style as style

    monkeypatch.setattr(style, "find_spec", lambda name: None)
    with pytest.raises(MissingExtra, match=r"pip install 'mklref\[report\]'"):
        plotting.weights(THETA)
