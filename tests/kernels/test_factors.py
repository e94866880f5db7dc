"""Stacks of factors, here and on workers: the questions of every stack, what they are made of, what is refused."""

from __future__ import annotations

import runpy
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import dask.array as da
import h5py
import numpy as np
import pandas as pd
import pytest
from makers import agree, make_factors, optimal
from scipy.sparse import csr_matrix
from sklearn.kernel_approximation import Nystroem, RBFSampler
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder

import mklref
from mklref import kernels
from mklref.exceptions import (
    InvalidInput,
    InvalidParameter,
    InvalidType,
    KernelsLost,
    NotApplicable,
    UnsafeFile,
)
from mklref.factored.remote import _of_rows

RNG = np.random.default_rng(5)
N = 31
L = [RNG.normal(size=(N, r)) for r in (2, 4, 1)]


def test_a_recipe_is_that_of_ranks_and_rows():
    recipe = kernels.FactorStack(L).recipe
    assert len(recipe) == 32
    assert kernels.FactorStack(L[:2]).recipe != recipe


def across_words(array):
    """The same numbers one byte further than any word begins, as a message may bring them."""
    held = np.frombuffer(b"-" + array.tobytes(), dtype=np.uint8)[1:].view(array.dtype).reshape(array.shape)
    assert not held.flags.aligned
    return held


def test_rows_that_came_over_a_network_lie_in_words():
    """A product with others copies them all, each time."""
    wide = np.hstack(L)
    rows = csr_matrix(wide)
    rows = csr_matrix((across_words(rows.data), rows.indices, rows.indptr), shape=rows.shape)
    stacks = [
        kernels.FactorStack([across_words(one) for one in L]),
        _of_rows(("a", "b", "c"), np.array([2, 4, 1]), across_words(wide)),
        _of_rows(("a", "b", "c"), np.array([2, 4, 1]), rows),
    ]
    for stack in stacks:
        read = stack.read(0, N)
        held = [read.data] if stack.sparse else [read, *(source.data for source in stack.sources)]
        assert all(one.flags.aligned for one in held)
        assert np.array_equal(read.toarray() if stack.sparse else read, wide)
    assert stacks[1]._joined is not None


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_rigorous_certificate_holds_for_the_products_of_the_factors(dtype):
    rows = [one.astype(dtype) for one in L]
    given = mklref.Problem(kernels.FactorStack(rows), np.sign(L[0][:, 0] + 0.3 * L[1][:, 0]), regularizer="l2")
    solution = mklref.solve(given, tol=1e-8)
    proven = mklref.certify(given, solution, intercept=solution.intercept, rigorous=True)
    assert proven.is_optimal(1e-6)
    assert proven.tier == 1
    agree(proven, solution)
    assert solution.certificate.definiteness == "by theorem"


def test_there_is_at_most_one_shard_for_each_sample():
    stack = kernels.FactorStack([np.arange(7.0)[:, None]])
    assert stack.sharded(3).transposed(np.ones(7)) == [21.0]
    with pytest.raises(InvalidParameter, match="shards = 8, more than the 7 samples"):
        stack.sharded(8)


def test_nothing_of_order_n_by_n_is_made_by_accident():
    stack = kernels.FactorStack([np.ones((20_000, 1))])
    with pytest.raises(NotApplicable, match="GiB"):
        stack.dense()


class Restless:
    """A transformer that is another one in each call."""

    def __init__(self):
        self.rng = np.random.default_rng(0)

    def fit(self, X):  # no estimator of scikit-learn, and returns nothing
        self.seen = True

    def transform(self, X):
        return self.rng.normal(size=(len(X), 2))


LATE = np.ones((N, 2))
LATE[-1, 1] = np.nan


@pytest.mark.parametrize(
    ("given", "error", "says"),
    [
        ([], InvalidInput, "empty"),
        ([np.ones((4, 2)), np.ones((5, 2))], InvalidInput, "5 rows, factor 'K0' has 4"),
        ([np.ones((4, 0))], InvalidInput, "no column"),
        ([np.ones(4)], InvalidInput, r"\(n, r\)"),
        ([np.ones((1, 4))], InvalidInput, "two samples"),
        ([LATE], InvalidInput, "row 30 holds NaN"),
        ([csr_matrix(LATE)], InvalidInput, "row 30 holds NaN"),
        ([np.ones((4, 1), dtype=complex)], InvalidType, "complex"),
        ([np.ma.masked_array(np.ones((4, 1)))], InvalidType, "mask"),
        ([np.full((4, 1), 1e200)], InvalidInput, "squares overflow"),
        (3, InvalidType, r"factors is 3 \(int\)"),
    ],
)
def test_bad_factors_are_refused_in_a_sentence(given, error, says):
    with pytest.raises(error, match=says):
        kernels.FactorStack(given)


@pytest.mark.parametrize("columns", [list("abc"), [0, 1, 2]])
def test_factors_that_are_data_frames_are_taken_by_their_rows(rng, columns):
    """A frame takes what it is asked for by an index for names of columns."""
    L = rng.normal(size=(7, 3))
    frame = pd.DataFrame(L, columns=columns, index=list("tuvwxyz"))
    for made in (kernels.FactorStack([frame, L]), kernels.factors({"one": frame, "two": L})):
        np.testing.assert_allclose(made.part([1, 2]).block(None), [L[1:3] @ L[1:3].T] * 2)
    with pytest.raises(InvalidInput, match=r"factor 'K0' and factor 'K2' have .* 0 is 't' in the first, 'z' in"):
        kernels.FactorStack([frame, L, frame[::-1]])


def test_transformers_make_factors_now_or_whenever_they_are_read():
    X = RNG.normal(size=(N, 3))
    parts = {"rbf": RBFSampler(n_components=6, random_state=0), "nystroem": Nystroem(n_components=4, random_state=0)}
    kept, streamed = (kernels.factors({**parts, "own": L[0]}, X, keep=keep) for keep in (True, False))
    assert kept.names == streamed.names == ("rbf", "nystroem", "own")
    assert np.array_equal(kept.read(0, N), streamed.read(0, N))
    assert kernels.factors(parts, X, dtype=np.float32).dtype == np.float32
    tall = np.linspace(0.0, 1.0, 9000)[:, None]  # of which the first block alone is read twice
    assert kernels.factors({"own": FunctionTransformer()}, tall, keep=False).traces() == pytest.approx(np.sum(tall**2))
    new = kept.transform({"rbf": X[:2], "nystroem": X[:2], "own": L[0][:2]})
    assert np.allclose(new.read(0, 2), kept.read(0, 2))
    colours = pd.DataFrame({"colour": ["red", "blue", "red", "green"]})
    alike = colours.to_numpy() == colours.to_numpy().T
    sparse = kernels.factors({"colour": OneHotEncoder(), "twice": OneHotEncoder()}, colours, dtype=np.float32)
    assert np.array_equal(sparse.dense(), [alike, alike])
    assert (sparse.sparse, sparse.dtype) == (True, np.float32)
    assert all(source.in_memory for source in sparse.sources)  # rows in CSR format were made anew at each read
    assert np.array_equal(sparse.transform(colours[:2]).dense(), sparse.part([0, 1]).dense())
    for keep in (True, False):
        with pytest.raises(InvalidInput, match="another one when it is read again"):
            kernels.factors({"noise": Restless()}, X, keep=keep)
    with pytest.raises(InvalidInput, match="transform"):
        kept.transform(X[:2])
    for given, says in (((parts,), "give X"), (([L[0]],), "dict"), (({"": Nystroem}, X), r"an instance: Nystroem\(\)")):
        with pytest.raises((InvalidInput, InvalidType), match=says):
            kernels.factors(*given)
    for name, fits, times in ("mean_", [], 0), ("_mean_", [], 1):  # what is fitted by its names is not fitted again
        kernels.factors({"own": SimpleNamespace(**{name: 0.0}, fit=fits.append, transform=np.asarray)}, X)
        assert len(fits) == times


@pytest.mark.parametrize("form", [np.asarray, csr_matrix, lambda X: pd.DataFrame(X, columns=list("abcd"))])
def test_groups_of_columns_are_linear_kernels(form):
    X = RNG.normal(size=(N, 4))
    names = isinstance(form(X), pd.DataFrame)
    stack = kernels.column_groups(form(X), {"first": ["a", "b", "gene"] if names else [0, 1], "overlap": [1, 3]})
    assert np.allclose(stack.dense(), [X[:, :2] @ X[:, :2].T, X[:, [1, 3]] @ X[:, [1, 3]].T])
    for bad, says in (({"none": []}, "no column"), ({"far": [0, 4]}, "0 to 3"), ({"mask": [True, False]}, "of a mask")):
        with pytest.raises(InvalidInput, match=says):
            kernels.column_groups(X, bad)
    frame = pd.DataFrame(X, columns=pd.MultiIndex.from_product([["a", "b"], [0.5, 1.5]]))
    assert np.allclose(kernels.column_groups(frame, {7: [("a", 0.5), ("a", 1.5)]}).dense(), [X[:, :2] @ X[:, :2].T])
    with pytest.raises(InvalidInput, match="the same name"):
        kernels.column_groups(X, {1: [0], "1": [1]})
    with pytest.raises(InvalidInput, match="2 columns 'a'"):
        kernels.column_groups(pd.DataFrame(X, columns=list("abca")), {"first": ["b", "a"]})


@pytest.mark.parametrize("form", [np.asarray, csr_matrix])
@pytest.mark.parametrize("method", ["trace", "multiplicative"])
def test_groups_are_normalised_as_their_matrices_are(form, method):
    X, groups = RNG.normal(size=(N, 4)) + 1.0, [[0, 1], [3], [1, 2, 3]]
    matrices = np.stack([X[:, group] @ X[:, group].T for group in groups])
    expected = kernels.normalize(matrices, method=method)
    whole = form(X)
    for options in ({}, {"keep": True}):
        stack = kernels.column_groups(whole, groups, normalize=method, **options)
        assert np.allclose(stack.dense(), expected.dense() if hasattr(expected, "dense") else expected)
        assert np.allclose(stack.part(np.arange(3, 9)).read(0, 6), stack.read(3, 9)) if form is np.asarray else True
    assert kernels.column_groups(whole, groups, keep=True, dtype=np.float32).dtype == np.float32
    X[:, 3] = 2.0 if method == "multiplicative" else 0.0
    with pytest.raises(InvalidInput, match="group 'K1' cannot be normalised"):
        kernels.column_groups(form(X), groups, normalize=method)
    with pytest.raises(InvalidParameter, match="keep=True"):
        kernels.column_groups(X, groups, dtype=np.float32)
    with pytest.raises(InvalidType, match="keep is 'no'"):
        kernels.column_groups(X, groups, keep="no")
    with pytest.raises(InvalidType, match=r"groups is 3 \(int\)"):
        kernels.column_groups(X, 3)
    with pytest.raises(InvalidParameter, match="spherical"):
        kernels.column_groups(X, groups, normalize="spherical")


def test_groups_are_normalised_by_blocks_at_any_scale(monkeypatch):
    monkeypatch.setattr("mklref.kernels.approximations._STATISTICS", 1)  # of 64 rows
    X = 1e-8 * (RNG.normal(size=(150, 3)) + 1.0)
    assert kernels.column_groups(X, [[0, 2]], normalize="trace").traces() == pytest.approx(1.0)
    K = kernels.column_groups(X, [[0, 2]], normalize="multiplicative").dense()[0]
    assert np.trace(K) / 150 - K.mean() == pytest.approx(1.0)
    for value in RNG.uniform(size=20):  # of which rounding alone leaves a variance
        with pytest.raises(InvalidInput, match="its columns are constant; drop it"):
            kernels.column_groups(np.full((150, 1), value), [[0]], normalize="multiplicative")


@pytest.mark.parametrize("shape", [(N, 3), (N, 5), (N - 1, 4)])
def test_groups_of_an_array_that_has_other_columns_or_rows_now_are_lost(shape, tmp_path):
    """Columns that came in between were read in place of those of the group."""
    with h5py.File(tmp_path / "table.h5", "w") as file:
        table = file.create_dataset("X", data=RNG.normal(size=(N, 4)), maxshape=(None, None))
        stack = kernels.column_groups(table, {"first": [0, 1], "last": [1, 3]}, normalize="trace")
        table.resize(shape)
        with pytest.raises(KernelsLost, match=rf"X: rows .* and the array had \({N}, 4\) when the stack was made"):
            stack.read(0, N)


def test_gene_sets_are_read_from_gmt_files(tmp_path):
    path = tmp_path / "sets.gmt"
    path.write_text("APOPTOSIS\tabout\tTP53\tBAX\tTP53\n\nSMALL\t\tMYC\n", encoding="utf-8-sig")
    assert kernels.gene_sets(path) == {"APOPTOSIS": ["TP53", "BAX"], "SMALL": ["MYC"]}
    assert list(kernels.gene_sets(path, smallest=2)) == ["APOPTOSIS"]
    for text in ("ONLY\tabout\n", "A\t\tx\nA\t\ty\n"):
        path.write_text(text)
        with pytest.raises(UnsafeFile, match="line"):
            kernels.gene_sets(path, smallest=2)  # also of sets that are left out
    path.write_bytes(b"A\t\t\xff\n")
    with pytest.raises(UnsafeFile, match="UTF-8"):
        kernels.gene_sets(path)


def test_pivoted_cholesky_says_what_is_missing():
    X = RNG.normal(size=(N, 2))
    family = kernels.gaussian([0.5, 2.0])
    exact = kernels.stack(family.fit(X)).dense()
    few, all_of_it = kernels.cholesky(family, X, rank=5, tol=0.0), kernels.cholesky(family, X, rank=N, tol=0.0)
    assert np.allclose(all_of_it.dense(), exact, atol=1e-6)
    for missing, trace in zip(exact - few.dense(), few.residual_traces, strict=True):
        assert np.trace(missing) == pytest.approx(trace)
        assert np.linalg.eigvalsh(missing)[0] >= -1e-10
    assert np.allclose(few.transform(X[:3]).read(0, 3), few.read(0, 3))
    flat = RNG.normal(size=(N, 3)) * np.where(np.arange(N) == 0, 1e-6, 1.0)[:, None]
    assert [kernels.cholesky(kernels.linear(), c * flat, tol=0.0).rank for c in (1e-4, 1e4)] == [3, 3]


def test_pivoted_cholesky_has_the_fewest_columns_that_leave_out_the_share_tol():
    """Beside Schur complements of the largest diagonal entry; by default a thousandth may be left out."""
    X = np.random.default_rng(4).normal(size=(N, 2))
    family = kernels.gaussian([2.0])
    left = kernels.stack(family.fit(X)).dense()[0]
    total, shares = np.trace(left), []
    for _ in range(20):
        j = left.diagonal().argmax()
        left = left - np.outer(left[j], left[j]) / left[j, j]
        shares.append(np.trace(left) / total)
    assert shares[-1] < 1e-3
    for columns, share in enumerate(shares[:6], start=1):
        for tol, rank in ((1.001 * share, columns), (0.999 * share, columns + 1)):
            stack = kernels.cholesky(family, X, tol=tol)
            assert stack.ranks.tolist() == [rank]
            assert stack.residual_traces[0] <= tol * total
    assert kernels.cholesky(family, X).ranks.tolist() == [1 + sum(share > 1e-3 for share in shares)]
    for name, value in (("tol", 1.0), ("tol", -1e-9), ("rank", 0)):
        with pytest.raises(InvalidParameter, match=f"{name} = {value}"):
            kernels.cholesky(family, X, **{name: value})


def test_a_solution_on_factors_bounds_the_problem_with_the_exact_kernels():
    """The interval holds at every rank, and closes; it asks for what lies between support vectors, once."""
    study = runpy.run_path(str(Path(__file__).parents[2] / "docs" / "figures" / "factors.py"))["study"]
    optimum, *rows = study(60, (3, 15, 60))
    for row in rows:
        assert row["lower"] <= optimum["upper"]
        assert optimum["lower"] <= row["upper"]
        assert row["refined upper"] - row["refined lower"] <= 1e-6 * row["refined upper"]
        assert row["refined lower"] <= optimum["upper"]
        assert row["interval"] <= 2.0
    gaps = [row["upper"] - row["lower"] for row in rows]
    assert gaps[0] > gaps[1] > gaps[2]
    assert gaps[2] < 1e-5 * optimum["upper"]


def test_an_interval_is_that_of_certificates_of_each_multiple_of_the_dual_point():
    X = np.random.default_rng(8).normal(size=(60, 2))
    family, y = kernels.gaussian([0.5, 1.0, 2.0]), np.where(X[:, 0] * X[:, 1] > 0.0, 1.0, -1.0)
    exact = mklref.Problem(family.fit(X), y, regularizer="l2")
    approximation = exact.replace(kernels=kernels.cholesky(family, X, rank=9, tol=0.0))
    solution = mklref.solve(approximation)
    interval = mklref.exact_interval(exact, approximation, solution)
    points = [scale * solution.dual_coef for scale in 0.5 ** np.arange(0.0, 8.0, 0.5)]
    each = [mklref.certify(exact, beta, weights=solution.weights) for beta in points]
    assert interval.lower == pytest.approx(max(one.lower for one in each), rel=1e-9)
    least = min(solution.certificate.upper, *(one.upper for one in each))
    assert interval.upper == pytest.approx(least, rel=1e-9)
    with pytest.raises(InvalidInput, match="one problem"):
        mklref.exact_interval(exact, exact, solution)
    with pytest.raises(InvalidType, match="solution is NoneType"):
        mklref.exact_interval(exact, approximation, None)


def test_the_storage_of_the_rows_changes_nothing(tmp_path):
    L, score = make_factors(ranks=(3, 5))
    L = [np.where(np.abs(one) > 0.2, one, 0.0).astype(np.float32) for one in L]
    y = np.sign(score)
    whole = np.hstack(L)
    np.save(tmp_path / "rows.npy", whole)
    mapped = np.load(tmp_path / "rows.npy", mmap_mode="r")
    forms = {
        "arrays": L,
        "views": [whole[:, :3], whole[:, 3:]],
        "memory map": [mapped[:, :3], mapped[:, 3:]],
        "float64": [one.astype(np.float64) for one in L],
        "one sparse": [csr_matrix(L[0]), L[1]],
        "sparse": [csr_matrix(one) for one in L],
    }
    stacks = {name: kernels.FactorStack(form).sharded(2) for name, form in forms.items()}
    assert {name for name, one in stacks.items() if one.sources[0].here} == {"arrays", "views", "float64"}
    solutions = {name: optimal(mklref.Problem(one, y, regularizer="l2")) for name, one in stacks.items()}
    for name, solution in solutions.items():
        agree(solution, solutions["arrays"])
        expected = whole.T @ (score[:, None] * whole)  # of float64, as the scores are
        np.testing.assert_allclose(stacks[name].gram(score), expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    ("happens", "said"),
    [
        ("closed", r"factor 'K0' cannot be read, .* its file has to stay open"),
        ("cut", r"factor 'K0': rows 0 to 48 have shape \(40, 3\) now, and the array had \(48, 3\)"),
        ("nan", r"factor 'K0': row 47 holds nan, which was not there when the stack was made"),
    ],
)
def test_rows_that_are_lost_in_the_middle_are_named(tmp_path, happens, said):
    L, score = make_factors()
    file = h5py.File(tmp_path / "L.h5", "w")
    held = file.create_dataset("L", data=L[0], maxshape=(None, 3), chunks=(8, 3))
    given = mklref.Problem(kernels.FactorStack([held, L[1]]), np.sign(score))

    def lose(record):
        if happens == "closed":
            file.close()
        elif happens == "cut":
            held.resize(40, axis=0)
        else:
            held[47, 0] = np.nan

    with pytest.raises(KernelsLost, match=said):
        mklref.solve(given, callback=lose)


def loaded(first, last):
    return [one[first:last] for one in L]


def refused():
    raise FileNotFoundError("part-7.npy")


@pytest.mark.parametrize(
    ("factors", "error", "said"),
    [
        ([partial(loaded, 0, 1), partial(loaded, 1, 1)], InvalidInput, "n = 1 rows together"),
        ([refused], InvalidInput, "source of shard 0 cannot be read: FileNotFoundError: part-7.npy"),
        ([partial(loaded, 0, 9), partial(np.ones, (2, 9, 3))], InvalidInput, "shard 1 has names"),
        ([da.from_array(LATE, chunks=(10, -1))], InvalidInput, "shard 3 .*row 0 holds NaN"),
        ([da.ones((9, 0), chunks=9)], InvalidInput, "no column"),
    ],
)
def test_what_no_stack_can_be_made_of_is_a_sentence(client, factors, error, said):
    with pytest.raises(error, match=said):
        mklref.DistributedStack(factors, client=client)
