"""The usual suspects: readings of an answer under which it would be optimal.

A suspect turns (problem, point) into readings: the same point of another problem (without an intercept, with 2C,
with the squared hinge), or another point of the same problem (-beta, other weights). A reading is plausible if
*its* certificate closes the gap that the answer leaves open. None of them asks a solver.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mklref._validate import counted, written
from mklref.certificate import certify, repair
from mklref.certificate.bounds import dual_losses
from mklref.certificate.intercept import intercept_objective, middle_intercept
from mklref.certificate.verdict import apart
from mklref.exceptions import InvalidParameter
from mklref.losses import LOSSES, EpsilonInsensitive, Logistic, Loss
from mklref.problem import Problem
from mklref.testing import data_suspects as data, weight_suspects as weights
from mklref.testing.data_suspects import ENOUGH
from mklref.testing.faults import Point, Reading, Suspect, meant, optimal_for, restated, sensible, some_samples
from mklref.testing.implied import common, fitted_epsilon, implied_costs

Mask = NDArray[np.bool_]
_IMAGINABLE = 1e-6
"""Smallest factor of C that is fitted."""


def intercepts(problem: Problem, point: Point) -> Iterator[Reading]:
    """-b, or the best b."""
    if not problem.intercept or point.intercept is None:
        return
    b = point.intercept
    if b:
        text = f"{-b:.6g} fits, {b:.6g} does not."
        yield Reading("other sign of the intercept", text, problem, point._replace(intercept=-b), exact=True)
    best: Any = certify(problem, point.dual_coef, weights=point.weights, intercept=b).better_intercept
    text = "{} is not the best: {} is.".format(*apart(b, best))
    yield Reading("wrong intercept", text, problem, point._replace(intercept=None))


def signs(problem: Problem, point: Point) -> Iterator[Reading]:
    """y beta and -beta."""
    if problem.loss.targets == "labels":
        signed = point._replace(dual_coef=problem.y * point.dual_coef)
        yield Reading("unsigned dual_coef", "y * dual_coef is optimal, dual_coef is not.", problem, signed)
    b = None if point.intercept is None else -point.intercept
    negated = point._replace(dual_coef=-point.dual_coef, intercept=b)
    yield Reading("negated dual_coef", "-dual_coef is optimal, dual_coef is not.", problem, negated)


def units(problem: Problem, point: Point) -> Iterator[Reading]:
    """beta in units of C or of 1/n, as in a mean of losses."""
    n, C = problem.n_samples, problem.C
    factors = {"C": C, "1/C": 1 / C, "n": n, "C n": C * n}
    yield from _scales(
        problem, point, {text: factor for text, factor in factors.items() if factor not in (0.5, 1.0, 2.0)}
    )


def scales(problem: Problem, point: Point) -> Iterator[Reading]:
    """Other multiples of beta. Where no sample is at its bound, those of the kernels are the same, and are usual."""
    yield from _scales(problem, point, {"2": 2.0, "1/2": 0.5, "1/n": 1.0 / problem.n_samples})


def _scales(problem: Problem, point: Point, factors: dict[str, float]) -> Iterator[Reading]:
    for text, factor in factors.items():
        scaled = point._replace(dual_coef=factor * point.dual_coef)
        yield Reading("scaled dual_coef", f"{text} times dual_coef is optimal.", problem, scaled)


def costs(problem: Problem, point: Point) -> Iterator[Reading]:
    """Other C: a mean in place of a sum, a factor 2, C on the regulariser; or as large as the largest |beta_i|."""
    n, C, M = problem.n_samples, problem.C, problem.n_kernels
    factors = {"2": 2.0, "1/2": 0.5, "4": 4.0, "1/4": 0.25, "1/n": 1 / n, "n": n, "2/n": 2 / n, "n/2": n / 2}
    factors |= {"M": M, "1/M": 1 / M, "1/C^2": 1 / C / C, "1/C": 1 / C}
    for text, factor in factors.items():
        if abs(factor - 1.0) > 1e-9:
            yield from _other_cost(problem, point, text, factor)


def cost_that_fits(problem: Problem, point: Point) -> Iterator[Reading]:
    """C as large as the largest |beta_i|, or as the samples off the kinks imply, if enough of them agree."""
    sizes = np.abs(point.dual_coef) / problem.costs
    fitted = [float(sizes.max(initial=0.0))] if (sizes > (1.0 - 1e-6) * sizes.max(initial=0.0)).sum() > 1 else []
    ratios = implied_costs(problem, point)
    known = np.empty(0) if ratios is None else ratios[np.isfinite(ratios)]
    if len(known) >= ENOUGH or (len(known) > 1 and np.ptp(known) <= 1e-4 * abs(known[0])):
        fitted.append(common(known))
    elif len(known) == 1:  # one sample at its bound will do for a number that somebody could have meant
        fitted += meant(float(known[0]), {}, digits=2, within=1e-6).values()
    for unit in (1.0, problem.C):
        for found in fitted:
            factor, adapted = sensible(found * unit)
            factor /= unit
            if _IMAGINABLE < factor < 1.0 / _IMAGINABLE and abs(factor - 1.0) > 1e-9:
                yield from _other_cost(problem, point, f"{factor:.6g}", factor, adapted)


def _other_cost(problem: Problem, point: Point, text: str, factor: float, adapted: bool = False) -> Iterator[Reading]:
    what = f"{text} times C, that is {factor * problem.C:.6g}"
    yield from optimal_for("wrong scale of C", what, problem, point, C=factor * problem.C, adapted=adapted)


def intercept_constraint(problem: Problem, point: Point) -> Iterator[Reading]:
    """The problem without an intercept where it has one, and the other way round."""
    if problem.intercept:
        fault, total = "missing intercept constraint", float(point.dual_coef.sum())
        text = f"dual_coef sums to {total:.6g} instead of {problem.intercept_cost:g}."
    else:
        fault, text = "superfluous intercept", "dual_coef sums to 0 and is optimal with an intercept."
    yield from restated(fault, text, problem, point, intercept=not problem.intercept)


def other_losses(problem: Problem, point: Point) -> Iterator[Reading]:
    """Losses for targets of these values, with C, 2C and C/2 for a missing 1/2."""
    targets = {problem.loss.targets} | ({"labels", "real"} if set(problem.y) == {-1.0, 1.0} else set())
    losses = [kind() for kind in LOSSES.values() if kind.targets in targets]
    losses += [EpsilonInsensitive(0.0)] if "real" in targets else []
    for loss in losses:
        if isinstance(problem.loss, type(loss)):
            continue
        for factor, text in ((1.0, ""), (2.0, ", with 2 C"), (0.5, ", with C/2")):
            free = problem.intercept and loss.intercept != "forbidden"
            changes = {"loss": loss, "C": factor * problem.C, "intercept": free}
            yield from optimal_for("another loss", _described(loss) + text, problem, point, **changes)


def other_parameters(problem: Problem, point: Point) -> Iterator[Reading]:
    """tau for 1 - tau, an epsilon or a delta in other units, defaults of others, or the epsilon that fits."""
    for name, value in vars(problem.loss).items():
        if not isinstance(value, int | float):  # of a class of somebody's own
            continue
        deviation, reach = float(problem.y.std()), float(np.ptp(problem.y))
        if name == "tau":
            candidates = {"1 - tau": 1.0 - value, "tau/2": value / 2.0, "1/2": 0.5}
        else:
            candidates = {f"{name} std(y)": value * deviation, f"{name} (max y - min y)": value * reach}
            candidates |= {f"{name}/std(y)": value / deviation} if deviation > 0.0 else {}
            candidates |= {f"2 {name}": 2.0 * value, f"{name}/2": value / 2.0, f"{name}^2": value * value}
            candidates |= {f"{default:g}": default for default in (0.0, 0.001, 0.01, 0.1, 1.0, 1.345, 1.35)}
        if isinstance(problem.loss, EpsilonInsensitive) and (fitted := fitted_epsilon(problem, point)) is not None:
            candidates |= meant(fitted, candidates)
        for text, candidate in candidates.items():
            if abs(candidate - value) > 1e-9 * abs(value):
                try:
                    loss = type(problem.loss)(**{**vars(problem.loss), name: candidate})
                except InvalidParameter:
                    continue
                number = f"{candidate:.6g}"
                told = text if text == number else f"{text} = {number}"
                what = f"{name} = {told}, the problem has {value:.6g}"
                yield from optimal_for("another parameter of the loss", what, problem, point, loss=loss)


def logarithms(problem: Problem, point: Point) -> Iterator[Reading]:
    """log_2(1 + e^-z) is the logistic loss over log 2; log_2(1 + 2^-z) is that at log 2 times the score."""
    if not isinstance(problem.loss, Logistic):
        return
    log2 = float(np.log(2.0))
    text = "the logistic loss with base 2, "
    yield from optimal_for("another loss", f"{text}log_2(1 + exp(-z))", problem, point, C=problem.C / log2)
    if problem.regularizer.degree == 2.0:
        b = None if point.intercept is None else log2 * point.intercept
        moved = Point(log2 * point.dual_coef, point.weights, b)
        yield from optimal_for("another loss", f"{text}log_2(1 + 2^-z)", problem, moved, C=problem.C * log2)


def labels(problem: Problem, point: Point) -> Iterator[Reading]:
    """Other labels for the samples whose dual variable has the wrong sign, and for those that are wrong without one."""
    wrong, silent = _wrong_labels(problem, point)
    if wrong.any():
        yield from _relabelled(problem, point, wrong)
        if silent.any():
            yield from _relabelled(problem, point, wrong | silent)


def moved_targets(problem: Problem, point: Point) -> Iterator[Reading]:
    """Targets that are a row away from their samples, or in the opposite order."""
    y = problem.y
    for where, moved in {"a row late": np.roll(y, 1), "a row early": np.roll(y, -1), "backwards": y[::-1]}.items():
        if not np.array_equal(moved, y):
            text = f"it is optimal for the targets {where}."
            yield from restated("permuted samples", text, problem, point, y=moved)


def silent_labels(problem: Problem, point: Point) -> Iterator[Reading]:
    """Other labels for the samples that are wrong and have no dual variable, which may have been dropped as well."""
    wrong, silent = _wrong_labels(problem, point)
    if silent.any() and not wrong.any():
        yield from _relabelled(problem, point, silent)


def _wrong_labels(problem: Problem, point: Point) -> tuple[Mask, Mask]:
    """Samples whose dual variable has the wrong sign, and samples beyond the other margin without a dual variable."""
    beta, y = point.dual_coef, problem.y
    none = np.zeros(len(y), dtype=bool)
    if problem.loss.targets != "labels":
        return none, none
    size = float(np.abs(beta).max(initial=0.0))
    theta = point.weights if point.weights is not None else np.ones(problem.n_kernels)
    t = theta @ problem.kernels.apply(beta) + (point.intercept or 0.0)
    return beta * y < -1e-6 * size, (np.abs(beta) <= 1e-9 * size) & (y * t < -1.0 + 1e-3)


def _relabelled(problem: Problem, point: Point, flipped: Mask) -> Iterator[Reading]:
    if flipped.sum() <= len(flipped) // 2:
        labels = f"{counted(int(flipped.sum()), 'label')} {'is' if flipped.sum() == 1 else 'are'}"
        text = f"{labels} read the other way round: {some_samples(np.flatnonzero(flipped))}."
        y = np.where(flipped, -problem.y, problem.y)
        yield from restated("relabelled samples", text, problem, point, y=y)


def permuted_machines(problem: Problem, point: Point) -> Iterator[Reading]:
    """The rows of dual_coef for the machines, with the signs, that they solve at these weights.

    What a row lacks to solve a machine is sum_i c_i V(t_i) + c_i V*(-beta_i/c_i) + beta_i t_i >= 0 (Fenchel, Young).
    """
    from scipy.optimize import linear_sum_assignment

    if point.weights is None:
        return
    given: Any = [None] * len(problem.machines) if point.intercept is None else point.intercept
    P = range(len(problem.machines))
    lacks = np.full((len(P), len(P), 2), np.inf)
    for p, row in enumerate(point.dual_coef):
        images = point.weights @ problem.kernels.apply(row)
        for (q, (one, samples, *_)), (k, sign) in product(enumerate(problem.machines), enumerate((1.0, -1.0))):
            beta, scores = repair(one, sign * row[samples])[0], sign * images[samples]
            b = middle_intercept(one, scores) if given[p] is None else sign * given[p]
            lacks[q, p, k] = intercept_objective(one, scores, b) - dual_losses(one, [beta]) + beta @ scores
    rows = linear_sum_assignment(np.nan_to_num(lacks.min(axis=2), nan=1e300, posinf=1e300))[1]
    if np.any(rows != P):
        signs = np.where(lacks[P, rows].argmin(axis=1) == 0, 1.0, -1.0)
        turned = ", ".join(f"{'-' if sign < 0.0 else ''}{p}" for p, sign in zip(rows, signs, strict=True))
        text = f"the machines in their order are solved by the rows {turned} of dual_coef."
        b = None if point.intercept is None else signs * np.asarray(point.intercept)[rows]
        yield Reading(
            "permuted machines", text, problem, Point(signs[:, None] * point.dual_coef[rows], point.weights, b)
        )


def _described(loss: Loss) -> str:
    parameters = ", ".join(f"{name} = {written(value)}" for name, value in vars(loss).items())
    return f"the loss {loss.name}" + (f" ({parameters})" if parameters else "")


EXACT: tuple[Suspect, ...] = (
    intercepts,
    data.centered_kernels,
    data.other_targets,
    signs,
    units,
    intercept_constraint,
    weights.spheres,
    costs,
    data.scaled_kernels,
    scales,
    logarithms,
    other_parameters,
    other_losses,
    weights.unsquared_norm,
    data.sample_weights,
    data.lost_class,
    data.class_weights,
    data.normalized_kernels,
    data.penalized_intercept,
    cost_that_fits,
    data.scale_that_fits,
    data.ridge,
    moved_targets,
    labels,
)
"""Suspects whose numbers somebody could have meant, the simplest first: where several fit, all are listed so.

What is returned wrongly comes before a problem that was stated wrongly, a factor before factors for each."""

FITTED: tuple[Suspect, ...] = (
    data.class_weights_that_fit,
    data.counted_samples,
    silent_labels,
    weights.other_regularizers,
    data.factors_that_fit,
    weights.used_kernels,
    weights.smaller_balls,
    weights.shares,
)
"""Suspects that adapt to the point, and therefore have to fit better; those that explain all kernels come first."""

HALVES: tuple[Suspect, ...] = (weights.machine,)
"""The dual variables fit the weights: a point that answers no other question, of an iteration over the weights."""

INNER: tuple[Suspect, ...] = (weights.inner_machine,)
"""They do not, and the weights are as good as a machine that was not solved lets them be."""

LAST: tuple[Suspect, ...] = (weights.other_weights, *INNER)
"""They do not: one half of the point is right."""

OF_ALL: tuple[Suspect, ...] = (weights.spheres, weights.shares, permuted_machines, weights.permuted_samples)
"""What all machines of a problem have in common, to be tried before each one by itself."""

OF_THEIR_WEIGHTS: tuple[Suspect, ...] = (data.normalized_kernels, weights.other_regularizers)
"""The same, to be tried where each machine is solved for these weights."""
