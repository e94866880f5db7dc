"""Projected Newton steps for a smooth function, not necessarily convex, on x >= lower (Bertsekas 1982).

In units u_m of the variables, that is in u (x - lower) with the gradient g/u and the Hessian H/(u u'),

    near      = variables within epsilon of their bound that the gradient pushes against it: they go to the bound
    free      = the others go to the minimum of g_f'd + 1/2 d'|H_ff|d within their bounds,
                |H| with the eigenvalues of H replaced by their moduli
    x(t)      = x + t d,   t = 1, 1/2, ... until phi decreases by a share of what the slope promises

|H| makes d a direction of descent also where phi is not convex, and one that leads away from saddle points; near a
local minimum with positive curvature it is H, and convergence is quadratic. At a saddle, where d = 0, and to which d
leads where kernels and targets mirror each other, `saddle_step` goes on along the eigenvector.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias, TypeVar

import numpy as np
from scipy.optimize import nnls

from mklref._typing import Array

if TYPE_CHECKING:
    from mklref.evidence.likelihood import MarginalLikelihood
    from mklref.evidence.variational import WithSlopes

_ARMIJO = 1e-4
_NEAR = 1e-3
_SMALLEST_CURVATURE = 1e-10
"""As a share of the largest: keeps the step finite along directions in which phi does not change."""
_SHORTEST = 1e-10
_LEVEL = 1e-9
"""Share of 1 + |phi| that a step may rise if rounding explains it."""
_ROUNDING = 8.0 * float(np.finfo(float).eps)


Point: TypeAlias = "MarginalLikelihood | WithSlopes"
"""A function at x (k,) >= lower: its value with a bound of its rounding error, gradient, hessian(index, units), and
units u; and `moved(x)`, the same at another x, or None outside of the domain."""
P = TypeVar("P", "MarginalLikelihood", "WithSlopes")


def residuals(point: Point) -> Array:
    """|min(u (x - lower), g/u)| for each variable: zero exactly where the first-order conditions hold."""
    return np.asarray(np.abs(np.minimum(point.units * (point.x - point.lower), point.gradient / point.units)))


def residual(point: Point) -> float:
    """The largest of the residuals."""
    return float(residuals(point).max())


def newton_step(point: P) -> P | None:
    """The point after one step, or None if rounding leaves no decrease, or float64 no second derivatives."""
    units = point.units
    x, gradient = units * (point.x - point.lower), point.gradient / units
    near = (x <= min(_NEAR, residual(point))) & (gradient > 0.0)
    free = np.flatnonzero(~near)
    hessian, direction = point.hessian(free, units[free]), -x
    if not np.isfinite(hessian).all():
        return None
    try:
        direction[free] = _model_minimum(hessian, gradient[free], x[free]) - x[free]
    except (RuntimeError, ValueError):  # of nnls, where rounding leads in a circle, or beyond float64
        return None
    slope = float(gradient @ direction)
    slack = _ROUNDING * (1.0 + abs(point.value))
    t, length = 1.0, max(1.0, float(np.abs(direction).max()))  # without curvature a direction is as long as 1e10
    while t * length > _SHORTEST:
        trial = point.moved(point.lower + np.maximum(x + t * direction, 0.0) / units)
        if trial is not None:
            visible = abs(t * slope) > slack
            if trial.value <= point.value + _ARMIJO * t * slope if visible else closer(trial, point):
                return trial
        t *= 0.5
    return None


def saddle_step(point: P, curvature: float, direction: Array) -> P | None:
    """A lower point along a direction in units, either way, as far as its negative curvature would show; or None."""
    x = point.units * (point.x - point.lower)
    t = 1.0 + float(x.max())
    while -curvature * t**2 > _ROUNDING * (1.0 + abs(point.value)):
        for ahead in (t * direction, -t * direction):
            step = np.maximum(ahead, -x)
            trial = point.moved(point.lower + (x + step) / point.units)
            if trial is not None and trial.value < point.value + _ARMIJO * curvature * float(step @ step):
                return trial
        t *= 0.5
    return None


def _model_minimum(hessian: Array, gradient: Array, x: Array) -> Array:
    """The minimum of gradient'(z - x) + 1/2 (z - x)'|H|(z - x) over z >= 0: least squares in a root of |H|."""
    if not len(x):
        return x
    values, vectors = np.linalg.eigh(hessian)
    curvature = np.abs(values)
    root = np.sqrt(np.maximum(curvature, _SMALLEST_CURVATURE * float(curvature.max()) or 1.0))
    return np.asarray(nnls(root[:, None] * vectors.T, root * (vectors.T @ x) - (vectors.T @ gradient) / root)[0])


def closer(trial: Point, point: Point) -> bool:
    """Whether a step that may be too small to show in the value brings the conditions closer."""
    return no_higher(trial, point) and residual(trial) < residual(point)


def no_higher(trial: Point, point: Point) -> bool:
    """Whether the value rises by no more than rounding explains, nor by a share that would show."""
    allowed = min(trial.rounding + point.rounding, _LEVEL * (1.0 + abs(point.value)))
    return bool(trial.value - point.value <= allowed)


def minimise(point: P, tol: float, max_iter: int) -> P:
    """Newton steps from a point until all residuals are at most `tol`, or until rounding stops them."""
    for _ in range(max_iter):
        if residual(point) <= tol or (following := newton_step(point)) is None:
            break
        point = following
    return point
