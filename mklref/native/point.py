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
"""Of s: the last t is 1 but for its last digit; and how well the best s is known."""
_AND_OF_T = 1.0, 1.25
"""Of dq: t beta is rounded, too, which mostly matters little."""
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
    """How long no centre has become better: no smaller gap, no lower objective. Rounding is then it."""

    def __init__(self) -> None:
        self.smallest = self.lowest = np.inf
        self.waited = 0

    def look(self, centre: Point, target: float) -> None:
        """Compare with what was before."""
        better = centre.working_gap < 0.9 * self.smallest or centre.upper < self.lowest - target
        self.waited = 0 if better else self.waited + 1
        self.smallest, self.lowest = min(self.smallest, centre.working_gap), min(self.lowest, centre.upper)


def as_certified(loop: Any, centre: Point | None, weights: Array) -> None:
    """Let the next point, if it may well be the last, have its images from the certificate's product, once for both.

    Newton's method squares the gap; at the weights of the centre that part stays which is not the machine's. One point
    of a run may be misjudged, which costs the certificate's own read.
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

    J, which is convex and not negative, shows it where the cut of the trial point is below 0 at the closed form. So
    it is after a step to 0 of a kernel that is far too large, whose q was next to nothing, and is so large now that
    Newton's steps back are below rounding. Norms change less than weights; rounding hides those that are smaller.
    """
    if machine.problem.intercept_cost:  # J is negative
        return None
    noise = sum(squares_error(own.problem, own.beta, own.forms.images) for own in machine.machines)
    closed = closed_form(machine.problem, centre, noise)
    return closed if trial.cut.at(closed) < 0.0 else None


def compared(loop: Any, start: Point) -> tuple[Point, bool] | None:
    """Another point to compare with that of a start, if its weights are of another order, and whether it is better.

    Newton's steps would change them by a half of what they are, or by rounding. Where they are too large, there are
    weights for the same norms whose merit is at most `upper`. Where the merit is all but what f = 0 has and bounds are
    far apart, neither norms nor weights say anything, and equal ones, of any merit, tell sparse steps the order.
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
    """The weights (M,) of equal block norms, which are the same for all norms if R is homogeneous of degree 2.

    Else they are those of functions of the smallest kernel that make up the targets, in whatever unit these and the
    kernels are, or as is worth it: R is no more than f = 0 loses. Weights that are too large fall at once, unless they
    are by orders: those of large kernels are bounded. Where psi is sparse those of the largest kernel are smaller, and
    better unless they are by orders others.

    Where 1'beta = c_b f = 0 loses nothing, but the first dual point is not 0: they are the mean of what attains R*.
    """
    regularizer, norms = machine.problem.regularizer, np.ones(machine.problem.n_kernels)
    if regularizer.degree != 2.0 and machine.problem.intercept_cost and (weights := of_dual(machine)) is not None:
        norms *= float((weights * np.sqrt(machine.forms.squares)).mean())
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
    return np.asarray(regularizer.weights_from_norms(norms))


def of_dual(machine: Machine | JointMachine) -> Array | None:
    """The weights (M,) that attain R* at the present dual point, unless it is infinite or 0 there."""
    g, regularizer = np.sqrt(machine.forms.squares), machine.problem.regularizer
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

    They are concave in t. The rounding dq of q = beta'K beta counts t^2 of what it is at t = 1: where R* is steep, so
    that dq takes it far up, a t next to 1 brings it back at the cost of a share 1 - t of the losses.
    """
    problem, betas = machine.problem, machine.split(point.beta)
    regularizer = problem.regularizer
    if regularizer.weight_form == "min" and not np.isfinite(regularizer.weight_penalty(2.0 * point.weights)):
        return []  # no such weights
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
