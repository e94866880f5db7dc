"""Rigorous certificates against 80 digits (`validation.precise`): their own points at every scale, and optima."""

from __future__ import annotations

from decimal import Decimal, localcontext

import numpy as np
import pytest
from certificate.points import proven
from makers import LOSSES, make_targets

from mklref import Problem, certify, solve
from mklref.certificate import rigorous
from mklref.regularizers import Fixed, Groups, Lp, Tikhonov
from validation import rigorous as fuzz
from validation.precise import CONTEXT, Machine

ENOUGH = 60.0  # seconds for hundredths of one: no clock decides, as where a processor is emulated


def margins(problem, found):
    """How far `lower` is below the dual objective at its own point, and `upper` above the primal one, to 60 digits."""
    with localcontext(CONTEXT):
        beta, theta = ([Decimal(x) for x in part.tolist()] for part in (found.dual_coef, found.weights))
        dual, primal = Machine(problem).bounds(beta, theta, Decimal(float(found.intercept)))
        digit = Decimal("1e-60") * (abs(dual) + abs(primal))
        return float(dual - Decimal(found.lower) + digit), float(Decimal(found.upper) - primal + digit)


REGULARIZERS = (
    Lp(1),
    Lp(4 / 3),
    Lp(np.inf),
    Fixed([1.0, 0.5, 0.3]),
    Tikhonov(1.5, 0.7),
    Groups([[0, 2], [1]], 0.3, 0.4),
    Groups([[0, 2], [1]], 0.5, 0.5),
)
SCALES = ((0, 0.0), (0, 1.0), (-450, 1.0), (450, 0.0))
"""Powers of 2 by which kernels are multiplied and C is divided, and a ridge, without which kernels are singular."""


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


@pytest.mark.sampled(9)
@pytest.mark.parametrize(("power", "ridge"), SCALES)
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
        assert min(margins(problem, found)) >= 0.0


@pytest.mark.sampled(3)
@pytest.mark.parametrize("backend", ["fast", "sliced", "exact"])
@pytest.mark.parametrize("loss", LOSSES, ids=str)
def test_and_hardly_wider_than_they_have_to_be(loss, backend, rng):
    problem = exactly_semidefinite(loss, Lp(4 / 3), 0, rng)
    solution = solve(problem)
    found = proven(problem, solution, backend=backend)
    size = abs(found.upper) + float(found.delta.max()) * float(np.abs(found.dual_coef).sum()) ** 2
    assert all(0.0 <= margin <= 1e-11 * size for margin in margins(problem, found))
    plain = certify(problem, found.dual_coef, weights=found.weights, intercept=found.intercept)
    ends = (found.lower - plain.lower, plain.upper - found.upper)
    assert all(abs(own + moved) <= 1e-12 * size for own, moved in zip(margins(problem, found), ends, strict=True))


@pytest.mark.sampled(8)
@pytest.mark.parametrize("first", range(0, 40, 5))
def test_no_interval_misses_an_optimum_of_80_digits(first):
    results = [fuzz.check(seed, ENOUGH) for seed in range(first, first + 5)]
    assert [line for result in results for line in result["wrong"]] == []
    assert sum(result.get("width", 1.0) < 1e-14 for result in results) >= 3


def test_an_optimum_far_below_the_costs_is_enclosed_in_its_own_digits():
    """Logistic losses of 4e-118: ln(1 + x) of so small an x has no digits left in 1 + x."""
    result = fuzz.check(430, ENOUGH)
    assert result["wrong"] == []
    assert 0.0 < result["width"] < 1e-40


@pytest.mark.thorough
def test_the_fuzz_can_see_a_wrong_bound(monkeypatch):
    """R* that is too small by a relative 1e-12 shows in several problems."""
    true = rigorous.conjugate
    monkeypatch.setattr(rigorous, "conjugate", lambda regularizer, q: true(regularizer, q) * (1 - 10**-9))
    assert sum(bool(fuzz.check(seed, ENOUGH)["wrong"]) for seed in range(8)) >= 3
