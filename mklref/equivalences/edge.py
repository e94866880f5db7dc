"""What an equivalence is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from mklref.equivalences.maps import Carried, Carry, unchanged
from mklref.exceptions import NotApplicable
from mklref.problem import Problem, is_one_machine
from mklref.regularizers import Lp, Power, Regularizer
from mklref.solution import Solution

NONE = "none"
"""No parameter changes, or there is no condition."""

NONZERO = "f != 0"
"""The condition of a map that depends on the block norms of the solution."""

ORDINARY = "c_b = 0: not the nu one-class machine"
"""The condition of a map that rescales C, because the term c_b b is not rescaled with it."""


def always(regularizer: Regularizer) -> bool:
    """C' differs from C whatever the regulariser: its degree differs on the two sides."""
    return True


def below_two(regularizer: Lp | Power) -> bool:
    """C' differs from C for q < 2: at q = 2, p = inf, squared and plain norms are the same."""
    return regularizer.block_exponent < 2.0


@dataclass(frozen=True)
class Equivalence:
    """One edge: the problem on the left has the solutions of the problem on the right."""

    name: str
    left: str
    right: str
    parameters: str = NONE
    """What changes from left to right."""
    condition: str = NONE
    source: str = ""
    """Paper and equation."""
    kind: type = Regularizer
    """The regulariser on the left."""
    carry: Carry = unchanged
    formulations: tuple[str, str] = ("mixed_norm", "dual")
    """Formulations in which the left and the right side are stated."""
    rescales: Callable[[Any], bool] = lambda regularizer: False
    """Whether C' differs from C at the same functions for this regulariser, which asks for c_b = 0."""
    where: Callable[[Any, Problem], bool] = lambda regularizer, problem: True
    """Whether the condition holds, as far as it does not depend on the solution."""

    def applies(self, problem: Problem) -> bool:
        """Whether the problem is one of those on the left."""
        if not is_one_machine(problem) or not isinstance(problem.regularizer, self.kind):
            return False
        ordinary = problem.intercept_cost == 0.0 or not self.rescales(problem.regularizer)
        return ordinary and self.where(problem.regularizer, problem)

    def __call__(self, problem: Problem, solution: Solution) -> Carried:
        """Take a solution of a problem on the left to the right.

        Raises
        ------
        NotApplicable
            If the problem is of another kind, the solution does not meet the condition, or float64 does not hold the
            problem on the right.
        InvalidType, InvalidInput
            Not a `Solution`, or one of another number of samples or kernels.
        """
        if not self.applies(problem):
            raise NotApplicable(
                f"equivalence {self.name!r} leads from {self.left}, condition: {self.condition}; this is {problem}. "
                "mklref.equivalences.leaving(problem) holds those that apply."
            )
        return self.carry(problem, solution)
