"""Polishing: better, never worse, right by definition, and no cure for a wrong point."""

from __future__ import annotations

import numpy as np
import pytest
from formulations.agreement import PAIRS, SCALE
from makers import LOSSES, make_problem

from mklref._conic.polish import polish
from mklref._conic.scaling import factorize
from mklref._polish import with_better_intercept
from mklref.formulations import as_formulation
from mklref.problem import Point
from mklref.reference import Engine
from mklref.regularizers import (
    BlockNorm,
    ConcaveBlock,
    Fixed,
    Groups,
    HalfPower,
    Lp,
    Power,
    PowerRoot,
    Tikhonov,
    WeightedL1,
    WeightedLp,
)

PIECEWISE_QUADRATIC = [loss for loss in LOSSES if loss.name != "logistic"]


def raw_point(problem) -> Point:
    """The unpolished point of the mixed-norm form."""
    model = as_formulation("mixed_norm").build(problem, factorize(problem.kernels))
    model.set_costs(problem.costs)
    return model.run(Engine("CLARABEL"))


@pytest.mark.parametrize("p", [1.0, 4 / 3, np.inf])
@pytest.mark.parametrize("loss", PIECEWISE_QUADRATIC, ids=str)
def test_polished_to_rounding(loss, p):
    problem = make_problem(loss=loss, seed=12, regularizer=Lp(p))
    point, certificate = polish(problem, raw_point(problem))
    assert abs(certificate.relative_gap) < 1e-9
    assert certificate.infeasibility < 1e-12
    assert with_better_intercept(problem, point)[1].gap == certificate.gap


@pytest.mark.parametrize(
    "regularizer",
    [
        BlockNorm(1),
        WeightedLp(1, SCALE),
        WeightedL1(SCALE),
        Power(1),
        HalfPower(1),
        ConcaveBlock(PowerRoot(1)),
        Tikhonov(1, 0.3),
        *(Groups(PAIRS, p, 1 - p) for p in (0.0, 0.5, 0.8, 1.0)),
    ],
    ids=str,
)
@pytest.mark.parametrize("loss", ["hinge", "squared"])
def test_weights_with_kinks_are_polished_to_rounding(loss, regularizer):
    problem = make_problem(loss=loss, seed=12, C=2.0, regularizer=regularizer)
    raw = raw_point(problem)
    point, certificate = polish(problem, raw)
    assert abs(certificate.relative_gap) < 1e-10
    again = Point(point.dual_coef, regularizer.weights_from_norms(point.weights * norms(problem, point)), 0.0)
    np.testing.assert_allclose(again.weights, point.weights, atol=1e-6)


def norms(problem, point):
    return np.sqrt(np.maximum(problem.kernels.quadratic(point.dual_coef), 0.0))


def test_the_kernel_machine_by_definition(rng):
    """For fixed weights a polished point satisfies the optimality conditions of the hinge loss exactly."""
    problem = make_problem(seed=13, C=2.0, regularizer=Fixed([0.5, 1.0, 0.0, 2.0]))
    point, _ = polish(problem, raw_point(problem))
    margins = problem.y * (problem.kernels.combine(point.weights) @ point.dual_coef + point.intercept)
    alpha = problem.y * point.dual_coef
    assert np.all(margins[alpha <= 0.0] >= 1.0 - 1e-10)
    assert np.all(margins[alpha >= 2.0] <= 1.0 + 1e-10)
    inside = (alpha > 0.0) & (alpha < 2.0)
    assert inside.sum() >= 3
    np.testing.assert_allclose(margins[inside], 1.0, atol=1e-10)


@pytest.mark.parametrize("spoil", ["flipped", "uniform", "shrunk", "noise"])
def test_no_worse_than_the_given_point_and_no_cure_for_a_wrong_one(spoil, rng):
    problem = make_problem(seed=14, C=2.0, regularizer=Lp(1))
    beta, theta, b = polish(problem, raw_point(problem))[0]
    spoilt = {
        "flipped": Point(-beta, theta, -b),
        "uniform": Point(beta, np.full(4, 0.25), b),
        "shrunk": Point(0.5 * beta, theta, b),
        "noise": Point(beta + 0.3 * rng.normal(size=25), theta, b),
    }[spoil]
    before = with_better_intercept(problem, spoilt)[1]
    after = polish(problem, spoilt)[1]
    assert after.gap <= before.gap
    assert before.relative_gap > 1e-3
    assert after.relative_gap > 1e-6 or after.is_optimal(1e-6)  # whatever is returned, the certificate speaks for it
    assert after.upper >= before.lower - 1e-9
