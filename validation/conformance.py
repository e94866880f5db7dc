"""The catalogue but for its grid on every solver of the library: `python -m validation.conformance [--only WORD]`.

The native solver and the reference at 1e-6; the papers' algorithms at 1e-4, for at most ten seconds a problem, each
within what it accepts. CI runs a part of this.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial
from typing import Any

import mklref
from mklref.algorithms import ALGORITHMS
from mklref.testing import check_solver
from mklref.testing.result import Outcome

Solver = Callable[[Any], Any]


def solvers() -> dict[str, tuple[Solver, float]]:
    """By name, with the tolerance of the check."""
    table: dict[str, tuple[Solver, float]] = {"native": (mklref.solve, 1e-6)}
    for formulation in ("dual", "weighted_primal"):
        table[formulation] = partial(mklref.reference.solve, formulation=formulation), 1e-6
    for name, algorithm in ALGORITHMS.items():
        table[name] = partial(algorithm, tol=1e-5, max_time=10.0), 1e-4
    return table


def main() -> None:
    """One row of a table for each solver, and the faults below."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", metavar="WORD")
    arguments = parser.parse_args()
    for name, (solver, tol) in solvers().items():
        if arguments.only not in name:
            continue
        report = check_solver(solver, tol=tol, exclude="grid")
        counts = (str(report.count(outcome)) for outcome in Outcome)
        failed = ", ".join(f"{row.case.name} ({row.relative_gap:.0e})" for row in report.failures) or "none"
        print(" | ".join([f"`{name}`", f"{tol:g}", *counts, failed]), flush=True)


if __name__ == "__main__":
    main()
