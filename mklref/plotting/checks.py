"""A cross-check at one glance."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from mklref._crosscheck.result import NATIVE, CrossCheck, Row
from mklref.exceptions import InvalidType
from mklref.plotting.style import axes, colour

BELOW = 1e-16
"""Distances below this are drawn here: the axis is logarithmic."""


def intervals(check: CrossCheck, *, ax: Any = None) -> Any:
    """Values and certified intervals of all rows of a cross-check, relative to where they together place the optimum.

        to the left    (common upper bound - lower bound of the row) / |optimum|
        to the right   (upper bound of the row - common lower bound) / |optimum|

    on logarithmic axes that meet in the middle: a thick line for the polished point, a thin one for the solver's own,
    and a diamond for the value that the solver states. A row is as good as its line is short. All intervals contain
    the optimum and overlap; a row that contradicts that is drawn in red.

    Parameters
    ----------
    check : CrossCheck
        What `mklref.crosscheck` returns.
    ax : Axes, optional

    Returns
    -------
    Axes

    Raises
    ------
    InvalidType
        Not a CrossCheck.
    """
    if not isinstance(check, CrossCheck):
        raise InvalidType(f"check is {type(check).__name__}; give what mklref.crosscheck returns.")
    ax = axes(ax, 6.4, 0.9 + 0.22 * len(check.rows))
    draw_intervals(ax, check, lambda row: colour(0 if row.formulation == NATIVE else 7), "#c00000")
    return ax


def draw_intervals(ax: Any, check: CrossCheck, shade: Callable[[Row], str], wrong: str) -> None:
    """What `intervals` shows, in these colours."""
    low, high = check.interval
    middle, scale = 0.5 * (low + high), check.size or 1.0
    rows = [row for row in check.rows if row.solution is not None]
    for place, row in enumerate(rows):
        assert row.raw is not None
        assert row.solution is not None
        look = {"color": wrong if check.contradiction(row) else shade(row), "solid_capstyle": "butt"}
        for point, width in ((row.raw, 0.8), (row.solution, 2.5)):
            bounds = point.certificate
            ends = -_place((high - bounds.lower) / scale), _place((bounds.upper - low) / scale)
            ax.plot(ends, [place, place], linewidth=width, **look)
            ax.plot(ends, [place, place], "|", markersize=4 + 2 * width, markeredgewidth=width, color=look["color"])
        off = (row.value - middle) / scale
        ax.plot([np.sign(off) * _place(abs(off))], [place], "D", markersize=4, color=look["color"], mfc="none")
    ax.axvline(0.0, color="0.5", linewidth=0.8)
    ax.set_yticks(range(len(rows)), [row.label for row in rows])
    ax.set_ylim(len(rows) - 0.4, -0.6)
    _decades(ax)
    ax.set_xlabel(f"lower bound - P*   |   upper bound - P*,  relative;  P* = {middle:.9g}")


def _place(distance: float) -> float:
    """Decades above `BELOW`."""
    return float(np.log10(max(distance, BELOW) / BELOW))


def _decades(ax: Any) -> None:
    """Ticks at powers of ten, to both sides."""
    reach = max(abs(limit) for limit in ax.get_xlim())
    exponents = np.arange(-14, np.ceil(np.log10(BELOW) + reach) + 1, 4)
    places = exponents - np.log10(BELOW)
    labels = [f"$10^{{{int(e)}}}$" for e in exponents]
    ax.set_xticks([*-places[::-1], 0.0, *places], [*(f"-{label}" for label in labels[::-1]), "0", *labels])
    ax.set_xlim(-1.03 * reach, 1.03 * reach)
