"""Errata of Kowalski, Szafranski and Ralaivola, multiple indefinite kernel learning with mixed norms (2009)."""

from __future__ import annotations

from math import comb

import cvxpy as cp
import numpy as np
import pytest
from conic import optimum

from mklref.synthesis.generalization import rademacher_complexity


def mean_of_absolute_sum(count: int) -> float:
    """E |sigma_1 + ... + sigma_count| for random signs."""
    return sum(comb(count, k) * abs(2 * k - count) for k in range(count + 1)) / 2**count


def soft(u: np.ndarray, threshold: float) -> np.ndarray:
    return np.sign(u) * np.maximum(np.abs(u) - threshold, 0.0)


def squared_hinge(K: np.ndarray, alpha: np.ndarray) -> float:
    """||(1 - K_y alpha)_+||^2, the loss of (2)."""
    return float(np.sum(np.maximum(1.0 - K @ alpha, 0.0) ** 2))


def test_K1_stacked_matrix_of_nonsymmetric_kernels(rng):
    """f(x_j) = sum_i alpha_i k(x_i, x_j): column j of the stack of K_t, without a transposition."""
    points, form, alpha = rng.normal(size=(6, 3)), rng.normal(size=(3, 3)), rng.normal(size=6)
    K = np.array([[x @ form @ z for z in points] for x in points])  # K_ij = k(x_i, x_j)
    values = np.array([sum(a * (x @ form @ z) for a, x in zip(alpha, points, strict=True)) for z in points])
    np.testing.assert_allclose(K.T @ alpha, values)
    printed = K @ alpha  # columns of [K]' evaluate k(x_i, .) in the wrong argument
    assert np.abs(printed - values).max() > np.abs(values).max() / 2


@pytest.mark.parametrize(("p", "q"), [(1, 1), (1, 2), (2, 1), (2, 2)])
def test_K2_proposition_1_is_an_equality_with_the_radius_kappa(p, q, rng):
    """sup a'z over ||a||_{pq} <= kappa is kappa times the dual norm of z; with kappa/n it is n times too small."""
    kappa, z = 1.7, rng.normal(size=(4, 5))
    a = cp.Variable(z.shape)
    program = cp.Problem(cp.Maximize(cp.sum(cp.multiply(z, a))), [cp.norm(cp.norm(a, p, axis=1), q) <= kappa])
    best = optimum(program, rel=1e-6)
    dual = {1: np.inf, 2: 2}
    norm = np.linalg.norm(np.linalg.norm(z, dual[p], axis=1), dual[q])
    assert kappa * norm == best
    assert program.value > 3 * kappa / 4 * norm


def test_K3_kernels_have_to_be_bounded_in_absolute_value():
    """k = -1 is at most K_inf = 0, but its complexity is positive, and below the bound of |k| <= 1.

    So is that of a kernel that is 0 unless x = x', which two draws of a continuous distribution almost surely are not.
    """
    n = 10
    complexity = mean_of_absolute_sum(2 * n) / (2 * n)
    assert complexity > 0.1
    assert complexity <= np.sqrt(np.log(4 * n) / n)
    on_the_diagonal, error = rademacher_complexity(np.eye(2 * n)[None], p=1, q=1, r=1, draws=2)
    assert (on_the_diagonal, error) == (pytest.approx(1 / (2 * n)), 0.0)


def test_K4_norms_for_which_the_complexity_vanishes():
    """Constant kernel, n = 200: (p', q', r) = (inf, 2, 1) and (2, inf, 2) violate the bound, their mirrors do not.

    K sigma has 2n equal entries s = sum sigma; r = 1 groups them by sample, r = 2 by kernel.
    """
    n = 200
    bound = np.sqrt(np.log(4 * n) / n)
    s, count = mean_of_absolute_sum(2 * n), 2 * n
    within_a_sample = s / count
    over_all_samples = s * np.sqrt(count) / count
    left_hand_side = {
        ("inf", "2", 1): over_all_samples,
        ("2", "inf", 2): over_all_samples,
        ("inf", "2", 2): within_a_sample,
        ("2", "inf", 1): within_a_sample,
    }
    for listed in (("inf", "2", 1), ("2", "inf", 2)):
        assert left_hand_side[listed] > 4 * bound
    for proved in (("inf", "2", 2), ("2", "inf", 1)):
        assert left_hand_side[proved] <= 0.5 * bound


def test_K5_factor_in_the_last_display_of_proposition_2(rng):
    """E sup_i |sum_j k(x_i, x_j) sigma_j| is below 2n K_inf sqrt(ln 4n/n), and far above it without 2n."""
    n = 50
    K = rng.choice([-1.0, 1.0], size=(2 * n, 2 * n))
    signs = rng.choice([-1.0, 1.0], size=(2000, 2 * n))
    supremum = np.abs(signs @ K).max(axis=1).mean()
    printed = np.sqrt(np.log(4 * n) / n)
    assert supremum > 50 * printed
    assert supremum <= 2 * n * printed
    massart = np.sqrt(2 * n) * np.sqrt(2 * np.log(2 * 2 * n))
    assert massart == pytest.approx(2 * n * printed, rel=0.2)


def test_K6_which_part_takes_the_gradient():
    """alpha <- prox of the penalty at a gradient step of the loss stays at the minimiser; the reverse never settles.

    min (a - 0.3)^2/2 + |a| has the minimiser 0, where |a| has no gradient, let alone a Lipschitz one.
    """
    step = 0.5
    assert soft(np.array([0.0 - step * (0.0 - 0.3)]), step)[0] == 0.0
    a, visited = 0.0, []
    for _ in range(200):
        moved = a - step * np.sign(a)
        a = (moved + step * 0.3) / (1 + step)  # prox of the loss
        visited.append(a)
    assert np.ptp(visited[-10:]) > 0.1
    h = 1e-9
    assert (np.sign(h) - np.sign(-h)) / (2 * h) > 1e8


def elitist(u: np.ndarray, lam: float) -> tuple[np.ndarray, np.ndarray]:
    """Proximity operator of lam/2 ||.||_1^2 on one group: corrected, and as printed with ||u||_2 in the denominator."""
    ordered = np.sort(np.abs(u))[::-1]
    count = sum(ordered[k] > lam * np.sum(ordered[: k + 1] - ordered[k]) for k in range(len(u)))
    threshold = lam * ordered[:count].sum() / (1 + lam * count)
    return soft(u, threshold), soft(u, threshold / np.linalg.norm(u))


@pytest.mark.parametrize("lam", [0.3, 1.0, 4.0])
def test_K7_proximity_operator_of_the_norm_12(lam, rng):
    """z - u + lam ||z||_1 d||z||_1 contains 0 for the corrected threshold; the printed one is far above the minimum."""
    u = 2 * rng.normal(size=6)
    ours, printed = elitist(u, lam)
    pull = lam * np.abs(ours).sum()
    inside = ours != 0.0
    np.testing.assert_allclose((ours - u + pull * np.sign(ours))[inside], 0.0, atol=1e-12)
    assert np.all(np.abs(u[~inside]) <= pull)

    def objective(z: np.ndarray) -> float:
        return 0.5 * np.sum((u - z) ** 2) + 0.5 * lam * np.abs(z).sum() ** 2

    assert objective(printed) > 1.02 * objective(ours)
    assert np.abs(printed - ours).max() > 0.1


def test_K8_proximity_operator_of_the_norm_21(rng):
    """The shrinkage of a group uses the norm of that group, not of all of u."""
    u, lam = rng.normal(size=(3, 4)), 0.8
    for norm, right in ((np.linalg.norm(u, axis=1, keepdims=True), True), (np.linalg.norm(u), False)):
        z = u * np.maximum(1 - lam / norm, 0.0)
        lengths = np.linalg.norm(z, axis=1, keepdims=True)
        residual = np.abs(z - u + lam * z / lengths).max()
        assert residual < 1e-12 if right else residual > 0.1


def test_K9_factor_2_of_the_gradient(rng):
    """The squared hinge has the gradient -2 K_y'(.)_+: the printed iteration solves the problem with 2 lambda."""
    K, alpha, lam = rng.normal(size=(8, 5)), 0.1 * rng.normal(size=5), 1.3
    printed = -K.T @ np.maximum(1 - K @ alpha, 0.0)
    for m, unit in enumerate(np.eye(5)):
        slope = (squared_hinge(K, alpha + 1e-6 * unit) - squared_hinge(K, alpha - 1e-6 * unit)) / 2e-6
        assert slope / printed[m] == pytest.approx(2.0, rel=1e-5)

    curvature = np.linalg.norm(K.T @ K, 2)

    def iterate(factor: float) -> np.ndarray:
        a, step = np.zeros(5), 1 / (factor * curvature)
        for _ in range(4_000):
            a = soft(a + step * factor * K.T @ np.maximum(1 - K @ a, 0.0), step * lam)
        return a

    def objective(a: np.ndarray, lam: float) -> float:
        return squared_hinge(K, a) + lam * np.abs(a).sum()

    corrected, as_printed = iterate(2.0), iterate(1.0)
    assert objective(as_printed, lam) > 1.02 * objective(corrected, lam)
    doubled = cp.Variable(5)
    program = cp.Problem(cp.Minimize(cp.sum_squares(cp.pos(1 - K @ doubled)) + 2 * lam * cp.norm1(doubled)))
    assert objective(as_printed, 2 * lam) == optimum(program, rel=1e-6)
