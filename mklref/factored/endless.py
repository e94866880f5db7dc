"""Samples that nothing settles: dual terms without bounds, and the logistic loss, its own barrier."""

from __future__ import annotations

from typing import Any

import numpy as np

from mklref._typing import Array
from mklref.factored.samples import INSIDE, Quadratic, Samples
from mklref.losses import Loss

_FARTHEST, _CLOSEST = 100.0, float(np.finfo(float).eps)
"""What a step changes of log(a/(c - a)) at most, and the least distance of a from its ends, as a share of c."""


class FreeSamples(Quadratic):
    """No bounds: h = 0 is linear, and a full step solves it."""

    def begin(self, where: Any, tau: float) -> None:
        """beta = c (linear - f)/curvature."""
        self.beta[where] = self.costs[where] * (self.linear_term[where] - self.f[where]) / self.curvature

    def linear(self, where: slice) -> tuple[Array, Array]:
        """D = c/curvature and -D h."""
        stiffness = self.costs[where] / self.curvature
        return stiffness, -stiffness * self._pull(where)

    def first(self, where: slice, df: Array) -> tuple[float, Array, Array, Array]:
        """Nothing to correct."""
        nothing = np.zeros_like(df)
        return 0.0, np.zeros(3), nothing, nothing

    def move(self, where: slice, length: float, centred: bool) -> None:
        """beta goes where h = 0 is, by the share of the step."""
        stiffness, pull = self.linear(where)
        df = self.df[where] + self.more[where] if centred else self.df[where]
        self.beta[where] += length * (pull - stiffness * df)
        self.f[where] += length * df


class EntropySamples(Samples):
    """The logistic loss: y f = log((c - a)/a), a = y beta in (0, c).

    The line is linearised in a, which is safe where a grows from near 0: the logarithm is concave. Towards an end it is
    linear in log(a/(c - a)), and a moves there: nothing stops a step, and a full one leaves nothing of the line.
    """

    _state = ("f", "beta", "a")

    def __init__(self, loss: Loss, y: Array, costs: Array) -> None:
        super().__init__(loss, y, costs)
        self.a, self.da = np.zeros(len(y)), np.zeros(len(y))

    def begin(self, where: Any, tau: float) -> None:
        """a = c/(1 + exp(y f))."""
        costs = self.costs[where]
        share = np.abs(self.loss.subgradient(self.f[where], self.y[where]))
        self.a[where] = costs * np.clip(share, INSIDE, 1.0 - INSIDE)
        self.beta[where] = self.y[where] * self.a[where]

    def linear(self, where: slice) -> tuple[Array, Array]:
        """D = a (c - a)/c and D r = y D (log((c - a)/a) - y f)."""
        a, costs, y = self.a[where], self.costs[where], self.y[where]
        stiffness = a * ((costs - a) / costs)  # products of costs may leave float64
        return stiffness, y * stiffness * (np.log((costs - a) / a) - y * self.f[where])

    def first(self, where: slice, df: Array) -> tuple[float, Array, Array, Array]:
        """The correction is what the step leaves of the line, and of a + da."""
        a, costs, y = self.a[where], self.costs[where], self.y[where]
        stiffness, pull = self.linear(where)
        da = y * (pull - stiffness * df)
        there = _moved(a, da, costs)
        self.da[where] = stiffness * (np.log((costs - there) / there) - y * (self.f[where] + df))
        bend = self.da[where] + there - a - da
        return 0.0, np.zeros(3), np.zeros_like(a), y * bend

    def second(self, where: slice, df: Array, tau: float, trial: float) -> tuple[float, Array]:
        stiffness, pull = self.linear(where)
        self.da[where] += self.y[where] * (pull - stiffness * df)
        return super().second(where, df, tau, trial)

    def move(self, where: slice, length: float, centred: bool) -> None:
        da, df, y = self.da[where], self.df[where], self.y[where]
        if centred:
            more = self.more[where]
            da, df = da - y * self.linear(where)[0] * more, df + more
        self.a[where] = _moved(self.a[where], length * da, self.costs[where])
        self.f[where] += length * df
        self.beta[where] = y * self.a[where]

    def sums(self, where: Any) -> Array:
        """As `Samples`; the dual terms of positive and of negative beta."""
        beta, up = self.beta[where], self.beta[where] > 0.0
        terms = self.loss.dual_terms(beta, self.y[where], self.costs[where])
        sides = [values[side].sum() for values in (beta, terms) for side in (up, ~up)]
        return np.array([self.losses(where), 0.0, *sides, 0.0, 0.0])

    def dual(self, sums: Array, up: float, down: float) -> float:
        """The terms are concave and 0 at 0: at least that share of them is left."""
        return float(up * sums[4] + down * sums[5])


def _moved(a: Array, da: Array, costs: Array) -> Array:
    """a + da as far as it goes to c/2, and away from there as much farther in log(a/(c - a)): inside (0, c)."""
    near = np.where(da < 0.0, a, costs - a)
    straight = np.minimum(np.abs(da), np.maximum(near - 0.5 * costs, 0.0))
    near = near - straight
    rest = np.minimum((np.abs(da) - straight) / near * (costs / (costs - near)), _FARTHEST)
    near = np.maximum(costs / (1.0 + (costs - near) / near * np.exp(rest)), _CLOSEST * costs)
    return np.asarray(np.where(da < 0.0, near, costs - near))
