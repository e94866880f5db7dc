"""What a point says about the problem that it solves, by the equations that hold at an optimum of that problem.

    t_i = V*'(-beta_i/c_i)             for samples strictly inside their box, whose scores are known from beta
    c_i = -beta_i / V'(t_i)            for samples off the kinks, whose costs are known from their scores

with t = sum_m theta_m K_m beta + b: the factor of the kernels, a ridge, the cost of each sample.

Where a solver returned no weights, the best ones for its dual point stand in (`fitting_weights`). With z_m = K_m beta /
g_m, functions of norm 1, every f_m = theta_m K_m beta is rho_m z_m with rho_m = theta_m g_m, so that the best weights
solve a problem in M + 1 variables,

    minimise over rho >= 0, b    sum_i c_i V(sum_m rho_m z_m(x_i) + b, y_i) + R(rho) + c_b b,

whose value at an optimal beta is P*. At p = 1 the weights are no function of the dual point; elsewhere the closed form
is one, but an error of beta costs its first power there, and its square here. Whoever finds weights needs not be
believed: what counts is their certificate. So the candidates are tried in the order of their price: weights that put
the free samples where their dual variables say, by least squares, and the problem above by a conic solver.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from mklref._conic.cones import cp
from mklref._typing import Array
from mklref.exceptions import NotApplicable, SolverFailure
from mklref.formulations.mixed_norm import R
from mklref.losses import EpsilonInsensitive
from mklref.problem import Problem
from mklref.reference import SOLVERS, Engine
from mklref.testing.faults import Point
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
    if len(t) < max(len(design), 1) or not design or not all(np.isfinite(part).all() for part in (goal, *design)):
        return None
    return np.asarray(np.linalg.lstsq(np.stack(design, axis=1), goal, rcond=None)[0])


_NEGLIGIBLE = 1e-12
"""g_m relative to the largest one, below which rounding hides f_m."""


def fitting_weights(problem: Problem, beta: Array, intercept: Any) -> Iterator[Array]:
    """Weights theta (M,) that may fit a dual point, and its intercept or else the best one; cheap ones first."""
    theta = None if problem.several else weights_of_the_machine(problem, beta)
    if theta is not None:
        yield theta
    yield np.zeros(problem.n_kernels)  # f = b, in whose units of nothing no cone solver is accurate
    theta = _by_cones(problem, beta, intercept)
    if theta is not None:
        yield theta


def _by_cones(problem: Problem, beta: Array, intercept: Any) -> Array | None:
    """The problem above in units of the largest g_m and of the losses at 0; None without a point, or without R."""
    machines = [machine.problem for machine in problem.machines]
    images = [one.kernels.apply(own) for one, own in zip(machines, problem.split(beta), strict=True)]
    squares = [own @ row for own, row in zip(images, problem.split(beta), strict=True)]
    g = np.sqrt(np.maximum(np.sum(squares, axis=0), 0.0))
    unit = float(g.max())
    size = sum(float(one.costs @ one.loss.value(np.zeros(one.n_samples), one.y)) for one in machines)
    size = size or 0.5 * unit * unit  # the nu one-class machine has no losses at 0
    finite = all(np.isfinite(own).all() for own in images)
    if not finite or not 0.0 < unit * unit < np.inf or not 0.0 < size < np.inf:
        return None
    ratio = np.where(g > _NEGLIGIBLE * unit, unit / np.where(g > 0.0, g, 1.0), 0.0)

    u = cp.Variable(problem.n_kernels, nonneg=True)  # rho = unit u, theta = ratio u
    P = len(machines)
    given = np.zeros(P) if intercept is None else np.zeros(P) + intercept
    b = cp.Variable(P) if intercept is None and problem.intercept else given
    degree = problem.regularizer.degree
    try:
        penalty, domain = R(problem.regularizer, u if degree is not None else unit * u)
    except NotApplicable:  # a class of somebody's own without an expression
        return None
    losses = penalty * ((1.0 if degree is None else unit**degree) / size)
    for one, own, b_p in zip(machines, images, b, strict=True):
        t = cp.Variable(one.n_samples)
        domain = [*domain, t == (ratio[:, None] * own).T @ u + b_p]
        losses += (one.costs / size) @ one.loss.atom(t, one.y) + (one.intercept_cost / size) * b_p
    program = cp.Problem(cp.Minimize(losses), domain)
    for solver in SOLVERS:
        try:
            Engine(solver)(program)
        except SolverFailure:
            continue
        return ratio * np.maximum(u.value, 0.0) if np.isfinite(u.value).all() else None
    return None
