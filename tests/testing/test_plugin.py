"""The pytest plugin, in processes of its own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tomllib
from pathlib import Path
from xml.etree import ElementTree

import pytest

import mklref
from mklref.testing import select

POSIX = pytest.mark.skipif(not hasattr(os, "fork"), reason="a system that forks")
ROOT = Path(mklref.__file__).parent.parent
SOLVERS = """
import mklref

def good(problem):
    return mklref.solve(problem)

def twice_C(problem):
    found = mklref.solve(problem.replace(C=2 * problem.C))
    return found.dual_coef, found.weights, found.intercept

hinge = mklref.testing.Supports(losses={"hinge"})

def declines(problem):
    raise NotImplementedError

def interrupted(problem):
    raise KeyboardInterrupt

def leaves_at_once(problem):
    import os
    if problem.n_samples == 2:
        raise SystemExit(0)
    os._exit(0)

from os import _exit

def leaves_behind_our_back(problem):
    _exit(0)

def leaves_as_fortran_does(problem):
    import ctypes
    ctypes.CDLL(None).exit(0)

def crashes(problem):
    import os, signal
    os.kill(os.getpid(), signal.SIGSEGV)

def forks(problem):
    import os
    child = os.fork()
    if not child:
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    return mklref.solve(problem)
"""
INERT = """
import sys

def test_nothing_heavy_was_loaded():
    assert "mklref.testing.plugin" in sys.modules
    loaded = {name for name in sys.modules if name.startswith("mklref")}
    assert loaded == {"mklref", "mklref.testing", "mklref.testing.plugin"}
    assert "numpy" not in sys.modules
"""


def called(folder, arguments, start=(sys.executable, "-m", "pytest"), paths=None):
    """Pytest in a folder with a solver, with this plugin and no other."""
    (folder / "mysolver.py").write_text(SOLVERS)
    path = os.pathsep.join(map(str, paths or (ROOT, folder)))
    environment = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONPATH": path}
    environment.pop("PYTEST_ADDOPTS", None)
    command = [*start, "-p", "mklref.testing.plugin", "--strict-markers", "-p", "no:cacheprovider", *arguments]
    return subprocess.run(command, capture_output=True, text=True, cwd=folder, env=environment, check=False)


@pytest.fixture
def run(tmp_path):
    return lambda *arguments, **options: called(tmp_path, arguments, **options)


FINE = "--mklref-solver=mysolver:good"
RUNS = {
    "cases": [
        FINE, "--mklref-supports=mysolver:hinge", "--mklref-include=two-*,small-C", "--mklref-include=hinge-l1*",
        "--mklref-exclude=sample-weight,no-intercept", "--mklref-upto=0.1", "-v", "--junitxml=out.xml",
    ],
    "failures": ["--mklref-solver=mysolver:twice_C", "-k", "n-2 and regression", "-q", "-rf"],
    "skipped": ["--mklref-solver=mysolver:declines", "--mklref-include=hinge-l1, two-samples", "test_fine.py"],
    "interrupted": ["--mklref-solver=mysolver:interrupted", "--mklref-include=hinge-l1"],
    "no name": ["--mklref-solver=mysolver"],
    "nobody": ["--mklref-solver=mysolver:nobody"],
    "no case": [FINE, "--mklref-include=tie"],
    "leaves": ["--mklref-solver=mysolver:leaves_at_once", "--mklref-include=hinge-l1,two-samples"],
}  # fmt: skip
IN_TURN = """
import json, sys, pytest
for arguments in json.loads(sys.argv.pop()):
    print("\f", flush=True)
    print(f"\\nexit code {int(pytest.main([*sys.argv[1:], *arguments]))}", flush=True)
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """With a file of tests that fails, which is not to run, and one that passes."""
    made = tmp_path_factory.mktemp("runs")
    (made / "test_other.py").write_text("def test_other():\n    raise AssertionError\n")
    (made / "test_fine.py").write_text("def test_fine():\n    pass\n")
    return made


@pytest.fixture(scope="module")
def said(folder):
    """What each of `RUNS` prints, one after another in one process; its exit code ends it."""
    start = (sys.executable, "-c", "import os; os.dup2(1, 2)\n" + IN_TURN)
    done = called(folder, [json.dumps(list(RUNS.values()))], start)
    return dict(zip(RUNS, done.stdout.split("\f")[1:], strict=True))


def ends_with(text, code):
    return text.rstrip().endswith(f"exit code {int(code)}")


def test_it_does_nothing_without_its_option(run, tmp_path):
    (tmp_path / "test_inert.py").write_text(INERT)
    done = run("-q")
    assert done.returncode == 0, done.stdout
    assert "1 passed" in done.stdout


def test_one_test_for_each_case(said, folder):
    """Options may be given several times, and with commas."""
    assert ends_with(said["cases"], pytest.ExitCode.OK), said["cases"]
    wanted, unwanted = ("two-*", "small-C", "hinge-l1*"), ("sample-weight", "no-intercept")
    suite = ElementTree.parse(folder / "out.xml").getroot().find("testsuite")
    assert [test.get("name") for test in suite] == [case.name for case in select(include=wanted, exclude=unwanted)]
    assert "3 passed, 1 skipped" in said["cases"]
    gap = next(p for p in suite[0].iter("property") if p.get("name") == "relative_gap")
    assert 0 <= float(gap.get("value")) <= 1e-6


def test_failures_name_the_fault_and_keywords_select_flags(said):
    assert ends_with(said["failures"], pytest.ExitCode.TESTS_FAILED)
    assert "FAILED mklref::two-samples-squared - wrong scale of C" in said["failures"]
    assert "1 failed" in said["failures"]
    assert "Traceback" not in said["failures"]


def test_a_run_in_which_every_case_was_skipped_does_not_pass(said):
    assert "1 passed, 2 skipped" in said["skipped"]
    assert "mklref: all 2 cases were excluded, which shows nothing" in said["skipped"]
    assert ends_with(said["skipped"], pytest.ExitCode.TESTS_FAILED)


def test_an_interrupt_ends_the_run(said):
    assert ends_with(said["interrupted"], pytest.ExitCode.INTERRUPTED), said["interrupted"]


@pytest.mark.thorough
@POSIX
@pytest.mark.parametrize("solver", ["leaves_behind_our_back", "leaves_as_fortran_does"])
def test_a_process_that_ends_before_the_tests_are_over_has_not_passed(run, solver):
    """Neither is an exit code of 0 believed that comes from C, or from an os._exit that was imported by name."""
    done = run(f"--mklref-solver=mysolver:{solver}", "--mklref-include=hinge-l1")
    assert done.returncode == pytest.ExitCode.INTERNAL_ERROR, done.stdout + done.stderr
    assert "the solver ended the process with exit code 0 before the tests were over" in done.stderr


@POSIX
def test_a_solver_that_leaves_is_a_failed_case_and_the_others_run(said):
    assert ends_with(said["leaves"], pytest.ExitCode.TESTS_FAILED), said["leaves"]
    assert "SystemExit: os._exit(0) was called (" in said["leaves"]
    assert "SystemExit: 0 (" in said["leaves"]
    assert "2 failed" in said["leaves"]


@pytest.mark.thorough
@POSIX
def test_a_crash_is_one(run):
    done = run("--mklref-solver=mysolver:crashes", "--mklref-include=hinge-l1", "-p", "no:faulthandler")
    assert done.returncode == 128 + signal.SIGSEGV


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ("no name", "--mklref-solver mysolver: give module:name."),
        ("nobody", "module 'mysolver' has no attribute 'nobody'"),
        ("no case", "'tie' is neither a flag nor the name of a case"),
    ],
)
def test_wrong_options_are_usage_errors(said, wrong, message):
    assert ends_with(said[wrong], pytest.ExitCode.USAGE_ERROR), said[wrong]
    assert message in said[wrong]


def test_the_plugin_is_announced():
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    assert project["entry-points"]["pytest11"] == {"mklref": "mklref.testing.plugin"}


@pytest.mark.thorough
def test_a_solver_of_the_current_directory_is_found_as_tests_are_and_its_children_leave_as_they_like(run):
    """`pytest` on its own, unlike `python -m pytest`, does not put the directory on the path."""
    solver = f"--mklref-solver=mysolver:{'forks' if hasattr(os, 'fork') else 'good'}"
    code = "import sys; sys.path.remove(''); import pytest; sys.exit(pytest.main(sys.argv[1:]))"
    start = (sys.executable, "-c", code)
    done = run(solver, "--mklref-include=two-samples", "-q", start=start, paths=(ROOT,))
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("1 passed") == 1
