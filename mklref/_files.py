"""Arrays and facts in one .npz file, written and read without pickle, sizes checked before allocation."""

from __future__ import annotations

import json
import zipfile
from io import BytesIO
from os import PathLike
from typing import Any

import numpy as np

from mklref.exceptions import UnsafeFile

_FACTS = "facts"
_MAX_BYTES = 64 * 2**30
"""Largest array that is read: beyond this a claimed size is taken for an attack or a mistake."""
_MAX_HEADER = 1 << 16


def write_arrays(path: str | PathLike[str], arrays: dict[str, Any], facts: dict[str, Any]) -> None:
    """Write arrays and JSON facts to one compressed .npz file at exactly this path."""
    text = np.frombuffer(json.dumps(facts).encode(), dtype=np.uint8)
    with open(path, "wb") as file:  # noqa: PTH123  (np.savez appends .npz to a name, not to a file)
        np.savez_compressed(file, allow_pickle=False, **arrays, **{_FACTS: text})


def read_arrays(path: str | PathLike[str]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Read arrays and facts; a file without facts yields an empty dictionary.

    Raises
    ------
    UnsafeFile
        Not a zip, truncated, holding pickled objects, or claiming more data than it carries.
    FileNotFoundError, PermissionError
        As `open` does.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            arrays = {_key(info): _read_member(archive, info, path) for info in archive.infolist()}
    except (zipfile.BadZipFile, EOFError, NotImplementedError) as damaged:
        raise UnsafeFile(f"{path} is not a readable .npz file: {damaged}.") from damaged
    text = arrays.pop(_FACTS, None)
    if text is None:
        return arrays, {}
    try:
        facts = json.loads(np.asarray(text, dtype=np.uint8).tobytes())
    except (ValueError, TypeError) as damaged:
        raise UnsafeFile(f"{path} carries damaged facts: {damaged}.") from damaged
    if not isinstance(facts, dict):
        raise UnsafeFile(f"{path} carries facts of type {type(facts).__name__}; expected an object.")
    return arrays, facts


def _key(info: zipfile.ZipInfo) -> str:
    return info.filename.removesuffix(".npy")


def _read_member(archive: zipfile.ZipFile, info: zipfile.ZipInfo, path: str | PathLike[str]) -> Any:
    """One array, after its header has been compared with the size that the archive declares."""
    where = f"{path}, member {info.filename!r}"
    with archive.open(info) as member:
        try:
            version = np.lib.format.read_magic(member)
            read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
            shape, _, dtype = read(member, max_header_size=_MAX_HEADER)
        except ValueError as damaged:
            raise UnsafeFile(f"{where} is not an array: {damaged}.") from damaged
    if dtype.hasobject:
        raise UnsafeFile(f"{where} holds pickled Python objects, which are never loaded; save plain numeric arrays.")
    size = dtype.itemsize * int(np.prod([int(length) for length in shape], dtype=object)) if shape else dtype.itemsize
    if size > min(info.file_size, _MAX_BYTES):
        raise UnsafeFile(f"{where} claims {size} bytes of data and carries {info.file_size}.")
    try:
        return np.lib.format.read_array(BytesIO(archive.read(info)), allow_pickle=False)
    except ValueError as damaged:
        raise UnsafeFile(f"{where} is damaged: {damaged}.") from damaged
