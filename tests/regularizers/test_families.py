"""The laws of every regulariser beyond the lp ball, and what they do at the edges of their parameters."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import fields
from itertools import product

import numpy as np
import pytest
from makers import ALIGNED, FAMILIES, PAIRS, SCALE, M, make_problem
from regularizers.laws import CONVEX_LAWS, LAWS, in_domain, points

from mklref import certify
from mklref.exceptions import InvalidParameter, InvalidType, NotApplicable
from mklref.regularizers import (
    BlockNorm,
    ConcaveBlock,
    ElasticNet,
    Fixed,
    Groups,
    HalfPower,
    Lp,
    Mahalanobis,
    Power,
    PowerRoot,
    Regularizer,
    RootPlusLinear,
    SmoothedRoot,
    Tikhonov,
    WeightedL1,
    WeightedLp,
)
from mklref.regularizers.rescaled import Rescaled


@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.__name__)
@pytest.mark.parametrize("regularizer", FAMILIES, ids=str)
def test_laws(regularizer, law):
    law(regularizer, M)


@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.__name__)
@pytest.mark.parametrize("base", [Lp(2), Mahalanobis(ALIGNED)], ids=str)
def test_laws_of_a_factor_whose_jacobian_has_rows(base, law):
    law(Rescaled.of(base, SCALE, 1.3), M)


@pytest.mark.sampled(9)
@pytest.mark.parametrize("law", CONVEX_LAWS, ids=lambda law: law.__name__)
@pytest.mark.parametrize("regularizer", [*FAMILIES, Lp(1), Lp(1.7), Fixed((0.5, 0.0, 1.0, 2.0))], ids=str)
def test_laws_of_expressions(regularizer, law):
    law(regularizer, M)


@pytest.mark.parametrize("regularizer", [*FAMILIES, Lp(1)], ids=str)
def test_those_with_numbers_are_equal_if_these_are(regularizer):
    copied = deepcopy(regularizer)
    numbers = not any(isinstance(getattr(regularizer, entry.name), np.ndarray) for entry in fields(regularizer))
    assert (copied == regularizer) == numbers
    assert not numbers or hash(copied) == hash(regularizer)
    assert all(str(other) == str(regularizer) for other in (*FAMILIES, Lp(1)) if other == regularizer)


@pytest.mark.parametrize(
    ("made", "text"),
    [
        (Lp, "Lp(4/3)"),
        (Power, "Power(4/3)"),
        (lambda p: Tikhonov(2.0, p), "Tikhonov(2, mu=4/3)"),
        (lambda p: HalfPower(p), "HalfPower(4/3)"),
        (lambda p: BlockNorm(p), "BlockNorm(4/3)"),
        (lambda p: ElasticNet(p - 1.0, "ivanov"), "ElasticNet(0.33333333333333326, ivanov)"),
        (lambda p: Groups(PAIRS, p - 1.0, 0.5), "Groups(2, p=0.33333333333333326, q=0.5)"),
        (lambda p: WeightedLp(p, SCALE), "WeightedLp(4/3, 4)"),
        (lambda p: ConcaveBlock(PowerRoot(p)), "ConcaveBlock(PowerRoot(p=1.3333333333333333))"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_different_parameters_look_different(made, text):
    assert str(made(4 / 3)) == text
    near = [1.0 + 1e-9, np.nextafter(1.0 + 1e-9, 2.0), 1.3, 1.3 + 1e-9, np.nextafter(4 / 3, 2.0), 4 / 3]
    assert len({str(made(p)) for p in near}) == len(near)


def test_at_q_inf_the_weights_from_the_dual_attain_the_conjugate():
    """BlockNorm(inf) stands outside the laws of the norms: those leave its weights open."""
    for g in points(M, seed=1):
        rho = BlockNorm(np.inf).weights_from_dual(g) * g
        np.testing.assert_allclose(rho[g > 0], g.sum(), rtol=1e-14)
        assert BlockNorm(np.inf).value(rho) + BlockNorm(np.inf).conjugate(g) == pytest.approx(g @ rho)
    np.testing.assert_allclose(BlockNorm(np.inf).weights_from_norms(np.full(M, 0.3)), M)


@pytest.mark.parametrize("q", [1.01, 1.5, 2.0, 3.0, 1e6, np.inf])
def test_errors_of_the_norms_change_the_weights_of_a_point_little(q, rng):
    g = rng.uniform(0.5, 2.0, M)
    theta = BlockNorm(q).weights_from_dual(g)
    near = (1.0 + 1e-8 * rng.normal(size=(2, M))) * (theta * g, g)
    np.testing.assert_allclose(BlockNorm(q).weights_at(*near), theta, rtol=1e-7)
    noise = np.array([1.0, 1e-30])  # where g is 0, and the weights from the dual grow beyond bounds
    assert BlockNorm(q).weights_at(1e-12 * noise[::-1], noise).max() <= 1.0


@pytest.mark.parametrize("regularizer", [*FAMILIES, Lp(1), Lp(1.7), Fixed(SCALE)], ids=str)
def test_value_and_weights_are_homogeneous_of_the_stated_degree(regularizer):
    """R(t rho) = t^d R(rho), so that theta(t rho) = t^{2-d} theta(rho), and theta(t^{d-1} g) = t^{2-d} theta(g)."""
    rho = np.array([0.7, 0.2, 0.0, 1.4])
    if regularizer.degree is not None:
        for size in (1e-12, 0.3, 1e12):
            power = size ** (2.0 - regularizer.degree)
            scaled = size**regularizer.degree * regularizer.value(rho)
            assert regularizer.value(size * rho) == pytest.approx(scaled, rel=1e-9, abs=0.0)
            theta = regularizer.weights_from_norms(size * rho)
            np.testing.assert_allclose(theta, power * regularizer.weights_from_norms(rho), rtol=1e-9)
            if regularizer.degree > 1.0:  # else R* is an indicator, whose weights are those of its boundary
                theta = regularizer.weights_from_dual(size ** (regularizer.degree - 1.0) * rho)
                np.testing.assert_allclose(theta, power * regularizer.weights_from_dual(rho), rtol=1e-9)
    else:
        doubled, squared = regularizer.value(2 * rho), regularizer.value(4 * rho)
        assert doubled / regularizer.value(rho) != pytest.approx(squared / doubled, rel=1e-2)


def test_at_the_edges_of_the_domains():
    assert ElasticNet(0.5).weight_penalty(np.array([2.0])) == np.inf
    assert ConcaveBlock(PowerRoot(np.inf)).weight_penalty(np.array([1.0 + 1e-10])) == 0.0
    assert Power(1).dual_scale(np.array([0.3, 1.0])) == 1.0
    assert ConcaveBlock(SmoothedRoot(0.3)).dual_scale(np.ones(2)) < 1.0
    assert not BlockNorm(4).weights_jacobian(np.array([1.0, 1e-150]))[1].any()  # whose diagonal overflows
    assert isinstance(SmoothedRoot(1).epsilon, float)
    g = np.array([0.3, 1.2, 0.7, 0.1])
    assert Groups(PAIRS, 0, 1).parts(g) is None
    for regularizer in (Lp(1), Power(1), ConcaveBlock(PowerRoot(1))):  # what is maximal, or on the boundary
        assert regularizer.weights_from_dual(np.array([1.0, 1.0 - 1e-12]))[1] > 0.0
        assert regularizer.weights_from_dual(np.array([1.0, 1.0 - 1e-6]))[1] == 0.0
    for regularizer in (Power(1.2), ConcaveBlock(PowerRoot(1.2))):  # R*(g) overflows, and is finite where it leads
        assert np.isfinite(regularizer.conjugate(regularizer.dual_scale(1e150 * g) * 1e150 * g))
    assert str(ElasticNet(1e-9, "ivanov").smoothed(0.25)) == "ElasticNet(0.25, ivanov)"
    assert ConcaveBlock(SmoothedRoot(0.3)).sharpened().g == PowerRoot(1)
    silent = [type("Own", (kind,), {"degree": None})(1.0) for kind in (Lp, Power)]
    assert [own.supercoercive for own in silent] == [True, False]  # without a word of theirs, by what they define
    beyond = Groups(PAIRS, 0.5, 0.5 + 1e-10)  # by rounding, as it may be
    assert beyond.weights_from_dual(g) == pytest.approx(Groups(PAIRS, 0.5, 0.5).weights_from_dual(g), rel=1e-8)


NEAR_THE_EDGE: tuple[Regularizer, ...] = (
    *(Lp(p) for p in (1 + 1e-9, 1e6, 1e308)),
    *(Power(p) for p in (1 + 1e-9, 1e6)),
    *(HalfPower(q) for q in (1 + 1e-9, 2 - 1e-9)),
    *(BlockNorm(q) for q in (1 + 1e-9, 2 + 1e-9, 1e6, np.inf)),
    *(Tikhonov(p, 0.6) for p in (1 + 1e-9, 1e6)),
    *(ElasticNet(lam, form) for lam in (1e-9, 1 - 1e-9) for form in ("tikhonov", "ivanov")),
    *(WeightedLp(p, SCALE) for p in (1 + 1e-9, 1e6)),
    *(Groups(PAIRS, p, q) for p, q in ((1e-9, 1 - 1e-9), (1 - 1e-6, 0), (0.1 + 0.2, 0.7))),
    *(ConcaveBlock(g) for g in (PowerRoot(1 + 1e-9), PowerRoot(1e6), RootPlusLinear(1e-9), SmoothedRoot(1e-9))),
    ConcaveBlock(SmoothedRoot(1e200)),
)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("regularizer", [*FAMILIES, *NEAR_THE_EDGE], ids=str)
def test_no_scale_and_no_exponent_overflows(regularizer):
    """Finite weights and a nonnegative Fenchel gap, without a warning; R* itself may exceed the largest float."""
    shapes = [1.0, 0.5, 0.2, 0.8], [0.0, 1.0, 0.0, 0.3], [1.0, 1.0, 1.0, 1.0], [1.0, 1e-160, 1e-300, 0.0], [0.0] * M
    for size, shape in product((1e-150, 1e-3, 1.0, 1e3, 1e150), shapes):
        vector = size * np.array(shape)
        assert np.isfinite(regularizer.value(vector))
        g = regularizer.dual_scale(vector) * vector
        assert regularizer.conjugate(g) >= 0.0
        for weights in (regularizer.weights_from_norms(vector), regularizer.weights_from_dual(vector)):
            assert np.all(np.isfinite(weights))
            assert np.all(weights >= 0.0)
        rho = size * np.array([0.3, 0.4, 0.2, 0.1])
        assert regularizer.value(rho) + regularizer.conjugate(g) >= (rho @ g) * (1 - 1e-10)


@pytest.mark.parametrize("p", [1, 1.1, np.inf])
def test_tikhonov_holds_where_squares_of_the_norms_underflow(p):
    """R has degree 4/3: norms of 1e-200 have a square of 0 and a value of 1e-267."""
    rho = np.array([0.3, 2.0, 0.7])
    scaled = 1e-200 ** (4 / 3) * Tikhonov(p, 2.0).value(rho)
    assert Tikhonov(p, 2.0).value(1e-200 * rho) == pytest.approx(scaled, rel=1e-9, abs=0.0)


@pytest.mark.parametrize(
    ("close", "limit"),
    [
        (Lp(1 + 1e-9), Lp(1)),
        *((Lp(p), Lp(np.inf)) for p in (1e6, 1e308)),
        (Power(1e6), Power(np.inf)),
        (BlockNorm(1e6), BlockNorm(np.inf)),
        (BlockNorm(2 + 1e-9), BlockNorm(2)),
        (ElasticNet(1e-9, "ivanov"), Lp(1)),
        (ElasticNet(1 - 1e-9, "ivanov"), Lp(np.inf)),
        (ElasticNet(1 - 1e-9), Lp(np.inf)),
        (Tikhonov(1 + 1e-9, 0.6), Tikhonov(1, 0.6)),
        (HalfPower(2 - 1e-9), HalfPower(2)),
        (ConcaveBlock(SmoothedRoot(1e-9)), Power(1)),
        (Groups(PAIRS, 1e-9, 1 - 1e-9), Lp(1)),
    ],
    ids=str,
)
def test_limits_are_continuous(close, limit):
    for x in points(M, seed=2):
        assert close.value(x) == pytest.approx(limit.value(x), rel=1e-5)
        x = 0.9 * limit.dual_scale(x) * x
        assert close.conjugate(x) == pytest.approx(limit.conjugate(x), rel=1e-5, abs=1e-8)


@pytest.mark.parametrize(
    ("make", "argument"),
    [
        *((lambda p=p: Lp(p), rf"p = {p} .*\[1, inf\]: .* p = 1 is the sparsest") for p in (0.999, 0, np.nan, -np.inf)),
        (lambda: Power(0.5), "p = 0.5"),
        (lambda: HalfPower(2.5), "BlockNorm"),
        (lambda: HalfPower(0.9), "q = 0.9"),
        (lambda: Tikhonov(0.9, 1.0), "p = 0.9"),
        (lambda: Tikhonov(2, 0.0), "mu = 0.0"),
        (lambda: Tikhonov(2, np.inf), "mu = inf"),
        (lambda: ElasticNet(0.0), "Power"),
        (lambda: ElasticNet(1.0, "ivanov"), "Lp"),
        (lambda: ElasticNet(0.5, "block"), "form"),
        (lambda: BlockNorm(0.99), "q = 0.99"),
        (lambda: WeightedLp(2, [1.0, 0.0]), "scale"),
        (lambda: WeightedLp(2, [[1.0]]), "shape"),
        (lambda: WeightedLp(0.2, [1.0]), "p"),
        (lambda: WeightedL1([1.0, -1.0]), "omega"),
        (lambda: WeightedL1([1.0, np.inf]), r"omega = \[ 1. inf\] must be finite and positive"),
        (lambda: WeightedL1([np.inf]), "omega"),
        (lambda: WeightedL1([1e-200, 1.0]), r"must be within 1e-150 and 1e\+150, or weights of the order"),
        (lambda: WeightedL1([1e200, 1.0]), "omega"),
        (lambda: WeightedL1([]), "omega"),
        *((lambda x=x: Fixed([x, 0.0]), "at least one positive") for x in (0.0, -1.0, np.inf, np.nan)),
        *((lambda x=x: Fixed(x), "weights") for x in ([], [[1.0]], [1.0, -0.1])),
        (lambda: Groups(PAIRS, 0.6, 0.6), r"p \+ q = 1.2 exceeds 1.*p = 0.5, q = 0.5"),
        (lambda: Groups(PAIRS, -0.1, 0.5), "p = -0.1"),
        (lambda: Groups(PAIRS, 0.5, 1.5), "q = 1.5"),
        (lambda: Groups([[0, 1], [1, 2]], 0, 1), "partition"),
        (lambda: Groups([[0], []], 0, 1), "nonempty"),
        (lambda: Groups([], 0, 1), "partition"),
        (lambda: Groups([[0, 2]], 0, 1), "partition"),
        (lambda: Groups(3, 0, 1), "sequence"),
        (lambda: Groups([["a"]], 0, 1), "sequence"),
        (lambda: Groups([[0.9], [1.2]], 0, 1), "kernel indices, which are integers"),
        (lambda: Groups([iter([0, True])], 0, 1), "kernel indices, which are integers"),
        (lambda: Groups(["01", "2"], 0, 1), "sequence"),
        (lambda: Groups([[np.inf]], 0, 1), "sequence"),
        (lambda: Mahalanobis([[1.0, 2.0], [2.0, 1.0]]), "smallest eigenvalue is -1"),
        (lambda: Mahalanobis([1.0]), "shape"),
        (lambda: Mahalanobis([[1.0, 0.1], [0.1 + 1e-9, 1.0]]), "symmetric"),
        (lambda: Mahalanobis([[np.nan]]), "finite"),
        (lambda: PowerRoot(-3), "q > 2"),
        (lambda: RootPlusLinear(1.0), "lam"),
        (lambda: SmoothedRoot(0.0), "epsilon"),
    ],
)
def test_bad_parameters_are_refused_with_the_reason(make, argument):
    with pytest.raises(InvalidParameter, match=argument):
        make()


@pytest.mark.parametrize("rest", [1e-6, 1e-9, 1e-12, 1e-15])
def test_the_optimal_weights_of_an_elastic_net_next_to_uniform_weights_are_inside_their_set(rest):
    net, rho = ElasticNet(1.0 - rest, "ivanov"), np.array([0.3, 1.7, 0.9])
    theta = net.weights_from_norms(rho)
    assert net.weight_penalty(theta) == 0.0
    assert net.weight_penalty(1.001 * theta) == np.inf
    assert certify(make_problem(regularizer=net, M=3), np.zeros(25), weights=theta).violations == ()


def test_concave_block_wants_a_concave_function():
    with pytest.raises(InvalidType, match="PowerRoot"):
        ConcaveBlock(np.sqrt)


@pytest.mark.parametrize(
    "regularizer",
    [WeightedLp(2, SCALE), WeightedL1(SCALE), Groups(PAIRS, 0, 1), Mahalanobis(np.eye(M)), Fixed(SCALE)],
    ids=str,
)
def test_parameters_for_another_number_of_kernels_are_refused(regularizer):
    regularizer.check(M)
    with pytest.raises(InvalidParameter, match=f"has {M} .* for {M + 1} kernels"):
        regularizer.check(M + 1)


@pytest.mark.parametrize(
    "regularizer",
    [
        Lp(1),
        Power(1),
        HalfPower(1),
        Tikhonov(1, 1.0),
        BlockNorm(1),
        WeightedL1(SCALE),
        WeightedLp(1, SCALE),
        Groups(PAIRS, 0.5, 0.5),
        ConcaveBlock(PowerRoot(1)),
    ],
    ids=str,
)
def test_no_jacobian_where_the_weights_jump(regularizer):
    with pytest.raises(NotApplicable, match="no differentiable function"):
        regularizer.weights_jacobian(np.full(M, 0.5))


@pytest.mark.parametrize(
    "regularizer",
    [
        Tikhonov(1.5, 1.0),
        Power(1.2),
        HalfPower(1.5),
        BlockNorm(1.5),
        BlockNorm(3),
        WeightedLp(2, SCALE),
        Lp(np.inf),
        ElasticNet(0.5),
        ElasticNet(0.5, "ivanov"),
        ConcaveBlock(PowerRoot(2)),
        Groups(PAIRS, 0.3, 0.4),
    ],
    ids=str,
)
def test_no_matrix_of_the_order_of_the_kernels_is_formed_for_a_product_with_it(regularizer, monkeypatch, rng):
    g, V = rng.uniform(0.6, 0.9, size=M), rng.normal(size=(2, M))
    norms = g, np.where(np.arange(M) < M // 3, g, 0.3 * g)  # the elastic net has no weights there
    expected = [V @ regularizer.weights_jacobian(each) for each in norms]
    monkeypatch.setattr(type(regularizer), "weights_jacobian", None)
    for each, rows in zip(norms, expected, strict=True):
        np.testing.assert_allclose(regularizer.jacobian_product(each, V), rows @ V.T, rtol=1e-10, atol=1e-10)
        np.testing.assert_allclose(regularizer.low_rank_jacobian(each) @ V[0], rows[0], rtol=1e-10, atol=1e-10)


def test_parameters_are_copies_that_cannot_be_written_to():
    scale = SCALE.copy()
    regularizer = WeightedLp(2, scale)
    scale[0] = 7.0
    assert regularizer.scale[0] == SCALE[0]
    with pytest.raises(ValueError, match="read-only"):
        regularizer.scale[0] = 7.0


@pytest.mark.parametrize("regularizer", [Power(1), HalfPower(1), WeightedL1(SCALE)], ids=str)
def test_nothing_of_degree_one_goes_with_the_nu_machine(regularizer):
    with pytest.raises(InvalidParameter, match="degree 1"):
        make_problem(loss="one_class", M=M, regularizer=regularizer)


IN_UNITS = (*FAMILIES, Lp(1), Lp(1.7), Fixed(SCALE), *(ElasticNet(lam) for lam in (1e-9, 1 - 1e-9)))


@pytest.mark.sampled(6)
@pytest.mark.parametrize("norm", [1e-30, 1e-8, 0.3, 1.0, 1e5, 1e30])
@pytest.mark.parametrize("regularizer", IN_UNITS, ids=str)
def test_a_regularizer_in_another_unit_is_the_same(regularizer, norm):
    """R(norm rho) = s R'(rho), and what follows: R*(g) = s R'*(norm g / s), theta(norm rho) = norm^2/s theta'(rho)."""
    s, other = regularizer.in_unit(norm)
    there = Rescaled.of(other, norm, s)
    for x in points(M):
        rho, theta = norm * x, there.weights_from_norms(norm * x)
        assert there.value(rho) == pytest.approx(regularizer.value(rho), rel=1e-11, abs=0.0)
        np.testing.assert_allclose(theta, regularizer.weights_from_norms(rho), rtol=1e-6, atol=1e-12 * theta.max())
        g = in_domain(regularizer, s / norm * x)  # next to a threshold, its difference cancels
        assert there.conjugate(g) == pytest.approx(regularizer.conjugate(g), rel=1e-6, abs=0.0)
        if regularizer.weight_form == "min":
            psi = regularizer.weight_penalty(0.5 * theta)
            assert there.weight_penalty(0.5 * theta) == pytest.approx(psi, rel=1e-9, abs=1e-12 * s)
