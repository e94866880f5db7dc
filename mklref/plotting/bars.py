"""Kernel weights as bars, what a model's predictions are made of, and how stable its weights are."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from mklref._ranges import WeightRanges
from mklref._typing import Array
from mklref._validate import checked_flag, checked_integer, shown
from mklref.exceptions import InvalidInput, InvalidParameter, InvalidType
from mklref.plotting.style import above, as_text, at_most, axes, colour, columns, labelled, mark, named, numbers

MOST = 40
"""Bars that are drawn; the largest ones if there are more."""
FAMILY, VARIABLE = "family", "variable"


def weights(
    solution: Any,
    names: Sequence[str] | None = None,
    *,
    by: str | Mapping[str, Sequence[int]] | None = FAMILY,
    total: bool = False,
    most: int = MOST,
    ax: Any = None,
) -> Any:
    """Kernel weights as horizontal bars, one colour for each group of kernels.

    Parameters
    ----------
    solution : Solution, fitted estimator, WeightRanges, or array (M,)
        Ranges are drawn as lines over the bars.
    names : sequence of str, optional
        Of the kernels; by default those that the estimator or the ranges know.
    by : "family", "variable", mapping of str to indices of kernels, or None
        The groups: the kind of kernel or the variable that it reads, both from the names, such as rbf:1[age]; or any
        others, such as the `kernel_groups_` of an estimator.
    total : bool
        One bar for each group, of the sum of its weights.
    most : int
        Number of bars; the smaller ones are left out, which the axis says.
    """
    theta, names = _named(solution, names)
    groups = _groups(by, names)
    checked_flag("total", total)
    if total and by is None:
        raise InvalidParameter("total = True sums over groups: give by='family', by='variable' or a mapping.")
    ranges = solution if isinstance(solution, WeightRanges) and not total else None
    if total:
        labels = [(group, 0) for group in groups]
        theta = np.array([theta[list(members)].sum() for members in groups.values()])
    else:
        labels = [(names[m], k) for k, members in enumerate(groups.values()) for m in members]
        order = [m for members in groups.values() for m in members]
        theta = theta[order]
        if ranges:
            low, high = ranges.low[order], ranges.high[order]
    size = np.maximum(theta, high) if ranges else np.abs(theta)
    shown = np.sort(np.argsort(-size, kind="stable")[: max(1, at_most(most))])
    ax = axes(ax, 6.0, 0.8 + 0.22 * len(shown))
    places = np.arange(len(shown))
    colours = [colour(labels[j][1]) for j in shown]
    ax.barh(places, theta[shown], color=colours, height=0.7, alpha=0.45 if ranges else 1.0)
    if ranges:
        ax.hlines(places, low[shown], high[shown], color=colours, linewidth=2.5)
    ax.set_yticks(places, [as_text(labels[j][0]) for j in shown])
    ax.set(ylim=(len(shown) - 0.4, -0.6))
    if theta.min(initial=0.0) >= 0.0:  # weights of a signed problem lie on both sides
        ax.set_xlim(0.0, None)
    what = "weights of a group, summed" if total else "weight"
    ax.set_xlabel(what if len(shown) == len(theta) else f"{what} (the {len(shown)} largest of {len(theta)})")
    if not total:
        _legend(ax, [(group, colour(k)) for k, group in enumerate(groups) if k in {labels[j][1] for j in shown}])
    return ax


def _legend(ax: Any, colours: Sequence[tuple[str, str]]) -> None:
    """One entry a group; none for a single group, nor where two groups share a colour."""
    from matplotlib.patches import Patch

    if 1 < len(colours) == len({value for _, value in colours}):
        handles = [Patch(color=value, label=as_text(name)) for name, value in colours]
        above(ax, handles=handles)


def _named(solution: Any, names: Sequence[str] | None) -> tuple[Array, tuple[str, ...]]:
    """A vector of weights and a name for each."""
    try:
        theta = np.asarray(getattr(solution, "weights", getattr(solution, "weights_", solution)), dtype=float)
    except (TypeError, ValueError):
        raise InvalidInput(
            f"{type(solution).__name__} has no kernel weights: give a fitted estimator of mklref, such as "
            "pipeline[-1] or search.best_estimator_, a solution, or the weights."
        ) from None
    if theta.ndim != 1:
        raise InvalidInput(
            f"the weights have shape {theta.shape}; draw one machine at a time, for instance weights_[0] with names."
        )
    known = names if names is not None else getattr(solution, "names", getattr(solution, "kernel_names_", None))
    return numbers(theta, "weights"), named(known, len(theta), "weights")


def _groups(by: str | Mapping[str, Sequence[int]] | None, names: Sequence[str]) -> dict[str, list[int]]:
    if by is None:
        return {"": list(range(len(names)))}
    if isinstance(by, Mapping):
        groups = {
            str(name): list(dict.fromkeys(members)) if np.iterable(members) else [members]
            for name, members in by.items()
        }
        for m in [m for members in groups.values() for m in members]:
            says = f"by names the kernel {m!r}; there are {len(names)}, counted from 0."
            checked_integer(m, 0, len(names) - 1, says)
        rest = sorted(set(range(len(names))) - {m for members in groups.values() for m in members})
        return {**groups, "other": rest} if rest else groups
    if not isinstance(by, str) or by not in (FAMILY, VARIABLE):
        raise InvalidParameter(f"by = {shown(by)}; give 'family', 'variable', a mapping of names to kernels, or None.")
    groups = {}
    for m, name in enumerate(names):
        kind, variable = re.fullmatch(r"([^:\[(]*)[^\[]*(?:\[(.*)\])?", name, flags=re.DOTALL).groups()  # type: ignore[union-attr]
        groups.setdefault(kind if by == FAMILY else variable or "all variables", []).append(m)
    return groups


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
    """
    if not hasattr(model, "contributions"):
        raise InvalidType(
            f"model is {type(model).__name__}; give a fitted estimator of mklref, which has contributions."
        )
    parts = model.contributions(X, by)
    machines = parts.shape[2] if parts.ndim == 3 else 1
    says = f"machine = {machine!r}; the model has {machines}, counted from 0."
    parts = parts.reshape(*parts.shape[:2], machines)[:, :, checked_integer(machine, 0, machines - 1, says)]
    names = list(model.kernel_names_ if by == "kernel" else model.kernel_groups_)
    marks = labelled(labels, len(parts), "labels")
    if marks is not None and marks.dtype.kind == "O":  # such as None, which has no order
        marks = marks.astype(str)
    spread = parts.std(axis=0)
    some = np.count_nonzero(np.any(parts != 0.0, axis=0))  # all of one sample, too, where nothing varies
    shown = np.lexsort((-np.abs(parts).sum(axis=0), -spread))[: max(1, min(at_most(most), some))]
    given = np.zeros(len(parts), dtype=int) if marks is None else np.unique(marks, return_inverse=True)[1]
    kinds = [""] if marks is None else [as_text(name) for name in np.unique(marks)]
    ax = axes(ax, 6.0, 0.9 + 0.35 * len(shown) + 0.2 * (len(kinds) // columns(kinds)))
    rng = np.random.default_rng(0)  # only where a point lies within its row
    for place, m in enumerate(shown):
        heights = place + rng.uniform(-0.28, 0.28, size=len(parts))
        for k, kind in enumerate(kinds):
            own = given == k
            look = {"alpha": 0.6, "markersize": 2.5, "linestyle": "none", **mark(k)}
            ax.plot(parts[own, m], heights[own], label=kind if place == 0 else None, **look)
    ax.axvline(0.0, color="0.5", linewidth=0.8, zorder=0)
    ax.set_yticks(np.arange(len(shown)), [as_text(names[m]) for m in shown])
    ax.set_ylim(len(shown) - 0.4, -0.6)
    few = "" if len(shown) == len(names) else f" (the {len(shown)} that vary most of {len(names)})"
    ax.set_xlabel(f"contribution to the score{few}")
    if labels is not None:
        above(ax, markerscale=2.0)
    return ax


def stability(found: Any, *, most: int = 30, ax: Any = None) -> Any:
    """The share of fits that choose a kernel as a bar, with the median and the middle 90 % of its weights.

    Parameters
    ----------
    found : mklref.model_selection.Stability
    most : int
        Bars; the others are left out, which the axis says.
    """
    if not hasattr(found, "quantiles"):
        raise InvalidType(f"found is {type(found).__name__}; give what mklref.model_selection.stability returns.")
    low, middle, high = found.quantiles()
    shown = np.lexsort((-middle, -found.chosen))[: max(1, at_most(most))]
    ax = axes(ax, 6.0, 0.8 + 0.24 * len(shown))
    places = np.arange(len(shown))
    ax.barh(places, found.chosen[shown], color=colour(0), alpha=0.35, height=0.7, label="share of fits")
    ax.hlines(places, low[shown], high[shown], color=colour(1), linewidth=2.0, label="middle 90 % of the weights")
    ax.plot(middle[shown], places, "o", color=colour(1), markersize=4, label="median weight")
    ax.set_yticks(places, [as_text(found.names[m]) for m in shown])
    ax.set(ylim=(len(shown) - 0.4, -0.6), xlim=(0.0, None))
    few = "" if len(shown) == len(found.names) else f" (the {len(shown)} chosen most often of {len(found.names)})"
    ax.set_xlabel(f"share of {len(found.weights)} fits, and weight{few}")
    above(ax)
    return ax
