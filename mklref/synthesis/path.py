"""`solve_path`: certified solutions along a path of lambda, each one started from the last."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from mklref.exceptions import InvalidParameter
from mklref.synthesis.problem import SynthesisProblem, lambda_max
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
        Passed to `solve`.

    Returns
    -------
    list of SynthesisSolution
        One for each value, each with its own certificate.

    Raises
    ------
    InvalidParameter
        A value outside (0, inf); no values where lambda_max is 0 or infinite; count or ratio out of range.
    """
    problems = [problem.replace(lam=value) for value in (_grid(problem, count, ratio) if lam is None else lam)]
    solutions: list[SynthesisSolution] = []
    for member in problems:  # every value was checked before work starts
        solutions.append(solve(member, tol=tol, start=solutions[-1] if solutions else None, **options))
        if callback is not None and callback(solutions[-1]):
            break
    return solutions


def _grid(problem: SynthesisProblem, count: int, ratio: float) -> list[float]:
    if isinstance(count, bool) or not isinstance(count, int) or count < 2:
        raise InvalidParameter(f"count = {count!r} must be an integer of at least 2.")
    if not 0.0 < ratio < 1.0:
        raise InvalidParameter(f"ratio = {ratio!r} must lie in (0, 1): the last lambda over the first.")
    largest = lambda_max(problem)
    if not 0.0 < largest < np.inf:
        raise InvalidParameter(f"lambda_max = {largest:g}: give lam, the values of the path.")
    return [float(value) for value in largest * np.geomspace(1.0, ratio, count)]
