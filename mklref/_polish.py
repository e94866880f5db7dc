"""The last digits: Newton's method on the optimality conditions of the active set, for native and for the reference.

With F the samples of all machines strictly between their bounds (and off the kink of |beta_i| at 0), d_i(beta_i) the
derivative of c_i V*(-beta_i/c_i, y_i) in beta_i, and q_m = sum_p beta_p'K_m beta_p, an optimum satisfies

    sum_m theta_m (K_m beta_p)_i + b_p + d_i(beta_i) = 0   for i in F of machine p,       1'beta_p = c_b with intercepts

where theta is the function theta(q) of the regulariser; its Jacobian joins the Newton matrix. Where R* has kinks
(Lp(1) and its relatives, `polyhedral`), theta on the active kernels S and a multiplier nu are unknowns of their own:

    q_m/2 = cost_m + 2 mu 1'theta + nu normal_m   for m in S,             normal'theta = 1

Where R* is a maximum of smooth N_l(q)/2 (`parts`: groups that exclude each other) the same holds for their shares s in
place of the weights, N_l in place of q_m and sum_m dN_l/dq_m K_m beta in place of K_m beta; theta = sum_l s_l dN_l/dq.
For block norms with q > 2 theta(q) is so steep next to q_m = 0 that the weights are unknowns as well: with r = q/(q-2),

    q_m/2 = nu theta_m^{-r-1}   for m in S,               sum_m theta_m^{-r} = 1

where S are all kernels but those that cost nothing at q = inf, whose norms are below the largest: these keep theirs.

Who calls guesses the active set: native from a machine that it has solved, the reference from the multipliers of a
conic solver. Every point on the way is certified, and the best one is kept, which may be the one that was given.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from itertools import pairwise
from typing import Any

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from mklref._typing import Array
from mklref.certificate import Certificate, certify, repair
from mklref.certificate.allowance import off_kinks_error, squares_error
from mklref.certificate.products import images_that_cancel
from mklref.exceptions import NotApplicable
from mklref.problem import Point, Problem
from mklref.regularizers import BlockNorm, Regularizer
from mklref.regularizers.norms import Parts, Polyhedral, p_norm, quotient

ACTIVE = 1e-6
"""Share of theta'q from which a kernel counts as active where R* has kinks."""
_STEPS = 4
_RANK = 1e-14
_STEEPEST = 10.0
"""The r up to which weights are unknowns: above, q is next to 2, and theta(q) nearly constant."""
_LONGER, _CHANGES = 3, (1e-2, 1e-6)
"""Times as many steps to these, which may be orders off; the changes of them from which points count, and the last."""
_BELOW, _LEAST = 0.99, 0.1
"""Of the largest norm, which kernels that cost nothing at q = inf do not reach; what a step leaves of a weight."""
_LARGEST = 1000.0
"""Of the exponents of units."""
_WORTHWHILE = 0.01
"""Share of the gap from which a better intercept is taken."""


def improved(
    problem: Problem,
    point: Point,
    candidates: Iterable[Point],
    enough: Callable[[Certificate], bool],
    certificate: Certificate | None = None,
) -> tuple[Point, Certificate]:
    """The best of a point and its candidates by certified gap, none of which violates constraints more than the last.

    Candidates that are not finite are passed over, and no more are asked for once one is good enough.
    """
    best = point
    if certificate is None:
        best, certificate = with_better_intercept(problem, point)
    if enough(certificate):
        return best, certificate
    for candidate in candidates:
        if not all(np.all(np.isfinite(part)) for part in candidate):
            continue
        moved, found = with_better_intercept(problem, candidate)
        if _gap(found) < _gap(certificate) and found.infeasibility <= certificate.infeasibility:
            best, certificate = moved, found
            if enough(certificate):
                break
    return best, certificate


def with_better_intercept(problem: Problem, point: Point) -> tuple[Point, Certificate]:
    """The point and its certificate, at its own intercept or at the best one where that is worth it.

    The best one may be on a kink, where rounding costs more than it gains; of f = 0 no score has any.
    """
    found = certify(problem, point.dual_coef, weights=point.weights, intercept=point.intercept)
    if not found.objective - found.better_upper > (_WORTHWHILE * found.gap if point.weights.any() else 0.0):
        return point, found
    moved = point._replace(intercept=problem.intercepts(found.better_intercept))
    better = certify(problem, moved.dual_coef, weights=moved.weights, intercept=moved.intercept)
    return (moved, better) if _gap(better) < _gap(found) else (point, found)


def _gap(certificate: Certificate) -> float:
    """Smaller is better, of either sign: a negative gap is rounding. What is not finite loses."""
    return abs(certificate.gap) if np.isfinite(certificate.gap) else np.inf


class Samples:
    """The samples of all machines, one machine after the other, with what their losses say of beta there."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.machines = [machine.problem for machine in problem.machines]
        ends = np.cumsum([0, *(own.n_samples for own in self.machines)])
        self.parts = [slice(start, end) for start, end in pairwise(ends)]
        self.y = np.concatenate([own.y for own in self.machines])
        self.costs = np.concatenate([own.costs for own in self.machines])
        self.lower, self.upper = problem.loss.box(self.y, self.costs)
        self.terms = problem.loss.quadratic_dual(self.y)
        self.tube = self.terms is not None and self.terms.absolute > 0.0

    def snapped(self, beta: Array, tolerance: float = 0.0) -> tuple[Array, NDArray[np.bool_]]:
        """Beta with the entries on their bounds that are within so many costs of them, and which ones are inside."""
        margin = tolerance * self.costs
        beta = np.clip(beta, self.lower, self.upper)
        beta = np.where(beta - self.lower <= margin, self.lower, beta)
        beta = np.where(self.upper - beta <= margin, self.upper, beta)
        free = (beta > self.lower) & (beta < self.upper)
        if self.tube:  # the kink of |beta_i| at 0 holds an entry as a bound does
            beta = np.where(np.abs(beta) <= margin, 0.0, beta)
            free &= beta != 0.0
        return beta, free

    def interval(self, side: Array) -> tuple[Array, Array]:
        """Where beta has one formula of d: the box, or with a kink at 0 the half of it on this side."""
        if not self.tube:
            return self.lower, self.upper
        return np.where(side > 0.0, 0.0, self.lower), np.where(side < 0.0, 0.0, self.upper)

    def derivatives(self, beta: Array, side: Array) -> tuple[Array, Array]:
        """d_i and its derivative: -linear + absolute side + curvature beta/c, or those of the logistic loss."""
        terms = self.terms
        if terms is None:
            a = self.y * beta
            return self.y * np.log(a / (self.costs - a)), self.costs / (a * (self.costs - a))
        second = np.broadcast_to(terms.curvature / self.costs, beta.shape)
        return terms.absolute * side - terms.linear + second * beta, second

    def released(
        self, beta: Array, side: Array, free: NDArray[np.bool_], scores: Array
    ) -> tuple[Array, NDArray[np.bool_]]:
        """The sides, and which entries are inside or leave a bound, or the kink at 0, that does not hold them."""
        if self.terms is None:  # d is infinite on the bounds
            return side, free
        if self.tube:
            ascent = -(scores + self.derivatives(beta, np.zeros_like(side))[0])
            side = np.where((beta == 0.0) & (np.abs(ascent) > self.terms.absolute), np.sign(ascent), side)
        low, high = self.interval(side)
        ascent = -(scores + self.derivatives(beta, side)[0])
        inward = (beta < high) & (ascent > 0.0) | (beta > low) & (ascent < 0.0)
        return side, free | inward & ((side != 0.0) | (not self.tube))

    def images(self, beta: Array) -> Array:
        """K_m beta_p of all machines side by side, (M, sum n_p)."""
        each = zip(self.machines, self.parts, strict=True)
        return np.concatenate([images_that_cancel(own.kernels, beta[part]) for own, part in each], axis=1)

    def curvature(self, theta: Array, free: NDArray[np.bool_]) -> Array:
        """sum_m theta_m K_m on the free samples, a block for each machine."""
        combined: dict[int, Array] = {}
        blocks = []
        for own, part in zip(self.machines, self.parts, strict=True):
            if id(own.kernels) not in combined:
                combined[id(own.kernels)] = own.kernels.combine(theta)
            blocks.append(combined[id(own.kernels)][np.ix_(free[part], free[part])])
        return blocks[0] if len(blocks) == 1 else np.asarray(scipy.linalg.block_diag(*blocks))

    def room(self, beta: Array) -> Array:
        """4 E (M,), which leaves room in q for what rounding adds to losses off their kinks (native/large_q.py)."""
        betas = [beta[part] for part in self.parts]
        return 4.0 * off_kinks_error(zip(self.machines, betas, strict=True), polished=True)

    def sums(self) -> Array:
        """Rows that sum beta over the samples of each machine, (P, sum n_p); none without intercepts."""
        rows = np.zeros((len(self.parts) if self.problem.intercept else 0, len(self.y)))
        for row, part in zip(rows, self.parts, strict=False):
            row[part] = 1.0
        return rows

    def repaired(self, beta: Array) -> Array:
        """A feasible beta next to this one."""
        each = zip(self.machines, self.parts, strict=True)
        return np.concatenate([repair(own, beta[part])[0] for own, part in each])

    def point(self, beta: Array, weights: Array, b: Array) -> Point:
        """The point as solutions have it."""
        problem = self.problem
        intercepts = b.tolist() if problem.intercept else [0.0] * len(self.parts)
        return Point(problem.join([beta[part] for part in self.parts]), weights, problem.intercepts(intercepts))


def newton(
    problem: Problem,
    regularizer: Regularizer,
    point: Point,
    tolerance: float = 0.0,
    share: float = ACTIVE,
    steps: int = _STEPS,
) -> Iterator[Point]:
    """Feasible points after each Newton step from a point whose active set is near that of the optimum.

    The regulariser is that of the problem, or `Fixed` weights for its machines alone. beta_i is taken to lie on a bound
    within `tolerance` times its cost; where R* has kinks, a kernel is active from a `share` of the largest theta'q on.
    Samples that a step takes out of their interval stay at the end of it from then on.
    """
    samples = Samples(problem)
    beta, free = samples.snapped(np.concatenate(problem.split(point.dual_coef)), tolerance)
    side, b = np.sign(beta), np.atleast_1d(point.intercept).astype(float)
    kinks = _kinks(regularizer, len(point.weights))
    low, high = samples.interval(side)
    g, parts = _norms(regularizer, samples.images(beta) @ beta)
    # The unknown weights: theta, or the shares of the parts, those that fit theta best.
    unknown = point.weights if parts is None else best_shares(parts.gradients, point.weights)
    share_of_squares = unknown * (g * g if parts is None else parts.norms)
    active = share_of_squares > share * share_of_squares.max(initial=0.0)
    if reciprocals := isinstance(kinks, float):
        unknown = np.where(unknown > 0.0, unknown, regularizer.weights_from_dual(g))
        unknown = unknown * p_norm(quotient(np.ones_like(unknown), unknown), kinks)
        norms = unknown * np.sqrt(g * g + samples.room(beta))
        active = norms > (_BELOW * norms.max() if kinks == 1.0 else 0.0)
    else:
        unknown = regularizer.weights_from_dual(g) if kinks is None else np.where(active, unknown, 0.0)
    for _ in range(_LONGER * steps if reciprocals else steps):
        step = _step(samples, regularizer, (beta, unknown, b), side, free, kinks, active)
        if step is None:
            return
        moved, weights_moved, b_moved = step
        beta, b = np.where(free, np.clip(beta + moved, low, high), beta), b + b_moved
        free &= (beta > low) & (beta < high)
        feasible = samples.repaired(beta)
        g, parts = _norms(regularizer, samples.images(feasible) @ feasible)
        near, converged = (reciprocals and bool(np.all(abs(weights_moved) <= by * unknown)) for by in _CHANGES)
        least = _LEAST * unknown if reciprocals else 0.0
        unknown = regularizer.weights_from_dual(g) if kinks is None else np.maximum(unknown + weights_moved, least)
        if near or not reciprocals:
            yield samples.point(feasible, unknown if parts is None else unknown / unknown.sum() @ parts.gradients, b)
        if converged:
            return


def fitted(problem: Problem, point: Point) -> Point:
    """The point with weights that fit its dual variables, within what rounding of q leaves of the closed form.

    Next to a kink of R* the weights are rounding, times a Jacobian J that is large. Of all changes of theta after which
    sum_m theta_m (K_m beta)_i + b + d_i = 0 on the free samples as nearly as can be, the shortest in units of |J| dq.
    """
    samples, theta = Samples(problem), point.weights
    beta, free = samples.snapped(np.concatenate(problem.split(point.dual_coef)))
    images, sums = samples.images(beta), samples.sums()
    with np.errstate(all="ignore"):
        residual = theta @ images + samples.derivatives(beta, np.sign(beta))[0]
        residual += np.atleast_1d(point.intercept) @ sums if len(sums) else 0.0
        noise = sum(
            squares_error(own, beta[part], images[:, part])
            for own, part in zip(samples.machines, samples.parts, strict=True)
        )
        g = np.sqrt(np.maximum(images @ beta, 0.0) + noise)  # beyond the kink, where J is not 0
        units = np.abs(problem.regularizer.weights_jacobian(g)) @ noise
    A = (units[:, None] * images[:, free]).T
    if not (A.size and np.all(np.isfinite(A)) and np.all(np.isfinite(residual[free]))):
        return point
    change: Any = scipy.linalg.lstsq(A, -residual[free], cond=_RANK, lapack_driver="gelsy", check_finite=False)[0]
    return point._replace(weights=np.maximum(theta + units * change, 0.0))


def best_shares(gradients: Array, weights: Array) -> Array:
    """Nonnegative shares of the gradients whose sum is nearest to the weights; 0 where these are not finite."""
    from scipy.optimize import nnls  # most problems have no parts, and the import takes longer than to solve them

    finite = np.all(np.isfinite(gradients)) and np.all(np.isfinite(weights))
    return np.asarray(nnls(gradients.T, weights)[0]) if finite else np.zeros(len(gradients))


def _norms(regularizer: Regularizer, squares: Array) -> tuple[Array, Parts | None]:
    g = np.sqrt(np.maximum(squares, 0.0))
    return g, regularizer.parts(g)


def _kinks(regularizer: Regularizer, kernels: int) -> Polyhedral | float | None:
    """psi of the unknown weights where R* has kinks: of theta, or of the shares of its parts; r for q > 2."""
    if isinstance(regularizer, BlockNorm) and regularizer.weight_form == "max":
        return r if (r := regularizer.reciprocals) < _STEEPEST else None
    parts = regularizer.parts(np.ones(kernels))
    return regularizer.polyhedral(kernels) if parts is None else Polyhedral.simplex(len(parts.norms))


def _step(
    samples: Samples,
    regularizer: Regularizer,
    point: tuple[Array, Array, Array],
    side: Array,
    free: NDArray[np.bool_],
    kinks: Polyhedral | float | None,
    active: NDArray[np.bool_],
) -> tuple[Array, Array, Array] | None:
    """The Newton step in beta, the unknown weights and b; None where the equations are not finite."""
    beta, unknown, b = point
    images, sums = samples.images(beta), samples.sums()
    # theta at these unknowns, d theta/dq beside them, and the squares q, or N_l, with the images that they come from.
    g, parts = _norms(regularizer, images @ beta)
    theta, jacobian, squares, rows = unknown, None, g * g, images
    if parts is not None:
        theta, jacobian, squares = unknown @ parts.gradients, parts.curvature(unknown), parts.norms
        rows = parts.gradients @ images
    elif isinstance(kinks, float):
        squares = squares + samples.room(beta)
    elif kinks is None:
        with suppress(NotApplicable):  # else the weights stay as they are within a step
            jacobian = regularizer.weights_jacobian(g)
    first, second = samples.derivatives(beta, side)
    F, S = np.flatnonzero(free), np.flatnonzero(active)
    matrix = samples.curvature(theta, free) + np.diag(second[F])
    residual = -(theta @ images + (b @ sums if len(sums) else 0.0) + first)[F]
    if jacobian is not None:
        matrix += 2.0 * images[:, F].T @ (jacobian @ images[:, F])
    if len(sums):
        matrix = bordered(matrix, sums[:, F], 0.0)
        residual = np.append(residual, samples.problem.intercept_cost - sums @ beta)
    kernels = len(residual)
    if kinks is not None and len(S):
        left, corner, normal, missed = _stationarity(kinks, unknown, squares, S)
        matrix, residual = bordered(matrix, rows[np.ix_(S, F)], corner), np.append(residual, left)
        if normal is not None:
            last = np.zeros((1, len(matrix)))
            last[0, kernels:] = -normal
            matrix, residual = bordered(matrix, last, 0.0), np.append(residual, missed)
    solved = shortest(matrix, residual, len(F))
    if solved is None:
        return None
    moved, weights_moved, b_moved = np.zeros_like(beta), np.zeros_like(unknown), np.zeros_like(b)
    moved[F] = solved[: len(F)]
    b_moved[: len(sums)] = solved[len(F) : len(F) + len(sums)]
    if kinks is not None:
        weights_moved[S] = solved[kernels : kernels + len(S)]
    return moved, weights_moved, b_moved


def _stationarity(
    kinks: Polyhedral | float, unknown: Array, squares: Array, S: NDArray[np.int_]
) -> tuple[Array, Array | float, Array | None, float]:
    """What is left of the equations of the weights on S, their derivative in them; the normal, and what it misses."""
    theta, excess = unknown[S], -0.5 * squares[S]
    if isinstance(kinks, float):
        normal: Array | None = theta ** (-kinks - 1.0)
        missed = (1.0 - float(np.sum(unknown[unknown > 0.0] ** -kinks))) / kinks
    else:
        part = kinks.of(S)
        normal, excess = part.normal, excess + part.gradient(theta)
        missed = 0.0 if normal is None else float(normal @ theta) - 1.0
    if normal is not None:
        along = normal / normal.max()  # whose squares do not underflow
        multiples = -float(along @ excess) / float(along @ normal) * normal  # of nu that fits best
        excess = excess + multiples
    if isinstance(kinks, float):  # of theta^2 q/2 - nu theta^{1-r}, which is nearer to a line, over theta^2
        return excess, np.diag((squares[S] + (kinks - 1.0) * multiples) / theta), normal, missed
    return excess, -2.0 * part.mu, normal, missed


def shortest(matrix: Array, residual: Array, samples: int) -> Array | None:
    """The shortest of the solutions that low rank leaves, in units where no kernel is large; None if not finite."""
    if not (len(matrix) and np.all(np.isfinite(matrix)) and np.all(np.isfinite(residual))):
        return None
    unit = _units(matrix, samples)
    scaled = unit[:, None] * matrix * unit
    solved: Any = scipy.linalg.lstsq(scaled, unit * residual, cond=_RANK, lapack_driver="gelsy", check_finite=False)[0]
    solved *= unit
    return np.asarray(solved) if np.all(np.isfinite(solved)) else None


def _units(matrix: Array, samples: int) -> Array:
    """Powers of two: one for the block of the samples, and one for each row below it, that make the largest entry 1."""
    unit = np.full(len(matrix), _power(-0.5 * _exponent(matrix[:samples, :samples])))
    for k in range(samples, len(matrix)):
        unit[k] = _power(-_exponent(matrix[k, :k] * unit[:k]))
    return unit


def _power(exponent: float) -> float:
    """The nearest power of two in the range of double precision."""
    return 2.0 ** round(min(max(exponent, -_LARGEST), _LARGEST))


def _exponent(entries: Array) -> float:
    """The logarithm of the largest modulus, 0 without any."""
    return float(np.log2(np.abs(entries).max(initial=0.0) or 1.0))


def bordered(matrix: Array, rows: Array, corner: Array | float) -> Array:
    """[[matrix, rows'], [rows, corner]] with the rows filled up with zeros on the right."""
    wide = np.zeros((len(rows), len(matrix)))
    wide[:, : rows.shape[1]] = rows
    return np.block([[matrix, wide.T], [wide, np.full((len(rows), len(rows)), corner)]])
