"""A progress line for long work, shown on standard error and only when asked for.

One at a time: what works within the steps of another line shows none of its own.
"""

from __future__ import annotations

import math
import threading
import weakref
from collections.abc import Callable
from typing import Any

_ONE = threading.Lock()
"""Held while it is looked up which line is shown."""


class _Line:
    """A label, a bar, other columns and the time since it began; if not shown nothing is imported or printed."""

    _bar: Any = None

    def __init__(self, shown: bool, label: str, total: float | None, column: str, **fields: Any) -> None:
        if not shown:
            return
        from rich.console import Console
        from rich.progress import BarColumn, Progress as Bar, TextColumn, TimeElapsedColumn

        console = Console(stderr=True)
        if not (console.is_interactive or console.is_jupyter):  # all that a pipe or a file would get is a blank line
            return
        global _shown
        with _ONE:
            if _shown() is not None:
                return
            _shown = weakref.ref(self)
        columns = (TextColumn(label), BarColumn(), TextColumn(column), TimeElapsedColumn())
        self._bar = Bar(*columns, console=console, transient=True)
        self._stop = weakref.finalize(self, self._bar.stop)
        self._task = self._bar.add_task(label, total=total, **fields)
        self._bar.start()

    def close(self) -> None:
        if self._bar is not None:
            self._stop()
            self._bar = None
        global _shown
        if _shown() is self:
            _shown = _none


def _none() -> _Line | None:
    return None


_shown: Callable[[], _Line | None] = _none
"""The line that is shown, as long as anybody has it: Ctrl-C may come before there is somebody to close it."""


def say(shown: bool, sentence: str) -> None:
    """A sentence on standard error, if it is wanted and no line is shown there."""
    if shown and _shown() is None:
        from rich.console import Console

        Console(stderr=True).print(sentence, markup=False, highlight=False, soft_wrap=True)


class Steps(_Line):
    """Shows how many of a known number of steps are done, or of an unknown one."""

    def __init__(self, shown: bool, label: str, total: int | None) -> None:
        known = "" if total is None else f"/{total}"
        super().__init__(shown, label, total, "{task.completed:.0f}" + known)

    def advance(self, by: int = 1) -> None:
        """Show that another step is done, or so many."""
        if self._bar is not None:
            self._bar.advance(self._task, by)


class Progress(_Line):
    """Shows how far a relative gap, or another quantity, has come on a logarithmic scale from 1 down to a target."""

    def __init__(self, shown: bool, label: str, target: float, quantity: str = "gap") -> None:
        self._decades = max(1e-9, -math.log10(min(target, 0.999)))
        super().__init__(shown, label, 1.0, quantity + " {task.fields[gap]}", gap="-")

    def update(self, gap: float) -> None:
        """Show a gap."""
        if self._bar is not None:
            share = -math.log10(min(max(gap, 1e-300), 1.0)) / self._decades if gap > 0 else 1.0
            self._bar.update(self._task, completed=min(1.0, share), gap=f"{gap:.1e}")
