"""`DistributedStack`: kernels as factors whose rows are on the workers of a Dask cluster, and the rounds over them."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import accumulate, pairwise
from typing import Any, Self

import numpy as np

from mklref._typing import Array
from mklref._validate import checked_count, checked_number
from mklref.exceptions import InvalidInput, InvalidType, NotApplicable
from mklref.factored.cluster import Cluster, ClusterLost, Parts, Session, Source, require_dask
from mklref.factored.shard import Total
from mklref.kernels.factor_sources import apart, one_below_the_other
from mklref.kernels.factor_stack import FactorStack, require_rows
from mklref.kernels.protocol import indices

TIMEOUT = 600.0
"""Seconds that a shard may take for an answer."""


class DistributedStack(FactorStack):
    """Kernels K_m = L_m L_m' whose rows are on the workers of a Dask cluster.

    Parameters
    ----------
    factors : sequence
        Dask arrays (n, r_m), one for each kernel, whose chunks of rows are the shards; or functions without arguments,
        one for each shard, that load its rows on the worker, a list of arrays (rows, r_m) or a `FactorStack`.
    names : sequence of str, optional
        One name for each kernel.
    client : distributed.Client
    timeout : float
        Seconds that a shard may take to answer; a worker that is gone is noticed at once.

    Raises
    ------
    InvalidInput
        No factors, shards that do not fit together, what a `FactorStack` refuses in a shard, or a source that cannot be
        read; a client that is closed.
    InvalidType
        Neither Dask arrays nor functions, or no client.
    NotApplicable
        Workers that have other versions than this process.

    Notes
    -----
    `solve(problem)` runs on the workers. A shard that is lost with its worker is loaded again from its source and
    brought to where it was; results have the bits of `FactorStack(...).sharded(k)` in one process with the same
    rows in each shard, which with the rows at hand does more where rounding shows in a certificate, or where a small
    problem stalls. n-vectors of the solver stay on the workers; y, and at the end the solution, are in this process. A
    point that is ten times better than the last one is fetched and certified, for the case that the cluster is lost:
    `Interrupted` has it.
    """

    def __init__(
        self, factors: Sequence[Any], names: Sequence[str] | None = None, *, client: Any, timeout: float = TIMEOUT
    ) -> None:
        given = list(factors) if isinstance(factors, Iterable) else [factors]
        if not given:
            raise InvalidInput("factors is empty; give Dask arrays, or a function for each shard that loads its rows.")
        if all(hasattr(one, "dask") and hasattr(one, "chunks") for one in given):
            sources: Sequence[Source] = _chunks(given, names)
        elif all(callable(one) for one in given):
            sources = [partial(_loading, one, names) for one in given]
        else:
            kinds = sorted({type(one).__name__ for one in given})
            raise InvalidType(
                f"factors holds {', '.join(kinds)}; give Dask arrays, or functions that load a shard each. Arrays of "
                "this process are FactorStack(...), and solve(problem, client=client) sends them."
            )
        self._begin(client, sources, timeout)

    @classmethod
    def of(cls, stack: FactorStack, client: Any, timeout: float = TIMEOUT) -> DistributedStack:
        """A stack of this process on the workers: its shards, or one for each worker."""
        made = cls.__new__(cls)
        made.sample_names = stack.sample_names
        if len(stack.edges) == 2:
            workers = len(client.ncores()) if getattr(client, "status", None) == "running" else 1
            stack = stack.sharded(int(np.clip(workers, 1, stack.shape[1])))
        made._begin(client, [partial(_sent, stack, first, last) for first, last in pairwise(stack.edges)], timeout)
        return made

    def _begin(self, client: Any, sources: Sequence[Any], timeout: float) -> None:
        timeout = checked_number("timeout", timeout, "(0, inf]", "seconds that a shard may take.")
        try:
            self.cluster = Cluster(client, sources, timeout)
            told = self.cluster.persistently(lambda: [self.cluster.ask(k, "describe") for k in range(len(sources))])
        except ClusterLost as lost:
            raise InvalidInput(f"{lost}.") from lost
        for k, one in enumerate(told):
            for what in ("names", "ranks", "dtype", "sparse"):
                if one[what] != told[0][what]:
                    raise InvalidInput(
                        f"shard {k} has {what} {one[what]}, shard 0 has {told[0][what]}; all shards are rows of the "
                        "same factors."
                    )
        self._described(told[0], [one["n"] for one in told])
        if self.shape[1] < self.fewest:
            raise InvalidInput(f"the shards have n = {self.shape[1]} rows together; give at least two samples.")
        self.chosen: list[Any] = [None] * len(sources)

    def _described(self, told: dict[str, Any], rows: Sequence[int]) -> None:
        self.names, self.sources, self._joined = tuple(told["names"]), (), None
        self._describe(told["ranks"], told["dtype"], told["sparse"], (0, *accumulate(rows)))
        self.block_rows = max(1, min((1 << 22) // len(self.owner), 1 << 13))
        self._products: Session | None = None
        self._traces: Array | None = None
        self._largest: Array | None = None
        self._against: tuple[Array, Array] | None = None

    def sharded(self, shards: int) -> Self:
        """The shards are those of the workers."""
        raise NotApplicable(
            f"the rows lie on workers in {len(self.chosen)} shards; give DistributedStack as many sources as shards."
        )

    @property
    def recipe(self) -> bytes:
        digest = hashlib.sha256(repr((self.ranks.tolist(), self.shape, str(self._dtype), self.edges)).encode())
        for own in self._asked.each("recipe"):
            digest.update(own)
        return digest.digest()

    @property
    def own_diagonals(self) -> Array:
        """All diagonals, (M, n), gathered whenever they are read."""
        return np.concatenate(self._asked.each("own_diagonals"), axis=1)

    def read(self, start: int, stop: int) -> Any:
        """Rows of L, gathered."""
        return self._gathered(np.arange(start, stop))

    def transposed(self, v: Array) -> Array:
        """L'v; each shard is sent its part of v."""
        require_rows("v", v, self.shape[1], "sample")
        return self._summed("transposed", v)

    def gram(self, D: Array) -> Array:
        """L'DL; each shard is sent its part of D."""
        require_rows("D", D, self.shape[1], "sample")
        return self._summed("gram", D)

    def product(self, w: Array) -> Array:
        require_rows("w", w, self.rank, "column of L")
        return np.concatenate(self._asked.each("product", w))

    def traces(self) -> Array:
        """The trace of each matrix, (M,); asked for once."""
        if self._traces is None:
            self._traces = self._asked.sum("traces").sums[0]
        return self._traces.copy()

    def largest_diagonals(self) -> Array:
        """The largest entry of each diagonal, (M,); asked for once."""
        if self._largest is None:
            self._largest = np.max(self._asked.each("largest_diagonals"), axis=0)
        return self._largest.copy()

    def lengths(self, weights: Array) -> Array:
        return np.concatenate(self._asked.each("lengths", weights))

    def lengths_against(self, u: Array) -> Array:
        """sum_i ||L_mi|| u_i of every kernel, (M,); a certificate asks for those of |beta| several times in a row."""
        known = self._against  # read once: another thread may ask for others
        if known is None or not np.array_equal(known[0], u):
            known = self._against = u.copy(), self._summed("lengths_against", u)
        return known[1].copy()

    def part(self, samples: Any) -> FactorStack:
        """Some of the samples: where they are, if they are in order, else in this process."""
        index = indices(samples, self.shape[1])
        if not np.all(np.diff(index) > 0):
            return FactorStack(apart(self._rows(index), self.ranks), self.names)
        made = type(self).__new__(type(self))
        own = self._by_shards(index)
        made.cluster, made.sample_names = self.cluster, self._names_at(index)
        made.chosen = [new if old is None else old[new] for new, old in zip(own, self.chosen, strict=True)]
        told = {"names": self.names, "ranks": self.ranks, "sparse": self.sparse, "dtype": self._dtype}
        made._described(told, [len(one) for one in own])
        return made

    def _rows(self, index: Any) -> Array:
        order = np.argsort(index, kind="stable")
        unique, where = np.unique(np.asarray(index)[order], return_inverse=True)
        rows = self.double(self._gathered(unique))
        back = np.empty(len(order), dtype=np.intp)
        back[order] = where
        return np.asarray((rows.toarray() if self.sparse else rows)[back])

    def _gathered(self, index: Any) -> Any:
        """Rows of L in increasing order."""
        return one_below_the_other(
            self._asked.apply("rows", [(own,) for own in self._by_shards(index)], together=False)
        )

    def _by_shards(self, index: Any) -> list[Array]:
        """Increasing numbers of samples, as each shard counts its own."""
        cuts = np.searchsorted(index, self.edges)
        return [index[a:b] - first for (a, b), first in zip(pairwise(cuts), self.edges, strict=False)]

    def _summed(self, name: str, v: Array) -> Array:
        each = [(v[first:last],) for first, last in pairwise(self.edges)]
        total: Total = self._asked.apply(name, each, together=True)[0]
        return total.sums[0]

    @property
    def _asked(self) -> Session:
        with self.cluster.lock:
            if self._products is None:
                self._products = Session(self.cluster, self.chosen, [None] * len(self.chosen), self.shape[1])
            return self._products

    def __reduce__(self) -> Any:
        """No copy: it would have the client and the actors, which are of this process."""
        raise InvalidType(
            "a DistributedStack is neither pickled nor copied: its rows are on the workers of a client. Keep the "
            "FactorStack, and make it again, DistributedStack.of(stack, client)."
        )

    def __del__(self) -> None:
        """The holders forget the products of a part that nobody has any more."""
        if getattr(self, "_products", None) is not None:
            self._products.close()  # type: ignore[union-attr]


class ShardStack(FactorStack):
    """Rows of one shard, which may be none."""

    fewest = 0


class Remote(Session):
    """The shards of a stack on workers, asked as `Rounds` asks those in this process."""

    remote = True

    def __init__(self, stack: DistributedStack, targets: Sequence[Any]) -> None:
        self.stack = stack
        super().__init__(stack.cluster, stack.chosen, targets, stack.shape[1])

    def kept(self) -> Array:
        return np.concatenate(self.each("kept"), axis=1)


def local_client(workers: int = 2, **options: Any) -> Any:
    """A Dask client with so many new workers on this machine, one thread each, which listen on loopback alone.

    Parameters
    ----------
    workers : int
    **options
        Of `distributed.LocalCluster`.

    Returns
    -------
    distributed.Client
        A context manager; `close` ends the workers as well.
    """
    require_dask()
    from distributed import Client, LocalCluster

    checked_count("workers", workers, 1, "processes on this machine.")
    where = {"host": "127.0.0.1"} if options.get("processes", True) else {}  # threads of this process need no address
    pages = dict.fromkeys(("dashboard_address", "worker_dashboard_address"), "127.0.0.1:0")
    given = {"threads_per_worker": 1, **pages, **where, **options}
    client = Client(LocalCluster(n_workers=workers, **given), direct_to_workers=True)
    closing, cluster = client.close, client.cluster

    def close(*arguments: Any, **keywords: Any) -> None:
        closing(*arguments, **keywords)
        cluster.close()

    client.close = close
    return client


def _chunks(arrays: Sequence[Any], names: Sequence[str] | None) -> list[Source]:
    """A source for each chunk of rows of the first array."""
    for m, array in enumerate(arrays):
        if array.ndim != 2:
            raise InvalidInput(f"factors[{m}] has shape {array.shape}; a factor L of K = L L' is (n, r).")
        if not all(np.isfinite(array.shape)):
            raise InvalidInput(f"factors[{m}] has chunks of unknown size; call compute_chunk_sizes() on it.")
        if array.shape[0] != arrays[0].shape[0]:
            raise InvalidInput(f"factors[{m}] has {array.shape[0]} rows, factors[0] has {arrays[0].shape[0]}.")
    rows = arrays[0].chunks[0]
    columns = [array.rechunk({0: rows, 1: -1}).to_delayed()[:, 0] for array in arrays]
    return [partial(_computed, each, names) for each in zip(*columns, strict=True)]


def _computed(chunks: Sequence[Any], names: Sequence[str] | None, client: Any, address: str) -> Parts:
    """Chunks with the same rows, which Dask makes again if they are lost."""
    return _of_arrays, (names, *client.compute(list(chunks), workers=[address], allow_other_workers=True))


def _loading(load: Callable[[], Any], names: Sequence[str] | None, client: Any, address: str) -> Parts:
    """Rows that a function on the worker loads: it travels itself."""
    return _loaded, (load, names)


def _sent(stack: FactorStack, first: int, last: int, client: Any, address: str) -> Parts:
    """Rows first to last of a stack in this process: a block with the columns of every kernel side by side."""
    return _of_rows, (stack.names, stack.ranks, client.scatter(stack.read(first, last), workers=[address], hash=False))


def _loaded(load: Callable[[], Any], names: Sequence[str] | None) -> FactorStack:
    made = load()
    stack = made if isinstance(made, FactorStack) else ShardStack(made, names)
    return stack.sharded(1) if len(stack.edges) > 2 else stack


def _of_arrays(names: Sequence[str] | None, *arrays: Any) -> FactorStack:
    return ShardStack(arrays, names)


def _of_rows(names: Sequence[str], ranks: Array, rows: Any) -> FactorStack:
    return ShardStack(apart(rows, ranks), names)
