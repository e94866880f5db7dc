"""Which primers state a problem of the library, with which arguments: from a `Problem` to calls of `mklref.primer`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

import cvxpy as cp
import numpy as np

from mklref.problem import Problem
from mklref.regularizers import (
    BlockNorm,
    ConcaveBlock,
    ElasticNet,
    Groups,
    HalfPower,
    Lp,
    Mahalanobis,
    Power,
    RootPlusLinear,
    Tikhonov,
)

LARGEST = 100
"""Numerator and denominator of an exponent, at most."""
Statement = tuple[str, tuple[Any, ...], float]
"""A primer, its arguments after the factors and targets, and what its value is multiplied by."""


def statements(problem: Problem) -> Iterator[Statement]:
    """Every primer whose optimal value is that of the problem, but for a factor."""
    if problem.sample_weight is not None or len(problem.machines) > 1:
        return
    loss, own, C = problem.loss, problem.regularizer, problem.C
    p = own.p if isinstance(own, Lp) and ratio(own.p) else np.inf
    if loss.name == "hinge" and problem.intercept:
        yield from _hinge(own, C, problem.n_samples)
    elif loss.name == "epsilon_insensitive" and problem.intercept and p == 1.0:
        yield "simplemkl_16", (C, loss.epsilon), 1.0
        yield "simplemkl_18", (C, loss.epsilon), 1.0
    elif loss.name == "one_class" and problem.intercept and p == 1.0:
        nu = 1.0 / (C * problem.n_samples)
        yield "simplemkl_17", (nu,), C * nu * problem.n_samples
        yield "simplemkl_19", (nu,), C * nu * problem.n_samples
    elif loss.name == "squared" and not problem.intercept:
        if isinstance(own, HalfPower) and own.q == 1.0:
            yield "kloft_14", (C,), 1.0
        elif p == 1.0:
            yield "kloft_15", (C,), 1.0
            yield "kloft_16", (C,), 1.0
        elif np.isfinite(p):
            yield "kloft_15", (C, dual_norm(p)), 1.0
    elif loss.name == "density_level_set" and not problem.intercept and np.isfinite(p):
        yield "kloft_3_5", (C, norm(p)), 1.0


def _hinge(own: Any, C: float, n: int) -> Iterator[Statement]:
    """The hinge loss with an intercept, by regulariser; Tomioka's C multiplies the penalty."""
    if isinstance(own, Lp) and ratio(own.p):
        yield from _lp(own.p, C)
    elif isinstance(own, Mahalanobis):
        root = np.linalg.cholesky(np.asarray(own.E))
        inverse = np.linalg.inv(root)
        yield "kloft_P", (C, lambda theta: cp.norm(inverse @ theta)), 1.0
        if np.all(root >= 0.0):  # with other roots the rules of cvxpy do not see that it is convex in alpha
            yield "kloft_D", (C, lambda q: cp.norm(root.T @ q)), 1.0
    elif isinstance(own, Tikhonov) and ratio(own.p):
        yield "kloft_3", (1 / (n * C), own.mu / (n * C), norm(own.p)), n * C
        yield "kloft_4", (C, own.mu, norm(own.p)), 1.0
    elif isinstance(own, HalfPower) and own.q <= 2.0 and ratio(own.q):
        yield "kloft_28", (C, own.q), 1.0
    elif isinstance(own, BlockNorm) and own.q > 2.0 and ratio(own.q):
        yield "kloft_30", (C, own.q), 1.0
        yield "kloft_31", (C, own.q), 1.0
        yield "tomioka_5", (1 / C, own.q), C
    elif isinstance(own, Groups):
        groups = [list(group) for group in own.groups]
        yield "szafranski_8", (C, groups, own.p, own.q), 1.0
        yield "szafranski_9", (C, groups, own.p, own.q), 1.0
    elif isinstance(own, Power) and ratio(own.p):
        yield "tomioka_6", (1 / C, 1 / own.p, lambda d: cp.power(d, own.p)), C
        yield "tomioka_7", (1 / C, 2 * own.p / (own.p + 1)), C
    elif isinstance(own, ElasticNet) and own.form == "ivanov":
        yield "tomioka_3", (1 / C, elastic(own.lam)), C
    elif isinstance(own, ElasticNet):
        yield "tomioka_6", (1 / C, 1 - own.lam, elastic(own.lam)), C
        yield "tomioka_13", (1 / C, own.lam), C
    elif isinstance(own, ConcaveBlock) and isinstance(own.g, RootPlusLinear):
        lam = own.g.lam
        yield "tomioka_9", (1 / C, lambda x: (1 - lam) * x + lam / 2 * cp.square(x)), C


def _lp(p: float, C: float) -> Iterator[Statement]:
    """An lp ball of weights; p = 1 has statements of its own."""
    yield "kloft_P", (C, norm(p)), 1.0
    yield "kloft_8", (C, norm(p)), 1.0
    for name in ("kloft_D", "kloft_10", "kloft_12"):
        yield name, (C, dual_norm(p)), 1.0
    for name in ("kloft_17", "kloft_27"):
        yield name, (C, p), 1.0
    yield "kloft_sip", (C, norm(p)), 1.0
    yield "tomioka_5", (1 / C, 2 * p / (p + 1)), C
    if p == 1.0:
        for name in ("simplemkl_2", "simplemkl_3", "simplemkl_8", "simplemkl_silp", "kloft_13", "szafranski_7"):
            yield name, (C,), 1.0
        yield "tomioka_4", (1 / C,), C
    yield "tomioka_3", (1 / C, lambda d: d if p == 1.0 else cp.power(d, p)), C


def ratio(p: float) -> bool:
    """Whether it is a ratio of small integers, as cvxpy takes it; others it rounds, and states another problem."""
    return bool(p < LARGEST and abs(p - Fraction(p).limit_denominator(LARGEST)) < 1e-12)


def norm(p: float) -> Callable[[Any], Any]:
    """||.||_p of an expression."""
    return lambda x: cp.pnorm(x, p)


def dual_norm(p: float) -> Callable[[Any], Any]:
    """The norm dual to ||.||_p."""
    return cp.norm_inf if p == 1.0 else norm(p / (p - 1))


def elastic(lam: float) -> Callable[[Any], Any]:
    """h(d) = (1-lambda) d / (1 - lambda d), convex on d < 1/lambda."""
    return lambda d: (1 - lam) / lam * (cp.inv_pos(1 - lam * d) - 1)
