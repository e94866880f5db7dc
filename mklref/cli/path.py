"""`mklref path`: weights, number of kernels and validation error along C."""

from __future__ import annotations

import csv
import sys
import warnings
from contextlib import closing
from functools import partial
from io import StringIO
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from mklref import plotting
from mklref._files import write_text
from mklref._path import solve_path
from mklref._progress import Steps
from mklref.cli import render
from mklref.cli.files import deliver
from mklref.cli.table import read_messy, require_pictures, save_picture, show_columns, show_gaps
from mklref.exceptions import Interrupted, InvalidParameter
from mklref.kernels import parse
from mklref.losses import EpsilonInsensitive, Hinge
from mklref.multiclass import MulticlassProblem
from mklref.problem import Problem
from mklref.regularizers import Lp
from mklref.solution import selected


def run(arguments: Any) -> bool:
    """Print a row for each C; write and draw it if asked for; whether every point is certified."""
    out = render.console()
    require_pictures(arguments.plot)
    if len(arguments.p) > 1:
        raise InvalidParameter(f"--p has {len(arguments.p)} values; a path has one norm. mklref fit compares several.")
    table = read_messy(arguments)
    render.show_facts(out, table.facts)
    pipeline = table.pipeline(arguments)
    X = pipeline["table"].fit_transform(table.frame)
    show_columns(out, arguments, pipeline["table"])
    problem = _problem(arguments, X, table)
    names = problem.kernels.names
    solutions, interrupted = _solved(problem, arguments)
    errors, chosen = np.full((len(arguments.C), arguments.folds), np.nan), None
    if not interrupted:
        errors, chosen, interrupted = _errors(pipeline["model"], X, table.y, errors)
    costs = arguments.C[: len(solutions)]
    written = deliver(
        arguments,
        out=lambda path: _write(path, costs, solutions, errors, names),
        plot=partial(save_picture, lambda: _picture(costs, solutions, errors, names, chosen)),
    )
    out.print()
    _show(out, costs, solutions, errors)
    if chosen is not None:
        show_gaps(out, pipeline["model"])
    render.show_written(out, written)
    if interrupted:
        raise KeyboardInterrupt(f"interrupted; {len(costs)} of {len(arguments.C)} points are there")
    return all(solution.certificate.is_optimal(arguments.tol) for solution in solutions)


def _solved(problem: Any, arguments: Any) -> tuple[list[Any], bool]:
    options = {"tol": arguments.tol, "max_time": arguments.max_time}
    with closing(Steps(sys.stderr.isatty(), "values of C", len(arguments.C))) as line:
        try:
            return solve_path(problem, C=arguments.C, callback=lambda point: line.advance(), **options), False
        except Interrupted as stopped:
            if not stopped.path:
                raise
            return list(stopped.path), True  # type: ignore[arg-type]


def _errors(search: Any, X: Any, y: Any, unknown: Any) -> tuple[Any, float | None, bool]:
    """1 - score (C, folds), nan for those that Ctrl-C came before; the best C of all, and whether it came."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        try:
            search.fit(X, y)
        except KeyboardInterrupt:
            return unknown, None, True
    folds = [search.cv_results_[f"split{f}_test_score"] for f in range(search.n_splits_)]
    return 1.0 - np.array(folds).T, search.C_, search.interrupted_


def _problem(arguments: Any, X: Any, table: Any) -> Problem | MulticlassProblem:
    """The problem on all samples, of two classes, several, or numbers in units of their standard deviation."""
    kernels = parse(arguments.kernels).fit(X, normalize=None if arguments.normalize == "none" else arguments.normalize)
    y, loss = table.y, arguments.loss or (Hinge() if table.classes else EpsilonInsensitive(0.1))
    common: dict[str, Any] = {"C": arguments.C[0], "loss": loss, "regularizer": Lp(arguments.p[0])}
    if not table.classes:
        return Problem(kernels, (y - y.mean()) / y.std(), **common)
    classes = np.unique(y)
    if len(classes) > 2:
        return MulticlassProblem(kernels, y, **common)
    return Problem(kernels, np.where(y == classes[1], 1.0, -1.0), **common)


def _show(out: Any, costs: list[float], solutions: list[Any], errors: Any) -> None:
    grid = render.grid("C", "kernels", "objective", "rel. gap", "error", "+-")
    known = np.isfinite(errors)
    means = [float(row[there].mean()) if there.any() else np.inf for row, there in zip(errors, known, strict=True)]
    for k, (cost, solution) in enumerate(zip(costs, solutions, strict=True)):
        row = errors[k][known[k]]
        grid.add_row(
            f"{cost:.4g}",
            str(selected(solution.weights)),
            f"{solution.objective:.6g}",
            f"{solution.certificate.relative_gap:.1e}",
            f"{means[k]:.4f}" if len(row) else "-",
            f"{row.std(ddof=1) / np.sqrt(len(row)):.4f}" if len(row) > 1 else "-",
            style="bold" if len(row) and k == int(np.argmin(means)) else None,
        )
    out.print(grid)


def _write(path: str, costs: list[float], solutions: list[Any], errors: Any, names: tuple[str, ...]) -> None:
    text = StringIO()
    writer = csv.writer(text, lineterminator="\n")
    folds = [f"error of fold {f + 1}" for f in range(errors.shape[1])]
    writer.writerow(["C", "kernels", "objective", "relative gap", *folds, *names])
    for cost, solution, row in zip(costs, solutions, errors[: len(costs)], strict=True):
        numbers = [cost, selected(solution.weights), solution.objective, solution.certificate.relative_gap]
        cells = (*numbers, *row, *solution.weights)
        writer.writerow(["" if np.isnan(number) else f"{number:.9g}" for number in cells])
    write_text(path, text.getvalue())


def _picture(costs: list[float], solutions: list[Any], errors: Any, names: Any, chosen: float | None) -> Any:
    from matplotlib import pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(9.0, 3.2), layout="constrained")
    plotting.weight_paths(solutions, costs, names=names, ax=left)
    known = errors if np.isfinite(errors).all() else None
    plotting.path(costs, solutions, errors=known, chosen=chosen, ax=right)
    return figure
