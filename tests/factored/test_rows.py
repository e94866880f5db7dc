"""Steps on a part of the rows or samples, and the approach by a rounder loss, lead where all of them do."""

from __future__ import annotations

from copy import copy

import numpy as np
import pytest
from makers import LOSSES, agree, make_factored_problem as problem, make_factors as rows, optimal
from scipy.sparse import csr_array, csr_matrix

import mklref
from mklref import Lp, kernels, losses
from mklref._run import Recorder
from mklref.factored import approach, path, solver
from mklref.factored.rounds import samples_for
from mklref.factored.shard import Own, Shard
from mklref.factored.step import line_of_weights
from mklref.kernels import factor_stack
from mklref.kernels.factor_sources import Source
from mklref.multiclass import STRATEGIES


def test_rows_are_drawn_without_bias_and_those_that_matter_always():
    L, score = rows(n=400)
    stack = kernels.FactorStack(L)
    samples = samples_for(losses.Hinge(), np.sign(score), np.ones(400))
    shard = Shard(stack, [Own(samples, None)], 0, 400, 400)
    D = shard.D[0] = np.where(np.arange(400) == 7, 1e4, np.random.default_rng(1).uniform(0.1, 1.0, 400))
    drawn = []
    for shard.count in range(300):
        drawn.append(shard._drawn(0, slice(0, None), np.ones(4), 100.0))
    drawn = np.array(drawn)
    assert np.all(drawn[:, 7] == 1e4)
    assert np.count_nonzero(drawn, axis=1).mean() == pytest.approx(100.0, rel=0.05)
    assert np.mean(drawn, axis=0) @ stack.own_diagonals.sum(axis=0) == pytest.approx(
        D @ stack.own_diagonals.sum(axis=0), rel=1e-3
    )
    assert np.array_equal(shard._drawn(0, slice(0, None), np.ones(4), 300.0), D)


@pytest.mark.parametrize("rare", [False, True])
def test_a_part_of_the_rows_makes_the_step_and_errors_that_matter_are_seen(monkeypatch, rare):
    """What a few rows alone have is drawn seldom; a step that lacks it is noticed, and taken with all rows."""
    monkeypatch.setattr("mklref.factored.path._ROWS", 20 if not rare else 2)
    monkeypatch.setattr("mklref.factored.path._CHEAP", 0.0)
    L, score = rows(n=2000, ranks=(3, 5))
    if rare:
        L.append(np.where(np.arange(2000)[:, None] % 100 == 0, 30.0 * L[0], 0.0))
    given = mklref.Problem(kernels.FactorStack(L), np.sign(score), regularizer=Lp(4 / 3))
    solution = optimal(given)
    counters = solution.history.counters
    assert counters["steps"] <= 30
    assert rare or counters["grams"] < 0.4 * counters["steps"]
    monkeypatch.undo()
    agree(solution, mklref.solve(given))


@pytest.mark.parametrize("cheap", [0.0, np.inf])
def test_features_that_say_nothing_of_the_labels_have_no_part_in_the_answer(monkeypatch, cheap):
    """f = b is best: L'beta has to vanish, which it does not where L'DL is that of a few rows only."""
    monkeypatch.setattr("mklref.factored.path._CHEAP", cheap)
    rng = np.random.default_rng(0)
    y, L = np.sign(rng.normal(size=(500, 3))[:, 0]), rng.normal(size=(500, 2))
    for factors in ([L], [0.0 * L, L]):
        solution = optimal(mklref.Problem(kernels.FactorStack(factors), y))
        assert solution.objective == pytest.approx(438.0, rel=1e-6)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_class_that_a_part_of_the_samples_would_miss_has_its_machine(monkeypatch, strategy):
    monkeypatch.setattr(solver, "_FEWEST", 20)
    X = np.random.default_rng(0).normal(size=(400, 2))
    y = 1 * (X[:, 0] > 0.0)
    y[3] = 2
    problem = mklref.MulticlassProblem(kernels.FactorStack([X]), y, regularizer=Lp(2), strategy=strategy)
    optimal(problem, tol=1e-3)


def test_groups_that_share_their_weights_start_from_a_part_of_the_samples(monkeypatch):
    monkeypatch.setattr(solver, "_FEWEST", 20)
    optimal(problem(losses.Hinge(), mklref.Groups([[0, 2], [1, 3]], 0.7, 0.0), n=1500, C=1.0))


ENDS = [losses.Hinge(), losses.SquaredHinge(), losses.Huber(0.5), losses.EpsilonInsensitive(0.2), losses.Pinball(0.3)]


@pytest.mark.parametrize("loss", ENDS, ids=str)
def test_a_sample_that_settles_is_where_the_path_ends_and_stays_there_for_scores_within_its_clearance(loss):
    rng = np.random.default_rng(0)
    f, y, costs = 2.0 * rng.normal(size=200), np.sign(rng.normal(size=200)), rng.uniform(0.5, 2.0, 200)
    samples = samples_for(loss, y, costs)
    samples.f[:] = f
    samples.begin(slice(None), 1e-9)
    clear, end = samples.clearance(slice(None)), samples.beta.copy()
    away = np.flatnonzero(clear > 1e-3)
    assert len(away) > 20
    samples.settle(away)
    assert np.allclose(samples.beta[away], end[away], atol=1e-5)
    bent = []
    for share in (-1.001, -0.999, 0.999, 1.001):
        change = share * clear
        rise = costs * (loss.value(f + change, y) - loss.value(f, y))
        bent.append((rise + samples.beta * change)[away] > 1e-12)
    assert not np.any(bent[1:3])
    assert np.all(bent[0] | bent[3])


def test_a_look_that_finds_no_sample_near_is_followed_by_a_wider_one(monkeypatch):
    """Rows were divided by their share, 0, and then the same look went on until `max_iter`."""
    honest = path.Path._near
    monkeypatch.setattr(path, "_CHEAP", 0.0)
    monkeypatch.setattr(path.Path, "_near", lambda self: 1e-9 if self.away == 1.0 else honest(self))
    given = problem(losses.Pinball(0.3), Lp(np.inf), n=400, intercept=False)
    optimal(given, max_iter=60)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("loss", ENDS, ids=str)
def test_steps_that_leave_samples_out_lead_to_the_same_answer(monkeypatch, loss):
    given = problem(loss, Lp(4 / 3), n=1500, ranks=(3, 5), C=1.0)
    monkeypatch.setattr(path, "_CHEAP", 0.0)
    monkeypatch.setattr(path, "suits", lambda path: False)
    monkeypatch.setattr(path, "_ROUGH", 0.1)
    monkeypatch.setattr(path, "_LARGEST", 0.95)
    monkeypatch.setattr("mklref.factored.nearby._MOST", 1.0)
    found = optimal(given)
    monkeypatch.setattr(path, "_ROUGH", 0.0)
    whole = optimal(given)
    agree(found, whole)
    assert found.history.counters["passes"] % 1.0 > 0.0  # of some rows only
    assert whole.history.counters["passes"] % 1.0 == 0.0
    for record in found.history.records:  # whoever was left out, the bounds hold
        assert record.lower <= whole.certificate.upper * (1.0 + 1e-5)
        assert record.upper >= whole.certificate.lower * (1.0 - 1e-5)


@pytest.mark.parametrize("loss", ENDS, ids=str)
def test_beta_of_a_rounder_loss_minimises_what_it_is_to_minimise(loss):
    rng = np.random.default_rng(0)
    f, y, costs = 2.0 * rng.normal(size=100), np.sign(rng.normal(size=100)), rng.uniform(0.5, 2.0, 100)
    samples = samples_for(loss, y, costs)
    form, width = loss.quadratic_dual(y), 0.3
    lower, upper = (np.clip(end, -10.0 * costs, 10.0 * costs) for end in loss.box(y, costs))
    grid = lower + np.linspace(0.0, 1.0, 8001)[:, None] * (upper - lower)
    values = (f - form.linear) * grid + form.absolute * np.abs(grid) + form.curvature * grid**2 / (2.0 * costs)
    if samples.kinked:
        legs = [np.maximum(grid, 0.0), np.minimum(grid, 0.0)] if form.absolute else [grid - lower]
        for leg in legs:
            half = 0.5 * (np.where(leg.min(axis=0) < 0.0, lower, upper - (0.0 if form.absolute else lower)))
            values += width * (leg - half) ** 2 / (2.0 * costs)
    found = {}
    for shift in (-1e-5, 0.0, 1e-5):
        samples.f[:] = f + shift
        (D, pull), found[shift] = samples.rounded(slice(None), width), samples.beta.copy()
        assert not pull.any()
    assert np.allclose(found[0.0], np.take_along_axis(grid, values.argmin(axis=0)[None], 0)[0], atol=5e-3)
    slope = (found[-1e-5] - found[1e-5]) / 2e-5
    assert np.mean(np.abs(slope - D) < 1e-3) > 0.98  # a score at an end of the width has two slopes
    assert 0 < np.count_nonzero(D) < 100


@pytest.mark.parametrize("unit", [1.0, 1e-200])
def test_a_logistic_sample_goes_as_far_as_its_score_and_never_onto_an_end(unit):
    """A step that ended where the first sample met its end was a fifth of one, for a hundred steps."""
    rng = np.random.default_rng(0)
    y, costs = np.where(rng.random(200) < 0.5, -1.0, 1.0), unit * rng.uniform(0.5, 2.0, 200)
    samples, where = samples_for(losses.Logistic(), y, costs), slice(None)
    samples.f[:] = y * 3.0
    samples.begin(where, 1.0)
    before = samples.a.copy()
    df = y * rng.choice([1e-6, 5.0, 20.0, -1e-6, -20.0, -1e3], 200)  # outwards for those above 0
    for worst in (samples.first(where, df)[0], samples.second(where, df, 0.0, 1.0)[0], samples.third(where, 0.0 * df)):
        assert worst == 0.0
    samples.move(where, 1.0, centred=False)
    assert np.all((samples.a > 0.0) & (samples.a < costs))
    own, out = samples.costs / (1.0 + np.exp(y * samples.f)), y * df > 0.0
    assert np.allclose(samples.a[out], own[out], rtol=1e-6, atol=0.0)
    small = y * df == -1e-6
    assert np.allclose((samples.a - before)[small], (own - before)[small], rtol=1e-4, atol=0.0)


def with_an_approach_and_without(monkeypatch, given):
    """Solutions that agree; L'DL counts as dear however small it is."""
    monkeypatch.setattr(path, "_CHEAP", 0.0)
    monkeypatch.setattr(approach, "_step", solving_its_model)
    found = optimal(given)
    monkeypatch.setattr(path, "suits", lambda path: False)
    other = optimal(given)
    agree(found, other)
    return found, other


def solving_its_model(path, grams, vectors, first, honest=approach._step):
    """A step, which has to bring v, 1'beta, s z and the line of s of the model to where it says."""
    there, w, gap = copy(path), path.w, path.gap
    told = honest(path, grams, vectors, first)
    step = np.column_stack([path.v - there.v, path.b - there.b])
    moved = np.einsum("pij,pj->pi", grams, step)
    assert told == pytest.approx(np.sqrt(np.sum(step * moved) / grams[:, -1, -1].sum()))
    there, theta = copy(path), path.theta[path.owner]
    there.w = w - moved[:, :-1]
    assert np.sum((theta * there.w - path.v) ** 2 / theta) < 2e-3 * gap
    assert max(path.s @ path.z, np.abs(line_of_weights(there)[0]).sum()) < 0.02 * gap
    if path.first.intercept:
        size = np.abs(vectors[:, -1]).max()
        assert vectors[:, -1, 1:].sum(axis=1) - moved[:, -1] == pytest.approx(0.0, abs=0.01 * size)
    return told


@pytest.mark.sampled(3)
@pytest.mark.parametrize("loss", [loss for loss in LOSSES if not loss.intercept_cost], ids=str)
def test_the_approach_by_a_rounder_loss_leads_to_the_same_answer(monkeypatch, loss):
    L, score = rows(n=1500, ranks=(3, 5))
    y = {"labels": np.sign(score), "real": score, "ones": np.ones(1500)}[loss.targets]
    options = {"loss": loss, "regularizer": Lp(4 / 3), "intercept": loss.intercept != "forbidden"}
    found, other = with_an_approach_and_without(monkeypatch, mklref.Problem(kernels.FactorStack(L), y, **options))
    smooth = loss.name in ("squared_hinge", "logistic", "squared", "squared_epsilon_insensitive")
    assert found.history.counters["passes"] < other.history.counters["passes"] * (0.4 if smooth else 1.6)
    for record in found.history.records:
        assert record.lower <= other.certificate.upper * (1.0 + 1e-9)
        assert record.upper >= other.certificate.lower * (1.0 - 1e-9)


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("loss", "C", "most"),
    [
        (losses.Hinge(), 1e-4, 1.6),
        (losses.Hinge(), 100.0, 0.5),
        (losses.Hinge(), 1e4, 1.6),
        (losses.SquaredEpsilonInsensitive(0.2), 1e4, 0.5),
    ],
    ids=str,
)
def test_where_an_approach_does_not_help_it_costs_half_more_at_most(monkeypatch, loss, C, most):
    """What brings nothing begins the path anew, from its own start."""
    given = problem(loss, Lp(1), n=1500, ranks=(3, 5), C=C)
    found, other = with_an_approach_and_without(monkeypatch, given)
    assert found.history.counters["passes"] < other.history.counters["passes"] * most


@pytest.mark.parametrize("separable", [False, True])
def test_the_path_begins_anew_where_an_approach_brought_nothing(monkeypatch, separable):
    """From where it ended the path takes twice as many passes, for labels by chance and for those without an error."""
    rng = np.random.default_rng(0)
    L = [rng.standard_normal((1500, rank)) for rank in (4, 5)]
    y = np.sign(L[0].sum(axis=1) if separable else rng.standard_normal(1500))
    given = mklref.Problem(kernels.FactorStack(L), y, C=100.0, regularizer="l1")
    found, other = with_an_approach_and_without(monkeypatch, given)
    assert found.history.counters["passes"] < other.history.counters["passes"] * 1.4


def test_targets_beyond_any_scale_are_left_to_the_path(monkeypatch):
    """No width is wide enough for an approach."""
    monkeypatch.setattr(path, "_CHEAP", 0.0)
    L, score = rows(n=400, ranks=(3, 5))
    optimal(mklref.Problem(kernels.FactorStack(L), 1e25 * score, loss=losses.EpsilonInsensitive(0.1)))


def test_too_few_samples_near_the_bends_are_given_up(monkeypatch):
    """Chosen at the first step, almost all of them wrongly: they are looked at again, and nothing of it stays."""
    monkeypatch.setattr(path, "_CHEAP", 0.0)
    monkeypatch.setattr(path, "_ROUGH", np.inf)
    monkeypatch.setattr(path, "_FIRST", 0.02)
    L, score = rows(n=600, ranks=(3, 5))
    y = np.digitize(score, [-1.0, 1.0])
    given = mklref.MulticlassProblem(kernels.FactorStack(L), y, regularizer="l1", strategy="one_vs_one")
    found = optimal(given)
    monkeypatch.undo()
    agree(found, mklref.solve(given))


def test_beta_goes_on_from_the_solution_for_equal_weights():
    """Made anew of its scores L'beta is C n times as far from v as they are from the solution."""
    L, score = rows(n=400, ranks=(1, 2, 1, 1, 1, 1))
    found = mklref.solve(
        mklref.Problem(kernels.FactorStack(L), np.sign(score), loss="squared_hinge", C=1e4, regularizer=Lp(1))
    )
    assert found.history.counters["steps"] <= 14  # 11; 24 without


@pytest.mark.parametrize("p", [1, 2])
def test_columns_far_from_0_and_classes_of_other_sizes_have_an_intercept_to_begin_with(p):
    """Else L'beta is that of the larger class, and no step is long: with C = 1e5 it ended in a gap of the optimum."""
    L, score = rows(n=100)
    given = mklref.Problem(kernels.FactorStack([10.0 + one for one in L]), np.where(score > 1.0, 1, -1), C=1e5)
    found = optimal(given.replace(regularizer=Lp(p)))
    assert found.history.counters["steps"] <= 25  # 15, 16


@pytest.mark.sampled(2)
@pytest.mark.parametrize("loss", [losses.Hinge(), losses.DensityLevelSet()], ids=str)
def test_a_run_that_ends_later_is_no_worse(loss):
    """Bounds of the path are no certificate: the gap of the second step was 3 and 17 times that of the first."""
    given = problem(loss, Lp(1), C=10.0, intercept=loss.intercept != "forbidden")
    gaps = [mklref.solve(given, max_iter=steps).certificate.gap for steps in range(1, 6)]
    assert np.all(np.diff(gaps) <= 0.0)


def test_no_earlier_points_are_judged_once_the_time_is_over(monkeypatch, calls_of):
    judged = calls_of(solver, "_solution")
    monkeypatch.setattr(Recorder, "late", property(lambda run: len(run.records) >= 4))
    assert mklref.solve(problem(losses.Hinge(), Lp(1), C=10.0)).status is mklref.Status.TIME_LIMIT
    assert len(judged) == 1


@pytest.mark.parametrize("loss", [losses.Hinge(), losses.Squared(), losses.EpsilonInsensitive(0.1)], ids=str)
def test_a_goal_below_the_rounding_of_a_certificate_costs_few_of_them(calls_of, loss):
    """It cost 24 to 90 of them, of points that all were optimal up to rounding, and up to thirty times as long."""
    given = problem(loss, Lp(4 / 3), n=1000)
    assert given.n_samples * given.kernels.rank > path._LITTLE
    judged = calls_of(solver, "certify")
    found = mklref.solve(given, tol=1e-14)
    assert found.status is mklref.Status.STALLED
    assert found.certificate.gap < 2.0 * found.certificate.rounding
    assert len(judged) <= 3
    judged.clear()
    optimal(given)
    assert len(judged) <= 2
    assert all(beta.any() for _, beta in judged)  # which f = 0 needs alone


def test_a_run_that_has_to_end_certifies_what_it_has_shown_and_keeps_nobody_waiting(monkeypatch, calls_of):
    """All of nine certificates took four times as long as the whole solution would have."""
    given, judged = problem(losses.Hinge(), Lp(4 / 3), n=1000, C=10.0), calls_of(solver, "certify")
    shown = mklref.solve(given, max_iter=3)
    assert shown.status is mklref.Status.ITERATION_LIMIT
    assert len(judged) <= 2
    assert shown.certificate.relative_gap <= 1.1 * shown.history.records[-1].relative_gap
    monkeypatch.setattr(solver, "_CONFIRMED", 0.0)
    judged.clear()
    every = mklref.solve(given, max_iter=3)
    assert len(judged) > 3
    judged.clear()
    monkeypatch.setattr(Recorder, "seconds", property(lambda _: 1.0 + len(judged)))  # each takes as long as the run
    monkeypatch.setattr(Recorder, "late", property(lambda run: len(run.records) >= 3))
    late = mklref.solve(given)
    assert late.status is mklref.Status.TIME_LIMIT
    assert len(judged) == 2
    assert every.certificate.gap <= late.certificate.gap


@pytest.mark.parametrize(
    ("loss", "p", "most"), [(losses.Hinge(), 1, 2), (losses.SquaredHinge(), np.inf, 3), (losses.Logistic(), 1, 4)]
)
def test_a_run_that_ends_far_from_anything_is_not_worse_than_f_0(calls_of, loss, p, most):
    """Bounds that say less than f = 0 were confirmed: a relative gap ends at 1, at 1e9 times the objective of f = 0."""
    given, judged = problem(loss, Lp(p), n=1000, C=1e3), calls_of(solver, "certify")
    found, nothing = mklref.solve(given, max_iter=1), given.C * float(loss.value(np.zeros(1000), given.y).sum())
    assert found.status is mklref.Status.ITERATION_LIMIT
    assert found.history.records[-1].relative_gap > 0.9
    assert len(judged) <= most
    assert found.certificate.gap <= nothing * (1.0 + 1e-9)
    assert found.objective <= nothing * (1.0 + 1e-9)


def test_limits_end_a_run_whose_goal_the_certificate_does_not_confirm(monkeypatch):
    monkeypatch.setattr(solver, "_MARGIN", 1e4)  # the path says so far too early
    given = problem(losses.Hinge(), Lp(2))
    for steps in (2, 5):
        stopped = mklref.solve(given, callback=lambda record, last=steps - 1: record.iteration >= last)
        ended = mklref.solve(given, max_iter=steps)
        assert [one.status for one in (stopped, ended)] == [mklref.Status.STOPPED, mklref.Status.ITERATION_LIMIT]
        assert len(stopped.history.records) == len(ended.history.records) == steps


@pytest.mark.parametrize(("loss", "most", "gap"), [(losses.Squared(), 8, 1e-5), (losses.Logistic(), 18, 4e-3)], ids=str)
def test_weights_that_fit_v_end_a_smooth_path(loss, most, gap):
    given = problem(loss, Lp(1), n=1000, C=10.0)
    found = optimal(given)
    assert found.history.counters["passes"] <= most  # 16 and 25 where the path's own have to be right
    assert mklref.solve(given, max_iter=2, tol=1e-9).certificate.relative_gap < gap  # 1e-3 and 1e-2 with its own


@pytest.mark.parametrize("form", [np.asfortranarray, np.float32, csr_matrix, csr_array], ids=lambda form: form.__name__)
def test_arrays_in_memory_are_read_once_in_a_solve_and_where_that_takes_much_memory_at_each_step(
    monkeypatch, calls_of, form
):
    L, score = rows()
    stack = kernels.FactorStack([form(one) for one in L])
    given, read = mklref.Problem(stack, np.sign(score), regularizer=Lp(2)), calls_of(Source, "read")
    found = mklref.solve(given)
    assert len(read) == len(L)
    monkeypatch.setattr(factor_stack, "_COPIED", stack.dtype.itemsize * stack.shape[1] * stack.rank - 1)
    again = mklref.solve(given)
    assert len(read) > 20 * len(L)
    assert np.array_equal(found.dual_coef, again.dual_coef)
    assert np.array_equal(found.weights, again.weights)
