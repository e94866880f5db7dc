"""A cross-check at one glance."""

from __future__ import annotations

from typing import Any

import numpy as np

from mklref.certificate.unit import unit_of
from mklref.crosscheck.result import CrossCheck
from mklref.exceptions import InvalidType
from mklref.plotting.style import axes, colour

BELOW = 1e-16
"""Distances below this are drawn here: the axis is logarithmic."""


def intervals(check: CrossCheck, *, ax: Any = None) -> Any:
    """The certified interval of each row of a cross-check, relative to where all of them together place the optimum.

        to the left    (common upper bound - lower bound of the row) / |optimum|
        to the right   (upper bound of the row - common lower bound) / |optimum|

    on logarithmic axes that meet in the middle: a row is as good as its line is short. All intervals that contain the
    optimum overlap; one that does not is drawn in red.

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
    low, high = check.interval
    scale = max(abs(high), unit_of(check.problem)) or 1.0
    rows = [row for row in check.rows if row.solution is not None]
    ax = axes(ax, 6.4, 0.9 + 0.22 * len(rows))
    for place, row in enumerate(rows):
        left, right = (
            np.log10(max(distance / scale, BELOW)) - np.log10(BELOW) for distance in (high - row.lower, row.upper - low)
        )
        shade = "#c00000" if row.failure else colour(0 if row.label == "native" else 7)
        ax.plot([-left, right], [place, place], color=shade, linewidth=2.0, solid_capstyle="butt")
        ax.plot([-left, right], [place, place], "|", color=shade, markersize=8, markeredgewidth=2.0)
    ax.axvline(0.0, color="0.4", linewidth=0.8)
    ax.set_yticks(range(len(rows)), [row.label for row in rows])
    ax.set_ylim(len(rows) - 0.4, -0.6)
    _decades(ax)
    ax.set_xlabel(f"lower bound - P*   |   upper bound - P*,  relative;  P* = {0.5 * (low + high):.9g}")
    return ax


def _decades(ax: Any) -> None:
    """Ticks at powers of ten, to both sides."""
    reach = max(abs(limit) for limit in ax.get_xlim())
    exponents = np.arange(-14, np.ceil(np.log10(BELOW) + reach) + 1, 4)
    places = exponents - np.log10(BELOW)
    labels = [f"$10^{{{int(e)}}}$" for e in exponents]
    ax.set_xticks([*-places[::-1], 0.0, *places], [*(f"-{label}" for label in labels[::-1]), "0", *labels])
    ax.set_xlim(-1.03 * reach, 1.03 * reach)
