"""A run of pytest that its solver ends is not one that passed.

Whoever looks at the exit code of a run sees that of the process that was started. A solver that ends this process from
C or Fortran, as STOP does, or by an `os._exit` of its own, chooses that code. So the tests run in a child, which says
when they are over, and the process that was started does nothing but wait for it.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import warnings
from pathlib import Path
from typing import NoReturn

import pytest


def watch(config: pytest.Config) -> None:
    """Go on in a child, where pytest is the program, runs its tests by itself, and the system can fork."""
    started_here = Path(sys.argv[0]).name in ("pytest", "py.test", "__main__.py")
    alone = tuple(sys.argv[1:]) == tuple(config.invocation_params.args) and threading.active_count() == 1
    serial = not config.getoption("numprocesses", None) and not hasattr(config, "workerinput")
    if not (hasattr(os, "fork") and started_here and alone and serial):
        return
    over, say_over = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of threads in libraries, none of which holds a lock here
        child = os.fork()
    if child:
        _wait(child, over, config)
    os.close(over)
    config.add_cleanup(lambda: _say(say_over))


def _say(pipe: int) -> None:
    os.write(pipe, b"over")
    os.close(pipe)


def _wait(child: int, over: int, config: pytest.Config) -> NoReturn:
    """End as the child ends, but for a success before the tests were over."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the child gets it, too
    signal.signal(signal.SIGTERM, lambda number, frame: os.kill(child, number))
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    os.set_blocking(over, False)
    try:
        said = os.read(over, 4)
    except BlockingIOError:  # a process that the solver has left behind holds the other end
        said = b""
    if not said and code == 0:
        capture = config.pluginmanager.getplugin("capturemanager")
        if capture is not None:
            capture.suspend_global_capture(in_=True)
        sys.stderr.write("mklref: the solver ended the process with exit code 0 before the tests were over.\n")
        sys.stderr.flush()
        code = int(pytest.ExitCode.INTERNAL_ERROR)
    os._exit(code if code >= 0 else 128 - code)
