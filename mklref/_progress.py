"""A progress line for long work, shown on standard error and only when asked for."""

from __future__ import annotations

import math
from typing import Any


class Steps:
    """Shows how many of a known number of steps are done.

    Parameters
    ----------
    shown : bool
        If False nothing is imported or printed.
    label : str
    total : int
    """

    def __init__(self, shown: bool, label: str, total: int) -> None:
        self._bar: Any = None
        if shown:
            from rich.console import Console
            from rich.progress import BarColumn, MofNCompleteColumn, Progress as Bar, TextColumn, TimeElapsedColumn

            columns = (TextColumn(label), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
            self._bar = Bar(*columns, console=Console(stderr=True), transient=True)
            self._task = self._bar.add_task(label, total=total)
            self._bar.start()

    def advance(self) -> None:
        """Show that another step is done."""
        if self._bar is not None:
            self._bar.advance(self._task)

    def close(self) -> None:
        """Remove the line."""
        if self._bar is not None:
            self._bar.stop()


class Progress:
    """Shows how far a relative gap, or another residual, has come on a logarithmic scale from 1 down to a target.

    Parameters
    ----------
    shown : bool
        If False nothing is imported or printed.
    label : str
    target : float
        Where the bar is full.
    quantity : str
        What is shown.
    """

    def __init__(self, shown: bool, label: str, target: float, quantity: str = "gap") -> None:
        self._decades = max(1e-9, -math.log10(min(target, 0.999)))
        self._bar: Any = None
        if shown:
            from rich.console import Console
            from rich.progress import BarColumn, Progress as Bar, TextColumn, TimeElapsedColumn

            columns = (
                TextColumn(label),
                BarColumn(),
                TextColumn(quantity + " {task.fields[gap]}"),
                TimeElapsedColumn(),
            )
            self._bar = Bar(*columns, console=Console(stderr=True), transient=True)
            self._task = self._bar.add_task(label, total=1.0, gap="-")
            self._bar.start()

    def update(self, gap: float) -> None:
        """Show a gap."""
        if self._bar is not None:
            share = -math.log10(min(max(gap, 1e-300), 1.0)) / self._decades if gap > 0 else 1.0
            self._bar.update(self._task, completed=min(1.0, share), gap=f"{gap:.1e}")

    def close(self) -> None:
        """Remove the line."""
        if self._bar is not None:
            self._bar.stop()
