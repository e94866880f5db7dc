"""Suspects that concern the kernel weights: on another sphere, of another iterate, stuck, of another regulariser."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any

import numpy as np

from mklref import regularizers as reg
from mklref._typing import Array
from mklref.certificate import certify
from mklref.certificate.feasible import boundary
from mklref.kernels.stack import ArrayStack
from mklref.problem import Problem, dual_norms
from mklref.regularizers.norms import conjugate_exponent, p_norm
from mklref.testing.faults import Point, Reading, matrices, meant, optimal_for, restated, scaled, some

SHARED = (reg.Lp, reg.Power, reg.HalfPower, reg.BlockNorm, reg.Tikhonov, reg.ElasticNet)
"""Regularisers without parameters of single kernels: they apply to a part of the kernels as well."""
_FRACTIONS = {f"{a}/{b}": a / b for b in (3, 6, 7, 9) for a in range(1, 4 * b) if a % b}
"""Numbers that somebody means although they are no short decimals."""


def spheres(problem: Problem, point: Point) -> Iterator[Reading]:
    """Weights that were rescaled afterwards."""
    for text, _, rescaled in _rescaled(problem, point):
        yield Reading("weights on another sphere", text, problem, rescaled)


def shares(problem: Problem, point: Point) -> Iterator[Reading]:
    """Weights that were rescaled with dual_coef, so that the function stays."""
    for text, scale, rescaled in _rescaled(problem, point):
        moved = rescaled._replace(dual_coef=point.dual_coef / scale)
        text = f"{text.removesuffix('.')}, with 1/{scale:.6g} times dual_coef: the function is optimal."
        yield Reading("weights on another sphere", text, problem, moved)


def smaller_balls(problem: Problem, point: Point) -> Iterator[Reading]:
    """The problem solved with weights in another ball, which is that of other kernels: P(K; t) = P(t K; 1)."""
    for text, scale, rescaled in _rescaled(problem, point):
        kernels = scaled(problem.kernels, 1.0 / scale)
        yield from restated("weights on another sphere", text, problem, rescaled, kernels=kernels)


def unsquared_norm(problem: Problem, point: Point) -> Iterator[Reading]:
    """N(rho) in place of N(rho)^2/2: at its optimum the dual norm of g is 1.

    The minimiser of N is that of N^2/2 for t K, t its own norm; so t is fitted to the scores, and what makes it the
    unsquared norm is the dual norm.
    """
    own = problem.regularizer
    g = problem.kernels.norms(point.dual_coef)
    if own.degree != 2.0 or own.weight_form != "min" or abs(2.0 * own.conjugate(g) - 1.0) > 1e-3:
        return
    theta = weights_of_the_machine(problem, point.dual_coef)
    edge = 0.0 if theta is None else boundary(own, theta)
    if theta is None or not 0.0 < edge < np.inf:
        return
    kernels = scaled(problem.kernels, 1.0 / edge)
    for shape in (own.weights_from_dual(g), theta):
        size = boundary(own, shape) if shape.any() else np.inf
        if not 0.0 < size < np.inf:
            continue
        text = f"the norm that {own} has the square of: the dual norm is 1"
        moved = point._replace(weights=size * shape)
        yield from optimal_for("another regularizer", text, problem, moved, kernels=kernels)


def other_regularizers(problem: Problem, point: Point) -> Iterator[Reading]:
    """Other exponents, squared against plain norms, and the elastic net and the exponent that fit best."""
    exponents = (1, 4 / 3, 2, 4, np.inf)
    candidates: list[reg.Regularizer] = [*map(reg.Lp, exponents), *map(reg.Power, (1, 2)), reg.HalfPower(1)]
    own = problem.regularizer
    if isinstance(own, reg.Lp | reg.Power | reg.Tikhonov) and np.isfinite(p := own.p):
        candidates += [reg.Lp(p), reg.Power(p), reg.HalfPower(2.0 * p / (p + 1.0)), *_penalties(problem, point, p)]
        candidates += [reg.Lp(_exact(p / (p - 1.0)))] if p > 1.0 else []
    candidates += _fitting(problem, point)
    others = {f"{one}, the problem has {own}": one for one in candidates if str(one) != str(own)}
    for what, other in (others | _turned(own)).items():
        yield from optimal_for("another regularizer", what, problem, point, regularizer=other)


def _turned(own: reg.Regularizer) -> dict[str, reg.Regularizer]:
    """Other groups, parameters in each other's place, or their reciprocals, and in words what became of them."""
    powers = {"1/{}": -1.0, "{}^2": 2.0, "sqrt({})": 0.5}
    if isinstance(own, reg.WeightedL1):
        said = f"{{}} in place of the omega of {own}"
        return {said.format(text.format("omega")): reg.WeightedL1(own.omega**e) for text, e in powers.items()}
    if isinstance(own, reg.WeightedLp):
        said = f"{{}} in place of the scale of {own}"
        return {said.format(text.format("scale")): reg.WeightedLp(own.p, own.scale**e) for text, e in powers.items()}
    if not isinstance(own, reg.Groups):
        return {}
    found: dict[str, reg.Regularizer] = {}
    M = sum(map(len, own.groups))
    order = iter(range(M))
    for groups in ([range(M)], [list(islice(order, len(group))) for group in own.groups]):
        shown = " | ".join(" ".join(map(str, group)) for group in groups)
        found[f"the groups {shown} of kernels, the problem has others"] = reg.Groups(groups, p=own.p, q=own.q)
    return found | {f"p and q exchanged of {own}": reg.Groups(own.groups, p=own.q, q=own.p)}


def other_weights(problem: Problem, point: Point) -> Iterator[Reading]:
    """Weights that fit the dual point: those that put the free samples where their dual variables say."""
    if point.weights is None:
        return
    theta = weights_of_the_machine(problem, point.dual_coef)
    g = problem.kernels.norms(point.dual_coef)
    closed = problem.regularizer.weights_from_dual(g)
    given = {"weights that solve its machine": theta, "closed form of dual_coef": closed}
    known = {text: own for text, own in given.items() if own is not None and own.any()}
    alike = {text: _likeness(problem, g, point.weights, own) for text, own in known.items()}
    which = alike.get("weights that solve its machine", "")  # more exact than the closed form of an inexact dual_coef
    fitting = {"closed form of dual_coef": point._replace(weights=None)}
    if theta is not None:
        scale = boundary(problem.regularizer, theta) if problem.regularizer.weight_form == "min" else 1.0
        fitting["weights that solve its machine"] = point._replace(
            weights=scale * theta if abs(scale - 1.0) < 1e-2 else theta, intercept=None
        )
    for text, own in known.items():
        dropped = (point.weights == 0.0) & (own > 1e-6 * own.max())
        kept = (point.weights > 0.0) & (own > 0.0)
        ratio = own[kept] / point.weights[kept]
        if dropped.any() and kept.any() and np.ptp(ratio) < 0.02 * ratio.max() and not alike[text]:
            shown = f"dual_coef fits positive weights of the kernels {some(np.flatnonzero(dropped))}, returned as 0."
            yield Reading("weights cleaned up", shown, problem, fitting[text])
            yield from _machine("weights cleaned up", shown, problem, point, own)
    for text, other in fitting.items():
        shown = f"dual_coef is optimal with other weights ({text}{alike.get(text) or which})."
        yield Reading("weights of another iterate", shown, problem, other)
    if theta is not None and np.abs(theta - point.weights).max() > 1e-3 * max(theta.max(), point.weights.max()):
        text = f"dual_coef solves the machine of the weights {some(theta)}{which or ', not of those returned'}."
        yield from _machine("weights of another iterate", text, problem, point, theta, adapted=True)


def _likeness(problem: Problem, g: Array, returned: Array, theta: Array) -> str:
    """What is to be said where the returned weights are a usual function of these, up to a factor."""
    p = getattr(problem.regularizer, "p", 2.0)
    functions = {
        "": theta,
        ", which are those returned in another order": np.sort(theta)[np.argsort(np.argsort(returned))],
        "; returned are their squares": theta**2,
        "; returned are their square roots": np.sqrt(theta),
        f"; returned are their powers with the exponent p = {p:g}": theta**p if np.isfinite(p) else theta,
        "; returned are the norms ||f_m||": theta * g,
    }
    unit = returned / np.linalg.norm(returned)
    for text, own in functions.items():
        own = own / np.linalg.norm(own)
        if np.abs(own - unit).max() <= 1e-4 and not (own[unit == 0.0] > 1e-8).any():  # what was set to 0 is no function
            return text
    return ""


def used_kernels(problem: Problem, point: Point) -> Iterator[Reading]:
    """The problem without the kernels of weight 0."""
    theta = point.weights
    if theta is None or theta.all() or not theta.any():
        return
    regularizer = problem.regularizer
    used = np.flatnonzero(theta)
    if isinstance(regularizer, reg.WeightedL1):
        regularizer = reg.WeightedL1(regularizer.omega[used])
    elif not isinstance(regularizer, SHARED):
        return
    g = problem.kernels.norms(point.dual_coef)
    out = np.flatnonzero(theta == 0.0)
    m = int(out[np.argmax(g[out])])
    kernels = ArrayStack([matrices(problem.kernels)[k] for k in used])
    if problem.regularizer.dual_scale(g) < 1.0 - 1e-9:
        fault = "inactive constraints violated"
        text = f"g = {g[m]:.6g} of kernel {m}, of weight 0, lies outside the domain of R*."
    else:
        fault = "weights stuck at zero"
        text = f"kernel {m} has weight 0 and g = {g[m]:.6g}, used ones at most {g[used].max():.6g}."
    part = point._replace(weights=theta[used])
    yield from restated(fault, text, problem, part, kernels=kernels, regularizer=regularizer)


def machine(problem: Problem, point: Point) -> Iterator[Reading]:
    """The machine of exactly these weights."""
    if point.weights is not None and point.weights.any():
        g = problem.kernels.quadratic(point.dual_coef)
        text = f"J at these weights is solved; its slopes are {some(-0.5 * g)}."
        yield from _machine("weights not optimal", text, problem, point, point.weights)


def inner_machine(problem: Problem, point: Point) -> Iterator[Reading]:
    """The same weights with the solution of their machine, which is computed here, and certified as all else.

    An inner solver that ends early in every step errs in the dual variables; the weights, made of norms, err less.
    """
    solved = _solved(problem, point)
    if solved is None:
        return
    yield _in_order(problem, point, solved)
    signed = np.copysign(point.dual_coef, solved)
    text = "it is optimal with the signs of y - f, as alpha - alpha*."
    yield Reading("unsigned dual_coef", text, problem, point._replace(dual_coef=signed))
    text = "dual_coef does not solve the machine of these weights, whose solution is optimal."
    yield Reading("machine not solved", text, problem, Point(solved, point.weights, None))


def permuted_samples(problem: Problem, point: Point) -> Iterator[Reading]:
    """One order of the samples for all rows, where some have dual variables of samples that their machines do not see.

    What is left of such a row is no answer of its machine in any order.
    """
    beta = point.dual_coef
    if not np.array_equal(problem.join(problem.split(beta)), beta) and (solved := _solved(problem, point)) is not None:
        yield _in_order(problem, point, solved)


def _solved(problem: Problem, point: Point) -> Array | None:
    """The dual variables of the machine of these weights; None without any, and for numbers beyond all scales."""
    from mklref.native import solve

    theta = point.weights
    if theta is None or not theta.any():
        return None
    if not np.isfinite(certify(problem, point.dual_coef, weights=theta).better_upper):
        return None  # no solver has time for them
    return solve(problem.replace(regularizer=reg.Fixed(theta)), tol=1e-9, max_iter=60).dual_coef


def _in_order(problem: Problem, point: Point, found: Array) -> Reading:
    """The dual variables in the order of those of a solution, of several machines (P, n) by a mixture of their rows."""
    mixture = np.random.default_rng(0).normal(size=len(np.atleast_2d(found)))
    order = np.empty(problem.n_samples, dtype=int)
    order[np.argsort(mixture @ np.atleast_2d(found))] = np.argsort(mixture @ np.atleast_2d(point.dual_coef))
    text = "dual_coef is optimal in another order of the samples."
    return Reading("permuted samples", text, problem, point._replace(dual_coef=point.dual_coef[..., order]))


def free_samples(problem: Problem, beta: Array) -> tuple[Any, Array]:
    """The samples strictly inside their box, as a mask (n,), and their scores t_i = V*'(-beta_i/c_i).

    At the optimum of a machine t_i is a subgradient of the conjugate; inside the box it is the derivative.
    """
    lower, upper = problem.loss.domain(problem.y)
    s = -beta / problem.costs
    room = np.minimum(s - lower, upper - s)
    step = 1e-6 * np.maximum(1.0, np.abs(s))
    free = room > 1e3 * step
    if problem.loss.name.endswith("insensitive"):
        free &= np.abs(s) > 1e3 * step  # the kink of |beta_i| at 0
    s, y, step = s[free], problem.y[free], step[free]
    t = (problem.loss.conjugate(s + step, y) - problem.loss.conjugate(s - step, y)) / (2.0 * step)
    return np.asarray(free), np.asarray(t)


def weights_of_the_machine(problem: Problem, beta: Array) -> Array | None:
    """Weights theta >= 0 that put the free samples where their dual variables say, or None if these are too few.

    sum_m theta_m (K_m beta)_i + b = t_i is linear in (theta, b): nonnegative least squares, or, where these are less
    equations than unknowns, a linear program with the inequalities of all other samples.
    """
    from scipy.optimize import nnls

    free, t = free_samples(problem, beta)
    if len(t) < problem.n_kernels + problem.intercept:
        return _within_all_intervals(problem, beta)
    images = problem.kernels.apply(beta)[:, free].T
    size = float(np.abs(images).max())
    if not 0.0 < size < np.inf or not np.all(np.isfinite(t)):
        return None
    if problem.intercept and np.ptp(t) <= 1e-9 * np.abs(t).max():  # of one class: weights of 0 and an intercept fit
        return None
    columns = [images / size]
    if problem.intercept:
        columns += [np.ones((len(t), 1)), -np.ones((len(t), 1))]
    try:
        theta = nnls(np.hstack(columns), t)[0][: problem.n_kernels] / size
    except RuntimeError:  # its iteration limit
        return None
    return theta if theta.any() and np.isfinite(theta).all() else None


def _within_all_intervals(problem: Problem, beta: Array) -> Array | None:
    """Weights whose scores lie in [low, high], the subdifferential of V* at -beta_i/c_i, as nearly as can be.

    minimise the largest distance over theta >= 0, b; the one-sided derivatives of V* are infinite at the ends of its
    domain.
    """
    from scipy.optimize import linprog

    s = -beta / problem.costs
    lower, upper = problem.loss.domain(problem.y)
    step = 1e-4 * np.maximum(1.0, np.abs(s))
    here = problem.loss.conjugate(np.clip(s, lower, upper), problem.y)
    sides = []
    for side, inside in ((-1.0, s - step >= lower), (1.0, s + step <= upper)):
        there = problem.loss.conjugate(np.where(inside, s + side * step, s), problem.y)
        sides.append(np.where(inside, side * (there - here) / step, side * np.inf))
    low, high = sides
    images = problem.kernels.apply(beta).T
    size, reach = float(np.abs(images).max(initial=0.0)), float(np.abs(problem.loss.kinks(problem.y)).max(initial=1.0))
    if size == 0.0 or not np.isfinite(images).all() or np.isnan(low + 0.0).any() or np.isnan(high + 0.0).any():
        return None
    ones = np.ones((len(s), 1))
    columns = np.hstack([images / size, ones * problem.intercept, -ones * reach])
    below, above = np.isfinite(low), np.isfinite(high)
    found = linprog(
        np.append(np.zeros(problem.n_kernels + 1), 1.0),
        A_ub=np.vstack([columns[above], (columns * np.append(-np.ones(problem.n_kernels + 1), 1.0))[below]]),
        b_ub=np.concatenate([high[above], -low[below]]),
        bounds=[(0.0, None)] * problem.n_kernels + [(None, None), (0.0, None)],
    )  # fmt: skip
    theta = found.x[: problem.n_kernels] / size if found.success else np.zeros(1)
    return theta if theta.any() and np.isfinite(theta).all() else None


def _rescaled(problem: Problem, point: Point) -> Iterator[tuple[str, float, Point]]:
    """The point with its weights on the sphere of the regulariser, if they are not, nor are the norms ||f_m||, say."""
    if point.weights is None or problem.regularizer.weight_form != "min" or not point.weights.any():
        return
    scale = boundary(problem.regularizer, point.weights)
    g = dual_norms(problem, point.dual_coef)
    alike = _likeness(problem, g, point.weights, problem.regularizer.weights_from_dual(g))
    if np.isfinite(scale) and abs(scale - 1.0) > 1e-6 and "; returned are" not in alike:
        norms = ", ".join(f"{p_norm(point.weights, p):.6g}" for p in (1.0, 2.0))
        text = (
            f"weights have l1 and l2 norms {norms}; {scale:.6g} times them lies on the sphere of {problem.regularizer}."
        )
        yield text, scale, point._replace(weights=scale * point.weights)


def _penalties(problem: Problem, point: Point, p: float) -> Iterator[reg.Regularizer]:
    """mu ||theta||_p^2 with the mu that fits, ||theta||_p = ||(g_m^2)_m||_{p*} / (4 mu)."""
    size = 0.0 if point.weights is None else p_norm(point.weights, p)
    if size > 0.0:
        mu = p_norm(dual_norms(problem, point.dual_coef) ** 2, conjugate_exponent(p)) / (4.0 * size)
        yield from (reg.Tikhonov(p, short) for short in meant(mu, {}, digits=2).values() if short > 0.0)


def _fitting(problem: Problem, point: Point) -> Iterator[reg.Regularizer]:
    """The lp ball, block norm and elastic nets whose closed forms fit weights and dual norms best."""
    if point.weights is None:
        return
    g = dual_norms(problem, point.dual_coef)
    used = (point.weights > 1e-6 * point.weights.max()) & (g > 0.0) & np.isfinite(point.weights * g * g)
    theta, g = point.weights[used], g[used]
    if len(g) < 2 or np.ptp(np.log(g)) < 1e-6:
        return
    slope = np.polyfit(np.log(g), np.log(theta), 1)[0]  # theta ~ g^{2/(p-1)}, or g^{(2-q)/(q-1)} beyond q = 2
    if slope > 1e-3:
        yield from (reg.Lp(_exact(1.0 + rest)) for rest in _round(2.0 / slope))
    elif -1.0 < slope < -1e-3:
        yield from (reg.BlockNorm(q) for q in meant((2.0 + slope) / (1.0 + slope), _FRACTIONS).values())
    design = np.column_stack([theta * g, np.ones(len(g))])  # theta lam g = g - tau
    ivanov = float(np.linalg.lstsq(design, g, rcond=None)[0][0])
    tikhonov = float((theta * g - 1.0) @ (g - 1.0) / ((theta * g - 1.0) @ (theta * g - 1.0)))  # tau = 1 - lam
    for lam, form in ((ivanov, "ivanov"), (tikhonov, "tikhonov")):
        if 0.0 < lam < 1.0:
            yield from (reg.ElasticNet(short, form) for short in _round(lam) if 0.0 < short < 1.0)


def _round(value: float) -> set[float]:
    """What may be meant by a fitted p - 1 or lam: the rounder a number, the farther it may be from the fit.

    The certificate is of second order in both, and alone would forgive any rounding.
    """
    return {*meant(value, _FRACTIONS, 2, 1e-3).values(), *meant(value, {}, 1, 1e-2).values()}


def _exact(p: float) -> float:
    """The fraction, such as 6 or 7/3, that p is but for rounding, or p."""
    return next((round(d * p) / d for d in range(1, 13) if abs(round(d * p) / d - p) < 1e-12 * p), p)


def _machine(
    fault: str, text: str, problem: Problem, point: Point, theta: Array, adapted: bool = False
) -> Iterator[Reading]:
    moved = point._replace(weights=theta)
    yield from restated(fault, text, problem, moved, adapted=adapted, regularizer=reg.Fixed(theta))
