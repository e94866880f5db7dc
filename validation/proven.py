"""|value - P*| of every primer and general formulation on problems with proven optima: `python -m validation.proven`.

    python -m validation.proven --json validation/results/proven.json

P* is the middle of a certified interval: of the published one for the real problems of `mklref.testing.real`, of the
one that `mklref vectors` writes for the catalogue. A value is what the program says, by the first solver that returns
a point; nothing is polished. The difference is relative to |P*|, or to the unit of the problem where P* is 0. Conic
programs grow fast: problems of up to `--largest` samples are solved, of names like `--only`, by programs of names like
`--programs`; another run adds others.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from fnmatch import fnmatchcase
from typing import Any

import numpy as np

from mklref import primer, reference
from mklref._conic.scaling import factorize
from mklref._crosscheck.row import interval_size
from mklref._typing import Array
from mklref.exceptions import MKLError
from mklref.problem import Problem
from mklref.testing import real
from mklref.testing.case import select
from mklref.testing.vectors.export import enclosure
from validation.facts import ROOT, commit, results_file, store_rows, stored_rows
from validation.primers import statements

STORED = ROOT / "validation" / "results" / "proven.json"
LARGEST = 120
WIDE = 1e-8
"""Relative width of an interval from which on nothing can be said of a value: kernels in float32 may have it."""
LOOPS = {"silp": 200, "semi_infinite": 200, "simplemkl_silp": 40, "kloft_sip": 40}
"""What solves a program for every cut, or builds one as well, and the samples up to which it is asked."""

Proven = tuple[str, Problem, float, float]
"""Name, problem, bounds of its optimal value."""
Row = dict[str, Any]
"""Suite, problem, commit, and the differences by program."""


def catalogue(largest: int, only: str) -> Iterator[Proven]:
    """The problems of the catalogue, with the bounds of an export."""
    for case in select(exclude="grid"):
        problems = case.build()
        for k, problem in enumerate(problems, start=1):
            name = case.name if len(problems) == 1 else f"{case.name}-{k}"
            if problem.n_samples <= largest and fnmatchcase(name, only):
                lower, upper, _ = enclosure(problem)
                yield name, problem, lower, upper


def real_problems(largest: int, only: str) -> Iterator[Proven]:
    """The real problems, with their published bounds."""
    published = real.published()
    for case in real.select():
        entry = published[case.name]
        if int(entry["samples"]) <= largest and fnmatchcase(case.name, only):
            yield case.name, case.build()[0], entry["lower"], entry["upper"]


SUITES: dict[str, Callable[[int, str], Iterator[Proven]]] = {"real": real_problems, "catalogue": catalogue}


def values(problem: Problem, wanted: Callable[[str], bool] = lambda program: True) -> Iterator[tuple[str, float | str]]:
    """What every wanted program that states the problem says its value is, or why it says nothing."""

    def asked(name: str) -> bool:
        return problem.n_samples <= LOOPS.get(name, np.inf) and wanted(name)

    general = list(filter(asked, reference.formulations(problem)))
    primers = [statement for statement in statements(problem) if asked(statement[0])]
    if not general and not primers:
        return
    factors = factorize(problem.kernels)
    for name in general:
        try:
            # Whatever its point is certified to: a raw one seldom reaches a tolerance, for all solvers in vain.
            found = reference.compile(problem, name, factors=factors).solve(polish=False, tol=np.inf)
            yield name, found.value
        except MKLError as failure:
            yield name, type(failure).__name__
    L: list[Array] = list(factors.matrices)
    if all(L_m.shape[1] for L_m in L):
        for name, arguments, scale in primers:
            yield name, _said(name, L, problem.y, arguments, scale)


def _said(name: str, L: list[Array], y: Array, arguments: tuple[Any, ...], scale: float) -> float | str:
    """The value of a primer, in units of the problem; the name of the error where its solver gives up."""
    import cvxpy as cp

    takes_targets = name not in ("simplemkl_17", "simplemkl_19", "kloft_3_5")
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.filterwarnings("ignore", message="Solution may be inaccurate")
        try:
            given = getattr(primer, name)(L, *((y,) if takes_targets else ()), *arguments)
        except (cp.SolverError, TypeError, AttributeError) as failure:  # no value: None is then what is computed with
            return type(failure).__name__
    value = given[0]
    return "no value" if value is None or not np.isfinite(value) else scale * float(value)


def difference(value: float | str, lower: float, upper: float) -> float | str:
    """|value - P*| / |P*|, to two digits, or why there is no value."""
    if isinstance(value, str):
        return value
    return float(f"{abs(value - 0.5 * (lower + upper)) / interval_size((lower, upper)):.2g}")


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("suites", nargs="*", help=f"of {', '.join(SUITES)}; all by default")
    parser.add_argument("--largest", type=int, default=LARGEST, metavar="SAMPLES")
    parser.add_argument("--only", default="*", metavar="PATTERN", help="names of problems, such as 'wine-*'")
    parser.add_argument("--programs", default="*", metavar="PATTERNS", help="names of programs, such as 'dual,kloft_*'")
    parser.add_argument("--json", type=results_file, help="what it has is not solved again; written after each program")
    arguments = parser.parse_args()
    unknown = set(arguments.suites) - set(SUITES)
    if unknown:
        parser.error(f"no suite {', '.join(sorted(unknown))}; known: {', '.join(SUITES)}")
    rows = stored_rows(arguments.json)
    patterns = arguments.programs.split(",")
    for suite in arguments.suites or SUITES:
        for name, problem, lower, upper in SUITES[suite](arguments.largest, arguments.only):
            if not 0.0 <= upper - lower <= WIDE * interval_size((lower, upper)):
                continue
            known = [row["off"] for row in rows if (row["suite"], row["problem"]) == (suite, name)]
            done = set().union(*known)

            def wanted(program: str, done: set[str] = done) -> bool:
                return program not in done and any(fnmatchcase(program, pattern) for pattern in patterns)

            off: dict[str, float | str] = {}
            began = time.monotonic()
            for program, value in values(problem, wanted):
                if not off:
                    rows.append({"suite": suite, "problem": name, "commit": commit(), "off": off})
                off[program] = difference(value, lower, upper)
                seconds, began = time.monotonic() - began, time.monotonic()
                print(f"{suite} {name} {program}: {off[program]} in {seconds:.0f} s", file=sys.stderr, flush=True)
                store_rows(arguments.json, rows)
    print("\n".join(table_lines(rows)))
    return 0


def table_lines(rows: list[Row]) -> list[str]:
    """The table of the docs, from what is stored."""
    lines = []
    for suite in dict.fromkeys(row["suite"] for row in rows):
        of_suite = [row for row in rows if row["suite"] == suite]
        lines += ["", f"**{suite.capitalize()}**, {len({row['problem'] for row in of_suite})} problems:", ""]
        head = ["program", "problems", "median", "largest", "at", "beyond 1e-6", "no value"]
        lines += ["| " + " | ".join(head) + " |", "|---|--:|--:|--:|---|--:|--:|"]
        for program in dict.fromkeys(program for row in of_suite for program in row["off"]):
            found = {row["problem"]: row["off"][program] for row in of_suite if program in row["off"]}
            offs = {name: off for name, off in found.items() if not isinstance(off, str)}
            at = max(offs, key=lambda name: offs[name], default="")
            cells = [f"{np.median(list(offs.values())):.0e}", f"{offs[at]:.0e}", at] if offs else ["", "", ""]
            beyond = sum(off > 1e-6 for off in offs.values())
            cells = [f"`{program}`", str(len(found)), *cells, str(beyond), str(len(found) - len(offs))]
            lines.append("| " + " | ".join(cells) + " |")
    return lines


if __name__ == "__main__":
    sys.exit(main())
