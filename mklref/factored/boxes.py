"""Samples whose dual variable has an end.

With scores f = L v + b and the dual term in the form -linear'beta + absolute |beta|_1 + sum curvature beta_i^2/(2 c_i)
on a box, let beta = base + E u, 0 <= u <= w, where E is the identity or its negative, or (I, -I) if there is a kink at
0. The path solves, with h = f + curvature beta/c - linear and multipliers s of d = u, and t of d = w - u for finite w,

    E'h + absolute - s + t = 0,        u s = tau,        (w - u) t = tau.

Linearised, with left sides d s = m for both ends, and s, t, u eliminated,

    dbeta = D (r - df),      B = sum_ends s/d,      S = sum_legs 1/B,      D = S/(1 + curvature S/c),
    D r = sum_legs E a/B / (1 + curvature S/c),     a = sum_ends m/d d' - E'h - absolute,      d' = 1 or -1.

A first step has m = 0; it says how far tau may fall, and what it leaves of the products: the second one has
m = tau - dd ds (Mehrotra). What is added to it moves products that a longer step would leave outside of
[tau/10, 10 tau] to the nearer end (Gondzio 1996).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mklref._typing import Array
from mklref.factored.samples import INSIDE, Quadratic, inverse_length
from mklref.losses import Loss

_HALVINGS = 60
_WIDTH = 10.0


class BoxSamples(Quadratic):
    """The distances d of u (legs, n) from its one or two ends, (ends, legs, n), and their multipliers s: s and t."""

    ends = True
    _state = ("f", "beta", "d", "s")

    def __init__(self, loss: Loss, y: Array, costs: Array) -> None:
        super().__init__(loss, y, costs)
        lower, upper = loss.box(y, costs)
        self.bounded = bool(np.isfinite(lower).all() and np.isfinite(upper).all())
        if self.absolute:
            self.sign, self.base = np.array([[1.0], [-1.0]]) + np.zeros(len(y)), np.zeros(len(y))
            self.w = np.stack([upper, -lower])
        else:
            above = np.isfinite(lower)
            self.sign = np.where(above, 1.0, -1.0)[None]
            self.base, self.w = np.where(above, lower, upper), (upper - lower)[None]
        self.side = np.array([1.0, -1.0] if self.bounded else [1.0])[:, None, None]
        """How the distance from each end changes with u."""
        self.pairs, self.kinked = len(self.w) * len(self.side), self.curvature == 0.0
        self.d, self.s, self.ds, self.es = (np.zeros((len(self.side), *self.w.shape)) for _ in range(4))
        self.u, (self.du, self.eu, self.a) = self.d[0], (np.zeros_like(self.w) for _ in range(3))
        self.barrier = np.ones_like(self.w)
        """a and B of the first step, which `linear` finds and the others use."""

    def begin(self, where: Any, tau: float) -> None:
        """tau/u - tau/(w - u) = E'h + absolute, each leg by itself."""
        x, slope = self._slopes(where)
        self.u[:, where] = _central(x, slope, self.w[:, where], tau) if self.bounded else _half_line(x, slope, tau)
        self._follow(where)
        self.s[..., where] = tau / self.d[..., where]

    def rounded(self, where: slice, width: float, near: bool = False) -> tuple[Array, Array]:
        """u = o - x/h, cut off: h the slope and o = 0, or width/c where that is 0, and o = w/2, or u of before."""
        (x, slope), w = self._slopes(where), self.w[:, where]
        middle: Any = 0.0
        if self.kinked:
            slope, middle = width / self.costs[where], self.u[:, where] if near else 0.5 * w
        u = middle - x / slope
        between = (u > 0.0) & (u < w)
        self.u[:, where] = np.clip(u, 0.0, w)
        self._follow(where)
        pull = self.sign[:, where] * between * x / -slope if self.kinked and near else np.zeros_like(x)
        return _over_legs(between / slope), _over_legs(pull)

    def clearance(self, where: Any) -> Array:
        """x where u goes to 0, and -(x + slope w) where it goes to w."""
        x, slope = self._slopes(where)
        away = np.maximum(x, -(x + slope * self.w[:, where])) if self.bounded else x
        return np.asarray(np.maximum(away.min(axis=0), 0.0))

    def settle(self, where: Any) -> Array:
        before: Array = self.u[:, where]
        self.unsettle(where, np.where(self._slopes(where)[0] > 0.0, 0.0, self.w[:, where]))
        return before

    def unsettle(self, where: Any, before: Array) -> None:
        self.u[:, where] = before
        self._follow(where)

    def linear(self, where: slice) -> tuple[Array, Array]:
        self.barrier[:, where] = np.add.reduce(self.s[..., where] / self.d[..., where])
        self.a[:, where] = a = -self.sign[:, where] * self._pull(where) - self.absolute
        shrink, compliance = self._stiffness(where)
        return shrink * compliance, self._answer(where, shrink, a)

    def first(self, where: slice, df: Array) -> tuple[float, Array, Array, Array]:
        """As `Samples`; with m = 0 is s dd + d ds = -d s."""
        d, s = self.d[..., where], self.s[..., where]
        shrink, compliance = self._stiffness(where)
        du = self._legs(where, self.a[:, where], shrink, compliance, df)
        dd = self.side * du
        share = dd / d
        ds = -s * (1.0 + share)
        self.du[:, where], self.ds[..., where] = du, ds
        worst = max(0.0, -float(share.min(initial=0.0)), 1.0 + float(share.max(initial=-1.0)))
        product, crossed = _over_ends(d * s), _over_ends(dd * ds)
        by_tau, bend = (self._answer(where, shrink, _across(a)) for a in (1.0 / d, -share * ds))
        return worst, np.array([product, -product, crossed]), by_tau, bend

    def second(self, where: slice, df: Array, tau: float, trial: float) -> tuple[float, Array]:
        d, s = self.d[..., where], self.s[..., where]
        shrink, compliance = self._stiffness(where)
        m = tau - self.side * self.du[:, where] * self.ds[..., where]
        du = self._legs(where, _across(m / d, self.a[:, where]), shrink, compliance, df)
        dd = self.side * du
        ds = (m - s * dd) / d - s
        more = centring((d + trial * dd) * (s + trial * ds), tau)
        self.du[:, where], self.ds[..., where], self.es[..., where], self.df[where] = du, ds, more, df
        return inverse_length(-dd / d, -ds / s), self._answer(where, shrink, _across(more / d))

    def third(self, where: slice, df: Array) -> float:
        d, s, m = self.d[..., where], self.s[..., where], self.es[..., where]
        eu = self._legs(where, _across(m / d), *self._stiffness(where), df)
        es = (m - s * (self.side * eu)) / d
        self.eu[:, where], self.es[..., where], self.more[where] = eu, es, df
        return inverse_length(-self.side * (self.du[:, where] + eu) / d, -(self.ds[..., where] + es) / s)

    def move(self, where: slice, length: float, centred: bool) -> None:
        for value, change, more in (
            (self.u, self.du, self.eu),
            (self.s, self.ds, self.es),
            (self.f, self.df, self.more),
        ):
            value[..., where] += length * (change[..., where] + more[..., where] if centred else change[..., where])
        self._follow(where)

    def _slopes(self, where: Any) -> tuple[Array, Array]:
        """x and slope: the derivative of what each leg minimises is x + slope u."""
        slope = self.curvature / self.costs[where]
        f = self.f[where] + slope * self.base[where] - self.linear_term[where]
        return self.sign[:, where] * f + self.absolute, slope

    def _follow(self, where: Any) -> None:
        """u is there: beta and the distance from the other end, if there is one."""
        if self.bounded:
            self.d[1][:, where] = self.w[:, where] - self.u[:, where]
        self.beta[where] = self.base[where] + _over_legs(self.sign[:, where] * self.u[:, where])

    def _stiffness(self, where: slice) -> tuple[Any, Array]:
        """1/(1 + curvature S/c) and S."""
        compliance = _over_legs(1.0 / self.barrier[:, where])
        return 1.0 / (1.0 + self.curvature * compliance / self.costs[where]) if self.curvature else 1.0, compliance

    def _answer(self, where: slice, shrink: Any, a: Array) -> Array:
        """D r for what is left of the lines of the legs."""
        return np.asarray(shrink * _over_legs(self.sign[:, where] * a / self.barrier[:, where]))

    def _legs(self, where: slice, a: Array, shrink: Any, compliance: Array, df: Array) -> Array:
        """du = (a - E'dh)/B with dh = df + curvature dbeta/c."""
        dh = df
        if self.curvature:
            dbeta = self._answer(where, shrink, a) - shrink * compliance * df
            dh = df + self.curvature * dbeta / self.costs[where]
        return np.asarray((a - self.sign[:, where] * dh) / self.barrier[:, where])


def _over_legs(values: Array) -> Array:
    """The sum over the legs, most often of one."""
    return np.asarray(values[0] if len(values) == 1 else values.sum(axis=0))


def _across(values: Array, line: Any = None) -> Array:
    """What both ends leave of a line, beside what is left already: with u one d grows, and the other one falls."""
    first = values[0] if line is None else line + values[0]
    return np.asarray(first if len(values) == 1 else first - values[1])


def _over_ends(values: Array) -> float:
    """The sum over all samples, one end after the other."""
    return float(sum(np.sum(each) for each in values))


def centring(products: Array, tau: float) -> Array:
    """What brings products into [tau/10, 10 tau], and at most 10 tau of it."""
    least, most = tau / _WIDTH, tau * _WIDTH
    return np.clip(np.clip(products, least, most) - products, -most, most)


def _central(x: Array, slope: Array, w: Array, tau: float) -> Array:
    """u in (0, w) with tau/u - tau/(w - u) = x + slope u; in closed form for slope = 0."""
    least = INSIDE * w
    if not np.any(slope):
        u = 2.0 * tau * w / (x * w + 2.0 * tau + np.hypot(x * w, 2.0 * tau))
        return np.clip(u, least, w - least)
    low, high = np.zeros_like(w), w.copy()
    for _ in range(_HALVINGS):  # the left side falls, the right side rises
        u = 0.5 * (low + high)
        over = tau * (w - 2.0 * u) < (x + slope * u) * u * (w - u)
        high, low = np.where(over, u, high), np.where(over, low, u)
    return np.clip(0.5 * (low + high), least, w - least)


def _half_line(x: Array, slope: Any, tau: float) -> Array:
    """u > 0 with tau/u = x + slope u."""
    root = np.sqrt(x * x + 4.0 * tau * slope)
    with np.errstate(divide="ignore"):
        return np.asarray(np.where(x > 0.0, 2.0 * tau / (np.abs(x) + root), (root - x) / (2.0 * slope)))
