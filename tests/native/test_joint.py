"""Machines with shared weights on the native solver: against cvxpy, against one big problem, against spoilt parts."""

from __future__ import annotations

import numpy as np
import pytest
from makers import make_kernels, make_samples
from native.solving import overlap

import mklref
from mklref import reference
from mklref.exceptions import InvalidInput, InvalidParameter
from mklref.kernels import gaussian
from mklref.machines import machine_for
from mklref.multiclass import STRATEGIES, MulticlassProblem
from mklref.regularizers import BlockNorm, ElasticNet, Lp
from mklref.solution import Status


@pytest.fixture(scope="module")
def weight():
    return np.random.default_rng(4).uniform(0.5, 2.0, size=27)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("regularizer", [Lp(1), Lp(4 / 3), ElasticNet(0.3), BlockNorm(4)], ids=str)
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_agrees_with_the_reference(data, weight, strategy, regularizer):
    problem = MulticlassProblem(*data, C=2.0, regularizer=regularizer, strategy=strategy, sample_weight=weight)
    native, conic = mklref.solve(problem, tol=1e-8), reference.solve(problem, "multiclass")
    assert native.status is Status.OPTIMAL
    assert native.solver == "native"
    assert native.certificate == problem.certify(native.dual_coef, native.weights, native.intercept)
    overlap(native, conic)
    assert native.objective == pytest.approx(conic.objective, rel=2e-6)
    np.testing.assert_allclose(native.weights, conic.weights, atol=2e-3)


def test_weights_of_samples_count_as_copies(data):
    kernels, y = data
    twice = np.array([*range(27), 4, 11])
    weight = np.ones(27)
    weight[[4, 11]] = 2.0
    weighted = mklref.solve(MulticlassProblem(kernels, y, C=2.0, sample_weight=weight))
    copied = mklref.solve(MulticlassProblem(kernels[:, twice][:, :, twice], y[twice], C=2.0))
    assert weighted.objective == pytest.approx(copied.objective, rel=2e-6)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_derivatives_are_those_of_the_value(data, strategy):
    """-1/2 q and W'W against differences of J."""
    problem = MulticlassProblem(*data, C=2.0, loss="squared_hinge", strategy=strategy)
    machine = machine_for(problem)

    def solved(weights):
        machine.move(weights)
        for _ in range(3):
            machine.solve(1e-13)
        return machine.value(), -0.5 * machine.squares

    weights, h = np.array([0.3, 0.5, 0.2]), 1e-4
    _, gradient = solved(weights)
    W = machine.hessian_root(np.arange(3))
    for m, step in enumerate(h * np.eye(3)):
        (above, slope_above), (below, slope_below) = solved(weights + step), solved(weights - step)
        assert (above - below) / (2 * h) == pytest.approx(gradient[m], rel=1e-4)
        np.testing.assert_allclose((slope_above - slope_below) / (2 * h), (W.T @ W)[m], rtol=1e-3, atol=1e-3)


def test_machines_on_the_same_samples_share_their_rows(data):
    rest = machine_for(MulticlassProblem(*data))
    assert all(machine.rows is rest.machines[0].rows for machine in rest.machines)
    pairs = machine_for(MulticlassProblem(*data, strategy="one_vs_one"))
    assert len({id(machine.rows) for machine in pairs.machines}) == 3
    assert all(machine.forms.watched is pairs.forms.watched for machine in pairs.machines)


def test_starts_from_a_part_and_from_a_solution():
    """Enough samples for a first guess, more kernels than a sparse problem watches."""
    rng = np.random.default_rng(0)
    X = make_samples(rng, 280, d=6)
    problem = MulticlassProblem(make_kernels(rng, X, M=40), np.digitize(X[:, 0] * X[:, 1], [-0.3, 0.3]), C=3.0)
    solution = mklref.solve(problem, tol=1e-4)
    assert solution.status is Status.OPTIMAL
    warm = mklref.solve(problem.replace(C=3.1), tol=1e-4, start=solution)
    assert warm.status is Status.OPTIMAL
    assert len(warm.history) < len(solution.history)
    assert warm.certificate.upper >= solution.certificate.lower


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("storage", ["memory", "lazy"])
def test_a_class_that_a_part_of_the_samples_would_miss_has_its_machine(storage, strategy):
    """Two classes of four have one sample each, of 400."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 2))
    y = 1 * (X[:, 0] > 0.0)
    y[[3, 200]] = 2, 3
    problem = MulticlassProblem(gaussian([1.0, 3.0]).fit(X, storage=storage), y, regularizer=Lp(2), strategy=strategy)
    assert mklref.solve(problem, tol=1e-4).status is Status.OPTIMAL


@pytest.mark.sampled(4)
@pytest.mark.parametrize("regularizer", [Lp(1), Lp(4 / 3), ElasticNet(0.3)], ids=str)
@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("loss", ["hinge", "logistic"])
def test_several_machines_are_polished_to_the_limit_of_double_precision(data, strategy, regularizer, loss):
    problem = MulticlassProblem(*data, C=2.0, loss=loss, regularizer=regularizer, strategy=strategy)
    rough, fine = mklref.solve(problem, tol=1e-4), mklref.solve(problem, tol=1e-4, polish=True)
    assert fine.certificate.relative_gap < 1e-12 < rough.certificate.relative_gap
    assert fine.certificate == mklref.certify(problem, fine.dual_coef, weights=fine.weights, intercept=fine.intercept)
    assert fine.certificate.lower <= rough.certificate.upper


def test_refused(data):
    kernels, y = data
    problem = MulticlassProblem(kernels, y)
    solution = mklref.solve(problem, tol=1e-2)
    with pytest.raises(InvalidInput, match=r"start has dual variables of shape \(3, 27\) .* has \(2, 27\)"):
        mklref.solve(MulticlassProblem(kernels, y > 0), start=solution)
    with pytest.raises(InvalidParameter, match=r"sample_weight has shape \(3,\), y has shape \(27,\)"):
        MulticlassProblem(kernels, y, sample_weight=np.ones(3))
