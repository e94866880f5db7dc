"""Posterior mean and variance: by definition, against scikit-learn, and in their limits."""

from __future__ import annotations

import numpy as np
import pytest
from evidence.models import make_model
from makers import make_samples
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

from mklref.evidence import EvidenceProblem, solve
from mklref.exceptions import InvalidInput, InvalidType
from mklref.kernels import center, gaussian, linear, normalize, polynomial


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


def test_by_definition(regression):
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


def test_center_and_normalize_agree_with_the_family(rng):
    X, X_new = rng.normal(size=(12, 3)), rng.normal(size=(4, 3))
    stack = gaussian([0.7, 2.0]).fit(X, normalize="spherical", center=True)
    both = gaussian([0.7, 2.0]).fit(np.vstack([X, X_new])).dense()
    K, rows = both[:, :12, :12], both[:, 12:, :12]
    centred, centred_rows = center(K, rows)
    means = K.mean(axis=(1, 2))
    own = both[:, 12:, 12:].diagonal(axis1=1, axis2=2) - 2 * rows.mean(axis=2) + means[:, None]
    _, expected = normalize(centred, "spherical", centred_rows, own)
    np.testing.assert_allclose(stack.new(X_new), expected)
    np.testing.assert_allclose(stack.diagonals(X_new), 1.0)


@pytest.mark.parametrize(
    ("spoil", "error", "says"),
    [
        (lambda K, d: (K[:2], d), InvalidInput, "kernels_new holds 2 kernels, the solution has 3 weights"),
        (lambda K, d: (K[:, :, 1:], d), InvalidInput, r"kernels_new\[0\] has shape \(7, 29\); expected \(k, 30\)"),
        (lambda K, d: (np.full_like(K, np.nan), d), InvalidInput, r"kernels_new\[0\]\[0, 0\] is nan"),
        (lambda K, d: (K + 0j, d), InvalidType, "complex"),
        (lambda K, d: (K, d[:, 1:]), InvalidInput, r"diagonals has shape \(3, 6\); expected \(3, 7\)"),
        (lambda K, d: (K, d[0]), InvalidInput, r"diagonals has shape \(7,\); expected \(3, 7\)"),
        (lambda K, d: (K, -d), InvalidInput, r"diagonals\[0, 0\] = -1 is negative"),
        (lambda K, d: (K, np.inf * d), InvalidInput, r"diagonals\[0, 0\] is inf"),
    ],
)
def test_bad_input(regression, spoil, error, says):
    *_, solution, _, new = regression
    with pytest.raises(error, match=says):
        solution.posterior(*spoil(new, np.ones((3, 7))))
