"""The adapters of docs/adapters, run where the machine has the language, each with a twin that reads C wrongly.

What the pages for authors of solvers say about cases, faults and names in files is true.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import fields
from pathlib import Path

import pytest

from mklref.losses import LOSSES
from mklref.testing import FAULTS, select, vectors
from mklref.testing.cases.grid import CAPABILITIES, STRUCTURES
from mklref.testing.vectors import schema

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


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The problems as files."""
    made = tmp_path_factory.mktemp("vectors")
    vectors.export_vectors(made, include=NAMES, formats=["mat", "json"])
    return made


def answered(folder, tmp_path, name, old=None, new=None):
    """The report on the solutions that the script wrote, with one piece of its text replaced."""
    program, probe, commands, *_ = LANGUAGES[name]
    if shutil.which(program) is None or subprocess.run(probe.split(), capture_output=True, check=False).returncode:
        pytest.skip(f"{program} with the libraries of {name} is not on this machine")
    solutions, script = tmp_path / "solutions", tmp_path / name
    solutions.mkdir()
    text = (ADAPTERS / name).read_text(encoding="utf-8")
    assert old is None or text.count(old) == 1
    script.write_text(text if old is None else text.replace(old, new), encoding="utf-8")
    for command in commands(script, folder, solutions):
        subprocess.run(command, check=True, capture_output=True, text=True, timeout=120)
    return vectors.check_directory(folder, solutions)


@pytest.mark.parametrize("name", LANGUAGES)
def test_the_adapter_is_certified_on_what_is_in_its_scope(name, folder, tmp_path):
    report = answered(folder, tmp_path, name)
    assert report.passed, str(report)
    assert {row.case.name: row.outcome.value for row in report.rows} == {
        problem: "excluded" if problem == NAMES[-1] else "passed" for problem in NAMES
    }


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", LANGUAGES)
def test_its_wrong_twin_is_caught(name, folder, tmp_path):
    report = answered(folder, tmp_path, name, *LANGUAGES[name][3:])
    assert len(report.failures) == len(NAMES) - 1
    for row in report.failures:
        assert row.findings[0].fault == "wrong scale of C", row.message


def test_every_adapter_is_on_the_page():
    page = (ADAPTERS.parent / "vectors.md").read_text(encoding="utf-8")
    names = {path.name for path in ADAPTERS.iterdir()}
    assert names == {*LANGUAGES, "simplemkl.m"}, "the last one is tested with the peers"
    for name in names:
        assert f"{{literalinclude}} adapters/{name}" in page


DOCS = Path(__file__).parents[2] / "docs"
TESTING = (DOCS / "testing.md").read_text(encoding="utf-8")
VECTORS = (DOCS / "vectors.md").read_text(encoding="utf-8")


def test_the_number_of_cases_is_that_of_the_catalogue():
    count, grid = len(select(exclude="grid")), len(select(include="grid"))
    assert re.findall(r"runs the (\d+) cases outside the grid", TESTING) == [str(count)]
    assert re.findall(r"passes the (\d+) cases of the grid", TESTING) == [str(grid)]
    structures, capabilities = re.findall(r"product of (\d+) structures of data .* and\n(\d+) capabilities", TESTING)[0]
    assert (int(structures), int(capabilities)) == (len(STRUCTURES), len(CAPABILITIES))
    table = TESTING.partition("## Verdicts on this library")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (`.*?) \| 1e-\d \| (\d+) \| (\d+) \| (\d+) \|", table, flags=re.MULTILINE)
    assert len(rows) >= 10
    for solver, *counts in rows:
        assert sum(map(int, counts)) == count, solver


def test_every_fault_class_is_explained():
    assert [fault for fault in FAULTS if fault not in TESTING] == []


def test_every_name_of_the_schema_is_documented():
    table = VECTORS.partition("## The schema")[2].partition("## From Python")[0]
    documented = set(re.findall(r"`(\w+)\*?`", table))
    assert {*schema._PROBLEM_FIELDS, *schema._SOLUTION_FIELDS, schema._FREE, "facts"} - {
        "status",
        "solver",
    } <= documented
    parameters = {f"loss_{field.name}" for kind in LOSSES.values() for field in fields(kind) if field.init}
    assert parameters <= documented
    for kind in schema.REGULARIZERS.values():
        for field in fields(kind):
            if field.init and field.name not in ("g", "groups"):
                assert f"_{field.name}" in documented or f"regularizer_{field.name}" in documented, field.name
    assert {*LOSSES, *schema.REGULARIZERS, *schema.NAMED, *schema.CONCAVE} <= documented
