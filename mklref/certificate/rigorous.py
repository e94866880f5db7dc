"""The rigorous certificate: L <= P* <= U with a proof, rounding errors included.

Claim: for every family of positive semidefinite Khat_m with ||Khat_m - K_m||_2 <= delta_m, the optimal value of the
problem with the kernels Khat lies in [L, U]. With a beta that is feasible exactly, any theta >= 0 and any b,

    q_m >= beta'K_m beta + delta_m ||beta||^2
    L = -sum_i c_i V*(-beta_i/c_i, y_i) - R*(sqrt q)
    U = sum_i c_i max V over t_i + R(sqrt(theta^2 q)) + c_b b + ||c s||_2 sum_m theta_m delta_m ||beta||_2

where t_i encloses sum_m theta_m (K_m beta)_i + b. The last term is the worst that matrices within delta can do: they
move the scores by at most sum theta_m delta_m ||beta|| in the Euclidean norm, and s_i is the largest |V'| that far
around t_i. R needs no feasible weights. Every number that is rounded is rounded to the safe side; sums over samples
and norms over kernels are taken in rational arithmetic.

    definite.py       K_m + s_m I is semidefinite, s_m <= delta_m
    feasible.py       beta in the box and 1'beta = c_b, exactly
    products.py       K_m beta and beta'K_m beta
    loss_terms.py     V, |V'|, V* and the box
    penalty_terms.py  R and R*
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from mklref._typing import Array
from mklref._validate import checked_vector
from mklref.certificate import loss_terms, penalty_terms
from mklref.certificate.checks import checked_intercept, weight_violations
from mklref.certificate.definite import fingerprint, proven_shifts
from mklref.certificate.document import RigorousCertificate
from mklref.certificate.exact import Unbounded, dot, root_up, round_down, round_up, total
from mklref.certificate.feasible import exactly_feasible
from mklref.certificate.intercept import best_intercept, intercept_objective
from mklref.certificate.loss_terms import dual_term, exact_box, primal_losses, slopes
from mklref.certificate.numerical import dual_objective
from mklref.certificate.penalty_terms import conjugate, penalty
from mklref.certificate.products import BACKENDS, products
from mklref.certificate.repaired import repair
from mklref.certificate.rounding import Interval, above, weighted_sum
from mklref.certificate.unit import unit_of
from mklref.exceptions import InvalidKernel, InvalidParameter, NotApplicable
from mklref.kernels.validation import INDEFINITE_REMEDY
from mklref.losses import DensityLevelSet, Hinge, OneClass

if TYPE_CHECKING:
    from mklref.problem import Problem

_NEAR = 8.0
"""Scores within so many times their error of the kink may be on it."""
_FARTHEST = 1e-6
"""Relative change of a function beyond which it would be another point, and not the given one without its kinks."""
_SHARE = 0.1
"""Share of the tolerance that rounding may cost before a sharper backend takes over."""


class Point(NamedTuple):
    """What is certified: beta, whether it is exactly feasible, and theta and b if they are given."""

    beta: Array
    feasible: bool
    weights: Array | None
    intercept: float | None


class Enclosure(NamedTuple):
    """Bounds at a point, the weights and the intercept that they use, and what rounding costs them."""

    lower: float
    upper: float
    weights: Array
    intercept: float
    slack: float


def certify_rigorously(
    problem: Problem,
    dual_coef: Any,
    weights: Any,
    intercept: float | None,
    backend: str | None,
    delta: Any,
    tol: float,
) -> RigorousCertificate:
    """What `mklref.certify(..., rigorous=True)` does; parameters and errors are documented there."""
    loss_terms.require_supported(problem.loss)
    penalty_terms.require_supported(problem.regularizer)
    if backend is not None and backend not in BACKENDS:
        raise InvalidParameter(f"backend = {backend!r} is unknown; give {', '.join(map(repr, BACKENDS))}, or None.")
    evaluated = problem.kernels.entry_errors is not None
    if evaluated and backend not in (None, "fast"):
        raise NotApplicable(f"backend = {backend!r} reads matrices; kernels that are evaluated have 'fast' alone.")
    repaired, violations = repair(problem, checked_vector(dual_coef, "dual_coef", problem.n_samples))
    box = exact_box(problem.loss, problem.y, problem.costs)
    beta = exactly_feasible(repaired, *box, problem.intercept_cost if problem.intercept else None)
    if beta is None:
        excess = problem.intercept_cost - float(total(problem.costs))
        violations.append((f"no point of the box sums to {problem.intercept_cost:g} exactly", max(excess, 0.0)))
    theta = None
    if weights is not None:
        theta = checked_vector(weights, "weights", problem.n_kernels)
        violations += weight_violations(problem, theta)
        theta = np.maximum(theta, 0.0)
    b = None if intercept is None else checked_intercept(problem, intercept)
    radii, shifts = proven_shifts(problem.kernels, delta)

    point = Point(repaired if beta is None else beta, beta is not None, theta, b)
    used = backend or "fast"
    found = _enclose(problem, point, radii, shifts, used)
    if backend is None and not evaluated and found.slack > _SHARE * tol * abs(found.upper):
        used = "sliced"
        found = _enclose(problem, point, radii, shifts, used)
    return RigorousCertificate(
        lower=found.lower,
        upper=found.upper,
        infeasibility=max((size for _, size in violations), default=0.0),
        violations=tuple(text for text, _ in violations),
        tier=2 if radii.any() else 1,
        delta=radii,
        backend=used,
        unit=unit_of(problem),
        slack=found.slack,
        dual_coef=point.beta,
        weights=found.weights,
        intercept=found.intercept,
        problem=problem,
        fingerprint=fingerprint(problem.kernels),
    )


def _enclose(problem: Problem, point: Point, delta: Array, shifts: Array, backend: str) -> Enclosure:
    """The bounds at a point with one backend; infinite where a value overflows."""
    try:
        images, squares = products(problem.kernels, point.beta, shifts, backend)
    except Unbounded:
        nothing = np.zeros(problem.n_kernels) if point.weights is None else point.weights
        return Enclosure(-math.inf, math.inf, nothing, point.intercept or 0.0, math.inf)
    size = dot(point.beta, point.beta)
    q = [Fraction(x) + Fraction(d) * size for x, d in zip(squares.upper.tolist(), delta.tolist(), strict=True)]
    _require_nonnegative(q)
    middle, middles = 0.5 * squares.lower + 0.5 * squares.upper, 0.5 * images.lower + 0.5 * images.upper
    middle = np.maximum(middle, 0.0)
    theta = point.weights
    if theta is None:
        theta = problem.regularizer.weights_from_dual(np.sqrt(middle))
    scores = theta @ middles
    b = best_intercept(problem, scores) if point.intercept is None else point.intercept
    with np.errstate(over="ignore", invalid="ignore"):
        moved = float(theta @ delta) * math.sqrt(float(point.beta @ point.beta))
        theta, b = _off_the_kink(problem, theta, b, weighted_sum(theta, images) + b, np.sqrt(middle), moved)

    lower = _lower(problem, point.beta, q) if point.feasible else -math.inf
    radius = sum((Fraction(t) * Fraction(d) for t, d in zip(theta.tolist(), delta.tolist(), strict=True)), Fraction(0))
    upper = _upper(problem, q, theta, b, weighted_sum(theta, images), root_up(radius * radius * size))

    with np.errstate(over="ignore", invalid="ignore"):
        primal = intercept_objective(problem, theta @ middles, b) + problem.regularizer.value(theta * np.sqrt(middle))
        dual, _ = dual_objective(problem, point.beta, middle)
        slack = (upper - primal) + (dual - lower)
    return Enclosure(lower, upper, theta, b, slack if math.isfinite(slack) else math.inf)


def _off_the_kink(problem: Problem, theta: Array, b: float, t: Interval, g: Array, moved: float) -> tuple[Array, float]:
    """Weights and an intercept that keep the free samples off the kink of max(0, m - y t) by the error of their scores.

    On the kink an error of r costs c_i r, which is much where c_i is large. The function times 1 + eta, eta about r,
    has no loss there, and since the point is nearly optimal that costs eta sum |beta_i| over the free samples. Where
    m = 0 (one class) eta is added to the intercept. Matrices within delta move the scores further, by `moved` at most.
    Taken where float64 says that it pays; any point has a bound.
    """
    loss, costs = problem.loss, problem.costs
    if not isinstance(loss, Hinge | DensityLevelSet | OneClass):
        return theta, b
    margin = 0.0 if isinstance(loss, OneClass) else 1.0
    z = margin - problem.y * (0.5 * t.lower + 0.5 * t.upper)
    r = 0.5 * (t.upper - t.lower)

    def estimate(eta: float) -> float:
        stretch, shift = (1.0 + eta, 0.0) if margin else (1.0, eta)
        excess = margin - stretch * (margin - z) - shift + stretch * r
        pull = moved * float(np.linalg.norm(costs[excess + moved > 0.0]))
        penalty = problem.regularizer.value(stretch * theta * g)
        return float(costs @ np.maximum(0.0, excess)) + pull + penalty + problem.intercept_cost * shift

    candidates = [0.0]
    for reach in (r, r + moved):
        near = np.abs(z) <= _NEAR * reach
        candidates.append(1.01 * float(np.max(z + reach, initial=0.0, where=near)))
    eta = min((eta for eta in candidates if eta <= _FARTHEST), key=estimate)
    return ((1.0 + eta) * theta, (1.0 + eta) * b) if margin else (theta, b + eta)


def _lower(problem: Problem, beta: Array, q: list[Fraction]) -> float:
    """The dual objective from below."""
    try:
        value = dual_term(problem.loss, beta, problem.y, problem.costs)
        return round_down(value - conjugate(problem.regularizer, q))
    except Unbounded:
        return -math.inf


def _upper(problem: Problem, q: list[Fraction], theta: Array, b: float, scores: Interval, moved: Fraction) -> float:
    """The primal objective from above, for scores that are moved by at most `moved` in the Euclidean norm."""
    costs, loss, y = problem.costs, problem.loss, problem.y
    try:
        with np.errstate(over="ignore", invalid="ignore"):
            t = scores + b
            value = total(above(costs * primal_losses(loss, t, y)))
            if moved:
                pull = above(costs * slopes(loss, t.widen(round_up(moved)), y))
                value += root_up(dot(pull, pull)) * moved
        value += penalty(problem.regularizer, [Fraction(w) ** 2 * x for w, x in zip(theta.tolist(), q, strict=True)])
        return round_up(value + Fraction(problem.intercept_cost) * Fraction(b))
    except Unbounded:
        return math.inf


def _require_nonnegative(q: list[Fraction]) -> None:
    """An upper bound of beta'Khat beta below 0 disproves that Khat is semidefinite."""
    m = min(range(len(q)), key=lambda k: q[k])
    if q[m] < 0:
        raise InvalidKernel(
            f"kernels[{m}] is not positive semidefinite: beta'K beta <= {round_up(q[m]):.3g} < 0 for this dual point, "
            f"proven. {INDEFINITE_REMEDY}"
        )
