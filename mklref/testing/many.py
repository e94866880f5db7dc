"""`certify_many`: the answers along a path, or many answers to one problem, for one read of the kernels."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from mklref.certificate import Certificate, certify_each
from mklref.exceptions import InvalidInput, InvalidType
from mklref.problem import Problem
from mklref.testing.answer import as_answer


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
    points = [as_answer(answer) for answer in answers]
    problems = [problem] * len(points) if isinstance(problem, Problem) else list(problem)
    if not all(isinstance(one, Problem) for one in problems):
        raise InvalidType("problem holds something else than a mklref.Problem; give one, or one for each answer.")
    if C is not None:
        costs = list(C)
        if len(costs) != len(problems):
            raise InvalidInput(f"C has {len(costs)} values for {len(problems)} answers; give one for each.")
        problems = [one.replace(C=cost) for one, cost in zip(problems, costs, strict=True)]
    if len(problems) != len(points):
        raise InvalidInput(f"{len(problems)} problems for {len(points)} answers; give one for each, or one for all.")
    if not points:
        return []
    return certify_each(
        [
            (one, answer.dual_coef, answer.weights, answer.intercept)
            for one, answer in zip(problems, points, strict=True)
        ]
    )
