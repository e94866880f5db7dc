"""`mklref crosscheck`: one table for each p and C, one verdict in all."""

from __future__ import annotations

import json
import platform
import sys
from datetime import UTC, datetime
from importlib.metadata import version
from itertools import islice, product
from typing import Any

import mklref
from mklref import native, reference, report
from mklref._crosscheck import CrossCheck, Row, chosen_job
from mklref._crosscheck.rows import rows
from mklref._files import write_text
from mklref._progress import Steps
from mklref.cli import render
from mklref.cli.files import deliver
from mklref.cli.options import COSTS, NORMS, SAMPLES
from mklref.cli.problem import read, read_stated, words_of


def run(arguments: Any) -> bool:
    """Print the tables, write the files, and say whether every check passed."""
    out = render.console()
    if arguments.report:
        report.require_extra()
    if (stated := read_stated(arguments)) is not None:
        title, facts = words_of(stated, arguments.data)
        problems = {title: stated}
    else:
        data = read(arguments, SAMPLES)
        grid = product(arguments.C or COSTS, arguments.p or NORMS)
        facts, problems = data.facts, {data.title(p, C): data.problem(p, C) for C, p in grid}
    jobs = []
    for problem in problems.values():  # each one is checked before the first one is solved
        every = arguments.formulations == ["all"]
        formulations = reference.formulations(problem) if every else arguments.formulations
        tolerances = arguments.tol, arguments.reference_tol, arguments.value_tol
        jobs.append(chosen_job(problem, formulations, arguments.solvers, *tolerances))
    render.show_facts(out, facts)
    total = sum(len(job.labels) for job in jobs)
    answers = rows(jobs, min(arguments.jobs, total - len(jobs)), arguments.max_time)
    checks: dict[str, CrossCheck] = {}
    progress = Steps(sys.stderr.isatty(), "rows", total)
    try:
        for (title, problem), job in zip(problems.items(), jobs, strict=True):
            found: list[Row] = []
            render.show_head(out, title)
            for row in islice(answers, len(job.labels)):
                found.append(row)
                render.show_row(out, CrossCheck(problem, tuple(found)), row)
                progress.advance()
            tolerances = arguments.tol, arguments.value_tol, arguments.reference_tol
            checks[title] = CrossCheck(problem, tuple(found), *tolerances)
            render.show_result(out, checks[title])
    finally:  # what was finished is not lost to an error, to Ctrl-C, or to a pipe that is closed
        progress.close()
        answers.close()
        if checks:
            _deliver(arguments, facts, checks, len(problems))
    failed = [title for title, check in checks.items() if not check.passed]
    if len(checks) > 1:
        verdict = f"FAILED: {len(failed)} of {len(checks)} problems: {'; '.join(failed)}"
        out.print(f"\n[red]{verdict}[/]" if failed else f"\n[green]PASSED: all {len(checks)} problems[/]")
    return not failed


def _deliver(arguments: Any, facts: dict[str, str], checks: dict[str, CrossCheck], asked: int) -> None:
    facts = {**facts, **_circumstances()}
    if len(checks) < asked:
        facts["incomplete"] = f"{len(checks)} of {asked} problems; the run ended before the others"

    def save_json(path: str) -> None:
        content = {"facts": facts, "checks": [{"title": title, **check.to_dict()} for title, check in checks.items()]}
        write_text(path, json.dumps(content, indent=1, allow_nan=False) + "\n")

    deliver(arguments, json=save_json, report=lambda path: write_text(path, report.render(checks, facts)))


def _circumstances() -> dict[str, str]:
    packages = ("numpy", "cvxpy", "clarabel", "ecos", "scs", "scikit-learn")
    return {
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "machine": f"{platform.system()} {platform.machine()}, Python {platform.python_version()}",
        "versions": f"mklref {mklref.__version__}, " + ", ".join(f"{name} {version(name)}" for name in packages),
        "native core": "compiled" if native.AVAILABLE else native.WHY,
    }
