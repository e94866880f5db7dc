"""The last digits of solutions for kernels as factors: dual variables that lead to v, and functions through targets."""

from __future__ import annotations

from dataclasses import replace
from unittest.mock import Mock

import numpy as np
import pytest
from makers import ROWS, make_factored_problem as problem, make_factors as rows, optimal
from scipy.sparse import csr_array

import mklref
from mklref import ElasticNet, Lp, kernels, losses
from mklref.certificate import numerical
from mklref.factored import bounds, path, shard, solver as factored
from mklref.native import tuning
from mklref.solution import Status


@pytest.mark.thorough
def test_what_a_move_of_beta_leaves_of_its_sum_is_not_spread():
    """Classes apart, at a scale where 4e-9 of the sum, spread over all samples, moves scores by what C n magnifies."""
    for seed in (4, 9):
        rng = np.random.default_rng(seed)
        L = 300.0 * rng.normal(size=(21, 8))
        y = np.where(L @ rng.normal(size=8) > 0.0, 1, -1)
        solution = mklref.solve(mklref.Problem(kernels.FactorStack([L]), y, C=1000.0))
        assert solution.certificate.relative_gap < 1e-4


@pytest.mark.parametrize(("kind", "sparse"), [("f8", False), ("f4", False), ("f8", True)])
def test_sums_of_many_rows_are_those_of_their_definition(kind, sparse, rng):
    """L'DL of blocks that end anywhere: rows wait for others, and sums in float32 go to float64 now and then."""
    L, D = rng.normal(size=(20_000, 3)), rng.uniform(size=20_000) * (rng.uniform(size=20_000) < 0.9)
    D[:2100] *= np.arange(2100) % 3 == 0  # of the first blocks few rows count
    made = shard._Gram(3, sparse, np.dtype(kind))
    for block in np.split(np.arange(20_000), range(700, 20_000, 700)):
        made.add(csr_array(L[block]) if sparse else L[block].astype(kind), D[block])
    expected = (D[:, None] * L).T @ L
    assert np.abs(made.total()[:-1, :-1] - expected).max() <= (1e-12 if kind == "f8" else 1e-5) * expected.max()


@pytest.mark.parametrize("loss", ["pinball:0.3", "epsilon_insensitive:0"])
def test_functions_through_the_targets_are_certified_where_columns_outnumber_the_samples(loss):
    """v has a part that no beta leads to; the move of beta took it for one with a little curvature, gaps were 1e-3."""
    for seed in range(4):
        rng = np.random.default_rng(seed)
        L = [3.0 * rng.normal(size=(6, 3)) for _ in range(5)]
        y = 1e-3 * (L[0][:, 0] + rng.normal(size=6))
        given = mklref.Problem(kernels.FactorStack(L), y, loss=loss, C=5.0, regularizer=Lp(4 / 3))
        optimal(given, tol=1e-5)


@pytest.mark.parametrize(("loss", "C"), [("hinge", 1e4), ("hinge", 1e6), ("one_class", 1e6)])
def test_a_margin_without_errors_is_certified_and_few_samples_support_it(loss, C):
    """Near to an end was a share of C, and every variable is smaller: gaps were 5e-4, or no variable was 0."""
    L, _ = rows(n=100)
    L[0] += 0.3 * np.sign(L[0])
    y = np.ones(100) if loss == "one_class" else np.sign(L[0][:, 0])
    L = [one + 2.0 for one in L] if loss == "one_class" else L
    solution = optimal(mklref.Problem(kernels.FactorStack(L), y, loss=loss, C=C, regularizer=Lp(4 / 3)))
    assert np.count_nonzero(solution.dual_coef) <= 20


def test_the_scale_of_the_factors_says_nothing_of_how_beta_moves_to_v():
    """Beside the column of the intercept those of 1e-7 were taken for none."""
    rng, gaps = np.random.default_rng(1), []
    L = [rng.normal(size=(15, r)) for r in (6, 5)]
    y = np.sign(L[0][:, 0] + 0.5 * rng.normal(size=15))
    for scale in (2.0**-23, 1.0, 2.0**23):
        stack = kernels.FactorStack([scale * one for one in L])
        found = mklref.solve(mklref.Problem(stack, y, C=1e5 / scale**2, regularizer=Lp(4 / 3)))
        gaps.append(found.certificate.relative_gap)
    assert gaps == pytest.approx(gaps[1:2] * 3, rel=0.2)


def test_variables_without_room_stay_where_they_are():
    """The matrix of what would move them is 0; NaN came out of it."""
    given = problem(losses.Hinge(), Lp(2))
    point = path.Point(np.ones((1, 14)), np.zeros(1), np.ones(4), np.ones(4), 1.0)
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):  # as in a run
        assert not bounds.towards(given, point, np.zeros((1, ROWS)), np.ones(4)).any()
        given.kernels.sources[0].data[:] = 1e200  # after the stack was made
        beta = 0.1 * given.y[None]
        assert np.array_equal(bounds.towards(given, point, beta, np.ones(4)), beta)


def test_beta_is_short_where_functions_pass_through_the_targets(monkeypatch):
    """In the middle of the boxes, where the path ends, its rounding alone was 1e-5 of the optimum and more."""
    L, _ = rows(n=600, ranks=(4,) * 6)
    stack = kernels.FactorStack([10.0 * one for one in L])
    given = mklref.Problem(stack, L[0][:, 0] - L[1][:, 1], loss="pinball:0.3", C=100.0, regularizer=Lp(np.inf))
    monkeypatch.setattr(numerical, "_VISIBLE", np.inf)  # as for rows on workers
    monkeypatch.setattr(tuning, "REFINED", 0)
    optimal(given)


@pytest.mark.thorough
def test_a_path_that_can_go_on_certifies_few_points(monkeypatch, calls_of):
    """All of them took half of a run whose goal was confirmed a step later."""
    honest, made, judged = factored._solution, [], calls_of(factored, "certify")

    def counted(*arguments, few=False, **options):
        before = len(judged)
        found = honest(*arguments, few=few, **options)
        made.append((few, len(judged) - before))
        return found

    monkeypatch.setattr(factored, "_solution", counted)
    monkeypatch.setattr(factored, "_MARGIN", 1e3)  # the path says so far too early
    optimal(problem(losses.Hinge(), Lp(4 / 3)))
    assert len(made) > 2
    assert max(count for few, count in made if few) <= 7
    mklref.solve(problem(losses.Hinge(), Lp(4 / 3)), tol=1e-300)
    assert max(count for few, count in made if not few) > 7


def test_rounding_alone_ends_a_run_only_where_no_beta_is_much_shorter():
    """Of half the length is half of the rounding, which is all that a goal of 1e-6 misses here."""
    given = problem(losses.Pinball(0.5), Lp(2), C=10.0)
    along, beta = Mock(costly=True, kinked=True, problem=given), 5.0 * np.sign(given.y)[None]
    hidden, wide = Mock(size=1.0, gap=3e-6, rounding=2.5e-6), Mock(size=1.0, gap=5e-6, rounding=2.5e-6)
    assert bounds.only_rounding(along, hidden, beta, 1e-6)
    assert not bounds.only_rounding(along, hidden, 0.5 * beta, 1e-6)  # that of 0 may do as well
    smooth = Mock(costly=True, kinked=False, problem=given)  # where all points have that rounding
    for tol, ends in ((1e-6, True), (2.3e-6, True), (2.45e-6, False)):
        assert bounds.only_rounding(smooth, hidden, 0.5 * beta, tol) is ends
    for certificate, tol in ((wide, 1e-6), (hidden, 2e-6)):
        assert not bounds.only_rounding(along, certificate, beta, tol)
    assert not bounds.only_rounding(Mock(costly=False), hidden, beta, 1e-6)


def test_short_beta_keep_what_kernels_whose_weights_vanish_have_of_them():
    """It is not in v: the lower bound was -36 times the optimum, of a problem whose gap then was 1e-4."""
    L, score = rows()
    stack = kernels.FactorStack([10.0**m * one for m, one in zip((0, -2, 1, -3), L, strict=True)])
    given = mklref.Problem(stack, score, loss="pinball:0.3", C=1e3, regularizer=ElasticNet(0.5))
    beta = np.random.default_rng(0).uniform(-300.0, 300.0, ROWS)
    beta -= beta.mean()
    theta, images = np.array([1.0, 1e-20, 0.5, 0.0]), stack.transposed(beta)
    point = path.Point((theta[stack.owner] * images)[None], np.zeros(1), theta, theta, 1.0)
    short = bounds.towards(given, point, bounds.unloaded(given, beta[None]), theta, beta[None])[0]
    assert stack.transposed(short) == pytest.approx(images, rel=1e-9)
    assert np.linalg.norm(short) < 0.9 * np.linalg.norm(beta)
    assert abs(short.sum()) < 1e-9
    assert abs(bounds.towards(given, point, beta[None] + 1.0, theta).sum()) < 1e-9 * ROWS  # of 1 for each before


def test_beta_of_several_machines_moves_to_v_where_they_have_samples():
    L, score = rows()
    y = np.digitize(score, [-1.0, 1.0])
    given = mklref.MulticlassProblem(kernels.FactorStack(L), y, loss="squared_hinge", strategy="one_vs_one")
    beta, theta = mklref.solve(given).dual_coef, np.arange(1.0, 5.0)
    point = path.Point(given.kernels.coefficients(beta, theta).T, np.zeros(3), theta, theta, 1.0)
    moved = bounds.towards(given, point, beta * np.random.default_rng(0).uniform(0.99, 1.01, beta.shape), theta)
    reached = given.kernels.coefficients(moved, theta).T
    assert reached == pytest.approx(point.v, rel=1e-9)
    assert not moved[beta == 0.0].any()


def through_the_targets(loss, C, p, seed, unit=1.0):
    rng = np.random.default_rng(seed)
    L, y = [rng.normal(size=(20, 40)), rng.normal(size=(20, 30))], rng.normal(size=20)
    y = np.sign(y) if loss == "hinge" else y
    stack = kernels.FactorStack([unit * one for one in L])
    return mklref.Problem(stack, y, loss=loss, C=C / unit**2, regularizer=Lp(p))


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("shards", "unit"), [(1, 1.0), (3, 1e6)])
@pytest.mark.parametrize(("loss", "C", "p"), [("pinball:0.5", 1e5, 1), ("pinball:0.5", 1e6, 1.3)])
def test_a_path_that_ends_beside_the_targets_has_its_last_digits_from_its_active_set(
    monkeypatch, loss, C, p, shards, unit
):
    """Residuals of 1e-12 cost C each; the gap was 2e-5, 1e-3 and more, on six kinds of processors."""
    monkeypatch.setattr(tuning, "REFINED", 0)  # nor by way of matrices
    given = through_the_targets(loss, C, p, seed=3, unit=unit)
    found = optimal(given.replace(kernels=given.kernels.sharded(shards)))
    assert mklref.certify(given, found, rigorous=True).is_optimal(1e-6)


def test_who_interrupts_the_last_digits_has_what_was_certified_before_them(monkeypatch):
    def elsewhere(path, tol):
        path.rounds.sum("begin", 1e6, np.zeros(1))
        path.rounds.sum("keep")
        path.points.clear()
        path.best = path.best._replace(v=0.0 * path.best.v)
        raise KeyboardInterrupt

    monkeypatch.setattr(factored, "finished", elsewhere)
    with pytest.raises(mklref.Interrupted) as told:
        mklref.solve(through_the_targets("pinball:0.5", 1e5, 1, seed=3))
    assert told.value.solution.status is Status.INTERRUPTED
    assert told.value.solution.certificate.relative_gap < 1e-2


@pytest.mark.thorough
def test_a_path_that_ends_beside_the_targets_goes_on_by_way_of_the_matrices(monkeypatch):
    """Where its active set is not that of the solution: the gap was 3e-5 and more."""
    given, honest = through_the_targets("hinge", 1e9, 1, seed=11), mklref.factored.solve_factored
    paths = []
    monkeypatch.setattr(mklref.factored, "solve_factored", lambda *_, **o: paths.append(honest(*_, **o)) or paths[-1])
    found = mklref.solve(given)
    assert (found.status, found.solver) == (Status.OPTIMAL, "factored")
    assert mklref.certify(given, found, rigorous=True).is_optimal(1e-6)
    assert mklref.solve(given, max_iter=3).status is Status.ITERATION_LIMIT
    stalled = paths[0]
    assert stalled.status is Status.STALLED
    monkeypatch.setattr(mklref.factored, "solve_factored", lambda *_, **__: stalled)
    monkeypatch.setattr(tuning, "ENTRIES", 799)  # of 800
    assert mklref.solve(given) is stalled
    monkeypatch.setattr(tuning, "ENTRIES", 800)
    assert mklref.solve(given, client="with the same rows").certificate == found.certificate

    monkeypatch.setattr(kernels.FactorStack, "dense", Mock(side_effect=MemoryError))
    assert mklref.solve(given).certificate == stalled.certificate


def test_the_rounding_of_a_few_small_dual_variables_beside_many_of_size_C_hides_no_solution():
    """What slices of beta left was bounded by their length: 1e-5 of the optimum, in a gap of 6e-8."""
    L, score = rows(n=3000, ranks=(20, 20))
    y = score + np.random.default_rng(1).normal(size=3000)
    given = mklref.Problem(kernels.FactorStack(L), y, loss="pinball:0.5", C=1e9, regularizer=Lp(2))
    optimal(given)


@pytest.mark.parametrize("shards", [1, 3])
@pytest.mark.parametrize(("loss", "p"), [("squared", 2), ("epsilon_insensitive", 1)])
def test_dual_variables_lead_to_the_scores_of_the_path(loss, p, shards):
    """Its bounds are those of v; those of theta L'beta, which a certificate sees, were 1e5 times as far apart."""
    L, score = rows(n=600, ranks=(4,) * 6)
    stack = kernels.FactorStack([(1.0 + m % 3) * one for m, one in enumerate(L)]).sharded(shards)
    optimal(mklref.Problem(stack, score, loss=loss, C=1e4, regularizer=Lp(p)))


def test_of_the_points_at_which_a_path_stalled_the_best_is_returned(monkeypatch):
    """Bounds of the path are no certificate: a later point may be a worse one."""
    honest, made = factored._solution, []

    def worse_each_time(*arguments, **options):
        solution = honest(*arguments, **options)
        made.append(replace(solution.certificate, lower=-1.0 - len(made)))
        return replace(solution, certificate=made[-1])

    monkeypatch.setattr(factored, "_solution", worse_each_time)
    monkeypatch.setattr(tuning, "REFINED", 0)  # nor by way of matrices
    found = mklref.solve(problem(losses.Hinge(), Lp(4 / 3)), tol=1e-300)  # which no path reaches
    assert len(made) > 1
    assert found.certificate == made[0]
