"""Errata of Szafranski, Grandvalet and Rakotomamonjy, groups of kernels (2008)."""

from __future__ import annotations

import numpy as np
import pytest

from mklref.exceptions import InvalidParameter
from mklref.regularizers import Groups

GROUPS = ((0, 1, 2), (3,), (4, 5))
SIZES = np.array([3.0, 1.0, 2.0])
OWNER = np.array([0, 0, 0, 1, 2, 2])
RHO = np.array([0.9, 1.3, 0.6, 1.1, 0.7, 1.6])


def cap(rho: np.ndarray, p: float, q: float, groups: tuple[tuple[int, ...], ...] = GROUPS) -> float:
    """The penalty of (9) by its formula, for any exponents."""
    gamma, gamma0, gamma_star = 2 / (q + 1), 2 / (p + q + 1), p / (p + q + 1)
    parts = [len(group) ** gamma_star * np.sum(rho[list(group)] ** gamma) ** (gamma0 / gamma) for group in groups]
    return 0.5 * float(sum(parts)) ** (2 / gamma0)


def weighted(rho: np.ndarray, sigma1: np.ndarray, sigma2: np.ndarray, p: float, q: float) -> float:
    """The penalty of (8)."""
    return 0.5 * float(np.sum(sigma1[OWNER] ** -p * sigma2**-q * rho**2))


def test_S1_both_kinds_of_weights_have_to_be_nonnegative():
    """(6) lists sigma2 >= 0 only: a point that meets all printed constraints has no penalty at all."""
    sigma1, sigma2 = np.array([0.3, -0.5, 0.3]), np.full(6, 1 / 6)
    assert SIZES @ sigma1 == pytest.approx(1.0)
    with np.errstate(invalid="ignore"):
        assert np.isnan(np.sum(RHO**2 / np.sqrt(sigma1[OWNER] * sigma2)))
    reduced = np.sum(SIZES**0.25 * np.bincount(OWNER, RHO ** (4 / 3)) ** 0.75) ** 2
    assert 2 * Groups(GROUPS, 0.5, 0.5).value(RHO) == pytest.approx(reduced)
    assert 2 * weighted(RHO, *Groups(GROUPS, 0.5, 0.5).shares(RHO), 0.5, 0.5) == pytest.approx(reduced)


def test_S2_prop_1_needs_nonnegative_exponents():
    """At p = 1/2, q = -1/2 the infimum of (8) is far below the formula (9), and so it is for l(1, 2), p = -1, q = 1."""
    small = int(np.argmin(np.sqrt(SIZES[OWNER]) * RHO**2))
    sigma1 = np.eye(3)[OWNER[small]] / SIZES + 1e-9
    sigma2 = np.eye(6)[small]
    assert weighted(RHO, sigma1, sigma2, 0.5, -0.5) < 0.1 * cap(RHO, 0.5, -0.5)
    sigma1 = np.array([0.0, 1.0, 0.0]) / SIZES + 1e-9
    sigma2 = np.where(OWNER == 1, 0.995, 0.001)
    assert cap(RHO, -1.0, 1.0) == pytest.approx(0.5 * np.sum(np.bincount(OWNER, RHO) ** 2 / SIZES))  # gamma = 1, 2
    assert weighted(RHO, sigma1, sigma2, -1.0, 1.0) < 0.2 * cap(RHO, -1.0, 1.0)
    for p, q in ((0.5, -0.5), (-1.0, 1.0)):
        with pytest.raises(InvalidParameter, match="negative exponent"):
            Groups(GROUPS, p, q)


@pytest.mark.parametrize(("p", "q", "least"), [(0.6, 0.6, 0.01), (1.0, 1.0, 1.0), (0.0, 1.2, 0.01)])
def test_S3_where_the_penalty_is_not_convex(p, q, least, rng):
    """Midpoints above the chord for p + q > 1, also with |p|, |q| <= 1; one group alone stays convex for q <= 1."""

    def violation(groups: tuple[tuple[int, ...], ...], p: float, q: float) -> float:
        pairs = rng.uniform(0.0, 1.0, size=(500, 2, 6)) ** 3
        return max(
            cap(a / 2 + b / 2, p, q, groups) - cap(a, p, q, groups) / 2 - cap(b, p, q, groups) / 2 for a, b in pairs
        )

    assert violation(GROUPS, p, q) > least
    assert violation(GROUPS, p / (p + q), q / (p + q)) < 1e-12
    if q <= 1:
        assert violation((tuple(range(6)),), p, q) < 1e-12
    with pytest.raises(InvalidParameter, match=r"exceeds 1|\[0, 1\]"):
        Groups(GROUPS, p, q)


def test_S4_hessian_of_prop_3(rng):
    """x^2/(y^p z^{1-p}): the decomposition holds with sqrt(p)/y, and the Hessian is singular, not positive definite."""
    wrong = 0.0
    for _ in range(200):
        x, p = rng.normal(), rng.uniform(0.05, 0.95)
        y, z = rng.uniform(0.1, 3, size=2)
        scale = y**p * z ** (1 - p)
        slopes = np.array([2 / x, -p / y, -(1 - p) / z])
        hessian = x**2 / scale * (np.outer(slopes, slopes) + np.diag([-2 / x**2, p / y**2, (1 - p) / z**2]))
        first = np.array([1.0, -x * p / y, x * (p - 1) / z])

        def decomposition(entry: float, first=first, x=x, p=p, z=z) -> np.ndarray:
            second = np.array([0.0, entry, -np.sqrt(p) / z])
            return 2 * np.outer(first, first) + x**2 * (1 - p) * np.outer(second, second)

        ours, printed = decomposition(np.sqrt(p) / y), decomposition(np.sqrt(p / y))
        size = np.abs(scale * hessian).max()
        np.testing.assert_allclose(ours / size, scale * hessian / size, atol=1e-12)
        wrong = max(wrong, np.abs(printed - scale * hessian).max() / size)
        eigenvalues = np.linalg.eigvalsh(hessian) / np.abs(hessian).max()
        assert abs(eigenvalues[0]) < 1e-10
    assert wrong > 0.3


def test_S4_prop_3_is_not_sharp(rng):
    """(8) is also jointly convex for p + q < 1: x^2/(y^p z^q) has no negative eigenvalue."""
    for p, q in ((0.3, 0.3), (0.1, 0.6), (0.8, 0.0)):
        for _ in range(500):
            x, (y, z) = rng.normal(), rng.uniform(0.05, 3, size=2)
            slopes = np.array([2 / x, -p / y, -q / z])
            hessian = np.outer(slopes, slopes) + np.diag([-2 / x**2, p / y**2, q / z**2])
            assert np.linalg.eigvalsh(hessian)[0] >= -1e-10 * np.abs(hessian).max()


def test_S6_the_squared_norm_is_a_quadratic_form():
    """The norm of f = sum alpha_i K(x_i, .), from explicit features."""
    K, alpha = np.array([[1.0, 0.5], [0.5, 1.0]]), np.array([1.0, -1.0])
    features = np.linalg.cholesky(K)  # Phi(x_i) in its rows
    assert np.sum((alpha @ features) ** 2) == pytest.approx(alpha @ K @ alpha)
    assert alpha @ K @ alpha == pytest.approx(1.0)
    assert np.sum((alpha * alpha)[:, None] * K) == pytest.approx(3.0)
