"""The adapters of docs/adapters, run where the machine has the language.

What the pages for authors of solvers say about cases, faults and names in files is true.
An author plants a fault in a solver of his own, and reads its name in the first line of the report.
The adapter to scikit-learn, the one peer that is always there: its machine passes on everything in its scope.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import fields
from pathlib import Path

import pytest

from mklref.losses import LOSSES
from mklref.testing import FAULTS, Supports, check_solver, select, vectors
from mklref.testing.cases.grid import CAPABILITIES, STRUCTURES
from mklref.testing.result import Outcome
from mklref.testing.vectors import schema
from validation.peers.run import scikit_learn

ADAPTERS = Path(__file__).parents[2] / "docs" / "adapters"
NAMES = ["generic-ridge-regression", "another-C-ridge-regression", "shifted-ridge-regression", "generic-squared-l1"]
"""The last one is out of scope: it has several kernels."""


def each(program, folder, solutions):
    """A program that takes one problem at a time."""
    return [[str(program), str(folder / name), str(solutions / name)] for name in NAMES]


def octave(script, folder, solutions):
    call = f"addpath('{script.parent}'); adapter('{folder}', '{solutions}')"
    return [["octave-cli", "--quiet", "--no-init-file", "--eval", call]]


def compiled(*compiler):
    def run(script, folder, solutions):
        program = script.with_suffix("")
        return [[*compiler, str(script), "-o", str(program)], *each(program, folder, solutions)]

    return run


def interpreted(*call):
    return lambda script, folder, solutions: [[*call, str(script), str(folder), str(solutions)]]


LANGUAGES = {
    "adapter.m": ("octave-cli", "octave-cli --version", octave),
    "adapter.R": ("Rscript", "Rscript -e library(jsonlite)", interpreted("Rscript", "--vanilla")),
    "adapter.jl": ("julia", "julia -e using(JSON)", interpreted("julia", "--startup-file=no")),
    "adapter.cpp": ("c++", "c++ --version", compiled("c++", "-std=c++17", "-O0")),
    "adapter.rs": ("rustc", "rustc --version", compiled("rustc")),
}
"""Of each script: its language, a command that succeeds where all that it needs is there, and how it is run."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The problems as files."""
    made = tmp_path_factory.mktemp("vectors")
    vectors.export_vectors(made, include=NAMES, formats=["mat", "json"])
    return made


@pytest.mark.thorough
@pytest.mark.parametrize("name", LANGUAGES)
def test_the_adapter_is_certified_on_what_is_in_its_scope(name, folder, tmp_path):
    program, probe, commands = LANGUAGES[name]
    if shutil.which(program) is None or subprocess.run(probe.split(), capture_output=True, check=False).returncode:
        pytest.skip(f"{program} with the libraries of {name} is not on this machine")
    solutions, script = tmp_path / "solutions", tmp_path / name
    solutions.mkdir()
    shutil.copy(ADAPTERS / name, script)
    for command in commands(script, folder, solutions):
        subprocess.run(command, check=True, capture_output=True, text=True, timeout=120)
    report = vectors.check_directory(folder, solutions)
    assert report.passed, str(report)
    assert {row.case.name: row.outcome.value for row in report.rows} == {
        problem: "excluded" if problem == NAMES[-1] else "passed" for problem in NAMES
    }


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
    structures, capabilities = re.findall(r"crosses (\d+) structures of data .*\n.* (\d+) capabilities", TESTING)[0]
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


SOURCE = (Path(__file__).parent / "plain.py").read_text(encoding="utf-8")
CASES = {
    "hinge": ["hinge-l2", "generic-hinge-l2"],
    "squared": ["squared-l2", "generic-squared-l2", "another-C-squared-l2", "low-rank-squared-l2"],
}
THETA = "        theta = new\n    return beta, theta, b"
SPHERE = "new = new / np.linalg.norm(new, p)"
NORM = SPHERE + " * np.linalg.norm(norms, 2 * p / (p + 1))"
BOX = "low = np.where(y > 0, 0.0, -C)\n    high = np.where(y > 0, C, 0.0)"
BALANCED = "C = C * n / (2 * np.where(y > 0, (y > 0).sum(), (y < 0).sum()))\n    "
START = "theta = np.full("

PLANTED = [
    ("hinge", "another regularizer", "norm not squared", SPHERE, NORM),
    ("squared", "another regularizer", "norm not squared", SPHERE, NORM),
    ("hinge", "machine not solved", "few inner steps", "steps=200_000", "steps=25"),
    ("hinge", "machine not solved", "inner tolerance", "tol=1e-9", "tol=1e-1"),
    ("hinge", "scaled kernels", "missing 1/2", START, "K = 2 * K\n    " + START),
    ("squared", "scaled kernels", "K/n", START, "K = K / len(y)\n    " + START),
    ("squared", "normalised kernels", "unit trace", START,
     "K = K / np.trace(K, axis1=1, axis2=2)[:, None, None]\n    " + START),
    ("hinge", "normalised kernels", "spherical", START,
     "d = np.sqrt(np.einsum('mii->mi', K))\n    K = K / d[:, :, None] / d[:, None, :]\n    " + START),
    ("hinge", "class weights", "balanced", BOX, BALANCED + BOX),
    ("hinge", "ridge on the kernels", "1e-3", START, "K = K + 1e-3 * np.eye(len(y))\n    " + START),
    ("squared", "penalised intercept", "b^2/2", "A[n, n] = 0.0", "A[n, n] = -1.0"),
    ("squared", "missing intercept constraint", "b = 0", "return x[:n], x[n]",
     "return np.linalg.solve(A[:n, :n], y), 0.0"),
    ("squared", "centred targets", "mean of y", START, "y = y - y.mean()\n    " + START),
    ("squared", "standardised targets", "deviation", START, "y = (y - y.mean()) / y.std()\n    " + START),
    ("squared", "centred kernels", "H K H", START,
     "H = np.eye(len(y)) - 1 / len(y)\n    K = H @ K @ H\n    " + START),
    ("squared", "duplicated samples", "three twice", "np.eye(n) / C",
     "np.diag(np.r_[0.5, 0.5, 0.5, np.ones(n - 3)]) / C"),
    ("hinge", "dropped samples", "the last three", BOX, "y = np.r_[y[:-3], 0, 0, 0]\n    "
     "low, high = np.where(y < 0, -C, 0.0), np.where(y > 0, C, 0.0)"),
    ("squared", "wrong scale of C", "mean of the losses", "np.eye(n) / C", "np.eye(n) * n / C"),
    ("hinge", "weights on another sphere", "sum 1", SPHERE, "new = new / np.sum(new)"),
    ("hinge", "unsigned dual_coef", "alpha", THETA, THETA.replace("beta", "abs(beta)")),
    ("hinge", "other sign of the intercept", "rho", THETA, THETA + " * -1"),
]  # fmt: skip
"""Loss, the name that is to be read, what is done, and where."""


def report(loss, old="", new=""):
    """That of the solver with one piece of its text replaced."""
    assert not old or SOURCE.count(old) == 1, old
    scope: dict[str, object] = {}
    exec(compile(SOURCE.replace(old, new) if old else SOURCE, "plain", "exec"), scope)
    return check_solver(scope["solve"], supports=Supports(losses=loss), include=CASES[loss])


@pytest.mark.parametrize("loss", CASES)
def test_the_solver_without_a_fault_passes(loss):
    assert report(loss).passed


@pytest.mark.sampled(21)
@pytest.mark.parametrize(("loss", "name", "what", "old", "new"), PLANTED, ids=[" ".join(row[:3]) for row in PLANTED])
def test_its_fault_is_named_in_the_first_line(loss, name, what, old, new):
    first = str(report(loss, old, new)).splitlines()[0]
    assert f"excluded: {name} (" in first


def test_scikit_learn_passes_where_it_solves_the_same_problem():
    report = check_solver(scikit_learn, exclude="large-C-sv*")  # where libsvm ends early
    assert report.passed, str(report)
    assert report.count(Outcome.PASSED) >= 30
