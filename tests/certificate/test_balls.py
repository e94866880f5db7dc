"""Certificates against ball arithmetic: what they claim of their own points, at every scale."""

from __future__ import annotations

import numpy as np
import pytest
from certificate.balls import objectives
from flint import arb
from makers import LOSSES, make_targets

from mklref import Problem, certify, solve
from mklref.regularizers import Fixed, Groups, Lp, Tikhonov

REGULARIZERS = (
    Lp(1),
    Lp(4 / 3),
    Lp(np.inf),
    Fixed([1.0, 0.5, 0.3]),
    Tikhonov(1.5, 0.7),
    Groups([[0, 2], [1]], 0.3, 0.4),
    Groups([[0, 2], [1]], 0.5, 0.5),
)
SCALES = (0, -450, 450)
"""Powers of 2 by which the kernels are multiplied; C is divided by the same, so that the scores keep their size."""


def exactly_semidefinite(loss, regularizer, power, rng, ridge=1.0, n=8):
    """Three Gram matrices of integer features, exact in float64."""
    X = np.rint(16 * rng.normal(size=(n, 3)))
    features = [np.rint(16 * rng.normal(size=(n, rank))) for rank in (2, n + 2, n)]
    K = np.stack([F @ F.T + ridge * np.eye(n) for F in features]) * 2.0**-10
    C = 1.0 / (0.3 * n) if loss.intercept_cost else 0.75
    scale = 1.0 if loss.intercept_cost or loss.targets == "real" else 2.0**-power
    return Problem(
        K * 2.0**power,
        make_targets(rng, X / 16, loss),
        C=C * scale,
        loss=loss,
        regularizer=regularizer,
        intercept=loss.intercept != "forbidden",
    )


@pytest.mark.sampled(6)
@pytest.mark.parametrize("ridge", [0.0, 1.0], ids=["singular", "definite"])
@pytest.mark.parametrize("power", SCALES)
@pytest.mark.parametrize("regularizer", REGULARIZERS, ids=str)
@pytest.mark.parametrize("loss", LOSSES, ids=str)
def test_rigorous_bounds_are_bounds_of_the_objectives_at_their_own_point(loss, regularizer, power, ridge, rng):
    problem = exactly_semidefinite(loss, regularizer, power, rng, ridge)
    size = float(np.abs(problem.costs).max())
    points = (
        (rng.normal(size=8), None, None),
        (rng.normal(size=8), rng.exponential(size=3), None),
        (rng.integers(-4, 5, size=8) / 4.0, np.array([0.5, 0.125, 0.25]), 0.25 * problem.intercept),  # scores are exact
    )
    for beta, weights, b in points:
        found = certify(problem, size * beta, weights=weights, intercept=b, rigorous=True, backend="exact")
        dual, primal = objectives(problem, found.dual_coef, found.weights, found.intercept)
        for bound, above, true in ((found.lower, False, dual), (found.upper, True, primal)):
            if np.isfinite(bound):
                assert not (arb(bound) < true if above else arb(bound) > true), (bound, true)


@pytest.mark.parametrize("backend", ["fast", "sliced", "exact"])
@pytest.mark.parametrize("loss", LOSSES, ids=str)
def test_and_hardly_wider_than_they_have_to_be(loss, backend, rng):
    problem = exactly_semidefinite(loss, Lp(4 / 3), 0, rng)
    solution = solve(problem)
    found = certify(
        problem,
        solution.dual_coef,
        weights=solution.weights,
        intercept=solution.intercept,
        rigorous=True,
        backend=backend,
    )
    dual, primal = objectives(problem, found.dual_coef, found.weights, found.intercept)
    size = abs(found.upper) + float(found.delta.max()) * float(np.abs(found.dual_coef).sum()) ** 2
    assert 0 <= float(dual - arb(found.lower)) <= 1e-11 * size
    assert 0 <= float(arb(found.upper) - primal) <= 1e-11 * size
    plain = certify(problem, found.dual_coef, weights=found.weights, intercept=found.intercept)
    assert abs(float(dual - arb(plain.lower))) <= 1e-12 * size
    assert abs(float(primal - arb(plain.upper))) <= 1e-12 * size
