"""Tables of any cells as data frames of texts, with the separator and the encoding of the file found."""

from __future__ import annotations

import codecs
import gzip
import os
import zlib
from collections.abc import Iterator
from itertools import count, islice
from pathlib import Path
from typing import Any

from mklref._files import checked_path
from mklref._untrusted import chunks, limit
from mklref._validate import checked_count, required
from mklref.datasets.table import check_header, opened, rows_of
from mklref.exceptions import InvalidInput


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
