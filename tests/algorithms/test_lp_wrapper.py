"""Kloft's Algorithm 1: certified, equal to a twin on scikit-learn's machine, and honest where it has no theorem."""

from __future__ import annotations

import numpy as np
import pytest
from algorithms.cases import cancer, complaints
from makers import make_problem

import mklref
from mklref import BlockNorm, Lp, Status, reference
from mklref.algorithms import lp_wrapper

BLOCKS = (1.5, 2.5, 4, 8, np.inf)


@pytest.mark.parametrize(("p", "tol"), [(1.1, 1e-6), (4 / 3, 1e-4), (2, 1e-6), (4, 1e-4), (np.inf, 1e-6)])
def test_breast_cancer(p, tol):
    problem = cancer(Lp(p))
    solution = lp_wrapper(problem, tol=tol)
    assert complaints(problem, solution, tol, mklref.solve(problem).certificate) == []
    assert solution.history.counters["svm"] == len(solution.history)


def test_breast_cancer_without_a_theorem():
    problem = cancer(Lp(1))
    assert complaints(problem, lp_wrapper(problem), 1e-4, mklref.solve(problem).certificate) == []


@pytest.mark.parametrize("regularizer", [Lp(2), *map(BlockNorm, BLOCKS)], ids=str)
def test_agrees_with_cvxpy(regularizer):
    problem = make_problem(seed=5, n=20, M=4, C=5.0, regularizer=regularizer)
    truth = reference.solve(problem, "mixed_norm").certificate
    assert complaints(problem, lp_wrapper(problem, tol=1e-6), 1e-6, truth) == []


@pytest.mark.parametrize("p", [1, 4 / 3, 3])
def test_twin_on_another_machine(p):
    """Lines 1 to 5 from their definitions, with scikit-learn's machine on the combined kernel."""
    from sklearn.svm import SVC

    problem = make_problem(seed=2, n=24, M=4, C=3.0, regularizer=Lp(p))
    K, theta = problem.kernels.dense(), np.full(4, 4.0 ** (-1 / p))
    records = lp_wrapper(problem, tol=1e-9, max_iter=6).history.records
    for record in records:
        np.testing.assert_allclose(record.weights, theta, rtol=1e-4, atol=1e-6)
        combined = sum(weight * matrix for weight, matrix in zip(theta, K, strict=True))
        machine = SVC(C=3.0, kernel="precomputed", tol=1e-9).fit(combined, problem.y)
        beta = np.zeros(24)
        beta[machine.support_] = machine.dual_coef_[0]
        norms = [weight * np.sqrt(beta @ matrix @ beta) for weight, matrix in zip(theta, K, strict=True)]
        total = sum(norm ** (2 * p / (p + 1)) for norm in norms) ** (1 / p)
        theta = np.array([norm ** (2 / (p + 1)) / total for norm in norms])
    assert len(records) == 6


@pytest.mark.parametrize("p", [1, 4 / 3, 3])
def test_the_objective_never_rises(p):
    objective = lp_wrapper(cancer(Lp(p)), tol=1e-5).history.column("objective")
    assert len(objective) > 3
    assert np.diff(objective).max() <= 1e-12 * objective[0]


@pytest.mark.parametrize("q", [2.5, 4, 8, np.inf])
def test_beyond_2_the_dual_objective_never_falls(q):
    lower = lp_wrapper(cancer(BlockNorm(q)), tol=1e-6).history.column("lower")
    assert len(lower) > 2
    assert np.all(np.diff(lower) > 0.0)  # these are the best so far: each iteration has improved on them


def test_beyond_2_the_weights_of_the_norms_diverge():
    """Why (31) is taken as a function of the dual norms: repeated in the norms it runs away."""
    problem = make_problem(seed=1, n=24, M=4, regularizer=BlockNorm(8))
    theta = np.ones(4)
    for _ in range(10):
        point = mklref.solve(problem.replace(regularizer=mklref.Fixed(theta)))
        g = problem.kernels.norms(point.dual_coef)
        last = mklref.certify(problem, point.dual_coef, weights=theta)
        theta = np.maximum(problem.regularizer.weights_from_norms(theta * g), 1e-12)
    assert last.relative_gap > 0.1
    assert lp_wrapper(problem, max_iter=30).status is Status.OPTIMAL


@pytest.mark.parametrize(
    ("regularizer", "ending"),
    [
        (Lp(1), Status.NO_GUARANTEE),
        (BlockNorm(1), Status.NO_GUARANTEE),
        (Lp(1.1), Status.ITERATION_LIMIT),
        (BlockNorm(np.inf), Status.ITERATION_LIMIT),
    ],
    ids=str,
)
def test_an_early_end_says_whether_more_would_help(regularizer, ending):
    solution = lp_wrapper(cancer(regularizer), max_iter=3)
    assert solution.status is ending
    assert len(solution.history) == 3
    assert "not proved to converge" in Status.NO_GUARANTEE.value


def test_a_useless_kernel_stays_without_weight():
    problem = make_problem(seed=3, degenerate="zero_kernel", regularizer=Lp(2))
    assert lp_wrapper(problem).weights[1] == 0.0


def test_a_warm_start_has_less_to_do():
    problem = cancer(Lp(4 / 3))
    cold = lp_wrapper(problem)
    warm = lp_wrapper(problem.replace(C=90.0), start=cold)
    assert warm.status is Status.OPTIMAL
    assert len(warm.history) < len(cold.history)
    assert len(lp_wrapper(problem, start=cold).history) == 1


@pytest.mark.parametrize("exponent", [-16, 20])
def test_block_norms_in_other_units(exponent):
    """P(4^k K, C/4^k) = P(K, C)/4^k bit for bit."""
    problem = make_problem(seed=3, n=24, M=5, regularizer=BlockNorm(4))
    unit = 4.0**exponent
    scaled = problem.replace(kernels=unit * problem.kernels.dense(), C=problem.C / unit)
    here, there = lp_wrapper(problem), lp_wrapper(scaled)
    assert here.status is there.status is Status.OPTIMAL
    assert np.array_equal(here.weights, there.weights)
    assert here.objective == unit * there.objective


def test_the_callback_sees_every_iteration_and_can_stop():
    seen = []

    def stop(record):
        seen.append(record.weights)
        return len(seen) == 2

    solution = lp_wrapper(cancer(Lp(1.1)), callback=stop)
    assert solution.status is Status.STOPPED
    assert len(solution.history) == len(seen) == 2
