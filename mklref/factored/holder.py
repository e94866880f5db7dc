"""What a worker of Dask holds: the rows of one shard, and the vectors of those who work with them.

A `Holder` is an actor. Its methods are coroutines, so that it answers while it computes: the work is done by one thread
of the worker, and a holder adds to its own part what the holders below it in the tree have, which they hand over from
worker to worker. A part is kept until the next one, and whoever asks for the same number again gets it again: a round
that a lost worker broke is repeated without doing anything twice.
"""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from mklref._threads import blas_threads
from mklref._typing import Array
from mklref.factored.rounds import Targets, opened
from mklref.factored.shard import Total
from mklref.kernels.factor_stack import FactorStack


class Answer(NamedTuple):
    """What a holder says: a value, or which shard is out of reach, or what went wrong in which shard."""

    value: Any = None
    lost: int | None = None
    failed: str | None = None


SUMMED = ("transposed", "gram", "lengths_against", "traces")
"""What is added over shards; everything else is put side by side."""


class Place(NamedTuple):
    """Where a holder is: number of its shard, address of the worker, key of the actor."""

    shard: int
    address: str
    key: str


class Products:
    """Sums and vectors over the rows of a shard that a certificate asks for: what its stack says by the same name."""

    def __init__(self, stack: FactorStack) -> None:
        self.stack = stack

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def said(*arguments: Any) -> Any:
            value = getattr(self.stack, name)
            value = value(*arguments) if callable(value) else value
            return Total((value,)) if name in SUMMED else value

        return said

    def largest_diagonals(self) -> Array:
        """Those of a shard without rows are 0."""
        return self.stack.largest_diagonals() if self.stack.shape[1] else np.zeros(len(self.stack))

    def rows(self, index: Any) -> Any:
        """Rows of L: an array, or CSR."""
        return self.stack.part(index).read(0, len(index))


class Holder:
    """A shard on a worker, an actor; `load(*parts)` makes its stack."""

    def __init__(self, shard: int, load: Callable[..., FactorStack], *parts: Any) -> None:
        from distributed import get_worker

        self.shard, self.worker, self.busy = shard, get_worker(), False
        self.stack = load(*parts)
        self.sessions: dict[str, Any] = {}
        self.parts: dict[str, tuple[int, asyncio.Future[Answer]]] = {}
        self.totals: dict[str, dict[int, asyncio.Future[Any]]] = {}

    async def describe(self) -> dict[str, Any]:
        """What all shards have to agree on, and the number of rows."""
        stack = self.stack
        return {
            "names": stack.names,
            "ranks": tuple(stack.ranks.tolist()),
            "dtype": str(stack.dtype),
            "sparse": stack.sparse,
            "n": stack.shape[1],
        }

    async def ping(self) -> bool:
        """Answers at once whether work goes on."""
        return self.busy

    async def open(self, session: str, chosen: Any, targets: Sequence[Targets] | None, n: int) -> Answer:
        """Begin with some of the rows (None for all): products of them, or steps with these targets."""

        def work() -> None:
            stack = self.stack if chosen is None else self.stack.part(chosen)
            if targets is None:
                self.sessions[session] = Products(stack)
            else:
                self.sessions[session] = opened(stack, targets, 0, stack.shape[1], n)

        return await self._working(work)

    async def close(self, session: str) -> None:
        """Forget it."""
        self.sessions.pop(session, None)
        self.parts.pop(session, None)
        for left in self.totals.pop(session, {}).values():
            self._give_up(left)

    async def call(
        self, session: str, number: int, attempt: int, name: str, arguments: Sequence[Any], below: Sequence[Place]
    ) -> Answer:
        """A method of the session, the call of this number, and the sum with those of the holders below."""
        total = self._total(session, attempt)
        answer = await self._part(session, number, name, arguments)
        for place in below:
            if answer.value is None:
                break
            other = await self._fetched(place, session, attempt)
            answer = other if other.value is None else Answer(answer.value + other.value)
        if not total.done():
            total.set_result(answer)
        return Answer(True) if self.shard and isinstance(answer.value, Total) else answer

    async def total(self, session: str, attempt: int) -> Answer:
        """The sum below this holder, when it is there; its own call may still be on its way."""
        if session not in self.sessions:
            return Answer(lost=self.shard)
        found: Answer = await asyncio.shield(self._total(session, attempt))
        return found

    def _total(self, session: str, attempt: int) -> asyncio.Future[Any]:
        """What the call of this attempt, and those who ask for its sum, wait for; attempts before the last are over."""
        totals = self.totals.setdefault(session, {})
        if attempt not in totals:
            totals[attempt] = asyncio.get_running_loop().create_future()
            for old in [one for one in totals if one < attempt - 1]:
                self._give_up(totals.pop(old))
        return totals[attempt]

    def _give_up(self, total: asyncio.Future[Any]) -> None:
        if not total.done():
            total.set_result(Answer(lost=self.shard))

    async def _part(self, session: str, number: int, name: str, arguments: Sequence[Any]) -> Answer:
        """Its own part, computed once, also where a round is repeated while it is still at work for the first time."""
        done, part = self.parts.get(session, (-1, None))
        if part is None or done != number:
            part = asyncio.ensure_future(self._working(lambda: getattr(self.sessions[session], name)(*arguments)))
            self.parts[session] = number, part
        return await asyncio.shield(part)

    async def _fetched(self, place: Place, session: str, attempt: int) -> Answer:
        """The sum of a holder below, from its worker."""
        from distributed.protocol import to_serialize

        try:
            rpc = self.worker.rpc(place.address)
            said = await rpc.actor_execute(
                function="total", actor=place.key, args=[to_serialize(session), to_serialize(attempt)], kwargs={}
            )
        except (OSError, KeyError):
            return Answer(lost=place.shard)
        if said["status"] != "OK":
            return Answer(lost=place.shard)
        found: Answer = said["result"]
        return found

    async def _working(self, work: Callable[[], Any]) -> Answer:
        """Do it in the worker's thread for actors, with one thread of the linear algebra library."""

        def quiet() -> Answer:
            try:
                with blas_threads(), np.errstate(over="ignore", invalid="ignore", divide="ignore"):
                    value = work()
            except Exception as failure:  # noqa: BLE001 - what it was is told where the solver runs
                told = "".join(traceback.format_exception_only(failure)).strip()
                return Answer(failed=f"shard {self.shard} on {self.worker.address}: {told}")
            return Answer(True if value is None else value)

        self.busy = True
        try:
            return await asyncio.get_running_loop().run_in_executor(self.worker.executors["actor"], quiet)
        finally:
            self.busy = False
