"""The bundle step where psi is a curved ball: against cvxpy, and on the problems that need it."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import cvxpy as cp
import numpy as np
import pytest
from conic import optimum

import mklref
from mklref.formulations.weighted_primal import psi
from mklref.native.mixture import mixed_step
from mklref.native.steps import Cut
from mklref.regularizers import Groups, Lp
from mklref.solution import Status

PAIRS = ((0, 1), (2, 3, 4), (5,))
CURVED = (
    Groups(PAIRS, 0.5, 0.5),
    Groups(PAIRS, 1, 0),
    Groups(PAIRS, 0.2, 0.8),
    Groups(PAIRS, 0.3, 0.4),
    Lp(1.0005),
    Lp(2),
)


@pytest.fixture(scope="module")
def random_problem():
    """That of the validation folder, by its path: the folder is no part of the installed package."""
    path = Path(__file__).parents[2] / "validation" / "robustness.py"
    spec = importlib.util.spec_from_file_location("robustness", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.random_problem


def random_bundle(rng, regularizer, cuts):
    """Cuts in no order, a curvature, and a centre in the ball."""
    bundle = [Cut(rng.normal(size=5), rng.uniform(0.05, 1.0, size=6), 1.0 + 0.1 * rng.normal()) for _ in range(cuts)]
    return bundle, 0.3 * rng.normal(size=(4, 6)), regularizer.weights_from_norms(rng.exponential(size=6))


def truth(regularizer, cuts, W, centre):
    """The same program, declared: its value, with what it may be off by, and the multipliers of the cuts."""
    theta, s = cp.Variable(len(centre), nonneg=True), cp.Variable()
    above = [s >= cut.dual_term - 0.5 * cut.squares @ theta for cut in cuts]
    penalty, ball = psi(regularizer, theta)
    program = cp.Problem(cp.Minimize(s + 0.5 * cp.sum_squares(W @ (theta - centre)) + penalty), above + ball)
    return optimum(program, rel=1e-6, abs=1e-6), np.array([float(constraint.dual_value) for constraint in above])


@pytest.mark.sampled(3)
@pytest.mark.parametrize("regularizer", CURVED, ids=str)
@pytest.mark.parametrize("cuts", [1, 2, 5])
def test_the_step_minimises_the_model(regularizer, cuts, rng):
    for _ in range(3):
        bundle, W, centre = random_bundle(rng, regularizer, cuts)
        weights, value, mixture = mixed_step(regularizer, bundle, W, centre)
        assert regularizer.weight_penalty(weights) == 0.0
        model = max(cut.at(weights) for cut in bundle) + 0.5 * np.sum((W @ (weights - centre)) ** 2)
        assert value == pytest.approx(model, rel=1e-12)
        best, multipliers = truth(regularizer, bundle, W, centre)
        assert value == best
        assert mixture.min() >= 0.0
        assert mixture.sum() == pytest.approx(1.0, abs=1e-12)
        np.testing.assert_allclose(mixture, multipliers, atol=1e-3)


@pytest.mark.parametrize(("seed", "family"), [(46, "groups"), (565, "tikhonov"), (293, "elastic_net")])
def test_problems_whose_solution_is_at_a_kink_are_solved(seed, family, random_problem):
    """J has a kink, or nearly one, where these end: one dual point does not close the gap there, a mixture does."""
    assert mklref.solve(random_problem(seed, family)).status is Status.OPTIMAL
