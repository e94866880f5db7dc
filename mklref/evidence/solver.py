"""`solve`: kernel weights of maximum marginal likelihood, by one of four methods and from one or more starts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import chain
from typing import Any

import numpy as np

from mklref._run import Recorder
from mklref._threads import blas_threads
from mklref._validate import check_callback, checked_choice, checked_count, checked_limits, checked_rng
from mklref.evidence.iterations import Reweighted, below, fixed_point
from mklref.evidence.likelihood import MarginalLikelihood
from mklref.evidence.newton import newton_step, no_higher, residual, residuals
from mklref.evidence.problem import EvidenceProblem, checked_problem
from mklref.evidence.solution import EvidenceRecord, EvidenceSolution, EvidenceStatus, solution_at
from mklref.solution import Status

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

_WHITE = 10.0
"""`MarginalLikelihood.condition` from which on other coordinates leave less rounding."""


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
        How many further starts to draw around the default; the lowest end is returned. One that is lost in float64, as
        large weights beside little noise, is passed over.
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
        `status` is STATIONARY only if the residual at the returned point is at most `tol`, and rounding moves it by no
        more than that: a local statement. A limit that ends "newton" at a saddle is the status there.

    Raises
    ------
    InvalidType, InvalidParameter
        Arguments of the wrong type or out of range.
    Interrupted
        On Ctrl-C; a KeyboardInterrupt whose `solution` is the best point so far.
    """
    checked_problem(problem)
    checked_choice("method", method, METHODS)
    check_callback(callback, "EvidenceRecord")
    tol, max_iter, max_time = checked_limits(tol, "a residual of stationarity", max_iter, max_time, progress)
    further = checked_count("restarts", restarts, 0, "starts beside the given one.")
    draw = np.random.default_rng(0) if rng is None else checked_rng(rng)
    default = problem.default_weights()
    first = default if start is None else problem.checked_weights(start, "start")
    with np.errstate(over="ignore"):
        weights = default * np.exp(draw.uniform(-_SPREAD, _SPREAD, size=(further, problem.n_kernels)))
    drawn = [problem.join(theta, problem.noise_variance) for theta in weights]
    recorder: Recorder[EvidenceRecord] = Recorder(
        "stationarity",
        tol=tol,
        max_iter=max_iter,
        max_time=max_time,
        callback=callback,
        progress=progress,
        quantity="residual",
    )
    ends: list[EvidenceSolution] = []
    run: _Run | None = None

    def so_far() -> EvidenceSolution | None:
        unfinished = [] if run is None else [run.solution(EvidenceStatus.INTERRUPTED)]
        return _lowest([*ends, *unfinished]) if ends or unfinished else None

    with recorder.running(so_far), blas_threads(problem.n_samples):
        for point in chain([MarginalLikelihood(problem, first)], (MarginalLikelihood.at(problem, x) for x in drawn)):
            if point is None:  # a draw beyond float64
                continue
            run = _Run(point, method, tol, recorder)
            ends.append(run.iterate())
            run = None
            if recorder.over:
                break
            recorder.again()
    return _lowest(ends)


def _lowest(ends: list[EvidenceSolution]) -> EvidenceSolution:
    objectives = np.array([end.objective for end in ends])
    return replace(ends[int(objectives.argmin())], restart_objectives=objectives)


class _Run:
    """One method from one start, and the point that it has reached."""

    def __init__(self, point: MarginalLikelihood, method: str, tol: float, recorder: Recorder[EvidenceRecord]) -> None:
        self.point, self.method, self.tol, self.recorder = point, method, tol, recorder
        self.first, self.begun = len(recorder.records), recorder.seconds
        self.reweighted = Reweighted(point.given) if method == "reweighted" else None
        self.whitened_at = set() if point.problem is point.given else {point.x.tobytes()}
        """Where the coordinates were changed: no x twice, or rounding leads in a circle of them."""
        self.below: MarginalLikelihood | None = None
        """Where Newton's method goes on from a saddle."""

    def solution(self, status: EvidenceStatus) -> EvidenceSolution:
        """The present point."""
        return solution_at(self.point, status, self.method, tuple(self.recorder.records[self.first :]))

    def iterate(self) -> EvidenceSolution:
        """Steps until the residual is small, or something else ends them."""
        status, been = self._record(), set()
        while status is None:
            been.add(self.point.x.tobytes())
            following = self._step(self.point)
            if following is None or following.x.tobytes() in been:  # rounding leads in a circle
                if self.reweighted is not None or not self._whiten():
                    return self.solution(self._stalled)
                been.clear()
            else:
                self.point = following
            status = self._record()
        limited = status is EvidenceStatus.ITERATION_LIMIT and self.below is None
        if limited and self.point.residual_rounding > self.tol:  # it may be there but for rounding
            self._whiten()
        found = self.solution(status)
        there = limited and found.stationarity.is_stationary(self.tol)
        return replace(found, status=EvidenceStatus.STATIONARY) if there else found

    @np.errstate(over="ignore", invalid="ignore", divide="ignore")  # what is not finite is no point, and not taken
    def _step(self, point: MarginalLikelihood) -> MarginalLikelihood | None:
        if self.method == "newton":
            return self.below or newton_step(point)
        if self.reweighted is not None:  # whose inner problems are those of the kernels as given
            return None if self.whitened_at else self.reweighted.step(point)
        following = fixed_point(point, MULTIPLICATIVE[self.method])
        return following if following is not None and no_higher(following, point) else None

    @property
    def _stalled(self) -> EvidenceStatus:
        """Why there are no coordinates in which to go on."""
        return EvidenceStatus.TIME_LIMIT if self.recorder.late else EvidenceStatus.STALLED

    def _whiten(self) -> bool:
        """Whether the point is now in coordinates that leave less rounding."""
        x = self.point.x.tobytes()
        if self.point.condition < _WHITE or x in self.whitened_at:
            return False
        self.whitened_at.add(x)
        same = self.point.whitened(lambda: self.recorder.late)
        self.point = same or self.point
        return same is not None

    def _record(self) -> EvidenceStatus | None:
        """Note an iteration; says whether it was the last one."""
        if residual(self.point) <= self.tol < self.point.residual_rounding:
            self._whiten()
        point = self.point
        shares = residuals(point)
        inner = None if self.reweighted is None else self.reweighted.inner
        record = EvidenceRecord(
            iteration=len(self.recorder.records) - self.first,
            seconds=self.recorder.seconds - self.begun,
            objective=point.value,
            residual=float(shares.max()),
            weights=point.weights,
            noise_variance=point.noise_variance,
            inner_gap=float("nan") if inner is None else inner.certificate.relative_gap,
        )
        stationary = record.residual <= self.tol
        self.below = below(point, self.tol) if stationary and self.method == "newton" else None
        reached = Status.OPTIMAL if stationary and self.below is None else None
        status = self.recorder.add(record, record.residual, reached)
        if status is Status.OPTIMAL:
            return EvidenceStatus.STATIONARY if point.residual_rounding <= self.tol else self._stalled
        absorbed = self.method in MULTIPLICATIVE and float(shares[point.x > 0.0].max(initial=0.0)) <= self.tol
        if absorbed and status is not Status.STOPPED:
            return EvidenceStatus.ABSORBED
        return None if status is None else EvidenceStatus[status.name]
