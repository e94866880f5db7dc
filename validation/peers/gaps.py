r"""Certified gap against time: `python -m validation.peers.gaps [PROBLEM ...] [--command NAME=TEMPLATE] [--json FILE]`.

Each solver is asked for tolerances from 0.1 down to 1e-8, one after the other, until it has a gap of 1e-8 or one run
takes longer than --most. Of each run the seconds of the processor are kept, its own and those of programs that it
starts, which other work on the machine disturbs less than those of a clock, and the relative gap that `mklref.certify`
finds, to which weights that are missing or wrong count. Problems are those of `validation.benchmarks.problems`, with
p = 1 and p = 2. What is measured again replaces its row of the file.

Solvers that refuse a problem are left out, with their reason; the exit code is 1 if one failed, 2 if a name is unknown.

A program in another language is a template: it reads a problem as `mklref vectors` writes it and writes an answer. The
SimpleMKL toolbox, for instance, with a copy of its files in TOOLBOX, takes part for p = 1 by docs/adapters/simplemkl.m:

    --p 1 --command "SimpleMKL=octave-cli --path docs/adapters --path TOOLBOX
        --eval \"simplemkl('{problem}', '{solution}', {tolerance})\""

--all measures every problem of the page, into validation/results/peers.json unless --json says otherwise; --draw draws
the file, into the docs or beside it. `benchmark_mkl` beside this one is the same comparison for benchopt.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import runpy
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import mklref
from mklref._files import write_text
from mklref.exceptions import MKLError, NotApplicable
from mklref.problem import Problem
from validation.benchmarks.problems import PROBLEMS
from validation.facts import ROOT, facts, require_core, results_file
from validation.peers.solvers import LABELS, SOLVERS, Failed, Solver, commands

STORED = ROOT / "validation" / "results" / "peers.json"
TOLERANCES = tuple(10.0**-k for k in range(1, 9))
SIZES = {"digits": 1000, "cancer": 398, "blobs": 1500, "mnist": 2000}
"""Samples of each problem here."""
NORMS = (1.0, 2.0)
PAGE = (*((name, None) for name in SIZES), ("digits", 200))
"""What --all measures: problems, and samples where they are others."""


def seconds() -> float:
    """Of the processor, of this process and of those that it has waited for."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


def problem_of(name: str, p: float, samples: int | None = None) -> Problem:
    """A benchmark problem with the hinge loss and an lp ball."""
    kernels, y, C = PROBLEMS[name](samples or SIZES[name])
    return Problem(kernels, y, C=C, regularizer=mklref.Lp(p))


def curve(solve: Solver, problem: Problem, most: float) -> tuple[list[dict[str, float]], NotApplicable | Failed | None]:
    """Seconds and certified gap for each tolerance, and why there are no more: a refusal, or a failure."""
    points: list[dict[str, float]] = []
    for tol in TOLERANCES:
        began = seconds()
        try:
            beta, theta, b = solve(problem, tol)
        except (NotApplicable, Failed) as reason:
            return points, reason
        spent = seconds() - began
        try:
            gap = mklref.certify(problem, beta, weights=theta, intercept=b).relative_gap
        except MKLError as reason:
            return points, Failed(f"the answer to {tol:g} is no point: {reason}")
        points.append({"tolerance": tol, "seconds": round(spent, 4), "gap": gap})
        if spent > most or gap <= TOLERANCES[-1]:
            break
    return points, None


def stored(path: Path) -> list[dict[str, Any]]:
    """The rows of a file, each with its facts; those of older rows are their commit and what their file says."""
    content = json.loads(path.read_text(encoding="utf-8"))
    rows, whole = content["rows"], content.get("facts", {})
    return [{"facts": {**whole, **{key: row[key] for key in ("commit",) if key in row}}, **row} for row in rows]


def store(path: Path, row: dict[str, Any]) -> None:
    """Add a row with its facts to the file, or put it in the place of an older one of the same solver and problem."""
    content = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {"rows": []}
    key = ("problem", "n", "p", "solver")
    kept = [old for old in content["rows"] if any(old[name] != row[name] for name in key)]
    lines = ",\n".join(map(json.dumps, [*kept, {**row, "facts": facts()}]))
    needed = "facts" in content and any("facts" not in old for old in kept)
    older = f'"facts": {json.dumps(content["facts"])},\n' if needed else ""
    write_text(path, f'{{{older}"rows": [\n{lines}\n]}}\n')


def measure(
    name: str, samples: int | None, p: float, solvers: dict[str, Solver], most: float, path: Path | None
) -> bool:
    """Print and store what the solvers do on one problem; whether none of them failed."""
    well = True
    problem = problem_of(name, p, samples)
    mklref.solve(problem, tol=0.1)  # what is computed once for all is in nobody's time
    for who, solve in solvers.items():
        points, ended = curve(solve, problem, most)
        label = LABELS.get(who, who)
        line = f"{name:8} p = {p:g}  {label:32}"
        if points:
            best = min(point["gap"] for point in points)
            print(f"{line} {points[-1]['seconds']:8.2f} s, gap {best:.1e}", flush=True)
        if isinstance(ended, Failed):
            print(f"{line} failed: {ended}", file=sys.stderr, flush=True)
            well = False
        elif ended:
            print(f"{line} left out: {ended}", flush=True)
        if points and path:
            size = {"n": problem.n_samples, "M": problem.n_kernels}
            store(path, {"problem": name, **size, "p": p, "solver": label, "points": points})
    return well


def require_known(what: str, names: Iterable[str], known: Iterable[str]) -> None:
    """Refuse names of problems or solvers that are not there.

    Raises
    ------
    ValueError
        With those that are.
    """
    unknown = sorted(set(names) - set(known))
    if unknown:
        raise ValueError(f"no {what} {', '.join(unknown)}; known: {', '.join(known)}")


def main() -> int:
    """Measure, print, store."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("problems", nargs="*", help=f"of {', '.join(SIZES)}; the first three by default")
    parser.add_argument("--only", action="append", metavar="SOLVER", help=f"repeatable, of {', '.join(SOLVERS)}")
    parser.add_argument("--command", action="append", default=[], metavar="NAME=TEMPLATE")
    parser.add_argument("--p", action="append", type=float, choices=NORMS, help="both by default")
    parser.add_argument("--samples", type=int, help="other numbers than those of the stored run")
    parser.add_argument("--most", type=float, default=3.0, metavar="SECONDS", help="after a longer run, no other")
    parser.add_argument("--json", type=results_file)
    parser.add_argument("--all", action="store_true", help="every problem of the page")
    parser.add_argument("--draw", action="store_true", help="the picture, of what --json or --all names")
    arguments = parser.parse_args()
    path = arguments.json or (STORED if arguments.all else None)
    try:
        solvers = {**SOLVERS, **commands(arguments.command)}
        require_known("problem", arguments.problems, SIZES)
        require_known("solver", arguments.only or (), solvers)
        if arguments.all and arguments.problems:
            raise ValueError(f"--all, or {', '.join(arguments.problems)}")
        if arguments.draw and not path:
            raise ValueError("--draw draws a file: --json FILE, or --all")
    except ValueError as wrong:
        parser.error(str(wrong))
    require_core()
    asked = {who: solve for who, solve in solvers.items() if who in (arguments.only or solvers)}
    named = [(name, None) for name in arguments.problems or list(SIZES)[:3]]
    plan = [(name, arguments.samples or samples) for name, samples in (PAGE if arguments.all else named)]
    if "mnist" in dict(plan) and not Path(os.environ.get("MKLREF_DATA", ""), "mnist").is_dir():
        parser.error("mnist is read from the directory that MKLREF_DATA names, which has no folder mnist")
    well = [
        measure(name, samples, p, asked, arguments.most, path)
        for name, samples in dict.fromkeys(plan)
        for p in arguments.p or NORMS
    ]
    if arguments.draw:
        own = {"picture": path.with_suffix(".svg")} if path != STORED else {}
        runpy.run_path(str(ROOT / "docs" / "figures" / "results.py"))["peers"](path, **own)
    return 0 if all(well) else 1


if __name__ == "__main__":
    sys.exit(main())
