"""Samples beyond memory: `python -m validation.benchmarks.scale DIRECTORY [--n 5000] [--p 1 2] [--tol 1e-3] [--svc]`.

MNIST, the first n training images, even against odd, 12 Gaussian widths from 2 to 30, hinge, C = 10. DIRECTORY has the
four files of the data set (`train-images-idx3-ubyte.gz` and so on). Kernels are evaluated when they are read. With
several tolerances each solution is the start of the next, and the seconds are those of all so far. Prints rows of the
table in docs/scale.md, and with --results FILE appends them there:

- processor seconds, of one thread with MKLREF_NUM_THREADS=1;
- the same in evaluations: seconds of one evaluation of the upper triangles of all kernels in the same precision,
  measured on some of the rows before and after, the mean of both;
- entries that were evaluated, or made of cached distances, over M n^2;
- peak memory of the process; error on the 10,000 test images;
- with --svc, at the end, scikit-learn's `SVC` with one of the kernels (gamma = 0.03).

`--letter` takes the data set letter instead, from a table: 26 classes, one against the rest, joint weights, 12 widths.
The first n samples, 16,000 at most, are trained on.
"""

from __future__ import annotations

import argparse
import gzip
import json
import resource
import time
from pathlib import Path
from typing import Any

import numpy as np

from mklref import Lp, MulticlassProblem, Problem, solve
from mklref._files import write_text
from mklref.kernels import LazyStack, gaussian
from mklref.kernels.evaluation import Block

WIDTHS = np.geomspace(2.0, 30.0, 12)
LETTER_WIDTHS = np.geomspace(0.5, 8.0, 12)
C, GAMMA = 10.0, 0.03
_ROWS = 256
_TRAINING = 16000
"""Samples of letter that may be trained on, as in its first publication; the last 4,000 are tested."""


def images(directory: Path, which: str) -> tuple[np.ndarray, np.ndarray]:
    """Images (n, 784) in [0, 1], and labels -1 (odd) and 1 (even)."""
    pixels, digits = (
        np.frombuffer(gzip.decompress((directory / f"{which}-{kind}-ubyte.gz").read_bytes()), np.uint8, offset=offset)
        for kind, offset in (("images-idx3", 16), ("labels-idx1", 8))
    )
    return pixels.reshape(-1, 784) / 255.0, np.where(digits % 2 == 0, 1.0, -1.0)


def letters(file: Path) -> tuple[np.ndarray, np.ndarray]:
    """Standardised features (20000, 16), and letters, from a table with names of columns and the letter at the end."""
    table = np.loadtxt(file, delimiter=",", dtype=str, skiprows=1)
    X = table[:, :-1].astype(float)
    return (X - X.mean(axis=0)) / X.std(axis=0), table[:, -1]


def evaluation(stack: LazyStack) -> float:
    """Processor seconds of the upper triangles of all kernels, in the precision of the solver, by some of the rows."""
    n = stack.shape[1]
    index = np.arange(0, n, max(1, n // _ROWS))
    samples, weights = stack.samples(stack.precision), np.ones(len(stack))
    stack.combined(Block(samples, None, index[:8]), index[:8], None, weights)
    start = time.process_time()
    stack.combined(Block(samples, None, index), index, None, weights)
    return 0.5 * (time.process_time() - start) * n / len(index)


def scores(stack: LazyStack, solution: Any, X_new: np.ndarray) -> np.ndarray:
    """Scores of new samples, one row a machine (P, k), from the support vectors and the kernels with a weight."""
    betas = np.atleast_2d(solution.dual_coef)
    support, active = np.flatnonzero(betas.any(axis=0)), np.flatnonzero(solution.weights)
    held, found = stack.fitted.reduced(support, active), np.zeros((len(betas), len(X_new)))
    for first in range(0, len(X_new), 1000):
        part = slice(first, first + 1000)
        for weight, rows in zip(solution.weights[active], held.rows(X_new[part], range(len(active))), strict=True):
            found[:, part] += weight * (betas[:, support] @ rows.T)
    return found + np.reshape(solution.intercept, (-1, 1))


def rows(problem: Any, tolerances: list[float], wrong: Any) -> Any:
    """Solve to one tolerance after the other; yields what was measured of each."""
    stack, start, seconds = problem.kernels, None, 0.0
    before = evaluation(stack)
    stack.evaluated = 0.0
    for tol in sorted(tolerances, reverse=True):
        began = time.process_time()
        if start is None or not start.certificate.is_optimal(tol):
            start = solve(problem, tol=tol, start=start)
        seconds += time.process_time() - began
        entries = stack.evaluated / (len(stack) * stack.shape[1] ** 2)
        unit = 0.5 * (before + evaluation(stack))
        yield {
            "n": stack.shape[1],
            "p": problem.regularizer.p,
            "precision": stack.precision,
            "tol": tol,
            "gap": start.certificate.relative_gap,
            "seconds": seconds,
            "evaluations": seconds / unit,
            "entries": entries,
            "peak GB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6,
            "support": int(np.count_nonzero(np.atleast_2d(start.dual_coef).any(axis=0))),
            "active": int(np.count_nonzero(start.weights)),
            "error": float(wrong(stack, start)),
        }


def single(X: np.ndarray, y: np.ndarray, X_new: np.ndarray, y_new: np.ndarray) -> dict[str, Any]:
    """scikit-learn's SVC with one of the kernels."""
    from sklearn.svm import SVC

    start = time.process_time()
    machine = SVC(C=C, gamma=GAMMA).fit(X, y)
    seconds = time.process_time() - start
    return {
        "n": len(X),
        "p": "SVC",
        "seconds": seconds,
        "support": len(machine.support_),
        "active": 1,
        "error": float(np.mean(machine.predict(X_new) != y_new)),
    }


def mnist(given: argparse.Namespace) -> Any:
    """The rows of MNIST."""
    X_new, y_new = images(given.data, "t10k")
    for n in given.n:
        X, y = (part[:n] for part in images(given.data, "train"))
        X = X.copy()  # the others go
        for p in given.p:
            stack = gaussian(WIDTHS).fit(X, storage="lazy", cache=given.cache, precision=given.precision)
            problem = Problem(stack, y, C=C, regularizer=Lp(p))
            yield from rows(
                problem, given.tol, lambda stack, found: np.mean(np.sign(scores(stack, found, X_new)[0]) != y_new)
            )
        if given.svc:
            yield single(X, y, X_new, y_new)


def letter(given: argparse.Namespace) -> Any:
    """The rows of letter."""
    X, names = letters(given.data)
    _, codes = np.unique(names, return_inverse=True)
    train, test = slice(None, min(given.n[0], _TRAINING)), slice(_TRAINING, None)
    for p in given.p:
        stack = gaussian(LETTER_WIDTHS).fit(X[train], storage="lazy", cache=given.cache, precision=given.precision)
        problem = MulticlassProblem(stack, names[train], C=C, regularizer=Lp(p))
        yield from rows(
            problem,
            given.tol,
            lambda stack, found: np.mean(scores(stack, found, X[test]).argmax(axis=0) != codes[test]),
        )


def main() -> None:
    """Measure and print."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("data", type=Path)
    options.add_argument("--n", type=int, nargs="+", default=[5000])
    options.add_argument("--p", type=float, nargs="+", default=[2.0])
    options.add_argument("--tol", type=float, nargs="+", default=[1e-3])
    options.add_argument("--precision", default="float32")
    options.add_argument("--cache", default="2GB")
    options.add_argument("--svc", action="store_true")
    options.add_argument("--letter", action="store_true")
    options.add_argument("--results", type=Path)
    given = options.parse_args()
    for row in letter(given) if given.letter else mnist(given):
        shown = [f"{value:.3g}" if isinstance(value, float) else str(value) for value in row.values()]
        print("|", " | ".join(shown), "|", flush=True)
        if given.results:
            known = json.loads(given.results.read_text()) if given.results.exists() else []
            write_text(given.results, json.dumps([*known, row], indent=1) + "\n")


if __name__ == "__main__":
    main()
