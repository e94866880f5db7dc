"""Bounds of Kloft's appendix: formulas by definition, complexities below them, and what the errata change."""

from __future__ import annotations

import itertools
import math

import cvxpy as cp
import numpy as np
import pytest
from conic import optimum
from makers import make_kernels, make_samples
from pandas import Series
from wrong import COUNT, EXPONENT, NUMBER, OPTION, cases, check_argument, only

from mklref import Lp, Problem, solve
from mklref.bounds import (
    Estimate,
    class_radius,
    complexity_bound,
    conversion_factor,
    cortes_bound,
    margin_risk,
    rademacher_complexity,
    radius_margin_bound,
    risk_bound,
    supremum,
)
from mklref.exceptions import InvalidKernel, InvalidParameter, InvalidTarget
from mklref.kernels import normalize

EXPONENTS = (1.0, 1.1, 4 / 3, 2.0, 4.0, np.inf)


def unit_kernels(M: int, n: int = 30, seed: int = 0) -> np.ndarray:
    """Gaussians on random variables with k(x, x) = 1, so that R = 1."""
    rng = np.random.default_rng(seed)
    return normalize(make_kernels(rng, make_samples(rng, n), M), "spherical").dense()


@pytest.mark.parametrize("p", EXPONENTS)
def test_supremum_against_cvxpy_over_block_norms(p, rng):
    """max sigma'f / n over || (||w_m||) ||_q <= C, f = sum L_m w_m."""
    kernels = make_kernels(rng, make_samples(rng, 12), 3)
    sigma = rng.choice([-1.0, 1.0], size=12)
    roots = [vectors * np.sqrt(np.maximum(values, 0)) for values, vectors in map(np.linalg.eigh, kernels)]
    parts = [cp.Variable(12) for _ in roots]
    norms = cp.hstack([cp.norm(w) for w in parts])
    q = 2.0 if np.isinf(p) else 2 * p / (p + 1)
    f = sum(root @ w for root, w in zip(roots, parts, strict=True))
    ball = cp.sum(norms) if q == 1 else cp.pnorm(norms, q, approx=False)
    best = cp.Problem(cp.Maximize(sigma @ f / 12), [ball <= 1.7])
    assert supremum(kernels, sigma[None], p, radius=1.7)[0] == optimum(best, rel=1e-5)


@pytest.mark.parametrize("p", EXPONENTS)
def test_supremum_over_weights(p, rng):
    """For fixed theta it is sqrt(sum theta_m sigma'K_m sigma)/n; no theta in the ball exceeds the closed form."""
    kernels = make_kernels(rng, make_samples(rng, 10), 3)
    sigma = rng.choice([-1.0, 1.0], size=10)
    squares = np.einsum("i,mij,j->m", sigma, kernels, sigma)
    raw = rng.exponential(size=(20_000, 3)) ** rng.uniform(0, 6, size=(20_000, 1))
    theta = raw / np.linalg.norm(raw, p, axis=1, keepdims=True)
    sampled = np.sqrt(theta @ squares) / 10
    closed = supremum(kernels, sigma[None], p)[0]
    assert sampled.max() <= closed * (1 + 1e-12)
    assert sampled.max() >= closed * 0.995


@pytest.mark.parametrize("p", EXPONENTS)
def test_monte_carlo_against_all_signs(p):
    """Eight samples have 256 vectors of signs: the exact mean lies within four standard errors."""
    kernels = unit_kernels(4, n=8)
    signs = np.array(list(itertools.product([-1.0, 1.0], repeat=8)))
    exact = supremum(kernels, signs, p, radius=2.0).mean()
    estimate = rademacher_complexity(kernels, p, radius=2.0, draws=3000, rng=np.random.default_rng(1))
    assert abs(estimate.value - exact) < 4 * estimate.standard_error
    assert 0.0 < estimate.standard_error < 0.02 * exact
    assert estimate.draws == 3000


@pytest.mark.parametrize("scale", [2.0**1017, 2.0**-900])
def test_complexities_are_proportional_to_radius_signs_and_the_root_of_the_kernels(scale):
    """At any scale: sums of such kernels, and squares of such complexities, leave float64."""
    kernels = unit_kernels(3, n=9)
    signs, estimate = np.ones((2, 9)), rademacher_complexity(kernels, 2.0, draws=20)
    closed = supremum(kernels, signs, 1.5)
    assert supremum(kernels, 2.0**600 * signs, 1.5) == pytest.approx(2.0**600 * closed, rel=1e-12)
    assert supremum(scale * kernels, signs, 1.5) == pytest.approx(np.sqrt(scale) * closed, rel=1e-12, abs=0.0)
    several = np.concatenate([0.0 * kernels, *[scale * kernels] * 2])  # of which the sum leaves float64
    total = np.sqrt(2.0 * scale) * supremum(kernels, signs, np.inf)
    assert supremum(several, signs, np.inf) == pytest.approx(total, rel=1e-12, abs=0.0)
    scaled = rademacher_complexity(kernels, 2.0, draws=20, radius=scale)
    assert scaled[:2] == pytest.approx([scale * value for value in estimate[:2]], rel=1e-12, abs=0.0)


def test_an_estimate_has_its_standard_error_and_that_of_nothing_is_0():
    assert Estimate.of(np.array([1.0, 3.0])) == (2.0, 1.0, 2)
    assert Estimate.of(np.array([0.0, 2.0**1000])) == pytest.approx((2.0**999, 2.0**999, 2), rel=1e-12)
    assert rademacher_complexity(np.zeros((2, 3, 3)), 2.0) == (0.0, 0.0, 1000)


def test_draws_in_chunks_are_the_same_draws():
    kernels = unit_kernels(3, n=9)
    signs = np.random.default_rng(4).choice([-1.0, 1.0], size=(1500, 9))
    estimate = rademacher_complexity(kernels, 2.0, draws=1500, rng=np.random.default_rng(4))
    assert estimate.value == pytest.approx(supremum(kernels, signs, 2.0).mean(), rel=1e-12)
    assert rademacher_complexity(kernels, 2.0, draws=600) == rademacher_complexity(kernels, 2.0, draws=600)


@pytest.fixture(scope="module")
def complexities():
    """Measured complexities of unit kernels, with common random numbers over p."""
    return {
        (M, p): rademacher_complexity(unit_kernels(M), p, draws=400, rng=np.random.default_rng(7)).value
        for M in (2, 3, 8, 20)
        for p in EXPONENTS
    }


def test_theorem_6(complexities):
    for (M, p), value in complexities.items():
        factor = math.sqrt(M ** (1 - 1 / p))
        assert conversion_factor(M, p) == pytest.approx(factor)
        assert value <= factor * complexities[M, 1.0] * (1 + 1e-12)
    # the exponent is not smaller: without the whole of it the inequality fails
    assert complexities[20, np.inf] > 20 ** (0.5 * 0.5) * complexities[20, 1.0]


def test_theorem_6_is_attained_by_equal_kernels():
    kernels = np.repeat(unit_kernels(1), 5, axis=0)
    values = [rademacher_complexity(kernels, p, draws=50).value for p in EXPONENTS]
    np.testing.assert_allclose(values, [conversion_factor(5, p) * values[0] for p in EXPONENTS])


def test_theorem_8_and_its_corollary(complexities):
    """By definition, above every complexity, and not vacuous: at most ten times as large."""
    for (M, p), value in complexities.items():
        bound = complexity_bound(30, M, p)
        assert bound == pytest.approx(math.sqrt(23 / 22 * math.e * M ** (1 - 1 / p) * math.ceil(math.log(M)) / 30))
        assert value <= bound <= 10 * value


def test_L15_bounds_pass_from_the_larger_class(complexities):
    """Rad(H^p) <= kappa Rad(H^r), kappa^2 the largest r-norm in the unit ball of lp; printed the other way round."""
    rng = np.random.default_rng(0)
    violated = 0
    for p, r in itertools.product(EXPONENTS, repeat=2):
        kappa = conversion_factor(8, p, r)
        theta = rng.exponential(size=(2000, 8)) ** rng.uniform(0, 8, size=(2000, 1))
        theta = np.vstack([theta, np.ones(8), np.eye(8)[0]])
        theta /= np.linalg.norm(theta, p, axis=1, keepdims=True)
        assert np.linalg.norm(theta, r, axis=1).max() == pytest.approx(kappa**2)
        assert complexities[8, p] <= kappa * complexities[8, r] * (1 + 1e-12)
        violated += complexities[8, r] > kappa * complexities[8, p]
    assert violated > 5


@pytest.mark.parametrize("e_factor", [True, False])
def test_bound_of_cortes(complexities, e_factor):
    """Above every complexity with and without e, where p* is an integer; refused elsewhere."""
    for M, dual in itertools.product((2, 3, 8, 20), (1, 2, 3, 4, 7)):
        p = np.inf if dual == 1 else dual / (dual - 1)
        value = rademacher_complexity(unit_kernels(M), p, draws=200).value
        bound = cortes_bound(30, M, p, e_factor=e_factor)
        assert bound == pytest.approx(math.sqrt(23 / 22 * (math.e if e_factor else 1) * dual * M ** (1 / dual) / 30))
        assert value <= bound
        assert cortes_bound(30, M, p, kernel_radius=1.3, e_factor=e_factor) == pytest.approx(1.3 * bound)
    assert cortes_bound(30, 8, 1e6 / (1e6 - 1), e_factor=e_factor) > cortes_bound(30, 8, 1000 / 999, e_factor=e_factor)
    assert cortes_bound(30, 8, 1000 / 999, e_factor=e_factor) > 5 * complexity_bound(30, 8, 1000 / 999)  # diverges
    for p, dual in ((1.0, "inf"), (1.7, "2.42857"), (5.0, "1.25")):
        with pytest.raises(InvalidParameter, match=rf"p = {p} has p\* = {dual}; the bound is stated for integers"):
            cortes_bound(30, 8, p)


def test_for_p_2_the_two_bounds_differ_by_the_logarithm():
    ratio = complexity_bound(100, 50, 2.0) / cortes_bound(100, 50, 2.0)
    assert ratio == pytest.approx(math.sqrt(math.ceil(math.log(50)) / 2))


@pytest.mark.parametrize("p", EXPONENTS)
def test_corollaries_9_and_10(p):
    """(33) and (34) as printed; (34) is (33) with L = 1/gamma; (35) multiplies the middle term by C."""
    n, M, R, gamma, delta = 500, 8, 1.3, 0.5, 0.05
    inner = 23 / 22 * math.e * M ** (1 - 1 / p) * math.ceil(math.log(M))
    tail = math.sqrt(math.log(2 / delta) / (2 * n))
    ours = risk_bound(0.1, n, M, p, lipschitz=3.0, delta=delta, kernel_radius=R)
    assert ours == pytest.approx(0.1 + 2 * 3.0 * math.sqrt(inner * R**2 / n) + tail)
    margin = radius_margin_bound(0.1, n, M, p, margin=gamma, delta=delta, kernel_radius=R)
    assert margin == pytest.approx(0.1 + 2 * R / gamma * math.sqrt(inner / n) + tail)
    larger = risk_bound(0.1, n, M, p, lipschitz=3.0, delta=delta, kernel_radius=R, radius=2.0)
    assert larger - 0.1 - tail == pytest.approx(2.0 * (ours - 0.1 - tail))
    assert radius_margin_bound(0.1, n, M, p, margin=1.0) == risk_bound(0.1, n, M, p, lipschitz=1.0)  # with defaults


def test_example_1_does_not_depend_on_p():
    """Dense truth: C = M^{(p+1)/2p} makes M^{1/p*} C^2 = M^2 for every p."""
    for M in (2, 6, 50):
        bounds = [risk_bound(0.0, 1000, M, p, lipschitz=1.0, radius=class_radius(np.ones(M), p)) for p in EXPONENTS]
        tail = math.sqrt(math.log(40) / 2000)
        expected = 2 * math.sqrt(23 / 22 * math.e * M**2 * math.ceil(math.log(M)) / 1000) + tail
        np.testing.assert_allclose(bounds, expected)
        for p in EXPONENTS:
            assert class_radius(np.ones(M), p) == pytest.approx(M ** (0.5 + 0.5 / p))


def test_example_2_is_best_at_p_1():
    truth = np.eye(6)[0]
    bounds = [risk_bound(0.0, 1000, 6, p, lipschitz=1.0, radius=class_radius(truth, p)) for p in EXPONENTS]
    assert class_radius(truth, 4.0) == 1.0
    assert np.all(np.diff(bounds) > 0.0)


def test_the_radius_margin_bound_holds_on_a_distribution():
    """Learned on half of the draws of a known distribution, within a class fixed before: the risk is below (34)."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(1200, 4))
    y = np.where(X[:, 0] + 0.3 * rng.normal(size=1200) > 0, 1.0, -1.0)
    features = np.stack([X[:, m] / np.linalg.norm(X, axis=1) for m in range(4)])
    grams = np.einsum("mi,mj->mij", features, features)
    train, test = slice(0, 200), slice(200, None)
    solution = solve(Problem(grams[:, train, train], y[train], C=0.05, regularizer=Lp(2), intercept=False))
    squares = np.einsum("i,mij,j->m", solution.dual_coef, grams[:, train, train], solution.dual_coef)
    norms = solution.weights * np.sqrt(squares)
    radius = 4.0
    assert class_radius(norms, 2) <= radius
    scores = solution.decision_function(grams[:, :, train])
    empirical = margin_risk(scores[train], y[train], 1.0)
    bound = radius_margin_bound(empirical, 200, 4, 2.0, margin=1.0, radius=radius)
    assert np.mean(y[test] * scores[test] <= 0) <= margin_risk(scores[test], y[test], 1.0) < bound


def test_margin_risk_by_definition(rng):
    scores, y = rng.normal(size=50), rng.choice([-1.0, 1.0], size=50)
    expected = np.mean([min(1.0, max(0.0, 1.0 - t / 0.7)) for t in scores * y])
    assert margin_risk(scores, y, 0.7) == pytest.approx(expected)
    assert margin_risk(y, y, 0.5) == 0.0
    assert margin_risk(-y, y, 0.5) == 1.0
    assert margin_risk([1e300, 1.0], [1.0, -1.0], 1e-300) == 0.5


KERNELS = np.array([np.eye(6), np.ones((6, 6))])


@pytest.mark.parametrize(
    ("call", "error", "says"),
    [
        (lambda: complexity_bound(9, 1, 1), InvalidParameter, r"n_kernels = 1 must be .* at least 2: for one kernel"),
        (lambda: risk_bound(1.2, 9, 2, 1, lipschitz=1), InvalidParameter, r"empirical_risk = 1\.2 must lie in \[0, 1"),
        (lambda: risk_bound(1, 9, 2, 1, lipschitz=1, delta=1.0), InvalidParameter, r"delta = 1\.0 must lie in \(0"),
        (lambda: risk_bound(1, 9, 2, 1, lipschitz=1, delta=0.0), InvalidParameter, r"delta = 0\.0 must lie in \(0"),
        (lambda: margin_risk([1.0], [1.0, 1.0], 1.0), InvalidTarget, r"scores has shape \(1,\), y has shape \(2,\)"),
        (lambda: margin_risk([1.0, np.nan], [1.0, 1.0], 1.0), InvalidTarget, r"scores\[1\] is nan"),
        (lambda: margin_risk(*(Series([1.0, 1.0], list(index)) for index in ("ab", "ba")), 1.0), InvalidTarget, "'a'"),
        (lambda: margin_risk([1.0, 1.0], [1.0, 0.0], 1.0), InvalidTarget, r"y\[1\] = 0; labels are -1 and \+1"),
        (lambda: class_radius([1.0, -1.0], 1), InvalidParameter, r"norms\[1\] = -1 is negative"),
        (lambda: rademacher_complexity(KERNELS, 1, draws=1), InvalidParameter, "draws = 1 must be .* at least 2"),
        (lambda: rademacher_complexity(KERNELS[0], 1), InvalidKernel, "wrap a single Gram matrix"),
        (lambda: rademacher_complexity(-KERNELS, 1), InvalidKernel, "is not positive semidefinite"),
        (lambda: supremum(KERNELS, np.ones(6), 1), InvalidParameter, r"signs has shape \(6,\); expected \(draws, 6\)"),
        (lambda: supremum(KERNELS, [[1, np.nan, 1, 1, 1, 1]], 1), InvalidParameter, r"signs\[0, 1\] is nan"),
        (
            lambda: supremum(KERNELS, [[1] * 6, [1e300] * 6], 1, radius=1e300),
            InvalidParameter,
            r"and signs of 6\.69693e\+299 and",
        ),
    ],
)
def test_arguments_of_bounds_are_refused_in_words_of_their_own(call, error, says):
    """In words of its own; that every number is refused by its name is the table below."""
    with pytest.raises(error, match=says):
        call()


SIGNS = np.array([1.0, -1.0, 1.0, 1.0, -1.0, -1.0])
P, RADIUS, KERNEL_RADIUS = {"p": (2.0, EXPONENT)}, {"radius": (1.0, NUMBER)}, {"kernel_radius": (1.0, NUMBER)}
SIZES = {"n_samples": (10, COUNT), "n_kernels": (3, COUNT)}
RISK = {"empirical_risk": (0.1, {"0"}), **SIZES, **P, **only(delta=0.1), **KERNEL_RADIUS, **RADIUS}
DRAWS = {"draws": (2, COUNT), "rng": (np.random.default_rng(0), OPTION)}


@cases(
    (supremum, {**only(kernels=KERNELS, signs=SIGNS[None]), **P, **RADIUS}),
    (rademacher_complexity, {**only(kernels=KERNELS), **P, **RADIUS, **DRAWS}),
    (conversion_factor, {"n_kernels": (3, COUNT), **P, "source": (1.0, EXPONENT)}),
    (complexity_bound, {**SIZES, **P, **KERNEL_RADIUS}),
    (cortes_bound, {**SIZES, "p": (2.0, {"1.5", "inf"}), **KERNEL_RADIUS, "e_factor": (True, {"True"})}),
    (class_radius, {**only(norms=[1.0, 2.0]), **P}),
    (risk_bound, {**RISK, "lipschitz": (1.0, NUMBER)}),
    (radius_margin_bound, {**RISK, "margin": (1.0, NUMBER)}),
    (margin_risk, {**only(scores=SIGNS, y=SIGNS), "margin": (1.0, NUMBER)}),
)
def test_wrong_arguments(function, good, argument, fine):
    check_argument(function, good, argument, fine)
