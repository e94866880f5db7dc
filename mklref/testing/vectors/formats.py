"""NPZ, MAT, HDF5, and JSON with CSV: the same record in each; nothing is unpickled, and sizes are checked first."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from os import PathLike
from typing import Any, TypeVar

import numpy as np

from mklref._files import SUFFIXES, checked_path, ending, is_stream, read_arrays, write_arrays
from mklref._untrusted import limit, require_no_pipe
from mklref.exceptions import InvalidInput, MKLError, UnsafeFile
from mklref.problem import Problem
from mklref.testing.answer import Answer
from mklref.testing.vectors import hdf5, matlab, plain
from mklref.testing.vectors.schema import Record, answer_from_record, problem_from_record

Content = TypeVar("Content")


def read_record(path: str | PathLike[str], *, max_bytes: int | None = None) -> Record:
    """Read a problem or a solution; the suffix says how. What comes from /dev/stdin, or <(...) of a shell, is JSON.

    Parameters
    ----------
    path : path
    max_bytes : int, optional
        What the file may unpack to; by default `MKLREF_MAX_BYTES` of the environment, or 4 GiB.

    Raises
    ------
    InvalidInput
        An unknown suffix.
    UnsafeFile
        Damaged and hostile files, and a named pipe, which may have no writer.
    MissingExtra
        An HDF5 file, and h5py is not installed.
    OSError
        As `open` does.
    """
    file, most = checked_path(path), limit(max_bytes)
    suffix = ending(file)
    require_no_pipe(file)
    if suffix == ".npz":
        arrays, facts = read_arrays(file, max_bytes=most)
        for name in arrays.keys() & facts.keys():
            raise UnsafeFile(f"{path} has {name!r} as an array and among its facts.")
        texts = {name: array.item() for name, array in arrays.items() if array.dtype.kind == "U" and array.size == 1}
        return {**facts, **arrays, **texts}
    if suffix == ".mat" and not hdf5.is_hdf5(file):
        return matlab.read(file, most)
    if suffix in (".mat", ".h5", ".hdf5"):
        return hdf5.read(file, most)
    if suffix == ".json" or (is_stream(file) and not file.is_dir()):
        return plain.read(file, most)
    file.stat()  # what is not there has no format
    raise InvalidInput(f"{path}: unknown format; the suffixes are {', '.join(SUFFIXES)}.")


def read_problem(path: str | PathLike[str]) -> Problem:
    """The problem in a file; errors as of `read_record` and `problem_from_record`, with the name of the file."""
    return read_as(path, problem_from_record)


def read_answer(path: str | PathLike[str]) -> Answer:
    """The answer in a file; errors as of `read_record` and `answer_from_record`, with the name of the file."""
    return read_as(path, answer_from_record)


def read_as(path: str | PathLike[str], convert: Callable[[Record], Content]) -> Content:
    """What a file holds, converted; errors as of `read_record` and of the conversion, with the name of the file."""
    record = read_record(path)
    try:
        return convert(record)
    except MKLError as error:
        raise type(error)(f"{path}: {error}") from error


def write_record(path: str | PathLike[str], record: Mapping[str, Any]) -> None:
    """Write a record; the suffix says how. JSON writes its arrays of more than one axis as CSV files beside it."""
    file = checked_path(path)
    suffix = ending(file)
    if suffix == ".npz":
        arrays = {name: np.asarray(value) for name, value in record.items() if not isinstance(value, str)}
        write_arrays(file, arrays, {name: value for name, value in record.items() if isinstance(value, str)})
    elif suffix == ".mat":
        matlab.write(file, record)
    elif suffix in (".h5", ".hdf5"):
        hdf5.write(file, record)
    elif suffix == ".json":
        plain.write(file, record)
    else:
        raise InvalidInput(f"{path}: unknown format; the suffixes are {', '.join(SUFFIXES)}.")
