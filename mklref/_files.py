"""Files: written whole or not at all; arrays and facts in one .npz, without pickle, sizes checked before allocation."""

from __future__ import annotations

import errno
import json
import os
import posixpath
import shutil
import struct
import tokenize
import zipfile
import zlib
from ast import literal_eval
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import BytesIO
from math import prod
from os import PathLike
from pathlib import Path
from secrets import token_hex
from typing import Any, BinaryIO

import numpy as np

from mklref._untrusted import is_descriptor, limit, parse_json, require_no_pipe, require_room
from mklref._validate import shown
from mklref.exceptions import InvalidParameter, InvalidType, MKLError, UnsafeFile

SUFFIXES = (".npz", ".mat", ".h5", ".hdf5", ".json")
"""What the names of arrays in files end in; nothing is written under the name of another format than it has."""
_FACTS = "facts"
_PART = ".part"
_DESCRIPTORS = Path("/proc/self/fd")
_OWNERS = {
    "mklref-solution-1": "mklref.Solution",
    "mklref-solution-2": "mklref.Solution",
    "mklref-signed-1": "mklref.signed.SignedSolution",
    "mklref-synthesis-1": "mklref.synthesis.SynthesisSolution",
}
"""Who reads which format."""
_MAX_HEADER = 1 << 16
_KINDS = "biufUS"
"""Booleans, integers, floats and texts: what this package writes."""
_CHUNK = 1 << 20
_LAST_CHARACTER, _SURROGATES = 0x10FFFF, (0xD800, 0xDFFF)

_ARCHIVE_DAMAGE = (
    zipfile.BadZipFile,
    zlib.error,
    EOFError,
    OSError,
    MemoryError,
    RuntimeError,
    ValueError,
    struct.error,
)
"""What zipfile raises on damage, depending on the byte that is wrong."""
_HEADER_DAMAGE = (Warning, ValueError, SyntaxError, tokenize.TokenError, RecursionError, MemoryError)
"""What NumPy's parser of headers raises on damage."""


@contextmanager
def replacing(path: str | PathLike[str]) -> Iterator[BinaryIO]:
    """A binary file to write, which is at `path` when the context ends, in place of what was there.

    Its bytes go to a file without a name, which is synced to the disk, called `.mklref-*.part` beside it, and renamed
    at once. So whenever the process or the machine dies, the old file or the new one is there, whole; after an
    exception, a full disk among them, it is the old one, and nothing is left beside it. Where the system has no files
    without a name (Linux has them on its own file systems), the hidden one is there from the beginning, and a process
    that is killed leaves it. Owner, mode and access lists are those of the old file. A link is followed. A device, a
    pipe or a descriptor such as /dev/stdout holds nothing to lose, and is written as it stands.

    `OSError` names the file, as that of `open` does; `InvalidType` and `InvalidParameter` what is no path.
    """
    checked_path(path)
    try:
        with _stream(path) if is_stream(path) else _beside(Path(os.path.realpath(path))) as file:
            yield file
    except OSError as error:
        ours = any(str(name).endswith(_PART) for name in (error.filename, error.filename2))
        if error.errno is not None and (error.filename is None or ours):
            error.filename = os.fspath(path)
            del error.filename2  # None would be shown
        raise


def ending(path: str | PathLike[str]) -> str:
    """What the name of a file ends in, such as ".npz", in small letters: capital ones say the same everywhere."""
    return Path(path).suffix.lower()


def require_ending(path: str | PathLike[str], own: str) -> None:
    """Raise `InvalidParameter` for a name that promises another of the `SUFFIXES` than the format that is written."""
    if ending(checked_path(path)) in {*SUFFIXES} - {own}:
        hint = " mklref.testing.vectors.write_record writes arrays in other formats." if own == ".npz" else ""
        raise InvalidParameter(f"path = {os.fspath(path)!r}, and this writes {own[1:].upper()}; end it in {own}.{hint}")


def is_stream(path: str | PathLike[str]) -> bool:
    """Whether there is something at `path` that cannot be replaced: a device, a pipe, a descriptor, a directory."""
    file = Path(path)
    return file.exists() and (is_descriptor(file) or not file.is_file())


def write_text(path: str | PathLike[str], text: str) -> None:
    """Write a text in UTF-8, whole or not at all: see `replacing`."""
    content = text.encode()
    with replacing(path) as file:
        file.write(content)


def write_arrays(path: str | PathLike[str], arrays: dict[str, Any], facts: dict[str, Any]) -> None:
    """Write arrays and JSON facts to one compressed .npz file at exactly this path, as `replacing` writes.

    `InvalidParameter` for a name that ends as those of other formats do: .mat, .h5, .hdf5, .json.
    """
    require_ending(path, ".npz")
    members = _members(arrays, facts)
    with replacing(path) as file:
        if is_stream(path):  # /dev/null has no positions, though it says it had
            file.write(packed_arrays(arrays, facts))
        else:
            np.savez_compressed(file, **members)


def packed_arrays(arrays: dict[str, Any], facts: dict[str, Any]) -> bytes:
    """What `write_arrays` writes, for a file within a file."""
    content = BytesIO()
    np.savez_compressed(content, **_members(arrays, facts))
    return content.getvalue()


def read_arrays(path: str | PathLike[str], *, max_bytes: int | None = None) -> tuple[dict[str, Any], dict[str, Any]]:
    """Read arrays and facts; a file without facts yields an empty dictionary. The one reader of NPZ of this package.

    It may unpack to max_bytes, by default `MKLREF_MAX_BYTES` of the environment, or 4 GiB. `UnsafeFile` is raised for
    what is no zip, truncated, holds pickled objects, unpacks to more than that or than there is memory, claims another
    size than it has, or holds two arrays of one name; `InvalidType` for what is no path; `OSError` as `open` does.
    """
    require_no_pipe(checked_path(path))
    with open(path, "rb") as file:  # noqa: PTH123  (any path-like; its errors are the caller's, not damage)
        return read_archive(file, path, max_bytes)


def read_archive(
    file: BinaryIO, path: str | PathLike[str], max_bytes: int | None = None
) -> tuple[dict[str, Any], dict[str, Any]]:
    """As `read_arrays`, from an open file, which is called `path` in errors."""
    try:
        with zipfile.ZipFile(file) as archive:
            members = archive.infolist()
            require_room(path, sum(info.file_size for info in members), limit(max_bytes))
            _require_distinct(members, path)
            arrays = {_key(info): _read_member(archive, info, path) for info in members}
    except MKLError:
        raise
    except _ARCHIVE_DAMAGE as damaged:
        what = str(damaged).rstrip(".") or "it ends too early"
        raise UnsafeFile(f"{path} is not a readable .npz file: {what}.") from damaged
    return arrays, _facts(arrays.pop(_FACTS, None), path)


def require_format(path: str | PathLike[str], found: Any, *expected: str) -> None:
    """Raise `UnsafeFile` if a file has another format, with the name of the type that reads it."""
    if found not in expected:
        owner = _OWNERS.get(str(found))
        hint = f" It holds a {owner.rpartition('.')[2]}: load it with {owner}.load." if owner else ""
        if str(found).rpartition("-")[0] in {name.rpartition("-")[0] for name in expected}:
            hint = " A newer version of mklref wrote it: update this one."
        raise UnsafeFile(f"{path} has format {found!r}; this version reads {' and '.join(map(repr, expected))}.{hint}")


@contextmanager
def well_formed(path: str | PathLike[str], what: str) -> Iterator[None]:
    """Within it, whatever does not fit in the content of a file is an `UnsafeFile`: this is not `what` it should be."""
    try:
        yield
    except UnsafeFile:
        raise
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError) as damaged:
        raise UnsafeFile(f"{path} is not {what}: {damaged!r}.") from damaged


def _members(arrays: dict[str, Any], facts: dict[str, Any]) -> dict[str, Any]:
    return {**arrays, _FACTS: np.frombuffer(json.dumps(facts).encode(), dtype=np.uint8)}


def _stream(path: str | PathLike[str]) -> BinaryIO:
    """A device, pipe or descriptor, open for writing. Of a pipe that nobody reads the opening would wait for ever."""
    if not Path(path).is_fifo():
        return Path(path).open("wb")
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_NONBLOCK)
    except OSError as error:
        if error.errno == errno.ENXIO:
            error.strerror = "a pipe that nobody reads"
        raise
    os.set_blocking(descriptor, True)
    return os.fdopen(descriptor, "wb")


@contextmanager
def _beside(file: Path) -> Iterator[BinaryIO]:
    if file.exists() and not os.access(file, os.W_OK):
        raise PermissionError(errno.EACCES, "protected from writing", str(file))
    part = file.with_name(f".mklref-{token_hex(8)}{_PART}")
    nameless = _nameless(file.parent)
    try:
        with nameless or part.open("x+b") as written:
            here = part if nameless is None else _DESCRIPTORS / str(written.fileno())
            if file.exists():
                _inherit(file, here)
            yield written
            written.flush()
            os.fsync(written.fileno())
            if nameless is not None:  # a descriptor of its own makes `os.link` follow the link that `here` is
                os.link(here, part, src_dir_fd=written.fileno())
        part.replace(file)
    except BaseException:
        with suppress(OSError):  # that of the writing is the one to hear of
            part.unlink()
        raise
    _sync_directory(file.parent)


def _nameless(directory: Path) -> BinaryIO | None:
    """A new file in this directory that is gone with the process until it has a name; None where there are none."""
    if not hasattr(os, "O_TMPFILE") or not _DESCRIPTORS.is_dir():
        return None
    try:
        return os.fdopen(os.open(directory, os.O_TMPFILE | os.O_RDWR, 0o666), "w+b")
    except OSError:  # a file system that has none; what else is wrong with the directory, the named file will tell
        return None


def _inherit(old: Path, new: Path) -> None:
    """Owner, mode, and extended attributes, which hold the access lists, as far as the file system has them."""
    state = old.stat()
    if hasattr(os, "chown") and (state.st_uid, state.st_gid) != (new.stat().st_uid, new.stat().st_gid):
        with suppress(PermissionError):  # only root gives files away
            os.chown(new, state.st_uid, state.st_gid)
    with suppress(PermissionError):  # a file of one's own refuses a mode where the file system has none, as FAT
        shutil.copystat(old, new)


def _sync_directory(directory: Path) -> None:
    """Make a renaming last; where directories cannot be synced, the file system decides when it does."""
    with suppress(OSError):
        descriptor = os.open(directory, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def checked_path(path: Any) -> Path:
    """The path of a file by its name; `InvalidType` for anything else, as a number, which `open` takes.

    `InvalidParameter` for a name that no file can have: with a NUL, or with half a character.
    """
    if not isinstance(path, str | PathLike):
        raise InvalidType(f"path is {shown(path)}; give the name of a file.")
    try:
        possible = b"\0" not in os.fsencode(path)
    except UnicodeEncodeError:
        possible = False
    if not possible:
        raise InvalidParameter(f"path is {os.fspath(path)!r}, a name that no file can have; leave out its escapes.")
    return Path(path)


def _facts(text: Any, path: str | PathLike[str]) -> dict[str, Any]:
    if text is None:
        return {}
    if text.dtype != np.uint8 or text.ndim != 1:
        raise UnsafeFile(f"{path} carries facts as {text.dtype} of shape {text.shape}; expected the bytes of a text.")
    facts = parse_json(text.tobytes(), f"{path}, member {_FACTS!r}", nonfinite=True)
    if not isinstance(facts, dict):
        raise UnsafeFile(f"{path} carries facts of type {type(facts).__name__}; expected an object.")
    return facts


def _key(info: zipfile.ZipInfo) -> str:
    return info.filename.removesuffix(".npy")


def _require_distinct(members: list[zipfile.ZipInfo], path: str | PathLike[str]) -> None:
    """One member for each name: of `y.npy` twice, or beside `y` or `./y.npy`, every reader takes another one."""
    paths = (posixpath.normpath(_key(info).replace("\\", "/").lstrip("/")) for info in members)
    for name, count in Counter(paths).items():
        if count > 1:
            raise UnsafeFile(f"{path} holds {count} arrays of the name {name!r}; readers differ in which they take.")


def _read_member(archive: zipfile.ZipFile, info: zipfile.ZipInfo, path: str | PathLike[str]) -> Any:
    """One array, after its header has been compared with the size that the archive declares."""
    where = f"{path}, member {info.filename!r}"
    if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise UnsafeFile(f"{where} is packed by a method that NumPy does not write.")
    with archive.open(info) as member:
        try:
            shape, fortran_order, dtype = _read_header(member)
        except _HEADER_DAMAGE as damaged:
            raise UnsafeFile(f"{where} is not an array: {damaged}.") from damaged
        if dtype.hasobject:
            raise UnsafeFile(
                f"{where} holds pickled Python objects, which are never loaded; save plain numeric arrays."
            )
        if dtype.kind not in _KINDS or dtype.itemsize == 0:
            raise UnsafeFile(f"{where} holds items of type {dtype}; expected plain numbers or text.")
        size, carried = dtype.itemsize * prod(shape), info.file_size - member.tell()
        if min(shape, default=0) < 0 or size != carried:
            raise UnsafeFile(f"{where} claims {size} bytes of data and carries {carried}.")
        data = np.empty(size, dtype=np.uint8)
        at = 0
        while chunk := member.read(_CHUNK):  # to the end, where the checksum is compared
            data[at : at + len(chunk)] = np.frombuffer(chunk, dtype=np.uint8)
            at += len(chunk)
    if at < size:
        raise UnsafeFile(f"{where} is damaged: it ends after {at} of {size} bytes.")
    _require_sound(data, dtype, where)
    return data.view(dtype).reshape(shape, order="F" if fortran_order else "C")


def _read_header(member: Any) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """NumPy's header of an array, if it is a literal: of others, as Python 2 wrote them, NumPy would only warn."""
    version = np.lib.format.read_magic(member)
    read, width = np.lib.format.read_array_header_2_0, 4
    if version == (1, 0):
        read, width = np.lib.format.read_array_header_1_0, 2
    size = member.read(width)
    text = member.read(min(int.from_bytes(size, "little"), _MAX_HEADER))
    try:
        literal_eval(text.decode("latin1"))
    except SyntaxError as none:
        raise ValueError(f"its header is no literal, as those of Python 2: {none}") from none
    found: tuple[tuple[int, ...], bool, np.dtype[Any]] = read(BytesIO(size + text), max_header_size=_MAX_HEADER)
    return found


def _require_sound(data: Any, dtype: Any, where: str) -> None:
    """Booleans are 0 or 1, and texts consist of characters."""
    if dtype.kind == "b" and data.max(initial=0) > 1:
        raise UnsafeFile(f"{where} is damaged: a byte of {data.max()} is neither true nor false.")
    if dtype.kind == "U":
        codes = data.view(np.dtype(np.uint32).newbyteorder(dtype.byteorder))
        if np.any((codes > _LAST_CHARACTER) | ((codes >= _SURROGATES[0]) & (codes <= _SURROGATES[1]))):
            raise UnsafeFile(f"{where} is damaged: it holds texts of what is no character.")
