"""`solve`: the door to the native solver. The algorithm is in outer.py, from where the other files are reached."""

from __future__ import annotations

import numbers
import time
from collections.abc import Callable
from typing import Any, overload

import numpy as np

from mklref._typing import Array
from mklref.exceptions import Interrupted, InvalidParameter, InvalidType, NotApplicable
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
        Not a `Problem`, or a callback that cannot be called.
    NotApplicable
        A kernel stack that is not in memory, or several classes to be polished.
    Interrupted
        On Ctrl-C; a KeyboardInterrupt whose `solution` is the best certified point so far.
    """
    check_options(problem, tol, max_iter, max_time, callback)
    if not isinstance(start, Solution | MulticlassSolution | None):
        raise InvalidType(
            f"start is {type(start).__name__}; give a Solution of a problem with the same kernels, or None."
        )
    if polish and not isinstance(problem, Problem):
        raise NotApplicable("polish refines a Problem, not a MulticlassProblem; lower tol instead.")
    machine = machine_for(problem, None if start is None else start.dual_coef)
    _check_range(problem.C, machine.images.diagonals.max(initial=0.0))
    deadline = np.inf if max_time is None else time.perf_counter() + max_time
    run = Outer(machine, tol, max_iter, deadline, callback, progress)
    try:
        with blas_threads():
            status = run.iterate(_first_weights(machine, start, deadline))
    except KeyboardInterrupt:
        raise Interrupted(run.solution(Status.INTERRUPTED) if run.best is not None else None) from None
    except (FloatingPointError, np.linalg.LinAlgError):
        if run.best is None:
            raise
        status = Status.STALLED
    finally:
        run.progress.close()
    solution = run.solution(status)
    if not (polish and isinstance(machine, Machine) and isinstance(solution, Solution)):
        return solution
    try:
        return polished(machine, solution, tol)
    except KeyboardInterrupt:
        raise Interrupted(solution) from None


def _check_range(C: float, largest: float) -> None:
    """C and the largest K_m[i, i] within 1e-200 and 1e200, their product within 1e-150 and 1e150."""
    if largest > 0.0 and not (1e-200 <= C <= 1e200 and 1e-200 <= largest <= 1e200 and 1e-150 <= C * largest <= 1e150):
        raise InvalidParameter(
            f"C = {C:g} with K_m[i, i] up to {largest:g} leaves the range of double precision: both must be within "
            "1e-200 and 1e200, and their product within 1e-150 and 1e150; normalise the kernels (kernels.normalize) "
            "and choose C anew."
        )


def _first_weights(
    machine: Machine | JointMachine, start: Solution | MulticlassSolution | None, deadline: float
) -> Array:
    """Those of `start` for the present problem, else those of a part of the samples, else equal ones."""
    problem = machine.problem
    if start is not None:
        return problem.regularizer.weights_from_norms(start.weights * np.sqrt(machine.images.squares))
    weights = weights_of_a_part(machine, deadline)
    machine.informed = weights is not None
    return equal_weights(problem) if weights is None else weights


def check_options(problem: Any, tol: Any, max_iter: Any, max_time: Any, callback: Any) -> None:
    """Raise InvalidType or InvalidParameter unless a solver can start with these."""
    if not isinstance(problem, Problem | MulticlassProblem):
        raise InvalidType(f"problem is {type(problem).__name__}; give a mklref.Problem(kernels, y, ...).")
    if callback is not None and not callable(callback):
        raise InvalidType(f"callback is {callback!r}; give a function of one Record, or None.")
    if not isinstance(tol, numbers.Real) or not 0.0 < float(tol) < np.inf:
        raise InvalidParameter(f"tol = {tol!r} must lie in (0, inf): a relative duality gap, for instance 1e-6.")
    if isinstance(max_iter, bool) or not isinstance(max_iter, numbers.Integral) or max_iter < 1:
        raise InvalidParameter(f"max_iter = {max_iter!r} must be a positive integer.")
    if max_time is not None and not (isinstance(max_time, numbers.Real) and float(max_time) > 0.0):
        raise InvalidParameter(f"max_time = {max_time!r} must be a positive number of seconds, or None.")
