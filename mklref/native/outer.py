"""The outer loop over the kernel weights, certified at every step.

Minimise Phi(theta) = J(theta) + psi(theta), where J(theta) is the optimal value of the kernel machine with the
kernel sum_m theta_m K_m. Each step solves the machine (warm-started), reads off the gradient -q/2 and the Hessian
W'W of J, minimises the quadratic model of J plus psi exactly, and searches along the way there:

    1. beta = argmax of the machine at theta;   q_m = beta'K_m beta
    2. upper = primal objective at (beta, theta, b);   lower = dual objective at beta;   stop if they meet
    3. theta+ = argmin -1/2 q'(theta+ - theta) + 1/2 ||W(theta+ - theta)||^2 + psi(theta+)       (model.py)
    4. theta <- theta + t (theta+ - theta) with Phi sufficiently lower; t = 1 near the solution

It is sequential quadratic programming on the dual with exact curvature, and converges quadratically once the set
of free support vectors is found.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from mklref._typing import Array
from mklref.multiclass import MulticlassProblem, MulticlassSolution
from mklref.native.box import BoxMachine
from mklref.native.central import CentralPath
from mklref.native.interior import Interior
from mklref.native.joint import JointMachine
from mklref.native.machine import Machine
from mklref.native.mixture import mixed_step
from mklref.native.model import minimise
from mklref.native.polyhedral import Polyhedral, polyhedral
from mklref.native.steps import Cut, bundle_step
from mklref.problem import Problem
from mklref.progress import Progress
from mklref.regularizers import BlockNorm, Groups, Lp
from mklref.solution import History, Record, Solution, Status

_ARMIJO = 1e-4
_FAR_OFF = 0.1
"""Where less than this share of the way is left the model says little, and the closed form may lead further."""
_SHORTEST = 1e-2
_COARSE = 0.05
"""No machine is solved more coarsely than to this share of the objective."""
_AHEAD = 0.01
"""From informed weights the next machine is solved to this share of the gap: Newton's method will close it by that."""
_SERIOUS = 0.1
"""Share of the predicted decrease with which a trial point becomes the new centre."""
_UNIT = 1e-3
_BUNDLE = 15
"""Cuts that are kept beside that of the centre, the latest ones."""
_MANY_FAILURES, _MOST_FAILURES = 10, 30
"""Trial points in a row that are no better, after which the central path and then the closed form are tried."""
_NOTHING = 1e-5
_LESS = 0.1
"""Factor on the root of the Hessian each time that it has misled a bundle step."""
_WATCHED = 30
"""Kernels, or a tenth of them if that is more, that a sparse problem starts with."""
_NEARLY = 0.9
_WIDER = 0.1
"""The other kernels are looked at each time the gap on the watched ones has shrunk by this factor."""
_GOOD_ENOUGH = 2
_PATIENCE = 12
"""Outer iterations without a smaller gap or a lower objective after which rounding is held responsible."""
_SUSPICIOUS = 3
"""After so many kinks of J are held responsible, where psi is the indicator of a curved ball."""
_FACTORISED = 3000
"""Samples and kernels up to which the central path may be followed: it factorises matrices of their number."""
_LONGEST_PATH = 60
_CLEAR = 0.01
"""Share of the wanted gap at which the central path tells which weights are 0; its last steps are its longest."""
_NOTABLE = 0.1
"""Share of the wanted gap by which the objective has to fall to count."""


@dataclass(frozen=True)
class Point:
    """One evaluated point: weights and the machine's answer to them."""

    weights: Array
    beta: Array
    squares: Array
    intercept: Any
    merit: float
    upper: float
    lower: float
    inner_gap: float
    value: float
    working_gap: float
    """The gap as it would be if the kernels that are not watched were not there."""

    def cut(self) -> Cut:
        """The lower bound of J that this dual point gives."""
        return Cut(self.beta, self.squares, self.value + 0.5 * float(self.weights @ self.squares))

    @property
    def gap(self) -> float:
        """upper - lower."""
        return self.upper - self.lower


class Outer:
    """One run of the outer loop, with everything it has seen so far."""

    def __init__(
        self,
        machine: Machine | JointMachine,
        tol: float,
        max_iter: int,
        deadline: float,
        callback: Callable[[Record], object] | None = None,
        progress: bool = False,
    ) -> None:
        self.machine = machine
        self.problem: Problem | MulticlassProblem = machine.problem
        self.tol, self.max_iter, self.deadline, self.callback = tol, max_iter, deadline, callback
        self.start = time.perf_counter()
        self.machine.deadline = deadline
        self.progress = Progress(progress, "solving", target=tol)
        self.inner_gap = np.inf
        self.cuts: list[Cut] = []
        self.interior: Interior | None = None
        if isinstance(self.problem.regularizer, BlockNorm) and self.problem.regularizer.weight_form == "max":
            self.interior = Interior(self.problem.regularizer)
        self.trust = 1.0
        self.kinked = self.followed = False
        self.best: Point | None = None
        self.last: Point | None = None
        self.lower, self.upper = -np.inf, np.inf
        self.records: list[Record] = []
        self.stopped: Status | None = None

    def iterate(self, weights: Array) -> Status:
        """Run the outer loop from these weights; says why it ended."""
        self._note(self._assess(weights))  # f = 0, or where the start is: nothing worse is returned
        point = self._evaluate(weights)
        self.unit = _UNIT * float(weights.max())
        since_better = 0
        smallest = lowest = np.inf
        sparse = polyhedral(self.problem.regularizer, self.problem.n_kernels) is not None
        look_wider = _WIDER * point.working_gap
        while True:
            self._record(point)
            # Where |P*| < 1 the promise, a gap of tol, may be a weak one: go for a truly relative gap while it lasts.
            target = self.target = self.tol * (abs(point.upper) or 1.0)
            kept = point.gap <= self.tol * max(1.0, abs(point.upper))
            if point.gap <= target or (kept and since_better > _GOOD_ENOUGH):
                return Status.OPTIMAL
            if self.stopped is not None:
                return self.stopped
            if point.working_gap <= max(look_wider, target):
                point, look_wider = self._look_wider(point), _WIDER * point.working_gap
                if point.gap <= target:
                    continue
            better = point.working_gap < 0.9 * smallest or point.upper < lowest - _NOTABLE * target
            since_better = 0 if better else since_better + 1
            smallest, lowest = min(smallest, point.working_gap), min(lowest, point.upper)
            if since_better > _SUSPICIOUS and not self.kinked and isinstance(self.problem.regularizer, Groups | Lp):
                self.kinked, since_better = True, 0
            if since_better > _PATIENCE:
                point, known = self._central_path(point), point
                if point is known:
                    return Status.STALLED
                since_better = 0
                continue
            ahead = _AHEAD * smallest if self.machine.informed else smallest
            self.inner_gap = min(self.inner_gap, max(target, min(ahead, _COARSE * abs(self.upper))))
            if point.inner_gap > 0.5 * point.working_gap:
                outer_done = point.working_gap - point.inner_gap <= 0.5 * target
                self.inner_gap = min(0.1 * self.inner_gap, target if outer_done else np.inf)
                point = self._evaluate(point.weights)
            else:
                if sparse and self.machine.images.watched.all():
                    self._watch_the_largest(point)
                point = self._step(point)

    def _watch_the_largest(self, point: Point) -> None:
        """Watch only the kernels that are or are likely to be active, once the weights are sparse."""
        count = max(_WATCHED, self.problem.n_kernels // 10)
        if np.count_nonzero(point.weights) < count < self.problem.n_kernels:
            self.machine.images.watched[:] = point.weights > 0.0
            self.machine.images.watched[np.argsort(point.squares)[-count:]] = True

    def _look_wider(self, point: Point) -> Point:
        """Read the kernels again whose bounds show that they could matter, and watch those that nearly do."""
        images = self.machine.images
        known = images.watched.copy()
        inside = point.squares[known].max()
        images.watched |= point.squares > inside
        if np.array_equal(known, images.watched):
            return point
        self.machine.jump(point.beta)
        images.watched &= known | (images.squares > _NEARLY * inside)
        return self._assess(point.weights)

    def _evaluate(self, weights: Array) -> Point:
        """Solve the machine at these weights and bound the optimum from what it found."""
        self.machine.move(weights)
        self.machine.solve(self.inner_gap)
        return self._assess(weights)

    def _assess(self, weights: Array) -> Point:
        """Bounds at these weights and the present dual point of the machine."""
        machine, regularizer = self.machine, self.problem.regularizer
        machine.move(weights)
        squares = machine.images.squares.copy()
        _, intercept, losses = machine.scores()
        value = machine.value()
        lower = machine.dual_objective(squares)
        known = machine.dual_objective(np.where(machine.images.watched, squares, 0.0))
        upper = losses + regularizer.value(weights * np.sqrt(squares))
        penalty = regularizer.weight_penalty(weights) if regularizer.weight_form == "min" else 0.0
        return Point(
            weights=weights,
            beta=machine.beta.copy(),
            squares=squares,
            intercept=intercept,
            merit=value + penalty if regularizer.weight_form == "min" else -lower,
            upper=upper,
            lower=lower,
            inner_gap=losses + 0.5 * float(weights @ squares) - value,
            value=value,
            working_gap=upper - known,
        )

    def _bundle_step(self, point: Point, psi: Polyhedral | None) -> Point:
        """Minimise the model where R* has kinks; add cuts while J at the trial point is not below J at the centre."""
        watched = np.flatnonzero(self.machine.images.watched)
        W = self.trust * self.machine.hessian_root(watched)
        always = [point.cut()]
        if psi is not None and psi.normal is None and not self.problem.intercept_cost:
            # Nothing else bounds the weights: beta = 0 says that J >= 0.
            always.append(Cut(np.zeros_like(point.beta), np.zeros_like(point.squares), 0.0))
        failures = 0
        while True:
            self.cuts = self.cuts[-_BUNDLE:]
            cuts = always + self.cuts
            if psi is None:
                weights, predicted, mixture = mixed_step(self.problem.regularizer, cuts, W, point.weights)
            else:
                weights = np.zeros_like(point.weights)
                weights[watched], predicted, mixture = bundle_step(
                    psi.of(watched), [cut.of(watched) for cut in cuts], W, point.weights[watched], self.unit
                )
            if point.merit - predicted <= self.target:
                self.machine.jump(sum(share * cut.beta for share, cut in zip(mixture, cuts, strict=True)))
                mixed = self._assess(weights)
                self._note(mixed)
                if mixed.working_gap <= self.target:
                    return mixed
            trial = self._evaluate(weights)
            if point.merit - predicted <= min(self.target, _NOTHING * point.working_gap):
                # A model that has nothing left to gain, but a gap, has taken a kink of J for curvature.
                self.trust = _LESS * self.trust if trial.working_gap > 0.5 * point.working_gap else 1.0
            noise = 2.0 * max(trial.inner_gap, point.inner_gap)
            excess = trial.merit - point.merit + _SERIOUS * (point.merit - predicted)
            self._sharpen(excess, noise)
            self.cuts.append(always[0] if excess <= noise else trial.cut())
            if excess <= noise or self._record(trial):
                return trial
            failures += 1
            stuck = failures == _MOST_FAILURES or np.array_equal(trial.weights, point.weights)
            if stuck or failures == _MANY_FAILURES:
                central = self._central_path(point)
                if central is not point:
                    return central
            if stuck:
                return self._closed_form_step(point)

    def _central_path(self, point: Point) -> Point:
        """Follow the central path to its end, once; the same point where there is none, or it leads nowhere better.

        Weights that are 0 in the limit are set to 0 where the gap allows it.
        """
        machine, psi = self.machine, polyhedral(self.problem.regularizer, self.problem.n_kernels)
        if self.followed or psi is None or not isinstance(machine, BoxMachine):
            return point
        if len(machine.beta) + machine.weights.size > _FACTORISED:
            return point
        self.followed = True
        path = CentralPath(machine, psi, point.weights)
        best, weights = point, point.weights
        for _ in range(_LONGEST_PATH):
            try:
                length = path.step()
            except FloatingPointError:
                break
            found = self._assess(machine.weights)
            if found.gap > 0.9 * best.gap and length < _SHORTEST:
                break
            if found.gap < best.gap:
                best, weights = found, path.sparse_weights()
            if self._record(found) or best.gap <= _CLEAR * self.target:
                break
        machine.jump(best.beta)
        if best is point:
            machine.move(point.weights)
            return point
        sparse = self._assess(weights)
        if sparse.gap > max(best.gap, self.target):
            return self._assess(best.weights)
        self.best = sparse
        return sparse

    def _step(self, point: Point) -> Point:
        """Go to the minimiser of the model, or as far on the way there as the merit falls."""
        regularizer = self.problem.regularizer
        if self.interior is not None:
            W = self.machine.hessian_root(np.arange(self.problem.n_kernels))
            gap = max(point.gap - point.inner_gap, 1e-3 * point.gap)
            return self._evaluate(self.interior.step(point.weights, point.squares, W, gap))
        psi = polyhedral(regularizer, self.problem.n_kernels)
        if psi is not None or self.kinked:
            return self._bundle_step(point, psi)
        trial_weights = minimise(
            regularizer, point.squares, self.machine.hessian_root(np.arange(self.problem.n_kernels)), point.weights
        )
        direction = trial_weights - point.weights
        if not direction.any():
            self.inner_gap *= 0.1
            return self._evaluate(point.weights)
        slope = -0.5 * float(point.squares @ direction)
        slope += regularizer.weight_penalty(trial_weights) - regularizer.weight_penalty(point.weights)
        t = 1.0
        while True:
            trial = self._evaluate(point.weights + t * direction if t < 1.0 else trial_weights)
            noise = 2.0 * max(trial.inner_gap, point.inner_gap)
            rise = trial.merit - point.merit
            excess = rise - _ARMIJO * t * slope
            self._sharpen(excess, noise)
            if excess <= noise:
                return trial
            if self._record(trial):
                return trial
            if t < _SHORTEST:
                return self._closed_form_step(point)
            shorter = -0.5 * t * slope / (rise - t * slope) if slope < 0.0 else 0.0
            if t == 1.0 and shorter < _FAR_OFF:
                trial = self._closed_form_step(point)
                if trial.merit - point.merit <= _FAR_OFF * slope:
                    return trial
                self._record(trial)
            t *= min(0.5, max(0.1, shorter))

    def _closed_form_step(self, point: Point) -> Point:
        """The weights for the present block norms: the merit falls, however far the model is off (Kloft (17))."""
        return self._evaluate(self.problem.regularizer.weights_from_norms(point.weights * np.sqrt(point.squares)))

    def _sharpen(self, excess: float, noise: float) -> None:
        """Solve the next machines more accurately if only their error can excuse this rise of the merit."""
        if 0.0 < excess <= noise:
            self.inner_gap *= 0.1

    def _record(self, point: Point) -> bool:
        """Note the bounds and the point, once, and tell the callback; says whether the run has to end."""
        self._note(point)
        if self.last is point:
            return self.stopped is not None
        self.last = point
        record = Record(
            iteration=len(self.records),
            seconds=time.perf_counter() - self.start,
            lower=self.lower,
            upper=self.upper,
            inner_steps=self.machine.steps - sum(record.inner_steps for record in self.records),
            weights=point.weights.copy(),  # a callback may do with it what it likes
        )
        self.records.append(record)
        self.progress.update(record.relative_gap)
        if self.callback is not None and self.callback(record):
            self.stopped = Status.STOPPED
        elif time.perf_counter() > self.deadline:
            self.stopped = Status.TIME_LIMIT
        elif len(self.records) >= self.max_iter:
            self.stopped = Status.ITERATION_LIMIT
        return self.stopped is not None

    def _note(self, point: Point) -> None:
        """Keep the best bounds, and the point of smallest gap."""
        if self.best is None or point.gap < self.best.gap:
            self.best = point
        self.lower, self.upper = max(self.lower, point.lower), min(self.upper, point.upper)

    def solution(self, status: Status) -> Solution | MulticlassSolution:
        """The best point with a certificate recomputed from scratch."""
        assert self.best is not None
        best = self.best
        M, n, _ = self.problem.kernels.shape
        counters = {
            "machines": float(self.machine.solves),
            "inner_steps": float(self.machine.steps),
            "passes": (self.machine.rows_read + self.machine.images.rows_read) / (M * n),
        }
        history = History(tuple(self.records), counters)
        return self.machine.solution(best.beta, best.weights, best.intercept, status, history, self.tol)
