"""Identities of the papers that no other test checks by themselves."""

from __future__ import annotations

import numpy as np
import pytest
from makers import make_problem
from scipy.optimize import minimize_scalar

from mklref import reference
from mklref.losses import EpsilonInsensitive
from mklref.regularizers import Fixed, Lp, Mahalanobis, Regularizer

D = np.array([0.5, 0.2, 0.3])


def test_norm_of_the_sum_space():
    """min of sum ||f_m||^2/d_m over f_1 + ... + f_M = f is f'(sum d_m K_m)^{-1} f on the samples (Tomioka (1))."""
    problem = make_problem(M=3, n=8)
    K = problem.kernels.dense()
    f = np.random.default_rng(0).normal(size=8)
    coefficients = np.linalg.solve(problem.kernels.combine(D), f)
    rho = D * problem.kernels.norms(coefficients)
    np.testing.assert_allclose(np.einsum("m,mij,j->i", D, K, coefficients), f)
    assert 2 * Fixed(D).value(rho) == pytest.approx(f @ coefficients)
    move = np.random.default_rng(1).normal(size=(3, 8))  # any other decomposition of f costs more
    move -= move.mean(axis=0)
    parts = D[:, None] * (K @ coefficients) + 0.1 * move
    norms = [np.sqrt(part @ np.linalg.solve(gram, part)) for part, gram in zip(parts, K, strict=True)]
    assert Fixed(D).value(np.array(norms)) > Fixed(D).value(rho)


def test_cost_on_the_regulariser():
    """sum of losses + C_TS R has the solution of C = 1/C_TS, and C_TS times its value (Tomioka (2), (3), (6), (9))."""
    C_TS = 2.5
    problem = make_problem(loss="squared", C=1 / C_TS, intercept=False, n=15, regularizer=Fixed([0.5, 0.2, 0.3, 0.1]))
    solution = reference.solve(problem)
    K = problem.kernels.combine(problem.regularizer.weights)
    a = np.linalg.solve(K + C_TS * np.eye(15), problem.y)  # argmin of 1/2 ||y - K a||^2 + C_TS/2 a'K a
    np.testing.assert_allclose(solution.decision_function(problem.kernels.dense()), K @ a, rtol=1e-6)
    value = 0.5 * np.sum((problem.y - K @ a) ** 2) + 0.5 * C_TS * a @ K @ a
    assert C_TS * solution.objective == pytest.approx(value)


def test_weighted_feature_maps():
    """The features sqrt(theta_m) psi_m, side by side, have the weighted sum of the kernels (Kloft (2))."""
    kernels = make_problem(M=3, n=8).kernels
    roots = [np.linalg.cholesky(K + 1e-12 * np.eye(8)) for K in kernels.dense()]
    features = np.hstack([np.sqrt(weight) * root for weight, root in zip(D, roots, strict=True)])
    np.testing.assert_allclose(features @ features.T, kernels.combine(D), atol=1e-10)


@pytest.mark.parametrize("p", [1.0, 1.5, 4.0, np.inf])
def test_the_constraint_on_the_weights_is_tight(p):
    """Weights inside the ball can be enlarged, at less cost, until ||theta||_p = 1 (Kloft (5), (6))."""
    rho = np.array([0.4, 1.2, 0.8])
    theta = Lp(p).weights_from_norms(rho)
    assert np.linalg.norm(theta, p) == pytest.approx(1.0)
    for shrink in (0.99, 0.5):
        assert np.sum(rho**2 / (shrink * theta)) > np.sum(rho**2 / theta)


@pytest.mark.parametrize("ball", [Lp(1), Lp(1.5), Lp(4), Lp(np.inf), Mahalanobis(np.diag([1.0, 0.5, 2.0]))], ids=str)
def test_multiplier_of_the_norm_constraint(ball: Regularizer):
    """max over beta of -||q/2||_*^2/(2 beta) - beta/2 is -||q/2||_*, at beta = ||q/2||_* (Kloft (10), (11))."""
    g = np.array([0.7, 1.1, 0.4])
    half = ball.conjugate(g)
    best = minimize_scalar(lambda beta: half**2 / (2 * beta) + beta / 2, bounds=(1e-3, 10), method="bounded")
    assert best.x == pytest.approx(half, rel=1e-3)
    assert best.fun == pytest.approx(half, rel=1e-6)
    theta = np.random.default_rng(0).dirichlet(np.ones(3), size=5000) * 3
    inside = [weights for weights in theta if ball.weight_penalty(weights) == 0.0]
    assert max([0.5 * weights @ g**2 for weights in inside], default=0.0) <= half * (1 + 1e-12)


@pytest.mark.parametrize("loss", ["hinge", EpsilonInsensitive(0.2), "one_class", "squared", "logistic"], ids=str)
def test_gradient_of_the_value_in_the_weights(loss):
    """dJ/dd_m = -1/2 beta'K_m beta for J(d), the value at fixed weights (SimpleMKL (9)-(13), (20), (21))."""
    problem = make_problem(loss=loss, M=3, n=15)

    def value(d: np.ndarray, formulation: str = "dual") -> tuple[float, np.ndarray]:
        solution = reference.solve(problem.replace(regularizer=Fixed(d)), formulation, tol=1e-9)
        return solution.objective, solution.dual_coef

    primal, beta = value(D, "mixed_norm")
    assert value(D)[0] == pytest.approx(primal, rel=1e-7)
    gradient = -0.5 * problem.kernels.quadratic(beta)
    for m, unit in enumerate(np.eye(3)):
        slope = (value(D + 1e-4 * unit)[0] - value(D - 1e-4 * unit)[0]) / 2e-4
        assert gradient[m] == pytest.approx(slope, rel=1e-3)
