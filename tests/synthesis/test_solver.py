"""What the solvers promise beside agreement: limits, callbacks, screening, paths, bias, prediction, and patterns."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from makers import pressed
from synthesis.cases import KINDS, LOSSES, NORMS, PQR, make_kernels, make_problem

from mklref.certificate import Bounds
from mklref.exceptions import Interrupted, InvalidInput, InvalidParameter, InvalidType
from mklref.solution import Status
from mklref.synthesis import SynthesisProblem, certify, forward_backward, lambda_max, solve, solve_path
from mklref.synthesis.certificate import dual_value, residual
from mklref.synthesis.forward_backward import _iterate as iterate
from mklref.synthesis.problem import correlations, scores
from mklref.synthesis.solution import Run
from mklref.synthesis.solver import survivors

SOLVERS = pytest.mark.parametrize("solver", [solve, forward_backward])


@SOLVERS
def test_the_result_is_certified_at_exactly_the_returned_point(solver):
    problem = make_problem((2, 1, 1), n=10)
    solution = solver(problem, tol=1e-4)
    again = certify(problem, solution.coef, solution.dual_coef)
    assert solution.certificate == again
    assert solution.objective == again.objective
    assert solution.status is Status.OPTIMAL
    assert solution.certificate.infeasibility == 0.0
    records = solution.history.records
    assert records[-1].relative_gap <= 1e-4
    assert all(a.lower <= b.lower and a.upper >= b.upper for a, b in pairwise(records))
    assert solution.history.counters["passes"] > len(records)
    assert solution.history.counters.get("screened", 0.5) > 0.1  # of the method that screens


def test_the_best_point_is_kept_where_steps_overshoot():
    problem = make_problem((2, 2, 1), n=10, lam=0.05, loss="squared")
    run = Run(problem, 1e-6, 20, None, None, False)
    status = iterate(run, 1.9 / np.linalg.norm(np.hstack(problem.kernels), 2) ** 2, accelerated=False)
    solution = run.solution(status, "forward_backward")
    uppers = solution.history.column("upper")
    assert np.all(np.diff(uppers) <= 0.0)
    assert solution.objective == pytest.approx(uppers[-1], rel=1e-12)


def test_steps_that_are_too_long_are_refused():
    """Beyond 2/(C L ||K||^2) the iteration may diverge; the message has both numbers."""
    problem = make_problem((2, 1, 1), n=10, lam=0.05, loss="logistic", C=3.0)
    largest = 2.0 / (3.0 * 0.25 * np.linalg.norm(np.hstack(problem.kernels), 2) ** 2)
    forward_backward(problem, step=0.999 * largest, max_iter=1)
    for step in (True, "x"):
        with pytest.raises(InvalidType, match=f"step is {step!r}"):
            forward_backward(problem, step=step, max_iter=1)
    for step in (1.001 * largest, 1000 * largest, 0.0, -1.0, np.nan, np.inf):
        with pytest.raises(InvalidParameter, match=re.escape(f"step = {step!r} must lie in (0, 2/(C L ||K||^2)) = (")):
            forward_backward(problem, step=step, max_iter=1)
    with pytest.raises(InvalidParameter) as caught:
        forward_backward(problem, step=1.0)
    told = float(re.search(r"= \(0, ([^)]*)\)", str(caught.value)).group(1))
    assert told == pytest.approx(largest, rel=1e-2)
    silent = problem.replace(kernels=np.zeros_like(problem.kernels))
    for step in (None, 1e9):
        assert forward_backward(silent, step=step).status is Status.OPTIMAL


@SOLVERS
def test_limits_return_the_best_point_and_say_so(solver):
    problem = make_problem((1, 1, 1), lam=0.3)
    short = solver(problem, tol=1e-9, max_iter=1)
    assert short.status is Status.ITERATION_LIMIT
    assert short.certificate.gap > 0.0
    late = solver(problem, tol=1e-9, max_time=1e-9)
    assert late.status is Status.TIME_LIMIT
    assert np.isfinite(late.certificate.upper)
    # One for the dual point, two for the certificate, one for the lengths; none for a norm that no step is left for.
    assert late.history.counters["passes"] == pytest.approx(4.0 if solver is solve else 3.0)


@SOLVERS
def test_callback_sees_every_record_and_can_stop(solver):
    seen = []
    solution = solver(make_problem(lam=0.5), tol=1e-9, callback=lambda record: seen.append(record) or len(seen) == 2)
    assert solution.status is Status.STOPPED
    assert seen == list(solution.history.records)
    assert len(seen) == 2
    np.testing.assert_array_equal(seen[0].weights, np.zeros(3))


@SOLVERS
def test_interruption_carries_the_best_point(solver):
    problem = make_problem(lam=0.5)
    with pytest.raises(Interrupted) as caught:
        solver(problem, tol=1e-9, callback=pressed(3))
    solution = caught.value.solution
    assert solution.status is Status.INTERRUPTED
    assert solution.certificate.lower <= solve(problem).objective
    assert solve(problem).status is Status.OPTIMAL  # the problem stays usable


@SOLVERS
def test_progress_is_shown_on_standard_error(solver, capsys, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    solver(make_problem(), tol=1e-3, progress=True)
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "solving" in shown.err


@pytest.mark.parametrize("pqr", PQR)
@pytest.mark.parametrize("loss", LOSSES)
def test_nothing_is_learned_from_lambda_max_on(pqr, loss):
    """q = 1: A = 0 exactly from lambda_max on; q = 2: never, for the penalty is flat at 0."""
    problem = make_problem(pqr, loss=loss)
    largest = lambda_max(problem)
    if problem.norm.q == 2:
        assert largest == np.inf
        assert solve(problem.replace(lam=1e4)).coef.any()
        return
    assert not solve(problem.replace(lam=largest * (1 + 1e-9)), tol=1e-12).coef.any()
    assert solve(problem.replace(lam=largest * 0.999), tol=1e-12).coef.any()


def test_lambda_max_of_kernels_that_see_nothing():
    problem = make_problem((1, 2, 1))
    silent = problem.replace(kernels=np.zeros_like(problem.kernels))
    assert lambda_max(silent) == 0.0
    solution = solve(silent)
    assert solution.status is Status.OPTIMAL
    assert not solution.coef.any()


@pytest.mark.parametrize("norm", [norm for norm in NORMS if not (norm.separable and norm.q == 2)], ids=repr)
def test_gap_safe_screening_never_drops_what_is_active(norm):
    """At crude dual points, the columns that survive contain the support of the solution; near it, they are few."""
    problem = make_problem((norm.p, norm.q, norm.r), seed=5)
    best = solve(problem, tol=1e-10)
    lengths = np.linalg.norm(problem.kernels, axis=1)
    shares = []
    for mix in (0.5, 0.9, 0.99, 0.9999, 1.0):
        A = mix * best.coef
        t = scores(problem.kernels, A)
        beta = residual(problem, t)
        Z = correlations(problem.kernels, beta)
        lower, scale = dual_value(problem, beta, Z)
        gap = certify(problem, A).upper - lower
        radius = np.sqrt(2 * problem.C * problem.loss.smoothness * max(gap, 0.0))
        alive = survivors(norm, scale * Z, radius * lengths + 1e-9, problem.lam)
        assert alive[best.coef != 0.0].all()
        shares.append(alive.mean())
    if norm.p == 1 or norm.r == 1:
        assert shares[-1] < 1.0
    distance = np.linalg.norm(scale * beta - best.dual_coef)
    assert distance <= radius + 1e-5


@pytest.mark.sampled(2)
@pytest.mark.parametrize("pqr", PQR)
def test_path_from_lambda_max(pqr):
    problem = make_problem(pqr, constant=True)
    if problem.norm.q == 2:
        with pytest.raises(InvalidParameter, match="lambda_max = inf: give lam"):
            solve_path(problem)
        path = solve_path(problem, [10.0, 3.0, 1.0])
    else:
        path = solve_path(problem, count=4, ratio=0.1)
        assert not path[0].coef.any()
    assert all(solution.status is Status.OPTIMAL for solution in path)
    assert all(a.objective > b.objective for a, b in pairwise(path))
    again = solve_path(problem, [5.0, 2.0, 2.0])
    assert len(again[2].history) == 1  # it starts at its own solution
    stopped = solve_path(problem, [10.0, 3.0, 1.0], callback=lambda solution: True)
    assert len(stopped) == 1


def test_a_warm_start_saves_rounds():
    problem = make_problem((1, 1, 1), lam=0.2, n=30, tau=10)
    cold = solve(problem)
    warm = solve(problem.replace(lam=0.199), start=cold)
    assert warm.history.counters["newton_steps"] < cold.history.counters["newton_steps"]
    assert len(solve(problem, start=cold).history) == 1


@pytest.mark.parametrize("size", [1e100, 1e300])
def test_a_start_that_is_worse_than_none_is_none(size):
    problem = make_problem((1, 2, 1), n=10)
    cold = solve(problem)
    solution = solve(problem, start=replace(cold, coef=size * np.ones(problem.shape)))
    assert solution.status is Status.OPTIMAL
    assert solution.history.records[0].upper == cold.history.records[0].upper


def test_no_lower_bound_is_worse_than_that_of_no_dual_variables():
    """D(0) = 0; the residual of A = 0 proves nothing where lambda is next to nothing."""
    problem = make_problem((2, 2, 2), n=10, lam=1e-200, loss="logistic")
    solution = solve(problem, max_iter=1)
    assert solution.certificate.lower == solution.history.records[0].lower == 0.0


@pytest.mark.parametrize("kind", KINDS)
def test_decision_function_by_its_definition(kind, rng):
    """f(x) = sum_t sum_i A_ti k_t(x_i, x), (1), on the training samples and on new ones."""
    problem = make_problem((2, 1, 1), kind=kind, constant=True)
    solution = solve(problem)
    tau, _, N = problem.kernels[:-1].shape
    new = rng.normal(size=(tau, 5, N))
    expected = [
        sum(solution.coef[t, i] * new[t, j, i] for t in range(tau) for i in range(N)) + solution.coef[-1].sum()
        for j in range(5)
    ]
    np.testing.assert_allclose(solution.decision_function(new), expected)
    assert solution.bias == pytest.approx(solution.coef[-1].sum())
    trained = solution.decision_function(problem.kernels[:-1])
    np.testing.assert_allclose(trained, scores(problem.kernels, solution.coef))


def test_decision_function_refuses_other_shapes():
    solution = solve(make_problem(kind="rectangular"))
    for shape, message in (
        ((3, 14), r"shape \(3, 14\); expected \(3, k, 9\)"),
        ((2, 4, 9), r"expected \(3, k, 9\)"),
        ((3, 9, 4), "are the last two axes swapped"),
    ):
        with pytest.raises(InvalidInput, match=message):
            solution.decision_function(np.zeros(shape))
    with pytest.raises(InvalidInput, match=r"kernels_new\[0, 0, 0\] is nan"):
        solution.decision_function(np.full((3, 4, 9), np.nan))


def test_penalty_of_the_bias_under_the_norm_212():
    """The constant kernel costs |b|/sqrt(N): its coefficients are all equal to b/N."""
    problem = make_problem((2, 1, 2), constant=True, lam=0.5)
    solution = solve(problem.replace(y=np.r_[np.ones(11), -np.ones(3)]), tol=1e-10)
    row = solution.coef[-1]
    assert solution.bias > 0.1
    np.testing.assert_allclose(row, solution.bias / len(row), rtol=1e-3)
    assert np.linalg.norm(row) == pytest.approx(abs(solution.bias) / np.sqrt(len(row)), rel=1e-5)


def test_patterns_of_figure_1():
    """Which zeros each norm makes: entries, whole samples, whole kernels, or entries within each of them.

    Some expansion points and some kernels are informative, the others noise.
    """
    rng = np.random.default_rng(7)
    tau, n = 6, 40
    K = make_kernels(rng, "nonsymmetric", tau, n)
    informative = np.zeros((tau, n))
    informative[:2, :4] = rng.normal(size=(2, 4)) * 3
    y = np.sign(scores(K, informative) + 0.3 * rng.normal(size=n))

    def solved(p, q, r, lam):
        problem = SynthesisProblem(K, y, lam=lam, p=p, q=q, r=r)
        if q == 1:
            problem = problem.replace(lam=lam * lambda_max(problem))
        return solve(problem, tol=1e-9).coef != 0.0

    l1, l2 = solved(1, 1, 1, 0.3), solved(2, 2, 1, 1.0)
    assert l2.all()
    assert 0 < l1.sum() < 0.2 * l1.size

    by_sample = solved(2, 1, 1, 0.5)  # (b): few samples, each with all its kernels
    samples = by_sample.any(axis=0)
    assert 0 < samples.sum() < n / 2
    assert by_sample[:, samples].all()

    by_kernel = solved(2, 1, 2, 0.8)  # (d): few kernels, each with all its samples
    kernels = by_kernel.any(axis=1)
    assert 0 < kernels.sum() < tau
    assert by_kernel[kernels].all()

    within_samples = solved(1, 2, 1, 20.0)  # (a): all samples, each with few kernels
    assert within_samples.any(axis=0).all()
    assert 1 <= within_samples.sum(axis=0).mean() < 0.7 * tau

    within_kernels = solved(1, 2, 2, 20.0)  # (c): all kernels, each with few samples
    assert within_kernels.any(axis=1).all()
    assert 1 <= within_kernels.sum(axis=1).mean() < 0.5 * n


def test_relevance_map():
    """Figure 2: |A| scaled to [0, 1], (tau, N)."""
    solution = solve(make_problem((2, 1, 2), lam=6.0))
    relevance = solution.relevance()
    assert relevance.shape == solution.coef.shape
    assert relevance.max() == 1.0
    assert relevance.min() >= 0.0
    np.testing.assert_array_equal(solution.active_kernels, np.flatnonzero(relevance.any(axis=1)))
    np.testing.assert_array_equal(solution.active_samples, np.flatnonzero(relevance.any(axis=0)))
    nothing = solve(make_problem((2, 1, 2), lam=1e6))
    assert not nothing.relevance().any()
    assert not len(nothing.active_kernels)


def smooth_problem(pqr, n, widths, lam):
    """Gaussian kernels, whose columns are nearly dependent, and labels by the quadrant."""
    X = np.random.default_rng(3).normal(size=(n, 2))
    D = ((X[:, None] - X) ** 2).sum(axis=2)
    y = np.where(X[:, 0] * X[:, 1] > 0.0, 1.0, -1.0)
    return SynthesisProblem([np.exp(-D / width) for width in widths], y, lam=lam, p=pqr[0], q=pqr[1], r=pqr[2])


@pytest.mark.sampled(2)
@pytest.mark.parametrize("pqr", PQR)
def test_a_tenth_of_the_passes_of_the_algorithm_of_the_paper(pqr):
    """At a gap of 1e-6, on smooth kernels, whose columns are nearly dependent; the slow one may not even arrive."""
    problem = smooth_problem(pqr, 40, (0.5, 1.0, 2.0, 4.0), 1.0)
    problem = problem.replace(lam=lambda_max(problem) / 20 if pqr[1] == 1 else 1.0)
    fast = solve(problem)
    assert fast.status is Status.OPTIMAL
    budget = int(5 * fast.history.counters["passes"]) + 1  # two passes a step
    slow = forward_backward(problem, max_iter=budget)
    assert slow.status is Status.ITERATION_LIMIT


@pytest.mark.sampled(2)
@pytest.mark.parametrize("degenerate", ["zero", "constant", "duplicated", "one sample", "one column", "rank one"])
@pytest.mark.parametrize("pqr", PQR)
def test_degenerate_kernels(pqr, degenerate, rng):
    K = make_kernels(rng, "nonsymmetric", 2, 8)
    y = np.where(np.arange(8) < 3, -1.0, 1.0)
    if degenerate == "zero":
        K[0] = 0.0
    elif degenerate == "constant":
        K[:] = 0.7
    elif degenerate == "duplicated":
        K[1] = K[0]
        K[:, :, 1] = K[:, :, 0]
    elif degenerate == "one sample":
        K, y = K[:, :1], y[:1]
    elif degenerate == "one column":
        K = K[:1, :, :1]
    else:
        K[:] = rng.normal(size=(8, 1)) * rng.normal(size=(2, 1, 8))
    problem = SynthesisProblem(K, y, lam=0.7, p=pqr[0], q=pqr[1], r=pqr[2])
    assert solve(problem).status is Status.OPTIMAL


@pytest.mark.sampled(4)
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("pqr", PQR)
def test_the_gap_has_no_unit(pqr, loss):
    """(s K, s^q lambda) and (s C, s lambda) are the same problem: powers of two change no digit of what is done."""
    problem, s = make_problem(pqr, loss=loss), 2.0**-24
    known = solve(problem)
    assert known.status is Status.OPTIMAL
    assert known.certificate.gap <= 1e-6 * known.certificate.upper
    for other, unit in (
        (problem.replace(C=s * problem.C, lam=s * problem.lam), s),
        (problem.replace(C=problem.C / s, lam=problem.lam / s), 1 / s),
        (problem.replace(kernels=s * problem.kernels, lam=s ** pqr[1] * problem.lam), 1.0),
    ):
        found = solve(other)
        assert found.status is Status.OPTIMAL
        assert len(found.history) == len(known.history)
        assert found.objective == pytest.approx(unit * known.objective, rel=1e-8, abs=0.0)
        assert found.certificate.gap == pytest.approx(unit * known.certificate.gap, rel=1e-6, abs=0.0)
        crude = solve(other, max_iter=1)
        assert crude.certificate.gap > 1e-3 * crude.certificate.upper
        assert crude.status is Status.ITERATION_LIMIT
        assert forward_backward(other, tol=1e-2, max_iter=3).status is Status.ITERATION_LIMIT


@pytest.mark.sampled(4)
@pytest.mark.parametrize("pqr", PQR)
def test_small_objectives_are_relatively_accurate(pqr):
    """Far below 1, though not below what rounding can tell from zero: smooth kernels that nearly fit the labels."""
    solution = solve(smooth_problem(pqr, 30, (0.5, 1.0, 2.0), 1e-5), tol=1e-5)
    assert solution.objective < 0.1
    assert solution.status is Status.OPTIMAL
    assert solution.certificate.gap <= 1e-5 * solution.objective


def test_optimal_is_a_relative_gap_however_small_the_objective():
    """Where rounding hides the optimal value beside P(0) the status is STALLED, and the bounds say what is known."""
    for gap, enough in ((0.9e-6, True), (1.1e-6, False), (-1.1e-6, False)):
        for unit in (1.0, 1e-30, 1e30):
            assert Bounds((1.0 - gap) * unit, unit, 0.0, ()).is_optimal(1e-6) is enough
    assert not Bounds(1.0, np.inf, 0.0, ()).is_optimal(1e-6)
    problem = make_problem((2, 1, 2), C=1e15)
    solution = solve(problem)
    assert solution.objective < 1e-12 * certify(problem, np.zeros(problem.shape)).upper
    assert solution.certificate.gap > 1e-6 * solution.objective
    assert solution.status is Status.STALLED
