"""`mklref certify`: the verdict on a solution in a file, whoever wrote it, or on a directory of them."""

from __future__ import annotations

import json
import sys
from math import isfinite, prod
from pathlib import Path
from typing import Any

from mklref._files import write_text
from mklref._validate import counted
from mklref.certificate import Bounds
from mklref.certificate.verdict import BESIDE
from mklref.cli import render
from mklref.cli.files import deliver
from mklref.cli.problem import TABLES, targets_for_loss
from mklref.datasets import read_csv
from mklref.exceptions import InvalidInput, InvalidParameter
from mklref.kernels import parse
from mklref.kernels.lazy import LazyStack
from mklref.problem import Problem
from mklref.report import require_extra
from mklref.testing.diagnosis import proven
from mklref.testing.faults import SEEN
from mklref.testing.vectors.check import check_directory, judge_file, read_answer, stated_problem
from mklref.testing.vectors.formats import read_as, read_record
from mklref.testing.vectors.schema import parameters

OF_TABLES = ("target", "ignore", "positive", "standardize")
"""Options that say how a CSV file is read."""


def run(arguments: Any) -> bool:
    """Print the verdict, save it if asked for, and say whether the answer is certified."""
    out = render.console()
    if arguments.data is not None:
        return _on_samples(arguments, out)
    for option in ("kernels", "normalize", "p", "C", "loss", *OF_TABLES):
        if getattr(arguments, option):
            raise InvalidParameter(f"--{option} goes with --data; a PROBLEM states its own.")
    if arguments.problem is None:
        raise InvalidParameter("give PROBLEM and SOLUTION, or --data FILE --kernels SPEC and SOLUTION.")
    given = Path(arguments.problem), Path(arguments.solution)
    if all(one.exists() for one in given) and given[0].is_dir() != given[1].is_dir():
        directory, file = sorted(given, key=Path.is_dir, reverse=True)
        raise InvalidInput(f"{directory} is a directory and {file} is none; give two files, or two directories.")
    if given[0].is_dir():
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
            render.say(out, f"\n{row.message}")
        return report.passed
    if arguments.report:
        raise InvalidInput("--report is for directories of problems and solutions; --save writes one certificate.")
    return _judged(arguments, out, given[0], read_as(arguments.problem, stated_problem))


def _judged(arguments: Any, out: Any, file: Path, stated: tuple[Problem, float, float]) -> bool:
    """The verdict on one answer to the problem that a file states, with the bounds that it states."""
    answer = read_answer(arguments.solution, problem := stated[0])
    render.say(out, problem)
    evaluated = isinstance(problem.kernels, LazyStack)
    verdict = judge_file(file, stated, answer, arguments.tol, suspects=not evaluated)
    entries = prod(problem.kernels.shape)
    if evaluated and not verdict.passed and entries <= SEEN:
        verdict = judge_file(
            file, (problem.replace(kernels=problem.kernels.dense()), *stated[1:]), answer, arguments.tol
        )
    if verdict.certificate is None:
        raise InvalidInput(f"{arguments.solution}: {verdict.findings[0].text}")
    certificate: Bounds = verdict.certificate
    passed, gap = verdict.passed, verdict.relative_gap
    render.say(out, verdict.explain())
    if evaluated and gap > arguments.tol and entries > SEEN:
        limit = f"Causes are looked for up to {SEEN:,} entries of the kernels; these have {entries:,}."
        render.say(out, f"{limit} Ask about the answer to fewer samples, or give a PROBLEM with matrices.")
    if arguments.rigorous:
        certificate = proven(problem, answer, verdict, arguments.tol)
        gap = certificate.relative_gap
        passed = passed and -arguments.tol <= gap <= arguments.tol
    word = "CERTIFIED" if passed else "REJECTED" if gap <= arguments.tol else "NOT OPTIMAL"
    numbers = f"relative gap {gap:.1e}, allowed {arguments.tol:.1e}"
    faults = [finding.fault for finding in verdict.findings]
    said = dict(zip(BESIDE, (passed, f"{word}: {numbers}", faults, verdict.explain()), strict=True))
    beside = {} if arguments.rigorous else said  # of a proof `mklref.verify` knows each field
    deliver(arguments, save=lambda path: _write(path, certificate.to_dict() | beside))
    if arguments.rigorous:
        render.say(out, certificate.explain())
    colour = "green" if passed else "red"
    out.print(f"[{colour}]{word}[/]: {numbers}")
    return passed


def _on_samples(arguments: Any, out: Any) -> bool:
    """The same for kernels of samples, which are evaluated where the certificate asks for them."""
    if arguments.problem is not None or arguments.report or arguments.kernels is None:
        raise InvalidParameter("--data FILE goes with --kernels SPEC and SOLUTION alone, without PROBLEM and --report.")
    record, facts = _samples(arguments)
    loss = {} if (own := arguments.loss) is None else {"loss": own.name, **parameters("loss", own)}
    given = {"C": {"C": arguments.C}, "loss": loss, "p": {"regularizer_p": arguments.p}}
    for option, name, value in [(option, *entry) for option, entries in given.items() for entry in entries.items()]:
        if value is not None and name in record:
            raise InvalidParameter(f"--{option} and {arguments.data} both say {name}.")
        record |= {} if value is None else {name: value}
    if arguments.p is not None:
        record.setdefault("regularizer", "Lp")
    if own is not None:
        record.setdefault("intercept", own.intercept != "forbidden")
    method = None if arguments.normalize in (None, "none") else arguments.normalize
    kernels = parse(arguments.kernels).fit(record.pop("X"), normalize=method, storage="lazy", cache=0)
    if "C" not in record:
        facts["C"] = "1, since neither --C nor the file says it (mklref solve: 100)"
    stated = stated_problem({**record, "kernels": kernels})
    kernels.progress = sys.stderr.isatty()
    render.show_facts(out, facts)
    return _judged(arguments, out, Path(arguments.data), stated)


def _samples(arguments: Any) -> tuple[dict[str, Any], dict[str, str]]:
    """X, y and what else the file states, and lines on how a table was read."""
    if not arguments.data.lower().endswith(TABLES):
        for option in OF_TABLES:
            if getattr(arguments, option):
                raise InvalidParameter(f"--{option} is for CSV files; {arguments.data} holds X and y.")
        record = read_record(arguments.data)
        if not {"X", "y"} <= record.keys() or "kernels" in record:
            raise InvalidInput(f"{arguments.data} needs X (n, d) and y, and no kernels; it has {', '.join(record)}.")
        return record, {}
    table = read_csv(arguments.data, arguments.target, ignore=arguments.ignore)
    y, meaning = targets_for_loss(table.y, arguments)
    how = "standardised" if arguments.standardize else "as they stand (as in solve: --standardize --normalize trace)"
    variables = counted(len(table.features), "variable")
    facts = {"target": f"{table.target}: {meaning}", "samples": f"{len(y)}, {variables} {how}"}
    return {"X": table.standardized() if arguments.standardize else table, "y": y}, facts


def _write(path: str, content: dict[str, Any]) -> None:
    finite = {name: one if not isinstance(one, float) or isfinite(one) else str(one) for name, one in content.items()}
    write_text(path, json.dumps(finite, indent=1, allow_nan=False) + "\n")
