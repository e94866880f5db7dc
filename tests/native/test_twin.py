"""The compiled loops against their NumPy twins, and both against the definitions.

The loops do the same arithmetic in the same order and without fused multiply-adds, so every comparison is exact.
"""

from __future__ import annotations

import os

import numpy as np
import pytest

from mklref.native import AVAILABLE, WHY, twin
from mklref.native.loops import loops

if not AVAILABLE and os.environ.get("MKLREF_REQUIRE_NATIVE", "false") in ("", "0", "false"):
    pytest.skip(WHY, allow_module_level=True)

N = 37
"""Neither a multiple of a vector register nor of a cache block."""

BOTH = pytest.mark.parametrize("implementation", [loops, twin], ids=["compiled", "twin"])


def gram_matrices(rng, n=N, M=5, dtype=np.float64, rank=None, duplicate=False):
    """M positive semidefinite matrices of different scales, the second one zero."""
    features = rng.normal(size=(M, n, rank or n)) * 10.0 ** rng.uniform(-0.5, 0.5, size=(M, 1, 1)) / np.sqrt(n)
    features[1] = 0.0
    if duplicate:
        features[:, 1::2] = features[:, 0 : n - 1 : 2]
    return [np.ascontiguousarray((f @ f.T + f @ f.T).astype(dtype)) for f in features]


# --- passes over the stack ------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("n", [N, 600])  # 600: enough work for a second thread
def test_combine_rows(dtype, threads, n, rng):
    matrices = gram_matrices(rng, n, dtype=dtype)
    weights = rng.exponential(size=5) * [1, 1, 0, 1, 1]
    index = rng.permutation(n)[: n // 2]
    results = []
    for implementation in (loops, twin):
        rows, ready = np.full((n, n), 7.0), np.zeros(n, dtype=np.uint8)
        implementation.combine_rows(implementation.Stack(matrices), weights, index, rows, ready, threads)
        results.append((rows, ready))
    (rows, ready), (twin_rows, twin_ready) = results
    np.testing.assert_array_equal(rows, twin_rows)
    np.testing.assert_array_equal(ready, twin_ready)
    np.testing.assert_array_equal(np.flatnonzero(ready), np.sort(index))
    untouched = np.setdiff1d(np.arange(n), index)
    assert np.all(rows[untouched] == 7.0)
    combined = np.tensordot(weights, np.stack(matrices).astype(np.float64), 1)
    np.testing.assert_allclose(rows[index], combined[index], rtol=1e-13, atol=1e-13 * np.abs(combined).max())


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("n", [N, 600])
def test_apply_rows(dtype, threads, n, rng):
    matrices = gram_matrices(rng, n, dtype=dtype)
    kernels = np.array([4, 0, 2])
    index = rng.permutation(n)[: n // 2]
    delta = rng.normal(size=len(index))
    start = rng.normal(size=(5, n))
    results = []
    for implementation in (loops, twin):
        images = start.copy()
        implementation.apply_rows(implementation.Stack(matrices), kernels, index, delta, images, threads)
        results.append(images)
    np.testing.assert_array_equal(*results)
    np.testing.assert_array_equal(results[0][[1, 3]], start[[1, 3]])  # kernels that were not asked for
    step = np.zeros(n)
    step[index] = delta
    expected = start[kernels] + np.stack(matrices).astype(np.float64)[kernels] @ step
    np.testing.assert_allclose(results[0][kernels], expected, rtol=1e-11, atol=1e-12 * np.abs(expected).max())


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("n", [1, 2, 3, 5, N, 301])
def test_whole_matrices_from_their_lower_triangles(dtype, threads, n, rng):
    """The upper triangles hold NaN: a sum that reads them shows."""
    matrices = [2.0 * rng.normal(size=(n, n)).astype(dtype) for _ in range(5)]
    whole = [np.tril(matrix) + np.tril(matrix, -1).T for matrix in matrices]
    if n > 1:
        for matrix in matrices:
            matrix[np.triu_indices(n, 1)] = np.nan
    weights, delta, start = (
        rng.exponential(size=5) * [1, 1, 0, 1, 1],
        rng.normal(size=n // 2 + 1),
        rng.normal(size=(5, n)),
    )
    some = rng.permutation(n)[: n // 2 + 1]  # more than half
    kernels = np.array([4, 0, 2])
    results = []
    for implementation, held in ((loops, matrices), (twin, whole)):
        rows, ready, images = np.full((n, n), 7.0), np.zeros(n, dtype=np.uint8), start.copy()
        stack = implementation.Stack(held)
        implementation.combine_rows(stack, weights, some, rows, ready, threads)
        implementation.apply_rows(stack, kernels, some, delta, images, threads)
        assert ready.all()
        results.append((rows, images))
    (rows, images), (twin_rows, twin_images) = results
    np.testing.assert_array_equal(rows, twin_rows)
    np.testing.assert_array_equal(images[[1, 3]], start[[1, 3]])  # kernels that were not asked for
    np.testing.assert_allclose(images, twin_images, rtol=1e-11, atol=1e-12 * np.abs(twin_images).max())


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("threads", [1, 2])
def test_gather(dtype, threads, rng):
    matrices = [rng.normal(size=(600, 600)).astype(dtype) for _ in range(3)]
    index = np.sort(rng.permutation(600)[:450])
    for implementation in (loops, twin):
        parts = np.zeros((3, 450, 450), dtype=dtype)
        implementation.gather(implementation.Stack(matrices), index, parts, threads)
        np.testing.assert_array_equal(parts, np.stack(matrices)[:, index][:, :, index])


def test_columns_beyond_one_block(rng):
    """Rows are accumulated in blocks of 1024 columns; the seam must not show."""
    n = 1100
    K = rng.normal(size=(n, n))
    rows, ready, images = np.zeros((n, n)), np.zeros(n, dtype=np.uint8), np.zeros((2, n))
    stack = loops.Stack([K, K])
    index = np.array([3, 1099])
    loops.combine_rows(stack, np.array([0.5, 2.0]), index, rows, ready, 1)
    np.testing.assert_array_equal(rows[index], 0.5 * K[index] + 2.0 * K[index])
    loops.combine_rows(stack, np.array([0.5, 2.0]), np.arange(n), rows, ready, 2)
    lower = np.tril(K) + np.tril(K, -1).T
    np.testing.assert_array_equal(rows, 0.5 * lower + 2.0 * lower)
    loops.apply_rows(stack, np.array([1]), index, np.array([0.5, 2.0]), images, 1)
    np.testing.assert_array_equal(images, [np.zeros(n), 0.5 * K[3] + 2.0 * K[1099]])


# --- sequential minimal optimisation --------------------------------------------------------------------------


class BoxProblem:
    """minimise 1/2 beta'(Q + shift) beta - linear'beta + absolute |beta|_1 on a box, 1'beta kept if `equality`."""

    def __init__(self, seed, equality, *, absolute=0.0, shift=0.0, infinite=False, rank=None, duplicate=False, n=N):
        rng = np.random.default_rng(seed)
        self.matrices = gram_matrices(rng, n, rank=rank, duplicate=duplicate)
        self.weights = rng.exponential(size=5) * [1, 1, 0, 1, 1]
        self.Q = np.tensordot(self.weights, np.stack(self.matrices), 1)
        self.shift = shift * rng.uniform(0.5, 2.0, size=n)
        self.lower, self.upper = -rng.uniform(0.0, 0.5, size=n), rng.uniform(0.0, 0.5, size=n)
        if n > 6:
            self.lower[:3], self.upper[3:6] = 0.0, 0.0  # one-sided, as for the hinge loss
        if infinite:
            self.lower[6::2], self.upper[7::2] = -np.inf, np.inf
        self.linear = (0.3 if rank else 3.0) * rng.normal(size=n)
        self.absolute, self.equality = absolute, equality
        start = np.clip(0.2 * rng.normal(size=n), self.lower, self.upper)
        self.start = np.where(rng.uniform(size=n) < 0.3, 0.0, start)  # some of them on the kink

    def run(self, implementation, tol=1e-9, max_steps=100_000, max_seconds=np.inf, shrink_every=500):
        """beta, gradient, and (steps, rows formed, violation)."""
        n = len(self.linear)
        beta = self.start.copy()
        gradient = self.Q @ beta + self.shift * beta - self.linear
        outcome = implementation.smo(
            implementation.Stack(self.matrices),
            self.weights,
            np.full((n, n), np.nan),  # a row that is read before it is formed spoils everything
            np.zeros(n, dtype=np.uint8),
            np.diag(self.Q) + self.shift,
            self.lower,
            self.upper,
            self.absolute,
            self.equality,
            beta,
            gradient,
            tol,
            max_steps,
            max_seconds,
            1,
            shrink_every,
        )
        return beta, gradient, outcome

    def value(self, beta):
        quadratic = 0.5 * beta @ (self.Q @ beta) + 0.5 * self.shift @ beta**2
        return quadratic - self.linear @ beta + self.absolute * np.abs(beta).sum()

    def violation(self, beta):
        """How far the one-sided derivatives are from optimality, by definition."""
        gradient = self.Q @ beta + self.shift * beta - self.linear
        up, down = [], []
        for value, slope, low, high in zip(beta, gradient, self.lower, self.upper, strict=True):
            if value < high:
                up.append(slope + (self.absolute if value >= 0 else -self.absolute))
            if value > low:
                down.append(slope + (self.absolute if value > 0 else -self.absolute))
        most_up, most_down = min(up, default=np.inf), max(down, default=-np.inf)
        return most_down - most_up if self.equality else max(most_down, -most_up)


VARIANTS = {
    "hinge": {},
    "kink": {"absolute": 0.7},
    "shift": {"shift": 0.4},
    "kink_and_shift": {"absolute": 0.3, "shift": 0.2},
    "infinite_bounds": {"shift": 0.3, "infinite": True},
    "infinite_bounds_and_kink": {"shift": 0.3, "infinite": True, "absolute": 0.5},
    "low_rank": {"rank": 2},
    "low_rank_with_kink": {"rank": 2, "absolute": 0.2},
    "duplicates": {"duplicate": True},
    "two_samples": {"n": 2},
    "long_rows": {"n": 140},  # the best partner is searched in blocks of 128
}
every_variant = pytest.mark.parametrize("variant", VARIANTS.values(), ids=VARIANTS)
with_and_without = pytest.mark.parametrize("equality", [True, False], ids=["equality", "free"])


@every_variant
@with_and_without
@pytest.mark.parametrize("shrink_every", [2, 20])
def test_shrinking_leaves_the_solution_and_the_gradient_as_they_are(variant, equality, shrink_every):
    """Narrow boxes: most samples come to sit at a bound, are left out, and some want to come back."""
    for seed in range(3):
        problem = BoxProblem(seed, equality, **{"n": 60, **variant})
        problem.lower, problem.upper = 0.1 * problem.lower, 0.1 * problem.upper
        problem.start = np.clip(problem.start, problem.lower, problem.upper)
        whole, _, (_, _, left_whole) = problem.run(loops, shrink_every=-1)
        beta, gradient, (steps, _, left) = problem.run(loops, shrink_every=shrink_every)
        assert max(left, left_whole) <= 1e-9
        assert steps < 100_000
        scale = 1.0 + np.abs(gradient).max()
        np.testing.assert_allclose(
            gradient, problem.Q @ beta + problem.shift * beta - problem.linear, atol=1e-11 * scale
        )
        assert problem.violation(beta) <= 1e-9 + 1e-11 * scale
        assert problem.value(beta) == pytest.approx(problem.value(whole), rel=1e-9, abs=1e-9)
        if equality:
            assert beta.sum() == pytest.approx(problem.start.sum(), abs=1e-12)


@every_variant
@with_and_without
@pytest.mark.parametrize("seed", range(3))
def test_smo_is_its_twin_bit_for_bit(variant, equality, seed):
    problem = BoxProblem(seed, equality, **variant)
    steps = 400 if variant.get("n") == 140 else 3000
    beta, gradient, outcome = problem.run(loops, tol=1e-7, max_steps=steps)
    twin_beta, twin_gradient, twin_outcome = problem.run(twin, tol=1e-7, max_steps=steps)
    assert outcome == twin_outcome
    np.testing.assert_array_equal(beta, twin_beta)
    np.testing.assert_array_equal(gradient, twin_gradient)


@every_variant
@with_and_without
@pytest.mark.parametrize("seed", range(3))
def test_smo_ends_at_the_optimum(variant, equality, seed):
    problem = BoxProblem(seed, equality, **variant)
    beta, gradient, (steps, formed, violation) = problem.run(loops)
    assert np.all((problem.lower <= beta) & (beta <= problem.upper))
    if equality:
        assert beta.sum() == pytest.approx(problem.start.sum(), abs=1e-12)
    scale = np.abs(problem.Q).max() + np.abs(problem.linear).max()
    np.testing.assert_allclose(gradient, problem.Q @ beta + problem.shift * beta - problem.linear, atol=1e-12 * scale)
    assert violation <= 1e-9
    assert problem.violation(beta) <= violation + 1e-11 * scale
    assert formed <= min(len(beta), 2 * steps)
    assert problem.value(beta) <= problem.value(problem.start)
    # No feasible point is better: random ones, and the way to them.
    rng = np.random.default_rng(seed)
    for _ in range(10):
        other = np.clip(rng.normal(size=len(beta)), problem.lower, problem.upper)
        if equality:
            other = shifted_to(problem.start.sum(), other, problem)
        for t in (1e-3, 0.1, 1.0):
            assert problem.value(beta + t * (other - beta)) >= problem.value(beta) - 1e-8


def shifted_to(total, beta, problem):
    """clip(beta + c) with c such that the sum is `total`, by bisection."""
    low, high = -1e3, 1e3
    for _ in range(70):
        middle = 0.5 * (low + high)
        low, high = (
            (middle, high) if np.clip(beta + middle, problem.lower, problem.upper).sum() < total else (low, middle)
        )
    return np.clip(beta + low, problem.lower, problem.upper)


@with_and_without
def test_the_exact_solution_of_two_samples(equality):
    """beta = (t, -t) with t = (linear_0 - linear_1) / (Q_00 + Q_11 - 2 Q_01), or the solution of Q beta = linear."""
    Q = np.array([[2.0, 0.5], [0.5, 1.0]])
    linear = np.array([0.3, -0.2])
    beta, gradient = np.zeros(2), -linear
    state = (np.empty((2, 2)), np.zeros(2, dtype=np.uint8), np.diag(Q).copy(), np.full(2, -9.0), np.full(2, 9.0))
    loops.smo(loops.Stack([Q]), np.ones(1), *state, 0.0, equality, beta, gradient, 1e-14, 1000, np.inf)
    t = 0.5 / 2.0
    np.testing.assert_allclose(beta, [t, -t] if equality else np.linalg.solve(Q, linear), rtol=1e-12)


@BOTH
@with_and_without
def test_max_steps_is_respected(implementation, equality):
    problem = BoxProblem(5, equality)
    for limit in (0, 1, 7):
        beta, gradient, (steps, _, violation) = problem.run(implementation, max_steps=limit)
        assert steps == limit
        assert violation > 1e-9
        assert violation == pytest.approx(problem.violation(beta), abs=1e-9)
        np.testing.assert_allclose(gradient, problem.Q @ beta + problem.shift * beta - problem.linear, atol=1e-9)
        if limit == 0:
            np.testing.assert_array_equal(beta, problem.start)


@BOTH
def test_a_solved_problem_takes_no_steps(implementation):
    problem = BoxProblem(6, True, shift=0.1)
    problem.start, _, _ = problem.run(implementation)
    beta, _, (steps, formed, _) = problem.run(implementation, tol=1e-7)
    assert (steps, formed) == (0, 0)
    np.testing.assert_array_equal(beta, problem.start)


@BOTH
def test_no_time_left_ends_the_loop(implementation):
    problem = BoxProblem(0, True, n=140, rank=3, infinite=True)  # without curvature and bounds it never ends
    _, _, (steps, _, violation) = problem.run(implementation, max_steps=10**9, max_seconds=0.05)
    assert steps < 10**9
    assert violation > 0.0


# --- the boundary ---------------------------------------------------------------------------------------------


def combine(**changes):
    """A valid call of combine_rows with some arguments changed."""
    K = np.eye(3)
    arguments = {
        "stack": loops.Stack([K, K]),
        "weights": np.ones(2),
        "index": np.array([0, 2]),
        "rows": np.zeros((3, 3)),
        "ready": np.zeros(3, dtype=np.uint8),
        "threads": 1,
    }
    loops.combine_rows(**{**arguments, **changes})


def apply(**changes):
    K = np.eye(3)
    arguments = {
        "stack": loops.Stack([K, K]),
        "kernels": np.array([0, 1]),
        "index": np.array([0, 2]),
        "delta": np.ones(2),
        "images": np.zeros((2, 3)),
        "threads": 1,
    }
    loops.apply_rows(**{**arguments, **changes})


def smo(**changes):
    arguments = {
        "stack": loops.Stack([np.eye(3)]),
        "weights": np.ones(1),
        "rows": np.zeros((3, 3)),
        "ready": np.zeros(3, dtype=np.uint8),
        "diagonal": np.ones(3),
        "lower": np.zeros(3),
        "upper": np.ones(3),
        "absolute": 0.0,
        "equality": True,
        "beta": np.zeros(3),
        "gradient": np.zeros(3),
        "tol": 1e-6,
        "max_steps": 10,
        "max_seconds": 1.0,
    }
    loops.smo(**{**arguments, **changes})


def gather(**changes):
    arguments = {
        "stack": loops.Stack([np.eye(3)]),
        "index": np.array([0, 2]),
        "parts": np.zeros((1, 2, 2)),
        "threads": 1,
    }
    loops.gather(**{**arguments, **changes})


def test_the_calls_below_are_valid_before_they_are_changed():
    gather()
    combine()
    apply()
    smo()


@pytest.mark.parametrize(
    ("call", "changes", "says"),
    [
        (combine, {"weights": np.ones(3)}, r"weights must be \(M,\)"),
        (combine, {"rows": np.zeros((3, 4))}, r"rows must be \(n, n\)"),
        (combine, {"ready": np.zeros(2, dtype=np.uint8)}, r"ready must be \(n,\)"),
        (combine, {"index": np.array([0, 3])}, "an index is out of range"),
        (combine, {"index": np.array([-1])}, "an index is out of range"),
        (apply, {"images": np.zeros((3, 3))}, r"images must be \(M, n\)"),
        (apply, {"delta": np.ones(3)}, "index and delta must have one length"),
        (apply, {"kernels": np.array([2])}, "an index is out of range"),
        (apply, {"index": np.array([0, 3])}, "an index is out of range"),
        (gather, {"index": np.array([0, 3])}, "an index is out of range"),
        (gather, {"parts": np.zeros((1, 2, 3))}, r"parts must be \(M, k, k\)"),
        (gather, {"parts": np.zeros((2, 2, 2))}, r"parts must be \(M, k, k\)"),
        (gather, {"parts": np.zeros((1, 2, 2), dtype=np.float32)}, "the dtype of the stack"),
        (smo, {"weights": np.ones(2)}, r"weights must be \(M,\)"),
        (smo, {"rows": np.zeros((2, 3))}, r"rows must be \(n, n\)"),
        *((smo, {name: np.zeros(4)}, r"must be \(n,\)") for name in ("diagonal", "lower", "upper", "beta", "gradient")),
        (smo, {"ready": np.zeros(4, dtype=np.uint8)}, r"must be \(n,\)"),
    ],
)
def test_wrong_shapes_and_indices_are_refused(call, changes, says):
    with pytest.raises(ValueError, match=says):
        call(**changes)


@pytest.mark.parametrize(
    ("call", "changes"),
    [
        (combine, {"weights": np.ones(2, dtype=np.float32)}),
        (combine, {"index": np.array([0, 2], dtype=np.int32)}),
        (combine, {"ready": np.zeros(3, dtype=bool)}),
        (combine, {"rows": np.zeros((3, 3), order="F")[:, ::-1]}),
        (combine, {"rows": np.zeros(9)}),
        (apply, {"delta": [1.0, 1.0]}),
        (apply, {"images": np.zeros((2, 6))[:, ::2]}),
        (gather, {"parts": np.zeros((1, 4, 4))[:, ::2, ::2]}),
        (smo, {"beta": np.zeros(3, dtype=np.float32)}),
        (smo, {"gradient": np.broadcast_to(0.0, 3)}),
        (smo, {"stack": [np.eye(3)]}),
    ],
)
def test_other_types_and_strided_or_read_only_outputs_are_refused(call, changes):
    with pytest.raises(TypeError):
        call(**changes)


@pytest.mark.parametrize(
    ("matrices", "says"),
    [
        ([], "at least one matrix"),
        ([np.eye(3), np.eye(2)], r"every matrix must be \(n, n\)"),
        ([np.ones((3, 2))], r"every matrix must be \(n, n\)"),
        ([np.eye(3), np.eye(3, dtype=np.float32)], "one dtype"),
        ([np.eye(3, dtype=int)], "float32 or float64"),
        ([np.eye(6)[::2, ::2]], "C-contiguous"),
        ([np.ones(3)], "two dimensions"),
    ],
)
def test_a_stack_of_anything_else_is_refused(matrices, says):
    with pytest.raises(ValueError, match=says):
        loops.Stack(matrices)


def test_a_stack_keeps_its_matrices_alive_and_reads_them_in_place(rng):
    K = rng.normal(size=(3, 3))
    K.flags.writeable = False
    expected = K[0].copy()
    stack = loops.Stack([K])
    del K
    rows = np.zeros((3, 3))
    loops.combine_rows(stack, np.ones(1), np.array([0]), rows, np.zeros(3, dtype=np.uint8), 1)
    np.testing.assert_array_equal(rows[0], expected)
