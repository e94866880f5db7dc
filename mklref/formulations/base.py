"""What a formulation is: a statement, a cvxpy model of it, and its own way back to (beta, theta, b).

Gram matrices enter every model through factors K_m = L_m L_m' of numerical rank r_m, so that

    f_m(x_i) = (L_m v_m)_i,     ||f_m|| = ||v_m||,     g_m = sqrt(beta'K_m beta) = ||L_m'beta||.

A plain quadratic form of a low-rank Gram matrix is refused by cvxpy or takes minutes to compile. The costs
c_i = C * sample_weight_i are parameters of the model: another C reuses the compiled problem.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from mklref._typing import Array
from mklref.formulations.cones import use_second_order_cones
from mklref.formulations.point import Point as Point
from mklref.formulations.polish import polish
from mklref.formulations.scaling import Scaling, balanced
from mklref.kernels.stack import KernelStack
from mklref.losses.base import Costs
from mklref.problem import Problem
from mklref.solution import Solution

if TYPE_CHECKING:
    import cvxpy as cp

RANK_TOLERANCE = 1e-10
"""Eigenvalues below this share of the largest one are dropped from a factor."""

Solve = Callable[["cp.Problem"], None]
"""Solves a cvxpy problem in place or raises `SolverFailure`; made by `reference`, the only caller of solvers."""


@dataclass(frozen=True)
class Factors:
    """L_m (n, r_m) with K_m = L_m L_m' for every kernel; r_m is the numerical rank, at least 1."""

    matrices: tuple[Array, ...]

    @cached_property
    def stacked(self) -> Array:
        """[L_1 ... L_M], (n, r_1 + ... + r_M)."""
        return np.hstack(self.matrices)

    @property
    def slices(self) -> list[slice]:
        """Where each kernel's columns lie in `stacked`."""
        ends = np.cumsum([matrix.shape[1] for matrix in self.matrices])
        return [slice(int(end) - matrix.shape[1], int(end)) for end, matrix in zip(ends, self.matrices, strict=True)]

    def scaled(self, factor: float) -> Factors:
        """factor L_m, the factors of factor^2 K_m."""
        return self if factor == 1.0 else Factors(tuple(factor * L for L in self.matrices))

    def split(self, v: Any) -> list[Any]:
        """The blocks v_m of a stacked vector or cvxpy expression."""
        return [v[part] for part in self.slices]

    def norms(self, v: Array) -> Array:
        """(||v_m||)_m, (M,)."""
        return np.array([np.linalg.norm(block) for block in self.split(v)])


def factorize(kernels: KernelStack) -> Factors:
    """Factors of numerical rank, from one eigendecomposition for each kernel."""
    tolerance = max(RANK_TOLERANCE, kernels.shape[1] * float(np.finfo(kernels.dtype).eps))
    return Factors(tuple(_factor(matrix.astype(np.float64), tolerance) for matrix in kernels.dense()))


def _factor(K: Array, tolerance: float) -> Array:
    values, vectors = np.linalg.eigh(K)
    kept = values > tolerance * values[-1]
    if not kept.any():  # the zero kernel keeps one column, of zeros
        return np.zeros((len(K), 1))
    return np.asarray(vectors[:, kept] * np.sqrt(values[kept]))


@dataclass(frozen=True)
class Model:
    """A compiled formulation: solve it for any costs, then read the point off it."""

    program: cp.Problem
    costs: Costs
    recover: Callable[[], Point]

    def set_costs(self, costs: Array) -> None:
        """Give the parameters their values; the compiled problem is kept."""
        self.costs.value.value = costs
        self.costs.inverse.value = 1.0 / costs

    def avoid_power_cones(self) -> None:
        """Use towers of second-order cones instead, in a model that was never solved."""
        use_second_order_cones(self.program)

    def run(self, solve: Solve) -> Point:
        """Solve the program and recover the point."""
        solve(self.program)
        return self.recover()


class Formulation(ABC):
    """One formulation of the papers: statement, dual, recovery and source in the docstring of its module."""

    name: ClassVar[str]
    kind: ClassVar[type] = Problem
    """The type of its problems."""
    solution: ClassVar[type] = Solution
    """The type of its solutions."""

    def explain(self, problem: Any) -> str | None:
        """None if the formulation covers the problem, else the reason in words, with an alternative."""
        if isinstance(problem, self.kind):
            return self.applies(problem)
        return f"{self.name} is for a {self.kind.__name__}, this is a {type(problem).__name__}."

    def applies(self, problem: Any) -> str | None:
        """`explain` for a problem of its kind."""
        return None

    @abstractmethod
    def build(self, problem: Any, factors: Factors) -> Model:
        """The cvxpy model of a problem to which the formulation applies."""

    def scaling(self, problem: Any) -> Scaling:
        """The scaling under which the model is built."""
        return balanced(problem)

    def finish(self, problem: Any, point: Point, model: Model) -> dict[str, Any]:
        """What the formulation contributes to the solution, from its point: the polished one and its certificate."""
        polished, certificate = polish(problem, point)
        return {**polished._asdict(), "certificate": certificate}


def cost_parameters(n: int) -> Costs:
    """c and 1/c as cvxpy parameters: products with either are DPP, quotients would not be."""
    import cvxpy as cp

    return Costs(cp.Parameter(n, pos=True, name="costs"), cp.Parameter(n, pos=True, name="inverse_costs"))


def multiplier(constraint: Any) -> Array:
    """The multiplier of an equality or scalar inequality as a float64 vector."""
    return np.atleast_1d(np.asarray(constraint.dual_value, dtype=np.float64))


def scores_and_losses(problem: Problem, factors: Factors, costs: Costs) -> tuple[Any, Any, Any, Any]:
    """The common part of every primal form: blocks v, the constraint t = sum_m L_m v_m + b, b, and the losses.

    Returns v (stacked), b (0.0 without intercept), the constraint, and sum_i c_i V(t_i, y_i) + c_b b.
    The multiplier of the constraint is beta: stationarity in t reads c_i V'(t_i) + beta_i = 0.
    """
    import cvxpy as cp

    v = cp.Variable(factors.stacked.shape[1], name="v")
    t = cp.Variable(problem.n_samples, name="t")
    b = cp.Variable(name="b") if problem.intercept else 0.0
    scores = t == factors.stacked @ v + b
    losses = cp.sum(cp.multiply(costs.value, problem.loss.atom(t, problem.y)))
    return v, b, scores, losses + problem.intercept_cost * b


def half_ratios(factors: Factors, v: Any, theta: list[Any]) -> Any:
    """1/2 sum_m ||v_m||^2 / theta_m for positive concave theta_m, with 0/0 = 0: jointly convex."""
    import cvxpy as cp

    blocks = zip(factors.split(v), theta, strict=True)
    return 0.5 * cp.sum(cp.hstack([cp.quad_over_lin(block, weight) for block, weight in blocks]))


def recovered_intercept(b: Any) -> float:
    """The value of b, which is a variable or the number 0."""
    return float(b.value) if hasattr(b, "value") else 0.0


def balance(problem: Problem, beta: Any) -> list[Any]:
    """1'beta = c_b if there is an intercept, which is its multiplier; no constraint otherwise."""
    import cvxpy as cp

    return [cp.sum(beta) == problem.intercept_cost] if problem.intercept else []


def balance_multiplier(constraints: list[Any]) -> float:
    """b, the multiplier of `balance`; 0 without intercept."""
    return float(constraints[0].dual_value) if constraints else 0.0
