"""Machines whose loss is twice differentiable (half square, logistic): Newton's method in the scores.

    minimise  1/2 beta'Q beta + sum_i c_i V(t_i, y_i),   t = Q beta + b 1
    Newton    (Q + D) beta+ + b+ 1 = t + D r,   1'beta+ = 0,   D = diag(1/w),  w = c V''(t),  r = -c V'(t)

One Cholesky factorisation of B = I + w^{1/2} Q w^{1/2} a step, which is well conditioned however small some w
become. For the half square one step is exact; for the logistic loss a line search on the objective safeguards it.
At the optimum beta = r, and r lies inside the box of the dual for any scores.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import scipy.linalg

from mklref._typing import Array
from mklref.certificate import repair
from mklref.native.blas import blas_threads
from mklref.native.machine import Machine
from mklref.problem import Problem

_MAX_NEWTON = 100
_ARMIJO = 1e-4
_COARSE = 0.05
"""Share of the objective to which every machine is solved, however large the gap that is asked for."""
_FIRST = 1e-4
"""And that to which it is solved if the first weights come from a part of the samples: they are worth it."""
_SMALLEST_CURVATURE = 1e-10
"""Of a loss of unit cost: keeps the Newton system in range, and its direction one of descent."""


class SmoothMachine(Machine):
    """Solved by Newton's method; the last Cholesky factor serves the Hessian of J."""

    def __init__(self, problem: Problem, start: Array | None) -> None:
        super().__init__(problem, np.zeros(problem.n_samples) if start is None else start)
        self.intercept = 0.0
        self._exact = problem.loss.quadratic_dual(problem.y) is not None

    def solve(self, gap: float) -> None:
        """Newton steps until the dual point of the scores certifies `gap`."""
        problem = self.problem
        coarse = _FIRST if self.informed else _COARSE
        self.form(np.arange(len(self.beta)))
        point, image, intercept = self.beta, self.weights @ self.images.values, self.intercept
        value = self._objective(point, image, intercept)
        for _ in range(_MAX_NEWTON):
            scores = image + intercept
            pull = -problem.costs * problem.loss.subgradient(scores, problem.y)
            root_w, root = self._root = self._factor(scores)
            known = root_w * scores + pull / root_w
            solved, _ = scipy.linalg.lapack.dpotrs(root, np.stack([known, root_w], axis=1), lower=False)
            new_intercept = float(root_w @ solved[:, 0] / (root_w @ solved[:, 1])) if problem.intercept else 0.0
            new_point = root_w * (solved[:, 0] - new_intercept * solved[:, 1])
            new_image = self.rows @ new_point
            self.steps += 1
            slope = float((point - pull) @ (new_image - image)) - float(pull.sum()) * (new_intercept - intercept)
            if not slope < 0.0:
                break
            t = 1.0
            while t > np.finfo(float).eps:
                trial = (point + t * (new_point - point), image + t * (new_image - image))
                trial_intercept = intercept + t * (new_intercept - intercept)
                trial_value = self._objective(*trial, trial_intercept)
                if trial_value <= value + _ARMIJO * t * slope:
                    break
                t *= 0.5
            else:
                break
            (point, image), intercept, value = trial, trial_intercept, trial_value
            if time.perf_counter() > self.deadline:
                break
            if self._exact or value - self._dual_value(image + intercept) <= min(gap, coarse * abs(value)):
                break
        self.beta, self.intercept = self._dual_point(image + intercept), intercept
        self.solves += 1
        self.images.update(self.beta)

    def _dual_point(self, scores: Array) -> Array:
        """r of these scores, with 1'beta = 0."""
        pull = -self.problem.costs * self.problem.loss.subgradient(scores, self.problem.y)
        return repair(self.problem, pull)[0]

    def _dual_value(self, scores: Array) -> float:
        """The lower bound of J that they give."""
        beta = self._dual_point(scores)
        terms = self.problem.loss.dual_value(beta, self.problem.y, self.problem.costs)
        return terms - 0.5 * float(beta @ (self.rows @ beta))

    def _objective(self, beta: Array, image: Array, intercept: float) -> float:
        losses = self.problem.loss.value(image + intercept, self.problem.y)
        return 0.5 * float(beta @ image) + float(self.problem.costs @ losses)

    def _factor(self, scores: Array) -> tuple[Array, Array]:
        """w^{1/2} and the upper Cholesky factor of I + w^{1/2} Q w^{1/2}."""
        pull = self.problem.loss.subgradient(scores, self.problem.y)
        second = np.ones_like(pull) if self._exact else np.abs(pull) * (1.0 - np.abs(pull))
        root_w = np.sqrt(self.problem.costs * np.maximum(second, _SMALLEST_CURVATURE))
        B = self.rows * root_w
        B *= root_w[:, None]
        B.flat[:: len(B) + 1] += 1.0
        with blas_threads(len(B)):  # a symmetric matrix in rows is one in columns: no copy is made
            root, failed = scipy.linalg.lapack.dpotrf(B.T, lower=False, overwrite_a=True, clean=False)
        if failed:
            raise FloatingPointError("a matrix to be factorised is not finite")
        return root_w, np.asarray(root)

    def value(self) -> float:
        """The dual objective at beta: a lower bound of J."""
        problem = self.problem
        dual = problem.loss.dual_value(self.beta, problem.y, problem.costs)
        return dual - 0.5 * float(self.weights @ self.images.squares)

    def hessian_root(self, kernels: Any) -> Array:
        """W (n, M) with d2J/dtheta2 = W'W; every sample is free."""
        root_w, root = self._root
        sides = np.vstack([self.images.values[kernels] * root_w, root_w]).T
        with blas_threads(len(root)):
            solved = scipy.linalg.solve_triangular(root, sides, trans="T", check_finite=False)
        return self._without_intercept(solved)

    def free(self) -> Any:
        """Every sample."""
        return np.arange(len(self.beta))
