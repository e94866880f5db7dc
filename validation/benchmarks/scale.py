"""MNIST beyond memory: `python -m validation.benchmarks.scale DIRECTORY [--n 5000] [--p 2] [--tol 1e-3] [--svc]`.

The first n training images, even against odd, 12 Gaussian widths from 2 to 30, hinge, C = 10. DIRECTORY has the four
files of the data set (`train-images-idx3-ubyte.gz` and so on). Kernels are evaluated when they are read. Prints a row
of the table in docs/scale.md: processor seconds, of one thread with MKLREF_NUM_THREADS=1; the same in evaluations, the
seconds of one evaluation of the upper triangles of all kernels in the same precision, measured on some of the rows;
entries that were evaluated, or made of cached distances, over M n^2; peak memory; error on the 10,000 test images; and,
with --svc, scikit-learn's `SVC` with one of the kernels (gamma = 0.03).
"""

from __future__ import annotations

import argparse
import gzip
import resource
import time
from pathlib import Path

import numpy as np

from mklref import Lp, Problem, solve
from mklref.kernels import gaussian
from mklref.kernels.evaluation import Block

WIDTHS = np.geomspace(2.0, 30.0, 12)
C, GAMMA = 10.0, 0.03
_ROWS = 256


def images(directory: Path, which: str) -> tuple[np.ndarray, np.ndarray]:
    """Images (n, 784) in [0, 1], and labels -1 (odd) and 1 (even)."""
    pixels, digits = (
        np.frombuffer(gzip.decompress((directory / f"{which}-{kind}-ubyte.gz").read_bytes()), np.uint8, offset=offset)
        for kind, offset in (("images-idx3", 16), ("labels-idx1", 8))
    )
    return pixels.reshape(-1, 784) / 255.0, np.where(digits % 2 == 0, 1.0, -1.0)


def evaluation(stack: object, n: int) -> float:
    """Processor seconds of the upper triangles of all kernels, in the precision of the solver, by some of the rows."""
    index = np.arange(0, n, max(1, n // _ROWS))
    samples, weights = stack.samples(stack.precision), np.ones(len(stack))
    stack.combined(Block(samples, None, index[:8]), index[:8], None, weights)
    start = time.process_time()
    stack.combined(Block(samples, None, index), index, None, weights)
    return 0.5 * (time.process_time() - start) * n / len(index)


def main() -> None:
    """Measure and print."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("directory", type=Path)
    for name, value in {"n": 5000, "p": 2.0, "tol": 1e-3, "precision": "float32", "cache": "2GB"}.items():
        options.add_argument(f"--{name}", type=type(value), default=value)
    options.add_argument("--svc", action="store_true")
    given = options.parse_args()
    X, y = (part[: given.n] for part in images(given.directory, "train"))
    X_new, y_new = images(given.directory, "t10k")
    stack = gaussian(WIDTHS).fit(X, storage="lazy", cache=given.cache, precision=given.precision)
    unit = evaluation(stack, given.n)
    stack.evaluated, start = 0.0, time.process_time()
    solution = solve(Problem(stack, y, C=C, regularizer=Lp(given.p)), tol=given.tol)
    seconds, evaluated = time.process_time() - start, stack.evaluated / (len(stack) * given.n**2)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    support = np.flatnonzero(solution.dual_coef)
    active = np.flatnonzero(solution.weights)
    held, scores = stack.fitted.reduced(support, active), np.full(len(y_new), solution.intercept)
    for first in range(0, len(y_new), 1000):
        part = slice(first, first + 1000)
        for weight, rows in zip(solution.weights[active], held.rows(X_new[part], range(len(active))), strict=True):
            scores[part] += weight * (rows @ solution.dual_coef[support])
    error = np.mean(np.sign(scores) != y_new)
    row = [given.n, f"{given.p:g}", given.precision, f"{solution.certificate.relative_gap:.1e}", f"{seconds:.0f}"]
    row += [f"{seconds / unit:.1f}", f"{evaluated:.1f}", f"{peak:.1f}", len(support), len(active), f"{error:.4f}"]
    if given.svc:
        from sklearn.svm import SVC

        start = time.process_time()
        machine = SVC(C=C, gamma=GAMMA).fit(X, y)
        seconds = time.process_time() - start
        row += [f"{seconds:.0f}", f"{np.mean(machine.predict(X_new) != y_new):.4f}"]
    print("|", " | ".join(map(str, row)), "|", flush=True)


if __name__ == "__main__":
    main()
