"""Bounds of Theorem 2 and Proposition 2 against Monte Carlo, with the errata where the printed form fails.

Weak penalties, kernels of any scale and huge proximal steps: solved to the gap, without thousands of steps.
"""

from __future__ import annotations

import decimal
from itertools import product

import conic
import cvxpy as cp
import numpy as np
import pytest
from scipy.special import expit
from synthesis.cases import PQR

import mklref.synthesis.proximity as proximity
from mklref.exceptions import InvalidParameter
from mklref.losses import Logistic
from mklref.solution import Status
from mklref.synthesis import SynthesisProblem, solve
from mklref.synthesis.certificate import residual
from mklref.synthesis.generalization import (
    VANISHING,
    clipped_loss,
    massart,
    proposition_2,
    rademacher_complexity,
    theorem_2,
)
from mklref.synthesis.problem import correlations
from mklref.synthesis.proximity import prox_loss


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("p", "q", "r"), PQR)
def test_proposition_1_is_an_equality(p, q, r, rng):
    """For every sign vector the supremum over the ball, a conic program, is the dual norm times the radius (K2)."""
    K = rng.normal(size=(2, 3, 4))
    radius, total = 1.4, 0.0
    A = [cp.Variable(4) for _ in K]
    stacked = cp.vstack(A).T if r == 1 else cp.vstack(A)
    ball = cp.norm(cp.norm(stacked, p, axis=1), q) <= radius
    signs = [(1.0, *others) for others in product((-1.0, 1.0), repeat=2)]  # the opposite ones have the same supremum
    for sigma in signs:
        f = sum(k @ a for k, a in zip(K, A, strict=True))
        program = cp.Problem(cp.Maximize(np.array(sigma) @ f), [ball])
        conic.solve(program)
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


def test_the_estimate_is_the_mean_of_its_draws_with_the_error_of_one(rng):
    K = -rng.exponential(size=(2, 4, 3))
    signs = np.random.default_rng(7).choice([-1.0, 1.0], size=(5, 4))
    values = 1.4 / 4 * np.abs(np.einsum("dj,tji->dti", signs, K)).max(axis=(1, 2))
    found = rademacher_complexity(K, p=1, q=1, r=1, radius=1.4, draws=5, seed=7)
    assert found == pytest.approx((values.mean(), values.std(ddof=1) / np.sqrt(5)), rel=1e-12)


@pytest.mark.sampled(2)
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
    for scale in (1e300, 1e-300):
        scaled = rademacher_complexity(stack * scale, p=p, q=q, r=r, draws=200)
        assert scaled == pytest.approx((scale * estimate, scale * error), rel=1e-12, abs=0.0)
    bound = proposition_2(n, tau, 1.0, p=p, q=q, r=r)
    assert bound == pytest.approx(tau * np.sqrt(np.log(4 * n) / n), rel=1e-12)
    assert estimate + 4 * error <= bound


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
    sizes = [proposition_2(n, 1, 1.5, p=1, q=1, r=1) for n in (1, 10, 100, 1000)]
    assert sizes == sorted(sizes, reverse=True)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: theorem_2([1.0], 0.1, delta=1.0), InvalidParameter, r"delta = 1.0 must lie in \(0, 1\)"),
        (
            lambda: proposition_2(9, 1, 1.0, p=1, q=2, r=1),
            InvalidParameter,
            "Proposition 2 does not hold",
        ),  # erratum K4
        (lambda: proposition_2(9, 1, 1.0, p=2, q=1, r=2), InvalidParameter, "Proposition 2 does not hold"),
        (lambda: proposition_2(9, 1, 0.0, p=1, q=1, r=1), InvalidParameter, "largest = 0"),  # erratum K3
        (
            lambda: rademacher_complexity(np.ones((1, 2, 2)), p=1, q=1, r=1, draws=1),
            InvalidParameter,
            "draws = 1 must be an integer of at least 2",
        ),
    ],
)
def test_bounds_refuse_what_they_do_not_hold_for(call, error, message):
    with pytest.raises(error, match=message):
        call()


STEPS = (1e-9, 1e-3, 1.0, 40.0, 1e4, 1e9, 1e14, 1e18)


def points(step: float) -> list[float]:
    """v of every size, and next to the points where m - step/(1 + exp(m)) = v changes its shape: -step, -step/2, 0."""
    sizes = [-1e20, -30.0, -1.0, 0.0, 1e-6, 1.0, 30.0, 1e20]
    return sizes + [share * step for share in (-1.0, -0.5, -1.0 - 1e-9, -1.0 + 1e-9, -0.5 - 1e-9, -0.3, -0.999, 0.2)]


def root(v: float, step: float) -> float:
    """m with m - step/(1 + exp(m)) = v, by bisection in 60 digits."""
    with decimal.localcontext() as context:
        context.prec = 60
        low, high = decimal.Decimal(v), decimal.Decimal(v) + decimal.Decimal(step)
        for _ in range(260):
            if float(low) == float(high):
                break
            middle = (low + high) / 2
            share = 1 / (1 + middle.exp()) if middle < 10_000 else decimal.Decimal(0)
            low, high = (middle, high) if middle - decimal.Decimal(step) * share < decimal.Decimal(v) else (low, middle)
        return float(low)


def test_the_proximity_operator_of_the_logistic_loss_has_all_digits():
    """The error is that of rounding v, times the derivative of the operator, and that of rounding the result."""
    for step in STEPS:
        for v in points(step):
            exact = root(v, step)
            slope = 1.0 / (1.0 + step * expit(-exact) * expit(exact))
            for label in (-1.0, 1.0):
                moved, derivative = prox_loss(Logistic(), np.array([label * v]), np.array([label]), step)
                unit = np.spacing(abs(exact)) + slope * np.spacing(max(abs(v), step))
                assert abs(label * moved[0] - exact) <= 4.0 * unit, (v, step)
                assert derivative[0] == pytest.approx(slope, rel=1e-9, abs=0.0), (v, step)


def test_the_proximity_operator_of_the_logistic_loss_takes_few_steps(calls_of):
    """It is evaluated at every trial point of every line search, where hundreds of steps made minutes."""
    evaluations = calls_of(proximity, "expit")
    for step, v in [(size, point) for size in STEPS for point in points(size)]:
        evaluations.clear()
        prox_loss(Logistic(), np.array([v]), np.ones(1), step)
        assert len(evaluations) <= 12, (v, step)


def weakly_penalised(seed: int) -> SynthesisProblem:
    """Random, rank one or repeated kernels of scale 1e-3 to 1e3 with 1e-8 to 1 of the largest useful lambda."""
    rng = np.random.default_rng(seed)
    tau, n, N = int(rng.integers(1, 4)), int(rng.integers(2, 14)), int(rng.integers(2, 12))
    K = rng.normal(size=(tau, n, N))
    kind = rng.integers(4)
    if kind == 1:
        K = K[:, :, :1] * rng.normal(size=(tau, 1, N))
    if kind == 2:
        K[-1] = K[0]
    K *= 10.0 ** float(rng.choice([-3, 0, 0, 3]))
    loss = str(rng.choice(["squared_hinge", "squared", "logistic"]))
    y = np.where(rng.normal(size=n) > 0, 1.0, -1.0) if loss != "squared" else rng.normal(size=n)
    p, q, r = (int(value) for value in rng.integers(1, 3, size=3))
    problem = SynthesisProblem(K, y, lam=1.0, p=p, q=q, r=r, C=10 ** rng.uniform(-2, 2), loss=loss)
    beta = residual(problem, np.zeros(n))
    size = problem.norm.dual_norm(correlations(problem.kernels, beta)) or 1.0
    lam = size * 10 ** rng.uniform(-8, 0) if q == 1 else size**2 / problem.C * 10 ** rng.uniform(-8, 1)
    return problem.replace(lam=float(lam))


@pytest.mark.sampled(3)
@pytest.mark.parametrize("seed", [86, 376, 451, 671, 705, 767, 803, 1232, 1239])
def test_weak_penalties_reach_the_gap_in_some_hundred_newton_steps(seed):
    """Seeds that stalled at 1e-6, or took thousands of Newton steps against rounding."""
    solution = solve(weakly_penalised(seed))
    assert solution.status is Status.OPTIMAL, solution.certificate
    assert solution.history.counters["newton_steps"] < 800


def test_a_logistic_loss_on_large_kernels_with_next_to_no_penalty():
    for seed, pqr in enumerate(PQR):
        rng = np.random.default_rng(seed)
        K = 1e3 * rng.normal(size=(2, 9, 6))
        y = np.where(rng.normal(size=9) > 0, 1.0, -1.0)
        p, q, r = pqr
        solution = solve(SynthesisProblem(K, y, lam=1.7e-5, p=p, q=q, r=r, loss="logistic"))
        assert solution.status is Status.OPTIMAL, (pqr, solution.certificate)
        assert solution.history.counters["newton_steps"] < 1200, pqr


def test_a_loss_that_is_nearly_flat_at_the_solution_takes_few_working_sets():
    """The residual of the logistic loss trailed the multipliers by a hundred rounds: 100 were not enough."""
    K = np.random.default_rng(738).normal(scale=0.2, size=(2, 2, 11))
    solution = solve(SynthesisProblem(K, np.ones(2), lam=5e-5, p=2, q=2, r=1, C=1.1, loss="logistic"))
    assert solution.status is Status.OPTIMAL, solution.certificate
    assert len(solution.history) < 20


@pytest.mark.parametrize("loss", ["squared", "squared_hinge"])
@pytest.mark.parametrize("pqr", [(1, 1, 1), (2, 1, 1), (2, 2, 2)], ids=str)
def test_scores_that_equal_the_targets_but_for_rounding_leave_the_multipliers(loss, pqr):
    """The residual is then nothing but rounding: its bounds ended at gaps of 4e-3."""
    rng = np.random.default_rng(0)
    K, y = 1e3 * rng.normal(size=(3, 9, 6)), np.where(rng.normal(size=9) > 0, 1.0, -1.0)
    y = y if loss == "squared_hinge" else y * rng.uniform(0.5, 1.0, size=9)
    p, q, r = pqr
    solution = solve(SynthesisProblem(K, y, lam=1e-9 if q == 1 else 1e-6, p=p, q=q, r=r, loss=loss))
    assert solution.status is Status.OPTIMAL, solution.certificate
