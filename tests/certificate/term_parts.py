"""The losses and penalties of a rigorous certificate and its dual point, against exact arithmetic.

Each function asserts that the part keeps its promise. `test_rigorous_parts` runs them on the code as it is, and on code
with a planted fault, which has to make the named one fail.
"""

from __future__ import annotations

from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
from certificate.points import PRECISE, fractions
from makers import LOSSES, make_problem, random_targets

from mklref.certificate import feasible, loss_terms, penalty_terms
from mklref.certificate.exact import Unbounded
from mklref.certificate.rounding import Interval
from mklref.losses import Huber, Pinball
from mklref.regularizers import Fixed, Groups, Lp, Tikhonov
from validation import precise
from validation.precise import CONTEXT, Formulas

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
                true = list(map(Formulas(loss, Fraction).interval, fractions(y), fractions(costs)))
                assert all(x >= a for x, (a, _) in zip(low.tolist(), true, strict=True))
                assert all(x <= b for x, (_, b) in zip(high.tolist(), true, strict=True))
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
                assert all(a <= x <= b for x, (a, b) in zip(exact_beta, true, strict=True))
                assert wanted is None or sum(exact_beta) == wanted


# --- losses ----------------------------------------------------------------------------------------------------------


def exact(formula, *arguments) -> list[Fraction]:
    """A formula for each sample; the logistic loss to 80 digits."""
    with localcontext(CONTEXT):
        return [Fraction(formula(*sample)) for sample in zip(*map(fractions, arguments), strict=True)]


def losses_from_above(rng):
    """At both ends of every interval, and never by more than rounding at points."""
    for loss in (*LOSSES, Huber(1e-3), Pinball(0.9)):
        y = random_targets(rng, 100, loss)
        t = rng.normal(size=100) * 10.0 ** rng.integers(-3, 2, size=100)
        for width in (np.zeros(100), rng.exponential(size=100)):
            interval = Interval(t, t + width)
            found = fractions(loss_terms.primal_losses(loss, interval, y))
            ends = [exact(Formulas(loss, Fraction).loss, end, y) for end in (interval.lower, interval.upper)]
            worst = list(map(max, *ends))
            assert all(a >= b for a, b in zip(found, worst, strict=True))
            assert all(a <= b + Fraction(1e-12) * (1 + b) for a, b in zip(found, worst, strict=True))


def slopes_from_above(rng):
    """|V(t') - V(t)| <= slope |t' - t| inside the interval, with equality in the limit at one end."""
    for loss in LOSSES:
        y = random_targets(rng, 60, loss)
        low = rng.normal(size=60)
        high = low + rng.exponential(size=60)
        found, formulas = fractions(loss_terms.slopes(loss, Interval(low, high), y)), Formulas(loss, Fraction)
        for s, a, b, target in zip(found, fractions(low), fractions(high), fractions(y), strict=True):
            h = (b - a) / 10**6
            for start in (a, b - h):
                before, after = (Fraction(formulas.loss(t, target)) for t in (start, start + h))
                assert abs(after - before) <= s * h


def dual_terms_from_below(rng):
    for loss in LOSSES:
        n = 60
        y = random_targets(rng, n, loss)
        costs = rng.uniform(0.1, 3.0, size=n)
        low, high = (np.clip(bound, -5.0, 5.0) for bound in loss_terms.exact_box(loss, y, costs))
        beta = low + (high - low) * rng.uniform(size=n)
        beta[:3], beta[3:6], beta[6:9] = low[:3], high[3:6], 1e-12 * np.sign(high[6:9] + low[6:9])
        found = loss_terms.dual_term(loss, beta, y, costs)
        truth = exact(Formulas(loss, Fraction).dual, beta, y, costs)
        assert found <= sum(truth)
        assert sum(truth) - found <= Fraction(1e-13) * sum(
            fractions(np.abs(beta) * (1.0 + np.abs(y)) + beta**2 / costs + costs)
        )
        for i in range(n):  # each sample by itself: no error of another one makes up for it
            one = np.arange(n) == i
            alone = loss_terms.dual_term(loss, beta[one], y[one], costs[one])
            b, target, cost = (fractions(x[one])[0] for x in (beta, y, costs))
            size = abs(b) * (1 + abs(target)) + b * b / cost  # however little of the cost that is
            assert 0 <= truth[i] - alone <= Fraction(1e-10) * size + Fraction(1e-89)


# --- penalties -------------------------------------------------------------------------------------------------------

EXPONENTS = (1.0, 1.0 + 2.0**-52, 1.0 + 1e-9, 1.1, 4 / 3, 1.5, 2.0, 3.7, 50.0, 1e6, 1e15, np.inf)


def penalties_from_above(rng):
    """Above the truth, and within 1e-30 of it: a wrong last digit of an exponent shows."""
    for p in EXPONENTS:
        for regularizer in (Lp(p), Tikhonov(p, 0.7)):
            for _ in range(3):
                M = int(rng.integers(1, 6))
                both_near(regularizer, rng.uniform(size=M) * 10.0 ** rng.integers(-12, 3, size=M))
    for p, q in ((0.3, 0.4), (0.5, 0.5), (0.0, 1.0), (1.0, 0.0), (0.0, 0.0), (0.7, 0.3), (0.25, 0.5)):
        both_near(Groups([[0, 2, 3], [1]], p, q), rng.uniform(size=4) * 10.0 ** rng.integers(-6, 3, size=4))
    fixed, x = Fixed([0.3, 0.0, 2.0]), [Fraction(1, 3), Fraction(0), Fraction(5)]
    assert penalty_terms.penalty(fixed, x) == (x[0] / Fraction(0.3) + x[2] / 2) / 2
    assert penalty_terms.conjugate(fixed, x) == (x[0] * Fraction(0.3) + x[2] * 2) / 2
    try:
        penalty_terms.penalty(fixed, [Fraction(0), Fraction(1), Fraction(0)])
    except Unbounded:
        return
    raise AssertionError


def both_near(regularizer, x):
    """From above, to 30 digits; truth has 100."""
    with localcontext(PRECISE):
        exactly = [Decimal(entry) for entry in x.tolist()]
        truths = precise.value(regularizer, exactly), precise.conjugate(regularizer, exactly)
    for bound, truth in zip((penalty_terms.penalty, penalty_terms.conjugate), map(Fraction, truths), strict=True):
        found = bound(regularizer, fractions(x))
        assert truth * (1 - Fraction(1, 10**95)) <= found <= truth * (1 + Fraction(1, 10**29))


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
