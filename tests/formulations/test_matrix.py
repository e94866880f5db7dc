"""Losses with every kind of regulariser, in all formulations that apply, by at least two solvers.

The hinge loss with all of them; each other loss with every second one, and each regulariser with every second loss: a
statement is the sum of a part of the loss and a part of the regulariser.

The formulations against one another, against scikit-learn, and each one's own way back to a point.
"""

from __future__ import annotations

import re
from itertools import product

import numpy as np
import pytest
from formulations.agreement import AGREEMENT, CUTTING_PLANES, agree, suited
from makers import DEGENERATE, LOSSES, OPPOSED, PAIRS, SCALE, make_kernels, make_problem, make_samples, make_targets
from sklearn.svm import SVC

from mklref import reference
from mklref._conic.scaling import factorize
from mklref.certificate import certify
from mklref.exceptions import InvalidKernel, InvalidParameter
from mklref.formulations import FORMULATIONS, as_formulation
from mklref.losses import Hinge
from mklref.problem import Problem
from mklref.regularizers import (
    BlockNorm,
    ConcaveBlock,
    ElasticNet,
    Fixed,
    Groups,
    HalfPower,
    Lp,
    Mahalanobis,
    Power,
    PowerRoot,
    RootPlusLinear,
    SmoothedRoot,
    Tikhonov,
    WeightedL1,
    WeightedLp,
)
from mklref.solution import Status

M = 4
REGULARIZERS = (
    *(Lp(p) for p in (1, 4 / 3, 2, np.inf)),
    Fixed((0.5, 0.0, 1.0, 2.0)),
    *(BlockNorm(q) for q in (1.4, 3)),
    *(Power(p) for p in (1, 2, np.inf)),
    *(HalfPower(q) for q in (1, 1.5, 2)),
    *(Tikhonov(p, 0.3) for p in (1, 2)),
    *(ElasticNet(0.4, form) for form in ("tikhonov", "ivanov")),
    WeightedLp(1.7, SCALE),
    WeightedL1(SCALE),
    *(Groups(PAIRS, p, q) for p, q in ((0, 1), (1, 0), (0.5, 0.5), (0.4, 0.5))),
    Mahalanobis(OPPOSED),
    *(ConcaveBlock(PowerRoot(p)) for p in (1, 2, np.inf)),
    ConcaveBlock(RootPlusLinear(0.35)),
    ConcaveBlock(SmoothedRoot(0.4)),
)
"""Each class in each of its cases, on four kernels."""

CONDITIONS = ("generic", "duplicated_kernel", "zero_kernel", "duplicated_samples", "low_rank", "constant_kernel")
"""The kernels of one pair after the other."""


def ill_posed(loss, regularizer) -> bool:
    """Both homogeneous of degree 1: refused by Problem."""
    return bool(loss.intercept_cost) and regularizer.degree == 1.0


CASES = [
    pytest.param(loss, regularizer, number, id=f"{loss}-{regularizer}-{CONDITIONS[number % 6]}")
    for number, ((i, regularizer), (j, loss)) in enumerate(product(enumerate(REGULARIZERS), enumerate(LOSSES)))
    if not ill_posed(loss, regularizer) and (str(loss) == "hinge" or (i + j) % 2)
]


def test_all_conditions_are_covered():
    assert set(CONDITIONS) == set(DEGENERATE)


@pytest.mark.sampled(5)  # every regulariser is in it
@pytest.mark.parametrize(("loss", "regularizer", "number"), CASES)
def test_pair(loss, regularizer, number):
    degenerate = CONDITIONS[number % len(CONDITIONS)]
    problem = make_problem(loss=loss, n=18, seed=number % 7, degenerate=degenerate, regularizer=regularizer)
    assert len(set(reference.formulations(problem)) - CUTTING_PLANES) >= 2
    agree(problem, rotate=number)


@pytest.mark.sampled(14)
@pytest.mark.parametrize("number", [i for i, r in enumerate(REGULARIZERS) if r.weight_form == "min"])
def test_cutting_planes(number):
    """Each regulariser with one of two losses, in turn."""
    problem = make_problem(loss=("hinge", "squared")[number % 2], seed=5, n=20, regularizer=REGULARIZERS[number])
    assert CUTTING_PLANES & set(reference.formulations(problem))
    agree(problem, only={"dual", *CUTTING_PLANES}, solvers=("CLARABEL",))


@pytest.mark.parametrize("regularizer", [r for r in REGULARIZERS if r.degree == 1.0], ids=str)
def test_ill_posed_pairs_are_refused(regularizer):
    with pytest.raises(InvalidParameter, match="density_level_set"):
        make_problem(loss="one_class", regularizer=regularizer)


def test_linear_models(rng):
    X = rng.normal(size=(25, M))
    kernels = [np.outer(x, x) for x in X.T]
    grouped = make_problem(loss="hinge", seed=1).replace(kernels=kernels, regularizer=Groups(PAIRS, 0.5, 0.5))
    assert "hierarchical" in reference.formulations(grouped)
    agree(grouped, only={"hierarchical", "groups", "cap", "dual"}, solvers=("CLARABEL", "ECOS"), rotate=0)
    for regularizer in (HalfPower(1), Lp(1), Lp(1.5)):
        lasso = make_problem(loss="squared", seed=2, intercept=False, regularizer=regularizer)
        assert "group_lasso" in reference.formulations(lasso)
        agree(lasso, only={"group_lasso", "mixed_norm"}, solvers=("CLARABEL", "SCS"), rotate=0)


COVERED = {
    "qcqp": r"Lp\(1\)",
    "silp": r"Lp\(1\)",
    "semi_infinite": r"(?!Lp\(1\)|BlockNorm\(3\))",
    "weighted_primal": r"(?!BlockNorm\(3\))",
    "block_norm": "(Lp|BlockNorm|Power|HalfPower)",
    "sup_block_norm": r"BlockNorm\(3\)",
    "generalized_block_norm": "(Power|ConcaveBlock|ElasticNet.*tikhonov)",
    "ivanov": "(Lp|WeightedLp|Mahalanobis)",
    "tikhonov": "(Tikhonov|Power|WeightedL1)",
    "elastic_net": "ElasticNet",
    "groups": "Groups",
    "cap": "Groups",
    "hierarchical": r"Groups\(2, p=0.5, q=0.5\)",
    "group_lasso": r"(Lp|HalfPower\(1\))",
}
"""What begins the names of the regularisers that a formulation covers; of the others, all."""


def test_a_formulation_covers_the_regularizers_of_its_statement_and_no_others(rng):
    def covering(problem):
        return {name for name, reason in reference.explain(problem).items() if reason is None}

    one, two = ([np.outer(x, x) for x in rows] for rows in rng.normal(size=(2, M, 8)))
    names = [name for name, form in FORMULATIONS.items() if form.kind is Problem]
    for regularizer in REGULARIZERS:
        problem = make_problem(loss="squared", n=8, regularizer=regularizer, intercept=False).replace(kernels=one)
        expected = {name for name in names if re.match(COVERED.get(name, ""), str(regularizer))}
        assert covering(problem) == expected
        assert covering(problem.replace(kernels=np.add(one, two))) == expected - {"hierarchical"}
        assert covering(problem.replace(intercept=True)) == expected - {"group_lasso"}
        assert covering(problem.replace(loss="huber")) == expected - {"group_lasso"}


@pytest.mark.parametrize("regularizer", REGULARIZERS, ids=str)
def test_reasons_name_an_alternative_that_applies(regularizer):
    problem = make_problem(regularizer=regularizer)
    for name, reason in reference.explain(problem).items():
        if reason is not None and FORMULATIONS[name].kind is Problem:
            alternatives = set(re.findall(r"'(\w+)'", reason)) & set(reference.formulations())
            assert alternatives & set(reference.formulations(problem)), f"{name}: {reason}"


def test_requests_that_are_not_convex_are_refused_with_an_alternative():
    with pytest.raises(InvalidParameter, match=r"p \+ q = 1.2 exceeds 1.*not convex.*p = 0.5, q = 0.5"):
        Groups(PAIRS, 0.6, 0.6)
    with pytest.raises(InvalidParameter, match=r"q = 0.8 must lie in \[1, inf\].*1 is sparse"):
        BlockNorm(0.8)
    with pytest.raises(InvalidParameter, match=r"p = 0.5 must lie in \[1, inf\].*sparsest convex"):
        Lp(0.5)
    indefinite = np.array([[1.0, 2.0], [2.0, 1.0]])
    with pytest.raises(InvalidKernel, match=r"kernels\[0\] is not positive semidefinite"):
        Problem([indefinite], [1.0, -1.0])


EXPONENTS = (1.0, 4 / 3, 2.0, np.inf)


@pytest.mark.sampled(8)
@pytest.mark.parametrize("p", EXPONENTS)
@pytest.mark.parametrize("loss", ["hinge", "squared"])
def test_every_form_by_every_solver(loss, p):
    agree(make_problem(loss=loss, seed=3, C=2.5, regularizer=Lp(p)))


@pytest.mark.sampled(8)
@pytest.mark.parametrize("loss", [loss for loss in LOSSES if loss.intercept == "optional"], ids=str)
def test_without_intercept_and_with_sample_weights(loss, rng):
    weights = rng.uniform(0.3, 2.0, size=25)
    common = {"loss": loss, "seed": 6, "sample_weight": weights, "regularizer": Lp(4 / 3)}
    with_intercept = agree(make_problem(**common), solvers=("CLARABEL",))
    without = agree(make_problem(intercept=False, **common), solvers=("CLARABEL",))
    assert without > with_intercept + 1e-4  # else one of the two was not taken into account


ALWAYS = dict.fromkeys(FORMULATIONS, ("hinge",)) | {"group_lasso": ("squared",), "semi_infinite": ("one_class",)}
ALWAYS["dual"] = tuple(map(str, LOSSES))  # whose conjugates it states
"""The losses with which each recovery is tested by every run, and not in a sample alone."""
SOME = [loss for loss in LOSSES if str(loss) in ("hinge", "squared", "one_class")]
FORMS_AND_LOSSES = [
    pytest.param(name, loss, id=f"{name}-{loss}", marks=[pytest.mark.sampled(12)] * (str(loss) not in ALWAYS[name]))
    for name, form in FORMULATIONS.items()
    if form.kind is Problem
    for loss in (LOSSES if name in ("dual", "mixed_norm") else SOME)
]


@pytest.mark.parametrize(("name", "loss"), FORMS_AND_LOSSES)
def test_each_recovery_unpolished(name, loss):
    """The point that a formulation reads off its variables and multipliers is nearly optimal by itself.

    Exactly one of many signs and scales is right: a wrong one leaves a gap of order 1, one of 1.01 a gap above 1e-4.
    Above q = 2 weights are powers of small numbers, and less is known of them.
    """
    for problem in suited(name, loss, seed=7):
        assert as_formulation(name).applies(problem) is None
        model = as_formulation(name).build(problem, factorize(problem.kernels))
        model.set_costs(problem.costs)
        point = model.run(reference.Engine("CLARABEL"))
        certificate = certify(problem, point.dual_coef, weights=point.weights, intercept=point.intercept)
        size = max(certificate.size, 1e7 * certificate.unit)  # an optimum of 0 is known in units of R*, as solvers end
        least = 5e-5 if problem.regularizer.weight_form == "min" else 1e-3
        assert abs(certificate.gap) < least * size, f"{problem}: {certificate.explain()}"
        assert certificate.infeasibility < 1e-5


@pytest.mark.sampled(12)
@pytest.mark.parametrize(("name", "loss"), FORMS_AND_LOSSES)
def test_costs_are_parameters_and_reused(name, loss):
    for problem in suited(name, loss, seed=8)[:1]:
        compiled = reference.compile(problem, name)
        assert compiled.model(second_order=False).program.is_dcp(dpp=True)
        first = compiled.solve(solver="ECOS")
        other = problem.replace(C=1.5 * problem.C)
        again = compiled.solve(C=other.C, solver="ECOS")
        fresh = reference.solve(other, name, solver="ECOS")
        assert again.certificate.relative_gap <= AGREEMENT
        assert again.certificate.lower == pytest.approx(fresh.certificate.lower, rel=1e-7, abs=1e-7)
        if str(loss) in ("hinge", "squared"):  # the others may have losses of 0 at both
            assert again.objective > first.objective + 1e-4


def test_one_kernel_is_the_support_vector_machine(rng):
    X = make_samples(rng, 40)
    K, y = make_kernels(rng, X, M=1), make_targets(rng, X, Hinge())
    problem = Problem(K, y, C=1.7)
    machine = SVC(kernel="precomputed", C=1.7, tol=1e-8).fit(K[0], y)
    beta = np.zeros(40)
    beta[machine.support_] = machine.dual_coef_[0]
    theirs = certify(problem, beta, weights=[1.0], intercept=float(machine.intercept_[0]))
    for name in reference.formulations(problem):
        ours = reference.solve(problem, name)
        assert ours.objective == pytest.approx(theirs.upper, abs=theirs.gap + 1e-6 * theirs.upper)
        assert ours.intercept == pytest.approx(float(machine.intercept_[0]), abs=1e-4)


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    "regularizer",
    [
        *(ElasticNet(lam, form) for form in ("tikhonov", "ivanov") for lam in (1e-4, 1.0 - 1e-4)),
        ConcaveBlock(SmoothedRoot(1e-4)),
    ],
    ids=str,
)
def test_where_differences_would_cancel_primal_and_dual_have_one_value(regularizer):
    for loss in ("hinge", "squared"):
        problem = make_problem(loss=loss, seed=4, regularizer=regularizer)
        agree(problem, solvers=("CLARABEL",), only=["weighted_primal", "dual"])


@pytest.mark.sampled(2)
@pytest.mark.parametrize("q", [1e3, np.inf])
@pytest.mark.parametrize("name", ["dual", "mixed_norm", "block_norm", "sup_block_norm"])
def test_functions_that_cost_nothing_have_weights_as_large_as_they_must_be(name, q):
    """Of low rank and up to the largest norm: g_m = 0 but for noise, and the optimum is attained as theta_m -> inf."""
    problem = make_problem(seed=3, n=12, degenerate="low_rank", regularizer=BlockNorm(q))
    problem = problem.replace(kernels=np.array([1e3, 1.0, 1.0, 1.0])[:, None, None] * problem.kernels.dense())
    certificate = reference.solve(problem, name, solver="CLARABEL").certificate
    assert certificate.is_optimal(1e-4), certificate.explain()


def test_infinite_p_is_the_machine_on_the_sum_kernel():
    problem = make_problem(seed=9, C=4.0, regularizer=Lp(np.inf))
    alone = Problem([problem.kernels.dense().sum(axis=0)], problem.y, C=4.0)
    fixed = problem.replace(regularizer=Fixed(np.ones(4)))
    value = agree(problem, solvers=("CLARABEL",))
    assert agree(alone, solvers=("CLARABEL",), only=["dual"]) == pytest.approx(value, rel=1e-6)
    assert agree(fixed, solvers=("CLARABEL",), only=["dual"]) == pytest.approx(value, rel=1e-6)


def test_weight_of_two_is_a_duplicated_sample():
    problem = make_problem(seed=10, n=12, C=0.8)
    K = problem.kernels.dense()
    support = np.flatnonzero(reference.solve(problem).dual_coef)[:2]  # others would change nothing
    twice = np.append(np.arange(12), support)
    weights = np.ones(12)
    weights[support] = 2.0
    duplicated = Problem(K[:, twice][:, :, twice], problem.y[twice], C=0.8)
    weighted = problem.replace(sample_weight=weights)
    value = agree(duplicated, solvers=("CLARABEL",), only=["dual"])
    assert agree(weighted, solvers=("CLARABEL",)) == pytest.approx(value, rel=1e-6)
    assert agree(problem, solvers=("CLARABEL",), only=["dual"]) < value - 1e-4


def test_float32_kernels_are_solved_as_they_are():
    problem = make_problem(seed=11)
    single = Problem(problem.kernels.dense().astype(np.float32), problem.y)
    solution = reference.solve(single)
    assert solution.status is Status.OPTIMAL
    assert solution.objective == pytest.approx(reference.solve(problem).objective, rel=1e-5)
