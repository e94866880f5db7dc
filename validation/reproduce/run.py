"""Runs the cells of experiments, those that are not finished, and says how far it is."""

from __future__ import annotations

import math
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from mklref.datasets.directory import DIRECTORY, MANIFEST, entry_of, manifest
from mklref.exceptions import InvalidParameter
from validation.reproduce import store
from validation.reproduce.base import Cell, Experiment, Result


def unfinished(
    directory: Path, experiments: Sequence[Experiment], quick: bool, stale: bool = False
) -> list[tuple[Experiment, Cell]]:
    """The cells that are still to be run, experiment by experiment; `stale` adds those of unknown or changed code."""
    work = []
    for experiment in experiments:
        done = {r.id for r in finished(directory, experiment, quick) if not stale or store.traceable(r)}
        work += [(experiment, cell) for cell in experiment.cells(quick) if cell.id not in done]
    return work


def finished(directory: Path, experiment: Experiment, quick: bool) -> list[Result]:
    """The results that are there, in the order of the cells."""
    found = store.read(directory, experiment)
    return [found[cell.id] for cell in experiment.cells(quick) if store.current(found.get(cell.id), cell)]


def named(experiment: Experiment, cell_id: str, quick: bool) -> Cell:
    """The cell with this id.

    Raises
    ------
    InvalidParameter
        There is none; the message lists some.
    """
    cells = {cell.id: cell for cell in experiment.cells(quick)}
    if cell_id not in cells:
        shown = ", ".join(list(cells)[:12])
        raise InvalidParameter(f"{experiment.name} has no cell {cell_id!r}; it has {shown}, ... (--list shows all).")
    return cells[cell_id]


def require_data(experiments: Sequence[Experiment], quick: bool) -> None:
    """Refuse a full run without its data before hours are spent.

    Raises
    ------
    InvalidParameter
        Names experiments and the data sets that they lack.
    """
    if quick:
        return
    given = os.environ.get(DIRECTORY)
    found = manifest(Path(given)) if given and (Path(given) / MANIFEST).is_file() else {}
    needs = {e.name: [name for name in e.data if entry_of(found, name) is None] for e in experiments}
    lacking = "; ".join(f"{name} ({', '.join(sets)})" for name, sets in needs.items() if sets)
    if lacking:
        state = f"is {given!r}, which does not list all data" if given else "is not set"
        raise InvalidParameter(
            f"{DIRECTORY} {state}: lacking for {lacking}. Set it to a directory with these sets in its {MANIFEST}, "
            "or use --quick."
        )


def run(directory: Path, work: Sequence[tuple[Experiment, Cell]], minutes: float | None = None) -> None:
    """Run cells one after the other; each result is written when it is there. After `minutes` none is started.

    Raises
    ------
    InvalidParameter
        `minutes` is negative, or no number.
    """
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    if minutes is not None and not minutes >= 0.0:
        raise InvalidParameter(f"minutes = {minutes} must be at least 0; leave it out to run every cell.")
    if not work:
        return
    say = Console(stderr=True, highlight=False)
    deadline = math.inf if minutes is None else time.perf_counter() + 60.0 * minutes
    total = sum(cell.seconds for _, cell in work)
    say.print(f"{len(work)} cells, estimated {duration(total)} on one core", soft_wrap=True)
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    shown = say if sys.stderr.isatty() else Console(stderr=True, quiet=True)  # rich 13 ends a disabled bar with a line
    with Progress(*columns, console=shown, disable=not sys.stderr.isatty()) as bar:
        task = bar.add_task("", total=total)
        for number, (experiment, cell) in enumerate(work, start=1):
            if time.perf_counter() > deadline:
                break
            label = f"{number}/{len(work)} {experiment.name} {cell.id}"
            bar.update(task, description=label)
            began = time.perf_counter()
            values = experiment.cell(dict(cell.config))
            result = store.write(directory, experiment, cell, values, time.perf_counter() - began)
            bar.advance(task, cell.seconds)
            if not say.is_terminal:
                say.print(f"{label}: {result.seconds:.1f} s", soft_wrap=True)


def duration(seconds: float) -> str:
    """A length of time in words."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} minutes" if seconds < 5400 else f"{seconds / 3600:.1f} hours"
