"""Small seeded problems for the tests, generic or degenerate in one named way; every loss and every regulariser.

from makers import LOSSES, make_problem
problem = make_problem(loss="squared", degenerate="low_rank", seed=3, C=10.0, regularizer=Lp(2))
"""

from __future__ import annotations

import io
import os
from itertools import chain, repeat
from unittest.mock import Mock

import numpy as np
import pytest

from mklref import Status, solve
from mklref._files import read_arrays, write_arrays
from mklref.kernels import FactorStack, gaussian, laplacian, linear, on, per_variable, polynomial, total
from mklref.losses import (
    DensityLevelSet,
    EpsilonInsensitive,
    Hinge,
    Huber,
    Logistic,
    Loss,
    OneClass,
    Pinball,
    Squared,
    SquaredEpsilonInsensitive,
    SquaredHinge,
    as_loss,
)
from mklref.native import AVAILABLE, WHY
from mklref.problem import Problem
from mklref.regularizers import (
    BlockNorm,
    ConcaveBlock,
    ElasticNet,
    Groups,
    HalfPower,
    Mahalanobis,
    Power,
    PowerRoot,
    RootPlusLinear,
    SmoothedRoot,
    Tikhonov,
    WeightedL1,
    WeightedLp,
)

LOSSES: tuple[Loss, ...] = (
    Hinge(),
    SquaredHinge(),
    Logistic(),
    Squared(),
    EpsilonInsensitive(0.15),
    SquaredEpsilonInsensitive(0.15),
    Huber(0.7),
    Pinball(0.3),
    OneClass(),
    DensityLevelSet(),
)
"""All ten losses, with parameters that are not their defaults."""

KERNELS = (
    gaussian([0.5, 1.0, 4.0])
    + linear()
    + polynomial([2, 3])
    + laplacian(2.0)
    + per_variable(gaussian(0.7))
    + on("two", ["x1", "x0"], gaussian(1.5) * polynomial(2))
    + total(gaussian([1.0, 2.0]) + 0.3 * linear())
)
"""Kernels of every kind, among them exponentials of several shared quantities that do not follow one another."""
NORMALIZATIONS = ({}, *({"normalize": name} for name in ("trace", "multiplicative", "spherical")), {"center": True})

M = 4
"""Kernels of the regularisers below."""
SCALE = np.array([0.4, 1.3, 0.9, 2.0])
ALIGNED = np.array([[1.0, 0.3, 0.1, 0.5], [0.3, 1.2, 0.2, 0.4], [0.1, 0.2, 0.7, 0.3], [0.5, 0.4, 0.3, 1.5]])
OPPOSED = np.array([[1.0, 0.2, -0.8, 0.1], [0.2, 1.0, -0.3, -0.4], [-0.8, -0.3, 1.0, 0.2], [0.1, -0.4, 0.2, 1.0]])
PAIRS = ((0, 2), (1, 3))
UNEVEN = ((2,), (3, 0, 1))
ONE = ((0, 1, 2, 3),)
SINGLETONS = ((3,), (1,), (0,), (2,))

FAMILIES = (
    *(Power(p) for p in (1, 1.2, 2, 5, np.inf)),
    *(HalfPower(q) for q in (1, 1.3, 1.8, 2)),
    *(Tikhonov(p, mu) for p, mu in ((1, 0.3), (4 / 3, 2.0), (2, 0.05), (np.inf, 0.7))),
    *(ElasticNet(lam, form) for lam in (0.15, 0.6, 0.95) for form in ("tikhonov", "ivanov")),
    *(BlockNorm(q) for q in (1, 1.4, 2, 2.5, 4, 12)),
    *(WeightedLp(p, SCALE) for p in (1, 1.7, 3, np.inf)),
    WeightedL1(SCALE),
    *(Groups(PAIRS, p, q) for p, q in ((0, 1), (1, 0), (0.5, 0.5), (0.3, 0.3), (0, 0.6), (0.6, 0), (0, 0))),
    *(Groups(UNEVEN, p, q) for p, q in ((0.5, 0.5), (0.2, 0.8), (0.3, 0.5))),
    Groups(ONE, 0.3, 0.4),
    Groups(SINGLETONS, 0.3, 0.4),
    Mahalanobis(ALIGNED),
    Mahalanobis(OPPOSED),
    *(ConcaveBlock(PowerRoot(p)) for p in (1, 1.5, 4, np.inf)),
    ConcaveBlock(RootPlusLinear(0.35)),
    ConcaveBlock(SmoothedRoot(0.4)),
)
"""One instance of every regulariser but `Lp` and `Fixed` for each case of its parameters."""

REQUIRED = os.environ.get("MKLREF_REQUIRE_NATIVE", "false") not in ("", "0", "false")
needs_the_loops = pytest.mark.skipif(not AVAILABLE and not REQUIRED, reason=WHY)

DEGENERATE = ("generic", "low_rank", "duplicated_kernel", "duplicated_samples", "zero_kernel", "constant_kernel")
"""How the kernels of `make_kernels` may be degenerate."""


def make_samples(rng: np.random.Generator, n: int = 25, d: int = 3) -> np.ndarray:
    """Samples (n, d) that are neither centred nor of one scale."""
    return rng.normal(size=(n, d)) * rng.uniform(0.5, 1.5, size=d) + rng.normal(size=d) * 0.3


def make_kernels(rng: np.random.Generator, X: np.ndarray, M: int = 4, degenerate: str = "generic") -> np.ndarray:
    """Gram matrices (M, n, n) of Gaussians of random widths on random variables, mean diagonal in [0.5, 2]."""
    n, d = X.shape
    if degenerate == "duplicated_samples":
        X = X.copy()
        X[1::2] = X[0 : 2 * (n // 2) : 2]
    K = np.empty((M, n, n))
    for out in K:
        view = X[:, rng.permutation(d)[: rng.integers(1, d + 1)]]
        if degenerate == "low_rank":
            features = view @ rng.normal(size=(view.shape[1], 2))
            gram = features @ features.T
        else:
            gram = np.exp(-((view[:, None, :] - view) ** 2).sum(axis=2) / (2 * rng.uniform(0.4, 2.5) ** 2))
        gram *= rng.uniform(0.5, 2.0) * n / np.trace(gram)
        out[:] = 0.5 * (gram + gram.T)
    if degenerate == "duplicated_kernel":
        K[-1] = K[0]
    elif degenerate == "zero_kernel":
        K[1] = 0.0
    elif degenerate == "constant_kernel":
        K[1] = 0.8
    elif degenerate not in DEGENERATE:
        raise ValueError(degenerate)
    return K


def make_targets(rng: np.random.Generator, X: np.ndarray, loss: Loss) -> np.ndarray:
    """Labels that a line separates with noise, a noisy curve, or ones: what the loss takes."""
    noise = rng.normal(size=len(X))
    if loss.targets == "labels":
        y = np.where(X[:, 0] - X[:, -1] ** 2 / 2 + 0.6 * noise > np.median(X[:, 0]) - 0.4, 1.0, -1.0)
        y[:2] = 1.0, -1.0  # both classes, whatever the seed
        return y
    if loss.targets == "real":
        return np.sin(2 * X[:, 0]) + 0.5 * X[:, -1] + 0.3 * noise + 0.7
    return np.ones(len(X))


def random_targets(rng: np.random.Generator, n: int, loss: Loss) -> np.ndarray:
    """Targets of the loss that have nothing to do with any data."""
    if loss.targets == "labels":
        return rng.choice([-1.0, 1.0], size=n)
    return rng.normal(size=n) if loss.targets == "real" else np.ones(n)


def make_problem(
    *, loss: str | Loss = "hinge", seed: int = 0, n: int = 25, M: int = 4, degenerate: str = "generic", **arguments
) -> Problem:
    """A problem with n samples and M kernels; further arguments go to `Problem`.

    By default C = 1, or 1/(nu n) with nu = 0.3 for the nu one-class machine, and an intercept where the loss allows it.
    """
    rng = np.random.default_rng(seed)
    kind = as_loss(loss)
    X = make_samples(rng, n)
    arguments.setdefault("C", 1.0 / (0.3 * n) if kind.intercept_cost else 1.0)
    arguments.setdefault("intercept", kind.intercept != "forbidden")
    return Problem(make_kernels(rng, X, M, degenerate), make_targets(rng, X, kind), loss=kind, **arguments)


class Frame:
    """What a pandas data frame is to NumPy, without pandas."""

    def __init__(self, values: np.ndarray, columns: tuple[str, ...] = ()) -> None:
        self._values = values
        self.columns = columns or tuple(f"c{j}" for j in range(values.shape[1]))

    def __array__(self, dtype: object = None, copy: bool | None = None) -> np.ndarray:
        return np.array(self._values, dtype=dtype, copy=copy)


def stacked_kernels(X: np.ndarray, X_new: np.ndarray | None = None) -> np.ndarray:
    """A linear and two Gaussian kernels, (k, n, 3), stacked along the last axis."""
    Z = X if X_new is None else X_new
    squares = np.square(Z[:, None] - X).sum(axis=-1)
    return np.stack([Z @ X.T, np.exp(-squares / (2 * 0.5**2)), np.exp(-squares / (2 * 2.0**2))], axis=-1)


ODD = 37
"""Neither a multiple of a vector register nor of a cache block."""


def gram_matrices(rng, n=ODD, M=5, dtype=np.float64, rank=None, duplicate=False):
    """M positive semidefinite matrices of different scales, the second one zero."""
    features = rng.normal(size=(M, n, rank or n)) * 10.0 ** rng.uniform(-0.5, 0.5, size=(M, 1, 1)) / np.sqrt(n)
    features[1] = 0.0
    if duplicate:
        features[:, 1::2] = features[:, 0 : n - 1 : 2]
    return [np.ascontiguousarray((f @ f.T + f @ f.T).astype(dtype)) for f in features]


ROWS = 48


def make_factors(seed=0, n=ROWS, ranks=(3, 5, 2, 4)):
    """Factors L_m (n, r_m) of kernels L_m L_m', and scores (n,) of which two of their columns say most."""
    rng = np.random.default_rng(seed)
    L = [rng.normal(size=(n, r)) / np.sqrt(r) for r in ranks]
    return L, L[0][:, 0] - 2.0 * L[1][:, 1] + 0.4 * rng.normal(size=n)


def make_factored_problem(loss, regularizer, seed=0, n=ROWS, ranks=(3, 5, 2, 4), **options):
    """A problem on such factors."""
    L, score = make_factors(seed, n, ranks)
    y = np.sign(score) if loss.targets == "labels" else score
    if loss.targets == "ones":  # with 0 in the hull of the samples the optimum would be 0
        L, y = [np.abs(one) + 0.1 for one in L], np.ones(len(score))
    return Problem(FactorStack(L), y, loss=loss, regularizer=regularizer, **{"C": 0.7, **options})


def rewrite(path, arrays=None, facts=None, to=None):
    """A file of ours, with some arrays and facts changed, or left out where the change is None, in its place or to."""
    changed = [old | (new or {}) for old, new in zip(read_arrays(path), (arrays, facts), strict=True)]
    write_arrays(to or path, *({name: value for name, value in part.items() if value is not None} for part in changed))


def array_bytes(array) -> bytes:
    """An array as a file .npy."""
    file = io.BytesIO()
    np.lib.format.write_array(file, np.asarray(array))
    return file.getvalue()


def agree(one, other):
    """The certified intervals of two solutions, or two intervals, meet."""
    a, b = (getattr(given, "certificate", given) for given in (one, other))
    assert a.lower <= b.upper
    assert b.lower <= a.upper


def optimal(given, **options):
    """The solution of a problem, whose certificate has to be good enough."""
    found = solve(given, **options)
    assert found.status is Status.OPTIMAL, found.certificate
    return found


def pressed(times):
    """A callback, or a note of `calls_of`, during which Ctrl-C is pressed the given time."""
    return Mock(side_effect=chain(repeat(None, times - 1), [KeyboardInterrupt], repeat(None)))


def legend(ax):
    """What the legend of a picture says."""
    return [text.get_text() for text in ax.get_legend().get_texts()]


def contrast(one: str, other: str) -> float:
    """The ratio of the luminances of two colours #rrggbb, after WCAG 2.1."""

    def luminance(colour: str) -> float:
        rgb = np.array([int(colour[k : k + 2], 16) for k in (1, 3, 5)]) / 255
        linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
        return float(linear @ [0.2126, 0.7152, 0.0722]) + 0.05

    light, dark = sorted([luminance(one), luminance(other)], reverse=True)
    return light / dark
