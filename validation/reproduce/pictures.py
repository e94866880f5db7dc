"""How the pictures of a report look: small, one set of colours, on white."""

from __future__ import annotations

from io import StringIO
from typing import Any

import matplotlib as mpl
from cycler import cycler
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator

COLOURS = ("#0072b2", "#c25300", "#009e73", "#cc79a7", "#666666", "#0096ff", "#782dff", "#000000")
"""Those of `mklref.plotting`, and black."""

SETTINGS: dict[Any, Any] = {
    "axes.prop_cycle": cycler(color=COLOURS),
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlesize": 9,
    "font.size": 8,
    "legend.fontsize": 7,
    "legend.frameon": False,
    "lines.linewidth": 1.2,
    "svg.fonttype": "none",
    "svg.hashsalt": "mklref",
}


def figure(width: float = 8.4, height: float = 2.9, rows: int = 1, columns: int = 1) -> tuple[Figure, Any]:
    """A figure and its array of axes (rows, columns)."""
    with mpl.rc_context(SETTINGS):
        drawing = Figure(figsize=(width, height), layout="constrained")
        return drawing, drawing.subplots(rows, columns, squeeze=False)


def plain_logarithmic(axis: Axis) -> None:
    """Plain numbers at 1, 2 and 5 times powers of ten; at even steps where the axis is shorter than that."""
    axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0), numticks=12))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))


def whole(axis: Axis) -> None:
    """Whole numbers only: a count has no others."""
    axis.set_major_locator(MaxNLocator(integer=True, nbins=6))


def svg(drawing: Figure) -> str:
    """The figure as text that is the same every time."""
    written = StringIO()
    with mpl.rc_context(SETTINGS):
        drawing.savefig(written, format="svg", metadata={"Date": None})
    return "\n".join(line.rstrip() for line in written.getvalue().splitlines()) + "\n"
