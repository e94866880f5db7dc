"""`solve` at its ends: tiny and huge C, the smallest problems, any scale, numbers beyond double precision."""

from __future__ import annotations

from contextlib import nullcontext, suppress
from functools import partial

import numpy as np
import pytest
from makers import make_problem
from native.solving import ACROSS, TOL, checked, every_loss, honest, overlap

import mklref
from mklref.exceptions import InvalidParameter, InvalidTarget, SolverFailure
from mklref.losses import EpsilonInsensitive, SquaredEpsilonInsensitive
from mklref.regularizers import (
    BlockNorm,
    ConcaveBlock,
    ElasticNet,
    Groups,
    HalfPower,
    Lp,
    Mahalanobis,
    Power,
    PowerRoot,
    RootPlusLinear,
    SmoothedRoot,
    Tikhonov,
    WeightedL1,
    WeightedLp,
)
from mklref.solution import Status


@pytest.mark.sampled(4)
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
        assert solution.objective == pytest.approx(2.0 * C * minority, rel=1e-4, abs=0.0)


@pytest.mark.sampled(5)
@every_loss
def test_the_smallest_problem(loss):
    """n = 2, M = 1."""
    y = {"labels": [1.0, -1.0], "real": [0.3, -1.2], "ones": [1.0, 1.0]}[loss.targets]
    for kernel in ([[2.0, 0.3], [0.3, 1.0]], [[1.0, 1.0], [1.0, 1.0]], [[0.0, 0.0], [0.0, 1.0]]):
        for regularizer in (Lp(1), Lp(2), BlockNorm(4), Tikhonov(2, 0.3)):
            intercept = loss.intercept != "forbidden"
            checked(mklref.Problem([kernel], y, loss=loss, regularizer=regularizer, intercept=intercept))


def test_two_samples_by_hand():
    """The margin problem: beta = (1, -1) / (K_11 + K_22 - 2 K_12) * 2 if that is below C, value half of its sum."""
    problem = mklref.Problem([[[2.0, 0.3], [0.3, 1.0]]], [1.0, -1.0], C=10.0)
    solution = checked(problem, tol=1e-9)
    alpha = 2.0 / (2.0 + 1.0 - 0.6)
    np.testing.assert_allclose(solution.dual_coef, [alpha, -alpha], rtol=1e-8)
    assert solution.objective == pytest.approx(alpha, rel=1e-8)


@pytest.mark.parametrize("intercept", [True, False])
def test_tubes_nearly_as_wide_as_the_targets_by_hand(intercept):
    """beta = (b, -b) with K = I: y - eps = b (1 + curvature/c) is far inside the box, half of it times 2 (y - eps)."""
    for loss, curvature in ((EpsilonInsensitive(1.0), 0.0), (SquaredEpsilonInsensitive(1.0), 1.0)):
        problem = mklref.Problem([np.eye(2)], [1.05, -1.05], C=10.0, loss=loss, intercept=intercept)
        solution = checked(problem)
        assert solution.objective == pytest.approx(0.05**2 / (1.0 + 0.1 * curvature), rel=1e-6)


@pytest.mark.sampled(9)
@pytest.mark.parametrize("C", [1e15, 1e24, 1e60])
@pytest.mark.parametrize("loss", ["hinge", "epsilon_insensitive", "one_class"])
def test_a_margin_that_is_hard_is_found_whatever_rounding_makes_of_its_losses(loss, C):
    """No beta is near the box, and the losses, all 0, come out as C times the rounding of scores."""
    problem = make_problem(loss=loss, seed=16, regularizer=Lp(2)).replace(C=C)
    solution, other = checked(problem), checked(problem.replace(C=1e6))
    overlap(solution, other)
    assert len(solution.history) <= 120  # 17 to 71 as the kernels change in their last digits


@pytest.mark.sampled(2)
@pytest.mark.parametrize("regularizer", [Lp(1), Lp(2), Power(2), ElasticNet(0.4)], ids=str)
@pytest.mark.parametrize("loss", [EpsilonInsensitive, SquaredEpsilonInsensitive], ids=lambda loss: loss.name)
def test_tubes_nearly_as_wide_as_the_targets_in_few_iterations(loss, regularizer):
    """P* is up to eight orders smaller than the first upper bound at the weights of a start."""
    for seed, share in enumerate([0.9, 0.97, 0.99, 0.999]):
        problem = make_problem(loss="squared", seed=seed, regularizer=regularizer)
        width = 0.5 * share * float(np.ptp(problem.y))
        assert len(checked(problem.replace(loss=loss(width), C=10.0**seed)).history) <= 40


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    "regularizer",
    [ConcaveBlock(RootPlusLinear(0.9)), ConcaveBlock(PowerRoot(1.000001)), Power(1.001), HalfPower(1.2)],
    ids=str,
)
def test_weights_of_another_order_than_the_first_in_few_machines(regularizer):
    """The first step leads to weights near 0; from there each would add half of what they are, or none lead back."""
    for seed in range(2):
        problem = make_problem(loss="squared", seed=seed, C=1e3, regularizer=regularizer)
        problem = problem.replace(kernels=1e3 * problem.kernels.dense(), y=1e-3 * problem.y)
        assert checked(problem).history.counters["machines"] <= 15


@pytest.mark.sampled(3)
@pytest.mark.parametrize("loss", ["hinge", "pinball", "logistic"])
@pytest.mark.parametrize("regularizer", [Power(1.000001), HalfPower(1.000001), Tikhonov(1.000001, 0.3)], ids=repr)
def test_penalties_barely_smoother_than_their_kinks(loss, regularizer):
    """Also where no weights pay, so that all of them underflow."""
    for C in (0.03, 1.0):
        checked(make_problem(loss=loss, seed=1, C=C, regularizer=regularizer))


@pytest.mark.sampled(9)
@pytest.mark.parametrize("epsilon", [1e-12, 1e-8, 1e-5])
@pytest.mark.parametrize(("loss", "seed"), [("squared_hinge", 0), ("logistic", 0), ("squared", 2)])
def test_a_root_that_is_barely_smooth_is_solved_by_way_of_the_root(loss, seed, epsilon):
    rng = np.random.default_rng(seed)
    n, M = int(rng.integers(6, 30)), int(rng.integers(2, 6))
    X = rng.normal(size=(n, M))
    y = np.where(X[:, 0] + 0.3 * rng.normal(size=n) > 0.0, 1.0, -1.0)
    y[:2] = 1.0, -1.0
    kernels = [x @ x.T + rng.choice([0.0, 0.2]) * np.exp(-((x - x.T) ** 2)) for x in X.T[:, :, None]]
    C, regularizer = 10.0 ** rng.uniform(-1, 3), ConcaveBlock(SmoothedRoot(epsilon))
    solution = mklref.solve(mklref.Problem(kernels, y, C=C, loss=loss, regularizer=regularizer))
    assert solution.status is Status.OPTIMAL


@pytest.mark.parametrize("loss", ["logistic", "huber", "hinge"])
@pytest.mark.parametrize("scale", [1e3, 1e6])
def test_kernels_so_large_that_the_loss_all_but_vanishes(loss, scale):
    """P* is a millionth of the loss at 0, reached from dual points a million times as large as the optimal ones."""
    problem = make_problem(loss=loss, seed=0)
    checked(problem.replace(kernels=scale * problem.kernels.dense()))


@pytest.mark.sampled(4)
@pytest.mark.parametrize("regularizer", [Lp(1), Lp(4 / 3)], ids=str)
@pytest.mark.parametrize(("scale", "C"), [(1e100, 1.0), (1.0, 1e100), (1e-60, 1e60), (1e12, 1e12)])
def test_logistic_losses_that_fall_to_nothing(scale, C, regularizer):
    """Scores of 230, where both derivatives of the loss are 1e-100: a Newton step is still one of length 1."""
    problem = make_problem(loss="logistic", C=C, regularizer=regularizer)
    assert len(checked(problem.replace(kernels=scale * problem.kernels.dense())).history) <= 20


@pytest.mark.thorough
@pytest.mark.parametrize(("scale", "C"), [(1e100, 1.0), (1.0, 1e100), (1e12, 1e12), (1e-60, 1e60)])
def test_what_no_weights_can_separate_at_such_scales_ends_with_a_point_no_worse_than_nothing(scale, C):
    """X'beta of order 1e-100 from beta of order 1: no double has it, so that rounding is responsible."""
    x = np.random.default_rng(3).normal(size=(15, 1))
    y = np.where(np.arange(15) % 3, 1.0, -1.0)
    for regularizer in (Lp(np.inf), Lp(4 / 3), Tikhonov(1, 1.0)):
        solution = mklref.solve(mklref.Problem([scale * (x @ x.T)], y, C=C, loss="logistic", regularizer=regularizer))
        assert len(solution.history) < 100
        assert solution.certificate.upper <= C * 15 * np.log(2.0) * (1 + 1e-12)
        assert solution.status in (Status.OPTIMAL, Status.STALLED)


@pytest.mark.parametrize("regularizer", [ConcaveBlock(SmoothedRoot(0.5)), Power(1.001)], ids=str)
def test_one_class_problems_with_an_optimum_of_minus_infinity_are_refused(regularizer):
    """R* is infinite beyond g = 1 (or overflows): the smallest largest g, that of Lp(1), tells."""
    problem = make_problem(loss="one_class", seed=4, C=0.2)
    least = -2.0 * mklref.solve(problem).objective
    inside = problem.replace(kernels=0.98 / least * problem.kernels.dense(), regularizer=regularizer)
    assert mklref.solve(inside).certificate.lower > -np.inf
    with pytest.raises(InvalidParameter, match=r"the optimum is -inf.* some norm .* is 4 at least.*Raise C = 0\.2"):
        mklref.solve(problem.replace(kernels=4.0**2 / least * problem.kernels.dense(), regularizer=regularizer))


def test_one_class_problems_at_the_end_of_the_domain_are_refused_and_next_to_it_solved():
    """A constant kernel has g = 1 whatever beta is: on one side of rounding R* is finite, on the other infinite."""
    problem = make_problem(loss="one_class", seed=4, C=0.2, regularizer=ConcaveBlock(SmoothedRoot(0.5)))
    constant = problem.replace(kernels=np.ones((1, problem.n_samples, problem.n_samples)))
    for side in (1.0, 1.0 - 1e-15, 1.0 + 1e-15):
        with pytest.raises(InvalidParameter, match=r"cannot be told from it: .* some norm .* is 1 at least"):
            mklref.solve(constant.replace(kernels=side * constant.kernels.dense()))
    assert mklref.solve(constant.replace(kernels=(1.0 - 1e-6) * constant.kernels.dense())).certificate.lower > -np.inf


@pytest.mark.sampled(2)
@pytest.mark.parametrize("C", [0.07, 100.0])
@pytest.mark.parametrize("regularizer", [Lp(1), Lp(2), Power(4 / 3), Tikhonov(2, 6.0), BlockNorm(np.inf)], ids=str)
def test_one_class_problems_with_an_optimum_of_zero_take_no_steps_at_rounding(regularizer, C):
    """Dual points with K beta = 0: f = 0 is optimal, and no rounding of beta'K beta is in its way."""
    whole = np.random.default_rng(29).normal(size=(2, 100, 3))
    for X in (whole, whole[:1]):
        K = X @ X.transpose(0, 2, 1)
        solution = checked(mklref.Problem(K, np.ones(100), C=C, loss="one_class", regularizer=regularizer))
        assert solution.objective == 0.0
        assert solution.history.counters["inner_steps"] < 1000


def test_one_class_kernels_whose_scales_are_decades_apart_and_whose_optimum_is_zero():
    """Rounding of the larger one hides that f = 0 is better than what is found, and is none of f = 0."""
    X = np.random.default_rng(29).normal(size=(2, 100, 3)) * np.array([1e6, 0.1])[:, None, None]
    for rank, regularizer, most in ((3, Tikhonov(2, 1e-4), np.inf), (1, Lp(1), 1000)):
        K = X[:, :, :rank] @ X[:, :, :rank].transpose(0, 2, 1)
        solution = mklref.solve(mklref.Problem(K, np.ones(100), C=4.0, loss="one_class", regularizer=regularizer))
        assert solution.objective == 0.0
        assert solution.certificate.relative_gap < 1e-5
        assert solution.history.counters["inner_steps"] < most


def test_all_kernels_zero():
    """f = b: the minority is misclassified at cost 2 each."""
    problem = make_problem(seed=17).replace(kernels=np.zeros((3, 25, 25)))
    for regularizer in (Lp(1), Lp(2), Lp(np.inf), Power(1), ElasticNet(0.5), BlockNorm(3)):
        solution = checked(problem.replace(regularizer=regularizer))
        minority = min(np.sum(problem.y > 0), np.sum(problem.y < 0))
        assert solution.objective == pytest.approx(2.0 * minority, rel=1e-6)


@pytest.mark.parametrize("p", [1, 4 / 3, 2, np.inf])
def test_one_sample_of_a_class(p):
    problem = make_problem(seed=18)
    y = np.where(np.arange(25) == 7, 1.0, -1.0)
    for C in (0.1, 1.0, 100.0):
        checked(problem.replace(y=y, C=C, regularizer=Lp(p)))


@pytest.mark.parametrize("p", [1, 4 / 3, 2])
def test_kernels_of_very_different_scales(p):
    problem = make_problem(seed=19, M=6)
    scaled = problem.kernels.dense() * 10.0 ** np.array([-8, -3, 0, 1, 4, 8])[:, None, None]
    for C, tol in ((1e-3, 1e-6), (1.0, 2e-6)):  # at C = 1 the allowance for rounding alone is 0.7e-6 to 1e-6
        checked(problem.replace(kernels=scaled, C=C, regularizer=Lp(p)), tol=tol)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("lam", [1e-8, 1e-10, 1e-14])
@pytest.mark.parametrize("loss", ["hinge", "logistic", "squared", "epsilon_insensitive"])
def test_an_elastic_net_that_is_all_but_sparse_takes_as_few_machines_as_others(loss, lam):
    """R* as steep as 1/lam is reached by relatives that are less so."""
    solution = checked(make_problem(loss=loss, seed=3, regularizer=ElasticNet(lam, "ivanov")))
    assert len(solution.history) <= 40


@pytest.mark.thorough
@pytest.mark.parametrize("sharp", [True, False])
def test_a_function_whose_lower_bound_rounding_hides_is_returned_with_one_that_it_does_not_hide(sharp, monkeypatch):
    """beta'K_1 beta = 0 is below the rounding of K_1, so that its bound is below 0, the one of f = 0."""
    if not sharp:  # as if there were too many entries
        monkeypatch.setattr("mklref.certificate.numerical._sharper", lambda *_: None)
    shares, gaps = [], []
    for seed in range(7):
        rng = np.random.default_rng(seed)
        A, B = rng.normal(size=(12, 1)), rng.normal(size=(12, 12))
        kernels, y = [1e9 * (A @ A.T), 1e-9 * (B @ B.T)], rng.normal(size=12)
        problem = mklref.Problem(kernels, y, C=1e4, loss="epsilon_insensitive", regularizer=Tikhonov(1, 1.0))
        solution = mklref.solve(problem)
        shares.append(solution.objective / mklref.certify(problem, np.zeros(12), weights=np.ones(2)).upper)
        gaps.append(solution.certificate.relative_gap)
    found = np.array(shares) < 0.999  # 0.89 to 0.998 of f = 0; which ones is up to the BLAS: 6 or 7, or 4 or 5
    assert max(shares) <= 1.0
    assert np.count_nonzero(found) >= (4 if sharp else 2)
    assert np.max(np.array(gaps)[found]) < 0.95


@pytest.mark.parametrize("weighted", [WeightedL1, lambda scale: WeightedLp(1, scale)], ids=["omega", "scale"])
def test_scales_of_the_penalty_are_those_of_the_kernels(weighted):
    """80 kernels, whose weights and squares can be compared only in the units that their scales make."""
    rng = np.random.default_rng(2)
    X = rng.normal(size=(60, 80))
    y = np.where(X[:, 0] + X[:, 1] + 0.3 * rng.normal(size=60) > 0.0, 1.0, -1.0)
    stack = np.exp(-0.5 * (X.T[:, :, None] - X.T[:, None, :]) ** 2)
    scale = 10.0 ** rng.uniform(-2, 2, size=80)
    solution = checked(mklref.Problem(stack, y, C=10.0, regularizer=weighted(scale)))
    factors, plain = (scale**-2, Power(1)) if weighted is WeightedL1 else (scale, Lp(1))
    overlap(solution, checked(mklref.Problem(factors[:, None, None] * stack, y, C=10.0, regularizer=plain)))
    assert len(solution.history) <= 60


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    "regularizer", [WeightedL1([1e-100, 1, 1, 1e100]), WeightedLp(1, [1e-200, 1, 1, 1e200])], ids=str
)
def test_scales_that_no_unit_can_bridge_end_without_a_warning(regularizer):
    """Their squares are 400 decades apart, beyond double precision; what comes of it is certified as what it is."""
    assert np.isfinite(honest(make_problem(regularizer=regularizer)).weights).all()


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    ("decades", "seed", "family", "loss"),
    [
        (145, 1, WeightedL1, "hinge"),
        (145, 2, WeightedL1, "logistic"),
        (145, 6, WeightedL1, "squared_hinge"),
        (100, 7, partial(WeightedLp, 5), "hinge"),
    ],
)
def test_nothing_warns_on_the_way_through_absurd_scales(decades, seed, family, loss):
    """Squares and slopes overflow at weights that are tried on the way; the end is certified as what it is."""
    rng = np.random.default_rng(seed)
    regularizer = family(10.0 ** rng.uniform(-decades, decades, size=4))
    C = 10.0 ** rng.uniform(-decades / 3, decades / 3)
    problem = make_problem(seed=seed, C=C, loss=loss, regularizer=regularizer)
    assert np.isfinite(honest(problem, max_iter=30).weights).all()


@pytest.mark.sampled(6)
@pytest.mark.parametrize("size", [1e-200, 1e-100, 1e100, 1e200])
@pytest.mark.parametrize("regularizer", [Lp(2), Groups(((0, 1), (2, 3)), 0.5, 0.5), Mahalanobis(np.eye(4))], ids=str)
@pytest.mark.parametrize("loss", ["squared", "huber", "epsilon_insensitive"])
def test_targets_whose_squares_leave_double_precision_end_without_a_warning(loss, regularizer, size):
    problem, says = make_problem(loss=loss, regularizer=regularizer, n=12), r"of f = 0 .* \d\.\d+e\+200\. Divide y by"
    none = (loss, size) == ("squared", 1e200)  # no objective at any point
    with pytest.raises(InvalidTarget, match=says) if none else nullcontext():
        honest(problem.replace(y=size * problem.y))


@pytest.mark.parametrize("solve", [mklref.solve, mklref.reference.solve])
def test_products_that_leave_double_precision_are_refused_or_certified(solve):
    """C tr(K) overflows: no warning, no division by zero."""
    problem = make_problem(n=12)
    with suppress(InvalidParameter, SolverFailure):
        honest(problem.replace(kernels=1e305 * problem.kernels.dense(), C=1e200), solver=solve)


def test_costs_whose_sum_overflows_reach_any_intercept_cost():
    problem = mklref.Problem([np.eye(3)], np.ones(3), C=1e308, loss="one_class", regularizer=Lp(2))
    assert problem.C == 1e308


@pytest.mark.parametrize("regularizer", [Lp(1), Lp(2), BlockNorm(4)], ids=str)
def test_sample_weights_over_six_decades(regularizer):
    problem = make_problem(seed=20, regularizer=regularizer)
    weights = 10.0 ** np.random.default_rng(21).uniform(-3, 3, size=25)
    checked(problem.replace(sample_weight=weights))


@pytest.mark.sampled(3)
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
    """The float64 copy of a float32 stack gives the same solution, bit for bit.

    Kernels that rounding has left indefinite have a feasible dual point too, although single steps are huge.
    """
    problem = make_problem(seed=24, regularizer=Lp(4 / 3))
    checked(problem.replace(kernels=problem.kernels.dense().astype(np.float32)))
    dense = (problem.kernels.dense() + 0.01 * np.eye(25)).astype(np.float32)
    single, double = (checked(problem.replace(kernels=stack)) for stack in (dense, dense.astype(np.float64)))
    np.testing.assert_array_equal(single.dual_coef, double.dual_coef)
    np.testing.assert_array_equal(single.weights, double.weights)


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    ("loss", "scale", "C"), [("logistic", 1e-190, 1e190), ("squared", 1e30, 1e30), ("hinge", 1e60, 1e30)]
)
@pytest.mark.parametrize("regularizer", [Lp(1), Lp(2), Tikhonov(2, 1.7)], ids=str)
def test_numbers_at_the_end_of_double_precision_end_with_a_true_status(loss, scale, C, regularizer):
    problem = make_problem(loss=loss, n=6, seed=31, C=C, regularizer=regularizer)
    with np.errstate(all="ignore"):
        honest(problem.replace(kernels=scale * problem.kernels.dense()), max_iter=8)


@pytest.mark.parametrize(("scale", "C"), [(1e-250, 1e240), (1e160, 1.0), (1.0, 1e-160), (1e80, 1e80)])
def test_numbers_beyond_double_precision_are_refused(scale, C):
    problem = make_problem(loss="logistic", n=6, seed=31)
    with pytest.raises(InvalidParameter, match=r"leaves the range of double precision.*normalise the kernels"):
        mklref.solve(problem.replace(kernels=scale * problem.kernels.dense(), C=C))


@pytest.mark.parametrize("regularizer", [Power(1.002), HalfPower(1.002)], ids=str)
def test_steep_duals_are_reached(regularizer):
    """R* of degree 501 or more, of norms above 1: from equal weights the steps got nowhere."""
    problem = make_problem(seed=17, C=0.2, loss="one_class", regularizer=regularizer)
    assert checked(problem.replace(kernels=3.0 * problem.kernels.dense())).certificate.upper < -1e26
