"""Iterated reweighting: tangents of concave penalties, certified on all of them."""

from __future__ import annotations

import numpy as np
import pytest
from algorithms.cases import cancer, complaints
from makers import make_problem

import mklref
from mklref import ConcaveBlock, ElasticNet, Power, Status, Tikhonov, WeightedL1, reference
from mklref.algorithms import iterated_reweighting
from mklref.regularizers import HalfPower, PowerRoot, RootPlusLinear, SmoothedRoot

KEEPING = (Power(2), HalfPower(1.5), Tikhonov(2, 0.3), ConcaveBlock(SmoothedRoot(0.1)), ConcaveBlock(PowerRoot(2)))
"""Penalties under which every useful kernel has a weight."""

SWITCHING = (
    ElasticNet(0.3),
    ElasticNet(0.3, "ivanov"),
    ConcaveBlock(RootPlusLinear(0.5)),
    Power(1),
    HalfPower(1),
    WeightedL1([1.0, 2.0, 0.5, 1.5]),
    Tikhonov(1, 0.3),
)
"""Penalties that switch kernels off."""

every_penalty = pytest.mark.parametrize("regularizer", KEEPING + SWITCHING, ids=str)


@pytest.mark.parametrize(
    ("regularizer", "tol"),
    [
        (ElasticNet(0.5), 1e-6),
        (ElasticNet(0.5, "ivanov"), 1e-4),
        (Power(2), 1e-6),
        (ConcaveBlock(SmoothedRoot(3.0)), 1e-4),
    ],
    ids=str,
)
def test_breast_cancer(regularizer, tol):
    problem = cancer(regularizer)
    solution = iterated_reweighting(problem, tol=tol)
    assert complaints(problem, solution, tol, mklref.solve(problem).certificate) == []


@pytest.mark.sampled(2)
@every_penalty
def test_agrees_with_cvxpy(regularizer):
    problem = make_problem(seed=5, n=20, M=4, C=5.0, regularizer=regularizer)
    solution = iterated_reweighting(problem, tol=1e-5)
    assert complaints(problem, solution, 1e-5, reference.solve(problem, "mixed_norm").certificate) == []


@every_penalty
def test_the_objective_never_rises(regularizer):
    problem = make_problem(seed=1, regularizer=regularizer)
    objective = iterated_reweighting(problem, max_iter=30, tol=1e-9).history.column("objective")
    assert len(objective) > 3
    assert np.diff(objective).max() <= 1e-11 * abs(objective[0])


@pytest.mark.parametrize(
    ("regularizer", "slope"),
    [
        (ElasticNet(0.3), lambda x: 0.7 / (2 * np.sqrt(x)) + 0.15),
        (ConcaveBlock(SmoothedRoot(0.1)), lambda x: SmoothedRoot(0.1).derivative(x)),
        (Power(3), lambda x: 0.5 * x ** (0.75 - 1)),
    ],
    ids=["elastic net (12)", "smoothed root", "power"],
)
def test_twin_by_tangents(regularizer, slope):
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


@every_penalty
def test_an_early_end_says_whether_more_would_help(regularizer):
    solution = iterated_reweighting(make_problem(seed=1, regularizer=regularizer), max_iter=2, tol=1e-9)
    assert solution.status is (Status.NO_GUARANTEE if regularizer in SWITCHING else Status.ITERATION_LIMIT)


def test_the_elastic_net_without_its_root_has_one_machine():
    """lam -> 1 leaves 1/2 sum rho^2, whose tangent is itself."""
    solution = iterated_reweighting(make_problem(seed=1, regularizer=ElasticNet(1 - 1e-9)))
    assert len(solution.history) == 1
