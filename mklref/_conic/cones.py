"""Second-order cones in place of power cones, for solvers that have none.

An exact power cone serves Clarabel and SCS best. ECOS has no such cone; for it, powers and p-norms become towers of
second-order cones, exact for rational exponents. The exponent of any other is off by so little that the function
changes by less than 1e-8 of itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import cvxpy as cp

MAX_DENOMINATOR = 1 << 14
"""Of the rational exponent, where it is neither close to 1 nor large."""

_SAME_AS_ONE = 1e-8
"""p - 1 below which x^p is x for every purpose here."""


def use_second_order_cones(program: cp.Problem) -> None:
    """Replace every exact power and p-norm within a freshly built program, in place."""
    for node in (program.objective, *program.constraints):
        _replace_within(node)


def _replace_within(node: Any) -> None:
    for position, argument in enumerate(node.args):
        _replace_within(argument)
        node.args[position] = _second_order(argument)


def _second_order(expression: Any) -> Any:
    """The same function of the same argument by second-order cones; anything else is returned as it is."""
    import cvxpy as cp
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
    """Enough for 1/p close to 1, where it is 1 - 1/k, and close to 0, where it is 1/k, with large k."""
    return max(MAX_DENOMINATOR, round(p), round(1.0 / max(abs(p - 1.0), _SAME_AS_ONE)) + 1)
