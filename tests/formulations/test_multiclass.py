"""Machines with shared weights: against one big problem, against the binary case, and against spoilt points."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from scipy.linalg import block_diag

from mklref import reference, solve
from mklref._conic.scaling import factorize
from mklref.exceptions import InvalidParameter, InvalidTarget, InvalidType
from mklref.formulations import as_formulation
from mklref.multiclass import STRATEGIES, MulticlassProblem
from mklref.problem import Problem
from mklref.regularizers import BlockNorm, Fixed, Lp, Power, Tikhonov
from mklref.solution import Status


@pytest.mark.sampled(6)
@pytest.mark.parametrize("solver", ["CLARABEL", "ECOS", "SCS"])
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_every_solver_ends_at_a_certified_optimum(data, strategy, solver):
    for regularizer in (Lp(1), Lp(4 / 3), Tikhonov(2, 0.3), Power(1), Fixed((0.5, 0.0, 1.0))):
        problem = MulticlassProblem(*data, C=2.0, regularizer=regularizer, strategy=strategy)
        solution = reference.solve(problem, "multiclass", solver=solver)
        assert solution.status is Status.OPTIMAL, solution.certificate.explain()
        assert solution.solver == f"multiclass/{solver}"
        assert solution.value == pytest.approx(solution.objective, rel=1e-6)
        again = problem.certify(solution.dual_coef, solution.weights, solution.intercept)
        assert again == solution.certificate


@pytest.mark.sampled(3)
@pytest.mark.parametrize("loss", ["hinge", "squared_hinge", "logistic"])
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_is_one_problem_with_block_diagonal_kernels(data, strategy, loss):
    """Without intercepts, the machines are one machine on the direct sum of their spaces."""
    common = {"C": 1.5, "loss": loss, "regularizer": Lp(1.7), "intercept": False}
    weights = np.random.default_rng(4).uniform(0.3, 2.0, size=27)
    problem = MulticlassProblem(*data, strategy=strategy, sample_weight=weights, **common)
    stacks = [machine.problem.kernels.dense() for machine in problem.machines]
    blocks = [block_diag(*(stack[m] for stack in stacks)) for m in range(3)]
    y = np.concatenate([machine.problem.y for machine in problem.machines])
    weights = np.concatenate([weights[machine.samples] for machine in problem.machines])
    together = reference.solve(Problem(blocks, y, sample_weight=weights, **common))
    for apart in (reference.solve(problem, "multiclass"), solve(problem, tol=1e-9)):
        assert apart.objective == pytest.approx(together.objective, rel=1e-7)
        np.testing.assert_allclose(apart.weights, together.weights, atol=1e-4)


def test_two_classes_one_against_one_is_the_binary_problem(data):
    kernels, y = data
    two = MulticlassProblem(kernels, np.where(y > 0, "b", "a"), C=2.0, strategy="one_vs_one")
    binary = reference.solve(Problem(kernels, np.where(y > 0, -1.0, 1.0), C=2.0))  # the first class is positive
    solution = reference.solve(two, "multiclass")
    assert solution.objective == pytest.approx(binary.objective, rel=1e-7)
    np.testing.assert_allclose(solution.intercept, [binary.intercept], atol=1e-4)
    scores = solution.decision_function(kernels)
    np.testing.assert_allclose(scores[:, 0], binary.decision_function(kernels), atol=1e-3)


@pytest.mark.parametrize("regularizer", [Lp(4 / 3), BlockNorm(np.inf)], ids=str)
def test_recovery_unpolished(data, regularizer):
    problem = MulticlassProblem(*data, C=2.0, regularizer=regularizer)
    model = as_formulation("multiclass").build(problem, factorize(problem.kernels))
    model.set_costs(problem.costs)
    bounds = problem.certify(*model.run(reference.Engine("CLARABEL")))
    assert abs(bounds.relative_gap) < 5e-5  # 1 % of beta, theta or b is worth 1e-3 or more
    assert bounds.infeasibility < 1e-5


@pytest.mark.parametrize("spoil", ["flipped intercepts", "uniform weights", "shrunk dual", "machines in disorder"])
def test_spoilt_points_are_rejected(data, spoil):
    problem = MulticlassProblem(*data, C=2.0)
    solution = reference.solve(problem, "multiclass")
    beta, theta, b = solution.dual_coef, solution.weights, solution.intercept
    spoilt = {
        "flipped intercepts": (beta, theta, -b),
        "uniform weights": (beta, np.full(3, 1 / 3), b),
        "shrunk dual": (0.9 * beta, theta, b),
        "machines in disorder": (beta[::-1], theta, b),
    }[spoil]
    assert problem.certify(*spoilt).relative_gap > 1e-3


@pytest.mark.thorough
def test_gradient_of_the_machine_value(data):
    """(22): dJ/dtheta_m = -1/2 sum_p beta_p'K_m beta_p, with the labels of each machine within beta_p."""
    theta = np.array([0.5, 0.2, 0.3])

    def value(weights):
        problem = MulticlassProblem(*data, C=2.0, loss="squared_hinge", regularizer=Fixed(weights))
        return reference.solve(problem, "multiclass")

    beta = value(theta).dual_coef
    gradient = -0.5 * np.array([sum(row @ K @ row for row in beta) for K in data[0]])
    for m, step in enumerate(1e-4 * np.eye(3)):
        difference = (value(theta + step).objective - value(theta - step).objective) / 2e-4
        assert difference == pytest.approx(gradient[m], rel=1e-5)


def test_classes_go_to_the_largest_score_or_to_the_most_pairs():
    y = np.array(["a", "b", "c"] * 4)
    kernels = [np.eye(12)]
    rest = MulticlassProblem(kernels, y)
    assert list(rest.assign([[0.1, 0.3, -2.0], [-3.0, -2.0, -1.0]])) == ["b", "c"]
    pairs = MulticlassProblem(kernels, y, strategy="one_vs_one")
    assert [(machine.positive, machine.negative) for machine in pairs.machines] == [(0, 1), (0, 2), (1, 2)]
    assert list(pairs.assign([[1.0, 2.0, 5.0], [-9.0, 9.0, 0.1]])) == ["a", "b"]  # a circle: b won most clearly
    for scores, error in (([1.0, 2.0, 3.0], InvalidParameter), (np.ones((2, 4)), InvalidParameter), ("a", InvalidType)):
        with pytest.raises(error, match="scores"):
            pairs.assign(scores)
    with pytest.raises(InvalidParameter, match=r"scores\[0, 1\] is nan"):
        rest.assign([[1.0, np.nan, 0.0]])


def test_classes_and_points_that_do_not_fit_are_refused(data):
    kernels, y = data
    with pytest.raises(InvalidTarget, match="only the class"):
        MulticlassProblem(kernels, np.zeros(27))
    with pytest.raises(InvalidTarget, match=r"y has shape \(26,\), kernels are of order 27"):
        MulticlassProblem(kernels, y[1:])
    with pytest.raises(InvalidParameter, match="strategy = 'pairs' is unknown; known names: one_vs_rest, one_vs_one"):
        MulticlassProblem(kernels, y, strategy="pairs")
    with pytest.raises(InvalidParameter, match="loss squared takes no labels; use 'hinge'"):
        MulticlassProblem(kernels, y, loss="squared")
    with pytest.raises(InvalidParameter, match=r"dual_coef has shape \(2, 27\); expected \(3, 27\)"):
        MulticlassProblem(kernels, y).certify(np.zeros((2, 27)), np.ones(3))
    with pytest.raises(InvalidParameter, match=r"weights has shape \(2,\); expected \(3,\)"):
        MulticlassProblem(kernels, y).certify(np.zeros((3, 27)), np.ones(2))
    with pytest.raises(InvalidParameter, match=r"intercept\[1\] is nan"):
        MulticlassProblem(kernels, y).certify(np.zeros((3, 27)), np.ones(3), [0.0, np.nan, 0.0])
    reasons = reference.explain(MulticlassProblem(kernels, y))
    assert reasons["multiclass"] is None
    assert reasons["dual"] == "dual is for a Problem, this is a MulticlassProblem."
    assert "is for a MulticlassProblem" in reference.explain(Problem(kernels, np.sign(y - 0.5)))["multiclass"]


def test_an_intercept_is_refused_where_the_problem_has_none():
    """With K = 0 and three samples of one class, P* = 4, which b = 1 would halve."""
    problem = MulticlassProblem(np.zeros((1, 4, 4)), list("aaab"), strategy="one_vs_one", intercept=False)
    beta = np.array([[0.5, 0.5, 0.5, -0.5]])
    with pytest.raises(InvalidParameter, match=r"intercept = 1\.0 must be 0: the problem has no intercept"):
        problem.certify(beta, [1.0], [1.0])
    for intercepts in (None, [0.0]):
        bounds = problem.certify(beta, [1.0], intercepts)
        assert bounds.objective == 4.0
        assert (bounds.lower, bounds.upper) == pytest.approx((2.0, 4.0), rel=1e-14)
        assert bounds.lower < 2.0 < 4.0 < bounds.upper  # by the allowance for rounding


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_negative_weights_count_as_zero_and_are_violations(data, strategy):
    problem = MulticlassProblem(*data, C=2.0, strategy=strategy)
    solution = reference.solve(problem, "multiclass")
    spoilt = solution.weights - np.array([0.0, 0.0, 5.0])
    bounds = problem.certify(solution.dual_coef, spoilt)
    assert bounds.violations == (f"weights[2] = {spoilt[2]:.3g} is negative",)
    without = problem.certify(solution.dual_coef, np.maximum(spoilt, 0.0))
    assert (bounds.lower, bounds.upper) == (without.lower, without.upper)
    assert bounds.upper >= solution.certificate.lower
    same_scores = problem.certify(-solution.dual_coef, -solution.weights, solution.intercept)
    assert same_scores.upper >= solution.certificate.lower


def test_weights_outside_the_ball_are_named_as_the_binary_certificate_names_them(data):
    problem = MulticlassProblem(*data, C=2.0)
    bounds = problem.certify(np.zeros((3, 27)), np.ones(3))
    assert "weights lie outside the domain of Lp(1)" in bounds.explain()


def test_an_absurd_point_has_infinite_bounds(data):
    bounds = MulticlassProblem(*data, loss="squared_hinge").certify(np.full((3, 27), 1e200), np.ones(3) / 3)
    assert bounds.upper == np.inf
    assert bounds.relative_gap == np.inf


def test_the_problem_is_frozen_and_its_arrays_are_its_own(data):
    kernels, y = data
    given, weight = y.copy(), np.ones(27)
    problem = MulticlassProblem(kernels, given, sample_weight=weight)
    given[:], weight[:] = 0, 5.0
    np.testing.assert_array_equal(problem.y, y)
    np.testing.assert_array_equal(problem.machines[0].problem.costs, np.ones(27))
    for name in ("C", "y", "machines", "kernels", "classes", "something"):
        with pytest.raises(AttributeError, match=rf"MulticlassProblem is frozen; use problem\.replace\({name}="):
            setattr(problem, name, 1)
    with pytest.raises(AttributeError, match="frozen"):
        del problem.C
    for array in (problem.y, problem.classes, problem.sample_weight, problem.machines[0].samples):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = array[1]
    changed = pickle.loads(pickle.dumps(problem)).replace(C=3.0, strategy="one_vs_one")
    assert (changed.C, len(changed.machines), changed.strategy) == (3.0, 3, "one_vs_one")
    np.testing.assert_array_equal(changed.sample_weight, problem.sample_weight)


NAN, NAT = float("nan"), np.datetime64("NaT", "s")
MERGED = {
    "numbers beside their digits": ([1, "1", 2, 2], InvalidTarget, "int, str, which an array .* does not keep apart"),
    "numbers beside other texts": ([1, "a", 1, "a"], InvalidTarget, "int, str"),
    "objects of two kinds": (np.array([1, "1", 2, 2], dtype=object), InvalidTarget, "int, str"),
    "texts with a last zero": (["a", "a\0", "b", "b"], InvalidTarget, "does not keep apart"),
    "texts and bytes": ([b"1", "1", "2", "2"], InvalidTarget, "bytes, str"),
    "truth values and numbers": ([1, True, 0, 2], InvalidTarget, "bool, int, which an array of int64 does not keep"),
    "truth values of NumPy": (np.array([0.5, np.True_, 0, 1], dtype=object), InvalidTarget, "bool"),
    "integers beyond float64": ([2**53, 2**53 + 1, 0.5, 0.5], InvalidTarget, "float, int"),
    "NaN": (np.array([0.0, 1.0, NAN, NAN]), InvalidTarget, r"y\[2\] is nan, which is no class; drop the sample"),
    "NaN in a list": ([0.0, NAN, 1.0, 1.0], InvalidTarget, r"y\[1\] is nan"),
    "two NaN in a list": ([float("nan"), NAN, 1.0, 1.0], InvalidTarget, r"y\[0\] is nan"),
    "NaN beside texts": (["a", NAN, "b", "b"], InvalidTarget, "float, str"),
    "infinity": ([0.0, np.inf, 1.0, 1.0], InvalidTarget, r"y\[1\] is inf"),
    "no date": (np.array(["2020-01-01", NAT, "2020-01-02", NAT], dtype="M8[D]"), InvalidTarget, r"y\[1\] is NaT"),
    "None beside texts": (["a", None, "b", "b"], InvalidTarget, "NoneType, str, which have no order"),
    "complex": ([1j, 2.0, 1j, 2.0], InvalidType, "complex128 data, which have no order"),
    "masked": (np.ma.array([0, 1, 0, 1], mask=[0, 0, 1, 0]), InvalidType, "y is a masked array; its mask would"),
    "a table": ([[0, 1], [1, 0], [0, 1], [1, 1]], InvalidTarget, r"y has shape \(4, 2\)"),
    "ragged": ([[0, 1], [1]], InvalidTarget, "y is ragged"),
}


@pytest.mark.parametrize(("y", "error", "words"), MERGED.values(), ids=MERGED)
def test_classes_that_an_array_would_merge_or_that_are_none_are_refused(y, error, words):
    with pytest.raises(error, match=words):
        MulticlassProblem(np.eye(4)[None], y)


@pytest.mark.parametrize(
    "y", [[3, 1, 3, 2], [2.5, 1, 2.5, 1], ["b", "a", "b", "c"], [True, False, True, False], ("b", "a", "a", "b")]
)
def test_classes_of_one_kind_are_kept(y):
    problem = MulticlassProblem(np.eye(4)[None], y)
    np.testing.assert_array_equal(problem.y, np.asarray(y))
    assert len(problem.machines) == len(np.unique(np.asarray(y)))
