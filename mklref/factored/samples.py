"""The samples on the central path: dual variables and multipliers of a slice of them, sample by sample.

The dual term of a loss is -linear'beta + absolute |beta|_1 + sum curvature beta_i^2/(2 c_i) on a box (boxes.py), or on
all numbers, or the entropy of the logistic loss (endless.py). All methods work on a slice of the samples, small enough
for the cache, and return sums.

As tau falls to 0 most variables u go to an end, 0 or w, and stay there as long as the score is `clearance` away from
where the loss bends: until then the loss of the sample is linear. `settle` puts them there.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Self

import numpy as np

from mklref._typing import Array
from mklref.losses import Loss

SUMS = 8
"""Numbers that `sums` returns: loss, products, sums of beta above and below 0, and four of the dual term."""
INSIDE = 1e-12
"""Least distance of a variable from its bounds at a start, as a share of its interval."""


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
        """What has become of them."""
        for name in self._state:
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
        """As `Samples`; there are no products."""
        beta, costs, linear = self.beta[where], self.costs[where], self.linear_term[where]
        sides = np.maximum(beta, 0.0), np.minimum(beta, 0.0)
        squares = [0.5 * self.curvature * np.sum(x * x / costs) for x in sides]
        return np.array([self.losses(where), 0.0, *map(np.sum, sides), *(linear @ x for x in sides), *squares])

    def dual(self, sums: Array, up: float, down: float) -> float:
        """linear'beta - absolute |beta|_1 - curvature beta^2/(2c)."""
        linear = up * (sums[4] - self.absolute * sums[2]) + down * (sums[5] + self.absolute * sums[3])
        return float(linear - up * up * sums[6] - down * down * sums[7])


def inverse_length(*ratios: Array) -> float:
    """The largest of these numbers, and at least 0: the reciprocal of the longest step."""
    return max(0.0, *(float(np.max(ratio, initial=0.0)) for ratio in ratios))
