"""Small data for the cases: samples, Gaussian kernels of different widths, targets."""

from __future__ import annotations

from typing import Any

import numpy as np

from mklref._typing import Array
from mklref.losses import Loss, as_loss
from mklref.problem import Problem
from mklref.regularizers import Lp, Regularizer
from mklref.testing.case import enter


def samples(rng: np.random.Generator, n: int = 24, d: int = 3) -> Array:
    """Samples (n, d), not centred and not of one scale."""
    spread: Array = rng.normal(size=(n, d)) * rng.uniform(0.5, 1.5, size=d) + 0.3 * rng.normal(size=d)
    return spread


def gaussian(X: Array, width: float) -> Array:
    """exp(-||x - x'||^2 / (2 width^2)), symmetric to the last bit."""
    squares = np.sum((X[:, None, :] - X[None, :, :]) ** 2, axis=2)
    return np.asarray(np.exp(-squares / (2.0 * width * width)))


def kernels(rng: np.random.Generator, X: Array, M: int = 4) -> Array:
    """Gaussians of random widths on one or more variables, of different traces, (M, n, n)."""
    d = X.shape[1]
    parts = [rng.permutation(d)[: rng.integers(1, d + 1)] for _ in range(M)]
    return np.stack([rng.uniform(0.5, 2.0) * gaussian(X[:, part], rng.uniform(0.4, 2.5)) for part in parts])


def targets(rng: np.random.Generator, X: Array, loss: Loss) -> Array:
    """Noisy labels of both classes, a noisy curve, or ones."""
    noise = rng.normal(size=len(X))
    if loss.targets == "labels":
        score = X[:, 0] - 0.5 * X[:, -1] ** 2 + 0.6 * noise
        y = np.where(score > np.median(score) - 0.2, 1.0, -1.0)
        y[:2] = 1.0, -1.0
        return y
    if loss.targets == "real":
        return np.asarray(np.sin(2.0 * X[:, 0]) + 0.5 * X[:, -1] + 0.3 * noise + 0.7)
    return np.ones(len(X))


def problem(
    rng: np.random.Generator, *, loss: str | Loss = "hinge", n: int = 24, M: int = 4, K: Any = None, **arguments: Any
) -> Problem:
    """A problem on such data; further arguments go to `Problem`. What is a function is drawn first, by the generator.

    By default C = 2, or 1/(nu n) with nu = 0.3 for the nu one-class machine, and an intercept where that may be.
    """
    kind = as_loss(loss)
    K = K(rng) if callable(K) else K
    arguments = {name: given(rng) if callable(given) else given for name, given in arguments.items()}
    X = samples(rng, n)
    K = kernels(rng, X, M) if K is None else K
    arguments.setdefault("C", 1.0 / (0.3 * n) if kind.intercept_cost else 2.0)
    arguments.setdefault("intercept", kind.intercept != "forbidden")
    return Problem(K, arguments.pop("y", targets(rng, X, kind)), loss=kind, **arguments)


def plain(name: str, statement: str, flags: str = "", *, p: float = 1.0, **arguments: Any) -> None:
    """Enter a case that is `problem` with these arguments and, if they have no regulariser, Lp(p)."""
    given = {"regularizer": Lp(p), **arguments}
    enter(name, (0, 1), {*flags.split(), *told(**given)}, statement, lambda rng: problem(rng, **given))


def told(*, regularizer: Regularizer, loss: str | Loss = "hinge", intercept: bool = True, **others: Any) -> set[str]:
    """The flags that the arguments of a problem say themselves."""
    kind = as_loss(loss)
    holds = {
        "sparse": isinstance(regularizer, Lp) and regularizer.p == 1.0,
        "smooth": isinstance(regularizer, Lp) and regularizer.p > 1.0,
        "other-regularizer": not isinstance(regularizer, Lp),
        "regression": kind.targets == "real",
        "one-class": kind.targets == "ones",
        "no-intercept": not intercept,
        "sample-weight": "sample_weight" in others,
        "one-kernel": others.get("M") == 1,
    }
    return {flag for flag, true in holds.items() if true}
