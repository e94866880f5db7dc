"""The steps of the algorithms one by one, against their definitions: directions, searches, Hessians."""

from __future__ import annotations

import sys
from dataclasses import replace

import cvxpy as cp
import numpy as np
import pytest
from algorithms.cases import cancer, small
from conic import solve
from makers import make_problem

import mklref
from mklref import algorithms
from mklref.algorithms import base
from mklref.algorithms.base import Run
from mklref.algorithms.hessian_mkl import hessian, newton_point
from mklref.algorithms.simplemkl import balanced, descent_direction, line_search, longest_step, moved
from mklref.exceptions import InvalidParameter
from mklref.machines import machine_for
from mklref.machines.newton import NewtonMachine
from mklref.machines.quadratic_forms import QuadraticForms
from mklref.solution import Status


def run_on(problem, tol=1e-6):
    return Run("test", problem, tol, 100)


def sparse_weights(rng, M, zeros=2):
    weights = rng.dirichlet(np.ones(M))
    weights[rng.permutation(M)[:zeros]] = 0.0
    return weights / weights.sum()


# --- SimpleMKL -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(20))
def test_the_direction_keeps_the_simplex_and_descends(seed):
    rng = np.random.default_rng(seed)
    d, gradient = sparse_weights(rng, 6), rng.normal(size=6)
    mu = int(np.argmax(d))
    D = descent_direction(d, gradient, mu)
    assert abs(D.sum()) <= 1e-14
    assert np.all(D[d == 0.0] >= 0.0)
    assert gradient @ D <= 0.0
    for m in range(6):  # (14), line by line, with the case that is missing there (erratum R1)
        if m != mu:
            reduced = gradient[m] - gradient[mu]
            assert D[m] == (0.0 if d[m] == 0.0 and reduced > 0.0 else -reduced)
    nu, longest = longest_step(d, D)
    end = moved(d, D, longest, nu)
    assert end[nu] == 0.0
    assert end.min() >= 0.0
    assert end.sum() == pytest.approx(1.0, abs=1e-14)


@pytest.mark.parametrize("seed", range(20))
def test_weights_that_reach_zero_together_are_zero(seed):
    """What rounding left of one was the next to reach 0, at a step too short for any decrease: the run stalled."""
    rng = np.random.default_rng(seed)
    d = rng.dirichlet(np.ones(8))
    D = balanced(np.where(np.arange(8) < 5, -rng.uniform(0.1, 10.0) * d, 0.0), 7)
    nu, longest = longest_step(d, D)
    assert moved(d, D, longest, nu)[:5].tolist() == [0.0] * 5


def test_a_direction_of_zero_means_optimal():
    d, gradient = np.array([0.5, 0.5, 0.0]), np.array([-2.0, -2.0, -1.0])
    assert not descent_direction(d, gradient, 0).any()


def test_the_corrected_direction_is_that_of_r2():
    """D_mu + D_nu and D_nu = 0, as the published erratum would have it; D_mu - D_nu leaves the simplex."""
    D = np.array([-0.5, -1.0, 1.0, 0.5])
    removed = D * np.array([1.0, 0.0, 1.0, 1.0])
    assert balanced(removed, 3).tolist() == [-0.5, 0.0, 1.0, D[3] + D[1]]


def test_line_search_finds_the_minimum_of_a_segment():
    """Against a fine grid; also where the minimum is at a tiny share of the segment."""
    run = run_on(cancer(), tol=1e-4)
    d = np.full(13, 1 / 13)
    point = run.svm(d)
    D = descent_direction(d, run.gradient(point), 0)
    _, longest = longest_step(d, D)
    for stretch in (1.0, 0.2):
        found = line_search(run, point, D, stretch * longest)
        grid = [run.svm(moved(d, D, gamma)).value for gamma in np.linspace(0.0, stretch * longest, 30)]
        fall = point.value - min(grid)
        assert found.value <= min(grid) + 0.05 * fall
    assert line_search(run, found, np.zeros(13), 1.0).value <= found.value


def test_line_search_returns_its_start_where_nothing_is_lower():
    problem = cancer()
    run = run_on(problem)
    best = run.svm(mklref.solve(problem, tol=1e-8).weights)
    D = np.zeros(13)
    D[[4, int(np.argmax(best.weights))]] = 1.0, -1.0
    assert line_search(run, best, D, 0.1) is best


@pytest.mark.parametrize(("name", "share"), [("simplemkl", 0.8), ("gradient_descent", 0.99)])
def test_trials_that_read_fewer_kernels_find_the_same_iterates(name, share, monkeypatch, calls_of):
    """Against the twin whose trials read all of them."""
    read = calls_of(QuadraticForms, "_apply", lambda forms, kernels, step: len(kernels) * forms._reads(step))
    found = algorithms.ALGORITHMS[name](cancer(), tol=1e-7, max_iter=8).history
    few = sum(read)
    monkeypatch.setattr(Run, "trial", Run.svm)
    monkeypatch.setattr(Run, "completed", lambda run, point: point)
    twin = algorithms.ALGORITHMS[name](cancer(), tol=1e-7, max_iter=8).history
    assert found.column("svm_calls").tolist() == twin.column("svm_calls").tolist()
    assert found.column("weights") == pytest.approx(twin.column("weights"), abs=1e-6)
    assert found.column("upper") == pytest.approx(twin.column("upper"), rel=1e-9)
    assert few <= share * (sum(read) - few)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", ["simplemkl", "gradient_descent"])
@pytest.mark.parametrize("stop", ["gap", "kkt", "weights"])
def test_stops_are_all_reported_and_obeyed(name, stop):
    solution = algorithms.ALGORITHMS[name](cancer(), tol=1e-3, stop=stop)
    *before, last = [record.measures for record in solution.history.records]
    assert set(last) == {"gap", "kkt", "weights"}
    if stop != "gap":
        assert last[stop] <= 1e-3
        assert all(measures[stop] > 1e-3 for measures in before)
    again = solution.certificate
    assert solution.status is (Status.OPTIMAL if again.is_optimal(1e-3) else Status.INACCURATE)


def test_weights_that_stand_still_are_not_optimal():
    """The cheap criterion of 5.1.3 stops plain descent at a gap of 16 %, and the status says so."""
    solution = algorithms.gradient_descent(cancer(), tol=1e-2, stop="weights")
    last = len(solution.history)
    for limit in ({"max_iter": last}, {"callback": lambda record: record.iteration + 1 == last}):
        again = algorithms.gradient_descent(cancer(), tol=1e-2, stop="weights", **limit)
        assert (again.status, len(again.history)) == (Status.INACCURATE, last)
    assert solution.history.records[-1].measures["weights"] <= 1e-2
    assert solution.status is Status.INACCURATE
    assert solution.certificate.relative_gap > 0.1


def test_criterion_15_is_twice_the_gap():
    """The measure is (max_m q_m - d'q)/2 relative to J: what (15) prints is twice that (erratum R5)."""
    first = algorithms.simplemkl(cancer(), tol=1e-6, max_iter=1).history.records[0]
    machine = machine_for(cancer())
    machine.move(first.weights)
    for _ in range(2):  # the first one is coarse
        machine.solve(1e-9)
    q = machine.forms.squares
    printed = q.max() - first.weights @ q
    assert first.measures["gap"] * first.objective == pytest.approx(printed / 2, rel=1e-5)


def test_an_unknown_stop_is_refused():
    with pytest.raises(InvalidParameter, match="stop = 'objective' is unknown; known names: gap, kkt, weights"):
        algorithms.simplemkl(cancer(), stop="objective")


def test_simplemkl_needs_fewer_gradients_than_plain_descent_where_many_weights_vanish():
    """The point of the correction of the direction: it takes many weights to 0 for one gradient."""
    first = algorithms.simplemkl(cancer(), max_iter=1).history.counters
    assert first == {"svm": 1.0, "gradient": 1.0, "inner_steps": first["inner_steps"]}
    after = algorithms.simplemkl(cancer(), max_iter=2).history.records[1].weights
    plain = algorithms.gradient_descent(cancer(), max_iter=2).history.records[1].weights
    assert np.count_nonzero(plain) >= 12
    assert np.count_nonzero(after) < np.count_nonzero(plain)


# --- HessianMKL ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge", "logistic", "squared", "epsilon_insensitive"])
def test_hessian_by_differences(loss, rng):
    problem = make_problem(loss=loss, seed=6, n=30, M=4)
    run = run_on(problem)
    d = rng.dirichlet(np.full(4, 5.0))
    run.svm(d)
    H = hessian(run)
    h = 1e-5
    for m in range(4):
        step = h * np.eye(4)[m]
        column = (run.gradient(run.svm(d + step)) - run.gradient(run.svm(d - step))) / (2 * h)
        assert column == pytest.approx(H[m], rel=1e-3, abs=1e-4 * np.abs(H).max())


def test_the_half_square_is_factorised_once_for_each_machine(monkeypatch):
    """Q + D does not depend on the scores: the factor that solved the machine is that of its Hessian."""
    factors = []
    factor = NewtonMachine._factor
    monkeypatch.setattr(
        NewtonMachine, "_factor", lambda machine, w: factors.append(machine.weights) or factor(machine, w)
    )
    solution = algorithms.hessian_mkl(make_problem(loss="squared", seed=6, n=40, M=6), tol=1e-6)
    assert solution.status is Status.OPTIMAL
    assert len(factors) == len({tuple(weights) for weights in factors}) <= solution.history.counters["svm"]


@pytest.mark.parametrize("name", ["simplemkl", "gradient_descent"])
def test_a_weight_next_to_0_ends_no_run_because_j_is_known_to_its_accuracy_alone(name, monkeypatch):
    """A step that takes 5e-15 to 0 changes nothing, and may seem to lead up."""
    trial, weights = Run.trial, np.array([0.25, 5e-15, 0.25, 0.25, 0.25 - 5e-15])

    def slightly_above(run, theta):
        found = trial(run, theta)
        return replace(found, dual_term=found.dual_term + 1e-14 * abs(found.value))

    monkeypatch.setattr(Run, "trial", slightly_above)
    monkeypatch.setattr(base, "feasible_weights", lambda *given: weights)
    assert algorithms.ALGORITHMS[name](small(name), tol=1e-5).status is Status.OPTIMAL


@pytest.mark.parametrize("goal", [lambda *given: None, lambda d, gradient, *given: np.eye(5)[gradient.argmax()]])
def test_hessian_mkl_takes_the_step_of_the_linear_program_where_newton_has_none_or_one_uphill(goal, monkeypatch):
    monkeypatch.setattr(sys.modules["mklref.algorithms.hessian_mkl"], "newton_point", goal)
    assert algorithms.hessian_mkl(small("hessian_mkl"), tol=1e-3).status is Status.OPTIMAL


def test_newton_point_against_its_definition(rng):
    root, gradient, d = rng.normal(size=(6, 5)), rng.normal(size=5), sparse_weights(rng, 5)
    H = root.T @ root
    s = cp.Variable(5)
    solve(cp.Problem(cp.Minimize(gradient @ s + 0.5 * cp.sum_squares(root @ s)), [d + s >= 0, cp.sum(s) == 0]))
    assert newton_point(d, gradient, H, 1.0) == pytest.approx(d + s.value, abs=1e-6)


def no_free_support_vectors():
    """C so small that every beta of the smaller class is at its bound, and the other ones balance it."""
    problem = make_problem(seed=8, n=24, M=4, C=1e-3)
    y = np.where(np.arange(24) < 12, 1.0, -1.0)
    return problem.replace(y=y)


def test_hessian_mkl_without_free_support_vectors():
    problem = no_free_support_vectors()
    run = run_on(problem)
    point = run.svm(run.start)
    assert np.all(np.abs(point.betas[0]) == problem.C)
    assert hessian(run).tolist() == np.zeros((4, 4)).tolist()
    solution = algorithms.hessian_mkl(problem, tol=1e-6)
    assert solution.status is Status.OPTIMAL
    assert solution.weights[np.argmax(point.squares)] == pytest.approx(1.0, abs=1e-6)  # J is linear
