"""Witnesses of indefinite kernels, points that are refused, and what a certificate costs."""

from __future__ import annotations

import numpy as np
import pytest
from certificate.points import M, N, small

from mklref.certificate import certify, repair
from mklref.exceptions import InvalidKernel, InvalidParameter, InvalidType
from mklref.kernels import ArrayStack
from mklref.problem import Problem


def nobody_checks(monkeypatch):
    """The kernels are too large to be factorised, and the search for a negative eigenvalue has no luck."""
    monkeypatch.setattr("mklref.kernels.validation.FULL_CHECK_FLOPS", 0.0)
    monkeypatch.setattr("mklref.kernels.validation.smallest_ritz", lambda product, n, steps: 0.0)


@pytest.mark.parametrize("exponent", [0, 300, -300])
def test_a_negative_square_is_a_witness_of_indefiniteness(monkeypatch, exponent):
    """Beyond the budget of the full check an indefinite kernel passes; a dual point can still prove it."""
    nobody_checks(monkeypatch)
    sneaky = np.array([[1.0, 0.9, -0.9], [0.9, 1.0, 0.9], [-0.9, 0.9, 1.0]])
    values, vectors = np.linalg.eigh(sneaky)
    assert values[0] < -0.7
    problem = Problem([np.eye(3), 2.0**exponent * sneaky], [1, -1, 1], intercept=False)
    with pytest.raises(InvalidKernel, match=r"kernels\[1\] is not positive semidefinite: beta'K beta = -.*clip its"):
        certify(problem, vectors[:, 0])
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
        monkeypatch.setattr("mklref.certificate.bounds._NEGLIGIBLE", 0.0)
        exact = certify(problem, beta).lower
        monkeypatch.setattr("mklref.certificate.bounds._NEGLIGIBLE", np.inf)
        saved = certify(problem, beta).lower
        assert exact - 20 * N * M * size**2 * N <= saved <= exact + 1e-13
