"""Several binary machines that share their kernel weights, as one machine for the outer loop.

    J(theta) = sum_p J_p(theta),    dJ/dtheta_m = -1/2 q_m,    q_m = sum_p beta_p'K_m beta_p,
    d2J/dtheta2 = sum_p W_p'W_p = W'W    with the W_p one above the other                   (SimpleMKL 4.2)

The dual points beta_p lie one after the other in one vector. Machines on the same samples have the same Q and share
its rows, so that one against the rest forms each row once for all classes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mklref._typing import Array
from mklref.machines.lazy import LazyMachine
from mklref.machines.machine import Machine, Together
from mklref.machines.quadratic_forms import QuadraticForms
from mklref.multiclass import MulticlassProblem


class JointQuadraticForms:
    """The forms of all machines, with one choice of watched kernels."""

    def __init__(self, parts: Sequence[QuadraticForms]) -> None:
        self.watched, self.parts = np.ones(len(parts[0].squares), dtype=bool), tuple(parts)
        for part in self.parts:
            part.watched = self.watched


class JointMachine(Together):
    """The machines of a multiclass problem, moved together."""

    problem: MulticlassProblem
    forms: JointQuadraticForms
    machines: tuple[Machine, ...] = ()

    def __init__(self, problem: MulticlassProblem, machines: Sequence[Machine]) -> None:
        self.problem = problem
        self.machines = tuple(machines)
        self.forms = JointQuadraticForms([machine.forms for machine in self.machines])
        first = self.machines[0]
        for machine in self.machines:
            if machine.problem.kernels is first.problem.kernels:
                machine.rows, machine.ready = first.rows, first.ready
                if isinstance(machine, LazyMachine) and isinstance(first, LazyMachine):
                    machine.held = first.held

    @property
    def beta(self) -> Array:
        """The dual points of all machines, one after the other."""
        return np.concatenate([machine.beta for machine in self.machines])

    @property
    def warm(self) -> bool:
        """Whether the first weights are more than a guess."""
        return self.machines[0].warm

    @warm.setter
    def warm(self, warm: bool) -> None:
        for machine in self.machines:
            machine.warm = warm

    def begin(self, samples: Any, beta: Array, intercepts: Array) -> None:
        """`LazyMachine.begin` for every machine on kernels that are not in memory."""
        first = 0
        for machine, part, intercept in zip(self.machines, self.problem.machines, intercepts, strict=True):
            own = np.flatnonzero(np.isin(part.samples, samples))
            if isinstance(machine, LazyMachine):
                machine.begin(own, beta[first : first + len(own)], intercept)
            first += len(own)

    def solve(self, gap: float, enough: float = np.inf) -> None:
        """Solve every machine to its share of this duality gap, or until their J are seen to be above `enough`.

        The J of the others is not negative, as the intercepts of a joint problem have no cost.
        """
        for machine in self.machines:
            machine.solve(gap / len(self.machines), enough)
            enough -= machine.value()

    def value(self) -> float:
        return sum(machine.value() for machine in self.machines)

    def hessian_root(self, kernels: Any) -> Array:
        return np.vstack([machine.hessian_root(kernels) for machine in self.machines])

    def move(self, weights: Array) -> None:
        for machine in self.machines:
            machine.move(weights)

    def set_dual(self, beta: Array) -> None:
        for machine, own in zip(self.machines, self.split(beta), strict=True):
            machine.set_dual(own)

    def scores(self, solved: bool = False) -> tuple[Array, Array, float]:
        """Scores without intercepts, one machine after the other, the best intercepts (P,), and all losses there."""
        scores, intercepts, losses = zip(*(machine.scores(solved) for machine in self.machines), strict=True)
        return np.concatenate(scores), np.array(intercepts), sum(losses)
