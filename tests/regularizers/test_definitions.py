"""Closed forms against twins written from the definitions in the papers, and members that are others in disguise."""

from __future__ import annotations

from fractions import Fraction

import cvxpy as cp
import numpy as np
import pytest
from conic import optimum
from makers import ALIGNED, FAMILIES, ONE, OPPOSED, PAIRS, SCALE, SINGLETONS, UNEVEN, M
from regularizers.laws import points

from mklref.formulations.weighted_primal import psi
from mklref.regularizers import (
    BlockNorm,
    ConcaveBlock,
    ConcaveFunction,
    ElasticNet,
    Fixed,
    Groups,
    HalfPower,
    Lp,
    Mahalanobis,
    Power,
    PowerRoot,
    RootPlusLinear,
    SmoothedRoot,
    Tikhonov,
    WeightedL1,
    WeightedLp,
)
from mklref.regularizers.mahalanobis import nonnegative_minimiser
from mklref.regularizers.norms import norm_gradient, p_norm


@pytest.mark.sampled(3)
@pytest.mark.parametrize("regularizer", [r for r in FAMILIES if r.weight_form == "min"], ids=str)
def test_weights_from_norms_are_the_argmin(regularizer):
    """argmin over theta of 1/2 sum rho^2/theta + psi(theta), by a conic solver."""
    rho = np.array([0.8, 0.3, 1.1, 0.6])
    theta = cp.Variable(M, nonneg=True)
    penalty, domain = psi(regularizer, theta)
    quotients = sum(cp.quad_over_lin(size, weight) for size, weight in zip(rho, theta, strict=True))
    program = cp.Problem(cp.Minimize(0.5 * quotients + penalty), domain)
    assert regularizer.value(rho) == optimum(program, rel=1e-6)
    np.testing.assert_allclose(theta.value, regularizer.weights_from_norms(rho), rtol=1e-3)


@pytest.mark.parametrize("q", [2.2, 3, 6])
def test_above_two_the_block_norm_is_a_maximum_over_inverse_weights(q, rng):
    """R = max 1/2 sum vartheta rho^2 over ||vartheta||_r <= 1, r = q/(q-2), attained at 1/theta (Kloft (30))."""
    r = q / (q - 2)
    rho = np.array([1.5, 0.7, 1.1])
    regularizer = BlockNorm(q)
    best = 1.0 / regularizer.weights_from_norms(rho)
    assert np.linalg.norm(best, r) == pytest.approx(1.0)
    assert 0.5 * best @ rho**2 == pytest.approx(regularizer.value(rho))
    raw = rng.exponential(size=(100_000, 3)) ** rng.uniform(0.3, 4, size=(100_000, 1))
    inverse_weights = raw / np.linalg.norm(raw, r, axis=1, keepdims=True)
    sampled = 0.5 * inverse_weights @ rho**2
    assert sampled.max() <= regularizer.value(rho) * (1 + 1e-12)
    assert sampled.max() >= regularizer.value(rho) * (1 - 1e-3)


GROUPINGS = [PAIRS, UNEVEN, ONE, SINGLETONS]


@pytest.mark.parametrize("groups", GROUPINGS, ids=str)
@pytest.mark.parametrize(("p", "q"), [(0, 1), (1, 0), (0.5, 0.5), (0.2, 0.8), (0.3, 0.3), (0.7, 0.1)])
def test_groups_are_the_minimum_over_both_simplices(groups, p, q, rng):
    """Szafranski (8): sum rho^2/(sigma1^p sigma2^q) over the two simplices; (10), (11) attain it, nothing is below."""
    regularizer = Groups(groups, p, q)
    sizes, owner = regularizer.sizes, regularizer.group_of
    rho = np.array([0.8, 0.3, 1.1, 0.6])

    def penalty(sigma1, sigma2):
        return 0.5 * np.sum(rho**2 / (sigma1[..., owner] ** p * sigma2**q), axis=-1)

    sigma1, sigma2 = regularizer.shares(rho)
    assert sizes @ sigma1 == pytest.approx(1.0)
    assert sigma2.sum() == pytest.approx(1.0)
    assert penalty(sigma1, sigma2) == pytest.approx(regularizer.value(rho))
    near = np.exp(0.2 * rng.normal(size=(20_000, M)))
    nearby1 = sigma1 * near[:, : len(sizes)]
    nearby2 = sigma2 * near[:, ::-1]
    nearby1 /= (nearby1 @ sizes)[:, None]
    nearby2 /= nearby2.sum(axis=1)[:, None]
    assert penalty(nearby1, nearby2).min() >= regularizer.value(rho) * (1 - 1e-12)


@pytest.mark.parametrize("groups", GROUPINGS, ids=str)
@pytest.mark.parametrize(("p", "q"), [(0.5, 0.5), (0.3, 0.4)])
def test_the_weights_of_the_simplices_fill_the_ball_of_psi(groups, p, q, rng):
    """sigma1^p sigma2^q always lies in the mixed-norm ball; from its sphere no larger weights are reached."""
    regularizer = Groups(groups, p, q)
    sizes, owner = regularizer.sizes, regularizer.group_of
    for _ in range(200):
        sigma1 = rng.dirichlet(np.ones(len(sizes))) / sizes
        sigma2 = rng.dirichlet(np.ones(M))
        assert regularizer.weight_penalty(sigma1[owner] ** p * sigma2**q) == 0.0
    theta = regularizer.weights_from_norms(rng.uniform(0.2, 1.0, size=M))
    assert regularizer.weight_penalty(theta) == 0.0
    assert regularizer.weight_penalty(1.001 * theta) == np.inf


@pytest.mark.sampled(2)
@pytest.mark.parametrize("groups", [*GROUPINGS, [[3, 0], [2, 1]], [[2], [0, 3, 1]]], ids=str)
@pytest.mark.parametrize("p", [1.0, 1.5, 2.0, 40.0, np.inf])
def test_norms_of_groups_at_once_are_those_of_each_group(groups, p, rng):
    blocks = Groups(groups, 0.5, 0.5)._blocks
    for x in (*rng.exponential(size=(5, M)), *10.0 ** rng.uniform(-300, 300, size=(5, M)), np.eye(M)[1], np.zeros(M),
              np.ones(M), np.array([1.0, np.inf, 1e300, 2.0])):  # fmt: skip
        each = [x[list(group)] for group in groups]
        np.testing.assert_allclose(blocks.p_norms(x, p), [p_norm(one, p) for one in each], rtol=1e-13)
        if np.isfinite(x).all():
            slopes = blocks.norm_gradients(x, p)
            for one, group in zip(each, groups, strict=True):
                np.testing.assert_allclose(slopes[list(group)], norm_gradient(one, p), rtol=1e-13)


@pytest.mark.parametrize("E", [ALIGNED, OPPOSED], ids=["aligned", "opposed"])
def test_mahalanobis_conjugate_is_the_gauge_of_the_ellipsoid_in_the_orthant(E):
    """R*(g) = max 1/2 theta'q over theta >= 0, theta'E^{-1}theta <= 1, attained by the weights from the dual."""
    regularizer = Mahalanobis(E)
    for g in points(M, seed=3):
        theta = cp.Variable(M, nonneg=True)
        program = cp.Problem(cp.Maximize(0.5 * theta @ g**2), [cp.quad_form(theta, np.linalg.inv(E)) <= 1])
        assert regularizer.conjugate(g) == optimum(program, rel=1e-6)
        np.testing.assert_allclose(regularizer.weights_from_dual(g), theta.value, atol=1e-3)


def test_nonnegative_minimiser_meets_its_optimality_conditions(rng):
    for _ in range(300):
        size = rng.integers(1, 13)
        root = rng.normal(size=(size, rng.integers(1, size + 1)))  # of low rank steps end at the boundary
        E = root @ root.T + 10.0 ** rng.uniform(-4, 0) * np.eye(size)
        c = rng.normal(size=size)
        s = nonnegative_minimiser(E, c)
        slope = E @ s + c
        assert s.min() >= 0.0
        assert slope.min() >= -1e-10 * np.abs(c).max()
        assert np.abs(slope[s > 0]).max(initial=0.0) <= 1e-9 * np.abs(c).max()
    assert nonnegative_minimiser(np.eye(2), np.array([-1e-9, 1.0])).tolist() == [1e-9, 0.0]


@pytest.fixture
def systems(calls_of):
    """The order of every linear system that is solved."""
    return calls_of(np.linalg, "solve", lambda A, b: len(A))


def test_nonnegative_minimiser_takes_few_systems_for_many_coordinates(rng, systems):
    size = 100
    E = 1.05 * np.eye(size) - np.ones((size, size)) / size
    s = nonnegative_minimiser(E, E @ rng.uniform(size=size) ** 4)
    assert np.count_nonzero(s) > size // 2
    assert len(systems) < size // 10


def test_an_interior_point_method_ends_where_rounding_leaves_nothing_to_gain(rng, systems):
    """Terms of A theta that cancel leave a residual above that of well conditioned matrices."""
    Mahalanobis(np.full((100, 100), 0.999) + 1e-3 * np.eye(100)).weights_from_norms(rng.uniform(size=100) ** 2)
    assert len(systems) < 50


def test_the_faces_of_any_ellipsoid_meet(rng):
    """An interior point method that leaves the orthant, or stops early, shows where E is ill conditioned."""
    for _ in range(60):
        size = rng.integers(1, 9)
        root = rng.normal(size=(size, size))
        ellipsoid = Mahalanobis(root @ root.T + 10.0 ** rng.uniform(-4, 0) * np.eye(size))
        g = np.abs(rng.normal(size=size)) * 10.0 ** rng.uniform(-2, 0, size=size)
        rho = ellipsoid.weights_from_dual(g) * g
        assert ellipsoid.value(rho) + ellipsoid.conjugate(g) == pytest.approx(g @ rho, rel=1e-9, abs=0.0)


DISGUISED = [
    *((BlockNorm(q), Lp(p)) for q, p in ((1, 1), (4 / 3, 2), (1.6, 4), (2, np.inf))),
    (Groups(PAIRS, 0, 1), Lp(1)),
    (Groups(PAIRS, 0, 0.4), Lp(2.5)),
    (Groups(UNEVEN, 0, 0), Lp(np.inf)),
    (Groups(SINGLETONS, 0.3, 0.2), Lp(2)),
    (Groups(ONE, 0.5, 0.25), WeightedLp(4, np.full(M, M**-0.5))),
    (Lp(np.inf), Fixed(np.ones(M))),
    (WeightedLp(np.inf, SCALE), Fixed(SCALE)),
    (WeightedL1(np.ones(M)), Power(1)),
    (HalfPower(2), Power(np.inf)),
    (Mahalanobis(np.eye(M)), Lp(2)),
    (Mahalanobis(np.diag(SCALE**2)), WeightedLp(2, SCALE)),
    *((ConcaveBlock(PowerRoot(p)), Power(p)) for p in (1, 1.5, 4, np.inf)),
    (ConcaveBlock(RootPlusLinear(0.35)), ElasticNet(0.35)),
]


@pytest.mark.parametrize(("one", "other"), DISGUISED, ids=lambda regularizer: f"{regularizer}")
def test_all_faces_agree(one, other):
    for x in points(M, seed=4):
        assert one.value(x) == pytest.approx(other.value(x), rel=1e-12)
        np.testing.assert_allclose(one.weights_from_norms(x), other.weights_from_norms(x), rtol=1e-9, atol=1e-9)
        assert one.weight_penalty(0.3 * x) == pytest.approx(other.weight_penalty(0.3 * x), rel=1e-12)
        assert one.dual_scale(x) == pytest.approx(other.dual_scale(x), rel=1e-12)
        x = other.dual_scale(x) * x
        assert one.conjugate(x) == pytest.approx(other.conjugate(x), rel=1e-12)
        present = x > 0.0
        np.testing.assert_allclose(one.weights_from_dual(x)[present], other.weights_from_dual(x)[present], atol=1e-9)


def test_the_group_lasso_of_sums_of_kernels():
    """Szafranski's preset (1, 0): one weight for each group, l1 over the groups with factors d_l."""
    regularizer = Groups(UNEVEN, 1, 0)
    rho = np.array([0.8, 0.3, 1.1, 0.6])
    expected = 0.5 * (rho[2] + np.sqrt(3) * np.linalg.norm(rho[[3, 0, 1]])) ** 2
    assert regularizer.value(rho) == pytest.approx(expected)
    theta = regularizer.weights_from_norms(rho)
    assert theta[0] == pytest.approx(theta[1])
    assert regularizer.sizes @ [theta[2], theta[0]] == pytest.approx(1.0)


def test_half_power_and_weighted_l1_are_what_they_say():
    rho = np.array([0.8, 0.3, 1.1, 0.6])
    assert HalfPower(1.3).value(rho) == pytest.approx(0.5 * np.sum(rho**1.3))
    np.testing.assert_allclose(HalfPower(1.3).weights_from_norms(rho), 2 / 1.3 * rho**0.7)
    assert WeightedL1(SCALE).value(rho) == pytest.approx(SCALE @ rho)
    np.testing.assert_allclose(WeightedL1(SCALE).weights_from_norms(rho), rho / SCALE)
    assert WeightedLp(3, SCALE).weight_penalty(SCALE * 4 ** (-1 / 3)) == 0.0
    assert WeightedLp(3, SCALE).weight_penalty(SCALE * 0.64) == np.inf


def test_tikhonov_is_the_best_radius_of_the_ball():
    """min over s of ||rho||_q^2/(2 s) + mu s^2, Kloft Theorem 1."""
    rho = np.array([0.8, 0.3, 1.1, 0.6])
    regularizer = Tikhonov(1.5, 0.4)
    radii = np.linspace(0.5, 2.0, 200_001) * regularizer.radius(rho)
    values = Lp(1.5).value(rho) / radii + 0.4 * radii**2
    assert regularizer.value(rho) == pytest.approx(values.min(), rel=1e-9)
    assert np.linalg.norm(regularizer.weights_from_norms(rho), 1.5) == pytest.approx(regularizer.radius(rho))


@pytest.mark.parametrize(
    "g",
    [PowerRoot(1), PowerRoot(1.5), PowerRoot(4), PowerRoot(np.inf), RootPlusLinear(0.35), SmoothedRoot(0.4)],
    ids=str,
)
def test_concave_functions_against_their_definitions(g):
    """Both conjugates by numeric extrema on a grid, the derivative and the elasticity by differences, concavity."""
    x = np.concatenate([[0.0], np.geomspace(1e-14, 1e8, 400_001)])
    values = g.value(x)
    assert values[0] == 0.0
    for y in (0.45, 0.5, 0.8, 1.7):
        infimum = np.min(x * y - values)
        conjugate = float(g.conjugate(np.array([y]))[0])
        assert infimum < -1e6 if np.isinf(conjugate) else conjugate == pytest.approx(infimum, rel=1e-6, abs=1e-6)
    for s in np.array([0.1, 0.6, 0.9, 1.0, 3.0]):
        supremum = np.max(s * np.sqrt(x) - values)
        if s <= g.slopes.high:
            end = 1e-4 if s == g.slopes.high else 1e-9  # where it is approached at infinity
            assert g.block_conjugate(np.array([s]))[0] == pytest.approx(supremum, rel=1e-5, abs=end)
        else:
            assert supremum > 1e3
    inner = np.array([0.05, 0.4, 2.0, 30.0])
    step = 1e-4 * inner
    slope = (g.value(inner + step) - g.value(inner - step)) / (2 * step)
    curvature = (g.value(inner + step) - 2 * g.value(inner) + g.value(inner - step)) / step**2
    np.testing.assert_allclose(g.derivative(inner), slope, rtol=1e-6)
    np.testing.assert_allclose(g.elasticity(inner), -inner * curvature / slope, atol=1e-5)
    limits = 2 * np.sqrt([1e-20, 1e20]) * g.derivative(np.array([1e-20, 1e20]))
    for limit, end in zip(limits, g.slopes, strict=True):
        assert limit > 1.5 if np.isinf(end) else limit == pytest.approx(end, abs=0.02)


@pytest.mark.parametrize(
    "g",
    [
        PowerRoot(1.5),
        PowerRoot(np.inf),
        RootPlusLinear(0.35),
        RootPlusLinear(1e-3),
        SmoothedRoot(0.4),
        SmoothedRoot(1e3),
    ],
    ids=str,
)
def test_norms_from_dual_norms_are_those_of_the_bisection(g):
    """2 rho g'(rho^2) = s, in closed form and by halving the logarithm of an interval."""
    low, high = g.slopes
    s = low + (min(high, 1e3) - low) * np.array([1e-6, 0.1, 0.5, 0.9, 1.0 - 1e-9])
    np.testing.assert_allclose(g.norms_from_dual(s), ConcaveFunction.norms_from_dual(g, s), rtol=1e-6)
    assert ConcaveBlock(g).norms_from_dual(np.array([0.0, low])).tolist() == [0.0, 0.0]


@pytest.mark.parametrize("lam", [0.5, 1e-3, 1e-6, 1e-12, 1e-15, 1e-17, 1e-300])
@pytest.mark.parametrize("apart", [0.0, 0.3, 3.0])
def test_weights_of_elastic_nets_near_the_simplex_keep_their_digits(lam, apart):
    """What is above tau is as small as lam; taken as g - tau, a share 1e-16/lam of the weights was rounding."""
    g = 1.660587 * (1.0 + apart * lam * np.array([0.0, 1.0, -0.5, 0.25, -1e9]))
    exact, one = [Fraction(value) for value in np.maximum(g, 0.0)], Fraction(lam)
    largest = sorted(exact, reverse=True)
    taus = [(1 - one) * sum(largest[:k]) / (one + (1 - one) * k) for k in range(1, 6)]
    tau = [t for t, value in zip(taus, largest, strict=True) if value > t][-1]
    expected = [max(value - tau, Fraction(0)) / (one * value) if value else 0.0 for value in exact]
    net, g = ElasticNet(lam, "ivanov"), np.maximum(g, 0.0)
    np.testing.assert_allclose(net.weights_from_dual(g), np.array(expected, dtype=float), rtol=1e-12, atol=1e-12)
    conjugate = sum(max(value - tau, Fraction(0)) ** 2 for value in exact) / (2 * one) + tau**2 / (2 * (1 - one))
    assert net.conjugate(g) == pytest.approx(float(conjugate), rel=1e-12)
