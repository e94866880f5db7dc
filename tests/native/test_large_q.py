"""The interior point method on the reciprocals of the weights, on the ridge machine in closed form."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from unittest.mock import Mock

import numpy as np
import pytest
from makers import make_problem
from native.solving import loop_on

from mklref import Problem, solve, solve_path
from mklref.certificate import allowance, products
from mklref.certificate.products import sharp_slack
from mklref.exceptions import Interrupted
from mklref.losses import EpsilonInsensitive
from mklref.native.central import CentralPath
from mklref.native.large_q import LargeQ
from mklref.native.rescue import led_nowhere
from mklref.problem import in_a_smaller_box
from mklref.regularizers import BlockNorm
from mklref.solution import Status


class Ridge:
    """J(theta) = 1/2 y'(Q + I/C)^{-1} y,   beta = (Q + I/C)^{-1} y."""

    def __init__(self, kernels, y, C):
        self.kernels, self.y, self.C = kernels, y, C

    def at(self, theta, regularizer):
        A = np.tensordot(theta, self.kernels, 1) + np.eye(len(self.y)) / self.C
        beta = np.linalg.solve(A, self.y)
        images = self.kernels @ beta
        q = images @ beta
        W = np.linalg.solve(np.linalg.cholesky(A), images.T)
        lower = self.y @ beta - 0.5 * beta @ beta / self.C - regularizer.conjugate(np.sqrt(q))
        upper = 0.5 * self.C * np.sum((self.y - theta @ images) ** 2) + regularizer.value(theta * np.sqrt(q))
        return q, W, lower, upper, 0.5 * self.y @ beta


@pytest.fixture(params=["full_rank", "rank_one"])
def machine(request):
    """Three kernels of rank 12; or two of rank one besides, which at q = inf are fitted for free."""
    rng = np.random.default_rng(3)
    roots = [rng.normal(size=(12, 14)) for _ in range(3)]
    if request.param == "rank_one":
        roots += [rng.normal(size=(12, 1)) for _ in range(2)]
    return Ridge(np.stack([root @ root.T / 12 for root in roots]), rng.normal(size=12), 3.0)


@pytest.mark.parametrize("q", [2.2, 3, 8, 100, np.inf])
def test_the_gap_closes(machine, q):
    regularizer, M = BlockNorm(q), len(machine.kernels)
    interior = LargeQ(regularizer)
    theta = np.ones(M)
    gaps = []
    for _ in range(25):
        squares, W, lower, upper, _ = machine.at(theta, regularizer)
        gaps.append((upper - lower) / upper)
        theta = interior.step(theta, squares, W, upper - lower)
        assert np.all(interior.z > 0.0)
    assert min(gaps[:12]) < 1e-4
    assert min(gaps) < 1e-9
    if M == 3:
        expected = regularizer.weights_from_dual(np.sqrt(squares))
        np.testing.assert_allclose(theta / theta.min(), expected / expected.min(), rtol=1e-5)


def test_the_first_step_is_newtons(machine):
    """The gradient -s/2 and the Hessian N by differences; the step is small, so that nothing bounds it."""
    regularizer, M = BlockNorm(3.0), len(machine.kernels)
    interior = LargeQ(regularizer)

    def objective(v):
        return -machine.at(1.0 / v, regularizer)[-1]

    v = np.full(M, float(M) ** (-1.0 / 3.0))  # r = 3
    squares, W, lower, upper, _ = machine.at(1.0 / v, regularizer)
    h = 1e-4
    unit = np.eye(M) * h
    gradient = np.array([objective(v + e) - objective(v - e) for e in unit]) / (2 * h)
    hessian = np.array(
        [[objective(v + d + e) - objective(v + d - e) - objective(v - d + e) + objective(v - d - e) for d in unit]
         for e in unit]
    ) / (4 * h * h)  # fmt: skip
    mu = 0.1 * (upper - lower) / M
    t = -float(v @ gradient)
    z = np.maximum(t * v**2 + gradient, mu / v)
    # -1/2 s + N dv + t' v^2 + 2 t v dv - (mu - z dv)/v = 0,   sum v^2 dv = 0
    system = np.block([[hessian + np.diag(2 * t * v + z / v), v[:, None] ** 2], [v**2, np.zeros((1, 1))]])
    dv = np.linalg.solve(system, np.append(-gradient + mu / v, 0.0))[:M]
    share = min(1.0, 0.9 / np.abs(dv / v).max())
    expected = v + share * dv
    expected /= np.sum(expected**3) ** (1 / 3)
    np.testing.assert_allclose(1.0 / interior.step(1.0 / v, squares, W, upper - lower), expected, rtol=1e-4)


def test_without_curvature_and_squares_weights_stay_finite():
    interior = LargeQ(BlockNorm(np.inf))
    theta = interior.step(np.array([0.0, 1.0, 2.0]), np.zeros(3), np.zeros((0, 3)), 1.0)
    assert np.all(np.isfinite(theta))
    assert np.all(theta > 0.0)


def test_weights_do_not_rise_where_rounding_costs_more_than_they_gain():
    """s_m = 2 sqrt(E_m) minimises S^2/(4 theta_m) + theta_m E_m at theta_m = S/s_m."""
    squares, errors = np.array([4.0, 1.0, 1e-14]), np.array([0.0, 0.0, 1e-12])
    free, held = ends = [np.array([3.0, 1.5, 1e7]) for _ in range(2)]
    for theta, E in zip(ends, (0.0, errors), strict=True):
        interior = LargeQ(BlockNorm(np.inf))
        for _ in range(20):
            theta[:] = interior.step(theta, squares, np.zeros((0, 3)), 1e-12, E)
    best = 3.0 / 2e-6
    costs = [0.25 * 9.0 / t + 1e-12 * t for t in (0.9 * best, best, 1.1 * best)]
    assert np.argmin(costs) == 1
    assert held[2] == pytest.approx(best, rel=2e-3)
    assert free[2] > 10.0 * best


def test_a_gap_that_is_larger_again_does_not_lead_back(machine):
    """Off the path R, a maximum, is far too large: as if the next step were the first one, it would begin again."""
    regularizer, M = BlockNorm(np.inf), len(machine.kernels)
    steps = []
    for gap in (1e-4, 1.0):
        interior = LargeQ(regularizer)
        squares, W, *_ = machine.at(np.ones(M), regularizer)
        theta = interior.step(np.ones(M), squares, W, 1e-4)
        squares, W, *_ = machine.at(theta, regularizer)
        steps.append(interior.step(theta, squares, W, gap))
    np.testing.assert_array_equal(*steps)


def test_a_step_off_the_path_is_not_the_end(monkeypatch):
    """The gap is small enough, but rounding hides the whole of it; with a kink the certificate has to decide."""
    for loss, worthless in (("squared", True), ("hinge", False)):
        problem = make_problem(loss=loss, regularizer=BlockNorm(np.inf))
        run = loop_on(problem)
        run.iterate(run.begin(np.ones(problem.n_kernels)))
        point = run.last
        assert run.reached(point)
        monkeypatch.setattr(run.machine, "rounding", lambda *_, upper=point.upper: upper)
        assert run.reached(replace(point)) != worthless


def test_what_rounding_adds_to_a_gap_is_taken_off_what_is_wanted(monkeypatch):
    run = loop_on(make_problem())
    point = run.begin(np.full(4, 0.25))
    wanted = run._wanted(point)
    monkeypatch.setattr(run.machine, "rounding", lambda *_: 0.2 * wanted)
    for share, reached, target in ((0.7, True, 1.0), (0.9, False, 0.8), (0.7, True, 0.8)):
        assert run.reached(replace(point, lower=point.upper - share * wanted)) is reached
        assert run.target == pytest.approx(target * wanted, rel=1e-9)


def test_the_point_that_rounding_leaves_best_is_kept_for_every_penalty(monkeypatch):
    """A smaller gap that rounding hides is no better: runs ended with certificates of 9e-3 in place of 7e-6."""
    run = loop_on(make_problem(regularizer="l1"), tol=1.0)
    first = run.begin(np.full(4, 0.25))
    run.record(first)
    monkeypatch.setattr(run.machine, "rounding", lambda *_: np.inf)
    run.record(replace(first, lower=first.upper))
    assert run.sound is first
    assert run.best.point is not first


@pytest.mark.parametrize(("doubt", "nowhere"), [(1e-7, False), (1e-5, True), (np.inf, True)])
def test_a_start_led_nowhere_where_rounding_leaves_more_open_than_is_wanted(doubt, nowhere):
    """The certificate decides, which is asked for only if so much rounding is known, or nothing is."""
    stalled = SimpleNamespace(status=Status.STALLED)
    best = SimpleNamespace(upper=2.0)
    loop = SimpleNamespace(tol=1e-6, zero=1.0, best=best, least_doubt=doubt, solution=lambda status: stalled)
    assert led_nowhere(loop, Status.OPTIMAL) is nowhere
    assert led_nowhere(loop, Status.STALLED)
    assert not led_nowhere(loop, Status.TIME_LIMIT)


def test_no_gap_is_no_complementarity_of_0():
    """0/0 in the multipliers, and with them in all weights from then on."""
    interior, one = LargeQ(BlockNorm(3)), np.ones(1)
    for gap in (1e-3, 0.0, 0.0):
        assert np.isfinite(interior.step(one, one, np.array([[0.1]]), gap)).all()
        assert interior.mu > 0.0


def test_a_run_that_is_stopped_on_its_central_path_solves_no_more_machines(calls_of):
    """Kernels of rank one, for which the path is followed; from any of its points on the callback wants no more."""
    steps = calls_of(CentralPath, "step", lambda path: path.machine.solves)
    rng = np.random.default_rng(0)
    X = rng.standard_normal((40, 80))
    y = np.sign(X.sum(axis=1) + 2.0 * rng.standard_normal(40))
    problem = Problem([np.outer(x, x) for x in X.T], y, C=100.0, regularizer=BlockNorm(np.inf), loss="hinge")
    stopped = solve(problem, callback=lambda _: bool(steps))
    assert steps
    assert stopped.status is Status.STOPPED
    assert stopped.history.counters["machines"] == steps[0]


def test_the_point_of_the_smallest_gap_with_its_rounding_is_returned(monkeypatch):
    """Weights of 1e12 have the smallest gap, of which all digits are those of rounding."""
    problem = make_problem(regularizer=BlockNorm(np.inf))
    run = loop_on(problem)
    run.iterate(run.begin(np.ones(problem.n_kernels)))
    good = run.last
    best = replace(good, weights=1e12 * good.weights, upper=good.lower)
    run.sound, run.least_doubt, run.last = None, np.inf, None
    monkeypatch.setattr(run.machine, "rounding", lambda weights, *_: float(weights.max() > 1e6))
    for point in (good, best):
        run.record(point)
    run.best.point = run.hopeful = best

    def judged(point, status, images=None):
        gap, rounding = {id(best): (1.0, 1.0), id(good): (1e-3, 0.0)}.get(id(point), (2.0, 0.0))
        certificate = SimpleNamespace(gap=gap, rounding=rounding, size=1.0, upper=point.upper)
        return SimpleNamespace(point=point, status=status, certificate=certificate)

    monkeypatch.setattr(run, "_judged", judged)
    assert run.solution(Status.STALLED).point is good


@pytest.mark.sampled(4)
@pytest.mark.parametrize("loss", ["squared", "squared_hinge", "hinge", "epsilon_insensitive"])
def test_kernels_of_rank_one_that_are_not_penalised_are_no_obstacle(loss):
    """Weights that span five orders; what rounding costs at a tube is nearer to 1e-4 than to 1e-6 (C = 100)."""
    rng = np.random.default_rng(0)
    n, M = (30, 100) if loss == "squared" else (40, 80)
    X = rng.standard_normal((n, M))
    y = X.sum(axis=1) + 2.0 * rng.standard_normal(n)
    y = np.sign(y) if "hinge" in loss else y
    problem = Problem([np.outer(x, x) for x in X.T], y, C=100.0, regularizer=BlockNorm(np.inf), loss=loss)
    assert solve(problem).certificate.relative_gap <= (1e-4 if loss == "epsilon_insensitive" else 1e-6)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("seed", [1, 5, 6])
def test_curvature_that_rounding_leaves_of_squares_of_0_is_no_infinite_step(seed):
    """One kernel of rank one at C = 1e8: v s - B'B is below 0, and weights of NaN were refused by the certificate."""
    x = np.random.default_rng(seed).normal(size=10)
    y = np.where(np.arange(10) % 3, 1.0, -1.0)
    for loss in ("squared_hinge", "hinge", "squared"):
        problem = Problem([np.outer(x, x)], y, C=1e8, loss=loss, regularizer=BlockNorm(3), intercept=False)
        assert np.isfinite(solve(problem, tol=1e-10).certificate.gap)
    step = LargeQ(BlockNorm(3)).step(np.ones(1), np.zeros(1), np.array([[0.1]]), 1e-3)
    np.testing.assert_allclose(step, 1.0)


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("degenerate", "loss", "q", "seed"),
    [
        ("constant_kernel", "squared", 4, 1),
        ("constant_kernel", "huber", 32, 0),
        ("constant_kernel", "hinge", np.inf, 1),
        ("low_rank", "hinge", np.inf, 3),
    ],
)
def test_along_a_path_points_are_solved_as_well_as_by_themselves(degenerate, loss, q, seed):
    """Of a constant kernel beside an intercept the norm is 0: weights of 1e9 were reached, and rounding with them."""
    problem = make_problem(loss=loss, seed=seed, degenerate=degenerate, n=15, M=3, regularizer=BlockNorm(q))
    values = [0.01, 0.3, 5.0, 100.0]
    for path in (solve_path(problem, C=values), solve_path(problem, C=values[::-1])):
        assert [solution.status for solution in path] == [Status.OPTIMAL] * 4


def far_too_wide(q, seed, sample_weight=None):
    """Dual variables are 1e-35 of C."""
    rng = np.random.default_rng(seed)
    L = rng.normal(size=(2, 5, 5)) * np.array([[[1e14]], [[1e3]]])
    y, loss = 1e-4 * rng.normal(size=5), EpsilonInsensitive(1e-5)
    R = BlockNorm(q)
    return Problem(L @ L.transpose(0, 2, 1), y, C=1e4, loss=loss, regularizer=R, sample_weight=sample_weight)


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("q", "seed", "sample_weight"),
    [
        *((q, seed, None) for q, seed in ((2.5, 12), (2.5, 24), (3.0, 13), (3.0, 17), (10.0, 15))),
        *((q, seed, [1.0, 1.0, 1.0, 1e-5, 1e-5]) for q in (3.0, 10.0) for seed in (11, 15)),
    ],
)
def test_a_tube_whose_box_is_far_too_wide_is_solved_in_a_smaller_one(q, seed, sample_weight):
    """Gaps of 4e-6 to 0.1 were left, of samples of small weight by a box for the largest dual variable alone."""
    solution = solve(far_too_wide(q, seed, sample_weight))
    assert solution.status is Status.OPTIMAL, solution.certificate.explain()


def test_only_a_loss_with_kinks_has_the_same_solutions_in_a_smaller_box():
    """Costs are 100 times the dual variables there: of a smooth loss that is another problem, solved for nothing."""
    problem, beta = far_too_wide(3.0, 0, [1.0, 1.0, 1.0, 1.0, 0.1]), np.array([1e-3, -2e-3, 0.0, 0.0, 1e-3])
    smaller = in_a_smaller_box(problem, beta)
    assert smaller is not None
    np.testing.assert_allclose(smaller.costs, [1.0, 1.0, 1.0, 1.0, 0.1])
    assert in_a_smaller_box(problem, beta, far=1e5) is None
    assert in_a_smaller_box(problem, 0.0 * beta) is None
    assert in_a_smaller_box(problem.replace(loss="squared_epsilon_insensitive"), beta) is None


@pytest.mark.thorough
def test_a_callback_and_an_interruption_end_the_way_through_a_smaller_box(monkeypatch):
    """Which tubes stall, and take that way, is a matter of rounding: some do."""
    monkeypatch.setattr("mklref.certificate.numerical._sharper", lambda *_: None)  # as if there were too many entries
    for seed in range(20):
        problem, told = far_too_wide(2.5, seed), []
        records = len(solve(problem, callback=told.append).history)
        if len(told) > records + 1:
            break
    assert len(told) > records + 1
    assert all(record is told[records - 1] for record in told[records:])

    def at_the_first_one(end):
        told.clear()

        def callback(record):
            told.append(record)
            return len(told) > records and end()

        return callback

    solve(problem, callback=at_the_first_one(lambda: True))  # whose first point may do already
    assert len(told) == records + 1

    with pytest.raises(Interrupted) as caught:
        solve(problem, callback=at_the_first_one(Mock(side_effect=KeyboardInterrupt)))
    assert caught.value.solution.status is Status.STALLED
    assert len(told) == records + 1


@pytest.mark.parametrize("q", [3.0, np.inf])
def test_weights_without_a_bound_are_as_large_as_what_machines_round_permits(monkeypatch, q):
    """Where products may be cut into slices a share of E and the slack are left, with q = inf that in more digits."""
    rng = np.random.default_rng(8)
    x, beta = rng.normal(size=(2, 40))
    problem = Problem([np.outer(x, x), np.eye(40)], x, loss="squared", regularizer=BlockNorm(q))
    coarse, sharp = problem.kernels.slack, sharp_slack(problem.kernels)
    assert not np.array_equal(coarse, sharp)
    errors = allowance.weights_error(problem, beta, False)
    left = allowance.off_kinks_error([(problem, beta)], polished=True)
    slack = sharp if q == np.inf else coarse
    np.testing.assert_allclose(left, np.minimum(errors, errors / 64.0 + slack @ beta**2), rtol=1e-12)
    monkeypatch.setattr(allowance, "_FEW", 3199)
    np.testing.assert_array_equal(allowance.off_kinks_error([(problem, beta)], polished=True), errors)


def test_slack_in_more_digits_is_asked_for_only_where_it_could_tell(calls_of):
    """It costs as much as many machines, and of kernels without null spaces it changes no weight."""
    asked = calls_of(products, "sharp_slack")
    problem = make_problem(n=40, C=1.0, regularizer=BlockNorm(np.inf))
    assert problem.kernels.slack.any()
    solution = solve(problem, tol=1e-4)
    assert solution.status is Status.OPTIMAL
    assert not asked
    loop = loop_on(problem)
    loop.machine.set_dual(solution.dual_coef)
    loop.errors(np.zeros(problem.n_kernels))  # R* = 0, beside which all of E is much
    assert asked


@pytest.mark.parametrize("q", [2.0001, 2.5, np.inf])
@pytest.mark.parametrize(("seed", "C"), [(4, 1e6), (9, 1e9)])
def test_machines_without_an_optimum_leave_numbers_that_end_the_run(seed, C, q):
    """Of kernels that rounding to float32 left indefinite by more than 1/C; it was a ZeroDivisionError."""
    x = 10.0 * np.random.default_rng(seed).normal(size=(8, 3))
    kernels, y = [(x @ x.T).astype(np.float32)], np.array([1.0, -1.0] * 4)
    problem = Problem(kernels, y, C=C, loss="squared_hinge", regularizer=BlockNorm(q), intercept=False)
    assert solve(problem, max_iter=30).certificate.gap >= 0.0
