"""`solve_path`: certified solutions along a path of C or of p, each one started from the last."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from mklref.exceptions import InvalidParameter
from mklref.native.solver import solve
from mklref.problem import Problem
from mklref.regularizers import Lp
from mklref.solution import Solution


def solve_path(
    problem: Problem,
    *,
    C: Sequence[float] | None = None,
    p: Sequence[float] | None = None,
    tol: float = 1e-6,
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
        Neither or both of C and p, or a value outside its interval.
    """
    if (C is None) == (p is None):
        raise InvalidParameter("give either C or p, the quantity that varies along the path.")
    changes: list[dict[str, Any]] = (
        [{"C": value} for value in C] if C is not None else [{"regularizer": Lp(value)} for value in p or ()]
    )
    problems = [problem.replace(**change) for change in changes]  # every value is checked before work starts
    solutions: list[Solution] = []
    for member in problems:
        solutions.append(solve(member, tol=tol, start=solutions[-1] if solutions else None, **options))
        if callback is not None and callback(solutions[-1]):
            break
    return solutions
