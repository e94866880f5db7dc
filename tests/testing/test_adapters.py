"""The adapters of docs/adapters, run where the machine has the language, each with a twin that reads C wrongly."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from mklref.testing import vectors

ADAPTERS = Path(__file__).parents[2] / "docs" / "adapters"
NAMES = ["generic-ridge-regression", "another-C-ridge-regression", "shifted-ridge-regression", "generic-squared-l1"]
"""The last one is out of scope: it has several kernels."""


def each(program, folder, solutions):
    """A program that takes one problem at a time."""
    return [[str(program), str(folder / name), str(solutions / name)] for name in NAMES]


def octave(script, folder, solutions):
    call = f"addpath('{script.parent}'); adapter('{folder}', '{solutions}')"
    return [["octave-cli", "--quiet", "--no-init-file", "--eval", call]]


def cpp(script, folder, solutions):
    program = script.with_suffix("")
    return [["c++", "-std=c++17", "-O1", str(script), "-o", str(program)], *each(program, folder, solutions)]


def rust(script, folder, solutions):
    program = script.with_suffix("")
    return [["rustc", "-O", str(script), "-o", str(program)], *each(program, folder, solutions)]


def r(script, folder, solutions):
    return [["Rscript", "--vanilla", str(script), str(folder), str(solutions)]]


def julia(script, folder, solutions):
    return [["julia", "--startup-file=no", str(script), str(folder), str(solutions)]]


LANGUAGES = {
    "adapter.m": ("octave-cli", "octave-cli --version", octave, "eye(n) / C", "eye(n) * C"),
    "adapter.R": ("Rscript", "Rscript -e library(jsonlite)", r, "diag(n) / C", "diag(n) * C"),
    "adapter.jl": ("julia", "julia -e using(JSON)", julia, "I / C", "I * C"),
    "adapter.cpp": ("c++", "c++ --version", cpp, "(i == j) / C", "(i == j) * C"),
    "adapter.rs": ("rustc", "rustc --version", rust, "1.0 / c }", "1.0 * c }"),
}
"""Of each script: its language, a command that succeeds where all that it needs is there, how it is run, its fault."""


def answered(tmp_path, name, old=None, new=None):
    """The report on the solutions that the script wrote, with one piece of its text replaced."""
    program, probe, commands, *_ = LANGUAGES[name]
    if shutil.which(program) is None or subprocess.run(probe.split(), capture_output=True, check=False).returncode:
        pytest.skip(f"{program} with the libraries of {name} is not on this machine")
    folder, solutions, script = tmp_path / "vectors", tmp_path / "solutions", tmp_path / name
    vectors.export_vectors(folder, include=NAMES, formats=["mat", "json"])
    solutions.mkdir()
    text = (ADAPTERS / name).read_text(encoding="utf-8")
    assert old is None or text.count(old) == 1
    script.write_text(text if old is None else text.replace(old, new), encoding="utf-8")
    for command in commands(script, folder, solutions):
        subprocess.run(command, check=True, capture_output=True, text=True, timeout=120)
    return vectors.check_directory(folder, solutions)


@pytest.mark.parametrize("name", LANGUAGES)
def test_the_adapter_is_certified_on_what_is_in_its_scope(name, tmp_path):
    report = answered(tmp_path, name)
    assert report.passed, str(report)
    assert {row.case.name: row.outcome.value for row in report.rows} == {
        problem: "excluded" if problem == NAMES[-1] else "passed" for problem in NAMES
    }


@pytest.mark.parametrize("name", LANGUAGES)
def test_its_wrong_twin_is_caught(name, tmp_path):
    report = answered(tmp_path, name, *LANGUAGES[name][3:])
    assert len(report.failures) == len(NAMES) - 1
    for row in report.failures:
        assert row.findings[0].fault == "wrong scale of C", row.message


def test_every_adapter_is_on_the_page():
    page = (ADAPTERS.parent / "vectors.md").read_text(encoding="utf-8")
    assert {path.name for path in ADAPTERS.iterdir()} == set(LANGUAGES)
    for name in LANGUAGES:
        assert f"{{literalinclude}} adapters/{name}" in page
