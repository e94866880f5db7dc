"""Powers and lp norms of nonnegative cvxpy expressions: power cones, and second-order cones for solvers without.

An exact power cone serves Clarabel and SCS best. ECOS has no such cone; for it, powers and p-norms become towers of
second-order cones, exact for rational exponents. The exponent of any other is off by so little that the function
changes by less than 1e-8 of itself.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np

from mklref.losses.base import cp as cp

MAX_DENOMINATOR = 1 << 14
"""Of the rational exponent, where none of the fractions with a small denominator is close to it."""

_EXPONENT = 1e-9
"""Error of 1/p up to which a rational exponent stands for p."""

_SAME_AS_ONE = 1e-8
"""p - 1 below which x^p is x for every purpose here."""


def use_second_order_cones(program: Any) -> None:
    """Replace every exact power and p-norm within a program that was never solved with them, in place."""
    for node in (program.objective, *program.constraints):
        _replace_within(node)


def _replace_within(node: Any) -> None:
    for position, argument in enumerate(node.args):
        _replace_within(argument)
        node.args[position] = _second_order(argument)


def _second_order(expression: Any) -> Any:
    """The same function of the same argument by second-order cones; anything else is returned as it is."""
    from cvxpy.atoms.elementwise.power import Power
    from cvxpy.atoms.pnorm import Pnorm

    if type(expression) is Pnorm and expression.p != 2:
        p = float(expression.original_p)
        norm1 = p - 1.0 < _SAME_AS_ONE
        return cp.norm1(expression.args[0]) if norm1 else cp.pnorm(expression.args[0], p, max_denom=_denominator(p))
    if type(expression) is Power:
        p = float(expression.p.value)
        return cp.power(expression.args[0], p, max_denom=_denominator(p))
    return expression


def _denominator(p: float) -> int:
    """Enough for 1/p close to a simple fraction, whose nearest neighbours have large denominators."""
    denominator, exact = MAX_DENOMINATOR, 1 / Fraction(p)
    while not (near := exact.limit_denominator(denominator)) or abs(near - exact) > _EXPONENT:
        denominator *= 2
    return denominator


def norm(x: Any, p: float) -> Any:
    """||x||_p for p in [1, inf]."""
    if p == 1.0:
        return cp.sum(x)
    if np.isinf(p):
        return cp.max(x)
    if p == 2.0:
        return cp.norm(x, 2)
    return cp.pnorm(x, p, approx=False)


def power(x: Any, exponent: float) -> Any:
    """x^exponent, elementwise, for an exponent of at least 1."""
    return x if exponent == 1.0 else cp.power(x, exponent, approx=False)


def smoothed_root(x: Any, epsilon: float) -> tuple[Any, list[Any]]:
    """sum sqrt(x_m^2 + epsilon^2) - epsilon for convex x >= 0 (M,), and constraints.

    Each term t r_m has (t r)(t r + 2 epsilon) = x^2. With t = min(1, 1/epsilon) all that is in the cone is of order one
    where x is: as a norm less epsilon it would cancel.
    """
    r, t = cp.Variable(x.shape, nonneg=True), min(1.0, 1.0 / epsilon)
    return t * cp.sum(r), [cp.quad_over_lin(x[m], t * t * r[m] + 2.0 * epsilon * t) <= r[m] for m in range(x.size)]


def norms(blocks: list[Any]) -> Any:
    """The vector (||z_m||)_m of the Euclidean norms of affine vectors."""
    return cp.hstack([cp.norm(block, 2) for block in blocks])


def squares(blocks: list[Any]) -> Any:
    """The vector (||z_m||^2)_m of affine vectors."""
    return cp.hstack([cp.sum_squares(block) for block in blocks])
