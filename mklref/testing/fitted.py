"""The best weights for a dual point, where a solver returned none.

With z_m = K_m beta / g_m, functions of norm 1, every f_m = theta_m K_m beta is rho_m z_m with rho_m = theta_m g_m, so
that the best weights solve a problem in M + 1 variables,

    minimise over rho >= 0, b    sum_i c_i V(sum_m rho_m z_m(x_i) + b, y_i) + R(rho) + c_b b,

whose value at an optimal beta is P*. At p = 1 the weights are no function of the dual point; elsewhere the closed form
is one, but an error of beta costs its first power there, and its square here. Whoever finds weights needs not be
believed: what counts is their certificate. So the candidates are tried in the order of their price: weights that put
the free samples where their dual variables say, by least squares, and the problem above by a conic solver.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from mklref._typing import Array
from mklref.exceptions import SolverFailure
from mklref.formulations.mixed_norm import R
from mklref.problem import Problem
from mklref.reference import SOLVERS, Engine
from mklref.testing.weight_suspects import weights_of_the_machine

_NEGLIGIBLE = 1e-12
"""g_m relative to the largest one, below which rounding hides f_m."""


def fitting_weights(problem: Problem, beta: Array, intercept: float | None) -> Iterator[Array]:
    """Weights theta (M,) that may fit a dual point, cheap ones first.

    Parameters
    ----------
    problem : Problem
    beta : array (n,)
    intercept : float or None
        b, if it is given; else the weights fit the best one.
    """
    theta = None if problem.several else weights_of_the_machine(problem, beta)
    if theta is not None:
        yield theta
    theta = _by_cones(problem, beta, intercept)
    if theta is not None:
        yield theta


def _by_cones(problem: Problem, beta: Array, intercept: float | None) -> Array | None:
    """The problem above in units of the largest g_m and of the losses at 0; None if no solver finds a point."""
    import cvxpy as cp

    machines = [machine.problem for machine in problem.machines]
    images = [one.kernels.apply(own) for one, own in zip(machines, problem.split(beta), strict=True)]
    squares = [own @ row for own, row in zip(images, problem.split(beta), strict=True)]
    g = np.sqrt(np.maximum(np.sum(squares, axis=0), 0.0))
    unit, size = float(g.max()), sum(_at_zero(one) for one in machines)
    size = size or 0.5 * unit * unit  # the nu one-class machine has no losses at 0
    finite = all(np.isfinite(own).all() for own in images)
    if not finite or not 0.0 < unit * unit < np.inf or not 0.0 < size < np.inf:
        return None
    ratio = np.where(g > _NEGLIGIBLE * unit, unit / np.where(g > 0.0, g, 1.0), 0.0)

    u = cp.Variable(problem.n_kernels, nonneg=True)  # rho = unit u, theta = ratio u
    P = len(machines)
    b = cp.Variable(P) if intercept is None and problem.intercept else np.zeros(P) + (intercept or 0.0)
    degree = problem.regularizer.degree
    penalty, domain = R(problem.regularizer, u if degree is not None else unit * u)
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


def _at_zero(problem: Problem) -> float:
    """The losses of the scores 0."""
    return float(problem.costs @ problem.loss.value(np.zeros(problem.n_samples), problem.y))
