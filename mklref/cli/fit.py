"""`mklref fit`: a model from a table as it is, chosen by cross-validation, with an error that is none of its choice."""

from __future__ import annotations

import sys
import warnings
from functools import partial
from typing import Any

import numpy as np
from rich.markup import escape
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from mklref import plotting
from mklref.cli import render
from mklref.cli.files import deliver
from mklref.cli.model import TableModel, calibrated
from mklref.cli.table import MessyTable, read_messy, require_pictures, save_picture, show_columns, show_gaps
from mklref.exceptions import InterruptedWarning, MKLWarning, UselessModelWarning, warn


def run(arguments: Any) -> bool:
    """Search, fit, print what was chosen and the weights, save; whether the model is certified."""
    out = render.console()
    require_pictures(arguments.plot)
    table = read_messy(arguments)
    render.show_facts(out, table.facts)
    pipeline = table.pipeline(arguments)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the certificate below says it with numbers
        show_columns(out, arguments, clone(pipeline["table"]).fit(table.frame))
        pipeline.fit(table.frame, table.y)
        evaluation, interrupted = _evaluated(arguments, pipeline, table)
    search = pipeline["model"]
    calibration = None
    if evaluation is not None and evaluation.scores is not None:
        calibration = calibrated(evaluation.scores, evaluation.truth)
    model = TableModel(search.best_estimator_, pipeline["table"], table.target, table.identifiers, calibration)
    picture = partial(save_picture, lambda: plotting.weights(model.estimator).figure)
    written = deliver(arguments, save=model.save, plot=picture)
    out.print()
    _show_search(out, search, table.classes)
    if evaluation is not None:
        _show_evaluation(out, evaluation, arguments)
    weights = np.atleast_2d(search.weights_)
    titles = ["weight"] if len(weights) == 1 else [f"machine {k + 1}" for k in range(len(weights))]
    render.show_weights(out, search.kernel_names_, dict(zip(titles, weights[: render.MOST_COLUMNS], strict=False)))
    certificates = np.atleast_1d(np.array(search.certificate_, dtype=object))
    for certificate in certificates:
        render.say(out, certificate)
    render.show_written(out, written)
    if interrupted:
        raise KeyboardInterrupt("interrupted; the model is the best of what was compared")
    return all(certificate.is_optimal(arguments.tol) for certificate in certificates)


def _evaluated(arguments: Any, pipeline: Any, table: MessyTable) -> tuple[Any, bool]:
    """The error of the procedure on rows that had no part in it, if it is wanted; and whether Ctrl-C came first."""
    from mklref.model_selection import evaluate

    if pipeline["model"].interrupted_:
        return None, True
    if arguments.test is None:
        return None, False
    nested = arguments.test == "nested"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", MKLWarning)  # the fit to all rows has said them
        warnings.simplefilter("always", InterruptedWarning)
        try:
            found = evaluate(
                clone(pipeline).set_params(model__n_jobs=1) if nested else pipeline,
                table.frame,
                table.y,
                test=arguments.folds if nested else arguments.test,
                n_jobs=arguments.jobs if nested else 1,
                random_state=arguments.seed,
                verbose=sys.stderr.isatty() and nested,
            )
        except KeyboardInterrupt:
            return None, True
    return found, found.interrupted


def _show_evaluation(out: Any, evaluation: Any, arguments: Any) -> None:
    """The measures beside those of a constant, and which classes are taken for which."""
    how = "nested cross-validation" if arguments.test == "nested" else "held out"
    render.say(out, f"{how}: {evaluation}; 95 % intervals\n")
    if evaluation.classes is not None and len(evaluation.classes) <= render.MOST_COLUMNS:
        grid = render.grid("true class", *(escape(f"taken for {name}") for name in evaluation.classes))
        grid.columns[0].justify = "left"
        for name, row in zip(evaluation.classes, evaluation.confusion, strict=True):
            grid.add_row(escape(str(name)), *map(str, row))
        out.print(grid)
        out.print()
    if not evaluation.beats_baseline:
        remedy = "" if evaluation.classes is None or arguments.class_weight else ", or --class-weight balanced"
        warn(
            "on rows that it has not seen the model is not surely better than a constant prediction. More rows or "
            f"other columns may help{remedy}.",
            UselessModelWarning,
        )


def _show_search(out: Any, search: Any, classes: bool) -> None:
    results = search.cv_results_
    errors = 1.0 - results["mean_test_score"] if search.scoring is None else results["mean_test_score"]
    title = "error" if search.scoring is None else "score"
    grid = render.grid("C", "p", title, "+-", "kernels")
    compared = np.isfinite(results["mean_test_score"])  # Ctrl-C leaves some out
    for cost in np.unique(results["param_C"][compared]):
        rows = np.flatnonzero(compared & (results["param_C"] == cost))
        row = int(rows[np.argmax(results["mean_test_score"][rows])])
        numbers = (errors[row], results["standard_error"][row], results["n_kernels"][row])
        cells = (f"{cost:.4g}", f"{results['param_norm'][row]:.4g}", *(f"{number:.4f}" for number in numbers[:2]))
        chosen = row == search.best_index_
        grid.add_row(*cells, f"{numbers[2]:.1f}" + (" <" if chosen else "  "), style="bold" if chosen else None)
    out.print(grid)
    show_gaps(out, search)
    measure = search.scoring or ("share of wrong classes" if classes else "1 - R^2")
    out.print(
        f"{title}: {measure} over {search.n_splits_} folds; chosen: C = {search.C_:.4g}, p = {search.norm_:.4g}\n",
        markup=False,
    )
