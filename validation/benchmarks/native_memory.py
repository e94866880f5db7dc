"""Memory of a solve of the native solver beyond the kernels: the part `memory` of native.py. Linux alone."""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import mklref
from validation.benchmarks.problems import PROBLEMS


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
