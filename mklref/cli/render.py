"""What the commands print: facts, the table of a cross-check, kernel weights side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from rich.cells import cell_len
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from mklref._crosscheck.result import COLUMNS, CrossCheck, kernel_names, line
from mklref._crosscheck.row import Row
from mklref._typing import Array
from mklref._validate import counted

BAR = 8
"""Width of a bar in characters."""
EIGHTHS = " ▏▎▍▌▋▊▉█"
MOST_KERNELS = 40
"""Kernels whose weights are shown; the largest ones if there are more."""
MOST_COLUMNS = 6
_LEFT_OUT = (("lower", "upper"), ("raw lower", "raw upper"), ("seconds",))
"""Columns that a narrow terminal does without, one group after the other: rows keep names, values and status."""
WRITTEN = {"save": "saved to", "out": "written to", "plot": "drawn in"}
PIPE_WIDTH = 130
"""Width of the output where there is no terminal to ask."""


class _Output(Console):
    def on_broken_pipe(self) -> None:
        """Raise it, for `main`; rich would end the process with exit code 1, which is a verdict."""
        raise


def console() -> Console:
    """Standard output; as wide as the table needs where it is no terminal."""
    plain = _Output(highlight=False, soft_wrap=False)
    return plain if plain.is_terminal else _Output(highlight=False, width=max(plain.width, PIPE_WIDTH))


def say(out: Console, text: object) -> None:
    """A text as it is, without line ends of our own."""
    out.print(str(text), markup=False, soft_wrap=True)


def show_written(out: Console, written: Mapping[str, str]) -> None:
    """Where the results of these options are, as `deliver` tells."""
    for option, path in written.items():
        say(out, f"{WRITTEN[option]} {path}")


def grid(*columns: str) -> Table:
    """An empty table of numbers, to the right in their columns, without lines."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        table.add_column(column, justify="right")
    return table


def show_facts(out: Console, facts: Mapping[str, str]) -> None:
    """Lines `name: fact`."""
    for name, fact in facts.items():
        out.print(f"[dim]{name + ':':<9}[/dim] {escape(fact)}")


def show_head(out: Console, title: str) -> None:
    """The title of a cross-check and the names of the columns."""
    out.print(f"\n[bold]{escape(title)}[/bold]")
    out.print(f"[bold]{_fitting(out, COLUMNS)}[/bold]", soft_wrap=True)


def show_row(out: Console, so_far: CrossCheck, row: Row) -> None:
    """One row against the rows so far; red if it contradicts them, yellow if it has no verdict."""
    style = "red" if so_far.contradiction(row) else "yellow" if so_far.undecided(row) else None
    out.print(escape(_fitting(out, so_far.cells(row))), style=style, soft_wrap=True)


def _fitting(out: Console, cells: Sequence[str]) -> str:
    """The columns for which the terminal is wide enough."""
    shown: Sequence[str] = COLUMNS
    for group in _LEFT_OUT:
        if len(line(shown, shown)) > out.width:
            shown = tuple(name for name in shown if name not in group)
    return line(cells, shown)


def show_result(out: Console, check: CrossCheck) -> None:
    """Notes, weights and verdict of one cross-check, after its rows."""
    for note in check.notes:
        out.print(f"  [dim]{escape(note)}[/dim]")
    out.print()
    weights = {name: row.solution.weights for name, row in check.best_rows.items() if row.solution}
    show_weights(out, kernel_names(check.problem), dict(list(weights.items())[:MOST_COLUMNS]))
    out.print(f"[{'green' if check.passed else 'red'}]{escape(check.verdict)}[/]", soft_wrap=True)


def show_weights(out: Console, names: Sequence[str], columns: Mapping[str, Array]) -> None:
    """Kernel weights as bars, one kernel a line, one column for each of several answers."""
    if not columns:
        return
    weights = np.stack(list(columns.values()), axis=1)
    size = weights.max(axis=1)
    top = float(size.max()) or 1.0
    shown = np.sort(np.argsort(-size, kind="stable")[:MOST_KERNELS])
    room = out.width - max(map(cell_len, ("kernel", *(names[m] for m in shown))))
    for cell in (7 + BAR, 6):  # bars and then columns go before the names of kernels do
        fitting = int(np.sum(np.cumsum([2 + max(len(title), cell) for title in columns]) <= room))
        if fitting == len(columns):
            break
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("kernel", no_wrap=True, max_width=max(out.width - 8, 1))
    for title in list(columns)[: max(fitting, 1)]:
        table.add_column(title, no_wrap=True, min_width=6)
    ascii_only = out.options.ascii_only
    for m in shown:
        cells = (f"{own:6.4f} {_bar(own / top, ascii_only)}"[:cell] for own in weights[m, : max(fitting, 1)].tolist())
        table.add_row(escape(names[m]), *cells)
    out.print(table)
    if len(shown) < len(names):
        out.print(f"  [dim]{counted(len(names) - len(shown), 'kernel')} of smaller weight, not shown[/dim]")


def _bar(share: float, ascii_only: bool) -> str:
    """A bar of `BAR` characters for a share in [0, 1]; by eighths of a character where the terminal can."""
    share = min(max(share, 0.0), 1.0)
    if ascii_only:
        return ("#" * round(BAR * share)).ljust(BAR)
    full, eighths = divmod(round(8 * BAR * share), 8)
    return (EIGHTHS[8] * full + (EIGHTHS[eighths] if eighths else "")).ljust(BAR)
