"""The numerical certificate: bounds by definition, weak duality, invariances, witnesses, planted faults, words."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import pytest
from makers import DEGENERATE, LOSSES, make_problem

from mklref.certificate import Certificate, certify, repair
from mklref.exceptions import InvalidKernel, InvalidParameter, InvalidType
from mklref.kernels import ArrayStack
from mklref.problem import Problem
from mklref.regularizers import ConcaveBlock, ElasticNet, Fixed, Lp, Power, SmoothedRoot

N, M = 20, 4
PS = (1, 4 / 3, 2, np.inf)
REGULARIZERS = (*(Lp(p) for p in PS), Fixed([0.3, 0.0, 1.0, 0.2]), ElasticNet(0.4), Power(1))

every_loss = pytest.mark.parametrize("loss", LOSSES, ids=str)


def small(loss="hinge", regularizer="l1", **arguments):
    return make_problem(loss=loss, regularizer=regularizer, n=N, M=M, **arguments)


def skip_ill_posed(loss, regularizer):
    if loss.intercept_cost and regularizer.degree == 1.0:
        pytest.skip("the nu machine refuses penalties of degree 1")


def factors(problem):
    """L_m with K_m = L_m L_m'."""
    for K in problem.kernels.dense():
        values, vectors = np.linalg.eigh(K)
        kept = values > 1e-13 * values[-1]
        yield vectors[:, kept] * np.sqrt(values[kept])


def optimum(problem):
    """(P*, beta, rho, b) from the block-norm primal, declared from the definition of the problem.

    minimise C sum V(t) + R(s) + c_b b over v_m, s, b with t = sum L_m v_m + b and ||v_m|| <= s_m; beta is the
    multiplier of the definition of t.
    """
    L = list(factors(problem))
    v = [cp.Variable(Lm.shape[1]) for Lm in L]
    s = cp.Variable(len(L), nonneg=True)
    b = cp.Variable() if problem.intercept else 0.0
    t = cp.Variable(problem.n_samples)
    penalty, domain = problem.regularizer.value_atom(s)
    scores = t == sum(Lm @ vm for Lm, vm in zip(L, v, strict=True)) + b
    objective = problem.costs @ problem.loss.atom(t, problem.y) + penalty + problem.intercept_cost * b
    program = cp.Problem(
        cp.Minimize(objective), [scores, *domain, *(cp.norm(vm) <= sm for vm, sm in zip(v, s, strict=True))]
    )
    program.solve(solver="CLARABEL", use_quad_obj=False)
    rho = np.array([np.linalg.norm(vm.value) for vm in v])
    return program.value, scores.dual_value, rho, float(b.value) if problem.intercept else 0.0


def random_point(problem, rng, scale):
    """Anything: mostly infeasible dual variables, weights and intercept."""
    weights = rng.exponential(size=M) * (rng.uniform(size=M) < 0.8)
    intercept = float(scale * rng.normal()) if problem.intercept else None
    return scale * rng.normal(size=problem.n_samples), weights, intercept


# --- bounds ---------------------------------------------------------------------------------------------------


@every_loss
@pytest.mark.parametrize("regularizer", REGULARIZERS, ids=str)
def test_bounds_by_definition(loss, regularizer, rng):
    """Functions f_m = theta_m K_m beta in feature space, and the dual objective at the repaired point."""
    skip_ill_posed(loss, regularizer)
    problem = small(loss, regularizer, sample_weight=rng.uniform(0.5, 2.0, size=N))
    for scale in (0.03, 1.0):
        beta, theta, b = random_point(problem, rng, scale)
        b = 0.0 if b is None else b
        functions = [weight * L.T @ beta for weight, L in zip(theta, factors(problem), strict=True)]
        scores = sum(L @ w for L, w in zip(factors(problem), functions, strict=True)) + b
        upper = sum(
            c * problem.loss.value(np.array([t]), np.array([y]))[0]
            for c, t, y in zip(problem.costs, scores, problem.y, strict=True)
        )
        upper += (
            problem.regularizer.value(np.array([np.linalg.norm(w) for w in functions])) + problem.intercept_cost * b
        )

        point, _ = repair(problem, beta)
        g = np.array([np.linalg.norm(L.T @ point) for L in factors(problem)])
        shrink = problem.regularizer.dual_scale(g)
        lower = -problem.regularizer.conjugate(shrink * g) - sum(
            c * problem.loss.conjugate(np.array([-shrink * a / c]) * (1 - 1e-15), np.array([y]))[0]
            for c, a, y in zip(problem.costs, point, problem.y, strict=True)
        )
        found = certify(problem, beta, weights=theta, intercept=b)
        assert found.upper == pytest.approx(upper, rel=1e-9)
        assert found.lower == pytest.approx(lower, rel=1e-9, abs=1e-12)
        assert found.intercept == b


@every_loss
@pytest.mark.parametrize("regularizer", REGULARIZERS, ids=str)
def test_every_point_encloses_the_optimum(loss, regularizer, rng):
    """lower <= P* <= upper, whatever the point; and at the optimum the interval is narrow."""
    skip_ill_posed(loss, regularizer)
    problem = small(loss, regularizer)
    value, beta, rho, b = optimum(problem)
    accuracy = 1e-6 * max(1.0, abs(value))
    for scale in (1e-6, 0.1, 1.0, 100.0):
        for _ in range(4):
            point, weights, intercept = random_point(problem, rng, scale)
            for certificate in (
                certify(problem, point),
                certify(problem, point, weights=weights),
                certify(problem, point, weights=weights, intercept=intercept),
            ):
                assert certificate.lower <= value + accuracy
                assert certificate.upper >= value - accuracy
                assert certificate.gap >= -1e-12 * max(1.0, abs(certificate.upper))
    theta = problem.regularizer.weights_from_norms(rho)
    certificate = certify(problem, beta, weights=theta, intercept=b)
    assert certificate.lower == pytest.approx(value, abs=10 * accuracy)
    assert certificate.relative_gap < 2e-3  # a dual error of eps costs the hinge primal about sqrt(eps)


@pytest.mark.parametrize("degenerate", DEGENERATE)
@pytest.mark.parametrize("p", PS)
@pytest.mark.parametrize("loss", ["hinge", "squared", "one_class"])
def test_weak_duality_with_degenerate_kernels(loss, p, degenerate, rng):
    problem = small(loss, Lp(p), degenerate=degenerate)
    for scale in (1e-3, 1.0, 1e3):
        beta, weights, intercept = random_point(problem, rng, scale)
        certificate = certify(problem, beta, weights=weights, intercept=intercept)
        assert -np.inf < certificate.lower <= certificate.upper < np.inf
    assert np.isfinite(certify(problem, np.zeros(N)).gap)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_single_precision_kernels_are_certified_as_they_are(dtype, rng):
    reference = small()
    K = (reference.kernels.dense() + 1e-3 * np.eye(N)).astype(dtype)
    problem = Problem(K, reference.y)
    converted = Problem(K.astype(np.float64), reference.y)
    beta, weights, _ = random_point(problem, rng, 1.0)
    found, expected = certify(problem, beta, weights=weights), certify(converted, beta, weights=weights)
    assert found.lower == pytest.approx(expected.lower, rel=1e-12)
    assert found.upper == pytest.approx(expected.upper, rel=1e-12)


@pytest.mark.parametrize("regularizer", REGULARIZERS, ids=str)
def test_regularizer_gap_by_definition(regularizer, rng):
    """R(rho) + R*(g) - rho'g, with g shrunk into the domain of R* where it is an indicator."""
    problem = small("squared", regularizer)
    beta = repair(problem, rng.normal(size=N))[0]
    theta = rng.uniform(0.1, 0.4, size=M) * (regularizer.weights_from_dual(np.ones(M)) > 0.0)
    g = np.sqrt([beta @ K @ beta for K in problem.kernels.dense()])
    shrunk = regularizer.dual_scale(g) * g
    expected = regularizer.value(theta * g) + regularizer.conjugate(shrunk) - (theta * g) @ shrunk
    found = certify(problem, beta, weights=theta).regularizer_gap
    assert found == pytest.approx(expected, rel=1e-9)
    assert found > 0.0


def test_the_nu_machine_has_no_lower_bound_outside_the_domain_of_the_conjugate():
    """Shrinking the dual point would break 1'beta = 1."""
    base = small("one_class", ConcaveBlock(SmoothedRoot(0.1)))
    uniform = np.full(N, 1.0 / N)
    inside, outside = (
        Problem(scale * base.kernels.dense(), base.y, C=base.C, loss=base.loss, regularizer=base.regularizer)
        for scale in (1e-2, 1e4)
    )
    assert certify(inside, uniform).lower > -np.inf
    bad = certify(outside, uniform)
    assert bad.lower == -np.inf
    assert "The dual objective is not finite at this point, even after repair." in bad.explain()


# --- the default weights and the best intercept ---------------------------------------------------------------


@pytest.mark.parametrize("p", PS)
def test_default_weights_are_the_closed_form(p, rng):
    problem = small(regularizer=Lp(p))
    beta = repair(problem, rng.normal(size=N))[0]
    g = np.sqrt(problem.kernels.quadratic(beta))
    assert certify(problem, beta) == certify(problem, beta, weights=problem.regularizer.weights_from_dual(g))


@every_loss
def test_default_intercept_is_the_best_one(loss, rng):
    problem = small(loss, Lp(2))
    beta = repair(problem, 0.1 * rng.normal(size=N))[0]
    best = certify(problem, beta)
    assert best.intercept == best.better_intercept
    assert best.upper == best.better_upper
    if problem.intercept:
        other = certify(problem, beta, intercept=best.intercept + 0.3)
        assert other.better_upper == best.upper < other.upper
        assert other.lower == best.lower


# --- invariances ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("exponent", [-900, -40, 40, 900])
def test_scaling_by_a_power_of_two_is_exact(exponent, rng):
    """P(cK, C) = P(K, cC)/c, bit for bit: the point (beta, theta, b) becomes (beta/c, theta, b)."""
    c = 2.0**exponent
    problem = small(regularizer=Lp(4 / 3), C=0.7)
    beta, weights, b = random_point(problem, rng, 0.3)
    here = certify(problem, beta, weights=weights, intercept=b)
    scaled = Problem(c * problem.kernels.dense(), problem.y, C=0.7 / c, regularizer=Lp(4 / 3))
    there = certify(scaled, beta / c, weights=weights, intercept=b)
    assert (c * there.lower, c * there.upper, there.intercept) == (here.lower, here.upper, here.intercept)


def test_permuting_samples_or_kernels_changes_nothing(rng):
    problem = small(regularizer=Lp(2))
    beta, weights, b = random_point(problem, rng, 0.3)
    here = certify(problem, beta, weights=weights, intercept=b)
    samples, kernels = rng.permutation(N), rng.permutation(M)
    K = problem.kernels.dense()[kernels][:, samples][:, :, samples]
    other = Problem(K, problem.y[samples], regularizer=Lp(2))
    there = certify(other, beta[samples], weights=weights[kernels], intercept=b)
    assert there.lower == pytest.approx(here.lower, rel=1e-12)
    assert there.upper == pytest.approx(here.upper, rel=1e-12)
    assert samples[there.worst_sample] == here.worst_sample
    assert kernels[there.worst_kernel] == here.worst_kernel


def test_relabelling_flips_the_point(rng):
    problem = small()
    beta, weights, b = random_point(problem, rng, 0.3)
    here = certify(problem, beta, weights=weights, intercept=b)
    there = certify(problem.replace(y=-problem.y), -beta, weights=weights, intercept=-b)
    assert (there.lower, there.upper) == (here.lower, here.upper)


def test_a_constant_kernel_matrix_added_changes_nothing_with_an_intercept(rng):
    problem = small(regularizer="uniform")
    beta = repair(problem, rng.normal(size=N))[0]
    shifted = Problem(problem.kernels.dense() + 0.9, problem.y, regularizer="uniform")
    here, there = certify(problem, beta), certify(shifted, beta)
    assert there.lower == pytest.approx(here.lower, rel=1e-12)
    assert there.upper == pytest.approx(here.upper, rel=1e-12)


# --- planted faults -------------------------------------------------------------------------------------------


def flipped_intercept(problem, beta, theta, b):
    return beta, theta, -b


def uniform_weights(problem, beta, theta, b):
    return beta, Lp(problem.regularizer.p).weights_from_norms(np.zeros(M)), b


def shrunk_dual(problem, beta, theta, b):
    return 0.5 * beta, theta, b


def weights_of_another_iterate(problem, beta, theta, b):
    """The weights that the dual point of the sum kernel asks for: a wrapper's first iterate."""
    _, first, _, _ = optimum(problem.replace(regularizer="uniform"))
    return beta, problem.regularizer.weights_from_dual(np.sqrt(problem.kernels.quadratic(first))), b


FAULTS = (flipped_intercept, uniform_weights, shrunk_dual, weights_of_another_iterate)


@pytest.fixture(scope="module")
def solved():
    """Problems with an optimal point and the optimal value, solved when first asked for."""
    found = {}

    def solve(loss, p):
        if (loss, p) not in found:
            problem = small(loss, Lp(p), seed=4, C=2.0)
            value, beta, rho, b = optimum(problem)
            found[loss, p] = problem, value, (beta, problem.regularizer.weights_from_norms(rho), b)
        return found[loss, p]

    return solve


@pytest.mark.parametrize("p", [1, 4 / 3, 2])
@pytest.mark.parametrize("loss", ["hinge", "squared", "epsilon_insensitive", "logistic"])
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_planted_faults_are_rejected(solved, loss, p, fault):
    problem, value, point = solved(loss, p)
    beta, theta, b = point
    good = certify(problem, beta, weights=theta, intercept=b)
    assert good.lower - 1e-7 * abs(value) <= value <= good.upper + 1e-7 * abs(value)
    assert good.relative_gap < 1e-4
    beta, theta, b = fault(problem, *point)
    bad = certify(problem, beta, weights=theta, intercept=b)
    assert bad.lower - 1e-7 * abs(value) <= value <= bad.upper
    assert bad.relative_gap > 1e-3
    assert bad.relative_gap > 50 * good.relative_gap
    assert not bad.is_optimal(1e-6)
    assert "is the optimum" not in bad.explain()


# --- words ----------------------------------------------------------------------------------------------------


def test_explain_names_a_better_intercept(solved):
    problem, _, (beta, theta, b) = solved("hinge", 2)
    bad = certify(problem, beta, weights=theta, intercept=b + 1.5)
    assert f"The intercept {b + 1.5:.6g} is not the best: {bad.better_intercept:.6g} lowers the upper" in bad.explain()
    assert bad.better_intercept == pytest.approx(b, abs=1e-3)


def test_explain_blames_the_weights_and_names_the_kernel(solved):
    problem, _, (beta, theta, _) = solved("hinge", 2)
    m = int(np.argmax(theta))
    theta = theta.copy()
    theta[m] *= 0.2
    bad = certify(problem, beta, weights=theta)
    assert bad.worst_kernel == m
    assert f"comes from the kernel weights: that of kernel {m} disagrees most with the dual point" in bad.explain()
    assert f"the weights that fit it lower the upper bound to {bad.fitting_upper:.9g}." in bad.explain()
    assert bad.fitting_upper == certify(problem, beta).upper


def test_explain_blames_the_weights_where_they_are_no_function_of_the_dual_point():
    """At p = 1 the closed form is of no help, but R(rho) + R*(g) - rho'g shows what is wrong."""
    problem = small(seed=4, C=0.1)
    _, beta, rho, b = optimum(problem)
    beta, theta, b = uniform_weights(problem, beta, problem.regularizer.weights_from_norms(rho), b)
    bad = certify(problem, beta, weights=theta, intercept=b)
    assert bad.fitting_upper > bad.upper
    assert "Most of the gap comes from the kernel weights" in bad.explain()
    assert "Most of the gap comes from the samples" in certify(problem, 0.5 * beta, weights=theta).explain()


@every_loss
def test_explain_names_the_worst_sample(loss):
    """One dual variable that does not fit its score, on the boundary of the box."""
    problem = small(loss, Lp(2), C=1.0 if not loss.intercept_cost else 0.2)
    _, beta, rho, _ = optimum(problem)
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


def test_explain_says_what_is_infeasible(rng):
    problem = small(C=0.5)
    beta = 0.1 * problem.y
    beta[7] = 0.9 * problem.y[7]
    bad = certify(problem, beta, weights=[0.5, 0.5, 0.5, -0.25])
    text = bad.explain()
    assert "Infeasible: weights[3] = -0.25 is negative." in text
    assert "Infeasible: weights lie outside the domain of Lp(1): only 0.666667 times them is allowed." in text
    assert f"Infeasible: dual_coef[7] = {beta[7]:g} lies outside [" in text
    assert f"Infeasible: dual_coef sums to {beta.sum():.6g} instead of 0." in text
    assert bad.infeasibility == pytest.approx(max(0.4, abs(beta.sum())))


def test_infeasibility_of_weights_is_the_part_to_be_removed(rng):
    problem = small()
    beta = repair(problem, rng.normal(size=N))[0]
    assert certify(problem, beta, weights=[0.5, 0.5, 0.25, 0.0]).infeasibility == pytest.approx(0.2)
    assert certify(problem, beta, weights=[0.5, 0.25, 0.25, 0.0]).infeasibility == 0.0


def test_the_worst_kernel_is_the_one_whose_weight_matters(rng):
    """A kernel of tiny scale may have any weight."""
    problem = small(regularizer="uniform")
    K = problem.kernels.dense() * np.array([1.0, 1e-8, 1.0, 1.0])[:, None, None]
    problem = Problem(K, problem.y, regularizer="uniform")
    beta = repair(problem, rng.normal(size=N))[0]
    assert certify(problem, beta, weights=[1.0, 0.0, 0.7, 1.0]).worst_kernel == 2


def test_negative_weights_count_as_zero(rng):
    problem = small()
    beta = rng.normal(size=N)
    found = certify(problem, beta, weights=[0.5, -1.0, 0.3, -1e-3])
    clipped = certify(problem, beta, weights=[0.5, 0.0, 0.3, 0.0])
    assert (found.lower, found.upper) == (clipped.lower, clipped.upper)
    assert found.infeasibility >= 1.0


def test_weights_inside_the_ball_are_feasible(rng):
    problem = small(regularizer=Lp(2))
    beta = repair(problem, rng.normal(size=N))[0]
    assert certify(problem, beta, weights=[0.1, 0.2, 0.3, 0.0]).violations == ()


def test_infinite_bounds_are_said(rng):
    problem = small(regularizer=Fixed([1.0, 0.0, 1.0, 1.0]))
    bad = certify(problem, rng.normal(size=N), weights=[0.5, 0.5, 0.5, 0.5])
    assert (bad.upper, bad.relative_gap) == (np.inf, np.inf)
    assert not bad.is_optimal(1e300)
    assert "The primal objective is not finite at this point." in bad.explain()


@pytest.mark.parametrize("loss", ["hinge", "squared", "logistic"])
@pytest.mark.parametrize("scale", [1e150, 1e200, 1e300])
def test_absurd_points_give_no_warning_and_true_bounds(loss, scale, rng):
    problem = small(loss, Lp(2))
    certificate = certify(problem, scale * rng.normal(size=N), weights=[1.0, 1.0, 0.0, 1.0])
    value = optimum(problem)[0]
    assert certificate.lower <= value <= certificate.upper
    assert certificate.explain()


def test_a_good_point_has_a_short_explanation(solved):
    problem, _, (beta, theta, b) = solved("squared", 2)
    lines = certify(problem, beta, weights=theta, intercept=b).explain().splitlines()
    assert "<= P* <=" in lines[0]
    assert not any("Infeasible" in line for line in lines)


# --- the certificate as data ----------------------------------------------------------------------------------


def certificate(**changes):
    facts = {
        "lower": 1.0,
        "upper": 1.5,
        "infeasibility": 0.0,
        "violations": [],
        "intercept": 0.0,
        "better_intercept": 0.0,
        "better_upper": 1.5,
        "fitting_upper": 1.5,
        "worst_sample": 3,
        "worst_kernel": 1,
        "regularizer_gap": 0.1,
    }
    return Certificate.from_dict({**facts, **changes})


def test_gap_and_relative_gap():
    assert certificate().gap == 0.5
    assert certificate().relative_gap == 0.5 / 1.5
    assert certificate(lower=0.1, upper=0.2).relative_gap == pytest.approx(0.1)  # max(1, |upper|) = 1
    assert certificate(lower=-30.0, upper=-20.0).relative_gap == 0.5
    assert certificate(lower=-np.inf).relative_gap == np.inf
    assert str(certificate()) == "1 <= P* <= 1.5, relative gap 3.3e-01"


def test_is_optimal():
    assert certificate().is_optimal(0.34)
    assert not certificate().is_optimal(0.33)
    assert not certificate().is_optimal()
    assert certificate(lower=1.5).is_optimal(0.0)
    assert not certificate(lower=2.5).is_optimal(1e-3)  # a contradiction is no optimum
    for tol in (-1e-9, np.nan):
        with pytest.raises(InvalidParameter, match=r"tol = .* must be a nonnegative number"):
            certificate().is_optimal(tol)


def test_a_negative_gap_is_a_contradiction():
    assert "The gap is negative, which is impossible" in certificate(lower=2.0).explain()


def test_dictionary_round_trip():
    one = certificate(violations=["a", "b"], upper=np.inf)
    assert Certificate.from_dict(one.to_dict()) == one


# --- bad input ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("exponent", [0, 300, -300])
def test_a_negative_square_is_a_witness_of_indefiniteness(monkeypatch, exponent):
    """Beyond the budget of the full check an indefinite kernel passes; a dual point can still prove it."""
    monkeypatch.setattr("mklref.kernels.validation.FULL_CHECK_FLOPS", 0.0)
    sneaky = np.array([[1.0, 0.9, -0.9], [0.9, 1.0, 0.9], [-0.9, 0.9, 1.0]])
    values, vectors = np.linalg.eigh(sneaky)
    assert values[0] < -0.7
    problem = Problem([np.eye(3), 2.0**exponent * sneaky], [1, -1, 1], intercept=False)
    with pytest.raises(InvalidKernel, match=r"kernels\[1\] is not positive semidefinite: beta'K beta = -.*clip its"):
        certify(problem, vectors[:, 0])
    certify(problem, vectors[:, 2])


@pytest.mark.parametrize("smallest", [-1e-3, -1e-9, -1e-12])
def test_a_small_witness_is_a_witness(monkeypatch, smallest, rng):
    monkeypatch.setattr("mklref.kernels.validation.FULL_CHECK_FLOPS", 0.0)
    basis = np.linalg.qr(rng.normal(size=(4, 4)))[0]
    K = (basis * [smallest, 1.0, 2.0, 3.0]) @ basis.T
    problem = Problem([0.5 * (K + K.T)], [1, -1, 1, -1], intercept=False)
    with pytest.raises(InvalidKernel, match="not positive semidefinite"):
        certify(problem, basis[:, 0])


def test_the_witness_is_not_hidden_by_rounding_in_a_larger_kernel(monkeypatch):
    monkeypatch.setattr("mklref.kernels.validation.FULL_CHECK_FLOPS", 0.0)
    sneaky = np.array([[1.0, 0.9, -0.9], [0.9, 1.0, 0.9], [-0.9, 0.9, 1.0]])
    v = np.linalg.eigh(sneaky)[1][:, 0]
    large = 1e6 * (np.eye(3) - np.outer(v, v)) - 1e-8 * np.outer(v, v)
    large, small_one = 0.5 * (large + large.T), 1e-9 * sneaky
    assert -1e-7 < v @ large @ v < v @ small_one @ v < 0.0
    problem = Problem([large, small_one], [1, -1, 1], intercept=False)
    with pytest.raises(InvalidKernel, match=r"kernels\[1\] is not positive semidefinite"):
        certify(problem, v)


def test_rounding_is_no_witness(rng):
    """A rank-one kernel at a point orthogonal to its range, where beta'K beta is pure rounding error."""
    for dtype in (np.float32, np.float64):
        u = rng.normal(size=N).astype(dtype)
        K = np.outer(u, u)
        problem = Problem([K], small().y, intercept=False)
        for _ in range(20):
            beta = rng.normal(size=N)
            beta -= (beta @ u.astype(float)) / (u.astype(float) @ u.astype(float)) * u
            assert certify(problem, beta).lower > -np.inf


@pytest.mark.parametrize(
    ("arguments", "error", "says"),
    [
        ({"dual_coef": np.zeros(N - 1)}, InvalidParameter, r"dual_coef has shape \(19,\); expected \(20,\)"),
        ({"dual_coef": np.zeros((N, 1))}, InvalidParameter, r"dual_coef has shape \(20, 1\); expected \(20,\)"),
        ({"dual_coef": np.full(N, np.nan)}, InvalidParameter, r"dual_coef\[0\] is nan"),
        ({"dual_coef": np.zeros(N) + 0j}, InvalidType, r"dual_coef is complex data"),
        ({"weights": np.ones(M + 1)}, InvalidParameter, r"weights has shape \(5,\); expected \(4,\)"),
        ({"weights": [1.0, np.inf, 0.0, 0.0]}, InvalidParameter, r"weights\[1\] is inf"),
        ({"weights": ["a"] * M}, InvalidType, r"weights is <U1 data"),
        ({"intercept": np.nan}, InvalidParameter, r"intercept = nan must be a finite number"),
        ({"intercept": np.inf}, InvalidParameter, r"intercept = inf must be a finite number"),
        ({"intercept": "0.5"}, InvalidType, r"intercept is '0\.5' \(str\); give a number"),
    ],
)
def test_bad_points_are_refused(arguments, error, says):
    with pytest.raises(error, match=says):
        certify(small(), **{"dual_coef": np.zeros(N), **arguments})


def test_a_problem_without_intercept_has_none():
    problem = small(intercept=False)
    assert certify(problem, np.zeros(N), intercept=0.0).intercept == 0.0
    with pytest.raises(InvalidParameter, match=r"intercept = 0\.1 must be 0: the problem has no intercept"):
        certify(problem, np.zeros(N), intercept=0.1)


def test_nothing_is_written_to(rng):
    problem = small()
    beta, weights = 10 * rng.normal(size=N), -rng.uniform(size=M)
    beta.flags.writeable = weights.flags.writeable = False
    K = problem.kernels.dense().copy()
    certify(problem, beta, weights=weights)
    np.testing.assert_array_equal(problem.kernels.dense(), K)


def test_one_read_of_the_stack_unless_the_point_is_moved(rng, monkeypatch):
    problem = small()
    reads = []
    original = ArrayStack.apply
    monkeypatch.setattr(ArrayStack, "apply", lambda self, v: reads.append(v) or original(self, v))
    beta = repair(problem, rng.normal(size=N))[0]
    certify(problem, beta)
    assert len(reads) == 1
    within = np.argmax(np.minimum(np.abs(beta), np.abs(problem.y - beta)))
    beta[within] += 1e-12
    certify(problem, beta)
    assert len(reads) == 2
    certify(problem, beta + 1e-3)
    assert len(reads) == 4


def test_the_bound_that_saves_a_read_is_a_bound(rng, monkeypatch):
    """(beta + d)'K(beta + d) <= beta'K beta + 2 d'K beta + ||d||^2 trace(K): it never raises the bound."""
    problem = small(regularizer="uniform")
    inside = repair(problem, rng.normal(size=N))[0]
    for size in (1e-8, 1e-4, 1e-2):
        beta = inside + size * rng.normal(size=N)
        monkeypatch.setattr("mklref.certificate.numerical._NEGLIGIBLE", 0.0)
        exact = certify(problem, beta).lower
        monkeypatch.setattr("mklref.certificate.numerical._NEGLIGIBLE", np.inf)
        saved = certify(problem, beta).lower
        assert exact - 20 * N * M * size**2 * N <= saved <= exact + 1e-13
