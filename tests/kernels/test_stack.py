"""Stacks: their five questions against the definition; arrays of every layout, neither copied nor written to."""

from __future__ import annotations

import re
import sys

import numpy as np
import pytest
from makers import Frame, make_kernels, make_samples

from mklref.exceptions import InvalidInput, InvalidKernel
from mklref.kernels import ArrayStack, KernelStack, stack

M, N = 4, 21


@pytest.fixture(params=[np.float64, np.float32])
def K(request, rng):
    return make_kernels(rng, make_samples(rng, N), M).astype(request.param)


@pytest.fixture
def v(rng):
    return rng.normal(size=N)


def test_combine(K, rng):
    weights = rng.uniform(size=M)
    expected = sum(w * matrix.astype(np.float64) for w, matrix in zip(weights, K, strict=True))
    combined = stack(K).combine(weights)
    assert combined.dtype == np.float64
    np.testing.assert_allclose(combined, expected, rtol=1e-14, atol=1e-15)


def test_combine_does_not_read_kernels_of_weight_zero(K):
    unread = np.full_like(K[0], np.nan)
    combined = ArrayStack([K[0], unread, K[2]]).combine(np.array([0.5, 0.0, 2.0]))
    np.testing.assert_allclose(combined, 0.5 * K[0].astype(float) + 2.0 * K[2], rtol=1e-14)


def test_apply_and_quadratic_accumulate_in_float64(K, v):
    products = np.einsum("mij,j->mi", K.astype(np.float64), v)
    S = stack(K)
    np.testing.assert_allclose(S.apply(v), products, rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(S.quadratic(v), products @ v, rtol=1e-12)
    assert S.apply(v).dtype == np.float64


def test_several_vectors_at_once(K, v):
    S = stack(K)
    vectors = np.stack([v, v**2, np.zeros(N)])
    for each in (S.apply_each(vectors), KernelStack.apply_each(S, vectors)):
        assert each.dtype == np.float64
        np.testing.assert_allclose(each, np.stack([S.apply(x) for x in vectors]), rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("n", [127, 128, 200])
def test_products_of_large_matrices(n, dtype, rng):
    """From order 128 on one triangle is read; every v that NumPy takes gives the sum of the definition."""
    K = make_kernels(rng, make_samples(rng, n), 2).astype(dtype)
    whole = rng.normal(size=2 * n)
    for S in (stack(K), stack([np.asfortranarray(matrix) for matrix in K])):
        for v in (whole[:n], whole[::2], whole[::-2], np.rint(3.0 * whole[:n]).astype(int), np.zeros(n)):
            terms = K.astype(np.float64) * v
            bound = 1e-14 * np.abs(terms).sum(axis=2)
            assert np.all(np.abs(S.apply(v) - terms.sum(axis=2)) <= bound)
            assert np.all(np.abs(S.quadratic(v) - (terms.sum(axis=2) * v).sum(axis=1)) <= bound @ np.abs(v))


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("n", [21, 140])
@pytest.mark.parametrize(
    "shape",
    [lambda n: (n + 1,), lambda n: (n - 1,), lambda n: (1,), lambda n: (n, 1), lambda n: (n, n), lambda n: ()],
    ids=["long", "short", "one", "column", "matrix", "scalar"],
)
def test_a_vector_of_another_shape_is_refused(shape, n, dtype):
    """BLAS would read the entries that it needs and ignore the rest."""
    v = np.ones(shape(n))
    S = ArrayStack([np.eye(n, dtype=dtype)])
    for question in (S.apply, S.quadratic):
        with pytest.raises(InvalidInput, match=rf"v has shape {re.escape(str(v.shape))}; expected \({n},\), one entry"):
            question(v)


@pytest.mark.parametrize("block", [1, N, 3 * N, 10 * N])
def test_apply_in_blocks(K, v, block, monkeypatch):
    whole = stack(K).apply(v)
    monkeypatch.setattr(sys.modules[ArrayStack.__module__], "_BLOCK", block)
    np.testing.assert_allclose(stack(K).apply(v), whole, rtol=1e-13, atol=1e-13)


def test_rows(K):
    index = np.array([3, 0, 3, N - 1])
    rows = stack(K).rows(index)
    assert rows.dtype == K.dtype
    np.testing.assert_array_equal(rows, K[:, index, :])


def test_traces(K):
    np.testing.assert_allclose(stack(K).traces(), [np.trace(matrix.astype(float)) for matrix in K], rtol=1e-14)


def test_shape_dtype_length_and_names(K):
    S = stack(K)
    assert S.shape == (M, N, N)
    assert S.dtype == K.dtype
    assert len(S) == M
    assert S.names == ("K0", "K1", "K2", "K3")
    assert stack(K, names=list("abcd")).names == tuple("abcd")
    assert repr(S) == f"ArrayStack(shape=(4, 21, 21), dtype={K.dtype})"


def test_names_must_be_as_many_as_kernels(K):
    with pytest.raises(InvalidKernel, match="2 names for 4 kernels; give one for each"):
        stack(K, names=["a", "b"])


def test_a_stack_is_returned_as_it_is(K):
    S = stack(K)
    assert stack(S) is S


def test_one_array_is_not_copied(K):
    S = stack(K)
    assert S.dense().base is K or S.dense() is K
    assert all(np.shares_memory(matrix, K) for matrix in S.matrices)


def test_part_of_an_array_is_not_copied(K):
    S = stack(K[1:3])
    assert all(np.shares_memory(matrix, K) for matrix in S.matrices)
    np.testing.assert_array_equal(S.dense(), K[1:3])


def test_reversed_kernels_keep_their_order(K):
    np.testing.assert_array_equal(stack(K[::-1]).dense(), K[::-1])
    np.testing.assert_array_equal(stack([K[2], K[0]]).dense(), K[[2, 0]])


def test_a_sequence_of_arrays_is_not_copied(K):
    parts = [matrix.copy() for matrix in K]
    S = stack(parts)
    assert all(np.shares_memory(matrix, part) for matrix, part in zip(S.matrices, parts, strict=True))
    np.testing.assert_array_equal(S.dense(), K)


def test_fortran_order_is_not_copied(K):
    parts = [np.asfortranarray(matrix) for matrix in K]
    S = stack(parts)
    assert all(matrix.flags.c_contiguous for matrix in S.matrices)
    assert all(np.shares_memory(matrix, part) for matrix, part in zip(S.matrices, parts, strict=True))
    np.testing.assert_array_equal(S.dense(), K)


def test_dense_is_contiguous_and_read_from_the_matrices(K):
    for given in (K, np.asfortranarray(K), np.asfortranarray(K[:1]), K[:, ::2, ::2], list(K)):
        S = stack(given)
        assert S.dense().flags.c_contiguous
        np.testing.assert_array_equal(S.dense(), given)


def test_strided_arrays_work(K, v):
    wide = np.zeros((M, 2 * N, 3 * N), dtype=K.dtype)
    wide[:, ::2, ::3] = K
    np.testing.assert_array_equal(stack(wide[:, ::2, ::3]).dense(), K)
    kernels_last = np.ascontiguousarray(np.moveaxis(K, 0, 2))
    np.testing.assert_array_equal(stack(np.moveaxis(kernels_last, 2, 0)).apply(v), stack(K).apply(v))


def test_read_only_arrays_work(K, v):
    K.flags.writeable = False
    S = stack(K)
    assert np.shares_memory(S.dense(), K)
    assert np.all(np.isfinite(S.apply(v)))


def test_memory_maps_work_without_a_copy(K, v, tmp_path):
    np.save(tmp_path / "K.npy", K)
    mapped = np.load(tmp_path / "K.npy", mmap_mode="r")
    S = stack(mapped)
    assert all(np.shares_memory(matrix, mapped) for matrix in S.matrices)
    np.testing.assert_array_equal(S.apply(v), stack(K).apply(v))


def test_data_frames_work(K):
    np.testing.assert_array_equal(stack([Frame(matrix) for matrix in K]).dense(), K)


def test_foreign_byte_order_works(K):
    swapped = K.astype(K.dtype.newbyteorder(">" if np.little_endian else "<"))
    S = stack(swapped)
    assert S.dtype == K.dtype
    np.testing.assert_array_equal(S.dense(), K)


def test_nested_lists_and_integers_become_float64():
    S = stack([[[2, 1], [1, 2]], [[1, 0], [0, 1]]])
    assert S.dtype == np.float64
    np.testing.assert_array_equal(S.combine(np.array([1.0, 10.0])), [[12, 1], [1, 12]])


def test_mixed_precision_becomes_float64(K):
    assert stack([K[0].astype(np.float32), K[1].astype(np.float64)]).dtype == np.float64


def test_inputs_are_never_written_to(K, v, rng):
    before = K.copy()
    S = stack(K)
    S.combine(rng.uniform(size=M))
    S.apply(v)
    S.rows(np.arange(3))
    S.traces()
    S.require_psd()
    np.testing.assert_array_equal(K, before)


def test_numpy_makes_an_array_of_any_stack(K):
    np.testing.assert_array_equal(np.asarray(stack(K)), K)
    assert np.asarray(stack(K), dtype=np.float32).dtype == np.float32
    copied = np.array(stack(K))
    copied[:] = 0.0
    assert np.asarray(stack(K)).any()
