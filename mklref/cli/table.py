"""What `mklref fit` and `path` have in common: columns, target and identifiers of a table, search, pictures."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.model_selection import KFold, StratifiedKFold

from mklref import datasets
from mklref._files import ending, replacing
from mklref._validate import counted
from mklref.cli import render
from mklref.cli.learning import RULES
from mklref.cli.problem import is_table
from mklref.datasets.record import class_names
from mklref.datasets.table import require_pandas
from mklref.estimators import MKLClassifierCV, MKLRegressorCV
from mklref.estimators.table import table_pipeline
from mklref.estimators.tabular import alternatives, columns_used, frame_of_samples, targets_of_column
from mklref.exceptions import InvalidParameter, InvalidTarget
from mklref.plotting.style import SETTINGS, require_matplotlib

MOST_CLASSES = 20
"""Integer targets of up to so many values, each of them twice on average, are taken for classes."""


def _class_weight(given: Any, y: Any) -> Any:
    if given == "balanced":
        return given
    there = set(map(str, np.unique(y)))
    unknown = sorted(set(given) - there)
    if unknown:
        raise InvalidParameter(
            f"--class-weight names {unknown[0]!r}, no class; there are {', '.join(sorted(there)[:8])}."
        )
    return {**dict.fromkeys(there, 1.0), **given}


def require_pictures(path: str | None) -> None:
    """Refuse a picture that cannot be drawn, without matplotlib or in its format, before anything is learned."""
    if path is None:
        return
    require_matplotlib()
    from matplotlib.figure import Figure

    if ending(path)[1:] not in Figure().canvas.get_supported_filetypes():
        raise InvalidParameter(f"cannot draw {path}: end its name in .png, .svg or .pdf.")


def save_picture(draw: Callable[[], Any], path: str) -> None:
    """Draw a figure and write it, in the format that the name of the file ends in."""
    from matplotlib import pyplot as plt, rc_context

    with rc_context(SETTINGS):
        figure = draw()
        with replacing(path) as file:
            figure.savefig(file, dpi=150, format=ending(path)[1:])
        plt.close(figure)


def targets_of(y: Any, task: str) -> tuple[Any, bool]:
    """Class names, or numbers; and whether they are classes."""
    numbers = y.dtype.kind == "f"
    found, counts = np.unique(y, return_counts=True)
    if task == "regress" and not numbers:
        raise InvalidTarget(f"the target holds {str(found[0])!r}, no number; encode it, or let --task be classify.")
    few = (len(found) <= MOST_CLASSES and 2 * len(found) <= len(y)) or len(found) < 2
    classes = not numbers or (few and bool(np.all(found == np.round(found))))
    if task == "regress" or (task == "auto" and not classes):
        if len(found) < 2:
            raise InvalidTarget(f"the target is {found[0]} everywhere: there is nothing to learn.")
        return y, False
    if len(found) < 2:
        raise InvalidTarget(f"the target holds only the class {found[0]}: a classifier needs two.")
    if counts.max() < 2:
        raise InvalidTarget(
            f"the target has {len(found)} classes in {len(y)} samples, one for each: is --target the right column?"
        )
    return np.array(class_names(y)), True


MOST_RATINGS = 11
"""Whole numbers of up to so many values, three at least, may be a rating: a number to predict rather than a class."""


@dataclass(frozen=True)
class MessyTable:
    """The columns to learn from, as they are, and the target."""

    frame: Any
    """A data frame of the columns that may be variables, and of the rows that have a target."""
    y: Any
    """Class names, or numbers in their own units."""
    target: str
    identifiers: tuple[str, ...]
    """Columns that predictions repeat."""
    facts: dict[str, str]

    @property
    def classes(self) -> bool:
        """Whether the targets are classes."""
        return bool(self.y.dtype.kind != "f")

    def pipeline(self, arguments: Any) -> Any:
        """What learns: columns to numbers, then a search over --C and --p."""
        kind: Any = MKLClassifierCV if self.classes else MKLRegressorCV
        splitter: Any = StratifiedKFold if self.classes else KFold
        options = {} if arguments.loss is None else {"loss": arguments.loss}
        if arguments.class_weight:
            if not self.classes:
                raise InvalidParameter("--class-weight goes with a target of classes; this one holds numbers.")
            options["class_weight"] = _class_weight(arguments.class_weight, self.y)
        if arguments.loss is not None and arguments.loss.targets != ("labels" if self.classes else "real"):
            raise InvalidParameter(
                f"loss {arguments.loss} does not go with a target of {'classes' if self.classes else 'numbers'}; "
                "choose another loss, or say --task."
            )
        search = kind(
            arguments.kernels,
            Cs=arguments.C,
            norms=arguments.p,
            cv=splitter(arguments.folds, shuffle=True, random_state=arguments.seed),
            scoring=arguments.scoring or None,
            rule=RULES[arguments.rule],
            normalize=None if arguments.normalize == "none" else arguments.normalize,
            tol=arguments.tol,
            max_time=arguments.max_time,
            n_jobs=arguments.jobs,
            verbose=sys.stderr.isatty() or arguments.verbose,
            **options,
        )
        return table_pipeline(search, columns=dict(arguments.columns), missing=arguments.missing)


def show_columns(out: Any, arguments: Any, encoder: Any) -> None:
    """How many variables there are, with --report each column, and those that could be something else."""
    render.show_facts(out, {"kernels": f"{arguments.kernels} on {columns_used(encoder)}"})
    if arguments.report:
        render.say(out, f"\n{encoder.report()}\n")
    for column, other in alternatives(encoder).items():
        render.say(out, f"{column}: {other}")


def show_gaps(out: Any, search: Any) -> None:
    """Say so where what the folds compare is not all certified."""
    largest = np.nanmax(search.cv_results_["relative_gap"])
    if largest > search.tol:
        remedy = "raise --max-time or --tol, or leave out large values of C"
        render.say(out, f"relative gaps in the folds: up to {largest:.1e}, more than --tol {search.tol:g}; {remedy}")


def read_messy(arguments: Any) -> MessyTable:
    """Read the table that the options name."""
    frame, name, source = _frame(arguments)
    target = frame.columns[-1] if arguments.target is None else arguments.target
    for option, columns in (("--target", [target]), ("--ignore", arguments.ignore), ("--id", arguments.id)):
        unknown = [column for column in columns if column not in frame.columns]
        if unknown:
            there = ", ".join(frame.columns[:8])
            raise InvalidParameter(f"{option} names {unknown[0]!r}, which is no column; there are {there}.")
        if option != "--target" and target in columns:
            raise InvalidParameter(f"{option} names {target!r}, the target; say by --target which column to predict.")
    values, known = targets_of_column(frame[target], arguments.missing)
    drawn = np.arange(len(values))
    if arguments.samples is not None and arguments.samples < len(values):
        drawn = np.sort(np.random.default_rng(arguments.seed).permutation(len(values))[: arguments.samples])
    y, classes = targets_of(values[drawn], arguments.task)
    chosen = np.flatnonzero(known)[drawn]
    variables = [column for column in frame.columns if column not in {target, *arguments.ignore, *arguments.id}]
    if not variables:
        raise InvalidParameter(f"{name}: without the columns to ignore there is no variable left.")
    names, counts = np.unique(y, return_counts=True)
    smallest = min(counts) if classes else len(y)
    if smallest < arguments.folds:
        few = f"fewer than --folds {arguments.folds}; give fewer folds"
        if classes:
            raise InvalidTarget(f"the smallest class has {counted(smallest, 'sample')}, {few}, or drop the class.")
        raise InvalidTarget(f"there are {smallest} samples, {few}.")
    pairs = [f"{name} ({count})" for name, count in zip(names[:8], counts, strict=False)]
    of_classes = f"{len(names)} classes: {', '.join(pairs)}{', ...' if len(names) > 8 else ''}"
    left = f"; {int(np.sum(~known))} without a target left out" if not known.all() else ""
    facts = {
        "data": name if name == source else f"{name} ({source})",
        "samples": f"{len(y)} of {len(frame)}{left}",
        "target": of_classes if classes else f"numbers, standard deviation {float(np.std(y)):.4g}",
    }
    whole = classes and all(name.lstrip("-").isdecimal() for name in names)
    if whole and arguments.task == "auto" and 2 < len(names) <= MOST_RATINGS:
        facts["or else"] = "whole numbers are taken for classes; a rating is a number to predict: --task regress"
    copies = int(frame.iloc[chosen].duplicated().sum())
    if copies:  # of random classes, each row three times, 95 % are right in what is held out
        if_so = "if these are samples that were entered twice, drop them: copies of what is held out are learned from"
        facts["copies"] = f"{counted(copies, 'row')} equal to an earlier one in all cells; {if_so}"
    return MessyTable(frame[variables].iloc[chosen].reset_index(drop=True), y, target, tuple(arguments.id), facts)


def _frame(arguments: Any) -> tuple[Any, str, str]:
    if is_table(arguments.data):
        frame = frame_of_samples(arguments.data, arguments.encoding, arguments.separator)
        return frame, Path(arguments.data).name, arguments.data
    if arguments.target is not None or arguments.ignore or arguments.id:
        raise InvalidParameter(
            f"{arguments.data} is no file, and --target, --ignore and --id name columns of a CSV file; a data set by "
            "name has its own."
        )
    pandas = require_pandas()
    data = datasets.load(arguments.data)
    frame = pandas.DataFrame(data.X, columns=list(data.features))
    frame[data.target] = data.y
    return frame, data.name, data.source
