"""A row of a cross-check: one formulation, one solver, one answer, and where rows place the optimal value."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from mklref.certificate import Certificate
from mklref.certificate.bounds import relative
from mklref.solution import Solution, Status

NATIVE = "native"


@dataclass(frozen=True)
class Row:
    """One formulation, one solver, one answer."""

    formulation: str
    solver: str
    seconds: float
    solution: Solution | None
    """None if the solver failed."""
    note: str
    """Warnings, and the reason of a failure."""
    allowed: float
    """The largest relative gap with which this row passes."""
    claim: str = ""
    """What a solver without a point claims: "infeasible" or "unbounded"; "" if it gave up."""
    rounding: float = 0.0
    """By how much each bound may be off because the kernels are semidefinite only up to rounding."""

    @property
    def label(self) -> str:
        """native, or formulation/SOLVER."""
        return NATIVE if self.formulation == NATIVE else f"{self.formulation}/{self.solver}"

    @property
    def value(self) -> float:
        """The optimal value of the model as its solver states it; nan for the native solver, which has no model."""
        return self.solution.value if self.solution else np.nan

    @property
    def raw(self) -> Solution | None:
        """The solver's own point, before polishing."""
        return (self.solution.raw or self.solution) if self.solution else None

    @property
    def lower(self) -> float:
        """Certified lower bound of the optimal value; -inf without a point."""
        return self.solution.certificate.lower if self.solution else -np.inf

    @property
    def upper(self) -> float:
        """Certified upper bound of the optimal value; inf without a point."""
        return self.solution.certificate.upper if self.solution else np.inf

    @property
    def relative_gap(self) -> float:
        """That of the certificate; inf without a point."""
        return self.solution.certificate.relative_gap if self.solution else np.inf

    @property
    def certifies(self) -> bool:
        """Whether the gap of the point is one with which this row passes."""
        return self.solution is not None and self.solution.certificate.is_optimal(self.allowed)

    @property
    def interval(self) -> tuple[float, float]:
        """Where this row certifies the optimal value, by its point or by its raw point, rounded kernels allowed for."""
        below, above = self.deciding
        lower, upper = below.lower if below else -np.inf, above.upper if above else np.inf
        return lower - self.rounding, upper + self.rounding

    @property
    def deciding(self) -> tuple[Certificate | None, Certificate | None]:
        """The certificates of the larger lower and of the smaller upper bound, of the point and the raw point."""
        points = [point.certificate for point in (self.solution, self.raw) if point]
        return max(points, key=lambda c: c.lower, default=None), min(points, key=lambda c: c.upper, default=None)

    @property
    def status(self) -> str:
        """How the solver ended, in its own word."""
        if self.solution is None:
            return self.claim or "failed"
        if self.formulation == NATIVE:
            return self.solution.status.name.lower().replace("_", " ")
        return self.solution.claimed.replace("_", " ")

    @property
    def sure(self) -> bool:
        """Whether the solver itself says that its answer is accurate, and has to stand by it."""
        if self.formulation == NATIVE:
            return self.solution is not None and self.solution.status is Status.OPTIMAL
        return self.solution is not None and self.solution.claimed == "optimal"


def common_interval(rows: Iterable[Row]) -> tuple[float, float]:
    """(largest lower bound, smallest upper bound) of the rows; a bound that is not a number does not count."""
    intervals = np.array([(-np.inf, np.inf), *(row.interval for row in rows)])
    return float(np.nanmax(intervals[:, 0])), float(np.nanmin(intervals[:, 1]))


def interval_size(interval: tuple[float, float], *units: float) -> float:
    """The largest finite bound in magnitude, or a larger unit."""
    return max((abs(bound) for bound in (*interval, *units) if np.isfinite(bound)), default=0.0)


def distance(value: float, interval: tuple[float, float], size: float) -> float:
    """How far a value lies outside an interval that holds the optimum, over its size; 0 inside, nan for nan."""
    low, high = min(interval), max(interval)  # bounds that contradict each other by rounding are one
    if np.isnan(value):
        return value
    return relative(max(low - value, value - high, 0.0), size)
