"""`mklref reproduce`: runs the cells of experiments, those that are not finished, and says how far it is."""

from __future__ import annotations

import math
import os
import shlex
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mklref.datasets.directory import DIRECTORY, MANIFEST, entry_of, manifest
from mklref.exceptions import InvalidParameter, MissingExtra
from mklref.report import require_extra
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


# --- what `mklref reproduce` does with its options -------------------------------------------------------------------


FULL, QUICK = Path("reproduction"), Path("reproduction-quick")
"""Where results go by default."""

STORED = Path(__file__).parents[1] / "results" / "reproduce"
"""The results in the repository: each line names the commit that made it, so that anybody can make it again."""


def command(arguments: Any) -> bool:
    """Run what is not finished and write the report; True if every cell is there and every difference explained.

    Of one cell: True if it differs from the stored result in nothing but times and last digits.

    Raises
    ------
    MissingExtra
        The report needs jinja2 and matplotlib.
    InvalidParameter
        Unknown experiments or cells, missing data, results for the repository from code that is no commit, or a result
        or a directory that is not to be replaced.
    """
    try:
        require_extra()
    except MissingExtra as missing:
        raise MissingExtra(f"{missing} mklref reproduce draws with them.") from None
    from validation.facts import commit
    from validation.reproduce import again, docs_page, report
    from validation.reproduce.experiments import experiments

    if not arguments.name and not arguments.list:
        raise InvalidParameter("NAME is missing: an experiment, or all; --list shows them.")
    chosen = experiments([arguments.name or "all"])
    out = Path(arguments.out) if arguments.out else QUICK if arguments.quick else FULL
    if arguments.list:
        for experiment in chosen:
            cells = experiment.cells(arguments.quick)
            total = duration(sum(cell.seconds for cell in cells))
            print(f"{experiment.name}: {experiment.title}; {len(cells)} cells, estimated {total} on one core")
            print("\n".join(f"  {cell.id}  {duration(cell.seconds)}" for cell in cells))
        return True
    if arguments.cell and len(chosen) != 1:
        raise InvalidParameter("--cell belongs to one experiment; name it instead of all.")
    require_own(out, arguments.force)
    before = store.read(STORED, chosen[0]).get(arguments.cell) if arguments.cell else None  # the run may replace it
    if not arguments.render:
        require_data(chosen, arguments.quick)
        if out.resolve() == STORED and (commit() or "+").endswith("+"):
            raise InvalidParameter(
                f"--out {out} holds results that anybody can make again, and this code is not a commit "
                f"({commit() or 'no checkout'}); commit first, or use another directory."
            )
        if arguments.cell:
            if arguments.cell in store.read(out, chosen[0]) and not arguments.force:
                raise InvalidParameter(f"{out} has the cell {arguments.cell}; --force runs it again and replaces it.")
            run(out, [(chosen[0], named(chosen[0], arguments.cell, arguments.quick))])
        else:
            run(out, unfinished(out, chosen, arguments.quick, arguments.stale), arguments.minutes)
    if arguments.cell:
        found = store.read(out, chosen[0]).get(arguments.cell)
        if found is None:
            raise InvalidParameter(f"{out} has no result of the cell {arguments.cell}; without --render it is run.")
        print(report.values_of(found))
        if before is None or before.config != found.config:
            print("nothing is stored of this cell as it is configured here: nothing to compare")
            return True
        print("\n".join(again.lines(before, found)))
        return not again.compare(before.values, found.values).different
    sections = [report.section(e, finished(out, e, arguments.quick), arguments.quick, out) for e in chosen]
    for section in sections:
        print(section.line)
    page = report.write_page(out, sections, _command(arguments))
    print(f"report: {page}")
    if arguments.docs:
        docs_page.write_docs(Path("docs"), sections, _command(arguments))
    return all(section.complete and not section.comparison.unexplained for section in sections)


def require_own(out: Path, force: bool) -> None:
    """Refuse a directory that takes no files, or holds some and none that an earlier run wrote.

    Raises
    ------
    InvalidParameter
        Names it.
    """
    from validation.reproduce.experiments import experiments
    from validation.reproduce.report import PAGE, TITLE

    home = next(path for path in (out.absolute(), *out.absolute().parents) if path.exists())
    if not home.is_dir():
        raise InvalidParameter(f"cannot write into {out}: {home} is a file, and results are several. Give a directory.")
    if not os.access(home, os.W_OK):
        raise InvalidParameter(f"cannot write into {out}: {home} takes no files from you. Give another directory.")
    if force or not out.is_dir() or not any(out.iterdir()):
        return
    page = out / PAGE
    if page.is_file() and TITLE in page.read_text(encoding="utf-8", errors="replace"):
        return
    if page.exists() or not any(store.path_of(out, each).is_file() for each in experiments(["all"])):
        raise InvalidParameter(
            f"cannot write into {out}: what it holds is not of an earlier run. Give another directory, or --force."
        )


def _command(arguments: Any) -> str:
    """The command that was given, without what only concerns the report."""
    options = ["--quick"] if arguments.quick else []
    options += ["--out", shlex.quote(arguments.out)] if arguments.out else []
    return " ".join(["python -m validation.reproduce", arguments.name, *options])
