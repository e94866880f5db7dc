"""Stationary points: what an algorithm can promise on a non-convex problem, with the way there and no gap."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from mklref._threads import blas_threads
from mklref._typing import Array
from mklref.algorithms.base import OutOfTime, Run
from mklref.algorithms.point import Point
from mklref.problem import Problem
from mklref.regularizers import Fixed
from mklref.solution import History, Solution, Status


@dataclass(frozen=True, eq=False)
class GroupPoint:
    """A point of the descent: sigma1 (L,), sigma2 (M,), and the machine at theta = sigma1^p sigma2^q."""

    point: Point
    sigma1: Array
    sigma2: Array
    residual: float
    """How far J could fall to first order on the two simplices, relative to |J|; 0 at a stationary point."""


@dataclass(frozen=True)
class StationaryPoint:
    """The best point found on a non-convex problem. No gap bounds its distance to the global minimum.

    What is certified is the kernel machine at these weights: `machine` is a solution of the convex problem with
    regularizer Fixed(weights), and its certificate says nothing about the weights.
    """

    machine: Solution
    sigma1: Array
    """Group weights (L,), sum_l d_l sigma1_l = 1."""
    sigma2: Array
    """Weights within groups (M,), sum_m sigma2_m = 1."""
    residual: float
    """How far J could fall to first order on the two simplices, relative to |J|; 0 at a stationary point."""
    status: Status
    """STATIONARY if the residual is at most tol."""
    objectives: tuple[float, ...]
    """J at the end of every start, in order: ends that differ show local minima."""
    history: History = field(default_factory=History)
    """Records of all starts, one after another; their lower bounds are -inf, as nothing bounds J from below."""
    solver: str = "group_wrapper"

    @property
    def weights(self) -> Array:
        """theta_m = sigma1_l^p sigma2_m^q, (M,)."""
        return self.machine.weights

    @property
    def dual_coef(self) -> Array:
        """beta (n,)."""
        return self.machine.dual_coef

    @property
    def intercept(self) -> float:
        """b."""
        return float(self.machine.intercept)

    @property
    def objective(self) -> float:
        """J(sigma1, sigma2) from above: the primal objective of the machine at these weights."""
        return self.machine.objective

    def decision_function(self, kernels_new: Any) -> Array:
        """Scores of new samples; as `Solution.decision_function`."""
        return self.machine.decision_function(kernels_new)

    def __str__(self) -> str:
        return f"J = {self.objective:.9g}, residual of stationarity {self.residual:.1e}, no bound on the minimum"


def settle(run: Run, problem: Problem, starts: Iterable[Iterator[GroupPoint]]) -> StationaryPoint:
    """Follow the descent from every start until run.stop is at run.tol; keep the lowest end, also on Ctrl-C."""
    ends: list[tuple[GroupPoint, Status]] = []
    so_far = partial(_lowest, run, problem, ends, Status.INTERRUPTED)
    with run.recorder.running(lambda: so_far() if ends else None), blas_threads():
        try:
            for steps in starts:
                run.recorder.again()
                for count, current in enumerate(steps):
                    ended = _record(run, current)
                    ends[-1 if count else len(ends) :] = [(current, ended or Status.STALLED)]
                    if ended is not None:
                        break
                if run.recorder.over:
                    break
        except OutOfTime:
            ends[-1] = (ends[-1][0], Status.TIME_LIMIT)
        return _lowest(run, problem, ends)


def _record(run: Run, current: GroupPoint) -> Status | None:
    point = current.point
    lowest = min([point.value, *(record.upper for record in run.recorder.records[-1:])])
    record = run.iteration(point.weights, point.value, -np.inf, lowest)
    ended = Status.INACCURATE if record.measures[run.stop] <= run.tol else None
    return run.recorder.add(record, current.residual, ended)


def _lowest(
    run: Run, problem: Problem, ends: list[tuple[GroupPoint, Status]], forced: Status | None = None
) -> StationaryPoint:
    """The end of smallest J, and its machine certified from scratch."""
    best, status = min(ends, key=lambda end: end[0].point.value)
    fixed = problem.replace(regularizer=Fixed(best.point.weights))
    counters = {"svm": float(run.svm_calls), "gradient": float(run.gradient_calls), "starts": float(len(ends))}
    return StationaryPoint(
        machine=run.certified(fixed, best.point, Status.OPTIMAL),
        sigma1=best.sigma1,
        sigma2=best.sigma2,
        residual=best.residual,
        status=forced or (Status.STATIONARY if best.residual <= run.tol else status),
        objectives=tuple(end.point.value for end, _ in ends),
        history=History(tuple(run.recorder.records), counters),
    )
