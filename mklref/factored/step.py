r"""A step of the central path: Mehrotra's predictor and corrector in v, b, theta, its multipliers z and nu.

    L'beta =: w,   v = theta w,   psi'(theta) + nu phi'(theta) - ||w||^2/2 = z,   theta z = tau,   phi(theta) = 1

with the samples' own lines eliminated (samples.py). The corrector knows all products of the left sides: those of the
samples, theta z, v = theta w, ||w||^2 and the curvature of phi; a short step is centred once more (Gondzio 1996).
"""

from __future__ import annotations

import operator
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
    theta: Array
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

    def multipliers(self, w: Array) -> None:
        """nu and z for which the line of theta holds at this w, but for tau/theta."""
        psi, theta = self.psi, self.theta
        slope = 0.5 * self._squares(w) - psi.smooth(theta)[0]
        if psi.constrained:
            _, gradient, _ = psi.bound(theta)
            self.nu = max(float(np.max(slope / gradient)), self.tau)
            slope = slope - self.nu * gradient
        self.z = np.maximum(-slope, 0.0) + self.tau / theta

    def _squares(self, w: Array) -> Array:
        """sum_p ||w_pm||^2 for each weight."""
        return np.bincount(self.owner, np.sum(w * w, axis=0), self.psi.count).astype(np.float64, copy=False)

    def line_of_weights(self) -> tuple[Array, float, Any]:
        """What the line of theta leaves, 1 - phi, and the Hessian of phi; 0 where weights do not move."""
        psi, theta = self.psi, self.theta
        if psi.fixed is not None:
            return np.zeros_like(theta), 0.0, 0.0
        slope = psi.smooth(theta)[0] - 0.5 * self._squares(self.w) - self.z
        if not psi.constrained:
            return slope, 0.0, 0.0
        value, gradient, hessian = psi.bound(theta)
        return slope + self.nu * gradient, 1.0 - value, hessian

    def step(self, grams: Array, vectors: Array, enough: float) -> None:
        """A predictor and corrector step; the products need not fall below `enough` together."""
        psi, theta, z, w = self.psi, self.theta, self.z, self.w
        share = 1.0 if self.far is None else self.far.share
        moving = psi.fixed is None
        system = System(psi, self.owner, grams, w, theta, z, self.nu, self.first.intercept)
        missing = self.first.intercept_cost - vectors[:, -1, 1] - vectors[:, -1, 2]
        slope, phi, hessian = self.line_of_weights()
        left = Left(vectors[:, :, 0], theta[self.owner] * w - self.v, -slope, -theta * z, phi, missing)
        affine = system.solve(left)
        (corrections, along), reach = self.rounds.sum("first", affine.v, affine.b)
        error, off = system.error(affine, corrections[:, :, 2])
        if error > _OFF and np.isfinite(self.rows):
            self.rows = np.inf
            return
        length = self._longest(affine, reach)
        products = along
        if moving:
            crossed = float(theta @ affine.z + z @ affine.theta)
            products = along + np.array([float(theta @ z), crossed, float(affine.theta @ affine.z)])
        tau = 0.0
        if self.count:
            now, then = products[0], products[0] + length * products[1] + length**2 * products[2]
            tau = max((max(then, 0.0) / now) ** 3 * now, min(now, enough)) / self.count
        corrected = left._replace(
            samples=left.samples + tau * corrections[:, :, 0] + corrections[:, :, 1] + off,
            v=left.v + affine.theta[self.owner] * affine.w,
            theta=left.theta + 0.5 * self._squares(affine.w),
            z=left.z + tau - affine.theta * affine.z,
        )
        bend = 0.0
        if moving and psi.constrained:
            bend = -0.5 * float(affine.theta @ hessian @ affine.theta)
        step = system.solve(corrected._replace(phi=phi + bend))
        trial = min(1.0, _FARTHER[0] * length + _FARTHER[1])
        (change,), reach = self.rounds.sum("second", step.v, step.b, tau, trial)
        length, self.centred = self._longest(step, reach, 2.0), False
        if self.count and length < _GOOD:
            more = Left(
                samples=change,
                v=step.theta[self.owner] * step.w - affine.theta[self.owner] * affine.w,
                theta=0.5 * (self._squares(step.w) - self._squares(affine.w)),
                z=centring((theta + trial * step.theta) * (z + trial * step.z), tau),
                phi=-0.5 * float(step.theta @ hessian @ step.theta) - bend if moving and psi.constrained else 0.0,
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
            self.theta, self.z, self.nu = theta + length * step.theta, z + length * step.z, self.nu + length * step.nu
        self.tau, self.length, self.fresh, self.stuck = tau, length, False, self.digits == 2 and length <= _SHORT
        self.looked = False
        self.poor = length < _POOR
        self.counters["steps"] += 1.0
        self.counters["passes"] += 2.0 * share

    def _together(self, step: Direction, length: float) -> float:
        """The length, halved until v and theta w are not much farther apart than they are."""

        def apart(length: float) -> float:
            theta = (self.theta + length * step.theta)[self.owner]
            return float(np.sum((theta * (self.w + length * step.w) - self.v - length * step.v) ** 2 / theta))

        most = max(apart(0.0), _APART * self.gap)
        for _ in range(_HALVINGS):
            if apart(length) <= most:
                break
            length *= 0.5
        return length

    def _longest(self, step: Direction, reach: float, most: float = 1.0) -> float:
        """The longest step up to `most` that leaves everything positive."""
        if self.psi.fixed is None:
            ratios = [-step.theta / self.theta, -step.z / self.z, step.theta / (self.psi.top - self.theta)]
            reach = max(reach, *(float(np.max(ratio)) for ratio in ratios))
        return min(most, 1.0 / reach) if reach > 0.0 else most
