"""The benchmark of the native solver: turns, stopwatch, parts and their file."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest

import mklref
from mklref.native import solver

sys.path.insert(0, str(Path(__file__).parents[2]))

from validation import benchmarks
from validation.benchmarks import cells, cluster, native, native_profile, ratio, scale, turns
from validation.benchmarks.native_profile import STAGES, Stopwatch, stages
from validation.benchmarks.problems import digits, lines


class Clock:
    """Time that passes when it is told to."""

    def __init__(self) -> None:
        self.now = 0.0

    def wait(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr("time.perf_counter", lambda: clock.now)
    monkeypatch.setattr(benchmarks, "clock", lambda: clock.now)
    monkeypatch.setattr("time.sleep", clock.wait)
    return clock


def test_turns(clock):
    """A B A B with a rest before each, the first round unmeasured, the fastest where it is asked for."""
    calls = []
    lengths = {"a": iter([9.0, 1.0, 5.0, 2.0]), "b": iter([7.0, 8.0, 4.0, 3.0, 6.0, 5.0, 2.0, 3.0])}

    def work(name):
        calls.append((name, clock.now))
        clock.wait(next(lengths[name]))
        return len(calls)

    times, results = turns(3, {name: lambda name=name: work(name) for name in "ab"}, {"b": 2})
    assert [name for name, _ in calls] == list("abb" * 4)
    assert times == {"a": pytest.approx([1.0, 5.0, 2.0]), "b": pytest.approx([3.0, 5.0, 2.0])}
    assert results == {"a": 10, "b": 11}
    assert calls[1][1] - calls[0][1] > 9.0
    lengths = {"a": iter([9.0, 1.0, 5.0, 2.0]), "b": iter([7.0, 4.0, 4.0, 4.0])}
    assert ratio(3, lambda: work("a"), lambda: work("b")) == pytest.approx(0.5)


def test_time_belongs_to_the_innermost_stage(clock):
    watch = Stopwatch()
    images = watch.timed("images", lambda seconds: clock.wait(seconds))

    def machine():
        clock.wait(1.0)
        images(2.0)
        clock.wait(4.0)

    clock.wait(100.0)
    watch.restart()
    watch.timed("machines", machine)()
    clock.wait(8.0)
    watch.timed("start", machine)()
    watch.lap()
    assert {name: value for name, value in watch.spent.items() if value} == {
        "machines": 5.0,
        "images": 2.0,
        "rest": 8.0,
        "start": 7.0,
    }


def test_what_pair_steps_save_on_known_rows_was_spent_on_rows(clock):
    ready, beta = np.zeros(3), np.zeros(3)

    def smo(*arguments):
        clock.wait(3.0 if arguments[3].all() else 5.0)
        arguments[3][:] = 1.0
        arguments[9][:] += 1.0
        return 7

    watch = Stopwatch()
    arguments = [None] * 14
    arguments[3], arguments[9], arguments[10] = ready, beta, np.zeros(3)
    assert watch.timed_pairs(smo)(*arguments) == 7
    assert np.all(beta == 1.0)
    assert watch.spent["pair steps"] == 3.0
    assert watch.spent["rows"] == 2.0


def test_stages_of_a_solve():
    """All stages of a problem with p > 1 and with p = 1 are seen, and the functions are themselves again."""
    K, y, C = digits(280, 8)
    problem = mklref.Problem(K, y, C=C, regularizer=mklref.Lp(2))
    originals = [getattr(owner, name) for places in STAGES.values() for owner, name in places]
    spent, solution = stages(lambda: solver.solve(problem))
    sparse, _ = stages(lambda: solver.solve(problem.replace(regularizer=mklref.Lp(1))))
    plain = solver.solve(problem)
    assert originals == [getattr(owner, name) for places in STAGES.values() for owner, name in places]
    assert set(spent) == {*STAGES, "rest"}
    assert {name for name in spent if spent[name] <= 0.0} == {"programs", "central path"}
    assert sparse["programs"] > 0.0
    assert np.array_equal(solution.dual_coef, plain.dual_coef)


def test_lines():
    K, y, _ = lines(60, 5)
    assert K.shape == (50, 60, 60)
    assert np.abs(y).tolist() == [1.0] * 60
    assert np.linalg.matrix_rank(K[7]) == 1
    np.testing.assert_allclose([np.mean(np.diag(k)) - k.mean() for k in K], 1.0)


@pytest.mark.parametrize(
    ("row", "code"),
    [
        ({"status": "OPTIMAL"}, 0),
        ({"status": "OPTIMAL", "kept": True}, 0),
        ({"status": "OPTIMAL", "kept": False}, 1),
        ({"status": "STALLED"}, 1),
    ],
)
def test_a_part_replaces_itself_in_the_file(row, code, monkeypatch, tmp_path):
    file = tmp_path / "native.json"
    file.write_text(json.dumps({"digits": {"rows": [1]}, "pieces": {"rows": [2]}}))
    monkeypatch.setitem(native.PARTS, "pieces", lambda rounds: iter([row | {"rounds": rounds}]))
    monkeypatch.setitem(native.PARTS, "mnist", lambda rounds: iter(()))
    assert native.main(["--only", "pieces", "--rounds", "3", "--json", str(file)]) == code
    assert native.main(["--only", "mnist", "--json", str(file)]) == 0
    parts = json.loads(file.read_text())
    assert set(parts) == {"digits", "pieces"}
    assert parts["digits"] == {"rows": [1]}
    assert parts["pieces"]["rows"] == [row | {"rounds": 3}]
    assert parts["pieces"]["rounds"] == 3


def test_growth_rate():
    rows = [{"problem": "digits", "n": n, "seconds": 3.0 * n**1.5} for n in (10, 20, 70)]
    assert native.growth_rate(rows, "n")["exponent"] == pytest.approx(1.5)


def test_twin_of_the_quadratic_programs(monkeypatch):
    """Recorded in a solve and solved again from the same start."""
    monkeypatch.setattr(native_profile, "cancer", lambda: digits(60, 6))
    row = native_profile.quadratic_programs(1)
    assert len(row["variables"]) == len(row["seconds"]) == len(row["twin_seconds"]) > 0
    assert row["ratio"] == pytest.approx(np.median(np.divide(row["twin_seconds"], row["seconds"])))


def test_profile_counts_support_vectors(capsys):
    """Shares of the seconds, and of the samples whose dual variable is not zero, or strictly within the box."""
    K, y, _ = digits(60, 3)
    row = native_profile.profile("digits", 2.0, (K, y, 0.05), 1)
    alpha = np.abs(mklref.solve(mklref.Problem(K, y, C=0.05, regularizer=mklref.Lp(2.0))).dual_coef)
    assert sum(row["shares"].values()) == pytest.approx(1.0)
    assert row["support"] * 60 == pytest.approx(np.count_nonzero(alpha))
    assert row["free"] * 60 == pytest.approx(np.count_nonzero(alpha) - np.count_nonzero(alpha >= 0.05))
    assert 0.0 < row["free"] < row["support"] < 1.0
    assert f"support vectors {row['support']:.0%}" in capsys.readouterr().out


def test_the_cost_of_a_cluster_is_fitted_and_added_up():
    """Constants that made the seconds are found; without spread, pauses and losses the simulation is the model."""
    truth = {"gram": 3e-11, "read": 3e-9, "sample": 7e-7, "solve": 2e-10, "step": 6e-3}
    rows = []
    for n, r in cluster.SIZES:
        counts = {"grams": 0.3 * r, "reads": 40.0 + n / 1000.0, "steps": 12.0}
        seconds = np.dot(cluster.terms(n, r, *counts.values()), list(truth.values()))
        rows.append({"n": n, "r": r, "seconds": float(seconds)} | counts)
    model = cluster.fitted(rows)
    assert {name: model[name] for name in truth} == pytest.approx(truth, rel=1e-6, abs=0.0)
    assert model["worst"] < 1e-9
    model |= {"call": 0.01, "hop": 0.005, "network": 1e9, "rounds": 40} | cluster.counts_of_most(cluster.in_memory())
    assert 5.0 < model["reads"] < 15.0
    few, many = (cluster.predicted(model, 1e8, 1000.0, workers) for workers in (64, 1024))
    assert few["reads"] == pytest.approx(16.0 * many["reads"]) == pytest.approx(3e-9 * model["reads"] * 1e11 / 64)
    assert many["calls"] == pytest.approx((40 + 4 * 10) * 0.06)
    rng = np.random.default_rng(0)
    calm = cluster.simulated(many, 1024, rng, spread=0.0, pause=0.0, days=np.inf, solves=2)
    assert calm == pytest.approx({"mean": 1.0, "95 %": 1.0, "lost": 0.0})
    one, other = (cluster.simulated(few, workers, rng, days=np.inf, solves=3)["mean"] for workers in (8, 512))
    assert 1.0 < one < other


@pytest.mark.thorough
def test_weights_of_gene_sets_in_small_form(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(cells, "CS", np.array([0.1, 0.3]))
    monkeypatch.setattr(
        sys, "argv", ["cells", "300", "--sets", "9", "4", "3", "--results", str(tmp_path / "cells.json")]
    )
    cells.main()
    rows = {row["weights"]: row for row in json.loads((tmp_path / "cells.json").read_text())}
    assert list(rows) == ["p = 1", "uniform", "LinearSVC"]
    for name in ("p = 1", "uniform"):
        assert rows[name]["gap"] <= 1e-6
        assert rows[name]["lower"] <= rows[name]["upper"]
    assert rows["p = 1"]["share of the relevant"] > rows["uniform"]["share of the relevant"] == pytest.approx(6 / 16)
    assert rows["LinearSVC"]["upper"] >= rows["uniform"]["lower"]
    capsys.readouterr()
    cells.main()  # nothing is measured again
    assert len(json.loads((tmp_path / "cells.json").read_text())) == 3


def test_tables_of_the_documentation_are_those_of_the_results():
    root = Path(__file__).parents[2]
    rows = json.loads((root / "validation" / "results" / "scale.json").read_text())
    told = (root / "docs" / "scale.md").read_text(encoding="utf-8").splitlines()
    for data in ("mnist", "letter"):
        made = scale.table(rows, data)
        first = told.index(made[0])
        assert told[first : first + len(made) + 1] == [*made, ""]
