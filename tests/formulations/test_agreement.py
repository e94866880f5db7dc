"""The formulations against one another, against scikit-learn, and each one's own way back to a point."""

from __future__ import annotations

import numpy as np
import pytest
from formulations.agreement import AGREEMENT, agree, suited
from makers import DEGENERATE, LOSSES, make_kernels, make_problem, make_samples, make_targets
from sklearn.svm import SVC

from mklref import reference
from mklref._conic.scaling import factorize
from mklref.certificate import certify
from mklref.formulations import FORMULATIONS, as_formulation
from mklref.losses import Hinge, Loss
from mklref.problem import Problem
from mklref.regularizers import Fixed, Lp
from mklref.solution import Status

EXPONENTS = (1.0, 4 / 3, 2.0, np.inf)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("p", EXPONENTS)
@pytest.mark.parametrize("loss", ["hinge", "squared"])
def test_every_form_by_every_solver(loss, p):
    agree(make_problem(loss=loss, seed=3, C=2.5, regularizer=Lp(p)))


@pytest.mark.sampled(4)
@pytest.mark.parametrize("degenerate", DEGENERATE[1:])
def test_degenerate_kernels(degenerate):
    agree(make_problem(seed=5, degenerate=degenerate, regularizer=Lp(1)), solvers=("CLARABEL", "ECOS"))


@pytest.mark.sampled(2)
@pytest.mark.parametrize("loss", [loss for loss in LOSSES if loss.intercept == "optional"], ids=str)
def test_without_intercept_and_with_sample_weights(loss, rng):
    weights = rng.uniform(0.3, 2.0, size=25)
    common = {"loss": loss, "seed": 6, "sample_weight": weights, "regularizer": Lp(4 / 3)}
    with_intercept = agree(make_problem(**common), solvers=("CLARABEL",))
    without = agree(make_problem(intercept=False, **common), solvers=("CLARABEL",))
    assert without > with_intercept + 1e-4  # else one of the two was not taken into account


def forms_and_losses() -> list[tuple[str, Loss]]:
    """Every loss for the forms that differ in it, one of each kind of target for the others."""
    some = [loss for loss in LOSSES if str(loss) in ("hinge", "squared", "one_class")]
    names = [name for name, form in FORMULATIONS.items() if form.kind is Problem]
    return [(name, loss) for name in names for loss in (LOSSES if name in ("dual", "mixed_norm") else some)]


@pytest.mark.sampled(5)
@pytest.mark.parametrize(("name", "loss"), forms_and_losses(), ids=str)
def test_each_recovery_unpolished(name, loss):
    """The point that a formulation reads off its variables and multipliers is nearly optimal by itself.

    Exactly one of many signs and scales is right, so a wrong one leaves a gap of order 1.
    """
    for problem in suited(name, loss, seed=7):
        assert as_formulation(name).applies(problem) is None
        model = as_formulation(name).build(problem, factorize(problem.kernels))
        model.set_costs(problem.costs)
        point = model.run(reference.Engine("CLARABEL"))
        certificate = certify(problem, point.dual_coef, weights=point.weights, intercept=point.intercept)
        size = max(certificate.size, 1e7 * certificate.unit)  # an optimum of 0 is known in units of R*, as solvers end
        assert abs(certificate.gap) < 1e-3 * size, f"{problem}: {certificate.explain()}"
        assert certificate.infeasibility < 1e-5


@pytest.mark.sampled(5)
@pytest.mark.parametrize(("name", "loss"), forms_and_losses(), ids=str)
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
