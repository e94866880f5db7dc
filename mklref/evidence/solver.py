"""`solve`: kernel weights of maximum marginal likelihood, by one of four methods and from one or more starts."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from mklref._progress import Progress
from mklref._threads import blas_threads
from mklref._typing import Array
from mklref._validate import asks_to_stop, check_callback, check_limits, checked_count, checked_flag, checked_rng
from mklref.evidence.iterations import Reweighted, fixed_point, newton
from mklref.evidence.likelihood import MarginalLikelihood
from mklref.evidence.newton import no_higher, residuals
from mklref.evidence.problem import EvidenceProblem, checked_problem
from mklref.evidence.solution import EvidenceRecord, EvidenceSolution, EvidenceStatus, solution_at
from mklref.exceptions import Interrupted, InvalidParameter

METHODS = {
    "newton": "projected Newton on (14) itself",
    "reweighted": "block 1-norm MKL with weights sqrt(z_m), repeated: both terms of (14) bounded",
    "mackay": "fixed point theta_m <- theta_m a_m/z_m",
    "wipf_nagarajan": "theta_m <- theta_m sqrt(a_m/z_m), the minimiser of the bound at fixed functions",
}
"""The methods by name."""

MULTIPLICATIVE = {"mackay": 1.0, "wipf_nagarajan": 0.5}
"""The methods theta_m <- theta_m (a_m/z_m)^exponent, which cannot leave a weight of zero."""

_SPREAD = np.log(1e2)
"""Restarts multiply each default weight by a factor between 1/100 and 100, uniform in its logarithm."""


def solve(
    problem: EvidenceProblem,
    method: str = "newton",
    *,
    start: Any = None,
    restarts: int = 0,
    rng: np.random.Generator | None = None,
    tol: float = 1e-6,
    max_iter: int = 10_000,
    max_time: float | None = None,
    callback: Callable[[EvidenceRecord], object] | None = None,
    progress: bool = False,
) -> EvidenceSolution:
    """Minimise (14) over the kernel weights, and over the noise variance if it is learned, to a stationary point.

    Parameters
    ----------
    problem : EvidenceProblem
    method : {"newton", "reweighted", "mackay", "wipf_nagarajan"}
        See `METHODS`. None of them increases (14) by more than rounding. From one start they may end in different local
        minima. With very little noise the inner problems of "reweighted" cannot be certified; it then ends as STALLED.
    start : array (M,), optional
        Weights to start from; by default every kernel explains the same share of the mean square of y.
    restarts : int
        How many further starts to draw around the default; the lowest end is returned.
    rng : numpy.random.Generator, optional
        Draws the starts; np.random.default_rng(0) by default.
    tol : float
        Residual of the first-order conditions at which to stop, positive; see `Stationarity`.
    max_iter : int
        Largest number of iterations from each start.
    max_time : float, optional
        Seconds, for all starts together, after which the best point so far is returned.
    callback : callable, optional
        Called with the `EvidenceRecord` of every iteration; a true return value stops the method.
    progress : bool
        Show a progress line.

    Returns
    -------
    EvidenceSolution
        `status` is STATIONARY exactly if the residual at the returned point is at most `tol`: a local statement.

    Raises
    ------
    InvalidType, InvalidParameter
        Arguments of the wrong type or out of range.
    Interrupted
        On Ctrl-C; a KeyboardInterrupt whose `solution` is the best point so far.
    """
    checked_problem(problem)
    _check_method(method)
    check_callback(callback, "EvidenceRecord")
    check_limits(tol, "a residual of stationarity", max_iter, max_time)
    checked_flag("progress", progress)
    further = checked_count("restarts", restarts, 0, "starts beside the given one.")
    draw = np.random.default_rng(0) if rng is None else checked_rng(rng)
    default = problem.default_weights()
    starts = [default if start is None else problem.checked_weights(start, "start")]
    starts += list(default * np.exp(draw.uniform(-_SPREAD, _SPREAD, size=(further, problem.n_kernels))))
    deadline = np.inf if max_time is None else time.perf_counter() + max_time
    line = Progress(progress, "stationarity", target=tol, quantity="residual")
    ends: list[EvidenceSolution] = []
    try:
        for weights in starts:
            run = _Run(problem, method, tol, max_iter, deadline, callback, line)
            with blas_threads(problem.n_samples):
                ends.append(run.iterate(weights))
            if ends[-1].status in (EvidenceStatus.TIME_LIMIT, EvidenceStatus.STOPPED, EvidenceStatus.INTERRUPTED):
                break
    finally:
        line.close()
    objectives = np.array([end.objective for end in ends])
    best = replace(ends[int(objectives.argmin())], restart_objectives=objectives)
    if ends[-1].status is EvidenceStatus.INTERRUPTED:
        raise Interrupted(best) from None
    return best


@dataclass
class _Run:
    """One method from one start."""

    problem: EvidenceProblem
    method: str
    tol: float
    max_iter: int
    deadline: float
    callback: Callable[[EvidenceRecord], object] | None
    line: Progress
    records: list[EvidenceRecord] = field(default_factory=list)
    begun: float = field(default_factory=time.perf_counter)
    reweighted: Reweighted | None = None

    def iterate(self, weights: Array) -> EvidenceSolution:
        """Steps until the residual is small, or something else ends them."""
        point = MarginalLikelihood(self.problem, weights)
        if self.method == "reweighted":
            self.reweighted = Reweighted(self.problem)
        try:
            status, been = self._record(point), set()
            while status is None:
                been.add(point.x.tobytes())
                following = self._step(point)
                if following is None or following.x.tobytes() in been:  # rounding leads in a circle
                    status = EvidenceStatus.STALLED
                else:
                    point = following
                    status = self._record(point)
        except KeyboardInterrupt:
            status = EvidenceStatus.INTERRUPTED
        return solution_at(point, status, self.method, tuple(self.records))

    @np.errstate(over="ignore", invalid="ignore", divide="ignore")  # what is not finite is no point, and not taken
    def _step(self, point: MarginalLikelihood) -> MarginalLikelihood | None:
        if self.method == "newton":
            return newton(point)
        if self.reweighted is not None:
            return self.reweighted.step(point)
        following = fixed_point(point, MULTIPLICATIVE[self.method])
        return following if following is not None and no_higher(following, point) else None

    def _record(self, point: MarginalLikelihood) -> EvidenceStatus | None:
        """Note an iteration; says whether it was the last one."""
        shares = residuals(point, self.problem.lower)
        inner = None if self.reweighted is None else self.reweighted.inner
        now = time.perf_counter()
        record = EvidenceRecord(
            iteration=len(self.records),
            seconds=now - self.begun,
            objective=point.value,
            residual=float(shares.max()),
            weights=point.weights,
            noise_variance=point.noise_variance,
            inner_gap=float("nan") if inner is None else inner.certificate.relative_gap,
        )
        self.records.append(record)
        self.line.update(record.residual)
        stop = asks_to_stop(self.callback, record)
        if record.residual <= self.tol:
            return EvidenceStatus.STATIONARY
        if stop:
            return EvidenceStatus.STOPPED
        if self.method in MULTIPLICATIVE and float(shares[point.x > 0.0].max(initial=0.0)) <= self.tol:
            return EvidenceStatus.ABSORBED
        if now > self.deadline:
            return EvidenceStatus.TIME_LIMIT
        return EvidenceStatus.ITERATION_LIMIT if len(self.records) >= self.max_iter else None


def _check_method(method: Any) -> None:
    if not isinstance(method, str) or method not in METHODS:
        raise InvalidParameter(f"method = {method!r} is unknown; known are {', '.join(map(repr, METHODS))}.")
