"""Gaps that are the same in every unit of C, kernels and targets, and the unit of those optima that are 0.

`Bounds.relative_gap` is absolute below 1: a point whose objective is 1e-8 has a relative gap of at most 1e-8 there,
whoever computed it. What asks whether an answer is right divides by |upper| alone.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from mklref.certificate.intercept import best_intercept, intercept_objective
from mklref.certificate.products import matrices
from mklref.certificate.verdict import Bounds

if TYPE_CHECKING:
    from mklref.problem import Problem

_LAST_BITS = 8.0 * float(np.finfo(float).eps)
"""Share of the largest target or kink by which a score may be wrong."""
_ROUNDING = 1e-9
"""Share of the unit of a one-class machine below which its optimum counts as 0."""


def relative(gap: float, size: float) -> float:
    """gap/|size|, with 0/0 = 0; infinite where the gap is."""
    if gap == 0.0:
        return 0.0
    return gap / abs(size) if math.isfinite(gap) and size else math.copysign(math.inf, gap)


def gap_without_units(bounds: Bounds, unit: float) -> float:
    """(upper - lower) / max(|upper|, unit)."""
    return relative(bounds.gap, max(abs(bounds.upper), unit))


def tolerated_at_zero(problem: Problem) -> float:
    """What gaps are compared with where P* = 0: the unit, and of that of a one-class machine a billionth."""
    return (_ROUNDING if problem.intercept_cost else 1.0) * unit_at_zero(problem)


def unit_at_zero(problem: Problem) -> float:
    """The unit of an optimum that is 0, and 0 where it is not, however small it may be.

    - Real targets: P* is at most the objective of the zero function with its best intercept, and R > 0 elsewhere, so
      that P* = 0 exactly if that function has no loss: constant targets, or a tube as wide as they spread. The unit is
      the loss at a score twice as large as all targets and kinks.
    - 1'beta = c_b: P* = -min R*, and R* >= 0 may vanish. The unit is R* with all of c_b on one sample.
    - Labels: P* > 0, also where a large C or large kernels make it a tiny share of the loss at 0.
    """
    loss, y, costs = problem.loss, problem.y, problem.costs
    if problem.intercept_cost:
        diagonals = np.array([np.diagonal(matrix).max() for matrix in matrices(problem.kernels)], dtype=float)
        norms = problem.intercept_cost * np.sqrt(np.maximum(diagonals, 0.0))
        return _finite(problem.regularizer.conjugate(norms))
    if loss.targets != "real":
        return 0.0
    nothing = np.zeros(len(y))
    reach = float(np.abs(np.vstack([y, loss.kinks(y)])).max())
    b, error = best_intercept(problem, nothing), _LAST_BITS * reach
    slopes = np.maximum(*(np.abs(loss.subgradient(nothing + b + side, y)) for side in (-error, error)))
    without_loss = intercept_objective(problem, nothing, b) <= error * float(costs @ slopes)
    return _finite(float(costs @ loss.value(nothing + 2.0 * reach, y))) if without_loss else 0.0


def _finite(unit: float) -> float:
    """No unit rather than one that excuses everything."""
    return unit if math.isfinite(unit) else 0.0
