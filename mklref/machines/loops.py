"""The inner loops: compiled if they were built, else their NumPy twins."""

from __future__ import annotations

import importlib
import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any

from mklref.exceptions import InvalidParameter, SlowWarning
from mklref.machines import twin

_PACKAGE = Path(__file__).parents[1]


def _remedy() -> str:
    """What to do: in a checkout, Python finds the source tree before the package that was installed."""
    if (_PACKAGE.parent / "pyproject.toml").is_file():
        return (
            f"Python imported the source tree {_PACKAGE}, where nothing is compiled: start it in another directory or "
            "with -P, so that it finds the package that pip install . puts into site-packages."
        )
    return (
        "They are built when mklref is installed with a C++17 compiler: MKLREF_REQUIRE_NATIVE=true pip install "
        "--force-reinstall --no-deps . from a checkout shows why they were not."
    )


loops: Any = twin
AVAILABLE = False
WHY = "The compiled loops are in use."
try:
    loops = importlib.import_module("mklref.machines._loops")
    AVAILABLE = True
except ImportError as missing:
    WHY = f"The compiled loops are missing ({missing}); NumPy twins do the work, much slower. " + _remedy()


_said = False


def say_if_slow() -> None:
    """Warn, once in a process, that the twin is at work: with `WHY`."""
    global _said
    if not AVAILABLE and not _said:
        _said = True
        warnings.warn(WHY, SlowWarning, stacklevel=2)


_share: ContextVar[int | None] = ContextVar("share", default=None)


@contextmanager
def at_most(count: int) -> Iterator[None]:
    """Within this context `threads` is at most `count`: what each one of several solvers at work may use."""
    token = _share.set(count)
    try:
        yield
    finally:
        _share.reset(token)


def threads() -> int:
    """Number of threads for passes over the kernel stack: MKLREF_NUM_THREADS, by default all available cores.

    Within `at_most` no more than that.

    Raises
    ------
    InvalidParameter
        If the environment variable is not a positive integer.
    """
    asked, share = os.environ.get("MKLREF_NUM_THREADS"), _share.get()
    if asked is None:
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        return cores if share is None else min(share, cores)
    if not asked.isdigit() or int(asked) < 1:
        raise InvalidParameter(f"MKLREF_NUM_THREADS = {asked!r} must be a positive integer: the number of threads.")
    return int(asked) if share is None else min(share, int(asked))
