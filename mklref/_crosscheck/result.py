"""What follows from the rows of a cross-check; see `mklref.crosscheck` for the criterion."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mklref import _display
from mklref._crosscheck.row import NATIVE, Row, common_interval, distance, interval_size
from mklref._validate import checked_names
from mklref.certificate.allowance import weights_error
from mklref.problem import Problem

COLUMNS = ("formulation", "solver", "value", "off by", "raw lower", "raw upper", "lower", "upper", "seconds", "status")
NUMERIC = range(2, 9)
"""Columns that are aligned to the right."""

WIDTHS = (16, 8, 12, 7, 12, 12, 12, 12, 7, 18)
"""Of the columns: rows are shown one after the other, before the last one is known."""

_UNCERTIFIED = 1e-5
"""How far a value may be off, without a verdict, whose solver returns a point that certifies no small gap."""
ROUNDING = 1e-12
"""By how much, relative to their size, two bounds may contradict each other for the last digits of float64."""


@dataclass(frozen=True)
class CrossCheck:
    """The rows of a cross-check and its verdict."""

    problem: Problem
    rows: tuple[Row, ...]
    tol: float = 1e-6
    """Relative width of the common interval from which on nothing could be checked."""
    value_tol: float = 1e-6
    """How far, relatively, the value of a formulation may lie outside the common interval."""
    inaccurate_tol: float = 1e-3
    """The same for a solver that says itself that it is inaccurate."""

    @property
    def interval(self) -> tuple[float, float]:
        """(largest lower bound, smallest upper bound): where all certificates together place the optimal value.

        A certificate knows nothing of the formulation that its point comes from, so no row can hide itself here.
        """
        return common_interval(self.rows)

    @property
    def size(self) -> float:
        """What differences are relative to: the optimal value, or the unit of the problem where it is 0."""
        return interval_size(self.interval, *(row.solution.certificate.unit for row in self.rows if row.solution))

    def off(self, row: Row) -> float:
        """How far the value of a row lies outside the common interval, relatively; 0 inside, nan without a value."""
        return distance(row.value, self.interval, self.size)

    def cells(self, row: Row) -> tuple[str, ...]:
        """A row as text, in the order of `COLUMNS`."""
        raw = row.raw if row.formulation != NATIVE else None
        bounds = (raw.certificate.lower, raw.certificate.upper) if raw else (np.nan, np.nan)
        own = (row.lower, row.upper) if row.solution else (np.nan, np.nan)
        off = self.off(row)
        return (
            row.formulation,
            row.solver,
            _number(row.value),
            "" if np.isnan(off) else "inside" if off == 0.0 else f"{off:.0e}",
            *("" if text == "nan" else text for ends in (bounds, own) for text in _display.outwards(*ends)),
            f"{row.seconds:.2f}",
            row.status,
        )

    @property
    def best_rows(self) -> dict[str, Row]:
        """For each formulation its row of smallest certified gap, if it has one with a point."""
        best: dict[str, Row] = {}
        for row in self.rows:
            if row.solution and (row.formulation not in best or row.relative_gap < best[row.formulation].relative_gap):
                best[row.formulation] = row
        return best

    def contradiction(self, row: Row) -> str:
        """Why this row contradicts the certified interval or itself; empty if it does not."""
        if row.claim:
            return f"{row.label} calls the problem {row.claim}, whose value lies in {_interval(self.interval)}"
        if row.solution is None:
            return ""
        if np.isnan([row.lower, row.upper, row.rounding]).any():
            return f"{row.label} has bounds that are not a number"
        off, most = self.off(row), self._most_off(row)
        if off > most and not self._vouched_for(row):
            return (
                f"{row.label} states the value {row.value:.9g}, which lies outside of {_interval(self.interval)} "
                f"by {off:.1e} of it, allowed {most:.0e}"
            )
        if row.formulation != NATIVE and np.isnan(off):
            return f"{row.label} states no value"
        if row.formulation == NATIVE and row.sure and not row.certifies:
            return f"{row.label} calls itself optimal, and {self._gap(row)}"
        return ""

    def undecided(self, row: Row) -> str:
        """Why this row has no verdict: its solver gave up, or is not accurate by its own word; empty if it has one."""
        if self.contradiction(row):
            return ""
        if row.solution is None:
            return "the solver gave up"
        limited = max(self._allowance, self._at_kinks) > self.tol * self.size
        rounded = self.narrow and limited  # then its value agrees, and has to do
        if not row.certifies and not (rounded and row.sure and row.formulation != NATIVE):
            return self._gap(row)
        if not self.off(row) > self.value_tol:
            return ""
        return (
            f"{row.status}, by its own word"
            if not row.sure
            else f"off by {self.off(row):.1e}, and its point is as well"
        )

    def _vouched_for(self, row: Row) -> bool:
        """Whether its solver is inaccurate by its own word, and another one finds its formulation right."""
        others = (other for other in self.rows if other is not row and other.formulation == row.formulation)
        return not row.sure and any(other.solution and self.off(other) <= self._most_off(other) for other in others)

    def _most_off(self, row: Row) -> float:
        """How far a value may lie outside: a little more where the solver's own point certifies no small gap."""
        if not row.sure:
            return self.inaccurate_tol
        certified = row.raw is None or row.raw.certificate.is_optimal(row.allowed)
        return self.value_tol if certified else max(self.value_tol, _UNCERTIFIED)

    def _recovered(self, row: Row) -> str:
        """What the point certifies, if that is less than the row has to: its value tells nothing of its recovery."""
        if row.raw is None or (row.certifies and row.raw.certificate.is_optimal(row.allowed)):
            return ""
        if not row.certifies:
            return f"its value agrees, its point {self._gap(row)}"
        return f"before polishing its point certifies a relative gap of {row.raw.certificate.relative_gap:.1e}"

    def _gap(self, row: Row) -> str:
        return f"certifies a relative gap of {row.relative_gap:.1e}, allowed {row.allowed:.1e}"

    @property
    def failures(self) -> tuple[str, ...]:
        """Every reason why the check does not pass: contradictions, naming the rows, or that nothing was checked."""
        if not self.contradictions and not self.decided:
            return (f"nothing was checked: {self._unchecked}",)
        return self.contradictions

    @property
    def contradictions(self) -> tuple[str, ...]:
        """What contradicts the certified interval or itself, naming the rows."""
        reasons = [reason for reason in map(self.contradiction, self.rows) if reason]
        high, low = self._deciding
        bottom, top = self.interval
        if bottom - top > ROUNDING * self.size:
            pair = f"{high.label} and {low.label} contradict each other"
            subject = f"{high.label} contradicts itself" if high is low else pair
            bounds = f"lower bound {bottom:.12g}{' of the one' * (high is not low)}, upper bound {top:.12g}"
            reasons.append(f"{subject}: {bounds}{' of the other' * (high is not low)}")
        return tuple(reasons)

    @property
    def decided(self) -> tuple[Row, ...]:
        """The formulations' rows whose values were compared with an interval that is narrow enough."""
        if not self.narrow:
            return ()
        return tuple(row for row in self.rows if row.formulation != NATIVE and not self.undecided(row))

    @property
    def narrow(self) -> bool:
        """Whether the common interval is narrow enough to compare values with it.

        Its width may be tol, and what rounding adds to it, of kernels and of sums, the looser tolerance, relatively.
        """
        low, high = self.interval
        added = self._allowance
        return added <= self.inaccurate_tol * self.size and high - low - added <= self.tol * self.size

    @property
    def _allowance(self) -> float:
        """How much wider the common interval is for the rounding of kernels and sums; at most as wide as it is.

        What rounding adds to the other bound of a point that decides may be anything.
        """
        (below, above), (low, high) = self._deciding, self.interval
        sums = {id(c): c.rounding for c in (below.deciding[0], above.deciding[1]) if c is not None}
        return min(below.rounding + above.rounding + sum(sums.values()), max(0.0, high - low))

    @property
    def _at_kinks(self) -> float:
        """What rounding costs a point near the best one, with samples on kinks of the loss, where conic points lie."""
        best = self._deciding[1].solution
        if best is None:
            return 0.0
        each = zip(self.problem.machines, self.problem.split(best.dual_coef), strict=True)
        return float(np.abs(best.weights) @ np.sum([weights_error(own.problem, beta) for own, beta in each], axis=0))

    @property
    def _deciding(self) -> tuple[Row, Row]:
        """The rows of the largest lower and of the smallest upper bound."""
        return max(self.rows, key=lambda row: row.interval[0]), min(self.rows, key=lambda row: row.interval[1])

    @property
    def _unchecked(self) -> str:
        low, high = self.interval
        if not self.narrow:
            return f"all that is certified is {_interval((low, high), 9)}, wider than {self.tol:.0e} of it"
        return "no solver stands by the value of a formulation"

    @property
    def passed(self) -> bool:
        """Whether nothing contradicts anything, and at least one formulation was checked."""
        return not self.failures

    @property
    def verdict(self) -> str:
        """One line: PASSED and the common interval, FAILED and what did, or UNDECIDED where nothing was checked."""
        silent = [row.label for row in self.rows if self.undecided(row)]
        no_verdict = f"; no verdict of {', '.join(silent)}" if silent else ""
        if not self.passed:
            return f"{'FAILED' if self.contradictions else 'UNDECIDED'}: " + "; ".join(self.failures) + no_verdict
        count = len(self.decided)
        agree = f"{count} values agree" if count > 1 else "1 value agrees"
        return f"PASSED: {agree} with the certified {_interval(self.interval)}{no_verdict}"

    @property
    def table(self) -> str:
        """The rows as aligned text, with notes below."""
        lines = [line(COLUMNS), *(line(self.cells(row)) for row in self.rows)]
        return "\n".join([lines[0], "-" * len(lines[0]), *lines[1:], *self.notes])

    @property
    def notes(self) -> tuple[str, ...]:
        """The notes of all rows, what has no verdict and what its point does not certify, with the label of the row."""
        texts = (
            (row, "; ".join(filter(None, (self.undecided(row) or self._recovered(row), row.note)))) for row in self.rows
        )
        return tuple(f"{row.label}: {text}" for row, text in texts if text)

    def to_dict(self) -> dict[str, Any]:
        """Problem, rows and verdict, for JSON; numbers that are not finite as strings."""
        problem: Any = self.problem
        machine = getattr(problem, "machine", problem)  # that of a semidefinite program
        return {
            "problem": {
                "kernels": problem.n_kernels,
                "samples": problem.n_samples,
                "names": list(kernel_names(problem)),
                "loss": str(machine.loss),
                "regularizer": str(machine.regularizer),
                "C": problem.C,
                "intercept": machine.intercept,
            },
            "interval": [_json(bound) for bound in self.interval],
            "tolerances": {"tol": self.tol, "value_tol": self.value_tol, "inaccurate_tol": self.inaccurate_tol},
            "rows": [self._row(row) for row in self.rows],
            "passed": self.passed,
            "verdict": self.verdict,
        }

    def _row(self, row: Row) -> dict[str, Any]:
        facts: dict[str, Any] = {
            "formulation": row.formulation,
            "solver": row.solver,
            "seconds": row.seconds,
            "status": row.status,
            "note": row.note,
            "failure": self.contradiction(row),
            "no_verdict": self.undecided(row),
            "allowed_gap": row.allowed,
            "rounding": _json(row.rounding),
            "value": _json(row.value),
            "off_by": _json(self.off(row)),
        }
        for prefix, point in (("", row.solution), ("raw_", row.raw)):
            if point:
                certificate = point.certificate
                bounds = certificate.lower, certificate.upper, certificate.relative_gap
                names = (f"{prefix}{name}" for name in ("lower", "upper", "relative_gap"))
                facts |= dict(zip(names, map(_json, bounds), strict=True))
                facts[f"{prefix}weights"] = point.weights.tolist()
                facts[f"{prefix}dual_coef"] = point.dual_coef.tolist()
                facts[f"{prefix}intercept"] = np.asarray(point.intercept).tolist()
        return facts

    def _repr_html_(self) -> str:
        return _display.crosscheck(self, COLUMNS)

    def to_html(self) -> str:
        """A self-contained page: table, values and intervals on one axis, weights, convergence, gap against time."""
        from mklref.report import render

        return render({str(self.problem): self})

    def __str__(self) -> str:
        return f"{self.problem}\n{self.table}\n{self.verdict}"


def line(cells: Sequence[str], shown: Sequence[str] = COLUMNS) -> str:
    """Cells, one for each of `COLUMNS` or for each of those that are shown, as a line of text aligned by `WIDTHS`."""
    if len(cells) == len(COLUMNS):
        cells = [cell for cell, name in zip(cells, COLUMNS, strict=True) if name in shown]
    columns = map(COLUMNS.index, shown)
    aligned = (
        cell.rjust(WIDTHS[column]) if column in NUMERIC else cell.ljust(WIDTHS[column])
        for column, cell in zip(columns, cells, strict=True)
    )
    return " ".join(aligned).rstrip()


def kernel_names(problem: Problem) -> tuple[str, ...]:
    """The names that the stack carries, or K0, K1, ..."""
    return checked_names(problem.kernels.names or None, problem.n_kernels)


def _number(value: float) -> str:
    return "" if np.isnan(value) else f"{value:.9g}"


def _interval(interval: tuple[float, float], digits: int = 12) -> str:
    return " <= P* <= ".join(_display.outwards(*interval, digits))


def _json(value: float) -> float | str:
    return value if np.isfinite(value) else str(value)
