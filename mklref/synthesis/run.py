"""What every solver of mixed-norm synthesis keeps while it runs: the best bounds, the records, and when to stop."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

import numpy as np

from mklref._run import Recorder
from mklref._typing import Array
from mklref._validate import check_callback, check_limits, checked_flag
from mklref.solution import History, Record, Status
from mklref.synthesis.certificate import certify, dual_value, primal_value
from mklref.synthesis.dictionary import Dictionary
from mklref.synthesis.problem import SynthesisProblem, checked_problem
from mklref.synthesis.solution import SynthesisSolution

_SPARE = 0.9
"""Share of the tolerance at which to stop: the certificate sums in another order."""


class Run:
    """The best coefficients and the best dual point so far; the bounds that they give."""

    def __init__(
        self,
        problem: SynthesisProblem,
        tol: float,
        max_iter: int,
        max_time: float | None,
        callback: Callable[[Record], object] | None,
        progress: bool,
    ) -> None:
        checked_problem(problem)
        check_callback(callback, "Record")
        check_limits(tol, "a relative duality gap", max_iter, max_time)
        checked_flag("progress", progress)
        self.problem, self.tol = problem, tol
        self.dictionary = Dictionary(problem.kernels)
        self.recorder: Recorder[Record] = Recorder(
            "solving", tol=tol, max_iter=max_iter, max_time=max_time, callback=callback, progress=progress
        )
        self.coef = np.zeros(problem.shape)
        self.beta = np.zeros(problem.n_samples)
        self.lower, self.upper = -np.inf, np.inf
        self.counters: dict[str, float] = {}

    @property
    def gap(self) -> float:
        """upper - lower, of the best bounds."""
        return self.upper - self.lower

    @property
    def target(self) -> float:
        """The gap to go for, which is relative to the objective however small that is."""
        return _SPARE * self.tol * abs(self.upper)

    def late(self) -> bool:
        """Whether the time is over."""
        return self.recorder.late

    def running(self, solver: str) -> AbstractContextManager[None]:
        """Ctrl-C becomes `Interrupted` with the best point so far."""
        records = self.recorder.records
        return self.recorder.running(lambda: self.solution(Status.INTERRUPTED, solver) if records else None)

    def observe(self, A: Array, t: Array, beta: Array, Z: Array) -> float:
        """Bounds from coefficients with their scores and a dual point with its correlations; the scale of beta."""
        upper = primal_value(self.problem, A, t)
        lower, scale = dual_value(self.problem, beta, Z)
        if upper < self.upper:
            self.upper, self.coef = upper, A
        if lower > self.lower:
            self.lower, self.beta = lower, scale * beta
        return scale

    def record(self, A: Array, inner_steps: int) -> Status | None:
        """Write a record; why to stop, or None."""
        record = Record(
            iteration=len(self.recorder.records),
            seconds=self.recorder.seconds,
            lower=self.lower,
            upper=self.upper,
            inner_steps=inner_steps,
            weights=np.linalg.norm(A, axis=1),
        )
        return self.recorder.add(record, record.relative_gap, Status.OPTIMAL if self.gap <= self.target else None)

    def solution(self, status: Status, solver: str) -> SynthesisSolution:
        """The best point, certified from scratch."""
        certificate = certify(self.problem, self.coef, self.beta)
        return SynthesisSolution(
            coef=self.coef,
            dual_coef=self.beta,
            objective=certificate.objective,
            certificate=certificate,
            status=status.confirmed(certificate.is_optimal(self.tol)),
            history=History(tuple(self.recorder.records), {"passes": self.dictionary.reads + 2.0, **self.counters}),
            constant=self.problem.constant,
            solver=solver,
        )
