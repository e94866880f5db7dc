"""`solve` on every loss with every regulariser: certified by an independent evaluation, equal to the cvxpy truth."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from makers import DEGENERATE, FAMILIES, LOSSES, PAIRS, make_problem
from native.solving import ACROSS, TOL, checked, every_loss, honest, loop_on, overlap, well_posed
from scipy.special import lambertw, xlogy
from sklearn.datasets import load_breast_cancer
from sklearn.svm import SVC

import mklref
from mklref import reference
from mklref.certificate import certify
from mklref.machines import machine
from mklref.native import loop, tuning
from mklref.native.point import equal_weights, nearer
from mklref.regularizers import (
    BlockNorm,
    ConcaveBlock,
    ElasticNet,
    Fixed,
    Groups,
    HalfPower,
    Lp,
    Power,
    Regularizer,
    SmoothedRoot,
    Tikhonov,
    WeightedL1,
)
from mklref.regularizers.rescaled import Rescaled
from mklref.solution import Status

REGULARIZERS = (*(Lp(p) for p in (1, 1 + 1e-6, 1.01, 4 / 3, 2, 4, np.inf)), Fixed([0.5, 0.0, 1.0, 0.3]), *FAMILIES)


CASES = [
    pytest.param(loss, regularizer, DEGENERATE[(3 * i + j) % len(DEGENERATE)], id=f"{loss}-{regularizer}-{i + j}")
    for i, loss in enumerate(LOSSES)
    for j, regularizer in enumerate(REGULARIZERS)
    if well_posed(loss, regularizer)
]


@pytest.mark.sampled(12)
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


@pytest.mark.sampled(14)
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


@pytest.mark.sampled(6)
@pytest.mark.parametrize(
    ("M", "regularizers"),
    [(1, (Lp(1), Lp(1.5), Lp(np.inf))), (4, ("uniform", Lp(np.inf)))],
    ids=["one kernel", "all weights 1"],
)
@pytest.mark.parametrize("C", [0.02, 1.0, 200.0])
def test_it_is_the_svm_on_the_sum(C, M, regularizers):
    problem = make_problem(M=M, C=C, seed=13, n=60)
    theirs = svm_bounds(problem.kernels.dense().sum(axis=0), problem)
    assert theirs.relative_gap < 1e-3  # what libsvm reaches for large C
    for regularizer in regularizers:
        ours = checked(problem.replace(regularizer=regularizer))
        assert theirs.lower <= ours.objective * (1 + 1e-12)
        assert ours.certificate.lower <= theirs.upper
        np.testing.assert_allclose(ours.weights, 1.0, rtol=1e-12)


# --- kinks of J -----------------------------------------------------------------------------------------------


@pytest.mark.sampled(2)
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


def test_a_model_whose_minimum_is_inside_the_ball_has_less_curvature():
    """Its step says nothing of the weights: 13 machines, and 50 or more of larger problems, were spent on cuts."""
    problem = make_problem(loss="logistic", seed=19, C=1000.0, regularizer=Groups([[0, 1], [2, 3]], 0.3, 0.7))
    assert checked(problem).history.counters["machines"] < 8


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("loss", "lam"), [("logistic", 1e-3), ("hinge", 0.5), ("squared", 0.5)])
def test_a_kernel_that_is_far_too_large_keeps_a_small_weight(loss, lam):
    """At weight 0 its norm is so large that no Newton step leads back; rounding makes one of forty hard, by chance."""
    kernels, reached = np.array([[[2e-4, -5e-5], [-5e-5, 1e-4]], [[1e7, 3e6], [3e6, 9e5]]]), 0
    for factor in 1.0 + np.arange(20) / 200:
        one = {"C": 900.0, "loss": loss, "regularizer": ElasticNet(lam), "intercept": False}
        reached += honest(mklref.Problem(factor * kernels, [1.0, -1.0], **one)).status is Status.OPTIMAL
    assert reached >= 17


@pytest.mark.sampled(3)
@pytest.mark.parametrize("loss", ["hinge", "logistic", "epsilon_insensitive"])
def test_kernels_of_very_different_scales_take_few_iterations(loss):
    """Weights that fall by six decades do so at once: halved each time, the five problems take 98 to 110 of them."""
    taken = 0
    for seed in range(5):
        rng = np.random.default_rng(seed)
        factors = [scale * rng.normal(size=(12, rank)) for rank, scale in ((1, 1.0), (1, 1e3), (12, 1.0))]
        y = rng.normal(size=12)
        y = y if loss == "epsilon_insensitive" else np.sign(y)
        stack = np.array([A @ A.T for A in factors])
        taken += len(checked(mklref.Problem(stack, y, loss=loss, regularizer=Power(1.1))).history)
    assert taken <= 60


@pytest.mark.thorough
@pytest.mark.parametrize(("loss", "C", "gap"), [("squared", 1e5, 1e-6), ("pinball", 1e6, 3e-3)])
def test_a_steep_penalty_magnifies_no_rounding_of_the_dual_norms(loss, C, gap):
    """R* = sum g^179 / 179: the errors of g in a dual point of 1e6 times its norm, or its halves, leave gaps of 0.7."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(20, 3))
    kernels = 1e4 * np.stack([(X @ X.T + 1.0) ** 3, (X @ X.T + 1.0) ** 2])
    y = X[:, 0] ** 2 + rng.normal(size=20)
    solution = mklref.solve(mklref.Problem(kernels, y, C=C, loss=loss, regularizer=Power(1.0113)))
    assert solution.certificate.relative_gap <= gap


@pytest.mark.sampled(3)
@pytest.mark.parametrize("regularizer", [HalfPower(1.2), Tikhonov(2, 0.3), Power(2)])
def test_the_scale_of_the_kernels_costs_few_machines(regularizer):
    """Norms of functions are those of the targets over its root: from norms of 1 they are 111, 268 and 455, not 56.

    Counted up to where the lower bound is at the optimum. The upper one has C times the roundings of scores beside an
    objective of 1e-11: the last bits decide when it comes down.
    """
    taken = 0
    rng = np.random.default_rng(0)
    for k in range(8):
        L = rng.normal(size=(3, 10, 10))
        y = np.where(rng.random(10) < 0.5, 1.0, -1.0)
        y[:2] = 1.0, -1.0
        problem = mklref.Problem(
            1e16 * L @ L.transpose(0, 2, 1), y, C=10.0 ** (k - 2), regularizer=regularizer, intercept=bool(k % 2)
        )
        solution = checked(problem)
        lower = solution.history.column("lower")
        taken += 1 + int(np.argmax(lower >= solution.certificate.lower - TOL * solution.objective))
    assert taken <= 8 * 9, taken


def test_an_elastic_net_is_smoothed_in_the_unit_of_the_norms():
    """Its relatives by lam itself are as steep as it where norms are small: the eight problems take 363 machines."""
    rng, net, taken = np.random.default_rng(0), ElasticNet(1e-6, "tikhonov"), 0
    for k in range(8):
        L = rng.normal(size=(3, 10, 10))
        y = np.where(rng.random(10) < 0.5, 1.0, -1.0)
        y[:2] = 1.0, -1.0
        stack = 1e8 * L @ L.transpose(0, 2, 1)
        problem = mklref.Problem(stack, y, C=10.0 ** (k - 2), regularizer=net, intercept=bool(k % 2))
        taken += len(checked(problem).history)
    assert taken <= 220, taken  # 143


def test_first_functions_of_large_kernels_are_not_orders_larger_than_the_targets():
    """Norms as large as the smallest kernel needs gave the others weights 1e20 times as large as theirs."""
    problem = make_problem(n=12, M=2, C=1e3, regularizer=HalfPower(1.2))
    small, other = problem.kernels.dense()
    problem = problem.replace(kernels=[small, 1e20 * other])
    norms = tuning.FIRST_SCORES / np.sqrt([2.0 * np.trace(small) / 12, 2e20 * np.trace(other) / 12])
    expected = problem.regularizer.weights_from_norms(norms * [1.0, tuning.LARGEST_SCORES])
    np.testing.assert_allclose(equal_weights(loop_on(problem).machine), expected, rtol=1e-12)


@pytest.mark.parametrize("regularizer", [Power(1.0), HalfPower(1.2), ElasticNet(0.3), Tikhonov(2.0, 1.0)])
def test_first_norms_are_in_the_unit_of_kernels_and_targets(regularizer):
    """Norms of 1 were first in some unit, others in one that is by orders another; and targets counted from 0."""
    problem = make_problem(n=12, M=3, loss="squared", C=1.0, regularizer=regularizer)
    first = equal_weights(loop_on(problem).machine)
    for s in (2.0**-40, 2.0**40):
        scaled = Rescaled.of(regularizer, 1.0 / np.sqrt(s))  # the same functions have the same penalty
        larger = problem.replace(kernels=s * problem.kernels.dense(), regularizer=scaled)
        np.testing.assert_allclose(s * equal_weights(loop_on(larger).machine), first, rtol=1e-12)
    moved = problem.replace(y=problem.y + 1e6)
    np.testing.assert_allclose(equal_weights(loop_on(moved).machine), first, rtol=1e-6)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("loss", ["squared", "squared_hinge"])
@pytest.mark.parametrize("regularizer", [Power(1.0), ElasticNet(0.3), Groups([[0, 2], [1, 3]], 0.5, 0.5)])
def test_a_run_is_the_same_in_every_unit_of_the_kernels(regularizer, loss):
    problem, taken = make_problem(n=24, M=4, loss=loss, C=100.0, regularizer=regularizer), []
    for s in (2.0**-40, 1.0, 2.0**40):
        scaled = Rescaled.of(regularizer, 1.0 / np.sqrt(s))
        if regularizer.degree == 2.0:
            larger = problem.replace(kernels=s * problem.kernels.dense(), C=100.0 / s)
        else:
            larger = problem.replace(kernels=s * problem.kernels.dense(), regularizer=scaled)
        taken.append(len(checked(larger).history))
    assert max(taken) <= min(taken) + 1, taken


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    "regularizer", [Power(1.5), Tikhonov(1, 1.0), Tikhonov(2, 1.0), ElasticNet(0.3), ConcaveBlock(SmoothedRoot(0.5))]
)
def test_a_one_class_run_is_the_same_in_every_unit_of_the_kernels(regularizer):
    """f = 0 loses nothing, and norms of 1 came first whatever the unit."""
    problem, firsts, taken = make_problem(n=24, M=4, loss="one_class", C=0.15), [], []
    for s in (2.0**-40, 1.0, 2.0**40):
        scaled = Rescaled.of(regularizer, 1.0 / np.sqrt(s))
        larger = problem.replace(kernels=s * problem.kernels.dense(), regularizer=scaled)
        records = checked(larger).history.records
        firsts.append(s * records[0].weights)
        taken.append(len(records))
    np.testing.assert_allclose(firsts, np.tile(firsts[1], (3, 1)), rtol=1e-6)
    assert max(taken) <= min(taken) + 1, taken


def test_first_norms_that_overflow_are_cut_off():
    """Halved from infinity on they never came to an end, whatever `max_time`."""
    problem = make_problem(n=12, M=2, loss="epsilon_insensitive", C=1e-6, regularizer=WeightedL1([1.0, 1.0]))
    small, other = problem.kernels.dense()
    problem = problem.replace(kernels=[1e-140 * small, other], y=1e250 * problem.y)
    assert np.isfinite(mklref.solve(problem, max_iter=2).weights).all()


def test_a_point_that_is_moved_has_no_products_of_where_it_was(rng, monkeypatch, calls_of):
    """(t beta, theta/t) had those of beta: of kernels in float32 t is 1/3 at times."""
    A, y, moved = rng.normal(size=(3, 130, 2)), np.where(rng.random(130) < 0.5, 1.0, -1.0), []
    problem = mklref.Problem((A @ A.transpose(0, 2, 1)).astype(np.float32), y, regularizer=BlockNorm(4))

    def certified(problem, beta, weights, tol, products=None):
        if products is not None:
            np.testing.assert_array_equal(products, problem.kernels.apply(beta))
        return products is not None

    taken = calls_of(machine, "certify_for", certified)
    monkeypatch.setattr(loop, "nearer", lambda *the: moved.extend(nearer(*the)) or moved)
    mklref.solve(problem)
    assert any(taken)
    assert moved


@dataclass(frozen=True)
class Entropy(Regularizer):
    """psi = sum theta log theta - theta + 1: R* grows as exp(g^2/2), and is out of float64 from g = 38 on."""

    def value(self, rho):
        theta = self.weights_from_norms(rho)
        return 0.5 * float(np.sum(rho**2 / theta)) + self.weight_penalty(theta)

    def conjugate(self, g):
        return float(np.sum(np.expm1(g**2 / 2.0)))

    def weights_from_norms(self, rho):
        return np.exp(0.5 * lambertw(rho**2).real)

    def weights_from_dual(self, g):
        return np.exp(g**2 / 2.0)

    def weights_jacobian(self, g):
        return np.diag(0.5 * self.weights_from_dual(g))

    def weight_penalty(self, theta):
        return float(np.sum(xlogy(theta, theta) - theta + 1.0))


@pytest.mark.parametrize("size", [1.0, 1e3, 1e4])
def test_a_point_is_returned_where_weights_leave_float64(size):
    """That of the nu machine whose first dual point has none, or weights whose norms have no square."""
    problem = make_problem(loss="one_class", seed=3, regularizer=Entropy())
    problem = problem.replace(kernels=size * problem.kernels.dense())
    with np.errstate(over="ignore"):
        solution = mklref.solve(problem)
    assert (solution.status is Status.OPTIMAL) == solution.certificate.is_optimal(1e-6)
    assert np.isfinite(solution.weights).all()
    assert solution.certificate.lower <= solution.objective < np.inf
