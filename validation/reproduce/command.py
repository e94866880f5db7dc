"""What `mklref reproduce` does with its options."""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import Any

from mklref.exceptions import InvalidParameter, MissingExtra
from mklref.report import require_extra

FULL, QUICK = Path("reproduction"), Path("reproduction-quick")
"""Where results go by default."""

STORED = Path(__file__).parents[1] / "results" / "reproduce"
"""The results in the repository: each line names the commit that made it, so that anybody can make it again."""


def run(arguments: Any) -> bool:
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
    from validation.reproduce import again, docs_page, report, store
    from validation.reproduce.experiments import experiments
    from validation.reproduce.run import duration, finished, named, require_data, run as run_cells, unfinished

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
            run_cells(out, [(chosen[0], named(chosen[0], arguments.cell, arguments.quick))])
        else:
            run_cells(out, unfinished(out, chosen, arguments.quick, arguments.stale), arguments.minutes)
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
    from validation.reproduce import store
    from validation.reproduce.experiments import experiments
    from validation.reproduce.report import PAGE, TITLE

    home = next(path for path in (out.absolute(), *out.absolute().parents) if path.exists())
    if not (home.is_dir() and os.access(home, os.W_OK)):
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
