"""Machines whose dual has no active bounds (half square, logistic): Newton's method with one Cholesky a step.

    maximise  D(beta) - 1/2 beta'Q beta,   1'beta = 0 with an intercept;   D concave and smooth in the open box
    Newton    (Q - D'') step + nu 1 = D'(beta) - Q beta,   1'step = 0

For the half square one step is exact. For the logistic loss steps stay inside the box 0 < y_i beta_i < c_i, and
a line search on the dual objective safeguards them; the entropy is self-concordant up to a factor.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.linalg

from mklref._typing import Array
from mklref.native.machine import Machine
from mklref.problem import Problem

_MAX_NEWTON = 100
_STAY_INSIDE = 0.99
_ARMIJO = 1e-4


class SmoothMachine(Machine):
    """Solved by Newton's method on the dual; the last Cholesky factor serves the Hessian of J."""

    def __init__(self, problem: Problem) -> None:
        self.logistic = problem.loss.quadratic_dual(problem.y) is None
        # The logistic start u = 1/2 is interior; scaled by class so that 1'beta = 0.
        start = np.zeros(problem.n_samples)
        if self.logistic:
            positive, negative = (float(problem.costs[problem.y * s > 0].sum()) for s in (1.0, -1.0))
            smaller = min(positive, negative)
            share = np.where(problem.y > 0, smaller / positive, smaller / negative)
            start = 0.5 * problem.y * problem.costs * share
        super().__init__(problem, start)

    def solve(self, gap: float) -> None:
        """Newton steps until half the squared decrement, the predicted gap, is below a tenth of `gap`."""
        everything = np.arange(len(self.beta))
        image = self.weights @ self.images
        for _ in range(_MAX_NEWTON):
            slope, curvature = self._derivatives(self.beta)
            root = self.factor(everything, curvature)
            residual = slope - image
            step = scipy.linalg.cho_solve((root, True), residual, check_finite=False)
            if self.problem.intercept:
                ones = scipy.linalg.cho_solve((root, True), np.ones_like(residual), check_finite=False)
                step -= step.sum() / ones.sum() * ones
            decrement = float(residual @ step)
            self.steps += 1
            if decrement <= 0.0:
                break
            image_step = self.rows @ step
            t = self._search(step, image, image_step, decrement)
            if t == 0.0:
                break
            self.beta = self.beta + t * step
            image = image + t * image_step
            if not self.logistic or 0.5 * decrement <= 0.1 * gap:
                break
        self.solves += 1
        self.refresh()

    def _search(self, step: Array, image: Array, image_step: Array, decrement: float) -> float:
        """The first of t, t/2, ... with sufficient increase, from the longest step that stays in the box."""
        if not self.logistic:
            return 1.0
        room = np.where(self.problem.y * step > 0.0, self.problem.y * self.problem.costs - self.beta, -self.beta)
        moving = step != 0.0
        t = min(1.0, _STAY_INSIDE * float(np.min(room[moving] / step[moving], initial=np.inf)))
        value = self._dual_term(self.beta)
        linear, quadratic = float(image @ step), float(step @ image_step)
        while t > np.finfo(float).eps:
            gain = self._dual_term(self.beta + t * step) - value - t * linear - 0.5 * t**2 * quadratic
            if gain >= _ARMIJO * t * decrement:
                return t
            t *= 0.5
        return 0.0

    def _dual_term(self, beta: Array) -> float:
        return self.problem.loss.dual_value(beta, self.problem.y, self.problem.costs)

    def _derivatives(self, beta: Array) -> tuple[Array, Array]:
        """D'(beta) and -D''(beta)."""
        y, c = self.problem.y, self.problem.costs
        if not self.logistic:
            return y - beta / c, 1.0 / c
        u = y * beta / c
        return y * (np.log1p(-u) - np.log(u)), 1.0 / (c * u * (1.0 - u))

    def value(self) -> float:
        """The dual objective at beta: a lower bound of J."""
        return self._dual_term(self.beta) - 0.5 * float(self.weights @ self.squares)

    def free(self) -> tuple[Any, Array]:
        """Every sample, with the curvature of the dual term."""
        return np.arange(len(self.beta)), self._derivatives(self.beta)[1]
