"""Several threads at work on the same problem: nothing is shared that is written to."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import warnings
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext, suppress
from functools import partial
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest
from makers import make_problem
from threadpoolctl import ThreadpoolController, threadpool_limits

import mklref
from mklref import _threads, native, reference
from mklref._threads import blas_threads, in_parts
from mklref.evidence import EvidenceProblem, MarginalLikelihood, likelihood, stationarity
from mklref.exceptions import MKLWarning, SolverFailure, warn
from mklref.kernels import ArrayStack, evaluation, gaussian
from mklref.machines import machine
from mklref.regularizers import Lp


@pytest.mark.sampled(3)
@pytest.mark.parametrize("loss", ["hinge", "logistic", "epsilon_insensitive"])
@pytest.mark.parametrize("p", [1, 2])
def test_threads_get_the_bits_of_a_single_one(loss, p):
    """Eight solvers at a time on one kernel stack, with problems of their own and with the same one."""
    problem = make_problem(loss=loss, seed=5, n=60, regularizer=Lp(p))
    problems = [problem.replace(C=C) for C in (0.1, 10.0)] * 2 + [problem] * 4
    alone = [mklref.solve(each) for each in problems]
    with ThreadPoolExecutor(8) as pool:
        together = list(pool.map(mklref.solve, problems))
    for single, threaded in zip(alone, together, strict=True):
        np.testing.assert_array_equal(threaded.dual_coef, single.dual_coef)
        np.testing.assert_array_equal(threaded.weights, single.weights)
        assert threaded.certificate == single.certificate
        assert threaded.history.counters == single.history.counters


def test_any_thread_limits_blas_after_the_first_one_has():
    """Newer threadpoolctl hears only the first thread that sets a number, until that one gives its place away."""

    def inside():
        with blas_threads():
            return [one["num_threads"] for one in ThreadpoolController().info() if one["user_api"] == "blas"]

    with threadpool_limits(2):
        pass
    assert set(inside()) == {1}
    with ThreadPoolExecutor(1) as pool:
        assert set(pool.submit(inside).result()) == {1}


def test_certificates_of_several_threads_agree():
    problem = make_problem(loss="hinge", seed=6, n=40)
    solution = mklref.solve(problem)
    asked = partial(mklref.certify, problem, solution, intercept=solution.intercept)
    with ThreadPoolExecutor(8) as pool:
        certificates = list(pool.map(lambda rigorous: asked(rigorous=rigorous), [False, True] * 6))
    assert all(certificate == certificates[0] for certificate in certificates[::2])
    assert len({(certificate.lower, certificate.upper) for certificate in certificates[1::2]}) == 1


def blas_now():
    return {library["num_threads"] for library in ThreadpoolController().select(user_api="blas").info()}


def test_the_last_certificate_leaves_one_thread_to_blas(calls_of):
    """Small products by several threads take a thousand times as long where somebody else needs a core."""
    seen = calls_of(machine, "certify_for", lambda *_: blas_now())
    with threadpool_limits(2, user_api="blas"):
        mklref.solve(make_problem(loss="hinge", seed=6, n=40))
    assert seen == [{1}]


@pytest.mark.parametrize(
    ("name", "ask"),
    [
        ("cholesky", lambda problem: MarginalLikelihood(problem, [1.0, 1.0, 1.0])),
        ("dpotri", lambda problem: MarginalLikelihood.at(problem, np.ones(3))),
        ("dsygst", lambda problem: MarginalLikelihood(problem, [1.0, 1.0, 1.0]).trace_products([0, 1], units=1.0)),
        ("dsygst", lambda problem: MarginalLikelihood(problem, [1.0, 1.0, 1.0]).lowest_curvature),
        ("whitened", lambda problem: MarginalLikelihood(problem, [1.0, 1.0, 1.0]).whitened()),
        ("dpotri", lambda problem: stationarity(problem, [1.0, 1.0, 1.0])),
    ],
)
def test_a_marginal_likelihood_has_the_threads_of_its_solver(calls_of, name, ask):
    seen = calls_of(likelihood, name, lambda *_, **options: blas_now())
    problem = EvidenceProblem(make_problem(loss="hinge", seed=6, n=40, M=3).kernels, np.sin(np.arange(40.0)), 0.1)
    with threadpool_limits(2, user_api="blas"):
        ask(problem)
    assert set().union(*seen) == {1}


@pytest.mark.parametrize(("method", "call"), [("__enter__", 1), ("__enter__", 2), ("__exit__", 1), ("__exit__", 2)])
def test_ctrl_c_at_the_ends_of_a_solve_leaves_the_threads_of_blas_as_they_were(method, call, monkeypatch):
    """The context that it cuts off was counted as one at work for ever, and BLAS kept one thread."""
    lock, calls = threading.Lock(), []

    class Interrupted:
        def __enter__(self):
            self.step("__enter__", lock.acquire)

        def __exit__(self, *_):
            self.step("__exit__", lock.release)

        def step(self, name, do):
            calls.append(name)
            interrupted = name == method and calls.count(name) == call
            if not (interrupted and name == "__enter__"):
                do()
            if interrupted:
                raise KeyboardInterrupt

    monkeypatch.setattr(_threads, "_LOCK", Interrupted())
    with threadpool_limits(2, user_api="blas"):
        before = blas_now()
        with suppress(KeyboardInterrupt), blas_threads():
            pass
        assert blas_now() == before
        with blas_threads():
            assert blas_now() == {1}
        assert blas_now() == before
    assert calls.count(method) > call


def test_threads_that_silence_conic_solvers_leave_the_filters_of_warnings():
    """Each one restored what it had found: the last one that of another thread, which ignored every `UserWarning`."""
    before = list(warnings.filters)
    first, second = reference._quiet(), reference._quiet()
    for enter in (first, second):
        enter.__enter__()
    for leave in (first, second):
        leave.__exit__(None, None, None)
    assert warnings.filters == before


def test_crosschecks_of_two_threads_note_their_own_warnings_and_leave_the_filters(monkeypatch):
    honest, both, over = native.solve, threading.Barrier(2), threading.Event()

    def solve(problem, **options):
        both.wait(timeout=30)
        warn(f"of C = {problem.C}", MKLWarning)
        if problem.C == 2.0:  # which began with what the other one had set, and ends after it
            assert over.wait(timeout=30)
        return honest(problem, **options)

    def noted(C):
        found = mklref.crosscheck(problem.replace(C=C), formulations=["dual"], solvers=["CLARABEL"])
        over.set()
        return found.rows[0].note

    problem = make_problem(loss="hinge", seed=6, n=12)
    reference.solve(problem, formulation="dual", solver="CLARABEL")  # what that imports sets filters of its own
    before, shown = list(warnings.filters), warnings.showwarning
    monkeypatch.setattr(native, "solve", solve)
    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(noted, [1.0, 2.0])) == ["of C = 1.0", "of C = 2.0"]
    assert (warnings.filters, warnings.showwarning) == (before, shown)


@pytest.mark.parametrize("around", [nullcontext, blas_threads, partial(blas_threads, 10**4)])
def test_small_blocks_of_lazy_kernels_leave_one_thread_to_blas_wherever_they_are_read(around, rng, monkeypatch):
    """Its idle threads would spin while ours evaluate exponentials: `certify` took ten times as long."""
    seen = []

    @contextmanager
    def observed(order):
        with blas_threads(order):
            seen.append(blas_now())
            yield

    monkeypatch.setattr(evaluation, "blas_threads", observed)
    monkeypatch.setattr(_threads, "_LARGE", 50)
    monkeypatch.setenv("MKLREF_NUM_THREADS", "2")
    with threadpool_limits(2, user_api="blas"), around():
        before = blas_now()
        for columns in (9, 200):
            gaussian(1.0).fit(rng.normal(size=(40, columns)), storage="lazy").apply(np.ones(40))
        assert blas_now() == before
    assert [max(each) for each in seen] == [1] * 7 + [2] * 7, "a library without threads may be loaded as well"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
def test_a_process_that_is_forked_while_a_thread_reads_waits_for_nobody(rng):
    """The thread that had its turn is gone there: the cache begins anew; of the number of threads the fork waits."""
    lazy = gaussian([0.5, 2.0]).fit(rng.normal(size=(30, 12)), storage="lazy")
    problem = make_problem(loss="hinge", seed=6, n=30).replace(kernels=lazy)
    alone, reads, forked = mklref.solve(problem), threading.Event(), threading.Event()

    def read():
        with lazy.reader.turn:
            with _threads._LOCK:
                reads.set()
                forked.wait(timeout=0.2)  # in vain: the fork comes after
            forked.wait(timeout=30)

    thread = threading.Thread(target=read)
    thread.start()
    reads.wait()
    if not (child := os.fork()):
        try:
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.alarm(20)
            np.testing.assert_allclose(mklref.solve(problem).objective, alone.objective, rtol=1e-9)
            os._exit(0)
        finally:
            os._exit(1)
    forked.set()
    thread.join()
    assert os.waitpid(child, 0)[1] == 0


LACKING = """
import os, resource
from pathlib import Path
import numpy as np
from mklref.machines.loops import loops

K = np.random.default_rng(0).normal(size=(4, 600, 600))
stack, index, weights = loops.Stack(list(K + K.transpose(0, 2, 1))), np.arange(300), np.ones(4)
alone, together, ready = np.zeros((600, 600)), np.zeros((600, 600)), np.zeros(600, dtype=np.uint8)
loops.combine_rows(stack, weights, index, alone, ready, 1)
for megabytes in (4, 12, 20):
    if child := os.fork():
        print(os.waitpid(child, 0)[1])
        continue
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * resource.getpagesize() + megabytes * 2**20
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    loops.combine_rows(stack, weights, index, together, ready, 4)
    os._exit(not all(map(np.array_equal, alone, together)))
"""


@pytest.mark.skipif(not native.AVAILABLE, reason="the twin has one thread")
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="limits memory as Linux does")
def test_threads_that_find_no_memory_are_not_missed():
    """None, one or two of three have a stack of 8 MB; the others do their work."""
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "PYTHONPATH": str(Path(mklref.__file__).parent.parent)}
    command = [sys.executable, "-c", LACKING]
    ran = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert (ran.returncode, ran.stdout) == (0, 3 * "0\n"), ran.stderr


@pytest.mark.parametrize("memory", [True, False])
def test_parts_for_several_threads_are_all_done(memory, monkeypatch):
    """Also by one alone, where there is no memory for others."""
    monkeypatch.setenv("MKLREF_NUM_THREADS", "3")
    if not memory:
        monkeypatch.setattr(threading.Thread, "start", Mock(side_effect=RuntimeError("can't start new thread")))
    parts, seen = [], set()

    def work(part):
        parts.append((part.start, part.stop))
        seen.update(blas_now())

    with threadpool_limits(2, user_api="blas"):
        in_parts(work, 500, 64, _threads._WORTH)
        assert (parts, seen) == ([(0, 512)], blas_now()), "not worth a thread"
        parts.clear(), seen.clear()
        in_parts(work, 500, 64, 9 * _threads._WORTH)
    assert (sorted(parts), seen) == ([(0, 192), (192, 384), (384, 576)], {1})


def test_what_another_thread_raises_in_its_part_is_raised(monkeypatch):
    monkeypatch.setenv("MKLREF_NUM_THREADS", "2")
    there, here = threading.Event(), threading.get_ident()

    def work(_):
        if threading.get_ident() == here:
            assert there.wait(timeout=30)
        else:
            there.set()
            raise MemoryError

    with pytest.raises(MemoryError):
        in_parts(work, 2, 1, 2 * _threads._WORTH)


def test_a_search_without_memory_for_its_threads_says_what_to_do(monkeypatch, rng):
    X = rng.normal(size=(20, 2))
    search = mklref.MKLRegressorCV("linear", Cs=[1.0], norms=[1.0], cv=2, n_jobs=2)
    monkeypatch.setattr(threading.Thread, "start", Mock(side_effect=RuntimeError("can't start new thread")))
    with pytest.raises(SolverFailure, match="n_jobs = 2: no memory for 2 threads; give n_jobs=1"):
        search.fit(X, X[:, 0])


def test_threads_prove_different_kernels_at_a_time(monkeypatch):
    """Up to Python 3.11 `functools.cached_property` has one lock for all instances of a class."""
    both = threading.Barrier(2)

    def meet(*_):
        both.wait(timeout=30)  # BrokenBarrierError if the other thread waits for a lock of ours
        return True

    monkeypatch.setattr(sys.modules[ArrayStack.__module__], "require_psd", meet)
    with ThreadPoolExecutor(2) as pool:
        kernels = [ArrayStack(np.eye(3)[None]) for _ in range(2)]
        assert list(pool.map(lambda stack: stack.definiteness, kernels)) == ["proved", "proved"]
    assert kernels[0].definiteness == "proved", "it is remembered: a second call would wait for a thread that is gone"
