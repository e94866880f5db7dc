"""Families of kernels: definitions, order and names, test kernels that match, SimpleMKL's recipe."""

from __future__ import annotations

import tracemalloc
from dataclasses import dataclass
from fractions import Fraction
from functools import reduce
from operator import mul

import numpy as np
import pytest
from makers import Frame, make_samples

from mklref import kernels
from mklref.certificate.definite import missing
from mklref.estimators.gram import normalized, part, unexplained
from mklref.exceptions import InvalidInput, InvalidKernel, InvalidParameter, InvalidType
from mklref.kernels import (
    ArrayStack,
    Kernel,
    KernelFamily,
    function as function_of,
    gaussian,
    linear,
    on,
    parse,
    per_variable,
    polynomial,
    simplemkl_recipe,
    total,
)
from mklref.kernels.evaluation import Block
from mklref.kernels.transforms import Normalizer
from mklref.problem import Problem

N, NEW, D = 14, 5, 3


@pytest.fixture
def X(rng):
    return make_samples(rng, N, D)


@pytest.fixture
def X_new(rng):
    return make_samples(rng, NEW, D) + 0.1


def by_definition(function, X, Z):
    return np.array([[function(x, z) for z in Z] for x in X])


DEFINITIONS = [
    (linear(), ["linear"], [lambda x, z: x @ z]),
    (polynomial(2), ["poly:2"], [lambda x, z: (x @ z + 1.0) ** 2]),
    (polynomial(3, offset=0.5), ["poly:3(offset 0.5)"], [lambda x, z: (x @ z + 0.5) ** 3]),
    (gaussian(0.7), ["rbf:0.7"], [lambda x, z: np.exp(-((x - z) @ (x - z)) / (2 * 0.7**2))]),
    (
        gaussian([0.5, 3.0]) + polynomial([1, 3]),
        ["rbf:0.5", "rbf:3", "poly:1", "poly:3"],
        [
            lambda x, z: np.exp(-((x - z) @ (x - z)) / 0.5),
            lambda x, z: np.exp(-((x - z) @ (x - z)) / 18.0),
            lambda x, z: x @ z + 1.0,
            lambda x, z: (x @ z + 1.0) ** 3,
        ],
    ),
    (
        linear() + per_variable(gaussian(2.0) + linear()),
        ["linear", "rbf:2[x0]", "linear[x0]", "rbf:2[x1]", "linear[x1]", "rbf:2[x2]", "linear[x2]"],
        [
            lambda x, z: x @ z,
            *(
                function
                for j in range(D)
                for function in (lambda x, z, j=j: np.exp(-((x[j] - z[j]) ** 2) / 8.0), lambda x, z, j=j: x[j] * z[j])
            ),
        ],
    ),
    (2.0 * linear(), ["2*linear"], [lambda x, z: 2.0 * (x @ z)]),
    (
        (linear() + polynomial(2)) * gaussian([1.0, 2.0]),
        ["linear*rbf:1", "linear*rbf:2", "poly:2*rbf:1", "poly:2*rbf:2"],
        [
            lambda x, z, degree=degree, width=width: (
                (x @ z + degree - 1.0) ** degree * np.exp(-((x - z) @ (x - z)) / (2 * width**2))
            )
            for degree in (1, 2)
            for width in (1.0, 2.0)
        ],
    ),
    (
        total(per_variable(0.5 * linear())) + linear() * 3,
        ["total(0.5*linear[x0], 0.5*linear[x1], 0.5*linear[x2])", "3*linear"],
        [lambda x, z: 0.5 * (x @ z), lambda x, z: 3.0 * (x @ z)],
    ),
]


@pytest.mark.parametrize(("family", "names", "functions"), DEFINITIONS, ids=lambda value: str(value)[:20])
def test_families_are_the_functions_of_their_definitions(family, names, functions, X, X_new):
    K = family.fit(X)
    new = K.new(X_new)
    assert list(K.names) == names
    assert K.shape == (len(names), N, N)
    assert new.shape == (len(names), NEW, N)
    for m, function in enumerate(functions):
        np.testing.assert_allclose(K.matrices[m], by_definition(function, X, X), rtol=1e-12, atol=1e-14)
        np.testing.assert_allclose(new[m], by_definition(function, X_new, X), rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("normalization", [None, "trace", "multiplicative", "spherical"])
@pytest.mark.parametrize("centred", [False, True])
def test_new_kernels_of_the_training_samples_are_the_training_kernels(X, normalization, centred):
    family = linear() + polynomial(2, offset=0.3) + per_variable(polynomial(2) + gaussian(1.0))
    K = family.fit(X, normalize=normalization, center=centred)
    np.testing.assert_allclose(K.new(X), K.dense(), rtol=1e-9, atol=1e-12)


def test_the_gaussian_keeps_its_digits_far_from_the_origin(X):
    """Squared distances by ||x||^2 + ||z||^2 - 2 x'z would lose ten digits here."""
    far = gaussian(0.5).fit(X + 1e5)
    np.testing.assert_allclose(far.matrices[0], gaussian(0.5).fit(X).matrices[0], rtol=1e-8)


@pytest.mark.parametrize("n", [14, 301])
def test_training_kernels_are_exactly_symmetric_and_the_gaussian_has_unit_diagonal(rng, n):
    for matrix in (gaussian([0.3, 2.0]) + per_variable(gaussian(0.7))).fit(make_samples(rng, n)).matrices:
        np.testing.assert_array_equal(matrix, matrix.T)
        np.testing.assert_array_equal(np.diagonal(matrix), 1.0)


def test_training_kernels_lie_in_one_array_and_make_a_problem(X):
    K = gaussian([0.5, 1.0, 2.0]).fit(X)
    assert all(np.shares_memory(K.dense(), matrix) for matrix in K.matrices)
    assert repr(K) == "FamilyStack(shape=(3, 14, 14), dtype=float64)"
    problem = Problem(K, np.where(np.arange(N) % 2, 1.0, -1.0))
    assert problem.kernels is K


def test_samples_are_never_written_to(X, X_new):
    before, before_new = X.copy(), X_new.copy()
    X.flags.writeable = X_new.flags.writeable = False
    K, new = simplemkl_recipe(X, X_new)
    new *= 2.0
    np.testing.assert_array_equal(X, before)
    np.testing.assert_array_equal(X_new, before_new)
    np.testing.assert_array_equal(K.new(X_new), new / 2.0)


def test_columns_of_a_frame_name_the_variables(X):
    K = (linear() + per_variable(linear())).fit(Frame(X, ("age", "mass", 3)))
    assert K.names == ("linear", "linear[age]", "linear[mass]", "linear[3]")


def test_the_recipe_has_thirteen_kernels_on_all_variables_and_on_each(X, X_new):
    K, new = simplemkl_recipe(X, X_new)
    np.testing.assert_allclose(K.traces(), 1.0, rtol=1e-13)
    functions = [
        *(
            lambda x, z, s=sigma: np.exp(-np.sum((x - z) ** 2) / (2 * s**2))
            for sigma in (0.5, 1, 2, 5, 7, 10, 12, 15, 17, 20)
        ),
        *(lambda x, z, d=degree: (np.sum(x * z) + 1.0) ** d for degree in (1, 2, 3)),
    ]
    views = [slice(None), *([j] for j in range(D))]
    expected = [(function, view) for view in views for function in functions]
    assert len(K) == len(new) == len(expected) == 13 * (D + 1)
    for m, (function, view) in enumerate(expected):
        raw = by_definition(function, X[:, view], X[:, view])
        raw_new = by_definition(function, X_new[:, view], X[:, view])
        np.testing.assert_allclose(K.matrices[m], raw / np.trace(raw), rtol=1e-11)
        np.testing.assert_allclose(new[m], raw_new / np.trace(raw), rtol=1e-11)
    assert K.names[:2] == ("rbf:0.5", "rbf:1")
    assert K.names[12:14] == ("poly:3", "rbf:0.5[x0]")
    alone, new_alone = simplemkl_recipe(X, X_new, single_variables=False)
    np.testing.assert_array_equal(alone.dense(), simplemkl_recipe(X).dense()[:13])
    np.testing.assert_array_equal(new_alone, new[:13])


def test_gaussians_share_their_distances(X, X_new, calls_of):
    """One matrix of them for all widths on the same columns, whatever lies between; values as of each kernel alone."""
    counted = calls_of(Block, "_squares")
    pair = on("pair", ["x2", "x0"], gaussian([1.0, 2.0]) + per_variable(gaussian([0.5, 1.0])))
    family = gaussian([0.5, 1.0]) + linear() + gaussian(2.0) + pair + per_variable(polynomial(2) + gaussian([1.0, 3.0]))
    K = family.fit(X)
    assert len(counted) == 2 + D
    new = K.new(X_new)
    assert len(counted) == 2 + D + 1 + (1 + 2) + (D - 1)  # x0 ends one family and begins the next
    for m, kernel in enumerate(family.expand(["x0", "x1", "x2"])):
        np.testing.assert_allclose(K.matrices[m], kernel.cross(X, X), rtol=1e-12, atol=1e-13)
        np.testing.assert_allclose(new[m], kernel.cross(X_new, X), rtol=1e-12, atol=1e-13)
    some = list(K.fitted.rows(X_new, [0, 3, 5, 6]))
    np.testing.assert_array_equal(some, new[[0, 3, 5, 6]])
    nested = on("two", ["x2", "x1"], on("one", [1], gaussian(0.7))).fit(X)
    np.testing.assert_allclose(nested.matrices[0], gaussian(0.7).fit(X[:, [1]]).matrices[0], rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("options", [{}, {"normalize": "spherical", "center": True}])
def test_memory_beside_the_stack(rng, options):
    """Five matrices of order n, whatever the number of kernels."""
    samples = make_samples(rng, 300, 4)
    family = gaussian(np.geomspace(0.5, 4.0, 9)) + polynomial(2) + per_variable(gaussian(1.0))
    family.fit(samples[:9], **options)  # imports
    tracemalloc.start()
    try:
        K = family.fit(samples, **options)
        peak = tracemalloc.get_traced_memory()[1]
        before = tracemalloc.get_traced_memory()[0]
        tracemalloc.reset_peak()
        new = K.new(samples)
        later = tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()
    assert peak < K.dense().nbytes + 5.2 * 8 * 300**2
    assert later < 1.6 * new.nbytes


@dataclass(frozen=True)
class Wrong(Kernel):
    """What `shape` makes of the matrix."""

    shape: object

    def cross(self, X, Z):
        return self.shape(X @ Z.T)


@pytest.mark.parametrize("storage", ["memory", "lazy"])
@pytest.mark.parametrize(
    ("shape", "words"),
    [
        (lambda K: K[:-1], "returned shape .* for .* samples; it takes two matrices"),
        (lambda K: K[0], "returned shape .* for .* samples; it takes two matrices"),
        (lambda K: None, "is None; give real numbers"),
        (lambda K: 1j * K, "complex data; give real numbers"),
        (lambda K: K + np.arange(len(K))[:, None], r"is not symmetric: k\(x, z\) and k\(z, x\) differ by"),
        (lambda K: np.exp(K / np.abs(K).mean()), r"is no function of two samples: k\(x, z\) is .* alone\. Fix means"),
    ],
)
def test_a_kernel_of_ones_own_that_returns_something_else_is_named(X, storage, shape, words):
    with pytest.raises((InvalidInput, InvalidKernel, InvalidType), match=rf"kernel .*Wrong.* {words}"):
        Wrong(shape).fit(X, storage=storage, normalize="trace")


class Diagonal(Kernel):
    def __init__(self, own):
        self.own = own

    def cross(self, X, Z):
        return X @ Z.T

    def diagonal(self, X):
        return self.own(X)


@pytest.mark.parametrize("own", [lambda X: np.full(len(X), 7.0), lambda X: np.full(len(X), np.nan), lambda X: X[0]])
def test_a_diagonal_of_ones_own_is_that_of_the_kernel(X, own):
    """Spherical kernels were one thing in memory and another one elsewhere."""
    with pytest.raises(InvalidKernel, match=r"has the diagonal array.* but k\(x, x\) is"):
        Diagonal(own).fit(X, normalize="spherical")


@pytest.mark.parametrize("storage", ["memory", "lazy"])
def test_samples_are_those_that_were_given(X, storage):
    """Whatever their owner, or a kernel, writes to them."""
    with pytest.raises(InvalidKernel, match="'<lambda>' writes to the samples"):
        function_of(lambda X, Z: np.multiply(X, 2.0, out=X) @ Z.T).fit(X, storage=storage)
    mine, new = X.copy(), X[:2].copy()
    made = gaussian(1.0).fit(mine, storage=storage)
    mine[:] = 0.0
    np.testing.assert_array_equal(made.new(new), gaussian(1.0).fit(X, storage=storage).new(new))


@pytest.mark.parametrize("of_vectors", [lambda x, z: float(x @ z), np.dot])
def test_a_function_of_two_vectors_is_told_that_it_takes_matrices(X, of_vectors):
    with pytest.raises(InvalidInput, match=r"failed on matrices (?s:.*); it takes two matrices, one sample a row"):
        kernels.function(of_vectors).fit(X)


def test_a_function_of_matrices_is_a_kernel_where_it_is_symmetric(X):
    np.testing.assert_allclose(function_of(lambda X, Z: X @ Z.T).fit(X).dense()[0], X @ X.T, rtol=1e-12, atol=1e-14)
    rounded = 1.0 + 4e-16 * np.triu(np.ones((3, 3)))  # beside entries of 0
    function_of(lambda X, Z: X @ rounded @ Z.T).fit(np.eye(9, 3))
    with pytest.raises(InvalidKernel, match=r"kernel '<lambda>' is not symmetric: .*\[0, 1\]"):  # at one of many
        function_of(lambda X, Z: X @ Z.T + (X == 1.0)).fit(np.arange(99.0)[:, None])


@pytest.mark.parametrize("error", [0.0, 1e-3])
@pytest.mark.parametrize("count", [2, 5])
def test_errors_of_a_product_are_those_of_its_parts_and_of_rounding(X, error, count, monkeypatch):
    (kernel,) = reduce(mul, [linear()] * count).expand([""] * X.shape[1])
    monkeypatch.setattr(type(linear().expand([""])[0]), "entry_error", lambda *_: error)
    of_parts, rounded = Fraction(1 + Fraction(error)) ** count, 1 + Fraction(1, 2**53)
    known, found = of_parts * rounded ** (count - 1) - 1, Fraction(kernel.entry_error(X))
    assert known <= found <= known + Fraction(6 * count, 2**53)


def test_a_kernel_of_ones_own_that_is_nan_somewhere_is_not_said_to_depend_on_other_samples(X):
    with pytest.raises((InvalidInput, InvalidKernel), match=r"overflows float64|is nan"):
        Wrong(lambda K: np.where(K[0, -1] < K, np.nan, K)).fit(X)


@dataclass(frozen=True)
class Cauchy(Kernel):
    """k(x, z) = 1 / (1 + ||x - z||^2 / width^2): a kernel of one's own, by one method."""

    width: float

    def cross(self, X, Z):
        return 1.0 / (1.0 + ((X[:, None] - Z) ** 2).sum(axis=-1) / self.width**2)


def test_a_kernel_that_is_made_from_another_with_another_cross_is_not_taken_for_it(X):
    parent = type(gaussian(1.0))
    for factor in (1.0, -1.0):
        own = {"cross": lambda self, X, Z, s=factor: s * X @ Z.T}
        for made in (type("Made", (parent,), own), type("Mixed", (type("Mixin", (), own), parent), {})):
            np.testing.assert_allclose(made(1.0).fit(X).dense()[0], factor * X @ X.T)
    with pytest.raises(InvalidKernel, match="not positive semidefinite"):
        Problem(made(1.0).fit(X), np.where(np.arange(len(X)) % 2, 1.0, -1.0))


def test_a_kernel_of_ones_own_needs_one_method(X, X_new):
    K = (Cauchy(0.5) + 2.0 * Cauchy(2.0) * linear() + per_variable(Cauchy(1.0))).fit(X, normalize="spherical")
    assert K.names[:3] == ("Cauchy(width=0.5)", "2*Cauchy(width=2.0)*linear", "Cauchy(width=1.0)[x0]")
    np.testing.assert_allclose(np.diagonal(K.matrices, axis1=1, axis2=2), 1.0)
    np.testing.assert_allclose(K.new(X)[0], K.matrices[0], rtol=1e-12, atol=1e-14)
    assert not any(kernel.definite for kernel in K.fitted.kernels)
    assert Problem(K, np.where(X[:, 0] > 0, 1, -1)).n_kernels == 5
    np.testing.assert_allclose(K.diagonals(X_new), 1.0)
    slanted = Wrong(lambda K: K * (1.0 + 1e-15 * np.arange(K.shape[1]))).fit(X).dense()[0]
    np.testing.assert_array_equal(slanted, slanted.T)


@pytest.mark.parametrize("center", [False, True])
@pytest.mark.parametrize("normalize", [None, "spherical", "multiplicative"])
def test_with_its_slack_a_kernel_that_is_definite_is_it_as_a_matrix(normalize, center, rng):
    """Also around means whose squares are 1e8 times the variance, and as others make stacks of the same matrices."""
    X = 1e4 + rng.normal(size=(30, 2))
    how, every = Normalizer(normalize, center), np.arange(30)
    family = linear() + gaussian([100.0, 1e4])
    raw, own = family.fit(X), family.fit(X, normalize=normalize, center=center)
    made = normalized(ArrayStack.trusted(raw.matrices, raw.names), raw.fitted, how)[0]
    fold = part(raw.dense(), raw.names, every, every[:1], how, unexplained(raw))[0]
    for K in (own, made, fold, own.part(every[:20])):
        assert max(map(missing, K.matrices)) > 0.0
        for matrix, s in zip(K.matrices, K.slack, strict=True):
            assert missing(matrix + np.diag(s)) == 0.0
    np.testing.assert_allclose(ArrayStack.trusted(raw.matrices).slack, raw.slack)
    plain = kernels.center(raw.dense()) if center else raw.dense()
    unit = own.own_diagonals / np.diagonal(plain, axis1=1, axis2=2)  # k(x, x), means and total are about alike
    np.testing.assert_allclose(own.slack, (3.0 if center else 1.0) * unit * raw.slack, rtol=1e-2)
    if center and normalize == "spherical":
        found = [transform._rounding for transform in own.fitted.transforms]
        assert found == pytest.approx(8.0 * np.finfo(float).eps * raw.traces(), rel=1e-6, abs=0.0)
    np.testing.assert_allclose(made.slack, own.slack, rtol=1e-6)
    np.testing.assert_allclose(fold.slack, own.slack, rtol=1e-6)
    np.testing.assert_array_equal(own.part(every[:20]).slack, own.slack[:, :20])


def test_kernels_of_ones_own_have_the_slack_that_a_factorisation_says(X):
    assert (Cauchy(0.5) + linear()).fit(X).slack.any(axis=1).tolist() == [False, True]


@pytest.mark.parametrize("factor", [0, -1.0, np.inf, np.nan])
def test_a_multiple_is_positive(factor):
    with pytest.raises(InvalidParameter, match=r"factor = .* must lie in \(0, inf\)"):
        factor * linear()


@pytest.mark.parametrize("other", ["linear", None, True, [1.0, 2.0]])
def test_kernels_compose_with_kernels_and_numbers_alone(other):
    for compose in (KernelFamily.__add__, KernelFamily.__mul__):
        assert compose(linear(), other) is NotImplemented


@pytest.mark.parametrize(
    ("text", "d"), [(" * ".join(["rbf:0.1..10:101"] * 9), 1), ("per_variable(poly:1..1000)", 2000)]
)
def test_more_kernels_than_any_problem_has_are_refused_before_they_are_made(text, d):
    with pytest.raises(InvalidParameter, match=r"the kernels are \d+, of which at most 1000000 are made"):
        parse(text).expand([f"x{j}" for j in range(d)])
