"""The native solver against the streaming limit: `python -m validation.benchmarks.native [--quick] [--json FILE]`.

One *pass* is one streaming read of the kernel stack, `np.tensordot(theta, K, 1)`, timed in the same run. For each
problem and p the solver, the pass and scikit-learn's SVC on the average kernel take turns (A B A B ...), and
medians are reported, so that a change of the machine's speed hits all of them alike.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import sys
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.svm import SVC

import mklref
from validation.benchmarks.problems import PROBLEMS, blobs, cancer, digits

CASES: dict[str, tuple[float, ...]] = {
    "digits": (1.0, 4 / 3, 2.0, 4.0),
    "blobs": (1.0, 4 / 3, 2.0),
    "cancer": (1.0, 2.0),
    "mnist": (1.0, 2.0),
}
SMALL = (50, 100)
"""Samples of breast cancer with 13 kernels, for the conic forms."""
TARGETS = {"digits": (15, 6), "blobs": (15, 6), "cancer": (30, 10), "mnist": (12, 5)}
"""Passes that must be reached, and that are aimed at, per problem; digits aims at 8 for p = 1."""
_REST = 0.1
"""Seconds between turns, in which idle threads of BLAS stop to spin."""
_READS = 6
"""Reads of the stack in a turn: BLAS takes a tenth of a second to use all cores again after it was kept to one."""


def seconds(work: Callable[[], Any]) -> tuple[float, Any]:
    """Wall seconds of one call, and its result."""
    start = time.perf_counter()
    result = work()
    return time.perf_counter() - start, result


def alternate(
    rounds: int, works: dict[str, Callable[[], Any]], fastest_of: dict[str, int] | None = None
) -> tuple[dict[str, float], dict[str, Any]]:
    """Run all works in turn, one unmeasured round first; median seconds and last result of each.

    What `fastest_of` names is done so often in its turn, and the fastest counts.
    """
    times: dict[str, list[float]] = {name: [] for name in works}
    results: dict[str, Any] = {}
    for count in range(rounds + 1):
        for name, work in works.items():
            time.sleep(_REST)
            repeated = [seconds(work) for _ in range((fastest_of or {}).get(name, 1))]
            elapsed, results[name] = min(repeated, key=lambda pair: pair[0])
            if count:
                times[name].append(elapsed)
    return {name: statistics.median(values) for name, values in times.items()}, results


def measure(name: str, p: float, loss: str, data: tuple[np.ndarray, np.ndarray, float], rounds: int) -> dict[str, Any]:
    """One row: seconds, passes, certified gap and counters of one problem."""
    K, y, C = data
    M = len(K)
    theta = np.full(M, 1.0 / M, dtype=K.dtype)
    problem = mklref.Problem(K, y, C=C, loss=loss, regularizer=mklref.Lp(p))
    average = np.tensordot(theta, K, 1)
    works = {
        "native": lambda: mklref.solve(problem),
        "pass": lambda: np.tensordot(theta, K, 1),
        "svc": lambda: SVC(C=C, kernel="precomputed", tol=1e-3).fit(average, y),
    }
    times, results = alternate(rounds, works, {"pass": _READS})
    solution = results["native"]
    row = {
        "problem": name,
        "n": K.shape[1],
        "M": M,
        "dtype": str(K.dtype),
        "loss": loss,
        "p": p,
        "seconds": times["native"],
        "pass_seconds": times["pass"],
        "passes": times["native"] / times["pass"],
        "svc_seconds": times["svc"],
        "relative_gap": solution.certificate.relative_gap,
        "status": solution.status.name,
        "machines": solution.history.counters["machines"],
        "stack_reads": solution.history.counters["passes"],
        "kernels": int(np.count_nonzero(solution.weights > 1e-6)),
    }
    must, aim = TARGETS.get(name, (None, None))
    if (name, p) == ("digits", 1.0):
        aim = 8
    row |= {"must": must, "aim": aim}
    print(
        f"{name:8s} n={row['n']:5d} M={M:4d} {loss:20s} p={p:5.3g} {row['seconds']:7.3f} s {row['passes']:6.1f} passes"
        f"  (must {must}, aim {aim})  gap {row['relative_gap']:.1e}  {row['status']}  {row['machines']:.0f} machines,"
        f" {row['stack_reads']:.1f} reads, {row['kernels']} kernels, SVC {row['svc_seconds']:.3f} s",
        flush=True,
    )
    return row


def measure_small(n: int, p: float, rounds: int) -> dict[str, Any]:
    """One row: seconds of the native solver and of every conic form, in turns, on a small problem."""
    from mklref import reference

    K, y, C = cancer(n)
    problem = mklref.Problem(K[:13], y, C=C, regularizer=mklref.Lp(p))
    works: dict[str, Callable[[], Any]] = {"native": lambda: mklref.solve(problem)}
    for form in sorted(
        set(reference.formulations(problem)) - {"silp", "semi_infinite"}
    ):  # these two are loops of programs
        works[form] = lambda form=form: reference.solve(problem, form, solver="CLARABEL")
    times, results = alternate(rounds, works)
    gaps = {name: results[name].certificate.relative_gap for name in works}
    row = {"problem": "small", "n": n, "M": 13, "loss": "hinge", "p": p, "seconds": times, "relative_gap": gaps}
    print(f"small    n={n:5d} p={p:5.3g} " + ", ".join(f"{name} {value * 1e3:.1f} ms" for name, value in times.items()))
    return row | {"status": results["native"].status.name}


def extra_memory(name: str, p: float) -> float:
    """Peak memory of a solve beyond what was held before, in units of n^2 numbers; for a process of its own."""
    K, y, C = PROBLEMS[name]()
    warm = mklref.Problem(K[:, :40, :40].copy(), y[:40], regularizer=mklref.Lp(p))
    mklref.solve(warm)
    problem = mklref.Problem(K, y, C=C, regularizer=mklref.Lp(p))
    Path("/proc/self/clear_refs").write_text("5")  # the peak starts again from what is held
    held = _kilobytes("VmRSS")
    mklref.solve(problem)
    return (_kilobytes("VmHWM") - held) * 1024 / (8.0 * K.shape[1] ** 2)


def _kilobytes(name: str) -> int:
    """An entry of /proc/self/status: Linux alone."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith(name)).split()[1])


def measure_memory(name: str, p: float) -> dict[str, Any]:
    """One row: memory of a solve beyond the stack."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        extra = pool.submit(extra_memory, name, p).result()
    print(f"{name:8s} p={p:5.3g} memory beyond the stack: {extra:.2f} n^2 numbers", flush=True)
    return {"problem": f"memory of {name}", "p": p, "extra_n2": extra, "status": "OPTIMAL"}


def main(arguments: list[str] | None = None) -> int:
    """Run the benchmark; exit code 1 if a point did not reach its certified gap."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="digits with 300 samples only")
    parser.add_argument("--rounds", type=int, default=5, help="measured rounds of each case")
    parser.add_argument("--only", choices=[*PROBLEMS, "losses", "growth", "small", "memory"], help="one part only")
    parser.add_argument("--json", type=Path, help="write the rows, with versions and machine")
    options = parser.parse_args(arguments)
    rows: list[dict[str, Any]] = []
    if options.quick:
        rows += [measure("digits", p, "hinge", digits(300), 2) for p in CASES["digits"]]
    else:
        for name, exponents in CASES.items():
            if options.only not in (None, name):
                continue
            try:
                data = PROBLEMS[name]()
            except FileNotFoundError as missing:
                print(f"{name}: left out, {missing}; set MKLREF_DATA", file=sys.stderr)
                continue
            rows += [measure(name, p, "hinge", data, options.rounds) for p in exponents]
        if options.only in (None, "losses"):
            data = digits()
            losses = ("squared_hinge", "epsilon_insensitive", "squared", "logistic")
            rows += [measure("digits", p, loss, data, options.rounds) for loss in losses for p in (1.0, 2.0)]
        if options.only in (None, "growth"):
            grown = [measure("digits", 2.0, "hinge", digits(n), options.rounds) for n in (250, 500, 1000, 1700)]
            grown += [measure("blobs", 2.0, "hinge", blobs(1500, M), options.rounds) for M in (5, 10, 20, 40)]
            rows += [row | {"part": "growth"} for row in grown]
        if options.only in (None, "small"):
            rows += [measure_small(n, p, options.rounds) for n in SMALL for p in (1.0, 2.0)]
        if options.only in (None, "memory"):
            rows += [measure_memory(name, p) for name in ("digits", "blobs") for p in (1.0, 2.0)]
    if options.json:
        facts = {
            "date": time.strftime("%Y-%m-%d"),
            "machine": platform.processor() or platform.machine(),
            "python": platform.python_version(),
            "numpy": np.__version__,
            "mklref": mklref.__version__,
            "threads": mklref.native.loops.threads(),
            "rows": rows,
        }
        options.json.write_text(json.dumps(facts, indent=1) + "\n")
    return 0 if all(row["status"] == "OPTIMAL" for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
