"""Where time and memory of a solve go, and what its pieces cost: the parts `profile`, `pieces`, `memory` of native.py.

The stages of a solve are timed from outside, each without what another stage does on its behalf. What runs within
the start on a part of the samples, or within the certificate, belongs to it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import partial
from inspect import signature
from multiprocessing import get_context
from pathlib import Path
from statistics import median
from typing import Any
from unittest.mock import patch

import numpy as np
from scipy.linalg import lapack

import mklref
from mklref._threads import blas_threads
from mklref.machines import twin
from mklref.machines.loops import loops
from mklref.machines.machine import Machine
from mklref.machines.quadratic_forms import QuadraticForms
from mklref.machines.smo import SMOMachine
from mklref.native import loop, start
from mklref.native.central import CentralPath
from validation.benchmarks import READS, alternate, seconds, turns
from validation.benchmarks.problems import PROBLEMS, cancer, digits

STAGES: dict[str, tuple[tuple[Any, str], ...]] = {
    "start": ((start, "weights_of_a_part"),),
    "pair steps": ((loops, "smo"),),
    "rows": ((loops, "combine_rows"),),
    "images": ((QuadraticForms, "update"),),
    "machines": ((SMOMachine, "solve"),),
    "curvature": ((SMOMachine, "hessian_root"),),
    "programs": ((loops, "quadratic_program"),),
    "weights": ((loop, "step"),),
    "central path": ((CentralPath, "step"),),
    "bounds": ((loop.Loop, "assess"),),
    "certificate": ((Machine, "solution"),),
}
"""Functions of every stage: `machines` is what pair steps, rows and images leave of them, `curvature` the Hessian of J
on the weights, `programs` the quadratic programs, `weights` the rest of the model's minimisation."""
_AGAIN = "again"
_WHOLE = ("start", "certificate", _AGAIN)
"""Stages within which no other one counts."""


def copied(function: Callable[..., Any], arguments: tuple[Any, ...], *names: str) -> tuple[Any, ...]:
    """The arguments of a loop with copies of those that it changes in place, named as by its twin."""
    bound = signature(function).bind(*arguments)
    bound.arguments |= {name: bound.arguments[name].copy() for name in names}
    return bound.args


class Stopwatch:
    """Wall seconds by stage; they pass for the innermost one at work, and for `rest` where there is none."""

    def __init__(self) -> None:
        self.spent = dict.fromkeys((*STAGES, "rest", _AGAIN), 0.0)
        self._at_work = ["rest"]
        self._since = time.perf_counter()

    def restart(self) -> None:
        """Forget what was before."""
        self.lap()
        self.spent = dict.fromkeys(self.spent, 0.0)

    def lap(self) -> None:
        """Give the seconds since the last lap to the stage at work."""
        now = time.perf_counter()
        self.spent[self._at_work[-1]] += now - self._since
        self._since = now

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Within this context the stage is at work, unless it is part of another."""
        self.lap()
        self._at_work.append(self._at_work[-1] if self._at_work[-1] in _WHOLE else name)
        try:
            yield
        finally:
            self.lap()
            self._at_work.pop()

    def timed(self, name: str, work: Callable[..., Any]) -> Callable[..., Any]:
        """The same function, timed."""

        def wrapper(*arguments: Any, **options: Any) -> Any:
            with self.stage(name):
                return work(*arguments, **options)

        return wrapper

    def timed_pairs(self, smo: Callable[..., Any]) -> Callable[..., Any]:
        """The pair steps are taken again, on rows that are there by then: what that saves was spent on rows."""

        def wrapper(*arguments: Any) -> Any:
            if self._at_work[-1] in _WHOLE:
                return smo(*arguments)
            with self.stage(_AGAIN):
                again = copied(twin.smo, arguments, "beta", "gradient")
            first, second = self.spent["pair steps"], self.spent[_AGAIN]
            with self.stage("pair steps"):
                result = smo(*arguments)
            with self.stage(_AGAIN):
                smo(*again)
            first, second = self.spent["pair steps"] - first, self.spent[_AGAIN] - second
            on_rows = max(0.0, first - second)
            self.spent["pair steps"] -= on_rows
            self.spent["rows"] += on_rows
            return result

        return wrapper


def stages(work: Callable[[], Any]) -> tuple[dict[str, float], Any]:
    """Seconds of every stage of a solve, and its result."""
    watch = Stopwatch()
    with ExitStack() as patches:
        for name, places in STAGES.items():
            for owner, attribute in places:
                function = getattr(owner, attribute)
                timed = watch.timed_pairs(function) if name == "pair steps" else watch.timed(name, function)
                patches.enter_context(patch.object(owner, attribute, timed))
        watch.restart()
        result = work()
        watch.lap()
    return {name: value for name, value in watch.spent.items() if name != _AGAIN}, result


def profile(name: str, p: float, data: tuple[np.ndarray, np.ndarray, float], rounds: int) -> dict[str, Any]:
    """One row: the share of every stage in the seconds of all rounds but an unmeasured one, and of support vectors."""
    K, y, C = data
    problem = mklref.Problem(K, y, C=C, regularizer=mklref.Lp(p))
    spent: list[dict[str, float]] = []

    def work() -> mklref.Solution:
        found, solution = stages(lambda: mklref.solve(problem))
        spent.append(found)
        return solution

    _, results = turns(rounds, {"native": work})
    totals = {stage: sum(each[stage] for each in spent[1:]) for stage in spent[0]}
    total = sum(totals.values())
    shares = {stage: value / total for stage, value in totals.items()}
    alpha = np.abs(results["native"].dual_coef)
    support, free = float(np.mean(alpha > 0.0)), float(np.mean((alpha > 0.0) & (alpha < C)))
    print(
        f"profile  {name:8s} p={p:5.3g} {total / rounds:7.3f} s: "
        + ", ".join(f"{stage} {share:.1%}" for stage, share in shares.items() if share >= 1e-3)
        + f"; support vectors {support:.0%}, free {free:.0%}",
        flush=True,
    )
    return {
        "problem": name,
        "p": p,
        "seconds": total / rounds,
        "shares": shares,
        "support": support,
        "free": free,
        "status": results["native"].status.name,
    }


def quadratic_programs(rounds: int) -> dict[str, Any]:
    """One row: every quadratic program of a solve of cancer at p = 1, compiled and by its twin, the fastest of each."""
    K, y, C = cancer()
    problem = mklref.Problem(K, y, C=C)
    compiled, calls = loops.quadratic_program, []

    def recorded(*arguments: Any) -> bool:
        calls.append(copied(twin.quadratic_program, arguments, "x", "u"))
        return bool(compiled(*arguments))

    def fastest(implementation: Callable[..., bool], call: tuple[Any, ...]) -> float:
        starts = [copied(twin.quadratic_program, call, "x", "u") for _ in range(rounds)]
        return min(seconds(partial(implementation, *start))[0] for start in starts)

    with patch.object(loops, "quadratic_program", recorded):
        solution = mklref.solve(problem)
    with blas_threads():
        times = [(len(call[1]), fastest(compiled, call), fastest(twin.quadratic_program, call)) for call in calls]
    typical = median(slow / fast for _, fast, slow in times)
    print(
        f"pieces   {len(calls)} quadratic programs of {median(size for size, _, _ in times):g} variables (median):"
        f" {median(fast for _, fast, _ in times) * 1e3:.2f} ms (median), the twin {typical:.1f} times as long",
        flush=True,
    )
    return {
        "problem": "quadratic programs",
        "variables": [size for size, _, _ in times],
        "seconds": [fast for _, fast, _ in times],
        "twin_seconds": [slow for _, _, slow in times],
        "ratio": typical,
        "status": solution.status.name,
    }


def factorisation(rounds: int) -> dict[str, Any]:
    """One row: the Cholesky factor of order n that half square and logistic take, and a pass, on digits."""
    K, _, _ = digits()
    theta = np.full(len(K), 1.0 / len(K))
    system = np.tensordot(theta, K, 1) + np.eye(K.shape[1])

    def factor() -> Any:
        with blas_threads(len(system)):
            return lapack.dpotrf(system.T, lower=False)[1]  # a symmetric matrix in rows is one in columns

    works = {"factor": factor, "pass": lambda: np.tensordot(theta, K, 1)}
    times, found = alternate(rounds, works, fastest_of={"pass": READS})
    print(
        f"pieces   Cholesky factor of order {len(system)}: {times['factor'] * 1e3:.1f} ms,"
        f" a pass {times['pass'] * 1e3:.1f} ms",
        flush=True,
    )
    row = {"problem": "factorisation", "n": len(system), "seconds": times["factor"], "pass_seconds": times["pass"]}
    return row | {"status": "STALLED" if found["factor"] else "OPTIMAL"}


# --- memory ----------------------------------------------------------------------------------------------------------


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
