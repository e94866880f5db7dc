"""What a point says about the problem that it solves, by the equations that hold at an optimum of that problem.

    t_i = V*'(-beta_i/c_i)             for samples strictly inside their box, whose scores are known from beta
    c_i = -beta_i / V'(t_i)            for samples off the kinks, whose costs are known from their scores

with t = sum_m theta_m K_m beta + b: the factor of the kernels, a ridge, the cost of each sample.
"""

from __future__ import annotations

import numpy as np

from mklref._typing import Array
from mklref.losses import EpsilonInsensitive
from mklref.problem import Problem
from mklref.testing.readings import Point
from mklref.testing.weight_suspects import free_samples, weights_of_the_machine

_OFF_THE_KINK = 1e-4
"""Distance of a score from a kink, relative to the larger of both and 1, from which V' is known."""


def implied_costs(problem: Problem, point: Point) -> Array | None:
    """-beta_i / V'(t_i) over c_i, (n,); NaN at kinks and where V' = 0, None without weights and an intercept."""
    scores = scores_of(problem, point)
    if scores is None:
        return None
    b = point.intercept or 0.0
    if problem.intercept and point.intercept is None:
        fitted = fitted_factors(problem, point, [], minus=scores)
        if fitted is None:
            return None
        b = float(fitted[0])
    t = scores + b
    slopes = problem.loss.subgradient(t, problem.y)
    known = np.abs(slopes) > 1e-6 * max(float(np.abs(slopes).max()), 1e-300)
    if np.isinf(problem.loss.smoothness):
        near = np.abs(t - problem.loss.kinks(problem.y)) <= _OFF_THE_KINK * np.maximum(1.0, np.abs(t))
        known &= ~near.any(axis=0)
    ratios = np.full(len(t), np.nan)
    ratios[known] = -point.dual_coef[known] / (slopes[known] * problem.costs[known])
    return ratios


def fitted_epsilon(problem: Problem, point: Point) -> float | None:
    """t_i + epsilon sign(beta_i) = y_i for every beta_i strictly between its bounds and 0: epsilon by least squares."""
    fitted = fitted_factors(
        problem.replace(loss=EpsilonInsensitive(0.0)), point, [np.sign(point.dual_coef)],
        minus=scores_of(problem, point),
    )  # fmt: skip
    return float(fitted[0]) if fitted is not None and fitted[0] >= 0.0 else None


def least_counts(problem: Problem, point: Point) -> Array:
    """How often each sample has to count at least for beta_i to be in its box, 1 or more."""
    lower, upper = problem.loss.box(problem.y, problem.costs)
    bound = np.abs(np.where(point.dual_coef > 0.0, upper, lower))
    times = np.divide(np.abs(point.dual_coef), bound, out=np.ones_like(bound), where=bound > 0.0)
    return np.asarray(np.maximum(np.ceil(times - 1e-6), 1.0))


def common(ratios: Array) -> float:
    """The value that all known ratios have, 0 if they differ or none is known."""
    known = ratios[np.isfinite(ratios)]
    if not len(known):
        return 0.0
    middle = float(np.median(known))
    return middle if np.all(np.abs(known - middle) <= 1e-2 * abs(middle)) else 0.0


def weights_of(problem: Problem, point: Point) -> Array | None:
    """The weights of the point, or those that its dual variables ask for."""
    return weights_of_the_machine(problem, point.dual_coef) if point.weights is None else point.weights


def scores_of(problem: Problem, point: Point) -> Array | None:
    """sum_m theta_m K_m beta."""
    theta = weights_of(problem, point)
    return None if theta is None else np.asarray(theta @ problem.kernels.apply(point.dual_coef))


def fitted_factors(
    problem: Problem, point: Point, columns: list[Array | None], minus: Array | None = None
) -> Array | None:
    """Least squares for t = minus + columns x + b on the free samples: x, and b at the end where it is free."""
    free, t = free_samples(problem, point.dual_coef)
    if any(column is None for column in columns):
        return None
    design = [column[free] for column in columns if column is not None]
    goal = t - (0.0 if minus is None else minus[free])
    if problem.intercept:
        design.append(np.ones(len(t)))
    if len(t) < max(len(design), 1) or not design or not np.all(np.isfinite(goal)):
        return None
    return np.asarray(np.linalg.lstsq(np.stack(design, axis=1), goal, rcond=None)[0])
