"""HessianMKL: Newton's method on the weights (Chapelle and Rakotomamonjy 2008)."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from mklref._typing import Array
from mklref.algorithms.base import Run, algorithm
from mklref.algorithms.cuts import simplex_program
from mklref.algorithms.point import Point
from mklref.problem import on_the_simplex

_ARMIJO = 1e-4
_SHORTEST = 1e-10
_RIDGE = 1e-12
"""Ridge of the quadratic program, so that it has one solution: a share of the trace of H, or of J where that is 0."""


@algorithm(
    on_the_simplex,
    "weights on the simplex, Lp(1)",
    remedy="For Lp(p) with p > 1: lp_wrapper or sip; mklref.solve takes Newton steps for every regularizer.",
    max_iter=200,
)
def hessian_mkl(run: Run) -> Iterator[Point]:
    """l1-MKL by Newton steps on J(d), the optimal value of the kernel machine with the kernel sum_m d_m K_m.

    dJ/dd_m       = -1/2 beta'K_m beta                                              (SimpleMKL (13))
    d2J/dd_m dd_l = u_m' P u_l,   u_m = (K_m beta)_F,   P = A^{-1} - A^{-1} 1 1'A^{-1} / 1'A^{-1} 1,   A = (Q + D)_FF

    F are the free support vectors, on which the optimality conditions stay equations for weights nearby, and D is the
    curvature of the dual term of the loss there; without an intercept P = A^{-1}. A step solves

    minimise  gradient's + 1/2 s'Hs  subject to  d + s >= 0,  1's = 0

    and is halved until J falls. Where no support vector is free H = 0: J is linear nearby, the quadratic program a
    linear one, and the step leads towards the kernel with the steepest derivative.
    """
    point = run.svm(run.start)
    while True:
        # 1. Gradient and Hessian of J at d.
        gradient = run.gradient(point)
        H = hessian(run)
        yield point
        # 2. The direction: a quadratic program on the simplex. Beyond double precision, as H is next to a kink of J,
        #    it may have no solution or one that leads up; then that of the linear program.
        goal = newton_point(point.weights, gradient, H, abs(point.value) or 1.0)
        if goal is None or not gradient @ (goal - point.weights) < 0.0:
            goal = np.eye(len(gradient))[gradient.argmin()]
        direction = goal - point.weights
        # 3. Line search from the full step; below the accuracy of J no rise can be told from a fall.
        slope, t = float(gradient @ direction), 1.0
        if not slope < 0.0:
            return
        run.known = -slope <= run.precision * abs(point.value)
        while True:
            trial = run.svm(np.maximum(point.weights + t * direction, 0.0))
            if trial.value <= point.value + _ARMIJO * t * slope + run.precision * abs(point.value):
                break
            t *= 0.5
            if t < _SHORTEST:
                return
        point = trial


def hessian(run: Run) -> Array:
    """The sum of W'W over the machines, (M, M), at the point that they were solved for last."""
    everything = np.arange(run.problem.n_kernels)
    for machine in run.machines:
        machine.refresh()
    roots = [machine.hessian_root(everything) for machine in run.machines]
    return np.asarray(sum(W.T @ W for W in roots))


def newton_point(d: Array, gradient: Array, H: Array, unit: float) -> Array | None:
    """The minimiser on the simplex of the quadratic model of J around d, in units of J."""
    M = len(d)
    ridge = _RIDGE * max(float(np.trace(H)) / unit, 1.0)
    P, c = H / unit + ridge * np.eye(M), (gradient - H @ d) / unit
    return simplex_program(P, c, d, np.zeros((0, M)), np.zeros(0))
