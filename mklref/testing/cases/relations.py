"""Laws in kernels, weights and C: related problems whose optimal values obey an equation or an inequality.

Certified intervals hold whoever computed them, so a law can only fail if a certificate is wrong. What the solver
contributes is that every interval is narrow: on permuted, scaled, merged and extended problems as on the first one.
"""

from __future__ import annotations

import numpy as np

from mklref.losses import EpsilonInsensitive
from mklref.problem import Problem
from mklref.regularizers import BlockNorm, Groups, Lp, WeightedLp
from mklref.testing.case import Interval, Law, case
from mklref.testing.cases.data import kernels, problem, samples

Problems = tuple[Problem, ...]
SCALE = np.array([0.5, 2.0, 1.0, 0.7])


def equal(first: Interval, *others: Interval) -> bool:
    """All optimal values are the same."""
    return all(first.meets(other) for other in others)


def equal_up_to(*factors: float) -> Law:
    """P_1 = factor_k P_k."""

    def law(first: Interval, *others: Interval) -> bool:
        return all(first.meets(other * factor) for other, factor in zip(others, factors, strict=True))

    return law


def rising(*values: Interval) -> bool:
    """P_1 <= P_2 <= ..."""
    return all(values[i].may_be_at_most(values[j]) for i in range(len(values)) for j in range(i + 1, len(values)))


def gram(problem: Problem) -> np.ndarray:
    """The kernels, (M, n, n)."""
    return np.array(problem.kernels.dense())


@case((0, 1), "invariant", "sparse", law=equal)
def permuted_kernels(rng: np.random.Generator) -> Problems:
    """P does not depend on the order of the kernels."""
    base = problem(rng, regularizer="l1")
    return base, base.replace(kernels=gram(base)[[2, 0, 3, 1]])


@case((0, 1), "invariant", "smooth", law=equal_up_to(4.0, 3.7))
def scaled_kernels(rng: np.random.Generator) -> Problems:
    """P(c K, C) = P(K, c C)/c, for c = 4 and 3.7."""
    base = problem(rng, regularizer=Lp(2))
    return base, *(base.replace(kernels=c * gram(base), C=base.C / c) for c in (4.0, 3.7))


@case((0, 1), "invariant", "sparse", law=equal_up_to(1e3))
def scaled_kernels_l1(rng: np.random.Generator) -> Problems:
    """P(c K, C) = P(K, c C)/c, for c = 1000."""
    base = problem(rng, regularizer="l1")
    return base, base.replace(kernels=1e3 * gram(base), C=base.C / 1e3)


@case((0, 1), "invariant", "smooth", "other-regularizer", law=equal)
def scaled_ball(rng: np.random.Generator) -> Problems:
    """P(K; ||theta||_p <= t) = P(t K; ||theta||_p <= 1)."""
    base = problem(rng, regularizer=WeightedLp(1.5, np.full(4, 2.5)))
    return base, base.replace(kernels=2.5 * gram(base), regularizer=Lp(1.5))


@case((0, 1), "invariant", "smooth", "other-regularizer", law=equal)
def scaled_axes_of_the_ball(rng: np.random.Generator) -> Problems:
    """P(c_m K_m; ||theta||_p <= 1) = P(K; ||theta/c||_p <= 1)."""
    base = problem(rng, loss="squared_hinge", regularizer=WeightedLp(3, SCALE))
    return base, base.replace(kernels=SCALE[:, None, None] * gram(base), regularizer=Lp(3))


@case((0, 1), "invariant", "duplicated-kernel", "smooth", law=equal)
def copies_of_a_kernel(rng: np.random.Generator) -> Problems:
    """k copies of K_1 are worth k^(1-1/p) K_1; p = 3/2, k = 3."""
    base = problem(rng, M=3, regularizer=Lp(1.5))
    K = gram(base)
    worth = np.array([3.0 ** (1.0 - 1.0 / 1.5), 1.0, 1.0])
    return base.replace(kernels=worth[:, None, None] * K), base.replace(kernels=K[[0, 0, 0, 1, 2]])


@case((0, 1), "invariant", "duplicated-kernel", "sparse", "non-unique-weights", law=equal)
def copies_of_a_kernel_l1(rng: np.random.Generator) -> Problems:
    """At p = 1 copies are worth nothing."""
    base = problem(rng, M=3, regularizer="l1")
    return base, base.replace(kernels=gram(base)[[0, 0, 0, 1, 2]])


@case((0, 1), "invariant", "duplicated-kernel", "ties", "smooth", law=equal)
def all_kernels_equal(rng: np.random.Generator) -> Problems:
    """M equal kernels are the machine on M^(1-1/p) K; p = 4."""
    base = problem(rng, M=1, regularizer=Lp(4))
    K = gram(base)
    return base.replace(kernels=5.0**0.75 * K), base.replace(kernels=np.repeat(K, 5, axis=0))


@case((0, 1), "invariant", "zero-kernel", "sparse", law=equal)
def added_zero_kernel(rng: np.random.Generator) -> Problems:
    """A kernel of zeros changes nothing."""
    base = problem(rng, regularizer="l1")
    return base, base.replace(kernels=np.concatenate([gram(base), np.zeros((1, 24, 24))]))


@case((0, 1), "invariant", "sparse", law=equal)
def shifted_kernels(rng: np.random.Generator) -> Problems:
    """With an intercept: adding a constant to the kernels, or centring them, changes nothing."""
    base = problem(rng, regularizer="l1")
    K = gram(base)
    H = np.eye(24) - 1.0 / 24
    centred = H @ K @ H
    return base, base.replace(kernels=K + 3.0), base.replace(kernels=0.5 * (centred + centred.transpose(0, 2, 1)))


@case((0, 1), "invariant", "smooth", law=rising)
def intercept_lowers_P(rng: np.random.Generator) -> Problems:
    """P(with an intercept) <= P(without)."""
    base = problem(rng, loss="logistic", regularizer=Lp(2))
    return base, base.replace(intercept=False)


@case((0, 1), "invariant", "sparse", law=rising)
def added_kernel_lowers_P(rng: np.random.Generator) -> Problems:
    """More kernels, lower P; larger kernels, lower P."""
    base = problem(rng, regularizer="l1")
    K = gram(base)
    u = rng.normal(size=24)
    larger = K + np.stack([0.2 * np.outer(u, u)] * 4)
    return base.replace(kernels=np.concatenate([larger, larger[:1] * 1.5])), base.replace(kernels=larger), base


def _concave(half: Interval, whole: Interval, middle: Interval, double: Interval) -> bool:
    mean = (whole + double) * 0.5
    return rising(half, whole, middle, double) and mean.may_be_at_most(middle) and double.may_be_at_most(whole * 2.0)


@case((0, 1), "invariant", "smooth", law=_concave)
def concave_in_C(rng: np.random.Generator) -> Problems:
    """P rises with C and is concave, so that P(2C) <= 2 P(C) and P(3/2 C) >= (P(C) + P(2C))/2."""
    base = problem(rng, regularizer=Lp(2), C=0.2)
    return tuple(base.replace(C=factor * base.C) for factor in (0.5, 1.0, 1.5, 2.0))


def _ordered_norms(*values: Interval) -> bool:
    """P_r <= P_p <= M^(1/p - 1/r) P_r for p <= r, with four kernels and p = 1, 4/3, 2, inf."""
    inverse = (1.0, 0.75, 0.5, 0.0)
    for i in range(4):
        for j in range(i + 1, 4):
            if not values[j].may_be_at_most(values[i]):
                return False
            if not values[i].may_be_at_most(values[j] * 4.0 ** (inverse[i] - inverse[j])):
                return False
    return True


@case((0, 1), "invariant", "sparse", law=_ordered_norms)
def ordered_in_p(rng: np.random.Generator) -> Problems:
    """P_r <= P_p <= M^(1/p - 1/r) P_r for p <= r."""
    base = problem(rng, regularizer="l1")
    return tuple(base.replace(regularizer=Lp(p)) for p in (1.0, 4.0 / 3.0, 2.0, np.inf))


@case((0, 1), "invariant", "smooth", law=equal)
def uniform_is_the_sum_kernel(rng: np.random.Generator) -> Problems:
    """P = inf is the machine on the sum of the kernels."""
    base = problem(rng, regularizer="uniform")
    return base, base.replace(kernels=gram(base).sum(axis=0)[None])


@case((0, 1), "invariant", "smooth", "other-regularizer", law=equal)
def block_norm_form(rng: np.random.Generator) -> Problems:
    """Lp(p) is 1/2 ||rho||_q^2 with q = 2p/(p+1); p = 3/2, q = 1.2."""
    base = problem(rng, regularizer=Lp(1.5))
    return base, base.replace(regularizer=BlockNorm(1.2))


@case((0, 1), "invariant", "smooth", "other-regularizer", law=equal)
def groups_of_one(rng: np.random.Generator) -> Problems:
    """Groups with p = 0 and q are Lp(1/q), whatever the groups."""
    base = problem(rng, regularizer=Lp(2))
    return base, base.replace(regularizer=Groups(((0, 2), (1, 3)), 0, 0.5))


@case((0, 1), "invariant", "one-kernel", law=equal)
def one_kernel_for_every_p(rng: np.random.Generator) -> Problems:
    """With one kernel all lp balls are the same."""
    base = problem(rng, M=1, loss=EpsilonInsensitive(0.1), regularizer="l1")
    return tuple(base.replace(regularizer=Lp(p)) for p in (1.0, 2.0, np.inf))


@case((0, 1), "invariant", "huge-scale", "tiny-scale", law=equal_up_to(2.0**40, 2.0**-40))
def powers_of_two(rng: np.random.Generator) -> Problems:
    """P(c K, C) = P(K, c C)/c for c = 2^40 and 2^-40."""
    K = kernels(rng, samples(rng))
    base = problem(rng, K=K, regularizer=Lp(4 / 3), loss="squared_hinge")
    return base, *(base.replace(kernels=c * K, C=base.C / c) for c in (2.0**40, 2.0**-40))
