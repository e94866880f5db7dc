"""What is tried when the loop stalls: a ladder, each rung of which takes a point and returns a better one, or none.

central_path   the saddle point of machine and weights at once (central.py), where the bundle goes in circles or is lost
kinks          the solution for the penalty with kinks of which this one is barely a smooth version
closed_form    the weights for the present block norms: J + psi falls, however far the model is off (Kloft (17))
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeGuard

import numpy as np

from mklref._run import Recorder
from mklref._typing import Array
from mklref.exceptions import InvalidParameter
from mklref.machines.lazy import LazyMachine
from mklref.machines.smo import SMOMachine
from mklref.native import tuning
from mklref.native.central import CentralPath
from mklref.native.curved import relatives
from mklref.native.large_q import LargeQ
from mklref.native.loop import Loop
from mklref.native.point import Point, closed_form
from mklref.problem import Problem
from mklref.solution import Record, Status


class Ladder:
    """The rungs for one run of the loop; `solved` solves another problem with a recorder of its own."""

    def __init__(self, loop: Loop, solved: Callable[[Problem, Recorder[Record]], Loop]) -> None:
        self.loop, self.solved = loop, solved
        self.followed = np.zeros(loop.problem.n_kernels, dtype=bool)
        """The kernels of all central paths so far."""
        self.tried = np.inf if loop.large_q is None else -np.inf
        """The merit when the closed form was tried last; none is less where no psi lets it fall."""
        self.sharpened = loop.problem.regularizer.sharpened()
        """The penalty with kinks, until it was tried."""
        regularizer, M = loop.problem.regularizer, loop.problem.n_kernels
        by_parts, order = regularizer.parts(np.ones(M)) is not None, loop.problem.n_samples + M
        by_kernels, smooth = regularizer.in_shares(M) is not None, relatives(regularizer)[-1] is regularizer
        self.central = by_parts or by_kernels or smooth or loop.large_q is not None
        """Whether there is a central path for this penalty."""
        if order > tuning.FACTORISED or not _has_a_path(loop.machine):
            loop.most_steps = np.inf
            return
        if loop.large_q is not None:
            loop.patience = tuning.IMPATIENCE
        elif by_parts:
            loop.most_failures = order // tuning.EACH_OF_PARTS
        elif by_kernels or smooth or self.sharpened is not None:
            loop.most_failures = min(tuning.FEW_FAILURES + order // tuning.EACH, tuning.MOST_FAILURES)

    def climb(self, point: Point) -> Point | None:
        """The point of the first rung that leads on from this centre, or None."""
        loop = self.loop
        failed, loop.most_steps = loop.lost() or loop.failures >= loop.most_failures, np.inf
        if (found := self.central_path(point)) is not None or loop.stopped is not None:
            return found
        if self.sharpened is not None and ((found := self.kinks()) is not None or loop.stopped is not None):
            return found
        if failed and loop.failures < tuning.MOST_FAILURES:
            loop.most_failures = tuning.MOST_FAILURES
            return loop.resume(point)
        if not point.merit < self.tried - loop.target:
            return None
        self.tried = point.merit
        return self.closed_form(point)

    def kinks(self) -> Point | None:
        """From the solution for the penalty with kinks, whose psi is polyhedral: the curved one is as steep there."""
        regularizer, self.sharpened = self.sharpened, None
        loop, recorder = self.loop, self.loop.recorder
        left = max(1, recorder.max_iter - len(recorder.records))
        own: Recorder[Record] = Recorder(
            "kinks",
            tol=loop.tol,
            max_iter=max(1, left // 2),
            max_time=recorder.left,
            # The bounds that are told are those of this problem.
            callback=lambda _: recorder.tell(recorder.records[-1]),
        )
        try:
            other = self.solved(loop.problem.replace(regularizer=regularizer), own)
        except (FloatingPointError, np.linalg.LinAlgError, InvalidParameter):  # no point there
            if recorder.raised:
                raise
            return None
        loop.spend(other.counters())
        recorder.max_iter -= len(own.records)
        found = other.best.point
        if other.stopped is not Status.ITERATION_LIMIT or len(recorder.records) >= recorder.max_iter:
            loop.stopped = other.stopped  # else its share is used up, and what it has found leads on
        if found is None or loop.stopped is not None:
            return None
        loop.machine.warm = True
        loop.machine.set_dual(found.beta)
        norms = found.weights * np.sqrt(loop.machine.squares)
        return loop.begin(loop.problem.regularizer.weights_from_norms(norms))

    def central_path(self, point: Point) -> Point | None:
        """To the end of the central path for the kernels that could matter, unless they all had their path.

        What is 0 or at its bound in the limit is set there where the gap allows it.
        """
        loop, machine = self.loop, self.loop.machine
        if not (self.central and _has_a_path(machine)):
            return None
        point = loop.widen(point)
        watched = machine.forms.watched
        order = loop.problem.n_samples + np.count_nonzero(watched)
        if not np.any(watched & ~self.followed) or order > tuning.FACTORISED:
            return None
        self.followed |= watched
        machine.set_dual(point.beta)
        machine.move(point.weights)
        if loop.large_q is not None:
            return self._to_the_end(machine, point, loop.large_q)
        path = CentralPath(machine, point.weights, loop.unit / tuning.UNIT / loop.units)
        best, limit = point, (point.weights, point.beta)
        for _ in range(tuning.LONGEST_PATH):
            try:
                length = path.step()
            except FloatingPointError:
                break
            found = loop.assess(machine.weights)
            if found.working_gap > 0.9 * best.working_gap and length < tuning.SHORTEST:
                break
            if found.working_gap < best.working_gap:
                best, limit = found, path.limit()
            loop.record(found)
            if loop.stopped is not None or best.working_gap <= tuning.CLEAR * loop.target:
                break
        if best is not point and (sparse := self._accepted(best, *limit)) is not None:
            return sparse
        machine.set_dual(best.beta)
        last = loop.assess(best.weights)
        return None if best is point else last

    def _to_the_end(self, machine: SMOMachine, point: Point, large_q: LargeQ) -> Point:
        """The machine at the weights where a path of reciprocals ends, if its gap is the smallest one; else this point.

        The dual points of the path are worth little: each error of a score costs C.
        """
        loop = self.loop
        path = CentralPath(machine, point.weights, r=large_q.r)
        wanted = loop.tol * max(abs(loop.best.upper), loop.zero)
        for _ in range(tuning.LONGEST_PATH):
            try:
                path.step()
            except FloatingPointError:
                break
            loop.record(loop.assess(machine.weights))
            if loop.stopped is not None or path.complementarity <= tuning.CLEAR * wanted:
                break
        if loop.stopped is not None:
            return loop.resume(point)
        known = np.inf if loop.best.point is None else loop.best.point.gap
        loop.inner_gap = tuning.CLEAR * wanted
        loop.ahead = found = loop.evaluate(machine.weights)
        if found.gap < known:
            return found
        loop.patience = tuning.PATIENCE
        return loop.resume(point)

    def _accepted(self, best: Point, weights: Array, beta: Array) -> Point | None:
        """The limit of a path as the new point, unless what was set to 0 in it costs more than is wanted."""
        loop = self.loop
        loop.machine.set_dual(beta)
        sparse = loop.assess(weights)
        if not sparse.working_gap <= max(best.working_gap, loop.target):
            return None
        if loop.best.point is None or sparse.gap <= max(loop.best.point.gap, loop.target):
            loop.best.point = sparse
        return sparse

    def closed_form(self, point: Point) -> Point | None:
        """The closed form at this point, or at the best one, unless it is no better.

        Norms change less than weights: where a long step led to weights of another order, the norms of a point before
        it may lead back. A run that rounding may have stopped is not continued for less than the wanted gap.
        """
        loop = self.loop
        enough = 0.0 if loop.failures >= tuning.MOST_FAILURES else loop.target
        for known in dict.fromkeys((point, loop.best.point)):  # mostly one and the same
            if known is not None:
                found = loop.evaluate(closed_form(loop.problem, known))
                if found.merit < point.merit - enough or found.gap <= loop.target:
                    return found
        return None


def led_nowhere(loop: Loop, status: Status) -> bool:
    """Whether a start led to a stall, or to weights so large that rounding leaves more open than the wanted gap."""
    if status is not Status.OPTIMAL or loop.least_doubt <= loop.tol * max(abs(loop.best.upper), loop.zero):
        return status is Status.STALLED
    return loop.solution(status).status is not Status.OPTIMAL


def _has_a_path(machine: Any) -> TypeGuard[SMOMachine]:
    """Whether it is a box-constrained quadratic for whose whole Q there is room, as the central path needs it."""
    if isinstance(machine, LazyMachine) and len(machine.beta) > machine.most_of(1):
        return False
    return isinstance(machine, SMOMachine)
