"""Faults of real solvers, each planted in a healthy one: their name comes first, and none passes."""

from __future__ import annotations

import re

import numpy as np
import pytest
from makers import make_problem
from sklearn.svm import SVC
from testing.planted import (
    L1,
    L2,
    L43,
    LOSS,
    built,
    flipped,
    noise,
    other_cost,
    planted,
    point,
    problem_of,
    random,
    solved,
    without_constraint,
)

from mklref import Problem, solve
from mklref.kernels import center, normalize
from mklref.regularizers import Fixed, Groups, HalfPower, Lp, Tikhonov, WeightedL1, WeightedLp
from mklref.testing import FAULTS, Answer, assert_optimal, judge
from validation.planted import FAULTS as PLANTS, exact

ONE_FACTOR = "multiplicative normalisation inside, one factor for all"
"""It is a multiple of all kernels as well as a normalisation of each: both are named."""
ALWAYS = {*{name: what for what, (name, *_) in PLANTS.items()}.values(), "elastic net, for weights that are smooth"}
"""One fault of each name, and one that is alone in its branch of weight_suspects."""


@pytest.mark.parametrize("what", [pytest.param(w, marks=[pytest.mark.sampled(12)] * (w not in ALWAYS)) for w in PLANTS])
def test_the_fault_is_named_first(what):
    problem, (beta, theta, b) = planted(what)
    name = PLANTS[what][0]
    with pytest.raises(AssertionError) as raised:
        assert_optimal(problem, beta, weights=theta, intercept=b)
    first = "normalised kernels: .* As well fits scaled kernels" if what == ONE_FACTOR else f"{name}: "
    assert re.match(f"not optimal: {first}", str(raised.value)), str(raised.value)
    assert FAULTS["normalised kernels" if what == ONE_FACTOR else name] in str(raised.value)


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("what", "said"),
    [
        ("2 K: a missing 1/2", "it is optimal for 2 times the kernels: a missing 1/2 of the quadratic"),
        ("1.7 K", "it is optimal for 1.7 times the kernels"),
        ("trace normalisation inside", "unit trace: K / trace(K)"),
        ("1e-3 added to the diagonals", "kernels with 0.001 added to the diagonal"),
        ("balanced class weights", "'balanced'"),
        ("an intercept that nobody asked for", "dual_coef sums to 0 and is optimal with an intercept"),
        ("1 - tau for tau", "tau = 1 - tau = 0.7, the problem has 0.3"),
        ("epsilon in units of the deviation", "epsilon = epsilon std(y)"),
        ("logistic loss with base 2", "logistic loss with base 2"),
        ("sample weights used twice", "sample weights that are used twice"),
        ("the last samples never read", "without samples 21, 22, 23"),
        ("three samples read twice", "which samples 0, 1, 2 are repeated"),
        ("b^2/2 in the objective", "lam = 1:"),
        ("norm that is not squared, p > 1", "the dual norm is 1"),
        ("rho of libsvm, which is -b", "fits,"),
    ],
)
def test_the_message_has_the_number_that_was_meant(what, said):
    problem, answer = planted(what)
    assert said in judge(problem, Answer(*answer)).findings[0].text


def test_an_epsilon_that_no_convention_explains_is_fitted():
    """t_i + epsilon sign(beta_i) = y_i on the edges of the tube has it."""
    problem = built("epsilon-insensitive-l2")
    other = point(problem.replace(loss=type(problem.loss)(0.273)), tol=1e-10)
    (finding,) = judge(problem, Answer(*other)).findings
    assert finding.fault == "another parameter of the loss"
    assert "it is optimal for epsilon = 0.273, the problem has 0.15" in finding.text


def test_readings_that_nothing_tells_apart_are_all_listed_with_their_gaps():
    """Without a sample at its bound the machine of 2 K has half the dual variables, and that is all."""
    problem = built("large-C")
    beta, theta, b = exact(problem)
    (finding,) = judge(problem, Answer(beta / 2.0, theta, b)).findings
    assert finding.fault == "scaled kernels"
    assert "As well fits scaled dual_coef (gap 1e-07): 2 times dual_coef is optimal" in finding.text


def test_a_list_that_goes_on_says_so_in_another_reading_as_well():
    """Targets a row late are seven labels or more that are read the other way round."""
    problem = built("hinge-uniform")
    (finding,) = judge(problem, Answer(*point(problem.replace(y=np.roll(problem.y, 1)), tol=1e-10))).findings
    assert "the targets a row late. As well fits relabelled samples" in finding.text
    assert re.search(r"the other way round: samples [\d, ]*, \.\.\.\. ", finding.text)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", ["squared-l1", "logistic-l1", "per-variable-rank-one"])
@pytest.mark.parametrize("p", [1.00221, 1.0122134])
def test_a_slow_run_has_no_exponent_that_nobody_asked_for(name, p):
    """Steps at p = 1 that end early leave weights that resemble those of a p just above."""
    problem = built(name)
    (finding,) = judge(problem, Answer(*point(problem.replace(regularizer=Lp(p)), tol=1e-10))).findings
    assert "Lp(1.0" not in finding.text
    assert finding.fault == "weights not optimal"


def test_samples_and_kernels_in_another_order_are_named():
    """Solvers sort samples by class, and kernels by weight."""
    problem, (beta, theta, b) = solved()
    (samples,) = judge(problem, Answer(beta[np.argsort(problem.y, kind="stable")], theta, b)).findings
    (kernels,) = judge(problem, Answer(beta, np.sort(theta), b)).findings
    assert (samples.fault, kernels.fault) == ("permuted samples", "weights of another iterate")
    assert "those returned in another order" in kernels.text


@pytest.mark.parametrize("p", [4 / 3, 1.5])
def test_weights_are_told_by_the_closed_form_where_few_samples_are_free(p):
    """With less equations than kernels nothing else says that they were sorted or cleaned up."""
    problem, (beta, theta, b) = solved(regularizer=Lp(p), C=0.3)
    (kernels,) = judge(problem, Answer(beta, np.sort(theta), b)).findings
    (cleaned,) = judge(problem, Answer(beta, np.where(theta < 0.3 * theta.max(), 0.0, theta), b)).findings
    assert (kernels.fault, cleaned.fault) == ("weights of another iterate", "weights cleaned up")
    assert "closed form of dual_coef, which are those returned in another order" in kernels.text


@pytest.mark.parametrize("signs", [(-1, -1, -1, -1), (-1, 1, 1, 1)])
def test_negative_weights_are_neither_zeros_nor_cleaned_up(signs):
    problem, (beta, theta, b) = solved()
    (finding,) = judge(problem, Answer(beta, signs * theta, b)).findings
    assert finding.fault == "negative weights"
    m = int(np.argmin(signs * theta))
    assert f"weights[{m}] = {-theta[m]:.3g} is negative, and |weights| are optimal." in finding.text


@pytest.mark.parametrize(("loss", "other"), [("hinge", "squared"), ("squared", "hinge")])
def test_a_loss_for_other_targets_is_named_where_these_are_labels(loss, other):
    """A least squares machine in the place of a support vector machine."""
    problem = problem_of("hinge", L43, C=30.0)
    answer = point(problem.replace(loss=other))
    (finding,) = judge(problem.replace(loss=loss), Answer(*answer)).findings
    assert finding.fault == "another loss"
    assert re.match(rf"it is optimal for the loss {other}\.", finding.text), finding.text


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("own", "other", "said"),
    [
        (Groups([(0, 1), (2, 3)], p=0.3, q=0.7), Groups([(0, 1), (2, 3)], p=0.7, q=0.3), "p and q exchanged of Groups"),
        (WeightedL1([1.0, 2.0, 4.0, 3.0]), WeightedL1([1.0, 1 / 2, 1 / 4, 1 / 3]), "1/omega in place of the omega of"),
        (WeightedL1([1.0, 1.2, 0.8, 0.9]), WeightedL1([1.0, 1.44, 0.64, 0.81]), "omega^2 in place of the omega of"),
        (WeightedL1([1.0, 1.44, 0.64, 0.81]), WeightedL1([1.0, 1.2, 0.8, 0.9]), "sqrt(omega) in place of the omega"),
        (WeightedLp(2, [1.0, 2.0, 4.0, 3.0]), WeightedLp(2, [1.0, 1 / 2, 1 / 4, 1 / 3]), "1/scale in place of the"),
        (WeightedLp(2, [1.0, 2.0, 4.0, 3.0]), WeightedLp(2, [1.0, 4.0, 16.0, 9.0]), "scale^2 in place of the scale"),
        (L2, Tikhonov(2, 0.3), f"{Tikhonov(2, 0.3)}, the problem has Lp(2)"),  # weights on no sphere are more to say
        (L2, HalfPower(4 / 3), f"{HalfPower(4 / 3)}, the problem has Lp(2)"),
    ],
)
def test_another_penalty_and_parameters_in_the_place_of_others_are_named(own, other, said):
    problem, _ = solved("hinge" if own is L2 else "squared")
    (finding,) = judge(problem.replace(regularizer=own), Answer(*point(problem.replace(regularizer=other)))).findings
    assert finding.fault == "another regularizer"
    assert f"it is optimal for {said}" in finding.text


def test_dual_variables_of_regression_without_their_signs_are_named():
    problem, (beta, theta, b) = solved("epsilon_insensitive")
    (finding,) = judge(problem, Answer(np.abs(beta), theta, b)).findings
    assert finding.fault == "unsigned dual_coef"
    assert "optimal with the signs of y - f" in finding.text


def test_centred_targets_in_place_of_an_intercept_are_named():
    """Ridge regression as many write it; the intercept 0 that they return leaves nearly all of the gap."""
    problem, _ = solved("squared")
    problem = problem.replace(y=problem.y + 5.0)
    beta, theta, _ = point(problem.replace(y=problem.y - problem.y.mean(), intercept=False))
    for (finding,) in (judge(problem, Answer(beta, theta, b)).findings for b in (0.0, None)):
        assert finding.fault == "centred targets", finding
        assert "y - mean(y) without an intercept" in finding.text


def test_the_exponent_that_was_meant_is_a_fraction():
    problem, _ = solved(regularizer=Lp(1.2))
    for p, said in ((1.2 / (1.2 - 1.0), "Lp(6)"), (4 / 3 + 1.0, "Lp(7/3)")):
        (finding,) = judge(problem, Answer(*point(problem.replace(regularizer=Lp(p))))).findings
        assert f"it is optimal for {said}, the problem has Lp(1.2)" in finding.text


@pytest.mark.parametrize(("kind", "words", "C"), [(np.float16, "half", 1.0), (np.float32, "single", 10.0)])
def test_an_answer_in_low_precision_is_inaccurate(kind, words, C):
    problem, good = solved("hinge", Lp(1.5), C=C, intercept=False)
    (finding,) = judge(problem, Answer(*map(kind, good)), tol=1e-8).findings
    assert finding.fault == "inaccurate"
    assert finding.text.startswith(f"its numbers are of {words} precision: ")
    for noisy, optimal in ((problem, good), solved("hinge", Fixed([0.7, 0.3, 0.15, 0.05]), C=C)):
        (finding,) = judge(noisy, Answer(*noise(noisy, *optimal)), tol=1e-8).findings
        assert not re.search("rounded|precision", finding.text), finding


@pytest.mark.parametrize(("form", "words"), [(".4f", "4 decimals"), (".5e", "6 digits"), (".3e", "4 digits")])
def test_numbers_that_were_printed_with_few_digits_are_named(form, words):
    """As C++ and R's jsonlite print by default."""
    problem, good = solved("hinge", Lp(1.5), C=10.0, intercept=False)
    printed = [np.vectorize(lambda x: float(format(x, form)))(own) for own in good]
    for given, what in ((printed, "its numbers are"), ([printed[0], *good[1:]], "dual_coef is")):
        (finding,) = judge(problem, Answer(*given), tol=1e-8).findings
        assert finding.text.startswith(f"{what} rounded to {words} (write 17 digits): "), finding


def test_weights_that_are_off_by_a_few_per_cent_are_no_normalised_kernels():
    """Nobody normalises kernels by 0.98 and 1.02; such factors were fitted to inexact answers."""
    problem = built("rank-one-hinge-p-4")
    good = solve(problem, tol=1e-9)
    inner = solve(problem.replace(regularizer=Fixed(good.weights * [0.98, 1.02, 1.0])), tol=1e-9)
    (finding,) = judge(problem, Answer(inner.dual_coef, good.weights, inner.intercept + 0.01)).findings
    assert "normalised kernels" not in (finding.fault, *finding.others), finding


def test_bounds_are_not_taken_for_rounded_numbers():
    """All dual variables are at costs of few digits, and weights equal."""
    problem, _ = solved("hinge", Lp(2.0), C=1e-2, intercept=False)
    problem = problem.replace(sample_weight=1.0 + np.arange(problem.n_samples) % 3)
    (finding,) = judge(problem, Answer(problem.costs * problem.y, np.full(4, 0.5), 0.0)).findings
    assert finding.fault == "weights not optimal", finding


def test_a_missing_intercept_is_no_trace_of_a_ridge_or_of_a_penalty():
    """Fitted to rounding errors of such a point, both had a number that changes nothing."""
    problem = built("hinge-l2")
    beta, theta, _ = point(problem)
    (finding,) = judge(problem, Answer(beta, theta, 0.0)).findings
    assert (finding.fault, finding.others) == ("wrong intercept", ())
    (finding,) = judge(problem, Answer(*point(problem.replace(intercept=False)))).findings
    assert (finding.fault, finding.others) == ("missing intercept constraint", ())
    problem, (beta, theta, b) = solved(C=1.0)  # C = 1 times the dual variables is optimal with another intercept
    (finding,) = judge(problem, Answer(beta, theta, b + 1.0)).findings
    assert (finding.fault, finding.others) == ("wrong intercept", ())


@pytest.mark.parametrize("tol", [1e-2, 1e-3])
@pytest.mark.parametrize("n", [22, 46])
def test_an_inexact_machine_at_a_large_C_solves_no_softer_problem(n, tol):
    """Scores that err by tol are nearly those of a ridge of tol/beta_i, or of squared losses."""
    rng = np.random.default_rng(57)
    X = rng.normal(size=(n, 3))
    K = np.exp(-((X[:, None] - X) ** 2).sum(axis=-1) / (2.0 * np.array([0.5, 1.0, 3.0])[:, None, None] ** 2))
    problem = Problem(K, np.where(rng.normal(size=n) > 0.0, 1.0, -1.0), C=1e4, regularizer=Fixed(np.ones(3) / 3.0))
    machine, beta = SVC(kernel="precomputed", C=1e4, tol=tol).fit(K.mean(axis=0), problem.y), np.zeros(n)
    beta[machine.support_] = machine.dual_coef_[0]
    (finding,) = judge(problem, Answer(beta, np.ones(3) / 3.0, machine.intercept_[0])).findings
    assert {finding.fault, *finding.others} <= {"machine not solved", "inaccurate"}


@pytest.mark.thorough
@pytest.mark.parametrize("regularizer", [L1, L2])
def test_faults_are_named_without_weights(regularizer):
    problem, good = solved("squared", regularizer)
    for fault, name in ((other_cost, "wrong scale of C"), (flipped, "negated dual_coef"), (random, "not converged")):
        beta, _, _ = fault(problem, *good)
        with pytest.raises(AssertionError, match=f"^not optimal: {name}: "):
            assert_optimal(problem, beta)


@pytest.mark.sampled(5)
@pytest.mark.parametrize("loss", LOSS)
def test_each_loss_names_a_missing_intercept_constraint_and_other_costs(loss):
    problem = problem_of(loss, L43, C=0.4)
    if problem.loss.targets == "real":  # far from any balance by luck
        problem = problem.replace(y=problem.y + 1.0)
    good = point(problem)
    for fault, name in ((without_constraint, "missing intercept constraint"), (other_cost, "wrong scale of C")):
        beta, theta, b = fault(problem, *good)
        with pytest.raises(AssertionError, match=f"^not optimal: {name}: "):
            assert_optimal(problem, beta, weights=theta, intercept=b)


def test_a_violated_constraint_is_named_although_the_gap_is_small():
    """The weight of a kernel that is zero matters to nobody, but 1 is too much for the ball."""
    problem = make_problem(degenerate="zero_kernel", regularizer=L1, n=24)
    beta, theta, b = point(problem)
    with pytest.raises(AssertionError, match=r"^not optimal: infeasible: weights .* domain of Lp\(1\): only 0\.58"):
        assert_optimal(problem, beta, weights=np.where(np.arange(4) == 1, 0.7, theta), intercept=b)


def test_dual_variables_in_units_of_the_penalty_are_no_dual_point_of_a_group_lasso():
    """C (y - t) and not y - t: the bounds are those of the multiple that is inside, and the function is the same."""
    problem = make_problem(loss="squared", regularizer=HalfPower(1), C=0.2, intercept=False)
    beta, theta, b = point(problem)
    assert judge(problem, Answer(beta, theta, b)).passed
    (finding,) = judge(problem, Answer(beta / problem.C, theta * problem.C, b)).findings
    assert finding.fault == "infeasible", finding
    assert "outside the domain of R*: only 0.2 times it is allowed" in finding.text


@pytest.mark.parametrize("loss", ["squared", "logistic"])
def test_stale_weights_are_named_also_where_some_of_them_agree(loss):
    """The kernels 2 and 3 have no weight, neither in the machine that was solved nor in the answer."""
    problem, _ = solved(loss, L1)
    machine = problem.replace(regularizer=Fixed([0.7, 0.3, 0.0, 0.0]))
    beta = solve(machine, tol=1e-10).dual_coef
    with pytest.raises(AssertionError, match=r"^not optimal: weights of another iterate: .* the weights 0\.7, 0\.3, "):
        assert_optimal(problem, beta, weights=[0.3, 0.7, 0.0, 0.0])


def test_a_problem_with_the_same_solution_explains_no_inexact_answer():
    """No sample is at its bound: every smaller C has this solution, and forgives single precision more."""
    problem = built("large-C")
    (finding,) = judge(problem, Answer(*map(np.float32, exact(problem)))).findings
    assert not {"wrong scale of C", "class weights"} & {finding.fault, *finding.others}, finding.text


def test_what_is_left_of_a_huge_gap_is_no_name():
    """A hundredth of a gap of a million is far from closing it."""
    problem = built("one-class-l1")
    (finding,) = judge(problem, Answer(np.full(24, 1 / 24), np.full(4, 1e-7), 0.0)).findings
    assert "another loss" not in (finding.fault, *finding.others), finding.text


def scaled(kernels):
    return np.reshape([2.0, 3.0, 0.5, 1.5], (-1, 1, 1)) * kernels.dense()


@pytest.mark.parametrize(
    ("options", "changed", "said"),
    [
        ({"loss": "hinge"}, scaled, "inside the solver, 2, 3, 0.5, 1.5 times these"),
        ({"loss": "squared"}, scaled, "inside the solver, 2, 3, 0.5, 1.5 times these"),
        ({"intercept": False}, lambda K: normalize(center(K), "trace"), "unit trace: K / trace(K), K = H K H"),
    ],
)
def test_changed_kernels_inside_the_solver_are_named(options, changed, said):
    problem, _ = solved(**options)
    other = problem.replace(kernels=changed(problem.kernels))
    (finding,) = judge(problem, Answer(*point(other, tol=1e-10))).findings
    assert finding.fault == "normalised kernels"
    assert said in finding.text


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda theta, norms: theta[::-1], "which are those returned in another order"),
        (lambda theta, norms: theta**2, "returned are their squares"),
        (lambda theta, norms: np.sqrt(theta), "returned are their square roots"),
        (lambda theta, norms: theta**1.3, "returned are their powers with the exponent p = 1.3"),
        (lambda theta, norms: theta * norms, "returned are the norms ||f_m||"),
    ],
)
@pytest.mark.parametrize("loss", ["hinge", "logistic"])
def test_usual_functions_of_the_weights_are_named(loss, spoil, said):
    """Before another sphere: at p next to 1 the norms of the functions are nearly a multiple of the weights."""
    problem, (beta, theta, b) = solved(loss, regularizer=Lp(1.3))
    (finding,) = judge(problem, Answer(beta, spoil(theta, problem.kernels.norms(beta)), b)).findings
    assert finding.fault == "weights of another iterate"
    assert said in finding.text


def test_what_is_said_of_the_closed_form_is_not_said_of_the_weights_of_the_machine():
    """The kernels were normalised; the one in use has a multiple of its weight, and the closed form chose the other."""
    problem, _ = solved("squared", regularizer=Lp(1))
    pair = problem.replace(kernels=problem.kernels.dense()[:2])
    beta, theta, b = point(pair.replace(kernels=np.reshape([0.4, 0.001], (-1, 1, 1)) * pair.kernels.dense()), tol=1e-10)
    np.testing.assert_array_equal(np.flatnonzero(theta), [0])
    (finding,) = judge(pair, Answer(beta, theta, b)).findings
    assert "another order" not in finding.text
    assert "the weights 0.4, " in finding.text


NEAR = [
    ("small-C-hinge-p-4-over-3", "failure inside swallowed: weights 0", "zero answer", ()),
    ("another-C-hinge-p-4-over-3", "weights of the first step", "weights of another iterate", ()),
    ("rank-one-hinge-p-4", "the last samples never read", "dropped samples", ("relabelled samples",)),
    ("generic-hinge-l1", "mask error: two labels flipped", "dropped samples", ("relabelled samples",)),
    ("large-C-svm-no-intercept", "labels 0 and 1 in y f(x)", "labels 0 and 1", ()),
    ("generic-svm-no-intercept", "1e-3 added to the diagonals", "ridge on the kernels", ()),
    ("low-rank-hinge-l2", "0.83 C", "wrong scale of C", ()),
    ("rank-one-svr-l1", "weights of the next step", "weights of another iterate", ()),
    ("constant-kernel-squared-l1-no-intercept", "a loose tolerance inside", "inaccurate", ("machine not solved",)),
]
"""Cases in which another reading is as near: kernels that matter to nobody, samples without a dual variable or at their
bound, less free samples than unknowns, a machine that is nearly solved."""


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("name", "what", "first", "others"), NEAR, ids=[f"{row[0]}-{row[2]}" for row in NEAR])
def test_the_reading_that_explains_less_is_not_the_name(name, what, first, others):
    problem = built(name)
    finding = judge(problem, Answer(*PLANTS[what][1](problem))).findings[0]
    assert (finding.fault, finding.others) == (first, others), finding.text
