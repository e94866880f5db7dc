"""Approximate regularisation paths: decreasing C, each solution the start of the next (SimpleMKL 4.4)."""

from __future__ import annotations

import inspect
import itertools
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from mklref._run import along
from mklref._typing import Array
from mklref._validate import check_callback, checked_flag, checked_real, checked_time, checked_values, shown
from mklref.algorithms.simplemkl import simplemkl
from mklref.exceptions import InvalidParameter, InvalidType, NotApplicable
from mklref.problem import Problem, require_problem
from mklref.solution import Solution, selected


@dataclass(frozen=True)
class RegularizationPath:
    """Certified solutions for decreasing C, as columns for a table or a plot (SimpleMKL Figure 4)."""

    C: Array
    """Costs, decreasing, (k,): those that were reached before a limit or the callback ended the path."""
    solutions: tuple[Solution, ...]
    """One for each C, each with its own certificate."""

    @property
    def weights(self) -> Array:
        """theta along the path, (k, M)."""
        return np.array([solution.weights for solution in self.solutions])

    @property
    def selected(self) -> Array:
        """The number of kernels whose weight is above 1e-4 of the largest, (k,)."""
        return np.array([selected(theta) for theta in self.weights])

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
        names = ("C", "objective", "relative_gap", "selected", "iterations", "weights")
        return {name: getattr(self, name) for name in names}

    def __repr__(self) -> str:
        if not len(self):
            return "RegularizationPath(0 solutions)"
        (first, last), (before, after) = self.C[[0, -1]], self.selected[[0, -1]]
        ends = f"C from {first:.6g} to {last:.6g}, from {before} to {after} kernels"
        return f"RegularizationPath({len(self)} solutions, {ends})"

    def __len__(self) -> int:
        return len(self.solutions)


def regularization_path(
    problem: Problem,
    *,
    C: Iterable[float],
    solver: Callable[..., Solution] = simplemkl,
    tol: float = 1e-4,
    warm: bool = True,
    max_time: float | None = None,
    callback: Callable[[Solution], object] | None = None,
    **options: Any,
) -> RegularizationPath:
    """Solve a problem for decreasing C, each time from the solution before.

    The weights are handed on as they are, and the dual variables scaled into the smaller box, which keeps 1'beta = 0.
    Small C have simple solutions and large C expensive ones: only the first start is a cold one.

    Parameters
    ----------
    problem : Problem
        Everything but C.
    C : sequence of float, or another iterable
        Positive and decreasing. SimpleMKL 5.1.2 spaces them evenly in log C, from 1000 to 0.01.
    solver : callable
        Any function of this package, or `mklref.solve`: called as solver(problem, tol=..., start=..., **options).
        Those without a start need warm=False.
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

    Raises
    ------
    InvalidParameter
        C empty, not decreasing, or not positive; max_time not positive; an option that the solver does not have.
    InvalidType
        No problem; a callback that cannot be called; a solver that cannot be called, or that returns no `Solution`.
    NotApplicable
        A solver without a start while `warm`; `exponents` of `group_wrapper`, whose stationary points have no gap.
    Interrupted, KernelsLost
        As `mklref.solve_path`, with a `path` of the points that were finished.
    """
    if not callable(solver):
        raise InvalidType(f"solver is {shown(solver)}; give a function, for instance mklref.algorithms.simplemkl.")
    check_callback(callback, "solution")
    require_problem(problem)
    max_time = checked_time(max_time)
    given = {**options, "tol": tol} | ({} if max_time is None else {"max_time": max_time})
    name = _checked_solver(solver, checked_flag("warm", warm), given)
    costs = _checked_costs(C)
    problems = [problem.replace(C=cost) for cost in costs]  # every value is checked before work starts
    deadline = None if max_time is None else time.perf_counter() + max_time
    hands_on = "start" not in inspect.signature(solver).parameters

    def solved(member: Problem, last: Solution | None) -> Solution | None:
        own = {**options, "tol": tol}
        if deadline is not None:
            own["max_time"] = deadline - time.perf_counter()
            if own["max_time"] <= 0.0:
                return None
        # A solver that hands its options on gets start=None at once: if nobody takes it, no solution was in vain.
        asked = warm and last is None and hands_on and options.get("start") is None
        if asked or (warm and last is not None):
            own["start"] = last
        try:
            found = solver(member, **own)
        except (InvalidParameter, TypeError) as refused:
            if asked and "start" in str(refused):
                raise _no_start(name) from refused
            raise
        if not isinstance(found, Solution):
            raise InvalidType(f"solver is {name}, which returned {type(found).__name__}; expected a Solution.")
        return found

    def path(solutions: list[Solution]) -> RegularizationPath:
        return RegularizationPath(np.array([member.C for member in problems[: len(solutions)]]), tuple(solutions))

    found: RegularizationPath = along(problems, solved, callback, path)
    return found


def _no_start(name: str) -> NotApplicable:
    return NotApplicable(f"{name} takes no start from the solution before; give warm=False.")


def _checked_solver(solver: Callable[..., Solution], warm: bool, options: dict[str, Any]) -> str:
    """The name of a solver that takes these options, starts from the solution before if `warm`, and has solutions."""
    name = getattr(solver, "__name__", repr(solver))
    try:
        signature = inspect.signature(solver)
    except ValueError:  # most types and functions in C have none
        raise InvalidType(
            f"solver is {name}, whose arguments Python does not know; give a function of a problem, for instance "
            "mklref.algorithms.simplemkl."
        ) from None
    takes_start = any(one.name == "start" or one.kind is one.VAR_KEYWORD for one in signature.parameters.values())
    if warm and not takes_start:
        raise _no_start(name)
    if options.get("exponents") is not None:
        raise NotApplicable(
            f"{name} with exponents gives stationary points without a gap, and a path has certified solutions; put "
            "Groups(groups, p, q) with p + q <= 1 into the problem, or call it for each C."
        )
    try:
        signature.bind(None, **options)
    except TypeError as refused:
        names = ", ".join(f"{key}=..." for key in options)
        raise InvalidParameter(f"solver is {name}; it is called as {name}(problem, {names}), and {refused}.") from None
    return name


def _checked_costs(C: Any) -> list[Any]:
    """C as a list that decreases; that its entries are positive is left to the problems."""
    costs = checked_values("C", C, "decreasing numbers; for one value call the solver.")
    for cost in costs:
        checked_real("an entry of C", cost, "each must be a number, in one dimension.")
    if not costs or not all(later < earlier for earlier, later in itertools.pairwise(costs)):
        raise InvalidParameter(f"C = {costs} must decrease; give sorted(C, reverse=True), each value once.")
    return costs
