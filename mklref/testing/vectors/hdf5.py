"""HDF5, and the MAT files of version 7.3, which are HDF5 with the axes in reverse; needs the extra `hdf5`."""

from __future__ import annotations

from collections.abc import Mapping
from io import BytesIO
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from mklref._files import replacing
from mklref._untrusted import require_room
from mklref._validate import required
from mklref.exceptions import MKLError, UnsafeFile
from mklref.testing.vectors.schema import Record, flattened

_SIGNATURE = b"\x89HDF\r\n\x1a\n"
_MATLAB_HEADER = 512
_OF_MATLAB = ("#refs#", "#subsystem#")
"""Groups in which MATLAB keeps what cells and objects refer to."""


def is_hdf5(path: Path) -> bool:
    """Whether the file starts as HDF5 does, perhaps after the header that MATLAB puts before it."""
    with path.open("rb") as file:
        start = file.read(_MATLAB_HEADER + len(_SIGNATURE))
    return start.startswith(_SIGNATURE) or start[_MATLAB_HEADER:] == _SIGNATURE


def require_extra() -> Any:
    """The module h5py, or `MissingExtra`."""
    says = "HDF5 files need h5py: pip install 'mklref[hdf5]'; or write NPZ, MAT of version 7, or JSON."
    return required("h5py", says)


def write(path: Path, record: Mapping[str, Any]) -> None:
    """One data set for each entry."""
    h5py = require_extra()
    content = BytesIO()  # HDF5 in place of a disk that may fill up: an error in its callbacks can end the process
    with h5py.File(content, "w") as file:
        for name, value in record.items():
            file.create_dataset(name, data=str(value) if isinstance(value, str) else value)  # NumPy's texts are refused
    with replacing(path) as written:
        written.write(content.getbuffer())


def read(path: Path, max_bytes: int) -> Record:
    """Numbers and texts of the root group.

    `UnsafeFile` for what is no HDF5 file, for links to other files, data kept in other files, or more than max_bytes.
    """
    h5py = require_extra()
    path.stat()  # what is not there is named as `open` does, and not by h5py
    try:
        with h5py.File(path, "r") as file:
            matlab = file.userblock_size == _MATLAB_HEADER
            datasets = {name: _plain_dataset(file, name, path) for name in file if not (matlab and name in _OF_MATLAB)}
            require_room(path, sum(_size(dataset) for dataset in datasets.values()), max_bytes)
            return {name: _value(dataset, name, path, matlab) for name, dataset in datasets.items()}
    except (FileNotFoundError, PermissionError, MKLError):
        raise
    except (OSError, RuntimeError, LookupError, ArithmeticError, MemoryError, TypeError, ValueError) as damaged:
        raise UnsafeFile(f"{path} is not a readable HDF5 file: {damaged}.") from damaged


def _plain_dataset(file: Any, name: str, path: Path) -> Any:
    h5py = require_extra()
    if not isinstance(file.get(name, getlink=True), h5py.HardLink):
        raise UnsafeFile(f"{path}: {name!r} is a link; only data in the file itself are read.")
    dataset = file[name]
    if not isinstance(dataset, h5py.Dataset):
        raise UnsafeFile(
            f"{path}: {name!r} is a {type(dataset).__name__.lower()}; expected numbers or a text (Octave: save -v7)."
        )
    if dataset.external or dataset.is_virtual:
        raise UnsafeFile(f"{path}: {name!r} is kept in another file; only data in the file itself are read.")
    return dataset


def _size(dataset: Any) -> int:
    """Bytes in memory; a data set without a space of its own, h5py.Empty, has none."""
    return 0 if dataset.shape is None else prod(dataset.shape) * dataset.dtype.itemsize


def _value(dataset: Any, name: str, path: Path, matlab: bool) -> Any:
    h5py = require_extra()
    if dataset.shape is None:
        raise UnsafeFile(f"{path}: {name!r} is empty, without a shape; leave it out, or write numbers.")
    if h5py.check_string_dtype(dataset.dtype) is not None and dataset.size == 1:  # R writes a vector of one text
        return np.ravel(dataset.asstr()[()]).item()
    if dataset.dtype.kind not in "biuf":
        raise UnsafeFile(f"{path}: {name!r} holds items of type {dataset.dtype}; expected numbers or a text.")
    array = dataset[()]
    if matlab and "MATLAB_empty" in dataset.attrs:  # what it holds is its shape
        array = np.zeros(0)
    if matlab and dataset.attrs.get("MATLAB_class") == b"char":
        if array.size and (array.dtype.kind != "u" or array.ndim != 2 or array.shape[1] != 1):
            raise UnsafeFile(f"{path}: {name!r}, {array.dtype} of shape {array.shape}, is not one row of characters.")
        return array.astype(np.uint16).tobytes().decode("utf-16")
    if np.ndim(array) == 0:
        return array
    if name == "kernels":  # M slices of symmetric matrices: MATLAB's axes in reverse are (M, n, n)
        return array if array.ndim == 3 else array[None]
    return flattened(name, array.T) if matlab else array
