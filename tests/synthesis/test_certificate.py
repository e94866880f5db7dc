"""The duality gap: weak duality at random pairs, equality at optima, and faults that it sees."""

from __future__ import annotations

import numpy as np
import pytest
from synthesis.cases import KINDS, LOSSES, PQR, make_problem

from mklref.exceptions import InvalidParameter, InvalidType
from mklref.synthesis import certify, solve
from mklref.synthesis.certificate import residual
from mklref.synthesis.problem import correlations, scores


def objective(problem, A):
    """P(A) by loops over K_t[j, i] = k_t(x_i, x_j)."""
    tau, n, N = problem.kernels.shape
    t = np.array([sum(A[k, i] * problem.kernels[k, j, i] for k in range(tau) for i in range(N)) for j in range(n)])
    return problem.C * problem.loss.value(t, problem.y).sum() + problem.lam * problem.norm.value(A)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("pqr", PQR)
def test_weak_duality_for_random_pairs(pqr, loss, rng):
    problem = make_problem(pqr, loss=loss, C=0.8)
    lowest = np.inf
    for scale in (0.01, 0.1, 1.0, 10.0):
        for _ in range(10):
            A, beta = scale * rng.normal(size=problem.shape), scale * rng.normal(size=problem.n_samples)
            bounds = certify(problem, A, beta)
            assert bounds.lower <= bounds.upper
            assert certify(problem, A).lower <= bounds.upper
            lowest = min(lowest, bounds.upper)
    best = solve(problem, tol=1e-9).certificate
    assert best.upper <= lowest
    for _ in range(50):
        beta = rng.normal(size=problem.n_samples)
        assert certify(problem, np.zeros(problem.shape), beta).lower <= best.upper


@pytest.mark.parametrize("kind", KINDS)
def test_upper_bound_is_the_objective_of_the_model(kind, rng):
    problem = make_problem((2, 1, 1), kind=kind)
    A = rng.normal(size=problem.shape)
    assert certify(problem, A).upper == pytest.approx(objective(problem, A), rel=1e-12)


def test_default_dual_point_is_the_residual(rng):
    problem = make_problem((1, 2, 2))
    A = 0.1 * rng.normal(size=problem.shape)
    beta = residual(problem, scores(problem.kernels, A))
    assert certify(problem, A).lower == certify(problem, A, beta).lower
    assert certify(problem, A).infeasibility == 0.0


@pytest.mark.parametrize("loss", ["squared_hinge", "logistic"])
def test_what_leaves_the_domain_is_reported(loss):
    problem = make_problem(loss=loss)
    bounds = certify(problem, np.zeros(problem.shape), -0.25 * problem.y)
    assert bounds.infeasibility == pytest.approx(0.25)
    assert "leaves the domain" in bounds.violations[0]
    assert np.isfinite(bounds.lower)


def test_transposed_kernels_are_seen():
    """Erratum K1: a solution of the problem with K_t' is far from optimal, and certifies nothing, for K_t."""
    problem = make_problem((2, 1, 2), seed=3)
    transposed = problem.replace(kernels=problem.kernels.transpose(0, 2, 1))
    printed, ours = solve(transposed), solve(problem)
    assert ours.certificate.is_optimal(1e-6)
    assert certify(problem, printed.coef, printed.dual_coef).relative_gap > 0.1
    symmetric = make_problem((2, 1, 2), kind="indefinite", seed=3)
    assert certify(symmetric, solve(symmetric.replace(kernels=symmetric.kernels.transpose(0, 2, 1))).coef).is_optimal()


@pytest.mark.parametrize("fault", ["shrunk", "one column lost", "other lambda", "sign"])
@pytest.mark.parametrize("pqr", PQR)
def test_faults_are_seen(pqr, fault):
    problem = make_problem(pqr)
    solution = solve(problem, tol=1e-9)
    A = solution.coef.copy()
    if fault == "shrunk":
        A *= 0.99
    elif fault == "one column lost":
        A.flat[np.abs(A).argmax()] = 0.0
    elif fault == "other lambda":
        A = solve(problem.replace(lam=1.1 * problem.lam), tol=1e-9).coef
    else:
        A = -A
    assert certify(problem, A, solution.dual_coef).relative_gap > 1e3 * max(solution.certificate.relative_gap, 1e-10)


def test_ball_of_the_dual_norm_is_reached_by_scaling():
    """The residual of A = 0 has a Z outside the ball for lambda < lambda_max; the bound is that of the scaled point."""
    problem = make_problem((1, 1, 1), lam=1.0)
    beta = residual(problem, np.zeros(problem.n_samples))
    size = np.abs(correlations(problem.kernels, beta)).max()
    assert size > 1.0
    expected = problem.loss.dual_value(beta / size, problem.y, problem.costs)
    assert certify(problem, np.zeros(problem.shape)).lower == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(
    ("coef", "dual", "error", "message"),
    [
        (np.zeros((14, 3)), None, InvalidParameter, r"coef has shape \(14, 3\); expected \(3, 14\)"),
        (np.full((3, 14), np.nan), None, InvalidParameter, r"coef\[0, 0\] is nan"),
        (np.zeros((3, 14)), np.zeros(3), InvalidParameter, r"dual_coef has shape \(3,\); expected \(14,\)"),
        (np.zeros((3, 14), dtype=complex), None, InvalidType, "coef is complex"),
    ],
)
def test_bad_points(coef, dual, error, message):
    with pytest.raises(error, match=message):
        certify(make_problem(), coef, dual)


@pytest.mark.parametrize("pqr", PQR)
def test_extreme_units(pqr):
    """Bounds at the edges of the range are those of the same problem in other units; beyond them, they are infinite."""
    problem = make_problem(pqr, loss="squared")
    A = solve(problem, tol=1e-2).coef
    known = certify(problem, A)
    for s, c in ((2.0**120, 2.0**120), (2.0**-120, 2.0**-120), (2.0**120, 2.0**-120)):
        lam = c * s ** pqr[1] * problem.lam
        bounds = certify(problem.replace(kernels=s * problem.kernels, C=c * problem.C, lam=lam), A / s)
        assert (bounds.lower / c, bounds.upper / c) == pytest.approx((known.lower, known.upper), rel=1e-12)
    assert certify(problem, np.full(A.shape, 1e200)).upper == np.inf
    assert certify(problem, np.full(A.shape, 1e308)).lower == -np.inf
    tiny = certify(problem.replace(lam=1e-300), A)
    assert tiny.lower <= tiny.upper
