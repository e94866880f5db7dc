"""The samples on the central path: dual variables and multipliers of a slice of them, sample by sample.

The dual term of a loss is -linear'beta + absolute |beta|_1 + sum curvature beta_i^2/(2 c_i) on a box (boxes.py), or on
all numbers, or the entropy of the logistic loss, its own barrier: nothing settles these two. All methods work on a
slice of the samples, small enough for the cache, and return sums.

As tau falls to 0 most variables u go to an end, 0 or w, and stay there as long as the score is `clearance` away from
where the loss bends: until then the loss of the sample is linear. `settle` puts them there.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Self

import numpy as np

from mklref._typing import Array
from mklref.losses import Loss

SUMS = 7
"""Numbers that `sums` returns: loss, sums of beta above and below 0, and four of the dual term."""
INSIDE = 1e-12
"""Least distance of a variable from its bounds at a start, as a share of its interval."""
_FARTHEST, _CLOSEST = 100.0, float(np.finfo(float).eps)
"""What a step changes of log(a/(c - a)) at most, and the least distance of a from its ends, as a share of c."""


class Samples(ABC):
    """What a step asks of the samples, by default of those without ends; slices are those of its own samples."""

    pairs: int = 0
    """Products for each sample that go to tau."""
    ends: bool = False
    """Whether there are ends to settle at."""
    bounded: bool = False
    """Whether there are two. Of the logistic loss there are none: only scores without bound reach them."""
    kinked: bool = False
    """Whether the loss has kinks, where D is infinite."""
    _state: tuple[str, ...] = ("f", "beta")
    """The arrays, last axis n, that say where a sample is."""

    def __init__(self, loss: Loss, y: Array, costs: Array) -> None:
        self.loss, self.y, self.costs = loss, y, costs
        self.f, self.df, self.more, self.beta = (np.zeros(len(y)) for _ in range(4))

    def part(self, index: Any) -> Self:
        """Some of the samples as they are."""
        made = type(self)(self.loss, self.y[index], self.costs[index])
        for name in self._state:
            getattr(made, name)[...] = getattr(self, name)[..., index]
        return made

    def put(self, index: Any, part: Samples) -> None:
        """What has become of them; of no samples it is not known how many ends they have."""
        for name in self._state if len(index) else ():
            getattr(self, name)[..., index] = getattr(part, name)

    def clearance(self, where: Any) -> Array:
        """How far each score is from where beta leaves the end that it goes to; 0 if it goes to none."""
        return np.zeros_like(self.f[where])

    def settle(self, where: Any) -> Array:
        """Put the beta of these indices at the end that it goes to; what `unsettle` needs, a column for each."""
        return np.empty((0, len(where)))

    def unsettle(self, where: Any, before: Array) -> None:
        """Put beta back to where it was before it was settled."""

    def room(self, where: Any) -> Array:
        """The sums of the lower and of the upper ends of beta."""
        return np.stack([end.sum() for end in self.loss.box(self.y[where], self.costs[where])])

    def losses(self, where: Any) -> float:
        """The sum of c_i V(f_i, y_i)."""
        return float(self.costs[where] @ self.loss.value(self.f[where], self.y[where]))

    def rounded(self, where: slice, width: float, near: bool = False) -> tuple[Array, Array]:
        """Put beta where the loss, rounder by `width` if it has kinks, has it for their scores; D, and D r.

        Around the middle of its box, where r = 0 then; or `near` to where it was, to go as far again for this score.
        """
        self.begin(where, 0.0)
        return self.linear(where)[0], np.zeros_like(self.f[where])

    @abstractmethod
    def begin(self, where: Any, tau: float) -> None:
        """Put the samples on their own central path for their scores."""

    @abstractmethod
    def linear(self, where: slice) -> tuple[Array, Array]:
        """D and D r of the first step."""

    @abstractmethod
    def first(self, where: slice, df: Array) -> tuple[float, Array, Array, Array]:
        """1/length where it leaves the interior, coefficients (3,) of the products along it, D dr/dtau and D dr."""

    def second(self, where: slice, df: Array, tau: float, trial: float) -> tuple[float, Array]:
        """The step itself: 1/length where it leaves the interior, and D dr of what centres its products at `trial`."""
        self.df[where] = df
        return 0.0, np.zeros_like(df)

    def third(self, where: slice, df: Array) -> float:
        """What centring adds to the step, and 1/length where the sum leaves the interior."""
        self.more[where] = df
        return 0.0

    @abstractmethod
    def move(self, where: slice, length: float, centred: bool) -> None:
        """Take the step, with what was added to it or without."""

    @abstractmethod
    def sums(self, where: Any) -> Array:
        """(SUMS,)."""

    @abstractmethod
    def dual(self, sums: Array, up: float, down: float) -> float:
        """The loss part of the dual objective at up max(beta, 0) + down min(beta, 0), factors in [0, 1]."""


class Quadratic(Samples):
    """What losses with a quadratic dual term share."""

    def __init__(self, loss: Loss, y: Array, costs: Array) -> None:
        form = loss.quadratic_dual(y)
        assert form is not None
        super().__init__(loss, y, costs)
        self.linear_term, self.absolute, self.curvature = form.linear, form.absolute, form.curvature

    def _pull(self, where: slice) -> Array:
        """h = f + curvature beta/c - linear."""
        pull = self.f[where] - self.linear_term[where]
        if self.curvature:
            pull += self.curvature * self.beta[where] / self.costs[where]
        return pull

    def sums(self, where: Any) -> Array:
        """As `Samples`: linear'beta and curvature beta^2/(2c) of positive and of negative beta."""
        beta, costs, linear = self.beta[where], self.costs[where], self.linear_term[where]
        sides = np.maximum(beta, 0.0), np.minimum(beta, 0.0)
        squares = [0.5 * self.curvature * np.sum(x * x / costs) for x in sides]
        return np.array([self.losses(where), *map(np.sum, sides), *(linear @ x for x in sides), *squares])

    def dual(self, sums: Array, up: float, down: float) -> float:
        """linear'beta - absolute |beta|_1 - curvature beta^2/(2c)."""
        linear = up * (sums[3] - self.absolute * sums[1]) + down * (sums[4] + self.absolute * sums[2])
        return float(linear - up * up * sums[5] - down * down * sums[6])


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
        return np.array([self.losses(where), *sides, 0.0, 0.0])

    def dual(self, sums: Array, up: float, down: float) -> float:
        """The terms are concave and 0 at 0: at least that share of them is left."""
        return float(up * sums[3] + down * sums[4])


def _moved(a: Array, da: Array, costs: Array) -> Array:
    """a + da as far as it goes to c/2, and away from there as much farther in log(a/(c - a)): inside (0, c)."""
    near = np.where(da < 0.0, a, costs - a)
    straight = np.minimum(np.abs(da), np.maximum(near - 0.5 * costs, 0.0))
    near = near - straight
    rest = np.minimum((np.abs(da) - straight) / near * (costs / (costs - near)), _FARTHEST)
    near = np.maximum(costs / (1.0 + (costs - near) / near * np.exp(rest)), _CLOSEST * costs)
    return np.asarray(np.where(da < 0.0, near, costs - near))


def inverse_length(*ratios: Array) -> float:
    """The largest of these numbers, and at least 0: the reciprocal of the longest step."""
    return max(0.0, *(float(np.max(ratio, initial=0.0)) for ratio in ratios))
