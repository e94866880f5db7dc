"""Empirical Bayes beside little noise, in coordinates that keep its digits, against rational numbers."""

from __future__ import annotations

import pickle
import sys
from fractions import Fraction
from unittest.mock import Mock

import numpy as np
import pytest

from mklref.certificate.exact import in_slices, product_of_slices
from mklref.evidence import (
    EvidenceProblem,
    EvidenceStatus,
    MarginalLikelihood,
    log_determinant_conjugate,
    solve,
    stationarity,
)
from mklref.evidence.likelihood import judge
from mklref.evidence.whitened import _is_indefinite
from mklref.exceptions import InvalidParameter
from validation.attack.evidence import exact_gradient, exact_objective


def test_beside_little_noise_the_residual_is_exact_and_the_end_stationary(rng):
    """One kernel vv': its residual in closed form. As it stands the covariance says 1e-7 of some, where it is 1e-4."""
    wrong, errors = 0, []
    for _ in range(12):
        v, y = rng.integers(1, 6, 4).astype(float), rng.integers(-5, 6, 4).astype(float)
        problem = EvidenceProblem([np.outer(v, v)], y, 2.0 ** -rng.integers(15, 34))
        solution = solve(problem)
        total = problem.noise_variance + solution.weights[0] * (v @ v)
        exact = abs(min(1.0 - problem.noise_variance / total, 0.5 - 0.5 * (v @ y) ** 2 / (v @ v) / total))
        found = solution.stationarity
        errors.append(abs(found.residual - exact) / (found.rounding + 1e-14))
        plain = judge(MarginalLikelihood(problem, solution.weights))
        wrong += abs(plain.residual - exact) > 1e-6
        assert abs(plain.residual - exact) <= plain.rounding + 1e-14
        assert solution.status is EvidenceStatus.STATIONARY
        assert exact <= 1.001e-6
        assert stationarity(problem, solution.weights).is_stationary(1e-6)
    assert wrong > 3
    assert max(errors) < 1.0


@pytest.mark.parametrize("learn_noise", [False, True])
def test_other_coordinates_are_the_same_model(learn_noise):
    """Where float64 has lost the derivatives: (14), its gradient and its curvature there, against rational numbers."""
    rng = np.random.default_rng(3)
    roots = rng.normal(size=(2, 6, 2))
    kernels = [root @ root.T for root in roots] + [np.zeros((6, 6))]
    problem = EvidenceProblem(kernels, rng.normal(size=6), 1e-10, learn_noise=learn_noise)
    plain = MarginalLikelihood(problem, [1.0, 0.3, 0.5])
    other = plain.whitened()
    for point in (other, other.whitened()):
        slopes = exact_gradient(problem, point.weights, 1e-10)
        np.testing.assert_allclose(point.gradient, slopes, rtol=1e-11, atol=1e-11)
        assert point.condition < 1.1
        assert point.value == pytest.approx(exact_objective(problem, point.weights, 1e-10), rel=1e-12)
        assert point.sensitivity == plain.residual_rounding > 1e3 * point.residual_rounding
        np.testing.assert_allclose(point.factor, plain.factor, rtol=1e-3, atol=1e-12)
        np.testing.assert_allclose(point.factor @ point.factor.T, problem.covariance(point.weights, 1e-10), atol=1e-13)
        np.testing.assert_allclose(point.alpha, plain.alpha, rtol=1e-3)
        np.testing.assert_allclose(point.inverse, plain.inverse, rtol=1e-3)
    assert np.abs(plain.gradient[:2] / slopes[:2] - 1.0).max() > 1e-9


@pytest.mark.sampled(3)
@pytest.mark.parametrize("share", [2.0**-60, 2.0**-75, 2.0**-90])
@pytest.mark.parametrize("scale", [1.0, 2.0**500, 2.0**-500])
@pytest.mark.parametrize("learn_noise", [False, True])
def test_covariances_without_a_cholesky_factor_in_float64(share, scale, learn_noise):
    """Kernels of integers, one twice, beside noise of 1e-18 to 1e-27 of them: (14) was refused, and is exact."""
    rng = np.random.default_rng(4)
    roots = rng.integers(-4, 5, size=(2, 8, 2)).astype(float)
    grams = scale * (roots @ roots.transpose(0, 2, 1))
    y = roots[0] @ rng.integers(-9, 10, 2)
    problem = EvidenceProblem([*grams, grams[0]], y, share, learn_noise=learn_noise)
    weights = np.array([1.0, 0.0, 0.5]) / scale
    assert MarginalLikelihood.at(problem, problem.join(weights, share)) is None
    point, found = MarginalLikelihood(problem, weights), stationarity(problem, weights)
    assert abs(point.value - exact_objective(problem, weights, share)) <= point.rounding < 1e-10 * abs(point.value)
    slopes = np.array(exact_gradient(problem, weights, share))
    np.testing.assert_allclose(found.gradient, slopes, rtol=1e-11)
    residuals = np.abs(np.minimum(point.units * (point.x - problem.lower), slopes / point.units))
    assert np.abs(found.residuals - residuals).max() <= found.rounding < 1e-9 * found.residual
    assert found.sensitivity == np.inf
    covariance = problem.covariance(weights, share)
    np.testing.assert_allclose(point.factor @ point.factor.T, covariance, rtol=0.0, atol=1e-13 * covariance.max())
    assert solve(problem, start=weights, max_iter=1).history[0].objective == point.value
    assert solve(problem, "reweighted", start=weights).status is EvidenceStatus.STALLED


def test_where_the_marginal_likelihood_overflows_no_other_coordinates_are_tried(monkeypatch):
    """Two of them were made, in n^3 operations with twice the digits, before the error."""
    monkeypatch.setattr("mklref.evidence.whitened.whitened", Mock(side_effect=AssertionError))
    for K, weight in ((10.0 * np.eye(3), 1e308), (1e-300 * np.eye(3), 0.0)):
        with pytest.raises(InvalidParameter, match="overflows"):
            MarginalLikelihood(EvidenceProblem([K], np.full(3, 1e10), 1e-300), [weight])


@pytest.mark.thorough
def test_whatever_a_method_returns_can_be_judged(rng):
    """White targets beside kernels of low rank: weights grow to 1e15, where `stationarity` found them at fault."""
    refused = 0
    for _ in range(20):
        n = int(rng.integers(4, 9))
        root = rng.normal(size=(n, rng.integers(1, n)))
        problem = EvidenceProblem([root @ root.T], rng.normal(size=n), 1e-12)
        solution = solve(problem, max_iter=40)
        found, said = stationarity(problem, solution.weights), solution.stationarity
        refused += MarginalLikelihood.at(problem, solution.weights) is None
        assert abs(found.residual - said.residual) <= found.rounding + said.rounding + 1e-12 * said.residual
    assert refused >= 1


def test_the_bound_of_the_determinant_beside_next_to_no_slope():
    """One kernel vv': psi*(z) = 1 - s z/v'v - log(v'v/z), s = 1, in closed form; its weight is lost in float64."""
    v = np.array([1.0, -2.0, 3.0, 1.0])
    problem = EvidenceProblem([np.outer(v, v)], np.ones(4), 1.0)
    for z in (1e-17, 1e-22, 1e-26):
        assert log_determinant_conjugate(problem, [z]) == pytest.approx(1.0 - z / 15.0 - np.log(15.0 / z), abs=1e-9)


@pytest.mark.parametrize(("n", "decades"), [(5, 9), (40, 0)])
def test_products_of_slices_have_twice_the_digits(n, decades, rng):
    """Also of what has itself twice the digits; without decades all terms are about as large as they may be."""
    A, B, rest = (rng.uniform(0.5, 1.0, (3, n)) * 10.0 ** rng.uniform(-decades, decades, (3, n)) for _ in range(3))
    rest *= 2.0**-54 * B / rest.max()
    high, low = product_of_slices(in_slices(A), in_slices(B, rest))
    for i, j in np.ndindex(3, 3):
        rows = zip(*(map(Fraction, row.tolist()) for row in (A[i], B[j], rest[j])), strict=True)
        error = abs(Fraction(float(high[i, j])) + Fraction(float(low[i, j])) - sum(a * (b + c) for a, b, c in rows))
        assert error <= Fraction(2) ** -98 * Fraction(float(np.abs(A[i]).max() * np.abs(B[j]).max()))


@pytest.mark.parametrize("method", ["newton", "mackay"])
def test_where_rounding_stops_a_method_it_goes_on_in_other_coordinates(method):
    """Kernels of low rank, targets of the model, and a noise variance that is 1e-12 of them: it stalled at 1e-3.

    Of integers, which are semidefinite as they stand: no fixed point follows eigenvalues that rounding made negative.
    """
    rng = np.random.default_rng(5)
    roots = rng.integers(-4, 5, size=(2, 30, 4)).astype(float)
    y = roots[0] @ rng.normal(size=4) + 1e-6 * rng.normal(size=30)
    problem = EvidenceProblem(roots @ roots.transpose(0, 2, 1), y, 1e-12)
    solution = solve(problem, method, max_iter=500)
    assert solution.status is EvidenceStatus.STATIONARY
    slopes = np.array(exact_gradient(problem, solution.weights, 1e-12))
    units = MarginalLikelihood(problem, solution.weights).units
    allowed = max(1e-9, solution.stationarity.rounding)
    assert allowed <= 1e-6
    np.testing.assert_allclose(solution.stationarity.gradient / units, slopes / units, rtol=0.0, atol=allowed)
    covariance = problem.covariance(solution.weights, 1e-12)
    np.testing.assert_allclose(solution.factor @ solution.factor.T, covariance, atol=1e-13 * covariance.max())


def little_noise_model() -> EvidenceProblem:
    """Kernels of low rank that explain the targets but for 1e-12, which is what (14) may take for noise."""
    rng = np.random.default_rng(5)
    roots = rng.normal(size=(2, 10, 3))
    return EvidenceProblem(roots @ roots.transpose(0, 2, 1), roots[0] @ rng.normal(size=3), 1e-12)


def test_samples_of_any_size_keep_their_digits():
    """K_ii from 1e-24 to 1e24: with one unit for each row of Z the gradient was wrong by a fifth."""
    rng = np.random.default_rng(2)
    roots = rng.normal(size=(2, 8, 3)) * 10.0 ** np.linspace(-12, 12, 8)[rng.permutation(8)][:, None]
    problem = EvidenceProblem(roots @ roots.transpose(0, 2, 1), rng.normal(size=8), 1e-26)
    point = MarginalLikelihood(problem, [1e-3, 1.0]).whitened()
    np.testing.assert_allclose(point.gradient, exact_gradient(problem, point.weights, 1e-26), rtol=1e-6)


def test_another_noise_variance_than_that_of_the_problem():
    """It was judged at the noise of the problem, in other coordinates."""
    problem, noise = little_noise_model(), 3e-11
    weights = solve(EvidenceProblem(problem.kernels, problem.y, noise)).weights
    found, plain = stationarity(problem, weights, noise), MarginalLikelihood(problem, weights, noise)
    units, slopes = plain.units, np.array(exact_gradient(problem, weights, noise))
    np.testing.assert_allclose(found.gradient / units, slopes / units, rtol=0.0, atol=1e-9)
    assert found.is_stationary(1e-6)
    assert found.sensitivity == plain.residual_rounding > 1e3 * found.rounding


@pytest.mark.parametrize("weight", [1e8, 1e10])
def test_rounding_of_residuals_far_from_stationary_points(rng, weight):
    """a_m/z_m = 1e12, where an error of z_m counts 1e12 times: of residuals off by 1e6 it was said that 1e-3 are."""
    for _ in range(10):
        root = rng.integers(-3, 4, size=(6, 3)).astype(float)
        K = root @ root.T
        problem = EvidenceProblem([K], 1e6 * np.sqrt(weight) * (K @ rng.normal(size=6)), 1.0)
        point, without = MarginalLikelihood(problem, [weight]), EvidenceProblem([K], np.zeros(6), 1.0)
        exact = exact_gradient(problem, point.weights, 1.0)[0] / exact_gradient(without, point.weights, 1.0)[0] / 2.0
        found = judge(point)
        assert abs(found.residual - abs(exact)) <= found.rounding <= 1e-3 * found.residual


def test_rounding_is_not_estimated_where_no_digit_is_left():
    """Kbar with its smallest eigenvalue at 1e-16 of the largest: the estimate was 43 where the residual is 7e16."""
    K = np.ones((3, 3)) + 1e-16 * np.diag([0.0, 3.0, 5.0])
    point = MarginalLikelihood.at(EvidenceProblem([K], [1.0, -2.0, 1.0], 2e-16), np.ones(1))
    assert point.residual_rounding == np.inf
    assert not judge(point).is_stationary(1e300)


def test_eigenvalues_below_0_that_others_cancel_count_as_rounding(rng):
    """Kbar_22 = s - 1e-16 + theta_2 has lost five digits, which were taken for right."""
    below, beyond = np.diag([1.0, -1e-16]), np.diag([0.0, 1.0])
    wrong = []
    for theta in rng.uniform(0.3, 0.9, 20):
        problem = EvidenceProblem([below, beyond], [1.0, 4e-11], 1e-21)
        point = MarginalLikelihood(problem, [theta, 1e-16 * theta + 1e-21])
        found, units = judge(point), point.units
        error = np.abs(found.gradient - exact_gradient(problem, point.weights, 1e-21)) / units
        assert error.max() <= found.rounding
        wrong.append(error.max())
    assert max(wrong) > 1e-13


@pytest.mark.parametrize("scale", [1.0, 2.0**-40, 2.0**40])
def test_a_kernel_whose_slope_rounding_makes_negative_is_judged_without_a_scale(scale):
    """K = diag(1, -1e-16): theta z = -98 and theta phi' = 446 had the residual theta, 9e-14 for large kernels."""
    problem = EvidenceProblem([scale * np.diag([1.0, -1e-16])], [1e-4, 1e-9], 1e-17)
    found = stationarity(problem, [0.099 / scale])
    assert found.residual == pytest.approx(446.0 / 98.0, rel=1e-6)
    assert found.curvature == pytest.approx(9.6948, rel=1e-4)


def test_coordinates_are_not_changed_in_a_circle(monkeypatch):
    """Two points that follow each other, where other coordinates do not help: 10,000 iterations."""
    problem = little_noise_model()
    ends = [MarginalLikelihood(problem, weights) for weights in ([1.0, 0.3], [0.5, 0.3])]
    monkeypatch.setattr("mklref.evidence.solver.newton_step", lambda point: ends[int(point.x[0] == 1.0)])
    monkeypatch.setattr(MarginalLikelihood, "whitened", lambda point, late: point)
    solution = solve(problem, start=[1.0, 0.3])
    assert solution.status is EvidenceStatus.STALLED
    assert len(solution.history) < 10


@pytest.mark.parametrize("stalled", [False, True])
def test_the_time_is_over_before_other_coordinates_are_there(monkeypatch, calls_of, stalled):
    """They may take minutes, and were waited for; where rounding stops a step, and where it may hide a residual."""
    products = calls_of(sys.modules["mklref.evidence.whitened"], "dtrmm", lambda *_, **options: options)
    monkeypatch.setattr("mklref._run.time", Mock(perf_counter=lambda: 100.0 * len(products)))
    if stalled:
        monkeypatch.setattr("mklref.evidence.solver.newton_step", lambda point: None)
    solution = solve(little_noise_model(), max_time=50.0, restarts=2)
    assert solution.status is EvidenceStatus.TIME_LIMIT
    assert len(products) == 1
    assert len(solution.restart_objectives) == 1
    assert np.isfinite(solution.objective)


def test_a_covariance_that_the_kernels_as_given_make_indefinite_is_not_changed():
    """An eigenvalue of -1e-16 that Cholesky's method does not see, and exact products do."""
    problem = EvidenceProblem([np.array([[1.0, 1.0], [1.0, np.nextafter(1.0, 0.0)]])], [1.0, 1.0], 1e-17)
    point = MarginalLikelihood.at(problem, np.ones(1))
    assert point is None or point.whitened() is None


def test_a_point_in_other_coordinates_is_pickled():
    point = MarginalLikelihood(EvidenceProblem([np.eye(2), np.ones((2, 2))], [1.0, 2.0], 0.1), np.ones(2)).whitened()
    again = pickle.loads(pickle.dumps(point))
    assert again.value == point.value
    np.testing.assert_array_equal(again.problem.Z, point.problem.Z)


@pytest.mark.parametrize("scale", [1.0, 2.0**1000, 2.0**-1000])
def test_an_indefinite_covariance_is_refused_before_other_coordinates_are_made(monkeypatch, scale):
    """An eigenvalue of -7/8 2^-47; coordinates cost n^3 operations with twice the digits, and are of no avail."""
    monkeypatch.setattr("mklref.evidence.whitened.whitened", Mock(side_effect=AssertionError))
    K = np.ones((8, 8))
    K[7, 7] -= 2.0**-47
    with pytest.raises(InvalidParameter, match="singular"):
        MarginalLikelihood(EvidenceProblem([K * scale, np.zeros((8, 8))], np.ones(8), 1e-17), [1.0 / scale, 0.0])


@pytest.mark.parametrize(("noise", "indefinite"), [(2.0**-47, False), (0.8 * 2.0**-47, True)])
def test_only_a_negative_form_is_called_indefinite(noise, indefinite):
    K = np.ones((8, 8))
    K[7, 7] -= 2.0**-47
    problem = EvidenceProblem([K], np.ones(8), noise)
    weights = np.ones(1)
    assert _is_indefinite(problem, weights, noise, problem.covariance(weights, 0.0)) is indefinite
