"""Problems and solutions as files: nothing is lost, and what is wrong is said."""

from __future__ import annotations

import json
import os
import re
import sys

import h5py
import numpy as np
import pytest
from makers import LOSSES, make_problem
from scipy.io import loadmat, savemat

from mklref import Solution, reference, solve
from mklref.exceptions import InvalidInput, MissingExtra, UnsafeFile
from mklref.kernels import gene_sets
from mklref.regularizers import Groups, Lp, Mahalanobis
from mklref.testing.cases.ordinary import OTHERS
from mklref.testing.vectors import (
    answer_from_record,
    problem_from_record,
    read_answer,
    read_problem,
    read_record,
    record_of_problem,
    write_record,
)

FORMATS = ("npz", "mat", "json", "h5")


def same(one, other) -> bool:
    return (
        np.array_equal(one.kernels.dense(), other.kernels.dense())
        and np.array_equal(one.y, other.y)
        and np.array_equal(one.costs, other.costs)
        and (one.C, one.loss, str(one.regularizer)) == (other.C, other.loss, str(other.regularizer))
        and one.intercept == other.intercept
    )


@pytest.mark.sampled(2)
@pytest.mark.parametrize("ending", FORMATS)
@pytest.mark.parametrize("regularizer", OTHERS)
def test_every_regulariser_survives(tmp_path, ending, regularizer, rng):
    problem = make_problem(regularizer=OTHERS[regularizer], n=6, sample_weight=rng.uniform(0.5, 2.0, size=6), C=0.3)
    path = tmp_path / f"problem.{ending}"
    write_record(path, record_of_problem(problem))
    back = problem_from_record(read_record(path))
    assert same(problem, back)
    rho = rng.uniform(0.2, 1.0, size=4)
    assert back.regularizer.value(rho) == problem.regularizer.value(rho)


def test_groups_are_counted_from_one():
    record = record_of_problem(make_problem(regularizer=Groups([[0, 2], [1, 3]], 0.5, 0.5), n=6))
    np.testing.assert_array_equal(record["regularizer_groups"], [1, 2, 1, 2])


@pytest.mark.sampled(2)
@pytest.mark.parametrize("ending", FORMATS)
@pytest.mark.parametrize("loss", LOSSES, ids=str)
def test_every_loss_survives(tmp_path, ending, loss):
    problem = make_problem(loss=loss, n=6, M=1, regularizer=Lp(np.inf))
    path = tmp_path / f"problem.{ending}"
    write_record(path, record_of_problem(problem))
    assert same(problem, problem_from_record(read_record(path)))


def test_what_is_missing_has_the_defaults():
    problem = problem_from_record({"kernels": np.eye(3)[None], "y": [1, -1, 1]})
    assert (problem.C, problem.loss.name, str(problem.regularizer), problem.intercept) == (1.0, "hinge", "Lp(1)", True)
    assert (
        str(problem_from_record({"kernels": np.eye(2)[None], "y": [1, -1], "regularizer": "l2"}).regularizer) == "Lp(2)"
    )


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"y": None}, "y missing; the file holds kernels"),
        ({"loss": "hing"}, "loss = 'hing' is unknown; known names: hinge"),
        ({"regularizer": "L1"}, "regularizer = 'L1' is unknown; known names: l1, l2, uniform, BlockNorm"),
        ({"regularizer": "Tikhonov", "regularizer_p": 2.0}, "Tikhonov needs regularizer_mu."),
        ({"regularizer": "Lp", "regularizer_p": 0.5}, "p = 0.5"),
        ({"C": "big"}, "C = 'big' is no number"),
        ({"C": -1.0}, "C = -1"),
        ({"intercept": 2.0}, "intercept = 2.0; give true or false, 1 or 0"),
        ({"intercept": "yes"}, "intercept = 'yes'; give true or false, 1 or 0"),
        ({"C": "3"}, "C = '3' is no number"),
        ({"C": True}, "C = True is no number"),
        ({"C": np.array([2.0 + 1.0j])}, "is no number"),
        ({"C": [1.0, 2.0]}, "C = [1.0, 2.0] is no number"),
        ({"y": "1"}, "y = '1' is no vector of numbers"),
        ({"y": ["1", "-1"]}, "y = ['1', '-1'] is no vector of numbers"),
        ({"y": [True, False]}, "is no vector of numbers"),
        ({"y": [[1, -1], [1, -1]]}, "y of shape (2, 2) is no vector of numbers"),
        ({"sample_weight": 2j}, "sample_weight = 2j is no vector of numbers"),
        ({"loss": np.ones(3)}, "loss = array([1., 1., 1.]) is no text"),
        ({"regularizer": 1.0}, "regularizer = 1.0 is no text"),
        ({"format": 1.0}, "format = 1.0 is no text"),
        ({"upper": "big"}, "upper = 'big' is no number"),
        ({"upper": [[1.0, 2.0], [3.0]]}, "upper = [[1.0, 2.0], [3.0]] is ragged; give rows of one length"),
        ({"intercept": [[1], [0, 1]]}, "intercept = [[1], [0, 1]] is ragged"),
        ({"y": [1.0, [-1.0, 1.0]]}, "y = [1.0, [-1.0, 1.0]] is ragged"),
        ({"kernels": [[[1.0, 0.0], [0.0]]]}, "kernels = [[[1.0, 0.0], [0.0]]] is ragged"),
        ({"regularizer": "Lp", "regularizer_p": [1.0, 2.0]}, "regularizer_p = [1.0, 2.0] is no number"),
        (
            {"regularizer": "Groups", "regularizer_p": 0.5, "regularizer_q": 0.5, "regularizer_groups": [1.5]},
            "give the number of the group of each kernel",
        ),
        ({"regulariser": "Lp", "c": 3.0}, "not in the schema: regulariser (is regularizer meant?), c (is C meant?); k"),
        ({"p": 2.0, "tau": 0.5}, "not in the schema: p (is regularizer_p meant?), tau (is loss_tau meant?); known"),
        ({"lambda": 2.0}, "not in the schema: lambda; known here: format, name, kernels"),
        ({"regularizer_p": 2.0}, "not in the schema: regularizer_p (no regularizer)"),
        ({"regularizer": "l1", "regularizer_p": 2.0}, "regularizer_p (no parameter of regularizer = 'l1')"),
        ({"loss_epsilon": 0.1, "loss": "hinge"}, "loss_epsilon (no parameter of loss = 'hinge')"),
        ({"format": "mklref-problem-2"}, "format = 'mklref-problem-2'; expected 'mklref-problem-1'"),
        ({"format": "mklref-solution-1"}, "format = 'mklref-solution-1'; expected 'mklref-problem-1'"),
    ],
)
def test_what_is_wrong_is_said(changes, said):
    record = {"kernels": np.eye(2)[None], "y": [1, -1], **changes}
    with pytest.raises(InvalidInput, match=re.escape(said)):
        problem_from_record({name: value for name, value in record.items() if value is not None})


def test_unknown_suffixes(tmp_path):
    (tmp_path / "problem.pkl").touch()
    with pytest.raises(InvalidInput, match=r"problem\.pkl: unknown format; the suffixes are \.npz, \.mat"):
        read_record(tmp_path / "problem.pkl")
    with pytest.raises(FileNotFoundError):
        read_record(tmp_path / "vectors")  # a directory that was never made, perhaps
    with pytest.raises(InvalidInput, match="unknown format"):
        write_record(tmp_path / "problem.pkl", {})


def test_r_writes_one_text_as_a_vector_of_one(tmp_path):
    record = record_of_problem(make_problem(n=4, M=2))
    vectors = {name: np.atleast_1d(value) for name, value in record.items()}
    np.savez(tmp_path / "p.npz", **vectors)
    with h5py.File(tmp_path / "p.h5", "w") as file:
        for name, value in vectors.items():
            file[name] = value.astype("S") if value.dtype.kind == "U" else value
    (tmp_path / "p.json").write_text(json.dumps({name: value.tolist() for name, value in vectors.items()}))
    for ending in ("npz", "h5", "json"):
        assert same(read_problem(tmp_path / f"p.{ending}"), problem_from_record(record))


def test_r_writes_infinity_with_a_capital(tmp_path):
    for text in ('"Inf"', '["Inf"]'):  # toJSON(Inf, auto_unbox = TRUE), and without
        content = f'{{"kernels": [[[1, 0], [0, 1]]], "y": [-1, 1], "regularizer": "Lp", "regularizer_p": {text}}}'
        (tmp_path / "problem.json").write_text(content)
        assert read_problem(tmp_path / "problem.json").regularizer.p == np.inf


# MATLAB


def test_matlab_counts_the_kernels_last(tmp_path):
    problem = make_problem(n=5, M=3)
    write_record(tmp_path / "p.mat", record_of_problem(problem))
    found = loadmat(tmp_path / "p.mat")
    assert found["kernels"].shape == (5, 5, 3)
    assert np.array_equal(found["kernels"][:, :, 1], problem.kernels.dense()[1])
    assert found["y"].shape == (5, 1)
    assert found["loss"][0] == "hinge"


@pytest.mark.parametrize("compressed", [False, True])
def test_what_matlab_saves_is_read(tmp_path, compressed):
    """Row vectors, integers as small types, a logical, a stack of one kernel without its last axis."""
    K = make_problem(n=5, M=1).kernels.dense()[0]
    y = np.array([[1, -1, 1, 1, -1]], dtype=np.int8)
    savemat(tmp_path / "p.mat", {"kernels": K, "y": y, "C": 3, "intercept": np.array(True)}, do_compression=compressed)
    problem = problem_from_record(read_record(tmp_path / "p.mat"))
    assert (problem.n_kernels, problem.C, problem.intercept) == (1, 3.0, True)
    assert np.array_equal(problem.kernels.dense()[0], K)
    assert np.array_equal(problem.y, y[0])


@pytest.mark.parametrize("regularizer", [Lp(1), Mahalanobis([[2, 0.5, 0], [0.5, 1, 0.1], [0, 0.1, 3]])], ids=str)
def test_matlab_7_3_is_hdf5_with_reversed_axes(regularizer, tmp_path):
    problem = make_problem(n=5, M=3, regularizer=regularizer)
    path = tmp_path / "p.mat"
    with h5py.File(path, "w", userblock_size=512) as file:
        for name, value in record_of_problem(problem).items():
            if isinstance(value, str):
                file[name] = np.array([[ord(letter)] for letter in value], dtype=np.uint16)
                file[name].attrs["MATLAB_class"] = np.bytes_(b"char")
            else:
                array = (
                    np.moveaxis(value, 0, -1) if name == "kernels" else np.atleast_2d(np.asarray(value, dtype=float))
                )
                file[name] = array.T if np.ndim(value) > 1 else array
        file.create_group("#refs#")
    path.write_bytes(b"MATLAB 7.3 MAT-file".ljust(512, b" ") + path.read_bytes()[512:])
    assert same(problem, problem_from_record(read_record(path)))


# JSON and CSV


def test_json_is_exact_in_decimals_and_hexadecimals(tmp_path):
    problem = make_problem(n=4, M=2, C=0.1)
    write_record(tmp_path / "p.json", record_of_problem(problem))
    facts = json.loads((tmp_path / "p.json").read_text())
    assert (facts["C"], float.fromhex(facts["hex"]["C"])) == (0.1, 0.1)
    assert facts["kernels"] == {"file": "p.kernels.csv", "shape": [2, 4, 4]}
    lines = (tmp_path / "p.kernels.hex.csv").read_text().splitlines()
    rows = [[float.fromhex(number) for number in line.split(",")] for line in lines]
    assert np.array_equal(np.reshape(rows, (2, 4, 4)), problem.kernels.dense())


def test_what_spreadsheets_put_before_a_table_is_no_number(tmp_path):
    problem = make_problem(n=4, M=2)
    write_record(tmp_path / "p.json", record_of_problem(problem))
    for file in (tmp_path / "p.json", tmp_path / "p.kernels.csv"):
        file.write_bytes(b"\xef\xbb\xbf" + file.read_bytes().replace(b"\n", b"\r\n"))
    assert same(read_problem(tmp_path / "p.json"), problem)
    (tmp_path / "p.kernels.csv").write_text("1.0,2.0,3.0,4.0,5.0,6.0,7.0,8.0\n" * 4)
    with pytest.raises(
        UnsafeFile, match=r"4 rows of 8 numbers; the shape \[2, 4, 4\] takes 8 of 4, the matrices below"
    ):
        read_problem(tmp_path / "p.json")
    (tmp_path / "p.json").write_text("{}", encoding="utf-16")
    with pytest.raises(UnsafeFile, match="save it as UTF-8"):
        read_problem(tmp_path / "p.json")


def test_hdf5_without_h5py_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "h5py", None)
    for call in (lambda: write_record(tmp_path / "p.h5", {}), lambda: read_record(tmp_path / "p.h5")):
        with pytest.raises(MissingExtra, match=r"pip install 'mklref\[hdf5\]'"):
            call()


# Solutions


def test_answers_in_every_format(tmp_path):
    problem = make_problem()
    found = solve(problem)
    for ending in FORMATS:
        path = tmp_path / f"s.{ending}"
        write_record(path, {"dual_coef": found.dual_coef, "weights": found.weights, "intercept": found.intercept})
        answer = answer_from_record(read_record(path))
        assert np.array_equal(answer.dual_coef, found.dual_coef)
        assert np.array_equal(answer.weights, found.weights)
        assert answer.intercept == found.intercept
        assert (answer.objective, answer.lower, answer.converged) == (None, None, None)


def test_an_answer_comes_through_a_pipe():
    """As of `mklref certify problem.json <(./solver problem.json)`."""
    reader, writer = os.pipe()
    os.write(writer, b'{"dual_coef": [0.5, -0.5], "intercept": 0.25}')
    os.close(writer)
    assert read_answer(f"/dev/fd/{reader}").intercept == 0.25
    os.close(reader)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes there")
@pytest.mark.parametrize("suffix", ["npz", "json", "mat", "h5", ""])
@pytest.mark.parametrize("read", [read_record, read_answer, Solution.load, gene_sets], ids=lambda read: read.__name__)
def test_nobody_waits_for_the_writer_of_a_named_pipe(read, suffix, tmp_path):
    os.mkfifo(pipe := tmp_path / f"pipe.{suffix}")
    with pytest.raises(UnsafeFile, match=r"is a named pipe, .* no writer\. Write its content to a file"):
        read(pipe)


@pytest.mark.parametrize("solver", [solve, lambda problem: reference.solve(problem, "dual", solver="CLARABEL")])
def test_a_saved_solution_is_an_answer(solver, tmp_path):
    found = solver(make_problem())
    found.save(tmp_path / "s.npz")
    answer = answer_from_record(read_record(tmp_path / "s.npz"))
    assert np.array_equal(answer.dual_coef, found.dual_coef)
    assert (answer.intercept, answer.objective) == (found.intercept, found.objective)


def test_ragged_numbers_of_an_answer_are_refused():
    for name in ("dual_coef", "weights", "intercept", "objective", "converged"):
        with pytest.raises(InvalidInput, match=rf"^{name} = \[\[1.0, 0.0\], \[1.0\]\] is ragged"):
            answer_from_record({"dual_coef": [1.0], name: [[1.0, 0.0], [1.0]]})


def test_names_that_are_no_part_of_an_answer_are_refused():
    """Misspelt weights would be replaced by the best ones, and nobody would notice."""
    with pytest.raises(InvalidInput, match=r": weigths \(is weights meant\?\), theta \(is weights m.*\), g; known"):
        answer_from_record({"dual_coef": np.ones(3), "weigths": np.ones(2), "theta": 1.0, "g": 1.0})
    assert answer_from_record({"dual_coef": np.ones(3), "info_seconds": 3.0, "info_host": "x"}).weights is None


@pytest.mark.parametrize("ending", FORMATS)
def test_what_is_refused_is_named_with_its_file(tmp_path, ending):
    path = tmp_path / f"s.{ending}"
    write_record(path, {"dual_coef": np.ones(3), "theta": np.ones(2)})
    with pytest.raises(InvalidInput, match=rf"s\.{ending}: not in the schema: theta"):
        read_answer(path)


def test_texts_of_npz_files_are_json_in_facts(tmp_path):
    """What the documentation promises to those who read them without mklref."""
    write_record(tmp_path / "p.npz", record_of_problem(make_problem(n=4, M=2), name="p"))
    with np.load(tmp_path / "p.npz") as arrays:
        assert arrays["facts"].dtype == np.uint8
        assert json.loads(arrays["facts"].tobytes()) == {
            "format": "mklref-problem-1", "name": "p", "loss": "hinge", "regularizer": "Lp",
        }  # fmt: skip
        plain = {name: arrays[name] for name in arrays.files if name != "facts"}
    np.savez(tmp_path / "q.npz", **plain, loss="hinge", regularizer="Lp")  # texts as arrays are read as well
    assert same(read_problem(tmp_path / "p.npz"), read_problem(tmp_path / "q.npz"))


def test_null_in_json_means_missing(tmp_path):
    (tmp_path / "s.json").write_text('{"dual_coef": [0.5, -0.5], "weights": null, "intercept": null, "lower": null}')
    answer = read_answer(tmp_path / "s.json")
    assert (answer.weights, answer.intercept, answer.lower) == (None, None, None)
    (tmp_path / "s.json").write_text('{"dual_coef": [0.5, null]}')
    with pytest.raises(UnsafeFile, match="null, which many writers of JSON put for NaN, is no number"):
        read_answer(tmp_path / "s.json")


def test_kernels_of_a_mat_file_are_counted_last(tmp_path):
    savemat(tmp_path / "p.mat", {"kernels": np.zeros((4, 24, 24)), "y": np.ones(24)})
    with pytest.raises(
        InvalidInput, match=r"p\.mat: kernels has shape \(4, 24, 24\); MATLAB counts .* last, \(n, n, M\)"
    ):
        read_problem(tmp_path / "p.mat")


def test_answers_without_dual_coef_are_refused():
    with pytest.raises(InvalidInput, match="dual_coef missing; the file holds alpha"):
        answer_from_record({"alpha": np.ones(3)})


@pytest.mark.parametrize("ending", FORMATS)
def test_texts_of_numpy_are_texts(tmp_path, ending):
    write_record(tmp_path / f"s.{ending}", {"info_host": np.str_("x")})
    assert read_record(tmp_path / f"s.{ending}") == {"info_host": "x"}
