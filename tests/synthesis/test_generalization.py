"""Bounds of Theorem 2 and Proposition 2 against Monte Carlo, with the errata where the printed form fails."""

from __future__ import annotations

from itertools import product

import cvxpy as cp
import numpy as np
import pytest
from conic import solve

from mklref.exceptions import InvalidInput, InvalidKernel, InvalidParameter
from mklref.synthesis.generalization import (
    VANISHING,
    clipped_loss,
    massart,
    proposition_2,
    rademacher_complexity,
    theorem_2,
)

PQR = tuple(product((1, 2), repeat=3))


@pytest.mark.parametrize(("p", "q", "r"), PQR)
def test_proposition_1_is_an_equality(p, q, r, rng):
    """For every sign vector the supremum over the ball, a conic program, is the dual norm times the radius (K2)."""
    K = rng.normal(size=(2, 3, 4))
    radius, total = 1.4, 0.0
    A = [cp.Variable(4) for _ in K]
    stacked = cp.vstack(A).T if r == 1 else cp.vstack(A)
    ball = cp.norm(cp.norm(stacked, p, axis=1), q) <= radius
    signs = list(product((-1.0, 1.0), repeat=3))
    for sigma in signs:
        f = sum(k @ a for k, a in zip(K, A, strict=True))
        program = cp.Problem(cp.Maximize(np.array(sigma) @ f), [ball])
        solve(program)
        total += program.value / 3 / len(signs)
    estimate, error = rademacher_complexity(K, p=p, q=q, r=r, radius=radius, draws=4000)
    assert 0 < error < 0.05 * estimate
    assert abs(estimate - total) < 4 * error


@pytest.mark.parametrize("n", [5, 20, 80])
def test_massart_step_by_monte_carlo(n, rng):
    """E sup_i |sum_j k(x_i, x_j) sigma_j| <= K_inf sqrt(2n) sqrt(2 ln 4n); the display of the proof lacks 2n (K5)."""
    K = rng.choice([-1.0, 1.0], size=(2 * n, 2 * n))
    signs = rng.choice([-1.0, 1.0], size=(1000, 2 * n))
    supremum = np.abs(signs @ K).max(axis=1)
    mean, error = supremum.mean(), supremum.std() / np.sqrt(1000)
    bound = massart(np.sqrt(2 * n), 2 * n)
    assert mean + 4 * error < bound
    assert mean > 0.5 * bound  # it is not idle
    assert bound / (2 * n) == pytest.approx(np.sqrt(np.log(4 * n) / n), rel=1e-12)
    assert mean - 4 * error > 2 * np.sqrt(np.log(4 * n) / n)  # the printed right-hand side


@pytest.mark.parametrize(("p", "q", "r"), VANISHING)
@pytest.mark.parametrize("kind", ["constant", "signs", "negative"])
def test_proposition_2_holds(p, q, r, kind, rng):
    n, tau = 60, 3
    stack = {
        "constant": np.ones((tau, 2 * n, 2 * n)),
        "signs": rng.choice([-1.0, 1.0], size=(tau, 2 * n, 2 * n)),
        "negative": -np.ones((tau, 2 * n, 2 * n)),
    }[kind]
    estimate, error = rademacher_complexity(stack, p=p, q=q, r=r, draws=200)
    bound = proposition_2(n, tau, 1.0, p=p, q=q, r=r)
    assert bound == pytest.approx(tau * np.sqrt(np.log(4 * n) / n), rel=1e-12)
    assert estimate + 4 * error <= bound


@pytest.mark.parametrize(("p", "q", "r"), [(1, 2, 1), (2, 1, 2)])
def test_the_printed_list_fails(p, q, r):
    """Erratum K4: for a constant kernel and the norms that the paper lists the left-hand side does not even vanish."""
    n = 200
    estimate, error = rademacher_complexity(np.ones((1, 2 * n, 2 * n)), p=p, q=q, r=r, draws=300)
    assert estimate - 4 * error > 3 * np.sqrt(np.log(4 * n) / n)
    with pytest.raises(InvalidParameter, match="Proposition 2 does not hold"):
        proposition_2(n, 1, 1.0, p=p, q=q, r=r)


def test_kernels_bounded_above_are_not_enough():
    """Erratum K3: k = -1 <= K_inf = 0 makes the printed bound 0."""
    assert rademacher_complexity(-np.ones((1, 20, 20)), p=1, q=1, r=1)[0] > 0.1
    with pytest.raises(InvalidParameter, match="largest = 0"):
        proposition_2(10, 1, 0.0, p=1, q=1, r=1)


def test_clipped_loss():
    margins = np.linspace(-2.0, 3.0, 501)
    phi = clipped_loss(margins)
    assert np.all(phi >= (margins <= 0.0))
    assert np.abs(np.diff(phi)).max() <= 2.0 * np.diff(margins)[0] + 1e-12
    assert phi.min() == 0.0
    assert phi.max() == 1.0


def test_theorem_2_composes_and_is_monotone(rng):
    margins = rng.normal(size=50)
    complexity = proposition_2(50, 2, 1.5, p=2, q=1, r=1)
    expected = np.mean(np.minimum(np.maximum(0, 1 - margins) ** 2, 1)) + 16 * complexity + np.sqrt(np.log(20) / 100)
    assert theorem_2(margins, complexity) == pytest.approx(expected, rel=1e-12)
    assert theorem_2(margins, complexity, delta=0.01) > theorem_2(margins, complexity, delta=0.1)
    assert theorem_2(np.r_[margins, margins], complexity) < theorem_2(margins, complexity)
    sizes = [proposition_2(n, 2, 1.5, p=1, q=1, r=1) for n in (10, 100, 1000)]
    assert sizes == sorted(sizes, reverse=True)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: theorem_2([np.nan], 0.1), InvalidInput, r"margins\[0\] is nan"),
        (lambda: theorem_2(np.zeros((2, 2)), 0.1), InvalidInput, r"expected \(n,\)"),
        (lambda: theorem_2([1.0], 0.1, delta=1.0), InvalidParameter, r"delta = 1.0 must lie in \(0, 1\)"),
        (lambda: theorem_2([1.0], -0.1), InvalidParameter, r"complexity = -0.1 must lie in \[0, inf\)"),
        (lambda: proposition_2(0, 1, 1.0, p=1, q=1, r=1), InvalidParameter, "n = 0 must be an integer of at least 1"),
        (lambda: massart(np.inf, 3), InvalidParameter, r"length = inf must lie in \(0, inf\)"),
        (lambda: rademacher_complexity(np.ones((2, 2)), p=1, q=1, r=1), InvalidKernel, r"expected \(tau, n, N\)"),
        (
            lambda: rademacher_complexity(np.ones((1, 2, 2)), p=1, q=1, r=1, draws=1),
            InvalidParameter,
            "draws = 1 must be an integer of at least 2",
        ),
    ],
)
def test_bad_input(call, error, message):
    with pytest.raises(error, match=message):
        call()
