"""Combinations of any sign: the certificate from its definition, and against l1-MKL."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import pytest
from conic import solve
from makers import make_problem

from mklref import reference
from mklref.exceptions import InvalidParameter, InvalidType, SolverFailure
from mklref.signed import SignedProblem
from mklref.solution import Status


def make(seed: int = 1, **arguments) -> SignedProblem:
    problem = make_problem(seed=seed, n=16, M=3, loss=arguments.pop("loss", "hinge"))
    return SignedProblem(problem.kernels, problem.y, loss=problem.loss, **{"C": 2.0, **arguments})


@pytest.mark.parametrize("loss", ["hinge", "squared", "logistic"])
def test_certified_and_below_nonnegative_weights(loss):
    problem = make(loss=loss)
    solution = reference.solve(problem, "sdp", solver="CLARABEL", tol=1e-5)
    assert solution.status is Status.OPTIMAL, solution.certificate.explain()
    assert solution.value == pytest.approx(solution.objective, rel=1e-5)
    assert solution.certificate == problem.certify(
        solution.dual_coef, solution.weights, solution.intercept, solution.slack
    )
    kernel = problem.kernels.combine(solution.weights)
    assert np.trace(kernel) == pytest.approx(16.0)
    assert np.linalg.eigvalsh(kernel)[0] >= -1e-12
    restricted = reference.solve(problem.nonnegative(), "qcqp")
    assert solution.certificate.upper <= restricted.certificate.upper * (1 + 1e-6)
    assert solution.weights.min() < -1e-2  # so that the sign makes a difference here
    assert solution.certificate.upper < restricted.certificate.lower - 1e-3


def test_equals_l1_mkl_where_negative_weights_do_not_help():
    """Kernels with disjoint supports: no combination with a negative weight is positive semidefinite."""
    K = np.zeros((2, 8, 8))
    rng = np.random.default_rng(0)
    for k, block in zip(K, (slice(0, 4), slice(4, 8)), strict=True):
        L = rng.normal(size=(4, 4))
        k[block, block] = L @ L.T
    problem = SignedProblem(K, np.tile([1.0, -1.0], 4), C=1.0, trace=5.0)
    signed = reference.solve(problem, "sdp", solver="CLARABEL", tol=1e-5)
    l1 = reference.solve(problem.nonnegative(), "qcqp")
    assert signed.objective == pytest.approx(l1.objective, rel=1e-5)
    theta = signed.weights * problem.traces / problem.trace
    np.testing.assert_allclose(theta, l1.weights, atol=1e-3)


def test_lower_bound_by_definition():
    """For a given beta, lambda is at least the optimal value of  max mu'q  over feasible mu, divided by c."""
    problem = make()
    solution = reference.solve(problem, "sdp", solver="CLARABEL", tol=1e-5)
    rng = np.random.default_rng(1)
    K = problem.kernels.dense()
    for scale in (0.0, 0.05):
        beta = solution.dual_coef + scale * rng.normal(size=16)
        beta = np.clip(problem.y * (beta - beta.mean()), 0, 2) * problem.y
        q = problem.kernels.quadratic(beta)
        mu = cp.Variable(3)
        feasible = [sum(mu[m] * K[m] for m in range(3)) >> 0, problem.traces @ mu == problem.trace]
        program = cp.Problem(cp.Maximize(q @ mu), feasible)
        error = solve(program)
        largest = program.value
        level, _ = problem._multiplier(beta, solution.weights, solution.slack)
        assert level * problem.trace >= largest * (1 - 1e-6) - error
        if scale == 0.0:
            assert level * problem.trace == pytest.approx(largest, abs=error + 1e-4 * abs(largest))


@pytest.mark.parametrize("spoil", ["flipped intercept", "uniform weights", "shrunk dual", "no slack", "indefinite"])
def test_spoilt_points_are_rejected(spoil):
    problem = make()
    solution = reference.solve(problem, "sdp", solver="CLARABEL", tol=1e-5)
    beta, mu, b, Z = solution.dual_coef, solution.weights, solution.intercept, solution.slack
    uniform = problem.feasible(1.0 / problem.traces)
    spoilt = {
        "flipped intercept": (beta, mu, b - 1.0, Z),
        "uniform weights": (beta, uniform, b, Z),
        "shrunk dual": (0.9 * beta, mu, b, Z),
        "no slack": (beta, mu, b, None),
        "indefinite": (beta, 2.0 * mu - uniform, b, Z),
    }[spoil]
    bounds = problem.certify(*spoilt)
    assert bounds.relative_gap > 1e-3
    if spoil == "indefinite":
        assert "the kernel has the eigenvalue -" in bounds.explain()


def test_scs_has_the_cone_and_ecos_has_not():
    problem = make(loss="squared")
    reached = reference.solve(problem, "sdp", solver="SCS", tol=1e-2)
    assert reached.status is Status.OPTIMAL
    with pytest.raises(SolverFailure, match="ECOS"):
        reference.solve(problem, "sdp", solver="ECOS")


def test_bad_input():
    problem = make()
    with pytest.raises(InvalidParameter, match=r"trace = 0.0 must lie in \(0, inf\)"):
        make(trace=0.0)
    with pytest.raises(InvalidParameter, match=r"kernels\[1\] is zero"):
        SignedProblem([np.eye(4), np.zeros((4, 4))], [1.0, -1.0, 1.0, -1.0])
    with pytest.raises(InvalidParameter, match=r"slack has shape \(4, 4\); expected \(16, 16\)"):
        problem.certify(np.zeros(16), np.ones(3), slack=np.zeros((4, 4)))
    with pytest.raises(InvalidParameter, match=r"dual_coef\[0\] is nan"):
        problem.certify(np.full(16, np.nan), np.ones(3))
    with pytest.raises(InvalidType, match="intercept is"):
        problem.certify(np.zeros(16), np.ones(3), intercept="0")


def test_weights_without_a_trace_have_a_lower_bound_and_a_feasible_point_near():
    problem = make()
    assert problem.certify(np.zeros(16), np.zeros(3)).lower == pytest.approx(0.0)
    assert problem.traces @ problem.feasible(np.zeros(3)) == pytest.approx(problem.trace)
    assert reference.formulations(problem) == ("sdp",)
