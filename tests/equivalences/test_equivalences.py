"""Every edge of the table of equivalences, walked on random problems with both sides solved by cvxpy.

And with every loss, with and without intercept, and every range of parameters: offered where it is true. There the
left side is solved by the native solver; the certificate of the point on the right is the proof. The only edges that
fail are those that rescale C beside a term c_b b, which are not offered; that they fail is tested as well.
"""

from __future__ import annotations

import re
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from equivalences.cases import CASES, PAIRS, N, functions, solved, solved_with
from makers import LOSSES, make_problem

import mklref
from mklref import equivalences, reference
from mklref.certificate import certify
from mklref.equivalences import EQUIVALENCES, leaving
from mklref.equivalences.maps import Carried, _within_float64
from mklref.exceptions import InvalidInput, InvalidParameter, InvalidType, NotApplicable
from mklref.losses import OneClass
from mklref.problem import Problem
from mklref.regularizers import (
    BlockNorm,
    ConcaveBlock,
    ElasticNet,
    Fixed,
    Groups,
    HalfPower,
    Lp,
    Power,
    SmoothedRoot,
    Tikhonov,
    WeightedL1,
    WeightedLp,
)


def test_every_edge_has_cases_and_a_name_of_its_own():
    assert [edge.name for edge in EQUIVALENCES] == list(dict.fromkeys(edge.name for edge in EQUIVALENCES))
    assert {edge.name for edge in EQUIVALENCES} == set(CASES)
    assert all(edge.applies(make_problem(n=18, **case)) for edge in EQUIVALENCES for case in CASES[edge.name])


@pytest.mark.parametrize(
    ("regularizer", "name"), [(Groups(PAIRS, 0.1, 0.9), "groups without groups"), (BlockNorm(2), "table 1, row 4")]
)
def test_an_edge_ends_where_its_condition_does(regularizer, name):
    assert name not in [edge.name for edge in leaving(make_problem(n=18, regularizer=regularizer))]


@pytest.mark.sampled(10)
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
    with pytest.raises(InvalidType, match=r"problem is NoneType; give a mklref\.Problem"):
        leaving(None)
    problem = make_problem(regularizer=Lp(2), n=18)
    solution = reference.solve(problem)
    edge = next(edge for edge in EQUIVALENCES if edge.name == "tikhonov to ivanov")
    assert edge not in leaving(problem)
    says = f"leads from {edge.left}, condition: {edge.condition}; this is {problem}. mklref.equivalences.leaving"
    with pytest.raises(NotApplicable, match=re.escape(says)):
        edge(problem, solution)
    for unbound in (equivalences.block_norms, equivalences.freeze_weights):
        with pytest.raises(NotApplicable, match="a Problem with one machine; this is None"):
            unbound(None, solution)
        with pytest.raises(InvalidType, match="solution is NoneType"):
            unbound(problem, None)


def test_maps_that_depend_on_the_solution_refuse_zero():
    problem = make_problem(regularizer=Lp(2), n=18)
    solution = reference.solve(problem)
    for factor in (0.0, -1.0, 3.0):  # nothing, losses beyond those of nothing, and a penalty that makes them so
        with pytest.raises(NotApplicable, match="f = 0"):
            equivalences.lp_to_power(problem, replace(solution, dual_coef=factor * solution.dual_coef))


def test_a_dual_point_outside_of_the_domain_is_scaled_into_it_at_the_same_functions():
    problem, solution = solved_with(LOSSES[3], Power(1))
    outside = replace(solution, dual_coef=1.01 * solution.dual_coef, weights=solution.weights / 1.01)
    right, expected = (equivalences.power_to_lp(problem, point) for point in (outside, solution))
    assert pytest.approx(expected.problem.C, rel=1e-6) == right.problem.C
    np.testing.assert_allclose(right.dual_coef, expected.dual_coef, rtol=1e-6)


def test_no_fixed_margin_without_a_margin():
    problem = make_problem(regularizer=Lp(2), n=18, loss="one_class")
    solution = reference.solve(problem)
    for intercept in (0.2, 0.0):
        with pytest.raises(NotApplicable, match="margin"):
            equivalences.nu_to_fixed_margin(problem, replace(solution, intercept=intercept))


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
        left = mklref.solve(problem, tol=1e-4)
        right = edge(problem, left)
        scale = problem.C / right.problem.C
        bounds = certify(right.problem, right.dual_coef, weights=right.weights)
        assert scale * bounds.gap <= left.certificate.gap * (1.0 + 1e-9) + 1e-12 * scale * bounds.upper


# --- with every loss -------------------------------------------------------------------------------------------------


REGULARIZERS = {str(case["regularizer"]): case["regularizer"] for cases in CASES.values() for case in cases}


def test_a_problem_without_an_optimum_has_no_solution_to_carry():
    """R* of a norm that grows linearly is infinite beyond 1: the edges are those of its kind, their left side empty."""
    problem = make_problem(loss=OneClass(), n=N, seed=3, C=0.25, regularizer=ConcaveBlock(SmoothedRoot(0.3)))
    with pytest.raises(InvalidParameter, match="the optimum is -inf"):
        mklref.solve(problem)
    edge = next(edge for edge in leaving(problem) if edge.name == "concave: weights and norms")
    solution = mklref.solve(problem.replace(regularizer=Lp(1)))
    right = edge(problem, solution)
    assert certify(right.problem, right.dual_coef, weights=right.weights, intercept=right.intercept).lower == -np.inf


@pytest.mark.thorough
@pytest.mark.parametrize("loss", LOSSES, ids=str)
def test_an_edge_is_offered_exactly_where_it_is_true(loss):
    """With and without intercept in turn, so that each regulariser meets both with half of the losses."""
    for turn, regularizer in enumerate(REGULARIZERS.values(), start=LOSSES.index(loss)):
        found = solved_with(loss, regularizer, turn % 2 == 0) or solved_with(loss, regularizer, turn % 2 == 1)
        if found is None:
            continue
        problem, solution = found
        reasons = reference.explain(problem)
        for edge in EQUIVALENCES:
            matches = isinstance(regularizer, edge.kind) and edge.where(regularizer, problem)
            false = matches and edge.rescales(regularizer) and isinstance(loss, OneClass)
            assert (edge in leaving(problem)) == (matches and not false), (edge.name, problem)
            if edge not in leaving(problem):
                with pytest.raises(NotApplicable):
                    edge(problem, solution)
                continue
            assert reasons[edge.formulations[0]] is None, (edge.name, problem)
            right = edge(problem, solution)
            rescaled = right.problem.C != problem.C and right.function_scale == 1.0
            assert edge.rescales(regularizer) == rescaled, edge.name
            bounds = certify(right.problem, right.dual_coef, weights=right.weights, intercept=right.intercept)
            left = solution.certificate
            size = left.upper  # where the term b goes or comes, the gap is in units of R, and the value is not
            if right.function_scale != 1.0:
                size = bounds.upper / right.function_scale**regularizer.degree
            allowed = 3.0 * abs(left.gap / size) + 1e-10
            assert abs(bounds.gap / bounds.upper) <= allowed, (edge.name, problem, bounds.explain())


@pytest.mark.parametrize("regularizer", [Lp(2), Tikhonov(2, 0.7), Power(3), HalfPower(1.5), ElasticNet(0.4, "ivanov")])
def test_a_map_that_rescales_costs_is_false_beside_a_term_that_it_does_not_rescale(regularizer):
    """What the refused edges would say of the nu one-class machine, by the map of the fixed margin at the same f."""
    problem, solution = solved_with(OneClass(), regularizer)
    factor = 1.7
    right = problem.replace(C=factor * problem.C, regularizer=Lp(2))
    beta, theta = factor * solution.dual_coef, solution.weights / factor
    bounds = certify(right, beta, weights=theta, intercept=solution.intercept)
    assert bounds.gap > 1e-2 * abs(bounds.upper)
    assert any("dual_coef sums to 1.7 instead of 1" in violation for violation in bounds.violations)


MAPS = [
    (equivalences.tikhonov_to_ivanov, Tikhonov(2, 1.0)),
    (equivalences.ivanov_to_tikhonov, Lp(2)),
    (equivalences.lp_to_half_power, Lp(2)),
    (equivalences.half_power_to_lp, HalfPower(1.5)),
    (equivalences.lp_to_power, Lp(2)),
    (equivalences.power_to_lp, Power(2)),
    (equivalences.elastic_net_to_tikhonov, ElasticNet(0.5, "ivanov")),
    (equivalences.elastic_net_to_ivanov, ElasticNet(0.5)),
]
OTHERS = [
    (equivalences.scale_kernels, WeightedLp(2, np.ones(4))),
    (equivalences.absorb_omega, WeightedL1(np.ones(4))),
    (equivalences.sum_groups, Groups(((0, 1), (2, 3)), 1, 0)),
    (equivalences.nu_to_fixed_margin, None),
    (equivalences.fixed_margin_to_nu, None),
]


@pytest.mark.parametrize(("carry", "regularizer"), MAPS, ids=[carry.__name__ for carry, _ in MAPS])
def test_maps_that_rescale_costs_refuse_the_nu_machine_and_say_why(carry, regularizer):
    problem, solution = solved_with(OneClass(), regularizer)
    with pytest.raises(NotApplicable, match="rescales C, which does not rescale the term 1 b of one_class") as refused:
        carry(problem, solution)
    assert ("'one-class: nu to fixed margin'" in str(refused.value)) == (regularizer.degree is not None)


@pytest.mark.parametrize(("carry", "regularizer"), MAPS[:6], ids=[carry.__name__ for carry, _ in MAPS[:6]])
def test_by_way_of_the_fixed_margin_the_nu_machine_keeps_its_nu(carry, regularizer):
    problem, solution = given, _ = solved_with(OneClass(), regularizer)
    for step in (equivalences.nu_to_fixed_margin, carry, equivalences.fixed_margin_to_nu):
        problem, beta, theta, b, _ = step(problem, solution)
        solution = replace(solution, dual_coef=beta, weights=theta, intercept=b)
    assert type(problem.regularizer) is not type(regularizer)
    assert (problem.loss, problem.C) == (given.loss, pytest.approx(given.C, rel=1e-6))
    assert certify(problem, solution).is_optimal(1e-6)


def test_at_p_inf_no_cost_changes_and_the_nu_machine_goes_along():
    problem, solution = solved_with(OneClass(), Lp(np.inf))
    assert equivalences.lp_to_power(problem, solution).problem.C == problem.C


@pytest.mark.parametrize(("carry", "_"), MAPS + OTHERS, ids=[carry.__name__ for carry, _ in MAPS + OTHERS])
def test_maps_refuse_another_kind_of_problem(carry, _):
    problem, solution = solved_with(LOSSES[0], Fixed(np.ones(4)))
    with pytest.raises(NotApplicable, match=r"this map leads from .*; this is Problem\(M=4"):
        carry(problem, solution)
    several = mklref.MulticlassProblem(problem.kernels, np.arange(N) % 3)
    with pytest.raises(NotApplicable, match="MulticlassProblem"):
        carry(several, solution)
    assert not leaving(several)


def test_maps_between_forms_refuse_the_other_form():
    problem, solution = solved_with(LOSSES[0], ElasticNet(0.5))
    with pytest.raises(NotApplicable, match="leads from the ivanov form of the elastic net"):
        equivalences.elastic_net_to_tikhonov(problem, solution)
    problem, solution = solved_with(OneClass(), ElasticNet(0.5))
    with pytest.raises(NotApplicable, match="leads from the loss one_class with R of a degree d > 1"):
        equivalences.nu_to_fixed_margin(problem, solution)
    problem, solution = solved_with(LOSSES[0], Groups(((0, 1), (2, 3)), 0, 1))
    with pytest.raises(NotApplicable, match=r"leads from Groups\(groups, p, 0\)"):
        equivalences.sum_groups(problem, solution)


@pytest.mark.parametrize("regularizer", [ElasticNet(0.3), ElasticNet(0.3, "ivanov"), Lp(2), Power(1)], ids=str)
def test_where_no_function_is_better_than_zero_no_map_applies(regularizer):
    """A penalty with a kink at 0 keeps f = 0 for small C; a squared one does where all targets lie inside a tube."""
    loss = mklref.EpsilonInsensitive(50.0)
    problem, solution = solved_with(loss, regularizer, C=1e-3)
    for edge in leaving(problem):
        if "f != 0" in edge.condition:
            with pytest.raises(NotApplicable, match="no better than f = 0"):
                edge(problem, solution)


@pytest.mark.parametrize("size", [1e-260, 1e-90, 1e90])
@pytest.mark.parametrize(("carry", "regularizer"), MAPS, ids=[carry.__name__ for carry, _ in MAPS])
def test_what_leaves_float64_on_the_right_is_not_applicable(carry, regularizer, size):
    """Norms rho of any size: the point is certified, or the map says that it does not apply."""
    problem, solution = solved_with(LOSSES[3], regularizer)
    small = problem.replace(y=size * problem.y)
    there = replace(solution, dual_coef=size * solution.dual_coef, intercept=size * solution.intercept)
    try:
        right = carry(small, there)
    except NotApplicable:
        return
    assert 0.0 < right.problem.C < np.inf
    assert np.isfinite([*right.dual_coef, *right.weights]).all()


def test_what_leaves_float64_is_named():
    problem = make_problem(n=8, M=2, loss="squared", C=1e50, regularizer=Power(1))
    problem = problem.replace(kernels=1e-200 * problem.kernels.dense(), y=1e110 * problem.y)
    with pytest.raises(NotApplicable, match="no problem on the right of this map: the loss of f = 0"):
        equivalences.power_to_lp(problem, mklref.solve(problem, max_iter=2))
    with pytest.raises(NotApplicable, match=r"C' = 1e\+210 C takes dual variables"):
        _within_float64(Carried(problem, np.ones(8), np.full(2, np.inf), 0.0), 1e210)


def test_a_net_whose_share_of_the_norms_is_rounding_is_another_one():
    """c = lam + (1-lam) sum rho: where it is lam but for 1e-12, 1 - lam' has four digits, and R' as many.

    With six the point is optimal for R' all the same: what rounding moves the gap by is the square of that.
    """
    problem, solution = solved_with(LOSSES[3], ElasticNet(0.3, "ivanov"))

    def carried(size):
        point = replace(solution, dual_coef=size * solution.dual_coef, intercept=size * solution.intercept)
        return equivalences.elastic_net_to_tikhonov(problem.replace(y=size * problem.y), point)

    for size in (1e-4, 1e-10):
        right = carried(size)
        gap = certify(right.problem, right.dual_coef, weights=right.weights, intercept=right.intercept).relative_gap
        assert gap <= 3.0 * solution.certificate.relative_gap + 1e-10
    with pytest.raises(NotApplicable, match="next to 1: the norms of the functions are extreme"):
        carried(1e-12)


def test_no_margin_where_it_is_rounding():
    """Samples that surround the origin: P* = 0, and an intercept of -1e-17 is no margin."""
    half = np.random.default_rng(0).normal(size=(6, 2))
    X = np.vstack([half, -half])
    problem = Problem([X @ X.T], np.ones(12), C=1 / (0.5 * 12), loss=OneClass(), regularizer=Lp(1))
    solution = replace(mklref.solve(problem), intercept=-1e-17)
    with pytest.raises(NotApplicable, match="no better than f = 0"):
        equivalences.nu_to_fixed_margin(problem, solution)


def test_no_margin_where_the_dual_point_is_zero():
    problem, solution = solved_with(mklref.DensityLevelSet(), Lp(2), intercept=False)
    with pytest.raises(NotApplicable, match=r"of sum 0, have no margin"):
        equivalences.fixed_margin_to_nu(problem, replace(solution, dual_coef=np.zeros(N)))
    nothing = problem.replace(kernels=0.0 * problem.kernels.dense())
    with pytest.raises(NotApplicable, match="f = 0, or dual variables of sum 8, have no margin"):
        equivalences.fixed_margin_to_nu(nothing, mklref.solve(nothing))


def test_a_margin_beyond_float64_does_not_warn():
    """r = (1'beta)^{-2001}, and a weight of 0."""
    problem, solution = solved_with(mklref.DensityLevelSet(), Power(1.001), intercept=False, C=0.01)
    with pytest.raises(NotApplicable, match="out of float64"):
        equivalences.fixed_margin_to_nu(problem, replace(solution, weights=np.array([0.0, 1.0, 1.0, 1.0])))


def test_a_solution_of_another_problem_is_refused():
    problem, solution = solved_with(LOSSES[0], Lp(2))
    edge = next(edge for edge in EQUIVALENCES if edge.name == "lp to power")
    with pytest.raises(InvalidType, match="solution is NoneType; give a Solution"):
        edge(problem, None)
    with pytest.raises(InvalidInput, match=r"solution has dual variables of shape \(7,\)"):
        edge(problem, replace(solution, dual_coef=solution.dual_coef[1:]))


def test_groups_of_float32_kernels_are_summed_in_float64():
    problem, _ = solved_with(LOSSES[3], Groups(((0, 1), (2, 3)), 1, 0))
    single = problem.replace(kernels=problem.kernels.dense().astype(np.float32))
    right = equivalences.sum_groups(single, mklref.solve(single, tol=1e-8))
    matrices = single.kernels.dense().astype(np.float64)
    np.testing.assert_array_equal(right.problem.kernels.dense()[0], matrices[0] + matrices[1])
