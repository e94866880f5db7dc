"""Kernel weights as bars."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from mklref._ranges import WeightRanges
from mklref._typing import Array
from mklref.exceptions import InvalidInput, InvalidParameter
from mklref.plotting.style import axes, colour

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
    ax : Axes, optional

    Returns
    -------
    Axes

    Raises
    ------
    InvalidInput
        No single vector of weights, or names of another number.
    InvalidParameter
        Unknown `by`, or `total` without groups.
    MissingExtra
        matplotlib is not installed.
    """
    theta, names = _named(solution, names)
    groups = _groups(by, names)
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
    size = np.maximum(theta, high) if ranges else theta
    shown = np.sort(np.argsort(-size, kind="stable")[: max(1, most)])
    ax = axes(ax, 6.0, 0.8 + 0.22 * len(shown))
    places = np.arange(len(shown))
    colours = [colour(labels[j][1]) for j in shown]
    ax.barh(places, theta[shown], color=colours, height=0.7, alpha=0.45 if ranges else 1.0)
    if ranges:
        ax.hlines(places, low[shown], high[shown], color=colours, linewidth=2.5)
    ax.set_yticks(places, [labels[j][0] for j in shown])
    ax.set(ylim=(len(shown) - 0.4, -0.6), xlim=(0.0, None))
    what = "weights of a group, summed" if total else "weight"
    ax.set_xlabel(what if len(shown) == len(theta) else f"{what} (the {len(shown)} largest of {len(theta)})")
    if len(groups) > 1 and not total:
        _legend(ax, {group: colour(k) for k, group in enumerate(groups) if k in {labels[j][1] for j in shown}})
    return ax


def _legend(ax: Any, colours: Mapping[str, str]) -> None:
    """One entry a group; without one where each bar is a group of its own."""
    from matplotlib.patches import Patch

    if 1 < len(colours) <= 10:
        ax.legend(
            handles=[Patch(color=value, label=name) for name, value in colours.items()],
            loc="lower left",
            bbox_to_anchor=(0.0, 1.0),
            ncols=5,
        )


def _named(solution: Any, names: Sequence[str] | None) -> tuple[Array, tuple[str, ...]]:
    """A vector of weights and a name for each."""
    for attribute in ("weights", "weights_"):
        if hasattr(solution, attribute):
            theta = np.asarray(getattr(solution, attribute), dtype=float)
            break
    else:
        try:
            theta = np.asarray(solution, dtype=float)
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
    found = tuple(f"K{m}" for m in range(len(theta))) if known is None else tuple(str(name) for name in known)
    if len(found) != len(theta):
        raise InvalidInput(f"{len(found)} names for {len(theta)} weights; give one for each kernel.")
    return theta, found


def _groups(by: str | Mapping[str, Sequence[int]] | None, names: Sequence[str]) -> dict[str, list[int]]:
    if by is None:
        return {"": list(range(len(names)))}
    if isinstance(by, Mapping):
        groups = {str(name): list(members) for name, members in by.items()}
        beyond = [m for members in groups.values() for m in members if not 0 <= m < len(names)]
        if beyond:
            raise InvalidParameter(f"by names the kernel {beyond[0]}; there are {len(names)}, counted from 0.")
        rest = sorted(set(range(len(names))) - {m for members in groups.values() for m in members})
        return {**groups, "other": rest} if rest else groups
    if by not in (FAMILY, VARIABLE):
        raise InvalidParameter(f"by = {by!r}; give 'family', 'variable', a mapping of names to kernels, or None.")
    groups = {}
    for m, name in enumerate(names):
        kind, variable = re.fullmatch(r"([^:\[(]*)[^\[]*(?:\[(.*)\])?", name, flags=re.DOTALL).groups()  # type: ignore[union-attr]
        groups.setdefault(kind if by == FAMILY else variable or "all variables", []).append(m)
    return groups
