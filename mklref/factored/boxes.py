"""Samples whose dual variable has an end.

With scores f = L v + b and the dual term in the form -linear'beta + absolute |beta|_1 + sum curvature beta_i^2/(2 c_i)
on a box, let beta = base + E u, 0 <= u <= w, where E is the identity or its negative, or (I, -I) if there is a kink at
0. The path solves, with h = f + curvature beta/c - linear,

    E'h + absolute - s + t = 0,        u s = tau,        (w - u) t = tau.

Linearised, with left sides u s = m, (w - u) t = k, and s, t, u eliminated,

    dbeta = D (r - df),      B = s/u + t/(w - u),      S = sum_legs 1/B,      D = S/(1 + curvature S/c),
    D r = sum_legs E a/B / (1 + curvature S/c),        a = m/u - k/(w - u) - E'h - absolute.

A first step has m = k = 0; it says how far tau may fall, and what it leaves of the products: the second one has
m = tau - du ds and k = tau + du dt (Mehrotra). What is added to it moves products that a longer step would leave
outside of [tau/10, 10 tau] to the nearer end (Gondzio 1996).
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
    """u, s and t of shape (legs, n); t only where w is finite."""

    ends = True
    _state = ("f", "beta", "u", "s", "t")

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
        self.pairs, self.kinked = len(self.w) * (2 if self.bounded else 1), self.curvature == 0.0
        self.u, self.s, self.t = (np.zeros_like(self.w) for _ in range(3))
        self.du, self.ds, self.dt, self.eu, self.es, self.et = (np.zeros_like(self.w) for _ in range(6))
        self.a, self.barrier = np.zeros_like(self.w), np.ones_like(self.w)
        """a and B of the first step, which `linear` finds and the others use."""

    def begin(self, where: Any, tau: float) -> None:
        """tau/u - tau/(w - u) = E'h + absolute, each leg by itself."""
        (x, slope), w = self._slopes(where), self.w[:, where]
        u = _central(x, slope, w, tau) if self.bounded else _half_line(x, slope, tau)
        self.u[:, where], self.s[:, where] = u, tau / u
        if self.bounded:
            self.t[:, where] = tau / (w - u)
        self._follow(where)

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
        before = self.u[:, where]
        self.u[:, where] = np.where(self._slopes(where)[0] > 0.0, 0.0, self.w[:, where])
        self._follow(where)
        return before

    def unsettle(self, where: Any, before: Array) -> None:
        self.u[:, where] = before
        self._follow(where)

    def _slopes(self, where: Any) -> tuple[Array, Array]:
        """x and slope: the derivative of what each leg minimises is x + slope u."""
        slope = self.curvature / self.costs[where]
        f = self.f[where] + slope * self.base[where] - self.linear_term[where]
        return self.sign[:, where] * f + self.absolute, slope

    def linear(self, where: slice) -> tuple[Array, Array]:
        barrier = self.s[:, where] / self.u[:, where]
        if self.bounded:
            barrier += self.t[:, where] / (self.w[:, where] - self.u[:, where])
        a = -self.sign[:, where] * self._pull(where) - self.absolute
        self.barrier[:, where], self.a[:, where] = barrier, a
        shrink, compliance = self._stiffness(where)
        return shrink * compliance, self._answer(where, shrink, a)

    def first(self, where: slice, df: Array) -> tuple[float, Array, Array, Array]:
        """As `Samples`; with m = k = 0 is s du + u ds = -u s, and (w - u) dt - t du = -(w - u) t."""
        u, s = self.u[:, where], self.s[:, where]
        shrink, compliance = self._stiffness(where)
        du = self._legs(where, self.a[:, where], shrink, compliance, df)
        share = du / u
        ds = -s * (1.0 + share)
        self.du[:, where], self.ds[:, where] = du, ds
        worst = max(0.0, -float(share.min(initial=0.0)), 1.0 + float(share.max(initial=-1.0)))
        product, crossed = float(np.sum(u * s)), float(np.sum(du * ds))
        inverse, bend = 1.0 / u, -share * ds
        if self.bounded:
            t, room = self.t[:, where], self.w[:, where] - u
            share = du / room
            dt = -t * (1.0 - share)
            self.dt[:, where] = dt
            worst = max(worst, float(share.max(initial=0.0)), 1.0 - float(share.min(initial=1.0)))
            product, crossed = product + float(np.sum(room * t)), crossed - float(np.sum(du * dt))
            inverse, bend = inverse - 1.0 / room, bend - share * dt
        along = np.array([product, -product, crossed])
        return worst, along, self._answer(where, shrink, inverse), self._answer(where, shrink, bend)

    def second(self, where: slice, df: Array, tau: float, trial: float) -> tuple[float, Array]:
        u, s, before = self.u[:, where], self.s[:, where], self.du[:, where]
        shrink, compliance = self._stiffness(where)
        m = tau - before * self.ds[:, where]
        a = self.a[:, where] + m / u
        if self.bounded:
            t, room = self.t[:, where], self.w[:, where] - u
            k = tau + before * self.dt[:, where]
            a -= k / room
        du = self._legs(where, a, shrink, compliance, df)
        ds = (m - s * du) / u - s
        worst, more = inverse_length(-du / u, -ds / s), centring((u + trial * du) * (s + trial * ds), tau)
        self.es[:, where], change = more, more / u
        if self.bounded:
            dt = (k + t * du) / room - t
            self.dt[:, where] = dt
            worst = max(worst, inverse_length(du / room, -dt / t))
            more = centring((room - trial * du) * (t + trial * dt), tau)
            self.et[:, where] = more
            change -= more / room
        self.du[:, where], self.ds[:, where], self.df[where] = du, ds, df
        return worst, self._answer(where, shrink, change)

    def third(self, where: slice, df: Array) -> float:
        u, s = self.u[:, where], self.s[:, where]
        m = self.es[:, where]
        a = m / u
        if self.bounded:
            t, room = self.t[:, where], self.w[:, where] - u
            k = self.et[:, where]
            a = a - k / room
        eu = self._legs(where, a, *self._stiffness(where), df)
        es = (m - s * eu) / u
        worst = inverse_length(-(self.du[:, where] + eu) / u, -(self.ds[:, where] + es) / s)
        if self.bounded:
            et = (k + t * eu) / room
            self.et[:, where] = et
            worst = max(worst, inverse_length((self.du[:, where] + eu) / room, -(self.dt[:, where] + et) / t))
        self.eu[:, where], self.es[:, where], self.more[where] = eu, es, df
        return worst

    def move(self, where: slice, length: float, centred: bool) -> None:
        steps = [(self.u, self.du, self.eu), (self.s, self.ds, self.es)]
        if self.bounded:
            steps.append((self.t, self.dt, self.et))
        for value, change, more in steps:
            value[:, where] += length * (change[:, where] + more[:, where] if centred else change[:, where])
        self.f[where] += length * (self.df[where] + self.more[where] if centred else self.df[where])
        self._follow(where)

    def sums(self, where: Any) -> Array:
        u, sums = self.u[:, where], super().sums(where)
        sums[1] = np.sum(u * self.s[:, where])
        if self.bounded:
            sums[1] += np.sum((self.w[:, where] - u) * self.t[:, where])
        return sums

    def _follow(self, where: Any) -> None:
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
