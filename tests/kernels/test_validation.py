"""Bad arrays, samples and parameters: each row of bad input that concerns kernels, with the wording of the error."""

from __future__ import annotations

import re

import numpy as np
import pytest
import scipy.sparse
from makers import make_kernels, make_samples

from mklref.certificate.definite import missing
from mklref.exceptions import AsymmetryWarning, InvalidInput, InvalidKernel, InvalidParameter, InvalidType
from mklref.kernels import check_psd, gaussian, linear, per_variable, polynomial, stack, validation
from mklref.kernels.fitted import require_no_overflow

N = 12


@pytest.fixture
def K(rng):
    return make_kernels(rng, make_samples(rng, N), M=3)


def spectrum(rng, eigenvalues, dtype=np.float64):
    """A symmetric matrix with these eigenvalues."""
    basis = np.linalg.qr(rng.normal(size=(len(eigenvalues),) * 2))[0]
    matrix = (basis * eigenvalues) @ basis.T
    return (0.5 * (matrix + matrix.T)).astype(dtype)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("index", [(2, 5), (5, 2), (7, 7)])
def test_not_finite_names_kernel_and_index(K, bad, index):
    """Also in the triangle that no solver reads."""
    K[1][index] = bad
    with pytest.raises(InvalidKernel, match=rf"kernels\[1\]\[{index[0]}, {index[1]}\] is {bad}; every entry must be"):
        stack(K)


@pytest.mark.parametrize(
    ("kernels", "says"),
    [
        (np.ones((2, 3, 4)), r"kernels\[0\] has shape \(3, 4\); a Gram matrix is square"),
        ([np.eye(3), np.ones(3)], r"kernels have different shapes: \(3,\), \(3, 3\)"),
        ([np.ones(3), np.ones(3)], r"kernels\[0\] has shape \(3,\); a Gram matrix is square"),
        ([np.eye(3), np.eye(4)], r"kernels have different shapes: \(3, 3\), \(4, 4\); all must be \(n, n\)"),
        (np.eye(3), r"kernels has shape \(3, 3\); expected \(M, n, n\); wrap a single Gram matrix as kernels=\[K\]"),
        (np.ones(3), r"kernels has shape \(3,\); expected \(M, n, n\)"),
        (np.float64(3.0), r"kernels has shape \(\); expected \(M, n, n\)"),
        ([], r"kernels is empty; give at least one Gram matrix"),
        (np.empty((0, 3, 3)), r"kernels is empty; give at least one Gram matrix"),
        (np.empty((2, 0, 0)), r"kernels\[0\] is empty; give at least two samples"),
        ([[[1.0, 0.0], [0.0]]], r"kernels\[0\] is ragged"),
    ],
)
def test_wrong_shapes_are_refused_with_the_shapes(kernels, says):
    with pytest.raises(InvalidKernel, match=says):
        stack(kernels)


def test_asymmetry_is_refused_with_the_largest_difference_and_its_index(K):
    K[2][3, 8] += 0.25
    K[2][1, 0] += 0.125
    with pytest.raises(
        InvalidKernel,
        match=r"kernels\[2\] is not symmetric: \|kernels\[2\]\[3, 8\] - kernels\[2\]\[8, 3\]\| = 0\.25, "
        r"allowed .*pass \(K \+ K\.T\) / 2",
    ):
        stack(K)


def test_asymmetry_is_found_across_tiles(monkeypatch, rng):
    monkeypatch.setattr("mklref.kernels.validation._TILE", 5)
    X = rng.normal(size=(N, 3))
    K = X @ X.T
    K = 0.5 * (K + K.T)
    for i, j in [(0, 11), (11, 0), (4, 5), (6, 7), (10, 11)]:
        spoiled = K.copy()
        spoiled[i, j] += 1.0
        low, high = sorted((i, j))
        with pytest.raises(InvalidKernel, match=rf"\[{low}, {high}\] - .*\[{high}, {low}\]\| = 1,"):
            stack([spoiled])


def test_asymmetry_of_many_roundings_is_symmetrised_visibly(K):
    K[0][2, 4] += 16 * np.sqrt(N) * np.finfo(float).eps * np.abs(K[0]).max()
    before = K.copy()
    says = r"kernels\[0\] is symmetric only up to .* \(at \[2, 4\]\); \(K \+ K"
    with pytest.warns(AsymmetryWarning, match=says) as caught:
        S = stack(K)
    assert [warning.filename for warning in caught] == [__file__]  # it points at the caller
    np.testing.assert_array_equal(S.matrices[0], S.matrices[0].T)
    np.testing.assert_allclose(S.matrices[0], K[0], rtol=1e-13)
    np.testing.assert_array_equal(K, before)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_the_border_of_symmetry_is_64_rounding_units_of_the_sum(rng, dtype):
    K = spectrum(rng, np.linspace(1.0, 2.0, N), dtype)
    border = 64 * np.sqrt(N) * np.finfo(dtype).eps * np.abs(K).max()
    K[3, 1] = K[1, 3] + dtype(0.5 * border)
    with pytest.warns(AsymmetryWarning, match="only up to"):
        stack([K])
    K[3, 1] = K[1, 3] + dtype(border / 128)  # what every sum of n products leaves: no warning
    np.testing.assert_array_equal(stack([K]).matrices[0], (0.5 * (K + K.T)).astype(dtype))
    K[3, 1] = K[1, 3] + dtype(2.0 * border)
    with pytest.raises(InvalidKernel, match="not symmetric"):
        stack([K])


def test_the_remedy_for_an_indefinite_kernel_can_be_run(rng):
    X = rng.normal(size=(N, 2))
    K = np.tanh(X @ X.T - 1.0)
    with pytest.raises(InvalidKernel, match="clip its negative eigenvalues") as refused:
        check_psd(K)
    clipping, new = re.search(r"eigenvalues \((.*), and for new samples (.*)\), or", str(refused.value)).groups()
    given = {"np": np, "K": K.copy(), "K_new": K[:4]}
    exec(clipping, given)
    assert check_psd(given["K"]) > -1e-12
    np.testing.assert_allclose(eval(new, given), given["K"][:4], atol=1e-12)  # training samples as new ones


@pytest.mark.parametrize(("dtype", "d"), [("float16", 28), ("float32", 2)])
def test_a_function_that_rounds_to_a_shorter_type_is_named_as_such(dtype, d, rng):
    X = rng.normal(size=(30, d))
    rounded = stack([(X @ X.T).astype(dtype).astype(np.float64)])
    with pytest.raises(InvalidKernel, match=rf"not positive semidefinite: .* Its entries are {dtype} numbers, which"):
        rounded.require_psd()
    with pytest.raises(InvalidKernel, match="Drop the kernel, clip"):
        stack([np.float32(X @ X.T - 0.1)]).require_psd()


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (lambda K: K.astype(complex), r"kernels is complex data; give real numbers"),
        (lambda K: K > 0.5, r"kernels is boolean data; give real numbers"),
        (lambda K: K.astype(object), r"kernels is object data; give real numbers"),
        (lambda K: K.astype(str), r"kernels is <U32 data; give real numbers"),
        (lambda K: np.ma.masked_less(K, 0.1), r"kernels is a masked array; its mask would be lost"),
        (lambda K: [np.ma.masked_less(K[0], 0.1)], r"kernels\[0\] is a masked array; its mask would be lost"),
        (lambda K: [scipy.sparse.csr_array(K[0])], r"kernels\[0\] is a sparse matrix; give a dense array, .*toarray"),
        (lambda K: scipy.sparse.csr_matrix(K[0]), r"kernels is a sparse matrix; give a dense array"),
        (lambda K: [K[0], "linear"], r"kernels\[1\] is .linear.; give real numbers"),
        (lambda K: None, r"kernels is None; give real numbers"),
        (lambda K: [[[2**53 + 1, 0], [0, 1]]], r"kernels\[0\] holds integers beyond 2\^53 that do not fit float64"),
        (lambda K: [[[2**60, 0], [0, 2**60 + 1]]], rf"beyond 2\^53 that do not fit float64, such as {2**60 + 1};"),
    ],
)
def test_data_without_a_faithful_conversion_is_refused(K, spoil, says):
    with pytest.raises(InvalidType, match=says):
        stack(spoil(K))
    assert stack([[[2**60, 0], [0, 2**60]]]).own_diagonals.tolist() == [[2.0**60] * 2]


@pytest.mark.skipif(np.finfo(np.longdouble).nmant <= 52, reason="long double is float64 here")
def test_long_doubles_must_fit_float64(K):
    np.testing.assert_array_equal(stack(K.astype(np.longdouble)).dense(), K)
    wide = K.astype(np.longdouble)
    wide[0, 0, 0] += np.longdouble(2) ** -60
    with pytest.raises(InvalidType, match=r"kernels is (longdouble|float128) data that does not fit float64; round it"):
        stack(wide)


@pytest.mark.parametrize("scale", [1e-150, 1.0, 1e150])
def test_check_psd_refuses_an_indefinite_matrix_at_any_scale(rng, scale):
    K = scale * spectrum(rng, np.array([-1e-3, 0.5, 1.0, 2.0]))
    with pytest.raises(InvalidKernel, match=r"K is not positive semidefinite: smallest eigenvalue -.*, allowed -"):
        check_psd(K)
    assert check_psd(K, tolerance=2e-3 * scale) == pytest.approx(-1e-3 * scale, rel=1e-6, abs=0.0)


@pytest.mark.parametrize("tolerance", [-1.0, np.nan, np.inf])
def test_check_psd_refuses_a_senseless_tolerance(tolerance):
    with pytest.raises(InvalidParameter, match=rf"tolerance = {tolerance} must lie in \[0, inf\)"):
        check_psd(np.eye(2), tolerance=tolerance)


@pytest.mark.parametrize("K", [np.ones((2, 3)), np.ones(3), np.array([[1.0, 0.5], [0.4, 1.0]]), np.array([[np.nan]])])
def test_check_psd_takes_one_symmetric_matrix(K):
    with pytest.raises(InvalidKernel, match="K"):
        check_psd(K)


@pytest.mark.parametrize(
    ("entry", "value", "says"),
    [
        ((4, 4), -0.5, r"kernels\[1\]\[4, 4\] = -0\.5 is negative"),
        ((7, 9), 40.0, r"\|kernels\[1\]\[7, 9\]\| = 40 exceeds the geometric mean .* \(a negative 2x2 minor\)"),
    ],
)
def test_require_psd_names_a_negative_diagonal_entry_and_a_negative_minor(K, monkeypatch, entry, value, says):
    monkeypatch.setattr("mklref.kernels.validation._TILE", 5)
    K[1][entry] = K[1][entry[::-1]] = value
    with pytest.raises(InvalidKernel, match=says):
        stack(K).require_psd()
    with pytest.raises(InvalidKernel, match="negative 2x2 minor"):  # whose diagonal is 0
        stack([[[0.0, 1.0], [1.0, 0.0]]]).require_psd()


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_require_psd_accepts_what_rounding_makes_indefinite(rng, dtype):
    for rank in (1, 3, 7):
        A = rng.normal(size=(N, rank)).astype(dtype)
        K = A @ A.T
        stack([0.5 * (K + K.T), np.zeros((N, N), dtype), np.full((N, N), 3.3, dtype)]).require_psd()


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_the_border_of_definiteness_is_8_n_eps_trace(rng, dtype):
    eigenvalues = np.linspace(0.0, 2.0, N)
    border = 8 * N * np.finfo(dtype).eps * eigenvalues.sum()
    eigenvalues[0] = -0.5 * border
    stack([spectrum(rng, eigenvalues, dtype)]).require_psd()
    eigenvalues[0] = -2.0 * border
    with pytest.raises(InvalidKernel, match="smallest eigenvalue"):
        stack([spectrum(rng, eigenvalues, dtype)]).require_psd()


def test_beyond_the_budget_a_negative_eigenvalue_is_looked_for(rng, monkeypatch):
    monkeypatch.setattr("mklref.kernels.validation.FULL_CHECK_FLOPS", 0.0)
    sneaky = np.array([[1.0, 0.9, -0.9], [0.9, 1.0, 0.9], [-0.9, 0.9, 1.0]])  # every 2x2 minor is positive
    with pytest.raises(InvalidKernel, match=r"kernels\[1\] .* smallest eigenvalue -0.8"):
        stack([np.eye(3), sneaky]).require_psd()
    X = rng.normal(size=(300, 3))
    K = np.exp(-0.5 * ((X[:, None] - X) ** 2).sum(axis=2)) + 0.05 * np.eye(300)
    for dtype in (np.float64, np.float32):
        unproved = stack([K.astype(dtype)])
        unproved.require_psd()
        assert unproved.definiteness == "assumed"
        v = rng.normal(size=300)
        with pytest.raises(InvalidKernel, match="smallest eigenvalue -0"):
            stack([(K - 0.7 / (v @ v) * np.outer(v, v)).astype(dtype)]).require_psd()
    with pytest.raises(InvalidKernel, match="smallest eigenvalue"):
        check_psd(sneaky)
    stack([np.diag([1.0, 0.0, 1.0])]).require_psd()  # a sample at the origin
    with pytest.raises(InvalidKernel, match=r"exceeds .* \(a negative 2x2 minor\)"):
        stack([[[1.0, 1.005], [1.005, 1.0]]]).require_psd()
    with pytest.raises(InvalidKernel, match="minor"):
        stack([1.2 * sneaky - 0.2 * np.diag(np.diag(sneaky)) - 0.1 * np.eye(3)]).require_psd()


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_beyond_the_budget_nothing_is_factorised(dtype, monkeypatch, rng):
    """For the words of an error, which nobody needs, matrices of float32 were."""
    monkeypatch.setattr(validation, "FULL_CHECK_FLOPS", 0)
    monkeypatch.setattr(validation, "factorises", lambda *_: pytest.fail("factorised"))
    K = spectrum(rng, np.linspace(1.0, 2.0, N), np.float32).astype(dtype)
    assert validation.require_psd(K, "K") is None
    np.testing.assert_array_equal(stack([K]).slack, [validation.rounding_of(K.diagonal())])


def test_what_rounding_explains_is_a_share_of_each_sample_and_no_more_than_passes():
    x, eps = np.random.default_rng(0).uniform(1.0, 1.9, 1500), np.finfo(float).eps
    shares = stack([np.outer(x, x)]).slack[0] / x**2  # though sums over all samples take as many roundings
    np.testing.assert_allclose(shares, shares[0], rtol=1e-12)
    assert 0.0 < shares[0] <= 1500 * eps
    x = np.array([0.0, 1e6, *x[:18]])  # also beside a sample at the origin
    slack = stack([np.outer(x, x)]).slack[0, 2:]
    assert np.all((slack > 0.0) & (slack <= 64.0 * 20 * eps * x[2:] ** 2))
    two = np.diag(np.where(np.arange(20) < 2, 1.0, 1e-12))  # -20 n eps, of which 16 n eps pass
    two[0, 1] = two[1, 0] = 1.0 + 20 * 20 * eps
    with pytest.raises(InvalidKernel, match="not positive semidefinite"):
        stack([two]).require_psd()


@pytest.mark.parametrize("rank", [1, 3, 12, 90])
def test_few_roundings_explain_kernels_of_low_rank_and_no_fewer_than_they_miss(rank):
    """Steps of 1 to 16 were taken at rank 1, where twice the digits find 0.05 missing."""
    rng = np.random.default_rng(rank)
    L = rng.normal(size=(400, rank)) * np.exp(rng.normal(size=(400, 1)))
    for order in (200, 400):
        K = L[:order] @ L[:order].T
        own, (slack,) = validation.rounding_of(K.diagonal()), stack([K]).slack
        assert np.all(slack <= own)
        scaled = K / np.sqrt(np.outer(own, own))  # rounds once more
        assert 0.0 < missing(scaled) <= 0.5 * np.max(slack / own)
    v = rng.normal(size=400)
    v -= L @ np.linalg.lstsq(L, v, rcond=None)[0]
    with pytest.raises(InvalidKernel, match="not positive semidefinite"):
        stack([K - 20.0 * validation.psd_tolerance(K) / (v @ v) * np.outer(v, v)]).require_psd()


@pytest.mark.parametrize("n", [40, 400])
def test_samples_at_the_origin_change_nothing_that_is_missing(n):
    x = np.random.default_rng(0).normal(size=n)
    x[:3] = 0.0
    slack = stack([np.outer(x, x)]).slack[0, 3:]
    assert np.all((slack > 0.0) & (slack <= n * np.finfo(float).eps * x[3:] ** 2))
    assert not stack([np.diag(x**2), np.zeros((n, n))]).slack.any()  # nothing is
    wrong = np.diag(x**2)
    wrong[0, 5] = wrong[5, 0] = 1.0
    with pytest.raises(InvalidKernel, match="not positive semidefinite"):
        stack([wrong]).require_psd()


@pytest.mark.parametrize("small", [0, 500])
@pytest.mark.parametrize("rank", [3, 40])
def test_the_slack_makes_kernels_semidefinite_and_is_of_the_size_of_their_rounding(rank, small, monkeypatch):
    monkeypatch.setattr(validation, "_SMALL", small)
    L = np.random.default_rng(3).normal(size=(40, rank))
    double = L @ L.T
    single = double.astype(np.float32)
    (slack,) = stack(single[None]).slack
    values = np.linalg.eigvalsh(single.astype(np.float64))
    assert values[0] + slack[0] >= -1e-12 * values[-1]
    assert (slack[0] == 0.0) == (rank == 40)
    assert slack[0] <= max(0.0, -10.0 * values[0])
    assert np.array_equal(stack(single[None]).lost[0], slack)
    assert stack(double[None]).slack.any() == (rank < 40)
    assert np.all(stack(double[None]).slack[0] <= 40.0 * np.finfo(float).eps * np.diagonal(double))
    assert not stack(double[None]).lost.any()
    beyond = double - 2e-14 * np.trace(double) * np.eye(40)  # and not by its evaluation
    if rank < 40:
        assert 2e-14 * np.trace(double) <= stack(beyond[None]).lost[0, 0] <= 20e-14 * np.trace(double)
    for scale in (2.0**-60, 2.0**60):
        assert np.array_equal(stack(np.float32(scale) * single[None]).slack[0], scale * slack)


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: polynomial(0), r"degree = 0 must be a positive integer"),
        (lambda: polynomial(2.0), r"degree = .*2\.0.* must be a positive integer"),
        (lambda: polynomial([]), r"degrees is empty"),
        (lambda: polynomial(2, offset=-1.0), r"offset = -1\.0 must lie in \[0, inf\): with a negative one"),
        (lambda: polynomial(2, offset=np.nan), r"offset = nan must lie in"),
        (lambda: polynomial(2, offset="one"), r"offset is 'one' \(str\); give a number in \[0, inf\)"),
        (lambda: gaussian(0.0), r"width = 0\.0 must lie in \[1e-150, 1e150\]"),
        (lambda: gaussian(1e-300), r"width = 1e-300 must lie in \[1e-150, 1e150\]"),
        (lambda: gaussian(1e300), r"width = 1e\+300 must lie in \[1e-150, 1e150\]"),
        (lambda: gaussian([1.0, np.nan]), r"width = nan must lie in \[1e-150, 1e150\]"),
        (lambda: gaussian([]), r"widths is empty"),
        (lambda: per_variable("linear"), r"per_variable takes a family of kernels"),
        (lambda: linear().fit(np.eye(3), normalize="unit"), r"normalize = 'unit' is unknown; known names: trace"),
        (lambda: linear().fit(np.eye(3), center="yes"), r"center is 'yes' \(str\); give True or False"),
    ],
)
def test_bad_parameters_are_refused(make, says):
    with pytest.raises((InvalidParameter, InvalidType), match=says):
        make()


@pytest.mark.parametrize(
    ("samples", "says"),
    [
        (np.ones(4), r"X has shape \(4,\); expected a matrix, one sample a row"),
        (np.ones((2, 2, 2)), r"X has shape \(2, 2, 2\)"),
        (np.empty((0, 3)), r"X has shape \(0, 3\)"),
        (np.empty((3, 0)), r"X has shape \(3, 0\)"),
        (np.ones((1, 3)), r"X has shape \(1, 3\); give at least two samples"),
        ([[1.0, 2.0], [3.0]], r"X is ragged"),
        ([[1.0, np.nan], [3.0, 4.0]], r"X\[0, 1\] is nan"),
        ([[1e200, 1.0], [3.0, 4.0]], r"kernel 'poly:3' overflows float64 on these samples; standardise"),
    ],
)
def test_bad_samples_are_refused(samples, says):
    with pytest.raises(InvalidInput, match=says):
        polynomial(3).fit(samples)


@pytest.mark.parametrize("entry", [np.nan, np.inf, -np.inf, 1e306, -1e306])
def test_entries_whose_sums_overflow_are_found_wherever_they_are(entry):
    gram = np.zeros((50, 50))
    for gram[7, 9] in (0.0, 1e300, -1e300):
        require_no_overflow(gram, "K")
    gram[7, 9] = entry
    with pytest.raises(InvalidInput, match="kernel 'K' overflows float64"):
        require_no_overflow(gram, "K")


def test_new_samples_must_have_the_same_variables(rng):
    X = make_samples(rng, N)
    K = polynomial(3).fit(X)
    with pytest.raises(InvalidInput, match=r"X_new has 2 variables, the training samples have 3"):
        K.new(X[:, :2])
    with pytest.raises(InvalidInput, match=r"X_new\[1, 2\] is inf"):
        K.new(np.where(np.arange(6).reshape(2, 3) == 5, np.inf, 1.0))
    with pytest.raises(InvalidInput, match=r"kernel 'poly:3' overflows float64"):
        K.new(np.full((1, 3), 1e150))
    with pytest.raises(InvalidType, match=r"X_new is boolean data"):
        K.new(np.ones((1, 3), dtype=bool))


def test_a_variable_without_variance_is_named(rng):
    X = make_samples(rng, N)
    X[:, 1] = 2.0
    with pytest.raises(InvalidKernel, match=r"kernel 'rbf:1\[x1\]' is constant on the training samples"):
        per_variable(gaussian(1.0)).fit(X, normalize="multiplicative")
    assert len(per_variable(gaussian(1.0)).fit(X, normalize="trace")) == 3
