"""Pictures: what is drawn are the numbers that were given, on the Axes that were given."""

from __future__ import annotations

import os
from importlib.util import find_spec

import numpy as np
import pytest

import mklref
from mklref.datasets import load
from mklref.kernels import gaussian, linear, per_variable

os.environ["MPLBACKEND"] = "Agg"
collect_ignore_glob = [] if find_spec("matplotlib") else ["test_*.py"]


@pytest.fixture(autouse=True)
def _closed():
    import matplotlib.pyplot as plt

    plt.close("all")  # what another test, as of the docs, has left in this process
    yield
    plt.close("all")


@pytest.fixture(scope="module")
def problem():
    data = load("iris").standardized()
    kernels = (gaussian([0.5, 1.0, 4.0]) + per_variable(linear())).fit(data, normalize="multiplicative")
    return mklref.Problem(kernels, np.where(data.y == "versicolor", 1.0, -1.0), C=1.0)


@pytest.fixture(scope="module")
def solution(problem):
    return mklref.solve(problem, tol=1e-7)
