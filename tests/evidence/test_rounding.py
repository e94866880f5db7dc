"""(14) in float64 against exact rational arithmetic, and what the methods do where rounding takes over."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from mklref.evidence import METHODS, EvidenceProblem, EvidenceStatus, MarginalLikelihood, simulate, solve
from mklref.evidence.iterations import newton


def exact_objective(problem: EvidenceProblem, weights: np.ndarray, noise: float) -> float:
    """phi by Kbar = L D L' in rational numbers: 1/2 sum log D_ii + 1/2 sum (L^{-1} y)_i^2/D_ii."""
    n = problem.n_samples
    theta = [Fraction(float(weight)) for weight in weights]
    matrices = [[[Fraction(float(entry)) for entry in row] for row in matrix] for matrix in problem.kernels.matrices]
    rows = [
        [sum((t * K[i][j] for t, K in zip(theta, matrices, strict=True)), Fraction(0)) for j in range(n)]
        for i in range(n)
    ]
    half = [Fraction(float(value)) for value in problem.y]
    for i in range(n):
        rows[i][i] += Fraction(noise)
    log_determinant, fit = 0.0, Fraction(0)
    for k in range(n):
        pivot = rows[k][k]
        log_determinant += math.log(pivot)
        fit += half[k] ** 2 / pivot
        for i in range(k + 1, n):
            ratio = rows[i][k] / pivot
            half[i] -= ratio * half[k]
            for j in range(k + 1, n):
                rows[i][j] -= ratio * rows[k][j]
    return 0.5 * log_determinant + 0.5 * float(fit)


def low_rank_model(seed: int, dtype: type = np.float32, n: int | None = None, least: float = -8) -> EvidenceProblem:
    """Kernels of rank up to 3 and of any scale, stored in this precision, with little noise beside them."""
    rng = np.random.default_rng(seed)
    order = int(rng.integers(3, 30)) if n is None else n
    kernels = []
    for _ in range(rng.integers(1, 4)):
        root = rng.normal(size=(order, rng.integers(1, 4))) * 10 ** rng.uniform(-2, 3)
        gram = (root @ root.T).astype(dtype)
        kernels.append((gram + gram.T) / 2)
    y = rng.normal(size=order) * 10 ** rng.uniform(-1, 1)
    return EvidenceProblem(kernels, y, 10 ** rng.uniform(least, 0), learn_noise=bool(rng.integers(2)))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_bound_of_the_rounding_error_holds_and_is_not_idle(dtype):
    known, visible = 0, 0
    for seed in range(60):
        problem = low_rank_model(seed, dtype, n=6, least=-14)
        try:
            point = MarginalLikelihood(problem, problem.default_weights())
        except ValueError:  # singular in float64, and said so
            continue
        error = abs(point.value - exact_objective(problem, point.weights, point.noise_variance))
        assert error <= point.rounding, seed
        known += np.isfinite(point.rounding)
        visible += error > 1e-7 * (1.0 + abs(point.value))
    assert known > 40
    assert visible > 0


def test_the_bound_is_tight_on_a_well_conditioned_covariance():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 2))
    kernels = [np.exp(-((X[:, None, j] - X[None, :, j]) ** 2)) for j in range(2)]
    _, y = simulate(kernels, [1.0, 2.0], 0.1, rng)
    point = MarginalLikelihood(EvidenceProblem(kernels, y, 0.1), [1.0, 2.0])
    assert 1e-15 < point.rounding / (1.0 + abs(point.value)) < 1e-9


@pytest.mark.parametrize("method", METHODS)
def test_no_method_increases_the_objective_on_float32_kernels_of_low_rank(method):
    """Their eigenvalues of -1e-7 are as large as the noise, and MacKay's and Wipf's updates need semidefinite ones."""
    stationary = 0
    for seed in range(10 if method == "reweighted" else 40):
        solution = solve(low_rank_model(seed, least=-6), method, max_iter=25)
        objectives = np.array([record.objective for record in solution.history])
        assert np.all(np.diff(objectives) <= 1e-9 * (1.0 + np.abs(objectives[:-1]))), seed
        stationary += solution.status is EvidenceStatus.STATIONARY
    assert stationary > 5


def test_kernels_that_float32_made_indefinite_become_the_nearest_semidefinite_ones():
    problem = low_rank_model(3)
    rng = np.random.default_rng(3)
    root = rng.normal(size=(20, 2)) * 30.0
    single = (root @ root.T).astype(np.float32)
    single = (single + single.T) / 2
    whole = np.eye(20, dtype=np.float32)
    assert np.linalg.eigvalsh(single.astype(float))[0] < -1e-5
    problem = EvidenceProblem([single, whole], np.ones(20), 0.1)
    nearest, kept = problem.kernels.matrices
    values, vectors = np.linalg.eigh(single.astype(float))
    np.testing.assert_allclose(nearest, (vectors * np.maximum(values, 0.0)) @ vectors.T, atol=1e-12 * values[-1])
    np.testing.assert_array_equal(kept, whole)
    assert nearest.dtype == kept.dtype == np.float64
    assert np.linalg.eigvalsh(nearest)[0] > -1e-11
    np.testing.assert_array_equal(nearest, nearest.T)


def test_definite_float32_kernels_are_not_copied():
    whole = np.stack([np.eye(9, dtype=np.float32) * 2.0])
    assert np.shares_memory(EvidenceProblem(whole, np.ones(9), 0.1).kernels.dense(), whole)


def test_newton_where_every_weight_goes_to_its_bound():
    """No variable is free, so that no Hessian is left."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(6, 2))
    problem = EvidenceProblem([X @ X.T, np.eye(6)], 1e-3 * rng.normal(size=6), 1.0)
    following = newton(MarginalLikelihood(problem, np.full(2, 1e-6)))
    np.testing.assert_array_equal(following.weights, np.zeros(2))
    assert solve(problem, "newton", start=np.full(2, 1e-4)).status is EvidenceStatus.STATIONARY
