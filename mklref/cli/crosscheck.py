"""`mklref crosscheck`: one table for each p and C, one verdict in all."""

from __future__ import annotations

import json
import platform
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from itertools import product
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

import mklref
from mklref import native, reference, report
from mklref.cli import render
from mklref.cli.options import SAMPLES
from mklref.cli.problem import Input, read
from mklref.crosscheck import CrossCheck, chosen_formulations, crosscheck
from mklref.problem import Problem


def run(arguments: Any) -> bool:
    """Print the tables, write the files, and say whether every check passed."""
    out = render.console()
    render.require_writable(arguments.json, arguments.report)
    if arguments.report:
        report.require_extra()
    data = read(arguments, SAMPLES)
    problems = {data.title(p, C): data.problem(p, C) for C, p in product(arguments.C, arguments.p)}
    formulations = {title: _formulations(problem, arguments.formulations) for title, problem in problems.items()}
    render.show_facts(out, data.facts)
    checks: dict[str, CrossCheck] = {}
    for title, problem in problems.items():
        checks[title] = _check(title, problem, formulations[title], arguments)
        render.show_check(out, checks[title], title)
    _write(arguments, data, checks)
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


def _write(arguments: Any, data: Input, checks: dict[str, CrossCheck]) -> None:
    facts = {**data.facts, **_circumstances()}
    if arguments.json:
        content = {"facts": facts, "checks": [{"title": title, **check.to_dict()} for title, check in checks.items()]}
        Path(arguments.json).write_text(json.dumps(content, indent=1, allow_nan=False) + "\n", encoding="utf-8")
    if arguments.report:
        Path(arguments.report).write_text(report.render(checks, facts), encoding="utf-8")


def _circumstances() -> dict[str, str]:
    """When, where and with what the numbers came about."""
    packages: Sequence[str] = ("numpy", "cvxpy", "clarabel", "ecos", "scs", "scikit-learn")
    return {
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "machine": f"{platform.system()} {platform.machine()}, Python {platform.python_version()}",
        "versions": f"mklref {mklref.__version__}, " + ", ".join(f"{name} {version(name)}" for name in packages),
        "native core": "compiled" if native.AVAILABLE else native.WHY,
    }
