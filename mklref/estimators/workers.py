"""Folds side by side in threads: they stop when their search is interrupted, and it waits for them.

A thread that is in a compiled loop while the interpreter ends takes the process with it. Folds in other processes look
in vain for the token of their search here, and end as their processes do.
"""

from __future__ import annotations

import threading
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

_changed = threading.Condition()
_at_work: Counter[str] = Counter()
_stopped: set[str] = set()


@contextmanager
def waited_for() -> Iterator[str]:
    """Within this context folds work under the token that it gives; where it ends by an exception, so do they."""
    token = uuid.uuid4().hex
    try:
        yield token
    except BaseException:
        with _changed:
            _stopped.add(token)
            _changed.wait_for(lambda: not _at_work[token])
        raise


@contextmanager
def at_work(token: str) -> Iterator[Callable[[Any], None]]:
    """Gives a callback for the solver: it raises KeyboardInterrupt once the search of this token has ended."""

    def poll(record: Any) -> None:
        if token in _stopped:
            raise KeyboardInterrupt

    with _changed:
        poll(None)
        _at_work[token] += 1
    try:
        yield poll
    finally:
        with _changed:
            _at_work[token] -= 1
            if not _at_work[token]:
                del _at_work[token]
            _changed.notify_all()
