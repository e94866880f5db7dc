"""Seeded models of empirical Bayes, and the marginal likelihood as the paper writes it."""

from __future__ import annotations

import numpy as np
from makers import make_kernels, make_samples

from mklref.evidence import EvidenceProblem, simulate

TRUE = (1.0, 0.0, 0.5, 0.0, 0.2)


def make_model(
    *, seed: int = 0, n: int = 20, M: int = 3, noise: float = 0.09, degenerate: str = "generic", **arguments
) -> EvidenceProblem:
    """Targets drawn from the generative model with the weights TRUE."""
    rng = np.random.default_rng(seed)
    kernels = make_kernels(rng, make_samples(rng, n), M, degenerate)
    _, y = simulate(kernels, np.array(TRUE[:M]), noise, rng)
    return EvidenceProblem(kernels, y, noise, **arguments)


def objective_by_definition(problem: EvidenceProblem, weights: np.ndarray, noise: float) -> float:
    """1/2 log |Kbar| + 1/2 y'Kbar^{-1} y, without a factorisation of our own."""
    n = problem.n_samples
    covariance = noise * np.eye(n)
    for weight, kernel in zip(weights, problem.kernels.dense(), strict=True):
        covariance = covariance + weight * kernel
    return 0.5 * np.linalg.slogdet(covariance)[1] + 0.5 * problem.y @ np.linalg.inv(covariance) @ problem.y


def gradient_by_definition(problem: EvidenceProblem, weights: np.ndarray, noise: float) -> np.ndarray:
    """d/dtheta_m = 1/2 tr(Kbar^{-1} K_m) - 1/2 alpha'K_m alpha with alpha = Kbar^{-1} y; for the noise K_m = I."""
    eye = np.eye(problem.n_samples)
    kernels = problem.kernels.dense()
    inverse = np.linalg.inv(noise * eye + np.tensordot(weights, kernels, 1))
    alpha = inverse @ problem.y
    slopes = [0.5 * np.sum(inverse * K) - 0.5 * alpha @ K @ alpha for K in (*kernels, eye)]
    return np.array(slopes if problem.learn_noise else slopes[:-1])


def some_weights(problem: EvidenceProblem, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).exponential(size=problem.n_kernels)
