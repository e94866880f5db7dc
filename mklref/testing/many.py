"""`certify_many`: the answers along a path, or many answers to one problem, for one read of the kernels."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from mklref._validate import checked_array
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
    points = []
    for k, answer in enumerate(_listed("answers", answers)):
        try:
            points.append(as_answer(answer))
        except InvalidType as error:
            raise InvalidType(f"answers[{k}]: {error}") from error
    problems = [problem] * len(points) if isinstance(problem, Problem) else _listed("problem", problem)
    if not all(isinstance(one, Problem) for one in problems):
        raise InvalidType("problem holds something else than a mklref.Problem; give one, or one for each answer.")
    if C is not None:
        costs = _listed("C", C)
        if len(costs) != len(problems):
            raise InvalidInput(f"C has {len(costs)} values for {len(problems)} answers; give one for each.")
        problems = [one.replace(C=cost) for one, cost in zip(problems, costs, strict=True)]
    if len(problems) != len(points):
        raise InvalidInput(f"{len(problems)} problems for {len(points)} answers; give one for each, or one for all.")
    if not points:
        return []
    return certify_each(
        [
            (one, checked_array(own.dual_coef, f"answers[{k}]: dual_coef", one.dual_shape), own.weights, own.intercept)
            for k, (one, own) in enumerate(zip(problems, points, strict=True))
        ]
    )


def _listed(name: str, given: Any) -> list[Any]:
    """An iterable as a list."""
    try:
        return list(given)
    except TypeError:
        raise InvalidType(f"{name} is {given!r}; give a sequence, one entry for each answer.") from None
