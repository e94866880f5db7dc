"""Shards on the workers of a Dask cluster: where they are, rounds over them, and what happens when one is lost.

A shard on a worker is a function of its rows and of the calls that it had since its last `score`, and what it keeps, of
those since the one before that. The rows come from a source that can be asked again, and the calls are small. So a
worker that is lost costs its work and nothing else: another one loads the rows, goes over the calls without their sums,
and the round is repeated, with the same bits.
"""

from __future__ import annotations

import asyncio
import importlib.util
import ipaddress
import threading
import time
import uuid
from collections.abc import Callable, Sequence
from concurrent import futures
from contextlib import suppress
from typing import Any

from mklref.exceptions import InvalidInput, InvalidType, MissingExtra, NotApplicable, PlainTextWarning, warn
from mklref.factored.holder import Answer, Holder, Place
from mklref.factored.shard import Total

_BEAT, _ANSWER = 0.5, 5.0
"""Seconds after which holders that have not answered are asked whether they are there, and for their answer."""
_WITHOUT = 60.0
"""Seconds without any worker."""
_REPEATS = 5
"""Rounds in a row that may break."""
_REPLAYED = {"score": "score", "begin": "begin", "assemble": "advance", "first": "first", "second": "second"}
_REPLAYED |= {"third": "third", "keep": "keep", "look": "look", "evaluate": "evaluate"}
"""What changes a shard, and the part of it that does."""


class ClusterLost(RuntimeError):
    """The cluster cannot go on; the message is a sentence that says why."""


Parts = tuple[Callable[..., Any], tuple[Any, ...]]
"""A function, and its arguments or futures of them on a worker, that give the stack of a shard."""
Source = Callable[[Any, str], Parts]
"""Where the rows of a shard come from: its parts for a client and the address of a worker."""


class Cluster:
    """Shards of a stack on the workers of a client."""

    def __init__(self, client: Any, sources: Sequence[Source], timeout: float) -> None:
        check_client(client)
        self.client, self.sources, self.timeout = client, list(sources), timeout
        self.scheduler = client.scheduler.address  # a client that is closed does not know it any more
        self.places: list[Place] = []
        self.actors: list[Any] = [None] * len(sources)
        """Futures, without which Dask would forget the holders."""
        self.sessions: dict[str, Session] = {}
        self.lost: set[str] = set()
        """Addresses of workers that do not answer."""
        self.counters = {"rounds": 0, "restored": 0}
        self.lock = threading.RLock()
        """One round at a time, whichever thread and session asks for it: a shard that is lost is restored for all."""
        addresses = self._workers()
        share = [addresses[k * len(addresses) // len(sources)] for k in range(len(sources))]
        self.places = [Place(k, address, "") for k, address in enumerate(share)]
        made: list[Any] = [None] * len(sources)
        for k, place in enumerate(self.places):
            with suppress(_Broken):
                made[k] = self._submitted(place)
        for k, future in enumerate(made):
            with suppress(_Broken):  # who asks it first finds out, and has it made elsewhere
                if future is not None:
                    self._settle(k, future)

    def close(self) -> None:
        """The workers forget the rows, and all that was opened with them."""
        self.sessions.clear()
        self.actors.clear()

    def ask(self, k: int, name: str, *arguments: Any) -> Any:
        """One holder, waited for."""
        return self.wait(k, self.send(k, name, *arguments), time.monotonic())

    def send(self, k: int, name: str, *arguments: Any) -> Any:
        """A method of one holder; a `concurrent.futures.Future`. By the scheduler, if the client reaches no worker."""
        from distributed.protocol import to_serialize

        client, place = self.client, self.places[k]
        require_open(client)
        message: Any = {"actor": place.key, "function": name, "args": [to_serialize(one) for one in arguments]}

        async def called() -> Any:
            if client.direct_to_workers:
                said = await client.rpc(place.address).actor_execute(**message, kwargs={})
            else:
                message.update(op="actor_execute", kwargs={})
                said = await client.scheduler.proxy(worker=place.address, msg=message)
            if said["status"] != "OK":
                raise said["exception"]
            return said["result"]

        return asyncio.run_coroutine_threadsafe(called(), client.loop.asyncio_loop)

    def restore(self) -> None:
        """Shards whose workers do not answer are made anew elsewhere, and brought to where they were."""
        known = self._workers()
        gone = [k for k, place in enumerate(self.places) if place.address not in known or self._ping(k) is None]
        self.lost |= {self.places[k].address for k in gone if self.places[k].key}  # without a holder it may be there
        for k in gone:
            self.counters["restored"] += 1
            addresses = self._workers()
            held = [place.address for place in self.places]
            self.places[k] = Place(k, min(addresses, key=held.count), "")
            self._settle(k, self._submitted(self.places[k]))
            for session in list(self.sessions.values()):
                session.replay(k)

    def _submitted(self, place: Place) -> Any:
        """The future of a holder; raises `_Broken` if the worker is lost before it has the rows."""
        from distributed.comm import CommClosedError

        try:
            load, parts = self.sources[place.shard](self.client, place.address)
        except CommClosedError:
            self.lost.add(place.address)
            raise _Broken from None
        except Exception as failure:  # whatever a source raises
            raise ClusterLost(f"the source of shard {place.shard} cannot be read: {_told(failure)}") from failure
        where: Any = {"workers": [place.address], "allow_other_workers": False, "pure": False}
        return self.client.submit(
            Holder, place.shard, load, *parts, actor=True, key=f"mklref-shard-{uuid.uuid4().hex}", **where
        )

    def _settle(self, k: int, future: Any) -> None:
        """Wait for a holder that is being made; raises `_Broken` if its worker is lost meanwhile.

        What it is is not asked for: an answer that a timeout ends takes the next one, which shares it, along.
        """
        from distributed import wait

        began, address = time.monotonic(), self.places[k].address
        while not future.done():
            try:
                wait(future, timeout=_BEAT)
            except TimeoutError:
                if address not in self._workers():
                    raise _Broken from None
                if time.monotonic() - began > self.timeout:
                    raise ClusterLost(self._late([k], "not loaded it")) from None
            except futures.CancelledError:
                break
        failure = None if future.cancelled() else future.exception(timeout=_ANSWER)
        if future.cancelled() or (failure is not None and future.traceback(timeout=_ANSWER) is None):
            self.lost.add(address)  # with the rows that were sent to it, or, as the scheduler says, with the holder
            raise _Broken
        if failure is not None:  # whatever a source raises
            raise ClusterLost(f"the source of shard {k} cannot be read: {_told(failure)}") from failure
        self.actors[k] = future
        self.places[k] = Place(k, address, future.key)

    def _workers(self) -> list[str]:
        """Addresses of the workers that answer, in a fixed order; waits for one."""
        began = time.monotonic()
        while True:
            try:
                if self.client.status != "running":
                    raise OSError
                found = sorted(set(self.client.ncores(callback_timeout=_ANSWER)) - self.lost)
            except (OSError, TimeoutError, RuntimeError, AttributeError):  # the last one while the client is closed
                raise ClusterLost(f"the scheduler at {self.scheduler} is gone, or the client closed") from None
            if found:
                return found
            if time.monotonic() - began > min(_WITHOUT, self.timeout):
                raise ClusterLost(f"the scheduler at {self.scheduler} has no worker")
            time.sleep(0.1)

    def _ping(self, k: int) -> bool | None:
        """Whether holder k is at work; None if it does not answer."""
        try:
            return bool(self.send(k, "ping").result(timeout=_ANSWER))
        except _FAILURES:
            return None

    def wait(self, k: int, future: Any, began: float) -> Any:
        """The answer of holder k; raises `_Broken` if it does not answer any more."""
        while not futures.wait([future], timeout=_BEAT).done:
            known = set(self._workers())  # the scheduler knows at once that a connection is closed
            if any(place.address not in known for place in self.places) or self._ping(k) is None:
                raise _Broken
            if time.monotonic() - began > self.timeout:
                busy = [j for j in range(len(self.places)) if self._ping(j) is not False]  # others wait for them
                raise ClusterLost(self._late(busy or [k], "not answered"))
        try:
            return future.result()
        except _FAILURES:
            raise _Broken from None

    def persistently(self, work: Callable[[], list[Any]]) -> list[Any]:
        """Do it; if a worker is lost, restore its shards and do it again."""
        with self.lock:
            for _ in range(_REPEATS):
                try:
                    return work()
                except _Broken:
                    with suppress(_Broken):  # if another one went meanwhile, the next attempt finds out
                        self.restore()
        raise ClusterLost(f"workers were lost in {_REPEATS} attempts at one round")

    def _late(self, shards: Sequence[int], what: str) -> str:
        where = ", ".join(f"shard {k} on {self.places[k].address}" for k in shards)
        return f"{where} has {what} for {self.timeout:g} s, the timeout"


class _Broken(Exception):
    """A holder that does not answer."""


_FAILURES = (OSError, TimeoutError, RuntimeError, ValueError, KeyError)
"""What comes of a call to a worker that is gone, or was; what went wrong in the work itself is an `Answer`."""


class Session:
    """Something that every holder has opened: products with its rows, or steps with its samples.

    For each shard there are the `chosen` rows that matter, None for all, and the `targets`, what its samples are, None
    for products; n is the number of samples of all shards.
    """

    def __init__(self, cluster: Cluster, chosen: Sequence[Any], targets: Sequence[Any], n: int) -> None:
        self.cluster, self.chosen, self.targets, self.n = cluster, chosen, targets, n
        self.name, self.number, self.attempt = uuid.uuid4().hex, 0, 0
        self.log: list[tuple[int, str, Any]] = []
        cluster.sessions[self.name] = self
        self.cluster.persistently(lambda: list(map(self._open, range(len(chosen)))))

    def each(self, name: str, *arguments: Any) -> list[Any]:
        """What every shard answers."""
        return self.apply(name, [arguments] * len(self.chosen), together=False)

    def sum(self, name: str, *arguments: Any) -> Total:
        """The sum of what they answer, added from worker to worker."""
        made: Total = self.apply(name, [arguments] * len(self.chosen), together=True)[0]
        return made

    def apply(self, name: str, arguments: Sequence[Any], together: bool) -> list[Any]:
        """A call with arguments for each shard; together, the sum stands in the first place."""
        with self.cluster.lock:
            self.number += 1
            self.cluster.counters["rounds"] += 1
            answers = self.cluster.persistently(lambda: self._round(name, arguments, together))
            if name in _REPLAYED:
                self.log.append((self.number, name, arguments))
            if name == "keep":  # until then what was kept before may still be asked for
                last = max(i for i, (_, called, _) in enumerate(self.log) if called == "score")
                self.log = self.log[last:]
            return answers

    def close(self) -> None:
        """The holders forget it; those that do not answer have nothing to forget.

        Without the lock: it is called by the garbage collector, in any thread, also in that which answers come by.
        """
        known = self.cluster.sessions.pop(self.name, None) is not None
        if known and self.cluster.client.status == "running":
            for k in range(len(self.chosen)):
                self.cluster.send(k, "close", self.name)

    def replay(self, k: int) -> None:
        """Bring a new holder to where the lost one was before the present call."""
        self._open(k)
        for number, name, arguments in self.log:
            own = [arguments[k][j] for j in (0, 1, -1)] if name == "assemble" else arguments[k]
            self.attempt += 1
            call = (self.name, number, self.attempt, _REPLAYED[name], own, ())
            self._value(self.cluster.ask(k, "call", *call))

    def _open(self, k: int) -> None:
        self._value(self.cluster.ask(k, "open", self.name, self.chosen[k], self.targets[k], self.n))

    def _round(self, name: str, arguments: Sequence[Any], together: bool) -> list[Any]:
        places, began = self.cluster.places, time.monotonic()
        self.attempt += 1
        sent = []
        for k in range(len(places)):
            below = [places[j] for j in children(k, len(places))] if together else []
            call = (self.name, self.number, self.attempt, name, arguments[k], below)
            sent.append(self.cluster.send(k, "call", *call))
        return [self._value(self.cluster.wait(k, future, began)) for k, future in enumerate(sent)]

    @staticmethod
    def _value(answer: Answer) -> Any:
        if answer.failed is not None:
            raise ClusterLost(answer.failed)
        if answer.lost is not None:
            raise _Broken
        return answer.value


def children(k: int, shards: int) -> list[int]:
    """Whose sums holder k adds to its own, in this order, so that the whole is `sum_in_pairs`."""
    found, step = [], 1
    while k % (2 * step) == 0 and step < shards:
        if k + step < shards:
            found.append(k + step)
        step *= 2
    return found


def require_open(client: Any) -> None:
    """Raise `ClusterLost` for a client that has been closed, or has lost its scheduler."""
    if client.status != "running":
        raise ClusterLost(f"the client is {client.status} or its scheduler gone; connect again, make the stack anew")


def check_client(client: Any) -> None:
    """Refuse what is no open client of workers that can do the work; warn of addresses that anybody can read.

    `MissingExtra` without Dask, `InvalidType` for no client, `InvalidInput` for one that is closed, and `NotApplicable`
    for workers without mklref, or with other versions of what makes the numbers.
    """
    require_dask()
    from distributed import Client
    from distributed.comm import CommClosedError

    if not isinstance(client, Client):
        raise InvalidType(
            f"client is {type(client).__name__}; give a dask.distributed.Client, such as mklref.local_client()."
        )
    if client.asynchronous:
        raise InvalidType("client is asynchronous; give one that waits: Client(address).")
    if client.status != "running":
        raise InvalidInput(f"client is {client.status}; connect again: Client(address).")
    try:
        own, every = versions(), client.run(versions, on_error="return")
    except (OSError, TimeoutError, RuntimeError) as failure:
        raise InvalidInput(f"client cannot reach its workers: {_told(failure)}; connect again.") from None
    found = {one: told for one, told in every.items() if not isinstance(told, CommClosedError)}  # those are gone
    if every and not found:
        raise InvalidInput(f"client cannot reach its workers: {_told(next(iter(every.values())))}; connect again.")
    for address, told in found.items():
        if not isinstance(told, dict):
            raise NotApplicable(f"the worker {address} cannot import mklref: {_told(told)}. Install it there as here.")
        different = [f"{name} {told.get(name)} there, {here} here" for name, here in own.items() if told[name] != here]
        if different:
            raise NotApplicable(
                f"the worker {address} has other versions: {'; '.join(different)}. Results would depend on where a "
                "shard is; install the same everywhere."
            )
    open_to_all = [one for one in (client.scheduler.address, *found) if _readable_by_others(one)]
    if open_to_all:
        warn(
            f"{', '.join(open_to_all)}: plain text on an address that is not loopback. Whoever reaches it can read the "
            "data and run code; use TLS, Client(..., security=distributed.Security(...)).",
            PlainTextWarning,
        )


def require_dask() -> None:
    """Raise `MissingExtra` unless Dask is installed."""
    if importlib.util.find_spec("distributed") is None:
        raise MissingExtra("several processes need Dask, which is not installed: pip install 'mklref[distributed]'.")


def versions() -> dict[str, str]:
    """Of what makes the numbers, and of what carries them."""
    import platform
    from importlib.metadata import version

    import mklref

    names = ("numpy", "scipy", "distributed")
    python = ".".join(platform.python_version_tuple()[:2])
    return {"mklref": mklref.__version__, "Python": python, **{name: version(name) for name in names}}


def _readable_by_others(address: str) -> bool:
    protocol, _, rest = address.partition("://")
    if protocol not in ("tcp", "ws", "ucx"):
        return False
    host = rest.rpartition(":")[0].strip("[]") if ":" in rest else rest
    try:
        return not ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host != "localhost"


def _told(failure: Any) -> str:
    return f"{type(failure).__name__}: {failure}"
