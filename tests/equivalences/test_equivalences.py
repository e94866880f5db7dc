"""Every edge of the table of equivalences, walked on random problems with both sides solved by cvxpy."""

from __future__ import annotations

import re
from dataclasses import replace
from fractions import Fraction
from functools import cache

import numpy as np
import pytest
from equivalences.cases import CASES
from makers import make_problem

from mklref import equivalences, reference
from mklref.certificate import certify
from mklref.equivalences import EQUIVALENCES, Equivalence, leaving
from mklref.exceptions import NotApplicable
from mklref.native import solve as native_solve
from mklref.problem import Problem
from mklref.regularizers import Lp
from mklref.solution import Solution


@cache
def solved(edge: Equivalence, number: int) -> tuple[Problem, Solution]:
    """The left side of a case, solved in the formulation of the edge."""
    problem = make_problem(seed=number, n=18, **CASES[edge.name][number])
    return problem, reference.solve(problem, edge.formulations[0], tol=1e-7)


def test_every_edge_has_cases_and_a_name_of_its_own():
    assert [edge.name for edge in EQUIVALENCES] == list(dict.fromkeys(edge.name for edge in EQUIVALENCES))
    assert {edge.name for edge in EQUIVALENCES} == set(CASES)


@pytest.mark.sampled(7)
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
    assert numbers(returned.problem.regularizer) == pytest.approx(numbers(problem.regularizer), rel=1e-12)
    assert type(returned.problem.regularizer) is type(problem.regularizer)
    np.testing.assert_allclose(returned.dual_coef, solution.dual_coef, rtol=1e-6, atol=1e-12)
    np.testing.assert_allclose(returned.weights, solution.weights, rtol=1e-6, atol=1e-12)
    assert returned.intercept == pytest.approx(solution.intercept, rel=1e-6)


def numbers(regularizer):
    """The parameters of a regulariser that are written as numbers."""
    return [float(Fraction(text)) for text in re.findall(r"\d[\d./]*(?:e[+-]?\d+)?", f"{regularizer}")]


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


@pytest.mark.parametrize("name", ["lp to half power", "lp to power"])
def test_an_inexact_solution_for_lp_is_as_good_on_the_right_at_p_1(name):
    """The norm at which R* ends there is that of the dual point; of ||rho||_1 it differs by the root of the gap."""
    (edge,) = (edge for edge in EQUIVALENCES if edge.name == name)
    for seed in range(5):
        problem = make_problem(seed=seed, regularizer=Lp(1), loss="squared", intercept=False)
        left = native_solve(problem, tol=1e-4)
        right = edge(problem, left)
        scale = problem.C / right.problem.C
        bounds = certify(right.problem, right.dual_coef, weights=right.weights)
        assert scale * bounds.gap <= left.certificate.gap * (1.0 + 1e-9) + 1e-12 * scale * bounds.upper
