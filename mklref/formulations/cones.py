"""Second-order cones in place of power cones, for solvers that have none.

An exact power cone serves Clarabel and SCS best. ECOS has no such cone; for it, powers and p-norms become towers
of second-order cones, exact for rational exponents and off by less than 1e-8 in the exponent for others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import cvxpy as cp

MAX_DENOMINATOR = 1 << 14
"""Of the rational exponent: |p - rational| < 1/MAX_DENOMINATOR^2."""


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
        return cp.pnorm(expression.args[0], expression.original_p, max_denom=MAX_DENOMINATOR)
    if type(expression) is Power:
        return cp.power(expression.args[0], float(expression.p.value), max_denom=MAX_DENOMINATOR)
    return expression
