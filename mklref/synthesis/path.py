"""`solve_path`: certified solutions along a path of lambda, each one started from the last."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from typing import Any

import numpy as np

from mklref._validate import check_callback, checked_count, checked_number
from mklref.exceptions import Interrupted, InvalidParameter
from mklref.synthesis.problem import SynthesisProblem, checked_problem, lambda_max
from mklref.synthesis.solution import SynthesisSolution
from mklref.synthesis.solver import solve


def solve_path(
    problem: SynthesisProblem,
    lam: Sequence[float] | None = None,
    *,
    count: int = 20,
    ratio: float = 0.01,
    tol: float = 1e-6,
    callback: Callable[[SynthesisSolution], object] | None = None,
    **options: Any,
) -> list[SynthesisSolution]:
    """Solve a problem for several lambda, in the order given, with warm starts.

    Parameters
    ----------
    problem : SynthesisProblem
        Everything but lambda.
    lam : sequence of float, optional
        By default `count` values in geometric progression from `lambda_max(problem)` down to `ratio` times it, which
        exist for q = 1 only.
    count : int
        Number of values, at least 2.
    ratio : float
        The last value over the first, in (0, 1).
    tol : float
        Certified relative gap of every point.
    callback : callable, optional
        Called with each solution; a true return value ends the path early.
    **options
        Passed to `solve`; a `start` is that of the first point.

    Returns
    -------
    list of SynthesisSolution
        One for each value, each with its own certificate.

    Raises
    ------
    InvalidParameter
        No values, or one outside (0, inf); lambda_max 0 or infinite where none are given; count or ratio out of range.
    InvalidType
        Not a `SynthesisProblem`; values that are no numbers; a callback that cannot be called.
    Interrupted
        On Ctrl-C; its `path` has the points that were finished, its `solution` the one that was not.
    """
    checked_problem(problem)
    check_callback(callback, "SynthesisSolution")
    checked_count("count", count, 2, "the number of values.")
    checked_number("ratio", ratio, "(0, 1)", lambda share: 0.0 < share < 1.0, "the last lambda over the first.")
    values = _grid(problem, count, ratio) if lam is None else _listed(lam)
    problems = [problem.replace(lam=value) for value in values]
    solutions: list[SynthesisSolution] = []
    try:
        for member in problems:  # every value was checked before work starts
            if solutions:
                options["start"] = solutions[-1]
            solutions.append(solve(member, tol=tol, **options))
            if callback is not None and callback(solutions[-1]):
                break
    except KeyboardInterrupt as stopped:
        raise Interrupted(getattr(stopped, "solution", None), path=solutions) from None
    return solutions


def _listed(lam: Any) -> list[Any]:
    """The values in their order; that each is a positive number is left to the problems."""
    try:
        values = [] if isinstance(lam, str | bytes | Mapping | Set) else list(lam)
    except TypeError:
        values = []
    if not values:
        raise InvalidParameter(f"lam = {lam!r} must be a sequence of at least one number, such as [10.0, 3.0, 1.0].")
    return values


def _grid(problem: SynthesisProblem, count: int, ratio: float) -> list[float]:
    largest = lambda_max(problem)
    if not 0.0 < largest < np.inf:
        raise InvalidParameter(f"lambda_max = {largest:g}: give lam, the values of the path.")
    return [float(value) for value in largest * np.geomspace(1.0, ratio, count)]
