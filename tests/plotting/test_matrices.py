"""Alignments, relevance maps, and the intervals of a cross-check."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import mklref
from mklref import plotting
from mklref.kernels import alignment, diagnose
from mklref.report import render


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
    assert [label.get_text() for label in plotting.alignment(problem.kernels).get_yticklabels()][:1] == ["rbf:0.5"]


def test_sparsity_is_the_relevance_map():
    coef = np.array([[0.0, -2.0, 0.0], [1.0, 0.0, 0.0]])
    ax = plotting.sparsity(coef, ["one", "two"])
    np.testing.assert_array_equal(ax.images[0].get_array(), [[0.0, 1.0, 0.0], [0.5, 0.0, 0.0]])
    assert ax.get_title(loc="left") == "2 of 6 coefficients"


def test_intervals_of_a_cross_check(problem):
    small = problem.replace(C=10.0)
    check = mklref.crosscheck(small, formulations=["dual", "mixed_norm"], solvers=["CLARABEL"])
    ax = plotting.intervals(check)
    assert [label.get_text() for label in ax.get_yticklabels()] == ["native", "dual/CLARABEL", "mixed_norm/CLARABEL"]
    ax.figure.draw_without_rendering()
    assert ax.xaxis.label.get_window_extent().x1 <= ax.figure.bbox.x1
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


def test_a_page_is_made_where_nobody_found_a_solution(problem):
    check = mklref.crosscheck(problem, formulations=["dual"], solvers=["CLARABEL"])
    failed = tuple(replace(row, solution=None) for row in check.rows)
    html = replace(check, rows=failed).to_html()
    assert html.count("<svg") == 4
    assert "Undecided: 0 of 1 problem passed." in " ".join(html.split())  # nothing contradicts anything
    assert "Undecided: 0 of 0 problems passed." in " ".join(render({}).split())
