"""Solutions: prediction, models in files without pickle, truncated, altered or foreign."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest
import scipy.sparse
from makers import make_kernels, make_problem, make_samples, rewrite

from mklref._files import read_arrays, write_arrays
from mklref.certificate import certify
from mklref.exceptions import InvalidInput, InvalidParameter, InvalidType, UnsafeFile
from mklref.kernels import stack
from mklref.solution import History, Record, Solution, Status

N, M, NEW = 15, 3, 4


@pytest.fixture
def solution(rng):
    problem = make_problem(n=N, M=M)
    dual_coef = 0.3 * problem.y * rng.uniform(size=N)
    certificate = certify(problem, dual_coef, weights=[0.2, 0.5, 0.3], intercept=0.25)
    return Solution(
        dual_coef=dual_coef,
        weights=np.array([0.2, 0.5, 0.3]),
        intercept=0.25,
        objective=certificate.upper,
        certificate=certificate,
        status=Status.ITERATION_LIMIT,
        history=History((Record(1, 0.1, -1.0, 2.0, 5, np.ones(3)),), {"svm": 2}),
        solver="somebody",
    )


@pytest.fixture
def kernels_new(rng):
    return rng.normal(size=(M, NEW, N))


def scores_by_definition(solution, kernels_new):
    """f(x) = sum_m weights_m sum_i dual_coef_i k_m(x_i, x) + intercept."""
    return np.array(
        [
            sum(
                solution.weights[m] * solution.dual_coef[i] * float(kernels_new[m][x][i])
                for m in range(M)
                for i in range(N)
            )
            + solution.intercept
            for x in range(len(kernels_new[0]))
        ]
    )


@pytest.mark.parametrize(
    "form",
    [
        lambda K: K,
        lambda K: K.astype(np.float32),
        list,
        lambda K: [np.asfortranarray(matrix) for matrix in K],
        lambda K: np.repeat(K, 2, axis=1)[:, ::2],
        lambda K: K[:, :1],
    ],
)
def test_decision_function(solution, kernels_new, form):
    given = form(kernels_new)
    np.testing.assert_allclose(solution.decision_function(given), scores_by_definition(solution, given), rtol=1e-12)


def test_decision_function_of_the_training_stack(solution, rng):
    K = make_kernels(rng, make_samples(rng, N), M)
    np.testing.assert_allclose(solution.decision_function(stack(K)), solution.decision_function(K), rtol=1e-12)


def test_no_new_samples_give_no_scores(solution):
    assert solution.decision_function(np.empty((M, 0, N))).shape == (0,)


@pytest.mark.parametrize(
    ("spoil", "error", "says"),
    [
        (lambda K: K[:2], InvalidInput, r"kernels_new holds 2 kernels, the solution has 3 weights"),
        (lambda K: list(K) * 2, InvalidInput, r"kernels_new holds 6 kernels, the solution has 3 weights"),
        (lambda K: K.transpose(0, 2, 1), InvalidInput, r"kernels_new\[0\] has shape \(15, 4\); expected \(k, 15\)"),
        (lambda K: K[:, :, 1:], InvalidInput, r"kernels_new\[0\] has shape \(4, 14\); expected \(k, 15\)"),
        (lambda K: [K[0], K[1][:2], K[2]], InvalidInput, r"kernels_new\[1\] has 2 rows, kernels_new\[0\] has 4"),
        (lambda K: [K[0], K[1][0], K[2]], InvalidInput, r"kernels_new\[1\] has shape \(15,\); expected \(k, 15\)"),
        (lambda K: K[0], InvalidInput, r"kernels_new has shape \(4, 15\); expected \(M, k, n\)"),
        (lambda K: 1.0, InvalidInput, r"kernels_new has shape \(\); expected \(M, k, n\)"),
        (lambda K: stack([np.eye(4)] * 3), InvalidInput, r"kernels_new has shape \(3, 4, 4\); expected \(3, k, 15\)"),
        (lambda K: stack([np.eye(15)] * 2), InvalidInput, r"_new has shape \(2, 15, 15\); expected \(3, k, 15\)"),
        (lambda K: np.where(K[1, 2, 3] == K, np.nan, K), InvalidInput, r"kernels_new\[1\]\[2, 3\] is nan"),
        (lambda K: K + 0j, InvalidType, r"kernels_new is complex data"),
        (lambda K: np.ma.masked_less(K, 0), InvalidType, r"kernels_new is a masked array"),
        (lambda K: scipy.sparse.csr_array(K[0]), InvalidType, r"kernels_new is a sparse matrix"),
        (lambda K: [scipy.sparse.csr_array(k) for k in K], InvalidType, r"kernels_new\[0\] is a sparse matrix"),
    ],
)
def test_decision_function_refuses_what_does_not_fit(solution, kernels_new, spoil, error, says):
    with pytest.raises(error, match=says):
        solution.decision_function(spoil(kernels_new))


def test_history_columns():
    records = tuple(Record(t, 0.5 * t, -1.0 / (t + 1), 10.0 / (t + 1), 3, np.full(M, t)) for t in range(3))
    history = History(records)
    assert len(history) == 3
    assert tuple(history) == history.records
    np.testing.assert_allclose(history.column("relative_gap"), [1.1, 1.1, 1.1])
    np.testing.assert_array_equal(history.column("weights"), [[0] * M, [1] * M, [2] * M])
    assert History().column("seconds").shape == (0,)
    assert Record(0, 0.0, -3.0, -2.0, 0, np.ones(M)).relative_gap == 0.5  # of one class optima are below 0
    assert Record(0, 0.0, 0.0, 1.0, 0, np.ones(M), unit=4.0).relative_gap == 0.25


def test_every_status_says_what_to_do_next():
    assert all(len(status.value) > 20 for status in Status)


@pytest.mark.parametrize("name", ["model.npz", "model", "model.mkl"])
def test_round_trip(solution, tmp_path, name, kernels_new):
    path = tmp_path / name
    solution.save(path)
    assert [file.name for file in tmp_path.iterdir()] == [name]
    loaded = Solution.load(path)
    np.testing.assert_array_equal(loaded.dual_coef, solution.dual_coef)
    np.testing.assert_array_equal(loaded.weights, solution.weights)
    for field in ("intercept", "objective", "certificate", "status", "solver"):
        assert getattr(loaded, field) == getattr(solution, field)
    assert len(loaded.history) == 0
    np.testing.assert_array_equal(loaded.decision_function(kernels_new), solution.decision_function(kernels_new))


@pytest.mark.parametrize("name", ["s.json", "s.MAT", "s.h5", "s.hdf5"])
def test_a_name_says_no_other_format_than_is_written(solution, tmp_path, name):
    with pytest.raises(InvalidParameter, match=r"writes NPZ; end it in \.npz\. mklref\.testing\.vectors\.write_record"):
        solution.save(tmp_path / name)
    assert not list(tmp_path.iterdir())


def test_infinite_bounds_survive(solution, tmp_path):
    certificate = type(solution.certificate).from_dict({**solution.certificate.to_dict(), "lower": -np.inf})
    changed = Solution(solution.dual_coef, solution.weights, 0.0, np.inf, certificate, Status.STALLED)
    changed.save(tmp_path / "s.npz")
    loaded = Solution.load(tmp_path / "s.npz")
    assert (loaded.objective, loaded.certificate.lower) == (np.inf, -np.inf)


def test_files_are_json_and_plain_arrays(solution, tmp_path):
    solution.save(tmp_path / "s.npz")
    with np.load(tmp_path / "s.npz", allow_pickle=False) as archive:
        assert sorted(archive.files) == ["dual_coef", "facts", "weights"]
        assert json.loads(archive["facts"].tobytes())["format"] == "mklref-solution-1"


def test_missing_files_are_missing(tmp_path):
    with pytest.raises(FileNotFoundError):
        Solution.load(tmp_path / "nothing.npz")


@pytest.fixture
def saved(solution, tmp_path):
    path = tmp_path / "saved.npz"
    solution.save(path)
    return path


@pytest.mark.parametrize(
    ("arrays", "facts", "says"),
    [
        ({}, {"format": "mklref-solution-9"}, r"'mklref-solution-9'; .* reads 'mklref-solution-1.* A newer version of"),
        ({}, {"format": None}, r"is not a saved Solution: KeyError\('format'\)"),
        ({}, {"status": "FINE"}, r"is not a saved Solution: KeyError\('FINE'\)"),
        ({}, {"intercept": "much"}, r"is not a saved Solution"),
        ({}, {"certificate": {"lower": 1.0}}, r"is not a saved Solution"),
        ({}, {"intercept": True}, "intercept = True is no float"),
        ({}, {"intercept": np.nan}, r"intercept\[0\] is nan"),
        ({}, {"intercept": 10**400}, "beyond float64"),
        ({}, {"optimal": True}, "its facts are .*optimal.*; expected"),
        *(({}, {"raw": raw}, "is not a saved Solution") for raw in (3, {}, {"value": "x"})),
        ({"weights": np.ones((2, 2))}, {}, r"expected a float64 vector, found float64 of shape \(2, 2\)"),
        ({"weights": np.ones(3, np.float32)}, {}, r"expected a float64 vector, found float32"),
        ({"dual_coef": np.array(["a"])}, {}, r"expected a float64 vector, found <U1"),
        ({"dual_coef": np.array([1.0, np.nan])}, {}, r"dual_coef\[1\] is nan"),
        ({"weights": np.array([1.0, np.inf])}, {}, r"weights\[1\] is inf"),
        ({"dual_coef": None}, {}, r"is not a saved Solution: .*arrays are weights; expected dual_coef, weights"),
    ],
)
def test_foreign_files_are_refused(saved, arrays, facts, says):
    rewrite(saved, arrays, facts)
    with pytest.raises(UnsafeFile, match=says):
        Solution.load(saved)


@pytest.mark.parametrize("field", ["lower", "violations", "worst_kernel", "intercept"])
@pytest.mark.parametrize("value", ["text", {"a": 1}, None, [["x"]]])
def test_certificates_of_the_wrong_types_are_refused(saved, field, value):
    rewrite(saved, facts={"certificate": {**read_arrays(saved)[1]["certificate"], field: value}})
    with pytest.raises(UnsafeFile, match="is not a saved Solution"):
        Solution.load(saved)


def test_somebody_elses_arrays_are_refused(tmp_path):
    np.savez(tmp_path / "s.npz", kernels=np.ones((2, 3, 3)))
    with pytest.raises(UnsafeFile, match="is not a saved Solution"):
        Solution.load(tmp_path / "s.npz")
    arrays, facts = read_arrays(tmp_path / "s.npz")
    assert facts == {}
    assert arrays["kernels"].shape == (2, 3, 3)


def loaded_from(path, content):
    """What a file of these bytes holds; one that was written over would wait for the disk."""
    path.unlink()
    path.write_bytes(content)
    return Solution.load(path)


def test_truncation_anywhere_is_refused(saved):
    content = saved.read_bytes()
    for length in range(0, len(content), 7):
        with pytest.raises(UnsafeFile):
            loaded_from(saved, content[:length])


def test_a_hole_in_the_data_is_refused(saved, rng):
    """The directory at the end is whole and points into what is no longer there."""
    content = saved.read_bytes()
    for _ in range(200):
        first, last = np.sort(rng.integers(0, len(content), size=2))
        with pytest.raises(UnsafeFile):
            loaded_from(saved, content[:first] + content[last + 1 :])


@pytest.mark.sampled(2)
@pytest.mark.parametrize("compress", [True, False])
def test_flipped_bytes_are_refused_or_harmless(solution, saved, rng, compress):
    """Whatever byte is wrong, the error is ours; and what loads is what was saved."""
    if not compress:
        arrays, facts = read_arrays(saved)
        text = np.frombuffer(json.dumps(facts).encode(), dtype=np.uint8)
        np.savez(saved, **arrays, facts=text)
    content = saved.read_bytes()
    refused = 0
    for position in range(0, len(content), 3):
        spoiled = bytearray(content)
        spoiled[position] ^= int(rng.integers(1, 256))
        try:
            loaded = loaded_from(saved, spoiled)
        except UnsafeFile:
            refused += 1
        else:
            np.testing.assert_array_equal(loaded.dual_coef, solution.dual_coef)
            assert loaded.certificate == solution.certificate
    assert refused > len(content) / 3 / 2


def test_what_the_solver_said_is_saved_with_its_raw_point(solution, tmp_path):
    raw = dataclasses.replace(solution, dual_coef=2.0 * solution.dual_coef, value=1.5, claimed="optimal_inaccurate")
    polished = dataclasses.replace(solution, value=1.5, claimed="optimal_inaccurate", raw=raw)
    polished.save(tmp_path / "polished.npz")
    loaded = Solution.load(tmp_path / "polished.npz")
    assert (loaded.value, loaded.claimed) == (1.5, "optimal_inaccurate")
    np.testing.assert_array_equal(loaded.raw.dual_coef, raw.dual_coef)
    assert loaded.raw.certificate == raw.certificate
    assert loaded.raw.raw is None
    solution.save(tmp_path / "native.npz")
    native = Solution.load(tmp_path / "native.npz")
    assert np.isnan(native.value)
    assert native.raw is None


def test_a_foreign_raw_point_is_refused(saved):
    arrays, facts = read_arrays(saved)
    write_arrays(saved, arrays, {**facts, "raw": None})
    with pytest.raises(UnsafeFile, match="is not a saved Solution"):
        Solution.load(saved)
