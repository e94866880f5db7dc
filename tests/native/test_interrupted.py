"""Ctrl-C in a path, in the last certificate, on the way out, twice, and while the compiled loop runs."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from unittest.mock import Mock

import numpy as np
import pytest
from makers import make_problem, pressed

import mklref
from mklref._progress import Progress
from mklref._run import Recorder
from mklref.exceptions import Interrupted
from mklref.kernels import DiskStack
from mklref.native import AVAILABLE, solver
from mklref.native.loop import Loop
from mklref.solution import Status


def test_an_interrupted_path_keeps_its_points():
    def stop(solution):
        if solution.objective > 0.0 and len(seen) == 1:
            raise KeyboardInterrupt
        seen.append(solution)

    seen = []
    with pytest.raises(Interrupted) as caught:
        mklref.solve_path(make_problem(seed=27), C=[1.0, 2.0, 3.0], callback=stop)
    assert [solution.objective for solution in caught.value.path[:1]] == [seen[0].objective]
    assert len(caught.value.path) == 2


def test_ctrl_c_in_the_last_certificate_has_the_solution_too(monkeypatch):
    """Of many samples it takes as long as what was before."""
    certified, given = Loop.solution, make_problem()

    def interrupted(loop, status):
        if status is not Status.INTERRUPTED:
            raise KeyboardInterrupt
        return certified(loop, status)

    monkeypatch.setattr(Loop, "solution", interrupted)
    with pytest.raises(Interrupted) as caught:
        mklref.solve(given)
    assert mklref.certify(given, caught.value.solution).is_optimal(1e-6)


def test_a_second_ctrl_c_takes_the_point_that_needs_no_read(tmp_path, monkeypatch):
    interrupted = Mock(side_effect=KeyboardInterrupt)
    monkeypatch.setattr(Loop, "solution", interrupted)
    given = make_problem()
    np.save(tmp_path / "K.npy", given.kernels.dense())
    given = given.replace(kernels=DiskStack(np.load(tmp_path / "K.npy", mmap_mode="r")))
    with pytest.raises(Interrupted) as caught:
        mklref.solve(given, callback=lambda record: record.iteration and interrupted())
    bounds = mklref.certify(given, caught.value.solution)
    assert bounds.gap == pytest.approx(caught.value.solution.certificate.gap, rel=1e-6)


def test_ctrl_c_on_the_way_out_has_the_solution(monkeypatch):
    depth = []

    @contextmanager
    def one_thread(order=1):
        depth.append(order)
        yield
        depth.pop()
        if not depth:
            raise KeyboardInterrupt

    monkeypatch.setattr(solver, "blas_threads", one_thread)
    with pytest.raises(Interrupted) as caught:
        mklref.solve(make_problem())
    assert caught.value.solution.status is Status.OPTIMAL


@pytest.mark.parametrize("end", [Progress.close, Recorder.running], ids=["line", "certificate"])
def test_ctrl_c_between_the_loop_and_its_certificate_has_a_point(calls_of, end):
    """At the end of the one, within its progress line, and at the very beginning of the other."""
    home, times = (Progress, 1) if end is Progress.close else (Recorder, 2)
    calls_of(home, end.__name__, pressed(times))
    given = make_problem()
    with pytest.raises(Interrupted) as caught:
        mklref.solve(given)
    assert mklref.certify(given, caught.value.solution).is_optimal(1e-3)


_SCRIPT = """
import signal
import numpy as np, mklref
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background process starts out deaf to it
rng = np.random.default_rng(0)
X = rng.normal(size=(600, 3))
kernels = np.stack([X[:, :2] @ X[:, :2].T, X @ X.T, np.outer(X[:, 2], X[:, 2])])
problem = mklref.Problem(kernels, np.sign(rng.normal(size=600)), C=1e7, regularizer=mklref.Lp(1.5))
assert mklref.solve(problem.replace(C=1e-4)).status.name == "OPTIMAL"  # whatever is imported late is imported now
try:
    print("go", flush=True)
    mklref.solve(problem, tol=1e-12, max_iter=100000, max_time=60.0)
    print("ended by itself")
except mklref.Interrupted as stop:
    assert isinstance(stop, KeyboardInterrupt)
    best = stop.solution
    print("interrupted", best is None or best.status.name)
print("usable", mklref.solve(problem.replace(C=1e-4)).status.name)
"""


@pytest.mark.skipif(not AVAILABLE, reason="the compiled loops are missing")
@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
@pytest.mark.sampled(2)
@pytest.mark.parametrize("after", [0.1, 0.7])
def test_ctrl_c_stops_the_compiled_loop(after):
    with subprocess.Popen([sys.executable, "-c", _SCRIPT], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "go\n"
        time.sleep(after)
        process.send_signal(signal.SIGINT)
        sent = time.perf_counter()
        answer = process.stdout.readline().split()
        waited = time.perf_counter() - sent
        rest = process.stdout.read()
    assert process.returncode == 0
    assert answer[0] == "interrupted", answer
    assert answer[1] in ("True", "INTERRUPTED", "OPTIMAL")
    assert rest == "usable OPTIMAL\n"
    assert waited < 5.0  # the loop polls twenty times a second; the rest is a certificate on a busy machine
