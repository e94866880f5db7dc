"""A method of every shard, and the sum of what they answer.

The sums are taken in pairs, in the order of the shards, so that they have the same bits wherever the shards are.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from mklref._typing import Array
from mklref.factored.samples import samples_for
from mklref.factored.shard import Own, Shard, Total
from mklref.kernels.factor_stack import FactorStack
from mklref.problem import Problem


class Rounds:
    """Shards of this process."""

    def __init__(self, shards: Sequence[Any], owner: Any) -> None:
        self.shards, self.owner = list(shards), owner

    @classmethod
    def of(cls, problem: Problem, shards: int = 1) -> Rounds:
        """The rows of a problem with factors, in so many shards of equal size."""
        stack = problem.kernels
        assert isinstance(stack, FactorStack)
        edges = np.linspace(0, problem.n_samples, shards + 1).astype(int)
        made = [shard_of(problem, int(a), int(b)) for a, b in pairwise(edges)]
        return cls(made, stack.owner)

    def score(self, v: Array, b: Array) -> float:
        """Put the samples at the scores L v_p + b_p; the sum of their losses."""
        return float(self._sum("score", v, b).sums[0])

    def begin(self, tau: float, shift: float = 0.0) -> Array:
        """As `Shard.begin`."""
        return self._sum("begin", tau, shift).sums[0]

    def assemble(self, length: float, centred: bool, largest: float, exact: bool) -> tuple[Array, ...]:
        """As `Shard.assemble`."""
        return self._sum("assemble", length, centred, largest, exact).sums

    def first(self, dv: Array, db: Array) -> Total:
        """As `Shard.first`."""
        return self._sum("first", dv, db)

    def second(self, dv: Array, db: Array, tau: float, trial: float) -> Total:
        """As `Shard.second`."""
        return self._sum("second", dv, db, tau, trial)

    def third(self, dv: Array, db: Array) -> float:
        """As `Shard.third`."""
        return self._sum("third", dv, db).worst

    def keep(self) -> None:
        """Remember the present beta."""
        self._sum("keep")

    def kept(self) -> Array:
        """The beta (P, n) that was remembered."""
        return np.concatenate(self._each("kept"), axis=1)

    def _sum(self, name: str, *arguments: Any) -> Total:
        parts = self._each(name, *arguments)
        while len(parts) > 1:
            parts = [a + b for a, b in zip(parts[::2], parts[1::2], strict=False)] + parts[len(parts) // 2 * 2 :]
        made: Total = parts[0]
        return made

    def _each(self, name: str, *arguments: Any) -> list[Any]:
        return [getattr(shard, name)(*arguments) for shard in self.shards]


def shard_of(problem: Problem, first: int, last: int) -> Shard:
    """Rows first to last of a problem with factors."""
    assert isinstance(problem.kernels, FactorStack)
    machines = []
    for rows, one in machines_of(problem):
        if len(rows) == problem.n_samples:
            machines.append(Own(samples_for(one.loss, one.y[first:last], one.costs[first:last]), None))
            continue
        a, b = np.searchsorted(rows, [first, last])
        machines.append(Own(samples_for(one.loss, one.y[a:b], one.costs[a:b]), rows[a:b] - first))
    return Shard(problem.kernels, machines, first, last)


def machines_of(problem: Problem) -> list[tuple[Any, Any]]:
    """(samples, problem) of each machine."""
    return [(machine.samples, machine.problem) for machine in problem.machines]
