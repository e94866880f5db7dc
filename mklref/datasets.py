"""Data to try things on: scikit-learn's bundled sets, sets in the directory MKLREF_DATA, and CSV files.

A set is returned as it is, with its original labels. `encode` turns classes into the labels -1 and +1, and
`Dataset.standardized` scales variables; neither happens behind anybody's back.
"""

from __future__ import annotations

import csv
import gzip
import hashlib
import json
import os
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from mklref._typing import Array
from mklref.exceptions import InvalidInput, InvalidParameter, InvalidTarget, UnsafeFile

BUNDLED = ("breast_cancer", "diabetes", "digits", "iris", "wine")
"""Sets that come with scikit-learn, by the name of its loader."""

DIRECTORY = "MKLREF_DATA"
"""Environment variable that names a directory with MANIFEST.json and one `<name>/data.csv.gz` for each set."""


@dataclass(frozen=True)
class Dataset:
    """Samples, their targets, and where they come from.

    Like a data frame it converts to its matrix and knows its columns, so kernel families can name them.
    """

    name: str
    X: Array
    """Variables, float64 (n, d)."""
    y: Any
    """Targets (n,): float64 where they are numbers, else strings."""
    features: tuple[str, ...]
    source: str

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the variables."""
        return self.features

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        return np.array(self.X, dtype=dtype, copy=copy)

    def standardized(self) -> Dataset:
        """(x - mean) / standard deviation for each variable; a constant variable becomes 0."""
        varies = np.ptp(self.X, axis=0) > 0.0
        centred = np.where(varies, self.X - self.X.mean(axis=0), 0.0)
        return replace(self, X=centred / np.where(varies, self.X.std(axis=0), 1.0))

    def subset(self, samples: int, seed: int) -> Dataset:
        """`samples` rows drawn without replacement by a seeded generator, in their original order."""
        if samples >= len(self.y):
            return self
        rows = np.sort(np.random.default_rng(seed).permutation(len(self.y))[:samples])
        return replace(self, X=self.X[rows], y=self.y[rows])


def load(name: str) -> Dataset:
    """A data set by name.

    Parameters
    ----------
    name : str
        One of scikit-learn's bundled sets (`BUNDLED`), or a set of the directory that MKLREF_DATA names.

    Raises
    ------
    InvalidParameter
        Unknown name; the message lists the known ones.
    UnsafeFile
        A file of the directory does not have the SHA-256 that its manifest states.
    """
    if name in BUNDLED:
        return _bundled(name)
    directory = os.environ.get(DIRECTORY)
    entries = _manifest(Path(directory)) if directory else {}
    if directory and name in entries:
        return _from_directory(Path(directory), entries[name])
    more = f"; in {directory}: {', '.join(entries)}" if directory else f"; set {DIRECTORY} to a data directory for more"
    raise InvalidParameter(
        f"data set {name!r} is unknown. Known: {', '.join(BUNDLED)}{more}. For a file of your own give its path."
    )


def _bundled(name: str) -> Dataset:
    import sklearn
    from sklearn import datasets

    bunch = getattr(datasets, f"load_{name}")()
    classes = getattr(bunch, "target_names", None)
    y = bunch.target.astype(float) if classes is None else np.asarray(classes).astype(str)[bunch.target]
    features = tuple(str(feature) for feature in bunch.feature_names)
    return Dataset(name, np.asarray(bunch.data, dtype=float), y, features, f"scikit-learn {sklearn.__version__}")


def _manifest(directory: Path) -> dict[str, dict[str, Any]]:
    """The entries of MANIFEST.json whose data is one CSV file, by name."""
    path = directory / "MANIFEST.json"
    try:
        sets = json.loads(path.read_text(encoding="utf-8"))["data_sets"]
        return {entry["name"]: entry for entry in sets if _table(entry) is not None}
    except (ValueError, KeyError, TypeError) as damaged:
        raise UnsafeFile(f"{path} is not a manifest of data sets: {damaged!r}.") from damaged


def _table(entry: dict[str, Any]) -> dict[str, Any] | None:
    tables = [file for file in entry["files"] if file["path"].endswith(".csv.gz")]
    return tables[0] if len(tables) == 1 else None


def _from_directory(directory: Path, entry: dict[str, Any]) -> Dataset:
    table = _table(entry)
    assert table is not None
    path = directory / table["path"]
    if not path.resolve().is_relative_to(directory.resolve()):
        raise UnsafeFile(f"the manifest in {directory} points outside of it: {table['path']}.")
    found = hashlib.sha256(path.read_bytes()).hexdigest()
    if found != table["sha256"]:
        raise UnsafeFile(f"{path} has SHA-256 {found}, the manifest says {table['sha256']}; fetch the file again.")
    return replace(read_csv(path), name=entry["name"], source=str(path))


def read_csv(path: str | os.PathLike[str], target: str | None = None) -> Dataset:
    """Read a table of numbers with a header row; separated by commas, semicolons or tabs, plain or gzipped.

    Parameters
    ----------
    path : str or path
    target : str, optional
        The column to predict, by name; the last one by default. It may hold numbers or class names.

    Raises
    ------
    InvalidInput
        No header, no rows, ragged rows, cells that are missing or not numbers: names line, column and cell.
    FileNotFoundError, PermissionError
        As `open` does.
    """
    path = Path(path)
    try:
        header, lines = _cells(path)
    except UnicodeDecodeError as damaged:
        raise InvalidInput(f"{path} is not a readable CSV file: {damaged}. Save it as UTF-8.") from damaged
    except (csv.Error, gzip.BadGzipFile, zlib.error, EOFError) as damaged:
        raise InvalidInput(f"{path} is not a readable CSV file: {damaged}.") from damaged
    column = _target_column(path, header, target)
    features = tuple(name for j, name in enumerate(header) if j != column)
    X = np.array([_numbers(path, line, header, cells, column) for line, cells in lines])
    return Dataset(path.name, X, _targets(path, lines, header, column), features, str(path))


def _cells(path: Path) -> tuple[list[str], list[tuple[int, list[str]]]]:
    """The header, and every row with its line number."""
    opener = gzip.open if path.suffix == ".gz" else open
    with opener(path, "rt", encoding="utf-8-sig", newline="") as file:
        first = file.readline()
        delimiter = max(",;\t", key=first.count)
        header = [name.strip() for name in next(csv.reader([first], delimiter=delimiter), [])]
        lines = list(_rows(csv.reader(file, delimiter=delimiter)))
    if len(header) < 2:
        raise InvalidInput(f"{path} has {len(header)} columns; expected a header with variables and a target.")
    _check_header(path, header)
    repeated = sorted({name for name in header if header.count(name) > 1})
    if repeated:
        raise InvalidInput(f"{path} has several columns named {repeated[0]!r}; rename them.")
    if not lines:
        raise InvalidInput(f"{path} has a header and no rows.")
    for line, cells in lines:
        if len(cells) != len(header):
            raise InvalidInput(f"{path}, line {line}: {len(cells)} cells, the header has {len(header)}.")
    return header, lines


def _check_header(path: Path, header: list[str]) -> None:
    """A first row of data is none: numbers only, or numbers and one class. Variables may be counted: 0,1,2,y."""
    numbers = [name for name in header if _is_number(name)]
    counted = all(name.isdigit() for name in numbers)
    if len(numbers) == len(header) or (len(numbers) == len(header) - 1 and not counted):
        raise InvalidInput(
            f"{path} has no header: line 1 holds {', '.join(header[:8])}. Name the columns in a first line."
        )


def _rows(reader: Any) -> Iterator[tuple[int, list[str]]]:
    for cells in reader:
        if cells:
            yield reader.line_num + 1, [cell.strip() for cell in cells]


def _target_column(path: Path, header: list[str], target: str | None) -> int:
    if target is None:
        return len(header) - 1
    if target not in header:
        raise InvalidParameter(f"target = {target!r} is no column of {path}; its columns: {', '.join(header)}.")
    return header.index(target)


def _numbers(path: Path, line: int, header: list[str], cells: list[str], column: int) -> list[float]:
    """The variables of one row."""
    values = []
    for j, cell in enumerate(cells):
        if j == column:
            continue
        if not _is_number(cell) or not np.isfinite(float(cell)):
            what = "is missing" if not cell else f"is {cell!r}, not a finite number"
            raise InvalidInput(
                f"{path}, line {line}: column {header[j]!r} {what}. Impute or encode it, or drop the row or column."
            )
        values.append(float(cell))
    return values


def _targets(path: Path, lines: list[tuple[int, list[str]]], header: list[str], column: int) -> Any:
    raw = [cells[column] for _, cells in lines]
    for (line, _), cell in zip(lines, raw, strict=True):
        if not cell or cell.lower() in ("nan", "inf", "-inf"):
            raise InvalidInput(f"{path}, line {line}: target {header[column]!r} is {cell!r}; drop the row.")
    return np.array([float(cell) for cell in raw]) if all(map(_is_number, raw)) else np.array(raw)


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return "_" not in cell


def encode(y: Any, positive: str | None = None) -> tuple[Array, tuple[str, str]]:
    """Two classes as labels -1 and +1.

    Parameters
    ----------
    y : array (n,)
        Numbers or strings with two different values; any number of values >= 2 if `positive` is given.
    positive : str, optional
        The class that becomes +1, all others being -1. By default the second one in sorted order.

    Returns
    -------
    labels : array (n,)
        -1.0 and +1.0.
    classes : (str, str)
        What -1 and +1 stand for.

    Raises
    ------
    InvalidTarget
        Not two classes, an entry that is not finite, or `positive` is none of them; the message lists what was found.
    """
    y = np.asarray(y)
    if y.dtype.kind == "f" and not np.isfinite(y).all():
        first = int(np.argmin(np.isfinite(y)))
        raise InvalidTarget(f"target {first} is {y[first]}; every entry must be finite. Drop the sample.")
    values, index = np.unique(y, return_inverse=True)
    names = [str(value).removesuffix(".0") if values.dtype.kind in "iuf" else str(value) for value in values]
    shown = ", ".join(names[:8]) + (", ..." if len(names) > 8 else "")
    if len(names) < 2:
        raise InvalidTarget(f"the target holds only the class {shown}; a classifier needs two. Take more samples.")
    if positive is None:
        if len(names) > 2:
            raise InvalidTarget(
                f"the target has {len(names)} classes ({shown}); name the one to tell from the others "
                "(--positive CLASS), or use a loss for real targets such as 'squared'."
            )
        positive = names[1]
    if positive not in names:
        raise InvalidTarget(f"positive = {positive!r} is no class of the target; found {shown}.")
    others = [name for name in names if name != positive]
    labels = np.where(index.ravel() == names.index(positive), 1.0, -1.0)
    return labels, (others[0] if len(others) == 1 else f"not {positive}", positive)
