"""Kernels that are evaluated when they are read: the entries, sums of rows, caches, bounds of the rounding."""

from __future__ import annotations

import copy
import pickle
import threading
import tracemalloc
import weakref
from dataclasses import replace

import flint
import numpy as np
import pytest
from makers import KERNELS, NORMALIZATIONS

from mklref import Problem, certify, solve
from mklref.exceptions import InvalidInput, InvalidKernel, InvalidParameter, InvalidType
from mklref.kernels import (
    LazyStack,
    evaluation,
    gaussian,
    laplacian,
    linear,
    per_variable,
    polynomial,
    storage,
    total,
)
from mklref.kernels.evaluation import Block
from mklref.kernels.reader import Reader, _Rows
from mklref.kernels.transforms import VANISHING, Normalizer


@pytest.fixture(scope="module")
def X():
    return np.random.default_rng(0).normal(size=(40, 12)) + 3.0


@pytest.mark.parametrize("options", NORMALIZATIONS, ids=str)
def test_lazy_kernels_of_new_samples_are_those_in_memory(X, options):
    new = np.random.default_rng(1).normal(size=(5, 12))
    for weight in (None, 1.0 + np.arange(40) % 3):
        how = Normalizer(options.get("normalize"), options.get("center", False), weight)
        held, lazy = (KERNELS.fit_normalized(X, how, storage) for storage in ("memory", "lazy"))
        assert isinstance(lazy, LazyStack)
        assert (lazy.names, lazy.groups) == (held.names, held.groups)
        np.testing.assert_allclose(lazy.new(new), held.new(new), rtol=1e-9, atol=1e-12 * np.abs(held.new(new)).max())


@pytest.mark.parametrize("storage", ["memory", "lazy"])
@pytest.mark.parametrize("how", [("multiplicative", False), ("multiplicative", True), ("spherical", True)])
def test_constant_kernels_may_vanish_where_rounding_would_be_divided_by_itself(X, storage, how):
    constant = np.column_stack([X[:, 0], np.full(40, 1 / 3)])
    made = per_variable(linear()).fit_normalized(constant, Normalizer(*how, vanish=True), storage)
    assert made.fitted.transforms[1] is VANISHING
    assert made.quadratic(np.ones(40) / 40)[1] == 0.0
    assert made.own_diagonals[0].any()


@pytest.mark.parametrize("method", ["trace", "multiplicative", "spherical"])
@pytest.mark.parametrize(
    "family",
    [polynomial(1, 0.1), polynomial(1, 0.1) * linear(), total(linear() + polynomial(2)), gaussian(1.0)],
    ids=["linear", "product", "sum", "exponential"],
)
@pytest.mark.parametrize(("value", "spread"), [(0.0, 0.0), (0.3, 0.0), (1 / 3, 3e-9), (0.3, 1e-6)])
def test_of_a_constant_kernel_centring_leaves_nothing_to_normalise(X, value, spread, family, method):
    """What is left of it is rounding, whose trace and variance have any sign; 1e-6 leaves a kernel with digits."""
    X = value + spread * (X - 3.0)
    if spread < 1e-6 and method == "multiplicative":
        for held in ("memory", "lazy"):
            with pytest.raises(InvalidKernel, match="is constant on the training samples"):
                family.fit(X, normalize=method, center=True, storage=held)
    memory, lazy = (
        family.fit_normalized(X, Normalizer(method, True, vanish=method == "multiplicative"), held)
        for held in ("memory", "lazy")
    )
    for made in (memory, lazy):
        assert made.dense().any() == made.own_diagonals.any() == made.new(X + 1.0).any() == (spread == 1e-6)
    np.testing.assert_allclose(lazy.dense(), memory.dense(), atol=0.01 * memory.dense().max())


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("precision", "accuracy"), [("float64", 1e-12), ("float32", 1e-5)])
@pytest.mark.parametrize("room", [0, 7, 40])
def test_a_reader_finds_the_same_whatever_its_cache_holds(X, precision, accuracy, room, monkeypatch):
    monkeypatch.setattr("mklref.kernels.reader._AT_ONCE", 5 * 40)
    held = KERNELS.fit(X, normalize="trace")
    lazy = KERNELS.fit(X, normalize="trace", storage="lazy", precision=precision, cache=3 * room * 40 * 8)
    reader, rng = lazy.reader, np.random.default_rng(2)
    for count in (5, 12, 40, 9):
        index, delta = rng.permutation(40)[:count], rng.normal(size=count)
        v, kernels = np.zeros(40), np.array([0, 3, 5, 8])
        v[index] = delta
        images, weights = np.zeros((len(held), 40)), rng.random(len(held))
        reader.add(kernels, index, delta, images)
        expected = held.apply(v, kernels)
        np.testing.assert_allclose(images[kernels], expected, atol=accuracy * np.abs(expected).max())
        for one in (reader, Reader(held)):
            square = one.square(weights, index)
            np.testing.assert_array_equal(square, square.T)
            np.testing.assert_allclose(square, held.combine(weights)[np.ix_(index, index)], atol=accuracy)
            np.testing.assert_allclose(one.dense(index), held.block(index, index), atol=accuracy)
    size, row = sum(rows._data.nbytes for rows in reader._caches.values()), 2 * 40 * reader.itemsize  # of two kinds
    assert min(lazy.cache, 40 * row) - row < size <= lazy.cache


def test_threads_that_share_a_cache_read_the_rows_they_ask_for(X, monkeypatch):
    """The other thread reads when the first knows where its rows are, and has not yet copied them."""
    family, keep, seen = gaussian([1.0, 4.0]), _Rows.rows, []
    held, lazy = family.fit(X), family.fit(X, storage="lazy", cache=10 * 40 * 8)
    reader, first, rest = lazy.reader, np.arange(10), np.arange(10, 40)

    def read(index):
        images, v = np.zeros((2, 40)), np.zeros(40)
        v[index] = 1.0
        reader.add(np.arange(2), index, v[index], images)
        np.testing.assert_allclose(images, held.apply(v), rtol=1e-9)

    read(first)

    def interrupted(cache, index, columns=None):
        if not seen:
            seen.append(threading.Thread(target=lambda: [read(rest) for _ in range(3)]))
            seen[0].start()
            seen[0].join(timeout=0.5)
        return keep(cache, index, columns)

    monkeypatch.setattr(_Rows, "rows", interrupted)
    read(first)
    seen[0].join()


def test_a_cache_that_could_not_take_a_row_does_not_know_it():
    """As where memory is lacking: the place had the row of another sample, or of none, from then on."""

    class Full(np.ndarray):
        def __setitem__(self, *_):
            raise MemoryError

    cache = _Rows(2, 4, np.float64)
    cache.keep(np.arange(2), np.ones((2, 4)))
    cache._data = cache._data.view(Full)
    with pytest.raises(MemoryError):
        cache.keep(np.array([3]), np.zeros((1, 4)))
    assert not cache.known(np.array([3])).any()


def test_a_recipe_is_that_of_samples_kernels_and_statistics(X):
    """By it certificates know the kernels: what changes an entry changes it."""
    moved = X + np.eye(*X.shape)

    def made(family, samples=X, **options):
        return family.fit(samples, storage="lazy", **options)

    stacks = [made(gaussian(s)) for s in ([1.0, 4.0], [1.0, 4.0 + 1e-15])]
    stacks += [made(family, samples) for family in (linear(), laplacian(1.0)) for samples in (X, moved)]
    stacks += [made(linear(), normalize=how) for how in ("trace", "multiplicative", "spherical")]
    stacks += [made(linear(), center=True)]
    plain = made(linear())
    for change in ({"scale": 2.0}, {"scale": 3.0}, {"norms": np.ones(40)}, {"norms": np.arange(1.0, 41.0)}):
        fitted = replace(plain.fitted, transforms=(replace(plain.fitted.transforms[0], **change),))
        stacks.append(LazyStack(fitted, cache=0))
    assert len({stack.recipe for stack in stacks}) == len(stacks)
    spherical, again = stacks[8], made(linear(), normalize="spherical")
    for same in (again, pickle.loads(pickle.dumps(spherical)), spherical.part(range(40))):
        assert same.recipe == spherical.recipe


def test_a_copy_of_a_stack_that_was_read_has_a_reader_of_its_own(X):
    lazy = gaussian([1.0, 4.0]).fit(X, storage="lazy")
    v, expected = np.ones(40), lazy.apply(np.ones(40))
    assert lazy.reader
    for made in (pickle.loads(pickle.dumps(lazy)), copy.deepcopy(lazy), copy.copy(lazy)):
        assert made.reader is not lazy.reader
        images = np.zeros((2, 40))
        made.reader.add(np.arange(2), np.arange(40), v, images)
        np.testing.assert_allclose(images, expected, rtol=1e-12)


def test_a_cache_goes_with_the_last_name_of_its_stack(X):
    """It may be most of the memory, and waits for no garbage collection."""
    lazy = gaussian([1.0, 4.0]).fit(X, storage="lazy")
    lazy.reader.square(np.ones(2), np.arange(40))
    cache = weakref.ref(lazy.reader)
    del lazy
    assert cache() is None


def test_rows_in_the_cache_are_not_evaluated_again(X, monkeypatch):
    lazy = gaussian([1.0, 2.0]).fit(X, storage="lazy", cache=np.int64(25 * 40 * 8))
    made, squares = [], Block._squares
    monkeypatch.setattr("mklref.kernels.reader._AT_ONCE", 5 * 40)
    monkeypatch.setattr(
        "mklref.kernels.evaluation.Block._squares",
        lambda self, columns: made.append(self.shape[0]) or squares(self, columns),
    )
    reader, every = lazy.reader, np.arange(40)
    for _ in range(3):
        reader.add(np.arange(2), every, np.ones(40), np.zeros((2, 40)))
    assert sum(made) == 40 + 2 * 15
    made.clear()
    lazy = gaussian(1.0).fit(X, storage="lazy", cache=20 * 40 * 8)
    tens = np.arange(40).reshape(4, 10)  # the third ten take the place of the second, which was used before the first
    for index in (*tens[[0, 1, 0, 2, 0, 2]], np.r_[30:35, tens[0]]):  # of the first, those that are here are read first
        lazy.reader.add(np.arange(1), index, np.ones(len(index)), np.zeros((1, 40)))
    assert sum(made) == 35


def test_the_exponential_is_accurate_to_its_bound():
    grids = {np.float64: -np.concatenate([np.geomspace(1e-300, 708, 700), [0.0, 0.3465735, 707.9]])}
    grids[np.float32] = -np.geomspace(1e-30, 87, 500).astype(np.float32)
    for real, x in grids.items():
        found = evaluation.exponential(x.astype(real))
        with flint.ctx.workprec(200):
            exact = [flint.arb(float(value)).exp() for value in x]
            worst = max(float(abs(flint.arb(float(one)) / e - 1).mid()) for one, e in zip(found, exact, strict=True))
        assert worst <= evaluation.EXP_ERROR * float(np.finfo(real).eps) / 2.0
        np.testing.assert_array_equal(evaluation.exponential(real([-1e4, -np.inf])), 0.0)


@pytest.mark.parametrize("real", [np.float64, np.float32])
def test_the_compiled_exponentials_have_the_bits_of_their_twins(real):
    rng = np.random.default_rng(0)
    D = (rng.random((7, 600)) * 1000.0).astype(real)
    D[0, :3] = np.inf, np.nan, 0.0
    rates, factors, v = -np.array([1.0, 0.1, 1e-3]), np.array([1.0, 0.3, 2.0]), rng.normal(size=7)
    for name, arguments in {
        "exponentials": (rates, factors, np.zeros((3, 7, 600), real)),
        "exponential_sum": (rates, factors, np.zeros((7, 600))),
        "exponential_dots": (rates, factors, v, np.zeros((3, 600))),
        "squares": (np.arange(7).astype(real), np.arange(600).astype(real)),
    }.items():
        results = []
        for module in (evaluation.compiled, evaluation.Twin):
            own = [D.copy(), *(argument.copy() for argument in arguments)]
            getattr(module, name)(*own, 2)
            results.append(own[0] if name == "squares" else own[-1])
        np.testing.assert_array_equal(*results, err_msg=name)


def test_forms_of_exponentials_are_sums_over_the_upper_triangle():
    rng = np.random.default_rng(0)
    D, rates, v = rng.random((600, 600)) * 1000.0, -np.array([1.0, 0.1, 1e-3]), rng.normal(size=600)
    D[3, 7] = np.inf
    D = np.triu(D, 1) + np.triu(D, 1).T
    whole = D + np.where(np.tri(600, k=-1) > 0.0, 1.0, 0.0)  # nobody reads the lower triangle
    found = [np.empty((600, 3)) for _ in range(2)]
    for module, terms in zip((evaluation.compiled, evaluation.Twin), found, strict=True):
        module.exponential_forms(whole, rates, v, terms, 2)
    np.testing.assert_allclose(*found, rtol=1e-12, atol=1e-12)
    exact = [v @ evaluation.exponential(rate * D) @ v for rate in rates]
    np.testing.assert_allclose(found[0].sum(axis=0), exact, rtol=1e-11)


def test_errors_of_entries_are_within_their_bounds(X):
    """Against ball arithmetic of 100 digits, at far-off samples where distances cancel."""
    far = X[:6] * 1e3
    lazy = (gaussian([300.0, 3e4]) + laplacian(2e4) + linear() + polynomial(3) + linear() * linear()).fit(
        far, storage="lazy"
    )
    assert lazy.definiteness == "by theorem"
    assert lazy.entry_errors.max() < 1e-6
    blocks, d = lazy.block(None), np.sqrt(lazy.own_diagonals)
    with flint.ctx.workprec(400):
        samples = [[flint.arb(float(value)) for value in row] for row in far]
        for m, kernel in enumerate(lazy.fitted.kernels):
            for i, x in enumerate(samples):
                for j, z in enumerate(samples):
                    product = sum((a * b for a, b in zip(x, z, strict=True)), flint.arb(0))
                    exact = {
                        "Gaussian": lambda x=x, z=z, k=kernel: (
                            -sum(((a - b) ** 2 for a, b in zip(x, z, strict=True)), flint.arb(0))
                            / (2 * flint.arb(float(k.width)) ** 2)
                        ).exp(),
                        "Laplacian": lambda x=x, z=z, k=kernel: (
                            -sum((abs(a - b) for a, b in zip(x, z, strict=True)), flint.arb(0)) / float(k.width)
                        ).exp(),
                        "Linear": lambda p=product: p,
                        "Polynomial": lambda p=product: (p + 1) ** 3,
                        "Product": lambda p=product: p * p,
                    }[type(kernel).__name__]()
                    error = float(abs(flint.arb(float(blocks[m, i, j])) - exact).mid())
                    assert error <= lazy.entry_errors[m] * d[m, i] * d[m, j]


def test_bounds_of_the_errors_of_entries_count_what_is_rounded(rng):
    """d roundings in a sum over variables, what a power, the constant or its rate make of them, and those of exp."""
    X, e = rng.normal(size=(9, 60)), evaluation.EXP_ERROR
    largest = 4.0 * ((X - X.mean(axis=0)) ** 2).sum(axis=1).max()
    counted = {linear(): 60, polynomial(1): 61, polynomial(5): 5 * 61}
    counted |= {gaussian(0.1): largest * 60 / 0.02, gaussian(1e9): e, laplacian(0.1): 0.4 * 60 + e}
    for family, roundings in counted.items():
        (kernel,) = family.expand([""] * 60)
        assert 1.0 <= kernel.entry_error(X) / (roundings * 2.0**-52) < 2.1, family


def test_distances_of_equal_samples_are_0_and_those_of_one_variable_do_not_cancel(X):
    lazy, every = gaussian(1.0).fit(1e3 * X, storage="lazy"), np.arange(40)
    for columns in (np.roll(every, k) for k in range(40)):
        np.testing.assert_array_equal(lazy.block(every, columns)[0, columns, every], 1.0)
    apart = gaussian(1.0).fit([[0.0], [1e9], [1e9 + 1.0]], storage="lazy")
    assert apart.block([1], [2])[0, 0, 0] == pytest.approx(np.exp(-0.5), rel=1e-15)


def test_errors_of_a_part_are_those_around_the_mean_of_the_whole():
    rng = np.random.default_rng(0)
    near = 1e-3 * rng.normal(size=(5, 2))
    part = gaussian(1e-3).fit(np.r_[near, rng.normal(size=(5, 2)) + 1e4], storage="lazy").part(np.arange(5))
    wrong = np.abs(part.dense()[0] - np.exp(-((near[:, None] - near) ** 2).sum(axis=2) / 2e-6))
    assert 1e-4 < wrong.max() <= part.entry_errors[0]


@pytest.mark.parametrize("regularizer", ["l1", "uniform"])
def test_certificates_of_lazy_kernels_are_those_in_memory(X, regularizer):
    rng = np.random.default_rng(3)
    y = np.where(X[:, 0] - 3.0 + 0.3 * rng.normal(size=40) > 0.0, 1.0, -1.0)
    family = gaussian([2.0, 5.0]) + linear() + per_variable(gaussian(1.0))
    held, lazy = (family.fit(X, normalize="trace", storage=storage) for storage in ("memory", "lazy"))
    problem = Problem(held, y, C=1e3, regularizer=regularizer)
    answer = solve(problem, tol=1e-8)
    same = problem.replace(kernels=lazy)
    found = certify(same, answer.dual_coef, weights=answer.weights, intercept=answer.intercept)
    assert found.definiteness == "by theorem"
    assert found.lower == pytest.approx(answer.certificate.lower, rel=1e-9)
    assert found.upper == pytest.approx(answer.certificate.upper, rel=1e-9)
    proven = certify(same, answer.dual_coef, weights=answer.weights, intercept=answer.intercept, rigorous=True)
    assert proven.tier == 1
    assert proven.lower <= answer.certificate.upper
    assert proven.is_optimal(1e-6)
    v, u = 1.0 * (y > 0), (y < 0) * np.arange(40) % 2  # some of those where v is 0
    np.testing.assert_allclose(lazy.images(v) @ u, held.images(v) @ u, rtol=1e-12)
    nothing = certify(same, np.zeros(40), weights=answer.weights, intercept=0.0)  # no row is read
    assert nothing == certify(problem, np.zeros(40), weights=answer.weights, intercept=0.0)


def test_memory_is_that_of_a_few_blocks():
    lazy = gaussian([1.0, 2.0, 4.0]).fit(np.random.default_rng(0).normal(size=(3000, 12)), storage="lazy")
    v = np.zeros(3000)
    v[:900] = 1.0
    lazy.apply(v)
    tracemalloc.start()
    try:
        lazy.apply(v)
        lazy.combine_rows(np.ones(3), np.arange(100))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 4 * 8 * 2**23 < 3 * 8 * 3000**2 * 2


@pytest.mark.parametrize(
    ("options", "error", "says"),
    [
        ({"storage": "disk"}, InvalidParameter, "storage = 'disk' is unknown; known names: memory, lazy, auto"),
        ({"storage": "lazy", "cache": "2 apples"}, InvalidParameter, "cache = '2 apples' is not understood"),
        ({"storage": "lazy", "cache": "900TB"}, InvalidParameter, "the memory that is free: cache='.*' would fit"),
        ({"storage": "lazy", "cache": -1}, InvalidParameter, "cache = -1 must lie in"),
        ({"storage": "lazy", "cache": None, "precision": "half"}, InvalidParameter, "precision = 'half' is unknown"),
        ({"storage": "memory", "precision": "half"}, InvalidParameter, "precision = 'half' is unknown"),
        ({"storage": "lazy", "cache": [1]}, InvalidType, r"cache is \[1\] \(list\); give a number"),
    ],
)
def test_bad_options(X, options, error, says):
    with pytest.raises(error, match=says):
        gaussian(1.0).fit(X, **options)


def test_an_entry_that_overflows_late_is_named(X):
    wide = X.copy()
    wide[17, 2] = 1e120
    lazy = polynomial(3).fit(wide, storage="lazy")
    v = 1.0 * np.isin(np.arange(40), [4, 17])
    for use in (lambda: lazy.apply(v), lambda: lazy.combine_rows(np.ones(1), [4])):
        with pytest.raises(InvalidInput, match=r"kernel 'poly:3' is inf between the samples 4 and 17"):
            use()
    with pytest.raises(InvalidInput, match=r"kernel 'poly:3' is (nan|inf) between the samples 17 and 17"):
        solve(Problem(lazy, np.where(np.arange(40) % 2, 1.0, -1.0)))


def test_the_squares_of_all_of_a_part_are_computed_once(X, monkeypatch):
    """Where there is room for the distances, other weights need no others; the entries are those in memory."""
    assert storage.checked_cache("1KB", 40) == storage.checked_cache("0.001mb", 40) == 1000
    lazy = gaussian([1.0, 2.0]).fit(X, storage="lazy", cache="1MB")
    held, some = gaussian([1.0, 2.0]).fit(X), np.arange(5, 35)
    part, made, squares = lazy.part(some), [], Block._squares
    monkeypatch.setattr(
        "mklref.kernels.evaluation.Block._squares",
        lambda self, columns: made.append(self.shape) or squares(self, columns),
    )
    weights = np.array([0.3, 0.7])
    for _ in range(2):
        found = part.reader.square(weights, np.arange(30))
        np.testing.assert_allclose(found, held.combine(weights)[np.ix_(some, some)], rtol=1e-12)
    assert made == [(30, 30)]
    np.testing.assert_allclose(part.reader.dense(np.arange(3, 9)), held.block(some[3:9], some[3:9]), rtol=1e-12)
