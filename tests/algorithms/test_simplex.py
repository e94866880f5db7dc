"""The algorithms for weights on the simplex: certified on data, and in agreement with both oracles."""

from __future__ import annotations

import numpy as np
import pytest
from algorithms.cases import cancer, complaints
from makers import make_problem

import mklref
from mklref import algorithms, reference
from mklref.solution import Status

NAMES = ("silp", "simplemkl", "gradient_descent", "hessian_mkl", "level")
every_algorithm = pytest.mark.parametrize("name", NAMES)


def solve(name, problem, **options):
    """Here with level sets halfway, for shorter runs; the default is in the tests of breast cancer and of the frame."""
    if name == "level":
        options = {"position": 0.5, **options}
    return algorithms.ALGORITHMS[name](problem, **options)


@pytest.fixture(scope="module")
def truth():
    return mklref.solve(cancer(), tol=1e-7).certificate


@pytest.mark.sampled(2)
@every_algorithm
@pytest.mark.parametrize("tol", [1e-4, 1e-6])
def test_breast_cancer(name, tol, truth):
    solution = algorithms.ALGORITHMS[name](cancer(), tol=tol)
    assert complaints(cancer(), solution, tol, truth) == []
    assert solution.solver == name


@every_algorithm
def test_an_objective_of_zero(name):
    """A one-class problem whose optimum is 0: no relative gap is ever small, and nothing breaks.

    Of its unit rounding leaves 4e-6, by seeds and processors.
    """
    problem = make_problem(loss="one_class", seed=2, n=10, M=3, degenerate="low_rank")
    solution = solve(name, problem, tol=1e-5)
    assert solution.status is Status.OPTIMAL
    assert abs(solution.certificate.upper) <= 1e-12
    assert np.isfinite(solution.history.column("weights")).all()


@pytest.mark.parametrize("name", ["silp", "level"])
def test_far_off_cuts(name):
    """Here the first cuts are 1e15 times as steep as what is left of the gap, which HiGHS refuses as it is."""
    problem = make_problem(seed=81, n=7, M=4, degenerate="low_rank", C=2422.49, intercept=False)
    assert complaints(problem, solve(name, problem, tol=1e-6), 1e-6, mklref.solve(problem).certificate) == []


@every_algorithm
def test_without_intercept(name):
    problem = make_problem(seed=4, intercept=False)
    assert complaints(problem, solve(name, problem), 1e-4, mklref.solve(problem).certificate) == []


@pytest.fixture(scope="module")
def small():
    problem = make_problem(seed=5, n=20, M=4, C=5.0)
    return problem, reference.solve(problem, "qcqp").certificate


@every_algorithm
def test_agrees_with_cvxpy(name, small):
    problem, truth = small
    solution = solve(name, problem, tol=1e-6)
    assert complaints(problem, solution, 1e-6, truth) == []


@pytest.mark.parametrize(("name", "p"), [*((name, 1) for name in NAMES), ("lp_wrapper", 4 / 3)])
@pytest.mark.parametrize("strategy", ["one_vs_rest", "one_vs_one"])
def test_several_classes(name, p, strategy, rng):
    """J is the sum over the machines (SimpleMKL 4.2), each of which counts as an SVM evaluation."""
    X = rng.normal(size=(30, 3))
    kernels = mklref.kernels.simplemkl_recipe(X, single_variables=False).dense()[2:7]
    y = np.digitize(X[:, 0] + 0.2 * rng.normal(size=30), [-0.5, 0.5])
    problem = mklref.MulticlassProblem(kernels, y, C=50.0, regularizer=mklref.Lp(p), strategy=strategy)
    solution = solve(name, problem)
    again = problem.certify(solution.dual_coef, solution.weights, solution.intercept)
    assert solution.certificate == again
    assert 0.0 <= again.gap <= 1e-4 * again.upper
    assert solution.status is Status.OPTIMAL
    assert again.infeasibility <= 1e-12
    assert solution.history.counters["svm"] % 3 == 0
    if strategy == "one_vs_rest":
        exact = reference.solve(problem, "multiclass").certificate
        assert again.lower <= exact.upper
        assert exact.lower <= again.upper


@every_algorithm
def test_a_warm_start_has_less_to_do(name):
    problem = cancer()
    cold = solve(name, problem)
    warm = solve(name, problem.replace(C=90.0), start=cold)
    assert warm.status is Status.OPTIMAL
    assert warm.history.records[0].relative_gap < 0.1 * cold.history.records[0].relative_gap
    assert solve(name, problem, start=cold).history.counters["svm"] == 1


@pytest.mark.sampled(2)
@every_algorithm
@pytest.mark.parametrize("exponent", [-16, 20])
@pytest.mark.parametrize("loss", ["squared", "one_class"])
def test_other_units(name, exponent, loss):
    """P(4^k K, C/4^k) = P(K, C)/4^k bit for bit: the stopping rule knows no unit, and neither do the masters."""
    problem = make_problem(seed=3, n=24, M=5, loss=loss)
    unit = 4.0**exponent
    C = problem.C if loss == "one_class" else problem.C / unit
    scaled = problem.replace(kernels=unit * problem.kernels.dense(), C=C)
    here, there = solve(name, problem), solve(name, scaled)
    assert here.status is there.status is Status.OPTIMAL
    assert np.array_equal(here.weights, there.weights)
    assert here.history.counters == there.history.counters
    factor = unit if loss == "one_class" else 1.0 / unit
    assert here.history.column("upper").tolist() == (there.history.column("upper") / factor).tolist()
    assert here.history.column("lower").tolist() == (there.history.column("lower") / factor).tolist()


@every_algorithm
def test_l1_under_its_other_name(name):
    problem = make_problem(seed=3, n=24, M=5)
    other = solve(name, problem.replace(regularizer=mklref.BlockNorm(1)))
    assert np.array_equal(solve(name, problem).weights, other.weights)
