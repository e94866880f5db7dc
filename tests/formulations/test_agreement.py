"""The formulations against one another, against scikit-learn, and each one's own way back to a point."""

from __future__ import annotations

import numpy as np
import pytest
from makers import DEGENERATE, LOSSES, make_kernels, make_problem, make_samples, make_targets
from sklearn.svm import SVC

from mklref import reference
from mklref.certificate import certify
from mklref.formulations import FORMULATIONS, as_formulation, factorize
from mklref.losses import Hinge
from mklref.problem import Problem
from mklref.regularizers import Fixed, Lp
from mklref.solution import Status

AGREEMENT = 1e-6
"""Relative distance of what solvers claim from the certified interval, and width of that interval."""

EXPONENTS = (1.0, 4 / 3, 2.0, np.inf)
every_loss = pytest.mark.parametrize("loss", LOSSES, ids=str)


def agree(problem: Problem, solvers=("CLARABEL", "ECOS", "SCS"), only=None) -> float:
    """Every applicable formulation by every solver is certified, and claims the certified value; returns it."""
    factors = factorize(problem.kernels)
    solutions = [
        reference.compile(problem, name, factors=factors).solve(solver=solver)
        for name in only or reference.formulations(problem)
        for solver in solvers
    ]
    lower = max(solution.certificate.lower for solution in solutions)
    upper = min(solution.certificate.upper for solution in solutions)
    scale = max(1.0, abs(upper))
    assert -1e-9 * scale <= upper - lower <= AGREEMENT * scale
    for solution in solutions:
        assert solution.status is Status.OPTIMAL, f"{solution.solver}: {solution.certificate.explain()}"
        # Dual forms are minimisations of the negative dual objective: hence the absolute value, and strong duality.
        claimed = solution.history.counters["claimed"]
        opposite = solution.solver.split("/")[0] in ("dual", "qcqp")
        assert (-claimed if opposite else claimed) == pytest.approx(upper, rel=AGREEMENT, abs=AGREEMENT), (
            solution.solver
        )
    return 0.5 * (lower + upper)


@pytest.mark.parametrize("p", EXPONENTS)
@pytest.mark.parametrize("loss", ["hinge", "squared"])
def test_every_form_by_every_solver(loss, p):
    agree(make_problem(loss=loss, seed=3, C=2.5, regularizer=Lp(p)))


@pytest.mark.parametrize("p", [1.0, 1.6])
@every_loss
def test_every_loss(loss, p):
    agree(make_problem(loss=loss, seed=4, regularizer=Lp(p)), solvers=("CLARABEL", "SCS"))


@pytest.mark.parametrize("degenerate", DEGENERATE[1:])
@pytest.mark.parametrize("loss", ["hinge", "huber", "one_class"])
def test_degenerate_kernels(loss, degenerate):
    agree(make_problem(loss=loss, seed=5, degenerate=degenerate, regularizer=Lp(1)), solvers=("CLARABEL", "ECOS"))


@pytest.mark.parametrize("loss", [loss for loss in LOSSES if loss.intercept == "optional"], ids=str)
def test_without_intercept_and_with_sample_weights(loss, rng):
    weights = rng.uniform(0.3, 2.0, size=25)
    common = {"loss": loss, "seed": 6, "sample_weight": weights, "regularizer": Lp(4 / 3)}
    with_intercept = agree(make_problem(**common), solvers=("CLARABEL",))
    without = agree(make_problem(intercept=False, **common), solvers=("CLARABEL",))
    assert without > with_intercept + 1e-4  # else one of the two was not taken into account


@pytest.mark.parametrize("name", FORMULATIONS)
@every_loss
def test_each_recovery_unpolished(loss, name):
    """The point that a formulation reads off its variables and multipliers is nearly optimal by itself.

    Exactly one of many signs and scales is right, so a wrong one leaves a gap of order 1.
    """
    for regularizer in (Lp(1), Lp(4 / 3)):
        problem = make_problem(loss=loss, seed=7, regularizer=regularizer)
        if as_formulation(name).applies(problem) is not None:
            continue
        model = as_formulation(name).build(problem, factorize(problem.kernels))
        model.set_costs(problem.costs)
        point = model.run(reference.Engine("CLARABEL"))
        certificate = certify(problem, point.dual_coef, weights=point.weights, intercept=point.intercept)
        assert abs(certificate.relative_gap) < 1e-3, certificate.explain()
        assert certificate.infeasibility < 1e-5


@pytest.mark.parametrize("name", FORMULATIONS)
@every_loss
def test_costs_are_parameters_and_reused(loss, name):
    problem = make_problem(loss=loss, seed=8, regularizer=Lp(1))
    compiled = reference.compile(problem, name)
    model = compiled.model(second_order=False)
    assert model.program.is_dcp(dpp=True)
    fresh = reference.solve(problem.replace(C=3.0 * problem.C), name, solver="ECOS")
    assert compiled.solve(solver="ECOS").status is Status.OPTIMAL
    again = compiled.solve(C=3.0 * problem.C, solver="ECOS")
    assert again.certificate.lower == pytest.approx(fresh.certificate.lower, rel=1e-7, abs=1e-7)
    assert again.certificate.relative_gap <= AGREEMENT


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
        assert ours.objective == pytest.approx(theirs.upper, rel=1e-6)
        assert ours.intercept == pytest.approx(float(machine.intercept_[0]), abs=1e-4)


def test_infinite_p_is_the_machine_on_the_sum_kernel():
    problem = make_problem(seed=9, C=4.0, regularizer=Lp(np.inf))
    alone = Problem([problem.kernels.dense().sum(axis=0)], problem.y, C=4.0)
    fixed = problem.replace(regularizer=Fixed(np.ones(4)))
    value = agree(problem, solvers=("CLARABEL",))
    assert agree(alone, solvers=("CLARABEL",)) == pytest.approx(value, rel=1e-6)
    assert agree(fixed, solvers=("CLARABEL",)) == pytest.approx(value, rel=1e-6)


def test_weight_of_two_is_a_duplicated_sample():
    problem = make_problem(seed=10, n=12, C=0.8)
    K = problem.kernels.dense()
    support = np.flatnonzero(reference.solve(problem).dual_coef)[:2]  # others would change nothing
    twice = np.append(np.arange(12), support)
    weights = np.ones(12)
    weights[support] = 2.0
    duplicated = Problem(K[:, twice][:, :, twice], problem.y[twice], C=0.8)
    weighted = problem.replace(sample_weight=weights)
    value = agree(duplicated, solvers=("CLARABEL",))
    assert agree(weighted, solvers=("CLARABEL",)) == pytest.approx(value, rel=1e-6)
    assert agree(problem, solvers=("CLARABEL",)) < value - 1e-4


def test_float32_kernels_are_solved_as_they_are():
    problem = make_problem(seed=11)
    single = Problem(problem.kernels.dense().astype(np.float32), problem.y)
    solution = reference.solve(single)
    assert solution.status is Status.OPTIMAL
    assert solution.objective == pytest.approx(reference.solve(problem).objective, rel=1e-5)
