"""Problems and solutions as files: nothing is lost, nothing is believed, and the verdict is that of the certificate."""

from __future__ import annotations

import contextlib
import json
import re
import zlib
from pathlib import Path

import h5py
import numpy as np
import pytest
from makers import LOSSES, make_problem
from scipy.io import loadmat, savemat

from mklref import certify, reference, solve
from mklref.cli import main
from mklref.exceptions import InvalidInput, InvalidParameter, MissingExtra, UnsafeFile
from mklref.regularizers import Lp
from mklref.testing.cases.regularizers import REGULARIZERS
from mklref.testing.result import Outcome
from mklref.testing.vectors import (
    answer_from_record,
    check_directory,
    export_vectors,
    hdf5,
    problem_from_record,
    read_answer,
    read_problem,
    read_record,
    record_of_problem,
    write_record,
)

FORMATS = ("npz", "mat", "json", "h5")
EXPORTED = "hinge-l1", "squared-l2", "two-samples", "small-C", "hinge-elastic-net-ivanov", "permuted-samples"


def same(one, other) -> bool:
    return (
        np.array_equal(one.kernels.dense(), other.kernels.dense())
        and np.array_equal(one.y, other.y)
        and np.array_equal(one.costs, other.costs)
        and (one.C, one.loss, str(one.regularizer)) == (other.C, other.loss, str(other.regularizer))
        and one.intercept == other.intercept
    )


@pytest.mark.parametrize("ending", FORMATS)
@pytest.mark.parametrize("regularizer", REGULARIZERS)
def test_every_regulariser_survives(tmp_path, ending, regularizer, rng):
    problem = make_problem(
        regularizer=REGULARIZERS[regularizer], n=6, sample_weight=rng.uniform(0.5, 2.0, size=6), C=0.3
    )
    path = tmp_path / f"problem.{ending}"
    write_record(path, record_of_problem(problem))
    back = problem_from_record(read_record(path))
    assert same(problem, back)
    rho = rng.uniform(0.2, 1.0, size=4)
    assert back.regularizer.value(rho) == problem.regularizer.value(rho)


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
        ({"regularizer": "L1"}, "regularizer = 'L1' is unknown; known names: l1, l2, uniform, Lp"),
        ({"regularizer": "Tikhonov", "regularizer_p": 2.0}, "Tikhonov needs regularizer_p, regularizer_mu"),
        ({"regularizer": "Lp", "regularizer_p": 0.5}, "p = 0.5"),
        ({"C": "big"}, "C = 'big' is no number"),
        ({"C": -1.0}, "C = -1"),
        ({"intercept": 2.0}, "intercept = 2; give 1 or 0"),
        (
            {"regulariser": "Lp", "c": 3.0},
            "not in the schema: regulariser (is regularizer meant?), c (is C meant?); known",
        ),
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
    with pytest.raises(InvalidInput, match=r"problem\.pkl: unknown format; the suffixes are \.npz, \.mat"):
        read_record(tmp_path / "problem.pkl")
    with pytest.raises(InvalidInput, match="unknown format"):
        write_record(tmp_path / "problem.pkl", {})


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


def test_matlab_7_3_is_hdf5_with_reversed_axes(tmp_path):
    problem = make_problem(n=5, M=3)
    path = tmp_path / "p.mat"
    with h5py.File(path, "w", userblock_size=512) as file:
        file["kernels"] = np.moveaxis(problem.kernels.dense(), 0, -1).T
        file["y"] = problem.y[None, :]
        file["C"] = np.array([[problem.C]])
        file["loss"] = np.array([[ord(letter)] for letter in "hinge"], dtype=np.uint16)
        file["loss"].attrs["MATLAB_class"] = np.bytes_(b"char")
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


def json_with(tmp_path, **changes) -> Path:
    problem = make_problem(n=4, M=2)
    write_record(tmp_path / "p.json", record_of_problem(problem))
    facts = json.loads((tmp_path / "p.json").read_text())
    facts["kernels"] |= changes
    (tmp_path / "p.json").write_text(json.dumps(facts))
    return tmp_path / "p.json"


@pytest.mark.parametrize(
    "file",
    [
        "../secret.csv",
        "/etc/passwd",
        "..",
        "",
        "sub/p.csv",
        "..\\secret.csv",
        3,
        None,
        ["p.kernels.csv"],
        "a\0b",
        "\ud800",
    ],
)
def test_tables_come_from_beside_the_file(tmp_path, file):
    with pytest.raises(UnsafeFile, match=r"give the plain name of a file beside this one|directory|do not fit"):
        read_record(json_with(tmp_path, file=file))


def test_links_to_other_directories_are_refused(tmp_path):
    inside = tmp_path / "inside"
    inside.mkdir()
    (tmp_path / "secret.csv").write_text("1,2\n3,4\n")
    (inside / "link.csv").symlink_to(tmp_path / "secret.csv")
    with pytest.raises(UnsafeFile, match=r"'link\.csv' leads to another directory"):
        read_record(json_with(inside, file="link.csv"))


@pytest.mark.parametrize(
    "shape", [[2, 4, 400000], [10**9, 10**9, 4], [2, 4], [2, -4, 4], [2.0, 4, 4], "many", [32], [1, 4, 4]]
)
def test_shapes_are_compared_with_the_file(tmp_path, shape):
    with pytest.raises(UnsafeFile, match="shape"):
        read_record(json_with(tmp_path, shape=shape))


@pytest.mark.parametrize("text", ["", "[1, 2]", "{", '{"y": {"a": 1}}', '{"y": [1, "x"]}', "[" * 100000])
def test_damaged_json(tmp_path, text):
    (tmp_path / "p.json").write_text(text)
    with pytest.raises(UnsafeFile):
        read_record(tmp_path / "p.json")


def test_damaged_csv(tmp_path):
    path = json_with(tmp_path)
    table = tmp_path / "p.kernels.csv"
    table.write_text(table.read_text().replace("0.", "z.", 1))
    with pytest.raises(UnsafeFile, match=r"p\.kernels\.csv is damaged"):
        read_record(path)


# Hostile MAT and HDF5 files


def test_mat_files_unpack_to_no_more_than_allowed(tmp_path):
    path = tmp_path / "bomb.mat"
    savemat(path, {"kernels": np.zeros((300, 300))}, do_compression=True)
    assert path.stat().st_size < 5000
    with pytest.raises(UnsafeFile, match="unpacks to more than 100000 bytes"):
        read_record(path, max_bytes=100_000)
    with pytest.raises(UnsafeFile, match="at most 100 are read"):
        read_record(path, max_bytes=100)


@pytest.mark.parametrize(
    "value", [{"a": 1.0}, np.array([1.0, "x"], dtype=object), np.eye(2) * 1j], ids=["struct", "cell", "complex"]
)
def test_mat_files_hold_numbers_and_texts_only(tmp_path, value):
    savemat(tmp_path / "p.mat", {"kernels": value})
    with pytest.raises((UnsafeFile, InvalidInput, TypeError)):
        problem_from_record({**read_record(tmp_path / "p.mat"), "y": [1, -1]})


def mat_header() -> bytes:
    return b"MATLAB 5.0 MAT-file".ljust(124, b" ") + b"\x00\x01IM"


def element(kind: int, content: bytes) -> bytes:
    return kind.to_bytes(4, "little") + len(content).to_bytes(4, "little") + content + b"\0" * (-len(content) % 8)


def matrix(shape, data: bytes, kind: int = 6) -> bytes:
    dims = b"".join(int(k).to_bytes(4, "little", signed=True) for k in shape)
    return element(
        14, element(6, bytes([kind, 0, 0, 0]) + bytes(4)) + element(5, dims) + element(1, b"y") + element(9, data)
    )


def test_the_handmade_mat_file_is_sound(tmp_path):
    """The baseline of the hostile ones below."""
    (tmp_path / "p.mat").write_bytes(mat_header() + matrix((2, 1), np.array([1.0, -1.0]).tobytes()))
    assert read_record(tmp_path / "p.mat")["y"].tolist() == [1.0, -1.0]


@pytest.mark.parametrize(
    "content",
    [
        b"",
        matrix((2**30, 2**30), bytes(16)),
        matrix((-1, 2), bytes(16)),
        matrix((2, 1), bytes(16), kind=1),
        matrix((2, 1), bytes(16), kind=3),
        element(14, b""),
        element(14, element(6, bytes(8))),
        element(9, bytes(8)),
        (14).to_bytes(4, "little") + (2**31).to_bytes(4, "little") + bytes(8),
        element(15, zlib.compress(matrix((2**20, 2**10), bytes(16)))),
        element(15, zlib.compress(matrix((2, 1), bytes(16)))[:-6]),
        element(15, b"nonsense"),
        bytes(5),
    ],
    ids=["empty-is-fine", "huge", "negative", "cell", "object", "no-parts", "flags-only", "bare", "long", "packed-huge",
         "packed-truncated", "packed-nonsense", "short"],
)  # fmt: skip
def test_hostile_mat_files(tmp_path, content):
    (tmp_path / "p.mat").write_bytes(mat_header() + content)
    if not content:
        assert read_record(tmp_path / "p.mat") == {}
        return
    with pytest.raises(UnsafeFile):
        read_record(tmp_path / "p.mat")


def test_no_mat_file_at_all(tmp_path):
    (tmp_path / "p.mat").write_bytes(b"kernels = eye(3)")
    with pytest.raises(UnsafeFile, match="is not a MAT file of version 5 to 7"):
        read_record(tmp_path / "p.mat")


def test_every_truncation_of_a_mat_file_is_noticed(tmp_path):
    """Or the file ends between two variables."""
    write_record(tmp_path / "p.mat", record_of_problem(make_problem(n=4, M=2)))
    whole = (tmp_path / "p.mat").read_bytes()
    names = set(read_record(tmp_path / "p.mat"))
    for length in range(0, len(whole), 41):
        (tmp_path / "cut.mat").write_bytes(whole[:length])
        with contextlib.suppress(UnsafeFile):
            assert set(read_record(tmp_path / "cut.mat")) < names


def test_hdf5_reads_nothing_outside_the_file(tmp_path):
    other = tmp_path / "other.h5"
    with h5py.File(other, "w") as file:
        file["y"] = np.ones(3)
    secret = tmp_path / "secret.bin"
    secret.write_bytes(np.ones(3).tobytes())

    def link(file):
        file["y"] = h5py.ExternalLink(str(other), "/y")

    def soft(file):
        file["z"], file["y"] = np.ones(3), h5py.SoftLink("/z")

    def external(file):
        file.create_dataset("y", shape=(3,), dtype="f8", external=[(str(secret), 0, 24)])

    def virtual(file):
        layout = h5py.VirtualLayout(shape=(3,), dtype="f8")
        layout[:] = h5py.VirtualSource(str(other), "y", shape=(3,))
        file.create_virtual_dataset("y", layout)

    for make, said in ((link, "is a link"), (soft, "is a link"), (external, "another file"), (virtual, "another file")):
        path = tmp_path / f"{make.__name__}.h5"
        with h5py.File(path, "w") as file:
            make(file)
        with pytest.raises(UnsafeFile, match=said):
            read_record(path)


def test_hdf5_of_hostile_size_and_type(tmp_path):
    path = tmp_path / "p.h5"
    with h5py.File(path, "w") as file:
        file.create_dataset("kernels", shape=(10**5, 10**5), dtype="f8", chunks=(100, 100), compression="gzip")
    assert path.stat().st_size < 10**5
    with pytest.raises(UnsafeFile, match="holds more than"):
        read_record(path)
    with h5py.File(path, "w") as file:
        file.create_dataset("kernels", data=[[b"a", b"b"]], dtype=h5py.special_dtype(vlen=bytes))
    with pytest.raises(UnsafeFile, match="expected numbers or a text"):
        read_record(path)
    path.write_bytes(b"\x89HDF\r\n\x1a\n" + bytes(50))
    with pytest.raises(UnsafeFile, match="is not a readable HDF5 file"):
        read_record(path)


def test_hdf5_without_h5py_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setattr(hdf5, "find_spec", lambda name: None)
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


def test_a_saved_solution_is_an_answer(tmp_path):
    found = solve(make_problem())
    found.save(tmp_path / "s.npz")
    answer = answer_from_record(read_record(tmp_path / "s.npz"))
    assert np.array_equal(answer.dual_coef, found.dual_coef)
    assert (answer.intercept, answer.objective) == (found.intercept, found.objective)


def test_names_that_are_no_part_of_an_answer_are_refused():
    """Misspelt weights would be replaced by the best ones, and nobody would notice."""
    with pytest.raises(
        InvalidInput, match=r"not in the schema: weigths \(is weights meant\?\), theta; known here: dual"
    ):
        answer_from_record({"dual_coef": np.ones(3), "weigths": np.ones(2), "theta": 1.0})
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


def test_kernels_of_a_mat_file_are_counted_last(tmp_path):
    savemat(tmp_path / "p.mat", {"kernels": np.zeros((4, 24, 24)), "y": np.ones(24)})
    with pytest.raises(
        InvalidInput, match=r"kernels has shape \(4, 24, 24\); MATLAB counts the kernels last, \(n, n, M\)"
    ):
        read_problem(tmp_path / "p.mat")


def test_answers_without_dual_coef_are_refused():
    with pytest.raises(InvalidInput, match="dual_coef missing; the file holds alpha"):
        answer_from_record({"alpha": np.ones(3)})


# The catalogue as files


@pytest.fixture(scope="module")
def vectors(tmp_path_factory):
    folder = tmp_path_factory.mktemp("vectors")
    return folder, export_vectors(folder, include=EXPORTED)


def test_the_index_says_what_is_there(vectors):
    folder, index = vectors
    assert json.loads((folder / "index.json").read_text()) == index
    assert [entry["case"] for entry in index["problems"]] == [*EXPORTED[:1], "squared-l2", "hinge-elastic-net-ivanov",
        "two-samples", "small-C", "permuted-samples", "permuted-samples"]  # fmt: skip
    for entry in index["problems"]:
        for ending in index["formats"]:
            problem = problem_from_record(read_record(folder / f"{entry['name']}.{ending}"))
            assert (problem.n_samples, problem.n_kernels) == (entry["samples"], entry["kernels"])
        assert (
            float.fromhex(entry["lower_hex"]) == entry["lower"] <= entry["upper"] == float.fromhex(entry["upper_hex"])
        )


def test_bounds_are_narrow_and_proven_where_they_can_be(vectors):
    folder, index = vectors
    for entry in index["problems"]:
        assert entry["upper"] - entry["lower"] <= 1e-8 * entry["upper"], entry["name"]
        assert entry["bounds"] == ("numerical" if "elastic" in entry["name"] else "rigorous")
        problem = problem_from_record(read_record(folder / f"{entry['name']}.json"))
        value = reference.solve(problem, "mixed_norm").certificate
        assert value.lower <= entry["upper"] * (1 + 1e-12)
        assert entry["lower"] <= value.upper * (1 + 1e-12)


def test_unknown_formats_and_words(tmp_path):
    with pytest.raises(InvalidParameter, match="formats = xls; known ones: npz, mat, json, hdf5"):
        export_vectors(tmp_path, formats=["xls"])
    with pytest.raises(InvalidParameter, match="'tie' is neither a flag"):
        export_vectors(tmp_path, include=["tie"])


def answers(folder: Path, target: Path, spoiled: str = "") -> Path:
    """A solution for every problem but the last, in changing formats."""
    target.mkdir()
    names = sorted({path.stem for path in folder.glob("*.npz")})
    for k, name in enumerate(names[:-1]):
        problem = problem_from_record(read_record(folder / f"{name}.npz"))
        found = solve(problem.replace(C=2 * problem.C) if name == spoiled else problem)
        record = {"dual_coef": found.dual_coef, "weights": found.weights, "intercept": found.intercept}
        write_record(target / f"{name}.{FORMATS[k % 4]}", record)
    return target


def test_a_directory_of_solutions(vectors, tmp_path):
    folder, _ = vectors
    report = check_directory(folder, answers(folder, tmp_path / "answers"))
    assert report.passed
    assert [row.case.name for row in report.rows if row.reason == "no solution"] == ["two-samples"]
    spoiled = check_directory(folder, answers(folder, tmp_path / "spoiled", spoiled="squared-l2"))
    assert spoiled.faults == {"wrong scale of C": 1}
    assert "squared-l2: p = 2 with the loss squared." in str(spoiled)


def test_a_directory_of_proofs(vectors, tmp_path, capsys):
    """--rigorous holds for directories too: what has no proof is excluded, what is not proven well enough fails."""
    folder, _ = vectors
    solutions = answers(folder, tmp_path / "answers")
    report = check_directory(folder, solutions, rigorous=True)
    proofs = {row.case.name: row for row in report.rows}
    assert proofs["hinge-elastic-net-ivanov"].outcome is Outcome.EXCLUDED
    assert proofs["hinge-elastic-net-ivanov"].reason.startswith("no proof: regularizer ElasticNet")
    assert report.passed
    gap = proofs["hinge-l1"].relative_gap
    assert gap > {row.case.name: row for row in check_directory(folder, solutions).rows}["hinge-l1"].relative_gap
    problem, found = read_problem(folder / "small-C.npz"), read_answer(next(solutions.glob("small-C.*")))
    sharp = certify(problem, found.dual_coef, weights=found.weights, intercept=found.intercept)
    exact = abs(sharp.gap / sharp.upper)
    loose = proofs["small-C"].relative_gap
    assert exact < loose
    report = check_directory(folder, solutions, tol=0.5 * (exact + loose), rigorous=True)
    assert "small-C" in [row.case.name for row in report.failures]
    assert "the proven relative gap is" in str(report)
    assert main(["certify", str(folder), str(solutions), "--rigorous"]) == 0
    assert "no proof" in capsys.readouterr().out


def test_files_without_weights(vectors, tmp_path, capsys):
    """At p = 1, too, and proven."""
    folder, _ = vectors
    found = solve(read_problem(folder / "hinge-l1.npz"))
    write_record(tmp_path / "hinge-l1.json", {"dual_coef": found.dual_coef})
    assert check_directory(folder, tmp_path).passed
    assert main(["certify", str(folder / "hinge-l1.mat"), str(tmp_path / "hinge-l1.json"), "--rigorous"]) == 0
    assert "CERTIFIED" in capsys.readouterr().out


def test_a_problem_that_cannot_be_read_is_named(tmp_path):
    write_record(tmp_path / "p.npz", {"kernels": np.eye(2)[None], "labels": np.ones(2)})
    (tmp_path / "solutions").mkdir()
    write_record(tmp_path / "solutions" / "p.json", {"dual_coef": np.ones(2)})
    with pytest.raises(InvalidInput, match=r"p\.npz: y missing"):
        check_directory(tmp_path, tmp_path / "solutions")


def test_a_directory_with_strange_files(vectors, tmp_path):
    folder, _ = vectors
    with pytest.raises(InvalidInput, match="is no directory"):
        check_directory(folder, tmp_path / "nowhere")
    with pytest.raises(InvalidInput, match="holds no problems"):
        check_directory(tmp_path, tmp_path)
    write_record(tmp_path / "hinge-l3.npz", {"dual_coef": np.ones(3)})
    with pytest.raises(InvalidInput, match=r"no problem is called hinge-l3\."):
        check_directory(folder, tmp_path)
    (tmp_path / "hinge-l3.npz").rename(tmp_path / "hinge-l1.npz")
    report = check_directory(folder, tmp_path)
    assert report.faults == {"malformed answer": 1}
    for text in ("{", "[]", '{"problems": [{"name": "x"}]}'):
        (tmp_path / "index.json").write_text(text)
        with pytest.raises(UnsafeFile, match=r"index\.json is no index of problems"):
            check_directory(tmp_path, tmp_path)


# The command line


def test_certify_exits_with_its_verdict(vectors, tmp_path, capsys):
    folder, _ = vectors
    problem = problem_from_record(read_record(folder / "hinge-l1.mat"))
    found = solve(problem)
    record = {"dual_coef": found.dual_coef, "weights": found.weights, "intercept": found.intercept}
    write_record(tmp_path / "good.mat", record)
    write_record(tmp_path / "bad.json", {**record, "intercept": -found.intercept - 1})
    write_record(tmp_path / "short.npz", {"dual_coef": np.ones(3)})
    saved = str(tmp_path / "certificate.json")
    command = ["certify", str(folder / "hinge-l1.json")]

    assert main([*command, str(tmp_path / "good.mat"), "--save", saved]) == 0
    assert "CERTIFIED: relative gap" in capsys.readouterr().out
    certificate = certify(problem, found.dual_coef, weights=found.weights, intercept=found.intercept)
    assert json.loads(Path(saved).read_text())["upper"] == certificate.upper

    assert main([*command, str(tmp_path / "good.mat"), "--rigorous"]) == 0
    assert "Proven for" in capsys.readouterr().out

    assert main([*command, str(tmp_path / "good.mat"), "--tol", "1e-13"]) == 1
    capsys.readouterr()

    assert main([*command, str(tmp_path / "bad.json")]) == 1
    printed = capsys.readouterr().out
    assert "wrong intercept: " in printed
    write_record(tmp_path / "claims.json", {**record, "objective": 2.0 * certificate.upper})
    assert main([*command, str(tmp_path / "claims.json")]) == 1
    assert "REJECTED: relative gap" in capsys.readouterr().out
    assert "NOT OPTIMAL: relative gap" in printed

    for arguments, said in (
        ([*command, str(tmp_path / "short.npz")], "dual_coef has shape (3,); expected (24,)"),
        ([*command, str(tmp_path / "nothing.npz")], "nothing.npz: No such file or directory."),
        ([*command, str(tmp_path / "good.txt")], "unknown format"),
        ([*command, str(tmp_path / "good.mat"), "--tol", "0"], "--tol = 0.0 must lie in"),
        (
            [*command, str(tmp_path / "good.mat"), "--report", str(tmp_path / "page.html")],
            "--report is for directories",
        ),
        ([*command, str(tmp_path / "good.mat"), "--save", "nowhere/c.json"], "cannot write nowhere/c.json"),
    ):
        assert main(arguments) == 2
        captured = capsys.readouterr()
        assert said in captured.err
        assert captured.err.count("\n") == 1


def test_certify_takes_directories(vectors, tmp_path, capsys):
    folder, _ = vectors
    bad = answers(folder, tmp_path / "bad", spoiled="hinge-l1")
    page, rows = tmp_path / "page.html", tmp_path / "rows.json"
    assert main(["certify", str(folder), str(bad), "--report", str(page), "--save", str(rows)]) == 1
    printed = capsys.readouterr().out
    assert "wrong scale of C: it is optimal for 2 times C" in printed.replace("\n", " ")
    assert "1 failed" in printed
    assert "<table>" in page.read_text()
    assert json.loads(rows.read_text())["passed"] is False
    next(bad.glob("hinge-l1.*")).unlink()
    assert main(["certify", str(folder), str(bad)]) == 0


def test_vectors_writes_what_is_asked_for(tmp_path, capsys):
    folder = tmp_path / "made" / "here"
    assert main(["vectors", str(folder), "--include", "two-*", "--formats", "json"]) == 0
    assert "2 problems as json" in capsys.readouterr().out
    assert {path.suffix for path in folder.iterdir()} == {".json", ".csv"}
    assert main(["vectors", str(folder), "--formats", "xls"]) == 2
    assert main(["vectors", str(folder), "--include", "nothing"]) == 2
