r"""The central path in (v, b, s) at once, for kernels as factors.

    minimise over v, b, s    sum_p sum_i c_i V(l_i'v_p + b_p, y_pi) + sum_m [sum_p ||v_pm||^2]/(2 theta(s)_m)
                             + price sum s + c_b b,    or with phi(s) <= 1

In this form, with w = L'beta as a variable of its own, p = 1 takes no more steps than p = 2.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import LinAlgError

from mklref._run import Recorder
from mklref._typing import Array
from mklref.certificate.bounds import relative, unit_of
from mklref.factored.approach import approached, suits
from mklref.factored.bounds import bounds_at, fitted_gap
from mklref.factored.nearby import EDGES, Far
from mklref.factored.remote import Remote
from mklref.factored.rounds import Rounds, machines_of, samples_for
from mklref.factored.step import multipliers, pull, take_step
from mklref.factored.weights import Psi, psi_of
from mklref.problem import Problem
from mklref.solution import Record, Status

_AFAR = 1e5
"""tau in units of the objective when the path begins once more from nothing: in the middle of every box, for any C."""
_PATIENCE = 12
"""So many steps without a better gap: rounding has the last word."""
_DOUBTFUL, _MORE, _CHEAP = 2, 8.0, 1e8
"""Steps without a better gap after which so many times the rows are drawn: where L'beta has to vanish, they leave of it
what the error of L'DL is. And multiplications of L'DL that are worth less than the steps that drawn rows add."""
_ROUGH, _DEEPER = 0.01, 1e-3
"""Relative gap from which on rows are left out without an approach; and the share of the gap at a look at all rows that
calls for the next one."""
_LEAST, _FIRST, _LARGEST = 0.03, 0.25, 0.4
"""Shares of the samples that are near at least, where nothing is known, and at most; else none is left out."""
_AWAY, _WIDER = 1.0, 2.0
"""A sample is left out that is so many times as far from where its loss bends as the scores of those that were left out
have changed between the last two looks (root of the mean square; from now on they change less); and so many times
farther if the gap has hardly fallen."""
_HALVINGS, _UNBALANCED = 40, 0.01
"""Of an interval for an intercept of the start; and the share of 1'beta that may be left there."""
_DIGITS, _RANGE = (1e-3, 1e-5), (1e-12, 1e12)
"""Relative gaps below which products, and then L'DL, in float32 would leave v and theta w apart; and C times the
largest K_ii where float32 does not overflow."""
_READ = 1e-4
"""Relative gap above which a look at rows in float32 is one in float32."""
_SAVED = 0.1
"""A point of other processes is fetched when its gap is that share of the one that was fetched before."""
_ROWS = 50
"""Rows of L'DL for each column of L, if there are many more."""
_LITTLE = 1e4
"""Entries of L with which a certificate costs so little that every point may have one; with 1e5 ends took 3 to 11 s."""
_ENOUGH = 0.03
"""Share of the gap that is wanted which the products may have: smaller ones cost digits."""


class Start(NamedTuple):
    """Coefficients (P, r), intercepts (P,) and weights (M,) to start from; tau is `share` of the objective."""

    v: Array
    b: Array
    theta: Array
    share: float


class Point(NamedTuple):
    """The best point so far, whose beta the shards keep; s as psi counts variables."""

    v: Array
    b: Array
    s: Array
    kept: Array
    """s without those that are smaller than their multipliers."""
    gap: float


class Path:
    """From a start to the solution; `psi` has a weight for each kernel, or for each group.

    `save` is called at a best point that is much better than where it was called before.
    """

    def __init__(
        self,
        problem: Problem,
        rounds: Rounds | Remote,
        recorder: Recorder[Record],
        save: Callable[[], None] | None = None,
    ) -> None:
        machines = [machine for _, machine in machines_of(problem)]
        self.problem, self.rounds, self.recorder = problem, rounds, recorder
        self.first: Problem = machines[0]
        self.psi: Psi = psi_of(problem.regularizer, self.first.n_kernels)
        self.kernel, self.rank = rounds.stack.owner, rounds.stack.rank
        self.owner = self.psi.member[self.kernel]
        """The weight of each column of L."""
        self.each = [samples_for(one.loss, one.y[:2], one.costs[:2]) for one in machines]
        self.samples = np.array([float(machine.n_samples) for machine in machines])
        self.largest = rounds.stack.largest_diagonals()
        self.unit = unit_of(self.first)
        self.lower, self.upper = -np.inf, np.inf
        self.best: Point | None = None
        self.points: list[tuple[Point, Array]] = []
        """What was the best point until then, with its beta, where that is little."""
        self.costly = self.first.n_samples * self.rank > _LITTLE
        """Whether each certificate has to be worth what it reads."""
        self.little = not rounds.remote and not self.costly
        self.save, self.saved = save, np.inf
        self.digits = 0 if _RANGE[0] < self.problem.C * self.largest.max() < _RANGE[1] else 2
        """How exact sums over rows have to be, see `Shard.assemble`; 2 after a poor step."""
        self.poor = False
        self.large = self.first.n_samples * self.rank**2 > _CHEAP
        self.rows = float(_ROWS * self.rank) if self.large else np.inf
        """Rows that L'DL takes."""
        self.kinked, self.bounded = any(one.kinked for one in self.each), any(one.bounded for one in self.each)
        self.away_from = suits(self)
        """Whether the path is still to be approached."""
        self.choosy = self.large and any(one.ends for one in self.each)
        """Whether rows that do not matter are left out."""
        self.begun = self.fits = False
        self.trusted = not any(one.ends for one in self.each)
        """Whether weights that fit v may end the path before its own are right."""
        self.counters = {"steps": 0.0, "grams": 0.0, "passes": 0.0}

    def begin(self, start: Start | None, tau: float | None = None) -> None:
        """Every sample on its own central path for the scores of the start, or for scores of 0.

        With tau they stay where they are: on that path for other weights, with the scores of the start.
        """
        P, psi = len(self.each), self.psi
        if start is None:
            equal = self.problem.regularizer.weights_from_norms(np.ones(len(psi.member)))
            start = Start(np.zeros((P, self.rank)), np.zeros(P), equal, _AFAR if self.begun and self.bounded else 1.0)
        measured = start.share <= 1.0 and not self.first.intercept_cost
        self.cold = tau is None and measured and (self.bounded or bool(start.v.any()))
        """Whether tau is still to be made that of the gap: of less, L'beta is too large and steps are short. On a half
        line it would be larger yet."""
        self.begun = True
        self.start, self.v, self.b = start, start.v.copy(), start.b.copy()
        theta = np.zeros(psi.count)
        np.maximum.at(theta, psi.member, start.theta)
        self.s = psi.start(theta)
        self.z, self.nu = np.zeros_like(theta), 0.0
        self.far: Far | None = None
        self.left_out = False
        """Whether some samples have been left out since."""
        self.looked, self.goal, self.before, self.change, self.away = False, _ROUGH, np.inf, np.nan, _AWAY
        self._count(self.samples)
        self.length, self.centred, self.fresh, self.stuck, self.gap = 0.0, False, True, False, np.inf
        if tau is not None:
            self.tau = tau
            return
        losses = float(self.rounds.sum("score", self.v, self.b).sums[0])
        penalty = self.problem.regularizer.value(self.norms(self.v))
        self.objective = losses + penalty + self.first.intercept_cost * float(self.b.sum())
        self.tau = start.share * max(losses, self._size()) / max(self.count, 1)
        if not self.away_from:
            self._balance_start()

    def evaluated(self, width: float, rows: float, exact: bool, near: bool = False) -> tuple[Array, Array, float]:
        """L'DL and vectors of a rounder loss at v and b, with bounds of the problem itself; how many D are not 0."""
        digits = max(self.digits, int(exact))
        asked = self.rounds.sum("evaluate", self.v, self.b, width, self.weights(), rows, digits, near)
        grams, vectors, sums, told = asked.sums
        self.counters["grams"] += float(told[0]) / (self.first.n_samples * len(self.each))
        self.counters["passes"] += 1.0
        self.counters["steps"] += 1.0
        self.w = vectors[:, :-1, 1] + vectors[:, :-1, 2]
        self._bounds(vectors, sums)
        return grams, vectors, float(told[1])

    def arrive(self, change: float) -> None:
        """Onto the path, near to its end, from where scores will change so much."""
        self.away_from = False
        if np.isinf(change):
            self.begin(self.start)
            return
        self.change, self.cold = change, False
        self._look(self._near())
        self.digits = max(self.digits, 1)
        self.tau = self.gap / max(self.count, 1)
        self._begun()
        if self.psi.fixed is None:
            self.z = np.maximum(self.z, self.tau / self.s)
        self.length, self.fresh, self.looked = 0.0, False, True

    def _count(self, samples: Array) -> None:
        """The products that go to tau, of so many samples of each machine and of the weights."""
        pairs = sum(one.pairs * own for one, own in zip(self.each, samples, strict=True))
        self.count = int(pairs) + (0 if self.psi.fixed is not None else self.psi.count)

    def _near(self) -> float:
        """How far from where its loss bends a sample may be that matters; inf if these are too many."""
        if not self.choosy:
            return np.inf
        least, first, most = self.clearances(_LEAST, _FIRST, _LARGEST)
        near = first if np.isnan(self.change) else max(self.away * self.change, least)
        return near if near <= most else np.inf

    def clearances(self, *shares: float) -> list[float]:
        """How far from where their loss bends at most such shares of the samples are; inf beyond the last of EDGES."""
        below, edges = np.cumsum(self.rounds.sum("clearances").sums[0]), np.append(EDGES, np.inf)
        return [float(edges[np.searchsorted(below, share * below[-1])]) for share in shares]

    def _look(self, near: float) -> None:
        """Take the step, compute all scores anew, and go on with samples that are so near to where their loss bends."""
        self.near = near
        digits = self.digits if self.relative_gap() < _READ else 0
        told = self.rounds.sum("look", self.length, self.centred, self.v, self.b, self.tau, near, digits)
        vectors, sums, counts, (squares, number) = told.sums
        self.length, self.looked, self.far = 0.0, True, None
        self.change = float(np.sqrt(squares / number)) if number else self.change
        self.counters["passes"] += 1.0
        self._count(counts[:, 0])
        if counts[:, 0].sum() < self.samples.sum():
            self.left_out = True
            self.far = Far(vectors, sums, float(counts[:, 0].sum() / self.samples.sum()))
            sums[0, 0] -= self.far.losses(self.v, self.b)
            missing = self.first.intercept_cost - vectors[:, -1].sum(axis=1)
            if self.first.intercept and not np.all((counts[:, 1] < missing) & (missing < counts[:, 2])):
                self.choosy = False  # those that are near could not make up for 1'beta of the others
                self._look(np.inf)

    def anew(self) -> None:
        """Compute the scores anew: sums of steps keep what rounding left of larger ones, and bounds do not see it."""
        self._look(self._near() if self.far else np.inf)
        self.forget()

    def forget(self) -> None:
        """Let the bounds and the gap of the best point be those of points from now on."""
        self.lower, self.upper = -np.inf, np.inf
        if self.best is not None:
            self.best = self.best._replace(gap=np.inf)

    def _begun(self, shift: Any = 0.0) -> Array:
        """Put the samples on their own central paths for their scores, shifted before; 1'beta of each machine."""
        return self.rounds.sum("begin", self.tau, shift + np.zeros_like(self.b)).sums[0]

    def _balance_start(self) -> None:
        """Begin where beta sums to c_b, roughly if that is 0: nothing else is as far from its constraint.

        For columns far from 0 L'beta is 1'beta times their means, and the first steps would be short.
        """
        cost, total = self.first.intercept_cost, self._begun()
        most = 0.0 if cost else _UNBALANCED * float(np.abs(total).max())
        low, high = np.full_like(self.b, -np.inf), np.full_like(self.b, np.inf)
        step = np.full_like(self.b, self.tau if cost else np.abs(self.first.y).mean())
        for _ in range(_HALVINGS if self.first.intercept else 0):
            if np.all(np.abs(total - cost) <= most):
                break
            above = total > cost  # beta falls as the scores rise
            low, high = np.where(above, self.b, low), np.where(above, high, self.b)
            shift = 0.5 * (low + high) - self.b
            unknown = ~np.isfinite(shift)
            shift, step = np.where(unknown, np.where(above, step, -step), shift), np.where(unknown, 2.0 * step, step)
            self.b = self.b + shift
            total = self._begun(shift)

    def _size(self) -> float:
        """The size of the objective, where the losses do not tell it; 1 where nothing does, for kernels of zeros."""
        first = self.first
        if not first.intercept_cost:
            return max(self.unit, float(np.finfo(float).tiny))
        norms = first.intercept_cost * np.sqrt(first.kernels.traces() / first.n_samples)
        return float(first.regularizer.conjugate(norms)) or 1.0

    def follow(self, tol: float) -> Status:
        """Steps until the gap is tol |upper|, or nothing goes on."""
        shown, worse = np.inf, 0
        if self.away_from:
            status, change = approached(self, tol)
            if status is not None:
                return status
            self.arrive(change)
        while True:
            grams, vectors, sums = self._assembled()
            gap, size = self._bounds(vectors, sums), self.scale()
            if self.cold and 0.0 < self.tau * self.count < gap < np.inf:
                self.cold, self.tau = False, gap / self.count
                self._balance_start()
                continue
            share, may_look = gap / size, self.choosy and not self.looked
            if may_look and share <= max(self.goal, tol) and (self.far is not None or share > tol):
                same = gap <= tol * size and self.away == _AWAY  # or beta moves once more
                near = self.near if same else self._near()
                if self.far is not None or np.isfinite(near):
                    self._look(near)
                    shown, worse = np.inf, 0
                    continue
                self.goal *= _DEEPER
            if self.looked:
                self.away *= _WIDER if gap > 0.5 * self.before else 1.0
                self.before, self.goal = gap, min(_ROUGH, _DEEPER * gap / size)
            self.fits = gap > tol * size >= fitted_gap(self, grams, vectors, sums)
            status = self.recorded(tol)
            worse = 0 if gap < 0.99 * shown else worse + 1
            shown = min(gap, shown)
            if status is not None:
                return status
            if worse >= _DOUBTFUL:
                self.rows *= _MORE
            stalled = worse >= _PATIENCE or self.stuck
            if not stalled:
                try:
                    take_step(self, grams, vectors, _ENOUGH * tol * size)
                except (LinAlgError, FloatingPointError):
                    stalled, self.poor = self.digits == 2, True
            if stalled and not self.left_out:
                return Status.STALLED
            if stalled:  # the path of all samples is another one: nothing less than its beginning is near it
                self.choosy, shown, worse = False, np.inf, 0
                self.begin(None)

    def recorded(self, tol: float) -> Status | None:
        """A line of the history; OPTIMAL if the gap is tol |upper|, or which limit is reached."""
        recorder, size = self.recorder, self.scale()
        clock, reached = recorder.seconds, Status.OPTIMAL if self.gap <= tol * size or self.fits else None
        record = Record(len(recorder.records), clock, self.lower, self.upper, 1, self.weights(), unit=self.unit)
        return recorder.add(record, relative(self.upper - self.lower, size), reached)

    def relative_gap(self) -> float:
        """The gap of the present point."""
        return self.gap / self.scale()

    def scale(self) -> float:
        """What gaps are relative to."""
        return max(abs(self.upper), self.unit, float(np.finfo(float).tiny))

    @property
    def theta(self) -> Array:
        """The weights, as psi counts them."""
        return self.psi.weights(self.s)

    def weights(self) -> Array:
        """theta of every kernel, (M,)."""
        return np.asarray(self.theta[self.psi.member])

    def _assembled(self) -> tuple[Array, Array, Array]:
        largest = max(float(self.weights() @ self.largest), np.finfo(float).tiny)
        size, before = self.scale(), self.digits
        self.digits = 2 if self.poor else max(before, sum(self.gap < least * size for least in _DIGITS))
        if self.digits and not before and not self.fresh:
            self.anew()
        length, self.length = self.length, 0.0
        share = 1.0 if self.far is None else max(self.far.share, 1.0 / float(self.samples.sum()))  # none may be near
        asked = length, self.centred, self.weights(), largest, self.rows / share, self.digits
        grams, vectors, sums, read = self.rounds.sum("assemble", *asked).sums
        if self.far is not None:
            vectors[:, :, 1:] += self.far.vectors
            sums += self.far.sums
        self.counters["grams"] += float(read[0]) / (self.first.n_samples * len(self.each))
        self.counters["passes"] += share
        self.w = vectors[:, :-1, 1] + vectors[:, :-1, 2]
        if not np.isfinite(self.w).all():
            self.rounds.stack.require_finite()
        if self.fresh and self.psi.fixed is None:
            multipliers(self, self.w)
        return grams, vectors, sums

    def norms(self, w: Array) -> Array:
        """(sum_p ||w_pm||^2)^{1/2} of each kernel."""
        return np.sqrt(np.bincount(self.kernel, np.sum(w * w, axis=0), len(self.psi.member)))

    def _bounds(self, vectors: Array, sums: Array) -> float:
        """The gap here for samples that are near; bounds that hold for all are kept if they are better."""
        lower, upper = bounds_at(self, vectors, sums)
        gap = upper - lower if np.isfinite(upper) and np.isfinite(lower) else np.inf
        self.gap, self.lower = gap, max(self.lower, lower)
        if self.far is not None and not self.looked:
            return gap
        self.upper = min(self.upper, upper)
        if self.best is None or gap < self.best.gap:
            self.rounds.sum("keep")
            self.best = Point(self.v, self.b, self.s, self.kept(), gap)
            if self.little:
                self.points.append((self.best, self.rounds.kept()))
            if self.save is not None and gap < _SAVED * self.saved:
                self.save()
                self.saved = gap
        return gap

    def kept(self) -> Array:
        """s without what is smaller than its multiplier, in its units."""
        price = float(np.max(pull(self, self.w) / self.s)) if self.psi.fixed is None else 0.0
        return np.where(self.s * price < self.z * self.s.max(), 0.0, self.s)
