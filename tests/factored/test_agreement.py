"""Kernels as factors and the same kernels as matrices: both solvers say the same, by certified intervals."""

from __future__ import annotations

import threading
import time
from concurrent import futures

import dask.array as da
import numpy as np
import pytest
from makers import LOSSES, ROWS, agree, make_factored_problem as problem, make_factors as rows, optimal, pressed

import mklref
from mklref import DistributedStack, ElasticNet, Fixed, Groups, Lp, kernels, losses
from mklref.exceptions import InvalidInput, InvalidParameter, InvalidType, NotApplicable
from mklref.factored import path, solver as factored
from mklref.factored.cluster import ClusterLost
from mklref.factored.shard import Shard
from mklref.solution import Status


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


@pytest.mark.sampled(6)
@pytest.mark.parametrize("regularizer", REGULARIZERS, ids=str)
@pytest.mark.parametrize("loss", LOSSES, ids=str)
def test_the_certificate_on_matrices_confirms_the_solver_on_factors(loss, regularizer):
    given = problem(loss, regularizer, intercept=loss.intercept != "forbidden")
    solution = optimal(given)
    assert len(solution.history) <= 20
    same = mklref.certify(matrices(given), solution.dual_coef, weights=solution.weights, intercept=solution.intercept)
    assert same.is_optimal(1e-6)
    assert same.upper == pytest.approx(solution.certificate.upper, rel=1e-9)
    assert same.lower == pytest.approx(solution.certificate.lower, rel=1e-9)
    started = mklref.solve(given, start=solution)
    assert (started.status, len(started.history)) == (Status.OPTIMAL, 1)
    assert np.array_equal(started.dual_coef, solution.dual_coef)
    assert started.certificate == solution.certificate
    nearby = kernels.FactorStack([(1.0 + 1e-8) * source.data for source in given.kernels.sources])
    found = mklref.solve(given.replace(kernels=nearby), start=solution)  # which is not its solution
    assert not np.array_equal(found.dual_coef, solution.dual_coef)


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("loss", "regularizer"), list(zip(LOSSES, REGULARIZERS, strict=True)), ids=str)
def test_both_solvers_agree(loss, regularizer):
    given = problem(loss, regularizer, intercept=loss.intercept == "required")
    weight = np.random.default_rng(1).uniform(0.5, 2.0, ROWS)
    given = given.replace(sample_weight=weight)
    agree(mklref.solve(given), mklref.solve(matrices(given)))


@pytest.mark.parametrize("strategy", ["one_vs_rest", "one_vs_one"])
@pytest.mark.parametrize("loss", ["hinge", "logistic"])
def test_several_classes_share_their_weights(loss, strategy):
    L, score = rows()
    y = np.digitize(score, [-1.0, 1.0])
    given = mklref.MulticlassProblem(kernels.FactorStack(L), y, loss=loss, regularizer=Lp(4 / 3), strategy=strategy)
    solution = optimal(given)
    agree(solution, mklref.solve(given.replace(kernels=given.kernels.dense_stack())))
    v = given.kernels.coefficients(solution.dual_coef, solution.weights)
    scores = solution.decision_function(given.kernels.dense())
    assert np.allclose(given.kernels.product(v) + solution.intercept, scores)
    assert isinstance(solution.intercept, np.ndarray)


@pytest.mark.parametrize("loss", [losses.Logistic(), losses.Squared()], ids=str)
def test_where_no_function_pays_its_penalty_the_weights_are_0_and_a_start(loss):
    """The path begins there, with v = 0; with its weights f was not 0, and the gap a third of the optimum."""
    given = problem(loss, ElasticNet(0.4), intercept=False)
    nothing = optimal(given.replace(C=1e-4))
    assert not nothing.weights.any()
    optimal(given, start=nothing)


@pytest.mark.parametrize("seed", [0, 1])
def test_few_rows_of_low_rank_keep_the_sum_of_beta(seed):
    """1'beta missed c_b by what rows that were left out of L'DL had of it: no lower bound, a gap of 700."""
    given = problem(losses.OneClass(), ElasticNet(0.15, "ivanov"), seed, 2000, (1, 2), C=0.05)
    optimal(given)


@pytest.mark.parametrize("seed", [0, 7])
def test_steps_are_short_where_phi_is_steep(seed):
    loss, regularizer = losses.EpsilonInsensitive(0.2), Groups([[0, 2], [1, 3]], 0.67, 0.33)
    given = problem(loss, regularizer, seed, 60, (3, 13, 9, 3), C=0.1, intercept=False)
    optimal(given)


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
    optimal(problem(losses.OneClass(), Lp(2)), tol=1e-8)


def test_a_part_of_the_samples_and_another_solution_are_starts(monkeypatch, calls_of):
    monkeypatch.setattr(factored, "_WORTH", 0.0)
    monkeypatch.setattr(factored, "_FEWEST", 20)
    given = problem(losses.Hinge(), Lp(4 / 3), n=1600, ranks=(3, 5), C=0.1)
    parts = calls_of(factored, "random_part", lambda given, k: k)
    cold = mklref.solve(given)
    assert parts == [200]
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


class Bare(losses.Hinge):
    """A loss that does not say what its dual is."""

    def quadratic_dual(self, y):
        return None


class Boxes(losses.Hinge):
    """A loss whose dual ends nowhere from the first sample on, or from the second."""

    def __init__(self, first):
        self.first = first

    def domain(self, y):
        open_, (lower, upper) = np.arange(len(y)) >= self.first, super().domain(y)
        return np.where(open_, -np.inf, lower), np.where(open_, np.inf, upper)


def test_what_the_solver_does_not_take_is_said():
    given = problem(losses.Hinge(), mklref.Power(1.5))
    with pytest.raises(NotApplicable, match="dense_stack"):
        mklref.solve(given)
    with pytest.raises(NotApplicable, match="lower tol"):
        mklref.solve(problem(losses.Hinge(), Lp(1)), polish=True)
    for loss in (Bare(), Boxes(0), Boxes(1)):
        with pytest.raises(NotApplicable, match="a quadratic on a box; hinge is none"):
            mklref.solve(problem(loss, Lp(1)))
    optimal(matrices(given))


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
    with pytest.raises(mklref.Interrupted) as told:
        mklref.solve(given, callback=pressed(4))
    assert np.isfinite(told.value.solution.certificate.gap)
    costly = given.replace(C=1e6)
    for steps in (1, 3, 5):
        assert mklref.solve(costly, max_iter=steps).certificate.gap <= costly.costs.sum()  # that of f = 0


@pytest.mark.sampled(3)
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
    found = optimal(given)
    agree(found, mklref.solve(matrices(given)))


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("n", "loss", "regularizer", "C", "seed", "most"),
    [
        (400, "huber", ElasticNet(0.5, "ivanov"), 10.0, 1, 18),
        (400, "huber", Lp(1), 100.0, 0, 18),
        (400, "squared_hinge", Groups([[0, 1], [2, 3]], 1, 0), 10.0, 0, 18),
        (400, "epsilon_insensitive", Groups([[0, 1], [2, 3]], 0.3, 0.3), 10.0, 1, 18),
        (1500, "squared", Lp(4 / 3), 100.0, 2, 18),
        (5000, "huber", Lp(2), 10.0, 0, 18),
        (400, "logistic", Lp(1), 1e4, 0, 18),
        (17000, "logistic", Lp(2), 100.0, 0, 4),
    ],
    ids=str,
)
def test_weights_of_a_penalty_that_is_a_small_share_of_the_objective_are_found(n, loss, regularizer, C, seed, most):
    """All of the signal is in one kernel: the bounds of the path meet, in v and beta, long before its weights do.

    From tau in units of the losses these took 15 to 36 steps; a start has tau of its gap, or a smooth loss weights
    that fit the solution for equal ones.
    """
    rng = np.random.default_rng(seed)
    L = [rng.normal(size=(n, 2)) for _ in range(4)]
    scores = 3.0 * L[0][:, 0] + rng.normal(size=n)
    y = np.sign(scores) if loss in ("squared_hinge", "logistic") else scores
    solution = optimal(mklref.Problem(kernels.FactorStack(L), y, C=C, loss=loss, regularizer=regularizer))
    assert solution.history.counters["steps"] <= most


@pytest.mark.parametrize("regularizer", [Lp(4 / 3), ElasticNet(0.4, "ivanov"), Groups([[0, 2], [1, 3]], 0.7, 0.0)])
@pytest.mark.parametrize(("loss", "C"), [(losses.SquaredHinge(), 1e9), (losses.SquaredEpsilonInsensitive(0.2), 1e7)])
def test_a_smooth_loss_with_a_large_C_begins_at_its_solution_for_equal_weights(loss, C, regularizer):
    """L'beta of f = 0 is C times too large, and would take all weights to 0 in a step."""
    found = optimal(problem(loss, regularizer, C=C))
    if isinstance(loss, losses.SquaredHinge):  # those of equal weights are counted; the other loss needs them no more
        assert found.history.counters["steps"] > len(found.history.records)


@pytest.mark.parametrize("loss", [losses.Squared(), losses.SquaredEpsilonInsensitive(0.15)], ids=str)
def test_the_solution_for_equal_weights_is_more_than_no_function(loss):
    """Targets of one sign: beta of f = 0 cannot be balanced, its gap was the optimum, and roughly solved by that."""
    L, score = rows()
    found = optimal(mklref.Problem(kernels.FactorStack(L), np.abs(score), loss=loss, C=1e5, regularizer=Lp(1)))
    assert found.history.counters["steps"] <= 12  # 36 without, and a gap as large as the optimum


def test_a_part_of_the_samples_begins_at_its_solution_for_equal_weights_too(monkeypatch):
    monkeypatch.setattr(factored, "_WORTH", 0.0)
    rng = np.random.default_rng(0)
    L = [rng.normal(size=(17000, 2)) for _ in range(4)]
    y = np.sign(3.0 * L[0][:, 0] + rng.normal(size=17000))
    found = mklref.solve(mklref.Problem(kernels.FactorStack(L), y, C=100.0, loss="logistic", regularizer=Lp(2)))
    assert found.history.counters["steps"] <= 7  # 3, and 13 without


@pytest.mark.parametrize(("n", "ranks"), [(17000, (2,) * 4), (17000, (30,) * 4)], ids=["few columns", "few samples"])
def test_where_steps_cost_little_no_part_of_the_samples_is_solved_first(monkeypatch, n, ranks):
    """By the counters it saved reads; with what does not grow with the samples it took up to twice as long."""

    def solved(problem, k):
        raise AssertionError(f"{k} samples were solved first")

    monkeypatch.setattr(factored, "random_part", solved)
    given = problem(losses.SquaredHinge(), Lp(2), n=n, ranks=ranks)
    optimal(given)
    monkeypatch.setattr(factored, "_WORTH", 0.0)
    monkeypatch.setattr(factored, "_FOR_EACH", 8)
    with pytest.raises(AssertionError, match="2125"):
        mklref.solve(given)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("loss", [one for one in LOSSES if one.targets == "real"], ids=str)
@pytest.mark.parametrize("regularizer", [Lp(1), ElasticNet(0.4), Groups([[0, 2], [1, 3]], 0.7, 0.0)], ids=str)
@pytest.mark.parametrize("intercept", [False, True])
def test_targets_of_0_have_the_answer_0(loss, regularizer, intercept):
    """The optimum is 0, and no number has a scale."""
    L, _ = rows()
    found = optimal(
        mklref.Problem(kernels.FactorStack(L), np.zeros(ROWS), loss=loss, regularizer=regularizer, intercept=intercept)
    )
    assert found.objective == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize("C", [1.0, 1e3])
def test_one_class_around_0_has_the_answer_0(C):
    """With the weights of the path f was not 0, where 1e-14 costs more than the gap that is wanted."""
    rng = np.random.default_rng(0)
    L = [rng.normal(size=(60, 3)), rng.normal(size=(60, 2))]
    found = optimal(mklref.Problem(kernels.FactorStack(L), np.ones(60), loss="one_class", C=C, regularizer=Lp(2)))
    assert found.objective == pytest.approx(0.0, abs=1e-12)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("loss", LOSSES, ids=str)
def test_kernels_of_zeros_are_solved(loss):
    given = problem(loss, Lp(2), intercept=loss.intercept != "forbidden")
    zeros = [np.zeros((ROWS, 2)), np.zeros((ROWS, 3), dtype=np.float32)]
    optimal(given.replace(kernels=kernels.FactorStack(zeros)))


@pytest.mark.parametrize(
    ("factors", "timeout", "error", "says"),
    [
        ([], 1.0, InvalidInput, "factors is empty; give Dask arrays"),
        (
            [da.ones((4, 1)), list],
            1.0,
            InvalidType,
            "factors holds Array, type; give Dask arrays, or functions .* client=client",
        ),
        ([da.ones(4)], 1.0, InvalidInput, r"factors\[0\] has shape \(4,\); a factor L of K = L L' is \(n, r\)"),
        ([da.ones((4, 1)), da.ones((5, 1))], 1.0, InvalidInput, r"factors\[1\] has 5 rows, factors\[0\] has 4"),
        ([da.ones((4, 1))[da.ones(4) > 0]], 1.0, InvalidInput, r"factors\[0\] has chunks of unknown size"),
        ([list], 0.0, InvalidParameter, r"timeout = 0.0 must lie in \(0, inf\]"),
    ],
)
def test_what_no_worker_can_hold_is_refused_before_one_is_asked(factors, timeout, error, says):
    with pytest.raises(error, match=says):
        DistributedStack(factors, client=None, timeout=timeout)
    with pytest.raises(InvalidType, match="timeout is '1'"):
        DistributedStack.of(kernels.FactorStack([np.eye(2)]), client=None, timeout="1")


def test_threads_that_ask_one_stack_on_workers_have_an_answer_each(client):
    """Each was told what another one had asked for, and certificates were wrong."""
    here = kernels.FactorStack(rows(n=300)[0]).sharded(3)
    there, vectors = DistributedStack.of(here, client), np.random.default_rng(0).normal(size=(60, 300))

    def both(v):
        names = ("transposed", "gram", "lengths_against")
        return all(np.array_equal(getattr(there, name)(v), getattr(here, name)(v)) for name in names)

    with futures.ThreadPoolExecutor(4) as pool:
        assert all(pool.map(both, vectors))


def test_a_round_that_is_repeated_while_a_shard_is_at_work_is_computed_once(client):
    stack = DistributedStack.of(kernels.FactorStack(rows(n=300)[0]).sharded(2), client)
    session, cluster, place = stack._asked, stack.cluster, stack.cluster.places[1]
    (worker,) = [one for one in client.cluster.workers.values() if one.address == place.address]
    holder, free, begun, repeated = worker.state.actors[place.key], threading.Event(), [], []
    holder.sessions[session.name].product = lambda _: (begun.append(1), free.wait(60.0))
    for attempt in (1, 2):
        call = (session.name, session.number + 1, session.attempt + attempt, "product", [None], [])
        repeated.append(cluster.send(1, "call", *call))
        while not begun:
            time.sleep(0.01)
        cluster.ask(1, "ping")
    free.set()
    assert [one.result(60.0).value for one in repeated] == [(None, True)] * 2
    assert begun == [1]


def test_a_client_that_is_closed_while_workers_are_asked_for_is_named():
    with mklref.local_client(1, processes=False) as closed:
        stack = DistributedStack.of(kernels.FactorStack(rows()[0]), closed)
    with pytest.raises(ClusterLost, match="is gone, or the client closed"):
        stack.cluster._workers()
