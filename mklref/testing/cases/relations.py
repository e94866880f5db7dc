"""Laws in kernels, weights, C, samples and targets: related problems whose optima obey an (in)equality.

Certified intervals hold whoever computed them, so a law can only fail if a certificate is wrong. What the solver
contributes is that every interval is narrow: on permuted, scaled, merged and extended problems as on the first one.
"""

from __future__ import annotations

from itertools import combinations

import numpy as np

from mklref.losses import EpsilonInsensitive
from mklref.problem import Problem, on_samples
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
    return all(low.may_be_at_most(high) for low, high in combinations(values, 2))


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
    pairs = combinations(zip(values, (1.0, 0.75, 0.5, 0.0), strict=True), 2)
    return all(P_r.may_be_at_most(P_p) and P_p.may_be_at_most(P_r * 4.0 ** (p - r)) for (P_p, p), (P_r, r) in pairs)


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


def _part(base: Problem, rows: np.ndarray, **changes: object) -> Problem:
    K = np.ascontiguousarray(gram(base)[:, rows][:, :, rows])
    return on_samples(base, rows, K, **changes)


@case((0, 1), "invariant", "sparse", law=equal)
def permuted_samples(rng: np.random.Generator) -> Problems:
    """P does not depend on the order of the samples."""
    base = problem(rng, regularizer="l1", sample_weight=rng.uniform(0.5, 2.0, size=24))
    return base, _part(base, rng.permutation(24))


@case((0, 1), "invariant", "sparse", law=equal)
def swapped_classes(rng: np.random.Generator) -> Problems:
    """P(-y) = P(y), with the intercept of the other sign."""
    base = problem(rng, regularizer="l1")
    return base, base.replace(y=-base.y)


@case((0, 1), "invariant", "sparse", "duplicated-samples", law=equal)
def samples_twice_at_half_C(rng: np.random.Generator) -> Problems:
    """Every sample twice, with C/2."""
    base = problem(rng, regularizer="l1", n=14)
    return base, _part(base, np.repeat(np.arange(14), 2), C=base.C / 2.0)


@case((0, 1), "invariant", "smooth", "sample-weight", "duplicated-samples", law=equal)
def weights_count_samples(rng: np.random.Generator) -> Problems:
    """A sample of weight 3 is three samples; weights and C only matter as a product."""
    base = problem(rng, regularizer=Lp(2), n=14)
    count = np.array([1, 3, 2, 1, 1, 2, 1, 1, 3, 1, 1, 1, 1, 1])
    weighted = base.replace(sample_weight=count.astype(float))
    return weighted, _part(base, np.repeat(np.arange(14), count)), weighted.replace(C=0.5, sample_weight=4.0 * count)


@case((0, 1), "invariant", "smooth", law=rising)
def removed_sample_lowers_P(rng: np.random.Generator) -> Problems:
    """Fewer samples, lower P."""
    base = problem(rng, loss="squared_hinge", regularizer=Lp(2))
    return _part(base, np.arange(22)), _part(base, np.arange(23)), base


@case((0, 1), "invariant", "sparse", "unbalanced", law=lambda value, bound: value.may_be_at_most(bound))
def bounded_by_the_smaller_class(rng: np.random.Generator) -> Problems:
    """P <= 2 C min(n+, n-), which is P for kernels of zeros."""
    base = problem(rng, regularizer="l1", y=np.where(np.arange(24) % 8 == 3, 1.0, -1.0))
    return base, base.replace(kernels=np.zeros((1, 24, 24)))


@case((0, 1), "invariant", "regression", "sparse", law=equal)
def shifted_and_negated_targets(rng: np.random.Generator) -> Problems:
    """With an intercept y + c and -y have the same P as y."""
    base = problem(rng, loss=EpsilonInsensitive(0.1), regularizer="l1")
    return base, base.replace(y=base.y + 5.0), base.replace(y=-base.y)


@case((0, 1), "invariant", "regression", "smooth", law=equal_up_to(1.0 / 9.0))
def scaled_targets(rng: np.random.Generator) -> Problems:
    """P(t y) = t^2 P(y) in least squares, t = 3."""
    base = problem(rng, loss="squared", regularizer=Lp(2))
    return base, base.replace(y=3.0 * base.y)


@case((0, 1), "invariant", "regression", "smooth", law=equal_up_to(1.0 / 9.0))
def scaled_targets_and_tube(rng: np.random.Generator) -> Problems:
    """P(t y, t epsilon, C) = t^2 P(y, epsilon, C/t) with the epsilon-insensitive loss, t = 3."""
    base = problem(rng, loss=EpsilonInsensitive(0.1), regularizer=Lp(2))
    return base.replace(C=base.C / 3.0), base.replace(y=3.0 * base.y, loss=EpsilonInsensitive(0.3))


def _halves(whole: Interval, first: Interval, second: Interval) -> bool:
    return ((first + second) * 0.5).may_be_at_most(whole)


@case((0, 1), "invariant", "smooth", "no-intercept", law=_halves)
def halves_with_twice_C(rng: np.random.Generator) -> Problems:
    """P(all, C) >= (P(first half, 2C) + P(second half, 2C))/2: each half may have a function of its own."""
    base = problem(rng, loss="logistic", regularizer=Lp(2), intercept=False)
    return base, *(_part(base, rows, C=2.0 * base.C) for rows in (np.arange(12), np.arange(12, 24)))
