"""`mklref path`: weights, number of kernels and validation error along C."""

from __future__ import annotations

import csv
import warnings
from io import StringIO
from typing import Any

import numpy as np
from rich.table import Table as Grid

from mklref._files import write_text
from mklref._path import solve_path
from mklref.cli import render
from mklref.cli.files import deliver
from mklref.cli.table import Table, read_table, require_pictures, save_picture, searching
from mklref.exceptions import InvalidParameter
from mklref.kernels import normalize, parse
from mklref.losses import EpsilonInsensitive, Hinge
from mklref.multiclass import MulticlassProblem
from mklref.problem import Problem
from mklref.regularizers import Lp


def run(arguments: Any) -> bool:
    """Print a row for each C; write and draw it if asked for; whether every point is certified."""
    from sklearn.exceptions import ConvergenceWarning

    out = render.console()
    require_pictures(arguments.plot)
    if len(arguments.p) > 1:
        raise InvalidParameter(f"--p has {len(arguments.p)} values; a path has one norm. mklref fit compares several.")
    table = read_table(arguments)
    render.show_facts(out, table.facts)
    search = searching(arguments, table)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        search.fit(table.data, table.y)
    problem, names = _problem(arguments, table)
    solutions = solve_path(problem, C=arguments.C, tol=arguments.tol)
    folds = np.array([search.cv_results_[f"split{f}_test_score"] for f in range(search.n_splits_)]).T
    errors = 1.0 - folds
    written = deliver(
        arguments,
        out=lambda path: _write(path, arguments.C, solutions, errors, names),
        plot=lambda path: _draw(path, arguments.C, solutions, errors, names, search.C_),
    )
    out.print()
    _show(out, arguments.C, solutions, errors)
    for option, path in written.items():
        out.print(f"{'written to' if option == 'out' else 'drawn in'} {path}", markup=False, soft_wrap=True)
    return all(solution.certificate.is_optimal(arguments.tol) for solution in solutions)


def _problem(arguments: Any, table: Table) -> tuple[Any, tuple[str, ...]]:
    """The problem on all samples, of two classes, several, or numbers."""
    stack = parse(arguments.kernels).fit(table.data)
    kernels: Any = stack if arguments.normalize == "none" else normalize(stack, arguments.normalize)
    shared = {"C": arguments.C[0], "regularizer": Lp(arguments.p[0])}
    if not table.classes:
        return Problem(kernels, table.y, loss=arguments.loss or EpsilonInsensitive(0.1), **shared), stack.names
    loss = arguments.loss or Hinge()
    classes = np.unique(table.y)
    if len(classes) == 2:
        return Problem(kernels, np.where(table.y == classes[1], 1.0, -1.0), loss=loss, **shared), stack.names
    return MulticlassProblem(kernels, table.y, loss=loss, **shared), stack.names


def _selected(solution: Any) -> int:
    from mklref.plotting.paths import SELECTED

    return int(np.sum(solution.weights > SELECTED * solution.weights.max()))


def _show(out: Any, costs: list[float], solutions: list[Any], errors: Any) -> None:
    grid = Grid(box=None, pad_edge=False, header_style="bold")
    for title in ("C", "kernels", "objective", "rel. gap", "error", "+-"):
        grid.add_column(title, justify="right")
    best = int(errors.mean(axis=1).argmin())
    for k, (cost, solution, row) in enumerate(zip(costs, solutions, errors, strict=True)):
        grid.add_row(
            f"{cost:.4g}",
            str(_selected(solution)),
            f"{solution.objective:.6g}",
            f"{solution.certificate.relative_gap:.1e}",
            f"{row.mean():.4f}",
            f"{row.std(ddof=1) / np.sqrt(len(row)):.4f}",
            style="bold" if k == best else None,
        )
    out.print(grid)


def _write(path: str, costs: list[float], solutions: list[Any], errors: Any, names: tuple[str, ...]) -> None:
    text = StringIO()
    writer = csv.writer(text, lineterminator="\n")
    folds = [f"error of fold {f + 1}" for f in range(errors.shape[1])]
    writer.writerow(["C", "kernels", "objective", "relative gap", *folds, *names])
    for cost, solution, row in zip(costs, solutions, errors, strict=True):
        numbers = [cost, _selected(solution), solution.objective, solution.certificate.relative_gap]
        writer.writerow([f"{number:.9g}" for number in (*numbers, *row, *solution.weights)])
    write_text(path, text.getvalue())


def _draw(
    path: str, costs: list[float], solutions: list[Any], errors: Any, names: tuple[str, ...], chosen: float
) -> None:
    from matplotlib import pyplot as plt

    from mklref import plotting

    def picture() -> Any:
        figure, (left, right) = plt.subplots(1, 2, figsize=(9.0, 3.2), layout="constrained")
        plotting.weight_paths(solutions, costs, names=names, ax=left)
        plotting.path(costs, solutions, errors=errors, chosen=chosen, ax=right)
        return figure

    save_picture(picture, path)
