"""The optima of the algorithms: on data, against both oracles, for every loss; and how their runs get there."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from algorithms.cases import GROUPS, OPTIONS, SIMPLEX, cancer, complaints, small
from makers import DEGENERATE, LOSSES, agree, make_problem

import mklref
from mklref import BlockNorm, ConcaveBlock, ElasticNet, Groups, Lp, Power, Tikhonov, WeightedL1, reference
from mklref.algorithms import ALGORITHMS
from mklref.regularizers import HalfPower, PowerRoot, RootPlusLinear, SmoothedRoot
from mklref.solution import Status

L1 = tuple((name, Lp(1)) for name in SIMPLEX)
OTHERS = (
    ("sip", Lp(1.2)),
    ("sip", Lp(1.5)),
    ("lp_wrapper", Lp(4 / 3)),
    ("lp_wrapper", BlockNorm(4)),
    ("lp_interleaved", Lp(4 / 3)),
    ("lp_interleaved", BlockNorm(3)),
    ("group_wrapper", GROUPS),
    ("iterated_reweighting", ElasticNet(0.3)),
    ("iterated_reweighting", Power(2)),
)
KEEPING = (Power(2), HalfPower(1.5), Tikhonov(2, 0.3), ConcaveBlock(SmoothedRoot(0.1)), ConcaveBlock(PowerRoot(2)))
"""Penalties under which every useful kernel has a weight."""
SWITCHING = (
    ElasticNet(0.3),
    ElasticNet(0.3, "ivanov"),
    ConcaveBlock(RootPlusLinear(0.5)),
    Power(1),
    HalfPower(1),
    WeightedL1([1.0, 2.0, 0.5, 1.5]),
    Tikhonov(1, 0.3),
)
"""Penalties that switch kernels off."""
REWEIGHTED = [("iterated_reweighting", regularizer) for regularizer in KEEPING + SWITCHING]
EXPONENTS = ((0.5, 0.5), (1, 0), (0.2, 0.8), (0.8, 0.2), (0, 1), (0.3, 0.3))
TWO_GROUPS = [Groups((range(10), range(10, 13)), p, q) for p, q in EXPONENTS]
on_the_simplex = pytest.mark.parametrize("name", SIMPLEX)


def solve(name, problem, **options):
    return ALGORITHMS[name](problem, **{**OPTIONS.get(name, {}), **options})


# --- against the native solver and cvxpy -----------------------------------------------------------------------------


@pytest.mark.sampled(9)
@pytest.mark.parametrize(
    ("name", "regularizer", "tol"),
    [
        *((name, regularizer, tol) for name, regularizer in L1 for tol in (1e-4, 1e-6)),
        *(("sip", Lp(p), 1e-6) for p in (1.01, 4 / 3, 2, 3, 10)),
        *(("lp_wrapper", Lp(p), 1e-4) for p in (1, 4 / 3, 4)),
        *(("lp_wrapper", Lp(p), 1e-6) for p in (1.1, 2, np.inf)),
        *(("lp_interleaved", regularizer, 1e-4) for regularizer in (Lp(1), Lp(4), BlockNorm(4))),
        *(("lp_interleaved", Lp(p), 1e-6) for p in (4 / 3, 2)),
        *(("group_wrapper", regularizer, tol) for regularizer in TWO_GROUPS for tol in (1e-4, 1e-6)),
        *(("iterated_reweighting", regularizer, 1e-6) for regularizer in (ElasticNet(0.5), Power(2))),
        ("iterated_reweighting", ElasticNet(0.5, "ivanov"), 1e-4),
        ("iterated_reweighting", ConcaveBlock(SmoothedRoot(3.0)), 1e-4),
    ],
    ids=str,
)
def test_breast_cancer(name, regularizer, tol):
    problem = cancer(regularizer)
    solution = ALGORITHMS[name](problem, tol=tol)
    assert complaints(problem, solution, tol, mklref.solve(problem, tol=1e-7).certificate) == []
    assert solution.solver == name
    svm = solution.history.counters["svm"]
    if name == "lp_wrapper":
        assert svm == len(solution.history)
    if name == "lp_interleaved":
        assert svm == 0 < solution.history.counters["inner_steps"]


@pytest.mark.sampled(6)
@pytest.mark.parametrize(
    ("name", "regularizer", "formulation", "tol"),
    [
        *((*case, "qcqp", 1e-6) for case in L1),
        ("sip", Lp(2), "dual", 1e-6),
        *(("lp_wrapper", other, "mixed_norm", 1e-6) for other in (Lp(2), *map(BlockNorm, (1.5, 2.5, 4, 8, np.inf)))),
        ("lp_interleaved", Lp(2), "mixed_norm", 1e-6),
        *((*case, "mixed_norm", 1e-5) for case in REWEIGHTED),
    ],
    ids=str,
)
@pytest.mark.parametrize("intercept", [True, False])
def test_agrees_with_cvxpy(name, regularizer, formulation, tol, intercept):
    problem = make_problem(seed=5, n=20, M=4, C=5.0, regularizer=regularizer, intercept=intercept)
    truth = reference.solve(problem, formulation).certificate
    assert complaints(problem, solve(name, problem, tol=tol), tol, truth) == []


@pytest.mark.sampled(14)
@pytest.mark.parametrize(
    ("name", "regularizer", "loss"),
    [
        (name, regularizer, loss)
        for name, regularizer in (*L1, ("lp_wrapper", Lp(1)), *OTHERS)
        for loss in LOSSES
        if not (name == "lp_interleaved" and loss.name in ("logistic", "squared"))  # they have no bounds
        and not (name == "iterated_reweighting" and loss.intercept_cost)
    ],
    ids=str,
)
def test_every_loss(name, regularizer, loss):
    """Seeded problems of ten losses; among them one with a negative objective, which Algorithm 1 does not foresee."""
    problem = make_problem(loss=loss, seed=3, n=24, M=5, regularizer=regularizer)
    tol = {"sip": 1e-6, "iterated_reweighting": 1e-4, "group_wrapper": 1e-4}.get(name, 1e-5)
    assert complaints(problem, solve(name, problem, tol=tol), tol, mklref.solve(problem).certificate) == []


@pytest.mark.sampled(7)
@pytest.mark.parametrize(("name", "regularizer"), [*L1, *OTHERS], ids=str)
@pytest.mark.parametrize("degenerate", DEGENERATE)
def test_degenerate_kernels(name, regularizer, degenerate):
    C = 1.0 if name == "lp_interleaved" else 10.0
    problem = make_problem(seed=3, n=24, M=5, C=C, degenerate=degenerate, regularizer=regularizer)
    assert complaints(problem, solve(name, problem), 1e-4, mklref.solve(problem).certificate) == []


# --- on the way there ------------------------------------------------------------------------------------------------


COMES_BACK = (("sip", Lp(1.5)), ("lp_wrapper", Lp(1)), ("lp_wrapper", Lp(4 / 3)))


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("name", "regularizer"), [*L1, *COMES_BACK, ("iterated_reweighting", ElasticNet(0.3))], ids=str
)
def test_a_zero_weight_comes_back(name, regularizer):
    """Start from the worst vertex: the whole weight on a kernel that the solution does not use, or hardly."""
    problem = make_problem(seed=3, n=24, M=5, C=10.0, regularizer=regularizer)
    best = mklref.solve(problem)
    vertex = np.eye(5)[np.argmin(best.weights)]
    start = dataclasses.replace(best, dual_coef=np.zeros(24), weights=vertex)
    solution = solve(name, problem, start=start)
    assert complaints(problem, solution, 1e-4, best.certificate) == []
    if name != "iterated_reweighting":  # there they have no bound to be scaled to
        assert np.array_equal(solution.history.records[0].weights, vertex)
    if name in SIMPLEX:
        assert best.weights @ vertex < 1e-6
    if name == "sip":
        assert solution.weights.min() > 0.0


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("name", "regularizer"),
    [*L1, ("lp_wrapper", Lp(4 / 3)), ("lp_interleaved", Lp(2)), ("group_wrapper", TWO_GROUPS[0])],
    ids=str,
)
def test_a_warm_start_has_less_to_do(name, regularizer):
    problem = cancer(regularizer)
    cold = ALGORITHMS[name](problem)
    warm = ALGORITHMS[name](problem.replace(C=90.0), start=cold)
    assert warm.status is Status.OPTIMAL
    if name in SIMPLEX:
        assert warm.history.records[0].relative_gap < 0.1 * cold.history.records[0].relative_gap
    else:
        assert len(warm.history) < len(cold.history)
    again = ALGORITHMS[name](problem, start=cold).history
    assert len(again) == 1 >= again.counters["svm"]


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("name", "regularizer"), [*(("lp_wrapper", Lp(p)) for p in (1, 4 / 3, 3)), *REWEIGHTED], ids=str
)
def test_the_objective_never_rises(name, regularizer):
    problem = make_problem(seed=1, regularizer=regularizer)
    objective = solve(name, problem, max_iter=30, tol=1e-9).history.column("objective")
    assert len(objective) > 3
    assert np.diff(objective).max() <= 1e-11 * abs(objective[0])


@pytest.mark.parametrize(
    ("name", "regularizer", "ending"),
    [
        *(("lp_wrapper", regularizer, Status.NO_GUARANTEE) for regularizer in (Lp(1), BlockNorm(1))),
        *(("lp_wrapper", regularizer, Status.ITERATION_LIMIT) for regularizer in (Lp(1.1), BlockNorm(np.inf))),
        ("lp_interleaved", Lp(2), Status.NO_GUARANTEE),
        *(("iterated_reweighting", regularizer, Status.ITERATION_LIMIT) for regularizer in KEEPING),
        *(("iterated_reweighting", regularizer, Status.NO_GUARANTEE) for regularizer in SWITCHING),
    ],
    ids=str,
)
def test_an_early_end_says_whether_more_would_help(name, regularizer, ending):
    solution = solve(name, make_problem(seed=1, regularizer=regularizer), max_iter=2, tol=1e-9)
    assert solution.status is ending
    assert len(solution.history) == 2
    assert "not proved to converge" in Status.NO_GUARANTEE.value


# --- on the simplex --------------------------------------------------------------------------------------------------


@on_the_simplex
def test_an_objective_of_zero(name):
    """A one-class problem whose optimum is 0: no relative gap is ever small, and nothing breaks.

    Of its unit rounding leaves 4e-6, by seeds and processors.
    """
    problem = make_problem(loss="one_class", seed=2, n=10, M=3, degenerate="low_rank")
    solution = solve(name, problem, tol=1e-5)
    assert solution.status is Status.OPTIMAL
    assert abs(solution.certificate.upper) <= 1e-12
    assert np.isfinite(solution.history.column("weights")).all()


@pytest.mark.parametrize("name", ["silp", "level"])
def test_far_off_cuts(name):
    """Here the first cuts are 1e15 times as steep as what is left of the gap, which HiGHS refuses as it is."""
    problem = make_problem(seed=81, n=7, M=4, degenerate="low_rank", C=2422.49, intercept=False)
    assert complaints(problem, solve(name, problem, tol=1e-6), 1e-6, mklref.solve(problem).certificate) == []


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("name", "p"), [*((name, 1) for name in SIMPLEX), ("lp_wrapper", 4 / 3)])
@pytest.mark.parametrize("strategy", ["one_vs_rest", "one_vs_one"])
def test_several_classes(name, p, strategy, rng):
    """J is the sum over the machines (SimpleMKL 4.2), each of which counts as an SVM evaluation."""
    X = rng.normal(size=(30, 3))
    kernels = mklref.kernels.simplemkl_recipe(X, single_variables=False).dense()[2:7]
    y = np.digitize(X[:, 0] + 0.2 * rng.normal(size=30), [-0.5, 0.5])
    problem = mklref.MulticlassProblem(kernels, y, C=50.0, regularizer=Lp(p), strategy=strategy)
    solution = solve(name, problem)
    again = problem.certify(solution.dual_coef, solution.weights, solution.intercept)
    assert solution.certificate == again
    assert 0.0 <= again.gap <= 1e-4 * again.upper
    assert solution.status is Status.OPTIMAL
    assert again.infeasibility <= 1e-12
    assert solution.history.counters["svm"] % 3 == 0
    if strategy == "one_vs_rest":
        exact = reference.solve(problem, "multiclass").certificate
        agree(again, exact)


@on_the_simplex
def test_l1_under_its_other_name(name):
    problem = small(name)
    other = solve(name, problem.replace(regularizer=BlockNorm(1)))
    assert np.array_equal(solve(name, problem).weights, other.weights)
