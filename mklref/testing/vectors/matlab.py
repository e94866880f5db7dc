"""MAT files of version 5 to 7 (`save -v7` in MATLAB and Octave), read by SciPy after their structure was checked.

MATLAB counts the kernels last: there kernels is (n, n, M), and kernels(:, :, m) is K_m.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator, Mapping
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from mklref._files import replacing
from mklref.exceptions import InvalidInput, UnsafeFile
from mklref.testing.vectors.schema import Record

_HEADER = 128
_COMPRESSED, _MATRIX = 15, 14
_NUMERIC, _CHAR = range(6, 16), 4
"""mxDOUBLE_CLASS .. mxUINT64_CLASS, and mxCHAR_CLASS; cells, structures, objects and functions are not read."""
_LOGICAL = 0x02


def write(path: Path, record: Mapping[str, Any]) -> None:
    """A compressed MAT file of version 7."""
    from scipy.io import savemat

    variables = {name: np.moveaxis(value, 0, -1) if name == "kernels" else value for name, value in record.items()}
    with replacing(path) as file:
        savemat(file, variables, do_compression=True, oned_as="column")


def read(path: Path, max_bytes: int) -> Record:
    """Numbers and texts of a MAT file.

    Raises
    ------
    UnsafeFile
        Not a MAT file of version 5 to 7, truncated, unpacking to more than max_bytes, or holding anything but numbers
        and texts.
    InvalidInput
        Kernels that are not (n, n, M).
    """
    from scipy.io import loadmat

    if path.stat().st_size > max_bytes:
        raise UnsafeFile(f"{path} has {path.stat().st_size} bytes; at most {max_bytes} are read.")
    _require_sound(path.read_bytes(), path, max_bytes)
    try:
        found = loadmat(path, appendmat=False)
    except (ValueError, TypeError, OSError, NotImplementedError, zlib.error) as damaged:
        raise UnsafeFile(f"{path} is damaged: {damaged}.") from damaged
    return {name: _inwards(name, value) for name, value in found.items() if not name.startswith("__")}


def _inwards(name: str, value: Any) -> Any:
    if value.dtype.kind == "U":
        return "" if not value.size else str(value.ravel()[0])
    if name == "kernels":  # MATLAB drops a last axis of length 1
        stack = value if value.ndim == 3 else value[:, :, None]
        if stack.shape[0] != stack.shape[1]:
            raise InvalidInput(f"kernels has shape {value.shape}; MATLAB counts the kernels last, (n, n, M).")
        return np.moveaxis(stack, -1, 0)
    if name == "regularizer_E":
        return value
    return value.ravel() if value.size > 1 else value.ravel()[0] if value.size else value.ravel()


def _require_sound(data: bytes, path: Path, max_bytes: int) -> None:
    """Every size that the file declares fits into what it carries."""
    if len(data) < _HEADER or data[126:128] not in (b"IM", b"MI"):
        raise UnsafeFile(f"{path} is not a MAT file of version 5 to 7; use save('-v7', ...) or HDF5.")
    order = "<" if data[126:128] == b"IM" else ">"
    left = max_bytes
    for kind, content in _elements(data[_HEADER:], order, path):
        unpacked = content
        if kind == _COMPRESSED:
            engine = zlib.decompressobj()
            try:
                unpacked = engine.decompress(content, left)
            except zlib.error as damaged:
                raise UnsafeFile(f"{path} is damaged: {damaged}.") from damaged
            if engine.unconsumed_tail:
                raise UnsafeFile(f"{path} unpacks to more than {max_bytes} bytes.")
            if not engine.eof:
                raise UnsafeFile(f"{path} is truncated.")
        left = max(left - len(unpacked), 1)
        inner = _elements(unpacked, order, path) if kind == _COMPRESSED else iter([(kind, content)])
        for inner_kind, matrix in inner:
            if inner_kind != _MATRIX:
                raise UnsafeFile(f"{path} holds an element of type {inner_kind}; expected matrices.")
            _require_plain(list(_elements(matrix, order, path)), order, path)


def _require_plain(parts: list[tuple[int, bytes]], order: str, path: Path) -> None:
    """Flags, dimensions, name, and as many numbers as the dimensions say."""
    if len(parts) < 3 or len(parts[0][1]) < 4 or len(parts[1][1]) % 4:
        raise UnsafeFile(f"{path} holds a matrix without flags, dimensions or name.")
    kind = struct.unpack(f"{order}I", parts[0][1][:4])[0] & 0xFF
    name = parts[2][1].decode("latin-1")
    shape = struct.unpack(f"{order}{len(parts[1][1]) // 4}i", parts[1][1])
    if kind not in _NUMERIC and kind != _CHAR:
        raise UnsafeFile(f"{path}: {name!r} is of MATLAB class {kind}; only full arrays of numbers and texts are read.")
    carried = len(parts[3][1]) if len(parts) > 3 else 0
    if min(shape, default=0) < 0 or prod(shape) > carried:
        raise UnsafeFile(f"{path}: {name!r} claims the shape {shape} and carries {carried} bytes.")


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
