"""What decides the claims of SimpleMKL's experiments: each statistic against a definition, and where it must fail.

Every experiment in its quick form.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pytest
from scipy.stats import spearmanr

from mklref.cli import main
from mklref.datasets import Dataset, load
from validation.reproduce import pictures, run as runner
from validation.reproduce.base import Result, sign_test
from validation.reproduce.experiments import (
    NAMES,
    experiments,
    simplemkl_data as ratios,
    simplemkl_growth,
    simplemkl_multiclass,
    simplemkl_path,
    simplemkl_table1,
    simplemkl_table1_claims as table1,
    simplemkl_wavelets,
)
from validation.reproduce.experiments.simplemkl_data import Reached, printed

ROOT = Path(__file__).parents[2]


def by_split(values):
    return dict(enumerate(values))


def test_sign_test_is_a_binomial_tail_and_ties_do_not_count():
    assert sign_test([2.0, 3.0, 1.5, 0.5]) == pytest.approx(5 / 16)
    assert sign_test([2.0, 3.0, 1.0, 1.0]) == pytest.approx(1 / 4)
    assert sign_test([1.0, 1.0]) == 1.0
    outlier = 1.0 + np.array([11.0, -13.0, -76.0, 2.0, 24.0, -18.0, -102.0, -20.0, 855.0, 17.0])
    assert sign_test(outlier) == pytest.approx(638 / 1024)


def test_one_slow_run_does_not_make_an_algorithm_slower():
    """The mean of these ratios is 3.8; nothing says that the first algorithm is the slower one."""
    wpbc = by_split([2.68, 0.2, 0.88, 0.87, 1.42, 27.0, 1.59, 1.1, 1.74, 1.01])
    assert np.mean(list(wpbc.values())) > 3.0
    assert ratios.median(wpbc) == pytest.approx(1.26)
    assert not ratios.above_one("seconds", {"wpbc": wpbc}).holds


def test_every_data_set_has_to_be_above_one():
    above, even = by_split([2.0] * 20), by_split([2.0, 0.5] * 10)
    assert ratios.above_one("x", {"a": above, "b": above}).holds
    assert not ratios.above_one("x", {"a": above, "b": even}).holds
    assert not ratios.above_one("x", {"a": above, "b": by_split([0.9])}).holds
    found = ratios.above_one("x", {"a": above, "b": by_split([1.5])})
    assert found.holds
    assert "b 1.5 (1 split)" in found.text


def test_tests_of_several_sets_are_adjusted():
    """9 of 10 splits decide one set, and not five of them together."""
    most = by_split([2.0] * 9 + [0.5])
    assert ratios.above_one("x", {"a": most}).holds
    assert not ratios.above_one("x", {str(k): most for k in range(5)}).holds


def test_averages_have_two_bounds():
    sets = {"a": by_split([1.0, 1.2, 9.0]), "b": by_split([1.3])}
    assert ratios.average("x", sets, 1.2, 1.3).holds
    assert not ratios.average("x", sets, 1.3, 2.0).holds
    assert not ratios.average("x", sets, 1.0, 1.2).holds


def test_rank_correlation_is_that_of_spearman():
    rng = np.random.default_rng(0)
    sizes, gains = [91.0, 117.0, 442.0, 442.0, 793.0], rng.normal(size=5).tolist()
    assert ratios.rank_correlation(sizes, gains) == pytest.approx(spearmanr(sizes, gains).statistic)
    assert ratios.rank_correlation(sizes, [1.0] * 5) == 0.0


def test_gains_grow_on_the_splits_and_not_by_accident():
    sizes = {"a": 1, "b": 2, "c": 3}
    growing = {name: by_split([size * 1.0] * 8) for name, size in sizes.items()}
    assert ratios.grows("x", growing, sizes).holds
    assert not ratios.grows("x", {name: by_split([-size * 1.0] * 8) for name, size in sizes.items()}, sizes).holds
    turns = {name: by_split([size * (-1.0) ** k for k in range(8)]) for name, size in sizes.items()}
    found = ratios.grows("x", turns, sizes)
    assert not found.holds
    assert not found.decided


def test_a_test_that_finds_nothing_decides_nothing_and_the_opposite_does():
    even, below = by_split([2.0, 0.5] * 10), by_split([0.5] * 20)
    assert not ratios.above_one("x", {"a": even}).decided
    assert not ratios.above_one("x", {"a": by_split([0.5] * 4)}).decided
    assert ratios.above_one("x", {"a": even, "b": below}).decided
    assert ratios.above_one("x", {"a": by_split([2.0] * 20)}).decided
    sizes = {"a": 1, "b": 2, "c": 3}
    for count, decided in ((8, True), (4, False)):
        falling = {name: by_split([-size * 1.0] * count) for name, size in sizes.items()}
        assert ratios.grows("x", falling, sizes).decided == decided


def test_splits_that_keep_the_shares_are_told_from_others_by_their_spread():
    def pairs(spread, count=20):
        rng = np.random.default_rng(0)
        rows = [
            {"accuracy": 77.0 + width * rng.normal(), "larger class": 76.0 + rng.normal()} for width in spread * count
        ]
        config = {"data": "wpbc", "group": "cause", "about": "strata"}
        both = zip(rows[::2], rows[1::2], strict=True)
        return [Result("", config, {"random": a, "stratified": b}, 1.0, {}) for a, b in both]

    assert table1.drawing(pairs((5.0, 1.0)))["drawing"].holds
    alike, reverse = (table1.drawing(pairs(spread))["drawing"] for spread in ((1.0, 1.0), (1.0, 5.0)))
    assert not alike.holds
    assert not alike.decided
    assert not reverse.holds
    assert reverse.decided
    assert table1.drawing(pairs((5.0, 1.0), 4)) == {}


def test_sets_above_one_are_counted_by_their_median():
    sets = {"a": by_split([2.0, 2.0, 0.1]), "b": by_split([0.5, 0.5, 9.0]), "c": by_split([1.0])}
    assert ratios.sets_above_one(sets) == "1 of 3"


def test_runs_above_the_stated_gap_are_named():
    good = [Reached("a", 0.009, 0.01), Reached("b", 1e-6, 1e-6)]
    assert ratios.reached(good).text == "2 of 2 runs reached the gap of 0.01 or 1e-06; the worst is 1e-06 (b)"
    found = ratios.reached([*good, Reached("c", 0.108, 0.01), Reached("d", float("nan"), 0.01)])
    assert not found.holds
    assert "2 of 4" in found.text
    assert "c (0.108)" in found.text
    assert "d (nan)" in found.text


def test_runs_keep_the_splits_of_both_algorithms_together():
    def result(seed, **counts):
        rows = {name: {"kernels": count, "gap": 0.1} for name, count in counts.items()}
        return Result(f"liver-{seed:02d}", {"data": "liver", "group": "paper", "seed": seed}, rows, 1.0, {})

    runs = table1.Runs([result(1, first=6.0, second=2.0), result(0, first=4.0, second=4.0), result(2, first=100.0)])
    assert runs.ratio("kernels", "first", "second") == {"liver": {0: 1.0, 1: 3.0}}
    assert runs.mean("liver", "first", "kernels", like="second") == 5.0
    found = table1.gaps([result(0, **{"solve, 1e-6": 1.0, "SILP": 1.0})])
    assert not found["gaps"].holds
    assert not found["native-gap"].holds
    assert "liver-00, solve, 1e-6 (0.1)" in found["native-gap"].text


def test_rise_needs_a_flat_part_below_the_plateau_on_every_set():
    low, high = [3.0] * 8, [12.0] * 12
    rising = np.array([high + low] * 6)
    assert simplemkl_path.rise({"a": rising}).holds
    slope = np.array([high + list(range(12, 4, -1))] * 6, dtype=float)
    falling = np.array([low + high] * 6)
    for other in (falling, slope):
        assert not simplemkl_path.rise({"a": other, "b": rising}).holds
        assert not simplemkl_path.rise({"a": rising, "b": other}).holds


@pytest.mark.parametrize(
    ("first", "top", "holds"),
    [
        ([10.0, 10.0, 10.0, 10.5], 12.0, True),
        ([10.0, 10.0, 10.0, 10.0], 10.0, False),
        ([10.0, 10.0, 10.0, 10.5], 15.0, False),
        ([9.0, 10.0, 11.0, 12.0], 12.5, False),
    ],
)
def test_overshoot_is_small_and_before_a_plateau(first, top, holds):
    rows = np.array([[*first, top, *([3.0] * 15)]] * 3)
    assert simplemkl_path.overshoot({"a": rows}).holds == holds


def test_exponents_are_judged_with_their_errors():
    rng = np.random.default_rng(0)
    near, loose = 1.0 + 0.1 * rng.normal(size=20), 1.3 + 0.5 * rng.normal(size=20)
    steep = 1.3 + 0.1 * rng.normal(size=20)
    assert simplemkl_growth.nearly_linear({"a": near}).holds
    assert not simplemkl_growth.nearly_linear({"a": near, "b": loose}).holds
    assert simplemkl_growth.above_linear({"a": steep}).holds
    assert not simplemkl_growth.above_linear({"a": steep, "b": near}).holds


def test_slope_of_seconds_is_that_of_machines_and_of_their_price():
    sizes = np.array([10.0, 20.0, 40.0])
    values = {"SimpleMKL": {"seconds": (sizes**1.5).tolist(), "SVM": (sizes**0.5).tolist()}}
    result = Result("", {"sizes": sizes.tolist()}, values, 1.0, {})
    found = [simplemkl_growth._slope(result, "SimpleMKL", name) for name in ("seconds", "SVM", "price")]
    assert found == pytest.approx([1.5, 0.5, 1.0])


def test_errors_of_wavelets_are_compared_in_pairs():
    rng = np.random.default_rng(0)
    worse = 5.0 + rng.normal(size=20)
    assert simplemkl_wavelets.lower("x", {"a": (worse - 0.1 + 0.01 * rng.normal(size=20), worse)}).holds
    assert not simplemkl_wavelets.lower("x", {"a": (worse + 0.01 * rng.normal(size=20), worse)}).holds


def test_errors_of_classes():
    rng = np.random.default_rng(0)
    noise = rng.normal(size=20)
    assert simplemkl_multiclass.larger_is_better({"a": (5.0 + noise, 3.0 - noise)}).holds
    assert not simplemkl_multiclass.larger_is_better({"a": (5.0 + noise, 3.0 - noise), "b": (noise, -noise)}).holds
    quoted = {"a": [5.0, 1.0], "b": [5.0, 1.0]}
    assert simplemkl_multiclass.no_worse({"a": 5.2 + noise, "b": 3.0 + noise}, quoted).holds
    assert not simplemkl_multiclass.no_worse({"a": 6.5 + noise, "b": 3.0 + noise}, quoted).holds


def test_stratified_splits_keep_the_shares_and_use_every_sample_once():
    rng = np.random.default_rng(0)
    y = np.array(["a"] * 30 + ["b"] * 70)
    X = rng.normal(size=(100, 2))
    found = [simplemkl_table1.stratified(Dataset("x", X, y, ("u", "v"), ""), seed, 50) for seed in range(3)]
    for parts in found:
        assert (len(parts.y), len(parts.y_new)) == (50, 50)
        assert sorted([np.mean(parts.y == 1.0), np.mean(parts.y_new == 1.0)]) == pytest.approx([0.7, 0.7])
    assert not np.array_equal(found[0].X, found[1].X)


@pytest.mark.thorough
def test_cells_of_causes_on_bundled_data(monkeypatch):
    data = load("iris")
    pair = data.take(np.flatnonzero(data.y != "setosa"))
    monkeypatch.setattr(simplemkl_table1, "two_classes", lambda name: pair)
    config = {"data": "pima", "train": 60, "seed": 0, "group": "cause"}
    widths = simplemkl_table1.cause_cell({**config, "about": "widths", "between": [0.3, 30.0]})
    assert max(row["gap"] for row in widths.values()) <= 0.01
    assert widths["solve, 1e-6"]["gap"] <= 1e-6
    assert simplemkl_table1.cause_cell({**config, "about": "half"})["Grad. Desc., 0.005"]["gap"] <= 0.005
    strata = simplemkl_table1.cause_cell({**config, "about": "strata"})
    assert strata["stratified"]["larger class"] == pytest.approx(50.0)
    assert all(row["accuracy"] > 80.0 for row in strata.values())


def test_what_is_printed_is_read_from_the_expectations():
    table = printed("simplemkl_table1", "table1")
    assert table["sonar, SILP"]["SVM"] == [903, 187]
    assert "solve" not in printed("simplemkl_path", "table2")["liver"]


@pytest.mark.parametrize(("low", "high"), [(0.01, 1.0), (0.02, 0.09), (0.051, 0.058)])
def test_logarithmic_axes_have_plain_labels_however_short_they_are(low, high):
    with mpl.rc_context(pictures.SETTINGS):
        drawing, axes = pictures.figure()
        ax = axes[0, 0]
        ax.loglog([1.0, 2.0], [low, high])
        pictures.plain_logarithmic(ax.yaxis)
        drawing.draw_without_rendering()
    bottom, top = ax.get_ylim()
    shown = [tick.get_text() for tick in ax.get_yticklabels() if bottom <= tick.get_position()[1] <= top]
    assert len([text for text in shown if text]) >= 2
    assert all(float(text) > 0.0 for text in shown if text)


def test_counts_have_whole_ticks():
    drawing, axes = pictures.figure()
    axes[0, 0].plot([0, 1], [0, 2])
    pictures.whole(axes[0, 0].yaxis)
    drawing.draw_without_rendering()
    assert all(tick == round(tick) for tick in axes[0, 0].get_yticks())


@pytest.mark.thorough
@pytest.mark.parametrize("name", [name for name in NAMES if name.startswith("simplemkl")])
def test_quick_form_runs_and_reports(name, tmp_path, monkeypatch, capsys):
    monkeypatch.delenv("MKLREF_DATA", raising=False)
    monkeypatch.chdir(ROOT)
    whole = simplemkl_table1.EXPERIMENT  # one of its three splits, and a third of the costs of a path, will do
    monkeypatch.setattr(simplemkl_table1, "EXPERIMENT", replace(whole, cells=lambda quick: whole.cells(quick)[:3]))
    monkeypatch.setattr(simplemkl_path, "COSTS", simplemkl_path.COSTS[::3])
    assert main(["reproduce", name, "--quick", "--out", str(tmp_path)]) == 0
    (experiment,) = experiments([name])
    results = runner.finished(tmp_path, experiment, quick=True)
    assert len(results) == len(experiment.cells(True))
    page = (tmp_path / "report.html").read_text()
    assert "http" not in page.replace("http://www.w3.org", "")
    for result in results:
        assert f"--cell {result.id}" in page
    assert f"{len(results)} of {len(results)} cells" in capsys.readouterr().out
    SANE[name](results)


def quick_table1(results):
    for result in results:
        values = result.values
        assert (values["n"], values["M"]) == (70, 65)
        rows = {name: row for name, row in values.items() if isinstance(row, dict)}
        for label, row in rows.items():
            assert row["gap"] <= (1e-6 if label == "solve, 1e-6" else 0.01)
            assert row["accuracy"] > 70.0
            assert row["kernels"] < 65
    found = [row["objective"] for result in results for row in result.values.values() if isinstance(row, dict)]
    assert len(found) == 7
    assert max(found) <= min(found) / 0.99


def path(results):
    objectives = np.array([result.values["objective"] for result in results])
    assert np.all(np.ptp(objectives, axis=0) <= 0.011 * objectives.max(axis=0) + 1e-9)
    assert np.all(np.diff(objectives, axis=1) < 0.02 * objectives[:, :-1])
    assert all(max(result.values["gap"]) <= 0.01 for result in results)


def growth(results):
    for result in results:
        for name in ("SimpleMKL", "SILP", "solve"):
            assert len(result.values[name]["seconds"]) == len(result.config["sizes"])
            assert max(result.values[name]["gap"]) <= 0.01


def large(results):
    assert all(result.values["accuracy"] > 90.0 for result in results)
    assert next(r for r in results if r.config["solver"] == "solve").values["gap"] <= 0.01


def wavelets(results):
    (result,) = results
    for kind in ("single", "Dil", "Dil-Trans"):
        assert result.values[kind]["error"] < 10.0
    assert result.values["single"]["kernels"] == 1
    assert 2 <= result.values["Dil"]["kernels"] <= 10


def multiclass(results):
    (result,) = results
    assert result.values["error"] <= 12.0
    assert result.values["gap"] <= 0.01
    assert min(result.values["cross-validation"]) <= 12.0


SANE = {
    "simplemkl-table1": quick_table1,
    "simplemkl-path": path,
    "simplemkl-growth": growth,
    "simplemkl-large": large,
    "simplemkl-wavelets": wavelets,
    "simplemkl-multiclass": multiclass,
}
