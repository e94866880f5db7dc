"""A compiled formulation, what all primal forms share, doubts about values, and cutting planes on the kernel weights.

The costs c_i = C * sample_weight_i are parameters of every model: another C reuses the compiled problem.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from mklref._conic.cones import cp
from mklref._conic.scaling import Factors
from mklref._conic.signed import SignedPoint
from mklref._own import own_class
from mklref._threads import cached_property
from mklref._typing import Array
from mklref.certificate.bounds import relative, unit_of
from mklref.exceptions import InvalidParameter, SolverFailure
from mklref.losses.base import LAWS, ROUNDING, Costs, Loss
from mklref.problem import Point, Problem

Solve = Callable[[Any], None]
"""Solves a cvxpy problem in place or raises `SolverFailure`; made by `reference`, the only caller of solvers."""


@dataclass(frozen=True)
class Model:
    """A compiled formulation: solve it for any costs, then read the point off it."""

    program: Any
    costs: Costs
    recover: Callable[[], Point | SignedPoint]

    def set_costs(self, costs: Array) -> None:
        """Give the parameters their values; the compiled problem is kept."""
        self.costs.value.value = costs
        self.costs.inverse.value = 1.0 / costs

    def run(self, solve: Solve) -> Point | SignedPoint:
        """Solve the program and recover the point."""
        solve(self.program)
        return self.recover()


def cost_parameters(n: int) -> Costs:
    """c and 1/c as cvxpy parameters: products with either are DPP, quotients would not be."""
    return Costs(cp.Parameter(n, pos=True, name="costs"), cp.Parameter(n, pos=True, name="inverse_costs"))


def multiplier(constraint: Any) -> Array:
    """The multiplier of an equality or scalar inequality as a float64 vector."""
    return np.atleast_1d(np.asarray(constraint.dual_value, dtype=np.float64))


class PrimalForm:
    """What every primal form shares: functions f_m = L_m v_m, scores, summed losses.

        t = sum_m L_m v_m + b           `scores`, a constraint
        sum_i c_i V(t_i, y_i) + c_b b   `losses`

    The multiplier of the scores is beta: stationarity in t reads c_i V'(t_i) + beta_i = 0.
    """

    def __init__(self, problem: Problem, factors: Factors) -> None:
        self.factors, self.regularizer = factors, problem.regularizer
        self.costs = cost_parameters(problem.n_samples)
        self.stacked = cp.Variable(factors.stacked.shape[1], name="v")
        self.b = cp.Variable(name="b") if problem.intercept else cp.Constant(0.0)
        t = cp.Variable(problem.n_samples, name="t")
        self.scores = t == factors.stacked @ self.stacked + self.b
        losses = cp.sum(cp.multiply(self.costs.value, atom_of(problem.loss, t, problem.y)))
        self.losses = losses + problem.intercept_cost * self.b

    @cached_property
    def v(self) -> list[Any]:
        """The blocks v_m with ||v_m|| = ||f_m||."""
        return self.factors.split(self.stacked)

    @property
    def rho(self) -> Array:
        """The norms (||v_m||)_m of the solution, (M,)."""
        return self.factors.norms(self.stacked.value)

    @property
    def weights(self) -> Array:
        """theta (M,) of the solution, in the closed form of the regulariser."""
        g = np.sqrt(self.factors.squares(multiplier(self.scores)))
        return self.regularizer.weights_at(self.rho, g)

    def model(self, objective: Any, constraints: list[Any], theta: Callable[[], Array]) -> Model:
        """Minimise under the constraints; beta is the multiplier of the scores, b a variable, theta is given."""
        program = cp.Problem(cp.Minimize(objective), [self.scores, *constraints])
        return Model(program, self.costs, lambda: Point(multiplier(self.scores), theta(), float(self.b.value)))


def atom_of(loss: Loss, t: Any, y: Array) -> Any:
    """V(t, y) as an elementwise convex cvxpy expression; of a class of somebody's own it is tried at some scores.

    A class that inherits its atom from one with other values would be solved as that one. `InvalidParameter` says so.
    """
    steps = max(1.0, float(np.abs(y).max())) * np.geomspace(1e-2, 1e2, len(y))
    for s in (y - steps, y + steps) if own_class(loss) else ():
        stated, value = loss.atom(cp.Constant(s), y).value, loss.value(s, y)  # the first is None with variables
        least = ROUNDING * float(np.nanmedian(np.abs(value)))
        if stated is not None and np.any(wrong := np.abs(stated - value) > LAWS * np.abs(value) + least):
            i = int(np.argmax(wrong))
            raise InvalidParameter(
                f"atom of the loss {loss} ({type(loss).__name__}) is not its value: atom({s[i]:g}) = {stated[i]:.6g}, "
                f"value({s[i]:g}) = {value[i]:.6g} at y = {y[i]:g}. Give the class an atom of its own."
            )
    return loss.atom(t, y)


def ratios(v: list[Any], theta: Any) -> Any:
    """sum_m ||v_m||^2 / theta_m for positive concave theta_m, with 0/0 = 0: jointly convex."""
    return cp.sum(cp.hstack([cp.quad_over_lin(v_m, theta_m) for v_m, theta_m in zip(v, theta, strict=True)]))


def nonnegative(variable: Any) -> Array:
    """The value of a variable without the negative entries that a conic solver leaves."""
    return np.maximum(np.asarray(variable.value, dtype=np.float64), 0.0)


def balance(problem: Problem, beta: Any) -> list[Any]:
    """1'beta = c_b if there is an intercept, which is its multiplier; no constraint otherwise."""
    return [cp.sum(beta) == problem.intercept_cost] if problem.intercept else []


def balance_multiplier(constraints: list[Any]) -> float:
    """b, the multiplier of `balance`; 0 without intercept."""
    return float(constraints[0].dual_value) if constraints else 0.0


_MULTIPLIERS = {"CLARABEL": {"b": "z"}, "ECOS": {"b": "y", "h": "z"}, "SCS": {"b": "y"}}
"""What each solver calls the multipliers of its right-hand sides."""


def gap(solver: str, data: Mapping[str, Any], raw: Any) -> float:
    """By how much the objectives of a solver's primal and dual points differ, x'Px + c'x + b'z in what it was given.

    A solver may settle for a gap that is small beside 1, or in its own scale, and large beside the value.
    """
    part = raw.get if isinstance(raw, dict) else partial(getattr, raw)
    x = np.asarray(part("x"))
    products = [data[b] @ np.asarray(part(z)) for b, z in _MULTIPLIERS[solver].items() if data[b] is not None]
    squares = x @ (data["P"] @ x) if data.get("P") is not None else 0.0
    return abs(float(squares + x @ data["c"] + sum(products)))


def doubt(program: Any, unit: float = 0.0, own: float = 0.0) -> float:
    """How far the value that a solver states may be from the optimum of its program by the point that it returns.

    That is its `own` gap, or more: the point misses the constraints by r, which is worth the multipliers times |r|,
    and the objective at the point may be another than the stated one, where the point misses cones that cvxpy has put
    between; relative to the value, or to the unit if that is more. Of a program that is wrong, but solved, they are as
    small as of a right one. Where the objective is not finite at the point, the gap is all that is known.
    """
    with np.errstate(all="ignore"):
        stated, at_point = float(program.solution.opt_val), float(np.asarray(program.objective.value))
        worth = abs(stated - at_point) + sum(map(_worth, program.constraints))
        size = max(abs(stated), unit)
        return max(own, worth if np.isfinite(worth) else 0.0) / size if size else 0.0


def _worth(constraint: Any) -> float:
    """|multiplier|'|residual|, or the largest residual times all multipliers where they are not one for one."""
    parts = constraint.dual_value if isinstance(constraint.dual_value, list) else [constraint.dual_value]
    multipliers = np.abs(np.concatenate([np.ravel(np.asarray(part, dtype=float)) for part in parts]))
    residuals = np.abs(np.ravel(np.asarray(constraint.residual, dtype=float)))
    if multipliers.shape == residuals.shape:
        return float(multipliers @ residuals)
    return float(multipliers.sum() * residuals.max(initial=0.0))


TOLERANCE = 1e-8
"""Relative gap between the master and the best machine at which the loop ends."""

MAX_CUTS = 300


class Cuts:
    """The cuts found so far: S (k,), q (k, M), and the best value of J(theta) + psi(theta) with its intercept.

    For fixed theta the kernel machine maximises S(beta) - 1/2 theta'q(beta), with S(beta) the loss part of the dual and
    q_m = beta'K_m beta. Its solution beta_k cuts the epigraph of J: J(theta) >= S(beta_k) - 1/2 theta'q(beta_k). The
    multipliers of the cuts in the master sum to 1, and S and -q are concave: so the mixture of the beta_k with these
    shares is a dual point at least as good as the master's value.
    """

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
        # Of the model, per unit of the problem; with a cost of the intercept the kernels of the model say it.
        scale = 1.0 if self.problem.intercept_cost else float(np.sum(self.c.value.value) / np.sum(self.problem.costs))
        traces = np.array([np.sum(matrix**2) for matrix in self.L.matrices])
        size = max(abs(self.best), scale * unit_of(self.problem, traces))
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
