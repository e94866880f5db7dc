"""SIP: the semi-infinite program for lp norms with p > 1, by column generation (Kloft et al. 2011, 4.4.1)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

import numpy as np
from scipy.linalg import solve_triangular

from mklref._typing import Array
from mklref.algorithms.base import Run, algorithm
from mklref.algorithms.cuts import Master, Scaling, linear_master, longest, product, proof, quotient, remaining
from mklref.algorithms.point import Point
from mklref.regularizers import Lp
from mklref.regularizers.norms import conjugate_exponent, p_norm

_INNER = 1e-3
"""A master is solved to this share of the gap that is left."""
_MOST_EXPANSIONS = 50
_SMALLEST = 1e-8
"""Weights are held above this share of the largest where the norm is expanded: at 0 it has no second derivative."""
_STEPS = 0.5 ** np.arange(8)
_MOST_STEPS = 200
"""Newton steps of a master; about ten are usual."""
_NEARLY = 0.1
"""Share of the wanted gap that the simplex in place of the lp ball may cost, (p - 1) log M of the value."""
_FIRST_SLACK = 0.1
_INSIDE = 0.99
"""Share of the way to the next constraint that a step may go."""


@algorithm(
    lambda problem: isinstance(problem.regularizer, Lp) and 1.0 < problem.regularizer.p < np.inf,
    "weights in an lp ball, Lp(p) with 1 < p < inf",
    remedy="For Lp(1): silp; at p = inf the weights are fixed: mklref.solve.",
)
def sip(run: Run) -> Iterator[Point]:
    """lp-norm MKL by cutting planes on the weights: `silp` with the lp ball in place of the simplex.

    minimise t  subject to  t >= S(beta) - 1/2 sum_m theta_m beta'K_m beta  for all feasible beta,
                            theta >= 0,  ||theta||_p <= 1

    The master is no linear program. Its norm constraint is expanded to second order at weights z with ||z||_p = 1,

    1 + p(p-3)/2 - p(p-2) sum_m z_m^{p-1} theta_m + p(p-1)/2 sum_m z_m^{p-2} theta_m^2 <= 1,

    the linear program with this one quadratic constraint is solved, its weights are scaled back to the sphere, and so
    on until nothing is gained. The quadratic program is solved by a primal-dual interior point method.
    """
    theta, p = run.start, run.regularizer.p  # type: ignore[attr-defined]
    cuts: list[Point] = []
    lower = -np.inf
    while True:
        # 1. Separation: the machine at theta gives the most violated constraint.
        point = run.svm(theta)
        run.gradient(point)
        cuts.append(point)
        yield point
        # 2. Master: a sequence of expansions of the norm, from the last weights.
        best = min(cut.value for cut in cuts)
        try:
            nearly_one = (p - 1.0) * np.log(len(theta)) <= _NEARLY * run.tol
            program = simplex_master if nearly_one else lp_master
            master = program(cuts, theta, p, best, remaining(best, lower))
        except np.linalg.LinAlgError:  # the gap is at the rounding errors of J
            return
        lower = max(lower, master.value)
        # 3. Where the best machine and the master meet, the mixture of the cuts proves it.
        yield from proof(run, cuts, master, lower, best)
        theta = master.weights


def lp_master(cuts: Sequence[Point], theta: Array, p: float, best: float, unit: float) -> Master:
    """Minimise the largest cut over the lp ball by expansions of the norm; t in units of the gap below `best`.

    The multipliers lambda of the cuts give a lower bound of the minimum, sum_k lambda_k S_k - 1/2 ||sum_k lambda_k
    q_k||_{p*}, which says when the expansions may end, and is the value of the master.
    """
    slopes = np.array([-0.5 * cut.squares / unit for cut in cuts])
    constants = np.array([(cut.dual_term - best) / unit for cut in cuts])

    def height(weights: Array) -> float:
        return float((constants + slopes @ weights).max())

    bound, shares = -np.inf, np.ones(len(cuts)) / len(cuts)
    for _ in range(_MOST_EXPANSIONS):
        z = on_the_sphere(np.maximum(theta, _SMALLEST * theta.max()), p)
        goal, multipliers = quadratic_master(slopes, constants, z, p)
        # Far from z the expansion may mislead: the best of some steps on the way.
        trial = min((on_the_sphere(z + step * (goal - z), p) for step in _STEPS), key=height)
        value = float(multipliers @ constants) - p_norm(-multipliers @ slopes, conjugate_exponent(p))
        if value > bound:
            bound, shares = value, multipliers
        gained = height(theta) - height(trial)
        if gained > 0.0:
            theta = trial
        if height(theta) - bound <= _INNER * max(1.0, -bound) or gained <= 0.0:
            break
    return Master(best + unit * bound, theta, shares)


def simplex_master(cuts: Sequence[Point], theta: Array, p: float, best: float, unit: float) -> Master:
    """The same for p so near to 1 that the linear program over the simplex is as good; it takes half the time."""
    found = linear_master(cuts, Master(best - unit, theta, np.ones(len(cuts))))
    if found is None:
        raise np.linalg.LinAlgError("the master has no minimiser to rounding")
    terms, squares = np.array([cut.dual_term for cut in cuts]), np.array([cut.squares for cut in cuts])
    bound = float(found.shares @ terms) - 0.5 * p_norm(found.shares @ squares, conjugate_exponent(p))
    return Master(bound, on_the_sphere(found.weights, p), found.shares)


def quadratic_master(slopes: Array, constants: Array, z: Array, p: float) -> tuple[Array, Array]:
    """Minimise t subject to constants + slopes theta <= t, 0 <= theta <= 1 and the norm expanded at z.

    In x = theta - z, with ||z||_p = 1, the expanded norm is 1/4 ||D x||_2^2 <= -a'x for D = sqrt(2(p-1)) z^{p/2-1} and
    a = z^{p-1}, next to p = 1 nearly a half-space. That is (c - a'x/c, c + a'x/c, D x) in Q for any c, here one of the
    size of D x. Mehrotra's predictor and corrector solve the program of this cone in about ten steps, with two kernels
    as with a thousand; points that follow the barrier inside the ball crawl along it when kernels are many.

    Returned are the weights (M,) and the multipliers of the cuts (k,), scaled to the sum 1; `LinAlgError` where to
    rounding there is no minimiser.
    """
    M, k = len(z), len(constants)
    m = k + 2 * M
    c = np.sqrt(p - 1.0) / p
    a, D = z ** (p - 1.0), np.sqrt(2.0 * (p - 1.0)) * z ** (0.5 * p - 1.0)
    heights = constants + slopes @ z
    fall = slopes[heights.argmax()] @ z * a  # x and t are counted along the sphere, where cuts differ: t - fall'x
    cost = np.append(fall, 1.0)
    G = np.zeros((m + 2 + M, M + 1))  # s = h - G x in the cone, x = (theta - z, t - fall'x)
    G[:k, :M], G[:k, M], G[m, :M], G[m + 1, :M] = slopes - fall, -1.0, a / c, -a / c
    G[range(k, k + M), range(M)], G[range(k + M, m), range(M)], G[range(m + 2, m + 2 + M), range(M)] = -1.0, 1.0, -D
    h = np.concatenate([-heights, z, 1.0 - z, [c, c], np.zeros(M)])
    one = np.append(np.ones(m + 1), np.zeros(M + 1))
    x = np.append(np.zeros(M), float(heights.max()) + 1.0)
    s = h - G @ x
    s[:m] = np.maximum(s[:m], _FIRST_SLACK)
    s[m] += c
    u = quotient(one, s, m)  # the multipliers
    tilt = np.inf
    for _ in range(_MOST_STEPS):
        missed, slope, gap = G @ x + s - h, G.T @ u, float(s @ u)
        slope += cost
        before, tilt = tilt, float(np.abs(slope * np.append(z, 1.0)).max())
        if max(gap, 10.0 * np.abs(missed).max()) <= _INNER and (tilt <= _INNER or tilt >= before):  # which is rounding
            return np.maximum(z + x[:M], 0.0), u[:k] / u[:k].sum()
        W = Scaling.of(s, u, m)
        centre = W.times(u)
        cone = np.append((W.w[0] + W.w[1]) / c * a + D * W.w[2:], 0.0)
        rest = np.sqrt(W.d[k : k + M] ** -2 + W.d[k + M :] ** -2 + (D / W.eta) ** 2)  # bounds and D are diagonal
        dense = np.vstack([G[:k] / W.d[:k, None], np.sqrt(2.0) / W.eta * cone, np.eye(M, M + 1) * rest[:, None]])
        root = np.asarray(np.linalg.qr(dense, mode="r"))  # of G'W^{-2}G, which has half of its digits
        step = partial(_newton, G, root, W, missed, slope)
        _, ds, du = step(-centre)
        length = min(longest(s, ds, m), longest(u, du, m))
        left = max(float((s + length * ds) @ (u + length * du)), 0.0)
        mu = (left / gap) ** 3 * gap / (m + 1)
        dx, ds, du = step(quotient(mu * one - product(W.divide(ds), W.times(du), m), centre, m) - centre)
        length = min(1.0, _INSIDE * min(longest(s, ds, m), longest(u, du, m)))
        x, s, u = x + length * dx, s + length * ds, u + length * du
    raise np.linalg.LinAlgError("the master has no minimiser to rounding")


def _newton(G: Array, root: Array, W: Scaling, missed: Array, slope: Array, wanted: Array) -> tuple[Array, ...]:
    """The step (dx, ds, du) with G dx + ds = -missed, G'du = -slope and W du + W^{-1} ds = wanted."""
    right = W.divide(W.divide(missed) + wanted)
    half = solve_triangular(root, slope + G.T @ right, trans="T", check_finite=False)
    dx = -solve_triangular(root, half, check_finite=False)
    du = W.divide(W.divide(G @ dx)) + right
    return dx, -missed - G @ dx, du


def on_the_sphere(theta: Array, p: float) -> Array:
    """theta / ||theta||_p."""
    return np.asarray(theta / np.linalg.norm(theta, p))
