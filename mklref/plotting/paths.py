"""What changes over the iterations of a solver, or along a path of C or p."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mklref._typing import Array
from mklref._validate import as_float_array, checked_flag, checked_positive
from mklref.exceptions import InvalidInput
from mklref.plotting.style import FAINT, along, as_text, at_most, axes, colour, line, named, numbers
from mklref.solution import selected

VISIBLE = 0.01
"""Lines that stay below this share of the largest weight are not drawn: they lie on the axis."""
FLOOR = 1e-16
"""Gaps below it, and negative ones within rounding, are drawn here."""


def weight_paths(
    solutions: Any,
    values: Sequence[float] | None = None,
    *,
    names: Sequence[str] | None = None,
    most: int = 5,
    label: str = "C",
    ax: Any = None,
) -> Any:
    """Kernel weights over the iterations of one solution, or along a path: one line a kernel, the largest in colour.

    Parameters
    ----------
    solutions : Solution, or sequence of Solution
        One with a history, or those of `solve_path`.
    values : sequence of float, optional
        Of C or p for a path, one for each solution, in any order; the axis is logarithmic.
    names : sequence of str, optional
        Of the kernels, for the legend.
    most : int
        Number of coloured lines.
    label : str
        What the values are.
    """
    if values is None:
        history = _history(solutions)
        places, theta = history.column("iteration"), history.column("weights")
    else:
        places, theta, _ = _checked_path(values, solutions)
    alone = {"marker": "."} if places[0] == places[-1] else {}  # a line through one point is nothing
    most, top = at_most(most), np.abs(theta).max(axis=0)
    names = named(names, len(top))
    ax = axes(ax, 5.0, max(3.0, 0.6 + 0.2 * min(most, len(top))))  # as high as the legend
    largest = np.lexsort((-top, -(np.abs(theta[-1]) if values is None else top)))
    others = [m for m in largest[most:] if top[m] > VISIBLE * top.max()]
    ax.plot(places, theta[:, others], color=FAINT, linewidth=0.5, **alone)
    for k, m in enumerate(largest[:most]):
        ax.plot(places, theta[:, m], linewidth=1.3, label=as_text(names[m]), zorder=3, **line(k), **alone)
    if values is None:
        _count(ax)
    else:
        along(ax, places, label)
    ax.set(ylabel="weight", ylim=(min(-0.02 * top.max(), 1.05 * theta.min()), None))
    if most:
        ax.legend(fontsize="small", loc="upper left", bbox_to_anchor=(1.0, 1.0))
    return ax


def gap(solutions: Any, *, tol: float | None = None, seconds: bool = False, ax: Any = None) -> Any:
    """Certified relative gap, of the best bounds so far, over iterations or seconds.

    Parameters
    ----------
    solutions : Solution, or mapping of str to Solution
        Several are told apart by colour and legend.
    tol : float, optional
        The tolerance asked for, as a dashed line.
    seconds : bool
        Over seconds instead of iterations.
    """
    runs = solutions if hasattr(solutions, "items") else {None: solutions}
    for name, solution in runs.items():
        if name is not None and isinstance(solution, list | tuple):
            raise InvalidInput(f"solutions[{name!r}] is a {type(solution).__name__}; give one Solution for each name.")
    histories = {name: _history(solution) for name, solution in runs.items()}
    over = "seconds" if checked_flag("seconds", seconds) else "iteration"
    if tol is not None:
        checked_positive("tol", tol)
    ax = axes(ax, 5.0, 3.0)
    for k, (name, history) in enumerate(histories.items()):
        label = None if name is None else as_text(name)
        gaps = np.maximum(history.column("relative_gap"), FLOOR)
        ax.plot(history.column(over), gaps, marker=".", label=label, **line(k))
    if tol is not None:
        ax.axhline(tol, color="0.4", linewidth=0.8, linestyle="--", label="tolerance")
    ax.set(yscale="log", ylabel="certified relative gap")
    if seconds:
        ax.set(xscale="log", xlabel="seconds")
    else:
        _count(ax)
    if ax.get_legend_handles_labels()[1]:
        ax.legend(fontsize="small")
    return ax


def path(
    values: Sequence[float],
    solutions: Sequence[Any],
    *,
    errors: Any = None,
    chosen: float | None = None,
    label: str = "C",
    ax: Any = None,
) -> Any:
    """A regularisation path: the number of kernels, and on a second axis the validation error.

    Parameters
    ----------
    values : sequence of float
        Of C or p, one for each solution.
    solutions : sequence of Solution, or array (k, M)
        Or their weights. A kernel counts if its weight is above 1e-4 of the largest.
    errors : array (k,) or (k, folds), optional
        Validation errors; several folds are drawn as mean and standard error.
    chosen : float, optional
        The value that was selected, as a vertical line.
    label : str
        What the values are.
    """
    places, theta, order = _checked_path(values, solutions)
    counts = selected(theta)
    if chosen is not None:
        checked_positive("chosen", chosen)
    table = None if errors is None else _checked_errors(errors, len(places), label)[order]
    ax = axes(ax, 5.0, 3.0)
    ax.plot(places, counts, color=colour(0), marker=".", drawstyle="steps-mid")
    along(ax, places, label)
    ax.set_ylim(0.0, 1.08 * max(1, counts.max()))
    ax.set_ylabel(f"kernels of {theta.shape[1]}", color=colour(0))
    ax.yaxis.get_major_locator().set_params(integer=True)
    if table is not None:
        _errors(ax.twinx(), places, table)
    if chosen is not None:
        ax.axvline(chosen, color="0.4", linewidth=0.8, linestyle="--")
    return ax


def validation(search: Any, *, ax: Any = None) -> Any:
    """What a search by cross-validation found: the error over C for each norm, and the choice.

    Parameters
    ----------
    search : MKLClassifierCV or MKLRegressorCV
        Fitted. Drawn are mean and standard error over the folds: of the share of wrong classes, or of 1 - R^2, and
        with a `scoring` of the score itself.
    """
    results = getattr(search, "cv_results_", {})
    if "param_C" not in results:
        raise InvalidInput(f"{type(search).__name__} holds no search: give a fitted MKLClassifierCV or MKLRegressorCV.")
    names = [f"p = {norm:.4g}" if isinstance(norm, int | float) else str(norm) for norm in results["param_norm"]]
    scores, spread, measure = results["mean_test_score"], results["standard_error"], search.scoring
    errors = 1.0 - scores if measure is None else scores
    ax = axes(ax, 5.0, 3.0)
    for k, name in enumerate(dict.fromkeys(names)):
        rows = [row for row, other in enumerate(names) if other == name]
        places = results["param_C"][rows]
        ax.plot(places, errors[rows], marker=".", label=as_text(name), **line(k))
        ax.fill_between(
            places, (errors - spread)[rows], (errors + spread)[rows], color=colour(k), alpha=0.15, linewidth=0
        )
    best = search.best_index_
    ax.plot(results["param_C"][best], errors[best], "o", color="0.5", fillstyle="none", markersize=9, label="chosen")
    what = "validation error" if measure is None else as_text(measure) if isinstance(measure, str) else "score"
    ax.set(xscale="log", xlabel="C", ylabel=f"{what}, {search.n_splits_} folds")
    if measure is None:
        ax.set_ylim(bottom=0.0)
    ax.legend(fontsize="small")
    return ax


def _checked_errors(errors: Any, count: int, label: str) -> Array:
    """Errors, (count, folds)."""
    table = as_float_array(errors, "errors", InvalidInput).astype(float)  # NaN where a fold has none
    if table.ndim not in (1, 2) or not table.size:
        raise InvalidInput(f"errors has shape {table.shape}; give one for each value of {label}, or a row of folds.")
    if len(table) != count:
        raise InvalidInput(f"{len(table)} errors for {count} values of {label}; give one row for each.")
    if np.isinf(table).any():
        raise InvalidInput("errors hold inf, which has no place on an axis; give NaN where there is no error.")
    return table.reshape(count, -1)


def _errors(ax: Any, places: Array, table: Array) -> None:
    mean, folds = table.mean(axis=1), table.shape[1]
    ax.plot(places, mean, color=colour(1), marker=".")
    if folds > 1:
        error = table.std(axis=1, ddof=1) / np.sqrt(folds)
        ax.fill_between(places, mean - error, mean + error, color=colour(1), alpha=0.2, linewidth=0)
    ax.set_ylim(bottom=min(0.0, 1.05 * np.nanmin(mean, initial=0.0)))
    ax.set_ylabel("validation error" if folds == 1 else f"validation error, {folds} folds", color=colour(1))
    ax.spines["right"].set_visible(True)


def _history(solution: Any) -> Any:
    if isinstance(solution, list | tuple):
        raise InvalidInput(
            "solutions is a sequence: give values, one for each, for a path, or a mapping of names for their gaps."
        )
    if not len(getattr(solution, "history", ())):
        raise InvalidInput(
            f"the {type(solution).__name__} has no history: it was loaded from a file, is an estimator, or its solver "
            "keeps none; give what mklref.solve returns."
        )
    return solution.history


def _checked_path(values: Sequence[float], solutions: Any) -> tuple[Array, Array, Any]:
    """The values from the smallest, the weights in this order, and the order."""
    if np.iterable(values) and any(np.ndim(getattr(one, "weights", one)) for one in values):
        raise InvalidInput("values are solutions or weights; path(values, solutions), weight_paths(solutions, values).")
    places = as_float_array(values, "values", InvalidInput)
    if np.isinf(places).any():
        raise InvalidInput("values hold inf, which has no place on an axis; leave out p = inf and its solution.")
    places = numbers(places, "values")
    if not np.iterable(solutions):
        raise InvalidInput(f"solutions is one {type(solutions).__name__}; give a sequence, one for each value.")
    rows = [getattr(solution, "weights", getattr(solution, "weights_", solution)) for solution in solutions]
    if places.ndim != 1 or len(rows) != len(places) or not len(places):
        raise InvalidInput(f"{places.size} values for {len(rows)} solutions; give one value for each solution.")
    if places.min() <= 0.0:
        raise InvalidInput(f"values hold {places.min():g}; on a logarithmic axis only positive ones have a place.")
    theta = numbers(rows, "weights of the solutions")
    if theta.ndim != 2 or not theta.size:
        raise InvalidInput(f"the weights of the solutions have shape {theta.shape}; give one row (M,) for each value.")
    order = np.argsort(places, kind="stable")
    return places[order], theta[order], order


def _count(ax: Any) -> None:
    ax.set_xlabel("iteration")
    ax.xaxis.get_major_locator().set_params(integer=True)
