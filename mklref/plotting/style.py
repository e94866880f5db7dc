"""What all pictures share: colours that most colour-blind readers can tell apart, and where they are drawn."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from importlib.util import find_spec
from typing import Any

import numpy as np

from mklref._display import shortened
from mklref._typing import Array
from mklref._validate import as_float_array, checked_count, checked_members, require_finite, require_unmasked
from mklref.exceptions import InvalidInput, InvalidType, MissingExtra

COLOURS = ("#0072b2", "#c25300", "#009e73", "#cc79a7", "#782dff", "#0096ff", "#f04be1", "#666666")
"""In order of use; after the last one they begin again, with other lines and marks. All have a contrast of 3 to 1 with
white and with the dark page of the explorer, and the first two, in which labels are written, 4.5 to 1 with white."""
LINES, MARKS = ("-", "--", ":", "-."), "ox+*"
FAINT = "0.58"
"""Lines that stand behind others, 3 to 1 on white."""
_LONGEST = 32
"""Characters of a name: longer ones would leave no room for the picture."""

SETTINGS: dict[Any, Any] = {
    "axes.prop_cycle": f"cycler('color', {COLOURS})",
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlelocation": "left",
    "axes.titlesize": "medium",
    "font.size": 9,
    "legend.frameon": False,
    "svg.fonttype": "none",
    "svg.hashsalt": "mklref",
}
"""For `matplotlib.rc_context`: how the pictures of the documentation are drawn. The functions do not set it."""


def require_matplotlib() -> None:
    """Raise `MissingExtra` if matplotlib is not installed."""
    if find_spec("matplotlib") is None:
        raise MissingExtra("pictures need matplotlib; install it by: pip install 'mklref[report]'.")


def axes(ax: Any, width: float, height: float) -> Any:
    """The plane Axes that were given, or those of a new figure of this size in inches; else `InvalidType`."""
    require_matplotlib()
    if ax is not None:
        from matplotlib.axes import Axes

        if not isinstance(ax, Axes) or hasattr(ax, "zaxis"):  # a Figure, an array of Axes, Axes in space
            raise InvalidType(f"ax is {type(ax).__name__}; give plane Axes of matplotlib: figure, ax = plt.subplots().")
        return ax
    import matplotlib.pyplot as plt

    return plt.subplots(figsize=(width, height), layout="constrained")[1]


def colour(k: int) -> str:
    """The k-th colour."""
    return COLOURS[k % len(COLOURS)]


def line(k: int) -> dict[str, str]:
    """How the k-th line is told from others; `mark` for points."""
    return {"color": colour(k), "linestyle": LINES[k // len(COLOURS) % len(LINES)]}


def mark(k: int) -> dict[str, str]:
    """How the k-th kind of points is told from others."""
    return {"color": colour(k), "marker": MARKS[k // len(COLOURS) % len(MARKS)]}


def columns(labels: Iterable[str]) -> int:
    """As many columns of a legend, five at most, as labels of this length have room above a picture."""
    return max(1, min(5, 75 // (8 + max(map(len, labels), default=0))))


def above(ax: Any, **options: Any) -> None:
    """A legend above the picture, in as many columns as its labels leave room for."""
    names = [handle.get_label() for handle in options.get("handles", ())] or ax.get_legend_handles_labels()[1]
    if names:
        ax.legend(loc="lower left", bbox_to_anchor=(0.0, 1.0), ncols=columns(names), **options)


def along(ax: Any, places: Array, label: str) -> None:
    """A logarithmic axis of values of C or p; from 1 to below 10 it counts 1, 2, 3 and not in powers of ten."""
    ax.set(xscale="log", xlabel=label)
    if min(places) >= 1.0 and max(places) < 10.0:
        ax.xaxis.set_major_formatter("{x:g}")
        ax.xaxis.set_minor_formatter("{x:g}")


def numbers(data: Any, label: str) -> Array:
    """Finite numbers, or `InvalidInput`: what is none would be missing from a picture, which would not say so."""
    array = as_float_array(data, label, InvalidInput)
    require_finite(array, label, InvalidInput, remedy="")
    return array.astype(float, copy=False)


def named(names: Any, count: int, things: str = "kernels") -> tuple[str, ...]:
    """Names as texts, K0, K1, ... for None; `InvalidInput` for another number, `InvalidType` for no sequence."""
    given = [f"K{m}" for m in range(count)] if names is None else names
    found = tuple(map(str, checked_members("names", given, "give a list of names, one for each kernel.")))
    if len(found) != count:
        raise InvalidInput(f"{len(found)} names for {count} {things}; give one for each kernel.")
    return found


def as_text(name: Any, longest: int = _LONGEST) -> str:
    """A name as a picture shows it: one line, no mathematics, and shortened within, for both ends tell names apart."""
    text = shortened(" ".join(str(name).split()), longest)
    text = "".join(sign if sign.isprintable() else "\ufffd" for sign in text)  # an SVG with \x07 is none
    # A legend leaves out what begins with an underscore.
    return (" " if text.startswith("_") else "") + text.replace("$", r"\$")


def at_most(most: Any) -> int:
    """A number of bars or lines, or `InvalidParameter`, `InvalidType`."""
    return checked_count("most", most, 0, "the number that is drawn, the largest ones.")


def labelled(labels: Sequence[Any] | Array | None, count: int, label: str) -> Array | None:
    """One label for each sample, or None; `InvalidInput` for another number of them, or no sequence."""
    if labels is None:
        return None
    require_unmasked(**{label: labels})
    found = np.asarray(labels)
    if found.shape != (count,):
        entries = f"{len(found)} entries" if found.ndim == 1 else f"shape {found.shape}"
        raise InvalidInput(f"{label} has {entries} for {count} samples; give one for each.")
    return found
