"""What every iterative solver shares: checks, clock, records, callback, progress line, when to stop; and every path.

    recorder = Recorder("solving", tol=tol, max_iter=max_iter, max_time=max_time, callback=callback, progress=progress)
    with recorder.running(lambda: solution(Status.INTERRUPTED)):      # Ctrl-C ends in Interrupted
        while True:
            ...
            status = recorder.add(Record(...), relative_gap, Status.OPTIMAL if gap <= target else None)
            if status is not None:
                return solution(status)

`max_iter` is the largest number of records: a run with max_iter = 1 has one. A run from several starts calls `again`
before each further one, and may have as many records from each.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Generic, TypeVar

import numpy as np

from mklref._progress import Progress
from mklref._validate import asks_to_stop, check_callback, checked_limits
from mklref.exceptions import Interrupted, InvalidInput, InvalidParameter, InvalidType, KernelsLost
from mklref.problem import Problem, require_problem
from mklref.solution import Solution, Status

R = TypeVar("R")
"""The kind of record."""
P = TypeVar("P")
"""The kind of point."""

_ROUNDED = 1e-12
"""Relative difference of two objectives that are the same but for rounding."""
ABSURD = np.errstate(all="ignore")
"""Numbers that leave double precision on the way end in infinite bounds, which are an answer: the certificate judges
it, and a warning would tell the caller nothing."""


class Recorder(Generic[R]):
    """The records of one run, and its limits: `max_iter` records, and `max_time` seconds from now (`late`).

    The callback is called with every record, and asks to stop by a true value. With `progress` there is a line, called
    `label`, that shows the gap or another quantity and is full at `tol`.
    """

    def __init__(
        self,
        label: str,
        *,
        tol: float,
        max_iter: int,
        max_time: float | None = None,
        callback: Callable[[R], object] | None = None,
        progress: bool = False,
        quantity: str = "gap",
    ) -> None:
        self.max_iter, self.callback = max_iter, callback
        self.began = time.perf_counter()
        self.deadline = np.inf if max_time is None else self.began + max_time
        self.records: list[R] = []
        self.raised = False
        """Whether the callback raised: its errors are never caught, those of a solver of the same kind may be."""
        self.limit: Status | None = None
        """Why the run has to end after the last record, whether its goal is reached or not."""
        self._first = 0
        self._line = Progress(progress, label, target=tol, quantity=quantity)

    @property
    def seconds(self) -> float:
        """Since the run began."""
        return time.perf_counter() - self.began

    @property
    def left(self) -> float:
        """Seconds until its time is over; inf without a limit."""
        return self.deadline - time.perf_counter()

    @property
    def late(self) -> bool:
        """Whether its time is over."""
        return self.left < 0.0

    @property
    def over(self) -> bool:
        """Whether no further start may follow: the time is over, or the callback asked to stop, be it at a goal."""
        return self.late or self.limit is Status.STOPPED

    def again(self) -> None:
        """From another start: `max_iter` counts anew."""
        self._first = len(self.records)

    def tell(self, record: R) -> bool:
        """Call the callback; says whether it asks to stop."""
        if self.callback is None:
            return False
        self.raised = True
        asked = asks_to_stop(self.callback, record)
        self.raised = False
        return asked

    def add(self, record: R, shown: float, reached: Status | None = None) -> Status | None:
        """Note a record, whose quantity the line shows; says why the run has to end, or None.

        `reached`, which says that the goal is, comes before a callback that asks to stop, and both before the limits.
        """
        self.records.append(record)
        self._line.update(shown)
        asked = self.tell(record)
        full = Status.ITERATION_LIMIT if len(self.records) - self._first >= self.max_iter else None
        self.limit = Status.STOPPED if asked else Status.TIME_LIMIT if self.late else full
        return reached or self.limit

    @contextmanager
    def running(self, solution: Callable[[], Any]) -> Iterator[None]:
        """Close the line at the end; Ctrl-C becomes `Interrupted` with the best solution so far, or None.

        An underflow is 0, whatever `np.seterr` of the caller makes of it: an error would look like a lost point.
        """
        try:
            try:
                with np.errstate(under="ignore"):
                    yield
            finally:
                self._line.close()
        except Interrupted:
            raise  # it has its solution
        except KeyboardInterrupt:
            raise Interrupted(solution()) from None


class Best(Generic[P]):
    """The point of smallest gap so far, and the best bounds, which may be those of two others."""

    def __init__(self) -> None:
        self.point: P | None = None
        self.lower, self.upper = -np.inf, np.inf

    def note(self, point: P) -> P:
        """Compare with this point, which has a gap and bounds, and return it."""
        new: Any = point
        old: Any = self.point
        if old is None or new.gap < old.gap:
            self.point = point
        self.lower, self.upper = max(self.lower, new.lower), min(self.upper, new.upper)
        return point


def along(
    problems: Iterable[Any], solve: Callable[[Any, Any], Any], callback: Any, path: Callable[[list[Any]], Any] = list
) -> Any:
    """The path of the solutions of problems, each solved from the one before, which is None at first.

    It ends where `solve` returns None or the callback asks to stop. `Interrupted` and `KernelsLost` carry the points
    so far.
    """
    solutions: list[Any] = []
    try:
        for problem in problems:
            found = solve(problem, solutions[-1] if solutions else None)
            if found is None:
                break
            solutions.append(found)
            if asks_to_stop(callback, found):
                break
    except KeyboardInterrupt as stopped:
        because = getattr(stopped, "because", None)
        raise Interrupted(getattr(stopped, "solution", None), path(solutions), because) from None
    except KernelsLost as lost:
        raise KernelsLost(lost.message, lost.solution, path(solutions)) from None
    return path(solutions)


def checked_options(
    problem: Any, tol: Any, max_iter: Any, max_time: Any, callback: Any, progress: Any
) -> tuple[float, int, float | None]:
    """What `checked_limits` gives; InvalidType or InvalidParameter unless a solver can start with these."""
    require_problem(problem)
    check_callback(callback, "Record")
    return checked_limits(tol, "a relative duality gap", max_iter, max_time, progress)


def check_range(C: float, largest: float) -> None:
    """C and the largest K_m[i, i] within 1e-200 and 1e200, their product within 1e-150 and 1e150."""
    largest = float(largest)  # a number of NumPy warns where a product overflows
    if largest > 0.0 and not (1e-200 <= C <= 1e200 and 1e-200 <= largest <= 1e200 and 1e-150 <= C * largest <= 1e150):
        raise InvalidParameter(
            f"C = {C:g} with K_m[i, i] up to {largest:g} leaves the range of double precision: both must be within "
            "1e-200 and 1e200, and their product within 1e-150 and 1e150; normalise the kernels (kernels.normalize) "
            "and choose C anew."
        )


def check_start(problem: Problem, start: Any, label: str = "start") -> None:
    """Refuse a start that is no solution of a problem with as many machines, samples and kernels.

    `InvalidType` for anything that is no solution, or holds something else than arrays of real numbers; `InvalidInput`
    for another number of machines, samples or kernels, for numbers that are not finite, and for negative weights.
    """
    if not isinstance(start, Solution):
        raise InvalidType(
            f"{label} is {type(start).__name__}; give a Solution of a problem with the same kernels, or None."
        )
    for name in ("dual_coef", "weights"):
        array = getattr(start, name)
        if not isinstance(array, np.ndarray) or array.dtype.kind not in "fiu":
            kind = getattr(array, "dtype", type(array).__name__)
            raise InvalidType(f"{label}.{name} is {kind}; give an array of real numbers, as solvers return it.")
    beta, theta = np.shape(start.dual_coef), np.shape(start.weights)
    if beta != problem.dual_shape or theta != (problem.n_kernels,):
        raise InvalidInput(
            f"{label} has dual variables of shape {beta} and weights of shape {theta}; this problem has "
            f"{problem.dual_shape} and ({problem.n_kernels},). Give a solution of a problem with the same samples and "
            "kernels, or None."
        )
    if not (np.all(np.isfinite(start.weights)) and np.all(start.weights >= 0.0)):
        raise InvalidInput(f"{label} has weights {start.weights}; they must be nonnegative and finite.")
    if not np.all(np.isfinite(start.dual_coef)):
        raise InvalidInput(f"{label} has dual variables that are not finite; give a solution of a solver, or None.")


def is_of_problem(start: Solution, objective: float) -> bool:
    """Whether a start says itself, up to rounding, what its objective is: who solved a problem nearby has to leave it.

    However near it is: whoever follows a sequence of problems, as reweighting does, would get nowhere.
    """
    return bool(abs(objective - start.objective) <= _ROUNDED * abs(objective))
