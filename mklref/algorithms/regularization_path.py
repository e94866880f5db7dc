"""Approximate regularisation paths: decreasing C, each solution the start of the next (SimpleMKL 4.4)."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mklref._typing import Array
from mklref.algorithms.base import AnyProblem, AnySolution
from mklref.algorithms.simplemkl import simplemkl
from mklref.exceptions import InvalidParameter, InvalidType

SELECTED = 1e-4
"""A kernel counts as selected if its weight is above this share of the largest one."""


@dataclass(frozen=True)
class RegularizationPath:
    """Certified solutions for decreasing C, as columns for a table or a plot (SimpleMKL Figure 4)."""

    C: Array
    """Costs, decreasing, (k,): those that were reached before a limit or the callback ended the path."""
    solutions: tuple[AnySolution, ...]
    """One for each C, each with its own certificate."""

    @property
    def weights(self) -> Array:
        """theta along the path, (k, M)."""
        return np.array([solution.weights for solution in self.solutions])

    @property
    def selected(self) -> Array:
        """The number of kernels whose weight is above 1e-4 of the largest, (k,)."""
        return np.array([np.count_nonzero(theta > SELECTED * theta.max()) for theta in self.weights])

    @property
    def objective(self) -> Array:
        """Primal objectives, (k,); they rise with C, and are concave in it."""
        return np.array([solution.objective for solution in self.solutions])

    @property
    def relative_gap(self) -> Array:
        """Certified relative gaps, (k,)."""
        return np.array([solution.certificate.relative_gap for solution in self.solutions])

    @property
    def iterations(self) -> Array:
        """Iterations that each solution took, (k,)."""
        return np.array([len(solution.history) for solution in self.solutions])

    def data(self) -> dict[str, Array]:
        """The columns by name: C, objective, relative_gap, selected, iterations, and weights (k, M)."""
        columns = {"C": self.C, "objective": self.objective, "relative_gap": self.relative_gap}
        return {**columns, "selected": self.selected, "iterations": self.iterations, "weights": self.weights}

    def __len__(self) -> int:
        return len(self.solutions)


def regularization_path(
    problem: AnyProblem,
    *,
    C: Sequence[float],
    solver: Callable[..., AnySolution] = simplemkl,
    tol: float = 1e-4,
    warm: bool = True,
    max_time: float | None = None,
    callback: Callable[[AnySolution], object] | None = None,
    **options: Any,
) -> RegularizationPath:
    """Solve a problem for decreasing C, each time from the solution before.

    The weights are handed on as they are, and the dual variables scaled into the smaller box, which keeps 1'beta = 0.
    Small C have simple solutions and large C expensive ones: only the first start is a cold one.

    Parameters
    ----------
    problem : Problem or MulticlassProblem
        Everything but C.
    C : sequence of float
        Positive and decreasing. SimpleMKL takes 50 values, evenly spaced in log C between 1000 and 0.01.
    solver : callable
        Any function of this package, or `mklref.solve`: called as solver(problem, tol=..., start=..., **options).
    tol : float
        Certified relative gap of every solution.
    warm : bool
        If False every solution starts afresh, for comparison.
    max_time : float, optional
        Seconds for the whole path; it ends where they do.
    callback : callable, optional
        Called with each solution; a true return value ends the path.
    **options
        Passed to the solver, for instance max_iter or progress.

    Returns
    -------
    RegularizationPath

    Raises
    ------
    InvalidParameter
        C empty, not decreasing, or not positive; max_time not positive.
    InvalidType
        A solver or callback that cannot be called.
    """
    for label, function in (("solver", solver), ("callback", callback)):
        if not callable(function) and function is not None:
            raise InvalidType(f"{label} is {function!r}; give a function, for instance mklref.algorithms.simplemkl.")
    if not len(C) or np.any(np.diff(C) >= 0.0):
        raise InvalidParameter(f"C = {list(C)} must decrease; give sorted(C, reverse=True), each value once.")
    if max_time is not None and not max_time > 0.0:
        raise InvalidParameter(f"max_time = {max_time!r} must be a positive number of seconds, or None.")
    problems = [problem.replace(C=cost) for cost in C]  # every value is checked before work starts
    deadline = None if max_time is None else time.perf_counter() + max_time
    solutions: list[AnySolution] = []
    for member in problems:
        if deadline is not None:
            left = deadline - time.perf_counter()
            if left <= 0.0:
                break
            options["max_time"] = left
        if warm and solutions:
            options["start"] = solutions[-1]
        solutions.append(solver(member, tol=tol, **options))
        if callback is not None and callback(solutions[-1]):
            break
    return RegularizationPath(np.array([member.C for member in problems[: len(solutions)]]), tuple(solutions))
