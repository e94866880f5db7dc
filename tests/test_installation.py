"""The package that is tested is the one that was installed; without its compiled core it says so, once."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import pytest

import mklref
from mklref.machines import loops

ROOT = Path(__file__).parents[1]
PINS = ROOT / ".ci" / "lowest.txt"
BUILD = ROOT / "mklref" / "machines" / "_core" / "CMakeLists.txt"
NEAREST = 'extern "C" double nearest(double x) { return (x + 6755399441055744.0) - 6755399441055744.0; }'
CALLS = """
import ctypes
nearest = ctypes.CDLL("./nearest.so").nearest
nearest.restype, nearest.argtypes = ctypes.c_double, [ctypes.c_double]
assert nearest(0.3) == 0.0
assert 2.0**-1074 * nearest(3.0) > 0.0, "the library changes what Python itself computes"
"""

SOLVES = """
import multiprocessing, sys, warnings
sys.modules["mklref.machines._loops"] = None  # as where nothing was compiled
with warnings.catch_warnings(record=True) as said:
    warnings.simplefilter("always")
    import numpy as np
    import mklref
    import mklref.algorithms, mklref.estimators, mklref.native
    assert mklref.native.AVAILABLE is False and not said, said
problem = mklref.Problem([np.eye(6), np.ones((6, 6))], [1, -1, 1, -1, 1, 1])

def first(solve):
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        solve()
        solve()
        mklref.solve(problem)
    (warning,) = said
    assert warning.category is mklref.exceptions.SlowWarning
    assert str(warning.message) == mklref.native.WHY

for solve in (
    lambda: mklref.solve(problem),
    lambda: mklref.algorithms.simplemkl(problem),
    lambda: mklref.MKLClassifier().fit(np.eye(6), problem.y),
):
    child = multiprocessing.get_context("fork").Process(target=first, args=(solve,))  # where nothing has been said
    child.start()
    child.join()
    assert child.exitcode == 0
print(mklref.native.WHY)
"""


@pytest.mark.skipif(os.environ.get("MKLREF_REQUIRE_NATIVE", "false") in ("", "0", "false"), reason="core not required")
def test_the_compiled_core_is_there_where_it_is_required():
    assert mklref.native.AVAILABLE, mklref.native.WHY


def test_the_version_is_that_of_the_installed_package():
    try:
        installed = version("mklref")
    except PackageNotFoundError:
        pytest.skip("tests run on the source tree")
    assert mklref.__version__ == installed


@pytest.mark.thorough
@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are not forked here")
def test_the_first_solve_on_the_twin_warns_and_no_import_and_no_other_solve_does():
    done = subprocess.run([sys.executable, "-c", SOLVES], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("The compiled loops are missing (")
    assert "NumPy twins do the work, much slower." in done.stdout


def test_what_to_do_depends_on_where_python_found_the_package(tmp_path, monkeypatch):
    monkeypatch.setattr(loops, "_PACKAGE", tmp_path / "mklref")
    assert "MKLREF_REQUIRE_NATIVE=true pip install --force-reinstall" in loops._remedy()
    (tmp_path / "pyproject.toml").touch()
    assert f"Python imported the source tree {tmp_path / 'mklref'}, where nothing is compiled" in loops._remedy()
    assert "start it in another directory or with -P" in loops._remedy()


@pytest.mark.skipif(not BUILD.is_file() or not shutil.which("g++"), reason="no checkout, or no GCC")
@pytest.mark.parametrize("flag", ["-ffast-math", "-Ofast", "-funsafe-math-optimizations"])
def test_flags_of_an_environment_do_not_change_the_arithmetic_of_the_core(flag, tmp_path):
    """CMake writes those of CXXFLAGS first; x + 1.5 2^52 - 1.5 2^52 is an integer, on which the exponentials rely."""
    options = re.search(r"set\(exact (.*)\)", BUILD.read_text(encoding="utf-8"))[1].split()
    (tmp_path / "nearest.cpp").write_text(NEAREST, encoding="utf-8")
    for command in (
        ["g++", flag, *options, "-fPIC", "-c", "nearest.cpp"],
        ["g++", flag, *options, "-shared", "nearest.o", "-o", "nearest.so"],
        [sys.executable, "-c", CALLS],
    ):
        subprocess.run(command, cwd=tmp_path, check=True)


@pytest.mark.skipif(not PINS.is_file(), reason="not a checkout")
def test_the_lowest_versions_that_are_tested_are_those_of_the_project():
    """The documentation is built, the explorer tested in a browser, and files of AnnData read, with the newest only."""
    table = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    extras = table["project"]["optional-dependencies"]
    listed = [
        table["build-system"]["requires"],
        table["project"]["dependencies"],
        *(extras[k] for k in extras.keys() - {"docs", "explore", "browser", "annotated"}),
    ]
    required = [entry for entries in listed for entry in entries if not entry.startswith("mklref[")]
    pinned = dict(row.split("==") for row in PINS.read_text(encoding="utf-8").splitlines() if not row.startswith("#"))
    assert {name: _parts(number) for name, number in pinned.items()} == {
        name: _parts(number) for name, number in (entry.split(">=") for entry in required)
    }


def _parts(number: str) -> tuple[int, ...]:
    """1.10 is 1.10.0."""
    parts = tuple(map(int, number.split(".")))
    return parts + (0,) * (3 - len(parts))
