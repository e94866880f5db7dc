"""The rows of cross-checks, one after the other or in parallel processes."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from mklref import native, reference
from mklref._conic.scaling import Factors, factorize
from mklref._crosscheck.row import NATIVE, Row
from mklref.certificate.allowance import entries_error
from mklref.exceptions import FalseClaim, MKLError, MKLWarning, SolverFailure
from mklref.solution import Solution


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


def rows(jobs: Sequence[Job], processes: int = 1) -> Generator[Row, None, None]:
    """The rows of all jobs, in order, each as soon as it and those before it are there.

    With several processes the native rows are solved here and all others there; numerical libraries use one thread in
    each. Closing the iterator, or an exception such as Ctrl-C, ends the processes.
    """
    if processes == 1:
        for job in jobs:
            factors = None
            for formulation, solver in job.labels:
                if formulation != NATIVE and factors is None:
                    factors = factorize(job.problem.kernels)
                yield _row(job, formulation, solver, factors)
        return
    with _pool(processes, jobs) as pool:
        conic = [
            {label: pool.submit(_conic_row, number, *label) for label in job.labels if label[0] != NATIVE}
            for number, job in enumerate(jobs)
        ]
        for job, futures in zip(jobs, conic, strict=True):
            for label in job.labels:
                yield _awaited(job, label, futures[label]) if label in futures else _row(job, *label)


def _row(job: Job, formulation: str, solver: str, factors: Factors | None = None) -> Row:
    """One answer; what a solver warns of or fails with goes into the note."""
    if formulation == NATIVE:
        allowed, solve = job.tol, partial(native.solve, job.problem, tol=job.tol)
    else:
        allowed, solve = job.reference_tol, partial(_conic_solution, job.problem, formulation, solver, factors)
    return _answered(job.problem, formulation, solver, solve, allowed)


def rounding(problem: Any, solution: Any) -> float:
    """How far certified bounds may contradict those of another point because kernels are rounded: no proof.

    Certificates allow for the rounding of their own sums. That of the kernels is no error in them, but makes kernels
    indefinite, for which no weak duality holds (`mklref.certificate.allowance`).
    """
    rows, weights = problem.split(solution.dual_coef), np.abs(solution.weights)
    return sum(entries_error(m.problem, row, weights) for m, row in zip(problem.machines, rows, strict=True))


def _conic_solution(problem: Any, formulation: str, solver: str, factors: Factors | None) -> Solution:
    solution: Solution = reference.compile(problem, formulation, factors=factors).solve(solver=solver)
    return solution


def _answered(problem: Any, formulation: str, solver: str, solve: Callable[[], Solution], allowed: float) -> Row:
    solution, claim, notes = None, "", []
    started = time.perf_counter()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            solution = solve()
        except FalseClaim as failure:
            claim = failure.claim
            notes.append(str(failure))
        except MKLError as failure:
            notes.append(str(failure))
    seconds = time.perf_counter() - started
    for warning in caught:
        if issubclass(warning.category, MKLWarning):
            notes.append(str(warning.message))
        else:
            warnings.warn_explicit(warning.message, warning.category, warning.filename, warning.lineno)
    error = rounding(problem, solution) if solution else 0.0
    return Row(formulation, solver, seconds, solution, " ".join(notes), allowed, claim, error)


_shared: tuple[Sequence[Job], dict[int, Factors]] = ((), {})
"""In a worker: the jobs, and the factors of the kernel stacks that it has met."""


@contextmanager
def _pool(processes: int, jobs: Sequence[Job]) -> Iterator[ProcessPoolExecutor]:
    """Workers that know the jobs, and that are gone afterwards, whatever happens here.

    Where the system can, they are forked: they have loaded what is loaded here, and see cvxpy as it is here.
    """
    before = set(multiprocessing.active_children())
    context = multiprocessing.get_context("fork" if sys.platform == "linux" else "spawn")
    pool = ProcessPoolExecutor(processes, context, _start, (jobs,))
    try:
        with warnings.catch_warnings():
            # Python 3.12 warns of threads at a fork; those of BLAS, the only ones, end before it and start anew after.
            warnings.simplefilter("ignore", DeprecationWarning)
            with _deaf():
                first = pool.submit(os.getpid)  # which starts them all
            first.result()
        yield pool
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
        for worker in set(multiprocessing.active_children()) - before:
            worker.terminate()
            worker.join()


_ENDINGS = {getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)}
"""Signals whose handlers may raise an exception, as `mklref.cli` has them do."""


@contextmanager
def _deaf() -> Iterator[None]:
    """Signals wait meanwhile. One that met a fork before `_start` would unwind its copy of the caller's stack there.

    What comes after the caller would then run twice; threads and processes that are started here stay deaf.
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
    jobs, factors = _shared
    kernels = jobs[number].problem.kernels
    if id(kernels) not in factors:
        factors[id(kernels)] = factorize(kernels)
    return _row(jobs[number], formulation, solver, factors[id(kernels)])


def _awaited(job: Job, label: tuple[str, str], future: Future[Row]) -> Row:
    """The row of a worker; one that died is a solver that failed."""
    try:
        return future.result()
    except BrokenProcessPool:
        return _answered(job.problem, *label, partial(_died, label[1]), job.reference_tol)


def _died(solver: str) -> Solution:
    raise SolverFailure(f"{solver}: a process ended without an answer; memory may be short: try --jobs 1.")
