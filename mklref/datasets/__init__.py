"""Data to try things on: sets by name, CSV files, and generators.

`load` finds scikit-learn's bundled sets, the sets of the directory MKLREF_DATA, and the sets of the papers, which it
fetches once. A set is returned as it is, with its original labels. `encode` turns classes into the labels -1 and +1,
and `Dataset.standardized` scales variables; neither happens behind anybody's back.
"""

from __future__ import annotations

import os
from pathlib import Path

from mklref._validate import shown
from mklref.datasets.directory import DIRECTORY, entry_of, load_from_directory, manifest
from mklref.datasets.generators import SIGNALS, kloft_toy, noisy_signal, p300, signal, single_cells, two_norm, waveform
from mklref.datasets.record import BUNDLED, Cells, Dataset, Generated, Split, encode, load_bundled
from mklref.datasets.remote import PUBLISHED, fetch, with_standard_split
from mklref.datasets.table import read_csv, read_frame, read_frames, read_samples
from mklref.exceptions import InvalidParameter

__all__ = [
    "BUNDLED",
    "DIRECTORY",
    "PUBLISHED",
    "SIGNALS",
    "Cells",
    "Dataset",
    "Generated",
    "Split",
    "encode",
    "kloft_toy",
    "load",
    "noisy_signal",
    "p300",
    "read_csv",
    "read_frame",
    "read_frames",
    "read_samples",
    "signal",
    "single_cells",
    "two_norm",
    "waveform",
]


def load(name: str) -> Dataset:
    """A data set by name.

    Parameters
    ----------
    name : str
        One of scikit-learn's bundled sets (`BUNDLED`); a set of the directory that MKLREF_DATA names, where titanic is
        found as ida/titanic; or a set of the papers (`PUBLISHED`), which is fetched into scikit-learn's data
        directory, once, and compared with its SHA-256.

    Raises
    ------
    InvalidParameter
        Unknown name; the message lists the known ones.
    DataUnavailable
        A set of the papers is neither in the directory nor to be had from the network, or the directory has no
        manifest, or lacks a file of it; says how to get it.
    UnsafeFile
        A file of the directory, or what was fetched, does not have the SHA-256 that it should have.
    """
    if not isinstance(name, str):
        raise InvalidParameter(f"name is {shown(name)}; give the name of a data set, such as {BUNDLED[0]!r}.")
    if name in BUNDLED:
        return load_bundled(name)
    directory = os.environ.get(DIRECTORY)
    entries = manifest(Path(directory)) if directory else {}
    if directory and (entry := entry_of(entries, name)):
        data = load_from_directory(Path(directory), entry)
        return with_standard_split(data, PUBLISHED[name]) if name in PUBLISHED else data
    if name in PUBLISHED:
        return with_standard_split(fetch(PUBLISHED[name]), PUBLISHED[name])
    if os.path.isdir(name):  # noqa: PTH112 says no to what no path can be
        raise InvalidParameter(f"{name} is a directory; give the path of a file in it.")
    more = f"; in {directory}: {', '.join(entries)}" if directory else f"; set {DIRECTORY} to a data directory for more"
    raise InvalidParameter(
        f"data set {shown(name)} is unknown. Known: {', '.join([*BUNDLED, *PUBLISHED])}{more}. "
        "For a file of your own give its path."
    )
