"""`check_value`: the optimal value that anybody's model states, checked where a test stands."""

from __future__ import annotations

import numbers
from typing import Any

import numpy as np

from mklref import native
from mklref._crosscheck.result import distance, interval_size
from mklref.exceptions import InvalidParameter, InvalidType
from mklref.problem import Problem, require_problem
from mklref.testing.optimal import require_tolerance

SUSPECTS = {
    -1.0: "It is minus the optimal value: a dual problem that is minimised; flip its sign.",
    2.0: "It is twice the optimal value: a factor 1/2 is missing, or C multiplies a loss that is doubled.",
    0.5: "It is half the optimal value: a factor 1/2 too many.",
}
"""What a value means that is this multiple of the optimal one."""


def check_value(problem: Problem, value: Any, *, rtol: float = 1e-6) -> None:
    """Pass if `value` is the optimal value of the problem, else fail with a message that says how far it is off.

    The problem is solved natively, and the value is compared with the certified interval of the optimum, which knows
    nothing of the model that the value comes from. So a wrong model is found, as `assert_optimal` finds a wrong point.

    Parameters
    ----------
    problem : Problem
    value : float
        The optimal value of a model, with the sign of the primal: that of a dual is maximised.
    rtol : float
        How far outside of the certified interval the value may lie, relative to the optimal value; the interval
        is at most a tenth as wide.

    Raises
    ------
    AssertionError
        The value lies outside, or is no finite number; or no interval that is narrow enough could be certified.
    InvalidType, InvalidParameter
        problem is no problem, value no number; rtol is no positive number.
    """
    require_problem(problem)
    number = value.item() if isinstance(value, np.ndarray) and value.size == 1 else value
    if isinstance(number, bool) or not isinstance(number, numbers.Real):
        raise InvalidType(f"value = {value!r} must be a number: the optimal value of a model, for instance 12.5.")
    require_tolerance("rtol", rtol)
    if rtol >= 1.0:
        raise InvalidParameter(f"rtol = {rtol!r} must be below 1: anything passes.")
    certificate = native.solve(problem, tol=0.1 * rtol).certificate
    interval = certificate.lower, certificate.upper
    if not certificate.is_optimal(0.1 * rtol):
        raise AssertionError(
            f"not checked: {certificate}, allowed {0.1 * rtol:.1e}; give a larger rtol, or normalise the kernels."
        )
    stated = float(number)
    off = distance(stated, interval, interval_size(interval, certificate.unit))
    if not off <= rtol:
        hints = [text for ratio, text in SUSPECTS.items() if distance(stated / ratio, interval, abs(stated)) <= rtol]
        where = f"{certificate.lower:.12g} <= P* <= {certificate.upper:.12g}"
        raise AssertionError(
            " ".join([f"the value {stated:.12g} is off by {off:.1e}, allowed {rtol:.1e}: {where}.", *hints])
        )
