"""One run after another: warm starts, the same bits each time, the fallback, callbacks and time limits."""

from __future__ import annotations

import dataclasses
import time

import numpy as np
import pytest
from makers import make_problem
from native.solving import ACROSS, checked, every_loss, overlap
from regularizers.instances import PAIRS, SCALE

import mklref
from mklref.exceptions import InvalidInput, InvalidParameter, InvalidType
from mklref.machines import machine, quadratic_forms, smo, twin
from mklref.machines.newton import NewtonMachine
from mklref.regularizers import ConcaveBlock, Groups, Lp, SmoothedRoot, Tikhonov, WeightedL1
from mklref.solution import Status


@pytest.mark.parametrize("regularizer", ACROSS, ids=str)
def test_warm_and_cold_starts_agree(regularizer):
    problem = make_problem(seed=25, regularizer=regularizer, C=2.0)
    cold = checked(problem)
    for other in (problem.replace(C=20.0), problem.replace(C=0.1), problem.replace(regularizer=Lp(3))):
        warm = checked(problem, start=mklref.solve(other))
        overlap(cold, warm)
    again = checked(problem, start=cold)
    assert len(again.history) <= max(2, len(cold.history) - 1)


def test_a_start_of_another_size_is_refused():
    small = mklref.solve(make_problem(seed=26, n=20))
    with pytest.raises(InvalidInput, match=r"start has dual variables of shape \(20,\) .*; this problem has \(25,\)"):
        mklref.solve(make_problem(seed=26), start=small)
    problem = make_problem(seed=26, n=20)
    fewer = problem.replace(kernels=problem.kernels.dense()[:3])
    with pytest.raises(InvalidInput, match=r"weights of shape \(4,\); this problem has \(20,\) and \(3,\)"):
        mklref.solve(fewer, start=small)
    with pytest.raises(InvalidInput, match=r"start has weights .* nonnegative and finite"):
        mklref.solve(problem, start=dataclasses.replace(small, weights=-small.weights))


@pytest.mark.parametrize("loss", ["squared", "logistic", "hinge", "squared_hinge", "epsilon_insensitive"])
def test_nothing_worse_than_the_zero_function_is_returned(loss):
    """One machine at unscaled kernels and targets may be far worse than f = 0, which costs nothing to look at."""
    problem = make_problem(loss=loss, seed=8, regularizer=Lp(1))
    problem = problem.replace(kernels=1e8 * problem.kernels.dense(), C=1e4)
    zero = mklref.certify(problem, np.zeros(problem.n_samples))
    for max_iter in (1, 2):
        found = mklref.solve(problem, max_iter=max_iter).certificate
        assert found.gap <= zero.gap * (1.0 + 1e-12)


def test_a_callback_may_write_into_its_record():
    problem = make_problem(seed=9, regularizer=Lp(1.5))

    def spoil(record):
        record.weights[:] = np.nan

    spoilt, solution = mklref.solve(problem, callback=spoil), mklref.solve(problem)
    assert np.array_equal(spoilt.weights, solution.weights)
    assert spoilt.certificate == solution.certificate


@pytest.mark.parametrize("loss", ["hinge", "logistic", "one_class"])
@pytest.mark.parametrize("error", [FloatingPointError, np.linalg.LinAlgError, InvalidParameter])
def test_an_error_of_a_callback_is_nobodys_to_catch(error, loss):
    """The solver has answers to errors of these kinds that are its own."""

    def fail(record):
        raise error("of the callback")

    with pytest.raises(error, match="of the callback"):
        mklref.solve(make_problem(loss=loss, seed=9), callback=fail)


@pytest.mark.parametrize("regularizer", [*ACROSS, ConcaveBlock(SmoothedRoot(0.5))], ids=str)
@pytest.mark.parametrize("size", [0.0, 1e-300, 1e-8, 1e30, 1e200])
def test_absurd_starts_lead_to_the_solution(size, regularizer):
    """Nothing, weights and dual variables that are far too small or large: the run begins anew if they lead nowhere."""
    problem = make_problem(loss="squared_epsilon_insensitive", seed=25, regularizer=regularizer)
    cold = checked(problem)
    absurd = dataclasses.replace(cold, weights=size * np.ones(4), dual_coef=size * np.cos(np.arange(25.0)))
    overlap(cold, checked(problem, start=absurd))


def test_a_solution_for_another_C_leads_to_one_a_million_million_times_as_large():
    problem = make_problem(loss="logistic", seed=7, regularizer=WeightedL1(SCALE))
    overlap(checked(problem.replace(C=1e6)), checked(problem.replace(C=1e6), start=checked(problem.replace(C=1e-6))))


def test_no_record_is_made_after_the_last():
    """Groups on the central path, where a point that was found when the run had to end was looked at once more."""
    for loss in ("squared_hinge", "squared_epsilon_insensitive"):
        for seed in range(6):
            problem = make_problem(loss=loss, seed=seed, regularizer=Groups(PAIRS, 0.5, 0.5))
            for most in (1, 2, 3):
                assert len(mklref.solve(problem, max_iter=most).history) <= most


def test_newtons_method_on_smooth_losses_keeps_to_its_time(monkeypatch):
    """A hundred Newton steps of a machine that never gets there are cut off by the deadline."""
    problem = make_problem(loss="logistic", n=40, seed=3)
    steps = []
    objective = NewtonMachine._objective
    monkeypatch.setattr(NewtonMachine, "_dual_value", lambda machine, point, scores: -np.inf)
    monkeypatch.setattr(
        NewtonMachine,
        "_objective",
        lambda machine, *point: (steps.append(time.sleep(0.02)), objective(machine, *point))[1],
    )
    solution = mklref.solve(problem, max_time=0.05)
    assert solution.status is Status.TIME_LIMIT
    assert len(steps) <= 12


@pytest.mark.parametrize("regularizer", [Tikhonov(1.0001, 1.0), Groups(((0, 1), (2,)), 0.5, 0.4999)], ids=str)
def test_the_steps_that_find_the_next_weights_keep_to_the_time(regularizer, monkeypatch):
    """On a clock that only they move, a second a step: a handful is done after the deadline, not some hundred."""
    clock, kind, jacobian = [0.0], type(regularizer), type(regularizer).weights_jacobian
    monkeypatch.setattr(time, "perf_counter", lambda: clock[0])

    def slow(self, g):
        clock[0] += 1.0
        return jacobian(self, g)

    monkeypatch.setattr(kind, "weights_jacobian", slow)
    problem = make_problem(loss="logistic", n=20, M=3, C=1e3, regularizer=regularizer)
    assert mklref.solve(problem, tol=1e-9).status is Status.OPTIMAL
    unlimited, clock[0] = clock[0], 0.0
    assert mklref.solve(problem, tol=1e-9, max_time=5.0).status is Status.TIME_LIMIT
    assert clock[0] <= 5.0 + 15.0 < 0.5 * unlimited


@every_loss
def test_two_runs_are_the_same_bit_for_bit(loss, monkeypatch):
    """Whatever the number of threads: every task of a pass has memory of its own."""
    problem = make_problem(loss=loss, seed=28, n=40, M=9)
    runs = []
    for threads in ("1", "1", "2"):
        monkeypatch.setenv("MKLREF_NUM_THREADS", threads)
        runs.append(checked(problem))
    for run in runs[1:]:
        np.testing.assert_array_equal(run.dual_coef, runs[0].dual_coef)
        np.testing.assert_array_equal(run.weights, runs[0].weights)
        assert run.intercept == runs[0].intercept
        assert run.certificate == runs[0].certificate
    assert runs[1].history.counters == runs[0].history.counters  # two threads form rows in batches


@pytest.mark.parametrize("loss", ["hinge", "huber", "logistic"])
def test_without_the_compiled_loops_the_answer_is_the_same(loss, monkeypatch):
    problem = make_problem(loss=loss, seed=29, n=12, regularizer=Lp(4 / 3))
    compiled = checked(problem, tol=1e-12)
    for module in (smo, quadratic_forms, machine):
        monkeypatch.setattr(module, "loops", twin)
    slow = checked(problem, tol=1e-12)
    np.testing.assert_allclose(slow.dual_coef, compiled.dual_coef, atol=1e-6)
    np.testing.assert_allclose(slow.weights, compiled.weights, atol=1e-6)


@pytest.mark.parametrize("loss", ["hinge", "squared"])
def test_nothing_is_written_to(loss):
    problem = make_problem(loss=loss, seed=30)
    kernels, y = np.asfortranarray(problem.kernels.dense()), problem.y.copy()
    kernels_before, y_before = kernels.copy(), y.copy()
    weights = np.linspace(0.5, 1.5, 25)
    fresh = problem.replace(kernels=kernels, y=y, sample_weight=weights)
    first = checked(fresh)
    np.testing.assert_array_equal(kernels, kernels_before)
    np.testing.assert_array_equal(y, y_before)
    np.testing.assert_array_equal(weights, np.linspace(0.5, 1.5, 25))
    for array in (kernels, y, weights):
        array.flags.writeable = False
    np.testing.assert_array_equal(checked(fresh).dual_coef, first.dual_coef)


def test_a_start_is_a_solution():
    with pytest.raises(InvalidType, match="start is str; give a Solution"):
        mklref.solve(make_problem(), start="warm")
