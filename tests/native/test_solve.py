"""`solve` on every loss with every regulariser: certified by an independent evaluation, equal to the cvxpy truth."""

from __future__ import annotations

import numpy as np
import pytest
from makers import DEGENERATE, LOSSES, make_problem
from native.solving import ACROSS, checked, every_loss, overlap, well_posed
from regularizers.instances import FAMILIES, PAIRS
from sklearn.datasets import load_breast_cancer
from sklearn.svm import SVC

import mklref
from mklref import reference
from mklref.certificate import certify
from mklref.native import tuning
from mklref.regularizers import BlockNorm, ConcaveBlock, Fixed, Groups, Lp, Power, SmoothedRoot

REGULARIZERS = (*(Lp(p) for p in (1, 1 + 1e-6, 1.01, 4 / 3, 2, 4, np.inf)), Fixed([0.5, 0.0, 1.0, 0.3]), *FAMILIES)


CASES = [
    pytest.param(loss, regularizer, DEGENERATE[(3 * i + j) % len(DEGENERATE)], id=f"{loss}-{regularizer}-{i + j}")
    for i, loss in enumerate(LOSSES)
    for j, regularizer in enumerate(REGULARIZERS)
    if well_posed(loss, regularizer)
]


@pytest.mark.sampled(9)
@pytest.mark.parametrize(("loss", "regularizer", "degenerate"), CASES)
def test_every_loss_with_every_regularizer(loss, regularizer, degenerate):
    problem = make_problem(loss=loss, regularizer=regularizer, degenerate=degenerate, seed=8)
    checked(problem)


@pytest.mark.sampled(10)
@pytest.mark.parametrize("degenerate", DEGENERATE)
@every_loss
def test_every_loss_on_degenerate_kernels(loss, degenerate):
    """With and without intercept, with sample weights, for a small and a large C: each pair with each regulariser once.

    The pairs go round with the kind of degeneracy, so that no regulariser misses one.
    """
    rng = np.random.default_rng(9)
    intercepts = sorted({loss.intercept != "forbidden", loss.intercept == "required"})
    settings = [
        (intercept, C) for intercept in intercepts for C in ((None,) if loss.intercept_cost else (None, 0.05, 30.0))
    ]
    for turn, regularizer in enumerate(ACROSS, start=DEGENERATE.index(degenerate)):
        if well_posed(loss, regularizer):
            intercept, C = settings[turn % len(settings)]
            arguments = {
                "loss": loss,
                "regularizer": regularizer,
                "degenerate": degenerate,
                "intercept": intercept,
                "sample_weight": rng.uniform(1.0, 3.0, size=25),
                "seed": 10,
            }
            checked(make_problem(**arguments) if C is None else make_problem(C=C, **arguments))


@pytest.mark.sampled(5)
@pytest.mark.parametrize("regularizer", [*ACROSS, Power(1.2), BlockNorm(np.inf), Groups(PAIRS, 0.5, 0.5)], ids=str)
@every_loss
def test_agreement_with_convex_modelling(loss, regularizer):
    if not well_posed(loss, regularizer):
        pytest.skip("ill-posed")
    problem = make_problem(loss=loss, regularizer=regularizer, seed=12, n=20)
    ours = checked(problem)
    formulation = next(name for name in ("dual", "mixed_norm") if name in reference.formulations(problem))
    theirs = reference.solve(problem, formulation)
    assert theirs.certificate.relative_gap < 1e-5
    overlap(ours, theirs)


# --- against scikit-learn -------------------------------------------------------------------------------------


def svm_bounds(kernel, problem):
    """Certified bounds from scikit-learn's SVC on one kernel."""
    svm = SVC(kernel="precomputed", C=problem.C, tol=1e-10, shrinking=False).fit(kernel, problem.y)
    beta = np.zeros(problem.n_samples)
    beta[svm.support_] = svm.dual_coef_[0]
    machine = mklref.Problem([kernel], problem.y, C=problem.C, regularizer="uniform")
    return certify(machine, beta, intercept=float(svm.intercept_[0]))


@pytest.mark.parametrize("C", [0.02, 1.0, 200.0])
def test_one_kernel_is_the_svm(C):
    problem = make_problem(M=1, C=C, seed=13, n=60)
    for p in (1, 1.5, np.inf):
        ours = checked(problem.replace(regularizer=Lp(p)))
        theirs = svm_bounds(problem.kernels.dense()[0], problem)
        assert theirs.relative_gap < 1e-3  # what libsvm reaches for large C
        assert theirs.lower <= ours.objective * (1 + 1e-12)
        assert ours.certificate.lower <= theirs.upper
        np.testing.assert_allclose(ours.weights, 1.0, rtol=1e-12)


@pytest.mark.parametrize("C", [0.02, 1.0, 200.0])
def test_uniform_weights_are_the_svm_on_the_sum(C):
    problem = make_problem(C=C, seed=14, n=60, regularizer="uniform")
    ours = checked(problem)
    theirs = svm_bounds(problem.kernels.dense().sum(axis=0), problem)
    assert theirs.relative_gap < 1e-3
    assert theirs.lower <= ours.objective * (1 + 1e-12)
    assert ours.certificate.lower <= theirs.upper
    np.testing.assert_allclose(ours.weights, 1.0, rtol=1e-12)


def test_the_decision_function_is_that_of_the_point():
    problem = make_problem(seed=15, regularizer=Lp(4 / 3))
    solution = checked(problem)
    kernel = np.tensordot(solution.weights, problem.kernels.dense(), 1)
    np.testing.assert_allclose(
        solution.decision_function(problem.kernels), kernel @ solution.dual_coef + solution.intercept
    )


# --- kinks of J -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("tol", [1e-1, 1e-2, 1e-3, 1e-4, 1e-6])
def test_loose_tolerances_of_sparse_problems_are_met_too(tol):
    """Many kernels and a large C: J has kinks, and only mixtures of dual points prove that a point is good enough."""
    X, target = load_breast_cancer(return_X_y=True)
    chosen = np.random.default_rng(0).permutation(len(X))[:120]
    X = (X[chosen] - X[chosen].mean(axis=0)) / X[chosen].std(axis=0)
    views = [X, *(X[:, [j]] for j in range(8))]
    kernels = [np.exp(-((V[:, None] - V) ** 2).sum(-1) / (2 * w**2)) for V in views for w in (0.5, 1, 2, 5, 10)]
    kernels += [(V @ V.T + 1.0) ** d for V in views for d in (1, 2, 3)]
    kernels = np.stack([0.5 * (K + K.T) / np.trace(K) for K in kernels])
    problem = mklref.Problem(kernels, np.where(target[chosen] == 1, 1.0, -1.0), C=100.0)
    solution = checked(problem, tol=tol, max_iter=150)
    assert np.count_nonzero(solution.weights) < 30


def test_kinks_under_a_penalty_whose_dual_has_bounds_are_looked_for_from_beta_0(monkeypatch):
    """A bundle mixes dual points of any size, whose R* has to be finite: beta = 0 is one of them, if feasible."""
    problem = make_problem(seed=31, regularizer=ConcaveBlock(SmoothedRoot(0.0016)))
    monkeypatch.setattr(tuning, "SERIOUS", 0.9)  # nearly every trial point fails, and gives a cut
    checked(problem)
    monkeypatch.undo()
    checked(problem)
