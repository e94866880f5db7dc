"""`assert_optimal` names the fault of every planted one."""

from __future__ import annotations

import pytest
from makers import make_problem
from testing.planted import (
    L1,
    L2,
    L43,
    LOSS,
    PLANTED,
    flipped,
    point,
    problem_of,
    random,
    solved,
    twice_C,
    without_constraint,
)

from mklref import solve
from mklref.regularizers import Fixed
from mklref.testing import FAULTS, Answer, assert_optimal, judge, select
from validation.planted import FAULTS as PLANTS


@pytest.mark.parametrize("regularizer", [L1, L2])
def test_faults_are_named_without_weights(regularizer):
    problem, good = solved("squared", regularizer)
    for fault, name in ((twice_C, "wrong scale of C"), (flipped, "negated dual_coef"), (random, "not converged")):
        beta, _, _ = fault(problem, *good)
        with pytest.raises(AssertionError, match=f"^not optimal: {name}: "):
            assert_optimal(problem, beta)


@pytest.mark.sampled(3)
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


@pytest.mark.parametrize("loss", ["squared", "logistic"])
def test_stale_weights_are_named_also_where_some_of_them_agree(loss):
    """The kernels 2 and 3 have no weight, neither in the machine that was solved nor in the answer."""
    problem, _ = solved(loss, L1)
    machine = problem.replace(regularizer=Fixed([0.7, 0.3, 0.0, 0.0]))
    beta = solve(machine, tol=1e-10).dual_coef
    with pytest.raises(AssertionError, match=r"^not optimal: weights of another iterate: .* the weights 0\.7, 0\.3, "):
        assert_optimal(problem, beta, weights=[0.3, 0.7, 0.0, 0.0])


AMBIGUOUS = [
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


@pytest.mark.parametrize(
    ("name", "what", "first", "others"), AMBIGUOUS, ids=[f"{row[0]}-{row[2]}" for row in AMBIGUOUS]
)
def test_the_reading_that_explains_less_is_not_the_name(name, what, first, others):
    (case,) = select(include=[name])
    (problem,) = case.build()
    finding = judge(problem, Answer(*PLANTS[what][1](problem))).findings[0]
    assert (finding.fault, finding.others) == (first, others), finding.text
