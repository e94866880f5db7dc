"""(14): value, gradient and Hessian against their definitions, finite differences and scikit-learn.

Posterior mean and variance: by definition, against scikit-learn, and in their limits.
Single steps of the methods: against their definitions in the paper, and never upwards.
"""

from __future__ import annotations

from functools import partial

import cvxpy as cp
import numpy as np
import pytest
from conic import optimum
from evidence.models import make_model, objective_by_definition, some_weights
from makers import make_samples
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

from mklref.evidence import EvidenceProblem, MarginalLikelihood, solve
from mklref.evidence.iterations import Reweighted, fixed_point
from mklref.evidence.newton import newton_step, saddle_step
from mklref.exceptions import InvalidInput
from mklref.kernels import gaussian, linear, polynomial

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


@pytest.fixture(scope="module")
def regression():
    """Kernels as functions, a solved problem, and new samples."""
    rng = np.random.default_rng(0)
    X, X_new = make_samples(rng, 30), make_samples(rng, 7)
    y = np.sin(2 * X[:, 0]) + 0.3 * rng.normal(size=30)
    kernels = RBF(0.5), RBF(1.5), RBF(4.0)
    solution = solve(EvidenceProblem([kernel(X) for kernel in kernels], y, 0.1))
    new = np.array([kernel(X_new, X) for kernel in kernels])
    return X, y, kernels, solution, X_new, new


def test_posterior_mean_and_variance_are_those_of_the_definition(regression):
    X, y, kernels, solution, X_new, new = regression
    joint = sum(w * kernel(np.vstack([X, X_new])) for w, kernel in zip(solution.weights, kernels, strict=True))
    inverse = np.linalg.inv(joint[:30, :30] + 0.1 * np.eye(30))
    expected = joint[30:, 30:] - joint[30:, :30] @ inverse @ joint[:30, 30:]
    mean, variance = solution.posterior(new, np.ones((3, 7)))
    np.testing.assert_allclose(mean, joint[30:, :30] @ inverse @ y, rtol=1e-9)
    np.testing.assert_allclose(variance, np.diag(expected), rtol=1e-8)
    np.testing.assert_allclose(solution.decision_function(new), mean)
    np.testing.assert_allclose(solution.decision_function(list(new)), mean)
    observed = solution.posterior(new, np.ones((3, 7)), observation=True)
    np.testing.assert_allclose(observed.variance, variance + 0.1)


def test_scikit_learn_with_the_same_weights(regression):
    X, y, _, solution, X_new, new = regression
    kernel = WhiteKernel(0.1)
    for weight, width in zip(solution.weights, (0.5, 1.5, 4.0), strict=True):
        if weight > 0.0:
            kernel = kernel + ConstantKernel(weight) * RBF(width)
    model = GaussianProcessRegressor(kernel, alpha=0.0, optimizer=None).fit(X, y)
    mean, deviation = model.predict(X_new, return_std=True)
    ours = solution.posterior(new, np.ones((3, 7)), observation=True)
    np.testing.assert_allclose(ours.mean, mean, rtol=1e-8)
    np.testing.assert_allclose(np.sqrt(ours.variance), deviation, rtol=1e-8)
    assert solution.log_evidence == pytest.approx(model.log_marginal_likelihood_value_, rel=1e-9)


def test_far_away_the_posterior_is_the_prior(regression):
    *_, solution, _, new = regression
    mean, variance = solution.posterior(np.zeros_like(new), np.ones((3, 7)))
    np.testing.assert_array_equal(mean, 0.0)
    np.testing.assert_allclose(variance, solution.weights.sum())


def test_at_training_samples_the_variance_is_below_the_noise():
    problem = make_model()
    solution = solve(problem)
    K = problem.kernels.dense()
    variance = solution.posterior(problem.kernels, K.diagonal(axis1=1, axis2=2)).variance
    assert np.all(variance > 0.0)
    assert np.all(variance < problem.noise_variance)


@pytest.mark.parametrize("centred", [False, True])
@pytest.mark.parametrize("method", [None, "trace", "multiplicative", "spherical"])
def test_diagonals_of_a_family_fit_its_new_kernels(method, centred, rng):
    """k(x, x) of a new sample is that of a training sample at the same place."""
    X = rng.normal(size=(12, 3))
    stack = (linear() + polynomial(2) + gaussian(0.7)).fit(X, normalize=method, center=centred)
    diagonals = stack.diagonals(X[:5])
    np.testing.assert_allclose(diagonals, stack.dense().diagonal(axis1=1, axis2=2)[:, :5], rtol=1e-9)
    if not centred:
        own = (linear() + polynomial(2) + gaussian(0.7)).fit(np.vstack([X, [[9.0, 1.0, -3.0]]])).dense()
        raw = own[:, 12, 12]
        new = stack.diagonals([[9.0, 1.0, -3.0]])[:, 0]
        factor = {"spherical": 1.0 / raw}.get(method, stack.dense()[:, 0, 0] / own[:, 0, 0])
        np.testing.assert_allclose(new, raw * factor)


@pytest.mark.parametrize(
    ("spoil", "error", "says"),
    [
        (lambda K, d: (K[:2], d), InvalidInput, "kernels_new holds 2 kernels, the solution has 3 weights"),
        (lambda K, d: (K[:, :, 1:], d), InvalidInput, r"kernels_new\[0\] has shape \(7, 29\); expected \(k, 30\)"),
        (lambda K, d: (K, d[:, 1:]), InvalidInput, r"diagonals has shape \(3, 6\); expected \(3, 7\)"),
        (lambda K, d: (K, d[0]), InvalidInput, r"diagonals has shape \(7,\); expected \(3, 7\)"),
        (lambda K, d: (K, -d), InvalidInput, r"diagonals\[0, 0\] = -1 is negative"),
    ],
)
def test_new_kernels_and_diagonals_that_do_not_fit_are_refused(regression, spoil, error, says):
    *_, solution, _, new = regression
    with pytest.raises(error, match=says):
        solution.posterior(*spoil(new, np.ones((3, 7))))


def test_effective_parameters():
    """theta_m tr(Kbar^{-1} K_m) sum to n - s tr Kbar^{-1}."""
    problem = make_model()
    solution = solve(problem)
    inverse = np.linalg.inv(problem.covariance(solution.weights, 0.09))
    assert solution.effective_parameters.sum() == pytest.approx(20 - 0.09 * np.trace(inverse))


def posterior_means(problem: EvidenceProblem, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """argmin of (15) over the f_m, their norms and Kbar, with inverses as in the paper."""
    K = problem.kernels.dense()
    covariance = problem.noise_variance * np.eye(problem.n_samples) + np.einsum("m,mij->ij", weights, K)
    f = weights[:, None] * (K @ np.linalg.solve(covariance, problem.y))
    norms = np.array([np.sqrt(f[m] @ np.linalg.pinv(K[m], rcond=1e-12) @ f[m]) for m in range(len(K))])
    return f, norms, covariance


@pytest.mark.parametrize(
    ("exponent", "expected"), [(1.0, lambda norms, d, z: norms**2 / (d * z)), (0.5, lambda norms, d, z: norms / z**0.5)]
)
def test_mackay_as_printed_and_wipf_and_nagarajan_as_quoted(exponent, expected):
    """d_m <- ||f_m||^2 / Tr(Kbar^{-1} d_m K_m); d_m <- ||f_m|| / sqrt(z_m), the minimiser of the bound at these f."""
    problem = make_model(degenerate="low_rank")
    weights = some_weights(problem)
    _, norms, covariance = posterior_means(problem, weights)
    z = np.array([np.trace(np.linalg.solve(covariance, K)) for K in problem.kernels.dense()])
    step = fixed_point(MarginalLikelihood(problem, weights), exponent)
    np.testing.assert_allclose(step.weights, expected(norms, weights, z), rtol=1e-8)


@pytest.mark.parametrize("polished", [False, True])
def test_reweighted_step_against_cvxpy(polished, monkeypatch):
    """argmin of 1/(2s) |y - sum f|^2 + sum sqrt(z_m) ||f_m||, then d_m = ||f_m||/sqrt(z_m): erratum T8."""
    problem = make_model(seed=1, n=15)
    point = MarginalLikelihood(problem, some_weights(problem))
    roots = []
    for K in problem.kernels.dense():
        values, vectors = np.linalg.eigh(K)
        roots.append(vectors[:, values > 1e-10] * np.sqrt(values[values > 1e-10]))
    parts = [cp.Variable(root.shape[1]) for root in roots]
    fit = cp.sum_squares(problem.y - sum(root @ v for root, v in zip(roots, parts, strict=True)))
    penalty = sum(np.sqrt(z) * cp.norm(v, 2) for z, v in zip(point.traces, parts, strict=True))
    inner = cp.Problem(cp.Minimize(fit / (2 * problem.noise_variance) + penalty))
    smallest = optimum(inner, rel=1e-7)
    expected = [np.linalg.norm(v.value) / np.sqrt(z) for z, v in zip(point.traces, parts, strict=True)]
    if polished:
        monkeypatch.setattr("mklref.evidence.iterations._MOST_INNER", 1)
    method = Reweighted(problem)
    following = method.step(point)
    assert method.inner.solver == ("native, polished" if polished else "native")
    gap = abs(method.inner.certificate.relative_gap)
    assert gap < (1e-10 if polished else 1e-6)
    np.testing.assert_allclose(following.weights, expected, rtol=1e-4 + 2.0 * np.sqrt(gap), atol=1e-5)
    assert method.inner.objective == smallest
    assert method.inner.certificate.relative_gap <= 1e-6
    assert following.value < point.value


def test_reweighted_step_of_the_noise():
    """s <- |y - f| / sqrt(tr Kbar^{-1}) minimises the bound in s at these functions; then it is not below the floor."""
    problem = make_model(learn_noise=True)
    point = MarginalLikelihood(problem, some_weights(problem), 0.4)
    method = Reweighted(problem)
    following = method.step(point)
    residual = np.linalg.norm(problem.y - method.inner.decision_function(problem.kernels))
    z = np.trace(np.linalg.inv(problem.covariance(point.weights, 0.4)))
    assert following.noise_variance == pytest.approx(residual / np.sqrt(z))
    s = following.noise_variance * np.array([1.0, 0.9, 1.1])
    assert np.argmin(residual**2 / s + z * s) == 0
    high = EvidenceProblem(problem.kernels, problem.y, 5.0, learn_noise=True, noise_floor=4.9)
    assert Reweighted(high).step(MarginalLikelihood(high, some_weights(high))).noise_variance == 4.9


def tiny_model(seed: int) -> MarginalLikelihood:
    """One to three kernels of random rank and scale on two to six samples, and weights."""
    rng = np.random.default_rng(seed)
    n, M = rng.integers(2, 7), rng.integers(1, 4)
    roots = [rng.normal(size=(n, rng.integers(1, n + 1))) * 10 ** rng.uniform(-2, 2, size=(n, 1)) for _ in range(M)]
    kernels = [0.5 * (root @ root.T + (root @ root.T).T) for root in roots]
    y = rng.normal(size=n) * 10 ** rng.uniform(-1, 2)
    problem = EvidenceProblem(kernels, y, 10 ** rng.uniform(-3, 1), learn_noise=True)
    return MarginalLikelihood(problem, 10 ** rng.uniform(-3, 2, size=M))


@pytest.fixture(scope="module")
def tiny_models():
    return [tiny_model(seed) for seed in range(150)]


@pytest.mark.parametrize("step", [*(partial(fixed_point, exponent=power) for power in (0.3, 0.5, 1.0)), newton_step])
def test_no_step_increases_the_objective(step, tiny_models):
    """(14), by more than rounding."""
    for seed, point in enumerate(tiny_models):
        following = step(point)
        assert following is None or following.value <= point.value + 1e-7 * (1.0 + abs(point.value)), seed


def test_zero_is_absorbing_for_the_fixed_points_only():
    problem = make_model()
    point = MarginalLikelihood(problem, [0.0, 0.5, 0.5])
    assert point.gradient[0] < 0.0
    for exponent in (0.5, 1.0):
        assert fixed_point(point, exponent).weights[0] == 0.0
    assert newton_step(point).weights[0] > 0.0
    assert Reweighted(problem).step(point).weights[0] > 0.0


class Saddle:
    """(x - 1)^2 - (y - 1)^2 + (y - 1)^4 on x, y >= 0: a saddle at (1, 1), minima at y = 1 +- sqrt(1/2)."""

    units, lower = np.array([0.5, 1.0]), np.zeros(2)

    def __init__(self, x: np.ndarray, moved=None) -> None:
        self.x, self.moved = x, moved or Saddle
        u, v = x - 1.0
        self.value = float(u**2 - v**2 + v**4)
        self.gradient = np.array([2 * u, -2 * v + 4 * v**3])

    def hessian(self, index: np.ndarray, units: np.ndarray) -> np.ndarray:
        return np.diag([2.0, -2.0 + 12 * (self.x[1] - 1.0) ** 2])[np.ix_(index, index)] / np.outer(units, units)


def test_newton_leaves_a_saddle():
    """With the plain Hessian the step from (1.5, 1.01) leads to the saddle; with the moduli away from it."""
    point = Saddle(np.array([1.5, 1.01]))
    for _ in range(30):
        following = newton_step(point)
        if following is None or np.abs(following.gradient).max() < 1e-10:
            break
        assert following.value < point.value
        point = following
    np.testing.assert_allclose(following.x, [1.0, 1.0 + np.sqrt(0.5)], rtol=1e-9, atol=1e-9)


def test_a_step_from_a_saddle_is_the_first_of_halved_ones_that_lowers_enough_or_none():
    """Either way, up to the bound, and until the curvature would not show in the value."""
    seen = []

    def level(x):
        seen.append(x.tolist())
        trial = Saddle(x)
        trial.value = 0.5e-4 * -2.0 * float((x - 1.0) @ (x - 1.0))  # half of what is asked for
        return trial if len(seen) < 99 else None

    found = saddle_step(Saddle(np.ones(2)), -2.0, np.array([0.0, 1.0]))
    assert found.x.tolist() == [1.0, 1.5]
    assert saddle_step(Saddle(np.ones(2), level), -2.0, np.array([0.0, 1.0])) is None
    visible = [t for t in 2.0 * 0.5 ** np.arange(60) if 2.0 * t**2 > 8.0 * np.finfo(float).eps]
    assert seen == [[1.0, end] for t in visible for end in (1.0 + t, max(1.0 - t, 0.0))]


def test_newton_converges_quadratically():
    problem = make_model(M=3, seed=2)
    point, residuals = MarginalLikelihood(problem, problem.default_weights()), []
    while point is not None and len(residuals) < 20:
        inside = point.weights > 0.0
        residuals.append(np.abs(point.gradient[inside] / point.traces[inside]).max())
        point = newton_step(point) if residuals[-1] > 1e-12 else None
    assert len(residuals) < 15
    last = [r for r in residuals if r > 1e-14][-3:]
    assert last[2] < last[1] ** 1.5 < last[0] ** 2
