"""The published strategies: what they draw is valid, varied, and small where it fails.

What random mutants of the package survived at first: conditions that are what they say, readings with a ratio.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, find, given, settings, strategies as st
from testing.planted import problem_of, solved

from mklref import certify, solve
from mklref.certificate import repair
from mklref.exceptions import InvalidParameter, UnsafeFile
from mklref.losses import LOSSES, EpsilonInsensitive
from mklref.problem import Problem
from mklref.regularizers import Fixed, Groups, Lp, Power
from mklref.testing import assert_optimal, diagnosis
from mklref.testing.answer import Answer
from mklref.testing.data_suspects import centered_kernels, scaled_kernels
from mklref.testing.faults import Point
from mklref.testing.strategies import CONDITIONS, answers, gram_matrices, problems, regularizers
from mklref.testing.vectors import check, check_directory, export_vectors
from mklref.testing.weight_suspects import other_weights, smaller_balls

FEW = settings(max_examples=25, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])


@FEW
@given(st.data())
def test_kernels_are_semidefinite(data):
    K = data.draw(gram_matrices(7, scales=(1.0, 1e8)))
    assert K.shape[1:] == (7, 7)
    assert len(K) <= 5
    for matrix in K:
        assert np.array_equal(matrix, matrix.T)
        assert np.linalg.eigvalsh(matrix)[0] >= -1e-12 * np.trace(matrix)


@FEW
@given(problems())
def test_weak_duality_for_random_points(problem):
    """And the native solver's claim is true for whatever is drawn."""
    found = solve(problem)
    assert_optimal(problem, found.dual_coef, weights=found.weights, intercept=found.intercept, rtol=1e-4)


@FEW
@given(problems(losses="hinge", regularizers=[Groups([[0, 2], [1]], p=0.5, q=0.5), Fixed([1.0, 2.0])]))
def test_regularisers_that_are_made_for_a_number_of_kernels_get_so_many(problem):
    assert problem.loss.name == "hinge"
    assert problem.n_kernels == (3 if isinstance(problem.regularizer, Groups) else 2)


def test_one_regulariser_is_enough_and_has_to_fit():
    for kind, most in (("l2", 3), (Fixed(np.ones(4)), 4)):
        drawn = problems(regularizers=kind, max_kernels=most)
        assert find(drawn, lambda problem: problem.n_kernels >= 3, settings=SEARCH).n_kernels == most
    with pytest.raises(InvalidParameter, match="no regularizer fits max_kernels = 3 kernels or fewer; raise it"):
        find(problems(regularizers=Fixed(np.ones(4)), max_kernels=3), lambda _: True, settings=SEARCH)
    for name in ("losses", "regularizers"):
        with pytest.raises(InvalidParameter, match=rf"^{name} is empty; give one at least, or leave it out"):
            find(problems(**{name: []}), lambda _: True, settings=SEARCH)


@FEW
@given(problems(losses="one_class", regularizers=[Power(1), Groups([[0, 2], [1]], p=0.5, q=0.5)]))
def test_a_regulariser_that_a_loss_cannot_have_draws_no_number_of_kernels(problem):
    """Most draws were of numbers of kernels that only the other one fits, and were thrown away."""
    assert isinstance(problem.regularizer, Groups)


@settings(FEW, max_examples=100)
@given(problems(losses="one_class", regularizers="l2", max_samples=3, max_kernels=1))
def test_one_class_problems_are_feasible_whatever_their_samples_weigh(problem):
    assert problem.costs.sum() >= 1.0


@FEW
@given(st.data())
def test_points_bound_the_optimum(data):
    problem = data.draw(problems())
    value = solve(problem).certificate
    answer = data.draw(answers(problem, feasible=data.draw(st.booleans())))
    bounds = certify(problem, answer.dual_coef, weights=answer.weights, intercept=answer.intercept)
    slack = 1e-9 * max(1.0, abs(value.upper))
    assert bounds.lower <= value.upper + slack
    assert value.lower <= bounds.upper + slack


@FEW
@given(st.data())
def test_feasible_points_are_feasible(data):
    problem = data.draw(problems())
    answer = data.draw(answers(problem))
    assert repair(problem, answer.dual_coef)[1] == []
    assert certify(problem, answer.dual_coef, weights=answer.weights).violations == ()


SEARCH = settings(max_examples=2000, deadline=None, derandomize=True, database=None, phases=[Phase.generate])


def test_points_that_are_not_feasible_are_drawn_too():
    drawn = problems(losses=["hinge"], regularizers=[Lp(1)]).flatmap(
        lambda problem: answers(problem, feasible=False).map(lambda answer: repair(problem, answer.dual_coef)[1])
    )
    find(drawn, bool, settings=SEARCH)


@pytest.mark.thorough
@pytest.mark.parametrize("loss", LOSSES)
def test_every_loss_is_drawn(loss):
    find(problems(max_samples=5), lambda problem: problem.loss.name == loss, settings=SEARCH)


@pytest.mark.parametrize("condition", CONDITIONS)
def test_every_condition_is_drawn_and_can_be_asked_for(condition):
    assert isinstance(find(problems(conditions=[condition]), lambda _: True, settings=SEARCH), Problem)


def test_arguments_restrict_what_is_drawn():
    @FEW
    @given(
        problems(
            losses=[EpsilonInsensitive(0.3)], regularizers=["l1", Lp(3)], min_samples=5, max_samples=6, max_kernels=2
        )
    )
    def check(problem):
        assert problem.loss == EpsilonInsensitive(0.3)
        assert problem.regularizer.p in (1, 3)
        assert problem.n_samples in (5, 6)
        assert problem.n_kernels <= 2

    check()


@pytest.mark.thorough
def test_a_failure_shrinks_to_the_smallest_problem():
    """Planted: nothing with more than three samples is accepted."""
    smallest = find(
        problems(max_samples=12),
        lambda problem: problem.n_samples > 3,
        settings=settings(database=None, derandomize=True),
    )
    assert (smallest.n_samples, smallest.n_kernels, smallest.C, smallest.loss.name) == (4, 1, 1.0, "hinge")


def test_regularizers_fit_the_number_of_kernels():
    @FEW
    @given(regularizers(3))
    def check(regularizer):
        regularizer.check(3)

    check()


def test_unknown_conditions_are_errors():
    with pytest.raises(InvalidParameter, match=r"conditions \['singular'\] are unknown; known ones: generic"):
        find(gram_matrices(3, conditions=["singular"]), lambda _: True)


A_FEW = settings(max_examples=10, deadline=None, derandomize=True)


HOLDS = {
    "duplicated kernel": lambda K: np.array_equal(K[-1], K[0]),
    "zero kernel": lambda K: not K[-1].any() and all(matrix.any() for matrix in K[:-1]),
    "constant kernel": lambda K: np.ptp(K[-1]) == 0.0 < K[-1, 0, 0],
}


@pytest.mark.parametrize("condition", HOLDS)
@A_FEW
@given(data=st.data())
def test_a_condition_is_what_it_says(condition, data):
    assert HOLDS[condition](data.draw(gram_matrices(5, conditions=[condition])))


@pytest.mark.parametrize("regularizer", [Lp(4 / 3), Lp(2)], ids=str)
def test_weights_are_cleaned_up_where_all_that_are_kept_agree_up_to_a_factor(regularizer):
    """Of three unequal weights the least is dropped; spoilt ones that do not agree are no such thing."""
    problem, (beta, theta, b) = solved(regularizer=regularizer)
    assert np.ptp(theta) > 0.1 * theta.max()
    cleaned = np.where(theta == theta.min(), 0.0, theta)
    assert "weights cleaned up" in faults(problem, Point(beta, 0.7 * cleaned, b))
    spoilt = cleaned * np.where(cleaned == cleaned.max(), 1.1, 1.0)
    assert "weights cleaned up" not in faults(problem, Point(beta, spoilt, b))


def faults(problem, point):
    return {reading.fault for reading in other_weights(problem, point)}


def test_a_lower_bound_above_the_upper_one_is_the_only_finding(monkeypatch):
    problem = problem_of()
    zero = np.zeros(problem.n_samples)
    certificate = certify(problem, zero)
    for gap, contradictory in ((-2e-6, True), (2e-6, False)):
        wrong = replace(certificate, lower=certificate.upper - gap * certificate.size)
        monkeypatch.setattr(diagnosis, "certify", lambda *_, wrong=wrong, **__: wrong)
        (found,) = diagnosis.judge(problem, Answer(zero)).findings
        assert (found.fault == "negative gap") is contradictory


def test_an_index_beyond_the_limit_is_refused_with_its_size(tmp_path, monkeypatch):
    export_vectors(tmp_path, include=["two-samples"], formats=["json"])
    size = (tmp_path / "index.json").stat().st_size
    monkeypatch.setattr(check, "_MAX_INDEX", size)
    check_directory(tmp_path, tmp_path)
    monkeypatch.setattr(check, "_MAX_INDEX", size - 1)
    with pytest.raises(UnsafeFile, match=rf"is {size} bytes long; write it anew by: mklref vectors"):
        check_directory(tmp_path, tmp_path)


def test_readings_on_other_kernels_know_what_rounding_to_float32_left_of_them(rng):
    """Without it their certificates hold for semidefinite kernels alone, which these are not."""
    X = rng.normal(size=(12, 3))
    kernels = np.einsum("im,jm->mij", X, X).astype(np.float32)
    problem = Problem(kernels, np.sign(X[:, 0]), loss="squared", regularizer=Lp(2), intercept=False)
    found = solve(problem)
    point = Point(found.dual_coef, 1.5 * found.weights, None)
    changes = (scaled_kernels, smaller_balls, centered_kernels)
    made = [reading.problem.kernels for change in changes for reading in change(problem, point)]
    assert len(made) >= 3
    for stack in made:
        lowest = np.linalg.eigvalsh(stack.dense().astype(float)).min(axis=1)
        assert np.all(lowest >= -stack.slack.max(axis=1) - 1e-12 * stack.traces())
