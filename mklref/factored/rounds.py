"""A method of every shard, and the sum of what they answer.

The sums are taken in pairs, in the order of the shards, so that they have the same bits wherever the shards are.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from mklref._typing import Array
from mklref.exceptions import NotApplicable
from mklref.factored.boxes import BoxSamples
from mklref.factored.nearby import Nearby
from mklref.factored.samples import EntropySamples, FreeSamples, Samples
from mklref.factored.shard import Own, Shard, Total
from mklref.factored.weights import IN_MEMORY
from mklref.kernels.factor_stack import FactorStack
from mklref.kernels.protocol import sum_in_pairs
from mklref.losses import Logistic, Loss
from mklref.problem import Problem


class Rounds:
    """Shards of a stack in this process; elsewhere they are `Remote`."""

    remote = False

    def __init__(self, stack: FactorStack, shards: Sequence[Any]) -> None:
        self.stack, self.shards = stack, shards

    def sum(self, name: str, *arguments: Any) -> Total:
        """What each shard says, a `Nearby`, by its method of this name, summed."""
        total: Total = sum_in_pairs([getattr(shard, name)(*arguments) for shard in self.shards])
        return total

    def kept(self) -> Array:
        """The beta (P, n) that was remembered."""
        return np.concatenate([shard.kept() for shard in self.shards], axis=1)

    def close(self) -> None:
        """The vectors of the shards are no longer needed."""


class Targets(NamedTuple):
    """The samples of one machine among some rows: y and costs, and which rows they are, None for all."""

    loss: Loss
    y: Array
    costs: Array
    rows: Any


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


def opened(stack: FactorStack, targets: Sequence[Targets], first: int, last: int, n: int) -> Nearby:
    """The shard of rows first to last of a stack; n is the number of samples of all shards."""
    machines = [Own(samples_for(own.loss, own.y, own.costs), own.rows) for own in targets]
    return Nearby(Shard(stack, machines, first, last, n))


def samples_for(loss: Loss, y: Array, costs: Array) -> Samples:
    """The samples of a loss.

    `NotApplicable` for one of one's own without `quadratic_dual`, or with a box that is bounded for some samples only.
    """
    if isinstance(loss, Logistic):
        return EntropySamples(loss, y, costs)
    form = loss.quadratic_dual(y)
    lower, upper = loss.box(y, costs)
    bounded = np.isfinite(lower) & np.isfinite(upper)
    mixed = bounded.any() and not bounded.all()
    if form is None or (len(y) and (mixed or (not bounded.any() and form.curvature == 0.0))):
        raise NotApplicable(
            f"the solver for kernels as factors takes losses whose dual is a quadratic on a box; {loss} is none. "
            + IN_MEMORY
        )
    if form.absolute == 0.0 and not (np.isfinite(lower) | np.isfinite(upper)).any():
        return FreeSamples(loss, y, costs)
    return BoxSamples(loss, y, costs)
