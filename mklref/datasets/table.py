"""Tables of numbers: CSV files with a header, plain or gzipped."""

from __future__ import annotations

import csv
import gzip
import os
import re
import zlib
from collections.abc import Collection, Sequence
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np

from mklref._typing import Array
from mklref.datasets.record import Dataset
from mklref.exceptions import InvalidInput, InvalidParameter

_FIRST_ROW = re.compile(r'(?:[^"\r\n]|"[^"]*")*')
_QUOTED = re.compile(r'"[^"]*"')
_DECIMAL_COMMA = re.compile(r"[+-]?\d*,\d+")


def read_csv(
    path: str | os.PathLike[str],
    target: str | None = None,
    *,
    ignore: Collection[str] = (),
    missing: bool = False,
) -> Dataset:
    """Read a table of numbers with a header row; separated by commas, semicolons or tabs, plain or gzipped.

    Parameters
    ----------
    path : str or path
    target : str, optional
        The column to predict, by name; the last one by default. It may hold numbers or class names.
    ignore : collection of str
        Columns that are no variables, such as names of samples; they may hold anything.
    missing : bool
        Read empty cells as NaN instead of refusing them.

    Raises
    ------
    InvalidInput
        No header, no rows, ragged rows, cells that are missing or not numbers: names line, column and cell.
    InvalidParameter
        Unknown target or columns to ignore; lists those that are there.
    FileNotFoundError, PermissionError
        As `open` does.
    """
    path = Path(path)
    header, lines = _cells(path)
    _check_header(path, header)
    if len(header) < 2:
        raise InvalidInput(f"{path} has {len(header)} columns; expected a header with variables and a target.")
    unknown = sorted(set(ignore) - set(header))
    if unknown:
        raise InvalidParameter(f"ignore names {unknown[0]!r}, no column of {path}; its columns: {', '.join(header)}.")
    column = _target_column(path, header, target)
    used = [j for j, name in enumerate(header) if j != column and name not in ignore]
    if not used or header[column] in ignore:
        raise InvalidParameter(f"{path}: without the columns to ignore there is no variable or no target left.")
    _check_names(path, header, [*used, column])
    X = np.array([_numbers(path, line, header, cells, used, missing) for line, cells in lines])
    features = tuple(header[j] for j in used)
    y = _targets(path, lines, header, column)
    return Dataset(path.name, X, y, features, str(path), target=header[column])


def read_samples(path: str | os.PathLike[str], features: Sequence[str], target: str | None = None) -> tuple[Array, Any]:
    """Read the columns of a table that a model needs, in the order in which it needs them.

    Parameters
    ----------
    path : str or path
        A table as for `read_csv`; other columns may hold anything.
    features : sequence of str
        The variables, by name.
    target : str, optional
        A column of true values, if the table has it.

    Returns
    -------
    X : array (k, d)
    y : array (k,) or None
        Numbers or strings; None if there is no such column, or a cell of it is missing.

    Raises
    ------
    InvalidInput
        A column is not there, or a cell is missing or not a number.
    FileNotFoundError, PermissionError
        As `open` does.
    """
    path = Path(path)
    header, lines = _cells(path)
    lacking = [name for name in features if name not in header]
    if lacking:
        _check_header(path, header)
        there = ", ".join(header[:8]) + (", ..." if len(header) > 8 else "")
        raise InvalidInput(
            f"{path} lacks the column {lacking[0]!r} that the model reads ({len(lacking)} of {len(features)} are not "
            f"there); its columns: {there}. Name them as in the table that the model was fitted to."
        )
    used = [header.index(name) for name in features]
    column = header.index(target) if target in header else None
    _check_names(path, header, used if column is None else [*used, column])
    X = np.array([_numbers(path, line, header, cells, used, False) for line, cells in lines])
    if column is None or any(_is_missing(cells[column]) for _, cells in lines):
        return X, None
    return X, _targets(path, lines, header, column)


def _cells(path: Path) -> tuple[list[str], list[tuple[int, list[str]]]]:
    """The header and every row, with line numbers."""
    try:
        rows = _read(path)
    except UnicodeDecodeError as damaged:
        raise InvalidInput(f"{path} is not a readable CSV file: {damaged}. Save it as UTF-8.") from damaged
    except (csv.Error, gzip.BadGzipFile, zlib.error, EOFError) as damaged:
        raise InvalidInput(f"{path} is not a readable CSV file: {damaged}.") from damaged
    if not rows:
        raise InvalidInput(f"{path} is empty; expected a header, and a line for each sample.")
    (_, header), *lines = rows
    if not lines:
        raise InvalidInput(f"{path} has a header and no rows.")
    for line, cells in lines:
        if len(cells) != len(header):
            raise InvalidInput(f"{path}, line {line}: {len(cells)} cells, the header has {len(header)}.")
    return header, lines


def _read(path: Path) -> list[tuple[int, list[str]]]:
    """The rows that are not blank, with the numbers of the lines that they end in."""
    opener = gzip.open if path.suffix == ".gz" else open
    with opener(path, "rt", encoding="utf-8-sig", newline="") as file:
        text = file.read()
    reader = csv.reader(StringIO(text, newline=""), delimiter=_delimiter(text))
    return [(reader.line_num, [cell.strip() for cell in cells]) for cells in reader if cells]


def _delimiter(text: str) -> str:
    """The separator that is most frequent in the header, outside of quotes."""
    header = _FIRST_ROW.match(text.lstrip("\r\n")).group()  # type: ignore[union-attr]
    return max(",;\t", key=_QUOTED.sub("", header).count)


def _check_header(path: Path, header: list[str]) -> None:
    """A first row of data is none: numbers only, or numbers and one class. Variables may be counted: 0,1,2,y."""
    numbers = [name for name in header if _is_number(name)]
    counted = all(name.isdecimal() for name in numbers) and numbers == sorted(numbers, key=int)
    if len(numbers) == len(header) or (len(numbers) == len(header) - 1 and not counted):
        raise InvalidInput(
            f"{path} has no header: line 1 holds {', '.join(header[:8])}. Name the columns in a first line."
        )


def _check_names(path: Path, header: list[str], used: list[int]) -> None:
    """The columns that are read have names, and each one its own."""
    for j in used:
        if not header[j]:
            raise InvalidInput(
                f"{path}: column {j + 1} of {len(header)} has no name. Name it in the header, or leave it out: pandas "
                "writes row numbers so, unless index=False, and lines that end in a separator have an empty last one."
            )
        if header.count(header[j]) > 1:
            raise InvalidInput(f"{path} has several columns named {header[j]!r}; rename them.")


def _target_column(path: Path, header: list[str], target: str | None) -> int:
    if target is None:
        return len(header) - 1
    if target not in header:
        raise InvalidParameter(f"target = {target!r} is no column of {path}; its columns: {', '.join(header)}.")
    return header.index(target)


def _numbers(path: Path, line: int, header: list[str], cells: list[str], used: list[int], missing: bool) -> list[float]:
    """The variables of one row."""
    values = []
    for j in used:
        cell = cells[j]
        if missing and not cell:
            values.append(np.nan)
            continue
        if not _is_number(cell) or not np.isfinite(float(cell)):
            what = "is missing" if not cell else f"is {cell!r}, not a finite number"
            what += " (write the decimal comma as a point)" if _DECIMAL_COMMA.fullmatch(cell) else ""
            raise InvalidInput(
                f"{path}, line {line}: column {header[j]!r} {what}. Impute or encode it, drop the row, or ignore the "
                "column (--ignore in a shell)."
            )
        values.append(float(cell))
    return values


def _targets(path: Path, lines: list[tuple[int, list[str]]], header: list[str], column: int) -> Any:
    raw = [cells[column] for _, cells in lines]
    for (line, _), cell in zip(lines, raw, strict=True):
        if _is_missing(cell):
            raise InvalidInput(f"{path}, line {line}: target {header[column]!r} is {cell!r}; drop the row.")
    return np.array([float(cell) for cell in raw]) if all(map(_is_number, raw)) else np.array(raw)


def _is_missing(target: str) -> bool:
    return not target or target.lower() in ("nan", "inf", "-inf")


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return "_" not in cell
