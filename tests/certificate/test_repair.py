"""Repair: any vector becomes a feasible dual point, a feasible one stays as it is, and what was wrong is said.

Witnesses of indefinite kernels, points that are refused, and what a certificate costs.
"""

from __future__ import annotations

import numpy as np
import pytest
from certificate.points import M, N, small
from makers import LOSSES, make_problem

from mklref.certificate import certify, repair
from mklref.certificate.bounds import dual_squares
from mklref.certificate.feasible import repaired_weights
from mklref.exceptions import InvalidKernel, InvalidParameter, InvalidType
from mklref.kernels import ArrayStack
from mklref.problem import Problem
from mklref.regularizers import Lp

SIZE = 25
every_loss = pytest.mark.parametrize("loss", LOSSES, ids=str)


@pytest.fixture(params=["plain", "weighted"])
def problem(loss, request, rng):
    problem = make_problem(loss=loss, n=SIZE, M=2)
    return problem if request.param == "plain" else problem.replace(sample_weight=rng.uniform(0.5, 3.0, size=SIZE))


def box(problem):
    return problem.loss.box(problem.y, problem.costs)


def assert_feasible(problem, beta):
    lower, upper = box(problem)
    assert np.all(np.isfinite(beta))
    assert np.all(lower <= beta)
    assert np.all(beta <= upper)
    if problem.intercept:
        rounding = 4 * SIZE * np.finfo(float).eps * max(np.abs(beta).sum(), problem.intercept_cost)
        assert abs(beta.sum() - problem.intercept_cost) <= rounding


def feasible_point(problem, rng):
    """In the box with the right sum, by moving between the end points with the extreme sums."""
    lower, upper = (np.clip(bound, -5.0, 5.0) for bound in box(problem))
    if not problem.intercept:
        return lower + (upper - lower) * rng.uniform(size=SIZE)
    low, high = lower.sum(), upper.sum()
    share = (problem.intercept_cost - low) / (high - low)
    inner = rng.uniform(0.2, 0.8)
    middle = lower + share * (upper - lower)
    other = np.clip(middle + rng.normal(size=SIZE), lower, upper)
    other -= (other.sum() - problem.intercept_cost) * np.eye(SIZE)[np.argmin(np.abs(other - middle))]
    blend = inner
    while np.any(lower > (point := (1 - blend) * middle + blend * other)) or np.any(point > upper):
        blend /= 2
    return point


def guesses(problem, rng):
    """Random vectors of every scale, at corners of the box, of one sign, with one huge entry, and zero."""
    lower, upper = (np.clip(bound, -5.0, 5.0) for bound in box(problem))
    for scale in (1e-9, 1e-3, 1.0, 1e4, 1e12):
        yield scale * rng.normal(size=SIZE)
        yield scale * np.abs(rng.normal(size=SIZE))
        yield -scale * np.abs(rng.normal(size=SIZE))
    yield lower
    yield upper
    yield np.where(rng.uniform(size=SIZE) < 0.5, lower, upper)
    yield np.zeros(SIZE)
    yield np.eye(SIZE)[3] * 1e200
    yield -np.eye(SIZE)[4]


@every_loss
def test_result_is_feasible_for_every_vector_and_stays_as_it_is(problem, rng):
    for beta in guesses(problem, rng):
        before = beta.copy()
        once = repair(problem, beta)[0]
        assert_feasible(problem, once)
        np.testing.assert_array_equal(beta, before)
        twice, violations = repair(problem, once)
        np.testing.assert_allclose(twice, once, rtol=1e-13, atol=1e-14 * np.abs(once).max())
        assert violations == []


@every_loss
def test_a_feasible_point_stays_as_it_is_and_a_small_violation_moves_it_a_little(problem, rng):
    """Not farther than twice what any feasible point is away, in the 1-norm and up to a factor of the dimension."""
    for size in (0.0, 0.0, 0.0, 1e-10, 1e-6, 1e-3):
        beta = feasible_point(problem, rng)
        assert_feasible(problem, beta)
        spoiled = beta + size * rng.normal(size=SIZE)
        repaired, violations = repair(problem, spoiled)
        moved = np.abs(repaired - spoiled).sum()
        assert moved <= (2.0 * np.abs(spoiled - beta).sum() if size else 1e-14 * np.abs(beta).max())
        assert size or violations == []


def test_bound_variables_are_left_alone_if_the_others_have_room():
    """Moving a support vector off its bound would cost complementary slackness."""
    problem = make_problem(n=SIZE, C=1.0)
    y = problem.y
    beta = np.where(np.arange(SIZE) % 3 == 0, y, np.where(np.arange(SIZE) % 3 == 1, 0.0, 0.5 * y))
    repaired = repair(problem, beta + 0.1 * (np.arange(SIZE) == 5))[0]
    at_bound = np.arange(SIZE) % 3 < 2
    np.testing.assert_array_equal(repaired[at_bound], beta[at_bound])
    assert_feasible(problem, repaired)


def test_violations_say_where_and_by_how_much():
    problem = make_problem(n=SIZE, C=2.0)
    y = problem.y
    beta = np.zeros(SIZE)
    beta[3] = 2.5 * y[3]
    _, violations = repair(problem, beta)
    low, high = sorted((0.0, 2.0 * y[3]))
    expected = f"dual_coef[3] = {2.5 * y[3]:g} lies outside [{low:g}, {high:g}]"
    assert violations == [(expected, 0.5), (f"dual_coef sums to {2.5 * y[3]:g} instead of 0", 2.5)]
    slight = repair(problem, 0.8 * (1.0 + 1e-9) * beta)[1]
    assert [size for _, size in slight] == pytest.approx([2e-9, 2.0], rel=1e-6, abs=0.0)
    theta, violations = repaired_weights(make_problem(regularizer=Lp(1)), [-0.25, 3.0, 0.0, 0.0])
    np.testing.assert_array_equal(theta, [0.0, 3.0, 0.0, 0.0])
    assert [text.partition(" of ")[0] for text, _ in violations] == [
        "weights[0] = -0.25 is negative",
        "weights lie outside the domain",
    ]
    assert [size for _, size in violations] == pytest.approx([0.25, 2.0 / 3.0], rel=1e-8)


@pytest.mark.parametrize("n", [3, 7, 10, 24, 49])
@pytest.mark.parametrize("start", [0.0, 1.0, 0.3])
def test_nu_of_one_leaves_one_point(n, start):
    """Every beta_i is at its bound 1/n; rounding decides whether they sum to 1."""
    problem = make_problem(loss="one_class", n=n, C=1.0 / n)
    repaired, _ = repair(problem, start * problem.costs)
    np.testing.assert_allclose(repaired, 1.0 / n, rtol=1e-14)
    assert np.all(repaired <= problem.costs)


def test_rounding_never_leaves_the_box(rng):
    """Where the whole room is spent, b - (b - lower) may miss the bound."""
    for _ in range(50):
        weight = rng.uniform(0.1, 1.0, size=SIZE)
        problem = make_problem(loss="one_class", n=SIZE, C=1.0 / weight.sum(), sample_weight=weight)
        repaired, _ = repair(problem, problem.costs * rng.uniform(size=SIZE))
        assert np.all(repaired >= 0.0)
        assert np.all(repaired <= problem.costs)


SNEAKY = np.array([[1.0, 0.9, -0.9], [0.9, 1.0, 0.9], [-0.9, 0.9, 1.0]])
"""Indefinite, and no 2x2 minor tells."""


def nobody_checks(monkeypatch):
    """The kernels are too large to be factorised, and the search for a negative eigenvalue has no luck."""
    monkeypatch.setattr("mklref.kernels.validation.FULL_CHECK_FLOPS", 0.0)
    monkeypatch.setattr("mklref.kernels.validation.smallest_ritz", lambda product, n, steps: 0.0)


@pytest.mark.parametrize(("exponent", "size"), [(0, 1.0), (300, 1.0), (-300, 1.0), (-300, 2.0**550)])
def test_a_negative_square_is_a_witness_of_indefiniteness(monkeypatch, exponent, size):
    """Beyond the budget of the full check an indefinite kernel passes; a dual point can still prove it.

    Of the last one the squares alone are beyond double precision.
    """
    nobody_checks(monkeypatch)
    values, vectors = np.linalg.eigh(SNEAKY)
    assert values[0] < -0.7
    problem = Problem([2.0 ** min(exponent, 0) * np.eye(3), 2.0**exponent * SNEAKY], [1, -1, 1], intercept=False)
    with pytest.raises(InvalidKernel, match=r"kernels\[1\] is not positive semidefinite: beta'K beta = -.*clip its"):
        certify(problem, size * vectors[:, 0])
    with pytest.raises(InvalidKernel, match=r"kernels\[1\] is not"):  # and not only the feasible point next to it
        dual_squares(problem, size * vectors[:, 0], problem.kernels.apply(size * vectors[:, 0]))
    certify(problem, vectors[:, 2])


@pytest.mark.parametrize("smallest", [-1e-3, -1e-9, -1e-12])
def test_a_small_witness_is_a_witness(monkeypatch, smallest, rng):
    nobody_checks(monkeypatch)
    basis = np.linalg.qr(rng.normal(size=(4, 4)))[0]
    K = (basis * [smallest, 1.0, 2.0, 3.0]) @ basis.T
    problem = Problem([0.5 * (K + K.T)], [1, -1, 1, -1], intercept=False)
    with pytest.raises(InvalidKernel, match="not positive semidefinite"):
        certify(problem, basis[:, 0])


def test_the_witness_is_not_hidden_by_rounding_in_a_larger_kernel(monkeypatch):
    nobody_checks(monkeypatch)
    v = np.linalg.eigh(SNEAKY)[1][:, 0]
    large = 1e6 * (np.eye(3) - np.outer(v, v)) - 1e-8 * np.outer(v, v)
    large, small_one = 0.5 * (large + large.T), 1e-9 * SNEAKY
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
        ({"intercept": np.nan}, InvalidParameter, r"intercept = nan must lie in \(-inf, inf\)"),
        ({"intercept": np.inf}, InvalidParameter, r"intercept = inf must lie in \(-inf, inf\)"),
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


def test_one_read_of_the_stack_unless_the_point_is_moved(rng, calls_of):
    problem, reads = small(), calls_of(ArrayStack, "images")
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
        monkeypatch.setattr("mklref.certificate.bounds._NEGLIGIBLE", 0.0)
        exact = certify(problem, beta).lower
        monkeypatch.setattr("mklref.certificate.bounds._NEGLIGIBLE", np.inf)
        saved = certify(problem, beta).lower
        assert exact - 20 * N * M * size**2 * N <= saved <= exact + 1e-13
