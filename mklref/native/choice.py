"""Which machine fits the loss: SMO where bounds can be active, Newton where none are."""

from __future__ import annotations

import numpy as np

from mklref._typing import Array
from mklref.certificate import repair
from mklref.exceptions import InvalidParameter
from mklref.native.box import BoxMachine
from mklref.native.machine import Machine
from mklref.native.smooth import SmoothMachine
from mklref.problem import Problem


def machine_for(problem: Problem, beta: Array | None = None) -> Machine:
    """The machine that fits the loss: SMO where bounds can be active, Newton where none are; from any beta."""
    beta = None if beta is None else _carried_over(problem, beta)
    dual = problem.loss.quadratic_dual(problem.y)
    if dual is None:
        return SmoothMachine(problem, beta)
    unbounded = bool(np.all(np.isinf(dual.lower)) and np.all(np.isinf(dual.upper)))
    if unbounded and dual.absolute == 0.0:
        return SmoothMachine(problem, beta)
    return BoxMachine(problem, dual, beta)


def _carried_over(problem: Problem, beta: Array) -> Array:
    """A feasible dual point from that of a relative: scaled into the box, so that 1'beta = 0 survives."""
    if beta.shape != (problem.n_samples,):
        raise InvalidParameter(f"start has {len(beta)} dual variables, the problem has {problem.n_samples} samples.")
    lower, upper = problem.loss.box(problem.y, problem.costs)
    bound = np.where(beta > 0.0, upper, -lower)
    outside = np.abs(beta) > bound
    scale = float(np.min(bound[outside] / np.abs(beta[outside]), initial=1.0))
    return repair(problem, scale * beta)[0]
