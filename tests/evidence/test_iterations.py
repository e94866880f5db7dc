"""Single steps of the methods: against their definitions in the paper, and never upwards."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import pytest
from conic import optimum
from evidence.models import make_model, some_weights

from mklref.evidence import EvidenceProblem, MarginalLikelihood
from mklref.evidence.iterations import Reweighted, fixed_point, newton
from mklref.evidence.newton import newton_step


def posterior_means(problem: EvidenceProblem, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """argmin of (15) over the f_m, their norms and Kbar, with inverses as in the paper."""
    K = problem.kernels.dense()
    covariance = problem.noise_variance * np.eye(problem.n_samples) + np.einsum("m,mij->ij", weights, K)
    f = weights[:, None] * (K @ np.linalg.solve(covariance, problem.y))
    norms = np.array([np.sqrt(f[m] @ np.linalg.pinv(K[m], rcond=1e-12) @ f[m]) for m in range(len(K))])
    return f, norms, covariance


@pytest.mark.parametrize(
    ("exponent", "expected"), [(1.0, lambda norms, d, z: norms**2 / (d * z)), (0.5, lambda norms, d, z: norms / z**0.5)]
)
def test_mackay_as_printed_and_wipf_and_nagarajan_as_quoted(exponent, expected):
    """d_m <- ||f_m||^2 / Tr(Kbar^{-1} d_m K_m); d_m <- ||f_m|| / sqrt(z_m), the minimiser of the bound at these f."""
    problem = make_model(degenerate="low_rank")
    weights = some_weights(problem)
    _, norms, covariance = posterior_means(problem, weights)
    z = np.array([np.trace(np.linalg.solve(covariance, K)) for K in problem.kernels.dense()])
    step = fixed_point(MarginalLikelihood(problem, weights), exponent)
    np.testing.assert_allclose(step.weights, expected(norms, weights, z), rtol=1e-8)


@pytest.mark.parametrize("polished", [False, True])
def test_reweighted_step_against_cvxpy(polished, monkeypatch):
    """argmin of 1/(2s) |y - sum f|^2 + sum sqrt(z_m) ||f_m||, then d_m = ||f_m||/sqrt(z_m): erratum T8."""
    problem = make_model(seed=1, n=15)
    point = MarginalLikelihood(problem, some_weights(problem))
    roots = []
    for K in problem.kernels.dense():
        values, vectors = np.linalg.eigh(K)
        roots.append(vectors[:, values > 1e-10] * np.sqrt(values[values > 1e-10]))
    parts = [cp.Variable(root.shape[1]) for root in roots]
    fit = cp.sum_squares(problem.y - sum(root @ v for root, v in zip(roots, parts, strict=True)))
    penalty = sum(np.sqrt(z) * cp.norm(v, 2) for z, v in zip(point.traces, parts, strict=True))
    inner = cp.Problem(cp.Minimize(fit / (2 * problem.noise_variance) + penalty))
    smallest = optimum(inner, rel=1e-7)
    expected = [np.linalg.norm(v.value) / np.sqrt(z) for z, v in zip(point.traces, parts, strict=True)]
    if polished:
        monkeypatch.setattr("mklref.evidence.iterations._MOST_INNER", 1)
    method = Reweighted(problem)
    following = method.step(point)
    assert method.inner.solver == ("native, polished" if polished else "native")
    gap = abs(method.inner.certificate.relative_gap)
    assert gap < (1e-10 if polished else 1e-6)
    np.testing.assert_allclose(following.weights, expected, rtol=1e-4 + 2.0 * np.sqrt(gap), atol=1e-5)
    assert method.inner.objective == smallest
    assert method.inner.certificate.relative_gap <= 1e-6
    assert following.value < point.value


def test_reweighted_step_of_the_noise():
    """s <- |y - f| / sqrt(tr Kbar^{-1}) minimises the bound in s at these functions; then it is not below the floor."""
    problem = make_model(learn_noise=True)
    point = MarginalLikelihood(problem, some_weights(problem), 0.4)
    method = Reweighted(problem)
    following = method.step(point)
    residual = np.linalg.norm(problem.y - method.inner.decision_function(problem.kernels))
    z = np.trace(np.linalg.inv(problem.covariance(point.weights, 0.4)))
    assert following.noise_variance == pytest.approx(residual / np.sqrt(z))
    s = following.noise_variance * np.array([1.0, 0.9, 1.1])
    assert np.argmin(residual**2 / s + z * s) == 0
    high = EvidenceProblem(problem.kernels, problem.y, 5.0, learn_noise=True, noise_floor=4.9)
    assert Reweighted(high).step(MarginalLikelihood(high, some_weights(high))).noise_variance == 4.9


def tiny_model(seed: int) -> tuple[EvidenceProblem, np.ndarray]:
    """One to three kernels of random rank and scale on two to six samples."""
    rng = np.random.default_rng(seed)
    n, M = rng.integers(2, 7), rng.integers(1, 4)
    roots = [rng.normal(size=(n, rng.integers(1, n + 1))) * 10 ** rng.uniform(-2, 2, size=(n, 1)) for _ in range(M)]
    kernels = [0.5 * (root @ root.T + (root @ root.T).T) for root in roots]
    y = rng.normal(size=n) * 10 ** rng.uniform(-1, 2)
    return EvidenceProblem(kernels, y, 10 ** rng.uniform(-3, 1), learn_noise=True), 10 ** rng.uniform(-3, 2, size=M)


def rises(step, seeds: range) -> int:
    """How often one step increases (14) by more than rounding."""
    count = 0
    for seed in seeds:
        problem, weights = tiny_model(seed)
        point = MarginalLikelihood(problem, weights)
        following = step(point)
        count += following is not None and following.value > point.value + 1e-7 * (1.0 + abs(point.value))
    return count


@pytest.mark.parametrize("exponent", [0.3, 0.5, 1.0])
def test_fixed_points_never_increase_the_objective(exponent):
    assert rises(lambda point: fixed_point(point, exponent), range(400)) == 0


def test_mackays_step_is_the_longest_that_never_increases_it():
    """The planted fault: with the exponent 1.3 some of the same steps go up."""
    assert rises(lambda point: fixed_point(point, 1.3), range(400)) > 0


def test_the_bound_is_the_same_before_and_after_mackays_step():
    """z d' + d^2 a/d' at d' = d and at d' = d a/z: the reason why (14) cannot increase."""
    point = MarginalLikelihood(make_model(), np.array([0.3, 1.0, 2.0]))
    z, a, d = point.traces, point.squares, point.weights
    after = d * a / z
    np.testing.assert_allclose(z * after + d**2 * a / after, z * d + d * a, rtol=1e-12)


def test_newton_never_increases_the_objective():
    assert rises(newton, range(400)) == 0


def test_zero_is_absorbing_for_the_fixed_points_only():
    problem = make_model()
    point = MarginalLikelihood(problem, [0.0, 0.5, 0.5])
    assert point.gradient[0] < 0.0
    for exponent in (0.5, 1.0):
        assert fixed_point(point, exponent).weights[0] == 0.0
    assert newton(point).weights[0] > 0.0
    assert Reweighted(problem).step(point).weights[0] > 0.0


class Saddle:
    """(x - 1)^2 - (y - 1)^2 + (y - 1)^4 on x, y >= 0: a saddle at (1, 1), minima at y = 1 +- sqrt(1/2)."""

    units = np.ones(2)

    def __init__(self, x: np.ndarray) -> None:
        self.x = x
        u, v = x - 1.0
        self.value = float(u**2 - v**2 + v**4)
        self.gradient = np.array([2 * u, -2 * v + 4 * v**3])

    def hessian(self, index: np.ndarray, units: np.ndarray) -> np.ndarray:
        return np.diag([2.0, -2.0 + 12 * (self.x[1] - 1.0) ** 2])[np.ix_(index, index)]


def test_newton_leaves_a_saddle():
    """With the plain Hessian the step from (1.5, 1.01) leads to the saddle; with the moduli away from it."""
    point = Saddle(np.array([1.5, 1.01]))
    for _ in range(30):
        following = newton_step(point, np.zeros(2), Saddle)
        if following is None or np.abs(following.gradient).max() < 1e-10:
            break
        assert following.value < point.value
        point = following
    np.testing.assert_allclose(following.x, [1.0, 1.0 + np.sqrt(0.5)], atol=1e-9)


def test_newton_converges_quadratically():
    problem = make_model(M=3, seed=2)
    point, residuals = MarginalLikelihood(problem, problem.default_weights()), []
    while point is not None and len(residuals) < 20:
        inside = point.weights > 0.0
        residuals.append(np.abs(point.gradient[inside] / point.traces[inside]).max())
        point = newton(point) if residuals[-1] > 1e-12 else None
    assert len(residuals) < 15
    last = [r for r in residuals if r > 1e-14][-3:]
    assert last[2] < last[1] ** 1.5 < last[0] ** 2
