"""Polishing: what makes the point of a conic solver exact, and leaves worse points alone."""

from __future__ import annotations

import numpy as np
import pytest
from makers import LOSSES, PAIRS, SCALE, make_problem

from mklref import Problem, reference
from mklref._conic.polish import SNAP, _active_sets as active_sets, polish
from mklref._conic.scaling import factorize
from mklref._conic.signed import SignedPoint, Span, newton
from mklref._polish import Samples, with_better_intercept
from mklref.certificate import certify
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
from mklref.signed import SignedProblem

PIECEWISE_QUADRATIC = [loss for loss in LOSSES if loss.name != "logistic"]


def raw_point(problem) -> Point:
    """The unpolished point of the mixed-norm form."""
    model = as_formulation("mixed_norm").build(problem, factorize(problem.kernels))
    model.set_costs(problem.costs)
    return model.run(Engine("CLARABEL"))


@pytest.mark.sampled(4)
@pytest.mark.parametrize("p", [1.0, 4 / 3, np.inf])
@pytest.mark.parametrize("loss", PIECEWISE_QUADRATIC, ids=str)
def test_polished_to_rounding(loss, p):
    problem = make_problem(loss=loss, seed=12, regularizer=Lp(p))
    point, certificate = polish(problem, raw_point(problem))
    assert abs(certificate.relative_gap) < 1e-9
    assert certificate.infeasibility < 1e-12
    assert with_better_intercept(problem, point)[1].gap == certificate.gap


def test_nothing_has_its_best_intercept_by_however_little():
    """Of another function one that saves less than 1 % of the gap is not taken: it may be on a kink."""
    problem = make_problem(loss="squared", seed=3)
    nothing = Point(np.zeros(problem.n_samples), np.zeros(problem.n_kernels), problem.y.mean() + 0.01)
    off = certify(problem, nothing.dual_coef, weights=nothing.weights, intercept=nothing.intercept)
    assert 0.0 < off.objective - off.better_upper < 1e-3 * off.gap
    moved, found = with_better_intercept(problem, nothing)
    assert moved.intercept == pytest.approx(problem.y.mean(), abs=1e-12)
    assert found.objective == pytest.approx(off.better_upper, rel=1e-12)


@pytest.mark.sampled(2)
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


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge", "epsilon_insensitive"])
def test_dual_variables_that_are_tiny_beside_the_costs_are_no_zeros(loss, rng):
    samples = [rng.normal(size=(15, d)) for d in (1, 2, 4)]
    kernels = [np.exp(-((X[:, None] - X[None]) ** 2).sum(axis=-1)) for X in samples]
    y = rng.normal(size=15)
    problem = Problem(kernels, y if loss == "epsilon_insensitive" else np.sign(y), C=1e8, loss=loss, regularizer=Lp(2))
    solution = reference.solve(problem, "dual", solver="CLARABEL")
    assert np.abs(solution.dual_coef).max() < 1e-4 * problem.C
    bounds = solution.certificate
    assert bounds.gap < 2.0 * bounds.rounding + 1e-9 * bounds.upper, bounds.explain()


@pytest.mark.parametrize("size", [1.0, 1e-9])
def test_every_active_set_is_tried_once(size):
    problem = make_problem(seed=13, C=2.0).replace(sample_weight=np.linspace(1.0, 50.0, 25))
    samples, beta = Samples(problem), size * problem.y * np.geomspace(1e-9, 1.0, 25)
    tolerances = [share * snap for share in (1.0, size / 100.0) for snap in SNAP]
    inside = [samples.snapped(beta, tolerance)[1].tobytes() for tolerance in tolerances]
    tried = [samples.snapped(beta, tolerance)[1].tobytes() for tolerance in active_sets(samples, beta)]
    assert tried == list(dict.fromkeys(inside))
    assert 4 <= len(tried) < 8


def test_the_kernel_machine_by_definition():
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


@pytest.mark.sampled(2)
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
    assert after.upper >= max(before.lower, after.lower) - 1e-9  # whatever is returned, the certificate speaks for it


def test_null_spaces_are_guessed_with_and_without_what_x_and_s_share():
    """A direction of which both have little is in neither or in one: solvers leave 1e-5 of a cost of 1e6."""
    problem = SignedProblem([np.diag(row) for row in np.eye(3)], np.arange(3.0), loss="squared", trace=1.0)
    point = SignedPoint(np.zeros(3), np.array([1.0, 2e-5, 1e-9]), 0.0, np.diag([0.0, 3e-5, 1.0]))
    assert Span(problem).null_spaces(problem, point) == [1, 2, 0]


def test_a_null_space_that_is_too_small_gives_no_steps(rng):
    """Of two directions that X lacks, S has one: the other would be divided by."""
    kernels = [np.diag([1.0, 1.0, 0.0, 0.0]), np.diag([0.0, 0.0, 1.0, 1.0])]
    problem = SignedProblem(kernels, rng.normal(size=4), loss="squared")
    point = SignedPoint(rng.normal(size=4), np.array([2.0, 0.0]), 0.0, np.diag([0.0, 0.0, 1.0, 0.0]))
    span = Span(problem)
    assert span.null_spaces(problem, point) == [1, 0]
    with np.errstate(invalid="ignore"):
        assert list(newton(problem, span, point, 1e-4, 1)) == []
