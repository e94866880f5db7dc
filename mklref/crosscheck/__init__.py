"""Many formulations and solvers on one problem, and whether they certify the same optimal value.

Every row is one solver's answer with its certificate lower <= P* <= upper. The check passes if and only if

    max over rows of lower <= min over rows of upper      all certified intervals share a point
    native relative gap    <= tol
    every other row's gap  <= reference_tol               a conic solver certifies less than it claims

Nothing a solver says about itself enters the verdict. Certified bounds allow for rounding in float64; that of the
kernels as they are stored is the allowance of `rounding`.
"""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from types import ModuleType
from typing import Any

from mklref import native, reference
from mklref.certificate.allowance import entries_error
from mklref.crosscheck.result import NATIVE, CrossCheck, Row
from mklref.exceptions import InvalidParameter, InvalidType, MKLError, MKLWarning, NotApplicable
from mklref.formulations import factorize
from mklref.problem import Problem
from mklref.solution import Solution

SOLVERS = ("CLARABEL", "ECOS")
"""The solvers that are asked by default. SCS takes ten times as long to certify half as many digits."""

FORMULATIONS = ("qcqp", "dual", "weighted_primal", "mixed_norm")
"""The formulations that are solved by default, where they apply: dual and primal, with and without weights."""

Progress = Callable[[int, int, str], None]
"""Called before each row with the number of rows done, of rows in all, and the label of the next one."""


def crosscheck(
    problem: Problem,
    *,
    formulations: Sequence[str] | None = None,
    solvers: Sequence[str] | None = None,
    tol: float = 1e-6,
    reference_tol: float = 1e-3,
    progress: Progress | None = None,
) -> CrossCheck:
    """Solve a problem natively and by every formulation x solver, certify each answer, and compare.

    Parameters
    ----------
    problem : Problem
    formulations : sequence of str, optional
        Some of `reference.formulations(problem)`; those of `FORMULATIONS` by default.
    solvers : sequence of str, optional
        Some of `reference.SOLVERS`; `SOLVERS` by default.
    tol : float
        Largest certified relative gap of the native row.
    reference_tol : float
        Largest certified relative gap of the other rows.
    progress : callable, optional
        Called as `progress(done, total, label)` before each row.

    Returns
    -------
    CrossCheck
        A solver that fails is a row with its reason, and fails the check.

    Raises
    ------
    InvalidParameter
        A tolerance outside (0, 1), an unknown name, or no formulation or solver at all.
    InvalidType
        `formulations` or `solvers` is a single string.
    NotApplicable
        A requested formulation does not cover the problem; the message says why.
    """
    for name, value in (("tol", tol), ("reference_tol", reference_tol)):
        if not 0.0 < value < 1.0:
            raise InvalidParameter(f"{name} = {value!r} must lie in (0, 1): it is a relative gap.")
    wanted = chosen_formulations(problem, formulations)
    used = _chosen_solvers(solvers)
    total = 1 + len(wanted) * len(used)
    rows: list[Row] = []

    def add(formulation: str, solver: str, solve: Callable[[], Solution], allowed: float) -> None:
        if progress:
            progress(len(rows), total, NATIVE if formulation == NATIVE else f"{formulation}/{solver}")
        rows.append(_row(problem, formulation, solver, solve, allowed))

    add(NATIVE, "mklref", partial(native.solve, problem, tol=tol), tol)
    factors = factorize(problem.kernels)
    for formulation in wanted:
        compiled = reference.compile(problem, formulation, factors=factors)
        for solver in used:
            add(formulation, solver, partial(compiled.solve, solver=solver), reference_tol)
    return CrossCheck(problem, tuple(rows))


def rounding(problem: Problem, solution: Solution) -> float:
    """How far certified bounds may contradict those of another point because kernels are rounded: no proof.

    Certificates allow for the rounding of their own sums. That of the kernels is no error in them, but makes kernels
    indefinite, for which no weak duality holds (`mklref.certificate.allowance`).
    """
    return entries_error(problem, solution.dual_coef, solution.weights)


def chosen_formulations(problem: Problem, names: Sequence[str] | None) -> tuple[str, ...]:
    """The formulations that a cross-check of the problem solves: those named, or the default ones that apply.

    Raises
    ------
    InvalidParameter, InvalidType, NotApplicable
        As for `crosscheck`.
    """
    reasons = reference.explain(problem)
    applicable = reference.formulations(problem)
    if names is None:
        return tuple(name for name in FORMULATIONS if name in applicable)
    names = _sequence("formulations", names)
    for name in names:
        if name not in reasons:
            raise InvalidParameter(f"formulation = {name!r} is unknown; known names: {', '.join(reasons)}.")
        if reasons[name] is not None:
            raise NotApplicable(f"{reasons[name]} These apply here: {', '.join(applicable)}.")
    return tuple(dict.fromkeys(names))


def _chosen_solvers(names: Sequence[str] | None) -> tuple[str, ...]:
    if names is None:
        return SOLVERS
    return tuple(dict.fromkeys(map(reference.solver_name, _sequence("solvers", names))))


def _sequence(argument: str, names: Sequence[str]) -> Sequence[str]:
    if isinstance(names, str) or not isinstance(names, Iterable):
        kind = type(names).__name__
        raise InvalidType(f"{argument} is {names!r} ({kind}); give a sequence of names, such as [{str(names)!r}].")
    names = list(names)
    if not names:
        raise InvalidParameter(f"{argument} is empty; name at least one, or leave it out for all.")
    return names


def _row(problem: Problem, formulation: str, solver: str, solve: Callable[[], Solution], allowed: float) -> Row:
    """One answer; what a solver warns of or fails with goes into the note."""
    solution, notes = None, []
    started = time.perf_counter()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            solution = solve()
        except MKLError as failure:
            notes.append(str(failure))
    seconds = time.perf_counter() - started
    for warning in caught:
        if issubclass(warning.category, MKLWarning):
            notes.append(str(warning.message))
        else:
            warnings.warn_explicit(warning.message, warning.category, warning.filename, warning.lineno)
    error = rounding(problem, solution) if solution else 0.0
    return Row(formulation, solver, seconds, solution, " ".join(notes), allowed, error)


class _Callable(ModuleType):
    """`mklref.crosscheck(problem)` works also after this module was imported, when that name is the module."""

    def __call__(self, *arguments: Any, **options: Any) -> CrossCheck:
        return crosscheck(*arguments, **options)


sys.modules[__name__].__class__ = _Callable

__all__ = ["FORMULATIONS", "NATIVE", "SOLVERS", "CrossCheck", "Progress", "Row", "crosscheck", "rounding"]
