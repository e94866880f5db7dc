"""The step: cuts, curvature and psi, minimised exactly, against cvxpy; and the problems that need more than one cut."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import pytest
from conic import optimum, solve
from makers import FAMILIES, SCALE, M, make_problem
from native.solving import loop_on, random_bundle

import mklref
from mklref.formulations.weighted_primal import psi
from mklref.machines import machine_for
from mklref.native import loop as native_loop, step as module
from mklref.native.curved import _WHOLE, _Dual, bends
from mklref.native.step import Cut, Step, shortened, step
from mklref.regularizers import (
    BlockNorm,
    ElasticNet,
    Fixed,
    Groups,
    HalfPower,
    Lp,
    Power,
    Tikhonov,
    WeightedL1,
    WeightedLp,
)
from mklref.solution import Status

SPARSE = (Lp(1), BlockNorm(1), Power(1), HalfPower(1), Tikhonov(1, 0.3), WeightedL1(SCALE), WeightedLp(1, SCALE))
TRIPLE = ((0, 1), (2, 3, 4), (5,))
BALLS = (*(Groups(TRIPLE, p, q) for p, q in ((0.5, 0.5), (1, 0), (0.2, 0.8), (0.3, 0.4))), Lp(1.0005), Lp(2))
CURVED = [
    regularizer
    for regularizer in (Lp(1.01), Lp(4 / 3), Lp(2), Lp(7), Lp(np.inf), Fixed(SCALE), *FAMILIES)
    if regularizer.weight_form == "min" and regularizer.polyhedral(M) is None
]
every_sparse = pytest.mark.parametrize("regularizer", SPARSE, ids=str)


def curved(W, q, centre, at):
    """1/2 b'H^{-1} b, b = W (at - centre), H = I + W diag((at - centre)/q) W'."""
    moved = at - centre
    if isinstance(at, np.ndarray):
        return 0.5 * (W @ moved) @ np.linalg.solve(np.eye(len(W)) + _WHOLE * (W * moved / q) @ W.T, W @ moved)
    terms = [_WHOLE * moved[m] / q_m * np.outer(W[:, m], W[:, m]) for m, q_m in enumerate(q)]
    return 0.5 * cp.matrix_frac(W @ moved, np.eye(len(W)) + sum(terms))


def bends_as(regularizer, cuts, W, centre):
    """Whether the curvature falls where weights grow: of sparse ones beside the centre's cut, alone or with all."""
    psi = regularizer.polyhedral(len(centre))
    return len(cuts) == 1 if psi is None else len(W) > np.count_nonzero(centre)


def curvature(regularizer, cuts, W, centre, at):
    """That of the model."""
    bent = bends_as(regularizer, cuts, W, centre)
    return curved(W, cuts[0].squares if bent else np.full(len(centre), np.inf), centre, at)


def truth(regularizer, cuts, W, centre, rel):
    """The same program, declared: its value, with what it may be off by, and the multipliers of the cuts."""
    theta, s = cp.Variable(len(centre), nonneg=True), cp.Variable()
    above = [s >= cut.dual_term - 0.5 * cut.squares @ theta for cut in cuts]
    penalty, domain = psi(regularizer, theta)
    program = cp.Problem(cp.Minimize(s + curvature(regularizer, cuts, W, centre, theta) + penalty), above + domain)
    return optimum(program, rel=rel, abs=rel), np.array([float(constraint.dual_value) for constraint in above])


@pytest.mark.sampled(13)
@pytest.mark.parametrize("regularizer", [*SPARSE, *BALLS], ids=str)
@pytest.mark.parametrize("cuts", [1, 2, 5])
def test_the_step_minimises_the_model(regularizer, cuts, rng, monkeypatch):
    monkeypatch.setattr(module, "_PROGRAMS", 30)
    monkeypatch.setattr(module, "_ALIKE", 1e-12)
    accuracy = (1e-7, 1e-4) if regularizer in SPARSE else (1e-6, 1e-3)
    for _ in range(2):
        bundle, W, centre = random_bundle(rng, regularizer, cuts, rows=4, kernels=4 if regularizer in SPARSE else 6)
        weights, value, mixture = step(regularizer, bundle, W, centre)
        assert np.all(weights >= 0.0)
        if bends_as(regularizer, bundle, W, centre) and not mixture[1:].any():
            bundle, mixture = bundle[:1], mixture[:1]
        penalty = regularizer.weight_penalty(weights)
        model = max(cut.dual_term - 0.5 * cut.squares @ weights for cut in bundle)
        model += penalty + curvature(regularizer, bundle, W, centre, weights)
        assert value == pytest.approx(model, rel=1e-12)
        best, multipliers = truth(regularizer, bundle, W, centre, accuracy[0])
        assert value == best
        assert mixture.min() >= 0.0
        assert mixture.sum() == pytest.approx(1.0, abs=1e-12)
        np.testing.assert_allclose(mixture, multipliers, atol=accuracy[1])


@every_sparse
def test_curvature_of_all_weights_is_as_if_it_were_in_the_root(regularizer, rng, monkeypatch):
    """In units of the largest weight of the centre, where they can be compared; of a root that does not bend."""
    bundle, W, centre = random_bundle(rng, regularizer, cuts=1, rows=5, kernels=4)
    units = regularizer.polyhedral(4).units
    unit = (centre * units).max()
    found = step(regularizer, bundle, W, centre, near=3.0)
    monkeypatch.setattr(module, "bends", lambda q, W, centre: np.zeros_like(q))
    whole = step(regularizer, bundle, np.vstack([W, np.sqrt(3.0) / unit * np.diag(units)]), centre)
    assert np.abs(found.weights - step(regularizer, bundle, W, centre).weights).max() > 1e-3 * unit
    np.testing.assert_allclose(found.weights, whole.weights, rtol=1e-6, atol=1e-7 * unit)
    assert found.value == pytest.approx(whole.value, rel=1e-9)


@every_sparse
def test_all_cuts_count_for_a_root_that_has_misled(regularizer, rng, calls_of):
    """It does not bend; the loop trusts it no longer once its models had nothing left to gain, but a gap."""
    bundle, W, centre = random_bundle(rng, regularizer, cuts=3, rows=5, kernels=4)
    found, bent = (step(regularizer, bundle, W, centre, trusted=trusted) for trusted in (False, True))
    near = step(regularizer, bundle, W, centre, near=1e-12)
    np.testing.assert_allclose(found.weights, near.weights, rtol=1e-6, atol=1e-8 * centre.max())
    assert found.mixture[1:].any()
    assert bent.value != pytest.approx(found.value, rel=1e-4)
    asked = calls_of(native_loop, "step", lambda *given: given[-1])
    loop = loop_on(make_problem(loss="hinge", regularizer=Power(1)))
    centre = loop.begin(np.ones(M))
    for loop.trust in (1.0, 0.1):
        loop._step(centre)
    assert asked == [True, False]


@every_sparse
def test_cuts_far_below_cost_no_digits(regularizer, rng):
    """Those of weights that were far too small have huge squares: the step is what it is without."""
    bundle, W, centre = random_bundle(rng, regularizer, cuts=2, rows=4, kernels=4)
    far = [Cut(bundle[0].beta, 1e9 * rng.uniform(0.5, 1.0, size=4), 0.0) for _ in range(3)]
    found, alone = step(regularizer, [*bundle, *far], W, centre), step(regularizer, bundle, W, centre)
    np.testing.assert_allclose(found.weights, alone.weights, rtol=1e-5, atol=1e-8 * centre.max())
    np.testing.assert_allclose(found.mixture, [*alone.mixture, 0.0, 0.0, 0.0], atol=1e-6)


@pytest.mark.sampled(7)
@every_sparse
def test_kernels_outside_the_first_choice_come_in(regularizer, rng):
    """With 100 kernels only 20 candidates start; the optimality conditions must still hold for every kernel."""
    if isinstance(regularizer, WeightedL1 | WeightedLp):
        regularizer = type(regularizer)(*([1] if isinstance(regularizer, WeightedLp) else []), np.linspace(0.5, 2, 100))
    bundle, _, centre = random_bundle(rng, regularizer, cuts=3, rows=1, kernels=100)
    W, centre = 0.3 * rng.normal(size=(60, 100)), np.maximum(centre, 1e-3 * centre.max())  # too many weights to bend
    weights, value, mixture = step(regularizer, bundle, W, centre)
    psi_of_all = regularizer.polyhedral(100)
    assert np.count_nonzero(weights) > 10
    assert value == truth(regularizer, bundle, W, centre, 1e-7)[0]
    aggregate = mixture @ np.stack([cut.squares for cut in bundle])
    slope = W.T @ (W @ (weights - centre)) - 0.5 * aggregate + psi_of_all.gradient(weights)
    if psi_of_all.normal is not None:
        slope = slope / psi_of_all.normal
        slope -= slope[weights > 1e-6].mean()
    np.testing.assert_allclose(slope[weights > 1e-6], 0.0, atol=1e-6)
    assert slope.min() > -1e-6


def test_weights_of_other_kernels_stay_zero(rng):
    """The step on some of the kernels is that of the problem that has no others."""
    bundle, W, centre = random_bundle(rng, Lp(1), cuts=3)
    few = np.array([0, 2])
    centre[1] = 0.0
    centre[3:] = 0.0
    centre /= centre.sum()
    weights, value, _ = step(Lp(1), bundle, W[:, few], centre, few)
    small = [Cut(cut.beta, cut.squares[few], cut.dual_term) for cut in bundle]
    alone = step(Lp(1), small, W[:, few], centre[few])
    np.testing.assert_array_equal(weights[few], alone.weights)
    assert weights.sum() == pytest.approx(1.0)
    assert value == alone.value


@pytest.mark.parametrize("scale", [1e-150, 1e-8, 1.0, 1e8, 1e150])
def test_the_step_does_not_depend_on_units(scale, rng):
    """Kernels c K_m with weights theta/c, or J in other units: the same step."""
    bundle, W, centre = random_bundle(rng, Lp(1), cuts=3)
    weights, value, mixture = step(Lp(1), bundle, W, centre)
    scaled = [Cut(cut.beta, scale * cut.squares, scale * cut.dual_term) for cut in bundle]
    again, scaled_value, scaled_mixture = step(Lp(1), scaled, np.sqrt(scale) * W, centre)
    np.testing.assert_allclose(again, weights, rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(scaled_mixture, mixture, atol=1e-6)
    assert scaled_value == pytest.approx(scale * value, rel=1e-10, abs=0.0)


def test_cuts_are_lower_bounds_of_the_machine(rng):
    """D - 1/2 q'theta <= J(theta), with equality where the cut was made."""
    machine = machine_for(make_problem(loss="hinge", seed=11), None)

    def solved(weights):
        machine.move(weights)
        machine.solve(1e-11)
        machine.solve(1e-11)
        return machine.value()

    here = rng.uniform(0.2, 1.0, size=M)
    value = solved(here)
    squares = machine.forms.squares.copy()
    cut = Cut(machine.beta.copy(), squares, value + 0.5 * here @ squares)
    assert cut.at(here) == pytest.approx(value, rel=1e-12)
    for _ in range(10):
        there = rng.exponential(size=M)
        assert cut.at(there) <= solved(there) + 1e-9


# --- one cut under a curved psi: Newton's method -----------------------------------------------------------------


def ridge_machine(regularizer, rng, ridge=0.3, rank=12, spread=0.5):
    """q, W and theta of a ridge machine on random kernels: W = L^{-1}(K_m beta)_m, L L' = Q + ridge."""
    n = 12
    features = rng.normal(size=(M, n, rank)) * 10.0 ** rng.uniform(-0.5, 0.5, size=(M, 1, 1)) / np.sqrt(rank)
    kernels = features @ features.transpose(0, 2, 1)
    theta = regularizer.weights_from_norms(10.0 ** rng.uniform(-spread, 0.0, size=M))
    root = np.linalg.cholesky(np.tensordot(theta, kernels, 1) + ridge * np.eye(n))
    beta = np.linalg.solve(root.T, np.linalg.solve(root, rng.normal(size=n)))
    images = kernels @ beta
    return images @ beta, np.linalg.solve(root, images.T), theta


def newton(regularizer, q, W, theta):
    """The weights of the step with the cut of the centre alone."""
    return step(regularizer, [Cut(np.zeros(1), q, 0.5 * float(q @ theta))], W, theta).weights


def bending(regularizer, q):
    """q, or infinity where R* is to become finite first: there the model is quadratic."""
    return q if regularizer.dual_scale(np.sqrt(q)) >= 1.0 else np.full(len(q), np.inf)


def model(regularizer, q, W, theta, at):
    curvature = curved(W, bending(regularizer, q), theta, at)
    return -0.5 * q @ (at - theta) + curvature + regularizer.weight_penalty(at)


def minimum_by_cvxpy(regularizer, q, W, theta):
    """The minimum of the model, and its error."""
    at = cp.Variable(M, nonneg=True)
    penalty, domain = psi(regularizer, at)
    curvature = curved(W, bending(regularizer, q), theta, at)
    program = cp.Problem(cp.Minimize(-0.5 * q @ (at - theta) + curvature + penalty), domain)
    error = solve(program)
    return program.value, error


def has_kinks_across_groups(regularizer):
    """Whether R* is the largest of the groups' norms; the way along the smooth relatives may then end early."""
    return isinstance(regularizer, Groups) and regularizer.p > 0 and regularizer.p + regularizer.q == 1


CASES = ({}, {"ridge": 3.0}, {"ridge": 0.1}, {"rank": 2}, {"spread": 4})


@pytest.mark.sampled(12)
@pytest.mark.parametrize("regularizer", [member for member in CURVED if not has_kinks_across_groups(member)], ids=str)
def test_one_cut_reaches_the_minimum_of_the_model(regularizer, rng):
    """That in which each K_m is what is known of it."""
    for case in CASES:
        assert_minimum(regularizer, *ridge_machine(regularizer, rng, **case))


def assert_minimum(regularizer, q, W, theta):
    found = newton(regularizer, q, W, theta)
    assert np.all(found >= 0.0)
    value, error = minimum_by_cvxpy(regularizer, q, W, theta)
    assert model(regularizer, q, W, theta, found) == pytest.approx(value, abs=error + 2e-6 * (1.0 + q @ theta))


def test_the_model_is_quadratic_as_long_as_the_conjugate_is_infinite(rng):
    regularizer = next(one for one in CURVED if not one.supercoercive)
    q, W, theta = ridge_machine(regularizer, rng)
    assert np.isinf(regularizer.conjugate(np.sqrt(q)))
    assert_minimum(regularizer, q, W, theta)


def test_the_way_leads_on_from_weights_of_0():
    """Of one kernel J is 1/2 q theta_c^2/theta, which all of 1/q repeats: H = 0 at theta = 0, below the threshold."""
    q, theta = np.array([1e-4]), np.array([1.2])
    found = newton(ElasticNet(0.4), q, np.sqrt(q / theta)[:, None], theta)
    assert found == pytest.approx(np.sqrt(q) * theta / (0.6 + 0.4 * np.sqrt(q) * theta), rel=1e-4)
    assert bends(np.array([5e-324, 1.0]), np.eye(2), np.zeros(2)).tolist() == [0.0, _WHOLE]


@pytest.mark.parametrize("regularizer", [Power(1), HalfPower(1), Tikhonov(1, 0.3), WeightedL1([1.0])], ids=str)
def test_a_weight_that_is_a_hundredfold_too_small_is_right_after_one_step(regularizer):
    """Of one kernel J is 1/2 q theta_c^2/theta; that J >= 0 must not hold it back at twice its weight."""
    q, centre = np.array([1e4]), np.array([1e-2])
    cuts = [Cut(np.zeros(1), q, float(q @ centre)), Cut(np.zeros(1), np.zeros(1), 0.0)]
    W = np.vstack([np.sqrt(q / centre), np.zeros(1)])
    found = step(regularizer, cuts, W, centre).weights
    grid = np.vstack([found, np.geomspace(1e-2, 1e2, 4001)[:, None]])
    merits = [0.5 * float(q[0]) * centre[0] ** 2 / w[0] + regularizer.weight_penalty(w) for w in grid]
    assert merits[0] < 1.2 * min(merits)


@pytest.mark.parametrize("regularizer", [Power(1), HalfPower(1), Tikhonov(1, 1e-9), WeightedL1([1.0, 1.0])], ids=str)
def test_a_kernel_that_moves_no_free_sample_is_held_back_by_the_other_cuts(regularizer):
    """Its curvature is 0: of the centre's cut alone its weight is 1e9 and more, where J were far below 0."""
    q, centre = np.array([4.0, 1e3]), np.array([1.0, 1.0])
    cuts = [Cut(np.zeros(1), q, 600.0), Cut(np.zeros(1), np.zeros(2), 0.0)]
    W = np.array([[1.0, 0.0], [0.0, 0.0], [0.0, 0.0]])
    found = step(regularizer, cuts, W, centre)
    assert found.weights.max() < 10.0
    assert found.mixture[1] > 0.0


@pytest.mark.parametrize("regularizer", [Lp(1.1), BlockNorm(1.04), WeightedLp(1.1, np.linspace(0.5, 2, 100))], ids=str)
def test_the_whole_curvature_counts_where_only_relatives_with_many_kernels_have_the_minimum_inside(regularizer, rng):
    """theta is that of q - 2 W'W (theta - theta_c), for W and not for half of it."""
    q = rng.uniform(0.5, 1.0, size=100)
    centre = regularizer.weights_from_dual(np.sqrt(q * rng.uniform(0.9, 1.1, size=100)))
    along, across = q * np.sqrt(5.0 / (q @ centre)), rng.uniform(-1.0, 1.0, size=100)
    W = np.stack([along, across * np.sqrt(0.05 * (q @ centre)) / np.linalg.norm(centre)])
    found = step(regularizer, 2 * [Cut(np.zeros(1), q, 0.0)], W, centre).weights  # with several it is quadratic
    reached = regularizer.weights_from_dual(np.sqrt(q - 2.0 * W.T @ (W @ (found - centre))))
    np.testing.assert_allclose(found, reached, atol=1e-3 * found.max())


@pytest.mark.parametrize("length", [10.0, 1e5, 1e100])
def test_a_step_beyond_the_minimum_is_shortened_to_less_than_twice_as_far(length):
    """Along (1, 1), with psi = (theta_1 + theta_2)/2: -6 t + t + t^2/2 is smallest at 5, however long the step was."""
    cut, centre = Cut(np.zeros(1), np.array([8.0, 4.0]), 6.0), np.ones(2)
    found = Step(centre + length, value=np.inf, mixture=np.ones(1))
    best = shortened(Power(1), cut, np.array([[1.0, 0.0]]), centre, np.arange(2), found)
    t = best.weights[0] - 1.0
    assert best.weights[1] - 1.0 == pytest.approx(t)
    assert 2.5 <= t < 10.0
    assert best.value == pytest.approx(cut.at(centre) + 1.0 - 5.0 * t + 0.5 * t**2)


def test_what_rises_is_not_shortened_further(calls_of):
    """Of 40, 10, 2.5 and 0.625 the last one says that the third is best."""
    calls = calls_of(Power, "weight_penalty")
    test_a_step_beyond_the_minimum_is_shortened_to_less_than_twice_as_far(40.0)
    assert len(calls) == 4


@pytest.mark.sampled(4)
@pytest.mark.parametrize("regularizer", CURVED, ids=str)
def test_the_way_there_leads_down(regularizer, rng):
    """-q/2'd + psi(theta + d) - psi(theta) <= 0, also where the model has its minimum inside the weight set."""
    for ridge in (10.0, 0.3, 0.02):
        for spread in (0.5, 3.0):
            q, W, theta = ridge_machine(regularizer, rng, ridge=ridge, spread=spread)
            for curvature in (W, W[:0]):
                if len(curvature) == 0 and not np.isfinite(regularizer.conjugate(np.sqrt(q))):
                    continue  # a linear model that is not bounded from below
                found = newton(regularizer, q, curvature, theta)
                direction = found - theta
                change = -0.5 * q @ direction + regularizer.weight_penalty(found) - regularizer.weight_penalty(theta)
                assert change <= 1e-9 * (q @ theta)


@pytest.mark.parametrize(
    ("regularizer", "most"),
    [(ElasticNet(1e-7), 3.0), (ElasticNet(1e-7, "ivanov"), 3.0), (Power(1.0001), 4.7), (Lp(2), 4.0)],
    ids=str,
)
def test_each_relative_begins_near_its_minimum(regularizer, most, calls_of):
    """Newton directions for each: 4.0, 4.1 and 6.0 from the minimum of the one before, 2.5, 2.4 and 3.0 as it is.

    Lp(2) has one relative, itself: 4.3 if a last direction were asked whether it is the last, 3.3 as it is.
    """
    directions, minima = (calls_of(_Dual, name) for name in ("_direction", "minimised"))
    problem = make_problem(loss="squared", seed=3, n=40, M=20, regularizer=regularizer)
    assert mklref.solve(problem).status is Status.OPTIMAL
    assert len(directions) < most * len(minima)


def test_a_way_past_a_threshold_is_taken_only_where_it_leads_down(rng, monkeypatch):
    """Where weights overflow their slopes are wrong, and nothing else tells how far it is."""
    regularizer, asked = Lp(1.01), []
    q, W, theta = ridge_machine(regularizer, rng, rank=2)
    W *= 10.0
    expected = model(regularizer, q, W, theta, newton(regularizer, q, W, theta))
    monkeypatch.setattr(_Dual, "_beyond_the_threshold", lambda *line: asked.append(line) or 1e9)
    assert model(regularizer, q, W, theta, newton(regularizer, q, W, theta)) == pytest.approx(expected)
    assert asked


def test_the_way_past_a_threshold_ends_before_the_minimum_where_the_slope_is_half_at_most(rng):
    """F' by differences of F, along a line on which the shares of two cuts move as well."""
    Q, D, W = rng.exponential(size=(2, M)), np.array([9.0, -9.0]), rng.normal(size=(3, M))
    dual = _Dual(Lp(1.5), 0.7, Q, D, W, np.ones(M), 0.1 / Q[0])
    z, share, dz, dshare = W @ np.ones(M), np.array([0.6, 0.4]), rng.normal(size=3), np.array([0.5, -0.5])

    def slope(t, h=1e-6):
        ahead, behind = (dual.value(z + s * dz, share + s * dshare)[0] for s in (t + h, t - h))
        return (ahead - behind) / (2.0 * h)

    dz, dshare = (dz, dshare) if slope(0.0) < 0.0 else (-dz, -dshare)
    end = dual._beyond_the_threshold(z, share, dz, dshare, 1e3, 0.5 * slope(0.0))
    assert 0.51 * slope(0.0) <= slope(end) <= 0.0


def test_where_all_of_qhat_is_cut_off_at_0_the_slope_is_that_of_the_rest():
    """With W = I, qhat = 1e-3 - 2 z is cut off along z = 0.1 - t: F = 1/2 ||z||^2 has half of its slope at t = 0.05."""
    dual = _Dual(Lp(1.5), 1.0, np.full((1, M), 1e-3), np.zeros(1), np.eye(M), np.zeros(M), np.zeros(M))
    end = dual._beyond_the_threshold(np.full(M, 0.1), np.ones(1), -np.ones(M), np.zeros(1), 0.16, -0.05 * M)
    assert 0.05 <= end < 0.1
