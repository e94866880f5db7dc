"""`mklref crosscheck`: one table for each p and C, one verdict in all."""

from __future__ import annotations

import json
import platform
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from itertools import product
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

import mklref
from mklref import native, reference, report
from mklref._files import write_text
from mklref.cli import render
from mklref.cli.files import deliver
from mklref.cli.options import SAMPLES
from mklref.cli.problem import Input, read
from mklref.crosscheck import CrossCheck, chosen_formulations, crosscheck
from mklref.problem import Problem


def run(arguments: Any) -> bool:
    """Print the tables, write the files, and say whether every check passed."""
    out = render.console()
    if arguments.report:
        report.require_extra()
    data = read(arguments, SAMPLES)
    problems = {data.title(p, C): data.problem(p, C) for C, p in product(arguments.C, arguments.p)}
    formulations = {title: _formulations(problem, arguments.formulations) for title, problem in problems.items()}
    render.show_facts(out, data.facts)
    checks: dict[str, CrossCheck] = {}
    try:
        for title, problem in problems.items():
            checks[title] = _check(title, problem, formulations[title], arguments)
            render.show_check(out, checks[title], title)
    finally:  # what was finished is not lost to an error, to Ctrl-C, or to a pipe that is closed
        if checks:
            _deliver(arguments, data, checks, len(problems))
    failed = [title for title, check in checks.items() if not check.passed]
    if len(checks) > 1:
        verdict = f"FAILED: {len(failed)} of {len(checks)} problems: {'; '.join(failed)}"
        out.print(f"\n[red]{verdict}[/]" if failed else f"\n[green]PASSED: all {len(checks)} problems[/]")
    return not failed


def _formulations(problem: Problem, names: list[str] | None) -> tuple[str, ...]:
    """Checked for every problem before the first one is solved."""
    return reference.formulations(problem) if names == ["all"] else chosen_formulations(problem, names)


def _check(title: str, problem: Problem, formulations: Sequence[str], arguments: Any) -> CrossCheck:
    """One cross-check, with a bar on standard error that is gone before the table is printed."""
    terminal = Console(stderr=True)
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
    with Progress(*columns, console=terminal, transient=True, disable=not terminal.is_terminal) as progress:
        bar = progress.add_task(title, total=None)

        def advance(done: int, total: int, label: str) -> None:
            progress.update(bar, completed=done, total=total, description=f"{title}: {label}")

        return crosscheck(
            problem,
            formulations=formulations,
            solvers=arguments.solvers,
            tol=arguments.tol,
            reference_tol=arguments.reference_tol,
            progress=advance,
        )


def _deliver(arguments: Any, data: Input, checks: dict[str, CrossCheck], asked: int) -> None:
    facts = {**data.facts, **_circumstances()}
    if len(checks) < asked:
        facts["incomplete"] = f"{len(checks)} of {asked} problems; the run ended before the others"

    def save_json(path: str) -> None:
        content = {"facts": facts, "checks": [{"title": title, **check.to_dict()} for title, check in checks.items()]}
        write_text(path, json.dumps(content, indent=1, allow_nan=False) + "\n")

    deliver(arguments, json=save_json, report=lambda path: write_text(path, report.render(checks, facts)))


def _circumstances() -> dict[str, str]:
    """When, where and with what the numbers came about."""
    packages: Sequence[str] = ("numpy", "cvxpy", "clarabel", "ecos", "scs", "scikit-learn")
    return {
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "machine": f"{platform.system()} {platform.machine()}, Python {platform.python_version()}",
        "versions": f"mklref {mklref.__version__}, " + ", ".join(f"{name} {version(name)}" for name in packages),
        "native core": "compiled" if native.AVAILABLE else native.WHY,
    }
