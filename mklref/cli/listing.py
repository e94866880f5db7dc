"""`mklref list`: what is here."""

from __future__ import annotations

import inspect
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from mklref import equivalences, native, reference
from mklref._crosscheck import NATIVE
from mklref.cli import render
from mklref.datasets import BUNDLED, PUBLISHED
from mklref.formulations import FORMULATIONS
from mklref.losses import LOSSES
from mklref.regularizers import Regularizer


def run(arguments: Any) -> bool:
    """Print formulations, losses, regularisers, solvers and data sets, or the table of equivalences."""
    out = render.console()
    if arguments.equivalences:
        _show_equivalences(out)
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


def _show_equivalences(out: Console) -> None:
    for row in equivalences.table():
        out.print(f"[bold]{escape(row['left'])}  ->  {escape(row['right'])}[/bold]")
        facts = {word: row[word] for word in ("parameters", "condition", "source") if row[word] != equivalences.NONE}
        render.show_facts(out, facts)
        out.print()


def _sections() -> dict[str, dict[str, str]]:
    return {
        "formulations": {name: _first_line(inspect.getmodule(form)) for name, form in FORMULATIONS.items()},
        "losses": {name: _first_line(kind) for name, kind in LOSSES.items()},
        "regularisers": {kind.__name__: _first_line(kind) for kind in _members(Regularizer)},
        "solvers": {NATIVE: "compiled" if native.AVAILABLE else native.WHY}
        | {name: _version(name.lower()) for name in reference.SOLVERS},
        "bundled data": dict.fromkeys(BUNDLED, "scikit-learn"),
        "data that is fetched once": {name: entry.origin for name, entry in PUBLISHED.items()},
    }


def _members(kind: type) -> list[type]:
    """All public concrete subclasses."""
    members: list[type] = kind.__subclasses__()
    public = [member for member in members if not inspect.isabstract(member) and not member.__name__.startswith("_")]
    return public + [descendant for member in members for descendant in _members(member)]


def _first_line(thing: Any) -> str:
    return (inspect.getdoc(thing) or "").partition("\n")[0]


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"
