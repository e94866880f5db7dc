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
from mklref.kernels import ArrayStack
from mklref.problem import Problem
from mklref.regularizers import Fixed, Lp

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


def returned(name: str, what: str, change: Callable[[Problem, Any, Any, Any], Answer | None]) -> None:
    """Enter the fault that changes the healthy answer: `change` of the problem, beta, theta and b."""
    plant(name, what)(lambda problem: change(problem, *exact(problem)))


def restated(name: str, what: str, changes: Callable[[Problem], dict[str, Any] | None]) -> None:
    """Enter the fault that answers another problem: what is replaced, or None where there is no room for it."""

    def fault(problem: Problem) -> Answer | None:
        changed = changes(problem)
        return None if changed is None else other(problem, **changed)

    plant(name, what)(fault)


@cache
def exact(problem: Problem) -> Answer:
    """The answer of a healthy solver; it ends by its gap or by counted steps, never by a clock."""
    found = mklref.solve(problem, tol=1e-10, max_iter=60, polish=True)
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


def unchecked(kernels: Any) -> dict[str, Any]:
    """Other kernels, (M, n, n), as they are."""
    return {"kernels": ArrayStack.trusted(list(kernels))}


def labelled(problem: Problem) -> bool:
    """Labels -1 and 1."""
    return bool(problem.loss.targets == "labels")


def real(problem: Problem) -> bool:
    """Real targets."""
    return bool(problem.loss.targets == "real")


def on_a_sphere(problem: Problem) -> bool:
    """Weights in an lp ball, p > 1, of several kernels."""
    return isinstance(problem.regularizer, Lp) and problem.regularizer.p > 1.0 and problem.n_kernels > 1


def ball(problem: Problem) -> float | None:
    """p of an lp ball with more than one kernel."""
    own = problem.regularizer
    return float(own.p) if isinstance(own, Lp) and problem.n_kernels > 1 else None


from validation.planted import answers, data, statements  # noqa: E402, F401  (each one enters its faults)
