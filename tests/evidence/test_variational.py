"""The bounds (15) and (16): above the terms of (14), tight where the theory says so."""

from __future__ import annotations

import numpy as np
import pytest
from evidence.models import make_model, some_weights
from scipy.optimize import minimize

from mklref.evidence import (
    EvidenceProblem,
    MarginalLikelihood,
    log_determinant_bound,
    log_determinant_conjugate,
    quadratic_bound,
)
from mklref.exceptions import InvalidParameter
from mklref.regularizers import WeightedL1


@pytest.mark.parametrize("degenerate", ["generic", "low_rank", "zero_kernel"])
def test_15_is_tight_at_the_posterior_means_and_above_elsewhere(degenerate, rng):
    problem = make_model(degenerate=degenerate)
    weights = some_weights(problem)
    alpha = MarginalLikelihood(problem, weights).alpha
    quadratic = 0.5 * problem.y @ alpha
    tight = weights[:, None] * alpha
    assert quadratic_bound(problem, weights, tight) == pytest.approx(quadratic, rel=1e-12)
    for _ in range(50):
        other = tight + 0.3 * rng.normal(size=tight.shape)
        assert quadratic_bound(problem, weights, other) > quadratic * (1 + 1e-6)


def test_15_by_definition():
    """||f||^2 = f'K^{-1} f, which needs an inverse: ours does not."""
    problem = make_model(degenerate="generic")
    K = problem.kernels.dense() + 1e-3 * np.eye(20)
    problem = EvidenceProblem(K, problem.y, 0.09)
    weights, c = some_weights(problem), np.random.default_rng(1).normal(size=(3, 20))
    f = np.einsum("mij,mj->mi", K, c)
    norms = np.array([f[m] @ np.linalg.solve(K[m], f[m]) for m in range(3)])
    expected = np.sum((problem.y - f.sum(axis=0)) ** 2) / 0.18 + 0.5 * np.sum(norms / weights)
    assert quadratic_bound(problem, weights, c) == pytest.approx(expected, rel=1e-9)


def test_15_at_a_weight_of_zero():
    problem = make_model()
    weights = np.array([1.0, 0.0, 1.0])
    c = np.ones((3, 20))
    assert quadratic_bound(problem, weights, c) == np.inf
    c[1] = 0.0
    assert np.isfinite(quadratic_bound(problem, weights, c))


@pytest.mark.parametrize("degenerate", ["generic", "low_rank"])
def test_16_is_the_tangent_of_a_concave_function(degenerate, rng):
    problem = make_model(degenerate=degenerate)
    weights = some_weights(problem)
    point = MarginalLikelihood(problem, weights)
    conjugate = log_determinant_conjugate(problem, point.traces)
    assert conjugate == pytest.approx(point.traces @ weights - point.log_determinant, rel=1e-9)
    for _ in range(30):
        other = rng.exponential(size=3) * 10 ** rng.uniform(-2, 2)
        above = log_determinant_bound(problem, other, point.traces)
        assert above >= MarginalLikelihood(problem, other).log_determinant - 1e-9


def test_the_conjugate_against_a_general_minimiser(rng):
    problem = make_model()
    kernels = problem.kernels.dense()
    for _ in range(5):
        z = rng.exponential(size=3) * 10

        def line(d: np.ndarray, z: np.ndarray = z) -> float:
            return float(z @ d) - MarginalLikelihood(problem, d).log_determinant

        def slopes(d: np.ndarray, z: np.ndarray = z) -> np.ndarray:
            inverse = np.linalg.inv(0.09 * np.eye(20) + np.tensordot(d, kernels, 1))
            return z - np.einsum("ij,mij->m", inverse, kernels)

        found = minimize(
            line, np.ones(3), jac=slopes, bounds=[(0, None)] * 3, method="L-BFGS-B", options={"ftol": 0, "gtol": 1e-9}
        )
        # The minimum lies in the simplex z'd <= n, and the function above its tangent at d.
        slope = slopes(found.x)
        below = slope @ found.x - 20 * min(0.0, (slope / z).min())
        rounding = 1e-12 * abs(found.fun)
        assert below < 1e-6 * abs(found.fun)
        assert found.fun - below - rounding <= log_determinant_conjugate(problem, z) <= found.fun + rounding


def test_where_the_conjugate_is_minus_infinity():
    problem = make_model(degenerate="zero_kernel")
    assert log_determinant_conjugate(problem, [1.0, 1.0, 0.0]) == -np.inf
    assert log_determinant_conjugate(problem, [1.0, 1.0, -1.0]) == -np.inf
    assert np.isfinite(log_determinant_conjugate(problem, [1.0, 0.0, 1.0]))  # kernel 1 is zero
    assert log_determinant_bound(problem, [1.0, 1.0, 1.0], [1.0, 1.0, 0.0]) == np.inf


def test_minimised_over_the_weights_the_two_bounds_are_a_weighted_l1_penalty():
    """min over theta of 1/2 (||f||^2/theta + z theta) = sqrt(z) ||f||: the inner problem of the first iteration."""
    problem = make_model()
    point = MarginalLikelihood(problem, some_weights(problem))
    z, norms = point.traces, point.weights * np.sqrt(point.squares)
    penalty = WeightedL1(np.sqrt(z))
    best = penalty.weights_from_norms(norms)
    grid = best * np.geomspace(0.2, 5.0, 101)[:, None]
    values = 0.5 * np.sum(norms**2 / grid + z * grid, axis=1)
    assert values.min() == pytest.approx(penalty.value(norms))
    assert values.argmin() == 50


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda p: quadratic_bound(p, np.ones(3), np.ones((3, 19))), r"coefficients has shape \(3, 19\); expected"),
        (lambda p: quadratic_bound(p, np.ones(3), np.full((3, 20), np.nan)), r"coefficients\[0, 0\] is nan"),
        (lambda p: quadratic_bound(p, -np.ones(3), np.ones((3, 20))), r"weights\[0\] = -1 is negative"),
        (lambda p: log_determinant_conjugate(p, [1.0]), r"slopes has shape \(1,\); expected \(3,\)"),
        (lambda p: log_determinant_conjugate(p, [1.0, np.inf, 1.0]), r"slopes\[1\] is inf"),
        (lambda p: log_determinant_conjugate(p, [1e-300, 1.0, 1.0]), "noise_variance = 0.09 is lost in float64"),
    ],
)
def test_bad_input(call, says):
    with pytest.raises(InvalidParameter, match=says):
        call(make_model(degenerate="low_rank"))
