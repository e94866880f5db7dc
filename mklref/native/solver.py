"""`solve`: the door to the native solver. The algorithm is in outer.py, from where the other files are reached."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, overload

import numpy as np

from mklref._checks import check_options, check_range, check_start
from mklref._typing import Array
from mklref.exceptions import Interrupted, NotApplicable
from mklref.multiclass import MulticlassProblem, MulticlassSolution
from mklref.native.blas import blas_threads
from mklref.native.choice import machine_for
from mklref.native.guess import equal_weights, weights_of_a_part
from mklref.native.joint import JointMachine
from mklref.native.machine import Machine
from mklref.native.outer import Outer
from mklref.native.polish import polished
from mklref.problem import Problem
from mklref.solution import Record, Solution, Status


@overload
def solve(
    problem: Problem,
    *,
    tol: float = ...,
    max_iter: int = ...,
    max_time: float | None = ...,
    callback: Callable[[Record], object] | None = ...,
    progress: bool = ...,
    start: Solution | None = ...,
    polish: bool = ...,
) -> Solution: ...
@overload
def solve(
    problem: MulticlassProblem,
    *,
    tol: float = ...,
    max_iter: int = ...,
    max_time: float | None = ...,
    callback: Callable[[Record], object] | None = ...,
    progress: bool = ...,
    start: MulticlassSolution | None = ...,
    polish: bool = ...,
) -> MulticlassSolution: ...
def solve(
    problem: Problem | MulticlassProblem,
    *,
    tol: float = 1e-6,
    max_iter: int = 500,
    max_time: float | None = None,
    callback: Callable[[Record], object] | None = None,
    progress: bool = False,
    start: Solution | MulticlassSolution | None = None,
    polish: bool = False,
) -> Solution | MulticlassSolution:
    """Solve a multiple kernel learning problem to a certified relative duality gap.

    Parameters
    ----------
    problem : Problem or MulticlassProblem
    tol : float
        Certified relative gap (upper - lower) / max(1, |upper|) at which to stop, positive.
    max_iter : int
        Largest number of outer iterations (kernel machines solved).
    max_time : float, optional
        Seconds after which the best point so far is returned.
    callback : callable, optional
        Called with the `Record` of every outer iteration; a true return value stops the solver.
    progress : bool
        Show a progress line.
    start : Solution or MulticlassSolution, optional
        A solution of a problem with the same kernels, to start from (for instance with another C or p).
    polish : bool
        Take the solution to the limit of double precision by Newton's method on its active set, where that certifies
        a smaller gap (polish.py). For a `Problem` only.

    Returns
    -------
    Solution or MulticlassSolution
        `status` is OPTIMAL exactly if the certificate, recomputed at the returned point, confirms `tol`.

    Raises
    ------
    InvalidParameter
        tol, max_iter or max_time out of range, or C and the kernels so large or small that their products leave the
        range of double precision.
    InvalidType
        Not a `Problem`, a callback that cannot be called, or a start that is no solution of such a problem.
    InvalidInput
        A start with another number of samples, kernels or classes.
    NotApplicable
        A kernel stack that is not in memory, or several classes to be polished.
    Interrupted
        On Ctrl-C; a KeyboardInterrupt whose `solution` is the best certified point so far.
    """
    check_options(problem, tol, max_iter, max_time, callback)
    if start is not None:
        check_start(problem, start)
    if polish and not isinstance(problem, Problem):
        raise NotApplicable("polish refines a Problem, not a MulticlassProblem; lower tol instead.")
    deadline = np.inf if max_time is None else time.perf_counter() + max_time
    run, status = run_from(problem, start, None, tol, max_iter, deadline, callback, progress)
    solution, machine = run.solution(status), run.machine
    if not (polish and isinstance(machine, Machine) and isinstance(solution, Solution)):
        return solution
    try:
        return polished(machine, solution, tol)
    except KeyboardInterrupt:
        raise Interrupted(solution) from None


def run_from(problem: Problem | MulticlassProblem, start: Any, images: Any, *options: Any) -> tuple[Outer, Status]:
    """The outer loop with these options, from a start or none, and why it ended.

    The images, if there are any, are those of a machine on the same kernels that is no longer used.
    """
    machine = machine_for(problem, None if start is None else start.dual_coef, images)
    check_range(problem.C, machine.images.diagonals.max(initial=0.0))
    run = Outer(machine, *options)
    try:
        with blas_threads():
            status = run.iterate(_first_weights(machine, start))
    except KeyboardInterrupt:
        raise Interrupted(run.solution(Status.INTERRUPTED) if run.best is not None else None) from None
    except (FloatingPointError, np.linalg.LinAlgError):
        if run.best is None:
            raise
        status = Status.STALLED
    finally:
        run.progress.close()
    return run, status


def _first_weights(machine: Machine | JointMachine, start: Solution | MulticlassSolution | None) -> Array:
    """Those of `start` for the present problem, else those of a part of the samples, else equal ones."""
    problem = machine.problem
    if start is not None:
        machine.informed = True
        return problem.regularizer.weights_from_norms(start.weights * np.sqrt(machine.images.squares))
    weights = weights_of_a_part(machine)
    machine.informed = weights is not None
    return equal_weights(problem) if weights is None else weights
