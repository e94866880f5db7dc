"""The two objectives at a point of P machines, for whoever knows its squares: certificates and the steps of solvers.

dual      sum_p [ -sum_i c_i V*(-beta_{i,p}/c_i, y_{i,p}) ] - R*(sqrt q)         q_m = sum_p beta_p'K_m beta_p
primal    sum_p [ sum_i c_i V(t_{i,p}, y_{i,p}) + c_b b_p ] + R(theta sqrt q)    `intercept_objective`, R

and the relative gap: gap / |upper|, and over the unit of the problem where the optimum is 0.

    relative gap = (upper - lower) / max(|upper|, u),      u = `unit_of(problem)`,      0/0 = 0

u is 0 wherever the optimum is not, so that the relative gap is the same in every unit of C, kernels and targets. This
is the only definition in the package; `mklref.verify`, which imports nothing of it, states it again.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from mklref.certificate.allowance import Enclosed
from mklref.certificate.products import sharp_images
from mklref.exceptions import InvalidKernel
from mklref.kernels.validation import INDEFINITE_REMEDY

if TYPE_CHECKING:
    from mklref._typing import Array
    from mklref.losses.base import Loss
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
    if np.any(squares < -allowed):  # only then the slack is needed, which has (M, n) entries
        # For a part of the samples the trace may be next to 0, where rounding errors of the whole are not.
        size = float(np.abs(beta).max()) or 1.0
        allowed += (size * problem.kernels.slack) @ (beta / size) ** 2 * size
        m = int(np.argmin(squares + allowed))
        if squares[m] < -allowed[m]:
            raise InvalidKernel(
                f"kernels[{m}] is not positive semidefinite: beta'K beta = {squares[m]:.3g} for this dual point. "
                f"{INDEFINITE_REMEDY}"
            )
    return np.maximum(squares, 0.0)


def squares_after_repair(
    problem: Problem, beta: Array, feasible: Array, images: Any, squares: Array
) -> tuple[Array, Any]:
    """Upper bounds of the squares at the repaired point, and the images that they come from.

    They are the squares themselves, of images of their own, if the point moved by more than rounding.

    With d the move, (beta + d)'K(beta + d) <= beta'K beta + 2 d'K beta + ||d||^2 trace(K).
    """
    step = feasible - beta
    if not step.any():
        return squares, images
    remainder = _largest_squares(problem, step)
    moved = np.maximum(squares + 2.0 * (images @ step), 0.0) + remainder
    errors_are_known = getattr(images, "errors", None) is not None  # those of a second read are not
    if errors_are_known or np.all(remainder <= _NEGLIGIBLE * moved.max()):
        return moved, images
    if isinstance(images, Enclosed):
        again: Any = sharp_images(problem.kernels, feasible)
    else:
        again = problem.kernels.images(feasible)
    return dual_squares(problem, feasible, again), again


def _largest_squares(problem: Problem, v: Array) -> Array:
    """||v||^2 trace(K_m) >= v'K_m v, in an order in which kernels of scale 1e+-250 neither overflow nor vanish."""
    size = float(np.abs(v).max()) or 1.0
    unit = v / size
    bounds: Array = problem.kernels.traces() * size * float(unit @ unit) * size
    return bounds


def finite_or(value: Any, otherwise: float) -> float:
    """The value, or another one where it is infinite or not a number."""
    return float(value) if np.isfinite(value) else otherwise


_LAST_BITS = 8.0 * float(np.finfo(float).eps)
"""Rounding error of a score, as a share of the largest target or end of a tube."""
_ONE_CLASS = 1e-7
"""Share of R* of a single sample below which the optimum of a one-class machine counts as 0: rounding
leaves about 1e-13 of them, and a relative gap of 1e-6 is to be within its reach."""


def relative(gap: float, size: float) -> float:
    """gap/|size|, with 0/0 = 0; infinite where the gap is."""
    if gap == 0.0:
        return 0.0
    return gap / abs(size) if math.isfinite(gap) and size else math.copysign(math.inf, gap)


@np.errstate(over="ignore", under="ignore", invalid="ignore")  # no unit beyond double precision
def unit_of(problem: Problem, traces: Array | None = None) -> float:
    """What gaps are compared with where P* = 0; 0 for problems whose optimum is not 0, however small it may be.

    With other `traces` (M,) it is that of the problem on kernels that have them.

    - Real targets: P* is at most the objective of the best constant function, and R > 0 elsewhere, so that P* = 0
      exactly if that function has no loss: constant targets, or a tube as wide as they spread. Since V vanishes on
      intervals around the targets, the constant in the middle of all targets has none if any has. The unit is the loss
      at a score twice as large as all targets and ends of tubes.
    - 1'beta = c_b: P* = -min R*, and R* >= 0 may vanish. The unit is 1e-7 R* for all of c_b on one sample of average
      K_ii, or for the nearest point of its ray where R* is finite; or 1e-7 of half the sum of its squared norms, which
      is R* at weights of 1, if that is less: R* alone would excuse everything where it is steep, of degree 202 for
      `Power(1.01)`. Where every kernel is 0 it is the least number with all digits: there is nothing but P* = 0.
    - Labels: P* > 0, also where a large C or large kernels make it a tiny share of the loss at 0.
    """
    loss, y, costs = problem.loss, problem.y, problem.costs
    if problem.intercept_cost:
        traces = problem.kernels.traces() if traces is None else traces
        norms = problem.intercept_cost * np.sqrt(np.maximum(traces / problem.n_samples, 0.0))
        inside = problem.regularizer.dual_scale(norms) * norms
        share = _ONE_CLASS * min(problem.regularizer.conjugate(inside), 0.5 * float(inside @ inside))
        return max(finite_or(share, 0.0), float(np.finfo(float).tiny))
    if loss.targets != "real":
        return 0.0
    middle = np.full(len(y), 0.5 * y.min() + 0.5 * y.max() if problem.intercept else 0.0)
    reach = float(np.abs(np.vstack([y, _ends(loss, y)])).max())
    error = _LAST_BITS * reach
    if float(costs @ loss.value(middle, y)) > error * float(costs @ _slopes(loss, middle, y, error)):
        return 0.0
    # No unit rather than one that excuses everything.
    return finite_or(costs @ loss.value(np.full(len(y), 2.0 * reach), y), 0.0)


def _ends(loss: Loss, y: Array) -> Array:
    """The kinks without a loss, (k, n): the ends of tubes. The threshold of Huber's loss says nothing of targets."""
    kinks = loss.kinks(y)
    error = _LAST_BITS * np.abs(kinks).max(initial=0.0)
    free = [np.all(loss.value(kink, y) <= error * _slopes(loss, kink, y, error)) for kink in kinks]
    return np.asarray(kinks[np.array(free, dtype=bool)])


def _slopes(loss: Loss, t: Array, y: Array, error: float) -> Array:
    """The larger |V'(., y_i)| at t_i - error and t_i + error, (n,)."""
    below, above = np.abs(loss.subgradient(t - error, y)), np.abs(loss.subgradient(t + error, y))
    return np.maximum(below, above)
