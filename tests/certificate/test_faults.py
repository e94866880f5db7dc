"""Planted faults are rejected, and `explain` says in words what is wrong with a point."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from certificate.points import M, N, optimum, small
from makers import LOSSES

from mklref.certificate import certify, repair
from mklref.problem import Problem
from mklref.regularizers import Fixed, Lp


def flipped_intercept(problem, beta, theta, b):
    return beta, theta, -b


def uniform_weights(problem, beta, theta, b):
    return beta, Lp(problem.regularizer.p).weights_from_norms(np.zeros(M)), b


def shrunk_dual(problem, beta, theta, b):
    return 0.5 * beta, theta, b


def weights_of_another_iterate(problem, beta, theta, b):
    """The weights that the dual point of the sum kernel asks for: a wrapper's first iterate."""
    _, _, first, _, _ = optimum(problem.replace(regularizer="uniform"))
    return beta, problem.regularizer.weights_from_dual(problem.kernels.norms(first)), b


FAULTS = (flipped_intercept, uniform_weights, shrunk_dual, weights_of_another_iterate)


@pytest.fixture(scope="module")
def solved():
    """Problems with the optimal value, how well it is known, and an optimal point, solved when first asked for."""
    found = {}

    def solve(loss, p):
        if (loss, p) not in found:
            problem = small(loss, Lp(p), seed=4, C=2.0)
            value, error, beta, rho, b = optimum(problem)
            point = beta, problem.regularizer.weights_from_norms(rho), b
            found[loss, p] = problem, (value, error + 1e-7 * abs(value)), point
        return found[loss, p]

    return solve


@pytest.mark.sampled(4)
@pytest.mark.parametrize("p", [1, 4 / 3, 2])
@pytest.mark.parametrize("loss", ["hinge", "squared", "epsilon_insensitive", "logistic"])
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_planted_faults_are_rejected(solved, loss, p, fault):
    problem, (value, accuracy), point = solved(loss, p)
    beta, theta, b = point
    good = certify(problem, beta, weights=theta, intercept=b)
    assert good.lower - accuracy <= value <= good.upper + accuracy
    assert good.relative_gap < 1e-4
    beta, theta, b = fault(problem, *point)
    bad = certify(problem, beta, weights=theta, intercept=b)
    assert bad.lower - accuracy <= value <= bad.upper + accuracy
    assert bad.relative_gap > 1e-3
    assert bad.relative_gap > 50 * good.relative_gap
    assert not bad.is_optimal(1e-6)
    assert "is the optimum" not in bad.explain()


def test_explain_names_a_better_intercept(solved):
    problem, _, (beta, theta, b) = solved("hinge", 2)
    bad = certify(problem, beta, weights=theta, intercept=b + 1.5)
    assert f"The intercept {b + 1.5:.6g} is not the best: {bad.better_intercept:.6g} lowers the upper" in bad.explain()
    assert bad.better_intercept == pytest.approx(b, abs=1e-3)
    assert "Most of the gap" not in bad.explain()  # nothing is wrong with weights and samples


def test_explain_blames_the_weights_and_names_the_kernel(solved):
    problem, _, (beta, theta, _) = solved("hinge", 2)
    m = int(np.argmax(theta))
    theta = theta.copy()
    theta[m] *= 0.2
    bad = certify(problem, beta, weights=theta)
    assert bad.worst_kernel == m
    assert f"comes from the kernel weights: that of kernel {m} disagrees most with the dual point" in bad.explain()
    assert f"the weights that fit it lower the upper bound to {bad.fitting_upper:.9g}." in bad.explain()
    assert bad.fitting_upper == certify(problem, beta).objective
    shares = {"better_upper": 0.4, "fitting_upper": 0.7}  # of which the intercept has 0.4, and the weights 0.3 alone
    mixed = replace(bad, regularizer_gap=0.0, **{name: bad.objective - part * bad.gap for name, part in shares.items()})
    assert "Most of the gap comes from the samples" in mixed.explain()


def test_explain_blames_the_weights_where_they_are_no_function_of_the_dual_point():
    """At p = 1 the closed form is of no help, but R(rho) + R*(g) - rho'g shows what is wrong.

    At the optimum two kernels share the largest g; a dual point a little aside, whose closed form is one kernel alone,
    takes the choice from rounding.
    """
    problem = small(seed=4, C=0.1)
    _, _, beta, rho, b = optimum(problem)
    beta = 0.99 * beta + 0.01 * optimum(problem.replace(regularizer="uniform"))[2]
    beta, theta, b = uniform_weights(problem, beta, problem.regularizer.weights_from_norms(rho), b)
    bad = certify(problem, beta, weights=theta, intercept=b)
    assert bad.fitting_upper > bad.upper
    assert "Most of the gap comes from the kernel weights" in bad.explain()
    assert "Most of the gap comes from the samples" in certify(problem, 0.5 * beta, weights=theta).explain()


@pytest.mark.sampled(2)
@pytest.mark.parametrize("loss", LOSSES, ids=str)
def test_explain_names_the_worst_sample(loss):
    """One dual variable that does not fit its score, on the boundary of the box."""
    problem = small(loss, Lp(2), C=1.0 if not loss.intercept_cost else 0.2)
    _, _, beta, rho, _ = optimum(problem)
    theta = problem.regularizer.weights_from_norms(rho)
    lower, upper = (np.clip(bound, -9.0, 9.0) for bound in loss.box(problem.y, problem.costs))
    i = int(np.argmax(np.maximum(beta - lower, upper - beta)))
    beta = beta.copy()
    beta[i] = lower[i] if beta[i] - lower[i] > upper[i] - beta[i] else upper[i]
    rest = np.arange(N) != i
    room = np.minimum(beta - lower, upper - beta) * rest
    if problem.intercept:
        beta -= (
            np.sign(beta.sum() - problem.intercept_cost)
            * room
            * min(1.0, abs(beta.sum() - problem.intercept_cost) / room.sum())
        )
    bad = certify(problem, beta, weights=theta)
    assert bad.worst_sample == i
    assert bad.gap > 1e-3


def test_explain_says_what_is_infeasible():
    problem = small(C=0.5)
    beta = 0.1 * problem.y
    beta[7] = 0.9 * problem.y[7]
    bad = certify(problem, beta, weights=[0.5, 0.5, 0.5, -0.25])
    text = bad.explain()
    assert "Infeasible: weights[3] = -0.25 is negative." in text
    assert "Infeasible: weights lie outside the domain of Lp(1): only 0.666667 times them is allowed." in text
    assert f"Infeasible: dual_coef[7] = {beta[7]:g} lies outside [" in text
    assert f"Infeasible: dual_coef sums to {beta.sum():.6g} instead of 0." in text
    assert "\nThe bounds hold all the same: they are those of the repaired point." in text
    assert bad.infeasibility == pytest.approx(max(0.4, abs(beta.sum())))


def test_a_small_violation_is_told_apart_from_its_bound():
    problem = small(C=0.5)
    beta = np.where(problem.y > 0.0, 1.0, -1.0) * 0.5 * (1.0 + 1e-9)
    said = certify(problem, beta, weights=[1.0 + 1e-8, 0.0, 0.0, 0.0]).explain()
    assert "dual_coef[0] = 0.500000001 lies outside [0, 0.5]." in said
    assert "only 0.99999999 times them is allowed." in said


@pytest.mark.parametrize(("size", "rounded"), [(5e-16, True), (5e-13, False)])
def test_a_violation_at_rounding_of_the_box_is_said_to_be_one(size, rounded):
    problem = small(C=0.5)
    beta = 0.1 * problem.y
    beta[3] = -size * problem.y[3]
    said = certify(problem, beta, weights=[0.25] * 4).explain()
    assert f"Infeasible: dual_coef[3] = {beta[3]:g} lies outside [" in said
    assert (f"] by {size:g}, which is rounding." in said) == rounded


def test_the_worst_kernel_is_the_one_whose_weight_matters(rng):
    """A kernel of tiny scale may have any weight."""
    problem = small(regularizer="uniform")
    K = problem.kernels.dense() * np.array([1.0, 1e-8, 1.0, 1.0])[:, None, None]
    problem = Problem(K, problem.y, regularizer="uniform")
    beta = repair(problem, rng.normal(size=N))[0]
    assert certify(problem, beta, weights=[1.0, 0.0, 0.7, 1.0]).worst_kernel == 2


def test_infinite_bounds_are_said(rng):
    problem = small(regularizer=Fixed([1.0, 0.0, 1.0, 1.0]))
    bad = certify(problem, rng.normal(size=N), weights=[0.5, 0.5, 0.5, 0.5])
    assert (bad.upper, bad.relative_gap) == (np.inf, np.inf)
    assert not bad.is_optimal(1e300)
    assert "The primal objective is not finite at this point." in bad.explain()


@pytest.mark.sampled(2)
@pytest.mark.parametrize("loss", ["hinge", "squared", "logistic"])
@pytest.mark.parametrize("scale", [1e150, 1e200, 1e300])
def test_absurd_points_give_no_warning_and_true_bounds(loss, scale, rng):
    problem = small(loss, Lp(2))
    certificate = certify(problem, scale * rng.normal(size=N), weights=[1.0, 1.0, 0.0, 1.0])
    value, error = optimum(problem)[:2]
    assert certificate.lower - error <= value <= certificate.upper + error
    assert certificate.explain()


@pytest.mark.sampled(2)
@pytest.mark.parametrize("loss", ["hinge", "squared", "logistic"])
@pytest.mark.parametrize("scale", [1e-160, 1e-200, 1e-280])
def test_squares_that_underflow_do_not_make_functions_free(loss, scale):
    """theta beta is that of the optimum, beta'K beta = 0 in float64: with R = 0 the upper bound was below it."""
    problem = small(loss, Lp(2))
    value, error, beta, rho, b = optimum(problem)
    theta = problem.regularizer.weights_from_norms(rho)
    certificate = certify(problem, scale * beta, weights=theta / scale, intercept=b)
    assert certificate.lower - error <= value <= certificate.upper + error
