"""Samples beyond memory: `python -m validation.benchmarks.scale DIRECTORY [--n 5000] [--machines p=2 p=1 one average]`.

MNIST, the first n training images, even against odd, 12 Gaussian widths from 2 to 30, hinge, C = 10. DIRECTORY has the
four files of the data set (`train-images-idx3-ubyte.gz` and so on). The machines:

p=...      kernel weights learned at this p; kernels are evaluated when they are read. With several tolerances each
           solution is the start of the next, and the seconds are those of all so far
one        scikit-learn's `SVC` with one of the kernels (gamma = 0.03), and a cache as large as ours
average    its `SVC` on the average kernel, a matrix of 8 n^2 bytes that is evaluated for it as fast as we can; so long
           that n is 20,000 at most
fixed      the same machine solved here, `Fixed` equal weights, for any n

Prints rows of the tables in docs/scale.md. With --results FILE they are also kept there, each as soon as it is known,
and those that are there already are not measured again; without DIRECTORY what is there is printed as these tables:

- processor seconds, of one thread with MKLREF_NUM_THREADS=1, and seconds on the clock;
- the processor seconds in evaluations: of the upper triangles of all kernels in the same precision, by some of the
  rows before and after, the mean of both;
- entries that were evaluated, or made of cached distances, over M n^2;
- peak memory of the process so far; error on the 10,000 test images.

With --answers DIRECTORY each solution is kept there as an .npz file that `mklref certify --data` takes, and the samples
beside it.

`--letter` takes the data set letter instead, from a table: 26 classes, one against the rest, joint weights, 12 widths.
Of more than 16,000 samples, of the 20,000, none are left for the error.
"""

from __future__ import annotations

import argparse
import gzip
import json
import resource
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from mklref import Fixed, Lp, MulticlassProblem, Problem, solve
from mklref._files import replacing, write_text
from mklref.kernels import LazyStack, gaussian
from mklref.kernels.evaluation import Block
from validation.benchmarks import read_rows
from validation.facts import facts, results_file

Array = np.ndarray
Row = dict[str, Any]

WIDTHS = np.geomspace(2.0, 30.0, 12)
LETTER_WIDTHS = np.geomspace(0.5, 8.0, 12)
C, GAMMA = 10.0, 0.03
PEERS, _PEER_TOL = ("one", "average"), 1e-3
_ROWS = 256
_TRAINING = 16000
"""Samples of letter that are trained on, as in its first publication; the last 4,000 are tested."""


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
    n, evaluated = stack.shape[1], stack.evaluated
    index = np.arange(0, n, max(1, n // _ROWS))
    samples, weights = stack.samples(stack.precision), np.ones(len(stack))
    stack.combined(Block(samples, None, index[:8]), weights)
    start = time.process_time()
    stack.combined(Block(samples, None, index), weights)
    seconds = time.process_time() - start
    stack.evaluated = evaluated  # these do not count
    return 0.5 * seconds * n / len(index)


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


class Clock:
    """Processor seconds and seconds on the clock since the last `start`."""

    def __init__(self) -> None:
        self.seconds = self.wall = 0.0

    def __enter__(self) -> Clock:
        self._began = time.process_time(), time.perf_counter()
        return self

    def __exit__(self, *_: object) -> None:
        self.seconds += time.process_time() - self._began[0]
        self.wall += time.perf_counter() - self._began[1]


Error = Callable[[LazyStack, Any], float | None]


def learned(problem: Any, tolerances: list[float], error: Error, answers: Path | None = None) -> Iterator[Row]:
    """Solve to one tolerance after the other; yields what was measured of each, and keeps the answer if asked."""
    stack, start, clock = problem.kernels, None, Clock()
    before = evaluation(stack)
    stack.evaluated = 0.0
    for tol in sorted(tolerances, reverse=True):
        with clock:
            if start is None or not start.certificate.is_optimal(tol):
                start = solve(problem, tol=tol, start=start)
        entries = stack.evaluated / (len(stack) * stack.shape[1] ** 2)
        unit = 0.5 * (before + evaluation(stack))
        if answers is not None:
            point = {"dual_coef": start.dual_coef, "weights": start.weights, "intercept": start.intercept}
            with replacing(answers.with_name(f"{answers.name}-{tol:g}.npz")) as file:
                np.savez(file, **point)
        yield {
            "tol": tol,
            "gap": start.certificate.relative_gap,
            "seconds": clock.seconds,
            "wall": clock.wall,
            "evaluations": clock.seconds / unit,
            "entries": entries,
            "peak GB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6,
            "support": int(np.count_nonzero(np.atleast_2d(start.dual_coef).any(axis=0))),
            "active": int(np.count_nonzero(start.weights)),
            "error": error(stack, start),
        }


def peer(stack: LazyStack, X: Array, y: Array, X_new: Array, y_new: Array, average: bool) -> Iterator[Row]:
    """scikit-learn's SVC, with one of the kernels or on the average of all."""
    from sklearn.svm import SVC

    equal, clock, before = np.full(len(stack), 1.0 / len(stack)), Clock(), evaluation(stack)
    machine = SVC(C=C, gamma=GAMMA, cache_size=stack.cache / 2**20)
    with clock:
        if average:
            machine.set_params(kernel="precomputed")
            machine.fit(stack.reader.square(equal, np.arange(len(X))), y)
        else:
            machine.fit(X, y)
    if average:
        found = SimpleNamespace(dual_coef=np.zeros(len(X)), weights=equal, intercept=machine.intercept_)
        found.dual_coef[machine.support_] = machine.dual_coef_[0]
        wrong = np.sign(scores(stack, found, X_new)[0]) != y_new
    else:
        wrong = machine.predict(X_new) != y_new
    yield {
        "tol": machine.tol,
        "gap": None,
        "seconds": clock.seconds,
        "wall": clock.wall,
        "evaluations": clock.seconds / (0.5 * (before + evaluation(stack))),
        "entries": None,
        "peak GB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6,
        "support": len(machine.support_),
        "active": len(stack) if average else 1,
        "error": float(np.mean(wrong)),
    }


def regularizer(machine: str) -> Any:
    """Of the name of a machine whose weights are learned, or fixed."""
    equal = np.full(len(WIDTHS), 1.0 / len(WIDTHS))
    return Fixed(equal) if machine == "fixed" else Lp(float(machine.removeprefix("p=")))


def mnist(given: argparse.Namespace, n: int, machine: str) -> Iterator[Row]:
    """The rows of one machine on MNIST."""
    X_new, y_new = images(given.data, "t10k")
    X, y = (part[:n] for part in images(given.data, "train"))
    X = X.copy()  # the others go
    stack = gaussian(WIDTHS).fit(X, storage="lazy", cache=given.cache, precision=given.precision)
    if machine in PEERS:
        return peer(stack, X, y, X_new, y_new, machine == "average")
    problem = Problem(stack, y, C=C, regularizer=regularizer(machine))
    if given.answers:
        with replacing(given.answers / f"mnist-{n}.npz") as file:
            np.savez(file, X=X, y=y)
    return learned(
        problem,
        given.tol,
        lambda stack, found: float(np.mean(np.sign(scores(stack, found, X_new)[0]) != y_new)),
        given.answers and given.answers / f"mnist-{n}-{machine}",
    )


def letter(given: argparse.Namespace, n: int, machine: str) -> Iterator[Row]:
    """The rows of one machine on letter."""
    X, names = letters(given.data)
    _, codes = np.unique(names, return_inverse=True)
    test = slice(_TRAINING, None)
    stack = gaussian(LETTER_WIDTHS).fit(X[:n], storage="lazy", cache=given.cache, precision=given.precision)
    problem = MulticlassProblem(stack, names[:n], C=C, regularizer=regularizer(machine))

    def error(stack: LazyStack, found: Any) -> float | None:
        return float(np.mean(scores(stack, found, X[test]).argmax(axis=0) != codes[test])) if n <= _TRAINING else None

    return learned(problem, given.tol, error)


_NAMES = {"one": "`SVC`, one kernel", "average": "`SVC`, average", "fixed": "equal weights"}


def shown(row: Row) -> str:
    """A row of the tables in docs/scale.md."""

    def small(value: float, digits: int) -> str:
        return f"{value:.{digits}e}".replace("e-0", "e-")

    peer, entries, error = row["machine"] in PEERS, row["entries"], row["error"]
    cells = (
        f"{row['n']:,}",
        _NAMES.get(row["machine"]) or f"${row['machine'].replace('=', ' = ')}$",
        "–" if peer else small(row["tol"], 0),
        "–" if peer else small(row["gap"], 1),
        f"{row['seconds']:.3g}",
        f"{row['evaluations']:.{2 if row['evaluations'] < 99.5 else 3}g}",
        "–" if entries is None else f"{entries:.1f}",
        f"{row['peak GB']:.1f}",
        f"{row['support']:,}",
        str(row["active"]),
        "–" if error is None else f"{error:.4f}",
    )
    return f"| {' | '.join(cells)} |"


def table(rows: list[Row], data: str) -> list[str]:
    """The rows of one data set, by samples, machines and tolerances."""
    machines = ("p=2", "p=1", "one", "average", "fixed")
    own = [row for row in rows if row["data"] == data]
    own.sort(key=lambda row: (row["n"], machines.index(row["machine"]), -row["tol"]))
    return [shown(row) for row in own]


def main() -> None:
    """Measure what is missing, print and keep it."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("data", type=Path, nargs="?", help="none: print the tables of --results")
    options.add_argument("--n", type=int, nargs="+", default=[5000])
    options.add_argument("--machines", nargs="+", default=["p=2", "p=1"])
    options.add_argument("--tol", type=float, nargs="+", default=[1e-3, 1e-4])
    options.add_argument("--precision", default="float32")
    options.add_argument("--cache", default="2500MB")
    options.add_argument("--letter", action="store_true")
    options.add_argument("--results", type=results_file)
    options.add_argument("--answers", type=Path)
    given = options.parse_args()
    name, measure = ("letter", letter) if given.letter else ("mnist", mnist)
    known = read_rows(given.results)
    if given.data is None:
        print("\n".join([*table(known, "mnist"), "", *table(known, "letter")]))
        return
    done = {(row["data"], row["n"], row["machine"], row["tol"]) for row in known}
    for n, machine in ((n, machine) for n in given.n for machine in given.machines):
        if all((name, n, machine, tol) in done for tol in ([_PEER_TOL] if machine in PEERS else given.tol)):
            continue
        for found in measure(given, n, machine):
            row = {"data": name, "n": n, "machine": machine, **found, "facts": facts()}
            print(shown(row), flush=True)
            if given.results:
                keys = ("data", "n", "machine", "tol")
                others = [old for old in read_rows(given.results) if any(old[key] != row[key] for key in keys)]
                write_text(given.results, json.dumps([*others, row], indent=1) + "\n")


if __name__ == "__main__":
    main()
