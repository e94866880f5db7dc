"""What a model's predictions are made of, and how stable its weights are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mklref.exceptions import InvalidInput
from mklref.plotting.style import axes, colour


def contributions(
    model: Any, X: Any, *, by: str = "kernel", machine: int = 0, labels: Sequence[str] | None = None, most: int = 12,
    ax: Any = None,
) -> Any:  # fmt: skip
    """f_m(x) of each kernel or group: a point for each sample, by its size, under the share of the variance.

    Parameters
    ----------
    model : fitted estimator
    X
        Samples.
    by : {"kernel", "group"}
    machine : int
        Of several machines, the one that is drawn.
    labels : sequence of str, optional
        Of the samples; the points of one label have one colour.
    most : int
        Rows; those of smaller variance are left out, which the axis says.
    ax : Axes, optional

    Returns
    -------
    Axes

    Raises
    ------
    InvalidInput
        Labels of another number.
    MissingExtra
        matplotlib is not installed.
    """
    parts = model.contributions(X, by)
    parts = parts if parts.ndim == 2 else parts[:, :, machine]
    names = list(model.kernel_names_ if by == "kernel" else model.kernel_groups_)
    if labels is not None and len(labels) != len(parts):
        raise InvalidInput(f"{len(labels)} labels for {len(parts)} samples; give one for each.")
    spread = parts.std(axis=0)
    shown = np.argsort(-spread, kind="stable")[: max(1, min(most, int(np.sum(spread > 0.0)) or 1))]
    ax = axes(ax, 6.0, 0.9 + 0.35 * len(shown))
    rng = np.random.default_rng(0)  # only where a point lies within its row
    given = np.zeros(len(parts), dtype=int) if labels is None else np.unique(labels, return_inverse=True)[1]
    kinds = [""] if labels is None else [str(name) for name in np.unique(labels)]
    for place, m in enumerate(shown):
        heights = place + rng.uniform(-0.28, 0.28, size=len(parts))
        for k, kind in enumerate(kinds):
            own = given == k
            label = kind if place == 0 and kind else None
            ax.plot(parts[own, m], heights[own], ".", color=colour(k), alpha=0.6, markersize=4, label=label)
    ax.axvline(0.0, color="0.6", linewidth=0.8, zorder=0)
    ax.set_yticks(np.arange(len(shown)), [names[m] for m in shown])
    ax.set_ylim(len(shown) - 0.4, -0.6)
    few = "" if len(shown) == len(names) else f" (the {len(shown)} that vary most of {len(names)})"
    ax.set_xlabel(f"contribution to the score{few}")
    if labels is not None:
        ax.legend(loc="lower left", bbox_to_anchor=(0.0, 1.0), ncols=5)
    return ax


def stability(found: Any, ax: Any = None, *, most: int = 30) -> Any:
    """The share of fits that choose a kernel as a bar, with the median and the middle 90 % of its weights.

    Parameters
    ----------
    found : mklref.model_selection.Stability
    ax : Axes, optional
    most : int
        Bars; the others are left out, which the axis says.

    Returns
    -------
    Axes

    Raises
    ------
    MissingExtra
        matplotlib is not installed.
    """
    low, middle, high = found.quantiles()
    shown = np.lexsort((-middle, -found.chosen))[: max(1, most)]
    ax = axes(ax, 6.0, 0.8 + 0.24 * len(shown))
    places = np.arange(len(shown))
    ax.barh(places, found.chosen[shown], color=colour(0), alpha=0.35, height=0.7, label="share of fits")
    ax.hlines(places, low[shown], high[shown], color=colour(1), linewidth=2.0, label="middle 90 % of the weights")
    ax.plot(middle[shown], places, "o", color=colour(1), markersize=4, label="median weight")
    ax.set_yticks(places, [found.names[m] for m in shown])
    ax.set(ylim=(len(shown) - 0.4, -0.6), xlim=(0.0, None))
    few = "" if len(shown) == len(found.names) else f" (the {len(shown)} chosen most often of {len(found.names)})"
    ax.set_xlabel(f"share of {len(found.weights)} fits, and weight{few}")
    ax.legend(loc="lower left", bbox_to_anchor=(0.0, 1.0), ncols=3)
    return ax
