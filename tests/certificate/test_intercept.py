"""The best intercept against brute force over all kinks, and against a general minimiser for smooth losses.

The zero of a non-decreasing slope: false position against bisection, and how often it asks for the slope.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from unittest.mock import Mock

import numpy as np
import pytest
from makers import LOSSES, make_problem
from scipy.optimize import minimize_scalar

from mklref import solve
from mklref.certificate import best_intercept, intercept
from mklref.certificate.intercept import intercept_objective
from mklref.exceptions import InvalidInput, InvalidType
from mklref.kernels import FactorStack
from mklref.losses import SquaredHinge
from mklref.multiclass import MulticlassProblem
from mklref.problem import Problem

WITH_INTERCEPT = [loss for loss in LOSSES if loss.intercept != "forbidden"]
PIECEWISE_LINEAR = ["hinge", "epsilon_insensitive", "pinball", "one_class"]

every_loss = pytest.mark.parametrize("loss", WITH_INTERCEPT, ids=str)


def objective(problem, scores, b):
    """sum_i c_i V(s_i + b, y_i) + c_b b, sample by sample."""
    losses = [
        c * problem.loss.value(np.array([s + b]), np.array([y]))[0]
        for c, s, y in zip(problem.costs, scores, problem.y, strict=True)
    ]
    return sum(losses) + problem.intercept_cost * b


def cases(loss, rng):
    """Problems with and without sample weights; scores of several scales, with ties, and all equal."""
    for seed, C in ((0, 1.0), (1, 0.3), (2, 40.0)):
        plain = make_problem(loss=loss, seed=seed, n=24, M=2, C=C * (0.3 if loss.intercept_cost else 1.0))
        for problem in (plain, plain.replace(sample_weight=rng.uniform(0.3, 4.0, size=24))):
            for scale in (0.01, 1.0, 30.0):
                yield problem, scale * rng.normal(size=24)
            yield problem, rng.integers(-2, 3, size=24).astype(float)
            yield problem, np.full(24, 0.7)


@every_loss
def test_objective_is_the_definition(loss, rng):
    for problem, scores in cases(loss, rng):
        assert intercept_objective(problem, scores, 0.37) == pytest.approx(objective(problem, scores, 0.37), rel=1e-12)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("loss", [loss for loss in LOSSES if loss.name in PIECEWISE_LINEAR], ids=str)
def test_of_an_interval_of_minimisers_the_middle_is_taken(loss, rng):
    """By brute force over all kinks, one of which is a minimiser: the first and the last of the smallest."""
    wide = 0
    for problem, scores in cases(loss, rng):
        kinks = np.sort((loss.kinks(problem.y) - scores).ravel())
        values = np.array([objective(problem, scores, b) for b in kinks])
        best = kinks[values <= values.min() + 1e-13 * max(1.0, abs(values.min()))]
        assert best_intercept(problem, scores) == pytest.approx(0.5 * (best[0] + best[-1]), rel=1e-12, abs=1e-12)
        wide += best[-1] - best[0] > 1e-6
    assert wide or loss.name in ("one_class", "pinball")  # their costs do not sum to 0 over 24 samples


@pytest.mark.parametrize("side", [-1.0, 1.0])
@pytest.mark.parametrize("many", [1, 4])
def test_costs_below_the_rounding_of_the_others_do_not_end_the_interval(side, many):
    """Every b in [-1, 1] is optimal for three samples of each class, and nearly so with some of weight 1e-20."""
    y = np.array([1.0, 1.0, 1.0, -1.0, -1.0, -1.0, *[side] * many])
    scores = np.concatenate([np.zeros(6), side * np.linspace(0.3, 0.6, many)])
    problem = Problem([np.eye(len(y))], y, sample_weight=np.where(scores == 0.0, 1.0, 1e-20))
    assert best_intercept(problem, scores) == pytest.approx(0.0, abs=1e-12)


def test_balanced_classes_at_their_bounds_are_told_apart(rng):
    """All dual variables are at C: any intercept of an interval of length nearly 2 is optimal, its ends are poor."""
    y = np.repeat([-1.0, 1.0], 25)
    X = y[:, None] + 0.5 * rng.normal(size=(50, 3))
    kernels = np.array([np.outer(x, x) for x in X.T])
    for problem in (Problem(kernels, y, C=1e-4), Problem(kernels, y, C=1e-4, sample_weight=np.full(50, 0.1))):
        solution = solve(problem)
        np.testing.assert_allclose(np.abs(solution.dual_coef), problem.costs)
        assert abs(solution.intercept) < 0.1
        assert np.mean(np.sign(solution.weights @ (kernels @ solution.dual_coef) + solution.intercept) == y) > 0.9


@pytest.mark.sampled(2)
@pytest.mark.parametrize("loss", [loss for loss in WITH_INTERCEPT if loss.name not in PIECEWISE_LINEAR], ids=str)
def test_smooth_losses_against_a_general_minimiser(loss, rng):
    for problem, scores in cases(loss, rng):
        reference = minimize_scalar(lambda b, p=problem, s=scores: objective(p, s, b), bounds=(-200, 200))
        b = best_intercept(problem, scores)
        assert objective(problem, scores, b) <= reference.fun + 1e-12 * abs(reference.fun)
        slope = problem.costs @ loss.subgradient(scores + b, problem.y)
        assert abs(slope) <= 1e-11 * problem.costs.sum() * (1 + np.abs(scores).max())


@every_loss
@pytest.mark.parametrize("shift", [1e8, -1e12])
def test_shifted_scores_shift_the_intercept(loss, rng, shift):
    problem = make_problem(loss=loss)
    scores = rng.normal(size=25)
    here, there = best_intercept(problem, scores), best_intercept(problem, scores + shift)
    best = objective(problem, scores, here)
    precision = 4 * np.spacing(abs(shift)) * problem.costs.sum()
    assert objective(problem, scores, there + shift) == pytest.approx(best, abs=precision)


def test_one_dominant_class_of_the_logistic_loss():
    """The optimum is far out, where the slope is the difference of tiny numbers."""
    problem = make_problem(loss="logistic", sample_weight=np.where(np.arange(25) == 1, 1e-20, 1.0))
    y = problem.y.copy()
    y[2:] = 1.0
    problem = problem.replace(y=y)
    assert np.sum(y < 0) == 1
    with np.errstate(all="raise"):  # of whoever asks: an underflow on the way was an error
        far, b = (best_intercept(problem, np.full(25, t)) for t in (-1e200, 0.0))
    assert far == pytest.approx(1e200, rel=1e-12)
    assert b == pytest.approx(np.log(24 / 1e-20), rel=1e-12)


def test_a_plateau_of_minimisers():
    """nu = 1: every intercept below all kinks is optimal."""
    for n in (3, 10, 24, 49):
        problem = make_problem(loss="one_class", n=n, C=1.0 / n)
        scores = np.random.default_rng(n).normal(size=n)
        assert objective(problem, scores, best_intercept(problem, scores)) == pytest.approx(-scores.mean(), rel=1e-12)


@dataclass(frozen=True)
class SteepHinge(SquaredHinge):
    """V = m + m^2/2 with m = max(0, 1 - y t): a jump of V', and curvature beside it."""

    def value(self, t, y):
        return np.maximum(0.0, 1.0 - y * t) + super().value(t, y)

    def subgradient(self, t, y):
        return np.where(y * t < 1.0, -y, 0.0) + super().subgradient(t, y)

    def conjugate(self, s, y):
        return y * s + 0.5 * np.maximum(0.0, -y * s - 1.0) ** 2

    def quadratic_dual(self, y):
        return None


def test_a_loss_may_have_jumps_and_curvature(rng):
    for problem, scores in cases(SteepHinge(), rng):
        reference = minimize_scalar(lambda b, p=problem, s=scores: objective(p, s, b), bounds=(-200, 200))
        found = objective(problem, scores, best_intercept(problem, scores))
        assert found <= reference.fun * (1.0 + 1e-12)


def test_what_are_no_scores_of_a_machine_have_no_best_intercept():
    """NaN among them gave hinge some number, and the labels of three classes passed for targets."""
    problem = Problem([np.eye(6)], [-1, 1] * 3)
    for scores in (np.full(6, np.nan), [0.0] * 5 + [np.inf], np.zeros((6, 1)), 0.0, [[0.0], []]):
        with pytest.raises(InvalidInput, match=r"scores(\[\d\])? (is|has shape) "):
            best_intercept(problem, scores)
    for other in (None, MulticlassProblem([np.eye(6)], [0, 1, 2] * 2)):
        with pytest.raises(InvalidType, match=r"problem is .*; give a Problem, of several machines that of one"):
            best_intercept(other, np.zeros(6))


@pytest.mark.parametrize("C", [1e-6, 1.0, 1e6])
@pytest.mark.parametrize("outlier", [-1e3, 1e3])
def test_an_intercept_far_from_the_median_is_found_at_any_cost(C, outlier):
    """Squared loss: the mean of y - t, here 83 away from the median 0."""
    y = np.zeros(12)
    y[3] = outlier
    problem = Problem([np.eye(12)], y, C=C, loss="squared")
    assert best_intercept(problem, np.zeros(12)) == pytest.approx(outlier / 12.0, rel=1e-9)


def test_many_samples_are_searched_by_halving(rng, calls_of):
    n = 6000
    problem = Problem(FactorStack([np.ones((n, 1))]), np.where(rng.random(n) < 0.7, 1.0, -1.0), loss="hinge")
    scores, calls = rng.normal(size=n), calls_of(type(problem.loss), "subgradient")
    b = best_intercept(problem, scores)
    assert len(calls) < 2 * np.log2(n)
    assert all(
        intercept_objective(problem, scores, b) <= intercept_objective(problem, scores, b + s) for s in (-1e-3, 1e-3)
    )


EPS = float(np.finfo(float).eps)


def bisection(slope, low, high):
    """The smallest number at which the slope is not negative, and how many halvings lead there."""
    halvings = 0
    while low < (middle := 0.5 * (low + high)) < high:
        low, high = (middle, high) if slope(middle) < 0.0 else (low, middle)
        halvings += 1
    return high, halvings


def random_scale(rng, low, high):
    return rng.normal() * 10.0 ** rng.integers(low, high)


def mirrored(slope):
    return lambda b: -slope(-b)


def linear(rng, zero):
    """Rarely 0 at any number."""
    steepness = 10.0 ** rng.uniform(-8.0, 8.0)
    offset = steepness * zero
    return lambda b: steepness * b - offset


def piecewise_linear(rng, zero):
    """Slopes of any steepness between kinks, exact and rounded once: non-decreasing to the last bit."""
    kinks = [Fraction(zero + random_scale(rng, -2, 3)) for _ in range(8)]
    rises = [Fraction(10.0 ** rng.uniform(-3.0, 3.0)) for _ in range(9)]

    def value(b):
        return rises[0] * b + sum(rise * max(b - kink, 0) for rise, kink in zip(rises[1:], kinks, strict=True))

    offset = value(Fraction(zero))
    return lambda b: float(value(Fraction(b)) - offset)


def sigmoid(rng, zero):
    width = 10.0 ** rng.uniform(-2.0, 2.0)
    return lambda b: math.tanh((b - zero) / width)


def exponential(rng, zero):
    return lambda b: math.expm1(min(b - zero, 700.0))


def root(rng, zero):
    return lambda b: math.copysign(abs(b - zero) ** (1 / 3), b - zero)


def ninth_power(rng, zero):
    """So flat that false position gets nowhere: the halvings do the work."""
    return lambda b: math.copysign(abs(b - zero) ** 9, b - zero)


def jump(rng, zero):
    return lambda b: 1.0 if b >= zero else -1e-8


MEAN = {linear: 11, sigmoid: 14, exponential: 25, piecewise_linear: 22, root: 60, jump: 190, ninth_power: 230}
"""Evaluations on average, those at both ends included; bisection takes about 60, and a quarter of those here halve."""


@pytest.mark.parametrize("kind", MEAN, ids=lambda kind: kind.__name__)
def test_false_position_is_bisection_with_fewer_slopes(kind, rng):
    calls = []
    for turn in range(30):
        slope = kind(rng, random_scale(rng, -3, 3))
        slope = mirrored(slope) if turn % 2 else slope
        low, high = intercept._expand(slope, random_scale(rng, -3, 3))
        expected, halvings = bisection(slope, low, high)
        found = intercept._zero(counted := Mock(wraps=slope), low, high)
        assert low <= found <= high
        assert abs(found - expected) <= 4 * EPS * abs(expected) or slope(found) == 0.0
        assert counted.call_count <= 2 + 4 * (halvings + 1)
        calls.append(counted.call_count)
    assert np.mean(calls) <= MEAN[kind]


def test_sums_that_are_zero_to_rounding_are_not_searched_through(rng):
    """The slope of the half square at residuals around 10^6: its last bits are noise over many numbers."""
    calls = []
    for _ in range(300):
        residuals, costs = 1e6 + rng.normal(size=24), rng.uniform(0.3, 4.0, size=24)
        slope = partial(lambda c, r, b: float(c @ (b - r)), costs, residuals)
        found = intercept._zero(counted := Mock(wraps=slope), *intercept._expand(slope, float(np.median(residuals))))
        assert found == pytest.approx(np.average(residuals, weights=costs), rel=8 * EPS)
        calls.append(counted.call_count)
    assert np.mean(calls) <= 35  # 20 to 27, by how the processor sums


@pytest.mark.parametrize("zero", [0.0, 1e-30, -1e-12, 1e-300])
def test_zeros_far_below_the_interval_are_found_to_a_share_of_it(zero):
    """Their last bits are out of reach where nothing but halving helps."""
    slope = Mock(wraps=jump(None, zero))
    found = intercept._zero(slope, -3e4, 1e4)
    assert slope.call_count <= 302
    assert slope(found) > 0.0
    assert found - zero <= 4e4 * 2.0**-75


@pytest.mark.parametrize("value", [0.0, 1.0, np.nan])
def test_an_end_that_is_no_sign_change_is_the_answer(value):
    """A zero there, the wrong sign, or no number at all."""
    first, last = Mock(wraps=lambda b: value), Mock(wraps=lambda b: -1.0 if b < 3.0 else -value)
    assert intercept._zero(first, 2.0, 3.0) == 2.0
    assert intercept._zero(last, 2.0, 3.0) == 3.0
    assert first.call_count == last.call_count == 2
