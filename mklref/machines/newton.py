"""Machines whose loss is twice differentiable (half square, logistic): Newton's method in the scores.

    minimise  1/2 beta'Q beta + sum_i c_i V(t_i, y_i),   t = Q beta + b 1
    Newton    (Q + D) dbeta + db 1 = D (r - beta),   1'(beta + dbeta) = 0,   D = diag(1/w),  w = c V''(t),  r = -c V'(t)

Q + D = w^{-1/2} B w^{-1/2} takes a Cholesky factorisation of B = I + w^{1/2} Q w^{1/2}, which is well conditioned
however small some w become. It serves further steps, and other weights, as long as the gap falls fast enough with it.
A line search on the objective safeguards a step. At the optimum beta = r, and r lies inside the box of the dual for any
scores.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from scipy.linalg import lapack

from mklref._threads import blas_threads
from mklref._typing import Array
from mklref.certificate import repair
from mklref.machines.cholesky import factorised, halfway
from mklref.machines.machine import Machine
from mklref.machines.quadratic_forms import QuadraticForms
from mklref.problem import Problem

_MAX_NEWTON = 100
_ARMIJO = 1e-4
_COARSE = 0.05
"""Share of the objective to which every machine is solved, however large the gap that is asked for."""
_FIRST = 1e-4
"""The same for first weights that come from a part of the samples, which are worth more accuracy."""
_SHARE = 1e-3
"""Steps end at this share of the gap that is asked for: another one costs less than weights that an error misleads."""
_UNIT = float(np.finfo(float).eps)
_ROUNDING = 64 * _UNIT
_SERVES, _SERVES_QUADRATIC = 0.1, 1e-4
"""The last Cholesky factor is kept while a step with it reduces the gap of the machine to this share: a step costs a
tenth of a factorisation at most. For the half square a new factor gives the solution and the Hessian of J at once."""
_SMALLEST_CURVATURE, _LEAST = 1e-10, (1e-150, 1e-300)
"""Lower bounds of V'', as a share of |V'| and in numbers, and of c V'': they keep the Newton system in range and its
direction one of descent. Where a loss falls like exp(-t) both derivatives vanish together: a number alone would make
the steps of |V'| / V'' ever shorter there."""


class NewtonMachine(Machine):
    """Solved by Newton's method; the last Cholesky factor serves the Hessian of J."""

    def __init__(self, problem: Problem, start: Array | None, forms: QuadraticForms | None = None) -> None:
        super().__init__(problem, np.zeros(problem.n_samples) if start is None else start, forms)
        self.intercept = 0.0
        dual = problem.loss.quadratic_dual(problem.y)
        self._quadratic, self._dual_curvature = dual is not None, 1.0 if dual is None else dual.curvature
        self._root: tuple[Array, Array, Array] | None = None
        self._serves = False
        self._exact = self._quadratic
        """Whether one step with the last factor is the solution: that of the half square, with no shift of Q."""
        self._factored: Array | None = None

    @np.errstate(over="ignore", under="ignore", invalid="ignore")
    def solve(self, gap: float, enough: float = np.inf) -> None:
        """Newton steps until the dual point of the scores certifies `gap`, with the last factor while that serves.

        A step with the factor of other weights may overflow where the loss is flat; it is never taken.
        """
        problem = self.problem
        coarse = _FIRST if self.warm else _COARSE
        self.form(np.arange(len(self.beta)))
        point, image, intercept = self.beta, self.weights @ self.forms.images, self.intercept
        value, nothing = self._objective(point, image, intercept), np.zeros_like(point)
        if not value <= (at_zero := self._objective(nothing, nothing, 0.0)):  # the last point is that of other weights
            point, image, intercept, value = nothing, nothing, 0.0, at_zero
        excess = value - self._dual_value(point, image + intercept)
        serves, lost = self._root is not None, False
        fast_enough = _SERVES_QUADRATIC if self._quadratic else _SERVES
        for _ in range(_MAX_NEWTON):
            scores = image + intercept
            pull = -problem.costs * problem.loss.subgradient(scores, problem.y)
            w, fresh = self._curvatures(scores), self._root is None or not serves
            if self._root is None or fresh:
                self._root = self._factor(w)
            new_point, new_image, change = self._stepped(point, (pull - point) / w)
            slope = float((point - pull) @ (new_image - image)) - float(pull.sum()) * change
            t = 1.0 if slope < 0.0 else 0.0
            while t > _UNIT:
                trial = (point + t * (new_point - point), image + t * (new_image - image), intercept + t * change)
                trial_value = self._objective(*trial)
                if trial_value <= value + _ARMIJO * t * slope:
                    break
                t = 0.5 * t if -t * slope > _UNIT * abs(value) else 0.0  # a smaller fall is rounding
            else:
                serves = fresh
                if fresh and not (lost or self._quadratic) and excess > coarse * abs(value):
                    # The scores are far out, where the loss is flat, and no step leads down: once more from 0.
                    point, image, intercept, value, lost, serves = nothing, nothing, 0.0, at_zero, True, False
                    excess = value - self._dual_value(point, image)
                    continue
                if fresh and self._exact:  # the solution, though the objective shows no fall, as where Q is 0
                    point, image, intercept = new_point, new_image, intercept + change
                if fresh:
                    break
                continue
            (point, image, intercept), value, before = trial, trial_value, excess
            excess = value - self._dual_value(point, image + intercept)
            rounding = _ROUNDING * abs(value)
            serves = (fresh and self._exact) or excess <= max(fast_enough * before, rounding)
            if excess <= rounding or time.perf_counter() > self.deadline:
                break
            if excess <= min(_SHARE * gap, coarse * abs(value)) and self._own_gap(point, image, intercept) <= gap:
                break
        self._scores, self._serves = image + intercept, serves
        self.beta, self.intercept = self._dual_point(point, self._scores), intercept
        self.solves += 1
        self.forms.update(self.beta)

    def _stepped(self, point: Array, right: Array) -> tuple[Array, Array, float]:
        """beta + dbeta, Q (beta + dbeta) and db of the Newton system with this right-hand side and the last factor."""
        assert self._root is not None
        root_w, root, along = self._root
        free = lapack.dpotrs(root, root_w * right, lower=False)[0].ravel()
        change = float((root_w @ free + point.sum()) / (root_w @ along)) if self.problem.intercept else 0.0
        new_point = point + root_w * (free - change * along)
        self.steps += 1
        return new_point, self.rows @ new_point, change

    def _dual_point(self, point: Array, scores: Array) -> Array:
        """r of these scores, or the point itself where it is feasible and better, with 1'beta = 0.

        r is inside the box for any scores, but not more accurate than w times their rounding.
        """
        feasible = repair(self.problem, point)[0]
        if self._quadratic:
            return feasible
        r = -self.problem.costs * self.problem.loss.subgradient(scores, self.problem.y)
        return max(repair(self.problem, r)[0], feasible, key=self._value_of)

    def _dual_value(self, point: Array, scores: Array) -> float:
        """The lower bound of J that they give."""
        return self._value_of(self._dual_point(point, scores))

    def _own_gap(self, point: Array, image: Array, intercept: float) -> float:
        """The gap of the dual point alone: where the loss is steep, its scores may lose far more than those."""
        beta = self._dual_point(point, image + intercept)
        return self._objective(beta, image + self.rows @ (beta - point), intercept) - self._value_of(beta)

    def _value_of(self, beta: Array) -> float:
        """The dual objective of the machine."""
        terms = self.problem.loss.dual_value(beta, self.problem.y, self.problem.costs)
        return terms - 0.5 * float(beta @ (self.rows @ beta))

    def _objective(self, beta: Array, image: Array, intercept: float) -> float:
        losses = self.problem.loss.value(image + intercept, self.problem.y)
        return 0.5 * float(beta @ image) + float(self.problem.costs @ losses)

    def _curvatures(self, scores: Array) -> Array:
        """w = c V''(t)."""
        if self._quadratic:
            return np.asarray(self.problem.costs / max(self._dual_curvature, _SMALLEST_CURVATURE))
        loss, y = self.problem.loss, self.problem.y
        slopes = np.abs(loss.subgradient(scores, y))
        second = np.maximum(loss.curvature(scores, y), np.maximum(_SMALLEST_CURVATURE * slopes, _LEAST[0]))
        return np.asarray(np.maximum(self.problem.costs * second, _LEAST[1]))

    def _factor(self, w: Array) -> tuple[Array, Array, Array]:
        """w^{1/2}, the upper Cholesky factor of B = I + w^{1/2} Q w^{1/2}, and B^{-1} w^{1/2}."""
        self._factored, root_w = self.weights, np.sqrt(w)
        B = self.rows * root_w
        B *= root_w[:, None]
        B.flat[:: len(B) + 1] += 1.0
        with blas_threads(len(B)):  # a symmetric matrix in rows is one in columns: no copy is made
            root, failed = lapack.dpotrf(B.T, lower=False, overwrite_a=True, clean=False)
            self._exact = self._quadratic and not failed
            if failed:  # Q is indefinite by rounding
                root = factorised(np.eye(len(B)) + root_w[:, None] * self.rows * root_w).T
        if not np.isfinite(root.diagonal().sum()):
            raise FloatingPointError("a matrix to be factorised is not finite")
        return root_w, root, lapack.dpotrs(root, root_w, lower=False)[0].ravel()

    def multiplier(self) -> float:
        return self.intercept

    def dual_term(self) -> float:
        return self.problem.loss.dual_value(self.beta, self.problem.y, self.problem.costs)

    def hessian_root(self, kernels: Any) -> Array:
        """W (n, k) with d2J/dtheta2 = W'W for these k kernels; every sample is free."""
        if self._root is None or not self._serves:
            self.refresh()
        assert self._root is not None
        root_w, root, _ = self._root
        sides = np.vstack([self.forms.images[kernels] * root_w, root_w]).T
        with blas_threads(len(root)):
            return self._without_intercept(halfway(root.T, sides))

    def refresh(self) -> None:
        """Factorise at exactly this point; the factor of the half square is that of the weights."""
        if not (self._quadratic and self._factored is self.weights):
            self._root = self._factor(self._curvatures(self._scores))
        self._serves = True
