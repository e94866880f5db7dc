"""psi of the sparse regularisers in polyhedral form, and the smooth relatives of those whose R* has kinks."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from makers import FAMILIES, PAIRS, SCALE, M, make_problem
from regularizers.laws import LAWS

from mklref import solve
from mklref.native import curved
from mklref.native.curved import relatives
from mklref.regularizers import (
    BlockNorm,
    ConcaveBlock,
    ElasticNet,
    Fixed,
    Groups,
    HalfPower,
    Lp,
    Power,
    PowerRoot,
    RootPlusLinear,
    Tikhonov,
    WeightedL1,
    WeightedLp,
)
from mklref.regularizers.concave import Slopes
from mklref.regularizers.rescaled import Rescaled

SPARSE = (
    Lp(1),
    Lp(1 + 1e-9),
    BlockNorm(1),
    Groups(PAIRS, 0, 1),
    Power(1),
    HalfPower(1),
    Tikhonov(1, 0.3),
    WeightedL1(SCALE),
    WeightedLp(1, SCALE),
    ConcaveBlock(PowerRoot(1)),
    Rescaled.of(Tikhonov(1, 0.3), 0.5, 3.0),
)
CONVEX = [Lp(1), Lp(1.01), Lp(2), Lp(np.inf), Fixed(SCALE), *FAMILIES]


@pytest.mark.parametrize("regularizer", SPARSE, ids=str)
def test_psi_is_the_penalty_of_the_weights(regularizer, rng):
    psi = regularizer.polyhedral(M)
    assert psi is not None
    for _ in range(20):
        theta = rng.exponential(size=M) * (rng.uniform(size=M) < 0.7)
        theta[rng.integers(M)] = 0.3
        if psi.normal is not None:
            theta /= psi.normal @ theta
            assert regularizer.weight_penalty(0.9 * theta) == 0.0
            if not isinstance(regularizer, Lp):  # Lp(1 + 1e-9) stands in for Lp(1)
                assert regularizer.weight_penalty(1.001 * theta) == np.inf
        assert psi.penalty(theta) == pytest.approx(regularizer.weight_penalty(theta), rel=1e-12)
        h = 1e-6
        differences = [(psi.penalty(theta + h * e) - psi.penalty(theta - h * e)) / (2 * h) for e in np.eye(M)]
        np.testing.assert_allclose(psi.gradient(theta), differences, rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize("regularizer", SPARSE, ids=str)
def test_psi_of_some_kernels(regularizer, rng):
    """The same function with all other weights at 0."""
    psi = regularizer.polyhedral(M)
    some = np.array([3, 1])
    part = psi.of(some)
    theta = np.zeros(M)
    theta[some] = rng.exponential(size=2)
    assert part.penalty(theta[some]) == pytest.approx(psi.penalty(theta), rel=1e-14)
    np.testing.assert_allclose(part.gradient(theta[some]), psi.gradient(theta)[some], rtol=1e-14)
    if psi.normal is not None:
        np.testing.assert_array_equal(part.normal, psi.normal[some])


@pytest.mark.parametrize("regularizer", [*CONVEX, Lp(1 + 2e-7)], ids=str)
def test_polyhedral_exactly_where_psi_is_piecewise_linear_or_a_square(regularizer):
    sparse = {str(member) for member in SPARSE} | {"BlockNorm(1)", "Groups(2, p=0, q=1)"}
    assert (regularizer.polyhedral(M) is not None) == (str(regularizer) in sparse)


@pytest.mark.parametrize("regularizer", CONVEX, ids=str)
def test_the_path_ends_at_the_regularizer_or_next_to_it(regularizer, rng):
    """Every member but the last is smooth; the last has R* within a relative 1e-7."""
    members = relatives(regularizer)
    for member in members:
        if member.polyhedral(M) is None and member.weight_form == "min":
            jacobian = member.weights_jacobian(rng.uniform(0.3, 0.5, size=M))
            assert np.all(np.isfinite(jacobian))
    smooth_already = regularizer.polyhedral(M) is None and not isinstance(regularizer, Groups | Lp)
    if smooth_already:
        assert members[-1] is regularizer
    for _ in range(10):
        g = 0.9 * rng.uniform(0.1, 1.0, size=M)
        g *= regularizer.dual_scale(g)
        if members[-1] is not regularizer and np.isfinite(members[-1].conjugate(g)):
            near = members[-1].conjugate(g)
            assert near == pytest.approx(regularizer.conjugate(g), rel=1e-7, abs=1e-7)


@pytest.mark.parametrize(
    ("make", "smooth"),
    [
        (Lp, 1.25),
        (Power, 1.25),
        (lambda p: Tikhonov(p, 0.3), 1.25),
        (BlockNorm, 1.125),
        (ElasticNet, 0.25),
        (lambda total: Groups(PAIRS, 0.5 * total, 0.5 * total), 0.75),
        (lambda p: ConcaveBlock(PowerRoot(p)), 1.25),
        (lambda lam: ConcaveBlock(RootPlusLinear(lam)), 0.25),
    ],
)
def test_what_is_less_smooth_than_asked_becomes_exactly_as_smooth(make, smooth):
    one, less = make(smooth), make(smooth - 0.01 if smooth != 0.75 else 0.76)
    assert one.smoothed(0.25) is one
    assert less.smoothed(0.25) is not less
    assert str(less.smoothed(0.25)) == str(one)


@pytest.mark.parametrize(
    "make", [Lp, Power, BlockNorm, lambda p: Tikhonov(p, 0.3), lambda p: ConcaveBlock(PowerRoot(p))]
)
def test_what_barely_smooths_a_kink_names_the_one_with_the_kink(make):
    assert str(make(1.01).sharpened()) == str(make(1))
    assert make(1).sharpened() is make(1.5).sharpened() is None


def test_an_elastic_net_whose_norms_are_large_needs_no_relatives(calls_of):
    """In their unit its square decides, and it is smooth; relatives by lam itself took six times as many steps."""
    problem = make_problem(loss="squared", seed=3, regularizer=ElasticNet(1e-3))
    asked = calls_of(curved, "relatives")
    assert solve(problem.replace(y=1e6 * problem.y)).certificate.is_optimal(1e-6)
    assert asked
    assert {len(relatives(*given)) for given in asked} == {1}


def test_relatives_approach_step_by_step(rng):
    g = rng.uniform(0.3, 1.0, size=M)
    for regularizer in (Lp(1), Tikhonov(1, 0.3), BlockNorm(1), Groups(PAIRS, 0.5, 0.5), WeightedLp(1, SCALE)):
        values = [member.conjugate(g) for member in relatives(regularizer)]
        distances = np.abs(np.array(values) - regularizer.conjugate(g))
        assert len(values) > 5
        assert all(later <= 0.6 * earlier + 1e-12 for earlier, later in pairwise(distances[:-1]))
        assert distances[-1] <= distances[-2]  # the last one is where the path is to end, not a step further


class Twice(PowerRoot):
    """g(x) = 2 sqrt(x), so that R = 2 sum rho and psi = 2 sum theta."""

    @property
    def slopes(self):
        return Slopes(2.0, 2.0)

    def conjugate(self, y):
        return -1.0 / y


def test_a_linear_block_norm_of_any_slope(rng):
    regularizer, theta = ConcaveBlock(Twice(1)), rng.exponential(size=M)
    assert regularizer.polyhedral(M).penalty(theta) == pytest.approx(regularizer.weight_penalty(theta), rel=1e-14)


INSTANCES = [
    *(Lp(p) for p in (1, 1.05, 4 / 3, 2, 3.7, 20, np.inf)),
    Fixed([0.3, 1.2, 0.05, 2.0]),
    Fixed([1.0, 0.0, 0.4, 0.7]),
]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.__name__)
@pytest.mark.parametrize("regularizer", INSTANCES, ids=lambda regularizer: f"{regularizer}")
def test_laws(regularizer, law):
    law(regularizer, M)


@pytest.mark.parametrize("p", [1, 1 + 1e-9, 1.01, 4 / 3, 2, 50, 1e6, np.inf])
def test_faces_by_definition(p, rng):
    """Norms by NumPy, with the conjugate exponents written out."""
    q = 2 * p / (p + 1) if p < np.inf else 2.0
    dual = np.inf if p == 1 else (1.0 if p == np.inf else p / (p - 1))
    for x in (rng.uniform(0.5, 1.5, size=M), np.array([1.0, 1.0, 1.0, 1.0]), np.array([0.0, 0.0, 0.7, 0.0])):
        x = x / x.max()  # large exponents of numbers above 1 would overflow in the naive form
        assert Lp(p).value(x) == pytest.approx(0.5 * np.linalg.norm(x, q) ** 2, rel=1e-12)
        assert Lp(p).conjugate(x) == pytest.approx(0.5 * np.linalg.norm(x**2, dual), rel=1e-12)
        theta = Lp(p).weights_from_norms(x)
        assert np.linalg.norm(theta, p) == pytest.approx(1.0, rel=1e-9)
        assert Lp(p).weight_penalty(theta) == 0.0
        assert Lp(p).weight_penalty(1.01 * theta) == np.inf


@pytest.mark.parametrize("p", [1 + 1e-9, 1e6])
def test_extreme_exponents_satisfy_fenchel_young(p, rng):
    regularizer = Lp(p)
    for _ in range(20):
        g, rho = rng.uniform(0.5, 1.5, size=(2, M))
        assert regularizer.value(rho) + regularizer.conjugate(g) >= g @ rho * (1 - 1e-12)
        attained = regularizer.weights_from_dual(g) * g
        assert regularizer.value(attained) + regularizer.conjugate(g) == pytest.approx(g @ attained, rel=1e-8)


@pytest.mark.parametrize("p", [1, 1 + 1e-9, 4 / 3, 2, 1e6, np.inf])
@pytest.mark.parametrize("exponent", [-450, 450])
def test_scaling_by_a_power_of_two_is_exact(p, exponent, rng):
    """Values have degree 2, weights degree 0, and neither overflows nor vanishes."""
    x, c = rng.uniform(0.5, 1.5, size=M), 2.0**exponent
    assert Lp(p).value(c * x) == c * c * Lp(p).value(x)
    assert Lp(p).conjugate(c * x) == c * c * Lp(p).conjugate(x)
    np.testing.assert_array_equal(Lp(p).weights_from_norms(c * x), Lp(p).weights_from_norms(x))
    np.testing.assert_array_equal(Lp(p).weights_from_dual(c * x), Lp(p).weights_from_dual(x))


def test_at_p_one_the_dual_weights_are_uniform_over_the_maximal_kernels():
    np.testing.assert_array_equal(Lp(1).weights_from_dual(np.array([2.0, 0.3, 2 - 1e-10, 1.9])), [0.5, 0.0, 0.5, 0.0])


def test_p_is_a_number_whatever_its_type():
    assert Lp(np.float32(2)).p == Lp(2).p == 2.0
    assert Lp(float("inf")).block_exponent == 2.0


@pytest.mark.parametrize("net", [ElasticNet(0.3), ConcaveBlock(RootPlusLinear(0.3))], ids=str)
def test_elastic_nets_are_linear_in_the_shares(net):
    """R(rho) = min_s 1/2 sum rho^2 ((1-lam)/s + lam) + psi(s), at s = rho for the linear psi of the Tikhonov form."""
    lam, rho = 0.3, np.array([0.2, 1.0, 3.0])
    slope = net.in_shares(3).cost
    values = [0.5 * np.sum(rho**2 * ((1 - lam) / s + lam)) + slope @ s for s in (rho, 0.99 * rho, 1.01 * rho)]
    assert values[0] == pytest.approx(net.value(rho), rel=1e-12)
    assert values[0] < min(values[1:])
