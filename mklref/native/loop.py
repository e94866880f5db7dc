"""The loop over the kernel weights: evaluate, bounds, step, certified at every point.

Minimise Phi(theta) = J(theta) + psi(theta), where J(theta) is the optimal value of the kernel machine with the
kernel sum_m theta_m K_m:

    1. beta = argmax of the machine at theta;   q_m = beta'K_m beta
    2. upper = primal objective at (beta, theta, b);   lower = dual objective at beta;   stop if they meet
    3. theta is the new centre if Phi fell by a share of what the model had promised; else beta gives a cut of the model
    4. theta <- argmin of the model: cuts of J, its curvature W'W at the centre, psi                      (step.py)

With the cut of the centre alone it is Newton's method with exact curvature, which converges quadratically once the set
of free support vectors is found; with the cuts of points that failed it is a proximal bundle method. A loop that gets
nowhere says so (STALLED), and whoever runs it may know a better point to go on from (rescue.py). What becomes of a
start is in start.py and solver.py, which kernels are read in working_set.py, block norms with q > 2 in large_q.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace

import numpy as np

from mklref._run import Best, Recorder
from mklref._threads import blas_threads
from mklref._typing import Array
from mklref.certificate.bounds import unit_of
from mklref.exceptions import KernelsLost
from mklref.losses import OneClass
from mklref.machines.joint import JointMachine
from mklref.machines.machine import SPARE, Machine
from mklref.native import tuning
from mklref.native.large_q import LargeQ
from mklref.native.point import Patience, Point, as_certified, compared, losses_of_nothing, misled, nearer
from mklref.native.step import Cut, curvature_missed, shortened, step
from mklref.native.working_set import watch_the_largest, widened
from mklref.regularizers import BlockNorm
from mklref.solution import History, Record, Solution, Status


class Loop:
    """One run of the loop, with everything it has seen so far.

    `cold` says that the first weights are not those of a solution, `most_failures` how many trial points in a row may
    fail before it has stalled, `most_steps` how many the machines may take before it is lost, `patience` how many
    centres may be no better, `doubted` that the weights are those of a start that is still to be compared.
    """

    def __init__(
        self, machine: Machine | JointMachine, tol: float, recorder: Recorder[Record], cold: bool = True
    ) -> None:
        self.machine, self.problem = machine, machine.problem
        self.tol, self.recorder, self.cold = tol, recorder, cold
        for own in machine.machines:
            own.deadline = recorder.deadline
        regularizer, M = self.problem.regularizer, self.problem.n_kernels
        self.psi = regularizer.polyhedral(M)
        self.units = np.ones(M) if self.psi is None else self.psi.units
        """u (M,): theta_m u_m and q_m/u_m of different kernels can be compared (`Polyhedral.units`)."""
        self.doubted = False
        self.large_q: LargeQ | None = None
        if isinstance(regularizer, BlockNorm) and regularizer.weight_form == "max":
            self.large_q = LargeQ(regularizer)
        self.best: Best[Point] = Best()
        self.kept: Best[Point] = Best()
        """The points with images, where kernels can be lost."""
        self.hopeful: Point | None = None
        """The point of the smallest gap if the kernels that were not read for it do not matter."""
        self.dual: Point | None = None
        """The point of the largest lower bound."""
        self.sound: Point | None = None
        """The point of the smallest gap with what rounding adds to it."""
        self.least_doubt = np.inf  # gap and allowance of `sound`
        self._rounded: tuple[Point | None, float] = (None, 0.0)
        self.first: Point | None = None
        self.spent: dict[str, float] = {}
        """The cost of the start and of rescues, by the names of `counters`."""
        self.zero = unit_of(self.problem)  # what gaps are compared with where the optimum is 0
        self.rounding = 0.0  # what the certificate will add to the gap, as far as it is known to matter
        self.target = 0.0  # the gap to reach
        self.inner_gap = self.asked = np.inf
        """The gap to which machines are solved, and that to which the last one was."""
        self.unit = 0.0
        """The order of weights where those of the centre are much smaller; it follows them down, centre by centre."""
        self.stopped: Status | None = None
        self.last: Point | None = None
        self.centre: Point | None = None  # the latest one
        self.ahead: Point | None = None  # where the path of a rescue ended, which rounding may hide
        self.told = 0  # steps of the inner solvers in the records so far
        self.cuts: list[Cut] = []
        self.trust = 1.0
        """Factor on W: a curvature that has taken a kink of J for one has misled."""
        self.near, self.held = 0.0, False
        """Curvature of all sparse weights that W has not, as trial points told, and whether the last step had any."""
        self.most_failures, self.patience, self.failures = tuning.MOST_FAILURES, tuning.PATIENCE, 0
        guessed = cold and self.psi is not None and not self.problem.intercept_cost
        self.most_steps = tuning.ARDUOUS * sum(own.problem.n_samples for own in machine.machines) if guessed else np.inf
        self._W: Array | None = None

    def begin(self, weights: Array) -> Point:
        """The first point to go on from."""
        self.note_first(weights)
        return self.evaluate(weights)

    def note_first(self, weights: Array) -> None:
        """Note the point of a start, or that of f = 0: nothing worse is returned."""
        self.first = self.best.note(self.assess(weights))

    def iterate(self, point: Point) -> tuple[Status, Point]:
        """Go on from this point; why it ended, and the last centre."""
        patience, centre, serious = Patience(), point, True
        widen_below = tuning.WIDER * point.working_gap
        self.trust, self.near, self.held = 1.0, 0.0, False
        while True:
            if (status := self.record(point)) is not None:
                return status, centre
            if serious:
                self.failures, self._W = self.failures if self.held else 0, None
                if point.working_gap <= max(widen_below, self.target):
                    point = self.widen(point)
                    widen_below = tuning.WIDER * point.working_gap
                    if self.large_q is None and point.gap <= self.target:
                        continue
                self.centre = centre = point
                self.unit = tuning.UNIT * max(self.unit, float((point.weights * self.units).max()))
                patience.look(centre, self.target)
            if self.lost() or self.failures >= self.most_failures or patience.waited > self.patience:
                return Status.STALLED, centre
            if serious:
                ahead = max(self.target, min(tuning.AHEAD * patience.smallest, tuning.COARSE * abs(self.best.upper)))
                self.inner_gap = min(self.inner_gap, ahead)
                finer = centre.inner_gap <= self.asked  # else the last machine was at its limit
                if finer and centre.inner_gap > 0.5 * centre.working_gap:  # the machine, not the weights, is far off
                    outer_done = centre.working_gap - centre.inner_gap <= 0.5 * self.target
                    self.inner_gap = min(0.1 * self.inner_gap, self.target if outer_done else np.inf)
                    point = self.evaluate(centre.weights)
                    continue
            try:
                point, serious = self._step(centre)
            except (FloatingPointError, np.linalg.LinAlgError):  # beyond double precision: another point may lead on
                self.cuts = []
                return Status.STALLED, centre

    def resume(self, point: Point) -> Point:
        """The machine back at this point."""
        self.machine.set_dual(point.beta)
        return self.assess(point.weights)

    # --- evaluate and bound -----------------------------------------------------------------------------------

    def evaluate(self, weights: Array, highest: float = np.inf) -> Point:
        """Solve the machine at these weights, or until their merit is seen above `highest`, and bound the optimum."""
        self.machine.move(weights)
        self.asked = self.inner_gap
        as_certified(self, self.centre, weights)
        enough = highest if np.isinf(highest) else highest - self.problem.regularizer.weight_penalty(weights)
        self.machine.solve(self.asked, enough)  # J is at least the value of any dual point
        return self.best.note(self.assess(weights, solved=True))

    def assess(self, weights: Array, solved: bool = False) -> Point:
        """Bounds at these weights and the present dual point of the machine, which may have been `solved` for them."""
        machine, regularizer = self.machine, self.problem.regularizer
        if not solved:
            machine.move(weights)
        squares, watched = machine.squares, machine.forms.watched
        _, intercept, losses = machine.scores(solved)
        value = machine.value()
        lower = machine.dual_objective(squares)
        known = lower if watched.all() else machine.dual_objective(np.where(watched, squares, 0.0))
        upper = losses + regularizer.value(weights * np.sqrt(squares))
        if isinstance(self.problem.loss, OneClass) and upper >= 0.0:  # f = 0 costs nothing, and is free of rounding
            upper, intercept = 0.0, 0.0 * intercept
        point = Point(
            weights=weights,
            beta=machine.beta.copy(),
            squares=squares,
            intercept=intercept,
            merit=value + regularizer.weight_penalty(weights) if self.large_q is None else -lower,
            upper=upper,
            lower=lower,
            inner_gap=losses + 0.5 * float(weights @ squares) - value,
            value=value,
            working_gap=upper - known,
            images=machine.images() if self.problem.kernels.losable else None,
            products=machine.products,
        )
        if self.hopeful is None or point.working_gap < self.hopeful.working_gap:
            self.hopeful = point
        if self.dual is None or point.lower > self.dual.lower:
            self.dual = point
        if point.images is not None:
            self.kept.note(point)
        return point

    def reached(self, point: Point) -> bool:
        """Whether the gap of this point, at which the machine is, will be certified."""
        wanted = self._wanted(point)
        self.target = wanted - self.rounding
        if point.gap <= self.target:
            rounding = self._rounding(point)
            if point.gap + rounding > wanted and rounding <= SPARE * wanted:
                self.target, self.rounding = wanted - rounding, rounding
            elif self.large_q is not None and rounding > tuning.OFF_THE_PATH * wanted:
                return bool(np.isinf(self.problem.loss.smoothness))  # with kinks a certificate may allow for less
        return point.gap <= self.target

    def _wanted(self, point: Point) -> float:
        """The gap that is wanted, in terms of the best upper bound where that of a failed point is far too high."""
        return self.tol * max(min(abs(point.upper), abs(self.best.upper)), self.zero)

    def _rounding(self, point: Point) -> float:
        """The allowance for rounding that a certificate adds at this point, at which the machine is."""
        if self._rounded[0] is not point:
            nothing = isinstance(self.problem.loss, OneClass) and point.upper == 0.0  # the weights of f = 0
            weights = np.zeros_like(point.weights) if nothing else point.weights
            self._rounded = point, self.machine.rounding(weights, point.intercept, point.upper)
        return self._rounded[1]

    def record(self, point: Point) -> Status | None:
        """Note the bounds and the point, once, and tell the callback; says why the run has to end, or None."""
        self.best.note(point)
        reached = self.reached(point)
        if self.last is not point:
            self.last, records = point, self.recorder.records
            if self.large_q is not None or point.gap <= min(self.least_doubt, tuning.NEAR_ENOUGH * self._wanted(point)):
                doubt = point.gap + self._rounding(point)
                if doubt < self.least_doubt:
                    self.sound, self.least_doubt = point, doubt
            steps = int(self.counters()["inner_steps"])
            record = Record(
                iteration=len(records),
                seconds=self.recorder.seconds,
                lower=self.best.lower,
                upper=self.best.upper,
                inner_steps=steps - self.told,
                weights=point.weights.copy(),  # a callback may do with it what it likes
                unit=self.zero,
            )
            self.told, self.stopped = steps, self.recorder.add(record, record.relative_gap) or self.stopped
        return Status.OPTIMAL if reached else self.stopped

    def errors(self, squares: Array) -> Array:
        """E (M,): what rounding adds to the losses for each unit of theta_m; in more digits if it moves R*."""
        polished, of_dual = self.ahead is not None, self.problem.regularizer.conjugate
        errors = self.machine.weights_error(polished, sharp=False)
        little = (1.0 + tuning.CLEAR * self.tol) * of_dual(np.sqrt(squares))
        return errors if of_dual(np.sqrt(squares + 4.0 * errors)) <= little else self.machine.weights_error(polished)

    # --- step -------------------------------------------------------------------------------------------------

    def _step(self, centre: Point) -> tuple[Point, bool]:
        """The next point, and whether it is the next centre: a serious step."""
        machine, regularizer = self.machine, self.problem.regularizer
        if self.large_q is not None:
            W = machine.hessian_root(np.arange(self.problem.n_kernels))
            gap = max(centre.gap - centre.inner_gap, 1e-3 * centre.gap)
            weights = self.large_q.step(centre.weights, centre.squares, W, gap, self.errors(centre.squares))
            return self.evaluate(weights), True
        if self.doubted and (other := compared(self, centre)) is not None:
            return other
        if self._W is None:
            if self.psi is not None:
                watch_the_largest(self.machine, centre, self.units)
            self._W = machine.hessian_root(np.flatnonzero(machine.forms.watched))
        cuts, kernels, W = self._cuts_at(centre), np.flatnonzero(machine.forms.watched), self.trust * self._W
        others = self.unit, self.near, self.recorder.deadline, self.trust == 1.0
        model = step(regularizer, cuts, W, centre.weights, kernels, *others)
        if centre.merit - model.value < -max(2.0 * centre.inner_gap, self.target):
            # At the centre the model is its merit, so that its minimum cannot be larger: this one is beyond double
            # precision. With one cut it is a Newton step, which is shortened, or gives way to a bundle if it leads up
            # all the way; with more, the cuts and their step are dropped.
            if self.cuts:
                self.cuts, self.failures = [], tuning.MOST_FAILURES
                return centre, False
            model = shortened(regularizer, cuts[0], W, centre.weights, kernels, model)
            if centre.merit - model.value <= self.target:
                self.cuts, self.failures = [centre.cut], self.failures + 1
                return centre, False
        promise = centre.merit - model.value
        if promise <= self.target:
            machine.set_dual(sum(share * cut.beta for share, cut in zip(model.mixture, cuts, strict=True)))
            mixed = self.assess(model.weights)
            if self.best.note(mixed).working_gap <= self.target:
                return mixed, True
        highest = centre.merit - tuning.SERIOUS * promise + 2.0 * centre.inner_gap
        trial = self.evaluate(model.weights, highest)
        if self.psi is None and trial.gap > self.target and (back := misled(machine, trial, centre)) is not None:
            if (closed := self.evaluate(back)).merit < min(trial.merit, centre.merit):
                return closed, True
            self.resume(trial)
        if promise <= min(self.target, tuning.NOTHING * centre.working_gap):
            # A model that promises nothing while the gap stays has taken a kink of J for curvature.
            self.trust = tuning.LESS * self.trust if trial.working_gap > 0.5 * centre.working_gap else 1.0
            self.near = 0.0
        return trial, self._is_serious(trial, centre, promise)

    def _is_serious(self, trial: Point, centre: Point, promise: float) -> bool:
        """Whether the merit has fallen by a share of what was promised; else the trial point is a cut.

        Where psi is curved, cuts are kept from the first point on that has not clearly made it.
        """
        noise = 2.0 * centre.inner_gap  # that of the trial point could only raise its merit
        excess = trial.merit - centre.merit + tuning.SERIOUS * promise
        serious = bool(excess <= noise)
        if serious and excess > 0.0:  # only the error of the machines can excuse it
            self.inner_gap *= 0.1
        if not serious:
            stuck = np.array_equal(trial.weights, centre.weights)
            self.failures = tuning.MOST_FAILURES if stuck else self.failures + 1
        if self.psi is not None:
            self.near, self.held = curvature_missed(self, trial, centre, promise, serious), self.near > 0.0
        if self.psi is not None or excess > 0.0 or self.cuts:
            self.cuts = [*self.cuts, centre.cut if serious else trial.cut][-tuning.CUTS :]
        return serious

    def _cuts_at(self, centre: Point) -> list[Cut]:
        """The cut of the centre; that of beta = 0, J >= 0, where nothing else bounds the weights; the cuts so far."""
        ends = not self.problem.regularizer.supercoercive and self.cuts  # whether R* has an end
        bounded = self.psi.normal is not None if self.psi is not None else not ends
        if bounded or self.problem.intercept_cost:
            return [centre.cut, *self.cuts]
        return [centre.cut, Cut(np.zeros_like(centre.beta), np.zeros_like(centre.squares), 0.0), *self.cuts]

    def widen(self, point: Point) -> Point:
        """The point with a working set that has what is or nearly is as large by its bound as those inside."""
        wider = widened(self.machine, point, self.units)
        return self.best.note(self.assess(point.weights)) if wider else point

    def lost(self) -> bool:
        """Whether the machines have cost about as much as a central path would, and the bounds are still far apart.

        In a box far wider than the optimum needs they run along it. To change ways once the first has cost as much as
        the other costs at most twice the cheaper one. Where psi is curved, Newton's method finds its way by itself.
        """
        far_apart = self.best.upper - self.best.lower >= tuning.FAR_APART * abs(self.best.upper)
        return far_apart and self.machine.counters()["inner_steps"] > self.most_steps

    # --- the end ----------------------------------------------------------------------------------------------

    def solution(self, status: Status) -> Solution:
        """The best point with a certificate recomputed from scratch."""
        best, hopeful = self.best.point, self.hopeful
        assert best is not None
        found = self._judged(best, status)
        certified, bounds = [found], found.certificate
        if found.status is Status.OPTIMAL:
            return found
        free = not self.problem.intercept_cost and losses_of_nothing(self.machine) <= bounds.upper
        if self.dual is not None and free:  # f = 0 is the same with every beta
            nothing = replace(self.dual, weights=np.zeros_like(best.weights))
            certified.append(self._judged(nothing, status))
        if hopeful is not None and hopeful is not best and hopeful.working_gap < 0.5 * bounds.gap:
            certified.append(self._judged(hopeful, status))  # bounds of kernels that were not read are wide
        if max(bounds.rounding, bounds.gap - best.gap) > self.tol * bounds.size:  # what rounding costs is known now
            others = [point for point in (self.first, self.sound) if point is not None and point is not best]
            others += [] if self.problem.intercept_cost or self.recorder.late else nearer(self.machine, best)
            certified += [self._judged(point, status) for point in others]
        return min(certified, key=lambda solution: solution.certificate.gap)

    def ends(self) -> Iterator[Solution]:
        """The ends of a path and of the run: one may beat the best point, if that owes its bounds to rounding."""
        for point in dict.fromkeys((self.ahead, self.centre)):
            if point is not None and point is not self.best.point:
                with blas_threads(self.problem.n_samples):
                    yield self.machine.solution(point.beta, point.weights, Status.STALLED, self.history(), self.tol)

    def kept_solution(self) -> Solution | None:
        """The best point of which all images are known, certified without another read of the kernels; or None."""
        point = self.kept.point
        if point is None or point.images is None:
            return None
        with suppress(KernelsLost):  # to repair a point may take a read
            return self._judged(point, Status.INTERRUPTED, point.images)
        return None

    def _judged(self, point: Point, status: Status, images: list[Array] | None = None) -> Solution:
        """The point with its certificate; of a one-class machine f = 0 where that is as good, for all that is known."""
        others = status, self.history(), self.tol, images, point.products
        with blas_threads(self.problem.n_samples):
            found = self.machine.solution(point.beta, point.weights, *others)
            if self.problem.intercept_cost and found.objective + found.certificate.rounding > 0.0:
                nothing = self.machine.solution(point.beta, np.zeros_like(point.weights), *others)
                return min(nothing, found, key=lambda solution: solution.certificate.upper)
            return found

    def history(self) -> History:
        """All records, and what was counted."""
        return History(tuple(self.recorder.records), self.counters())

    def counters(self) -> dict[str, float]:
        """Machines solved, inner steps and passes, with those of the first weights and of every help."""
        return {name: own + self.spent.get(name, 0.0) for name, own in self.machine.counters().items()}

    def spend(self, costs: dict[str, float]) -> None:
        """Count what was done elsewhere on behalf of this run."""
        self.spent = {name: self.spent.get(name, 0.0) + cost for name, cost in costs.items()}
