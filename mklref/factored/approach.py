r"""Newton's method on the problem with a rounder loss: the way to the neighbourhood of the solution, one round a step.

A loss with kinks gets width h of curvature in its dual term, leg by leg (samples.py),

    x u + slope u^2/2 + h (u - w/2)^2/(2 c)    on    0 <= u <= w,

so that u goes from w to 0 while the score moves by h, evenly around the kink; losses whose dual term is curved stay as
they are. beta then follows from the scores in closed form, and so do D = -dbeta/df and both bounds of the problem
itself. Newton's method takes in place of the samples their model at the scores f = L v + b,

    L'beta - [L'DL](dv, db),

and solves the problem in v, b, s and nu with it, by the steps of the path, which then read nothing. Where there are
many more samples than columns of L the sum of the rounded losses is smooth, although each of them is not: Newton's full
steps lead to a minimiser from a solution for a part of the samples, or from nothing, and h falls as the scores come to
rest. It ends where too few samples are left between the ends for that, or a step brings little. The path goes on,
and where it stalls, the same loss with a small h around each beta leads to the last digits (`finished`).
"""

from __future__ import annotations

from copy import copy
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.linalg import LinAlgError

from mklref._typing import Array
from mklref.factored.rounds import Rounds
from mklref.factored.shard import Total
from mklref.factored.step import line_of_weights, multipliers, take_step
from mklref.factored.system import Left, System
from mklref.solution import Status

if TYPE_CHECKING:
    from mklref.factored.path import Path

_MANY = 20
"""Samples for each column of L from which on the sum of the losses is smooth enough."""
_CLOSEST, _FROM_NOTHING, _WIDE = 0.1, 0.75, 3.0
"""The first width is so many times the distance from the kinks within which that share of the samples is."""
_NARROWER = 4.0
"""The width falls at most by this factor, and not below what scores between the ends move, root of the mean square."""
_ROWS = 250.0
"""Rows of L'DL for each column of L."""
_BETWEEN = 10.0
"""Samples between the ends for each column of L that a model needs."""
_LITTLE, _EXACT, _DIGITS = 0.5, 1e-5, 1e-3
"""A gap that falls less ends it, and so does a relative gap below the second where the loss has been made rounder; and
the relative gap below which products with rows in float32 are computed in float64."""
_PATIENCE, _LOST, _FOUND = 3, 0.05, 10.0
"""The first steps may make the gap larger; a later one ends it, and nothing was gained by a relative gap above the
second number then, and by one above the third in any case."""
_ROUNDS, _INNER = 12, 15
"""Steps, and those of the problem with the model."""
_SOLVED, _PRODUCTS, _FLOOR = 1e-3, 2e-2, 5e-3
"""Shares of the gap that v - theta w may leave of it there, and s z and the line of s; s z need not fall
below the last."""
_WEIGHTS = 0.1
"""Share of the gap that s z is at first."""
_CHANGE = 3.0
"""Scores will change by so many times the last width, or the last change."""
_STIFFER, _EACH, _FINER = (1e-8, 1e-10), 6, 0.1
"""Widths of the end, in units of C times the trace of sum_m theta_m K_m, and steps with each; beta is as far off as
rounding of scores over the width, and a step leaves the width over theta L'L. And the share of the gap to end at."""
_NOTHING, _LEAST = 1e-12, 0.1
"""What is left of a weight that is held; and of any other one, at least, after a step."""
_WHERE = ("v", "b", "s", "z", "nu", "gap")
"""What says where a path is, and its gap there."""


class Model:
    """In place of a shard, without its rows: L'beta falls by L'DL times the step, and nothing bounds its length."""

    def __init__(self, grams: Array) -> None:
        self.grams = grams

    def first(self, dv: Array, db: Array) -> Total:
        made = np.zeros((*self.grams.shape[:2], 3))
        made[:, :, 2] = self.products(dv, db)
        return Total((made, np.zeros(3)))

    def second(self, dv: Array, db: Array, tau: float, trial: float) -> Total:
        return Total((np.zeros(self.grams.shape[:2]),))

    def third(self, dv: Array, db: Array) -> Total:
        return Total()

    def products(self, dv: Array, db: Array) -> Array:
        """[L 1]'D(L dv + db) of each machine, (P, r + 1)."""
        return np.stack([G @ np.append(v, b) for G, v, b in zip(self.grams, dv, db, strict=True)])


def suits(path: Path) -> bool:
    """Whether there are many more samples than columns of L, and L'DL costs more than a few steps."""
    return path.large and not path.first.intercept_cost and bool(path.samples.min() >= _MANY * path.rank)


def approached(path: Path, tol: float) -> tuple[Status | None, float]:
    """Steps to the gap `tol` |upper|, or until they bring little: then None, and how far scores will still move.

    That is inf where nothing was gained, so that the path had better begin from its own start.
    """
    (nearest,) = path.clearances(_CLOSEST if path.v.any() else _FROM_NOTHING)
    if np.isinf(nearest):  # scores beyond any scale that was thought of
        return None, np.inf
    width = _WIDE * nearest
    last: dict[str, Any] = {}
    before, change = np.inf, 0.0
    for k in range(_ROUNDS):
        grams, vectors, between = path.evaluated(width, _ROWS * path.rank, before < _DIGITS)
        gap = path.relative_gap()
        status = path.recorded(tol)
        if status is not None:
            return status, change
        settled = k >= _PATIENCE
        if settled and gap > before:
            vars(path).update(last)
            if path.relative_gap() > _LOST:
                return None, np.inf
            break
        last = {name: getattr(path, name) for name in _WHERE}
        enough = not path.kinked or (between >= _BETWEEN * path.rank and gap > _EXACT)
        if not np.isfinite(gap) or not enough or (settled and not gap < _LITTLE * before):
            break
        try:
            change = _step(path, grams, vectors, first=k == 0)
        except (LinAlgError, FloatingPointError):
            break
        before, width = gap, max(change, width / _NARROWER)
    return None, _CHANGE * max(width, change) if path.relative_gap() < _FOUND else np.inf


def finished(path: Path, tol: float) -> Status:
    """The end of a path that stalled: Newton's method on its active set, from beta of before in place of w/2.

    This is the method of multipliers (Rockafellar 1976): beta o on a kink becomes o - (c/h) times the distance of the
    score from there, cut off at the ends of its box, and what is between them is free. Residuals of 1e-12, each of
    which costs C, fall to rounding, and weights settle. Those below their multipliers are held, as good as at 0.
    """
    if path.best is None:
        return Status.STALLED
    held = (path.kept() == 0.0) & (min(path.psi.within, path.psi.across) == 1.0)
    path.forget()
    path.digits, path.fits = 2, False
    if path.psi.fixed is None:
        path.s = np.where(held, _NOTHING, 1.0) * path.s
    size = path.problem.C * float(path.weights() @ path.rounds.stack.traces())
    for share in np.repeat(_STIFFER, _EACH):
        grams, vectors, _ = path.evaluated(float(share) * size, np.inf, exact=True, near=True)
        if (status := path.recorded(_FINER * tol)) is not None:
            return status
        try:
            _newton(path, grams, vectors, held)
        except (LinAlgError, FloatingPointError):
            break
    return Status.STALLED


def _newton(path: Path, grams: Array, vectors: Array, held: Any) -> None:
    """A full step of the path at its end, tau = 0, to where beta, v and the weights that are not held fit."""
    psi, s = path.psi, path.s
    path.z = np.zeros_like(s)
    line, phi, _ = line_of_weights(path)
    if psi.fixed is None:
        path.z, line = np.where(held, np.maximum(line, 0.0) / s, 0.0), np.where(held, 0.0, line)
    system = System(psi, path.owner, grams, path.w, s, path.z, path.nu, path.first.intercept)
    missing = path.first.intercept_cost - vectors[:, -1, 1] - vectors[:, -1, 2]
    apart = path.theta[path.owner] * path.w - path.v
    step = system.solve(Left(vectors[:, :, 0], apart, -line, np.zeros_like(s), phi, missing))
    path.v, path.b, path.nu = path.v + step.v, path.b + step.b, path.nu + step.nu
    if psi.fixed is None:
        path.s = np.where(held, s, np.maximum(s + step.s, _LEAST * s))


def _step(path: Path, grams: Array, vectors: Array, first: bool) -> float:
    """Solve the problem with the model of the samples; how far scores between the ends move."""
    inner, model, gap = copy(path), Model(grams), path.gap
    inner.rounds, inner.rows, inner.counters = Rounds(path.rounds.stack, [model]), np.inf, dict(path.counters)
    inner.count = path.psi.count if path.psi.fixed is None else 0
    if first and inner.count:
        multipliers(inner, path.v / path.theta[path.owner] if path.v.any() else path.w)
        inner.z = np.maximum(inner.z, _WEIGHTS * gap / inner.count / inner.s)
    total = vectors[:, -1, 1] + vectors[:, -1, 2]
    for k in range(_INNER):
        moved = model.products(inner.v - path.v, inner.b - path.b)
        inner.w, own = path.w - moved[:, :-1], np.zeros_like(vectors)
        own[:, -1, 1] = total - moved[:, -1]
        theta = inner.theta[inner.owner]
        apart = np.divide((theta * inner.w - inner.v) ** 2, theta, out=np.zeros_like(inner.v), where=theta > 0.0)
        products = float(inner.s @ inner.z) if inner.count else 0.0
        slope = float(np.abs(line_of_weights(inner)[0]).sum())
        if k and 0.5 * apart.sum() < _SOLVED * gap and max(products, slope) < _PRODUCTS * gap:
            break
        take_step(inner, grams, own, _FLOOR * gap)
    dv, db, stiffness = inner.v - path.v, inner.b - path.b, float(grams[:, -1, -1].sum())
    moved = model.products(dv, db)
    path.v, path.b, path.s, path.z, path.nu = inner.v, inner.b, inner.s, inner.z, inner.nu
    squares = float(np.sum(moved[:, :-1] * dv) + moved[:, -1] @ db)
    return float(np.sqrt(max(squares, 0.0) / stiffness)) if stiffness > 0.0 else 0.0
