"""The step of the loop: the weights that minimise cuts, curvature and psi.

Every dual point beta_k seen so far bounds J from below by a cut that is linear in the weights,

    J(theta) >= D_k - 1/2 q_k'theta,      D_k = -sum_i c_i V*(-beta_ki/c_i, y_i),   q_km = beta_k'K_m beta_k,

and the next weights minimise the largest cut plus the curvature W'W of J at the centre plus psi,

    minimise over theta >= 0    max_k (D_k - 1/2 q_k'theta) + 1/2 ||W (theta - theta_c)||^2 + psi(theta).

With the cut of the centre alone this is Newton's method. More cuts are there where trial points failed, which happens
where J has kinks; their multipliers lambda (they sum to 1) mix the dual points to sum_k lambda_k beta_k, which is
feasible and near-optimal where no single beta_k is.

Where psi is polyhedral (lp with p = 1 and its kin) the step is the quadratic program of this file (`sparse_step`). If W
knows too little of J, a curvature of all weights is added, as in proximal bundle methods (`curvature_missed`); if it
knows enough, a few such programs minimise the model C of curved.py in its place, which bends as J does (`bent_step`).
Where psi is curved, the step is Newton's method on the dual of the model with C (curved.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from mklref._typing import Array
from mklref.machines.cholesky import halfway
from mklref.machines.loops import QuadraticProgram
from mklref.native import tuning
from mklref.native.curved import bends, compressed, curved_step, root_of_H
from mklref.regularizers import Regularizer
from mklref.regularizers.norms import Polyhedral

_NEGLIGIBLE = 1e-10
"""Weights below this share of the largest are set to 0 before they are used: such a kernel costs nothing."""
_RIDGE = 1e-13
_QUARTERS = 0.25 ** np.arange(500)
"""Shares of a step."""
_ROUNDING = 1e-10
"""Rounding error of the model as a share of its terms, at points where the penalty is steep."""
_ENOUGH = 1e-6
"""Kernels outside of the program may still lower the model by this share of what it has gained."""
_MOST = 60
"""With more active kernels than this at the centre, they have to earn their place in the program again."""
_CANDIDATES = 20
"""Kernels of largest q that join the active ones before the first solve; violators join later."""
_PROGRAMS, _ALIKE, _SHORTEST = 20, 1e-3, 1e-3
"""Most quadratic programs for C, each of which lets weights grow by a half at least; the share of the promise to which
the last one agrees with C; the shortest step towards a minimiser."""


@dataclass(frozen=True, slots=True)
class Cut:
    """A dual point and the linear lower bound of J that it gives."""

    beta: Array
    squares: Array
    dual_term: float

    def at(self, weights: Array) -> float:
        """D - 1/2 q'theta."""
        return self.dual_term - 0.5 * float(self.squares @ weights)


class Step(NamedTuple):
    """The minimiser of the model, its value there (a prediction of J + psi), and the multipliers of the cuts."""

    weights: Array
    value: float
    mixture: Array


def step(
    regularizer: Regularizer,
    cuts: Sequence[Cut],
    W: Array,
    centre: Array,
    kernels: Any = None,
    unit: float = 0.0,
    near: float = 0.0,
    deadline: float = np.inf,
    trusted: bool = True,
) -> Step:
    """Minimise the model plus psi over the weights of these k kernels, or all; the others stay 0, and W is (f, k).

    `unit` is the order of the weights, in those of psi, where those of the centre are much smaller, and `near` a
    curvature of all of them, in units of the largest, which sparse steps have beside W. A W that has misled is not
    `trusted` to tell how it bends.
    """
    psi = regularizer.polyhedral(len(centre))
    Q, D = np.array([cut.squares for cut in cuts]), np.array([cut.dual_term for cut in cuts])
    if psi is None:
        return Step(*curved_step(regularizer, Q, D, W, centre, deadline))
    kernels = np.arange(len(centre)) if kernels is None else kernels
    # Weights are compared, and squares of kernels without weight: in units in which psi treats all kernels alike.
    psi, units, weights = psi.of(kernels), psi.units[kernels], np.zeros_like(centre)
    alike = Polyhedral(psi.cost / units, psi.mu, None if psi.normal is None else psi.normal / units)
    Q, centre = Q[:, kernels] / units, centre[kernels] * units
    beside = W / units, centre, unit, near
    # The quadratic model serves where W knows few directions, has misled, or has missed some at the last step. C is
    # added to the largest cut: where that is not the one of the centre, as J >= 0, C rises along with the weights, and
    # they would at most double. So all cuts take part only if they show that the step for that of the centre would
    # fail: it may have gone where no sample is free, and C is 0.
    if not trusted or near > 0.0 or len(W) <= np.count_nonzero(centre):
        found = sparse_step(alike, Q, D, *beside)
    else:
        found = bent_step(alike, Q[:1], D[:1], *beside)
        if len(D) > 1 and _must_fail(alike, Q, D, centre, found):
            found = bent_step(alike, Q, D, *beside)
    weights[kernels] = found.weights / units
    return found._replace(weights=weights, mixture=np.append(found.mixture, np.zeros(len(D) - len(found.mixture))))


def _must_fail(psi: Polyhedral, Q: Array, D: Array, centre: Array, found: Step) -> bool:
    """Whether the cuts, which bound J from below, show that the step keeps less of its promise than a serious one."""
    at_centre, least = (float((D - 0.5 * (Q @ at)).max()) + psi.penalty(at) for at in (centre, found.weights))
    return at_centre - least < tuning.SERIOUS * (at_centre - found.value)


def shortened(regularizer: Regularizer, cut: Cut, W: Array, centre: Array, kernels: Any, found: Step) -> Step:
    """The best point of the model with one cut at 1, 1/4, 1/16, ... of the way from the centre to what was found.

    Along the way the model is convex, and at the centre it equals the merit. Its minimum may be at 1e-93 of the way.
    """
    moved = found.weights - centre
    slope, bend = 0.5 * float(cut.squares @ moved), float(np.sum((W @ moved[kernels]) ** 2))
    start, best, at = cut.at(centre), np.inf, 0.0
    for t in _QUARTERS.tolist():
        parts = start, -t * slope, 0.5 * bend * t**2, regularizer.weight_penalty(centre + t * moved)
        value = sum(parts)
        if value < best:
            best, at = value, t
        elif value > best + _ROUNDING * sum(map(abs, parts)):
            break  # convex: it goes on to rise
    return found._replace(weights=centre + at * moved, value=best)


def curvature_missed(loop: Any, trial: Any, centre: Any, promise: float, serious: bool) -> float:
    """The curvature of all weights, in units of the largest, that keeps the next step nearer to its centre than W does.

    Where few samples are free W knows few directions, and the minimiser of the cuts leaps from vertex to vertex in the
    others. A trial point that failed tells how much was missed; one that keeps its promise, that W is enough.
    """
    fell = centre.merit - trial.merit
    if serious:
        return tuning.RELAXED * float(loop.near) if fell < tuning.KEPT * promise else 0.0
    size = max(loop.unit, float((centre.weights * loop.units).max()))
    moved = float(np.sum(((trial.weights - centre.weights) * loop.units / size) ** 2))
    missed = 2.0 * float(promise - fell) / moved if moved > 0.0 else 0.0
    return max(float(loop.near), tuning.MISSED * missed)


def bent_step(psi: Polyhedral, Q: Array, D: Array, W: Array, centre: Array, unit: float, near: float) -> Step:
    """The step for C of curved.py in place of the curvature: quadratic programs, each with that of C at the one before.

    C has the gradient v - 1/2 bend v^2 and the Hessian of the root L^{-1} W (1 - bend v), with LL' = H, v = W'H^{-1} b.
    """
    W = compressed(W)
    bend, at, root = bends(Q[0], W, centre), centre, W
    before = value = float((D - 0.5 * (Q @ centre)).max()) + psi.penalty(centre)
    slopes, beneath = np.zeros_like(centre), 0.0
    for _ in range(_PROGRAMS):
        found = sparse_step(psi, Q - 2.0 * slopes, D + beneath, root, at, unit, near)
        t, last = 1.0, value
        while True:
            weights = at + t * (found.weights - at)
            root = halfway(root_of_H(W, bend * (weights - centre)), np.array(W, order="F"))
            b = root @ (weights - centre)
            value = float((D - 0.5 * (Q @ weights)).max()) + 0.5 * float(b @ b) + psi.penalty(weights)
            if value <= last or t < _SHORTEST:
                break
            t *= 0.5
        if abs(value - found.value) <= _ALIKE * (before - value) or t < _SHORTEST:
            break
        v = b @ root
        slopes, root = v - 0.5 * bend * v**2, root * (1.0 - bend * v)
        at, beneath = weights, 0.5 * float(b @ b) - float(slopes @ weights)
    return Step(weights, value, found.mixture)


def sparse_step(psi: Polyhedral, Q: Array, D: Array, W: Array, centre: Array, unit: float, near: float) -> Step:
    """The quadratic program for cuts D - 1/2 Q theta, on few kernels first, to which violators are added."""
    active = centre > _NEGLIGIBLE * centre.max()
    candidates = active if np.count_nonzero(active) <= _MOST else np.zeros_like(active)
    if len(centre) > _CANDIDATES:
        candidates[np.argpartition(Q, -_CANDIDATES, axis=1)[:, -_CANDIDATES:]] = True
    else:
        candidates[:] = True
    normal = np.ones_like(centre) if psi.normal is None else psi.normal
    before = float((D - 0.5 * (Q @ centre)).max()) + psi.penalty(centre)
    unit = max(unit, float(centre.max()))
    while True:
        index = np.flatnonzero(candidates)
        part, mixture = _on_face(psi, Q, D, W, centre, index, unit, near)
        weights = np.zeros_like(centre)
        weights[index] = np.where(part > _NEGLIGIBLE * part.max(), part, 0.0)
        if psi.normal is not None:
            weights /= psi.normal @ weights
        moved, beside = W @ (weights - centre), (weights - centre) / unit
        # Frank and Wolfe: what kernels outside may still gain is the size of the weights times how much less the
        # gradient of one of them is, per unit of the constraint, than that of those inside in the mean.
        slope = (moved @ W + near / unit * beside - 0.5 * (mixture @ Q) + psi.gradient(weights)) / normal
        size, rounding = float(normal @ weights), 1e-9 * np.abs(slope).max()
        inside = 0.0 if psi.normal is None else float((normal * weights) @ slope) / size
        bend = float(moved @ moved) + near * float(beside @ beside)
        value = float((D - 0.5 * (Q @ weights)).max()) + 0.5 * bend + psi.penalty(weights)
        enough = max(rounding, _ENOUGH * (before - value) / size) if size > 0.0 else rounding
        missing = ~candidates & (slope < inside - enough)
        if not missing.any():
            return Step(weights, value, mixture)
        # The largest violators first, as many as there are candidates: few of all have a weight in the end.
        most = max(_CANDIDATES, int(np.count_nonzero(candidates)))
        if np.count_nonzero(missing) > most:
            missing = np.argpartition(np.where(missing, slope, np.inf), most)[:most]
        candidates[missing] = True


def _on_face(
    psi: Polyhedral, Q: Array, D: Array, W: Array, centre: Array, index: Any, unit: float, near: float
) -> tuple[Array, Array]:
    """The quadratic program in (theta, s) over some of the kernels, in units of the weights and of J at the centre.

    Cuts of weights that were far too small have squares so large that in their unit no digit is left of the others.
    """
    k, m = len(D), len(index)
    V, Qs = unit * W[:, index], unit * Q[:, index]
    offset = float((D - 0.5 * (Q @ centre)).max())
    sizes = np.maximum(np.abs(Qs).max(axis=1), np.abs(D - offset))
    scale = max(float(sizes[0] or sizes.max()), unit * float(psi.cost[index].max()), np.finfo(float).tiny)
    heights = np.maximum(sizes / scale, 1.0)
    P = np.zeros((m + 1, m + 1))
    P[:m, :m] = (V.T @ V + 2.0 * psi.mu * unit * unit) / scale
    P[range(m), range(m)] += near / scale + _RIDGE * max(1.0, float(np.trace(P)))
    c = np.append((unit * psi.cost[index] - (W @ centre) @ V - near * centre[index] / unit) / scale, 1.0)
    G = np.column_stack([Qs / (-2.0 * scale), np.full(k, -1.0)]) / heights[:, None]
    a = None if psi.normal is None else np.append(unit * psi.normal[index], 0.0)
    program = QuadraticProgram(P, c, m, G, (offset - D) / scale / heights, a)
    x, multipliers = program.solve(np.append(centre[index] / unit, 0.0))
    if not np.isfinite(x).all():
        raise FloatingPointError("the quadratic program of the step is beyond double precision")
    mixture = multipliers[m:] / heights
    return unit * x[:m], mixture / mixture.sum()
