"""Machines with shared weights: against one big problem, against the binary case, and against spoilt points."""

from __future__ import annotations

import numpy as np
import pytest
from makers import make_kernels, make_samples
from scipy.linalg import block_diag

from mklref import reference
from mklref.exceptions import InvalidInput, InvalidParameter, InvalidTarget
from mklref.formulations import as_formulation, factorize
from mklref.multiclass import STRATEGIES, MulticlassProblem
from mklref.problem import Problem
from mklref.regularizers import Fixed, Lp, Power, Tikhonov
from mklref.solution import Status


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(3)
    X = make_samples(rng, 27)
    return make_kernels(rng, X, M=3), np.digitize(X[:, 0] + 0.4 * rng.normal(size=27), [-0.5, 0.5])


@pytest.mark.parametrize("solver", ["CLARABEL", "ECOS", "SCS"])
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_certified(data, strategy, solver):
    for regularizer in (Lp(1), Lp(4 / 3), Tikhonov(2, 0.3), Power(1)):
        problem = MulticlassProblem(*data, C=2.0, regularizer=regularizer, strategy=strategy)
        solution = reference.solve(problem, "multiclass", solver=solver)
        assert solution.status is Status.OPTIMAL, solution.certificate.explain()
        assert solution.solver == f"multiclass/{solver}"
        assert solution.history.counters["claimed"] == pytest.approx(solution.objective, rel=1e-6)
        again = problem.certify(solution.dual_coef, solution.weights, solution.intercept)
        assert again == solution.certificate


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge", "logistic"])
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_is_one_problem_with_block_diagonal_kernels(data, strategy, loss):
    """Without intercepts, the machines are one machine on the direct sum of their spaces."""
    common = {"C": 1.5, "loss": loss, "regularizer": Lp(1.7), "intercept": False}
    problem = MulticlassProblem(*data, strategy=strategy, **common)
    stacks = [machine.problem.kernels.dense() for machine in problem.machines]
    blocks = [block_diag(*(stack[m] for stack in stacks)) for m in range(3)]
    y = np.concatenate([machine.problem.y for machine in problem.machines])
    together = reference.solve(Problem(blocks, y, **common))
    apart = reference.solve(problem, "multiclass")
    assert apart.objective == pytest.approx(together.objective, rel=1e-7)
    np.testing.assert_allclose(apart.weights, together.weights, atol=1e-4)


def test_two_classes_one_against_one_is_the_binary_problem(data):
    kernels, y = data
    two = MulticlassProblem(kernels, np.where(y > 0, "b", "a"), C=2.0, strategy="one_vs_one")
    binary = reference.solve(Problem(kernels, np.where(y > 0, -1.0, 1.0), C=2.0))  # the first class is positive
    solution = reference.solve(two, "multiclass")
    assert solution.objective == pytest.approx(binary.objective, rel=1e-7)
    np.testing.assert_allclose(solution.intercept, [binary.intercept], atol=1e-4)
    scores = solution.decision_function(kernels)
    np.testing.assert_allclose(scores[:, 0], binary.decision_function(kernels), atol=1e-3)


def test_recovery_unpolished(data):
    problem = MulticlassProblem(*data, C=2.0, regularizer=Lp(4 / 3))
    model = as_formulation("multiclass").build(problem, factorize(problem.kernels))
    model.set_costs(problem.costs)
    bounds = problem.certify(*model.run(reference.Engine("CLARABEL")))
    assert abs(bounds.relative_gap) < 1e-3
    assert bounds.infeasibility < 1e-5


@pytest.mark.parametrize("spoil", ["flipped intercepts", "uniform weights", "shrunk dual", "machines in disorder"])
def test_spoilt_points_are_rejected(data, spoil):
    problem = MulticlassProblem(*data, C=2.0)
    solution = reference.solve(problem, "multiclass")
    beta, theta, b = solution.dual_coef, solution.weights, solution.intercept
    spoilt = {
        "flipped intercepts": (beta, theta, -b),
        "uniform weights": (beta, np.full(3, 1 / 3), b),
        "shrunk dual": (0.9 * beta, theta, b),
        "machines in disorder": (beta[::-1], theta, b),
    }[spoil]
    assert problem.certify(*spoilt).relative_gap > 1e-3


def test_gradient_of_the_machine_value(data):
    """(22): dJ/dtheta_m = -1/2 sum_p beta_p'K_m beta_p, with the labels of each machine within beta_p."""
    theta = np.array([0.5, 0.2, 0.3])

    def value(weights):
        problem = MulticlassProblem(*data, C=2.0, loss="squared_hinge", regularizer=Fixed(weights))
        return reference.solve(problem, "multiclass")

    beta = value(theta).dual_coef
    gradient = -0.5 * np.array([sum(row @ K @ row for row in beta) for K in data[0]])
    for m, step in enumerate(1e-4 * np.eye(3)):
        difference = (value(theta + step).objective - value(theta - step).objective) / 2e-4
        assert difference == pytest.approx(gradient[m], rel=1e-5)


def test_assignment():
    y = np.array(["a", "b", "c"] * 4)
    kernels = [np.eye(12)]
    rest = MulticlassProblem(kernels, y)
    assert list(rest.assign([[0.1, 0.3, -2.0], [-3.0, -2.0, -1.0]])) == ["b", "c"]
    pairs = MulticlassProblem(kernels, y, strategy="one_vs_one")
    assert [(machine.positive, machine.negative) for machine in pairs.machines] == [(0, 1), (0, 2), (1, 2)]
    assert list(pairs.assign([[1.0, 2.0, 5.0], [-9.0, 9.0, 0.1]])) == ["a", "b"]  # a circle: b won most clearly


def test_bad_input(data):
    kernels, y = data
    with pytest.raises(InvalidTarget, match="only the class"):
        MulticlassProblem(kernels, np.zeros(27))
    with pytest.raises(InvalidTarget, match=r"y has shape \(26,\), kernels are of order 27"):
        MulticlassProblem(kernels, y[1:])
    with pytest.raises(InvalidParameter, match="strategy = 'pairs' is unknown; known names: one_vs_rest, one_vs_one"):
        MulticlassProblem(kernels, y, strategy="pairs")
    with pytest.raises(InvalidParameter, match="loss squared takes no labels; use 'hinge'"):
        MulticlassProblem(kernels, y, loss="squared")
    with pytest.raises(InvalidInput, match=r"must have the shapes \(3, 27\) and \(3,\)"):
        MulticlassProblem(kernels, y).certify(np.zeros((2, 27)), np.ones(3))
    reasons = reference.explain(MulticlassProblem(kernels, y))
    assert reasons["multiclass"] is None
    assert reasons["dual"] == "dual is for a Problem, this is a MulticlassProblem."
    assert "is for a MulticlassProblem" in reference.explain(Problem(kernels, np.sign(y - 0.5)))["multiclass"]
