"""The sets of the papers: where they are to be had, and how their contents are recognised.

A set is fetched once, into scikit-learn's data directory, and compared with what it has to be.
"""

from __future__ import annotations

import hashlib
import re
import tomllib
from collections import Counter
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from mklref._typing import Array
from mklref.datasets.record import Dataset, Split
from mklref.exceptions import DataUnavailable, UnsafeFile


@dataclass(frozen=True)
class Published:
    """One set of published.toml, where the columns and the sources are explained."""

    name: str
    features: tuple[str, ...]
    sha256: str
    """Of the contents: see `remote.fingerprint`. Computed from a copy that agreed with another of another origin."""
    urls: tuple[str, ...] = ()
    openml: int | None = None
    target: int = -1
    unused: tuple[int, ...] = ()
    labels: dict[str, str] = field(default_factory=dict)
    """Labels that are called differently at the source."""
    digits: int = 12
    """Significant digits that all copies share."""
    train: int = 0
    """The first so many samples are the training set of the standard split; 0: there is none."""
    train_sha256: str = ""
    """Of the contents of that training set, so that a copy in another order is recognised."""

    @property
    def origin(self) -> str:
        """Where it comes from, for messages."""
        return " and ".join(self.urls) if self.urls else f"https://www.openml.org/d/{self.openml}"


def _published() -> dict[str, Published]:
    table = tomllib.loads(Path(__file__).with_name("published.toml").read_text(encoding="utf-8"))
    return {name: Published(name, **_features(entry)) for name, entry in table.items()}


def _features(entry: dict[str, Any]) -> dict[str, Any]:
    """The names of the variables, written out, numbered, or those of a picture."""
    numbered, pixels = entry.pop("numbered", None), entry.pop("pixels", None)
    if numbered:
        width, prefix = numbered.get("width", 1), numbered["prefix"]
        names = [f"{prefix}{i:0{width}d}" for i in range(1, numbered["count"] + 1)]
    elif pixels:
        names = [f"pixel[{i},{j}]" for i in range(pixels[0]) for j in range(pixels[1])]
    else:
        names = entry.pop("features").split()
    lists: dict[str, Any] = {key: tuple(entry.pop(key)) for key in ("urls", "unused") if key in entry}
    return {**entry, **lists, "features": tuple(names)}


PUBLISHED = _published()
"""The sets that `load` can fetch, by name."""


def fetch(entry: Published) -> Dataset:
    """The set, from the cache or the network.

    `DataUnavailable` if neither has it, `UnsafeFile` if what came is another set than the one that the papers used.
    """
    try:
        data = _from_tables(entry) if entry.urls else _from_openml(entry)
    except UnsafeFile:
        raise
    except (OSError, ValueError) as offline:  # scikit-learn reports what OpenML refuses as a ValueError
        raise DataUnavailable(
            f"{entry.name} is not on this machine and cannot be fetched from {entry.origin} ({offline}). Connect to "
            "the network once, or set MKLREF_DATA to a directory with MANIFEST.json that holds it."
        ) from offline
    found = fingerprint(data, entry.digits)
    if found != entry.sha256:
        from sklearn.datasets import get_data_home

        raise UnsafeFile(
            f"{entry.origin} has other contents than the {entry.name} of the papers: {len(data.y)} samples, SHA-256 "
            f"{found}, expected {entry.sha256}. Remove it from {get_data_home()} to fetch it again, or set MKLREF_DATA."
        )
    return data


def with_standard_split(data: Dataset, entry: Published) -> Dataset:
    """The set with the split into training and test set that it is published with, where its order is that one."""
    if data.splits or not entry.train:
        return data
    train, test = np.split(np.arange(len(data.y)), [entry.train])
    if fingerprint(data.take(train), entry.digits) != entry.train_sha256:
        return data
    return replace(data, splits=(Split(train, test),))


def fingerprint(data: Dataset, digits: int = 12) -> str:
    """SHA-256 of the contents, whatever file they came in and in whatever order of rows.

    Values are rounded to `digits` significant digits; each row is hashed with its label, and the sorted hashes are
    hashed again.
    """
    values, where = np.unique(data.X, return_inverse=True)
    rounded = np.array([float(f"{value:.{digits}g}") + 0.0 for value in values])[where].reshape(data.X.shape)
    labels = [f"{y:.12g}" if isinstance(y, float) else str(y) for y in data.y]
    rows = [
        hashlib.sha256(x.astype("<f8").tobytes() + label.encode()).digest()
        for x, label in zip(rounded, labels, strict=True)
    ]
    return hashlib.sha256(b"".join(sorted(rows))).hexdigest()


def _from_tables(entry: Published) -> Dataset:
    """Plain tables: cells between commas or blanks, ? for a missing one."""
    from sklearn.datasets import fetch_file

    rows: list[list[str]] = []
    for url in entry.urls:
        text = Path(fetch_file(url, n_retries=1)).read_text(encoding="utf-8")
        cells = [re.split(r"[,\s]+", line.strip()) for line in text.splitlines()]
        usual = Counter(map(len, cells)).most_common(1)[0][0] if cells else 0
        rows += [row for row in cells if len(row) == usual]
    width = len(entry.features) + 1 + len(entry.unused)
    if not rows or {len(row) for row in rows} != {width}:
        raise UnsafeFile(
            f"{entry.origin} is no table of {width} columns; set MKLREF_DATA to a directory that holds it."
        )
    table = np.array(rows)
    variables = np.delete(table, [entry.target, *entry.unused], axis=1)
    return _dataset(entry, np.where(variables == "?", "nan", variables).astype(float), table[:, entry.target])


def _from_openml(entry: Published) -> Dataset:
    from sklearn.datasets import fetch_openml

    bunch = fetch_openml(data_id=entry.openml, as_frame=False, parser="liac-arff")
    return _dataset(entry, np.asarray(bunch.data, dtype=float), np.asarray(bunch.target).astype(str))


def _dataset(entry: Published, X: Array, labels: Any) -> Dataset:
    named = np.array([entry.labels.get(label, label) for label in labels.tolist()])
    try:
        y: Any = named.astype(float)
    except ValueError:
        y = named
    return Dataset(entry.name, X, y, entry.features, entry.origin)
