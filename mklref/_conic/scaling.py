r"""The same problem with costs and kernels of comparable size, which conic solvers find much easier.

For a regulariser of degree d, R(t rho) = t^d R(rho), substitute f = sigma f' with sigma = kappa^{1/d}:

    P(K, C) = kappa P(sigma^2 K, C/kappa)        for every kappa > 0

A point of the scaled problem goes back by

    beta = kappa beta',     theta = (sigma^2 / kappa) theta',     b = b',     objective = kappa objective'.

With k the mean diagonal entry of the kernels, kappa = C if C k <= 1, which makes the costs 1, and else sqrt(C/k),
which at d = 2 makes costs and kernels equal in size. Measured on breast cancer (13 kernels of unit trace, n = 150,
C = 100): SCS needs 0.4 s instead of 80 s, Clarabel and ECOS reach full accuracy instead of stopping short of it.
Problems whose regulariser has no degree (the elastic net as a penalty), and the nu one-class machine, whose intercept
has a cost of its own, stay as they are.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TypeVar

from mklref._conic.point import SignedPoint
from mklref._typing import Array
from mklref.problem import Point, Problem

P = TypeVar("P", Point, SignedPoint)


@dataclass(frozen=True)
class Scaling:
    """Divides the costs by `cost` and multiplies the factors by `factor`."""

    cost: float = 1.0
    factor: float = 1.0

    def costs(self, costs: Array) -> Array:
        """c / C."""
        return costs / self.cost

    def restore(self, point: P) -> P:
        """The point of the original problem."""
        weights = self.factor**2 / self.cost * point.weights
        return point._replace(dual_coef=self.cost * point.dual_coef, weights=weights)


def balanced(problem: Problem) -> Scaling:
    """The scaling for this C and these kernels, or none where the problem does not allow it."""
    if problem.signed:  # the trace fixes the scale of the kernel
        return Scaling()
    degree = problem.regularizer.degree
    if degree is None or problem.intercept_cost:
        return Scaling()
    diagonal = float(problem.kernels.traces().mean()) / problem.n_samples
    cost = problem.C / math.sqrt(max(1.0, problem.C * diagonal))
    return Scaling(cost, cost ** (1.0 / degree))
