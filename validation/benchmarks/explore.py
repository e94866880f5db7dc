"""What a change in `mklref explore` takes: the cells of its page, each in milliseconds of the processor.

    python -m validation.benchmarks.explore [--samples 200]

A page is opened, and one control after another is moved and moved back. What is measured is what the cells compute,
without marimo's own share and without the conic solvers, which work in the background. The exit code is 1 if a change
takes more than 300 ms. The last column is what comes later: the end of a long solve, and the rest of the paths.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from mklref.explore import page, walk, work
from mklref.explore.state import REGULARIZERS, State
from mklref.losses import LOSSES

MOST = 300.0
"""Milliseconds that a change may take: what follows the hand."""
CHANGES: tuple[dict[str, Any], ...] = (
    {"C": 0.01},
    {"C": 1000.0},
    {"p": "1"},
    {"p": "2"},
    {"p": "inf"},
    *({"loss": loss} for loss in LOSSES if loss != "hinge"),
    *({"regularizer": name} for name in REGULARIZERS if name != State.regularizer),
    {"regularizer": "groups", "C": 1000.0, "data": "toy"},
    {"regularizer": "groups", "C": 1000.0, "loss": "squared_hinge"},
    {"regularizer": "block norm", "p": "inf", "C": 1000.0, "loss": "pinball"},
    {"samples": 60},
    {"noise": 0.4},
    {"data": "rings"},
    {"data": "toy"},
    {"data": "breast_cancer"},
    {"kernels": "rbf(0.1..10, 21)"},
    {"kernels": "rbf(0.1..10, 21)", "p": "1"},
    {"walk": "ivanov to tikhonov|tikhonov to ivanov|lp: weights and norms"},
)
CELLS: dict[str, Callable[[work.Shown], Any]] = {
    "statement": lambda shown: (page.statement(shown, "dual"), page.primer("dual")),
    "optimum": page.optimum,
    "decision": page.decision,
    "walk": walk.walk,
    "paths": lambda shown: (work.extend(shown, shown.begun + work.AT_ONCE), page.paths(shown)),
    "code": lambda shown: page.code(shown, "dual"),
}


def opened(state: State) -> tuple[dict[str, float], float]:
    """Milliseconds of every cell for this state, and of what the background adds to it."""
    begun, spent, memory = time.process_time(), {}, {}
    shown, complaint = work.solved(state, memory)
    assert not complaint, complaint
    for name, cell in (("solve", None), *CELLS.items()):
        if cell is not None:
            cell(shown)
        now = time.process_time()
        spent[name], begun = 1e3 * (now - begun), now
    work.finish(shown, memory, lambda: False)
    for _ in work.further(shown, lambda: False):
        pass
    return spent, 1e3 * (time.process_time() - begun)


def main() -> int:
    """Print the table; the slowest change decides about the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--samples", type=int, default=200)
    start = State(samples=parser.parse_args().samples)
    print(f"{'change':64}" + "".join(f"{name:>11}" for name in ("solve", *CELLS, "together", "later")))
    work.prepare()  # as the page does behind its first picture
    slowest = 0.0
    for change in ({}, *CHANGES):
        work.forget()
        spent, later = opened(start)
        if change:
            spent, later = opened(replace(start, **change))
            slowest = max(slowest, sum(spent.values()))
        words = ", ".join(f"{name} = {value}" for name, value in change.items()) or "opened"
        print(
            f"{words:64}" + "".join(f"{ms:11.0f}" for ms in (*spent.values(), sum(spent.values()), later)), flush=True
        )
    print(f"the slowest change takes {slowest:.0f} ms; at most {MOST:.0f} are wanted")
    return int(slowest > MOST)


if __name__ == "__main__":
    raise SystemExit(main())
