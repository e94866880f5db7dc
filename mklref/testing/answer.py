"""What a solver can do, declared and checked before it is called, and what it returned, whatever its shape."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any

from mklref import regularizers
from mklref._names import Naming, kernel_names, require_named
from mklref._validate import (
    checked_choice,
    checked_flag,
    checked_members,
    checked_number,
    checked_real,
    checked_words,
    shown,
)
from mklref.exceptions import InvalidParameter, InvalidType
from mklref.losses import LOSSES
from mklref.problem import Problem
from mklref.regularizers import Lp, Regularizer, WeightedLp
from mklref.solution import Solution, Status


@dataclass(frozen=True)
class Answer:
    """A point of a problem with the claims of the solver that found it; claims are checked, never believed.

    Parameters
    ----------
    dual_coef : array (n,), of P machines (P, n)
        beta, signed (beta_i = alpha_i y_i in classification).
    weights : array (M,), optional
        theta; by default the best ones for beta.
    intercept : float or array (P,), optional
        b; by default the best one.
    objective : float, optional
        The primal objective that the solver claims for this point.
    lower : float, optional
        The lower bound of the optimum that the solver claims.
    converged : bool, optional
        Whether the solver claims to have converged.
    sample_names, kernel_names : tuple of tuple of str
        Each way in which the training samples and the kernels are named; compared with those of the problem.
    """

    dual_coef: Any
    weights: Any = None
    intercept: Any = None
    objective: float | None = None
    lower: float | None = None
    converged: bool | None = None
    sample_names: tuple[Naming, ...] = ()
    kernel_names: tuple[Naming, ...] = ()


def as_answer(returned: Any) -> Answer:
    """Read what a solver returned: a `Solution`, an `Answer`, or (dual_coef, weights, intercept); or `InvalidType`."""
    if isinstance(returned, Answer):
        return returned
    if isinstance(returned, Solution):
        return Answer(
            returned.dual_coef,
            returned.weights,
            returned.intercept,
            returned.objective,
            returned.certificate.lower,
            returned.status is Status.OPTIMAL,
            returned.sample_names,
            returned.kernel_names,
        )
    if isinstance(returned, tuple) and len(returned) == 3:
        return Answer(*returned)
    size = f" of {len(returned)}" if isinstance(returned, tuple | list) else ""
    raise InvalidType(
        f"the solver returned {type(returned).__name__}{size}; expected (dual_coef, weights, intercept), "
        "a mklref.Solution or a mklref.testing.Answer."
    )


def require_same_names(problem: Problem, answer: Answer, label: str = "the answer") -> None:
    """Raise `InvalidInput` unless an answer that names samples or kernels names those of the problem, in order."""
    require_named(label, answer.sample_names, problem.kernels.sample_names)
    require_named(label, answer.kernel_names, kernel_names(problem.kernels), "kernels")


def kinds_of(base: type) -> dict[str, type]:
    """The classes of `mklref.regularizers` that are of this kind, by name, in this order."""
    kinds = {name: kind for name, kind in sorted(vars(regularizers).items()) if isinstance(kind, type)}
    return {name: kind for name, kind in kinds.items() if issubclass(kind, base) and kind is not base}


REGULARIZERS = kinds_of(Regularizer)

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
    intercept : bool or collection of bool
        True, False or both.
    sample_weight : bool
        Whether samples may have weights of their own.
    max_kernels : int, optional
        Largest number of kernels.

    Raises
    ------
    InvalidType, InvalidParameter
        An unknown name, which would exclude everything in silence; bounds of p that are no interval; what is no truth
        value or no number of kernels.
    """

    losses: Collection[str] | None = None
    regularizers: Collection[str] | None = None
    p: tuple[float, float] = (1.0, float("inf"))
    intercept: Collection[bool] | bool = (True, False)
    sample_weight: bool = True
    max_kernels: int | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "losses", _known("losses", self.losses, LOSSES))
        object.__setattr__(self, "regularizers", _known("regularizers", self.regularizers, REGULARIZERS))
        remedy = "give the smallest and the largest exponent, such as (1, 2)."
        ends = [checked_real("p", end, remedy) for end in self.p] if isinstance(self.p, tuple | list) else []
        if len(ends) != 2 or not ends[0] <= ends[1]:
            raise InvalidParameter(f"p = {shown(self.p)}; {remedy}")
        given = self.intercept if isinstance(self.intercept, Collection) else [self.intercept]
        intercepts = checked_members("intercept", given, "give True, False or both.")
        object.__setattr__(self, "intercept", tuple(checked_flag("intercept", own) for own in intercepts))
        checked_flag("sample_weight", self.sample_weight)
        if self.max_kernels is not None:
            checked_number("max_kernels", self.max_kernels, "[1, inf]", "the most kernels, or None.")

    def __call__(self, problem: Problem) -> str:
        """Why this problem is out of scope; empty if it is not."""
        loss, kind, count = problem.loss.name, type(problem.regularizer).__name__, problem.n_kernels
        p = problem.regularizer.p if isinstance(problem.regularizer, Lp | WeightedLp) else self.p[0]
        intercepts: Any = self.intercept
        supported = {
            f"loss {loss}": self.losses is None or loss in self.losses,
            f"regularizer {kind}": self.regularizers is None or kind in self.regularizers,
            f"p = {p:g}": self.p[0] <= p <= self.p[1],
            "an intercept" if problem.intercept else "no intercept": problem.intercept in intercepts,
            "sample weights": self.sample_weight or problem.sample_weight is None,
            f"{count} kernels": self.max_kernels is None or count <= self.max_kernels,
        }
        return next((reason for reason, fits in supported.items() if not fits), "")


def _known(argument: str, given: Collection[str] | None, known: Collection[str]) -> tuple[str, ...] | None:
    if given is None:
        return None
    return tuple(checked_choice(argument, name, known) for name in checked_words(argument, given))


def as_declaration(supports: Any, solver: Any) -> Declaration:
    """A `Supports`, a function of a problem (a reason, or a truth value), or what the solver itself declares."""
    declared = getattr(solver, "supports", None) if supports is None else supports
    if declared is None:
        return Supports()
    if not callable(declared):
        raise InvalidType(f"supports is {shown(declared)}; give a mklref.testing.Supports or a function of a Problem.")

    def reason(problem: Problem) -> str:
        said = declared(problem)
        return said if isinstance(said, str) else "" if said else "out of scope"

    return reason
