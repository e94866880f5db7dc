"""The pictures of a report as inline SVG, coloured by the style sheet of the page."""

from __future__ import annotations

import re
from io import StringIO
from typing import Any
from zlib import crc32

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure

from mklref._crosscheck.result import CrossCheck, kernel_names
from mklref._crosscheck.row import NATIVE
from mklref._threads import filtering
from mklref.formulations import FORMULATIONS
from mklref.plotting import style
from mklref.plotting.matrices import draw_intervals
from mklref.plotting.paths import FLOOR
from mklref.plotting.style import as_text

MOST_KERNELS = 40
"""Kernels that a picture of weights shows; the largest ones if there are more."""

FILLS = {"ECOS": {"fillstyle": "full"}, "SCS": {"fillstyle": "left", "markerfacecoloralt": "none"}}
"""How marks tell the solvers apart; those of CLARABEL are open."""

MARKS = "osD^vPX*<>"
SERIES = 6
"""Colours `--series-k` in the style sheet of the page; formulations beyond that differ by their marks alone."""

INK, GRID, WRONG = "#010101", "#020202", "#040404"
STANDINS = {INK: "currentColor", GRID: "var(--grid)", WRONG: "var(--bad)"}
STANDINS |= {f"#0300{k:02x}": f"var(--series-{k})" for k in range(SERIES)}
"""matplotlib knows no variables of a style sheet: figures are drawn in these colours, which are then replaced."""

_INKED = ("axes.edgecolor", "axes.labelcolor", "text.color", "xtick.color", "ytick.color")
SETTINGS: dict[Any, Any] = {**style.SETTINGS, **dict.fromkeys(_INKED, INK)} | {
    "axes.axisbelow": True,
    "axes.grid": True,
    "font.family": "sans-serif",
    "grid.color": GRID,
}


@mpl.rc_context(SETTINGS)
def values(check: CrossCheck) -> str:
    """Values and certified intervals of all rows on one axis."""
    figure, ax = _figure(height=0.9 + 0.24 * len(check.rows))
    draw_intervals(ax, check, lambda row: _colour(row.formulation), WRONG)
    return _svg(figure, ax)


@mpl.rc_context(SETTINGS)
def weights(check: CrossCheck) -> str:
    """Kernel weights: bars of the native solver, marks of the best row of each formulation."""
    rows = {name: row.solution.weights for name, row in check.best_rows.items() if row.solution}
    names = kernel_names(check.problem)
    size = np.max([*rows.values(), np.zeros(len(names))], axis=0)
    shown = np.sort(np.argsort(-size, kind="stable")[:MOST_KERNELS])
    places = np.arange(len(shown))
    figure, ax = _figure(height=1.0 + 0.22 * len(shown))
    for name, values in rows.items():
        if name == NATIVE:
            ax.barh(places, values[shown], height=0.7, color=_colour(name), alpha=0.4, label=name)
        else:
            ax.plot(values[shown], places, label=name, **_mark(name))
    ax.set_yticks(places, [as_text(names[m]) for m in shown])
    ax.set_ylim(len(shown) - 0.4, -0.6)
    ax.set_xlim(left=-0.01 * float(size.max() or 1.0))
    ax.set_xlabel("weight" if len(shown) == len(names) else f"weight ({len(shown)} largest of {len(names)} kernels)")
    ax.grid(visible=False, axis="y")
    return _svg(figure, ax)


@mpl.rc_context(SETTINGS)
def convergence(check: CrossCheck) -> str:
    """Certified relative gap of the native solver over its outer iterations."""
    figure, ax = _figure(height=2.6)
    row = check.best_rows.get(NATIVE)
    if row and row.solution and len(row.solution.history):
        history = row.solution.history
        gaps = np.maximum(history.column("relative_gap"), FLOOR)
        ax.semilogy(history.column("iteration"), gaps, ".-", color=_colour(NATIVE), label=NATIVE)
        ax.axhline(row.allowed, color=INK, lw=0.8, ls="--", label="tolerance")
    ax.xaxis.get_major_locator().set_params(integer=True)
    ax.set_xlabel("outer iteration")
    ax.set_ylabel("relative gap")
    return _svg(figure, ax)


@mpl.rc_context(SETTINGS)
def gap_against_time(check: CrossCheck) -> str:
    """Certified relative gap against seconds: the path of the native solver, one mark for each other row."""
    figure, ax = _figure(height=3.2)
    for name in check.best_rows:
        ax.plot([], [], label=name, **_mark(name))
    drawn = [(row, row.solution) for row in check.rows if row.solution and np.isfinite(row.relative_gap)]
    for row, solution in drawn:
        mark = {**_mark(row.formulation), **FILLS.get(row.solver, {})}
        ax.plot([row.seconds], [max(row.relative_gap, FLOOR)], **mark)
        history = solution.history
        if len(history):
            gaps = np.maximum(history.column("relative_gap"), FLOOR)
            ax.plot(history.column("seconds"), gaps, color=mark["color"], lw=1.2)
    ax.set(xlabel="seconds", ylabel="relative gap")
    if drawn:  # a logarithmic axis without a number has no place for its ticks
        ax.set(xscale="log", yscale="log")
    return _svg(figure, ax)


def _figure(height: float) -> tuple[Figure, Any]:
    figure = Figure(figsize=(7.2, height), layout="constrained")
    figure.patch.set_alpha(0.0)
    ax = figure.add_subplot()
    ax.patch.set_alpha(0.0)
    return figure, ax


def _colour(formulation: str) -> str:
    return f"#0300{_number(formulation) % SERIES:02x}"


def _mark(formulation: str) -> dict[str, Any]:
    mark = MARKS[_number(formulation) % len(MARKS)]
    return {"marker": mark, "color": _colour(formulation), "ls": "none", "ms": 5.5, "fillstyle": "none"}


def _number(formulation: str) -> int:
    """The same colour and mark for a formulation in every picture."""
    return [NATIVE, *FORMULATIONS].index(formulation)


def _svg(figure: Figure, ax: Any) -> str:
    """The figure as an <svg> element without a fixed size, with names that are unique on the page."""
    handles, labels = ax.get_legend_handles_labels()
    if handles:
        order = sorted(range(len(labels)), key=lambda k: labels[k] != NATIVE)
        named = [handles[k] for k in order], [labels[k] for k in order]
        figure.legend(*named, loc="outside upper left", ncols=6, columnspacing=1.4, handletextpad=0.3)
    drawn = StringIO()
    with filtering("ignore", Warning, message="Glyph .* missing"):  # from a font that the page does not use
        figure.savefig(drawn, format="svg", metadata={"Date": None})
    text = drawn.getvalue()
    text = text[text.index("<svg") :]
    text = re.sub(r'^<svg ([^>]*?)width="[^"]*" height="[^"]*"', r"<svg \1", text)
    prefix = f"f{crc32(text.encode()):08x}-"

    def on_a_page(tag: re.Match[str]) -> str:  # names of kernels, which stand between tags, stay what they are
        inked = re.sub("|".join(STANDINS), lambda colour: STANDINS[colour[0]], tag[0])
        return re.sub(r'(\bid="|url\(#|href="#)', rf"\1{prefix}", inked)

    return re.sub("<[^>]*>", on_a_page, text)
