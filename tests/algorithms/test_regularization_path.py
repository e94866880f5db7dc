"""Regularisation paths: certified at every C, the same warm as cold, for any solver."""

from __future__ import annotations

import dataclasses
import re

import numpy as np
import pytest
from makers import make_problem

import mklref
from mklref import ElasticNet, Groups, Lp, Status
from mklref.algorithms import (
    group_wrapper,
    iterated_reweighting,
    lp_interleaved,
    lp_wrapper,
    regularization_path,
    silp,
    simplemkl,
)
from mklref.exceptions import InvalidParameter, InvalidType

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


@pytest.mark.parametrize(("solver", "regularizer"), CASES, ids=lambda value: getattr(value, "__name__", str(value)))
def test_warm_is_cold_in_certified_intervals_and_cheaper(solver, regularizer):
    problem = problem_for(regularizer)
    warm = regularization_path(problem, C=COSTS, solver=solver)
    cold = regularization_path(problem, C=COSTS, solver=solver, warm=False)
    assert len(warm) == len(COSTS)
    for C, one, other in zip(COSTS, warm.solutions, cold.solutions, strict=True):
        for solution in (one, other):
            assert solution.status is Status.OPTIMAL
            here = mklref.certify(
                problem.replace(C=C), solution.dual_coef, weights=solution.weights, intercept=solution.intercept
            )
            assert here == solution.certificate
            assert not here.violations
        assert one.certificate.lower <= other.certificate.upper
        assert other.certificate.lower <= one.certificate.upper
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


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"C": [1.0, 2.0]}, InvalidParameter, "C = [1.0, 2.0] must decrease; give sorted(C, reverse=True)"),
        ({"C": [2.0, 2.0]}, InvalidParameter, "must decrease"),
        ({"C": []}, InvalidParameter, "C = [] must decrease"),
        ({"C": [1.0, -1.0]}, InvalidParameter, "C = -1.0 must lie in the open interval (0, inf)"),
        ({"C": [1.0], "max_time": 0}, InvalidParameter, "max_time = 0 must be a positive number of seconds"),
        ({"C": [1.0], "solver": "simplemkl"}, InvalidType, "solver is 'simplemkl'; give a function"),
        ({"C": [1.0], "callback": 3}, InvalidType, "callback is 3; give a function"),
    ],
)
def test_bad_options_are_refused(options, error, message):
    with pytest.raises(error, match=re.escape(message)):
        regularization_path(problem_for(Lp(1)), **options)
