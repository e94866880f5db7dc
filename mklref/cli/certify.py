"""`mklref certify`: the verdict on a solution in a file, whoever wrote it, or on a directory of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from mklref.certificate import Bounds, certify
from mklref.cli import render
from mklref.exceptions import InvalidInput
from mklref.problem import Problem
from mklref.testing.answer import Answer
from mklref.testing.case import size_at_zero
from mklref.testing.diagnosis import judge
from mklref.testing.optimal import require_tolerance
from mklref.testing.vectors import answer_from_record, problem_from_record, read_record
from mklref.testing.vectors.check import check_directory


def run(arguments: Any) -> bool:
    """Print the verdict, save it if asked for, and say whether the answer is certified."""
    require_tolerance("--tol", arguments.tol)
    render.require_writable(arguments.save, arguments.report)
    out = render.console()
    if Path(arguments.problem).is_dir():
        report = check_directory(arguments.problem, arguments.solution, tol=arguments.tol)
        out.print(report)
        for row in report.failures:
            out.print(f"\n{row.message}", markup=False, soft_wrap=True)
        _write(arguments.save, report.to_dict())
        if arguments.report:
            Path(arguments.report).write_text(report.to_html(), encoding="utf-8")
        return report.passed
    problem = problem_from_record(read_record(arguments.problem))
    answer = answer_from_record(read_record(arguments.solution))
    out.print(str(problem), markup=False, soft_wrap=True)
    verdict = judge(problem, answer, tol=arguments.tol, unit=size_at_zero(problem))
    if verdict.certificate is None:
        raise InvalidInput(f"{arguments.solution}: {verdict.findings[0].text}")
    certificate: Bounds = verdict.certificate
    passed = verdict.passed
    out.print(verdict.explain() if not passed else str(certificate), markup=False, soft_wrap=True)
    if arguments.rigorous:
        certificate = _proven(problem, answer, arguments.tol)
        out.print(certificate.explain(), markup=False, soft_wrap=True)
        passed = passed and certificate.is_optimal(arguments.tol)
    _write(arguments.save, certificate.to_dict() if arguments.save else {})
    word, colour = ("CERTIFIED", "green") if passed else ("NOT OPTIMAL", "red")
    out.print(f"[{colour}]{word}[/]: relative gap {certificate.relative_gap:.1e}, allowed {arguments.tol:.1e}")
    return passed


def _proven(problem: Problem, answer: Answer, tol: float) -> Bounds:
    return certify(
        problem, answer.dual_coef, weights=answer.weights, intercept=answer.intercept, rigorous=True, tol=tol
    )


def _write(path: str | None, content: dict[str, Any]) -> None:
    if path is not None:
        Path(path).write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
