"""Another C, intercept, loss or regulariser than that of the problem."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from scipy.optimize import brentq

from mklref.losses import LOSSES, EpsilonInsensitive, Loss
from mklref.problem import Problem
from mklref.regularizers import BlockNorm, ElasticNet, Lp, Power, Regularizer
from validation.planted import Answer, ball, exact, gram, machine, other, plant, restated

# Another C, another intercept, another loss.


restated("wrong scale of C", "2 C", lambda P: {"C": 2.0 * P.C})
restated("wrong scale of C", "C/2", lambda P: {"C": 0.5 * P.C})
restated("wrong scale of C", "mean of the losses: C/n", lambda P: {"C": P.C / P.n_samples})
restated("wrong scale of C", "0.83 C", lambda P: {"C": 0.83 * P.C})


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


REAL = [name for name, kind in LOSSES.items() if kind.targets == "real"]


def another_loss(what: str, of: Sequence[str], loss: str | Loss | None = None, factor: float = 1.0) -> None:
    """Enter a loss in place of those with these names, and a factor of C."""
    changes: dict[str, Any] = {} if loss is None else {"loss": loss}
    restated("another loss", what, lambda P: {**changes, "C": factor * P.C} if P.loss.name in of else None)


another_loss("squared hinge for hinge", ["hinge"], "squared_hinge")
another_loss("squared hinge without 1/2", ["hinge"], "squared_hinge", factor=2.0)
another_loss("hinge for squared hinge or logistic", ["squared_hinge", "logistic"], "hinge")
another_loss("least squares", [name for name in REAL if name != "squared"], "squared")
another_loss("absolute error for squared error", ["squared"], EpsilonInsensitive(0.0))
another_loss("logistic loss with base 2", ["logistic"], factor=1.0 / np.log(2.0))


def another_parameter(what: str, name: str, value: Callable[[Problem, float], float | None]) -> None:
    """Enter the same loss with another parameter of this name."""

    def changes(problem: Problem) -> dict[str, Any] | None:
        own = vars(problem.loss)
        changed = value(problem, own[name]) if name in own else None
        return None if changed is None else {"loss": type(problem.loss)(**{**own, name: changed})}

    restated("another parameter of the loss", what, changes)


another_parameter("1 - tau for tau", "tau", lambda P, tau: 1.0 - tau)
another_parameter("epsilon in units of the deviation", "epsilon", lambda P, epsilon: epsilon * float(P.y.std()))
another_parameter("epsilon = 0.1, the default of others", "epsilon", lambda P, epsilon: 0.1)
another_parameter("epsilon = 0.12", "epsilon", lambda P, _: 0.12 if P.loss.name == "epsilon_insensitive" else None)
another_parameter("delta = 1.35", "delta", lambda P, delta: 1.35)

# Another regulariser.


def another_regularizer(what: str, instead: Callable[[float], Regularizer | None]) -> None:
    """Enter another regulariser in place of an lp ball of several kernels, by its exponent."""

    def changes(problem: Problem) -> dict[str, Any] | None:
        p = ball(problem)
        regularizer = None if p is None else instead(p)
        return None if regularizer is None else {"regularizer": regularizer}

    restated("another regularizer", what, changes)


another_regularizer("p = 1", lambda p: Lp(1.0) if p != 1.0 else None)
another_regularizer("p = 3/2", lambda p: Lp(1.5) if p != 1.5 else None)
another_regularizer("p = 2", lambda p: Lp(2.0) if p != 2.0 else None)
another_regularizer("uniform weights", lambda p: Lp(np.inf) if p != np.inf else None)
another_regularizer("q for p, q = 2p/(p + 1)", lambda p: Lp(2.0 * p / (p + 1.0)) if 1.0 < p < np.inf else None)
another_regularizer(
    "elastic net, for weights that are smooth", lambda p: ElasticNet(0.1, "ivanov") if p == 1.0 else None
)
another_regularizer("norm that is not squared, p = 1", lambda p: Power(1) if p == 1.0 else None)


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


another_regularizer("block norm of the dual exponent", lambda p: BlockNorm(3) if p == 2.0 else None)
