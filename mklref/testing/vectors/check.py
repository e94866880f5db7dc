"""A directory of solutions against a directory of problems: `check_solver` for those who cannot call Python."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from mklref._untrusted import parse_json, read_bytes
from mklref.exceptions import InvalidInput, InvalidKernel, MKLError, NotApplicable, UnsafeFile
from mklref.testing.case import Case
from mklref.testing.diagnosis import judge, proven
from mklref.testing.faults import Finding
from mklref.testing.result import Outcome, Report, Row
from mklref.testing.vectors.export import INDEX
from mklref.testing.vectors.formats import SUFFIXES, read_answer, read_problem

_MAX_INDEX = 2**24


def check_directory(
    problems: str | Path, solutions: str | Path, *, tol: float = 1e-6, rigorous: bool = False
) -> Report:
    """Certify the solution of every problem; a problem without one is excluded.

    Parameters
    ----------
    problems, solutions : path
        Directories with files of the same names, each in any of the formats: NAME.npz and NAME.mat go together.
    tol : float
        Largest relative gap, as for `check_solver`.
    rigorous : bool
        Prove the bounds of every answer, rounding errors included; what has no such proof (regularisers without one,
        kernels that are not proven semidefinite) is excluded.

    Returns
    -------
    Report

    Raises
    ------
    InvalidInput
        A path that is no directory, or one without problems; a solution without a problem.
    """
    pairs = _pairs(Path(problems), Path(solutions))
    statements = _statements(Path(problems) / INDEX)
    cases = [Case(file.stem, (0, 0), frozenset(), statements.get(file.stem, f"{file.name}."), tuple) for file in pairs]
    rows = [_row(case, *pair, tol, rigorous) for case, pair in zip(cases, pairs.items(), strict=True)]
    return Report(solver=str(solutions), tol=tol, rows=tuple(rows))


def _row(case: Case, file: Path, solution: Path | None, tol: float, rigorous: bool) -> Row:
    row = Row(case, Outcome.EXCLUDED, "no solution", (), np.nan, 0.0)
    if solution is None:
        return row
    problem = read_problem(file)
    try:
        answer = read_answer(solution)
    except MKLError as error:
        finding = Finding("malformed answer", str(error))
        return replace(row, outcome=Outcome.FAILED, reason="", findings=(finding,))
    verdict = judge(problem, answer, tol=tol)
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


def _statements(index: Path) -> dict[str, str]:
    """What each problem is, from the index if there is one."""
    if not index.is_file():
        return {}
    if index.stat().st_size > _MAX_INDEX:
        raise UnsafeFile(
            f"{index} is {index.stat().st_size} bytes long; write it anew by: mklref vectors {index.parent} --force"
        )
    try:
        facts = parse_json(read_bytes(index, _MAX_INDEX), index)
        return {str(row["name"]): str(row["statement"]) for row in facts["problems"]}
    except (KeyError, TypeError, UnsafeFile) as damaged:
        raise UnsafeFile(f"{index} is no index of problems: {damaged!r}.") from damaged


def _pairs(problems: Path, solutions: Path) -> dict[Path, Path | None]:
    """The solution of each problem; where a problem is there in several formats, the first of `SUFFIXES` counts."""
    found, answers = _files(problems), _files(solutions)
    if not found:
        raise InvalidInput(f"{problems} holds no problems; write them by: mklref vectors {problems}")
    strange = sorted(set(answers) - set(found))
    if strange:
        raise InvalidInput(f"{solutions}: no problem is called {', '.join(strange[:5])}.")
    return {file: answers.get(name) for name, file in found.items()}


def _files(directory: Path) -> dict[str, Path]:
    if not directory.is_dir():
        raise InvalidInput(f"{directory} is no directory.")
    found = [file for file in directory.iterdir() if file.suffix in SUFFIXES and file.name != INDEX and file.is_file()]
    files: dict[str, Path] = {}
    for file in sorted(found, key=lambda file: (file.stem, SUFFIXES.index(file.suffix))):
        files.setdefault(file.stem, file)
    return files
