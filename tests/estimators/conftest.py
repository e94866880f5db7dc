"""What the tests of the estimators learn from."""

from __future__ import annotations

import numpy as np
import pytest


@pytest.fixture(scope="module")
def samples():
    rng = np.random.default_rng(11)
    X = rng.normal(size=(66, 4)) * [1.0, 0.5, 2.0, 1.0] + 0.3
    t = np.sin(X[:, 0]) + 0.4 * X[:, 2] + 0.8 * rng.normal(size=66)
    return X, np.where(t > 0.3, "yes", "no"), t


@pytest.fixture(scope="module")
def three_classes():
    rng = np.random.default_rng(7)
    X = rng.normal(size=(36, 3)) + np.array([0.0, 1.0, 0.0])
    y = np.digitize(X[:, 0] + 0.3 * X[:, 1] ** 2 + 0.2 * rng.normal(size=36), [0.0, 0.8])
    return X, np.array(["low", "mid", "top"])[y], rng.normal(size=(9, 3)) + np.array([0.0, 1.0, 0.0])
