"""The papers' algorithms side by side: `python -m validation.benchmarks.algorithms [--quick] [--write] [--json FILE]`.

Every algorithm of the package's table runs on every problem that it does not refuse. Each case runs three times, all
algorithms in turn, and the median of the processor's seconds is reported, which other work on the machine disturbs less
than those of a clock; run it with one thread. The counts do not vary. `--write` puts the tables into
docs/algorithms/index.md.

cancer    150 samples of breast cancer, the 13 kernels of SimpleMKL's recipe on all variables, C = 100, gap 1e-4,
          with five regularisers
table 1   the same samples with all 403 kernels, p = 1, gap 0.01: what SimpleMKL's Table 1 counts
"""

from __future__ import annotations

import argparse
import statistics
import sys
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np

import mklref
from mklref._files import write_text
from mklref.algorithms import ALGORITHMS
from mklref.datasets import load
from mklref.exceptions import NotApplicable
from validation.benchmarks import processor, write_rows
from validation.facts import facts, results_file

PAGE = Path(__file__).parents[2] / "docs" / "algorithms" / "index.md"
BEGIN, END = "<!-- tables: begin -->", "<!-- tables: end -->"
GROUPS = (range(10), range(10, 13))
"""The Gaussians and the polynomials."""
REGULARIZERS = (
    mklref.Lp(1),
    mklref.Lp(4 / 3),
    mklref.BlockNorm(4),
    mklref.Groups(GROUPS, 0.5, 0.5),
    mklref.ElasticNet(0.5),
)
TOL, TABLE_1 = 1e-4, 1e-2
LIMIT = 1000
"""Iterations: SimpleMKL allows 2000."""


@cache
def cancer(single_variables: bool = False) -> mklref.Problem:
    """Breast cancer, C = 100, p = 1."""
    data = load("breast_cancer").standardized().subset(150, seed=0)
    kernels = mklref.kernels.simplemkl_recipe(data.X, single_variables=single_variables)
    return mklref.Problem(kernels, np.where(data.y == "benign", 1.0, -1.0), C=100.0)


def problem_for(name: str) -> tuple[mklref.Problem, str]:
    """The problem with the first regulariser that an algorithm takes, and that regulariser's name."""
    for regularizer in REGULARIZERS:
        problem = cancer().replace(regularizer=regularizer)
        if applies(name, problem):
            return problem, str(regularizer)
    raise LookupError(f"{name} takes none of {', '.join(map(str, REGULARIZERS))}")


def applies(name: str, problem: mklref.Problem) -> bool:
    """Whether an algorithm accepts a problem: asked with one iteration at a gap that the first point has."""
    try:
        ALGORITHMS[name](problem, tol=1e6, max_iter=1)
    except NotApplicable:
        return False
    return True


def measure(problem: mklref.Problem, tol: float, rounds: int) -> list[dict[str, Any]]:
    """One row for each algorithm that takes the problem, and one for the native solver at its own 1e-6."""
    works = {
        name: partial(function, problem, tol=tol, max_iter=LIMIT)
        for name, function in ALGORITHMS.items()
        if applies(name, problem)
    } | {"mklref.solve": partial(mklref.solve, problem)}
    seconds: dict[str, list[float]] = {name: [] for name in works}
    solutions: dict[str, Any] = {}
    for _ in range(rounds):
        for name, work in works.items():
            taken, solutions[name] = processor(work)
            seconds[name].append(taken)
    rows = []
    for name, solution in solutions.items():
        counters = solution.history.counters
        rows.append(
            {
                "regularizer": str(problem.regularizer),
                "M": problem.n_kernels,
                "algorithm": name,
                "iterations": len(solution.history),
                "svm": int(counters.get("svm", counters.get("machines", 0))),
                "gradients": int(counters["gradient"]) if "gradient" in counters else None,
                "seconds": statistics.median(seconds[name]),
                "relative_gap": solution.certificate.gap / abs(solution.certificate.upper),
                "kernels": int(np.count_nonzero(solution.weights > 1e-6)),
                "status": solution.status.name,
            }
        )
    return rows


def table(rows: list[dict[str, Any]]) -> str:
    """Rows as Markdown."""
    lines = [
        "| regulariser | algorithm | iterations | SVM evaluations | gradient evaluations | seconds | gap | kernels |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        name, label = f"`{row['algorithm']}`", f"algorithm-{row['algorithm'].replace('_', '-')}"
        for page in PAGE.parent.glob("*.md"):
            if f"({label})=" in page.read_text(encoding="utf-8"):
                name = f"[{name}]({page.name}#{label})"
        svm, gradients = (row[key] or "–" for key in ("svm", "gradients"))
        ended = "" if row["status"] == "OPTIMAL" else f" ({row['status']})"
        lines.append(
            f"| {row['regularizer']} | {name} | {row['iterations']} | {svm} | {gradients} "
            f"| {row['seconds']:.3f} | {row['relative_gap']:.0e}{ended} | {row['kernels']} |"
        )
    return "\n".join(lines)


def main(arguments: list[str] | None = None) -> int:
    """Run the benchmark; exit code 1 if the native solver or an algorithm claims what its certificate denies."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="one round, no table 1")
    parser.add_argument("--write", action="store_true", help=f"write the tables into {PAGE.name} of the docs")
    parser.add_argument("--json", type=results_file, help="write the rows, with versions and machine")
    options = parser.parse_args(arguments)
    rounds = 1 if options.quick else 3
    rows = [
        row for regularizer in REGULARIZERS for row in measure(cancer().replace(regularizer=regularizer), TOL, rounds)
    ]
    paper = [] if options.quick else measure(cancer(single_variables=True), TABLE_1, 1)
    run = facts()
    text = (
        f"Measured {run['date']} ({run['machine']}, Python {run['python']}, NumPy {run['numpy']}, mklref "
        f"{run['mklref']}, {run['threads']} thread(s), other work on the machine; seconds of the processor). "
        f"Gap {TOL:g}:\n\n{table(rows)}\n"
    )
    if paper:
        text += f"\nWith 403 kernels, at the gap {TABLE_1:g} of SimpleMKL's Table 1:\n\n{table(paper)}\n"
    print(text)
    if options.write:
        before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
        write_text(PAGE, f"{before}{BEGIN}\n\n{text}\n{END}{rest.partition(END)[2]}")
    write_rows(options.json, rows + paper)
    honest = all(row["status"] != "OPTIMAL" or row["relative_gap"] <= TABLE_1 for row in rows + paper)
    return 0 if honest else 1


if __name__ == "__main__":
    sys.exit(main())
