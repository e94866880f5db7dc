"""An answer that is returned wrongly, and an iteration that goes wrong."""

from __future__ import annotations

from typing import Any

import numpy as np

from mklref import certify
from mklref.problem import Problem
from mklref.testing.diagnosis import CLOSE
from validation.planted import (
    Answer,
    ball,
    exact,
    gram,
    labelled,
    machine,
    on_a_sphere,
    plant,
)

# The answer is right and is returned wrongly.


@plant("other sign of the intercept", "rho of libsvm, which is -b")
def _(problem: Problem) -> Answer | None:
    beta, theta, b = exact(problem)
    return (beta, theta, -b) if problem.intercept else None


@plant("wrong intercept", "b = 0")
def _(problem: Problem) -> Answer | None:
    beta, theta, _ = exact(problem)
    return (beta, theta, 0.0) if problem.intercept else None


@plant("unsigned dual_coef", "alpha in place of y alpha")
def _(problem: Problem) -> Answer | None:
    beta, theta, b = exact(problem)
    return (problem.y * beta, theta, b) if labelled(problem) else None


@plant("negated dual_coef", "-beta, -b")
def _(problem: Problem) -> Answer | None:
    beta, theta, b = exact(problem)
    return -beta, theta, -b


@plant("scaled dual_coef", "beta/C")
def _(problem: Problem) -> Answer | None:
    beta, theta, b = exact(problem)
    return beta / problem.C, theta, b


@plant("scaled dual_coef", "beta/n")
def _(problem: Problem) -> Answer | None:
    beta, theta, b = exact(problem)
    return beta / problem.n_samples, theta, b


@plant("weights on another sphere", "weights of p > 1 summing to 1")
def _(problem: Problem) -> Answer | None:
    beta, theta, b = exact(problem)
    return (beta, theta / theta.sum(), b) if on_a_sphere(problem) and theta.any() else None


@plant("weights cleaned up", "weights below half the largest set to 0 at the end")
def _(problem: Problem) -> Answer | None:
    beta, theta, b = exact(problem)
    small = (theta > 0.0) & (theta < 0.5 * theta.max())
    return (beta, np.where(small, 0.0, theta), b) if small.any() else None


@plant("zero answer", "failure inside swallowed: weights 0")
def _(problem: Problem) -> Answer | None:
    beta, theta, b = exact(problem)
    return beta, 0.0 * theta, b


@plant("zero answer", "failure inside swallowed: dual_coef 0")
def _(problem: Problem) -> Answer | None:
    beta, theta, _ = exact(problem)
    return 0.0 * beta, theta, 0.0


@plant("malformed answer", "NaN")
def _(problem: Problem) -> Answer | None:
    beta, theta, b = exact(problem)
    return beta * np.nan, theta, b


# The iteration went wrong.


def first_weights(problem: Problem) -> Any:
    """Where an iteration over the weights starts."""
    return problem.regularizer.weights_from_norms(np.ones(problem.n_kernels))


@plant("weights of another iterate", "weights of the next step")
def _(problem: Problem) -> Answer | None:
    if ball(problem) is None:
        return None
    theta = first_weights(problem)
    beta, b = machine(problem, theta)
    rho = theta * problem.kernels.norms(beta)
    return (beta, problem.regularizer.weights_from_norms(rho), b) if rho.any() else None


@plant("weights of another iterate", "weights of the first step")
def _(problem: Problem) -> Answer | None:
    beta, _, b = exact(problem)
    return None if ball(problem) is None else (beta, first_weights(problem), b)


@plant("weights not optimal", "one step, and no more")
def _(problem: Problem) -> Answer | None:
    if ball(problem) is None:
        return None
    theta = first_weights(problem)
    beta, b = machine(problem, theta)
    return beta, theta, b


@plant("weights not optimal", "a slow run: four steps")
def _(problem: Problem) -> Answer | None:
    if ball(problem) is None:
        return None
    theta = first_weights(problem)
    for _ in range(4):
        beta, b = machine(problem, theta)
        rho = theta * problem.kernels.norms(beta)
        if not rho.any():
            return None
        theta = problem.regularizer.weights_from_norms(rho)
    beta, b = machine(problem, theta)
    return beta, theta, b


@plant("weights stuck at zero", "a weight that never comes back from 0")
def _(problem: Problem) -> Answer | None:
    if ball(problem) is None:
        return None
    out = int(np.argmax(exact(problem)[1]))
    rest = np.delete(np.arange(problem.n_kernels), out)
    beta, part, b = exact(problem.replace(kernels=gram(problem)[rest]))
    theta = np.zeros(problem.n_kernels)
    theta[rest] = part
    return beta, theta, b


@plant("machine not solved", "the solver inside stopped early")
def _(problem: Problem) -> Answer | None:
    """Coordinate ascent would end with dual variables that are not yet where they belong."""
    beta, theta, b = exact(problem)
    return (beta * (1.0 - 0.1 * np.cos(np.arange(len(beta))) ** 2), theta, b) if theta.any() else None


@plant("inaccurate", "a loose tolerance inside")
def _(problem: Problem) -> Answer | None:
    """A small gap is what makes it one; at large C the same error of beta leaves a large one."""
    beta, theta, b = exact(problem)
    wrong = 3e-5 * np.cos(np.arange(len(beta)))
    while theta.any() and certify(problem, beta * (1.0 + wrong), weights=theta, intercept=b).relative_gap > CLOSE:
        wrong *= 0.1
    return (beta * (1.0 + wrong), theta, b) if theta.any() else None


@plant("not converged", "random numbers")
def _(problem: Problem) -> Answer | None:
    rng = np.random.default_rng(0)
    lower, upper = problem.loss.box(problem.y, problem.costs)
    reach = np.minimum(np.maximum(np.abs(lower), np.abs(upper)), problem.costs * 3.0)
    return (
        rng.uniform(size=len(reach)) * np.clip(reach * rng.choice([-1.0, 1.0], len(reach)), lower, upper),
        rng.uniform(0.2, 1.0, problem.n_kernels), None,
    )  # fmt: skip
