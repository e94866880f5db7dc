"""Numerical certificates against exact arithmetic: no interval may exclude the optimum, at whatever scale.

A case is a small problem whose kernels and costs have scales from 1e-8 to 1e16 (one in ten: from 1e-130 to 1e130) and
whose kernels are dense, of rank one, constant, duplicated or ill-conditioned, in float64 or float32. Its points are the
solution of `mklref.solve`, the same rounded to float32, and the same far off in scale. Truth comes from these points in
exact arithmetic, `certify(..., rigorous=True, backend="exact")`: with L the largest proven lower bound and U the
smallest proven upper bound, L <= P* <= U. These hold for all semidefinite matrices within delta of kernels that cannot
be proven definite; for kernels that are semidefinite by construction (`EXACT`) the objectives of the points are also
taken in rational arithmetic, as `mklref.verify` computes them, with delta = 0.

    lower <= U and upper >= L      for every numerical certificate: else it excludes P*
    upper >= primal objective      at the very point, in rational arithmetic
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from decimal import localcontext
from fractions import Fraction
from typing import Any

import numpy as np

from mklref import Fixed, Groups, Lp, MKLError, Problem, Tikhonov, certify, solve, verify
from mklref._typing import Array
from mklref.certificate import Certificate
from mklref.certificate.document import _parameters
from mklref.certificate.rounding import TINY
from mklref.losses import LOSSES
from validation.attack import Finding, each

EXACT = ("integers", "constant")
"""Shapes of kernels that are semidefinite in exact arithmetic: A A' with integers, times a power of two."""
SHAPES = ("dense", "rank one", "integers", "constant", "duplicated", "ill-conditioned")


def attack(cases: int, rng: np.random.Generator) -> list[Finding]:
    """What is wrong with the certificates of so many random cases."""
    return each("certificates", lambda own: findings(*random_case(own), own), cases, rng)


def findings(problem: Problem, words: str, rng: np.random.Generator) -> Iterator[str]:
    """What is wrong with the numerical certificates of some points of this problem."""
    try:
        points = list(_points(problem, rng))
        proven = [certify(problem, **point, rigorous=True, backend="exact") for point in points]
        found = [certify(problem, **point) for point in points]
    except MKLError:
        return  # refused, with a reason
    lower, upper = max(bounds.lower for bounds in proven), min(bounds.upper for bounds in proven)
    if words.startswith(EXACT):
        duals = [exact_dual(problem, bounds.dual_coef) for bounds in proven if bounds.lower > -np.inf]
        lower = max([lower, *(float(np.nextafter(float(value), -np.inf)) for value in duals)])
        pairs = zip(points, found, strict=True)
        primals = [exact_primal(problem, point, c.intercept) for point, c in pairs if "weights" in point]
        upper = min([upper, *(float(np.nextafter(float(value), np.inf)) for value in primals)])
    for point, certificate in zip(points, found, strict=True):
        accepted = "accepted" if certificate.is_optimal() else "not accepted"
        if certificate.lower > upper or certificate.upper < lower:
            yield f"{words}: {certificate}, {accepted}, excludes [{lower!r}, {upper!r}]."
        if _below_its_objective(problem, point, certificate):
            yield f"{words}: {certificate}, {accepted}, is below the primal objective of its own point."


def random_case(rng: np.random.Generator) -> tuple[Problem, str]:
    """A problem, and what is special about it."""
    n, M = int(rng.integers(2, 25)), int(rng.integers(1, 5))
    wide = rng.random() < 0.1
    scale, C = (10.0 ** rng.uniform(*((-130, 130) if wide else (-8, 16))) for _ in range(2))
    shape, loss = str(rng.choice(SHAPES)), str(rng.choice(list(LOSSES)))
    if shape in EXACT:
        scale = 2.0 ** round(np.log2(scale))
    kernels = scale * np.stack([_kernel(shape, n, rng) for _ in range(M)])
    if shape == "duplicated":
        kernels[:] = kernels[0]
    if rng.random() < 0.2 and not wide:
        kernels = kernels.astype(np.float32)
    y = rng.permutation(np.where(np.arange(n) % 2, 1.0, -1.0))
    if loss in ("squared", "epsilon_insensitive", "squared_epsilon_insensitive", "huber", "pinball"):
        y = rng.normal(size=n) * 10.0 ** rng.uniform(-6, 6)
    if loss in ("one_class", "density_level_set"):
        y = np.ones(n)
    halves = [list(range(M))[: M // 2], list(range(M))[M // 2 :]]
    regularizers = [Lp(1), Lp(4 / 3), Lp(2), Lp(np.inf), Tikhonov(1.5, 1.0), Fixed(rng.uniform(0.1, 1.0, M))]
    if M > 1:
        regularizers.append(Groups(halves, p=0.3, q=0.4))  # type: ignore[arg-type]
    regularizer: Any = regularizers[int(rng.integers(len(regularizers)))]
    intercept = loss == "one_class" or (loss != "density_level_set" and bool(rng.random() < 0.7))
    if loss == "one_class":
        C = max(C, float(np.nextafter(1.0 / n, 1.0)))  # n C < 1, be it by rounding, has the optimum -inf
    problem = Problem(list(kernels), y, C=C, loss=loss, regularizer=regularizer, intercept=intercept)
    return problem, f"{shape} {kernels.dtype} kernels of {scale:.1e}, {problem}"


def _kernel(shape: str, n: int, rng: np.random.Generator) -> Array:
    if shape == "constant":
        return np.ones((n, n))
    if shape == "integers":  # exactly semidefinite, of low rank
        A = rng.integers(-9, 10, size=(n, int(rng.integers(1, 3)))).astype(float)
        return A @ A.T
    A = rng.normal(size=(n, 1 if shape == "rank one" else n))
    if shape == "ill-conditioned":
        A *= 10.0 ** rng.uniform(-6, 0, n)
    K = A @ A.T
    return np.asarray(0.5 * (K + K.T))


def _points(problem: Problem, rng: np.random.Generator) -> Iterator[dict[str, Any]]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        solution = solve(problem, max_iter=60, max_time=2.0)
    beta, theta, b = solution.dual_coef, solution.weights, solution.intercept
    yield {"dual_coef": beta, "weights": theta, "intercept": b}
    yield {"dual_coef": beta}
    with np.errstate(over="ignore"):
        coarse = beta.astype(np.float32).astype(float)
    yield {"dual_coef": coarse if np.all(np.isfinite(coarse)) else beta, "weights": theta}
    yield {"dual_coef": beta * 10.0 ** rng.uniform(-3, 3), "weights": theta}


def _below_its_objective(problem: Problem, point: dict[str, Any], certificate: Certificate) -> bool:
    """Whether upper < primal objective at (beta, theta, b)."""
    if not np.isfinite(certificate.upper) or point.get("weights") is None:
        return False
    return Fraction(certificate.upper) + Fraction(TINY) < exact_primal(problem, point, certificate.intercept)


def exact_primal(problem: Problem, point: dict[str, Any], intercept: float) -> Fraction:
    """The primal objective at a point: exact but for powers and logarithms, which have 60 digits."""
    with localcontext(verify._CONTEXT):
        beta, theta = ([Fraction(x) for x in point[name].tolist()] for name in ("dual_coef", "weights"))
        loss, penalty, _, images, squares = _terms(problem, beta)
        b = Fraction(intercept)
        scores = [sum((t * f[i] for t, f in zip(theta, images, strict=True)), b) for i in range(problem.n_samples)]
        rho = [t * t * q for t, q in zip(theta, squares, strict=True)]
        costs = map(Fraction, problem.costs.tolist())
        losses = sum((c * v for c, v in zip(costs, loss.values(scores), strict=True)), penalty(rho))
        return losses + Fraction(problem.intercept_cost) * b


def exact_dual(problem: Problem, dual_coef: Array) -> Fraction:
    """The dual objective at a point that is feasible exactly, likewise."""
    with localcontext(verify._CONTEXT):
        beta = [Fraction(x) for x in dual_coef.tolist()]
        loss, _, penalty, _, squares = _terms(problem, beta)
        value: Fraction = loss.dual(beta) - penalty(squares)
        return value


def _terms(problem: Problem, beta: list[Fraction]) -> tuple[Any, Any, Any, list[list[Fraction]], list[Fraction]]:
    """Loss, R, R*, K_m beta and beta'K_m beta >= 0."""
    y, costs = ([Fraction(x) for x in array.tolist()] for array in (problem.y, problem.costs))
    loss, regularizer = problem.loss, problem.regularizer
    images, squares = verify._products(problem.kernels.dense().astype(float), beta)
    return (
        verify._Loss({"name": loss.name, **_parameters(loss)}, y, costs),
        *verify.penalties({"name": type(regularizer).__name__, **_parameters(regularizer)}, problem.n_kernels),
        images,
        [max(q, Fraction(0)) for q in squares],
    )
