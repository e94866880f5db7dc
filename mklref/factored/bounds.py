"""Bounds of the optimum that the path knows at its points, without another read of the rows.

f = L v + b is feasible as it stands, and so is beta with what exceeds 1'beta = c_b taken off its larger side. While
rows are left out the lower bound holds for all samples, and the upper one where the path has just looked at all.

What a certificate leaves open beside them may be rounding alone, which other points on the same rows have as well; or
what a bound of the path does not need: beta at the ends of the box, and theta L'beta = v.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.linalg import LinAlgError, cho_solve

from mklref._typing import Array
from mklref.certificate import Certificate
from mklref.factored.rounds import machines_of
from mklref.factored.system import factorised
from mklref.kernels.factor_stack import FactorStack
from mklref.problem import Problem

if TYPE_CHECKING:
    from mklref.factored.path import Path, Point

_BALANCED = 1e-9
_HIDDEN, _SHORTER, _SAME = 2.0, 0.5, 1.05
"""So many times the wanted gap is rounding that no other point is free of, unless its beta has this share of the
length; half the length has half of the rounding at least. Where beta has no kinks to leave all have the same rounding.
"""
_SETTLED = 1e-5
"""Share of its box or of the largest within which a dual variable is at its end, if the certificate allows it."""
_RIDGE, _REPEATED, _VANISHING = 1e-13, 3, 1e-8
"""Eigenvalue, as a share of the trace, up to which nothing moves beta to theta L'beta = v; how often it does; and the
share of the largest weight up to which one and its v say nothing of L'beta."""


def bounds_at(path: Path, vectors: Array, sums: Array) -> tuple[float, float]:
    """Below, at beta, and above, at v and b."""
    regularizer, first = path.problem.regularizer, path.first
    losses = float(sums[:, 0].sum()) + (0.0 if path.far is None else path.far.losses(path.v, path.b))
    upper = losses + regularizer.value(path.norms(path.v)) + first.intercept_cost * float(path.b.sum())
    terms, w = 0.0, np.empty_like(path.w)
    for p, samples in enumerate(path.each):
        up, down = _balance(first, float(sums[p, 1]), float(sums[p, 2]))
        w[p] = up * vectors[p, :-1, 1] + down * vectors[p, :-1, 2]
        terms += samples.dual(sums[p], up, down)
    return terms - regularizer.conjugate(path.norms(w)), upper


def _balance(problem: Problem, up: float, down: float) -> tuple[float, float]:
    """Factors for beta above and below 0 with which it sums to c_b; both 0 where that cannot be."""
    cost = problem.intercept_cost
    if not problem.intercept:
        return 1.0, 1.0
    if cost:
        return (min(1.0, cost / up), 1.0) if up >= cost * (1.0 - _BALANCED) else (np.nan, 1.0)
    total = up + down
    if total > 0.0:
        return -down / up, 1.0
    return (1.0, -up / down) if total < 0.0 else (1.0, 1.0)


def fitted_gap(path: Path, grams: Array, vectors: Array, sums: Array) -> float:
    """The gap here for the weights theta that fit v, and beta moved to where theta L'beta is v, to second order.

    A move by D L x adds x'L'DLx/2 to V(f) + V*(-beta) + beta f, and R + R* are nearly v'L'beta: where beta has no ends
    that is within tol one to three steps before the path is. inf where not all is known, or it was wrong once.
    """
    known = path.far is None and not np.isfinite(path.rows) and path.best is not None and path.best.v is path.v
    if not (path.trusted and known):
        return np.inf
    regularizer, v, w = path.problem.regularizer, path.v, np.empty_like(path.w)
    theta, gap = regularizer.weights_from_norms(path.norms(v))[path.kernel], float(sums[:, 0].sum())
    own = np.flatnonzero(np.append(theta, float(path.first.intercept)))
    for p, (gram, samples) in enumerate(zip(grams, path.each, strict=True)):
        total = vectors[p, :, 1] + vectors[p, :, 2]
        gap += v[p] @ total[:-1] + path.b[p] * total[-1] - samples.dual(sums[p], 1.0, 1.0)
        fitted = np.divide(v[p], theta, out=np.zeros_like(theta), where=theta > 0.0)
        missing = (np.append(fitted, path.first.intercept_cost) - total)[own]
        try:
            x = cho_solve(factorised(gram[np.ix_(own, own)], 0), missing)
        except LinAlgError:
            return np.inf
        w[p] = (total + gram[:, own] @ x)[:-1]
        gap += 0.5 * missing @ x - v[p] @ w[p]
    return float(gap + regularizer.value(path.norms(v)) + regularizer.conjugate(path.norms(w)))


def only_rounding(path: Path, certificate: Certificate, beta: Array, tol: float) -> bool:
    """Whether rounding alone keeps this beta (P, n) from `tol`, and would keep all others that lead to its v."""
    wanted, more = tol * certificate.size, _HIDDEN if path.kinked else _SAME
    if not (path.costly and certificate.gap - certificate.rounding <= wanted < certificate.rounding / more):
        return False
    return not path.kinked or float(np.abs(unloaded(path.problem, beta)).sum()) > _SHORTER * float(np.abs(beta).sum())


def unloaded(problem: Problem, beta: Array) -> Array:
    """beta (P, n) with 0 for what is between two ends of a box around it, whose loss is not curved.

    Of all beta that lead from there to v the shortest has the least rounding: where functions pass through the targets
    the path ends in the middle of the boxes.
    """
    made = beta.copy()
    for row, (samples, machine) in zip(made, machines_of(problem), strict=True):
        rows = slice(None) if samples is None else samples
        free = np.minimum(room_of(machine, row[rows])[2], room_of(machine, 0.0 * row[rows])[2]) > 0.0
        row[rows] = np.where(free, 0.0, row[rows])
    return made


def room_of(machine: Any, beta: Array) -> tuple[Array, Array, Array]:
    """The ends of each dual variable, and how far it is from the nearest of them, or from a kink at 0."""
    lower, upper = machine.loss.box(machine.y, machine.costs)
    lower, upper = lower + np.zeros_like(beta), upper + np.zeros_like(beta)
    form = machine.loss.quadratic_dual(machine.y)
    if form is not None and form.absolute:
        lower, upper = np.where(beta < 0.0, lower, 0.0), np.where(beta < 0.0, 0.0, upper)
    return lower, upper, np.maximum(np.minimum(machine.costs, np.minimum(beta - lower, upper - beta)), 0.0)


def towards(problem: Problem, point: Point, beta: Array, weights: Array, loaded: Array | None = None) -> Array:
    """beta (P, n) moved to where theta L'beta is v: what the bounds of the path do not need, and a certificate does.

    It has no v, and what is missing costs C n times as much in the losses as in the norms of v - theta w. The shortest
    way is D L x, with D the room of each sample, so that those at an end stay; some repetitions take off what rounding
    of L'DL leaves. Columns are centred with D, so that 1'beta is c_b at any scale; and what v has beside the span of
    the rows, where columns outnumber the samples, no beta leads to and no score has. Of kernels whose weights vanish
    L'beta becomes that of `loaded`, if that is given: what v does not say of them the lower bound asks for.
    """
    stack, made = problem.kernels, beta.copy()
    assert isinstance(stack, FactorStack)
    given, least = (beta, 0.0) if loaded is None else (loaded, _VANISHING * weights.max())
    theta = np.where(weights > least, weights, 0.0)[stack.owner]
    for row, own, v, (samples, machine) in zip(made, given, point.v, machines_of(problem), strict=True):
        rows = slice(None) if samples is None else samples
        lower, upper, room = room_of(machine, row[rows])
        D = np.zeros(len(row))
        D[rows] = room
        N, root = stack.gram(D), np.sqrt(theta)
        if loaded is not None:
            root = np.sqrt(np.divide(1.0, np.diagonal(N), out=np.zeros_like(v), where=np.diagonal(N) > 0.0))
        N = root[:, None] * N * root
        size, least, mean = float(D.sum()) or 1.0, _RIDGE * np.trace(N), np.zeros(stack.rank)
        if machine.intercept:
            mean = root * stack.transposed(D) / size
            N -= size * np.outer(mean, mean)
        if not np.isfinite(N).all():  # rows are others than when the stack was made
            return beta
        goal = np.divide(v, theta, out=stack.transposed(own), where=theta > 0.0)
        values, vectors = np.linalg.eigh(N)
        inverse = np.divide(1.0, values, out=np.zeros_like(values), where=values > least)
        for _ in range(_REPEATED):
            missing = root * (goal - stack.transposed(row))
            total = machine.intercept_cost - row.sum() if machine.intercept else 0.0
            x = vectors @ (inverse * (vectors.T @ (missing - total * mean)))
            along = stack.product(root * x) + total / size - mean @ x
            row[rows] = np.clip(row[rows] + (D * along)[rows], lower, upper)
    return made if np.isfinite(made).all() else beta


def settled(problem: Problem, beta: Array) -> Array:
    """beta (P, n) with what the path brings near to an end of the box, or to a kink at 0, put there.

    What that adds to 1'beta is spread over the variables between, in proportion to their room. Without it every
    sample would be a support vector, and the exact kernels would be asked for all of their entries.
    """
    made = beta.copy()
    for row, (samples, machine) in zip(made, machines_of(problem), strict=True):
        rows = slice(None) if samples is None else samples
        row[rows] = _at_the_ends(machine, row[rows])
    return made


def _at_the_ends(machine: Any, beta: Array) -> Array:
    form = machine.loss.quadratic_dual(machine.y)
    if form is None:
        return beta
    lower, upper = machine.loss.box(machine.y, machine.costs)
    size = _SETTLED * np.minimum(upper - lower, np.abs(beta).max(initial=0.0))
    made, free = beta, np.ones(len(beta), dtype=bool)
    for end in (lower, upper, *([np.zeros_like(beta)] if form.absolute else [])):
        near = np.abs(beta - end) < size
        made, free = np.where(near, end + 0.0, made), free & ~near
    missing = machine.intercept_cost - float(made.sum()) if machine.intercept else 0.0
    room = np.where(free, np.minimum(np.abs(made), upper - made if missing > 0.0 else made - lower), 0.0)
    total = float(room.sum())
    return made + missing * room / total if total > abs(missing) else made
