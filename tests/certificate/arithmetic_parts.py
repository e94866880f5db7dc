"""The arithmetic of a rigorous certificate, its products and proofs of definiteness, against exact arithmetic.

Each function asserts that the part keeps its promise. `test_rigorous_parts` runs them on the code as it is, and on code
with a planted fault, which has to make the named one fail.
"""

from __future__ import annotations

import itertools
from decimal import Decimal, localcontext
from fractions import Fraction
from operator import mul

import numpy as np
from certificate.points import PRECISE, awkward, decimal, exact_inner, fractions, inside
from scipy.sparse import csr_array

from mklref.certificate import definite, exact, products, rounding
from mklref.certificate.rounding import Interval
from mklref.kernels import FactorStack, linear


def outward_rounding(rng):
    x, y = (rng.normal(size=400) * 2.0 ** rng.integers(-500, 500, size=400) for _ in range(2))
    X, Y = fractions(x), fractions(y)
    for name in ("__add__", "__sub__", "__mul__", "__truediv__"):
        computed = getattr(Interval.point(x), name)(y)
        assert inside(computed, [getattr(a, name)(b) for a, b in zip(X, Y, strict=True)]), name
    assert inside(Interval.point(x).square(), [a * a for a in X])
    assert inside(abs(Interval(x, x + 2.0 * np.abs(x))), [abs(a + abs(a)) for a in X])
    below_zero, across, above_zero = (Interval.point(0.0).widen(1.0) + shift for shift in (-4.0, 0.5, 4.0))
    for interval, ends in ((below_zero, (9, 25)), (across, (0, 2.25)), (above_zero, (9, 25))):
        computed = interval.square()
        assert inside(computed, [Fraction(end) for end in ends[:1]])
        assert inside(computed, [Fraction(end) for end in ends[1:]])
        assert computed.lower >= 0.999 * ends[0], "no tighter than it has to be"
        assert computed.upper <= 1.001 * ends[1] + 1e-300, "no tighter than it has to be"
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
        assert inside(exact.exp(x), exponentials)
        both = np.concatenate([x, -x])
        logarithms = [Fraction((1 + Decimal(float(a)).exp()).ln()) if a > -200 else None for a in both]
        known = [i for i, value in enumerate(logarithms) if value is not None]
        found = exact.softplus(Interval.point(both[known]))
        assert inside(found, [logarithms[i] for i in known])
        z = np.concatenate([10.0 ** rng.uniform(-300, 300, size=200), 1.0 + rng.normal(size=200) * 1e-9, [1.0, 5e-324]])
        assert inside(exact.log(Interval.point(z)), [Fraction(Decimal(float(a)).ln()) for a in z])
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
    assert np.all(image.upper - image.lower >= 2.0 * rounding.gamma(16 + 6) * v.sum()), "in every rounding mode"
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
    # Terms of 52 bits in pairs that cancel, but for one: in whatever order BLAS adds them, no sum on the way may round.
    half = rng.integers(2**25, 2**26, size=(250, 126)) | 1
    order = rng.permutation(251)
    K = np.hstack([half, half[:, :125]])[:, order].astype(float)
    v = np.hstack([half[0, :125], 1, -half[0, :125]])[order].astype(float)
    image, _ = products.sliced(np.vstack([K, np.ones(251)]), v, 0.0)
    truth = [*half[:, 125].tolist(), 1]
    assert all(low <= x <= high for low, x, high in zip(image.lower.tolist(), truth, image.upper.tolist(), strict=True))
    # What the largest entries leave beside them is multiplied too, with errors in units of its own.
    K = np.hstack([rng.normal(size=(64, 1)) * [1.0, 1.0], rng.normal(size=(64, 62))])
    v = np.concatenate([[2.0**90, -(2.0**90)], rng.normal(size=62) * 10.0 ** rng.uniform(-4, 4, size=62)])
    image, _ = products.sliced(K, v, 0.0)
    truth = [exact_inner(row[2:], v[2:]) for row in K]
    assert inside(image, truth)
    assert np.all(image.upper - image.lower <= 1e-9 * np.abs(K[:, 2:]) @ np.abs(v[2:]))
    # Where slices hold all of v and, beside an entry that meets 0, nothing of K, the rounding of that product is all.
    K, v = np.hstack([np.full((64, 1), 2.0**120), K[:, 1:]]), np.append(0.0, rng.integers(-9, 9, size=63))
    image, _ = products.sliced(K, v, 0.0)
    assert inside(image, [exact_inner(row[1:], v[1:]) for row in K])


def evaluated_products(rng):
    """Kernels x x' with x > 0 attain |K_ij| = d_i d_j, whatever the errors of the entries are said to be."""
    x, v = rng.uniform(1.0, 2.0, size=(20, 1)), np.where(np.arange(20) % 2, rng.normal(size=20), 0.0)
    for eta in (0.0, 0.25):
        image, square = products.evaluated(linear().fit(x, storage="lazy"), v, np.array([eta]))
        radius = (eta + rounding.gamma(11)) * x[:, 0] * (x[:, 0] @ np.abs(v)) / (1.0 - eta)
        assert np.all(image.upper - image.lower >= 1.999999 * radius)
        assert np.all(square.upper - square.lower >= 1.999999 * np.abs(v) @ radius)
        truth = [exact_inner(x[:, 0], v) * Fraction(a) for a in x[:, 0]]
        assert inside(Interval(image.lower[0], image.upper[0]), truth)


def sliced_factors(rng):
    """L'v cancels to 1e-8 of |L|'|v| and the product keeps its digits, in whatever blocks and units rows come."""
    dense = rng.normal(size=(21, 8)) * 10.0 ** rng.uniform(-4, 0, size=8) * (rng.random((21, 8)) < 0.7)
    v = 1e8 * np.linalg.svd(dense.T)[2][-1] + rng.normal(size=21)
    dense[:, 3:] *= 2.0**-80
    for L, rows in itertools.product((dense, dense.astype(np.float32), csr_array(dense)), (5, 64)):
        stack = FactorStack([L[:, :3], L[:, 3:]])
        stack.block_rows = rows
        images, squares = products.products(stack, v, np.zeros(2), "sliced")
        exact = [fractions(column) for column in (dense.astype(np.float32) if L.dtype == np.float32 else dense).T]
        w = [sum(map(mul, column, fractions(v))) for column in exact]
        for m, own in enumerate((range(3), range(3, 8))):
            image = Interval(images.lower[m], images.upper[m])
            assert inside(image, [sum(exact[j][i] * w[j] for j in own) for i in range(21)])
            square = sum(w[j] ** 2 for j in own)
            assert squares.lower[m] <= square <= squares.upper[m]
            assert squares.upper[m] - squares.lower[m] <= 1e-14 * square
            sizes = [sum(abs(exact[j][i] * w[j]) for j in own) for i in range(21)]
            assert np.all(image.upper - image.lower <= 1e-14 * np.array(sizes, dtype=float))


def slices_are_exact(rng):
    for n in (2, 9, 17, 40, 500):
        bits = products.slice_bits(n)
        x = rng.normal(size=n) * 10.0 ** rng.integers(-25, 1, size=n)
        exponent = products._units(x[None])[0]
        unit = np.ldexp(x, -exponent)
        parts, rest = products._slices(unit, bits)
        assert np.abs(unit).max() <= 1.0
        for j, part in enumerate(parts, start=1):
            whole = np.ldexp(part, j * bits)
            assert np.array_equal(whole, np.rint(whole))
            assert np.abs(whole).max() <= 2.0**bits
        assert n * 4**bits <= 2**53 < n * 4 ** (bits + 1)
        gap = [abs(a - sum(fractions(b))) for a, b in zip(fractions(unit), np.stack(parts).T, strict=True)]
        assert gap == [abs(a) for a in fractions(rest)]
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
    factor, n = definite.factor_in_place, 300
    X = rng.normal(size=(n, 20))
    K = np.tril(X @ X.T) + np.tril(X @ X.T, -1).T
    shift = 1.1 * definite.residual_reduction(K, 0.0)
    assert definite.proven_by_residual(K, shift)
    assert np.array_equal(np.tril(K), np.tril(X @ X.T))  # as it was

    def wrong(matrix):
        found = factor(matrix)
        matrix += 1e-12 * np.tril(matrix)
        return found

    def half(matrix):
        """Off by 0.09 in both places beside the diagonal, which is 0.127 in the Frobenius norm."""
        matrix[1, 0] = 0.09 / np.sqrt(matrix[0, 0])
        matrix[1, 1] = np.sqrt(matrix[1, 1] - matrix[1, 0] ** 2)
        matrix[0, 0] = np.sqrt(matrix[0, 0])
        return True

    reduced = definite.residual_reduction
    try:  # the factor is not trusted: a wrong one proves nothing
        definite.factor_in_place = wrong
        assert not definite.proven_by_residual(K, shift)
        for own, c, proof in ((half, 0.1, False), (half, 0.13, True), (factor, 1e-14, True), (factor, 3e-15, False)):
            definite.factor_in_place, definite.residual_reduction = own, lambda K, shift, c=c: c
            assert definite.proven_by_residual(4.0 * np.eye(2), 0.0) == proof  # L L' itself is known to 5e-15
    finally:
        definite.factor_in_place, definite.residual_reduction = factor, reduced


def rounded(rng):
    """Matrices that rounding may have left indefinite: of low rank, nearly so, in single precision, of wild sizes."""
    n = int(rng.integers(4, 11))
    Z = rng.normal(size=(n, int(rng.integers(1, n))))
    whole, centre, few = np.rint(9.0 * Z), np.eye(n) - 1.0 / n, rng.random((n, 1)) < 0.6
    zero = np.where(few, Z, 0.0)
    decaying = np.linalg.qr(rng.normal(size=(n, n)))[0] * 10.0 ** np.linspace(0.0, -rng.uniform(4.0, 12.0), n)
    matrices = [
        Z @ Z.T,
        whole @ whole.T,
        whole @ whole.T - 2.0**-44 * np.eye(n),
        Z @ Z.T + 10.0 ** rng.uniform(-17.0, -10.0) * np.eye(n),
        (Z @ Z.T).astype(np.float32).astype(np.float64),
        zero @ zero.T,
        zero @ zero.T - 1e-17 * np.diagflat(~few),
        centre @ np.full((n, n), rng.exponential()) @ centre,
        np.where(few == few.T, Z @ Z.T * np.where(few, 1e9, 1.0), 0.0),
        (Z := Z * 10.0 ** rng.integers(-20, 20, size=(n, 1))) @ Z.T,
        decaying @ decaying.T,
        decaying @ decaying.T - 1e-17 * np.eye(n),
        -np.diag(rng.exponential(size=n)),
    ]
    for K in matrices:
        yield (np.tril(K) + np.tril(K, -1).T) * float(rng.choice([1.0, 2.0**-400, 1e150]))


def what_is_missing(rng):
    """It makes matrices semidefinite in exact elimination, and most times much less of it does not."""
    found = more = 0
    for _ in range(5):
        for K in rounded(rng):
            s = definite.missing(K)
            assert semidefinite_exactly(K, Fraction(s))
            found, more = found + (s > 0.0), more + (s > 0.0 and not semidefinite_exactly(K, Fraction(0.99 * s)))
    assert found > 25
    assert more > 0.7 * found


def what_is_left_beside_a_factor(rng):
    """K - L L' - E in exact arithmetic, for the L that is the sum of its slices."""
    for K in rounded(rng):
        unit = int(np.frexp(np.sqrt(np.abs(K).max()))[1]) + 1
        values, vectors = np.linalg.eigh(K)
        high = np.ldexp(vectors * np.sqrt(np.maximum(values, 0.0)), -unit)
        low = 2.0**-53 * high * rng.normal(size=high.shape)
        E, error = definite._without(K, high, unit, low)
        parts = exact.cut(high, low)
        L = [[sum(Fraction(float(part[i, c])) for part in parts) for c in range(len(K))] for i in range(len(K))]
        scaled = [[Fraction(float(x)) / Fraction(4) ** unit for x in row] for row in K]
        F = [
            abs(k - sum(map(mul, a, b)) - e)
            for a, ks, es in zip(L, scaled, fractions_of(E), strict=True)
            for b, k, e in zip(L, ks, es, strict=True)
        ]
        assert len(K) * max(F) <= Fraction(error)
        assert error <= len(K) * (2.0**-51 * np.abs(E).max() + 1e-28)


def fractions_of(matrix):
    return [fractions(row) for row in matrix]


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
