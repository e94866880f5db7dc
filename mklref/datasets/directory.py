"""Sets in a directory of one's own: MANIFEST.json, and for each set one table or the four files of MNIST.

    {"data_sets": [{"name": "sonar", "files": [{"path": "sonar/data.csv.gz", "sha256": "..."}]}, ...]}

A table is a CSV file with a header and the target in its last column; an empty cell is a missing value. A file
splits.npz beside it holds the realisations of a benchmark: arrays `train` and `test` with one row of row numbers,
counted from 0, for each.
"""

from __future__ import annotations

import gzip
import hashlib
import zlib
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from mklref._files import read_arrays
from mklref._untrusted import limit, parse_json, read_bytes, unpacked
from mklref.datasets.record import Dataset, Split
from mklref.datasets.table import read_csv
from mklref.exceptions import DataUnavailable, UnsafeFile

DIRECTORY = "MKLREF_DATA"
"""Environment variable that names the directory."""

MANIFEST = "MANIFEST.json"
TABLE, SPLITS = ".csv.gz", "splits.npz"
IDX = ("train-images-idx3", "train-labels-idx1", "t10k-images-idx3", "t10k-labels-idx1")


def manifest(directory: Path) -> dict[str, dict[str, Any]]:
    """The entries of MANIFEST.json that hold one table or MNIST, by name.

    `DataUnavailable` if there is no manifest, `UnsafeFile` if it is none.
    """
    path = directory / MANIFEST
    if not path.is_file():
        raise DataUnavailable(
            f"{DIRECTORY} is {str(directory)!r}, where there is no {MANIFEST}: set it to a directory of data sets, "
            "or unset it to fetch the sets of the papers."
        )
    facts = parse_json(read_bytes(path, limit()), path)
    sets = facts.get("data_sets") if isinstance(facts, dict) else None
    if not isinstance(sets, list) or not all(map(_is_entry, sets)):
        raise UnsafeFile(f"{path} is not a manifest of data sets: each has a name, and files with path and sha256.")
    names = [entry["name"] for entry in sets]
    for name, count in Counter(names).items():
        if count > 1:
            raise UnsafeFile(f"{path} names {count} data sets {name!r}.")
    return {entry["name"]: entry for entry in sets if len(_named(entry, TABLE)) == 1 or _is_mnist(entry)}


def _is_entry(entry: Any) -> bool:
    """A name, and files with path and SHA-256; what else it says is for its readers."""
    return (
        isinstance(entry, dict)
        and isinstance(entry.get("name"), str)
        and isinstance(entry.get("files"), list)
        and all(
            isinstance(file, dict) and all(isinstance(file.get(key), str) for key in ("path", "sha256"))
            for file in entry["files"]
        )
    )


def entry_of(entries: dict[str, dict[str, Any]], name: str) -> dict[str, Any] | None:
    """The entry of a set, where titanic is found as ida/titanic, or None."""
    return entries.get(name) or entries.get(f"ida/{name}")


def load_from_directory(directory: Path, entry: dict[str, Any]) -> Dataset:
    """The set of one entry of the manifest; every file is compared with its SHA-256 before it is read.

    `UnsafeFile` if one lies outside of the directory, was changed, or is damaged, `DataUnavailable` if it is not there.
    """
    if _is_mnist(entry):
        return _mnist([_checked(directory, _named(entry, part)[0]) for part in IDX])
    table = _checked(directory, _named(entry, TABLE)[0])
    data = replace(read_csv(table, missing=True), name=entry["name"], source=str(table))
    splits = [_splits(_checked(directory, file), len(data.y)) for file in _named(entry, SPLITS)]
    return replace(data, splits=splits[0]) if splits else data


def _named(entry: dict[str, Any], part: str) -> list[dict[str, Any]]:
    return [file for file in entry["files"] if part in file["path"]]


def _is_mnist(entry: dict[str, Any]) -> bool:
    return all(len(_named(entry, part)) == 1 for part in IDX)


def _checked(directory: Path, file: dict[str, Any]) -> Path:
    if "\0" in file["path"]:
        raise UnsafeFile(f"the manifest in {directory} names no file: {file['path']!r}.")
    path = directory / str(file["path"])
    if not path.resolve().is_relative_to(directory.resolve()):
        raise UnsafeFile(f"the manifest in {directory} points outside of it: {file['path']}.")
    if not path.is_file():  # of a pipe the end would be waited for
        raise DataUnavailable(f"{path} is no file, and the manifest says it is; fetch the set again.")
    found = hashlib.sha256(read_bytes(path, limit())).hexdigest()
    if found != file["sha256"]:
        raise UnsafeFile(f"{path} has SHA-256 {found}, the manifest says {file['sha256']}; fetch the file again.")
    return path


def _splits(path: Path, samples: int) -> tuple[Split, ...]:
    arrays, _ = read_arrays(path)
    if not {"train", "test"} <= set(arrays):
        raise UnsafeFile(f"{path} holds {', '.join(arrays) or 'nothing'}; expected the arrays train and test.")
    trains, tests = arrays["train"], arrays["test"]
    fits = trains.ndim == tests.ndim == 2 and len(trains) == len(tests) and trains.shape[1] + tests.shape[1] > 0
    if not fits or trains.dtype.kind not in "iu" or tests.dtype.kind not in "iu":
        raise UnsafeFile(f"{path}: train and test are no matrices of row numbers with one row for each realisation.")
    splits = []
    for train, test in zip(trains, tests, strict=True):
        rows = np.concatenate([train, test])
        if rows.min() < 0 or rows.max() >= samples or len(np.unique(rows)) < len(rows):
            raise UnsafeFile(f"{path} does not split {samples} rows: numbers repeat or lie outside of them.")
        splits.append(Split(train.astype(np.intp), test.astype(np.intp)))
    return tuple(splits)


def _mnist(paths: list[Path]) -> Dataset:
    """60000 training digits and 10000 test digits, as one set with one split; grey values 0..255."""
    images, labels, more_images, more_labels = parts = [_idx(path) for path in paths]
    sizes = [part.shape for part in parts]
    if [len(size) for size in sizes] != [3, 1, 3, 1] or sizes[0][1:] != sizes[2][1:] or not all(map(np.prod, sizes)):
        raise UnsafeFile(f"the files beside {paths[0]} have the shapes {sizes}; expected pictures and their labels.")
    if len(images) != len(labels) or len(more_images) != len(more_labels):
        raise UnsafeFile(f"the files beside {paths[0]} have the shapes {sizes}; expected one label a picture.")
    X = np.concatenate([images, more_images])
    y = np.concatenate([labels, more_labels]).astype(str)
    split = Split(np.arange(len(labels)), np.arange(len(labels), len(y)))
    rows, columns = X.shape[1:]
    features = tuple(f"pixel[{i},{j}]" for i in range(rows) for j in range(columns))
    return Dataset("mnist", X.reshape(len(X), -1).astype(float), y, features, str(paths[0].parent), (split,))


def _idx(path: Path) -> Any:
    """An idx file of bytes: two zeros, the code 8, the number of axes, their lengths as big-endian 32 bits, data."""
    try:
        raw = unpacked(path, limit())
        axes = raw[3]
        shape = tuple(int(length) for length in np.frombuffer(raw, dtype=">u4", count=axes, offset=4))
        if raw[:3] != b"\0\0\x08":
            raise ValueError(f"it begins with {raw[:3]!r}")
        return np.frombuffer(raw, dtype=np.uint8, offset=4 + 4 * axes).reshape(shape)
    except UnsafeFile:
        raise
    except (gzip.BadGzipFile, zlib.error, EOFError, IndexError, ValueError) as damaged:
        raise UnsafeFile(f"{path} is not an idx file of bytes: {damaged}.") from damaged
