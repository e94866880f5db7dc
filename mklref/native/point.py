"""One evaluated point of the loop, what rounding leaves of it, and how long points may be no better."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import expit

from mklref._typing import Array
from mklref.certificate.allowance import squares_error
from mklref.certificate.bounds import dual_losses
from mklref.certificate.intercept import intercept_objective, middle_intercept
from mklref.machines.joint import JointMachine
from mklref.machines.machine import Machine
from mklref.native import tuning
from mklref.native.step import Cut
from mklref.problem import Problem
from mklref.regularizers.norms import quotient

_NEAREST, _SHARP = 36.0, 0.1
"""Ends of the range of s, where t is 1 but for its last digit, and the accuracy of the best s."""
_AND_OF_T = 1.0, 1.25
"""Multiples of dq: t beta is rounded as well, which mostly matters little."""
_TINY = sys.float_info.min


@dataclass(frozen=True, slots=True, eq=False)
class Point:
    """One evaluated point: weights (M,), the machine's answer to them, and the bounds of the optimum that it gives."""

    weights: Array
    beta: Array
    squares: Array
    intercept: Any
    merit: float
    """J + psi, or -J* where there is no psi."""
    upper: float
    lower: float
    inner_gap: float
    """The gap of the machine itself."""
    value: float
    working_gap: float
    """The gap as it would be if the kernels that are not watched were not there."""
    images: list[Array] | None = None
    """K_m beta of each machine, (M, n_p), kept where kernels lie on disk, which can be lost."""
    products: Array | None = None
    """K_m beta (M, n) as the certificate computes it, where that was done for this point."""

    @property
    def cut(self) -> Cut:
        """The lower bound of J that this dual point gives."""
        return Cut(self.beta, self.squares, self.value + 0.5 * float(self.weights @ self.squares))

    @property
    def gap(self) -> float:
        """upper - lower."""
        return self.upper - self.lower


class Patience:
    """How many centres in a row have had no smaller gap and no lower objective: rounding may be all that is left."""

    def __init__(self) -> None:
        self.smallest = self.lowest = np.inf
        self.waited = 0

    def look(self, centre: Point, target: float) -> None:
        """Compare with what was before."""
        better = centre.working_gap < 0.9 * self.smallest or centre.upper < self.lowest - target
        self.waited = 0 if better else self.waited + 1
        self.smallest, self.lowest = min(self.smallest, centre.working_gap), min(self.lowest, centre.upper)


def as_certified(loop: Any, centre: Point | None, weights: Array) -> None:
    """If the next point is likely the last, take its images from the certificate's product: one read serves both.

    Newton's method squares the gap, but at the weights of the centre the part of it stays that is not the machine's. A
    run may guess once; if it is wrong, the certificate reads the kernels again.
    """
    machine = loop.machine
    if machine.product is None or centre is None or not machine.forms.watched.all():
        return
    if weights is centre.weights and centre.gap - centre.inner_gap > loop.target:
        return
    if centre.gap <= tuning.SQUARED * np.sqrt(loop.tol) * max(abs(centre.upper), loop.zero):
        machine.forms.product, machine.product = machine.product, None


def losses_of_nothing(machine: Machine | JointMachine) -> float:
    """The losses of f = 0, with the best intercepts."""
    owners = [own.problem for own in machine.machines]
    zeros = [np.zeros(len(own.y)) for own in owners]
    return sum(intercept_objective(own, t, middle_intercept(own, t)) for own, t in zip(owners, zeros, strict=True))


def misled(machine: Machine | JointMachine, trial: Point, centre: Point) -> Array | None:
    """The closed form (M,) at the centre, if J shows that the model has taken weights to another order; else None.

    J is not negative, so that a cut of the trial point which is negative at the closed form is of no use there. That
    happens where a kernel that is far too large, with a q next to 0, is taken to weight 0: its q is so large then that
    Newton's steps back are below rounding. Block norms change less than weights; rounding hides those below `noise`.
    """
    if machine.problem.intercept_cost:  # J is negative
        return None
    noise = sum(squares_error(own.problem, own.beta, own.forms.images) for own in machine.machines)
    closed = closed_form(machine.problem, centre, noise)
    return closed if trial.cut.at(closed) < 0.0 else None


def compared(loop: Any, start: Point) -> tuple[Point, bool] | None:
    """Another point to compare with that of a start, if its weights are of another order, and whether it is better.

    Newton's steps mend weights of another order by a factor of two each, or not at all. Where weights are too large,
    those for the same block norms have a merit of at most `upper`. Where the merit is nearly that of f = 0 and the
    bounds are far apart, neither norms nor weights say anything: equal weights tell sparse steps the order.
    """
    loop.doubted, machine, sparse = False, loop.machine, loop.psi is not None
    if loop.problem.intercept_cost:  # J is negative
        return None
    nothing, above = losses_of_nothing(machine), start.merit - start.lower
    if sparse and start.merit > tuning.HEAVY * start.upper:
        weights = closed_form(loop.problem, start)
    elif above > tuning.OPEN * nothing and abs(nothing - start.merit) < tuning.GAINED * above:
        weights = equal_weights(machine)
    else:
        return None
    other = loop.evaluate(weights)
    better = other.merit < start.merit
    if sparse:
        loop.unit = tuning.UNIT * float((weights * loop.units).max())
        loop.cuts = [(start if better else other).cut]
    if not better:
        loop.resume(start)
    return other, better


def equal_weights(machine: Machine | JointMachine) -> Array:
    """The weights (M,) of equal block norms, whatever these are if R is homogeneous of degree 2.

    Else the norm is that of a function of the smallest kernel with scores as large as the targets, in any unit of both,
    halved until R is at most what f = 0 loses. Weights that are too large fall at once, unless they are so by orders:
    those of large kernels are bounded. Where psi is polyhedral, the norm is that of a function of the largest kernel,
    which is smaller and does better, unless the two differ by orders.

    Where 1'beta = c_b, f = 0 loses nothing, but the first dual point is not 0: the norm is the mean of those that
    attain R* there.
    """
    regularizer, norms = machine.problem.regularizer, np.ones(machine.problem.n_kernels)
    if regularizer.degree != 2.0 and machine.problem.intercept_cost and (weights := of_dual(machine)) is not None:
        norms *= float((weights * np.sqrt(machine.squares)).mean())
    losses = losses_of_nothing(machine)
    if regularizer.degree != 2.0 and losses > 0.0:
        scores = np.sqrt(np.mean([own.forms.diagonals.mean(axis=1) for own in machine.machines], axis=0))
        first = tuning.FIRST_SCORES / np.sqrt(len(scores))
        targets = first * max(_size_of_targets(own.problem) for own in machine.machines)
        if scores.any() and targets > 0.0:
            alike, most = (
                np.full_like(scores, np.clip(targets / float(of), _TINY, sys.float_info.max))
                for of in (scores.max(), scores[scores > 0.0].min())
            )
            while regularizer.value(most) > losses:
                most *= 0.5
            other = np.minimum(most, quotient(np.full_like(scores, tuning.LARGEST_SCORES * targets), scores))
            other[scores == 0.0] = most[0]
            curved = regularizer.polyhedral(len(scores)) is None
            norms = other if curved or np.abs(np.log(other / alike)).max() > np.log(tuning.ORDERS) else alike
    norms = np.minimum(norms, sys.float_info.max)
    while not np.isfinite(equal := np.asarray(regularizer.weights_from_norms(norms))).all() and norms.any():
        norms = 0.5 * norms  # its square may overflow where it does not
    return equal


def of_dual(machine: Machine | JointMachine) -> Array | None:
    """The weights (M,) that attain R* at the present dual point, unless it is infinite or 0 there."""
    g, regularizer = np.sqrt(machine.squares), machine.problem.regularizer
    weights = regularizer.weights_from_dual(regularizer.dual_scale(g) * g)
    return np.asarray(weights) if weights.any() and np.isfinite(weights).all() else None


def _size_of_targets(problem: Any) -> float:
    """The mean of |y_i|, of real ones from the best constant where there is an intercept."""
    real = problem.loss.targets == "real"
    return float(np.abs(problem.y - middle_intercept(problem, np.zeros(len(problem.y))) * real).mean())


def closed_form(problem: Any, point: Point, least: Array | float = 0.0) -> Array:
    """The weights (M,) for the present block norms: J + psi falls, however far the model is off (Kloft (17))."""
    norms = point.weights * np.sqrt(np.maximum(point.squares, least))
    return np.asarray(problem.regularizer.weights_from_norms(norms))


def known_squares(problem: Problem, betas: Sequence[Array]) -> Array:
    """q and the rounding of q, (2, M), from a read of the kernels."""
    squares, noise = found = np.zeros((2, problem.n_kernels))
    for (own, *_), beta in zip(problem.machines, betas, strict=True):
        images = own.kernels.images(beta)
        squares += np.maximum(images @ beta, 0.0)
        noise += squares_error(own, beta, images)
    return found


def nearer(machine: Machine | JointMachine, point: Point) -> list[Point]:
    """The same function as (t beta, theta / t), for the t of the largest lower bounds that rounding leaves.

    They are concave in t. The rounding of q = beta'K beta is t^2 dq: where R* is so steep that dq raises it far, a t
    next to 1 makes up for that at the cost of a share 1 - t of the dual losses.
    """
    problem, betas = machine.problem, machine.split(point.beta)
    regularizer = problem.regularizer
    if regularizer.weight_form == "min" and not np.isfinite(regularizer.weight_penalty(2.0 * point.weights)):
        return []  # weights / t are not allowed
    squares, noise = known_squares(problem, betas)

    def best(g: Array) -> float:
        """By ternary search on s, t = 1/(1 + exp(-s)), for dual norms g."""
        low, high = -_NEAREST, _NEAREST
        while high - low > _SHARP:
            s = low + (high - low) * np.array([1.0, 2.0]) / 3.0
            left, right = (dual_losses(problem, betas, t) - regularizer.conjugate(t * g) for t in expit(s))
            low, high = (low, s[1]) if left >= right else (s[0], high)
        return float(expit(low))

    scales = [best(np.sqrt(squares + spare * noise)) for spare in _AND_OF_T]
    return [replace(point, beta=t * point.beta, weights=point.weights / t, images=None, products=None) for t in scales]
