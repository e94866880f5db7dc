r"""A step of the central path: Mehrotra's predictor and corrector in v, b, s, its multipliers z and nu.

    L'beta =: w,   v = theta(s) w,   price + nu phi'(s) - theta'(s)||w||^2/2 = z,   s z = tau,   phi(s) = 1

with the samples' own lines eliminated (samples.py). The corrector knows all products of the left sides to second order:
those of the samples, s z, theta(s) w, theta'(s) ||w||^2 and the curvature of phi; a short step is centred once more
(Gondzio 1996). Third derivatives of theta and phi are left out: a step that they would spoil is shorter.
"""

from __future__ import annotations

import operator
from copy import copy
from typing import TYPE_CHECKING, Any

import numpy as np

from mklref._typing import Array
from mklref.factored.boxes import centring
from mklref.factored.system import Direction, Left, System

if TYPE_CHECKING:
    from mklref.factored.path import Path

_NEARLY = 0.99
"""Share of the way to the boundary that a step goes at most."""
_GOOD, _FARTHER = 0.9, (1.2, 0.3)
"""A shorter step is centred, for one that is so much longer than the first one says."""
_SHORT, _POOR = 1e-6, 0.05
"""Length of a step that moves nothing, and of one that may be short for its rounding."""
_APART = 10.0
"""A step ends where v and theta w are so many gaps apart, if they are not yet: theta w is not linear."""
_BENT, _GROWTH = 3.0, 2.0
"""So does one where the lines of s and phi leave so many gaps, or so many times what they do: phi may be steep."""
_LEAST = 1e-3
"""Share of what the gap has beside the products that they may fall to: it falls by 99 % at most in a step."""
_HALVINGS = 40
_OFF = 0.5
"""Error of a step, relative to it, from which on all rows are taken. What is known of the error is made up for by the
corrector, so that up to 0.1 costs no steps."""


def multipliers(path: Path, w: Array) -> None:
    """nu and z for which the line of s holds at this w, but for tau/s."""
    rest = pull(path, w) / path.s - path.psi.price
    if path.psi.constrained:
        _, gradient, _ = path.psi.bound(path.s)
        path.nu = max(float(np.max(rest / gradient)), path.tau)
        rest = rest - path.nu * gradient
    path.z = np.maximum(-rest, 0.0) + path.tau / path.s


def pull(path: Path, w: Array) -> Array:
    """1/2 sum_p ||w_p||^2 dtheta/dlog s."""
    squares = np.bincount(path.owner, np.sum(w * w, axis=0), path.psi.count)
    return np.asarray(0.5 * path.psi.shares(path.s) * path.theta * squares)


def line_of_weights(path: Path) -> tuple[Array, float, Any]:
    """What s times its line leaves, 1 - phi, and the Hessian of phi; 0 where weights do not move."""
    psi, s = path.psi, path.s
    if psi.fixed is not None:
        return np.zeros_like(s), 0.0, 0.0
    line = s * (psi.price - path.z) - pull(path, path.w)
    if not psi.constrained:
        return line, 0.0, 0.0
    value, gradient, hessian = psi.bound(s)
    return line + s * path.nu * gradient, 1.0 - value, hessian


def take_step(path: Path, grams: Array, vectors: Array, enough: float) -> None:
    """A predictor and corrector step; the products need not fall below `enough` together."""
    psi, s, theta, z, w = path.psi, path.s, path.theta, path.z, path.w
    share = 1.0 if path.far is None else path.far.share
    moving = psi.fixed is None
    system = System(psi, path.owner, grams, w, s, z, path.nu, path.first.intercept)
    missing = path.first.intercept_cost - vectors[:, -1, 1] - vectors[:, -1, 2]
    line, phi, hessian = line_of_weights(path)
    left = Left(vectors[:, :, 0], theta[path.owner] * w - path.v, -line, -s * z, phi, missing)
    affine = system.solve(left)
    (corrections, along), reach = path.rounds.sum("first", affine.v, affine.b)
    error, off = system.error(affine, corrections[:, :, 2])
    if error > _OFF and np.isfinite(path.rows):
        path.rows = np.inf
        return
    length = _longest(path, affine, reach)
    products = along
    if moving:
        crossed = float(s @ affine.z + z @ affine.s)
        products = along + np.array([float(s @ z), crossed, float(affine.s @ affine.z)])
    tau = 0.0
    if path.count:
        now, then = products[0], products[0] + length * products[1] + length**2 * products[2]
        least = max(enough, _LEAST * (path.gap - now)) if np.isfinite(path.gap) else enough
        tau = max((max(then, 0.0) / now) ** 3 * now, min(now, least)) / path.count
    bent, pulled = system.beyond(affine)
    bend = -0.5 * float(affine.s @ hessian @ affine.s) if moving and psi.constrained else 0.0
    step = system.solve(
        left._replace(
            samples=left.samples + tau * corrections[:, :, 0] + corrections[:, :, 1] + off,
            v=left.v + bent,
            s=left.s + pulled,
            z=left.z + tau - affine.s * affine.z,
            phi=phi + bend,
        )
    )
    trial = min(1.0, _FARTHER[0] * length + _FARTHER[1])
    (change,), reach = path.rounds.sum("second", step.v, step.b, tau, trial)
    length, path.centred = _longest(path, step, reach, 2.0), False
    if path.count and length < _GOOD:
        farther_bent, farther_pulled = system.beyond(step)
        more = Left(
            samples=change,
            v=farther_bent - bent,
            s=farther_pulled - pulled,
            z=centring((s + trial * step.s) * (z + trial * step.z), tau),
            phi=-0.5 * float(step.s @ hessian @ step.s) - bend if moving and psi.constrained else 0.0,
            b=np.zeros_like(path.b),
        )
        added = system.solve(more)
        both = Direction(*map(operator.add, step, added))
        farther = _longest(path, both, path.rounds.sum("third", added.v, added.b).worst, 2.0)
        path.counters["passes"] += share
        if farther > length:
            step, length, path.centred = both, farther, True
    length = min(1.0, _NEARLY * length)
    if moving:
        length = _together(path, step, length)
    path.v, path.b = path.v + length * step.v, path.b + length * step.b
    if moving:
        path.s, path.z, path.nu = s + length * step.s, z + length * step.z, path.nu + length * step.nu
    path.tau, path.length, path.fresh, path.stuck = tau, length, False, path.digits == 2 and length <= _SHORT
    path.looked = False
    path.poor = length < _POOR
    path.counters["steps"] += 1.0
    path.counters["passes"] += 2.0 * share


def _together(path: Path, step: Direction, length: float) -> float:
    """The length, halved until the lines that are not linear leave not much more than they do."""

    def left(length: float) -> tuple[float, float]:
        there = copy(path)
        there.v, there.w, there.s = path.v + length * step.v, path.w + length * step.w, path.s + length * step.s
        there.z, there.nu = path.z + length * step.z, path.nu + length * step.nu
        theta, (line, phi, _) = there.theta[path.owner], line_of_weights(there)
        apart = float(np.sum((theta * there.w - there.v) ** 2 / theta))
        return apart, float(np.abs(line).sum()) + abs(there.nu * phi)

    apart, bent = left(0.0)
    most = max(apart, _APART * path.gap), max(_GROWTH * bent, _BENT * path.gap)
    for _ in range(_HALVINGS):
        if all(one <= other for one, other in zip(left(length), most, strict=True)):
            break
        length *= 0.5
    return length


def _longest(path: Path, step: Direction, reach: float, most: float = 1.0) -> float:
    """The longest step up to `most` that leaves everything positive."""
    if path.psi.fixed is None:
        reach = max(reach, float(np.max(-step.s / path.s)), float(np.max(-step.z / path.z)))
    return min(most, 1.0 / reach) if reach > 0.0 else most
