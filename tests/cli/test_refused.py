"""What the commands refuse: one line on standard error and exit code 2."""

from __future__ import annotations

import numpy as np
import pytest

from mklref import report
from mklref.cli import main


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
        (["crosscheck", "--C", "0"], "C = 0.0 must lie in (0, inf)"),
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
        (["crosscheck", "--data", "iris", "--target", "x"], "--target is for CSV files"),
        (["crosscheck", "--json", "absent/check.json"], "cannot write absent/check.json"),
        (["crosscheck", "--report", "absent/check.html"], "cannot write absent/check.html"),
        (["solve", "--save", "absent/point.npz"], "cannot write absent/point.npz"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(error_line, monkeypatch, tmp_path, arguments, message):
    monkeypatch.delenv("MKLREF_DATA", raising=False)
    monkeypatch.chdir(tmp_path)
    assert main([*arguments, *(["--samples", "20"] if "--samples" not in arguments and arguments[1:] else [])]) == 2
    assert message in error_line()


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
def test_bad_npz_files(error_line, tmp_path, arrays, message):
    path = tmp_path / "bad.npz"
    np.savez(path, **arrays)
    assert main(["crosscheck", "--data", str(path)]) == 2
    assert message in error_line()


def test_options_that_do_not_go_with_kernels(error_line, npz):
    for option in ("--kernels", "--target"):
        assert main(["crosscheck", "--data", npz[0], option, "linear"]) == 2
        assert f"{option} does not go with" in error_line()


def test_what_a_file_says_cannot_move_the_cursor(error_line, tmp_path):
    np.savez(tmp_path / "bad.npz", **{"\x1b[2Jmine\r": np.ones(3)})
    assert main(["solve", "--data", str(tmp_path / "bad.npz")]) == 2
    assert r"the file holds \x1b[2Jmine" in error_line()


@pytest.mark.parametrize("text", ["1" + "0" * 400 + "/3", "1e999999/1", "9" * 5000 + "/7"])
def test_numbers_beyond_float64_are_no_numbers(error_line, text):
    assert main(["solve", "--C", text]) == 2
    assert "is not a number" in error_line()


def test_counts_of_5000_digits_are_none(error_line):
    for option in ("--samples", "--seed"):
        assert main(["solve", option, "9" * 5000]) == 2
        assert len(error_line()) < 300


def test_damaged_npz(error_line, tmp_path):
    path = tmp_path / "cut.npz"
    path.write_bytes(b"PK\x03\x04 not much of a zip")
    assert main(["solve", "--data", str(path)]) == 2
    assert "not a readable .npz file" in error_line()


def test_report_without_its_extra_fails_before_anything_is_solved(error_line, monkeypatch, tmp_path):
    monkeypatch.setattr(report, "find_spec", lambda name: None if name == "jinja2" else object())
    assert main(["crosscheck", "--report", str(tmp_path / "x.html")]) == 2
    assert "a report needs jinja2; install them by: pip install 'mklref[report]'." in error_line()
