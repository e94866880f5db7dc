"""How many threads the compiled loops may use."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from mklref.exceptions import InvalidParameter

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
