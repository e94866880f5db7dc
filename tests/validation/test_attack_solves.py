"""The attack on `solve`: it finds what is planted, and what it once found stays mended."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import mklref
from mklref.solution import Status
from validation import robustness
from validation.attack import generator, solves

ONCE_FOUND = (39, 55, 59, 131, 249, 289, 394, 419, 470, 753, 824, 828, 1009)
"""Cases of seed 1 that raised, or ended at gaps from 2e-6 to 1: penalties barely smoother than their kinks, dual points
that shrink by ten orders, kernels so ill-conditioned that pair steps crawl."""


@pytest.mark.parametrize("case", ONCE_FOUND)
def test_what_was_once_found_is_solved(case):
    rng = np.random.default_rng(1).spawn(case + 1)[case]
    assert mklref.solve(solves.random_problem(rng)).status is Status.OPTIMAL


@pytest.mark.parametrize(
    ("case", "words"), [(163, "HalfPower(1.001)"), (593, "HalfPower(1.2)"), (670, "ElasticNet(0.74627")]
)
def test_weights_that_cost_little_are_not_left_too_large_for_rounding(case, words):
    """Kernels of 1e7 and 1e8 at equal weights, whose gap is small but for what rounding may add to it.

    The first is another: cuts of 1e13 beside those of 1e-3, of which the step made weights of 1e198.
    """
    rng = generator(17, "solves").spawn(case + 1)[case]
    problem = solves.random_problem(rng)
    assert words in str(problem)
    assert mklref.solve(problem).status is Status.OPTIMAL


def test_bounds_from_two_points_of_float32_kernels_do_not_exclude_each_other():
    """Rank 9 of 14, tube loss: what rounding to float32 left negative was worth a thousandth of the optimum."""
    problem = solves.random_problem(generator(17, "solves").spawn(302)[301])
    assert problem.kernels.dtype == np.float32
    one, other = mklref.solve(problem).certificate, mklref.reference.solve(problem, "dual").certificate
    assert one.lower <= other.upper
    assert other.lower <= one.upper
    assert "Rounding errors" in one.explain()


@pytest.mark.parametrize(("family", "seed"), [("weighted_l1", 86), ("power", 29)])
def test_what_the_robustness_run_once_found_is_solved(family, seed):
    """Newton steps that ended a rounding error before a bound; one-class optima of 0."""
    assert mklref.solve(robustness.random_problem(seed, family)).status is Status.OPTIMAL


def test_answers_that_are_not_optimal_are_found_out(monkeypatch):
    """Half of the dual point, a status that its arrays do not confirm, an exception."""
    solve, rng = mklref.solve, np.random.default_rng

    def halved(problem, **options):
        solution = solve(problem, **options)
        beta = 0.5 * solution.dual_coef
        certificate = mklref.certify(problem, beta, weights=solution.weights, intercept=solution.intercept)
        return replace(solution, dual_coef=beta, certificate=certificate, status=Status.STALLED)

    def boastful(problem, **options):
        return replace(halved(problem, **options), status=Status.OPTIMAL)

    def failing(problem, **options):
        raise ZeroDivisionError("1/0")

    assert not solves.attack(1, rng(0))
    for fault, words in ((halved, "STALLED, gap"), (boastful, "but its arrays say"), (failing, "ZeroDivisionError")):
        monkeypatch.setattr(mklref, "solve", fault)
        found = [str(finding) for finding in solves.attack(1, rng(0))]
        assert found
        assert any(words in text for text in found)
