"""What a reading of an answer is: a point and a problem for which it may be optimal."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

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


Suspect = Callable[[Problem, Point], Iterator[Reading]]


def restated(fault: str, text: str, problem: Problem, point: Point, **changes: object) -> Iterator[Reading]:
    """The point as an answer to a changed problem, if there is such a problem."""
    try:
        changed = problem.replace(**changes)
    except InvalidInput:
        return
    yield Reading(fault, text, changed, point if changed.intercept else point._replace(intercept=None))


def some(values: Any) -> str:
    """The first numbers, for a message."""
    shown = ", ".join(f"{value:.4g}" for value in values[:6])
    return shown + (", ..." if len(values) > 6 else "")
