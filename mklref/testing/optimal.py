"""`assert_optimal`: one answer of anybody's solver, checked where a test stands."""

from __future__ import annotations

from typing import Any

from mklref._validate import checked_positive
from mklref.problem import Problem, require_problem
from mklref.testing.answer import Answer
from mklref.testing.diagnosis import judge


def assert_optimal(
    problem: Problem, dual_coef: Any, *, weights: Any = None, intercept: float | None = None, rtol: float = 1e-6
) -> None:
    """Pass if a point is optimal up to a relative gap, else fail with a message that says what is wrong.

    The point is certified; if the gap is open, the usual suspects are tried (`mklref.testing.FAULTS`), and the one
    whose certificate closes it is named: stale weights, a missing intercept constraint, C off by a factor, labels
    flipped, another loss or regulariser, ...

    Parameters
    ----------
    problem : Problem
    dual_coef : array (n,)
        beta, signed: beta_i = alpha_i y_i in classification.
    weights : array (M,), optional
        theta; by default the best ones for this dual point, which are looked for.
    intercept : float, optional
        b; by default the best one.
    rtol : float
        Largest relative gap (upper - lower) / |upper|, positive: the same in every unit of C, kernels and targets.

    Raises
    ------
    AssertionError
        The relative gap exceeds rtol, a constraint is violated by more than the square root of rtol (relative to
        the largest entry of the vector), or the arrays have the wrong shape or entries that are not finite.
    InvalidType, InvalidParameter
        problem is no `Problem`; rtol is no positive number.
    """
    require_problem(problem)
    require_tolerance("rtol", rtol)
    verdict = judge(problem, Answer(dual_coef, weights, intercept), tol=rtol)
    if not verdict.passed:
        raise AssertionError(f"not optimal: {verdict.explain()}")


def require_tolerance(name: str, value: Any) -> None:
    """Raise `InvalidType` or `InvalidParameter` unless value is a positive finite number."""
    checked_positive(name, value, "a relative duality gap, for instance 1e-6.")
