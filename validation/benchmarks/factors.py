"""The solver for kernels as factors, in Gram passes: `python -m validation.benchmarks.factors [N] [--peers]`.

A Gram pass is the processor time of `L.T @ L`, the median of three before each run; beside it stand what no load
disturbs, steps, Gram matrices (rows that were in them, over n) and reads of L. Data: 20 normal variables, labels of a
function of three of them with noise; ten Gaussian kernels of widths 0.5 1.4^m by random Fourier features, 40 each;
hinge loss, C = 1, and a certified relative gap of 1e-6. With `--stream` the rows lie in a file and are read through a
memory map. `--peers` adds what a user would take instead, at uniform weights: LinearSVC and LogisticRegression on all
features. With `--results FILE` the rows are appended there; those of docs/scale.md are validation/results/factors.json.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

import mklref
from mklref import kernels
from mklref._files import write_text
from validation.facts import facts

NORMS = (1.0, 4.0 / 3.0, 2.0)
KERNELS, RANK, VARIABLES = 10, 40, 20


def features(n: int, out: Any) -> np.ndarray:
    """Fill L (n, 400) block by block; the labels (n,)."""
    rng = np.random.default_rng(0)
    maps = [rng.normal(size=(VARIABLES, RANK // 2)) / (0.5 * 1.4**m) for m in range(KERNELS)]
    y = np.empty(n)
    for start in range(0, n, 10_000):
        X = rng.normal(size=(min(10_000, n - start), VARIABLES))
        rows = slice(start, start + len(X))
        score = np.sin(2.0 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.5 * X[:, 3] + 0.5 * rng.normal(size=len(X))
        y[rows] = np.where(score > 0.0, 1.0, -1.0)
        waves = [X @ W for W in maps]
        out[rows] = np.hstack([part for Z in waves for part in (np.cos(Z), np.sin(Z))]) / np.sqrt(RANK / 2)
    return y


def timed(work: Any) -> tuple[float, Any]:
    """Processor seconds of all threads, and the result."""
    start = time.process_time()
    result = work()
    return time.process_time() - start, result


def peers(L: Any, y: Any, unit: float, epochs: int) -> dict[str, float]:
    """Linear models at weights 1/M: their passes."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.svm import LinearSVC

    rows = np.asarray(L) / np.sqrt(KERNELS)
    models = {
        f"LinearSVC(hinge), {epochs} epochs": LinearSVC(loss="hinge", C=1.0, max_iter=epochs, random_state=0),
        "LogisticRegression(lbfgs)": LogisticRegression(C=1.0, tol=1e-6, max_iter=1000),
    }
    found = {}
    for name, model in models.items():
        seconds, _ = timed(lambda model=model: model.fit(rows, y))
        print(f"{name:30s} {seconds / unit:8.1f} passes, no weights of kernels are learned", flush=True)
        found[name] = seconds / unit
    return found


def main() -> None:
    """Print one row for each norm."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("n", nargs="?", type=int, default=100_000)
    parser.add_argument("--dtype", choices=("float64", "float32"), default="float64")
    parser.add_argument("--norms", nargs="*", type=float, default=NORMS)
    parser.add_argument("--stream", action="store_true", help="read the rows from a file")
    parser.add_argument("--peers", action="store_true", help="LinearSVC and LogisticRegression beside it")
    parser.add_argument("--epochs", type=int, default=200, help="of LinearSVC")
    parser.add_argument("--results", type=Path)
    options = parser.parse_args()
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        shape, file = (options.n, KERNELS * RANK), Path(folder) / "rows"
        L: Any = (
            np.memmap(file, dtype=options.dtype, mode="w+", shape=shape)
            if options.stream
            else np.empty(shape, options.dtype)
        )
        y = features(options.n, L)
        stack = kernels.FactorStack(np.split(L, KERNELS, axis=1))
        few = np.arange(500)
        mklref.solve(mklref.Problem(stack.part(few), y[few]))  # what is imported once
        unit = 0.0
        for p in options.norms:
            unit = statistics.median(timed(lambda: L.T @ L)[0] for _ in range(3))
            print(f"n = {options.n}, r = {shape[1]}, {options.dtype}: a Gram pass takes {unit:.2f} s", flush=True)
            problem = mklref.Problem(stack, y, C=1.0, regularizer=mklref.Lp(p))
            seconds, solution = timed(lambda problem=problem: mklref.solve(problem))
            counters = solution.history.counters
            print(
                f"p = {p:.3g}: {solution.status.name}, gap {solution.certificate.relative_gap:.1e}, "
                f"{seconds / unit:.1f} passes; {counters['steps']:.0f} steps, {counters['grams']:.1f} Gram matrices, "
                f"{counters['passes']:.1f} reads",
                flush=True,
            )
            rows.append({"p": p, "status": solution.status.name, "gap": solution.certificate.relative_gap})
            rows[-1] |= {"unit": unit, "passes": seconds / unit, **counters}
        if options.peers:
            unit = statistics.median(timed(lambda: L.T @ L)[0] for _ in range(3))
            rows.append({"peers": peers(L, y, unit, options.epochs), "unit": unit})
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    if options.results:
        common = {"n": options.n, "dtype": options.dtype, "stream": options.stream, "peak_GiB": peak, **facts()}
        known = json.loads(options.results.read_text()) if options.results.exists() else []
        write_text(options.results, json.dumps([*known, *(common | row for row in rows)], indent=1) + "\n")
    print(f"peak memory {peak:.2f} GiB")


if __name__ == "__main__":
    main()
