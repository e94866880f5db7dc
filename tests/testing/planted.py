"""Small solved problems, and answers to them with one fault each: what a solver with that fault would return."""

from __future__ import annotations

from functools import cache

import numpy as np
from makers import make_problem

from mklref import solve
from mklref.regularizers import ElasticNet, Fixed, Lp, Power


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


def negated_intercept(problem, beta, theta, b):
    return beta, theta, -b


def no_intercept(problem, beta, theta, b):
    return beta, theta, 0.0


def unsigned(problem, beta, theta, b):
    return problem.y * beta, theta, b


def flipped(problem, beta, theta, b):
    return -beta, theta, -b


def divided_by_C(problem, beta, theta, b):
    return beta / problem.C, theta, b


def twice_C(problem, beta, theta, b):
    return point(problem.replace(C=2 * problem.C))


def mean_of_losses(problem, beta, theta, b):
    return point(problem.replace(C=problem.C / problem.n_samples))


def C_of_its_own(problem, beta, theta, b):
    return point(problem.replace(C=0.83 * problem.C))


def without_constraint(problem, beta, theta, b):
    beta, theta, _ = point(problem.replace(intercept=False))
    return beta, theta, 0.0


def squared_hinge(problem, beta, theta, b):
    return point(problem.replace(loss="squared_hinge"))


def squared_hinge_without_half(problem, beta, theta, b):
    return point(problem.replace(loss="squared_hinge", C=2 * problem.C))


def hinge(problem, beta, theta, b):
    return point(problem.replace(loss="hinge"))


def squared(problem, beta, theta, b):
    return point(problem.replace(loss="squared"))


def summing_to_one(problem, beta, theta, b):
    return beta, theta / theta.sum(), b


def solved_on_the_simplex(problem, beta, theta, b):
    """Wrapper of p = 2 that normalises its weights to sum 1."""
    theta = np.full(problem.n_kernels, 1.0 / problem.n_kernels)
    for _ in range(60):
        beta, b = machine(problem, theta)
        rho = theta * problem.kernels.norms(beta)
        theta = rho ** (2 / 3)
        theta /= theta.sum()
    return beta, theta, b


def p_three_halves(problem, beta, theta, b):
    return point(problem.replace(regularizer=Lp(1.5)))


def elastic_net(problem, beta, theta, b):
    return point(problem.replace(regularizer=ElasticNet(0.3, "ivanov")))


def plain_norm(problem, beta, theta, b):
    return point(problem.replace(regularizer=Power(1)))


def three_labels(problem, beta, theta, b):
    y = problem.y.copy()
    y[[3, 8, 15]] *= -1
    return point(problem.replace(y=y))


def stale_weights(problem, beta, theta, b):
    """The first step of a wrapper, returned with the weights of the second."""
    first = np.full(problem.n_kernels, problem.n_kernels ** (-1 / problem.regularizer.p))
    beta, b = machine(problem, first)
    rho = first * problem.kernels.norms(beta)
    return beta, problem.regularizer.weights_from_norms(rho), b


def stale_dual(problem, beta, theta, b):
    """Weights of the first step with the dual variables at the end."""
    return beta, np.full(problem.n_kernels, problem.n_kernels ** (-1 / problem.regularizer.p)), b


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


def zero_weights(problem, beta, theta, b):
    return beta, 0.0 * theta, b


def noise(problem, beta, theta, b):
    """An interior-point answer that was accepted although it is inaccurate."""
    return beta * (1 + 2e-4 * np.cos(np.arange(len(beta)))), theta, b


def random(problem, beta, theta, b):
    rng = np.random.default_rng(0)
    return problem.C * problem.y * rng.uniform(size=len(beta)), rng.uniform(size=len(theta)), b


def inner_machine_stopped(problem, beta, theta, b):
    """A machine at the right weights whose solver ended after a few steps."""
    return beta * (1 + 2e-2 * np.cos(np.arange(len(beta)))), theta, b


PLANTED = [
    (negated_intercept, {}, "other sign of the intercept"),
    (no_intercept, {}, "wrong intercept"),
    (unsigned, {}, "unsigned dual_coef"),
    (flipped, {}, "negated dual_coef"),
    (flipped, {"loss": "squared"}, "negated dual_coef"),
    (divided_by_C, {}, "scaled dual_coef"),
    (twice_C, {"C": 0.3}, "wrong scale of C"),
    (twice_C, {"loss": "squared"}, "wrong scale of C"),
    (mean_of_losses, {"C": 0.3}, "wrong scale of C"),
    (mean_of_losses, {"loss": "logistic"}, "wrong scale of C"),
    (C_of_its_own, {"C": 0.3}, "wrong scale of C"),
    (without_constraint, {}, "missing intercept constraint"),
    (without_constraint, {"loss": "squared"}, "missing intercept constraint"),
    (without_constraint, {"regularizer": L1}, "missing intercept constraint"),
    (squared_hinge, {}, "another loss"),
    (squared_hinge_without_half, {}, "another loss"),
    (hinge, {"loss": "squared_hinge"}, "another loss"),
    (squared, {"loss": "epsilon_insensitive"}, "another loss"),
    (summing_to_one, {}, "weights on another sphere"),
    (solved_on_the_simplex, {}, "weights on another sphere"),
    (p_three_halves, {}, "another regularizer"),
    (elastic_net, {"regularizer": L1}, "another regularizer"),
    (plain_norm, {"regularizer": L1}, "another regularizer"),
    (three_labels, {}, "relabelled samples"),
    (stale_weights, {}, "weights of another iterate"),
    (stale_weights, {"regularizer": L43, "loss": "squared"}, "weights of another iterate"),
    (stale_dual, {}, "weights of another iterate"),
    (stale_dual, {"regularizer": L1}, "weights of another iterate"),
    (cleaned_up, {"regularizer": L43}, "weights cleaned up"),
    (cleaned_up, {"regularizer": L1, "C": 30.0}, "weights cleaned up"),
    (weights_stuck, {}, "weights stuck at zero"),
    (weights_stuck, {"regularizer": L1}, "weights stuck at zero"),
    (one_step, {}, "weights not optimal"),
    (one_step, {"regularizer": L1}, "weights not optimal"),
    (zero_weights, {}, "zero answer"),
    (inner_machine_stopped, {}, "machine not solved"),
    (noise, {}, "inaccurate"),
    (random, {}, "not converged"),
]
"""The fault, the problem that it is planted in, and the name that `assert_optimal` has for it."""
