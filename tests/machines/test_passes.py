"""The passes over the kernels, compiled and in NumPy, against each other and against the definitions.

They do the same arithmetic in the same order and without fused multiply-adds: most comparisons are exact.
"""

from __future__ import annotations

import numpy as np
import pytest
from machines.compiled import N, gram_matrices, needs_the_loops

from mklref.machines import twin
from mklref.machines.loops import loops

pytestmark = needs_the_loops


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
