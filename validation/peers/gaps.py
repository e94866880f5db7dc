"""Certified gap against time: `python -m validation.peers.gaps [PROBLEM ...] [--command NAME=TEMPLATE] [--json FILE]`.

Each solver is asked for tolerances from 0.1 down to 1e-8, one after the other, until it has a gap of 1e-8 or one run
takes longer than --most. Of each run the seconds of the processor are kept, its own and those of programs that it
starts, which other work on the machine disturbs less than those of a clock, and the relative gap that `mklref.certify`
finds, to which weights that are missing or wrong count. Solvers that refuse a problem are left out. Problems are
those of `validation.benchmarks.problems`, with p = 1 and p = 2. What is measured again replaces its row of the file.

A program in another language is a template: it reads a problem as `mklref vectors` writes it and writes an answer.

    --command 'SimpleMKL=octave-cli --eval "addpath PATH; one({problem}, {solution}, {tolerance})"'

docs/figures/peers.py draws the file; `benchmark_mkl` beside this one is the same comparison for benchopt.
"""

from __future__ import annotations

import argparse
import json
import resource
import sys
import time
from pathlib import Path
from typing import Any

import mklref
from mklref._files import write_text
from mklref.exceptions import MKLError, NotApplicable
from mklref.problem import Problem
from validation.benchmarks.problems import PROBLEMS
from validation.facts import ROOT, commit, facts, require_core, results_file
from validation.peers.solvers import LABELS, SOLVERS, Solver, commands

STORED = ROOT / "validation" / "results" / "peers.json"
TOLERANCES = tuple(10.0**-k for k in range(1, 9))
SIZES = {"digits": 1000, "cancer": 398, "blobs": 1500, "mnist": 2000}
"""Samples of each problem here."""
NORMS = (1.0, 2.0)


def seconds() -> float:
    """Of the processor, of this process and of those that it has waited for."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


def problem_of(name: str, p: float, samples: int | None = None) -> Problem:
    """A benchmark problem with the hinge loss and an lp ball."""
    kernels, y, C = PROBLEMS[name](samples or SIZES[name])
    return Problem(kernels, y, C=C, regularizer=mklref.Lp(p))


def curve(solve: Solver, problem: Problem, most: float) -> list[dict[str, float]]:
    """Seconds and certified gap for each tolerance; empty if the solver refuses the problem."""
    points: list[dict[str, float]] = []
    for tol in TOLERANCES:
        began = seconds()
        try:
            beta, theta, b = solve(problem, tol)
        except NotApplicable:
            return points
        spent = seconds() - began
        try:
            gap = mklref.certify(problem, beta, weights=theta, intercept=b).relative_gap
        except MKLError:  # no point at all
            return points
        points.append({"tolerance": tol, "seconds": round(spent, 4), "gap": gap})
        if spent > most or gap <= TOLERANCES[-1]:
            break
    return points


def store(path: Path, row: dict[str, Any]) -> None:
    """Add a row to the file, or put it in the place of an older one of the same solver and problem."""
    key = ("problem", "n", "p", "solver")
    rows = json.loads(path.read_text(encoding="utf-8"))["rows"] if path.exists() else []
    rows = [old for old in rows if any(old[name] != row[name] for name in key)] + [row]
    lines = ",\n".join(map(json.dumps, rows))
    write_text(path, f'{{"facts": {json.dumps(facts())},\n"rows": [\n{lines}\n]}}\n')


def main() -> int:
    """Measure, print, store."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("problems", nargs="*", help=f"of {', '.join(PROBLEMS)}; the first three by default")
    parser.add_argument("--only", action="append", metavar="SOLVER", help="a solver by name, repeatable")
    parser.add_argument("--command", action="append", default=[], metavar="NAME=TEMPLATE")
    parser.add_argument("--samples", type=int, help="other numbers than those of the stored run")
    parser.add_argument("--most", type=float, default=20.0, metavar="SECONDS", help="after a longer run, no other")
    parser.add_argument("--json", type=results_file)
    arguments = parser.parse_args()
    require_core()
    unknown = set(arguments.problems) - set(PROBLEMS)
    if unknown:
        parser.error(f"no problem {', '.join(sorted(unknown))}; known: {', '.join(PROBLEMS)}")
    try:
        solvers = {**SOLVERS, **commands(arguments.command)}
    except ValueError as wrong:
        parser.error(str(wrong))
    for name in arguments.problems or ["digits", "cancer", "blobs"]:
        for p in NORMS:
            problem = problem_of(name, p, arguments.samples)
            mklref.solve(problem, tol=0.1)  # what is computed once for all is in nobody's time
            for who, solve in solvers.items():
                if arguments.only and who not in arguments.only:
                    continue
                points, label = curve(solve, problem, arguments.most), LABELS.get(who, who)
                if points:
                    best = min(point["gap"] for point in points)
                    print(f"{name:8} p = {p:g}  {label:32} {points[-1]['seconds']:8.2f} s, gap {best:.1e}", flush=True)
                if points and arguments.json:
                    size = {"n": problem.n_samples, "M": problem.n_kernels}
                    row = {"problem": name, **size, "p": p, "solver": label, "commit": commit(), "points": points}
                    store(arguments.json, row)
    return 0


if __name__ == "__main__":
    sys.exit(main())
