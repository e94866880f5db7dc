"""One check for each part of a rigorous certificate, against exact arithmetic on data chosen to hurt.

Each function asserts that the part keeps its promise. `test_rigorous_parts` runs them on the code as it is,
`test_rigorous_faults` on code with a planted fault, which has to make the named one fail.
"""

from __future__ import annotations

from decimal import Context, Decimal, localcontext
from fractions import Fraction

import numpy as np
from makers import LOSSES, make_problem

from mklref.certificate import definite, elementary, exact, feasible, loss_terms, penalty_terms, products, rounding
from mklref.certificate.exact import Unbounded
from mklref.certificate.rounding import Interval
from mklref.losses import Huber, Logistic, OneClass, Pinball
from mklref.regularizers import Fixed, Groups, Lp, Tikhonov

PRECISE = Context(prec=120, Emax=10**17, Emin=-(10**17))


def fractions(x):
    return [Fraction(float(value)) for value in np.ravel(x)]


def decimal(x: Fraction) -> Decimal:
    return Decimal(x.numerator) / Decimal(x.denominator)


def inside(interval: Interval, values) -> bool:
    ends = zip(np.ravel(interval.lower), np.ravel(interval.upper), values, strict=True)
    return all(Fraction(float(low)) <= value <= Fraction(float(high)) for low, high, value in ends)


def exact_inner(x, y) -> Fraction:
    return sum((a * b for a, b in zip(fractions(x), fractions(y), strict=True)), Fraction(0))


def awkward(rng, n):
    """Ones that fill every accumulator of a sum, and terms that each of them then rounds away."""
    v = np.full(n, 0.99 * 2.0**-53)
    v[: min(n, 32)] = 1.0
    return v if rng.uniform() < 0.5 else -v


# --- arithmetic ------------------------------------------------------------------------------------------------------


def outward_rounding(rng):
    x, y = (rng.normal(size=400) * 2.0 ** rng.integers(-500, 500, size=400) for _ in range(2))
    X, Y = fractions(x), fractions(y)
    for name in ("__add__", "__sub__", "__mul__", "__truediv__"):
        computed = getattr(Interval.point(x), name)(y)
        assert inside(computed, [getattr(a, name)(b) for a, b in zip(X, Y, strict=True)]), name
    assert inside(Interval.point(x).square(), [a * a for a in X])
    assert inside(abs(Interval(x, x + 2.0 * np.abs(x))), [abs(a + abs(a)) for a in X])
    assert rounding.above(0.0) >= 2.0**-1022
    assert rounding.below(0.0) <= -(2.0**-1022)
    wide = Interval(-np.ones(3), 2.0 * np.ones(3)) * Interval(-3.0 * np.ones(3), np.ones(3))
    assert inside(wide, [Fraction(-6)] * 3)
    assert inside(wide, [Fraction(3)] * 3)


def constants_of_sums(rng):
    for k in (1, 2, 37, 1000, 10**6):
        assert Fraction(rounding.gamma(k)) >= Fraction(k, 2**52 - k)
    for n in (2, 33, 500, 3000):
        v = np.abs(awkward(rng, n))
        assert Fraction(float(rounding.inflate(v @ np.ones(n), n))) >= sum(fractions(v))
    assert rounding.inflate(0.0, 10) >= 20 * 2.0**-1022


def sums_over_kernels(rng):
    for M in (1, 2, 5, 300):
        lower = awkward(rng, M)[:, None] * rng.uniform(0.5, 1.0, size=(1, 7))
        x = Interval(lower, lower + 1e-18)
        for weights in (np.ones(M), rng.exponential(size=M)):
            total = rounding.weighted_sum(weights, x)
            for end in (x.lower, x.upper):
                assert inside(total, [exact_inner(weights, column) for column in end.T])


def elementary_functions(rng):
    x = np.concatenate([-(10.0 ** rng.uniform(-18, 2.8, size=300)), [0.0, -0.3465, -1.0, -745.0, -1e5, -5e-324]])
    with localcontext(PRECISE):
        exponentials = [Fraction(Decimal(float(a)).exp()) for a in x]
        assert inside(elementary.exp(Interval.point(x)), exponentials)
        both = np.concatenate([x, -x])
        logarithms = [Fraction((1 + Decimal(float(a)).exp()).ln()) if a > -200 else None for a in both]
        known = [i for i, value in enumerate(logarithms) if value is not None]
        found = elementary.softplus(Interval.point(both[known]))
        assert inside(found, [logarithms[i] for i in known])
        z = np.concatenate([10.0 ** rng.uniform(-300, 300, size=200), 1.0 + rng.normal(size=200) * 1e-9, [1.0, 5e-324]])
        assert inside(elementary.log(Interval.point(z)), [Fraction(Decimal(float(a)).ln()) for a in z])
    assert np.all(found.upper - found.lower <= 1e-14 * np.maximum(np.abs(both[known]), 1.0))


def rational_arithmetic(rng):
    x, y = (rng.normal(size=50) * 2.0 ** rng.integers(-300, 300, size=50) for _ in range(2))
    assert exact.total(x) == sum(fractions(x))
    assert exact.dot(x, y) == exact_inner(x, y)
    for value in fractions(x):
        third = value / 3
        assert Fraction(exact.round_down(third)) <= third <= Fraction(exact.round_up(third))
        assert exact.round_up(value) == exact.round_down(value) == float(value)
        assert exact.root_up(third**2) >= abs(third)
        assert exact.root_up(third**2) <= abs(third) * (1 + Fraction(1, 2**58))
    with localcontext(PRECISE):
        for r in (Fraction(1, 3), 1 / Fraction(4 / 3), Fraction(1 + 1e-9) / Fraction(1e-9), Fraction(2**52 + 1)):
            for value in (Fraction(1, 3), Fraction(1 - 2.0**-53), Fraction(1e-300), 1 - Fraction(1, 10**18)):
                truth = decimal(value).ln() * decimal(r)
                bound = exact.power_up(value, r)
                if truth > -1000:
                    assert Fraction(truth.exp() * (1 - Decimal("1e-100"))) <= bound
                    assert bound <= Fraction(truth.exp()) * (1 + Fraction(1, 10**25))
                else:
                    assert 0 < bound < Fraction(1, 2**1400)


# --- the dual point --------------------------------------------------------------------------------------------------


def exact_feasibility(rng):
    for loss in LOSSES:
        for scale in (1e-300, 1e-9, 1.0, 1e200):
            for intercept in (False, True):
                n = int(rng.integers(2, 40))
                y = np.where(rng.uniform(size=n) < 0.5, 1.0, -1.0) if loss.targets == "labels" else rng.normal(size=n)
                y = np.ones(n) if loss.targets == "ones" else y
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


# --- products --------------------------------------------------------------------------------------------------------


def hard_products(rng):
    """(K, v, shift) with K + shift I semidefinite: cancellation, lost terms, wide ranges, extreme scales."""
    for n in (2, 9, 40, 150):
        v = awkward(rng, n)
        yield np.ones((n, n)), v, 0.0
        X = rng.normal(size=(n, max(1, n // 3))) * 10.0 ** rng.integers(-4, 4, size=(n, 1))
        K = X @ X.T
        K = 0.5 * (K + K.T)
        smallest = max(0.0, -np.linalg.eigvalsh(K)[0])
        shift = 1.1 * smallest + 1e-14 * np.trace(K)
        yield K, np.linalg.eigh(K)[1][:, 0], shift
        yield K, rng.normal(size=n) * 10.0 ** rng.integers(-25, 1, size=n), shift
        yield 1e150 * np.ones((n, n)), 1e-150 * v, 0.0
        yield np.full((n, n), 1e-200), np.full(n, 1e-150), 0.0


def one_product(product):
    def check(rng):
        for K, v, shift in hard_products(rng):
            image, square = product(K, v, shift)
            image_exact, square_exact = exact.exact_product(K, v)
            assert inside(image, image_exact)
            assert inside(square, [square_exact])

    return check


def losing(n):
    """Numbers whose sum in pairs (`products._sum`) is 1, because every addition to the 1 rounds to 1."""
    x = np.zeros(n)
    x[0] = 1.0
    while n > 1:
        n = (n + 1) // 2
        x[n] = 0.99 * 2.0**-53
    return x


def fast_products(rng):
    one_product(products.fast)(rng)
    n = 16 * 64
    v = np.zeros(n)
    v[::16] = losing(64)
    image, square = products.fast(np.ones((n, n)), v, 0.0)
    assert inside(image, [sum(fractions(v))] * n)
    assert inside(square, [sum(fractions(v)) ** 2])
    n = 12
    image, square = products.fast(np.zeros((n, n)), np.zeros(n), 0.0)
    assert np.all(image.upper >= 2 * n * 2.0**-1022)
    assert square.upper >= 2 * n * 2.0**-1022


def sliced_products(rng):
    one_product(products.sliced)(rng)
    K = rng.normal(size=(64, 64))
    v = rng.normal(size=64)
    image, square = products.sliced(K @ K.T, v, 0.0)
    assert np.all(image.upper - image.lower <= 4e-15 * np.abs(K @ K.T) @ np.abs(v))
    assert square.upper - square.lower <= 4e-15 * np.abs(v) @ np.abs(K @ K.T) @ np.abs(v)


def slices_are_exact(rng):
    for n in (2, 17, 500):
        bits = (53 - int(np.ceil(np.log2(n)))) // 2
        x = rng.normal(size=n) * 10.0 ** rng.integers(-25, 1, size=n)
        unit, exponent = products._to_unit(x)
        parts, rest = products._slices(unit, bits)
        assert np.abs(unit).max() <= 1.0
        for j, part in enumerate(parts, start=1):
            whole = np.ldexp(part, j * bits)
            assert np.array_equal(whole, np.rint(whole))
            assert np.abs(whole).max() <= 2.0**bits
        assert n * 2 ** (2 * bits) <= 2**53
        gap = [abs(a - sum(fractions(b))) for a, b in zip(fractions(unit), np.stack(parts).T, strict=True)]
        assert max(gap) == Fraction(rest)
        assert np.array_equal(np.ldexp(unit, exponent), x)


def lengths_bound_entries(rng):
    for _ in range(20):
        n = int(rng.integers(2, 8))
        A = rng.normal(size=(n, n))
        K = 0.5 * (A + A.T)
        shift = float(-1.0000001 * np.linalg.eigvalsh(K)[0])
        d = products._lengths(np.diagonal(K), shift)
        assert np.all(np.abs(K) <= np.outer(d, d))


def inner_products(rng):
    for n in (5, 200):
        v, x = awkward(rng, n), np.ones(n)
        for radius in (np.zeros(n), rng.exponential(size=n)):
            found = products._inner(v, x, radius)
            for corner in (x + np.sign(v) * radius, x - np.sign(v) * radius):
                assert inside(found, [exact_inner(v, corner)])
    for n in (3, 200, 1025):
        v = losing(n)
        assert products._sum(v.copy()) == 1.0
        assert inside(products._inner(v, np.ones(n), np.zeros(n)), [sum(fractions(v))])


def exact_products(rng):
    for K, v, shift in hard_products(rng):
        if len(v) > 40:
            continue
        found = products.exact(K, v, shift)
        image, square = exact.exact_product(K, v)
        assert image == [exact_inner(row, v) for row in K]
        assert square == sum((a * b for a, b in zip(fractions(v), image, strict=True)), Fraction(0))
        assert inside(found[0], image)
        assert inside(found[1], [square])


# --- definiteness ----------------------------------------------------------------------------------------------------


def proofs_of_definiteness(rng):
    """Never a proof of what exact elimination refutes, on matrices within rounding of singular ones."""
    proven = refuted = 0
    for _ in range(150):
        n = int(rng.integers(2, 8))
        X = rng.normal(size=(n, int(rng.integers(1, n + 1))))
        X = np.rint(40.0 * X) if rng.uniform() < 0.5 else X
        K = X @ X.T
        K = np.tril(K) + np.tril(K, -1).T
        K[0, 0] -= float(rng.choice([0.0, 2.0**-52, 2.0**-50, 1e-13])) * K[0, 0]
        for shift in (0.0, 1e-12 * float(np.trace(K)), 1e-15):
            truth = semidefinite_exactly(K, Fraction(shift))
            found = definite.proven_semidefinite(K, shift)
            assert truth or not found
            assert truth or not definite.proven_by_residual(K, shift)
            proven, refuted = proven + found, refuted + (not truth)
            theorem = Fraction(n + 1, 2**52 - (n + 1))
            trace = sum(fractions(np.diagonal(K))) + n * Fraction(shift)
            assert Fraction(definite.reduction(K, shift)) >= theorem / (1 - theorem) * trace + Fraction(2.0**-1022)
    assert proven > 50
    assert refuted > 50
    assert not definite.proven_semidefinite(np.array([[1.0, 0.5], [0.4, 1.0]]))
    assert definite.proven_semidefinite(np.zeros((3, 3)))
    factor, n = definite._factor, 300
    X = rng.normal(size=(n, 20))
    K = np.tril(X @ X.T) + np.tril(X @ X.T, -1).T
    shift = 1.1 * definite.residual_reduction(K, 0.0)
    assert definite.proven_by_residual(K, shift)
    try:  # the factor is not trusted: a wrong one proves nothing
        definite._factor = lambda matrix: (1.0 + 1e-12) * factor(matrix)
        assert not definite.proven_by_residual(K, shift)
    finally:
        definite._factor = factor


def semidefinite_exactly(K, shift: Fraction) -> bool:
    """Elimination over the rationals."""
    A = [[Fraction(float(x)) + (shift if i == j else 0) for j, x in enumerate(row)] for i, row in enumerate(K)]
    while A:
        pivot = A[0][0]
        if pivot < 0 or (pivot == 0 and any(A[0])):
            return False
        A = [
            [x - (row[0] * y / pivot if pivot else 0) for x, y in zip(row[1:], A[0][1:], strict=True)] for row in A[1:]
        ]
    return True


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
        y = np.where(rng.uniform(size=200) < 0.5, 1.0, -1.0) if loss.targets == "labels" else rng.normal(size=200)
        y = np.ones(200) if loss.targets == "ones" else y
        t = rng.normal(size=200) * 10.0 ** rng.integers(-3, 2, size=200)
        for width in (np.zeros(200), rng.exponential(size=200)):
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
        y = np.where(rng.uniform(size=60) < 0.5, 1.0, -1.0) if loss.targets == "labels" else rng.normal(size=60)
        y = np.ones(60) if loss.targets == "ones" else y
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
        y = np.where(rng.uniform(size=n) < 0.5, 1.0, -1.0) if loss.targets == "labels" else rng.normal(size=n)
        y = np.ones(n) if loss.targets == "ones" else y
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
            assert alone <= exact_dual(loss, *(fractions(x[one])[0] for x in (beta, y, costs)))


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
            for _ in range(6):
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
