"""NumPy twins of the compiled loops, written from their definitions: the fallback, and what tests compare with.

The signatures are those of the compiled module. `combine_rows`, `gather`, `apply_rows` and `smo` do the same arithmetic
in the same order and agree bit for bit, but for lower triangles in `apply_rows`, which have dot products, and for
`smo` once it shrinks. `quadratic_program` agrees to rounding: its factorisations and products are those of LAPACK and
BLAS.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from mklref._typing import Array, FloatArray
from mklref.machines.cholesky import factorised, substituted

_TINY_CURVATURE = 1e-12
_SHORT, _MANY = 256, 8
"""With at most so many samples all rows are formed once one in so many is, as in the compiled loop."""
_RESIDUAL = 100.0
"""What the residuals of a quadratic program may be, in terms of its complementarity u's / count."""
_CLOSE, _DIVERGED, _WAITED = 1e-6, 1e3, 10
"""From this error on rounding may take over, where the system is all but singular: the best point is returned once the
error is so many times its own, or after so many steps without a better one."""


class Stack:
    """M symmetric matrices (n, n), referred to."""

    def __init__(self, matrices: Sequence[FloatArray]) -> None:
        self.matrices = tuple(matrices)


def combine_rows(stack: Stack, weights: Array, index: Any, rows: Array, ready: Any, threads: int) -> None:
    """rows[i] = sum_m weights[m] K_m[i] for i in index, or all i if that is more than half; marks ready[i]."""
    for i in index if 2 * len(index) <= len(rows) else range(len(rows)):
        rows[i] = 0.0
        for weight, matrix in zip(weights, stack.matrices, strict=True):
            if weight != 0.0:
                rows[i] += weight * matrix[i].astype(np.float64, copy=False)
        ready[i] = 1


def apply_rows(stack: Stack, kernels: Any, index: Any, delta: Array, images: Array, threads: int) -> None:
    """images[m] += sum_k delta[k] K_m[index[k]] for m in kernels."""
    for m in kernels:
        for i, step in zip(index, delta, strict=True):
            images[m] += step * stack.matrices[m][i].astype(np.float64, copy=False)


def gather(stack: Stack, index: Any, parts: FloatArray, threads: int) -> None:
    """parts[m] = K_m[index, index]."""
    for part, matrix in zip(parts, stack.matrices, strict=True):
        part[:] = matrix[np.ix_(index, index)]


def quadratic_program(
    P: Array, c: Array, bounds: int, G: Array, h: Array, a: Array | None, x: Array, u: Array, tol: float, max_steps: int
) -> bool:
    """Minimise 1/2 x'Px + c'x subject to x_k >= 0 for k < bounds, Gx <= h and, unless a is None, a'x = 1.

    Primal-dual interior point after Mehrotra, from any x; False if the numbers leave the range of double precision.
    x and the multipliers u are changed in place. With the bounds as the first rows of Gx <= h it solves

    Px + c + G'u + nu a = 0,   Gx + s = h,   a'x = 1,   u_k s_k = 0,   u, s >= 0
    """
    G, h = np.vstack([-np.eye(bounds, len(c)), G]), np.append(np.zeros(bounds), h)
    normal = np.zeros_like(c) if a is None else a
    solution, multipliers = x.copy(), np.ones_like(u)
    s = np.maximum(h - G @ x, 1.0)
    u[:] = 1.0
    nu, best, reached = 0.0, np.inf, 0
    for step in range(max_steps + 1):
        dual = P @ x + c + G.T @ u + nu * normal
        primal = G @ x + s - h
        balance = 0.0 if a is None else float(a @ x) - 1.0
        mu = float(u @ s) / len(s)
        size = 1.0 + np.abs(c) + np.abs(P) @ np.abs(x)
        residual = max(float(np.max(np.abs(dual) / size)), float(np.abs(primal).max()), abs(balance))
        error = max(mu, residual / _RESIDUAL)
        if error < best or best > _CLOSE:
            best, reached, solution, multipliers = error, step, x.copy(), u.copy()
        lost = error > _DIVERGED * best or step > reached + _WAITED
        if error <= tol or (best < _CLOSE and lost) or step == max_steps:
            break
        try:
            factor = factorised(P + (G.T * (u / s)) @ G)
        except FloatingPointError:
            if best >= _CLOSE:
                return False
            break
        along = substituted(factor, normal)

        def direction(complementarity: Array) -> tuple[Array, Array, Array, float]:
            right = -dual - G.T @ ((complementarity + u * primal) / s)  # noqa: B023
            free = substituted(factor, right)  # noqa: B023
            dnu = 0.0 if a is None else (float(a @ free) + balance) / float(a @ along)  # noqa: B023
            dx = free - dnu * along  # noqa: B023
            ds = -primal - G @ dx  # noqa: B023
            return dx, ds, (complementarity - u * ds) / s, dnu  # noqa: B023

        dx, ds, du, _ = direction(-u * s)
        t = min(_longest(s, ds), _longest(u, du))
        centring = (float((s + t * ds) @ (u + t * du)) / len(s) / mu) ** 3
        dx, ds, du, dnu = direction(centring * mu - u * s - ds * du)
        t = min(1.0, 0.995 * _longest(s, ds), 0.995 * _longest(u, du))
        x += t * dx
        s += t * ds
        u += t * du
        nu += t * dnu
    x[:], u[:] = solution, multipliers
    return True


def _longest(x: Array, dx: Array) -> float:
    """The longest step in [0, 1] along dx that keeps x >= 0."""
    return 1.0 / max(1.0, float(np.max(-dx / x)))


def smo(
    stack: Stack,
    weights: Array,
    rows: Array,
    ready: Any,
    diagonal: Array,
    lower: Array,
    upper: Array,
    absolute: float,
    equality: bool,
    beta: Array,
    gradient: Array,
    tol: float,
    max_steps: int,
    max_seconds: float,
    threads: int = 1,
    shrink_every: int = 500,
) -> tuple[int, int, float]:
    """Minimise 1/2 beta'(Q + shift) beta - linear'beta + absolute |beta|_1 on the box; see `_core/smo.cpp`.

    `diagonal` is that of Q + shift, `gradient` is (Q + shift) beta - linear on entry and on return. It never shrinks,
    whatever `shrink_every` says: up to the first time that the compiled loop does, they take the same steps.
    """
    formed, n = 0, len(beta)
    floor = _TINY_CURVATURE * (float(diagonal.max()) if diagonal.max() > 0 else 1.0)

    def row(i: int) -> Array:
        nonlocal formed
        if not ready[i]:
            whole = n <= _SHORT and _MANY * formed >= n
            combine_rows(stack, weights, range(n) if whole else [i], rows, ready, 1)
            formed += n // 2 if whole else 1
        return np.asarray(rows[i])

    deadline = time.perf_counter() + max_seconds
    for step in range(max_steps + 1):
        # One-sided derivatives; the kink of the absolute value sits at 0.
        right = np.where(beta < upper, gradient + np.where(beta >= 0.0, absolute, -absolute), np.inf)
        left = np.where(beta > lower, gradient + np.where(beta > 0.0, absolute, -absolute), -np.inf)
        violation = left.max() - right.min() if equality else max(left.max(), -right.min())
        if violation <= max(tol, 0.0) or step == max_steps or time.perf_counter() > deadline:
            return step, formed, float(violation)
        single, single_gain = 0, -1.0
        if not equality:
            worst = np.maximum(0.0, np.maximum(left, -right)) ** 2 / np.maximum(floor, diagonal)
            single, single_gain = int(worst.argmax()), float(worst.max())
        pair_exists = np.isfinite(right.min()) and np.isfinite(left.max())
        if equality or pair_exists:
            i = int(right.argmin())
            row_i = row(i)
            gain = np.maximum(0.0, left - right[i]) ** 2 / np.maximum(floor, (diagonal[i] + diagonal) - 2.0 * row_i)
            j = int(gain.argmax())
        if equality or (pair_exists and gain[j] >= single_gain):
            row_j = row(j)
            curvature = max(floor, (diagonal[i] + diagonal[j]) - 2.0 * row_i[j])
            room = min(_room(beta[i], upper[i], absolute), _room(-beta[j], -lower[j], absolute))
            t = min((left[j] - right[i]) / curvature, room)
            shift_i, shift_j = diagonal[i] - row_i[i], diagonal[j] - row_j[j]
            beta[i] = _moved(beta[i], upper[i], absolute, t)
            beta[j] = -_moved(-beta[j], -lower[j], absolute, t)
            gradient[i] += t * shift_i
            gradient[j] -= t * shift_j
            gradient += t * row_i - t * row_j
        else:
            row_k = row(single)
            curvature = max(floor, diagonal[single])
            shift = diagonal[single] - row_k[single]
            if -right[single] >= left[single]:
                t = min(-right[single] / curvature, _room(beta[single], upper[single], absolute))
                beta[single] = _moved(beta[single], upper[single], absolute, t)
            else:
                t = -min(left[single] / curvature, _room(-beta[single], -lower[single], absolute))
                beta[single] = -_moved(-beta[single], -lower[single], absolute, -t)
            gradient[single] += t * shift
            gradient += t * row_k
    raise AssertionError("unreachable: the loop returns at max_steps")


def _room(value: float, bound: float, absolute: float) -> float:
    """How far `value` can rise before its bound, or before the kink at 0."""
    return float(min(-value, bound - value) if absolute > 0.0 and value < 0.0 else bound - value)


def _moved(value: float, bound: float, absolute: float, t: float) -> float:
    """`value` raised by t, exactly onto the bound or the kink when all the room is used."""
    if t < _room(value, bound, absolute):
        return value + t
    return min(0.0, float(bound)) if absolute > 0.0 and value < 0.0 else bound
