"""Answers of anybody's solver, checked where a test stands.

assert_optimal    one answer
check_value       the optimal value that a model states
certify_many      the answers along a path, or many answers to one problem, for one read of the kernels
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from mklref import native
from mklref._crosscheck.row import distance, interval_size
from mklref._display import outwards
from mklref._validate import checked_array, checked_members, checked_real, checked_tolerance
from mklref.certificate import Certificate, certify_each
from mklref.exceptions import InvalidInput, InvalidParameter, InvalidType
from mklref.problem import Problem, require_problem
from mklref.solution import Solution
from mklref.testing.answer import Answer, as_answer, require_same_names
from mklref.testing.claims import convention
from mklref.testing.diagnosis import judge

_EACH = "give a sequence, one entry for each answer."


def assert_optimal(
    problem: Problem, dual_coef: Any, *, weights: Any = None, intercept: Any = None, rtol: float = 1e-6
) -> None:
    """Pass if a point is optimal up to a relative gap, else fail with a message that says what is wrong.

    The point is certified; if the gap is open, the usual suspects are tried (`mklref.testing.FAULTS`), and the one
    whose certificate closes it is named: stale weights, a missing intercept constraint, C off by a factor, labels
    flipped, another loss or regulariser, ...

    Parameters
    ----------
    problem : Problem
    dual_coef : array (n,), of P machines (P, n), or Solution or Answer
        beta, signed: beta_i = alpha_i y_i in classification. Of a solution its weights and intercept count as well.
    weights : array (M,), optional
        theta; by default the best ones for this dual point, which are looked for.
    intercept : float or array (P,), optional
        b; by default the best one.
    rtol : float
        Largest relative gap (upper - lower) / |upper|, in (0, 1): the same in every unit of C, kernels and targets.

    Raises
    ------
    AssertionError
        The relative gap exceeds rtol, a constraint is violated by more than the square root of rtol (relative to
        the largest entry of the vector), or the arrays have the wrong shape or entries that are not finite.
    InvalidType, InvalidParameter
        problem is no `Problem`; rtol is no number in (0, 1); a solution with weights or an intercept beside it.
    """
    tol = checked_tolerance("rtol", rtol)
    whole = isinstance(dual_coef, Solution | Answer)
    answer = as_answer(dual_coef) if whole else Answer(dual_coef)
    given = {name: own for name, own in {"weights": weights, "intercept": intercept}.items() if own is not None}
    if given and whole:
        raise InvalidParameter(
            f"{' and '.join(given)} go with an array; of a solution its own count. Give solution.dual_coef instead."
        )
    verdict = judge(problem, replace(answer, **given), tol=tol)
    if not verdict.passed:
        raise AssertionError(f"not optimal: {verdict.explain()}")


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
        problem is no problem, value no number; rtol is no number in (0, 1).
    """
    require_problem(problem)
    number = value.item() if isinstance(value, np.ndarray) and value.size == 1 else value
    stated = checked_real("value", number, "give a number: the optimal value of a model, for instance 12.5.")
    tol = checked_tolerance("rtol", rtol)
    if not np.isfinite(stated):
        raise AssertionError(f"the value is {stated}, as of a model that is infeasible, unbounded or not solved.")
    certificate = native.solve(problem, tol=0.1 * tol).certificate
    interval = certificate.lower, certificate.upper
    if not certificate.is_optimal(0.1 * tol):
        raise AssertionError(
            f"not checked: {certificate}, allowed {0.1 * tol:.1e}; give a larger rtol, or normalise the kernels."
        )
    off = distance(stated, interval, interval_size(interval, certificate.unit))
    if not off <= tol:
        where = " <= P* <= ".join(outwards(certificate.lower, certificate.upper, 12))
        meant = convention(problem, "the optimal value", stated, certificate.upper, tol * abs(certificate.upper))
        raise AssertionError(f"the value {stated:.12g} is off by {off:.1e}, allowed {tol:.1e}: {where}.{meant}")


def certify_many(
    problem: Problem | Sequence[Problem], answers: Iterable[Any], *, C: Iterable[float] | None = None
) -> list[Certificate]:
    """What `mklref.certify` says of each answer; sixteen answers take one read of the kernels.

    Parameters
    ----------
    problem : Problem or sequence of Problem
        The problem of all answers, or one for each. Several have one kernel stack, as `problem.replace` keeps it.
    answers : iterable
        Each one (dual_coef, weights, intercept), a `Solution` or an `Answer`; weights and intercept may be None.
    C : iterable of float, optional
        One for each answer: the path along which they were found, in place of `problem.C`.

    Returns
    -------
    list of Certificate
        One for each answer, in order.

    Raises
    ------
    InvalidType, InvalidInput
        Not problems or answers; numbers of problems, answers and C that differ; different kernel stacks.
    """
    points = []
    for k, answer in enumerate(checked_members("answers", answers, _EACH)):
        try:
            points.append(as_answer(answer))
        except InvalidType as error:
            raise InvalidType(f"answers[{k}]: {error}") from error
    problems = [problem] * len(points) if isinstance(problem, Problem) else checked_members("problem", problem, _EACH)
    if not all(isinstance(one, Problem) for one in problems):
        raise InvalidType("problem holds something else than a mklref.Problem; give one, or one for each answer.")
    if C is not None:
        costs = checked_members("C", C, _EACH)
        if len(costs) != len(problems):
            raise InvalidInput(f"C has {len(costs)} values for {len(problems)} answers; give one for each.")
        problems = [one.replace(C=cost) for one, cost in zip(problems, costs, strict=True)]
    if len(problems) != len(points):
        raise InvalidInput(f"{len(problems)} problems for {len(points)} answers; give one for each, or one for all.")
    for one, point in zip(problems, points, strict=True):
        require_same_names(one, point)
    if not points:
        return []
    return certify_each(
        [
            (one, checked_array(own.dual_coef, f"answers[{k}]: dual_coef", one.dual_shape), own.weights, own.intercept)
            for k, (one, own) in enumerate(zip(problems, points, strict=True))
        ]
    )
