"""Bookkeeping of cutting planes on the kernel weights, for `silp` and `semi_infinite`.

For fixed theta the kernel machine maximises S(beta) - 1/2 theta'q(beta), with S(beta) the loss part of the dual and
q_m = beta'K_m beta. Its solution beta_k cuts the epigraph of J(theta): J(theta) >= S(beta_k) - 1/2 theta'q(beta_k).
The multipliers of the cuts in the master sum to 1, and S and -q are concave: so the mixture of the beta_k with these
shares is a dual point at least as good as the master's value.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from mklref._conic.model import Model, Solve, multiplier
from mklref._conic.scaling import Factors
from mklref._typing import Array
from mklref.certificate.bounds import relative, unit_of
from mklref.exceptions import SolverFailure
from mklref.losses.base import Costs
from mklref.problem import Point, Problem

TOLERANCE = 1e-8
"""Relative gap between the master and the best machine at which the loop ends."""

MAX_CUTS = 300


class Cuts:
    """The cuts found so far: S (k,), q (k, M), and the best value of J(theta) + psi(theta) with its intercept."""

    def __init__(self, problem: Problem, L: Factors, c: Costs) -> None:
        self.problem, self.L, self.c = problem, L, c
        self.betas = np.empty((0, problem.n_samples))
        self.S, self.q = np.empty(0), np.empty((0, problem.n_kernels))
        self.best, self.intercept = np.inf, 0.0

    @property
    def unit(self) -> float:
        """The size of S: first-order solvers need numbers of order 1."""
        return max(1.0, float(np.abs(self.S).max()))

    def add(self, beta: Array, b: float, theta: Array) -> None:
        """The cut at the machine's solution for theta; S after clipping what the solver left outside the box."""
        costs = np.asarray(self.c.value.value)
        inside = np.clip(beta, *self.problem.loss.box(self.problem.y, costs))
        self.betas = np.vstack([self.betas, beta])
        self.S = np.append(self.S, self.problem.loss.dual_value(inside, self.problem.y, costs))
        self.q = np.vstack([self.q, self.L.squares(beta)])
        J = self.S[-1] - 0.5 * float(theta @ self.q[-1]) + self.problem.regularizer.weight_penalty(theta)
        if self.best > J:
            self.best, self.intercept = J, b

    def closed(self, lower: float) -> bool:
        """Whether the master's value has reached the best machine, or there are too many cuts."""
        scale = float(np.sum(self.c.value.value) / np.sum(self.problem.costs))  # of the model, per unit of the problem
        size = max(abs(self.best), scale * unit_of(self.problem))
        return relative(self.best - lower, size) <= TOLERANCE or len(self.S) >= MAX_CUTS

    def mixture(self, theta: Array, constraint: Any) -> Point:
        """The point of the master: its weights and the mixture of the beta_k by the multipliers of the cuts."""
        shares = np.maximum(multiplier(constraint), 0.0)
        if not shares.any():
            raise SolverFailure("a master whose multipliers are all 0")
        return Point(shares @ self.betas / shares.sum(), theta, self.intercept)


@dataclass(frozen=True)
class Loop(Model):
    """A model that is solved by a loop over programs: `program` is compiled once, the masters are new every time."""

    loop: Callable[[Solve], Point]

    def run(self, solve: Solve) -> Point:
        """The loop."""
        return self.loop(solve)
