"""`assert_optimal` passes optimal points in every unit, and judges claims, malformed and absurd answers."""

from __future__ import annotations

import re
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from makers import make_problem
from testing.planted import L1, L2, L43, LOSS, cleaned_up, noise, one_step, point, problem_of, solved, weights_stuck

from mklref import Problem, solve
from mklref.exceptions import InvalidParameter, InvalidType
from mklref.losses import EpsilonInsensitive
from mklref.multiclass import MulticlassProblem
from mklref.regularizers import ElasticNet, Fixed, Groups, Power, Tikhonov
from mklref.testing import Answer, assert_optimal, diagnosis, implied, judge


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


def wrong_points(problem, beta):
    """Points far from the optimum in any unit."""
    box = problem.C * problem.y
    rng = np.random.default_rng(1)
    return [np.zeros(24), box * (rng.uniform(size=24) < 0.5), 0.5 * beta]


@pytest.fixture
def no_causes(monkeypatch):
    """Causes of a gap, which take a second, are not asked for, only weights that are missing."""
    monkeypatch.setattr(diagnosis, "_why_not_optimal", lambda *given: [diagnosis._by_size(*given[-2:])])


@pytest.mark.usefixtures("no_causes")
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


@pytest.mark.usefixtures("no_causes")
@pytest.mark.parametrize(("regularizer", "C", "scale"), [(L1, 1e-9, 1.0), (L2, 1.0, 1e-9)])
def test_where_kernels_are_negligible_wrong_points_fail(C, scale, regularizer):
    problem = problem_of("hinge", regularizer, C)
    problem = problem.replace(kernels=scale * problem.kernels.dense())
    beta, theta, b = point(problem)
    assert_optimal(problem, beta, weights=theta, intercept=b)
    for spoiled in wrong_points(problem, beta):
        assert not judge(problem, Answer(spoiled)).passed


@pytest.mark.sampled(3)
@pytest.mark.parametrize("scale", [1e-12, 1.0, 1e12])
@pytest.mark.parametrize(("loss", "targets"), [("squared", "constant"), ("epsilon_insensitive", "in the tube")])
def test_an_optimum_of_zero_is_judged_by_the_losses_that_there_might_be(loss, targets, scale, rng, monkeypatch):
    monkeypatch.setattr(implied, "SOLVERS", ())  # of programs in such units few are solved well
    y = np.full(24, 3.1) if targets == "constant" else 0.4 + rng.uniform(-0.09, 0.09, size=24)
    kind = loss if loss == "squared" else EpsilonInsensitive(0.1 * scale)
    problem = make_problem(loss=loss, n=24, degenerate="generic").replace(y=scale * y, loss=kind)
    assert_optimal(problem, np.zeros(24))
    tiny = 1e-12 * (scale if loss == "squared" else 1.0) * rng.choice([-1.0, 1.0], size=24)
    assert_optimal(problem, tiny - tiny.mean())
    assert_optimal(problem, tiny)  # its sum is a violation of rounding
    large = 1e10 * tiny
    with pytest.raises(AssertionError, match="not optimal: "):
        assert_optimal(problem, large - large.mean())


@pytest.mark.usefixtures("no_causes")
def test_violations_are_judged_in_the_unit_of_the_point():
    """Dual variables of 1e-9 that miss their sum by as much, where the gap is blind: kernels are negligible."""
    problem = problem_of(C=1e-9)
    beta = solve(problem.replace(C=1.0)).dual_coef * 1e-9
    spoiled = beta.copy()
    spoiled[int(np.argmax(np.abs(beta)))] *= 1.5
    with pytest.raises(AssertionError, match="not optimal: "):
        assert_optimal(problem, spoiled)


@pytest.mark.parametrize(
    ("beta", "theta", "said"),
    [
        (np.zeros(7), None, r"dual_coef has shape \(7,\); expected \(24,\), a number for each sample, 0"),
        (np.full(24, np.nan), None, r"dual_coef\[0\] is nan; every entry must be finite\. Wrong shapes"),
        (np.zeros(24), np.ones(3), r"weights has shape \(3,\); expected \(4,\), a number for each"),
        (None, None, "dual_coef"),
    ],
)
def test_malformed_answers_fail_with_shapes(beta, theta, said):
    with pytest.raises(AssertionError, match=f"^not optimal: malformed answer: .*{said}"):
        assert_optimal(problem_of(), beta, weights=theta)


def test_wrong_arguments_are_errors_and_not_verdicts():
    with pytest.raises(InvalidType, match="problem is ndarray; give a "):
        assert_optimal(np.eye(3), np.zeros(3))
    for rtol in (0.0, -1.0, np.nan, np.inf, 1.0, 2, 1e300):  # the gap of zeros is 1, with which anything is optimal
        with pytest.raises(InvalidParameter, match=r"rtol = .* must lie in \(0, 1\)"):
            assert_optimal(problem_of(), np.zeros(24), rtol=rtol)
    for rtol in (True, "small"):
        with pytest.raises(InvalidType, match=r"rtol is .* give a number in"):
            assert_optimal(problem_of(), np.zeros(24), rtol=rtol)


def test_the_tolerance_decides():
    problem, good = solved()
    assert_optimal(problem, good[0], weights=good[1], intercept=good[2], rtol=Fraction(1, 10**6))
    beta, theta, b = noise(problem, *good)
    gap = judge(problem, Answer(beta, theta, b)).relative_gap
    assert_optimal(problem, beta, weights=theta, intercept=b, rtol=1.01 * gap)
    with pytest.raises(AssertionError):
        assert_optimal(problem, beta, weights=theta, intercept=b, rtol=0.99 * gap)
    with pytest.raises(InvalidType, match="suspects is 'no'"):
        judge(problem, Answer(beta, theta, b), suspects="no")


def faults_of(problem, *answer, **claims):
    return [finding.fault for finding in judge(problem, Answer(*answer, **claims)).findings]


def test_true_claims_pass_and_false_ones_are_named():
    problem, good = solved()
    certificate = judge(problem, Answer(*good)).certificate
    upper, lower = certificate.upper, certificate.lower
    assert faults_of(problem, *good, objective=upper, lower=lower, converged=True) == []
    assert faults_of(problem, *good, objective=lower, converged=False) == []
    assert faults_of(problem, *good, objective=1.001 * upper) == ["claimed objective"]
    assert faults_of(problem, *good, lower=1.001 * upper) == ["claimed lower bound"]
    assert faults_of(problem, *good, objective=upper, lower=1.001 * upper) == ["hidden negative gap"]


@pytest.mark.parametrize(
    ("factor", "said"),
    [
        (2.0, "twice that"),
        (-1.0, "minus that: a dual"),
        (-2.0, "minus twice that"),
        (1 / 24, "1/n times"),
        (1 / 3, "1/C times"),
        (3.0, "C times"),
    ],
)
def test_the_convention_of_a_claimed_objective_is_named(factor, said):
    problem, good = solved()
    upper = judge(problem, Answer(*good)).certificate.upper
    (finding,) = judge(problem, Answer(*good, objective=factor * upper)).findings
    assert finding.fault == "claimed objective"
    assert f"It is {said}" in finding.text


def test_no_claim_is_a_multiple_of_an_optimum_of_0():
    problem = Problem([np.eye(6)], np.full(6, 0.5), C=1.0, loss=EpsilonInsensitive(0.1))  # met by the intercept alone
    (finding,) = judge(problem, Answer(np.zeros(6), [1.0], 0.5, objective=1e-5)).findings
    assert finding.fault == "claimed objective"
    assert "It is" not in finding.text


def test_a_claim_of_convergence_is_checked():
    problem, good = solved()
    assert faults_of(problem, *noise(problem, *good), converged=True) == ["inaccurate", "claimed convergence"]
    spoilt = faults_of(problem, *one_step(problem, *good), converged=True)
    assert spoilt == ["weights not optimal", "claimed convergence"]


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


def test_no_claim_far_from_the_bounds_of_a_bad_point_is_that_of_better_weights():
    """The right objective beside alpha_i in place of alpha_i y_i: within a gap that is many times as large."""
    problem, (beta, theta, b) = solved(regularizer=L43)
    upper = judge(problem, Answer(beta, theta, b)).certificate.upper
    spoilt = faults_of(problem, 1e3 * beta * problem.y, theta, b, objective=upper)
    assert spoilt[-1] == "claimed objective"


@pytest.mark.sampled(2)
@pytest.mark.parametrize("loss", ["hinge", "logistic"])
@pytest.mark.parametrize("factor", [0.1, 10.0])
def test_claims_about_the_problem_that_was_solved_are_no_second_fault(loss, factor):
    """A wrong C is one fault: the objective and the bound that its solver reports are right for that C."""
    problem, _ = solved(loss=loss, C=1.0)
    found = solve(problem.replace(C=factor), tol=1e-9)
    point = (found.dual_coef, found.weights, found.intercept)
    claims = {"objective": found.objective, "lower": found.certificate.lower}
    assert faults_of(problem, *point, **claims) == ["wrong scale of C"]
    assert len(faults_of(problem, *point, objective=1.01 * found.objective)) == 2


def test_a_lower_bound_from_the_used_kernels_alone_is_named():
    problem, good = solved(regularizer=L1)
    beta, theta, b = weights_stuck(problem, *good)
    g = problem.kernels.norms(beta) * (theta > 0)
    lower = problem.loss.dual_value(beta, problem.y, problem.costs) - problem.regularizer.conjugate(g)
    assert faults_of(problem, beta, theta, b, lower=lower) == ["weights stuck at zero", "inactive constraints violated"]
    problem, good = solved(regularizer=Power(1))  # a dual point outside the domain of the conjugate
    assert faults_of(problem, *weights_stuck(problem, *good)) == ["inactive constraints violated"]


@pytest.mark.sampled(5)
@pytest.mark.parametrize("scale", [1e-300, 1e5, 1e300])
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


@pytest.mark.sampled(2)
@pytest.mark.parametrize("strategy", ["one_vs_rest", "one_vs_one"])
def test_answers_of_several_machines_are_judged_without_weights_and_with_intercepts(strategy):
    classes = MulticlassProblem(problem_of().kernels, np.arange(24) % 3, regularizer=L2, strategy=strategy)
    beta, theta, b = (getattr(solve(classes, tol=1e-8), name) for name in ("dual_coef", "weights", "intercept"))
    for intercept in (None, b.tolist()):
        assert_optimal(classes, beta, weights=theta, intercept=intercept)
        assert_optimal(classes, beta, intercept=intercept)
    with pytest.raises(AssertionError, match=r"^not optimal: wrong intercept: Machine 0, 1, 2 of 3"):
        assert_optimal(classes, beta, weights=theta, intercept=b + 1.0)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("strategy", ["one_vs_rest", "one_vs_one"])
@pytest.mark.parametrize(
    ("fault", "C", "spoil"),
    [
        ("weights on another sphere", 0.3, lambda beta, theta, b: (beta, theta / theta.sum(), b)),
        ("weights of another iterate", 0.3, lambda beta, theta, b: (beta, theta[::-1], b)),
        ("weights of another iterate", 3.0, lambda beta, theta, b: (beta, theta[::-1], b)),  # no factors of kernels
        ("permuted machines", 0.3, lambda beta, theta, b: (beta[[1, 2, 0]], theta, b[[1, 2, 0]])),
        ("permuted machines", 0.3, lambda beta, theta, b: (-beta[[1, 2, 0]], theta, None)),
        ("permuted samples", 0.3, lambda beta, theta, b: (beta[:, ::-1], theta, b)),
    ],
)
def test_what_all_machines_have_in_common_is_named_before_each_one(strategy, fault, C, spoil):
    classes = MulticlassProblem(problem_of().kernels, np.arange(24) % 3, C=C, regularizer=L2, strategy=strategy)
    found = solve(classes, tol=1e-9)
    spoiled = Answer(*spoil(found.dual_coef, found.weights, found.intercept))
    assert judge(classes, spoiled).findings[0].fault == fault


def test_what_is_left_of_a_huge_gap_is_no_verdict():
    """Where weights have no bound, a relative gap of 1e6 becomes one of 1 for other rows, which explains nothing."""
    rng = np.random.default_rng(0)
    kernels = [np.outer(x, x) + 1e-3 * np.eye(18) for x in rng.normal(size=(18, 3)).T]
    classes = MulticlassProblem(kernels, np.arange(18) % 3, loss="squared_hinge", regularizer=Tikhonov(1, 1.0))
    found = solve(classes)
    far = 1e3 * found.dual_coef * rng.uniform(size=found.dual_coef.shape)
    with pytest.raises(AssertionError, match=r"^not optimal: machine not solved: "):
        assert_optimal(classes, far, weights=found.weights, intercept=found.intercept)


@pytest.mark.parametrize("suspects", [True, False])
def test_a_violated_constraint_is_said_where_no_cause_is_found(suspects):
    """A report of many problems has no other place for it."""
    problem, (beta, theta, b) = solved("hinge", L1)
    i, j = np.flatnonzero((problem.y > 0) & (beta > 0.2 * problem.C) & (beta < 0.9 * problem.C))[:2]
    for balanced in (True, False):
        wrong = beta.copy()
        wrong[[i, j]] += np.array([0.1, -0.1 * balanced]) * problem.C
        (finding,) = judge(problem, (wrong, theta, b), suspects=suspects).findings
        assert finding.fault == ("machine not solved" if suspects else "not converged")
        assert ("Its cause was not looked for." in finding.text) != suspects
        assert (f" Infeasible: dual_coef sums to {wrong.sum():.6g} instead of 0." in finding.text) != balanced


def test_weights_that_nobody_gave_violate_nothing():
    """The best ones for a bad dual point may lie beyond the ball: a function has a value wherever they lie."""
    problem = problem_of(regularizer=L1)
    verdict = judge(problem, (np.where(problem.y > 0, 0.1, -0.1) * problem.C, None, None))
    assert problem.regularizer.weight_penalty(verdict.weights) == np.inf
    assert [text for text in verdict.certificate.violations if "weights" in text] == []
    assert "weights lie outside" not in verdict.explain()


def test_groups_that_were_ignored_or_taken_in_order_are_named():
    problem = problem_of(regularizer=Groups(((0, 2), (1, 3)), 0.5, 0.5))
    for groups, shown in (((range(4),), "0 1 2 3"), (((0, 1), (2, 3)), "0 1 | 2 3")):
        found = solve(problem.replace(regularizer=Groups(groups, 0.5, 0.5)), tol=1e-9)
        with pytest.raises(AssertionError, match=f"^not optimal: another regularizer: .* groups {re.escape(shown)} of"):
            assert_optimal(problem, found.dual_coef, weights=found.weights, intercept=found.intercept)


def test_weights_that_do_not_fit_a_one_class_machine_are_named():
    problem = problem_of().replace(y=np.ones(24), loss="one_class", C=0.2, regularizer=L1)
    found = solve(problem, tol=1e-9)
    with pytest.raises(AssertionError, match=r"^not optimal: weights of another iterate: .* the weights"):
        assert_optimal(problem, found.dual_coef, weights=found.weights[::-1], intercept=found.intercept)


def test_zeros_of_several_machines_are_named():
    classes = MulticlassProblem(problem_of().kernels, np.arange(24) % 3, regularizer=L2)
    beta = solve(classes).dual_coef
    for dual, theta, said in (
        (0.0 * beta, None, "dual_coef are all 0"),
        (beta, np.zeros(4), "weights are all 0"),
        (0.0 * beta, np.zeros(4), "dual_coef and weights are all 0"),
    ):
        with pytest.raises(AssertionError, match=f"^not optimal: zero answer: {said}"):
            assert_optimal(classes, dual, weights=theta)
    for problem, dual in ((classes.replace(regularizer=Tikhonov(2, 1.0)), 1e-200 * beta), (classes, 1e305 * beta)):
        with pytest.raises(AssertionError, match=r"^not optimal: not converged: No kernel has a positive finite wei"):
            assert_optimal(problem, dual)


def test_any_real_number_is_an_intercept():
    problem, (beta, theta, b) = solved()
    for intercept in (Fraction(b), np.float64(b), np.array(b), np.array([b])):  # the last one as scikit-learn has it
        assert_optimal(problem, beta, weights=theta, intercept=intercept)
        assert not judge(problem, Answer(beta, theta, intercept + 1), suspects=False).passed


def test_claims_that_are_no_numbers_are_malformed():
    problem, good = solved()
    for claimed, name in product(([[1.0, 2.0], [3.0]], [1.0, 2.0], "1", 1j, 10**400, object()), ("objective", "lower")):
        verdict = judge(problem, Answer(*good, **{name: claimed}))
        assert [finding.fault for finding in verdict.findings] == ["malformed answer"]
        assert f"{name} is" in verdict.explain()
    for converged in ("no", [[0], [1, 0]]):
        assert faults_of(problem, *good, converged=converged) == ["malformed answer"]
    for converged in ([False], np.array([[1]]), 0):
        assert faults_of(problem, *good, converged=converged) == []


@pytest.mark.sampled(24)
@pytest.mark.parametrize("unit", [1.0, 1e150])
@pytest.mark.parametrize("C", [1e-300, 1e-200, 1e160, 1e300])
@pytest.mark.parametrize("loss", ["hinge", "squared", EpsilonInsensitive(1e200)])
def test_wrong_answers_at_an_absurd_C_get_a_verdict_and_no_other_error(loss, C, unit, rng, monkeypatch):
    """Squares of C, epsilon and 1/C among the readings are no floats, nor are products with kernels of 1e150."""
    monkeypatch.setattr(implied, "SOLVERS", [*implied.SOLVERS][:1])  # the others take minutes to give up
    problem = problem_of(loss).replace(kernels=unit * problem_of(loss).kernels.dense(), C=C)
    for beta, theta in ((rng.normal(size=24), None), (C * rng.normal(size=24), np.ones(4))):
        with pytest.raises(AssertionError, match=r"^not optimal: "):
            assert_optimal(problem, beta, weights=theta, intercept=0.1)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("loss", ["squared", "hinge", "logistic"])
@pytest.mark.parametrize(
    ("where", "moved"),
    [("a row late", lambda y: np.roll(y, 1)), ("a row early", lambda y: np.roll(y, -1)), ("backwards", np.flip)],
)
def test_targets_that_are_not_those_of_their_samples_are_named(loss, where, moved):
    """An index that is off by one; such answers were "machine not solved"."""
    problem = make_problem(loss=loss, seed=3, regularizer=L43)
    other = solve(problem.replace(y=moved(problem.y)), tol=1e-9)
    (finding,) = judge(problem, Answer(other.dual_coef, other.weights, other.intercept)).findings
    assert finding.fault == "permuted samples"
    assert f"it is optimal for the targets {where}" in finding.text


def test_a_name_that_leaves_a_gap_says_so():
    """Weights that are nearly twice the right ones."""
    problem, (beta, theta, b) = solved()
    (finding,) = judge(problem, Answer(beta, 2.0 * theta * (1.0 + 1e-3 * np.arange(4)), b)).findings
    assert finding.fault == "weights on another sphere"
    assert re.search(r"lies on the sphere of Lp\(2\); a gap of \de-\d\d is left\.", finding.text)
