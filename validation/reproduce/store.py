"""Finished cells: one JSON file each, DIR/<experiment>/<cell>.json."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from mklref.exceptions import UnsafeFile
from validation.facts import facts
from validation.reproduce.base import Cell, Experiment, Result

SCHEMA = "mklref-reproduce-1"
FIELDS: dict[str, type | tuple[type, ...]] = {
    "schema": str,
    "experiment": str,
    "cell": str,
    "config": dict,
    "values": dict,
    "seconds": (float, int),
    "facts": dict,
}
"""The schema of a cell's file: its fields and their types. `values` are those of the experiment."""


def path_of(directory: Path, experiment: Experiment, cell: Cell) -> Path:
    """Where the result of a cell lives."""
    return directory / experiment.name / f"{cell.id}.json"


def write(directory: Path, experiment: Experiment, cell: Cell, values: dict[str, Any], seconds: float) -> Result:
    """Write a result; a file is complete or not there."""
    result = Result(cell.id, dict(cell.config), values, round(seconds, 3), facts())
    document = {
        "schema": SCHEMA,
        "experiment": experiment.name,
        "cell": cell.id,
        "config": result.config,
        "values": values,
        "seconds": result.seconds,
        "facts": result.facts,
    }
    path = path_of(directory, experiment, cell)
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(f".{os.getpid()}")
    part.write_text(json.dumps(document, allow_nan=False) + "\n", encoding="utf-8")
    part.replace(path)
    return result


def read(directory: Path, experiment: Experiment, cell: Cell) -> Result | None:
    """The result of a cell, or None if it was not run with this config.

    Raises
    ------
    UnsafeFile
        The file is not what `write` writes.
    """
    path = path_of(directory, experiment, cell)
    if not path.exists():
        return None
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        fits = all(isinstance(document[field], kind) for field, kind in FIELDS.items())
    except (ValueError, KeyError, TypeError) as damaged:
        raise UnsafeFile(f"{path} is not the result of a cell: {damaged!r}. Delete it.") from damaged
    if not fits or document["schema"] != SCHEMA or document["experiment"] != experiment.name:
        raise UnsafeFile(f"{path} is not a result of {experiment.name} in the schema {SCHEMA}. Delete it.")
    if document["config"] != json.loads(json.dumps(cell.config)):
        return None
    return Result(cell.id, document["config"], document["values"], document["seconds"], document["facts"])
