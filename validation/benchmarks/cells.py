"""Weights of gene sets with a certificate: `python -m validation.benchmarks.cells [N] [--results FILE]`.

The data of docs/single-cells.md at their size: N = 20,000 cells for training, 300 sets of genes, peaks and proteins as
groups of columns, 2,500 cells to choose C by and 2,500 for the accuracy. Hinge loss; weights learned at p = 1 and
uniform ones, each along a path of C on the first 4,000 cells, with warm starts, to a gap of 1e-3, and at the best C
on all of them to 1e-6. Beside them `LinearSVC` on the same columns, the machine with uniform weights without a
certificate.

With --results FILE each row is kept as soon as it is known, and what is there is not measured again.
"""

from __future__ import annotations

import argparse
import json
import resource
import time
from typing import Any

import numpy as np

import mklref
from mklref import Fixed, Lp, Problem, datasets, kernels, solve, solve_path
from mklref._files import write_text
from validation.benchmarks import read_rows
from validation.benchmarks.factors import fitted
from validation.facts import facts, results_file

HELD_OUT = 2500
SIZES = 3, 8
"""Features of a set."""
FEW = 4000
"""Cells that C is chosen on, with all of them C n / 4000 as large."""
CS = 10.0 ** np.arange(-3.0, -0.4, 0.5)
ROUGHLY = 1e-3
Row = dict[str, Any]


def regularizers(M: int) -> dict[str, Any]:
    """The weights that are compared."""
    return {"p = 1": Lp(1), "uniform": Fixed(np.full(M, 1.0 / M))}


def stacks(cells: datasets.Cells, n: int) -> tuple[Any, Any, Any]:
    """Those of the first n cells, and of the two halves of the others."""
    whole = kernels.column_groups(
        cells.standardized(), cells.sets, normalize="multiplicative", keep=True, dtype=np.float32
    )
    half = n + (len(cells) - n) // 2
    return tuple(whole.part(np.arange(*ends)) for ends in ((0, n), (n, half), (half, len(cells))))


def accuracy(stack: Any, other: Any, y: Any, solution: mklref.solution.Solution) -> float:
    """Of a solution on one stack on the cells of another."""
    v = stack.coefficients(solution.dual_coef, solution.weights)
    return float(np.mean(np.sign(other.product(v) + solution.intercept) == y))


def measured(cells: datasets.Cells, parts: tuple[Any, Any, Any], n: int, regularizer: Any) -> Row:
    """A path of C, the best one solved to the end, and what it found."""
    stack, validation, test = parts
    problem = Problem(stack, cells.y[:n], C=CS[0], regularizer=regularizer)
    few = min(n, FEW)
    small = problem.replace(kernels=stack.part(np.arange(few)), y=cells.y[:few])
    own = slice(n, n + validation.shape[1])
    clock, wall = time.process_time(), time.perf_counter()
    path = solve_path(small, C=CS * n / few, tol=ROUGHLY)
    found = [accuracy(small.kernels, validation, cells.y[own], one) for one in path]
    best = int(np.argmax(found))
    middle = time.process_time()
    solution = solve(problem.replace(C=CS[best]))
    done = time.process_time()
    weights = solution.weights / solution.weights.sum()
    order = np.argsort(-weights)[: len(cells.relevant)]
    share = float(weights[[stack.names.index(name) for name in cells.relevant]].sum())
    return {
        "C": float(CS[best]),
        "path seconds": middle - clock,
        "last seconds": done - middle,
        "wall": time.perf_counter() - wall,
        "steps": [one.history.counters["steps"] for one in path] + [solution.history.counters["steps"]],
        "gaps": [one.certificate.relative_gap for one in path],
        "gap": solution.certificate.relative_gap,
        "lower": solution.certificate.lower,
        "upper": solution.certificate.upper,
        "accuracy": accuracy(stack, test, cells.y[own.stop :], solution),
        "sets with weight": int(np.count_nonzero(weights > 1e-3 * weights.max())),
        "share of the relevant": share,
        "largest": [stack.names[m] for m in order],
    }


def linear(cells: datasets.Cells, parts: tuple[Any, Any, Any], n: int, C: float) -> Row:
    """LinearSVC on the columns of uniform weights."""
    from sklearn.svm import LinearSVC

    stack, _, test = parts
    scale = len(stack) ** -0.5
    rows = (scale * stack.read(0, n)).astype(np.float64)
    model = LinearSVC(loss="hinge", C=C, random_state=0)
    seconds, value = fitted(model, rows, cells.y[:n])
    right = model.predict(scale * test.read(0, test.shape[1])) == cells.y[len(cells) - test.shape[1] :]
    return {"C": C, "last seconds": seconds, "accuracy": float(right.mean()), "upper": value}


def main() -> None:
    """One row for each kind of weights."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("n", nargs="?", type=int, default=20_000)
    parser.add_argument("--sets", nargs=3, type=int, default=(200, 80, 20), help="of genes, peaks and proteins")
    parser.add_argument("--only", nargs="*", help="some of the rows: 'p = 1', uniform, LinearSVC")
    parser.add_argument("--results", type=results_file)
    options = parser.parse_args()
    kept = read_rows(options.results)
    cells = datasets.single_cells(
        np.random.default_rng(0), options.n + 2 * min(HELD_OUT, options.n), sets=tuple(options.sets), sizes=SIZES
    )
    parts = stacks(cells, options.n)
    same = {"n": options.n, "sets": sum(options.sets), "columns": int(parts[0].rank)}
    uniform = None
    for name, regularizer in [*regularizers(len(parts[0])).items(), ("LinearSVC", None)]:
        row = next((row for row in kept if row["weights"] == name and same.items() <= row.items()), None)
        if row is None and options.only and name not in options.only:
            continue
        if row is None:
            made = (
                linear(cells, parts, options.n, uniform["C"])
                if regularizer is None and uniform
                else measured(cells, parts, options.n, regularizer)
            )
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
            row = {"weights": name} | same | made | {"peak_GiB": peak} | facts()
            kept.append(row)
            if options.results:
                write_text(options.results, json.dumps(kept, indent=1) + "\n")
        uniform = row if name == "uniform" else uniform
        print({k: v for k, v in row.items() if k not in facts()}, flush=True)


if __name__ == "__main__":
    main()
