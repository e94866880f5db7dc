"""Errata of Tomioka and Suzuki, regularization strategies and empirical Bayes for MKL (2011)."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import pytest
from conic import solve
from makers import make_problem

from mklref import reference
from mklref._latex.parts import penalties
from mklref.exceptions import InvalidParameter
from mklref.regularizers import BlockNorm, ElasticNet, Lp, PowerRoot, WeightedL1

RHO = np.array([1.5, 0.7, 1.1])
D = np.array([0.3, 0.5, 0.2])


def test_T1_second_line_of_the_jensen_chain_for_l1():
    """(sum d) (sum rho/sum d)^2 has no further sum over m: with it, the chain 14.53 >= 32.67 is false."""
    first = np.sum(RHO**2 / D)
    ours = D.sum() * (RHO.sum() / D.sum()) ** 2
    printed = len(RHO) * ours
    assert printed > 2 * first
    assert first >= ours >= RHO.sum() ** 2 * (1 - 1e-15)
    best = Lp(1).weights_from_norms(RHO)
    assert np.sum(RHO**2 / best) == pytest.approx(2 * Lp(1).value(RHO))


def test_T2_exponent_in_the_jensen_chain_for_lp():
    """The first line is an identity with the exponent (1+p)/p; with (2+p)/p it says 14.53 = 66.5."""
    p, total = 2.0, np.sum(D**2)

    def line(exponent: float) -> float:
        return total * np.sum(D**p / total * (RHO ** (2 * p / (1 + p)) / D**p) ** exponent)

    first = np.sum(RHO**2 / D)
    assert line((1 + p) / p) == pytest.approx(first)
    assert line((2 + p) / p) > 4 * first


@pytest.mark.parametrize("q", [3.0, 4.0, 6.0])
def test_T3_the_extremum_after_8_is_a_maximum(q):
    """rho^2/d - (q-2)/q d^{-q/(q-2)} is at most 2/q rho^q, and unbounded below; printed: ||f||/d, >= and a minimum."""
    rho = 1.7
    d = np.geomspace(1e-3, 1e3, 200_001)
    values = rho**2 / d - (q - 2) / q * d ** (-q / (q - 2))
    assert values.max() == pytest.approx(2 / q * rho**q, rel=1e-6)
    assert d[values.argmax()] == pytest.approx(rho ** (2 - q), rel=1e-3)
    assert values.min() < -1e3
    best = rho ** (2 - q)
    unsquared = rho / best - (q - 2) / q * best ** (-q / (q - 2))
    assert unsquared < 0.9 * 2 / q * rho**q
    assert BlockNorm(q).weight_form == "max"


@pytest.mark.parametrize("q", [3.0, 5.0])
def test_T4_equality_constraint_for_q_above_2(q, rng):
    """Over sum d^p = 1, p = q/(2-q), the *maximum* of sum rho^2/d is the block norm; the infimum is min rho^2."""
    r = q / (q - 2)
    raw = rng.exponential(size=(200_000, 3)) ** rng.uniform(0.3, 8, size=(200_000, 1))
    values = (raw / np.linalg.norm(raw, r, axis=1, keepdims=True)) @ RHO**2
    assert values.max() == pytest.approx(2 * BlockNorm(q).value(RHO), rel=1e-3)
    assert values.min() == pytest.approx(RHO.min() ** 2, rel=1e-2)
    assert values.min() < 0.3 * values.max()


def test_T5_no_concave_function_for_q_above_2():
    """x^{q/2}/q is convex for q = 3, although the text calls every g of Table 1 concave."""
    x = np.linspace(0.1, 3, 50)
    curvature = np.diff(x**1.5 / 3, 2)
    assert curvature.min() > 1e-4
    with pytest.raises(InvalidParameter, match="not concave"):
        PowerRoot(3 / (2 - 3))
    for p in (1, 2, 10):
        assert np.diff(PowerRoot(p).value(x), 2).max() < 0


def test_T6_the_two_quadratic_losses_differ_by_a_factor_2():
    """With (y-z)^2/sigma^2 (section 2) C is 2/(sigma^2 C_TS); with half of it (section 4) 1/(sigma^2 C_TS)."""
    sigma, C_TS = 0.7, 1.9
    problem = make_problem(loss="squared", M=2, n=15, intercept=False, regularizer=Lp(np.inf))
    K = problem.kernels.dense().sum(axis=0)
    for halves, C in ((2.0, 2 / (sigma**2 * C_TS)), (1.0, 1 / (sigma**2 * C_TS))):
        f = reference.solve(problem.replace(C=C), tol=1e-9).decision_function(problem.kernels.dense())
        # stationarity of  halves (y-z)^2/(2 sigma^2) + C_TS/2 z'K^{-1}z  in the coefficients of z = K a
        gradient = -halves * (problem.y - f) / sigma**2 + C_TS * np.linalg.solve(K, f)
        assert np.abs(gradient).max() < 1e-4
        other = -(3.0 - halves) * (problem.y - f) / sigma**2 + C_TS * np.linalg.solve(K, f)
        assert np.abs(other).max() > 0.1


def test_T7_the_tikhonov_problem_is_not_the_map_estimate(rng):
    """-log of the Gaussian prior is ||f||^2/(2d) plus rank/2 log d: (6) is a penalised likelihood without that term."""
    root = rng.normal(size=(4, 4))
    K = root @ root.T
    f = rng.normal(size=4)

    def minus_log_prior(d: float) -> float:
        return 0.5 * (f @ np.linalg.solve(d * K, f) + np.linalg.slogdet(2 * np.pi * d * K)[1])

    norm = f @ np.linalg.solve(K, f)
    weights = np.geomspace(0.1, 10, 30)
    without = np.array([minus_log_prior(d) - norm / (2 * d) for d in weights])
    np.testing.assert_allclose(without - without[0], 2.0 * np.log(weights / weights[0]), rtol=1e-9, atol=1e-12)
    assert np.ptp(without) > 5.0  # printed: a constant


def test_T8_the_unwritten_weights_of_the_first_iteration():
    """min over d of (z d + ||f||^2/d)/2 is sqrt(z) ||f||, at d = ||f||/sqrt(z): what lies between the printed lines."""
    z, norms = np.array([2.0, 0.5, 3.1]), RHO
    step = WeightedL1(np.sqrt(z))
    d = step.weights_from_norms(norms)
    np.testing.assert_allclose(d, norms / np.sqrt(z))
    assert 0.5 * np.sum(z * d + norms**2 / d) == pytest.approx(step.value(norms))
    for factor in (0.9, 1.1):
        assert 0.5 * np.sum(z * factor * d + norms**2 / (factor * d)) > step.value(norms)


def test_T9_simplex_and_ridge_are_not_the_elastic_net():
    """dR/drho of the elastic net is affine in rho, also in its Ivanov form; with a ridge on the simplex it is not."""
    rho = np.array([0.4, 1.0, 2.5])

    def departure_from_a_line(slopes: np.ndarray) -> float:
        predicted = slopes[0] + (slopes[1] - slopes[0]) / (rho[1] - rho[0]) * (rho[2] - rho[0])
        return abs(predicted / slopes[2] - 1)

    d = cp.Variable(3, nonneg=True)
    quotients = sum(cp.quad_over_lin(size, weight) for size, weight in zip(rho, d, strict=True))
    solve(cp.Problem(cp.Minimize(0.5 * quotients + 1.5 * cp.sum_squares(d)), [cp.sum(d) == 1]))
    assert departure_from_a_line(rho / d.value) > 0.01
    for form in ("tikhonov", "ivanov"):
        assert departure_from_a_line(rho / ElasticNet(0.4, form).weights_from_norms(rho)) < 1e-12


@pytest.mark.parametrize("form", ["tikhonov", "ivanov"])
def test_T10_the_elastic_net_ends_at_the_pole_of_its_penalty(form):
    """Beyond d = 1/lambda the printed h is below -(1-lambda)/lambda: (3) allows any d there, and (6) pays for it."""
    net = ElasticNet(0.4, form)

    def penalty(d: np.ndarray) -> float:
        h = 0.6 * d / (1 - 0.4 * d)
        assert form == "tikhonov" or h.sum() <= 1 + 1e-12
        return 0.5 * float(np.sum(RHO**2 / d + 0.6 * h * (form == "tikhonov")))

    assert penalty(net.weights_from_norms(RHO)) == pytest.approx(net.value(RHO))
    beyond = np.full(3, 1e8)
    assert penalty(beyond) == pytest.approx(-1.35 if form == "tikhonov" else 0.0, abs=1e-6)
    assert net.weight_penalty(beyond) == np.inf
    assert r"\theta_m < \tfrac{5}{2}" in penalties(net).weight_set
