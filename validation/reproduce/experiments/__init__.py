"""The experiments by name, in the order of the report; each is imported when it is asked for."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module

from mklref.exceptions import InvalidParameter
from validation.reproduce.base import Experiment

NAMES = (
    "simplemkl-table1",
    "simplemkl-path",
    "simplemkl-growth",
    "simplemkl-large",
    "simplemkl-wavelets",
    "simplemkl-multiclass",
    "kloft-toy",
    "kloft-times",
    "kloft-scale",
    "kloft-examples",
    "kloft-emulated",
    "szafranski-spambase",
    "szafranski-channels",
    "kowalski-titanic",
    "tomioka-table1",
    "tomioka-evidence",
)


def experiments(names: Sequence[str]) -> list[Experiment]:
    """The experiments with these names; `all` is every one.

    Raises
    ------
    InvalidParameter
        An unknown name; the message lists the known ones.
    """
    wanted = NAMES if "all" in names else tuple(names)
    unknown = [name for name in wanted if name not in NAMES]
    if unknown:
        raise InvalidParameter(f"experiment {unknown[0]!r} is unknown; known: all, {', '.join(NAMES)}.")
    return [import_module(f"{__name__}.{name.replace('-', '_')}").EXPERIMENT for name in wanted]
