"""Products of lazy kernels on the workers of a Dask cluster: the bits of one process, whoever is lost."""

from __future__ import annotations

import os
import signal

import numpy as np
import pytest

import mklref
from mklref import DistributedLazyStack, Lp, kernels
from mklref.exceptions import InvalidType
from mklref.factored import tiles


@pytest.fixture(scope="module")
def processes():
    with mklref.local_client(2) as made:
        yield made


def test_tiles_of_lazy_kernels_have_the_bits_of_one_process_and_survive_a_worker(processes):
    X = np.random.default_rng(0).normal(size=(60, 3))
    family = kernels.gaussian([1.0, 3.0]) + kernels.linear() + kernels.per_variable(kernels.laplacian(1.0))
    stack = family.fit(X, storage="lazy", normalize="multiplicative")
    there = DistributedLazyStack(stack, client=processes, tiles=5)
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
