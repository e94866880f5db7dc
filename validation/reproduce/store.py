"""Finished cells: one line of JSON each in DIR/<experiment>.jsonl, sorted by the name of the cell."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from mklref._files import write_text
from mklref.exceptions import UnsafeFile
from validation.facts import facts
from validation.reproduce.base import Cell, Experiment, Result

FIELDS: dict[str, type | tuple[type, ...]] = {
    "cell": str,
    "config": dict,
    "values": dict,
    "seconds": (float, int),
    "facts": dict,
}
"""The fields of a line and their types. `values` are those of the experiment, `facts` say where they come from."""

TIMES = ("one reading", "machine alone")
"""Seconds whose name does not say so. Counts of work, such as machines or inner steps, are none: a run repeats them."""


def path_of(directory: Path, experiment: Experiment) -> Path:
    """Where the results of an experiment live."""
    return directory / f"{experiment.name}.jsonl"


def write(directory: Path, experiment: Experiment, cell: Cell, values: dict[str, Any], seconds: float) -> Result:
    """Add the result of a cell, or put it in the place of an older one; the file is the old or the new one, whole."""
    result = Result(cell.id, dict(cell.config), values, round(seconds, 3), facts())
    row = dict(zip(FIELDS, (result.id, result.config, values, result.seconds, result.facts), strict=True))
    line = json.dumps(row, allow_nan=False)
    directory.mkdir(parents=True, exist_ok=True)
    path = path_of(directory, experiment)
    with _alone(path):
        lines = {name: line for name, (line, _) in _lines(path).items()} | {cell.id: line}
        write_text(path, "".join(f"{lines[name]}\n" for name in sorted(lines)))
    return result


def read(directory: Path, experiment: Experiment) -> dict[str, Result]:
    """Every result that is there, by the name of its cell.

    Raises
    ------
    UnsafeFile
        A line is not what `write` writes; file and line are named.
    """
    rows = _lines(path_of(directory, experiment)).values()
    return {row["cell"]: Result(*(row[field] for field in FIELDS)) for _, row in rows}


def current(result: Result | None, cell: Cell) -> bool:
    """Whether this is a result of the cell as it is configured now."""
    return result is not None and result.config == json.loads(json.dumps(cell.config))


def traceable(result: Result) -> bool:
    """Whether anybody can run the same code again: its commit is known, and nothing was changed since."""
    return bool(re.fullmatch(r"[0-9a-f]{8,40}", result.facts.get("commit") or ""))


def measures_time(key: str) -> bool:
    """Whether the value of this name is a time, which no two runs have in common."""
    return "seconds" in key or key in TIMES


def _lines(path: Path) -> dict[str, tuple[str, dict[str, Any]]]:
    """Each line, as text and as what it says, by the name of its cell."""
    found: dict[str, tuple[str, dict[str, Any]]] = {}
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines() if path.exists() else [], start=1):
        try:
            row = json.loads(line)
            fits = list(row) == list(FIELDS) and all(isinstance(row[field], kind) for field, kind in FIELDS.items())
        except (ValueError, TypeError):
            fits = False
        if not fits or row["cell"] in found:
            raise UnsafeFile(f"{path}, line {number}, is not the result of a cell, or the second of one. Delete it.")
        found[row["cell"]] = line, row
    return found


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    """Two runs may share a directory: each reads and replaces the file while the other waits."""
    try:
        import fcntl
    except ImportError:  # Windows: one run at a time
        yield
        return
    with path.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
