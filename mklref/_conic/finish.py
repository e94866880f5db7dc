"""From a recovered point to the fields of a solution: certified as it is, and polished."""

from __future__ import annotations

from typing import Any

import numpy as np

from mklref._conic.point import Point, SignedPoint
from mklref._conic.polish import polish
from mklref.certificate import certify
from mklref.problem import Problem
from mklref.regularizers import Fixed


def certified(problem: Any, point: Any) -> dict[str, Any]:
    """The point and the certificate at exactly it, by the names of a solution's fields."""
    if problem.signed:
        return _certified_signed(problem, point)
    certificate = certify(problem, point.dual_coef, weights=point.weights, intercept=point.intercept)
    return {**point._asdict(), "certificate": certificate}


def polished(problem: Any, point: Any) -> dict[str, Any]:
    """The best refinement of the point, or the point itself, with its certificate."""
    if not (problem.signed or problem.several):
        best, certificate = polish(problem, point)
        return {**best._asdict(), "certificate": certificate}
    moved = _polished_signed(problem, point) if problem.signed else _each_polished(problem, point)
    return min((certified(problem, point), certified(problem, moved)), key=lambda facts: facts["certificate"].gap)


def _each_polished(problem: Problem, point: Point) -> Point:
    """Each machine for the shared weights."""
    betas, b = problem.split(point.dual_coef), np.array(point.intercept)
    for p, machine in enumerate(problem.machines):
        alone = machine.problem.replace(regularizer=Fixed(point.weights))
        best, _ = polish(alone, Point(betas[p], point.weights, float(b[p])))
        betas[p], b[p] = best.dual_coef, best.intercept
    return Point(problem.join(betas), point.weights, b)


def _certified_signed(problem: Any, point: SignedPoint) -> dict[str, Any]:
    """Z is what the multiplier exceeds beta beta' by."""
    beta, mu, b, moments = point
    slack = moments - np.outer(beta, beta)
    bounds = problem.certify(beta, mu, b, slack)
    return {"dual_coef": beta, "weights": mu, "intercept": b, "slack": slack, "certificate": bounds}


def _polished_signed(problem: Any, point: SignedPoint) -> SignedPoint:
    """The machine of the combined kernel."""
    machine = problem.with_kernels([problem.kernels.combine(point.weights)], Fixed(np.ones(1)))
    best, _ = polish(machine, Point(point.dual_coef, np.ones(1), point.intercept))
    return point._replace(dual_coef=best.dual_coef, intercept=best.intercept)
