"""What a formulation is: a statement, a cvxpy model of it, and its own way back to (beta, theta, b).

Gram matrices enter through factors K_m = L_m L_m', so that f_m = L_m v_m and ||f_m|| = ||v_m||. What the solvers need
beside the statement (factors, scaling, cones, polishing) is `mklref._conic`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar

from mklref._conic.model import Model
from mklref._conic.scaling import Factors
from mklref.problem import Problem, is_one_machine
from mklref.regularizers import Regularizer
from mklref.solution import Solution


class Formulation(ABC):
    """One formulation of the papers: statement, dual, recovery and source in the docstring of its module."""

    name: ClassVar[str]
    kind: ClassVar[type] = Problem
    """The type of its problems."""
    solution: ClassVar[type] = Solution
    """The type of its solutions."""
    covers: ClassVar[tuple[type, ...]] = (Regularizer,)
    """The regularisers that it states."""
    instead: ClassVar[str] = "'mixed_norm', which takes every regulariser"
    """What to use for other regularisers, in words."""

    def explain(self, problem: Any) -> str | None:
        """None if the formulation covers the problem, else the reason in words, with an alternative."""
        fits = is_one_machine(problem) if self.kind is Problem else isinstance(problem, self.kind)
        if not fits:
            return f"{self.name} is for a {self.kind.__name__}, this is a {type(problem).__name__}."
        return self.applies(problem)

    def applies(self, problem: Any) -> str | None:
        """`explain` for a problem of its kind, by the regulariser."""
        if isinstance(problem.regularizer, self.covers):
            return None
        covered = ", ".join(kind.__name__ for kind in self.covers)
        return f"{self.name} is for {covered}, not for {problem.regularizer}; use {self.instead}."

    @abstractmethod
    def build(self, problem: Any, L: Factors) -> Model:
        """The cvxpy model of a problem to which the formulation applies."""
