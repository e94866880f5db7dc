"""`solve`: every method reaches a stationary point of (14) to 1e-6; statuses, restarts, noise, laws, saddles."""

from __future__ import annotations

from dataclasses import replace
from unittest.mock import Mock

import numpy as np
import pytest
from evidence.models import gradient_by_definition, make_model, objective_by_definition
from makers import pressed
from scipy.optimize import minimize

from mklref.evidence import (
    METHODS,
    EvidenceProblem,
    EvidenceSolution,
    EvidenceStatus,
    MarginalLikelihood,
    iterations,
    simulate,
    solve,
    solver as evidence_solver,
    stationarity,
)
from mklref.evidence.iterations import Reweighted
from mklref.exceptions import Interrupted, InvalidParameter
from mklref.native import solve as solve_mkl
from mklref.problem import Problem

SHAPES = ["generic", "low_rank", "duplicated_kernel", "zero_kernel"]


def conditions_by_differences(problem: EvidenceProblem, solution: EvidenceSolution) -> float:
    """The largest violation of theta_m dphi/dtheta_m = 0 and dphi/dtheta_m >= 0, the latter in units of 1/trace."""
    worst = 0.0
    for m in range(problem.n_kernels):
        scale = problem.kernels.traces()[m] / problem.n_samples
        if scale == 0.0:
            continue
        step = 1e-5 / scale
        up, down = solution.weights.copy(), solution.weights.copy()
        up[m] += step
        down[m] = max(down[m] - step, 0.0)
        change = objective_by_definition(problem, up, solution.noise_variance)
        change -= objective_by_definition(problem, down, solution.noise_variance)
        slope = change / (up[m] - down[m]) / scale
        worst = max(worst, -slope, abs(slope) * min(1.0, solution.weights[m] * scale))
    return worst


@pytest.mark.sampled(8)
@pytest.mark.parametrize("learn_noise", [False, True])
@pytest.mark.parametrize("degenerate", SHAPES)
@pytest.mark.parametrize("method", METHODS)
def test_every_end_is_stationary_to_1e_6_and_no_step_leads_up(degenerate, learn_noise, method):
    problem = make_model(degenerate=degenerate, seed=SHAPES.index(degenerate), learn_noise=learn_noise)
    solution = solve(problem, method)
    assert solution.status is EvidenceStatus.STATIONARY
    assert solution.stationarity.is_stationary(1e-6)
    again = stationarity(problem, solution.weights, solution.noise_variance)
    assert again.residual == pytest.approx(solution.stationarity.residual, rel=1e-3, abs=1e-12)
    assert again.curvature > -1e-6
    assert conditions_by_differences(problem, solution) < 1e-3
    value = objective_by_definition(problem, solution.weights, solution.noise_variance)
    assert solution.objective == pytest.approx(value, rel=1e-9)
    assert not hasattr(solution, "certificate")
    objectives = [record.objective for record in solution.history]
    assert np.diff(objectives).max() <= 1e-9 * (1.0 + abs(solution.objective))
    assert objectives[-1] == solution.objective < objectives[0]
    if method == "reweighted":
        assert all(record.inner_gap <= 1e-6 for record in solution.history[1:])


@pytest.mark.parametrize("learn_noise", [False, True])
def test_the_direct_method_against_scipy(learn_noise):
    for seed in range(3):
        problem = make_model(seed=seed, learn_noise=learn_noise)
        start = problem.join(problem.default_weights(), problem.noise_variance)
        found = minimize(
            lambda x, problem=problem: objective_by_definition(problem, *problem.split(x)),
            start,
            jac=lambda x, problem=problem: gradient_by_definition(problem, *problem.split(x)),
            bounds=[(bound, None) for bound in problem.lower],
            method="L-BFGS-B",
            options={"ftol": 1e-13, "gtol": 1e-7},
        )
        solution = solve(problem, tol=1e-9)
        assert solution.objective <= found.fun + 1e-9
        assert solution.objective == pytest.approx(found.fun, abs=1e-5)
        np.testing.assert_allclose(solution.weights, problem.split(found.x)[0], atol=2e-3)


def test_two_stationary_points_and_what_restarts_do():
    """A problem on which starts end at different objectives: no method can know which is lower."""
    problem = make_model(degenerate="duplicated_samples", seed=1, n=30, M=5, noise=0.0025)
    alone = solve(problem)
    several = solve(problem, restarts=11, rng=np.random.default_rng(1))
    assert len(several.restart_objectives) == 12
    assert several.restart_objectives[0] == pytest.approx(alone.objective, abs=1e-9)
    assert np.ptp(several.restart_objectives) > 0.01
    assert several.objective == several.restart_objectives.min()
    assert several.objective == pytest.approx(objective_by_definition(problem, several.weights, 0.0025), rel=1e-8)
    again = solve(problem, restarts=3, rng=np.random.default_rng(1))
    np.testing.assert_array_equal(several.restart_objectives[:4], again.restart_objectives)


def test_a_drawn_start_that_float64_does_not_hold_loses_no_other():
    """Some of these twelve make the covariance singular, and `solve` ended in the error of the first of them."""
    model = make_model(degenerate="low_rank")
    problem = EvidenceProblem(model.kernels, model.y, 1e-14)
    several = solve(problem, restarts=12, max_iter=20)
    assert 1 < len(several.restart_objectives) < 13
    assert several.objective <= solve(problem, max_iter=20).objective


@pytest.mark.parametrize("method", METHODS)
def test_targets_of_any_size_end_in_a_status(method):
    """Second derivatives beyond float64 are nobody's."""
    model = make_model(n=8)
    solution = solve(EvidenceProblem(model.kernels, 1e131 * model.y, 4e-3), method, max_iter=30)
    assert isinstance(solution.status, EvidenceStatus)


def test_learned_noise_is_that_of_the_model():
    problem = make_model(seed=3, n=120, M=2, noise=0.25)
    learned = EvidenceProblem(problem.kernels, problem.y, 3.0, learn_noise=True)
    solution = solve(learned)
    assert solution.noise_variance == pytest.approx(0.25, rel=0.3)
    assert solution.objective < solve(EvidenceProblem(problem.kernels, problem.y, 3.0)).objective


def test_noise_rests_on_its_floor_where_the_kernels_can_interpolate():
    """Without a floor (14) falls without bound here: y lies in the range of a kernel of low rank."""
    rng = np.random.default_rng(0)
    root = rng.normal(size=(10, 2))
    problem = EvidenceProblem([root @ root.T], root @ [1.0, -2.0], 0.1, learn_noise=True, noise_floor=1e-4)
    for method in METHODS:
        solution = solve(problem, method)
        assert solution.noise_variance == pytest.approx(1e-4, rel=1e-6)
        assert solution.status is EvidenceStatus.STATIONARY
    lower = solve(EvidenceProblem(problem.kernels, problem.y, 0.1, learn_noise=True, noise_floor=1e-6))
    assert lower.objective < solution.objective - 10.0


def test_a_weight_of_zero_that_should_grow():
    problem = make_model()
    start = np.array([0.0, 0.5, 0.5])
    absorbed = solve(problem, "mackay", start=start)
    assert absorbed.status is EvidenceStatus.ABSORBED
    assert absorbed.stationarity.residuals[0] > 0.01
    assert absorbed.stationarity.residuals[1:].max() <= 1e-6
    assert absorbed.weights[0] == 0.0
    onwards = solve(problem, "newton", start=absorbed.weights)
    assert onwards.status is EvidenceStatus.STATIONARY
    assert onwards.weights[0] > 0.0
    assert onwards.objective < absorbed.objective


@pytest.mark.parametrize(
    ("kernels", "y", "atol"), [([np.ones((2, 2))], [1.0, -1.0], 1e-12), (make_model().kernels, np.zeros(20), 0.0)]
)
def test_where_no_kernel_sees_the_targets_all_weights_are_0(kernels, y, atol):
    """K y = 0: the inner problem is solved by f = 0 at any weight, and the weight is that of f."""
    for method in METHODS:
        solution = solve(EvidenceProblem(kernels, y, 0.1), method)
        assert solution.status is EvidenceStatus.STATIONARY
        np.testing.assert_allclose(solution.weights, 0.0, atol=atol)


def test_limits_and_callbacks():
    problem = make_model()
    short = solve(problem, "mackay", max_iter=3)
    assert short.status is EvidenceStatus.ITERATION_LIMIT
    assert [record.iteration for record in short.history] == [0, 1, 2]
    assert short.stationarity.residual > 1e-6
    again = solve(problem, "mackay", max_iter=3, restarts=2)
    assert [record.iteration for record in again.history] == [0, 1, 2]
    starts = [solve(problem, "mackay", max_iter=1, restarts=k).restart_objectives for k in (0, 2)]
    assert np.all(again.restart_objectives < starts[1])
    assert starts[0] == starts[1][0]
    late = solve(problem, "mackay", max_time=1e-9, restarts=3)
    assert late.status is EvidenceStatus.TIME_LIMIT
    assert len(late.restart_objectives) == 1
    seen = []
    stopped = solve(problem, callback=lambda record: seen.append(record) or len(seen) == 2)
    assert stopped.status is EvidenceStatus.STOPPED
    assert stopped.history == tuple(seen)
    assert stopped.objective == seen[1].objective
    enough = solve(problem, restarts=3, callback=lambda record: record.residual <= 1e-6)  # at a goal, too
    assert enough.status is EvidenceStatus.STATIONARY
    assert len(enough.restart_objectives) == 1
    assert "not convex" in EvidenceStatus.STATIONARY.value


@pytest.mark.parametrize("method", ["newton", "reweighted"])
def test_an_accuracy_beyond_rounding_stalls(method):
    """Also where rounding happens to leave no residual at all."""
    solution = solve(make_model(n=12), method, tol=1e-17)
    assert solution.status is EvidenceStatus.STALLED
    assert solution.stationarity.residual < 1e-5


def low_noise_model(noise: float, learn_noise: bool = False, width: float = 1.0) -> EvidenceProblem:
    """Targets with less noise, or more, than the problem says: a badly conditioned covariance, as wide as it is."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(30, 3))
    kernels = [np.exp(-(((X[:, None, j] - X[None, :, j]) / width) ** 2)) for j in range(3)] + [X @ X.T]
    _, y = simulate(kernels, [1.0, 0.0, 0.0, 1.0], 0.01, rng)
    return EvidenceProblem(kernels, y, noise, learn_noise=learn_noise)


def assert_certified_and_downwards(solution, rounding=1e-12):
    objectives = np.array([record.objective for record in solution.history])
    assert len(objectives) > 1
    assert np.all(np.diff(objectives) <= rounding * (1.0 + np.abs(objectives[1:])))
    assert all(record.inner_gap <= 1e-6 for record in solution.history[1:])


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("noise", "learn_noise"), [(1e-2, True), (1e-3, False)])
def test_reweighted_is_stationary_with_little_noise(noise, learn_noise):
    """The native solver alone does not bring the inner problems to the gap that this takes."""
    problem = low_noise_model(noise, learn_noise)
    solution = solve(problem, "reweighted")
    assert solution.status is EvidenceStatus.STATIONARY
    assert solution.objective == pytest.approx(solve(problem).objective, abs=1e-8)
    assert_certified_and_downwards(solution)


def test_reweighted_stalls_where_nothing_can_be_certified():
    """With next to no noise: it stalls, says what to do, and newton does it."""
    problem = low_noise_model(1e-12, learn_noise=True, width=14.0)
    solution = solve(problem, "reweighted")
    assert solution.status is EvidenceStatus.STALLED
    assert "'newton'" in solution.status.value
    assert solve(problem, start=solution.weights).objective < solution.objective - 1.0


def test_reweighted_refuses_steps_upwards(monkeypatch):
    """Of an inner solution that is certified but leads up, and one that leads down but is not certified."""
    point = MarginalLikelihood(make_model(), np.array([0.3, 1.0, 2.0]))
    good = Reweighted(point.problem).step(point)
    assert good.value < point.value
    certified = solve_mkl(Problem(point.problem.kernels, point.problem.y, loss="squared", intercept=False))
    crude = replace(certified, certificate=replace(certified.certificate, lower=0.0))
    for inner, following in ((crude, good), (certified, MarginalLikelihood(point.problem, 100.0 * point.weights))):
        method = Reweighted(point.problem)
        monkeypatch.setattr(method, "_inner_solutions", lambda *given, inner=inner: iter([inner]))
        monkeypatch.setattr(method, "_following", lambda *given, following=following: following)
        assert method.step(point) is None
        assert method.inner is None


def test_interruption_carries_the_best_point():
    with pytest.raises(Interrupted, match="best point so far: objective") as caught:
        solve(make_model(), "mackay", callback=pressed(3), restarts=4)
    assert caught.value.solution.status is EvidenceStatus.INTERRUPTED
    assert np.isfinite(caught.value.solution.objective)


def test_an_interruption_between_two_starts_counts_the_first_one_once(monkeypatch):
    monkeypatch.setattr(evidence_solver.Recorder, "again", Mock(side_effect=KeyboardInterrupt))
    with pytest.raises(Interrupted) as caught:
        solve(make_model(), restarts=2)
    assert caught.value.solution.status is EvidenceStatus.STATIONARY
    assert caught.value.solution.restart_objectives.tolist() == [caught.value.solution.objective]


def test_an_interruption_of_an_inner_problem_carries_a_point_of_the_outer_one(monkeypatch):
    monkeypatch.setattr(iterations, "solve_mkl", Mock(side_effect=Interrupted(None)))
    with pytest.raises(Interrupted) as caught:
        solve(make_model(), "reweighted")
    assert isinstance(caught.value.solution, EvidenceSolution)
    assert caught.value.solution.status is EvidenceStatus.INTERRUPTED


def test_progress_is_shown_on_standard_error(capsys, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    solve(make_model(), progress=True)
    shown = capsys.readouterr()
    assert (shown.out, "stationarity" in shown.err, "residual" in shown.err) == ("", True, True)


def test_stationarity_of_any_weights():
    problem = make_model(learn_noise=True, noise_floor=0.01)
    poor = stationarity(problem, np.full(3, 5.0))
    assert poor.residual > 0.1
    assert not poor.is_stationary()
    assert "residual" in str(poor)
    assert poor.gradient.shape == poor.residuals.shape == (4,)
    with pytest.raises(InvalidParameter, match=r"noise_variance = 0\.001 is below noise_floor = 0\.01"):
        stationarity(problem, np.ones(3), 0.001)
    assert stationarity(problem, np.ones(3), 0.01).residual > 0.1
    with pytest.raises(InvalidParameter, match=r"tol = nan must lie in \[0, inf\]"):
        poor.is_stationary(float("nan"))
    nothing = stationarity(EvidenceProblem(problem.kernels, np.zeros(20), 1.0), np.zeros(3))
    assert nothing.residual == 0.0
    assert nothing.curvature == np.inf


def rank_one(u: list[float], v: list[float], y: list[float], noise: float) -> EvidenceProblem:
    return EvidenceProblem([np.outer(u, u), np.outer(v, v)], y, noise)


A = rank_one([1.0, 3.0], [1.0, 2.0], [3.0, 2.0], 0.4)
B = rank_one([1.0, -1.0, 2.0], [2.0, -3.0, 2.0], [0.0, 1.0, 1.0], 0.3)


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    ("problem", "start", "ends"),
    [
        (A, 1.0, (5.183, 4.212, 5.183, 5.183)),
        (A, 3.0, (4.212, 4.212, 4.212, 4.212)),
        (B, 2.0, (1.527, 1.677, 1.677, 1.677)),
        (B, 0.1, (1.677, 1.677, 1.677, 1.677)),
    ],
)
def test_where_the_methods_differ(problem, start, ends):
    """The table of the page on empirical Bayes; every end is a strict local minimum."""
    solutions = [solve(problem, method, start=(start, start)) for method in METHODS]
    np.testing.assert_allclose([solution.objective for solution in solutions], ends, atol=6e-4)
    for solution in solutions:
        assert solution.status is EvidenceStatus.STATIONARY
        assert solution.stationarity.curvature > 0.2
        held = solution.weights < 1e-5
        assert np.all(solution.stationarity.gradient[held] > 0.1)


def test_a_saddle_on_the_boundary_shows_in_the_curvature():
    """At (3.75, 0) the derivative in theta_2 vanishes as well, and (14) falls from there to (12.5, 1.4)."""
    problem = rank_one([1.0, -1.0], [1.0, -2.0], [3.0, -1.0], 0.5)
    saddle, minimum = stationarity(problem, [3.75, 0.0]), stationarity(problem, [12.5, 1.4])
    assert saddle.residual < 1e-12
    assert saddle.curvature < -0.01
    assert minimum.residual < 1e-12
    assert minimum.curvature > 0.1
    along = [objective_by_definition(problem, np.array([3.75 + 8.75 * t, 1.4 * t]), 0.5) for t in (0, 0.3, 0.6, 1)]
    assert np.all(np.diff(along) < 0.0)
    assert solve(problem, start=[3.75, 0.0]).objective == pytest.approx(along[-1], abs=1e-4)
    assert solve(problem, start=[3.75, 0.0], max_iter=1).status is EvidenceStatus.ITERATION_LIMIT


@pytest.mark.parametrize("error", [RuntimeError("Maximum number of iterations reached."), np.linalg.LinAlgError("eig")])
def test_newton_stalls_where_the_minimum_of_its_model_cannot_be_had(monkeypatch, error):
    monkeypatch.setattr("mklref.evidence.newton.nnls", Mock(side_effect=error))
    solution = solve(A)
    assert solution.status is EvidenceStatus.STALLED
    assert solution.objective == solution.history[0].objective


def test_noise_that_starts_far_too_large():
    """It falls by orders of magnitude while every weight vanishes; then weights have to come back."""
    problem = make_model(n=10)
    learned = EvidenceProblem(problem.kernels, problem.y, 1e6, learn_noise=True)
    expected = solve(learned)
    again = solve(learned, "reweighted")
    assert again.status is EvidenceStatus.STATIONARY
    assert again.objective == pytest.approx(expected.objective, abs=1e-6)


def test_newton_needs_few_steps_with_many_kernels(rng):
    """Most weights meet their bound; stopped one by one they took 114 steps, and more on the way of "reweighted"."""
    X, widths = rng.normal(size=(10, 5)), 10.0 ** rng.uniform(-1, 1, size=20)
    kernels = [np.exp(-(np.subtract.outer(x, x) ** 2) / width) for x in X.T for width in widths]
    solution = solve(EvidenceProblem(kernels, np.sin(2 * X[:, 0]), 0.01))
    assert solution.status is EvidenceStatus.STATIONARY
    assert len(solution.history) <= 30


def test_newton_leaves_the_saddle_to_which_symmetry_leads():
    """A rotation leaves kernels and targets as they are: all weights stay equal, from the default start on."""
    lines = [np.roll([1.0, -3.0, -3.0, 1.0], shift) for shift in range(4)]
    problem = EvidenceProblem([np.outer(line, line) for line in lines], np.ones(4), 0.1)
    saddle, minimum = solve(problem, "mackay"), solve(problem)
    assert np.ptp(saddle.weights) < 1e-6
    assert saddle.stationarity.curvature < -0.4
    assert "'newton' leaves it" in saddle.status.value
    assert minimum.status is EvidenceStatus.STATIONARY
    assert minimum.stationarity.curvature > 0.4
    assert minimum.objective < saddle.objective - 1.3


@pytest.mark.parametrize(("slope", "curvature"), [(1e-3, np.inf), (1e-9, 0.25)])
def test_a_slope_holds_a_weight_at_zero_unless_it_is_rounding_and_zero_kernels_do_not_count(slope, curvature):
    """K = I at theta = 0, s = 1 has z = 2, the slope 1/2 (1 - y'y/2) z and the second derivative y'y - 1."""
    problem = EvidenceProblem([np.eye(2), np.zeros((2, 2))], np.full(2, np.sqrt(1.0 - 2.0 * slope)), 1.0)
    assert stationarity(problem, [0.0, 1.0]).curvature == pytest.approx(curvature, rel=1e-6)
