"""Starts: weights of other problems are made feasible, and no algorithm stalls on them."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from algorithms.cases import cancer, small, true_gap
from makers import make_problem

import mklref
from mklref import BlockNorm, ElasticNet, Groups, Lp, Mahalanobis, Power, Status, Tikhonov
from mklref.algorithms import ALGORITHMS, base, best_single_kernel
from mklref.algorithms.base import Run
from mklref.algorithms.point import feasible_weights, on_the_simplex, regularizer_of
from mklref.exceptions import MKLError
from mklref.regularizers import HalfPower

SIMPLEX = ("simplemkl", "gradient_descent", "hessian_mkl", "level", "silp")
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
    assert regularizer_of(problem) is problem.regularizer


# --- runs from starts of other problems ------------------------------------------------------------------------------


def starts(problem):
    """Solutions of relatives, by name: outside the simplex, far inside it, on a corner, and of another box."""
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


@pytest.fixture(scope="module")
def of_relatives():
    return starts(small(""))


RUNS = [
    (name, kind)
    for name in ALGORITHMS
    for kind in ("Lp(2)", "Lp(inf)", "tiny weights", "huge weights", "no weights", "corner", "smaller C", "larger C")
    if name in ("simplemkl", "gradient_descent", "hessian_mkl", "silp", "sip") or kind in ("Lp(2)", "tiny weights")
] + [("silp", "other loss"), ("lp_interleaved", "larger C")]


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


@pytest.mark.parametrize("name", SIMPLEX)
def test_a_start_from_another_norm_on_breast_cancer(name):
    """13 kernels, of which the l2 solution uses all and the l1 solution two."""
    problem = cancer()
    solution = ALGORITHMS[name](problem, tol=1e-3, start=mklref.solve(problem.replace(regularizer=Lp(2))))
    assert solution.status is Status.OPTIMAL
    assert true_gap(problem, solution) <= 1e-3


@pytest.mark.parametrize("name", ["simplemkl", "gradient_descent", "hessian_mkl"])
def test_weights_that_are_taken_as_they_come_are_noticed(name, of_relatives, monkeypatch):
    """The fault that was here: steps on the simplex from weights that are not on it."""
    monkeypatch.setattr(base, "feasible_weights", lambda regularizer, theta, squares: theta)
    problem = small(name)
    found = []
    for kind in ("tiny weights", "huge weights"):
        try:
            solution = ALGORITHMS[name](problem, start=of_relatives[kind], max_iter=30)
        except (MKLError, ValueError, ArithmeticError):
            found.append(kind)
            continue
        sums = solution.history.column("weights").sum(axis=1)
        if solution.status is not Status.OPTIMAL or not np.allclose(sums, 1.0, rtol=1e-9):
            found.append(kind)
    assert found


def test_the_first_point_is_that_of_the_start(of_relatives):
    """Weights scaled onto the simplex; dual variables scaled into the smaller box, so that 1'beta = 0 stays."""
    start = of_relatives["larger C"]
    run = Run("test", small(""), 1e-4, 10, start=start)
    np.testing.assert_allclose(run.start, start.weights / start.weights.sum(), atol=1e-8)
    beta = run.machines[0].beta
    assert np.abs(beta).max() <= small("").C * (1 + 1e-12)
    assert abs(beta.sum()) <= 1e-9
    assert np.corrcoef(beta, start.dual_coef)[0, 1] > 1 - 1e-9


def test_several_classes_start_from_their_own_solutions():
    K = make_problem(n=24).kernels
    problem = mklref.MulticlassProblem(K, np.arange(24) % 3, regularizer=Lp(1), C=2.0)
    wide = ALGORITHMS["lp_wrapper"](problem.replace(regularizer=Lp(2)))
    solution = ALGORITHMS["simplemkl"](problem, start=wide)
    assert solution.status is Status.OPTIMAL
    np.testing.assert_allclose(solution.history.records[0].weights, wide.weights / wide.weights.sum(), atol=1e-8)
