"""`mklref reproduce`: the papers' experiments, which live in a checkout and not in the installed package."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from mklref.exceptions import MissingExtra


def run(arguments: Any) -> bool:
    """Run experiments, write the report, and say whether it is complete.

    Raises
    ------
    MissingExtra
        The directory `validation` is not at hand.
    """
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)  # as `python -m` does, and the installed command does not
    if not find_spec("validation") or not find_spec("validation.reproduce"):
        raise MissingExtra(
            f"{here} has no directory validation/reproduce: the experiments are not installed with the package. "
            "Run this command from a checkout of mklref."
        )
    from validation.reproduce.command import run as reproduce

    return bool(reproduce(arguments))
