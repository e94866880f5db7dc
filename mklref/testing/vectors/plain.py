"""JSON with CSV files beside it, for languages without libraries.

NAME.json holds numbers, texts and vectors; a table of more than one axis is NAME.ENTRY.csv, one row a line, with the
matrices of a stack below one another, and {"file": ..., "shape": ...} in its place. Decimals are the shortest that
round to the same float64. The same numbers stand as C99 hexadecimal floats in NAME.ENTRY.hex.csv and under "hex".
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from mklref._files import write_text
from mklref._typing import Array
from mklref._untrusted import INFINITE, NONFINITE, numbers_of, parse_json, read_bytes, require_no_pipe, require_room
from mklref.exceptions import UnsafeFile
from mklref.testing.vectors.schema import Record

_LONGEST, _SHORTEST = 40, 2
"""Characters of a number in a CSV file with its separator."""
_BYTES = 8
"""Of a number in memory."""
_MAX_JSON = 2**26


def write(path: Path, record: Mapping[str, Any]) -> None:
    """The JSON file and its CSV files."""
    facts: dict[str, Any] = {}
    hexadecimal: dict[str, Any] = {}
    for name, value in record.items():
        if isinstance(value, str):
            facts[name] = value
        elif np.ndim(value) < 2:
            numbers = np.asarray(value, dtype=np.float64).tolist()
            facts[name] = _each(numbers, _decimal)
            hexadecimal[name] = _each(numbers, float.hex)
        else:
            table = f"{path.stem}.{name}.csv"
            facts[name] = {"file": table, "shape": list(np.shape(value))}
            rows = np.asarray(value, dtype=np.float64).reshape(-1, np.shape(value)[-1]).tolist()
            for ending, form in (("csv", repr), ("hex.csv", float.hex)):
                text = "\n".join(",".join(map(form, row)) for row in rows) + "\n"
                write_text(path.with_name(f"{path.stem}.{name}.{ending}"), text)
    write_text(path, json.dumps({**facts, "hex": hexadecimal}, indent=1, allow_nan=False) + "\n")


def read(path: Path, max_bytes: int) -> Record:
    """The record of a JSON file; decimals are read, hexadecimals ignored, and null means missing.

    `UnsafeFile` for what is no JSON object, a name that is given twice, a table in another directory, of another size
    than it declares, or of more than max_bytes.
    """
    facts = _facts(path, max_bytes)
    given = {name: value for name, value in facts.items() if name != "hex" and value is not None}
    return {name: _value(value, name, path, max_bytes) for name, value in given.items()}


def tables(path: Path) -> list[Path]:
    """The tables that a JSON file names, whatever they are called; none where it is no such file."""
    try:
        facts = _facts(path, _MAX_JSON)
    except (OSError, UnsafeFile):  # then nothing is read but this file, and its reader says why
        return []
    named = [value.get("file") for value in facts.values() if isinstance(value, dict)]
    return [path.parent / file for file in named if isinstance(file, str) and Path(file).name == file]


def _facts(path: Path, max_bytes: int) -> dict[str, Any]:
    if path.stat().st_size > min(max_bytes, _MAX_JSON):
        raise UnsafeFile(f"{path} is {path.stat().st_size} bytes long; put large tables into CSV files.")
    facts = parse_json(read_bytes(path, _MAX_JSON), path)
    if not isinstance(facts, dict):
        raise UnsafeFile(f"{path} holds a {type(facts).__name__}; expected an object.")
    return facts


def _value(value: Any, name: str, path: Path, max_bytes: int) -> Any:
    if isinstance(value, dict):
        return _table(value, name, path, max_bytes)
    if isinstance(value, list) and len(value) == 1 and isinstance(value[0], str) and value[0] not in NONFINITE:
        return value[0]  # a text of R, which has vectors alone
    if value in INFINITE:
        return float(value)
    if type(value) is int:  # a decimal like any other: many languages print 1e17 without its exponent
        return float(value)
    if isinstance(value, str | int | float):
        return value
    try:
        return numbers_of(value)
    except ValueError as damaged:
        raise UnsafeFile(f"{path}: {name!r} is no number, text or array of numbers: {_brief(damaged)}.") from None


def _table(facts: dict[str, Any], name: str, path: Path, max_bytes: int) -> Array:
    if set(facts) != {"file", "shape"}:
        shown = ", ".join([*facts][:6]) + ", ..." * (len(facts) > 6) or "none"
        typed = " A typed array of JavaScript needs JSON.stringify(Array.from(x))." * ("0" in facts)
        raise UnsafeFile(f"{path}: {name!r} has the fields {shown}; expected file and shape, or an array.{typed}")
    file, shape = facts["file"], facts["shape"]
    if not isinstance(file, str) or Path(file).name != file or not file.isprintable() or "\\" in file:
        raise UnsafeFile(f"{path}: {name!r} names the file {file!r}; give the plain name of a file beside this one.")
    if not isinstance(shape, list) or len(shape) < 2 or not all(type(k) is int and k > 0 for k in shape):
        raise UnsafeFile(f"{path}: {name!r} has the shape {shape!r}; expected two or more positive integers.")
    target = path.parent / file
    if target.resolve().parent != path.parent.resolve():
        raise UnsafeFile(f"{path}: {file!r} leads to another directory.")
    require_no_pipe(target)
    entries, size = prod(shape), target.stat().st_size
    if not _SHORTEST * entries - 1 <= size <= min(_LONGEST * entries, max_bytes):
        raise UnsafeFile(f"{target} has {size} bytes, which do not fit the shape {shape}.")
    require_room(target, _BYTES * entries, max_bytes)
    try:
        with target.open(encoding="utf-8-sig") as lines:
            rows = np.loadtxt(lines, delimiter=",", ndmin=2, dtype=np.float64, comments=None)
    except ValueError as damaged:
        raise UnsafeFile(
            f"{target} is damaged, or no plain table, numbers with decimal points, commas between them and no header: "
            f"{_brief(damaged)}."
        ) from damaged
    if rows.shape != (entries // shape[-1], shape[-1]):
        raise UnsafeFile(
            f"{target} has {rows.shape[0]} rows of {rows.shape[1]} numbers; the shape {shape} takes "
            f"{entries // shape[-1]} of {shape[-1]}, the matrices below one another."
        )
    return rows.reshape(shape)


def _brief(damaged: ValueError) -> str:
    """What NumPy says, however long the text is that it could not read."""
    return str(damaged).rstrip(".") if len(str(damaged)) <= 160 else f"{str(damaged)[:157]}..."


def _each(numbers: Any, form: Any) -> Any:
    return [form(number) for number in numbers] if isinstance(numbers, list) else form(numbers)


def _decimal(number: float) -> float | str:
    return number if np.isfinite(number) else repr(number)
