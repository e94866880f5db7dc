"""Pictures: what is drawn are the numbers that were given, on the Axes that were given, and bad input is refused."""

from __future__ import annotations

import re
from dataclasses import replace
from html import escape
from pathlib import Path

import numpy as np
import pytest
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline

import mklref
from mklref import MKLClassifier, plotting
from mklref.datasets import load
from mklref.exceptions import InvalidInput, InvalidParameter, InvalidType, MissingExtra
from mklref.kernels import alignment, diagnose, gaussian, linear, per_variable, stack
from mklref.report import render

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("Agg")
plt = pytest.importorskip("matplotlib.pyplot")

NAMES = ("rbf:1", "poly:2", "rbf:1[age]", "poly:2[age]", "linear[od280/od315 (x)]")
THETA = np.array([0.1, 0.0, 0.4, 0.2, 0.3])


@pytest.fixture(autouse=True)
def _closed():
    yield
    plt.close("all")


@pytest.fixture(scope="module")
def problem():
    data = load("iris").standardized()
    kernels = (gaussian([0.5, 1.0, 4.0]) + per_variable(linear())).fit(data, normalize="multiplicative")
    return mklref.Problem(kernels, np.where(data.y == "versicolor", 1.0, -1.0), C=1.0)


@pytest.fixture(scope="module")
def solution(problem):
    return mklref.solve(problem, tol=1e-7)


def bars(ax):
    """Name and length of each bar from the top."""
    return {label.get_text(): bar.get_width() for label, bar in zip(ax.get_yticklabels(), ax.patches, strict=True)}


def legend(ax):
    return [text.get_text() for text in ax.get_legend().get_texts()]


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


@pytest.mark.parametrize(
    ("call", "message", "error"),
    [
        (lambda: plotting.weights(np.ones((2, 3))), r"shape \(2, 3\).*weights_\[0\]", InvalidInput),
        (lambda: plotting.weights(THETA, NAMES[:2]), "2 names for 5 weights", InvalidInput),
        (lambda: plotting.alignment(np.eye(3), NAMES), "5 names for 3 kernels", InvalidInput),
        (lambda: plotting.sparsity(np.ones(3)), r"coef has shape \(3,\)", InvalidInput),
        (lambda: plotting.sparsity(np.ones((3, 3)), NAMES), "5 names for 3 kernels", InvalidInput),
        (lambda: plotting.path([1.0, 2.0], [THETA]), "2 values for 1 solutions", InvalidInput),
        (lambda: plotting.path([1.0], [THETA], errors=[0.1, 0.2]), "2 errors for 1 values of C", InvalidInput),
        (lambda: plotting.surface(None, np.ones((4, 3))), r"X has shape \(4, 3\).*two variables", InvalidInput),
        (lambda: plotting.surface(None, np.ones((0, 2))), r"X has shape \(0, 2\)", InvalidInput),
        (lambda: plotting.surface(None, [[1.0, np.inf]]), r"X\[0, 1\] is inf", InvalidInput),
        (lambda: plotting.surface(None, np.ones((4, 2)), 3), r"y has shape \(\) for 4 samples", InvalidInput),
        (lambda: plotting.weights([0.5, np.nan]), r"weights\[1\] is nan", InvalidInput),
        (lambda: plotting.weights(THETA, "abcde"), "names is 'abcde'; give a list", InvalidType),
        (
            lambda: plotting.path([1.0, 2.0], [THETA, THETA * np.nan]),
            r"weights of the solutions\[1, 0\] is nan",
            InvalidInput,
        ),
        (lambda: plotting.path([1.0, 2.0], [THETA, THETA[1:]]), "weights of the solutions is ragged", InvalidInput),
        (lambda: plotting.path([0.0, 2.0], [THETA, THETA]), "values hold 0; on a logarithmic axis", InvalidInput),
        (lambda: plotting.path([1.0, np.inf], [THETA, THETA]), r"values\[1\] is inf", InvalidInput),
        (lambda: plotting.path([1.0], [THETA], errors=np.ones((1, 0))), r"errors has shape \(1, 0\)", InvalidInput),
        (lambda: plotting.path([1.0], 3), "solutions is one int; give a sequence", InvalidInput),
        (lambda: plotting.weight_paths([THETA], [1.0], names=NAMES[:2]), "2 names for 5 kernels", InvalidInput),
        (lambda: plotting.alignment(np.ones((2, 3))), r"kernels has shape \(2, 3\); give alignments", InvalidInput),
        (lambda: plotting.alignment(-9.0 * np.eye(2)), r"kernels holds -9; .* in \[-1, 1\]", InvalidInput),
        (lambda: plotting.sparsity(np.ones((2, 0))), r"coef has shape \(2, 0\)", InvalidInput),
        (
            lambda: plotting.weights(MKLClassifier()),
            r"has no kernel weights: give a fitted .* pipeline\[-1\]",
            InvalidInput,
        ),
        (lambda: plotting.weights(make_pipeline(MKLClassifier())), "has no kernel weights", InvalidInput),
        (lambda: plotting.weights(THETA, by="colour"), "by = 'colour'; give 'family', 'variable'", InvalidParameter),
        (lambda: plotting.weights(THETA, by=None, total=True), "total = True sums over groups", InvalidParameter),
        (lambda: plotting.weights(THETA, by={"a": [0.5]}), r"by names the kernel 0\.5; there are 5", InvalidParameter),
        (lambda: plotting.weights(THETA, by={"a": [0, 9]}), "by names the kernel 9; there are 5", InvalidParameter),
        (lambda: plotting.weights(THETA, most=1.5), r"most is 1\.5 \(float\); give an integer", InvalidType),
        (lambda: plotting.surface(None, np.ones((4, 2)), points=1), "points = 1 must be an integer", InvalidParameter),
        (lambda: plotting.intervals(3), r"check is int; give what mklref\.crosscheck returns", InvalidType),
        (lambda: plotting.contributions(None, np.ones((4, 2))), "model is NoneType; give a fitted", InvalidType),
        (lambda: plotting.surface(None, np.ones((4, 2))), "model is NoneType; give a fitted", InvalidType),
        (lambda: plotting.weights(THETA, ax=plt.figure()), "ax is Figure; give plane Axes", InvalidType),
        (lambda: plotting.alignment(np.eye(3), ax=np.array([])), "ax is ndarray; give plane Axes", InvalidType),
        (
            lambda: plotting.sparsity(np.eye(3), ax=plt.figure().add_subplot(projection="3d")),
            "ax is Axes3D; give plane Axes",
            InvalidType,
        ),
        (lambda: plotting.stability(None), r"give what mklref\.model_selection\.stability returns", InvalidType),
    ],
)
def test_what_cannot_be_drawn_is_refused(call, message, error):
    with pytest.raises(error, match=message):
        call()


def test_axes_of_other_projections_of_the_plane_are_drawn_on():
    ax = plt.figure().add_subplot(projection="polar")
    assert plotting.weights(THETA, ax=ax) is ax


def looks(lines):
    return [(line.get_color(), line.get_linestyle(), line.get_marker()) for line in lines]


def test_no_two_entries_of_a_legend_look_alike(solution, rng):
    names = [f"{kind}[v{v}]" for v in range(9) for kind in ("linear", "rbf:1")]
    bars = plotting.weights(np.arange(1.0, 19.0), names, by="variable")
    assert bars.get_legend() is None  # nine groups, eight colours, and names beside the bars
    lines = plotting.weight_paths(np.ones((2, 9)), [1.0, 2.0], most=9).get_legend().legend_handles
    runs = plotting.gap({f"run {k}": solution for k in range(9)}).get_legend().legend_handles
    X, y = rng.normal(size=(18, 2)), np.arange(18) % 9
    model = MKLClassifier("rbf:0.1").fit(X, y)
    points = plotting.contributions(model, X, labels=y).get_legend().legend_handles
    assert {len(set(looks(handles))) for handles in (lines, runs, points)} == {9}
    ax = plotting.surface(model, X, y, points=4)
    assert len({path.tobytes() for path in [dots.get_paths()[0].vertices for dots in ax.collections[1:10]]}) == 2
    assert len({tuple(shade) for shade in ax.collections[0].cmap(np.arange(9))}) == 9


def test_runs_are_named_by_texts(solution):
    ax = plotting.gap({"_mine": solution, "$^$": solution, "x\n" * 99: solution, 4: solution})
    ax.figure.draw_without_rendering()
    assert legend(ax) == [" _mine", r"\$^\$", "x x x x x x x x …x x x x x x x x", "4"]


def test_a_path_is_drawn_from_the_smallest_value():
    values, theta, errors = [10.0, 0.1, 1.0], np.array([[1.0, 1.0], [1.0, 0.0], [0.5, 0.0]]), [-0.2, 0.3, 0.1]
    ax = plotting.path(values, theta, errors=errors)
    counts, mean = ax.lines[0], ax.figure.axes[1].lines[0]
    assert counts.get_xdata().tolist() == mean.get_xdata().tolist() == [0.1, 1.0, 10.0]
    assert counts.get_ydata().tolist() == [1, 1, 2]
    assert mean.get_ydata().tolist() == [0.3, 0.1, -0.2]
    assert ax.figure.axes[1].get_ylim()[0] < -0.2
    assert plotting.weight_paths(theta, values).lines[0].get_ydata().tolist() == [1.0, 0.5, 1.0]
    assert plotting.weight_paths(theta[:1], values[:1]).lines[0].get_marker() == "."


def test_negative_alignments_have_a_colour_of_their_own():
    ax = plotting.alignment(np.array([[1.0, -0.9], [-0.9, 1.0]]))
    assert ax.images[0].get_clim() == (-1.0, 1.0)
    assert plotting.alignment(np.eye(2)).images[0].get_clim() == (0.0, 1.0)


def test_legends_have_room_above_a_picture(rng):
    names = [f"rbf:1[the variable with the long name {v}]" for v in range(6)]
    X = rng.normal(size=(40, 2))
    model = MKLClassifier("linear").fit(X, X[:, 0] > 0)
    many = plotting.contributions(model, X, labels=[f"a class with the number {i % 20}" for i in range(40)])
    for ax in (plotting.weights(np.ones(6), names, by="variable"), many):
        ax.figure.draw_without_rendering()
        shown = ax.get_legend().get_window_extent()
        assert shown.x1 <= ax.figure.bbox.x1
        assert shown.y1 <= ax.figure.bbox.y1
    assert len(plotting.contributions(model, X[:1]).get_yticks()) == 1  # nothing varies, and yet it is drawn
    assert plotting.contributions(model, X, labels=[""] * 40).get_legend() is None


def test_a_path_without_kernels():
    assert plotting.path([0.1, 1.0], np.zeros((2, 3))).get_ylim() == (0.0, 1.08)


def test_support_vectors_are_encircled_among_the_fitted_samples_only(rng):
    X, X_new = rng.normal(size=(20, 2)), rng.normal(size=(30, 2))
    model = MKLClassifier("linear", C=0.1).fit(X, X[:, 0] > 0)
    circles = [len(plotting.surface(model, samples, points=5).collections[-1].get_offsets()) for samples in (X, X_new)]
    assert circles == [len(model.support_), 30]  # the last collection without circles are the samples


def test_things_that_are_no_solutions(rng):
    X = rng.normal(size=(12, 2))
    model = MKLClassifier("linear").fit(X, X[:, 0] > 0)
    for draw in (plotting.gap, plotting.weight_paths):
        with pytest.raises(InvalidInput, match=r"the MKLClassifier has no history: .* give what mklref.solve returns"):
            draw(model)
    assert plotting.path([1.0], [model]).lines[0].get_ydata().tolist() == [1]
    with pytest.raises(InvalidInput, match="y has 3 entries for 12 samples"):
        plotting.surface(model, X, X[:3, 0])
    with pytest.raises(InvalidInput, match=r"y holds 'a', which is no class of the model: \[False, True\]"):
        plotting.surface(model, X, ["a"] * 12)
    with pytest.raises(InvalidParameter, match="machine = 1; the model has 1, counted from 0"):
        plotting.contributions(model, X, machine=1)
    assert legend(plotting.contributions(model, X, labels=[None] * 12)) == ["None"]


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


def test_a_solution_without_history_is_refused(solution, tmp_path):
    solution.save(tmp_path / "s.npz")
    with pytest.raises(InvalidInput, match="no history: it was loaded"):
        plotting.gap(mklref.Solution.load(tmp_path / "s.npz"))


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


def test_alignment_of_a_stack_a_report_or_a_matrix(problem):
    expected = alignment(problem.kernels)
    for given in (problem.kernels, diagnose(problem.kernels), expected):
        ax = plotting.alignment(given)
        np.testing.assert_allclose(ax.images[0].get_array(), expected)
        assert ax.texts[1].get_text() == f"{expected[0, 1]:.2f}"
    assert [label.get_text() for label in plotting.alignment(problem.kernels).get_yticklabels()][:1] == ["rbf:0.5"]


def test_sparsity_is_the_relevance_map():
    coef = np.array([[0.0, -2.0, 0.0], [1.0, 0.0, 0.0]])
    ax = plotting.sparsity(coef, ["one", "two"])
    np.testing.assert_array_equal(ax.images[0].get_array(), [[0.0, 1.0, 0.0], [0.5, 0.0, 0.0]])
    assert ax.get_title(loc="left") == "2 of 6 coefficients"


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


def test_surface_of_three_classes_and_of_numbers(rng):
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


def test_intervals_of_a_cross_check(problem):
    small = problem.replace(C=10.0)
    check = mklref.crosscheck(small, formulations=["dual", "mixed_norm"], solvers=["CLARABEL"])
    ax = plotting.intervals(check)
    assert [label.get_text() for label in ax.get_yticklabels()] == ["native", "dual/CLARABEL", "mixed_norm/CLARABEL"]
    low, high = check.interval
    lines = iter(ax.lines)
    for row in check.rows:
        thin, _, thick, _, diamond = (next(lines) for _ in range(5))
        for line, point in ((thin, row.raw), (thick, row.solution)):
            left, right = (10.0 ** (abs(end) - 16) * high for end in line.get_xdata())
            assert left == pytest.approx(max(high - point.certificate.lower, 1e-16 * high), rel=1e-6)
            assert right == pytest.approx(max(point.certificate.upper - low, 1e-16 * high), rel=1e-6)
            assert line.get_color() != "#c00000"
        at = float(diamond.get_xdata()[0])
        off = row.value - 0.5 * (low + high)
        if np.isnan(off):
            assert row.label == "native"
            assert np.isnan(at)
        else:
            assert np.sign(at) * 10.0 ** (abs(at) - 16) * high == pytest.approx(off, rel=1e-6, abs=2e-16 * high)


def test_a_row_that_contradicts_the_others_is_red(problem):
    check = mklref.crosscheck(problem.replace(C=10.0), formulations=["dual"], solvers=["CLARABEL"])
    wrong = replace(check.rows[1], solution=replace(check.rows[1].solution, value=1.01 * check.rows[1].value))
    ax = plotting.intervals(replace(check, rows=(check.rows[0], wrong)))
    assert [line.get_color() == "#c00000" for line in ax.lines] == [False] * 5 + [True] * 5 + [False]


@pytest.mark.parametrize(("name", "shown"), [("$^$", r"\$^\$"), ("_x", " _x")])
def test_names_are_text_whatever_they_are_made_of(problem, solution, name, shown):
    """Two dollars are mathematics for matplotlib."""
    K = problem.kernels.dense()
    names = [name, *(f"K{m}" for m in range(1, len(K)))]
    drawn = {
        "weights": lambda: plotting.weights(solution, names),
        "weight_paths": lambda: plotting.weight_paths([solution, solution], [1.0, 2.0], names=names, most=len(K)),
        "alignment": lambda: plotting.alignment(K, names),
    }
    for what, draw in drawn.items():
        ax = draw()
        ax.figure.draw_without_rendering()
        legend = ax.get_legend()
        texts = [*ax.get_yticklabels(), *(legend.get_texts() if legend else [])]
        assert shown in [text.get_text() for text in texts], what
    names[1:4] = "#010101 id=", "<script>&", "\u65e5"  # a colour of ours, a tag, and what matplotlib's font lacks
    part = mklref.Problem(stack(K[:, ::5, ::5], names=names), problem.y[::5])
    html = mklref.crosscheck(part, formulations=["dual"], solvers=["CLARABEL"]).to_html()
    assert html.count("<svg") == 4
    assert all(f">{escape(name)}</text>" in html for name in names[1:4])


def test_long_names_are_shortened_within(solution):
    ax = plotting.weights(solution, ["x" * 300, *(f"K{m}" for m in range(1, len(solution.weights)))])
    assert "x" * 16 + "…" + "x" * 15 in [text.get_text() for text in ax.get_yticklabels()]


def test_a_page_is_made_where_nobody_found_a_solution(problem):
    check = mklref.crosscheck(problem, formulations=["dual"], solvers=["CLARABEL"])
    failed = tuple(replace(row, solution=None) for row in check.rows)
    html = replace(check, rows=failed).to_html()
    assert html.count("<svg") == 4
    assert "Undecided: 0 of 1 problem passed." in " ".join(html.split())  # nothing contradicts anything
    assert "Undecided: 0 of 0 problems passed." in " ".join(render({}).split())


def test_without_matplotlib_the_remedy_is_named(monkeypatch):
    import mklref.plotting.style as style

    monkeypatch.setattr(style, "find_spec", lambda name: None)
    with pytest.raises(MissingExtra, match=r"pip install 'mklref\[report\]'"):
        plotting.weights(THETA)


def test_the_gallery_is_complete():
    docs = Path(__file__).parents[1] / "docs"
    sources = (docs / "figures" / "gallery.py").read_text(encoding="utf-8")
    page = (docs / "gallery.md").read_text(encoding="utf-8")
    pictures = re.findall(r"^def (\w+)\(\) ->", sources, flags=re.MULTILINE)
    assert re.findall(r":pyobject: (\w+)", page) == pictures
    shown = re.findall(r"_static/(gallery-[\w-]+)\.(?:svg|png)", page)
    assert shown == [f"gallery-{name.replace('_', '-')}" for name in pictures]
    assert {f"plotting.{name}(" in sources for name in plotting.__all__ if name.islower()} == {True}
