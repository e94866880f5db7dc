"""The usual suspects: readings of an answer under which it would be optimal.

A suspect turns (problem, point) into readings: the same point of another problem (without an intercept, with 2C,
with the squared hinge), or another point of the same problem (-beta, other weights). A reading is plausible if
*its* certificate closes the gap that the answer leaves open. None of them asks a solver.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from mklref.losses import LOSSES, EpsilonInsensitive, Loss
from mklref.problem import Problem
from mklref.testing.readings import Point, Reading, Suspect, restated, some
from mklref.testing.weight_suspects import (
    machine,
    other_regularizers,
    other_weights,
    smaller_balls,
    spheres,
    used_kernels,
)


def intercepts(problem: Problem, point: Point) -> Iterator[Reading]:
    """-b, or the best b."""
    if not problem.intercept or point.intercept is None:
        return
    b = point.intercept
    if b:
        text = f"{-b:.6g} fits, {b:.6g} does not."
        yield Reading("other sign of the intercept", text, problem, point._replace(intercept=-b), exact=True)
    yield Reading("wrong intercept", f"{b:.6g} is not the best.", problem, point._replace(intercept=None))


def signs(problem: Problem, point: Point) -> Iterator[Reading]:
    """y beta and -beta."""
    if problem.loss.targets == "labels":
        signed = point._replace(dual_coef=problem.y * point.dual_coef)
        yield Reading("unsigned dual_coef", "y * dual_coef is optimal, dual_coef is not.", problem, signed)
    b = None if point.intercept is None else -point.intercept
    negated = point._replace(dual_coef=-point.dual_coef, intercept=b)
    yield Reading("negated dual_coef", "-dual_coef is optimal, dual_coef is not.", problem, negated)


def scales(problem: Problem, point: Point) -> Iterator[Reading]:
    """Multiples of beta: units of C, of n, a factor 2."""
    n, C = problem.n_samples, problem.C
    for text, factor in {"C": C, "1/C": 1 / C, "n": n, "1/n": 1 / n, "C n": C * n, "2": 2.0, "1/2": 0.5}.items():
        scaled = point._replace(dual_coef=factor * point.dual_coef)
        yield Reading("scaled dual_coef", f"{text} times dual_coef is optimal.", problem, scaled)


def costs(problem: Problem, point: Point) -> Iterator[Reading]:
    """Other C: a mean in place of a sum, a factor 2, C on the regulariser; or as large as the largest |beta_i|."""
    n, C, M = problem.n_samples, problem.C, problem.n_kernels
    factors = {"2": 2.0, "1/2": 0.5, "4": 4.0, "1/4": 0.25, "1/n": 1 / n, "n": n, "2/n": 2 / n, "n/2": n / 2}
    factors |= {"M": M, "1/M": 1 / M, "1/C^2": 1 / C**2, "1/C": 1 / C}
    largest = float(np.max(np.abs(point.dual_coef) / problem.costs, initial=0.0))
    factors |= {f"{largest:.6g}": largest}
    for text, factor in factors.items():
        if factor > 0.0 and abs(factor - 1.0) > 1e-9:
            yield from restated(
                "wrong scale of C", f"it is optimal for {text} times C, that is {factor * C:.6g}.", problem, point,
                C=factor * C,
            )  # fmt: skip


def intercept_constraint(problem: Problem, point: Point) -> Iterator[Reading]:
    """The problem without an intercept where it has one, and the other way round."""
    if not problem.intercept:
        yield from restated(
            "superfluous intercept", "dual_coef sums to 0 and is optimal with an intercept.", problem, point,
            intercept=True,
        )  # fmt: skip
        return
    total = float(point.dual_coef.sum())
    text = f"dual_coef sums to {total:.6g} instead of {problem.intercept_cost:g}."
    yield from restated(
        "missing intercept constraint", text, problem, point._replace(intercept=None), intercept=False
    )  # fmt: skip


def other_losses(problem: Problem, point: Point) -> Iterator[Reading]:
    """Losses of the same kind of targets, with C, 2C and C/2 for a missing 1/2."""
    losses = [kind() for kind in LOSSES.values() if kind.targets == problem.loss.targets]
    losses += [EpsilonInsensitive(0.0)] if problem.loss.targets == "real" else []
    if problem.loss.name == "epsilon_insensitive":
        epsilon = float(problem.loss.epsilon)  # type: ignore[attr-defined]
        losses += [EpsilonInsensitive(factor * epsilon) for factor in (0.5, 2.0)]
    for loss in losses:
        if loss == problem.loss:
            continue
        for factor, text in ((1.0, ""), (2.0, ", with 2 C"), (0.5, ", with C/2")):
            free = problem.intercept and loss.intercept != "forbidden"
            named = f"it is optimal for {_described(loss)}{text}."
            moved = point if free else point._replace(intercept=None)
            yield from restated("another loss", named, problem, moved, loss=loss, C=factor * problem.C, intercept=free)


def labels(problem: Problem, point: Point) -> Iterator[Reading]:
    """Other labels for the samples whose dual variable has the wrong sign, or that are wrong without one."""
    if problem.loss.targets != "labels":
        return
    beta, y = point.dual_coef, problem.y
    wrong = beta * y < -1e-6 * np.abs(beta).max(initial=0.0)
    if not wrong.any() or wrong.sum() > len(y) // 2:
        return
    theta = point.weights if point.weights is not None else np.ones(problem.n_kernels)
    t = theta @ problem.kernels.apply(beta) + (point.intercept or 0.0)
    for flipped in (wrong, wrong | ((beta == 0.0) & (y * t < -1.0 + 1e-3))):
        text = f"{int(flipped.sum())} labels are read the other way round: samples {some(np.flatnonzero(flipped))}."
        yield from restated("relabelled samples", text, problem, point, y=np.where(flipped, -y, y))


def _described(loss: Loss) -> str:
    parameters = ", ".join(f"{name} = {value:g}" for name, value in vars(loss).items())
    return f"the loss {loss}" + (f" ({parameters})" if parameters else "")


EXACT: tuple[Suspect, ...] = (
    intercepts,
    signs,
    intercept_constraint,
    spheres,
    costs,
    scales,
    other_losses,
    labels,
)
"""Suspects without a free parameter, in the order in which they are believed where several fit."""

FLEXIBLE: tuple[Suspect, ...] = (used_kernels, other_weights, other_regularizers, smaller_balls, machine)
"""Suspects that adapt to the point, and therefore have to fit better."""
