from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import numpy as np
import pytest

import mklref

sys.path.append(str(Path(__file__).parents[1]))  # `validation` is no part of the package; behind what is installed


def pytest_report_header() -> str:
    """Which package is tested: with importlib's import mode and plain `pytest` it is the installed one."""
    core = "compiled" if mklref.native.AVAILABLE else mklref.native.WHY
    return f"mklref {mklref.__version__} from {mklref.__path__[0]}, native core: {core}"


@pytest.fixture
def rng() -> np.random.Generator:
    """A generator with a fixed seed, fresh for each test."""
    return np.random.default_rng(20080417)


@pytest.fixture
def interrupt(monkeypatch):
    """interrupt(home, name, k): the k-th call of a function sends SIGINT to this process, as Ctrl-C does."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)

    def at(home, name, k):
        honest, calls = getattr(home, name), []

        def observed(*arguments, **options):
            calls.append(1)
            if len(calls) == k:
                os.kill(os.getpid(), signal.SIGINT)
            return honest(*arguments, **options)

        monkeypatch.setattr(home, name, observed)

    yield at
    signal.signal(signal.SIGINT, before)
