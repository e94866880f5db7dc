"""CSV files with a header, plain or gzipped: tables of numbers, or data frames of texts, whatever the cells are."""

from __future__ import annotations

import codecs
import csv
import gzip
import os
import re
import zlib
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import chain, count, islice
from math import isfinite
from pathlib import Path
from typing import Any

import numpy as np

from mklref._files import checked_path, ending
from mklref._typing import Array
from mklref._untrusted import chunks, gzip_size, limit, lines_of, require_room
from mklref._validate import checked_count, checked_flag, checked_words, counted, required, shown
from mklref.datasets.record import Dataset
from mklref.exceptions import InvalidInput, InvalidParameter

_SEPARATORS = ",;\t|"
_DECIMAL_COMMA = re.compile(r"[+-]?\d*,\d+")


def read_csv(
    path: str | os.PathLike[str], target: str | None = None, *, ignore: Collection[str] = (), missing: bool = False
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
    path, ignore, missing = checked_path(path), checked_words("ignore", ignore), checked_flag("missing", missing)
    header, rows = rows_of(path)
    check_header(path, header)
    if len(header) < 2:
        raise InvalidInput(
            f"{path} has {counted(len(header), 'column')}; expected a header with variables and a target, separated "
            "by a comma, semicolon, tab or |."
        )
    unknown = sorted(set(ignore) - set(header))
    if unknown:
        raise InvalidParameter(f"ignore names {shown(unknown[0])}, no column of {path}; its columns: {_first(header)}.")
    if target is not None and not (isinstance(target, str) and target in header):
        raise InvalidParameter(f"target = {shown(target)} is no column of {path}; its columns: {_first(header)}.")
    column, left_out = len(header) - 1 if target is None else header.index(target), set(ignore)
    used = [j for j, name in enumerate(header) if j != column and name not in left_out]
    if not used or header[column] in ignore:
        raise InvalidParameter(f"{path}: without the columns to ignore there is no variable or no target left.")
    X, targets = _read(path, header, rows, used, column, missing)
    features = tuple(header[j] for j in used)
    y = _targets(path, targets, header[column])
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
    path, features = checked_path(path), checked_words("features", features)
    header, rows = rows_of(path)
    places = {name: j for j, name in reversed(list(enumerate(header)))}
    lacking = [name for name in features if name not in places]
    if lacking:
        check_header(path, header)
        raise InvalidInput(
            f"{path} lacks the column {lacking[0]!r} that the model reads ({len(lacking)} of {len(features)} are not "
            f"there); its columns: {_first(header)}. Name them as in the table that the model was fitted to."
        )
    used = [places[name] for name in features]
    column = None if target is None else places.get(target)
    X, targets = _read(path, header, rows, used, column)
    if column is None or any(_is_missing(cell) for _, cell in targets):
        return X, None
    return X, _targets(path, targets, header[column])


def read_frames(
    path: str | os.PathLike[str], *, encoding: str | None = None, separator: str | None = None, rows: int | None = None
) -> Iterator[Any]:
    """Read a CSV file with a header as pandas data frames of texts, so many rows at a time; nothing is converted.

    Parameters
    ----------
    path : str or path
        Separated by commas, semicolons, tabs or bars; plain or gzipped.
    encoding, separator : str, optional
        Found from the file by default: UTF-8, else Windows-1252; the most frequent separator of the header.
    rows : int, optional
        Of each frame; by default one frame has all. Its columns all have different names: those without one are called
        column 1, column 2, ..., and the second one that is called x is x (2).

    Raises
    ------
    InvalidInput
        No header, no rows, ragged rows, no text.
    InvalidParameter
        An unknown encoding, or a separator of several characters.
    MissingExtra
        pandas is not installed.
    UnsafeFile, OSError
        The file is too large for the memory, or cannot be read.
    """
    pandas = require_pandas()
    path = checked_path(path)
    if rows is not None:
        rows = checked_count("rows", rows, 1, "of each frame, or None for one frame of all.")
    header, lines = rows_of(path, encoding_of(path) if encoding is None else encoding, separator)
    check_header(path, header)
    header = _different(header)
    while cells := [row for _, row in islice(lines, rows)]:
        yield pandas.DataFrame(cells, columns=header, dtype=object)


def _different(header: list[str]) -> list[str]:
    """A name for each column, on one line: those without one are column 1, column 2, ..., a second x is x (2)."""
    names: list[str] = []
    for j, given in enumerate(header):
        name = " ".join(given.split()) or f"column {j + 1}"
        same = (f"{name} ({k})" for k in count(2))
        names.append(name if name not in names else next(other for other in same if other not in (*names, *header)))
    return names


def read_frame(path: str | os.PathLike[str], *, encoding: str | None = None, separator: str | None = None) -> Any:
    """Read a CSV file with a header as one data frame of texts, for `mklref.estimators.table_pipeline`.

    Parameters, and what is raised, as for `read_frames`.
    """
    return next(read_frames(path, encoding=encoding, separator=separator))


def encoding_of(path: Path) -> str:
    """UTF-16 by its mark, UTF-8 if all bytes are so, else Windows-1252; found piece by piece, of a bomb no further."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        with opened(path, "rb") as file:
            if file.read(2) in (b"\xff\xfe", b"\xfe\xff"):
                return "utf-16"
            file.seek(0)
            for chunk in chunks(file, path, limit()):
                decoder.decode(chunk)
            decoder.decode(b"", final=True)
    except UnicodeDecodeError:
        return "cp1252"
    except (gzip.BadGzipFile, zlib.error, EOFError) as damaged:
        raise InvalidInput(f"{path} is not a readable CSV file: {damaged}.") from damaged
    return "utf-8-sig"


def require_pandas() -> Any:
    """The module pandas, or `MissingExtra`."""
    return required("pandas", "tables are read with pandas, which is not installed: pip install 'mklref[tables]'.")


_SAVE, _UNPACK = "Save it as CSV, by the program that has written it.", "Unpack it, or pack it by gzip, as NAME.csv.gz."
_NO_TABLES = {
    b"PK\3\4": ("a ZIP archive, as Excel, OpenDocument and NPZ files are", "Save the sheet as CSV, or unpack it."),
    b"\xd0\xcf\x11\xe0": ("a sheet of an old Excel", _SAVE),
    b"PAR1\x15": ("a Parquet file", _SAVE),
    b"ARROW1\0": ("an Arrow file", _SAVE),
    b"\x89HDF": ("an HDF5 file", _SAVE),
    b"\x1f\x8b": ("packed by gzip", "Let its name end in .gz."),
    b"BZh91AY&": ("packed by bzip2", _UNPACK),
    b"\xfd7zXZ": ("packed by xz", _UNPACK),
    b"\x28\xb5\x2f\xfd": ("packed by zstd", _UNPACK),
}
"""First bytes of what people take for a CSV file: what it is, and what to do."""

Rows = Iterator[tuple[int, list[str]]]
"""Cells, with the number of the line that they end in."""


def rows_of(path: Path, encoding: str = "utf-8-sig", separator: str | None = None) -> tuple[list[str], Rows]:
    """The header, and every row, as wide as it: at least one. Rows are read one at a time."""
    rows = _cells(path, encoding, separator)
    _, header = next(rows, (0, None))
    if header is None:
        raise InvalidInput(f"{path} is empty; expected a header, and a line for each sample.")
    first = next(rows, None)
    if first is None:
        raise InvalidInput(f"{path} has a header and no rows.")
    return header, _as_wide(path, len(header), chain([first], rows))


def _as_wide(path: Path, width: int, rows: Rows) -> Rows:
    for line, cells in rows:
        if len(cells) != width:
            raise InvalidInput(f"{path}, line {line}: {len(cells)} cells, the header has {width}.")
        yield line, cells


def opened(path: Path, mode: str, **options: Any) -> Any:
    """A table, packed or not, that can be read from its beginning again."""
    _require_rereadable(path)
    file = (gzip.open if ending(path) == ".gz" else open)(path, mode, **options)
    with path.open("rb") as raw:
        begins = raw.read(8)
    for mark, (kind, remedy) in _NO_TABLES.items():
        if begins.startswith(mark) and ending(path) != ".gz":
            file.close()
            raise InvalidInput(f"{path} is not a readable CSV file: it is {kind}. {remedy}")
    return file


def _require_rereadable(path: Path) -> None:
    """Refuse a pipe before it is opened: that waits for a writer, and what was read once does not come again."""
    if path.exists() and not (path.is_file() or path.is_dir()):
        raise InvalidInput(
            f"{path} is a pipe or a device, which can be read only once. Write its content to a file, and give that."
        )


def _cells(path: Path, encoding: str, separator: str | None) -> Rows:
    """The rows that are not blank."""
    try:
        _require_rereadable(path)
        require_room(path, gzip_size(path, limit()) if ending(path) == ".gz" else path.stat().st_size, limit())
        with opened(path, "rt", encoding=encoding, newline="") as file:
            delimiter = _delimiter(lines_of(file, path)) if separator is None else separator
            file.seek(0)
            reader = csv.reader(lines_of(file, path), delimiter=delimiter)
            for cells in reader:
                if any("\0" in cell for cell in cells):
                    raise InvalidInput(f"{path}, line {reader.line_num}: a zero byte, which no text has.")
                if cells:
                    yield reader.line_num, [cell.strip() for cell in cells]
    except UnicodeDecodeError as damaged:
        byte = damaged.object[damaged.start]
        raise InvalidInput(
            f"{path} is not a readable CSV file: byte {byte:#04x} is not {encoding}. Save it as UTF-8."
        ) from damaged
    except (LookupError, TypeError, UnicodeError) as unknown:  # the latter as of UTF-16 without a mark of its order
        raise InvalidParameter(
            f"{path} cannot be read so: {unknown}. Encodings are such as 'cp1252', separators one character."
        ) from unknown
    except (csv.Error, gzip.BadGzipFile, zlib.error, EOFError) as damaged:
        raise InvalidInput(f"{path} is not a readable CSV file: {damaged}.") from damaged


def _delimiter(lines: Iterable[str]) -> str:
    """The separator that is most frequent in the header, outside of quotes; a quoted name may go over several lines."""
    counts, quoted = Counter[str](), False
    for line in lines:
        for k, part in enumerate(line.split('"')):
            quoted ^= k > 0
            counts.update({} if quoted else {mark: part.count(mark) for mark in _SEPARATORS})
        if not quoted and line.strip("\r\n"):
            break
    return max(_SEPARATORS, key=counts.__getitem__)


def _first(header: list[str]) -> str:
    return ", ".join(name[:40] for name in header[:8]) + (", ..." if len(header) > 8 else "")


def check_header(path: Path, header: list[str]) -> None:
    """A first row of data is none: numbers only, or numbers and one class. Variables may be counted: 0,1,2,y."""
    numbers = [name for name in header if _is_number(name)]
    sizes = [(len(digits), digits) for digits in (name.lstrip("0") for name in numbers)]  # of any length
    counted = all(name.isdecimal() for name in numbers) and sizes == sorted(sizes)
    if len(numbers) == len(header) or (len(numbers) == len(header) - 1 and not counted):
        raise InvalidInput(f"{path} has no header: line 1 holds {_first(header)}. Name the columns in a first line.")


def check_names(path: Path, header: list[str], used: list[int]) -> None:
    """The columns that are read have names, and each one its own."""
    counts = Counter(header)
    for j in used:
        if not header[j]:
            raise InvalidInput(
                f"{path}: column {j + 1} of {len(header)} has no name. Name it in the header, or leave it out: pandas "
                "and R write row numbers so, unless index=False or row.names=FALSE, and lines that end in a separator "
                "have an empty last one."
            )
        if counts[header[j]] > 1:
            raise InvalidInput(f"{path} has several columns named {header[j][:80]!r}; rename them.")


def _read(
    path: Path, header: list[str], rows: Rows, used: list[int], column: int | None, missing: bool = False
) -> tuple[Array, list[tuple[int, str]]]:
    """The variables, (n, d), and the cells of the target, if there is one, with the numbers of their lines."""
    check_names(path, header, used if column is None else [*used, column])
    X, targets = [], []
    for line, cells in rows:
        values = np.full(len(used), np.nan)
        for k, j in enumerate(used):
            cell = cells[j]
            if missing and not cell:
                continue
            if not _is_number(cell) or not isfinite(float(cell)):
                what = "is missing" if not cell else f"is {cell[:80]!r}, not a finite number"
                what += " (write the decimal comma as a point)" if _DECIMAL_COMMA.fullmatch(cell) else ""
                raise InvalidInput(
                    f"{path}, line {line}: column {header[j][:80]!r} {what}. Impute or encode it, drop the row, or "
                    "ignore the column (--ignore in a shell)."
                )
            values[k] = float(cell)
        X.append(values)
        targets.append((line, "" if column is None else cells[column]))
    return np.array(X), targets


def _targets(path: Path, targets: list[tuple[int, str]], name: str) -> Any:
    raw = [cell for _, cell in targets]
    for line, cell in targets:
        if _is_missing(cell):
            raise InvalidInput(f"{path}, line {line}: target {name!r} is {cell[:80]!r}; drop the row.")
    return np.array([float(cell) for cell in raw]) if all(map(_is_number, raw)) else np.array(raw)


def _is_missing(target: str) -> bool:
    return not target or (_is_number(target) and not isfinite(float(target)))


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return "_" not in cell
