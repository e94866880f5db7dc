"""Ctrl-C while the compiled loop runs: a process of its own gets the signal and answers soon, with the best point."""

from __future__ import annotations

import signal
import subprocess
import sys
import time

import pytest

from mklref.native import AVAILABLE

_SCRIPT = """
import signal
import numpy as np, mklref
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background process starts out deaf to it
rng = np.random.default_rng(0)
X = rng.normal(size=(1500, 3))
kernels = np.stack([X[:, :2] @ X[:, :2].T, X @ X.T, np.outer(X[:, 2], X[:, 2])])
problem = mklref.Problem(kernels, np.sign(rng.normal(size=1500)), C=1e7, regularizer=mklref.Lp(1.5))
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
@pytest.mark.parametrize("after", [0.3, 1.5])
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
