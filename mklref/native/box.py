"""Machines whose dual is a box-constrained quadratic (hinge, epsilon-insensitive, squared hinge, ...): SMO.

J(theta) = max_beta  linear'beta - absolute |beta|_1 - 1/2 beta'(Q + diag(shift)) beta
           lower <= beta <= upper,   1'beta = c_b with an intercept
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mklref._typing import Array
from mklref.losses import QuadraticDual
from mklref.native.loops import loops
from mklref.native.machine import Machine
from mklref.problem import Problem

_MAX_STEPS = 2**62
_LOOSE = 0.02
"""The first machine is solved to this share of the spread of the gradient: its weights are a guess."""
_SHARE = 0.1
"""Share of the wanted gap that a violation of the optimality conditions, times sum |beta|, may cost."""


class BoxMachine(Machine):
    """Solved by sequential minimal optimisation from the last beta and its known gradient."""

    def __init__(self, problem: Problem, dual: QuadraticDual) -> None:
        self.linear = dual.linear
        self.absolute = dual.absolute
        self.shift = dual.curvature / problem.costs
        self.lower, self.upper = problem.costs * dual.lower, problem.costs * dual.upper
        super().__init__(problem, self._start(problem))
        self.gradient = -self.linear

    def _start(self, problem: Problem) -> Array:
        """0, or the first samples at their bounds until 1'beta = c_b."""
        if not (problem.intercept and problem.intercept_cost):
            return np.zeros(problem.n_samples)
        used = np.cumsum(self.upper)
        return np.clip(self.upper - (used - problem.intercept_cost), 0.0, self.upper)

    def move(self, weights: Array) -> None:
        """Change the weights; the gradient follows from the images."""
        super().move(weights)
        self.diagonal = weights @ self.diagonals + self.shift
        self.gradient = weights @ self.images + self.shift * self.beta - self.linear

    def solve(self, gap: float) -> None:
        """Solve to a violation of the optimality conditions, in units of the score, that costs about this gap."""
        total = float(np.abs(self.beta).sum())
        loosest = _LOOSE * float(np.ptp(self.gradient)) if not self.solves else np.inf
        steps, formed, _ = loops.smo(
            self.stack,
            self.weights,
            self.rows,
            self.ready,
            self.diagonal,
            self.lower,
            self.upper,
            self.absolute,
            self.problem.intercept,
            self.beta,
            self.gradient,
            min(loosest, _SHARE * gap / max(total, np.finfo(float).tiny)),
            _MAX_STEPS,
        )
        self.steps += steps
        self.solves += 1
        self.rows_read += formed * int(np.count_nonzero(self.weights))
        self.refresh()

    def value(self) -> float:
        """The dual objective at beta: a lower bound of J."""
        linear = self.linear @ self.beta - self.absolute * np.abs(self.beta).sum()
        return float(linear - 0.5 * self.shift @ self.beta**2 - 0.5 * self.weights @ self.squares)

    def free(self) -> tuple[Any, Array]:
        """Samples strictly between their bounds and off the kink at 0, with the diagonal shift."""
        inside = (self.beta > self.lower) & (self.beta < self.upper)
        if self.absolute > 0.0:
            inside &= self.beta != 0.0
        index = np.flatnonzero(inside)
        return index, self.shift[index]
