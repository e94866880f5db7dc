"""The command line: exit codes, what it prints, files it reads and writes, one line for every error."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from makers import make_problem
from rich.console import Console

import mklref
from mklref import datasets, equivalences, native, reference, report
from mklref.cli import main, render
from mklref.exceptions import Interrupted, SlowWarning, SolverFailure
from mklref.kernels import from_specification
from mklref.problem import Problem
from mklref.solution import Solution

SMALL = ["--samples", "30", "--kernels", "linear,rbf:1..4:2"]
ONE_ROW = ["--formulations", "dual", "--solvers", "CLARABEL"]


@pytest.fixture(autouse=True)
def _no_terminal(monkeypatch):
    for name in ("COLUMNS", "FORCE_COLOR", "TTY_COMPATIBLE"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def table(tmp_path, rng):
    """A CSV file of two classes, 40 samples and 3 variables."""
    X = rng.normal(size=(40, 3))
    lines = [f"{a},{b},{c},{'ill' if a + b * c > 0 else 'healthy'}" for a, b, c in X]
    path = tmp_path / "patients.csv"
    path.write_text("\n".join(["age,dose,weight,outcome", *lines]) + "\n")
    return str(path)


@pytest.fixture
def npz(tmp_path):
    """An NPZ file with the kernels and labels of a problem, and that problem."""
    problem = make_problem(n=20, M=3, C=100.0)
    path = tmp_path / "kernels.npz"
    np.savez(path, kernels=problem.kernels.dense(), y=problem.y)
    return str(path), problem


def error_line(capsys) -> str:
    """What was printed to standard error, which has to be one line."""
    captured = capsys.readouterr()
    assert captured.err.count("\n") == 1, captured.err
    assert "Traceback" not in captured.out + captured.err
    assert captured.err.startswith("mklref: error: ")
    return captured.err


def test_crosscheck_passes_on_bundled_data(capsys):
    assert main(["crosscheck", *SMALL]) == 0
    out = capsys.readouterr().out
    assert "breast_cancer (scikit-learn" in out
    assert "30 of 569, drawn with seed 0" in out
    assert "benign = -1" in out
    assert "hinge, p = 1, C = 100" in out
    assert "hinge, p = 2, C = 100" in out
    for name in ("native", "qcqp", "dual", "weighted_primal", "mixed_norm", "CLARABEL", "ECOS"):
        assert name in out
    assert out.count("█") > 4
    assert out.rstrip().endswith("PASSED: all 2 problems")


def test_defaults_are_those_of_the_documentation():
    from mklref.cli.options import SAMPLES, parser

    arguments = parser().parse_args(["crosscheck"])
    assert (arguments.data, arguments.p, arguments.C, str(arguments.loss)) == ("breast_cancer", [1, 2], [100], "hinge")
    assert (SAMPLES, arguments.seed, arguments.tol, arguments.reference_tol) == (150, 0, 1e-6, 1e-3)


def test_crosscheck_fails_with_exit_code_1_and_names_the_row(capsys, monkeypatch):
    def fail(self, *, solver, **options):
        raise SolverFailure("out of luck.")

    monkeypatch.setattr(reference.Compiled, "solve", fail)
    assert main(["crosscheck", *SMALL, *ONE_ROW, "--p", "2"]) == 1
    assert capsys.readouterr().out.rstrip().endswith("FAILED: dual/CLARABEL failed: out of luck.")


def test_own_csv_file(capsys, table):
    options = ["--p", "4/3", "--C", "1,10", "--kernels", "linear,rbf:1,per-variable", *ONE_ROW]
    assert main(["crosscheck", "--data", table, *options]) == 0
    out = capsys.readouterr().out
    assert "healthy = -1" in out
    assert "ill = +1" in out
    assert "all 40" in out
    assert "rbf:1[dose]" in out
    assert "hinge, p = 4/3, C = 1\n" in out
    assert "hinge, p = 4/3, C = 10\n" in out


def test_target_and_positive_class(capsys, table):
    assert main(["solve", "--data", table, "--target", "dose", "--loss", "squared", "--kernels", "rbf:1"]) == 2
    assert "line 2: column 'outcome' is" in error_line(capsys)
    assert main(["solve", "--data", table, "--positive", "healthy"]) == 0
    assert "ill = -1" in capsys.readouterr().out
    assert main(["solve", "--data", "wine", "--positive", "class_1", *SMALL]) == 0
    assert "not class_1 = -1" in capsys.readouterr().out


def test_own_kernels(capsys, npz):
    path, problem = npz
    assert main(["solve", "--data", path]) == 0
    out = capsys.readouterr().out
    assert "3 as given, normalisation: none" in out
    assert f"{native.solve(problem).objective:.6g}"[:6] in out
    assert main(["crosscheck", "--data", path, "--samples", "15", "--normalize", "trace", *ONE_ROW]) == 0
    assert "15 of 20" in capsys.readouterr().out


def saved_objective(tmp_path, *arguments: str) -> float:
    """The objective of `mklref solve` with these arguments."""
    file = tmp_path / "solved.npz"
    assert main(["solve", *arguments, "--tol", "1e-9", "--save", str(file)]) == 0
    return Solution.load(file).objective


def test_a_table_is_drawn_encoded_standardised_and_normalised(tmp_path, table):
    data = datasets.read_csv(table).subset(25, 3).standardized()
    kernels = from_specification("linear,rbf:1", data.X, normalize="spherical")
    y = np.where(data.y == "ill", 1.0, -1.0)
    problem = Problem(kernels, y, C=3.0, loss="squared_hinge", regularizer=mklref.Lp(2))
    options = ["--samples", "25", "--seed", "3", "--kernels", "linear,rbf:1", "--normalize", "spherical"]
    solved = saved_objective(tmp_path, "--data", table, *options, "--C", "3", "--p", "2", "--loss", "squared_hinge")
    assert solved == pytest.approx(native.solve(problem, tol=1e-9).objective, rel=1e-8)


def test_samples_of_kernels_keep_their_labels(tmp_path, npz):
    path, problem = npz
    rows = np.sort(np.random.default_rng(5).permutation(20)[:12])
    drawn = Problem(problem.kernels.dense()[:, rows][:, :, rows], problem.y[rows], C=100.0)
    solved = saved_objective(tmp_path, "--data", path, "--samples", "12", "--seed", "5")
    assert solved == pytest.approx(native.solve(drawn, tol=1e-9).objective, rel=1e-8)


def test_normalised_kernels_of_a_file_are_normalised(capsys, npz):
    path, problem = npz
    scaled = problem.replace(kernels=mklref.kernels.normalize(problem.kernels, "trace"))
    assert main(["solve", "--data", path, "--normalize", "trace"]) == 0
    assert f"{native.solve(scaled).objective:.9g}"[:8] in capsys.readouterr().out


@pytest.mark.parametrize(
    ("loss", "data", "meaning"),
    [
        ("epsilon_insensitive:10", "diabetes", "numbers, as given"),
        ("squared", "breast_cancer", "benign = -1"),
        ("one_class", "breast_cancer", "ignored: one class"),
        ("density_level_set", "breast_cancer", "ignored: one class"),
    ],
)
def test_targets_follow_the_loss(capsys, loss, data, meaning):
    assert main(["solve", "--data", data, "--loss", loss, "--C", "2", *SMALL]) == 0
    assert meaning in capsys.readouterr().out


def test_solve_saves_what_it_prints(capsys, tmp_path):
    file = tmp_path / "point.npz"
    assert main(["solve", *SMALL, "--p", "2", "--save", str(file)]) == 0
    saved = Solution.load(file)
    assert f"{saved.objective:.12g}" in capsys.readouterr().out
    assert saved.certificate.is_optimal(1e-6)


def test_solve_without_the_asked_gap_has_exit_code_1(capsys, monkeypatch, npz):
    path, problem = npz
    loose = native.solve(problem, tol=1e-2)
    monkeypatch.setattr(native, "solve", lambda problem, **options: loose)
    assert main(["solve", "--data", path, "--tol", "1e-12"]) == 1
    assert loose.certificate.explain().splitlines()[-1] in capsys.readouterr().out


def test_json_and_report(capsys, tmp_path):
    files = tmp_path / "check.json", tmp_path / "check.html"
    options = ["--p", "1,inf", "--json", str(files[0]), "--report", str(files[1])]
    assert main(["crosscheck", *SMALL, *ONE_ROW, *options]) == 0
    content = json.loads(files[0].read_text(), parse_constant=pytest.fail)
    assert [check["title"] for check in content["checks"]] == ["hinge, p = 1, C = 100", "hinge, p = inf, C = 100"]
    assert content["checks"][0]["problem"]["names"] == ["linear", "rbf:1", "rbf:4"]
    assert content["facts"]["samples"] == "30 of 569, drawn with seed 0"
    assert "cvxpy" in content["facts"]["versions"]
    page = files[1].read_text()
    assert page.count("<svg") == 6
    assert "30 of 569" in page


def test_all_formulations(capsys):
    assert main(["crosscheck", *SMALL, "--p", "1", "--formulations", "all", "--solvers", "clarabel"]) == 0
    out = capsys.readouterr().out
    for name in reference.formulations(make_problem(regularizer="l1")):
        assert name in out


def test_list_names_everything_that_is_there(capsys):
    assert main(["list"]) == 0
    out = capsys.readouterr().out
    for name in [*reference.formulations(), *mklref.losses.LOSSES, "Lp", "Fixed", *reference.SOLVERS, "native"]:
        assert name in out
    assert ("compiled" in out) == native.AVAILABLE
    import clarabel

    assert clarabel.__version__ in out


def test_list_equivalences(capsys):
    assert main(["list", "--equivalences"]) == 0
    out = " ".join(capsys.readouterr().out.split())
    for row in equivalences.table():
        for word in ("left", "right", "parameters", "condition", "source"):
            assert row[word] == equivalences.NONE or " ".join(row[word].split()) in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "COMMAND"),
        (["frobnicate"], "invalid choice: 'frobnicate'"),
        (["crosscheck", "--frob"], "--frob"),
        (["crosscheck", "--p", "0.5"], "p = 0.5 must lie in [1, inf]"),
        (["crosscheck", "--p", "nan"], "p = nan must lie in [1, inf]"),
        (["crosscheck", "--p", "one"], "'one' is not a number"),
        (["crosscheck", "--p", "4/0"], "'4/0' is not a number"),
        (["crosscheck", "--p", "1,,2"], "empty item"),
        (["crosscheck", "--C", "0"], "C = 0.0 must lie in the open interval (0, inf)"),
        (["crosscheck", "--C", "-1"], "C = -1.0 must lie"),
        (["crosscheck", "--C", "inf"], "C = inf must lie"),
        (["crosscheck", "--C", "nan"], "C = nan must lie"),
        (["crosscheck", "--C", "much"], "'much' is not a number"),
        (["crosscheck", "--tol", "0"], "tol = 0.0 must lie in (0, 1)"),
        (["crosscheck", "--samples", "1"], "'1' is neither 'all' nor an integer of at least 2"),
        (["crosscheck", "--seed", "-3"], "'-3' is not a nonnegative integer"),
        (["crosscheck", "--loss", "hinges"], "'hinges' is unknown; known are hinge"),
        (["crosscheck", "--loss", "hinge:2"], "hinge has no parameter"),
        (["crosscheck", "--loss", "epsilon_insensitive:-1"], "epsilon = -1.0 must lie in [0, inf)"),
        (["crosscheck", "--kernels", "rbf"], "kernels: 'rbf' is not understood"),
        (["crosscheck", "--normalize", "unit"], "invalid choice: 'unit'"),
        (["crosscheck", "--formulations", "qcqp"], "qcqp is the dual at Lp(1)"),
        (["crosscheck", "--formulations", "primal"], "'primal' is unknown"),
        (["crosscheck", "--solvers", "mosek", "--formulations", "dual"], "solver = 'mosek' is unknown"),
        (["crosscheck", "--data", "iris"], "3 classes (setosa, versicolor, virginica)"),
        (["crosscheck", "--data", "sonnar"], "data set 'sonnar' is unknown"),
        (["crosscheck", "--data", "absent.csv"], "absent.csv: No such file or directory."),
        (["crosscheck", "--data", "absent.npz"], "absent.npz: No such file or directory."),
        (["crosscheck", "--data", "iris", "--target", "x"], "--target names a column of a CSV file"),
        (["crosscheck", "--json", "absent/check.json"], "cannot write absent/check.json"),
        (["crosscheck", "--report", "absent/check.html"], "cannot write absent/check.html"),
        (["solve", "--save", "absent/point.npz"], "cannot write absent/point.npz"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(capsys, monkeypatch, tmp_path, arguments, message):
    monkeypatch.delenv("MKLREF_DATA", raising=False)
    monkeypatch.chdir(tmp_path)
    assert main([*arguments, *(["--samples", "20"] if "--samples" not in arguments and arguments[1:] else [])]) == 2
    assert message in error_line(capsys)


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"K": np.eye(3)[None], "y": np.ones(3)}, "holds K, y and lacks kernels"),
        ({"kernels": np.eye(3)}, "lacks y"),
        ({"kernels": np.eye(3), "y": [1.0, -1.0, 1.0]}, "kernels has shape (3, 3); expected (M, n, n)"),
        ({"kernels": np.eye(3)[None], "y": [1.0, -1.0]}, "y has shape (2,), kernels are of order 3"),
        ({"kernels": np.eye(3)[None], "y": np.ones((3, 1))}, "y has shape (3, 1)"),
        ({"kernels": np.eye(3)[None], "y": np.ones(3)}, "only the class 1"),
        ({"kernels": -np.eye(3)[None], "y": [1.0, -1.0, 1.0]}, "kernels[0] is not positive semidefinite"),
        ({"kernels": np.full((1, 3, 3), np.nan), "y": [1.0, -1.0, 1.0]}, "kernels[0][0, 0] is nan"),
        ({"kernels": np.array([None, 1]), "y": np.ones(3)}, "pickled"),
    ],
)
def test_bad_npz_files(capsys, tmp_path, arrays, message):
    path = tmp_path / "bad.npz"
    np.savez(path, **arrays)
    assert main(["crosscheck", "--data", str(path)]) == 2
    assert message in error_line(capsys)


def test_options_that_do_not_go_with_kernels(capsys, npz):
    for option in ("--kernels", "--target"):
        assert main(["crosscheck", "--data", npz[0], option, "linear"]) == 2
        assert f"{option} does not go with" in error_line(capsys)


def test_damaged_npz(capsys, tmp_path):
    path = tmp_path / "cut.npz"
    path.write_bytes(b"PK\x03\x04 not much of a zip")
    assert main(["solve", "--data", str(path)]) == 2
    assert "not a readable .npz file" in error_line(capsys)


def test_report_without_its_extra_fails_before_anything_is_solved(capsys, monkeypatch, tmp_path):
    monkeypatch.setattr(report, "find_spec", lambda name: None if name == "jinja2" else object())
    assert main(["crosscheck", "--report", str(tmp_path / "x.html")]) == 2
    assert "a report needs jinja2; install them by: pip install 'mklref[report]'." in error_line(capsys)


def test_warnings_are_one_line(capsys, monkeypatch, npz):
    import warnings

    path, problem = npz
    solution = native.solve(problem)

    def slow(problem, **options):
        warnings.warn("no compiler\nwas found.", SlowWarning, stacklevel=1)
        return solution

    monkeypatch.setattr(native, "solve", slow)
    assert main(["solve", "--data", path]) == 0
    assert capsys.readouterr().err == "mklref: warning: no compiler was found.\n"


@pytest.mark.parametrize("interrupt", [KeyboardInterrupt(), Interrupted(None)])
def test_interrupt_in_a_row_ends_everything_with_130(capsys, monkeypatch, interrupt):
    def stop(problem, **options):
        raise interrupt

    monkeypatch.setattr(native, "solve", stop)
    assert main(["crosscheck", *SMALL]) == 130
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert err.startswith("mklref: interrupted")


def start(*arguments: str, **environment: str) -> subprocess.Popen[str]:
    """The command in a process of its own, with the package that this process tests."""
    path = str(Path(mklref.__file__).parent.parent)
    return subprocess.Popen(
        [sys.executable, "-m", "mklref", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": path, "PYTHONSAFEPATH": "1", **environment},
        # A shell's background process starts out deaf to Ctrl-C, and so would its children.
        preexec_fn=None if sys.platform == "win32" else lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )


def test_process_returns_the_exit_code_and_prints_ascii_where_it_must():
    with start("crosscheck", *SMALL, *ONE_ROW, "--p", "2", PYTHONIOENCODING="ascii") as process:
        out, err = process.communicate(timeout=120)
    assert (process.returncode, err) == (0, "")
    assert "####" in out
    assert out.isascii()
    with start("crosscheck", "--p", "0") as process:
        out, err = process.communicate(timeout=120)
    assert (process.returncode, out, err.count("\n")) == (2, "", 1)


@pytest.mark.skipif(sys.platform == "win32", reason="sends SIGINT")
def test_ctrl_c_ends_the_process_with_130_and_one_line():
    arguments = ["crosscheck", "--samples", "all", "--formulations", "dual"]
    with start(*arguments, PYTHONUNBUFFERED="1") as process:
        assert process.stdout is not None
        process.stdout.readline()  # the facts are printed: solving has begun
        time.sleep(0.2)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert err.strip().startswith("mklref: interrupted")
    assert err.count("\n") == 1


def test_bars():
    assert render._bar(1.0, False) == "█" * 8
    assert render._bar(0.0, False) == " " * 8
    assert render._bar(0.5, False) == "████    "
    assert render._bar(1 / 64, False) == "▏       "
    assert render._bar(0.5, True) == "####    "
    assert {len(render._bar(share, False)) for share in np.linspace(0, 1, 200)} == {8}


def test_bars_of_all_columns_have_one_scale(capsys):
    render.show_weights(render.console(), ["K"], {"native": np.array([1.0]), "dual": np.array([0.5])})
    assert [cell.count("█") for cell in capsys.readouterr().out.splitlines()[1].split()[2::2]] == [8, 4]


def test_many_kernels_are_cut_to_the_largest(capsys):
    weights = np.linspace(0.0, 1.0, 100)
    render.show_weights(render.console(), [f"K{m}" for m in range(100)], {"native": weights})
    out = capsys.readouterr().out
    assert "60 kernels of smaller weight are not shown" in out
    assert "K99" in out
    assert "K59 " not in out


@pytest.mark.parametrize(("width", "objective"), [(80, False), (120, True)])
def test_rows_keep_their_names_in_a_narrow_terminal(capsys, width, objective):
    check = mklref.crosscheck(make_problem(n=20, M=2, C=100.0), formulations=["weighted_primal"], solvers=["CLARABEL"])
    render.show_table(Console(width=width, highlight=False), check)
    out = capsys.readouterr().out
    assert "weighted_primal  CLARABEL" in out
    assert "…" not in out
    assert ("objective" in out) == objective
