"""Laws in samples, labels and targets."""

from __future__ import annotations

import numpy as np

from mklref.losses import EpsilonInsensitive
from mklref.problem import Problem
from mklref.regularizers import Lp
from mklref.testing.case import Interval, case
from mklref.testing.cases.data import problem
from mklref.testing.cases.relations import Problems, equal, equal_up_to, gram, rising


def _part(base: Problem, rows: np.ndarray, **changes: object) -> Problem:
    """The problem on some samples, perhaps repeated."""
    K = np.ascontiguousarray(gram(base)[:, rows][:, :, rows])
    weight = None if base.sample_weight is None else base.sample_weight[rows]
    return base.replace(**{"kernels": K, "y": base.y[rows], "sample_weight": weight, **changes})


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
