"""(14) in float64 against exact rational arithmetic, and what the methods do where rounding takes over.

The bounds (15) and (16): above the terms of (14), tight where the theory says so.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from evidence.models import make_model, some_weights
from scipy.optimize import minimize

from mklref.evidence import (
    METHODS,
    EvidenceProblem,
    EvidenceStatus,
    MarginalLikelihood,
    log_determinant_bound,
    log_determinant_conjugate,
    quadratic_bound,
    simulate,
    solve,
)
from mklref.evidence.iterations import balanced, fixed_point
from mklref.evidence.newton import newton_step
from mklref.exceptions import InvalidParameter, InvalidTarget
from validation.attack.evidence import exact_objective


def low_rank_model(seed: int, dtype: type = np.float32, n: int | None = None, least: float = -8) -> EvidenceProblem:
    """Kernels of rank up to 3 and of any scale, stored in this precision, with little noise beside them."""
    rng = np.random.default_rng(seed)
    order = int(rng.integers(3, 30)) if n is None else n
    kernels = []
    for _ in range(rng.integers(1, 4)):
        root = rng.normal(size=(order, rng.integers(1, 4))) * 10 ** rng.uniform(-2, 3)
        gram = (root @ root.T).astype(dtype)
        kernels.append((gram + gram.T) / 2)
    y = rng.normal(size=order) * 10 ** rng.uniform(-1, 1)
    return EvidenceProblem(kernels, y, 10 ** rng.uniform(least, 0), learn_noise=bool(rng.integers(2)))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_bound_of_the_rounding_error_holds_and_is_not_idle(dtype):
    known, visible = 0, 0
    for seed in range(60):
        problem = low_rank_model(seed, dtype, n=6, least=-14)
        try:
            point = MarginalLikelihood(problem, problem.default_weights())
        except ValueError:  # singular in float64, and said so
            continue
        error = abs(point.value - exact_objective(problem, point.weights, point.noise_variance))
        assert error <= point.rounding, seed
        known += np.isfinite(point.rounding)
        visible += error > 1e-7 * (1.0 + abs(point.value))
    assert known > 40
    assert visible > 0


def test_the_derivative_in_the_noise_is_exact_where_differences_in_float64_are_not():
    """Kernels that are singular up to the noise: differences of (14) in float64 are off by 1e-3 and more."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(8, 2))
    kernels = [np.exp(-((X[:, None, j] - X[None, :, j]) ** 2) / 2) for j in range(2)] + [X @ X.T]
    problem = EvidenceProblem(kernels, rng.normal(size=8), 1e-8, learn_noise=True)
    weights = some_weights(problem)
    above, below = (exact_objective(problem, weights, 1e-8 * (1.0 + t)) for t in (1e-4, -1e-4))
    slope = MarginalLikelihood(problem, weights).gradient[-1]
    assert slope == pytest.approx((above - below) / 2e-12, rel=1e-6)


def test_the_bound_is_tight_on_a_well_conditioned_covariance():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 2))
    kernels = [np.exp(-((X[:, None, j] - X[None, :, j]) ** 2)) for j in range(2)]
    _, y = simulate(kernels, [1.0, 2.0], 0.1, rng)
    point = MarginalLikelihood(EvidenceProblem(kernels, y, 0.1), [1.0, 2.0])
    assert 1e-15 < point.rounding / (1.0 + abs(point.value)) < 1e-9
    # By its definition, E and the inverse being matrices.
    covariance = 0.1 * np.eye(40) + kernels[0] + 2.0 * kernels[1]
    inverse, root, unit = np.linalg.inv(covariance), np.linalg.cholesky(covariance), (40 + 2 + 3) * 2.0**-53
    d, half, alpha = np.sqrt(np.diag(covariance)), np.linalg.solve(root, y), np.abs(inverse @ y)
    moved = 0.5 * (np.abs(inverse) * np.outer(d, d)).sum() + 0.5 * alpha @ np.outer(d, d) @ alpha
    summed = np.linalg.norm(half) * (d @ alpha) + np.abs(np.log(np.diag(root))).sum() + 0.5 * half @ half
    assert point.rounding == pytest.approx(unit * (moved + summed), rel=1e-9, abs=0.0)


def test_the_estimate_of_rounding_is_what_its_formula_says():
    problem = make_model(learn_noise=True)
    point = MarginalLikelihood(problem, np.array([0.3, 0.0, 2.0]))
    covariance = problem.covariance(point.weights, 0.09)
    X, d, slopes = np.linalg.inv(covariance), np.sqrt(covariance.diagonal()), point.gradient / point.traces
    moved = []
    for K, z in zip([*problem.kernels.dense(), np.eye(20)], point.traces, strict=True):
        terms = [np.sum(K * (X @ np.diag(d**2) @ X)), np.linalg.norm(X * K)]
        terms += [2.0 * np.linalg.norm(d * (X @ K @ point.alpha)) * np.linalg.norm(d * point.alpha)]
        terms += [2.0 * np.linalg.norm(np.outer(point.alpha, point.alpha) * K)]
        moved.append(4.0 * 2.0**-53 * np.linalg.norm(terms) / z / 2.0)
    assert moved[1] < slopes[1]  # so that rounding leaves a residual of 0 to the weight of 0
    assert point.residual_rounding == pytest.approx(max(moved[0], *moved[2:]), rel=1e-2, abs=0.0)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("method", METHODS)
def test_no_method_increases_the_objective_on_float32_kernels_of_low_rank(method):
    """Their eigenvalues of -1e-7 are as large as the noise, and MacKay's and Wipf's updates need semidefinite ones."""
    seeds, least = (range(4), 3) if method == "reweighted" else (range(15, 31), 6)
    stationary = 0
    for seed in seeds:
        problem = low_rank_model(seed, least=-6)
        solution = solve(problem, method, max_iter=25)
        points = [MarginalLikelihood(problem, record.weights, record.noise_variance) for record in solution.history]
        objectives = np.array([(point.whitened() or point).value for point in points])
        assert np.all(np.diff(objectives) <= 1e-9 * (1.0 + np.abs(objectives[:-1]))), seed  # as `no_higher` allows
        stationary += solution.status is EvidenceStatus.STATIONARY
    assert stationary >= least


@pytest.mark.parametrize("n", [4, 40])
def test_what_rounding_to_float32_adds_to_kernels_explains_no_targets(n):
    """Weights of 1e6 made eigenvalues of 1e-7 a kernel that explains all that the given ones do not."""
    rng = np.random.default_rng(n)
    X = rng.normal(size=(n, 2))
    kernels, y = [np.outer(x, x) for x in X.T], rng.normal(size=n)
    double, single = (solve(EvidenceProblem(np.array(kernels, dtype=t), y, 1e-4)) for t in (np.float64, np.float32))
    np.testing.assert_allclose(single.weights, double.weights, rtol=1e-3)
    assert single.objective == pytest.approx(double.objective, rel=1e-3)
    assert single.status is EvidenceStatus.STATIONARY


def test_of_kernels_that_float32_made_indefinite_the_eigenvalues_beyond_rounding_are_left():
    root = np.random.default_rng(3).normal(size=(20, 2)) * 30.0
    single = (root @ root.T).astype(np.float32)
    whole = np.eye(20, dtype=np.float32)
    values, vectors = np.linalg.eigh(single.astype(float))
    assert values[0] < -1e-5
    changed, kept = EvidenceProblem([single, whole], np.ones(20), 0.1).kernels.matrices
    np.testing.assert_allclose(changed, (vectors[:, -2:] * values[-2:]) @ vectors[:, -2:].T, atol=1e-12 * values[-1])
    np.testing.assert_array_equal(kept, whole)
    assert changed.dtype == kept.dtype == np.float64
    assert np.linalg.eigvalsh(changed)[0] > -1e-11
    np.testing.assert_array_equal(changed, changed.T)


def test_definite_float32_kernels_are_not_copied():
    whole = np.stack([np.eye(9, dtype=np.float32) * 2.0])
    assert np.shares_memory(EvidenceProblem(whole, np.ones(9), 0.1).kernels.dense(), whole)


def test_newton_where_every_weight_goes_to_its_bound():
    """No variable is free, so that no Hessian is left."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(6, 2))
    problem = EvidenceProblem([X @ X.T, np.eye(6)], 1e-3 * rng.normal(size=6), 1.0)
    following = newton_step(MarginalLikelihood(problem, np.full(2, 1e-6)))
    np.testing.assert_array_equal(following.weights, np.zeros(2))
    assert not following.lowest_curvature[1].any()
    assert solve(problem, "newton", start=np.full(2, 1e-4)).status is EvidenceStatus.STATIONARY


@pytest.mark.parametrize("degenerate", ["generic", "low_rank", "zero_kernel"])
def test_15_is_tight_at_the_posterior_means_and_above_elsewhere(degenerate, rng):
    problem = make_model(degenerate=degenerate)
    weights = some_weights(problem)
    alpha = MarginalLikelihood(problem, weights).alpha
    quadratic = 0.5 * problem.y @ alpha
    tight = weights[:, None] * alpha
    assert quadratic_bound(problem, weights, tight) == pytest.approx(quadratic, rel=1e-12)
    for _ in range(50):
        other = tight + 0.3 * rng.normal(size=tight.shape)
        assert quadratic_bound(problem, weights, other) > quadratic * (1 + 1e-6)


def test_15_by_definition():
    """||f||^2 = f'K^{-1} f, which needs an inverse: ours does not."""
    problem = make_model(degenerate="generic")
    K = problem.kernels.dense() + 1e-3 * np.eye(20)
    problem = EvidenceProblem(K, problem.y, 0.09)
    weights, c = some_weights(problem), np.random.default_rng(1).normal(size=(3, 20))
    f = np.einsum("mij,mj->mi", K, c)
    norms = np.array([f[m] @ np.linalg.solve(K[m], f[m]) for m in range(3)])
    expected = np.sum((problem.y - f.sum(axis=0)) ** 2) / 0.18 + 0.5 * np.sum(norms / weights)
    assert quadratic_bound(problem, weights, c) == pytest.approx(expected, rel=1e-9)


def test_what_leaves_float64_is_infinite_in_both_bounds_and_no_draw_is_lost():
    """A bound was nan, and functions of large variances were."""
    problem = make_model()
    assert quadratic_bound(problem, np.ones(3), np.full((3, 20), 1e200)) == np.inf
    assert log_determinant_bound(problem, np.full(3, 1e308), np.ones(3)) == np.inf
    functions, _ = simulate(problem.kernels, np.full(3, 1e308), 0.1, np.random.default_rng(0))
    assert 1e150 < np.abs(functions).max() < 1e160


def test_15_at_a_weight_of_zero():
    problem = make_model()
    weights = np.array([1.0, 0.0, 1.0])
    c = np.ones((3, 20))
    assert quadratic_bound(problem, weights, c) == np.inf
    c[1] = 0.0
    assert np.isfinite(quadratic_bound(problem, weights, c))


@pytest.mark.parametrize("degenerate", ["generic", "low_rank"])
def test_16_is_the_tangent_of_a_concave_function(degenerate, rng):
    problem = make_model(degenerate=degenerate)
    weights = some_weights(problem)
    point = MarginalLikelihood(problem, weights)
    conjugate = log_determinant_conjugate(problem, point.traces)
    assert conjugate == pytest.approx(point.traces @ weights - point.log_determinant, rel=1e-9)
    for _ in range(10):
        other = rng.exponential(size=3) * 10 ** rng.uniform(-2, 2)
        above = log_determinant_bound(problem, other, point.traces)
        assert above >= MarginalLikelihood(problem, other).log_determinant - 1e-9


@pytest.mark.parametrize("size", [0.0, 1e-200, 1e20])
def test_the_inner_problem_has_kernels_and_noise_of_about_one(size):
    scaled, _ = balanced(EvidenceProblem([size * np.eye(3)], np.ones(3), 1e12))
    assert [scaled.kernels.dense().max(), scaled.noise_variance] == pytest.approx([float(size > 0.0), 1.0], rel=0.5)


def test_a_conjugate_that_is_not_minimised_to_the_end_is_a_lower_bound(monkeypatch, rng):
    problem, z = make_model(), 10.0 * rng.exponential(size=3)
    exact = log_determinant_conjugate(problem, z)
    for steps in range(4):
        monkeypatch.setattr("mklref.evidence.variational._MOST_STEPS", steps)
        assert log_determinant_conjugate(problem, z) < exact


def test_the_conjugate_against_a_general_minimiser():
    """Also with six kernels on two samples: along what the Hessian does not see, Newton's steps are far too long."""
    rng = np.random.default_rng(46)
    lines = EvidenceProblem([np.outer(v, v) for v in rng.normal(size=(6, 2))], np.ones(2), 0.09)
    cases = [(lines, 10.0 ** rng.uniform(-3, 1, 6))]
    cases += [(make_model(), 10.0 * rng.exponential(size=3)) for _ in range(5)]
    for problem, z in cases:
        kernels, n, M = problem.kernels.dense(), problem.n_samples, problem.n_kernels

        def line(d: np.ndarray, problem: EvidenceProblem = problem, z: np.ndarray = z) -> float:
            return float(z @ d) - MarginalLikelihood(problem, d).log_determinant

        def slopes(d: np.ndarray, kernels: np.ndarray = kernels, z: np.ndarray = z) -> np.ndarray:
            inverse = np.linalg.inv(0.09 * np.eye(len(kernels[0])) + np.tensordot(d, kernels, 1))
            return z - np.einsum("ij,mij->m", inverse, kernels)

        found = minimize(
            line, np.ones(M), jac=slopes, bounds=[(0, None)] * M, method="L-BFGS-B", options={"ftol": 0, "gtol": 1e-9}
        )
        # The minimum lies in the simplex z'd <= n, and the function above its tangent at d.
        slope = slopes(found.x)
        below = slope @ found.x - n * min(0.0, (slope / z).min())
        rounding = 1e-12 * abs(found.fun)
        assert below < 1e-6 * abs(found.fun)
        assert found.fun - below - rounding <= log_determinant_conjugate(problem, z) <= found.fun + rounding


def test_where_the_conjugate_is_minus_infinity():
    problem = make_model(degenerate="zero_kernel")
    assert log_determinant_conjugate(problem, [1.0, 1.0, 0.0]) == -np.inf
    assert log_determinant_conjugate(problem, [1.0, 1.0, -1.0]) == -np.inf
    assert log_determinant_conjugate(problem, [1.0, -1e-3, 1.0]) == -np.inf
    assert np.isfinite(log_determinant_conjugate(problem, [1.0, 0.0, 1.0]))  # kernel 1 is zero
    assert log_determinant_bound(problem, [1.0, 1.0, 1.0], [1.0, 1.0, 0.0]) == np.inf


@pytest.mark.parametrize("sizes", [(1.0, 1e-318), (1e5, 1e-310), (1e300, 1e-10)])
def test_kernels_that_vanish_beside_others_stall_the_reweighted_method_in_its_own_words(rng, sizes):
    """The roots of their slopes are no penalties, and scaled copies underflow to matrices that are not semidefinite."""
    A = rng.normal(size=(6, 6))
    problem = EvidenceProblem([size * (A @ A.T) for size in sizes], rng.normal(size=6), 0.1)
    assert solve(problem, "reweighted", max_iter=5).status is EvidenceStatus.STALLED


@pytest.mark.parametrize("name", ["squares", "traces"])
def test_a_fixed_point_takes_no_root_of_what_rounding_made_negative(name):
    point = MarginalLikelihood(make_model(), np.ones(3))
    assert fixed_point(point, 0.5) is not None
    getattr(point, name)[1] = -1e-9
    assert fixed_point(point, 0.5) is None


def test_values_beyond_double_precision_are_refused():
    problem = make_model(degenerate="low_rank")
    with pytest.raises(InvalidParameter, match="scale kernels and targets to values around 1"):
        solve(EvidenceProblem(problem.kernels, 1e140 * problem.y, 1e-140))
    with pytest.raises(InvalidTarget, match=r"y has values up to .*e\+200; their squares overflow"):
        EvidenceProblem(problem.kernels, 1e200 * problem.y, 0.1)
    with pytest.raises(InvalidParameter, match=r"or \(14\) overflows"):  # not its value, but its derivatives
        MarginalLikelihood(EvidenceProblem([np.eye(3)], np.ones(3), 1e-200), [0.0])


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("k", "h", "learn_noise"), [(2.0**500, 1.0, False), (1.0, 2.0**-250, True), (2.0**40, 2.0**-20, True)]
)
def test_reweighted_at_extreme_scales(k, h, learn_noise):
    """(k K, h y, h^2 s): the inner problems are solved in units in which they are those of (K, y, s)."""
    problem = make_model(learn_noise=learn_noise)
    base = solve(problem, "reweighted", tol=1e-8)
    scaled = EvidenceProblem(
        k * problem.kernels.dense(), h * problem.y, h * h * problem.noise_variance, learn_noise=learn_noise
    )
    solution = solve(scaled, "reweighted", tol=1e-8)
    assert solution.status is EvidenceStatus.STATIONARY
    assert solution.objective == pytest.approx(base.objective + 20 * np.log(h), abs=1e-8)
    expected = base.weights * h * (h / k)
    np.testing.assert_allclose(solution.weights, expected, rtol=1e-6, atol=1e-9 * expected.max())


@pytest.mark.parametrize("learn_noise", [False, True])
@pytest.mark.parametrize(("noise", "size"), [(1e-300, 1.0), (1e-320, 1.0), (1e-200, 1e100), (1e-12, 1e140)])
def test_reweighted_beside_next_to_no_noise(noise, size, learn_noise):
    """K = I: y'y/n is the answer, and where it starts. Elsewhere no inner problem fits float64, and it says so."""
    y = size * np.array([1.0, -2.0, 3.0])
    problem = EvidenceProblem([np.eye(3)], y, noise, learn_noise=learn_noise)
    solution = solve(problem, "reweighted")
    assert solution.status is EvidenceStatus.STATIONARY
    assert solution.weights[0] == pytest.approx(y @ y / 3, rel=1e-9)
    elsewhere = solve(problem, "reweighted", start=3.0 * solution.weights)
    assert elsewhere.status is EvidenceStatus.STALLED
    assert "'newton'" in elsewhere.status.value


def test_weights_that_float64_cannot_hold_stall():
    solution = solve(EvidenceProblem([1e-200 * np.eye(2)], [1e100, -1e100], 1.0), "reweighted")
    assert solution.status is EvidenceStatus.STALLED
    assert "normalise the kernels" in solution.status.value


def test_targets_that_only_the_rounding_of_kernels_explains_call_for_noise(rng):
    """White targets beside kernels of rank 7: the noise was said to be 1e-12, and is 1."""
    L, y = rng.normal(size=(25, 7)), rng.normal(size=25)
    solution = solve(EvidenceProblem([L @ L.T], y, 1e-12))
    assert solution.stationarity.sensitivity > 1.0
    assert str(solution).endswith("decided by the last bits of the kernels")
    for sensitivity, decided in ((0.9, False), (1.1, True)):  # a tenth of it is what a change of the last bits moves
        assert ("last bits" in str(replace(solution.stationarity, sensitivity=sensitivity))) is decided
    for status in (EvidenceStatus.STATIONARY, EvidenceStatus.STALLED):
        assert "give learn_noise=True, or a larger noise_variance" in status.value
    learned = solve(EvidenceProblem([L @ L.T], y, 1e-12, learn_noise=True))
    assert learned.status is EvidenceStatus.STATIONARY
    assert learned.stationarity.sensitivity < 1e-9
    assert "last bits" not in str(learned)
    assert 0.3 < learned.noise_variance < 3.0
    assert learned.weights.max() < 1.0


@pytest.mark.parametrize("scale", [1e-150, 1e150])
def test_newton_at_extreme_scales_takes_the_same_steps(scale):
    problem = make_model()
    base, scaled = solve(problem), solve(EvidenceProblem(scale * problem.kernels.dense(), problem.y, 0.09))
    assert scaled.status is EvidenceStatus.STATIONARY
    assert len(scaled.history) == len(base.history)
    np.testing.assert_allclose(scaled.weights * scale, base.weights, rtol=1e-6, atol=1e-9)
    assert scaled.stationarity.curvature == pytest.approx(base.stationarity.curvature, rel=1e-4)


@pytest.mark.parametrize("method", METHODS)
def test_a_limit_at_a_stationary_point_that_rounding_hides_is_stationary(method, rng):
    """Beside little noise the residuals of a run are rounding; in other coordinates they are not."""
    L = rng.integers(-9, 10, size=(8, 5)).astype(float)
    problem = EvidenceProblem([L @ L.T], 300.0 * rng.normal(size=8), 1e-2)
    found = solve(problem)
    assert found.status is EvidenceStatus.STATIONARY
    again = solve(problem, method, start=found.weights * (1.0 + 1e-10), max_iter=1)
    assert again.status is EvidenceStatus.STATIONARY
    assert again.stationarity.is_stationary()
