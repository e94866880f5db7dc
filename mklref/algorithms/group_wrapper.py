"""Group kernel learning by a gradient wrapper on two weight vectors (Szafranski et al. 2008, section 5)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any, TypedDict, Unpack, overload

import numpy as np

from mklref._run import ABSURD
from mklref._typing import Array
from mklref._validate import checked_choice, checked_count, checked_rng, shown
from mklref.algorithms.base import Callback, Run, require
from mklref.algorithms.point import Point
from mklref.algorithms.stationary import GroupPoint, StationaryPoint, settle
from mklref.exceptions import InvalidParameter
from mklref.problem import Problem, require_problem
from mklref.regularizers import Groups
from mklref.regularizers.groups import group_owners, group_sizes, optimal_shares
from mklref.solution import Solution

_EDGE = 1e-8
"""Share of an even weight where the edge of the simplices begins. Weights with an exponent in (0, 1), at which J has an
infinite slope at 0, stay inside it; in the metric no weight counts for less, so that a zero can come back."""
_SHRINKAGE = 0.01
"""No step leaves less than this share of a weight inside the edge: growing back takes much longer."""
_ARMIJO = 1e-4
_SHORTEST = 1e-10
_LONGER = 10.0
"""Factor of the step where the curvature along the last one was not positive."""


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
        self.even = np.concatenate([1.0 / (len(groups) * self.sizes), np.full(len(self.owner), 1.0 / len(self.owner))])
        self.inside = np.repeat([0.0 < p < 1.0, 0.0 < q < 1.0], [len(groups), len(self.owner)])
        """Which sigma have an exponent in (0, 1), so that the slope of J is infinite where they are 0."""

    def split(self, sigma: Array) -> tuple[Array, Array]:
        """sigma1 and sigma2."""
        first, second = self.simplices
        return sigma[first], sigma[second]

    def weights(self, sigma: Array) -> Array:
        """theta (M,)."""
        sigma1, sigma2 = self.split(sigma)
        return np.asarray(sigma1[self.owner] ** self.p * sigma2**self.q)

    def closed_form(self, rho: Array) -> Array:
        """The best sigma for block norms, (10) and (11)."""
        return np.concatenate(optimal_shares(self.groups, self.p, self.q, rho))

    def kept_inside(self, sigma: Array) -> Array:
        """A mixture with even weights where the slope at 0 is infinite."""
        share = _EDGE * self.inside
        return np.asarray(share * self.even + (1.0 - share) * sigma)

    def gradient(self, sigma: Array, slopes: Array) -> Array:
        """dJ/dsigma from the slopes dJ/dtheta_m = -1/2 beta'K_m beta, by the chain rule (display before section 6).

        dJ/dsigma1_l = p sigma1_l^{p-1} sum_{m in l} sigma2_m^q dJ/dtheta_m
        dJ/dsigma2_m = q sigma1_l^p sigma2_m^{q-1} dJ/dtheta_m
        """
        sigma1, sigma2 = self.split(sigma)
        of_groups = np.bincount(self.owner, sigma2**self.q * slopes)
        of_kernels = sigma1[self.owner] ** self.p * slopes
        return np.concatenate([_slope(sigma1, self.p) * of_groups, _slope(sigma2, self.q) * of_kernels])

    def residual(self, sigma: Array, gradient: Array, value: float) -> float:
        """gradient'sigma less its minimum over the two simplices, relative to the value."""
        drop = sum(gradient[part] @ sigma[part] - np.min(gradient[part] / self.prices[part]) for part in self.simplices)
        return float(drop) / (abs(value) or 1.0)

    def metric(self, sigma: Array) -> Array:
        """sigma itself, down to the edge."""
        return np.maximum(sigma, _EDGE * self.even)

    def lowest(self, sigma: Array) -> Array:
        """How far the next step may go down."""
        edge = _EDGE * self.even
        return np.asarray(np.maximum(np.where(sigma > edge, _SHRINKAGE * sigma, 0.0), edge * self.inside))

    def project(self, x: Array, metric: Array, lowest: Array) -> Array:
        """argmin of sum (z - x)^2/metric over the two simplices and z >= lowest."""
        projected = lowest.copy()
        for part in self.simplices:
            room = 1.0 - float(self.prices[part] @ lowest[part])
            projected[part] += room * project((x[part] - lowest[part]) / room, self.prices[part], metric[part])
        return projected


def _slope(sigma: Array, exponent: float) -> Array:
    return exponent * sigma ** (exponent - 1.0) if exponent > 0.0 else np.zeros(len(sigma))


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


def change(before: float, sigma_before: Array, value: float, sigma: Array) -> float:
    """What stops at tol = sqrt(epsilon) as 6.1 does: J relative to |J| and not to 1 + J, which depends on its unit.

    |J before - J|/|J| <= epsilon,   max |sigma before - sigma|/(1 + sigma) <= sqrt(epsilon)
    """
    of_sigma = np.abs(sigma_before - sigma) / (1.0 + sigma)
    return float(max(np.sqrt(abs(before - value) / (abs(value) or 1.0)), of_sigma.max()))


def descend(run: Run, shape: GroupWeights, sigma: Array, warm_start: int, scaled: bool) -> Iterator[GroupPoint]:
    """Szafranski 5.1: closed-form steps first, then projected gradient descent on J(sigma1, sigma2)."""
    last: tuple[float, Array] | None = None

    def touched(sigma: Array, point: Point) -> tuple[GroupPoint, Array]:
        nonlocal last
        gradient = shape.gradient(sigma, run.gradient(point))
        residual = shape.residual(sigma, gradient, point.value)
        now = (point.value, sigma)
        run.measures = {"residual": residual, "change": np.inf if last is None else change(*last, *now)}
        last = now
        return GroupPoint(point, *shape.split(sigma), residual), gradient

    # 1. Initialisation: a rapid decrease by (10) and (11), in turn with the machine.
    sigma = shape.kept_inside(sigma)
    point = run.svm(shape.weights(sigma))
    for _ in range(warm_start):
        yield touched(sigma, point)[0]
        sigma = shape.kept_inside(shape.closed_form(point.weights * np.sqrt(point.squares)))
        point = run.svm(shape.weights(sigma))
    current, gradient = touched(sigma, point)
    yield current
    step = 1.0 / float(np.abs(gradient).max(initial=np.finfo(float).tiny))
    while True:
        # 2. Projected gradient: the direction to the projection of sigma - step metric gradient.
        metric = shape.metric(sigma) if scaled else np.ones(len(sigma))
        direction = shape.project(sigma - step * metric * gradient, metric, shape.lowest(sigma)) - sigma
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


class Options(TypedDict, total=False):
    """What every algorithm takes, and this one for any exponents."""

    tol: float
    max_iter: int
    max_time: float | None
    callback: Callback | None
    progress: bool
    start: Solution | None
    stop: str
    warm_start: int
    metric: str


@overload
def group_wrapper(problem: Problem, *, exponents: None = None, **options: Unpack[Options]) -> Solution: ...


@overload
def group_wrapper(
    problem: Problem,
    *,
    exponents: tuple[float, float],
    restarts: int = 0,
    rng: np.random.Generator | None = None,
    **options: Unpack[Options],
) -> StationaryPoint: ...


@ABSURD
def group_wrapper(
    problem: Any,
    *,
    tol: float = 1e-4,
    max_iter: int = 500,
    max_time: float | None = None,
    callback: Callback | None = None,
    progress: bool = False,
    start: Any = None,
    stop: str = "gap",
    warm_start: int = 5,
    metric: str = "weights",
    exponents: tuple[float, float] | None = None,
    restarts: int = 0,
    rng: np.random.Generator | None = None,
) -> Solution | StationaryPoint:
    """Weights for groups of kernels and within them, by projected gradient descent on both.

    minimise J(sigma1, sigma2), the value of the kernel machine with theta_m = sigma1_l^p sigma2_m^q for m in group l,
    subject to sigma >= 0, sum_l d_l sigma1_l = 1, sum_m sigma2_m = 1                                       (8), (12)

    After `warm_start` steps by the closed forms (10) and (11), which alone have no guarantee, the gradient follows from
    the dual of the machine and is projected onto the two simplices. Below exponent 1 it is infinite at 0, and steps
    measured in the Euclidean metric hardly move. Measured in that of the weights, sum (change)^2/sigma, and never to
    less than 1% of a weight, they do; weights with such an exponent stay 1e-8 of an even weight above 0.

    The problem is jointly convex for p + q <= 1, and `problem` with regularizer Groups(groups, p, q) states it: the
    result is a certified Solution. Beyond, it is not convex, and no `Problem` states it: give `exponents`, and the
    result is a StationaryPoint, without a gap. There a group and its kernels that are all 0 may stay 0, and which end
    is reached depends on the start.

    Parameters
    ----------
    problem : Problem
        With regularizer Groups, any loss. For `exponents` a Problem, of whose regulariser only the groups are used.
    tol : float
        Certified relative gap at which to stop; with `exponents` the residual of stationarity.
    max_iter : int
        Largest number of iterations, of each start.
    max_time, callback, progress, start : optional
        As for every algorithm: `mklref.algorithms.silp`.
    stop : {"gap", "change"}
        What has to fall below tol: what `tol` says; or how far an iteration moves sigma, and J at most tol^2 of itself:
        the criterion of 6.1, where tol = 1e-6. Both are in the records. A small change promises nothing: the status is
        OPTIMAL or STATIONARY if the certificate or the residual agrees, and else INACCURATE.
    warm_start : int
        Steps in closed form before the descent.
    metric : str
        "weights", or "euclidean" as the paper has it.
    exponents : (p, q), optional
        Nonnegative with p + q > 1.
    restarts : int
        With `exponents`: further starts from random points of the two simplices.
    rng : numpy Generator
        For the restarts.

    Raises
    ------
    NotApplicable
        For other regularisers; for several classes with `exponents`.
    InvalidParameter, InvalidType
        A bad option, exponents of a convex problem, or restarts without a Generator.
    """
    require_problem(problem)
    require(
        isinstance(problem.regularizer, Groups) and (exponents is None or not problem.several),
        "group_wrapper",
        problem,
        "Groups(groups, p, q), and with exponents for one machine",
        "For Lp(p): lp_wrapper; for elastic nets and other penalties: iterated_reweighting; else mklref.solve.",
    )
    metric = checked_choice("metric", metric, ("weights", "euclidean"))
    stop = checked_choice("stop", stop, ("gap", "change"))
    count = checked_count("warm_start", warm_start, 0, "steps by the closed forms first.")
    further = checked_count("restarts", restarts, 0, "starts beside the given one.")
    run = Run("group_wrapper", problem, tol, max_iter, max_time, callback, progress, start)
    run.stop = "residual" if stop == "gap" and exponents is not None else stop
    scaled, regularizer = metric == "weights", problem.regularizer
    if exponents is None:
        if further:
            raise InvalidParameter("restarts are for non-convex problems; a convex one has no other minimum.")
        shape = GroupWeights(regularizer.groups, regularizer.p, regularizer.q)
        steps = descend(run, shape, _first(run, shape, start), count, scaled)
        return run.follow(current.point for current in steps)
    shape = GroupWeights(regularizer.groups, *_checked_exponents(exponents))
    source: Any = checked_rng(rng) if further else None
    starts = chain([_first(run, shape, start)], (_random(shape, source) for _ in range(further)))
    return settle(run, problem, (descend(run, shape, sigma, count, scaled) for sigma in starts))


def _first(run: Run, shape: GroupWeights, start: Solution | None) -> Array:
    """The best sigma for the block norms of `start`, or for equal ones."""
    norms = np.ones(run.problem.n_kernels) if start is None else start.weights * np.sqrt(run.squares)
    return shape.closed_form(norms)


def _random(shape: GroupWeights, rng: np.random.Generator) -> Array:
    """A point drawn evenly from each of the two simplices."""
    drawn = [rng.dirichlet(np.ones(part.stop - part.start)) / shape.prices[part] for part in shape.simplices]
    return np.concatenate(drawn)


def _checked_exponents(exponents: Any) -> tuple[float, float]:
    try:
        p, q = (float(exponent) for exponent in exponents)
    except (TypeError, ValueError) as wrong:
        raise InvalidParameter(f"exponents = {shown(exponents)} must be two numbers (p, q).") from wrong
    if not (p >= 0.0 and q >= 0.0 and 1.0 < p + q < np.inf):
        raise InvalidParameter(
            f"exponents = ({p:g}, {q:g}) must be nonnegative with p + q > 1; up to 1 the problem is convex: put "
            "Groups(groups, p, q) into the problem and leave them out."
        )
    return p, q
