"""Singular matrices, ties, optima that are not unique; extreme C, exponents, scales and precisions."""

from __future__ import annotations

import numpy as np

from mklref.losses import EpsilonInsensitive
from mklref.problem import Problem
from mklref.regularizers import ElasticNet, Lp, Power
from mklref.testing.case import case
from mklref.testing.cases.data import gaussian, kernels, problem, samples, targets


@case((0, 1), "degenerate", "rank-one", "ties", "sparse", "non-unique-weights")
def rank_one_ties(rng: np.random.Generator) -> Problem:
    """Four times the same kernel u u'."""
    u = rng.normal(size=9)
    return Problem(np.stack([np.outer(u, u)] * 4), np.where(u > 0.1, 1.0, -1.0), C=0.7, regularizer="l1")


@case((0, 1), "degenerate", "rank-one", "sparse")
def per_variable_rank_one(rng: np.random.Generator) -> Problem:
    """One kernel x x' for each of eight variables, and thousands of vertices."""
    X = samples(rng, d=8)
    K = np.stack([np.outer(x, x) for x in X.T])
    return problem(rng, K=K, regularizer="l1", C=0.5)


@case((0, 1), "degenerate", "low-rank", "smooth", "regression")
def low_rank_squared(rng: np.random.Generator) -> Problem:
    """Kernels of rank 2 in regression with p = 3/2."""
    factors = rng.normal(size=(4, 24, 2))
    return problem(rng, K=factors @ factors.transpose(0, 2, 1), loss="squared", regularizer=Lp(1.5))


@case((0, 1), "degenerate", "duplicated-kernel", "ties", "sparse", "non-unique-weights")
def duplicated_kernel_l1(rng: np.random.Generator) -> Problem:
    """A kernel twice: any split of its weight is optimal."""
    K = kernels(rng, samples(rng), 3)
    return problem(rng, K=K[[0, 1, 2, 0]], regularizer="l1")


@case((0, 1), "degenerate", "duplicated-kernel", "ties", "smooth")
def duplicated_kernel_l2(rng: np.random.Generator) -> Problem:
    """A kernel twice with p = 2: both have the same weight."""
    K = kernels(rng, samples(rng), 3)
    return problem(rng, K=K[[0, 1, 2, 0]], regularizer=Lp(2))


@case((0, 1), "degenerate", "zero-kernel", "sparse", "non-unique-weights")
def zero_kernel_l1(rng: np.random.Generator) -> Problem:
    """A kernel that is 0."""
    K = kernels(rng, samples(rng))
    K[1] = 0.0
    return problem(rng, K=K, regularizer="l1")


@case((0, 1), "degenerate", "zero-kernel", "smooth")
def zero_kernel_p_4_over_3(rng: np.random.Generator) -> Problem:
    """A kernel that is 0, with p = 4/3."""
    K = kernels(rng, samples(rng))
    K[1] = 0.0
    return problem(rng, K=K, regularizer=Lp(4 / 3), loss="squared_hinge")


@case((0, 1), "degenerate", "zero-kernel", "sparse", "non-unique-weights")
def nothing_but_zero_kernels(rng: np.random.Generator) -> Problem:
    """Only the intercept is left, and P* is the smaller class twice."""
    return problem(rng, K=np.zeros((3, 24, 24)), regularizer="l1")


@case((0, 1), "degenerate", "constant-kernel", "sparse")
def constant_kernel_l1(rng: np.random.Generator) -> Problem:
    """A constant kernel beside an intercept: it is of no use."""
    K = kernels(rng, samples(rng))
    K[2] = 0.8
    return problem(rng, K=K, regularizer="l1")


@case((0, 1), "degenerate", "constant-kernel", "no-intercept", "smooth")
def constant_kernel_no_intercept(rng: np.random.Generator) -> Problem:
    """A constant kernel in place of an intercept."""
    K = kernels(rng, samples(rng))
    K[2] = 0.8
    return problem(rng, K=K, regularizer=Lp(2), intercept=False)


@case((0, 1), "degenerate", "duplicated-samples", "low-rank", "sparse")
def duplicated_samples(rng: np.random.Generator) -> Problem:
    """Every sample twice, with the same label."""
    X = samples(rng, 12)
    twice = np.repeat(np.arange(12), 2)
    K = kernels(rng, X)[:, twice][:, :, twice]
    y = targets(rng, X, problem(rng).loss)[twice]
    return problem(rng, K=K, y=y, regularizer="l1")


@case((0, 1), "degenerate", "duplicated-samples", "low-rank", "sparse")
def contradicting_samples(rng: np.random.Generator) -> Problem:
    """Every sample twice, with both labels: f = 0 is optimal, and every beta_i can be at its bound."""
    twice = np.repeat(np.arange(10), 2)
    K = kernels(rng, samples(rng, 10))[:, twice][:, :, twice]
    return problem(rng, K=K, n=20, y=np.tile([1.0, -1.0], 10), regularizer="l1", C=0.7)


@case((0, 1), "degenerate", "unbalanced", "sparse")
def one_positive_sample(rng: np.random.Generator) -> Problem:
    """One sample of +1 among 24."""
    return problem(rng, y=np.where(np.arange(24) == 7, 1.0, -1.0), regularizer="l1")


@case((0, 1), "degenerate", "unbalanced", "smooth")
def one_positive_sample_logistic(rng: np.random.Generator) -> Problem:
    """The same with the logistic loss and p = 2."""
    return problem(rng, y=np.where(np.arange(24) == 7, 1.0, -1.0), loss="logistic", regularizer=Lp(2))


@case((0, 1), "n-2", "degenerate", "sparse")
def two_samples(rng: np.random.Generator) -> Problem:
    """One sample of each class."""
    return problem(rng, n=2, y=np.array([1.0, -1.0]), regularizer="l1")


@case((0, 1), "n-2", "degenerate", "smooth", "regression")
def two_samples_squared(rng: np.random.Generator) -> Problem:
    """Two samples and an intercept in regression."""
    return problem(rng, n=2, loss="squared", regularizer=Lp(2))


@case((0, 1), "one-kernel", "sparse")
def one_kernel(rng: np.random.Generator) -> Problem:
    """M = 1: scikit-learn's SVC."""
    return problem(rng, M=1, regularizer="l1")


@case((0, 1), "one-kernel", "smooth", "regression")
def one_kernel_svr(rng: np.random.Generator) -> Problem:
    """M = 1: scikit-learn's SVR."""
    return problem(rng, M=1, loss=EpsilonInsensitive(0.2), regularizer=Lp(2))


@case((0, 1), "many-kernels", "degenerate", "sparse")
def more_kernels_than_samples(rng: np.random.Generator) -> Problem:
    """40 kernels on 14 samples."""
    return problem(rng, n=14, M=40, regularizer="l1")


@case((0, 1), "many-kernels", "smooth")
def more_kernels_than_samples_l2(rng: np.random.Generator) -> Problem:
    """40 kernels on 14 samples with p = 2."""
    return problem(rng, n=14, M=40, regularizer=Lp(2))


@case((0, 1), "degenerate", "ties", "sparse", "non-unique-weights")
def identity_kernels(rng: np.random.Generator) -> Problem:
    """Diagonal kernels: no two samples have anything in common."""
    return problem(rng, n=12, K=np.stack([c * np.eye(12) for c in (1.0, 1.0, 0.5)]), regularizer="l1")


@case((0, 1), "degenerate", "zero-optimum", "regression", "sparse", "non-unique-weights")
def constant_target(rng: np.random.Generator) -> Problem:
    """All targets equal: the intercept alone is exact, and P* = 0."""
    return problem(rng, loss="squared", y=np.full(24, 1.7), regularizer="l1")


@case((0, 1), "degenerate", "zero-optimum", "regression", "smooth")
def wide_tube(rng: np.random.Generator) -> Problem:
    """All targets within epsilon of a constant: P* = 0 for many intercepts."""
    return problem(rng, loss=EpsilonInsensitive(5.0), regularizer=Lp(2))


@case((0, 1), "degenerate", "other-regularizer", "zero-weights")
def no_kernel_pays(rng: np.random.Generator) -> Problem:
    """C so small that g_m <= 0.6 for every kernel: all weights are 0, and the intercept does what it can."""
    return problem(rng, C=0.02, loss="squared_hinge", regularizer=ElasticNet(0.4, "tikhonov"))


@case((0, 1), "degenerate", "other-regularizer", "one-kernel")
def one_kernel_barely_pays(rng: np.random.Generator) -> Problem:
    """At f = 0 the only kernel has g = 1.01, a little over the threshold of 1."""
    K = [[1.0, 0.5, 0.8], [0.5, 1.0, 0.7], [0.8, 0.7, 1.0]]
    base = Problem([K], [1.0, -1.0, -1.0], loss="squared_hinge", regularizer=Power(1))
    at_zero = np.array([2.0, -1.0, -1.0]) * 2.0 / 3.0  # the dual point of the best intercept, -1/3
    g = float(base.kernels.norms(at_zero)[0])
    return base.replace(kernels=[np.array(K) * (1.01 / g) ** 2])


@case((0, 1), "degenerate", "low-rank", "sparse")
def nearly_singular(rng: np.random.Generator) -> Problem:
    """Very wide Gaussians, all close to a constant, of rank 5 in double precision."""
    X = samples(rng)
    return problem(rng, K=np.stack([gaussian(X, width) for width in (30.0, 60.0, 100.0)]), regularizer="l1", C=50.0)


@case((0, 1), "C-small", "degenerate", "sparse")
def small_C(rng: np.random.Generator) -> Problem:
    """C = 1e-6: the smaller class is at its bound, and P* is tiny."""
    return problem(rng, C=1e-6, regularizer="l1")


@case((0, 1), "C-small", "smooth")
def small_C_logistic(rng: np.random.Generator) -> Problem:
    """C = 1e-4 with the logistic loss."""
    return problem(rng, C=1e-4, loss="logistic", regularizer=Lp(2))


@case((0, 1), "C-large", "separable", "sparse")
def large_C(rng: np.random.Generator) -> Problem:
    """C = 1e5 on classes that can be separated: no sample is at its bound."""
    return problem(rng, C=1e5, regularizer="l1")


@case((0, 1), "C-large", "smooth", "regression")
def large_C_squared(rng: np.random.Generator) -> Problem:
    """C = 1e4 in least squares: nearly interpolation."""
    return problem(rng, C=1e4, loss="squared", regularizer=Lp(2))


@case((0, 1), "C-large", "smooth")
def large_C_squared_hinge(rng: np.random.Generator) -> Problem:
    """C = 1e4 with the squared hinge loss."""
    return problem(rng, C=1e4, loss="squared_hinge", regularizer=Lp(4 / 3))


@case((0, 1), "p-near-1", "smooth")
def p_just_above_1(rng: np.random.Generator) -> Problem:
    """p = 1.01: q_m to the power 100."""
    return problem(rng, regularizer=Lp(1.01))


@case((0, 1), "p-near-1", "smooth", "regression")
def p_next_to_1(rng: np.random.Generator) -> Problem:
    """p = 1 + 1e-6: sparse for all that double precision can see."""
    return problem(rng, loss="squared", regularizer=Lp(1.0 + 1e-6))


@case((0, 1), "p-huge", "smooth")
def p_huge(rng: np.random.Generator) -> Problem:
    """p = 1e6."""
    return problem(rng, regularizer=Lp(1e6))


@case((0, 1), "huge-scale", "sparse")
def huge_kernels(rng: np.random.Generator) -> Problem:
    """Kernels times 2^30, C over 2^30."""
    K = kernels(rng, samples(rng))
    return problem(rng, K=2.0**30 * K, C=2.0 * 2.0**-30, regularizer="l1")


@case((0, 1), "tiny-scale", "smooth")
def tiny_kernels(rng: np.random.Generator) -> Problem:
    """Kernels over 2^30, C times 2^30."""
    K = kernels(rng, samples(rng))
    return problem(rng, K=2.0**-30 * K, C=2.0 * 2.0**30, regularizer=Lp(2))


@case((0, 1), "tiny-scale", "sparse", "degenerate")
def negligible_kernels(rng: np.random.Generator) -> Problem:
    """Kernels times 1e-12 at C = 1: f is 0 for all purposes, and every sample is at its bound."""
    K = kernels(rng, samples(rng))
    return problem(rng, K=1e-12 * K, C=1.0, regularizer="l1")


@case((0, 1), "mixed-scales", "sparse")
def mixed_scales_l1(rng: np.random.Generator) -> Problem:
    """Kernels of scale 1e-4, 1, 10 and 1e4."""
    K = kernels(rng, samples(rng)) * np.array([1e-4, 1.0, 10.0, 1e4])[:, None, None]
    return problem(rng, K=K, C=1.0, regularizer="l1")


@case((0, 1), "mixed-scales", "smooth", "regression")
def mixed_scales_l2(rng: np.random.Generator) -> Problem:
    """The same in least squares with p = 2."""
    K = kernels(rng, samples(rng)) * np.array([1e-4, 1.0, 10.0, 1e4])[:, None, None]
    return problem(rng, K=K, C=1.0, loss="squared", regularizer=Lp(2))


@case((0, 1), "float32", "sparse")
def single_precision(rng: np.random.Generator) -> Problem:
    """Kernels in float32: what is certified are exactly these numbers."""
    K = kernels(rng, samples(rng)) + 0.01 * np.eye(24)
    return problem(rng, K=K.astype(np.float32), regularizer="l1")
