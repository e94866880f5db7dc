"""What a file of results says of its run."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from validation.benchmarks import algorithms, certificates, scaling, selection, turns
from validation.facts import CODE, RESULTS, commit, facts


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
        lambda: turns.turns(1, {"nothing": lambda: None}),
        lambda: selection.timed(lambda: None),
        lambda: scaling.measure(10, 1, 1.0),
    ):
        with pytest.raises(SystemExit, match=r"Nothing is timed without the compiled core\. No compiler\."):
            time_it()
