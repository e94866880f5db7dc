"""Singular matrices, ties, optima that are not unique; extreme C, exponents, scales and precisions."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from mklref._typing import Array
from mklref.losses import EpsilonInsensitive
from mklref.problem import Problem
from mklref.regularizers import ElasticNet, Power
from mklref.testing.case import case
from mklref.testing.cases.data import gaussian, kernels, plain, problem, samples, targets

Drawn = Callable[[np.random.Generator], Array]


def scaled(*factors: float) -> Drawn:
    """Four Gaussians times these factors, or all times this one."""
    return lambda rng: kernels(rng, samples(rng)) * np.reshape(factors, (-1, 1, 1))


def with_constant(m: int, value: float) -> Drawn:
    """Four Gaussians, one of them replaced by a constant."""
    return lambda rng: np.where((np.arange(4) == m)[:, None, None], value, kernels(rng, samples(rng)))


def first_twice(rng: np.random.Generator) -> Array:
    """Three Gaussians, and the first one again."""
    return kernels(rng, samples(rng), 3)[[0, 1, 2, 0]]


DIAGONAL = np.stack([c * np.eye(12) for c in (1.0, 1.0, 0.5)])
ALONE = np.where(np.arange(24) == 7, 1.0, -1.0)


@case((0, 1), "degenerate", "rank-one", "ties", "sparse", "non-unique-weights")
def rank_one_ties(rng: np.random.Generator) -> Problem:
    """Four times the same kernel u u'."""
    u = rng.normal(size=9)
    return Problem(np.stack([np.outer(u, u)] * 4), np.where(u > 0.1, 1.0, -1.0), C=0.7)


plain(
    "per-variable-rank-one",
    "One kernel x x' for each of eight variables, and thousands of vertices.",
    "degenerate rank-one",
    K=lambda rng: np.stack([np.outer(x, x) for x in samples(rng, d=8).T]),
    C=0.5,
)
plain(
    "low-rank-squared",
    "Kernels of rank 2 in regression with p = 3/2.",
    "degenerate low-rank",
    K=lambda rng: (lambda F: F @ F.transpose(0, 2, 1))(rng.normal(size=(4, 24, 2))),
    loss="squared",
    p=1.5,
)

TWICE = "degenerate duplicated-kernel ties"
plain(
    "duplicated-kernel-l1",
    "A kernel twice: any split of its weight is optimal.",
    f"{TWICE} non-unique-weights",
    K=first_twice,
)
plain("duplicated-kernel-l2", "A kernel twice with p = 2: both have the same weight.", TWICE, K=first_twice, p=2)

ZERO = "degenerate zero-kernel"
plain("zero-kernel-l1", "A kernel that is 0.", f"{ZERO} non-unique-weights", K=with_constant(1, 0.0))
plain(
    "zero-kernel-p-4-over-3",
    "A kernel that is 0, with p = 4/3.",
    ZERO,
    K=with_constant(1, 0.0),
    loss="squared_hinge",
    p=4 / 3,
)
plain(
    "nothing-but-zero-kernels",
    "Only the intercept is left, and P* is the smaller class twice.",
    f"{ZERO} non-unique-weights",
    K=np.zeros((3, 24, 24)),
)

CONSTANT = "degenerate constant-kernel"
plain(
    "constant-kernel-l1", "A constant kernel beside an intercept: it is of no use.", CONSTANT, K=with_constant(2, 0.8)
)
plain(
    "constant-kernel-no-intercept",
    "A constant kernel in place of an intercept.",
    CONSTANT,
    K=with_constant(2, 0.8),
    p=2,
    intercept=False,
)


@case((0, 1), "degenerate", "duplicated-samples", "low-rank", "sparse")
def duplicated_samples(rng: np.random.Generator) -> Problem:
    """Every sample twice, with the same label."""
    X = samples(rng, 12)
    twice = np.repeat(np.arange(12), 2)
    K = kernels(rng, X)[:, twice][:, :, twice]
    y = targets(rng, X, problem(rng).loss)[twice]  # the problem draws as well, before the labels
    return problem(rng, K=K, y=y)


@case((0, 1), "degenerate", "duplicated-samples", "low-rank", "sparse")
def contradicting_samples(rng: np.random.Generator) -> Problem:
    """Every sample twice, with both labels: f = 0 is optimal, and every beta_i can be at its bound."""
    twice = np.repeat(np.arange(10), 2)
    K = kernels(rng, samples(rng, 10))[:, twice][:, :, twice]
    return problem(rng, K=K, n=20, y=np.tile([1.0, -1.0], 10), C=0.7)


plain("one-positive-sample", "One sample of +1 among 24.", "degenerate unbalanced", y=ALONE)
plain(
    "one-positive-sample-logistic",
    "The same with the logistic loss and p = 2.",
    "degenerate unbalanced",
    y=ALONE,
    loss="logistic",
    p=2,
)
plain("two-samples", "One sample of each class.", "n-2 degenerate", n=2, y=np.array([1.0, -1.0]))
plain("two-samples-squared", "Two samples and an intercept in regression.", "n-2 degenerate", n=2, loss="squared", p=2)
plain("one-kernel", "M = 1: scikit-learn's SVC.", M=1)
plain("one-kernel-svr", "M = 1: scikit-learn's SVR.", M=1, loss=EpsilonInsensitive(0.2), p=2)
plain("more-kernels-than-samples", "40 kernels on 14 samples.", "many-kernels degenerate", n=14, M=40)
plain("more-kernels-than-samples-l2", "40 kernels on 14 samples with p = 2.", "many-kernels", n=14, M=40, p=2)
plain(
    "identity-kernels",
    "Diagonal kernels: no two samples have anything in common.",
    "degenerate ties non-unique-weights",
    n=12,
    K=DIAGONAL,
)

AT_ZERO = "degenerate zero-optimum"
plain(
    "constant-target",
    "All targets equal: the intercept alone is exact, and P* = 0.",
    f"{AT_ZERO} non-unique-weights",
    loss="squared",
    y=np.full(24, 1.7),
)
plain(
    "wide-tube",
    "All targets within epsilon of a constant: P* = 0 for many intercepts.",
    AT_ZERO,
    loss=EpsilonInsensitive(5.0),
    p=2,
)
plain(
    "no-kernel-pays",
    "C so small that g_m <= 0.6 for every kernel: all weights are 0, and the intercept does what it can.",
    "degenerate zero-weights",
    C=0.02,
    loss="squared_hinge",
    regularizer=ElasticNet(0.4, "tikhonov"),
)


@case((0, 1), "degenerate", "other-regularizer", "one-kernel")
def one_kernel_barely_pays(rng: np.random.Generator) -> Problem:
    """At f = 0 the only kernel has g = 1.01, a little over the threshold of 1."""
    K = [[1.0, 0.5, 0.8], [0.5, 1.0, 0.7], [0.8, 0.7, 1.0]]
    base = Problem([K], [1.0, -1.0, -1.0], loss="squared_hinge", regularizer=Power(1))
    at_zero = np.array([2.0, -1.0, -1.0]) * 2.0 / 3.0  # the dual point of the best intercept, -1/3
    g = float(base.kernels.norms(at_zero)[0])
    return base.replace(kernels=[np.array(K) * (1.01 / g) ** 2])


plain(
    "nearly-singular",
    "Very wide Gaussians, all close to a constant, of rank 5 in double precision.",
    "degenerate low-rank",
    K=lambda rng: np.stack([gaussian(X, width) for X in [samples(rng)] for width in (30.0, 60.0, 100.0)]),
    C=50.0,
)
plain("small-C", "C = 1e-6: the smaller class is at its bound, and P* is tiny.", "C-small degenerate", C=1e-6)
plain("small-C-logistic", "C = 1e-4 with the logistic loss.", "C-small", C=1e-4, loss="logistic", p=2)
plain("large-C", "C = 1e5 on classes that can be separated: no sample is at its bound.", "C-large separable", C=1e5)
plain("large-C-squared", "C = 1e4 in least squares: nearly interpolation.", "C-large", C=1e4, loss="squared", p=2)
plain("large-C-squared-hinge", "C = 1e4 with the squared hinge loss.", "C-large", C=1e4, loss="squared_hinge", p=4 / 3)
plain("p-just-above-1", "p = 1.01: q_m to the power 100.", "p-near-1", p=1.01)
plain(
    "p-next-to-1",
    "p = 1 + 1e-6: sparse for all that double precision can see.",
    "p-near-1",
    loss="squared",
    p=1.0 + 1e-6,
)
plain("p-huge", "p = 1e6.", "p-huge", p=1e6)
plain("huge-kernels", "Kernels times 2^30, C over 2^30.", "huge-scale", K=scaled(2.0**30), C=2.0 * 2.0**-30)
plain("tiny-kernels", "Kernels over 2^30, C times 2^30.", "tiny-scale", K=scaled(2.0**-30), C=2.0 * 2.0**30, p=2)
plain(
    "negligible-kernels",
    "Kernels times 1e-12 at C = 1: f is 0 for all purposes, and every sample is at its bound.",
    "tiny-scale degenerate",
    K=scaled(1e-12),
    C=1.0,
)
MIXED = scaled(1e-4, 1.0, 10.0, 1e4)
plain("mixed-scales-l1", "Kernels of scale 1e-4, 1, 10 and 1e4.", "mixed-scales", K=MIXED, C=1.0)
plain("mixed-scales-l2", "The same in least squares with p = 2.", "mixed-scales", K=MIXED, C=1.0, loss="squared", p=2)
plain(
    "single-precision",
    "Kernels in float32: what is certified are exactly these numbers.",
    "float32",
    K=lambda rng: (kernels(rng, samples(rng)) + 0.01 * np.eye(24)).astype(np.float32),  # still positive definite
)
