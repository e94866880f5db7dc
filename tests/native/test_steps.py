"""The step of the outer loop where R* has kinks: the bundle of cuts plus curvature, against cvxpy."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import pytest
from conic import optimum
from makers import make_problem
from native.bundles import random_bundle
from regularizers.instances import SCALE, M

from mklref.machines import machine_for
from mklref.native.steps import Cut, bundle_step
from mklref.regularizers import BlockNorm, HalfPower, Lp, Power, Tikhonov, WeightedL1, WeightedLp

SPARSE = (Lp(1), BlockNorm(1), Power(1), HalfPower(1), Tikhonov(1, 0.3), WeightedL1(SCALE), WeightedLp(1, SCALE))
every_sparse = pytest.mark.parametrize("regularizer", SPARSE, ids=str)


def truth(psi, cuts, W, centre):
    """The same program, declared: its value, with what it may be off by, and the multipliers of the cuts."""
    theta, s = cp.Variable(len(centre), nonneg=True), cp.Variable()
    above = [s >= cut.dual_term - 0.5 * cut.squares @ theta for cut in cuts]
    constraints = above if psi.normal is None else [*above, psi.normal @ theta == 1]
    penalty = psi.cost @ theta + psi.mu * cp.square(cp.sum(theta))
    program = cp.Problem(cp.Minimize(s + 0.5 * cp.sum_squares(W @ (theta - centre)) + penalty), constraints)
    return optimum(program, rel=1e-7, abs=1e-7), np.array([float(constraint.dual_value) for constraint in above])


@every_sparse
@pytest.mark.parametrize("cuts", [1, 2, 5])
def test_the_step_minimises_the_model(regularizer, cuts, rng):
    for _ in range(4):
        psi, bundle, W, centre = random_bundle(rng, regularizer, cuts)
        weights, value, mixture = bundle_step(psi, bundle, W, centre)
        assert np.all(weights >= 0.0)
        assert psi.normal is None or psi.normal @ weights == pytest.approx(1.0, abs=1e-12)
        model = max(cut.dual_term - 0.5 * cut.squares @ weights for cut in bundle)
        model += 0.5 * np.sum((W @ (weights - centre)) ** 2) + regularizer.weight_penalty(weights)
        assert value == pytest.approx(model, rel=1e-12)
        best, multipliers = truth(psi, bundle, W, centre)
        assert value == best
        assert np.all(mixture >= 0.0)
        assert mixture.sum() == pytest.approx(1.0, abs=1e-12)
        np.testing.assert_allclose(mixture, multipliers, atol=1e-4)


@every_sparse
def test_kernels_outside_the_first_choice_come_in(regularizer, rng):
    """With 100 kernels only 20 candidates start; the optimality conditions must still hold for every kernel."""
    if isinstance(regularizer, WeightedL1 | WeightedLp):
        regularizer = type(regularizer)(*([1] if isinstance(regularizer, WeightedLp) else []), np.linspace(0.5, 2, 100))
    psi, bundle, W, centre = random_bundle(rng, regularizer, cuts=3, rows=60, kernels=100)
    weights, value, mixture = bundle_step(psi, bundle, W, centre)
    assert np.count_nonzero(weights) > 10
    assert value == truth(psi, bundle, W, centre)[0]
    aggregate = mixture @ np.stack([cut.squares for cut in bundle])
    slope = W.T @ (W @ (weights - centre)) - 0.5 * aggregate + psi.gradient(weights)
    if psi.normal is not None:
        slope = slope / psi.normal
        slope -= slope[weights > 1e-6].mean()
    np.testing.assert_allclose(slope[weights > 1e-6], 0.0, atol=1e-6)
    assert slope.min() > -1e-6


@pytest.mark.parametrize("scale", [1e-150, 1e-8, 1.0, 1e8, 1e150])
def test_the_step_does_not_depend_on_units(scale, rng):
    """Kernels c K_m with weights theta/c, or J in other units: the same step."""
    psi, bundle, W, centre = random_bundle(rng, Lp(1), cuts=3)
    weights, value, mixture = bundle_step(psi, bundle, W, centre)
    scaled = [Cut(cut.beta, scale * cut.squares, scale * cut.dual_term) for cut in bundle]
    again, scaled_value, scaled_mixture = bundle_step(psi, scaled, np.sqrt(scale) * W, centre)
    np.testing.assert_allclose(again, weights, atol=1e-8)
    np.testing.assert_allclose(scaled_mixture, mixture, atol=1e-6)
    assert scaled_value == pytest.approx(scale * value, rel=1e-10)


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
    part = cut.of(np.array([2, 0]))
    assert part.at(here[[2, 0]]) == pytest.approx(cut.dual_term - 0.5 * squares[[2, 0]] @ here[[2, 0]])
    for _ in range(10):
        there = rng.exponential(size=M)
        assert cut.at(there) <= solved(there) + 1e-9
