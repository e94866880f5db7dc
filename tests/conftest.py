from __future__ import annotations

import numpy as np
import pytest

import mklref


def pytest_report_header() -> str:
    """Which package is tested: with importlib's import mode and plain `pytest` it is the installed one."""
    core = "compiled" if mklref.native.AVAILABLE else mklref.native.WHY
    return f"mklref {mklref.__version__} from {mklref.__path__[0]}, native core: {core}"


@pytest.fixture
def rng() -> np.random.Generator:
    """A generator with a fixed seed, fresh for each test."""
    return np.random.default_rng(20080417)
