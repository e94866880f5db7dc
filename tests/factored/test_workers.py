"""Rows on the workers of a Dask cluster: the bits of one process, and what happens when something is lost."""

from __future__ import annotations

import asyncio
import copy
import gc
import os
import pickle
import signal
import threading
import time
from concurrent import futures
from functools import partial
from itertools import pairwise
from unittest.mock import Mock

import dask.array as da
import numpy as np
import psutil
import pytest
from distributed.comm import CommClosedError
from makers import pressed
from scipy.sparse import csr_matrix, issparse

import mklref
from mklref import DistributedLazyStack, DistributedStack, Lp, kernels
from mklref.exceptions import InvalidInput, InvalidParameter, InvalidType, NotApplicable
from mklref.factored import approach, cluster as clusters, path, shard, solver
from mklref.factored.remote import Remote
from mklref.factored.rounds import Rounds, opened, targets_between

N, SHARDS, RNG = 300, 3, np.random.default_rng(3)
L = [RNG.normal(size=(N, r)) / np.sqrt(r) for r in (3, 5, 2)]
SCORE = L[0][:, 0] - 2.0 * L[1][:, 1] + 0.4 * RNG.normal(size=N)
STACK = kernels.FactorStack(L).sharded(SHARDS)
GIVEN = mklref.Problem(STACK, np.sign(SCORE), regularizer=Lp(4 / 3))
EDGES = [int(edge) for edge in STACK.edges]


@pytest.fixture(scope="module", autouse=True)
def samples_left_out():
    """After two steps of the approach, so that what a lost worker knew of them is asked for again as well."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(path, "_CHEAP", 0.0)
        patch.setattr(approach, "_FOUND", np.inf)
        patch.setattr(path, "_ROUGH", 1.0)
        patch.setattr(approach, "_ROUNDS", 2)
        patch.setattr(approach, "_CHANGE", 0.5)
        yield


@pytest.fixture(scope="module")
def alone():
    solution = solve(GIVEN)
    assert solution.history.counters["passes"] % 1.0 > 0.0  # steps have read some of the rows
    return solution


solve = partial(mklref.solve, tol=0.03)  # fewer rounds, for bits that are the same or not


def same(one, other):
    for name in ("dual_coef", "weights", "intercept", "certificate"):
        assert np.array_equal(getattr(one, name), getattr(other, name))


def loaded(first, last):
    return [one[first:last] for one in L]


def stacks(client):
    return {
        "dask": DistributedStack([da.from_array(one, chunks=(tuple(np.diff(EDGES)), 2)) for one in L], client=client),
        "loaded": DistributedStack([partial(loaded, a, b) for a, b in pairwise(EDGES)], client=client),
        "sparse": DistributedStack.of(kernels.FactorStack([csr_matrix(one) for one in L]), client),
    }


def test_answers_that_come_later_than_they_are_asked_for_take_no_others_along(client, monkeypatch):
    gather = client._gather_remote

    async def slowly(*given):
        await asyncio.sleep(0.2)
        return await gather(*given)

    monkeypatch.setattr(client, "_gather_remote", slowly)
    monkeypatch.setattr(clusters, "_BEAT", 0.01)
    assert stacks(client)["loaded"].shape[-1] == N


def test_an_answer_counts_that_comes_while_its_holder_is_asked_whether_it_is_there(client, monkeypatch):
    cluster, answer = stacks(client)["loaded"].cluster, futures.Future()
    known = cluster._workers()
    monkeypatch.setattr(clusters, "_BEAT", 0.01)
    monkeypatch.setattr(cluster, "_workers", lambda: (answer.set_result(7), known)[1])
    assert cluster.wait(0, answer, time.monotonic()) == 7


def test_a_shard_that_is_lost_before_it_was_described_is_loaded_again(client, monkeypatch):
    honest, asked = clusters.Cluster.ask, []

    def lost_once(cluster, k, name):
        asked.append(name)
        if len(asked) == 1:
            raise clusters._Broken
        return honest(cluster, k, name)

    monkeypatch.setattr(clusters.Cluster, "ask", lost_once)
    assert stacks(client)["loaded"].shape[-1] == N


def test_results_have_the_bits_of_one_process_with_the_same_shards(client, alone):
    same(solve(GIVEN, client=client), alone)
    for name in ("dask", "loaded"):
        same(solve(GIVEN.replace(kernels=stacks(client)[name])), alone)


def test_so_have_several_classes_and_a_start_from_a_part_of_the_samples(client, monkeypatch):
    y = np.digitize(SCORE, [-1.0, 1.0])
    given = mklref.MulticlassProblem(STACK, y, loss="logistic", regularizer=Lp(2), strategy="one_vs_one")
    same(solve(given, client=client), solve(given))
    for name, least in (("_FEWEST", 20), ("_WORTH", 0.0)):
        monkeypatch.setattr(solver, name, least)
    many = [np.tile(one, (6, 1)) for one in L]
    given = mklref.Problem(kernels.FactorStack(many).sharded(2), np.tile(GIVEN.y, 6), regularizer="l2")
    same(solve(given, client=client), solve(given))


@pytest.mark.parametrize("name", ["dask", "sparse"])
def test_a_stack_on_workers_answers_what_one_of_this_process_does(client, monkeypatch, name):
    monkeypatch.setattr(client, "direct_to_workers", name == "dask")  # else by way of the scheduler
    there, v, w = stacks(client)[name], RNG.normal(size=N), RNG.normal(size=STACK.rank)
    least = [int(STACK.own_diagonals.max(axis=0).argmin())]  # of two shards there is no row
    for index in (slice(None), [1, 7, 150, 299], [299, 1, 1], least):
        stack, here = (one if index == slice(None) else one.part(index) for one in (there, STACK))
        assert type(stack) is (kernels.FactorStack if index == [299, 1, 1] else DistributedStack)  # others stay there
        own = v[: stack.shape[1]]
        stack.lengths_against(own**2)[:] = 0.0  # of what is kept for the next time this is a copy
        asked = {"transposed": [own], "gram": [own**2], "product": [w], "read": [0, 1], "block": [[0, -1], [0]]}
        for what, given in (asked | {"traces": (), "largest_diagonals": (), "lengths_against": [own**2]}).items():
            said, known = (getattr(one, what)(*given) for one in (stack, here))
            assert np.allclose(said.toarray() if issparse(said) else said, known), what
        assert np.allclose(stack.own_diagonals, here.own_diagonals)
        assert np.allclose(abs(stack.images(own)) @ np.abs(own), abs(here.images(own)) @ np.abs(own))
    assert there.recipe == stacks(client)[name].recipe != there.part(least).recipe


def test_a_shard_may_have_a_single_row_or_none(client):
    cuts = [0, 100, 100, 101, N]
    there = DistributedStack([partial(loaded, a, b) for a, b in pairwise(cuts)], client=client)
    here = STACK.sharded(4)
    here.edges = tuple(cuts)
    same(solve(GIVEN.replace(kernels=there)), solve(GIVEN.replace(kernels=here)))
    assert len(DistributedStack.of(kernels.FactorStack(L), client).chosen) == len(client.ncores())
    every = kernels.FactorStack([one[:3] for one in L]).sharded(3)
    assert np.array_equal(DistributedStack.of(every, client).product(np.ones(10)), every.product(np.ones(10)))


def test_samples_and_shards_that_are_none_of_a_stack_on_workers_are_refused_as_here(client):
    there = stacks(client)["loaded"]
    assert there.part([-1]).shape == there.part(np.arange(N) == N - 1).shape == (3, 1, 1)
    for wrong in ([0, N], np.ones(N - 1, dtype=bool)):
        with pytest.raises(InvalidParameter, match=f"are none of the {N} samples"):
            there.part(wrong)
    with pytest.raises(NotApplicable, match="3 shards"):  # another cut would not be that of the workers
        there.sharded(2)
    with pytest.raises(clusters.ClusterLost, match=f"^shard 0 on {there.cluster.places[0].address}: AttributeError"):
        there._asked.each("nothing")
    for stack in (there, STACK):
        with pytest.raises(InvalidInput, match=r"w has shape \(4,\); expected 10 rows, one for each column of L"):
            stack.product(np.ones(4))
        with pytest.raises(InvalidInput, match=r"D has shape \(4,\); expected 300 rows"):
            stack.gram(np.ones(4))
        with pytest.raises(InvalidInput, match="weights"):
            stack.coefficients(np.ones(N), np.ones(4))


def read(path):
    return [np.load(path / f"{m}.npy") for m in range(len(L))]


@pytest.mark.parametrize("there", [True, False])
def test_a_shard_whose_worker_is_lost_is_loaded_again_and_continues_with_the_same_bits(tmp_path, alone, there):
    folders = [tmp_path / str(k) for k in range(SHARDS)]
    for folder, (first, last) in zip(folders, pairwise(EDGES), strict=True):
        folder.mkdir()
        for m, one in enumerate(L):
            np.save(folder / f"{m}.npy", one[first:last])
    with mklref.local_client(2, processes=False) as client:
        stack = DistributedStack([partial(read, folder) for folder in folders], client=client)
        address = stack.cluster.places[-1].address

        def close_one(record):
            if record.iteration == 4:
                (worker,) = [one for one in client.cluster.workers.values() if one.address == address]
                client.sync(worker.close, nanny=False)
                if not there:
                    (folders[-1] / "1.npy").rename(tmp_path / "away")

        given = GIVEN.replace(kernels=stack)
        if not there:
            with pytest.raises(mklref.Interrupted, match=r"source of shard 2 .* FileNotFoundError.*1.npy") as told:
                solve(given, callback=close_one)
            assert told.value.solution.certificate.lower <= alone.objective <= told.value.solution.certificate.upper
            (tmp_path / "away").rename(folders[-1] / "1.npy")  # the worker that has no holder yet is there
        same(solve(given, callback=close_one if there else None), alone)
        assert stack.cluster.counters["restored"] >= 1


@pytest.fixture(scope="module")
def processes():
    with mklref.local_client(2) as made:
        yield made


def test_what_is_started_here_listens_on_loopback_alone(processes):
    family = [psutil.Process(), *psutil.Process().children(recursive=True)]
    listening = [one.laddr.ip for own in family for one in own.net_connections("inet") if one.status == "LISTEN"]
    assert len(listening) >= 3
    assert set(listening) <= {"127.0.0.1", "::1"}


@pytest.mark.thorough
def test_a_worker_that_is_killed_in_the_middle_of_a_step_costs_nothing(processes, monkeypatch, alone):
    honest, killed = clusters.Session._round, []

    def deadly(session, name, arguments, together):
        if session.number == 17 and session.targets[0] is not None and not killed:
            killed.append(processes.run(os.getpid)[session.cluster.places[-1].address])
            os.kill(killed[0], signal.SIGSTOP)  # it gets the call, and never answers
            os.kill(killed[0], signal.SIGKILL)
        return honest(session, name, arguments, together)

    monkeypatch.setattr(clusters.Session, "_round", deadly)
    same(solve(GIVEN, client=processes), alone)
    assert killed


def test_what_was_kept_before_a_new_beginning_is_not_lost_with_a_worker(client, monkeypatch):
    """Rows are drawn as before, too: their number counts from the beginning; and steps have the digits they had."""
    monkeypatch.setattr(shard, "_LITTLE", 0.0)  # float64 is not for nothing
    stack = kernels.FactorStack([one.astype(np.float32) for one in L]).sharded(SHARDS)
    there, targets = DistributedStack.of(stack, client), [targets_between(GIVEN, a, b) for a, b in pairwise(EDGES)]
    here = Rounds(stack, [opened(stack, own, a, b, N) for own, (a, b) in zip(targets, pairwise(EDGES), strict=True)])
    v, nothing, found = RNG.normal(size=(1, STACK.rank)), np.zeros(1), []
    for rounds in (here, Remote(there, targets)):
        for k in range(3):
            if k:
                rounds.sum("keep")
            rounds.sum("score", k * v, nothing)
            rounds.sum("begin", 0.1, nothing)
            for length, digits in ((0.0, 2), (0.7, 0)):
                rounds.sum("assemble", length, False, np.ones(3), 9.0, 50.0, digits)
                rounds.sum("first", 1e-3 * v, nothing)
            if k == 2:
                there.cluster.places[2] = there.cluster.places[2]._replace(address="inproc://gone")
            grams = rounds.sum("assemble", 0.6, False, np.ones(3), 9.0, 50.0, 2).sums[0]
        found.append((grams, rounds.kept()))
    assert all(map(np.array_equal, *found))


def test_ctrl_c_ends_in_the_last_point_of_the_workers_and_they_forget_the_rows(client):
    def interrupted(**where):
        with pytest.raises(mklref.Interrupted) as told:
            solve(GIVEN, callback=pressed(7), **where)
        return told.value.solution

    workers = list(client.cluster.workers.values())
    held = {key for worker in workers for key in worker.state.actors}
    gc.disable()
    try:
        same(interrupted(client=client), interrupted())
        patience = time.monotonic() + 10.0
        while any(set(worker.state.actors) - held for worker in workers) and time.monotonic() < patience:
            time.sleep(0.01)
        assert not any(set(worker.state.actors) - held for worker in workers)
    finally:
        gc.enable()


def unreachable(client, address):
    raise CommClosedError(f"{address} has reset the connection")


@pytest.mark.parametrize("how", ["the rows do not arrive", "the rows are lost", "the actor is lost"])
def test_a_worker_that_is_lost_before_it_has_its_rows_costs_nothing(client, monkeypatch, alone, how):
    """What comes of it depends on the moment: an error of the connection or the scheduler, or a future that is over."""
    honest, gone = clusters.Cluster._submitted, []

    def submitted(cluster, place):
        if place.shard != 2 or gone:
            return honest(cluster, place)
        gone.append(place.address)
        if how == "the rows are lost":
            threading.Timer(0.1, (late := cluster.client.submit(time.sleep, 0.5, pure=False)).cancel).start()
            return late
        if how == "the actor is lost":  # so the scheduler says, which has no traceback
            return Mock(cancelled=lambda: False, exception=lambda timeout: OSError(), traceback=lambda timeout: None)
        with monkeypatch.context() as once:
            once.setattr(cluster, "sources", [*cluster.sources[:2], unreachable])
            return honest(cluster, place)

    monkeypatch.setattr(clusters.Cluster, "_submitted", submitted)
    given = GIVEN.replace(kernels=DistributedStack.of(STACK, client))
    same(solve(given), alone)
    assert given.kernels.cluster.places[2].address != gone[0]


def test_a_worker_that_goes_while_versions_are_compared_is_none(client, monkeypatch, alone):
    lost, there = CommClosedError("reset by peer"), client.run(clusters.versions)
    monkeypatch.setattr(client, "run", lambda *args, **options: {**there, "tcp://127.0.0.1:1": lost})
    same(solve(GIVEN, client=client), alone)
    monkeypatch.setattr(client, "run", lambda *args, **options: {"tcp://127.0.0.1:1": lost})
    with pytest.raises(InvalidInput, match="client cannot reach its workers: CommClosedError: reset by peer; connect"):
        solve(GIVEN, client=client)


def test_a_scheduler_that_goes_away_leaves_the_best_certified_point(alone):
    with mklref.local_client(2, processes=False) as client:

        def close(record):
            if record.iteration == 4:
                client.sync(client.cluster.scheduler.close)

        given = GIVEN.replace(kernels=DistributedStack.of(STACK, client))
        with pytest.raises(mklref.Interrupted, match="scheduler") as told:
            solve(given, callback=close)
        client.cluster.scheduler_comm = None  # or closing waits for it
    certificate = told.value.solution.certificate
    assert certificate.lower <= alone.objective <= certificate.upper
    assert np.isfinite(certificate.gap)


def test_a_worker_that_is_slow_is_waited_for_and_the_wait_ends(client, monkeypatch, alone):
    monkeypatch.setattr(clusters, "_BEAT", 0.1)
    stack = DistributedStack.of(STACK, client)
    slow = stack.cluster.places[-1]
    (worker,) = [one for one in client.cluster.workers.values() if one.address == slow.address]
    holder, free = worker.state.actors[slow.key], threading.Event()
    honest, held = holder.stack.read, []

    def late(*arguments):
        if held:  # counted from here: on a busy machine any other may be late as well
            stack.cluster.timeout = 0.2
        free.wait(60.0 if held else 0.01)
        return honest(*arguments)

    holder.stack.read = late
    same(solve(GIVEN.replace(kernels=stack)), alone)
    with pytest.raises(mklref.Interrupted, match=r"shard 2 on .* has not answered for 0.2 s, the timeout") as told:
        solve(GIVEN.replace(kernels=stack), callback=lambda record: held.append(record))
    free.set()
    assert np.isfinite(told.value.solution.certificate.gap)


def test_rows_that_do_not_come_are_waited_for_and_so_is_a_worker(client, monkeypatch):
    monkeypatch.setattr(clusters, "_BEAT", 0.01)
    cluster, late = stacks(client)["loaded"].cluster, client.submit(time.sleep, 0.4, pure=False)
    cluster.timeout = 0.15
    with pytest.raises(clusters.ClusterLost, match=r"shard 0 on .* has not loaded it for 0.15 s, the timeout"):
        cluster._settle(0, late)
    cluster.places[0] = cluster.places[0]._replace(address="inproc://gone")
    with pytest.raises(clusters._Broken):  # at once
        cluster._settle(0, late)
    answers = iter([{}, {"inproc://new": 1}])
    monkeypatch.setattr(client, "ncores", lambda **_: next(answers, {}))
    assert cluster._workers() == ["inproc://new"]
    with pytest.raises(clusters.ClusterLost, match=r"the scheduler at .* has no worker"):
        cluster._workers()


def test_what_is_on_workers_is_neither_pickled_nor_copied(client):
    tiled = DistributedLazyStack(kernels.linear().fit(L[0], storage="lazy"), client=client)
    for made in (stacks(client)["loaded"], tiled, GIVEN.replace(kernels=stacks(client)["loaded"])):
        for how in (pickle.dumps, copy.deepcopy):
            with pytest.raises(InvalidType, match=r"neither pickled nor copied: .* make it again, Distributed"):
                how(made)


def test_a_client_has_to_be_open_and_its_workers_alike(client, monkeypatch):
    with pytest.raises(InvalidType, match="local_client"):
        solve(GIVEN, client="tcp://127.0.0.1:8786")
    lazy = kernels.linear().fit(L[0], storage="lazy")
    with mklref.local_client(1, processes=False) as closed:
        there, tiled = DistributedStack.of(STACK, closed), DistributedLazyStack(lazy, client=closed)
        with pytest.raises(InvalidParameter, match="tiles = 0"):
            DistributedLazyStack(lazy, client=closed, tiles=0)
    with pytest.raises(mklref.Interrupted, match="client is closed"):
        solve(GIVEN.replace(kernels=there))
    with pytest.raises(clusters.ClusterLost, match="client is closed"):
        tiled.apply(SCORE)
    with pytest.raises(InvalidInput, match="client is closed"):
        solve(GIVEN, client=closed)
    with pytest.raises(NotApplicable, match="FactorStack"):
        solve(GIVEN.replace(kernels=STACK.dense_stack()), client=client)
    known = iter(["2.1", "2.0", "2.0"])
    monkeypatch.setattr(clusters, "versions", lambda: {"numpy": next(known)})
    with pytest.raises(NotApplicable, match=r"numpy 2.0 there, 2.1 here"):
        solve(GIVEN, client=client)
