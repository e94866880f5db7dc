"""`solve_path`: certified solutions along a path of C or of p, each one started from the last."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from mklref._run import along
from mklref._validate import check_callback, checked_values
from mklref.exceptions import InvalidParameter
from mklref.native.solver import solve
from mklref.problem import Problem, require_problem
from mklref.regularizers import Lp
from mklref.solution import Solution


def solve_path(
    problem: Problem,
    *,
    C: Iterable[float] | None = None,
    p: Iterable[float] | None = None,
    tol: float = 1e-6,
    start: Solution | None = None,
    callback: Callable[[Solution], object] | None = None,
    **options: Any,
) -> list[Solution]:
    """Solve a problem for several C or several p, in the order given, with warm starts (SimpleMKL 4.4).

    Parameters
    ----------
    problem : Problem
        Everything but the quantity that varies.
    C : sequence of float, optional
        Values of `problem.C`. SimpleMKL goes from large to small; any order is allowed.
    p : sequence of float, optional
        Values of p in Lp(p), in place of `problem.regularizer`. Give C or p, not both.
    tol : float
        Certified relative gap of every point.
    start : Solution, optional
        Where the first point starts: a solution of a problem with the same kernels.
    callback : callable, optional
        Called with each `Solution`; a true return value ends the path early.
    **options
        Passed to `mklref.solve`.

    Returns
    -------
    list of Solution
        One for each value, each with its own certificate.

    Raises
    ------
    InvalidParameter
        Neither or both of C and p, no sequence, or a value outside its interval.
    InvalidType
        Not a `Problem`, values that are no numbers, or a callback that cannot be called.
    Interrupted
        On Ctrl-C, and where a cluster is lost; its `path` has the points that were finished, its `solution` the one
        that was not.
    KernelsLost
        Kernels on disk changed or vanished; with a `path` and a `solution` as well.
    """
    require_problem(problem)
    check_callback(callback, "Solution")
    if (C is None) == (p is None):
        raise InvalidParameter("give either C or p, the quantity that varies along the path.")
    label, given = ("C", C) if p is None else ("p", p)
    values = checked_values(label, given, "numbers; for one value call solve.")
    changes = ({"C": value} if p is None else {"regularizer": Lp(value)} for value in values)
    problems = [problem.replace(**change) for change in changes]  # every value is checked before work starts

    def solved(member: Problem, last: Solution | None) -> Solution:
        return solve(member, tol=tol, start=start if last is None else last, **options)

    solutions: list[Solution] = along(problems, solved, callback)
    return solutions
