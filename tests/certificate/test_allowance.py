"""Rounding errors of numerical certificates: what the allowance covers, what it costs, and that its absence shows."""

from __future__ import annotations

import itertools
from contextlib import nullcontext
from fractions import Fraction

import numpy as np
import pytest
from certificate.points import exact_inner
from makers import LOSSES, make_problem

from mklref import Lp, MulticlassProblem, Problem, Status, certify, solve
from mklref.certificate import allowance, certify_for, numerical
from mklref.certificate.allowance import AnyOrder, squares_error
from mklref.certificate.bounds import squares_after_repair
from mklref.certificate.products import images_that_cancel, sharp_images
from mklref.exceptions import InvalidKernel, NotApplicable
from mklref.factored.tiles import tile
from mklref.kernels import ArrayStack, FactorStack, KernelStack, LazyStack, gaussian, protocol
from mklref.kernels.protocol import indices
from mklref.regularizers import BlockNorm, Fixed, Tikhonov, WeightedL1
from validation.attack.certificates import attack, exact_primal, findings

SEEDS = (0, 4, 6, 11)


def large(seed, n=24):
    """A kernel of rank one and entries about 1e6 with C = 1e5: the optimum is 1e10 times smaller than |K| C^2."""
    rng = np.random.default_rng(seed)
    z = np.rint(1e3 * rng.normal(size=n))
    y = np.where(rng.permutation(n) < n // 2, 1.0, -1.0)
    return Problem([np.outer(z, z)], y, C=1e5, regularizer=Lp(1))


@pytest.mark.sampled(4)
@pytest.mark.parametrize("sharp", [False, True])
@pytest.mark.parametrize("seed", SEEDS)
def test_bounds_that_rounding_spoils_are_wide_enough_and_say_so_or_sharp(seed, sharp, monkeypatch):
    problem = large(seed)
    if not sharp:
        monkeypatch.setattr(numerical, "_sharper", lambda *_: None)
    solution = solve(problem)
    point = {"dual_coef": solution.dual_coef, "weights": solution.weights, "intercept": solution.intercept}
    certificate, proven = certify(problem, **point), certify(problem, **point, rigorous=True, backend="exact")
    assert list(findings(problem, "integers", np.random.default_rng(0))) == []
    assert certificate.lower <= proven.upper
    assert certificate.upper >= max(proven.lower, float(exact_primal(problem, point, solution.intercept)))
    assert (
        (certificate.rounding <= 1e-12 * certificate.size)
        if sharp
        else (certificate.rounding > 1e-9 * certificate.size)
    )
    assert solution.objective == certificate.objective < certificate.upper


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_slices_of_matrices_know_the_digits_that_products_lose(dtype, rng):
    """|K||v| is 1e15 times K v: a product in float64 has no digit of it."""
    Z, v = rng.integers(-9, 10, size=(30, 3)).astype(float), rng.normal(size=30)
    for _ in range(2):
        v -= Z @ np.linalg.lstsq(Z, v, rcond=None)[0]
    unseen = Z * (np.arange(30) > 0)[:, None]  # its first sample: that row is exact, and the others round
    stack = ArrayStack([(Z @ Z.T).astype(dtype), np.eye(30, dtype=dtype), (unseen @ unseen.T).astype(dtype)])
    rational = [[exact_inner(row, v) for row in K] for K in stack.dense().astype(float)]
    exact = np.array(rational, dtype=float)
    images, polish = sharp_images(stack, v), images_that_cancel(stack, v)
    for found in (images.images, polish):
        np.testing.assert_allclose(found, exact, rtol=1e-15, atol=1e-15 * np.abs(exact).max())
        np.testing.assert_allclose(found[0], exact[0], rtol=1e-12)
    larger = images_that_cancel(ArrayStack([2.0**100 * stack.matrix(0)]), v)[0]  # of another unit
    np.testing.assert_allclose(larger, 2.0**100 * exact[0], rtol=1e-12)
    assert np.abs(stack.images(v)[0] - exact[0]).max() > 1e-3 * np.abs(exact[0]).max()
    for found, own, eps, lengths in zip(images.images, rational, images.eps, stack.own_lengths, strict=True):
        for x, y, d in zip(found, own, lengths, strict=True):
            assert abs(Fraction(x) - y) <= Fraction(eps) * Fraction(d)
    assert np.all(images.eps <= 1e-15 * np.sqrt(np.maximum(exact @ v, 0.0)) + 1e-30)


@pytest.mark.parametrize("loss", LOSSES, ids=str)
def test_ordinary_problems_lose_no_digit_that_a_solver_has(loss):
    problem = make_problem(loss=loss, regularizer=Lp(2), seed=3, n=30)
    certificate = solve(problem, tol=1e-9).certificate
    assert 0.0 < certificate.rounding <= 1e-12 * certificate.size
    assert "Rounding" not in certificate.explain()


@pytest.mark.parametrize(("classes", "decades"), [(0, 8.0), (3, 10.0)])
def test_factors_whose_columns_nearly_cancel_lose_no_digit_either(classes, decades, rng):
    """|L|'|beta| is 1e6 times L'beta: the allowance alone was 7e-6 of the optimum, and the solver stalled for it."""
    L, y = FactorStack([rng.normal(size=(30, 50)) * 10.0 ** (-decades * np.arange(50) / 50)]), rng.normal(size=30)
    options = {"loss": "squared_hinge" if classes else "squared", "C": 1e8, "intercept": False}
    problem = MulticlassProblem(L, np.arange(30) % classes, **options) if classes else Problem(L, y, **options)
    solution = solve(problem)
    assert solution.status is Status.OPTIMAL
    bounds, proven = solution.certificate, certify(problem, solution, rigorous=True, backend="sliced")
    assert bounds.lower <= proven.upper
    assert bounds.upper >= proven.lower
    assert bounds.rounding <= 1e-9 * bounds.size


def test_the_claim_of_what_factors_lose_covers_moves_into_the_box(rng):
    """w = 1e-10 |L|'|v| is known to its last digit, and what a move adds to it is not."""
    L, v = rng.normal(size=(2000, 2)), rng.normal(size=2000)
    for _ in range(2):
        v -= np.linalg.qr(L)[0] @ (np.linalg.qr(L)[0].T @ v)
    problem, v = Problem(FactorStack([L]), v, loss="squared"), v + 1e-13 * L[:, 0]
    images = sharp_images(problem.kernels, v)
    for change in (0.0, *[1e-14] * 8):
        beta = v + change * rng.normal(size=2000)
        exact = float(sum(exact_inner(column, beta) ** 2 for column in L.T))
        squares, _ = squares_after_repair(problem, v, beta, images, images @ v)
        assert exact <= squares + squares_error(problem, beta, images)
        assert change or squares <= exact + squares_error(problem, beta, images)


def test_a_second_read_of_matrices_is_as_sharp_as_the_first(rng):
    z, v = rng.integers(-9, 10, size=20).astype(float), rng.normal(size=20)
    problem, v = Problem([np.outer(z, z)], v, loss="squared"), v - (z @ v) / (z @ z) * z
    first = sharp_images(problem.kernels, v)
    _, again = squares_after_repair(problem, v, 2.0 * v, first, first @ v)
    for beta, images in ((v, first), (2.0 * v, again)):
        assert squares_error(problem, beta, images) < 1e-2 * squares_error(problem, beta, problem.kernels.images(beta))


def test_kernels_of_other_units_keep_the_digits_of_their_factors(rng):
    """Slices of both at once were none of the smaller one, whose weight makes up for its unit: bounds were 1e19 off."""
    L = [rng.normal(size=(40, 3)), 1e-20 * rng.normal(size=(40, 3))]
    y, A = rng.normal(size=40) + 5.0 * L[0][:, 0], np.hstack([L[0], 1e20 * L[1]])
    problem = Problem(FactorStack(L), y, loss="squared", C=1e8, intercept=False, regularizer=Fixed([1.0, 1e40]))
    beta = 1e8 * (y - A @ np.linalg.solve(A.T @ A + 1e-8 * np.eye(6), A.T @ y))
    bounds, proven = certify(problem, beta), certify(problem, beta, rigorous=True)
    assert proven.backend == "sliced"
    assert max(bounds.relative_gap, proven.relative_gap) <= 1e-6
    assert bounds.lower <= proven.upper
    assert bounds.upper >= proven.lower


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("name", ["penalty_error", "dual_loss_error", "squares_error", "most_losses"])
def test_errors_of_all_machines_are_taken_off_the_lower_bound_or_added_to_the_upper_one(name, classes, monkeypatch):
    """Weights sum to 4: R and R* change by twice the error in each square. That of R* is one for all machines."""
    base, honest = make_problem(seed=3, n=24), getattr(allowance, name)
    options = {"regularizer": Fixed([0.5, 1.0, 2.0, 0.5]), "intercept": False, "strategy": "one_vs_one"}
    problem = MulticlassProblem(base.kernels, np.arange(24) % classes, **options)
    beta = np.full((len(problem.machines), 24), 0.5)
    own, each = certify(problem, beta), itertools.cycle([1.0, 2.0, 4.0][: len(problem.machines)])
    kept = 0.0 if name != "most_losses" else 1.0
    unit = np.full(4, 0.5) if name == "squares_error" else 1.0
    monkeypatch.setattr(numerical, name, lambda *about: kept * honest(*about) + next(each) * unit)
    wide, error = certify(problem, beta), 1.0 if classes == 2 or name == "penalty_error" else 7.0
    assert own.lower - wide.lower == pytest.approx(error * (name != "most_losses"), abs=1e-9)
    assert wide.upper - own.upper == pytest.approx(error * (name in ("squares_error", "most_losses")), abs=1e-9)
    assert wide.rounding - own.rounding == pytest.approx(own.lower - wide.lower + wide.upper - own.upper, abs=1e-9)


def test_a_kernel_whose_square_may_be_rounding_gets_no_weight_by_the_closed_form(rng):
    """At q > 2 it would be g^(-10/11), and the function another one."""
    alone = make_problem(seed=3, n=24, M=1, regularizer=BlockNorm(12), intercept=False)
    beta, u = 0.5 * alone.y, rng.normal(size=24)
    u -= (u @ beta - 1e-7) / (beta @ beta) * beta
    both = alone.replace(kernels=[alone.kernels.dense()[0], np.outer(u, u)])
    assert certify(both, beta).upper == pytest.approx(certify(alone, beta).upper, rel=1e-6)


@pytest.mark.thorough
def test_a_point_whose_rounding_exceeds_the_tolerance_is_not_optimal():
    problem = make_problem(seed=3, n=12, M=5, C=1e15, loss="pinball")
    solution = solve(problem)
    assert solution.certificate.rounding > 1e-6 * solution.certificate.size
    assert not solution.certificate.is_optimal()
    assert solution.status is not Status.OPTIMAL
    assert "certify(..., rigorous=True)" in solution.certificate.explain()


@pytest.mark.parametrize("regularizer", [BlockNorm(3), Lp(2)])
def test_a_rigorous_certificate_is_advised_for_what_has_one(regularizer, rng):
    """Where float32 left kernels of low rank indefinite, it is not float64 that widens the bounds."""
    L = rng.normal(size=(3, 20, 2))
    kernels = (L @ L.transpose(0, 2, 1)).astype(np.float32)
    problem = Problem(kernels, np.tile([1.0, -1.0], 10), C=1e3, regularizer=regularizer)
    point = solve(problem, max_iter=5)
    said = point.certificate.explain()
    assert "Evaluate kernels in float64, not in float32 or float16" in said
    assert "rigorous=True) encloses the errors of products, for Lp, Fixed, Tikhonov, Groups." in said
    with nullcontext() if isinstance(regularizer, Lp) else pytest.raises(NotApplicable, match="rigorous certificate"):
        certify(problem, point.dual_coef, rigorous=True)


@pytest.mark.parametrize("loss", ["hinge", "squared", "logistic"])
def test_the_allowance_does_not_depend_on_the_unit_of_a_weighted_sum_of_norms(loss):
    """omega R at C is omega times R at C/omega; the weights that attain R* = 0 are of any size."""
    problem, unit = make_problem(loss=loss, regularizer=WeightedL1(np.ones(4)), seed=3, n=24, C=2.0**40), 2.0**-40
    solution = solve(problem)
    one = solution.certificate
    smaller = problem.replace(C=1.0, regularizer=WeightedL1(unit * np.ones(4)))
    other = certify(smaller, unit * solution.dual_coef, weights=solution.weights / unit, intercept=solution.intercept)
    assert other.rounding / unit == pytest.approx(one.rounding, rel=1e-9, abs=0.0)
    assert solve(smaller).status is solution.status is Status.OPTIMAL


@pytest.mark.parametrize("regularizer", [Lp(1), Lp(2), Tikhonov(2.0, 0.3)], ids=str)
def test_one_class_without_a_kernel_has_the_optimum_0(regularizer):
    """Half the bits of the smallest of all numbers were a relative gap above 1."""
    problem = Problem(np.zeros((2, 5, 5)), np.ones(5), C=0.3, loss="one_class", regularizer=regularizer)
    assert solve(problem).status is Status.OPTIMAL


@pytest.mark.parametrize("loss", ["hinge", "squared", "logistic", "one_class"])
def test_allowances_are_what_their_formulas_say(loss, rng, monkeypatch):
    """In units so large that they have digits beside the scores; each is written out once more."""
    assert np.finfo(float).eps / 2.0 == allowance.UNIT
    u, tiny = 2.0**-20, 2.0**-24
    monkeypatch.setattr(allowance, "UNIT", u)
    monkeypatch.setattr(allowance, "UNDERFLOW", tiny)
    problem = make_problem(loss=loss, seed=3, n=24, M=4, C=0.3)
    K, c_b, theta, b, support = problem.kernels.dense(), problem.intercept_cost, np.array([0.7, 0, 0.4, 1.2]), 0.6, 16
    beta = problem.y * rng.uniform(0.01, 0.29, size=24)
    beta[::3] = 0.0
    y, size, d, v = problem.y * (c_b == 0.0), np.abs(beta), np.sqrt(np.diagonal(K, axis1=1, axis2=2)), K @ beta
    reach = d @ size
    squares = u * (7 * reach**2 + 16 * np.abs(v) @ size) + support * tiny * (1.0 + size.sum())
    np.testing.assert_allclose(allowance.squares_error(problem, beta, v), squares, rtol=1e-9)
    any_order = squares + u * (16 - 7) * reach**2
    np.testing.assert_allclose(allowance.squares_error(problem, beta, AnyOrder(v)), any_order, rtol=1e-9)

    t = theta @ v + b
    e = 7 * u * (theta * reach) @ d + support * tiny * theta.sum()
    e += u * (3 * theta @ np.abs(v) + np.abs(t) + np.abs(y - t))
    np.testing.assert_allclose(allowance.score_bounds(problem, beta, theta, v, b), [t - e, t + e], rtol=1e-12)
    losses = problem.costs @ np.maximum(*(problem.loss.value(end, problem.y) for end in (t - e, t + e)))
    most = losses + c_b * b + u * ((24 + 4) * losses + c_b * b)
    assert allowance.most_losses(problem, beta, theta, v, b) == pytest.approx(most, rel=1e-12)

    terms = np.abs(problem.loss.dual_terms(beta, problem.y, problem.costs)).sum()
    dual = (24 + 4) * u * (size @ (np.abs(y) + np.abs(t)) + terms)
    dual += abs(beta.sum() - c_b) * (b + np.abs(y).max() + np.abs(t).max())
    assert allowance.dual_loss_error(problem, beta, t - b, b) == pytest.approx(dual, rel=1e-9)
    entries = 2.0**-52 * theta @ reach**2
    assert allowance.entries_error(problem, beta, theta) == pytest.approx(entries, rel=1e-9, abs=0.0)
    steepest = np.where(size > 0.0, 0.3, 0.0) if loss in ("hinge", "one_class") else size
    for slopes, kinks in ((steepest, True), (size, False)):
        weights = 7 * u * reach * (d @ slopes)
        np.testing.assert_allclose(allowance.weights_error(problem, beta, kinks), weights, rtol=1e-9)
    for regularizer, roundings in ((Lp(2), 4.0), (Tikhonov(1.5, 0.7), 4.0 * (1.0 + abs(np.log(7.0))))):
        assert allowance.penalty_error(regularizer, 7.0, 4) == pytest.approx((4.0 + roundings) * u * 7.0, rel=1e-12)


def test_a_machine_on_some_of_the_samples_has_the_allowance_of_the_kernels_that_it_is_cut_from():
    """Two classes are one pair, and the same problem with labels."""
    rng = np.random.default_rng(2)
    z = rng.normal(size=(12, 3))
    kernels, y = [(z @ z.T).astype(np.float32)], np.where(np.arange(12) % 2, -1.0, 1.0)
    pair = MulticlassProblem(kernels, -y, C=50.0, regularizer=Lp(2), strategy="one_vs_one")
    beta = y * rng.uniform(0.0, 50.0, size=12)
    own = certify(Problem(kernels, y, C=50.0, regularizer=Lp(2)), beta, intercept=0.0)
    other = certify(pair, beta[None], intercept=[0.0])
    assert own.rounding > 1e-4
    assert other.rounding == pytest.approx(own.rounding, rel=1e-6)


@pytest.mark.thorough
def test_nothing_is_found_by_an_attack():
    assert attack(4, np.random.default_rng(1)) == []


@pytest.mark.thorough
def test_the_attack_finds_certificates_without_an_allowance(monkeypatch):
    monkeypatch.setattr(allowance, "UNIT", 0.0)
    monkeypatch.setattr(allowance, "_slack", lambda problem, images: np.zeros(problem.kernels.shape[:2]))
    for fault in (", accepted, excludes [", ", accepted, is below the primal objective of its own point"):
        problems = (large(seed) for seed in range(80))  # by chance, one in ten
        assert any(
            fault in text for problem in problems for text in findings(problem, "integers", np.random.default_rng(0))
        )


def test_a_solver_takes_products_in_blocks_where_others_are_not_enough_for_its_tolerance(calls_of):
    """They read all of a matrix, and one of BLAS half of it; what it allows for is wider, and true as well."""
    problem = make_problem(n=150, seed=3, regularizer=Lp(1))
    solution = solve(problem)
    alone = certify(problem, solution)
    assert solution.certificate.rounding > alone.rounding
    assert solution.objective == pytest.approx(alone.objective, rel=1e-14)
    blocks = calls_of(ArrayStack, "images")
    for tol, taken in ((1e-6, 0), (alone.relative_gap, 1)):
        found = certify_for(problem, solution.dual_coef, solution.weights, tol)
        assert found.is_optimal(tol)
        assert len(blocks) == taken


class Constant(KernelStack):
    """Matrices of equal entries that are made when they are read."""

    shape, dtype = (1, 1500, 1500), np.dtype(float)

    def block(self, rows, columns=None, kernels=None):
        return np.full((1, len(rows), 1500), 0.1)


class Tiled(LazyStack):
    """Products as workers compute them."""

    def apply(self, v, kernels=None):
        support = np.flatnonzero(v)
        return tile(self, support, v[support], np.arange(1500), indices(kernels, len(self)))


class Own(Constant):
    """A product of its own, of which nothing is known."""

    def apply(self, v, kernels=None):
        return 0.1 * np.cumsum(v)[-1:, None] * np.ones(1500)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("kind", ["float64", "float32", "made", "made row by row", "own", "evaluated", "tiled"])
def test_sums_whose_roundings_have_one_sign_err_by_less_than_certificates_say(kind, monkeypatch):
    """Of equal terms those of BLAS, one after the other, are off by 8 times sqrt(k) u; a large term swallows others."""
    if kind == "made row by row":
        monkeypatch.setattr(protocol, "_HELD", 1500)
    lazy, entries = gaussian(1.0).fit(np.zeros((1500, 1)), storage="lazy"), np.full((1500, 1500), 0.1)
    make = {
        **dict.fromkeys(("made", "made row by row"), Constant),
        "own": Own,
        "evaluated": lambda: lazy,
        "tiled": lambda: Tiled(lazy.fitted, cache=0),
    }
    stack = make.get(kind, lambda: ArrayStack.trusted([entries.astype(kind)]))()
    entry, small = Fraction(float(stack.block([0])[0, 0, 0])), 0.99 * 2.0**-53
    swallowed, blocks = np.full(1500, small), np.full(1500, small / 38.0)  # 38 rows at a time
    swallowed[0], blocks[:38], blocks[0] = 1.0, small, 1.0
    for beta in (np.full(1500, 0.1), np.full(1500, 0.3), np.arange(1500) % 2 * 0.7, swallowed, blocks):
        exact, theta = entry * sum(map(Fraction, beta.tolist())), np.ones(1)
        allowed = Fraction(stack.roundings(int(np.count_nonzero(beta)))) * exact / 2**53
        for image in (theta @ stack.images(beta), theta @ stack.images_each(np.stack([beta, beta]))[1]):
            assert max(abs(Fraction(x) - exact) for x in (image.min(), image.max())) <= allowed


def test_roundings_of_evaluated_kernels_are_rows_of_a_block_and_sums_of_blocks(monkeypatch):
    lazy, add, heights = gaussian(1.0).fit(np.zeros((50, 1)), storage="lazy"), LazyStack.add_rows, []
    monkeypatch.setattr(LazyStack, "add_rows", lambda *given: heights.append(len(given[3])) or add(*given))
    for k in (1, 2, 3, 7, 49, 50):
        heights.clear()
        lazy.apply(1.0 * (np.arange(50) < k))
        assert lazy.roundings(k) == min(k, max(heights) + len(heights))


@pytest.mark.parametrize("held", [1, 100, 4000])
def test_roundings_of_kernels_that_are_made_are_rows_of_a_part_sums_of_parts_and_of_batches(held, monkeypatch):
    monkeypatch.setattr(protocol, "_HELD", 1500 * held)
    sums, seen = protocol.sums_of_rows, []
    monkeypatch.setattr(protocol, "sums_of_rows", lambda K, v, h: seen.append((K.shape[1], h)) or sums(K, v, h))
    Constant().images(np.full(1500, 0.3))
    rows, h = map(max, zip(*seen, strict=True))
    assert Constant().roundings(2000) == min(h, rows) + np.ceil(np.log2(-(-rows // h))) + len(seen) - 1
    assert Constant().roundings(3) == 3


@pytest.mark.parametrize("entry", [0.1, 0.3, 0.7])
def test_no_upper_bound_is_below_the_objective_of_its_own_point_where_all_entries_are_equal(entry):
    """The last samples weigh most: theirs are the sums in which dsymv goes one by one, on every processor."""
    kernels, weight = ArrayStack.trusted([np.full((1500, 1500), entry)]), np.where(np.arange(1500) < 1425, 1e-6, 1.0)
    options = {"loss": "squared", "C": 1e3, "intercept": False, "regularizer": Fixed([1.0])}
    problem = Problem(kernels, np.zeros(1500), sample_weight=weight, **options)
    for beta in (0.1, 0.3, 0.62):
        t = 1500 * Fraction(entry) * Fraction(beta)
        exact = sum(map(Fraction, problem.costs.tolist())) * t**2 / 2 + t**2 / Fraction(entry) / 2
        certificate = certify(problem, np.full(1500, beta), weights=[1.0], intercept=0.0)
        assert exact <= certificate.upper <= (1.0 + 1e-12) * float(exact)


# --- what is assumed -----------------------------------------------------------------------------------------------


def test_certificates_say_how_definiteness_is_known(monkeypatch):
    problem = make_problem(n=20)
    beta = 0.1 * problem.y
    assert certify(problem, beta).definiteness == "proved"
    assert "assumed" not in certify(problem, beta).explain()
    trusted = problem.replace(kernels=ArrayStack.trusted(list(problem.kernels.dense())))
    assert certify(trusted, beta).definiteness == "by theorem"
    monkeypatch.setattr("mklref.kernels.validation.FULL_CHECK_FLOPS", 0.0)
    certificate = solve(problem.replace(kernels=list(problem.kernels.dense()))).certificate
    assert certificate.definiteness == "assumed"
    assert "That every kernel is positive semidefinite is assumed" in certificate.explain()


def test_an_indefinite_kernel_beyond_the_budget_does_not_end_optimal(monkeypatch, rng):
    """Its stationary points have a gap of 0, whatever they are worth."""
    monkeypatch.setattr("mklref.kernels.validation.FULL_CHECK_FLOPS", 0.0)
    X = rng.normal(size=(200, 5))
    v = rng.normal(size=200)
    K = np.exp(-0.1 * ((X[:, None] - X) ** 2).sum(axis=2)) - 0.7 * np.outer(v, v) / (v @ v)
    with pytest.raises(InvalidKernel, match="smallest eigenvalue -0"):
        Problem([K], np.sign(X[:, 0]))
