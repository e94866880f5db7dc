"""Another C, intercept, loss or regulariser than that of the problem."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.optimize import brentq

import mklref
from mklref.losses import Loss
from mklref.problem import Problem
from mklref.regularizers import BlockNorm, ElasticNet, Lp, Power
from validation.planted import (
    Answer,
    ball,
    exact,
    gram,
    machine,
    other,
    plant,
    real,
)

# Another C, another intercept, another loss.


for _what, _factor in (("2 C", 2.0), ("C/2", 0.5)):

    @plant("wrong scale of C", _what)
    def _(problem: Problem, factor: float = _factor) -> Answer | None:
        return other(problem, C=factor * problem.C)


@plant("wrong scale of C", "mean of the losses: C/n")
def _(problem: Problem) -> Answer | None:
    return other(problem, C=problem.C / problem.n_samples)


@plant("wrong scale of C", "0.83 C")
def _(problem: Problem) -> Answer | None:
    return other(problem, C=0.83 * problem.C)


@plant("missing intercept constraint", "nothing holds sum beta = 0")
def _(problem: Problem) -> Answer | None:
    if not problem.intercept or problem.loss.intercept == "required":
        return None
    found = other(problem, intercept=False)
    return None if found is None else (found[0], found[1], 0.0)


@plant("superfluous intercept", "an intercept that nobody asked for")
def _(problem: Problem) -> Answer | None:
    found = None if problem.intercept else other(problem, intercept=True)
    return None if found is None else (found[0], found[1], None)


@plant("penalised intercept", "b^2/2 in the objective")
def _(problem: Problem) -> Answer | None:
    """A kernel of ones beside the others, whose weight is 1, found by alternating between weights and machine."""
    if not problem.intercept or problem.intercept_cost or not isinstance(problem.regularizer, Lp):
        return None
    K, n = gram(problem), problem.n_samples
    ones = np.ones((1, n, n))
    if problem.regularizer.p == 1.0:
        beta, theta, _ = exact(problem.replace(kernels=K + ones, intercept=False))
        return beta, theta, float(beta.sum())
    theta = problem.regularizer.weights_from_norms(np.ones(len(K)))
    both = problem.replace(kernels=np.concatenate([K, ones]), intercept=False, regularizer=Lp(1))
    for _ in range(80):
        beta, _ = machine(both, np.append(theta, 1.0))
        rho = theta * problem.kernels.norms(beta)
        if not rho.any():
            return None
        before, theta = theta, problem.regularizer.weights_from_norms(rho)
        if np.abs(theta - before).max() < 1e-12 * theta.max():
            break
    return beta, theta, float(beta.sum())


@plant("another loss", "squared hinge for hinge")
def _(problem: Problem) -> Answer | None:
    return other(problem, loss="squared_hinge") if problem.loss.name == "hinge" else None


@plant("another loss", "squared hinge without 1/2")
def _(problem: Problem) -> Answer | None:
    return other(problem, loss="squared_hinge", C=2.0 * problem.C) if problem.loss.name == "hinge" else None


@plant("another loss", "hinge for squared hinge or logistic")
def _(problem: Problem) -> Answer | None:
    return other(problem, loss="hinge") if problem.loss.name in ("squared_hinge", "logistic") else None


@plant("another loss", "least squares")
def _(problem: Problem) -> Answer | None:
    return other(problem, loss="squared") if real(problem) and problem.loss.name != "squared" else None


@plant("another loss", "absolute error for squared error")
def _(problem: Problem) -> Answer | None:
    return other(problem, loss=mklref.losses.EpsilonInsensitive(0.0)) if problem.loss.name == "squared" else None


@plant("another loss", "logistic loss with base 2")
def _(problem: Problem) -> Answer | None:
    return other(problem, C=problem.C / np.log(2.0)) if problem.loss.name == "logistic" else None


def parameter(problem: Problem, name: str, value: Callable[[float], float]) -> Answer | None:
    """The same loss with another parameter."""
    own = vars(problem.loss)
    if name not in own:
        return None
    loss: Loss = type(problem.loss)(**{**own, name: value(own[name])})
    return other(problem, loss=loss)


@plant("another parameter of the loss", "1 - tau for tau")
def _(problem: Problem) -> Answer | None:
    return parameter(problem, "tau", lambda tau: 1.0 - tau)


@plant("another parameter of the loss", "epsilon in units of the deviation")
def _(problem: Problem) -> Answer | None:
    return parameter(problem, "epsilon", lambda epsilon: epsilon * float(problem.y.std()))


@plant("another parameter of the loss", "epsilon = 0.1, the default of others")
def _(problem: Problem) -> Answer | None:
    return parameter(problem, "epsilon", lambda epsilon: 0.1)


@plant("another parameter of the loss", "epsilon = 0.12")
def _(problem: Problem) -> Answer | None:
    return parameter(problem, "epsilon", lambda epsilon: 0.12) if problem.loss.name == "epsilon_insensitive" else None


@plant("another parameter of the loss", "delta = 1.35")
def _(problem: Problem) -> Answer | None:
    return parameter(problem, "delta", lambda delta: 1.35)


# Another regulariser.


for _what, _p in (("p = 1", 1.0), ("p = 3/2", 1.5), ("p = 2", 2.0), ("uniform weights", np.inf)):

    @plant("another regularizer", _what)
    def _(problem: Problem, p: float = _p) -> Answer | None:
        return None if ball(problem) in (None, p) else other(problem, regularizer=Lp(p))


@plant("another regularizer", "q for p, q = 2p/(p + 1)")
def _(problem: Problem) -> Answer | None:
    p = ball(problem)
    return None if p is None or not 1.0 < p < np.inf else other(problem, regularizer=Lp(2.0 * p / (p + 1.0)))


@plant("another regularizer", "elastic net, for weights that are smooth")
def _(problem: Problem) -> Answer | None:
    return other(problem, regularizer=ElasticNet(0.1, "ivanov")) if ball(problem) == 1.0 else None


@plant("another regularizer", "norm that is not squared, p = 1")
def _(problem: Problem) -> Answer | None:
    return other(problem, regularizer=Power(1)) if ball(problem) == 1.0 else None


@plant("another regularizer", "norm that is not squared, p > 1")
def _(problem: Problem) -> Answer | None:
    """N in place of N^2/2 is N^2/2 on t K with t = N(rho) of its own solution: a root in t."""
    p = ball(problem)
    if p is None or not 1.0 < p < np.inf or problem.regularizer.degree != 2.0:
        return None
    own, K = problem.regularizer, gram(problem)

    def solved(log_t: float) -> Answer:
        beta, theta, b = exact(problem.replace(kernels=np.exp(log_t) * K))
        return beta, np.exp(log_t) * theta, b

    def excess(log_t: float) -> float:
        return 2.0 * own.conjugate(problem.kernels.norms(solved(log_t)[0])) - 1.0

    ends = (-8.0, 8.0)  # the dual norm falls with t
    if excess(ends[0]) < 0.0 or excess(ends[1]) > 0.0:
        return None
    return solved(brentq(excess, *ends, xtol=1e-13))


@plant("another regularizer", "block norm of the dual exponent")
def _(problem: Problem) -> Answer | None:
    return other(problem, regularizer=BlockNorm(3)) if ball(problem) == 2.0 else None
