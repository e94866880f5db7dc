r"""The same problem at unit cost, which conic solvers find much easier.

For a regulariser of degree d, R(t rho) = t^d R(rho), substitute f = sigma f' with sigma = C^{1/d}:

    P(K, C) = C P(sigma^2 K, 1)

where the costs on the right are the sample weights. A point of the scaled problem goes back by

    beta = C beta',     theta = (sigma^2 / C) theta',     b = b',     objective = C objective'.

Measured on breast cancer (13 kernels of unit trace, n = 150, C = 100): SCS needs 0.4 s instead of 80 s, Clarabel
and ECOS reach full accuracy instead of stopping short of it. Problems whose regulariser has no degree (the elastic
net as a penalty), and the nu one-class machine, whose intercept has a cost of its own, stay as they are.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from mklref._typing import Array
from mklref.formulations.point import Point


@dataclass(frozen=True)
class Scaling:
    """Divides the costs by `cost` and multiplies the factors by `factor`."""

    cost: float = 1.0
    factor: float = 1.0

    def costs(self, costs: Array) -> Array:
        """c / C."""
        return costs / self.cost

    def restore(self, point: Point) -> Point:
        """The point of the original problem."""
        return Point(self.cost * point.dual_coef, self.factor**2 / self.cost * point.weights, point.intercept)


def unit_cost(problem: Any) -> Scaling:
    """The scaling that takes C to 1, or none where the problem does not allow it."""
    degree = problem.regularizer.degree
    if degree is None or problem.intercept_cost:
        return Scaling()
    return Scaling(problem.C, problem.C ** (1.0 / degree))
