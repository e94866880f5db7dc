"""A directory of solutions against a directory of problems: `check_solver` for those who cannot call Python."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from mklref._files import SUFFIXES, ending
from mklref._untrusted import parse_json, read_bytes
from mklref._validate import checked_tolerance
from mklref.exceptions import InvalidInput, InvalidKernel, MKLError, NotApplicable, UnsafeFile
from mklref.problem import Problem
from mklref.testing.answer import Answer, require_same_names
from mklref.testing.case import Case
from mklref.testing.diagnosis import Verdict, judge, proven
from mklref.testing.faults import Finding
from mklref.testing.result import NO_SOLUTION, Outcome, Report, Row
from mklref.testing.vectors.export import CERTIFICATE, INDEX, fingerprint
from mklref.testing.vectors.formats import read_answer as read_any, read_as
from mklref.testing.vectors.schema import problem_from_record

_MAX_INDEX = 2**24


def check_directory(
    problems: str | Path, solutions: str | Path, *, tol: float = 1e-6, rigorous: bool = False
) -> Report:
    """Certify the solution of every problem; a problem without one is excluded.

    A problem fails, whatever its solution, if its kernels and targets are not those of which the index has the SHA-256,
    or if the bounds that its file or the index states exclude what is certified here.

    Parameters
    ----------
    problems, solutions : path
        Directories with files of the same names, each in any of the formats: NAME.npz and NAME.mat go together.
    tol : float
        Largest relative gap, as for `check_solver`.
    rigorous : bool
        Prove the bounds of every answer, rounding errors included; what has no such proof (regularisers without one,
        kernels that are not proven semidefinite) is excluded.

    Raises
    ------
    InvalidType, InvalidParameter
        tol is no number in (0, 1).
    InvalidInput
        A path that is no directory, or one without problems; a solution without a problem, or in several formats.
    """
    tol = checked_tolerance("tol", tol)
    pairs, unread = _pairs(Path(problems), Path(solutions)), _unread(Path(solutions))
    published = _published(Path(problems) / INDEX)
    reasons = {file: unread.get(file.stem, NO_SOLUTION) for file in pairs}
    lost = published.keys() - {file.stem for file in pairs}
    reasons |= {Path(problems, f"{name}.npz"): f"{INDEX} lists it, and there is no file" for name in sorted(lost)}
    rows = [
        _row(file, published.get(file.stem, {}), pairs.get(file), reason, tol, rigorous)
        for file, reason in reasons.items()
    ]
    return Report(solver=str(solutions), tol=tol, rows=tuple(rows))


def _row(file: Path, published: dict[str, Any], solution: Path | None, missing: str, tol: float, rigorous: bool) -> Row:
    case = Case(file.stem, (0, 0), frozenset(), str(published.get("statement", f"{file.name}.")), tuple)
    row = Row(case, Outcome.EXCLUDED, missing, (), np.nan, 0.0)
    if solution is None:
        return row
    problem, lower, upper = read_as(file, stated_problem)
    lower, upper = max(lower, published.get("lower", -np.inf)), min(upper, published.get("upper", np.inf))
    if published.get("sha256", own := fingerprint(problem)) != own:
        text = f"{file.name} has kernels and targets of the SHA-256 {own}, published is {published['sha256']}."
        return replace(row, outcome=Outcome.FAILED, reason="", findings=(Finding("altered problem", text),))
    try:
        answer = read_answer(solution, problem)
    except MKLError as error:
        finding = Finding("malformed answer", str(error))
        return replace(row, outcome=Outcome.FAILED, reason="", findings=(finding,))
    verdict = judge_file(file, (problem, lower, upper), answer, tol)
    findings, gap = verdict.findings, abs(verdict.relative_gap)
    if rigorous and not findings:
        try:
            gap = proven(problem, answer, verdict, tol).relative_gap
        except (NotApplicable, InvalidKernel) as error:
            return replace(row, reason=f"no proof: {error}", relative_gap=gap)
        if gap > tol:
            findings = (Finding("inaccurate", f"the proven relative gap is {gap:.1e}, allowed {tol:.1e}."),)
    outcome = Outcome.FAILED if findings else Outcome.PASSED
    return replace(row, outcome=outcome, reason="", findings=findings, relative_gap=gap)


def judge_file(
    file: Path, stated: tuple[Problem, float, float], answer: Answer, tol: float, suspects: bool = True
) -> Verdict:
    """The verdict on an answer, with a finding where what is certified excludes the bounds that the file states."""
    problem, lower, upper = stated
    verdict = judge(problem, answer, tol=tol, suspects=suspects)
    if (found := verdict.certificate) is None:
        return verdict
    allowed = tol * found.size
    if lower - allowed <= found.upper and found.lower <= upper + allowed:
        return verdict
    text = (
        f"stated of {file.name} is an optimum in [{lower!r}, {upper!r}]; that of its problem lies in "
        f"[{found.lower!r}, {found.upper!r}]."
    )
    return replace(verdict, findings=(*verdict.findings, Finding("contradicted bounds", text)))


def read_answer(path: str | Path, problem: Problem) -> Answer:
    """The answer in a file; what files do not tell from a vector, or from a number, is a row where that belongs."""
    answer = read_any(path)
    require_same_names(problem, answer, str(path))
    if problem.several and problem.dual_shape == (1, *np.shape(answer.dual_coef)):
        b = None if answer.intercept is None else np.atleast_1d(answer.intercept)
        return replace(answer, dual_coef=answer.dual_coef[None], intercept=b)
    return answer


def stated_problem(record: Mapping[str, Any]) -> tuple[Problem, float, float]:
    """A problem, and the bounds of its optimum that the file states."""
    problem = problem_from_record(record)  # which requires them to be numbers
    lower, upper = (np.ravel(record.get(name, end)) for name, end in (("lower", -np.inf), ("upper", np.inf)))
    return problem, float(lower[0]), float(upper[0])


def _published(index: Path) -> dict[str, dict[str, Any]]:
    """What the index says of each problem, if there is one."""
    if not index.is_file():
        return {}
    if index.stat().st_size > _MAX_INDEX:
        raise UnsafeFile(
            f"{index} is {index.stat().st_size} bytes long; write it anew by: mklref vectors {index.parent} --force"
        )
    try:
        facts = parse_json(read_bytes(index, _MAX_INDEX), index)
        rows = {str(row["name"]): {"statement": row["statement"], **row} for row in facts["problems"]}
        return {
            name: {**row, "lower": float(row.get("lower", -np.inf)), "upper": float(row.get("upper", np.inf))}
            for name, row in rows.items()
        }
    except (KeyError, TypeError, ValueError, UnsafeFile) as damaged:
        remedy = f"remove it, or write it anew by: mklref vectors {index.parent} --force"
        raise UnsafeFile(f"{index} is no index of problems: {damaged!r}; {remedy}") from damaged


def _pairs(problems: Path, solutions: Path) -> dict[Path, Path | None]:
    """The solution of each problem; where a problem is there in several formats, the first of `SUFFIXES` counts."""
    found, answers = _files(problems), _files(solutions)
    if not found:
        raise InvalidInput(f"{problems} holds no problems; write them by: mklref vectors {problems}")
    for name, files in answers.items():
        if len(files) > 1:
            several = " and ".join(file.name for file in files)
            raise InvalidInput(f"{solutions}: {several} answer the problem {name}; leave one of them.")
    strange = sorted(set(answers) - set(found))
    if strange:
        raise InvalidInput(f"{solutions}: no problem is called {', '.join(strange[:5])}.")
    return {files[0]: answers.get(name, [None])[0] for name, files in found.items()}


def _unread(solutions: Path) -> dict[str, str]:
    """Why there is no solution where there is something of the name of one: no file, or its format is none of ours."""
    known = f"is not read, the suffixes are {', '.join(SUFFIXES)}"
    found = [(file, "is no file" if ending(file) in SUFFIXES else known) for file in sorted(solutions.iterdir())]
    return {file.stem: f"{NO_SOLUTION}: {file.name} {why}" for file, why in found}


def _files(directory: Path) -> dict[str, list[Path]]:
    """The files of each name, in the order of `SUFFIXES`."""
    if not directory.is_dir():
        raise InvalidInput(f"{directory} is no directory.")
    others = (INDEX, CERTIFICATE)
    named = [f for f in directory.iterdir() if ending(f) in SUFFIXES and not f.name.lower().endswith(others)]
    files: dict[str, list[Path]] = {}
    for file in sorted(filter(Path.is_file, named), key=lambda file: (file.stem, SUFFIXES.index(ending(file)))):
        files.setdefault(file.stem, []).append(file)
    return files
