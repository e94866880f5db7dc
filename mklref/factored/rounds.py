"""A method of every shard, and the sum of what they answer.

The sums are taken in pairs, in the order of the shards, so that they have the same bits wherever the shards are.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from mklref._typing import Array
from mklref.factored.nearby import Nearby
from mklref.factored.samples import samples_for
from mklref.factored.shard import Own, Shard, Total
from mklref.kernels.factor_stack import FactorStack, sum_in_pairs
from mklref.losses import Loss
from mklref.problem import Problem


class Rounds:
    """The shards of a stack in this process; elsewhere they are `Remote`."""

    remote = False

    def __init__(self, problem: Problem, stack: FactorStack) -> None:
        self.stack = stack
        self.shards: Sequence[Any] = [
            opened(stack, targets_between(problem, first, last), first, last, problem.n_samples)
            for first, last in pairwise(stack.edges)
        ]

    def score(self, v: Array, b: Array) -> float:
        """Put the samples at the scores L v_p + b_p; the sum of their losses."""
        return float(self._sum("score", v, b).sums[0])

    def clearances(self) -> Array:
        """As `Nearby.clearances`."""
        return self._sum("clearances").sums[0]

    def begin(self, tau: float, shift: float = 0.0) -> Array:
        """As `Shard.begin`."""
        return self._sum("begin", tau, shift).sums[0]

    def assemble(self, *arguments: Any) -> tuple[Array, ...]:
        """As `Shard.assemble`."""
        return self._sum("assemble", *arguments).sums

    def evaluate(self, *arguments: Any) -> tuple[Array, ...]:
        """As `Shard.evaluate`."""
        return self._sum("evaluate", *arguments).sums

    def look(self, *arguments: Any) -> tuple[Array, ...]:
        """As `Nearby.look`."""
        return self._sum("look", *arguments).sums

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
        return np.concatenate([shard.kept() for shard in self.shards], axis=1)

    def close(self) -> None:
        """The vectors of the shards are no longer needed."""

    def _sum(self, name: str, *arguments: Any) -> Total:
        total: Total = sum_in_pairs([getattr(shard, name)(*arguments) for shard in self.shards])
        return total


class Targets(NamedTuple):
    """The samples of one machine among some rows: y and costs, and which rows they are, None for all."""

    loss: Loss
    y: Array
    costs: Array
    rows: Any


def opened(stack: FactorStack, targets: Sequence[Targets], first: int, last: int, n: int) -> Nearby:
    """The shard of rows first to last of a stack; n is the number of samples of all shards."""
    machines = [Own(samples_for(own.loss, own.y, own.costs), own.rows) for own in targets]
    return Nearby(Shard(stack, machines, first, last, n))


def targets_between(problem: Problem, first: int, last: int) -> list[Targets]:
    """What the samples first to last are, for each machine."""
    found = []
    for rows, one in machines_of(problem):
        if len(rows) == problem.n_samples:
            found.append(Targets(one.loss, one.y[first:last], one.costs[first:last], None))
            continue
        a, b = np.searchsorted(rows, [first, last])
        found.append(Targets(one.loss, one.y[a:b], one.costs[a:b], rows[a:b] - first))
    return found


def machines_of(problem: Problem) -> list[tuple[Any, Any]]:
    """(samples, problem) of each machine."""
    return [(machine.samples, machine.problem) for machine in problem.machines]
