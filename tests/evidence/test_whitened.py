"""Empirical Bayes beside little noise, in coordinates that keep its digits, against rational numbers."""

from __future__ import annotations

from fractions import Fraction

import flint
import numpy as np
import pytest
from evidence.test_rounding import exact_objective

from mklref.evidence import EvidenceProblem, EvidenceStatus, MarginalLikelihood, solve, stationarity
from mklref.evidence.likelihood import judge
from mklref.evidence.whitened import _product, _sliced


def exact_gradient(problem: EvidenceProblem, weights: np.ndarray, noise: float) -> list[float]:
    """1/2 (tr(X K_m) - (X y)'K_m (X y)), X = Kbar^{-1}, in rational numbers."""
    fmpq, n = flint.fmpq_mat, problem.n_samples
    matrices = [*problem.kernels.matrices, *([np.eye(n)] if problem.learn_noise else [])]
    exact = [fmpq(n, n, [flint.fmpq(*float(x).as_integer_ratio()) for x in K.flat]) for K in matrices]
    total = fmpq(n, n, [flint.fmpq(*x.as_integer_ratio()) for x in (noise * np.eye(n)).ravel().tolist()])
    for weight, K in zip(weights.tolist(), exact, strict=False):
        total += K * flint.fmpq(*weight.as_integer_ratio())
    X = total.inv()
    alpha = X * fmpq(n, 1, [flint.fmpq(*float(value).as_integer_ratio()) for value in problem.y])
    slopes = []
    for K in exact:
        product = X * K
        trace = sum((product[i, i] for i in range(n)), flint.fmpq(0))
        difference = trace - (alpha.transpose() * K * alpha)[0, 0]
        slopes.append(0.5 * float(Fraction(int(difference.p), int(difference.q))))
    return slopes


def test_beside_little_noise_the_residual_is_exact_and_the_end_stationary(rng):
    """One kernel vv': its residual in closed form. As it stands the covariance says 1e-7 of some, where it is 1e-4."""
    wrong, errors = 0, []
    for _ in range(60):
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
    assert wrong > 20
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
        alpha, factor = point.problem.unwhitened(point.alpha, point.factor)
        np.testing.assert_allclose(factor, plain.factor, rtol=1e-3, atol=1e-12)
        np.testing.assert_allclose(factor @ factor.T, problem.covariance(point.weights, 1e-10), atol=1e-13)
        np.testing.assert_allclose(alpha, plain.alpha, rtol=1e-3)
    assert np.abs(plain.gradient[:2] / slopes[:2] - 1.0).max() > 1e-9


def test_products_of_slices_have_twice_the_digits(rng):
    A, B = (rng.normal(size=(3, 5)) * 10.0 ** rng.uniform(-9, 9, (3, 5)) for _ in range(2))
    high, low = _product(_sliced(A), _sliced(B))
    for i, j in np.ndindex(3, 3):
        terms = [Fraction(float(a)) * Fraction(float(b)) for a, b in zip(A[i], B[j], strict=True)]
        error = abs(Fraction(float(high[i, j])) + Fraction(float(low[i, j])) - sum(terms))
        assert error <= Fraction(2) ** -98 * Fraction(float(np.abs(A[i]).max() * np.abs(B[j]).max()))


@pytest.mark.parametrize("method", ["newton", "mackay"])
def test_where_rounding_stops_a_method_it_goes_on_in_other_coordinates(method):
    """Kernels of low rank, targets of the model, and a noise variance that is 1e-12 of them: it stalled at 1e-3."""
    rng = np.random.default_rng(5)
    roots = rng.normal(size=(2, 30, 4))
    y = roots[0] @ rng.normal(size=4) + 1e-6 * rng.normal(size=30)
    problem = EvidenceProblem(roots @ roots.transpose(0, 2, 1), y, 1e-12)
    solution = solve(problem, method, max_iter=500)
    assert solution.status is EvidenceStatus.STATIONARY
    slopes = np.array(exact_gradient(problem, solution.weights, 1e-12))
    units = MarginalLikelihood(problem, solution.weights).units
    np.testing.assert_allclose(solution.stationarity.gradient / units, slopes / units, rtol=0.0, atol=1e-9)
    covariance = problem.covariance(solution.weights, 1e-12)
    np.testing.assert_allclose(solution.factor @ solution.factor.T, covariance, atol=1e-13 * covariance.max())


def test_a_covariance_that_the_kernels_as_given_make_indefinite_is_not_changed():
    """An eigenvalue of -1e-16 that Cholesky's method does not see, and exact products do."""
    problem = EvidenceProblem([np.array([[1.0, 1.0], [1.0, np.nextafter(1.0, 0.0)]])], [1.0, 1.0], 1e-17)
    point = MarginalLikelihood.at(problem, np.ones(1))
    assert point is None or point.whitened() is None
