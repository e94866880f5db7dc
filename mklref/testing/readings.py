"""What a reading of an answer is: a point and a problem for which it may be optimal."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from mklref._typing import Array
from mklref.exceptions import InvalidInput
from mklref.problem import Problem


class Point(NamedTuple):
    """Arrays of the right shape; None means the best for the rest."""

    dual_coef: Array
    weights: Array | None
    intercept: float | None


class Reading(NamedTuple):
    """A point and a problem for which it may be optimal, and what that would mean."""

    fault: str
    text: str
    problem: Problem
    point: Point
    exact: bool = False
    """Whether the intercept is the point of it: the best one must not take its place."""
    adapted: bool = False
    """Whether a number was fitted that nobody could have meant: readings without one are simpler."""


Suspect = Callable[[Problem, Point], Iterator[Reading]]


def restated(
    fault: str, text: str, problem: Problem, point: Point, *, adapted: bool = False, **changes: object
) -> Iterator[Reading]:
    """The point as an answer to a changed problem, if there is such a problem."""
    try:
        changed = problem.replace(**changes)
    except InvalidInput:
        return
    moved = point if changed.intercept else point._replace(intercept=None)
    yield Reading(fault, text, changed, moved, adapted=adapted)


def meant(value: float, named: Mapping[str, float], digits: int = 3, within: float = 2e-3) -> dict[str, float]:
    """What somebody could have meant by a number that was fitted: named values close to it, or a short decimal.

    A fit adapts to whatever it sees, and so has a slow run its best exponent, such as 1.00221. Nobody asks for that
    one; rounded to 1.00 it explains nothing, which its certificate shows.
    """
    if not np.isfinite(value):
        return {}
    short = float(f"{value:.{digits}g}")
    shorts = {} if short in named.values() else {f"{short:g}": short}
    return {text: number for text, number in {**named, **shorts}.items() if abs(number - value) <= within * abs(value)}


def sensible(value: float) -> tuple[float, bool]:
    """A number that was fitted, or the short decimal next to it, and whether nobody could have meant it."""
    short = float(f"{value:.2g}")
    near = abs(value - short) <= 1e-4 * abs(value)
    return (short, False) if near else (float(value), True)


def some(values: Any) -> str:
    """The first numbers, for a message."""
    shown = ", ".join(f"{value:.4g}" for value in values[:6])
    return shown + (", ..." if len(values) > 6 else "")
