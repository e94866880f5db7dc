"""Commands lose no file: not what they read, not what is there already, and no result that took hours."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
from argparse import Namespace
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest

import mklref
from mklref import cli, native, report
from mklref.cli import files, main, render
from mklref.cli.files import Input, Name, Output, OutputDirectory, deliver
from mklref.cli.options import parser
from mklref.exceptions import Interrupted, MKLWarning

SMALL = ["--samples", "20", "--C", "1"]
READING_AND_WRITING = {
    "fit": (["fit", "IN"], ["--save", "--plot"]),
    "predict, table": (["predict", "other.npz", "IN"], ["--out"]),
    "predict, model": (["predict", "IN", "other.csv"], ["--out"]),
    "path": (["path", "IN"], ["--out", "--plot"]),
    "crosscheck": (["crosscheck", "--data", "IN"], ["--json", "--report"]),
    "solve": (["solve", "--data", "IN"], ["--save"]),
    "certify, problem": (["certify", "IN", "other.json"], ["--save", "--report"]),
    "certify, solution": (["certify", "other.json", "IN"], ["--save", "--report"]),
}
CASES = [(command, option) for command, (_, options) in READING_AND_WRITING.items() for option in options]


@pytest.fixture
def idle(monkeypatch):
    """No command may begin its work."""

    monkeypatch.setattr(cli, "_run", Mock(side_effect=AssertionError("the command has begun")))


def commands():
    return next(action for action in parser()._actions if action.dest == "command").choices


def test_every_option_that_names_a_file_says_whether_it_is_read_or_written():
    """By its type; with an output there is --force. `reproduce` goes on in its own directory, and looks by itself."""
    words = ("FILE", "DATA", "NEW.csv", ".npz", "DIR", "PROBLEM", "SOLUTION")
    for name, command in commands().items():
        kinds = {action.type for action in command._actions if any(word in str(action.metavar) for word in words)}
        assert kinds <= ({None, Name} if name == "reproduce" else {Input, Output, OutputDirectory}), name
        writes = name == "reproduce" or kinds & {Output, OutputDirectory}
        assert ("--force" in command._option_string_actions) == bool(writes), name


def test_the_table_of_this_test_has_every_output():
    options = [(name, *option) for name, own in commands().items() for option in own._option_string_actions.items()]
    found = {(name, option) for name, option, action in options if action.type is Output}
    assert found == {(command.partition(",")[0], option) for command, option in CASES}


@pytest.mark.sampled(4)
@pytest.mark.parametrize("force", [[], ["--force"]])
@pytest.mark.parametrize("spelling", ["same", "absolute", "detour", "link", "hard link", "linked folder"])
@pytest.mark.parametrize(("command", "option"), CASES)
def test_nothing_is_written_onto_what_is_read(idle, refused, tmp_path, monkeypatch, command, option, spelling, force):
    monkeypatch.chdir(tmp_path)
    Path("in.csv").write_text("precious")
    Path("folder").mkdir()
    output = {"absolute": str(tmp_path / "in.csv"), "detour": "folder/../in.csv"}.get(spelling, "in.csv")
    if spelling == "link":
        output = "link.csv"
        Path(output).symlink_to("in.csv")
    elif spelling == "hard link":
        output = "hard.csv"
        os.link("in.csv", output)
    elif spelling == "linked folder":
        Path("elsewhere").symlink_to(tmp_path, target_is_directory=True)
        output = "elsewhere/in.csv"
    arguments = ["in.csv" if word == "IN" else word for word in READING_AND_WRITING[command][0]]
    line = refused([*arguments, option, output, *force])
    assert line == f"mklref: error: cannot write {output}: this command reads it. Give the result another name.\n"
    assert Path("in.csv").read_text() == "precious"


def test_tables_beside_a_json_file_and_files_of_a_directory_are_read_too(idle, refused, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("p.json", "p.kernels.csv", "s.json"):
        Path(name).write_text("{}")
    Path("problems").mkdir()
    Path("problems/a.npz").write_text("precious")
    line = refused(["certify", "p.json", "s.json", "--save", "p.kernels.csv", "--force"])
    assert "cannot write p.kernels.csv: this command reads it" in line
    line = refused(["certify", "p.json", "s.json", "--save", "c.h5"])
    assert "path = 'c.h5', and this writes JSON; end it in .json." in line
    Path("s.JSON").write_text('{"dual_coef": {"file": "precious.txt", "shape": [1, 4]}}')
    Path("precious.txt").write_text("1,2,3,4")
    line = refused(["certify", "p.json", "s.JSON", "--save", "precious.txt", "--force"])
    assert "cannot write precious.txt: this command reads it" in line
    line = refused(["certify", "problems", "answers", "--save", "problems/a.npz", "--force"])
    assert "cannot write problems/a.npz: this command reads it" in line


@pytest.mark.parametrize(("command", "option"), CASES)
def test_what_exists_is_replaced_by_force_alone(monkeypatch, refused, tmp_path, command, option):
    monkeypatch.chdir(tmp_path)
    Path("old.txt").write_text("old")
    arguments = [*READING_AND_WRITING[command][0], option, "old.txt"]
    says = "cannot write old.txt: it exists. Give another name, or --force to replace it."
    assert refused(arguments) == f"mklref: error: {says}\n"
    monkeypatch.setattr(cli, "_run", lambda arguments: True)
    assert main([*arguments, "--force"]) == 0


@pytest.mark.parametrize(
    "arguments",
    [
        ["fit", "t.csv", "--save", "a.png", "--plot", "./a.png"],
        ["crosscheck", "--json", "a", "--report", "link"],
        ["path", "t.csv", "--out", "a.svg", "--plot", "a.svg", "--force"],
    ],
)
def test_two_results_have_two_names(idle, refused, tmp_path, monkeypatch, arguments):
    monkeypatch.chdir(tmp_path)
    Path("link").symlink_to("a")
    assert "two options name it. Give each result a name of its own." in refused(arguments)


def test_devices_are_no_files_to_lose(monkeypatch, npz, run):
    assert "saved to /dev/null" in run(["solve", "--data", npz[0], "--save", "/dev/null"]).out
    monkeypatch.setattr(cli, "_run", lambda arguments: True)
    assert main(["solve", "--data", "/dev/null", "--save", "/dev/null"]) == 0
    assert main(["predict", "m.npz", "/dev/stdin", "--out", "/dev/stdout"]) == 0


@pytest.mark.parametrize("protected", [".", "old.npz"])
def test_a_place_that_takes_no_file_is_found_before_the_work(idle, refused, tmp_path, monkeypatch, protected):
    monkeypatch.chdir(tmp_path)
    Path("old.npz").write_text("old")
    closed = os.path.realpath(protected)
    monkeypatch.setattr(files.os, "access", lambda path, mode: os.path.realpath(path) != closed)
    line = refused(["solve", "--save", "old.npz", "--force"])
    says = f"{tmp_path} takes no files from you" if protected == "." else "it is protected from writing"
    assert f"cannot write old.npz: {says}. Give another " in line


def test_vectors_fill_an_empty_directory_or_one_by_force(refused, tmp_path, run):
    arguments = ["vectors", str(tmp_path), "--include", "two-samples", "--formats", "json"]
    assert main(arguments) == 0
    assert f"into {tmp_path}: it is not empty. Give another directory, or --force" in refused(arguments)
    run([*arguments, "--force"])
    (tmp_path / "two-samples.json").unlink()
    (tmp_path / "two-samples.json").symlink_to(tmp_path.parent / "precious")
    assert "two-samples.json is a link to" in refused([*arguments, "--force"])
    (tmp_path / "file").write_text("x")
    assert f"into {tmp_path / 'file'}: it is no directory" in refused(["vectors", str(tmp_path / "file")])


def test_a_file_that_appears_during_the_work_is_kept_and_the_result_is_beside_it(tmp_path):
    arguments = Namespace(save=str(tmp_path / "m.npz"), plot=None, force=False, astray=False)
    for name in ("m.npz", "m-2.npz"):
        (tmp_path / name).write_text("of another process")
    with pytest.warns(MKLWarning, match=r"m\.npz was not written: another process has made it .* is in .*m-3\.npz\."):
        written = deliver(arguments, save=lambda path: Path(path).write_text("ours"), plot=lambda path: None)
    assert written == {"save": str(tmp_path / "m-3.npz")}
    assert arguments.astray
    assert sorted(path.read_text() for path in tmp_path.iterdir()) == ["of another process"] * 2 + ["ours"]
    arguments.force, arguments.astray = True, False
    assert deliver(arguments, save=lambda path: Path(path).write_text("ours")) == {"save": arguments.save}
    assert not arguments.astray


@pytest.mark.parametrize("name", ["./m.npz", ".//m.npz", "there/./m.npz", "there/../m.npz", "m.x.npz"])
def test_a_name_is_written_as_it_is_given(tmp_path, monkeypatch, name):
    """The same file by a shorter spelling was said to be another, and the exit code was 2."""
    monkeypatch.chdir(tmp_path)
    Path("there").mkdir()
    arguments = Namespace(save=name, force=False, astray=False)
    assert deliver(arguments, save=lambda path: Path(path).write_text("ours")) == {"save": name}
    assert not arguments.astray
    assert Path(name).read_text() == "ours"


def test_a_result_whose_place_is_gone_goes_to_the_directory_for_temporary_files(tmp_path, monkeypatch, run):
    (tmp_path / "temporary").mkdir()
    (tmp_path / "home").mkdir()
    monkeypatch.setattr(files.tempfile, "tempdir", str(tmp_path / "temporary"))
    solve = native.solve

    def slow_solve(problem, **options):
        (tmp_path / "home").rmdir()
        return solve(problem, **options)

    monkeypatch.setattr(native, "solve", slow_solve)
    path = tmp_path / "home" / "m.npz"
    captured = run(["solve", *SMALL, "--save", str(path)], 2)
    (saved,) = (tmp_path / "temporary").glob("mklref-*/m.npz")
    assert f"warning: {path} was not written: No such file or directory. The result is in {saved}." in captured.err
    assert f"saved to {saved}" in captured.out
    assert mklref.Solution.load(saved).certificate.is_optimal(1e-6)


def test_ctrl_c_during_solve_saves_the_best_point(tmp_path, monkeypatch, run):
    solve = native.solve

    def interrupted(problem, **options):
        raise Interrupted(solve(problem, tol=0.5))

    monkeypatch.setattr(native, "solve", interrupted)
    captured = run(["solve", *SMALL, "--save", str(tmp_path / "m.npz")], 130)
    assert "interrupted; best point so far" in captured.err
    assert f"saved to {tmp_path / 'm.npz'}" in captured.out
    assert mklref.Solution.load(tmp_path / "m.npz").certificate.gap < np.inf


@pytest.mark.skipif(not hasattr(signal, "SIGHUP"), reason="signals as POSIX has them")
@pytest.mark.parametrize("number", ["SIGTERM", "SIGHUP"])
def test_a_signal_that_ends_the_process_is_as_ctrl_c(tmp_path, monkeypatch, number):
    solve = native.solve

    def ended(problem, **options):
        def end(record):
            os.kill(os.getpid(), getattr(signal, number))

        return solve(problem, callback=end, **options)

    monkeypatch.setattr(native, "solve", ended)
    before = signal.signal(getattr(signal, number), signal.SIG_DFL)  # nohup has SIGHUP ignored
    try:
        assert main(["solve", *SMALL, "--save", str(tmp_path / "m.npz")]) == 130
        assert mklref.Solution.load(tmp_path / "m.npz").certificate.gap < np.inf
        assert signal.getsignal(getattr(signal, number)) is signal.SIG_DFL
    finally:
        signal.signal(getattr(signal, number), before)


@pytest.mark.parametrize("fault", [KeyboardInterrupt, BrokenPipeError(32, "Broken pipe")])
def test_crosscheck_writes_what_was_finished(tmp_path, monkeypatch, fault):
    solve = native.solve

    def second_fails(problem, **options):
        if problem.regularizer.p > 1.0:
            raise fault
        return solve(problem, **options)

    monkeypatch.setattr(native, "solve", second_fails)
    file = tmp_path / "check.json"
    options = ["--formulations", "dual", "--solvers", "CLARABEL", "--json", str(file)]
    assert main(["crosscheck", *SMALL, *options]) == (130 if fault is KeyboardInterrupt else 2)
    content = json.loads(file.read_text())
    assert [entry["title"] for entry in content["checks"]] == ["hinge, p = 1, C = 1"]
    assert content["facts"]["incomplete"] == "1 of 3 problems; the run ended before the others"


def test_a_result_is_saved_before_it_is_shown(tmp_path, monkeypatch):
    monkeypatch.setattr(render, "show_weights", Mock(side_effect=BrokenPipeError(32, "Broken pipe")))
    assert main(["solve", *SMALL, "--save", str(tmp_path / "m.npz")]) == 2
    assert mklref.Solution.load(tmp_path / "m.npz").certificate.is_optimal(1e-6)


def test_a_report_on_a_directory_needs_its_extra_before_the_work(tmp_path, monkeypatch, refused):
    from mklref.cli import certify

    monkeypatch.setattr(certify, "check_directory", lambda *given, **options: pytest.fail("the work has begun"))
    monkeypatch.setattr(report, "find_spec", lambda name: None if name == "jinja2" else object())
    line = refused(["certify", str(tmp_path), str(tmp_path), "--report", str(tmp_path / "page.html")])
    assert "a report needs jinja2" in line


FULL = Path("/dev/full")


@pytest.mark.thorough
@pytest.mark.skipif(not FULL.exists(), reason="no disk that is always full")
@pytest.mark.parametrize("command", [["list"], ["solve", *SMALL], ["--help"]])
def test_a_full_disk_is_one_line_and_exit_code_2(command):
    """Not two more lines, and 120, of Python, which writes once more when it ends."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    with FULL.open("wb") as out:
        done = subprocess.run(
            [sys.executable, "-P", "-m", "mklref", *command],
            stdout=out, stderr=subprocess.PIPE, text=True, env=environment, check=False,
        )  # fmt: skip
        both = subprocess.run([sys.executable, "-P", "-m", "mklref", *command], stdout=out, stderr=out, env=environment)
    assert (done.returncode, done.stderr) == (2, "mklref: error: No space left on device\n")
    assert both.returncode == 2


def test_a_terminal_that_knows_ascii_alone_gets_numbers_for_other_characters(tmp_path, monkeypatch):
    """But no other class, which predictions in a pipe would then name."""
    rows = [f"{k % 3}.{k},{k % 2},{'façade' if k % 2 else 'abri'}" for k in range(12)]
    (tmp_path / "t.csv").write_text("\n".join(["größe,b,art", *rows]) + "\n", encoding="utf-8")
    fit = ["fit", "t.csv", "--kernels", "per_variable(linear)", "--C", "1", "--p", "2", "--folds", "2"]
    commands = [["list"], [*fit, "--save", "m.npz"], ["predict", "m.npz", "t.csv", "--out", "o.csv"]]
    commands += [["crosscheck", *SMALL, "--formulations", "dual", "--solvers", "CLARABEL", "--p", "2"]]
    commands += [["predict", "m.npz", "t.csv"]]
    pipes = [io.TextIOWrapper(io.BytesIO(), encoding="ascii", errors=how) for how in ("strict", "backslashreplace")]
    with monkeypatch.context() as patch:
        patch.chdir(tmp_path)
        patch.setattr(sys, "stdout", pipes[0])
        patch.setattr(sys, "stderr", pipes[1])
        assert [main(arguments) for arguments in commands] == [0, 0, 0, 0, 2]
    for pipe in pipes:
        pipe.seek(0)
    out, err = (pipe.read() for pipe in pipes)
    assert r"gr\xf6\xdfe" in out
    assert "####" in out  # the bars of weights
    assert "prediction" not in out
    assert "standard output is ascii, which has no '\\xe7': give --out FILE.csv" in err
    assert "façade" in (tmp_path / "o.csv").read_text(encoding="utf-8")
