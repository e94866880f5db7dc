"""What a solver returned, whatever its shape: a point, and what it claims about it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from mklref.exceptions import InvalidType
from mklref.solution import Solution, Status


@dataclass(frozen=True)
class Answer:
    """A point of a problem with the claims of the solver that found it; claims are checked, never believed.

    Parameters
    ----------
    dual_coef : array (n,)
        beta, signed (beta_i = alpha_i y_i in classification).
    weights : array (M,), optional
        theta; by default the best ones for beta.
    intercept : float, optional
        b; by default the best one.
    objective : float, optional
        The primal objective that the solver claims for this point.
    lower : float, optional
        The lower bound of the optimum that the solver claims.
    converged : bool, optional
        Whether the solver claims to have converged.
    """

    dual_coef: Any
    weights: Any = None
    intercept: Any = None
    objective: float | None = None
    lower: float | None = None
    converged: bool | None = None


def as_answer(returned: Any) -> Answer:
    """Read what a solver returned: a `Solution`, an `Answer`, or (dual_coef, weights, intercept).

    Raises
    ------
    InvalidType
        Anything else.
    """
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
        )
    if isinstance(returned, tuple) and len(returned) == 3:
        return Answer(*returned)
    raise InvalidType(
        f"the solver returned {type(returned).__name__}; expected (dual_coef, weights, intercept), "
        "a mklref.Solution or a mklref.testing.Answer."
    )
