"""Sequential minimal optimisation, compiled and in NumPy, against each other and against the definitions.

Both do the same arithmetic in the same order and without fused multiply-adds, so that the comparison is exact.
"""

from __future__ import annotations

import numpy as np
import pytest
from makers import ODD, gram_matrices, needs_the_loops

from mklref.machines import twin
from mklref.machines.loops import loops

pytestmark = needs_the_loops
BOTH = pytest.mark.parametrize("implementation", [loops, twin], ids=["compiled", "twin"])


class BoxProblem:
    """minimise 1/2 beta'(Q + shift) beta - linear'beta + absolute |beta|_1 on a box, 1'beta kept if `equality`."""

    def __init__(self, seed, equality, *, absolute=0.0, shift=0.0, infinite=False, rank=None, duplicate=False, n=ODD):
        rng = np.random.default_rng(seed)
        self.matrices = gram_matrices(rng, n, rank=rank, duplicate=duplicate)
        self.weights = rng.exponential(size=5) * [1, 1, 0, 1, 1]
        self.Q = np.tensordot(self.weights, np.stack(self.matrices), 1)
        self.shift = shift * rng.uniform(0.5, 2.0, size=n)
        self.lower, self.upper = -rng.uniform(0.0, 0.5, size=n), rng.uniform(0.0, 0.5, size=n)
        if n > 6:
            self.lower[:3], self.upper[3:6] = 0.0, 0.0  # one-sided, as for the hinge loss
        if infinite:
            self.lower[6::2], self.upper[7::2] = -np.inf, np.inf
        self.linear = (0.3 if rank else 3.0) * rng.normal(size=n)
        self.absolute, self.equality = absolute, equality
        start = np.clip(0.2 * rng.normal(size=n), self.lower, self.upper)
        self.start = np.where(rng.uniform(size=n) < 0.3, 0.0, start)  # some of them on the kink

    def run(self, implementation, tol=1e-9, max_steps=100_000, max_seconds=np.inf, shrink_every=500):
        """beta, gradient, and (steps, rows formed, violation)."""
        n = len(self.linear)
        beta = self.start.copy()
        gradient = self.Q @ beta + self.shift * beta - self.linear
        outcome = implementation.smo(
            implementation.Stack(self.matrices),
            self.weights,
            np.full((n, n), np.nan),  # a row that is read before it is formed spoils everything
            np.zeros(n, dtype=np.uint8),
            np.diag(self.Q) + self.shift,
            self.lower,
            self.upper,
            self.absolute,
            self.equality,
            beta,
            gradient,
            tol,
            max_steps,
            max_seconds,
            1,
            shrink_every,
        )
        return beta, gradient, outcome

    def value(self, beta):
        quadratic = 0.5 * beta @ (self.Q @ beta) + 0.5 * self.shift @ beta**2
        return quadratic - self.linear @ beta + self.absolute * np.abs(beta).sum()

    def violation(self, beta):
        """How far the one-sided derivatives are from optimality, by definition."""
        gradient = self.Q @ beta + self.shift * beta - self.linear
        up, down = [], []
        for value, slope, low, high in zip(beta, gradient, self.lower, self.upper, strict=True):
            if value < high:
                up.append(slope + (self.absolute if value >= 0 else -self.absolute))
            if value > low:
                down.append(slope + (self.absolute if value > 0 else -self.absolute))
        most_up, most_down = min(up, default=np.inf), max(down, default=-np.inf)
        return most_down - most_up if self.equality else max(most_down, -most_up)


VARIANTS = {
    "hinge": {},
    "kink": {"absolute": 0.7},
    "shift": {"shift": 0.4},
    "kink_and_shift": {"absolute": 0.3, "shift": 0.2},
    "infinite_bounds": {"shift": 0.3, "infinite": True},
    "infinite_bounds_and_kink": {"shift": 0.3, "infinite": True, "absolute": 0.5},
    "low_rank": {"rank": 2},
    "low_rank_with_kink": {"rank": 2, "absolute": 0.2},
    "duplicates": {"duplicate": True},
    "two_samples": {"n": 2},
    "long_rows": {"n": 140},  # the best partner is searched in blocks of 128
}


every_variant = pytest.mark.parametrize("variant", VARIANTS.values(), ids=VARIANTS)


with_and_without = pytest.mark.parametrize("equality", [True, False], ids=["equality", "free"])


@pytest.mark.sampled(2)
@every_variant
@with_and_without
@pytest.mark.parametrize("shrink_every", [2, 20])
def test_shrinking_leaves_the_solution_and_the_gradient_as_they_are(variant, equality, shrink_every):
    """Narrow boxes: most samples come to sit at a bound, are left out, and some want to come back."""
    for seed in range(3):
        problem = BoxProblem(seed, equality, **{"n": 60, **variant})
        problem.lower, problem.upper = 0.1 * problem.lower, 0.1 * problem.upper
        problem.start = np.clip(problem.start, problem.lower, problem.upper)
        whole, _, (_, _, left_whole) = problem.run(loops, shrink_every=-1)
        beta, gradient, (steps, _, left) = problem.run(loops, shrink_every=shrink_every)
        assert max(left, left_whole) <= 1e-9
        assert steps < 100_000
        scale = 1.0 + np.abs(gradient).max()
        np.testing.assert_allclose(
            gradient, problem.Q @ beta + problem.shift * beta - problem.linear, atol=1e-11 * scale
        )
        assert problem.violation(beta) <= 1e-9 + 1e-11 * scale
        assert problem.value(beta) == pytest.approx(problem.value(whole), rel=1e-9, abs=1e-9)
        if equality:
            assert beta.sum() == pytest.approx(problem.start.sum(), abs=1e-12)


@pytest.mark.sampled(2)
@every_variant
@with_and_without
@pytest.mark.parametrize("seed", range(3))
def test_smo_is_its_twin_bit_for_bit(variant, equality, seed):
    problem = BoxProblem(seed, equality, **variant)
    steps = 400 if variant.get("n") == 140 else 3000
    beta, gradient, outcome = problem.run(loops, tol=1e-7, max_steps=steps)
    twin_beta, twin_gradient, twin_outcome = problem.run(twin, tol=1e-7, max_steps=steps)
    assert outcome == twin_outcome
    np.testing.assert_array_equal(beta, twin_beta)
    np.testing.assert_array_equal(gradient, twin_gradient)


@pytest.mark.sampled(2)
@every_variant
@with_and_without
@pytest.mark.parametrize("seed", range(3))
def test_smo_ends_at_the_optimum(variant, equality, seed):
    problem = BoxProblem(seed, equality, **variant)
    beta, gradient, (steps, formed, violation) = problem.run(loops)
    assert np.all((problem.lower <= beta) & (beta <= problem.upper))
    if equality:
        assert beta.sum() == pytest.approx(problem.start.sum(), abs=1e-12)
    scale = np.abs(problem.Q).max() + np.abs(problem.linear).max()
    np.testing.assert_allclose(gradient, problem.Q @ beta + problem.shift * beta - problem.linear, atol=1e-12 * scale)
    assert violation <= 1e-9
    assert problem.violation(beta) <= violation + 1e-11 * scale
    assert formed <= min(len(beta), 2 * steps)
    assert problem.value(beta) <= problem.value(problem.start)
    # No feasible point is better: random ones, and the way to them.
    rng = np.random.default_rng(seed)
    for _ in range(10):
        other = np.clip(rng.normal(size=len(beta)), problem.lower, problem.upper)
        if equality:
            other = shifted_to(problem.start.sum(), other, problem)
        for t in (1e-3, 0.1, 1.0):
            assert problem.value(beta + t * (other - beta)) >= problem.value(beta) - 1e-8


def shifted_to(total, beta, problem):
    """clip(beta + c) with c such that the sum is `total`, by bisection."""
    low, high = -1e3, 1e3
    for _ in range(70):
        middle = 0.5 * (low + high)
        low, high = (
            (middle, high) if np.clip(beta + middle, problem.lower, problem.upper).sum() < total else (low, middle)
        )
    return np.clip(beta + low, problem.lower, problem.upper)


@with_and_without
def test_the_exact_solution_of_two_samples(equality):
    """beta = (t, -t) with t = (linear_0 - linear_1) / (Q_00 + Q_11 - 2 Q_01), or the solution of Q beta = linear."""
    Q = np.array([[2.0, 0.5], [0.5, 1.0]])
    linear = np.array([0.3, -0.2])
    beta, gradient = np.zeros(2), -linear
    state = (np.empty((2, 2)), np.zeros(2, dtype=np.uint8), np.diag(Q).copy(), np.full(2, -9.0), np.full(2, 9.0))
    loops.smo(loops.Stack([Q]), np.ones(1), *state, 0.0, equality, beta, gradient, 1e-14, 1000, np.inf)
    t = 0.5 / 2.0
    np.testing.assert_allclose(beta, [t, -t] if equality else np.linalg.solve(Q, linear), rtol=1e-12)


@BOTH
@with_and_without
def test_max_steps_is_respected(implementation, equality):
    problem = BoxProblem(5, equality)
    for limit in (0, 1, 7):
        beta, gradient, (steps, _, violation) = problem.run(implementation, max_steps=limit)
        assert steps == limit
        assert violation > 1e-9
        assert violation == pytest.approx(problem.violation(beta), abs=1e-9)
        np.testing.assert_allclose(gradient, problem.Q @ beta + problem.shift * beta - problem.linear, atol=1e-9)
        if limit == 0:
            np.testing.assert_array_equal(beta, problem.start)


@BOTH
def test_a_solved_problem_takes_no_steps(implementation):
    problem = BoxProblem(6, True, shift=0.1)
    problem.start, _, _ = problem.run(implementation)
    beta, _, (steps, formed, _) = problem.run(implementation, tol=1e-7)
    assert (steps, formed) == (0, 0)
    np.testing.assert_array_equal(beta, problem.start)


@BOTH
def test_no_time_left_ends_the_loop(implementation):
    problem = BoxProblem(0, True, n=140, rank=3, infinite=True)  # without curvature and bounds it never ends
    _, _, (steps, _, violation) = problem.run(implementation, max_steps=10**9, max_seconds=0.05)
    assert steps < 10**9
    assert violation > 0.0
