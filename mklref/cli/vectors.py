"""`mklref vectors`: the catalogue as files."""

from __future__ import annotations

from typing import Any

from rich.progress import BarColumn, MofNCompleteColumn, TextColumn

from mklref.cli import render
from mklref.testing.vectors import export_vectors


def run(arguments: Any) -> bool:
    """Write the files, with a bar on standard error, and say how many there are."""
    out = render.console()
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn()
    with render.progress(*columns) as progress:
        bar = progress.add_task("vectors", total=None)

        def advance(done: int, total: int, name: str) -> None:
            progress.update(bar, completed=done, total=total, description=name)

        index = export_vectors(
            arguments.directory,
            include=arguments.include,
            exclude=arguments.exclude,
            formats=arguments.formats,
            suite=arguments.suite,
            progress=advance,
        )
    count = len(index["problems"])
    proven = sum(entry["bounds"] == "rigorous" for entry in index["problems"])
    formats = ", ".join(arguments.formats)
    out.print(
        f"{count} problems as {formats} in {arguments.directory}, with index.json; the bounds of {proven} are proven",
        markup=False,
        soft_wrap=True,
    )
    return True
