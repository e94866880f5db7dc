"""Closed-form weights in turn with the machine, against twins on scikit-learn's: lp_wrapper, iterated_reweighting."""

from __future__ import annotations

import numpy as np
import pytest
from algorithms.cases import cancer
from makers import make_problem

import mklref
from mklref import BlockNorm, ConcaveBlock, ElasticNet, Lp, Power, Status
from mklref.algorithms import iterated_reweighting, lp_wrapper
from mklref.regularizers import SmoothedRoot


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


def test_a_useless_kernel_stays_without_weight():
    problem = make_problem(seed=3, degenerate="zero_kernel", regularizer=Lp(2))
    assert lp_wrapper(problem).weights[1] == 0.0


@pytest.mark.parametrize(
    ("regularizer", "slope"),
    [
        (ElasticNet(0.3), lambda x: 0.7 / (2 * np.sqrt(x)) + 0.15),
        (ConcaveBlock(SmoothedRoot(0.1)), lambda x: SmoothedRoot(0.1).derivative(x)),
        (Power(3), lambda x: 0.5 * x ** (0.75 - 1)),
    ],
    ids=["elastic net (12)", "smoothed root", "power"],
)
def test_twin_of_iterated_reweighting_by_tangents(regularizer, slope):
    """theta = 1/(2 g'(rho^2)) typed anew; g' of Table 1, and a machine by scikit-learn."""
    from sklearn.svm import SVC

    problem = make_problem(seed=2, n=24, M=4, C=3.0, regularizer=regularizer)
    K, theta = problem.kernels.dense(), None
    for record in iterated_reweighting(problem, tol=1e-9, max_iter=6).history.records:
        if theta is not None:
            np.testing.assert_allclose(record.weights, theta, rtol=1e-4)
        machine = SVC(C=3.0, kernel="precomputed", tol=1e-9).fit(np.tensordot(record.weights, K, 1), problem.y)
        beta = np.zeros(24)
        beta[machine.support_] = machine.dual_coef_[0]
        squared_norms = record.weights**2 * np.array([beta @ matrix @ beta for matrix in K])
        theta = 1 / (2 * slope(squared_norms))


def test_the_elastic_net_without_its_root_has_one_machine():
    """lam -> 1 leaves 1/2 sum rho^2, whose tangent is itself."""
    solution = iterated_reweighting(make_problem(seed=1, regularizer=ElasticNet(1 - 1e-9)))
    assert len(solution.history) == 1
