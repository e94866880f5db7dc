"""The rows of a cross-check and what follows from them; see `mklref.crosscheck` for the criterion."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from mklref.problem import Problem
from mklref.solution import Solution

NATIVE = "native"
COLUMNS = ("formulation", "solver", "objective", "lower", "upper", "rel. gap", "seconds", "status")
NUMERIC = range(2, 7)
"""Columns that are aligned to the right."""


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
    rounding: float = 0.0
    """By how much each bound may be off because the kernels are semidefinite only up to rounding."""

    @property
    def label(self) -> str:
        """native, or formulation/SOLVER."""
        return NATIVE if self.formulation == NATIVE else f"{self.formulation}/{self.solver}"

    @property
    def objective(self) -> float:
        """The primal objective at the returned point; nan if there is none."""
        return self.solution.objective if self.solution else np.nan

    @property
    def lower(self) -> float:
        """Certified lower bound of the optimal value."""
        return self.solution.certificate.lower if self.solution else -np.inf

    @property
    def upper(self) -> float:
        """Certified upper bound of the optimal value."""
        return self.solution.certificate.upper if self.solution else np.inf

    @property
    def relative_gap(self) -> float:
        """(upper - lower) / |upper|, as in `Certificate`; inf if there is no solution."""
        return self.solution.certificate.relative_gap if self.solution else np.inf

    @property
    def status(self) -> str:
        """How the solver ended, in a word."""
        return self.solution.status.name.lower().replace("_", " ") if self.solution else "failed"

    @property
    def failure(self) -> str:
        """Why this row alone makes the check fail; empty if it does not."""
        if self.solution is None:
            return f"{self.label} failed: {self.note}"
        if not self.solution.certificate.is_optimal(self.allowed):
            return f"{self.label} certifies a relative gap of {self.relative_gap:.1e}, allowed {self.allowed:.1e}"
        return ""

    def cells(self) -> tuple[str, ...]:
        """The row as text, in the order of `COLUMNS`."""
        bounds = (f"{value:.9g}" for value in (self.objective, self.lower, self.upper))
        return (self.formulation, self.solver, *bounds, f"{self.relative_gap:.1e}", f"{self.seconds:.2f}", self.status)

    def to_dict(self) -> dict[str, Any]:
        """Numbers and point of the row, for JSON; numbers that are not finite as strings."""
        facts: dict[str, Any] = {
            "formulation": self.formulation,
            "solver": self.solver,
            "seconds": self.seconds,
            "status": self.status,
            "note": self.note,
            "failure": self.failure,
            "allowed_gap": self.allowed,
            "rounding": self.rounding,
        }
        numbers = {name: getattr(self, name) for name in ("objective", "lower", "upper", "relative_gap")}
        facts |= {name: value if np.isfinite(value) else str(value) for name, value in numbers.items()}
        if self.solution:
            facts["weights"] = self.solution.weights.tolist()
            facts["dual_coef"] = self.solution.dual_coef.tolist()
            facts["intercept"] = self.solution.intercept
        return facts


@dataclass(frozen=True)
class CrossCheck:
    """The rows of a cross-check and its verdict."""

    problem: Problem
    rows: tuple[Row, ...]

    @property
    def interval(self) -> tuple[float, float]:
        """(largest lower bound, smallest upper bound): where all certificates together place the optimal value."""
        return max(row.lower for row in self.rows), min(row.upper for row in self.rows)

    @property
    def best_rows(self) -> dict[str, Row]:
        """For each formulation its row of smallest certified gap, if it has one with a point."""
        best: dict[str, Row] = {}
        for row in self.rows:
            if row.solution and (row.formulation not in best or row.relative_gap < best[row.formulation].relative_gap):
                best[row.formulation] = row
        return best

    @property
    def failures(self) -> tuple[str, ...]:
        """Every reason why the check does not pass, naming the rows."""
        reasons = [row.failure for row in self.rows if row.failure]
        high = max(self.rows, key=lambda row: row.lower - row.rounding)
        low = min(self.rows, key=lambda row: row.upper + row.rounding)
        if high.lower - high.rounding > low.upper + low.rounding:
            reasons.append(
                f"{high.label} and {low.label} contradict each other: lower bound {high.lower:.12g} "
                f"of the one, upper bound {low.upper:.12g} of the other"
            )
        return tuple(reasons)

    @property
    def passed(self) -> bool:
        """Whether all certified intervals overlap and every gap is within its tolerance."""
        return not self.failures

    @property
    def verdict(self) -> str:
        """One line: the common interval, or what failed."""
        if not self.passed:
            return "FAILED: " + "; ".join(self.failures)
        low, high = self.interval
        return f"PASSED: all {len(self.rows)} certified intervals overlap, {low:.12g} <= P* <= {high:.12g}"

    @property
    def table(self) -> str:
        """The rows as aligned text, with notes below."""
        lines = [COLUMNS, *(row.cells() for row in self.rows)]
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        text = ["  ".join(map(_aligned, range(len(COLUMNS)), line, widths)).rstrip() for line in lines]
        return "\n".join([text[0], "-" * len(text[0]), *text[1:], *self.notes])

    @property
    def notes(self) -> tuple[str, ...]:
        """The notes of all rows, each with the label of its row."""
        return tuple(f"{row.label}: {row.note}" for row in self.rows if row.note)

    def to_dict(self) -> dict[str, Any]:
        """Problem, rows and verdict, for JSON."""
        problem = self.problem
        return {
            "problem": {
                "kernels": problem.n_kernels,
                "samples": problem.n_samples,
                "names": list(kernel_names(problem)),
                "loss": str(problem.loss),
                "regularizer": str(problem.regularizer),
                "C": problem.C,
                "intercept": problem.intercept,
            },
            "rows": [row.to_dict() for row in self.rows],
            "passed": self.passed,
            "verdict": self.verdict,
        }

    def to_html(self) -> str:
        """A self-contained page: table, weights, convergence of the native solver, gap against time."""
        from mklref.report import render

        return render({str(self.problem): self})

    def __str__(self) -> str:
        return f"{self.problem}\n{self.table}\n{self.verdict}"


def kernel_names(problem: Problem) -> tuple[str, ...]:
    """The names that the stack carries, or K0, K1, ..."""
    names = getattr(problem.kernels, "names", None)
    return tuple(names) if names else tuple(f"K{m}" for m in range(problem.n_kernels))


def _aligned(column: int, cell: str, width: int) -> str:
    return cell.rjust(width) if column in NUMERIC else cell.ljust(width)
