"""Seeded models of empirical Bayes, and the marginal likelihood as the paper writes it."""

from __future__ import annotations

import flint
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


def rational(matrix: np.ndarray) -> flint.fmpq_mat:
    entries = [flint.fmpq(*float(x).as_integer_ratio()) for x in matrix.flat]
    return flint.fmpq_mat(*matrix.shape, entries)


def exact_covariance(problem: EvidenceProblem, weights: np.ndarray, noise: float) -> flint.fmpq_mat:
    """Kbar in rational numbers."""
    total = rational(noise * np.eye(problem.n_samples))
    for weight, K in zip(weights.tolist(), problem.kernels.matrices, strict=True):
        total += rational(K) * flint.fmpq(*weight.as_integer_ratio())
    return total


def exact_objective(problem: EvidenceProblem, weights: np.ndarray, noise: float) -> float:
    """1/2 log |Kbar| + 1/2 y'Kbar^{-1} y in rational numbers, and the logarithm in 200 bits."""
    total, y = exact_covariance(problem, weights, noise), rational(problem.y[:, None])
    with flint.ctx.workprec(200):
        return 0.5 * float(flint.arb(total.det()).log() + flint.arb((y.transpose() * total.solve(y))[0, 0]))


def exact_gradient(problem: EvidenceProblem, weights: np.ndarray, noise: float) -> list[float]:
    """1/2 (tr(X K_m) - (X y)'K_m (X y)), X = Kbar^{-1}, in rational numbers."""
    X, n = exact_covariance(problem, weights, noise).inv(), problem.n_samples
    alpha, slopes = X * rational(problem.y[:, None]), []
    for matrix in (*problem.kernels.matrices, *([np.eye(n)] if problem.learn_noise else [])):
        K = rational(matrix)
        product = X * K
        trace = sum((product[i, i] for i in range(n)), flint.fmpq(0))
        with flint.ctx.workprec(200):
            slopes.append(0.5 * float(flint.arb(trace - (alpha.transpose() * K * alpha)[0, 0])))
    return slopes


def some_weights(problem: EvidenceProblem, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).exponential(size=problem.n_kernels)
