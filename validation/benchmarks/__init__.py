"""Benchmarks, `python -m validation.benchmarks.NAME`, and what they share.

Works take turns (A B A B ...), so that a change of the machine's speed hits all of them alike.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from statistics import median
from typing import Any

from validation.facts import require_core

_REST = 0.1
"""Seconds between turns, in which idle threads of BLAS stop to spin."""

READS = 6
"""Reads of a stack in a turn: BLAS takes a tenth of a second to use all cores again after it was kept to one."""


clock = time.perf_counter
"""What is read: on a busy machine, with one thread, `time.process_time` says more."""


def seconds(work: Callable[[], Any]) -> tuple[float, Any]:
    """Seconds of one call, and its result."""
    start = clock()
    result = work()
    return clock() - start, result


def turns(
    rounds: int, works: Mapping[str, Callable[[], Any]], fastest_of: Mapping[str, int] | None = None
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
            repeated = [seconds(work) for _ in range((fastest_of or {}).get(name, 1))]
            elapsed, results[name] = min(repeated, key=lambda pair: pair[0])
            if count:
                times[name].append(elapsed)
    return times, results


def alternate(
    rounds: int, works: Mapping[str, Callable[[], Any]], fastest_of: Mapping[str, int] | None = None
) -> tuple[dict[str, float], dict[str, Any]]:
    """The same with the median seconds of each."""
    times, results = turns(rounds, works, fastest_of)
    return {name: median(values) for name, values in times.items()}, results


def ratio(rounds: int, work: Callable[[], Any], other: Callable[[], Any]) -> float:
    """Seconds of `work` over those of `other`, the median of paired rounds."""
    times, _ = turns(rounds, {"other": other, "work": work})
    return median(a / b for a, b in zip(times["work"], times["other"], strict=True))
