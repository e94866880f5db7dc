"""`mklref vectors`: the catalogue as files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from mklref.cli import render
from mklref.testing.vectors import export_vectors


def run(arguments: Any) -> bool:
    """Write the files and say how many there are."""
    out = render.console()
    index = export_vectors(
        arguments.directory, include=arguments.include, exclude=arguments.exclude, formats=arguments.formats
    )
    count = len(index["problems"])
    bounds = sum(entry["bounds"] == "rigorous" for entry in index["problems"])
    files = ", ".join(arguments.formats)
    out.print(
        f"{count} problems as {files} in {Path(arguments.directory)}, with index.json; bounds of {bounds} are proven",
        markup=False,
        soft_wrap=True,
    )
    return True
