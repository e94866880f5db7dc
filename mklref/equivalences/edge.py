"""What an equivalence is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from mklref.equivalences.maps import Carried, Carry
from mklref.exceptions import NotApplicable
from mklref.problem import Problem
from mklref.solution import Solution

NONE = "none"
"""No parameter changes, or there is no condition."""

NONZERO = "f != 0"
"""The condition of a map that depends on the block norms of the solution."""


@dataclass(frozen=True)
class Equivalence:
    """One edge: the problem on the left has the solutions of the problem on the right."""

    name: str
    left: str
    right: str
    parameters: str
    """What changes from left to right."""
    condition: str
    source: str
    """Paper and equation."""
    kind: type
    """The regulariser on the left."""
    carry: Carry
    formulations: tuple[str, str] = ("mixed_norm", "dual")
    """Formulations in which the left and the right side are stated."""
    where: Callable[[Any, Problem], bool] = lambda regularizer, problem: True
    """Whether the condition holds, as far as it does not depend on the solution."""

    def applies(self, problem: Problem) -> bool:
        """Whether the problem is one of those on the left."""
        return isinstance(problem.regularizer, self.kind) and self.where(problem.regularizer, problem)

    def __call__(self, problem: Problem, solution: Solution) -> Carried:
        """Take a solution of a problem on the left to the right.

        Raises
        ------
        NotApplicable
            If the problem is of another kind, or the solution does not meet the condition.
        """
        if not self.applies(problem):
            raise NotApplicable(
                f"equivalence {self.name!r} leads from {self.left}, condition: {self.condition}; this is {problem}. "
                "mklref.equivalences.leaving(problem) holds those that apply."
            )
        return self.carry(problem, solution)
