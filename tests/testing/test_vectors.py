"""The catalogue as files, directories of solutions and the command line: the verdict is that of the certificate."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from io import StringIO
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from mklref import certify, reference, solve, verify
from mklref.cli import main
from mklref.exceptions import InvalidInput, InvalidParameter, InvalidType, UnsafeFile
from mklref.testing import real
from mklref.testing.result import Outcome
from mklref.testing.vectors import (
    check_directory,
    export,
    export_vectors,
    problem_from_record,
    read_problem,
    read_record,
    write_record,
)
from mklref.testing.vectors.export import fingerprint

EXPORTED = "hinge-l1", "squared-l2", "two-samples", "small-C", "hinge-elastic-net-ivanov", "permuted-samples"


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


def test_nothing_is_written_through_links(tmp_path):
    secret = tmp_path / "secret.txt"
    secret.write_text("mine")
    folder = tmp_path / "vectors"
    folder.mkdir()
    (folder / "two-samples.json").symlink_to(secret)
    with pytest.raises(InvalidInput, match=r"two-samples\.json is a link to .*secret\.txt; remove it"):
        export_vectors(folder, include=["two-samples"])
    assert main(["vectors", str(folder), "--include", "two-samples"]) == 2
    assert secret.read_text() == "mine"
    assert list(folder.iterdir()) == [folder / "two-samples.json"]


def test_an_export_replaces_an_earlier_one_and_nothing_else(tmp_path, monkeypatch):
    """What the earlier index lists is removed; names that lead elsewhere, and what is not in the list, are not."""
    monkeypatch.setattr(export, "enclosure", lambda problem: (0.0, 1.0, "numerical"))  # whatever they hold
    folder, elsewhere = tmp_path / "vectors", tmp_path / "elsewhere.npz"
    export_vectors(folder, include=["two-samples", "small-C"], formats=["npz", "json"])
    before = {file.name for file in folder.iterdir()}
    assert "small-C.kernels.hex.csv" in before
    (folder / "mine.npz").write_text("mine")
    elsewhere.write_text("mine")
    index = json.loads((folder / "index.json").read_text())
    index["problems"].append({"name": "../elsewhere"})
    (folder / "index.json").write_text(json.dumps(index))
    export_vectors(folder, include=["two-samples"], formats=["json"])
    kept = {name for name in before if name.startswith(("two-samples", "index")) and not name.endswith("npz")}
    assert {file.name for file in folder.iterdir()} == {*kept, "mine.npz"}
    assert elsewhere.exists()


def test_the_index_of_an_interrupted_export_lists_what_was_written_and_what_was_there_before(tmp_path):
    def interrupt(done, total, name):
        if name == "small-C":
            raise KeyboardInterrupt

    def listed():
        return [entry["name"] for entry in json.loads((tmp_path / "index.json").read_text())["problems"]]

    arguments = {"formats": ["json"], "progress": interrupt}
    for include, names in (
        (["two-samples", "small-C"], ["two-samples"]),
        (["small-C", "hinge-l2"], ["hinge-l2", "two-samples"]),
    ):
        with pytest.raises(KeyboardInterrupt):
            export_vectors(tmp_path, include=include, **arguments)
        assert listed() == names
    export_vectors(tmp_path, include=["hinge-l2"], formats=["npz"])
    assert sorted(file.name for file in tmp_path.iterdir()) == ["hinge-l2.npz", "index.json"]


@pytest.mark.parametrize("name", ["C", "y", "kernels", "sample_weight", "regularizer_weights"])
@pytest.mark.parametrize("ending", ["mat", "h5"])
def test_integers_that_float64_would_round_are_refused(ending, name, tmp_path):
    facts = {"loss": "squared", "C": 1.0, "sample_weight": np.ones(2), "regularizer": "Fixed"}
    record = {"kernels": np.eye(2)[None], "y": np.array([1.0, -1.0]), **facts, "regularizer_weights": np.ones(1)}
    write_record(tmp_path / f"p.{ending}", record)
    assert read_problem(tmp_path / f"p.{ending}").C == 1.0
    write_record(tmp_path / f"p.{ending}", {**record, name: np.asarray(record[name]).astype(np.int64) * (2**53 + 1)})
    with pytest.raises(InvalidType, match=r"beyond 2\^53 that do not fit float64, such as -?9007199254740993"):
        read_problem(tmp_path / f"p.{ending}")


def answers(folder: Path, target: Path, spoiled: str = "") -> Path:
    """A solution for every problem but the last, in changing formats."""
    target.mkdir()
    names = sorted({path.stem for path in folder.glob("*.npz")})
    for k, name in enumerate(names[:-1]):
        problem = problem_from_record(read_record(folder / f"{name}.npz"))
        found = solve(problem.replace(C=2 * problem.C) if name == spoiled else problem)
        record = {"dual_coef": found.dual_coef, "weights": found.weights, "intercept": found.intercept}
        write_record(target / f"{name}.{('npz', 'mat', 'json', 'h5')[k % 4]}", record)
    return target


def test_a_directory_of_solutions(vectors, tmp_path):
    folder, _ = vectors
    report = check_directory(folder, answers(folder, tmp_path / "answers"))
    assert report.passed
    assert [row.case.name for row in report.rows if row.reason == "no solution"] == ["two-samples"]
    spoiled = check_directory(folder, answers(folder, tmp_path / "spoiled", spoiled="squared-l2"))
    assert spoiled.faults == {"wrong scale of C": 1}
    assert "squared-l2: p = 2 with the loss squared." in str(spoiled)


def test_the_many_problems_that_a_narrow_solver_leaves_out_are_one_row(vectors, tmp_path):
    folder, index = vectors
    solutions = answers(folder, tmp_path / "answers")
    names = sorted(entry["name"] for entry in index["problems"])
    assert list(check_directory(folder, solutions).__rich__().columns[0].cells) == names
    for file in sorted(solutions.iterdir())[1:]:
        file.unlink()
    report = replace(
        check_directory(folder, solutions), solver="mine, whose verdict is one line for whoever looks for it"
    )
    assert list(report.__rich__().columns[0].cells) == [names[0], f"{len(names) - 1} others"]
    Console(width=130, file=(printed := StringIO())).print(report)
    assert report.verdict in printed.getvalue()


def test_a_problem_that_the_index_lists_and_that_is_not_there_is_a_row(vectors, tmp_path):
    folder, _ = vectors
    for file in (folder / "index.json", folder / "squared-l2.npz"):
        shutil.copy(file, tmp_path)
    (tmp_path / "solutions").mkdir()
    reasons = {row.case.name: row.reason for row in check_directory(tmp_path, tmp_path / "solutions").rows}
    assert reasons["squared-l2"] == "no solution"
    assert reasons["hinge-l1"] == "index.json lists it, and there is no file"


def test_a_directory_of_proofs(vectors, tmp_path, run):
    """--rigorous holds for directories too: what has no proof is excluded, what is not proven well enough fails."""
    folder, _ = vectors
    solutions = answers(folder, tmp_path / "answers")
    report = check_directory(folder, solutions, rigorous=True)
    proofs = {row.case.name: row for row in report.rows}
    assert proofs["hinge-elastic-net-ivanov"].outcome is Outcome.EXCLUDED
    assert proofs["hinge-elastic-net-ivanov"].reason.startswith("no proof: regularizer ElasticNet")
    assert report.passed
    loose = proofs["hinge-l1"].relative_gap
    exact = {row.case.name: row for row in check_directory(folder, solutions).rows}["hinge-l1"].relative_gap
    assert exact < loose
    report = check_directory(folder, solutions, tol=0.5 * (exact + loose), rigorous=True)
    assert "hinge-l1" in [row.case.name for row in report.failures]
    assert "the proven relative gap is" in str(report)
    assert "no proof" in run(["certify", str(folder), str(solutions), "--rigorous"]).out


def test_files_without_weights(vectors, tmp_path, run):
    """At p = 1, too, and proven."""
    folder, _ = vectors
    found = solve(read_problem(folder / "hinge-l1.npz"))
    write_record(tmp_path / "hinge-l1.json", {"dual_coef": found.dual_coef})
    assert check_directory(folder, tmp_path).passed
    files = [str(folder / "hinge-l1.mat"), str(tmp_path / "hinge-l1.json")]
    assert "CERTIFIED" in run(["certify", *files, "--rigorous"]).out


@pytest.mark.parametrize("edited", ["kernels", "C", "lower", "C without bounds"])
def test_an_edited_problem_is_not_the_published_one_whatever_its_solution(edited, vectors, tmp_path):
    folder, _ = vectors
    problems, solutions = tmp_path / "problems", tmp_path / "solutions"
    shutil.copytree(folder, problems)
    solutions.mkdir()
    file = problems / "hinge-l1.npz"
    record = read_record(file)
    upper = float(record["upper"])
    changes = {"kernels": 1.5 * record["kernels"], "C": 2.0 * record["C"], "lower": 2.0 * upper}
    if edited == "C without bounds":  # then those of the index remain
        edited = "C"
        del record["lower"], record["upper"]
    elif edited == "lower":
        record["upper"] = 3.0 * upper
    write_record(file, {**record, edited: changes[edited]})
    found = solve(read_problem(file))
    write_record(solutions / "hinge-l1.json", {"dual_coef": found.dual_coef, "weights": found.weights})
    report = check_directory(problems, solutions)
    assert report.faults == {"altered problem" if edited == "kernels" else "contradicted bounds": 1}
    assert "hinge-l1.npz" in str(report)


def test_certificates_beside_the_problems_are_no_problems(vectors, tmp_path):
    folder, _ = vectors
    shutil.copytree(folder, tmp_path / "problems")
    problem = read_problem(folder / "hinge-l1.npz")
    found = certify(problem, solve(problem).dual_coef, rigorous=True)
    found.save(tmp_path / "problems" / "hinge-l1.certificate.json")
    (tmp_path / "solutions").mkdir()
    rows = check_directory(tmp_path / "problems", tmp_path / "solutions").rows
    assert {row.case.name for row in rows} == {path.stem for path in folder.glob("*.npz")}


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
    (tmp_path / "squared-l2.csv").write_text("0.5")
    (tmp_path / "two-samples.JSON").symlink_to(tmp_path / "lost.json")
    reasons = {row.case.name: row.reason for row in check_directory(folder, tmp_path).rows}
    assert reasons["squared-l2"].startswith("no solution: squared-l2.csv is not read, the suffixes are .npz, ")
    assert reasons["two-samples"] == "no solution: two-samples.JSON is no file"
    write_record(tmp_path / "hinge-l1.JSON", {"dual_coef": np.ones(3)})
    with pytest.raises(InvalidInput, match=r"hinge-l1\.npz and hinge-l1\.JSON answer the problem hinge-l1; leave one"):
        check_directory(folder, tmp_path)
    (tmp_path / "hinge-l1.JSON").unlink()
    for text in ("{", "[]", '{"problems": [{"name": "x"}]}'):
        (tmp_path / "index.json").write_text(text)
        with pytest.raises(UnsafeFile, match=r"index\.json is no index of problems: .*; remove it, or write it anew"):
            check_directory(tmp_path, tmp_path)


# The command line


def test_certify_exits_with_its_verdict(vectors, tmp_path, run, refused):
    folder, _ = vectors
    problem = problem_from_record(read_record(folder / "hinge-l1.mat"))
    found = solve(problem)
    record = {"dual_coef": found.dual_coef, "weights": found.weights, "intercept": found.intercept}
    write_record(tmp_path / "good.mat", record)
    write_record(tmp_path / "bad.json", {**record, "intercept": -found.intercept - 1})
    write_record(tmp_path / "short.npz", {"dual_coef": np.ones(3)})
    saved, page = str(tmp_path / "certificate.json"), str(tmp_path / "page.html")
    command = ["certify", str(folder / "hinge-l1.json")]
    good = [*command, str(tmp_path / "good.mat")]

    assert "CERTIFIED: relative gap" in run([*good, "--save", saved]).out
    certificate = certify(problem, found.dual_coef, weights=found.weights, intercept=found.intercept)
    kept = json.loads(Path(saved).read_text())
    assert (kept["upper"], kept["passed"], kept["faults"]) == (certificate.upper, True, [])

    assert "Proven for" in run([*good, "--rigorous"]).out

    assert main([*good, "--tol", "1e-13"]) == 1

    printed = run([*command, str(tmp_path / "bad.json"), "--save", saved, "--force"], 1).out
    assert "wrong intercept: " in printed
    kept = json.loads(Path(saved).read_text())
    assert (kept["passed"], kept["faults"]) == (False, ["wrong intercept"])
    assert kept["message"] in printed
    assert kept["verdict"] in printed
    write_record(tmp_path / "huge.json", {**record, "dual_coef": 1e200 * found.dual_coef})
    assert type(certificate).from_dict(kept).lower == pytest.approx(certificate.lower)
    main([*command, str(tmp_path / "huge.json"), "--save", saved, "--force"])
    kept = json.loads(Path(saved).read_text(), parse_constant=pytest.fail)
    assert "inf" in kept.values()
    assert type(certificate).from_dict(kept).upper == np.inf
    write_record(tmp_path / "claims.json", {**record, "objective": 2.0 * certificate.upper})
    assert "REJECTED: relative gap" in run([*command, str(tmp_path / "claims.json")], 1).out
    assert "NOT OPTIMAL: relative gap" in printed

    write_record(tmp_path / "edited.npz", {**read_record(folder / "hinge-l1.npz"), "upper": 0.5 * certificate.lower})
    printed = run(["certify", str(tmp_path / "edited.npz"), str(tmp_path / "good.mat")], 1).out
    assert "contradicted bounds: stated of edited.npz is an optimum in [" in printed

    for arguments, said in (
        ([*command, str(tmp_path / "short.npz")], "dual_coef has shape (3,); expected (24,)"),
        ([*command, str(tmp_path / "nothing.npz")], "nothing.npz: No such file or directory."),
        ([*command, str(tmp_path / "nothing.h5")], "nothing.h5: No such file or directory."),
        ([*command, str(tmp_path)], "hinge-l1.json is none; give two files, or two directories."),
        ([*command, str(tmp_path / "good.txt")], "good.txt: No such file or directory."),
        ([*good, "--tol", "0"], "argument --tol: 0 must lie in (0, 1)"),
        ([*good, "--report", page], "--report is for directories"),
        ([*good, "--save", "nowhere/c.json"], "cannot write nowhere/c.json"),
    ):
        assert said in refused(arguments)


def test_certify_takes_directories(vectors, tmp_path, run):
    folder, _ = vectors
    bad = answers(folder, tmp_path / "bad", spoiled="hinge-l1")
    page, rows = tmp_path / "page.html", tmp_path / "rows.json"
    printed = run(["certify", str(folder), str(bad), "--report", str(page), "--save", str(rows)], 1).out
    assert "wrong scale of C: it is optimal for 2 times C" in printed.replace("\n", " ")
    assert "1 failed" in printed
    assert "<table>" in page.read_text("utf-8")
    assert json.loads(rows.read_text())["passed"] is False
    next(bad.glob("hinge-l1.*")).unlink()
    assert main(["certify", str(folder), str(bad)]) == 0


def test_vectors_writes_what_is_asked_for(tmp_path, run):
    folder = tmp_path / "made" / "here"
    assert "2 problems as json" in run(["vectors", str(folder), "--include", "two-*", "--formats", "json"]).out
    assert {path.suffix for path in folder.iterdir()} == {".json", ".csv"}
    assert main(["vectors", str(folder), "--formats", "xls"]) == 2
    assert main(["vectors", str(folder), "--include", "nothing"]) == 2


def test_real_problems_are_thirty_and_proven_for_exactly_their_floats(tmp_path):
    """Published with bounds that are narrower than a billionth."""
    cases, published = real.select(), real.published()
    assert len({case.name for case in cases}) == 30
    assert list(published) == [case.name for case in cases]
    assert all(0.0 <= entry["upper"] - entry["lower"] < 1e-9 * abs(entry["upper"]) for entry in published.values())
    index = export_vectors(tmp_path, include=["iris-50-*"], formats=["npz"], suite="real")
    assert len(index["problems"]) == 1
    for entry in index["problems"]:
        name = entry["name"]
        assert 0.0 <= entry["upper"] - entry["lower"] < 1e-9 * abs(entry["upper"])
        problem = read_problem(tmp_path / f"{name}.npz")
        assert fingerprint(problem) == entry["sha256"]
        kernels = problem.kernels.dense()
        assert np.array_equal(np.round(kernels * real.GRID), kernels * real.GRID)
        files = [str(tmp_path / f"{name}.{ending}") for ending in ("certificate.json", "npz")]
        assert verify.main(files) == 0
        assert published[name]["lower"] <= entry["upper"]
        assert entry["lower"] <= published[name]["upper"]
    with pytest.raises(InvalidParameter, match="without npz"):
        export_vectors(tmp_path, suite="real", formats=["json"])
    with pytest.raises(InvalidParameter, match="matches no real problem"):
        real.select(include=["cat"])


def test_a_real_problem_with_other_matrices_than_the_published_ones_is_no_export(tmp_path, monkeypatch):
    monkeypatch.setattr(real, "RIDGE", 2.0**-19)
    with pytest.raises(InvalidInput, match="the published ones 31ea819f"):
        export_vectors(tmp_path, include=["iris-50-*"], formats=["npz"], suite="real")


def test_the_kernels_of_real_problems_are_gaussians_and_their_products_are_exact():
    t = np.concatenate([np.linspace(0.0, 64.0, 5001), [100.0, 1e6]])
    np.testing.assert_allclose(real.gaussian(t), np.exp(-t), rtol=0.0, atol=1e-12)
    Z = real.standardized(np.random.default_rng(0).normal(size=(40, 64)) ** 3)
    assert np.array_equal(Z @ Z.T, (Z[:, ::-1] @ Z[:, ::-1].T)), "in any order of summation"
