"""Machines whose dual is a box-constrained quadratic (hinge, epsilon-insensitive, squared hinge, ...): SMO.

J(theta) = max_beta  linear'beta - absolute |beta|_1 - 1/2 beta'(Q + diag(shift)) beta
           lower <= beta <= upper,   1'beta = c_b with an intercept
"""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any

import numpy as np

from mklref._threads import blas_threads
from mklref._typing import Array
from mklref.certificate import repair
from mklref.certificate.intercept import intercept_objective
from mklref.losses import QuadraticDual
from mklref.machines.cholesky import factorised, halfway, substituted
from mklref.machines.loops import loops
from mklref.machines.machine import Machine, weighted
from mklref.machines.quadratic_forms import QuadraticForms
from mklref.problem import Problem

_JITTER = 1e-13
_MOST_FREE = 1600
_MOST_ROUNDS = 100
"""Rounds of pair steps and a Newton step: what they have not reached is below rounding."""
_LAST_BIT = float(np.finfo(float).eps)
_ROUNDING = 16 * _LAST_BIT
"""No violation below this share of the gradient's terms can be told from rounding."""
_SQUARED = float(np.sqrt(np.finfo(float).tiny))
"""Nor can steps be chosen by violations below this times the root of the diagonal: their gain, a square, underflows."""
_STEPS_PER_SAMPLE = 30
"""Two-variable steps for each sample after which a Newton step on the free samples is tried: SMO crawls where Q is
nearly singular. 86 random problems on which it does take 7.1 s, and 7.9 at 100."""
_GROWING = 1, 3, 6, 20
"""The same in rounds, at a trial point: after each the dual objective may show that the point is no better."""
_SEEN = 1e-9
"""By how much it has to show that, as a share of its terms: far more than rounding."""
_LOOSE = 0.05
"""The first machine is solved to this share of the violation that it starts with if its weights are a mere guess: as
long as beta = 0, its size says nothing of what a violation costs."""
_FIRST = 0.005
"""The same share where the first weights come from a part of the samples."""
_COARSE, _FAR_OFF = 0.01, 1.0 / 3.0
"""And to a gap of at most this share of its objective, or it is solved again at the same weights, unless as much as the
other share is open, from where weights are far off. Of 50 runs (`many`, digits, blobs, cancer, lines, alone, the larger
ones with fewer samples) without: 339 machines, 220 reads and 141,000 steps in place of 320, 205 and 117,000; lines at
C = 100 would take up to three times as many steps without the other share."""
_SHARE = 0.01
"""Share of the wanted gap that a violation of the optimality conditions, times sum |beta|, may cost."""


class SMOMachine(Machine):
    """Solved by sequential minimal optimisation from the last beta and its known gradient."""

    def __init__(
        self, problem: Problem, dual: QuadraticDual, start: Array | None, forms: QuadraticForms | None = None
    ) -> None:
        self.linear = dual.linear
        self.absolute = dual.absolute
        self.shift = dual.curvature / problem.costs
        self.shifted = dual.curvature > 0.0
        self.lower, self.upper = problem.costs * dual.lower, problem.costs * dual.upper
        super().__init__(problem, self._start(problem) if start is None else start, forms)
        self.gradient, self.diagonal = -self.linear, self.shift

    def _start(self, problem: Problem) -> Array:
        """0, or the first samples at their bounds until 1'beta = c_b."""
        if not (problem.intercept and problem.intercept_cost):
            return np.zeros(problem.n_samples)
        before = np.append(0.0, np.cumsum(self.upper[:-1]))  # of the samples before each one; exactly 0 for the first
        return np.clip(problem.intercept_cost - before, 0.0, self.upper)

    def move(self, weights: Array) -> None:
        if weights is not self.weights:
            self.diagonal = weighted(weights, self.forms.diagonals) + self.shift
        super().move(weights)
        self.gradient = self.image() + self.shift * self.beta - self.linear

    def solve(self, gap: float, enough: float = np.inf) -> None:
        """Solve to a violation of the optimality conditions, in units of the score, that costs about this gap."""
        total, loosest = float(np.abs(self.beta).sum()), np.inf
        if not self.solves or total == 0.0:
            low, high = self._multipliers()
            loosest = (_FIRST if self.warm else _LOOSE) * (high - low)
        tol = min(loosest, _SHARE * gap / max(total, np.finfo(float).tiny))
        terms = float(np.abs(self.linear).max()) or float(self.diagonal @ np.abs(self.beta))  # Q beta may be 0
        least = _ROUNDING * (float(np.abs(self.gradient + self.linear).max()) + terms)
        least = max(least, _SQUARED * max(1.0, float(np.sqrt(self.diagonal.max()))))
        if self.solves:
            self._follow()
        for _ in range(_MOST_ROUNDS):
            tol = max(tol, least)
            if self._pair_steps(tol, enough) <= tol:
                excess, objective = self._excess()
                wanted = min(gap, _COARSE * objective) if excess < _FAR_OFF * objective else gap
                if tol == least or excess <= wanted:
                    break
                tol *= max(_SHARE, 0.5 * wanted / excess)  # sum |beta| was far too small to judge by
            elif self._above(enough) or not self._newton():
                break
            if time.perf_counter() > self.deadline:
                break
        self.beta = self.balanced(self.beta)
        self.solves += 1
        self.forms.update(self.beta)

    def _follow(self) -> None:
        """A Newton step on the samples that are free from weights before: mostly they are, or nearly, those of now."""
        free = self.free()
        if 0 < len(free) <= _MOST_FREE:
            self._newton_step(free)
        else:
            self.form(free)

    def balanced(self, beta: Array) -> Array:
        """beta, repaired if huge steps, from a far start or on kernels indefinite by rounding, have moved 1'beta."""
        cost = self.problem.intercept_cost
        imbalance = abs(float(beta.sum()) - cost) if self.problem.intercept else 0.0
        wrong = imbalance > 4.0 * _LAST_BIT * len(beta) * max(float(np.abs(beta).sum()), cost)
        return repair(self.problem, beta)[0] if wrong else beta

    def derivatives(self) -> tuple[Array, Array]:
        """The right and left derivatives of the objective in each beta_i; inf at the upper, -inf at the lower bound.

        The kink of the absolute value sits at 0.
        """
        right = left = self.gradient
        if self.absolute > 0.0:
            right = right + np.where(self.beta >= 0.0, self.absolute, -self.absolute)
            left = left + np.where(self.beta > 0.0, self.absolute, -self.absolute)
        return np.where(self.beta < self.upper, right, np.inf), np.where(self.beta > self.lower, left, -np.inf)

    def _multipliers(self) -> tuple[float, float]:
        """The smallest right and the largest left derivative of the objective, 0 among both without an intercept.

        The second less the first is the violation of the optimality conditions; if it is at most 0, these hold with any
        -b between the two.
        """
        right, left = self.derivatives()
        ends = float(right.min()), float(left.max())
        return ends if self.problem.intercept else (min(ends[0], 0.0), max(ends[1], 0.0))

    def multiplier(self) -> float:
        """The middle of those at which the optimality conditions hold."""
        low, high = self._multipliers()
        return -0.5 * (low + high)

    def _excess(self) -> tuple[float, float]:
        """The gap of the machine, its primal objective at these scores less its dual objective, and |the former|."""
        problem, image = self.problem, self.gradient + self.linear - self.shift * self.beta
        intercept = self.multiplier() if problem.intercept else 0.0
        intercept = intercept if np.isfinite(intercept) else 0.0
        losses, square = intercept_objective(problem, image, intercept), float(self.beta @ image)
        return losses + square - self.dual_term(), abs(losses + 0.5 * square)

    def _pair_steps(self, tol: float, enough: float) -> float:
        """Pair steps down to this violation, a limit, or a value above `enough`; returns the violation that is left."""
        for steps in _GROWING if enough < np.inf else (_STEPS_PER_SAMPLE,):
            violation = self._smo(tol, steps)
            if violation <= tol or self._above(enough):
                break
        return violation

    def _above(self, enough: float) -> bool:
        """Whether the dual objective at beta, by its gradient, is above this, and J with it."""
        linear = float(self.linear @ self.beta) - self.absolute * float(np.abs(self.beta).sum())
        quadratic = 0.5 * float((self.gradient + self.linear) @ self.beta)
        return linear - quadratic > enough + _SEEN * (abs(linear) + abs(quadratic))

    def _smo(self, tol: float, steps_per_sample: int = _STEPS_PER_SAMPLE) -> float:
        """One round of pair steps; returns the violation that is left."""
        steps, formed, violation = loops.smo(
            self.forms.stack,
            self.weights,
            self.rows,
            self.ready,
            self.diagonal,
            self.lower,
            self.upper,
            self.absolute,
            self.problem.intercept,
            self.beta,
            self.gradient,
            tol,
            steps_per_sample * len(self.beta),
            self.deadline - time.perf_counter(),
            self.forms.threads,
        )
        self.steps += steps
        self.rows_read += formed * int(np.count_nonzero(self.weights))
        return float(violation)

    def _newton(self) -> bool:
        """Newton steps on the free samples, fewer each time, until a whole one; False if they gain nothing."""
        free, gain = self.free(), 0.0
        while len(free) and time.perf_counter() < self.deadline:
            gain += self._newton_step(free)
            before, free = free, self.free()
            if len(free) == len(before):
                break
        size = abs(self.linear @ self.beta) + abs((self.gradient + self.linear) @ self.beta)
        return gain > _LAST_BIT * float(size)

    def _newton_step(self, free: Any) -> float:
        """Solve the optimality conditions of the free samples as equations; returns the slope times the step, or 0.

        (Q_FF + shift) step + nu 1 = -gradient_F (with the slope of the absolute term), 1'step = 0, up to the
        first bound or kink on the way.
        """
        root = self._factor(free)
        slope = self.gradient[free] + self.absolute * np.sign(self.beta[free])
        sides = np.stack([slope, np.ones(len(free))], axis=1)
        solved = substituted(root, sides)
        step = -solved[:, 0]
        if self.problem.intercept:
            step -= step.sum() / solved[:, 1].sum() * solved[:, 1]
        value = self.beta[free]
        kink = (self.absolute > 0.0) & (value * step < 0.0)
        end = np.where(kink, 0.0, np.where(step > 0.0, self.upper[free], self.lower[free]))
        reach = np.divide(end - value, step, out=np.full(len(step), np.inf), where=step != 0.0)
        t = min(1.0, float(reach.min()))
        gain = t * float(-slope @ step)
        if not gain >= 0.0:
            return 0.0
        moved = np.where(reach <= t, end, np.clip(value + t * step, self.lower[free], self.upper[free]))
        change = moved - value
        self.beta[free] = moved
        self.gradient += change @ self.rows[free]
        self.gradient[free] += self.shift[free] * change
        return gain

    def dual_term(self) -> float:
        """linear'beta - absolute |beta|_1 - 1/2 beta'diag(shift) beta."""
        beta, term = self.beta, float(self.linear @ self.beta)
        if self.absolute > 0.0:
            term -= self.absolute * float(np.abs(beta).sum())
        return term - 0.5 * float((self.shift * beta) @ beta) if self.shifted else term

    def hessian_root(self, kernels: Any) -> Array:
        """W = L^{-1} U' on the free samples, the intercept projected out.

        Of very many free samples an even choice is taken: their curvature is a lower bound of the whole, close to
        it because neighbours say the same, and the factorisation stays below the cost of a pass.
        """
        free = self.free()
        free = free[:: 1 + len(free) // _MOST_FREE]
        scores = float(self.diagonal[free].max(initial=0.0) * np.abs(self.beta).max())
        if scores <= _LAST_BIT * float(np.abs(self.linear).max()):
            # No free samples, or Q = 0 there in the scores of the others: the curvature is that of far smaller weights.
            return np.zeros((0, len(kernels)))
        images = self.forms.images if len(kernels) == len(self.weights) else self.forms.images[kernels]
        sides = np.ones((len(kernels) + 1, len(free)))
        np.take(images, free, axis=1, out=sides[:-1])
        root = self._factor(free)
        with blas_threads(len(free)):
            return self._without_intercept(halfway(root, sides.T))

    def whole(self) -> Array:
        """Q of all samples, (n, n), to be read."""
        self.form(np.arange(len(self.beta)))
        return self.rows

    def free(self) -> Any:
        """Samples strictly between their bounds and off the kink at 0."""
        inside = (self.beta > self.lower) & (self.beta < self.upper)
        if self.absolute > 0.0:
            inside &= self.beta != 0.0
        return np.flatnonzero(inside)

    def _square(self, index: Any) -> Array:
        """Q of these samples, (k, k), to be read."""
        self.form(index)
        return self.rows[np.ix_(index, index)]

    def _factor(self, free: Any) -> Array:
        """Lower Cholesky factor of Q_FF + shift + sigma 11', with the smallest jitter that lets it exist.

        Where 1'x = 0 any sigma is the same. On kernels of low rank Q_FF is singular for sigma = 0: with an intercept
        one sample more than the rank is free. A sigma far above a diagonal entry would leave rounding of it.
        """
        Q, d = self._square(free), self.diagonal[free]
        sigma = d[d >= _LAST_BIT * d.max(initial=0.0)].min(initial=np.inf) if self.problem.intercept else 0.0
        Q = Q + sigma
        Q.flat[:: len(free) + 1] += self.shift[free]
        with blas_threads(len(free)):
            return factorised(Q, _JITTER)


class Part(SMOMachine):
    """A machine on some of its samples, all others fixed, with their Q in memory."""

    def __init__(self, whole: SMOMachine, chosen: Any, Q: Array) -> None:
        self.problem, self.deadline, self.absolute = whole.problem, whole.deadline, whole.absolute
        self.forms: Any = SimpleNamespace(stack=loops.Stack([Q]), threads=1)
        self.weights, self.rows, self.ready = np.ones(1), Q, np.ones(len(chosen), dtype=np.uint8)
        self.beta, self.gradient, self.linear = whole.beta[chosen], whole.gradient[chosen], whole.linear[chosen]
        self.lower, self.upper, self.shift = whole.lower[chosen], whole.upper[chosen], whole.shift[chosen]
        self.diagonal = Q.diagonal() + self.shift
        self.steps, self.rows_read = 0, 0.0

    def maximise(self, tol: float) -> None:
        """Pair steps; Newton's method on the free samples where they crawl, as where weights differ a lot."""
        for _ in range(_MOST_ROUNDS):
            if self._smo(tol) <= tol or not self._newton() or time.perf_counter() > self.deadline:
                break
