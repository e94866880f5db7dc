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

from contextlib import suppress

import numpy as np

from mklref._run import Best, Recorder
from mklref._typing import Array
from mklref.certificate.unit import unit_of
from mklref.exceptions import KernelsLost
from mklref.machines.blas import blas_threads
from mklref.machines.joint import JointMachine
from mklref.machines.machine import SPARE, Machine
from mklref.multiclass import MulticlassProblem, MulticlassSolution
from mklref.native.active import on_active_samples
from mklref.native.bundle import Bundle
from mklref.native.large_q import LargeQ
from mklref.native.model import minimise
from mklref.native.point import Point
from mklref.problem import Problem
from mklref.regularizers import BlockNorm
from mklref.solution import History, Record, Solution, Status

_ARMIJO = 1e-4
_FAR_OFF = 0.1
"""Where less than this share of the way is left the model says little, and the closed form may lead further."""
_SHORTEST = 1e-2
_COARSE = 0.05
"""No machine is solved more coarsely than to this share of the objective."""
_AHEAD = 0.01
"""From warm weights the next machine is solved to this share of the gap: Newton's method will close it by that."""
_UNIT = 1e-3
_WATCHED = 30
"""Kernels, or a tenth of them if that is more, that a sparse problem starts with."""
_NEARLY = 0.9
_WIDER = 0.1
"""The other kernels are looked at each time the gap on the watched ones has shrunk by this factor."""
_PATIENCE, _TRIALS = 12, 60
"""Steps, and trial points, without a smaller gap, a lower objective or a lower merit after which rounding is held
responsible."""
_SUSPICIOUS = 3
"""After so many kinks of J are held responsible, where psi is curved."""
_FAR = 1e100
"""Block norms up to which R* has to be finite for a bundle where psi is curved."""
_NOTABLE = 0.1
"""Share of the wanted gap by which the objective has to fall to count."""
_TO_THE_END = 1e-2
"""Share of the wanted gap at which a run ends whose weights cost more by rounding than the whole of it."""
_BEGINNING = 4
_ARDUOUS = 200
"""Inner steps for each sample after which the beginning of a run counts as lost if no dual point was worth anything."""


class Outer:
    """One run of the outer loop, with everything it has seen so far."""

    def __init__(
        self,
        machine: Machine | JointMachine,
        tol: float,
        recorder: Recorder[Record],
    ) -> None:
        self.machine = machine
        self.problem: Problem | MulticlassProblem = machine.problem
        self.tol, self.recorder = tol, recorder
        self.machine.deadline = recorder.deadline
        self.inner_gap = np.inf
        self.large_q: LargeQ | None = None
        if isinstance(self.problem.regularizer, BlockNorm) and self.problem.regularizer.weight_form == "max":
            self.large_q = LargeQ(self.problem.regularizer)
        self.kinked = False
        reach = self.problem.regularizer.dual_scale(np.full(self.problem.n_kernels, _FAR))
        self.bounded_dual = reach < 1.0
        # A bundle mixes dual points of any size: where R* has bounds, beta = 0 has to be among them.
        self.may_kink = self.large_q is None and not (self.bounded_dual and self.problem.intercept_cost)
        self.bundle = Bundle()
        self.best: Best[Point] = Best()
        self.kept: Best[Point] = Best()
        """The points with images, where kernels can be lost."""
        self.first: Point | None = None
        self.last: Point | None = None
        self.stopped: Status | None = None
        self.lost = False
        self.rounding = 0.0
        """What the certificate will add to the gap, as far as it is known to matter."""
        self.zero = unit_of(self.problem)
        """What gaps are compared with where the optimum is 0."""
        self.partial = False
        """Whether the problem is that of some of the samples of another one."""
        self.cold = True
        """Whether the first weights were not those of a solution."""
        self.merit_of_nothing = -np.inf
        """The merit of weights 0, once it is known."""
        self.before: dict[str, float] = {}

    def go_on(self, run: Outer, detour: Outer) -> None:
        """Be the continuation of a run with the same recorder, after a detour; the costs are those of both."""
        self.best = run.best
        costs = detour.counters()
        self.before = {name: value + costs[name] for name, value in run.counters().items()}

    def iterate(self, weights: Array) -> Status:
        """Run the outer loop from these weights; says why it ended."""
        self.first = self.best.note(self.assess(weights))  # f = 0, or where the start is: nothing worse is returned
        point = on_active_samples(self, weights) or self.evaluate(weights)
        weights = point.weights
        self.unit = _UNIT * float(weights.max())
        since_better = last_better = 0
        smallest = lowest = highest = np.inf
        sparse = self.problem.regularizer.polyhedral(self.problem.n_kernels) is not None
        widen_below = _WIDER * point.working_gap
        while True:
            self.record(point)
            wanted = self.tol * max(abs(point.upper), self.zero)
            target = self.target = wanted - self.rounding
            if point.gap <= target:
                rounding = self.machine.rounding(point.intercept, point.upper)
                if point.gap + rounding > wanted and rounding <= SPARE * wanted:
                    target = self.target = wanted - rounding
                    self.rounding = rounding
                elif point.gap + rounding > wanted and self.large_q is None:
                    # Weights that cost little may be far too large, and with them what rounding costs: to the end.
                    self.rounding = wanted - _TO_THE_END * wanted
                    target = self.target = _TO_THE_END * wanted
            if point.gap <= target:
                return Status.OPTIMAL
            if self.stopped is not None:
                return self.stopped
            if point.working_gap <= max(widen_below, target):
                point, widen_below = self.widen_working_set(point), _WIDER * point.working_gap
                if point.gap <= target:
                    continue
            above = point.merit - self.best.lower if self.large_q is None else np.inf
            better = point.working_gap < 0.9 * smallest or point.upper < lowest - _NOTABLE * target
            better = better or target < above < 0.9 * highest
            since_better = 0 if better else since_better + 1
            last_better = len(self.recorder.records) if better else last_better
            smallest, lowest, highest = min(smallest, point.working_gap), min(lowest, point.upper), min(highest, above)
            if since_better > _SUSPICIOUS and not self.kinked and self.may_kink and not sparse:
                self.kinked, since_better = True, 0
            if since_better > _PATIENCE or len(self.recorder.records) - last_better > _TRIALS:
                point, known = self.bundle.central_path(self, point), point
                if point is known:
                    return self.stopped or Status.STALLED
                since_better, last_better = 0, len(self.recorder.records)
                continue
            ahead = _AHEAD * smallest if self.machine.warm else smallest
            self.inner_gap = min(self.inner_gap, max(target, min(ahead, _COARSE * abs(self.best.upper))))
            if point.inner_gap > 0.5 * point.working_gap:
                outer_done = point.working_gap - point.inner_gap <= 0.5 * target
                self.inner_gap = min(0.1 * self.inner_gap, target if outer_done else np.inf)
                point = self.evaluate(point.weights)
            else:
                if sparse and self.machine.forms.watched.all():
                    self._watch_the_largest(point)
                point = self._step(point)

    def _is_lost(self) -> bool:
        """Whether the first machines, from a guess, were arduous and found no dual point that is better than 0.

        Their box is far wider than the optimum needs, and they run along it at weights that are not those of the
        optimum; a smaller C leads there first (`run_from`), unless 1'beta = c_b leaves no smaller one. Where psi is
        curved, Newton's method finds its way back by itself.
        """
        if not self.cold or self.problem.intercept_cost or len(self.recorder.records) < _BEGINNING:
            return False
        arduous = self.machine.steps > _ARDUOUS * self.problem.n_samples
        sparse = self.problem.regularizer.polyhedral(self.problem.n_kernels) is not None
        return arduous and sparse and self.best.lower <= 0.0 < self.best.upper

    def _watch_the_largest(self, point: Point) -> None:
        """Watch only the kernels that are or are likely to be active, once the weights are sparse."""
        count = max(_WATCHED, self.problem.n_kernels // 10)
        if np.count_nonzero(point.weights) < count < self.problem.n_kernels:
            self.machine.forms.watched[:] = point.weights > 0.0
            self.machine.forms.watched[np.argsort(point.squares)[-count:]] = True

    def widen_working_set(self, point: Point, nearly: float = _NEARLY) -> Point:
        """Read the kernels again whose bounds show that they could matter, and watch those that nearly do."""
        forms = self.machine.forms
        known = forms.watched.copy()
        inside = point.squares[known].max()
        forms.watched |= point.squares > min(1.0, nearly / _NEARLY) * inside
        if np.array_equal(known, forms.watched):
            return point
        self.machine.set_dual(point.beta)
        forms.watched &= known | (forms.squares > nearly * inside)
        return self.assess(point.weights)

    def evaluate(self, weights: Array) -> Point:
        """Solve the machine at these weights and bound the optimum from what it found."""
        self.machine.move(weights)
        self.machine.solve(self.inner_gap)
        point = self.assess(weights)
        if not weights.any():
            self.merit_of_nothing = point.merit
        return point

    def assess(self, weights: Array) -> Point:
        """Bounds at these weights and the present dual point of the machine."""
        machine, regularizer = self.machine, self.problem.regularizer
        machine.move(weights)
        squares = machine.forms.squares.copy()
        _, intercept, losses = machine.scores()
        value = machine.value()
        lower = machine.dual_objective(squares)
        watched = machine.forms.watched
        known = lower if watched.all() else machine.dual_objective(np.where(watched, squares, 0.0))
        upper = losses + regularizer.value(weights * np.sqrt(squares))
        penalty = regularizer.weight_penalty(weights) if regularizer.weight_form == "min" else 0.0
        point = Point(
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
            images=machine.images() if self.problem.kernels.losable else None,
        )
        if point.images is not None:
            self.kept.note(point)
        return point

    def _step(self, point: Point) -> Point:
        """Go to the minimiser of the model, or as far on the way there as the merit falls."""
        regularizer = self.problem.regularizer
        if self.large_q is not None:
            W = self.machine.hessian_root(np.arange(self.problem.n_kernels))
            gap = max(point.gap - point.inner_gap, 1e-3 * point.gap)
            return self.evaluate(self.large_q.step(point.weights, point.squares, W, gap, self.machine.weights_error()))
        psi = regularizer.polyhedral(self.problem.n_kernels)
        if psi is not None or self.kinked:
            return self.bundle.step(self, point, psi)
        W = self.machine.hessian_root(np.arange(self.problem.n_kernels))
        trial_weights = minimise(regularizer, point.squares, W, point.weights, self.recorder.deadline)
        direction = trial_weights - point.weights
        if not direction.any():
            self.inner_gap *= 0.1
            return self.evaluate(point.weights)
        with np.errstate(over="ignore"):  # steep penalties have no bound on the weights that a double can hold
            slope = -0.5 * float(point.squares @ direction)
            slope += regularizer.weight_penalty(trial_weights) - regularizer.weight_penalty(point.weights)
        if not np.isfinite(slope) or (not trial_weights.any() and self.merit_of_nothing > point.merit):
            return self.closed_form_step(point)
        t = longest = self._worthwhile(point.weights, direction)
        while True:
            trial = self.evaluate(point.weights + t * direction if t < 1.0 else trial_weights)
            noise = 2.0 * max(trial.inner_gap, point.inner_gap)
            rise = trial.merit - point.merit
            excess = rise - _ARMIJO * t * slope
            self.sharpen(excess, noise)
            if excess <= noise:
                return trial
            if self.record(trial):
                return trial
            if t < _SHORTEST * longest:
                return self.closed_form_step(point)
            shorter = -0.5 * t * slope / (rise - t * slope) if slope < 0.0 else 0.0
            if t == longest and shorter < _FAR_OFF:
                trial = self.closed_form_step(point)
                if trial.merit - point.merit <= _FAR_OFF * slope:
                    return trial
                self.record(trial)
            t *= min(0.5, max(0.1, shorter))

    def _worthwhile(self, weights: Array, direction: Array) -> float:
        """A step up to which psi alone does not exceed what is known to be possible: J >= 0, as beta = 0 says."""
        penalty, t = self.problem.regularizer.weight_penalty, 1.0
        if not self.problem.intercept_cost:
            most = max(self.best.upper, penalty(weights))
            while penalty(weights + t * direction) > most and t > np.finfo(float).tiny:
                t *= 0.5
        return t

    def closed_form_step(self, point: Point) -> Point:
        """The weights for the present block norms: the merit falls, however far the model is off (Kloft (17))."""
        return self.evaluate(self.problem.regularizer.weights_from_norms(point.weights * np.sqrt(point.squares)))

    def sharpen(self, excess: float, noise: float) -> None:
        """Solve the next machines more accurately if only their error can excuse this rise of the merit."""
        if 0.0 < excess <= noise:
            self.inner_gap *= 0.1

    def record(self, point: Point) -> bool:
        """Note the bounds and the point, once, and tell the callback; says whether the run has to end."""
        self.best.note(point)
        if self.last is point:
            return self.stopped is not None
        self.last, records = point, self.recorder.records
        record = Record(
            iteration=len(records),
            seconds=self.recorder.seconds,
            lower=self.best.lower,
            upper=self.best.upper,
            inner_steps=int(self.counters()["inner_steps"]) - sum(record.inner_steps for record in records),
            weights=point.weights.copy(),  # a callback may do with it what it likes
            unit=self.zero,
        )
        self.stopped = self.recorder.add(record, record.relative_gap) or self.stopped
        if self.stopped is None and self._is_lost():
            self.lost, self.stopped = True, Status.STALLED
        return self.stopped is not None

    def solution(self, status: Status) -> Solution | MulticlassSolution:
        """The best point with a certificate recomputed from scratch."""
        best, regularizer = self.best.point, self.problem.regularizer
        assert best is not None
        weights, intercept, nothing = best.weights, best.intercept, np.zeros_like(best.weights)
        worse_than_nothing = bool(self.problem.intercept_cost) and best.upper > 0.0 and regularizer.weight_form == "min"
        if worse_than_nothing and np.isfinite(regularizer.weight_penalty(nothing)):
            weights, intercept = nothing, 0.0  # f = 0, which costs nothing and is free of rounding
        with blas_threads(self.problem.n_samples):
            found = self.machine.solution(best.beta, weights, intercept, status, self.history(), self.tol)
            gap, noise = found.certificate.gap, found.certificate.rounding
            if self.first is None or found.status is Status.OPTIMAL or not 2.0 * noise > gap:
                return found
            first = self.machine.solution(
                self.first.beta, self.first.weights, self.first.intercept, status, found.history, self.tol
            )  # only now is it known what rounding costs
            return min(found, first, key=lambda solution: solution.certificate.gap)

    def kept_solution(self) -> Solution | MulticlassSolution | None:
        """The best point of which all images are known, certified without another read of the kernels; or None."""
        point = self.kept.point
        if point is None or point.images is None:
            return None
        with suppress(KernelsLost):  # a point that has to be moved is read for
            return self.machine.solution(
                point.beta, point.weights, point.intercept, Status.INTERRUPTED, self.history(), self.tol, point.images
            )
        return None

    def history(self) -> History:
        """All records, and what was counted."""
        return History(tuple(self.recorder.records), self.counters())

    def counters(self) -> dict[str, float]:
        """Machines solved, inner steps and passes, with those of the first weights and of what it continues."""
        M, n, _ = self.problem.kernels.shape
        own = {
            "machines": float(self.machine.solves),
            "inner_steps": float(self.machine.steps),
            "passes": (self.machine.rows_read + self.machine.forms.rows_read) / (M * n),
        }
        before = (self.machine.before, self.before)
        return {name: value + sum(costs.get(name, 0.0) for costs in before) for name, value in own.items()}
