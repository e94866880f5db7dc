"""What solvers and certificates ask of a stack, of every kind, and above all of one that holds no matrices.

Diagnostics of kernels against their definitions on centred matrices, and what they say about planted faults.
"""

from __future__ import annotations

import numpy as np
import pytest
from makers import KERNELS, NORMALIZATIONS, make_samples
from scipy.sparse import csr_matrix

from mklref import Problem, certify, solve
from mklref.estimators import MKLClassifier
from mklref.exceptions import InvalidInput, InvalidTarget, InvalidType, NotApplicable
from mklref.kernels import (
    ArrayStack,
    DiskStack,
    FactorStack,
    KernelStack,
    alignment,
    diagnose,
    diagnostics,
    gaussian,
    linear,
    normalize,
    per_variable,
    polynomial,
    stack,
)


class Evaluated(KernelStack):
    """Kernels that are there when somebody asks for a block of them, and never all at a time."""

    costly = True
    definiteness = "by theorem"
    shape = property(lambda self: self.K.shape)
    dtype = np.dtype(float)

    entry_errors = property(lambda self: np.full(len(self.K), self.error))

    def __init__(self, K, error):
        self.K, self.read = K, 0
        self.error = error

    def block(self, rows, columns=None, kernels=None):
        n = self.shape[1]
        i, j = (np.arange(n)[slice(None) if index is None else index] for index in (rows, columns))
        some = self.K[slice(None) if kernels is None else kernels]
        self.read += len(some) * len(i) * len(j)
        return some[:, i][:, :, j] * (1.0 + self.error * np.cos(np.add.outer(i, j)))

    def dense(self):
        raise AssertionError("all matrices at a time")


class ByRows(Evaluated):
    block = KernelStack.block

    def rows(self, index):
        return self.K[:, index]


@pytest.fixture(scope="module")
def stacks():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3))
    K = gaussian([0.5, 1.0, 3.0]).fit(X).dense()
    y = np.where(X[:, 0] + 0.3 * rng.normal(size=60) > 0.0, 1.0, -1.0)
    return K, y


SAMPLES = np.random.default_rng(2).normal(size=(40, 12)) + 3.0
FACTORS = [np.random.default_rng(5).normal(size=(31, r)) for r in (2, 4, 1)]
GRAMS = gaussian([0.5, 1.0, 4.0]).fit(SAMPLES).dense()


def on_disk(path):
    np.save(path / "K.npy", GRAMS)
    return DiskStack(np.load(path / "K.npy", mmap_mode="r"))


def in_blocks(factors):
    made = FactorStack(factors)
    made.block_rows = 7
    return made


STACKS = {
    "evaluated": (lambda path: Evaluated(GRAMS, 0.0), GRAMS),
    "by rows": (lambda path: ByRows(GRAMS, 0.0), GRAMS),
    "float64": (lambda path: ArrayStack(list(GRAMS)), GRAMS),
    "float32": (lambda path: ArrayStack(list(GRAMS.astype(np.float32))), GRAMS.astype(np.float32).astype(float)),
    "factors": (lambda path: in_blocks(FACTORS), [L @ L.T for L in FACTORS]),
    "sparse factors": (lambda path: in_blocks(list(map(csr_matrix, FACTORS))), [L @ L.T for L in FACTORS]),
    "disk": (on_disk, GRAMS),
    **{
        f"lazy {how}": (lambda path, how=how: KERNELS.fit(SAMPLES, **how, storage="lazy"), KERNELS.fit(SAMPLES, **how))
        for how in NORMALIZATIONS
    },
}
"""How to make a stack of each kind, and its matrices."""


@pytest.mark.sampled(2)
@pytest.mark.parametrize("kind", STACKS)
@pytest.mark.parametrize("whole", [True, False], ids=["whole", "part"])
def test_every_stack_answers_the_questions_of_its_matrices(kind, whole, tmp_path):
    make, matrices = STACKS[kind]
    made, K, rng = make(tmp_path), np.array(matrices), np.random.default_rng(1)
    if not whole:
        chosen = rng.permutation(K.shape[1])[:20]
        made, K = made.part(chosen), K[:, chosen][:, :, chosen]
    M, n, _ = K.shape
    v, u, w = rng.normal(size=n) * (rng.random(n) < 0.5), rng.normal(size=n), rng.random(M) * (np.arange(M) != 1)
    i, j, some = np.array([3, 0, n - 1, 7, 3]), np.array([5, 3, 2]), [2, 0]
    assert (made.shape, len(made)) == (K.shape, M)
    for name, arguments, expected in (
        ("block", (i, j, some), K[some][:, i][:, :, j]),
        ("block", (i, slice(2, 9), some), K[some][:, i][:, :, 2:9]),
        ("block", (i[:2], None, []), np.empty((0, 2, n))),
        ("rows", (i,), K[:, i]),
        ("matrix", (2,), K[2]),
        ("combine", (w,), np.tensordot(w, K, 1)),
        ("combine", (np.arange(M) != 1,), np.delete(K, 1, 0).sum(0)),
        ("combine_rows", (w, i), np.tensordot(w, K[:, i], 1)),
        ("combine_rows", (np.zeros(M), i), np.zeros((5, n))),
        ("apply", (v,), K @ v),
        ("apply", (v, some), K[some] @ v),
        ("apply", (v, []), np.empty((0, n))),
        ("apply", (v, np.arange(M) != 1), K[np.arange(M) != 1] @ v),
        ("apply", (v, slice(1, 3)), K[1:3] @ v),
        ("apply_each", (np.stack([v, -u]),), np.stack([K @ v, -K @ u])),
        ("apply_each", (np.stack([v, -u]), some), np.stack([K[some] @ v, -K[some] @ u])),
        ("quadratic", (v,), v @ K @ v),
        ("norms", (v,), np.sqrt(np.maximum(v @ K @ v, 0.0))),
        ("traces", (), np.trace(K, axis1=1, axis2=2)),
    ):
        found = getattr(made, name)(*arguments)
        assert found.dtype == (made.dtype if name in ("block", "rows", "matrix") else np.float64)
        largest = 1e-11 * np.abs(expected).max(initial=0.0)
        np.testing.assert_allclose(found, expected, rtol=1e-11, atol=largest, err_msg=f"{name}{arguments}")
    np.testing.assert_allclose(made.own_diagonals, np.diagonal(K, axis1=1, axis2=2), rtol=1e-9)
    images, products = made.images(v), K @ v
    for found, expected in (
        (w @ images, w @ products),
        (images @ u, products @ u),
        (images @ v, products @ v),
        (made.images_each(np.stack([u, v]))[1] @ u, products @ u),
    ):
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-10 * np.abs(products).max())
    assert np.all(w @ abs(images) >= w @ np.abs(products) * (1.0 - 1e-11))
    assert np.all(abs(images) @ np.abs(u) >= np.abs(products) @ np.abs(u) * (1.0 - 1e-11))


@pytest.mark.sampled(3)
@pytest.mark.parametrize("kind", STACKS)
@pytest.mark.parametrize(
    ("question", "arguments", "says"),
    [
        ("combine", ([1.0],), r"weights has shape \(1,\); expected"),
        ("combine", (np.ones(99),), r"weights has shape \(99,\); expected"),
        ("combine", (None,), "weights is None; give"),
        *(("apply", (np.ones(k),), rf"v has shape \({k},\); expected") for k in (1, 5, 41)),
        ("apply", (1.0,), r"v has shape \(\); expected"),
        ("quadratic", (np.ones((40, 1)),), r"v has shape \(40, 1\); expected"),
        ("apply", (np.full(40, 1j),), "v is complex data"),
        ("apply_each", (np.ones(5),), r"vectors has shape \(5,\); expected"),
        ("quadratic", (np.ones((2, 5)),), r"v has shape \(2, 5\); expected"),
        ("block", ([99],), r"samples = \[99\] are none of the"),
        ("part", ([0.5],), r"samples = \[0.5\] are none of the"),
        ("matrix", (99,), r"kernels = \[99\] are none of the"),
    ],
)
def test_every_stack_refuses_what_does_not_fit_it(kind, question, arguments, says, tmp_path):
    made = STACKS[kind][0](tmp_path)
    if kind == "evaluated" and question == "block":
        question = "rows"  # its own block checks nothing
    with pytest.raises((InvalidInput, InvalidType), match=says):
        getattr(made, question)(*arguments)


@pytest.mark.parametrize(
    ("names", "known"),
    [((), ()), (("a", "b"), ()), (None, ()), (np.array(list("abc")), ()), ((1, 2, 3), (("1", "2", "3"),))],
)
def test_stacks_of_users_need_no_names(stacks, names, known):
    """Their parts, and estimators, asked for one for each kernel; and a `kernel_names` of their own was an error."""
    (K, y), own = stacks, Evaluated(stacks[0], 0.0)
    own.names = names
    own.kernel_names = own.namings = "theirs"
    own.dense = lambda: K
    np.testing.assert_array_equal(own.part([0, 3]).dense(), stack(list(K)).part([0, 3]).dense())
    solution, model = solve(Problem(own, y)), MKLClassifier("precomputed").fit(own, y)
    for scores in (solution.decision_function, model.decision_function):
        np.testing.assert_allclose(scores(own), scores(K), atol=1e-12)
    assert (solution.kernel_names, model.kernel_names_[0]) == (known, known[0][0] if known else "K0")


def test_products_read_the_rows_of_the_support(stacks):
    evaluated = Evaluated(stacks[0], 0.0)
    evaluated.apply(np.arange(60.0) * (np.arange(60) % 3 == 0), [1])
    assert evaluated.read == 60 * 19


@pytest.mark.parametrize("regularizer", ["l1", "uniform"])
def test_certificates_ask_for_what_they_need_and_never_for_all(stacks, regularizer):
    K, y = stacks
    problem = Problem(K, y, C=10.0, regularizer=regularizer)
    solution = solve(problem, tol=1e-9)
    evaluated = Evaluated(K, 0.0)
    lazily = certify(problem.replace(kernels=evaluated), solution.dual_coef, weights=solution.weights)
    assert lazily.is_optimal(1e-8)
    assert lazily.definiteness == "by theorem"
    assert lazily.objective == pytest.approx(solution.objective, rel=1e-12)
    assert evaluated.read <= 2 * 3 * 60 * np.count_nonzero(solution.dual_coef) + 3 * 60


def test_rigorous_bounds_enclose_the_errors_of_the_evaluation(stacks):
    K, y = stacks
    problem = Problem(K, y, C=10.0, regularizer="uniform")
    beta = solve(problem, tol=1e-9).dual_coef
    exact = certify(problem, beta, rigorous=True)
    wrong = problem.replace(kernels=Evaluated(K, 1e-7))
    found = certify(wrong, beta, rigorous=True)
    assert found.lower <= exact.lower <= exact.upper <= found.upper
    assert found.tier == 1
    assert 1e-6 < found.relative_gap < 1e-3
    with pytest.raises(NotApplicable, match="'fast' alone"):
        certify(wrong, beta, rigorous=True, backend="exact")


N = 24


@pytest.fixture
def X(rng):
    return make_samples(rng, N, 3)


@pytest.fixture
def kernels(X):
    return (gaussian([0.5, 2.0]) + polynomial([2, 3]) + per_variable(linear())).fit(X, normalize="multiplicative")


def centred(K):
    H = np.eye(len(K)) - 1.0 / len(K)
    return H @ K @ H


def cosine(K, L):
    return np.sum(K * L) / np.sqrt(np.sum(K * K) * np.sum(L * L))


@pytest.mark.parametrize("shape", [lambda K: K, centred])
def test_alignment_by_its_definition(kernels, shape):
    grams = [shape(K) for K in kernels.dense()]
    expected = [[cosine(K, L) for L in grams] for K in grams]
    np.testing.assert_allclose(alignment(kernels, centered=shape is centred), expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("scale", [2.0**990, 2.0**-900])
def test_kernels_are_diagnosed_at_any_scale(kernels, scale):
    """Their squares leave float64."""
    unit, found = diagnose(kernels), diagnose(scale * np.asarray(kernels))
    np.testing.assert_allclose(found.alignment, unit.alignment, rtol=1e-12)
    np.testing.assert_allclose(found.effective_rank, unit.effective_rank, rtol=1e-12)


def test_alignment_reads_the_stack_in_blocks(kernels, monkeypatch):
    whole = alignment(kernels)
    monkeypatch.setattr(diagnostics, "_BLOCK", 5 * len(kernels) * N)
    np.testing.assert_allclose(alignment(kernels), whole, rtol=1e-12, atol=1e-13)


def test_ranks_variances_and_targets_by_their_definitions(kernels, rng):
    y = rng.normal(size=N) + 3.0
    report = diagnose(kernels, y)
    for m, K in enumerate(kernels.dense()):
        eigenvalues = np.linalg.eigvalsh(centred(K))
        assert report.effective_rank[m] == pytest.approx(eigenvalues.sum() ** 2 / np.sum(eigenvalues**2))
        assert report.variance[m] == pytest.approx(1.0)
        c = y - y.mean()
        assert report.target_alignment[m] == pytest.approx(cosine(centred(K), np.outer(c, c)))
    np.testing.assert_allclose(report.effective_rank[4:], 1.0)
    far = diagnose(kernels, -1e200 * (y + 9.0)).target_alignment  # all of one sign, and squares leave float64
    np.testing.assert_allclose(far, report.target_alignment)


def test_good_kernels_have_no_findings(kernels):
    report = diagnose(kernels)
    assert report.findings == ()
    assert report.target_alignment is None


def test_duplicates_and_near_duplicates(kernels, rng):
    K = kernels.dense()
    noise = np.outer(*2 * [rng.normal(size=N)])
    report = diagnose([K[0], 3.0 * K[0], K[1], K[1] + 1e-2 * noise, K[0] + 5.0])
    assert [(r.first, r.second) for r in report.duplicates] == [(0, 1), (0, 4), (1, 4)]
    assert [r.factor for r in report.duplicates] == pytest.approx([3.0, 1.0, 1 / 3])
    assert [(r.first, r.second) for r in report.dominated] == [(1, 0), (1, 4), (3, 2)]  # no copies of one size
    (near,) = report.near_duplicates
    assert (near.first, near.second) == (2, 3)
    assert near.alignment == pytest.approx(cosine(centred(K[1]), centred(K[1] + 1e-2 * noise)))
    text = "\n".join(report.findings)
    assert "K1 is 3 times K0: only a combination" in text
    assert "K4 is the same as K0" in text
    assert "K3 is nearly the same as K2" in text


def test_dominated_kernels(kernels):
    K = kernels.dense()
    report = diagnose([K[0] + K[1], K[1] + 7.0, 0.5 * K[1]])
    assert [(r.first, r.second) for r in report.dominated] == [(0, 1), (0, 2), (1, 2)]
    assert report.dominated[2].factor == pytest.approx(0.5)
    assert "K1 is dominated by K0: at p = 1 it never needs a weight" in "\n".join(report.findings)
    # Larger on the diagonal and in norm is not enough: the difference here has a negative eigenvalue.
    large = 5.0 * K[1] + 0.7 * K[0]
    wide, narrow = centred(large), centred(K[0])
    assert (np.diagonal(wide) > np.diagonal(narrow)).all()
    assert np.linalg.norm(wide) > np.linalg.norm(narrow)
    assert np.linalg.eigvalsh(wide - narrow).min() < -1e-3
    assert diagnose([large, K[0]]).dominated == ()
    line = centred(K[4])
    beside = np.eye(N) - line / np.trace(line)  # which is 0 on the line: half a percent decides, whatever is constant
    for size, dominated in ((0.995, 1), (1.005, 0)):
        assert len(diagnose([line + beside + 1e3, size * line]).dominated) == dominated


def test_constant_kernels_are_found_and_spoil_nothing(kernels):
    K = kernels.dense()
    report = diagnose([K[0], np.full((N, N), 4.0), np.zeros((N, N)), K[1]])
    assert report.constant == (1, 2)
    assert np.isnan(report.alignment[1]).all()
    assert np.isnan(report.alignment[:, 2]).all()
    assert report.alignment[0, 3] == pytest.approx(alignment([K[0], K[1]])[0, 1])
    assert report.dominated == report.duplicates == ()
    assert "K1 is constant on the samples" in report.findings[0]


def test_scales_and_widths_that_are_off_are_named(X, kernels, rng):
    loose = (gaussian([0.01, 2.0]) + polynomial(4)).fit(X)
    findings = "\n".join(diagnose(loose).findings)
    assert "the variance of poly:4 is" in findings
    assert "rbf:0.01 has effective rank 23 of 23" in findings
    assert "Take a larger width" in findings
    assert "variance" not in "\n".join(diagnose(normalize(loose, "multiplicative")).findings)
    scales = diagnose([0.5 * kernels.dense()[0], 10.0 * kernels.dense()[1]]).findings
    assert "the variance of K1 is 20 times that of K0" in "\n".join(scales)
    Q = np.linalg.qr(np.column_stack([np.ones(N), rng.normal(size=(N, N - 1))]))[0][:, 1:]
    ranks = "\n".join(diagnose([Q[:, :r] @ Q[:, :r].T for r in (20, 21)]).findings)  # 0.9 of 23 is 20.7
    assert "K1 has effective rank 21 of 23" in ranks
    assert "K0 has effective rank" not in ranks


def test_the_report_is_a_table_with_findings(kernels, rng):
    K = kernels.dense()
    lines = str(diagnose(ArrayStack([K[0], K[0]], ["one", "two"]), rng.normal(size=N))).splitlines()
    assert lines[0].split() == ["kernel", "variance", "eff.", "rank", "target", "closest"]
    assert lines[1].split()[0] == "one"
    assert lines[1].endswith("1.000 two")
    assert lines[3].startswith("- two is the same as one")
    header, alone = str(diagnose([K[0]])).splitlines()
    assert (header.split(), alone[-1]) == ([*lines[0].split()[:4], "closest"], "-")


@pytest.mark.parametrize(
    "y",
    [np.ones(N), np.arange(N - 1.0), *(np.r_[bad, np.arange(N - 1.0)] for bad in (np.nan, np.inf)), ["a", "b"] * 12],
)
def test_targets_that_tell_nothing_of_kernels_are_refused(kernels, y):
    says = "one finite number for each of the 24 samples, not all the same.* mklref.datasets.encode"
    with pytest.raises(InvalidTarget, match=says):
        diagnose(kernels, np.array(y))


def test_kernels_far_from_the_origin_are_diagnosed_around_their_mean(X):
    """The kernel around the mean is the same, whatever constant is added; float32 has too few digits for it."""
    K = normalize(linear().fit(X), "multiplicative").dense()[0]
    report = diagnose([K, K + 1e9])
    assert report.constant == ()
    assert report.effective_rank[1] == pytest.approx(report.effective_rank[0])
    assert [(r.first, r.second) for r in report.duplicates] == [(0, 1)]
    assert report.duplicates[0].factor == pytest.approx(1.0)
    single = diagnose([K.astype(np.float32), (K + 1e9).astype(np.float32)])
    assert single.constant == (1,)


def test_copies_of_copies_are_said_once(kernels):
    K = kernels.dense()
    report = diagnose([K[0], 0.5 * K[0], 3.0 * K[0], K[0] + K[1]])
    assert len(report.duplicates) == 3
    assert len(report.dominated) == 5
    assert [line.split(":")[0] for line in report.findings] == [
        "K1 is 0.5 times K0",
        "K2 is 3 times K0",
        "K0 is dominated by K3",
    ]
