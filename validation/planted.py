"""Faults that real solvers have, each planted in a healthy one: what `validation.confusion` and tests run.

A fault is a function of a problem that returns what a solver with it returns, or None where the problem leaves it no
room (sample weights that are ignored where there are none). Apart from the fault the answers are exact: the native
solver finds them at 1e-10, so that nothing else is wrong with them.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

import mklref
from mklref.exceptions import MKLError
from mklref.kernels import ArrayStack, normalize
from mklref.losses import Loss
from mklref.problem import Problem
from mklref.regularizers import BlockNorm, ElasticNet, Fixed, Lp, Power

Answer = tuple[Any, Any, Any]
Fault = Callable[[Problem], "Answer | None"]

FAULTS: dict[str, tuple[str, Fault]] = {}
"""What is done wrong: the name that the oracle has for it, and the solver."""


def plant(name: str, what: str) -> Callable[[Fault], Fault]:
    """Enter a fault under the name that the oracle has for it."""

    def enter(fault: Fault) -> Fault:
        FAULTS[what] = name, fault
        return fault

    return enter


@cache
def exact(problem: Problem) -> Answer:
    """The answer of a healthy solver."""
    found = mklref.solve(problem, tol=1e-10, max_time=5.0)
    return found.dual_coef, found.weights, found.intercept


def machine(problem: Problem, theta: Any) -> tuple[Any, float]:
    """beta and b of the machine at fixed weights."""
    beta, _, b = exact(problem.replace(regularizer=Fixed(theta)))
    return beta, b


def other(problem: Problem, **changes: Any) -> Answer | None:
    """The answer to another problem, if there is such a problem."""
    try:
        return exact(problem.replace(**changes))
    except MKLError:
        return None


def gram(problem: Problem) -> Any:
    """The kernels, (M, n, n), in double precision."""
    return np.array(problem.kernels.dense(), dtype=float)


def scaled(problem: Problem, factor: float) -> Answer | None:
    """All kernels times a factor."""
    return other(problem, kernels=ArrayStack.trusted(list(factor * gram(problem))))


def labelled(problem: Problem) -> bool:
    """Labels -1 and 1."""
    return bool(problem.loss.targets == "labels")


def real(problem: Problem) -> bool:
    """Real targets."""
    return bool(problem.loss.targets == "real")


def on_a_sphere(problem: Problem) -> bool:
    """Weights in an lp ball, p > 1, of several kernels."""
    return isinstance(problem.regularizer, Lp) and problem.regularizer.p > 1.0 and problem.n_kernels > 1


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
        rho = theta * np.sqrt(problem.kernels.quadratic(beta))
        if not rho.any():
            return None
        theta = problem.regularizer.weights_from_norms(rho)
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


def ball(problem: Problem) -> float | None:
    """p of an lp ball with more than one kernel."""
    own = problem.regularizer
    return float(own.p) if isinstance(own, Lp) and problem.n_kernels > 1 else None


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

    def excess(log_t: float) -> tuple[float, Answer]:
        beta, theta, b = exact(problem.replace(kernels=np.exp(log_t) * K))
        return 2.0 * own.conjugate(np.sqrt(problem.kernels.quadratic(beta))) - 1.0, (
            beta, np.exp(log_t) * theta, b,
        )  # fmt: skip

    low, high = -8.0, 8.0  # the dual norm falls with t
    if excess(low)[0] < 0.0 or excess(high)[0] > 0.0:
        return None
    for _ in range(60):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if excess(middle)[0] > 0.0 else (low, middle)
    return excess(middle)[1]


@plant("another regularizer", "block norm of the dual exponent")
def _(problem: Problem) -> Answer | None:
    return other(problem, regularizer=BlockNorm(3)) if ball(problem) == 2.0 else None


# Other kernels.


for _what, _scale in (
    ("2 K: a missing 1/2", lambda P: 2.0),
    ("K/2", lambda P: 0.5),
    ("K/n", lambda P: 1.0 / P.n_samples),
    ("K over the trace of the sum", lambda P: 1.0 / float(P.kernels.traces().sum() or 1.0)),
    ("1.7 K", lambda P: 1.7),
):

    @plant("scaled kernels", _what)
    def _(problem: Problem, scale: Callable[[Problem], float] = _scale) -> Answer | None:
        return scaled(problem, scale(problem))


for _method in ("trace", "spherical", "multiplicative"):

    @plant("normalised kernels", f"{_method} normalisation inside")
    def _(problem: Problem, method: Any = _method) -> Answer | None:
        try:
            kernels = normalize(ArrayStack.trusted(list(gram(problem))), method)
        except MKLError:
            return None
        return other(problem, kernels=ArrayStack.trusted(list(np.array(kernels.dense()))))


@plant("centred kernels", "kernels centred inside")
def _(problem: Problem) -> Answer | None:
    K = gram(problem)
    H = np.eye(problem.n_samples) - 1.0 / problem.n_samples
    centred = H @ K @ H
    return other(problem, kernels=ArrayStack.trusted(list(0.5 * (centred + centred.transpose(0, 2, 1)))))


@plant("ridge on the kernels", "1e-3 added to the diagonals")
def _(problem: Problem) -> Answer | None:
    return other(problem, kernels=ArrayStack.trusted(list(gram(problem) + 1e-3 * np.eye(problem.n_samples))))


@plant("ridge on the kernels", "1 % of the mean diagonal added")
def _(problem: Problem) -> Answer | None:
    size = 0.01 * problem.kernels.traces() / problem.n_samples
    return other(problem, kernels=gram(problem) + size[:, None, None] * np.eye(problem.n_samples))


# Other targets, samples and costs.


@plant("centred targets", "mean of y subtracted, and not added")
def _(problem: Problem) -> Answer | None:
    return other(problem, y=problem.y - problem.y.mean()) if real(problem) else None


@plant("standardised targets", "y over its deviation")
def _(problem: Problem) -> Answer | None:
    deviation = float(problem.y.std())
    return other(problem, y=(problem.y - problem.y.mean()) / deviation) if real(problem) and deviation else None


@plant("labels 0 and 1", "labels 0 and 1 in y f(x)")
def _(problem: Problem) -> Answer | None:
    """The loss of the samples of class 0 is constant."""
    if not labelled(problem) or problem.intercept:
        return None
    return other(problem, sample_weight=np.where(problem.y > 0.0, problem.costs / problem.C, 1e-12))


@plant("relabelled samples", "mask error: two labels flipped")
def _(problem: Problem) -> Answer | None:
    flipped = problem.y.copy()
    flipped[[1, -1]] *= -1.0
    return other(problem, y=flipped) if labelled(problem) and problem.n_samples > 8 else None


@plant("dropped samples", "the last samples never read")
def _(problem: Problem) -> Answer | None:
    n = problem.n_samples
    kept = np.arange(n - max(1, n // 8))
    weight = None if problem.sample_weight is None else problem.sample_weight[kept]
    kernels = gram(problem)[:, kept][:, :, kept]
    found = other(problem, kernels=kernels, y=problem.y[kept], sample_weight=weight)
    return None if found is None else (np.append(found[0], np.zeros(n - len(kept))), found[1], found[2])


@plant("duplicated samples", "three samples read twice")
def _(problem: Problem) -> Answer | None:
    weight = problem.costs / problem.C
    weight[:3] *= 2.0
    return other(problem, sample_weight=weight) if problem.n_samples > 6 else None


@plant("class weights", "balanced class weights")
def _(problem: Problem) -> Answer | None:
    if not labelled(problem):
        return None
    sizes = np.array([np.mean(problem.y == label) for label in problem.y])
    return other(problem, sample_weight=0.5 / sizes * problem.costs / problem.C)


@plant("class weights", "costs 1 and 3 of the classes")
def _(problem: Problem) -> Answer | None:
    weight = np.where(problem.y > 0.0, 3.0, 1.0) * problem.costs / problem.C
    return other(problem, sample_weight=weight) if labelled(problem) else None


@plant("sample weights misused", "sample weights ignored")
def _(problem: Problem) -> Answer | None:
    return None if problem.sample_weight is None else other(problem, sample_weight=None)


@plant("sample weights misused", "sample weights used twice")
def _(problem: Problem) -> Answer | None:
    return None if problem.sample_weight is None else other(problem, sample_weight=problem.sample_weight**2)


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
    rho = theta * np.sqrt(problem.kernels.quadratic(beta))
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
        rho = theta * np.sqrt(problem.kernels.quadratic(beta))
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
    beta, theta, b = exact(problem)
    return (beta * (1.0 + 3e-5 * np.cos(np.arange(len(beta)))), theta, b) if theta.any() else None


@plant("not converged", "random numbers")
def _(problem: Problem) -> Answer | None:
    rng = np.random.default_rng(0)
    lower, upper = problem.loss.box(problem.y, problem.costs)
    reach = np.minimum(np.maximum(np.abs(lower), np.abs(upper)), problem.costs * 3.0)
    return (
        rng.uniform(size=len(reach)) * np.clip(reach * rng.choice([-1.0, 1.0], len(reach)), lower, upper),
        rng.uniform(0.2, 1.0, problem.n_kernels), None,
    )  # fmt: skip
