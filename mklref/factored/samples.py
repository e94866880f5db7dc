"""The samples on the central path: dual variables and multipliers of a slice of them, sample by sample.

With scores f = L v + b and the dual term of a loss in the form -linear'beta + absolute |beta|_1 + sum curvature
beta_i^2/(2 c_i) on a box, let beta = base + E u, 0 <= u <= w, where E is the identity or its negative, or (I, -I) if
there is a kink at 0. The path solves, with h = f + curvature beta/c - linear,

    E'h + absolute - s + t = 0,        u s = tau,        (w - u) t = tau.

Linearised, with left sides u s = m, (w - u) t = k, and s, t, u eliminated,

    dbeta = D (r - df),      B = s/u + t/(w - u),      S = sum_legs 1/B,      D = S/(1 + curvature S/c),
    D r = sum_legs E a/B / (1 + curvature S/c),        a = m/u - k/(w - u) - E'h - absolute.

A first step has m = k = 0; it says how far tau may fall, and what it leaves of the products: the second one has
m = tau - du ds and k = tau + du dt (Mehrotra). What is added to it moves products that a longer step would leave
outside of [tau/10, 10 tau] to the nearer end (Gondzio 1996). The logistic loss is its own barrier, a = y beta:
y f = log((c - a)/a).

All methods work on a slice of the samples, small enough for the cache, and return sums.

As tau falls to 0 most variables u go to an end, 0 or w, and stay there as long as the score is `clearance` away from
where the loss bends: until then the loss of the sample is linear. `settle` puts them there.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from mklref._typing import Array
from mklref.exceptions import NotApplicable
from mklref.losses import Logistic, Loss

_INSIDE = 1e-12
"""Least distance of a variable from its bounds at a start, as a share of its interval."""
_HALVINGS = 60
_WIDTH = 10.0
SUMS = 8
"""Numbers that `sums` returns: loss, products, sums of beta above and below 0, and four of the dual term."""


class Samples(Protocol):
    """What a step asks of the samples; slices are those of this object's own samples."""

    f: Array
    beta: Array
    pairs: int
    """Products for each sample that go to tau."""
    ends: bool
    """Whether there are ends to settle at."""
    kinked: bool
    """Whether the loss has kinks, where D is infinite."""

    def part(self, index: Any) -> Samples:
        """Some of the samples as they are."""

    def put(self, index: Any, part: Samples) -> None:
        """What has become of them."""

    def clearance(self, where: Any) -> Array:
        """How far each score is from where beta leaves the end that it goes to; 0 if it goes to none."""

    def settle(self, where: Any) -> None:
        """Put beta at the end that it goes to."""

    def room(self, where: Any) -> Array:
        """The sums of the lower and of the upper ends of beta."""

    def losses(self, where: Any) -> float:
        """The sum of c_i V(f_i, y_i)."""

    def begin(self, where: Any, tau: float) -> None:
        """Put the samples on their own central path for their scores."""

    def rounded(self, where: slice, width: float) -> Array:
        """Put beta where the loss, rounder by `width` if it has kinks, has it for their scores; D."""

    def linear(self, where: slice) -> tuple[Array, Array]:
        """D and D r of the first step."""

    def first(self, where: slice, df: Array) -> tuple[float, Array, Array, Array]:
        """1/length where it leaves the interior, coefficients (3,) of the products along it, D dr/dtau and D dr."""

    def second(self, where: slice, df: Array, tau: float, trial: float) -> tuple[float, Array]:
        """The step itself: 1/length where it leaves the interior, and D dr of what centres its products at `trial`."""

    def third(self, where: slice, df: Array) -> float:
        """What centring adds to the step, and 1/length where the sum leaves the interior."""

    def move(self, where: slice, length: float, centred: bool) -> None:
        """Take the step, with what was added to it or without."""

    def sums(self, where: Any) -> Array:
        """(SUMS,)."""

    def dual(self, sums: Array, up: float, down: float) -> float:
        """The loss part of the dual objective at up max(beta, 0) + down min(beta, 0), factors in [0, 1]."""


def samples_for(loss: Loss, y: Array, costs: Array) -> Samples:
    """The samples of a loss.

    Raises
    ------
    NotApplicable
        A loss of one's own without `quadratic_dual`, or with a box that is bounded for some samples only.
    """
    if isinstance(loss, Logistic):
        return EntropySamples(loss, y, costs)
    form = loss.quadratic_dual(y)
    lower, upper = loss.box(y, costs)
    bounded = np.isfinite(lower) & np.isfinite(upper)
    mixed = bounded.any() and not bounded.all()
    if form is None or (len(y) and (mixed or (not bounded.any() and form.curvature == 0.0))):
        raise NotApplicable(
            f"the solver for kernels as factors takes losses whose dual is a quadratic on a box; {loss} is none. "
            "For small n solve the matrices: problem.replace(kernels=problem.kernels.dense_stack())."
        )
    if form.absolute == 0.0 and not (np.isfinite(lower) | np.isfinite(upper)).any():
        return FreeSamples(loss, y, costs)
    return BoxSamples(loss, y, costs)


def _worst(*ratios: Array) -> float:
    """The largest of these numbers, and at least 0: the reciprocal of the longest step."""
    return max(0.0, *(float(np.max(ratio, initial=0.0)) for ratio in ratios))


class _Endless:
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


class _Quadratic(_Endless):
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


class FreeSamples(_Quadratic):
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


class BoxSamples(_Quadratic):
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

    def rounded(self, where: slice, width: float) -> Array:
        """u = (h w/(2c) - x)/(slope + h/c), cut off at 0 and w; D = sum of 1/(slope + h/c) over legs between them."""
        (x, slope), w = self._slopes(where), self.w[:, where]
        if self.kinked:
            slope = width / self.costs[where]
            x = x - 0.5 * slope * w
        u = -x / slope
        between = (u > 0.0) & (u < w)
        self.u[:, where] = np.clip(u, 0.0, w)
        self._follow(where)
        return _over_legs(between / slope)

    def clearance(self, where: Any) -> Array:
        """x where u goes to 0, and -(x + slope w) where it goes to w."""
        x, slope = self._slopes(where)
        away = np.maximum(x, -(x + slope * self.w[:, where])) if self.bounded else x
        return np.asarray(np.maximum(away.min(axis=0), 0.0))

    def settle(self, where: Any) -> None:
        """As `Samples`."""
        self.u[:, where] = np.where(self._slopes(where)[0] > 0.0, 0.0, self.w[:, where])
        self._follow(where)

    def _slopes(self, where: Any) -> tuple[Array, Array]:
        """x and slope: the derivative of what each leg minimises is x + slope u."""
        slope = self.curvature / self.costs[where]
        f = self.f[where] + slope * self.base[where] - self.linear_term[where]
        return self.sign[:, where] * f + self.absolute, slope

    def linear(self, where: slice) -> tuple[Array, Array]:
        """As `Samples`."""
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
        """As `Samples`."""
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
        worst, more = _worst(-du / u, -ds / s), centring((u + trial * du) * (s + trial * ds), tau)
        self.es[:, where], change = more, more / u
        if self.bounded:
            dt = (k + t * du) / room - t
            self.dt[:, where] = dt
            worst = max(worst, _worst(du / room, -dt / t))
            more = centring((room - trial * du) * (t + trial * dt), tau)
            self.et[:, where] = more
            change -= more / room
        self.du[:, where], self.ds[:, where], self.df[where] = du, ds, df
        return worst, self._answer(where, shrink, change)

    def third(self, where: slice, df: Array) -> float:
        """As `Samples`."""
        u, s = self.u[:, where], self.s[:, where]
        m = self.es[:, where]
        a = m / u
        if self.bounded:
            t, room = self.t[:, where], self.w[:, where] - u
            k = self.et[:, where]
            a = a - k / room
        eu = self._legs(where, a, *self._stiffness(where), df)
        es = (m - s * eu) / u
        worst = _worst(-(self.du[:, where] + eu) / u, -(self.ds[:, where] + es) / s)
        if self.bounded:
            et = (k + t * eu) / room
            self.et[:, where] = et
            worst = max(worst, _worst((self.du[:, where] + eu) / room, -(self.dt[:, where] + et) / t))
        self.eu[:, where], self.es[:, where], self.more[where] = eu, es, df
        return worst

    def move(self, where: slice, length: float, centred: bool) -> None:
        """As `Samples`."""
        steps = [(self.u, self.du, self.eu), (self.s, self.ds, self.es)]
        if self.bounded:
            steps.append((self.t, self.dt, self.et))
        for value, change, more in steps:
            value[:, where] += length * (change[:, where] + more[:, where] if centred else change[:, where])
        self.f[where] += length * (self.df[where] + self.more[where] if centred else self.df[where])
        self._follow(where)

    def sums(self, where: Any) -> Array:
        """As `Samples`."""
        u = self.u[:, where]
        products = float(np.sum(u * self.s[:, where]))
        if self.bounded:
            products += float(np.sum((self.w[:, where] - u) * self.t[:, where]))
        return self._sums(where, products)

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


class EntropySamples(_Endless):
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
        self.a[where] = costs * np.clip(share, _INSIDE, 1.0 - _INSIDE)
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
        return _worst(-da / self.a[where], da / (self.costs[where] - self.a[where]))

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


def _over_legs(values: Array) -> Array:
    """The sum over the legs, most often of one."""
    return np.asarray(values[0] if len(values) == 1 else values.sum(axis=0))


def centring(products: Array, tau: float) -> Array:
    """What brings products into [tau/10, 10 tau], and at most 10 tau of it."""
    least, most = tau / _WIDTH, tau * _WIDTH
    return np.clip(np.clip(products, least, most) - products, -most, most)


def _central(x: Array, slope: Array, w: Array, tau: float) -> Array:
    """u in (0, w) with tau/u - tau/(w - u) = x + slope u; in closed form for slope = 0."""
    least = _INSIDE * w
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
