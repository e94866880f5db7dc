"""The rows of cross-checks, one after the other or in parallel processes."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Generator, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack, contextmanager
from pickle import PicklingError
from typing import Any, NamedTuple

import numpy as np

from mklref import native, reference
from mklref._conic.scaling import Factors, factorize
from mklref._crosscheck.row import NATIVE, Row
from mklref._threads import filtering
from mklref.certificate.allowance import entries_error
from mklref.exceptions import FalseClaim, InvalidType, MKLError, SolverFailure, noting_warnings


class Job(NamedTuple):
    """A problem, the formulations and solvers that it is given to, and the gaps that are allowed."""

    problem: Any
    formulations: Sequence[str]
    solvers: Sequence[str]
    tol: float
    reference_tol: float

    @property
    def labels(self) -> list[tuple[str, str]]:
        """(formulation, solver) of each row: the native one, if there is a native solver, then all pairs."""
        pairs = [(formulation, solver) for formulation in self.formulations for solver in self.solvers]
        return pairs if self.problem.signed else [(NATIVE, "mklref"), *pairs]


class _Wanted(NamedTuple):
    """A row: the number of its job, and its label."""

    job: int
    formulation: str
    solver: str


def rows(jobs: Sequence[Job], processes: int = 1, max_time: float | None = None) -> Generator[Row, None, None]:
    """The rows of all jobs, in order, each as soon as it and those before it are there.

    With several processes, or a limit of time for a row, the native rows are solved here and all others there
    (`_Workers`); numerical libraries use one thread in each. Closing the iterator, or an exception such as Ctrl-C, ends
    the processes.
    """
    if processes == 1 and max_time is None:
        for job in jobs:
            known: dict[int, Factors | SolverFailure] = {}
            for formulation, solver in job.labels:
                yield _row(job, formulation, solver, known)
        return
    wanted = [_Wanted(number, *label) for number, job in enumerate(jobs) for label in job.labels]
    with ExitStack() as pools:
        workers = _Workers(jobs, processes, [one for one in wanted if one.formulation != NATIVE], pools, max_time)
        for one in wanted:
            native_row = one.formulation == NATIVE
            yield _row(jobs[one.job], *one[1:], max_time=max_time) if native_row else workers.row(one)


def _row(job: Job, formulation: str, solver: str, known: Any = None, *, max_time: float | None = None) -> Row:
    """One answer; what a solver warns of or fails with goes into the note."""
    solution, claim, failed, problem = None, "", [], job.problem
    started = time.perf_counter()
    with noting_warnings() as notes:
        try:
            if formulation == NATIVE:
                solution = native.solve(problem, tol=job.tol, max_time=max_time)
            else:
                factors = _factors(problem, known)
                started = time.perf_counter()
                solution = reference.compile(problem, formulation, factors=factors).solve(solver=solver)
        except MKLError as failure:
            claim = failure.claim if isinstance(failure, FalseClaim) else ""
            failed.append(str(failure))
    seconds = time.perf_counter() - started
    allowed = job.tol if formulation == NATIVE else job.reference_tol
    error = rounding(problem, solution) if solution else 0.0
    return Row(formulation, solver, seconds, solution, " ".join(failed + notes), allowed, claim, error)


def rounding(problem: Any, solution: Any) -> float:
    """How far certified bounds may contradict those of another point because kernels are rounded: no proof.

    Certificates allow for the rounding of their own sums. That of the kernels is no error in them, but makes kernels
    indefinite, for which no weak duality holds (`mklref.certificate.allowance`).
    """
    each = zip(problem.machines, problem.split(solution.dual_coef), strict=True)
    return sum(entries_error(machine.problem, row, solution.weights) for machine, row in each)


def _factors(problem: Any, known: dict[int, Factors | SolverFailure]) -> Factors:
    """The factors of the kernels, made at first use; that there is no memory for them is remembered as well."""
    key = id(problem.kernels)
    if key not in known:
        try:
            known[key] = factorize(problem.kernels)
        except SolverFailure as failure:
            known[key] = failure
    if isinstance(found := known[key], SolverFailure):
        raise SolverFailure(str(found))
    return found


_shared: tuple[Sequence[Job], dict[int, Factors | SolverFailure]] = ((), {})
"""In a worker: the jobs, and the factors of the kernel stacks that it has met."""


@contextmanager
def _process(jobs: Sequence[Job]) -> Iterator[ProcessPoolExecutor]:
    """A worker that knows the jobs, and that is gone afterwards, whatever happens here.

    Where the system can, it is forked: it has loaded what is loaded here, and sees cvxpy as it is here.
    """
    context = multiprocessing.get_context("fork" if sys.platform == "linux" else "spawn")
    pool = ProcessPoolExecutor(1, context, _start, (jobs,))
    try:
        _begin(pool)
        yield pool
    finally:
        _end(pool)


def _begin(pool: ProcessPoolExecutor) -> None:
    """Start its process, which gets the jobs as a copy, or where it is not forked as a pickle, and the script anew."""
    try:
        # Python 3.12 warns of threads at a fork; those of BLAS, the only ones, end before it and start anew after.
        with filtering("ignore", DeprecationWarning), _deaf():
            first = pool.submit(os.getpid)
        first.result()
    except BrokenProcessPool as ended:
        raise SolverFailure(
            "a process for rows ended as it began: for lack of memory or, where none is forked, as it ran the script "
            "that began it. Put what that does below `if __name__ == '__main__':`, or leave out processes and max_time."
        ) from ended
    except (AttributeError, PicklingError, TypeError) as local:
        raise InvalidType(
            f"problem cannot be sent to another process: {local}. Define classes and functions of your own at the top "
            "of a module, or leave out processes and max_time."
        ) from local


def _end(pool: ProcessPoolExecutor) -> None:
    """End its process, whatever it is doing."""
    own = list((pool._processes or {}).values())  # other children of this process are none of ours
    pool.shutdown(wait=False, cancel_futures=True)
    for worker in own:
        worker.terminate()
        worker.join()


_ENDINGS = {getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)}
"""Signals whose handlers may raise an exception, as `mklref.cli` has them do."""


@contextmanager
def _deaf() -> Iterator[None]:
    """Hold these signals back meanwhile; threads and processes that start here never get them.

    A signal that reached a fork before `_start` would unwind the child's copy of the caller's stack, and what comes
    after the caller would run twice.
    """
    if not hasattr(signal, "pthread_sigmask"):  # nothing is forked there
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _ENDINGS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _start(jobs: Sequence[Job]) -> None:
    """Prepare a worker: Ctrl-C is its parent's business, without whom it ends; one thread for BLAS."""
    import cvxpy  # noqa: F401  - or the first row would do so, in its own time
    from threadpoolctl import threadpool_limits

    global _shared
    _shared = (jobs, {})
    for ending in _ENDINGS:
        signal.signal(ending, signal.SIG_IGN if ending is signal.SIGINT else signal.SIG_DFL)
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _ENDINGS)
    threading.Thread(target=_end_with_the_parent, daemon=True).start()
    threadpool_limits(1)


def _end_with_the_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


def _conic_row(number: int, formulation: str, solver: str) -> Row:
    """In a worker: a row of the job of that number."""
    jobs, known = _shared
    return _row(jobs[number], formulation, solver, known)


class _Workers:
    """The rows that several processes solve, each one at a time; where a process dies, its solver has failed.

    With a limit of time a process whose row is late is ended.
    """

    def __init__(
        self, jobs: Sequence[Job], processes: int, left: list[_Wanted], pools: ExitStack, max_time: float | None
    ) -> None:
        self.jobs, self.processes, self.left, self.pools = jobs, processes, left, pools
        self.limit = np.inf if max_time is None else max_time
        self.running: dict[_Wanted, tuple[ProcessPoolExecutor, Future[Row], float]] = {}
        """By which process a row is solved, and since when."""
        self.idle: list[ProcessPoolExecutor] = []
        self.found: dict[_Wanted, Row] = {}
        self._begin()

    def row(self, one: _Wanted) -> Row:
        """One of the rows, as soon as it is there."""
        while one not in self.found:
            self._go_on()
        return self.found.pop(one)

    def _begin(self) -> None:
        """Begin as many of the rows that are left as there are processes for."""
        while self.left and len(self.running) < self.processes:
            pool = self.idle.pop() if self.idle else self.pools.enter_context(_process(self.jobs))
            one = self.left.pop(0)
            self.running[one] = pool, pool.submit(_conic_row, *one), time.monotonic()

    def _go_on(self) -> None:
        """Wait for one of the rows that are being solved, and begin others."""
        rest = self.limit - (time.monotonic() - min(began for *_, began in self.running.values()))
        wait(
            [future for _, future, _ in self.running.values()],
            timeout=max(0.0, rest) if rest < threading.TIMEOUT_MAX else None,
            return_when=FIRST_COMPLETED,
        )
        late = f"no answer within max_time = {self.limit:g} seconds; give it more, or fewer samples."
        for one, (pool, future, began) in list(self.running.items()):
            seconds, why = 0.0, ""
            if not future.done():
                if time.monotonic() - began < self.limit:
                    continue
                _end(pool)
                seconds, why = self.limit, late
            elif isinstance(future.exception(), BrokenProcessPool):
                why = (
                    "its process ended without an answer, by a crash or for lack of memory; leave the solver out, or "
                    "solve fewer rows at a time."
                )
            else:
                self.idle.append(pool)
                if (seconds := future.result().seconds) > self.limit:  # and nobody has looked meanwhile
                    why = late
            allowed, note = self.jobs[one.job].reference_tol, f"{one.solver}: {why}"
            failed = Row(one.formulation, one.solver, seconds, None, note, allowed)
            self.found[one] = failed if why else future.result()
            del self.running[one]
        self._begin()
