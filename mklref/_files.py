"""Arrays and facts in one .npz file, written and read without pickle, sizes checked before allocation."""

from __future__ import annotations

import json
import tokenize
import zipfile
import zlib
from io import BytesIO
from math import prod
from os import PathLike
from typing import Any

import numpy as np

from mklref.exceptions import InvalidType, UnsafeFile

_FACTS = "facts"
_OWNERS = {
    "mklref-solution-1": "mklref.Solution",
    "mklref-synthesis-1": "mklref.synthesis.SynthesisSolution",
}
"""Who reads which format."""
_MAX_BYTES = 64 * 2**30
"""What a file may unpack to: beyond this it is taken for an attack or a mistake."""
_MAX_HEADER = 1 << 16

_ARCHIVE_DAMAGE = (zipfile.BadZipFile, zlib.error, EOFError, OSError, RuntimeError, ValueError)
"""What zipfile raises on damage, depending on the byte that is wrong."""
_HEADER_DAMAGE = (ValueError, SyntaxError, tokenize.TokenError, RecursionError, MemoryError)
"""What NumPy's parser of headers raises on damage."""


def write_arrays(path: str | PathLike[str], arrays: dict[str, Any], facts: dict[str, Any]) -> None:
    """Write arrays and JSON facts to one compressed .npz file at exactly this path.

    Raises
    ------
    InvalidType
        No path, but for instance a number, which `open` takes for a descriptor.
    """
    _require_path(path)
    members: dict[str, Any] = {**arrays, _FACTS: np.frombuffer(json.dumps(facts).encode(), dtype=np.uint8)}
    with open(path, "wb") as file:  # noqa: PTH123  (np.savez appends .npz to a name, not to a file)
        np.savez_compressed(file, **members)


def read_arrays(path: str | PathLike[str], *, max_bytes: int = _MAX_BYTES) -> tuple[dict[str, Any], dict[str, Any]]:
    """Read arrays and facts; a file without facts yields an empty dictionary.

    Raises
    ------
    UnsafeFile
        Not a zip, truncated, holding pickled objects, unpacking to more than max_bytes, or claiming more data
        than it carries.
    FileNotFoundError, PermissionError
        As `open` does.
    InvalidType
        No path.
    """
    _require_path(path)
    with open(path, "rb") as file:  # noqa: PTH123  (any path-like; its errors are the caller's, not damage)
        try:
            with zipfile.ZipFile(file) as archive:
                members = archive.infolist()
                unpacked = sum(info.file_size for info in members)
                if unpacked > max_bytes:
                    raise UnsafeFile(f"{path} unpacks to {unpacked} bytes; at most {max_bytes} are read.")
                arrays = {_key(info): _read_member(archive, info, path) for info in members}
        except UnsafeFile:
            raise
        except _ARCHIVE_DAMAGE as damaged:
            raise UnsafeFile(f"{path} is not a readable .npz file: {damaged}.") from damaged
    return arrays, _facts(arrays.pop(_FACTS, None), path)


def require_format(path: str | PathLike[str], found: Any, expected: str) -> None:
    """Raise `UnsafeFile` if a file has another format, with the name of the type that reads it."""
    if found != expected:
        owner = _OWNERS.get(str(found))
        hint = f" It holds a {owner.rpartition('.')[2]}: load it with {owner}.load." if owner else ""
        raise UnsafeFile(f"{path} has format {found!r}; this version reads {expected!r}.{hint}")


def _require_path(path: Any) -> None:
    if not isinstance(path, str | PathLike):
        raise InvalidType(f"path is {path!r}; give the name of a file.")


def _facts(text: Any, path: str | PathLike[str]) -> dict[str, Any]:
    if text is None:
        return {}
    try:
        facts = json.loads(text.tobytes())
    except (ValueError, RecursionError) as damaged:
        raise UnsafeFile(f"{path} carries damaged facts: {damaged}.") from damaged
    if not isinstance(facts, dict):
        raise UnsafeFile(f"{path} carries facts of type {type(facts).__name__}; expected an object.")
    return facts


def _key(info: zipfile.ZipInfo) -> str:
    return info.filename.removesuffix(".npy")


def _read_member(archive: zipfile.ZipFile, info: zipfile.ZipInfo, path: str | PathLike[str]) -> Any:
    """One array, after its header has been compared with the size that the archive declares."""
    where = f"{path}, member {info.filename!r}"
    if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise UnsafeFile(f"{where} is packed by a method that NumPy does not write.")
    with archive.open(info) as member:
        try:
            version = np.lib.format.read_magic(member)
            read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
            shape, _, dtype = read(member, max_header_size=_MAX_HEADER)
        except _HEADER_DAMAGE as damaged:
            raise UnsafeFile(f"{where} is not an array: {damaged}.") from damaged
    if dtype.hasobject:
        raise UnsafeFile(f"{where} holds pickled Python objects, which are never loaded; save plain numeric arrays.")
    if dtype.kind == "V" or dtype.itemsize == 0:
        raise UnsafeFile(f"{where} holds items of type {dtype}; expected plain numbers or text.")
    size = dtype.itemsize * prod(shape)
    if size > info.file_size:
        raise UnsafeFile(f"{where} claims {size} bytes of data and carries {info.file_size}.")
    try:
        return np.lib.format.read_array(BytesIO(archive.read(info)), allow_pickle=False)
    except ValueError as damaged:
        raise UnsafeFile(f"{where} is damaged: {damaged}.") from damaged
