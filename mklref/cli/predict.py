"""`mklref predict`: the rows of a table by a saved model."""

from __future__ import annotations

import csv
import sys
from functools import partial
from io import StringIO
from typing import Any

import numpy as np

from mklref._files import write_text
from mklref.cli.files import deliver
from mklref.cli.model import TableModel
from mklref.datasets import read_samples
from mklref.datasets.labels import class_names
from mklref.exceptions import InvalidInput


def run(arguments: Any) -> bool:
    """Print or write one row of predictions for each row; with true targets say on stderr how good they are."""
    model = TableModel.load(arguments.model)
    X, truth = read_samples(arguments.data, model.features, model.target)
    columns = model.predict(X)
    if arguments.out is None:
        _print(_text(columns))
    else:
        deliver(arguments, out=partial(write_text, text=_text(columns)))
    if truth is not None:
        sys.stderr.write(f"mklref: {_quality(model, columns['prediction'], truth)}\n")
    return True


def _text(columns: dict[str, Any]) -> str:
    text = StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    for row in zip(*columns.values(), strict=True):
        writer.writerow([cell if isinstance(cell, str) else f"{cell:.9g}" for cell in row])
    return text.getvalue()


def _print(text: str) -> None:
    """To standard output, where other characters in place of those of a class would be another class."""
    encoding = sys.stdout.encoding or "utf-8"
    try:
        text.encode(encoding)
    except UnicodeEncodeError as lacking:
        raise InvalidInput(
            f"standard output is {encoding}, which has no {text[lacking.start : lacking.end]!r}: give --out FILE.csv, "
            "or set PYTHONIOENCODING=utf-8."
        ) from None
    sys.stdout.write(text)


def _quality(model: TableModel, predicted: Any, truth: Any) -> str:
    """The share of right classes, or R^2, where the table has the target."""
    if model.target_scale is None:
        right = int(np.sum(predicted.astype(str) == np.array(class_names(truth))))
        return f"{right} of {len(truth)} classes are those of the column {model.target!r}"
    if truth.dtype.kind != "f" or np.ptp(truth) == 0.0:
        return f"the column {model.target!r} holds no numbers to compare with"
    left = np.sum((truth - predicted) ** 2) / np.sum((truth - truth.mean()) ** 2)
    return f"R^2 = {1.0 - left:.4f} against the column {model.target!r}"
