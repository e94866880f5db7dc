"""What a solver can do, declared by its author and checked before it is called."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any

from mklref.exceptions import InvalidType
from mklref.problem import Problem
from mklref.regularizers import Lp, WeightedLp

Declaration = Callable[[Problem], str]
"""The reason why a problem is out of scope, empty if it is not."""


@dataclass(frozen=True)
class Supports:
    """The problems that a solver is meant for; all others are excluded, not failed.

    Parameters
    ----------
    losses : collection of str, optional
        Names of losses, such as {"hinge"}; by default all.
    regularizers : collection of str, optional
        Names of classes, such as {"Lp", "Fixed"}; by default all.
    p : tuple of float
        Smallest and largest exponent of lp balls.
    intercept : collection of bool
        {True}, {False} or both.
    sample_weight : bool
        Whether samples may have weights of their own.
    max_kernels : int, optional
        Largest number of kernels.
    """

    losses: Collection[str] | None = None
    regularizers: Collection[str] | None = None
    p: tuple[float, float] = (1.0, float("inf"))
    intercept: Collection[bool] = (True, False)
    sample_weight: bool = True
    max_kernels: int | None = None

    def __call__(self, problem: Problem) -> str:
        """Why this problem is out of scope; empty if it is not."""
        kind = type(problem.regularizer).__name__
        p = problem.regularizer.p if isinstance(problem.regularizer, Lp | WeightedLp) else None
        if self.losses is not None and problem.loss.name not in self.losses:
            return f"loss {problem.loss.name}"
        if self.regularizers is not None and kind not in self.regularizers:
            return f"regularizer {kind}"
        if p is not None and not self.p[0] <= p <= self.p[1]:
            return f"p = {p:g}"
        if problem.intercept not in self.intercept:
            return "an intercept" if problem.intercept else "no intercept"
        if problem.sample_weight is not None and not self.sample_weight:
            return "sample weights"
        if self.max_kernels is not None and problem.n_kernels > self.max_kernels:
            return f"{problem.n_kernels} kernels"
        return ""


def as_declaration(supports: Any, solver: Any) -> Declaration:
    """A `Supports`, a function of a problem (a reason, or a truth value), or what the solver itself declares.

    Raises
    ------
    InvalidType
        Something that cannot be called.
    """
    declared = getattr(solver, "supports", None) if supports is None else supports
    if declared is None:
        return Supports()
    if not callable(declared):
        raise InvalidType(f"supports is {declared!r}; give a mklref.testing.Supports(...) or a function of a Problem.")

    def reason(problem: Problem) -> str:
        said = declared(problem)
        return said if isinstance(said, str) else "" if said else "out of scope"

    return reason
