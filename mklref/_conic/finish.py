"""From a recovered point to the fields of a solution: certified as it is, and polished, for each kind of problem."""

from __future__ import annotations

from functools import singledispatch
from typing import Any

import numpy as np

from mklref._conic.point import Point, SignedPoint
from mklref._conic.polish import polish
from mklref.certificate import certify
from mklref.multiclass import MulticlassProblem
from mklref.problem import Problem
from mklref.regularizers import Fixed
from mklref.signed import SignedProblem


@singledispatch
def certified(problem: Any, point: Any) -> dict[str, Any]:
    """The point and the certificate at exactly it, by the names of a solution's fields."""
    raise NotImplementedError(type(problem))


@singledispatch
def polished(problem: Any, point: Any) -> dict[str, Any]:
    """The best refinement of the point, or the point itself, with its certificate."""
    raise NotImplementedError(type(problem))


@certified.register
def _(problem: Problem, point: Point) -> dict[str, Any]:
    certificate = certify(problem, point.dual_coef, weights=point.weights, intercept=point.intercept)
    return {**point._asdict(), "certificate": certificate}


@polished.register
def _(problem: Problem, point: Point) -> dict[str, Any]:
    best, certificate = polish(problem, point)
    return {**best._asdict(), "certificate": certificate}


@certified.register
def _(problem: MulticlassProblem, point: Point) -> dict[str, Any]:
    return {**point._asdict(), "certificate": problem.certify(*point)}


@polished.register
def _(problem: MulticlassProblem, point: Point) -> dict[str, Any]:
    """Each machine for the shared weights."""
    beta, b = point.dual_coef.copy(), np.array(point.intercept)
    for p, machine in enumerate(problem.machines):
        alone = machine.problem.replace(regularizer=Fixed(point.weights))
        own = Point(point.dual_coef[p, machine.samples], point.weights, float(b[p]))
        best, _ = polish(alone, own)
        beta[p, machine.samples], b[p] = best.dual_coef, best.intercept
    return _better(certified(problem, point), certified(problem, Point(beta, point.weights, b)))


@certified.register
def _(problem: SignedProblem, point: SignedPoint) -> dict[str, Any]:
    """Z is what the multiplier exceeds beta beta' by."""
    beta, mu, b, moments = point
    slack = moments - np.outer(beta, beta)
    bounds = problem.certify(beta, mu, b, slack)
    return {"dual_coef": beta, "weights": mu, "intercept": b, "slack": slack, "certificate": bounds}


@polished.register
def _(problem: SignedProblem, point: SignedPoint) -> dict[str, Any]:
    """The machine of the combined kernel."""
    kernel, one = problem.kernels.combine(point.weights), np.ones(1)
    machine = problem.machine.replace(kernels=[kernel], regularizer=Fixed(one))
    best, _ = polish(machine, Point(point.dual_coef, one, point.intercept))
    moved = point._replace(dual_coef=best.dual_coef, intercept=best.intercept)
    return _better(certified(problem, point), certified(problem, moved))


def _better(*facts: dict[str, Any]) -> dict[str, Any]:
    return min(facts, key=lambda fact: fact["certificate"].gap)
