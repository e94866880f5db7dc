"""From a recovered point to the fields of a solution: certified as it is, and polished."""

from __future__ import annotations

from typing import Any

import numpy as np

from mklref._conic.point import SignedPoint
from mklref._conic.polish import polish
from mklref.certificate import certify
from mklref.problem import Point
from mklref.regularizers import Fixed


def certified(problem: Any, point: Any) -> dict[str, Any]:
    """The point and the certificate at exactly it, by the names of a solution's fields."""
    if problem.signed:
        return _certified_signed(problem, point)
    certificate = certify(problem, point.dual_coef, weights=point.weights, intercept=point.intercept)
    return {**point._asdict(), "certificate": certificate}


def polished(problem: Any, point: Any) -> dict[str, Any]:
    """The best refinement of the point, or the point itself, with its certificate."""
    if problem.signed:
        moved = certified(problem, _polished_signed(problem, point))
        return min((certified(problem, point), moved), key=lambda facts: facts["certificate"].gap)
    best, certificate = polish(problem, point)
    return {**best._asdict(), "certificate": certificate}


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
