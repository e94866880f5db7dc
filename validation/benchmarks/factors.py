"""The solver for kernels as factors, in Gram passes: `python -m validation.benchmarks.factors [N] [--norms 1 2]`.

A Gram pass is the processor time of `L.T @ L`, the median of three before each run and three after it; beside it stand
what no load disturbs, steps, Gram matrices (rows that were in them, over n) and reads of L. Data: 20 normal variables,
labels of a function of three of them with noise; ten Gaussian kernels of widths 0.5 1.4^m by random Fourier features,
40 each; hinge loss, C = 1, and a certified relative gap of 1e-6.

--stream   the rows lie in a file and are read through a memory map, of which five times a second all pages are given
           back, so that the peak of the memory is that of a machine that has no more; --cold makes the system forget
           them as well, so that they come from the disk
--peers    what a user would take instead, on all features: LinearSVC and LogisticRegression at uniform weights, and
           skglm's group lasso, which has our groups, where it is installed. The logistic group lasso is the problem
           with p = 1 at another parameter: its C is chosen so that both have one solution, and its value is set
           beside our certified lower bound

With --results FILE each row is kept there as soon as it is known, and what is there is not measured again; the rows of
docs/scale.md are validation/results/factors.json.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import mmap
import os
import resource
import statistics
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

import mklref
from mklref import kernels
from mklref._files import write_text
from validation.benchmarks import processor, read_rows
from validation.facts import facts, results_file

NORMS = (1.0, 4.0 / 3.0, 2.0)
KERNELS, RANK, VARIABLES = 10, 40, 20
_BLOCK = 10_000
_GIVEN_BACK = 0.2
"""Seconds after which the pages of a file are given back."""
Row = dict[str, Any]


def blocks(n: int, dtype: Any = np.float64) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Rows of L (k, 400) and their labels (k,), block by block."""
    rng = np.random.default_rng(0)
    maps = [rng.normal(size=(VARIABLES, RANK // 2)) / (0.5 * 1.4**m) for m in range(KERNELS)]
    for start in range(0, n, _BLOCK):
        X = rng.normal(size=(min(_BLOCK, n - start), VARIABLES))
        score = np.sin(2.0 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.5 * X[:, 3] + 0.5 * rng.normal(size=len(X))
        waves = [X @ W for W in maps]
        rows = np.hstack([part for Z in waves for part in (np.cos(Z), np.sin(Z))]) / np.sqrt(RANK / 2)
        yield rows.astype(dtype, copy=False), np.where(score > 0.0, 1.0, -1.0)


def features(n: int, out: Any) -> np.ndarray:
    """Fill L (n, 400); the labels (n,)."""
    y = np.empty(n)
    for k, (rows, labels) in enumerate(blocks(n)):
        own = slice(k * _BLOCK, k * _BLOCK + len(rows))
        out[own], y[own] = rows, labels
    return y


@contextmanager
def rows_of(n: int, dtype: str, stream: bool, cold: bool) -> Iterator[tuple[Any, np.ndarray]]:
    """L (n, 400) in memory or in a file, and y."""
    if not stream:
        L = np.empty((n, KERNELS * RANK), dtype)
        yield L, features(n, L)
        return
    with tempfile.TemporaryDirectory() as folder:
        file, labels = Path(folder) / "rows", []
        with file.open("wb") as out:
            for rows, y in blocks(n, dtype):
                rows.tofile(out)
                labels.append(y)
            os.fsync(out.fileno())
        mapped = np.memmap(file, dtype=dtype, mode="r", shape=(n, KERNELS * RANK))
        with file.open("rb") as opened, given_back(mapped, opened.fileno() if cold else None):
            yield mapped, np.concatenate(labels)


@contextmanager
def given_back(mapped: Any, file: int | None) -> Iterator[None]:
    """Meanwhile the process has the pages of a map only shortly, and the system those of a file as well."""
    done = threading.Event()

    def work() -> None:
        while not done.wait(_GIVEN_BACK):
            mapped._mmap.madvise(mmap.MADV_DONTNEED)
            if file is not None:
                os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def gram_passes(L: Any) -> list[float]:
    """Processor seconds of L'L, three times."""
    return [processor(lambda: L.T @ L)[0] for _ in range(3)]


def solved(problem: mklref.Problem, p: float, L: Any) -> Row:
    """One solve."""
    before, began = gram_passes(L), time.perf_counter()
    seconds, solution = processor(lambda: mklref.solve(problem))
    wall, unit = time.perf_counter() - began, statistics.median(before + gram_passes(L))
    counters, gap = solution.history.counters, solution.certificate.relative_gap
    print(
        f"p = {p:.3g}, a Gram pass takes {unit:.2f} s: {solution.status.name}, gap {gap:.1e}, {seconds / unit:.1f} "
        f"passes; {counters['steps']:.0f} steps, {counters['grams']:.1f} Gram matrices, "
        f"{counters['passes']:.1f} reads; {wall:.0f} s",
        flush=True,
    )
    found = {"p": p, "status": solution.status.name, "gap": gap, "unit": unit, "passes": seconds / unit}
    steps, grams, reads = (counters[name] for name in ("steps", "grams", "passes"))
    return found | {"seconds": seconds, "wall": wall, "steps": steps, "grams": grams, "reads": reads}


def linear(name: str, L: Any, y: Any, unit: float, epochs: int) -> Row:
    """A linear model of scikit-learn at weights 1/M."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.svm import LinearSVC

    rows = np.asarray(L) / np.sqrt(KERNELS, dtype=L.dtype)
    model: Any = LinearSVC(loss="hinge", C=1.0, max_iter=epochs, random_state=0)
    if name == "LogisticRegression":
        model = LogisticRegression(C=1.0, tol=1e-6, max_iter=1000)
    seconds, objective = fitted(model, rows, y)
    found: Row = {"passes": seconds / unit, "seconds": seconds, "iterations": int(np.max(model.n_iter_))}
    return found | ({"objective": objective} if name == "LinearSVC" else {})


def fitted(model: Any, rows: Any, y: Any) -> tuple[float, float]:
    """Processor seconds of a fit, and the primal objective with the hinge loss of what was found."""
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.utils._testing import ignore_warnings

    seconds, _ = processor(lambda: ignore_warnings(category=ConvergenceWarning)(model.fit)(rows, y))
    w, b = model.coef_[0], float(model.intercept_[0])
    return seconds, 0.5 * float(w @ w) + model.C * float(np.maximum(0.0, 1.0 - y * (rows @ w + b)).sum())


def group_lasso(L: Any, y: Any, unit: float) -> Iterator[Row]:
    """The same solution by ours, and the logistic group lasso by skglm.

    In skglm 0.5 the constants of the groups are those of their first columns, and its steps lead away.
    """
    from skglm.datafits import LogisticGroup
    from skglm.penalties import WeightedGroupL2
    from skglm.solvers import GroupBCD

    class Grouped(LogisticGroup):  # type: ignore[misc]
        def get_lipschitz(self, X: Any, y: Any) -> Any:
            starts, columns = self.grp_ptr, self.grp_indices
            made = np.zeros(len(starts) - 1)
            for g in range(len(made)):
                own = X[:, columns[starts[g] : starts[g + 1]]]
                made[g] = np.linalg.norm(own.T @ own, 2) / (4 * len(y))
            return made

    stack = kernels.FactorStack(np.split(L, KERNELS, axis=1))
    problem = mklref.Problem(stack, y, C=1.0, loss="logistic", regularizer="l1", intercept=False)
    seconds, solution = processor(lambda: mklref.solve(problem))
    bounds = solution.certificate
    v = stack.coefficients(solution.dual_coef, solution.weights)
    total = float(np.sqrt(stack.of_each(v * v)).sum())
    ours = {"passes": seconds / unit, "seconds": seconds, "gap": bounds.relative_gap}
    yield {"peer": "group lasso: ours, with weights and certificate"} | ours
    edges, index = np.arange(0, KERNELS * RANK + 1, RANK, dtype=np.int32), np.arange(KERNELS * RANK, dtype=np.int32)
    X, few = np.asfortranarray(L), slice(0, 2000)

    def solved_by(tol: float, rows: Any, y: Any) -> Any:
        penalty = WeightedGroupL2(total / len(y), np.ones(KERNELS), edges, index)
        solver = GroupBCD(tol=tol, fit_intercept=False, max_iter=200, max_epochs=1000)
        return solver.solve(rows, y, Grouped(edges, index), penalty)[0][: KERNELS * RANK]

    solved_by(1e-6, np.asfortranarray(X[few]), y[few])  # what is compiled once
    for tol in (1e-4, 1e-6):
        seconds, w = processor(lambda tol=tol: solved_by(tol, X, y))  # type: ignore[misc]
        value = float(np.logaddexp(0.0, -y * (L @ w)).sum()) + 0.5 * float(np.sqrt(stack.of_each(w * w)).sum()) ** 2
        above = (value - bounds.lower) / abs(bounds.lower)
        row = {"peer": f"group lasso: skglm, tol = {tol:g}", "passes": seconds / unit, "seconds": seconds}
        yield row | {"above": above}


def main() -> None:
    """One row for each norm, and for each peer."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("n", nargs="?", type=int, default=100_000)
    parser.add_argument("--dtype", choices=("float64", "float32"), default="float64")
    parser.add_argument("--norms", nargs="*", type=float, default=NORMS)
    parser.add_argument("--stream", action="store_true", help="read the rows from a file")
    parser.add_argument("--cold", action="store_true", help="and from the disk")
    parser.add_argument("--peers", action="store_true", help="linear models beside it")
    parser.add_argument("--epochs", type=int, default=200, help="of LinearSVC")
    parser.add_argument("--results", type=results_file)
    options = parser.parse_args()
    kept = read_rows(options.results)
    same = {"n": options.n, "dtype": options.dtype, "stream": options.stream, "cold": options.cold}

    def known(**what: Any) -> bool:
        return any(all(row.get(key) == value for key, value in (same | what).items()) for row in kept)

    def keep(row: Row) -> None:
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        kept.append(same | row | {"peak_GiB": peak} | facts())
        if options.results:
            write_text(options.results, json.dumps(kept, indent=1) + "\n")

    norms = [p for p in options.norms if not known(p=p)]
    models = [name for name in ("LinearSVC", "LogisticRegression") if options.peers and not known(peer=name)]
    lasso = options.peers and importlib.util.find_spec("skglm") and not known(peer="group lasso: skglm, tol = 1e-06")
    if not (norms or models or lasso):
        return
    with rows_of(options.n, options.dtype, options.stream, options.cold) as (L, y):
        if norms:
            stack = kernels.FactorStack(np.split(L, KERNELS, axis=1))
            few = np.arange(500)
            mklref.solve(mklref.Problem(stack.part(few), y[few]))  # what is imported once
        for p in norms:
            keep(solved(mklref.Problem(stack, y, C=1.0, regularizer=mklref.Lp(p)), p, L))
        for name in models:
            unit = statistics.median(gram_passes(L))
            keep({"peer": name, "unit": unit} | linear(name, L, y, unit, options.epochs))
            print(f"{name}: {kept[-1]['passes']:.1f} passes, no weights of kernels are learned", flush=True)
        if lasso:
            unit = statistics.median(gram_passes(L))
            for row in group_lasso(L, y, unit):
                keep({"unit": unit} | row)
                print(f"{row['peer']}: {row['passes']:.1f} passes", flush=True)
    print(f"peak memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20:.2f} GiB")


if __name__ == "__main__":
    main()
