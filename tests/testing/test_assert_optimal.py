"""`assert_optimal` passes optimal points, and names the fault of every planted one."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from makers import make_problem

from mklref import solve
from mklref.exceptions import InvalidParameter, InvalidType
from mklref.losses import EpsilonInsensitive
from mklref.regularizers import ElasticNet, Fixed, Groups, Lp, Power
from mklref.testing import FAULTS, Answer, assert_optimal, judge


@cache
def problem_of(loss="hinge", regularizer=None, C=3.0, intercept=True, seed=5):
    return make_problem(
        loss=loss, regularizer=regularizer or Lp(2), C=C, intercept=intercept, seed=seed, n=24, degenerate="generic"
    )


@cache
def solved(loss="hinge", regularizer=None, C=3.0, intercept=True):
    problem = problem_of(loss, regularizer, C, intercept)
    return problem, point(problem)


def point(problem, tol=1e-9):
    solution = solve(problem, tol=tol)
    return solution.dual_coef, solution.weights, solution.intercept


def machine(problem, weights):
    """The dual variables and the intercept of the machine at fixed weights."""
    beta, _, b = point(problem.replace(regularizer=Fixed(weights)))
    return beta, b


LOSS = ("hinge", "squared_hinge", "logistic", "squared", "epsilon_insensitive")
L1, L2, L43 = Lp(1), Lp(2), Lp(4 / 3)


@pytest.mark.parametrize("loss", LOSS)
@pytest.mark.parametrize("regularizer", [L1, L43, L2])
def test_optimal_points_pass(loss, regularizer):
    problem, (beta, theta, b) = solved(loss, regularizer)
    assert_optimal(problem, beta, weights=theta, intercept=b)
    assert_optimal(problem, beta, weights=theta)


@pytest.mark.parametrize(
    ("loss", "regularizer"),
    [("hinge", L1), ("hinge", L43), ("logistic", L1), ("epsilon_insensitive", L2), ("squared", Power(1))],
)
def test_optimal_points_pass_without_weights(loss, regularizer):
    """At p = 1 the weights are no function of the dual point; elsewhere a point of gap 1e-6 fits others better."""
    problem = problem_of(loss, regularizer).replace(regularizer=regularizer)
    beta, _, b = point(problem, tol=1e-7)
    assert_optimal(problem, beta)
    assert_optimal(problem, beta, intercept=b, rtol=1e-5)


@pytest.mark.parametrize("regularizer", [L1, L2])
def test_faults_are_named_without_weights(regularizer):
    problem, good = solved("squared", regularizer)
    for fault, name in ((twice_C, "wrong scale of C"), (flipped, "negated dual_coef"), (random, "not converged")):
        beta, _, _ = fault(problem, *good)
        with pytest.raises(AssertionError, match=f"^not optimal: {name}: "):
            assert_optimal(problem, beta)


def wrong_points(problem, beta):
    """Points far from the optimum in any unit."""
    box = problem.C * problem.y
    rng = np.random.default_rng(1)
    return [np.zeros(24), box * (rng.uniform(size=24) < 0.5), 0.5 * beta]


@pytest.mark.parametrize(("loss", "s"), [("hinge", 2.0**-30), ("logistic", 2.0**30)])
def test_the_verdict_is_the_same_in_every_unit(loss, s):
    """(C, K) -> (C/s, s K) divides beta and every objective by s."""
    problem, (beta, theta, b) = solved(loss, L2)
    other = problem.replace(C=problem.C / s, kernels=s * problem.kernels.dense())
    assert_optimal(other, beta / s, weights=theta, intercept=b)
    points = [(beta, theta, b), *((spoiled, None, None) for spoiled in wrong_points(problem, beta))]
    for k, (beta_k, *rest) in enumerate(points):
        first, second = judge(problem, Answer(beta_k, *rest)), judge(other, Answer(beta_k / s, *rest))
        assert first.passed == second.passed == (k == 0)
        assert second.relative_gap == pytest.approx(first.relative_gap, rel=1e-3, abs=1e-9)


@pytest.mark.parametrize("regularizer", [L1, L2])
@pytest.mark.parametrize(("C", "scale"), [(1e-9, 1.0), (1.0, 1e-9)])
def test_where_kernels_are_negligible_wrong_points_fail(C, scale, regularizer):
    problem = problem_of("hinge", regularizer, C)
    problem = problem.replace(kernels=scale * problem.kernels.dense())
    beta, theta, b = point(problem)
    assert_optimal(problem, beta, weights=theta, intercept=b)
    for spoiled in wrong_points(problem, beta):
        assert not judge(problem, Answer(spoiled)).passed


@pytest.mark.parametrize("scale", [1e-12, 1.0, 1e12])
@pytest.mark.parametrize(("loss", "targets"), [("squared", "constant"), ("epsilon_insensitive", "in the tube")])
def test_an_optimum_of_zero_is_judged_by_the_losses_that_there_might_be(loss, targets, scale, rng):
    y = np.full(24, 3.1) if targets == "constant" else 0.4 + rng.uniform(-0.09, 0.09, size=24)
    kind = loss if loss == "squared" else EpsilonInsensitive(0.1 * scale)
    problem = make_problem(loss=loss, n=24, degenerate="generic").replace(y=scale * y, loss=kind)
    assert_optimal(problem, np.zeros(24))
    tiny = 1e-12 * (scale if loss == "squared" else 1.0) * rng.choice([-1.0, 1.0], size=24)
    assert_optimal(problem, tiny - tiny.mean())
    large = 1e10 * tiny
    with pytest.raises(AssertionError, match="not optimal: "):
        assert_optimal(problem, large - large.mean())


def test_violations_are_judged_in_the_unit_of_the_point():
    """Dual variables of 1e-9 that miss their sum by as much, where the gap is blind: kernels are negligible."""
    problem = problem_of(C=1e-9)
    beta = solve(problem.replace(C=1.0)).dual_coef * 1e-9
    spoiled = beta.copy()
    spoiled[int(np.argmax(np.abs(beta)))] *= 1.5
    with pytest.raises(AssertionError, match="not optimal: "):
        assert_optimal(problem, spoiled)


def negated_intercept(problem, beta, theta, b):
    return beta, theta, -b


def no_intercept(problem, beta, theta, b):
    return beta, theta, 0.0


def unsigned(problem, beta, theta, b):
    return problem.y * beta, theta, b


def flipped(problem, beta, theta, b):
    return -beta, theta, -b


def divided_by_C(problem, beta, theta, b):
    return beta / problem.C, theta, b


def twice_C(problem, beta, theta, b):
    return point(problem.replace(C=2 * problem.C))


def mean_of_losses(problem, beta, theta, b):
    return point(problem.replace(C=problem.C / problem.n_samples))


def C_of_its_own(problem, beta, theta, b):
    return point(problem.replace(C=0.83 * problem.C))


def without_constraint(problem, beta, theta, b):
    beta, theta, _ = point(problem.replace(intercept=False))
    return beta, theta, 0.0


def squared_hinge(problem, beta, theta, b):
    return point(problem.replace(loss="squared_hinge"))


def squared_hinge_without_half(problem, beta, theta, b):
    return point(problem.replace(loss="squared_hinge", C=2 * problem.C))


def hinge(problem, beta, theta, b):
    return point(problem.replace(loss="hinge"))


def squared(problem, beta, theta, b):
    return point(problem.replace(loss="squared"))


def summing_to_one(problem, beta, theta, b):
    return beta, theta / theta.sum(), b


def solved_on_the_simplex(problem, beta, theta, b):
    """Wrapper of p = 2 that normalises its weights to sum 1."""
    theta = np.full(problem.n_kernels, 1.0 / problem.n_kernels)
    for _ in range(60):
        beta, b = machine(problem, theta)
        rho = theta * np.sqrt(problem.kernels.quadratic(beta))
        theta = rho ** (2 / 3)
        theta /= theta.sum()
    return beta, theta, b


def p_three_halves(problem, beta, theta, b):
    return point(problem.replace(regularizer=Lp(1.5)))


def elastic_net(problem, beta, theta, b):
    return point(problem.replace(regularizer=ElasticNet(0.3, "ivanov")))


def plain_norm(problem, beta, theta, b):
    return point(problem.replace(regularizer=Power(1)))


def three_labels(problem, beta, theta, b):
    y = problem.y.copy()
    y[[3, 8, 15]] *= -1
    return point(problem.replace(y=y))


def stale_weights(problem, beta, theta, b):
    """The first step of a wrapper, returned with the weights of the second."""
    first = np.full(problem.n_kernels, problem.n_kernels ** (-1 / problem.regularizer.p))
    beta, b = machine(problem, first)
    rho = first * np.sqrt(problem.kernels.quadratic(beta))
    return beta, problem.regularizer.weights_from_norms(rho), b


def stale_dual(problem, beta, theta, b):
    """Weights of the first step with the dual variables at the end."""
    return beta, np.full(problem.n_kernels, problem.n_kernels ** (-1 / problem.regularizer.p)), b


def cleaned_up(problem, beta, theta, b):
    """Weights below half the largest are set to 0, the others fill the ball again."""
    theta = np.where(theta < 0.5 * theta.max(), 0.0, theta)
    return beta, theta / np.linalg.norm(theta, problem.regularizer.p), b


def weights_stuck(problem, beta, theta, b):
    """Kernel 0, which matters most, starts at zero and never comes back."""
    out = int(np.argmax(theta))
    rest = np.delete(np.arange(problem.n_kernels), out)
    beta, part, b = point(problem.replace(kernels=problem.kernels.dense()[rest]))
    theta = np.zeros(problem.n_kernels)
    theta[rest] = part
    return beta, theta, b


def one_step(problem, beta, theta, b):
    """A wrapper that ends after its first step."""
    first = np.full(problem.n_kernels, problem.n_kernels ** (-1 / problem.regularizer.p))
    beta, b = machine(problem, first)
    return beta, first, b


def zero_weights(problem, beta, theta, b):
    return beta, 0.0 * theta, b


def noise(problem, beta, theta, b):
    """An interior-point answer that was accepted although it is inaccurate."""
    return beta * (1 + 2e-4 * np.cos(np.arange(len(beta)))), theta, b


def random(problem, beta, theta, b):
    rng = np.random.default_rng(0)
    return problem.C * problem.y * rng.uniform(size=len(beta)), theta, b


PLANTED = [
    (negated_intercept, {}, "other sign of the intercept"),
    (no_intercept, {}, "wrong intercept"),
    (unsigned, {}, "unsigned dual_coef"),
    (flipped, {}, "negated dual_coef"),
    (flipped, {"loss": "squared"}, "negated dual_coef"),
    (divided_by_C, {}, "scaled dual_coef"),
    (twice_C, {"C": 0.3}, "wrong scale of C"),
    (twice_C, {"loss": "squared"}, "wrong scale of C"),
    (mean_of_losses, {"C": 0.3}, "wrong scale of C"),
    (mean_of_losses, {"loss": "logistic"}, "wrong scale of C"),
    (C_of_its_own, {"C": 0.3}, "wrong scale of C"),
    (without_constraint, {}, "missing intercept constraint"),
    (without_constraint, {"loss": "squared"}, "missing intercept constraint"),
    (without_constraint, {"regularizer": L1}, "missing intercept constraint"),
    (squared_hinge, {}, "another loss"),
    (squared_hinge_without_half, {}, "another loss"),
    (hinge, {"loss": "squared_hinge"}, "another loss"),
    (squared, {"loss": "epsilon_insensitive"}, "another loss"),
    (summing_to_one, {}, "weights on another sphere"),
    (solved_on_the_simplex, {}, "weights on another sphere"),
    (p_three_halves, {}, "another regularizer"),
    (elastic_net, {"regularizer": L1}, "another regularizer"),
    (plain_norm, {"regularizer": L1}, "another regularizer"),
    (three_labels, {}, "relabelled samples"),
    (stale_weights, {}, "weights of another iterate"),
    (stale_weights, {"regularizer": L43, "loss": "squared"}, "weights of another iterate"),
    (stale_dual, {}, "weights of another iterate"),
    (stale_dual, {"regularizer": L1}, "weights of another iterate"),
    (cleaned_up, {"regularizer": L43}, "weights cleaned up"),
    (cleaned_up, {"regularizer": L1, "C": 30.0}, "weights cleaned up"),
    (weights_stuck, {}, "weights stuck at zero"),
    (weights_stuck, {"regularizer": L1}, "weights stuck at zero"),
    (one_step, {}, "weights not optimal"),
    (one_step, {"regularizer": L1}, "weights not optimal"),
    (zero_weights, {}, "zero answer"),
    (noise, {}, "inaccurate"),
    (random, {}, "not converged"),
]


@pytest.mark.parametrize(
    ("fault", "where", "name"),
    PLANTED,
    ids=[f"{fault.__name__}-{'-'.join(map(str, where.values()))}" for fault, where, _ in PLANTED],
)
def test_the_fault_is_named(fault, where, name):
    problem, good = solved(**where)
    beta, theta, b = fault(problem, *good)
    with pytest.raises(AssertionError) as raised:
        assert_optimal(problem, beta, weights=theta, intercept=b)
    assert str(raised.value).startswith(f"not optimal: {name}: "), str(raised.value)
    assert FAULTS[name] in str(raised.value)


def test_every_planted_fault_is_a_fault_class():
    assert {name for _, _, name in PLANTED} <= set(FAULTS)


@pytest.mark.parametrize("loss", LOSS)
def test_each_loss_names_a_missing_intercept_constraint_and_other_costs(loss):
    problem = problem_of(loss, L43, C=0.4)
    if problem.loss.targets == "real":  # far from any balance by luck
        problem = problem.replace(y=problem.y + 1.0)
    good = point(problem)
    for fault, name in ((without_constraint, "missing intercept constraint"), (twice_C, "wrong scale of C")):
        beta, theta, b = fault(problem, *good)
        with pytest.raises(AssertionError, match=f"^not optimal: {name}: "):
            assert_optimal(problem, beta, weights=theta, intercept=b)


def test_an_intercept_where_there_is_none_is_named():
    problem = problem_of(intercept=False)
    beta, theta, _ = point(problem.replace(intercept=True))
    with pytest.raises(AssertionError, match=r"^not optimal: superfluous intercept: dual_coef sums to 0"):
        assert_optimal(problem, beta, weights=theta)


def test_a_violated_constraint_is_named_although_the_gap_is_small():
    """The weight of a kernel that is zero matters to nobody, but 1 is too much for the ball."""
    problem = make_problem(degenerate="zero_kernel", regularizer=L1, n=24)
    beta, theta, b = point(problem)
    theta = theta.copy()
    theta[1] = 0.7
    with pytest.raises(
        AssertionError, match=r"^not optimal: infeasible: weights lie outside the domain of Lp\(1\): only 0\.58"
    ):
        assert_optimal(problem, beta, weights=theta, intercept=b)


@pytest.mark.parametrize(
    ("beta", "theta", "said"),
    [
        (np.zeros(7), None, r"dual_coef has shape \(7,\); expected \(24,\)"),
        (np.full(24, np.nan), None, r"dual_coef\[0\]"),
        (np.zeros(24), np.ones(3), r"weights has shape \(3,\); expected \(4,\)"),
        (None, None, "dual_coef"),
    ],
)
def test_malformed_answers_fail_with_shapes(beta, theta, said):
    with pytest.raises(AssertionError, match=f"^not optimal: malformed answer: .*{said}"):
        assert_optimal(problem_of(), beta, weights=theta)


def test_wrong_arguments_are_errors_and_not_verdicts():
    with pytest.raises(InvalidType, match="problem is ndarray; give a "):
        assert_optimal(np.eye(3), np.zeros(3))
    for rtol in (0.0, -1.0, np.nan, np.inf, True, "small"):
        with pytest.raises(InvalidParameter, match=r"rtol = .* must lie in"):
            assert_optimal(problem_of(), np.zeros(24), rtol=rtol)


def test_the_tolerance_decides():
    problem, good = solved()
    beta, theta, b = noise(problem, *good)
    gap = judge(problem, Answer(beta, theta, b)).relative_gap
    assert_optimal(problem, beta, weights=theta, intercept=b, rtol=1.01 * gap)
    with pytest.raises(AssertionError):
        assert_optimal(problem, beta, weights=theta, intercept=b, rtol=0.99 * gap)


def faults_of(problem, *answer, **claims):
    return [finding.fault for finding in judge(problem, Answer(*answer, **claims)).findings]


def test_true_claims_pass():
    problem, good = solved()
    certificate = judge(problem, Answer(*good)).certificate
    assert faults_of(problem, *good, objective=certificate.upper, lower=certificate.lower, converged=True) == []
    assert faults_of(problem, *good, objective=certificate.lower, converged=False) == []


def test_false_claims_are_named():
    problem, good = solved()
    upper = judge(problem, Answer(*good)).certificate.upper
    assert faults_of(problem, *good, objective=1.001 * upper) == ["claimed objective"]
    assert faults_of(problem, *good, lower=1.001 * upper) == ["claimed lower bound"]
    assert faults_of(problem, *good, objective=upper, lower=1.001 * upper) == ["hidden negative gap"]


def test_a_claim_of_convergence_is_checked():
    problem, good = solved()
    assert faults_of(problem, *noise(problem, *good), converged=True) == ["inaccurate", "claimed convergence"]
    assert faults_of(problem, *one_step(problem, *good), converged=True) == [
        "weights not optimal",
        "claimed convergence",
    ]


def test_J_of_an_inexact_machine_is_named():
    """The dual value of the machine at 0.98 beta, reported as the objective."""
    problem, (beta, theta, b) = solved()
    squares = problem.kernels.quadratic(0.98 * beta)
    J = problem.loss.dual_value(0.98 * beta, problem.y, problem.costs) - 0.5 * theta @ squares
    assert "dual value taken for J" in faults_of(problem, 0.98 * beta, theta, b, objective=J)


def test_an_objective_computed_before_the_weights_were_cleaned_is_named():
    problem, good = solved(regularizer=L43)
    upper = judge(problem, Answer(*good)).certificate.upper
    assert faults_of(problem, *cleaned_up(problem, *good), objective=upper) == ["weights cleaned up"] * 2


def test_a_lower_bound_from_the_used_kernels_alone_is_named():
    problem, good = solved(regularizer=L1)
    beta, theta, b = weights_stuck(problem, *good)
    g = np.sqrt(problem.kernels.quadratic(beta)) * (theta > 0)
    lower = problem.loss.dual_value(beta, problem.y, problem.costs) - problem.regularizer.conjugate(g)
    assert faults_of(problem, beta, theta, b, lower=lower) == ["weights stuck at zero", "inactive constraints violated"]


def test_a_dual_point_outside_the_domain_of_the_conjugate_is_named():
    problem, good = solved(regularizer=Power(1))
    assert faults_of(problem, *weights_stuck(problem, *good)) == ["inactive constraints violated"]


@pytest.mark.parametrize("scale", [1e-300, 1e-5, 1e5, 1e160, 1e300])
@pytest.mark.parametrize(
    ("loss", "regularizer"), [("hinge", L1), ("squared", L2), ("logistic", ElasticNet(0.4, "ivanov"))]
)
def test_absurd_answers_get_a_verdict_and_no_other_error(loss, regularizer, scale, rng):
    """Warnings are errors here; groups and negative weights are among the readings that cannot be stated."""
    problem = problem_of(loss, regularizer).replace(regularizer=regularizer)
    for other in (regularizer, Groups(((0, 1), (2, 3)), 0.5, 0.5), Fixed([1.0, 0.0, 2.0, 1.0])):
        beta, theta = scale * rng.normal(size=24), rng.choice([scale, 1.0, 0.0], size=4) * rng.normal(size=4)
        with pytest.raises(AssertionError, match=r"^not optimal: "):
            assert_optimal(problem.replace(regularizer=other), beta, weights=theta, intercept=scale)
