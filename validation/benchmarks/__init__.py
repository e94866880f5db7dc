"""Benchmarks, `python -m validation.benchmarks.NAME`, and what they share.

Works take turns (A B A B ...), so that a change of the machine's speed hits all of them alike.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from statistics import median
from typing import Any

from mklref._files import write_text
from validation.facts import facts, require_core

_REST = 0.1
"""Seconds between turns, in which idle threads of BLAS stop to spin."""

READS = 6
"""Reads of a stack in a turn: BLAS takes a tenth of a second to use all cores again after it was kept to one."""


clock = time.perf_counter
"""What is read: on a busy machine, with one thread, `time.process_time` says more."""


def seconds(work: Callable[[], Any], read: Callable[[], float] | None = None) -> tuple[float, Any]:
    """Seconds of one call, by `clock` or another one, and its result."""
    read = read or clock
    start = read()
    result = work()
    return read() - start, result


def processor(work: Callable[[], Any]) -> tuple[float, Any]:
    """Processor seconds of all threads for one call, and its result: a busy machine makes the clock meaningless."""
    return seconds(work, time.process_time)


def write_rows(file: Path | None, rows: list[dict[str, Any]], **more: Any) -> None:
    """Write rows with the facts of the run, if there is a file to write them to."""
    if file:
        write_text(file, json.dumps(facts() | more | {"rows": rows}, indent=1) + "\n")


def read_rows(file: Path | None) -> list[dict[str, Any]]:
    """The rows of a file that is written row by row; none before it is there."""
    found: list[dict[str, Any]] = json.loads(file.read_text()) if file and file.exists() else []
    return found


def in_a_process(module: str, *arguments: object) -> dict[str, float]:
    """The JSON that a module prints with these arguments in a process of its own."""
    command = [sys.executable, "-m", module, *map(str, arguments)]
    found: dict[str, float] = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return found


def turns(
    rounds: int,
    works: Mapping[str, Callable[[], Any]],
    fastest_of: Mapping[str, int] | None = None,
    read: Callable[[], float] | None = None,
) -> tuple[dict[str, list[float]], dict[str, Any]]:
    """Run all works in turn, one unmeasured round first; seconds of every round and last result of each.

    What `fastest_of` names is done so often in its turn, and the fastest counts. The NumPy twin is not timed.
    """
    require_core()
    times: dict[str, list[float]] = {name: [] for name in works}
    results: dict[str, Any] = {}
    for count in range(rounds + 1):
        for name, work in works.items():
            time.sleep(_REST)
            repeated = [seconds(work, read) for _ in range((fastest_of or {}).get(name, 1))]
            elapsed, results[name] = min(repeated, key=lambda pair: pair[0])
            if count:
                times[name].append(elapsed)
    return times, results


def alternate(
    rounds: int, works: Mapping[str, Callable[[], Any]], **how: Any
) -> tuple[dict[str, float], dict[str, Any]]:
    """The same with the median seconds of each."""
    times, results = turns(rounds, works, **how)
    return {name: median(values) for name, values in times.items()}, results


def ratio(rounds: int, work: Callable[[], Any], other: Callable[[], Any]) -> float:
    """Seconds of `work` over those of `other`, the median of paired rounds."""
    times, _ = turns(rounds, {"other": other, "work": work})
    return median(a / b for a, b in zip(times["work"], times["other"], strict=True))
