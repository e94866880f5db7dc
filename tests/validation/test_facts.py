"""What a file of results says of its run.

The table of |value - P*|: which primer states which problem, and what is said of values.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import cvxpy as cp
import numpy as np
import pytest
from makers import make_problem
from primer.rows import ROWS
from primer.sources import data

from mklref.regularizers import Lp
from mklref.testing import real
from validation import checked
from validation.benchmarks import algorithms, certificates, scaling, selection, turns
from validation.facts import CODE, RESULTS, commit, facts, stored_rows
from validation.primers import statements
from validation.proven import main as proven, table_lines, values


def git(root: Path, *arguments: str) -> None:
    subprocess.run(["git", "-C", str(root), "-c", "user.name=A", "-c", "user.email=a@b", *arguments], check=True)


@pytest.fixture
def checkout(tmp_path):
    """A repository with code and results."""
    for folder in (*CODE, RESULTS):
        (tmp_path / folder).mkdir(exist_ok=True, parents=True)
        (tmp_path / folder / "file").write_text("first")
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-qm", "first")
    commit.cache_clear()
    yield tmp_path
    commit.cache_clear()


def test_changed_code_is_marked_and_changed_results_are_not(checkout):
    head = subprocess.run(["git", "-C", checkout, "rev-parse", "HEAD"], capture_output=True, text=True, check=True)
    (checkout / RESULTS / "file").write_text("second")
    assert commit(checkout) == head.stdout[:8]
    commit.cache_clear()
    (checkout / "mklref" / "file").write_text("second")
    assert commit(checkout) == head.stdout[:8] + "+"


def test_outside_of_a_checkout_there_is_no_commit(tmp_path, monkeypatch):
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    assert commit(tmp_path) is None


def test_facts_can_be_written():
    found = facts()
    assert json.loads(json.dumps(found)) == found
    assert {"date", "mklref", "commit", "python", "numpy", "machine", "cores", "threads", "load"} <= set(found)


@pytest.mark.parametrize(
    ("module", "measures", "row"),
    [
        (algorithms, ("measure", "table"), []),
        (certificates, ("measure",), {"n": 100, "fast to numerical": 1.0}),
        (selection, ("compare", "digits"), {"reached": True}),
    ],
)
def test_benchmarks_write_their_rows_with_the_facts(module, measures, row, monkeypatch, tmp_path):
    for name in measures:
        monkeypatch.setattr(module, name, lambda *arguments: row)
    assert module.main(["--json", str(tmp_path / "rows.json")]) == 0
    written = json.loads((tmp_path / "rows.json").read_text())
    assert written["machine"] == facts()["machine"]
    assert isinstance(written["rows"], list)


def test_nothing_is_timed_without_the_compiled_core(monkeypatch):
    monkeypatch.setattr("mklref.native.AVAILABLE", False)
    monkeypatch.setattr("mklref.native.WHY", "No compiler.")
    for time_it in (
        lambda: turns(1, {"nothing": lambda: None}),
        lambda: selection.timed(lambda: None),
        lambda: scaling.measure(10, 1, 1.0),
    ):
        with pytest.raises(SystemExit, match=r"Nothing is timed without the compiled core\. No compiler\."):
            time_it()


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_a_primer_is_called_for_its_problem_as_the_table_of_its_own_tests_says(row):
    problem = row.problem(*data("real", row.loss))
    stated = {name: (arguments, scale) for name, arguments, scale in statements(problem)}
    arguments, scale = stated[row.primer]
    x = cp.Constant(np.array([0.3, 0.1, 0.2, 0.4]))
    if row.primer == "kloft_3":  # any lambda states it, with a factor
        assert arguments[1] / arguments[0] == pytest.approx(row.arguments[1] / row.arguments[0])
        assert scale * arguments[0] == pytest.approx(1.0)
        return
    assert row.value(1.0) == pytest.approx(scale)
    for mine, theirs in zip(arguments, row.arguments, strict=True):
        given = (mine(x).value, theirs(x).value) if callable(mine) else (mine, theirs)
        np.testing.assert_allclose(*given, rtol=1e-12)


def test_every_program_says_the_value_of_a_small_problem():
    problem = make_problem(n=12, M=2, regularizer=Lp(2), C=2.0, seed=3, degenerate="generic")
    said = dict(values(problem))
    assert {"dual", "block_norm", "kloft_P", "kloft_sip", "tomioka_5"} <= set(said)
    np.testing.assert_allclose(list(said.values()), said["dual"], rtol=1e-6)


def test_the_table_tells_differences_from_silence():
    said = {"a": 1e-9, "b": 2e-5, "c": "SolverError"}
    rows = [{"suite": "real", "problem": name, "off": {"dual": off}} for name, off in said.items()]
    assert table_lines(rows)[-1] == "| `dual` | 3 | 1e-05 | 2e-05 | b | 1 | 1 |"


def test_stored_proofs_are_those_of_the_published_problems_and_all_are_confirmed():
    rows = stored_rows(checked.STORED)
    names = [row["problem"] for row in rows]
    assert len(set(names)) == len(names)
    assert set(names) == set(real.published())
    assert {row["said"] for row in rows} == {"CONFIRMED"}
    assert all(float(row["gap"]) < 1e-9 and "+" not in row["commit"] for row in rows)


def test_values_at_proven_optima_go_on_where_a_run_ended(tmp_path, monkeypatch, capsys):
    path = tmp_path / "proven.json"
    for programs in ("dual", "dual,mixed_norm"):
        command = ["proven", "real", "--only", "iris-50*", "--programs", programs, "--json", str(path)]
        monkeypatch.setattr("sys.argv", command)
        assert proven() == 0
    rows = json.loads(path.read_text())["rows"]
    assert [(row["problem"], list(row["off"])) for row in rows] == [
        ("iris-50-hinge-p-1", ["dual"]),
        ("iris-50-hinge-p-1", ["mixed_norm"]),
    ]
    assert all(off < 1e-6 for row in rows for off in row["off"].values())
    assert "**Real**, 1 problems:" in capsys.readouterr().out
