"""Tables of any cells as data sets of numbers, for what takes no data frame: problems, paths, the page."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from mklref._validate import counted
from mklref.datasets import Dataset, read_csv
from mklref.datasets.table import read_frame, require_pandas
from mklref.estimators.cells import cells_of, read
from mklref.estimators.notations import numbers
from mklref.estimators.table import TableEncoder
from mklref.exceptions import InvalidInput, InvalidParameter, InvalidTarget, MissingExtra


def read_any(
    path: str | os.PathLike[str],
    target: str | None = None,
    *,
    columns: Mapping[str, str] | None = None,
    missing: Collection[str] = (),
    encoding: str | None = None,
    separator: str | None = None,
) -> tuple[Dataset, TableEncoder | None, int]:
    """Read a table of numbers as it stands; any other one by a `TableEncoder`, which says what it did.

    The target is the last column by default; rows without one, whose number comes last, are left out where the table
    has to be encoded. All else is as for `mklref.datasets.read_frame` and `TableEncoder`.
    """
    if not (columns or missing or encoding or separator):
        try:
            return read_csv(path, target), None, 0
        except InvalidInput as refused:
            try:
                require_pandas()
            except MissingExtra:
                raise refused from None
    frame = frame_of_samples(path, encoding, separator)
    name = frame.columns[-1] if target is None else target
    if name not in frame.columns:
        raise InvalidParameter(f"target = {name!r} is no column; there are {', '.join(frame.columns[:8])}.")
    y, known = targets_of_column(frame[name], missing)
    encoder = TableEncoder(columns, tuple(missing))
    X = encoder.fit_transform(frame.loc[known].drop(columns=name))
    home = Path(path)
    data = Dataset(home.name, X.to_numpy(), y, tuple(X.columns), str(home), target=name)
    return data, encoder, int(np.sum(~known))


def frame_of_samples(path: str | os.PathLike[str], encoding: str | None, separator: str | None) -> Any:
    """As `read_frame`, of a target and variables: two columns at least."""
    frame = read_frame(path, encoding=encoding, separator=separator)
    if len(frame.columns) < 2:
        raise InvalidInput(
            f"{path} has one column, {frame.columns[0]!r}, and no variables beside a target. If there are more, "
            "say what separates columns (--separator in a shell)."
        )
    return frame


def targets_of_column(column: Any, missing: Collection[str] = ()) -> tuple[Any, Any]:
    """Numbers if all cells are numbers in one notation, else texts; and which rows have one, (n,)."""
    cells = cells_of(column, missing)
    known = np.array([cell is not None for cell in cells])
    if not known.any():
        raise InvalidTarget(f"the target {column.name!r} has no cells: is --target the right column?")
    cells = cells[known]
    found = read(cells)
    texts = np.array(list(cells), dtype=np.str_)
    if found.kind not in ("number", "leave"):
        return texts, known
    values = numbers(cells, found.detail or ".")
    if np.isnan(values).any():
        if found.kind == "number":
            strange = cells[int(np.isnan(values).argmax())]
            raise InvalidTarget(
                f"the target {column.name!r} holds numbers and {strange!r}; drop those rows, or say that it is "
                "--missing."
            )
        return texts, known
    return values, known


def columns_used(encoder: TableEncoder) -> str:
    """How many variables there are, of how many columns."""
    used = sum(bool(column.names) for column in encoder.columns_)
    variables = counted(len(encoder.get_feature_names_out()), "variable")
    return f"{variables} from {used} of {counted(len(encoder.columns_), 'column')}"


def alternatives(encoder: TableEncoder) -> dict[str, str]:
    """A line for each column that could be something else, with the option that decides."""
    return {
        f"column {name!r}": f"{made}; if not so: --columns {name}={option}"
        for name, (made, option) in encoder.ambiguous().items()
    }
