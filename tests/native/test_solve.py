"""`solve` on every loss with every regulariser: certified by an independent evaluation, equal to the cvxpy truth."""

from __future__ import annotations

import dataclasses
import time

import numpy as np
import pytest
from makers import DEGENERATE, LOSSES, make_problem
from regularizers.instances import FAMILIES, PAIRS, SCALE
from sklearn.datasets import load_breast_cancer
from sklearn.svm import SVC

import mklref
from mklref import reference
from mklref.certificate import certify
from mklref.exceptions import Interrupted, InvalidInput, InvalidParameter, InvalidType
from mklref.native import box, images, machine, twin
from mklref.native.choice import machine_for
from mklref.native.outer import Outer
from mklref.native.smooth import SmoothMachine
from mklref.regularizers import (
    BlockNorm,
    ConcaveBlock,
    ElasticNet,
    Fixed,
    Groups,
    Lp,
    Power,
    SmoothedRoot,
    Tikhonov,
    WeightedL1,
)
from mklref.solution import Status

TOL = 1e-6
REGULARIZERS = (*(Lp(p) for p in (1, 1 + 1e-6, 1.01, 4 / 3, 2, 4, np.inf)), Fixed([0.5, 0.0, 1.0, 0.3]), *FAMILIES)
ACROSS = (Lp(1), Lp(4 / 3), Tikhonov(1, 0.3), ElasticNet(0.6), BlockNorm(4), Groups(PAIRS, 0.3, 0.3), WeightedL1(SCALE))
every_loss = pytest.mark.parametrize("loss", LOSSES, ids=str)


def well_posed(loss, regularizer):
    """Whether the dual of the nu machine has an interior.

    With a penalty of degree 1 its optimum is 0 or -inf, and `Problem` refuses it; where R* has a bounded domain its
    beta, which sums to 1, may lie outside for every beta.
    """
    bounded = isinstance(regularizer, ConcaveBlock) and isinstance(regularizer.g, SmoothedRoot)
    return not (loss.intercept_cost and (regularizer.degree == 1.0 or bounded))


def hard(regularizer):
    """Groups across which R* is a maximum of curved functions: some problems end a little short of 1e-6."""
    return isinstance(regularizer, Groups) and regularizer.p > 0.0 and regularizer.p + regularizer.q == 1.0


def checked(problem, tol=TOL, *, short=False, **options):
    """Solve; what the solution says is what an evaluation of its arrays from scratch says, and it is optimal."""
    solution = mklref.solve(problem, tol=tol, **options)
    again = certify(problem, solution.dual_coef, weights=solution.weights, intercept=solution.intercept)
    assert again == solution.certificate
    assert solution.objective == again.upper
    assert again.infeasibility <= 1e-9 * max(1.0, np.abs(solution.dual_coef).sum()), again.violations
    assert (solution.status is Status.OPTIMAL) == again.is_optimal(tol)
    if short and solution.status is not Status.OPTIMAL:
        assert solution.status is Status.STALLED
        assert again.relative_gap < 1e-3
    else:
        assert solution.status is Status.OPTIMAL, f"{problem}: {solution.status}\n{again.explain()}"
    return solution


def overlap(one, other, factor=1.0):
    """The certified intervals, the second one times `factor`, are both narrow and meet."""
    scale = max(1.0, abs(one.certificate.upper))
    assert max(one.certificate.lower, factor * other.certificate.lower) <= (
        min(one.certificate.upper, factor * other.certificate.upper) + 1e-12 * scale
    ), f"{one.certificate} against {factor} times {other.certificate}"


CASES = [
    pytest.param(loss, regularizer, DEGENERATE[(3 * i + j) % len(DEGENERATE)], id=f"{loss}-{regularizer}-{i + j}")
    for i, loss in enumerate(LOSSES)
    for j, regularizer in enumerate(REGULARIZERS)
    if well_posed(loss, regularizer)
]


@pytest.mark.parametrize(("loss", "regularizer", "degenerate"), CASES)
def test_every_loss_with_every_regularizer(loss, regularizer, degenerate):
    problem = make_problem(loss=loss, regularizer=regularizer, degenerate=degenerate, seed=8)
    checked(problem, short=hard(regularizer))


@pytest.mark.parametrize("degenerate", DEGENERATE)
@every_loss
def test_every_loss_on_degenerate_kernels(loss, degenerate):
    """With and without intercept, with sample weights, for a small and a large C."""
    rng = np.random.default_rng(9)
    for regularizer in ACROSS:
        if not well_posed(loss, regularizer):
            continue
        for intercept in {loss.intercept != "forbidden", loss.intercept == "required"}:
            for C in (None, 0.05, 30.0):
                if C and loss.intercept_cost:
                    continue
                arguments = {} if C is None else {"C": C}
                weights = rng.uniform(1.0, 3.0, size=25)
                checked(
                    make_problem(
                        loss=loss,
                        regularizer=regularizer,
                        degenerate=degenerate,
                        intercept=intercept,
                        sample_weight=weights,
                        seed=10,
                        **arguments,
                    )
                )


@pytest.mark.parametrize("regularizer", [*ACROSS, Power(1.2), BlockNorm(np.inf), Groups(PAIRS, 0.5, 0.5)], ids=str)
@every_loss
def test_agreement_with_convex_modelling(loss, regularizer):
    if not well_posed(loss, regularizer):
        pytest.skip("ill-posed")
    problem = make_problem(loss=loss, regularizer=regularizer, seed=12, n=20)
    ours = checked(problem, short=hard(regularizer))
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


# --- extremes -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("regularizer", ACROSS, ids=str)
@pytest.mark.parametrize("C", [1e-12, 1e-6, 1e6, 1e9])
def test_tiny_and_huge_C(C, regularizer):
    """Nothing is learned for a tiny C, a hard margin for a huge one: Gaussian kernels separate the samples."""
    problem = make_problem(C=C, seed=16, regularizer=regularizer)
    solution = mklref.solve(problem)
    assert solution.certificate.relative_gap <= (TOL if C < 1e8 else 1e-3)
    minority = min(np.sum(problem.y > 0), np.sum(problem.y < 0))
    assert solution.certificate.lower <= 2.0 * C * minority * (1 + 1e-9)
    if C <= 1e-6:
        assert solution.objective == pytest.approx(2.0 * C * minority, rel=1e-4)


@every_loss
def test_the_smallest_problem(loss):
    """n = 2, M = 1."""
    y = {"labels": [1.0, -1.0], "real": [0.3, -1.2], "ones": [1.0, 1.0]}[loss.targets]
    for kernel in ([[2.0, 0.3], [0.3, 1.0]], [[1.0, 1.0], [1.0, 1.0]], [[0.0, 0.0], [0.0, 1.0]]):
        for regularizer in (Lp(1), Lp(2), BlockNorm(4), Tikhonov(2, 0.3)):
            checked(
                mklref.Problem(
                    np.array([kernel]), y, loss=loss, regularizer=regularizer, intercept=loss.intercept != "forbidden"
                )
            )


def test_two_samples_by_hand():
    """The margin problem: beta = (1, -1) / (K_11 + K_22 - 2 K_12) * 2 if that is below C, value half of its sum."""
    problem = mklref.Problem([[[2.0, 0.3], [0.3, 1.0]]], [1.0, -1.0], C=10.0)
    solution = checked(problem, tol=1e-9)
    alpha = 2.0 / (2.0 + 1.0 - 0.6)
    np.testing.assert_allclose(solution.dual_coef, [alpha, -alpha], rtol=1e-8)
    assert solution.objective == pytest.approx(alpha, rel=1e-8)


def test_all_kernels_zero():
    """f = b: the minority is misclassified at cost 2 each."""
    problem = make_problem(seed=17)
    nothing = problem.replace(kernels=np.zeros((3, 25, 25)))
    for regularizer in (Lp(1), Lp(2), Lp(np.inf), Power(1), ElasticNet(0.5), BlockNorm(3)):
        solution = checked(nothing.replace(regularizer=regularizer))
        minority = min(np.sum(problem.y > 0), np.sum(problem.y < 0))
        assert solution.objective == pytest.approx(2.0 * minority, rel=1e-6)


@pytest.mark.parametrize("p", [1, 4 / 3, 2, np.inf])
def test_one_sample_of_a_class(p):
    problem = make_problem(seed=18)
    y = -np.ones(25)
    y[7] = 1.0
    for C in (0.1, 1.0, 100.0):
        checked(problem.replace(y=y, C=C, regularizer=Lp(p)))


@pytest.mark.parametrize("p", [1, 4 / 3, 2])
def test_kernels_of_very_different_scales(p):
    problem = make_problem(seed=19, M=6)
    scaled = problem.kernels.dense() * 10.0 ** np.array([-8, -3, 0, 1, 4, 8])[:, None, None]
    for C in (1e-3, 1.0):
        checked(problem.replace(kernels=scaled, C=C, regularizer=Lp(p)))


@pytest.mark.parametrize("regularizer", [Lp(1), Lp(2), BlockNorm(4)], ids=str)
def test_sample_weights_over_six_decades(regularizer):
    problem = make_problem(seed=20, regularizer=regularizer)
    weights = 10.0 ** np.random.default_rng(21).uniform(-3, 3, size=25)
    checked(problem.replace(sample_weight=weights))


@pytest.mark.parametrize("nu", [1.0, 0.5, 0.04])
@pytest.mark.parametrize("p", [1, 2, np.inf])
def test_nu_at_its_limits(nu, p):
    """nu = 1: every dual variable is 1/n. nu = 1/n: the smallest ball around all samples."""
    problem = make_problem(loss="one_class", C=1.0 / (25 * nu), seed=22, regularizer=Lp(p))
    solution = checked(problem)
    assert solution.dual_coef.sum() == pytest.approx(1.0, abs=1e-12)
    if nu == 1.0:
        np.testing.assert_allclose(solution.dual_coef, 1 / 25, rtol=1e-12)


@pytest.mark.parametrize("scale", [1e-150, 1e150])
@pytest.mark.parametrize("p", [1, 2])
def test_kernels_near_the_ends_of_the_range(scale, p):
    """P(cK, C/c) = P(K, C)/c, also where squares of the entries over- or underflow."""
    problem = make_problem(seed=23, regularizer=Lp(p))
    plain = checked(problem)
    scaled = mklref.solve(problem.replace(kernels=scale * problem.kernels.dense(), C=problem.C / scale))
    assert scaled.certificate.gap <= 1.1e-6 * max(abs(scaled.certificate.upper), 0.0 if scale < 1 else 1.0)
    if scale < 1:  # for the large scale the values are of order 1e-150, far below what is certified
        overlap(plain, scaled, factor=scale)


def test_single_precision_is_read_as_it_is():
    """The float64 copy of a float32 stack gives the same solution, bit for bit."""
    problem = make_problem(seed=24, regularizer=Lp(4 / 3))
    dense = (problem.kernels.dense() + 0.01 * np.eye(25)).astype(np.float32)
    problem = problem.replace(kernels=dense)
    assert problem.kernels.dtype == np.float32
    single = checked(problem)
    double = checked(problem.replace(kernels=dense.astype(np.float64)))
    np.testing.assert_array_equal(single.dual_coef, double.dual_coef)
    np.testing.assert_array_equal(single.weights, double.weights)


def test_single_precision_kernels_that_are_indefinite_by_rounding():
    """Rank-deficient kernels rounded to float32: the dual point stays feasible although single steps are huge."""
    problem = make_problem(seed=24, regularizer=Lp(4 / 3))
    checked(problem.replace(kernels=problem.kernels.dense().astype(np.float32)))


# --- warm starts, determinism, fallback -----------------------------------------------------------------------


@pytest.mark.parametrize("regularizer", ACROSS, ids=str)
def test_warm_and_cold_starts_agree(regularizer):
    problem = make_problem(seed=25, regularizer=regularizer, C=2.0)
    cold = checked(problem)
    for other in (problem.replace(C=20.0), problem.replace(C=0.1), problem.replace(regularizer=Lp(3))):
        warm = checked(problem, start=mklref.solve(other))
        overlap(cold, warm)
    again = checked(problem, start=cold)
    assert len(again.history) <= max(2, len(cold.history) - 1)


def test_a_start_of_another_size_is_refused():
    small = mklref.solve(make_problem(seed=26, n=20))
    with pytest.raises(InvalidInput, match=r"start has dual variables of shape \(20,\) .*; this problem has \(25,\)"):
        mklref.solve(make_problem(seed=26), start=small)
    problem = make_problem(seed=26, n=20)
    fewer = problem.replace(kernels=problem.kernels.dense()[:3])
    with pytest.raises(InvalidInput, match=r"weights of shape \(4,\); this problem has \(20,\) and \(3,\)"):
        mklref.solve(fewer, start=small)
    with pytest.raises(InvalidInput, match=r"start has weights .* nonnegative and finite"):
        mklref.solve(problem, start=dataclasses.replace(small, weights=-small.weights))


@pytest.mark.parametrize("loss", ["squared", "logistic", "hinge", "squared_hinge", "epsilon_insensitive"])
def test_nothing_worse_than_the_zero_function_is_returned(loss):
    """One machine at unscaled kernels and targets may be far worse than f = 0, which costs nothing to look at."""
    problem = make_problem(loss=loss, seed=8, regularizer=Lp(1))
    problem = problem.replace(kernels=1e8 * problem.kernels.dense(), C=1e4)
    zero = mklref.certify(problem, np.zeros(problem.n_samples))
    for max_iter in (1, 2):
        found = mklref.solve(problem, max_iter=max_iter).certificate
        assert found.gap <= zero.gap * (1.0 + 1e-12)


def test_a_callback_may_write_into_its_record():
    problem = make_problem(seed=9, regularizer=Lp(1.5))

    def spoil(record):
        record.weights[:] = np.nan

    spoilt, solution = mklref.solve(problem, callback=spoil), mklref.solve(problem)
    assert np.array_equal(spoilt.weights, solution.weights)
    assert spoilt.certificate == solution.certificate


def test_a_path_takes_arrays_iterators_and_a_start_and_refuses_the_rest():
    problem = make_problem(seed=27)
    values = [1.0, 4 / 3, 2.0]
    known = [solution.weights for solution in mklref.solve_path(problem, p=values)]
    for given in (np.array(values), iter(values), tuple(values)):
        path = mklref.solve_path(problem, p=given)
        assert all(np.array_equal(one.weights, other) for one, other in zip(path, known, strict=True))
    started = mklref.solve_path(problem, C=[1.0, 3.0], start=mklref.solve(problem))
    assert len(started[0].history) <= 2
    for given in (2.0, "1", np.ones((2, 2)), None):
        with pytest.raises(InvalidParameter, match=r"(?s)p = .* must be a sequence|give either C or p"):
            mklref.solve_path(problem, p=given)
    with pytest.raises(InvalidType, match="problem is NoneType"):
        mklref.solve_path(None, C=[1.0])
    with pytest.raises(InvalidType, match="callback is 3"):
        mklref.solve_path(problem, C=[1.0], callback=3)


def test_an_interrupted_path_keeps_its_points():
    def stop(solution):
        if solution.objective > 0.0 and len(seen) == 1:
            raise KeyboardInterrupt
        seen.append(solution)

    seen = []
    with pytest.raises(Interrupted) as caught:
        mklref.solve_path(make_problem(seed=27), C=[1.0, 2.0, 3.0], callback=stop)
    assert [solution.objective for solution in caught.value.path[:1]] == [seen[0].objective]
    assert len(caught.value.path) == 2


def test_newtons_method_on_smooth_losses_keeps_to_its_time(monkeypatch):
    """A hundred Newton steps of a machine that never gets there are cut off by the deadline."""
    problem = make_problem(loss="logistic", n=40, seed=3)
    steps = []
    objective = SmoothMachine._objective
    monkeypatch.setattr(SmoothMachine, "_dual_value", lambda machine, point, scores: -np.inf)
    monkeypatch.setattr(
        SmoothMachine,
        "_objective",
        lambda machine, *point: (steps.append(time.sleep(0.02)), objective(machine, *point))[1],
    )
    solution = mklref.solve(problem, max_time=0.05)
    assert solution.status is Status.TIME_LIMIT
    assert len(steps) <= 12


def test_a_path_is_certified_everywhere():
    problem = make_problem(seed=27)
    values = [10.0, 3.0, 1.0, 0.3]
    path = mklref.solve_path(problem, C=values, tol=1e-7)
    assert [solution.certificate.is_optimal(1e-7) for solution in path] == [True] * 4
    for C, solution in zip(values, path, strict=True):
        overlap(checked(problem.replace(C=C)), solution)
    exponents = mklref.solve_path(problem, p=[1, 1.5, np.inf])
    for p, solution in zip([1, 1.5, np.inf], exponents, strict=True):
        overlap(checked(problem.replace(regularizer=Lp(p))), solution)
    ended = mklref.solve_path(problem, C=values, callback=lambda solution: True)
    assert len(ended) == 1
    for wrong in ({}, {"C": [1.0], "p": [1.0]}):
        with pytest.raises(InvalidParameter, match="give either C or p"):
            mklref.solve_path(problem, **wrong)


@every_loss
def test_two_runs_are_the_same_bit_for_bit(loss, monkeypatch):
    """Whatever the number of threads: every task of a pass has memory of its own."""
    problem = make_problem(loss=loss, seed=28, n=40, M=9)
    runs = []
    for threads in ("1", "1", "2"):
        monkeypatch.setenv("MKLREF_NUM_THREADS", threads)
        runs.append(checked(problem))
    for run in runs[1:]:
        np.testing.assert_array_equal(run.dual_coef, runs[0].dual_coef)
        np.testing.assert_array_equal(run.weights, runs[0].weights)
        assert run.intercept == runs[0].intercept
        assert run.certificate == runs[0].certificate
    assert runs[1].history.counters == runs[0].history.counters  # two threads form rows in batches


@pytest.mark.parametrize("loss", ["hinge", "huber", "logistic"])
def test_without_the_compiled_loops_the_answer_is_the_same(loss, monkeypatch):
    problem = make_problem(loss=loss, seed=29, n=12, regularizer=Lp(4 / 3))
    compiled = checked(problem, tol=1e-12)
    for module in (box, images, machine):
        monkeypatch.setattr(module, "loops", twin)
    slow = checked(problem, tol=1e-12)
    np.testing.assert_allclose(slow.dual_coef, compiled.dual_coef, atol=1e-6)
    np.testing.assert_allclose(slow.weights, compiled.weights, atol=1e-6)


@pytest.mark.parametrize("loss", ["hinge", "squared"])
def test_nothing_is_written_to(loss):
    problem = make_problem(loss=loss, seed=30)
    kernels, y = np.asfortranarray(problem.kernels.dense()), problem.y.copy()
    kernels_before, y_before = kernels.copy(), y.copy()
    weights = np.linspace(0.5, 1.5, 25)
    fresh = problem.replace(kernels=kernels, y=y, sample_weight=weights)
    first = checked(fresh)
    np.testing.assert_array_equal(kernels, kernels_before)
    np.testing.assert_array_equal(y, y_before)
    np.testing.assert_array_equal(weights, np.linspace(0.5, 1.5, 25))
    for array in (kernels, y, weights):
        array.flags.writeable = False
    np.testing.assert_array_equal(checked(fresh).dual_coef, first.dual_coef)


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


@pytest.mark.parametrize(
    ("loss", "scale", "C"), [("logistic", 1e-190, 1e190), ("squared", 1e30, 1e30), ("hinge", 1e60, 1e30)]
)
@pytest.mark.parametrize("regularizer", [Lp(1), Lp(2), Tikhonov(2, 1.7)], ids=str)
def test_numbers_at_the_end_of_double_precision_end_with_a_true_status(loss, scale, C, regularizer):
    problem = make_problem(loss=loss, n=6, seed=31)
    extreme = problem.replace(kernels=scale * problem.kernels.dense(), C=C, regularizer=regularizer)
    with np.errstate(all="ignore"):
        solution = mklref.solve(extreme, max_time=5.0)
    assert (solution.status is Status.OPTIMAL) == solution.certificate.is_optimal(TOL)


@pytest.mark.parametrize(("scale", "C"), [(1e-250, 1e240), (1e160, 1.0), (1.0, 1e-160), (1e80, 1e80)])
def test_numbers_beyond_double_precision_are_refused(scale, C):
    problem = make_problem(loss="logistic", n=6, seed=31)
    extreme = problem.replace(kernels=scale * problem.kernels.dense(), C=C)
    with pytest.raises(InvalidParameter, match=r"leaves the range of double precision.*normalise the kernels"):
        mklref.solve(extreme)


def test_a_start_is_a_solution():
    with pytest.raises(InvalidType, match="start is str; give a Solution"):
        mklref.solve(make_problem(), start="warm")


@pytest.mark.parametrize("p", [1, 4 / 3, 2])
@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_dual_points_stay_balanced_as_C_falls(loss, p):
    """1'beta = 0 in terms of the present sum |beta|, not of that of the start, thousands of times as large."""
    for seed in (2, 5, 13, 16):
        problem = make_problem(loss=loss, seed=seed, regularizer=Lp(p))
        for solution in mklref.solve_path(problem, C=[1e4, 1.0, 1e-4]):
            assert solution.certificate.violations == ()


def test_kinks_under_a_penalty_whose_dual_has_bounds_are_not_looked_for():
    """A bundle mixes dual points of any size, and their R* has to be finite."""
    regularizer = ConcaveBlock(SmoothedRoot(0.0016))
    problem = make_problem(seed=31, regularizer=regularizer)
    assert not Outer(machine_for(problem, None), 1e-6, 100, np.inf).may_kink
    assert Outer(machine_for(problem.replace(regularizer=Tikhonov(5, 0.6)), None), 1e-6, 100, np.inf).may_kink
    checked(problem)
