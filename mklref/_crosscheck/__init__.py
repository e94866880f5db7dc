"""Many formulations and solvers on one problem, and whether they certify the same optimal value, and state it.

Every row is one solver's answer to one formulation: the optimal value of that model as the solver states it, the
certificate lower <= P* <= upper of the solver's own point, and that of the polished point. A certificate knows nothing
of the formulation that its point comes from. So all certificates together place P* in a common interval, and

    a contradiction    is a value outside of it by more than value_tol (relatively), bounds that exclude each other,
                       the claim that the problem is infeasible or unbounded, or a native answer that calls itself
                       optimal and certifies a larger gap than tol;
    no verdict         has a solver that gave up, that says itself that it is inaccurate (its value may then be off by
                       reference_tol), or whose point certifies a larger gap than reference_tol (its value may be off by
                       1e-5 then).

The check passes if there is no contradiction, and if at least one value with a verdict could be compared with a common
interval that is narrower than tol. A row without a verdict does not fail the check, and is named by it. Rounding makes
the common interval wider: that of the kernels, `rounding`, and that of sums, for which certificates have an allowance;
by reference_tol at most: with float32 kernels and a large C nothing can be checked, rather than anything passes. Where
it adds more than tol, as at kernels of 1e6 and C = 1e3, no solver's point need certify anything for its value to count.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from mklref import reference
from mklref._conic import FORMULATIONS, SOLVERS
from mklref._crosscheck.result import CrossCheck
from mklref._crosscheck.row import NATIVE, Row
from mklref._crosscheck.rows import Job, rounding, rows
from mklref._validate import checked_choice, checked_count, checked_time, checked_tolerance, checked_words, shown
from mklref.exceptions import InvalidParameter, InvalidType, NotApplicable, SlowWarning, warn
from mklref.problem import Problem, require_problem

Progress = Callable[[int, int, str], None]
"""Called before each row with the number of rows done, of rows in all, and the label of the next one."""


_PATIENT = 1000
"""Samples on which a row may take minutes: about 2 s at n = 400 and M = 2, and n^3."""


def crosscheck(
    problem: Problem,
    *,
    formulations: Sequence[str] | None = None,
    solvers: Sequence[str] | None = None,
    tol: float = 1e-6,
    reference_tol: float = 1e-3,
    value_tol: float = 1e-6,
    processes: int = 1,
    max_time: float | None = None,
    progress: Progress | None = None,
) -> CrossCheck:
    """Solve a problem natively and by every formulation x solver, certify each answer, and compare.

    Parameters
    ----------
    problem : Problem, MulticlassProblem or SignedProblem
        For the last one, a semidefinite program, there is no native solver.
    formulations : sequence of str, optional
        Some of `reference.formulations(problem)`; by default those of `FORMULATIONS`, or all where none applies.
    solvers : sequence of str, optional
        Some of `reference.SOLVERS`; `SOLVERS` by default.
    tol : float
        Largest certified relative gap of the native row, and relative width of the common interval.
    reference_tol : float
        Largest certified relative gap of the other rows, and how far the value of one may be off whose solver says
        itself that it is inaccurate.
    value_tol : float
        How far, relatively, the value of a formulation may lie outside the common certified interval.
    processes : int
        How many rows are solved at a time, each in a process of its own.
    max_time : float, optional
        Seconds for a row. The native solver returns its best point then; any other row is a failed one, and its process
        is ended: such rows have processes of their own, also one at a time.
    progress : callable, optional
        Called as `progress(done, total, label)` before each row.

    Returns
    -------
    CrossCheck
        A solver that fails is a row with its reason, as is one for which there is not enough memory.

    Raises
    ------
    InvalidParameter
        A tolerance outside (0, 1), an unknown name, no formulation or solver at all, no process, no time.
    InvalidType
        `problem` is none, or no other process can have it; `formulations` or `solvers` is a single string; a tolerance
        is no number.
    NotApplicable
        A requested formulation does not cover the problem; the message says why.

    Warns
    -----
    SlowWarning
        More than 1,000 samples without `max_time`.
    """
    checked_count("processes", processes, 1, "as many rows are solved at a time.")
    if progress is not None and not callable(progress):
        raise InvalidType(f"progress is {shown(progress)}; give a function of done, total and label, or None.")
    max_time = checked_time(max_time)
    job = chosen_job(problem, formulations, solvers, tol, reference_tol, value_tol)
    if max_time is None and problem.n_samples > _PATIENT:
        warn(
            f"each row of a conic solver on n = {problem.n_samples} samples may take minutes or hours, growing as n^3; "
            "give max_time, or fewer samples.",
            SlowWarning,
        )
    labels = [NATIVE if form == NATIVE else f"{form}/{solver}" for form, solver in job.labels]
    found: list[Row] = []
    answers = rows([job], min(processes, len(labels)), max_time)
    for done, label in enumerate(labels):
        if progress is not None:
            progress(done, len(labels), label)
        found.append(next(answers))
    answers.close()
    return CrossCheck(problem, tuple(found), job.tol, float(value_tol), job.reference_tol)


def chosen_job(
    problem: Problem,
    formulations: Sequence[str] | None,
    solvers: Sequence[str] | None,
    tol: float,
    reference_tol: float,
    value_tol: float,
) -> Job:
    """What a cross-check of the problem solves, every argument checked; what is raised, as for `crosscheck`."""
    if not getattr(problem, "signed", False):
        require_problem(problem)
    given = {"tol": tol, "reference_tol": reference_tol, "value_tol": value_tol}
    *tols, _ = (checked_tolerance(name, value, "it is relative to the optimal value.") for name, value in given.items())
    names = SOLVERS if solvers is None else map(reference.solver_name, _sequence("solvers", solvers))
    return Job(problem, chosen_formulations(problem, formulations), tuple(dict.fromkeys(names)), *tols)


def chosen_formulations(problem: Any, names: Sequence[str] | None) -> tuple[str, ...]:
    """The formulations that a cross-check of the problem solves: those named, or the default ones that apply."""
    reasons = reference.explain(problem)
    applicable = reference.formulations(problem)
    if names is None:
        return tuple(name for name in FORMULATIONS if name in applicable) or applicable
    names = _sequence("formulations", names)
    for name in names:
        if reasons[checked_choice("formulation", name, reasons)] is not None:
            raise NotApplicable(f"{reasons[name]} These apply here: {', '.join(applicable)}.")
    return tuple(dict.fromkeys(names))


def _sequence(argument: str, names: Sequence[str]) -> Sequence[str]:
    if isinstance(names, str) or not isinstance(names, Iterable):
        kind = type(names).__name__
        raise InvalidType(f"{argument} is {shown(names)} ({kind}); give a sequence of names, such as [{shown(names)}].")
    names = list(checked_words(argument, names))
    if not names:
        raise InvalidParameter(f"{argument} is empty; name at least one, or leave it out for all.")
    return names


__all__ = ["FORMULATIONS", "NATIVE", "SOLVERS", "CrossCheck", "Progress", "Row", "crosscheck", "rounding"]
