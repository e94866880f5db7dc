"""Small solved problems, and answers to them with one fault each: what a solver with that fault would return.

Every fault of one machine that the oracle has a name for is planted in `validation.planted`; some of these are needed
for tests of something else, and others that are as near to several names.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from makers import make_problem

from mklref import solve
from mklref.regularizers import Lp
from mklref.testing import Answer, judge, select
from validation.planted import FAULTS


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


LOSS = ("hinge", "squared_hinge", "logistic", "squared", "epsilon_insensitive")
L1, L2, L43 = Lp(1), Lp(2), Lp(4 / 3)


def fault(what):
    """One of `validation.planted`, as a function of a problem and its solution."""
    return lambda problem, *good: FAULTS[what][1](problem)


flipped, other_cost, one_step = map(fault, ("-beta, -b", "2 C", "one step, and no more"))
without_constraint = fault("nothing holds sum beta = 0")


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


def noise(problem, beta, theta, b):
    """An interior-point answer that was accepted although it is inaccurate."""
    return beta * (1 + 2e-4 * np.cos(np.arange(len(beta)))), theta, b


def random(problem, beta, theta, b):
    rng = np.random.default_rng(0)
    return problem.C * problem.y * rng.uniform(size=len(beta)), rng.uniform(size=len(theta)), b


CATALOGUE = {case.name: case for case in select()}

built = cache(lambda name: CATALOGUE[name].build()[0])  # for all tests, so that its solution is found once

CASES = (
    "hinge-l2", "hinge-l1", "squared-l2", "epsilon-insensitive-l2", "hinge-l1-no-intercept", "logistic-l2",
    "pinball-l2", "huber-l2", "hinge-l1-sample-weight", "squared-l2-no-intercept", "one-kernel", "huge-kernels",
)  # fmt: skip


def planted(what):
    """The first problem that leaves the fault room, and what a solver with it answers."""
    for name in CASES:
        problem = built(name)
        answer = FAULTS[what][1](problem)
        if answer is not None and not judge(problem, Answer(*answer), suspects=False).passed:
            return problem, answer
    raise AssertionError(f"no case leaves room for: {what}")
