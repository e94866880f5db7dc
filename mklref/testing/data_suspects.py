"""Suspects that concern the data: other kernels, other targets, other costs than those of the problem.

Where a quantity is unknown it is read off the point (`mklref.testing.implied`). Fitted numbers are rounded to what
somebody could have meant, or have to satisfy more equations than they have freedom, and are then certified like others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product

import numpy as np

from mklref._typing import Array, FloatArray
from mklref.exceptions import InvalidKernel
from mklref.kernels.stack import ArrayStack
from mklref.kernels.transforms import Normalizer
from mklref.problem import Problem
from mklref.regularizers import Fixed
from mklref.testing.faults import (
    Point,
    Reading,
    matrices,
    meant,
    optimal_for,
    restated,
    scaled,
    sensible,
    some,
    some_samples,
)
from mklref.testing.implied import common, fitted_factors, implied_costs, least_counts, scores_of, weights_of
from mklref.testing.weight_suspects import free_samples, weights_of_the_machine

NEARLY_NOTHING = 1e-9
"""Weight of a sample that was left out; the share of a diagonal, or of a sum, that is rounding."""
_NO_WEIGHT = 1e-6
"""Share of the largest weight up to which a kernel is not used."""
USUAL_RIDGES = (1e-2, 1e-3, 1e-4, 1e-5, 1e-6)
"""What is added to diagonals, tried where too few samples are inside their box for a fit."""
_NORMALISED = 1e-3
"""Largest factor, less 1, with which the kernels of a problem are those that a normalisation makes of them."""
_UNEQUAL = 0.1
"""Least spread of factors that a normalisation explains; weights of an inexact answer are off by a few per cent."""
ENOUGH = 4
"""Equations that a factor has to satisfy before it is believed, whatever its value."""

NORMALIZATIONS: dict[str, tuple[str, Callable[[FloatArray], FloatArray]]] = {
    "unit trace": ("K / trace(K)", lambda K: Normalizer("trace").fit(K, "kernel").train(K)),
    "trace n": ("n K / trace(K)", lambda K: len(K) * Normalizer("trace").fit(K, "kernel").train(K)),
    "spherical": ("K_ij / sqrt(K_ii K_jj)", lambda K: Normalizer("spherical").fit(K, "kernel").train(K)),
    "multiplicative": ("K / (mean K_ii - mean K_ij)", lambda K: Normalizer("multiplicative").fit(K, "kernel").train(K)),
    "unit Frobenius norm": ("K / ||K||_F", lambda K: K / (float(np.linalg.norm(K)) or 1.0)),
    "largest entry 1": ("K / max K_ij", lambda K: K / (float(np.abs(K).max()) or 1.0)),
}
"""What solvers do to kernels before they start: the name, the formula, the new matrix."""


def scaled_kernels(problem: Problem, point: Point) -> Iterator[Reading]:
    """One factor for all kernels that has a usual cause."""
    n, M, total = float(problem.n_samples), float(problem.n_kernels), float(problem.kernels.traces().sum())
    usual = {
        "2": (2.0, "a missing 1/2 of the quadratic"),
        "1/2": (0.5, "a 1/2 too many"),
        "n": (n, "a sum in place of a mean"),
        "1/n": (1.0 / n, "kernels divided by n"),
        "M": (M, "a sum of kernels in place of their mean"),
        "1/M": (1.0 / M, "the mean of the kernels in place of their sum"),
    }
    if total > 0.0:
        usual["1/trace"] = 1.0 / total, "kernels divided by the trace of their sum"
        usual["n/trace"] = n / total, "the mean diagonal made 1"
    for text, (factor, cause) in usual.items():
        if abs(factor - 1.0) > 1e-9:
            yield from _scaled("scaled kernels", problem, point, factor, f"{text} times the kernels: {cause}")


def scale_that_fits(problem: Problem, point: Point) -> Iterator[Reading]:
    """The factor of the scores which beta asks for over those which it has."""
    scores = scores_of(problem, point)
    fitted = fitted_factors(problem, point, [scores])
    free, t = free_samples(problem, point.dual_coef)
    if scores is None or fitted is None or len(t) < ENOUGH:
        return
    b = fitted[1] if problem.intercept else 0.0
    (factor, adapted), rest = sensible(fitted[0]), t - fitted[0] * scores[free] - b
    agree = float(np.abs(rest).max()) <= 1e-3 * float(np.abs(t - b).max())
    if agree and factor > 0.0 and abs(factor - 1.0) > 1e-9:
        yield from _scaled("scaled kernels", problem, point, factor, f"{factor:.6g} times the kernels", adapted)


def factors_that_fit(problem: Problem, point: Point) -> Iterator[Reading]:
    """A factor for each kernel: the weights that the machine of beta has over those that were returned."""
    if point.weights is None or isinstance(problem.regularizer, Fixed):  # which asks nothing of the weights
        return
    theta = weights_of_the_machine(problem, point.dual_coef)
    if theta is None or len(free_samples(problem, point.dual_coef)[1]) < ENOUGH:
        return
    used = point.weights > _NO_WEIGHT * point.weights.max()
    factors = theta[used] / point.weights[used]
    if np.ptp(factors) > _UNEQUAL * factors.max() and factors.all():
        each = np.full(problem.n_kernels, factors.min())  # kernels without a weight say nothing
        each[used] = factors
        text = f"kernels that were normalised inside the solver, {some(each)} times these"
        yield from _scaled("normalised kernels", problem, point, each, text, adapted=True)


def _scaled(
    fault: str, problem: Problem, point: Point, factors: float | Array, text: str, adapted: bool = False
) -> Iterator[Reading]:
    yield from optimal_for(fault, text, problem, point, kernels=scaled(problem.kernels, factors), adapted=adapted)


def normalized_kernels(problem: Problem, point: Point) -> Iterator[Reading]:
    """A factor for each kernel, or for each entry; without an intercept, to which it is no matter, of centred ones."""
    plain = matrices(problem.kernels)
    stacks = {"K": plain} if problem.intercept else {"K": plain, "K = H K H": _centred(plain)}
    for (which, stack), (name, (formula, transform)) in product(stacks.items(), NORMALIZATIONS.items()):
        try:
            kernels = ArrayStack.trusted([transform(matrix) for matrix in stack])
        except InvalidKernel:
            continue
        shown = formula if which == "K" else f"{formula}, {which}"
        text = f"kernels that were normalised inside the solver ({name}: {shown})"
        yield from optimal_for("normalised kernels", text, problem, point, kernels=kernels)
        if point.weights is not None and which == "K" and name != "spherical":  # a factor for each kernel
            own = problem.kernels.traces()
            factors = np.divide(kernels.traces(), own, where=own > 0.0, out=np.ones(len(own)))
            moved = point._replace(weights=point.weights / factors)
            text += ", whose weights were returned for K"
            if np.abs(factors - 1.0).max() > _NORMALISED:  # else any other fault would have this one beside it
                yield from optimal_for("normalised kernels", text, problem, moved, kernels=kernels)


def centered_kernels(problem: Problem, point: Point) -> Iterator[Reading]:
    """Kernels around the mean of the samples; with an intercept this changes nothing but b."""
    if not problem.intercept:
        slack = np.repeat(problem.kernels.slack.max(axis=1, keepdims=True), problem.n_samples, axis=1)
        kernels = ArrayStack.trusted(list(_centred(matrices(problem.kernels).astype(float))), slack=slack)
        yield from optimal_for("centred kernels", "H K H, H = I - 11'/n", problem, point, kernels=kernels)
    elif point.intercept is not None and (scores := scores_of(problem, point)) is not None:
        b = point.intercept - float(scores.mean())
        text = f"the intercept belongs to centred kernels; {b:.6g} fits these, {point.intercept:.6g} does not."
        yield Reading("centred kernels", text, problem, point._replace(intercept=b), exact=True)


def _centred(kernels: FloatArray) -> FloatArray:
    return np.array([Normalizer(center=True).fit(matrix, "kernel").train(matrix) for matrix in kernels])


def ridge(problem: Problem, point: Point) -> Iterator[Reading]:
    """Something added to every diagonal, the same or in proportion to the trace."""
    theta = weights_of(problem, point)
    if theta is None:
        return
    scores = scores_of(problem, point)
    diagonal = problem.kernels.traces() / problem.n_samples
    shapes = {"": np.ones(problem.n_kernels), " trace(K)/n": diagonal}
    for unit, sizes in shapes.items():
        fitted = fitted_factors(problem, point, [float(theta @ sizes) * point.dual_coef], minus=scores)
        enough = len(free_samples(problem, point.dual_coef)[1]) >= ENOUGH
        candidates = {} if enough else {f"{size:g}": size for size in USUAL_RIDGES}
        if fitted is not None and fitted[0] > 0.0 and enough:
            candidates = meant(fitted[0], {}, digits=2, within=5e-2)
        for text, size in candidates.items():
            if np.all(size * sizes <= NEARLY_NOTHING * diagonal):
                continue
            plain = matrices(problem.kernels)
            added = np.multiply.outer(size * sizes, np.eye(problem.n_samples))
            kernels = ArrayStack.trusted(list(plain + added), slack=problem.kernels.slack)
            what = f"kernels with {text}{unit} added to the diagonal"
            yield from optimal_for("ridge on the kernels", what, problem, point, kernels=kernels)


def other_targets(problem: Problem, point: Point) -> Iterator[Reading]:
    """Real targets that were centred or standardised, or are labels that were read as 0 and 1."""
    y = problem.y
    if problem.loss.targets != "real":
        return
    if set(np.unique(y)) <= {-1.0, 1.0}:
        text = "the targets 0 and 1 in place of -1 and 1"
        yield from optimal_for("labels 0 and 1", text, problem, point, y=(y + 1.0) / 2.0)
    mean, deviations = float(y.mean()), {"": float(y.std()), ", ddof=1": float(y.std(ddof=1))}
    if problem.intercept and point.intercept is not None:
        b = point.intercept + mean
        text = f"the intercept lacks the mean of the targets; {b:.6g} fits, {point.intercept:.6g} does not."
        yield Reading("centred targets", text, problem, point._replace(intercept=b), exact=True)
    text = "y - mean(y)" + " without an intercept" * problem.intercept
    yield from optimal_for("centred targets", text, problem, point, y=y - mean, intercept=False)
    for which, deviation in deviations.items():
        if deviation > 0.0 and abs(deviation - 1.0) > 1e-9:
            for formula, changed in ((f"(y - mean(y))/std(y{which})", y - mean), (f"y/std(y{which})", y)):
                text = f"{formula}, std = {deviation:.6g}"
                yield from optimal_for("standardised targets", text, problem, point, y=changed / deviation)


def lost_class(problem: Problem, point: Point) -> Iterator[Reading]:
    """Labels 0 and 1 in y f(x): the loss of class 0 is constant, and its dual variables are 0."""
    if problem.loss.targets != "labels":
        return
    size = float(np.abs(point.dual_coef).max(initial=0.0))
    for label in (-1.0, 1.0):
        own = problem.y == label
        rest = float(np.abs(point.dual_coef[own]).max(initial=0.0))
        if rest <= 1e-7 * size:
            text = f"it is optimal without the samples of class {label:g}, whose product y f is always 0."
            weight = np.where(own, max(rest, 1e-12 * size), problem.costs) / problem.C
            yield from restated("labels 0 and 1", text, problem, point, sample_weight=weight)


def class_weights(problem: Problem, point: Point) -> Iterator[Reading]:
    """Costs of each class in proportion to 1/n_k, or as its samples imply."""
    if problem.loss.targets != "labels":
        return
    n, counts = problem.n_samples, {label: int((problem.y == label).sum()) for label in (-1.0, 1.0)}
    schemes = {
        "n/(2 n_k), 'balanced'": {label: n / (2.0 * count) for label, count in counts.items()},
        "1/n_k": {label: 1.0 / count for label, count in counts.items()},
        "n/n_k": {label: n / count for label, count in counts.items()},
        "n_k/n": {label: count / n for label, count in counts.items()},
    }
    yield from _by_class(problem, point, schemes)


def class_weights_that_fit(problem: Problem, point: Point) -> Iterator[Reading]:
    """Costs of each class as its samples imply."""
    ratios = implied_costs(problem, point)
    if problem.loss.targets != "labels" or ratios is None:
        return
    members = {label: problem.y == label for label in (-1.0, 1.0)}
    fitted = {label: common(ratios[own]) for label, own in members.items()}
    if not any(fitted.values()):
        return
    least = least_counts(problem, point)
    scheme = {  # the cost of a class without samples off the kinks is large enough, and does not matter
        label: sensible(ratio)[0] if ratio else float(least[members[label]].max()) for label, ratio in fitted.items()
    }
    yield from _by_class(problem, point, {"as fitted": scheme})


def _by_class(problem: Problem, point: Point, schemes: dict[str, dict[float, float]]) -> Iterator[Reading]:
    for name, scheme in schemes.items():
        if abs(scheme[1.0] - scheme[-1.0]) > 1e-9 * scheme[1.0] and min(scheme.values()) > 0.0:
            text = f"costs {scheme[-1.0]:.4g} C of class -1 and {scheme[1.0]:.4g} C of 1 ({name})"
            weight = np.where(problem.y > 0.0, scheme[1.0], scheme[-1.0]) * (problem.costs / problem.C)
            yield from optimal_for("class weights", text, problem, point, sample_weight=weight)


def sample_weights(problem: Problem, point: Point) -> Iterator[Reading]:
    """The weights of the samples ignored, used twice, or normalised."""
    weight = problem.sample_weight
    if weight is None:
        return
    changes = {
        "ignored": None,
        "used twice": weight**2,
        "divided by their sum": weight / weight.sum(),
        "divided by their mean": weight / weight.mean(),
        "divided by the largest": weight / weight.max(),
        "used under a root": np.sqrt(weight),
    }
    for what, changed in changes.items():
        text = f"sample weights that are {what}"
        yield from optimal_for("sample weights misused", text, problem, point, sample_weight=changed)


def counted_samples(problem: Problem, point: Point) -> Iterator[Reading]:
    """Samples that were left out, or count twice: those whose costs are off by a whole factor."""
    ratios = implied_costs(problem, point)
    if ratios is None:
        return
    least = least_counts(problem, point)
    count = np.where(np.isnan(ratios), least, np.round(np.nan_to_num(ratios, posinf=1.0)))
    out, more = np.flatnonzero(count == 0.0), np.flatnonzero(count > 1.0)
    weight = np.maximum(count, NEARLY_NOTHING) * (problem.costs / problem.C)
    if not len(out) + len(more) or (count == 1.0).sum() < problem.n_samples / 2:
        return
    if len(out):
        text = f"it is optimal without {some_samples(out)}" + f", with {some(more)} repeated" * bool(len(more)) + "."
        yield from restated("dropped samples", text, problem, point, sample_weight=weight)
    else:
        text = f"a problem in which {some_samples(more)} {'is' if len(more) == 1 else 'are'} repeated"
        yield from optimal_for("duplicated samples", text, problem, point, sample_weight=weight)


def penalized_intercept(problem: Problem, point: Point) -> Iterator[Reading]:
    """lam b^2/2 in the objective: at the optimum 1'beta = lam b, where a free intercept has 1'beta = c_b.

    Such a point is optimal with the linear term s b, s = 1'beta, in place of lam b^2/2, whose slopes there agree.
    """
    total = float(point.dual_coef.sum())
    if not problem.intercept or problem.intercept_cost:
        return
    if abs(total) <= NEARLY_NOTHING * np.abs(point.dual_coef).sum():
        return
    theta = weights_of(problem, point)
    strengths = {"1": 1.0} | ({} if theta is None or not theta.any() else {"1/sum(theta)": 1.0 / float(theta.sum())})
    if point.intercept:
        strengths = meant(total / point.intercept, strengths)
    loss = problem.loss
    tilted = type(type(loss).__name__, (type(loss),), {"intercept_cost": total, "intercept": "required"})(**vars(loss))
    for text, strength in strengths.items():
        if strength > 0.0:
            shown = f"dual_coef sums to lam b instead of 0, lam = {text}: the objective has lam b^2/2."
            moved = point._replace(intercept=total / strength)
            for reading in restated("penalised intercept", shown, problem, moved, loss=tilted):
                yield reading._replace(exact=True)
