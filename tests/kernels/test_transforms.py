"""Normalisation and centring: definitions, and test kernels that use the statistics of the training samples."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from makers import make_kernels, make_samples

from mklref import Problem, solve
from mklref.certificate.definite import missing
from mklref.estimators.gram import normalized, part, raw_precomputed, unexplained
from mklref.evidence import EvidenceProblem, solve as learn
from mklref.exceptions import InvalidInput, InvalidKernel, InvalidParameter, InvalidTarget, InvalidType
from mklref.kernels import ArrayStack, center, diagnose, gaussian, linear, normalize, stack
from mklref.kernels.transforms import Normalizer
from mklref.synthesis import SynthesisProblem

METHODS = ("trace", "multiplicative", "spherical")
N, NEW = 17, 6


@pytest.fixture
def joint(rng):
    """Kernels on training and new samples together, (M, N + NEW, N + NEW)."""
    return make_kernels(rng, make_samples(rng, N + NEW), M=3)


def split(joint):
    """Training kernels, test kernels and the diagonal of the new samples."""
    return joint[:, :N, :N], joint[:, N:, :N], np.diagonal(joint[:, N:, N:], axis1=1, axis2=2)


def features(K):
    """Feature vectors of a Gram matrix, one a row."""
    values, vectors = np.linalg.eigh(K)
    return vectors * np.sqrt(np.maximum(values, 0.0))


def normalised_features(joint, method, centred, n=N):
    """What each normalisation does to feature vectors, with statistics of the first n samples."""
    Phi = features(joint)
    if centred:
        Phi = Phi - Phi[:n].mean(axis=0)
    if method == "trace":
        return Phi / np.sqrt((Phi[:n] ** 2).sum())
    if method == "multiplicative":
        return Phi / np.sqrt(((Phi[:n] - Phi[:n].mean(axis=0)) ** 2).sum(axis=1).mean())
    if method == "spherical":
        return Phi / np.linalg.norm(Phi, axis=1, keepdims=True)
    return Phi


@pytest.mark.parametrize("method", [*METHODS, None])
def test_normalisation_and_centring_in_feature_space(joint, method):
    K, K_new, diagonal_new = split(joint)
    train, new = normalize(K, method, K_new, diagonal_new) if method else center(K, K_new)
    for m in range(3):
        Phi = normalised_features(joint[m], method, centred=method is None)
        np.testing.assert_allclose(train.matrices[m], Phi[:N] @ Phi[:N].T, rtol=1e-9, atol=1e-10)
        np.testing.assert_allclose(new[m], Phi[N:] @ Phi[:N].T, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("method", [*METHODS, None])
@pytest.mark.parametrize("centred", [False, True])
def test_a_sample_of_weight_2_counts_as_two_of_weight_1(joint, method, centred):
    weight = 1.0 + np.arange(N) % 3
    copies = np.repeat(np.arange(N), weight.astype(int))
    everybody, n = np.r_[copies, N : N + NEW], len(copies)
    K, K_new, diagonal_new = (part[0] for part in split(joint))
    found = Normalizer(method, centred, weight).fit(K, "K")
    Phi = normalised_features(joint[0][np.ix_(everybody, everybody)], method, centred, n)
    np.testing.assert_allclose(found.train(K)[np.ix_(copies, copies)], Phi[:n] @ Phi[:n].T, rtol=1e-9, atol=1e-10)
    np.testing.assert_allclose(found.new(K_new, diagonal_new)[:, copies], Phi[n:] @ Phi[:n].T, rtol=1e-9, atol=1e-10)
    np.testing.assert_allclose(found.own(diagonal_new, K_new), (Phi[n:] ** 2).sum(axis=1), rtol=1e-9)


@pytest.mark.parametrize("scale", [1e-150, 1.0, 1e150])
def test_what_each_normalisation_promises(joint, scale):
    K = scale * joint
    np.testing.assert_allclose(normalize(K, "trace").traces(), 1.0, rtol=1e-13)
    for matrix in normalize(K, "multiplicative").matrices:
        assert np.diagonal(matrix).mean() - matrix.mean() == pytest.approx(1.0, rel=1e-12)
    for matrix in normalize(K, "spherical").matrices:
        np.testing.assert_array_equal(np.diagonal(matrix), 1.0)
    for matrix in center(K).matrices:
        np.testing.assert_allclose(matrix.sum(axis=0), 0.0, atol=1e-12 * scale)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_results_are_exactly_symmetric_in_the_given_precision(joint, method, dtype):
    for result in (normalize(joint.astype(dtype), method), center(joint.astype(dtype))):
        assert result.dtype == dtype
        for matrix in result.matrices:
            np.testing.assert_array_equal(matrix, matrix.T)
    K = (1.0 + 1e-3 * joint).astype(dtype)  # of which only sums in float64 leave a variance with digits
    exact = normalize(K.astype(np.float64), method).dense()
    np.testing.assert_allclose(normalize(K, method).dense(), exact, rtol=1e-6)


@pytest.mark.parametrize("change", [lambda K, *new: normalize(K, "multiplicative", *new), center])
def test_the_answer_has_the_form_of_the_question(joint, change):
    K, K_new, _ = split(joint)
    named = stack(K, names=["a", "b", "c"])
    assert isinstance(change(K), ArrayStack)
    assert change(named).names == ("a", "b", "c")
    single, single_new = change(K[1], K_new[1])
    assert single.shape == (N, N)
    np.testing.assert_array_equal(change(K[1]), single)
    train, new = change(K, K_new)
    np.testing.assert_array_equal(train.matrices[1], single)
    np.testing.assert_array_equal(new[1], single_new)
    np.testing.assert_array_equal(change(list(K), list(K_new))[1], new)


def test_inputs_are_never_written_to(joint):
    before = joint.copy()
    for method in METHODS:
        normalize(*split(joint)[:1], method, *split(joint)[1:])
    center(*split(joint)[:2])
    np.testing.assert_array_equal(joint, before)


def test_what_is_zero_stays_zero(joint):
    """A zero kernel has no trace, and a sample at the origin no direction."""
    np.testing.assert_array_equal(normalize([np.zeros((3, 3))], "trace").matrices[0], np.zeros((3, 3)))
    K = joint[0].copy()
    K[4, :] = K[:, 4] = 0.0
    train, new = normalize(K[:N, :N], "spherical", K[:N, :N], np.diagonal(K[:N, :N]))
    np.testing.assert_array_equal(np.diagonal(train), np.arange(N) != 4)
    np.testing.assert_array_equal(train[4], 0.0)
    np.testing.assert_allclose(new, train, rtol=1e-15)
    spherical = linear().fit(np.diag([1.0, 2.0]), normalize="spherical")
    np.testing.assert_array_equal(spherical.dense(), [np.eye(2)])
    np.testing.assert_array_equal(spherical.diagonals([[0.0, 0.0], [3e-3, 4e-3]]), [[0.0, 1.0]])


@pytest.mark.sampled(2)
@pytest.mark.parametrize("storage", ["memory", "lazy"])
@pytest.mark.parametrize("seed", range(6))
def test_a_sample_at_the_mean_has_no_direction_whatever_rounding_makes_of_its_square(seed, storage):
    drawn = 10.0 ** (seed - 3) * np.random.default_rng(seed).normal(size=(20, 3))
    for X in (drawn, *(np.r_[drawn[k:], -drawn[k:]] for k in range(10))):  # k(x, x) = 0 is no unit of rounding
        mean = X.mean(axis=0, keepdims=True)
        with_mean = linear().fit(np.r_[X, mean, mean], normalize="spherical", center=True, storage=storage)
        assert not with_mean.own_diagonals[0, -2:].any()
        np.testing.assert_allclose(with_mean.dense()[0, -2:], 0.0, atol=1e-6)
        without = linear().fit(X, normalize="spherical", center=True, storage=storage)
        np.testing.assert_allclose(without.new(mean), 0.0, atol=1e-6)
        assert not without.diagonals(mean).any()


@pytest.mark.parametrize("method", ["trace", "multiplicative"])
def test_a_kernel_of_entries_without_digits_is_refused(joint, method):
    """1e-320 has three binary digits, and its inverse overflows."""
    with pytest.raises(InvalidKernel, match=r"kernels\[0\] has (trace|variance) .*too small for float64: standardise"):
        normalize(joint[0][None] * 1e-310, method)


@pytest.mark.parametrize(("loss", "same"), [("hinge", True), ("squared", True), ("one_class", False)])
def test_an_intercept_hides_means_and_constants_but_not_from_the_nu_machine(joint, loss, same):
    """1'beta = 0 sees neither; with 1'beta = 1 centred samples have no margin, and a constant kernel takes weight."""
    K = split(joint)[0] + 0.3
    y = np.ones(N) if loss == "one_class" else np.where(np.arange(N) < 5, 1.0, -1.0)
    given = Problem(K, y, C=2.0 / N if loss == "one_class" else 0.7, loss=loss, regularizer="l2")
    wider = given.replace(kernels=np.concatenate([K, np.full((1, N, N), 9.0)]))
    plain, centred, more = (solve(p, tol=1e-9) for p in (given, given.replace(kernels=center(K)), wider))
    for other in (centred, more):
        assert (abs(other.objective - plain.objective) < 1e-6) == same
    assert (more.weights[-1] < 1e-3) == same


def test_the_variance_around_a_mean_far_off_has_the_digits_of_the_centred_matrix():
    """Read off the matrix as it is, it has 1e-10 of its size, and 1/50 of that around the mean."""
    errors = []
    for seed in range(9):
        X = 1e3 + np.random.default_rng(seed).integers(-9, 10, size=(25, 3)) / 8.0  # whose products are exact
        variance = 1.0 / Normalizer("multiplicative", center=True).fit(X @ X.T, "K").scale
        errors.append(abs(variance / (X - X.mean(axis=0)).var(axis=0).sum() - 1.0))
    assert np.median(errors) < 1e-11


@pytest.mark.parametrize("constant", [0.0, 1.0, 0.1, 1e9])
def test_a_constant_kernel_has_no_variance(constant):
    with pytest.raises(InvalidKernel, match=r"kernels\[1\] is constant on the training samples .*'trace'"):
        normalize([np.eye(5), np.full((5, 5), constant)], "multiplicative")
    centred, new = center([np.full((5, 5), constant)], [np.full((2, 5), constant)])
    assert not centred.dense().any()
    assert not new.any()


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_what_centring_leaves_of_a_constant_kernel_but_for_rounding_is_a_kernel(rng, dtype):
    """It was indefinite, in an error about the sign of its diagonal."""
    samples = rng.normal(size=(30, 3))
    K = gaussian(1e8 if dtype is np.float64 else 1e4).fit(samples).dense().astype(dtype)
    assert not Problem(center(K), np.repeat([1.0, -1.0], 15)).kernels.dense().any()


def test_a_kernel_of_float32_whose_variance_has_digits_is_centred_as_in_float64(rng):
    """Sums are of float64, however many samples there are: of 500 a ten thousandth was taken for rounding."""
    K = gaussian(100.0).fit(rng.normal(size=(500, 2))).dense().astype(np.float32)
    np.testing.assert_allclose(center(K).dense(), center(K.astype(np.float64)).dense(), rtol=0.0, atol=1e-7)
    assert np.abs(center(K).dense()).max() > 1e-4


def test_kernels_are_diagnosed_as_constant_where_they_are_refused_as_such(joint):
    nearly = [0.1 + spread * joint[0] for spread in np.geomspace(1e-17, 1e-11, 13)]
    found = diagnose(nearly).constant
    assert found == tuple(range(len(found))) != ()
    normalize(nearly[len(found) :], "multiplicative")
    for K in nearly[: len(found)]:
        with pytest.raises(InvalidKernel, match="is constant"):
            normalize([K], "multiplicative")


@pytest.mark.parametrize("method", ["Trace", "", None, 3, ["trace"]])
def test_unknown_methods_are_refused(joint, method):
    with pytest.raises(InvalidParameter, match=r"is unknown; known names: trace, multiplicative, spherical"):
        normalize(joint, method)


BAD = np.diag([1.0, -2.0, 0.5])


REFUSED = {
    InvalidInput: [
        (lambda K, L, d: center(K, L[:2]), "K_new holds 2 kernels, K holds 3"),
        (lambda K, L, d: center(K, L.swapaxes(1, 2)), r"K_new\[0\] has shape \(17, 6\); expected"),
        (lambda K, L, d: normalize(K, "trace", np.where(L[2, 1, 3] == L, np.nan, L)), r"\[2\]\[1, 3\]"),
        (lambda K, L, d: center(K, [L[0], L[1][:2], L[2]]), r"K_new\[1\] has 2 rows, K_new\[0\] has 6; give"),
        (lambda K, L, d: normalize(K, "spherical", L), "diagonal_new is missing: 'spherical' divides"),
        (lambda K, L, d: normalize(K, "spherical", L, d[:, 1:]), r"\[0\] has shape \(5,\); expected"),
        (lambda K, L, d: normalize(K, "spherical", L, d[:1]), "diagonal_new holds 1 kernels, K holds 3"),
    ],
    InvalidType: [
        (lambda K, L, d: normalize(K, "trace", L * 1j), r"K_new\[0\] is complex data"),
    ],
    InvalidKernel: [
        (lambda K, L, d: normalize(BAD, "trace"), r"kernels\[0\] has trace -0\.5"),
        (lambda K, L, d: normalize(2.0 - np.eye(3), "multiplicative"), r"kernels\[0\] has variance -0\.6"),
        (lambda K, L, d: Normalizer("trace", True).fit(-K[0], "-K"), "-K has variance -.* Drop it"),
        (lambda K, L, d: normalize(BAD, "spherical"), r"kernels\[0\] has k\(x, x\) = -2 at sample 1"),
        (lambda K, L, d: normalize(BAD**2, "spherical", [[1.0] * 3], [-3.0]), "new samples .* = -3"),
        (lambda K, L, d: center(np.roll(K, 1, axis=2)), "not symmetric"),
    ],
}


@pytest.mark.parametrize(("error", "use", "says"), [(error, *row) for error, rows in REFUSED.items() for row in rows])
def test_what_is_refused(joint, error, use, says):
    with pytest.raises(error, match=says):
        use(*split(joint))


def test_kernels_whose_sums_leave_float64_are_refused():
    K = np.eye(4) + 0.5
    for scaled in (K * 1e307, K * 1e308, np.where(np.eye(4) > 0.0, 1.7e308, 0.0)):
        for use in (center, lambda given: normalize(given, "trace"), lambda given: diagnose([given])):
            with pytest.raises(InvalidKernel, match=r"entries up to [12][.\de]+\+30[78].*divide it by a power of two"):
                use(scaled)
    np.testing.assert_array_equal(normalize(K * 2.0**1000, "trace"), normalize(K, "trace"))
    with pytest.raises(InvalidInput, match=r"K_new\[0\] is beyond float64"):
        normalize([0.1 * K], "multiplicative", [np.full((2, 4), 1e308)])
    y = np.array([1.0, 1.0, -1.0, -1.0])
    with pytest.raises(InvalidInput, match="scores leave float64"):
        solve(Problem([K], y)).decision_function(1.7e308 * y[None, None])


def test_gram_matrices_of_new_samples_that_name_other_ones_are_refused(joint):
    names = [f"s{i}" for i in range(N + NEW)]
    frames = [pd.DataFrame(one, names, names) for one in joint]
    train, new = names[:N], names[N:]
    K, K_new = ([one.loc[rows, train] for one in frames] for rows in (train, new))
    turned = [K_new[0], K_new[1][train[::-1]], K_new[2]]
    diagonals = [pd.Series(np.diag(one)[N:], new) for one in frames]
    expected = normalize(joint[:, :N, :N], "spherical", joint[:, N:, :N], np.stack(diagonals))[1]
    np.testing.assert_array_equal(normalize(K, "spherical", K_new, diagonals)[1], expected)
    says = r"the rows of K\[0\] and the columns of K_new\[{}\] have their samples .*: number 0 is 's0' in .*, 's16' in"
    for change in (lambda *given: normalize(given[0], "trace", given[1]), center):
        with pytest.raises(InvalidInput, match=says.format(1)):
            change(K, turned)
        with pytest.raises(InvalidInput, match=says.format(0)):
            change(K[1], turned[1])
    with pytest.raises(InvalidInput, match=r"the rows of K_new\[0\] and the rows of diagonal_new\[0\] have"):
        normalize(K, "spherical", K_new, [one[::-1] for one in diagonals])
    y = np.where(np.arange(N) % 2, 1.0, -1.0)
    solution, evidence = solve(Problem(K, y)), learn(EvidenceProblem(K, y, 1.0))
    for mixed, axis in ((turned, "columns"), ([K_new[0], K_new[1][::-1], K_new[2]], "rows")):
        for use in (solution.decision_function, evidence.decision_function):
            with pytest.raises(
                InvalidInput,
                match=r"column 0 of kernels_new\[1\] is"
                if axis == "columns"
                else r"the rows of .*\[0\] and the rows of .*\[1\]",
            ):
                use(mixed)
    with pytest.raises(InvalidTarget, match=r"kernels\[0\] and y have their samples in different orders"):
        diagnose(K, pd.Series(y, train)[::-1])
    with pytest.raises(InvalidInput, match=r"kernels\[0\] and y have their samples in different orders"):
        SynthesisProblem(K, pd.Series(y, train)[::-1], lam=1.0, p=1, q=1, r=1)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("center", [False, True])
@pytest.mark.parametrize("normalize", [None, "spherical", "multiplicative", "trace"])
@pytest.mark.parametrize("weighted", [False, True])
def test_what_is_missing_of_matrices_with_few_digits_is_missing_of_normalised_ones(normalize, center, weighted, rng):
    """Of 13.6 to 15 digits; one rounding of each entry was taken for it, 30 times too little."""
    X, every, wide = rng.normal(size=(60, 4)), np.arange(60), np.exp(rng.normal(size=60))
    whole, some = (Normalizer(normalize, center, weight if weighted else None) for weight in (wide, wide[5:]))
    for digits in (13.6, 14.0, 15.0):
        unit = 10.0**-digits * np.max(X @ X.T)
        raw, new = raw_precomputed([np.round(X @ X.T / unit) * unit], every)
        made = normalized(raw, new, whole)[0]
        fold = part(raw.dense(), raw.names, every[5:], every[:5], some, unexplained(raw))[0]
        for K in (raw, made, fold):
            assert missing(K.matrices[0]) > 0.0
            assert missing(K.matrices[0] + np.diag(K.slack[0])) == 0.0


@pytest.mark.parametrize("normalization", [None, "spherical", "trace"])
@pytest.mark.parametrize("weighted", [False, True])
def test_what_is_carried_covers_what_centring_makes_of_one_sample(normalization, weighted, rng):
    """Of K = -diag(s) all of s is missing: Z diag(s) Z' of the transformed matrix, Z = N (I - 1c'), most of it at i."""
    shares = rng.uniform(0.2, 3.0, N) if weighted else np.ones(N)
    gram = make_kernels(rng, make_samples(rng, N), M=1)[0]
    found = Normalizer(normalization, True, shares if weighted else None).fit(gram, "K")
    Z = np.eye(N) - shares / shares.sum()
    Z *= np.sqrt(found.scale or 1.0) if found.norms is None else 1.0 / found.norms[:, None]
    for i in range(N):
        s = np.where(np.arange(N) == i, 1.0, 1e-3)
        assert np.linalg.eigvalsh(np.diag(found.carried(s)) - (Z * s) @ Z.T)[0] > 0.0
