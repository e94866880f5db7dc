"""Every edge of the table of equivalences, walked on random problems with both sides solved by cvxpy."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from makers import make_problem

from mklref import equivalences, reference
from mklref.certificate import certify
from mklref.equivalences import EQUIVALENCES, Equivalence, leaving
from mklref.exceptions import NotApplicable
from mklref.problem import Problem
from mklref.regularizers import (
    BlockNorm,
    ConcaveBlock,
    ElasticNet,
    Groups,
    HalfPower,
    Lp,
    Mahalanobis,
    Power,
    PowerRoot,
    Regularizer,
    RootPlusLinear,
    SmoothedRoot,
    Tikhonov,
    WeightedL1,
    WeightedLp,
)
from mklref.solution import Solution

SCALE = np.array([0.5, 1.4, 0.9, 2.0])
PAIRS = ((0, 2), (1, 3))
UNEVEN = ((3,), (0, 1, 2))
OPPOSED = np.array([[1.0, 0.2, -0.8, 0.1], [0.2, 1.0, -0.3, -0.4], [-0.8, -0.3, 1.0, 0.2], [0.1, -0.4, 0.2, 1.0]])
BALLS = (Lp(1), Lp(1.5), Lp(4), Lp(np.inf))
NU = {"loss": "one_class"}
LEVEL = {"loss": "density_level_set", "C": 0.8}


def both(*regularizers: Regularizer) -> list[dict]:
    """Classification with each regulariser, and regression with the last."""
    cases = [{"regularizer": regularizer} for regularizer in regularizers]
    return [*cases, {"regularizer": regularizers[-1], "loss": "squared", "C": 2.0}]


CASES: dict[str, list[dict]] = {
    "l1: weights and norms": both(Lp(1)),
    "l1: norms and dual": both(Lp(1)),
    "l1: dual and semi-infinite program": both(Lp(1)),
    "lp: weights and semi-infinite program": both(Lp(1.5), Lp(4)),
    "lp: weights and norms": both(Lp(1.5), Lp(4), Lp(np.inf)),
    "lp: weights and dual": both(Lp(1), Lp(1.5), Lp(4)),
    "tikhonov to ivanov": both(Tikhonov(1, 0.5), Tikhonov(4, 0.05), Tikhonov(np.inf, 0.3), Tikhonov(2, 7.0)),
    "ivanov to tikhonov": both(*BALLS),
    "lp to half power": both(*BALLS, Lp(4 / 3)),
    "half power to lp": both(HalfPower(1), HalfPower(2), HalfPower(1.4)),
    "group lasso": [{"regularizer": Lp(1), "loss": "squared", "C": 2.0, "intercept": False}],
    "lp to power": both(*BALLS, Lp(2)),
    "power to lp": both(Power(1), Power(np.inf), Power(2.5)),
    "power: weights and norms": both(Power(1), Power(3)),
    "concave: weights and norms": both(ConcaveBlock(PowerRoot(2)), ConcaveBlock(SmoothedRoot(0.3))),
    "table 1, rows 1 to 3": both(*(ConcaveBlock(PowerRoot(p)) for p in (1, np.inf, 2.5))),
    "table 1, row 4": both(BlockNorm(3), BlockNorm(np.inf), BlockNorm(2.4)),
    "table 1, row 5": both(ConcaveBlock(RootPlusLinear(0.3))),
    "elastic net: weights and norms": both(ElasticNet(0.3), ElasticNet(0.3, "ivanov")),
    "elastic net to tikhonov": both(ElasticNet(0.8, "ivanov"), ElasticNet(0.2, "ivanov")),
    "elastic net to ivanov": both(ElasticNet(0.8), ElasticNet(0.2)),
    "block norm": both(BlockNorm(1), BlockNorm(2), BlockNorm(1.6)),
    "uniform weights": both(Lp(np.inf)),
    "optimal weights": both(Lp(1), BlockNorm(3), Power(1.5), ElasticNet(0.4), Lp(2)),
    "one-class: nu to fixed margin": [{**NU, "regularizer": ball} for ball in (Lp(1), Lp(2), BlockNorm(4))],
    "one-class: fixed margin to nu": [{**LEVEL, "regularizer": ball} for ball in (Lp(1), ElasticNet(0.3, "ivanov"))],
    "groups: weights and norms": both(Groups(PAIRS, 0.5, 0.5), Groups(UNEVEN, 0.3, 0.3), Groups(UNEVEN, 0.2, 0.8)),
    "groups without groups": both(Groups(PAIRS, 0, 1), Groups(UNEVEN, 0, 0.5)),
    "groups as kernels": both(Groups(PAIRS, 1, 0), Groups(UNEVEN, 1, 0)),
    "weighted lp as scaled kernels": both(WeightedLp(1, SCALE), WeightedLp(2, SCALE)),
    "weighted l1 as scaled kernels": both(WeightedL1(SCALE)),
    "ellipsoid along the axes": both(Mahalanobis(np.diag(SCALE**2))),
    "ellipsoid: weights and dual": both(Mahalanobis(OPPOSED)),
}
"""Problems on the left of every edge."""


@cache
def solved(edge: Equivalence, number: int) -> tuple[Problem, Solution]:
    """The left side of a case, solved in the formulation of the edge."""
    problem = make_problem(seed=number, n=18, **CASES[edge.name][number])
    return problem, reference.solve(problem, edge.formulations[0], tol=1e-7)


def test_every_edge_has_cases_and_a_name_of_its_own():
    assert [edge.name for edge in EQUIVALENCES] == list(dict.fromkeys(edge.name for edge in EQUIVALENCES))
    assert {edge.name for edge in EQUIVALENCES} == set(CASES)


@pytest.mark.parametrize(
    ("edge", "number"),
    [pytest.param(e, i, id=f"{e.name}-{c['regularizer']}") for e in EQUIVALENCES for i, c in enumerate(CASES[e.name])],
)
def test_both_sides_have_the_same_solution(edge, number):
    """The point carried over is certified optimal on the right, where a solver finds the same value and functions."""
    problem, solution = solved(edge, number)
    assert edge in leaving(problem)
    assert solution.certificate.relative_gap <= 1e-6
    carried = edge(problem, solution)
    certificate = certify(carried.problem, carried.dual_coef, weights=carried.weights, intercept=carried.intercept)
    assert certificate.relative_gap <= 3.0 * solution.certificate.relative_gap + 1e-11, certificate.explain()
    right = reference.solve(carried.problem, edge.formulations[1], tol=1e-7)
    rounding = 1e-9 * max(1.0, abs(certificate.upper))
    assert certificate.lower <= right.certificate.upper + rounding
    assert right.certificate.lower <= certificate.upper + rounding
    expected = carried.function_scale * functions(problem, solution)
    np.testing.assert_allclose(functions(carried.problem, right), expected, atol=1e-4 * np.abs(expected).max())


def functions(problem: Problem, solution: Solution) -> np.ndarray:
    """sum_m f_m on the samples, without the intercept."""
    return solution.decision_function(problem.kernels.dense()) - solution.intercept


INVERSES = [
    ("tikhonov to ivanov", lambda problem, solution: equivalences.ivanov_to_tikhonov(problem, solution, mu=0.5)),
    ("lp to half power", equivalences.half_power_to_lp),
    ("lp to power", equivalences.power_to_lp),
    ("elastic net to tikhonov", equivalences.elastic_net_to_ivanov),
    ("one-class: nu to fixed margin", equivalences.fixed_margin_to_nu),
]


@pytest.mark.parametrize(("name", "back"), INVERSES, ids=[name for name, _ in INVERSES])
def test_there_and_back(name, back):
    """The inverse map returns to the same point of the same problem."""
    edge = next(edge for edge in EQUIVALENCES if edge.name == name)
    problem, solution = solved(edge, 0)
    there = edge(problem, solution)
    middle = replace(solution, dual_coef=there.dual_coef, weights=there.weights, intercept=there.intercept)
    returned = back(there.problem, middle)
    assert pytest.approx(problem.C, rel=1e-6) == returned.problem.C
    assert f"{returned.problem.regularizer}" == f"{problem.regularizer}"
    np.testing.assert_allclose(returned.dual_coef, solution.dual_coef, rtol=1e-6, atol=1e-12)
    np.testing.assert_allclose(returned.weights, solution.weights, rtol=1e-6, atol=1e-12)
    assert returned.intercept == pytest.approx(solution.intercept, rel=1e-6)


def test_an_edge_refuses_other_problems_and_says_where_it_leads_from():
    problem = make_problem(regularizer=Lp(2), n=18)
    solution = reference.solve(problem)
    edge = next(edge for edge in EQUIVALENCES if edge.name == "tikhonov to ivanov")
    assert edge not in leaving(problem)
    with pytest.raises(NotApplicable, match=r"Tikhonov\(p, mu\).*Lp\(2\)"):
        edge(problem, solution)


def test_maps_that_depend_on_the_solution_refuse_zero():
    problem = make_problem(regularizer=Lp(2), n=18)
    solution = reference.solve(problem)
    with pytest.raises(NotApplicable, match="f = 0"):
        equivalences.lp_to_power(problem, replace(solution, dual_coef=np.zeros(18)))


def test_no_fixed_margin_without_a_margin():
    problem = make_problem(regularizer=Lp(2), n=18, loss="one_class")
    solution = reference.solve(problem)
    with pytest.raises(NotApplicable, match="margin"):
        equivalences.nu_to_fixed_margin(problem, replace(solution, intercept=0.2))


def test_the_table_has_words_for_every_edge():
    rows = equivalences.table()
    assert len(rows) == len(EQUIVALENCES)
    for row in rows:
        assert list(row) == ["name", "left", "right", "parameters", "condition", "source"]
        assert all(row.values())
        assert any(paper in row["source"] for paper in ("SimpleMKL", "Szafranski", "Tomioka", "Kloft"))
