"""Ranges of sparse weights: every end is certified as good, duplicates are free, unique weights are not."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from makers import make_samples

from mklref import Lp, MulticlassProblem, Problem, certify, solve, weight_ranges
from mklref._ranges import WeightRanges, _score_intervals
from mklref.certificate import repair
from mklref.exceptions import InvalidInput, InvalidParameter, InvalidType, NotApplicable, SolverFailure
from mklref.kernels import gaussian, linear, per_variable
from mklref.regularizers import BlockNorm

N = 28
LOSSES = ["hinge", "squared", "logistic", "epsilon_insensitive"]


@pytest.fixture(scope="module")
def grams():
    rng = np.random.default_rng(5)
    X = make_samples(rng, N, 3)
    y = np.where(X[:, 0] + 0.5 * X[:, 1] + 0.7 * rng.normal(size=N) > 0, 1.0, -1.0)
    return list((gaussian([1.0, 4.0]) + per_variable(linear())).fit(X, normalize="multiplicative").dense()), y


def solved(kernels, y, loss="hinge", **more):
    problem = Problem(kernels, y, C=1.0, loss=loss, **more)
    return problem, solve(problem, tol=1e-9)


@pytest.mark.parametrize("loss", LOSSES)
def test_duplicates_share_their_weight_in_any_way(grams, loss):
    """As does a copy that is moved in feature space, where the intercept is free."""
    kernels, y = grams
    T = np.eye(N) + np.outer(np.ones(N), np.random.default_rng(1).normal(size=N)) / N
    problem, solution = solved([*kernels, T @ kernels[2] @ T.T], y, loss)
    found = weight_ranges(problem, solution, slack=1e-6)
    both = solution.weights[2] + solution.weights[5]
    one = solution.weights * [1, 1, 0, 1, 1, 0] + both * np.eye(6)[2]  # another optimum, and of another size
    again = weight_ranges(problem, replace(solution, weights=0.9 * one), slack=1e-6)
    np.testing.assert_allclose([again.low, again.high], [found.low, found.high], atol=1e-3)
    assert both > 0.1
    np.testing.assert_allclose([found.low[2], found.low[5]], 0.0, atol=1e-3)
    np.testing.assert_allclose([found.high[2], found.high[5]], both, atol=1e-2)
    assert found.exchangeable == ((2, 5),)
    assert found.determined().tolist() == [True, True, False, True, True, False]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("loss", LOSSES)
def test_the_optimum_lies_within_the_ranges_of_an_inexact_solution(grams, loss):
    kernels, y = grams
    problem, best = solved([*kernels, kernels[2]], y, loss)
    for tol in (1e-3, 1e-5):
        inexact = solve(problem, tol=tol)
        found = weight_ranges(problem, inexact, slack=2 * N * tol)
        for moved in (0.0, best.weights[5], -best.weights[2]):  # of the duplicates either may have it all
            theta = best.weights + moved * (np.eye(6)[2] - np.eye(6)[5])
            assert (found.low <= theta + 1e-7).all()
            assert (theta <= found.high + 1e-7).all()


@pytest.mark.sampled(2)
@pytest.mark.parametrize("loss", LOSSES)
def test_unique_weights_move_with_the_allowance_and_not_at_all_without(grams, loss):
    problem, solution = solved(*grams, loss)
    widths = []
    for slack in (1e-7, 1e-5, 1e-3):
        found = weight_ranges(problem, solution, slack=slack)
        assert (found.low <= found.weights).all()
        assert (found.weights <= found.high).all()
        assert found.exchangeable == ()
        widths.append(np.where(found.high > 1e-3, found.high - found.low, 0.0))
    assert (widths[0] <= widths[1] + 1e-6).all()
    assert (widths[1] <= widths[2] + 1e-6).all()
    assert widths[0].max() < 2e-3
    assert widths[2].max() > widths[0].max()


@pytest.mark.sampled(2)
@pytest.mark.parametrize("slack", [1e-3, 1e-8])
@pytest.mark.parametrize("loss", LOSSES)
def test_every_end_belongs_to_a_point_that_is_certified_as_good(grams, loss, slack, monkeypatch):
    kernels, y = grams
    problem, solution = solved([*kernels, kernels[2], 0.5 * (kernels[2] + kernels[3])], y, loss)
    require_certified_ends(problem, solution, slack, monkeypatch)


def test_dual_variables_of_another_C_are_made_feasible_and_their_gap_is_allowed(grams, monkeypatch):
    problem, solution = solved(*grams)
    assert np.abs(solution.dual_coef).max() > 0.2
    require_certified_ends(problem.replace(C=0.2), solution, 1e-4, monkeypatch)


def test_weights_far_from_the_best_have_no_more_to_spend(grams, monkeypatch):
    problem, solution = solved(*grams)
    require_certified_ends(problem, replace(solution, weights=np.full(5, 0.2)), 1e-4, monkeypatch)


def test_without_an_intercept_nothing_makes_up_for_a_constant():
    """Nor would it be missed: by symmetry the dual variables have the sum 0."""
    x, T = np.array([0.5, 1.0, 2.0, -0.5, -1.0, -2.0]), np.eye(6) + 0.5 * np.eye(1, 6)
    K = np.outer(x, x)
    found = weight_ranges(*solved([K, T @ K @ T.T], np.sign(x), intercept=False), slack=1e-6)
    assert found.exchangeable == ()
    np.testing.assert_allclose([found.low, found.high], [[1.0, 0.0]] * 2, atol=1e-3)


@pytest.mark.parametrize("loss", [*LOSSES, "pinball:0.8"])
def test_scores_go_as_far_as_their_share_of_the_residual(grams, loss):
    problem, solution = solved(*grams, loss)
    beta, scores = solution.dual_coef, solution.weights @ problem.kernels.apply(solution.dual_coef)

    def residual(t):
        return problem.costs * problem.loss.value(t, problem.y) + beta * t

    for sign, ends in zip((-1.0, 1.0), _score_intervals(problem, beta, scores, 1e-3), strict=True):
        far = np.abs(ends) > 1e6  # where slopes cancel up to rounding, or without an end
        assert (sign * ends >= 0.0).all()
        grown = residual(scores + np.where(far, sign * 1e6, ends)) - residual(scores)
        assert (grown[far] <= 1e-3).all()
        np.testing.assert_allclose(grown[~far], 1e-3, rtol=1e-6)


def require_certified_ends(problem, solution, slack, monkeypatch):
    """The points of the linear programs, recertified from scratch, are as good as the solution up to the slack."""
    import scipy.optimize

    points = []

    def recording(*args, **options):
        found = linprog(*args, **options)
        points.append(found.x)
        return found

    linprog = scipy.optimize.linprog
    monkeypatch.setattr(scipy.optimize, "linprog", recording)
    weight_ranges(problem, solution, slack=slack)
    assert len(points) >= 6
    theta, (beta, _) = solution.weights / solution.weights.sum(), repair(problem, solution.dual_coef)
    given, q = certify(problem, beta, weights=theta), problem.kernels.quadratic(beta)
    missing = 0.5 * (q.max() - q)
    budget = missing @ theta + 0.5 * slack * certify(problem, solution).size
    chosen = np.flatnonzero((missing * 1e-3 < budget) | (theta > 0.0))  # the second term alone forbids a weight of 1e-3
    for change in points:
        weights = theta.copy()
        weights[chosen] += change[:-1]
        assert weights.sum() == pytest.approx(1.0, abs=1e-8)
        assert missing @ weights <= budget * (1.0 + 1e-6)
        found = certify(problem, beta, weights=np.maximum(weights, 0.0))
        assert found.gap <= given.gap + 1.05 * slack * given.size + solution.certificate.gap


def test_the_intercept_is_the_best_one_whatever_the_solution_has(grams):
    problem, solution = solved(*grams)
    known, found = (weight_ranges(problem, one) for one in (solution, replace(solution, intercept=9.0)))
    np.testing.assert_array_equal([found.low, found.high], [known.low, known.high])


def test_three_kernels_that_depend_on_one_another(grams):
    """K_5 = (K_2 + K_3)/2: as good as its parts, as far as the parts have equal weight."""
    kernels, y = grams
    problem, solution = solved([kernels[2], kernels[3], 0.5 * (kernels[2] + kernels[3])], y)
    found = weight_ranges(problem, solution)
    assert np.ptp(problem.kernels.quadratic(solution.dual_coef)) < 1e-6
    assert found.exchangeable == ((0, 1, 2),)
    np.testing.assert_allclose(found.high[2] / 2.0, min(found.high[:2] - found.low[:2]), rtol=1e-2)
    worse = solved([*kernels, 0.5 * (kernels[0] + kernels[2])], y, "logistic")  # as dependent, but not as good
    assert weight_ranges(*worse, slack=1e-2).exchangeable == ()


def test_samples_beyond_the_margin_leave_room_that_no_dependence_explains():
    """f = y on samples 0 and 1 decides; kernel 1 says the same there and more on samples 2 and 3, beyond the margin."""
    y = np.array([1.0, -1.0, 1.0, -1.0])
    decisive = np.outer(y, y)
    more = np.outer(y * [1, 1, 3, 3], y * [1, 1, 3, 3])
    problem, solution = solved([2.0 * decisive, more + decisive], y, intercept=False)
    found = weight_ranges(problem, solution, slack=1e-6)
    assert found.exchangeable == ()
    for m, theta in enumerate((found.low[0], found.high[0])):
        point = certify(problem, solution.dual_coef, weights=[theta, 1.0 - theta], intercept=0.0)
        assert point.relative_gap < 1e-5, m
    np.testing.assert_allclose([found.low, found.high], [[0.0, 0.0], [1.0, 1.0]], atol=1e-4)


@pytest.mark.parametrize("loss", ["squared", "huber", "epsilon_insensitive"])
def test_where_nothing_is_to_be_learned_any_weights_are_as_good(grams, loss):
    kernels, y = grams
    found = weight_ranges(*solved(kernels, np.zeros(len(y)), loss))
    assert found.low.tolist() == [0.0] * len(kernels)
    assert found.high.tolist() == [1.0] * len(kernels)
    assert found.exchangeable == (tuple(range(len(kernels))),)


def test_the_report():
    names, weights = ("K0", "a longer one", "K2", "K3", "K4"), np.array([0.25, 0.745, 0.005, 0.0, 0.0])
    low, high = np.array([0.0, 0.741, 0.001, 0.0, 0.0]), np.array([0.5, 0.75, 0.03, 0.01, 0.02])
    lines = [
        "kernel        weight  as good within 1e-04",
        "K0            0.2500  0.0000 .. 0.5000  free",
        "a longer one  0.7450  0.7410 .. 0.7500  determined",
        "K2            0.0050  0.0010 .. 0.0300  between",
        "K4            0.0000  0.0000 .. 0.0200  free",
        "exchangeable at no cost: K0, K4",
    ]
    assert str(WeightRanges(names, weights, low, high, 1e-4, ((0, 4),))).splitlines() == lines


def test_block_norm_of_exponent_one_is_the_same_problem(grams):
    kernels, y = grams
    problem, solution = solved([*kernels, kernels[2]], y, regularizer=BlockNorm(1.0))
    assert weight_ranges(problem, solution).exchangeable == ((2, 5),)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("unit", [1e-9, 1e-6, 1e6])
@pytest.mark.parametrize("size", [1.0, 1e12])
def test_ranges_do_not_depend_on_the_units_of_targets_and_kernels(grams, unit, size):
    """Linear programs have absolute tolerances: at 1e-9 they were infeasible, and free weights called determined."""
    kernels, y = grams
    kernels = [*kernels, kernels[2]]
    known, found = (
        weight_ranges(problem, solve(problem, tol=1e-9), slack=1e-3)
        for problem in (
            Problem(kernels, y, C=1.0, loss="squared"),
            Problem([size * K for K in kernels], unit * y, C=1.0 / size, loss="squared"),
        )
    )
    assert known.high[5] - known.low[5] > 0.1
    np.testing.assert_allclose(found.low, known.low, atol=1e-3)
    np.testing.assert_allclose(found.high, known.high, atol=1e-3)


def test_solutions_of_other_kernels_or_without_weights_are_refused(grams):
    problem, solution = solved(*grams)
    fewer = solve(problem.replace(kernels=grams[0][:2]))
    nobody = replace(solution, weights=0.0 * solution.weights)
    wild = replace(solution, dual_coef=np.full(N, np.nan))
    for other, words in ((fewer, r"weights of shape \(2,\)"), (nobody, "weights that are all 0"), (wild, "not finite")):
        with pytest.raises(InvalidInput, match=f"solution has .*{words}"):
            weight_ranges(problem, other)


def test_a_linear_program_that_is_not_solved_is_no_range(grams, monkeypatch):
    import scipy.optimize

    problem, solution = solved(*grams)
    failed = scipy.optimize.OptimizeResult(status=4, message="Numerical difficulties.", x=None)
    monkeypatch.setattr(scipy.optimize, "linprog", lambda *args, **options: failed)
    with pytest.raises(SolverFailure, match="of the range of kernel 0 was not solved: Numerical difficulties"):
        weight_ranges(problem, solution)


def test_refusals(grams):
    problem, solution = solved(*grams)
    with pytest.raises(NotApplicable, match=r"regulariser is Lp\(2\): weights .* are unique"):
        weight_ranges(problem.replace(regularizer=Lp(2)), solution)
    several = MulticlassProblem(grams[0], np.arange(len(grams[1])) % 3)
    for one, other in ((several, solve(several)), (problem, None), (None, solution)):
        kinds = f"problem is {type(one).__name__} and solution {type(other).__name__}"
        with pytest.raises(InvalidType, match=f"{kinds}; give a mklref.Problem and the mklref.Solution of it. For"):
            weight_ranges(one, other)
    for slack in (0.0, -1.0, np.nan, np.inf):
        with pytest.raises(InvalidParameter, match=r"slack = .* must lie in \[1e-8, inf\)"):
            weight_ranges(problem, solution, slack=slack)
    with pytest.raises(InvalidType, match="slack is 'small'"):
        weight_ranges(problem, solution, slack="small")
