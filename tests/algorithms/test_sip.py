"""The semi-infinite program of lp norms: certified, equal to both oracles, and its master against twins."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import pytest
from algorithms.cases import cancer, complaints
from makers import DEGENERATE, LOSSES, make_problem

import mklref
from mklref import algorithms, reference
from mklref.algorithms.sip import lp_master, on_the_sphere, quadratic_master
from mklref.exceptions import NotApplicable
from mklref.kernels import ArrayStack, gaussian
from mklref.solution import Status

P = (1.01, 4 / 3, 2.0, 3.0, 10.0)


@pytest.mark.parametrize("p", P)
def test_breast_cancer(p):
    problem = cancer(mklref.Lp(p))
    solution = algorithms.sip(problem, tol=1e-6)
    assert complaints(problem, solution, 1e-6, mklref.solve(problem, tol=1e-7).certificate) == []


@pytest.mark.parametrize("loss", LOSSES, ids=str)
def test_every_loss(loss):
    problem = make_problem(loss=loss, seed=3, n=24, M=5, regularizer=mklref.Lp(1.5))
    assert complaints(problem, algorithms.sip(problem, tol=1e-6), 1e-6, mklref.solve(problem).certificate) == []


@pytest.mark.parametrize("degenerate", DEGENERATE)
def test_degenerate_kernels(degenerate):
    problem = make_problem(seed=3, n=24, M=5, C=10.0, degenerate=degenerate, regularizer=mklref.Lp(1.2))
    assert complaints(problem, algorithms.sip(problem), 1e-4, mklref.solve(problem).certificate) == []


def test_agrees_with_cvxpy():
    problem = make_problem(seed=5, n=20, M=4, C=5.0, regularizer=mklref.Lp(2))
    solution = algorithms.sip(problem, tol=1e-6)
    assert complaints(problem, solution, 1e-6, reference.solve(problem, "dual").certificate) == []


def test_a_zero_weight_comes_back():
    problem = make_problem(seed=3, n=24, M=5, C=10.0, regularizer=mklref.Lp(1.5))
    best = mklref.solve(problem)
    vertex = np.eye(5)[np.argmin(best.weights)]
    start = mklref.Solution(np.zeros(24), vertex, 0.0, np.inf, best.certificate, Status.STALLED)
    solution = algorithms.sip(problem, start=start)
    assert complaints(problem, solution, 1e-4, best.certificate) == []
    assert solution.weights.min() > 0.0


@pytest.mark.parametrize("exponent", [-16, 20])
def test_other_units(exponent):
    problem = make_problem(seed=3, n=24, M=5, regularizer=mklref.Lp(1.5))
    unit = 4.0**exponent
    here = algorithms.sip(problem)
    there = algorithms.sip(problem.replace(kernels=unit * problem.kernels.dense(), C=problem.C / unit))
    assert np.array_equal(here.weights, there.weights)
    assert here.history.counters == there.history.counters
    assert here.history.column("upper").tolist() == (there.history.column("upper") * unit).tolist()


def test_many_kernels_most_of_them_useless():
    """Kloft's Figure 6 has 200 widths; where nearly all are too large, the master goes a long way for small weights."""
    X = np.random.default_rng(2).normal(size=(40, 3))
    y = np.sign(X[:, 0] * X[:, 1])
    stack = ArrayStack.trusted(list(gaussian(np.sqrt(1.2 ** np.arange(200) / 2.0)).fit(X).dense()))
    problem = mklref.Problem(stack, y, regularizer=mklref.Lp(4 / 3))
    assert complaints(problem, algorithms.sip(problem, tol=1e-3), 1e-3, mklref.solve(problem).certificate) == []


@pytest.mark.parametrize("regularizer", [mklref.Lp(1), mklref.Lp(np.inf), mklref.ElasticNet(0.5)], ids=str)
def test_other_regularizers_are_refused(regularizer):
    with pytest.raises(NotApplicable, match=r"sip is made for .*1 < p < inf.* For Lp\(1\): silp"):
        algorithms.sip(make_problem(regularizer=regularizer))


def planes(rng, k=5, M=4):
    """Cuts of which none dominates: points of a machine at random weights."""
    problem = make_problem(seed=11, n=20, M=M, C=3.0)
    run = algorithms.base.Run("test", problem, 1e-6, 10)
    return [run.svm(rng.dirichlet(np.ones(M))) for _ in range(k)]


@pytest.mark.parametrize("p", [1.1, 1.5, 2.0, 4.0])
def test_master_against_its_definition(p, rng):
    cuts = planes(rng)
    best = min(cut.value for cut in cuts)
    master = lp_master(cuts, on_the_sphere(np.ones(4), p), p, best, unit=best)
    theta, t = cp.Variable(4, nonneg=True), cp.Variable()
    rows = [t >= cut.dual_term - 0.5 * cut.squares @ theta for cut in cuts]
    exact = cp.Problem(cp.Minimize(t), [*rows, cp.pnorm(theta, p) <= 1])
    exact.solve(solver="CLARABEL")
    rounding = 1e-7 * best
    assert exact.value - 2e-3 * best <= master.value <= exact.value + rounding
    height = max(cut.cut(master.weights) for cut in cuts)
    assert exact.value - rounding <= height <= exact.value + 2e-3 * best
    assert np.linalg.norm(master.weights, p) == pytest.approx(1.0, rel=1e-12)
    duals = np.array([row.dual_value for row in rows]).ravel()
    assert master.shares == pytest.approx(duals, abs=2e-2)


@pytest.mark.parametrize("p", [1.1, 2.0, 3.0])
def test_expanded_master_against_its_definition(p, rng):
    cuts = planes(rng)
    unit = cuts[0].value
    slopes = np.array([-0.5 * cut.squares / unit for cut in cuts])
    constants = np.array([cut.dual_term / unit for cut in cuts])
    z = on_the_sphere(rng.uniform(0.1, 1.0, 4), p)
    weights, shares = quadratic_master(slopes, constants, z, p)
    theta, t = cp.Variable(4), cp.Variable()
    norm = 1 + p * z ** (p - 1) @ (theta - z) + p * (p - 1) / 2 * z ** (p - 2) @ cp.square(theta - z)
    exact = cp.Problem(cp.Minimize(t), [constants + slopes @ theta <= t, theta >= 0, theta <= 1, norm <= 1])
    exact.solve(solver="CLARABEL")
    assert (constants + slopes @ weights).max() == pytest.approx(exact.value, abs=2e-3)
    assert norm.value <= 1.0 + 1e-6
    assert shares == pytest.approx(exact.constraints[0].dual_value, abs=2e-2)
    # The expansion is that of ||theta||_p^p: value, gradient and curvature at z.
    near = z * (1.0 + 1e-4 * rng.normal(size=4))
    theta.value = near
    assert float(norm.value) == pytest.approx(float(np.sum(near**p)), abs=1e-10)
