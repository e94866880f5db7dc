"""Solves: `mklref.solve` on random small problems, of every loss and regulariser, at odd scales, and degenerate ones.

A case breaks a promise if `solve` raises what is no error of the package, or returns what its own arrays do not say, or
ends above a relative gap of 1e-6 where a conic solver, judged by the same certificate, comes below. Where neither does,
rounding is the limit, or the problem beyond both, and nothing is claimed; and where the gap is below 1e-6 in rational
arithmetic, the point is an optimum, of which float64 does not know it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from decimal import localcontext
from fractions import Fraction

import numpy as np

import mklref
from mklref import losses, reference, regularizers as reg, verify
from mklref.certificate import repair
from mklref.certificate.bounds import relative
from mklref.certificate.document import _parameters
from mklref.certificate.feasible import exactly_feasible
from mklref.certificate.loss_terms import exact_box
from mklref.exceptions import InvalidParameter, MKLError, NotApplicable, SolverFailure
from mklref.solution import Status
from validation.attack import Finding, each
from validation.robustness import REGULARIZERS, kernels

TOL, SECONDS = 1e-6, 120.0
_BARELY = (1.0, 1.0 + 1e-9, 1.000001, 1.001, 1.1, 4 / 3, 2.0, 5.0, np.inf)
"""Exponents of the weights, most of them near the kinks of p = 1."""

PENALTIES: dict[str, Callable[[int, np.random.Generator], reg.Regularizer]] = {
    **REGULARIZERS,
    "lp": lambda M, rng: reg.Lp(rng.choice(_BARELY)),
    "power": lambda M, rng: reg.Power(rng.choice(_BARELY)),
    "tikhonov": lambda M, rng: reg.Tikhonov(rng.choice(_BARELY[:-1]), 10 ** rng.uniform(-3, 2)),
    "half_power": lambda M, rng: reg.HalfPower(rng.choice([1.0, 1.000001, 1.001, 1.2, 1.5, 1.9, 2.0])),
    "weighted_lp": lambda M, rng: reg.WeightedLp(rng.choice(_BARELY), 10 ** rng.uniform(-2, 2, size=M)),
    "power_root": lambda M, rng: reg.ConcaveBlock(reg.PowerRoot(rng.choice(_BARELY))),
    "root_plus_linear": lambda M, rng: reg.ConcaveBlock(reg.RootPlusLinear(rng.uniform(0.05, 0.95))),
    "smoothed_root": lambda M, rng: reg.ConcaveBlock(reg.SmoothedRoot(10 ** rng.uniform(-3, 1))),
}
"""One member of each family for M kernels."""


def attack(cases: int, rng: np.random.Generator) -> list[Finding]:
    """Solve that many random problems."""
    return each("solves", findings, cases, rng)


def findings(rng: np.random.Generator) -> Iterator[str]:
    """What breaks at one random problem."""
    try:
        problem = random_problem(rng)
    except MKLError:  # refused, with a reason
        return
    try:
        solution = mklref.solve(problem, tol=TOL, max_time=SECONDS)
    except InvalidParameter as refused:  # its optimum is -inf, or out of range
        truth = truth_of(problem)
        if truth is not None and truth.certificate.is_optimal(TOL):
            yield f"{problem}: {refused}, but {truth.solver} says {truth.certificate}"
        return
    again = mklref.certify(problem, solution.dual_coef, weights=solution.weights, intercept=solution.intercept)
    if again != solution.certificate or (solution.status is Status.OPTIMAL) != again.is_optimal(TOL):
        yield f"{problem}: {solution.status.name} with {solution.certificate}, but its arrays say {again}"
    if solution.status is Status.OPTIMAL or (truth := truth_of(problem)) is None:
        return
    gap, better = again.relative_gap, truth.certificate.relative_gap
    if better < gap and better <= max(TOL, 0.1 * gap) and not abs(exact_gap(problem, solution)) <= TOL:
        yield f"{problem}: {solution.status.name}, gap {gap:.1e}, where {truth.solver} reaches {better:.1e}"


def exact_gap(problem: mklref.Problem, solution: mklref.Solution) -> float:
    """The relative gap of a point in rational arithmetic; inf for indefinite kernels, or without a feasible dual point.

    Of what is summed R and R* alone are rounded: they are taken in float64, at squares that are exact.
    """
    box = exact_box(problem.loss, problem.y, problem.costs)
    total = problem.intercept_cost if problem.intercept else None
    feasible = exactly_feasible(repair(problem, solution.dual_coef)[0], *box, total)
    if feasible is None or problem.kernels.slack.any():
        return np.inf
    own, kernels = solution.dual_coef, problem.kernels.dense().astype(float)
    with localcontext(verify._CONTEXT):
        y, costs, theta, beta, inside = (
            [Fraction(x) for x in a.tolist()] for a in (problem.y, problem.costs, solution.weights, own, feasible)
        )
        loss = verify._Loss({"name": problem.loss.name, **_parameters(problem.loss)}, y, costs)
        b, (images, squares) = Fraction(solution.intercept), verify._products(kernels, beta)
        scores = [sum((t * f[i] for t, f in zip(theta, images, strict=True)), b) for i in range(problem.n_samples)]
        primal = sum(c * v for c, v in zip(costs, loss.values(scores), strict=True)) + problem.intercept_cost * b
        rho = _roots([t * t * q for t, q in zip(theta, squares, strict=True)])
        g = _roots(verify._products(kernels, inside)[1])
        scale = problem.regularizer.dual_scale(g)
        penalties = problem.regularizer.value(rho) + problem.regularizer.conjugate(scale * g)
        if not np.isfinite(penalties) or (problem.intercept_cost and scale < 1.0):
            return np.inf
        gap = primal - loss.dual([Fraction(scale) * x for x in inside]) + Fraction(penalties)
    return relative(float(gap), solution.certificate.size)


def _roots(squares: list[Fraction]) -> np.ndarray:
    return np.sqrt([float(max(q, Fraction(0))) for q in squares])


def truth_of(problem: mklref.Problem) -> mklref.Solution | None:
    """The best point that a conic solver finds, by its certificate; the first whose gap is small, or rounding."""
    best = None
    for form in reference.formulations(problem):
        if form in ("silp", "semi_infinite"):  # loops of programs, with an accuracy of their own
            continue
        try:
            found = reference.solve(problem, form)
        except (SolverFailure, NotApplicable):
            continue
        if best is None or found.certificate.gap < best.certificate.gap:
            best = found
        if best.status is Status.OPTIMAL or best.certificate.gap <= 2.0 * best.certificate.rounding:
            break
    return best


def random_problem(rng: np.random.Generator) -> mklref.Problem:
    """A problem of at most 40 samples; raises what `Problem` raises if what was drawn has no optimum."""
    n, M = int(rng.integers(2, 40)), int(rng.integers(1, 8))
    X = rng.normal(size=(n, int(rng.integers(1, 6))))
    if rng.random() < 0.2:
        X = np.round(X)  # duplicated samples
    stack = kernels(X, M, rng)
    if rng.random() < 0.3:
        stack *= 10.0 ** rng.uniform(-6, 6)
    if rng.random() < 0.15:
        stack *= 10.0 ** rng.integers(-4, 5, size=M)[:, None, None]
    if rng.random() < 0.1:
        stack = stack.astype(np.float32)
    loss = random_loss(rng)
    y = targets(loss, X, rng)
    if loss.targets == "real":
        loss = fitting(loss, y, rng)
    required = loss.intercept == "required"
    return mklref.Problem(
        stack,
        y,
        C=1 / (n * rng.uniform(0.05, 1)) if required else 10 ** rng.uniform(-4, 4),
        loss=loss,
        regularizer=PENALTIES[list(PENALTIES)[rng.integers(len(PENALTIES))]](M, rng),
        intercept=required or (loss.intercept == "optional" and bool(rng.random() < 0.6)),
        sample_weight=10 ** rng.uniform(-2, 2, size=n) if rng.random() < 0.1 else None,
    )


def random_loss(rng: np.random.Generator) -> losses.Loss:
    """One of the losses."""
    return losses.as_loss(list(losses.LOSSES)[rng.integers(len(losses.LOSSES))])


def targets(loss: losses.Loss, X: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Labels, real targets of any size, or ones."""
    n = len(X)
    if loss.targets == "labels":
        y = np.where(X[:, 0] + 0.5 * rng.normal(size=n) > 0, 1.0, -1.0)
        y[:2] = 1.0, -1.0
        return y
    if loss.targets == "ones":
        return np.ones(n)
    size = 10 ** rng.uniform(-5, 5) if rng.random() < 0.5 else 1.0
    return size * (X[:, 0] ** 2 + rng.normal(size=n))


def fitting(loss: losses.Loss, y: np.ndarray, rng: np.random.Generator) -> losses.Loss:
    """The loss with a random parameter: tubes up to a little wider than the targets spread, and close to that."""
    spread = 0.5 * float(np.ptp(y))
    width = spread * float(rng.choice([rng.uniform(0, 1.1), 1 - 10 ** rng.uniform(-6, -1)]))
    tubes = {"epsilon_insensitive", "squared_epsilon_insensitive"}
    if loss.name in tubes:
        return type(loss)(width)
    if loss.name == "huber":
        return losses.Huber(max(width, 1e-3 * spread, 1e-12))
    return losses.Pinball(rng.uniform(0.02, 0.98)) if loss.name == "pinball" else loss
