"""The catalogue as files: data to the last bit, and certified bounds of each optimal value."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import mklref
from mklref import native, reference
from mklref._crosscheck import rounding
from mklref._files import checked_path, write_text
from mklref._untrusted import parse_json, read_bytes
from mklref._validate import checked_choice
from mklref.certificate import certify
from mklref.exceptions import InvalidInput, InvalidKernel, InvalidParameter, NotApplicable, SolverFailure, UnsafeFile
from mklref.problem import Problem
from mklref.testing import real
from mklref.testing.case import FLAGS, Case, select
from mklref.testing.vectors import plain
from mklref.testing.vectors.formats import write_record
from mklref.testing.vectors.hdf5 import require_extra
from mklref.testing.vectors.schema import record_of_problem

FORMATS = ("npz", "mat", "json")
INDEX = "index.json"
CERTIFICATE = ".certificate.json"
"""Ending of what proves the bounds of a problem."""
_FORMAT = "mklref-vectors-1"
_LARGEST_INDEX = 2**26
_PLAIN_NAME = re.compile(r"[A-Za-z0-9_-]+")
"""Names of cases: nothing that leads out of the directory."""
NARROW = 1e-9
"""Relative width of the bounds of real problems."""
SUITES: dict[str, Callable[..., tuple[Case, ...]]] = {"catalogue": select, "real": real.select}


def export_vectors(
    directory: str | Path,
    *,
    include: Iterable[str] | None = None,
    exclude: Iterable[str] | None = None,
    formats: Iterable[str] = FORMATS,
    suite: str = "catalogue",
    progress: Callable[[int, int, str], None] | None = None,
) -> dict[str, Any]:
    """Write every problem of the catalogue, with certified bounds of its optimal value, and an index.

    Parameters
    ----------
    directory : path
        Made if it does not exist; files of the same names are replaced, each one whole or not at all. Files that the
        index of an earlier export lists, and this one has not, are removed at the end; all others stay. After
        an error or Ctrl-C the index lists what was written, and what is left of an earlier export.
    include, exclude : iterable of str, optional
        Flags or names of cases, as for `check_solver`.
    formats : iterable of str
        Of "npz", "mat", "json" (with CSV) and "hdf5".
    suite : {"catalogue", "real"}
        The catalogue, or thirty real problems (`mklref.testing.real`), each with the certificate that proves its
        bounds: NAME.certificate.json, which `python -m mklref.verify` checks against NAME.npz.
    progress : callable, optional
        Called before each case with its number, the number of cases, and its name.

    Returns
    -------
    dict
        The index, as it is written to index.json.

    Raises
    ------
    InvalidParameter
        Unknown formats, suites, flags or names; "real" without "npz", to which its certificates belong.
    InvalidInput
        The directory holds a link: what is written there would end up in another place. Or a real problem is not, to
        the last bit, the one whose bounds are published (`mklref.testing.real.PUBLISHED`).
    MissingExtra
        "hdf5", and h5py is not installed.
    """
    endings = tuple(formats)
    unknown = sorted(set(endings) - {*FORMATS, "hdf5"})
    if unknown or not endings:
        raise InvalidParameter(f"formats = {', '.join(endings)}; known ones: {', '.join([*FORMATS, 'hdf5'])}.")
    checked_choice("suite", suite, SUITES)
    if suite == "real" and "npz" not in endings:
        raise InvalidParameter(f"formats = {', '.join(endings)} without npz, to which the certificates belong; add it.")
    if "hdf5" in endings:
        require_extra()
    folder = checked_path(directory)
    cases = SUITES[suite](include=include, exclude=exclude)
    folder.mkdir(parents=True, exist_ok=True)
    for file in filter(Path.is_symlink, folder.iterdir()):
        raise InvalidInput(f"{file} is a link to {file.readlink()}; remove it, or give another directory.")
    earlier, before = exported_files(folder), _index(folder)
    entries: list[dict[str, Any]] = []
    index: dict[str, Any] = {"format": _FORMAT, "mklref": mklref.__version__, "formats": list(endings), "flags": FLAGS}
    try:
        for number, case in enumerate(cases):
            if progress is not None:
                progress(number, len(cases), case.name)
            for entry in _exported(case, folder, endings, suite):
                entries.append(entry)
    except BaseException:
        written = {entry["name"] for entry in entries}
        entries += [entry for entry in before.get("problems", ()) if entry["name"] not in written]
        index["formats"] = list(dict.fromkeys([*endings, *before.get("formats", ())]))
        raise
    finally:
        index["problems"] = entries
        write_text(folder / INDEX, json.dumps(index, indent=1, allow_nan=False) + "\n")
    for file in earlier - exported_files(folder):
        file.unlink()
    return index


def _exported(case: Case, folder: Path, endings: Iterable[str], suite: str) -> Iterator[dict[str, Any]]:
    """The entry of the index for each problem of a case, once its files are written."""
    problems = case.build()
    for k, problem in enumerate(problems, start=1):
        name = case.name if len(problems) == 1 else f"{case.name}-{k}"
        lower, upper, proof = enclosure(problem) if suite == "catalogue" else proved(problem, folder / name)
        record = record_of_problem(problem, name=name, lower=lower, upper=upper)
        for ending in endings:
            write_record(folder / f"{name}.{ending}", record)
        hashed = fingerprint(problem)
        if suite == "real":
            _require_published(name, hashed)
        yield {
            "name": name,
            "case": case.name,
            "statement": case.statement,
            "since": "{}.{}".format(*case.since),
            "flags": sorted(case.flags),
            "samples": problem.n_samples,
            "kernels": problem.n_kernels,
            "loss": problem.loss.name,
            "regularizer": str(problem.regularizer),
            "lower": lower,
            "upper": upper,
            "lower_hex": lower.hex(),
            "upper_hex": upper.hex(),
            "bounds": proof,
            "sha256": hashed,
        }


def _index(folder: Path) -> dict[str, Any]:
    """The index of an earlier export, empty if there is none, or none of ours."""
    try:
        index = parse_json(read_bytes(folder / INDEX, _LARGEST_INDEX), folder / INDEX)
        ours = index["format"] == _FORMAT and all(isinstance(entry["name"], str) for entry in index["problems"])
        return dict(index, formats=[*map(str, index["formats"])]) if ours else {}
    except (OSError, UnsafeFile, LookupError, TypeError, ValueError):
        return {}


def exported_files(folder: Path) -> set[Path]:
    """The files of the export whose index the directory holds, so far as they are there; none without an index."""
    index = _index(folder)
    endings = {*FORMATS, "hdf5"}.intersection(index.get("formats", ()))
    named: set[Path] = set()
    for name in (entry["name"] for entry in index.get("problems", ())):
        if not _PLAIN_NAME.fullmatch(name):
            continue
        named |= {folder / f"{name}.{ending}" for ending in endings}
        if "json" in endings:
            tables = plain.tables(folder / f"{name}.json")
            named |= {file for table in tables for file in (table, table.with_suffix(".hex.csv"))}
    return {file for file in named if file.is_file()}


def enclosure(problem: Problem) -> tuple[float, float, str]:
    """The narrowest certified bounds of the optimal value at hand, and whether they are proven.

    "rigorous" bounds hold with rounding errors included, for all semidefinite matrices within rounding of these
    kernels; "numerical" ones with an allowance for rounding, where no rigorous certificate covers the regulariser.
    """
    points = [native.solve(problem, tol=1e-10), reference.solve(problem, "dual", tol=1e-12)]  # of both sides
    try:
        proven = [
            certify(problem, s.dual_coef, weights=s.weights, intercept=s.intercept, rigorous=True) for s in points
        ]
        return max(c.lower for c in proven), min(c.upper for c in proven), "rigorous"
    except (NotApplicable, InvalidKernel):
        lower = max(s.certificate.lower - rounding(problem, s) for s in points)
        return lower, min(s.certificate.upper + rounding(problem, s) for s in points), "numerical"


def proved(problem: Problem, path: Path) -> tuple[float, float, str]:
    """Bounds from one point of the native solver, and PATH.certificate.json, which proves them for PATH.npz.

    `SolverFailure` if they are farther apart than a relative 1e-9.
    """
    found = native.solve(problem, tol=1e-11)
    certificate = certify(
        problem, found.dual_coef, weights=found.weights, intercept=found.intercept, rigorous=True, delta=0.0
    )
    if not certificate.relative_gap < NARROW:
        raise SolverFailure(f"{path.name}: the bounds have a relative width of {certificate.relative_gap:.1e}.")
    certificate.save(path.with_name(f"{path.name}{CERTIFICATE}"))
    return certificate.lower, certificate.upper, "rigorous"


def _require_published(name: str, hashed: str) -> None:
    known = real.published().get(name, {"sha256": hashed})["sha256"]
    if hashed != known:
        raise InvalidInput(
            f"{name}: the matrices that this machine computes have the SHA-256 {hashed}, the published ones {known}. "
            "Either scikit-learn's data or the arithmetic are others; take the files from another machine."
        )


def fingerprint(problem: Problem) -> str:
    """SHA-256 of the kernels and targets, as little-endian doubles."""
    digest = hashlib.sha256()
    for array in (problem.kernels.dense(), problem.y):
        digest.update(np.ascontiguousarray(array, dtype="<f8").tobytes())
    return digest.hexdigest()
