"""The rows of a shard whose samples may still turn: the steps of the path read those alone.

Once a solution is roughly known, most samples are far from where their loss bends: beta is at an end, and the loss is
linear in the score. Put there, such samples enter the problem with a constant part of L'beta and a linear term, and
what is left is a problem of the same form with the samples near the bends, a small part of them, whose rows are copied.

`look` reads all rows: it computes all scores anew, free of the rounding of the steps before, chooses who is near, and
sums up the others. There bounds hold for all samples, whoever was left out before; a sample that was wrongly taken to
be far is near from then on.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from mklref._typing import Array
from mklref.factored.samples import SUMS
from mklref.factored.shard import Own, Shard, Total
from mklref.kernels.factor_sources import one_below_the_other

EDGES = 2.0 ** np.arange(-60.0, 60.0, 0.25)
"""Clearances are counted below the first, between two, and above the last of these."""
_MOST = 0.5
"""Share of the rows from which on all of them are taken, without a copy."""


class Far(NamedTuple):
    """The samples that steps leave out."""

    vectors: Array
    """Their [L 1]'beta, above and below 0 (P, r + 1, 2)."""
    sums: Array
    """(P, SUMS); the losses are those of scores of 0."""
    share: float
    """Samples that are left, as a share of all."""

    def losses(self, v: Array, b: Array) -> float:
        """Their losses less those of scores of 0: they are linear."""
        pull = self.vectors.sum(axis=2)
        return -float(np.sum(pull[:, :-1] * v) + pull[:, -1] @ b)


class Nearby:
    """A `Shard`, and for the steps another one of the rows that are near, after a `look` that finds few."""

    def __init__(self, whole: Shard) -> None:
        self.whole = self.steps = whole
        self.near = [np.ones(len(own.samples.beta), dtype=bool) for own in whole.machines]

    def __getattr__(self, name: str) -> Any:
        """What is not said here is a question to the rows that steps are made with."""
        return getattr(self.steps, name)

    def score(self, v: Array, b: Array) -> Total:
        """As `Shard.score`, for all rows."""
        self._widen()
        return self.whole.score(v, b)

    def evaluate(self, *arguments: Any) -> Total:
        """As `Shard.evaluate`, for all rows."""
        self._widen()
        return self.whole.evaluate(*arguments)

    def _widen(self) -> None:
        self.steps = self.whole
        for near in self.near:
            near[:] = True

    def clearances(self) -> Total:
        """How many samples have which clearance, between EDGES, by the scores that are known."""
        counts = np.zeros(len(EDGES) + 1)
        for samples, _ in self.whole.machines:
            counts += np.bincount(np.searchsorted(EDGES, samples.clearance(slice(None))), minlength=len(counts))
        return Total((counts,))

    def look(self, length: float, centred: bool, v: Array, b: Array, tau: float, near: float, digits: int) -> Total:
        """Take the step; from then on steps are made with samples whose clearance is at most `near`.

        Of the others [L 1]'beta above and below 0 (P, r + 1, 2) and their sums (P, SUMS); (P, 3), how many are near and
        what beta of these can sum to; and the squares of the changes of the scores of those that were left out until
        now, and their number.
        """
        whole, P = self.whole, len(self.near)
        self._put_back(length, centred)
        whole.follows(digits)
        self.steps = whole
        vectors, moved = np.zeros((P, whole.stack.rank + 1, 2)), np.zeros(2)
        copied, needed, first, settled = [], np.zeros(len(whole), dtype=bool), 0, []
        most = _MOST * len(whole) if np.isfinite(near) else -1.0
        for rows, owns in whole.blocks():
            here = needed[first : first + rows.shape[0]]
            for p, where, mine in owns:
                own = rows if mine is None else rows[mine]
                change, beta, ends = self._seen(p, where, whole.product(own, v[p]) + b[p], tau, near)
                settled.append((whole.machines[p].samples, self.near[p], *ends))
                moved += np.array([change @ change, len(change)])
                vectors[p] += whole.transposed(own, np.maximum(beta, 0.0), np.minimum(beta, 0.0)).T
                here[slice(None) if mine is None else mine] |= self.near[p][where]
            first, most = first + len(here), most - np.count_nonzero(here)
            if most >= 0.0:
                copied.append(rows[here])
        if most >= 0.0 and copied:
            self._narrow(copied, np.flatnonzero(needed))
        else:
            vectors[:] = 0.0
            for samples, close, far, before, ends in settled:  # back to where steps had taken it, or to the path
                samples.unsettle(far[before], ends[:, before])
                samples.begin(far[~before], tau)
                close[far] = True
        sums, told = self._summed()
        return Total((vectors, sums, told, moved))

    def keep(self) -> Total:
        """Remember beta, as it was at the last look if steps have left it since."""
        return self.whole.keep()

    def kept(self) -> Array:
        return self.whole.kept()

    def _put_back(self, length: float, centred: bool) -> None:
        """Take the step, and tell the samples of all rows."""
        if length:
            self.steps.advance(length, centred, 2)
        if self.steps is not self.whole:
            for near, own, all_of_them in zip(self.near, self.steps.machines, self.whole.machines, strict=True):
                all_of_them.samples.put(np.flatnonzero(near), own.samples)

    def _seen(self, p: int, where: slice, f: Array, tau: float, near: float) -> tuple[Array, Array, Any]:
        """Changes of the scores of those that were far, and beta of those that are now, which settle; 0 of others.

        And who has settled, which of them were near before, and what `unsettle` needs.
        """
        samples, before = self.whole.machines[p].samples, self.near[p][where].copy()
        change, samples.f[where] = (f - samples.f[where])[~before], f
        close = ~(samples.clearance(where) > near)
        samples.begin(where.start + np.flatnonzero(close & ~before), tau)
        far = where.start + np.flatnonzero(~close)
        ends = samples.settle(far)
        self.near[p][where] = close
        return change, np.where(close, 0.0, samples.beta[where]), (far, before[~close], ends)

    def _narrow(self, copied: list[Any], needed: Any) -> None:
        """Steps with these rows, of which each machine has the samples that are near for it."""
        whole = self.whole
        machines = []
        for near, own in zip(self.near, whole.machines, strict=True):
            index = np.flatnonzero(near)
            there = np.searchsorted(needed, index if own.rows is None else own.rows[index])
            machines.append(Own(own.samples.part(index), None if len(there) == len(needed) else there))
        stack = whole.stack.holding(one_below_the_other(copied), whole.start + needed)
        self.steps = Shard(stack, machines, 0, len(needed), whole.n)

    def _summed(self) -> tuple[Array, Array]:
        sums, told = np.zeros((len(self.near), SUMS)), np.zeros((len(self.near), 3))
        for p, (near, own) in enumerate(zip(self.near, self.whole.machines, strict=True)):
            far, close = np.flatnonzero(~near), np.flatnonzero(near)
            sums[p] = own.samples.sums(far)
            told[p] = len(close), *own.samples.room(close)
        return sums, told
