"""Sums over the rows and the columns of factors err by less than certificates say, whatever the signs of the errors."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from certificate.points import exact_inner
from scipy.sparse import csr_matrix

from mklref import Problem, certify
from mklref.certificate import allowance
from mklref.certificate.bounds import squares_after_repair
from mklref.certificate.products import sharp_images
from mklref.factored.remote import _loaded
from mklref.kernels import ArrayStack, FactorStack
from mklref.kernels.factor_sources import AT_ONCE, FactorImages
from mklref.kernels.protocol import sum_in_pairs
from mklref.losses import Squared
from mklref.regularizers import Fixed

UNIT = Fraction(1, 2**53)


def columns(kind, n, rng):
    """A column of L, and v."""
    i = np.arange(n)
    return {
        "constant": (np.full(n, 0.1), np.full(n, 0.3)),
        "alternating": (np.where(i % 2, 0.1, 0.7), np.where(i % 3, 0.7, -0.1)),
        "growing": (0.1 * (1.0 + i), np.full(n, 0.7)),
        "swallowed": (np.full(n, 1.0), np.where(i % AT_ONCE, 0.99 * 2.0**-53, 1.0)),
        "random": (rng.normal(size=n), rng.normal(size=n)),
    }[kind]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("kind", ["constant", "alternating", "growing", "swallowed", "random"])
@pytest.mark.parametrize("n", [40, 1500, 8192, 50000])
def test_sums_over_rows_err_by_less_than_certificates_count(kind, n, rng):
    """One after the other equal terms were 7 times off what the root of their number allows for."""
    own, v = columns(kind, n, rng)
    exact, size = exact_inner(own, v), exact_inner(np.abs(own), np.abs(v))
    for r in (1, 2, 8, 64):
        stack = FactorStack(np.split(np.tile(own[:, None], r), sorted({1, r // 2, r} - {0, r}), axis=1))
        assert stack.rank == r
        for made in (stack, stack.sharded(7), FactorStack([np.asfortranarray(np.tile(own[:, None], r))])):
            found = [made.transposed(v), made.transposed(np.stack([v, v], axis=1))[:, 1], made.images(v).image]
            allowed = Fraction(made.roundings_over_rows(n)) * UNIT * size
            assert all(abs(Fraction(x) - exact) <= allowed for x in {x for one in found for x in one.tolist()})


@pytest.mark.parametrize("kind", ["float32", "sparse", "sparse and wide", "mapped"])
def test_sums_over_rows_of_other_sources_do_so_too(kind, tmp_path):
    n, r = (1500, 9000) if kind == "sparse and wide" else (20000, 5)
    entry, v = np.float32(0.1), np.full(n, 0.3)
    L = np.full((n, r), entry) if kind == "float32" else np.full((n, min(r, 5)), float(entry))
    if kind.startswith("sparse"):
        L = csr_matrix((L.ravel(), np.tile(np.arange(5), n), 5 * np.arange(n + 1)), shape=(n, r))
    if kind == "mapped":
        np.save(tmp_path / "L.npy", L)
        L = np.load(tmp_path / "L.npy", mmap_mode="r")
    stack, exact = FactorStack([L]), n * Fraction(float(entry)) * Fraction(0.3)
    for image in (stack.transposed(v), stack.transposed(np.stack([v, v], axis=1))[:, 1]):
        assert not image[5:].any()
        allowed = Fraction(stack.roundings_over_rows(n)) * UNIT * exact
        assert all(abs(Fraction(x) - exact) <= allowed for x in image[:5].tolist())


@pytest.mark.parametrize("count", [0, 1, 2, 3, 7, 8, 33])
def test_terms_are_added_in_pairs(count):
    """Each goes through log2 of their number: a term is the depth of the sums that made it."""

    class Depth(int):
        def __add__(self, other):
            return Depth(max(int(self), int(other)) + 1)

    assert sum_in_pairs((Depth(0) for _ in range(count)), 0) == math.ceil(math.log2(max(count, 1)))


def test_parts_of_blocks_are_as_many_as_counted(monkeypatch, rng):
    """64 rows at a time, and each entry through no more sums than that and the rounds: small blocks are the worst."""
    L = rng.normal(size=(2000, 9)).astype(np.float32)
    for cached in (1, 2000, 1 << 17):
        monkeypatch.setattr("mklref.kernels.factor_stack._CACHED", cached)
        for shards in (1, 5):
            stack = FactorStack([L]).sharded(shards)
            stack.block_rows = 64
            first, last = stack.edges[-2:]
            blocks = [(where.stop - where.start) for where, _ in stack._doubled(first, last)]
            rounds = math.ceil(math.log2(-(-max(blocks) // AT_ONCE))) + math.ceil(math.log2(len(blocks)))
            assert AT_ONCE + rounds + math.ceil(math.log2(shards)) <= stack.roundings_over_rows(2000)


@pytest.mark.parametrize("r", [1, 5, 40])
def test_entries_err_by_less_than_certificates_say(r, rng):
    """Of one sign the errors of all r products are allowed for twice."""
    L = rng.normal(size=(9, r))
    (eta,), (K,), norms = FactorStack([L]).entry_errors, FactorStack([L]).dense(), np.linalg.norm(L, axis=1)
    off = [[float(abs(Fraction(K[i, j]) - exact_inner(L[i], L[j]))) for j in range(9)] for i in range(9)]
    assert (off <= eta * np.outer(norms, norms)).all()
    assert 2 * r * UNIT <= Fraction(eta) <= 8 * (r + 3) * UNIT


def test_what_a_worker_loads_is_one_shard():
    """Sums over shards within it would be counted by nobody."""
    stack = _loaded(lambda: FactorStack([np.eye(6)]).sharded(3), None)
    assert stack.edges == (0, 6)


@pytest.mark.parametrize(("n", "r"), [(1500, 2), (1500, 8), (8192, 2), (8192, 8), (50000, 2)])
@pytest.mark.parametrize("kernels", [1, 2])
def test_no_upper_bound_of_factors_is_below_the_objective_of_its_own_point(n, r, kernels):
    """Targets are a millionth off the scores, whose rounding a loss magnifies as much; R is as good as nothing."""
    L = FactorStack([np.full((n, r), 0.1)] * kernels)
    options = {"loss": "squared", "C": 1e15, "intercept": False, "regularizer": Fixed([1.0] * kernels)}
    for beta, off in itertools.product((0.1, 0.3, 0.7), (1.0 - 1e-6, 1.0 + 1e-6)):
        w = n * Fraction(0.1) * Fraction(beta)
        t, square = kernels * r * Fraction(0.1) * w, kernels * r * w * w
        problem = Problem(L, np.full(n, float(t) * off), **options)
        exact = n * Fraction(1e15) * (t - Fraction(float(t) * off)) ** 2 / 2 + square / 2
        certificate = certify(problem, np.full(n, beta), weights=[1.0] * kernels, intercept=0.0)
        assert exact <= certificate.upper <= (1.0 + 1e-7) * float(exact)


class InOrder(FactorStack):
    """Products as a library may compute them, one column after the other."""

    def product(self, w):
        rows = self.read(0, self.shape[1])
        return np.cumsum(rows * w, axis=1)[:, -1]


@pytest.mark.parametrize("sharp", [False, True])
def test_sums_over_the_columns_of_several_kernels_are_counted(sharp):
    """They are one product, which was said to go through no more sums than the columns of one kernel."""
    n, stack = 3, InOrder([np.full((3, 64), 0.1)] * 64)
    problem, beta, theta = Problem(stack, np.zeros(n), loss="squared"), np.array([0.1, 0.0, 0.0]), np.ones(64)
    images = sharp_images(stack, beta) if sharp else stack.images(beta)
    low, high = allowance.score_bounds(problem, beta, theta, images, 0.0)
    t = 4096 * Fraction(0.1) * Fraction(0.1) * Fraction(0.1)
    assert Fraction(low.max()) <= t <= Fraction(high.min())
    assert high[0] - low[0] <= 2.0 * (4096 + 70) * float(UNIT) * float(t)
    theta[1:] = 0.0  # their columns are none of the sum
    low, high = allowance.score_bounds(problem, beta, theta, images, 0.0)
    assert Fraction(low.max()) <= t / 64 <= Fraction(high.min())
    assert high[0] - low[0] <= 2.0 * 80 * float(UNIT) * float(t) / 64


@pytest.mark.parametrize("kind", [ArrayStack, FactorStack])
def test_squares_of_a_second_read_are_judged_by_its_images(kind, rng):
    """The given point has none, and the repaired one has: nothing of the one says how much the other rounds."""
    L = rng.normal(size=(30, 2))
    stack = FactorStack([L]) if kind is FactorStack else ArrayStack([L @ L.T])
    v = rng.normal(size=30)
    v -= L @ np.linalg.lstsq(L, v, rcond=None)[0]
    problem, inside = Problem(stack, v, loss=Squared()), np.clip(v, 0.0, None)
    images = stack.images(v)
    squares, after = squares_after_repair(problem, v, inside, images, np.maximum(images @ v, 0.0))
    assert squares == pytest.approx([np.sum((L.T @ inside) ** 2)], rel=1e-12)
    own = stack.images(inside)
    assert (after.v is inside) if isinstance(after, FactorImages) else np.array_equal(after, own)
    np.testing.assert_array_equal(
        allowance.squares_error(problem, inside, after), allowance.squares_error(problem, inside, own)
    )


def test_factors_are_certified_without_a_zero_for_each_kernel_and_sample(monkeypatch, rng):
    """Of a billion samples on workers there are vectors in this process, and no matrix."""
    monkeypatch.setattr(FactorStack, "slack", property(lambda stack: pytest.fail("(M, n) zeros")))
    L = rng.normal(size=(3, 40, 2))
    assert certify(Problem(FactorStack(list(L)), np.sign(L[0, :, 0])), rng.normal(size=40)).gap < np.inf
