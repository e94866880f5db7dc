"""What a change in `mklref explore` takes: the cells of its page, each in milliseconds of the processor.

    python -m validation.benchmarks.explore [--samples 200]

A page is opened, and one control after another is moved and moved back. What is measured is what the cells compute,
without marimo's own share and without the conic solvers, which work in the background. The exit code is 1 if a change
takes more than 300 ms.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from mklref.explore import page, walk
from mklref.explore.state import State

MOST = 300.0
"""Milliseconds that a change may take: what follows the hand."""
CHANGES: tuple[tuple[str, Any], ...] = (
    ("C", 0.1),
    ("C", 10.0),
    ("p", "2"),
    ("p", "inf"),
    ("loss", "logistic"),
    ("loss", "squared"),
    ("regularizer", "elastic net (Ivanov)"),
    ("regularizer", "block norm"),
    ("regularizer", "groups"),
    ("samples", 60),
    ("noise", 0.4),
    ("data", "rings"),
    ("kernels", "rbf(0.1..10, 21)"),
)
CELLS: dict[str, Callable[[page.Shown], Any]] = {
    "statement": lambda shown: (page.statement(shown, "dual"), page.primer("dual")),
    "optimum": page.optimum,
    "decision": page.decision,
    "paths": page.paths,
    "walk": walk.walk,
    "code": lambda shown: page.code(shown, "dual"),
}


def opened(state: State) -> dict[str, float]:
    """Milliseconds of every cell for this state."""
    begun, spent = time.process_time(), {}
    shown, complaint = page.solved(state, {})
    assert not complaint, complaint
    for name, cell in (("solve", None), *CELLS.items()):
        if cell is not None:
            cell(shown)
        now = time.process_time()
        spent[name], begun = 1e3 * (now - begun), now
    return spent


def main() -> int:
    """Print the table; the slowest change decides about the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--samples", type=int, default=200)
    start = State(samples=parser.parse_args().samples)
    print(f"{'change':36}" + "".join(f"{name:>11}" for name in ("solve", *CELLS, "together")))
    slowest = 0.0
    for name, value in (("opened", None), *CHANGES):
        page.forget()
        spent = opened(start)
        if value is not None:
            spent = opened(replace(start, **{name: value}))
            slowest = max(slowest, sum(spent.values()))
        words = name if value is None else f"{name} = {value}"
        print(f"{words:36}" + "".join(f"{ms:11.0f}" for ms in (*spent.values(), sum(spent.values()))))
    print(f"the slowest change takes {slowest:.0f} ms; at most {MOST:.0f} are wanted")
    return int(slowest > MOST)


if __name__ == "__main__":
    raise SystemExit(main())
