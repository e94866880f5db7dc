"""The bounds by definition, weak duality at every point, invariances, and kernels that rounding left indefinite."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from certificate.points import M, N, factors, optimum, random_point, small
from makers import DEGENERATE, LOSSES, make_problem

from mklref import Status, solve
from mklref.certificate import allowance, certify, certify_each, repair
from mklref.certificate.definite import missing
from mklref.certificate.exact import in_slices, product_of_slices
from mklref.certificate.products import sharp_images
from mklref.exceptions import InvalidType
from mklref.kernels import stack, validation
from mklref.problem import Problem
from mklref.regularizers import ConcaveBlock, ElasticNet, Fixed, Lp, Power, SmoothedRoot

PS = (1, 4 / 3, 2, np.inf)
REGULARIZERS = (*(Lp(p) for p in PS), Fixed([0.3, 0.0, 1.0, 0.2]), ElasticNet(0.4), Power(1))

every_pair = pytest.mark.parametrize(
    ("loss", "regularizer"),
    # The nu machine refuses penalties of degree 1: its optimum would be 0 or -inf.
    [(loss, r) for loss in LOSSES for r in REGULARIZERS if not (loss.intercept_cost and r.degree == 1.0)],
    ids=str,
)


@pytest.mark.sampled(2)
@every_pair
def test_bounds_by_definition(loss, regularizer, rng):
    """Functions f_m = theta_m K_m beta in feature space, and the dual objective at the repaired point."""
    problem = small(loss, regularizer, sample_weight=rng.uniform(0.5, 2.0, size=N))
    roots = list(factors(problem))
    for scale in (0.03, 1.0):
        beta, theta, b = random_point(problem, rng, scale)
        b = 0.0 if b is None else b
        functions = [weight * L.T @ beta for weight, L in zip(theta, roots, strict=True)]
        scores = sum(L @ w for L, w in zip(roots, functions, strict=True)) + b
        upper = sum(
            c * problem.loss.value(np.array([t]), np.array([y]))[0]
            for c, t, y in zip(problem.costs, scores, problem.y, strict=True)
        )
        upper += (
            problem.regularizer.value(np.array([np.linalg.norm(w) for w in functions])) + problem.intercept_cost * b
        )

        point, _ = repair(problem, beta)
        g = np.array([np.linalg.norm(L.T @ point) for L in roots])
        shrink = problem.regularizer.dual_scale(g)
        lower = -problem.regularizer.conjugate(shrink * g) - sum(
            c * problem.loss.conjugate(np.array([-shrink * a / c]) * (1 - 1e-15), np.array([y]))[0]
            for c, a, y in zip(problem.costs, point, problem.y, strict=True)
        )
        found = certify(problem, beta, weights=theta, intercept=b)
        assert found.upper == pytest.approx(upper, rel=1e-9)
        assert found.lower == pytest.approx(lower, rel=1e-9, abs=1e-12)
        assert found.intercept == b


@pytest.mark.sampled(16)
@every_pair
def test_every_point_encloses_the_optimum(loss, regularizer, rng):
    """lower <= P* <= upper, whatever the point; and at the optimum the interval is narrow."""
    problem = small(loss, regularizer)
    value, error, beta, rho, b = optimum(problem)
    accuracy = error + 1e-6 * max(1.0, abs(value))
    for scale in (1e-6, 0.1, 1.0, 100.0):
        for _ in range(2):
            point, weights, intercept = random_point(problem, rng, scale)
            for certificate in (
                certify(problem, point),
                certify(problem, point, weights=weights),
                certify(problem, point, weights=weights, intercept=intercept),
            ):
                assert certificate.lower <= value + accuracy
                assert certificate.upper >= value - accuracy
                assert certificate.gap >= -1e-12 * max(1.0, abs(certificate.upper))
    theta = problem.regularizer.weights_from_norms(rho)
    certificate = certify(problem, beta, weights=theta, intercept=b)
    assert certificate.lower == pytest.approx(value, abs=10 * accuracy)
    assert certificate.relative_gap < 2e-3  # a dual error of eps costs the hinge primal about sqrt(eps)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("degenerate", DEGENERATE)
@pytest.mark.parametrize("p", PS)
@pytest.mark.parametrize("loss", ["hinge", "squared", "one_class"])
def test_weak_duality_with_degenerate_kernels(loss, p, degenerate, rng):
    problem = small(loss, Lp(p), degenerate=degenerate)
    for scale in (1e-3, 1.0, 1e3):
        beta, weights, intercept = random_point(problem, rng, scale)
        certificate = certify(problem, beta, weights=weights, intercept=intercept)
        assert -np.inf < certificate.lower <= certificate.upper < np.inf
    assert np.isfinite(certify(problem, np.zeros(N)).gap)


@pytest.mark.parametrize("regularizer", REGULARIZERS, ids=str)
def test_regularizer_gap_by_definition(regularizer, rng):
    """R(rho) + R*(g) - rho'g, with g shrunk into the domain of R* where it is an indicator."""
    problem = small("squared", regularizer)
    beta = repair(problem, rng.normal(size=N))[0]
    theta = rng.uniform(0.1, 0.4, size=M) * (regularizer.weights_from_dual(np.ones(M)) > 0.0)
    g = np.sqrt([beta @ K @ beta for K in problem.kernels.dense()])
    shrunk = regularizer.dual_scale(g) * g
    expected = regularizer.value(theta * g) + regularizer.conjugate(shrunk) - (theta * g) @ shrunk
    found = certify(problem, beta, weights=theta).regularizer_gap
    assert found == pytest.approx(expected, rel=1e-9)
    assert found > 0.0


def test_the_nu_machine_has_no_lower_bound_outside_the_domain_of_the_conjugate():
    """Shrinking the dual point would break 1'beta = 1."""
    base = small("one_class", ConcaveBlock(SmoothedRoot(0.1)))
    uniform = np.full(N, 1.0 / N)
    inside, outside = (
        Problem(scale * base.kernels.dense(), base.y, C=base.C, loss=base.loss, regularizer=base.regularizer)
        for scale in (1e-2, 1e4)
    )
    assert certify(inside, uniform).lower > -np.inf
    bad = certify(outside, uniform)
    assert bad.lower == -np.inf
    assert "The dual objective is not finite at this point, even after repair." in bad.explain()


def test_dual_variables_whose_partial_sums_overflow_have_no_lower_bound():
    """Their exact sum is 0; on the way there it was an OverflowError."""
    y = np.repeat([1.0, -1.0], 3)
    problem = Problem(np.zeros((2, 6, 6)), y, loss="huber:1e308", regularizer=Lp(2))
    assert certify(problem, 0.8e308 * y, weights=np.ones(2)).lower == -np.inf


@pytest.mark.parametrize("p", PS)
def test_default_weights_are_the_closed_form(p, rng):
    problem = small(regularizer=Lp(p))
    beta = repair(problem, rng.normal(size=N))[0]
    g = np.sqrt(problem.kernels.images(beta) @ beta)
    assert certify(problem, beta) == certify(problem, beta, weights=problem.regularizer.weights_from_dual(g))


@pytest.mark.parametrize("loss", LOSSES, ids=str)
def test_default_intercept_is_the_best_one(loss, rng):
    problem = small(loss, Lp(2))
    beta = repair(problem, 0.1 * rng.normal(size=N))[0]
    best = certify(problem, beta)
    assert best.intercept == best.better_intercept
    assert best.objective == best.better_upper <= best.upper
    if problem.intercept:
        other = certify(problem, beta, intercept=best.intercept + 0.3)
        assert other.better_upper == best.objective < other.upper
        assert other.lower == best.lower


@pytest.mark.parametrize("exponent", [-900, -40, 40, 900])
def test_scaling_by_a_power_of_two_is_exact(exponent, rng):
    """P(cK, C) = P(K, cC)/c, bit for bit: the point (beta, theta, b) becomes (beta/c, theta, b)."""
    c = 2.0**exponent
    problem = small(regularizer=Lp(4 / 3), C=0.7)
    beta, weights, b = random_point(problem, rng, 0.3)
    here = certify(problem, beta, weights=weights, intercept=b)
    scaled = Problem(c * problem.kernels.dense(), problem.y, C=0.7 / c, regularizer=Lp(4 / 3))
    there = certify(scaled, beta / c, weights=weights, intercept=b)
    assert (c * there.lower, c * there.upper, there.intercept) == (here.lower, here.upper, here.intercept)


def test_certificates_of_many_points_at_once_are_those_of_each_alone():
    """17 points: more than take one read of the kernels."""
    assert certify_each([]) == []
    problem = make_problem(seed=3, n=12)
    for wrong in (1.0, "points", [problem], [(None, np.zeros(12), None, None)]):
        with pytest.raises(InvalidType, match=r"points\[?|problem is"):
            certify_each(wrong)
    rng = np.random.default_rng(0)
    points = [(problem, rng.uniform(0.0, 1.0, 12) * problem.y, None, None) for _ in range(17)]
    each = certify_each([*points[:-1], list(points[-1])])
    assert len(each) == 17
    for (_, beta, _, _), found in zip(points, each, strict=True):
        alone = certify(problem, beta)
        assert (found.lower, found.upper) == pytest.approx((alone.lower, alone.upper), rel=1e-12)


def test_bounds_hold_for_the_semidefinite_kernels_near_those_that_float32_left_indefinite():
    """From any point they enclose those that the kernels K + s I have there, s their slack."""
    rng = np.random.default_rng(2)
    z = rng.normal(size=(12, 3))
    single = make_problem(n=12, M=1, C=50.0, regularizer=Lp(2), seed=3).replace(kernels=[(z @ z.T).astype(np.float32)])
    shift = single.kernels.slack[0, 0]
    assert shift > 1e-8
    near = single.replace(kernels=[np.asarray(single.kernels.dense()[0], dtype=float) + (shift + 2e-12) * np.eye(12)])
    for _ in range(5):
        beta = single.y * rng.uniform(0.0, 50.0, size=12)
        own, other = (certify(problem, beta, weights=[1.0], intercept=0.0) for problem in (single, near))
        assert own.lower <= other.lower + 1e-7 < own.lower + 1e-3
        assert own.upper >= other.upper - 1e-7 > own.upper - 1.0
        image = single.kernels.apply(beta)
        low, high = allowance.score_bounds(single, beta, np.ones(1), image, 0.0)
        np.testing.assert_allclose(high - image[0], shift * np.maximum(beta, 0.0), rtol=1e-10, atol=1e-10)
        np.testing.assert_allclose(low - image[0], shift * np.minimum(beta, 0.0), rtol=1e-10, atol=1e-10)
    both = single.replace(kernels=[single.kernels.matrices[0]] * 2)  # as of a signed problem
    low, high = allowance.score_bounds(both, beta, np.array([1.0, -1.0]), both.kernels.apply(beta), 0.0)
    np.testing.assert_allclose([-low, high], [shift * np.abs(beta)] * 2, rtol=1e-8, atol=1e-8)


def test_what_is_missing_is_known_beyond_the_digits_of_an_eigenvalue(rng):
    Z = rng.integers(-9, 10, size=(30, 3)).astype(float)
    for t, unit in ((0.0, 1.0), (2.0**-44, 2.0**-60), (2.0**-44, 2.0**60)):  # exact, and 1e-17 of the trace
        found = missing(unit * (Z @ Z.T - t * np.eye(30)))
        assert found == pytest.approx(unit * t, rel=1e-9, abs=unit * 1e-25 * np.sum(Z * Z))


@pytest.mark.parametrize("seed", [10, 28, 30, 39])
def test_what_is_missing_is_known_beside_eigenvalues_that_float64_hardly_tells_from_0(seed):
    rng = np.random.default_rng(seed)
    Q = np.linalg.qr(rng.normal(size=(5, 5)))[0]
    K = (Q * 10.0 ** np.array([0.0, -3.0, -11.0, -11.3, -18.0])) @ Q.T
    K = 0.5 * (K + K.T)

    def last_pivot(s):  # of L D L'; those before are positive
        A = [[Fraction(x) + (i == j) * Fraction(s) for j, x in enumerate(row)] for i, row in enumerate(K.tolist())]
        while len(A) > 1:
            first, *rows = A
            assert first[0] > 0
            A = [[x - row[0] * y / first[0] for x, y in zip(row[1:], first[1:], strict=True)] for row in rows]
        return A[0][0]

    assert last_pivot(missing(K) * (1.0 - 1e-6)) < 0 < last_pivot(missing(K) * (1.0 + 1e-6))


def missing_by_eigenvalues(K):
    """Minus the smallest one of V'E V - V'E U lambda^-1 U'E V: U, V of large and other ones, E = K - U lambda U'."""
    values, vectors = np.linalg.eigh(K)
    told = values > 1e4 * validation.rounding_of(K.diagonal()).mean()
    rows = in_slices(vectors[:, told] * np.sqrt(values[told]))
    high, low = product_of_slices(rows, rows)
    E = vectors[:, ~told].T @ ((K - high) - low) @ vectors
    left = E[:, ~told] - E[:, told] / values[told] @ E[:, told].T
    return max(0.0, -float(np.linalg.eigvalsh(0.5 * (left + left.T)).min(initial=0.0)))


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("n", "more"), [(60, 1e-6), (520, 0.6)])  # of large matrices a Ritz value is a guess
@pytest.mark.parametrize("kind", ["low rank", "float32", "decaying", "centred", "definite"])
def test_what_is_missing_is_no_more_than_its_eigenvalues_say(n, more, kind, rng):
    Z = rng.normal(size=(n, 4))
    if kind == "decaying":
        Z = np.exp(-0.25 * np.sum((Z[:, None, :2] - Z[:, :2]) ** 2, axis=2)) @ rng.normal(size=(n, n))
    elif kind == "centred":
        Z = np.hstack([Z, np.ones((n, 1))]) - Z.mean()
    K = Z @ Z.T
    if kind == "float32":
        K = K.astype(np.float32).astype(float)
    K = np.tril(K) + np.tril(K, -1).T + (kind == "definite") * 1e-9 * np.eye(n)
    found, twin = missing(K), missing_by_eigenvalues(K)
    assert (1.0 - 1e-6) * twin <= found <= (1.0 + more) * twin
    assert (found == 0.0) == (kind == "definite")
    assert missing(K, 0) == np.inf


def test_bounds_hold_for_the_semidefinite_kernels_near_those_that_float64_left_indefinite(rng):
    """At a function through all targets, where eigenvalues of -1e-17 of the trace are 5e-7 of the optimum."""
    Z, y, t = rng.choice([-1.0, 1.0], size=(30, 3)), rng.normal(size=30), 2.0**-50
    y -= Z @ np.linalg.lstsq(Z, y, rcond=None)[0]
    exact = Problem([Z @ Z.T], y, C=1e9, loss="squared", regularizer=Lp(2), intercept=False)
    own, near = (certify(p, 1e9 * y) for p in (exact.replace(kernels=[Z @ Z.T - t * np.eye(30)]), exact))
    assert near.gap < 1e-8 * near.size
    assert own.lower <= near.lower < near.upper <= own.upper
    assert own.gap < 2.1 * t * 1e18 * (y @ y)


@pytest.mark.thorough
def test_products_of_large_stacks_keep_their_digits_as_those_of_small_ones_do(rng):
    """The gap is closed but for rounding: 1e-3 of the optimum by plain products, 1e-4 by the slack of factors."""
    Z, y = rng.choice([-1.0, 1.0], size=(2, 1500, 3)), rng.normal(size=1500)
    y -= (both := np.hstack(list(Z))) @ np.linalg.lstsq(both, y, rcond=None)[0]
    problem = Problem(Z @ Z.swapaxes(1, 2), y, C=1e7, loss="squared", regularizer=Lp(2), intercept=False)
    found = certify(problem, 1e7 * y)
    assert found.gap < 1e-9 * found.size


def test_large_stacks_in_single_precision_are_not_cut_for_digits_that_their_entries_do_not_have(rng):
    """2,000 samples with seven kernels took twenty times as long for the same bounds."""
    X = rng.normal(size=(2, 1500, 3)).astype(np.float32)
    kernels = stack(X @ X.swapaxes(1, 2))
    assert kernels.lost.any()
    assert sharp_images(kernels, np.ones(1500)) is None
    assert sharp_images(kernels.part(range(100)), np.ones(100)) is not None


@pytest.mark.parametrize("n", [20, 150])
def test_what_rounding_left_below_0_is_a_share_of_each_sample(n, rng, monkeypatch):
    """One sample, 1e6 times as large as all others, leaves these the digits that they have, as before certificates."""
    monkeypatch.setattr("mklref.certificate.products._CUBES", 0.0)
    X = rng.normal(size=(n, 4))
    y = X[:, 0] + 0.3 * rng.normal(size=n)
    X[0] *= 1e6
    problem = Problem([X @ X.T, np.outer(X[:, 1], X[:, 1])], y, loss="squared", regularizer=Lp(2))
    assert problem.kernels.slack.any(axis=1).all()
    found = solve(problem)
    assert found.status is Status.OPTIMAL
    assert found.certificate.rounding < 1e-8 * found.certificate.size
    monkeypatch.undo()
    shares = sharp_images(problem.kernels.part(slice(20)), y[:20]).slack / problem.kernels.slack[:, :20]
    assert np.all(shares.max(axis=1) <= 4.0 * shares.min(axis=1))  # and as it is found in twice the digits
