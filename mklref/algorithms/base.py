"""The frame of the papers' algorithms: kernel machines at given weights, certified bounds, records, stopping.

An algorithm is a generator over the weights. It asks its `Run` for kernel machines and yields a point wherever the
paper ends an iteration; everything that is not in the paper happens here:

    @algorithm(fits, "what it is made for", remedy="what to use instead")
    def name(run):                           # the paper's loop
        theta = run.start
        while True:
            point = run.svm(theta)           # J(theta) and q_m = sum_p beta_p'K_m beta_p:   one SVM evaluation
            gradient = run.gradient(point)   # dJ/dtheta_m = -q_m/2, SimpleMKL (13):         one gradient evaluation
            yield point                      # one iteration ends: certified, recorded, and the run may stop here
            theta = ...

`p` counts the machines: one for a binary problem, one for each class or pair of classes for several, whose J
is the sum of theirs (SimpleMKL 4.2). The run stops at the first yield at which a single point, its weights, dual
variables and intercepts together, has a certified relative gap of tol. A generator that ends by itself has found no
step that leads further, and the run has stalled.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeAlias

import numpy as np

from mklref._names import names_of_both
from mklref._run import ABSURD, Best, Recorder, check_range, check_start, checked_options
from mklref._threads import blas_threads
from mklref._typing import Array
from mklref.algorithms.point import Point, feasible_weights, point_of
from mklref.certificate import certify
from mklref.certificate.bounds import relative, unit_of
from mklref.exceptions import NotApplicable
from mklref.machines import machine_for
from mklref.machines.machine import SPARE, Machine, Together
from mklref.problem import Problem, require_problem
from mklref.solution import History, Record, Solution, Status

Callback: TypeAlias = Callable[[Record], object]

_EXACT = 0.1
"""The papers treat the SVM as solved exactly. A relative error eps of J makes errors of sqrt(eps) in beta, in the
derivatives of J and in the gap: each machine is solved to (0.1 tol)^2."""
_ROUNDING = 1e-13
"""The smallest relative error of J that a machine is asked for."""
_SETTLED = 0.9
"""From this ratio on, two allowances for rounding count as equal, and so do two gaps."""
_PATIENCE = 30
"""Points without a smaller gap after which a run may end: until then rounding may still bring one."""


@dataclass(frozen=True)
class Iteration(Record):
    """A record with what the tables of the papers count, each total up to and including this iteration."""

    objective: float
    """J(theta) + psi(theta) of this iterate; `lower` and `upper` are the best bounds so far."""
    svm_calls: int
    """SVM evaluations: machines solved, those of line searches included (SimpleMKL Table 1, # SVM eval)."""
    gradient_calls: int
    """Evaluations of all M derivatives of J (SimpleMKL Table 1, # Gradient eval)."""
    measures: dict[str, float]
    """What this algorithm alone can tell of the iterate, by name."""


class OutOfTime(Exception):
    """max_time has passed and another SVM was asked for."""


class Run(Together):
    """One run of an algorithm on a problem, with the options that every algorithm has (`mklref.algorithms.base`).

    Raises as `mklref.solve` does; `InvalidInput` for a start of another size, or with weights that are none.
    """

    machines: Sequence[Machine] = ()

    def __init__(
        self,
        solver: str,
        problem: Problem,
        tol: float,
        max_iter: int,
        max_time: float | None = None,
        callback: Callback | None = None,
        progress: bool = False,
        start: Solution | None = None,
    ) -> None:
        tol, max_iter, max_time = checked_options(problem, tol, max_iter, max_time, callback, progress)
        parts = [part.problem for part in problem.machines]
        self.solver, self.problem, self.regularizer = solver, problem, problem.regularizer
        self.tol = tol
        self.precision = max((_EXACT * min(tol, 1.0)) ** 2, _ROUNDING)
        """Relative accuracy of every J(theta)."""
        self.recorder: Recorder[Iteration] = Recorder(
            solver, tol=tol, max_iter=max_iter, max_time=max_time, callback=callback, progress=progress
        )
        self.best: Best[Point] = Best()
        betas: Sequence[Array | None] = [None] * len(parts)
        if start is not None:
            check_start(problem, start)
            betas = problem.split(start.dual_coef)
        self.machines = list(map(machine_for, parts, betas))
        squares = self.squares
        given = np.zeros(problem.n_kernels) if start is None else start.weights
        if not np.isfinite(squares).all():  # the start is beyond double precision
            self.machines, given = list(map(machine_for, parts)), np.zeros(problem.n_kernels)
        for machine in self.machines:
            machine.deadline = self.recorder.deadline
            check_range(problem.C, machine.forms.diagonals.max(initial=0.0))
        self.start = feasible_weights(self.regularizer, given, squares)
        """The first weights."""
        self.unit = sum(map(unit_of, parts))
        """What gaps are compared with where the optimum is 0."""
        self.svm_calls = self.gradient_calls = self.inner_steps = 0
        self.left_open = 0.0
        """The allowance for rounding of the last point that it alone kept from tol."""
        self.known = False
        """Whether the bounds that the algorithm itself has of the minimum of J meet up to the accuracy of J."""
        self._smallest, self._waited = np.inf, 0
        self.stop = "gap"
        """What has to fall below tol: the certified gap, or by its name one of the `measures` of the algorithm."""
        self.guaranteed = True
        """False for one whose loop need not converge: where it ends uncertified, the status is NO_GUARANTEE."""
        self.measures: dict[str, float] = {}
        """To be filled in before a yield: the `measures` of the iteration."""

    def svm(self, weights: Array) -> Point:
        """Solve the machines at these weights, from where they were left; counts as SVM evaluations."""
        self._evaluate(weights, np.ones(len(weights), dtype=bool))
        return self._point(weights)

    def trial(self, weights: Array) -> Point:
        """`svm` for a line search, which asks for J alone: kernels without weight are not read.

        Their `squares` are upper bounds, far too large to certify anything; `completed` reads them.
        """
        self._evaluate(weights, weights > 0.0)
        return point_of(self, weights)

    def completed(self, trial: Point) -> Point:
        """The point of a trial with the squares of all kernels; nothing is solved and nothing counted."""
        return self.assess(trial.weights, tuple(beta.copy() for beta in trial.betas))

    def gradient(self, point: Point) -> Array:
        """dJ/dtheta_m = -1/2 sum_p beta_p'K_m beta_p (SimpleMKL (13), (20)-(22)); counts as a gradient evaluation."""
        self.gradient_calls += 1
        return -0.5 * point.squares

    def assess(self, weights: Array, betas: tuple[Array, ...]) -> Point:
        """The point with these weights and these feasible dual variables; nothing is solved and nothing counted."""
        for machine, beta in zip(self.machines, betas, strict=True):
            machine.forms.watched = np.ones(len(weights), dtype=bool)
            machine.set_dual(beta)
            machine.move(weights)
        return self._point(weights)

    def reached(self, point: Point) -> bool:
        """Whether this point has a certified relative gap of tol, the allowance for rounding included."""
        return abs(relative(point.gap, max(abs(point.upper), self.unit))) <= self.tol

    def _rounded(self, point: Point) -> bool:
        """Whether the allowance for rounding alone is nearly tol and no longer changes: then no step helps.

        At the first weights, those of another problem, it may be far more than at the optimum.
        """
        if point.rounding <= SPARE * self.tol * max(abs(point.upper), self.unit):
            return False
        last, self.left_open = self.left_open, point.rounding
        return _SETTLED * last <= point.rounding <= last / _SETTLED

    def _exhausted(self, gap: float, point: Point) -> bool:
        """Whether the gap has not fallen for long, and rounding explains either the gap or what is left of J."""
        if max(gap, 0.0) < _SETTLED * self._smallest:
            self._smallest, self._waited = max(gap, 0.0), 0
            return False
        self._waited += 1
        if self._waited % _PATIENCE:
            return False
        return self.known or gap <= self.rounding(point.weights, point.intercepts, point.upper)

    def follow(self, steps: Iterator[Point]) -> Solution:
        """Run an algorithm to its end, and return the best point with its certificate computed afresh.

        Ctrl-C raises `Interrupted`, whose `solution` is the best certified point so far.
        """
        with self.recorder.running(lambda: self.best.point and self._solution(Status.INTERRUPTED)), blas_threads():
            try:
                for point in steps:
                    if (status := self._record(point)) is not None:
                        return self._solution(status)
            except OutOfTime:
                return self._solution(Status.TIME_LIMIT)
            return self._solution(Status.STALLED)

    def _evaluate(self, weights: Array, needed: Any) -> None:
        """Solve the machines at these weights, and read the kernels that are needed, (M,) of bool."""
        if self.recorder.records and self.recorder.late:
            raise OutOfTime
        self.svm_calls += len(self.machines)
        for machine in self.machines:
            before = machine.steps
            machine.watch(needed)
            machine.move(weights)
            self._solve(machine)
            self.inner_steps += machine.steps - before

    def _solve(self, machine: Machine) -> None:
        """Solve one machine until its own certified gap is negligible."""
        asked = self.precision * abs(machine.value()) if machine.solves else np.inf
        left = np.inf
        while True:
            machine.solve(asked)
            _, _, losses = machine.scores()
            before, left = left, losses + 0.5 * float(machine.weights @ machine.forms.squares) - machine.value()
            wanted = self.precision * abs(machine.value())
            if not wanted < left < 0.5 * before:  # more than half of it is left: rounding
                break
            asked = min(0.1 * asked, wanted)

    def _point(self, weights: Array) -> Point:
        """The point at which the machines are; the best one is kept, and so are the best bounds."""
        point = point_of(self, weights)
        if self.reached(point):
            added = self.rounding(point.weights, point.intercepts, point.upper)
            point = replace(point, rounding=added)
        return self.best.note(point)

    def _record(self, point: Point) -> Status | None:
        best = self.best.point
        ended = None
        if self.stop != "gap":
            ended = Status.INACCURATE if self.measures[self.stop] <= self.tol else None
        elif best is not None:
            hopeless = self._rounded(point) or self._exhausted(best.gap, point)
            ended = Status.OPTIMAL if self.reached(best) else Status.STALLED if hopeless else None
        record = self.iteration(point.weights, point.objective, self.best.lower, self.best.upper)
        return self.recorder.add(record, record.relative_gap, ended)

    def iteration(self, weights: Array, objective: float, lower: float, upper: float) -> Iteration:
        """The record of an iteration that ends now, with what was counted and measured."""
        records, measures = self.recorder.records, self.measures
        self.measures = {}
        return Iteration(
            iteration=len(records),
            seconds=self.recorder.seconds,
            lower=lower,
            upper=upper,
            inner_steps=self.inner_steps - sum(record.inner_steps for record in records),
            weights=weights.copy(),
            unit=self.unit,
            objective=objective,
            svm_calls=self.svm_calls,
            gradient_calls=self.gradient_calls,
            measures=measures,
        )

    def _solution(self, status: Status) -> Solution:
        """The point of smallest gap, certified from scratch."""
        best = self.best.point
        assert best is not None
        counts = {"svm": self.svm_calls, "gradient": self.gradient_calls, "inner_steps": self.inner_steps}
        history = History(tuple(self.recorder.records), {name: float(count) for name, count in counts.items()})
        found = self.certified(self.problem, best, status, history)
        if found.status in (Status.ITERATION_LIMIT, Status.STALLED) and not self.guaranteed:
            return replace(found, status=Status.NO_GUARANTEE)
        return found

    def certified(self, problem: Problem, point: Point, status: Status, history: History | None = None) -> Solution:
        """A point as a solution of a problem with these machines; its certificate decides about OPTIMAL."""
        beta, b = problem.join(point.betas), problem.intercepts(point.intercepts)
        certificate = certify(problem, beta, weights=point.weights, intercept=b)
        status = status.confirmed(certificate.is_optimal(self.tol))
        known = history or History()
        facts = (b, certificate.objective, certificate, status, known, self.solver)
        return Solution(beta, point.weights, *facts, **names_of_both(problem.kernels))


def require(fits: bool, solver: str, problem: Problem, made_for: str, remedy: str) -> None:
    """Unless it fits raise `NotApplicable`: the algorithm, the problem, what it is made for, and what to use."""
    if not fits:
        raise NotApplicable(
            f"{solver} is made for {made_for}; this problem has loss {problem.loss} and regularizer "
            f"{problem.regularizer}. {remedy}"
        )


_PARAMETERS = """
Parameters
----------
problem : Problem
    Made for {made_for}.
tol : float
    Certified relative gap at which to stop.
max_iter : int
    Largest number of iterations, as the paper counts them.
max_time : float, optional
    Seconds after which no further machine is started.
callback : callable, optional
    Called with the `Iteration` of every iteration; a true return value stops the run.
progress : bool
    Show a progress line.
start : Solution, optional
    Solution of a problem with the same kernels: its dual variables and its weights, scaled into the feasible set, are
    where the run starts.
{own}
Returns
-------
Solution
    The best point, certified afresh; its status is OPTIMAL exactly if the certificate confirms tol.

Raises
------
NotApplicable
    For problems that it is not made for. {remedy}
InvalidType, InvalidParameter, InvalidInput
    No problem, a bad option, a start of another size.
Interrupted
    On Ctrl-C; its `solution` is the best certified point so far.
"""


class Algorithm(Protocol):
    """What an algorithm is to its user."""

    __name__: str

    def __call__(
        self,
        problem: Problem,
        *,
        tol: float = ...,
        max_iter: int = ...,
        max_time: float | None = ...,
        callback: Callback | None = ...,
        progress: bool = ...,
        start: Solution | None = ...,
        **own: Any,
    ) -> Solution:
        """Solve the problem; `own` are the parameters that this algorithm alone has."""


def algorithm(
    fits: Callable[[Any], bool], made_for: str, *, remedy: str, max_iter: int = 1000
) -> Callable[[Callable[..., Iterator[Point]]], Algorithm]:
    """Make a solver of the loop of a paper, a generator of points that asks its `Run` for kernel machines.

    `fits` says whether it is made for a problem, and `made_for` the same in words, for the documentation and for who
    brings another problem; `remedy` what takes others. The keyword parameters of the generator and their section
    "Parameters" are added to those that every algorithm has.
    """

    def solver_of(steps: Callable[..., Iterator[Point]]) -> Algorithm:
        @ABSURD
        def solve(
            problem: Problem,
            *,
            tol: float = 1e-4,
            max_iter: int = max_iter,
            max_time: float | None = None,
            callback: Callback | None = None,
            progress: bool = False,
            start: Solution | None = None,
            **own: Any,
        ) -> Solution:
            require_problem(problem)
            require(fits(problem), steps.__name__, problem, made_for, remedy)
            run = Run(steps.__name__, problem, tol, max_iter, max_time, callback, progress, start)
            return run.follow(steps(run, **own))

        made: Algorithm = presented(solve, steps, _PARAMETERS, made_for=made_for, remedy=remedy)
        return made

    return solver_of


def presented(solve: Any, loop: Callable[..., Any], text: str, **words: str) -> Any:
    """A solver by the name and the statement of a loop, with the keyword parameters of both, described in a text."""
    common = list(inspect.signature(solve).parameters.values())[:-1]
    own = [one for one in inspect.signature(loop).parameters.values() if one.kind is one.KEYWORD_ONLY]
    functools.update_wrapper(solve, loop, assigned=("__module__", "__name__", "__qualname__"))
    del solve.__wrapped__
    statement, _, described = inspect.cleandoc(loop.__doc__ or "").partition("\n\nParameters\n----------\n")
    solve.__doc__ = f"{statement}\n" + text.format(own=f"{described}\n" if described else "", **words)
    returned = inspect.signature(solve).return_annotation
    solve.__signature__ = inspect.Signature([*common, *own], return_annotation=returned)
    return solve
