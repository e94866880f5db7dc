"""What `mklref fit` makes of a table before it learns: columns, target, identifiers, and the model that will learn."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from mklref import datasets
from mklref.cli.problem import TABLES
from mklref.cli.table import searching, targets_of
from mklref.datasets.frames import read_frame, require_pandas
from mklref.estimators.cells import cells_of, numbers, read
from mklref.estimators.table import table_pipeline
from mklref.exceptions import InvalidParameter, InvalidTarget

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
        return table_pipeline(searching(arguments, self), columns=dict(arguments.columns), missing=arguments.missing)


def read_messy(arguments: Any) -> MessyTable:
    """Read the table that the options name.

    Raises
    ------
    InvalidInput, InvalidParameter, InvalidTarget, UnsafeFile, OSError
        Whatever is wrong with it, in words.
    """
    frame, name, source = _frame(arguments)
    target = frame.columns[-1] if arguments.target is None else arguments.target
    for option, columns in (("--target", [target]), ("--ignore", arguments.ignore), ("--id", arguments.id)):
        unknown = [column for column in columns if column not in frame.columns]
        if unknown:
            there = ", ".join(frame.columns[:8])
            raise InvalidParameter(f"{option} names {unknown[0]!r}, which is no column; there are {there}.")
    cells = cells_of(frame[target], arguments.missing)
    known = np.array([cell is not None for cell in cells])
    if not known.any():
        raise InvalidTarget(f"the target {target!r} has no cells: is --target the right column?")
    chosen = np.flatnonzero(known)
    if arguments.samples is not None and arguments.samples < len(chosen):
        drawn = np.random.default_rng(arguments.seed).permutation(len(chosen))[: arguments.samples]
        chosen = chosen[np.sort(drawn)]
    y, classes = targets_of(_target(cells[chosen], target), arguments.task)
    variables = [column for column in frame.columns if column not in {target, *arguments.ignore, *arguments.id}]
    if not variables:
        raise InvalidParameter(f"{name}: without the columns to ignore there is no variable left.")
    smallest = min(np.unique(y, return_counts=True)[1]) if classes else len(y)
    if smallest < arguments.folds:
        raise InvalidTarget(
            f"{'the smallest class has' if classes else 'there are'} {smallest} samples, fewer than --folds "
            f"{arguments.folds}; give fewer folds, or drop the class."
        )
    left = f"; {len(cells) - int(known.sum())} without a target left out" if not known.all() else ""
    facts = {
        "data": name if name == source else f"{name} ({source})",
        "samples": f"{len(y)} of {len(frame)}{left}",
        "target": _shown(y) if classes else f"numbers, standard deviation {float(np.std(y)):.4g}",
    }
    if classes and arguments.task == "auto" and _is_rating(y):
        facts["or else"] = "whole numbers are taken for classes; a rating is a number to predict: --task regress"
    return MessyTable(frame[variables].iloc[chosen].reset_index(drop=True), y, target, tuple(arguments.id), facts)


def _frame(arguments: Any) -> tuple[Any, str, str]:
    """The table with its target, and what it is called."""
    if arguments.data.endswith(TABLES) or Path(arguments.data).is_file():
        frame = read_frame(arguments.data, encoding=arguments.encoding, separator=arguments.separator)
        return frame, Path(arguments.data).name, arguments.data
    if arguments.target is not None or arguments.ignore or arguments.id:
        raise InvalidParameter(
            "--target, --ignore and --id name columns of a CSV file; a data set by name has its own."
        )
    pandas = require_pandas()
    data = datasets.load(arguments.data)
    frame = pandas.DataFrame(data.X, columns=list(data.features))
    frame[data.target] = data.y
    return frame, data.name, data.source


def _target(cells: Any, name: str) -> Any:
    """Numbers if all cells are numbers in one notation, else texts."""
    found = read(cells)
    if found.kind not in ("number", "leave"):
        return np.array(list(cells), dtype=np.str_)
    values = numbers(cells, found.detail or ".")
    if np.isnan(values).any():
        if found.kind == "number":
            strange = cells[int(np.isnan(values).argmax())]
            raise InvalidTarget(
                f"the target {name!r} holds numbers and {strange!r}; drop those rows, or say that it is --missing."
            )
        return np.array(list(cells), dtype=np.str_)
    return values


def _shown(y: Any) -> str:
    names, counts = np.unique(y, return_counts=True)
    pairs = [f"{name} ({count})" for name, count in zip(names, counts, strict=True)]
    return f"{len(names)} classes: {', '.join(pairs[:8])}{', ...' if len(pairs) > 8 else ''}"


def _is_rating(y: Any) -> bool:
    names = np.unique(y)
    return 2 < len(names) <= MOST_RATINGS and all(str(name).lstrip("-").isdecimal() for name in names)
