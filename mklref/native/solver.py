"""`solve`: the door to the native solver. The algorithm is in outer.py, from where the other files are reached."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from mklref._checks import check_options, check_range, check_start
from mklref._run import Recorder
from mklref._typing import Array
from mklref.exceptions import Interrupted, InvalidParameter, KernelsLost, NotApplicable
from mklref.factored import solve_factored
from mklref.kernels.factor_stack import FactorStack
from mklref.machines import machine_for
from mklref.machines.blas import blas_threads
from mklref.machines.joint import JointMachine
from mklref.machines.machine import Machine
from mklref.native.outer import Outer
from mklref.native.polish import polished
from mklref.native.subsample import equal_weights, subsample_weights
from mklref.problem import Problem
from mklref.regularizers import Lp
from mklref.solution import Record, Solution, Status

_SMALLER = 1000.0
"""A run that is lost goes by the solution at C / _SMALLER."""
_REFINED = 2000
"""Samples and kernels up to which a stalled run ends with Newton's method on its active set: it factorises matrices of
their number, for which polish=True asks anyway."""
_ROUGHLY, _LEAST_TIME = 1e-6, 1e-3
"""Relative gap and seconds for a dual point at which R* is finite."""
_EXACTLY, _BEYOND = 1e-11, 1.0 + 1e-11
"""Relative gap, and how much farther, up to which the end of its domain is rounding."""


def solve(
    problem: Problem,
    *,
    tol: float = 1e-6,
    max_iter: int = 500,
    max_time: float | None = None,
    callback: Callable[[Record], object] | None = None,
    progress: bool = False,
    start: Solution | None = None,
    polish: bool = False,
    client: Any = None,
) -> Solution:
    """Solve a multiple kernel learning problem to a certified relative duality gap.

    Parameters
    ----------
    problem : Problem
    tol : float
        Certified relative gap (upper - lower) / |upper| at which to stop, positive.
    max_iter : int
        Largest number of outer iterations (kernel machines solved).
    max_time : float, optional
        Seconds after which the best point so far is returned.
    callback : callable, optional
        Called with the `Record` of every outer iteration; a true return value stops the solver.
    progress : bool
        Show a progress line.
    start : Solution, optional
        A solution of a problem with the same kernels, to start from (for instance with another C or p).
    polish : bool
        Take the solution to the limit of double precision by Newton's method on its active set, where that certifies
        a smaller gap (`mklref._polish`); a run that stalls on a small problem does so in any case.
    client : distributed.Client, optional
        For kernels as factors: the rows are sent to its workers, one shard for each or those of `stack.sharded(k)`, and
        the steps are taken there. A `DistributedStack` is on workers already.

    Returns
    -------
    Solution
        `status` is OPTIMAL exactly if the certificate, recomputed at the returned point, confirms `tol`.

    Raises
    ------
    InvalidParameter
        tol, max_iter or max_time out of range, or C and the kernels so large or small that their products leave the
        range of double precision; or a one-class problem whose optimum is -inf, because R* is infinite for every beta.
    InvalidType
        Not a `Problem`, a callback that cannot be called, or a start that is no solution of such a problem.
    InvalidInput
        A start with another number of samples, kernels or classes.
    NotApplicable
        A kernel stack that is not in memory; a client for kernels that are no factors.
    KernelsLost
        Kernels on disk changed or vanished; its `solution` is the best certified point so far, or None.
    Interrupted
        On Ctrl-C, and where a cluster is lost; a KeyboardInterrupt whose `solution` is the best certified point so far.
    """
    check_options(problem, tol, max_iter, max_time, callback)
    if start is not None:
        check_start(problem, start)
    if isinstance(problem.kernels, FactorStack):
        if polish:
            raise NotApplicable("polish is for kernels as matrices; for kernels as factors lower tol instead.")
        limits: Any = {"tol": tol, "max_iter": max_iter, "max_time": max_time}
        return solve_factored(problem, **limits, callback=callback, progress=progress, start=start, client=client)
    if client is not None:
        raise NotApplicable("client is for kernels as factors; make a FactorStack, or leave client away.")
    deadline = np.inf if max_time is None else time.perf_counter() + max_time
    run, status = run_from(problem, start, None, tol, max_iter, deadline, callback, progress)
    with _losses_carry(run.kept_solution):
        solution, machine = run.solution(status), run.machine
    order = len(machine.beta) + problem.n_kernels
    if not polish and (solution.status is not Status.STALLED or order > _REFINED or time.perf_counter() > deadline):
        return solution
    try:
        return polished(machine, solution, tol)
    except KeyboardInterrupt:
        raise Interrupted(solution) from None


def run_from(
    problem: Problem,
    start: Any,
    forms: Any,
    tol: float,
    max_iter: int,
    deadline: float = np.inf,
    callback: Callable[[Record], object] | None = None,
    progress: bool = False,
) -> tuple[Outer, Status]:
    """The outer loop with these options, from a start or none, and why it ended.

    The forms, if there are any, are those of a machine on the same kernels that is no longer used.
    """
    left = deadline - time.perf_counter()
    recorder: Recorder[Record] = Recorder(
        "solving", tol=tol, max_iter=max_iter, max_time=left, callback=callback, progress=progress
    )
    run: Outer | None = None

    def interrupted() -> Any:
        return None if run is None or run.best.point is None else run.solution(Status.INTERRUPTED)

    with recorder.running(interrupted), _losses_carry(lambda: None if run is None else run.kept_solution()):
        run = _begun(problem, start, forms, tol, recorder)
        if start is None and run.bounded_dual and problem.intercept_cost:
            start = _inside_the_domain(run)
            if start is not None:
                run = _begun(problem, start, run.machine.forms, tol, recorder)
                run.before = start.history.counters
        status = _followed(run, start)
        if run.lost:
            run, start, status = _by_a_smaller_box(run)
            status = status if start is None else _followed(run, start)
    return run, status


@contextmanager
def _losses_carry(solution: Callable[[], Any]) -> Iterator[None]:
    """An error about kernels that were lost has the best point so far."""
    try:
        yield
    except KernelsLost as lost:
        raise KernelsLost(lost.message, solution() if lost.solution is None else lost.solution) from None


def _inside_the_domain(run: Outer) -> Solution | None:
    """A dual point at which R* is finite, if it is not near where the run begins: that of the smallest largest g_m.

    With 1'beta = c_b the dual has no other way inside than the solution for Lp(1), min_beta max_m 1/2 g_m^2. Every dual
    point has a g_m of at least the certified root of it; where R* is infinite for each such g_m, P* = -min R* = -inf.
    """
    problem = run.problem
    assert isinstance(problem, Problem)
    if np.isfinite(problem.regularizer.conjugate(2.0 * np.sqrt(run.machine.forms.squares))):
        return None
    relative = solve(problem.replace(regularizer=Lp(1)), tol=_ROUGHLY, max_time=_left(run))
    if not _outside(problem, relative.certificate.upper) and _outside(problem, _BEYOND * relative.certificate.lower):
        # At the end of the domain, but for rounding: there no bound is finite.
        relative = solve(
            problem.replace(regularizer=Lp(1)), tol=_EXACTLY, max_time=_left(run), start=relative, polish=True
        )
        narrow = relative.certificate.is_optimal(_EXACTLY)
        refused = narrow and _outside(problem, _BEYOND * relative.certificate.lower)
    else:
        refused = _outside(problem, relative.certificate.upper)
    if refused:
        least = _norm(relative.certificate.upper)
        raise InvalidParameter(
            f"the optimum is -inf, below every floating-point number, or cannot be told from it: with 1'beta = "
            f"{problem.intercept_cost:g} some norm sqrt(beta'K_m beta) is {least:.3g} at least, where R* of "
            f"{problem.regularizer} ends or is infinite. Raise C = {problem.C:g}, divide the kernels by more than "
            f"{least**2:.3g}, or use a squared norm such as Lp(1)."
        )
    return relative


def _left(run: Outer) -> float | None:
    """Seconds until the deadline, if there is one."""
    deadline = run.recorder.deadline
    return None if deadline == np.inf else max(deadline - time.perf_counter(), _LEAST_TIME)


def _outside(problem: Problem, bound: float) -> bool:
    """Whether R* is infinite for each norm alone whose half square is minus this bound of min_beta max_m 1/2 g_m^2."""
    return all(np.isinf(problem.regularizer.conjugate(g)) for g in _norm(bound) * np.eye(problem.n_kernels))


def _norm(bound: float) -> float:
    return float(np.sqrt(max(0.0, -2.0 * bound)))


def _begun(problem: Problem, start: Any, forms: Any, tol: float, recorder: Any) -> Outer:
    machine = machine_for(problem, None if start is None else start.dual_coef, forms)
    check_range(problem.C, machine.forms.diagonals.max(initial=0.0))
    run = Outer(machine, tol, recorder)
    run.cold = start is None
    return run


def _followed(run: Outer, start: Any) -> Status:
    """Follow the outer loop to its end."""
    try:
        with blas_threads():
            return run.iterate(_first_weights(run.machine, start))
    except (FloatingPointError, np.linalg.LinAlgError):
        if run.best.point is None:
            raise
        return Status.STALLED


def _by_a_smaller_box(run: Outer) -> tuple[Outer, Any, Status]:
    """A run that got lost, and the solution at a smaller C to continue it from; or none, and why it has to end.

    Where no |beta_i| reaches the smaller C, that is a solution here as well.
    """
    recorder = run.recorder
    left, tell = max(1, recorder.max_iter - len(recorder.records)), recorder.callback
    poll = None if tell is None else lambda _: tell(recorder.records[-1])  # its bounds are those of another problem
    smaller = run.problem.replace(C=run.problem.C / _SMALLER)
    try:
        detour, ended = run_from(smaller, None, None, run.tol, max(1, left // 2), recorder.deadline, poll)
        if ended is Status.STOPPED:
            return run, None, ended
        start = detour.solution(ended)
    except (FloatingPointError, np.linalg.LinAlgError, InvalidParameter):  # no point there, or C / _SMALLER too small
        return run, None, Status.STALLED
    recorder.max_iter -= len(detour.recorder.records)
    continued = _begun(run.problem, start, detour.machine.forms, run.tol, recorder)
    continued.go_on(run, detour)
    return continued, start, Status.STALLED


def _first_weights(machine: Machine | JointMachine, start: Solution | None) -> Array:
    """Those of `start` for the present problem, else those of a part of the samples, else equal ones."""
    problem = machine.problem
    if start is not None:
        machine.warm = True
        return problem.regularizer.weights_from_norms(start.weights * np.sqrt(machine.forms.squares))
    weights = subsample_weights(machine)
    machine.warm = weights is not None
    return equal_weights(problem) if weights is None else weights
