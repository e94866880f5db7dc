"""Bounds of the optimum that the path knows at its points, without another read of the rows.

f = L v + b is feasible as it stands, and so is beta with what exceeds 1'beta = c_b taken off its larger side. While
rows are left out the lower bound holds for all samples, and the upper one where the path has just looked at all.

What a certificate leaves open beside them may be rounding alone, which other points on the same rows have as well.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.linalg import LinAlgError, cho_solve

from mklref._typing import Array
from mklref.certificate import Certificate
from mklref.factored.rounds import machines_of
from mklref.factored.system import factorised
from mklref.problem import Problem

if TYPE_CHECKING:
    from mklref.factored.path import Path

_BALANCED = 1e-9
_HIDDEN, _SHORTER = 2.0, 0.5
"""So many times the wanted gap is rounding that no other point is free of, unless its beta has this share of the
length; half the length has half of the rounding at least."""


def bounds_at(path: Path, vectors: Array, sums: Array) -> tuple[float, float]:
    """Below, at beta, and above, at v and b."""
    regularizer, first = path.problem.regularizer, path.first
    losses = float(sums[:, 0].sum()) + (0.0 if path.far is None else path.far.losses(path.v, path.b))
    upper = losses + regularizer.value(path.norms(path.v)) + first.intercept_cost * float(path.b.sum())
    terms, w = 0.0, np.empty_like(path.w)
    for p, samples in enumerate(path.each):
        up, down = _balance(first, float(sums[p, 2]), float(sums[p, 3]))
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
    wanted = tol * certificate.size
    if not (path.costly and certificate.gap - certificate.rounding <= wanted < certificate.rounding / _HIDDEN):
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
