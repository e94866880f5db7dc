"""Repair: any vector becomes a feasible dual point, a feasible one stays as it is, and what was wrong is said."""

from __future__ import annotations

import numpy as np
import pytest
from makers import LOSSES, make_problem

from mklref.certificate import repair

N = 25
every_loss = pytest.mark.parametrize("loss", LOSSES, ids=str)


@pytest.fixture(params=["plain", "weighted"])
def problem(loss, request, rng):
    problem = make_problem(loss=loss, n=N, M=2)
    return problem if request.param == "plain" else problem.replace(sample_weight=rng.uniform(0.5, 3.0, size=N))


def box(problem):
    return problem.loss.box(problem.y, problem.costs)


def assert_feasible(problem, beta):
    lower, upper = box(problem)
    assert np.all(np.isfinite(beta))
    assert np.all(lower <= beta)
    assert np.all(beta <= upper)
    if problem.intercept:
        rounding = 4 * N * np.finfo(float).eps * max(np.abs(beta).sum(), problem.intercept_cost)
        assert abs(beta.sum() - problem.intercept_cost) <= rounding


def feasible_point(problem, rng):
    """In the box with the right sum, by moving between the end points with the extreme sums."""
    lower, upper = (np.clip(bound, -5.0, 5.0) for bound in box(problem))
    if not problem.intercept:
        return lower + (upper - lower) * rng.uniform(size=N)
    low, high = lower.sum(), upper.sum()
    share = (problem.intercept_cost - low) / (high - low)
    inner = rng.uniform(0.2, 0.8)
    middle = lower + share * (upper - lower)
    other = np.clip(middle + rng.normal(size=N), lower, upper)
    other -= (other.sum() - problem.intercept_cost) * np.eye(N)[np.argmin(np.abs(other - middle))]
    blend = inner
    while np.any(lower > (point := (1 - blend) * middle + blend * other)) or np.any(point > upper):
        blend /= 2
    return point


def guesses(problem, rng):
    """Random vectors of every scale, at corners of the box, of one sign, with one huge entry, and zero."""
    lower, upper = (np.clip(bound, -5.0, 5.0) for bound in box(problem))
    for scale in (1e-9, 1e-3, 1.0, 1e4, 1e12):
        yield scale * rng.normal(size=N)
        yield scale * np.abs(rng.normal(size=N))
        yield -scale * np.abs(rng.normal(size=N))
    yield lower
    yield upper
    yield np.where(rng.uniform(size=N) < 0.5, lower, upper)
    yield np.zeros(N)
    yield np.eye(N)[3] * 1e200
    yield -np.eye(N)[4]


@every_loss
def test_result_is_feasible_for_every_vector(problem, rng):
    for beta in guesses(problem, rng):
        before = beta.copy()
        assert_feasible(problem, repair(problem, beta)[0])
        np.testing.assert_array_equal(beta, before)


@every_loss
def test_a_feasible_point_stays_as_it_is_and_nothing_is_reported(problem, rng):
    for _ in range(5):
        beta = feasible_point(problem, rng)
        assert_feasible(problem, beta)
        repaired, violations = repair(problem, beta)
        np.testing.assert_allclose(repaired, beta, rtol=0, atol=1e-14 * np.abs(beta).max())
        assert violations == []


@every_loss
def test_repair_is_idempotent(problem, rng):
    for beta in guesses(problem, rng):
        once = repair(problem, beta)[0]
        twice, violations = repair(problem, once)
        np.testing.assert_allclose(twice, once, rtol=1e-13, atol=1e-14 * np.abs(once).max())
        assert violations == []


@every_loss
def test_a_small_violation_moves_the_point_a_little(problem, rng):
    """Not farther than twice what any feasible point is away, in the 1-norm and up to a factor of the dimension."""
    for size in (1e-10, 1e-6, 1e-3):
        beta = feasible_point(problem, rng)
        spoiled = beta + size * rng.normal(size=N)
        moved = np.abs(repair(problem, spoiled)[0] - spoiled).sum()
        assert moved <= 2.0 * np.abs(spoiled - beta).sum()


def test_bound_variables_are_left_alone_if_the_others_have_room(rng):
    """Moving a support vector off its bound would cost complementary slackness."""
    problem = make_problem(n=N, C=1.0)
    y = problem.y
    beta = np.where(np.arange(N) % 3 == 0, y, np.where(np.arange(N) % 3 == 1, 0.0, 0.5 * y))
    repaired = repair(problem, beta + 0.1 * (np.arange(N) == 5))[0]
    at_bound = np.arange(N) % 3 < 2
    np.testing.assert_array_equal(repaired[at_bound], beta[at_bound])
    assert_feasible(problem, repaired)


def test_violations_say_where_and_by_how_much():
    problem = make_problem(n=N, C=2.0)
    y = problem.y
    beta = np.zeros(N)
    beta[3] = 2.5 * y[3]
    _, violations = repair(problem, beta)
    low, high = sorted((0.0, 2.0 * y[3]))
    expected = f"dual_coef[3] = {2.5 * y[3]:g} lies outside [{low:g}, {high:g}]"
    assert violations == [(expected, 0.5), (f"dual_coef sums to {2.5 * y[3]:g} instead of 0", 2.5)]


def test_the_nu_machine_sums_to_one():
    problem = make_problem(loss="one_class", n=N)
    repaired, violations = repair(problem, np.zeros(N))
    np.testing.assert_allclose(repaired, 1.0 / N, rtol=1e-14)
    assert violations == [("dual_coef sums to 0 instead of 1", 1.0)]


@pytest.mark.parametrize("n", [3, 7, 10, 24, 49])
@pytest.mark.parametrize("start", [0.0, 1.0, 0.3])
def test_nu_of_one_leaves_one_point(n, start):
    """Every beta_i is at its bound 1/n; rounding decides whether they sum to 1."""
    problem = make_problem(loss="one_class", n=n, C=1.0 / n)
    repaired, _ = repair(problem, start * problem.costs)
    np.testing.assert_allclose(repaired, 1.0 / n, rtol=1e-14)
    assert np.all(repaired <= problem.costs)


def test_rounding_never_leaves_the_box(rng):
    """Where the whole room is spent, b - (b - lower) may miss the bound."""
    for _ in range(50):
        weight = rng.uniform(0.1, 1.0, size=N)
        problem = make_problem(loss="one_class", n=N, C=1.0 / weight.sum(), sample_weight=weight)
        repaired, _ = repair(problem, problem.costs * rng.uniform(size=N))
        assert np.all(repaired >= 0.0)
        assert np.all(repaired <= problem.costs)


def test_without_intercept_only_the_box_counts(rng):
    problem = make_problem(n=N, intercept=False)
    beta = 0.5 * problem.y
    repaired, violations = repair(problem, beta)
    np.testing.assert_array_equal(repaired, beta)
    assert violations == []
