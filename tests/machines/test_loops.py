"""The passes over the kernels, compiled and in NumPy, against each other and against the definitions.

They do the same arithmetic in the same order and without fused multiply-adds: most comparisons are exact. Wrong shapes,
types and indices never reach a compiled loop.
"""

from __future__ import annotations

import numpy as np
import pytest
from makers import ODD, gram_matrices, needs_the_loops

from mklref.machines import twin
from mklref.machines.loops import loops

pytestmark = needs_the_loops
every_dtype = pytest.mark.parametrize("dtype", [np.float64, np.float32])
with_threads = pytest.mark.parametrize("threads", [1, 2])


@pytest.mark.sampled(2)
@every_dtype
@with_threads
@pytest.mark.parametrize("n", [ODD, 600])  # 600: enough work for a second thread
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


@pytest.mark.sampled(2)
@every_dtype
@with_threads
@pytest.mark.parametrize("n", [ODD, 600])
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


@every_dtype
@with_threads
@pytest.mark.parametrize("n", [1, 2, 3, 5, ODD, 301])
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


@every_dtype
@with_threads
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


# --- what the boundary refuses ---------------------------------------------------------------------------------------


def valid(name):
    """Arguments that this loop takes, to be changed."""
    K = loops.Stack([np.eye(3), np.eye(3)])
    combined = {"weights": np.ones(2), "rows": np.zeros((3, 3)), "ready": np.zeros(3, dtype=np.uint8)}
    box = {own: np.ones(3) for own in ("diagonal", "lower", "upper", "beta", "gradient")}
    index, limits = np.array([0, 2]), {"tol": 1e-6, "max_steps": 10}
    program = {"P": np.eye(2), "c": np.ones(2), "bounds": 0, "G": -np.eye(2), "h": np.zeros(2), "a": np.ones(2)}
    applied = {"kernels": np.array([0, 1]), "delta": np.ones(2), "images": np.zeros((2, 3))}
    return {
        "combine_rows": {"stack": K, "index": index, "threads": 1} | combined,
        "apply_rows": {"stack": K, "index": index, "threads": 1} | applied,
        "gather": {"stack": K, "index": index, "threads": 1, "parts": np.zeros((2, 2, 2))},
        "smo": {"stack": K, "absolute": 0.0, "equality": True, "max_seconds": 1.0} | combined | box | limits,
        "quadratic_program": {"x": np.ones(2), "u": np.ones(2)} | program | limits,
    }[name]


def call(name, **changes):
    getattr(loops, name)(**{**valid(name), **changes})


@pytest.mark.parametrize("name", ["combine_rows", "apply_rows", "gather", "smo", "quadratic_program"])
def test_the_calls_below_are_valid_before_they_are_changed(name):
    call(name)


@pytest.mark.parametrize(
    ("name", "changes", "says"),
    [
        ("combine_rows", {"weights": np.ones(3)}, r"weights must be \(M,\)"),
        ("combine_rows", {"rows": np.zeros((3, 4))}, r"rows must be \(n, n\)"),
        ("combine_rows", {"ready": np.zeros(2, dtype=np.uint8)}, r"ready must be \(n,\)"),
        ("combine_rows", {"index": np.array([0, 3])}, "an index is out of range"),
        ("combine_rows", {"index": np.array([-1])}, "an index is out of range"),
        ("apply_rows", {"images": np.zeros((3, 3))}, r"images must be \(M, n\)"),
        ("apply_rows", {"delta": np.ones(3)}, "index and delta must have one length"),
        ("apply_rows", {"kernels": np.array([2])}, "an index is out of range"),
        ("apply_rows", {"index": np.array([0, 3])}, "an index is out of range"),
        ("gather", {"index": np.array([0, 3])}, "an index is out of range"),
        ("gather", {"parts": np.zeros((2, 2, 3))}, r"parts must be \(M, k, k\)"),
        ("gather", {"parts": np.zeros((1, 2, 2))}, r"parts must be \(M, k, k\)"),
        ("gather", {"parts": np.zeros((2, 2, 2), dtype=np.float32)}, "the dtype of the stack"),
        ("smo", {"weights": np.ones(3)}, r"weights must be \(M,\)"),
        ("smo", {"rows": np.zeros((2, 3))}, r"rows must be \(n, n\)"),
        *(("smo", {one: np.zeros(4)}, r"must be \(n,\)") for one in ("diagonal", "lower", "upper", "beta", "gradient")),
        ("smo", {"ready": np.zeros(4, dtype=np.uint8)}, r"must be \(n,\)"),
        ("quadratic_program", {"P": np.eye(3)}, "P must be"),
        ("quadratic_program", {"G": np.ones((3, 2))}, "G must be"),
        ("quadratic_program", {"h": np.zeros(1)}, "G must be"),
        ("quadratic_program", {"a": np.ones(3)}, "x and a"),
        ("quadratic_program", {"x": np.ones(1)}, "x and a"),
        ("quadratic_program", {"u": np.ones(3)}, "u must be"),
        ("quadratic_program", {"bounds": 1}, "u must be"),
        *(("quadratic_program", {"bounds": m}, "no more bounds than variables") for m in (3, -1)),
        ("quadratic_program", {"G": np.empty((0, 2)), "h": np.empty(0)}, "there must be inequalities"),
    ],
)
def test_wrong_shapes_and_indices_are_refused(name, changes, says):
    with pytest.raises(ValueError, match=says):
        call(name, **changes)


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("combine_rows", {"weights": np.ones(2, dtype=np.float32)}),
        ("combine_rows", {"index": np.array([0, 2], dtype=np.int32)}),
        ("combine_rows", {"ready": np.zeros(3, dtype=bool)}),
        ("combine_rows", {"rows": np.zeros((3, 3), order="F")[:, ::-1]}),
        ("combine_rows", {"rows": np.zeros(9)}),
        ("apply_rows", {"delta": [1.0, 1.0]}),
        ("apply_rows", {"images": np.zeros((2, 6))[:, ::2]}),
        ("gather", {"parts": np.zeros((2, 4, 4))[:, ::2, ::2]}),
        ("smo", {"beta": np.zeros(3, dtype=np.float32)}),
        ("smo", {"gradient": np.broadcast_to(0.0, 3)}),
        ("smo", {"stack": [np.eye(3)]}),
    ],
)
def test_other_types_and_strided_or_read_only_outputs_are_refused(name, changes):
    with pytest.raises(TypeError):
        call(name, **changes)


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
