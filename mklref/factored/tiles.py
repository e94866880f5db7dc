"""`DistributedLazyStack`: products of kernels that are evaluated when they are read, by tiles on the workers of Dask.

    K_m v = [K_m[S, T_1]'v_S, K_m[S, T_2]'v_S, ...]        S where v is not 0, T the samples in order, cut into tiles

Samples go to every worker once, v_S with each product; a tile comes back as its part of K_m v. A tile is a function of
the samples and v, so that Dask computes it again elsewhere if a worker is lost, with the same bits. Where all workers
that had the samples are lost, as those may be that were there when the stack was made, they are sent again.
"""

from __future__ import annotations

import time
from concurrent.futures import CancelledError
from typing import Any

import numpy as np

from mklref._typing import Array
from mklref._validate import checked_count, checked_number
from mklref.exceptions import InvalidType
from mklref.factored.cluster import ClusterLost, check_client, require_open
from mklref.factored.remote import TIMEOUT
from mklref.kernels.lazy import LazyStack
from mklref.kernels.protocol import indices, numbers

_EACH = 4
"""Tiles for each worker: the last ones are for those that were quicker."""
_FOREVER = 1e9
"""Seconds in place of infinitely many, which Dask reads as a unit of time."""


class DistributedLazyStack(LazyStack):
    """Kernels that are evaluated when they are read, whose products the workers of a Dask cluster compute.

    Parameters
    ----------
    stack : LazyStack
        `family.fit(X, storage="lazy")`.
    client : distributed.Client
        Every worker gets the samples.
    tiles : int, optional
        Pieces that a product is cut into, four for each worker by default; the bits depend on them alone.
    timeout : float
        Seconds that a product may take.

    Raises
    ------
    InvalidType
        No lazy stack, or no client.
    InvalidInput
        A client that is closed.
    NotApplicable
        Workers that have other versions than this process.

    Notes
    -----
    `certify` and all products K_m v run on the workers; the rows that `solve` reads are evaluated in this process.
    """

    def __init__(self, stack: LazyStack, *, client: Any, tiles: int | None = None, timeout: float = TIMEOUT) -> None:
        if not isinstance(stack, LazyStack):
            raise InvalidType(f"stack is {type(stack).__name__}; give a LazyStack: family.fit(X, storage='lazy').")
        timeout = checked_number("timeout", timeout, "(0, inf]", "seconds that a product may take.")
        check_client(client)
        super().__init__(stack.fitted, cache=stack.cache, precision=stack.precision)
        self.client, self.timeout, self.sample_names = client, timeout, stack.sample_names
        most = stack.shape[1]
        wanted = _EACH * len(client.ncores()) if tiles is None else tiles
        self.tiles = min(most, checked_count("tiles", wanted, 1, "pieces of a product."))
        self.own: LazyStack = LazyStack(stack.fitted, cache=stack.cache, precision=stack.precision)
        self.chosen = np.arange(most)
        self.there = [client.scatter(self.own, broadcast=True, hash=False)]
        """The samples on the workers, for this stack and its parts."""

    def apply(self, v: Array, kernels: Any = None) -> Array:
        """Products K_m v of all kernels, or of some, float64 (M, n) or (k, n).

        Raises
        ------
        ClusterLost
            A RuntimeError with a sentence: no worker is left, or the time is over.
        """
        require_open(self.client)
        v, some = numbers("v", v, self), indices(kernels, len(self), "kernels")
        support = np.flatnonzero(v)
        self.count(len(some) * len(support) * len(v))
        columns = np.array_split(self.chosen, min(self.tiles, len(v)))
        pieces = [(self.chosen[support], v[support], own, some) for own in columns]
        return np.concatenate(self._gathered(pieces), axis=1)

    def _gathered(self, pieces: list[tuple[Any, ...]]) -> list[Array]:
        from distributed import wait
        from distributed.scheduler import KilledWorker
        from distributed.utils import TimeoutError as Late

        client, futures, deadline = self.client, list[Any](), time.monotonic() + min(self.timeout, _FOREVER)
        left: Any = lambda: max(0.0, deadline - time.monotonic())  # noqa: E731
        try:
            while True:
                futures = [client.submit(tile, *self.there, *piece, pure=False) for piece in pieces]
                try:
                    wait(futures, timeout=left())
                    found: list[Array] = client.gather(futures)
                    return found
                except CancelledError:  # with the samples: all workers that had them are lost
                    require_open(client)
                    self.there[:] = [client.scatter(self.own, broadcast=True, hash=False, timeout=left())]
        except (KilledWorker, Late, TimeoutError, OSError) as failure:
            client.cancel(futures)
            raise ClusterLost(
                f"a product of lazy kernels was not finished by the workers within {self.timeout:g} s: "
                f"{type(failure).__name__}: {failure}"
            ) from failure

    def __reduce__(self) -> Any:
        raise InvalidType(
            "a DistributedLazyStack is neither pickled nor copied: it has a client. Keep the LazyStack, and make it "
            "again, DistributedLazyStack(stack, client=client)."
        )

    def part(self, samples: Any) -> LazyStack:
        """The stack of some of the samples, on the same workers."""
        made = super().part(samples)
        other = DistributedLazyStack.__new__(DistributedLazyStack)
        other.__dict__.update(made.__dict__)
        other.client, other.timeout, other.tiles = self.client, self.timeout, self.tiles
        other.own, other.there, other.chosen = self.own, self.there, self.chosen[samples]
        return other


def tile(stack: LazyStack, rows: Array, v: Array, columns: Array, kernels: Array) -> Array:
    """sum_i v_i K_m[rows_i, columns] of these kernels, (k, len(columns))."""
    return stack.sums(rows, v, kernels, columns)
