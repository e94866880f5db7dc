"""A primer as a person copies it, and what it is tried on: random problems, and sets that come with scikit-learn."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from makers import make_problem
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris

import mklref
from mklref import primer
from mklref._conic.scaling import factorize

VALUE = 1e-6
"""Relative distance of a primer's value from the certified interval."""
SAMPLES = 25
"""Of every set of `data`, of one class before the other one is left out."""


def alone(name: str, change: Callable[[str], str] = lambda source: source) -> Callable[..., Any]:
    """A primer as a person copies it: its source below two imports, perhaps with a change."""
    namespace: dict[str, Any] = {}
    source = change(inspect.getsource(getattr(primer, name)))
    exec(f"import cvxpy as cp\nimport numpy as np\n\n\n{source}", namespace)

    def call(*arguments: Any) -> Any:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            # What Clarabel says of its own accuracy: the value is compared with a certified one.
            warnings.filterwarnings("ignore", message="Solution may be inaccurate")
            return namespace[name](*arguments)

    return call


def real(kind: str, n: int = 40) -> tuple[np.ndarray, np.ndarray]:
    """Samples that come with scikit-learn, standardised, with labels, real targets, classes, or ones."""
    load = {"real": load_diabetes, "classes": load_iris}.get(kind, load_breast_cancer)
    X, y = load(return_X_y=True)
    chosen = np.random.default_rng(5).choice(len(y), n, replace=False)
    X, y = X[chosen], y[chosen]
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    if kind == "ones":
        return X[y == 1], np.ones(np.sum(y == 1))
    return X, {"labels": 2.0 * y - 1, "real": (y - y.mean()) / y.std(), "classes": y}[kind]


def gram(X: np.ndarray) -> np.ndarray:
    """A linear and three Gaussian kernels, (4, n, n)."""
    squares = np.square(X[:, None] - X).sum(axis=-1) / X.shape[1]
    K = np.stack([X @ X.T / X.shape[1], *(np.exp(-squares / (2 * width**2)) for width in (0.3, 1.0, 3.0))])
    return K / np.trace(K, axis1=1, axis2=2)[:, None, None] * len(X)


@cache
def data(source: str, loss: str) -> tuple[list[np.ndarray], np.ndarray]:
    """Factors and targets: a random problem or a real one."""
    if source.startswith("random"):
        problem = make_problem(loss=loss, seed=int(source[-1]), n=SAMPLES)
        return list(factorize(problem.kernels).matrices), problem.y
    X, y = real({"hinge": "labels", "squared": "real", "epsilon_insensitive": "real"}.get(loss, "ones"), SAMPLES)
    return list(factorize(mklref.kernels.ArrayStack(gram(X))).matrices), y
