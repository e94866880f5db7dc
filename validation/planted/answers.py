"""An answer that is returned wrongly, and an iteration that goes wrong."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any

import numpy as np

from mklref import certify
from mklref.problem import Problem
from mklref.testing.diagnosis import CLOSE
from validation.planted import Answer, ball, exact, gram, labelled, machine, on_a_sphere, plant, returned

# The answer is right and is returned wrongly.


returned(
    "other sign of the intercept",
    "rho of libsvm, which is -b",
    lambda P, beta, theta, b: (beta, theta, -b) if P.intercept else None,
)
returned("wrong intercept", "b = 0", lambda P, beta, theta, b: (beta, theta, 0.0) if P.intercept else None)
returned(
    "unsigned dual_coef",
    "alpha in place of y alpha",
    lambda P, beta, theta, b: (P.y * beta, theta, b) if labelled(P) else None,
)
returned("negated dual_coef", "-beta, -b", lambda P, beta, theta, b: (-beta, theta, -b))
returned(
    "permuted samples",
    "samples sorted by class",
    lambda P, beta, theta, b: (beta[np.argsort(P.y, kind="stable")], theta, b) if labelled(P) else None,
)
returned("scaled dual_coef", "beta/C", lambda P, beta, theta, b: (beta / P.C, theta, b))
returned("scaled dual_coef", "beta/n", lambda P, beta, theta, b: (beta / P.n_samples, theta, b))
returned(
    "weights on another sphere",
    "weights of p > 1 summing to 1",
    lambda P, beta, theta, b: (beta, theta / theta.sum(), b) if on_a_sphere(P) and theta.any() else None,
)


@plant("weights cleaned up", "weights below half the largest set to 0 at the end")
def _(problem: Problem) -> Answer | None:
    beta, theta, b = exact(problem)
    small = (theta > 0.0) & (theta < 0.5 * theta.max())
    return (beta, np.where(small, 0.0, theta), b) if small.any() else None


returned("zero answer", "failure inside swallowed: weights 0", lambda P, beta, theta, b: (beta, 0.0 * theta, b))
returned("zero answer", "failure inside swallowed: dual_coef 0", lambda P, beta, theta, b: (0.0 * beta, theta, 0.0))
returned("malformed answer", "NaN", lambda P, beta, theta, b: (beta * np.nan, theta, b))

# The iteration went wrong.


def first_weights(problem: Problem) -> Any:
    """Where an iteration over the weights starts."""
    return problem.regularizer.weights_from_norms(np.ones(problem.n_kernels))


def iterates(problem: Problem) -> Iterator[Answer]:
    """Weights with the machine at them, step by step; none without a ball, and no more where the closed form ends."""
    theta = first_weights(problem)
    while ball(problem) is not None:
        beta, b = machine(problem, theta)
        yield beta, theta, b
        rho = theta * problem.kernels.norms(beta)
        if not rho.any():
            return
        theta = problem.regularizer.weights_from_norms(rho)


@plant("weights of another iterate", "weights of the next step")
def _(problem: Problem) -> Answer | None:
    steps = list(islice(iterates(problem), 2))
    return (steps[0][0], steps[1][1], steps[0][2]) if len(steps) > 1 else None


returned(
    "weights of another iterate",
    "weights of the first step",
    lambda P, beta, theta, b: None if ball(P) is None else (beta, first_weights(P), b),
)
plant("weights not optimal", "one step, and no more")(lambda problem: next(iterates(problem), None))
plant("weights not optimal", "a slow run: four steps")(lambda problem: next(islice(iterates(problem), 4, None), None))


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
