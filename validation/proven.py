"""|value - P*| of every primer and general formulation on problems with proven optima: `python -m validation.proven`.

    python -m validation.proven --json validation/results/proven.json

P* is the middle of a certified interval: of the published one for the real problems of `mklref.testing.real`, of the
one that `mklref vectors` writes for the catalogue. A value is what the program says, by the solver that it asks first;
nothing is polished. The difference is relative to |P*|, or to the unit of the problem where P* is 0. Conic programs
grow fast: problems of up to `--largest` samples are solved, and the number of the others is stored.
"""

from __future__ import annotations

import argparse
import json
import sys
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from mklref import primer, reference
from mklref._conic.factors import factorize
from mklref._crosscheck.result import interval_size
from mklref._files import write_text
from mklref._typing import Array
from mklref.exceptions import MKLError
from mklref.problem import Problem
from mklref.testing import real
from mklref.testing.case import select
from mklref.testing.vectors.export import enclosure
from validation.facts import ROOT, facts, results_file
from validation.primers import statements

STORED = ROOT / "validation" / "results" / "proven.json"
LARGEST = 120
WIDE = 1e-8
"""Relative width of an interval from which on nothing can be said of a value: kernels in float32 may have it."""
LOOPS, LONGEST_LOOP = ("simplemkl_silp", "kloft_sip"), 40
"""Primers that build and solve a program for every cut, and the samples up to which they are asked."""

Proven = tuple[str, Problem, float, float]
"""Name, problem, bounds of its optimal value."""


def catalogue(largest: int) -> Iterator[Proven]:
    """The problems of the catalogue, with the bounds of an export."""
    for case in select(exclude="grid"):
        problems = case.build()
        for k, problem in enumerate(problems, start=1):
            if problem.n_samples <= largest:
                lower, upper, _ = enclosure(problem)
                yield (case.name if len(problems) == 1 else f"{case.name}-{k}"), problem, lower, upper


def real_problems(largest: int) -> Iterator[Proven]:
    """The real problems, with their published bounds."""
    published = real.published()
    for case in real.select():
        if published[case.name]["samples"] <= largest:
            entry = published[case.name]
            yield case.name, case.build()[0], float.fromhex(entry["lower_hex"]), float.fromhex(entry["upper_hex"])


SUITES: dict[str, Callable[[int], Iterator[Proven]]] = {"real": real_problems, "catalogue": catalogue}


def values(problem: Problem) -> Iterator[tuple[str, float | str]]:
    """What every program that states the problem says its value is, or why it says nothing."""
    factors = factorize(problem.kernels)
    for name in reference.formulations(problem):
        try:
            found = reference.compile(problem, name, factors=factors).solve(polish=False)
            yield name, found.value
        except MKLError as failure:
            yield name, type(failure).__name__
    L: list[Array] = list(factors.matrices)
    if all(L_m.shape[1] for L_m in L):
        for name, arguments, scale in statements(problem):
            if problem.n_samples > LONGEST_LOOP and name in LOOPS:
                continue
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


def measured(suite: str, largest: int) -> tuple[dict[str, dict[str, float | str]], int]:
    """The differences by program and problem, and how many problems there are."""
    table: dict[str, dict[str, float | str]] = {}
    count = 0
    for name, problem, lower, upper in SUITES[suite](largest):
        size = interval_size((lower, upper))
        if not 0.0 <= upper - lower <= WIDE * size:
            continue
        count += 1
        optimum, worst = 0.5 * (lower + upper), (0.0, "")
        for program, value in values(problem):
            off = value if isinstance(value, str) else abs(value - optimum) / size
            table.setdefault(program, {})[name] = off if isinstance(off, str) else float(f"{off:.2g}")
            worst = max(worst, (off, program)) if isinstance(off, float) else worst
        print(f"{suite} {name}: at most {worst[0]:.1e} ({worst[1]})", file=sys.stderr, flush=True)
    return table, count


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("suites", nargs="*", help=f"of {', '.join(SUITES)}; all by default")
    parser.add_argument("--largest", type=int, default=LARGEST, metavar="SAMPLES")
    parser.add_argument("--json", type=results_file)
    arguments = parser.parse_args()
    unknown = set(arguments.suites) - set(SUITES)
    if unknown:
        parser.error(f"no suite {', '.join(sorted(unknown))}; known: {', '.join(SUITES)}")
    stored: dict[str, Any] = {"facts": facts(), "largest": arguments.largest, "problems": {}, "off": {}}
    for suite in arguments.suites or SUITES:
        stored["off"][suite], stored["problems"][suite] = measured(suite, arguments.largest)
    print("\n".join(table_lines(stored)))
    if arguments.json:
        write_text(arguments.json, json.dumps(stored, indent=0) + "\n")
    return 0


def table_lines(stored: dict[str, Any]) -> list[str]:
    """The table of the docs, from what is stored."""
    lines = []
    for suite, programs in stored["off"].items():
        lines += ["", f"**{suite.capitalize()}**, {stored['problems'][suite]} problems:", ""]
        head = ["program", "problems", "median", "largest", "at", "beyond 1e-6", "no value"]
        lines += ["| " + " | ".join(head) + " |", "|---|--:|--:|--:|---|--:|--:|"]
        for program, found in programs.items():
            offs = {name: off for name, off in found.items() if not isinstance(off, str)}
            at = max(offs, key=lambda name: offs[name], default="")
            cells = [f"{np.median(list(offs.values())):.0e}", f"{offs[at]:.0e}", at] if offs else ["", "", ""]
            beyond = sum(off > 1e-6 for off in offs.values())
            cells = [f"`{program}`", str(len(found)), *cells, str(beyond), str(len(found) - len(offs))]
            lines.append("| " + " | ".join(cells) + " |")
    return lines


if __name__ == "__main__":
    sys.exit(main())
