"""The weights of group kernel learning: two vectors on simplices, whose powers multiply (Szafranski et al. 2008)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from mklref._typing import Array
from mklref.algorithms.base import Run
from mklref.algorithms.point import Point
from mklref.regularizers.groups import group_owners, group_sizes, optimal_shares

_FLOOR = 1e-6
"""Share of its largest entry below which an entry of sigma counts as this share, in the gradient, which may be infinite
at 0, and in the metric, so that a zero can come back."""
_ARMIJO = 1e-4
_SHORTEST = 1e-10
_LONGER = 10.0
"""Factor of the step where the curvature along the last one was not positive."""


@dataclass(frozen=True, eq=False)
class GroupPoint:
    """A point of the descent: sigma1 (L,), sigma2 (M,), and the machine at theta = sigma1^p sigma2^q."""

    point: Point
    sigma1: Array
    sigma2: Array
    residual: float
    """How far J could fall to first order on the two simplices, relative to |J|; 0 at a stationary point."""


class GroupWeights:
    """theta_m = sigma1_l^p sigma2_m^q for m in group l, with sigma = (sigma1, sigma2) as one vector (L + M,).

    sigma >= 0,   sum_l d_l sigma1_l = 1,   sum_m sigma2_m = 1                                                     (8)
    """

    def __init__(self, groups: Sequence[Sequence[int]], p: float, q: float) -> None:
        self.groups, self.p, self.q = groups, p, q
        self.owner, self.sizes = group_owners(groups), group_sizes(groups)
        self.prices = np.concatenate([self.sizes, np.ones(len(self.owner))])
        """The coefficients of the two equality constraints."""
        self.simplices = (slice(0, len(groups)), slice(len(groups), len(self.prices)))

    def weights(self, sigma: Array) -> Array:
        """theta (M,)."""
        sigma1, sigma2 = (sigma[part] for part in self.simplices)
        return np.asarray(sigma1[self.owner] ** self.p * sigma2**self.q)

    def closed_form(self, rho: Array) -> Array:
        """The best sigma for block norms, (10) and (11)."""
        return np.concatenate(optimal_shares(self.groups, self.p, self.q, rho))

    def floored(self, sigma: Array) -> Array:
        """sigma with its small entries raised to the floor, in each of the two vectors."""
        return np.concatenate([np.maximum(sigma[part], _FLOOR * sigma[part].max()) for part in self.simplices])

    def gradient(self, sigma: Array, slopes: Array) -> Array:
        """dJ/dsigma from the slopes dJ/dtheta_m = -1/2 beta'K_m beta, by the chain rule (display before section 6).

        dJ/dsigma1_l = p sigma1_l^{p-1} sum_{m in l} sigma2_m^q dJ/dtheta_m
        dJ/dsigma2_m = q sigma1_l^p sigma2_m^{q-1} dJ/dtheta_m
        """
        sigma1, sigma2 = (self.floored(sigma)[part] for part in self.simplices)
        of_groups = np.bincount(self.owner, sigma2**self.q * slopes)
        return np.concatenate(
            [
                self.p * sigma1 ** (self.p - 1.0) * of_groups,
                self.q * sigma1[self.owner] ** self.p * sigma2 ** (self.q - 1.0) * slopes,
            ]
        )

    def residual(self, sigma: Array, gradient: Array, value: float) -> float:
        """gradient'sigma less its minimum over the two simplices, relative to the value."""
        drop = sum(gradient[part] @ sigma[part] - np.min(gradient[part] / self.prices[part]) for part in self.simplices)
        return float(drop) / (abs(value) or 1.0)

    def project(self, x: Array, metric: Array) -> Array:
        """The nearest point of the two simplices, minimising sum (sigma - x)^2/metric."""
        return np.concatenate([project(x[part], self.prices[part], metric[part]) for part in self.simplices])


def project(x: Array, prices: Array, metric: Array) -> Array:
    """argmin of sum (z - x)^2/metric over z >= 0, prices'z = 1:   z = (x - tau metric prices)_+.

    With unit = metric prices and x = unit r that is z = unit (r - tau)_+, where the largest r stay and tau makes the
    constraint hold. A shift of r changes nothing; so that large x do not cancel, the largest r is taken to 0.
    """
    unit = metric * prices
    r = x / unit
    r -= r.max()
    order = np.argsort(-r)
    cost = prices[order] * unit[order]
    tau = (np.cumsum(cost * r[order]) - 1.0) / np.cumsum(cost)
    last = np.flatnonzero(r[order] > tau)[-1]
    return np.asarray(unit * np.maximum(r - tau[last], 0.0))


def descend(run: Run, shape: GroupWeights, sigma: Array, warm_start: int, scaled: bool) -> Iterator[GroupPoint]:
    """Szafranski 5.1: closed-form steps first, then projected gradient descent on J(sigma1, sigma2)."""

    def touched(sigma: Array, point: Point) -> tuple[GroupPoint, Array]:
        gradient = shape.gradient(sigma, run.gradient(point))
        sigma1, sigma2 = (sigma[part] for part in shape.simplices)
        residual = shape.residual(sigma, gradient, point.value)
        run.measures = {"residual": residual}
        return GroupPoint(point, sigma1, sigma2, residual), gradient

    # 1. Initialisation: a rapid decrease by (10) and (11), in turn with the machine.
    point = run.svm(shape.weights(sigma))
    for _ in range(warm_start):
        yield touched(sigma, point)[0]
        sigma = shape.closed_form(point.weights * np.sqrt(point.squares))
        point = run.svm(shape.weights(sigma))
    current, gradient = touched(sigma, point)
    yield current
    step = 1.0 / float(np.abs(gradient).max(initial=np.finfo(float).tiny))
    while True:
        # 2. Projected gradient: the direction to the projection of sigma - step metric gradient.
        metric = shape.floored(sigma) if scaled else np.ones(len(sigma))
        direction = shape.project(sigma - step * metric * gradient, metric) - sigma
        slope = float(gradient @ direction)
        # 3. Line search: half the way until J decreases sufficiently.
        t, value = 1.0, point.value
        while True:
            point = run.svm(shape.weights(sigma + t * direction))
            if point.value <= value + _ARMIJO * t * slope + run.precision * abs(value):
                break
            t *= 0.5
            if t < _SHORTEST:
                return
        move = t * direction
        if not move.any():
            return
        sigma, before = sigma + move, gradient
        current, gradient = touched(sigma, point)
        yield current
        # 4. Length of the next step: the inverse curvature along this one (Barzilai and Borwein).
        bend = float(move @ (gradient - before))
        step = float(move @ (move / metric)) / bend if bend > 0.0 else _LONGER * step
