"""Every loss against its definition: conjugate, Fenchel-Young, box, atoms, native facts."""

from __future__ import annotations

from itertools import pairwise

import cvxpy as cp
import numpy as np
import pytest
from makers import LOSSES, random_targets

from mklref.exceptions import InvalidParameter, InvalidType, NotApplicable
from mklref.formulations.dual import V_star
from mklref.losses import (
    LOSSES as BY_NAME,
    Costs,
    EpsilonInsensitive,
    Hinge,
    Huber,
    Logistic,
    Pinball,
    QuadraticDual,
    Squared,
    SquaredEpsilonInsensitive,
    as_loss,
)

N = 40
T = np.linspace(-50.0, 50.0, 200_001)
"""Scores over which suprema are taken; with this spacing a unit quadratic is missed by at most 3.2e-8."""

every_loss = pytest.mark.parametrize("loss", LOSSES, ids=str)


@pytest.fixture
def y(loss, rng):
    y = random_targets(rng, N, loss)
    return 2.0 * y + 0.3 if loss.targets == "real" else y


@pytest.fixture
def costs(rng):
    return rng.uniform(0.2, 3.0, size=N)


def inside(loss, y, rng, margin=0.02):
    """Slopes in the interior of the domain; half-lines and lines are cut at 4."""
    lower, upper = (np.clip(bound, -4.0, 4.0) for bound in loss.domain(y))
    return lower + (upper - lower) * rng.uniform(margin, 1.0 - margin, size=len(y))


@every_loss
def test_the_text_of_a_loss_reads_back_as_it(loss):
    assert as_loss(str(loss)) == loss
    near = [1 / 3, 1 / 3 + 1e-9, np.nextafter(1 / 3, 1.0)]
    assert len({str(type(loss)(x)) for x in near}) == len(near) if vars(loss) else str(loss) == loss.name


def test_every_loss_is_here():
    assert {type(loss) for loss in LOSSES} == set(BY_NAME.values())


@every_loss
def test_conjugate_is_the_supremum(loss, y, rng):
    s = inside(loss, y, rng)
    for i in range(0, N, 4):
        t = np.concatenate([T, loss.kinks(y)[:, i]])
        supremum = np.max(s[i] * t - loss.value(t, np.full(len(t), y[i])))
        assert loss.conjugate(s[i : i + 1], y[i : i + 1])[0] == pytest.approx(supremum, abs=1e-7)


@every_loss
def test_conjugate_is_infinite_outside_its_domain_and_finite_on_the_boundary(loss, y):
    lower, upper = loss.domain(y)
    for bound, outward in ((lower, -1.0), (upper, 1.0)):
        finite = np.isfinite(bound)
        s, target = bound[finite], y[finite]
        assert np.all(np.isfinite(loss.conjugate(s, target)))
        beyond = s + outward * 0.01
        assert np.all(loss.conjugate(beyond, target) == np.inf)
        # and rightly so: s t - V(t) grows without bound along the outward direction
        far = outward * 1e6
        gain = beyond * far - loss.value(np.full(len(s), far), target)
        assert np.all(gain > 1e3)


@every_loss
def test_fenchel_young(loss, y, rng):
    """V(t) + V*(s) >= s t for random pairs, with equality for s in the subdifferential at t."""
    for scale in (0.3, 1.0, 5.0, 40.0):
        t = scale * rng.normal(size=N)
        s = inside(loss, y, rng)
        slack = loss.value(t, y) + loss.conjugate(s, y) - s * t
        assert slack.min() >= -1e-12 * scale
        s = loss.subgradient(t, y)
        np.testing.assert_allclose(loss.value(t, y) + loss.conjugate(s, y), s * t, rtol=1e-12, atol=1e-12 * scale)


@every_loss
def test_subgradient_supports_the_loss(loss, y, rng):
    t, u = 3.0 * rng.normal(size=(2, N))
    assert np.all(loss.value(u, y) >= loss.value(t, y) + loss.subgradient(t, y) * (u - t) - 1e-12)


@every_loss
def test_subgradient_at_a_kink_lies_between_the_slopes_beside_it(loss, y):
    for kink in loss.kinks(y):
        left, at, right = (loss.subgradient(kink + shift, y) for shift in (-1e-9, 0.0, 1e-9))
        assert np.all(left - 1e-8 <= at)
        assert np.all(at <= right + 1e-8)
        if isinstance(loss, Hinge | Pinball):  # where several would do, as its docstring says
            assert not at.any()


@every_loss
def test_slope_is_linear_between_kinks(loss, y, rng):
    """V' has zero second differences between kinks, save for the analytic logistic loss."""
    if isinstance(loss, Logistic):
        assert loss.kinks(y).shape == (0, N)
        return
    kinks = loss.kinks(y)
    edges = np.sort(np.vstack([[y - 3.0], kinks, [y + 3.0]]), axis=0)
    for low, high in pairwise(edges):
        a, b = np.sort(rng.uniform(0.01, 0.99, size=(2, N)), axis=0)
        one, other = low + a * (high - low), low + b * (high - low)
        bend = loss.subgradient(one, y) + loss.subgradient(other, y) - 2.0 * loss.subgradient((one + other) / 2, y)
        np.testing.assert_allclose(bend, 0.0, atol=1e-12)


@every_loss
def test_smoothness_is_the_lipschitz_constant_of_the_slope(loss, y, rng):
    t = np.concatenate([loss.kinks(y), np.zeros((1, N))])[0]
    steepest = 0.0
    for width in (1e-3, 0.1, 1.0, 10.0):
        u, v = t + width * rng.normal(size=(2, N))
        slopes = np.abs(loss.subgradient(u, y) - loss.subgradient(v, y))
        assert np.all(slopes <= loss.smoothness * np.abs(u - v) * (1 + 1e-9) + 1e-15)
        steepest = max(steepest, np.max(slopes / np.abs(u - v)))
    assert steepest > min(0.99 * loss.smoothness, 50.0)


def test_curvature_is_the_second_derivative(rng):
    """Of the loss that has no quadratic dual; the others need none and say so."""
    y, t, h = rng.choice([-1.0, 1.0], 20), 3.0 * rng.normal(size=20), 1e-5
    loss = Logistic()
    differences = (loss.subgradient(t + h, y) - loss.subgradient(t - h, y)) / (2.0 * h)
    np.testing.assert_allclose(loss.curvature(t, y), differences, rtol=1e-8)
    with pytest.raises(NotApplicable, match=r"squared does not define curvature.*reference.solve"):
        Squared().curvature(t, y)
    with pytest.raises(NotApplicable, match="squared has no cvxpy dual; give its class Squared dual_atom"):
        Squared().dual_atom(t, y, Costs(t, t))


@every_loss
def test_box_is_where_the_dual_value_is_finite(loss, y, costs, rng):
    lower, upper = loss.box(y, costs)
    beta = -costs * inside(loss, y, rng)
    assert np.all((lower <= beta) & (beta <= upper))
    assert np.isfinite(loss.dual_value(beta, y, costs))
    corner = np.where(np.isfinite(lower), lower, np.where(np.isfinite(upper), upper, 0.0))
    assert np.isfinite(loss.dual_value(corner, y, costs))
    for bound, outward in ((lower, -1.0), (upper, 1.0)):
        for i in np.flatnonzero(np.isfinite(bound))[:5]:
            outside = beta.copy()
            outside[i] = bound[i] + outward * 1e-13  # a few hundred times what rounding explains
            assert loss.dual_value(outside, y, costs) == -np.inf


@every_loss
def test_dual_value_is_finite_on_the_box_whatever_the_costs_round_to(loss, rng):
    """c * bound / c may miss the bound by a rounding error."""
    n = 20_000
    costs = np.exp(rng.uniform(-20, 20, size=n))
    y = random_targets(rng, n, loss)
    for bound in loss.box(y, costs):
        beta = np.where(np.isfinite(bound), bound, 0.0)
        assert np.isfinite(loss.dual_value(beta, y, costs))


@every_loss
def test_quadratic_dual_is_the_perspective_of_the_conjugate(loss, y, costs, rng):
    quadratic = loss.quadratic_dual(y)
    if quadratic is None:
        assert isinstance(loss, Logistic)
        return
    lower, upper = loss.box(y, costs)
    np.testing.assert_array_equal(costs * quadratic.lower, lower)
    np.testing.assert_array_equal(costs * quadratic.upper, upper)
    assert QuadraticDual(y, y, y).absolute == QuadraticDual(y, y, y).curvature == 0.0
    beta = -costs * inside(loss, y, rng)
    by_parts = (
        -quadratic.linear * beta + quadratic.absolute * np.abs(beta) + quadratic.curvature * beta**2 / (2 * costs)
    )
    np.testing.assert_allclose(by_parts, costs * loss.conjugate(-beta / costs, y), rtol=1e-12, atol=1e-13)


@every_loss
def test_atom_equals_the_value(loss, y, rng):
    t = cp.Variable(N)
    atom = loss.atom(t, y)
    assert atom.is_convex()
    for scale in (0.5, 5.0):
        t.value = scale * rng.normal(size=N)
        np.testing.assert_allclose(atom.value, loss.value(t.value, y), rtol=1e-12, atol=1e-12)


@every_loss
def test_dual_atom_equals_minus_the_dual_value(loss, y, costs, rng):
    parameters = Costs(cp.Parameter(N, pos=True), cp.Parameter(N, pos=True))
    beta = cp.Variable(N)
    atom, constraints = V_star(loss, beta, y, parameters)
    program = cp.Problem(cp.Minimize(atom), constraints)
    assert program.is_dcp(dpp=True)
    parameters.value.value, parameters.inverse.value = costs, 1.0 / costs
    beta.value = -costs * inside(loss, y, rng)
    assert atom.value == pytest.approx(-loss.dual_value(beta.value, y, costs), rel=1e-12)
    assert all(constraint.value(1e-12) for constraint in constraints)


@every_loss
def test_dual_atom_is_restricted_to_the_box(loss, y, costs, rng):
    """Beyond each finite bound either a constraint is violated or the atom is infinite."""
    beta = cp.Variable(N)
    atom, constraints = V_star(loss, beta, y, Costs(costs, 1.0 / costs))
    within = -costs * inside(loss, y, rng)
    for bound, outward in zip(loss.box(y, costs), (-1.0, 1.0), strict=True):
        for i in np.flatnonzero(np.isfinite(bound))[:5]:
            outside = within.copy()
            outside[i] = bound[i] + outward * 0.01
            beta.value = outside
            assert atom.value == np.inf or not all(constraint.value(1e-6) for constraint in constraints)


@pytest.mark.parametrize(
    ("u", "entropy"),
    [
        (0.0, 0.0),
        (1e-300, 1e-300 * (1 + 300 * np.log(10))),
        (1e-20, 1e-20 * (1 + 20 * np.log(10))),
        (0.3, -0.3 * np.log(0.3) - 0.7 * np.log(0.7)),
        (1.0 - 2.0**-50, 2.0**-50 * (1 + 50 * np.log(2))),
        (1.0, 0.0),
    ],
)
def test_logistic_conjugate_keeps_its_digits_at_the_ends(u, entropy):
    """u log u + (1 - u) log(1 - u), to relative accuracy even where 1 - u rounds to 1."""
    assert Logistic().conjugate(np.array([-u]), np.ones(1))[0] == pytest.approx(-entropy, rel=1e-13, abs=0.0)


def test_logistic_does_not_overflow():
    far = np.array([-1e4, 1e4])
    np.testing.assert_array_equal(Logistic().value(far, np.ones(2)), [1e4, 0.0])
    np.testing.assert_array_equal(Logistic().subgradient(far, np.ones(2)), [-1.0, 0.0])


@pytest.mark.parametrize(
    ("make", "value", "says"),
    [
        (EpsilonInsensitive, -0.1, r"epsilon = -0\.1 must lie in \[0, inf\)"),
        (SquaredEpsilonInsensitive, np.inf, r"epsilon = inf must lie in \[0, inf\)"),
        (Huber, 0.0, r"delta = 0\.0 must lie in \(0, inf\)"),
        (Pinball, 1.0, r"tau = 1\.0 must lie in \(0, 1\)"),
    ],
)
def test_parameters_outside_their_interval_are_refused(make, value, says):
    with pytest.raises(InvalidParameter, match=says):
        make(value)


def test_a_loss_is_found_by_name():
    assert as_loss("hinge") == Hinge()
    defaults = "epsilon_insensitive:0.1", "squared_epsilon_insensitive:0.1", "huber:1", "pinball:0.5"
    assert [str(as_loss(text.partition(":")[0])) for text in defaults] == [*defaults]
    assert as_loss(Huber(3.0)) == Huber(3.0)


def test_unknown_losses_are_refused():
    with pytest.raises(InvalidParameter, match=r"loss = 'hing' is unknown; known names: hinge, .*one_class"):
        as_loss("hing")
    with pytest.raises(InvalidType, match=r"loss is int; give a name"):
        as_loss(3)
    for text, says in (("huber:x", "'x' is no number"), ("huber:-1", r"delta = -1\.0"), ("hinge:1", "no parameter")):
        with pytest.raises(InvalidParameter, match=says):
            as_loss(text)
