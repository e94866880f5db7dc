"""To how many digits do the formulations agree? `python -m validation.values [--samples N] [--processes N]`.

With `--catalogue` instead: does the cross-check of any problem of the catalogue fail, or have rows without a verdict?

Every formulation that applies to the lp ball, by every solver, at several p and C: |value - P*| / P* as a Markdown
table, where P* is the middle of the interval that all certificates share, and the value is that of the model as its
solver states it. Data and kernels are those of `mklref crosscheck`.
"""

from __future__ import annotations

import argparse
import sys
from itertools import product

import mklref
from mklref import datasets, reference
from mklref._crosscheck import NATIVE, SOLVERS, crosscheck
from mklref.kernels import simplemkl_recipe
from mklref.testing.case import select
from validation.facts import facts

EXPONENTS = {"1": 1.0, "4/3": 4 / 3, "2": 2.0}
COSTS = (0.1, 1.0, 100.0)
DIGITS = 1e-8
"""Relative difference up to which two values agree to eight digits."""

LARGEST = 120
"""Samples of a problem of the catalogue, at most."""


def main(arguments: list[str] | None = None) -> int:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m validation.values", description=__doc__)
    parser.add_argument("--samples", type=int, default=100)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--catalogue", action="store_true")
    options = parser.parse_args(arguments)
    return catalogue() if options.catalogue else table(options.samples, options.processes)


def catalogue() -> int:
    """Print every check that fails and every row without a verdict; 1 if a check fails."""
    problems = [(case.name, problem) for case in select() for problem in case.build()]
    small = [(name, problem) for name, problem in problems if problem.n_samples <= LARGEST]
    failed, silent = 0, 0
    for name, problem in small:
        check = crosscheck(problem)
        labels = [row.label for row in check.rows if check.undecided(row)]
        failed, silent = failed + (not check.passed), silent + len(labels)
        if labels or not check.passed:
            print(f"{name}: {check.verdict}", flush=True)
    print(f"{len(small)} problems: {failed} checks failed, {silent} rows without a verdict")
    return int(failed > 0)


def table(samples: int, processes: int) -> int:
    """Print the table of digits; 1 if a cross-check fails."""
    data = datasets.load("breast_cancer").subset(samples, 0)
    kernels = simplemkl_recipe(data.standardized(), single_variables=False)
    labels, _ = datasets.encode(data.y)
    settings = list(product(EXPONENTS, COSTS))
    cells: dict[tuple[str, str], dict[tuple[str, float], str]] = {}
    few, count, passed = [], 0, True
    for p, C in settings:
        problem = mklref.Problem(kernels, labels, C=C, regularizer=mklref.Lp(EXPONENTS[p]))
        check = crosscheck(problem, formulations=reference.formulations(problem), processes=processes)
        passed &= check.passed
        optimum = 0.5 * sum(check.interval)
        print(f"p = {p}, C = {C:g}: {check.verdict}", file=sys.stderr, flush=True)
        for row in check.rows:
            if row.formulation != NATIVE:
                off = abs(row.value - optimum) / optimum
                cells.setdefault((row.formulation, row.solver), {})[p, C] = f"{off:.0e}" if row.solution else row.status
                count += 1
                few += [(row.label, p, C, off)] if not off <= DIGITS else []
    print(f"<!-- {facts()} -->")
    print("| formulation | solver | " + " | ".join(f"p = {p}, C = {C:g}" for p, C in settings) + " |")
    print("|---|---|" + "--:|" * len(settings))
    for (formulation, solver), row in sorted(cells.items(), key=lambda item: SOLVERS.index(item[0][1])):
        print(f"| `{formulation}` | {solver} | " + " | ".join(row.get(setting, "") for setting in settings) + " |")
    print(f"\n{count - len(few)} of {count} values agree to eight digits.")
    for label, p, C, off in few:
        print(f"- {label} at p = {p}, C = {C:g}: {off:.0e}")
    return int(not passed)


if __name__ == "__main__":
    sys.exit(main())
