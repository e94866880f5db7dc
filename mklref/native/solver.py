"""`solve`: the door to the native solver, and what happens to a start."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from mklref._run import ABSURD, Recorder, check_range, check_start, checked_options
from mklref._threads import blas_threads
from mklref._typing import Array
from mklref._validate import checked_flag
from mklref.certificate import certify
from mklref.certificate.numerical import product_for
from mklref.exceptions import Interrupted, InvalidParameter, KernelsLost, NotApplicable
from mklref.kernels.factor_stack import FactorStack
from mklref.machines import machine_for
from mklref.machines.joint import JointMachine
from mklref.machines.machine import Machine
from mklref.native import tuning
from mklref.native.active import on_active_samples
from mklref.native.loop import Loop
from mklref.native.point import of_dual
from mklref.native.polish import certified_in_domain, polished
from mklref.native.rescue import Ladder, led_nowhere
from mklref.native.start import first_weights, solved_before
from mklref.problem import Problem, in_a_smaller_box
from mklref.regularizers import Lp
from mklref.solution import Record, Solution, Status

_NOTHING = (MemoryError, FloatingPointError, np.linalg.LinAlgError, InvalidParameter)
"""Errors of a second solve that leave the first solution as it is: no memory, no point, no such C."""


@ABSURD
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
        Seconds after which the best point so far is returned, polished or not.
    callback : callable, optional
        Called with the `Record` of every outer iteration; a true return value stops the solver.
    progress : bool
        Show a progress line.
    start : Solution, optional
        A solution of a problem with the same kernels, to start from (for instance with another C or p).
    polish : bool
        Take the solution to the limit of double precision by Newton's method on its active set, where that certifies
        a smaller gap (`mklref._polish`); a run that stalls on a small problem does so in any case, unless rounding
        of the kernels to float32 leaves more of the optimum open than `tol`.
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
        Kernels that are not in memory, for a loss whose machine is solved by Newton's method, such as the squared and
        the logistic one; `polish` for kernels as factors; `client` for kernels that are no factors.
    KernelsLost
        Kernels on disk changed or vanished; its `solution` is the best certified point so far, or None.
    Interrupted
        On Ctrl-C, and where a cluster is lost; a KeyboardInterrupt whose `solution` is the best certified point so far.
    """
    tol, max_iter, max_time = checked_options(problem, tol, max_iter, max_time, callback, progress)
    problem.kernels.require_unchanged()
    checked_flag("polish", polish)
    if start is not None:
        check_start(problem, start)
    deadline = np.inf if max_time is None else time.perf_counter() + max_time
    if isinstance(problem.kernels, FactorStack):
        if polish:
            raise NotApplicable("polish is for kernels as matrices; for kernels as factors lower tol instead.")
        from mklref.factored import solve_factored  # imports what speaks to other machines

        solution = solve_factored(
            problem, tol=tol, max_iter=max_iter, max_time=max_time, callback=callback, progress=progress, start=start,
            client=client,
        )  # fmt: skip
        here = problem.kernels.sources  # and not on workers of a cluster
        few = here and problem.n_kernels * problem.n_samples**2 <= tuning.ENTRIES
        if few and _may_go_on(solution, tol, deadline):
            solution = _by_way_of_matrices(problem, problem.kernels, solution, tol, max_iter, deadline)
        return solution
    if client is not None:
        raise NotApplicable("client is for kernels as factors; make a FactorStack, or leave client away.")
    solution = _solved(problem, tol, max_iter, deadline, callback, progress=progress, start=start, polish=polish)
    try:
        with _losses_carry(lambda: solution):
            return certified_in_domain(problem, solution, tol)
    except KeyboardInterrupt:
        raise Interrupted(solution) from None


def _solved(
    problem: Problem, tol: float, max_iter: int, deadline: float, callback: Callable[[Record], object] | None,
    *, progress: bool = False, start: Any = None, polish: bool = False, last: bool = False,
) -> Solution:  # fmt: skip
    """`solve` for kernels as matrices; the `last` one goes by way of no other problem."""
    solution: Solution | None = None
    run: Loop | None = None

    def nearly() -> Solution | None:
        return None if run is None else run.kept_solution() or run.solution(Status.INTERRUPTED)

    try:
        with blas_threads():
            run, status = run_from(problem, start, None, tol, max_iter, deadline, callback, progress, certified=True)
            with run.recorder.running(nearly), _losses_carry(run.kept_solution):
                solution, machine = run.solution(status), run.machine
        stalled, late = solution.status is Status.STALLED, time.perf_counter() > deadline
        small = len(machine.beta) + problem.n_kernels <= tuning.REFINED
        hopeful = stalled and small and not _left_open(solution, problem, tol)
        if not polish and (late or not hopeful):
            return solution
        solution = polished(machine, solution, tol, deadline)
        ends = iter(()) if late else run.ends()
        while solution.status is Status.STALLED and (end := next(ends, None)) is not None:
            other = polished(machine, end, tol, deadline)
            solution = other if other.certificate.gap < solution.certificate.gap else solution

        def told(_: Record) -> object:  # the bounds that are told are those of this problem
            return callback is not None and callback(run.recorder.records[-1])

        for near in () if last else (_of_semidefinite_kernels, partial(in_a_smaller_box, far=tuning.FAR)):
            if _may_go_on(solution, tol, deadline):
                solution = _by_way_of(near, machine, solution, tol, max_iter, deadline, told)
        return solution
    except KeyboardInterrupt as stopped:
        if solution is None and isinstance(stopped, Interrupted):  # with its own point
            raise
        raise Interrupted(nearly() if solution is None else solution) from None
    except KernelsLost as lost:
        raise KernelsLost(lost.message, lost.solution if solution is None else solution) from None


def _left_open(solution: Solution, problem: Problem, tol: float) -> bool:
    """Whether only rounding to float32 leaves more of P* open than the wanted gap: 1/2 sum_mi theta_m s_mi beta_i^2."""
    bounds, beta = solution.certificate, solution.dual_coef
    if bounds.gap - bounds.rounding > tol * bounds.size:
        return False
    return 0.5 * float(np.sum(solution.weights @ problem.kernels.lost * beta**2)) > tol * bounds.size


def _may_go_on(solution: Solution, tol: float, deadline: float) -> bool:
    """Whether a second solve may help: of a small problem that stalled by itself, and not for rounding.

    Who set a limit, or pressed Ctrl-C, asked for none, and large matrices are not copied for one.
    """
    bounds, order = solution.certificate, solution.dual_coef.size + len(solution.weights)
    by_itself = bounds.gap - bounds.rounding > tol * bounds.size
    return (
        solution.status is Status.STALLED and by_itself and order <= tuning.REFINED and time.perf_counter() < deadline
    )


def _by_way_of_matrices(
    problem: Problem, factors: FactorStack, solution: Solution, tol: float, max_iter: int, deadline: float
) -> Solution:
    """The solution, or a better one for the same kernels as matrices, whose active set Newton's method solves for.

    Where functions pass through the targets the path ends at residuals of 1e-12, each of which costs C.
    """
    try:
        with _losses_carry(lambda: solution), suppress(*_NOTHING):
            near = _solved(problem.replace(kernels=factors.dense_stack()), tol, max_iter, deadline, None)
            other = _as_of(problem, near, solution, tol)
            return other if other.certificate.gap < solution.certificate.gap else solution
        return solution
    except KeyboardInterrupt:
        raise Interrupted(solution) from None


def _by_way_of(
    near: Callable[[Problem, Array], Problem | None], machine: Machine | JointMachine, solution: Solution,
    tol: float, max_iter: int, deadline: float, callback: Callable[[Record], object],
) -> Solution:  # fmt: skip
    """The solution, or a better one from where it is for a problem that is nearly this one, if there is one."""
    problem = machine.problem
    try:
        if (other := near(problem, solution.dual_coef)) is None:
            return solution
        found = _solved(other, tol, max_iter, deadline, callback, last=True)
    except _NOTHING:
        return solution
    found = polished(machine, _as_of(problem, found, solution, tol), tol, deadline)
    return found if found.certificate.gap < solution.certificate.gap else solution


def _as_of(problem: Problem, near: Solution, solution: Solution, tol: float) -> Solution:
    """The solution of a problem that is nearly this one, or the same, as one of this problem."""
    found = certify(problem, near)
    return replace(
        solution, dual_coef=near.dual_coef, weights=near.weights, intercept=problem.intercepts(found.intercept),
        objective=found.objective, certificate=found, status=solution.status.confirmed(found.is_optimal(tol)),
    )  # fmt: skip


def _of_semidefinite_kernels(problem: Problem, _: Array) -> Problem | None:
    """The problem for K_m + diag(s_m), if rounding to float32 left K_m indefinite.

    On K_m itself J is no convex function, and from weights that are too large no step may lead down.
    """
    stack = problem.kernels
    if not stack.lost.any():
        return None
    shifts = 1.01 * stack.lost[:, None]  # up to rounding of s_m itself
    return problem.replace(kernels=np.asarray(stack.dense() + shifts * np.eye(problem.n_samples)))


@ABSURD
def run_from(
    problem: Problem,
    start: Any,
    forms: Any,
    tol: float,
    max_iter: int,
    deadline: float = np.inf,
    callback: Callable[[Record], object] | None = None,
    progress: bool = False,
    certified: bool = False,
) -> tuple[Loop, Status]:
    """The loop with these options, from a start or none, and why it ended.

    The forms, if there are any, are those of a machine on the same kernels that is no longer used. If the last point
    will be `certified` by itself, what that reads of the kernels serves both.
    """
    left, given = deadline - time.perf_counter(), start is not None
    recorder: Recorder[Record] = Recorder(
        "solving", tol=tol, max_iter=max_iter, max_time=left, callback=callback, progress=progress
    )
    loop: Loop | None = None

    def interrupted() -> Any:
        try:
            return None if loop is None or loop.best.point is None else loop.solution(Status.INTERRUPTED)
        except KeyboardInterrupt:  # again, while the certificate reads kernels on disk: take what needs no read
            if (found := kept()) is None:
                raise
            return found

    def kept() -> Any:
        return None if loop is None else loop.kept_solution()

    with recorder.running(interrupted), _losses_carry(kept), blas_threads():
        loop = _loop(problem, start, forms, tol, recorder)
        loop.machine.product = product_for(problem) if certified and not problem.several else None
        if start is None and problem.intercept_cost:
            start = _inside_the_domain(loop)
            if start is not None:
                loop = _loop(problem, start, loop.machine.forms, tol, recorder)
                loop.spend(start.history.counters)
                if (weights := of_dual(loop.machine)) is not None:  # those of `start` are in the unit of Lp(1)
                    start = replace(start, weights=weights)
        status = _followed(loop, None if loop.cold else start)
        if given and led_nowhere(loop, status):
            first, loop = loop, _loop(problem, None, None, tol, recorder)
            loop.best, loop.told = first.best, first.told
            loop.spend(first.counters())
            status = _followed(loop)
        return loop, status


@contextmanager
def _losses_carry(solution: Callable[[], Any]) -> Iterator[None]:
    """An error about kernels that were lost has the best point so far."""
    try:
        yield
    except KernelsLost as lost:
        raise KernelsLost(lost.message, solution() if lost.solution is None else lost.solution) from None


def _loop(problem: Problem, start: Any, forms: Any, tol: float, recorder: Recorder[Record]) -> Loop:
    machine = machine_for(problem, None if start is None else start.dual_coef, forms)
    absurd = start is not None and _is_absurd(machine, start.weights)
    if absurd:
        machine = machine_for(problem)
    check_range(problem.C, max(own.forms.diagonals.max(initial=0.0) for own in machine.machines))
    return Loop(machine, tol, recorder, cold=start is None or absurd)


def _is_absurd(machine: Machine | JointMachine, weights: Array) -> bool:
    """Whether R or minus the dual objective of a start is beyond all that f = 0, and another C, can explain."""
    problem, squares = machine.problem, machine.squares
    if problem.intercept_cost or not np.isfinite(squares).all():
        return not np.isfinite(squares).all()
    parts = (own.problem for own in machine.machines)
    nothing = sum(float(part.costs @ part.loss.value(np.zeros(len(part.y)), part.y)) for part in parts)
    worst = max(problem.regularizer.value(weights * np.sqrt(squares)), -machine.dual_objective(squares))
    return not worst <= tuning.ABSURD * nothing


def _followed(loop: Loop, start: Any = None) -> Status:
    """Follow the loop to its end, and climb the ladder of rescues where it stalls."""

    def solved(problem: Problem, recorder: Recorder[Record]) -> Loop:
        other = _loop(problem, None, None, loop.tol, recorder)
        _followed(other)
        return other

    ladder, status = Ladder(loop, solved), Status.STALLED
    try:
        weights = first_weights(loop, start)
        loop.note_first(weights)
        given = None if start is None else solved_before(loop, start)
        point = given or on_active_samples(loop, weights) or loop.evaluate(weights)  # rounds where kernels are costly
        while True:
            status, centre = loop.iterate(point)
            rescued = ladder.climb(centre) if status is Status.STALLED else None
            if rescued is None or loop.stopped is not None:
                return loop.stopped or status
            point = rescued
    except (FloatingPointError, np.linalg.LinAlgError):
        if loop.best.point is None or loop.recorder.raised:
            raise
        return Status.STALLED


def _inside_the_domain(loop: Loop) -> Solution | None:
    """A dual point at which R* is finite, if it is not near where the run begins: that of the smallest largest g_m.

    With 1'beta = c_b the dual has no other way inside than the solution for Lp(1), min_beta max_m 1/2 g_m^2. Every dual
    point has a g_m of at least the certified root of it; where R* is infinite for each such g_m, P* = -min R* = -inf.
    """
    problem = loop.problem
    if problem.regularizer.dual_scale(2.0 * np.sqrt(loop.machine.squares)) == 1.0:
        return None
    smallest, left = problem.replace(regularizer=Lp(1)), loop.recorder.left
    relative = solve(smallest, max_time=max(left, 1e-3))
    refused = _outside(problem, relative.certificate.upper)
    if not refused and _outside(problem, tuning.BEYOND * relative.certificate.lower):
        # At the end of the domain, but for rounding: there no bound is finite.
        left = max(loop.recorder.left, 1e-3)
        relative = solve(smallest, tol=tuning.EXACTLY, max_time=left, start=relative, polish=True)
        narrow = relative.certificate.is_optimal(tuning.EXACTLY)
        refused = narrow and _outside(problem, tuning.BEYOND * relative.certificate.lower)
    if refused:
        least = _norm(relative.certificate.upper)
        raise InvalidParameter(
            f"the optimum is -inf, below every floating-point number, or cannot be told from it: with 1'beta = "
            f"{problem.intercept_cost:g} some norm sqrt(beta'K_m beta) is {least:.3g} at least, where R* of "
            f"{problem.regularizer} ends or is infinite. Raise C = {problem.C:g}, divide the kernels by more than "
            f"{least**2:.3g}, or use a squared norm such as Lp(1)."
        )
    return relative


def _outside(problem: Problem, bound: float) -> bool:
    """Whether R* is infinite for each norm alone whose half square is minus this bound of min_beta max_m 1/2 g_m^2."""
    return all(np.isinf(problem.regularizer.conjugate(g)) for g in _norm(bound) * np.eye(problem.n_kernels))


def _norm(bound: float) -> float:
    return float(np.sqrt(max(0.0, -2.0 * bound)))
