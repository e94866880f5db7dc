"""Stacks: their five questions against the definition; arrays of every layout, neither copied nor written to."""

from __future__ import annotations

import pickle
import sys
import tracemalloc

import numpy as np
import pytest
from makers import Frame, make_kernels, make_samples

from mklref import _threads, certify, solve
from mklref.exceptions import InvalidInput, InvalidKernel, KernelsLost
from mklref.kernels import ArrayStack, LazyStack, gaussian, stack, storage
from mklref.problem import Problem

M, N = 4, 21


@pytest.fixture(params=[np.float64, np.float32])
def K(request, rng):
    return make_kernels(rng, make_samples(rng, N), M).astype(request.param)


@pytest.fixture
def v(rng):
    return rng.normal(size=N)


def test_combine_does_not_read_kernels_of_weight_zero(K):
    unread = np.full_like(K[0], np.nan)
    combined = ArrayStack([K[0], unread, K[2]]).combine(np.array([0.5, 0.0, 2.0]))
    np.testing.assert_allclose(combined, 0.5 * K[0].astype(float) + 2.0 * K[2], rtol=1e-14)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize(("n", "threads"), [(199, 1), (200, 3), (639, 2), (640, 1)])
def test_products_of_large_matrices(n, threads, dtype, rng, monkeypatch):
    """By one thread or several; any v of NumPy gives the sum of the definition."""
    monkeypatch.setattr(_threads, "_WORTH", n)
    monkeypatch.setattr(sys.modules[ArrayStack.__module__], "_UNCACHED", n)
    monkeypatch.setenv("MKLREF_NUM_THREADS", str(threads))
    K = make_kernels(rng, make_samples(rng, n), 2).astype(dtype)
    whole = rng.normal(size=2 * n)
    for S in (stack(K), stack([np.asfortranarray(matrix) for matrix in K])):
        for v in (whole[:n], whole[::2], whole[::-2], np.rint(3.0 * whole[:n]).astype(int), np.zeros(n)):
            terms = K.astype(np.float64) * v
            bound = 1e-14 * np.abs(terms).sum(axis=2)
            assert np.all(np.abs(S.apply(v) - terms.sum(axis=2)) <= bound)
            assert np.all(np.abs(S.quadratic(v) - (terms.sum(axis=2) * v).sum(axis=1)) <= bound @ np.abs(v))


@pytest.mark.parametrize(
    ("n", "M", "half"), [(199, 1, False), (200, 1, True), (639, 10, True), (639, 11, False), (640, 11, True)]
)
def test_half_of_large_matrices_is_read(n, M, half):
    """Of medium ones only where they fit into the cache or lie apart: several threads read them from memory."""
    K = np.zeros((M, n, n))
    K[:, -1, 0] = np.nan
    assert np.isfinite(ArrayStack(list(K)).apply(np.ones(n))).all() == half
    assert np.isfinite(ArrayStack(list(K[:, None].copy()[::-1, 0])).apply(np.ones(n))).all() == (n >= 200)


@pytest.mark.parametrize("block", [1, N, 3 * N, 10 * N])
def test_apply_in_blocks(K, v, block, monkeypatch):
    whole = stack(K).apply(v)
    monkeypatch.setattr(sys.modules[ArrayStack.__module__], "_BLOCK", block)
    np.testing.assert_allclose(stack(K).apply(v), whole, rtol=1e-13, atol=1e-13)


def test_shape_dtype_length_and_names(K):
    S = stack(K)
    assert S.shape == (M, N, N)
    assert S.dtype == K.dtype
    assert len(S) == M
    assert S.names == ("K0", "K1", "K2", "K3")
    assert stack(K, names=list("abcd")).names == tuple("abcd")
    assert repr(S) == f"ArrayStack(shape=(4, 21, 21), dtype={K.dtype})"
    assert stack(S) is S
    with pytest.raises(InvalidKernel, match="2 names for 4 kernels; give one for each"):
        stack(K, names=["a", "b"])


def read_only(K, path):
    K.flags.writeable = False
    return K


def mapped(K, path):
    np.save(path / "K.npy", K)
    return np.load(path / "K.npy", mmap_mode="r")


REFERRED = {
    "one array": lambda K, path: K,
    "a part of one": lambda K, path: K[1:3],
    "read-only": read_only,
    "a memory map": mapped,
    "reversed": lambda K, path: K[::-1],
    "in another order": lambda K, path: [K[2], K[0]],
    "several arrays": lambda K, path: [matrix.copy() for matrix in K],
    "Fortran order": lambda K, path: [np.asfortranarray(matrix) for matrix in K],
}


@pytest.mark.parametrize("form", REFERRED)
def test_arrays_are_referred_to_and_not_copied(K, v, form, tmp_path):
    given = REFERRED[form](K, tmp_path)
    S = stack(given)
    assert all(np.shares_memory(matrix, part) for matrix, part in zip(S.matrices, given, strict=True))
    assert all(matrix.flags.c_contiguous for matrix in S.matrices)
    np.testing.assert_array_equal(S.dense(), np.stack(list(given)))
    np.testing.assert_array_equal(S.images(v), np.stack([stack([matrix]).images(v)[0] for matrix in given]))
    np.testing.assert_allclose(S.apply(v), np.stack([matrix @ v for matrix in given]), rtol=1e-12, atol=1e-12)
    assert S.dense().flags.c_contiguous
    if form in ("one array", "read-only"):
        assert np.shares_memory(S.dense(), given)


def strided(K):
    wide = np.zeros((M, 2 * N, 3 * N), dtype=K.dtype)
    wide[:, ::2, ::3] = K
    return wide[:, ::2, ::3]


CONVERTED = {
    "strided": strided,
    "kernels last": lambda K: np.moveaxis(np.ascontiguousarray(np.moveaxis(K, 0, 2)), 2, 0),
    "Fortran order": np.asfortranarray,
    "Fortran order, one kernel": lambda K: np.asfortranarray(K[:1]),
    "every other sample": lambda K: K[:, ::2, ::2],
    "data frames": lambda K: [Frame(matrix) for matrix in K],
    "foreign byte order": lambda K: K.astype(K.dtype.newbyteorder(">" if np.little_endian else "<")),
}


@pytest.mark.parametrize("form", CONVERTED)
def test_arrays_of_any_other_form_work(K, form):
    given = CONVERTED[form](K)
    S = stack(given)
    assert S.dtype == K.dtype
    assert S.dense().flags.c_contiguous
    np.testing.assert_array_equal(S.dense(), np.stack([np.asarray(matrix) for matrix in given]))


def test_gram_matrices_of_other_samples_are_no_stack(K):
    """Data frames name their rows; matrices without names are taken to have the order of the others."""
    pandas = pytest.importorskip("pandas")
    ids = [f"s{i}" for i in range(K.shape[1])]
    frame = pandas.DataFrame(K[0], index=ids, columns=ids)
    assert len(stack([frame, K[1], frame])) == 3
    with pytest.raises(InvalidInput, match=r"kernels\[0\] and kernels\[2\] have .* 0 is 's0' in the first"):
        stack([frame, K[1], frame.loc[ids[::-1], ids[::-1]]])


@pytest.mark.parametrize(
    "given",
    [
        [[[2, 1], [1, 2]], [[1, 0], [0, 1]]],
        np.array([[[2, 1], [1, 2]], [[1, 0], [0, 1]]], dtype=np.float16),
        [np.array([[2, 1], [1, 2]], dtype=np.float32), np.eye(2)],
    ],
    ids=["lists of integers", "half precision", "mixed precision"],
)
def test_other_numbers_become_float64(given):
    S = stack(given)
    assert S.dtype == np.float64
    np.testing.assert_array_equal(S.combine(np.array([1.0, 10.0])), [[12, 1], [1, 12]])


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


@pytest.mark.parametrize("k", [1, 640])
def test_products_of_large_matrices_take_little_memory(k, rng):
    """Matrices that are no parts of one array were copied, and sums of rows were held of all vectors."""
    kernels, vectors = [rng.normal(size=(600, 600)) for _ in range(2)], rng.normal(size=(k, 600))
    S, expected = ArrayStack(kernels), np.stack([vectors @ K for K in kernels], axis=1)
    tracemalloc.start()
    try:
        images = S.images_each(vectors)
        assert tracemalloc.get_traced_memory()[1] < max(2.5 * images.nbytes, kernels[0].nbytes / 2)
    finally:
        tracemalloc.stop()
    np.testing.assert_allclose(images, expected, atol=1e-10)


def test_a_block_is_held_once(rng):
    """Of all kernels at once: rows of large stacks are most of what is free."""
    stack = ArrayStack.trusted(rng.normal(size=(20, 100, 100)))
    tracemalloc.start()
    try:
        size = stack.block(np.arange(90)).nbytes
        assert tracemalloc.get_traced_memory()[1] < 1.3 * size
    finally:
        tracemalloc.stop()


def test_matrices_of_one_array_are_pickled_once(K):
    """A view of all of them is kept for products, and made again where they are read."""
    made = stack(np.repeat(K, 8, axis=0))
    v = np.arange(made.shape[1])
    images = made.images(v)
    bits = pickle.dumps(made)
    assert len(bits) < 1.5 * made.dense().nbytes
    np.testing.assert_array_equal(pickle.loads(bits).images(v), images)


def test_matrices_that_are_neighbours_by_chance_are_copied():
    """As two memory maps may be: an array of both would keep the first alone alive."""
    memory = np.eye(8).repeat(2, axis=0).reshape(2, 8, 8)
    apart = [np.frombuffer(memoryview(half)).reshape(8, 8) for half in memory]
    assert apart[1].ctypes.data - apart[0].ctypes.data == apart[0].nbytes
    assert not np.shares_memory(ArrayStack(apart).dense(), memory)
    assert np.shares_memory(ArrayStack(list(memory)).dense(), memory)


WRITTEN = {
    "another unit": lambda K: np.multiply(K, 2.0, out=K),
    "indefinite": lambda K: np.subtract(K, 0.05 * np.eye(N), out=K),
    "other kernels": lambda K: K.__setitem__(slice(None), K[::-1].copy()),
    "a pair of samples": lambda K: (K[0, 3].__setitem__(N // 2, 0.1), K[0, N // 2].__setitem__(3, 0.1)),
    "a diagonal entry": lambda K: K[0, 0].__setitem__(0, 9.0),
    "another sample": lambda K: (K[1, 5].__iadd__(K[1, 6]), K[1, :, 5].__setitem__(slice(None), K[1, 5])),
}


@pytest.mark.parametrize("written", WRITTEN)
def test_a_problem_whose_matrices_were_written_to_is_refused(K, written):
    """`solve` called a point of an indefinite kernel optimal, with a certificate that said "proved"."""
    y = np.where(np.arange(N) % 2, 1.0, -1.0)
    problem = Problem(K, y)
    found = solve(problem)
    sent = pickle.loads(pickle.dumps(problem))
    before = K.copy()
    WRITTEN[written](K)
    m = int(np.any(before != K, axis=(1, 2)).argmax())
    for call in (
        lambda: solve(problem),
        lambda: certify(problem, found),
        lambda: solve(problem.replace(C=2.0)),
    ):
        with pytest.raises(KernelsLost, match=rf"kernels\[{m}\] was written to since it was found .* state it again"):
            call()
    assert certify(sent, found).is_optimal(1e-6)


def test_a_stack_that_is_lost_is_stated_again(K):
    y = np.where(np.arange(N) % 2, 1.0, -1.0)
    problem = Problem(K, y)
    K *= 2.0
    again = Problem(K, y)
    assert solve(again).certificate.is_optimal(1e-6)
    K *= 0.5
    certify(problem, 0.1 * y)  # the entries are those that were proved


def test_few_samples_of_many_lose_nothing_that_rounding_explains(rng):
    x = rng.normal(size=600)
    whole = ArrayStack.trusted([np.outer(x, x)])
    assert whole.slack.all()
    assert not whole.part([0, 1, 2]).lost.any()
    single = stack([np.outer(x, x).astype(np.float32)])
    assert single.lost.all()
    np.testing.assert_array_equal(single.part([0, 1, 2]).lost, single.lost[:, :3])


def test_auto_says_what_it_chose(rng, monkeypatch):
    X, family = rng.normal(size=(40, 3)), gaussian([1.0, 2.0])
    kept = family.fit(X, storage="auto")
    assert isinstance(kept, ArrayStack)
    assert "chose 'memory': 2 matrices of order 40" in kept.choice
    sizes = [storage.checked_cache(text, 40) for text in ("7", "7B", "7k", "7 MB", "0.7GB", "0.007T")]
    assert sizes == [7, 7, 7_000, 7 * 10**6, 7 * 10**8, 7 * 10**9]
    monkeypatch.setattr(storage, "free_memory", lambda: 1e4)
    lazy = family.fit(X, storage="auto")
    assert isinstance(lazy, LazyStack)
    assert "chose 'lazy'" in lazy.choice
