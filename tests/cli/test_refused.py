"""What the commands refuse: one line on standard error and exit code 2.

`mklref certified --data`: an answer of any solver on samples, for kernels that are evaluated when they are read.

`mklref solve` on a file that states a whole problem: its loss, C, regulariser and weights, and no others.
"""

from __future__ import annotations

from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest

from mklref import Lp, Problem, certify, report, solve, verify
from mklref.kernels import parse
from mklref.losses import EpsilonInsensitive
from mklref.regularizers import Tikhonov
from mklref.solution import Solution
from mklref.testing import vectors
from mklref.testing.vectors.schema import record_of_problem


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "COMMAND"),
        (["frobnicate"], "invalid choice: 'frobnicate'"),
        (["crosscheck", "--frob"], "--frob (see mklref crosscheck --help)"),
        (["--frob", "crosscheck"], "--frob (see mklref --help)"),
        (["crosscheck", "--p", "0.5"], "p = 0.5 must lie in [1, inf]"),
        (["crosscheck", "--p", "one"], "'one' is not a number"),
        (["crosscheck", "--p", "4/0"], "'4/0' is not a number"),
        (["crosscheck", "--p", "1,,2"], "empty item"),
        (["crosscheck", "--C", "0"], "C = 0.0 must lie in (0, inf)"),
        (["crosscheck", "--C", "much"], "'much' is not a number"),
        (["crosscheck", "--tol", "0"], "argument --tol: 0 must lie in (0, 1)"),
        (["crosscheck", "--value-tol", "nan"], "argument --value-tol: nan must lie in (0, 1)"),
        (["fit", "iris", "--tol", "1"], "argument --tol: 1 must lie in (0, 1)"),
        (["path", "iris", "--tol", "2"], "argument --tol: 2 must lie in (0, 1)"),
        (["crosscheck", "--max-time", "0"], "argument --max-time: 0 must lie in (0, inf]"),
        (["solve", "--max-time", "nan"], "argument --max-time: nan must lie in (0, inf]"),
        (
            ["solve", "--tol", "1"],
            "argument --tol: 1 must lie in (0, 1), such as 1e-6: with a relative gap of 1 anything",
        ),
        (["crosscheck", "--samples", "1"], "'1' is neither 'all' nor an integer of at least 2"),
        (["crosscheck", "--seed", "-3"], "'-3' is not a nonnegative integer"),
        (["crosscheck", "--loss", "hinges"], "'hinges' is unknown; known names: hinge"),
        (["crosscheck", "--loss", "hinge:2"], "hinge has no parameter"),
        (["crosscheck", "--loss", "epsilon_insensitive:-1"], "epsilon = -1.0 must lie in [0, inf)"),
        (["crosscheck", "--kernels", "rbf"], "kernels: 'rbf' is not understood"),
        (["crosscheck", "--normalize", "unit"], "invalid choice: 'unit'"),
        (["crosscheck", "--formulations", "qcqp"], "qcqp is the dual at Lp(1)"),
        (["crosscheck", "--formulations", "primal"], "'primal' is unknown"),
        (["crosscheck", "--solvers", "mosek", "--formulations", "dual"], "solver = 'mosek' is unknown"),
        (["crosscheck", "--data", "iris"], "3 classes (setosa, versicolor, virginica)"),
        (["crosscheck", "--data", "sonnar"], "data set 'sonnar' is unknown"),
        (["crosscheck", "--data", "."], ". is a directory; give the path of a file in it"),
        (["solve", "--data", "iris", "--loss", "squared"], "squared is for numbers, and the target holds classes"),
        (["crosscheck", "--data", "absent.csv"], "absent.csv: No such file or directory."),
        (["crosscheck", "--data", "absent.npz"], "absent.npz: No such file or directory."),
        (["crosscheck", "--data", "iris", "--target", "x"], "--target is for CSV files"),
        (["crosscheck", "--json", "absent/check.json"], "cannot write absent/check.json"),
        (["crosscheck", "--report", "absent/check.html"], "cannot write absent/check.html"),
        (["solve", "--save", "absent/point.npz"], "cannot write absent/point.npz"),
        (["path", "iris", "--p", "1,2"], "--p has 2 values; a path has one norm"),
        *((["fit", name, "--id", "x"], f"{name} is no file, and --target, --ignore") for name in (".", "-", "ill")),
        (["solve", "--save", ""], "argument --save: the name is empty, as of a variable that is not set; give one"),
        (["explore", "--data", ""], "argument --data: the name is empty"),
        (["certify", "", "s.npz"], "argument PROBLEM: the name is empty"),
        (["reproduce", "all", "--quick", "--out", ""], "argument --out: the name is empty"),
        (["reproduce", "all", "--quick", "--cell", ""], "argument --cell: the name is empty"),
        (["fit", "iris", "--save", "m.JSON"], "path = 'm.JSON', and this writes NPZ; end it in .npz"),
        (["crosscheck", "--json", "c.npz"], "path = 'c.npz', and this writes JSON; end it in .json."),
        (["path", "iris", "--out", "o.mat"], "path = 'o.mat', and this writes CSV; end it in .csv."),
        (["solve", "--save", "point"], "cannot write point: end its name in .npz, .mat, .h5, .hdf5, .json."),
        (["solve", "--save", "point.csv"], "cannot write point.csv: end its name in .npz"),
        (["solve", "--C", "1" + "0" * 400 + "/3"], "is not a number"),
        (["solve", "--C", "9" * 5000 + "/7"], "is not a number"),
        (["solve", "--samples", "9" * 5000], "is neither 'all' nor an integer"),
        (["solve", "--seed", "9" * 5000], "is not a nonnegative integer"),
        (["crosscheck", "--jobs", "9" * 5000], "is not a positive integer"),
        (["crosscheck", "--tol", "9" * 5000], "999' is beyond 1.8e+308, the largest number"),
        (["solve", "--p", "1e400"], "'1e400' is beyond 1.8e+308, the largest number"),
        (["solve", "--p=-" + "1" * 310], "111' is beyond 1.8e+308, the largest number"),
        (["solve", "--tol", "1" * 300], "1... must lie in (0, 1), such as 1e-6"),
        (["solve", "--columns", "a=number,a=flag"], "'a' is there twice; say it once"),
        (["solve", "--kernels", "x" * 5000], "kernels: 'xxx"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(refused, monkeypatch, tmp_path, arguments, message):
    monkeypatch.delenv("MKLREF_DATA", raising=False)
    monkeypatch.chdir(tmp_path)
    line = refused([*arguments, *(["--samples", "20"] if "--samples" not in arguments and arguments[1:] else [])])
    assert message in line
    assert len(line) < 300


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"K": np.eye(3)[None], "y": np.ones(3)}, "PATH holds K, y and lacks kernels"),
        ({"kernels": np.eye(3)}, "lacks y"),
        ({"kernels": np.eye(3), "y": [1.0, -1.0, 1.0]}, "kernels has shape (3, 3); expected (M, n, n)"),
        ({"kernels": np.ones((3, 3, 2)), "y": [1.0, -1.0, 1.0]}, "are counted first: np.moveaxis(kernels, -1, 0)"),
        ({"kernels": np.eye(3)[None], "y": [1.0, -1.0]}, "y has shape (2,), kernels are of order 3"),
        ({"kernels": np.eye(3)[None], "y": np.ones((3, 1))}, "y has shape (3, 1)"),
        ({"kernels": np.eye(3)[None], "y": np.ones(3)}, "only the class 1"),
        ({"kernels": -np.eye(3)[None], "y": [1.0, -1.0, 1.0]}, "kernels[0] is not positive semidefinite"),
        ({"kernels": np.full((1, 3, 3), np.nan), "y": [1.0, -1.0, 1.0]}, "kernels[0][0, 0] is nan"),
        ({"kernels": np.array([None, 1]), "y": np.ones(3)}, "pickled"),
        ({"\x1b[2Jmine\r": np.ones(3)}, r"holds \x1b[2Jmine"),  # which cannot move the cursor
    ],
)
def test_bad_npz_files(refused, tmp_path, arrays, message):
    path = tmp_path / "bad.npz"
    np.savez(path, **arrays)
    assert message.replace("PATH", str(path)) in refused(["crosscheck", "--data", str(path)])


def test_options_that_do_not_go_with_kernels(refused, npz):
    for option in ("--kernels", "--target"):
        assert f"{option} does not go with" in refused(["crosscheck", "--data", npz[0], option, "linear"])


def test_a_text_in_the_place_of_kernels(refused, tmp_path):
    (tmp_path / "bad.json").write_text('{"kernels": "mine.npy", "y": [1, -1]}')
    assert "kernels = 'mine.npy'; expected (M, n, n)" in refused(["solve", "--data", str(tmp_path / "bad.json")])


@pytest.mark.parametrize("encoding", ["utf-16", "punycode", "undefined", "\udcff"])
def test_a_table_that_is_not_in_the_encoding_that_is_named(refused, table, encoding):
    """From Python 3.14 on the decoders of UTF-16 and Punycode name the byte, too."""
    said = refused(["fit", table, "--encoding", encoding])
    assert "patients.csv cannot be read so: " in said or f" is not {encoding}. Save it as UTF-8." in said


def test_damaged_npz(refused, tmp_path):
    path = tmp_path / "cut.npz"
    path.write_bytes(b"PK\x03\x04 not much of a zip")
    assert "not a readable .npz file" in refused(["solve", "--data", str(path)])


def test_report_without_its_extra_fails_before_anything_is_solved(refused, monkeypatch, tmp_path):
    monkeypatch.setattr(report, "find_spec", lambda name: None if name == "jinja2" else object())
    line = refused(["crosscheck", "--report", str(tmp_path / "x.html")])
    assert "a report needs jinja2; install them by: pip install 'mklref[report]'." in line


SPEC = "rbf(1, 3), linear, per_variable(rbf(1))"


@pytest.fixture
def files(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3))
    y = np.where(X[:, 0] + 0.3 * rng.normal(size=60) > 0.0, 1.0, -1.0)
    problem = Problem(parse(SPEC).fit(X, normalize="trace"), y, C=50.0, regularizer=Lp(2))
    answer = solve(problem, tol=1e-8)
    np.savez(tmp_path / "x.npz", X=X, y=y, C=50.0)
    np.savez(tmp_path / "answer.npz", dual_coef=answer.dual_coef, weights=answer.weights, intercept=answer.intercept)
    return tmp_path


def certified(files, *options):
    return ["certify", "--data", str(files / "x.npz"), str(files / "answer.npz"), *options]


def test_an_answer_on_samples_is_certified(files, capsys, run):
    options = ["--kernels", SPEC, "--normalize", "trace", "--p", "2"]
    said = run(certified(files, *options))
    assert "CERTIFIED" in said.out
    assert said.err == ""
    printed = run(certified(files, *options, "--rigorous", "--save", str(files / "c.json"))).out
    assert "by a theorem positive semidefinite (tier 1). The rounding errors of" in printed
    assert verify.main([str(files / "c.json")]) == 2
    assert "kernels follow from samples; only matrices are read" in capsys.readouterr().err
    assert "NOT OPTIMAL" in run(certified(files, "--kernels", SPEC, "--p", "2"), 1).out


def test_the_cause_is_not_looked_for_in_large_kernels_and_missing_weights_are(files, run, monkeypatch):
    options = ["--kernels", SPEC, "--normalize", "trace"]
    X, y = (np.load(files / "x.npz")[name] for name in ("X", "y"))
    found = solve(Problem(parse(SPEC).fit(X, normalize="trace"), y, C=50.0), tol=1e-8)  # sparse: no closed form
    for name, beta in (("answer.npz", found.dual_coef), ("negated.npz", -found.dual_coef)):
        np.savez(files / name, dual_coef=beta)
    negated = ["certify", "--data", str(files / "x.npz"), str(files / "negated.npz"), *options]
    assert "negated dual_coef: " in run(negated, 1).out
    monkeypatch.setattr("mklref.cli.certify.SEEN", 100)
    assert "CERTIFIED" in run(certified(files, *options)).out
    said = " ".join(run(negated, 1).out.split())
    assert "Its cause was not looked for." in said
    assert "suspect" not in said
    assert "up to 100 entries of the kernels; these have 21,600." in said
    np.savez(files / "answer.npz", dual_coef=found.dual_coef, objective=2.0 * found.objective)
    said = run(certified(files, *options), 1).out
    assert "claimed objective: " in said
    assert "entries of the kernels" not in said


def test_a_loss_without_an_intercept_needs_no_word_about_it(tmp_path, run):
    np.savez(tmp_path / "x.npz", X=np.eye(3), y=np.ones(3))
    np.savez(tmp_path / "zero.npz", dual_coef=np.zeros(3))
    asked = ["--data", str(tmp_path / "x.npz"), "--kernels", "linear", "--loss", "density_level_set"]
    assert "NOT OPTIMAL" in run(["certify", *asked, str(tmp_path / "zero.npz")], 1).out


def test_a_proof_that_is_wider_than_the_tolerance_certifies_nothing(files, run, monkeypatch):
    proof = Mock(relative_gap=0.5, **{"explain.return_value": "as proven", "to_dict.return_value": {}})
    monkeypatch.setattr("mklref.cli.certify.proven", lambda *_: proof)
    asked = certified(files, "--kernels", SPEC, "--normalize", "trace", "--p", "2")
    assert "CERTIFIED" in run(asked).out
    assert "NOT OPTIMAL: relative gap 5.0e-01, allowed 1.0e-06" in run([*asked, "--rigorous"], 1).out


@pytest.mark.parametrize("rigorous", [[], ["--rigorous"]])
def test_claims_about_an_answer_on_samples_and_stated_bounds_are_checked(files, run, rigorous):
    options = ["--kernels", SPEC, "--normalize", "trace", "--p", "2", *rigorous]
    with np.load(files / "x.npz") as x, np.load(files / "answer.npz") as answer:
        given, stated = dict(answer), dict(x)
    np.savez(files / "x.npz", **stated, lower=-2.0, upper=-1.0)
    said = run(certified(files, *options), 1).out
    assert "contradicted bounds: stated of x.npz is an optimum in [-2.0, -1.0]" in said
    assert "REJECTED: relative gap" in said
    np.savez(files / "x.npz", **stated)
    np.savez(files / "answer.npz", **given, objective=1.0)
    assert "claimed objective: 1 is claimed, the point has" in run(certified(files, *options), 1).out
    np.savez(files / "answer.npz", **{**given, "weights": -given["weights"]})
    assert "negative weights: weights[" in run(certified(files, *options), 1).out


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ([], "--data FILE goes with --kernels SPEC"),
        (["--kernels", SPEC, "--C", "3"], "both say C"),
        (["--kernels", "spectrum(2)"], "takes texts, X holds numbers"),
        (["--kernels", SPEC, "--target", "y"], "--target is for CSV files"),
    ],
)
def test_options_that_do_not_fit(files, options, says, refused):
    assert says in refused(certified(files, *options))
    answer = str(files / "answer.npz")
    assert "give PROBLEM and SOLUTION, or --data FILE --kernels SPEC" in refused(["certify", answer])
    for option in (["--p", "2"], ["--standardize"], ["--normalize", "trace"]):
        line = refused(["certify", str(files / "x.npz"), answer, *option])
        assert f"{option[0]} goes with --data; a PROBLEM states its own." in line
    for pair in ([str(files), answer], [answer, str(files)]):
        assert f"{files} is a directory and {answer} is none; give two" in refused(["certify", *pair])


def test_samples_without_targets_are_named(files, refused):
    with np.load(files / "x.npz") as held:
        X = held["X"]
    np.savez(files / "x.npz", X=X)
    assert "needs X (n, d) and y, and no kernels; it has X." in refused(certified(files, "--kernels", SPEC))


def test_an_answer_to_a_csv_file_is_certified_and_its_fault_named(table, run, refused, tmp_path, monkeypatch):
    point, asked = str(tmp_path / "point.npz"), ["--data", table, "--kernels", "rbf(1), linear", "--C", "3", "--p", "2"]
    run(["solve", *asked, "--positive", "healthy", "--save", point])
    Path(table).with_suffix(".CSV").write_bytes(Path(table).read_bytes())
    asked[1] = str(Path(table).with_suffix(".CSV"))  # of capitals nothing depends
    certify = ["certify", *asked, point, "--standardize", "--positive", "healthy"]
    assert "outcome: ill = -1" in (said := run([*certify, "--normalize", "trace"]).out)
    assert "CERTIFIED" in said
    assert "C:" not in said
    assert (
        "C:        1, since neither --C nor the file says it (mklref solve: 100)"
        in run([one for one in certify if one not in ("--C", "3")], 1).out
    )
    assert "normalised kernels: " in run(certify, 1).out
    assert "negated dual_coef: " in run(["certify", *asked, point, "--standardize", "--normalize", "trace"], 1).out
    regression = ["certify", *asked, point, "--target", "dose", "--loss", "epsilon_insensitive:0.1"]
    assert "column 'outcome' is 'ill', not a finite number" in refused(regression)
    assert "loss=epsilon_insensitive:0.1" in (said := run([*regression, "--ignore", "outcome"], 1).out)
    assert "2 variables as they stand" in said
    monkeypatch.setattr("mklref.cli.certify.SEEN", 0)  # kernels too large to be looked into
    assert "normalised kernels: " not in run(certify, 1).out


@pytest.fixture
def stated(tmp_path):
    """A problem that differs from every default, and its file."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(15, 2))
    K = np.stack([X @ X.T, (1.0 + X @ X.T) ** 2])
    problem = Problem(
        K, X[:, 0] + 0.3 * rng.normal(size=15), C=2.5, loss=EpsilonInsensitive(0.2), regularizer=Lp(1.5),
        intercept=False, sample_weight=rng.uniform(0.5, 2.0, size=15),
    )  # fmt: skip
    return problem, tmp_path


@pytest.mark.parametrize("suffix", [".npz", ".json", ".mat", ".NPZ"])
def test_the_problem_of_the_file_is_solved(stated, suffix, run):
    problem, folder = stated
    vectors.write_record(folder / f"problem{suffix}", record_of_problem(problem))
    printed = run(["solve", "--data", str(folder / f"problem{suffix}"), "--save", str(folder / "found.npz")]).out
    assert "epsilon_insensitive:0.2, Lp(1.5), C = 2.5" in printed
    found = Solution.load(folder / "found.npz")
    assert certify(problem, found.dual_coef, weights=found.weights, intercept=found.intercept).is_optimal(1e-6)


def test_a_regularizer_that_is_no_ball_is_solved_too(stated, refused, run):
    problem, folder = stated
    vectors.write_record(folder / "problem.npz", record_of_problem(problem.replace(regularizer=Tikhonov(1, 0.3))))
    assert "Tikhonov" in run(["solve", "--data", str(folder / "problem.npz"), "--C", "2.5"]).out
    assert "--p 2.0 contradicts" in refused(["solve", "--data", str(folder / "problem.npz"), "--p", "2"])


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--C", "100"], "--C 100.0 contradicts {file}, which has 2.5"),
        (["--p", "1"], "--p 1.0 contradicts {file}, which has 1.5"),
        (["--loss", "hinge"], "--loss hinge contradicts {file}, which has epsilon_insensitive"),
        (["--samples", "10"], "--samples does not go with {file}, which states a whole problem"),
        (["--seed", "0"], "--seed does not go with {file}"),
        (["--normalize", "trace"], "--normalize does not go with {file}"),
    ],
)
def test_options_that_contradict_the_file_are_named(stated, options, said, refused):
    problem, folder = stated
    file = folder / "problem.npz"
    vectors.write_record(file, record_of_problem(problem))
    assert said.format(file=file) in refused(["solve", "--data", str(file), *options])


def test_a_name_that_is_not_in_the_schema_is_refused_with_the_file(stated, refused):
    problem, folder = stated
    vectors.write_record(folder / "problem.npz", {**record_of_problem(problem), "wieghts": np.ones(2)})
    assert "wieghts" in refused(["solve", "--data", str(folder / "problem.npz")])


def test_the_problem_of_the_file_is_cross_checked(stated, refused, run):
    problem, folder = stated
    vectors.write_record(folder / "problem.json", record_of_problem(problem))
    command = ["crosscheck", "--data", str(folder / "problem.json"), "--formulations", "dual", "--jobs", "1"]
    assert "\nepsilon_insensitive:0.2, Lp(1.5), C = 2.5\n" in (said := run([*command, "--C", "2.5"]).out)
    assert "PASSED" in said
    assert "--C [1.0, 2.5] contradicts" in refused([*command, "--C", "1,2.5"])


def test_kernels_and_targets_may_be_in_any_format(npz, run, tmp_path):
    file, problem = str(tmp_path / "kernels.mat"), npz[1]
    vectors.write_record(file, {"kernels": problem.kernels.dense(), "y": problem.y})
    assert "CLARABEL" in run(["crosscheck", "--data", file, "--formulations", "dual", "--p", "2", "--jobs", "1"]).out


def test_a_point_is_saved_in_the_formats_of_other_languages(stated, run):
    problem, folder = stated
    vectors.write_record(folder / "problem.json", record_of_problem(problem))
    for suffix in ("json", "mat", "h5", "NPZ", "JSON", "MAT", "H5"):  # of capitals nothing depends
        point = str(folder / f"point.{suffix}")
        run(["solve", "--data", str(folder / "problem.json"), "--save", point])
        assert "CERTIFIED" in run(["certify", str(folder / "problem.json"), point]).out


@pytest.mark.parametrize("command", [["fit"], ["path"], ["solve", "--data"], ["crosscheck", "--data"]])
def test_a_table_of_one_column_names_the_separator(tmp_path, refused, command):
    (tmp_path / "t.csv").write_text("x y\n1 a\n2 b\n3 a\n4 b\n")
    assert "one column, 'x y', and no variables beside a target. If there are more" in refused(
        [*command, str(tmp_path / "t.csv")]
    )


def test_targets_with_nothing_to_learn(tmp_path, refused):
    for text, message in (
        ("x,y\n1,a\n2,a\n", "only the class a"),
        ("x,y\n1,3\n2,3\n", "only the class 3"),
        ("x,y\n1,a\n2,b\n", "2 classes in 2 samples, one for each"),
    ):
        (tmp_path / "t.csv").write_text(text)
        assert message in refused(["fit", str(tmp_path / "t.csv"), "--folds", "2"])
