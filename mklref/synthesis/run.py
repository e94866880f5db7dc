"""What every solver of mixed-norm synthesis keeps while it runs: the best bounds, the records, and when to stop."""

from __future__ import annotations

import numbers
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from mklref._typing import Array
from mklref.exceptions import InvalidParameter, InvalidType
from mklref.progress import Progress
from mklref.solution import History, Record, Status
from mklref.synthesis.certificate import certify, dual_value, primal_value, reaches, scale_of_gap
from mklref.synthesis.dictionary import Dictionary
from mklref.synthesis.problem import SynthesisProblem
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
        _check_options(problem, tol, max_iter, max_time, callback)
        self.problem, self.tol, self.max_iter, self.callback = problem, tol, max_iter, callback
        self.dictionary = Dictionary(problem.kernels)
        self.started = time.perf_counter()
        self.max_time = np.inf if max_time is None else max_time
        self.progress = Progress(progress, "solving", target=tol)
        self.coef = np.zeros(problem.shape)
        self.beta = np.zeros(problem.n_samples)
        self.lower, self.upper = -np.inf, np.inf
        self.records: list[Record] = []
        self.counters: dict[str, float] = {}

    @property
    def gap(self) -> float:
        """upper - lower, of the best bounds."""
        return self.upper - self.lower

    @property
    def target(self) -> float:
        """The gap to go for, relative to the objective however small that is."""
        return _SPARE * self.tol * abs(self.upper)

    @property
    def kept(self) -> bool:
        """Whether the gap is what the status OPTIMAL promises, to which rounding may confine a small objective."""
        return self.gap <= _SPARE * self.tol * scale_of_gap(self.problem, self.upper)

    def late(self) -> bool:
        """Whether the time is over."""
        return time.perf_counter() - self.started > self.max_time

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
            iteration=len(self.records),
            seconds=time.perf_counter() - self.started,
            lower=self.lower,
            upper=self.upper,
            inner_steps=inner_steps,
            weights=np.linalg.norm(A, axis=1),
        )
        self.records.append(record)
        self.progress.update(record.relative_gap)
        asked = self.callback is not None and bool(self.callback(record))
        if self.gap <= self.target:
            return Status.OPTIMAL
        if asked:
            return Status.STOPPED
        if self.late():
            return Status.TIME_LIMIT
        return Status.ITERATION_LIMIT if len(self.records) > self.max_iter else None

    def solution(self, status: Status, solver: str) -> SynthesisSolution:
        """The best point, certified from scratch."""
        certificate = certify(self.problem, self.coef, self.beta)
        return SynthesisSolution(
            coef=self.coef,
            dual_coef=self.beta,
            objective=certificate.upper,
            certificate=certificate,
            status=status.confirmed(reaches(self.problem, certificate, self.tol)),
            history=History(tuple(self.records), {"passes": self.dictionary.reads + 2.0, **self.counters}),
            constant=self.problem.constant,
            solver=solver,
        )


def _check_options(problem: Any, tol: Any, max_iter: Any, max_time: Any, callback: Any) -> None:
    if not isinstance(problem, SynthesisProblem):
        raise InvalidType(f"problem is {type(problem).__name__}; give a SynthesisProblem(kernels, y, ...).")
    if callback is not None and not callable(callback):
        raise InvalidType(f"callback is {callback!r}; give a function of one Record, or None.")
    if not isinstance(tol, numbers.Real) or not 0.0 < float(tol) < np.inf:
        raise InvalidParameter(f"tol = {tol!r} must lie in (0, inf): a relative duality gap, for instance 1e-6.")
    if isinstance(max_iter, bool) or not isinstance(max_iter, numbers.Integral) or max_iter < 1:
        raise InvalidParameter(f"max_iter = {max_iter!r} must be a positive integer.")
    if max_time is not None and not (isinstance(max_time, numbers.Real) and float(max_time) > 0.0):
        raise InvalidParameter(f"max_time = {max_time!r} must be a positive number of seconds, or None.")
