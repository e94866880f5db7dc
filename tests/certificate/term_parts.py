"""The losses and penalties of a rigorous certificate and its dual point, against exact arithmetic.

Each function asserts that the part keeps its promise. `test_rigorous_parts` runs them on the code as it is, and on code
with a planted fault, which has to make the named one fail.
"""

from __future__ import annotations

from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
from certificate.points import PRECISE, decimal, fractions
from makers import LOSSES, make_problem, random_targets

from mklref.certificate import feasible, loss_terms, penalty_terms
from mklref.certificate.exact import Unbounded
from mklref.certificate.rounding import Interval
from mklref.losses import Huber, Logistic, OneClass, Pinball
from mklref.regularizers import Fixed, Groups, Lp, Tikhonov

# --- the dual point --------------------------------------------------------------------------------------------------


def exact_feasibility(rng):
    for loss in LOSSES:
        for scale in (1e-300, 1e-9, 1.0, 1e200):
            for intercept in (False, True):
                n = int(rng.integers(2, 40))
                y = random_targets(rng, n, loss)
                y[0] = 1.0
                costs = scale * rng.uniform(0.3, 1.0, size=n) * (3.0 / n if loss.intercept_cost else 1.0)
                low, high = loss_terms.exact_box(loss, y, costs)
                true = [true_box(loss, target, cost) for target, cost in zip(y, costs, strict=True)]
                assert all(a is None or Fraction(float(x)) >= a for x, (a, _) in zip(low, true, strict=True))
                assert all(b is None or Fraction(float(x)) <= b for x, (_, b) in zip(high, true, strict=True))
                raw = scale * rng.normal(size=n) * 10.0 ** rng.integers(-15, 2, size=n)
                wanted = loss.intercept_cost if intercept else None
                if intercept:
                    raw = np.clip(raw, np.maximum(low, -scale), np.minimum(high, scale))
                    raw = raw * 1e-3 if not wanted else np.clip(np.full(n, wanted / n), low, high)
                beta = feasible.exactly_feasible(raw, low, high, wanted)
                if beta is None:
                    assert wanted
                    assert sum(fractions(high)) < 1 or scale > 1e100
                    continue
                exact_beta = fractions(beta)
                assert all(a is None or x >= a for x, (a, _) in zip(exact_beta, true, strict=True))
                assert all(b is None or x <= b for x, (_, b) in zip(exact_beta, true, strict=True))
                assert wanted is None or sum(exact_beta) == wanted


def true_box(loss, y, cost):
    """The interval of beta as rational numbers, None where there is no bound."""
    c, zero = Fraction(float(cost)), Fraction(0)
    if loss.targets in ("labels", "ones"):
        bound = None if loss.name == "squared_hinge" else c
        return (zero, bound) if y > 0 else (None if bound is None else -bound, zero)
    if loss.name == "pinball":
        return (Fraction(loss.tau) - 1) * c, Fraction(loss.tau) * c
    if loss.name == "huber":
        return -Fraction(loss.delta) * c, Fraction(loss.delta) * c
    return (-c, c) if loss.name == "epsilon_insensitive" else (None, None)


# --- losses ----------------------------------------------------------------------------------------------------------


def exact_loss(loss, t: Fraction, y: Fraction) -> Fraction:
    """V(t, y), the logistic loss to 100 digits."""
    r, zero = abs(y - t), Fraction(0)
    match loss.name:
        case "hinge" | "density_level_set":
            return max(zero, 1 - y * t)
        case "one_class":
            return max(zero, -t)
        case "squared_hinge":
            return max(zero, 1 - y * t) ** 2 / 2
        case "logistic":
            with localcontext(PRECISE):
                return Fraction((1 + decimal(-y * t).exp()).ln())
        case "squared":
            return r * r / 2
        case "epsilon_insensitive":
            return max(zero, r - Fraction(loss.epsilon))
        case "squared_epsilon_insensitive":
            return max(zero, r - Fraction(loss.epsilon)) ** 2 / 2
        case "huber":
            delta = Fraction(loss.delta)
            return r * r / 2 if r <= delta else delta * (r - delta / 2)
        case "pinball":
            return max(Fraction(loss.tau) * (y - t), (1 - Fraction(loss.tau)) * (t - y))
    raise AssertionError(loss)


def losses_from_above(rng):
    """At both ends of every interval, and never by more than rounding at points."""
    for loss in (*LOSSES, Huber(1e-3), Pinball(0.9)):
        y = random_targets(rng, 100, loss)
        t = rng.normal(size=100) * 10.0 ** rng.integers(-3, 2, size=100)
        for width in (np.zeros(100), rng.exponential(size=100)):
            interval = Interval(t, t + width)
            found = fractions(loss_terms.primal_losses(loss, interval, y))
            ends = [
                [exact_loss(loss, a, b) for a, b in zip(fractions(end), fractions(y), strict=True)]
                for end in (interval.lower, interval.upper)
            ]
            worst = [max(pair) for pair in zip(*ends, strict=True)]
            assert all(a >= b for a, b in zip(found, worst, strict=True))
            assert all(a <= b + Fraction(1e-12) * (1 + b) for a, b in zip(found, worst, strict=True))


def slopes_from_above(rng):
    """|V(t') - V(t)| <= slope |t' - t| inside the interval, with equality in the limit at one end."""
    for loss in LOSSES:
        y = random_targets(rng, 60, loss)
        low = rng.normal(size=60)
        high = low + rng.exponential(size=60)
        found = fractions(loss_terms.slopes(loss, Interval(low, high), y))
        for s, a, b, target in zip(found, fractions(low), fractions(high), fractions(y), strict=True):
            h = (b - a) / 10**6
            for start in (a, b - h):
                rise = abs(exact_loss(loss, start + h, target) - exact_loss(loss, start, target))
                assert rise <= s * h


def dual_terms_from_below(rng):
    for loss in LOSSES:
        n = 60
        y = random_targets(rng, n, loss)
        costs = rng.uniform(0.1, 3.0, size=n)
        low, high = (np.clip(bound, -5.0, 5.0) for bound in loss_terms.exact_box(loss, y, costs))
        beta = low + (high - low) * rng.uniform(size=n)
        beta[:3], beta[3:6], beta[6:9] = low[:3], high[3:6], 1e-12 * np.sign(high[6:9] + low[6:9])
        found = loss_terms.dual_term(loss, beta, y, costs)
        truth = sum(map(exact_dual, [loss] * n, fractions(beta), fractions(y), fractions(costs)))
        assert found <= truth
        assert truth - found <= Fraction(1e-13) * sum(
            fractions(np.abs(beta) * (1.0 + np.abs(y)) + beta**2 / costs + costs)
        )
        for i in range(n):  # each sample by itself: no error of another one makes up for it
            one = np.arange(n) == i
            alone = loss_terms.dual_term(loss, beta[one], y[one], costs[one])
            b, target, cost = (fractions(x[one])[0] for x in (beta, y, costs))
            size = abs(b) * (1 + abs(target)) + b * b / cost  # however little of the cost that is
            assert 0 <= exact_dual(loss, b, target, cost) - alone <= Fraction(1e-10) * size + Fraction(1e-89)


def exact_dual(loss, b: Fraction, y: Fraction, c: Fraction) -> Fraction:
    """-c V*(-b/c, y); the logistic one to 100 digits, from above."""
    if isinstance(loss, Logistic):
        with localcontext(PRECISE):
            parts = [decimal(part) * decimal(part / c).ln() for part in (abs(b), c - abs(b)) if part]
            return Fraction(-sum(parts, Decimal(0))) + Fraction(1, 10**90)
    if isinstance(loss, OneClass):
        return Fraction(0)
    value = y * b - Fraction(getattr(loss, "epsilon", 0)) * abs(b)
    return value if loss.quadratic_dual(np.ones(1)).curvature == 0 else value - b * b / (2 * c)


# --- penalties -------------------------------------------------------------------------------------------------------

EXPONENTS = (1.0, 1.0 + 2.0**-52, 1.0 + 1e-9, 1.1, 4 / 3, 1.5, 2.0, 3.7, 50.0, 1e6, 1e15, np.inf)


def norm(x, inverse: Fraction) -> Decimal:
    """(sum x^r)^{1/r} with r = 1/inverse, to 100 digits."""
    if not any(x):
        return Decimal(0)
    largest = max(x)
    if not inverse:
        return decimal(largest)
    powers = [(decimal(value / largest).ln() / decimal(inverse)).exp() for value in x if value]
    return decimal(largest) * (sum(powers).ln() * decimal(inverse)).exp()


def penalties_from_above(rng):
    """Above the truth, and within 1e-30 of it: a wrong last digit of an exponent shows."""
    half = Decimal("0.5")
    with localcontext(PRECISE):
        for p in EXPONENTS:
            inverse = Fraction(0) if np.isinf(p) else 1 / Fraction(p)
            for _ in range(3):
                M = int(rng.integers(1, 6))
                x = fractions(rng.uniform(size=M) * 10.0 ** rng.integers(-12, 3, size=M))
                primal, dual = norm(x, 1 + inverse), norm(x, 1 - inverse)
                near(penalty_terms.penalty(Lp(p), x), half * primal)
                near(penalty_terms.conjugate(Lp(p), x), half * dual)
                mu = Fraction(0.7)
                cube = (decimal(mu) * primal**2 / 16).ln() / 3
                near(penalty_terms.penalty(Tikhonov(p, 0.7), x), 3 * cube.exp())
                near(penalty_terms.conjugate(Tikhonov(p, 0.7), x), dual**2 / (16 * decimal(mu)))
        for p, q in ((0.3, 0.4), (0.5, 0.5), (0.0, 1.0), (1.0, 0.0), (0.0, 0.0), (0.7, 0.3), (0.25, 0.5)):
            groups = Groups([[0, 2, 3], [1]], p, q)
            x = fractions(rng.uniform(size=4) * 10.0 ** rng.integers(-6, 3, size=4))
            P, Q = Fraction(p), Fraction(q)
            total = Fraction(1) if abs(P + Q - 1) < Fraction(1, 10**9) else P + Q
            for bound, sign in ((penalty_terms.penalty, 1), (penalty_terms.conjugate, -1)):
                factor = (Decimal(3).ln() * decimal(sign * P)).exp()
                blocks = [
                    Fraction(factor * norm([x[0], x[2], x[3]], 1 + sign * Q)),
                    Fraction(norm([x[1]], 1 + sign * Q)),
                ]
                near(bound(groups, x), half * norm(blocks, 1 + sign * total))
    fixed, x = Fixed([0.3, 0.0, 2.0]), [Fraction(1, 3), Fraction(0), Fraction(5)]
    assert penalty_terms.penalty(fixed, x) == (x[0] / Fraction(0.3) + x[2] / 2) / 2
    assert penalty_terms.conjugate(fixed, x) == (x[0] * Fraction(0.3) + x[2] * 2) / 2
    try:
        penalty_terms.penalty(fixed, [Fraction(0), Fraction(1), Fraction(0)])
    except Unbounded:
        return
    raise AssertionError


def near(bound: Fraction, truth: Decimal) -> None:
    """From above, to 30 digits; truth has 100."""
    assert bound >= Fraction(truth) * (1 - Fraction(1, 10**95))
    assert bound <= Fraction(truth) * (1 + Fraction(1, 10**29))


# --- the whole, at matrices within delta -----------------------------------------------------------------------------


def worst_matrices_within_delta(rng):
    """Matrices that reach delta: K + delta b b' for the dual, reflections that move the scores for the primal."""
    from mklref.certificate import certify

    delta, theta = np.array([3e-3, 1e-6, 1e-3, 2e-3]), np.array([0.4, 0.0, 0.5, 0.3])
    for loss in LOSSES:
        problem = make_problem(loss=loss, regularizer=Lp(2), n=12, seed=6)
        b = (-2.0 if problem.intercept_cost else -0.3) if problem.intercept else 0.0
        point = np.clip(0.02 * problem.y, -0.02, 0.02) + 0.001
        found = certify(problem, point, weights=theta, intercept=b, rigorous=True, delta=delta, backend="exact")
        assert found.tier == 2
        beta = found.dual_coef
        size = float(beta @ beta)
        images, squares = problem.kernels.apply(beta), problem.kernels.quadratic(beta)
        raised = squares + delta * size
        dual = problem.loss.dual_value(beta, problem.y, problem.costs) - problem.regularizer.conjugate(np.sqrt(raised))
        assert found.lower <= dual + 1e-13
        assert found.lower >= dual - 1e-10
        reach = float(theta @ delta) * np.sqrt(size)
        scores = theta @ images + b
        pull = problem.costs * problem.loss.subgradient(scores, problem.y)
        moved = scores + reach * pull / np.linalg.norm(pull)
        primal = problem.costs @ problem.loss.value(moved, problem.y) + problem.intercept_cost * b
        primal += problem.regularizer.value(theta * np.sqrt(raised))
        assert primal <= found.upper + 1e-13
        here = problem.costs @ problem.loss.value(scores, problem.y) + problem.intercept_cost * b
        here += problem.regularizer.value(theta * np.sqrt(raised))
        assert found.upper - here >= 0.9 * reach * np.linalg.norm(pull) - 1e-12
