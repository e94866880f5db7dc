r"""A step of the central path: Mehrotra's predictor and corrector in v, b, s, its multipliers z and nu.

    L'beta =: w,   v = theta(s) w,   price + nu phi'(s) - theta'(s)||w||^2/2 = z,   s z = tau,   phi(s) = 1

with the samples' own lines eliminated (samples.py). The corrector knows all products of the left sides to second order:
those of the samples, s z, theta(s) w, theta'(s) ||w||^2 and the curvature of phi; a short step is centred once more
(Gondzio 1996). Third derivatives of theta and phi are left out: a step that they would spoil is shorter.
"""

from __future__ import annotations

import operator
from copy import copy
from typing import Any

import numpy as np

from mklref._typing import Array
from mklref.factored.boxes import centring
from mklref.factored.nearby import Far
from mklref.factored.rounds import Rounds
from mklref.factored.system import Direction, Left, System
from mklref.factored.weights import Psi
from mklref.problem import Problem

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


class Variables:
    """The variables beside those of the samples, which `rounds` reach; `psi` counts the weights."""

    first: Problem
    psi: Psi
    rounds: Rounds
    owner: Array
    """The weight of each column of L."""
    v: Array
    b: Array
    s: Array
    """What weights.py makes theta of."""
    z: Array
    nu: float
    w: Array
    tau: float
    gap: float
    count: int
    """The products that go to tau."""
    far: Far | None
    rows: float
    """Rows that L'DL takes."""
    digits: int
    """How exact sums over rows have to be, see `Shard.assemble`; 2 after a poor step."""
    counters: dict[str, float]

    @property
    def theta(self) -> Array:
        """The weights."""
        return self.psi.weights(self.s)

    def multipliers(self, w: Array) -> None:
        """nu and z for which the line of s holds at this w, but for tau/s."""
        pull = self._pull(w) / self.s - self.psi.price
        if self.psi.constrained:
            _, gradient, _ = self.psi.bound(self.s)
            self.nu = max(float(np.max(pull / gradient)), self.tau)
            pull = pull - self.nu * gradient
        self.z = np.maximum(-pull, 0.0) + self.tau / self.s

    def _pull(self, w: Array) -> Array:
        """1/2 sum_p ||w_p||^2 dtheta/dlog s."""
        return np.asarray(0.5 * self.psi.shares(self.s) * self.theta * self._squares(w))

    def _squares(self, w: Array) -> Array:
        """sum_p ||w_pm||^2 for each weight."""
        return np.bincount(self.owner, np.sum(w * w, axis=0), self.psi.count).astype(np.float64, copy=False)

    def line_of_weights(self) -> tuple[Array, float, Any]:
        """What s times its line leaves, 1 - phi, and the Hessian of phi; 0 where weights do not move."""
        psi, s = self.psi, self.s
        if psi.fixed is not None:
            return np.zeros_like(s), 0.0, 0.0
        line = s * (psi.price - self.z) - self._pull(self.w)
        if not psi.constrained:
            return line, 0.0, 0.0
        value, gradient, hessian = psi.bound(s)
        return line + s * self.nu * gradient, 1.0 - value, hessian

    def step(self, grams: Array, vectors: Array, enough: float) -> None:
        """A predictor and corrector step; the products need not fall below `enough` together."""
        psi, s, theta, z, w = self.psi, self.s, self.theta, self.z, self.w
        share = 1.0 if self.far is None else self.far.share
        moving = psi.fixed is None
        system = System(psi, self.owner, grams, w, s, z, self.nu, self.first.intercept)
        missing = self.first.intercept_cost - vectors[:, -1, 1] - vectors[:, -1, 2]
        line, phi, hessian = self.line_of_weights()
        left = Left(vectors[:, :, 0], theta[self.owner] * w - self.v, -line, -s * z, phi, missing)
        affine = system.solve(left)
        (corrections, along), reach = self.rounds.sum("first", affine.v, affine.b)
        error, off = system.error(affine, corrections[:, :, 2])
        if error > _OFF and np.isfinite(self.rows):
            self.rows = np.inf
            return
        length = self._longest(affine, reach)
        products = along
        if moving:
            crossed = float(s @ affine.z + z @ affine.s)
            products = along + np.array([float(s @ z), crossed, float(affine.s @ affine.z)])
        tau = 0.0
        if self.count:
            now, then = products[0], products[0] + length * products[1] + length**2 * products[2]
            least = max(enough, _LEAST * (self.gap - now)) if np.isfinite(self.gap) else enough
            tau = max((max(then, 0.0) / now) ** 3 * now, min(now, least)) / self.count
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
        (change,), reach = self.rounds.sum("second", step.v, step.b, tau, trial)
        length, self.centred = self._longest(step, reach, 2.0), False
        if self.count and length < _GOOD:
            farther_bent, farther_pulled = system.beyond(step)
            more = Left(
                samples=change,
                v=farther_bent - bent,
                s=farther_pulled - pulled,
                z=centring((s + trial * step.s) * (z + trial * step.z), tau),
                phi=-0.5 * float(step.s @ hessian @ step.s) - bend if moving and psi.constrained else 0.0,
                b=np.zeros_like(self.b),
            )
            added = system.solve(more)
            both = Direction(*map(operator.add, step, added))
            farther = self._longest(both, self.rounds.sum("third", added.v, added.b).worst, 2.0)
            self.counters["passes"] += share
            if farther > length:
                step, length, self.centred = both, farther, True
        length = min(1.0, _NEARLY * length)
        if moving:
            length = self._together(step, length)
        self.v, self.b = self.v + length * step.v, self.b + length * step.b
        if moving:
            self.s, self.z, self.nu = s + length * step.s, z + length * step.z, self.nu + length * step.nu
        self.tau, self.length, self.fresh, self.stuck = tau, length, False, self.digits == 2 and length <= _SHORT
        self.looked = False
        self.poor = length < _POOR
        self.counters["steps"] += 1.0
        self.counters["passes"] += 2.0 * share

    def _together(self, step: Direction, length: float) -> float:
        """The length, halved until the lines that are not linear leave not much more than they do."""

        def left(length: float) -> tuple[float, float]:
            there = copy(self)
            there.v, there.w, there.s = self.v + length * step.v, self.w + length * step.w, self.s + length * step.s
            there.z, there.nu = self.z + length * step.z, self.nu + length * step.nu
            theta, (line, phi, _) = there.theta[self.owner], there.line_of_weights()
            apart = float(np.sum((theta * there.w - there.v) ** 2 / theta))
            return apart, float(np.abs(line).sum()) + abs(there.nu * phi)

        apart, bent = left(0.0)
        most = max(apart, _APART * self.gap), max(_GROWTH * bent, _BENT * self.gap)
        for _ in range(_HALVINGS):
            if all(one <= other for one, other in zip(left(length), most, strict=True)):
                break
            length *= 0.5
        return length

    def _longest(self, step: Direction, reach: float, most: float = 1.0) -> float:
        """The longest step up to `most` that leaves everything positive."""
        if self.psi.fixed is None:
            reach = max(reach, float(np.max(-step.s / self.s)), float(np.max(-step.z / self.z)))
        return min(most, 1.0 / reach) if reach > 0.0 else most
