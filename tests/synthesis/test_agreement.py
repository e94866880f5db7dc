"""Every norm and loss on kernels of every kind: two cvxpy forms and the solvers overlap in certified intervals.

The algorithm as printed against ours, on whole problems; the single formulas have their tests in tests/errata.

The duality gap: weak duality at random pairs, equality at optima, and faults that it sees.
"""

from __future__ import annotations

import numpy as np
import pytest
from synthesis.cases import KINDS, LOSSES, PQR, make_problem

from mklref.exceptions import InvalidParameter, SolverFailure
from mklref.solution import Status
from mklref.synthesis import certificate, certify, forward_backward, reference, solve
from mklref.synthesis.certificate import residual
from mklref.synthesis.dictionary import Dictionary
from mklref.synthesis.forward_backward import operator_norm
from mklref.synthesis.problem import correlations, scores


@pytest.mark.sampled(8)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("pqr", PQR)
def test_certified_intervals_overlap(pqr, loss, kind):
    problem = make_problem(pqr, loss=loss, kind=kind, C=1.3, constant=sum(pqr) % 2 == 0)
    solutions = [
        solve(problem, tol=1e-8),
        reference.solve(problem, "primal", solver="CLARABEL"),
        reference.solve(problem, "dual", solver="CLARABEL"),
    ]
    assert [solution.status for solution in solutions] == 3 * [Status.OPTIMAL]
    certificates = [solution.certificate for solution in solutions]
    lower, upper = max(c.lower for c in certificates), min(c.upper for c in certificates)
    assert lower <= upper + 1e-10 * abs(upper)
    assert all(c.relative_gap <= 1e-6 for c in certificates)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("accelerated", [False, True])
@pytest.mark.parametrize("pqr", PQR)
def test_the_algorithm_of_the_paper_agrees(pqr, accelerated):
    problem = make_problem(pqr, kind="indefinite", n=10, lam=5.0)
    slow = forward_backward(problem, tol=1e-5, accelerated=accelerated)
    fast = solve(problem, tol=1e-8)
    assert slow.status is Status.OPTIMAL
    assert slow.certificate.lower <= fast.certificate.upper * (1 + 1e-12)
    assert fast.certificate.lower <= slow.certificate.upper * (1 + 1e-12)


@pytest.mark.parametrize("solver", ["ECOS", "SCS"])
def test_other_conic_solvers(solver):
    problem = make_problem((2, 1, 1), n=8)
    found = reference.solve(problem, solver=solver, tol=1e-4)
    assert found.solver == f"primal/{solver}"
    assert found.status is Status.OPTIMAL
    assert found.certificate.lower <= solve(problem).certificate.upper


def test_names_of_forms_and_solvers():
    with pytest.raises(InvalidParameter, match="form = 'cone' is unknown; known names: primal, dual"):
        reference.solve(make_problem(), "cone")
    with pytest.raises(InvalidParameter, match="solver = 'X' is unknown; known names: CLARABEL"):
        reference.solve(make_problem(), solver="X")
    with pytest.raises(SolverFailure, match="no solver solved the primal form"):
        reference.solve(make_problem(), solver="CLARABEL", max_iter=1)
    with pytest.raises(InvalidParameter, match="CLARABEL does not take the options steps = 3"):
        reference.solve(make_problem(), steps=3)


def test_float32_and_integers_are_accepted(rng):
    K = rng.integers(-3, 4, size=(2, 9, 9))
    y = np.where(rng.uniform(size=9) < 0.5, 1, -1)
    problems = [make_problem().replace(kernels=K.astype(kind), y=y) for kind in (np.int64, np.float32, np.float64)]
    values = [solve(problem).objective for problem in problems]
    assert values[0] == values[1] == values[2]


def test_printed_step_is_too_long_for_the_true_gradient():
    """K9: gamma < 2/||K||^2 is not admissible for the gradient with its factor 2; below 1/||K||^2 it converges."""
    problem = make_problem((2, 2, 1), n=10, lam=0.05, loss="squared")
    size = np.linalg.norm(np.hstack(problem.kernels), 2) ** 2
    A = np.zeros(problem.shape)
    for _ in range(60):
        Z = correlations(problem.kernels, problem.C * (problem.y - scores(problem.kernels, A)))
        A = problem.norm.prox(A + 1.9 / size * Z, 1.9 / size * problem.lam)
    assert certify(problem, A).upper > 1.05 * solve(problem).objective
    with pytest.raises(InvalidParameter, match=r"step = .* must lie in"):
        forward_backward(problem, step=1.9 / size)
    assert forward_backward(problem, step=0.95 / size, tol=1e-5).status is Status.OPTIMAL


def test_operator_norm(rng):
    K = rng.normal(size=(3, 7, 5))
    exact = np.linalg.norm(np.hstack(K), 2)
    found = operator_norm(Dictionary(K))
    assert operator_norm(Dictionary(K / 1024.0)) == found / 1024.0
    assert 0.97 * exact <= found <= exact * (1 + 1e-12)
    assert operator_norm(Dictionary(np.zeros((1, 2, 2)))) == 0.0
    pause = 0.9 * np.eye(200) + 0.1 / 200  # of the power method: the norm is 1, all other singular values are 0.9
    assert operator_norm(Dictionary(pause[None])) == pytest.approx(1.0)


@pytest.mark.parametrize("accelerated", [False, True])
def test_steps_descend(accelerated):
    """Forward-backward with an admissible step never increases the objective (Algorithm 1, with its roles as in K6).

    Momentum is that of Nesterov, t' = (1 + sqrt(1 + 4 t^2))/2, and starts anew where it points uphill.
    """
    problem = make_problem((1, 2, 2), n=10)
    values, momenta, momentum = [], [], 1.0
    A = point = np.zeros(problem.shape)
    gamma = (0.95 if accelerated else 1.9) / (2 * np.linalg.norm(np.hstack(problem.kernels), 2) ** 2)
    for _ in range(99):
        values.append(certify(problem, point).upper)
        gradient = problem.C * problem.loss.subgradient(scores(problem.kernels, point), problem.y)
        following = problem.norm.prox(point - gamma * correlations(problem.kernels, gradient), gamma * problem.lam)
        uphill = np.sum((point - following) * (following - A)) > 0.0
        momenta.append(1.0 if uphill else momentum)
        momentum = (1.0 + np.sqrt(1.0 + 4.0 * momenta[-1] ** 2)) / 2.0
        point = following + (following - A) * ((momenta[-1] - 1.0) / momentum if accelerated else 0.0)
        A = following
    if accelerated:
        assert 1.0 in momenta[1:]
    else:
        assert np.all(np.diff(values) <= 1e-12 * values[0])
    options = {"accelerated": True} if accelerated else {}
    run = forward_backward(problem, max_iter=99, tol=1e-14, **options)
    np.testing.assert_allclose(run.history.column("upper"), np.minimum.accumulate(values), rtol=1e-6)


def objective(problem, A):
    """P(A) by loops over K_t[j, i] = k_t(x_i, x_j)."""
    tau, n, N = problem.kernels.shape
    t = np.array([sum(A[k, i] * problem.kernels[k, j, i] for k in range(tau) for i in range(N)) for j in range(n)])
    return problem.C * problem.loss.value(t, problem.y).sum() + problem.lam * problem.norm.value(A)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("pqr", PQR)
def test_weak_duality_for_random_pairs(pqr, loss, rng):
    problem = make_problem(pqr, loss=loss, C=0.8)
    lowest = np.inf
    for scale in (0.01, 0.1, 1.0, 10.0):
        for _ in range(5):
            A, beta = scale * rng.normal(size=problem.shape), scale * rng.normal(size=problem.n_samples)
            bounds = certify(problem, A, beta)
            assert bounds.lower <= bounds.upper
            assert certify(problem, A).lower <= bounds.upper
            lowest = min(lowest, bounds.upper)
    best = solve(problem, tol=1e-9).certificate
    assert best.upper <= lowest
    for _ in range(20):
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


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("pqr", [(1, 2, 2), (2, 1, 1)])
def test_the_allowance_for_rounding_by_its_definition(pqr, loss, rng, monkeypatch):
    """In a unit in which it shows; `rounding` is what both bounds are wider by."""
    problem, u = make_problem(pqr, loss=loss, C=0.8), 1e-3
    K, y, n, C, lam = np.abs(problem.kernels), problem.y, problem.n_samples, problem.C, problem.lam
    A, beta = rng.normal(size=problem.shape), np.where(rng.uniform(size=n) < 0.5, 0.3 * y / np.abs(y), 0.0)
    A[0, :5] = 0.0
    exact, t, Z = certify(problem, A, beta), scores(problem.kernels, A), correlations(problem.kernels, beta)
    monkeypatch.setattr(certificate, "UNIT", u)
    e = u * ((A.size - 5) * np.einsum("tji,ti->j", K, np.abs(A)) + np.abs(t) + np.abs(y - t))
    losses = C * np.maximum(problem.loss.value(t - e, y), problem.loss.value(t + e, y)).sum()
    penalty = lam * problem.norm.value(A)
    upper = losses + penalty + u * ((n + 4.0) * losses + (A.size + 4.0) * penalty)
    Z = np.abs(Z) * (1.0 + u * (A.size + 4.0)) + u * np.count_nonzero(beta) * np.abs(beta) @ K
    size = problem.norm.dual_norm(Z)
    scale, penalty = (1.0, 0.5 * size**2 / lam) if pqr[1] == 2 else (lam / size, 0.0)
    terms = problem.loss.dual_terms(scale * beta, y, problem.costs)
    lower = terms.sum() - penalty - u * (n + 4.0) * (scale * np.abs(beta) @ np.abs(y) + np.abs(terms).sum())
    bounds = certify(problem, A, beta)
    assert (bounds.lower, bounds.upper) == pytest.approx((lower, upper), rel=1e-12)
    assert bounds.rounding == pytest.approx(upper - exact.upper + exact.lower - lower, rel=1e-9)


@pytest.mark.parametrize("loss", ["squared_hinge", "logistic"])
def test_what_leaves_the_domain_is_reported(loss):
    problem = make_problem(loss=loss)
    nothing, first = np.zeros(problem.shape), np.arange(problem.n_samples) == 0
    bounds = certify(problem, nothing, np.where(first, -0.25 * problem.y, 0.0))
    assert bounds.infeasibility == pytest.approx(0.25)
    assert "leaves the domain" in bounds.violations[0]
    assert np.isfinite(bounds.lower)
    assert certify(problem, nothing).violations == ()


def test_transposed_kernels_are_seen():
    """Erratum K1: a solution of the problem with K_t' is far from optimal, and certifies nothing, for K_t."""
    problem = make_problem((2, 1, 2), seed=3)
    transposed = problem.replace(kernels=problem.kernels.transpose(0, 2, 1))
    printed, ours = solve(transposed), solve(problem)
    assert ours.certificate.is_optimal(1e-6)
    assert certify(problem, printed.coef, printed.dual_coef).relative_gap > 0.1
    symmetric = make_problem((2, 1, 2), kind="indefinite", seed=3)
    assert certify(symmetric, solve(symmetric.replace(kernels=symmetric.kernels.transpose(0, 2, 1))).coef).is_optimal()


def test_ball_of_the_dual_norm_is_reached_by_scaling():
    """The residual of A = 0 has a Z outside the ball for lambda < lambda_max; the bound is that of the scaled point."""
    problem = make_problem((1, 1, 1), lam=1.0)
    beta = residual(problem, np.zeros(problem.n_samples))
    size = np.abs(correlations(problem.kernels, beta)).max()
    assert size > 1.0
    expected = problem.loss.dual_value(beta / size, problem.y, problem.costs)
    assert certify(problem, np.zeros(problem.shape)).lower == pytest.approx(expected, rel=1e-12)


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
    far = certify(problem, np.full(A.shape, 1e308))
    assert (far.lower, far.upper, far.objective, far.rounding) == (-np.inf, np.inf, np.inf, 0.0)
    tiny = certify(problem.replace(lam=1e-300), A)
    assert tiny.lower <= tiny.upper
