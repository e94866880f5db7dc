"""Rows of L with their samples: what a step of the interior point method asks of them, in three or four reads.

    evaluate(v, b)   the scores, beta and L'DL of a rounder loss there, L'beta and what bounds the optimum
    assemble(t)      take the step; then L'DL, L'(D r), L'beta and what bounds the optimum
    first(dv, db)    the scores of the first step, L'(D dr/dtau) and L'(D dr) of its correction, and how long it may be
    second(dv, db)   the scores of the step, how long it may be, and L'(D dr) of what would centre its products
    third(dv, db)    the scores of what is added to it for that, and how long the sum may be

Each is a sum over rows, of matrices of order r at most, so that rows can be anywhere. A block of rows stays in the
cache while everything is done with it. Rows whose D vanishes are left out of L'DL: it says how the point moves, while
where it has to go is in the vectors, in which no row is missing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg.blas import dsyrk, ssyrk

from mklref._typing import Array
from mklref.factored.samples import SUMS, Samples
from mklref.kernels.factor_stack import FactorStack

_NEGLIGIBLE = 0.03
"""What may be missing in theta^{1/2} L'DL theta^{1/2}, in the spectral norm, beside the 1 that is added to it; and the
share of 1'D."""
_LITTLE = 1e8
"""Multiplications of which float32 saves nothing, and rows that are left out neither."""
_WORTH = 0.85
"""Share of the rows above which the others are multiplied by 0 instead of left out."""
_MANY, _CAPPED = 0.5, 3
"""Share of the rows from which on L'DL takes all of them; rounds that cap the chances at 1."""
_CACHED, _TOGETHER = 1 << 17, 1024
"""Entries of rows that are read at a time for products with vectors, and rows that are multiplied at a time in L'DL."""
_FLUSH = 16
"""Blocks whose L'DL are added in float32 before the sum goes to float64."""


class Total(NamedTuple):
    """A sum over rows: arrays that are added, and the largest of a number."""

    sums: tuple[Array, ...] = ()
    worst: float = 0.0

    def __add__(self, other: Any) -> Total:
        added = tuple(a + b for a, b in zip(self.sums, other.sums, strict=True))
        return Total(added, max(self.worst, other.worst))


class Own(NamedTuple):
    """The samples of one machine among these rows."""

    samples: Samples
    rows: Any
    """Their indices in order, or None for all."""


class Shard:
    """Rows first to last of a stack, for P machines that share them; `n` is the number of samples of all shards."""

    def __init__(self, stack: FactorStack, machines: Sequence[Own], first: int, last: int, n: int) -> None:
        self.stack, self.machines, self.start, self.stop, self.n = stack, list(machines), first, last, n
        self.D = [np.zeros(len(own.samples.beta)) for own in machines]
        self.exact, self._room, self.count = True, np.empty((0, stack.rank)), 0

    def __len__(self) -> int:
        return self.stop - self.start

    def score(self, v: Array, b: Array) -> Total:
        """The scores of v (P, r) and b (P,), and the sum of their losses."""
        self.exact, self.count, total = True, 0, 0.0  # rows are drawn as in a shard that begins here
        for p, where, own in self.owns():
            samples = self.machines[p].samples
            samples.f[where] = self.product(own, v[p]) + b[p]
            total += samples.losses(where)
        return Total((np.array(total),))

    def begin(self, tau: float, shift: Array) -> Total:
        """Every sample on its own central path for its score, shifted before by `shift` (P,); the sum of beta (P,)."""
        sums = np.zeros(len(self.machines))
        for p, (samples, _) in enumerate(self.machines):
            for where in _slices(len(samples.beta), self.stack.block_rows):
                samples.f[where] += shift[p]
                samples.begin(where, tau)
                sums[p] += samples.beta[where].sum()
        return Total((sums,))

    def assemble(self, length: float, centred: bool, weights: Array, largest: float, rows: float, digits: int) -> Total:
        """(P, r + 1, r + 1), (P, r + 1, 3), (P, SUMS), and the rows read for L'DL.

        The last row and column are those of the intercept, a column of ones. The vectors are D r and beta above and
        below 0. `largest` is that of the diagonal of sum_m theta_m K_m. If there are many more than so many `rows` in
        all shards, L'DL is that of so many of them, drawn by their part in it, D_i sum_m theta_m K_mii.
        With `digits` = 2, or where that costs little, everything is computed in float64; with 1 or 0, L'DL in float32;
        with 0 also the products of this step with rows in float32, for which the next look at all rows makes up.
        """
        r, little = self.stack.rank, self.follows(digits)
        pulls, sums = self._advanced(length, centred)
        share = len(self) / (self.n * largest)
        most = 0.0 if r * r * self.n < _LITTLE else _NEGLIGIBLE
        least = [_threshold(D, most * min(share, float(D.sum()))) for D in self.D]
        everything = slice(0, None)
        drawn = [self._drawn(p, everything, weights, rows * len(self) / self.n) for p in range(len(self.D))]
        made = self._systems(little or digits == 2)
        for p, where, own in self.owns():
            D = drawn[p][where]
            self._add(made, p, where, own, pulls[p][where], np.where(least[p] <= D, D, 0.0))
        return Total((*_Gram.together(made), sums, np.array([sum(one.read for one in made)])))

    def evaluate(
        self, v: Array, b: Array, width: float, weights: Array, rows: float, digits: int, near: bool = False
    ) -> Total:
        """As `assemble` at the scores of v (P, r) and b (P,), for beta that a loss rounder by `width` has there.

        The first of the vectors is 0 unless `near`, see `Samples.rounded`. The last two numbers are the rows read for
        L'DL, and the samples with D > 0.
        """
        made, sums = self._systems(self.follows(digits) or digits == 2), np.zeros((len(self.machines), SUMS))
        between = 0.0
        for p, where, own in self.owns():
            samples = self.machines[p].samples
            samples.f[where] = self.product(own, v[p]) + b[p]
            self.D[p][where], pull = samples.rounded(where, width, near)
            sums[p] += samples.sums(where)
            between += np.count_nonzero(self.D[p][where])
            self._add(made, p, where, own, pull, self._drawn(p, where, weights, rows * own.shape[0] / self.n))
        return Total((*_Gram.together(made), sums, np.array([sum(one.read for one in made), between])))

    def _systems(self, double: bool) -> list[_Gram]:
        """An empty L'DL for each machine."""
        kind = np.dtype(np.float64 if double else np.float32)
        return [_Gram(self.stack.rank, self.stack.sparse, kind) for _ in self.machines]

    def _add(self, made: list[_Gram], p: int, where: slice, rows: Any, pull: Array, D: Array) -> None:
        """Some samples of a machine, with their rows, D r and D."""
        beta = self.machines[p].samples.beta[where]
        sums = self.transposed(rows, pull, np.maximum(beta, 0.0), np.minimum(beta, 0.0), D)
        made[p].vectors += sums[:3].T
        made[p].border += sums[3]
        made[p].add(rows, D)

    def advance(self, length: float, centred: bool, digits: int) -> Total:
        """The step alone."""
        self.follows(digits)
        self._advanced(length, centred)
        return Total()

    def _drawn(self, p: int, where: slice, weights: Array, rows: float) -> Array:
        """D of some samples, or where so many rows are few among theirs, D_i/p_i of rows drawn with p_i, 0 of others.

        With p_i in proportion to what a row adds to the trace no row that matters is left to luck.
        """
        D, first = self.D[p][where], where.start
        if rows > _MANY * len(D):
            return D
        own = self.machines[p].rows
        index: Any = slice(self.start + first, self.start + first + len(D)) if own is None else self.start + own[where]
        share = D * (weights @ self.stack.own_diagonals[:, index])
        if not share.sum() > 0.0:
            return D
        share /= share.sum()
        chance = np.minimum(1.0, rows * share)
        for _ in range(_CAPPED):  # what rows that are certain leave over goes to the others
            certain = chance >= 1.0
            left = max(float(share[~certain].sum()), np.finfo(float).tiny)
            chance = np.where(certain, 1.0, np.minimum(1.0, (rows - np.count_nonzero(certain)) / left * share))
        taken = np.random.default_rng([self.count, p, first, len(D)]).random(len(D)) < chance
        return np.divide(D, chance, out=np.zeros_like(D), where=taken)

    def _advanced(self, length: float, centred: bool) -> tuple[list[Array], Array]:
        """D r of each machine after the step, and the sums (P, SUMS)."""
        pulls, sums = [], np.zeros((len(self.machines), SUMS))
        for p, (samples, _) in enumerate(self.machines):
            pulls.append(np.empty_like(samples.beta))
            for where in _slices(len(samples.beta), self.stack.block_rows):
                if length:
                    samples.move(where, length, centred)
                self.D[p][where], pulls[p][where] = samples.linear(where)
                sums[p] += samples.sums(where)
        return pulls, sums

    def first(self, dv: Array, db: Array) -> Total:
        """(P, r + 1, 3) for the right-hand side, and three coefficients of the products along the step.

        The last column is L'D(L dv + db), which says how far L'DL of a part of the rows is off.
        """
        vectors, along, worst = np.zeros((len(self.machines), self.stack.rank + 1, 3)), np.zeros(3), 0.0
        for p, where, own in self.owns():
            df = self.product(own, dv[p]) + db[p]
            reach, products, by_tau, bend = self.machines[p].samples.first(where, df)
            vectors[p] += self.transposed(own, by_tau, bend, self.D[p][where] * df).T
            along, worst = along + products, max(worst, reach)
        return Total((vectors, along), worst)

    def second(self, dv: Array, db: Array, tau: float, trial: float) -> Total:
        """(P, r + 1) for the right-hand side that centres the products of the step at `trial`."""
        vectors, worst = np.zeros((len(self.machines), self.stack.rank + 1)), 0.0
        for p, where, own in self.owns():
            reach, change = self.machines[p].samples.second(where, self.product(own, dv[p]) + db[p], tau, trial)
            vectors[p] += self.transposed(own, change)[0]
            worst = max(worst, reach)
        return Total((vectors,), worst)

    def third(self, dv: Array, db: Array) -> Total:
        """What is added to the step."""
        worst = 0.0
        for p, where, own in self.owns():
            worst = max(worst, self.machines[p].samples.third(where, self.product(own, dv[p]) + db[p]))
        return Total(worst=worst)

    def keep(self) -> Total:
        """Remember the present beta."""
        self._kept = [samples.beta.copy() for samples, _ in self.machines]
        return Total()

    def kept(self) -> Array:
        """The beta (P, rows) that was remembered, 0 for samples that a machine does not see."""
        made = np.zeros((len(self.machines), len(self)))
        for row, (_, rows), beta in zip(made, self.machines, self._kept, strict=True):
            row[slice(None) if rows is None else rows] = beta
        return made

    def follows(self, digits: int) -> bool:
        """Set how exact products of this step are; whether float64 costs no more."""
        little = self.stack.sparse or self.stack.rank**2 * len(self) < _LITTLE
        self.exact, self.count = little or digits > 0, self.count + 1
        return little

    def blocks(self) -> Iterator[tuple[Any, list[tuple[int, slice, Any]]]]:
        """Blocks of rows, and for each machine its own samples among them: (p, their slice, their rows or None)."""
        for start, stop in self.stack.blocks(self.start, self.stop):
            rows, owns = self.stack.read(start, stop), []
            for p, (_, mine) in enumerate(self.machines):
                low, high = start - self.start, stop - self.start
                if mine is None:
                    owns.append((p, slice(low, high), None))
                    continue
                first, last = np.searchsorted(mine, [low, high])
                owns.append((p, slice(int(first), int(last)), mine[first:last] - low))
            yield rows, owns

    def owns(self) -> Iterator[tuple[int, slice, Any]]:
        """What each machine sees of each block: (p, the slice of its samples, their rows)."""
        for rows, owns in self.blocks():
            for p, where, mine in owns:
                yield p, where, rows if mine is None else rows[mine]

    def product(self, rows: Any, v: Array) -> Array:
        """L v, (k,) in float64."""
        if self.stack.sparse:
            return np.asarray(self.stack.double(rows) @ v)
        made, v = np.empty(rows.shape[0]), v if self.exact else v.astype(rows.dtype)
        for lines in self._lines(rows):
            made[lines] = self._double(rows[lines]) @ v
        return made

    def transposed(self, rows: Any, *vectors: Array) -> Array:
        """[L 1]'x of several vectors x, (k, r + 1): that many rows at a time are twice as fast as columns."""
        given = np.stack(vectors)
        sums = given.sum(axis=1, keepdims=True)
        if self.stack.sparse:
            return np.hstack([given @ self.stack.double(rows), sums])
        kind = np.float64 if self.exact else rows.dtype
        own, made = np.ascontiguousarray(given, dtype=kind), np.zeros((len(given), rows.shape[1]))
        for lines in self._lines(rows):
            made += own[:, lines] @ self._double(rows[lines])
        return np.hstack([made, sums])

    @staticmethod
    def _lines(rows: Any) -> list[slice]:
        """Few enough rows to stay in the cache beside their copy in float64: a product is then twice as fast."""
        return _slices(len(rows), max(16, _CACHED // rows.shape[1]))

    def _double(self, rows: Array) -> Array:
        """The same rows in float64 if that is called for, in room that stays in the cache."""
        if rows.dtype == np.float64 or not self.exact:
            return rows
        if len(self._room) < len(rows):
            self._room = np.empty(rows.shape)
        made = self._room[: len(rows)]
        made[...] = rows
        return made


class _Gram:
    """sum of [L 1]'D[L 1] over blocks: in one dtype over a few of them, and in float64 over all; and vectors beside."""

    def __init__(self, rank: int, sparse: bool, kind: np.dtype[Any]) -> None:
        self.sparse, self.kind, self.count = sparse, kind, 0
        self.sum, self.border, self.vectors = np.zeros((rank, rank)), np.zeros(rank + 1), np.zeros((rank + 1, 3))
        self.recent = None if sparse else np.zeros((rank, rank), dtype=kind, order="F")
        self.waiting: Any = None if sparse else np.empty((_TOGETHER, rank), dtype=kind)
        """Rows of D^{1/2}L that have not been multiplied yet; many at a time are faster."""
        self.filled, self.read = 0, 0.0

    @staticmethod
    def together(machines: Sequence[_Gram]) -> tuple[Array, Array]:
        """(P, r + 1, r + 1), and the vectors (P, r + 1, 3)."""
        return np.stack([one.total() for one in machines]), np.stack([one.vectors for one in machines])

    def add(self, rows: Any, D: Array) -> None:
        """A block, without the rows where D is 0 if these are many."""
        large = D > 0.0
        count = np.count_nonzero(large)
        self.read += count
        if not count:
            return
        if count < _WORTH * len(D):
            rows, D = rows[large], D[large]
        root = np.sqrt(D)[:, None]
        if self.sparse:
            scaled = rows.multiply(root).tocsr()
            self.sum += (scaled.T @ scaled).toarray()
            return
        root, start = root.astype(self.kind), 0
        while start < len(rows):
            stop = min(len(rows), start + _TOGETHER - self.filled)
            own = self.waiting[self.filled : self.filled + stop - start]
            np.multiply(rows[start:stop], root[start:stop], out=own, casting="same_kind")
            self.filled, start = self.filled + stop - start, stop
            if self.filled == _TOGETHER:
                self._multiply()

    def _multiply(self) -> None:
        multiply = ssyrk if self.kind == np.float32 else dsyrk
        rows = self.waiting[: self.filled].T
        self.recent = multiply(1.0, rows, beta=1.0, c=self.recent, overwrite_c=1, lower=1)
        self.count, self.filled = self.count + 1, 0
        if self.count % _FLUSH == 0 and self.kind == np.float32:
            self._flush()

    def total(self) -> Array:
        """The sum, symmetric, (r + 1, r + 1); the last row and column are those of the intercept."""
        made = np.empty((len(self.border), len(self.border)))
        made[-1] = made[:, -1] = self.border
        made[:-1, :-1] = self.sum
        if self.recent is not None:
            if self.filled:
                self._multiply()
            self._flush()
            lower = np.tril(self.sum)
            made[:-1, :-1] = lower + np.tril(lower, -1).T
        return made

    def _flush(self) -> None:
        assert self.recent is not None
        self.sum += self.recent
        self.recent[:] = 0.0


def _slices(n: int, step: int) -> list[slice]:
    return [slice(first, min(first + step, n)) for first in range(0, n, step)]


def _threshold(D: Array, most: float) -> float:
    """A power of two such that all D below it have a sum of `most` or less."""
    exponents = np.frexp(D)[1]
    first = int(exponents.min(initial=0))
    below = np.cumsum(np.bincount(exponents - first, D))
    return float(np.ldexp(0.5, first + int(np.searchsorted(below, most, side="right"))))
