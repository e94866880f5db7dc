"""`mklref predict`: the rows of a table by a saved model, some thousand at a time."""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterator
from io import StringIO
from typing import Any

import numpy as np

from mklref._files import replacing
from mklref._progress import Steps
from mklref.cli.files import deliver
from mklref.cli.model import TableModel
from mklref.datasets.table import read_frames
from mklref.estimators.cells import cells_of, read
from mklref.estimators.notations import numbers
from mklref.exceptions import InvalidInput, InvalidParameter

ROWS = 4096
"""Read, predicted and written at a time."""


def run(arguments: Any) -> bool:
    """Print or write one row of predictions for each row; with true targets say on stderr how good they are."""
    model = TableModel.load(arguments.model)
    if arguments.proba:
        model.require_probabilities()
    work = _Work(arguments, model)

    def write(path: str) -> None:
        with replacing(path) as file:
            for text in work.lines():
                file.write(text.encode())

    if arguments.out is None:
        for text in work.lines():
            _print(text)
    else:
        deliver(arguments, out=write)
    if work.told:
        sys.stderr.write(f"mklref: {work.told}\n")
    if work.interrupted:
        raise KeyboardInterrupt(f"interrupted; predictions of the first {work.rows} rows are there")
    return True


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


class _Work:
    """How far it has come, and how good the predictions are where the table has the target."""

    def __init__(self, arguments: Any, model: TableModel) -> None:
        self._arguments, self._model = arguments, model

    def lines(self) -> Iterator[str]:
        """The lines of the result, from the first block on, which has the header; up to where Ctrl-C comes."""
        self.rows, self.interrupted = 0, False
        self._n = self._right = 0
        self._unit: str | None = None
        self._values: dict[str, list[Any]] = {".": [], ",": []}
        self._predicted: list[Any] = []
        given = self._arguments
        progress = Steps(sys.stderr.isatty() and given.out is not None, "rows", None)
        kept = list(dict.fromkeys([*self._model.identifiers, *given.keep]))
        try:
            for frame in read_frames(given.data, encoding=given.encoding, separator=given.separator, rows=ROWS):
                lacking = [name for name in given.keep if name not in frame.columns]
                if lacking:
                    raise InvalidParameter(f"--keep names {lacking[0]!r}, which is no column of {given.data}.")
                found = self._model.predict(frame, probabilities=given.proba)
                self._compare(frame, found["prediction"])
                columns = {name: np.asarray(frame[name], dtype=object) for name in kept if name in frame.columns}
                columns |= found
                text = StringIO()
                writer = csv.writer(text, lineterminator="\n")
                if not self.rows:
                    writer.writerow(columns)
                for row in zip(*columns.values(), strict=True):
                    writer.writerow([cell if isinstance(cell, str) else f"{cell:.9g}" for cell in row])
                yield text.getvalue()
                self.rows += len(frame)
                progress.advance(len(frame))
        except KeyboardInterrupt:
            if not self.rows:
                raise
            self.interrupted = True
        finally:
            progress.close()

    def _compare(self, frame: Any, predicted: Any) -> None:
        """Compare a block of rows with its targets; those without one count for nothing."""
        if self._model.target not in frame.columns:
            return
        cells = cells_of(frame[self._model.target])
        known = np.array([cell is not None for cell in cells])
        self._n += int(known.sum())
        if self._model.classifies:
            classes = predicted[known].astype(str)
            self._right += sum(_same(cell, name) for cell, name in zip(cells[known], classes, strict=True))
            return
        if self._unit is None and known.any():
            found = read(cells[known])
            self._unit = found.detail[1:] if found.kind == "number" else ""
        for mark, values in self._values.items():  # all blocks decide: in one 1,234 may be a thousand, or no mark
            values.append(numbers(cells[known], f"{mark}{self._unit or ''}"))
        self._predicted.append(predicted[known])

    @property
    def told(self) -> str:
        """One line, or nothing."""
        name = self._model.target
        if not self._n:
            return ""
        if self._model.classifies:
            return f"{self._right} of {self._n} classes are those of the column {name!r}"
        values = max(map(np.concatenate, self._values.values()), key=lambda found: np.isfinite(found).sum())
        if not np.isfinite(values).all() or np.ptp(values) == 0.0:
            return f"the column {name!r} holds no numbers to compare with"
        rests = values - np.concatenate(self._predicted)
        left = float(np.sum(rests**2) / np.sum((values - values.mean()) ** 2))
        return f"R^2 = {1.0 - left:.4f} against the column {name!r}"


def _same(cell: str, name: str) -> bool:
    """Whether a cell is this class; numbers may be written in another way, 1 and 1.0."""
    if cell == name:
        return True
    try:
        return float(cell) == float(name)
    except ValueError:
        return False
