"""What all pictures share: colours that most colour-blind readers can tell apart, and where they are drawn."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

from mklref.exceptions import MissingExtra

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#7f3b08", "#666666")
"""In order of use; after the last one they begin again."""
FAINT = "0.8"

SETTINGS: dict[Any, Any] = {
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
    """The Axes that were given, or those of a new figure of this size in inches.

    Raises
    ------
    MissingExtra
        matplotlib is not installed.
    """
    require_matplotlib()
    if ax is not None:
        return ax
    import matplotlib.pyplot as plt

    return plt.subplots(figsize=(width, height), layout="constrained")[1]


def colour(k: int) -> str:
    """The k-th colour."""
    return COLOURS[k % len(COLOURS)]
