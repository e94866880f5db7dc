"""What every reader asks of a stranger's file first: does it fit into memory, and can it be read in one way only."""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Iterator
from os import PathLike
from pathlib import Path
from typing import IO, Any

import numpy as np

from mklref._typing import Array
from mklref.exceptions import InvalidParameter, UnsafeFile

LIMIT = "MKLREF_MAX_BYTES"
"""Environment variable with the number of bytes that a file may unpack to."""
_DEFAULT = 4 * 2**30
_CHUNK = 1 << 20
_LONGEST = 1 << 26
"""Characters of a line: millions of columns."""
_INTEGER_DIGITS = 19
"""Of the integers that are kept as such; longer ones become floats, as in every other language."""
_DEEPEST = 200
"""Brackets within one another: those who go through what was read call themselves for each."""
INFINITE = ("inf", "-inf", "Inf", "-Inf")
NONFINITE = (*INFINITE, "nan", "NaN")
"""Texts for numbers that JSON cannot write: ours, and those of `toJSON` in R."""
_GROUP = Path("/sys/fs/cgroup")
"""Where Linux says how much memory a container may take, and holds."""


def limit(max_bytes: int | None = None) -> int:
    """What a file may unpack to: `max_bytes` if it is given, else what MKLREF_MAX_BYTES says, else 4 GiB."""
    if max_bytes is not None:
        return max_bytes
    text = os.environ.get(LIMIT)
    if text is None:
        return _DEFAULT
    if not (text.isascii() and text.isdecimal() and len(text) <= _INTEGER_DIGITS and int(text)):
        raise InvalidParameter(f"{LIMIT} = {text[:40]!r} must be a positive number of bytes, for instance {_DEFAULT}.")
    return int(text)


def require_room(where: object, size: int, most: int) -> None:
    """Raise `UnsafeFile` if `size` bytes are more than `most`, or than there is memory; asked before any are taken."""
    if size > most:
        raise UnsafeFile(
            f"{where} unpacks to {size} bytes; at most {most} are read. If you trust the file, set {LIMIT} in the "
            "environment to a larger number."
        )
    free = free_memory()
    if size > free:
        raise UnsafeFile(f"{where} unpacks to {size} bytes, and {free:.0f} bytes of memory are free.")


def free_memory() -> float:
    """Bytes that can be had without swapping: of the machine and of its control group; inf where neither says so."""
    machine, most = _said(Path("/proc/meminfo")).splitlines(), _said(_GROUP / "memory.max").strip()
    bounds = [np.inf, *(1024.0 * int(line.split()[1]) for line in machine if line.startswith("MemAvailable:"))]
    if most.isdecimal():
        facts = dict(line.split() for line in _said(_GROUP / "memory.stat").splitlines())
        held = int(_said(_GROUP / "memory.current") or 0) - int(facts.get("inactive_file", 0))
        bounds.append(max(0.0, float(most) - max(0, held)))
    return min(bounds)


def _said(file: Path) -> str:
    """Its text, or none where there is no such file."""
    return file.read_text(encoding="ascii") if file.is_file() else ""


def is_descriptor(path: str | PathLike[str]) -> bool:
    """Whether this names what the process has open, such as /dev/stdin or the /dev/fd/63 of a shell, or a device."""
    home = Path(os.path.realpath(Path(path).parent))
    return home == Path("/dev") or home.is_relative_to("/dev/fd") or home.is_relative_to("/proc")


def require_no_pipe(path: str | PathLike[str]) -> None:
    """Raise `UnsafeFile` for a named pipe, whose opening waits for a writer, maybe for ever."""
    if Path(path).is_fifo() and not is_descriptor(path):
        raise UnsafeFile(
            f"{path} is a named pipe, which may have no writer. Write its content to a file, and give that."
        )


def read_bytes(path: Path, max_bytes: int) -> bytes:
    """The content of a file, or `UnsafeFile` if it is longer than `max_bytes` or than the memory, whatever it says."""
    require_no_pipe(path)
    require_room(path, path.stat().st_size, max_bytes)
    with path.open("rb") as file:
        return b"".join(chunks(file, path, max_bytes))


def unpacked(path: Path, max_bytes: int) -> bytes:
    """The content of a gzip file. Nothing is kept of one that unpacks to more than `max_bytes` or than there is memory.

    `UnsafeFile` then; what is damaged raises the errors of `gzip.open`: OSError, EOFError, zlib.error.
    """
    size = gzip_size(path, max_bytes)
    require_room(path, size, max_bytes)
    with gzip.open(path, "rb") as file:
        return b"".join(chunks(file, path, size))


def gzip_size(path: Path, max_bytes: int) -> int:
    """To how many bytes a gzip file unpacks, found by unpacking it piece by piece; errors as of `unpacked`."""
    with gzip.open(path, "rb") as file:
        return sum(map(len, chunks(file, path, max_bytes)))


def chunks(file: IO[bytes] | gzip.GzipFile, where: object, most: int) -> Iterator[bytes]:
    """The content of a file piece by piece; `UnsafeFile` once there were more than `most` bytes."""
    left = most
    while chunk := file.read(_CHUNK):
        left -= len(chunk)
        if left < 0:
            require_room(where, most - left, most)
        yield chunk


def lines_of(file: IO[str], where: object) -> Iterator[str]:
    """The lines of a text; `UnsafeFile` for one that is so long that the file is no text, before it is in memory."""
    number = 0
    while line := file.readline(_LONGEST):
        number += 1
        if len(line) == _LONGEST and not line.endswith("\n"):
            raise UnsafeFile(f"{where}, line {number} is longer than {_LONGEST} characters.")
        yield line


def parse_json(text: bytes, where: str | PathLike[str], *, nonfinite: bool = False) -> Any:
    """JSON in UTF-8 that means one thing: no key twice, no number beyond float64, no half of a character.

    Else `UnsafeFile`, which names `where`. NaN and Infinity, which are Python's and not JSON's, pass if `nonfinite`.
    """

    def constant(name: str) -> float:
        if not nonfinite:
            raise ValueError(f"{name} is no number of JSON")
        return float(name.replace("Infinity", "inf"))

    try:
        value = json.loads(
            text.decode("utf-8-sig"), object_pairs_hook=_unique, parse_int=_integer, parse_float=_float,
            parse_constant=constant,
        )  # fmt: skip
        if b"\\ud" in text.lower():
            json.dumps(value, ensure_ascii=False).encode("utf-8")  # refuses a surrogate without the other one
        _require_shallow(value)
    except (ValueError, RecursionError) as damaged:
        what = "brackets are nested too deeply" if isinstance(damaged, RecursionError) else damaged
        what = f"{what}; save it as UTF-8" if isinstance(damaged, UnicodeDecodeError) else what
        raise UnsafeFile(f"{where} is no JSON: {what}.") from damaged
    return value


def _require_shallow(value: Any) -> None:
    level = [value]
    for _ in range(_DEEPEST):
        within = ((one.values() if isinstance(one, dict) else one) for one in level if isinstance(one, list | dict))
        if not (level := [entry for entries in within for entry in entries if isinstance(entry, list | dict)]):
            return
    raise RecursionError


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            raise ValueError(f"the name {name[:80]!r} is there twice")
        found[name] = value
    return found


def _integer(digits: str) -> float:
    return int(digits) if len(digits) <= _INTEGER_DIGITS else _float(digits)


def _float(digits: str) -> float:
    value = float(digits)
    if np.isinf(value):
        raise ValueError(f"the number {digits[:40]} is beyond float64")
    return value


def numbers_of(value: Any) -> Array:
    """Nested lists of numbers as an array; the texts in `NONFINITE` stand for what JSON cannot write.

    `ValueError` for anything else among them, such as texts, true or null, and for lists of different lengths.
    """
    return np.array(_plain(value), dtype=np.float64)


def _plain(value: Any) -> Any:
    if isinstance(value, list):
        return [_plain(entry) for entry in value]
    if isinstance(value, str) and value in NONFINITE:
        return float(value)
    if value is None:
        raise ValueError("null, which many writers of JSON put for NaN, is no number")
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"{str(value)[:40]!r} is no number")
    return value
