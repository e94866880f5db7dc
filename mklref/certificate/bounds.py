"""The two objectives at a point of P machines, for whoever knows its squares: certificates and the steps of solvers.

dual      sum_p [ -sum_i c_i V*(-beta_{i,p}/c_i, y_{i,p}) ] - R*(sqrt q)         q_m = sum_p beta_p'K_m beta_p
primal    sum_p [ sum_i c_i V(t_{i,p}, y_{i,p}) + c_b b_p ] + R(theta sqrt q)    `intercept_objective`, R
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from mklref._typing import Array
from mklref.exceptions import InvalidKernel
from mklref.kernels.validation import INDEFINITE_REMEDY

if TYPE_CHECKING:
    from mklref.problem import Problem

_NEGLIGIBLE = 1e-13
"""Relative change of the quadratic forms up to which a repaired dual point needs no second read of the stack."""


def dual_objective(
    problem: Problem, betas: Sequence[Array], squares: Array, known: float | None = None
) -> tuple[float, float]:
    """The dual objective at feasible beta_p with sums of squares q (M,), and the scale t in (0, 1] into dom R*.

    `known` are the `dual_losses` at the beta_p themselves, for who has them.
    """
    g = np.sqrt(squares)
    scale = problem.regularizer.dual_scale(g)
    if problem.intercept_cost and scale < 1.0:
        return -np.inf, scale
    losses = dual_losses(problem, betas, scale) if known is None or scale < 1.0 else known
    return float(losses - problem.regularizer.conjugate(scale * g)), scale


def dual_losses(problem: Problem, betas: Sequence[Array], scale: float = 1.0) -> float:
    """sum_p [ -sum_i c_i V*(-beta_{i,p}/c_i, y_{i,p}) ] at beta_p times a scale."""
    each = zip(problem.machines, betas, strict=True)
    return sum(m.problem.loss.dual_value(scale * beta, m.problem.y, m.problem.costs) for m, beta in each)


def dual_squares(problem: Problem, beta: Array, images: Any) -> Array:
    """beta'K_m beta, with rounding below zero removed; a truly negative value proves K_m indefinite."""
    squares: Array = images @ beta
    rounding = 8.0 * len(beta) * float(np.finfo(problem.kernels.dtype).eps)
    allowed = rounding * _largest_squares(problem, beta)
    m = int(np.argmin(squares + allowed))
    if squares[m] < -allowed[m]:
        raise InvalidKernel(
            f"kernels[{m}] is not positive semidefinite: beta'K beta = {squares[m]:.3g} for this dual point. "
            f"{INDEFINITE_REMEDY}"
        )
    return np.maximum(squares, 0.0)


def squares_after_repair(problem: Problem, beta: Array, feasible: Array, images: Any, squares: Array) -> Array:
    """Upper bounds of the squares at the repaired point; exact ones if the point moved by more than rounding.

    With d the move, (beta + d)'K(beta + d) <= beta'K beta + 2 d'K beta + ||d||^2 trace(K).
    """
    step = feasible - beta
    if not step.any():
        return squares
    remainder = _largest_squares(problem, step)
    moved = np.maximum(squares + 2.0 * (images @ step), 0.0) + remainder
    if np.all(remainder <= _NEGLIGIBLE * moved.max()):
        return np.asarray(moved)
    return dual_squares(problem, feasible, problem.kernels.images(feasible))


def _largest_squares(problem: Problem, v: Array) -> Array:
    """||v||^2 trace(K_m) >= v'K_m v, in an order in which kernels of scale 1e+-250 neither overflow nor vanish."""
    size = float(np.abs(v).max()) or 1.0
    unit = v / size
    bounds: Array = problem.kernels.traces() * size * float(unit @ unit) * size
    return bounds


def finite_or(value: Any, otherwise: float) -> float:
    """The value, or another one where it is infinite or not a number."""
    return float(value) if np.isfinite(value) else otherwise
