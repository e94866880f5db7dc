"""Small solved problems, and answers to them with one fault each: what a solver with that fault would return.

Every fault that the oracle has a name for is planted in `validation.planted`; these are for tests of something else.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from makers import make_problem

from mklref import solve
from mklref.regularizers import Fixed, Lp


@cache
def problem_of(loss="hinge", regularizer=None, C=3.0, intercept=True, seed=5):
    return make_problem(
        loss=loss, regularizer=regularizer or Lp(2), C=C, intercept=intercept, seed=seed, n=24, degenerate="generic"
    )


@cache
def solved(loss="hinge", regularizer=None, C=3.0, intercept=True):
    problem = problem_of(loss, regularizer, C, intercept)
    return problem, point(problem)


def point(problem, tol=1e-9):
    solution = solve(problem, tol=tol)
    return solution.dual_coef, solution.weights, solution.intercept


def machine(problem, weights):
    """The dual variables and the intercept of the machine at fixed weights."""
    beta, _, b = point(problem.replace(regularizer=Fixed(weights)))
    return beta, b


LOSS = ("hinge", "squared_hinge", "logistic", "squared", "epsilon_insensitive")
L1, L2, L43 = Lp(1), Lp(2), Lp(4 / 3)


def flipped(problem, beta, theta, b):
    return -beta, theta, -b


def twice_C(problem, beta, theta, b):
    return point(problem.replace(C=2 * problem.C))


def without_constraint(problem, beta, theta, b):
    beta, theta, _ = point(problem.replace(intercept=False))
    return beta, theta, 0.0


def cleaned_up(problem, beta, theta, b):
    """Weights below half the largest are set to 0, the others fill the ball again."""
    theta = np.where(theta < 0.5 * theta.max(), 0.0, theta)
    return beta, theta / np.linalg.norm(theta, problem.regularizer.p), b


def weights_stuck(problem, beta, theta, b):
    """Kernel 0, which matters most, starts at zero and never comes back."""
    out = int(np.argmax(theta))
    rest = np.delete(np.arange(problem.n_kernels), out)
    beta, part, b = point(problem.replace(kernels=problem.kernels.dense()[rest]))
    theta = np.zeros(problem.n_kernels)
    theta[rest] = part
    return beta, theta, b


def one_step(problem, beta, theta, b):
    """A wrapper that ends after its first step."""
    first = np.full(problem.n_kernels, problem.n_kernels ** (-1 / problem.regularizer.p))
    beta, b = machine(problem, first)
    return beta, first, b


def noise(problem, beta, theta, b):
    """An interior-point answer that was accepted although it is inaccurate."""
    return beta * (1 + 2e-4 * np.cos(np.arange(len(beta)))), theta, b


def random(problem, beta, theta, b):
    rng = np.random.default_rng(0)
    return problem.C * problem.y * rng.uniform(size=len(beta)), rng.uniform(size=len(theta)), b
