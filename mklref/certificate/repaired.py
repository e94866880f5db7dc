"""A feasible dual point next to a given one, up to rounding, and what was violated."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from mklref._typing import Array

if TYPE_CHECKING:
    from mklref.problem import Problem


def repair(problem: Problem, beta: Array) -> tuple[Array, list[tuple[str, float]]]:
    """Move beta into the box and onto 1'beta = c_b; return it with what was violated and by how much.

    The imbalance is spent on samples strictly inside the box, in proportion to their distance from it, and
    only where that does not suffice on all samples with room.
    """
    lower, upper = problem.loss.box(problem.y, problem.costs)
    inside = np.clip(beta, lower, upper)
    violations: list[tuple[str, float]] = []
    excess = np.abs(beta - inside)
    rounding = 8 * np.finfo(float).eps
    if np.any(excess > rounding * np.abs(inside)):
        i = int(excess.argmax())
        violations.append(
            (
                f"dual_coef[{i}] = {beta[i]:.6g} lies outside [{lower[i] + 0.0:.6g}, {upper[i] + 0.0:.6g}]",  # not -0
                float(excess[i]),
            )
        )
    if not problem.intercept:
        return inside, violations
    imbalance = float(beta.sum()) - problem.intercept_cost
    if abs(imbalance) > rounding * len(beta) * max(float(np.abs(beta).sum()), problem.intercept_cost):
        violations.append((f"dual_coef sums to {beta.sum():.6g} instead of {problem.intercept_cost:g}", abs(imbalance)))
    for _ in range(2):  # the second round removes the rounding error of the first
        inside = _spread(inside, float(inside.sum()) - problem.intercept_cost, lower, upper)
    return inside, violations


def _spread(beta: Array, imbalance: float, lower: Array, upper: Array) -> Array:
    """Subtract `imbalance` from the sum of beta without leaving the box."""
    if imbalance == 0.0:
        return beta
    unbounded = max(float(np.abs(beta).max()), abs(imbalance))
    below = np.minimum(beta - lower, unbounded)
    above = np.minimum(upper - beta, unbounded)
    room = np.minimum(below, above)
    if room.sum() < abs(imbalance):
        room = below if imbalance > 0.0 else above
    total = float(room.sum())
    if total == 0.0:  # every variable is at its bound, and the bounds sum to c_b up to rounding
        return beta
    share = min(1.0, abs(imbalance) / total)
    spread: Array = beta - np.sign(imbalance) * share * room
    return np.clip(spread, lower, upper)
