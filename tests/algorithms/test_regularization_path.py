"""Regularisation paths: certified at every C, the same warm as cold, for any solver."""

from __future__ import annotations

import dataclasses
import re
from functools import partial
from unittest.mock import Mock

import numpy as np
import pytest
from makers import agree, make_problem

import mklref
from mklref import ElasticNet, Groups, Lp, Status, reference, solve
from mklref.algorithms import (
    BASELINES,
    group_wrapper,
    iterated_reweighting,
    lp_interleaved,
    lp_wrapper,
    regularization_path,
    silp,
    simplemkl,
)
from mklref.exceptions import Interrupted, InvalidParameter, InvalidType, KernelsLost, NotApplicable

COSTS = np.geomspace(100.0, 0.1, 6)
CASES = (
    (simplemkl, Lp(1)),
    (silp, Lp(1)),
    (lp_wrapper, Lp(4 / 3)),
    (lp_interleaved, Lp(2)),
    (group_wrapper, Groups([[0, 1, 2], [3, 4], [5]], 0.5, 0.5)),
    (iterated_reweighting, ElasticNet(0.5)),
    (mklref.solve, Lp(1)),
)


def problem_for(regularizer):
    return make_problem(seed=3, n=24, M=6, regularizer=regularizer)


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("solver", "regularizer"), CASES, ids=lambda value: getattr(value, "__name__", str(value)))
def test_warm_is_cold_in_certified_intervals_and_cheaper(solver, regularizer):
    problem = problem_for(regularizer)
    warm = regularization_path(problem, C=COSTS, solver=solver)
    cold = regularization_path(problem, C=COSTS, solver=solver, warm=False)
    assert len(warm) == len(COSTS)
    for C, one, other in zip(COSTS, warm.solutions, cold.solutions, strict=True):
        for solution in (one, other):
            assert solution.status is Status.OPTIMAL
            here = mklref.certify(problem.replace(C=C), solution, intercept=solution.intercept)
            assert here == solution.certificate
            assert not here.violations
        agree(one, other)
    assert warm.iterations.sum() < cold.iterations.sum()


def test_columns_for_a_plot():
    path = regularization_path(problem_for(Lp(1)), C=COSTS)
    data = path.data()
    assert set(data) == {"C", "objective", "relative_gap", "selected", "iterations", "weights"}
    np.testing.assert_array_equal(data["C"], COSTS)
    assert data["weights"].shape == (6, 6)
    np.testing.assert_array_equal(
        data["selected"], [sum(weight > 1e-4 * max(theta) for weight in theta) for theta in data["weights"]]
    )
    assert data["selected"].min() < data["selected"].max()
    assert data["relative_gap"].max() <= 1e-4
    assert [solution.objective for solution in path.solutions] == data["objective"].tolist()


def test_weights_are_counted_relative_to_the_largest():
    path = regularization_path(problem_for(mklref.Power(2)), C=[100.0], solver=iterated_reweighting)
    theta = np.array([100.0, 0.005, 1.0, 0.0, 0.02, 3.0])
    changed = dataclasses.replace(path, solutions=(dataclasses.replace(path.solutions[0], weights=theta),))
    assert changed.selected.tolist() == [4]


def test_the_optimal_value_rises_with_C_and_is_concave_in_it():
    """SimpleMKL's path goes down in C; P(C) is a minimum of functions that are linear in C."""
    path = regularization_path(problem_for(Lp(1)), C=COSTS, tol=1e-6)
    C, value = path.C[::-1], path.objective[::-1]
    assert np.all(np.diff(value) > -1e-6 * value[1:])
    slopes = np.diff(value) / np.diff(C)
    assert np.all(np.diff(slopes) < 1e-5 * slopes[:-1])


def test_several_classes():
    K = make_problem(n=24).kernels
    problem = mklref.MulticlassProblem(K, np.arange(24) % 3, regularizer=Lp(2))
    path = regularization_path(problem, C=[10.0, 1.0], solver=lp_wrapper)
    assert [solution.status for solution in path.solutions] == [Status.OPTIMAL] * 2
    assert path.weights.shape == (2, 4)


def test_options_reach_the_solver():
    path = regularization_path(problem_for(Lp(1.1)), C=[10.0, 1.0], solver=lp_wrapper, max_iter=2, tol=1e-9)
    assert [solution.status for solution in path.solutions] == [Status.ITERATION_LIMIT] * 2
    assert path.iterations.tolist() == [2, 2]


def test_the_callback_can_end_the_path():
    path = regularization_path(problem_for(Lp(1)), C=COSTS, callback=lambda solution: solution.weights.max() > 0)
    assert len(path) == 1
    np.testing.assert_array_equal(path.C, COSTS[:1])


def test_time_ends_the_path_early():
    path = regularization_path(problem_for(Lp(1)), C=np.geomspace(1e3, 1e-2, 400), max_time=0.05)
    assert 1 <= len(path) < 400
    none = regularization_path(problem_for(Lp(1)), C=COSTS, max_time=1e-9)
    assert (len(none), repr(none)) == (0, "RegularizationPath(0 solutions)")


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"C": [1.0, 2.0]}, InvalidParameter, "C = [1.0, 2.0] must decrease; give sorted(C, reverse=True)"),
        ({"C": [2.0, 2.0]}, InvalidParameter, "C = [2.0, 2.0] must decrease; give sorted(C, reverse=True), each value"),
        ({"C": []}, InvalidParameter, "C = [] must decrease"),
        ({"C": [1.0, -1.0]}, InvalidParameter, "C = -1.0 must lie in (0, inf)"),
        ({"C": [1.0], "max_time": 0}, InvalidParameter, "max_time = 0 must lie in (0, inf]"),
        ({"C": [1.0], "solver": "simplemkl"}, InvalidType, "solver is 'simplemkl'; give a function"),
        ({"C": [1.0], "solver": None}, InvalidType, "solver is None; give a function"),
        ({"C": [1.0], "callback": 3}, InvalidType, "callback is 3; give a function"),
        ({"C": 5.0}, InvalidParameter, "C = 5.0 must be a sequence of decreasing numbers; for one value call"),
        ({"C": None}, InvalidParameter, "C = None must be a sequence"),
        ({"C": "10"}, InvalidParameter, "C = '10' must be a sequence"),
        ({"C": ["10", "1"]}, InvalidType, "an entry of C is '10' ("),
        ({"C": [2.0, True]}, InvalidType, "an entry of C is True ("),
        ({"C": [[2.0, 1.0]]}, InvalidType, "(list); each must be a number, in one dimension"),
        ({"C": [1.0, np.nan]}, InvalidParameter, "must decrease"),
        ({"C": [np.inf, 1.0]}, InvalidParameter, "C = inf must lie in (0, inf)"),
        ({"C": [1.0], "max_time": "1"}, InvalidType, "max_time is '1' (str); give a number in (0, inf]"),
        ({"C": [1.0], "start": 3}, InvalidType, "start is int; give a Solution"),
        ({"C": [1.0], "solver": max}, InvalidType, "solver is max, whose arguments Python does not know; give a"),
        ({"C": [1.0], "solver": print, "warm": False}, InvalidParameter, "is called as print(problem, tol=...), and"),
        ({"C": [1.0], "steps": 3}, InvalidParameter, "unexpected keyword argument 'steps'"),
        ({"C": [1.0], "solver": lambda *_, **options: len(options)}, InvalidType, "returned int; expected a Solution"),
        ({"C": [1.0], "warm": "no"}, InvalidType, "warm is 'no' (str); give True or False"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",  # the text of a function has its address
)
def test_bad_options_are_refused(options, error, message):
    with pytest.raises(error, match=re.escape(message)):
        regularization_path(problem_for(Lp(1)), **options)


def test_no_problem():
    with pytest.raises(InvalidType, match=r"problem is int; give a mklref\.Problem"):
        regularization_path(3, C=[1.0])


@pytest.mark.parametrize("bad", [{"C": [1.0, "a"]}, {"C": [3.0, -1.0]}, {"C": [1.0], "max_time": -1}])
def test_everything_is_checked_before_work_starts(bad):
    with pytest.raises((InvalidParameter, InvalidType)):
        regularization_path(problem_for(Lp(1)), solver=lambda problem, *, tol, start=None: pytest.fail("worked"), **bad)


@pytest.mark.parametrize(
    "costs", [(C for C in (4.0, 2.0)), range(4, 0, -2), (np.float32(4), 2), np.array([4, 2])], ids=type
)
def test_any_iterable_of_numbers(costs):
    path = regularization_path(problem_for(Lp(1)), C=costs)
    assert path.C.tolist() == [4.0, 2.0]
    assert [solution.status for solution in path.solutions] == [Status.OPTIMAL] * 2


# --- solvers without a start, or without a gap -----------------------------------------------------------------------


@pytest.mark.parametrize("name", BASELINES)
def test_baselines_along_a_path(name):
    """Those that take no start say so, and go cold."""
    problem, baseline = problem_for(Lp(1)), BASELINES[name]
    if name in ("best_single_kernel", "easymkl"):
        with pytest.raises(NotApplicable, match=f"{name} takes no start from the solution before; give warm=False"):
            regularization_path(problem, C=[4.0, 2.0], solver=baseline)
    path = regularization_path(
        problem, C=[4.0, 2.0], solver=baseline, warm=name in ("average_kernel", "kernel_alignment")
    )
    assert [solution.status for solution in path.solutions] == [Status.OPTIMAL] * 2
    for C, solution in zip(path.C, path.solutions, strict=True):
        assert np.array_equal(solution.weights, baseline(problem.replace(C=C)).weights)


@pytest.mark.parametrize("solver", [reference.solve, partial(reference.solve, formulation="qcqp")], ids=["", "qcqp"])
def test_a_solver_that_hands_its_options_on_to_one_without_a_start_is_refused_at_once(solver):
    """That of a later C would be too late for the solutions up to there."""
    problem, solved = problem_for(Lp(1)), []
    with pytest.raises(NotApplicable, match="takes no start from the solution before; give warm=False"):
        regularization_path(problem, C=[4.0, 2.0], solver=solver, callback=solved.append)
    assert not solved
    assert len(regularization_path(problem, C=[4.0, 2.0], solver=solver, warm=False)) == 2


def test_a_solver_gets_a_start_at_every_C():
    problem, starts = problem_for(Lp(1)), []

    def solver(problem, **options):
        starts.append(options["start"])
        return solve(problem, **options)

    given = solve(problem)
    first, second = (regularization_path(problem, C=[4.0, 2.0], solver=solver, **own) for own in ({}, {"start": given}))
    assert list(map(id, starts)) == list(map(id, [None, first.solutions[0], given, second.solutions[0]]))


def test_a_solver_with_a_start_of_its_own_begins_there():
    """The default of a signature or of a `partial` holds for the first C."""
    problem, starts = problem_for(Lp(1)), []

    def solver(problem, *, tol, start="its own"):
        starts.append(start)
        return solve(problem, tol=tol)

    own = solve(problem)
    for one in (solver, partial(solver, start=own)):
        regularization_path(problem, C=[4.0, 2.0], solver=one)
    assert starts[0] == "its own"
    assert starts[2] is own


def test_stationary_points_make_no_path():
    problem = problem_for(Groups([[0, 1, 2], [3, 4], [5]], 0.5, 0.5))
    with pytest.raises(NotApplicable, match=r"group_wrapper with exponents gives stationary points without a gap"):
        regularization_path(problem, C=[4.0, 2.0], solver=group_wrapper, exponents=(1, 1))
    assert len(regularization_path(problem, C=[4.0], solver=group_wrapper, exponents=None)) == 1


# --- Ctrl-C ----------------------------------------------------------------------------------------------------------


def interrupting(at, inside):
    """SimpleMKL that is interrupted at its call number `at`: in an iteration, or before it has a point."""
    calls = []

    def solver(problem, *, tol, start=None):
        calls.append(problem)
        if len(calls) < at:
            return simplemkl(problem, tol=tol, start=start)
        if not inside:
            raise KeyboardInterrupt

        return simplemkl(problem, tol=tol, start=start, callback=Mock(side_effect=KeyboardInterrupt))

    return solver


@pytest.mark.parametrize("inside", [True, False])
@pytest.mark.parametrize("at", [1, 3])
def test_an_interruption_keeps_the_points(at, inside):
    problem = problem_for(Lp(1))
    with pytest.raises(Interrupted) as stopped:
        regularization_path(problem, C=COSTS, solver=interrupting(at, inside))
    path, solution = stopped.value.path, stopped.value.solution
    assert len(path) == at - 1
    np.testing.assert_array_equal(path.C, COSTS[: at - 1])
    whole = regularization_path(problem, C=COSTS)
    assert [one.objective for one in path.solutions] == [one.objective for one in whole.solutions[: at - 1]]
    assert (solution is not None) is inside
    if inside:
        assert solution.status is Status.INTERRUPTED
        again = mklref.certify(problem.replace(C=COSTS[at - 1]), solution, intercept=solution.intercept)
        assert again == solution.certificate


def test_an_interruption_in_the_callback_keeps_the_point_that_it_was_shown_and_others_have_no_path():
    interrupt = Mock(side_effect=KeyboardInterrupt)
    with pytest.raises(Interrupted) as stopped:
        regularization_path(problem_for(Lp(1)), C=COSTS, callback=interrupt)
    assert len(stopped.value.path) == 1
    assert stopped.value.solution is None
    with pytest.raises(Interrupted) as stopped:
        simplemkl(problem_for(Lp(1)), callback=interrupt)
    assert stopped.value.path is None


@pytest.mark.parametrize("along", [mklref.solve_path, regularization_path])
@pytest.mark.parametrize(
    ("stopped", "words"),
    [
        (Interrupted(None, because="a worker is gone"), "a worker is gone; no point yet; 2 points of the path are"),
        (KernelsLost("K.npy has vanished."), "K.npy has vanished. 2 points of the path are finished."),
    ],
    ids=["cluster", "files"],
)
def test_a_path_without_its_cluster_or_files_keeps_its_points_and_says_why(along, stopped, words, monkeypatch):
    def solver(problem, *, tol, start=None):
        if problem.C == 1.0:
            raise stopped
        return solve(problem, tol=tol, start=start)

    monkeypatch.setattr("mklref._path.solve", solver)
    own = {"solver": solver} if along is regularization_path else {}
    with pytest.raises(type(stopped), match=re.escape(words)) as caught:
        along(problem_for(Lp(1)), C=[4.0, 2.0, 1.0, 0.5], **own)
    assert len(caught.value.path) == 2
    assert getattr(caught.value, "because", None) == getattr(stopped, "because", None)


def test_gaps_along_a_path_have_no_unit():
    """Small C have objectives far below 1."""
    path = regularization_path(problem_for(Lp(1)), C=[1e-8], max_iter=1, tol=1e-9)
    bounds = path.solutions[0].certificate
    assert path.relative_gap.tolist() == [(bounds.upper - bounds.lower) / bounds.upper]
