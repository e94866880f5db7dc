"""The rigorous certificate: L <= P* <= U with a proof, rounding errors included.

Claim: for every family of positive semidefinite Khat_m with ||Khat_m - K_m||_2 <= delta_m, the optimal value of the
problem with the kernels Khat lies in [L, U]. With beta_p that are feasible exactly, one for each of the P machines, any
theta >= 0 and any b_p,

    q_m >= sum_p [ beta_p'K_m beta_p + delta_m ||beta_p||^2 ]
    L = sum_p [ -sum_i c_i V*(-beta_i/c_i, y_i) ] - R*(sqrt q)
    U = sum_p [ sum_i c_i max V over t_i + c_b b_p + ||c s||_2 sum_m theta_m delta_m ||beta_p||_2 ] + R(sqrt(theta^2 q))

where t_i encloses sum_m theta_m (K_m beta_p)_i + b_p. The last term of each machine is the worst that matrices within
delta can do: they move its scores by at most sum theta_m delta_m ||beta_p|| in the Euclidean norm, and s_i is the
largest |V'| that far around t_i. A machine on some of the samples has principal submatrices of Khat, which are
semidefinite and within delta of those of K. R needs no feasible weights. Every number that is rounded is rounded to the
safe side; sums over samples and norms over kernels are taken in rational arithmetic.

    definite.py       K_m + s_m I is semidefinite, s_m <= delta_m
    feasible.py       beta in the box and 1'beta = c_b, exactly
    products.py       K_m beta and beta'K_m beta
    loss_terms.py     V, |V'|, V* and the box, and the function beside the given one that keeps off the kinks
    penalty_terms.py  R and R*
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from mklref._typing import Array
from mklref._validate import checked_choice
from mklref.certificate import loss_terms, penalty_terms
from mklref.certificate.bounds import dual_objective, unit_of
from mklref.certificate.definite import fingerprint, proven_shifts
from mklref.certificate.document import RigorousCertificate
from mklref.certificate.exact import Unbounded, dot, root_up, round_down, round_up, total
from mklref.certificate.feasible import (
    Violations,
    checked_dual,
    checked_intercepts,
    exactly_feasible,
    of_all_machines,
    repair,
    repaired_weights,
)
from mklref.certificate.intercept import intercept_objective, middle_intercept
from mklref.certificate.loss_terms import Scores, dual_term, exact_box, primal_losses, slopes, stretch, stretched
from mklref.certificate.penalty_terms import conjugate, penalty
from mklref.certificate.products import BACKENDS, products
from mklref.certificate.rounding import Interval, above, weighted_sum
from mklref.exceptions import InvalidKernel, NotApplicable
from mklref.kernels.factor_stack import FactorStack
from mklref.kernels.stack import KernelStack
from mklref.kernels.validation import INDEFINITE_REMEDY

if TYPE_CHECKING:
    from mklref.problem import Problem

_SHARE = 0.1
"""Share of the tolerance that rounding may cost before a sharper backend takes over."""


class Point(NamedTuple):
    """What is certified: beta of each machine, whether all are exactly feasible, and theta and b if they are given."""

    betas: list[Array]
    feasible: bool
    weights: Array | None
    intercepts: list[float] | None


class Enclosure(NamedTuple):
    """Bounds at a point, the weights and the intercepts that they use, and what rounding costs them."""

    lower: float
    upper: float
    weights: Array
    intercepts: list[float]
    slack: float


def certify_rigorously(
    problem: Problem, dual_coef: Any, weights: Any, intercept: Any, backend: str | None, delta: Any, tol: float
) -> RigorousCertificate:
    """What `mklref.certify(..., rigorous=True)` does; parameters and errors are documented there."""
    loss_terms.require_supported(problem.loss)
    penalty_terms.require_supported(problem.regularizer)
    if backend is not None:
        checked_choice("backend", backend, BACKENDS)
    errors = problem.kernels.entry_errors
    evaluated = errors is not None
    if errors is not None and not np.all(np.isfinite(errors)):
        m = int(np.argmin(np.isfinite(errors)))
        raise NotApplicable(
            f"kernels[{m}] is evaluated when it is read, and how much rounding there is in it is not known: it is not "
            "one of linear, poly, rbf, laplacian, their sums and products, or it is centred. Take storage='memory'."
        )
    sharper = not evaluated or isinstance(problem.kernels, FactorStack)
    if evaluated and backend not in (None, "fast", "sliced" if sharper else None):
        others = "factors have 'fast' and 'sliced'." if sharper else "kernels that are evaluated have 'fast' alone."
        raise NotApplicable(f"backend = {backend!r} reads matrices; {others}")
    betas, feasible, violations = _feasible(problem, dual_coef)
    theta = None
    if weights is not None:
        theta, wrong = repaired_weights(problem, weights)
        violations += wrong
    b = None if intercept is None else checked_intercepts(problem, intercept)
    data = fingerprint(problem.kernels)
    radii, shifts = proven_shifts(problem.kernels, delta, data)

    point = Point(betas, feasible, theta, b)
    used = backend or "fast"
    found = _enclose(problem, point, radii, shifts, used)
    if backend is None and sharper and found.slack > _SHARE * tol * abs(found.upper):
        other = _enclose(problem, point, radii, shifts, "sliced")
        if other.upper - other.lower < found.upper - found.lower:
            used, found = "sliced", other
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
        dual_coef=problem.join(betas),
        weights=found.weights,
        intercept=problem.intercepts(found.intercepts),
        problem=problem,
        fingerprint=data,
    )


def _feasible(problem: Problem, dual_coef: Any) -> tuple[list[Array], bool, Violations]:
    """beta of each machine next to the given ones, whether all are exactly feasible, and what was violated."""
    betas, feasible, violations = [], True, list[Violations]()
    given = checked_dual(problem, dual_coef)
    for (own, *_), beta in zip(problem.machines, given, strict=True):
        repaired, moved = repair(own, beta)
        box = exact_box(own.loss, own.y, own.costs)
        exact = exactly_feasible(repaired, *box, own.intercept_cost if own.intercept else None)
        if exact is None:
            excess = own.intercept_cost - float(total(own.costs))
            moved.append((f"no point of the box sums to {own.intercept_cost:g} exactly", max(excess, 0.0)))
        betas.append(repaired if exact is None else exact)
        feasible &= exact is not None
        violations.append(moved)
    return betas, feasible, of_all_machines(problem, violations)


def _enclose(problem: Problem, point: Point, delta: Array, shifts: Array, backend: str) -> Enclosure:
    """The bounds at a point with one backend; infinite where a value overflows."""
    machines = [machine.problem for machine in problem.machines]
    try:
        found = [products(K, beta, shifts, backend) for K, beta in zip(_stacks(problem), point.betas, strict=True)]
    except Unbounded:
        nothing = np.zeros(problem.n_kernels) if point.weights is None else point.weights
        return Enclosure(-math.inf, math.inf, nothing, point.intercepts or [0.0] * len(machines), math.inf)
    sizes = [dot(beta, beta) for beta in point.betas]
    uppers = np.array([squares.upper for _, squares in found])
    q = [
        sum(map(Fraction, column), Fraction(d) * sum(sizes))
        for column, d in zip(uppers.T.tolist(), delta.tolist(), strict=True)
    ]
    _require_nonnegative(q)
    middle = np.maximum(np.sum([0.5 * squares.lower + 0.5 * squares.upper for _, squares in found], axis=0), 0.0)
    theta = point.weights
    if theta is None:
        theta = problem.regularizer.weights_from_dual(np.sqrt(middle))
    middles = [theta @ (0.5 * images.lower + 0.5 * images.upper) for images, _ in found]
    b = point.intercepts or [middle_intercept(own, scores) for own, scores in zip(machines, middles, strict=True)]
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        lengths = [float(theta @ delta) * math.sqrt(float(beta @ beta)) for beta in point.betas]
        scores = [weighted_sum(theta, images) for images, _ in found]
        eta = stretch(problem, list(map(Scores, machines, scores, b, lengths)), theta, np.sqrt(middle))
    theta, b = stretched(problem, theta, b, eta)

    lower = _lower(problem, point.betas, q) if point.feasible else -math.inf
    radius = sum((Fraction(t) * Fraction(d) for t, d in zip(theta.tolist(), delta.tolist(), strict=True)), Fraction(0))
    moved = [root_up(radius * radius * size) for size in sizes]
    upper = _upper(problem, q, theta, b, [weighted_sum(theta, images) for images, _ in found], moved)

    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        middles = [theta @ (0.5 * images.lower + 0.5 * images.upper) for images, _ in found]
        primal = sum(map(intercept_objective, machines, middles, b))
        primal += problem.regularizer.value(theta * np.sqrt(middle))
        dual, _ = dual_objective(problem, point.betas, middle)
        slack = (upper - primal) + (dual - lower)
    return Enclosure(lower, upper, theta, b, slack if math.isfinite(slack) else math.inf)


def _stacks(problem: Problem) -> Iterator[KernelStack]:
    """The kernels of each machine as they are now, which is what is hashed, and not as they were when it was stated."""
    for machine in problem.machines:
        whole = machine.problem.kernels is problem.kernels
        yield problem.kernels if whole else problem.kernels.part(machine.samples)


def _lower(problem: Problem, betas: Sequence[Array], q: list[Fraction]) -> float:
    """The dual objective from below."""
    each = zip(problem.machines, betas, strict=True)
    try:
        value = sum((dual_term(m.problem.loss, beta, m.problem.y, m.problem.costs) for m, beta in each), Fraction(0))
        return round_down(value - conjugate(problem.regularizer, q))
    except Unbounded:
        return -math.inf


def _upper(
    problem: Problem,
    q: list[Fraction],
    theta: Array,
    b: Sequence[float],
    scores: Sequence[Interval],
    moved: Sequence[Fraction],
) -> float:
    """The primal objective from above, for scores that are moved by at most `moved` in the Euclidean norm."""
    try:
        each = zip(problem.machines, b, scores, moved, strict=True)
        value = sum((_most_losses(m.problem, own, t + own, by) for m, own, t, by in each), Fraction(0))
        value += penalty(problem.regularizer, [Fraction(w) ** 2 * x for w, x in zip(theta.tolist(), q, strict=True)])
        return round_up(value)
    except Unbounded:
        return math.inf


def _most_losses(problem: Problem, b: float, t: Interval, moved: Fraction) -> Fraction:
    """The losses of one machine and c_b b from above, for scores t, b included."""
    costs, loss, y = problem.costs, problem.loss, problem.y
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        value = total(above(costs * primal_losses(loss, t, y)))
        if moved:
            pull = above(costs * slopes(loss, t.widen(round_up(moved)), y))
            value += root_up(dot(pull, pull)) * moved
    return value + Fraction(problem.intercept_cost) * Fraction(b)


def _require_nonnegative(q: list[Fraction]) -> None:
    """An upper bound of beta'Khat beta below 0 disproves that Khat is semidefinite."""
    m = min(range(len(q)), key=lambda k: q[k])
    if q[m] < 0:
        raise InvalidKernel(
            f"kernels[{m}] is not positive semidefinite: beta'K beta <= {round_up(q[m]):.3g} < 0 for this dual point, "
            f"proven. {INDEFINITE_REMEDY}"
        )
