"""Kernel machines at fixed weights, which the native solver and the papers' algorithms share.

SMO where bounds can be active, Newton's method where none are; with loops in C++ (`_core/`) and their NumPy twins.
"""

from __future__ import annotations

from typing import Any, overload

import numpy as np

from mklref._typing import Array
from mklref.certificate import repair
from mklref.machines.joint import JointMachine, JointQuadraticForms
from mklref.machines.lazy import LazyMachine
from mklref.machines.machine import Machine
from mklref.machines.newton import NewtonMachine
from mklref.machines.quadratic_forms import QuadraticForms
from mklref.machines.smo import SMOMachine
from mklref.multiclass import MulticlassProblem
from mklref.problem import Problem


@overload
def machine_for(problem: Problem, beta: Array | None = None, forms: QuadraticForms | None = None) -> Machine: ...
@overload
def machine_for(
    problem: Problem | MulticlassProblem, beta: Array | None = None, forms: Any = None
) -> Machine | JointMachine: ...
def machine_for(problem: Any, beta: Array | None = None, forms: Any = None) -> Machine | JointMachine:
    """The machine that fits the loss: SMO where bounds can be active, Newton where none are; from any beta.

    The forms are those of another machine on the same kernels that is no longer used; they are taken over.
    """
    if isinstance(problem, MulticlassProblem):
        return _joint(problem, beta, forms)
    beta = None if beta is None else _carried_over(problem, beta)
    dual = problem.loss.quadratic_dual(problem.y)
    if dual is None:
        return NewtonMachine(problem, beta, forms)
    unbounded = bool(np.all(np.isinf(dual.lower)) and np.all(np.isinf(dual.upper)))
    if unbounded and dual.absolute == 0.0:
        return NewtonMachine(problem, beta, forms)
    return (LazyMachine if problem.kernels.costly else SMOMachine)(problem, dual, beta, forms)


def _joint(problem: MulticlassProblem, rows: Array | None, forms: JointQuadraticForms | None) -> JointMachine:
    """One machine for each class or pair of classes, from the rows of any beta (P, n)."""
    parts = problem.machines
    starts = [None if rows is None else rows[p][part.samples] for p, part in enumerate(parts)]
    each = zip(parts, starts, [None] * len(parts) if forms is None else forms.parts, strict=True)
    return JointMachine(problem, [machine_for(part.problem, own, known) for part, own, known in each])


def _carried_over(problem: Problem, beta: Array) -> Array:
    """A feasible dual point from that of a relative: scaled into the box, so that 1'beta = 0 survives."""
    lower, upper = problem.loss.box(problem.y, problem.costs)
    bound = np.where(beta > 0.0, upper, -lower)
    outside = np.abs(beta) > bound
    scale = float(np.min(bound[outside] / np.abs(beta[outside]), initial=1.0))
    return repair(problem, scale * beta)[0]
