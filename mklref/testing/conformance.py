"""`check_solver`: a whole solver against the catalogue."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from traceback import extract_tb
from typing import Any, NoReturn

import numpy as np

from mklref._display import outwards
from mklref._validate import checked_tolerance, shown
from mklref.exceptions import InvalidType, NotApplicable
from mklref.problem import Problem
from mklref.testing.answer import Declaration, as_answer, as_declaration
from mklref.testing.case import Case, Interval, Version, select
from mklref.testing.diagnosis import Verdict, judge
from mklref.testing.faults import Finding
from mklref.testing.result import Outcome, Report, Row

Solver = Callable[[Problem], Any]


def check_solver(
    solver: Solver,
    *,
    upto: Version | None = None,
    include: Iterable[str] | str | None = None,
    exclude: Iterable[str] | str | None = None,
    tol: float = 1e-6,
    supports: Any = None,
    progress: Callable[[int, int, str], None] | None = None,
) -> Report:
    """Run a solver on the catalogue and certify every answer.

    Parameters
    ----------
    solver : callable
        Takes a `Problem` and returns (dual_coef, weights, intercept), a `Solution`, or an `Answer`, whose claims
        are checked too. Weights and intercept may be None: then the best ones for dual_coef count. A solver that
        raises `NotApplicable` or NotImplementedError declines a case, which is then excluded.
    upto : tuple of int, optional
        Only cases that came with this version of mklref or before, such as (0, 1).
    include, exclude : str or iterable of str, optional
        Flags (`mklref.testing.FLAGS`) or names of cases, with * as in file names.
    tol : float
        Largest relative gap (upper - lower) / |upper|, in (0, 1); the same in every unit.
    supports : Supports or callable, optional
        What the solver is meant for; everything else is excluded. A function of a `Problem` returns a reason
        (empty if it is in scope) or a truth value. By default `solver.supports` if there is one, else everything.
    progress : callable, optional
        Called before each case with its number, the number of cases, and its name.

    Returns
    -------
    Report
        One row for each case. `passed` is True if no case failed and one passed at least.

    Raises
    ------
    InvalidType, InvalidParameter
        A solver that cannot be called, unknown flags or names, a tolerance out of range.

    Notes
    -----
    The solver runs in this process: one that hangs, or dies of a segmentation fault, takes the check along. The page on
    testing has four lines that run it in a process of its own, with a time limit.
    """
    if not callable(solver):
        raise InvalidType(f"solver is {shown(solver)}; give a function of a mklref.Problem.")
    if progress is not None and not callable(progress):
        raise InvalidType(f"progress is {shown(progress)}; give a function of number, count and name, or None.")
    tol = checked_tolerance("tol", tol)
    declaration = as_declaration(supports, solver)
    cases = select(upto, include, exclude)
    name, rows = str(getattr(solver, "__name__", type(solver).__name__)), []
    for number, case in enumerate(cases):
        if progress is not None:
            progress(number, len(cases), case.name)
        try:
            rows.append(run_case(case, solver, tol=tol, declaration=declaration))
        except KeyboardInterrupt as interrupted:
            so_far = Report(name, tol, tuple(rows))
            interrupted.add_note(f"The solver was at {case.name}. Until then: {so_far}")
            raise
    return Report(name, tol, tuple(rows))


def run_case(case: Case, solver: Solver, *, tol: float, declaration: Declaration) -> Row:
    """One case: every answer certified, then the law."""
    started = time.perf_counter()
    problems = case.build()
    verdicts: list[Verdict] = []
    findings: list[Finding] = []
    reason = next(filter(None, map(declaration, problems)), "")
    for number, problem in enumerate(problems):
        if reason or findings:
            break
        try:
            verdict = _answered(problem, solver, tol)
        except (NotApplicable, NotImplementedError) as declined:
            reason = f"declined: {declined}"
            break
        verdicts.append(verdict)
        which = f"problem {number + 1} of {len(problems)}: " if len(problems) > 1 else ""
        findings += [finding._replace(text=which + finding.text) for finding in verdict.findings]
    if not reason and not findings and case.law is not None:
        intervals = [Interval(v.certificate.lower, v.certificate.upper) for v in verdicts if v.certificate]
        if not case.law(*intervals):
            shown = ", ".join("[{}, {}]".format(*outwards(*interval, 12)) for interval in intervals)
            findings.append(Finding("invariant violated", f"{case.statement} The intervals are {shown}."))
    outcome = Outcome.EXCLUDED if reason else Outcome.FAILED if findings else Outcome.PASSED
    return Row(
        case=case,
        outcome=outcome,
        reason=reason,
        findings=tuple(findings) if not reason else (),
        relative_gap=max((abs(verdict.relative_gap) for verdict in verdicts), default=np.nan),
        seconds=time.perf_counter() - started,
    )


def _answered(problem: Problem, solver: Solver, tol: float) -> Verdict:
    lent = deepcopy(problem)
    try:
        with _nobody_leaves():
            returned = solver(lent)
    except (NotApplicable, NotImplementedError, KeyboardInterrupt):
        raise
    except BaseException as error:  # noqa: BLE001  (a solver may raise anything, also SystemExit: that is a finding)
        text = f"{type(error).__name__}: {' '.join(str(error).split())[:300].rstrip('.')}{_place(error)}."
        verdict = Verdict(None, (Finding("error", text),), np.inf)
    else:
        try:
            answer = as_answer(returned)
        except InvalidType as error:
            verdict = Verdict(None, (Finding("malformed answer", str(error)),), np.inf)
        else:
            verdict = judge(problem, answer, tol=tol)
    changed = [name for name, array in _arrays(lent).items() if not np.array_equal(array, _arrays(problem)[name])]
    if changed:
        finding = Finding("input changed", f"{' and '.join(changed)} differ after the call.")
        return replace(verdict, findings=(*verdict.findings, finding))
    return verdict


def _place(error: BaseException) -> str:
    """The last line of the file of the solver that was at work, whatever it called in turn; none of our own."""
    frames = extract_tb(error.__traceback__)[1:]
    own = [frame for frame in frames if frame.filename == frames[0].filename]
    if not own or Path(own[0].filename).parent == Path(__file__).parent:
        return ""
    return f" ({Path(own[-1].filename).name}, line {own[-1].lineno})"


@contextmanager
def _nobody_leaves() -> Iterator[None]:
    """Within it os._exit raises SystemExit: a solver that ended the process with exit code 0 would pass with its run.

    Children that a solver has forked leave as they like, and another thread, such as that of a timeout, as a failure.
    """
    leave, process, thread = os._exit, os.getpid(), threading.get_ident()

    def raising(status: int) -> NoReturn:
        if os.getpid() == process and threading.get_ident() == thread:
            raise SystemExit(f"os._exit({status}) was called")
        leave(status if os.getpid() != process else status or 1)

    os._exit = raising
    try:
        yield
    finally:
        os._exit = leave


def _arrays(problem: Problem) -> dict[str, Any]:
    return {"kernels": problem.kernels.dense(), "y": problem.y, "sample_weight": problem.sample_weight}
