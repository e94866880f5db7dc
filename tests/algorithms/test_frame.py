"""The frame of the algorithms: counters, bounds, limits, callbacks, interruption; the same for every algorithm."""

from __future__ import annotations

import dataclasses
import inspect
import pickle
import re
import sys
import types
from functools import partial
from unittest.mock import Mock

import numpy as np
import pytest
from algorithms.cases import SIMPLEX, cancer, small
from makers import make_problem, pressed

import mklref
from mklref import algorithms, synthesis
from mklref.algorithms.base import Run
from mklref.exceptions import Interrupted
from mklref.machines.machine import Machine
from mklref.solution import Status

EXPONENT = {"sip": 1.5, "lp_wrapper": 1.1}
MINE = (*SIMPLEX, "sip")
every_algorithm = pytest.mark.parametrize("name", MINE)


def problem_of(name):
    return cancer(mklref.Lp(EXPONENT.get(name, 1)))


def solve(name, **options):
    return algorithms.ALGORITHMS[name](problem_of(name), **options)


def test_every_name_is_a_function_of_the_package():
    """Modules have the names of their functions; what `mklref.algorithms.silp` gives is the function."""
    assert set(MINE) <= set(algorithms.ALGORITHMS)
    for name, function in algorithms.ALGORITHMS.items():
        assert isinstance(function, types.FunctionType)
        assert getattr(algorithms, name) is function
        assert getattr(mklref.algorithms, name) is function
        assert name in algorithms.__all__
        parameters = inspect.signature(function).parameters
        assert parameters["max_iter"].default >= 100
        defaults = {"tol": 1e-4, "max_time": None, "callback": None, "progress": False}
        assert {key: parameters[key].default for key in defaults} == defaults
        assert [key for key, p in parameters.items() if p.kind is not p.KEYWORD_ONLY] == ["problem"]


@every_algorithm
def test_counters_against_a_count_of_machines_and_bounds_that_only_improve(name, calls_of):
    """SVM evaluations are the weights at which machines were solved; gradients one an iteration, as in Table 1."""
    moves = calls_of(Run, "_evaluate")
    solution = solve(name)
    history = solution.history
    assert history.counters["svm"] == len(moves) == history.records[-1].svm_calls
    assert history.counters["gradient"] == history.records[-1].gradient_calls
    assert history.counters["inner_steps"] == history.column("inner_steps").sum()
    assert np.all(np.diff(history.column("svm_calls")) >= 0)
    assert np.all(history.column("svm_calls") >= history.column("gradient_calls"))
    proofs = 1 if name in ("silp", "sip", "level") and history.counters["gradient"] < len(history) else 0
    assert history.counters["gradient"] == len(history) - proofs
    if name in ("silp", "sip", "level"):
        assert history.counters["svm"] == history.counters["gradient"]
    assert history.column("iteration").tolist() == list(range(len(history)))
    assert np.all(np.diff(history.column("seconds")) >= 0.0)
    assert np.all(np.diff(history.column("lower")) >= 0.0)
    assert np.all(np.diff(history.column("upper")) <= 0.0)
    assert history.column("weights").shape == (len(history), 13)
    # J of an iterate is above every lower bound, and the certified upper bound is at most the best J.
    assert np.all(history.column("objective") >= history.column("lower").max() * (1 - 1e-9))
    assert history.records[-1].upper <= history.column("objective").min() * (1 + 1e-9)


def test_a_hand_count_of_simplemkl():
    """Two kernels, the second useless: J at (1/2, 1/2), the jump to (1, 0), where mu is alone, and nothing else."""
    base = make_problem(seed=1, n=30, M=1, C=2.0)
    K = base.kernels.dense()[0]
    problem = base.replace(kernels=np.stack([K, 1e-3 * np.eye(30)]))
    solution = algorithms.simplemkl(problem)
    assert solution.weights.tolist() == [1.0, 0.0]
    assert solution.history.column("svm_calls").tolist() == [1, 2]
    assert solution.history.column("gradient_calls").tolist() == [1, 2]


@every_algorithm
def test_iterations_and_time_end_a_run_at_its_best_point(name):
    solution = solve(name, tol=1e-12, max_iter=2)
    assert solution.status is Status.ITERATION_LIMIT
    assert len(solution.history) == 2
    assert solution.certificate.gap > 0.0
    # On a problem of one's own, so that nothing is known of it: the first point is there whatever the time.
    solution = solve(name, tol=1e-12, max_time=1e-9)
    assert solution.status is Status.TIME_LIMIT
    assert len(solution.history) <= 2
    assert np.isfinite(solution.certificate.gap)


@pytest.mark.sampled(8)
@every_algorithm
def test_tolerances_beyond_rounding_end_honestly(name):
    """A gap that cannot be reached: the run ends by itself or by its limit, and claims nothing."""
    solution = solve(name, tol=1e-15, max_iter=40)
    assert solution.status in (Status.STALLED, Status.ITERATION_LIMIT)
    assert not solution.certificate.is_optimal(1e-15)
    assert solution.certificate.relative_gap < 1e-3
    assert solve(name, tol=1e308).status is Status.OPTIMAL  # as any point is, by a tolerance whose square overflows


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", ["silp", "level", "hessian_mkl", "lp_wrapper"])
def test_no_better_point_is_waited_for_without_end_where_float64_cannot_go_on(name):
    loss, p = ("hinge", 2) if name == "lp_wrapper" else ("squared", 1)
    problem = make_problem(n=20, M=4, loss=loss, regularizer=mklref.Lp(p), seed=1)
    solution = algorithms.ALGORITHMS[name](problem, tol=1e-300, max_iter=1000)
    assert solution.status is Status.STALLED
    assert solution.certificate.relative_gap < 1e-8


@pytest.mark.parametrize("name", ["simplemkl", "gradient_descent"])
def test_one_kernel_leaves_no_direction_and_ends_the_run(name):
    solution = algorithms.ALGORITHMS[name](make_problem(n=12, M=1, seed=2), tol=1e-300)
    assert solution.status is Status.STALLED
    assert solution.weights.tolist() == [1.0]
    assert len(solution.history) == 1


@pytest.mark.parametrize("name", [*MINE, "lp_wrapper"])
def test_a_callback_sees_every_record_and_can_end_the_run(name):
    seen = []
    solution = solve(name, callback=lambda record: seen.append(record) or len(seen) == 2)
    assert solution.status is Status.STOPPED
    assert tuple(seen) == solution.history.records
    assert {"objective", "svm_calls", "gradient_calls", "measures"} <= set(vars(seen[0]))


@pytest.mark.parametrize(
    ("name", "options"),
    [*((name, {}) for name in (*MINE, "lp_wrapper", "group_wrapper")), ("group_wrapper", {"exponents": (1, 1)})],
    ids=str,
)
def test_a_callback_cannot_spoil_the_run(name, options):
    """The records are the user's: what is written into them stays there."""
    solver = partial(algorithms.ALGORITHMS[name], small(name), max_iter=8, **options)
    expected, spoiled = solver(), solver(callback=lambda record: record.weights.fill(np.nan))
    assert spoiled.objective == expected.objective
    assert np.array_equal(spoiled.weights, expected.weights)


@every_algorithm
def test_interruption_returns_the_best_certified_point(name):
    with pytest.raises(Interrupted) as stopped:
        solve(name, callback=pressed(3))
    solution = stopped.value.solution
    assert solution.status is Status.INTERRUPTED
    assert len(solution.history) == 3
    again = mklref.certify(problem_of(name), solution.dual_coef, weights=solution.weights, intercept=solution.intercept)
    assert again == solution.certificate
    assert solution.certificate.gap <= solution.history.records[0].upper - solution.history.records[0].lower


@pytest.mark.parametrize("solve", [synthesis.solve, synthesis.forward_backward, algorithms.simplemkl])
def test_ctrl_c_in_the_last_certificate_has_the_solution(solve, calls_of):
    given = make_problem(n=12, M=1, seed=2, loss="squared")
    mine = solve is not algorithms.simplemkl
    if mine:
        given = synthesis.SynthesisProblem(given.kernels.dense(), given.y, loss="squared", lam=1.0, p=1, q=1, r=2)
    home = sys.modules["mklref.synthesis.solution" if mine else "mklref.algorithms.base"]
    calls_of(home, "certify", pressed(1))
    with pytest.raises(Interrupted) as caught:
        solve(given, tol=1e-6 if mine else 1e-300)
    assert caught.value.solution.certificate.relative_gap < 1e-5


def test_interruption_before_the_first_point(monkeypatch):
    monkeypatch.setattr(mklref.machines.smo.SMOMachine, "solve", Mock(side_effect=KeyboardInterrupt))
    with pytest.raises(Interrupted, match="no point yet") as stopped:
        solve("silp")
    assert stopped.value.solution is None


@every_algorithm
def test_a_stop_that_promises_nothing_is_taken_back(name, monkeypatch):
    """The certificate is computed afresh after the run."""
    monkeypatch.setattr(Run, "reached", lambda run, point: True)
    assert solve(name).status is Status.STALLED


MIXED = {
    "weights": lambda run, best: run.recorder.records[0].weights,
    "betas": lambda run, best: [0.9 * beta for beta in best.betas],
    "intercepts": lambda run, best: [b + 0.1 for b in best.intercepts],
}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("part", MIXED)
@pytest.mark.parametrize("name", ["silp", "simplemkl", "hessian_mkl"])
def test_a_point_that_is_mixed_from_two_iterates_is_certified_as_it_is(part, name, monkeypatch):
    original = Run._solution

    def mixing(run, status):
        run.best.point = dataclasses.replace(run.best.point, **{part: MIXED[part](run, run.best.point)})
        return original(run, status)

    monkeypatch.setattr(Run, "_solution", mixing)
    solution = solve(name)
    assert solution.status is not Status.OPTIMAL
    assert solution.certificate.relative_gap > 1e-4


def test_progress_is_shown_and_removed(monkeypatch):
    """A line with the name of the algorithm, every gap of the history, and closed however the run ends."""
    seen = []

    class Line:
        def __init__(self, shown, label, target, quantity):
            seen.append((shown, label, target))

        def update(self, gap):
            seen.append(gap)

        def close(self):
            seen.append("closed")

    monkeypatch.setattr("mklref._run.Progress", Line)
    solution = solve("silp", progress=True)
    assert seen == [(True, "silp", 1e-4), *solution.history.column("relative_gap"), "closed"]
    seen.clear()
    with pytest.raises(ZeroDivisionError):
        solve("silp", callback=lambda record: 1 / 0)
    assert seen[0] == (False, "silp", 1e-4)
    assert seen[-1] == "closed"


def test_the_value_of_a_point_is_j_and_its_bounds_are_those_of_the_certificate(rng):
    problem = make_problem(seed=2, M=4, C=3.0, regularizer=mklref.ElasticNet(0.4))
    run = Run("test", problem, 1e-6, 10)
    weights = rng.uniform(0.1, 0.5, 4)
    point = run.svm(weights)
    fixed = mklref.solve(problem.replace(regularizer=mklref.Fixed(weights)), tol=1e-9)
    assert point.value == pytest.approx(fixed.objective, rel=1e-8)
    penalised = point.value + problem.regularizer.weight_penalty(weights)
    assert penalised <= point.objective == pytest.approx(penalised, rel=1e-10)
    again = mklref.certify(problem, point.betas[0], weights=weights, intercept=point.intercepts[0])
    assert (point.lower, point.upper) == pytest.approx((again.lower, again.upper), rel=1e-12)


def test_assess_is_no_svm_evaluation(rng):
    problem = make_problem(seed=2, M=4, C=3.0)
    run = Run("test", problem, 1e-6, 10)
    first, second = run.svm(rng.dirichlet(np.ones(4))), run.svm(rng.dirichlet(np.ones(4)))
    again = run.assess(first.weights, first.betas)
    assert run.svm_calls == 2
    assert again.upper == pytest.approx(first.upper, rel=1e-12)
    mixed = run.assess(first.weights, second.betas)
    assert mixed.objective > first.objective  # from the primal: not J, but never below it
    assert mixed.lower == pytest.approx(second.lower, rel=1e-12)
    assert mixed.upper > first.upper
    assert run.svm(second.weights).value == pytest.approx(second.value, rel=1e-10)


def test_a_trial_reads_kernels_with_weight_and_what_comes_after_it_reads_the_others():
    problem = make_problem(seed=2, M=5, C=3.0)
    sparse, dense = np.array([0.3, 0.0, 0.7, 0.0, 0.0]), np.full(5, 0.2)
    run, whole = Run("test", problem, 1e-6, 10), Run("test", problem, 1e-6, 10)
    known, trial = whole.svm(sparse), run.trial(sparse)
    assert run.best.point is None  # too large squares certify nothing
    assert not run.machines[0].forms.images[[1, 3, 4]].any()
    assert trial.value == pytest.approx(known.value, rel=1e-10)
    assert np.all(trial.squares >= known.squares * (1 - 1e-6))
    found = run.completed(trial)
    assert found.squares == pytest.approx(known.squares, rel=1e-5)
    assert found is run.best.point
    assert (run.svm_calls, run.gradient_calls) == (1, 0)
    run.trial(sparse[::-1].copy())
    assert run.trial(dense).value == pytest.approx(whole.svm(dense).value, rel=1e-10)
    assert trial.betas[0] is not run.machines[0].beta


def test_machines_are_solved_to_the_square_of_the_tolerance():
    """The certified gap of each machine, measured from outside."""
    problem = cancer()
    run = Run("test", problem, 1e-4, 10)
    point = run.svm(run.start)
    machine: Machine = run.machines[0]
    _, _, losses = machine.scores()
    own = losses + 0.5 * point.weights @ machine.forms.squares - machine.value()
    assert 0.0 <= own <= 1e-10 * machine.value()


@pytest.mark.parametrize("name", algorithms.ALGORITHMS)
def test_every_parameter_of_an_algorithm_is_in_its_signature_and_its_documentation(name):
    """The decorator writes what all share; what one alone has stays where it is read."""
    solver = algorithms.ALGORITHMS[name]
    parameters = list(inspect.signature(solver).parameters)
    assert parameters[:7] == ["problem", "tol", "max_iter", "max_time", "callback", "progress", "start"]
    described = ", ".join(re.findall(r"^([\w, ]+) : ", inspect.getdoc(solver), flags=re.MULTILINE)).split(", ")
    assert described == parameters
    assert pickle.loads(pickle.dumps(solver)) is solver
    with pytest.raises(TypeError, match="unexpected keyword argument 'chunks'"):
        solver(small(name), chunks=3)
