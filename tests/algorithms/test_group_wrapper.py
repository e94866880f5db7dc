"""Szafranski's group wrapper: certified where the problem is convex, stationary and without a gap where it is not."""

from __future__ import annotations

import dataclasses
import itertools
import re
import sys

import numpy as np
import pytest
from algorithms.cases import complaints
from makers import make_problem, pressed

import mklref
from mklref import Fixed, Groups, Status, reference
from mklref.algorithms import StationaryPoint, group_wrapper
from mklref.algorithms.base import Run
from mklref.algorithms.group_wrapper import GroupPoint, GroupWeights, project
from mklref.exceptions import InvalidParameter, InvalidType
from mklref.solution import History

GROUPS = ((0, 1, 2), (3, 4), (5, 6, 7, 8), (9,))
CONVEX = ((0.5, 0.5), (1, 0), (0.2, 0.8), (0.8, 0.2), (0, 1), (0.3, 0.3))
BEYOND = ((1, 1), (0.6, 0.6), (2, 0.5), (0, 1.3))
every_convex = pytest.mark.parametrize(("p", "q"), CONVEX)
every_other = pytest.mark.parametrize(("p", "q"), BEYOND)


def grouped(p=0.5, q=0.5, seed=1, **arguments):
    return make_problem(seed=seed, n=24, M=10, regularizer=Groups(GROUPS, p, q), **arguments)


@pytest.mark.sampled(3)
@every_convex
def test_agrees_with_cvxpy(p, q):
    problem = grouped(p, q)
    truth = reference.solve(problem, "mixed_norm").certificate
    assert complaints(problem, group_wrapper(problem, tol=1e-6), 1e-6, truth) == []


def test_without_a_warm_start():
    problem = grouped()
    solution = group_wrapper(problem, warm_start=0, tol=1e-5)
    assert complaints(problem, solution, 1e-5, mklref.solve(problem).certificate) == []


def test_the_euclidean_metric_hardly_moves_below_exponent_1():
    """The reason for the metric of the weights, which is not in the paper."""
    problem = grouped(seed=5)
    ours = group_wrapper(problem, max_iter=100)
    theirs = group_wrapper(problem, max_iter=100, metric="euclidean")
    assert ours.status is Status.OPTIMAL
    assert theirs.status is Status.ITERATION_LIMIT
    assert theirs.certificate.relative_gap > 100.0 * ours.certificate.relative_gap


@pytest.mark.parametrize(("p", "q"), [(1, 0), (0, 1)])
def test_at_exponent_1_both_metrics_arrive(p, q):
    problem = grouped(p, q)
    assert group_wrapper(problem, metric="euclidean").status is Status.OPTIMAL


@pytest.mark.parametrize("seed", [3, 4, 5])
def test_the_objective_never_rises(seed):
    """Seeds for which the first length of some steps is too long, so that the line search has work to do."""
    solution = group_wrapper(grouped(seed=seed), tol=1e-6)
    objective = solution.history.column("objective")
    assert len(objective) > 10
    assert np.diff(objective).max() <= 1e-12 * objective[0]
    assert solution.history.counters["svm"] > 1.2 * len(objective)


def test_no_step_ends_in_a_corner():
    """A step of full length would put all groups but one at the edge here, from where the way back is as long again."""
    assert len(group_wrapper(grouped(seed=3), tol=1e-5).history) < 80


@every_convex
def test_a_group_without_weight_comes_back(p, q):
    problem = grouped(p, q)
    best = mklref.solve(problem)
    corner = np.zeros(10)
    corner[np.argmin(best.weights)] = 1.0
    start = mklref.Solution(np.zeros(24), corner, 0.0, np.inf, best.certificate, Status.STALLED)
    machine = mklref.solve(problem.replace(regularizer=Fixed(corner)))
    start = dataclasses.replace(start, dual_coef=machine.dual_coef)  # norms that are 0 but for one kernel
    solution = group_wrapper(problem, start=start)
    first = solution.history.records[0].weights
    owner = problem.regularizer.group_of
    assert first[owner != owner[np.argmax(corner)]].max() < 1e-4 * first.max()
    assert complaints(problem, solution, 1e-4, best.certificate) == []


# The weights and their gradient.


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("p", "q"), [*CONVEX, *BEYOND])
def test_gradient_by_finite_differences(p, q, rng):
    """Of J(sigma1, sigma2), the value of the machine at sigma1^p sigma2^q, in every coordinate."""
    problem = grouped(loss="squared")
    run = Run("test", problem, 1e-9, 1)
    shape = GroupWeights(GROUPS, p, q)
    sigma = rng.uniform(0.05, 0.3, size=14)

    def value(sigma):
        return run.svm(shape.weights(sigma)).value

    gradient = shape.gradient(sigma, run.gradient(run.svm(shape.weights(sigma))))
    step = 1e-5
    for k, unit in enumerate(np.eye(14)):
        slope = (value(sigma + step * unit) - value(sigma - step * unit)) / (2 * step)
        assert gradient[k] == pytest.approx(slope, rel=1e-5, abs=1e-7)


@every_convex
def test_closed_form_is_that_of_the_regularizer(p, q, rng):
    rho = rng.uniform(0.0, 2.0, size=10)
    shape, regularizer = GroupWeights(GROUPS, p, q), Groups(GROUPS, p, q)
    np.testing.assert_allclose(shape.weights(shape.closed_form(rho)), regularizer.weights_from_norms(rho), rtol=1e-12)
    assert [shape.prices[part] @ shape.even[part] for part in shape.simplices] == pytest.approx([1.0, 1.0], rel=1e-12)


@every_other
def test_closed_form_beyond_convexity_attains_the_penalty(p, q, rng):
    """(8) at the closed form is (9), and no random point of the simplices is lower."""
    rho = rng.uniform(0.1, 2.0, size=10)
    shape = GroupWeights(GROUPS, p, q)
    gamma, gamma0 = 2 / (q + 1), 2 / (p + q + 1)
    blocks = [
        len(group) ** (1 - gamma0 / gamma) * (rho[list(group)] ** gamma).sum() ** (gamma0 / gamma) for group in GROUPS
    ]
    attained = 0.5 * (rho**2 / shape.weights(shape.closed_form(rho))).sum()
    assert attained == pytest.approx(0.5 * sum(blocks) ** (2 / gamma0), rel=1e-12)
    for _ in range(200):
        sigma = np.concatenate([rng.dirichlet(np.ones(4)) / shape.sizes, rng.dirichlet(np.ones(10))])
        assert 0.5 * (rho**2 / np.maximum(shape.weights(sigma), 1e-300)).sum() >= attained * (1 - 1e-12)


def test_projection_by_definition(rng):
    """argmin sum (z - x)^2/metric over the weighted simplex, by cvxpy."""
    import cvxpy as cp

    for size in (1, 2, 7):
        x, prices, metric = rng.normal(size=size), rng.integers(1, 5, size=size), rng.uniform(0.1, 2.0, size=size)
        z = cp.Variable(size, nonneg=True)
        distance = cp.sum(cp.multiply(1 / metric, cp.square(z - x)))
        cp.Problem(cp.Minimize(distance), [prices @ z == 1]).solve(solver="CLARABEL")
        np.testing.assert_allclose(project(x, prices.astype(float), metric), z.value, atol=1e-6)


def test_projection_of_a_huge_point_is_still_on_the_simplex(rng):
    x = 1e18 * rng.normal(size=6)
    z = project(x, np.ones(6), np.ones(6))
    assert z.sum() == pytest.approx(1.0)
    assert z[np.argmax(x)] == pytest.approx(1.0)


# Beyond convexity.


@every_other
def test_stationary_point(p, q):
    problem = grouped()
    point = group_wrapper(problem, exponents=(p, q), tol=1e-6)
    assert type(point) is StationaryPoint
    assert point.status is Status.STATIONARY
    assert 0.0 <= point.residual <= 1e-6
    assert point.history.records[-1].measures["residual"] == point.residual
    assert not hasattr(point, "certificate")
    assert np.all(point.history.column("lower") == -np.inf)
    # Everything belongs to one point.
    sizes = np.array([len(group) for group in GROUPS])
    owner = np.repeat(np.arange(4), sizes)
    np.testing.assert_allclose(point.weights, point.sigma1[owner] ** p * point.sigma2**q, rtol=1e-14)
    assert sizes @ point.sigma1 == pytest.approx(1.0, abs=1e-12)
    assert point.sigma2.sum() == pytest.approx(1.0, abs=1e-12)
    assert min(point.sigma1.min(), point.sigma2.min()) >= 0.0
    machine = problem.replace(regularizer=Fixed(point.weights))
    solution = dataclasses.replace(point.machine, history=History(point.history.records[:1]))
    assert complaints(machine, solution, 1e-6) == []
    assert point.objective == pytest.approx(min(point.objectives), rel=1e-9)


def test_restarts_find_other_ends_and_keep_the_lowest():
    problem = grouped(seed=3)
    alone = group_wrapper(problem, exponents=(1, 1))
    several = group_wrapper(problem, exponents=(1, 1), restarts=5, rng=np.random.default_rng(0))
    again = group_wrapper(problem, exponents=(1, 1), restarts=5, rng=np.random.default_rng(0))
    assert len(alone.objectives) == 1
    assert len(several.objectives) == 6
    assert several.objectives[0] == pytest.approx(alone.objective, rel=1e-6)
    assert max(several.objectives) > 1.01 * min(several.objectives)  # local minima
    assert several.objective == pytest.approx(min(several.objectives), rel=1e-9)
    assert several.objectives == again.objectives
    assert several.objectives[0] > min(several.objectives)  # the lowest end is not the first one
    owner = problem.regularizer.group_of
    np.testing.assert_allclose(several.weights, several.sigma1[owner] * several.sigma2, rtol=1e-14)
    assert several.history.counters["starts"] == 6.0


def test_limits_and_the_callback_end_a_stationary_run():
    problem = grouped()
    assert group_wrapper(problem, exponents=(0.6, 0.6), tol=1e-9, max_iter=3).status is Status.ITERATION_LIMIT
    seen = []
    further = {"exponents": (0.6, 0.6), "tol": 1e-9, "restarts": 2, "rng": np.random.default_rng(0)}  # they end too
    stopped = group_wrapper(problem, **further, callback=lambda record: seen.append(record) or 1)
    assert stopped.status is Status.STOPPED
    assert len(seen) == len(stopped.history) == 1
    further["tol"] = 1e-3
    enough = group_wrapper(problem, **further, callback=lambda record: record.measures["residual"] <= 1e-3)
    assert (enough.status, len(enough.objectives)) == (Status.STATIONARY, 1)  # at a goal, too
    late = group_wrapper(problem, **further, max_time=1e-9)
    assert (late.status, len(late.objectives)) == (Status.TIME_LIMIT, 1)


def test_interruption_keeps_the_lowest_point():
    with pytest.raises(mklref.Interrupted, match="residual of stationarity") as stopped:
        group_wrapper(grouped(), exponents=(1, 1), tol=1e-9, callback=pressed(3))
    assert stopped.value.solution.status is Status.INTERRUPTED


def test_a_stationary_point_predicts():
    problem = grouped()
    point = group_wrapper(problem, exponents=(1, 1))
    scores = point.decision_function(problem.kernels)
    expected = np.tensordot(point.weights, problem.kernels.dense(), 1) @ point.dual_coef + point.intercept
    np.testing.assert_allclose(scores, expected, rtol=1e-10)
    assert "no bound on the minimum" in str(point)


# The criterion of 6.1.


@pytest.mark.parametrize(
    ("options", "status"),
    [
        ({"tol": 1e-4}, Status.OPTIMAL),
        ({"tol": 1e-3, "metric": "euclidean"}, Status.INACCURATE),  # at a gap of 0.6 %
        ({"tol": 1e-4, "exponents": (0.6, 0.6)}, Status.STATIONARY),
        ({"tol": 1e-3, "exponents": (0.6, 0.6), "metric": "euclidean"}, Status.INACCURATE),
    ],
)
def test_a_run_stops_by_change_at_the_first_iteration_that_meets_both_parts_of_6_1(options, status, monkeypatch):
    home, seen = sys.modules[GroupWeights.__module__], []
    monkeypatch.setattr(home, "GroupPoint", lambda *parts: seen.append(GroupPoint(*parts)) or seen[-1])
    tol, problem = options["tol"], grouped(seed=1 if status is Status.STATIONARY else 4)
    found = group_wrapper(problem, stop="change", **options)
    changes = [np.inf]
    for before, now in itertools.pairwise(seen):
        J, J_before = now.point.value, before.point.value
        moves = [np.abs(before.sigma1 - now.sigma1) / (1 + now.sigma1)]
        moves += [np.abs(before.sigma2 - now.sigma2) / (1 + now.sigma2)]
        changes.append(max(np.sqrt(abs(J_before - J) / J), *np.concatenate(moves)))  # epsilon = tol^2
    assert [record.measures["change"] for record in found.history] == pytest.approx(changes, rel=1e-12)
    assert min(changes[:-1]) > tol >= changes[-1]
    assert found.status is status


# Refusals.


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"exponents": (0.5, 0.5)}, InvalidParameter, "up to 1 the problem is convex: put Groups(groups, p, q) into"),
        ({"exponents": (-1, 3)}, InvalidParameter, "exponents = (-1, 3) must be nonnegative"),
        ({"exponents": 2}, InvalidParameter, "exponents = 2 must be two numbers"),
        ({"exponents": (1, np.nan)}, InvalidParameter, "must be nonnegative with p + q > 1"),
        ({"exponents": (1, 1), "restarts": 2}, InvalidType, "rng is None; give a numpy Generator"),
        ({"exponents": (1, 1), "restarts": -1}, InvalidParameter, "restarts = -1 must be an integer of at least 0"),
        ({"restarts": 2}, InvalidParameter, "a convex one has no other minimum"),
        ({"warm_start": 1.5}, InvalidType, "warm_start is 1.5 (float); give an integer"),
        ({"metric": "l1"}, InvalidParameter, "metric = 'l1' is unknown; known names: weights, euclidean"),
        ({"stop": "kkt"}, InvalidParameter, "stop = 'kkt' is unknown; known names: gap, change"),
    ],
)
def test_bad_options_are_refused(options, error, message):
    with pytest.raises(error, match=re.escape(message)):
        group_wrapper(grouped(), **options)
