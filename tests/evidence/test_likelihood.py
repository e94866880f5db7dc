"""(14): value, gradient and Hessian against their definitions, finite differences and scikit-learn."""

from __future__ import annotations

import numpy as np
import pytest
from evidence.models import make_model, objective_by_definition, some_weights
from makers import make_samples
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

from mklref.evidence import EvidenceProblem, MarginalLikelihood

SHAPES = ["generic", "low_rank", "duplicated_kernel", "zero_kernel", "duplicated_samples"]


@pytest.mark.parametrize("degenerate", SHAPES)
def test_value_by_definition(degenerate):
    problem = make_model(degenerate=degenerate)
    for weights in (some_weights(problem), np.array([0.7, 0.0, 3.0]), np.zeros(3)):
        for noise in (0.09, 2.0):
            expected = objective_by_definition(problem, weights, noise)
            assert MarginalLikelihood(problem, weights, noise).value == pytest.approx(expected, rel=1e-10)


def differences(function, x: np.ndarray, step: float = 1e-5) -> np.ndarray:
    """Central differences of a function of a vector, one row for each variable."""
    rows = []
    for j in range(len(x)):
        shift = np.zeros(len(x))
        shift[j] = step * x[j]
        rows.append((function(x + shift) - function(x - shift)) / (2.0 * shift[j]))
    return np.array(rows)


@pytest.mark.parametrize("learn_noise", [False, True])
@pytest.mark.parametrize("degenerate", SHAPES)
def test_gradient_and_hessian_by_differences(degenerate, learn_noise):
    problem = make_model(degenerate=degenerate, learn_noise=learn_noise)
    x = problem.join(some_weights(problem), 0.2)
    point = MarginalLikelihood(problem, *problem.split(x))
    gradient = differences(lambda v: objective_by_definition(problem, *problem.split(v)), x)
    np.testing.assert_allclose(point.gradient, gradient, rtol=1e-5, atol=1e-6)
    hessian = differences(lambda v: MarginalLikelihood(problem, *problem.split(v)).gradient, x)
    np.testing.assert_allclose(point.hessian(), hessian, rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(point.hessian(), point.hessian().T)
    some = np.array([len(x) - 1, 0])
    np.testing.assert_allclose(point.hessian(some), point.hessian()[np.ix_(some, some)], rtol=1e-12)


def test_the_hessian_is_that_of_a_concave_and_a_convex_term():
    """Neither term alone has the Hessian of (14): with the factor 1/2 on the wrong one, differences disagree."""
    problem = make_model()
    point = MarginalLikelihood(problem, some_weights(problem))
    products = point.trace_products(np.arange(3))
    assert np.linalg.eigvalsh(products).min() > 0.0
    convex = point.hessian() + 0.5 * products
    assert np.linalg.eigvalsh(convex).min() > -1e-12
    assert np.linalg.norm(products) > 0.1 * np.linalg.norm(convex)


def test_traces_and_squares_by_definition():
    problem = make_model(learn_noise=True)
    weights = some_weights(problem)
    point = MarginalLikelihood(problem, weights, 0.3)
    inverse = np.linalg.inv(np.einsum("m,mij->ij", weights, problem.kernels.dense()) + 0.3 * np.eye(20))
    kernels = [*problem.kernels.dense(), np.eye(20)]
    np.testing.assert_allclose(point.traces, [np.trace(inverse @ K) for K in kernels], rtol=1e-10)
    np.testing.assert_allclose(point.squares, [problem.y @ inverse @ K @ inverse @ problem.y for K in kernels])
    assert point.log_determinant == pytest.approx(-np.linalg.slogdet(inverse)[1])


def test_scikit_learn_on_the_same_kernel(rng):
    """GaussianProcessRegressor differentiates in the logarithms of the weights and keeps n/2 log(2 pi)."""
    X = make_samples(rng, 25)
    y = np.sin(2 * X[:, 0]) + 0.3 * rng.normal(size=25)
    theta, noise, widths = np.array([0.7, 2.3]), 0.15, (0.6, 1.9)
    kernel = ConstantKernel(theta[0]) * RBF(widths[0], "fixed") + ConstantKernel(theta[1]) * RBF(widths[1], "fixed")
    model = GaussianProcessRegressor(kernel + WhiteKernel(noise), alpha=0.0, optimizer=None).fit(X, y)
    value, gradient = model.log_marginal_likelihood(model.kernel_.theta, eval_gradient=True)

    problem = EvidenceProblem([RBF(width)(X) for width in widths], y, noise, learn_noise=True)
    point = MarginalLikelihood(problem, theta)
    assert -point.value - 12.5 * np.log(2 * np.pi) == pytest.approx(value, rel=1e-10)
    np.testing.assert_allclose(-point.gradient * point.x, gradient, rtol=1e-8)


def test_float32_kernels_are_summed_in_double():
    problem = make_model()
    single = EvidenceProblem((problem.kernels.dense() + 0.01 * np.eye(20)).astype(np.float32), problem.y, 0.09)
    double = EvidenceProblem(single.kernels.dense().astype(np.float64), problem.y, 0.09)
    one, other = (MarginalLikelihood(p, some_weights(p)) for p in (single, double))
    assert one.value == pytest.approx(other.value, rel=1e-13)
    np.testing.assert_allclose(one.gradient, other.gradient, rtol=1e-12)
    np.testing.assert_allclose(one.hessian(), other.hessian(), rtol=1e-11)
