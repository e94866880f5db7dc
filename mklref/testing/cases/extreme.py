"""Extreme C, exponents, scales and precisions."""

from __future__ import annotations

import numpy as np

from mklref.problem import Problem
from mklref.regularizers import Lp
from mklref.testing.case import case
from mklref.testing.cases.data import kernels, problem, samples


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
