"""Primal and dual objective in ball arithmetic (Arb, by python-flint): a second oracle beside exact fractions.

Written from the statement, with nothing of the package but the data of a problem: every number is a ball that contains
the true one, 300 bits wide, for the transcendental losses and the powers of the norms as well.

Certificates against ball arithmetic: what they claim of their own points, at every scale; against optima in 80 digits.
"""

from __future__ import annotations

import numpy as np
import pytest
from certificate.points import proven
from flint import arb, ctx
from makers import LOSSES, make_targets

from mklref import Problem, certify, solve
from mklref.certificate import rigorous
from mklref.regularizers import Fixed, Groups, Lp, Tikhonov
from validation import rigorous as fuzz

BITS = 300
HALF = arb(0.5)
ENOUGH = 60.0  # seconds for hundredths of one: no clock decides, as where a processor is emulated


def objectives(problem, beta, theta, b):
    """Balls around the dual objective at beta and the primal objective at f = sum theta_m K_m beta + b."""
    with ctx.workprec(BITS):
        K = [[[arb(x) for x in row] for row in matrix.tolist()] for matrix in problem.kernels.dense().astype(float)]
        a, w, b = [arb(x) for x in beta.tolist()], [arb(x) for x in theta.tolist()], arb(float(b))
        y, c = [arb(x) for x in problem.y.tolist()], [arb(x) for x in problem.costs.tolist()]
        images = [[dot(row, a) for row in matrix] for matrix in K]
        squares = [dot(a, image) for image in images]
        scores = [sum((wm * image[i] for wm, image in zip(w, images, strict=True)), b) for i in range(len(a))]
        dual = sum((dual_term(problem.loss, *sample) for sample in zip(a, y, c, strict=True)), arb(0))
        losses = sum((ci * loss(problem.loss, t, yi) for t, yi, ci in zip(scores, y, c, strict=True)), arb(0))
        R = value(problem.regularizer, [wm * wm * q for wm, q in zip(w, squares, strict=True)])
        return dual - conjugate(problem.regularizer, squares), losses + R + arb(problem.intercept_cost) * b


def dot(x, y):
    return sum((p * q for p, q in zip(x, y, strict=True)), arb(0))


def loss(kind, t, y):
    """V(t, y)."""
    zero = arb(0)
    z, r = 1 - y * t, abs(y - t)
    match kind.name:
        case "hinge" | "density_level_set":
            return z.max(zero)
        case "squared_hinge":
            return HALF * z.max(zero) ** 2
        case "one_class":
            return (-t).max(zero)
        case "logistic":
            return (1 + (-y * t).exp()).log()
        case "squared":
            return HALF * r**2
        case "epsilon_insensitive":
            return (r - arb(kind.epsilon)).max(zero)
        case "squared_epsilon_insensitive":
            return HALF * (r - arb(kind.epsilon)).max(zero) ** 2
        case "pinball":
            return (arb(kind.tau) * (y - t)).max((1 - arb(kind.tau)) * (t - y))
        case "huber":
            near = r.min(arb(kind.delta))
            return near * (r - HALF * near)
    raise NotImplementedError(kind.name)


def dual_term(kind, beta, y, c):
    """-c V*(-beta/c, y) for beta in the box."""
    match kind.name:
        case "one_class":
            return arb(0)
        case "logistic":
            a = y * beta
            return -sum((part * (part / c).log() for part in (a, c - a) if part != 0), arb(0))
        case "squared" | "squared_hinge" | "huber":
            return y * beta - beta**2 / (2 * c)
        case "epsilon_insensitive":
            return y * beta - arb(kind.epsilon) * abs(beta)
        case "squared_epsilon_insensitive":
            return y * beta - arb(kind.epsilon) * abs(beta) - beta**2 / (2 * c)
    return y * beta


def norm(x, r):
    """(sum x_m^r)^{1/r} for x >= 0."""
    return sum((xm**r for xm in x if xm != 0), arb(0)) ** (1 / r) if any(xm != 0 for xm in x) else arb(0)


def largest(x):
    top = arb(0)
    for xm in x:
        top = top.max(xm)
    return top


def value(regularizer, squares):
    """R(rho) with squares = rho^2."""
    if isinstance(regularizer, Fixed):
        weights = [arb(w) for w in regularizer.weights.tolist()]
        return HALF * sum((x / w for x, w in zip(squares, weights, strict=True) if x != 0), arb(0))
    if isinstance(regularizer, Groups):
        p, q = arb(regularizer.p), arb(regularizer.q)
        blocks = [arb(len(g)) ** p * norm([squares[m] for m in g], 1 / (1 + q)) for g in regularizer.groups]
        return HALF * norm(blocks, 1 / (1 + p + q))
    ball = norm(squares, arb(1) if np.isinf(regularizer.p) else arb(regularizer.p) / (arb(regularizer.p) + 1))
    if isinstance(regularizer, Tikhonov):
        return 3 * (arb(regularizer.mu) * ball**2 / 16) ** (arb(1) / 3) if ball != 0 else arb(0)
    assert type(regularizer) is Lp
    return HALF * ball


def conjugate(regularizer, squares):
    """R*(g) with squares = g^2."""
    if isinstance(regularizer, Fixed):
        return HALF * dot([arb(w) for w in regularizer.weights.tolist()], squares)
    if isinstance(regularizer, Groups):
        p, q = arb(regularizer.p), arb(regularizer.q)
        within = [[squares[m] for m in g] for g in regularizer.groups]
        blocks = [arb(len(x)) ** -p * (largest(x) if regularizer.q == 1.0 else norm(x, 1 / (1 - q))) for x in within]
        return HALF * (largest(blocks) if regularizer.p + regularizer.q == 1.0 else norm(blocks, 1 / (1 - p - q)))
    p = regularizer.p
    ball = largest(squares) if p == 1.0 else norm(squares, arb(1) if np.isinf(p) else arb(p) / (arb(p) - 1))
    return ball**2 / (16 * arb(regularizer.mu)) if isinstance(regularizer, Tikhonov) else HALF * ball


REGULARIZERS = (
    Lp(1),
    Lp(4 / 3),
    Lp(np.inf),
    Fixed([1.0, 0.5, 0.3]),
    Tikhonov(1.5, 0.7),
    Groups([[0, 2], [1]], 0.3, 0.4),
    Groups([[0, 2], [1]], 0.5, 0.5),
)
SCALES = ((0, 0.0), (0, 1.0), (-450, 1.0), (450, 0.0))
"""Powers of 2 by which kernels are multiplied and C is divided, and a ridge, without which kernels are singular."""


def exactly_semidefinite(loss, regularizer, power, rng, ridge=1.0, n=8):
    """Three Gram matrices of integer features, exact in float64."""
    X = np.rint(16 * rng.normal(size=(n, 3)))
    features = [np.rint(16 * rng.normal(size=(n, rank))) for rank in (2, n + 2, n)]
    K = np.stack([F @ F.T + ridge * np.eye(n) for F in features]) * 2.0**-10
    C = 1.0 / (0.3 * n) if loss.intercept_cost else 0.75
    scale = 1.0 if loss.intercept_cost or loss.targets == "real" else 2.0**-power
    return Problem(
        K * 2.0**power,
        make_targets(rng, X / 16, loss),
        C=C * scale,
        loss=loss,
        regularizer=regularizer,
        intercept=loss.intercept != "forbidden",
    )


@pytest.mark.sampled(9)
@pytest.mark.parametrize(("power", "ridge"), SCALES)
@pytest.mark.parametrize("regularizer", REGULARIZERS, ids=str)
@pytest.mark.parametrize("loss", LOSSES, ids=str)
def test_rigorous_bounds_are_bounds_of_the_objectives_at_their_own_point(loss, regularizer, power, ridge, rng):
    problem = exactly_semidefinite(loss, regularizer, power, rng, ridge)
    size = float(np.abs(problem.costs).max())
    points = (
        (rng.normal(size=8), None, None),
        (rng.normal(size=8), rng.exponential(size=3), None),
        (rng.integers(-4, 5, size=8) / 4.0, np.array([0.5, 0.125, 0.25]), 0.25 * problem.intercept),  # scores are exact
    )
    for beta, weights, b in points:
        found = certify(problem, size * beta, weights=weights, intercept=b, rigorous=True, backend="exact")
        dual, primal = objectives(problem, found.dual_coef, found.weights, found.intercept)
        for bound, above, true in ((found.lower, False, dual), (found.upper, True, primal)):
            if np.isfinite(bound):
                assert not (arb(bound) < true if above else arb(bound) > true), (bound, true)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("backend", ["fast", "sliced", "exact"])
@pytest.mark.parametrize("loss", LOSSES, ids=str)
def test_and_hardly_wider_than_they_have_to_be(loss, backend, rng):
    problem = exactly_semidefinite(loss, Lp(4 / 3), 0, rng)
    solution = solve(problem)
    found = proven(problem, solution, backend=backend)
    dual, primal = objectives(problem, found.dual_coef, found.weights, found.intercept)
    size = abs(found.upper) + float(found.delta.max()) * float(np.abs(found.dual_coef).sum()) ** 2
    assert 0 <= float(dual - arb(found.lower)) <= 1e-11 * size
    assert 0 <= float(arb(found.upper) - primal) <= 1e-11 * size
    plain = certify(problem, found.dual_coef, weights=found.weights, intercept=found.intercept)
    assert abs(float(dual - arb(plain.lower))) <= 1e-12 * size
    assert abs(float(primal - arb(plain.upper))) <= 1e-12 * size


@pytest.mark.sampled(8)
@pytest.mark.parametrize("first", range(0, 40, 5))
def test_no_interval_misses_an_optimum_of_80_digits(first):
    results = [fuzz.check(seed, ENOUGH) for seed in range(first, first + 5)]
    assert [line for result in results for line in result["wrong"]] == []
    assert sum(result.get("width", 1.0) < 1e-14 for result in results) >= 3


def test_an_optimum_far_below_the_costs_is_enclosed_in_its_own_digits():
    """Logistic losses of 4e-118: ln(1 + x) of so small an x has no digits left in 1 + x."""
    result = fuzz.check(430, ENOUGH)
    assert result["wrong"] == []
    assert 0.0 < result["width"] < 1e-40


@pytest.mark.thorough
def test_the_fuzz_can_see_a_wrong_bound(monkeypatch):
    """R* that is too small by a relative 1e-12 shows in several problems."""
    true = rigorous.conjugate
    monkeypatch.setattr(rigorous, "conjugate", lambda regularizer, q: true(regularizer, q) * (1 - 10**-9))
    assert sum(bool(fuzz.check(seed, ENOUGH)["wrong"]) for seed in range(8)) >= 3
