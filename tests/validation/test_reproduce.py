"""The reproductions: the frame on a small experiment, and its command."""

from __future__ import annotations

import json
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from mklref.cli import main
from mklref.exceptions import InvalidInput, InvalidParameter, UnsafeFile
from validation.reproduce import expected, report, run as runner, store
from validation.reproduce.base import Cell, Evidence, Experiment, Summary
from validation.reproduce.experiments import NAMES, experiments

ROOT = Path(__file__).parents[2]

EXPECTED = """
[toy]
paper = "Nobody 2000"
[[toy.table]]
id = "t"
source = "Table 9"
runs = 4
rules = { near = "within 1", scale = "factor 2", spread = "deviation", mean = "error", seconds = "shown" }
[toy.table.rows]
fits = [[10], [4], [5, 1], [5, 1], [1]]
fails = [[10], [4], [5, 1], [5, 1], [1]]
[[toy.claim]]
source = "section 1"
says.good = "It is good."
[[toy.claim]]
source = "section 2"
says.bad = "It is bad."
[[toy.cause]]
of = ["t/fails/*", "nothing"]
text = '''The paper
counts otherwise.'''
"""
OURS = {
    "fits": {"near": [11] * 5, "scale": [8] * 5, "spread": [5.9] * 5, "mean": [5.9] * 5, "seconds": [100]},
    "fails": {"near": [11.1] * 5, "scale": [8.1] * 5, "spread": [6.1] * 5, "mean": [6.1, 6.2] * 3, "seconds": [100]},
}


def test_every_bound_of_ours_is_a_number_of_a_known_experiment_and_is_read():
    modules = {name.replace("-", "_") for name in NAMES}
    source = "".join(
        path.read_text(encoding="utf-8") for path in Path(experiments.__code__.co_filename).parent.glob("*.py")
    )
    for module, numbers in expected.bounds().items():
        assert module in modules
        for name, value in numbers.items():
            assert value > 0.0
            assert f'"{name}"' in source
    assert expected.bound("kloft_toy", "reached") == 0.25


def make(calls: list[dict], seeds: tuple[int, ...] = (0, 1)) -> Experiment:
    """An experiment that notes what is run."""

    def cell(config: dict) -> dict:
        calls.append(config)
        return {"draw": float(np.random.default_rng(config["seed"]).random())}

    cells = [Cell(f"cell-{seed}", {"seed": seed}, 1.0) for seed in seeds]
    claims = {"good": Evidence(True, "yes"), "bad": Evidence(False, "no")}
    return Experiment("toy", "Toy", "Nothing.", lambda quick: cells, cell, lambda results: Summary({"t": OURS}, claims))


@pytest.fixture(autouse=True)
def checkout(monkeypatch):
    """Where the command is run."""
    monkeypatch.chdir(ROOT)


@pytest.fixture
def compared(tmp_path):
    """What is expected, in these words, beside a summary with these changes."""

    def compare(text=EXPECTED, quick=False, **changes):
        (tmp_path / "toy.toml").write_text(text)
        experiment = make([])
        return expected.compare(experiment, replace(experiment.summary([]), **changes), quick, tmp_path)

    return compare


@pytest.fixture
def comparison(compared):
    return compared()


def test_rules(comparison):
    verdicts = comparison.verdicts
    columns = ("near", "scale", "spread", "mean")
    assert [verdicts[f"t/fits/{column}"] for column in columns] == ["matches"] * 4
    assert [verdicts[f"t/fails/{column}"] for column in columns] == ["differs"] * 4
    assert "t/fits/seconds" not in verdicts
    assert (verdicts["good"], verdicts["bad"]) == ("matches", "differs")


def test_standard_error_is_that_of_both_means(comparison):
    entry = comparison.tables[0].rows["fails"][3]
    assert entry.error == pytest.approx(np.sqrt(np.var([6.1, 6.2] * 3, ddof=1) / 6 + 1.0 / 4))
    assert report.distance(entry) == "+2.3 se"
    assert replace(entry, ours=(6.1,)).error == pytest.approx(np.sqrt(1.0 + 1.0 / 4))


@pytest.mark.parametrize(
    ("rule", "paper", "ours", "verdict"),
    [  # our deviation is 1 or 0.1, of 5 or 20 repetitions
        ("deviation", (5.0, 1.0), 6.2 + 0.1 * np.array([-1, -1, 0, 1, 1]), "differs"),
        ("deviation", (5.0, 1.0), 6.2 + np.array([-1, -1, 0, 1, 1]), "undecided"),
        ("deviation", (5.0, 1.0), 6.2 + np.array([-1, 1] * 100), "differs"),
        ("deviation", (5.0, 1.0), 5.9 + np.array([-1, -1, 0, 1, 1]), "matches"),
        ("within 1", (5.0,), 6.2 + 0.1 * np.array([-1, -1, 0, 1, 1]), "differs"),
        ("within 1", (5.0,), 6.2 + np.array([-1, -1, 0, 1, 1]), "undecided"),
        ("within 1", (5.0, 1.0), 6.2 + 0.1 * np.array([-1, -1, 0, 1, 1]), "undecided"),  # the paper's error counts
        ("factor 2", (5.0,), 10.5 + 0.1 * np.array([-1, -1, 0, 1, 1]), "differs"),
        ("factor 2", (5.0,), 10.5 + np.array([-1, -1, 0, 1, 1]), "undecided"),
        ("factor 2", (5.0,), 2.2 + np.array([-1, -1, 0, 1, 1]), "undecided"),
        ("factor 2", (5.0,), 2.2 + 0.1 * np.array([-1, -1, 0, 1, 1]), "differs"),
        ("error", (5.0, 1.0), 6.2 + 0.1 * np.array([-1, -1, 0, 1, 1]), "differs"),
        ("deviation", (5.0, 1.0), 5.0 + 4.0 * np.array([-1, -1, 0, 1, 1]), "undecided"),  # agrees by chance
        ("within 1", (5.0,), 5.0 + 4.0 * np.array([-1, -1, 0, 1, 1]), "undecided"),
        ("within 1", (5.0,), [5.0] * 4, "undecided"),
        ("within 1", (5.0,), [50.0] * 4, "undecided"),
    ],
)
def test_noise_and_few_repetitions_decide_nothing(rule, paper, ours, verdict):
    assert expected.Entry("t/row/column", paper, tuple(ours), rule, runs=4).verdict == verdict


def test_one_repetition_decides_what_is_so_by_construction_and_nothing_else(compared):
    for built, verdict in (("", "undecided"), ("construction = true\n", "matches")):
        text = EXPECTED.replace("runs = 4\n", f"runs = 4\n{built}")
        assert compared(text, tables={"t": {"fits": {"near": [11.0]}}}).verdicts["t/fits/near"] == verdict


def test_the_median_is_compared_where_the_table_says_so_with_its_own_error(compared):
    values = {"near": [10.0, 10.1, 9.9, 10.0, 90.0], "scale": [4.0, 4.1, 3.9, 4.0, 90.0]}
    text = EXPECTED.replace("runs = 4\n", 'runs = 4\nmedians = ["scale"]\n')
    near, scale, *_ = compared(text, tables={"t": {"fits": values}}).tables[0].rows["fits"]
    assert near.mean == pytest.approx(26.0)
    assert scale.mean == 4.0
    assert scale.own_error == pytest.approx(np.sqrt(np.pi / 2) * np.std(scale.ours, ddof=1) / np.sqrt(5))


@pytest.mark.parametrize(
    ("mean", "deviation", "text"),
    [
        (0.0, None, "0"),
        (244.0, 0.0, "244"),
        (131.2, 43.1, "131 ± 43"),
        (9.04, 11.21, "9.0 ± 11.2"),
        (0.000512, 0.00042, "0.000512 ± 0.000420"),
        (2.2e-16, None, "2.2e-16"),
        (2.2e-16, 4.1e-17, "2.2e-16 ± 4.1e-17"),
    ],
)
def test_numbers_show_three_figures(mean, deviation, text):
    """Rounding errors, too, are shown: 0 stands for 0 alone."""
    assert report.numbers(mean, deviation) == text


def test_causes_explain_by_pattern_and_the_rest_is_unexplained(comparison):
    (text, explained, *_), (last, unexplained, *_) = comparison.causes
    assert text == "The paper counts otherwise."
    assert set(explained) == {f"t/fails/{column}" for column in ("near", "scale", "spread", "mean")}
    assert last == expected.UNEXPLAINED
    assert comparison.unexplained == unexplained == ("bad",)


def test_a_sentence_that_is_not_decided_does_not_agree(compared):
    comparison = compared(claims={"good": Evidence(False, "2 runs", decided=False), "bad": Evidence(False, "no")})
    assert (comparison.verdicts["good"], comparison.verdicts["bad"]) == ("undecided", "differs")
    drawn = report.Section(make([]), [], 2, 0.0, comparison, {}, "", "")
    assert drawn.counts("paper") == (4, 6)
    assert drawn.verdict.startswith("4 match, 5 differ, 1 undecided")


def test_what_is_undecided_is_never_explained_as_a_finding(compared):
    tables = {"t": {**OURS, "fails": {**OURS["fails"], "near": [11.1]}}}
    comparison = compared(tables=tables)
    causes = {keys: (text, verdict) for text, keys, _, verdict, _ in comparison.causes}
    assert causes[("t/fails/near",)] == (expected.UNDECIDED, "undecided")
    assert comparison.count("undecided") == 1
    assert comparison.unexplained == ("bad",)
    own = EXPECTED + "[[toy.cause]]\nof = ['t/*']\nundecided = true\ntext = 'One run.'\n"
    causes = {cause.text: cause.keys for cause in compared(own, tables=tables).causes}
    assert causes["One run."] == ("t/fails/near",)
    assert "t/fails/near" not in causes["The paper counts otherwise."]


def test_causes_cite_what_was_measured(compared):
    """A figure without a measurement is not printed as one."""
    own = EXPECTED.replace("counts otherwise.", "has {all-of-it}, not {the-rest}.")
    text, *_ = compared(own, measured={"all-of-it": "7 %"}).causes[0]
    assert text == f"The paper has 7 %, not {expected.NOT_MEASURED}."


def test_quick_results_are_not_compared_with_other_problems(compared):
    quick = compared(quick=True)
    assert quick.verdicts == {"good": "matches", "bad": "differs"}
    assert [cause[:2] for cause in quick.causes] == [(expected.OTHER_PROBLEMS, ("bad",))]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (EXPECTED.replace('"within 1"', '"about 1"'), "rule 'about 1'"),
        (EXPECTED.replace("[[10], [4], ", "[[10], "), "row 'fits' has 4 entries, not 5"),
        ('[toy]\npaper = "x"', "no table or claim bad, good, t"),
    ],
)
def test_expectations_that_are_damaged_or_lack_something_are_named(compared, text, message):
    with pytest.raises(InvalidInput, match=message):
        compared(text)


def test_a_finished_cell_is_not_run_again_and_a_changed_one_is(tmp_path):
    calls: list[dict] = []
    experiment = make(calls)
    work = runner.unfinished(tmp_path, [experiment], quick=False)
    runner.run(tmp_path, work, minutes=0.0)
    assert not calls  # none is started after the time
    runner.run(tmp_path, work[:1])
    assert [cell.id for _, cell in runner.unfinished(tmp_path, [experiment], quick=False)] == ["cell-1"]
    runner.run(tmp_path, runner.unfinished(tmp_path, [experiment], quick=False))
    assert calls == [{"seed": 0}, {"seed": 1}]
    assert len(runner.finished(tmp_path, experiment, quick=False)) == 2
    changed = replace(experiment, cells=lambda quick: [Cell("cell-0", {"seed": 7}, 1.0)])
    assert len(runner.unfinished(tmp_path, [changed], quick=False)) == 1


def test_results_are_sorted_lines_of_plain_json(tmp_path):
    experiment = make([], seeds=(1, 0))
    runner.run(tmp_path, runner.unfinished(tmp_path, [experiment], quick=False))
    rows = [json.loads(line) for line in (tmp_path / "toy.jsonl").read_text().splitlines()]
    assert [row["cell"] for row in rows] == ["cell-0", "cell-1"]
    for row in rows:
        assert list(row) == list(store.FIELDS)
        assert {"date", "commit", "machine", "numpy", "mklref", "load"} <= set(row["facts"])
    with pytest.raises(ValueError, match="JSON"):
        store.write(tmp_path, experiment, Cell("nan", {}, 1.0), {"x": float("nan")}, 1.0)
    assert len(store.read(tmp_path, experiment)) == 2


@pytest.mark.parametrize("damage", ["{", "[]", '{"cell": "other"}', "twice"])
def test_damaged_results_are_refused_by_line(tmp_path, damage):
    runner.run(tmp_path, runner.unfinished(tmp_path, [make([])], quick=False))
    path = tmp_path / "toy.jsonl"
    lines = path.read_text().splitlines()
    path.write_text("\n".join([*lines, lines[0] if damage == "twice" else damage]))
    with pytest.raises(UnsafeFile, match=r"toy\.jsonl, line 3, .* Delete it"):
        runner.unfinished(tmp_path, [make([])], quick=False)


def test_runs_that_share_a_directory_lose_nothing(tmp_path):
    experiment = make([])
    cells = [Cell(f"cell-{k:02}", {"seed": k}, 1.0) for k in range(24)]
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda cell: store.write(tmp_path, experiment, cell, {}, 0.0), cells))
    assert list(store.read(tmp_path, experiment)) == [cell.id for cell in cells]


@pytest.mark.parametrize(("commit", "again"), [("0123abcd", []), ("0123abcd+", ["cell-0"]), (None, ["cell-0"])])
def test_results_of_unknown_code_are_stale(tmp_path, monkeypatch, commit, again):
    monkeypatch.setattr(store, "facts", lambda: {"commit": commit})
    experiment = make([], seeds=(0,))
    runner.run(tmp_path, runner.unfinished(tmp_path, [experiment], quick=False))
    assert runner.unfinished(tmp_path, [experiment], quick=False) == []
    assert [cell.id for _, cell in runner.unfinished(tmp_path, [experiment], quick=False, stale=True)] == again


@pytest.mark.parametrize("commit", [None, "0123abcd+"])
def test_the_repository_takes_no_results_of_changed_code(tmp_path, monkeypatch, commit, refused):
    monkeypatch.setattr("validation.facts.commit", lambda: commit)
    monkeypatch.setattr("validation.reproduce.run.STORED", tmp_path)
    line = refused(["reproduce", "kloft-examples", "--quick", "--out", str(tmp_path)])
    assert "commit first, or use another directory" in line
    assert list(tmp_path.iterdir()) == []


def test_only_a_directory_of_an_earlier_run_is_written_into(tmp_path, refused):
    run = ["reproduce", "kloft-examples", "--quick", "--out", str(tmp_path), "--minutes", "0"]
    (tmp_path / "other.html").write_text("of somebody else")
    assert f"cannot write into {tmp_path}: what it holds is not of an earlier run." in refused(run)
    assert main([*run, "--force"]) == 1  # an unfinished run is no success
    assert main(run) == main([*run, "--render"]) == 1  # its own report is there now
    (tmp_path / "report.html").write_text("of somebody else")
    assert main(run) == 2
    assert {path.read_text() for path in tmp_path.iterdir()} == {"of somebody else"}
    for out in ("other.html", "other.html/deep"):
        assert "is a file, and results are several" in refused([*run[:3], "--out", str(tmp_path / out)])


def test_a_finished_cell_is_run_again_by_force_alone(tmp_path, monkeypatch, refused):
    (experiment,) = experiments(["kloft-examples"])
    cell = experiment.cells(True)[0]
    run = ["reproduce", experiment.name, "--quick", "--out", str(tmp_path), "--cell", cell.id]
    monkeypatch.setattr(runner, "run", lambda out, work: [store.write(out, *one, {"value": 1.0}, 0.1) for one in work])
    assert main(run) == 0
    assert f"has the cell {cell.id}; --force runs it again and replaces it." in refused(run)
    assert main([*run, "--force"]) == 0


def test_unknown_cells_and_experiments_are_named():
    with pytest.raises(InvalidParameter, match="no cell 'x'; it has cell-0, cell-1"):
        runner.named(make([]), "x", quick=False)
    with pytest.raises(InvalidParameter, match="'nosuch' is unknown; known: all, simplemkl-table1"):
        experiments(["nosuch"])


def test_outside_of_a_checkout_the_command_says_where_to_run_it(tmp_path, monkeypatch, refused):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("mklref.cli.others.find_spec", lambda name: None)
    monkeypatch.setattr(sys, "path", list(sys.path))
    assert "Run this command from a checkout" in refused(["reproduce", "all", "--quick"])


def test_all_are_listed_without_a_name_and_nothing_is_run_without_one(run, refused):
    printed = run(["reproduce", "--list"]).out
    assert all(f"{name}: " in printed for name in NAMES)
    assert "estimated" in printed
    assert "  pima-00-paper  " in printed
    assert "NAME is missing: an experiment, or all; --list shows them." in refused(["reproduce"])


def test_a_cell_that_was_never_run_is_not_rendered(tmp_path, refused):
    run = ["reproduce", "kloft-examples", "--quick", "--out", str(tmp_path), "--cell", "nosuch", "--render"]
    assert "has no result of the cell nosuch; without --render it is run." in refused(run)


def test_data_are_looked_for_before_hours_are_spent(monkeypatch, tmp_path, refused):
    """In the directory's manifest, where titanic is ida/titanic; sets that can be fetched may fail to be, later."""
    monkeypatch.delenv("MKLREF_DATA", raising=False)
    command = ["reproduce", "simplemkl-table1", "--out", str(tmp_path)]
    assert "MKLREF_DATA is not set: lacking for simplemkl-table1 (liver" in refused(command)
    monkeypatch.setenv("MKLREF_DATA", str(tmp_path))
    assert "lacking for simplemkl-table1 (liver, pima, ionosphere, wpbc, sonar). Set it" in refused(command)
    table = [{"path": "titanic.csv.gz", "sha256": ""}]
    sets = [{"name": name, "files": table} for name in ("ida/titanic", "liver", "pima", "wpbc")]
    (tmp_path / "MANIFEST.json").write_text(json.dumps({"data_sets": sets}))
    with pytest.raises(InvalidParameter, match=r"does not list all data: lacking for simplemkl-table1 \(ionosphere, s"):
        runner.require_data(experiments(["simplemkl-table1"]), quick=False)
    runner.require_data(experiments(["kowalski-titanic"]), quick=False)
    runner.require_data(experiments(["simplemkl-table1"]), quick=True)


@pytest.mark.parametrize("minutes", ["-3", "nan"])
def test_minutes_are_not_negative(tmp_path, minutes, refused):
    line = refused(["reproduce", "kloft-examples", "--quick", "--out", str(tmp_path), "--minutes", minutes])
    assert f"minutes = {float(minutes)} must be at least 0" in line
    assert not list(tmp_path.iterdir())


def test_what_the_papers_repetitions_share_may_leave_it_undecided_and_never_makes_a_match():
    entry = expected.Entry("t/row/column", (5.0, 1.0), (6.1, 6.2) * 3, "error", runs=4, shared=1.0)
    error = np.sqrt(np.var(entry.ours, ddof=1) / 6 + 1.0 / 4)
    assert entry.error == pytest.approx(error)
    assert 2.0 * error < entry.mean - 5.0 < 2.0 * np.sqrt(error**2 + 1.0)
    assert entry.verdict == "undecided"
    assert replace(entry, shared=0.0).verdict == "differs"
    assert replace(entry, shared=0.01).verdict == "differs"
    assert replace(entry, ours=(5.5, 5.6) * 3).verdict == "matches"


@pytest.mark.parametrize(
    ("old", "new", "verdict", "counts"),
    [
        ('"section 2"', f'"{expected.BESIDES}"', "differs", [4, 0, 0, 1]),
        ('"section 2"', f'"{expected.BESIDES}"', "matches", [5, 0, 0, 0]),
        ("says.good", "construction = true\nsays.good", "matches", [4, 0, 1, 0]),
        ("says.bad", 'decided_by = "other"\nsays.bad', "differs", [4, 1, 0, 0]),
    ],
)
def test_our_own_questions_what_is_built_in_and_what_another_run_decides_are_counted_apart(
    compared, old, new, verdict, counts
):
    comparison = compared(EXPECTED.replace(old, new))
    assert [comparison.count(verdict, origin) for origin in expected.ORIGINS] == counts
    elsewhere = [
        claim.label for title, claims in comparison.claims_by_origin if "another run" in title for claim in claims
    ]
    assert elsewhere == ["It is bad. (section 2; other decides)"] * counts[1]
