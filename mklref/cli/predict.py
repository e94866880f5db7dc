"""`mklref predict`: the rows of a table by a saved model."""

from __future__ import annotations

import csv
import sys
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from mklref.cli import render
from mklref.cli.model import TableModel
from mklref.datasets import read_samples
from mklref.datasets.labels import class_names


def run(arguments: Any) -> bool:
    """Print or write one row of predictions for each row; with true targets say on stderr how good they are."""
    render.require_writable(arguments.out)
    model = TableModel.load(arguments.model)
    X, truth = read_samples(arguments.data, model.features, model.target)
    columns = model.predict(X)
    if arguments.out is None:
        _write(sys.stdout, columns)
    else:
        with Path(arguments.out).open("w", encoding="utf-8", newline="") as file:
            _write(file, columns)
    if truth is not None:
        sys.stderr.write(f"mklref: {_quality(model, columns['prediction'], truth)}\n")
    return True


def _write(file: TextIO, columns: dict[str, Any]) -> None:
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(columns)
    for row in zip(*columns.values(), strict=True):
        writer.writerow([cell if isinstance(cell, str) else f"{cell:.9g}" for cell in row])


def _quality(model: TableModel, predicted: Any, truth: Any) -> str:
    """The share of right classes, or R^2, where the table has the target."""
    if model.target_scale is None:
        right = int(np.sum(predicted.astype(str) == np.array(class_names(truth))))
        return f"{right} of {len(truth)} classes are those of the column {model.target!r}"
    if truth.dtype.kind != "f" or np.ptp(truth) == 0.0:
        return f"the column {model.target!r} holds no numbers to compare with"
    left = np.sum((truth - predicted) ** 2) / np.sum((truth - truth.mean()) ** 2)
    return f"R^2 = {1.0 - left:.4f} against the column {model.target!r}"
