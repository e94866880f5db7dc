"""`solve(..., polish=True)`: 1e-6 points go to the limit of double precision, and nothing gets worse."""

from __future__ import annotations

from dataclasses import replace
from unittest.mock import Mock

import numpy as np
import pytest
from makers import DEGENERATE, LOSSES, agree, make_problem

from mklref import Problem, _polish, certify, solve
from mklref._polish import fitted
from mklref.exceptions import Interrupted, KernelsLost
from mklref.kernels import DiskStack
from mklref.losses import EpsilonInsensitive, Pinball
from mklref.machines import machine_for
from mklref.machines.smo import SMOMachine
from mklref.native import polish as module, solver
from mklref.native.polish import polished as polish_from
from mklref.native.rescue import Ladder
from mklref.problem import Point
from mklref.regularizers import BlockNorm, ElasticNet, Fixed, Groups, Lp, Mahalanobis, Power, Tikhonov, WeightedL1
from mklref.solution import Status
from validation.attack import generator, solves

PAIRS = ((0, 2), (1, 3))
REGULARIZERS = (
    Lp(1),
    Lp(4 / 3),
    Lp(np.inf),
    Fixed([1.0, 0.0, 0.5, 2.0]),
    Tikhonov(1, 0.7),
    Tikhonov(1.5, 0.7),
    Power(1),
    ElasticNet(0.5),
    BlockNorm(3),
    Groups(PAIRS, 0.3, 0.4),
    Groups(PAIRS, 0.5, 0.5),
    Groups(PAIRS, 1.0, 0.0),
)


def polished(problem, solution, tol):
    return polish_from(machine_for(problem), solution, tol)


@pytest.mark.sampled(5)
@pytest.mark.parametrize("regularizer", REGULARIZERS, ids=str)
@pytest.mark.parametrize("loss", LOSSES, ids=str)
def test_generic_points_reach_the_limit_of_double_precision(loss, regularizer):
    if loss.intercept_cost and regularizer.degree == 1.0:
        pytest.skip("unbounded")
    problem = make_problem(loss=loss, regularizer=regularizer, seed=3, n=30)
    rough = solve(problem, tol=1e-4)
    fine = polished(problem, rough, 1e-4)
    assert abs(fine.certificate.relative_gap) <= 1e-11
    assert abs(fine.certificate.gap) <= abs(rough.certificate.gap)
    again = certify(problem, fine.dual_coef, weights=fine.weights, intercept=fine.intercept)
    assert fine.certificate == again
    assert again.violations == ()
    assert fine.objective == again.objective


@pytest.mark.sampled(4)
@pytest.mark.parametrize("p", [1, 2])
@pytest.mark.parametrize("degenerate", DEGENERATE[1:])
@pytest.mark.parametrize("loss", ["hinge", "epsilon_insensitive", "logistic"])
def test_degenerate_points_never_get_worse(loss, degenerate, p):
    problem = make_problem(loss=loss, regularizer=Lp(p), degenerate=degenerate, seed=5, n=24, C=10.0)
    rough = solve(problem, tol=1e-3)
    fine = polished(problem, rough, 1e-3)
    assert abs(fine.certificate.gap) <= abs(rough.certificate.gap)
    assert fine.certificate == certify(problem, fine.dual_coef, weights=fine.weights, intercept=fine.intercept)


def test_a_point_that_cannot_be_improved_is_returned_as_it_is(monkeypatch):
    """Every candidate is worse: the given solution comes back, the same object."""
    problem = make_problem(regularizer=Lp(2), n=20)
    solution = solve(problem, tol=1e-8)

    def worse(machine, point, gap):
        yield point._replace(dual_coef=0.5 * point.dual_coef)

    monkeypatch.setattr(module, "_refinements", worse)
    assert polished(problem, solution, 1e-8) is solution


@pytest.mark.parametrize("failure", [np.nan, np.linalg.LinAlgError, FloatingPointError])
def test_a_refinement_that_fails_leaves_the_solution(monkeypatch, failure):
    """At extreme scales a machine may overflow or a factorisation break down."""

    def broken(problem, regularizer, point):
        yield point._replace(intercept=np.nan)
        if failure is not np.nan:
            raise failure

    problem = make_problem(regularizer=Lp(2), n=20)
    solution = solve(problem)
    monkeypatch.setattr(module, "newton", broken)
    monkeypatch.setattr(SMOMachine, "solve", lambda machine, gap: None)
    monkeypatch.setattr(module, "fitted", lambda _, point: point)
    monkeypatch.setattr(module, "_off_the_kinks", lambda *_: iter(()))  # which gain what they can with the same beta
    found = polished(problem, solution, 1e-8)
    assert np.array_equal(found.dual_coef, solution.dual_coef)
    assert found.certificate.gap == pytest.approx(solution.certificate.gap, rel=1e-6)


@pytest.mark.parametrize(("tol", "expected"), [(1e-3, Status.OPTIMAL), (1e-12, Status.TIME_LIMIT)])
def test_the_status_says_what_the_certificate_confirms(tol, expected, monkeypatch):
    """A better point that confirms 1e-3 and not 1e-12."""
    problem = make_problem(regularizer=Lp(2), n=20, seed=1)
    stopped = replace(solve(problem, tol=1e-1), status=Status.TIME_LIMIT)
    better = solve(problem, tol=1e-4)
    assert 1e-12 < better.certificate.relative_gap < stopped.certificate.relative_gap
    point = Point(better.dual_coef, better.weights, better.intercept)
    monkeypatch.setattr(module, "_refinements", lambda *_: iter([point]))
    monkeypatch.setattr(module, "fitted", lambda _, point: point)
    monkeypatch.setattr(module, "_off_the_kinks", lambda *_: iter(()))
    fine = polished(problem, stopped, tol)
    assert fine.certificate == better.certificate
    assert fine.status is expected


@pytest.mark.parametrize("regularizer", [Lp(1), Lp(2)], ids=str)
def test_a_solution_of_zero_stays(regularizer):
    """Inside the tube nothing is to be learned: beta = 0, and no kernel is active."""
    problem = make_problem(loss=EpsilonInsensitive(100.0), regularizer=regularizer, n=12)
    solution = solve(problem, polish=True)
    assert not solution.dual_coef.any()
    assert solution.certificate.gap == solution.certificate.rounding
    assert (
        polished(problem, replace(solution, certificate=replace(solution.certificate, upper=1.0)), 1e-6).objective
        == 0.0
    )


def test_samples_enter_and_leave_their_bounds():
    """The active set of the start is wrong in both directions."""
    problem = make_problem(regularizer=Lp(2), n=30, seed=2)
    best = solve(problem, tol=1e-9)
    free = np.flatnonzero((np.abs(best.dual_coef) > 1e-6) & (np.abs(best.dual_coef) < 1.0 - 1e-6))
    at_zero = np.flatnonzero(best.dual_coef == 0.0)
    beta = best.dual_coef.copy()
    beta[free[0]] = 0.0
    beta[at_zero[0]] = 0.05 * problem.y[at_zero[0]]
    spoilt = replace(best, dual_coef=beta, certificate=certify(problem, beta, weights=best.weights))
    assert spoilt.certificate.relative_gap > 1e-4
    fine = polished(problem, spoilt, 1e-6)
    assert abs(fine.certificate.relative_gap) <= 1e-12
    assert fine.dual_coef[at_zero[0]] == 0.0
    np.testing.assert_allclose(fine.dual_coef, best.dual_coef, atol=1e-5)
    beta[free[0]] = best.dual_coef[free[0]]  # only one too many is free: the first step takes it to its bound
    *_, last = _polish.newton(problem, problem.regularizer, Point(beta, best.weights, best.intercept))
    certificate = certify(problem, last.dual_coef, weights=last.weights, intercept=last.intercept)
    assert abs(certificate.relative_gap) <= 1e-8


@pytest.mark.sampled(3)
@pytest.mark.parametrize("regularizer", [Lp(1), Lp(4 / 3), Groups(PAIRS, 0.5, 0.5), Mahalanobis(np.eye(4))], ids=str)
@pytest.mark.parametrize("loss", ["hinge", "squared", "logistic"])
def test_the_unit_of_the_kernels_costs_no_digit(loss, regularizer):
    """P(cK, C) = P(K, cC)/c: where kernels are large, ones for the intercept are no rounding errors beside them."""
    problem, c = make_problem(loss=loss, regularizer=regularizer, seed=3, n=30), 2.0**50
    solution = solve(problem, tol=1e-4)
    beta, theta, b = solution.dual_coef, solution.weights, solution.intercept
    larger = problem.replace(kernels=problem.kernels.dense() * c, C=problem.C / c)
    there = certify(larger, beta / c, weights=theta, intercept=b)
    found = polished(problem, solution, 1e-9)
    other = polished(larger, replace(solution, dual_coef=beta / c, certificate=there), 1e-9)
    assert other.certificate.upper * c == found.certificate.upper
    np.testing.assert_array_equal(other.dual_coef * c, found.dual_coef)


def test_solve_polishes_when_asked():
    problem = make_problem(regularizer=Lp(1), n=30, seed=3)
    rough, fine = solve(problem, tol=1e-2), solve(problem, tol=1e-2, polish=True)
    assert rough.certificate.relative_gap > 1e-10
    assert fine.certificate.gap - fine.certificate.rounding < 1e-14 * fine.certificate.upper
    assert fine.status is Status.OPTIMAL
    assert fine.history.counters == rough.history.counters


def test_no_step_of_a_polish_begins_after_the_time_is_over(monkeypatch):
    problem, steps = make_problem(seed=3, n=30), []
    monkeypatch.setattr(module, "_refinements", lambda *_: map(steps.append, [1]))
    found = solve(problem, tol=1e-12, max_time=1e-9, polish=True)
    assert found.status is Status.TIME_LIMIT
    assert not steps


def test_kernels_that_are_lost_in_a_polish_leave_the_solution(monkeypatch, tmp_path):
    kernels = make_problem(seed=3, n=30).kernels.dense()
    np.save(tmp_path / "K.npy", kernels)
    stack = DiskStack(np.load(tmp_path / "K.npy", mmap_mode="r"))
    problem = make_problem(seed=3, n=30).replace(kernels=stack)

    def vanish(*arguments):
        (tmp_path / "K.npy").rename(tmp_path / "elsewhere")
        return refinements(*arguments)

    refinements = module._refinements
    monkeypatch.setattr(module, "_refinements", vanish)
    with pytest.raises(KernelsLost, match=r"K\.npy vanished") as lost:
        solve(problem, tol=1e-4, polish=True)
    assert lost.value.solution.status is Status.OPTIMAL


def test_an_interrupted_polish_keeps_the_solution(monkeypatch):
    problem = make_problem(n=20)
    monkeypatch.setattr("mklref.native.solver.polished", Mock(side_effect=KeyboardInterrupt))
    with pytest.raises(Interrupted) as caught:
        solve(problem, polish=True)
    assert caught.value.solution.status is Status.OPTIMAL


@pytest.mark.sampled(4)
@pytest.mark.parametrize("regularizer", [Lp(2), Lp(1), Tikhonov(1, 0.7), BlockNorm(3)], ids=str)
@pytest.mark.parametrize("loss", ["hinge", "epsilon_insensitive", "squared", "logistic"])
def test_newton_steps_converge_quadratically(loss, regularizer):
    """From a point whose active set is right, the distance to the solution is squared by each step."""
    problem = make_problem(loss=loss, regularizer=regularizer, n=20, seed=4)
    exact = solve(problem, tol=1e-7, polish=True)  # to the last digit of the gap, not of beta
    *_, exact = module._refinements(machine_for(problem), Point(exact.dual_coef, exact.weights, exact.intercept), 1e-13)
    rng = np.random.default_rng(0)
    theta = exact.weights * np.exp(3e-3 * rng.normal(size=4))
    point = Point(exact.dual_coef, theta, exact.intercept + 0.1)
    steps = list(module._refinements(machine_for(problem), point, 1e-13))
    distances = [np.abs(moved.dual_coef - exact.dual_coef).max() for moved in steps]
    assert min(abs(moved.intercept - exact.intercept) for moved in steps) < 1e-7
    assert distances[0] > 1e-6
    assert distances[1] < 100 * distances[0] ** 2 + 1e-9
    assert min(distances[2:]) < 1e-8


def alone(seed, n=20):
    """Kernels of single variables, (6, n, n), and the samples."""
    X = np.random.default_rng(seed).normal(size=(n, 6))
    return np.einsum("im,jm->mij", X, X), X


@pytest.mark.thorough
@pytest.mark.parametrize("loss", ["hinge", EpsilonInsensitive(0.3)], ids=str)
def test_points_off_the_kinks_certify_what_rounding_at_them_does_not(loss, monkeypatch):
    """With a box of 1e4 for dual variables of 1e-6, an error of 1e-16 in a score on a kink costs 1e-5 of P*."""
    problems = []
    for K, X in map(alone, (1, 2)):
        y = np.sign(X[:, 0]) if loss == "hinge" else X[:, 0]
        problems.append(Problem(1e6 * K, y, C=1e4, loss=loss, regularizer=Lp(2)))
    solutions = [solve(problem, tol=1e-10) for problem in problems]
    assert all(solution.certificate.relative_gap < 1e-10 for solution in solutions)
    proven = certify(problems[0], solutions[0], rigorous=True, backend="exact")
    agree(proven, solutions[0])
    monkeypatch.setattr(module, "_off_the_kinks", lambda problem, point: iter(()))
    monkeypatch.setattr(Ladder, "central_path", lambda ladder, point: None)  # which ends off them, too
    left = [solve(problem, tol=1e-10).certificate.relative_gap for problem in problems]
    assert min(left) > 1e-7


def parabola(seed, n, widths):
    """The generator, Gaussian kernels of two variables, and the square of the first one with noise."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    distances = ((X[:, None] - X) ** 2).sum(axis=-1)
    return rng, np.exp(-distances / np.array(widths)[:, None, None]), X[:, 0] ** 2 + rng.normal(size=n)


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("tau", [0.01, 0.99])
def test_scores_of_a_quantile_far_out_end_on_the_side_where_rounding_costs_little(tau, intercept):
    """On the targets each error costs as on the steep side: gaps of 3e-6 to 7e-6, but where luck left the targets."""
    _, kernels, y = parabola(1, 20, [0.3, 1.0, 3.0])
    problem = Problem(kernels, y, C=1e8, loss=Pinball(tau), regularizer=Lp(2), intercept=intercept)
    assert solve(problem, tol=5e-7).status is Status.OPTIMAL


def test_what_rounding_leaves_of_one_kernel_is_no_gap_where_the_dual_norms_have_bounds():
    """All of beta was made smaller by the rounding of the largest kernel: the gap stayed at 7e-4."""
    rng = np.random.default_rng(9)
    V = rng.normal(size=(30, 4)) * 10.0 ** np.arange(4)
    y = np.sign(V[:, 0] + 0.5 * rng.normal(size=30))
    K = np.einsum("im,jm->mij", V, V) / 16.0
    assert solve(Problem(K, y, C=1e3, regularizer=WeightedL1(np.ones(4)))).status is Status.OPTIMAL


def test_weights_of_large_kernels_are_kept_where_the_tube_is_narrower():
    """At q > 2 their squares are rounding, and so are the weights that these give: the gap stayed at 2e-5."""
    rng, kernels, y = parabola(3, 60, [0.3, 0.5, 1.0, 2.0])
    kernels *= np.array([1.0, 1.0, 1e3, 1e4])[:, None, None]
    lines = [np.outer(v, v) for v in rng.normal(size=(2, 60))]
    options = {"C": 1e4, "loss": EpsilonInsensitive(0.3), "regularizer": BlockNorm(4), "intercept": False}
    assert solve(Problem([*kernels, *lines], y, **options)).status is Status.OPTIMAL


@pytest.mark.parametrize(("q", "size", "C"), [(8, 1.0, 1e4), (np.inf, 0.1, 1e5)])
def test_block_norms_of_kernels_that_hardly_count_fit_a_tube_up_to_rounding(q, size, C):
    """At q > 2 theta(q) is steep at q_m = 0, or open, and each error of a score costs C: the gap stayed at 5e-6."""
    rng, kernels, y = parabola(3, 25, [0.3, 1.0, 3.0, 10.0, 30.0])
    lines = [np.outer(v, v) for v in size * rng.normal(size=(3, 25))]
    problem = Problem([*kernels, *lines], y, C=C, loss=EpsilonInsensitive(0.01), regularizer=BlockNorm(q))
    assert solve(problem).status is Status.OPTIMAL


def test_a_run_that_was_limited_is_not_solved_a_second_time_by_way_of_other_kernels(calls_of):
    """A float32 kernel with negative eigenvalues: only who stalls goes by way of K + s I."""
    problem = solves.random_problem(generator(17, "solves").spawn(591)[590])
    assert problem.kernels.slack.any()
    asked = calls_of(solver, "_by_way_of", lambda near, *given: (near, given[1].status))
    limited = solve(problem, max_iter=1, polish=True)
    assert (limited.status, asked) == (Status.ITERATION_LIMIT, [])
    solve(problem)
    assert asked[0] == (solver._of_semidefinite_kernels, Status.STALLED)
    assert {status for _, status in asked} == {Status.STALLED}
    added = solver._of_semidefinite_kernels(problem, None).kernels.dense() - problem.kernels.dense()
    np.testing.assert_allclose(added, [1.01 * np.diag(s) for s in problem.kernels.lost], rtol=1e-3, atol=1e-12)


@pytest.mark.parametrize("loss", ["epsilon_insensitive", "pinball", "hinge"])
def test_polish_leaves_the_room_for_rounding_that_the_central_path_leaves(loss):
    machine = machine_for(make_problem(loss=loss, regularizer=BlockNorm(3)))
    machine.set_dual(np.random.default_rng(0).normal(size=machine.problem.n_samples))
    room = _polish.Samples(machine.problem).room(machine.beta)
    np.testing.assert_array_equal(room, 4.0 * machine.weights_error(polished=True))


def test_kernels_whose_squares_are_rounding_are_left_out_where_weights_have_no_bound(monkeypatch):
    """With an intercept a constant kernel costs nothing at q = inf, and says nothing but rounding times its weight.

    Nothing else is tried here: of a square that rounding makes 0 Newton's method takes the weight to 0 as well.
    """
    for others in ("_refinements", "_below_the_kinks", "_off_the_kinks"):
        monkeypatch.setattr(module, others, lambda *given: iter(()))
    monkeypatch.setattr("mklref.certificate.numerical._sharper", lambda *_: None)  # as if there were too many entries
    problem = make_problem(regularizer=BlockNorm(np.inf), loss="pinball:0.3")
    problem = problem.replace(kernels=[*problem.kernels.dense(), np.full((problem.n_samples,) * 2, 1e4)])
    solution = solve(problem)
    weights = np.append(solution.weights[:-1], 1e5)
    certificate = certify(problem, solution.dual_coef, weights=weights)
    noisy = replace(solution, weights=weights, certificate=certificate, status=Status.STALLED)
    found = polish_from(machine_for(problem), noisy, 1e-6)
    assert found.weights[-1] == 0.0
    assert found.certificate.gap < certificate.gap


def test_what_rounding_to_float32_has_left_open_is_not_polished(rng, monkeypatch):
    """No point of indefinite kernels has a smaller gap than that to the semidefinite ones beside them."""
    X = rng.normal(size=(60, 2))
    distances = ((X[:, None] - X) ** 2).sum(axis=-1)
    kernels = np.exp(-distances / np.array([3.0, 30.0])[:, None, None]).astype(np.float32)
    asked = []
    monkeypatch.setattr(solver, "polished", lambda *given: asked.append(given[1]) or given[1])
    problem = Problem(kernels, np.sign(X[:, 0] + 0.3 * rng.normal(size=60)), C=100.0, regularizer=Lp(2))
    solution = solve(problem)
    assert (solution.status, asked) == (Status.STALLED, [])
    assert solution.certificate.gap - solution.certificate.rounding < 1e-7 * solution.objective
    solve(problem, polish=True)
    assert asked


@pytest.mark.parametrize("size", [1e-320, 1e-300, 1.0, 1e300])
def test_units_of_a_step_are_powers_of_two_in_the_range_of_double_precision(size):
    """2^1060 is an error in Python; the largest entries are 1 where a unit can do that."""
    matrix = np.diag([1.0, 0.5, 0.0])
    matrix[2, :2] = size, 0.1 * size
    for one in (matrix, size * np.eye(3)):
        units = _polish._units(one, 2)
        assert np.isfinite(units).all()
        np.testing.assert_array_equal(np.frexp(units)[0], 0.5)
    if size >= 1e-300:
        assert 0.5 <= _polish._units(matrix, 2)[2] * size <= 2.0


@pytest.mark.parametrize(
    ("beta", "weights", "b"),
    [
        ([30.81967871704842, -102.73120935468025], [200.66062627321782, 3.392827136046495e-4], None),
        ([4.5130811821731e-4, -4.5130811821731e-4], [0.0, 0.0131190109229601], -26.93925840291726),
    ],
)
def test_weights_that_are_rounding_are_fitted_to_the_scores(beta, weights, b):
    """The closed form at lam = 1e-3 multiplies an error of q by 1000: from 0 to 1e-3 where 3.4e-4 is right."""
    kernels = np.array([[[2e-4, -5e-5], [-5e-5, 1e-4]], [[1e7, 3e6], [3e6, 9e5]]])
    net = ElasticNet(1e-3)
    problem = Problem(kernels, [1.0, -1.0], C=900.0, loss="logistic", regularizer=net, intercept=b is not None)
    exact = Point(np.array(beta), np.array(weights), b or 0.0)  # q is at the kink but for rounding
    assert certify(problem, exact.dual_coef, weights=exact.weights).is_optimal(1e-10)
    for factor in (0.0, 0.5, 2.0):
        off = Point(exact.dual_coef, exact.weights * [1.0, factor], exact.intercept)
        for point, far in ((off, True), (fitted(problem, off), False)):
            found = certify(problem, point.dual_coef, weights=point.weights, intercept=exact.intercept)
            assert found.relative_gap > 1e-3 if far else found.relative_gap < 1e-5


def test_functions_of_a_kernel_that_nearly_cancel_are_polished_and_certified_to_their_own_digits():
    """beta is orthogonal to the large kernel but for 1e-10; of integers, so that no eigenvalue of it is below 0."""
    x = np.random.default_rng(0).normal(size=(10, 2))
    K = [np.outer(*[np.rint(1e5 * x[:, 0])] * 2), np.exp(-((x[:, 1:] - x[:, 1]) ** 2))]
    problem = Problem(K, np.where(np.arange(10) % 2, 1.0, -1.0), C=1e6, loss="squared_hinge", regularizer=Lp(2))
    assert solve(problem).status is Status.OPTIMAL
