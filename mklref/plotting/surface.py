"""The scores of a model over two variables."""

from __future__ import annotations

from typing import Any

import numpy as np

from mklref._typing import Array
from mklref._validate import checked_integer, shown
from mklref.exceptions import InvalidInput, InvalidType
from mklref.plotting.style import COLOURS, above, as_text, axes, colour, labelled, mark, numbers


def surface(model: Any, X: Any, y: Any = None, *, points: int = 120, ax: Any = None) -> Any:
    """The decision surface of a fitted model of two variables, and the samples on it.

    With two classes, one class, or numbers: filled contours of the scores, and for classes the lines of score -1, 0
    and 1. With several classes, or classes without scores: the regions of the predicted classes. Targets that are
    numbers have the colours of predictions. Support vectors are encircled if X are the samples that the model was
    fitted to.

    Parameters
    ----------
    model : fitted estimator
        Anything with `decision_function` or `predict`.
    X : array (n, 2)
        Samples; they also tell how far the picture reaches.
    y : array (n,), optional
        Their classes or targets.
    points : int
        Grid points along each axis, from 2 to 5000.
    """
    samples = numbers(X, "X")
    if samples.ndim != 2 or samples.shape[1] != 2 or not len(samples):
        raise InvalidInput(f"X has shape {samples.shape}; a surface is drawn over two variables, X of shape (n, 2).")
    y = labelled(y, len(samples), "y")
    says = f"points = {shown(points)} must be an integer from 2 to 5000: the grid points along each axis."
    points = checked_integer(points, 2, 5000, says)
    if not (hasattr(model, "decision_function") or hasattr(model, "predict")):
        raise InvalidType(f"model is {type(model).__name__}; give a fitted estimator, which scores or predicts.")
    names = [str(name) for name in getattr(X, "columns", ("x0", "x1"))]
    room = 0.08 * np.where(np.ptp(samples, axis=0) > 0.0, np.ptp(samples, axis=0), 1.0)
    sides = [np.linspace(*ends, points) for ends in zip(samples.min(0) - room, samples.max(0) + room, strict=True)]
    grid = np.stack(np.meshgrid(*sides), axis=-1).reshape(-1, 2)
    grid_in: Any = type(X)(grid, columns=X.columns) if hasattr(X, "iloc") else grid
    classes: Any = getattr(model, "classes_", None)
    if classes is not None and y is not None and not (known := np.isin(y, classes)).all():
        stranger, all_known = y[~known].tolist()[0], np.asarray(classes).tolist()
        raise InvalidInput(f"y holds {shown(stranger)}, which is no class of the model: {shown(all_known)}.")
    if classes is None and y is not None:
        y = numbers(y, "y")
    scored, scale = hasattr(model, "decision_function"), None
    regions = classes is not None and (len(classes) > 2 or not scored)
    found: Any = model.decision_function(grid_in) if scored and not regions else model.predict(grid_in)
    values: Any = np.reshape(np.searchsorted(classes, found) if regions else found, (points, points))
    ax = axes(ax, 5.0, 4.2)  # a figure only for what can be drawn
    if regions:
        _regions(ax, sides, values, len(classes))
    else:
        scale = _contours(ax, sides, values, np.empty(0) if y is None or scored else y, scored)
    _samples(ax, model, samples, y, classes, scale)
    ax.set(xlabel=as_text(names[0]), ylabel=as_text(names[1]))
    return ax


def _contours(ax: Any, sides: list[Array], scores: Array, targets: Any, scored: bool) -> dict[str, Any] | None:
    """The scores, or predictions on a scale that they share with the targets, which is returned."""
    from matplotlib.ticker import MaxNLocator

    if not scored:
        seen = np.r_[scores.ravel(), targets]
        levels = MaxNLocator(40).tick_values(seen.min(), seen.max())
        scale = {"cmap": "viridis", "vmin": levels[0], "vmax": levels[-1]}
        ax.figure.colorbar(ax.contourf(*sides, scores, levels, **scale), ax=ax, label="prediction")
        return scale
    reach = np.abs(scores).max() or 1.0
    filled = ax.contourf(*sides, scores, np.linspace(-reach, reach, 21), cmap="RdBu_r", alpha=0.6)
    ax.contour(*sides, scores, (-1.0, 0.0, 1.0), colors="k", linewidths=(0.7, 1.4, 0.7), linestyles=("--", "-", "--"))
    ax.figure.colorbar(filled, ax=ax, label="score", ticks=MaxNLocator(5))
    return None


def _regions(ax: Any, sides: list[Array], regions: Any, count: int) -> None:
    from matplotlib.colors import ListedColormap

    shades = [(colour(k), 0.25 + 0.35 * (k // len(COLOURS) % 2)) for k in range(count)]
    ax.pcolormesh(*sides, regions, cmap=ListedColormap(shades), vmin=-0.5, vmax=count - 0.5)


def _samples(ax: Any, model: Any, samples: Array, y: Any, classes: Any, scale: Any) -> None:
    """One colour a class, red for the positive one of two, as the surface has it; numbers on its scale."""
    if classes is None or y is None:
        values = None if classes is not None else y
        limits = {} if values is None else {"edgecolors": "k", "linewidths": 0.4, **(scale or {"cmap": "viridis"})}
        ax.scatter(*samples.T, c="k" if values is None else values, s=14, zorder=3, **limits)
    else:
        two = ["#2166ac", "#b2182b"] if len(classes) == 2 and hasattr(model, "decision_function") else []
        for k, label in enumerate(classes):
            look = {"color": two[k]} if two else mark(k)
            ax.scatter(*samples[y == label].T, s=14, label=as_text(_shown(label)), zorder=3, **look)
        above(ax, fontsize="small")  # upon the picture it would hide samples
    support = getattr(model, "support_", None)
    if support is not None and len(support) and _are_fitted(model, samples, support):
        ax.scatter(*samples[support].T, s=50, facecolors="none", edgecolors="k", linewidths=0.6, zorder=2)


def _are_fitted(model: Any, samples: Array, support: Any) -> bool:
    """Whether the support vectors are among these samples, at their numbers; taken for granted where none are known."""
    if support.max() >= len(samples):
        return False
    fitted = getattr(getattr(model, "_new_kernels", None), "samples", None)
    return fitted is None or np.array_equal(fitted[model._columns], samples[support])


def _shown(label: Any) -> str:
    """A class as people write it: 1, not 1.0."""
    return f"{label:g}" if isinstance(label, float) else str(label)
