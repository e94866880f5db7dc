"""Pictures of matrices and of the plane: alignments, relevance, intervals of a cross-check, scores and regions."""

from __future__ import annotations

import re
from dataclasses import replace

import matplotlib
import numpy as np
import pytest
from makers import legend
from sklearn.neighbors import KNeighborsClassifier

import mklref
from mklref import MKLClassifier, plotting
from mklref.datasets import load
from mklref.kernels import alignment, diagnose
from mklref.report import figures, render


def test_negative_alignments_have_a_colour_of_their_own():
    ax = plotting.alignment(np.array([[1.0, -0.9], [-0.9, 1.0]]))
    assert ax.images[0].get_clim() == (-1.0, 1.0)
    assert plotting.alignment(np.eye(2)).images[0].get_clim() == (0.0, 1.0)
    ax = plotting.alignment(np.stack([np.eye(3), np.zeros((3, 3))]))
    assert ax.images[0].get_array().mask[1].all()  # through which the ground is seen, grey as no alignment is
    assert ax.get_facecolor()[0] == 0.6


def test_names_along_a_matrix_do_not_overlap():
    ax = plotting.alignment(np.eye(40), ["rbf:1[mean concavity]"] * 40)
    ax.figure.draw_without_rendering()
    below, *_, above = [label.get_window_extent() for label in ax.get_yticklabels()[:2]]
    assert above.y1 <= below.y0


def test_alignment_of_a_stack_a_report_or_a_matrix(problem):
    expected = alignment(problem.kernels)
    for given in (problem.kernels, diagnose(problem.kernels), expected):
        ax = plotting.alignment(given)
        np.testing.assert_allclose(ax.images[0].get_array(), expected)
        assert ax.texts[1].get_text() == f"{expected[0, 1]:.2f}"
        assert [text.get_color() for text in ax.texts] == ["w" if abs(a) > 0.6 else "k" for a in expected.flat]
        assert ax.figure.axes[1].get_ylabel() == "alignment"
    assert [label.get_text() for label in plotting.alignment(problem.kernels).get_yticklabels()][:1] == ["rbf:0.5"]


def test_sparsity_is_the_relevance_map():
    coef = np.array([[0.0, -2.0, 0.0], [1.0, 0.0, 0.0]])
    ax = plotting.sparsity(coef, ["one", "two"])
    np.testing.assert_array_equal(ax.images[0].get_array(), [[0.0, 1.0, 0.0], [0.5, 0.0, 0.0]])
    assert ax.get_title(loc="left") == "2 of 6 coefficients"


@pytest.fixture(scope="module")
def check(problem):
    """A cross-check of a fifth of the samples."""
    small = mklref.Problem(problem.kernels.dense()[:, ::5, ::5], problem.y[::5], C=10.0)
    return mklref.crosscheck(small, formulations=["dual", "mixed_norm"], solvers=["CLARABEL"])


def test_intervals_of_a_cross_check(check):
    ax = plotting.intervals(check)
    assert [label.get_text() for label in ax.get_yticklabels()] == ["native", "dual/CLARABEL", "mixed_norm/CLARABEL"]
    ax.figure.draw_without_rendering()
    assert ax.xaxis.label.get_window_extent().x1 <= ax.figure.bbox.x1
    assert ax.get_ylim()[0] > 2.0 > 0.0 > ax.get_ylim()[1]  # the first row is the highest
    ends = ax.dataLim.intervalx
    assert ax.get_xlim()[0] < min(ends) < max(ends) < ax.get_xlim()[1] == -ax.get_xlim()[0]
    for place, label in zip(ax.get_xticks(), ax.get_xticklabels(), strict=True):
        said = re.fullmatch(r"(-?)\$10\^\{(-?\d+)\}\$|0", label.get_text())
        assert place == pytest.approx(0.0 if said[0] == "0" else (-1.0 if said[1] else 1.0) * (int(said[2]) + 16))
    low, high = check.interval
    lines = iter(ax.lines)
    for row in check.rows:
        thin, _, thick, _, diamond = (next(lines) for _ in range(5))
        for line, point in ((thin, row.raw), (thick, row.solution)):
            left, right = (10.0 ** (abs(end) - 16) * high for end in line.get_xdata())
            assert left == pytest.approx(max(high - point.certificate.lower, 1e-16 * high), rel=1e-6, abs=0.0)
            assert right == pytest.approx(max(point.certificate.upper - low, 1e-16 * high), rel=1e-6, abs=0.0)
            assert line.get_color() != "#c00000"
        at = float(diamond.get_xdata()[0])
        off = row.value - 0.5 * (low + high)
        if np.isnan(off):
            assert row.label == "native"
            assert np.isnan(at)
        else:
            assert np.sign(at) * 10.0 ** (abs(at) - 16) * high == pytest.approx(off, rel=1e-6, abs=2e-16 * high)


def test_a_row_that_contradicts_the_others_is_red(check):
    wrong = replace(check.rows[1], solution=replace(check.rows[1].solution, value=1.01 * check.rows[1].value))
    ax = plotting.intervals(replace(check, rows=(check.rows[0], wrong)))
    assert [line.get_color() == "#c00000" for line in ax.lines] == [False] * 5 + [True] * 5 + [False]


def test_pictures_of_a_report_show_every_row(check, monkeypatch):
    page = figures.weights(check)
    assert re.findall(r"var\(--series-\d\)", page)
    assert not re.findall("#0[1-4]0[0-9]0[0-9a-f]", page)  # colours that the style sheet is to replace
    monkeypatch.setattr(figures, "_svg", lambda figure, ax: ax)
    native, *others = check.best_rows.values()
    gaps = np.maximum(native.solution.history.column("relative_gap"), 1e-16)
    ax = figures.weights(check)
    assert [bar.get_width() for bar in ax.patches] == native.solution.weights.tolist()
    assert [line.get_label() for line in ax.lines] == [row.formulation for row in others]
    for line, row in zip(ax.lines, others, strict=True):
        np.testing.assert_array_equal(line.get_xdata(), row.solution.weights)
    largest = max(row.solution.weights.max() for row in check.best_rows.values())
    assert ax.get_xlim()[0] == pytest.approx(-0.01 * largest)
    np.testing.assert_array_equal(figures.convergence(check).lines[0].get_ydata(), gaps)
    lines = figures.gap_against_time(check).lines[len(check.best_rows) :]
    assert [line.get_xdata()[0] for line in lines if len(line.get_xdata()) == 1] == [row.seconds for row in check.rows]
    np.testing.assert_array_equal(lines[1].get_ydata(), gaps)


def test_a_page_is_made_where_nobody_found_a_solution(check):
    failed = tuple(replace(row, solution=None) for row in check.rows)
    html = replace(check, rows=failed).to_html()
    assert html.count("<svg") == 4
    assert set(re.findall(r"--series-(\d+):", html)) == {str(k) for k in range(figures.SERIES)}
    assert "Undecided: 0 of 1 problem passed." in " ".join(html.split())  # nothing contradicts anything
    assert "Undecided: 0 of 0 problems passed." in " ".join(render({}).split())


def test_support_vectors_are_encircled_among_the_fitted_samples_only(rng):
    X, X_new = rng.normal(size=(20, 2)), rng.normal(size=(30, 2))
    model = MKLClassifier("linear", C=0.1).fit(X, X[:, 0] > 0)
    drawn = [plotting.surface(model, samples, points=5).collections for samples in (X, X_new, X[:2])]
    circles = [len(collections[-1].get_offsets()) for collections in drawn]
    assert circles == [len(model.support_), 30, 2]  # the last collection without circles are the samples


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
    for score, line in zip((-1.0, 0.0, 1.0), ax.collections[1].get_paths(), strict=True):
        np.testing.assert_allclose(line.vertices @ [1.0, 2.0], score, atol=1e-9)
    blue, red = ax.collections[0].to_rgba([-1.0, 1.0])[:, :3], [dots.get_facecolor() for dots in ax.collections[2:4]]
    assert (np.argmax(blue, axis=1).tolist(), [int(c[0, :3].argmax()) for c in red]) == ([2, 0], [2, 0])
    room = 0.08 * np.ptp(X[:, 0])
    assert ax.get_xlim() == pytest.approx((X[:, 0].min() - room, X[:, 0].max() + room))
    np.testing.assert_allclose(ax.collections[-1].get_offsets(), X[[1]])


def test_surface_of_three_classes_and_of_numbers():
    iris = load("iris")
    X = iris.X[:, 2:]
    model = mklref.MKLClassifier("linear,rbf:1").fit(X, iris.y)
    ax = plotting.surface(model, X, iris.y, points=10)
    assert legend(ax) == ["setosa", "versicolor", "virginica"]
    found = set(np.unique(ax.collections[0].get_array()))
    assert found == {0, 1, 2}
    shades = ax.collections[0].to_rgba([0.0, 1.0, 2.0])[:, :3]  # a region has the colour of its samples
    np.testing.assert_allclose(shades, [dots.get_facecolor()[0, :3] for dots in ax.collections[1:4]], atol=0.01)
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
