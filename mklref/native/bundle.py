"""Steps where R* has kinks: a bundle of cuts (steps.py, mixture.py), or the central path where that fails."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from mklref._typing import Array
from mklref.machines.newton import NewtonMachine
from mklref.machines.smo import SMOMachine
from mklref.native.central import CentralPath
from mklref.native.mixture import mixed_step
from mklref.native.point import Point
from mklref.native.steps import Cut, bundle_step
from mklref.regularizers.polyhedral import Polyhedral

if TYPE_CHECKING:
    from mklref.native.outer import Outer

_SERIOUS = 0.1
"""Share of the predicted decrease with which a trial point becomes the new centre."""
_BUNDLE = 15
"""Cuts that are kept beside that of the centre, the latest ones."""
_FEW_FAILURES, _EACH = 2, 100
"""Trial points in a row that are no better before the central path is followed: one more for each so many samples and
kernels, whose number is the order of its matrices."""
_MOST_FAILURES = 30
"""And before a step by the closed form."""
_FAST = 0.1
"""Factor on the gap in a step from which on the cuts are mixed, although the loss is smooth."""
_NOTHING = 1e-5
_LESS = 0.1
"""Factor on the root of the Hessian each time that it has misled a bundle step."""
_FACTORISED = 2000
"""Samples and kernels up to which the central path may be followed: its factorisations of matrices of their number
cannot be interrupted, and take half a second there."""
_LIKELY = 0.5
"""Share of the largest square inside from which a kernel could matter there."""
_LONGEST_PATH = 60
_CLEAR = 0.01
"""Share of the wanted gap at which the central path is to tell what is 0, and again; its last steps are its longest."""
_SHORTEST = 1e-2
"""A step of the central path that is shorter, and to no smaller gap, is the last."""


class Bundle:
    """The cuts of one run of the outer loop, and how far its curvature is trusted."""

    def __init__(self) -> None:
        self.cuts: list[Cut] = []
        self.trust = 1.0
        self.gap = np.inf
        self.followed: Any = False
        """The kernels of all central paths so far."""

    def step(self, run: Outer, point: Point, psi: Polyhedral | None) -> Point:
        """Minimise the model where R* has kinks; add cuts while J at the trial point is not below J at the centre."""
        watched = np.flatnonzero(run.machine.forms.watched)
        W = self.trust * run.machine.hessian_root(watched)
        always = [point.cut()]
        unbounded = run.bounded_dual if psi is None else psi.normal is None
        if unbounded and not run.problem.intercept_cost:
            # Nothing else bounds the weights: beta = 0 says that J >= 0.
            always.append(Cut(np.zeros_like(point.beta), np.zeros_like(point.squares), 0.0))
        # Where the loss is smooth J is, and Newton's method goes on until it is slow.
        smooth = isinstance(run.machine, NewtonMachine) and point.working_gap <= _FAST * self.gap
        failures, self.gap = 0, point.working_gap
        while True:
            self.cuts = self.cuts[-_BUNDLE:]
            cuts = always + self.cuts
            if psi is None:
                weights, predicted, mixture = mixed_step(
                    run.problem.regularizer, cuts, W, point.weights, run.machine.deadline
                )
            else:
                weights = np.zeros_like(point.weights)
                weights[watched], predicted, mixture = bundle_step(
                    psi.of(watched), [cut.of(watched) for cut in cuts], W, point.weights[watched], run.unit
                )
            if point.merit - predicted <= run.target and not smooth:
                run.machine.set_dual(sum(share * cut.beta for share, cut in zip(mixture, cuts, strict=True)))
                mixed = run.assess(weights)
                run.best.note(mixed)
                if mixed.working_gap <= run.target:
                    return mixed
            trial = run.evaluate(weights)
            if point.merit - predicted <= min(run.target, _NOTHING * point.working_gap):
                # A model that has nothing left to gain, but a gap, has taken a kink of J for curvature.
                self.trust = _LESS * self.trust if trial.working_gap > 0.5 * point.working_gap else 1.0
            noise = 2.0 * max(trial.inner_gap, point.inner_gap)
            excess = trial.merit - point.merit + _SERIOUS * (point.merit - predicted)
            run.sharpen(excess, noise)
            self.cuts.append(always[0] if excess <= noise else trial.cut())
            if excess <= noise or run.record(trial):
                return trial
            failures += 1
            stuck = failures == _MOST_FAILURES or np.array_equal(trial.weights, point.weights)
            if stuck or failures == _FEW_FAILURES + (len(point.beta) + len(point.weights)) // _EACH:
                central = self.central_path(run, point)
                if central is not point or run.stopped is not None:
                    return central
            if stuck:
                return run.closed_form_step(point)

    def central_path(self, run: Outer, point: Point) -> Point:
        """Follow the central path to its end for the kernels that could matter, unless they all had their path.

        The same point where there is none, or it leads nowhere better. What is 0 or at its bound in the limit is set
        there where the gap allows it.
        """
        machine, psi = run.machine, run.problem.regularizer.polyhedral(run.problem.n_kernels)
        if psi is None or not isinstance(machine, SMOMachine):
            return point
        known, point = point, run.widen_working_set(point, _LIKELY)
        watched = machine.forms.watched
        if not np.any(watched & ~self.followed) or len(point.beta) + np.count_nonzero(watched) > _FACTORISED:
            return known
        self.followed = self.followed | watched
        path = CentralPath(machine, psi, point.weights)
        best, limit, clear = point, (point.weights, point.beta), _CLEAR
        for _ in range(_LONGEST_PATH):
            try:
                length = path.step()
            except FloatingPointError:
                break
            found = run.assess(machine.weights)
            if found.working_gap > 0.9 * best.working_gap and length < _SHORTEST:
                break
            if found.working_gap < best.working_gap:
                best, limit = found, path.limit()
            if run.record(found):
                break
            if best.working_gap <= clear * run.target:
                if (sparse := _accepted(run, best, *limit)) is not None:
                    return sparse
                clear *= _CLEAR
                path.go(path.theta)  # back from its limit
        if best is not point and (sparse := _accepted(run, best, *limit)) is not None:
            return sparse
        machine.set_dual(best.beta)
        last = run.assess(best.weights)
        return known if best is point else last


def _accepted(run: Outer, best: Point, weights: Array, beta: Array) -> Point | None:
    """The limit of a path as the new point, unless what was set to 0 in it costs more than is wanted."""
    run.machine.set_dual(beta)
    sparse = run.assess(weights)
    if not sparse.working_gap <= max(best.working_gap, run.target):
        return None
    if run.best.point is None or sparse.gap <= max(run.best.point.gap, run.target):
        run.best.point = sparse
    return sparse
