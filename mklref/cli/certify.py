"""`mklref certify`: the verdict on a solution in a file, whoever wrote it, or on a directory of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from mklref._files import write_text
from mklref.certificate import Bounds
from mklref.cli import render
from mklref.cli.files import deliver
from mklref.exceptions import InvalidInput
from mklref.report import require_extra
from mklref.testing.diagnosis import judge, proven
from mklref.testing.optimal import require_tolerance
from mklref.testing.vectors import read_answer, read_problem
from mklref.testing.vectors.check import check_directory


def run(arguments: Any) -> bool:
    """Print the verdict, save it if asked for, and say whether the answer is certified."""
    require_tolerance("--tol", arguments.tol)
    out = render.console()
    if Path(arguments.problem).is_dir():
        if arguments.report:
            require_extra()
        report = check_directory(arguments.problem, arguments.solution, tol=arguments.tol, rigorous=arguments.rigorous)
        deliver(
            arguments,
            save=lambda path: _write(path, report.to_dict()),
            report=lambda path: write_text(path, report.to_html()),
        )
        out.print(report)
        for row in report.failures:
            out.print(f"\n{row.message}", markup=False, soft_wrap=True)
        return report.passed
    if arguments.report:
        raise InvalidInput("--report is for directories of problems and solutions; --save writes one certificate.")
    problem, answer = read_problem(arguments.problem), read_answer(arguments.solution)
    out.print(str(problem), markup=False, soft_wrap=True)
    verdict = judge(problem, answer, tol=arguments.tol)
    if verdict.certificate is None:
        raise InvalidInput(f"{arguments.solution}: {verdict.findings[0].text}")
    certificate: Bounds = verdict.certificate
    passed, gap = verdict.passed, verdict.relative_gap
    out.print(verdict.explain() if not passed else str(certificate), markup=False, soft_wrap=True)
    if arguments.rigorous:
        certificate = proven(problem, answer, verdict, arguments.tol)
        gap = certificate.relative_gap
        passed = passed and -arguments.tol <= gap <= arguments.tol
    deliver(arguments, save=lambda path: _write(path, certificate.to_dict()))
    if arguments.rigorous:
        out.print(certificate.explain(), markup=False, soft_wrap=True)
    word = "CERTIFIED" if passed else "REJECTED" if gap <= arguments.tol else "NOT OPTIMAL"
    colour = "green" if passed else "red"
    out.print(f"[{colour}]{word}[/]: relative gap {gap:.1e}, allowed {arguments.tol:.1e}")
    return passed


def _write(path: str, content: dict[str, Any]) -> None:
    write_text(path, json.dumps(content, indent=1) + "\n")
