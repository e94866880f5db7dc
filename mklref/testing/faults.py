"""The names of what can be wrong with an answer, and readings of one: a point and a problem it may be optimal for."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from math import prod
from typing import Any, NamedTuple

import numpy as np

from mklref._typing import Array, FloatArray
from mklref._untrusted import free_memory
from mklref.exceptions import InvalidInput, NotApplicable
from mklref.kernels import KernelStack
from mklref.kernels.stack import ArrayStack
from mklref.problem import Problem
from mklref.regularizers import Fixed

SEEN = 10**7
"""Entries of kernels that are not in memory up to which they are taken there, to try others in their place."""

FAULTS: dict[str, str] = {
    "malformed answer": "Wrong shapes, entries that are not finite, or no point at all.",
    "zero answer": "All weights or all dual variables are 0: often a failure of an inner solver that was swallowed.",
    "negative weights": "A combination of kernels has none: a wrong sign, or a step that left the feasible set.",
    "other sign of the intercept": "-b fits where b does not: libsvm's rho is minus the intercept.",
    "wrong intercept": "Another intercept makes the point optimal: a missing one, or that of another iterate.",
    "unsigned dual_coef": "alpha_i >= 0 was returned where beta_i = alpha_i y_i, or alpha_i - alpha_i*, is expected.",
    "negated dual_coef": "-beta is optimal: labels were flipped, or the classes are counted the other way round.",
    "scaled dual_coef": "A multiple of beta is optimal: dual variables in other units, such as beta/C.",
    "permuted samples": "The samples, or their targets, are in another order than in the problem, as sorted by class.",
    "permuted machines": "Rows of dual_coef and intercepts are in another order than the machines of the problem.",
    "relabelled samples": "The point is optimal for other labels of a few samples: a mask or an index went wrong.",
    "missing intercept constraint": "The point is optimal without an intercept: nothing held sum beta = 0.",
    "superfluous intercept": "The point is optimal with an intercept, which this problem does not have.",
    "weights on another sphere": "Weights were normalised in another norm, for instance to sum 1 where p > 1.",
    "wrong scale of C": "The point is optimal for another C: a mean of losses, a missing 1/2, C on the regulariser.",
    "another loss": "The point is optimal for another loss, for instance the squared hinge.",
    "another parameter of the loss": "The point is optimal for another tau, epsilon or delta, perhaps in other units.",
    "scaled kernels": "The point is optimal for a multiple of the kernels: a missing 1/2, a mean, one trace for all.",
    "normalised kernels": "The point is optimal for kernels that the solver normalised, each one by itself.",
    "centred kernels": "The point belongs to kernels that the solver centred.",
    "ridge on the kernels": "The point is optimal for kernels with something added to the diagonal for stability.",
    "centred targets": "The solver subtracted the mean of the targets and did not add it again.",
    "standardised targets": "The point is optimal for targets over their deviation.",
    "labels 0 and 1": "The labels -1 and 1 were read as 0 and 1.",
    "class weights": "The point is optimal for other costs of the two classes, such as 'balanced' ones.",
    "sample weights misused": "The point is optimal for other sample weights: ignored, used twice, normalised.",
    "dropped samples": "The point is optimal without some samples, which were masked out or never read.",
    "duplicated samples": "The point is optimal for a problem in which some samples count several times.",
    "penalised intercept": "The intercept is part of the penalty: a constant feature, or a constant in the kernels.",
    "another regularizer": "The point is optimal for another regulariser: another p, no square, a smoothed problem.",
    "weights cleaned up": "Small weights were set to 0 after the dual variables or the objective were computed.",
    "weights of another iterate": "dual_coef fits other weights than those returned: the two are of different steps, "
    "orders or powers.",
    "inactive constraints violated": "The dual point holds for the kernels in use only; others were left out.",
    "weights stuck at zero": "The point is optimal without the kernels of weight 0, some of which should come back.",
    "weights not optimal": "The machine is solved for these weights, which are not the best: the iteration over the "
    "weights ended early (fixed number of steps, a stopping rule on a signed change) or follows a wrong direction.",
    "machine not solved": "The weights are right, or nearly, and dual_coef is not: the solver inside ended early, saw "
    "other samples or kernels, such as standardised ones, or returned something else, such as scores.",
    "inaccurate": "Close, but not within the tolerance: a loose inner tolerance, or `optimal_inaccurate` taken for "
    "optimal.",
    "not converged": "Far from the optimum.",
    "infeasible": "The gap is small, but a constraint is violated by more than the gap excuses.",
    "negative gap": "The bounds contradict each other beyond rounding: a kernel is indefinite.",
    "claimed convergence": "The solver says that it converged, and the certificate says that it did not.",
    "claimed objective": "The objective that the solver reports is not that of the point that it returns.",
    "dual value taken for J": "The objective that the solver reports is the dual value of a machine solved inexactly.",
    "claimed lower bound": "The lower bound that the solver reports exceeds the optimum.",
    "hidden negative gap": "The reported lower bound exceeds the reported objective: an absolute value hid it.",
    "error": "The solver raised an exception.",
    "altered problem": "The file of the problem is not the one that was published: damaged, or edited.",
    "contradicted bounds": "The bounds stated in the file or in the index are those of another C, loss or norm.",
    "input changed": "The solver wrote to the arrays of the problem.",
    "invariant violated": "Answers to related problems contradict each other, although each one is certified: "
    "the certificate is at fault.",
}
"""Every fault class by name."""
PRINTED = [one for k in range(2, 9) for one in ((f".{k}f", f"{k} decimals"), (f".{k}e", f"{k + 1} digits"))]
"""How a file of numbers is written with few digits."""


class Finding(NamedTuple):
    """One thing that is wrong with an answer."""

    fault: str
    """A key of `FAULTS`."""
    text: str
    """What was seen, with numbers."""
    others: tuple[str, ...] = ()
    """Faults that explain the answer as well: nothing in it tells them apart."""
    objectives: tuple[float, ...] = ()
    """Of the point in the problems with other losses or costs that it may be an answer to."""

    def __str__(self) -> str:
        return f"{self.fault}: {self.text} {FAULTS[self.fault]}"


class Point(NamedTuple):
    """Arrays of the right shape; None means the best for the rest."""

    dual_coef: Array
    weights: Array | None
    intercept: Any
    """b, or an array (P,) of P machines."""


class Reading(NamedTuple):
    """A point and a problem for which it may be optimal, and what that would mean."""

    fault: str
    text: str
    problem: Problem
    point: Point
    exact: bool = False
    """Whether the intercept is the point of it: the best one must not take its place."""
    adapted: bool = False
    """Whether a number was fitted that nobody could have meant: readings without one are simpler."""


def off_intercept(reading: Reading) -> Reading:
    """A reading that fits with another intercept than the one that was returned: two faults, and it says so."""
    return reading._replace(text=f"{reading.text.removesuffix('.')}; the intercept is wrong, too.")


def zeros(point: Point) -> list[str]:
    """Which halves of a point are all 0."""
    arrays = {"dual_coef": point.dual_coef, "weights": point.weights}
    return [name for name, given in arrays.items() if given is not None and not given.any()]


def also(others: list[tuple[float, Reading]]) -> str:
    """Readings that fit as well, each with the gap that it leaves."""
    if not others:
        return ""
    shown = "; ".join(f"{reading.fault} (gap {left:.0e}): {reading.text.removesuffix('.')}" for left, reading in others)
    return f"As well fits {shown}. "


def of_few_digits(problem: Problem, point: Point) -> str:
    """How dual_coef and weights, or one of them, were rounded, told by three numbers that need not be so; or empty."""
    beta, theta = np.ravel(point.dual_coef), np.empty(0) if point.weights is None else point.weights
    own = np.empty(0) if isinstance(problem.regularizer, Fixed) else theta  # those are the digits of the problem
    for what, numbers in (("its numbers are", np.append(beta, theta)), ("dual_coef is", beta), ("weights are", own)):
        given = np.abs(numbers)
        fine = np.setdiff1d(given[64.0 * np.frexp(given)[0] % 1.0 > 0.0], problem.costs)  # of 7 bits, and no bounds
        printed = [words for form, words in PRINTED if all(float(format(x, form)) == x for x in fine)]
        said = [f"rounded to {words} (write 17 digits)" for words in printed]
        stored = (("half", np.float16), ("single", np.float32))
        said += [f"of {words} precision" for words, kind in stored if np.array_equal(fine.astype(kind), fine)]
        if said and len(fine) > 2:
            return f"{what} {said[0]}: "
    return ""


Suspect = Callable[[Problem, Point], Iterator[Reading]]


def restated(
    fault: str, text: str, problem: Problem, point: Point, *, adapted: bool = False, **changes: object
) -> Iterator[Reading]:
    """The point as an answer to a changed problem, if there is such a problem."""
    try:
        changed = problem.replace(**changes)
    except InvalidInput:
        return
    moved = point if changed.intercept else point._replace(intercept=None)
    yield Reading(fault, text, changed, moved, adapted=adapted)


def optimal_for(fault: str, what: str, problem: Problem, point: Point, **changes: Any) -> Iterator[Reading]:
    """The point as an answer to a changed problem, which `what` names; see `restated`."""
    return restated(fault, f"it is optimal for {what}.", problem, point, **changes)


def in_reach(kernels: KernelStack) -> bool:
    """Whether other kernels are tried: for matrices in memory, or few entries, and where a copy of them has room."""
    entries = prod(kernels.shape)
    return (isinstance(kernels, ArrayStack) or entries <= SEEN) and 16.0 * entries <= free_memory()


def matrices(kernels: KernelStack) -> FloatArray:
    """All matrices, (M, n, n), to be changed; `NotApplicable` where they are out of reach."""
    if not in_reach(kernels):
        raise NotApplicable(f"{kernels} are too large for other kernels beside them.")
    return kernels.dense()


def unexplained(problem: Problem) -> str:
    """What is said where none of the suspects that were tried fits."""
    aside = "" if in_reach(problem.kernels) else "; other kernels were not tried, as these are too large"
    return f" No usual suspect explains it{aside}."


def scaled(kernels: Any, factors: Array | float) -> ArrayStack:
    """The kernels factors_m K_m, with what rounding left of their definiteness."""
    factors = np.broadcast_to(factors, len(kernels))
    return ArrayStack.trusted(list(factors[:, None, None] * matrices(kernels)), slack=factors[:, None] * kernels.slack)


def meant(value: float, named: Mapping[str, float], digits: int = 3, within: float = 2e-3) -> dict[str, float]:
    """What somebody could have meant by a number that was fitted: named values close to it, or a short decimal.

    A fit adapts to whatever it sees, and so has a slow run its best exponent, such as 1.00221. Nobody asks for that
    one; rounded to 1.00 it explains nothing, which its certificate shows.
    """
    if not np.isfinite(value):
        return {}
    short = float(f"{value:.{digits}g}")
    shorts = {} if short in named.values() else {f"{short:g}": short}
    return {text: number for text, number in {**named, **shorts}.items() if abs(number - value) <= within * abs(value)}


def sensible(value: float) -> tuple[float, bool]:
    """A number that was fitted, or the short decimal next to it, and whether nobody could have meant it."""
    short = float(f"{value:.2g}")
    near = abs(value - short) <= 1e-4 * abs(value)
    return (short, False) if near else (float(value), True)


def some_samples(where: Any) -> str:
    """The first samples by number, for a message."""
    return f"sample{'s' * (len(where) != 1)} {some(where)}"


def some(values: Any) -> str:
    """The first numbers, for a message."""
    shown = ", ".join(f"{value + 0.0:.4g}" for value in values[:6])  # not -0
    return shown + (", ..." if len(values) > 6 else "")
