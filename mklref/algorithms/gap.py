"""Gaps without units, and the unit of those optima that are 0."""

from __future__ import annotations

import numpy as np

from mklref.certificate.intercept import best_intercept, intercept_objective
from mklref.native.machine import Machine
from mklref.regularizers import Regularizer

_LAST_BITS = 8.0 * float(np.finfo(float).eps)
"""Share of the largest target or kink by which a score may be wrong."""


def relative(gap: float, upper: float) -> float:
    """gap/|upper|, with 0/0 = 0."""
    return gap / abs(upper) if upper else np.inf * gap if gap else 0.0


def unit_at_zero(machine: Machine, regularizer: Regularizer) -> float:
    """The unit in which an optimum of 0 is judged; 0 where the optimum is not 0, however small it may be.

    - Real targets: P* = 0 exactly if the zero function with its best intercept has no loss, as for constant targets or
      a tube as wide as they spread. The unit is the loss at a score twice as large as all targets and kinks.
    - 1'beta = c_b: P* = -min R*, and R* >= 0 may vanish. The unit is R* with all of c_b on one sample.
    - Labels: P* > 0, also where a large C or large kernels make it a tiny share of the loss at 0.
    """
    problem = machine.problem
    loss, y, costs = problem.loss, problem.y, problem.costs
    if problem.intercept_cost:
        return regularizer.conjugate(problem.intercept_cost * np.sqrt(machine.images.diagonals.max(axis=1)))
    if loss.targets != "real":
        return 0.0
    nothing = np.zeros(len(y))
    reach = float(np.abs(np.vstack([y, loss.kinks(y)])).max())
    b, error = best_intercept(problem, nothing), _LAST_BITS * reach
    slopes = np.maximum(*(np.abs(loss.subgradient(nothing + b + side, y)) for side in (-error, error)))
    without_loss = intercept_objective(problem, nothing, b) <= error * float(costs @ slopes)
    return float(costs @ loss.value(nothing + 2.0 * reach, y)) if without_loss else 0.0
