"""`mklref fit`: a model from a table, chosen by cross-validation."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from rich.table import Table as Grid

from mklref.cli import render
from mklref.cli.files import deliver
from mklref.cli.model import TableModel
from mklref.cli.table import read_table, require_pictures, save_picture, searching


def run(arguments: Any) -> bool:
    """Search, fit, print what was chosen and the weights, save; whether the model is certified."""
    from sklearn.exceptions import ConvergenceWarning

    out = render.console()
    require_pictures(arguments.plot)
    table = read_table(arguments)
    render.show_facts(out, table.facts)
    search = searching(arguments, table)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the certificate below says it with numbers
        search.fit(table.data, table.y)
    model = TableModel(search.best_estimator_, table.data.features, table.target, table.scale, table.target_scale)
    written = deliver(arguments, save=model.save, plot=lambda path: _draw(search.best_estimator_, path))
    out.print()
    _show_search(out, search, table.classes)
    weights = np.atleast_2d(search.weights_)
    titles = ["weight"] if len(weights) == 1 else [f"machine {k + 1}" for k in range(len(weights))]
    render.show_weights(out, search.kernel_names_, dict(zip(titles, weights[: render.MOST_COLUMNS], strict=False)))
    certificates = np.atleast_1d(np.array(search.certificate_, dtype=object))
    for certificate in certificates:
        out.print(str(certificate), markup=False, soft_wrap=True)
    for option, path in written.items():
        out.print(f"{'saved to' if option == 'save' else 'weights drawn in'} {path}", markup=False, soft_wrap=True)
    return all(certificate.is_optimal(arguments.tol) for certificate in certificates)


def _draw(model: Any, path: str) -> None:
    from mklref import plotting

    save_picture(lambda: plotting.weights(model).figure, path)


def _show_search(out: Any, search: Any, classes: bool) -> None:
    """For each C the best norm with its error, and the choice."""
    results = search.cv_results_
    grid = Grid(box=None, pad_edge=False, header_style="bold")
    for title in ("C", "p", "error", "+-", "kernels"):
        grid.add_column(title, justify="right")
    for cost in np.unique(results["param_C"]):
        rows = np.flatnonzero(results["param_C"] == cost)
        row = int(rows[np.argmax(results["mean_test_score"][rows])])
        numbers = (1.0 - results["mean_test_score"][row], results["standard_error"][row], results["n_kernels"][row])
        cells = (f"{cost:.4g}", f"{results['param_norm'][row]:.4g}", *(f"{number:.4f}" for number in numbers[:2]))
        chosen = row == search.best_index_
        grid.add_row(*cells, f"{numbers[2]:.1f}" + (" <" if chosen else "  "), style="bold" if chosen else None)
    out.print(grid)
    measure = "share of wrong classes" if classes else "1 - R^2"
    out.print(f"error: {measure} over {search.n_splits_} folds; chosen: C = {search.C_:.4g}, p = {search.norm_:.4g}\n")
