"""`mklref list`, `vectors`, `reproduce`, `explore`: what is here, as text, files, experiments and a page."""

from __future__ import annotations

import inspect
import os
import sys
from contextlib import closing
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NoReturn

from rich.markup import escape
from rich.table import Table

from mklref import equivalences, native, reference
from mklref._crosscheck import NATIVE
from mklref._progress import Steps
from mklref._validate import counted
from mklref.cli import render
from mklref.datasets import BUNDLED, PUBLISHED
from mklref.exceptions import MissingExtra
from mklref.formulations import FORMULATIONS
from mklref.losses import LOSSES
from mklref.testing.answer import REGULARIZERS
from mklref.testing.vectors import export_vectors


def run_explore(arguments: Any) -> NoReturn:
    """Serve the page that shows a formulation and moves it, until Ctrl-C, which is how it ends well."""
    from mklref.explore.serve import explore

    explore(arguments.port, browser=not arguments.no_browser, data=arguments.data)
    os._exit(0)  # a page may be in the middle of a conic solver, whose thread nobody can interrupt


def run_reproduce(arguments: Any) -> bool:
    """Run the experiments of the papers, which a checkout has, write the report, and say whether it is complete."""
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)  # as `python -m` does, and the installed command does not
    if not find_spec("validation") or not find_spec("validation.reproduce"):
        raise MissingExtra(
            f"{here} has no directory validation/reproduce: the experiments are not installed with the package. "
            "Run this command from a checkout of mklref."
        )
    from validation.reproduce.run import command

    return bool(command(arguments))


def run_vectors(arguments: Any) -> bool:
    """Write the catalogue as files, with a bar on standard error, and say how many there are."""
    out = render.console()
    options = {name: getattr(arguments, name) for name in ("include", "exclude", "formats", "suite")}
    with closing(Steps(sys.stderr.isatty(), "problems", None)) as progress:
        try:
            index = export_vectors(arguments.directory, **options, progress=lambda *_: progress.advance())
        except KeyboardInterrupt:
            told = f"interrupted; {Path(arguments.directory) / 'index.json'} lists what was written"
            raise KeyboardInterrupt(told) from None
    proven = sum(entry["bounds"] == "rigorous" for entry in index["problems"])
    written = f"{counted(len(index['problems']), 'problem')} as {', '.join(arguments.formats)}"
    render.say(out, f"{written} in {arguments.directory}, with index.json; the bounds of {proven} are proven")
    return True


def run_list(arguments: Any) -> bool:
    """Print formulations, losses, regularisers, solvers and data sets, or the table of equivalences."""
    out = render.console()
    if arguments.equivalences:
        words = ("parameters", "condition", "source")
        for row in equivalences.table():
            out.print(f"[bold]{escape(row['left'])}  ->  {escape(row['right'])}[/bold]")
            render.show_facts(out, {word: row[word] for word in words if row[word] != equivalences.NONE})
            out.print()
        return True
    for title, lines in _sections().items():
        table = Table(box=None, pad_edge=False, show_header=False)
        table.add_column(no_wrap=True, min_width=27)
        table.add_column(overflow="fold")
        for name, text in lines.items():
            table.add_row(escape(name), escape(text))
        out.print(f"[bold]{title}[/bold]")
        out.print(table)
        out.print()
    return True


def _sections() -> dict[str, dict[str, str]]:
    return {
        "formulations": {name: _first_line(inspect.getmodule(form)) for name, form in FORMULATIONS.items()},
        "losses": {name: _first_line(kind) for name, kind in LOSSES.items()},
        "regularisers": {name: _first_line(kind) for name, kind in REGULARIZERS.items()},
        "solvers": {NATIVE: "compiled" if native.AVAILABLE else native.WHY}
        | {name: _version(name.lower()) for name in reference.SOLVERS},
        "bundled data": dict.fromkeys(BUNDLED, "scikit-learn"),
        "data that is fetched once": {name: entry.origin for name, entry in PUBLISHED.items()},
    }


def _first_line(thing: Any) -> str:
    return (inspect.getdoc(thing) or "").partition("\n")[0]


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"
