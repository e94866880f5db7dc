"""What a file of results says of its run, and of two of one cell what differs.

The table of |value - P*|: which primer states which problem, and what is said of values.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import cvxpy as cp
import numpy as np
import pytest
from makers import make_problem
from primer.rows import ROWS
from primer.sources import data

from mklref.cli import main
from mklref.regularizers import Lp
from mklref.testing import real
from validation import checked, sanitize
from validation.benchmarks import algorithms, certificates, scaling, selection, turns
from validation.facts import CODE, RESULTS, commit, facts, stored_rows
from validation.primers import statements
from validation.proven import main as proven, table_lines, values
from validation.reproduce import again, run as runner, store
from validation.reproduce.base import Result
from validation.reproduce.experiments import experiments

ROOT = Path(__file__).parents[2]


def git(root: Path, *arguments: str) -> None:
    subprocess.run(["git", "-C", str(root), "-c", "user.name=A", "-c", "user.email=a@b", *arguments], check=True)


def test_the_tests_that_run_under_sanitizers_are_there():
    assert [test for test in sanitize.TESTS if not (ROOT / test).is_file()] == []


@pytest.mark.thorough
def test_sanitizers_refuse_to_judge_loops_that_were_not_built_for_them(monkeypatch):
    """As those of an editable installation, which Python would find first."""
    monkeypatch.setattr(sanitize, "build", lambda kind, folder: None)
    monkeypatch.setattr(sanitize, "environment", lambda kind, folder: dict(os.environ))
    with pytest.raises(SystemExit, match="would import"):
        sanitize.main(["address", "--version"])


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


STORED = {
    "n": 70,
    "one reading": 0.1,
    "row": {"gap": 0.01, "seconds": 3.0, "objective": -31.305855967025444, "kernels": 9, "status": "OPTIMAL"},
    "curve": [1.0, 2e-10],
    "noise": 2.2e-16,
}


def again_lines(changed: dict) -> list[str]:
    """Of STORED against itself with some changes."""
    facts = {"commit": "0123abcd", "date": "2026-11-22 19:56", "machine": "A processor"}
    now = {"commit": "4567abcd+", "date": "2026-11-24 10:19", "machine": "Another"}
    results = [Result("c", {}, STORED, 1.0, facts), Result("c", {}, STORED | changed, 1.0, now)]
    return list(again.lines(*results))


def test_a_cell_run_again_says_where_both_results_come_from_and_what_differs():
    row = STORED["row"] | {"gap": 0.02, "seconds": 9.0, "kernels": 8, "objective": -31.6}
    assert again_lines({"row": row, "new": True, "curve": [1.0, 0.5]}) == [
        "stored: commit 0123abcd, 2026-11-22 19:56, A processor",
        "now:    commit 4567abcd+, 2026-11-24 10:19, Another",
        "the same: 4 values",
        "times, which are no difference:",
        "  one reading: stored 0.1 s, now 0.1 s, ratio 1.00",
        "  row/seconds: stored 3 s, now 9 s, ratio 3.00",
        "different: 5 values",
        "  row/gap: stored 0.01, now 0.02, relative difference 1.0e-02",
        "  row/objective: stored -31.305855967025444, now -31.6, relative difference 9.3e-03",
        "  row/kernels: stored 9, now 8, relative difference 1.1e-01",
        "  curve[1]: stored 2e-10, now 0.5, relative difference 5.0e-01",
        "  new: stored None, now True",
        "row: both meet their tolerance; relative gaps 1.0e-02 and 2.0e-02; objectives differ by 9.3e-03, "
        "as these gaps allow",
    ]
    assert again_lines({"row": row | {"objective": -40.0, "status": "STALLED"}})[-1].endswith(
        "row: stored OPTIMAL, now STALLED; relative gaps 1.0e-02 and 2.0e-02; objectives differ by 2.2e-01, "
        "MORE THAN THESE GAPS ALLOW"
    )


def test_times_and_last_digits_are_no_difference():
    row = STORED["row"] | {"objective": -31.30585596702528, "gap": 0.01 + 1e-12, "seconds": 4.0}
    found = STORED | {"row": row, "curve": [1.0, 3e-10], "noise": 0.0, "one reading": 0.2}
    groups = again.compare(STORED, found)
    assert [pair.name for pair in groups.digits] == ["row/gap", "row/objective", "curve[1]", "noise"]
    assert [pair.name for pair in groups.times] == ["one reading", "row/seconds"]
    assert groups.different == []
    assert again_lines({"row": row})[3] == (
        "the same but for the last digits: 2 values, at most row/gap: stored 0.01, now 0.010000000001, "
        "relative difference 1.0e-12"
    )
    assert again.compare({"x": True, "y": [1, 2]}, {"x": 1.0 + 1e-12, "y": [1, 2, 3]}).same == []


def test_what_only_one_result_has_is_named_value_by_value():
    new = {"gap": 0.5, "seconds": 2.0, "curve": [1.0, 2.0]}
    for pair in ({}, {"new": new}), ({"new": new}, {}):
        groups = again.compare(*pair)
        assert [each.name for each in groups.different] == ["new/gap", "new/curve"]
        assert [each.name for each in groups.times] == ["new/seconds"]
    assert "  new/seconds: stored None, now 2.0" in again_lines({"new": new})


@pytest.mark.parametrize("name", ["kloft-times", "kloft-scale", "tomioka-evidence", "szafranski-spambase"])
def test_times_are_known_by_one_table(name):
    """A count of work is none: the same code repeats it."""
    (experiment,) = experiments([name])
    found = [
        again.compare(r.values, r.values).times for r in store.read(ROOT / RESULTS / "reproduce", experiment).values()
    ]
    expected_times = {
        "kloft-times": {"seconds", "one reading", "machine alone"},
        "szafranski-spambase": {"seconds", "selection seconds"},
    }
    names = {pair.series.rpartition("/")[2] for times in found for pair in times}
    assert names == expected_times.get(name, {"seconds"})
    assert not any(map(store.measures_time, ("readings", "iterations", "inner steps", "SVM")))


@pytest.mark.parametrize(
    ("value", "code", "said"),
    [(0.5, 0, "different: no values"), (0.5 + 1e-14, 0, "last digits: 1 value"), (0.6, 1, "different: 1 value\n")],
)
def test_the_exit_code_of_a_cell_says_whether_its_result_is_the_stored_one(
    tmp_path, monkeypatch, capsys, value, code, said
):
    """Also where the run replaces the stored line."""
    monkeypatch.chdir(ROOT)
    (experiment,) = experiments(["kloft-examples"])
    cell = experiment.cells(False)[0]
    store.write(tmp_path, experiment, cell, {"value": 0.5, "seconds": 1.0}, 0.1)
    monkeypatch.setattr("validation.reproduce.run.STORED", tmp_path)
    monkeypatch.setattr("validation.facts.commit", lambda: "0123abcd")
    now = {"value": value, "seconds": 2.0}
    monkeypatch.setattr(runner, "run", lambda out, work: [store.write(out, *one, now, 0.1) for one in work])
    assert main(["reproduce", experiment.name, "--out", str(tmp_path), "--cell", cell.id, "--force"]) == code
    printed = capsys.readouterr().out
    assert said in printed
    assert "seconds: stored 1 s, now 2 s, ratio 2.00" in printed
