"""What is written in a picture, and in which colours: entries are told apart, lines and labels can be seen."""

from __future__ import annotations

import re
from html import escape
from pathlib import Path

import numpy as np
import pytest
from makers import contrast, legend

import mklref
import mklref.explore
from mklref import MKLClassifier, plotting
from mklref._display import BLUE, ORANGE, weights
from mklref.kernels import stack
from mklref.plotting.style import COLOURS, FAINT, SETTINGS


def looks(lines):
    return [(line.get_color(), line.get_linestyle(), line.get_marker()) for line in lines]


def test_no_two_entries_of_a_legend_look_alike(solution, rng):
    names = [f"{kind}[v{v}]" for v in range(9) for kind in ("linear", "rbf:1")]
    bars = plotting.weights(np.arange(1.0, 19.0), names, by="variable")
    assert bars.get_legend() is None  # nine groups, eight colours, and names beside the bars
    two = [plotting.weights(np.ones(2), names, by="variable") for names in (["a[v]", "a[w]"], ["a[v]", "b[v]"])]
    assert [ax.get_legend() and len(ax.get_legend().get_texts()) for ax in two] == [2, None]
    lines = plotting.weight_paths(np.ones((2, 9)), [1.0, 2.0], most=9).get_legend().legend_handles
    runs = plotting.gap({f"run {k}": solution for k in range(9)}).get_legend().legend_handles
    X, y = rng.normal(size=(18, 2)), np.arange(18) % 9
    model = MKLClassifier("rbf:0.1").fit(X, y)
    points = plotting.contributions(model, X, labels=y).get_legend().legend_handles
    assert {len(set(looks(handles))) for handles in (lines, runs, points)} == {9}
    ax = plotting.surface(model, X, y, points=4)
    assert len({path.tobytes() for path in [dots.get_paths()[0].vertices for dots in ax.collections[1:10]]}) == 2
    assert len({tuple(shade) for shade in ax.collections[0].cmap(np.arange(9))}) == 9


@pytest.mark.thorough
def test_legends_have_room_above_a_picture(rng):
    names = [f"rbf:1[the variable with the long name {v}]" for v in range(6)]
    X = rng.normal(size=(40, 2))
    model = MKLClassifier("linear").fit(X, X[:, 0] > 0)
    many = plotting.contributions(model, X, labels=[f"a class with the number {i % 20}" for i in range(40)])
    paths = plotting.weight_paths(np.ones((2, 40)), [1.0, 2.0], most=40)
    y = np.arange(40) % 12
    regions = plotting.surface(MKLClassifier("linear").fit(X, y), X, y, points=2)
    for ax in (plotting.weights(np.ones(6), names, by="variable"), many, paths, regions):
        ax.figure.draw_without_rendering()
        shown = ax.get_legend().get_window_extent()
        assert shown.x1 <= ax.figure.bbox.x1
        assert 0.0 <= shown.y0 < shown.y1 <= ax.figure.bbox.y1
    assert shown.y0 >= regions.bbox.y1  # no sample is hidden
    assert len(plotting.contributions(model, X[:1]).get_yticks()) == 1  # nothing varies, and yet it is drawn
    assert plotting.contributions(model, X, labels=[""] * 40).get_legend() is None


def test_runs_are_named_by_texts(solution):
    ax = plotting.gap({"_mine": solution, "$^$": solution, "x\n" * 99: solution, 4: solution})
    ax.figure.draw_without_rendering()
    assert legend(ax) == [" _mine", r"\$^\$", "x x x x x x x x …x x x x x x x x", "4"]


def test_names_are_text_whatever_they_are_made_of(problem, solution):
    """Two dollars are mathematics for matplotlib."""
    K = problem.kernels.dense()
    shown = {"$^$": r"\$^\$", "_x": " _x", "\x07": "\ufffd"}
    names = [*shown, *(f"K{m}" for m in range(len(shown), len(K)))]
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
        assert {text.get_text() for text in texts} >= set(shown.values()), what
    names[3:6] = "#010101 id=", "<script>&", "\u65e5"  # a colour of ours, a tag, and what matplotlib's font lacks
    part = mklref.Problem(stack(K[:, ::5, ::5], names=names), problem.y[::5])
    html = mklref.crosscheck(part, formulations=["dual"], solvers=["CLARABEL"]).to_html()
    assert html.count("<svg") == 4
    assert all(f">{escape(name)}</text>" in html for name in names[3:6])


def test_the_gallery_is_complete():
    docs = Path(__file__).parents[2] / "docs"
    sources = (docs / "figures" / "gallery.py").read_text(encoding="utf-8")
    page = (docs / "gallery.md").read_text(encoding="utf-8")
    pictures = re.findall(r"^def (\w+)\(\) ->", sources, flags=re.MULTILINE)
    assert re.findall(r":pyobject: (\w+)", page) == pictures
    shown = re.findall(r"_static/(gallery-[\w-]+)\.(?:svg|png)", page)
    assert shown == [f"gallery-{name.replace('_', '-')}" for name in pictures]
    assert {f"plotting.{name}(" in sources for name in plotting.__all__ if name.islower()} == {True}


matplotlib = pytest.importorskip("matplotlib")

WHITE, BLACK = "#ffffff", "#000000"


def test_lines_can_be_seen_on_light_and_dark_pages_and_labels_can_be_read():
    page = Path(mklref.explore.__file__).with_name("page.html").read_text(encoding="utf-8")
    light, dark = re.findall(r"--background: (#\w+)", page)
    for colour in (*COLOURS, BLUE, ORANGE):
        assert min(contrast(colour, light), contrast(colour, dark)) >= 3.0, colour
    assert contrast(matplotlib.colors.to_hex(FAINT), WHITE) >= 3.0
    assert min(contrast(colour, WHITE) for colour in COLOURS[:2]) >= 4.5  # the labels of the two axes of `path`


def test_ranges_of_weights_can_be_seen_across_their_bars():
    drawn = weights(np.array([0.5]), ["linear"], (np.array([0.2]), np.array([0.7])))
    assert re.search(r'<line [^>]*stroke="([^"]+)"', drawn)[1] == "currentColor"  # nearly black or white
    assert min(contrast(BLUE, BLACK), contrast(BLUE, WHITE)) >= 3.0


def test_pictures_of_the_documentation_have_the_same_colours():
    with matplotlib.rc_context(SETTINGS):
        assert matplotlib.rcParams["axes.prop_cycle"].by_key()["color"] == list(COLOURS)
