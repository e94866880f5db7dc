"""Samples that nothing settles: what all share, dual terms without bounds, and the logistic loss, its own barrier."""

from __future__ import annotations

from typing import Any

import numpy as np

from mklref._typing import Array
from mklref.losses import Loss

INSIDE = 1e-12
"""Least distance of a variable from its bounds at a start, as a share of its interval."""


class Endless:
    """Samples that nothing settles; `_state` are the arrays, last axis n, that say where a sample is."""

    ends = False
    kinked = False
    _state: tuple[str, ...] = ("f", "beta")
    f: Array

    def __init__(self, loss: Loss, y: Array, costs: Array) -> None:
        self.loss, self.y, self.costs = loss, y, costs

    def begin(self, where: Any, tau: float) -> None:
        """As `Samples`."""
        raise NotImplementedError

    def linear(self, where: slice) -> tuple[Array, Array]:
        """As `Samples`."""
        raise NotImplementedError

    def part(self, index: Any) -> Any:
        """As `Samples`."""
        made = type(self)(self.loss, self.y[index], self.costs[index])
        for name in self._state:
            getattr(made, name)[...] = getattr(self, name)[..., index]
        return made

    def put(self, index: Any, part: Any) -> None:
        """As `Samples`."""
        for name in self._state:
            getattr(self, name)[..., index] = getattr(part, name)

    def clearance(self, where: Any) -> Array:
        """As `Samples`."""
        return np.zeros_like(self.f[where])

    def settle(self, where: Any) -> None:
        """There is no end."""

    def rounded(self, where: slice, width: float) -> Array:
        """As `Samples`; these losses are smooth."""
        self.begin(where, 0.0)
        return np.asarray(self.linear(where)[0])

    def room(self, where: Any) -> Array:
        """As `Samples`."""
        return np.stack([end.sum() for end in self.loss.box(self.y[where], self.costs[where])])


class Quadratic(Endless):
    """What losses with a quadratic dual term share."""

    def __init__(self, loss: Loss, y: Array, costs: Array) -> None:
        form = loss.quadratic_dual(y)
        assert form is not None
        super().__init__(loss, y, costs)
        self.linear_term, self.absolute, self.curvature = form.linear, form.absolute, form.curvature
        self.f, self.df, self.more, self.beta = (np.zeros(len(y)) for _ in range(4))

    def losses(self, where: Any) -> float:
        """As `Samples`."""
        return float(self.costs[where] @ self.loss.value(self.f[where], self.y[where]))

    def _pull(self, where: slice) -> Array:
        """h = f + curvature beta/c - linear."""
        pull = self.f[where] - self.linear_term[where]
        if self.curvature:
            pull += self.curvature * self.beta[where] / self.costs[where]
        return pull

    def _sums(self, where: Any, products: float) -> Array:
        beta, costs = self.beta[where], self.costs[where]
        up, down = np.maximum(beta, 0.0), np.minimum(beta, 0.0)
        linear = self.linear_term[where]
        return np.array(
            [
                self.losses(where),
                products,
                float(up.sum()),
                float(down.sum()),
                float(linear @ up),
                float(linear @ down),
                0.5 * self.curvature * float(np.sum(up * up / costs)),
                0.5 * self.curvature * float(np.sum(down * down / costs)),
            ]
        )

    def dual(self, sums: Array, up: float, down: float) -> float:
        """linear'beta - absolute |beta|_1 - curvature beta^2/(2c)."""
        linear = up * (sums[4] - self.absolute * sums[2]) + down * (sums[5] + self.absolute * sums[3])
        return float(linear - up * up * sums[6] - down * down * sums[7])


class FreeSamples(Quadratic):
    """No bounds: h = 0 is linear, and a full step solves it."""

    pairs = 0

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

    def second(self, where: slice, df: Array, tau: float, trial: float) -> tuple[float, Array]:
        """The step of the scores; beta follows them."""
        self.df[where] = df
        return 0.0, np.zeros_like(df)

    def third(self, where: slice, df: Array) -> float:
        """What is added to it."""
        self.more[where] = df
        return 0.0

    def move(self, where: slice, length: float, centred: bool) -> None:
        """beta goes where h = 0 is, by the share of the step."""
        stiffness, pull = self.linear(where)
        df = self.df[where] + self.more[where] if centred else self.df[where]
        self.beta[where] += length * (pull - stiffness * df)
        self.f[where] += length * df

    def sums(self, where: Any) -> Array:
        """As `Samples`."""
        return self._sums(where, 0.0)


class EntropySamples(Endless):
    """The logistic loss: y f = log((c - a)/a), a = y beta in (0, c), linearised in a."""

    pairs = 0
    _state = ("f", "beta", "a")

    def __init__(self, loss: Loss, y: Array, costs: Array) -> None:
        super().__init__(loss, y, costs)
        self.f, self.df, self.a, self.da, self.more, self.beta = (np.zeros(len(y)) for _ in range(6))

    def losses(self, where: Any) -> float:
        """As `Samples`."""
        return float(self.costs[where] @ self.loss.value(self.f[where], self.y[where]))

    def begin(self, where: Any, tau: float) -> None:
        """a = c/(1 + exp(y f))."""
        costs = self.costs[where]
        share = np.abs(self.loss.subgradient(self.f[where], self.y[where]))
        self.a[where] = costs * np.clip(share, INSIDE, 1.0 - INSIDE)
        self.beta[where] = self.y[where] * self.a[where]

    def linear(self, where: slice) -> tuple[Array, Array]:
        """D = a (c - a)/c and D r = y D (log((c - a)/a) - y f)."""
        a, costs, y = self.a[where], self.costs[where], self.y[where]
        stiffness = a * (costs - a) / costs
        return stiffness, y * stiffness * (np.log((costs - a) / a) - y * self.f[where])

    def first(self, where: slice, df: Array) -> tuple[float, Array, Array, Array]:
        """The correction is that of the curvature of the logarithm, 1/2 (1/a^2 - 1/(c - a)^2) da^2."""
        a, room, y = self.a[where], self.costs[where] - self.a[where], self.y[where]
        stiffness, pull = self.linear(where)
        da = np.clip(y * (pull - stiffness * df), -a, room)
        self.da[where] = 0.5 * stiffness * (1.0 / a**2 - 1.0 / room**2) * da * da
        return 0.0, np.zeros(3), np.zeros_like(a), y * self.da[where]

    def second(self, where: slice, df: Array, tau: float, trial: float) -> tuple[float, Array]:
        """As `Samples`; there are no products to centre."""
        stiffness, pull = self.linear(where)
        da = self.y[where] * (pull - stiffness * df) + self.da[where]
        self.da[where], self.df[where] = da, df
        return self._leaves(where, da), np.zeros_like(da)

    def third(self, where: slice, df: Array) -> float:
        """As `Samples`."""
        self.more[where] = df
        return self._leaves(where, self.da[where] + self._answer(where))

    def _leaves(self, where: slice, da: Array) -> float:
        return inverse_length(-da / self.a[where], da / (self.costs[where] - self.a[where]))

    def _answer(self, where: slice) -> Array:
        """What a goes along with more of df."""
        return -self.y[where] * self.linear(where)[0] * self.more[where]

    def move(self, where: slice, length: float, centred: bool) -> None:
        """As `Samples`."""
        da, df = self.da[where], self.df[where]
        if centred:
            da, df = da + self._answer(where), df + self.more[where]
        self.a[where] += length * da
        self.f[where] += length * df
        self.beta[where] = self.y[where] * self.a[where]

    def sums(self, where: Any) -> Array:
        """As `Samples`; the dual terms of positive and of negative beta."""
        y, costs, beta = self.y[where], self.costs[where], self.beta[where]
        terms, positive = self.loss.dual_terms(beta, y, costs), beta > 0.0
        loss = self.losses(where)
        up, down = float(beta[positive].sum()), float(beta[~positive].sum())
        return np.array([loss, 0.0, up, down, float(terms[positive].sum()), float(terms[~positive].sum()), 0.0, 0.0])

    def dual(self, sums: Array, up: float, down: float) -> float:
        """The terms are concave and 0 at 0: at least that share of them is left."""
        return float(up * sums[4] + down * sums[5])


def inverse_length(*ratios: Array) -> float:
    """The largest of these numbers, and at least 0: the reciprocal of the longest step."""
    return max(0.0, *(float(np.max(ratio, initial=0.0)) for ratio in ratios))
