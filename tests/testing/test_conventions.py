"""Answers that are right by a convention of their solver: the oracle says which."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
from testing.planted import L2, L43, point, problem_of, solved

from mklref import Problem, solve
from mklref.datasets import encode
from mklref.exceptions import InvalidInput, InvalidParameter, InvalidType
from mklref.multiclass import MulticlassProblem
from mklref.regularizers import Fixed, Groups, Tikhonov
from mklref.testing import Answer, assert_optimal, certify_many, judge


@pytest.mark.parametrize("regularizer", [L43, Tikhonov(2, 0.4), Groups([(0, 1), (2, 3)], p=0.5, q=0.5)])
@pytest.mark.parametrize("factor", [1.0, 24.0])
def test_kernels_that_were_normalised_are_named_where_the_weights_are_those_of_the_given_ones(regularizer, factor):
    """As a careful solver returns them; a kernel of trace 0 has no factor."""
    problem = problem_of(regularizer=regularizer)
    kernels = problem.kernels.dense() * np.reshape([2.0, 3.0, 0.5, 0.0], (-1, 1, 1))
    factors = factor / np.where((traces := np.trace(kernels, axis1=1, axis2=2)) > 0.0, traces, 1.0)
    problem = problem.replace(kernels=kernels)
    beta, theta, b = point(problem.replace(kernels=factors[:, None, None] * kernels), tol=1e-10)
    (finding,) = judge(problem, Answer(beta, factors * theta, b)).findings
    assert finding.fault == "normalised kernels"
    assert f"({'unit trace' if factor == 1.0 else 'trace n'}: " in finding.text
    assert "K / trace(K)), whose weights were returned for K." in finding.text


def test_weights_as_shares_with_dual_variables_that_keep_the_function_are_named():
    problem, (beta, theta, b) = solved(regularizer=L43, C=0.3)
    total = theta.sum()
    (finding,) = judge(problem, Answer(total * beta, theta / total, b)).findings
    assert finding.fault == "weights on another sphere"
    assert "times dual_coef: the function is optimal." in finding.text


def test_another_problem_of_all_machines_is_named_where_each_is_solved_for_its_weights():
    kernels = problem_of().kernels.dense() * np.reshape([2.0, 3.0, 0.5, 1.5], (-1, 1, 1))
    traces = np.trace(kernels, axis1=1, axis2=2)
    classes = MulticlassProblem(kernels, np.arange(24) % 3, C=0.3, regularizer=L2)
    normal = classes.replace(kernels=kernels / traces[:, None, None], C=30.0)
    for asked, solved_for, factors, said in (
        (classes, classes.replace(regularizer=L43), 1.0, "another regularizer: it is optimal for Lp(4/3), the problem"),
        (classes.replace(C=30.0), normal, 1.0 / traces, "normalised kernels: it is optimal for kernels that were"),
    ):
        found = solve(solved_for, tol=1e-9)
        with pytest.raises(AssertionError, match=f"^not optimal: {re.escape(said)}"):
            assert_optimal(asked, found.dual_coef, weights=factors * found.weights, intercept=found.intercept)
    fixed = classes.replace(regularizer=Fixed([0.9, 0.1, 0.3, 0.3]))
    found = solve(fixed, tol=1e-9)
    with pytest.raises(AssertionError, match=r"^not optimal: weights not optimal: Every machine is solved for these"):
        assert_optimal(classes, found.dual_coef, weights=found.weights, intercept=found.intercept)


@pytest.mark.parametrize(
    ("shape", "said"),
    [((24, 3), "expected (3, 24); it is its transpose."), ((24,), "expected (3, 24), a number for each sample")],
)
def test_a_dual_point_of_another_shape_is_refused_with_what_it_may_be(shape, said):
    classes = MulticlassProblem(problem_of().kernels, np.arange(24) % 3, regularizer=L2)
    with pytest.raises(AssertionError, match=re.escape(said)):
        assert_optimal(classes, np.ones(shape))
    with pytest.raises(AssertionError, match=r"intercept has shape \(\); expected \(3,\), one for each machine"):
        assert_optimal(classes, np.ones((3, 24)), intercept=0.0)
    regression = problem_of("epsilon_insensitive")
    with pytest.raises(AssertionError, match=r"shape \(48,\); expected \(24,\), alpha - alpha\* for each sample"):
        assert_optimal(regression, np.ones(48))


def test_a_solution_is_an_answer_with_its_own_weights_and_intercept():
    problem = problem_of(regularizer=L2, C=0.3)
    found = solve(problem, tol=1e-9)
    assert_optimal(problem, found)
    with pytest.raises(AssertionError, match=r"^not optimal: wrong intercept: "):
        assert_optimal(problem, replace(found, intercept=found.intercept + 1.0))
    with pytest.raises(InvalidParameter, match=r"weights and intercept go with an array; .* solution\.dual_coef"):
        assert_optimal(problem, found, weights=found.weights, intercept=0.0)


def test_an_answer_that_names_its_samples_in_another_order_is_refused():
    """By name, where `certify` refuses it, and not as what its numbers look like."""
    pandas = pytest.importorskip("pandas")
    names = [f"s{i}" for i in range(24)]
    frames = [pandas.DataFrame(K, names, names) for K in problem_of().kernels.dense()]
    backwards = [frame.iloc[::-1, ::-1] for frame in frames]
    problem = Problem(frames, problem_of().y, regularizer=L2)
    found = solve(problem, tol=1e-9)
    assert_optimal(problem, found)
    other = Problem(backwards, problem.y[::-1], regularizer=L2)
    with pytest.raises(
        AssertionError, match=r"malformed answer: the kernels and the answer have their samples in diff"
    ):
        assert_optimal(other, found)
    with pytest.raises(InvalidInput, match="the kernels and the answer have their samples in different orders"):
        certify_many(other, [found])


@pytest.mark.parametrize("y", [["a", "b"] * 12, np.arange(24) % 2 == 0], ids=["strings", "truth values"])
def test_classes_that_are_no_numbers_are_refused_with_what_makes_labels_of_them(y):
    with pytest.raises(
        InvalidType, match=r"y is .* data; give numbers: .* labels -1 and 1, mklref\.datasets\.encode\(y"
    ):
        Problem(problem_of().kernels, y)
    assert set(Problem(problem_of().kernels, encode(y)[0]).y) == {-1.0, 1.0}
