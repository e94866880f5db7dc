"""Kernels as factors and the same kernels as matrices: both solvers say the same, by certified intervals."""

from __future__ import annotations

import h5py
import numpy as np
import pytest
from scipy.sparse import csr_matrix

import mklref
from mklref import ElasticNet, Fixed, Groups, Lp, kernels, losses
from mklref.exceptions import KernelsLost, NotApplicable
from mklref.factored import path, solver as factored
from mklref.factored.nearby import Nearby
from mklref.factored.rounds import samples_for
from mklref.factored.shard import Own, Shard
from mklref.multiclass import STRATEGIES
from mklref.solution import Status

N, RANKS = 48, (3, 5, 2, 4)


def rows(seed=0, n=N, ranks=RANKS):
    rng = np.random.default_rng(seed)
    L = [rng.normal(size=(n, r)) / np.sqrt(r) for r in ranks]
    score = L[0][:, 0] - 2.0 * L[1][:, 1] + 0.4 * rng.normal(size=n)
    return L, score


def problem(loss, regularizer, seed=0, n=N, ranks=RANKS, **options):
    L, score = rows(seed, n, ranks)
    y = np.sign(score) if loss.targets == "labels" else score
    if loss.targets == "ones":  # with 0 in the hull of the samples the optimum would be 0
        L, y = [np.abs(one) + 0.1 for one in L], np.ones(len(score))
    return mklref.Problem(kernels.FactorStack(L), y, loss=loss, regularizer=regularizer, **{"C": 0.7, **options})


def matrices(problem):
    return problem.replace(kernels=problem.kernels.dense_stack())


REGULARIZERS = [
    Lp(1),
    Lp(4 / 3),
    Lp(2),
    Lp(np.inf),
    Fixed([0.5, 0.0, 2.0, 1.0]),
    ElasticNet(0.4),
    ElasticNet(0.4, "ivanov"),
    Groups([[0, 2], [1, 3]], 0.5, 0.5),
    Groups([[0, 2], [1, 3]], 0.7, 0.0),
    Groups([[0, 2], [1, 3]], 0.2, 0.3),
]
LOSSES = [
    losses.Hinge(),
    losses.SquaredHinge(),
    losses.Logistic(),
    losses.Squared(),
    losses.Huber(0.5),
    losses.EpsilonInsensitive(0.2),
    losses.SquaredEpsilonInsensitive(0.2),
    losses.Pinball(0.3),
    losses.OneClass(),
    losses.DensityLevelSet(),
]


def agree(one, other):
    a, b = one.certificate, other.certificate
    assert a.lower <= b.upper
    assert b.lower <= a.upper


@pytest.mark.sampled(3)
@pytest.mark.parametrize("regularizer", REGULARIZERS, ids=str)
@pytest.mark.parametrize("loss", LOSSES, ids=str)
def test_the_certificate_on_matrices_confirms_the_solver_on_factors(loss, regularizer):
    given = problem(loss, regularizer, intercept=loss.intercept != "forbidden")
    solution = mklref.solve(given)
    assert solution.status is mklref.Status.OPTIMAL
    assert len(solution.history) <= 18
    same = mklref.certify(matrices(given), solution.dual_coef, weights=solution.weights, intercept=solution.intercept)
    assert same.is_optimal(1e-6)
    assert same.upper == pytest.approx(solution.certificate.upper, rel=1e-9)
    assert same.lower == pytest.approx(solution.certificate.lower, rel=1e-9)


@pytest.mark.parametrize(("loss", "regularizer"), list(zip(LOSSES, REGULARIZERS, strict=True)), ids=str)
def test_both_solvers_agree(loss, regularizer):
    given = problem(loss, regularizer, intercept=loss.intercept == "required")
    weight = np.random.default_rng(1).uniform(0.5, 2.0, N)
    given = given.replace(sample_weight=weight)
    agree(mklref.solve(given), mklref.solve(matrices(given)))


@pytest.mark.parametrize("strategy", ["one_vs_rest", "one_vs_one"])
@pytest.mark.parametrize("loss", ["hinge", "logistic"])
def test_several_classes_share_their_weights(loss, strategy):
    L, score = rows()
    y = np.digitize(score, [-1.0, 1.0])
    given = mklref.MulticlassProblem(kernels.FactorStack(L), y, loss=loss, regularizer=Lp(4 / 3), strategy=strategy)
    solution = mklref.solve(given)
    assert solution.status is mklref.Status.OPTIMAL
    agree(solution, mklref.solve(given.replace(kernels=given.kernels.dense_stack())))
    v = given.kernels.coefficients(solution.dual_coef, solution.weights)
    scores = solution.decision_function(given.kernels.dense())
    assert np.allclose(given.kernels.product(v) + solution.intercept, scores)


@pytest.mark.parametrize("loss", [losses.Logistic(), losses.Squared()], ids=str)
def test_where_no_function_pays_its_penalty_the_weights_are_0(loss):
    """The path begins there, with v = 0; with its weights f was not 0, and the gap a third of the optimum."""
    solution = mklref.solve(problem(loss, ElasticNet(0.4), C=1e-4, intercept=False))
    assert solution.status is Status.OPTIMAL, solution.certificate
    assert not solution.weights.any()


@pytest.mark.parametrize("seed", [0, 1])
def test_few_rows_of_low_rank_keep_the_sum_of_beta(seed):
    """1'beta missed c_b by what rows that were left out of L'DL had of it: no lower bound, a gap of 700."""
    given = problem(losses.OneClass(), ElasticNet(0.15, "ivanov"), seed, 2000, (1, 2), C=0.05)
    assert mklref.solve(given).status is Status.OPTIMAL


@pytest.mark.parametrize("seed", [0, 7])
def test_steps_are_short_where_phi_is_steep(seed):
    loss, regularizer = losses.EpsilonInsensitive(0.2), Groups([[0, 2], [1, 3]], 0.67, 0.33)
    given = problem(loss, regularizer, seed, 60, (3, 13, 9, 3), C=0.1, intercept=False)
    assert mklref.solve(given).status is Status.OPTIMAL


def test_scores_that_steps_have_left_off_are_computed_anew(monkeypatch):
    """What rounding leaves of scores that once were 1e8."""
    begin = Shard.begin

    def off(self, tau, shift):
        total = begin(self, tau, shift)
        for samples, _ in self.machines:
            samples.f += 1e-8 * np.cos(np.arange(len(samples.f)))  # an intercept would make up for equal errors
        return total

    monkeypatch.setattr(Shard, "begin", off)
    monkeypatch.setattr(path, "_RANGE", (0.0, 0.0))  # all in float64, so that no other look computes them
    solution = mklref.solve(problem(losses.OneClass(), Lp(2)), tol=1e-8)
    assert solution.status is Status.OPTIMAL


def test_variables_without_room_stay_where_they_are():
    """The matrix of what would move them is 0; NaN came out of it."""
    given = problem(losses.Hinge(), Lp(2))
    point = path.Point(np.ones((1, 14)), np.zeros(1), np.ones(4), np.ones(4), 1.0)
    with np.errstate(invalid="ignore", divide="ignore"):  # as in a run
        assert not factored._towards(given, point, np.zeros((1, N)), np.ones(4)).any()


def test_the_storage_of_the_rows_changes_nothing(tmp_path):
    L, score = rows(ranks=(3, 5))
    L = [np.where(np.abs(one) > 0.2, one, 0.0).astype(np.float32) for one in L]
    y = np.sign(score)
    whole = np.hstack(L)
    np.save(tmp_path / "rows.npy", whole)
    mapped = np.load(tmp_path / "rows.npy", mmap_mode="r")
    forms = {
        "arrays": L,
        "views": [whole[:, :3], whole[:, 3:]],
        "memory map": [mapped[:, :3], mapped[:, 3:]],
        "float64": [one.astype(np.float64) for one in L],
        "one sparse": [csr_matrix(L[0]), L[1]],
        "sparse": [csr_matrix(one) for one in L],
    }
    solutions = {
        name: mklref.solve(mklref.Problem(kernels.FactorStack(form), y, regularizer="l2"))
        for name, form in forms.items()
    }
    for solution in solutions.values():
        assert solution.status is mklref.Status.OPTIMAL
        agree(solution, solutions["arrays"])


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_class_that_a_part_of_the_samples_would_miss_has_its_machine(monkeypatch, strategy):
    monkeypatch.setattr(factored, "_FEWEST", 20)
    X = np.random.default_rng(0).normal(size=(400, 2))
    y = 1 * (X[:, 0] > 0.0)
    y[3] = 2
    problem = mklref.MulticlassProblem(kernels.FactorStack([X]), y, regularizer=Lp(2), strategy=strategy)
    assert mklref.solve(problem, tol=1e-3).status is Status.OPTIMAL


def test_a_part_of_the_samples_and_another_solution_are_starts():
    given = problem(losses.Hinge(), Lp(4 / 3), n=18000, ranks=(3, 5), C=0.1)
    cold = mklref.solve(given)
    path = mklref.solve_path(given, C=[0.1, 0.12, 0.15])
    assert all(one.status is mklref.Status.OPTIMAL for one in [cold, *path])
    assert len(path[1].history) < len(cold.history)
    agree(path[0], cold)


def test_the_bits_depend_on_the_shards_alone_and_the_answer_not_on_them():
    given = problem(losses.Hinge(), Lp(1), n=300, C=1.0)
    one, two, again = (mklref.solve(given.replace(kernels=given.kernels.sharded(k))) for k in (1, 3, 3))
    assert np.array_equal(two.dual_coef, again.dual_coef)
    agree(one, two)
    few = np.arange(90)  # the last of three shards is empty
    part = given.replace(kernels=given.kernels.part(few), y=given.y[few])
    agree(mklref.solve(part), mklref.solve(part.replace(kernels=given.kernels.sharded(3).part(few))))


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
    solution = mklref.solve(given)
    assert solution.status is mklref.Status.OPTIMAL
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
        solution = mklref.solve(mklref.Problem(kernels.FactorStack(factors), y))
        assert solution.status is mklref.Status.OPTIMAL
        assert solution.objective == pytest.approx(438.0, rel=1e-6)


ENDS = [
    losses.Hinge(),
    losses.SquaredHinge(),
    losses.Huber(0.5),
    losses.EpsilonInsensitive(0.2),
    losses.Pinball(0.3),
]


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


def two_machines(form):
    """Machines that share the rows, one of which sees some of them only; rows, targets, and a point."""
    L, score = rows(n=400)
    y, some = np.sign(score), np.arange(0, 400, 3)
    own = [Own(samples_for(losses.Hinge(), y, np.ones(400)), None)]
    own.append(Own(samples_for(losses.Hinge(), -y[some], np.ones(len(some))), some))
    shard = Nearby(Shard(kernels.FactorStack([form(one) for one in L]), own, 0, 400, 400))
    v, b = np.random.default_rng(1).normal(size=(2, 14)), np.array([0.1, -0.2])
    return shard, np.hstack(L), y, some, v, b


@pytest.mark.parametrize("form", [np.asarray, csr_matrix])
def test_samples_near_the_bends_and_the_sums_of_the_others_are_the_whole_problem(form):
    shard, whole, y, some, v, b = two_machines(form)
    shard.score(v, b)
    shard.begin(0.1, 0.0)
    counts = shard.clearances().sums[0]
    assert counts.sum() == 400 + len(some)
    v = v + 0.01
    vectors, sums, told, (squares, number) = shard.look(0.0, False, v, b, 0.1, 0.3, 2).sums
    assert number == 0.0
    assert 0 < told[0, 0] < 200
    for p, (samples, index) in enumerate(shard.whole.machines):
        index = slice(None) if index is None else index
        f, labels = whole[index] @ v[p] + b[p], y[index] * (1.0 - 2.0 * p)
        assert np.allclose(samples.f, f)
        far = np.abs(1.0 - labels * f) > 0.3
        assert np.array_equal(~far, shard.near[p])
        assert told[p].tolist() == pytest.approx(
            [np.sum(~far), *np.sort([labels[~far].clip(-1, 0).sum(), labels[~far].clip(0).sum()])]
        )
        settled = np.where(far & (labels * f < 1.0), labels, 0.0)
        assert np.allclose(vectors[p].sum(axis=1)[:-1], whole[index].T @ settled)
        assert sums[p, 0] == pytest.approx(np.maximum(0.0, 1.0 - labels * f)[far].sum())
        assert np.array_equal(samples.beta[far], settled[far])
    weights, before = np.ones(4), [samples.beta.copy() for samples, _ in shard.whole.machines]
    few = shard.assemble(0.0, False, weights, 10.0, np.inf, 2).sums[1]
    for p, (_, index) in enumerate(shard.whole.machines):
        index = slice(None) if index is None else index
        total = (few[p, :, 1:] + vectors[p]).sum(axis=1)
        assert np.allclose(total[:-1], whole[index].T @ before[p])
        assert total[-1] == pytest.approx(before[p].sum())
    _, _, _, (squares, number) = shard.look(0.0, False, v + 0.1, b, 0.1, np.inf, 2).sums
    assert number == 400 + len(some) - told[:, 0].sum()
    assert squares > 0.0
    assert shard.steps is shard.whole
    assert all(near.all() for near in shard.near)


@pytest.mark.parametrize("loss", ENDS, ids=str)
def test_steps_that_leave_samples_out_lead_to_the_same_answer(monkeypatch, loss):
    given = problem(loss, Lp(4 / 3), n=1500, ranks=(3, 5), C=1.0)
    monkeypatch.setattr(path, "_CHEAP", 0.0)
    monkeypatch.setattr(path, "suits", lambda path: False)
    monkeypatch.setattr(path, "_ROUGH", 0.1)
    monkeypatch.setattr(path, "_LARGEST", 0.95)
    monkeypatch.setattr("mklref.factored.nearby._MOST", 1.0)
    found = mklref.solve(given)
    monkeypatch.setattr(path, "_ROUGH", 0.0)
    whole = mklref.solve(given)
    assert found.status is whole.status is mklref.Status.OPTIMAL
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
        D, found[shift] = samples.rounded(slice(None), width), samples.beta.copy()
    assert np.allclose(found[0.0], np.take_along_axis(grid, values.argmin(axis=0)[None], 0)[0], atol=5e-3)
    slope = (found[-1e-5] - found[1e-5]) / 2e-5
    assert np.mean(np.abs(slope - D) < 1e-3) > 0.98  # a score at an end of the width has two slopes
    assert 0 < np.count_nonzero(D) < 100


def test_a_round_with_a_rounder_loss_is_its_newton_system():
    shard, whole, y, some, v, b = two_machines(np.asarray)
    whole = np.hstack([whole, np.ones((400, 1))])
    grams, vectors, sums, told = shard.evaluate(v, b, 0.8, np.ones(4), np.inf, 2).sums
    between = 0
    for p, (index, labels) in enumerate([(np.arange(400), y), (some, -y[some])]):
        rows_of = whole[index]
        margin = 1.0 - labels * (rows_of @ np.append(v[p], b[p]))
        beta, D = labels * np.clip(0.5 + margin / 0.8, 0.0, 1.0), (np.abs(margin) < 0.4) / 0.8
        assert np.allclose(vectors[p].sum(axis=1), rows_of.T @ beta)
        assert np.allclose(grams[p], rows_of.T @ (D[:, None] * rows_of))
        assert sums[p, 0] == pytest.approx(np.maximum(0.0, margin).sum())
        between += np.count_nonzero(D)
    assert told.tolist() == [between, between]


def with_an_approach_and_without(monkeypatch, given):
    """Solutions that agree; L'DL counts as dear however small it is."""
    monkeypatch.setattr(path, "_CHEAP", 0.0)
    found = mklref.solve(given)
    monkeypatch.setattr(path, "suits", lambda path: False)
    other = mklref.solve(given)
    assert found.status is other.status is mklref.Status.OPTIMAL
    agree(found, other)
    return found, other


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
    found = mklref.solve(mklref.Problem(kernels.FactorStack(L), 1e25 * score, loss=losses.EpsilonInsensitive(0.1)))
    assert found.status is mklref.Status.OPTIMAL


def test_too_few_samples_near_the_bends_are_given_up(monkeypatch):
    """Chosen at the first step, almost all of them wrongly: they are looked at again, and nothing of it stays."""
    monkeypatch.setattr(path, "_CHEAP", 0.0)
    monkeypatch.setattr(path, "_ROUGH", np.inf)
    monkeypatch.setattr(path, "_FIRST", 0.02)
    L, score = rows(n=600, ranks=(3, 5))
    y = np.digitize(score, [-1.0, 1.0])
    given = mklref.MulticlassProblem(kernels.FactorStack(L), y, regularizer="l1", strategy="one_vs_one")
    found = mklref.solve(given)
    assert found.status is mklref.Status.OPTIMAL
    monkeypatch.undo()
    agree(found, mklref.solve(given))


def test_what_the_solver_does_not_take_is_said():
    given = problem(losses.Hinge(), mklref.Power(1.5))
    with pytest.raises(NotApplicable, match="dense_stack"):
        mklref.solve(given)
    with pytest.raises(NotApplicable, match="lower tol"):
        mklref.solve(problem(losses.Hinge(), Lp(1)), polish=True)
    assert mklref.solve(matrices(given)).status is mklref.Status.OPTIMAL


@pytest.mark.parametrize("loss", [losses.Hinge(), losses.SquaredHinge(), losses.EpsilonInsensitive(0.2)], ids=str)
def test_samples_that_do_not_matter_have_a_dual_variable_of_zero(loss):
    """As in the solver on matrices, or exact kernels would be read whole from there; 1'beta = 0 stays."""
    given = problem(loss, Lp(2), C=1.0)
    found, other = mklref.solve(given), mklref.solve(matrices(given))
    zero = found.dual_coef == 0.0
    assert zero.any()
    assert np.all(np.abs(other.dual_coef[zero]) <= 1e-3)
    assert np.count_nonzero(zero) >= 0.9 * np.count_nonzero(other.dual_coef == 0.0)
    assert abs(found.dual_coef.sum()) < 1e-10
    free = problem(losses.Logistic(), Lp(2))
    assert np.all(mklref.solve(free).dual_coef != 0.0)


def test_limits_end_in_the_best_certified_point():
    given = problem(losses.Hinge(), Lp(1))
    short = mklref.solve(given, max_iter=4)
    assert short.status is mklref.Status.ITERATION_LIMIT
    assert short.certificate.lower <= mklref.solve(given).objective <= short.certificate.upper
    stopped = mklref.solve(given, callback=lambda record: record.iteration == 2)
    assert (stopped.status, len(stopped.history)) == (mklref.Status.STOPPED, 3)

    def impatient(record):
        if record.iteration == 3:
            raise KeyboardInterrupt

    with pytest.raises(mklref.Interrupted) as told:
        mklref.solve(given, callback=impatient)
    assert np.isfinite(told.value.solution.certificate.gap)


@pytest.mark.parametrize(
    "regularizer",
    [
        *(ElasticNet(lam, form) for lam in (1e-9, 1.0 - 1e-3, 1.0 - 1e-9) for form in ("tikhonov", "ivanov")),
        Lp(1.0 + 1e-9),
        Lp(1e6),
        Lp(1e300),
        Groups([[0, 2], [1, 3]], 0.5, 1e-300),
        Groups([[0, 2], [1, 3]], 1e-3, 1e-3),
    ],
    ids=str,
)
@pytest.mark.parametrize("loss", [losses.Hinge(), losses.Logistic(), losses.SquaredHinge()], ids=str)
def test_regularisers_at_the_ends_of_their_parameters_are_solved(loss, regularizer):
    """Where a net is close to p = inf all its weights are near their top: in theta itself no step was long."""
    given = problem(loss, regularizer)
    found = mklref.solve(given)
    assert found.status is Status.OPTIMAL
    agree(found, mklref.solve(matrices(given)))


@pytest.mark.parametrize(
    ("n", "loss", "regularizer", "C", "seed"),
    [
        (400, "huber", ElasticNet(0.5, "ivanov"), 10.0, 1),
        (400, "huber", Lp(1), 100.0, 0),
        (400, "squared_hinge", Groups([[0, 1], [2, 3]], 1, 0), 10.0, 0),
        (400, "epsilon_insensitive", Groups([[0, 1], [2, 3]], 0.3, 0.3), 10.0, 1),
        (1500, "squared", Lp(4 / 3), 100.0, 2),
        (5000, "huber", Lp(2), 10.0, 0),
    ],
    ids=str,
)
def test_weights_of_a_penalty_that_is_a_small_share_of_the_objective_are_found(n, loss, regularizer, C, seed):
    """All of the signal is in one kernel: the bounds of the path meet, in v and beta, long before its weights do."""
    rng = np.random.default_rng(seed)
    L = [rng.normal(size=(n, 2)) for _ in range(4)]
    scores = 3.0 * L[0][:, 0] + rng.normal(size=n)
    y = np.sign(scores) if loss == "squared_hinge" else scores
    solution = mklref.solve(mklref.Problem(kernels.FactorStack(L), y, C=C, loss=loss, regularizer=regularizer))
    assert solution.status is Status.OPTIMAL
    assert len(solution.history) <= 60


@pytest.mark.parametrize("regularizer", [Lp(4 / 3), ElasticNet(0.4, "ivanov"), Groups([[0, 2], [1, 3]], 0.7, 0.0)])
@pytest.mark.parametrize(("loss", "C"), [(losses.SquaredHinge(), 1e9), (losses.SquaredEpsilonInsensitive(0.2), 1e7)])
def test_a_smooth_loss_with_a_large_C_begins_at_its_solution_for_equal_weights(loss, C, regularizer):
    """L'beta of f = 0 is C times too large, and would take all weights to 0 in a step."""
    found = mklref.solve(problem(loss, regularizer, C=C))
    assert found.status is Status.OPTIMAL
    if isinstance(loss, losses.SquaredHinge):  # those of equal weights are counted; the other loss needs them no more
        assert found.history.counters["steps"] > len(found.history.records)


@pytest.mark.parametrize("shards", [1, 3])
@pytest.mark.parametrize(("loss", "p"), [("squared", 2), ("epsilon_insensitive", 1)])
def test_dual_variables_lead_to_the_scores_of_the_path(loss, p, shards):
    """Its bounds are those of v; those of theta L'beta, which a certificate sees, were 1e5 times as far apart."""
    L, score = rows(n=600, ranks=(4,) * 6)
    stack = kernels.FactorStack([(1.0 + m % 3) * one for m, one in enumerate(L)]).sharded(shards)
    found = mklref.solve(mklref.Problem(stack, score, loss=loss, C=1e4, regularizer=Lp(p)))
    assert found.status is Status.OPTIMAL


@pytest.mark.parametrize("loss", [one for one in LOSSES if one.targets == "real"], ids=str)
@pytest.mark.parametrize("regularizer", [Lp(1), ElasticNet(0.4), Groups([[0, 2], [1, 3]], 0.7, 0.0)], ids=str)
@pytest.mark.parametrize("intercept", [False, True])
def test_targets_of_0_have_the_answer_0(loss, regularizer, intercept):
    """The optimum is 0, and no number has a scale."""
    L, _ = rows()
    found = mklref.solve(
        mklref.Problem(kernels.FactorStack(L), np.zeros(N), loss=loss, regularizer=regularizer, intercept=intercept)
    )
    assert found.status is Status.OPTIMAL
    assert found.objective == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize("loss", LOSSES, ids=str)
def test_kernels_of_zeros_are_solved(loss):
    given = problem(loss, Lp(2), intercept=loss.intercept != "forbidden")
    zeros = [np.zeros((N, 2)), np.zeros((N, 3), dtype=np.float32)]
    found = mklref.solve(given.replace(kernels=kernels.FactorStack(zeros)))
    assert found.status is Status.OPTIMAL


def test_groups_that_share_their_weights_start_from_a_part_of_the_samples(monkeypatch):
    monkeypatch.setattr(factored, "_FEWEST", 20)
    found = mklref.solve(problem(losses.Hinge(), Groups([[0, 2], [1, 3]], 0.7, 0.0), n=1500, C=1.0))
    assert found.status is Status.OPTIMAL


def test_a_solution_without_weights_is_a_start():
    nothing = mklref.solve(problem(losses.Squared(), ElasticNet(0.4), C=1e-4, intercept=False))
    assert not nothing.weights.any()
    found = mklref.solve(problem(losses.Squared(), ElasticNet(0.4), intercept=False), start=nothing)
    assert found.status is Status.OPTIMAL


@pytest.mark.parametrize(
    ("happens", "said"),
    [
        ("closed", r"factor 'K0' cannot be read, .* its file has to stay open"),
        ("cut", r"factor 'K0': rows 0 to 48 have shape \(40, 3\) now, and the array had \(48, 3\)"),
        ("nan", r"factor 'K0': row 47 holds nan, which was not there when the stack was made"),
    ],
)
def test_rows_that_are_lost_in_the_middle_are_named(tmp_path, happens, said):
    L, score = rows()
    file = h5py.File(tmp_path / "L.h5", "w")
    held = file.create_dataset("L", data=L[0], maxshape=(None, 3), chunks=(8, 3))
    given = mklref.Problem(kernels.FactorStack([held, L[1]]), np.sign(score))

    def lose(record):
        if happens == "closed":
            file.close()
        elif happens == "cut":
            held.resize(40, axis=0)
        else:
            held[47, 0] = np.nan

    with pytest.raises(KernelsLost, match=said):
        mklref.solve(given, callback=lose)
