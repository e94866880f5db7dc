"""Starts: weights of other problems are made feasible, and no algorithm stalls on them.

What no algorithm and no baseline takes: each by its name, in one table, and never by an error of numpy.
"""

from __future__ import annotations

import dataclasses
import re

import numpy as np
import pytest
from algorithms.cases import EVERY, GROUPS, MADE_FOR, SIMPLEX, small, true_gap
from makers import make_problem

import mklref
from mklref import BlockNorm, ElasticNet, Groups, Lp, Mahalanobis, Power, Status, Tikhonov
from mklref.algorithms import ALGORITHMS, best_single_kernel
from mklref.algorithms.base import Run
from mklref.algorithms.point import feasible_weights
from mklref.exceptions import InvalidInput, InvalidParameter, InvalidType, NotApplicable
from mklref.problem import on_the_simplex
from mklref.regularizers import HalfPower

THETA = np.array([0.5, 0.0, 2.0, 1e-3])
SQUARES = np.array([4.0, 1.0, 0.25, 9.0])


# --- weights ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("p", [1, 4 / 3, 2, np.inf])
@pytest.mark.parametrize("scale", [1e-200, 1e-3, 1.0, 1e200])
def test_weights_are_scaled_onto_the_lp_sphere(p, scale):
    found = feasible_weights(Lp(p), scale * THETA, SQUARES)
    assert np.linalg.norm(found, p) == pytest.approx(1.0, rel=1e-14)
    np.testing.assert_allclose(found / found[2], THETA / THETA[2], rtol=1e-12)


@pytest.mark.parametrize("q", [1, 4 / 3, 1.5, 2])
def test_block_norms_up_to_2_have_an_lp_ball(q):
    expected = feasible_weights(Lp(q / (2 - q) if q < 2 else np.inf), THETA, SQUARES)
    np.testing.assert_allclose(feasible_weights(BlockNorm(q), THETA, SQUARES), expected, rtol=1e-14)


def test_negligible_weights_start_as_zeros_on_the_simplex_only():
    theta = np.array([1.0, 1e-9, 1e-7, 0.0])
    np.testing.assert_array_equal(feasible_weights(Lp(1), theta, SQUARES) > 0.0, [True, False, True, False])
    np.testing.assert_array_equal(feasible_weights(Lp(2), theta, SQUARES) > 0.0, [True, True, True, False])


@pytest.mark.parametrize("regularizer", [Power(2), BlockNorm(4), Tikhonov(2, 1.0), HalfPower(1.5)], ids=str)
def test_weights_without_a_bound_stay(regularizer):
    np.testing.assert_array_equal(feasible_weights(regularizer, THETA, SQUARES), THETA)


@pytest.mark.parametrize(
    "regularizer",
    [ElasticNet(0.5, "ivanov"), Groups([[0, 1], [2, 3]], 0.5, 0.5), Groups([[0], [1, 2, 3]], 1, 0)],
    ids=str,
)
def test_weights_outside_are_those_of_their_block_norms(regularizer):
    assert not np.isfinite(regularizer.weight_penalty(THETA))
    found = feasible_weights(regularizer, THETA, SQUARES)
    np.testing.assert_array_equal(found, regularizer.weights_from_norms(THETA * np.sqrt(SQUARES)))
    assert regularizer.weight_penalty(0.999 * found) < np.inf
    np.testing.assert_array_equal(feasible_weights(regularizer, 1e-3 * THETA, SQUARES), 1e-3 * THETA)  # inside


@pytest.mark.parametrize(
    "regularizer",
    [Lp(1), Lp(2), BlockNorm(1), BlockNorm(4), ElasticNet(0.5), Groups([[0, 1], [2, 3]], 0.5, 0.5), Power(2)],
    ids=str,
)
def test_no_weights_are_equal_ones(regularizer):
    found = feasible_weights(regularizer, np.zeros(4), SQUARES)
    np.testing.assert_array_equal(found, regularizer.weights_from_norms(np.ones(4)))
    assert found.min() > 0.0


def test_what_lives_on_the_simplex():
    problem = make_problem(M=4)
    on = {str(r): on_the_simplex(problem.replace(regularizer=r)) for r in (Lp(1), BlockNorm(1), Lp(2), BlockNorm(2))}
    assert list(on.values()) == [True, True, False, False]
    assert not on_the_simplex(problem.replace(regularizer=Mahalanobis(np.eye(4))))
    assert not on_the_simplex(problem.replace(regularizer=ElasticNet(0.5)))


# --- runs from starts of other problems ------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def of_relatives():
    """Solutions of relatives, by name: outside the simplex, far inside it, on a corner, and of another box."""
    problem = small("")
    wide = mklref.solve(problem.replace(regularizer=Lp(2)))
    assert wide.weights.sum() > 1.1
    return {
        "Lp(2)": wide,
        "Lp(inf)": mklref.solve(problem.replace(regularizer=Lp(np.inf))),
        "tiny weights": dataclasses.replace(wide, weights=1e-12 * wide.weights),
        "huge weights": dataclasses.replace(wide, weights=1e12 * wide.weights),
        "no weights": dataclasses.replace(wide, weights=np.zeros(problem.n_kernels)),
        "corner": best_single_kernel(problem),
        "smaller C": mklref.solve(problem.replace(C=1e-3 * problem.C)),
        "larger C": mklref.solve(problem.replace(C=1e3 * problem.C)),
        "other loss": mklref.solve(problem.replace(loss="logistic")),
    }


RUNS = [
    (name, kind)
    for name in ALGORITHMS
    for kind in ("Lp(2)", "Lp(inf)", "tiny weights", "huge weights", "no weights", "corner", "smaller C", "larger C")
    if name in ("simplemkl", "gradient_descent", "hessian_mkl", "silp", "sip") or kind in ("Lp(2)", "tiny weights")
] + [("silp", "other loss"), ("lp_interleaved", "larger C")]


@pytest.mark.sampled(6)
@pytest.mark.parametrize(("name", "kind"), RUNS)
def test_no_start_stalls(name, kind, of_relatives):
    problem = small(name)
    solution = ALGORITHMS[name](problem, tol=1e-3, start=of_relatives[kind])
    assert solution.status is Status.OPTIMAL
    assert true_gap(problem, solution) <= 1e-3
    cold = mklref.solve(problem).certificate
    assert solution.certificate.lower <= cold.upper * (1 + 1e-12)
    assert cold.lower <= solution.certificate.upper * (1 + 1e-12)
    if name in SIMPLEX:
        np.testing.assert_allclose(solution.history.column("weights").sum(axis=1), 1.0, rtol=1e-9)


def test_the_first_point_is_that_of_the_start(of_relatives):
    """Weights scaled onto the simplex; dual variables scaled into the smaller box, so that 1'beta = 0 stays."""
    start = of_relatives["larger C"]
    run = Run("test", small(""), 1e-4, 10, start=start)
    np.testing.assert_allclose(run.start, start.weights / start.weights.sum(), atol=1e-8)
    beta = run.machines[0].beta
    assert np.abs(beta).max() <= small("").C * (1 + 1e-12)
    assert abs(beta.sum()) <= 1e-9
    assert np.corrcoef(beta, start.dual_coef)[0, 1] > 1 - 1e-9


def test_weights_whose_rounding_is_more_than_the_optimum_allows_are_left_again():
    """All kernels of ones: at such weights the gap is that of rounding alone."""
    y = np.where(np.arange(15) % 3, 1.0, -1.0)
    options = {"C": 766.57, "loss": "squared_hinge", "regularizer": Tikhonov(2, 1.0), "intercept": False}
    problem = mklref.Problem(np.ones((1, 15, 15)), y, **options)
    start = mklref.solve(problem)
    for size in (1e5, 1e6):
        far = dataclasses.replace(start, weights=np.array([size]))
        assert ALGORITHMS["iterated_reweighting"](problem, start=far).status is Status.OPTIMAL


@pytest.mark.parametrize("name", ["lp_wrapper", "iterated_reweighting", "group_wrapper"])
def test_starts_beyond_double_precision_are_none_and_nothing_is_said_of_them(name):
    own = {"lp_wrapper": Lp(2), "iterated_reweighting": Power(1), "group_wrapper": Groups([[0, 1, 2, 3]], 0.5, 0.5)}
    problem = make_problem(n=15, M=4, loss="squared_hinge", regularizer=own[name])
    start = mklref.solve(problem)
    for weights, dual_coef in ((1e250, 1.0), (1.0, 1e160), (1e200, 1e200)):
        far = dataclasses.replace(start, weights=weights * start.weights, dual_coef=dual_coef * start.dual_coef)
        assert ALGORITHMS[name](problem, start=far).status is Status.OPTIMAL


def test_chunks_from_huge_dual_variables_end_in_a_feasible_point():
    """What is left of 1'beta by steps from 1e8 times the solution is no rounding of the solution."""
    problem = make_problem(n=15, loss="squared_hinge", C=2.5)
    start = mklref.solve(problem)
    far = dataclasses.replace(start, dual_coef=1e8 * start.dual_coef)
    solution = ALGORITHMS["lp_interleaved"](problem, chunk=4, start=far)
    assert solution.status is Status.OPTIMAL
    assert solution.certificate.violations == ()


def test_several_classes_start_from_their_own_solutions():
    K = make_problem(n=24).kernels
    problem = mklref.MulticlassProblem(K, np.arange(24) % 3, regularizer=Lp(1), C=2.0)
    wide = ALGORITHMS["lp_wrapper"](problem.replace(regularizer=Lp(2)))
    solution = ALGORITHMS["simplemkl"](problem, start=wide)
    assert solution.status is Status.OPTIMAL
    np.testing.assert_allclose(solution.history.records[0].weights, wide.weights / wide.weights.sum(), atol=1e-8)


# --- what is refused -------------------------------------------------------------------------------------------------


every = pytest.mark.parametrize("name", EVERY)


@pytest.fixture(scope="module")
def solved():
    return mklref.solve(small(""))


@every
def test_no_problem(name):
    for nothing in (None, 3, "problem", np.eye(3)):
        with pytest.raises(InvalidType, match=rf"problem is {type(nothing).__name__}; give a mklref.Problem"):
            EVERY[name](nothing)


OPTIONS = (
    ({"tol": 0}, InvalidParameter, "tol = 0 must lie in (0, inf)"),
    ({"tol": np.nan}, InvalidParameter, "tol = nan must lie in (0, inf)"),
    ({"tol": "1e-4"}, InvalidType, "tol is '1e-4' (str); give a number in (0, inf)"),
    ({"max_iter": 0}, InvalidParameter, "max_iter = 0 must be an integer of at least 1"),
    ({"max_iter": 2.5}, InvalidType, "max_iter is 2.5 (float); give an integer"),
    ({"max_time": -1}, InvalidParameter, "max_time = -1 must lie in (0, inf]"),
    ({"callback": 3}, InvalidType, "callback is 3; give a function"),
)


@every
def test_bad_options(name):
    for options, error, message in OPTIONS:
        with pytest.raises(error, match=re.escape(message)):
            EVERY[name](small(name), **options)


TAKE_A_START = [name for name in EVERY if name not in ("best_single_kernel", "easymkl")]


def wrong_starts(start):
    """(start, error, message) for a problem of 24 samples and 5 kernels."""
    other = mklref.solve(make_problem(n=24, M=4))
    fewer = mklref.solve(make_problem(n=20, M=5))
    negative = dataclasses.replace(start, weights=np.array([1.0, -1e-9, 0.0, 0.0, 0.0]))
    missing = dataclasses.replace(start, weights=np.array([1.0, np.nan, 0.0, 0.0, 0.0]))
    return [
        (np.ones(5), InvalidType, "start is ndarray; give a Solution of a problem with the same kernels, or None."),
        ("best", InvalidType, "start is str; give a Solution"),
        (np, InvalidType, "start is module; give a Solution"),
        (other, InvalidInput, "weights of shape (4,); this problem has (24,) and (5,)"),
        (fewer, InvalidInput, "start has dual variables of shape (20,)"),
        (negative, InvalidInput, "they must be nonnegative and finite"),
        (missing, InvalidInput, "they must be nonnegative and finite"),
        (dataclasses.replace(start, weights=np.full(5, np.inf)), InvalidInput, "they must be nonnegative and finite"),
        (dataclasses.replace(start, dual_coef=np.full(24, np.nan)), InvalidInput, "dual variables that are not finite"),
    ]


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", TAKE_A_START)
@pytest.mark.parametrize("case", range(9))
def test_wrong_starts_are_named(name, case, solved):
    start, error, message = wrong_starts(solved)[case]
    with pytest.raises(error, match=re.escape(message)):
        EVERY[name](small(name), start=start)


def test_starts_of_one_and_of_several_classes_are_told_apart(solved):
    K = make_problem(n=24, M=5).kernels
    problem = mklref.MulticlassProblem(K, np.arange(24) % 3)
    with pytest.raises(InvalidInput, match=re.escape("shape (24,) and weights of shape (5,); this")):
        ALGORITHMS["silp"](problem, start=solved)
    several = ALGORITHMS["lp_wrapper"](problem)
    with pytest.raises(InvalidInput, match=re.escape("dual variables of shape (3, 24)")):
        ALGORITHMS["silp"](small("silp"), start=several)
    four = mklref.MulticlassProblem(K, np.arange(24) % 4)
    with pytest.raises(InvalidInput, match=re.escape("dual variables of shape (3, 24)")):
        ALGORITHMS["silp"](four, start=several)


# --- several classes -------------------------------------------------------------------------------------------------


def several_classes(name):
    K = make_problem(n=24, M=5).kernels
    return mklref.MulticlassProblem(K, np.arange(24) % 3, regularizer=MADE_FOR.get(name, Lp(1)))


ONE_MACHINE = (
    ("lp_interleaved", {}, "For other losses and several classes: lp_wrapper"),
    ("kernel_alignment", {}, "For several classes use mklref.solve with regularizer Fixed(weights)"),
    ("easymkl", {}, "For several classes use mklref.solve with regularizer Fixed(weights)"),
    ("best_single_kernel", {"folds": 3, "rng": np.random.default_rng(0)}, "For several classes use mklref.solve"),
    ("group_wrapper", {"exponents": (1, 1)}, "with exponents for one machine"),
)


@pytest.mark.parametrize(("name", "options", "remedy"), ONE_MACHINE, ids=[name for name, _, _ in ONE_MACHINE])
def test_several_classes_are_refused(name, options, remedy):
    with pytest.raises(NotApplicable, match=rf"{name}.* is made for .*{re.escape(remedy)}"):
        EVERY[name](several_classes(name), **options)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", [own for own in EVERY if own not in ("lp_interleaved", "kernel_alignment", "easymkl")])
def test_or_solved(name):
    problem = several_classes(name)
    solution = EVERY[name](problem, tol=1e-2)
    assert solution.status is Status.OPTIMAL
    if name in ALGORITHMS:
        again = problem.certify(solution.dual_coef, solution.weights, solution.intercept)
        assert 0.0 <= again.gap <= 1e-2 * again.upper


# --- regularisers and kernels ----------------------------------------------------------------------------------------


REFUSED = (
    *((name, other, "weights on the simplex, Lp(1)") for name in SIMPLEX for other in (Lp(2), ElasticNet(0.5))),
    *((name, BlockNorm(4), "Lp(1); this problem has loss") for name in SIMPLEX),
    ("sip", Lp(1), "For Lp(1): silp"),
    ("sip", Lp(np.inf), "1 < p < inf"),
    ("sip", ElasticNet(0.5), "For Lp(1): silp"),
    ("lp_wrapper", ElasticNet(0.5), "iterated_reweighting"),
    ("lp_wrapper", GROUPS, "group_wrapper"),
    ("lp_wrapper", Mahalanobis(np.eye(5)), "mklref.solve"),
    ("lp_interleaved", ElasticNet(0.5), "mklref.solve"),
    ("group_wrapper", Lp(2), "Lp(2). For Lp(p): lp_wrapper"),
    ("iterated_reweighting", Lp(2), "lp_wrapper"),
    ("iterated_reweighting", GROUPS, "group_wrapper"),
)


@pytest.mark.parametrize(("name", "regularizer", "said"), REFUSED, ids=str)
def test_other_regularizers(name, regularizer, said):
    """Each names itself, the loss, the regulariser and what to take instead."""
    with pytest.raises(
        NotApplicable, match=rf"^{name} is made for .*loss hinge .*{re.escape(str(regularizer))}"
    ) as refused:
        ALGORITHMS[name](small("").replace(regularizer=regularizer))
    assert said in str(refused.value)
    assert any(other in str(refused.value) for other in (*ALGORITHMS, "mklref.solve") if other != name)
