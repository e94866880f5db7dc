"""Kernels that lie elsewhere, on disk or with workers: their entries, what is read and kept, changes or is lost."""

from __future__ import annotations

import os
import signal
import sys
from types import SimpleNamespace

import h5py
import numpy as np
import pytest
from makers import agree

import mklref
from mklref import DistributedLazyStack, Lp, Problem, kernels, solve
from mklref.exceptions import InvalidInput, InvalidKernel, InvalidType, KernelsLost, PlainTextWarning
from mklref.factored import cluster as clusters, tiles
from mklref.kernels import DiskStack, FactorStack, gaussian, stack as stack_of, storage


@pytest.fixture(scope="module")
def X():
    return np.random.default_rng(0).normal(size=(40, 12)) + 3.0


@pytest.mark.sampled(3)
@pytest.mark.parametrize("kind", ["memmap", "hdf5", "zarr", "zip", "list"])
def test_matrices_on_disk_are_read_by_rows(X, tmp_path, kind):
    held = gaussian([1.0, 4.0]).fit(X)
    K = held.dense()
    if kind == "hdf5":
        with h5py.File(tmp_path / "K.h5", "w") as file:
            file["K"] = K
        source = h5py.File(tmp_path / "K.h5", "r")["K"]
    elif kind == "zarr":
        zarr = pytest.importorskip("zarr", reason="zarr is not installed")
        source = zarr.open_array(tmp_path / "K.zarr", mode="w", shape=K.shape, chunks=(1, 16, 40), dtype=K.dtype)
        source[:] = K
    elif kind == "zip":
        zarr = pytest.importorskip("zarr", reason="zarr is not installed")
        with zarr.storage.ZipStore(tmp_path / "K.zip", mode="w") as store:
            zarr.open_array(store, mode="w", shape=K.shape, chunks=(1, 16, 40), dtype=K.dtype)[:] = K
        source = zarr.open_array(zarr.storage.ZipStore(tmp_path / "K.zip", mode="r"), mode="r")
    else:
        np.save(tmp_path / "K.npy", K)
        source = np.load(tmp_path / "K.npy", mmap_mode="r")
    stack = DiskStack(list(source) if kind == "list" else source)
    rows = np.array([7, 3, 39, 3])
    np.testing.assert_array_equal(stack.block(rows, [5, 1], [1]), held.block(rows, [5, 1], [1]))
    np.testing.assert_array_equal(stack.own_diagonals, held.own_diagonals)
    backwards = stack.part(np.arange(40)[::-1])
    np.testing.assert_array_equal(backwards.rows(rows), held.dense()[:, ::-1, ::-1][:, rows])
    np.testing.assert_array_equal(backwards.part(rows[:3]).dense(), held.block(39 - rows[:3], 39 - rows[:3]))
    y = np.where(X[:, 0] > 3.0, 1.0, -1.0)
    found, expected = (solve(Problem(one, y), tol=1e-6).certificate for one in (stack, held))
    agree(found, expected)
    if kind != "list" and sys.platform != "win32":  # where what is open cannot be renamed
        path = tmp_path / {"hdf5": "K.h5", "zarr": "K.zarr", "zip": "K.zip", "memmap": "K.npy"}[kind]
        path.rename(tmp_path / "elsewhere")
        with pytest.raises(KernelsLost, match=rf"{path.name} vanished while its kernels were in use"):
            stack.rows(rows)


def test_diagonals_on_disk_take_few_reads(X, monkeypatch):
    K, reads = gaussian([1.0, 4.0]).fit(X).dense(), []

    class Chunks:
        shape, dtype = K.shape, K.dtype

        def __getitem__(self, where):
            reads.append(where)
            return K[where]

    stack = DiskStack(Chunks())
    reads.clear()
    monkeypatch.setattr("mklref.kernels.protocol._HELD", 2 * 40 * 15)
    np.testing.assert_array_equal(stack.own_diagonals, K.diagonal(axis1=1, axis2=2))
    assert len(reads) == 2 * 3


@pytest.mark.parametrize("kind", [DiskStack, FactorStack])
def test_no_map_is_read_whose_file_is_shorter_now(tmp_path, kind):
    """Also not through an array, which does not tell its file: the process would end."""
    np.save(tmp_path / "L.npy", np.ones((1, 40, 40)))
    whole = np.asarray(np.load(tmp_path / "L.npy", mmap_mode="r"))
    stack = kind(list(whole))
    os.truncate(tmp_path / "L.npy", 1000)
    for read in (stack.part, stack.apply):
        with pytest.raises(KernelsLost, match=r"L\.npy changed while its kernels were in use"):
            np.asarray(read(np.arange(40)))


def test_a_bad_entry_on_disk_is_named_when_it_is_read(X, tmp_path):
    K = gaussian([1.0, 4.0]).fit(X).dense().copy()
    K[1, 30, 2] = np.nan
    stack = DiskStack(K, names=["narrow", "wide"])
    stack.rows(np.arange(20))
    with pytest.raises(InvalidInput, match=r"kernel 'wide' is nan at \[30, 2\]"):
        stack.rows(np.arange(40))
    K[0, 0, 39] += 1.0
    with pytest.raises(InvalidKernel, match=r"kernel 'narrow' is not symmetric: \[0, 39\] and \[39, 0\] differ by 1"):
        DiskStack(K, names=["narrow", "wide"])
    with h5py.File(tmp_path / "K.h5", "w") as file:
        closed = file.create_dataset("K", data=K)
    for made in (FactorStack, stack_of):
        with pytest.raises(InvalidInput, match=r"is <Closed HDF5 dataset>, which cannot be read"):
            made([closed])
    for nothing in (closed, h5py.Empty("f8"), "K.npy", [np.eye(2), "K.npy"], [SimpleNamespace(shape=(2, 2))], None):
        with pytest.raises(InvalidType, match=r"give np\.memmap"):
            DiskStack(nothing)
    with pytest.raises(InvalidType, match="matrices are int64"):
        DiskStack(np.ones((2, 3, 3), dtype=np.int64))
    with pytest.raises(InvalidKernel, match="expected M of"):
        DiskStack(np.ones((2, 3, 4)))
    for shape in ((), (3,), (0, 3, 3), (2, 0, 0)):
        with pytest.raises(InvalidKernel, match="expected M of"):
            DiskStack(np.ones(shape))


def test_a_file_that_is_closed_in_the_middle_leaves_the_best_certified_point(X, tmp_path):
    with h5py.File(tmp_path / "K.h5", "w") as file:
        file["K"] = gaussian([1.0, 4.0]).fit(X).dense()
    file = h5py.File(tmp_path / "K.h5", "r")
    given = Problem(DiskStack(file["K"]), np.where(X[:, 0] > 3.0, 1.0, -1.0))
    with pytest.raises(KernelsLost, match=r"kernel 'K0' cannot be read, .* its file has to stay open") as lost:
        solve(given, tol=1e-12, callback=lambda record: file.close())
    assert lost.value.solution.certificate.gap < np.inf


@pytest.fixture(scope="module")
def processes():
    with mklref.local_client(2) as made:
        yield made


@pytest.mark.thorough
def test_tiles_of_lazy_kernels_have_the_bits_of_one_process_and_survive_a_worker(processes):
    X = np.random.default_rng(0).normal(size=(60, 3))
    family = kernels.gaussian([1.0, 3.0]) + kernels.linear() + kernels.per_variable(kernels.laplacian(1.0))
    stack = family.fit(X, storage="lazy", normalize="multiplicative")
    there = DistributedLazyStack(stack, client=processes, tiles=5, timeout=np.inf)
    v, every = np.where(np.arange(60) % 3, X[:, 0], 0.0), np.arange(len(stack))
    here = [
        tiles.tile(stack, np.flatnonzero(v), v[v != 0.0], columns, every) for columns in np.array_split(range(60), 5)
    ]
    assert np.array_equal(there.apply(v), np.concatenate(here, axis=1))
    assert np.allclose(there.apply(v, [1, 2]), stack.apply(v, [1, 2]))
    assert there.evaluated == stack.shape[0] * 40 * 60 + 2 * 40 * 60
    some = np.array([3, 9, 40, 41])
    assert np.allclose(there.part(some).part([1, 2]).apply(np.ones(2)), stack.part(some[1:3]).apply(np.ones(2)))
    given = mklref.Problem(there, np.sign(X[:, 0] * X[:, 1]), regularizer=Lp(2))
    solution = mklref.solve(given.replace(kernels=stack))
    exact = mklref.certify(given, solution)
    assert exact.relative_gap <= 1.1e-6
    pids = processes.run(os.getpid)
    os.kill(next(iter(pids.values())), signal.SIGKILL)
    again = mklref.certify(given, solution)
    assert (again.lower, again.upper) == (exact.lower, exact.upper)
    expected = there.apply(v)
    for pid in processes.run(os.getpid).values():  # the samples are lost with the last of the workers that had them
        os.kill(pid, signal.SIGKILL)
    assert np.array_equal(there.apply(v), expected)
    there.timeout = 1e-9
    with pytest.raises(RuntimeError, match="not finished by the workers within"):
        there.apply(v)
    with pytest.raises(InvalidType, match="storage='lazy'"):
        DistributedLazyStack(there.fitted, client=processes)


@pytest.mark.parametrize(
    ("free", "n", "cache"),
    [(20e9, 40, 2e9), (20e9, 12000, 2.304e9), (20e9, 60000, 5e9), (1e4, 40, 2500), (np.inf, 60000, 2e9)],
)
def test_the_default_cache_has_room_for_what_a_solver_needs_of_all_samples(monkeypatch, free, n, cache):
    """With less, machines most of whose samples are support vectors are solved by working sets, which takes longer."""
    monkeypatch.setattr(storage, "free_memory", lambda: free)
    assert storage.checked_cache(None, n) == cache


def test_plain_text_on_an_address_that_others_reach_is_warned_of(client, monkeypatch):
    others = ["tcp://10.0.0.7:8786", "tcp://[2001:db8::1]:8786", "ws://cluster:80"]
    own = ["tcp://127.0.0.1:8786", "tcp://[::1]:8786", "tcp://localhost:1", "tls://10.0.0.7:1", "inproc://10.0.0.7/1"]
    assert [clusters._readable_by_others(address) for address in (*others, *own)] == [True] * 3 + [False] * 5
    monkeypatch.setattr(clusters, "_readable_by_others", lambda address: True)
    with pytest.warns(PlainTextWarning, match="Security"):
        clusters.check_client(client)
