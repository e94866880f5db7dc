"""`certify_many`: the certificates of `certify`, for one read of the kernels.

`check_value`: the value of a model against the certified optimum; and the value that a solver claims for its point.
Answers that are right by a convention of their solver: the oracle says which.
"""

from __future__ import annotations

import re
from dataclasses import replace

import cvxpy as cp
import numpy as np
import pytest
from makers import make_problem
from testing.planted import L2, L43, point, problem_of, solved

import mklref
from mklref import Problem, algorithms, native, reference, solve
from mklref.exceptions import InvalidInput, InvalidParameter, InvalidType
from mklref.kernels import ArrayStack, FactorStack, normalize
from mklref.multiclass import MulticlassProblem
from mklref.regularizers import BlockNorm, Fixed, Groups, HalfPower, Lp, Power, Tikhonov
from mklref.testing import Answer, assert_optimal, certify_many, check_value, faults, judge

PATH = (10.0, 3.0, 1.0, 0.3)


class Counting(ArrayStack):
    """Counts how often the matrices are read."""

    reads = 0

    def apply(self, v, kernels=None):
        type(self).reads += 1
        return super().apply(v, kernels)

    def images_each(self, vectors):
        type(self).reads += 1
        return super().images_each(vectors)


@pytest.fixture
def path():
    problem = make_problem(regularizer="l2", n=20)
    return problem, mklref.solve_path(problem, C=PATH)


def test_a_path_and_its_problems_have_the_certificates_of_their_points(path):
    """The path for one read of the kernels."""
    problem, solutions = path
    counted = problem.replace(kernels=Counting(problem.kernels.matrices))
    Counting.reads = 0
    found = certify_many(counted, [(s.dual_coef, s.weights, s.intercept) for s in solutions], C=PATH)
    assert Counting.reads == 1
    for C, solution, certificate in zip(PATH, solutions, found, strict=True):
        alone = mklref.certify(problem.replace(C=C), solution, intercept=solution.intercept)
        assert certificate.is_optimal(1e-6)
        np.testing.assert_allclose([certificate.lower, certificate.upper], [alone.lower, alone.upper], rtol=1e-12)
    problems = [problem.replace(C=C) for C in PATH]
    assert all(certificate.is_optimal(1e-6) for certificate in certify_many(problems, solutions))


def test_answers_to_one_problem_may_have_any_shape_and_be_wrong(path):
    problem, solutions = path
    answers = [solutions[2], Answer(2.0 * solutions[2].dual_coef), (solutions[2].dual_coef, None, None)]
    right, twice, bare = certify_many(problem.replace(C=PATH[2]), answers)
    assert right.is_optimal(1e-6)
    assert bare.is_optimal(1e-3)
    assert twice.relative_gap > 0.1
    assert certify_many(problem, []) == []


def test_what_does_not_fit_is_said(path):
    problem, solutions = path
    with pytest.raises(InvalidInput, match="C has 2 values for 4 answers"):
        certify_many(problem, solutions, C=PATH[:2])
    with pytest.raises(InvalidInput, match="2 problems for 4 answers"):
        certify_many([problem] * 2, solutions)
    with pytest.raises(InvalidType, match="something else than a"):
        certify_many([3] * 4, solutions)
    with pytest.raises(InvalidType, match=r"answers\[1\]: the solver returned ndarray"):
        certify_many(problem, [solutions[0], solutions[0].dual_coef])
    with pytest.raises(InvalidInput, match=r"answers\[0\]: dual_coef has shape \(3,\)"):
        certify_many(problem, [Answer(np.ones(3))])
    with pytest.raises(InvalidType, match=r"^C is 3\.0 \(float\); give a sequence"):
        certify_many(problem, solutions, C=3.0)
    other = make_problem(regularizer="l2", n=20, seed=9)
    with pytest.raises(InvalidInput, match=r"points\[1\] has another kernel stack"):
        certify_many([problem, other], solutions[:2])


@pytest.fixture(scope="module")
def problem():
    return make_problem(n=20, M=3, C=2.0, regularizer=Lp(2))


@pytest.fixture(scope="module")
def optimum(problem):
    return native.solve(problem, tol=1e-9).objective


def kloft_dual(problem, *, half=0.5, intercept=True):
    """Kloft (D) in plain cvxpy, as a user may write it."""
    L = [np.linalg.cholesky(K + 1e-12 * np.eye(problem.n_samples)) for K in problem.kernels.dense()]
    alpha = cp.Variable(problem.n_samples)
    q = cp.hstack([cp.sum_squares(K.T @ cp.multiply(problem.y, alpha)) for K in L])
    domain = [alpha >= 0, alpha <= problem.C, *([problem.y @ alpha == 0] if intercept else [])]
    return cp.Problem(cp.Maximize(cp.sum(alpha) - half * cp.pnorm(q, 2)), domain).solve(solver="CLARABEL")


def test_the_value_of_a_right_model_passes(problem):
    check_value(problem, kloft_dual(problem))
    for name in reference.formulations(problem):
        check_value(problem, reference.solve(problem, name).value)


@pytest.mark.parametrize("wrong", [{"half": 0.5005}, {"half": 1.0}, {"intercept": False}], ids=str)
def test_the_value_of_a_wrong_model_fails(problem, wrong):
    with pytest.raises(AssertionError, match=r"is off by .*, allowed 1\.0e-06: .* <= P\* <="):
        check_value(problem, kloft_dual(problem, **wrong))


@pytest.mark.parametrize(
    ("factor", "hint"),
    [(-1, "dual problem that is minimised"), (2, "1/2 is missing"), (0.5, "1/2 too many"), (20, "n times")],
)
def test_usual_suspects_are_named(problem, optimum, factor, hint):
    with pytest.raises(AssertionError, match=hint):
        check_value(problem, factor * optimum)


def test_the_value_of_a_mean_of_losses_is_named(problem):
    """1/n sum_i V_i + lambda R, with lambda = 1/(C n)."""
    changed = problem.replace(C=3.0)
    value = native.solve(changed, tol=1e-9).objective / (3.0 * problem.n_samples)
    with pytest.raises(AssertionError, match=r"1/\(C n\) times the optimal value: a mean of losses, and the penalty"):
        check_value(changed, value)


@pytest.mark.parametrize(("off", "named"), [(5e-4, True), (-5e-4, True), (5e-3, False), (-5e-3, False)])
@pytest.mark.parametrize("ratio", [20, 1 / 20])
def test_a_multiple_is_named_up_to_the_tolerance_of_the_optimal_value(problem, optimum, ratio, off, named):
    with pytest.raises(AssertionError) as failure:
        check_value(problem, (1.0 + off) * ratio * optimum, rtol=1e-3)
    assert ("n times" in str(failure.value)) is named


@pytest.mark.parametrize(("value", "said"), [(np.nan, "nan"), (np.inf, "inf"), (-np.inf, "-inf"), (10**400, "inf")])
def test_values_that_are_not_finite_fail_and_integers_beyond_float64(problem, value, said):
    with pytest.raises(AssertionError, match=rf"the value is {said}, as of a model that is infeasible"):
        check_value(problem, value)


def test_rtol_is_relative_to_the_optimum(problem, optimum):
    check_value(problem, np.array([optimum * (1 + 0.9e-4)]), rtol=1e-4)
    with pytest.raises(AssertionError):
        check_value(problem, optimum * (1 + 1.2e-4), rtol=1e-4)


def test_a_value_is_not_checked_where_no_interval_is_narrow_enough(problem, optimum):
    with pytest.raises(AssertionError, match=r"^not checked: .*, allowed 1\.0e-16; give a larger rtol"):
        check_value(problem, optimum, rtol=1e-15)


def test_a_multiclass_model(problem):
    classes = MulticlassProblem(problem.kernels, np.arange(20) % 3, C=2.0)
    check_value(classes, reference.solve(classes, "multiclass").value)


@pytest.mark.parametrize("value", ["12", None, True, [1.0, 2.0], 1j])
def test_what_is_no_number_is_refused(problem, value):
    with pytest.raises(InvalidType, match="give a number: the optimal value of a model"):
        check_value(problem, value)


def test_bad_arguments(problem):
    with pytest.raises(InvalidType, match="problem is int; give a"):
        check_value(3, 1.0)
    for rtol in (0.0, np.nan, 1.0):
        with pytest.raises(InvalidParameter, match="rtol"):
            check_value(problem, 1.0, rtol=rtol)


@pytest.mark.parametrize("regularizer", [L2, Tikhonov(2, 0.3), BlockNorm(3)])
@pytest.mark.parametrize("scale", [0.99, 1.01])
def test_the_objective_in_functions_and_weights_is_no_false_claim(regularizer, scale):
    """1/2 sum theta_m q_m + psi(theta) in place of R, for weights that are not the best ones; where R is a minimum."""
    problem, (beta, theta, b) = solved("squared", regularizer)
    theta, squares = scale * theta, problem.kernels.quadratic(beta)
    upper = judge(problem, Answer(beta, theta, b), suspects=False).certificate.objective
    psi = 0.3 * theta @ theta if isinstance(regularizer, Tikhonov) else 0.0
    joint = upper - regularizer.value(theta * np.sqrt(squares)) + 0.5 * theta @ squares + psi
    for objective, false in ((joint, regularizer.weight_form != "min"), (2.0 * upper - joint, True)):
        findings = judge(problem, Answer(beta, theta, b, objective=objective), suspects=False).findings
        assert ("claimed objective" in [finding.fault for finding in findings]) is false


@pytest.mark.sampled(2)
@pytest.mark.parametrize("regularizer", [L43, Tikhonov(2, 0.4), Groups([(0, 1), (2, 3)], p=0.5, q=0.5)])
@pytest.mark.parametrize("factor", [1.0, 24.0])
def test_kernels_that_were_normalised_are_named_where_the_weights_are_those_of_the_given_ones(regularizer, factor):
    """As a careful solver returns them; a kernel of trace 0 has no factor."""
    problem = problem_of(regularizer=regularizer)
    kernels = problem.kernels.dense() * np.reshape([2.0, 3.0, 0.5, 0.0], (-1, 1, 1))
    factors = factor / np.where((traces := np.trace(kernels, axis1=1, axis2=2)) > 0.0, traces, 1.0)
    problem = problem.replace(kernels=kernels)
    beta, theta, b = point(problem.replace(kernels=factors[:, None, None] * kernels), tol=1e-10)
    (finding,) = judge(problem, Answer(beta, factors * theta, b)).findings
    assert finding.fault == "normalised kernels"
    assert f"({'unit trace' if factor == 1.0 else 'trace n'}: " in finding.text
    assert "K / trace(K)), whose weights were returned for K." in finding.text


@pytest.mark.sampled(3)
@pytest.mark.parametrize("regularizer", [L2, Power(1)])
@pytest.mark.parametrize("how", ["trace", "spherical", "multiplicative"])
def test_no_fault_has_a_normalisation_beside_it_that_changes_nothing(regularizer, how):
    """Each wrong intercept had, where the kernels of the problem are normalised."""
    kernels = normalize(problem_of().kernels.dense()[:3], how).dense()
    problem = problem_of(regularizer=regularizer).replace(kernels=kernels)
    beta, theta, b = point(problem)
    (finding,) = judge(problem, Answer(beta, theta, b + 0.3)).findings
    assert "normalised kernels" not in (finding.fault, *finding.others)


def test_weights_as_shares_with_dual_variables_that_keep_the_function_are_named():
    problem, (beta, theta, b) = solved(regularizer=L43, C=0.3)
    total = theta.sum()
    (finding,) = judge(problem, Answer(total * beta, theta / total, b)).findings
    assert finding.fault == "weights on another sphere"
    assert "times dual_coef: the function is optimal." in finding.text


def test_another_problem_of_all_machines_is_named_where_each_is_solved_for_its_weights():
    kernels = problem_of().kernels.dense() * np.reshape([2.0, 3.0, 0.5, 1.5], (-1, 1, 1))
    traces = np.trace(kernels, axis1=1, axis2=2)
    classes = MulticlassProblem(kernels, np.arange(24) % 3, C=0.3, regularizer=L2)
    normal = classes.replace(kernels=kernels / traces[:, None, None], C=30.0)
    for asked, solved_for, factors, said in (
        (classes, classes.replace(regularizer=L43), 1.0, "another regularizer: it is optimal for Lp(4/3), the problem"),
        (classes.replace(C=30.0), normal, 1.0 / traces, "normalised kernels: it is optimal for kernels that were"),
    ):
        found = solve(solved_for, tol=1e-9)
        with pytest.raises(AssertionError, match=f"^not optimal: {re.escape(said)}"):
            assert_optimal(asked, found.dual_coef, weights=factors * found.weights, intercept=found.intercept)
    fixed = classes.replace(regularizer=Fixed([0.9, 0.1, 0.3, 0.3]))
    found = solve(fixed, tol=1e-9)
    with pytest.raises(AssertionError, match=r"^not optimal: weights not optimal: Every machine is solved for these"):
        assert_optimal(classes, found.dual_coef, weights=found.weights, intercept=found.intercept)


@pytest.mark.parametrize(
    ("shape", "said"),
    [((24, 3), "expected (3, 24); it is its transpose."), ((24,), "expected (3, 24), a number for each sample")],
)
def test_a_dual_point_of_another_shape_is_refused_with_what_it_may_be(shape, said):
    classes = MulticlassProblem(problem_of().kernels, np.arange(24) % 3, regularizer=L2)
    with pytest.raises(AssertionError, match=re.escape(said)):
        assert_optimal(classes, np.ones(shape))
    with pytest.raises(AssertionError, match=r"intercept has shape \(\); expected \(3,\), one for each machine"):
        assert_optimal(classes, np.ones((3, 24)), intercept=0.0)
    regression = problem_of("epsilon_insensitive")
    with pytest.raises(AssertionError, match=r"shape \(48,\); expected \(24,\), alpha - alpha\* for each sample"):
        assert_optimal(regression, np.ones(48))


def test_a_solution_is_an_answer_with_its_own_weights_and_intercept():
    problem = problem_of(regularizer=L2, C=0.3)
    found = solve(problem, tol=1e-9)
    assert_optimal(problem, found)
    assert_optimal(problem, Answer(found.dual_coef, found.weights, found.intercept))
    (finding,) = judge(problem, Answer(found)).findings
    assert finding.text.startswith("answer is Solution")
    with pytest.raises(AssertionError, match=r"^not optimal: wrong intercept: "):
        assert_optimal(problem, replace(found, intercept=found.intercept + 1.0))
    with pytest.raises(InvalidParameter, match=r"weights and intercept go with an array; .* solution\.dual_coef"):
        assert_optimal(problem, found, weights=found.weights, intercept=0.0)


def test_an_answer_that_names_its_samples_in_another_order_is_refused():
    """By name, where `certify` refuses it, and not as what its numbers look like."""
    pandas = pytest.importorskip("pandas")
    names = [f"s{i}" for i in range(24)]
    frames = [pandas.DataFrame(K, names, names) for K in problem_of().kernels.dense()]
    backwards = [frame.iloc[::-1, ::-1] for frame in frames]
    problem = Problem(frames, problem_of().y, regularizer=L2)
    found = solve(problem, tol=1e-9)
    assert_optimal(problem, found)
    other = Problem(backwards, problem.y[::-1], regularizer=L2)
    with pytest.raises(
        AssertionError, match=r"malformed answer: the kernels and the answer have their samples in diff"
    ):
        assert_optimal(other, found)
    with pytest.raises(InvalidInput, match="the kernels and the answer have their samples in different orders"):
        certify_many(other, [found])


@pytest.mark.parametrize("C", [1e-4, 1e-3])
def test_machines_whose_kernels_achieve_next_to_nothing_over_their_trace_answer_no_other_problem(C):
    """Divided so, any weights are nearly optimal; they were called right for normalised kernels."""
    given = problem_of(regularizer=L2).kernels.dense()
    classes = MulticlassProblem(100.0 * given, np.arange(24) % 3, C=C, regularizer=L2)
    theta = solve(classes, tol=1e-9).weights + np.array([0.3, 0.0, 0.0, 0.0])
    fixed = classes.replace(regularizer=Fixed(theta / np.linalg.norm(theta)))
    found = solve(fixed, tol=1e-10)
    (finding,) = judge(classes, Answer(found.dual_coef, found.weights, found.intercept)).findings
    assert finding.fault in ("inaccurate", "weights not optimal")
    assert finding.text.startswith("Every machine is solved for these weights.")


@pytest.mark.parametrize("why", ["entries", "memory"])
def test_other_kernels_are_not_tried_where_they_have_no_room(why, monkeypatch):
    """Factors of many samples, or a memory that is full: the other suspects are tried, and the verdict says so."""
    rng = np.random.default_rng(0)
    L = rng.normal(size=(3, 40, 3))
    kernels = FactorStack(list(L)) if why == "entries" else ArrayStack(list(L @ L.transpose(0, 2, 1)))
    problem = Problem(kernels, np.sign(L[0, :, 0] + 0.3 * rng.normal(size=40)), C=2.0)
    beta, theta, b = point(problem)
    assert judge(problem, (-beta, theta, -b)).findings[0].fault == "negated dual_coef"
    absurd = rng.normal(size=40), rng.uniform(size=3), 0.0
    assert "No usual suspect explains it. " in judge(problem, absurd).explain()
    monkeypatch.setattr(faults, *{"entries": ("SEEN", 100), "memory": ("free_memory", lambda: 100.0)}[why])
    monkeypatch.setattr(type(kernels), "dense", lambda self: pytest.fail("kernels were taken into memory"))
    assert judge(problem, (-beta, theta, -b)).findings[0].fault == "negated dual_coef"
    assert "explains it; other kernels were not tried, as these are too large. " in judge(problem, absurd).explain()


def test_of_two_faults_the_intercept_is_told_as_well():
    """Without that the sign of dual_coef is mended, and the next run fails again."""
    problem, (beta, theta, b) = solved("hinge", L2)
    for own, wrong in ((b, False), (-b, True)):
        (finding,) = judge(problem, (problem.y * beta, theta, own)).findings
        assert finding.fault == "unsigned dual_coef"
        assert ("dual_coef is not; the intercept is wrong, too. " in finding.text) == wrong


@pytest.mark.parametrize("tol", [1e-2, 1e-5])
def test_a_healthy_answer_may_leave_the_domain_of_the_conjugate_by_more_than_the_root_of_its_gap(tol):
    """Of 3215 runs for linear penalties 12 did, by up to 1.2 times that, most with the logistic loss and a large C."""
    problem = make_problem(loss="logistic", regularizer=HalfPower(1), C=1e4, seed=1, n=20, degenerate="low_rank")
    found = algorithms.iterated_reweighting(problem, tol=tol)
    assert found.certificate.is_optimal(tol)
    assert judge(problem, Answer(found.dual_coef, found.weights, found.intercept), tol=tol).passed
