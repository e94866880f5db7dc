"""The certificate itself: two bounds, what they mean, and what is wrong with a bad point in words."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Self, TypeVar

import numpy as np

from mklref import _display
from mklref._validate import checked_number
from mklref.certificate.bounds import relative
from mklref.certificate.penalty_terms import NAMES

T = TypeVar("T")

_WORTH_SAYING = 1e-9
"""Relative size from which a better intercept, or a negative gap, is worth a sentence."""
_OF_THE_GAP = 1e-3
"""The share of the gap that a better intercept has to close to be worth one."""
_GOOD = 1e-6
"""Relative gap up to which a point needs no excuse, and below minus which no tolerance excuses it."""


BESIDE = ("passed", "verdict", "faults", "message")
"""What the command line writes beside the fields of a certificate."""


@dataclass(frozen=True)
class Bounds:
    """lower <= P* <= upper for the optimal value P* of a problem, from one point.

    The point itself is feasible for the primal, so its objective `upper` exceeds P* by at most `gap`.
    """

    lower: float
    """Dual objective at the repaired dual point, less what rounding may have added; -inf if it is not finite."""
    upper: float
    """Primal objective at exactly the given point, and what rounding may have taken off; inf if it is not finite."""
    infeasibility: float
    """The largest violation that had to be repaired for the bounds: box, 1'beta = c_b, weights. 0 if none."""
    violations: tuple[str, ...]
    """Each violation in words."""
    unit: float = field(default=0.0, kw_only=True)
    """What the gap is compared with where the optimum is 0 (`mklref.certificate.bounds`); 0 where it is not."""
    rounding: float = field(default=0.0, kw_only=True)
    """The share of the gap that is an allowance for rounding errors (`mklref.certificate.allowance`)."""
    objective: float = field(default=math.nan, kw_only=True)
    """The primal objective at the given point as it was computed, `upper` without its share of `rounding`."""

    def __post_init__(self) -> None:
        if math.isnan(self.objective):
            object.__setattr__(self, "objective", self.upper)

    @property
    def size(self) -> float:
        """max(|upper|, unit): what the gap is relative to."""
        return max(abs(self.upper), self.unit)

    @property
    def gap(self) -> float:
        """upper - lower. Negative beyond rounding only if a kernel is indefinite."""
        return self.upper - self.lower

    @property
    def relative_gap(self) -> float:
        """gap / |upper|, or over the unit of the problem where the optimum is 0; inf if a bound is infinite."""
        return relative(self.gap, self.size)

    def is_optimal(self, tol: float = 1e-6) -> bool:
        """Whether the relative gap is at most `tol`. One below -tol, or -1e-6, is a contradiction, not an optimum.

        Raises
        ------
        InvalidParameter
            If tol is negative or not a number.
        """
        tol = checked_number("tol", tol, "[0, inf]", "a relative duality gap.")
        return -min(tol, _GOOD) <= self.relative_gap <= tol

    def explain(self) -> str:
        """The bounds, and each violation, in words."""
        return "\n".join([str(self), *self._repairs()])

    def _repairs(self) -> list[str]:
        """Each violation in words, and that the bounds hold all the same if they are those of a repaired point."""
        found = [f"Infeasible: {violation}." for violation in self.violations]
        repaired = ["The bounds hold all the same: they are those of the repaired point."]
        return found + repaired if found and np.isfinite(self.upper) else found

    def to_dict(self) -> dict[str, Any]:
        """All fields, for JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, facts: dict[str, Any]) -> Self:
        """The inverse of `to_dict`; `KeyError`, `TypeError` or `ValueError` for fields that are none of its own.

        What `mklref certify --save` writes beside them is left out, and its texts for infinite numbers are read.
        """
        kinds = {entry.name: str(entry.type).partition(" | ") for entry in fields(cls)}
        if isinstance(facts, dict):
            endless = {"inf": np.inf, "-inf": -np.inf, "nan": np.nan}
            facts = {
                name: endless.get(one, one) if isinstance(one, str) else one
                for name, one in facts.items()
                if name not in BESIDE
            }
        if not isinstance(facts, dict) or set(facts) != set(kinds):
            raise KeyError(f"the fields of {cls.__name__} are {', '.join(kinds)}")
        types: dict[str, Any] = {"float": float, "int": int, "str": str, "tuple[str, ...]": tuple}
        values: dict[str, Any] = {
            name: (saved_each if several else saved)(facts, name, types[kind])
            for name, (kind, several, _) in kinds.items()
        }
        return cls(**values)

    def __str__(self) -> str:
        ends = _display.outwards(self.lower, self.upper)
        return "{} <= P* <= {}, relative gap {:.1e}".format(*ends, self.relative_gap)


def apart(one: float, other: float) -> tuple[str, str]:
    """Two numbers with six digits, or as many as it takes to tell them apart."""
    texts = f"{one:.6g}", f"{other:.6g}"
    for digits in range(7, 18):
        if texts[0] == texts[1]:
            texts = f"{one:.{digits}g}", f"{other:.{digits}g}"
    return texts


@dataclass(frozen=True)
class Certificate(Bounds):
    """Bounds on the optimal value of a `Problem`, and what to improve in the point."""

    intercept: float | tuple[float, ...]
    """The intercept that `upper` uses; one for each of several machines."""
    better_intercept: float | tuple[float, ...]
    """The best intercept for these scores."""
    better_upper: float
    """The primal objective with the best intercept."""
    fitting_upper: float
    """The primal objective with the weights that fit the dual point in closed form, and their best intercept."""
    worst_sample: int | tuple[int, ...]
    """The sample that contributes most to the gap; (p, i) for sample i in machine p of several."""
    worst_kernel: int
    """The kernel whose weight disagrees most with the dual point."""
    regularizer_gap: float
    """The share R(rho) + R*(g) - rho'g of the gap, which vanishes when the weights fit the dual point."""
    definiteness: str = field(default="assumed", kw_only=True)
    """Whether the kernels are "proved" semidefinite, are it "by theorem", or are "assumed" to be: without it P* is
    not bounded from below, however small the gap of a stationary point may be."""

    def explain(self) -> str:
        """What is certain, and what is wrong with the point, in words."""
        lines = [str(self)]
        if self.relative_gap < -_WORTH_SAYING:
            lines.append(
                "The gap is negative, which is impossible: a kernel is indefinite or a bound was tampered with."
            )
        if self.definiteness == "assumed":
            lines.append(
                "That every kernel is positive semidefinite is assumed: the proof would have taken too long. "
                "mklref.kernels.check_psd proves it for one matrix, certify(..., rigorous=True) for all."
            )
        lines += self._repairs()
        by_intercept = self.objective - self.better_upper
        if by_intercept > max(_WORTH_SAYING * self.size, _OF_THE_GAP * self.gap):
            better = f"lowers the upper bound by {by_intercept:.3g} to {self.better_upper:.9g}"
            lines.append(f"{self._better_intercept()} {better}.")
        if _GOOD * self.size < self.gap - self.rounding < float("inf") and by_intercept <= 0.5 * self.gap:
            gain = self.better_upper - self.fitting_upper
            if max(self.regularizer_gap, gain) > 0.5 * self.gap:
                remedy = f"; the weights that fit it lower the upper bound to {self.fitting_upper:.9g}" * (gain > 0.0)
                lines.append(
                    f"Most of the gap comes from the kernel weights: that of kernel {self.worst_kernel} disagrees most "
                    f"with the dual point{remedy}. Weights and dual_coef may stem from different iterates."
                )
            else:
                lines.append(
                    f"Most of the gap comes from the samples, most of all {_samples(self.worst_sample)}: "
                    "its dual variable does not fit its score. Check the scale of C, the sign of dual_coef, and that "
                    "weights and dual_coef stem from the same iterate."
                )
        if self.rounding > _GOOD * self.size:
            lines.append(
                f"Rounding may amount to {self.rounding:.2g}, by which the bounds are wider. Evaluate kernels in "
                "float64, not in float32 or float16; certify(..., rigorous=True) encloses the errors of products, for "
                f"{NAMES}."
            )
        if self.upper == float("inf"):
            lines.append("The primal objective is not finite at this point.")
        if self.lower == -float("inf"):
            lines.append("The dual objective is not finite at this point, even after repair.")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        return _display.certificate(self)

    def _better_intercept(self) -> str:
        """Which intercept should be another one; of several machines, the one furthest from its best."""
        given, better = np.atleast_1d(self.intercept), np.atleast_1d(self.better_intercept)
        p = int(np.argmax(np.abs(given - better)))
        where = "" if isinstance(self.intercept, float) else f" of machine {p}"
        return "The intercept {}{where} is not the best: {}".format(*apart(given[p], better[p]), where=where)


def _samples(where: int | tuple[int, ...]) -> str:
    return f"sample {where}" if isinstance(where, int) else f"sample {where[1]} of machine {where[0]}"


def saved(facts: dict[str, Any], name: str, kind: type[T]) -> T:
    """A value from a file: float, int, bool, str, or tuple for a list of texts; an integer is a float as well.

    `KeyError` if it is missing, `TypeError` if it is of another type: True is not 1, and "1" neither.
    """
    value = facts[name]
    if kind is float and type(value) is int:
        value = float(value)
    if kind is tuple and isinstance(value, list | tuple) and all(isinstance(text, str) for text in value):
        value = tuple(value)
    if type(value) is not kind:
        raise TypeError(f"{name} = {str(value)[:80]} is no {'list of texts' if kind is tuple else kind.__name__}")
    return value


def saved_each(facts: dict[str, Any], name: str, kind: type[T]) -> T | tuple[T, ...]:
    """One value as `saved`, or a tuple of them from a list."""
    if not isinstance(facts[name], list | tuple):
        return saved(facts, name, kind)
    return tuple(saved({name: entry}, name, kind) for entry in facts[name])
