"""Files that the tests of the commands read, and no terminal around them."""

from __future__ import annotations

import numpy as np
import pytest
from makers import make_problem


@pytest.fixture(autouse=True)
def _no_terminal(monkeypatch):
    for name in ("COLUMNS", "FORCE_COLOR", "TTY_COMPATIBLE"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def table(tmp_path, rng):
    """A CSV file of two classes, 40 samples and 3 variables."""
    X = rng.normal(size=(40, 3))
    lines = [f"{a},{b},{c},{'ill' if a + b * c > 0 else 'healthy'}" for a, b, c in X]
    path = tmp_path / "patients.csv"
    path.write_text("\n".join(["age,dose,weight,outcome", *lines]) + "\n")
    return str(path)


@pytest.fixture
def npz(tmp_path):
    """An NPZ file with the kernels and labels of a problem, and that problem."""
    problem = make_problem(n=20, M=3, C=100.0)
    path = tmp_path / "kernels.npz"
    np.savez(path, kernels=problem.kernels.dense(), y=problem.y)
    return str(path), problem
