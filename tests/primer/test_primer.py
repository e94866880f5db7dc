"""The primers against the general side, by the value of the program and by the certificate of its point."""

from __future__ import annotations

import inspect
import re
import textwrap
import warnings
from collections.abc import Callable
from functools import cache
from typing import Any

import cvxpy as cp
import numpy as np
import pytest
from makers import make_problem
from primer.rows import C, PAIRS, ROWS, Point, Row
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris

import mklref
from mklref import primer, reference
from mklref.formulations import factorize
from mklref.regularizers import BlockNorm, Fixed, Groups, Lp, PowerRoot, RootPlusLinear

VALUE = 1e-6
"""Relative distance of a primer's value from the certified interval."""

POINT = 1e-4
"""The same for the bounds from its variables, which a solver finds to fewer digits."""


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
        problem = make_problem(loss=loss, seed=int(source[-1]), n=25)
        return list(factorize(problem.kernels).matrices), problem.y
    X, y = real({"hinge": "labels", "squared": "real", "epsilon_insensitive": "real"}.get(loss, "ones"))
    return list(factorize(mklref.ArrayStack(gram(X))).matrices), y


def check_value(row: Row, value: float, L: list[np.ndarray], y: np.ndarray) -> None:
    """The value of the primer lies in the certified interval of the native solver, which is narrow."""
    bounds = mklref.solve(row.problem(L, y), tol=1e-9).certificate
    assert bounds.relative_gap < VALUE / 10
    assert row.value(value) == pytest.approx(bounds.upper, rel=VALUE)


@pytest.mark.parametrize("source", ["random1", "random2", "real"])
@pytest.mark.parametrize("row", ROWS, ids=str)
def test_a_primer_has_the_value_of_its_problem(row, source):
    L, y = data(source, row.loss)
    value, *variables = row.call(alone(row.primer), L, y)
    check_value(row, value, L, y)
    check_point(row, row.point(y, *variables), row.problem(L, y), row.value(value))


def check_point(row: Row, point: Point, problem: mklref.Problem, value: float) -> None:
    """The certificate of what the primer found: its dual point bounds the value from below, its weights from above."""
    theta = None if point.theta is None else np.maximum(point.theta, 0.0)
    b = None if point.b is None else float(point.b)
    beta = point.beta
    if beta is None:  # that of the machine with these weights
        beta = mklref.solve(problem.replace(regularizer=Fixed(theta)), tol=1e-9).dual_coef
    bounds = mklref.certify(problem, beta, weights=theta, intercept=b)
    if point.beta is not None:
        assert bounds.lower == pytest.approx(value, rel=POINT)
    if theta is not None:
        assert bounds.upper == pytest.approx(value, rel=POINT)


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_a_primer_has_the_value_of_the_general_formulations_on_real_data(row):
    L, y = data("real", row.loss)
    value = row.value(row.call(alone(row.primer), L, y)[0])
    for name in row.formulations:
        bounds = reference.solve(row.problem(L, y), name).certificate
        assert value == pytest.approx(0.5 * (bounds.lower + bounds.upper), rel=VALUE), name
