"""Cutting planes on the kernel weights: the loop that `silp` and `semi_infinite` share.

For fixed theta the kernel machine maximises S(beta) - 1/2 theta'q(beta), with S(beta) the loss part of the dual and
q_m = beta'K_m beta. Its solution beta_k cuts the epigraph of J(theta): J(theta) >= S(beta_k) - 1/2 theta'q(beta_k).

    repeat  separation  beta_k = argmax_beta S(beta) - 1/2 theta'q(beta)       one kernel machine
            master      minimise tau + psi(theta)  s.t.  tau >= S(beta_j) - 1/2 theta'q(beta_j) for j <= k

The master's value is a lower bound that rises, J(theta) + psi(theta) an upper bound. The multipliers mu_k of the cuts
sum to 1, and S and -q are concave: so sum_k mu_k beta_k is a dual point at least as good as the master's value.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from mklref._typing import Array
from mklref.certificate.unit import relative, unit_of
from mklref.exceptions import SolverFailure
from mklref.formulations.base import (
    Factors,
    Model,
    Point,
    Solve,
    balance,
    balance_multiplier,
    cost_parameters,
    multiplier,
)
from mklref.formulations.cones import use_second_order_cones
from mklref.problem import Problem

if TYPE_CHECKING:
    import cvxpy as cp

TOLERANCE = 1e-8
"""Relative gap between the master and the best machine at which the loop ends."""

MAX_CUTS = 300

Penalty = Callable[[Any, float], tuple[Any, list[Any]]]
"""psi as a cvxpy scalar of theta, and constraints, given the objective sum_i c_i V(0, y_i) at f = 0 and b = 0."""


@dataclass(frozen=True)
class CuttingPlanes(Model):
    """The separation program with theta as a parameter; masters are built from the cuts so far."""

    problem: Problem
    factors: Factors
    beta: cp.Variable
    roots: cp.Parameter
    """Square roots of theta, (M,): products with them are DPP."""
    penalty: Penalty
    _second_order: list[bool] = field(default_factory=list)

    def avoid_power_cones(self) -> None:
        """Also in every master."""
        self._second_order.append(True)
        use_second_order_cones(self.program)

    def run(self, solve: Solve) -> Point:
        """The loop."""
        theta = self.problem.regularizer.weights_from_norms(np.ones(self.problem.n_kernels))
        betas: list[Array] = []
        values, squares = np.empty(0), np.empty((0, self.problem.n_kernels))
        shares, intercept = np.ones(1), 0.0
        best, unit = np.inf, unit_of(self.problem)
        for _ in range(MAX_CUTS):
            self.roots.value = np.sqrt(theta)
            solve(self.program)
            point = self.recover()
            betas.append(point.dual_coef)
            values = np.append(values, self._loss_part(point.dual_coef))
            squares = np.vstack([squares, self.factors.norms(self.factors.stacked.T @ point.dual_coef) ** 2])
            machine = values[-1] - 0.5 * float(theta @ squares[-1]) + self.problem.regularizer.weight_penalty(theta)
            if machine < best:
                best, intercept = machine, point.intercept
            lower, theta, shares = self._master(solve, values, squares)
            if relative(best - lower, max(abs(best), unit)) <= TOLERANCE:
                break
        return Point(shares @ np.array(betas), theta, intercept)

    def _loss_part(self, beta: Array) -> float:
        """S(beta), after clipping what the solver left outside the box."""
        costs = np.asarray(self.costs.value.value)
        lower, upper = self.problem.loss.box(self.problem.y, costs)
        return self.problem.loss.dual_value(np.clip(beta, lower, upper), self.problem.y, costs)

    def _master(self, solve: Solve, values: Array, squares: Array) -> tuple[float, Array, Array]:
        """Its value, theta, and the share of each cut."""
        import cvxpy as cp

        theta = cp.Variable(self.problem.n_kernels, nonneg=True, name="theta")
        tau = cp.Variable(name="tau")
        losses_at_zero = self.problem.loss.value(np.zeros(self.problem.n_samples), self.problem.y)
        penalty, domain = self.penalty(theta, float(np.asarray(self.costs.value.value) @ losses_at_zero))
        scale = max(1.0, float(np.abs(values).max()))  # tau is in units of it: first-order solvers need that
        cuts = tau >= values / scale - (0.5 / scale * squares) @ theta
        master = cp.Problem(cp.Minimize(scale * tau + penalty), [cuts, *domain])
        if self._second_order:
            use_second_order_cones(master)
        solve(master)
        shares = np.maximum(multiplier(cuts), 0.0)
        if not shares.any():
            raise SolverFailure("a master whose multipliers are all 0")
        return float(master.solution.opt_val), np.maximum(theta.value, 0.0), shares / shares.sum()


def cutting_planes(problem: Problem, factors: Factors, penalty: Penalty) -> CuttingPlanes:
    """The model: the separation program over beta for weights given as a parameter."""
    import cvxpy as cp

    costs = cost_parameters(problem.n_samples)
    beta = cp.Variable(problem.n_samples, name="beta")
    roots = cp.Parameter(problem.n_kernels, nonneg=True, name="roots")
    images = cp.hstack([roots[m] * (L.T @ beta) for m, L in enumerate(factors.matrices)])
    conjugates, box = problem.loss.dual_atom(beta, problem.y, costs)
    balanced = balance(problem, beta)
    separation = cp.Problem(cp.Minimize(conjugates + 0.5 * cp.sum_squares(images)), [*balanced, *box])

    def recover() -> Point:
        return Point(beta.value, np.asarray(roots.value) ** 2, balance_multiplier(balanced))

    return CuttingPlanes(separation, costs, recover, problem, factors, beta, roots, penalty)
