"""MAT files of version 5 to 7 (`save -v7` in MATLAB and Octave), read by SciPy after their structure was checked.

MATLAB counts the kernels last: there kernels is (n, n, M), and kernels(:, :, m) is K_m.
"""

from __future__ import annotations

import struct
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping
from io import BytesIO
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from mklref._files import replacing
from mklref._untrusted import LIMIT, read_bytes, require_room
from mklref.exceptions import InvalidInput, UnsafeFile
from mklref.testing.vectors.schema import Record, flattened

_HEADER = 128
_PIECE = 1 << 20
_COMPRESSED, _MATRIX = 15, 14
_NUMERIC, _CHAR = range(6, 16), 4
"""mxDOUBLE_CLASS .. mxUINT64_CLASS, and mxCHAR_CLASS."""
_OTHERS = {
    1: "a cell array (one of matrices is cat(3, c{:}) in numbers)",
    2: "a structure (save -struct writes its fields)",
    3: "an object",
    5: "a sparse matrix (write full(A))",
    17: "an object, such as a text in double quotes (write char(text))",
}
"""Other classes, which are not read."""
_COMPLEX = 0x0800
"""The flag of a matrix with imaginary parts."""
_NUMBERS = {1: 1, 2: 1, 3: 2, 4: 2, 5: 4, 6: 4, 7: 4, 9: 8, 12: 8, 13: 8}
"""Bytes of miINT8 .. miUINT64, by which MATLAB stores numbers, often in a smaller type than that of their class."""
_UTF8 = 16
_CHARACTERS = {1: 1, 2: 1, 3: 2, 4: 2, _UTF8: 1, 17: 2, 18: 4}
"""Bytes of a character in miINT8 .. miUINT16 and miUTF8 .. miUTF32."""


def write(path: Path, record: Mapping[str, Any]) -> None:
    """A compressed MAT file of version 7."""
    from scipy.io import savemat

    variables = {name: np.moveaxis(value, 0, -1) if name == "kernels" else value for name, value in record.items()}
    with replacing(path) as file:
        savemat(file, variables, do_compression=True, oned_as="column")


def read(path: Path, max_bytes: int) -> Record:
    """Numbers and texts of a MAT file.

    `UnsafeFile` for what is no MAT file of version 5 to 7, is truncated, unpacks to more than max_bytes, or holds
    anything but numbers and texts; `InvalidInput` for kernels that are not (n, n, M).
    """
    from scipy.io import loadmat

    data = read_bytes(path, max_bytes)
    _require_sound(data, path, max_bytes)
    try:
        found = loadmat(BytesIO(data))
    except (ValueError, TypeError, OSError, NotImplementedError, MemoryError, zlib.error) as damaged:
        raise UnsafeFile(f"{path} is damaged: {damaged}.") from damaged
    return {name: _inwards(name, value, path) for name, value in found.items() if not name.startswith("__")}


def _inwards(name: str, value: Any, path: Path) -> Any:
    if value.dtype.kind == "U":
        if value.size > 1:
            raise UnsafeFile(f"{path}: {name!r} is a matrix of characters with {value.size} rows; expected one text.")
        return "" if not value.size else str(value.ravel()[0])
    if name == "kernels":  # MATLAB drops a last axis of length 1
        stack = value if value.ndim == 3 else value[:, :, None]
        if stack.shape[0] != stack.shape[1]:
            raise InvalidInput(f"{path}: kernels has shape {value.shape}; MATLAB counts the kernels last, (n, n, M).")
        return np.moveaxis(stack, -1, 0)
    return flattened(name, value)


def _require_sound(data: bytes, path: Path, max_bytes: int) -> None:
    """Every size that the file declares fits into what it carries."""
    if len(data) < _HEADER or data[126:128] not in (b"IM", b"MI"):
        raise UnsafeFile(f"{path} is not a MAT file of version 5 to 7; use save('-v7', ...) or HDF5.")
    order = "<" if data[126:128] == b"IM" else ">"
    left, names = max_bytes, []
    for kind, content in _elements(data[_HEADER:], order, path):
        inner = iter([(kind, content)])
        if kind == _COMPRESSED:
            unpacked = _unpacked(content, left, path)
            left -= len(unpacked)
            inner = _elements(unpacked, order, path)
        for inner_kind, matrix in inner:
            if inner_kind != _MATRIX:
                raise UnsafeFile(f"{path} holds an element of type {inner_kind}; expected matrices.")
            names.append(_plain_name(list(_elements(matrix, order, path)), order, path))
    for name, count in Counter(names).items():
        if count > 1:
            raise UnsafeFile(f"{path} holds {count} variables of the name {name!r}.")


def _unpacked(content: bytes, left: int, path: Path) -> bytes:
    """What a packed element holds, at most `left` bytes; unpacked piece by piece first, to know how much it is."""
    engine, size, rest = zlib.decompressobj(), 0, content
    try:
        while not engine.eof:
            piece = engine.decompress(rest, _PIECE)
            size, rest = size + len(piece), engine.unconsumed_tail
            if size > left:
                raise UnsafeFile(f"{path} unpacks to more than the {left} bytes that are read; set {LIMIT} for more.")
            if not (piece or rest or engine.eof):
                raise UnsafeFile(f"{path} is truncated.")
        if engine.unused_data:
            raise UnsafeFile(f"{path} is damaged: bytes follow the end of a packed element.")
        require_room(path, size, left)
        return zlib.decompress(content)
    except zlib.error as damaged:
        raise UnsafeFile(f"{path} is damaged: {damaged}.") from damaged


def _plain_name(parts: list[tuple[int, bytes]], order: str, path: Path) -> str:
    """The name of a matrix with flags, dimensions, and as many real numbers or characters as the dimensions say."""
    if len(parts) < 3 or len(parts[0][1]) < 4 or len(parts[1][1]) % 4:
        raise UnsafeFile(f"{path} holds a matrix of {len(parts)} parts; expected flags, dimensions, name and numbers.")
    flags = struct.unpack(f"{order}I", parts[0][1][:4])[0]
    kind = flags & 0xFF
    name = parts[2][1].decode("latin-1")
    shape = struct.unpack(f"{order}{len(parts[1][1]) // 4}i", parts[1][1])
    if name.startswith("__"):
        raise UnsafeFile(f"{path}: {name!r} is no name of a variable.")
    if kind not in _NUMERIC and kind != _CHAR:
        what = _OTHERS.get(kind, f"of MATLAB class {kind}")
        raise UnsafeFile(f"{path}: {name!r} is {what}; only full arrays of numbers and texts are read.")
    if not 4 <= len(parts) <= 5:
        raise UnsafeFile(f"{path}: {name!r} has {len(parts)} parts; expected flags, dimensions, name and numbers.")
    if flags & _COMPLEX or len(parts) == 5:
        raise UnsafeFile(f"{path}: {name!r} holds complex numbers; only real ones are read.")
    stored, content = parts[3]
    width = (_CHARACTERS if kind == _CHAR else _NUMBERS).get(stored)
    if width is None:
        raise UnsafeFile(f"{path}: {name!r}, of MATLAB class {kind}, is stored as items of type {stored}.")
    size, carried = prod(shape), len(content)
    fits = width * size == carried or (stored == _UTF8 and size <= carried)  # there a character has one byte to four
    if len(shape) < 2 or min(shape) < 0 or not fits:
        raise UnsafeFile(f"{path}: {name!r} claims the shape {shape} and carries {carried} bytes.")
    return name


def _elements(data: bytes, order: str, path: Path) -> Iterator[tuple[int, bytes]]:
    """(type, content) of each data element; small ones share their tag with up to four bytes."""
    at = 0
    while at < len(data):
        if at + 8 > len(data):
            raise UnsafeFile(f"{path} is truncated.")
        kind, size = struct.unpack(f"{order}II", data[at : at + 8])
        if kind >> 16:
            small, size, start = kind & 0xFFFF, kind >> 16, at + 4
            kind, end = small, at + 8
            if size > 4:
                raise UnsafeFile(f"{path} is damaged: a small element of {size} bytes.")
        else:
            start = at + 8
            end = start + size + (0 if kind == _COMPRESSED else -size % 8)
        if start + size > len(data):
            raise UnsafeFile(f"{path}: an element claims {size} bytes and has {len(data) - start}.")
        yield kind, data[start : start + size]
        at = end
